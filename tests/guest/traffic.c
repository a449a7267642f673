// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Data through MRs of buffers, between two RC QPs: every operation, every way
 * to register, every byte of both buffers compared afterwards. How an MR is
 * registered and refused stands in reg.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cmocka.h>

#include "mem.h"
#include "rdma.h"

/* The longest message, and room around and between its parts */
#define LONGEST (4 * MIB)
#define SPAN (LONGEST + 64 * KIB)

static struct rdma rdma;
static struct pair pair;

/* How a message lies in a buffer, and what is registered */
enum layout {
	WHOLE,		/* one MR of the whole buffer, the message within */
	EXACT,		/* one MR of the very bytes of the message */
	SPLIT,		/* two MRs of disjoint ranges, half a message each */
	MOVED,		/* as EXACT, with another address for the device */
};

/* One part of a message: where it is in the buffer, and how it is reached */
struct part {
	size_t at;
	size_t length;
	struct ibv_mr *mr;
	uint64_t address;
};

/* One end: a buffer, what it must hold in the end, and its message */
struct end {
	struct ibv_buf *buf;
	char *mem;
	char *want;
	struct part part[2];
	struct ibv_sge sge[2];
	int parts;
};

/* [0] asks and [1] answers */
static struct end ends[2];

static void register_part(struct end *end, struct part *part,
			  enum layout layout)
{
	struct ibv_mr_init_attr attr = {
		.length = part->length,
		.access = RDMA_REMOTE,
		.comp_mask = IBV_REG_MR_MASK_BUF | IBV_REG_MR_MASK_ADDR |
			     IBV_REG_MR_MASK_IOVA,
		.iova = (5ULL << 40) + part->at,
		.addr = end->mem + part->at,
		.buf = end->buf,
	};

	switch (layout) {
	case WHOLE:
		part->mr = ibv_reg_buf_mr(rdma.pd, end->buf, end->mem, SPAN,
					  RDMA_REMOTE);
		assert_non_null(part->mr);
		part->address = (uintptr_t)part->mr->addr + part->at;
		break;
	case EXACT:
	case SPLIT:
		part->mr = ibv_reg_buf_mr(rdma.pd, end->buf,
					  end->mem + part->at, part->length,
					  RDMA_REMOTE);
		assert_non_null(part->mr);
		part->address = (uintptr_t)part->mr->addr;
		break;
	case MOVED:
		part->mr = ibv_reg_mr_ex(rdma.pd, &attr);
		assert_non_null(part->mr);
		part->address = attr.iova;
		break;
	}
}

/* Lays out a message from byte at on, and registers for it. */
static void end_open(struct end *end, size_t at, size_t length,
		     enum layout layout)
{
	int i;

	end->parts = layout == SPLIT && length > 1 ? 2 : 1;
	end->part[0].at = at;
	end->part[0].length = length;
	if (end->parts == 2) {
		end->part[0].length = length / 2;
		end->part[1].at = at + length / 2 + 5003;
		end->part[1].length = length - length / 2;
	}
	for (i = 0; i < end->parts; i++) {
		register_part(end, &end->part[i], layout);
		end->sge[i].addr = end->part[i].address;
		end->sge[i].length = end->part[i].length;
		end->sge[i].lkey = end->part[i].mr->lkey;
	}
}

static void end_close(struct end *end)
{
	int i;

	for (i = 0; i < end->parts; i++)
		assert_int_equal(ibv_dereg_mr(end->part[i].mr), 0);
}

/* Fills all of a buffer, and expects it to stay so. */
static void end_fill(struct end *end, uint32_t seed)
{
	mem_fill(end->mem, SPAN, seed);
	memcpy(end->want, end->mem, SPAN);
}

static bool end_is_right(const struct end *end)
{
	return !memcmp(end->mem, end->want, SPAN);
}

/* Expects that the message of one end comes to be at the other. */
static void expect_copy(const struct end *from, struct end *to)
{
	char *message = malloc(LONGEST);
	size_t n = 0;
	int i;

	assert_non_null(message);
	for (i = 0; i < from->parts; i++) {
		memcpy(message + n, from->want + from->part[i].at,
		       from->part[i].length);
		n += from->part[i].length;
	}
	for (n = 0, i = 0; i < to->parts; i++) {
		memcpy(to->want + to->part[i].at, message + n,
		       to->part[i].length);
		n += to->part[i].length;
	}
	free(message);
}

