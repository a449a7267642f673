// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Delta debugging of a run that failed: ever smaller parts of its calls are run
 * again, in new processes, as long as they fail in the same way. What is left
 * in the end fails no more if any one call is left out, or the time is up.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "model.h"

/* What threads do at once may take more than one try. */
#define TRIES 4
/* What is left then is printed, if it is not too long to be read. */
#define MOST_SECONDS 150
#define MOST_CALLS 60

/* A part of the run: calls in the order of process, thread, number */
struct part {
	size_t *at;		/* places in the plan */
	size_t n;
};

struct shrinker {
	const struct config *config;
	struct shared *shared;
	uint8_t *made;
	struct plan plan;
	char what[sizeof(((struct failure *)0)->what)];
	unsigned int runs;
	time_t end;
};

static size_t plan_size(const struct shrinker *s)
{
	return (size_t)s->config->processes * s->config->threads *
	       s->plan.numbers;
}

static bool still_fails(struct shrinker *s, const size_t *at, size_t n)
{
	int tries = s->config->processes * s->config->threads > 1 ? TRIES : 1;
	size_t i;

	memset(s->made, 0, plan_size(s));
	for (i = 0; i < n; i++)
		s->made[at[i]] = 1;
	while (tries--) {
		s->runs++;
		if (!run(s->config, &s->plan, s->shared) &&
		    !strcmp(s->shared->failure.what, s->what))
			return true;
	}
	return false;
}

/* Leaves out one of n chunks after the other. */
static bool leave_out(struct shrinker *s, struct part *part, size_t chunks)
{
	size_t *rest = malloc(part->n * sizeof(*rest));
	size_t i, from, to, n;
	bool any = false;

	if (!rest)
		abort();
	for (i = chunks; i-- > 0 && time(NULL) < s->end;) {
		from = part->n * i / chunks;
		to = part->n * (i + 1) / chunks;
		if (from == to)
			continue;
		n = part->n - (to - from);
		memcpy(rest, part->at, from * sizeof(*rest));
		memcpy(rest + from, part->at + to,
		       (part->n - to) * sizeof(*rest));
		if (!still_fails(s, rest, n))
			continue;
		memcpy(part->at, rest, n * sizeof(*rest));
		part->n = n;
		any = true;
		/* The chunks are others now. */
		if (chunks > part->n)
			break;
	}
	free(rest);
	return any;
}

static void reduce(struct shrinker *s, struct part *part)
{
	size_t chunks = 2;

	while (part->n && time(NULL) < s->end) {
		if (chunks > part->n)
			chunks = part->n;
		if (leave_out(s, part, chunks)) {
			chunks = chunks > 4 ? chunks / 2 : 2;
			continue;
		}
		if (chunks == part->n)
			return;
		chunks *= 2;
	}
}

/* All that was made from a number on */
static void take_part(const struct shrinker *s, const struct shared *shared,
		      uint32_t from, struct part *part)
{
	const struct config *config = s->config;
	unsigned int i, j;
	uint32_t k;

	part->n = 0;
	for (i = 0; i < config->processes; i++)
		for (j = 0; j < config->threads; j++)
			for (k = from; k < shared->number[i][j]; k++)
				part->at[part->n++] =
					(size_t)(i * config->threads + j) *
					s->plan.numbers + k;
}

static uint32_t last_number(const struct config *config,
			    const struct shared *shared)
{
	unsigned int i, j;
	uint32_t last = 0;

	for (i = 0; i < config->processes; i++)
		for (j = 0; j < config->threads; j++)
			if (shared->number[i][j] > last)
				last = shared->number[i][j];
	return last;
}

static void print_part(const struct shrinker *s, const struct part *part)
{
	const struct config *config = s->config;
	size_t i, sequence;

	printf("# again: model --seed %" PRIu64 " --processes %u --threads %u --only ",
	       config->seed, config->processes, config->threads);
	for (i = 0; i < part->n; i++) {
		sequence = part->at[i] / s->plan.numbers;
		printf("%s%zu.%zu.%zu", i ? "," : "",
		       sequence / config->threads, sequence % config->threads,
		       part->at[i] % s->plan.numbers);
	}
	printf("\n");
}

void shrink(const struct config *config, struct shared *shared)
{
	struct config traced = *config;
	struct shrinker s = {
		.config = config,
		.shared = shared,
		.end = time(NULL) + MOST_SECONDS,
	};
	struct shared *first = malloc(sizeof(*first));
	struct part part;

	if (!first)
		abort();
	memcpy(first, shared, sizeof(*first));
	memcpy(s.what, shared->failure.what, sizeof(s.what));
	s.plan.numbers = last_number(config, shared);
	s.made = calloc(1, plan_size(&s) + 1);
	part.at = malloc(plan_size(&s) * sizeof(*part.at) + 1);
	if (!s.made || !part.at)
		abort();
	s.plan.made = s.made;

	/* What was released at the end of an epoch hardly matters. */
	take_part(&s, first, s.plan.numbers ?
		  (s.plan.numbers - 1) / EPOCH * EPOCH : 0, &part);
	if (!still_fails(&s, part.at, part.n))
		take_part(&s, first, 0, &part);
	if (!still_fails(&s, part.at, part.n)) {
		printf("# shrink: it does not fail again\n");
		goto out;
	}
	printf("# shrink: from %zu numbers\n", part.n);
	fflush(stdout);
	reduce(&s, &part);
	printf("# shrink: to %zu, in %u runs%s\n", part.n, s.runs,
	       time(NULL) < s.end ? "" : ", and would go on");

	traced.trace = part.n <= MOST_CALLS;
	s.config = &traced;
	if (still_fails(&s, part.at, part.n))
		print_failure(&shared->failure);
	print_part(&s, &part);
out:
	free(part.at);
	free(s.made);
	free(first);
}
