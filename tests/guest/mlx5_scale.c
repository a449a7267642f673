// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What it costs to have ten thousand CQs and as many QPs of mlx5 in shared
 * memory, on the test device: descriptors, mappings and memory of the heap, and
 * time next to that of private memory. Prints one table; each row that has a
 * limit is a test. Times have none: they are what the machine makes of them.
 *
 *   mlx5_scale [OBJECTS]
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/driver.h>

#include "mem.h"
#include "sim_parts.h"

#define SHARED IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC
#define ROUNDS 5
#define RECORD 64
#define BATCH 50
#define MAX_BATCHES 1000

/*
 * Time of each batch of objects, in seconds: the least of all rounds, since
 * the machine may be busy with something else at any time. What belongs to a
 * batch, such as a new chunk, does so in every round.
 */
struct times {
	double batch[MAX_BATCHES];
};

static int objects = 10000;
static struct ibv_cq_ex **cqs;
static struct ibv_qp **qps;
static int tests, failures;

/* What a set of objects has taken */
struct cost {
	struct times create_cq, create_qp, destroy;
	size_t fds, maps;
	double heap;				/* bytes by bytes needed */
};

static void die(const char *what)
{
	fprintf(stderr, "# mlx5_scale: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static double sum(const struct times *times)
{
	double total = 0;
	int i;

	for (i = 0; i < MAX_BATCHES; i++)
		total += times->batch[i];
	return total;
}

/* Creation of the last tenth of the objects, by that of the first */
static double growth(const struct cost *cost)
{
	int batches = objects / BATCH, n = batches / 10 ?: 1, i;
	double first = 0, last = 0;

	for (i = 0; i < n; i++) {
		first += cost->create_cq.batch[i] + cost->create_qp.batch[i];
		last += cost->create_cq.batch[batches - 1 - i] +
			cost->create_qp.batch[batches - 1 - i];
	}
	return last / first;
}

/* Time since *start, which begins anew, for the batch that object ends */
static void take_time(struct times *times, int object, double *start)
{
	double *least = &times->batch[object / BATCH];
	double end;

	if ((object + 1) % BATCH)
		return;
	end = now();
	if (!*least || end - *start < *least)
		*least = end - *start;
	*start = now();
}

static void create_all(struct ibv_context *context, struct ibv_pd *parent,
		       struct cost *cost)
{
	struct ibv_cq_init_attr_ex cq_attr = {
		.cqe = 31,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
		.parent_domain = parent,
	};
	struct ibv_qp_init_attr qp_attr = {
		.cap = {
			.max_send_wr = 4,
			.max_recv_wr = 4,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.qp_type = IBV_QPT_RC,
	};
	double start = now();
	int i;

	for (i = 0; i < objects; i++) {
		cqs[i] = ibv_create_cq_ex(context, &cq_attr);
		if (!cqs[i])
			die("create CQ");
		take_time(&cost->create_cq, i, &start);
	}

	start = now();
	for (i = 0; i < objects; i++) {
		qp_attr.send_cq = qp_attr.recv_cq = ibv_cq_ex_to_cq(cqs[i]);
		qps[i] = ibv_create_qp(parent, &qp_attr);
		if (!qps[i])
			die("create QP");
		take_time(&cost->create_qp, i, &start);
	}
}

static void destroy_all(struct cost *cost)
{
	double start = now();
	int i;

	for (i = 0; i < objects; i++) {
		if (ibv_destroy_qp(qps[i]) ||
		    ibv_destroy_cq(ibv_cq_ex_to_cq(cqs[i])))
			die("destroy");
		take_time(&cost->destroy, i, &start);
	}
}

static void measure(struct cost *cost, bool shared)
{
	struct ibv_parent_domain_init_attr attr = { .comp_mask = SHARED };
	struct ibv_context *context;
	struct ibv_pd *parent;
	size_t fds, maps;

	sim_set("bounce", shared);
	sim_unbind();
	sim_bind();
	context = sim_open();
	if (!context)
		die("open device");
	attr.pd = ibv_alloc_pd(context);
	if (!attr.pd)
		die("allocate PD");
	parent = ibv_alloc_parent_domain(context, &attr);
	if (!parent)
		die("allocate parent domain");

	fds = mem_fds();
	maps = mem_maps();
	create_all(context, parent, cost);
	cost->fds = mem_fds() - fds;
	cost->maps = mem_maps() - maps;
	cost->heap = (double)sim_heap().bytes / sim_memory_needed(RECORD);
	destroy_all(cost);

	if (ibv_dealloc_pd(parent) || ibv_dealloc_pd(attr.pd) ||
	    ibv_close_device(context))
		die("clean up");
}

/* Each round begins with an empty heap of malloc(), as a program does. */
static void measure_in_child(struct cost *cost, bool shared)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		measure(cost, shared);
		exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		die("child");
}

static void row(const char *what, double private, double shared, double value,
		double limit)
{
	printf("# %-26s %10.3f %10.3f %10.3f", what, private, shared, value);
	if (limit)
		printf(" %10.3f\n%sok %d - %s\n", limit,
		       value <= limit ? "" : "not ", ++tests, what);
	else
		printf("\n");
	failures += limit && value > limit;
}

int main(int argc, char **argv)
{
	struct rlimit files = { 1024, 1024 };
	struct cost *private, *shared;
	double p[4], s[4];
	bool left;
	int i;

	if (argc > 1)
		objects = atoi(argv[1]);
	if (objects < BATCH || objects > BATCH * MAX_BATCHES) {
		errno = EINVAL;
		die("number of objects");
	}
	cqs = calloc(objects, sizeof(*cqs));
	qps = calloc(objects, sizeof(*qps));
	if (!cqs || !qps || setrlimit(RLIMIT_NOFILE, &files))
		die("set up");

	private = mmap(NULL, 2 * sizeof(*private), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (private == MAP_FAILED)
		die("set up");
	shared = private + 1;

	/* In turn, so that what else the machine does hits both. */
	for (i = 0; i < ROUNDS; i++) {
		measure_in_child(private, false);
		measure_in_child(shared, true);
	}

	p[0] = sum(&private->create_cq) / objects * 1e6;
	p[1] = sum(&private->create_qp) / objects * 1e6;
	p[2] = sum(&private->destroy) / objects * 1e6;
	s[0] = sum(&shared->create_cq) / objects * 1e6;
	s[1] = sum(&shared->create_qp) / objects * 1e6;
	s[2] = sum(&shared->destroy) / objects * 1e6;
	p[3] = growth(private);
	s[3] = growth(shared);

	printf("# %5d CQs and QPs             private     shared      value      limit\n",
	       objects);
	row("file descriptors", private->fds, shared->fds, shared->fds, 64);
	row("mappings", private->maps, shared->maps, shared->maps, 200);
	row("heap bytes / bytes needed", 0, shared->heap, shared->heap, 1.15);
	row("create a CQ, us, ratio", p[0], s[0], s[0] / p[0], 0);
	row("create a QP, us, ratio", p[1], s[1], s[1] / p[1], 0);
	row("create both (wanted: 1.2)", p[0] + p[1],
	    s[0] + s[1], (s[0] + s[1]) / (p[0] + p[1]), 0);
	row("create last / first tenth", p[3], s[3], s[3] / p[3], 0);
	row("destroy both, us, ratio", p[2], s[2], s[2] / p[2], 0);
	left = sim_live_objects() || sim_heap().pieces;
	printf("%sok %d - nothing is left on the device or of the heap\n",
	       left ? "not " : "", ++tests);
	failures += left;
	printf("1..%d\n", tests);
	return !!failures;
}
