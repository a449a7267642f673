/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Small anonymous buffers that were freed, kept mapped for the next ones. It
 * only holds buffers: what it hands back for good, the caller unmaps. Not seen
 * by providers.
 */
#ifndef IB_VERBS_BUF_STORE_H
#define IB_VERBS_BUF_STORE_H

#include <stdbool.h>
#include <stddef.h>

#include <infiniband/driver_buf.h>

/* Bytes of the largest buffer that is kept; huge pages are larger. */
#define BUF_STORE_LARGEST (512 << 10)

/* Bytes that are kept at most, in the whole process */
#define BUF_STORE_LIMIT (4 << 20)

/*
 * Takes out a buffer whose mapping has just this length, which is no more than
 * BUF_STORE_LARGEST, filled with zeros; NULL if there is none. Moves to gone
 * what is of no use in this process.
 */
struct ibv_buf *buf_store_take(size_t length, struct list_head *gone);

/*
 * Puts a buffer in, which its owner must not touch any more. Moves to gone what
 * had to make room, or the buffer itself if it is none to keep.
 */
void buf_store_put(struct ibv_buf *buf, struct list_head *gone);

/* Moves all to gone. */
void buf_store_empty(struct list_head *gone);

/* For a new buffer, of which buf_store_lost() may be asked later */
unsigned int buf_store_generation(void);

/*
 * True in a child process for a buffer of its parent that fork protection kept
 * out of it: at its addresses there is nothing, or something else.
 */
bool buf_store_lost(const struct ibv_buf *buf);

#endif /* IB_VERBS_BUF_STORE_H */
