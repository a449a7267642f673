/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the guest programs ask of RDMA: a device and what it is like, two
 * connected RC QPs in this process, posting, and polling with a time limit. No
 * registration and no ibv_buf here: those are what the programs test.
 *
 * Functions that can fail return 0, or -1 after a line to stderr.
 */
#ifndef TESTS_GUEST_RDMA_H
#define TESTS_GUEST_RDMA_H

#include <stdbool.h>

#include <infiniband/verbs.h>

#define RDMA_PORT 1
#define RDMA_IMM 0xbeefcafe
#define RDMA_QKEY 0x11111111
#define RDMA_REMOTE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
		     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/*
 * The device is the one that TEST_DEVICE names, or the first. Where it reaches
 * no private memory, pd is a parent domain of base that allows shared memory;
 * elsewhere both are the same.
 */
struct rdma {
	struct ibv_context *context;
	struct ibv_pd *base;
	struct ibv_pd *pd;
	char node[64];		/* path of the device node */
	bool is_rxe;
	bool is_efa;
	bool is_mlx5;
	bool bounces;		/* reports IBV_DEVICE_CC_DMA_BOUNCE */
	bool imports;		/* registers DMA-bufs */
	bool carries;		/* has traffic, by RC QPs */
	union ibv_gid gid;
	uint8_t gid_index;
	enum ibv_mtu mtu;
};

/* Two ends, each with its own completion queue */
struct pair {
	struct ibv_cq *cq[2];
	struct ibv_qp *qp[2];
};

int rdma_open(struct rdma *rdma);
void rdma_close(struct rdma *rdma);
/* Another pd of the kind that rdma->pd is; NULL, with errno set, on failure */
struct ibv_pd *rdma_alloc_pd(const struct rdma *rdma);

/* Takes a new QP of datagrams, of RDMA_QKEY, to where it sends. */
int rdma_start_ud(struct ibv_qp *qp);

/* For devices that carry traffic */
int pair_open(struct pair *pair, const struct rdma *rdma);
void pair_close(struct pair *pair);

int rdma_recv(struct ibv_qp *qp, struct ibv_sge *sge, int num_sge);
/* A signalled request; remote, rkey and RDMA_IMM where the opcode has them */
int rdma_send(struct ibv_qp *qp, enum ibv_wr_opcode opcode,
	      struct ibv_sge *sge, int num_sge, uint64_t remote, uint32_t rkey);
/* add is the addend, or the value to compare, which is then swapped for swap */
int rdma_atomic(struct ibv_qp *qp, enum ibv_wr_opcode opcode,
		struct ibv_sge *sge, uint64_t remote, uint32_t rkey,
		uint64_t add, uint64_t swap);
/* Waits for one completion, successful or not. */
int rdma_wait(struct ibv_cq *cq, struct ibv_wc *wc);

#endif
