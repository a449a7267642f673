// SPDX-License-Identifier: GPL-2.0
/*
 * What all objects of the device have in common: a number, a limit, a failure
 * on demand, and memory, which a bounce device takes only if it is shared.
 */
#include <linux/dma-buf.h>
#include <linux/sched.h>

#include "sim.h"

#define SHARED_HEAP "system_cc_shared"

const char *const sim_kind_names[SIM_KINDS] = {
	[SIM_UCONTEXT] = "ucontext",
	[SIM_PD] = "pd",
	[SIM_MR] = "mr",
	[SIM_MW] = "mw",
	[SIM_AH] = "ah",
	[SIM_CQ] = "cq",
	[SIM_QP] = "qp",
	[SIM_SRQ] = "srq",
	[SIM_WQ] = "wq",
	[SIM_XRCD] = "xrcd",
	[SIM_UMEM] = "umem",
};

const char *const sim_part_names[SIM_PARTS] = {
	[SIM_BUF] = "buf",
	[SIM_SQ_BUF] = "sq",
	[SIM_DB] = "db",
};

static int fail_on_demand(struct sim_fail *fail)
{
	return fail->in && !--fail->in ? fail->with : 0;
}

int sim_obj_add(struct ib_device *ibdev, struct sim_obj *obj,
		enum sim_kind kind)
{
	/* As wide as the narrowest number in the ABI of a personality */
	struct xa_limit limit = XA_LIMIT(1, U16_MAX);
	struct sim_device *dev = to_sim(ibdev);
	struct sim_kind_state *state = &dev->kinds[kind];
	int ret;

	obj->dev = dev;
	obj->kind = kind;
	obj->pid = task_tgid_nr(current);

	mutex_lock(&dev->lock);
	ret = fail_on_demand(&state->fail);
	if (!ret && state->count >= sim_max_objects)
		ret = -ENOMEM;
	if (!ret)
		/* Keys come back late, so that a stale one shows. */
		ret = kind == SIM_MR || kind == SIM_MW ?
			xa_alloc_cyclic(&state->objects, &obj->id, obj, limit,
					&state->next, GFP_KERNEL) :
			xa_alloc(&state->objects, &obj->id, obj, limit,
				 GFP_KERNEL);
	if (ret >= 0)
		state->count++;
	mutex_unlock(&dev->lock);

	return min(ret, 0);
}

void sim_obj_remove(struct sim_obj *obj)
{
	struct sim_kind_state *state = &obj->dev->kinds[obj->kind];
	int part;

	mutex_lock(&obj->dev->lock);
	xa_erase(&state->objects, obj->id);
	state->count--;
	mutex_unlock(&obj->dev->lock);

	for (part = 0; part < SIM_PARTS; part++)
		ib_umem_release(obj->parts[part]);
}

const char *sim_umem_exporter(struct ib_umem *umem)
{
	if (!umem->is_dmabuf)
		return NULL;

	return to_ib_umem_dmabuf(umem)->attach->dmabuf->exp_name;
}

static bool is_shared(struct ib_umem *umem)
{
	const char *exporter = sim_umem_exporter(umem);

	return exporter && !strcmp(exporter, SHARED_HEAP);
}

int sim_obj_set(struct sim_obj *obj, enum sim_part part, struct ib_umem *umem)
{
	struct sim_device *dev = obj->dev;
	int ret = PTR_ERR_OR_ZERO(umem);

	/* ib_core refuses addresses; of DMA-bufs it knows no kinds. */
	if (!ret && dev->bounce && !is_shared(umem))
		ret = -EOPNOTSUPP;

	mutex_lock(&dev->lock);
	if (dev->bounce && ret == -EOPNOTSUPP)
		dev->refused++;
	if (!dev->bounce && !ret && is_shared(umem))
		dev->unneeded++;
	if (!ret)
		ret = fail_on_demand(&dev->part_fails[part]);
	if (!ret)
		swap(obj->parts[part], umem);
	mutex_unlock(&dev->lock);

	ib_umem_release(umem);
	return ret;
}
