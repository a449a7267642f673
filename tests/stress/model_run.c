// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * One run: the processes and their threads, the quiet points at which all of
 * them stand still and the counts are compared, and what failed. See model.h.
 */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "model.h"

/* Emulation beside another guest is slow: this only ends what hangs. */
#define HANG_SECONDS 180
/* Mappings and bytes of the heap that a process may gain from epoch to epoch:
 * what the C library and sanitizers keep. A leak gains more in thousands of
 * calls. */
#define SPARE_MAPS (MEM_SANITIZED ? 400 : 12)
#define SPARE_HEAP ((size_t)32 * KIB)
#define STACK ((size_t)512 * KIB)

const char *const verb_names[VERBS] = {
	[V_ALLOC_PD] = "ibv_alloc_pd",
	[V_ALLOC_PARENT_DOMAIN] = "ibv_alloc_parent_domain",
	[V_DEALLOC_PD] = "ibv_dealloc_pd",
	[V_ALLOC_BUF] = "ibv_alloc_buf",
	[V_FREE_BUF] = "ibv_free_buf",
	[V_EXPORT] = "ibv_export_buf_dmabuf_fd",
	[V_ALLOC_USER_BUF] = "ibv_alloc_user_buf",
	[V_FREE_USER_BUF] = "ibv_free_user_buf",
	[V_REG_BUF_MR] = "ibv_reg_buf_mr",
	[V_REG_MR_EX] = "ibv_reg_mr_ex",
	[V_DEREG_MR] = "ibv_dereg_mr",
	[V_REREG_MR] = "ibv_rereg_mr",
	[V_UMEM_REG] = "mlx5dv_devx_umem_reg_ex",
	[V_UMEM_DEREG] = "mlx5dv_devx_umem_dereg",
};

static const struct {
	void (*make)(struct thread *thread);
	unsigned int weight;
} calls[] = {
	{ call_alloc_pd, 4 },
	{ call_alloc_parent_domain, 8 },
	{ call_dealloc_pd, 8 },
	{ call_alloc_buf, 32 },
	{ call_free_buf, 40 },
	{ call_export, 16 },
	{ call_close_export, 12 },
	{ call_alloc_user_buf, 20 },
	{ call_free_user_buf, 20 },
	{ call_reg_buf_mr, 40 },
	{ call_reg_mr_ex, 56 },
	{ call_dereg_mr, 72 },
	{ call_rereg_mr, 24 },
	{ call_umem_reg, 16 },
	{ call_umem_dereg, 16 },
	{ call_touch, 16 },
	{ call_access, 20 },
	{ call_fork, 1 },
	{ call_park, 12 },
};

void halt(const struct thread *thread, const char *what, const char *format,
	  ...)
{
	struct failure *failure = &thread->world->shared->failure;
	va_list args;

	/* The first tells. */
	if (!atomic_exchange(&failure->set, true)) {
		failure->process = thread->world->process;
		failure->thread = thread->number;
		failure->number = thread->at;
		snprintf(failure->what, sizeof(failure->what), "%s", what);
		va_start(args, format);
		vsnprintf(failure->detail, sizeof(failure->detail), format,
			  args);
		va_end(args);
		if (thread->world->config->trace)
			printf("# %u.%u.%u %s\n#   FAILS: %s: %s\n",
			       failure->process, failure->thread,
			       failure->number, thread->text, failure->what,
			       failure->detail);
		fflush(stdout);
	}
	_exit(1);
}

void call(struct thread *thread, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(thread->text, sizeof(thread->text), format, args);
	va_end(args);
}

