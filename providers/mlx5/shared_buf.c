// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Rings and doorbell records in shared memory, and the commands that tell the
 * kernel of them. Buffers of the application are in ibv_buf.c.
 */
#include <config.h>

#include <errno.h>

#include <infiniband/cmd_write.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_cmds.h>

#include "shared_buf.h"

int mlx5_init_shared(struct mlx5_parent_domain *mparent_domain,
		     struct ibv_context *context,
		     const struct ibv_parent_domain_init_attr *attr)
{
	struct mlx5_pd *mpd = &mparent_domain->mpd;

	if (!(attr->comp_mask &
	      IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC))
		return 0;

	errno = verbs_pd_needs_shared(context, &mpd->vpd.cc_shared);
	if (errno)
		return errno;

	if (!mpd->vpd.cc_shared)
		return 0;

	mparent_domain->shared_pool =
		verbs_buf_pool_create(&mpd->ibv_pd,
				      to_mctx(context)->cache_line_size);
	return mparent_domain->shared_pool ? 0 : errno;
}

void mlx5_uninit_shared(struct mlx5_parent_domain *mparent_domain)
{
	if (mparent_domain->shared_pool)
		verbs_buf_pool_destroy(mparent_domain->shared_pool);
}

/* A queue without entries has no memory. */
int mlx5_alloc_shared_buf(struct mlx5_buf *buf, size_t size)
{
	buf->buf = NULL;
	if (size) {
		buf->buf = verbs_buf_pool_alloc(
			buf->mparent_domain->shared_pool, size);
		if (!buf->buf)
			return -1;
	}

	buf->length = size;
	buf->type = MLX5_ALLOC_TYPE_CC_SHARED;
	return 0;
}

void mlx5_free_shared_buf(struct mlx5_buf *buf)
{
	if (buf->length)
		verbs_buf_pool_free(buf->mparent_domain->shared_pool, buf->buf,
				    buf->length);
}

int mlx5_refuse_shared(struct ibv_pd *pd, const char *what)
{
	if (!mlx5_shared_pool(pd))
		return 0;

	verbs_err(verbs_get_ctx(pd->context),
		  "%s is not supported in shared memory: the kernel takes it by address only\n",
		  what);
	errno = EOPNOTSUPP;
	return errno;
}

int mlx5_explain_shared(struct ibv_pd *pd, const char *what, int ret)
{
	if (ret == EOPNOTSUPP && mlx5_shared_pool(pd))
		verbs_err(verbs_get_ctx(pd->context),
			  "%s in shared memory is not supported: that takes a kernel with UMEM attributes, Linux 7.2 or later\n",
			  what);
	return ret;
}

static void fill_umem(struct ibv_command_buffer *cmd, uint16_t attr_id,
		      struct ib_uverbs_buffer_desc *umem,
		      struct verbs_buf_pool *pool, const void *addr,
		      size_t length)
{
	uint64_t offset;

	if (!length)
		return;

	*umem = (struct ib_uverbs_buffer_desc) {
		.type = IB_UVERBS_BUFFER_TYPE_DMABUF,
		.fd = verbs_buf_pool_find(pool, addr, &offset),
		.length = length,
	};
	umem->addr = offset;
	fill_attr_in_ptr(cmd, attr_id, umem);
}

/* The two words of a doorbell record */
static void fill_db(struct ibv_command_buffer *cmd, uint16_t attr_id,
		    struct mlx5_shared_umems *umems,
		    struct verbs_buf_pool *pool, const __be32 *db)
{
	fill_umem(cmd, attr_id, &umems->db, pool, db, 2 * sizeof(*db));
}

void mlx5_fill_shared_cq(struct ibv_command_buffer *cmd, struct mlx5_cq *cq,
			 struct mlx5_shared_umems *umems)
{
	struct verbs_buf_pool *pool = mlx5_shared_pool(cq->parent_domain);

	if (!pool)
		return;

	fill_umem(cmd, UVERBS_ATTR_CREATE_CQ_BUF_UMEM, &umems->buf, pool,
		  cq->buf_a.buf, cq->buf_a.length);
	fill_db(cmd, MLX5_IB_ATTR_CREATE_CQ_DBR_BUF_UMEM, umems, pool,
		cq->dbrec);
}

