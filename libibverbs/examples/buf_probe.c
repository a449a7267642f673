// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * One probe of a backing. See buf_probe.h.
 */
#define _GNU_SOURCE
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "buf_probe.h"

static const char *const words[] = {
	[BUF_AS_CHOSEN] = "as chosen",
	[BUF_ANON] = "anon",
	[BUF_HUGE] = "huge",
	[BUF_DMABUF] = "dmabuf",
	[BUF_CC_SHARED] = "cc_shared",
};

const char *buf_backing_word(enum buf_backing backing)
{
	return words[backing];
}

/* Adds up what /proc/self/smaps tells of the mappings that a buffer lies in. */
static void read_smaps(struct buf_probe *probe, uintptr_t addr, size_t size)
{
	uintptr_t start, end;
	bool inside = false;
	char line[256];
	size_t kib;
	FILE *file;

	file = fopen("/proc/self/smaps", "r" STREAM_CLOEXEC);
	if (!file)
		return;

	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &start, &end) ==
		    2)
			inside = start < addr + size && end > addr;
		else if (!inside)
			continue;
		else if (sscanf(line, "KernelPageSize: %zu kB", &kib) == 1)
			probe->page_size = kib << 10;
		else if (sscanf(line, "AnonHugePages: %zu kB", &kib) == 1 ||
			 sscanf(line, "ShmemPmdMapped: %zu kB", &kib) == 1)
			probe->thp_bytes += kib << 10;
	}

	fclose(file);
	/* A mapping may go on beyond the buffer. */
	if (probe->thp_bytes > size)
		probe->thp_bytes = size;
}

/* Who made the DMA-buf: a heap by its name, or udmabuf */
static void read_exporter(struct buf_probe *probe, int fd)
{
	char path[64], line[256];
	FILE *file;

	snprintf(probe->memory, sizeof(probe->memory), "DMA-buf");
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	file = fopen(path, "r" STREAM_CLOEXEC);
	if (!file)
		return;

	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "exp_name: %31s", probe->memory) == 1)
			break;

	fclose(file);
}

/*
 * Whether the device registers DMA-bufs. That needs none: where it does, the
 * complaint is about the file descriptor.
 */
static bool imports_dmabufs(struct ibv_pd *pd)
{
	ibv_reg_dmabuf_mr(pd, 0, sysconf(_SC_PAGESIZE), 0, -1,
			  IBV_ACCESS_LOCAL_WRITE);
	return errno != EOPNOTSUPP && errno != EPROTONOSUPPORT &&
	       errno != ENOSYS;
}

/*
 * What memory it is. A DMA-buf of an opted-in parent domain is of shared memory
 * where the device bounces, and only there.
 */
static void inspect(struct ibv_buf *buf, char *addr,
		    const struct buf_request *request, struct buf_probe *probe)
{
	bool shared = request->opted_in && probe->bounces;
	size_t page_size = sysconf(_SC_PAGESIZE);
	size_t at;
	int fd;

	for (at = 0; at < request->size; at += page_size)
		*(volatile char *)(addr + at) = 0;
	read_smaps(probe, (uintptr_t)addr, request->size);

	fd = ibv_export_buf_dmabuf_fd(buf);
	if (fd >= 0) {
		read_exporter(probe, fd);
		close(fd);
		probe->got = shared ? BUF_CC_SHARED : BUF_DMABUF;
	} else if (probe->page_size > page_size) {
		snprintf(probe->memory, sizeof(probe->memory), "hugetlb");
		probe->got = BUF_HUGE;
	} else {
		snprintf(probe->memory, sizeof(probe->memory), "anonymous");
		probe->got = BUF_ANON;
	}
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1e6 + ts.tv_nsec / 1e3;
}

static int fail(struct buf_probe *probe, enum buf_step step)
{
	probe->step = step;
	probe->err = errno;
	return -1;
}

/* One round. Where usec is NULL, it looks at the memory instead. */
static int use_buffer(struct ibv_pd *pd, const struct buf_request *request,
		      struct buf_probe *probe, double *usec)
{
	double at[BUF_OPS + 1];
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	void *addr;
	int i;

	at[BUF_OP_ALLOC] = now();
	addr = ibv_alloc_buf(pd, request->size, &buf);
	if (!addr)
		return fail(probe, BUF_STEP_ALLOC);
	if (!usec)
		inspect(buf, addr, request, probe);

	at[BUF_OP_REG] = now();
	mr = ibv_reg_buf_mr(pd, buf, addr, request->size,
			    IBV_ACCESS_LOCAL_WRITE);
	if (!mr) {
		fail(probe, BUF_STEP_REG);
		ibv_free_buf(buf);
		return -1;
	}

	at[BUF_OP_DEREG] = now();
	ibv_dereg_mr(mr);
	at[BUF_OP_FREE] = now();
	ibv_free_buf(buf);
	at[BUF_OPS] = now();

	if (usec)
		for (i = 0; i < BUF_OPS; i++)
			usec[i] = at[i + 1] - at[i];
	return 0;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void use_buffers(struct ibv_pd *pd, const struct buf_request *request,
			struct buf_probe *probe)
{
	double usec[BUF_MAX_ROUNDS][BUF_OPS], sorted[BUF_MAX_ROUNDS];
	int round, i;

