// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Calls of the C library that fail, where no kernel makes them fail: want of
 * memory, what the library reads of the system, the hooks of fork(). The cause
 * comes through, and nothing stays behind. Failures of the kernel are met in
 * the guest.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stub.h"

#define DMABUF_FS_MAGIC 0x444d4142

static const char *failing;	/* name of the call that fails, or NULL */
static int fail_after;		/* such calls that still succeed */
static int fail_with;
static bool has_failed;
static char *meminfo;		/* reads as this, unless NULL */

static void fail_call(const char *call, int after, int err)
{
	failing = call;
	fail_after = after;
	fail_with = err;
	has_failed = false;
}

static bool fails(const char *call)
{
	if (!failing || strcmp(call, failing) || fail_after--)
		return false;
	failing = NULL;
	has_failed = true;
	errno = fail_with;
	return true;
}

/* AddressSanitizer has its own. */
#ifndef __SANITIZE_ADDRESS__
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_malloc(size_t size);

void *calloc(size_t n, size_t size)
{
	return fails("calloc") ? NULL : __libc_calloc(n, size);
}

void *malloc(size_t size)
{
	return fails("malloc") ? NULL : __libc_malloc(size);
}
#endif

int __register_atfork(void (*prepare)(void), void (*parent)(void),
		      void (*child)(void), void *dso)
{
	return fails("pthread_atfork") ? fail_with : 0;
}

int open(const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = (flags & O_CREAT) ? va_arg(args, mode_t) : 0;
	va_end(args);
	if (fails(path))
		return -1;
	/* A heap that gives nothing */
	if (!strcmp(path, "/dev/dma_heap/system"))
		path = "/dev/null";
	return syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
	int fd;

	if (fails(path))
		return NULL;
	if (meminfo && !strcmp(path, "/proc/meminfo"))
		return fmemopen(meminfo, strlen(meminfo), mode);
	fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
	return fd < 0 ? NULL : fdopen(fd, mode);
}

ssize_t getline(char **line, size_t *room, FILE *file)
{
	return fails("getline") ? -1 : getdelim(line, room, '\n', file);
}

DIR *opendir(const char *path)
{
	int fd;

	if (fails("opendir"))
		return NULL;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
	return fd < 0 ? NULL : fdopendir(fd);
}

int fcntl(int fd, int command, ...)
{
	va_list args;
	long arg;

	va_start(args, command);
	arg = va_arg(args, long);
	va_end(args);
	return fails("fcntl") ? -1 : syscall(SYS_fcntl, fd, command, arg);
}

int fallocate(int fd, int mode, off_t at, off_t length)
{
	return fails("fallocate") ? -1 :
		syscall(SYS_fallocate, fd, mode, at, length);
}

int madvise(void *addr, size_t length, int advice)
{
	return fails("madvise") ? -1 :
		syscall(SYS_madvise, addr, length, advice);
}

int munmap(void *addr, size_t length)
{
	return fails("munmap") ? -1 : syscall(SYS_munmap, addr, length);
}

off_t lseek(int fd, off_t at, int whence)
{
	return fails("lseek") ? -1 : syscall(SYS_lseek, fd, at, whence);
}

int fstatfs(int fd, struct statfs *fs)
{
	if (fails("fstatfs"))
		return -1;
	fs->f_type = DMABUF_FS_MAGIC;
	return 0;
}

static int count_fds(void)
{
	int n = 0, fd;

	for (fd = 0; fd < 256; fd++)
		n += syscall(SYS_fcntl, fd, F_GETFD, 0) >= 0;
	return n;
}

static struct verbs_pd *pd_of(struct stub *stub)
{
	static struct verbs_pd pd;

	pd = (struct verbs_pd) { .pd.context = &stub->vctx.context };
	return &pd;
}

