// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Buffers without fork support: nothing is marked, and once there has been a
 * buffer it is too late to ask for support, as it is after a registration. A
 * program of its own, since fork support cannot be switched off again.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mem.h"
#include "rdma.h"

static struct rdma rdma;
static enum ibv_fork_status at_start;

static void nothing_is_marked(void **state)
{
	static const size_t sizes[] = { 1, 4097, 3 * MIB };
	size_t i, marked = mem_bytes_flagged("dc");
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	char *mem;

	(void)state;
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		mem = ibv_alloc_buf(rdma.pd, sizes[i], &buf);
		assert_non_null(mem);
		assert_int_equal(mem_bytes_flagged("dc"), marked);
		mr = ibv_reg_buf_mr(rdma.pd, buf, mem, sizes[i], 0);
		assert_non_null(mr);
		assert_int_equal(mem_bytes_flagged("dc"), marked);
		assert_int_equal(ibv_dereg_mr(mr), 0);
		ibv_free_buf(buf);
		assert_int_equal(mem_bytes_flagged("dc"), marked);
	}
}

static void too_late_after_an_allocation(void **state)
{
	struct ibv_buf *buf;

	(void)state;
	assert_int_equal(ibv_is_fork_initialized(), at_start);
	assert_non_null(ibv_alloc_buf(rdma.pd, 1, &buf));
	assert_int_equal(ibv_fork_init(),
			 at_start == IBV_FORK_UNNEEDED ? 0 : EINVAL);
	ibv_free_buf(buf);
	assert_int_equal(ibv_fork_init(),
			 at_start == IBV_FORK_UNNEEDED ? 0 : EINVAL);
	assert_int_equal(ibv_is_fork_initialized(), at_start);
}

static int setup(void **state)
{
	(void)state;
	at_start = ibv_is_fork_initialized();
	if (at_start == IBV_FORK_ENABLED)
		return -1;
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
		cmocka_unit_test(too_late_after_an_allocation),
		cmocka_unit_test(nothing_is_marked),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
