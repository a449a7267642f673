// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Soak: for as long as is wanted, threads allocate, register, export, check and
 * free buffers, make and destroy QPs, and, on a device that carries traffic,
 * send data from buffer to buffer all the while. Now and then they stop and
 * release what they have, and what the process then has of memory, descriptors,
 * mappings, and of objects in the kernel, must not have grown.
 *
 *   soak [--seconds N]
 *
 * The device is that of TEST_DEVICE. Prints what was done, and a line of
 * figures for some of the stops. Which calls fail, and how, is not for here.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../guest/mem.h"
#include "../guest/rdma.h"
#include "../guest/sim.h"
#include "resources.h"
#include "rng.h"

#define THREADS 4
#define HELD 6
#define LONGEST (256 * KIB)
/* Stops, from which on nothing may grow, and how many figures are printed */
#define STOPS 60
#define WARM 3
#define LINES 12
/* What the C library, and a sanitizer's, may keep more than at the stop WARM */
#define SPARE_MAPS (MEM_SANITIZED ? 400 : 8)
#define SPARE_HEAP (64 * KIB)
#define SPARE_RSS (MEM_SANITIZED ? 256 * MIB : 2 * MIB)

struct held {
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	char *mem;
	size_t size;
	uint32_t seed;
};

struct worker {
	pthread_t thread;
	struct rng rng;
	struct held held[HELD];
	struct pair pair;
	bool carries;
};

struct figures {
	size_t rss;
	size_t heap;
	size_t maps;
	size_t fds;
	struct resources resources;
	struct sim_heap pieces;
};

static struct rdma rdma;
static uint32_t device;
static pthread_barrier_t barrier;
static atomic_bool go_on, ending;
static atomic_ullong buffers, registrations, messages, bytes, qps;

__attribute__((format(printf, 1, 2), noreturn))
static void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	printf("# soak: ");
	vprintf(format, args);
	printf("\n");
	va_end(args);
	fflush(stdout);
	_exit(1);
}

static void drop(struct held *held)
{
	if (!held->mem)
		return;
	if (!mem_is_filled(held->mem, held->size, held->seed))
		die("a buffer of %zu bytes changed", held->size);
	if (held->mr && ibv_dereg_mr(held->mr))
		die("deregistration: %s", strerror(errno));
	ibv_free_buf(held->buf);
	memset(held, 0, sizeof(*held));
}

static void take(struct worker *w, struct held *held, size_t size)
{
	held->size = size;
	held->seed = rng_next(&w->rng);
	held->mem = ibv_alloc_buf(rdma.pd, size, &held->buf);
	if (!held->mem)
		die("allocation of %zu: %s", size, strerror(errno));
	if (!mem_is_zero(held->mem, mem_whole(size)))
		die("memory of %zu is not zero", size);
	mem_fill(held->mem, size, held->seed);
	held->mr = ibv_reg_buf_mr(rdma.pd, held->buf, held->mem, size,
				  IBV_ACCESS_LOCAL_WRITE |
				  IBV_ACCESS_REMOTE_WRITE |
				  IBV_ACCESS_REMOTE_READ);
	if (!held->mr)
		die("registration of %zu: %s", size, strerror(errno));
	atomic_fetch_add(&buffers, 1);
	atomic_fetch_add(&registrations, 1);
}

/* Parts of a buffer, a handle for it, and its DMA-buf, for a moment */
static void use(struct worker *w, struct held *held)
{
	size_t at = pick(&w->rng, held->size);
	struct ibv_buf *user;
	struct ibv_mr *mr;
	int fd;

	mr = ibv_reg_buf_mr(rdma.pd, held->buf, held->mem + at,
			    held->size - at, IBV_ACCESS_LOCAL_WRITE);
	if (!mr)
		die("registration of a part: %s", strerror(errno));
	fd = ibv_export_buf_dmabuf_fd(held->buf);
	if (fd < 0 && errno != ENODATA)
		die("export: %s", strerror(errno));
	user = ibv_alloc_user_buf(rdma.pd, held->mem, held->size,
				  rdma.imports ? fd : -1);
	if (!user)
		die("user buffer: %s", strerror(errno));
	if (fd >= 0)
		close(fd);
	if (ibv_dereg_mr(mr))
		die("deregistration: %s", strerror(errno));
	mr = ibv_reg_buf_mr(rdma.pd, user, held->mem, 1 + at,
			    IBV_ACCESS_LOCAL_WRITE);
	if (!mr)
		die("registration of a user buffer: %s", strerror(errno));
	if (ibv_dereg_mr(mr))
		die("deregistration: %s", strerror(errno));
	ibv_free_user_buf(user);
	atomic_fetch_add(&registrations, 2);
}

