// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Parent domains: what they refuse, what takes them for a protection domain, and
 * what keeps them from being deallocated. On a device that bounces, those whose
 * buffers are to be registered allow shared memory; more of that is in
 * cc_shared.c.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "mem.h"
#include "rdma.h"

static struct rdma rdma;

static struct ibv_pd *parent_of(struct ibv_pd *pd, uint32_t comp_mask)
{
	struct ibv_parent_domain_init_attr attr = {
		.pd = pd,
		.comp_mask = comp_mask,
		.pd_context = &rdma,
	};
	struct ibv_pd *parent = ibv_alloc_parent_domain(rdma.context, &attr);

	assert_non_null(parent);
	assert_ptr_not_equal(parent, pd);
	assert_ptr_equal(parent->context, rdma.context);
	return parent;
}

/* One that has buffers which the device reaches */
static struct ibv_pd *usable_parent_of(struct ibv_pd *pd)
{
	return parent_of(pd, rdma.bounces ?
		IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC : 0);
}

static void refuse(struct ibv_parent_domain_init_attr attr, int err)
{
	errno = 0;
	assert_null(ibv_alloc_parent_domain(rdma.context, &attr));
	assert_int_equal(errno, err);
}

static void *never_called(struct ibv_pd *pd, void *pd_context, size_t size,
			  size_t alignment, uint64_t resource_type)
{
	abort();
}

static void never_called_either(struct ibv_pd *pd, void *pd_context, void *ptr,
				uint64_t resource_type)
{
	abort();
}

static void bad_attributes(void **state)
{
	struct ibv_parent_domain_init_attr attr = { .pd = rdma.base };
	int bit;

	refuse((struct ibv_parent_domain_init_attr) {}, EINVAL);
	for (bit = 3; bit < 32; bit++) {
		attr.comp_mask = 1U << bit;
		refuse(attr, EINVAL);
	}
}

/* Thread domains and allocators, which mlx5 has had for long */
static void what_mlx5_alone_has(void **state)
{
	struct ibv_parent_domain_init_attr attr = {
		.pd = rdma.base,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS,
		.alloc = never_called,
		.free = never_called_either,
	};
	struct ibv_td_init_attr td_attr = {};
	struct ibv_pd *parent;

	errno = 0;
	attr.td = ibv_alloc_td(rdma.context, &td_attr);
	if (!rdma.is_mlx5) {
		assert_null(attr.td);
		assert_int_equal(errno, EOPNOTSUPP);
		refuse(attr, EOPNOTSUPP);
		attr.comp_mask = 0;
		attr.td = (struct ibv_td *)&rdma;
		refuse(attr, EINVAL);
		return;
	}

	assert_non_null(attr.td);
	parent = ibv_alloc_parent_domain(rdma.context, &attr);
	assert_non_null(parent);
	assert_int_equal(ibv_dealloc_td(attr.td), EBUSY);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(ibv_dealloc_td(attr.td), 0);
}

static void of_a_parent_domain(void **state)
{
	struct ibv_parent_domain_init_attr attr = {
		.pd = parent_of(rdma.base, 0),
	};

	refuse(attr, EINVAL);
	assert_int_equal(ibv_dealloc_pd(attr.pd), 0);
}

static void of_another_device(void **state)
{
	struct ibv_parent_domain_init_attr attr = {};
	struct rdma other;

	assert_int_equal(rdma_open(&other), 0);
	attr.pd = other.base;
	refuse(attr, EINVAL);
	rdma_close(&other);
}

