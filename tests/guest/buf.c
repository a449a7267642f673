// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * ibv_alloc_buf, ibv_free_buf and ibv_export_buf_dmabuf_fd on a real device:
 * what memory comes, what refusals say, and that nothing stays behind. The
 * buffers are those that the device reaches: shared memory where it bounces.
 * Registration is in reg.c, fork protection in fork.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "mem.h"
#include "rdma.h"
#include "store.h"

static struct rdma rdma;
static struct mem_list before, after;

static const size_t sizes[] = {
	1, 4095, 4096, 4097, 2 * MIB - 1, 2 * MIB, 3 * MIB, 64 * MIB,
};

static void *alloc_of(struct ibv_pd *pd, size_t size, struct ibv_buf **buf)
{
	char *mem;

	*buf = NULL;
	mem = ibv_alloc_buf(pd, size, buf);
	assert_non_null(mem);
	assert_non_null(*buf);
	assert_int_equal((uintptr_t)mem % mem_whole(1), 0);
	return mem;
}

static void *alloc(size_t size, struct ibv_buf **buf)
{
	return alloc_of(rdma.pd, size, buf);
}

static void refuse(struct ibv_pd *pd, size_t size, int err)
{
	struct ibv_buf *const mark = (struct ibv_buf *)&rdma;
	struct ibv_buf *buf = mark;

	errno = 0;
	assert_null(ibv_alloc_buf(pd, size, &buf));
	assert_int_equal(errno, err);
	assert_ptr_equal(buf, mark);
}

static void zero_filled_whole_pages(void **state)
{
	struct ibv_buf *buf;
	size_t i, whole;
	char *mem;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		whole = mem_whole(sizes[i]);
		mem = alloc(sizes[i], &buf);
		assert_int_equal(mem_is_private(mem, whole), !rdma.bounces);
		assert_true(mem_is_zero(mem, whole));
		mem_fill(mem, whole, i);
		assert_true(mem_is_filled(mem, whole, i));
		ibv_free_buf(buf);
	}
}

/* Of private memory, which a device that bounces has on its base alone */
static void huge_pages_from_one_up(void **state)
{
	const size_t huge = mem_huge();
	const size_t large[] = { huge, huge + 1, 3 * huge / 2, 32 * huge };
	const size_t small[] = { 1, huge / 2, huge - mem_whole(1) };
	struct ibv_buf *buf;
	size_t i;
	char *mem;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(large); i++) {
		mem = alloc_of(rdma.base, large[i], &buf);
		assert_int_equal((uintptr_t)mem % huge, 0);
		assert_true(mem_all_flagged(mem, mem_whole(large[i]), "hg"));
		ibv_free_buf(buf);
	}
	for (i = 0; i < ARRAY_SIZE(small); i++) {
		mem = alloc_of(rdma.base, small[i], &buf);
		assert_false(mem_any_flagged(mem, small[i], "hg"));
		ibv_free_buf(buf);
	}
}

/* Pages of buffers, of their handles and of heap blocks between them differ. */
static void no_page_is_shared(void **state)
{
	struct {
		struct ibv_buf *buf;
		char *mem;
		size_t whole;
		void *block;
	} set[64];
	uintptr_t at, other;
	size_t i, j;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(set); i++) {
		set[i].mem = alloc(1 + i * 331, &set[i].buf);
		set[i].whole = mem_whole(1 + i * 331);
		mem_fill(set[i].mem, set[i].whole, i);
		set[i].block = malloc(24);
	}
	for (i = 0; i < ARRAY_SIZE(set); i++) {
		assert_true(mem_is_filled(set[i].mem, set[i].whole, i));
		at = (uintptr_t)set[i].mem;
		for (j = 0; j < ARRAY_SIZE(set); j++) {
			other = (uintptr_t)set[j].buf;
			assert_true(other < at || other >= at + set[i].whole);
			other = (uintptr_t)set[j].block;
			assert_true(other < at || other >= at + set[i].whole);
			other = (uintptr_t)set[j].mem;
			assert_true(i == j || other >= at + set[i].whole ||
				    other + set[j].whole <= at);
		}
	}
	for (i = 0; i < ARRAY_SIZE(set); i++) {
		free(set[i].block);
		ibv_free_buf(set[i].buf);
	}
}

/* What one buffer held is not seen in the next, wherever that one lies. */
static void zero_filled_again(void **state)
{
	static const size_t again[] = { 1, 4096, 70000, MIB, 5 * MIB };
	struct ibv_buf *buf[2];
	size_t i, n, whole;
	char *mem;

	(void)state;
	for (n = 0; n < 8; n++)
		for (i = 0; i < ARRAY_SIZE(again); i++) {
			whole = mem_whole(again[i]);
			mem = alloc(again[i], &buf[0]);
			assert_true(mem_is_zero(mem, whole));
			mem_fill(mem, whole, n);
			mem = alloc(again[i], &buf[1]);
			assert_true(mem_is_zero(mem, whole));
			mem_fill(mem, whole, n);
			ibv_free_buf(buf[n % 2]);
			ibv_free_buf(buf[!(n % 2)]);
		}
}

static void free_unmaps(void **state)
{
	struct ibv_buf *buf;
	size_t i;
	char *mem;

	(void)state;
	store_empty(rdma.pd);
	mem_list_read(&before);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		mem = alloc(sizes[i], &buf);
		ibv_free_buf(buf);
		store_empty(rdma.pd);
		assert_true(mem_is_free(mem, mem_whole(sizes[i])));
	}
	mem_list_read(&after);
	assert_true(mem_list_same(&before, &after));
}

