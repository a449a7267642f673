/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the parts of libibverbs that deal with buffers share: the interface of
 * a backing. Not seen by providers.
 */
#ifndef IB_VERBS_BUF_H
#define IB_VERBS_BUF_H

#include <stdbool.h>
#include <stddef.h>

#include <infiniband/driver_buf.h>

/*
 * alloc() maps zero-filled memory for at least buf->size bytes, sets addr,
 * map_length and map_page_size (and the DMA-buf, if there is one) and returns
 * 0, or an errno with nothing left behind. free() undoes it.
 */
struct buf_backing_ops {
	int (*alloc)(struct ibv_buf *buf);
	void (*free)(struct ibv_buf *buf);
};

extern const struct buf_backing_ops buf_anon_ops;

/* NULL for a backing that this library does not have */
const struct buf_backing_ops *buf_backing_ops(enum verbs_buf_backing backing);

/* Round size up to pages; false when the result does not fit a size_t. */
bool buf_whole_pages(size_t size, size_t page_size, size_t *length);

#endif /* IB_VERBS_BUF_H */