static void base_is_busy(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(rdma.context);
	struct ibv_pd *one, *two;

	assert_non_null(pd);
	one = parent_of(pd, IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT);
	two = parent_of(pd, 0);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_dealloc_pd(one), 0);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_dealloc_pd(two), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void buffers_make_busy(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(rdma.context);
	struct ibv_pd *parent = parent_of(pd, 0);
	struct ibv_buf *buf[3];

	assert_non_null(ibv_alloc_buf(parent, 4096, &buf[0]));
	assert_non_null(ibv_alloc_buf(parent, 4096, &buf[1]));
	assert_non_null(ibv_alloc_buf(pd, 4096, &buf[2]));
	assert_int_equal(ibv_dealloc_pd(parent), EBUSY);
	ibv_free_buf(buf[0]);
	assert_int_equal(ibv_dealloc_pd(parent), EBUSY);
	ibv_free_buf(buf[1]);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	ibv_free_buf(buf[2]);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* What the kernel has on the base counts as ever. */
static void kernel_objects_make_busy(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(rdma.context);
	struct ibv_pd *parent = usable_parent_of(pd);
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	char *mem;

	mem = ibv_alloc_buf(parent, 4096, &buf);
	assert_non_null(mem);
	mr = ibv_reg_buf_mr(parent, buf, mem, 4096, 0);
	assert_non_null(mr);
	ibv_free_buf(buf);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void buffer_is_of_one_pd(void **state)
{
	struct ibv_pd *parent = usable_parent_of(rdma.base);
	struct ibv_pd *other = usable_parent_of(rdma.base);
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	char *mem;

	mem = ibv_alloc_buf(parent, 8192, &buf);
	assert_non_null(mem);
	errno = 0;
	assert_null(ibv_reg_buf_mr(rdma.base, buf, mem, 8192, 0));
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_null(ibv_reg_buf_mr(other, buf, mem, 8192, 0));
	assert_int_equal(errno, EINVAL);
	mr = ibv_reg_buf_mr(parent, buf, mem, 8192, 0);
	assert_non_null(mr);
	assert_ptr_equal(mr->pd, parent);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	ibv_free_buf(buf);

	mem = ibv_alloc_buf(rdma.base, 8192, &buf);
	assert_non_null(mem);
	errno = 0;
	assert_null(ibv_reg_buf_mr(parent, buf, mem, 8192, 0));
	assert_int_equal(errno, EINVAL);
	ibv_free_buf(buf);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
}

/*
 * A device that reaches all memory has no need of shared memory: no DMA-buf, and
 * no failure. The others do, and get it.
 */
static void shared_memory_where_it_is_needed(void **state)
{
	struct ibv_pd *parent = parent_of(
		rdma.base, IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC);
	struct ibv_buf *buf;
	char *mem;
	int fd;

	mem = ibv_alloc_buf(parent, 2 * MIB, &buf);
	assert_non_null(mem);
	assert_int_equal(mem_is_private(mem, 2 * MIB), !rdma.bounces);
	errno = 0;
	fd = ibv_export_buf_dmabuf_fd(buf);
	if (rdma.bounces) {
		assert_true(fd >= 0);
		close(fd);
	} else {
		assert_int_equal(fd, -1);
		assert_int_equal(errno, ENODATA);
	}
	ibv_free_buf(buf);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
}

static const struct ibv_qp_cap cap = {
	.max_send_wr = 4,
	.max_recv_wr = 4,
	.max_send_sge = 1,
	.max_recv_sge = 1,
};

/*
 * Of a parent domain, where the provider takes its memory from it. efa refuses
 * to; rxe does not look at what it is given.
 */
static struct ibv_cq *create_cq(struct ibv_pd *parent)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 8,
		.wc_flags = IBV_WC_STANDARD_FLAGS,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
		.parent_domain = parent,
	};
	struct ibv_cq_ex *cq;

	if (rdma.is_rxe)
		return ibv_create_cq(rdma.context, 8, NULL, NULL, 0);

	errno = 0;
	cq = ibv_create_cq_ex(rdma.context, &attr);
	if (rdma.is_mlx5) {
		assert_non_null(cq);
		return ibv_cq_ex_to_cq(cq);
	}
	assert_null(cq);
	assert_int_equal(errno, EOPNOTSUPP);
	return ibv_create_cq(rdma.context, 8, NULL, NULL, 0);
}

static void expect_success(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	assert_int_equal(rdma_wait(cq, &wc), 0);
	assert_string_equal(ibv_wc_status_str(wc.status),
			    ibv_wc_status_str(IBV_WC_SUCCESS));
}

