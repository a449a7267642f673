// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * One of each object of the test device. See sim_kit.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/dma-heap.h>

#include <infiniband/efadv.h>

#include "sim.h"
#include "sim_kit.h"

#define SHARED_HEAP "/dev/dma_heap/system_cc_shared"
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
		IBV_ACCESS_REMOTE_READ)

int kit_shared(size_t size)
{
	struct dma_heap_allocation_data data = {
		.len = size,
		.fd_flags = O_RDWR | O_CLOEXEC,
	};
	int heap = open(SHARED_HEAP, O_RDONLY | O_CLOEXEC);
	int err;

	if (heap < 0)
		return -1;

	err = ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &data) ? errno : 0;
	close(heap);
	errno = err;
	return err ? -1 : (int)data.fd;
}

bool kit_has_rings(const struct kit *kit)
{
	return !kit->mlx5 || !kit->bounce || kit->opted;
}

static void *make_pd(const struct kit *kit)
{
	return ibv_alloc_pd(kit->context);
}

static void *make_parent_domain(const struct kit *kit)
{
	struct ibv_parent_domain_init_attr attr = { .pd = kit->base };

	return ibv_alloc_parent_domain(kit->context, &attr);
}

static void *make_thread_domain(const struct kit *kit)
{
	struct ibv_td_init_attr attr = {};

	return ibv_alloc_td(kit->context, &attr);
}

static void *make_mr(const struct kit *kit)
{
	return ibv_reg_mr(kit->base, kit->mem, KIT_SIZE, ACCESS);
}

static void *make_readonly_mr(const struct kit *kit)
{
	return ibv_reg_mr(kit->base, kit->mem + 100, 5000, 0);
}

static void *make_mr_at_iova(const struct kit *kit)
{
	struct ibv_mr_init_attr attr = {
		.length = 8192,
		.access = ACCESS,
		.comp_mask = IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_IOVA,
		.iova = 1ULL << 40,
		.addr = kit->mem,
	};

	return ibv_reg_mr_ex(kit->base, &attr);
}

static void *make_dmabuf_mr(const struct kit *kit)
{
	return ibv_reg_dmabuf_mr(kit->base, 4096, 8192, 0, kit->fd, ACCESS);
}

static void *make_mw_1(const struct kit *kit)
{
	return ibv_alloc_mw(kit->base, IBV_MW_TYPE_1);
}

static void *make_mw_2(const struct kit *kit)
{
	return ibv_alloc_mw(kit->base, IBV_MW_TYPE_2);
}

static void *make_ah(const struct kit *kit)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.grh = { .hop_limit = 1 },
		.dlid = 1,
		.port_num = 1,
	};

	if (ibv_query_gid(kit->context, 1, 0, &attr.grh.dgid))
		return NULL;

	return ibv_create_ah(kit->base, &attr);
}

/* In a domain its memory is of that domain. */
static void *create_cq_ex(const struct kit *kit, struct ibv_pd *parent)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 100,
		.wc_flags = IBV_WC_STANDARD_FLAGS,
		.comp_mask = parent ? IBV_CQ_INIT_ATTR_MASK_PD : 0,
		.parent_domain = parent,
	};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(kit->context, &attr);

	return cq ? ibv_cq_ex_to_cq(cq) : NULL;
}

static void *make_cq(const struct kit *kit)
{
	return ibv_create_cq(kit->context, 100, NULL, NULL, 0);
}

static void *make_cq_with_channel(const struct kit *kit)
{
	return ibv_create_cq(kit->context, 100, NULL, kit->channel, 0);
}

static void *make_cq_ex(const struct kit *kit)
{
	return create_cq_ex(kit, NULL);
}

static void *make_cq_of_domain(const struct kit *kit)
{
	return create_cq_ex(kit, kit->parent);
}

static void *create_qp(const struct kit *kit, enum ibv_qp_type type,
		       struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = kit->cq,
		.recv_cq = kit->cq,
		.srq = srq,
		.cap = {
			.max_send_wr = 16,
			.max_recv_wr = 16,
			.max_send_sge = 2,
			.max_recv_sge = 1,
		},
		.qp_type = type,
	};

	return ibv_create_qp(kit->pd, &attr);
}

static void *make_rc(const struct kit *kit)
{
	return create_qp(kit, IBV_QPT_RC, NULL);
}

static void *make_rc_with_srq(const struct kit *kit)
{
	return create_qp(kit, IBV_QPT_RC, kit->srq);
}

static void *make_uc(const struct kit *kit)
{
	return create_qp(kit, IBV_QPT_UC, NULL);
}

static void *make_ud(const struct kit *kit)
{
	return create_qp(kit, IBV_QPT_UD, NULL);
}