static void expect_success(int end, enum ibv_wc_opcode opcode, size_t length)
{
	struct ibv_wc wc;

	assert_int_equal(rdma_wait(pair.cq[end], &wc), 0);
	assert_string_equal(ibv_wc_status_str(wc.status),
			    ibv_wc_status_str(IBV_WC_SUCCESS));
	assert_int_equal(wc.opcode, opcode);
	assert_int_equal(wc.qp_num, pair.qp[end]->qp_num);
	if (opcode & IBV_WC_RECV)
		assert_int_equal(wc.byte_len, length);
	if (opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
		assert_true(wc.wc_flags & IBV_WC_WITH_IMM);
		assert_int_equal(wc.imm_data, RDMA_IMM);
	}
}

/* What differs between the operations that carry a message */
struct operation {
	enum ibv_wr_opcode opcode;
	enum ibv_wc_opcode done;
	enum ibv_wc_opcode received;
	bool needs_recv;
	bool is_read;
	bool is_send;
};

static const struct operation send_op = {
	.opcode = IBV_WR_SEND,
	.done = IBV_WC_SEND,
	.received = IBV_WC_RECV,
	.needs_recv = true,
	.is_send = true,
};

static const struct operation write_op = {
	.opcode = IBV_WR_RDMA_WRITE,
	.done = IBV_WC_RDMA_WRITE,
};

static const struct operation write_imm_op = {
	.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
	.done = IBV_WC_RDMA_WRITE,
	.received = IBV_WC_RECV_RDMA_WITH_IMM,
	.needs_recv = true,
};

static const struct operation read_op = {
	.opcode = IBV_WR_RDMA_READ,
	.done = IBV_WC_RDMA_READ,
	.is_read = true,
};

static void carry(const struct operation *op, enum layout layout, size_t length)
{
	/* A remote address is one range: two are for lists of SGEs only. */
	enum layout remote = layout == SPLIT && !op->is_send ? EXACT : layout;

	end_fill(&ends[0], 2 * length);
	end_fill(&ends[1], 2 * length + 1);
	end_open(&ends[0], 4096 + 17, length, layout);
	end_open(&ends[1], 2 * 4096 + 3, length, remote);
	expect_copy(&ends[op->is_read], &ends[!op->is_read]);

	if (op->needs_recv)
		assert_int_equal(rdma_recv(pair.qp[1], ends[1].sge,
					   op->is_send ? ends[1].parts : 0), 0);
	assert_int_equal(rdma_send(pair.qp[0], op->opcode, ends[0].sge,
				   ends[0].parts, ends[1].part[0].address,
				   ends[1].part[0].mr->rkey), 0);
	expect_success(0, op->done, length);
	if (op->needs_recv)
		expect_success(1, op->received, length);
	assert_true(end_is_right(&ends[0]));
	assert_true(end_is_right(&ends[1]));

	end_close(&ends[0]);
	end_close(&ends[1]);
}

static void carry_all(const struct operation *op, enum layout layout)
{
	static const size_t lengths[] = {
		1, 7, 1023, 1024, 1025, 4096, 65537, LONGEST,
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(lengths); i++)
		carry(op, layout, lengths[i]);
}

#define CARRIES(op, layout, name)					       \
	static void name(void **state)					       \
	{								       \
		(void)state;						       \
		carry_all(&(op), layout);					       \
	}

CARRIES(send_op, WHOLE, send_in_whole_buffer)
CARRIES(send_op, EXACT, send_of_exact_range)
CARRIES(send_op, SPLIT, send_of_two_ranges)
CARRIES(send_op, MOVED, send_at_iova)
CARRIES(write_op, WHOLE, write_in_whole_buffer)
CARRIES(write_op, EXACT, write_of_exact_range)
CARRIES(write_op, SPLIT, write_of_two_ranges)
CARRIES(write_op, MOVED, write_at_iova)
CARRIES(write_imm_op, WHOLE, write_imm_in_whole_buffer)
CARRIES(write_imm_op, EXACT, write_imm_of_exact_range)
CARRIES(write_imm_op, SPLIT, write_imm_of_two_ranges)
CARRIES(write_imm_op, MOVED, write_imm_at_iova)
CARRIES(read_op, WHOLE, read_in_whole_buffer)
CARRIES(read_op, EXACT, read_of_exact_range)
CARRIES(read_op, SPLIT, read_of_two_ranges)
CARRIES(read_op, MOVED, read_at_iova)