static void extended_qp(void **state)
{
	struct ibv_pd *parent = usable_parent_of(rdma.base);
	struct ibv_qp_init_attr_ex attr = {
		.cap = cap,
		/* The types that each of them has */
		.qp_type = rdma.is_efa ? IBV_QPT_UD : IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = parent,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	cq = create_cq(parent);
	assert_non_null(cq);
	attr.send_cq = cq;
	attr.recv_cq = cq;
	qp = ibv_create_qp_ex(rdma.context, &attr);
	assert_non_null(qp);
	assert_ptr_equal(qp->pd, parent);
	assert_non_null(ibv_qp_to_qp_ex(qp));
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
}

#define UD_GRH 40

/* Objects of a parent domain, all that a datagram to oneself takes */
struct datagram {
	struct ibv_pd *parent;
	struct ibv_buf *buf;
	char *page;
	struct ibv_mr *mr;
	struct ibv_srq *srq;
	struct ibv_ah *ah;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

/* Memory of the application, but for a device that does not reach it */
static void datagram_register(struct datagram *d)
{
	static char page[4096] __attribute__((aligned(4096)));

	d->page = page;
	errno = 0;
	d->mr = ibv_reg_mr(d->parent, page, sizeof(page), RDMA_REMOTE);
	if (rdma.bounces) {
		assert_null(d->mr);
		assert_int_equal(errno, EOPNOTSUPP);
		d->page = ibv_alloc_buf(d->parent, sizeof(page), &d->buf);
		assert_non_null(d->page);
		d->mr = ibv_reg_buf_mr(d->parent, d->buf, d->page,
				       sizeof(page), RDMA_REMOTE);
	}
	assert_non_null(d->mr);
	assert_ptr_equal(d->mr->pd, d->parent);
}

static void datagram_open(struct datagram *d)
{
	struct ibv_srq_init_attr srq_attr = {
		.attr = { .max_wr = 4, .max_sge = 1 },
	};
	struct ibv_ah_attr ah_attr = {
		.is_global = 1,
		.port_num = RDMA_PORT,
		.grh = {
			.dgid = rdma.gid,
			.sgid_index = rdma.gid_index,
			.hop_limit = 1,
		},
	};
	struct ibv_qp_init_attr qp_attr = {
		.cap = cap,
		.qp_type = IBV_QPT_UD,
	};

	d->parent = usable_parent_of(rdma.base);
	datagram_register(d);
	errno = 0;
	d->srq = ibv_create_srq(d->parent, &srq_attr);
	if (rdma.is_efa) {
		assert_null(d->srq);
		assert_int_equal(errno, EOPNOTSUPP);
	} else {
		assert_non_null(d->srq);
		assert_ptr_equal(d->srq->pd, d->parent);
	}
	d->ah = ibv_create_ah(d->parent, &ah_attr);
	assert_non_null(d->ah);
	assert_ptr_equal(d->ah->pd, d->parent);
	d->cq = create_cq(d->parent);
	assert_non_null(d->cq);
	qp_attr.send_cq = d->cq;
	qp_attr.recv_cq = d->cq;
	qp_attr.srq = d->srq;
	d->qp = ibv_create_qp(d->parent, &qp_attr);
	assert_non_null(d->qp);
	assert_ptr_equal(d->qp->pd, d->parent);
	assert_int_equal(rdma_start_ud(d->qp), 0);
}

static void datagram_send(struct datagram *d)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)d->page + 2048,
		.length = 1024 + UD_GRH,
		.lkey = d->mr->lkey,
	};
	struct ibv_recv_wr recv = { .sg_list = &sge, .num_sge = 1 }, *bad_recv;
	struct ibv_send_wr send = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.ud = {
			.ah = d->ah,
			.remote_qpn = d->qp->qp_num,
			.remote_qkey = RDMA_QKEY,
		},
	}, *bad_send;

	assert_int_equal(ibv_post_srq_recv(d->srq, &recv, &bad_recv), 0);
	mem_fill(d->page, 1024, 3);
	sge.addr = (uintptr_t)d->page;
	sge.length = 1024;
	assert_int_equal(ibv_post_send(d->qp, &send, &bad_send), 0);
	expect_success(d->cq);
	expect_success(d->cq);
	assert_true(mem_is_filled(d->page + 2048 + UD_GRH, 1024, 3));
}

static void datagram_close(struct datagram *d)
{
	assert_int_equal(ibv_destroy_qp(d->qp), 0);
	assert_int_equal(ibv_destroy_cq(d->cq), 0);
	assert_int_equal(ibv_destroy_ah(d->ah), 0);
	if (d->srq)
		assert_int_equal(ibv_destroy_srq(d->srq), 0);
	assert_int_equal(ibv_dereg_mr(d->mr), 0);
	ibv_free_buf(d->buf);
	assert_int_equal(ibv_dealloc_pd(d->parent), 0);
}

static void datagram(void **state)
{
	struct datagram d = {};

	datagram_open(&d);
	if (rdma.carries)
		datagram_send(&d);
	datagram_close(&d);
}

/*
 * Written to, where there is traffic, through a window that is bound to a part
 * of the buffer
 */
