/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libibverbs keeps small buffers that were freed. Programs that look for what
 * is left behind have it give them back first.
 */
#ifndef TESTS_GUEST_STORE_H
#define TESTS_GUEST_STORE_H

#include <errno.h>

#include <infiniband/verbs.h>

/* What no machine can map is refused, but not before all else was tried. */
static inline void store_empty(struct ibv_pd *pd)
{
	struct ibv_buf *buf;

	assert_null(ibv_alloc_buf(pd, (size_t)1 << 60, &buf));
	assert_int_equal(errno, ENOMEM);
}

#endif
