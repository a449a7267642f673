// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * ibv_reg_mr_ex() and ibv_reg_buf_mr(): which fields go together, and what
 * the provider is asked for.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "stub.h"

#define ADDR IBV_REG_MR_MASK_ADDR
#define BUF IBV_REG_MR_MASK_BUF
#define DMAH IBV_REG_MR_MASK_DMAH
#define FD IBV_REG_MR_MASK_FD
#define FD_OFFSET IBV_REG_MR_MASK_FD_OFFSET
#define IOVA IBV_REG_MR_MASK_IOVA

#define SIZE 10000
#define DMABUF_FD 1234		/* never used: the provider is a stub */
#define DMABUF_OFFSET 8192

struct fixture {
	struct stub *stub;
	struct ibv_pd *pd;
	struct ibv_buf *anon;
	struct ibv_buf *dmabuf;
};

static int setup(void **state)
{
	static struct fixture f;

	f.stub = stub_open();
	f.pd = &f.stub->pd;
	assert_non_null(ibv_alloc_buf(f.pd, SIZE, &f.anon));
	assert_non_null(ibv_alloc_buf(f.pd, SIZE, &f.dmabuf));
	f.dmabuf->dmabuf_fd = DMABUF_FD;
	f.dmabuf->dmabuf_offset = DMABUF_OFFSET;
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	f->dmabuf->dmabuf_fd = -1;
	ibv_free_buf(f->dmabuf);
	ibv_free_buf(f->anon);
	stub_close(f->stub);
	return 0;
}

/* All fields are set to what is right for buf; mask says which of them count. */
static struct ibv_mr_init_attr attr_of(struct ibv_buf *buf, uint64_t mask)
{
	return (struct ibv_mr_init_attr) {
		.length = 100,
		.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
		.comp_mask = mask,
		.iova = 0x123000,
		.addr = buf->addr + 300,
		.fd = 99,
		.fd_offset = 0x5000,
		.buf = buf,
	};
}

static void assert_attr_fails(struct fixture *f, struct ibv_mr_init_attr attr,
			      int err)
{
	struct ibv_mr_init_attr before = attr;

	errno = 0;
	assert_null(ibv_reg_mr_ex(f->pd, &attr));
	assert_int_equal(errno, err);
	assert_memory_equal(&attr, &before, sizeof(attr));
	assert_int_equal(f->stub->reg_mr.count, 0);
	assert_int_equal(f->stub->reg_dmabuf_mr.count, 0);
}

static void assert_range_fails(struct fixture *f, struct ibv_buf *buf,
			       void *addr, size_t length)
{
	errno = 0;
	assert_null(ibv_reg_buf_mr(f->pd, buf, addr, length, 0));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(f->stub->reg_mr.count, 0);
	assert_int_equal(f->stub->reg_dmabuf_mr.count, 0);
}

/* Registers and returns the MR, having checked what every form has in common */
static struct ibv_mr *reg(struct fixture *f, struct ibv_mr_init_attr attr)
{
	struct ibv_mr_init_attr before = attr;
	struct ibv_mr *mr;

	mr = ibv_reg_mr_ex(f->pd, &attr);
	assert_non_null(mr);
	assert_memory_equal(&attr, &before, sizeof(attr));
	assert_ptr_equal(mr->pd, f->pd);
	assert_ptr_equal(mr->context, f->pd->context);
	assert_int_equal(mr->length, attr.length);
	return mr;
}

static void assert_reg_mr_called(struct fixture *f, void *addr, size_t length,
				 uint64_t iova)
{
	const struct stub_call *call = &f->stub->reg_mr;

	assert_int_equal(call->count, 1);
	assert_int_equal(f->stub->reg_dmabuf_mr.count, 0);
	assert_ptr_equal(call->pd, f->pd);
	assert_ptr_equal(call->addr, addr);
	assert_int_equal(call->length, length);
	assert_int_equal(call->iova, iova);
}

