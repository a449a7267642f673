// SPDX-License-Identifier: GPL-2.0
/*
 * The personality of mlx5: what its provider sends and expects, by
 * rdma/mlx5-abi.h of the kernel. Memory comes by address in the request or, for
 * all but work queues, by an attribute that takes its place.
 */
#include <linux/log2.h>
#include <linux/mm.h>

#include <rdma/ib_umem.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/uverbs_ioctl.h>
#define UVERBS_MODULE_NAME sim_mlx5
#include <rdma/uverbs_named_ioctl.h>

#include "sim.h"

#define DB_SIZE 8
#define RING_ALIGN 64
#define SEND_BLOCK_SHIFT 6
#define RECV_ENTRY_SHIFT_MAX 9
#define BFREGS_PER_UAR 2
#define MAX_BFREGS 512
#define NO_BFREG BIT(31)
/* In the page offset of a mapping */
#define MMAP_COMMAND_SHIFT 8
#define MMAP_INDEX_HIGH_SHIFT 16

static int sim_mlx5_query_device(struct ib_device *ibdev,
				 struct ib_device_attr *attr,
				 struct ib_udata *udata)
{
	sim_device_attr(ibdev, attr);
	attr->max_qp_rd_atom = 16;
	attr->max_qp_init_rd_atom = 16;
	attr->atomic_cap = IB_ATOMIC_HCA;
	attr->max_wq_type_rq = sim_max_objects;
	return 0;
}

static int sim_mlx5_alloc_ucontext(struct ib_ucontext *ib,
				   struct ib_udata *udata)
{
	struct sim_ucontext *ucontext = SIM_OF(sim_ucontext, ib);
	struct mlx5_ib_alloc_ucontext_req_v2 req;
	struct mlx5_ib_alloc_ucontext_resp resp = {};
	int ret;

	ret = ib_copy_validate_udata_in(udata, req, num_low_latency_bfregs);
	if (ret)
		return ret;
	if (req.comp_mask || req.reserved0 || req.reserved1 || req.reserved2)
		return -EOPNOTSUPP;
	if (req.flags & ~MLX5_IB_ALLOC_UCTX_DEVX)
		return -EINVAL;
	if (!req.total_num_bfregs || req.total_num_bfregs > MAX_BFREGS ||
	    req.num_low_latency_bfregs >= req.total_num_bfregs)
		return -EINVAL;

	ret = sim_obj_add(ib->device, &ucontext->obj, SIM_UCONTEXT);
	if (ret)
		return ret;

	resp.qp_tab_size = U16_MAX + 1;
	resp.bf_reg_size = 512;
	resp.tot_bfregs = ALIGN(req.total_num_bfregs, BFREGS_PER_UAR);
	resp.cache_line_size = 64;
	resp.max_sq_desc_sz = 1024;
	resp.max_rq_desc_sz = 512;
	resp.max_send_wqebb = sim_max_wr;
	resp.max_recv_wr = sim_max_wr;
	resp.max_srq_recv_wr = sim_max_wr - 1;
	resp.num_ports = 1;
	resp.cqe_version = 1;
	resp.log_uar_size = PAGE_SHIFT;
	resp.num_uars_per_page = 1;
	resp.num_dyn_bfregs = MAX_BFREGS;
	resp.response_length = min(sizeof(resp), udata->outlen);
	ucontext->devx = req.flags & MLX5_IB_ALLOC_UCTX_DEVX;
	ucontext->uars = resp.tot_bfregs / BFREGS_PER_UAR;
	ret = ib_respond_udata(udata, resp);
	if (ret)
		sim_obj_remove(&ucontext->obj);
	return ret;
}

