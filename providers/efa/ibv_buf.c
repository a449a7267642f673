// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The backings that suit efa. Its kernel driver imports DMA-bufs, and in a
 * confidential guest the device reaches shared memory only, which libibverbs
 * takes for a parent domain that allows it.
 */
#include <infiniband/driver.h>

#include "efa.h"
#include "verbs.h"

void *efa_alloc_buf(struct ibv_pd *ibvpd, size_t size, struct ibv_buf **buf)
{
	static const enum verbs_buf_backing backings[] = {
		VERBS_BUF_ANON,
		VERBS_BUF_HUGE,
		VERBS_BUF_DMABUF,
		VERBS_BUF_END,
	};

	return verbs_pd_alloc_buf(ibvpd, size, backings, buf);
}
