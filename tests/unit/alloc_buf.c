// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* ibv_alloc_buf() and ibv_free_buf(): arguments, memory, failures. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "stub.h"

#define UNTOUCHED ((struct ibv_buf *)0x5ead)

/* Twice, since the first call may leave memory with malloc() for the next. */
static void assert_alloc_fails(struct ibv_pd *pd, size_t size, int err)
{
	struct ibv_buf *buf = UNTOUCHED;
	size_t mapped = 0;
	int i;

	for (i = 0; i < 2; i++) {
		mapped = mapped_bytes();
		errno = 0;
		assert_null(ibv_alloc_buf(pd, size, &buf));
		assert_int_equal(errno, err);
		assert_ptr_equal(buf, UNTOUCHED);
	}
	assert_int_equal(mapped_bytes(), mapped);
}

static void null_pd_is_einval(void **state)
{
	assert_alloc_fails(NULL, 4096, EINVAL);
}

static void size_0_is_einval(void **state)
{
	struct stub *stub = *state;

	assert_alloc_fails(&stub->pd, 0, EINVAL);
}

static void null_buf_is_einval(void **state)
{
	struct stub *stub = *state;

	errno = 0;
	assert_null(ibv_alloc_buf(&stub->pd, 4096, NULL));
	assert_int_equal(errno, EINVAL);
}

static void size_that_overflows_is_enomem(void **state)
{
	struct stub *stub = *state;

	assert_alloc_fails(&stub->pd, SIZE_MAX, ENOMEM);
	assert_alloc_fails(&stub->pd, SIZE_MAX - page_size() + 2, ENOMEM);
	assert_alloc_fails(&stub->pd, SIZE_MAX - page_size() + 1, ENOMEM);
	assert_alloc_fails(&stub->pd, SIZE_MAX - (2 << 20), ENOMEM);
	assert_alloc_fails(&stub->pd, SIZE_MAX / 2, ENOMEM);
}

static void exhausted_address_space_is_enomem(void **state)
{
	struct stub *stub = *state;
	struct rlimit old, low = {};

	assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
	low.rlim_max = old.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_AS, &low), 0);
	errno = 0;
	assert_null(ibv_alloc_buf(&stub->pd, 64 << 20, &(struct ibv_buf *){ 0 }));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
}

static void memory_is_whole_pages_of_zeros(void **state)
{
	static const size_t sizes[] = {
		1, 4095, 4096, 4097, (2 << 20) - 1, 2 << 20, 3 << 20, 32 << 20,
	};
	struct stub *stub = *state;
	size_t length, i, at;
	struct ibv_buf *buf;
	char *addr;

	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		addr = ibv_alloc_buf(&stub->pd, sizes[i], &buf);
		assert_non_null(addr);
		assert_int_equal((uintptr_t)addr % page_size(), 0);

		length = (sizes[i] + page_size() - 1) / page_size() *
			 page_size();
		for (at = 0; at < length; at++)
			if (addr[at])
				break;
		assert_int_equal(at, length);

		memset(addr, 0xa5, length);
		ibv_free_buf(buf);
	}
}

/* What a peer may read must not be what another buffer held. */
static void memory_is_zero_after_reuse(void **state)
{
	struct stub *stub = *state;
	struct ibv_buf *buf;
	char *addr;
	int i;

	for (i = 0; i < 64; i++) {
		addr = ibv_alloc_buf(&stub->pd, 10000, &buf);
		assert_non_null(addr);
		assert_int_equal(addr[0], 0);
		assert_int_equal(addr[9999], 0);
		memset(addr, 0xa5, 10000);
		ibv_free_buf(buf);
	}
}

static void buffers_share_no_page(void **state)
{
	enum { N = 32 };
	struct stub *stub = *state;
	struct ibv_buf *buf[N];
	char *addr[N];
	int i, j;

	for (i = 0; i < N; i++) {
		addr[i] = ibv_alloc_buf(&stub->pd, 100, &buf[i]);
		assert_non_null(addr[i]);
		memset(addr[i], i + 1, page_size());
		for (j = 0; j < i; j++)
			assert_true(addr[i] >= addr[j] + page_size() ||
				    addr[j] >= addr[i] + page_size());
	}

	for (i = 0; i < N; i++) {
		assert_int_equal(addr[i][0], i + 1);
		assert_int_equal(addr[i][page_size() - 1], i + 1);
		ibv_free_buf(buf[i]);
	}
}