void outcome(struct thread *thread, enum verb verb,
	     const struct expect *expect, int result)
{
	struct shared *shared = thread->world->shared;
	char wanted[128] = "";
	unsigned int i;
	size_t n = 0;

	if (!is_expected(expect, result)) {
		for (i = 0; i < expect->n; i++)
			n += snprintf(wanted + n, sizeof(wanted) - n, "%s%s",
				      i ? " or " : "", expect->result[i] ?
				      strerrorname_np(expect->result[i]) :
				      "success");
		halt(thread, verb_names[verb], "%s: %s, not %s", thread->text,
		     result ? strerrorname_np(result) ?: "an unknown error" :
			      "success", wanted);
	}
	atomic_fetch_add(result ? &shared->failed[verb] : &shared->ok[verb], 1);
	if (thread->world->config->trace)
		printf("# %u.%u.%u %s: %s\n", thread->world->process,
		       thread->number, thread->at, thread->text,
		       result ? strerrorname_np(result) : "ok");
}

bool is_made(const struct config *config, const struct plan *plan,
	     unsigned int process, unsigned int thread, uint32_t number)
{
	size_t sequence = process * config->threads + thread;

	if (!plan->made)
		return true;
	return number < plan->numbers &&
	       plan->made[sequence * plan->numbers + number];
}

static void make_call(struct thread *thread, uint32_t number)
{
	const struct world *world = thread->world;
	struct rng rng = {
		world->config->seed ^ (uint64_t)number << 20 ^
		(uint64_t)world->process << 56 ^
		(uint64_t)thread->number << 48,
	};
	unsigned int i, sum = 0, at;

	/* Seeds that are near each other give the same at first. */
	rng.state = rng_next(&rng) ^ world->config->seed;
	for (i = 0; i < ARRAY_SIZE(calls); i++)
		sum += calls[i].weight;
	at = pick(&rng, sum);
	for (i = 0; at >= calls[i].weight; i++)
		at -= calls[i].weight;

	thread->rng = rng;
	thread->at = number;
	thread->text[0] = '\0';
	calls[i].make(thread);
	if (world->config->trace && thread->text[0])
		fflush(stdout);
}

static void compare(const struct thread *thread, const char *what, size_t is,
		    size_t wanted)
{
	if (is != wanted)
		halt(thread, what, "%zu, not %zu", is, wanted);
}

/* All threads of all processes stand still, and this is the first of all. */
static void compare_kernel(const struct thread *thread)
{
	const struct world *world = thread->world;
	const struct counts *start = &world->shared->start;
	struct counts now = world_kernel(world), sum = {};
	unsigned int i;

	for (i = 0; i < world->config->processes; i++) {
		const struct counts *counts = &world->shared->counts[i];

		sum.contexts += counts->contexts;
		sum.pds += counts->pds;
		sum.mrs += counts->mrs;
		sum.umems += counts->umems;
		sum.heap_pieces += counts->heap_pieces;
		sum.refused += counts->refused;
	}
	compare(thread, "contexts in the kernel", now.contexts,
		start->contexts + sum.contexts);
	compare(thread, "pds in the kernel", now.pds, start->pds + sum.pds);
	compare(thread, "MRs in the kernel", now.mrs, start->mrs + sum.mrs);
	compare(thread, "umems in the kernel", now.umems,
		start->umems + sum.umems);
	compare(thread, "pieces of the shared heap", now.heap_pieces,
		start->heap_pieces + sum.heap_pieces);
	compare(thread, "memory that the device refused", now.refused,
		start->refused + sum.refused);
	atomic_fetch_add(&world->shared->quiet, 1);
}

/* The first thread of each process meets those of the others here. */
static void quiet_point(struct thread *thread)
{
	struct world *world = thread->world;

	snprintf(thread->text, sizeof(thread->text), "a quiet point");
	compare(thread, "file descriptors", mem_fds(), world_fds(world));
	world->shared->counts[world->process] = world_counts(world);
	pthread_barrier_wait(&world->shared->barrier);
	if (!world->process)
		compare_kernel(thread);
	pthread_barrier_wait(&world->shared->barrier);
}

static bool is_round_made(const struct world *world, uint32_t first)
{
	unsigned int process, thread;
	uint32_t i;

	if (!world->plan->made)
		return true;
	for (process = 0; process < world->config->processes; process++)
		for (thread = 0; thread < world->config->threads; thread++)
			for (i = 0; i < ROUND; i++)
				if (is_made(world->config, world->plan,
					    process, thread, first + i))
					return true;
	return false;
}

