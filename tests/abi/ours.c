// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What numbers.c is for upstream's headers and ours, for our headers alone: the
 * verbs for an application's own memory, and the part of struct ibv_buf that
 * upstream's providers know, so that a provider's file moves between bases.
 */
#include "numbers.c"

#include <infiniband/driver_buf.h>

function_is(ibv_alloc_user_buf, struct ibv_buf *(struct ibv_pd *, void *,
						 size_t, int));
function_is(ibv_free_user_buf, void (struct ibv_buf *));

member_is(struct ibv_buf, addr, 0, 8);
member_is(struct ibv_buf, size, 8, 8);
member_is(struct ibv_buf, pd, 16, 8);
member_is(struct ibv_buf, dmabuf_fd, 24, 4);
