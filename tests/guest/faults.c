// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Each system call and each allocation that libibverbs makes for a buffer is
 * failed once in turn, from its allocation over registration and export to its
 * end; where the device bounces, from its parent domain on. Then either the
 * buffer is had without it, or the errno is that of the call; and nothing stays
 * behind. On the test device, the kernel fails in turn too: its heap of shared
 * memory, and what the device makes.
 *
 * The functions below take the place of the C library's for libibverbs and the
 * provider too. They are armed while the library runs only.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "mem.h"
#include "rdma.h"
#include "sim.h"
#include "store.h"

static struct rdma rdma;

static bool armed;
static bool opting_in;
static bool freeing;		/* where a failure leaves the mapping, by design */
static int until_failure = INT_MAX;	/* calls that still succeed */
static const char *failed;	/* name of the call that did not */
static int failed_with;
static bool failed_opting_in;

static bool fails(const char *name, int err)
{
	if (!armed || failed || until_failure--)
		return false;

	failed = name;
	failed_with = err;
	failed_opting_in = opting_in;
	errno = err;
	return true;
}

extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_malloc(size_t size);

void *calloc(size_t n, size_t size)
{
	return fails("calloc", ENOMEM) ? NULL : __libc_calloc(n, size);
}

void *malloc(size_t size)
{
	return fails("malloc", ENOMEM) ? NULL : __libc_malloc(size);
}

void *mmap(void *addr, size_t length, int prot, int flags, int fd, off_t at)
{
	if (fails("mmap", ENOMEM))
		return MAP_FAILED;
	return (void *)syscall(SYS_mmap, addr, length, prot, flags, fd, at);
}

int munmap(void *addr, size_t length)
{
	if (!freeing && fails("munmap", ENOMEM))
		return -1;
	return syscall(SYS_munmap, addr, length);
}

int madvise(void *addr, size_t length, int advice)
{
	if (!freeing && fails("madvise", ENOMEM))
		return -1;
	return syscall(SYS_madvise, addr, length, advice);
}

int open(const char *path, int flags, ...)
{
	if (fails("open", EMFILE))
		return -1;
	return syscall(SYS_openat, AT_FDCWD, path, flags, 0);
}

int openat(int dir, const char *path, int flags, ...)
{
	if (fails("open", EMFILE))
		return -1;
	return syscall(SYS_openat, dir, path, flags, 0);
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	void *arg;

	if (fails("ioctl", EDQUOT))
		return -1;
	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	return syscall(SYS_ioctl, fd, request, arg);
}

int fcntl(int fd, int command, ...)
{
	va_list args;
	long arg;

	if (fails("fcntl", EMFILE))
		return -1;
	va_start(args, command);
	arg = va_arg(args, long);
	va_end(args);
	return syscall(SYS_fcntl, fd, command, arg);
}

int memfd_create(const char *name, unsigned int flags)
{
	if (fails("memfd_create", ENFILE))
		return -1;
	return syscall(SYS_memfd_create, name, flags);
}

int fallocate(int fd, int mode, off_t at, off_t length)
{
	if (fails("fallocate", ENOSPC))
		return -1;
	return syscall(SYS_fallocate, fd, mode, at, length);
}

ssize_t read(int fd, void *buf, size_t size)
{
	if (fails("read", EFAULT))
		return -1;
	return syscall(SYS_read, fd, buf, size);
}

ssize_t write(int fd, const void *buf, size_t size)
{
	if (fails("write", EDQUOT))
		return -1;
	return syscall(SYS_write, fd, buf, size);
}

/* Where it ended */
enum step {
	PARENT,
	ALLOC,
	REG,
	EXPORT,
	DONE,
};

struct outcome {
	enum step step;
	int err;		/* errno of the step, 0 when done */
};

static struct outcome outcome_at(enum step step)
{
	return (struct outcome) { step, errno };
}

static struct ibv_pd *opt_in(void)
{
	struct ibv_parent_domain_init_attr attr = {
		.pd = rdma.base,
		.comp_mask =
			IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC,
	};

