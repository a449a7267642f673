// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The backings that suit mlx5 for the buffers of applications. Its kernel
 * driver imports DMA-bufs. What the provider's own environment variables say
 * is for its rings, which are not dealt with here.
 */
#include <infiniband/driver.h>

#include "mlx5.h"

void *mlx5_alloc_ibv_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf)
{
	static const enum verbs_buf_backing backings[] = {
		VERBS_BUF_ANON,
		VERBS_BUF_HUGE,
		VERBS_BUF_DMABUF,
		VERBS_BUF_END,
	};

	return verbs_pd_alloc_buf(pd, size, backings, buf);
}
