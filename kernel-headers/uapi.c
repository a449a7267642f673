// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The values that the series adds to the kernel's user interface, asserted. It
 * compiles, and does nothing else: once against kernel-headers of the patched
 * tree, and once against the headers of the guest's kernel, which are the
 * truth:
 *
 *   cc -std=gnu11 -fsyntax-only -I build/tree/kernel-headers uapi.c
 *   cc -std=gnu11 -fsyntax-only -I LINUX-LIBC-DEV/usr/include uapi.c
 */
#include <assert.h>
#include <stddef.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>

#define IS(name, value) static_assert((name) == (value), #name)
#define AT(member, offset)						\
	static_assert(offsetof(struct ib_uverbs_buffer_desc, member) ==	\
		      (offset), #member)

IS(IB_UVERBS_DEVICE_CC_DMA_BOUNCE, 1ULL << 41);

IS(UVERBS_ATTR_CREATE_CQ_BUFFER_VA, 8);
IS(UVERBS_ATTR_CREATE_CQ_BUFFER_LENGTH, 9);
IS(UVERBS_ATTR_CREATE_CQ_BUFFER_FD, 10);
IS(UVERBS_ATTR_CREATE_CQ_BUFFER_OFFSET, 11);
IS(UVERBS_ATTR_CREATE_CQ_BUF_UMEM, 12);

IS(UVERBS_ATTR_CREATE_QP_BUF_UMEM, 15);
IS(UVERBS_ATTR_CREATE_QP_RQ_BUF_UMEM, 16);
IS(UVERBS_ATTR_CREATE_QP_SQ_BUF_UMEM, 17);

IS(UVERBS_ATTR_CREATE_SRQ_BUF_UMEM, 14);

/* What a driver adds to a method that it has in common with others */
IS(MLX5_IB_ATTR_CREATE_CQ_UAR_INDEX, 0x1002);
IS(MLX5_IB_ATTR_CREATE_CQ_DBR_BUF_UMEM, 0x1003);
IS(MLX5_IB_ATTR_CREATE_QP_DBR_BUF_UMEM, 0x1002);
IS(MLX5_IB_ATTR_CREATE_SRQ_DBR_BUF_UMEM, 0x1002);

IS(IB_UVERBS_BUFFER_TYPE_DMABUF, 0);
IS(IB_UVERBS_BUFFER_TYPE_VA, 1);
AT(type, 0);
AT(fd, 4);
AT(flags, 8);
AT(optional_flags, 12);
AT(addr, 16);
AT(length, 24);
static_assert(sizeof(struct ib_uverbs_buffer_desc) == 32, "size");
