/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Pools of memory that is shared with the host, for what a provider keeps
 * between itself and a device: rings and doorbell records. Such memory costs a
 * file descriptor and a mapping for each piece that is taken from the kernel,
 * so a pool takes large chunks and hands out pages and records of them.
 * Included by infiniband/driver.h.
 *
 * What a pool hands out is no struct ibv_buf: an application can neither
 * export nor register it. It is zero-filled and counts as a user of the
 * protection domain. All functions may be called by several threads at a time.
 */
#ifndef INFINIBAND_DRIVER_BUF_POOL_H
#define INFINIBAND_DRIVER_BUF_POOL_H

#include <stddef.h>
#include <stdint.h>

struct ibv_pd;
struct verbs_buf_pool;

/*
 * An empty pool for pd, which begins with a struct verbs_pd and must outlive
 * the pool. Records are of record_size bytes, a power of two of at most a page.
 * NULL and errno on failure.
 */
struct verbs_buf_pool *verbs_buf_pool_create(struct ibv_pd *pd,
					     size_t record_size);

/* Nothing that the pool handed out is in use any more. */
void verbs_buf_pool_destroy(struct verbs_buf_pool *pool);

/*
 * Whole pages of at least size bytes, which is not 0. NULL and errno on
 * failure: ENOMEM, or what the heap of shared memory says.
 */
void *verbs_buf_pool_alloc(struct verbs_buf_pool *pool, size_t size);

/* addr and size are those of the allocation. */
void verbs_buf_pool_free(struct verbs_buf_pool *pool, void *addr, size_t size);

/* A record, which shares its page with other records only; errno as above */
void *verbs_buf_pool_alloc_record(struct verbs_buf_pool *pool);
void verbs_buf_pool_free_record(struct verbs_buf_pool *pool, void *record);

/*
 * The DMA-buf that addr, which the pool handed out, lies in, and its offset
 * there. The file descriptor is the pool's.
 */
int verbs_buf_pool_find(struct verbs_buf_pool *pool, const void *addr,
			uint64_t *offset);

#endif /* INFINIBAND_DRIVER_BUF_POOL_H */
