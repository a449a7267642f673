// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The library loaded by dlopen(), used and closed, again and again. A provider
 * stays loaded and keeps it there, as in the base, so the store of freed buffers
 * stays too: what matters is that nothing grows, and that fork() and the end of
 * a thread, which may call into it, do not find it gone. Without a device there
 * is no provider, and it really goes.
 *
 * This program is not linked with the library.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <infiniband/verbs.h>

#include "../guest/mem.h"

#define LIBRARY "libibverbs.so.1"
#define ROUNDS 40
#define WARM 12			/* until malloc() has what it keeps for itself */

#define GET(name) __typeof__(name) *p_##name = get(library, #name)

static void *get(void *library, const char *name)
{
	void *symbol = dlsym(library, name);

	if (!symbol)
		abort();
	return symbol;
}

static bool is_loaded(void)
{
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD);

	if (library)
		dlclose(library);
	return library;
}

static struct ibv_device *find(struct ibv_device **list,
			       const char *(*name)(struct ibv_device *))
{
	const char *wanted = getenv("TEST_DEVICE");

	while (*list && wanted && strcmp(name(*list), wanted))
		list++;
	return *list;
}

/* A small buffer, which is kept when it is freed, and a large one */
static void use(void *library)
{
	static const size_t sizes[] = { 8192, MIB };
	GET(ibv_get_device_list);
	GET(ibv_get_device_name);
	GET(ibv_free_device_list);
	GET(ibv_open_device);
	GET(ibv_close_device);
	GET(ibv_alloc_pd);
	GET(ibv_dealloc_pd);
	GET(ibv_alloc_buf);
	GET(ibv_free_buf);
	GET(ibv_reg_buf_mr);
	GET(ibv_dereg_mr);
	struct ibv_context *context;
	struct ibv_device **list;
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	struct ibv_pd *pd;
	size_t i;
	char *mem;

	list = p_ibv_get_device_list(NULL);
	assert_non_null(list);
	context = p_ibv_open_device(find(list, p_ibv_get_device_name));
	assert_non_null(context);
	p_ibv_free_device_list(list);
	pd = p_ibv_alloc_pd(context);
	assert_non_null(pd);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		mem = p_ibv_alloc_buf(pd, sizes[i], &buf);
		assert_non_null(mem);
		assert_true(mem_is_zero(mem, sizes[i]));
		mem_fill(mem, sizes[i], i);
		/* Refused by a device that bounces */
		mr = p_ibv_reg_buf_mr(pd, buf, mem, sizes[i], 0);
		if (mr)
			assert_int_equal(p_ibv_dereg_mr(mr), 0);
		p_ibv_free_buf(buf);
	}
	assert_int_equal(p_ibv_dealloc_pd(pd), 0);
	assert_int_equal(p_ibv_close_device(context), 0);
}

static void *load_and_use(void *arg)
{
	void *library = dlopen(LIBRARY, RTLD_NOW);

	assert_non_null(library);
	use(library);
	assert_int_equal(dlclose(library), 0);
	return arg;
}

static void forks(void)
{
	int status;
	pid_t pid;

	pid = fork();
	assert_int_not_equal(pid, -1);
	if (!pid)
		exit(0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void without_a_provider_it_goes(void **state)
{
	void *library = dlopen(LIBRARY, RTLD_NOW);
	GET(ibv_fork_init);

	assert_non_null(library);
	p_ibv_fork_init();
	assert_int_equal(dlclose(library), 0);
	assert_false(is_loaded());
	forks();
}

static void nothing_grows(void **state)
{
	size_t maps = 0, fds = 0, bytes = 0;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		load_and_use(NULL);
		forks();
		if (i < WARM) {
			maps = mem_maps();
			fds = mem_fds();
			bytes = mallinfo2().uordblks;
			continue;
		}
		assert_int_equal(mem_maps(), maps);
		assert_int_equal(mem_fds(), fds);
		/* Less than the smallest piece of the heap in each round */
		assert_in_range(mallinfo2().uordblks, 0,
				bytes + (ROUNDS - WARM) * 16);
	}
	assert_true(is_loaded());
	print_message("# %d rounds\n", ROUNDS);
}

static void thread_ends_after_it_was_closed(void **state)
{
	pthread_t thread;
	int i;

	for (i = 0; i < 5; i++) {
		assert_int_equal(pthread_create(&thread, NULL, load_and_use,
						NULL), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		forks();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_provider_it_goes),
		cmocka_unit_test(nothing_grows),
		cmocka_unit_test(thread_ends_after_it_was_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
