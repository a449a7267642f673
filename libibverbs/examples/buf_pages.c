// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Times the registration of a buffer against that of small pages. See
 * buf_bench.h.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "buf_bench.h"

/* One memory of one round */
struct work {
	struct ibv_pd *pd;
	struct ibv_buf *buf;	/* NULL: small pages */
	void *addr;
	size_t size;
};

/* Of one side, a value for each round */
struct samples {
	double *fresh;
	double *again;
	double *dereg;
};

static int fail(struct bench_error *error, const char *text)
{
	error->text = text;
	error->err = errno;
	return -1;
}

static int register_once(struct work *work, double *reg, double *dereg,
			 struct bench_error *error)
{
	double start = bench_now();
	struct ibv_mr *mr;

	if (work->buf)
		mr = ibv_reg_buf_mr(work->pd, work->buf, work->addr, work->size,
				    IBV_ACCESS_LOCAL_WRITE);
	else
		mr = ibv_reg_mr(work->pd, work->addr, work->size,
				IBV_ACCESS_LOCAL_WRITE);
	*reg = bench_now() - start;
	if (!mr)
		return fail(error, work->buf ? "ibv_reg_buf_mr" : "ibv_reg_mr");

	start = bench_now();
	ibv_dereg_mr(mr);
	*dereg = bench_now() - start;
	return 0;
}

/* The first time gets the memory, as it is pinned; then it is there. */
static int register_twice(struct work *work, struct samples *samples, int round,
			  struct bench_error *error)
{
	if (register_once(work, &samples->fresh[round], &samples->dereg[round],
			  error))
		return -1;
	return register_once(work, &samples->again[round],
			     &samples->dereg[round], error);
}

static int use_buffer(struct work *work, struct samples *samples, int round,
		      struct bench_error *error)
{
	int ret;

	work->addr = ibv_alloc_buf(work->pd, work->size, &work->buf);
	if (!work->addr)
		return fail(error, "ibv_alloc_buf");

	ret = register_twice(work, samples, round, error);
	ibv_free_buf(work->buf);
	work->buf = NULL;
	return ret;
}

static int use_small_pages(struct work *work, struct samples *samples,
			   int round, struct bench_error *error)
{
	int ret;

	work->addr = mmap(NULL, work->size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (work->addr == MAP_FAILED)
		return fail(error, "mmap");
	/* Fails on kernels that know of no huge pages. */
	madvise(work->addr, work->size, MADV_NOHUGEPAGE);

	ret = register_twice(work, samples, round, error);
	munmap(work->addr, work->size);
	return ret;
}

int bench_pages(struct ibv_pd *pd, size_t size, int rounds,
		struct bench_pages result[BENCH_SIDES],
		struct bench_error *error)
{
	struct samples samples[BENCH_SIDES] = {};
	struct work work = {
		.pd = pd,
		.size = size,
	};
	int side, round, ret = -1;

	for (side = 0; side < BENCH_SIDES; side++) {
		samples[side].fresh = calloc(rounds, sizeof(double));
		samples[side].again = calloc(rounds, sizeof(double));
		samples[side].dereg = calloc(rounds, sizeof(double));
		if (!samples[side].fresh || !samples[side].again ||
		    !samples[side].dereg) {
			fail(error, "malloc");
			goto out;
		}
	}

	for (round = 0; round < rounds; round++)
		if (use_buffer(&work, &samples[BENCH_BUF], round, error) ||
		    use_small_pages(&work, &samples[BENCH_PLAIN], round, error))
			goto out;

	for (side = 0; side < BENCH_SIDES; side++)
		result[side] = (struct bench_pages) {
			.fresh_usec = bench_median(samples[side].fresh, rounds),
			.again_usec = bench_median(samples[side].again, rounds),
			.dereg_usec = bench_median(samples[side].dereg, rounds),
		};
	ret = 0;
out:
	for (side = 0; side < BENCH_SIDES; side++) {
		free(samples[side].dereg);
		free(samples[side].again);
		free(samples[side].fresh);
	}
	return ret;
}