static void make_qps(void)
{
	struct ibv_cq_init_attr_ex cq_attr = {
		.cqe = 64,
		.wc_flags = IBV_WC_STANDARD_FLAGS,
		.comp_mask = rdma.bounces ? IBV_CQ_INIT_ATTR_MASK_PD : 0,
		.parent_domain = rdma.pd,
	};
	struct ibv_qp_init_attr attr = {
		.cap = {
			.max_send_wr = 32,
			.max_recv_wr = 32,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp;

	cq = ibv_create_cq_ex(rdma.context, &cq_attr);
	if (!cq)
		die("CQ: %s", strerror(errno));
	attr.send_cq = ibv_cq_ex_to_cq(cq);
	attr.recv_cq = attr.send_cq;
	qp = ibv_create_qp(rdma.pd, &attr);
	if (!qp)
		die("QP: %s", strerror(errno));
	if (ibv_destroy_qp(qp) || ibv_destroy_cq(attr.send_cq))
		die("a QP does not end: %s", strerror(errno));
	atomic_fetch_add(&qps, 1);
}

static void churn(struct worker *w)
{
	struct held *held = &w->held[pick(&w->rng, HELD)];
	size_t top = (size_t)1 << pick(&w->rng, once_in(&w->rng, 50) ? 22 : 16);

	drop(held);
	take(w, held, top + pick(&w->rng, top));
	use(w, held);
	if (!rdma.is_efa && once_in(&w->rng, 8))
		make_qps();
}

/* A message, a write or a read from one buffer to the other */
static void carry(struct worker *w)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
	};
	enum ibv_wr_opcode opcode = opcodes[pick(&w->rng, 3)];
	bool read = opcode == IBV_WR_RDMA_READ;
	struct held *from = &w->held[read], *to = &w->held[!read];
	size_t size = w->held[0].size;
	struct ibv_sge sge = {
		.addr = (uintptr_t)w->held[0].mem,
		.length = size,
		.lkey = w->held[0].mr->lkey,
	};
	struct ibv_sge received = {
		.addr = (uintptr_t)w->held[1].mem,
		.length = size,
		.lkey = w->held[1].mr->lkey,
	};
	struct ibv_wc wc;

	from->seed = rng_next(&w->rng);
	mem_fill(from->mem, size, from->seed);
	if ((opcode == IBV_WR_SEND &&
	     rdma_recv(w->pair.qp[1], &received, 1)) ||
	    rdma_send(w->pair.qp[0], opcode, &sge, 1, received.addr,
		      w->held[1].mr->rkey) ||
	    rdma_wait(w->pair.cq[0], &wc))
		die("no traffic");
	if (!wc.status && opcode == IBV_WR_SEND &&
	    rdma_wait(w->pair.cq[1], &wc))
		die("no message");
	if (wc.status)
		die("traffic: %s", ibv_wc_status_str(wc.status));
	to->seed = from->seed;
	if (!mem_is_filled(to->mem, size, to->seed))
		die("%zu bytes came out wrong", size);
	atomic_fetch_add(&messages, 1);
	atomic_fetch_add(&bytes, size);
}

static void carry_some(struct worker *w)
{
	size_t top = (size_t)1 << pick(&w->rng, 18), size;
	int i, n = 1 + pick(&w->rng, 8);

	size = top + pick(&w->rng, top);
	if (size > LONGEST)
		size = LONGEST;
	for (i = 0; i < 2; i++) {
		drop(&w->held[i]);
		take(w, &w->held[i], size);
	}
	while (n--)
		carry(w);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	int i;

	if (w->carries && pair_open(&w->pair, &rdma))
		die("no QPs");
	do {
		pthread_barrier_wait(&barrier);
		while (atomic_load(&go_on)) {
			if (w->carries)
				carry_some(w);
			else
				churn(w);
		}
		for (i = 0; i < HELD; i++)
			drop(&w->held[i]);
		pthread_barrier_wait(&barrier);
		/* The figures are taken here. */
		pthread_barrier_wait(&barrier);
	} while (!atomic_load(&ending));
	if (w->carries)
		pair_close(&w->pair);
	return NULL;
}

static size_t read_rss(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	size_t pages = 0;

	if (!file || fscanf(file, "%*u %zu", &pages) != 1)
		die("no /proc/self/statm");
	fclose(file);
	return pages * sysconf(_SC_PAGESIZE);
}