/* A page to ring doorbells on, all of which are one: nobody listens. */
static int sim_mlx5_mmap(struct ib_ucontext *ib, struct vm_area_struct *vma)
{
	u32 command = vma->vm_pgoff >> MMAP_COMMAND_SHIFT & 0xff;
	u32 index = vma->vm_pgoff & 0xff;
	u32 uars;

	switch (command) {
	case MLX5_IB_MMAP_REGULAR_PAGE:
	case MLX5_IB_MMAP_WC_PAGE:
	case MLX5_IB_MMAP_NC_PAGE:
		uars = SIM_OF(sim_ucontext, ib)->uars;
		break;
	case MLX5_IB_MMAP_ALLOC_WC:
		index |= vma->vm_pgoff >> MMAP_INDEX_HIGH_SHIFT << 8;
		uars = MAX_BFREGS / BFREGS_PER_UAR;
		break;
	default:
		return -EINVAL;
	}

	if (index >= uars || vma->vm_end - vma->vm_start != PAGE_SIZE ||
	    !(vma->vm_flags & VM_SHARED))
		return -EINVAL;

	return vm_insert_page(vma, vma->vm_start, to_sim(ib->device)->uar);
}

static int sim_mlx5_alloc_pd(struct ib_pd *ib, struct ib_udata *udata)
{
	struct sim_pd *pd = SIM_OF(sim_pd, ib);
	struct mlx5_ib_alloc_pd_resp resp = {};
	int ret;

	ret = sim_obj_add(ib->device, &pd->obj, SIM_PD);
	if (ret)
		return ret;

	resp.pdn = pd->obj.id;
	ret = ib_respond_udata(udata, resp);
	if (ret)
		sim_obj_remove(&pd->obj);
	return ret;
}

static int sim_mlx5_alloc_mw(struct ib_mw *ib, struct ib_udata *udata)
{
	struct sim_mw *mw = SIM_OF(sim_mw, ib);
	int ret;

	ret = sim_obj_add(ib->device, &mw->obj, SIM_MW);
	if (ret)
		return ret;

	/* Apart from the keys of MRs */
	ib->rkey = (U16_MAX + mw->obj.id) << 8;
	return 0;
}

static int sim_mlx5_dealloc_mw(struct ib_mw *ib)
{
	sim_obj_remove(&SIM_OF(sim_mw, ib)->obj);
	return 0;
}

static int sim_mlx5_create_ah(struct ib_ah *ib, struct rdma_ah_init_attr *attr,
			      struct ib_udata *udata)
{
	return sim_obj_add(ib->device, &SIM_OF(sim_ah, ib)->obj, SIM_AH);
}

static int sim_mlx5_alloc_xrcd(struct ib_xrcd *ib, struct ib_udata *udata)
{
	return sim_obj_add(ib->device, &SIM_OF(sim_xrcd, ib)->obj, SIM_XRCD);
}

static int sim_mlx5_dealloc_xrcd(struct ib_xrcd *ib, struct ib_udata *udata)
{
	sim_obj_remove(&SIM_OF(sim_xrcd, ib)->obj);
	return 0;
}

/* A ring lies where the device can tell its place in a page. */
static int set_ring(struct sim_obj *obj, enum sim_part part,
		    struct ib_umem *umem)
{
	int ret = sim_obj_set(obj, part, umem);

	if (ret)
		return ret;

	return ib_umem_offset(umem) % RING_ALIGN ? -EINVAL : 0;
}

/* The doorbell record: by its attribute, else the one at address */
static int set_db(struct sim_obj *obj, struct uverbs_attr_bundle *attrs,
		  u16 attr_id, u64 address)
{
	struct ib_umem *umem;
	int ret;

	umem = ib_umem_get_attr_or_va(&obj->dev->ib, attrs, attr_id, address,
				      DB_SIZE, 0);
	ret = sim_obj_set(obj, SIM_DB, umem);
	if (ret)
		return ret;

	/* Even in two pages that lie side by side, it is no atomic access. */
	if (ib_umem_offset(umem) > PAGE_SIZE - DB_SIZE ||
	    !ib_umem_is_contiguous(umem))
		return -EINVAL;

	return 0;
}

/* Entries of the ring of a CQ for cqe of them; 0: too many */
static u32 cq_entries(unsigned int cqe)
{
	if (cqe > sim_max_cqe || cqe >= INT_MAX / 2)
		return 0;

	return roundup_pow_of_two(cqe + 1);
}

static bool is_cqe_size(u32 size)
{
	return size == 64 || size == 128;
}

