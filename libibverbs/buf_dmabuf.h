/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the backings with a DMA-buf share: allocation from a heap of the kernel,
 * and the mapping of what was allocated.
 */
#ifndef IB_VERBS_BUF_DMABUF_H
#define IB_VERBS_BUF_DMABUF_H

#include "buf.h"

/* The heap of ordinary memory, and that of memory shared with the host */
#define BUF_HEAP_SYSTEM "system"
#define BUF_HEAP_CC_SHARED "system_cc_shared"

/*
 * Allocate buf from /dev/dma_heap/heap. Returns 0 or an errno: ENOENT when the
 * kernel has no such heap, EACCES when the process may not open it.
 */
int buf_heap_alloc(struct ibv_buf *buf, const char *heap);

/* 0 if the process may open the heap, else an errno as above */
int buf_heap_check(const char *heap);

/*
 * False when there is surely less. The kernel rather kills a process than
 * refuse it a page of a heap or a memfd, so this is asked before.
 */
bool buf_memory_is_available(size_t length);

/* Bytes of a DMA-buf; an errno, EINVAL if fd is none */
int buf_dmabuf_size(int fd, size_t *size);

/*
 * Map length bytes of map_fd for a buffer with the DMA-buf dmabuf_fd, which is
 * the kernel's answer and the buffer's from now on. On failure it is closed,
 * unless it is no DMA-buf; EIO if it is none or too short.
 */
int buf_dmabuf_map(struct ibv_buf *buf, size_t length, int map_fd,
		   int dmabuf_fd);

/* Unmap and close what buf_dmabuf_map() set. */
void buf_dmabuf_free(struct ibv_buf *buf);

#endif /* IB_VERBS_BUF_DMABUF_H */
