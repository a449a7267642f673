// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Times the life of a buffer. See buf_bench.h.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "buf_bench.h"

/* What one round took: of each step, and of all together */
struct sample {
	double usec[BUF_OPS + 1];
};

double bench_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1e6 + ts.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double bench_median(double *values, int n)
{
	qsort(values, n, sizeof(*values), compare);
	return values[n / 2];
}

static int fail(struct bench_error *error, const char *text, int err)
{
	error->text = text;
	error->err = err;
	return -1;
}

static int use_buffer(struct ibv_pd *pd, size_t size, double at[BUF_OPS + 1],
		      struct bench_error *error)
{
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	void *addr;

	at[BUF_OP_ALLOC] = bench_now();
	addr = ibv_alloc_buf(pd, size, &buf);
	if (!addr)
		return fail(error, "ibv_alloc_buf", errno);

	at[BUF_OP_REG] = bench_now();
	mr = ibv_reg_buf_mr(pd, buf, addr, size, IBV_ACCESS_LOCAL_WRITE);
	if (!mr) {
		fail(error, "ibv_reg_buf_mr", errno);
		ibv_free_buf(buf);
		return -1;
	}

	at[BUF_OP_DEREG] = bench_now();
	ibv_dereg_mr(mr);
	at[BUF_OP_FREE] = bench_now();
	ibv_free_buf(buf);
	at[BUF_OPS] = bench_now();
	return 0;
}

static int use_plain(struct ibv_pd *pd, size_t size, double at[BUF_OPS + 1],
		     struct bench_error *error)
{
	struct ibv_mr *mr;
	void *addr;
	int ret;

	at[BUF_OP_ALLOC] = bench_now();
	ret = posix_memalign(&addr, sysconf(_SC_PAGESIZE), size);
	if (ret)
		return fail(error, "posix_memalign", ret);
	memset(addr, 0, size);

	at[BUF_OP_REG] = bench_now();
	mr = ibv_reg_mr(pd, addr, size, IBV_ACCESS_LOCAL_WRITE);
	if (!mr) {
		fail(error, "ibv_reg_mr", errno);
		free(addr);
		return -1;
	}

	at[BUF_OP_DEREG] = bench_now();
	ibv_dereg_mr(mr);
	at[BUF_OP_FREE] = bench_now();
	free(addr);
	at[BUF_OPS] = bench_now();
	return 0;
}

static int use(enum bench_side side, struct ibv_pd *pd, size_t size,
	       struct sample *sample, struct bench_error *error)
{
	double at[BUF_OPS + 1];
	int i;

	if (side == BENCH_BUF ? use_buffer(pd, size, at, error) :
				use_plain(pd, size, at, error))
		return -1;

	for (i = 0; i < BUF_OPS; i++)
		sample->usec[i] = at[i + 1] - at[i];
	sample->usec[BUF_OPS] = at[BUF_OPS] - at[0];
	return 0;
}

static double median_of(const struct sample *samples, int rounds, int i,
			double *values)
{
	int round;

	for (round = 0; round < rounds; round++)
		values[round] = samples[round].usec[i];
	return bench_median(values, rounds);
}

int bench_cycles(struct ibv_pd *pd, size_t size, int rounds,
		 struct bench_cycle result[BENCH_SIDES],
		 struct bench_error *error)
{
	struct sample *samples[BENCH_SIDES] = {};
	struct sample first;
	double *values;
	int round, i, side, ret = -1;

	values = calloc(rounds, sizeof(*values));
	for (side = 0; side < BENCH_SIDES; side++)
		samples[side] = calloc(rounds, sizeof(*samples[side]));
	if (!values || !samples[BENCH_BUF] || !samples[BENCH_PLAIN]) {
		fail(error, "malloc", ENOMEM);
		goto out;
	}

	for (side = 0; side < BENCH_SIDES; side++)
		if (use(side, pd, size, &first, error))
			goto out;

	/* The side that goes first alternates, so that none profits from it. */
	for (round = 0; round < rounds; round++) {
		for (i = 0; i < BENCH_SIDES; i++) {
			side = (round + i) % BENCH_SIDES;
			if (use(side, pd, size, &samples[side][round], error))
				goto out;
		}
	}

	for (side = 0; side < BENCH_SIDES; side++) {
		for (i = 0; i < BUF_OPS; i++)
			result[side].usec[i] = median_of(samples[side], rounds,
							 i, values);
		result[side].cycle = median_of(samples[side], rounds, BUF_OPS,
					       values);
	}
	ret = 0;
out:
	for (side = 0; side < BENCH_SIDES; side++)
		free(samples[side]);
	free(values);
	return ret;
}