static void assert_reg_dmabuf_mr_called(struct fixture *f, uint64_t offset,
					size_t length, uint64_t iova, int fd)
{
	const struct stub_call *call = &f->stub->reg_dmabuf_mr;

	assert_int_equal(call->count, 1);
	assert_int_equal(f->stub->reg_mr.count, 0);
	assert_ptr_equal(call->pd, f->pd);
	assert_int_equal(call->offset, offset);
	assert_int_equal(call->length, length);
	assert_int_equal(call->iova, iova);
	assert_int_equal(call->fd, fd);
}

static void null_arguments_are_einval(void **state)
{
	struct fixture *f = *state;
	struct ibv_mr_init_attr attr = attr_of(f->anon, ADDR);

	errno = 0;
	assert_null(ibv_reg_mr_ex(NULL, &attr));
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_null(ibv_reg_mr_ex(f->pd, NULL));
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_null(ibv_reg_buf_mr(NULL, f->anon, f->anon->addr, 1, 0));
	assert_int_equal(errno, EINVAL);
	assert_range_fails(f, NULL, f->anon->addr, 1);
}

static void dmah_and_unknown_bits_are_eopnotsupp(void **state)
{
	struct fixture *f = *state;
	int bit;

	assert_attr_fails(f, attr_of(f->anon, ADDR | DMAH), EOPNOTSUPP);
	assert_attr_fails(f, attr_of(f->anon, ADDR | BUF | DMAH), EOPNOTSUPP);
	for (bit = 6; bit < 64; bit++)
		assert_attr_fails(f, attr_of(f->anon, ADDR | 1ULL << bit),
				  EOPNOTSUPP);
}

/*
 * Every combination of the bits that select memory, tried one by one: only
 * those that the contract allows reach the provider.
 */
static void only_allowed_combinations_pass(void **state)
{
	struct fixture *f = *state;
	uint64_t mask;
	int passed = 0;

	for (mask = 0; mask < 1 << 6; mask++) {
		switch (mask) {
		case ADDR:
		case ADDR | IOVA:
		case FD | FD_OFFSET | IOVA:
		case BUF | ADDR:
		case BUF | ADDR | IOVA:
			passed++;
			ibv_dereg_mr(reg(f, attr_of(f->anon, mask)));
			memset(&f->stub->reg_mr, 0, sizeof(f->stub->reg_mr));
			memset(&f->stub->reg_dmabuf_mr, 0,
			       sizeof(f->stub->reg_dmabuf_mr));
			break;
		default:
			assert_attr_fails(f, attr_of(f->anon, mask),
					  mask & DMAH ? EOPNOTSUPP : EINVAL);
		}
	}
	assert_int_equal(passed, 5);
}

static void iova_with_dmabuf_backed_buffer_is_einval(void **state)
{
	struct fixture *f = *state;

	assert_attr_fails(f, attr_of(f->dmabuf, BUF | ADDR | IOVA), EINVAL);
}

static void null_buf_with_buf_bit_is_einval(void **state)
{
	struct fixture *f = *state;
	struct ibv_mr_init_attr attr = attr_of(f->anon, BUF | ADDR);

	attr.buf = NULL;
	assert_attr_fails(f, attr, EINVAL);
}

static void buffer_of_another_pd_is_einval(void **state)
{
	struct fixture *f = *state;

	f->pd = &f->stub->other_pd;
	assert_attr_fails(f, attr_of(f->anon, BUF | ADDR), EINVAL);
	assert_range_fails(f, f->dmabuf, f->dmabuf->addr, SIZE);
}

static void range_before_buffer_is_einval(void **state)
{
	struct fixture *f = *state;

	assert_range_fails(f, f->anon, f->anon->addr - 1, 2);
	assert_range_fails(f, f->anon, f->anon->addr - 1, SIZE);
	assert_range_fails(f, f->anon, NULL, SIZE);
	assert_range_fails(f, f->dmabuf, f->dmabuf->addr - 1, 1);
}

