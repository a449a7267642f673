/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Rings and doorbell records in memory that a confidential guest shares with
 * the host: those of parent domains that allow it, on a device that reaches no
 * other memory. They come from a pool of the parent domain and the kernel is
 * told of them by attributes, which only its ioctl interface has.
 */
#ifndef MLX5_SHARED_BUF_H
#define MLX5_SHARED_BUF_H

#include "mlx5.h"
#include "mlx5-abi.h"

/* The descriptions of an object's memory, until the kernel has read them */
struct mlx5_shared_umems {
	struct ib_uverbs_buffer_desc buf;
	struct ib_uverbs_buffer_desc sq_buf;
	struct ib_uverbs_buffer_desc db;
};

/*
 * Give mparent_domain a pool, if the application allows it and the device
 * needs it. Returns 0, or sets and returns errno.
 */
int mlx5_init_shared(struct mlx5_parent_domain *mparent_domain,
		     struct ibv_context *context,
		     const struct ibv_parent_domain_init_attr *attr);
void mlx5_uninit_shared(struct mlx5_parent_domain *mparent_domain);

/* The pool of a parent domain; NULL for any other pd, which may be NULL too */
static inline struct verbs_buf_pool *mlx5_shared_pool(struct ibv_pd *pd)
{
	struct mlx5_parent_domain *mparent_domain = to_mparent_domain(pd);

	return mparent_domain ? mparent_domain->shared_pool : NULL;
}

/* For buf->mparent_domain. Returns 0, or -1 and errno. */
int mlx5_alloc_shared_buf(struct mlx5_buf *buf, size_t size);
void mlx5_free_shared_buf(struct mlx5_buf *buf);

/*
 * For what the kernel takes by address only, where private memory would not
 * do: logs and returns EOPNOTSUPP, also in errno, if pd has a pool, else 0.
 */
int mlx5_refuse_shared(struct ibv_pd *pd, const char *what);

/* Add the two attributes of a CQ, if its parent domain has a pool. */
void mlx5_fill_shared_cq(struct ibv_command_buffer *cmd, struct mlx5_cq *cq,
			 struct mlx5_shared_umems *umems);

/* Logs if a kernel without the attributes is the cause of ret. Returns ret. */
int mlx5_explain_shared(struct ibv_pd *pd, const char *what, int ret);

/* The commands for a pd that has a pool; cmd and resp are the driver's. */
int mlx5_cmd_create_shared_qp(struct ibv_context *context, struct mlx5_qp *qp,
			      struct ibv_qp_init_attr_ex *attr,
			      const struct mlx5_ib_create_qp *cmd,
			      struct mlx5_ib_create_qp_resp *resp);
int mlx5_cmd_create_shared_srq(struct ibv_pd *pd, struct mlx5_srq *srq,
			       struct ibv_srq_init_attr *attr,
			       const struct mlx5_ib_create_srq *cmd,
			       struct mlx5_ib_create_srq_resp *resp);
int mlx5_cmd_create_shared_srq_ex(struct mlx5_srq *srq,
				  struct ibv_srq_init_attr_ex *attr,
				  const struct mlx5_ib_create_srq *cmd,
				  struct mlx5_ib_create_srq_resp *resp);

#endif /* MLX5_SHARED_BUF_H */