static void *make_raw(const struct kit *kit)
{
	return create_qp(kit, IBV_QPT_RAW_PACKET, NULL);
}

static void *make_xrc_send(const struct kit *kit)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = kit->cq,
		.cap = { .max_send_wr = 16, .max_send_sge = 1 },
		.qp_type = IBV_QPT_XRC_SEND,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = kit->pd,
	};

	return ibv_create_qp_ex(kit->context, &attr);
}

static void *make_xrc_recv(const struct kit *kit)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = kit->xrcd,
	};

	return ibv_create_qp_ex(kit->context, &attr);
}

static void *make_srd(const struct kit *kit)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = kit->cq,
		.recv_cq = kit->cq,
		.cap = {
			.max_send_wr = 16,
			.max_recv_wr = 16,
			.max_send_sge = 2,
			.max_recv_sge = 2,
		},
		.qp_type = IBV_QPT_DRIVER,
	};

	return efadv_create_driver_qp(kit->pd, &attr,
				      EFADV_QP_DRIVER_TYPE_SRD);
}

static void *make_srq(const struct kit *kit)
{
	struct ibv_srq_init_attr attr = {
		.attr = { .max_wr = 100, .max_sge = 2 },
	};

	return ibv_create_srq(kit->pd, &attr);
}

static void *make_xrc_srq(const struct kit *kit)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = 100, .max_sge = 2 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = kit->pd,
		.xrcd = kit->xrcd,
		.cq = kit->cq,
	};

	return ibv_create_srq_ex(kit->context, &attr);
}

static void *make_wq(const struct kit *kit)
{
	struct ibv_wq_init_attr attr = {
		.wq_type = IBV_WQT_RQ,
		.max_wr = 16,
		.max_sge = 1,
		.pd = kit->base,
		.cq = kit->cq,
	};

	return ibv_create_wq(kit->context, &attr);
}

static void *make_xrcd(const struct kit *kit)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};

	return ibv_open_xrcd(kit->context, &attr);
}

#define UNDO(name, verb)                                                       \
	static int name(void *object)                                          \
	{                                                                      \
		return verb(object);                                           \
	}
UNDO(undo_pd, ibv_dealloc_pd)
UNDO(undo_td, ibv_dealloc_td)
UNDO(undo_mr, ibv_dereg_mr)
UNDO(undo_mw, ibv_dealloc_mw)
UNDO(undo_ah, ibv_destroy_ah)
UNDO(undo_cq, ibv_destroy_cq)
UNDO(undo_qp, ibv_destroy_qp)
UNDO(undo_srq, ibv_destroy_srq)
UNDO(undo_wq, ibv_destroy_wq)
UNDO(undo_xrcd, ibv_close_xrcd)

static const struct maker mlx5_makers[] = {
	{ "PD", "pd", "", false, make_pd, undo_pd },
	{ "parent domain", NULL, "", false, make_parent_domain, undo_pd },
	{ "thread domain", NULL, "", false, make_thread_domain, undo_td },
	{ "MR", "mr", "buf ", true, make_mr, undo_mr },
	{ "MR to read", "mr", "buf ", true, make_readonly_mr, undo_mr },
	{ "MR at an iova", "mr", "buf ", true, make_mr_at_iova, undo_mr },
	{ "MR of a DMA-buf", "mr", "buf ", true, make_dmabuf_mr, undo_mr },
	{ "MW of type 1", "mw", "", false, make_mw_1, undo_mw },
	{ "MW of type 2", "mw", "", false, make_mw_2, undo_mw },
	{ "AH", NULL, "", false, make_ah, undo_ah },
	{ "XRCD", "xrcd", "", false, make_xrcd, undo_xrcd },
	{ "CQ", "cq", "buf db ", false, make_cq, undo_cq },
	{ "CQ with channel", "cq", "buf db ", false, make_cq_with_channel,
	  undo_cq },
	{ "extended CQ", "cq", "buf db ", false, make_cq_ex, undo_cq },
	{ "CQ of a domain", "cq", "buf db ", false, make_cq_of_domain,
	  undo_cq },
	{ "SRQ", "srq", "buf db ", false, make_srq, undo_srq },
	{ "XRC SRQ", "srq", "buf db ", false, make_xrc_srq, undo_srq },
	{ "RC QP", "qp", "buf db ", false, make_rc, undo_qp },
	{ "RC QP with SRQ", "qp", "buf db ", false, make_rc_with_srq,
	  undo_qp },
	{ "UC QP", "qp", "buf db ", false, make_uc, undo_qp },
	{ "UD QP", "qp", "buf db ", false, make_ud, undo_qp },
	{ "raw packet QP", "qp", "buf sq db ", false, make_raw, undo_qp },
	{ "XRC send QP", "qp", "buf db ", false, make_xrc_send, undo_qp },
	{ "XRC receive QP", "qp", "", false, make_xrc_recv, undo_qp },
	{ "WQ", "wq", "buf db ", false, make_wq, undo_wq },
	{},
};