static void large_memory_is_aligned_and_advised(void **state)
{
	struct stub *stub = *state;
	struct ibv_buf *buf;
	size_t huge = 0;
	struct vma vma;
	FILE *file;
	char *addr;

	file = fopen("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size",
		     "re");
	if (!file) {
		print_message("# the kernel has no transparent huge pages\n");
		skip();
	}
	assert_int_equal(fscanf(file, "%zu", &huge), 1);
	fclose(file);

	addr = ibv_alloc_buf(&stub->pd, huge, &buf);
	assert_non_null(addr);
	assert_int_equal((uintptr_t)addr % huge, 0);
	assert_true(find_vma(addr, &vma));
	assert_true(vma.hugepage);
	ibv_free_buf(buf);

	addr = ibv_alloc_buf(&stub->pd, huge - page_size(), &buf);
	assert_non_null(addr);
	assert_true(find_vma(addr, &vma));
	assert_false(vma.hugepage);
	ibv_free_buf(buf);
}

static void nothing_is_left(void **state)
{
	struct stub *stub = *state;
	struct ibv_buf *buf[16];
	size_t mapped = 0;
	int round, i;

	for (round = 0; round < 2; round++) {
		mapped = mapped_bytes();
		for (i = 0; i < 16; i++)
			assert_non_null(ibv_alloc_buf(&stub->pd,
						      (size_t)4096 << i,
						      &buf[i]));
		for (i = 0; i < 16; i++)
			ibv_free_buf(buf[i]);
		empty_store(stub);
	}
	assert_int_equal(mapped_bytes(), mapped);
}

static void free_of_null_is_no_op(void **state)
{
	errno = 77;
	ibv_free_buf(NULL);
	assert_int_equal(errno, 77);
}

static void *failing_alloc_buf(struct ibv_pd *pd, size_t size,
			       struct ibv_buf **buf)
{
	*buf = NULL;
	errno = EACCES;
	return NULL;
}

static void errno_of_the_provider_is_passed_on(void **state)
{
	static const struct verbs_context_ops ops = {
		.alloc_buf = failing_alloc_buf,
	};
	struct stub *stub = *state;

	verbs_set_ops(&stub->vctx, &ops);
	assert_alloc_fails(&stub->pd, 4096, EACCES);
}

static void provider_list_is_walked_in_order(void **state)
{
	static const enum verbs_buf_backing none[] = { VERBS_BUF_END };
	static const enum verbs_buf_backing unknown[] = { 1000, VERBS_BUF_END };
	static const enum verbs_buf_backing second[] = {
		1000, VERBS_BUF_ANON, VERBS_BUF_END,
	};
	/* Taken as it is; this machine has no heap of that name. */
	static const enum verbs_buf_backing shared[] = {
		VERBS_BUF_CC_SHARED, 1000, VERBS_BUF_END,
	};
	struct ibv_buf *buf = UNTOUCHED;
	struct stub *stub = *state;

	errno = 0;
	assert_null(verbs_alloc_buf_from(&stub->pd, 4096, none, &buf));
	assert_int_equal(errno, EOPNOTSUPP);
	errno = 0;
	assert_null(verbs_alloc_buf_from(&stub->pd, 4096, unknown, &buf));
	assert_int_equal(errno, EOPNOTSUPP);
	errno = 0;
	assert_null(verbs_alloc_buf_from(&stub->pd, 4096, shared, &buf));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_ptr_equal(buf, UNTOUCHED);

	assert_non_null(verbs_alloc_buf_from(&stub->pd, 4096, second, &buf));
	assert_int_equal(buf->backing, VERBS_BUF_ANON);
	ibv_free_buf(buf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(null_pd_is_einval),
		cmocka_unit_test(size_0_is_einval),
		cmocka_unit_test(null_buf_is_einval),
		cmocka_unit_test(size_that_overflows_is_enomem),
		cmocka_unit_test(exhausted_address_space_is_enomem),
		cmocka_unit_test(memory_is_whole_pages_of_zeros),
		cmocka_unit_test(memory_is_zero_after_reuse),
		cmocka_unit_test(buffers_share_no_page),
		cmocka_unit_test(large_memory_is_aligned_and_advised),
		cmocka_unit_test(nothing_is_left),
		cmocka_unit_test(free_of_null_is_no_op),
		cmocka_unit_test(provider_list_is_walked_in_order),
		cmocka_unit_test(errno_of_the_provider_is_passed_on),
	};

	return cmocka_run_group_tests(tests, stub_setup, stub_teardown);
}