static void make_round(struct thread *thread, uint32_t first)
{
	struct world *world = thread->world;
	uint32_t i;

	for (i = first; i < first + ROUND; i++) {
		if (!is_made(world->config, world->plan, world->process,
			     thread->number, i))
			continue;
		atomic_store(&world->shared->number[world->process]
						   [thread->number], i + 1);
		make_call(thread, i);
	}
	pthread_barrier_wait(&world->barrier);
	if (!thread->number)
		quiet_point(thread);
	pthread_barrier_wait(&world->barrier);
}

static void *make_epoch(void *arg)
{
	struct thread *thread = arg;
	uint32_t first = thread->at;
	int i;

	thread_open(thread);
	pthread_barrier_wait(&thread->world->barrier);
	for (i = 0; i < ROUNDS; i++, first += ROUND)
		if (is_round_made(thread->world, first))
			make_round(thread, first);
	snprintf(thread->text, sizeof(thread->text), "the end of an epoch");
	thread_close(thread);
	return NULL;
}

struct sample {
	size_t maps;
	size_t heap;
};

static struct sample take_sample(const struct world *world)
{
	struct sample sample;

	world_empty_store(world);
	malloc_trim(0);
	sample.maps = mem_maps();
	sample.heap = mallinfo2().uordblks;
	return sample;
}

static void release_parked(struct world *world)
{
	struct region *parked = &world->parked;

	if (!parked->addr)
		return;
	if (memcmp(parked->addr, parked->want, parked->size))
		halt(&world->thread[0], "memory changed", "while parked");
	ibv_free_buf(parked->buf);
	free(parked->want);
	memset(parked, 0, sizeof(*parked));
}

static void run_epoch(struct world *world, uint32_t first)
{
	unsigned int i, threads = world->config->threads;
	pthread_t started[MAX_THREADS];
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	for (i = 0; i < threads; i++) {
		world->thread[i].at = first;
		if (pthread_create(&started[i], &attr, make_epoch,
				   &world->thread[i]))
			abort();
	}
	for (i = 0; i < threads; i++)
		pthread_join(started[i], NULL);
	pthread_attr_destroy(&attr);
	release_parked(world);
}

static uint64_t count_calls(const struct shared *shared)
{
	uint64_t sum = 0;
	int i;

	for (i = 0; i < VERBS; i++)
		sum += shared->ok[i] + shared->failed[i];
	return sum;
}

/* The first process says for all whether there is another epoch. */
static bool is_more(struct world *world, uint32_t next)
{
	bool more = next + EPOCH <= MAX_NUMBERS &&
		    (world->plan->made ?
			     next < world->plan->numbers :
			     count_calls(world->shared) < world->config->calls);

	if (!world->process)
		atomic_store(&world->shared->more, more);
	pthread_barrier_wait(&world->shared->barrier);
	more = atomic_load(&world->shared->more);
	pthread_barrier_wait(&world->shared->barrier);
	return more;
}

static bool is_epoch_made(const struct world *world, uint32_t first)
{
	int i;

	for (i = 0; i < ROUNDS; i++)
		if (is_round_made(world, first + i * ROUND))
			return true;
	return false;
}

