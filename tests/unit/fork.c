// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The fork rule: a buffer's whole mapping is kept out of children once, at its
 * allocation, and no registration touches that. Where the kernel copies pinned
 * pages on fork, nothing is marked at all.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stub.h"

static bool protects(void)
{
	return ibv_is_fork_initialized() == IBV_FORK_ENABLED;
}

/* Exactly [addr, addr + length) is protected, or not, in one mapping. */
static void assert_dontfork(const void *addr, size_t length, bool dontfork)
{
	struct vma vma;

	assert_true(find_vma(addr, &vma));
	assert_int_equal(vma.dontfork, dontfork);
	assert_true((uintptr_t)addr + length <= vma.end);
	if (!dontfork)
		return;

	assert_int_equal(vma.start, (uintptr_t)addr);
	assert_int_equal(vma.end, (uintptr_t)addr + length);
}

static void *alloc(struct stub *stub, size_t size, struct ibv_buf **buf)
{
	void *addr = ibv_alloc_buf(&stub->pd, size, buf);

	assert_non_null(addr);
	return addr;
}

static void whole_mapping_is_protected(void **state)
{
	static const size_t sizes[] = { 1, 4097, 3 << 20 };
	struct stub *stub = *state;
	struct ibv_buf *buf;
	size_t i, length;
	void *addr;

	for (i = 0; i < 3; i++) {
		empty_store(stub);
		addr = alloc(stub, sizes[i], &buf);
		length = (sizes[i] + page_size() - 1) & ~(page_size() - 1);
		assert_dontfork(addr, length, protects());
		ibv_free_buf(buf);
	}
}

static void registrations_leave_it_alone(void **state)
{
	enum { N = 2000, SIZE = 1 << 20 };
	static struct ibv_mr *mr[N];
	struct stub *stub = *state;
	struct ibv_buf *buf;
	int vmas, i;
	void *addr;

	addr = alloc(stub, SIZE, &buf);
	vmas = count_vmas();
	for (i = 0; i < N; i++) {
		mr[i] = ibv_reg_buf_mr(&stub->pd, buf, addr + i * 512, 300, 0);
		assert_non_null(mr[i]);
	}
	assert_int_equal(count_vmas(), vmas);
	assert_dontfork(addr, SIZE, protects());

	for (i = 0; i < N; i++)
		assert_int_equal(ibv_dereg_mr(mr[i]), 0);
	assert_int_equal(count_vmas(), vmas);
	assert_dontfork(addr, SIZE, protects());
	ibv_free_buf(buf);
}

static void plain_registration_leaves_it_alone(void **state)
{
	struct stub *stub = *state;
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	void *addr;

	addr = alloc(stub, 65536, &buf);
	mr = ibv_reg_mr(&stub->pd, addr + 8192, 4096, 0);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_dontfork(addr, 65536, protects());
	ibv_free_buf(buf);
}

static void failed_registration_leaves_it_alone(void **state)
{
	struct stub *stub = *state;
	struct ibv_buf *buf;
	void *addr;

	addr = alloc(stub, 65536, &buf);
	stub->fail_with = ENOMEM;
	assert_null(ibv_reg_buf_mr(&stub->pd, buf, addr, 65536, 0));
	stub->fail_with = 0;
	assert_dontfork(addr, 65536, protects());
	ibv_free_buf(buf);
}

static void failed_dereg_leaves_it_alone(void **state)
{
	struct stub *stub = *state;
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	void *addr;

	addr = alloc(stub, 65536, &buf);
	mr = ibv_reg_buf_mr(&stub->pd, buf, addr, 65536, 0);
	assert_non_null(mr);
	stub->fail_with = EBUSY;
	assert_int_equal(ibv_dereg_mr(mr), EBUSY);
	stub->fail_with = 0;
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_dontfork(addr, 65536, protects());
	ibv_free_buf(buf);
}

static void rereg_within_buffer_leaves_it_alone(void **state)
{
	struct stub *stub = *state;
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	void *addr;

	addr = alloc(stub, 65536, &buf);
	mr = ibv_reg_buf_mr(&stub->pd, buf, addr, 4096, 0);
	assert_non_null(mr);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL,
				      NULL, 0, IBV_ACCESS_LOCAL_WRITE), 0);
	assert_dontfork(addr, 65536, protects());
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION,
				      NULL, addr + 4096, 8192, 0), 0);
	assert_dontfork(addr, 65536, protects());
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_dontfork(addr, 65536, protects());
	ibv_free_buf(buf);
}

/* Then the MR is an ordinary one, and its new memory its own business. */
static void rereg_out_of_buffer_follows_the_mr(void **state)
{
	struct stub *stub = *state;
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	void *addr, *other;

	addr = alloc(stub, 65536, &buf);
	other = mmap(NULL, 65536, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		     0);
	assert_ptr_not_equal(other, MAP_FAILED);

	mr = ibv_reg_buf_mr(&stub->pd, buf, addr, 65536, 0);
	assert_non_null(mr);
	stub->fail_with = ENOMEM;
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION,
				      NULL, other, 65536, 0),
			 IBV_REREG_MR_ERR_CMD);
	stub->fail_with = 0;
	assert_dontfork(addr, 65536, protects());
	assert_dontfork(other, 65536, false);

	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION,
				      NULL, other, 65536, 0), 0);
	assert_dontfork(addr, 65536, protects());
	assert_dontfork(other, 65536, protects());

	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_dontfork(addr, 65536, protects());
	assert_dontfork(other, 65536, false);
	munmap(other, 65536);
	ibv_free_buf(buf);
}