static void free_of_null(void **state)
{
	(void)state;
	ibv_free_buf(NULL);
}

static void bad_arguments(void **state)
{
	(void)state;
	refuse(rdma.pd, 0, EINVAL);
	refuse(NULL, 4096, EINVAL);
	errno = 0;
	assert_null(ibv_alloc_buf(rdma.pd, 4096, NULL));
	assert_int_equal(errno, EINVAL);
}

static void size_overflows(void **state)
{
	(void)state;
	store_empty(rdma.pd);
	mem_list_read(&before);
	refuse(rdma.pd, SIZE_MAX, ENOMEM);
	refuse(rdma.pd, SIZE_MAX - 4094, ENOMEM);
	refuse(rdma.pd, SIZE_MAX - 4095, ENOMEM);
	refuse(rdma.pd, SIZE_MAX - 4096, ENOMEM);
	refuse(rdma.pd, SIZE_MAX - mem_huge(), ENOMEM);
	refuse(rdma.pd, SIZE_MAX / 2, ENOMEM);
	mem_list_read(&after);
	assert_true(mem_list_same(&before, &after));
}

/*
 * One allocation when memory is short: either it is whole, or it is refused
 * for want of memory.
 */
static bool try_alloc(size_t size)
{
	struct ibv_buf *const mark = (struct ibv_buf *)&rdma;
	struct ibv_buf *buf = mark;
	char *mem;

	errno = 0;
	mem = ibv_alloc_buf(rdma.pd, size, &buf);
	if (!mem) {
		assert_int_equal(errno, ENOMEM);
		assert_ptr_equal(buf, mark);
		return false;
	}
	assert_ptr_not_equal(buf, mark);
	mem[0] = mem[size - 1] = 1;
	ibv_free_buf(buf);
	return true;
}

/* At every limit of address space around the size of the buffer */
static void address_space_ends(void **state)
{
	size_t size = 64 * MIB, fds = mem_fds(), space, refused = 0, n;
	struct rlimit old, tight;
	bool done;

	(void)state;
	try_alloc(size);
	store_empty(rdma.pd);
	mem_list_read(&before);
	space = mem_space();
	assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
	for (n = 0; n < 72; n++) {
		tight = old;
		tight.rlim_cur = space + n * MIB;
		assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
		done = try_alloc(size);
		assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
		assert_false(done && n < 64);
		refused += !done;
	}
	assert_in_range(refused, 64, 71);
	mem_list_read(&after);
	assert_true(mem_list_same(&before, &after));
	assert_int_equal(mem_fds(), fds);
}

/* At every number of mappings, from none left to more than enough */
static void mappings_end(void **state)
{
	static const size_t tried[] = { 4096, 3 * MIB };
	struct mem_crowd crowd;
	size_t i, n, fds = mem_fds();
	bool done = false;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(tried); i++)
		try_alloc(tried[i]);
	store_empty(rdma.pd);
	mem_list_read(&before);
	assert_true(mem_crowd_start(&crowd));
	for (n = 0; n < 8; n++) {
		for (i = 0; i < ARRAY_SIZE(tried); i++)
			done = try_alloc(tried[i]);
		mem_crowd_yield(&crowd);
	}
	mem_crowd_end(&crowd);
	assert_true(done);
	store_empty(rdma.pd);
	mem_list_read(&after);
	assert_true(mem_list_same(&before, &after));
	assert_int_equal(mem_fds(), fds);
}

static void export_needs_a_dmabuf(void **state)
{
	size_t fds = mem_fds();
	struct ibv_buf *buf;
	int fd;

	(void)state;
	alloc_of(rdma.base, 4096, &buf);
	errno = 0;
	assert_int_equal(ibv_export_buf_dmabuf_fd(buf), -1);
	assert_int_equal(errno, ENODATA);
	ibv_free_buf(buf);

	alloc(4096, &buf);
	fd = ibv_export_buf_dmabuf_fd(buf);
	assert_int_equal(fd >= 0, rdma.bounces);
	if (fd >= 0) {
		assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
		close(fd);
	}
	ibv_free_buf(buf);

	errno = 0;
	assert_int_equal(ibv_export_buf_dmabuf_fd(NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(mem_fds(), fds);
}

static int setup(void **state)
{
	(void)state;
	return rdma_open(&rdma);
}

static int teardown(void **state)
{
	(void)state;
	rdma_close(&rdma);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(zero_filled_whole_pages),
		cmocka_unit_test(huge_pages_from_one_up),
		cmocka_unit_test(no_page_is_shared),
		cmocka_unit_test(zero_filled_again),
		cmocka_unit_test(free_unmaps),
		cmocka_unit_test(free_of_null),
		cmocka_unit_test(bad_arguments),
		cmocka_unit_test(size_overflows),
		cmocka_unit_test(export_needs_a_dmabuf),
		/* For the plain build alone */
		cmocka_unit_test(address_space_ends),
		cmocka_unit_test(mappings_end),
	};
	const size_t n = ARRAY_SIZE(tests) - (MEM_SANITIZED ? 2 : 0);

	return _cmocka_run_group_tests("buf", tests, n, setup, teardown);
}