	if (use_buffer(pd, request, probe, NULL))
		return;

	for (round = 0; round < request->rounds; round++)
		if (use_buffer(pd, request, probe, usec[round]))
			return;

	for (i = 0; request->rounds && i < BUF_OPS; i++) {
		for (round = 0; round < request->rounds; round++)
			sorted[round] = usec[round][i];
		qsort(sorted, request->rounds, sizeof(*sorted), compare);
		probe->usec[i] = sorted[request->rounds / 2];
	}

	probe->step = BUF_STEP_DONE;
}

static void use_parent_domain(struct ibv_pd *pd,
			      const struct buf_request *request,
			      struct buf_probe *probe)
{
	struct ibv_parent_domain_init_attr attr = {
		.pd = pd,
		.comp_mask =
			IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC,
	};
	struct ibv_pd *parent;

	parent = ibv_alloc_parent_domain(pd->context, &attr);
	if (!parent) {
		fail(probe, BUF_STEP_PARENT_DOMAIN);
		return;
	}

	use_buffers(parent, request, probe);
	ibv_dealloc_pd(parent);
}

static void use_device(const struct buf_request *request,
		       struct buf_probe *probe)
{
	struct ibv_device_attr_ex attr;
	struct ibv_context *context;
	struct ibv_pd *pd;

	errno = 0;
	context = ibv_open_device(request->device);
	if (!context) {
		fail(probe, BUF_STEP_OPEN);
		return;
	}

	pd = ibv_alloc_pd(context);
	if (!pd) {
		fail(probe, BUF_STEP_PD);
		goto out;
	}

	if (!ibv_query_device_ex(context, NULL, &attr))
		probe->bounces = attr.device_cap_flags_ex &
				 IBV_DEVICE_CC_DMA_BOUNCE;
	probe->imports = imports_dmabufs(pd);

	if (request->opted_in)
		use_parent_domain(pd, request, probe);
	else
		use_buffers(pd, request, probe);

	ibv_dealloc_pd(pd);
out:
	ibv_close_device(context);
}

/* Shared memory is not asked for by a word but by the parent domain. */
static bool choose(enum buf_backing backing)
{
	if (backing == BUF_AS_CHOSEN || backing == BUF_CC_SHARED)
		return true;
	return !setenv("IBV_BUF_BACKING", words[backing], 1);
}

size_t buf_memory_available(void)
{
	size_t kib = SIZE_MAX >> 10;
	char line[256];
	FILE *file;

	file = fopen("/proc/meminfo", "r" STREAM_CLOEXEC);
	if (!file)
		return SIZE_MAX;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %zu kB", &kib) == 1)
			break;
	fclose(file);
	return kib << 10;
}

size_t buf_thp_size(void)
{
	size_t size = 0;
	FILE *file;

	file = fopen("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size",
		     "r" STREAM_CLOEXEC);
	if (!file)
		return 0;
	if (fscanf(file, "%zu", &size) != 1)
		size = 0;
	fclose(file);
	return size;
}

enum buf_backing buf_wanted(const struct buf_request *request,
			    const struct buf_probe *probe)
{
	const char *word = getenv("IBV_BUF_BACKING");

	if (request->backing != BUF_AS_CHOSEN)
		return request->backing;
	if (request->opted_in && probe->bounces)
		return BUF_CC_SHARED;
	if (word && !strcmp(word, words[BUF_HUGE]))
		return BUF_HUGE;
	if (word && !strcmp(word, words[BUF_DMABUF]))
		return BUF_DMABUF;
	return BUF_ANON;
}

void buf_probe(const struct buf_request *request, struct buf_probe *probe)
{
	int pipe_fds[2], status = 0;
	ssize_t len;
	pid_t pid;

	memset(probe, 0, sizeof(*probe));
	/* Reserved huge pages are not among what is available. */
	if (buf_wanted(request, probe) != BUF_HUGE &&
	    request->size > buf_memory_available()) {
		probe->step = BUF_STEP_MEMORY;
		probe->err = ENOMEM;
		return;
	}

	if (pipe2(pipe_fds, O_CLOEXEC)) {
		fail(probe, BUF_STEP_START);
		return;
	}

	pid = fork();
	if (!pid) {
		if (choose(request->backing))
			use_device(request, probe);
		else
			fail(probe, BUF_STEP_START);
		len = write(pipe_fds[1], probe, sizeof(*probe));
		_exit(len != sizeof(*probe));
	}

	if (pid < 0)
		fail(probe, BUF_STEP_START);
	close(pipe_fds[1]);
	if (pid > 0) {
		len = read(pipe_fds[0], probe, sizeof(*probe));
		waitpid(pid, &status, 0);
		if (len != sizeof(*probe)) {
			memset(probe, 0, sizeof(*probe));
			probe->step = BUF_STEP_KILLED;
			probe->err = WTERMSIG(status);
		}
	}
	close(pipe_fds[0]);
}