/* The rings are the kernel's own. */
static const struct maker efa_makers[] = {
	{ "PD", "pd", "", false, make_pd, undo_pd },
	{ "parent domain", NULL, "", false, make_parent_domain, undo_pd },
	{ "MR", "mr", "buf ", true, make_mr, undo_mr },
	{ "MR to read", "mr", "buf ", true, make_readonly_mr, undo_mr },
	{ "MR at an iova", "mr", "buf ", true, make_mr_at_iova, undo_mr },
	{ "MR of a DMA-buf", "mr", "buf ", true, make_dmabuf_mr, undo_mr },
	{ "AH", "ah", "", false, make_ah, undo_ah },
	{ "CQ", "cq", "", false, make_cq, undo_cq },
	{ "CQ with channel", "cq", "", false, make_cq_with_channel, undo_cq },
	{ "extended CQ", "cq", "", false, make_cq_ex, undo_cq },
	{ "UD QP", "qp", "", false, make_ud, undo_qp },
	{ "SRD QP", "qp", "", false, make_srd, undo_qp },
	{},
};

const struct maker *kit_makers(const struct kit *kit)
{
	return kit->mlx5 ? mlx5_makers : efa_makers;
}

bool maker_can(const struct maker *maker, const struct kit *kit)
{
	static void *(*const with_cq[])(const struct kit *) = {
		make_rc, make_rc_with_srq, make_uc, make_ud, make_raw,
		make_xrc_send, make_srd, make_xrc_srq, make_wq,
	};
	size_t i;

	for (i = 0; i < sizeof(with_cq) / sizeof(with_cq[0]); i++)
		if (maker->make == with_cq[i])
			return kit->cq;
	return true;
}

static struct ibv_pd *opt_in(struct kit *kit)
{
	struct ibv_parent_domain_init_attr attr = {
		.pd = kit->base,
		.comp_mask =
		    IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC,
	};

	return ibv_alloc_parent_domain(kit->context, &attr);
}

static int first_error(int so_far, int err)
{
	return so_far ?: err;
}

int kit_close(struct kit *kit)
{
	int err = 0;

	if (kit->srq)
		err = first_error(err, ibv_destroy_srq(kit->srq));
	if (kit->cq)
		err = first_error(err, ibv_destroy_cq(kit->cq));
	if (kit->channel)
		err = first_error(err, ibv_destroy_comp_channel(kit->channel));
	if (kit->xrcd)
		err = first_error(err, ibv_close_xrcd(kit->xrcd));
	if (kit->parent)
		err = first_error(err, ibv_dealloc_pd(kit->parent));
	if (kit->base)
		err = first_error(err, ibv_dealloc_pd(kit->base));
	if (kit->context)
		err = first_error(err, ibv_close_device(kit->context));
	if (kit->mem)
		munmap(kit->mem, KIT_SIZE);
	if (kit->fd >= 0)
		close(kit->fd);
	return err;
}

int kit_open(struct kit *kit, bool opted)
{
	void *mem;
	int err;

	memset(kit, 0, sizeof(*kit));
	kit->mlx5 = sim_is_mlx5();
	kit->bounce = sim_bounces();
	kit->opted = opted;
	kit->fd = kit_shared(KIT_SIZE);
	if (kit->fd < 0)
		goto err;
	mem = mmap(NULL, KIT_SIZE, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mem == MAP_FAILED)
		goto err;
	kit->mem = mem;
	kit->context = sim_open();
	if (!kit->context)
		goto err;
	kit->base = ibv_alloc_pd(kit->context);
	if (!kit->base)
		goto err;
	kit->parent = opted ? opt_in(kit) : make_parent_domain(kit);
	if (!kit->parent)
		goto err;
	kit->pd = opted ? kit->parent : kit->base;
	kit->channel = ibv_create_comp_channel(kit->context);
	if (!kit->channel)
		goto err;
	if (kit->mlx5) {
		kit->xrcd = make_xrcd(kit);
		if (!kit->xrcd)
			goto err;
	}
	if (kit_has_rings(kit)) {
		kit->cq = kit->opted && kit->mlx5 ? make_cq_of_domain(kit) :
						    make_cq(kit);
		if (!kit->cq)
			goto err;
		if (kit->mlx5) {
			kit->srq = make_srq(kit);
			if (!kit->srq)
				goto err;
		}
	}
	return 0;

err:
	err = errno;
	kit_close(kit);
	return err;
}
