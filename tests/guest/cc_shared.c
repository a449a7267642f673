// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A parent domain that allows shared memory. On the test device, with its heap:
 * where buffers come from, that the device reaches them and no others, and what
 * happens when that place is not there or has nothing left; on one that reaches
 * all memory, that nothing comes from there.
 *
 * Without that heap rxe stands in, which is made to say that it bounces, with
 * the heap of ordinary memory under the name of the shared one: what is not
 * tested then is that the device reaches the buffers.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <infiniband/driver.h>

#include "mem.h"
#include "rdma.h"
#include "sim.h"

#define HEAP "/dev/dma_heap/system"
#define SHARED_HEAP "/dev/dma_heap/system_cc_shared"
#define HIDDEN_HEAP "/dev/dma_heap/hidden"
#define SIZE (MIB + 1)

static struct rdma rdma;
static bool stands_in;		/* the device, and HEAP for the shared one */

static int says_it_bounces(struct ibv_context *context,
			   const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t attr_size)
{
	attr->device_cap_flags_ex = IBV_DEVICE_CC_DMA_BOUNCE;
	return 0;
}

static const struct verbs_context_ops ops = {
	.query_device_ex = says_it_bounces,
};

static struct ibv_pd *parent_with(uint32_t comp_mask)
{
	struct ibv_parent_domain_init_attr attr = {
		.pd = rdma.base,
		.comp_mask = comp_mask,
	};

	errno = 0;
	return ibv_alloc_parent_domain(rdma.context, &attr);
}

static struct ibv_pd *opt_in(void)
{
	return parent_with(
		IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC);
}

static bool heap_is_there(void)
{
	return !access(SHARED_HEAP, F_OK);
}

static int add_heap(void **state)
{
	if (heap_is_there() || (stands_in && access(HEAP, F_OK)))
		return 0;
	return stands_in ? symlink(HEAP, SHARED_HEAP) :
			   rename(HIDDEN_HEAP, SHARED_HEAP);
}

static int remove_heap(void **state)
{
	if (!heap_is_there())
		return 0;
	return stands_in ? unlink(SHARED_HEAP) :
			   rename(SHARED_HEAP, HIDDEN_HEAP);
}

static int no_heaps(void)
{
	if (!access(HEAP, F_OK))
		return 0;
	print_message("# this kernel has no DMA-buf heaps\n");
	return 1;
}

