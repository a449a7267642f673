// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The numbers that programs and providers are compiled with, on an LP64
 * machine: those of upstream's rdma-core 65.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <infiniband/driver_buf.h>
#include <infiniband/verbs.h>

#define assert_member(type, member, at, bytes)                                 \
	do {                                                                   \
		assert_int_equal(offsetof(type, member), at);                  \
		assert_int_equal(sizeof(((type *)NULL)->member), bytes);       \
	} while (0)

static void mask_bits(void **state)
{
	assert_int_equal(IBV_REG_MR_MASK_IOVA, 1 << 0);
	assert_int_equal(IBV_REG_MR_MASK_ADDR, 1 << 1);
	assert_int_equal(IBV_REG_MR_MASK_FD, 1 << 2);
	assert_int_equal(IBV_REG_MR_MASK_FD_OFFSET, 1 << 3);
	assert_int_equal(IBV_REG_MR_MASK_DMAH, 1 << 4);
	assert_int_equal(IBV_REG_MR_MASK_BUF, 1 << 5);
}

static void mr_init_attr(void **state)
{
	assert_member(struct ibv_mr_init_attr, length, 0, 8);
	assert_member(struct ibv_mr_init_attr, access, 8, 4);
	assert_member(struct ibv_mr_init_attr, comp_mask, 16, 8);
	assert_member(struct ibv_mr_init_attr, iova, 24, 8);
	assert_member(struct ibv_mr_init_attr, addr, 32, 8);
	assert_member(struct ibv_mr_init_attr, fd, 40, 4);
	assert_member(struct ibv_mr_init_attr, fd_offset, 48, 8);
	assert_member(struct ibv_mr_init_attr, dmah, 56, 8);
	assert_member(struct ibv_mr_init_attr, buf, 64, 8);
	assert_int_equal(sizeof(struct ibv_mr_init_attr), 72);
}

static void buf_as_upstream_providers_know_it(void **state)
{
	assert_member(struct ibv_buf, addr, 0, 8);
	assert_member(struct ibv_buf, size, 8, 8);
	assert_member(struct ibv_buf, pd, 16, 8);
	assert_member(struct ibv_buf, dmabuf_fd, 24, 4);
}

static void signatures(void **state)
{
	void *(*alloc_buf)(struct ibv_pd *, size_t, struct ibv_buf **) =
		ibv_alloc_buf;
	void (*free_buf)(struct ibv_buf *) = ibv_free_buf;
	struct ibv_mr *(*reg_buf_mr)(struct ibv_pd *, struct ibv_buf *, void *,
				     size_t, int) = ibv_reg_buf_mr;
	int (*export_fd)(struct ibv_buf *) = ibv_export_buf_dmabuf_fd;
	struct ibv_mr *(*reg_mr_ex)(struct ibv_pd *,
				    struct ibv_mr_init_attr *) = ibv_reg_mr_ex;

	assert_non_null(alloc_buf);
	assert_non_null(free_buf);
	assert_non_null(reg_buf_mr);
	assert_non_null(export_fd);
	assert_non_null(reg_mr_ex);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mask_bits),
		cmocka_unit_test(mr_init_attr),
		cmocka_unit_test(buf_as_upstream_providers_know_it),
		cmocka_unit_test(signatures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