static int sim_mlx5_create_cq(struct ib_cq *ib,
			      const struct ib_cq_init_attr *attr,
			      struct uverbs_attr_bundle *attrs)
{
	struct ib_udata *udata = &attrs->driver_udata;
	struct sim_cq *cq = SIM_OF(sim_cq, ib);
	struct mlx5_ib_create_cq_resp resp = {};
	struct mlx5_ib_create_cq cmd;
	struct ib_umem *umem;
	u32 entries;
	int ret;

	ret = ib_copy_validate_udata_in(udata, cmd, cqe_comp_res_format);
	if (ret)
		return ret;
	if (attr->flags & ~(IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION |
			    IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN) ||
	    cmd.cqe_comp_en)
		return -EOPNOTSUPP;
	entries = cq_entries(attr->cqe);
	if (!entries || !is_cqe_size(cmd.cqe_size) || cmd.flags ||
	    cmd.reserved0 || cmd.reserved1)
		return -EINVAL;

	ret = sim_obj_add(ib->device, &cq->obj, SIM_CQ);
	if (ret)
		return ret;

	umem = ib_umem_get_cq_buf_or_va(ib->device, attrs, cmd.buf_addr,
					(size_t)entries * cmd.cqe_size,
					IB_ACCESS_LOCAL_WRITE);
	ret = set_ring(&cq->obj, SIM_BUF, umem);
	if (ret)
		goto err;

	ret = set_db(&cq->obj, attrs, MLX5_IB_ATTR_CREATE_CQ_DBR_BUF_UMEM,
		     cmd.db_addr);
	if (ret)
		goto err;

	ib->cqe = entries - 1;
	resp.cqn = cq->obj.id;
	ret = ib_respond_udata(udata, resp);
	if (ret)
		goto err;

	return 0;

err:
	sim_obj_remove(&cq->obj);
	return ret;
}

/* A new ring by address, the only way that the ABI has */
static int sim_mlx5_resize_cq(struct ib_cq *ib, unsigned int cqe,
			      struct ib_udata *udata)
{
	struct sim_cq *cq = SIM_OF(sim_cq, ib);
	struct mlx5_ib_resize_cq cmd;
	u32 entries;
	int ret;

	ret = ib_copy_validate_udata_in(udata, cmd, reserved1);
	if (ret)
		return ret;
	entries = cq_entries(cqe);
	if (!entries || !is_cqe_size(cmd.cqe_size) || cmd.reserved0 ||
	    cmd.reserved1)
		return -EINVAL;

	ret = set_ring(&cq->obj, SIM_BUF,
			  ib_umem_get_va(ib->device, cmd.buf_addr,
					 (size_t)entries * cmd.cqe_size,
					 IB_ACCESS_LOCAL_WRITE));
	if (!ret)
		ib->cqe = entries - 1;
	return ret;
}

/* The send queue follows the receive queue, or has a ring of its own. */
static int set_qp_rings(struct sim_qp *qp, struct uverbs_attr_bundle *attrs,
			const struct ib_qp_init_attr *attr,
			const struct mlx5_ib_create_qp *cmd)
{
	bool split = attr->qp_type == IB_QPT_RAW_PACKET ||
		     attr->create_flags & IB_QP_CREATE_SOURCE_QPN;
	struct ib_device *ibdev = &qp->obj.dev->ib;
	size_t sq_size, size = 0;
	int ret;

	sq_size = (size_t)cmd->sq_wqe_count << SEND_BLOCK_SHIFT;
	if (!attr->srq && attr->qp_type != IB_QPT_XRC_INI)
		size = (size_t)cmd->rq_wqe_count << cmd->rq_wqe_shift;

	if (!split) {
		size += sq_size;
	} else if (sq_size) {
		ret = set_ring(&qp->obj, SIM_SQ_BUF,
			ib_umem_get_attr_or_va(ibdev, attrs,
				UVERBS_ATTR_CREATE_QP_SQ_BUF_UMEM,
				cmd->sq_buf_addr, sq_size, 0));
		if (ret)
			return ret;
	}

	if (!size)
		return 0;

	return set_ring(&qp->obj, SIM_BUF,
		ib_umem_get_attr_or_va(ibdev, attrs,
			split ? UVERBS_ATTR_CREATE_QP_RQ_BUF_UMEM :
				UVERBS_ATTR_CREATE_QP_BUF_UMEM,
			cmd->buf_addr, size, 0));
}

