// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The verbs that allocate, free and export buffers, and the ops behind them.
 * What memory a buffer gets is the business of the backings; how a range of it
 * is registered stands in reg_mr_ex.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <infiniband/driver.h>

#include "buf.h"
#include "ibverbs.h"

void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf)
{
	struct ibv_buf *new_buf;

	if (!pd || !size || !buf) {
		errno = EINVAL;
		return NULL;
	}

	if (!get_ops(pd->context)->alloc_buf(pd, size, &new_buf))
		return NULL;

	*buf = new_buf;
	return new_buf->addr;
}

void ibv_free_buf(struct ibv_buf *buf)
{
	if (buf)
		get_ops(buf->pd->context)->free_buf(buf);
}

int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf)
{
	if (!buf) {
		errno = EINVAL;
		return -1;
	}

	/* The fd would show whatever else lies in the DMA-buf before addr. */
	if (buf->dmabuf_fd < 0 || buf->dmabuf_offset) {
		errno = ENODATA;
		return -1;
	}

	return fcntl(buf->dmabuf_fd, F_DUPFD_CLOEXEC, 0);
}

/*
 * Fork protection is applied here, once and to the whole mapping, so that no
 * registration has to deal with it. On a failure in the backing errno tells
 * why and the caller goes on to its next choice.
 */
static int alloc_backed(struct ibv_buf *buf, enum verbs_buf_backing backing)
{
	const struct buf_backing_ops *ops = buf_backing_ops(backing);
	int ret;

	if (!ops)
		return EOPNOTSUPP;

	buf->backing = backing;
	buf->dmabuf_fd = -1;
	buf->dmabuf_offset = 0;
	ret = ops->alloc(buf);
	if (ret)
		return ret;

	if (verbs_fork_mapping(buf->addr, buf->map_length, buf->map_page_size,
			       MADV_DONTFORK)) {
		ret = errno;
		ops->free(buf);
	}

	return ret;
}

void *verbs_alloc_buf_from(struct ibv_pd *pd, size_t size,
			   const enum verbs_buf_backing *backings,
			   struct ibv_buf **buf)
{
	struct ibv_buf *new_buf;
	int ret = EOPNOTSUPP;

	new_buf = calloc(1, sizeof(*new_buf));
	if (!new_buf)
		return NULL;

	new_buf->pd = pd;
	new_buf->size = size;
	for (; *backings != VERBS_BUF_END; backings++) {
		ret = alloc_backed(new_buf, *backings);
		if (!ret) {
			*buf = new_buf;
			return new_buf->addr;
		}
	}

	free(new_buf);
	errno = ret;
	return NULL;
}

void *verbs_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf)
{
	static const enum verbs_buf_backing backings[] = {
		VERBS_BUF_ANON,
		VERBS_BUF_END,
	};

	return verbs_alloc_buf_from(pd, size, backings, buf);
}

void verbs_free_buf(struct ibv_buf *buf)
{
	/*
	 * When the books of fork protection cannot be brought up to date (no
	 * memory), other memory must never appear at these addresses: it would
	 * count as protected, and not be. Rather keep the mapping.
	 */
	if (verbs_fork_mapping(buf->addr, buf->map_length, buf->map_page_size,
			       MADV_DOFORK))
		verbs_err(verbs_get_ctx(buf->pd->context),
			  "buffer at %p stays mapped: no memory to end its fork protection\n",
			  buf->addr);
	else
		buf_backing_ops(buf->backing)->free(buf);

	free(buf);
}
