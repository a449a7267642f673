// SPDX-License-Identifier: GPL-2.0
/*
 * The verbs that are the same for every personality. Those that read or answer
 * in the ABI of a provider are in the file of the personality.
 */
#include <linux/mm.h>
#include <linux/vmalloc.h>

#include "sim.h"

void sim_device_attr(struct ib_device *ibdev, struct ib_device_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->fw_ver = 1ULL << 32;
	attr->sys_image_guid = ibdev->node_guid;
	attr->vendor_id = 0x1234;
	attr->max_mr_size = ~0ULL;
	attr->page_size_cap = PAGE_SIZE;
	attr->device_cap_flags = IB_DEVICE_MEM_WINDOW_TYPE_2B | IB_DEVICE_XRC;
	attr->max_qp = sim_max_objects;
	attr->max_qp_wr = sim_max_wr;
	attr->max_send_sge = 16;
	attr->max_recv_sge = 16;
	attr->max_sge_rd = 16;
	attr->max_cq = sim_max_objects;
	attr->max_cqe = sim_max_cqe;
	attr->max_mr = sim_max_objects;
	attr->max_mw = sim_max_objects;
	attr->max_pd = sim_max_objects;
	attr->max_ah = sim_max_objects;
	attr->max_srq = sim_max_objects;
	attr->max_srq_wr = sim_max_wr - 1;
	attr->max_srq_sge = 16;
	attr->max_pkeys = 1;
}

static int sim_query_port(struct ib_device *ibdev, u32 port,
			  struct ib_port_attr *attr)
{
	attr->state = IB_PORT_ACTIVE;
	attr->phys_state = IB_PORT_PHYS_STATE_LINK_UP;
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = IB_MTU_4096;
	attr->active_speed = IB_SPEED_EDR;
	attr->active_width = IB_WIDTH_4X;
	attr->max_msg_sz = 1 << 30;
	attr->gid_tbl_len = 1;
	attr->pkey_tbl_len = 1;
	attr->lid = 1;
	return 0;
}

static int sim_port_immutable(struct ib_device *ibdev, u32 port,
			      struct ib_port_immutable *immutable)
{
	immutable->gid_tbl_len = 1;
	immutable->pkey_tbl_len = 1;
	return 0;
}

static enum rdma_link_layer sim_link_layer(struct ib_device *ibdev, u32 port)
{
	return IB_LINK_LAYER_INFINIBAND;
}

static int sim_query_gid(struct ib_device *ibdev, u32 port, int index,
			 union ib_gid *gid)
{
	gid->global.subnet_prefix = cpu_to_be64(0xfe80000000000000ULL);
	gid->global.interface_id = ibdev->node_guid;
	return 0;
}

static int sim_query_pkey(struct ib_device *ibdev, u32 port, u16 index,
			  u16 *pkey)
{
	*pkey = 0xffff;
	return 0;
}

static void sim_dealloc_ucontext(struct ib_ucontext *ib)
{
	sim_obj_remove(&SIM_OF(sim_ucontext, ib)->obj);
}

/* All that an open context has ends when the device does. */
static void sim_disassociate_ucontext(struct ib_ucontext *ib)
{
}

static int sim_dealloc_pd(struct ib_pd *ib, struct ib_udata *udata)
{
	sim_obj_remove(&SIM_OF(sim_pd, ib)->obj);
	return 0;
}

static struct ib_mr *add_mr(struct ib_pd *pd, struct ib_umem *umem, u64 iova,
			    u64 length, int access)
{
	struct sim_mr *mr;
	int ret;

	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr) {
		ib_umem_release(umem);
		return ERR_PTR(-ENOMEM);
	}

	ret = sim_obj_add(pd->device, &mr->obj, SIM_MR);
	if (ret) {
		ib_umem_release(umem);
		goto err_free;
	}

	ret = sim_obj_set(&mr->obj, SIM_BUF, umem);
	if (ret)
		goto err_remove;

	/* The device translates by page: within one, nothing may shift. */
	if (!ib_umem_find_best_pgsz(umem, PAGE_SIZE, iova)) {
		ret = -EINVAL;
		goto err_remove;
	}

	mr->ib.lkey = mr->obj.id << 8;
	mr->ib.rkey = mr->ib.lkey;
	mr->ib.iova = iova;
	mr->ib.length = length;
	mr->access = access;
	sim_debugfs_add_mr(mr);
	return &mr->ib;