static bool is_supported(const struct ib_qp_init_attr *attr)
{
	if (attr->rwq_ind_tbl || attr->create_flags & ~IB_QP_CREATE_SOURCE_QPN)
		return false;

	switch (attr->qp_type) {
	case IB_QPT_RC:
	case IB_QPT_UC:
	case IB_QPT_UD:
	case IB_QPT_RAW_PACKET:
	case IB_QPT_XRC_INI:
	case IB_QPT_XRC_TGT:
	case IB_QPT_DRIVER:
		return true;
	default:
		return false;
	}
}

static int check_qp_cmd(const struct ib_qp_init_attr *attr,
			const struct mlx5_ib_create_qp *cmd)
{
	u32 type = attr->qp_type == IB_QPT_DRIVER ? MLX5_QP_FLAG_TYPE_DCI : 0;

	/* A DCT among them: its memory would come later, if modified. */
	if (cmd->flags & ~(type | MLX5_QP_FLAG_SIGNATURE |
			   MLX5_QP_FLAG_SCATTER_CQE |
			   MLX5_QP_FLAG_ALLOW_SCATTER_CQE |
			   MLX5_QP_FLAG_BFREG_INDEX))
		return -EOPNOTSUPP;

	if ((cmd->flags & type) != type ||
	    cmd->rq_wqe_shift > RECV_ENTRY_SHIFT_MAX ||
	    cmd->rq_wqe_count > sim_max_wr || cmd->sq_wqe_count > sim_max_wr ||
	    (cmd->sq_wqe_count && !is_power_of_2(cmd->sq_wqe_count)))
		return -EINVAL;

	return 0;
}

static int sim_mlx5_create_qp(struct ib_qp *ib, struct ib_qp_init_attr *attr,
			      struct ib_udata *udata)
{
	struct uverbs_attr_bundle *attrs;
	struct sim_qp *qp = SIM_OF(sim_qp, ib);
	struct mlx5_ib_create_qp_resp resp = {};
	struct mlx5_ib_create_qp cmd = {};
	int ret;

	if (!is_supported(attr))
		return -EOPNOTSUPP;

	/* The target of XRC has no queues, so ib_core has nothing of them. */
	if (udata) {
		ret = ib_copy_validate_udata_in(udata, cmd, sq_buf_addr);
		if (ret)
			return ret;
		ret = check_qp_cmd(attr, &cmd);
		if (ret)
			return ret;
	}

	ret = sim_obj_add(ib->device, &qp->obj, SIM_QP);
	if (ret)
		return ret;

	ib->qp_num = qp->obj.id;
	qp->cap = attr->cap;
	qp->state = IB_QPS_RESET;
	if (!udata)
		return 0;

	attrs = rdma_udata_to_uverbs_attr_bundle(udata);
	ret = set_qp_rings(qp, attrs, attr, &cmd);
	if (ret)
		goto err;

	ret = set_db(&qp->obj, attrs, MLX5_IB_ATTR_CREATE_QP_DBR_BUF_UMEM,
		     cmd.db_addr);
	if (ret)
		goto err;

	resp.bfreg_index = cmd.flags & MLX5_QP_FLAG_BFREG_INDEX ? NO_BFREG : 1;
	ret = ib_respond_udata(udata, resp);
	if (ret)
		goto err;

	return 0;

err:
	sim_obj_remove(&qp->obj);
	return ret;
}

/* Bytes of a shared receive queue: a link and its SGEs in each entry */
static size_t srq_size(const struct ib_srq_attr *attr, u32 entries)
{
	size_t entry = 16 + 16 * (size_t)attr->max_sge;

	return entries * max(roundup_pow_of_two(entry), 32UL);
}

static int sim_mlx5_create_srq(struct ib_srq *ib,
			       struct ib_srq_init_attr *attr,
			       struct ib_udata *udata)
{
	struct uverbs_attr_bundle *attrs =
		rdma_udata_to_uverbs_attr_bundle(udata);
	struct sim_srq *srq = SIM_OF(sim_srq, ib);
	struct mlx5_ib_create_srq_resp resp = {};
	struct mlx5_ib_create_srq cmd;
	u32 entries;
	int ret;

