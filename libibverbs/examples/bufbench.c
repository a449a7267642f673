// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * ibv_bufbench: what buffers of ibv_alloc_buf() cost next to memory that a
 * program gets and registers itself. This file is the command line and the two
 * ways of output; what is measured is in buf_cycles.c, buf_pages.c and
 * buf_ranges.c.
 */
#include <config.h>

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "buf_bench.h"
#include "buf_cause.h"
#include "buf_probe.h"

#define MIN_SIZE (4UL << 10)
#define MAX_SIZE (1UL << 30)
#define MAX_SIZES 10

struct options {
	const char *device;	/* NULL: the first one */
	size_t size;
	int rounds;		/* 0: as many as suit the size */
	int ranges;		/* not 0: register so many ranges */
	bool pages;		/* compare pages; else, the cycle of buffers */
	bool csv;
};

/* What is measured on, and what a buffer of each size is made of */
struct bench {
	struct ibv_device *device;
	const char *name;
	struct ibv_pd *pd;
	struct buf_probe probes[MAX_SIZES];
	size_t sizes[MAX_SIZES];
	int count;
};

static void complain(const char *subject, const char *text, int err)
{
	fprintf(stderr, "ibv_bufbench: %s: %s: %s\n", subject, text,
		strerror(err));
}

/* Which memory gets transparent huge pages, in the word of the kernel */
static const char *thp_mode(char word[16])
{
	FILE *file;

	snprintf(word, 16, "none");
	file = fopen("/sys/kernel/mm/transparent_hugepage/enabled",
		     "r" STREAM_CLOEXEC);
	if (!file)
		return word;
	/* The words are in a row, and the one that counts in brackets. */
	while (fscanf(file, " [%15[a-z]", word) != 1)
		if (fscanf(file, "%*s") == EOF)
			break;
	fclose(file);
	return word;
}

/* The pages that hold a buffer; 0: not known */
static size_t count_pages(const struct buf_probe *probe, size_t size)
{
	size_t thp = buf_thp_size(), small = size, pages = 0;

	if (!probe->page_size)
		return 0;
	if (thp) {
		pages = probe->thp_bytes / thp;
		small -= pages * thp;
	}
	return pages + (small + probe->page_size - 1) / probe->page_size;
}

/*
 * Finds out what a buffer of this size is made of, and adds the size to those
 * to measure. Says why where no such buffer can be had.
 */
static void add_size(struct bench *bench, size_t size)
{
	struct buf_probe *probe = &bench->probes[bench->count];
	struct buf_request request = {
		.device = bench->device,
		.backing = BUF_AS_CHOSEN,
		.size = size,
	};
	char text[BUF_SIZE_LEN];
	struct buf_cause cause;

	/* Huge pages are reserved, but there is also the plain memory. */
	if (size > buf_memory_available()) {
		memset(probe, 0, sizeof(*probe));
		probe->step = BUF_STEP_MEMORY;
	} else {
		buf_probe(&request, probe);
	}

	if (buf_probe_ok(&request, probe)) {
		bench->sizes[bench->count++] = size;
		return;
	}

	buf_explain(&request, probe, &cause);
	fprintf(stderr, "ibv_bufbench: %s: %s: %s%s%s\n", bench->name,
		buf_size_text(size, text), cause.text,
		*cause.fix ? "; fix: " : "", cause.fix);
}

/* All probes are done before this process has a buffer that they inherit. */
static void add_sizes(struct bench *bench, const struct options *options)
{
	size_t size;

	if (!options->ranges && !options->pages)
		for (size = MIN_SIZE; size < options->size; size *= 4)
			add_size(bench, size);
	add_size(bench, options->size);
}

/* Few for large sizes, which take long and vary little */
static int rounds_for(size_t size)
{
	size_t rounds = (128UL << 20) / size;

	return rounds < 5 ? 5 : rounds > 301 ? 301 : rounds | 1;
}

static double ratio_of(double buf, double plain)
{
	return plain > 0 ? buf / plain : 0;
}

/* Whole buffers */

static void print_cycle_head(const struct bench *bench, bool csv)
{
	char mode[16];

	if (csv) {
		printf("device,backing,size,rounds,pages,");
		printf("buf_alloc_us,buf_reg_us,buf_dereg_us,buf_free_us,buf_cycle_us,");
		printf("plain_alloc_us,plain_reg_us,plain_dereg_us,plain_free_us,plain_cycle_us,");
		printf("ratio\n");
		return;
	}

	printf("%s: buffers, and plain memory of posix_memalign, memset and ibv_reg_mr; us\n"
	       "transparent huge pages: %s\n\n",
	       bench->name, thp_mode(mode));
	printf("%5s %-9s %6s %7s | %-51s | %-51s |\n", "", "", "", "", "buffer",
	       "plain");
	printf("%5s %-9s %6s %7s", "size", "backing", "rounds", "pages");
	printf(" | %9s %9s %9s %9s %11s | %9s %9s %9s %9s %11s | %5s\n",
	       "alloc", "reg", "dereg", "free", "cycle", "alloc", "reg", "dereg",
	       "free", "cycle", "ratio");
}

