// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * ibv_reg_mr_ex() and ibv_reg_buf_mr(): which fields go together, and how they
 * turn into the two ways in which a provider registers memory, by address and
 * by DMA-buf. The plain registration verbs are in verbs.c.
 */
#include <errno.h>
#include <stdint.h>

#include <infiniband/driver.h>
#include <infiniband/verbs.h>

#include "ibverbs.h"

#define REG_MR_KNOWN_MASK                                                      \
	(IBV_REG_MR_MASK_IOVA | IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_FD |    \
	 IBV_REG_MR_MASK_FD_OFFSET | IBV_REG_MR_MASK_BUF)

static bool in_buf(const struct ibv_buf *buf, const void *addr, size_t length)
{
	uintptr_t start = (uintptr_t)buf->addr;
	uintptr_t at = (uintptr_t)addr;

	return at >= start && at - start < buf->size && length &&
	       length <= buf->size - (at - start);
}

/* The buffer owns the fork protection of its memory, so the MR has none. */
static struct ibv_mr *reg_buf_addr(struct ibv_pd *pd,
				   const struct ibv_mr_init_attr *attr,
				   uint64_t iova)
{
	struct verbs_device *device = verbs_get_device(pd->context->device);
	unsigned int access = attr->access;
	struct ibv_mr *mr;

	if (!(device->core_support & IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS))
		access &= ~IBV_ACCESS_OPTIONAL_RANGE;

	mr = get_ops(pd->context)->reg_mr(pd, attr->addr, attr->length, iova,
					  access);
	if (!mr)
		return NULL;

	mr->context = pd->context;
	mr->pd = pd;
	mr->addr = attr->addr;
	mr->length = attr->length;
	verbs_get_mr(mr)->fork_exempt = true;
	return mr;
}

static struct ibv_mr *reg_buf_dmabuf(struct ibv_pd *pd,
				     const struct ibv_mr_init_attr *attr)
{
	struct ibv_buf *buf = attr->buf;
	uintptr_t iova = (uintptr_t)attr->addr;
	struct ibv_mr *mr;

	mr = ibv_reg_dmabuf_mr(pd, buf->dmabuf_offset + (attr->addr - buf->addr),
			       attr->length, iova, buf->dmabuf_fd,
			       attr->access);
	if (mr)
		mr->addr = attr->addr;
	return mr;
}

static struct ibv_mr *reg_buf(struct ibv_pd *pd,
			      const struct ibv_mr_init_attr *attr)
{
	struct ibv_buf *buf = attr->buf;
	bool has_iova = attr->comp_mask & IBV_REG_MR_MASK_IOVA;

	if (!(attr->comp_mask & IBV_REG_MR_MASK_ADDR) ||
	    attr->comp_mask & (IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET) ||
	    !buf || buf->pd != pd || !in_buf(buf, attr->addr, attr->length) ||
	    (has_iova && buf->dmabuf_fd >= 0)) {
		errno = EINVAL;
		return NULL;
	}

	if (buf->dmabuf_fd >= 0)
		return reg_buf_dmabuf(pd, attr);

	return reg_buf_addr(pd, attr,
			    has_iova ? attr->iova : (uintptr_t)attr->addr);
}

struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd,
			     struct ibv_mr_init_attr *mr_init_attr)
{
	const struct ibv_mr_init_attr *attr = mr_init_attr;

	if (!pd || !attr) {
		errno = EINVAL;
		return NULL;
	}

	if (!check_comp_mask(attr->comp_mask, REG_MR_KNOWN_MASK)) {
		errno = EOPNOTSUPP;
		return NULL;
	}

	if (attr->comp_mask & IBV_REG_MR_MASK_BUF)
		return reg_buf(pd, attr);

	switch (attr->comp_mask) {
	case IBV_REG_MR_MASK_ADDR:
		return ibv_reg_mr_iova2(pd, attr->addr, attr->length,
					(uintptr_t)attr->addr, attr->access);

	case IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_IOVA:
		return ibv_reg_mr_iova2(pd, attr->addr, attr->length,
					attr->iova, attr->access);

	case IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET | IBV_REG_MR_MASK_IOVA:
		return ibv_reg_dmabuf_mr(pd, attr->fd_offset, attr->length,
					 attr->iova, attr->fd, attr->access);

	default:
		errno = EINVAL;
		return NULL;
	}
}

struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf,
			      void *addr, size_t length, int access)
{
	struct ibv_mr_init_attr attr = {
		.length = length,
		.access = access,
		.comp_mask = IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_BUF,
		.addr = addr,
		.buf = buf,
	};

	return ibv_reg_mr_ex(pd, &attr);
}