static void rereg_of_a_plain_mr_moves_its_protection(void **state)
{
	struct stub *stub = *state;
	struct ibv_mr *mr;
	char *addr;

	addr = mmap(NULL, 3 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	assert_ptr_not_equal(addr, MAP_FAILED);
	mr = ibv_reg_mr(&stub->pd, addr, 4096, 0);
	assert_non_null(mr);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION,
				      NULL, addr + 2 * 4096, 4096, 0), 0);
	assert_dontfork(addr, 4096, false);
	assert_dontfork(addr + 2 * 4096, 4096, protects());
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_dontfork(addr, 3 * 4096, false);
	munmap(addr, 3 * 4096);
}

static void freed_range_is_an_ordinary_one(void **state)
{
	struct stub *stub = *state;
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	void *addr, *other;

	addr = alloc(stub, 65536, &buf);
	ibv_free_buf(buf);
	empty_store(stub);
	other = mmap(addr, 65536, PROT_READ,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	assert_ptr_equal(other, addr);
	assert_dontfork(other, 65536, false);

	mr = ibv_reg_mr(&stub->pd, other, 65536, 0);
	assert_non_null(mr);
	assert_dontfork(other, 65536, protects());
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_dontfork(other, 65536, false);
	munmap(other, 65536);
}

static void neighbours_are_freed_one_by_one(void **state)
{
	enum { N = 16 };
	struct stub *stub = *state;
	struct ibv_buf *buf[N];
	struct vma vma;
	void *addr[N];
	int i, j;

	for (i = 0; i < N; i++)
		addr[i] = alloc(stub, 4096, &buf[i]);

	/* Every other one first, so that the rest lie apart. */
	for (i = 0; i < N; i += 2)
		ibv_free_buf(buf[i]);
	for (i = 1; i < N; i += 2) {
		for (j = i; j < N; j += 2) {
			assert_true(find_vma(addr[j], &vma));
			assert_int_equal(vma.dontfork, protects());
		}
		ibv_free_buf(buf[i]);
	}
}

static void child_has_neighbours_only(void **state)
{
	struct stub *stub = *state;
	int status, here = protects();
	struct ibv_buf *buf;
	char *addr, *next;
	pid_t child;

	addr = alloc(stub, 4096, &buf);
	next = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(next, MAP_FAILED);

	child = fork();
	assert_int_not_equal(child, -1);
	if (!child) {
		unsigned char in_core;

		*next = 1;
		_exit(mincore(addr, 4096, &in_core) ? errno : 0);
	}

	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), here ? ENOMEM : 0);
	assert_int_equal(*next, 0);
	munmap(next, 4096);
	ibv_free_buf(buf);
}

static bool stop;

static void *register_until_stopped(void *stub)
{
	static char memory[65536];
	struct ibv_mr *mr;

	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		mr = ibv_reg_mr(stub, memory + 8192, 4096, 0);
		if (!mr || ibv_dereg_mr(mr))
			return stub;
	}
	return NULL;
}

/* The books are whole in a child, and nobody that is not there has them. */
static void child_registers_after_fork_between_threads(void **state)
{
	struct stub *stub = *state;
	int round, status = 0;
	pthread_t thread;
	struct ibv_mr *mr;
	pid_t child = 0;
	void *wrong;

	assert_int_equal(pthread_create(&thread, NULL, register_until_stopped,
					&stub->pd), 0);
	for (round = 0; round < 200 && child != -1 && !status; round++) {
		child = fork();
		if (!child) {
			alarm(60);
			mr = ibv_reg_mr(&stub->pd, &status, 1, 0);
			_exit(!mr || ibv_dereg_mr(mr));
		}
		waitpid(child, &status, 0);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	assert_int_equal(pthread_join(thread, &wrong), 0);
	assert_null(wrong);
	assert_int_not_equal(child, -1);
	assert_int_equal(status, 0);
}

/* Runs before ibv_fork_init(), in a process of its own. */
static void allocation_comes_too_early(void **state)
{
	struct stub *stub = *state;
	struct ibv_buf *buf;
	int status, ret;
	pid_t child;

	child = fork();
	assert_int_not_equal(child, -1);
	if (!child) {
		if (!ibv_alloc_buf(&stub->pd, 4096, &buf))
			_exit(2);
		ret = ibv_fork_init();
		_exit(ret == (ibv_is_fork_initialized() == IBV_FORK_UNNEEDED ?
				      0 : EINVAL) ? 0 : 1);
	}

	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void fork_support_starts(void **state)
{
	assert_int_equal(ibv_fork_init(), 0);
	assert_int_not_equal(ibv_is_fork_initialized(), IBV_FORK_DISABLED);
	print_message("# fork support is %s\n",
		      protects() ? "enabled" : "not needed here");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(allocation_comes_too_early),
		cmocka_unit_test(fork_support_starts),
		cmocka_unit_test(whole_mapping_is_protected),
		cmocka_unit_test(registrations_leave_it_alone),
		cmocka_unit_test(plain_registration_leaves_it_alone),
		cmocka_unit_test(failed_registration_leaves_it_alone),
		cmocka_unit_test(failed_dereg_leaves_it_alone),
		cmocka_unit_test(rereg_within_buffer_leaves_it_alone),
		cmocka_unit_test(rereg_out_of_buffer_follows_the_mr),
		cmocka_unit_test(rereg_of_a_plain_mr_moves_its_protection),
		cmocka_unit_test(freed_range_is_an_ordinary_one),
		cmocka_unit_test(neighbours_are_freed_one_by_one),
		cmocka_unit_test(child_has_neighbours_only),
		cmocka_unit_test(child_registers_after_fork_between_threads),
	};

	return cmocka_run_group_tests(tests, stub_setup, stub_teardown);
}
