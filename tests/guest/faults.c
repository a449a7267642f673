// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Each system call and each allocation that libibverbs makes for a buffer is
 * failed once in turn, from its allocation over registration and export to its
 * end. Then either the buffer is had without it, or the errno is that of the
 * call; and nothing stays behind.
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

#define SIZE (3 * MIB)

static struct rdma rdma;

static bool armed;
static bool freeing;		/* where a failure leaves the mapping, by design */
static int until_failure = INT_MAX;	/* calls that still succeed */
static const char *failed;	/* name of the call that did not */
static int failed_with;

static bool fails(const char *name, int err)
{
	if (!armed || failed || until_failure--)
		return false;

	failed = name;
	failed_with = err;
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

/* All that is done with a buffer. Returns 0, or the errno of what failed. */
static int use_buffer(bool has_dmabuf)
{
	struct ibv_buf *buf = NULL;
	struct ibv_mr *mr = NULL;
	int ret = 0, fd = -1;
	char *mem;

	armed = true;
	errno = 0;
	mem = ibv_alloc_buf(rdma.pd, SIZE, &buf);
	if (!mem) {
		ret = errno;
		goto out;
	}

	errno = 0;
	mr = ibv_reg_buf_mr(rdma.pd, buf, mem + 1, SIZE - 1, RDMA_REMOTE);
	if (!mr) {
		ret = errno;
		goto out;
	}

	errno = 0;
	fd = ibv_export_buf_dmabuf_fd(buf);
	if (fd < 0 && (has_dmabuf || errno != ENODATA))
		ret = errno;
out:
	/* What a failed call leaves is for a second try to end. */
	if (mr && ibv_dereg_mr(mr)) {
		ret = failed_with;
		armed = false;
		assert_int_equal(ibv_dereg_mr(mr), 0);
		armed = true;
	}
	freeing = true;
	ibv_free_buf(buf);
	freeing = false;
	armed = false;
	if (fd >= 0)
		close(fd);
	return ret;
}

/*
 * Calls without which a buffer is as good, or which are tried in another way;
 * all of one backing, where the process only prefers it.
 */
static bool is_dispensable(const char *word, const char *call)
{
	return !strncmp(word, "prefer_", 7) || !strcmp(call, "open") || !strcmp(call, "read") ||
	       !strcmp(call, "madvise") || !strcmp(call, "malloc") ||
	       !strcmp(call, "ioctl");
}

static void each_call_fails_once(void **state)
{
	const char *word = getenv("IBV_BUF_BACKING") ?: "anon";
	bool has_dmabuf = !strcmp(word, "dmabuf");
	size_t maps, fds, space;
	int n = 0, refused = 0, ret;

	assert_int_equal(use_buffer(has_dmabuf), 0);
	assert_int_equal(use_buffer(has_dmabuf), 0);
	do {
		failed = NULL;
		until_failure = n++;
		maps = mem_maps();
		fds = mem_fds();
		space = mem_space();
		ret = use_buffer(has_dmabuf);
		if (failed)
			print_message("# call %d, %s: %s\n", n, failed,
				      ret ? strerror(ret) : "not missed");

		if (failed && ret && !strcmp(failed, "read"))
			assert_int_equal(ret, ENOMEM);
		else if (failed && ret)
			assert_int_equal(ret, failed_with);
		else if (failed)
			assert_true(is_dispensable(word, failed));
		else
			assert_int_equal(ret, 0);
		refused += !!ret;

		assert_int_equal(mem_maps(), maps);
		assert_int_equal(mem_fds(), fds);
		assert_int_equal(mem_space(), space);
	} while (failed);

	/* The handle, the mapping and the registration at the least */
	assert_true(refused >= 3);
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
		cmocka_unit_test(each_call_fails_once),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
