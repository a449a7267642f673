// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Small buffers that were freed are kept and reused: always zero, never two at
 * once, never while registered, no more than a limit, and in a child process
 * only what is there. The memory calls of libibverbs come through this file,
 * which counts them and has them fail.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stub.h"

#define LARGEST ((size_t)512 << 10)
#define LIMIT ((size_t)4 << 20)

static _Thread_local int calls;	/* mmap(), munmap(), madvise() */
static _Thread_local int mmap_fails;	/* so many times */
static _Thread_local int mmap_errno;

void *mmap(void *addr, size_t length, int prot, int flags, int fd, off_t at)
{
	calls++;
	if (mmap_fails) {
		mmap_fails--;
		errno = mmap_errno;
		return MAP_FAILED;
	}
	return (void *)syscall(SYS_mmap, addr, length, prot, flags, fd, at);
}

int munmap(void *addr, size_t length)
{
	calls++;
	return syscall(SYS_munmap, addr, length);
}

int madvise(void *addr, size_t length, int advice)
{
	calls++;
	return syscall(SYS_madvise, addr, length, advice);
}

static char *alloc(struct stub *stub, size_t size, struct ibv_buf **buf)
{
	char *addr = ibv_alloc_buf(&stub->pd, size, buf);

	assert_non_null(addr);
	return addr;
}

static bool is_mapped(const void *addr)
{
	struct vma vma;

	return find_vma(addr, &vma);
}

static bool is_zero(const char *addr, size_t size)
{
	return !addr[0] && !memcmp(addr, addr + 1, size - 1);
}

/* Frees a new buffer of so many pages, and tells where it was. */
static char *freed(struct stub *stub, size_t pages)
{
	struct ibv_buf *buf;
	char *addr = alloc(stub, pages * page_size(), &buf);

	ibv_free_buf(buf);
	return addr;
}

static void reuse_is_zero(void **state)
{
	struct stub *stub = *state;
	size_t size = 3 * page_size();
	struct ibv_buf *buf;
	char *addr;

	empty_store(stub);
	addr = alloc(stub, size - 5, &buf);
	memset(addr, 0xa5, size);
	ibv_free_buf(buf);
	/* Nor does a stray pointer leave anything. */
	addr[size / 2] = 'x';
	assert_ptr_equal(alloc(stub, size - 1000, &buf), addr);
	assert_true(is_zero(addr, size));
	ibv_free_buf(buf);
}

static void reuse_is_no_system_call(void **state)
{
	struct stub *stub = *state;
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	char *addr;
	int before;

	empty_store(stub);
	freed(stub, 3);
	before = calls;
	addr = alloc(stub, 3 * page_size(), &buf);
	mr = ibv_reg_buf_mr(&stub->pd, buf, addr, 1, 0);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	ibv_free_buf(buf);
	assert_int_equal(calls, before);
	assert_true(is_mapped(addr));
}

static void another_length_is_not_reused(void **state)
{
	struct stub *stub = *state;
	struct ibv_buf *buf[2];
	char *kept, *addr;

	empty_store(stub);
	kept = freed(stub, 4);
	addr = alloc(stub, 3 * page_size(), &buf[0]);
	assert_true(addr + 3 * page_size() <= kept ||
		    addr >= kept + 4 * page_size());
	assert_ptr_equal(alloc(stub, 4 * page_size(), &buf[1]), kept);
	ibv_free_buf(buf[0]);
	ibv_free_buf(buf[1]);
}

