// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Words for what went wrong with a backing. See buf_cause.h. A cause is only
 * named when errno and what the system shows agree; all else is left to
 * strerror().
 */
#define _GNU_SOURCE
#include <config.h>

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "buf_cause.h"

#define HUGE_DIR "/sys/kernel/mm/hugepages"
#define VERBS_DIR "/sys/class/infiniband_verbs"
#define UDMABUF_LIMIT "/sys/module/udmabuf/parameters/size_limit_mb"
#define OVERFLOW_GID "/proc/sys/kernel/overflowgid"
#define CAP_IPC_LOCK_BIT (1ULL << 14)

/* A device node that memory comes from */
struct node {
	const char *path;
	const char *name;
	const char *sysfs;	/* is there when the kernel has it */
	const char *option;	/* of the kernel */
	const char *match;	/* for a udev rule */
};

static const struct node system_heap = {
	.path = "/dev/dma_heap/system",
	.name = "DMA-buf heap \"system\"",
	.sysfs = "/sys/class/dma_heap/system",
	.option = "CONFIG_DMABUF_HEAPS and CONFIG_DMABUF_HEAPS_SYSTEM",
	.match = "SUBSYSTEM==\"dma_heap\", KERNEL==\"system\"",
};

static const struct node cc_shared_heap = {
	.path = "/dev/dma_heap/system_cc_shared",
	.name = "DMA-buf heap \"system_cc_shared\"",
	.sysfs = "/sys/class/dma_heap/system_cc_shared",
	.option =
		"CONFIG_DMABUF_HEAPS and CONFIG_DMABUF_HEAPS_SYSTEM_CC_SHARED",
	.match = "SUBSYSTEM==\"dma_heap\", KERNEL==\"system_cc_shared\"",
};

static const struct node udmabuf = {
	.path = "/dev/udmabuf",
	.name = "udmabuf",
	.sysfs = "/sys/class/misc/udmabuf",
	.option = "CONFIG_UDMABUF",
	.match = "KERNEL==\"udmabuf\"",
};

#define SAY(field, ...) snprintf(field, sizeof(field), __VA_ARGS__)
#define ADD(field, text) strncat(field, text, sizeof(field) - strlen(field) - 1)

size_t buf_parse_size(const char *text)
{
	unsigned long long n;
	int shift = 0;
	char *end;

	if (!isdigit((unsigned char)*text))
		return 0;
	errno = 0;
	n = strtoull(text, &end, 10);
	switch (*end) {
	case 'K':
		shift = 10;
		break;
	case 'M':
		shift = 20;
		break;
	case 'G':
		shift = 30;
		break;
	}
	if (errno || end[shift ? 1 : 0] || n > SIZE_MAX >> shift)
		return 0;
	return n << shift;
}

const char *buf_size_text(size_t size, char text[BUF_SIZE_LEN])
{
	static const char units[] = { 'K', 'M', 'G' };
	int i = -1;

	while (i < 2 && size && size % 1024 == 0) {
		size /= 1024;
		i++;
	}

	if (i < 0)
		snprintf(text, BUF_SIZE_LEN, "%zu", size);
	else
		snprintf(text, BUF_SIZE_LEN, "%zu%c", size, units[i]);
	return text;
}

bool buf_probe_ok(const struct buf_request *request,
		  const struct buf_probe *probe)
{
	return probe->step == BUF_STEP_DONE &&
	       (request->backing == BUF_AS_CHOSEN ||
		request->backing == probe->got);
}

/* The number in a file that holds nothing else, 0 if it cannot be read */
static size_t read_number(const char *path)
{
	size_t n = 0;
	FILE *file;

	file = fopen(path, "r" STREAM_CLOEXEC);
	if (!file)
		return 0;
	if (fscanf(file, "%zu", &n) != 1)
		n = 0;
	fclose(file);
	return n;
}

/* Whether the limit on locked memory does not hold for this process */
static bool may_lock_all(void)
{
	unsigned long long caps = 0;
	char line[256];
	FILE *file;

	file = fopen("/proc/self/status", "r" STREAM_CLOEXEC);
	if (!file)
		return false;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "CapEff: %llx", &caps) == 1)
			break;
	fclose(file);
	return caps & CAP_IPC_LOCK_BIT;
}

static bool exists(const char *path)
{
	return !access(path, F_OK);
}

static size_t pages_for(size_t size, size_t page_size)
{
	return size / page_size + !!(size % page_size);
}

/*
 * The smallest huge page that does not take twice the size; if there is none,
 * the smallest of all, and *serves is false. 0: the kernel has no huge pages.
 */