	return ibv_alloc_parent_domain(rdma.context, &attr);
}

/* From the parent domain on, which is pd itself where the device reaches all */
static struct outcome use_pd(struct ibv_pd *pd, size_t size, bool has_dmabuf)
{
	struct outcome outcome;
	struct ibv_buf *buf = NULL;
	struct ibv_mr *mr;
	char *mem;
	int fd;

	errno = 0;
	mem = ibv_alloc_buf(pd, size, &buf);
	if (!mem)
		return outcome_at(ALLOC);

	errno = 0;
	mr = ibv_reg_buf_mr(pd, buf, mem + 1, size - 1, RDMA_REMOTE);
	if (!mr) {
		outcome = outcome_at(REG);
		goto out;
	}

	errno = 0;
	fd = ibv_export_buf_dmabuf_fd(buf);
	if (fd < 0 && (has_dmabuf || errno != ENODATA))
		outcome = outcome_at(EXPORT);
	else
		outcome = (struct outcome) { DONE, 0 };
	if (fd >= 0)
		close(fd);

	/* What a failed call leaves is for a second try to end. */
	if (ibv_dereg_mr(mr)) {
		outcome = (struct outcome) { DONE, failed_with };
		armed = false;
		assert_int_equal(ibv_dereg_mr(mr), 0);
		armed = true;
	}
out:
	freeing = true;
	ibv_free_buf(buf);
	freeing = false;
	return outcome;
}

/* All that is done with a buffer */
static struct outcome use_buffer(size_t size, bool has_dmabuf)
{
	struct ibv_pd *pd = rdma.pd;
	struct outcome outcome;

	armed = true;
	errno = 0;
	if (rdma.bounces) {
		opting_in = true;
		pd = opt_in();
		opting_in = false;
	}
	outcome = pd ? use_pd(pd, size, has_dmabuf) : outcome_at(PARENT);
	armed = false;
	if (pd && rdma.bounces)
		assert_int_equal(ibv_dealloc_pd(pd), 0);
	return outcome;
}

/* What there is before, and has to be after: the process, device and heap */
struct state {
	size_t maps;
	size_t fds;
	size_t space;
	size_t mrs;
	uint64_t mr_bytes;
	struct sim_heap heap;
};

static struct state state_now(void)
{
	struct state state = {
		.maps = mem_maps(),
		.fds = mem_fds(),
		.space = mem_space(),
	};

	if (sim_is_there()) {
		state.mrs = sim_count("mr");
		state.mr_bytes = sim_bytes("mr");
		state.heap = sim_heap();
	}
	return state;
}

static void assert_as_before(const struct state *before)
{
	struct state now = state_now();

	assert_int_equal(now.maps, before->maps);
	assert_int_equal(now.fds, before->fds);
	assert_int_equal(now.space, before->space);
	assert_int_equal(now.mrs, before->mrs);
	assert_int_equal(now.mr_bytes, before->mr_bytes);
	assert_int_equal(now.heap.pieces, before->heap.pieces);
	assert_int_equal(now.heap.bytes, before->heap.bytes);
}

static const char *word(void)
{
	return getenv("IBV_BUF_BACKING") ?: "anon";
}

static bool has_dmabuf(void)
{
	return rdma.bounces || !strcmp(word(), "dmabuf");
}

/*
 * Calls without which a buffer is as good, or which are tried in another way;
 * all of one backing, where the process only prefers it. Shared memory has no
 * other way, but for what is only read beforehand.
 */
static bool is_dispensable(const char *call)
{
	if (rdma.bounces)
		return !strcmp(call, "malloc") ||
		       /* One of mlx5's questions of what the device can do */
		       (rdma.is_mlx5 && failed_opting_in &&
			!strcmp(call, "ioctl"));
	/* A udmabuf takes the place of what the heap gave. */
	if (rdma.imports && !strcmp(call, "mmap"))
		return strcmp(word(), "anon") && strcmp(word(), "huge");

	return !strncmp(word(), "prefer_", 7) || !strcmp(call, "open") ||
	       !strcmp(call, "read") || !strcmp(call, "madvise") ||
	       !strcmp(call, "malloc") || !strcmp(call, "ioctl");
}

