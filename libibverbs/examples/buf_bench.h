/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Times buffers of ibv_alloc_buf() against memory that a program gets and
 * registers without them, both in this process, so that the figures of the two
 * compare. It knows only the public verbs; which memory a buffer is made of is
 * in buf_probe.h.
 */
#ifndef BUF_BENCH_H
#define BUF_BENCH_H

#include <stddef.h>

#include <infiniband/verbs.h>

#include "buf_probe.h"

enum bench_side {
	BENCH_BUF,		/* ibv_alloc_buf(), ibv_reg_buf_mr() */
	BENCH_PLAIN,		/* memory of the process, ibv_reg_mr() */
	BENCH_SIDES,
};

#define BENCH_MAX_ROUNDS 10000

/* Medians in microseconds */
struct bench_cycle {
	double usec[BUF_OPS];
	double cycle;		/* of all steps together */
};

/* What failed, for a message; text is constant */
struct bench_error {
	const char *text;
	int err;
};

/*
 * Allocates, registers, deregisters and frees size bytes, by turns of the two
 * sides, round by round after one that does not count. The plain side is
 * posix_memalign(), memset() and ibv_reg_mr(). Returns 0 or -1.
 */
int bench_cycles(struct ibv_pd *pd, size_t size, int rounds,
		 struct bench_cycle result[BENCH_SIDES],
		 struct bench_error *error);

/* Registrations of ranges of one piece of memory */
struct bench_ranges {
	double reg_usec;	/* medians of all rounds; 0: none registered */
	double dereg_usec;

	/* Of the last round */
	int registered;
	int err;		/* errno of the first that was not, or 0 */
	int mappings_before;	/* of the process, memory included */
	int mappings_after;	/* while all ranges are registered */
};

/* Bytes of each range, and of the memory that each needs for itself */
#define BENCH_RANGE 4096
#define BENCH_RANGE_STRIDE ((size_t)4 * BENCH_RANGE)

/*
 * In each round, registers count ranges of one buffer of size bytes, all at the
 * same time, then as many of plain memory with pages of the kind that the probe
 * of the buffer found; size is BENCH_RANGE_STRIDE * count or more. No two ranges
 * share a page of 4K, and none starts at a page. Returns 0 or -1; a range that
 * is not registered is no failure.
 */
int bench_ranges(struct ibv_pd *pd, const struct buf_probe *probe, size_t size,
		 int count, int rounds, struct bench_ranges result[BENCH_SIDES],
		 struct bench_error *error);

/* Registrations of one piece of memory; medians in microseconds */
struct bench_pages {
	double fresh_usec;	/* untouched: pinning gets it from the kernel */
	double again_usec;	/* all there */
	double dereg_usec;	/* after that */
};

/*
 * In each round, registers a buffer of size bytes twice, and then a mapping
 * that must not have huge pages. Returns 0 or -1.
 */
int bench_pages(struct ibv_pd *pd, size_t size, int rounds,
		struct bench_pages result[BENCH_SIDES],
		struct bench_error *error);

/* For the files that measure */
double bench_now(void);

/* Sorts the n values, n being at least 1. */
double bench_median(double *values, int n);

#endif /* BUF_BENCH_H */
