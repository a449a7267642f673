// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Threads that allocate, fill, register, check and free buffers at once:
 * nobody sees what another wrote, and nothing is left in the end.
 */
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "mem.h"
#include "rdma.h"
#include "store.h"

#define THREADS 8
#define ROUNDS 12
#define HELD 4
#define LARGEST (4 * MIB)
#define STACK (256 * KIB)

/* The heap of a sanitizer makes mappings of its own, but not so many. */
#ifdef __SANITIZE_ADDRESS__
#define SLACK 64
#else
#define SLACK 0
#endif

struct held {
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	char *mem;
	size_t size;
	uint32_t seed;
};

struct worker {
	pthread_t thread;
	struct ibv_pd *pd;
	uint32_t number;
	uint32_t random;
	const char *wrong;	/* what went wrong first */
};

static struct rdma rdma;
static pthread_barrier_t start;

static uint32_t pick(struct worker *w, uint32_t below)
{
	w->random = w->random * 1664525 + 1013904223;
	return (uint64_t)(w->random >> 8) * below >> 24;
}

/* As many small sizes as large ones: each bit length is as likely. */
static size_t pick_size(struct worker *w)
{
	size_t top = (size_t)1 << pick(w, 23);

	return top == LARGEST ? top : top + pick(w, top);
}

static const char *take(struct worker *w, struct held *h, uint32_t round)
{
	size_t at;

	h->size = pick_size(w);
	h->seed = w->number * ROUNDS + round;
	h->mem = ibv_alloc_buf(w->pd, h->size, &h->buf);
	if (!h->mem)
		return "not allocated";
	if (!mem_is_zero(h->mem, mem_whole(h->size)))
		return "not zero";
	mem_fill(h->mem, h->size, h->seed);
	at = pick(w, h->size);
	h->mr = ibv_reg_buf_mr(w->pd, h->buf, h->mem + at,
			       1 + pick(w, h->size - at), RDMA_REMOTE);
	return h->mr ? NULL : "not registered";
}

static const char *give(struct held *h)
{
	const char *wrong = NULL;

	if (!h->mem)
		return NULL;
	if (!mem_is_filled(h->mem, h->size, h->seed))
		wrong = "overwritten while registered";
	if (h->mr && ibv_dereg_mr(h->mr))
		wrong = "not deregistered";
	if (!mem_is_filled(h->mem, h->size, h->seed))
		wrong = "overwritten when deregistered";
	ibv_free_buf(h->buf);
	h->mem = NULL;
	h->mr = NULL;
	return wrong;
}

static void *work(void *arg)
{
	struct held held[HELD] = {};
	struct worker *w = arg;
	struct held *h;
	uint32_t i;

	pthread_barrier_wait(&start);
	for (i = 0; i < ROUNDS && !w->wrong; i++) {
		h = &held[i % HELD];
		w->wrong = give(h);
		if (!w->wrong)
			w->wrong = take(w, h, i);
	}
	for (i = 0; i < HELD; i++)
		if (!w->wrong)
			w->wrong = give(&held[i]);
		else
			give(&held[i]);
	return NULL;
}

/* All threads once. Stacks of this size stay in the cache of the C library. */
static void run(bool own_pd, uint32_t seed)
{
	struct worker w[THREADS] = {};
	pthread_attr_t attr;
	size_t i;

	assert_int_equal(pthread_attr_init(&attr), 0);
	assert_int_equal(pthread_attr_setstacksize(&attr, STACK), 0);
	assert_int_equal(pthread_barrier_init(&start, NULL, THREADS), 0);
	for (i = 0; i < THREADS; i++) {
		w[i].number = i;
		w[i].random = seed + i;
		w[i].pd = own_pd ? rdma_alloc_pd(&rdma) : rdma.pd;
		assert_non_null(w[i].pd);
		assert_int_equal(pthread_create(&w[i].thread, &attr, work,
						&w[i]), 0);
	}
	for (i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(w[i].thread, NULL), 0);
		if (own_pd)
			assert_int_equal(ibv_dealloc_pd(w[i].pd), 0);
		if (w[i].wrong)
			fprintf(stderr, "# thread %zu: %s\n", i, w[i].wrong);
	}
	for (i = 0; i < THREADS; i++)
		assert_null(w[i].wrong);
	pthread_barrier_destroy(&start);
	pthread_attr_destroy(&attr);
}

/* The first run leaves caches behind; the next one must leave nothing. */
static void run_and_look(bool own_pd)
{
	size_t maps, fds;

	run(own_pd, 1);
	store_empty(rdma.pd);
	maps = mem_maps();
	fds = mem_fds();
	run(own_pd, 101);
	store_empty(rdma.pd);
	assert_in_range(mem_maps(), 0, maps + SLACK);
	assert_int_equal(mem_fds(), fds);
}

static void one_pd(void **state)
{
	(void)state;
	run_and_look(false);
}

static void a_pd_each(void **state)
{
	(void)state;
	run_and_look(true);
}

static int setup(void **state)
{
	(void)state;
	/*
	 * One heap, so that no thread's own heap comes and goes. The malloc()
	 * of a sanitizer has no such thing and says so.
	 */
	mallopt(M_ARENA_MAX, 1);
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
		cmocka_unit_test(one_pd),
		cmocka_unit_test(a_pd_each),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