/* A handle for memory with a DMA-buf: each call that it takes */
static void user_buf(void **state)
{
	static const char *const calls[] = {
#ifndef __SANITIZE_ADDRESS__
		"calloc",
#endif
		"/proc/self/smaps", "getline", "fstatfs", "lseek", "fcntl",
	};
	struct verbs_pd *pd = pd_of(*state);
	int memfd, fds, errs[] = { ENOMEM, EMFILE, EIO };
	struct ibv_buf *buf;
	size_t i, err;
	void *addr;

	memfd = memfd_create("dmabuf", MFD_CLOEXEC);
	assert_int_equal(ftruncate(memfd, 4096), 0);
	addr = mmap(NULL, 4096, PROT_READ, MAP_SHARED, memfd, 0);
	assert_ptr_not_equal(addr, MAP_FAILED);
	assert_int_equal(ibv_is_fork_initialized(), IBV_FORK_ENABLED);

	fds = count_fds();
	for (i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		for (err = 0; err < 3; err++) {
			fail_call(calls[i], 0, errs[i ? err : 0]);
			errno = 0;
			assert_null(verbs_pd_alloc_user_buf(&pd->pd, addr,
							    4096, memfd));
			assert_true(has_failed);
			assert_int_equal(errno, errs[i ? err : 0]);
			assert_int_equal(count_fds(), fds);
			assert_int_equal(pd->users, 0);
		}
	}

	errno = 0;
	assert_null(verbs_pd_alloc_user_buf(&pd->pd, addr, 4097, memfd));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(count_fds(), fds);

	buf = verbs_pd_alloc_user_buf(&pd->pd, addr, 4096, memfd);
	assert_non_null(buf);
	assert_int_equal(count_fds(), fds + 1);
	assert_int_equal(pd->users, 1);
	verbs_pd_free_buf(buf);
	assert_int_equal(count_fds(), fds);
	assert_int_equal(pd->users, 0);
	munmap(addr, 4096);
	close(memfd);
}

#ifndef __SANITIZE_ADDRESS__
static void pool_without_memory(void **state)
{
	struct verbs_pd *pd = pd_of(*state);
	struct verbs_buf_pool *pool = NULL;
	int n;

	for (n = 0; !pool; n++) {
		fail_call("calloc", n, ENOMEM);
		errno = 0;
		pool = verbs_buf_pool_create(&pd->pd, 64);
		if (!pool)
			assert_int_equal(errno, ENOMEM);
	}
	assert_int_equal(n, 3);

	for (n = 0; n < 2; n++) {
		fail_call("calloc", n, ENOMEM);
		errno = 0;
		assert_null(verbs_buf_pool_alloc_record(pool));
		assert_true(has_failed);
		assert_int_equal(errno, ENOMEM);
		assert_int_equal(pd->users, 0);
	}
	verbs_buf_pool_destroy(pool);
}

static void parent_domain_without_memory(void **state)
{
	struct verbs_pd *pd = pd_of(*state);
	struct ibv_parent_domain_init_attr attr = { .pd = &pd->pd };

	fail_call("calloc", 0, ENOMEM);
	errno = 0;
	assert_null(verbs_pd_alloc_parent_domain(pd->pd.context, &attr));
	assert_true(has_failed);
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(pd->users, 0);
}
#endif

