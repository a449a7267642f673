/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Buffers as providers see them. Included by infiniband/driver.h. A provider's
 * alloc_buf op names the backings that suit its device, in the order of its
 * preference; libibverbs does the rest.
 */
#ifndef INFINIBAND_DRIVER_BUF_H
#define INFINIBAND_DRIVER_BUF_H

#include <stddef.h>
#include <stdint.h>

struct ibv_buf;
struct ibv_pd;

/* Where the memory of a buffer comes from */
enum verbs_buf_backing {
	VERBS_BUF_END,	/* ends a list of backings */
	VERBS_BUF_ANON,	/* private anonymous mapping */
};

/*
 * The first four members are what upstream's providers know. A buffer is one
 * mapping, which starts at addr.
 */
struct ibv_buf {
	void *addr;
	size_t size;		/* bytes asked for */
	struct ibv_pd *pd;
	int dmabuf_fd;		/* -1: not backed by a DMA-buf */
	uint64_t dmabuf_offset;	/* of addr in the DMA-buf */
	size_t map_length;	/* bytes of the mapping, size rounded up */
	size_t map_page_size;	/* of the mapping */
	enum verbs_buf_backing backing;
};

/*
 * Allocate from the first backing of the list that can be had. When none can,
 * returns NULL with the errno of the last one and leaves *buf alone.
 */
void *verbs_alloc_buf_from(struct ibv_pd *pd, size_t size,
			   const enum verbs_buf_backing *backings,
			   struct ibv_buf **buf);

/* The ops of a provider that sets none */
void *verbs_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
void verbs_free_buf(struct ibv_buf *buf);

#endif /* INFINIBAND_DRIVER_BUF_H */
