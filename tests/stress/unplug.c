// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Threads that allocate, register and free buffers while their device goes. The
 * test device goes at once, rxe when its last user is gone. Memory does not
 * depend on a device: buffers are had and freed as before, and registrations
 * say that it is gone. When the process closes it, nothing is left. For one
 * thread with everything that can be had of a device: tests/guest/sim_gone.c.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../guest/mem.h"
#include "../guest/rdma.h"
#include "../guest/sim.h"
#include "left.h"

#define THREADS 4
#define CALLS 20		/* of each, after the device went */
#define WAIT_SECONDS 60

static struct rdma rdma;
static atomic_uint rounds, registered, gone;
static atomic_bool is_over;

static bool is_gone(int err)
{
	return err == EIO || err == ENODEV;
}

/* Returns the line of what is wrong, 0 if all is well. */
static int one_buffer(size_t size, unsigned int seed)
{
	struct ibv_buf *buf = NULL;
	struct ibv_mr *mr;
	char *mem;
	int err;

	mem = ibv_alloc_buf(rdma.pd, size, &buf);
	if (!mem || !mem_is_zero(mem, size))
		return __LINE__;
	mem_fill(mem, size, seed);
	errno = 0;
	mr = ibv_reg_buf_mr(rdma.pd, buf, mem, size, RDMA_REMOTE);
	if (!mr && !is_gone(errno))
		return __LINE__;
	if (!mr)
		gone++;
	else
		registered++;
	if (!mem_is_filled(mem, size, seed))
		return __LINE__;
	err = mr ? ibv_dereg_mr(mr) : 0;
	if (err)
		return __LINE__;
	ibv_free_buf(buf);
	return 0;
}

static void *churn(void *arg)
{
	static const size_t sizes[] = { 4096, 100 * KIB, 600 * KIB };
	unsigned int n = (uintptr_t)arg;
	int line = 0;

	while (!is_over && !line) {
		line = one_buffer(sizes[n % 3], n);
		n += THREADS;
		rounds++;
	}
	return (void *)(uintptr_t)line;
}

static void wait_for_rounds(unsigned int more)
{
	unsigned int until = rounds + more;
	int i;

	for (i = 0; i < WAIT_SECONDS * 100 && rounds < until; i++)
		usleep(10000);
	assert_true(rounds >= until);
}

static void run_rdma(const char *words)
{
	char command[64];

	snprintf(command, sizeof(command), "/.guest/rdma %s", words);
	assert_int_equal(system(command), 0);
}

static bool is_there(void)
{
	return !access(rdma.is_rxe ? "/sys/class/infiniband/rxe0" :
				     "/sys/class/infiniband/sim0", F_OK);
}

static void wait_until(bool there)
{
	int i;

	for (i = 0; i < WAIT_SECONDS * 10 && is_there() != there; i++)
		usleep(100000);
	assert_int_equal(is_there(), there);
}

static void go(void)
{
	if (rdma.is_rxe)
		run_rdma("link del rxe0");
	else
		sim_unbind();
}

static void come(void)
{
	wait_until(false);
	if (rdma.is_rxe)
		run_rdma("link add rxe0 type rxe netdev dummy0");
	else
		sim_bind();
	wait_until(true);
}

static void threads_go_on_without_it(void **state)
{
	pthread_t threads[THREADS];
	size_t fds = mem_fds();
	uintptr_t i;
	void *line;

	assert_int_equal(rdma_open(&rdma), 0);
	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, churn,
						(void *)i), 0);
	wait_for_rounds(CALLS);
	go();
	wait_for_rounds(CALLS * THREADS);
	is_over = true;
	for (i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], &line), 0);
		if (line)
			fail_msg("line %d", (int)(uintptr_t)line);
	}
	assert_true(registered > 0);
	if (!rdma.is_rxe)
		assert_true(gone > 0);
	rdma_close(&rdma);
	assert_int_equal(mem_fds(), fds);
	come();
	print_message("# %u buffers, %u registered, %u refused\n", rounds,
		      registered, gone);
}

static void nothing_is_left(void **state)
{
	struct rdma again;
	struct ibv_buf *buf;
	struct left before;
	int tries;

	if (sim_is_there()) {
		assert_true(sim_is_empty());
		assert_int_equal(sim_heap().pieces, 0);
	}
	/* It comes up some time after it is there. */
	for (tries = 0; rdma_open(&again); tries++) {
		assert_true(tries < WAIT_SECONDS);
		sleep(1);
	}
	assert_true(left_read(&before));
	assert_non_null(ibv_alloc_buf(again.pd, MIB, &buf));
	ibv_free_buf(buf);
	assert_true(left_as(&before));
	rdma_close(&again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_go_on_without_it),
		cmocka_unit_test(nothing_is_left),
	};

	/* What is gone counts as destroyed. */
	setenv("RDMAV_ALLOW_DISASSOC_DESTROY", "1", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