static void another_pd_may_have_it(void **state)
{
	struct stub *stub = *state;
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	char *addr;

	empty_store(stub);
	addr = freed(stub, 2);
	assert_ptr_equal(ibv_alloc_buf(&stub->other_pd, page_size() + 10, &buf),
			 addr);
	errno = 0;
	assert_null(ibv_reg_buf_mr(&stub->pd, buf, addr, 1, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_reg_buf_mr(&stub->other_pd, buf, addr,
				   page_size() + 11, 0));
	mr = ibv_reg_buf_mr(&stub->other_pd, buf, addr, page_size() + 10, 0);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	ibv_free_buf(buf);
}

static void large_ones_are_not_kept(void **state)
{
	struct stub *stub = *state;
	size_t pages = LARGEST / page_size();

	empty_store(stub);
	assert_true(is_mapped(freed(stub, pages)));
	empty_store(stub);
	assert_false(is_mapped(freed(stub, pages + 1)));
}

static void limit_is_kept_and_the_oldest_goes(void **state)
{
	enum { N = 48 };
	struct stub *stub = *state;
	struct ibv_buf *buf[N];
	size_t mapped, size = 128 << 10, kept = LIMIT / size;
	char *addr[N];
	int i;

	for (i = 0; i < N; i++)
		alloc(stub, size, &buf[i]);
	for (i = 0; i < N; i++)
		ibv_free_buf(buf[i]);
	empty_store(stub);
	mapped = mapped_bytes();

	for (i = 0; i < N; i++)
		addr[i] = alloc(stub, size, &buf[i]);
	for (i = 0; i < N; i++)
		ibv_free_buf(buf[i]);
	assert_int_equal(mapped_bytes(), mapped + LIMIT);
	for (i = 0; i < N; i++)
		assert_int_equal(is_mapped(addr[i]), i >= N - kept);

	/* One that is larger takes the place of several. */
	freed(stub, LARGEST / page_size());
	assert_int_equal(mapped_bytes(), mapped + LIMIT);

	empty_store(stub);
	assert_int_equal(mapped_bytes(), mapped);
}

static struct ibv_mr *reg(struct stub *stub, struct ibv_buf *buf)
{
	struct ibv_mr *mr;

	mr = ibv_reg_buf_mr(&stub->pd, buf, buf->addr, buf->size, 0);
	assert_non_null(mr);
	return mr;
}

/* A device may still write there. */
static void registered_memory_is_not_kept(void **state)
{
	struct stub *stub = *state;
	struct ibv_mr *mr[2];
	struct ibv_buf *buf;
	char *addr;

	empty_store(stub);
	addr = alloc(stub, page_size(), &buf);
	mr[0] = reg(stub, buf);
	mr[1] = reg(stub, buf);
	assert_int_equal(ibv_dereg_mr(mr[0]), 0);
	ibv_free_buf(buf);
	assert_false(is_mapped(addr));
	assert_int_equal(ibv_dereg_mr(mr[1]), 0);

	addr = alloc(stub, page_size(), &buf);
	mr[0] = reg(stub, buf);
	stub->fail_with = EBUSY;
	assert_int_equal(ibv_dereg_mr(mr[0]), EBUSY);
	stub->fail_with = 0;
	ibv_free_buf(buf);
	assert_false(is_mapped(addr));
	assert_int_equal(ibv_dereg_mr(mr[0]), 0);
}

static void failed_registration_does_not_count(void **state)
{
	struct stub *stub = *state;
	struct ibv_buf *buf;
	char *addr;

	empty_store(stub);
	addr = alloc(stub, page_size(), &buf);
	stub->fail_with = ENOMEM;
	assert_null(ibv_reg_buf_mr(&stub->pd, buf, addr, 1, 0));
	stub->fail_with = 0;
	ibv_free_buf(buf);
	assert_true(is_mapped(addr));
}

/* Then the MR is one of other memory. */
static void rereg_elsewhere_does_not_count(void **state)
{
	const int change = IBV_REREG_MR_CHANGE_TRANSLATION;
	static char other[4096];
	struct stub *stub = *state;
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	char *addr;
	int fails;

	for (fails = 0; fails < 2; fails++) {
		empty_store(stub);
		addr = alloc(stub, page_size(), &buf);
		mr = reg(stub, buf);
		stub->fail_with = fails ? ENOMEM : 0;
		assert_int_equal(ibv_rereg_mr(mr, change, NULL, other,
					      sizeof(other), 0),
				 fails ? IBV_REREG_MR_ERR_CMD : 0);
		stub->fail_with = 0;
		ibv_free_buf(buf);
		assert_int_equal(is_mapped(addr), !fails);
		assert_int_equal(ibv_dereg_mr(mr), 0);
	}
}

static void want_of_memory_empties_the_store(void **state)
{
	static const int errs[] = { ENOMEM, EAGAIN };
	struct stub *stub = *state;
	struct ibv_buf *buf;
	size_t i, mapped;
	char *kept;

	for (i = 0; i < 2; i++) {
		mmap_errno = errs[i];

		empty_store(stub);
		mapped = mapped_bytes();
		freed(stub, 2);
		mmap_fails = 1;
		alloc(stub, 3 * page_size(), &buf);
		assert_int_equal(mapped_bytes(), mapped + 3 * page_size());
		ibv_free_buf(buf);

		empty_store(stub);
		kept = freed(stub, 2);
		mmap_fails = 2;
		errno = 0;
		assert_null(ibv_alloc_buf(&stub->pd, LARGEST + 1, &buf));
		assert_int_equal(errno, errs[i]);
		assert_int_equal(mmap_fails, 0);
		assert_false(is_mapped(kept));

		/* Nothing to give back: no second try */
		mmap_fails = 2;
		assert_null(ibv_alloc_buf(&stub->pd, 1, &buf));
		assert_int_equal(mmap_fails, 1);
		mmap_fails = 0;
	}
}

/* Threads. Each page of a buffer tells whose it is. */

#define THREADS 6
#define ROUNDS 3000
#define HELD 8

struct held {
	struct ibv_buf *buf;
	char *addr;
	size_t pages;
};

struct worker {
	pthread_t thread;
	struct stub *stub;
	uintptr_t mark;
	uint32_t random;
	bool wrong;
};

static bool stop;	/* for workers that are not to count their rounds */

static bool all_are(const struct held *h, uintptr_t mark)
{
	size_t i;

	for (i = 0; i < h->pages; i++)
		if (*(uintptr_t *)(h->addr + i * page_size()) != mark)
			return false;
	return true;
}

static void *work(void *arg)
{
	struct held held[HELD] = {};
	struct worker *w = arg;
	struct held *h;
	size_t i, j;

	for (i = 0; i < ROUNDS || !__atomic_load_n(&stop, __ATOMIC_ACQUIRE);
	     i++) {
		h = &held[i % HELD];
		if (h->addr) {
			w->wrong |= !all_are(h, w->mark);
			ibv_free_buf(h->buf);
		}
		w->random = w->random * 1664525 + 1013904223;
		h->pages = 1 + (w->random >> 16) % 7;
		h->addr = ibv_alloc_buf(&w->stub->pd, h->pages * page_size(),
					&h->buf);
		if (!h->addr || !is_zero(h->addr, h->pages * page_size())) {
			w->wrong = true;
			break;
		}
		for (j = 0; j < h->pages; j++)
			*(uintptr_t *)(h->addr + j * page_size()) = w->mark;
	}
	for (i = 0; i < HELD; i++) {
		if (!held[i].addr)
			continue;
		w->wrong |= !all_are(&held[i], w->mark);
		ibv_free_buf(held[i].buf);
	}
	return NULL;
}

static void start(struct worker w[THREADS], struct stub *stub, bool endless)
{
	uintptr_t i;

	stop = !endless;
	for (i = 0; i < THREADS; i++) {
		w[i] = (struct worker) {
			.stub = stub, .random = i, .mark = i + 1,
		};
		assert_int_equal(pthread_create(&w[i].thread, NULL, work,
						&w[i]), 0);
	}
}

static void join(struct worker w[THREADS])
{
	int i;

	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(w[i].thread, NULL), 0);
	for (i = 0; i < THREADS; i++)
		assert_false(w[i].wrong);
}