static void *map_pages(size_t pages)
{
	void *addr = mmap(NULL, pages * page_size(), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(addr, MAP_FAILED);
	return addr;
}

static bool is_protected(const void *addr)
{
	struct vma vma;

	assert_true(find_vma(addr, &vma));
	return vma.dontfork;
}

/* Half of a range: what was protected stays so, and what was not does not. */
static void protection_that_fails_halfway(void **state)
{
	size_t page = page_size();
	char *addr = map_pages(3);

	assert_int_equal(ibv_dontfork_range(addr + page, page), 0);
	fail_call("madvise", 1, ENOMEM);
	assert_int_not_equal(ibv_dontfork_range(addr, 3 * page), 0);
	assert_true(has_failed);
	assert_false(is_protected(addr));
	assert_true(is_protected(addr + page));
	assert_false(is_protected(addr + 2 * page));
	assert_int_equal(ibv_dofork_range(addr + page, page), 0);
	assert_false(is_protected(addr + page));
	munmap(addr, 3 * page);
}

#ifndef __SANITIZE_ADDRESS__
/*
 * Two neighbours are one entry of the books. Without memory to split it the
 * first one's protection cannot end; its handle does.
 */
static void protection_that_cannot_end(void **state)
{
	struct verbs_pd *pd = pd_of(*state);
	size_t page = page_size();
	char *addr = map_pages(2);
	struct ibv_buf *buf[2];

	buf[0] = verbs_pd_alloc_user_buf(&pd->pd, addr, page, -1);
	buf[1] = verbs_pd_alloc_user_buf(&pd->pd, addr + page, page, -1);
	assert_true(buf[0] && buf[1]);
	fail_call("malloc", 0, ENOMEM);
	verbs_pd_free_buf(buf[0]);
	assert_true(has_failed);
	assert_true(is_protected(addr));
	assert_int_equal(pd->users, 1);
	verbs_pd_free_buf(buf[1]);
	assert_false(is_protected(addr + page));
	assert_int_equal(ibv_dofork_range(addr, page), 0);
	munmap(addr, 2 * page);
}

/* The same of the library's own memory: nothing else may come to lie there. */
static void memory_stays_with_its_protection(void **state)
{
	enum { N = 8 };
	struct stub *stub = *state;
	size_t size = 1 << 20;
	struct ibv_buf *buf[N];
	char *addr[N];
	int i, kept = 0;

	for (i = 0; i < N; i++) {
		addr[i] = ibv_alloc_buf(&stub->pd, size, &buf[i]);
		assert_non_null(addr[i]);
	}
	/* Every other one, so that each splits an entry */
	for (i = 1; i < N; i += 2) {
		fail_call("malloc", 0, ENOMEM);
		ibv_free_buf(buf[i]);
		if (!has_failed)
			continue;
		assert_true(is_protected(addr[i]));
		kept++;
	}
	failing = NULL;
	assert_true(kept);
	for (i = 0; i < N; i += 2)
		ibv_free_buf(buf[i]);
}
#endif

/* At the limit of mappings, the memory is given back if not the addresses. */
static void unmap_that_fails(void **state)
{
	struct stub *stub = *state;
	struct ibv_buf *buf;
	char *addr;

	addr = ibv_alloc_buf(&stub->pd, 1 << 20, &buf);
	assert_non_null(addr);
	memset(addr, 0xa5, 1 << 20);
	fail_call("munmap", 0, ENOMEM);
	ibv_free_buf(buf);
	assert_true(has_failed);
	assert_int_equal(addr[0], 0);
	assert_int_equal(addr[(1 << 20) - 1], 0);
	munmap(addr, 1 << 20);
}

/* DMA-bufs: what is wrong comes before any system call for the memory. */
static void dmabuf_in_child(void)
{
	static const enum verbs_buf_backing dmabuf[] = {
		VERBS_BUF_DMABUF, VERBS_BUF_END,
	};
	static const enum verbs_buf_backing udmabuf[] = {
		VERBS_BUF_UDMABUF, VERBS_BUF_END,
	};
	struct stub *stub = stub_open();
	int fds = count_fds();
	struct ibv_buf *buf;

	setenv("IBV_BUF_BACKING", "dmabuf", 1);
	errno = 0;
	assert_null(verbs_alloc_buf_from(&stub->pd, SIZE_MAX, dmabuf, &buf));
	assert_int_equal(errno, ENOMEM);

	meminfo = "MemAvailable:  1 kB\n";
	errno = 0;
	assert_null(verbs_alloc_buf_from(&stub->pd, 8192, dmabuf, &buf));
	assert_int_equal(errno, ENOMEM);
	meminfo = NULL;

	/* A signal does not count; what fails is the device that comes next. */
	fail_call("fallocate", 0, EINTR);
	errno = 0;
	assert_null(verbs_alloc_buf_from(&stub->pd, 8192, udmabuf, &buf));
	assert_true(has_failed);
	fail_call("/dev/udmabuf", 0, EACCES);
	assert_null(verbs_alloc_buf_from(&stub->pd, 8192, udmabuf, &buf));
	assert_int_equal(errno, EACCES);
	assert_int_equal(count_fds(), fds);
	stub_close(stub);
}

/* Where the system does not tell of its huge pages, and why */
static void huge_pages_unknown(void **state)
{
	static const enum verbs_buf_backing huge[] = {
		VERBS_BUF_HUGE, VERBS_BUF_END,
	};
	static const int errs[][2] = {
		{ ENOENT, EOPNOTSUPP }, { EMFILE, EMFILE }, { EACCES, EACCES },
	};
	struct stub *stub = *state;
	struct ibv_buf *buf;
	size_t i;

	for (i = 0; i < 3; i++) {
		fail_call("opendir", 0, errs[i][0]);
		errno = 0;
		assert_null(verbs_alloc_buf_from(&stub->pd, 4 << 20, huge,
						 &buf));
		assert_true(has_failed);
		assert_int_equal(errno, errs[i][1]);
	}
	errno = 0;
	assert_null(verbs_alloc_buf_from(&stub->pd, SIZE_MAX, huge, &buf));
	assert_int_equal(errno, ENOMEM);
}

/* Nothing is kept where a child could find the store locked. */
static void store_without_fork_hooks(void)
{
	struct stub *stub = stub_open();
	struct ibv_buf *buf;
	struct vma vma;
	char *addr;

	fail_call("pthread_atfork", 0, ENOMEM);
	addr = ibv_alloc_buf(&stub->pd, 4096, &buf);
	assert_non_null(addr);
	assert_true(has_failed);
	ibv_free_buf(buf);
	assert_false(find_vma(addr, &vma));
	stub_close(stub);
}

/* Then there is no protection, and another try may have it. */
static void fork_init_without_hooks(void)
{
	fail_call("pthread_atfork", 0, ENOMEM);
	assert_int_equal(ibv_fork_init(), ENOMEM);
	assert_true(has_failed);
	assert_int_equal(ibv_is_fork_initialized(), IBV_FORK_DISABLED);
	assert_int_equal(ibv_fork_init(), 0);
	assert_int_equal(ibv_is_fork_initialized(), IBV_FORK_ENABLED);
}

/* Each in a process of its own, since the library does it once. */
static void before_all_else(void **state)
{
	static void (*const in_child[])(void) = {
		store_without_fork_hooks, fork_init_without_hooks,
		dmabuf_in_child,
	};
	int status;
	size_t i;
	pid_t child;

	for (i = 0; i < 3; i++) {
		child = fork();
		assert_int_not_equal(child, -1);
		if (!child) {
			in_child[i]();
			exit(0);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
	}
}

static int init_fork(void **state)
{
	return ibv_fork_init() || stub_setup(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* First, before this process has done any of it */
		cmocka_unit_test(before_all_else),
		cmocka_unit_test_setup_teardown(user_buf, init_fork,
						stub_teardown),
		cmocka_unit_test_setup_teardown(protection_that_fails_halfway,
						stub_setup, stub_teardown),
		cmocka_unit_test_setup_teardown(unmap_that_fails, stub_setup,
						stub_teardown),
#ifndef __SANITIZE_ADDRESS__
		cmocka_unit_test_setup_teardown(protection_that_cannot_end,
						stub_setup, stub_teardown),
		cmocka_unit_test_setup_teardown(memory_stays_with_its_protection,
						stub_setup, stub_teardown),
		cmocka_unit_test_setup_teardown(pool_without_memory, stub_setup,
						stub_teardown),
		cmocka_unit_test_setup_teardown(parent_domain_without_memory,
						stub_setup, stub_teardown),
#endif
		cmocka_unit_test_setup_teardown(huge_pages_unknown, stub_setup,
						stub_teardown),
	};

	setenv("IBV_BUF_BACKING", "prefer_huge", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