static void run_process(struct world *world)
{
	struct thread *first = &world->thread[0];
	struct sample before = {}, after;
	bool has_before = false;
	uint32_t next = 0;
	unsigned int i;

	/* One heap, so that no thread's own heap comes and goes */
	mallopt(M_ARENA_MAX, 1);
	for (i = 0; i < MAX_THREADS; i++) {
		world->thread[i].world = world;
		world->thread[i].number = i;
	}
	world_find(world);
	if (!world->process)
		world->shared->start = world_kernel(world);
	pthread_barrier_wait(&world->shared->barrier);
	world_open(world);
	pthread_barrier_wait(&world->shared->barrier);
	do {
		if (is_epoch_made(world, next))
			run_epoch(world, next);
		quiet_point(first);
		after = take_sample(world);
		/* Caches are filled in the first. */
		if (has_before && after.maps > before.maps + SPARE_MAPS)
			halt(first, "mappings", "%zu, %zu after an epoch",
			     before.maps, after.maps);
		if (has_before && after.heap > before.heap + SPARE_HEAP)
			halt(first, "bytes of the heap",
			     "%zu, %zu after an epoch", before.heap,
			     after.heap);
		if (!has_before)
			before = after;
		has_before = true;
		next += EPOCH;
	} while (is_more(world, next));
	world_close(world);
}

static uint64_t progress(const struct config *config,
			 const struct shared *shared)
{
	uint64_t sum = shared->quiet;
	unsigned int i, j;

	for (i = 0; i < config->processes; i++)
		for (j = 0; j < config->threads; j++)
			sum += shared->number[i][j];
	return sum;
}

/* A process that did not say what it died of */
static void note_end(const struct config *config, struct shared *shared,
		     unsigned int process, const char *what, int value)
{
	struct failure *failure = &shared->failure;
	unsigned int i;
	size_t n = 0;

	if (atomic_exchange(&failure->set, true))
		return;
	failure->process = process;
	snprintf(failure->what, sizeof(failure->what), "%s", what);
	n += snprintf(failure->detail, sizeof(failure->detail),
		      "%d; its threads were at", value);
	for (i = 0; i < config->threads; i++)
		n += snprintf(failure->detail + n, sizeof(failure->detail) - n,
			      " %u", shared->number[process][i] - 1);
}

static bool wait_for_all(const struct config *config, struct shared *shared,
			 pid_t *pids)
{
	unsigned int left = config->processes, i;
	uint64_t last = 0, now;
	time_t since = time(NULL);
	int status;
	pid_t pid;

	while (left) {
		pid = waitpid(-1, &status, WNOHANG);
		for (i = 0; pid > 0 && i < config->processes; i++) {
			if (pids[i] != pid)
				continue;
			pids[i] = 0;
			left--;
			if (WIFSIGNALED(status))
				note_end(config, shared, i, "killed by signal",
					 WTERMSIG(status));
			else if (WEXITSTATUS(status))
				note_end(config, shared, i, "exit status",
					 WEXITSTATUS(status));
		}
		if (shared->failure.set)
			return false;
		if (pid > 0)
			continue;
		usleep(5000);
		now = progress(config, shared);
		if (now != last)
			since = time(NULL);
		last = now;
		if (time(NULL) - since > HANG_SECONDS) {
			note_end(config, shared, 0, "hangs, seconds",
				 HANG_SECONDS);
			return false;
		}
	}
	return true;
}

static void start_process(const struct config *config, const struct plan *plan,
			  struct shared *shared, unsigned int process)
{
	struct world *world = calloc(1, sizeof(*world));

	if (!world)
		abort();
	world->config = config;
	world->plan = plan;
	world->shared = shared;
	world->process = process;
	run_process(world);
	free(world);
	exit(0);
}

bool run(const struct config *config, const struct plan *plan,
	 struct shared *shared)
{
	pid_t pids[MAX_PROCESSES] = {};
	pthread_barrierattr_t attr;
	unsigned int i;
	bool ok;

	memset(shared, 0, sizeof(*shared));
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&shared->barrier, &attr, config->processes);
	fflush(stdout);
	for (i = 0; i < config->processes; i++) {
		pids[i] = fork();
		if (!pids[i])
			start_process(config, plan, shared, i);
		if (pids[i] < 0)
			abort();
	}
	ok = wait_for_all(config, shared, pids);
	for (i = 0; i < config->processes; i++)
		if (pids[i]) {
			kill(pids[i], SIGKILL);
			waitpid(pids[i], NULL, 0);
		}
	return ok;
}
