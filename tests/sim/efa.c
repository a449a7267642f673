// SPDX-License-Identifier: GPL-2.0
/*
 * The personality of efa: what its provider sends and expects, by
 * rdma/efa-abi.h of the kernel. Rings are memory of the kernel, which the
 * provider maps.
 */
#include <rdma/efa-abi.h>
#include <rdma/ib_umem.h>
#include <rdma/uverbs_ioctl.h>

#include "sim.h"

#define MAX_SGE 2
#define INLINE_SIZE 32

static int sim_efa_query_device(struct ib_device *ibdev,
				struct ib_device_attr *attr,
				struct ib_udata *udata)
{
	struct efa_ibv_ex_query_device_resp resp = {};

	sim_device_attr(ibdev, attr);
	attr->device_cap_flags = 0;
	attr->max_send_sge = MAX_SGE;
	attr->max_recv_sge = MAX_SGE;
	attr->max_sge_rd = 1;
	attr->max_mw = 0;
	attr->max_srq = 0;

	if (!udata || !udata->outlen)
		return 0;

	resp.max_sq_wr = sim_max_wr;
	resp.max_rq_wr = sim_max_wr;
	resp.max_sq_sge = MAX_SGE;
	resp.max_rq_sge = MAX_SGE;
	resp.max_rdma_size = 1 << 30;
	resp.device_caps = EFA_QUERY_DEVICE_CAPS_RDMA_READ |
			   EFA_QUERY_DEVICE_CAPS_RDMA_WRITE |
			   EFA_QUERY_DEVICE_CAPS_CQ_NOTIFICATIONS;
	return ib_respond_udata(udata, resp);
}

static int sim_efa_alloc_ucontext(struct ib_ucontext *ib,
				  struct ib_udata *udata)
{
	struct sim_ucontext *ucontext = SIM_OF(sim_ucontext, ib);
	struct efa_ibv_alloc_ucontext_resp resp = {};
	int ret;

	ret = sim_obj_add(ib->device, &ucontext->obj, SIM_UCONTEXT);
	if (ret)
		return ret;

	resp.cmds_supp_udata_mask = EFA_USER_CMDS_SUPP_UDATA_QUERY_DEVICE |
				    EFA_USER_CMDS_SUPP_UDATA_CREATE_AH;
	resp.sub_cqs_per_cq = 1;
	resp.inline_buf_size = INLINE_SIZE;
	resp.max_llq_size = sim_max_wr * 64;
	ret = ib_respond_udata(udata, resp);
	if (ret)
		sim_obj_remove(&ucontext->obj);
	return ret;
}

