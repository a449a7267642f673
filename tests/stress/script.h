/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * All that is done with buffers, once, from the protection domain to its end:
 * what the tests of lifetimes break off, interrupt and watch. It reports what a
 * step said and judges only what holds in any case.
 */
#ifndef TESTS_STRESS_SCRIPT_H
#define TESTS_STRESS_SCRIPT_H

#include <stddef.h>

#include <infiniband/verbs.h>

#include "../guest/rdma.h"

struct script {
	struct rdma *rdma;
	/* If set, called after each step that made or ended something */
	void (*after_step)(struct script *script);
	const char *step;	/* the last one that was begun */
	int n_steps;

	struct ibv_pd *pd;
	struct ibv_buf *small, *big, *user;
	char *small_mem, *big_mem, *user_mem;
	struct ibv_mr *small_mr, *big_mr, *user_mr;
	int fd;			/* exported, -1: none */
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_srq *srq;
};

#define SCRIPT_SMALL ((size_t)8192)
#define SCRIPT_BIG (((size_t)2 << 20) + 1)
#define SCRIPT_USER ((size_t)16384)

/* What a step that is wrong returns: its result, not only a failure */
#define SCRIPT_WRONG (-1)

/*
 * Returns 0, or the errno of the first step that failed, or SCRIPT_WRONG after
 * a line to stderr. Nothing of it is left then, so far as can be told.
 */
int script_run(struct script *script, struct rdma *rdma);

#endif