/* The word of an end's message, as it must come out */
static uint64_t *word_of(struct end *end)
{
	return (uint64_t *)(end->want + end->part[0].at);
}

static void add(uint64_t addend)
{
	*word_of(&ends[0]) = *word_of(&ends[1]);
	*word_of(&ends[1]) += addend;
	assert_int_equal(rdma_atomic(pair.qp[0], IBV_WR_ATOMIC_FETCH_AND_ADD,
				     ends[0].sge, ends[1].part[0].address,
				     ends[1].part[0].mr->rkey, addend, 0), 0);
	expect_success(0, IBV_WC_FETCH_ADD, 8);
}

static void compare_and_swap(uint64_t compare, uint64_t swap)
{
	*word_of(&ends[0]) = *word_of(&ends[1]);
	if (*word_of(&ends[1]) == compare)
		*word_of(&ends[1]) = swap;
	assert_int_equal(rdma_atomic(pair.qp[0], IBV_WR_ATOMIC_CMP_AND_SWP,
				     ends[0].sge, ends[1].part[0].address,
				     ends[1].part[0].mr->rkey, compare, swap),
			 0);
	expect_success(0, IBV_WC_COMP_SWAP, 8);
}

static void atomics_in(enum layout layout)
{
	uint64_t n;

	end_fill(&ends[0], layout);
	end_fill(&ends[1], layout + 100);
	end_open(&ends[0], 4096 - 8, 8, layout);
	end_open(&ends[1], 3 * 4096 + 8, 8, layout);
	for (n = 0; n < 4; n++) {
		add(0x0102030405060708ULL * n);
		compare_and_swap(*word_of(&ends[1]), n << 33);
		compare_and_swap(~*word_of(&ends[1]), 77);
		assert_true(end_is_right(&ends[0]));
		assert_true(end_is_right(&ends[1]));
	}
	end_close(&ends[0]);
	end_close(&ends[1]);
}

static void atomics_in_whole_buffer(void **state)
{
	atomics_in(WHOLE);
}

static void atomics_of_exact_range(void **state)
{
	atomics_in(EXACT);
}

static void atomics_at_iova(void **state)
{
	atomics_in(MOVED);
}

/*
 * Linux 5.10 answers a bad key or range only where the request takes a receive
 * and is one packet. Otherwise its peer waits for ever.
 */
static bool is_answered(enum ibv_wr_opcode opcode, size_t length)
{
	struct utsname uts;

	assert_int_equal(uname(&uts), 0);
	return strtol(uts.release, NULL, 10) >= 6 ||
	       (opcode == IBV_WR_RDMA_WRITE_WITH_IMM && length <= 256);
}

/*
 * One end asks for what is not in the other's MR: the other's QP fails, the
 * asking end is told why, and no buffer changes.
 */
static void refuse_remote(enum ibv_wr_opcode opcode, uint64_t remote,
			  uint32_t rkey, size_t length)
{
	struct ibv_sge sge = ends[0].sge[0];
	struct ibv_wc wc;

	assert_int_equal(pair_open(&pair, &rdma), 0);
	assert_int_equal(rdma_recv(pair.qp[1], &sge, 0), 0);
	sge.length = length;
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		assert_int_equal(rdma_atomic(pair.qp[0], opcode, &sge, remote,
					     rkey, 1, 0), 0);
	else
		assert_int_equal(rdma_send(pair.qp[0], opcode, &sge, 1, remote,
					   rkey), 0);

	assert_int_equal(rdma_wait(pair.cq[1], &wc), 0);
	assert_int_not_equal(wc.status, IBV_WC_SUCCESS);
	if (is_answered(opcode, length)) {
		assert_int_equal(rdma_wait(pair.cq[0], &wc), 0);
		assert_string_equal(ibv_wc_status_str(wc.status),
				    ibv_wc_status_str(IBV_WC_REM_ACCESS_ERR));
	} else {
		assert_int_equal(ibv_poll_cq(pair.cq[0], 1, &wc), 0);
	}
	assert_true(end_is_right(&ends[0]));
	assert_true(end_is_right(&ends[1]));
	pair_close(&pair);
}