err_remove:
	sim_obj_remove(&mr->obj);
err_free:
	kfree(mr);
	return ERR_PTR(ret);
}

static struct ib_mr *sim_reg_user_mr(struct ib_pd *pd, u64 start, u64 length,
				     u64 iova, int access, struct ib_dmah *dmah,
				     struct ib_udata *udata)
{
	if (dmah)
		return ERR_PTR(-EOPNOTSUPP);

	return add_mr(pd, ib_umem_get_va(pd->device, start, length, access),
		      iova, length, access);
}

static struct ib_mr *sim_reg_user_mr_dmabuf(struct ib_pd *pd, u64 offset,
					    u64 length, u64 iova, int fd,
					    int access, struct ib_dmah *dmah,
					    struct uverbs_attr_bundle *attrs)
{
	struct ib_umem_dmabuf *umem;

	if (dmah)
		return ERR_PTR(-EOPNOTSUPP);

	umem = ib_umem_dmabuf_get_pinned(pd->device, offset, length, fd,
					 access);
	return add_mr(pd, IS_ERR(umem) ? ERR_CAST(umem) : &umem->umem, iova,
		      length, access);
}

/* Other memory is another MR, with another key; the rest changes in place. */
struct ib_mr *sim_rereg_user_mr(struct ib_mr *ib, int flags, u64 start,
				u64 length, u64 iova, int access,
				struct ib_pd *pd, struct ib_udata *udata)
{
	struct sim_mr *mr = SIM_OF(sim_mr, ib);
	int ret;

	ret = ib_umem_check_rereg(mr->obj.parts[SIM_BUF], flags, access);
	if (ret)
		return ERR_PTR(ret);

	if (!(flags & IB_MR_REREG_ACCESS))
		access = mr->access;
	if (flags & IB_MR_REREG_TRANS)
		return sim_reg_user_mr(pd, start, length, iova, access, NULL,
				       udata);

	mr->access = access;
	return NULL;
}

static int sim_dereg_mr(struct ib_mr *ib, struct ib_udata *udata)
{
	struct sim_mr *mr = SIM_OF(sim_mr, ib);

	sim_debugfs_remove_mr(mr);
	sim_obj_remove(&mr->obj);
	kfree(mr);
	return 0;
}

static int sim_destroy_ah(struct ib_ah *ib, u32 flags)
{
	sim_obj_remove(&SIM_OF(sim_ah, ib)->obj);
	return 0;
}

static int sim_destroy_cq(struct ib_cq *ib, struct ib_udata *udata)
{
	struct sim_cq *cq = SIM_OF(sim_cq, ib);

	sim_pages_free(cq->db);
	sim_pages_free(cq->pages);
	sim_obj_remove(&cq->obj);
	return 0;
}

static bool may_modify_qp(struct sim_qp *qp, const struct ib_qp_attr *attr,
			  int mask)
{
	enum ib_qp_type type = qp->ib.qp_type;
	enum ib_qp_state from, to;

	if (type == IB_QPT_DRIVER)
		type = qp->obj.dev->personality->driver_qp;

	from = mask & IB_QP_CUR_STATE ? attr->cur_qp_state : qp->state;
	to = mask & IB_QP_STATE ? attr->qp_state : from;
	return ib_modify_qp_is_ok(from, to, type, mask);
}

static int sim_modify_qp(struct ib_qp *ib, struct ib_qp_attr *attr, int mask,
			 struct ib_udata *udata)
{
	struct sim_qp *qp = SIM_OF(sim_qp, ib);

