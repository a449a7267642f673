// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A library to preload into a tool, for what cannot be brought about otherwise:
 *
 *   REFUSE="FUNCTION N ERRNO"   the tool's N-th call of the function and all
 *                               after it fail; KILL for ERRNO: it is killed
 *   INSTEAD="PATTERN PATH"      what the tool opens or looks for by a path that
 *                               matches is PATH
 *
 * Calls count from the listing of devices on, over the tool and its children.
 * Those that libraries make are left alone. Each refusal is told on stderr.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

/* A function too, where the macro does not use it */
#undef ibv_reg_mr

#define CALLER __builtin_return_address(0)
#define REAL(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

static char function[64];
static int first;
static int refusal;		/* errno, -1: killed */
static char pattern[256], replacement[256];
static const void *program;	/* where it is loaded */
static bool listed;
static int *calls;		/* shared with children */

static const void *base_of(const void *address)
{
	Dl_info info;

	return dladdr(address, &info) ? info.dli_fbase : NULL;
}

static int errno_of(const char *name)
{
	const char *known;
	int err;

	if (!strcmp(name, "KILL"))
		return -1;
	for (err = 1; err < 200; err++) {
		known = strerrorname_np(err);
		if (known && !strcmp(known, name))
			return err;
	}
	abort();
}

__attribute__((constructor)) static void start(void)
{
	const char *refuse = getenv("REFUSE"), *instead = getenv("INSTEAD");
	char name[32];

	program = base_of((void *)getauxval(AT_PHDR));
	calls = mmap(NULL, sizeof(*calls), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!program || calls == MAP_FAILED)
		abort();
	if (refuse) {
		if (sscanf(refuse, "%63s %d %31s", function, &first, name) != 3)
			abort();
		refusal = errno_of(name);
	}
	if (instead &&
	    sscanf(instead, "%255s %255s", pattern, replacement) != 2)
		abort();
}

static bool refuses(const char *name, const void *caller)
{
	if (!listed || strcmp(name, function) || base_of(caller) != program ||
	    ++*calls < first)
		return false;

	dprintf(STDERR_FILENO, "# refused: %s\n", name);
	if (refusal < 0)
		raise(SIGKILL);
	errno = refusal;
	return true;
}

static const char *instead_of(const char *path, const void *caller)
{
	return *pattern && base_of(caller) == program &&
			       !fnmatch(pattern, path, 0) ?
		       replacement :
		       path;
}

FILE *fopen(const char *path, const char *mode)
{
	return REAL(fopen)(instead_of(path, CALLER), mode);
}

DIR *opendir(const char *path)
{
	return REAL(opendir)(instead_of(path, CALLER));
}

int access(const char *path, int mode)
{
	return REAL(access)(instead_of(path, CALLER), mode);
}

int open(const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = (flags & O_CREAT) ? va_arg(args, mode_t) : 0;
	va_end(args);
	return refuses("open", CALLER) ? -1 : REAL(open)(path, flags, mode);
}

ssize_t read(int fd, void *to, size_t length)
{
	return refuses("read", CALLER) ? -1 : REAL(read)(fd, to, length);
}

int pipe2(int fds[2], int flags)
{
	return refuses("pipe2", CALLER) ? -1 : REAL(pipe2)(fds, flags);
}

pid_t fork(void)
{
	return refuses("fork", CALLER) ? -1 : REAL(fork)();
}

int setenv(const char *name, const char *value, int overwrite)
{
	return refuses("setenv", CALLER) ? -1 :
					   REAL(setenv)(name, value, overwrite);
}

void *calloc(size_t n, size_t size)
{
	return refuses("calloc", CALLER) ? NULL : REAL(calloc)(n, size);
}

int posix_memalign(void **at, size_t alignment, size_t size)
{
	return refuses("posix_memalign", CALLER) ?
		       errno :
		       REAL(posix_memalign)(at, alignment, size);
}

void *mmap(void *addr, size_t length, int prot, int flags, int fd, off_t at)
{
	return refuses("mmap", CALLER) ?
		       MAP_FAILED :
		       REAL(mmap)(addr, length, prot, flags, fd, at);
}

/* Refused, it stands still. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
	if (!refuses("clock_gettime", CALLER))
		return REAL(clock_gettime)(clock, time);
	*time = (struct timespec) {};
	return 0;
}

struct ibv_device **ibv_get_device_list(int *count)
{
	listed = true;
	return refuses("ibv_get_device_list", CALLER) ?
		       NULL :
		       REAL(ibv_get_device_list)(count);
}

static int no_query(struct ibv_context *context,
		    const struct ibv_query_device_ex_input *input,
		    struct ibv_device_attr_ex *attr, size_t size)
{
	return refusal;
}

static struct ibv_pd *no_parent(struct ibv_context *context,
				struct ibv_parent_domain_init_attr *attr)
{
	errno = refusal;
	return NULL;
}

/* The verbs of a context that are called by way of it */
struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct ibv_context *context;
	struct verbs_context *verbs;

	if (refuses("ibv_open_device", CALLER))
		return NULL;
	context = REAL(ibv_open_device)(device);
	verbs = context ? verbs_get_ctx(context) : NULL;
	if (verbs && refuses("ibv_query_device_ex", CALLER))
		verbs->query_device_ex = no_query;
	if (verbs && refuses("ibv_alloc_parent_domain", CALLER))
		verbs->alloc_parent_domain = no_parent;
	return context;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	return refuses("ibv_alloc_pd", CALLER) ? NULL :
						 REAL(ibv_alloc_pd)(context);
}

void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf)
{
	return refuses("ibv_alloc_buf", CALLER) ?
		       NULL :
		       REAL(ibv_alloc_buf)(pd, size, buf);
}

struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf,
			      void *addr, size_t length, int access)
{
	return refuses("ibv_reg_buf_mr", CALLER) ?
		       NULL :
		       REAL(ibv_reg_buf_mr)(pd, buf, addr, length, access);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset,
				 size_t length, uint64_t iova, int fd,
				 int access)
{
	return refuses("ibv_reg_dmabuf_mr", CALLER) ?
		       NULL :
		       REAL(ibv_reg_dmabuf_mr)(pd, offset, length, iova, fd,
					       access);
}

/* The one that ibv_reg_mr() becomes depends on how the tool was compiled. */
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
			  int access)
{
	return refuses("ibv_reg_mr", CALLER) ?
		       NULL :
		       REAL(ibv_reg_mr)(pd, addr, length, access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
				uint64_t iova, unsigned int access)
{
	return refuses("ibv_reg_mr", CALLER) ?
		       NULL :
		       REAL(ibv_reg_mr_iova2)(pd, addr, length, iova, access);
}
