/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The parts of the model-based tester. Threads of several processes make random
 * calls of the verbs for buffers, and compare what comes of each with a model
 * of the contract:
 *
 *   model.c           the command line
 *   model_run.c       processes, threads, quiet points, and what failed
 *   model_shrink.c    fewer and fewer calls that still fail
 *   model_world.c     what a process and a thread have, and its counts
 *   model_contract.c  what the documentation promises of a call
 *   model_domain.c, model_buf.c, model_reg.c, model_data.c
 *                     the calls: of protection domains, of buffers, of
 *                     registrations, and access to their memory
 *   model_native.c    a device in the process, for a machine that has none
 *
 * A call is known by its process, its thread and its number. These and the seed
 * make the random numbers that it is made of, and those alone: what is left out
 * before it does not change it, so any part of a run can be run again.
 */
#ifndef TESTS_STRESS_MODEL_H
#define TESTS_STRESS_MODEL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "../guest/mem.h"
#include "../guest/rdma.h"
#include "rng.h"

#define PAGE 4096

/* The run as the command line has it */
enum fault {		/* of the tester, to test the tester itself */
	FAULT_NONE,
	FAULT_RANGE,	/* takes a range to be valid that ends a byte late */
	FAULT_LEAK,	/* leaks when a buffer ends that had two MRs */
};

struct config {
	uint64_t seed;
	uint64_t calls;
	unsigned int threads;
	unsigned int processes;
	bool native;
	bool trace;		/* print each call and what came of it */
	enum fault fault;
};

#define MAX_THREADS 8
#define MAX_PROCESSES 8
/* Numbers in a round, which a quiet point ends, and rounds in an epoch, at the
 * end of which everything is released */
#define ROUND 256
#define ROUNDS 4
#define EPOCH (ROUND * ROUNDS)
#define MAX_NUMBERS (1 << 20)

/* Which calls are made: a byte each; NULL: all */
struct plan {
	const uint8_t *made;
	uint32_t numbers;	/* of a thread */
};

enum verb {
	V_ALLOC_PD, V_ALLOC_PARENT_DOMAIN, V_DEALLOC_PD,
	V_ALLOC_BUF, V_FREE_BUF, V_EXPORT,
	V_ALLOC_USER_BUF, V_FREE_USER_BUF,
	V_REG_BUF_MR, V_REG_MR_EX, V_DEREG_MR, V_REREG_MR,
	V_UMEM_REG, V_UMEM_DEREG,
	VERBS,
};

extern const char *const verb_names[VERBS];

/* What a process has of the device, to compare with the kernel's counts */
struct counts {
	size_t contexts;
	size_t pds;
	size_t mrs;
	size_t umems;
	size_t heap_pieces;	/* of the shared heap */
	size_t refused;		/* memory that a bounce device has not taken */
};

struct failure {
	atomic_bool set;
	unsigned int process, thread;
	uint32_t number;
	char what[128];		/* the same for the same kind of failure */
	char detail[512];
};

/* What all processes of a run share */
struct shared {
	pthread_barrier_t barrier;	/* of the processes */
	struct failure failure;
	atomic_bool more;		/* another epoch */
	atomic_uint number[MAX_PROCESSES][MAX_THREADS];	/* now made */
	struct counts counts[MAX_PROCESSES];
	struct counts start;		/* of the kernel */
	atomic_ullong ok[VERBS], failed[VERBS];
	atomic_ullong accesses, forks, quiet;
};

/*
 * Runs it; true if all is well, else failure says what is not. Shared memory is
 * that of the last run.
 */
bool run(const struct config *config, const struct plan *plan,
	 struct shared *shared);
bool is_made(const struct config *config, const struct plan *plan,
	     unsigned int process, unsigned int thread, uint32_t number);
/* Shrinks the run that failed so, prints what is left, and how to repeat it. */
void shrink(const struct config *config, struct shared *shared);
void print_failure(const struct failure *failure);

/* Memory as registration sees it */
enum memory {
	MEM_PRIVATE,		/* or a memfd: the kernel pins it by address */
	MEM_HEAP,		/* of a heap: by DMA-buf alone */
	MEM_SHARED,		/* of the shared heap */
};

/* What a device is like, as far as the contract depends on it */
struct caps {
	bool bounces;
	bool imports;
	bool reregisters;
	bool on_demand;
	bool is_rxe;
	bool is_mlx5;
	bool umems;
	const char *word;	/* IBV_BUF_BACKING, "" if there is none */
	bool has_heap;		/* the shared heap */
};

/* A set of results: errno values, 0 for success */
struct expect {
	int result[6];
	unsigned int n;
};

void may(struct expect *expect, int result);
bool is_expected(const struct expect *expect, int result);

struct region;
struct handle;

/* A registration as it is asked for */
struct ask {
	bool has_pd;
	bool same_pd;			/* as that of the buffer */
	bool has_attr;
	uint64_t mask;
	const struct region *region;	/* NULL: buf is NULL */
	const struct handle *handle;	/* buf is that of a user buffer */
	int64_t offset;			/* of addr in the buffer */
	size_t length;
	uint64_t fd_offset;
	size_t fd_size;			/* of the DMA-buf; 0: fd is none */
	enum memory fd_memory;
	int fd_error;			/* for what is no DMA-buf */
	bool congruent;			/* iova, within a page */
	bool wraps;			/* addr and length, without a buffer */
	int access;
};

enum memory contract_memory(const struct caps *caps, bool shared);
bool contract_has_dmabuf(const struct caps *caps, bool shared);
void contract_alloc_buf(const struct caps *caps, bool shared, bool valid,
			size_t size, struct expect *expect);