static void memory_window(void **state)
{
	struct rdma opted = rdma;
	struct ibv_mw_bind bind = {
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	struct ibv_buf *buf;
	struct ibv_sge sge;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct pair pair;
	char *mem;

	opted.pd = usable_parent_of(rdma.base);
	mw = ibv_alloc_mw(opted.pd, IBV_MW_TYPE_1);
	if (!mw) {
		assert_int_equal(errno, EOPNOTSUPP);
		assert_int_equal(ibv_dealloc_pd(opted.pd), 0);
		assert_false(rdma.is_mlx5);
		if (rdma.is_efa)
			return;
		print_message("# this kernel's rxe has no memory windows\n");
		skip();
	}
	assert_false(rdma.is_efa);
	assert_ptr_equal(mw->pd, opted.pd);
	if (!rdma.carries) {
		assert_int_equal(ibv_dealloc_mw(mw), 0);
		assert_int_equal(ibv_dealloc_pd(opted.pd), 0);
		return;
	}
	assert_int_equal(pair_open(&pair, &opted), 0);
	mem = ibv_alloc_buf(opted.pd, MIB, &buf);
	assert_non_null(mem);
	mr = ibv_reg_buf_mr(opted.pd, buf, mem, MIB,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	assert_non_null(mr);

	bind.bind_info.mr = mr;
	bind.bind_info.addr = (uintptr_t)mem + 8192;
	bind.bind_info.length = 4096;
	assert_int_equal(ibv_bind_mw(pair.qp[1], mw, &bind), 0);
	expect_success(pair.cq[1]);
	mem_fill(mem, 4096, 5);
	sge = (struct ibv_sge) { (uintptr_t)mem, 4096, mr->lkey };
	assert_int_equal(rdma_send(pair.qp[0], IBV_WR_RDMA_WRITE, &sge, 1,
				   (uintptr_t)mem + 8192, mw->rkey), 0);
	expect_success(pair.cq[0]);
	assert_true(mem_is_filled(mem + 8192, 4096, 5));

	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	ibv_free_buf(buf);
	pair_close(&pair);
	assert_int_equal(ibv_dealloc_pd(opted.pd), 0);
}

/* QPs of one pd, the MRs of another: one for the kernel, so both go together */
static void carry(struct ibv_pd *qp_pd, struct ibv_pd *from, struct ibv_pd *to)
{
	struct ibv_pd *pd[2] = { from, to };
	struct rdma end = rdma;
	struct ibv_buf *buf[2];
	struct ibv_mr *mr[2];
	struct ibv_sge sge;
	struct pair pair;
	char *mem[2];
	int i;

	end.pd = qp_pd;
	assert_int_equal(pair_open(&pair, &end), 0);
	for (i = 0; i < 2; i++) {
		mem[i] = ibv_alloc_buf(pd[i], MIB, &buf[i]);
		assert_non_null(mem[i]);
		mr[i] = ibv_reg_buf_mr(pd[i], buf[i], mem[i], MIB,
				       RDMA_REMOTE);
		assert_non_null(mr[i]);
		mem_fill(mem[i], MIB, i);
	}

	sge = (struct ibv_sge) { (uintptr_t)mr[0]->addr, MIB, mr[0]->lkey };
	assert_int_equal(rdma_send(pair.qp[0], IBV_WR_RDMA_WRITE, &sge, 1,
				   (uintptr_t)mr[1]->addr, mr[1]->rkey), 0);
	expect_success(pair.cq[0]);
	assert_true(mem_is_filled(mem[1], MIB, 0));

	for (i = 0; i < 2; i++) {
		assert_int_equal(ibv_dereg_mr(mr[i]), 0);
		ibv_free_buf(buf[i]);
	}
	pair_close(&pair);
}

static void traffic(void **state)
{
	struct ibv_pd *one = parent_of(rdma.base,
				       IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT);
	struct ibv_pd *two = parent_of(rdma.base, 0);

	carry(one, one, one);
	carry(one, two, rdma.base);
	carry(rdma.base, one, two);
	assert_int_equal(ibv_dealloc_pd(one), 0);
	assert_int_equal(ibv_dealloc_pd(two), 0);
}

static int teardown(void **state)
{
	rdma_close(&rdma);
	return 0;
}

int main(void)
{
	const struct CMUnitTest any[] = {
		cmocka_unit_test(bad_attributes),
		cmocka_unit_test(what_mlx5_alone_has),
		cmocka_unit_test(base_is_busy),
		cmocka_unit_test(buffers_make_busy),
		cmocka_unit_test(kernel_objects_make_busy),
		cmocka_unit_test(buffer_is_of_one_pd),
		cmocka_unit_test(shared_memory_where_it_is_needed),
		cmocka_unit_test(extended_qp),
		cmocka_unit_test(datagram),
		cmocka_unit_test(memory_window),
	};
	/* Those of libibverbs; mlx5 has its own, which check less. */
	const struct CMUnitTest shared[] = {
		cmocka_unit_test(of_a_parent_domain),
		cmocka_unit_test(of_another_device),
	};
	const struct CMUnitTest carried[] = {
		cmocka_unit_test(traffic),
	};
	struct CMUnitTest tests[16];
	size_t n = 0;

	if (rdma_open(&rdma))
		return 1;
#define ADD(list)							       \
	do {								       \
		memcpy(tests + n, list, sizeof(list));			       \
		n += sizeof(list) / sizeof(*(list));			       \
	} while (0)
	ADD(any);
	if (!rdma.is_mlx5)
		ADD(shared);
	if (rdma.carries)
		ADD(carried);

	return _cmocka_run_group_tests("parent_domain", tests, n, NULL,
				       teardown);
}
