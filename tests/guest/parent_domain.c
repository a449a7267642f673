// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Parent domains on rxe: what they refuse, what takes them for a protection
 * domain, and what keeps them from being deallocated.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

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
	struct ibv_parent_domain_init_attr attr = { .pd = rdma.pd };
	int bit;

	refuse((struct ibv_parent_domain_init_attr) {}, EINVAL);
	for (bit = 3; bit < 32; bit++) {
		attr.comp_mask = 1U << bit;
		refuse(attr, EINVAL);
	}

	attr.comp_mask = 0;
	attr.td = (struct ibv_td *)&rdma;
	refuse(attr, EINVAL);

	attr.td = NULL;
	attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
	attr.alloc = never_called;
	attr.free = never_called_either;
	refuse(attr, EOPNOTSUPP);
}

static void of_a_parent_domain(void **state)
{
	struct ibv_parent_domain_init_attr attr = {
		.pd = parent_of(rdma.pd, 0),
	};

	refuse(attr, EINVAL);
	assert_int_equal(ibv_dealloc_pd(attr.pd), 0);
}

static void of_another_device(void **state)
{
	struct ibv_parent_domain_init_attr attr = {};
	struct rdma other;

	assert_int_equal(rdma_open(&other), 0);
	attr.pd = other.pd;
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
	struct ibv_pd *parent = parent_of(pd, 0);
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
	struct ibv_pd *parent = parent_of(rdma.pd, 0);
	struct ibv_pd *other = parent_of(rdma.pd, 0);
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	char *mem;

	mem = ibv_alloc_buf(parent, 8192, &buf);
	assert_non_null(mem);
	errno = 0;
	assert_null(ibv_reg_buf_mr(rdma.pd, buf, mem, 8192, 0));
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_null(ibv_reg_buf_mr(other, buf, mem, 8192, 0));
	assert_int_equal(errno, EINVAL);
	mr = ibv_reg_buf_mr(parent, buf, mem, 8192, 0);
	assert_non_null(mr);
	assert_ptr_equal(mr->pd, parent);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	ibv_free_buf(buf);

	mem = ibv_alloc_buf(rdma.pd, 8192, &buf);
	assert_non_null(mem);
	errno = 0;
	assert_null(ibv_reg_buf_mr(parent, buf, mem, 8192, 0));
	assert_int_equal(errno, EINVAL);
	ibv_free_buf(buf);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
}

/* rxe reaches all memory, so it stays private: no DMA-buf, and no failure. */
static void shared_memory_is_not_needed(void **state)
{
	struct ibv_pd *parent = parent_of(
		rdma.pd, IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC);
	struct ibv_buf *buf;
	char *mem;

	mem = ibv_alloc_buf(parent, 2 * MIB, &buf);
	assert_non_null(mem);
	assert_true(mem_is_private(mem, 2 * MIB));
	errno = 0;
	assert_int_equal(ibv_export_buf_dmabuf_fd(buf), -1);
	assert_int_equal(errno, ENODATA);
	ibv_free_buf(buf);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
}

static void everything_takes_it(void **state)
{
	struct ibv_pd *parent = parent_of(rdma.pd, 0);
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
	struct ibv_srq *srq;
	struct ibv_ah *ah;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	static char page[4096] __attribute__((aligned(4096)));

	mr = ibv_reg_mr(parent, page, sizeof(page), RDMA_REMOTE);
	assert_non_null(mr);
	srq = ibv_create_srq(parent, &srq_attr);
	assert_non_null(srq);
	ah = ibv_create_ah(parent, &ah_attr);
	assert_non_null(ah);
	mw = ibv_alloc_mw(parent, IBV_MW_TYPE_1);
	if (mw)
		assert_int_equal(ibv_dealloc_mw(mw), 0);
	else
		assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
}

/* QPs and MRs of a parent domain, one of a base at the other end */
static void traffic(void **state)
{
	struct rdma opted = rdma;
	struct ibv_buf *buf[2];
	struct ibv_mr *mr[2];
	struct ibv_sge sge;
	struct pair pair;
	struct ibv_wc wc;
	char *mem[2];
	int i;

	opted.pd = parent_of(rdma.pd,
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT);
	assert_int_equal(pair_open(&pair, &opted), 0);
	for (i = 0; i < 2; i++) {
		mem[i] = ibv_alloc_buf(opted.pd, MIB, &buf[i]);
		assert_non_null(mem[i]);
		mr[i] = ibv_reg_buf_mr(opted.pd, buf[i], mem[i], MIB,
				       RDMA_REMOTE);
		assert_non_null(mr[i]);
		mem_fill(mem[i], MIB, i);
	}

	sge = (struct ibv_sge) { (uintptr_t)mr[0]->addr, MIB, mr[0]->lkey };
	assert_int_equal(rdma_send(pair.qp[0], IBV_WR_RDMA_WRITE, &sge, 1,
				   (uintptr_t)mr[1]->addr, mr[1]->rkey), 0);
	assert_int_equal(rdma_wait(pair.cq[0], &wc), 0);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_true(mem_is_filled(mem[1], MIB, 0));

	for (i = 0; i < 2; i++) {
		assert_int_equal(ibv_dereg_mr(mr[i]), 0);
		ibv_free_buf(buf[i]);
	}
	pair_close(&pair);
	assert_int_equal(ibv_dealloc_pd(opted.pd), 0);
}

static int setup(void **state)
{
	return rdma_open(&rdma);
}

static int teardown(void **state)
{
	rdma_close(&rdma);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_attributes),
		cmocka_unit_test(of_a_parent_domain),
		cmocka_unit_test(of_another_device),
		cmocka_unit_test(base_is_busy),
		cmocka_unit_test(buffers_make_busy),
		cmocka_unit_test(kernel_objects_make_busy),
		cmocka_unit_test(buffer_is_of_one_pd),
		cmocka_unit_test(shared_memory_is_not_needed),
		cmocka_unit_test(everything_takes_it),
		cmocka_unit_test(traffic),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