static void remote_outside(void **state)
{
	const size_t length = 5000;
	uint64_t start, end;
	uint32_t rkey;

	(void)state;
	end_fill(&ends[0], 1);
	end_fill(&ends[1], 2);
	end_open(&ends[0], 4096, 2 * length, EXACT);
	end_open(&ends[1], 4096 + 104, length, EXACT);
	start = ends[1].part[0].address;
	end = start + length;
	rkey = ends[1].part[0].mr->rkey;

	refuse_remote(IBV_WR_RDMA_WRITE_WITH_IMM, start - 1, rkey, 1);
	refuse_remote(IBV_WR_RDMA_WRITE_WITH_IMM, start - 1, rkey, 2);
	refuse_remote(IBV_WR_RDMA_WRITE_WITH_IMM, end, rkey, 1);
	refuse_remote(IBV_WR_RDMA_WRITE_WITH_IMM, end - 1, rkey, 2);
	refuse_remote(IBV_WR_RDMA_WRITE, start - 1, rkey, 1);
	refuse_remote(IBV_WR_RDMA_WRITE, end, rkey, 1);
	refuse_remote(IBV_WR_RDMA_WRITE, end - 1, rkey, 2);
	refuse_remote(IBV_WR_RDMA_WRITE, start, rkey, length + 1);
	refuse_remote(IBV_WR_RDMA_WRITE, start - 1, rkey, length + 2);
	refuse_remote(IBV_WR_RDMA_READ, start - 1, rkey, 1);
	refuse_remote(IBV_WR_RDMA_READ, end, rkey, 1);
	refuse_remote(IBV_WR_RDMA_READ, start, rkey, length + 1);
	refuse_remote(IBV_WR_ATOMIC_FETCH_AND_ADD, start - 8, rkey, 8);
	refuse_remote(IBV_WR_ATOMIC_FETCH_AND_ADD, end, rkey, 8);
	refuse_remote(IBV_WR_RDMA_WRITE, start, rkey ^ 0x100, 1);

	end_close(&ends[0]);
	end_close(&ends[1]);
}

/* Where the MR has an address of its own, the memory's is not in it. */
static void remote_beside_iova(void **state)
{
	(void)state;
	end_fill(&ends[0], 3);
	end_fill(&ends[1], 4);
	end_open(&ends[0], 4096, 5000, EXACT);
	end_open(&ends[1], 4096, 5000, MOVED);
	refuse_remote(IBV_WR_RDMA_WRITE_WITH_IMM, (uintptr_t)ends[1].mem + 4096,
		      ends[1].part[0].mr->rkey, 1);
	refuse_remote(IBV_WR_RDMA_WRITE_WITH_IMM, ends[1].part[0].address - 1,
		      ends[1].part[0].mr->rkey, 1);
	end_close(&ends[0]);
	end_close(&ends[1]);
}

