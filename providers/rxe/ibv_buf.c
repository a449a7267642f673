// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The backings that suit rxe. Its kernel driver registers memory by address
 * only, so a DMA-buf must be one whose mapping can be pinned.
 */
#include <infiniband/driver.h>

#include "rxe.h"

void *rxe_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf)
{
	static const enum verbs_buf_backing backings[] = {
		VERBS_BUF_ANON,
		VERBS_BUF_HUGE,
		VERBS_BUF_UDMABUF,
		VERBS_BUF_END,
	};

	return verbs_alloc_buf_from(pd, size, backings, buf);
}
