/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A pool as its two halves see it: pages (buf_pool.c) and, in pages of that,
 * records (buf_pool_record.c).
 */
#ifndef IB_VERBS_BUF_POOL_H
#define IB_VERBS_BUF_POOL_H

#include <pthread.h>

#include <ccan/list.h>
#include <infiniband/driver.h>
#include <util/cl_qmap.h>

struct verbs_buf_pool {
	struct verbs_pd *pd;
	size_t page_size;

	/*
	 * Pages: the chunks by their address and by their longest run of free
	 * pages. The lock is for all of this.
	 */
	pthread_mutex_t lock;
	size_t chunk_pages;		/* of an ordinary chunk */
	unsigned int empty_chunks;
	cl_qmap_t chunks;
	struct list_head *by_run;	/* 2 * chunk_pages of them */

	/* Records: the pages by their address, and those that have room */
	pthread_mutex_t record_lock;	/* taken before lock */
	size_t record_size;
	cl_qmap_t record_pages;
	struct list_head with_room;
};

#endif /* IB_VERBS_BUF_POOL_H */
