// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Small buffers that were freed and are reused, with a device that writes to
 * them: see tests/unit/store.c for what needs no device. To be run with fork
 * support (RDMAV_FORK_SAFE) and without.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "mem.h"
#include "rdma.h"
#include "store.h"

#define LIMIT (4 * MIB)
#define SIZE ((size_t)20000)

/* What one end of traffic needs */
struct side {
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	char *mem;
};

static struct rdma rdma;

static int side_open(struct side *side, const struct rdma *rdma)
{
	side->mem = ibv_alloc_buf(rdma->pd, SIZE, &side->buf);
	if (!side->mem)
		return -1;
	side->mr = ibv_reg_buf_mr(rdma->pd, side->buf, side->mem, SIZE,
				  RDMA_REMOTE);
	return side->mr ? 0 : -1;
}

/* The device writes a pattern to the memory of the second side. */
static int write_across(struct pair *pair, struct side side[2], uint32_t seed)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)side[0].mem,
		.length = SIZE,
		.lkey = side[0].mr->lkey,
	};
	struct ibv_wc wc;

	mem_fill(side[0].mem, SIZE, seed);
	if (rdma_send(pair->qp[0], IBV_WR_RDMA_WRITE, &sge, 1,
		      (uintptr_t)side[1].mr->addr, side[1].mr->rkey) ||
	    rdma_wait(pair->cq[0], &wc))
		return -1;
	return wc.status == IBV_WC_SUCCESS ? 0 : -1;
}

static void zero_after_the_device_wrote(void **state)
{
	struct side side[2];
	struct pair pair;
	uint32_t round;
	char *mem;
	int i;

	store_empty(rdma.pd);
	assert_int_equal(pair_open(&pair, &rdma), 0);
	for (round = 0; round < 10; round++) {
		for (i = 0; i < 2; i++)
			assert_int_equal(side_open(&side[i], &rdma), 0);
		assert_int_equal(write_across(&pair, side, round), 0);
		assert_true(mem_is_filled(side[1].mem, SIZE, round));
		for (i = 0; i < 2; i++) {
			assert_int_equal(ibv_dereg_mr(side[i].mr), 0);
			ibv_free_buf(side[i].buf);
		}

		mem = ibv_alloc_buf(rdma.pd, SIZE, &side[1].buf);
		assert_ptr_equal(mem, side[1].mem);
		assert_true(mem_is_zero(mem, mem_whole(SIZE)));
		ibv_free_buf(side[1].buf);
	}
	pair_close(&pair);
}

/* Freed too early, it is nobody's memory rather than another buffer's. */
static void registered_memory_is_not_reused(void **state)
{
	struct ibv_buf *buf[16];
	struct side side[2];
	struct pair pair;
	char *mem[16];
	size_t i;

	store_empty(rdma.pd);
	assert_int_equal(pair_open(&pair, &rdma), 0);
	for (i = 0; i < 2; i++)
		assert_int_equal(side_open(&side[i], &rdma), 0);
	ibv_free_buf(side[1].buf);

	for (i = 0; i < ARRAY_SIZE(buf); i++) {
		mem[i] = ibv_alloc_buf(rdma.pd, SIZE, &buf[i]);
		assert_non_null(mem[i]);
	}
	assert_int_equal(write_across(&pair, side, 1), 0);
	for (i = 0; i < ARRAY_SIZE(buf); i++) {
		assert_true(mem_is_zero(mem[i], mem_whole(SIZE)));
		ibv_free_buf(buf[i]);
	}

	for (i = 0; i < 2; i++)
		assert_int_equal(ibv_dereg_mr(side[i].mr), 0);
	ibv_free_buf(side[0].buf);
	pair_close(&pair);
}

/* Of so many bytes in buffers of size, no more than the limit stays mapped. */
static void fill_and_free(size_t size, size_t bytes)
{
	static struct ibv_buf *buf[2048];
	size_t i, n = bytes / size;
	char *mem;

	assert_in_range(n, 1, ARRAY_SIZE(buf));
	for (i = 0; i < n; i++) {
		mem = ibv_alloc_buf(rdma.pd, size, &buf[i]);
		assert_non_null(mem);
		memset(mem, 'x', size);
	}
	for (i = 0; i < n; i++)
		ibv_free_buf(buf[i]);
}

static void limit_is_kept(void **state)
{
	static const size_t sizes[] = { 4 * KIB, 64 * KIB, 512 * KIB };
	size_t i, space, maps;

	/* The handles of the first time stay with malloc(). */
	fill_and_free(sizes[0], 2 * LIMIT);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		store_empty(rdma.pd);
		space = mem_space();
		maps = mem_maps();
		fill_and_free(sizes[i], 2 * LIMIT);
		if (!MEM_SANITIZED)
			assert_int_equal(mem_space(), space + LIMIT);
		store_empty(rdma.pd);
		if (!MEM_SANITIZED) {
			assert_int_equal(mem_space(), space);
			assert_int_equal(mem_maps(), maps);
		}
	}
}

