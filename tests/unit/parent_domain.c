// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The parent domain that providers share, on a device that says it reaches
 * shared memory only. This machine has no shared heap, so what is tested is
 * that nothing else is taken instead.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "stub.h"

#define SHARED IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC

static uint64_t cap_flags_ex;
static int query_fails_with;
static int queries;

static int query_device_ex(struct ibv_context *context,
			   const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t attr_size)
{
	queries++;
	attr->device_cap_flags_ex = cap_flags_ex;
	return query_fails_with;
}

static void *alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf)
{
	static const enum verbs_buf_backing backings[] = {
		VERBS_BUF_ANON, VERBS_BUF_END,
	};

	return verbs_pd_alloc_buf(pd, size, backings, buf);
}

static const struct verbs_context_ops ops = {
	.alloc_buf = alloc_buf,
	.alloc_parent_domain = verbs_pd_alloc_parent_domain,
	.dealloc_pd = verbs_pd_dealloc,
	.free_buf = verbs_pd_free_buf,
	.query_device_ex = query_device_ex,
};

static struct verbs_pd base;

static int setup(void **state)
{
	struct stub *stub = stub_open();

	verbs_set_ops(&stub->vctx, &ops);
	base = (struct verbs_pd) { .pd.context = &stub->vctx.context };
	cap_flags_ex = 0;
	query_fails_with = 0;
	queries = 0;
	*state = stub;
	return 0;
}

static struct ibv_pd *parent_of(struct ibv_pd *pd, uint32_t comp_mask)
{
	struct ibv_parent_domain_init_attr attr = {
		.pd = pd,
		.comp_mask = comp_mask,
	};

	errno = 0;
	return ibv_alloc_parent_domain(base.pd.context, &attr);
}

/* Whoever calls the op frees the parent domain. */
static void dealloc(struct ibv_pd *pd)
{
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	free(verbs_get_pd(pd));
}

static void device_is_asked_only_for_the_flag(void **state)
{
	struct ibv_pd *parent;

	cap_flags_ex = IBV_DEVICE_CC_DMA_BOUNCE;
	parent = parent_of(&base.pd, 0);
	assert_non_null(parent);
	assert_int_equal(queries, 0);
	assert_false(verbs_get_pd(parent)->cc_shared);
	dealloc(parent);
}

static void flag_changes_nothing_where_it_is_not_needed(void **state)
{
	struct ibv_pd *parent = parent_of(&base.pd, SHARED);
	struct ibv_buf *buf;

	assert_non_null(parent);
	assert_false(verbs_get_pd(parent)->cc_shared);
	assert_non_null(ibv_alloc_buf(parent, 1, &buf));
	assert_int_equal(buf->backing, VERBS_BUF_ANON);
	assert_int_equal(ibv_dealloc_pd(parent), EBUSY);
	assert_int_equal(ibv_dealloc_pd(&base.pd), EBUSY);
	ibv_free_buf(buf);
	dealloc(parent);
	assert_int_equal(base.users, 0);
}

static void no_shared_heap_is_its_errno(void **state)
{
	if (!access("/dev/dma_heap/system_cc_shared", F_OK)) {
		print_message("# this machine has a shared heap\n");
		skip();
	}
	cap_flags_ex = IBV_DEVICE_CC_DMA_BOUNCE;
	assert_null(parent_of(&base.pd, SHARED));
	assert_int_equal(errno, ENOENT);
	assert_int_equal(base.users, 0);
}

static void failed_query_is_passed_on(void **state)
{
	query_fails_with = EIO;
	assert_null(parent_of(&base.pd, SHARED));
	assert_int_equal(errno, EIO);
	assert_int_equal(base.users, 0);
}

/* Where there was a heap when the parent domain was allocated, and no more */
static void shared_buffers_are_never_private(void **state)
{
	struct ibv_pd *parent = parent_of(&base.pd, SHARED);
	struct ibv_buf *buf = NULL;

	assert_non_null(parent);
	verbs_get_pd(parent)->cc_shared = true;
	errno = 0;
	assert_null(ibv_alloc_buf(parent, 1, &buf));
	assert_int_not_equal(errno, 0);
	assert_null(buf);
	assert_int_equal(verbs_get_pd(parent)->users, 0);
	dealloc(parent);
}

static void refused_attributes_leave_the_base_alone(void **state)
{
	struct ibv_pd *parent = parent_of(&base.pd, 0);

	assert_null(parent_of(&base.pd, 1U << 3));
	assert_int_equal(errno, EINVAL);
	assert_null(parent_of(NULL, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(parent_of(parent, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(parent_of(&base.pd, IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(base.users, 1);
	dealloc(parent);
	assert_int_equal(base.users, 0);
}

#define THREADS 4
#define ROUNDS 400000
#define ROUNDS_PER_BUF 16

/* What fails at once is quick: so the threads are at the count all the time. */
static void *use_base(void *unused)
{
	struct ibv_parent_domain_init_attr attr = { .pd = &base.pd };
	struct ibv_context *context = base.pd.context;
	uintptr_t failures = 0;
	struct ibv_pd *parent;
	struct ibv_buf *buf;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		parent = ibv_alloc_parent_domain(context, &attr);
		if (!parent || ibv_dealloc_pd(parent))
			return (void *)(failures + 1);
		free(verbs_get_pd(parent));
		if (ibv_alloc_buf(&base.pd, SIZE_MAX, &buf))
			return (void *)(failures + 1);

		if (i % ROUNDS_PER_BUF)
			continue;
		if (!ibv_alloc_buf(&base.pd, 1, &buf))
			return (void *)(failures + 1);
		failures += ibv_dealloc_pd(&base.pd) != EBUSY;
		ibv_free_buf(buf);
	}
	return (void *)failures;
}

static void threads_do_not_lose_count(void **state)
{
	pthread_t thread[THREADS];
	void *failures;
	int i;

	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, use_base,
						NULL), 0);
	for (i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(thread[i], &failures), 0);
		assert_null(failures);
	}
	assert_int_equal(base.users, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, stub_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(device_is_asked_only_for_the_flag),
		TEST(flag_changes_nothing_where_it_is_not_needed),
		TEST(no_shared_heap_is_its_errno),
		TEST(failed_query_is_passed_on),
		TEST(shared_buffers_are_never_private),
		TEST(refused_attributes_leave_the_base_alone),
		TEST(threads_do_not_lose_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