	if (attr->srq_type != IB_SRQT_BASIC && attr->srq_type != IB_SRQT_XRC)
		return -EOPNOTSUPP;
	ret = ib_copy_validate_udata_in(udata, cmd, flags);
	if (ret)
		return ret;
	if (attr->attr.max_wr >= sim_max_wr || attr->attr.max_sge > 16 ||
	    cmd.reserved0 || cmd.reserved1)
		return -EINVAL;

	ret = sim_obj_add(ib->device, &srq->obj, SIM_SRQ);
	if (ret)
		return ret;

	entries = roundup_pow_of_two(attr->attr.max_wr + 1);
	ret = set_ring(&srq->obj, SIM_BUF,
		ib_umem_get_attr_or_va(ib->device, attrs,
				       UVERBS_ATTR_CREATE_SRQ_BUF_UMEM,
				       cmd.buf_addr,
				       srq_size(&attr->attr, entries), 0));
	if (ret)
		goto err;

	ret = set_db(&srq->obj, attrs, MLX5_IB_ATTR_CREATE_SRQ_DBR_BUF_UMEM,
		     cmd.db_addr);
	if (ret)
		goto err;

	attr->attr.max_wr = entries - 1;
	srq->attr = attr->attr;
	if (attr->srq_type == IB_SRQT_XRC)
		ib->ext.xrc.srq_num = srq->obj.id;
	resp.srqn = srq->obj.id;
	ret = ib_respond_udata(udata, resp);
	if (ret)
		goto err;

	return 0;

err:
	sim_obj_remove(&srq->obj);
	return ret;
}

static int sim_mlx5_modify_srq(struct ib_srq *ib, struct ib_srq_attr *attr,
			       enum ib_srq_attr_mask mask,
			       struct ib_udata *udata)
{
	struct sim_srq *srq = SIM_OF(sim_srq, ib);

	if (mask & IB_SRQ_MAX_WR)
		return -EINVAL;
	if (mask & IB_SRQ_LIMIT) {
		if (attr->srq_limit > srq->attr.max_wr)
			return -EINVAL;
		srq->attr.srq_limit = attr->srq_limit;
	}

	return 0;
}

static int sim_mlx5_query_srq(struct ib_srq *ib, struct ib_srq_attr *attr)
{
	*attr = SIM_OF(sim_srq, ib)->attr;
	return 0;
}

static int sim_mlx5_destroy_srq(struct ib_srq *ib, struct ib_udata *udata)
{
	sim_obj_remove(&SIM_OF(sim_srq, ib)->obj);
	return 0;
}

static struct ib_wq *sim_mlx5_create_wq(struct ib_pd *pd,
					struct ib_wq_init_attr *attr,
					struct ib_udata *udata)
{
	struct mlx5_ib_create_wq_resp resp = {
		.response_length = sizeof(resp),
	};
	struct mlx5_ib_create_wq cmd;
	struct sim_wq *wq;
	int ret;

	ret = ib_copy_validate_udata_in(udata, cmd, comp_mask);
	if (ret)
		return ERR_PTR(ret);
	if (attr->wq_type != IB_WQT_RQ || attr->create_flags || cmd.comp_mask)
		return ERR_PTR(-EOPNOTSUPP);
	if (cmd.rq_wqe_shift > RECV_ENTRY_SHIFT_MAX ||
	    cmd.rq_wqe_count > sim_max_wr)
		return ERR_PTR(-EINVAL);

	wq = kzalloc(sizeof(*wq), GFP_KERNEL);
	if (!wq)
		return ERR_PTR(-ENOMEM);

	ret = sim_obj_add(pd->device, &wq->obj, SIM_WQ);
	if (ret)
		goto err_free;

	ret = set_ring(&wq->obj, SIM_BUF,
		ib_umem_get_va(pd->device, cmd.buf_addr,
			       (size_t)cmd.rq_wqe_count << cmd.rq_wqe_shift,
			       0));
	if (ret)
		goto err_remove;

	ret = set_db(&wq->obj, NULL, 0, cmd.db_addr);
	if (ret)
		goto err_remove;

	wq->ib.wq_num = wq->obj.id;
	ret = ib_respond_udata(udata, resp);
	if (ret)
		goto err_remove;

