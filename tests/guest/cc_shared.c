// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A parent domain that allows shared memory, on a device that reaches no
 * other: rxe, which is made to say so, with the heap of ordinary memory under
 * the name of the shared one. So what is tested is where buffers come from and
 * what happens when that place is not there; that the device reaches them is
 * not.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <infiniband/driver.h>

#include "mem.h"
#include "rdma.h"

#define HEAP "/dev/dma_heap/system"
#define SHARED_HEAP "/dev/dma_heap/system_cc_shared"
#define SIZE (MIB + 1)

static struct rdma rdma;

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
		.pd = rdma.pd,
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

static void add_heap(void)
{
	assert_int_equal(symlink(HEAP, SHARED_HEAP), 0);
}

static int remove_heap(void **state)
{
	return unlink(SHARED_HEAP) && errno != ENOENT;
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
	add_heap();
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

static void buffers_come_from_the_heap(void **state)
{
	const size_t fds = mem_fds(), maps = mem_maps();
	struct ibv_pd *parent;
	struct ibv_buf *buf;
	char *mem;

	if (no_heaps())
		skip();
	add_heap();
	parent = opt_in();
	assert_non_null(parent);
	mem = ibv_alloc_buf(parent, SIZE, &buf);
	assert_non_null(mem);
	assert_shared(buf, mem);
	assert_int_equal(ibv_dealloc_pd(parent), EBUSY);
	ibv_free_buf(buf);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(mem_fds(), fds);
	assert_int_equal(mem_maps(), maps);
}

/* rxe registers none. By address it would be EFAULT. */
static void registers_by_descriptor(void **state)
{
	struct ibv_pd *parent;
	struct ibv_buf *buf;
	char *mem;

	if (no_heaps())
		skip();
	add_heap();
	parent = opt_in();
	assert_non_null(parent);
	mem = ibv_alloc_buf(parent, SIZE, &buf);
	assert_non_null(mem);
	errno = 0;
	assert_null(ibv_reg_buf_mr(parent, buf, mem, SIZE, 0));
	assert_int_equal(errno, EOPNOTSUPP);
	errno = 0;
	assert_null(ibv_reg_buf_mr(rdma.pd, buf, mem, SIZE, 0));
	assert_int_equal(errno, EINVAL);
	ibv_free_buf(buf);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
}

static void others_stay_private(void **state)
{
	struct ibv_pd *parent, *opted;
	struct ibv_buf *buf;
	char *mem;

	if (no_heaps())
		skip();
	add_heap();
	opted = opt_in();
	assert_non_null(opted);
	parent = parent_with(IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT);
	assert_non_null(parent);

	mem = ibv_alloc_buf(parent, SIZE, &buf);
	assert_non_null(mem);
	assert_true(mem_is_private(mem, SIZE));
	ibv_free_buf(buf);
	mem = ibv_alloc_buf(rdma.pd, SIZE, &buf);
	assert_non_null(mem);
	assert_true(mem_is_private(mem, SIZE));
	ibv_free_buf(buf);

	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(ibv_dealloc_pd(opted), 0);
}

static void no_heap_no_parent_domain(void **state)
{
	struct ibv_pd *pd = rdma.pd;
	const size_t fds = mem_fds();

	rdma.pd = ibv_alloc_pd(rdma.context);
	assert_non_null(rdma.pd);
	assert_null(opt_in());
	assert_int_equal(errno, ENOENT);
	/* Nor is anything left on the base. */
	assert_int_equal(ibv_dealloc_pd(rdma.pd), 0);
	rdma.pd = pd;
	assert_int_equal(mem_fds(), fds);
}

static void no_permission_is_told_apart(void **state)
{
	int status;
	pid_t pid;

	if (no_heaps())
		skip();
	add_heap();
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
	add_heap();
	parent = opt_in();
	assert_non_null(parent);
	mem = ibv_alloc_buf(parent, SIZE, &buf);
	assert_non_null(mem);
	remove_heap(NULL);
	refuse_buf(parent, SIZE, ENOENT);
	assert_shared(buf, mem);
	ibv_free_buf(buf);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
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
	add_heap();
	parent = opt_in();
	assert_non_null(parent);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		refuse_buf(parent, sizes[i], ENOMEM);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
}

static int setup(void **state)
{
	if (rdma_open(&rdma))
		return -1;
	verbs_set_ops(verbs_get_ctx(rdma.context), &ops);
	return 0;
}

static int teardown(void **state)
{
	rdma_close(&rdma);
	return 0;
}

#define TEST(name) cmocka_unit_test_teardown(name, remove_heap)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nobody_overrides_shared_memory),
		TEST(buffers_come_from_the_heap),
		TEST(registers_by_descriptor),
		TEST(others_stay_private),
		TEST(no_heap_no_parent_domain),
		TEST(no_permission_is_told_apart),
		TEST(heap_that_goes_is_no_private_memory),
		TEST(heap_that_has_not_enough_is_no_private_memory),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