	if (mask & ~IB_QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP;
	if (!may_modify_qp(qp, attr, mask))
		return -EINVAL;

	if (mask & IB_QP_STATE)
		qp->state = attr->qp_state;
	return 0;
}

static int sim_query_qp(struct ib_qp *ib, struct ib_qp_attr *attr, int mask,
			struct ib_qp_init_attr *init_attr)
{
	struct sim_qp *qp = SIM_OF(sim_qp, ib);

	memset(attr, 0, sizeof(*attr));
	memset(init_attr, 0, sizeof(*init_attr));
	attr->qp_state = qp->state;
	attr->cur_qp_state = qp->state;
	attr->port_num = 1;
	attr->cap = qp->cap;
	init_attr->cap = qp->cap;
	return 0;
}

static int sim_destroy_qp(struct ib_qp *ib, struct ib_udata *udata)
{
	struct sim_qp *qp = SIM_OF(sim_qp, ib);

	sim_pages_free(qp->db);
	sim_pages_free(qp->sq);
	sim_pages_free(qp->rq);
	sim_obj_remove(&qp->obj);
	return 0;
}

static struct sim_pages *to_sim_pages(struct rdma_user_mmap_entry *entry)
{
	return container_of(entry, struct sim_pages, entry);
}

static void sim_mmap_free(struct rdma_user_mmap_entry *entry)
{
	struct sim_pages *pages = to_sim_pages(entry);

	vfree(pages->pages);
	kfree(pages);
}

struct sim_pages *sim_pages_alloc(struct ib_ucontext *ucontext, size_t size)
{
	struct sim_pages *pages;

	pages = kzalloc(sizeof(*pages), GFP_KERNEL);
	if (!pages)
		return ERR_PTR(-ENOMEM);

	pages->size = PAGE_ALIGN(size);
	pages->pages = vmalloc_user(pages->size);
	if (!pages->pages)
		goto err_free;

	if (rdma_user_mmap_entry_insert(ucontext, &pages->entry, pages->size))
		goto err_pages;

	return pages;

err_pages:
	vfree(pages->pages);
err_free:
	kfree(pages);
	return ERR_PTR(-ENOMEM);
}

void sim_pages_free(struct sim_pages *pages)
{
	if (!IS_ERR_OR_NULL(pages))
		rdma_user_mmap_entry_remove(&pages->entry);
}

u64 sim_pages_key(struct sim_pages *pages)
{
	return pages ? rdma_user_mmap_get_offset(&pages->entry) : 0;
}

int sim_pages_mmap(struct ib_ucontext *ucontext, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *entry;
	int ret;

	entry = rdma_user_mmap_entry_get(ucontext, vma);
	if (!entry)
		return -EINVAL;

	ret = remap_vmalloc_range(vma, to_sim_pages(entry)->pages, 0);
	rdma_user_mmap_entry_put(entry);
	return ret;
}

const struct ib_device_ops sim_common_ops = {
	.query_port = sim_query_port,
	.get_port_immutable = sim_port_immutable,
	.get_link_layer = sim_link_layer,
	.query_gid = sim_query_gid,
	.query_pkey = sim_query_pkey,
	.dealloc_ucontext = sim_dealloc_ucontext,
	.disassociate_ucontext = sim_disassociate_ucontext,
	.mmap_free = sim_mmap_free,
	.dealloc_pd = sim_dealloc_pd,
	.reg_user_mr = sim_reg_user_mr,
	.reg_user_mr_dmabuf = sim_reg_user_mr_dmabuf,
	.dereg_mr = sim_dereg_mr,
	.destroy_ah = sim_destroy_ah,
	.destroy_cq = sim_destroy_cq,
	.modify_qp = sim_modify_qp,
	.query_qp = sim_query_qp,
	.destroy_qp = sim_destroy_qp,
	INIT_RDMA_OBJ_SIZE(ib_ucontext, sim_ucontext, ib),
	INIT_RDMA_OBJ_SIZE(ib_pd, sim_pd, ib),
	INIT_RDMA_OBJ_SIZE(ib_ah, sim_ah, ib),
	INIT_RDMA_OBJ_SIZE(ib_cq, sim_cq, ib),
	INIT_RDMA_OBJ_SIZE(ib_qp, sim_qp, ib),
};
