// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Model-based test of the verbs for buffers. See model.h.
 *
 *   model [--native] [--seed N] [--calls N] [--threads N] [--processes N]
 *         [--only P.T.N,...] [--trace] [--break range|leak]
 *
 *   --native     no device: what libibverbs does by itself
 *   --seed       of the random numbers; the time if not given
 *   --calls      calls of a verb that are to be made
 *   --only       these calls, by process, thread and number
 *   --trace      print each call and what came of it
 *   --break      a fault of the tester's own, which it is to find
 *
 * The device is that of TEST_DEVICE. Prints how often each verb was called, or
 * the calls that it takes to make it fail. Exits with 1 if it fails, 2 if it
 * cannot be called so.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "model.h"

void print_failure(const struct failure *failure)
{
	printf("# failed: %s: %s (process %u, thread %u, number %u)\n",
	       failure->what, failure->detail, failure->process,
	       failure->thread, failure->number);
}

static void print_counts(const struct shared *shared)
{
	unsigned long long ok, failed, all = 0;
	int i;

	printf("# %-26s %9s %9s\n", "verb", "succeeds", "refused");
	for (i = 0; i < VERBS; i++) {
		ok = shared->ok[i];
		failed = shared->failed[i];
		all += ok + failed;
		if (ok + failed)
			printf("# %-26s %9llu %9llu\n", verb_names[i], ok,
			       failed);
	}
	printf("# %llu calls, %llu accesses by the device, %llu forks, %llu quiet points\n",
	       all, shared->accesses, shared->forks, shared->quiet);
}

static uint64_t number(const char *text, uint64_t least, uint64_t most)
{
	char *end;
	uint64_t n;

	errno = 0;
	n = strtoull(text, &end, 0);
	if (errno || *end || end == text || n < least || n > most) {
		fprintf(stderr, "model: no number in %" PRIu64 "..%" PRIu64
			": %s\n", least, most, text);
		exit(2);
	}
	return n;
}

/* Twice over the list: how far the numbers go, then which they are */
static void take_only(const struct config *config, const char *list,
		      struct plan *plan)
{
	uint8_t *made = NULL;
	unsigned int process, thread;
	const char *at;
	uint32_t n;
	int pass, used;

	for (pass = 0; pass < 2; pass++) {
		for (at = list; *at; at += used + (at[used] == ',')) {
			if (sscanf(at, "%u.%u.%" SCNu32 "%n", &process, &thread,
				   &n, &used) != 3 ||
			    process >= config->processes ||
			    thread >= config->threads || n >= MAX_NUMBERS) {
				fprintf(stderr, "model: --only: no such call: %s\n",
					at);
				exit(2);
			}
			if (!pass && n >= plan->numbers)
				plan->numbers = n + 1;
			if (pass)
				made[(process * config->threads + thread) *
				     (size_t)plan->numbers + n] = 1;
		}
		if (!pass)
			made = calloc((size_t)config->processes *
				      config->threads, plan->numbers + 1);
		if (!made)
			abort();
	}
	plan->made = made;
}

static enum fault take_fault(const char *word)
{
	if (!strcmp(word, "range"))
		return FAULT_RANGE;
	if (!strcmp(word, "leak"))
		return FAULT_LEAK;
	fprintf(stderr, "model: --break: no such fault: %s\n", word);
	exit(2);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "native", no_argument, NULL, 'n' },
		{ "seed", required_argument, NULL, 's' },
		{ "calls", required_argument, NULL, 'c' },
		{ "threads", required_argument, NULL, 't' },
		{ "processes", required_argument, NULL, 'p' },
		{ "only", required_argument, NULL, 'o' },
		{ "trace", no_argument, NULL, 'v' },
		{ "break", required_argument, NULL, 'b' },
		{}
	};
	struct config config = {
		.seed = time(NULL),
		.calls = 1000,
		.threads = 1,
		.processes = 1,
	};
	const char *only = NULL;
	struct plan plan = {};
	struct shared *shared;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'n':
			config.native = true;
			break;
		case 's':
			config.seed = number(optarg, 0, UINT64_MAX);
			break;
		case 'c':
			config.calls = number(optarg, 1, UINT64_MAX);
			break;
		case 't':
			config.threads = number(optarg, 1, MAX_THREADS);
			break;
		case 'p':
			config.processes = number(optarg, 1, MAX_PROCESSES);
			break;
		case 'o':
			only = optarg;
			break;
		case 'v':
			config.trace = true;
			break;
		case 'b':
			config.fault = take_fault(optarg);
			break;
		default:
			return 2;
		}
	}
	if (optind != argc) {
		fprintf(stderr, "model: what is %s?\n", argv[optind]);
		return 2;
	}
	if (config.native && config.processes > 1) {
		fprintf(stderr, "model: a native device is of one process\n");
		return 2;
	}
	if (only)
		take_only(&config, only, &plan);

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		abort();
	printf("# model: seed %" PRIu64 ", %u processes of %u threads\n",
	       config.seed, config.processes, config.threads);
	if (run(&config, &plan, shared)) {
		print_counts(shared);
		return 0;
	}
	print_failure(&shared->failure);
	if (!only)
		shrink(&config, shared);
	return 1;
}