static void take_figures(struct figures *f)
{
	struct ibv_buf *buf;

	/* Freed buffers that the library keeps */
	if (ibv_alloc_buf(rdma.base, (size_t)1 << 60, &buf))
		die("a buffer that no machine has");
	malloc_trim(0);
	memset(f, 0, sizeof(*f));
	f->heap = mallinfo2().uordblks;
	f->maps = mem_maps();
	f->fds = mem_fds();
	if (!resources_read(device, &f->resources))
		die("no counts");
	if (sim_is_there())
		f->pieces = sim_heap();
	f->rss = read_rss();
}

static void print_figures(time_t at, const struct figures *f)
{
	printf("# soak: %5ld s: RSS %zu KiB, heap %zu bytes, %zu maps, %zu fds; kernel: %zu pd %zu mr %zu cq %zu qp, %llu pieces of the heap\n",
	       (long)at, f->rss / KIB, f->heap, f->maps, f->fds,
	       f->resources.pds, f->resources.mrs, f->resources.cqs,
	       f->resources.qps, (unsigned long long)f->pieces.pieces);
	fflush(stdout);
}

static void compare(const struct figures *first, const struct figures *now)
{
	if (now->fds != first->fds)
		die("descriptors: %zu, then %zu", first->fds, now->fds);
	if (memcmp(&now->resources, &first->resources,
		   sizeof(now->resources)) ||
	    now->pieces.pieces != first->pieces.pieces)
		die("objects are left in the kernel");
	if (now->maps > first->maps + SPARE_MAPS)
		die("mappings: %zu, then %zu", first->maps, now->maps);
	if (now->heap > first->heap + SPARE_HEAP)
		die("heap: %zu, then %zu", first->heap, now->heap);
	if (now->rss > first->rss + SPARE_RSS)
		die("RSS: %zu, then %zu", first->rss, now->rss);
}

static time_t seconds_since(const struct timespec *start)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec - start->tv_sec;
}

static void soak(time_t seconds)
{
	struct figures first = {}, now;
	struct timespec start;
	unsigned int stop = 0;
	time_t until;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		until = (stop + 1) * seconds / STOPS;
		atomic_store(&go_on, true);
		pthread_barrier_wait(&barrier);
		/* Each stretch does something, however late it is. */
		do
			usleep(200000);
		while (seconds_since(&start) < until);
		atomic_store(&go_on, false);
		pthread_barrier_wait(&barrier);
		take_figures(&now);
		stop++;
		if (stop == WARM)
			first = now;
		if (stop > WARM)
			compare(&first, &now);
		if (stop == WARM || stop % (STOPS / LINES) == 0)
			print_figures(seconds_since(&start), &now);
		atomic_store(&ending, stop >= STOPS);
		pthread_barrier_wait(&barrier);
	} while (stop < STOPS);
	printf("# soak: %ld s: %llu buffers, %llu registrations, %llu QPs, %llu messages of %llu KiB\n",
	       (long)seconds_since(&start), buffers, registrations, qps,
	       messages, bytes / KIB);
}

int main(int argc, char **argv)
{
	static struct worker workers[THREADS];
	const char *name = getenv("TEST_DEVICE") ?: "";
	struct figures before, after;
	long seconds = 20;
	int i;

	if (argc == 3 && !strcmp(argv[1], "--seconds"))
		seconds = strtol(argv[2], NULL, 10);
	else if (argc != 1)
		seconds = 0;
	if (seconds <= 0) {
		fprintf(stderr, "usage: soak [--seconds N]\n");
		return 2;
	}

	mallopt(M_ARENA_MAX, 1);
	if (!resources_find(name, &device) || rdma_open(&rdma))
		return 1;
	/* A parent domain keeps the first piece of memory for rings. */
	if (!rdma.is_efa)
		make_qps();
	take_figures(&before);
	pthread_barrier_init(&barrier, NULL, THREADS + 1);
	for (i = 0; i < THREADS; i++) {
		workers[i].rng.state = i;
		workers[i].carries = rdma.carries && i < THREADS / 2;
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			die("no thread");
	}
	soak(seconds);
	for (i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	take_figures(&after);
	print_figures(seconds, &after);
	if (memcmp(&before.resources, &after.resources,
		   sizeof(before.resources)) || before.fds != after.fds)
		die("something is left in the end");
	rdma_close(&rdma);
	return 0;
}
