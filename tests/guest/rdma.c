// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The device and two connected RC QPs for the guest programs. See rdma.h.
 */
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "rdma.h"

/* Emulation beside another guest is slow: this only ends what hangs. */
#define WAIT_SECONDS 60

static int failed(const char *what, int err)
{
	fprintf(stderr, "# rdma: %s: %s\n", what, strerror(err));
	return -1;
}

static bool is_ipv4(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(gid->raw, mapped, sizeof(mapped));
}

/* A RoCE v2 entry of the table; one that maps an IPv4 address is preferred. */
static int find_gid(struct rdma *rdma)
{
	struct ibv_gid_entry table[64];
	bool found = false;
	ssize_t n, i;

	n = ibv_query_gid_table(rdma->context, table,
				sizeof(table) / sizeof(table[0]), 0);
	if (n < 0)
		return failed("GID table", -n);

	for (i = 0; i < n; i++) {
		if (table[i].port_num != RDMA_PORT ||
		    table[i].gid_type != IBV_GID_TYPE_ROCE_V2 ||
		    (found && !is_ipv4(&table[i].gid)))
			continue;
		rdma->gid = table[i].gid;
		rdma->gid_index = table[i].gid_index;
		found = true;
		if (is_ipv4(&rdma->gid))
			break;
	}
	return found ? 0 : failed("no RoCE v2 GID", ENOENT);
}

int rdma_open(struct rdma *rdma)
{
	struct ibv_port_attr port;
	struct ibv_device **list;
	int err;

	list = ibv_get_device_list(NULL);
	if (!list)
		return failed("device list", errno);
	if (!list[0]) {
		ibv_free_device_list(list);
		return failed("no RDMA device", ENODEV);
	}
	rdma->context = ibv_open_device(list[0]);
	err = errno;
	ibv_free_device_list(list);
	if (!rdma->context)
		return failed("open device", err);

	err = ibv_query_port(rdma->context, RDMA_PORT, &port);
	if (err) {
		failed("query port", err);
		goto err_close;
	}
	rdma->mtu = port.active_mtu;
	if (find_gid(rdma))
		goto err_close;

	rdma->pd = ibv_alloc_pd(rdma->context);
	if (!rdma->pd) {
		failed("allocate PD", errno);
		goto err_close;
	}
	return 0;

err_close:
	ibv_close_device(rdma->context);
	return -1;
}

void rdma_close(struct rdma *rdma)
{
	int err = ibv_dealloc_pd(rdma->pd);

	if (err)
		failed("deallocate PD", err);
	ibv_close_device(rdma->context);
}

static int connect_qp(struct ibv_qp *qp, const struct rdma *rdma, uint32_t to)
{
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT,
		.port_num = RDMA_PORT,
		.qp_access_flags = RDMA_REMOTE,
	};
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = rdma->mtu,
		.dest_qp_num = to,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {
			.is_global = 1,
			.port_num = RDMA_PORT,
			.grh = {
				.dgid = rdma->gid,
				.sgid_index = rdma->gid_index,
				.hop_limit = 64,
			},
		},
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 18,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
	};
	int err;

	err = ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
			    IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (err)
		return failed("QP to INIT", err);
	err = ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV |
			    IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (err)
		return failed("QP to RTR", err);
	err = ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT |
			    IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	if (err)
		return failed("QP to RTS", err);
	return 0;
}

int pair_open(struct pair *pair, const struct rdma *rdma)
{
	struct ibv_qp_init_attr attr = {
		.cap = {
			.max_send_wr = 16,
			.max_recv_wr = 16,
			.max_send_sge = 2,
			.max_recv_sge = 2,
		},
		.qp_type = IBV_QPT_RC,
	};
	int i;

	memset(pair, 0, sizeof(*pair));
	for (i = 0; i < 2; i++) {
		pair->cq[i] = ibv_create_cq(rdma->context, 32, NULL, NULL, 0);
		if (!pair->cq[i]) {
			failed("create CQ", errno);
			goto err_close;
		}
		attr.send_cq = pair->cq[i];
		attr.recv_cq = pair->cq[i];
		pair->qp[i] = ibv_create_qp(rdma->pd, &attr);
		if (!pair->qp[i]) {
			failed("create QP", errno);
			goto err_close;
		}
	}
	for (i = 0; i < 2; i++)
		if (connect_qp(pair->qp[i], rdma, pair->qp[!i]->qp_num))
			goto err_close;
	return 0;

err_close:
	pair_close(pair);
	return -1;
}

void pair_close(struct pair *pair)
{
	int i;

	for (i = 0; i < 2; i++)
		if (pair->qp[i])
			ibv_destroy_qp(pair->qp[i]);
	for (i = 0; i < 2; i++)
		if (pair->cq[i])
			ibv_destroy_cq(pair->cq[i]);
}

int rdma_recv(struct ibv_qp *qp, struct ibv_sge *sge, int num_sge)
{
	struct ibv_recv_wr wr = { .sg_list = sge, .num_sge = num_sge };
	struct ibv_recv_wr *bad;
	int err = ibv_post_recv(qp, &wr, &bad);

	return err ? failed("post receive", err) : 0;
}

static int post(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int err;

	wr->send_flags = IBV_SEND_SIGNALED;
	err = ibv_post_send(qp, wr, &bad);
	return err ? failed("post send", err) : 0;
}

int rdma_send(struct ibv_qp *qp, enum ibv_wr_opcode opcode,
	      struct ibv_sge *sge, int num_sge, uint64_t remote, uint32_t rkey)
{
	struct ibv_send_wr wr = {
		.sg_list = sge,
		.num_sge = num_sge,
		.opcode = opcode,
		.imm_data = RDMA_IMM,
		.wr.rdma = { .remote_addr = remote, .rkey = rkey },
	};

	return post(qp, &wr);
}

int rdma_atomic(struct ibv_qp *qp, enum ibv_wr_opcode opcode,
		struct ibv_sge *sge, uint64_t remote, uint32_t rkey,
		uint64_t add, uint64_t swap)
{
	struct ibv_send_wr wr = {
		.sg_list = sge,
		.num_sge = 1,
		.opcode = opcode,
		.wr.atomic = {
			.remote_addr = remote,
			.compare_add = add,
			.swap = swap,
			.rkey = rkey,
		},
	};

	return post(qp, &wr);
}

int rdma_wait(struct ibv_cq *cq, struct ibv_wc *wc)
{
	struct timespec now, end;
	int n;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += WAIT_SECONDS;
	do {
		n = ibv_poll_cq(cq, 1, wc);
		if (n == 1)
			return 0;
		if (n < 0)
			return failed("poll", EIO);
		sched_yield();
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < end.tv_sec);
	return failed("completion", ETIMEDOUT);
}