static void threads_share_nothing(void **state)
{
	struct worker w[THREADS];

	start(w, *state, false);
	join(w);
}

/* Children: what is wrong in one is its exit status. */

static int wait_for(pid_t child)
{
	int status;

	assert_int_not_equal(child, -1);
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static pid_t fork_child(void)
{
	pid_t child = fork();

	if (!child)
		alarm(60);
	return child;
}

static void child_never_waits_for_a_thread_that_is_gone(void **state)
{
	struct worker w[THREADS];
	struct stub *stub = *state;
	struct ibv_buf *buf;
	int round, status = 0;
	pid_t child;

	start(w, stub, true);
	for (round = 0; round < 200 && !status; round++) {
		child = fork_child();
		if (!child) {
			if (!ibv_alloc_buf(&stub->pd, 1, &buf))
				_exit(1);
			ibv_free_buf(buf);
			_exit(0);
		}
		status = wait_for(child);
	}
	join(w);
	assert_int_equal(status, 0);
}

static bool protects(void)
{
	return ibv_is_fork_initialized() == IBV_FORK_ENABLED;
}

/* More than the parent kept, each there, zero, and as protected as can be */
static int use_in_child(struct stub *stub)
{
	struct ibv_buf *buf[16];
	char *addr[16];
	struct vma vma;
	int round, i;

	for (round = 0; round < 2; round++) {
		for (i = 0; i < 16; i++) {
			addr[i] = ibv_alloc_buf(&stub->pd, 2 * page_size(),
						&buf[i]);
			if (!addr[i] || !find_vma(addr[i], &vma))
				return 1;
			if (vma.dontfork != protects())
				return 2;
			if (!is_zero(addr[i], 2 * page_size()))
				return 3;
			memset(addr[i], 'a' + i, 2 * page_size());
		}
		for (i = 0; i < 16; i++) {
			if (addr[i][page_size()] != 'a' + i)
				return 4;
			ibv_free_buf(buf[i]);
		}
	}
	/* By now it has a store of its own. */
	return is_mapped(addr[15]) ? 0 : 6;
}

static void child_has_what_is_there(void **state)
{
	struct stub *stub = *state;
	struct ibv_buf *buf[8], *inherited;
	char *addr[8], *live;
	pid_t child;
	int i, status;

	empty_store(stub);
	live = alloc(stub, 2 * page_size(), &inherited);
	memset(live, 'p', page_size());
	for (i = 0; i < 8; i++)
		addr[i] = alloc(stub, 2 * page_size(), &buf[i]);
	for (i = 0; i < 8; i++)
		ibv_free_buf(buf[i]);

	child = fork_child();
	if (!child) {
		/* It has the handles, and perhaps not the memory. */
		if (!protects() &&
		    ibv_alloc_buf(&stub->pd, 2 * page_size(), &buf[7]) !=
			    addr[7])
			_exit(5);
		/* Before and after it gives up the one that it inherited */
		status = use_in_child(stub);
		ibv_free_buf(inherited);
		_exit(status ? status : use_in_child(stub));
	}
	assert_int_equal(wait_for(child), 0);
	assert_int_equal(live[0], 'p');
	for (i = 0; i < 8; i++)
		assert_true(is_mapped(addr[i]));
	assert_ptr_equal(alloc(stub, 2 * page_size(), &buf[0]), addr[7]);
	ibv_free_buf(buf[0]);
	ibv_free_buf(inherited);
}

/* Other memory of a child lies where a buffer of its parent was kept. */
static void child_keeps_what_it_mapped(void **state)
{
	struct stub *stub = *state;
	char *kept, *own;
	pid_t child;

	empty_store(stub);
	kept = freed(stub, 2);
	child = fork_child();
	if (!child) {
		own = mmap(kept, page_size(), PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
			   -1, 0);
		if (own != kept)
			_exit(1);
		freed(stub, 2);
		empty_store(stub);
		_exit(is_mapped(own) ? 0 : 2);
	}
	assert_int_equal(wait_for(child), 0);
}

/* A grandchild has what the child kept. */
static void grandchild_is_a_child(void **state)
{
	struct stub *stub = *state;
	pid_t child, grandchild;
	int status;

	empty_store(stub);
	freed(stub, 2);
	child = fork_child();
	if (!child) {
		freed(stub, 2);
		grandchild = fork_child();
		if (!grandchild)
			_exit(use_in_child(stub));
		waitpid(grandchild, &status, 0);
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 9);
	}
	assert_int_equal(wait_for(child), 0);
}