static void remote_not_allowed(void **state)
{
	struct ibv_mr *mr;

	(void)state;
	end_fill(&ends[0], 5);
	end_fill(&ends[1], 6);
	end_open(&ends[0], 4096, 5000, EXACT);

	mr = ibv_reg_buf_mr(rdma.pd, ends[1].buf, ends[1].mem, SPAN,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	assert_non_null(mr);
	refuse_remote(IBV_WR_RDMA_WRITE_WITH_IMM, (uintptr_t)mr->addr, mr->rkey,
		      8);
	refuse_remote(IBV_WR_ATOMIC_FETCH_AND_ADD, (uintptr_t)mr->addr,
		      mr->rkey, 8);
	assert_int_equal(ibv_dereg_mr(mr), 0);

	mr = ibv_reg_buf_mr(rdma.pd, ends[1].buf, ends[1].mem, SPAN,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	assert_non_null(mr);
	refuse_remote(IBV_WR_RDMA_READ, (uintptr_t)mr->addr, mr->rkey, 8);
	assert_int_equal(ibv_dereg_mr(mr), 0);

	end_close(&ends[0]);
}

/* The memory is still there, and other MRs of it, but this key is gone. */
static void remote_deregistered(void **state)
{
	uint64_t address;
	uint32_t rkey;
	struct ibv_mr *mr;

	(void)state;
	end_fill(&ends[0], 7);
	end_fill(&ends[1], 8);
	end_open(&ends[0], 4096, 5000, EXACT);
	mr = ibv_reg_buf_mr(rdma.pd, ends[1].buf, ends[1].mem, SPAN,
			    RDMA_REMOTE);
	assert_non_null(mr);
	end_open(&ends[1], 4096, 5000, EXACT);
	address = ends[1].part[0].address;
	rkey = ends[1].part[0].mr->rkey;
	end_close(&ends[1]);
	refuse_remote(IBV_WR_RDMA_WRITE_WITH_IMM, address, rkey, 8);
	refuse_remote(IBV_WR_RDMA_READ, address, rkey, 8);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	end_close(&ends[0]);
}

/* An end's own list reaches outside its MR: nothing leaves. */
static void local_outside(void **state)
{
	struct ibv_sge sge;
	struct ibv_wc wc;
	int i;

	(void)state;
	end_fill(&ends[0], 9);
	end_fill(&ends[1], 10);
	end_open(&ends[0], 4096, 100, EXACT);
	end_open(&ends[1], 4096, 200, EXACT);
	for (i = 0; i < 2; i++) {
		assert_int_equal(pair_open(&pair, &rdma), 0);
		sge = ends[0].sge[0];
		if (i)
			sge.addr--;
		else
			sge.length++;
		assert_int_equal(rdma_send(pair.qp[0], IBV_WR_RDMA_WRITE, &sge,
					   1, ends[1].part[0].address,
					   ends[1].part[0].mr->rkey), 0);
		assert_int_equal(rdma_wait(pair.cq[0], &wc), 0);
		/* Later kernels of rxe call it flushed. */
		assert_true(wc.status == IBV_WC_LOC_PROT_ERR ||
			    wc.status == IBV_WC_WR_FLUSH_ERR);
		pair_close(&pair);
	}
	assert_true(end_is_right(&ends[0]));
	assert_true(end_is_right(&ends[1]));
	end_close(&ends[0]);
	end_close(&ends[1]);
}

static int setup(void **state)
{
	int i;

	(void)state;
	if (rdma_open(&rdma))
		return -1;
	for (i = 0; i < 2; i++) {
		ends[i].mem = ibv_alloc_buf(rdma.pd, SPAN, &ends[i].buf);
		ends[i].want = malloc(SPAN);
		if (!ends[i].mem || !ends[i].want)
			return -1;
	}
	return 0;
}

static int teardown(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < 2; i++) {
		free(ends[i].want);
		ibv_free_buf(ends[i].buf);
	}
	rdma_close(&rdma);
	return 0;
}

static int connect_pair(void **state)
{
	(void)state;
	return pair_open(&pair, &rdma);
}

static int disconnect_pair(void **state)
{
	(void)state;
	pair_close(&pair);
	return 0;
}

#define CARRIED(test)							       \
	cmocka_unit_test_setup_teardown(test, connect_pair, disconnect_pair)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CARRIED(send_in_whole_buffer),
		CARRIED(send_of_exact_range),
		CARRIED(send_of_two_ranges),
		CARRIED(write_in_whole_buffer),
		CARRIED(write_of_exact_range),
		CARRIED(write_of_two_ranges),
		CARRIED(write_imm_in_whole_buffer),
		CARRIED(write_imm_of_exact_range),
		CARRIED(write_imm_of_two_ranges),
		CARRIED(read_in_whole_buffer),
		CARRIED(read_of_exact_range),
		CARRIED(read_of_two_ranges),
		CARRIED(atomics_in_whole_buffer),
		CARRIED(atomics_of_exact_range),
		cmocka_unit_test(remote_outside),
		cmocka_unit_test(remote_not_allowed),
		cmocka_unit_test(remote_deregistered),
		cmocka_unit_test(local_outside),
	};
	/* Not for buffers with a DMA-buf, whose MRs have the buffer's address */
	const struct CMUnitTest moved[] = {
		CARRIED(send_at_iova),
		CARRIED(write_at_iova),
		CARRIED(write_imm_at_iova),
		CARRIED(read_at_iova),
		CARRIED(atomics_at_iova),
		cmocka_unit_test(remote_beside_iova),
	};
	struct CMUnitTest all[ARRAY_SIZE(tests) + ARRAY_SIZE(moved)];
	const char *word = getenv("IBV_BUF_BACKING") ?: "";
	size_t n = ARRAY_SIZE(tests);

	memcpy(all, tests, sizeof(tests));
	memcpy(all + n, moved, sizeof(moved));
	if (!strstr(word, "dmabuf") || access("/dev/udmabuf", F_OK))
		n = ARRAY_SIZE(all);

	return _cmocka_run_group_tests("traffic", all, n, setup, teardown);
}