	return &wq->ib;

err_remove:
	sim_obj_remove(&wq->obj);
err_free:
	kfree(wq);
	return ERR_PTR(ret);
}

static int sim_mlx5_modify_wq(struct ib_wq *ib, struct ib_wq_attr *attr,
			      u32 mask, struct ib_udata *udata)
{
	return 0;
}

static int sim_mlx5_destroy_wq(struct ib_wq *ib, struct ib_udata *udata)
{
	struct sim_wq *wq = SIM_OF(sim_wq, ib);

	sim_obj_remove(&wq->obj);
	kfree(wq);
	return 0;
}

ADD_UVERBS_ATTRIBUTES_SIMPLE(
	sim_mlx5_create_cq_attrs,
	UVERBS_OBJECT_CQ,
	UVERBS_METHOD_CQ_CREATE,
	UVERBS_ATTR_PTR_IN(MLX5_IB_ATTR_CREATE_CQ_UAR_INDEX,
			   UVERBS_ATTR_TYPE(u32), UA_OPTIONAL),
	UVERBS_ATTR_UMEM(MLX5_IB_ATTR_CREATE_CQ_DBR_BUF_UMEM, UA_OPTIONAL));

ADD_UVERBS_ATTRIBUTES_SIMPLE(
	sim_mlx5_create_qp_attrs,
	UVERBS_OBJECT_QP,
	UVERBS_METHOD_QP_CREATE,
	UVERBS_ATTR_UMEM(MLX5_IB_ATTR_CREATE_QP_DBR_BUF_UMEM, UA_OPTIONAL));

ADD_UVERBS_ATTRIBUTES_SIMPLE(
	sim_mlx5_create_srq_attrs,
	UVERBS_OBJECT_SRQ,
	UVERBS_METHOD_SRQ_CREATE,
	UVERBS_ATTR_UMEM(MLX5_IB_ATTR_CREATE_SRQ_DBR_BUF_UMEM, UA_OPTIONAL));

static const struct uapi_definition sim_mlx5_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_CQ, &sim_mlx5_create_cq_attrs),
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_QP, &sim_mlx5_create_qp_attrs),
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_SRQ, &sim_mlx5_create_srq_attrs),
	UAPI_DEF_CHAIN(sim_devx_defs),
	{},
};

static const struct ib_device_ops sim_mlx5_ops = {
	.driver_id = RDMA_DRIVER_MLX5,
	.uverbs_abi_ver = MLX5_IB_UVERBS_ABI_VERSION,
	.query_device = sim_mlx5_query_device,
	.alloc_ucontext = sim_mlx5_alloc_ucontext,
	.alloc_pd = sim_mlx5_alloc_pd,
	.mmap = sim_mlx5_mmap,
	.rereg_user_mr = sim_rereg_user_mr,
	.alloc_mw = sim_mlx5_alloc_mw,
	.dealloc_mw = sim_mlx5_dealloc_mw,
	.create_user_ah = sim_mlx5_create_ah,
	.alloc_xrcd = sim_mlx5_alloc_xrcd,
	.dealloc_xrcd = sim_mlx5_dealloc_xrcd,
	.create_user_cq = sim_mlx5_create_cq,
	.resize_user_cq = sim_mlx5_resize_cq,
	.create_qp = sim_mlx5_create_qp,
	.create_srq = sim_mlx5_create_srq,
	.modify_srq = sim_mlx5_modify_srq,
	.query_srq = sim_mlx5_query_srq,
	.destroy_srq = sim_mlx5_destroy_srq,
	.create_wq = sim_mlx5_create_wq,
	.modify_wq = sim_mlx5_modify_wq,
	.destroy_wq = sim_mlx5_destroy_wq,
	INIT_RDMA_OBJ_SIZE(ib_mw, sim_mw, ib),
	INIT_RDMA_OBJ_SIZE(ib_srq, sim_srq, ib),
	INIT_RDMA_OBJ_SIZE(ib_xrcd, sim_xrcd, ib),
};

const struct sim_personality sim_mlx5 = {
	.name = "mlx5",
	.ops = &sim_mlx5_ops,
	.defs = sim_mlx5_defs,
	.driver_qp = IB_QPT_DRIVER,
};