static void range_beyond_buffer_is_einval(void **state)
{
	struct fixture *f = *state;

	assert_range_fails(f, f->anon, f->anon->addr, SIZE + 1);
	assert_range_fails(f, f->anon, f->anon->addr + SIZE - 1, 2);
	assert_range_fails(f, f->anon, f->anon->addr + SIZE, 1);
	assert_range_fails(f, f->dmabuf, f->dmabuf->addr + 1, SIZE);
}

static void range_that_wraps_is_einval(void **state)
{
	struct fixture *f = *state;

	assert_range_fails(f, f->anon, f->anon->addr + 1, SIZE_MAX);
	assert_range_fails(f, f->anon, f->anon->addr,
			   SIZE_MAX - (uintptr_t)f->anon->addr + 1);
	assert_range_fails(f, f->dmabuf, f->dmabuf->addr + 16, SIZE_MAX - 15);
}

static void empty_range_is_einval(void **state)
{
	struct fixture *f = *state;

	assert_range_fails(f, f->anon, f->anon->addr, 0);
	assert_range_fails(f, f->anon, f->anon->addr + SIZE, 0);
	assert_range_fails(f, f->dmabuf, f->dmabuf->addr, 0);
}

static void address_form_calls_reg_mr(void **state)
{
	struct fixture *f = *state;
	struct ibv_mr_init_attr attr = attr_of(f->anon, ADDR);
	struct ibv_mr *mr = reg(f, attr);

	assert_reg_mr_called(f, attr.addr, 100, (uintptr_t)attr.addr);
	assert_int_equal(f->stub->reg_mr.access, attr.access);
	assert_ptr_equal(mr->addr, attr.addr);
	ibv_dereg_mr(mr);
}

static void address_form_takes_iova(void **state)
{
	struct fixture *f = *state;
	struct ibv_mr_init_attr attr = attr_of(f->anon, ADDR | IOVA);
	struct ibv_mr *mr = reg(f, attr);

	assert_reg_mr_called(f, attr.addr, 100, attr.iova);
	assert_ptr_equal(mr->addr, attr.addr);
	ibv_dereg_mr(mr);
}

static void fd_form_calls_reg_dmabuf_mr(void **state)
{
	struct fixture *f = *state;
	struct ibv_mr_init_attr attr = attr_of(f->anon, FD | FD_OFFSET | IOVA);
	struct ibv_mr *mr = reg(f, attr);

	assert_reg_dmabuf_mr_called(f, attr.fd_offset, 100, attr.iova, attr.fd);
	assert_int_equal(f->stub->reg_dmabuf_mr.access, attr.access);
	ibv_dereg_mr(mr);
}

static void anonymous_buffer_registers_by_address(void **state)
{
	struct fixture *f = *state;
	struct ibv_mr_init_attr attr = attr_of(f->anon, BUF | ADDR);
	struct ibv_mr *mr = reg(f, attr);

	assert_reg_mr_called(f, attr.addr, 100, (uintptr_t)attr.addr);
	assert_int_equal(f->stub->reg_mr.access, attr.access);
	assert_ptr_equal(mr->addr, attr.addr);
	ibv_dereg_mr(mr);
}

static void anonymous_buffer_takes_iova(void **state)
{
	struct fixture *f = *state;
	struct ibv_mr_init_attr attr = attr_of(f->anon, BUF | ADDR | IOVA);
	struct ibv_mr *mr = reg(f, attr);

	assert_reg_mr_called(f, attr.addr, 100, attr.iova);
	assert_ptr_equal(mr->addr, attr.addr);
	ibv_dereg_mr(mr);
}

static void dmabuf_buffer_registers_by_fd(void **state)
{
	struct fixture *f = *state;
	struct ibv_mr_init_attr attr = attr_of(f->dmabuf, BUF | ADDR);
	struct ibv_mr *mr = reg(f, attr);

	assert_reg_dmabuf_mr_called(f, DMABUF_OFFSET + 300, 100,
				    (uintptr_t)attr.addr, DMABUF_FD);
	assert_int_equal(f->stub->reg_dmabuf_mr.access, attr.access);
	assert_ptr_equal(mr->addr, attr.addr);
	ibv_dereg_mr(mr);
}

