// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Handles of ibv_alloc_user_buf(): which arguments are refused, how a handle is
 * registered, and that neither free verb takes the handle of the other. What
 * the kernel makes of a DMA-buf and of fork is tested in the guest.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stub.h"

static char arena[64 << 10];

static void refuse(struct ibv_pd *pd, void *addr, size_t size, int fd, int err)
{
	errno = 0;
	assert_null(ibv_alloc_user_buf(pd, addr, size, fd));
	assert_int_equal(errno, err);
}

static void bad_arguments(void **state)
{
	struct stub *stub = *state;
	void *last = (void *)UINTPTR_MAX;
	int fd;

	refuse(NULL, arena, 1, -1, EINVAL);
	refuse(&stub->pd, NULL, 1, -1, EINVAL);
	refuse(&stub->pd, arena, 0, -1, EINVAL);
	refuse(&stub->pd, arena, 1, -2, EINVAL);
	refuse(&stub->pd, arena, SIZE_MAX, -1, EINVAL);
	refuse(&stub->pd, last, 2, -1, EINVAL);
	refuse(&stub->pd, arena, 1, 1 << 20, EBADF);

	fd = memfd_create("no DMA-buf", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, sizeof(arena)), 0);
	refuse(&stub->pd, arena, sizeof(arena), fd, EINVAL);
	assert_int_equal(close(fd), 0);
}

static void last_byte_of_the_address_space(void **state)
{
	struct stub *stub = *state;
	struct ibv_buf *buf;

	buf = ibv_alloc_user_buf(&stub->pd, (void *)UINTPTR_MAX, 1, -1);
	assert_non_null(buf);
	ibv_free_user_buf(buf);
}

static void memory_is_left_alone(void **state)
{
	struct stub *stub = *state;
	int vmas = count_vmas();
	struct ibv_buf *buf;

	arena[5] = 'x';
	buf = ibv_alloc_user_buf(&stub->pd, arena + 1, 4096, -1);
	assert_non_null(buf);
	assert_int_equal(count_vmas(), vmas);
	ibv_free_user_buf(buf);
	assert_int_equal(arena[5], 'x');
	assert_int_equal(count_vmas(), vmas);
}

static void registers_by_address_within_the_range(void **state)
{
	struct stub *stub = *state;
	struct ibv_buf *buf;
	struct ibv_mr *mr;

	buf = ibv_alloc_user_buf(&stub->pd, arena + 1, 4096, -1);
	assert_non_null(buf);

	mr = ibv_reg_buf_mr(&stub->pd, buf, arena + 3, 4094, 0);
	assert_non_null(mr);
	assert_ptr_equal(mr->addr, arena + 3);
	assert_int_equal(mr->length, 4094);
	assert_int_equal(stub->reg_mr.count, 1);
	assert_ptr_equal(stub->reg_mr.addr, arena + 3);
	assert_int_equal(stub->reg_dmabuf_mr.count, 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);

	errno = 0;
	assert_null(ibv_reg_buf_mr(&stub->pd, buf, arena, 1, 0));
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_null(ibv_reg_buf_mr(&stub->pd, buf, arena + 3, 4095, 0));
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_null(ibv_reg_buf_mr(&stub->other_pd, buf, arena + 3, 1, 0));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_export_buf_dmabuf_fd(buf), -1);
	assert_int_equal(errno, ENODATA);
	ibv_free_user_buf(buf);
}

static void free_verbs_refuse_the_others_handle(void **state)
{
	struct stub *stub = *state;
	struct ibv_buf *user, *own;
	char *mem;

	user = ibv_alloc_user_buf(&stub->pd, arena, 1, -1);
	assert_non_null(user);
	mem = ibv_alloc_buf(&stub->pd, 4096, &own);
	assert_non_null(mem);

	ibv_free_buf(user);
	ibv_free_user_buf(own);
	/* Both are still there. */
	mem[0] = 1;
	assert_true(find_vma(mem, &(struct vma){}));
	assert_ptr_equal(user->addr, arena);

	ibv_free_user_buf(user);
	ibv_free_buf(own);
	ibv_free_user_buf(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define STUB_TEST(f) cmocka_unit_test_setup_teardown(f, stub_setup, \
						     stub_teardown)
		STUB_TEST(bad_arguments),
		STUB_TEST(last_byte_of_the_address_space),
		STUB_TEST(memory_is_left_alone),
		STUB_TEST(registers_by_address_within_the_range),
		STUB_TEST(free_verbs_refuse_the_others_handle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
