// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Things ended in the wrong order. Where a program may be wrong without harm it
 * is shown that there is none: a device that is closed under its buffers, a
 * buffer that is freed before its MR. Where it may not, that it shows at once:
 * a buffer that is freed twice ends the process, in any build.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../guest/mem.h"
#include "../guest/rdma.h"
#include "../guest/sim.h"
#include "left.h"

#define SMALL ((size_t)8192)

static struct rdma rdma;

static int in_child(int (*run)(void))
{
	int status;
	pid_t pid;

	pid = fork();
	assert_int_not_equal(pid, -1);
	if (!pid)
		_exit(run());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

/* The memory is the process's for as long as it is mapped. */
static int close_under_buffers(void)
{
	static const size_t sizes[] = { SMALL, MIB };
	struct ibv_buf *buf;
	struct rdma own;
	char *mem[2];
	size_t i;

	if (rdma_open(&own))
		return __LINE__ % 256;
	for (i = 0; i < 2; i++) {
		mem[i] = ibv_alloc_buf(own.pd, sizes[i], &buf);
		if (!mem[i] ||
		    !ibv_reg_buf_mr(own.pd, buf, mem[i], sizes[i], RDMA_REMOTE))
			return __LINE__ % 256;
		mem_fill(mem[i], sizes[i], i);
	}
	if (ibv_close_device(own.context))
		return __LINE__ % 256;
	for (i = 0; i < 2; i++)
		if (!mem_is_filled(mem[i], sizes[i], i))
			return __LINE__ % 256;
	return 0;
}

static void device_is_closed_under_its_buffers(void **state)
{
	struct left before;

	assert_true(left_read(&before));
	assert_int_equal(in_child(close_under_buffers), 0);
	assert_true(left_as(&before));
}

/*
 * The kernel keeps the pages of a MR. So the MR leads to memory that is nobody's
 * any more, and never to a later buffer.
 */
static void freed_before_its_mr(size_t size)
{
	char text[16] = "written late", is[16];
	struct ibv_buf *buf, *next;
	struct left before;
	struct ibv_mr *mr;
	char *mem, *later;
	int i;

	/* Once before: what is kept, is kept. */
	assert_non_null(ibv_alloc_buf(rdma.pd, size, &buf));
	ibv_free_buf(buf);
	assert_true(left_read(&before));
	mem = ibv_alloc_buf(rdma.pd, size, &buf);
	assert_non_null(mem);
	mr = ibv_reg_buf_mr(rdma.pd, buf, mem, size, RDMA_REMOTE);
	assert_non_null(mr);
	ibv_free_buf(buf);

	for (i = 0; i < 20; i++) {
		later = ibv_alloc_buf(rdma.pd, size, &next);
		assert_non_null(later);
		assert_true(mem_is_zero(later, size));
		if (sim_is_there()) {
			assert_int_equal(sim_write(mr->rkey, (uintptr_t)mem,
						   text, sizeof(text)), 0);
			assert_int_equal(sim_read(mr->rkey, (uintptr_t)mem, is,
						  sizeof(is)), 0);
			assert_string_equal(is, text);
		}
		assert_true(mem_is_zero(later, size));
		ibv_free_buf(next);
	}
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_true(left_as(&before));
}

static void buffer_is_freed_before_its_mr(void **state)
{
	freed_before_its_mr(SMALL);
	freed_before_its_mr(MIB);
}

static int free_twice(size_t size)
{
	const struct rlimit no_core = {};
	struct ibv_buf *buf;

	setrlimit(RLIMIT_CORE, &no_core);
	signal(SIGSEGV, SIG_DFL);
	if (!ibv_alloc_buf(rdma.base, size, &buf))
		return 0;
	/* What it says is expected. */
	if (!freopen("/dev/null", "w", stderr))
		return 0;
	ibv_free_buf(buf);
	ibv_free_buf(buf);
	return 0;
}

static int free_small_twice(void)
{
	return free_twice(SMALL);
}

static int free_large_twice(void)
{
	return free_twice(MIB);
}

/* Small ones are kept, where no checking build looks, but not DMA-bufs. */
static void freed_twice_is_the_end(void **state)
{
	struct ibv_buf *buf;
	int fd;

	assert_non_null(ibv_alloc_buf(rdma.base, SMALL, &buf));
	fd = ibv_export_buf_dmabuf_fd(buf);
	ibv_free_buf(buf);
	if (fd >= 0) {
		close(fd);
		print_message("# small buffers are not kept\n");
		skip();
	}
	assert_int_not_equal(in_child(free_small_twice), 0);
}

/* The handle is gone: only a checking build is sure to see it. */
static void freed_twice_is_seen_by_sanitizers(void **state)
{
	if (!MEM_SANITIZED) {
		print_message("# not a build with sanitizers\n");
		skip();
	}
	assert_int_not_equal(in_child(free_large_twice), 0);
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
		cmocka_unit_test(device_is_closed_under_its_buffers),
		cmocka_unit_test(buffer_is_freed_before_its_mr),
		cmocka_unit_test(freed_twice_is_the_end),
		cmocka_unit_test(freed_twice_is_seen_by_sanitizers),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
