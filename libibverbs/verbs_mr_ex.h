/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Extensible registration of memory regions: by address, by DMA-buf, or by the
 * handle of a buffer. Included by infiniband/verbs.h, which is what
 * applications include.
 */
#ifndef INFINIBAND_VERBS_MR_EX_H
#define INFINIBAND_VERBS_MR_EX_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_buf;
struct ibv_dmah;
struct ibv_mr;
struct ibv_pd;

/* Bits of ibv_mr_init_attr.comp_mask: which of the fields below it are set. */
enum ibv_mr_init_attr_mask {
	IBV_REG_MR_MASK_IOVA = 1 << 0,
	IBV_REG_MR_MASK_ADDR = 1 << 1,
	IBV_REG_MR_MASK_FD = 1 << 2,
	IBV_REG_MR_MASK_FD_OFFSET = 1 << 3,
	IBV_REG_MR_MASK_DMAH = 1 << 4,
	IBV_REG_MR_MASK_BUF = 1 << 5,
};

struct ibv_mr_init_attr {
	size_t length;		/* bytes to register */
	int access;		/* enum ibv_access_flags */
	uint64_t comp_mask;	/* enum ibv_mr_init_attr_mask */
	uint64_t iova;		/* address of the MR as the device sees it */
	void *addr;		/* start of the memory in this process */
	int fd;			/* DMA-buf */
	uint64_t fd_offset;	/* bytes from the start of the DMA-buf */
	struct ibv_dmah *dmah;	/* DMA handle: not supported yet */
	struct ibv_buf *buf;	/* buffer that addr lies in */
};

/**
 * ibv_reg_mr_ex - Register a memory region described by attributes
 * @pd: protection domain of the MR
 * @mr_init_attr: what to register; never written to
 *
 * Exactly one of ADDR and FD selects the memory:
 *   ADDR, with or without IOVA: memory of this process. Without IOVA the MR's
 *	address is @addr.
 *   FD, with FD_OFFSET and IOVA: a range of a DMA-buf.
 *   BUF with ADDR: [addr, addr + length) lies in a buffer that was allocated
 *	from this very @pd. IOVA may go with it only when the buffer is not
 *	backed by a DMA-buf.
 *
 * Returns the MR, which ibv_dereg_mr() ends, or NULL with errno set:
 * EOPNOTSUPP for DMAH, for an unknown bit, or when the device or the kernel
 * cannot register such memory; EINVAL for another combination or a range that
 * is not in the buffer; else the errno of the kernel.
 */
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd,
			     struct ibv_mr_init_attr *mr_init_attr);

/**
 * ibv_reg_buf_mr - Register a range of a buffer
 * @pd: protection domain that the buffer was allocated from
 * @buf: the buffer
 * @addr: start of the range, any byte of the buffer
 * @length: bytes to register, at least 1
 * @access: enum ibv_access_flags
 *
 * The same as ibv_reg_mr_ex() with BUF and ADDR. The MR's addr is @addr and
 * its length @length, whatever memory backs the buffer.
 *
 * Returns the MR, which ibv_dereg_mr() ends, or NULL with errno set as
 * ibv_reg_mr_ex() does.
 */
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf,
			      void *addr, size_t length, int access);

#ifdef __cplusplus
}
#endif

#endif /* INFINIBAND_VERBS_MR_EX_H */