static void reg_buf_mr_takes_first_and_last_byte(void **state)
{
	struct fixture *f = *state;
	void *last = f->dmabuf->addr + SIZE - 1;
	struct ibv_mr *mr;

	mr = ibv_reg_buf_mr(f->pd, f->anon, f->anon->addr, SIZE,
			    IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	assert_reg_mr_called(f, f->anon->addr, SIZE, (uintptr_t)f->anon->addr);
	assert_int_equal(f->stub->reg_mr.access, IBV_ACCESS_LOCAL_WRITE);
	ibv_dereg_mr(mr);
	f->stub->reg_mr.count = 0;

	mr = ibv_reg_buf_mr(f->pd, f->dmabuf, last, 1, 0);
	assert_non_null(mr);
	assert_reg_dmabuf_mr_called(f, DMABUF_OFFSET + SIZE - 1, 1,
				    (uintptr_t)last, DMABUF_FD);
	assert_ptr_equal(mr->addr, last);
	ibv_dereg_mr(mr);
}

static void optional_access_is_dropped_for_old_kernels(void **state)
{
	struct fixture *f = *state;
	struct verbs_device *device = verbs_get_device(f->pd->context->device);
	struct ibv_mr *mr;

	device->core_support &= ~IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS;
	mr = ibv_reg_buf_mr(f->pd, f->anon, f->anon->addr, SIZE,
			    IBV_ACCESS_LOCAL_WRITE |
			    IBV_ACCESS_RELAXED_ORDERING);
	device->core_support |= IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS;
	assert_non_null(mr);
	assert_int_equal(f->stub->reg_mr.access, IBV_ACCESS_LOCAL_WRITE);
	ibv_dereg_mr(mr);

	mr = ibv_reg_buf_mr(f->pd, f->anon, f->anon->addr, SIZE,
			    IBV_ACCESS_RELAXED_ORDERING);
	assert_non_null(mr);
	assert_int_equal(f->stub->reg_mr.access, IBV_ACCESS_RELAXED_ORDERING);
	ibv_dereg_mr(mr);
}

static void errno_of_the_provider_is_passed_on(void **state)
{
	static const uint64_t masks[] = {
		ADDR, ADDR | IOVA, FD | FD_OFFSET | IOVA, BUF | ADDR,
	};
	struct fixture *f = *state;
	struct ibv_mr_init_attr attr;
	size_t i;

	f->stub->fail_with = EDQUOT;
	for (i = 0; i < sizeof(masks) / sizeof(*masks); i++) {
		attr = attr_of(f->anon, masks[i]);
		errno = 0;
		assert_null(ibv_reg_mr_ex(f->pd, &attr));
		assert_int_equal(errno, EDQUOT);
	}

	errno = 0;
	assert_null(ibv_reg_buf_mr(f->pd, f->dmabuf, f->dmabuf->addr, 1, 0));
	assert_int_equal(errno, EDQUOT);
	f->stub->fail_with = 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(null_arguments_are_einval),
		TEST(dmah_and_unknown_bits_are_eopnotsupp),
		TEST(only_allowed_combinations_pass),
		TEST(iova_with_dmabuf_backed_buffer_is_einval),
		TEST(null_buf_with_buf_bit_is_einval),
		TEST(buffer_of_another_pd_is_einval),
		TEST(range_before_buffer_is_einval),
		TEST(range_beyond_buffer_is_einval),
		TEST(range_that_wraps_is_einval),
		TEST(empty_range_is_einval),
		TEST(address_form_calls_reg_mr),
		TEST(address_form_takes_iova),
		TEST(fd_form_calls_reg_dmabuf_mr),
		TEST(anonymous_buffer_registers_by_address),
		TEST(anonymous_buffer_takes_iova),
		TEST(dmabuf_buffer_registers_by_fd),
		TEST(reg_buf_mr_takes_first_and_last_byte),
		TEST(optional_access_is_dropped_for_old_kernels),
		TEST(errno_of_the_provider_is_passed_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