static int sim_efa_alloc_pd(struct ib_pd *ib, struct ib_udata *udata)
{
	struct sim_pd *pd = SIM_OF(sim_pd, ib);
	struct efa_ibv_alloc_pd_resp resp = {};
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

static int sim_efa_create_ah(struct ib_ah *ib, struct rdma_ah_init_attr *attr,
			     struct ib_udata *udata)
{
	struct sim_ah *ah = SIM_OF(sim_ah, ib);
	struct efa_ibv_create_ah_resp resp = {};
	int ret;

	ret = sim_obj_add(ib->device, &ah->obj, SIM_AH);
	if (ret)
		return ret;

	resp.efa_address_handle = ah->obj.id;
	ret = ib_respond_udata(udata, resp);
	if (ret)
		sim_obj_remove(&ah->obj);
	return ret;
}

static int set_pages(struct sim_pages **pages, struct ib_ucontext *ucontext,
		     size_t size)
{
	if (!size)
		return 0;

	*pages = sim_pages_alloc(ucontext, size);
	return PTR_ERR_OR_ZERO(*pages);
}

static int sim_efa_create_cq(struct ib_cq *ib,
			     const struct ib_cq_init_attr *attr,
			     struct uverbs_attr_bundle *attrs)
{
	struct ib_udata *udata = &attrs->driver_udata;
	struct sim_cq *cq = SIM_OF(sim_cq, ib);
	struct efa_ibv_create_cq_resp resp = {};
	struct efa_ibv_create_cq cmd;
	size_t size;
	int ret;

	ret = ib_copy_validate_udata_in_cm(udata, cmd, num_sub_cqs, 0);
	if (ret)
		return ret;
	if (attr->flags ||
	    cmd.flags & ~(EFA_CREATE_CQ_WITH_COMPLETION_CHANNEL |
			  EFA_CREATE_CQ_WITH_SGID))
		return -EOPNOTSUPP;
	if (attr->cqe > sim_max_cqe || cmd.num_sub_cqs != 1 ||
	    !cmd.cq_entry_size || cmd.cq_entry_size > 64)
		return -EINVAL;

	ret = sim_obj_add(ib->device, &cq->obj, SIM_CQ);
	if (ret)
		return ret;

	size = (size_t)cmd.cq_entry_size * attr->cqe;
	ret = set_pages(&cq->pages, attrs->context, size);
	if (!ret)
		ret = set_pages(&cq->db, attrs->context, PAGE_SIZE);
	if (ret)
		goto err;

	ib->cqe = attr->cqe;
	resp.comp_mask = EFA_CREATE_CQ_RESP_DB_OFF;
	resp.db_mmap_key = sim_pages_key(cq->db);
	resp.cq_idx = cq->obj.id;
	resp.q_mmap_key = sim_pages_key(cq->pages);
	resp.q_mmap_size = cq->pages->size;
	ret = ib_respond_udata(udata, resp);
	if (ret)
		goto err;

	return 0;

err:
	sim_pages_free(cq->db);
	sim_pages_free(cq->pages);
	sim_obj_remove(&cq->obj);
	return ret;
}

static int sim_efa_create_qp(struct ib_qp *ib, struct ib_qp_init_attr *attr,
			     struct ib_udata *udata)
{
	struct uverbs_attr_bundle *attrs =
		rdma_udata_to_uverbs_attr_bundle(udata);
	struct sim_qp *qp = SIM_OF(sim_qp, ib);
	struct efa_ibv_create_qp_resp resp = {};
	struct efa_ibv_create_qp cmd;
	int ret;

	ret = ib_copy_validate_udata_in_cm(udata, cmd, driver_qp_type, 0);
	if (ret)
		return ret;
	if (attr->qp_type != IB_QPT_UD &&
	    (attr->qp_type != IB_QPT_DRIVER ||
	     cmd.driver_qp_type != EFA_QP_DRIVER_TYPE_SRD))
		return -EOPNOTSUPP;
	if (attr->srq || attr->create_flags || cmd.flags)
		return -EOPNOTSUPP;
	if (attr->cap.max_send_wr > sim_max_wr ||
	    attr->cap.max_recv_wr > sim_max_wr ||
	    attr->cap.max_send_sge > MAX_SGE ||
	    attr->cap.max_recv_sge > MAX_SGE ||
	    attr->cap.max_inline_data > INLINE_SIZE ||
	    cmd.sq_ring_size > sim_max_wr * 64 ||
	    cmd.rq_ring_size > sim_max_wr * 64)
		return -EINVAL;

	ret = sim_obj_add(ib->device, &qp->obj, SIM_QP);
	if (ret)
		return ret;

	ret = set_pages(&qp->rq, attrs->context, cmd.rq_ring_size);
	if (!ret)
		ret = set_pages(&qp->sq, attrs->context, cmd.sq_ring_size);
	if (!ret)
		ret = set_pages(&qp->db, attrs->context, PAGE_SIZE);
	if (ret)
		goto err;

	ib->qp_num = qp->obj.id;
	qp->cap = attr->cap;
	qp->state = IB_QPS_RESET;
	resp.rq_mmap_key = sim_pages_key(qp->rq);
	resp.rq_mmap_size = qp->rq ? qp->rq->size : 0;
	resp.llq_desc_mmap_key = sim_pages_key(qp->sq);
	resp.rq_db_mmap_key = sim_pages_key(qp->db);
	resp.sq_db_mmap_key = sim_pages_key(qp->db);
	resp.sq_db_offset = 64;
	ret = ib_respond_udata(udata, resp);
	if (ret)
		goto err;

	return 0;

err:
	sim_pages_free(qp->db);
	sim_pages_free(qp->sq);
	sim_pages_free(qp->rq);
	sim_obj_remove(&qp->obj);
	return ret;
}

static const struct ib_device_ops sim_efa_ops = {
	.driver_id = RDMA_DRIVER_EFA,
	.uverbs_abi_ver = EFA_UVERBS_ABI_VERSION,
	.query_device = sim_efa_query_device,
	.alloc_ucontext = sim_efa_alloc_ucontext,
	.alloc_pd = sim_efa_alloc_pd,
	.mmap = sim_pages_mmap,
	.create_user_ah = sim_efa_create_ah,
	.create_user_cq = sim_efa_create_cq,
	.create_qp = sim_efa_create_qp,
};

const struct sim_personality sim_efa = {
	.name = "efa",
	.ops = &sim_efa_ops,
	.driver_qp = IB_QPT_UD,
};