static size_t huge_page_size(size_t size, bool *serves)
{
	size_t best = 0, smallest = 0, page, excess, kib;
	struct dirent *entry;
	DIR *dir;

	dir = opendir(HUGE_DIR);
	if (!dir)
		return 0;
	while ((entry = readdir(dir))) {
		if (sscanf(entry->d_name, "hugepages-%zukB", &kib) != 1)
			continue;
		page = kib << 10;
		if (!smallest || page < smallest)
			smallest = page;
		/* What the last page has beyond the buffer */
		excess = page - 1 - (size - 1) % page;
		if (excess < size && (!best || page < best))
			best = page;
	}
	closedir(dir);

	*serves = best;
	return best ? best : smallest;
}

static size_t huge_pool(size_t page_size, const char *name)
{
	char path[128];

	SAY(path, HUGE_DIR "/hugepages-%zukB/%s", page_size >> 10, name);
	return read_number(path);
}

/* Whether vm.nr_hugepages is about pages of this size */
static bool is_default_size(size_t page_size)
{
	size_t kib = 0;
	char line[256];
	FILE *file;

	file = fopen("/proc/meminfo", "r" STREAM_CLOEXEC);
	if (!file)
		return false;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "Hugepagesize: %zu kB", &kib) == 1)
			break;
	fclose(file);
	return kib << 10 == page_size;
}

static void explain_pool(struct buf_cause *cause, size_t size,
			 size_t page_size)
{
	size_t wanted = pages_for(size, page_size);
	size_t idle = huge_pool(page_size, "free_hugepages");
	size_t promised = huge_pool(page_size, "resv_hugepages");
	char text[BUF_SIZE_LEN];
	size_t total;
	int n;

	idle = idle > promised ? idle - promised : 0;
	buf_size_text(page_size, text);
	if (idle >= wanted) {
		SAY(cause->text,
		    "%zu of %zu free huge pages of %s are refused", wanted,
		    idle, text);
		SAY(cause->fix,
		    "see the hugetlb limit of the cgroup and the memory policy");
		return;
	}

	SAY(cause->text, "too few huge pages of %s: %zu wanted, %zu free",
	    text, wanted, idle);
	total = huge_pool(page_size, "nr_hugepages") + wanted - idle;
	n = SAY(cause->fix,
		"as root: echo %zu >" HUGE_DIR
		"/hugepages-%zukB/nr_hugepages; to keep it: ",
		total, page_size >> 10);
	if (is_default_size(page_size))
		snprintf(cause->fix + n, sizeof(cause->fix) - n,
			 "vm.nr_hugepages=%zu in sysctl.conf", total);
	else
		snprintf(cause->fix + n, sizeof(cause->fix) - n,
			 "boot with hugepagesz=%s hugepages=%zu", text, total);
}

static void explain_huge(struct buf_cause *cause, size_t size, int err)
{
	size_t page_size;
	bool serves;
	char text[2][BUF_SIZE_LEN];

	page_size = huge_page_size(size, &serves);
	if (!page_size) {
		SAY(cause->text, "the kernel has no huge pages");
		SAY(cause->fix, "a kernel with CONFIG_HUGETLBFS");
	} else if (!serves) {
		SAY(cause->text,
		    "%s is too little: a huge page of %s is twice that or more",
		    buf_size_text(size, text[0]),
		    buf_size_text(page_size, text[1]));
		SAY(cause->fix, "buffers of more than %s",
		    buf_size_text(page_size / 2, text[0]));
	} else if (err == ENOMEM) {
		explain_pool(cause, size, page_size);
	}
}

static void explain_missing(struct buf_cause *cause, const struct node *node)
{
	unsigned int major, minor;
	char path[128];
	FILE *file;
	int n = 0;

	if (!exists(node->sysfs)) {
		SAY(cause->text, "the kernel has no %s", node->name);
		SAY(cause->fix, "a kernel with %s", node->option);
		return;
	}

	SAY(cause->text, "%s is missing, though the kernel has %s", node->path,
	    node->name);
	SAY(path, "%s/dev", node->sysfs);
	file = fopen(path, "r" STREAM_CLOEXEC);
	if (file) {
		n = fscanf(file, "%u:%u", &major, &minor);
		fclose(file);
	}
	if (n == 2)
		SAY(cause->fix,
		    "as root: mknod %s c %u %u; in a container: pass it in",
		    node->path, major, minor);
}

