// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * All that is done with buffers, once. See script.h.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../guest/mem.h"
#include "script.h"

/* A check of what must hold whatever happens */
#define HOLDS(condition)                                                       \
	do {                                                                   \
		if (!(condition)) {                                            \
			fprintf(stderr, "# %s: %s\n", script->step,            \
				#condition);                                   \
			return SCRIPT_WRONG;                                   \
		}                                                              \
	} while (0)

static void begin(struct script *script, const char *step)
{
	script->step = step;
	script->n_steps++;
	errno = 0;
}

static int end(struct script *script, bool done)
{
	int err = errno;

	if (!done) {
		HOLDS(err);
		return err;
	}
	if (script->after_step)
		script->after_step(script);
	return 0;
}

/* *mem and *buf are as they were if there is none to be had. */
static int alloc(struct script *script, size_t size, char **mem,
		 struct ibv_buf **buf)
{
	begin(script, "ibv_alloc_buf");
	*mem = ibv_alloc_buf(script->pd, size, buf);
	HOLDS(!*mem == !*buf);
	if (*mem)
		HOLDS(mem_is_zero(*mem, 4096) &&
		      mem_is_zero(*mem + size - 4096, 4096));
	return end(script, *mem);
}

static int reg(struct script *script, struct ibv_buf *buf, char *mem,
	       size_t size, struct ibv_mr **mr)
{
	begin(script, "ibv_reg_buf_mr");
	*mr = ibv_reg_buf_mr(script->pd, buf, mem + 1, size - 1, RDMA_REMOTE);
	if (*mr)
		HOLDS((*mr)->addr == mem + 1 && (*mr)->length == size - 1);
	return end(script, *mr);
}

static int export(struct script *script)
{
	begin(script, "ibv_export_buf_dmabuf_fd");
	script->fd = ibv_export_buf_dmabuf_fd(script->big);
	return end(script, script->fd >= 0 || errno == ENODATA);
}

/* Memory of the application, or the big buffer's once more by its DMA-buf */
static int user(struct script *script)
{
	char *mem = script->fd >= 0 ? script->big_mem : script->user_mem;

	begin(script, "ibv_alloc_user_buf");
	script->user = ibv_alloc_user_buf(script->pd, mem, SCRIPT_USER,
					  script->rdma->imports ? script->fd :
								  -1);
	return end(script, script->user);
}

static int reg_user(struct script *script)
{
	char *mem = script->fd >= 0 ? script->big_mem : script->user_mem;

	return reg(script, script->user, mem, SCRIPT_USER, &script->user_mr);
}

/* Rings and doorbell records of mlx5, in shared memory where it bounces */
static int queues(struct script *script)
{
	struct ibv_cq_init_attr_ex cq_attr = {
		.cqe = 100,
		.wc_flags = IBV_WC_STANDARD_FLAGS,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
		.parent_domain = script->pd,
	};
	struct ibv_srq_init_attr srq_attr = {
		.attr = { .max_wr = 16, .max_sge = 1 },
	};
	struct ibv_qp_init_attr qp_attr = {
		.cap = { .max_send_wr = 16, .max_recv_wr = 16,
			 .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_cq_ex *cq;
	int err;

	if (!script->rdma->is_mlx5 || script->pd == script->rdma->base ||
	    !script->rdma->bounces)
		return 0;

	begin(script, "ibv_create_cq_ex");
	cq = ibv_create_cq_ex(script->rdma->context, &cq_attr);
	script->cq = cq ? ibv_cq_ex_to_cq(cq) : NULL;
	err = end(script, cq);
	if (err)
		return err;

	begin(script, "ibv_create_srq");
	script->srq = ibv_create_srq(script->pd, &srq_attr);
	err = end(script, script->srq);
	if (err)
		return err;

	begin(script, "ibv_create_qp");
	qp_attr.send_cq = script->cq;
	qp_attr.recv_cq = script->cq;
	script->qp = ibv_create_qp(script->pd, &qp_attr);
	return end(script, script->qp);
}

static int make(struct script *script)
{
	int err;

	begin(script, "ibv_alloc_pd");
	script->pd = rdma_alloc_pd(script->rdma);
	err = end(script, script->pd);
	err = err ?: alloc(script, SCRIPT_SMALL, &script->small_mem,
			   &script->small);
	err = err ?: alloc(script, SCRIPT_BIG, &script->big_mem, &script->big);
	err = err ?: reg(script, script->small, script->small_mem,
			 SCRIPT_SMALL, &script->small_mr);
	err = err ?: reg(script, script->big, script->big_mem, SCRIPT_BIG,
			 &script->big_mr);
	err = err ?: export(script);
	err = err ?: user(script);
	/* Private memory, which a device that bounces refuses */
	if (!script->rdma->bounces || script->fd >= 0)
		err = err ?: reg_user(script);
	return err ?: queues(script);
}

/* What fails to end is ended by a second try. */
#define UNDO(name, object)                                                     \
	do {                                                                   \
		int err;                                                       \
									       \
		if (!script->object)                                           \
			break;                                                 \
		begin(script, #name);                                          \
		err = name(script->object);                                    \
		first = first ?: err;                                          \
		if (err)                                                       \
			err = name(script->object);                            \
		HOLDS(!err);                                                   \
		script->object = NULL;                                         \
		end(script, true);                                             \
	} while (0)

static int unmake(struct script *script)
{
	int first = 0;

	UNDO(ibv_destroy_qp, qp);
	UNDO(ibv_destroy_srq, srq);
	UNDO(ibv_destroy_cq, cq);
	UNDO(ibv_dereg_mr, user_mr);
	UNDO(ibv_dereg_mr, big_mr);
	UNDO(ibv_dereg_mr, small_mr);

	begin(script, "ibv_free_buf");
	if (script->fd >= 0)
		close(script->fd);
	script->fd = -1;
	ibv_free_user_buf(script->user);
	ibv_free_buf(script->small);
	script->user = script->small = NULL;
	if (!first && script->pd) {
		/* From the store, where it is kept */
		first = alloc(script, SCRIPT_SMALL, &script->small_mem,
			      &script->small);
		ibv_free_buf(script->small);
		script->small = NULL;
	}
	ibv_free_buf(script->big);
	script->big = NULL;
	end(script, true);

	UNDO(ibv_dealloc_pd, pd);
	return first;
}

int script_run(struct script *script, struct rdma *rdma)
{
	void (*after_step)(struct script *) = script->after_step;
	int err, ended;

	*script = (struct script) {
		.rdma = rdma,
		.after_step = after_step,
		.fd = -1,
	};
	script->user_mem = mmap(NULL, SCRIPT_USER, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (script->user_mem == MAP_FAILED)
		return errno;

	err = make(script);
	ended = unmake(script);
	munmap(script->user_mem, SCRIPT_USER);
	if (ended == SCRIPT_WRONG)
		return ended;
	return err ?: ended;
}
