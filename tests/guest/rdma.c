// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The device and two connected RC QPs for the guest programs. See rdma.h.
 */
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

static int open_device(struct rdma *rdma)
{
	const char *name = getenv("TEST_DEVICE");
	struct ibv_device **list;
	int i, err;

	list = ibv_get_device_list(NULL);
	if (!list)
		return failed("device list", errno);
	for (i = 0; list[i]; i++)
		if (!name || !strcmp(ibv_get_device_name(list[i]), name))
			break;
	if (!list[i]) {
		ibv_free_device_list(list);
		return failed(name ?: "any RDMA device", ENODEV);
	}

	snprintf(rdma->node, sizeof(rdma->node), "/dev/infiniband/%.32s",
		 list[i]->dev_name);
	rdma->context = ibv_open_device(list[i]);
	err = errno;
	ibv_free_device_list(list);
	return rdma->context ? 0 : failed("open device", err);
}

/* rxe, or whatever the test device passes for */
static void read_provider(const struct rdma *rdma, char provider[8])
{
	const char *name = ibv_get_device_name(rdma->context->device);
	FILE *file;

	snprintf(provider, 8, "rxe");
	if (!strncmp(name, "rxe", 3))
		return;

	file = fopen("/sys/module/ibv_sim/parameters/personality", "r");
	if (!file || fscanf(file, "%7s", provider) != 1)
		snprintf(provider, 8, "?");
	if (file)
		fclose(file);
}

/* What the programs expect of a device depends on this alone. */
static int ask_device(struct rdma *rdma)
{
	struct ibv_device_attr_ex attr;
	char provider[8];
	struct ibv_mr *mr;
	int err;

	read_provider(rdma, provider);
	rdma->is_rxe = !strcmp(provider, "rxe");
	rdma->is_efa = !strcmp(provider, "efa");
	rdma->is_mlx5 = !strcmp(provider, "mlx5");
	rdma->carries = rdma->is_rxe;

	err = ibv_query_device_ex(rdma->context, NULL, &attr);
	if (err)
		return failed("query device", err);
	rdma->bounces = attr.device_cap_flags_ex & IBV_DEVICE_CC_DMA_BOUNCE;

	/* One that imports DMA-bufs finds fault with the descriptor first. */
	mr = ibv_reg_dmabuf_mr(rdma->base, 0, sysconf(_SC_PAGESIZE), 0, -1,
			       IBV_ACCESS_LOCAL_WRITE);
	if (mr)
		return failed("an MR of descriptor -1", EEXIST);
	rdma->imports = errno == EBADF;
	return 0;
}

/* The attributes of its port that a connection needs */
static int ask_port(struct rdma *rdma)
{
	struct ibv_port_attr port;
	int err;

	err = ibv_query_port(rdma->context, RDMA_PORT, &port);
	if (err)
		return failed("query port", err);
	rdma->mtu = port.active_mtu;
	if (rdma->carries)
		return find_gid(rdma);
	if (ibv_query_gid(rdma->context, RDMA_PORT, 0, &rdma->gid))
		return failed("query GID", errno);
	return 0;
}

static struct ibv_pd *opted_in(const struct rdma *rdma)
{
	struct ibv_parent_domain_init_attr attr = {
		.pd = rdma->base,
		.comp_mask =
			IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC,
	};

	return ibv_alloc_parent_domain(rdma->context, &attr);
}

struct ibv_pd *rdma_alloc_pd(const struct rdma *rdma)
{
	return rdma->bounces ? opted_in(rdma) : ibv_alloc_pd(rdma->context);
}

int rdma_open(struct rdma *rdma)
{
	memset(rdma, 0, sizeof(*rdma));
	if (open_device(rdma))
		return -1;

	rdma->base = ibv_alloc_pd(rdma->context);
	if (!rdma->base) {
		failed("allocate PD", errno);
		goto err_close;
	}
	if (ask_device(rdma) || ask_port(rdma))
		goto err_base;

	rdma->pd = rdma->bounces ? opted_in(rdma) : rdma->base;
	if (!rdma->pd) {
		failed("allocate parent domain", errno);
		goto err_base;
	}
	return 0;

err_base:
	ibv_dealloc_pd(rdma->base);
err_close:
	ibv_close_device(rdma->context);
	return -1;
}

void rdma_close(struct rdma *rdma)
{
	int err = 0;

	if (rdma->pd != rdma->base)
		err = ibv_dealloc_pd(rdma->pd);
	if (!err)
		err = ibv_dealloc_pd(rdma->base);
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

int rdma_start_ud(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = RDMA_PORT,
		.qkey = RDMA_QKEY,
	};
	int err;

	err = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
			    IBV_QP_PORT | IBV_QP_QKEY);
	if (err)
		return failed("QP to INIT", err);
	attr.qp_state = IBV_QPS_RTR;
	err = ibv_modify_qp(qp, &attr, IBV_QP_STATE);
	if (err)
		return failed("QP to RTR", err);
	attr.qp_state = IBV_QPS_RTS;
	err = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
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