/* Where the node is for a group, to be in it is all that lacks. */
static void explain_mode(struct buf_cause *cause, const struct node *node)
{
	const struct group *group;
	struct stat st;

	SAY(cause->text, "no permission to open %s", node->path);
	if (stat(node->path, &st) || !st.st_gid || (~st.st_mode & 0060)) {
		SAY(cause->fix,
		    "as root: chmod or chgrp it; to keep that, a udev rule: %s, GROUP=\"...\", MODE=\"0660\"",
		    node->match);
		return;
	}

	group = getgrgid(st.st_gid);
	if (st.st_gid == read_number(OVERFLOW_GID))
		SAY(cause->fix,
		    "its group is not of this user namespace: run the container with the groups of its user");
	else if (group)
		SAY(cause->fix,
		    "join its group: as root: usermod -aG %s USER, and log in anew; in a container: run with group %u",
		    group->gr_name, st.st_gid);
	else
		SAY(cause->fix,
		    "join its group, %u, which has no name here; in a container: run with it",
		    st.st_gid);
}

/* Of what may deny access, the cgroup alone says EPERM. */
static void explain_node(struct buf_cause *cause, const struct node *node,
			 int err)
{
	if (err == ENOENT) {
		explain_missing(cause, node);
	} else if (err == EACCES) {
		explain_mode(cause, node);
	} else if (err == EPERM) {
		SAY(cause->text, "the cgroup does not let %s be opened",
		    node->path);
		SAY(cause->fix,
		    "in a container: pass it in as a device, not as a file; in a service: DeviceAllow=%s rw",
		    node->path);
	}
}

/* A limit of the cgroup on RDMA objects shows as EAGAIN. */
static void explain_error(struct buf_cause *cause, const char *what, int err)
{
	SAY(cause->text, "%s: %s", what, strerror(err));
	if (err == EAGAIN)
		SAY(cause->fix,
		    "see hca_handle and hca_object in rdma.max of the cgroup");
}

static void explain_limit(struct buf_cause *cause, size_t size)
{
	size_t limit = read_number(UDMABUF_LIMIT);
	size_t mib = pages_for(size, 1 << 20);
	char text[BUF_SIZE_LEN];

	if (!limit || mib <= limit)
		return;
	SAY(cause->text, "udmabuf makes no DMA-buf of %s: its limit is %zuM",
	    buf_size_text(size, text), limit);
	SAY(cause->fix, "as root: echo %zu >" UDMABUF_LIMIT, mib);
}

/* A device that imports DMA-bufs gets them from the heap, if there is one. */
static void explain_dmabuf(struct buf_cause *cause, size_t size, int err,
			   bool imports)
{
	if (err == EFBIG)
		explain_limit(cause, size);
	else if (imports && (err == ENOENT || exists(system_heap.path)))
		explain_node(cause, &system_heap, err);
	else
		explain_node(cause, &udmabuf, err);

	if (!imports && err == ENOENT && exists(system_heap.sysfs))
		ADD(cause->text,
		    ", and the device cannot import a heap's DMA-buf");
	if (imports && err == ENOENT && !exists(system_heap.sysfs))
		ADD(cause->fix, ", or with CONFIG_UDMABUF");
}

static void explain_private(struct buf_cause *cause)
{
	SAY(cause->text, "the device cannot reach private memory");
	SAY(cause->fix, "cc_shared, by a parent domain that allows it");
}

static void explain_alloc(const struct buf_request *request,
			  const struct buf_probe *probe,
			  struct buf_cause *cause)
{
	enum buf_backing wanted = buf_wanted(request, probe);
	int err = probe->err;

	/* To mend what failed would not help. */
	if (probe->bounces && wanted != BUF_CC_SHARED) {
		explain_private(cause);
		return;
	}

	if (err == EMFILE) {
		SAY(cause->text, "no file descriptor is left to the process");
		SAY(cause->fix, "raise RLIMIT_NOFILE (ulimit -n)");
		return;
	}

	if (wanted == BUF_HUGE)
		explain_huge(cause, request->size, err);
	else if (wanted == BUF_DMABUF)
		explain_dmabuf(cause, request->size, err, probe->imports);
	else if (wanted == BUF_CC_SHARED)
		explain_node(cause, &cc_shared_heap, err);

	if (!*cause->text && err == EOPNOTSUPP)
		SAY(cause->text,
		    "the provider of the device has no backing %s",
		    buf_backing_word(wanted));
	else if (!*cause->text)
		SAY(cause->text, "cannot be allocated: %s", strerror(err));
}