static void print_cycle(const struct bench *bench, int at, int rounds,
			const struct bench_cycle cycles[BENCH_SIDES], bool csv)
{
	const struct buf_probe *probe = &bench->probes[at];
	size_t size = bench->sizes[at];
	char text[BUF_SIZE_LEN], pages[24] = "";
	int side, i;

	if (probe->page_size)
		snprintf(pages, sizeof(pages), "%zu", count_pages(probe, size));

	if (csv)
		printf("%s,%s,%zu,%d,%s", bench->name,
		       buf_backing_word(probe->got), size, rounds, pages);
	else
		printf("%5s %-9s %6d %7s", buf_size_text(size, text),
		       buf_backing_word(probe->got), rounds,
		       *pages ? pages : "-");

	for (side = 0; side < BENCH_SIDES; side++) {
		if (!csv)
			printf(" |");
		for (i = 0; i < BUF_OPS; i++)
			printf(csv ? ",%.3f" : " %9.1f", cycles[side].usec[i]);
		printf(csv ? ",%.3f" : " %11.1f", cycles[side].cycle);
	}
	printf(csv ? ",%.3f\n" : " | %5.2f\n",
	       ratio_of(cycles[BENCH_BUF].cycle, cycles[BENCH_PLAIN].cycle));
	fflush(stdout);
}

static int measure_cycles(const struct bench *bench,
			  const struct options *options)
{
	struct bench_cycle cycles[BENCH_SIDES];
	char text[BUF_SIZE_LEN];
	struct bench_error error;
	int i, rounds;

	print_cycle_head(bench, options->csv);
	for (i = 0; i < bench->count; i++) {
		rounds = options->rounds ? options->rounds :
					   rounds_for(bench->sizes[i]);
		if (bench_cycles(bench->pd, bench->sizes[i], rounds, cycles,
				 &error)) {
			complain(buf_size_text(bench->sizes[i], text),
				 error.text, error.err);
			return -1;
		}
		print_cycle(bench, i, rounds, cycles, options->csv);
	}
	return 0;
}

/* Large pages and small ones */

static void print_pages(const struct bench *bench,
			const struct options *options,
			const struct bench_pages pages[BENCH_SIDES], int rounds)
{
	size_t count[BENCH_SIDES] = {
		count_pages(&bench->probes[0], options->size),
		options->size / sysconf(_SC_PAGESIZE),
	};
	const char *names[BENCH_SIDES] = {
		buf_backing_word(bench->probes[0].got), "small",
	};
	const struct bench_pages *small = &pages[BENCH_PLAIN];
	const struct bench_pages *p;
	char text[BUF_SIZE_LEN], mode[16], number[24];
	int side;

	if (options->csv) {
		printf("device,memory,size,rounds,pages,");
		printf("reg_fresh_us,reg_again_us,dereg_us,speedup_fresh,speedup_again\n");
	} else {
		printf("%s: registration of %s, %d rounds; us\n"
		       "transparent huge pages: %s\n\n"
		       "%-9s %7s | %11s %11s %11s | %s\n",
		       bench->name, buf_size_text(options->size, text), rounds,
		       thp_mode(mode), "memory", "pages", "reg fresh",
		       "reg again", "dereg", "speedup: fresh  again");
	}

	for (side = 0; side < BENCH_SIDES; side++) {
		p = &pages[side];
		snprintf(number, sizeof(number), "%zu", count[side]);
		if (!count[side])
			snprintf(number, sizeof(number), "%s",
				 options->csv ? "" : "-");
		if (options->csv)
			printf("%s,%s,%zu,%d,%s", bench->name, names[side],
			       options->size, rounds, number);
		else
			printf("%-9s %7s |", names[side], number);
		printf(options->csv ? ",%.3f,%.3f,%.3f,%.3f,%.3f\n" :
				      " %11.1f %11.1f %11.1f | %14.2f %6.2f\n",
		       p->fresh_usec, p->again_usec, p->dereg_usec,
		       ratio_of(small->fresh_usec, p->fresh_usec),
		       ratio_of(small->again_usec, p->again_usec));
	}
	fflush(stdout);
}