/* The send queue has a ring of its own where sq_buf is. */
int mlx5_cmd_create_shared_qp(struct ibv_context *context, struct mlx5_qp *qp,
			      struct ibv_qp_init_attr_ex *attr,
			      const struct mlx5_ib_create_qp *cmd,
			      struct mlx5_ib_create_qp_resp *resp)
{
	DECLARE_COMMAND_BUFFER(link, UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE,
			       5);
	struct verbs_buf_pool *pool = mlx5_shared_pool(attr->pd);
	bool split = attr->qp_type == IBV_QPT_RAW_PACKET ||
		     qp->flags & MLX5_QP_FLAGS_USE_UNDERLAY;
	struct mlx5_shared_umems umems;
	int ret;

	fallback_require_ioctl(link);
	fill_attr_in_ptr(link, UVERBS_ATTR_UHW_IN, cmd);
	fill_attr_out_ptr(link, UVERBS_ATTR_UHW_OUT, resp);
	fill_umem(link, split ? UVERBS_ATTR_CREATE_QP_RQ_BUF_UMEM :
				UVERBS_ATTR_CREATE_QP_BUF_UMEM,
		  &umems.buf, pool, qp->buf.buf, qp->buf.length);
	fill_umem(link, UVERBS_ATTR_CREATE_QP_SQ_BUF_UMEM, &umems.sq_buf, pool,
		  qp->sq_buf.buf, qp->sq_buf.length);
	fill_db(link, MLX5_IB_ATTR_CREATE_QP_DBR_BUF_UMEM, &umems, pool,
		qp->db);

	ret = ibv_icmd_create_qp(context, &qp->verbs_qp, NULL, attr, link);
	return mlx5_explain_shared(attr->pd, "a QP", ret);
}

static int create_srq(struct ibv_pd *pd, struct mlx5_srq *srq,
		      struct verbs_srq *vsrq, struct ibv_srq_init_attr_ex *attr,
		      const struct mlx5_ib_create_srq *cmd,
		      struct mlx5_ib_create_srq_resp *resp)
{
	DECLARE_COMMAND_BUFFER(link, UVERBS_OBJECT_SRQ,
			       UVERBS_METHOD_SRQ_CREATE, 4);
	struct verbs_buf_pool *pool = mlx5_shared_pool(pd);
	struct mlx5_shared_umems umems;
	int ret;

	fallback_require_ioctl(link);
	fill_attr_in_ptr(link, UVERBS_ATTR_UHW_IN, cmd);
	fill_attr_out_ptr(link, UVERBS_ATTR_UHW_OUT, resp);
	fill_umem(link, UVERBS_ATTR_CREATE_SRQ_BUF_UMEM, &umems.buf, pool,
		  srq->buf.buf, srq->buf.length);
	fill_db(link, MLX5_IB_ATTR_CREATE_SRQ_DBR_BUF_UMEM, &umems, pool,
		srq->db);

	/* Its destruction needs it, and not everybody sets it. */
	srq->vsrq.srq.pd = pd;
	ret = ibv_icmd_create_srq(pd, vsrq, &srq->vsrq.srq, attr, link);
	return mlx5_explain_shared(pd, "an SRQ", ret);
}

int mlx5_cmd_create_shared_srq(struct ibv_pd *pd, struct mlx5_srq *srq,
			       struct ibv_srq_init_attr *attr,
			       const struct mlx5_ib_create_srq *cmd,
			       struct mlx5_ib_create_srq_resp *resp)
{
	struct ibv_srq_init_attr_ex attr_ex = {
		.srq_context = attr->srq_context,
		.attr = attr->attr,
	};
	int ret;

	ret = create_srq(pd, srq, NULL, &attr_ex, cmd, resp);
	if (!ret)
		attr->attr = attr_ex.attr;
	return ret;
}

int mlx5_cmd_create_shared_srq_ex(struct mlx5_srq *srq,
				  struct ibv_srq_init_attr_ex *attr,
				  const struct mlx5_ib_create_srq *cmd,
				  struct mlx5_ib_create_srq_resp *resp)
{
	return create_srq(attr->pd, srq, &srq->vsrq, attr, cmd, resp);
}
