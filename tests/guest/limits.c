// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Buffers under the limits of a process and the settings of the kernel: each
 * setting of transparent huge pages, few file descriptors, little memory that
 * may be locked. A device that bounces has buffers with a DMA-buf each, to which
 * other limits apply.
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "mem.h"
#include "rdma.h"

#define SHARED_HEAP "/dev/dma_heap/system_cc_shared"
#define THP "/sys/kernel/mm/transparent_hugepage/enabled"

static struct rdma rdma;

static void set_thp(const char *word)
{
	FILE *file = fopen(THP, "we");

	assert_non_null(file);
	assert_true(fputs(word, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

/* The word in brackets */
static void get_thp(char *word)
{
	FILE *file = fopen(THP, "re");
	char line[64] = "";

	assert_non_null(file);
	assert_non_null(fgets(line, sizeof(line), file));
	assert_non_null(strchr(line, '['));
	assert_int_equal(sscanf(strchr(line, '['), "[%15[^]]", word), 1);
	fclose(file);
}

/* Bytes in transparent huge pages of the mappings that a buffer lies in */
static size_t thp_bytes(const char *mem, size_t size)
{
	uintptr_t start, end;
	bool inside = false;
	size_t kib, sum = 0;
	char line[256];
	FILE *file = fopen("/proc/self/smaps", "re");

	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &start, &end) ==
		    2)
			inside = start < (uintptr_t)mem + size &&
				 end > (uintptr_t)mem;
		else if (inside &&
			 sscanf(line, "AnonHugePages: %zu kB", &kib) == 1)
			sum += kib << 10;
	}
	fclose(file);
	return sum;
}

static void each_setting_of_thp(void **state)
{
	static const struct {
		const char *word;
		bool huge;
	} settings[] = {
		{ "never", false }, { "madvise", true }, { "always", true },
	};
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	char before[16];
	size_t i;
	char *mem;

	get_thp(before);
	for (i = 0; i < 3; i++) {
		set_thp(settings[i].word);
		mem = ibv_alloc_buf(rdma.base, 8 * MIB, &buf);
		assert_non_null(mem);
		assert_int_equal((uintptr_t)mem % mem_huge(), 0);
		mem_fill(mem, 8 * MIB, i);
		assert_int_equal(thp_bytes(mem, 8 * MIB),
				 settings[i].huge ? 8 * MIB : 0);
		errno = 0;
		mr = ibv_reg_buf_mr(rdma.base, buf, mem, 8 * MIB, RDMA_REMOTE);
		if (rdma.bounces)
			assert_int_equal(errno, EOPNOTSUPP);
		assert_int_equal(!mr, rdma.bounces);
		assert_true(mem_is_filled(mem, 8 * MIB, i));
		if (mr)
			assert_int_equal(ibv_dereg_mr(mr), 0);
		ibv_free_buf(buf);
	}
	set_thp(before);
}

/*
 * Anonymous buffers have no descriptor, so their number is not limited by it.
 * Shared ones have: what there is can be used up, all but what it takes to make
 * one more, and the rest is refused.
 */
static void few_descriptors(void **state)
{
	enum { N = 200, LOW = 64 };
	static struct ibv_buf *buf[N];
	static struct ibv_mr *mr[N];
	const size_t fds = mem_fds();
	struct rlimit old, low;
	int i, n, err = 0;
	char *mem;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = old;
	low.rlim_cur = LOW;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	for (n = 0; n < N; n++) {
		errno = 0;
		mem = ibv_alloc_buf(rdma.pd, 8192, &buf[n]);
		err = errno;
		if (!mem)
			break;
		mr[n] = ibv_reg_buf_mr(rdma.pd, buf[n], mem, 8192, 0);
		assert_non_null(mr[n]);
	}
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	if (rdma.bounces) {
		assert_int_equal(err, EMFILE);
		assert_in_range(n, LOW - 16, LOW - 4);
		assert_int_equal(mem_fds(), fds + n);
	} else {
		assert_int_equal(n, N);
		assert_int_equal(mem_fds(), fds);
	}
	for (i = 0; i < n; i++) {
		assert_int_equal(ibv_dereg_mr(mr[i]), 0);
		ibv_free_buf(buf[i]);
	}
	assert_int_equal(mem_fds(), fds);
}

/*
 * A child without privileges may lock 64 KiB: it gets the memory, and is told
 * by the registration. Memory with a DMA-buf is not locked, so there it is not
 * told anything. It has a device of its own, since uverbs serves only the
 * process that opened it.
 */
static int register_in_child(void)
{
	const struct rlimit low = { 64 << 10, 64 << 10 };
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	struct rdma own;
	char *mem;

	if (setrlimit(RLIMIT_MEMLOCK, &low) || setgid(65534) ||
	    setuid(65534) || rdma_open(&own))
		return 1;
	mem = ibv_alloc_buf(own.pd, MIB, &buf);
	if (!mem)
		return 2;
	errno = 0;
	mr = ibv_reg_buf_mr(own.pd, buf, mem, MIB, 0);
	if (own.bounces ? !mr : mr || errno != ENOMEM)
		return 3;
	if (!ibv_reg_buf_mr(own.pd, buf, mem + 5, 4096, 0))
		return 4;
	return 0;
}

static void little_locked_memory(void **state)
{
	int status;
	pid_t pid;

	assert_int_equal(chmod(rdma.node, 0666), 0);
	if (rdma.bounces)
		assert_int_equal(chmod(SHARED_HEAP, 0666), 0);
	pid = fork();
	assert_int_not_equal(pid, -1);
	if (!pid)
		_exit(register_in_child());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	if (rdma.bounces)
		assert_int_equal(chmod(SHARED_HEAP, 0600), 0);
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
		cmocka_unit_test(each_setting_of_thp),
		cmocka_unit_test(few_descriptors),
		cmocka_unit_test(little_locked_memory),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