static int measure_pages(const struct bench *bench,
			 const struct options *options)
{
	int rounds = options->rounds ? options->rounds : 3;
	struct bench_pages pages[BENCH_SIDES];
	struct bench_error error;

	if (bench_pages(bench->pd, options->size, rounds, pages, &error)) {
		complain(bench->name, error.text, error.err);
		return -1;
	}
	print_pages(bench, options, pages, rounds);
	return 0;
}

/* Ranges of one buffer */

static const char *const range_verbs[] = {
	[BENCH_BUF] = "ibv_reg_buf_mr",
	[BENCH_PLAIN] = "ibv_reg_mr",
};

static void print_ranges(const struct bench *bench,
			 const struct options *options,
			 const struct bench_ranges ranges[BENCH_SIDES])
{
	const struct bench_ranges *r;
	char size[BUF_SIZE_LEN], length[BUF_SIZE_LEN];
	int side;

	printf("%s: %d ranges of %s in %s of %s; us\n\n", bench->name,
	       options->ranges, buf_size_text(BENCH_RANGE, length),
	       buf_size_text(options->size, size),
	       buf_backing_word(bench->probes[0].got));
	printf("%-14s  %10s %9s %9s  %15s %9s\n", "", "registered", "reg",
	       "dereg", "mappings before", "after");
	for (side = 0; side < BENCH_SIDES; side++) {
		r = &ranges[side];
		printf("%-14s  %10d ", range_verbs[side], r->registered);
		if (r->registered)
			printf("%9.1f %9.1f", r->reg_usec, r->dereg_usec);
		else
			printf("%9s %9s", "-", "-");
		printf("  %15d %9d\n", r->mappings_before, r->mappings_after);
	}

	if (ranges[BENCH_BUF].registered && ranges[BENCH_PLAIN].registered)
		printf("\nratio of reg: %.3g\n",
		       ratio_of(ranges[BENCH_BUF].reg_usec,
				ranges[BENCH_PLAIN].reg_usec));
}

static void print_ranges_csv(const struct bench *bench,
			     const struct options *options,
			     const struct bench_ranges ranges[BENCH_SIDES])
{
	const struct bench_ranges *r;
	int side;

	printf("device,backing,size,ranges,verb,registered,");
	printf("reg_us,dereg_us,mappings_before,mappings_after,ratio\n");
	for (side = 0; side < BENCH_SIDES; side++) {
		r = &ranges[side];
		printf("%s,%s,%zu,%d,%s,%d,", bench->name,
		       buf_backing_word(bench->probes[0].got), options->size,
		       options->ranges, range_verbs[side], r->registered);
		if (r->registered)
			printf("%.3f,%.3f", r->reg_usec, r->dereg_usec);
		else
			printf(",");
		printf(",%d,%d,", r->mappings_before, r->mappings_after);
		if (r->registered && ranges[BENCH_PLAIN].registered)
			printf("%.6f", ratio_of(r->reg_usec,
						ranges[BENCH_PLAIN].reg_usec));
		printf("\n");
	}
}

/* Fails where a range of the buffer was not registered. */
static int measure_ranges(const struct bench *bench,
			  const struct options *options)
{
	int rounds = options->rounds ? options->rounds : 3;
	struct bench_ranges ranges[BENCH_SIDES];
	struct bench_error error;
	char text[64];
	int side;

	if (bench_ranges(bench->pd, &bench->probes[0], options->size,
			 options->ranges, rounds, ranges, &error)) {
		complain(bench->name, error.text, error.err);
		return -1;
	}

	if (options->csv)
		print_ranges_csv(bench, options, ranges);
	else
		print_ranges(bench, options, ranges);
	fflush(stdout);

	for (side = 0; side < BENCH_SIDES; side++) {
		if (ranges[side].registered == options->ranges)
			continue;
		snprintf(text, sizeof(text), "%s: %d of %d registered",
			 range_verbs[side], ranges[side].registered,
			 options->ranges);
		complain(bench->name, text, ranges[side].err);
	}
	return ranges[BENCH_BUF].registered == options->ranges ? 0 : -1;
}

static int run(struct bench *bench, const struct options *options)
{
	struct ibv_context *context;
	int ret = -1;

	add_sizes(bench, options);
	if (!bench->count)
		return -1;

	context = ibv_open_device(bench->device);
	if (!context) {
		complain(bench->name, "cannot open the device", errno);
		return -1;
	}
	bench->pd = ibv_alloc_pd(context);
	if (!bench->pd) {
		complain(bench->name, "no protection domain", errno);
		goto out;
	}

	if (options->ranges)
		ret = measure_ranges(bench, options);
	else if (options->pages)
		ret = measure_pages(bench, options);
	else
		ret = measure_cycles(bench, options);
	ibv_dealloc_pd(bench->pd);
out:
	ibv_close_device(context);
	return ret;
}

/* The command line */

