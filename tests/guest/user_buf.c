// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Handles for memory of the application, on a real device: registration,
 * DMA-bufs of the kernel's heap, reference counts of the protection domain, and
 * fork protection of mappings that the library did not make, where the kernel
 * needs it. Arguments are the unit suite's.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <linux/dma-heap.h>

#include "mem.h"
#include "rdma.h"
#include "sim.h"

#define HEAP "/dev/dma_heap/system"
#define POOL "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
#define SIZE (8 * (size_t)4096)

static struct rdma rdma;
static const size_t page = 4096;

static struct ibv_buf *handle(void *addr, size_t size, int fd)
{
	struct ibv_buf *buf = ibv_alloc_user_buf(rdma.pd, addr, size, fd);

	assert_non_null(buf);
	return buf;
}

static void refuse(void *addr, size_t size, int fd, int err)
{
	errno = 0;
	assert_null(ibv_alloc_user_buf(rdma.pd, addr, size, fd));
	assert_int_equal(errno, err);
}

static char *map(size_t size, int flags)
{
	void *mem = mmap(NULL, size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	assert_ptr_not_equal(mem, MAP_FAILED);
	return mem;
}

static bool has_heap(void)
{
	if (!access(HEAP, F_OK))
		return true;
	print_message("# this kernel has no DMA-buf heaps\n");
	return false;
}

static int heap_fd(size_t size)
{
	struct dma_heap_allocation_data data = {
		.len = size,
		.fd_flags = O_RDWR | O_CLOEXEC,
	};
	int heap = open(HEAP, O_RDWR | O_CLOEXEC);

	assert_true(heap >= 0);
	assert_int_equal(ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &data), 0);
	close(heap);
	return data.fd;
}

static void registers_as_it_is(void **state)
{
	char *mem = map(SIZE, 0);
	struct ibv_buf *buf;
	struct ibv_mr *mr;

	mem_fill(mem, SIZE, 1);
	buf = handle(mem + 5, SIZE - 6, -1);
	errno = 0;
	mr = ibv_reg_buf_mr(rdma.pd, buf, mem + 7, SIZE - 9, RDMA_REMOTE);
	if (rdma.bounces) {
		/* A handle makes private memory no better. */
		assert_null(mr);
		assert_int_equal(errno, EOPNOTSUPP);
	} else {
		assert_non_null(mr);
		assert_ptr_equal(mr->addr, mem + 7);
		assert_int_equal(ibv_dereg_mr(mr), 0);
	}
	ibv_free_user_buf(buf);
	assert_true(mem_is_filled(mem, SIZE, 1));
	munmap(mem, SIZE);
}