void contract_reg(const struct caps *caps, const struct ask *ask,
		  enum fault fault, struct expect *expect);
void contract_reg_address(const struct caps *caps, enum memory memory,
			  int access, struct expect *expect);

/* What a thread has; a pointer that is NULL is an empty place */
#define DOMAINS 6
#define REGIONS 10
#define HANDLES 4
#define KEYS 12
#define EXPORTS 4
#define UMEMS 3

/* The first two domains are the process's; the first two regions its own. */
enum { DOMAIN_BASE, DOMAIN_OPTED, DOMAIN_FIRST };
enum { REGION_PLAIN, REGION_HEAP, REGION_FIRST };

struct domain {
	struct ibv_pd *pd;
	int base;		/* place of that of a parent domain, or -1 */
	bool shared;		/* its buffers are in shared memory */
	unsigned int users;	/* buffers and parent domains */
	unsigned int keys;
};

/* A range of memory, and what must be in it */
struct region {
	char *addr;
	char *want;
	size_t size;
	enum memory memory;
	bool has_dmabuf;
	int fd;			/* of the process's own; -1 */
	struct ibv_buf *buf;	/* NULL: of the process's own */
	int domain;
	unsigned int users;	/* what refers to it: keys, handles, umems */
	unsigned int keys;	/* that there ever were */
	unsigned int serial;
};

struct handle {
	struct ibv_buf *buf;
	int domain;
	int region;
	size_t offset;
	size_t size;
	bool by_fd;
	unsigned int users;
};

struct key {
	struct ibv_mr *mr;
	int domain;
	int region;
	int handle;		/* or -1 */
	size_t offset;		/* of the memory in the region */
	size_t length;
	uint64_t iova;
	int access;
	int pinned;		/* access that the memory was pinned for */
	bool by_fd;
};

struct export {
	int fd;			/* -1: none */
	int region;		/* or -1, when that is freed */
	unsigned int serial;	/* of the region */
	bool shared;
};

struct umem {
	struct mlx5dv_devx_umem *umem;
	int domain;
	int region;
	int handle;
};

struct world;

struct thread {
	struct world *world;
	unsigned int number;
	uint32_t at;			/* number of the call */
	struct rng rng;			/* of the call */
	struct domain domain[DOMAINS];
	struct region region[REGIONS];
	struct handle handle[HANDLES];
	struct key key[KEYS];
	struct export export[EXPORTS];
	struct umem umem[UMEMS];
	struct counts counts;
	size_t fds;			/* that the process keeps open for it */
	unsigned int serial;		/* of the last region */
	struct pair pair;		/* where the device carries traffic */
	char *stage;
	struct ibv_mr *stage_mr;
	char text[384];			/* the call, as it is written */
};

/* What a process has */
struct world {
	const struct config *config;
	const struct plan *plan;
	struct shared *shared;
	unsigned int process;
	uint32_t index;			/* of the device */
	struct rdma rdma;
	struct caps caps;
	struct domain domain[DOMAIN_FIRST];
	struct thread thread[MAX_THREADS];
	pthread_barrier_t barrier;	/* of the threads */
	pthread_mutex_t mutex;
	struct region parked;		/* for another thread to take */
	size_t fds;			/* of no thread */
};

void world_find(struct world *world);
void world_open(struct world *world);
void world_close(struct world *world);
struct counts world_kernel(const struct world *world);
struct counts world_counts(const struct world *world);
size_t world_fds(const struct world *world);
/* libibverbs keeps freed buffers: has it give them back. */
void world_empty_store(const struct world *world);

void thread_open(struct thread *thread);
/* Checks and releases all that the thread has. */
void thread_close(struct thread *thread);

/* The end of the process: what the call did is not what it should have done. */
__attribute__((format(printf, 3, 4), noreturn))
void halt(const struct thread *thread, const char *what, const char *format,
	  ...);

/* The call, as it is written, before it is made */
__attribute__((format(printf, 2, 3)))
void call(struct thread *thread, const char *format, ...);
/* What came of it: an errno or 0 */
void outcome(struct thread *thread, enum verb verb,
	     const struct expect *expect, int result);

void region_check(struct thread *thread, int region);

/* The calls. Each picks its places and does nothing if they do not suit. */
void call_alloc_pd(struct thread *thread);
void call_alloc_parent_domain(struct thread *thread);
void call_dealloc_pd(struct thread *thread);
void call_alloc_buf(struct thread *thread);
void call_free_buf(struct thread *thread);
void call_export(struct thread *thread);
void call_close_export(struct thread *thread);
void call_alloc_user_buf(struct thread *thread);
void call_free_user_buf(struct thread *thread);
void call_reg_buf_mr(struct thread *thread);
void call_reg_mr_ex(struct thread *thread);
void call_dereg_mr(struct thread *thread);
void call_rereg_mr(struct thread *thread);
void call_umem_reg(struct thread *thread);
void call_umem_dereg(struct thread *thread);
void call_touch(struct thread *thread);
void call_access(struct thread *thread);
void call_fork(struct thread *thread);
void call_park(struct thread *thread);

void close_export(struct thread *thread, int export);
void free_region(struct thread *thread, int region);
void free_handle(struct thread *thread, int handle);
void free_key(struct thread *thread, int key);
void free_umem(struct thread *thread, int umem);
void free_domain(struct thread *thread, int domain);

/* A device whose kernel is a table in the process */
int native_open(struct rdma *rdma);
void native_close(struct rdma *rdma);
struct counts native_counts(void);
/* 0 or an errno */
int native_access(const struct ibv_mr *mr, uint64_t at, void *data, size_t n,
		  bool write);

#endif