/* Has a DMA-buf, of which the exported descriptor shows the same bytes */
static void assert_shared(struct ibv_buf *buf, char *mem)
{
	char *map;
	int fd;

	assert_false(mem_is_private(mem, 1));
	assert_true(mem_is_zero(mem, mem_whole(SIZE)));
	assert_int_equal(fcntl(buf->dmabuf_fd, F_GETFD), FD_CLOEXEC);
	fd = ibv_export_buf_dmabuf_fd(buf);
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	map = mmap(NULL, mem_whole(SIZE), PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	mem_fill(mem, mem_whole(SIZE), 1);
	assert_true(mem_is_filled(map, mem_whole(SIZE), 1));
	munmap(map, mem_whole(SIZE));
	close(fd);
}

static void refuse_buf(struct ibv_pd *pd, size_t size, int err)
{
	struct ibv_buf *buf = NULL;

	errno = 0;
	assert_null(ibv_alloc_buf(pd, size, &buf));
	assert_int_equal(errno, err);
	assert_null(buf);
}

/* Must run first: the variable is read once in a process. */
static void nobody_overrides_shared_memory(void **state)
{
	static const char *const words[] = { "anon", "huge", "dmabuf" };
	struct ibv_buf *buf;
	struct ibv_pd *pd;
	int status;
	size_t i;
	pid_t pid;

	if (no_heaps())
		skip();
	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		pid = fork();
		assert_int_not_equal(pid, -1);
		if (!pid) {
			setenv("IBV_BUF_BACKING", words[i], 1);
			pd = opt_in();
			if (!pd || !ibv_alloc_buf(pd, SIZE, &buf))
				_exit(1);
			_exit(buf->backing == VERBS_BUF_CC_SHARED ? 0 : 2);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
}

/* What the shared heap has given out, as far as anyone knows */
static struct sim_heap heap_now(void)
{
	if (stands_in)
		return (struct sim_heap) {};
	return sim_heap();
}

static void buffers_come_from_the_heap(void **state)
{
	const size_t fds = mem_fds(), maps = mem_maps();
	const struct sim_heap before = heap_now();
	struct ibv_pd *parent;
	struct ibv_buf *buf;
	char *mem;

	if (no_heaps())
		skip();
	parent = opt_in();
	assert_non_null(parent);
	assert_int_equal(heap_now().total, before.total);
	mem = ibv_alloc_buf(parent, SIZE, &buf);
	assert_non_null(mem);
	assert_shared(buf, mem);
	if (!stands_in) {
		assert_int_equal(heap_now().total, before.total + 1);
		assert_int_equal(heap_now().bytes,
				 before.bytes + mem_whole(SIZE));
	}
	assert_int_equal(ibv_dealloc_pd(parent), EBUSY);
	ibv_free_buf(buf);
	assert_int_equal(heap_now().pieces, before.pieces);
	assert_int_equal(heap_now().bytes, before.bytes);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(mem_fds(), fds);
	assert_int_equal(mem_maps(), maps);
}

/*
 * rxe registers none: by address it would be EFAULT. The test device shows
 * what it was given and puts data there.
 */
static void registers_by_descriptor(void **state)
{
	const uint64_t refused = stands_in ? 0 : sim_refused();
	struct sim_memory piece;
	struct ibv_pd *parent;
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	char *mem;

	if (no_heaps())
		skip();
	parent = opt_in();
	assert_non_null(parent);
	mem = ibv_alloc_buf(parent, SIZE, &buf);
	assert_non_null(mem);
	errno = 0;
	mr = ibv_reg_buf_mr(parent, buf, mem + 5000, SIZE - 5000,
			    IBV_ACCESS_LOCAL_WRITE);
	if (stands_in) {
		assert_null(mr);
		assert_int_equal(errno, EOPNOTSUPP);
	} else {
		assert_non_null(mr);
		assert_int_equal(sim_memory(&piece, 1), 1);
		assert_string_equal(piece.kind, "mr");
		assert_int_not_equal(piece.inode, 0);
		assert_string_equal(piece.exporter, "system_cc_shared");
		assert_int_equal(piece.at, 5000);
		assert_int_equal(piece.length, SIZE - 5000);
		assert_int_equal(sim_write(mr->lkey, (uintptr_t)mem + 6000,
					   "device", 6), 0);
		assert_memory_equal(mem + 6000, "device", 6);
		assert_int_equal(sim_refused(), refused);
		assert_int_equal(ibv_dereg_mr(mr), 0);
	}

	errno = 0;
	assert_null(ibv_reg_buf_mr(rdma.base, buf, mem, SIZE, 0));
	assert_int_equal(errno, EINVAL);
	ibv_free_buf(buf);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
}

/* Private memory, which the device is not even asked to take by an opted-in one */
static void is_private(struct ibv_pd *pd)
{
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	char *mem;

	mem = ibv_alloc_buf(pd, SIZE, &buf);
	assert_non_null(mem);
	assert_true(mem_is_private(mem, SIZE));
	errno = 0;
	assert_int_equal(ibv_export_buf_dmabuf_fd(buf), -1);
	assert_int_equal(errno, ENODATA);
	errno = 0;
	mr = ibv_reg_buf_mr(pd, buf, mem, SIZE, IBV_ACCESS_LOCAL_WRITE);
	if (rdma.bounces) {
		assert_null(mr);
		assert_int_equal(errno, EOPNOTSUPP);
	} else {
		assert_non_null(mr);
		assert_int_equal(ibv_dereg_mr(mr), 0);
	}
	ibv_free_buf(buf);
}

static void others_stay_private(void **state)
{
	struct ibv_pd *parent, *opted;
	const uint64_t total = heap_now().total;

	if (no_heaps())
		skip();
	opted = opt_in();
	assert_non_null(opted);
	parent = parent_with(IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT);
	assert_non_null(parent);

	is_private(parent);
	is_private(rdma.base);

	assert_int_equal(heap_now().total, total);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(ibv_dealloc_pd(opted), 0);
}

/* On a device that reaches all memory, whether the heap is there or not */
static void never_without_need(void **state)
{
	const uint64_t total = sim_heap().total;
	struct ibv_pd *parent, *opted;
	int round;

	for (round = 0; round < 2; round++) {
		opted = opt_in();
		assert_non_null(opted);
		parent = parent_with(0);
		assert_non_null(parent);
		is_private(opted);
		is_private(parent);
		is_private(rdma.base);
		assert_int_equal(ibv_dealloc_pd(parent), 0);
		assert_int_equal(ibv_dealloc_pd(opted), 0);
		assert_int_equal(remove_heap(NULL), 0);
	}
	assert_int_equal(sim_heap().total, total);
}

static void no_heap_no_parent_domain(void **state)
{
	struct ibv_pd *base = rdma.base;
	const size_t fds = mem_fds();

	assert_int_equal(remove_heap(NULL), 0);
	rdma.base = ibv_alloc_pd(rdma.context);
	assert_non_null(rdma.base);
	assert_null(opt_in());
	assert_int_equal(errno, ENOENT);
	/* Nor is anything left on the base. */
	assert_int_equal(ibv_dealloc_pd(rdma.base), 0);
	rdma.base = base;
	assert_int_equal(mem_fds(), fds);
}

static void no_permission_is_told_apart(void **state)
{
	int status;
	pid_t pid;

	if (no_heaps())
		skip();
	pid = fork();
	assert_int_not_equal(pid, -1);
	if (!pid) {
		if (setgid(65534) || setuid(65534))
			_exit(1);
		if (opt_in())
			_exit(2);
		_exit(errno == EACCES ? 0 : 3);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void heap_that_goes_is_no_private_memory(void **state)
{
	struct ibv_pd *parent;
	struct ibv_buf *buf;
	char *mem;

	if (no_heaps())
		skip();
	parent = opt_in();
	assert_non_null(parent);
	mem = ibv_alloc_buf(parent, SIZE, &buf);
	assert_non_null(mem);
	assert_int_equal(remove_heap(NULL), 0);
	refuse_buf(parent, SIZE, ENOENT);
	assert_shared(buf, mem);
	ibv_free_buf(buf);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
}

/* The cause is that of the heap, whatever it is; nothing is left. */
static void heap_that_fails_is_no_private_memory(void **state)
{
	static const int errors[] = { ENOMEM, EINTR, EPERM, ENOSPC, EIO };
	const struct sim_heap before = sim_heap();
	const size_t fds = mem_fds(), maps = mem_maps();
	struct ibv_buf *buf[3];
	struct ibv_pd *parent;
	size_t i, n;

	parent = opt_in();
	assert_non_null(parent);
	for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		/* The third from now, and that one alone */
		sim_heap_fail(3, errors[i]);
		assert_non_null(ibv_alloc_buf(parent, SIZE, &buf[0]));
		assert_non_null(ibv_alloc_buf(parent, SIZE, &buf[1]));
		refuse_buf(parent, SIZE, errors[i]);
		assert_non_null(ibv_alloc_buf(parent, SIZE, &buf[2]));
		assert_int_equal(sim_heap().pieces, before.pieces + 3);
		for (n = 0; n < 3; n++)
			ibv_free_buf(buf[n]);
		assert_int_equal(sim_heap().pieces, before.pieces);
		assert_int_equal(sim_heap().bytes, before.bytes);
	}
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(mem_fds(), fds);
	assert_int_equal(mem_maps(), maps);
}

/* Nor does the kernel kill for it. */
static void heap_that_has_not_enough_is_no_private_memory(void **state)
{
	const size_t all = sysconf(_SC_PHYS_PAGES) * mem_whole(1);
	const size_t sizes[] = { all, 3 * all, (size_t)1 << 40, SIZE_MAX };
	struct ibv_pd *parent;
	size_t i;

	if (no_heaps())
		skip();
	parent = opt_in();
	assert_non_null(parent);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		refuse_buf(parent, sizes[i], ENOMEM);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
}

static int teardown(void **state)
{
	if (stands_in)
		remove_heap(NULL);
	rdma_close(&rdma);
	return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, add_heap, add_heap)

int main(void)
{
	const struct CMUnitTest bounces[] = {
		TEST(nobody_overrides_shared_memory),
		TEST(buffers_come_from_the_heap),
		TEST(registers_by_descriptor),
		TEST(others_stay_private),
		TEST(no_heap_no_parent_domain),
		TEST(no_permission_is_told_apart),
		TEST(heap_that_goes_is_no_private_memory),
		TEST(heap_that_has_not_enough_is_no_private_memory),
		/* For the heap that fails when it is told to */
		TEST(heap_that_fails_is_no_private_memory),
	};
	const struct CMUnitTest reaches_all[] = {
		TEST(never_without_need),
	};
	const size_t n = sizeof(bounces) / sizeof(bounces[0]);

	stands_in = !heap_is_there();
	if (rdma_open(&rdma))
		return 1;
	if (stands_in) {
		verbs_set_ops(verbs_get_ctx(rdma.context), &ops);
		return _cmocka_run_group_tests("bounces", bounces, n - 1, NULL,
					       teardown);
	}
	if (rdma.bounces)
		return _cmocka_run_group_tests("bounces", bounces, n, NULL,
					       teardown);
	return cmocka_run_group_tests(reaches_all, NULL, teardown);
}