/* Where the device imports DMA-bufs, and may see what is in this one */
static void register_by_fd(struct ibv_buf *buf, char *mem)
{
	const uint64_t at = (uintptr_t)mem + 4097;
	struct ibv_mr *mr;

	errno = 0;
	mr = ibv_reg_buf_mr(rdma.pd, buf, mem + 4097, 4097, RDMA_REMOTE);
	if (!rdma.imports || rdma.bounces) {
		assert_null(mr);
		assert_int_equal(errno, EOPNOTSUPP);
		return;
	}

	assert_non_null(mr);
	assert_ptr_equal(mr->addr, mem + 4097);
	assert_int_equal(sim_write(mr->rkey, at, "user", 4), 0);
	assert_memory_equal(mem + 4096, "\0user\0", 6);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void dmabuf_is_duplicated(void **state)
{
	const size_t fds = mem_fds();
	struct stat own, exported;
	struct ibv_buf *buf;
	char *mem;
	int fd, out;

	if (!has_heap())
		skip();
	fd = heap_fd(SIZE);
	mem = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(mem, MAP_FAILED);
	assert_int_equal(fstat(fd, &own), 0);

	refuse(mem, SIZE + 1, fd, EINVAL);
	buf = handle(mem, SIZE, fd);
	close(fd);
	assert_int_equal(mem_fds(), fds + 1);

	register_by_fd(buf, mem);
	out = ibv_export_buf_dmabuf_fd(buf);
	assert_true(out >= 0);
	assert_int_equal(fcntl(out, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fstat(out, &exported), 0);
	assert_int_equal(own.st_ino, exported.st_ino);
	close(out);

	ibv_free_user_buf(buf);
	assert_int_equal(mem_fds(), fds);
	munmap(mem, SIZE);
}

static void no_descriptor_left(void **state)
{
	struct rlimit was, limit;
	char *mem;
	int fd;

	if (!has_heap())
		skip();
	fd = heap_fd(SIZE);
	mem = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(mem, MAP_FAILED);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	limit = was;
	limit.rlim_cur = 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	errno = 0;
	assert_null(ibv_alloc_user_buf(rdma.pd, mem, SIZE, fd));
	assert_int_equal(errno, EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	close(fd);
	munmap(mem, SIZE);
}

static void keeps_its_protection_domain(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(rdma.context);
	char *mem = map(page, 0);
	struct ibv_buf *buf;

	assert_non_null(pd);
	buf = ibv_alloc_user_buf(pd, mem, page, -1);
	assert_non_null(buf);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	ibv_free_user_buf(buf);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	munmap(mem, page);
}

/* What follows is for kernels that do not copy on fork. */

static void whole_pages_that_it_touches(void **state)
{
	char *mem = map(SIZE, 0);
	struct ibv_buf *buf;

	buf = handle(mem + 2 * page + 1, page, -1);
	assert_false(mem_any_flagged(mem, 2 * page, "dc"));
	assert_true(mem_all_flagged(mem + 2 * page, 2 * page, "dc"));
	assert_false(mem_any_flagged(mem + 4 * page, SIZE - 4 * page, "dc"));
	ibv_free_user_buf(buf);
	assert_false(mem_any_flagged(mem, SIZE, "dc"));

	buf = handle(mem + 2 * page, page, -1);
	assert_int_equal(mem_bytes_flagged("dc"), page);
	ibv_free_user_buf(buf);
	assert_int_equal(mem_bytes_flagged("dc"), 0);
	munmap(mem, SIZE);
}

static void overlapping_handles_balance(void **state)
{
	char *mem = map(SIZE, 0);
	struct ibv_buf *a, *b;
	struct ibv_mr *mr;

	a = handle(mem, 4 * page, -1);
	b = handle(mem + 2 * page, 4 * page, -1);
	mr = ibv_reg_mr(rdma.pd, mem + 3 * page, 4 * page, RDMA_REMOTE);
	assert_non_null(mr);
	assert_int_equal(mem_bytes_flagged("dc"), 7 * page);
	ibv_free_user_buf(a);
	assert_int_equal(mem_bytes_flagged("dc"), 5 * page);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_true(mem_all_flagged(mem + 2 * page, 4 * page, "dc"));
	assert_int_equal(mem_bytes_flagged("dc"), 4 * page);
	ibv_free_user_buf(b);
	assert_int_equal(mem_bytes_flagged("dc"), 0);
	munmap(mem, SIZE);
}

static void registrations_change_nothing(void **state)
{
	char *mem = map(SIZE, 0);
	struct ibv_buf *buf = handle(mem, SIZE, -1);
	const size_t maps = mem_maps();
	struct ibv_mr *mr;

	mr = ibv_reg_buf_mr(rdma.pd, buf, mem + page, page, RDMA_REMOTE);
	assert_non_null(mr);
	assert_int_equal(mem_maps(), maps);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_true(mem_all_flagged(mem, SIZE, "dc"));
	ibv_free_user_buf(buf);
	munmap(mem, SIZE);
}

static void set_pool(int pages)
{
	FILE *file = fopen(POOL, "w");

	assert_non_null(file);
	fprintf(file, "%d\n", pages);
	assert_int_equal(fclose(file), 0);
}

static void huge_pages_as_a_whole(void **state)
{
	const size_t huge = mem_huge();
	struct ibv_buf *buf;
	char *mem;

	set_pool(3);
	mem = map(3 * huge, MAP_HUGETLB);
	buf = handle(mem + huge + page, 3 * page, -1);
	assert_false(mem_any_flagged(mem, huge, "dc"));
	assert_true(mem_all_flagged(mem + huge, huge, "dc"));
	assert_false(mem_any_flagged(mem + 2 * huge, huge, "dc"));
	ibv_free_user_buf(buf);
	assert_int_equal(mem_bytes_flagged("dc"), 0);

	buf = handle(mem + huge - 1, 2, -1);
	assert_int_equal(mem_bytes_flagged("dc"), 2 * huge);
	ibv_free_user_buf(buf);
	assert_int_equal(mem_bytes_flagged("dc"), 0);
	munmap(mem, 3 * huge);
	set_pool(0);
}

static void pages_of_two_sizes(void **state)
{
	const size_t huge = mem_huge();
	struct ibv_buf *buf;
	char *room, *mem;

	set_pool(1);
	room = map(3 * huge, MAP_NORESERVE);
	mem = (char *)(((uintptr_t)room + huge - 1) & ~(huge - 1));
	assert_ptr_equal(mmap(mem, huge, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB |
				      MAP_FIXED,
			      -1, 0), mem);

	refuse(mem + huge - 1, 2, -1, EINVAL);
	assert_int_equal(mem_bytes_flagged("dc"), 0);
	/* Each by itself is fine. */
	buf = handle(mem + huge - 1, 1, -1);
	assert_int_equal(mem_bytes_flagged("dc"), huge);
	ibv_free_user_buf(buf);
	buf = handle(mem + huge, 1, -1);
	assert_int_equal(mem_bytes_flagged("dc"), page);
	ibv_free_user_buf(buf);
	munmap(room, 3 * huge);
	set_pool(0);
}

static void a_hole_is_refused_and_nothing_marked(void **state)
{
	char *mem = map(SIZE, 0);

	munmap(mem + 4 * page, page);
	refuse(mem, SIZE, -1, ENOMEM);
	assert_int_equal(mem_bytes_flagged("dc"), 0);
	assert_null(ibv_reg_mr(rdma.pd, mem, SIZE, RDMA_REMOTE));
	assert_int_equal(mem_bytes_flagged("dc"), 0);
	munmap(mem, SIZE);
}

static int setup(void **state)
{
	return rdma_open(&rdma);
}

static int teardown(void **state)
{
	rdma_close(&rdma);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(registers_as_it_is),
		cmocka_unit_test(dmabuf_is_duplicated),
		cmocka_unit_test(no_descriptor_left),
		cmocka_unit_test(keeps_its_protection_domain),
		/* Where fork support is needed */
		cmocka_unit_test(whole_pages_that_it_touches),
		cmocka_unit_test(overlapping_handles_balance),
		cmocka_unit_test(registrations_change_nothing),
		cmocka_unit_test(huge_pages_as_a_whole),
		cmocka_unit_test(pages_of_two_sizes),
		cmocka_unit_test(a_hole_is_refused_and_nothing_marked),
	};
	size_t n = ARRAY_SIZE(tests);

	if (ibv_fork_init()) {
		fprintf(stderr, "# user_buf: ibv_fork_init failed\n");
		return 1;
	}
	if (ibv_is_fork_initialized() == IBV_FORK_UNNEEDED)
		n -= 6;
	return _cmocka_run_group_tests("user_buf", tests, n, setup, teardown);
}