static void fail_each_call_once(size_t size)
{
	struct outcome outcome;
	struct state before;
	int n = 0, refused = 0;

	until_failure = INT_MAX;
	assert_int_equal(use_buffer(size, has_dmabuf()).err, 0);
	assert_int_equal(use_buffer(size, has_dmabuf()).err, 0);
	store_empty(rdma.pd);
	do {
		failed = NULL;
		until_failure = n++;
		before = state_now();
		outcome = use_buffer(size, has_dmabuf());
		store_empty(rdma.pd);
		if (failed)
			print_message("# call %d, %s: %s\n", n, failed,
				      outcome.err ? strerror(outcome.err) :
						    "not missed");

		if (failed && outcome.err && !strcmp(failed, "read"))
			assert_int_equal(outcome.err, ENOMEM);
		else if (failed && outcome.err)
			assert_int_equal(outcome.err, failed_with);
		else if (failed)
			assert_true(is_dispensable(failed));
		else
			assert_int_equal(outcome.err, 0);
		refused += !!outcome.err;
		assert_as_before(&before);
	} while (failed);

	/* The handle, the mapping and the registration at the least */
	assert_true(refused >= 3);
}

static void each_call_fails_once(void **unused)
{
	(void)unused;
	fail_each_call_once(3 * MIB);
}

/* One that is kept when it is freed, if it is anonymous */
static void each_call_fails_once_for_a_small_one(void **unused)
{
	(void)unused;
	fail_each_call_once(12 * KIB);
}

static const int errors[] = { ENOMEM, EINTR, EPERM, ENOSPC, EIO, EINVAL };

/* The n-th MR from now: the cause comes through, and the next one is made. */
static void device_fails(void **unused)
{
	struct outcome outcome;
	struct state before;
	size_t i, n;

	(void)unused;
	until_failure = INT_MAX;
	for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		before = state_now();
		sim_fail("mr", 2, errors[i]);
		for (n = 1; n <= 3; n++) {
			outcome = use_buffer(3 * MIB, has_dmabuf());
			assert_int_equal(outcome.step, n == 2 ? REG : DONE);
			assert_int_equal(outcome.err, n == 2 ? errors[i] : 0);
			assert_as_before(&before);
		}
	}
}

/* So with the heap: no private memory takes the place of what it has not. */
static void heap_fails(void **unused)
{
	struct outcome outcome;
	struct state before;
	size_t i, n;

	(void)unused;
	until_failure = INT_MAX;
	for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		before = state_now();
		sim_heap_fail(2, errors[i]);
		for (n = 1; n <= 3; n++) {
			outcome = use_buffer(3 * MIB, true);
			assert_int_equal(outcome.step, n == 2 ? ALLOC : DONE);
			assert_int_equal(outcome.err, n == 2 ? errors[i] : 0);
			assert_as_before(&before);
		}
	}
}

static int teardown(void **state)
{
	if (sim_is_there()) {
		sim_fail("mr", 0, EIO);
		sim_heap_fail(0, EIO);
	}
	rdma_close(&rdma);
	return 0;
}

int main(void)
{
	const struct CMUnitTest small =
		cmocka_unit_test(each_call_fails_once_for_a_small_one);
	const struct CMUnitTest of_device = cmocka_unit_test(device_fails);
	const struct CMUnitTest of_heap = cmocka_unit_test(heap_fails);
	struct CMUnitTest tests[4] = {
		cmocka_unit_test(each_call_fails_once),
	};
	size_t n = 1;

	if (rdma_open(&rdma))
		return 1;
	/* Too small for huge pages */
	if (strcmp(word(), "huge") || rdma.bounces)
		tests[n++] = small;
	if (!rdma.is_rxe)
		tests[n++] = of_device;
	if (rdma.bounces)
		tests[n++] = of_heap;
	return _cmocka_run_group_tests("faults", tests, n, NULL, teardown);
}