static int run_device(const struct options *options)
{
	struct ibv_device **list, **at;
	struct buf_cause cause;
	struct bench bench = {};
	int ret = -1;

	list = ibv_get_device_list(NULL);
	if (!list) {
		fprintf(stderr, "ibv_bufbench: cannot list RDMA devices: %s\n",
			strerror(errno));
		return -1;
	}

	for (at = list; *at && options->device; at++)
		if (!strcmp(ibv_get_device_name(*at), options->device))
			break;

	if (*at) {
		bench.device = *at;
		bench.name = ibv_get_device_name(*at);
		ret = run(&bench, options);
	} else {
		buf_explain_unlisted(options->device, &cause);
		fprintf(stderr, "ibv_bufbench: %s%s%s\n", cause.text,
			*cause.fix ? "; fix: " : "", cause.fix);
	}

	ibv_free_device_list(list);
	return ret;
}

/* A number from 1 to max; 0 if it is no such thing */
static int parse_count(const char *text, long max)
{
	char *end;
	long n;

	if (!isdigit((unsigned char)*text))
		return 0;
	n = strtol(text, &end, 10);
	return *end || n > max ? 0 : n;
}

static void usage(FILE *out)
{
	fprintf(out, "Usage: ibv_bufbench [OPTION]...\n"
		     "Time buffers of ibv_alloc_buf() against other memory.\n\n"
		     "  -d, --device=DEV  this device, else the first one\n"
		     "  -s, --size=MAX    sizes from 4K to this, with K, M or G; 64M if not\n"
		     "                    given, at most 1G\n"
		     "  -n, --rounds=N    rounds, else as many as suit the size\n"
		     "  -r, --ranges=N    instead, register N ranges of a buffer of size MAX\n"
		     "  -p, --pages       instead, register a buffer of size MAX and small pages\n"
		     "  -c, --csv         print CSV\n"
		     "  -h, --help        print this and exit\n");
}

static int refuse(const char *text, const char *what)
{
	fprintf(stderr, "ibv_bufbench: '%s' is no %s\n", text, what);
	return -1;
}

/* Returns 0, -1 on an error, or 1 when there is nothing left to do. */
static int parse_options(int argc, char *argv[], struct options *options)
{
	static const struct option long_options[] = {
		{ .name = "device", .has_arg = 1, .val = 'd' },
		{ .name = "size", .has_arg = 1, .val = 's' },
		{ .name = "rounds", .has_arg = 1, .val = 'n' },
		{ .name = "ranges", .has_arg = 1, .val = 'r' },
		{ .name = "pages", .has_arg = 0, .val = 'p' },
		{ .name = "csv", .has_arg = 0, .val = 'c' },
		{ .name = "help", .has_arg = 0, .val = 'h' },
		{}
	};
	char text[BUF_SIZE_LEN];
	size_t fit;
	int c;

	while ((c = getopt_long(argc, argv, "d:s:n:r:pch", long_options,
				NULL)) != -1) {
		switch (c) {
		case 'd':
			options->device = optarg;
			break;
		case 's':
			options->size = buf_parse_size(optarg);
			if (options->size < MIN_SIZE ||
			    options->size > MAX_SIZE)
				return refuse(optarg,
					      "size from 4K to 1G: give bytes, or a number with K, M or G");
			break;
		case 'n':
			options->rounds = parse_count(optarg, BENCH_MAX_ROUNDS);
			if (!options->rounds)
				return refuse(optarg,
					      "number of rounds: give 1 to 10000");
			break;
		case 'r':
			options->ranges = parse_count(
				optarg, MAX_SIZE / BENCH_RANGE_STRIDE);
			if (!options->ranges)
				return refuse(optarg,
					      "number of ranges: give 1 to 65536");
			break;
		case 'p':
			options->pages = true;
			break;
		case 'c':
			options->csv = true;
			break;
		case 'h':
			usage(stdout);
			return 1;
		default:
			usage(stderr);
			return -1;
		}
	}
	if (optind < argc || (options->pages && options->ranges)) {
		usage(stderr);
		return -1;
	}

	fit = options->size / BENCH_RANGE_STRIDE;
	if (options->ranges > 0 && (size_t)options->ranges > fit) {
		fprintf(stderr,
			"ibv_bufbench: %s has room for %zu ranges, not %d: raise --size\n",
			buf_size_text(options->size, text), fit,
			options->ranges);
		return -1;
	}
	return 0;
}

int main(int argc, char *argv[])
{
	struct options options = { .size = 64UL << 20 };
	int ret;

	ret = parse_options(argc, argv, &options);
	if (!ret)
		ret = run_device(&options);

	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "ibv_bufbench: cannot write: %s\n",
			strerror(errno));
		return 1;
	}
	return ret < 0;
}
