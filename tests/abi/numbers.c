// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What is compiled into a program that uses buffers, on an LP64 machine: it is
 * the same in upstream's headers and in ours, so this file must compile against
 * both. There is nothing to run. What only ours have stands in ours.c.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#define member_is(type, member, at, bytes)                                     \
	static_assert(offsetof(type, member) == (at) &&                        \
		      sizeof(((type *)NULL)->member) == (bytes),               \
		      #type "." #member)

#define function_is(name, ...)                                                 \
	static_assert(__builtin_types_compatible_p(__typeof__(name),           \
						   __VA_ARGS__),               \
		      #name)

/* Operations that headers call in line are found from the end of the struct. */
#define operation_is(member, before)                                           \
	static_assert(offsetof(struct verbs_context, context) -                \
		      offsetof(struct verbs_context, member) == (before),      \
		      #member)

static_assert(IBV_REG_MR_MASK_IOVA == 1 << 0, "IOVA");
static_assert(IBV_REG_MR_MASK_ADDR == 1 << 1, "ADDR");
static_assert(IBV_REG_MR_MASK_FD == 1 << 2, "FD");
static_assert(IBV_REG_MR_MASK_FD_OFFSET == 1 << 3, "FD_OFFSET");
static_assert(IBV_REG_MR_MASK_DMAH == 1 << 4, "DMAH");
static_assert(IBV_REG_MR_MASK_BUF == 1 << 5, "BUF");

static_assert(IBV_DEVICE_CC_DMA_BOUNCE == 1ULL << 41, "CC_DMA_BOUNCE");
static_assert(IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC == 1 << 2,
	      "ALLOW_CC_UNPROTECTED_ALLOC");

member_is(struct ibv_mr_init_attr, length, 0, 8);
member_is(struct ibv_mr_init_attr, access, 8, 4);
member_is(struct ibv_mr_init_attr, comp_mask, 16, 8);
member_is(struct ibv_mr_init_attr, iova, 24, 8);
member_is(struct ibv_mr_init_attr, addr, 32, 8);
member_is(struct ibv_mr_init_attr, fd, 40, 4);
member_is(struct ibv_mr_init_attr, fd_offset, 48, 8);
member_is(struct ibv_mr_init_attr, dmah, 56, 8);
member_is(struct ibv_mr_init_attr, buf, 64, 8);
static_assert(sizeof(struct ibv_mr_init_attr) == 72, "ibv_mr_init_attr");

function_is(ibv_alloc_buf, void *(struct ibv_pd *, size_t, struct ibv_buf **));
function_is(ibv_free_buf, void (struct ibv_buf *));
function_is(ibv_reg_buf_mr, struct ibv_mr *(struct ibv_pd *, struct ibv_buf *,
					    void *, size_t, int));
function_is(ibv_export_buf_dmabuf_fd, int (struct ibv_buf *));
function_is(ibv_reg_mr_ex, struct ibv_mr *(struct ibv_pd *,
					   struct ibv_mr_init_attr *));

operation_is(sz, 8);
operation_is(create_cq_ex, 120);
operation_is(alloc_parent_domain, 208);
operation_is(reg_dm_mr, 264);
operation_is(query_port, 320);
