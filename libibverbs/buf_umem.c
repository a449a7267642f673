// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * How a part of a buffer is described to the kernel where it is memory of an
 * object other than a MR. Registration is in reg_mr_ex.c.
 */
#include <errno.h>

#include <infiniband/driver.h>

#include "buf.h"

int verbs_buf_umem(const struct ibv_buf *buf, size_t offset, size_t length,
		   struct ib_uverbs_buffer_desc *umem)
{
	if (!length || offset > buf->size || length > buf->size - offset)
		return EINVAL;

	if (buf_goes_by_fd(buf))
		*umem = (struct ib_uverbs_buffer_desc) {
			.type = IB_UVERBS_BUFFER_TYPE_DMABUF,
			.fd = buf->dmabuf_fd,
			.addr = buf->dmabuf_offset + offset,
			.length = length,
		};
	else
		*umem = (struct ib_uverbs_buffer_desc) {
			.type = IB_UVERBS_BUFFER_TYPE_VA,
			.fd = -1,
			.addr = (uintptr_t)buf->addr + offset,
			.length = length,
		};

	return 0;
}