/* Fork support cannot be asked for after the first buffer. */
static int run(bool fork_safe)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reuse_is_zero),
		cmocka_unit_test(reuse_is_no_system_call),
		cmocka_unit_test(another_length_is_not_reused),
		cmocka_unit_test(another_pd_may_have_it),
		cmocka_unit_test(large_ones_are_not_kept),
		cmocka_unit_test(limit_is_kept_and_the_oldest_goes),
		cmocka_unit_test(registered_memory_is_not_kept),
		cmocka_unit_test(failed_registration_does_not_count),
		cmocka_unit_test(rereg_elsewhere_does_not_count),
		cmocka_unit_test(want_of_memory_empties_the_store),
		cmocka_unit_test(threads_share_nothing),
		cmocka_unit_test(child_never_waits_for_a_thread_that_is_gone),
		cmocka_unit_test(child_has_what_is_there),
		cmocka_unit_test(grandchild_is_a_child),
		/* Where fork protection is on */
		cmocka_unit_test(child_keeps_what_it_mapped),
	};
	size_t n = sizeof(tests) / sizeof(tests[0]);

	if (fork_safe && ibv_fork_init())
		return 1;
	return _cmocka_run_group_tests("store", tests, n - !protects(),
				       stub_setup, stub_teardown);
}

int main(int argc, char **argv)
{
	return run(argc > 1 && !strcmp(argv[1], "fork-safe"));
}