static void want_of_memory_empties_it(void **state)
{
	struct ibv_buf *buf = NULL;
	struct rlimit old, tight;
	size_t space;

	fill_and_free(64 * KIB, LIMIT);
	space = mem_space();
	assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
	tight = old;
	tight.rlim_cur = space;
	assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
	ibv_alloc_buf(rdma.pd, MIB, &buf);
	assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
	assert_non_null(buf);
	assert_int_equal(mem_space(), space - LIMIT + MIB);
	ibv_free_buf(buf);
}

/* Threads, each with buffers and registrations of its own */

#define THREADS 6
#define ROUNDS 150
#define HELD 4

struct worker {
	pthread_t thread;
	uint32_t number;
	bool wrong;
};

static bool give(struct side *held, size_t size, uint32_t seed)
{
	bool right = mem_is_filled(held->mem, size, seed);

	if (held->mr && ibv_dereg_mr(held->mr))
		right = false;
	ibv_free_buf(held->buf);
	held->mem = NULL;
	return right;
}

static bool take(struct side *held, size_t size, uint32_t seed)
{
	held->mem = ibv_alloc_buf(rdma.pd, size, &held->buf);
	if (!held->mem || !mem_is_zero(held->mem, mem_whole(size)))
		return false;
	mem_fill(held->mem, size, seed);
	held->mr = ibv_reg_buf_mr(rdma.pd, held->buf, held->mem, size,
				  RDMA_REMOTE);
	return held->mr;
}

static void *work(void *arg)
{
	struct side held[HELD] = {};
	size_t size[HELD] = {};
	struct worker *w = arg;
	uint32_t i, at, random = w->number;

	for (i = 0; i < ROUNDS + HELD; i++) {
		at = i % HELD;
		if (held[at].mem)
			w->wrong |= !give(&held[at], size[at], w->number);
		if (i >= ROUNDS || w->wrong)
			continue;
		random = random * 1664525 + 1013904223;
		size[at] = 1 + (random >> 16) % 20000;
		w->wrong |= !take(&held[at], size[at], w->number);
	}
	return NULL;
}

static void threads_share_nothing(void **state)
{
	struct worker w[THREADS] = {};
	int i;

	for (i = 0; i < THREADS; i++) {
		w[i].number = i + 1;
		assert_int_equal(pthread_create(&w[i].thread, NULL, work,
						&w[i]), 0);
	}
	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(w[i].thread, NULL), 0);
	for (i = 0; i < THREADS; i++)
		assert_false(w[i].wrong);
}

/* A child opens the device itself; what is wrong is its exit status. */
static int traffic_in_child(void)
{
	bool protects = ibv_is_fork_initialized() == IBV_FORK_ENABLED;
	struct side side[8];
	struct rdma own;
	struct pair pair;
	uint32_t i;

	if (rdma_open(&own) || pair_open(&pair, &own))
		return 1;
	for (i = 0; i < ARRAY_SIZE(side); i++) {
		if (side_open(&side[i], &own))
			return 2;
		if (!mem_is_zero(side[i].mem, mem_whole(SIZE)))
			return 3;
		if (mem_all_flagged(side[i].mem, mem_whole(SIZE), "dc") !=
		    protects)
			return 4;
	}
	for (i = 0; i < ARRAY_SIZE(side); i += 2)
		if (write_across(&pair, &side[i], i) ||
		    !mem_is_filled(side[i + 1].mem, SIZE, i))
			return 5;
	for (i = 0; i < ARRAY_SIZE(side); i++) {
		if (ibv_dereg_mr(side[i].mr))
			return 6;
		ibv_free_buf(side[i].buf);
	}
	pair_close(&pair);
	rdma_close(&own);
	return 0;
}

static void child_has_buffers_of_its_own(void **state)
{
	struct side side[4];
	int status, i;
	char *mem;
	pid_t pid;

	store_empty(rdma.pd);
	for (i = 0; i < 4; i++)
		assert_int_equal(side_open(&side[i], &rdma), 0);
	mem_fill(side[0].mem, SIZE, 9);
	for (i = 1; i < 4; i++) {
		assert_int_equal(ibv_dereg_mr(side[i].mr), 0);
		ibv_free_buf(side[i].buf);
	}

	pid = fork();
	assert_int_not_equal(pid, -1);
	if (!pid)
		_exit(traffic_in_child());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);

	assert_true(mem_is_filled(side[0].mem, SIZE, 9));
	mem = ibv_alloc_buf(rdma.pd, SIZE, &side[3].buf);
	assert_ptr_equal(mem, side[3].mem);
	assert_true(mem_is_zero(mem, mem_whole(SIZE)));
	ibv_free_buf(side[3].buf);
	assert_int_equal(ibv_dereg_mr(side[0].mr), 0);
	ibv_free_buf(side[0].buf);
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
		cmocka_unit_test(zero_after_the_device_wrote),
		cmocka_unit_test(registered_memory_is_not_reused),
		cmocka_unit_test(limit_is_kept),
		cmocka_unit_test(threads_share_nothing),
		cmocka_unit_test(child_has_buffers_of_its_own),
		/* For the plain build alone */
		cmocka_unit_test(want_of_memory_empties_it),
	};
	const size_t n = ARRAY_SIZE(tests) - (MEM_SANITIZED ? 1 : 0);

	return _cmocka_run_group_tests("store", tests, n, setup, teardown);
}
