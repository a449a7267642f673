// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Times registrations of ranges of one piece of memory, and counts what they
 * do to the mappings of the process. See buf_bench.h.
 */
#define _GNU_SOURCE
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "buf_bench.h"

#ifndef MAP_HUGE_SHIFT
#define MAP_HUGE_SHIFT 26
#endif

/* The memory of one round, and room for the ranges in it */
struct work {
	struct ibv_pd *pd;
	struct ibv_buf *buf;	/* NULL: plain memory */
	char *addr;
	size_t size;
	int count;
	struct ibv_mr **mrs;
};

/* Of one side: what each registration of each round took */
struct samples {
	double *reg;
	double *dereg;
	int n;
};

static int fail(struct bench_error *error, const char *text)
{
	error->text = text;
	error->err = errno;
	return -1;
}

/* Reads without stdio, whose buffer would be memory of the process too. */
static int count_mappings(void)
{
	char text[4096];
	ssize_t len, i;
	int fd, n = 0;

	fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	while ((len = read(fd, text, sizeof(text))) > 0)
		for (i = 0; i < len; i++)
			n += text[i] == '\n';
	close(fd);
	return len ? -1 : n;
}

static struct ibv_mr *register_range(struct work *work, int i)
{
	/* Odd, so that it is no page's start, whatever the stride is. */
	char *addr = work->addr + (work->size / work->count * i | 1);

	if (work->buf)
		return ibv_reg_buf_mr(work->pd, work->buf, addr, BENCH_RANGE,
				      IBV_ACCESS_LOCAL_WRITE);
	return ibv_reg_mr(work->pd, addr, BENCH_RANGE, IBV_ACCESS_LOCAL_WRITE);
}

static int register_ranges(struct work *work, struct samples *samples,
			   struct bench_ranges *result,
			   struct bench_error *error)
{
	int i, n = 0, before, after, err = 0;
	double start;

	/* With all memory there, a registration does not have to get it. */
	memset(work->addr, 0, work->size);

	before = count_mappings();
	if (before < 0)
		return fail(error, "/proc/self/maps");

	for (i = 0; i < work->count; i++) {
		start = bench_now();
		work->mrs[n] = register_range(work, i);
		if (work->mrs[n])
			samples->reg[samples->n + n++] = bench_now() - start;
		else if (!err)
			err = errno;
	}

	after = count_mappings();
	if (after < 0)
		fail(error, "/proc/self/maps");

	for (i = 0; i < n; i++) {
		start = bench_now();
		ibv_dereg_mr(work->mrs[i]);
		samples->dereg[samples->n + i] = bench_now() - start;
	}

	samples->n += n;
	*result = (struct bench_ranges) {
		.registered = n,
		.err = err,
		.mappings_before = before,
		.mappings_after = after,
	};
	return after < 0 ? -1 : 0;
}

static int use_buffer(struct work *work, struct samples *samples,
		      struct bench_ranges *result, struct bench_error *error)
{
	int ret;

	work->addr = ibv_alloc_buf(work->pd, work->size, &work->buf);
	if (!work->addr)
		return fail(error, "ibv_alloc_buf");

	ret = register_ranges(work, samples, result, error);
	ibv_free_buf(work->buf);
	work->buf = NULL;
	return ret;
}

/* Memory with pages like those of the buffer, as a program would map it */
static int use_plain(struct work *work, const struct buf_probe *probe,
		     struct samples *samples, struct bench_ranges *result,
		     struct bench_error *error)
{
	size_t page_size = sysconf(_SC_PAGESIZE);
	int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	size_t length = work->size;
	int ret;

	if (probe->page_size > page_size) {
		page_size = probe->page_size;
		flags |= MAP_HUGETLB | __builtin_ctzl(page_size)
					       << MAP_HUGE_SHIFT;
	}
	length = (length + page_size - 1) & ~(page_size - 1);

	work->addr = mmap(NULL, length, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (work->addr == MAP_FAILED)
		return fail(error, "mmap");
	if (probe->thp_bytes)
		madvise(work->addr, length, MADV_HUGEPAGE);

	ret = register_ranges(work, samples, result, error);
	munmap(work->addr, length);
	return ret;
}

int bench_ranges(struct ibv_pd *pd, const struct buf_probe *probe, size_t size,
		 int count, int rounds, struct bench_ranges result[BENCH_SIDES],
		 struct bench_error *error)
{
	struct samples samples[BENCH_SIDES] = {};
	struct work work = {
		.pd = pd,
		.size = size,
		.count = count,
	};
	int side, round, ret = -1;

	work.mrs = calloc(count, sizeof(*work.mrs));
	if (!work.mrs) {
		fail(error, "malloc");
		goto out;
	}
	for (side = 0; side < BENCH_SIDES; side++) {
		samples[side].reg = calloc(rounds, count * sizeof(double));
		samples[side].dereg = calloc(rounds, count * sizeof(double));
		if (!samples[side].reg || !samples[side].dereg) {
			fail(error, "malloc");
			goto out;
		}
	}

	for (round = 0; round < rounds; round++)
		if (use_buffer(&work, &samples[BENCH_BUF], &result[BENCH_BUF],
			       error) ||
		    use_plain(&work, probe, &samples[BENCH_PLAIN],
			      &result[BENCH_PLAIN], error))
			goto out;

	for (side = 0; side < BENCH_SIDES; side++) {
		if (!samples[side].n)
			continue;
		result[side].reg_usec =
			bench_median(samples[side].reg, samples[side].n);
		result[side].dereg_usec =
			bench_median(samples[side].dereg, samples[side].n);
	}
	ret = 0;
out:
	for (side = 0; side < BENCH_SIDES; side++) {
		free(samples[side].dereg);
		free(samples[side].reg);
	}
	free(work.mrs);
	return ret;
}
