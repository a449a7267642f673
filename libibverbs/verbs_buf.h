/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Provider-aware buffers: memory that the device of a protection domain can
 * reach, chosen by the provider. Included by infiniband/verbs.h, which is what
 * applications include. Registration is in infiniband/verbs_mr_ex.h.
 */
#ifndef INFINIBAND_VERBS_BUF_H
#define INFINIBAND_VERBS_BUF_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_pd;

/* A buffer and where its memory comes from; opaque to applications. */
struct ibv_buf;

/**
 * ibv_alloc_buf - Allocate memory that suits the device of a protection domain
 * @pd: protection domain (or parent domain) that the buffer belongs to; it
 *	must outlive the buffer
 * @size: bytes wanted, at least 1
 * @buf: where the handle of the buffer is stored on success
 *
 * The memory is page aligned, zero-filled, readable and writable, and shares
 * no page with anything else in the process.
 *
 * Returns the address of the memory, which the caller releases with
 * ibv_free_buf(). Returns NULL with errno set, and *@buf untouched, on failure:
 * EINVAL for a bad argument, ENOMEM when there is no such memory, else the
 * errno of the system call that failed.
 */
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);

/**
 * ibv_free_buf - Release a buffer of ibv_alloc_buf()
 * @buf: the buffer, whose MRs have been deregistered; NULL is a no-op
 */
void ibv_free_buf(struct ibv_buf *buf);

/**
 * ibv_export_buf_dmabuf_fd - Get a file descriptor on a buffer's DMA-buf
 * @buf: a buffer backed by a DMA-buf
 *
 * Offset 0 of the DMA-buf is the address of the buffer.
 *
 * Returns a new close-on-exec file descriptor that the caller closes. Returns
 * -1 with errno set on failure: EINVAL when @buf is NULL, ENODATA when the
 * buffer is not backed by a DMA-buf, EMFILE when the process has no file
 * descriptor left.
 */
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf);

#ifdef __cplusplus
}
#endif

#endif /* INFINIBAND_VERBS_BUF_H */