static void explain_reg(const struct buf_request *request,
			const struct buf_probe *probe, struct buf_cause *cause)
{
	struct rlimit limit = { .rlim_cur = RLIM_INFINITY };
	char text[2][BUF_SIZE_LEN];

	getrlimit(RLIMIT_MEMLOCK, &limit);
	if (probe->bounces && probe->got != BUF_CC_SHARED) {
		explain_private(cause);
	} else if (probe->err == ENOMEM &&
		   limit.rlim_cur < request->size && !may_lock_all()) {
		SAY(cause->text,
		    "RLIMIT_MEMLOCK is %s, so %s cannot be registered",
		    buf_size_text(limit.rlim_cur, text[0]),
		    buf_size_text(request->size, text[1]));
		SAY(cause->fix,
		    "raise it (ulimit -l, limits.conf, LimitMEMLOCK=)");
	} else {
		explain_error(cause, "cannot be registered", probe->err);
	}
}

static void explain_parent_domain(const struct buf_probe *probe,
				  struct buf_cause *cause)
{
	if (probe->err == EOPNOTSUPP || probe->err == ENOSYS)
		SAY(cause->text,
		    "the provider of the device has no parent domains");
	else if (probe->bounces)
		explain_node(cause, &cc_shared_heap, probe->err);

	if (!*cause->text)
		explain_error(cause, "no parent domain", probe->err);
}

/* Says why a device node such as uverbs0 cannot be opened, if it cannot. */
static void explain_uverbs(const char *uverbs, struct buf_cause *cause)
{
	char path[320], sysfs[320];
	struct node node = {
		.path = path,
		.name = "the device",
		.sysfs = sysfs,
		.match = "SUBSYSTEM==\"infiniband_verbs\"",
	};

	SAY(path, "/dev/infiniband/%s", uverbs);
	SAY(sysfs, VERBS_DIR "/%s", uverbs);
	if (exists(sysfs) && faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS))
		explain_node(cause, &node, errno);
}

/* The library tries more than one way, and errno is that of the last. */
static void explain_open(const struct ibv_device *device, int err,
			 struct buf_cause *cause)
{
	explain_uverbs(device->dev_name, cause);
	if (!*cause->text)
		explain_error(cause, "cannot open the device", err);
}

void buf_explain(const struct buf_request *request,
		 const struct buf_probe *probe, struct buf_cause *cause)
{
	*cause->text = '\0';
	*cause->fix = '\0';

	switch (probe->step) {
	case BUF_STEP_DONE:
		if (!buf_probe_ok(request, probe))
			SAY(cause->text, "the library gives %s instead",
			    buf_backing_word(probe->got));
		break;
	case BUF_STEP_MEMORY:
		SAY(cause->text,
		    "not tried: only %zuM of memory are available",
		    buf_memory_available() >> 20);
		break;
	case BUF_STEP_START:
		SAY(cause->text, "cannot try it: %s", strerror(probe->err));
		break;
	case BUF_STEP_OPEN:
		explain_open(request->device, probe->err, cause);
		break;
	case BUF_STEP_PD:
		explain_error(cause, "no protection domain", probe->err);
		break;
	case BUF_STEP_PARENT_DOMAIN:
		explain_parent_domain(probe, cause);
		break;
	case BUF_STEP_ALLOC:
		explain_alloc(request, probe, cause);
		break;
	case BUF_STEP_REG:
		explain_reg(request, probe, cause);
		break;
	case BUF_STEP_KILLED:
		SAY(cause->text, "killed while trying it: %s",
		    strsignal(probe->err));
		break;
	}
}

static bool is_device(const char *uverbs, const char *name)
{
	char path[320], found[IBV_SYSFS_NAME_MAX] = "";
	FILE *file;

	if (!name)
		return true;
	SAY(path, VERBS_DIR "/%s/ibdev", uverbs);
	file = fopen(path, "r" STREAM_CLOEXEC);
	if (!file)
		return false;
	if (fscanf(file, "%63s", found) != 1)
		*found = '\0';
	fclose(file);
	return !strcmp(found, name);
}

/* The library leaves out a device whose node is missing. */
void buf_explain_unlisted(const char *name, struct buf_cause *cause)
{
	struct dirent *entry;
	DIR *dir;

	*cause->text = '\0';
	*cause->fix = '\0';
	dir = opendir(VERBS_DIR);
	while (dir && !*cause->text && (entry = readdir(dir)))
		if (!strncmp(entry->d_name, "uverbs", 6) &&
		    is_device(entry->d_name, name))
			explain_uverbs(entry->d_name, cause);
	if (dir)
		closedir(dir);

	if (!*cause->text && name)
		SAY(cause->text, "there is no RDMA device '%s': see ibv_devices",
		    name);
	else if (!*cause->text)
		SAY(cause->text, "there is no RDMA device");
}
