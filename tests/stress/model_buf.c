// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The calls for buffers: allocation, export, and handles for memory that is
 * there already.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "model.h"

/* Nobody has this for a buffer. */
#define NO_BUF ((struct ibv_buf *)0x5a5a5a5a)

void region_check(struct thread *thread, int at)
{
	const struct region *region = &thread->region[at];
	size_t i = 0;

	if (!memcmp(region->addr, region->want, region->size))
		return;
	while (region->addr[i] == region->want[i])
		i++;
	halt(thread, "memory changed",
	     "byte %zu of %zu in buf%d is %#hhx, not %#hhx", i, region->size,
	     at, region->addr[i], region->want[i]);
}

static void region_forget(struct region *region)
{
	free(region->want);
	memset(region, 0, sizeof(*region));
	region->fd = -1;
}

/* The buffer counts, or no longer, as one of the thread. */
static void arrive(struct thread *thread, int at)
{
	const struct region *region = &thread->region[at];

	thread->domain[region->domain].users++;
	thread->fds += region->has_dmabuf;
	thread->counts.heap_pieces += region->memory == MEM_SHARED;
}

static void leave(struct thread *thread, int at)
{
	const struct region *region = &thread->region[at];

	thread->domain[region->domain].users--;
	thread->fds -= region->has_dmabuf;
	thread->counts.heap_pieces -= region->memory == MEM_SHARED;
}

/* Each magnitude is as likely; beyond a huge page seldom. */
static size_t pick_size(struct rng *rng)
{
	size_t top = (size_t)1 << pick(rng, once_in(rng, 64) ? 22 : 15);

	return top + pick(rng, top);
}

/* A size that cannot be had */
static size_t pick_bad_size(struct rng *rng)
{
	switch (pick(rng, 3)) {
	case 0:
		return 0;
	case 1:
		return SIZE_MAX - pick(rng, 2 * PAGE);
	default:
		return (size_t)1 << (47 + pick(rng, 17));
	}
}

static void check_new(struct thread *thread, int at)
{
	struct region *region = &thread->region[at];
	size_t whole = mem_whole(region->size);
	int i;

	if ((uintptr_t)region->addr % PAGE)
		halt(thread, "not at a page", "%p", region->addr);
	if (!mem_is_zero(region->addr, whole))
		halt(thread, "not zero", "%zu bytes at %p", whole,
		     region->addr);
	for (i = 0; i < REGIONS; i++) {
		const struct region *other = &thread->region[i];

		if (i != at && other->addr &&
		    region->addr < other->addr + mem_whole(other->size) &&
		    other->addr < region->addr + whole)
			halt(thread, "buffers share a page",
			     "buf%d at %p and buf%d", at, region->addr, i);
	}
}

void call_alloc_buf(struct thread *thread)
{
	struct rng *rng = &thread->rng;
	int to = REGION_FIRST + pick(rng, REGIONS - REGION_FIRST);
	int from = pick(rng, DOMAINS);
	bool no_pd = once_in(rng, 64), no_buf = once_in(rng, 64);
	size_t size = once_in(rng, 16) ? pick_bad_size(rng) : pick_size(rng);
	struct region *region = &thread->region[to];
	struct domain *domain = &thread->domain[from];
	struct ibv_buf *buf = NO_BUF;
	const struct caps *caps = &thread->world->caps;
	struct expect expect = {};
	char *addr;

	if (region->addr || !domain->pd)
		return;

	call(thread, "ibv_alloc_buf(%s%d, %zu, %s%d)", no_pd ? "NULL not pd" : "pd",
	     from, size, no_buf ? "NULL not &buf" : "&buf", to);
	contract_alloc_buf(caps, domain->shared, !no_pd && !no_buf, size,
			   &expect);
	errno = 0;
	addr = ibv_alloc_buf(no_pd ? NULL : domain->pd, size,
			     no_buf ? NULL : &buf);
	outcome(thread, V_ALLOC_BUF, &expect, addr ? 0 : errno);
	if (!addr) {
		if (buf != NO_BUF)
			halt(thread, "*buf changed", "to %p", (void *)buf);
		return;
	}

	*region = (struct region) {
		.addr = addr,
		.size = size,
		.memory = contract_memory(caps, domain->shared),
		.has_dmabuf = contract_has_dmabuf(caps, domain->shared),
		.fd = -1,
		.buf = buf,
		.domain = from,
		.serial = ++thread->serial,
	};
	check_new(thread, to);
	mem_fill(addr, size, rng_next(rng));
	region->want = malloc(size);
	if (!region->want)
		abort();
	memcpy(region->want, addr, size);
	arrive(thread, to);
}

void free_region(struct thread *thread, int at)
{
	struct region *region = &thread->region[at];
	struct expect expect = {};
	struct export *export;
	bool exported = false;
	int i;

	region_check(thread, at);
	call(thread, "ibv_free_buf(buf%d)", at);
	may(&expect, 0);
	ibv_free_buf(region->buf);
	outcome(thread, V_FREE_BUF, &expect, 0);

	leave(thread, at);
	if (thread->world->config->fault == FAULT_LEAK && region->keys >= 2 &&
	    dup(STDERR_FILENO) < 0)
		abort();
	for (i = 0; i < EXPORTS; i++) {
		export = &thread->export[i];
		if (export->fd < 0 || export->region != at)
			continue;
		/* What is exported lives on. */
		export->region = -1;
		if (export->shared)
			exported = true;
	}
	thread->counts.heap_pieces += exported;
	region_forget(region);
}

/* Also NULL, and a handle of the other kind, which stays */
void call_free_buf(struct thread *thread)
{
	struct rng *rng = &thread->rng;
	int at = REGION_FIRST + pick(rng, REGIONS - REGION_FIRST);
	int handle = pick(rng, HANDLES);
	bool null = once_in(rng, 64), wrong = once_in(rng, 32);
	struct expect expect = {};

	may(&expect, 0);
	if (null) {
		call(thread, "ibv_free_buf(NULL)");
		ibv_free_buf(NULL);
		outcome(thread, V_FREE_BUF, &expect, 0);
	} else if (wrong) {
		if (!thread->handle[handle].buf)
			return;
		call(thread, "ibv_free_buf(user%d)", handle);
		ibv_free_buf(thread->handle[handle].buf);
		outcome(thread, V_FREE_BUF, &expect, 0);
	} else if (thread->region[at].addr && !thread->region[at].users) {
		free_region(thread, at);
	}
}

/* The bytes of the descriptor from its start on are those of the region. */
static void check_export(struct thread *thread, int fd, int at)
{
	struct region *region = &thread->region[at];
	size_t i, whole = mem_whole(region->size);
	char *map;

	if (fcntl(fd, F_GETFD) != FD_CLOEXEC)
		halt(thread, "not close-on-exec", "fd %d", fd);
	if (lseek(fd, 0, SEEK_END) != (off_t)whole)
		halt(thread, "size of a DMA-buf", "%lld, not %zu",
		     (long long)lseek(fd, 0, SEEK_END), whole);
	map = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		halt(thread, "an export cannot be mapped", "%s",
		     strerror(errno));
	if (memcmp(map, region->want, region->size))
		halt(thread, "exported bytes", "those of buf%d differ", at);
	i = pick(&thread->rng, region->size);
	map[i] ^= 0x55;
	region->want[i] ^= 0x55;
	munmap(map, whole);
	region_check(thread, at);
}

/* A user buffer of a DMA-buf begins where that does. */
void call_export(struct thread *thread)
{
	struct rng *rng = &thread->rng;
	int to = pick(rng, EXPORTS), at = pick(rng, REGIONS);
	int handle = once_in(rng, 3) ? (int)pick(rng, HANDLES) : -1;
	bool null = once_in(rng, 32);
	struct ibv_buf *buf = NULL;
	struct expect expect = {};
	bool has = false;
	int fd;

	if (thread->export[to].fd >= 0)
		return;
	if (null) {
		may(&expect, EINVAL);
		call(thread, "ibv_export_buf_dmabuf_fd(NULL)");
	} else if (handle >= 0) {
		buf = thread->handle[handle].buf;
		has = thread->handle[handle].by_fd;
		at = thread->handle[handle].region;
		call(thread, "fd%d = ibv_export_buf_dmabuf_fd(user%d)", to,
		     handle);
	} else {
		buf = thread->region[at].buf;
		has = thread->region[at].has_dmabuf;
		call(thread, "fd%d = ibv_export_buf_dmabuf_fd(buf%d)", to, at);
	}
	if (!null && !buf)
		return;
	if (!null)
		may(&expect, has ? 0 : ENODATA);
	errno = 0;
	fd = ibv_export_buf_dmabuf_fd(buf);
	outcome(thread, V_EXPORT, &expect, fd < 0 ? errno : 0);
	if (fd < 0) {
		if (fd != -1)
			halt(thread, "a failed export", "is %d", fd);
		return;
	}
	check_export(thread, fd, at);
	thread->export[to] = (struct export) {
		.fd = fd,
		.region = at,
		.serial = thread->region[at].serial,
		.shared = thread->region[at].memory == MEM_SHARED,
	};
	thread->fds++;
}

void call_close_export(struct thread *thread)
{
	struct export *export = &thread->export[pick(&thread->rng, EXPORTS)];

	if (export->fd < 0)
		return;
	call(thread, "close(fd%d)", (int)(export - thread->export));
	if (export->region >= 0)
		check_export(thread, export->fd, export->region);
	close_export(thread, export - thread->export);
}

/* With the last descriptor of a freed buffer its memory goes. */
void close_export(struct thread *thread, int at)
{
	struct export *export = &thread->export[at];
	bool last = export->region < 0 && export->shared;
	int i;

	close(export->fd);
	export->fd = -1;
	thread->fds--;
	for (i = 0; i < EXPORTS; i++)
		if (thread->export[i].fd >= 0 &&
		    thread->export[i].serial == export->serial)
			last = false;
	thread->counts.heap_pieces -= last;
}

static bool is_exported(const struct thread *thread, int region)
{
	int i;

	for (i = 0; i < EXPORTS; i++)
		if (thread->export[i].fd >= 0 &&
		    thread->export[i].region == region)
			return true;
	return false;
}

/* What is wrong with a handle that is asked for */
enum wrong {
	RIGHT, NO_PD, NO_ADDR, NO_SIZE, WRAPS, FD_BELOW, FD_CLOSED, FD_OTHER,
	FD_SHORT, WRONGS,
};

static const int wrong_errors[] = {
	[NO_PD] = EINVAL, [NO_ADDR] = EINVAL, [NO_SIZE] = EINVAL,
	[WRAPS] = EINVAL, [FD_BELOW] = EINVAL, [FD_CLOSED] = EBADF,
	[FD_OTHER] = EINVAL, [FD_SHORT] = EINVAL,
};

static const char *const wrong_names[] = {
	[RIGHT] = "", [NO_PD] = " pd NULL", [NO_ADDR] = " addr NULL",
	[NO_SIZE] = " size 0", [WRAPS] = " range wraps",
	[FD_BELOW] = " fd -2", [FD_CLOSED] = " fd closed",
	[FD_OTHER] = " fd no DMA-buf", [FD_SHORT] = " DMA-buf too short",
};

void call_alloc_user_buf(struct thread *thread)
{
	struct rng *rng = &thread->rng;
	int to = pick(rng, HANDLES), from = pick(rng, DOMAINS);
	int at = pick(rng, REGIONS);
	bool by_fd = once_in(rng, 2);
	enum wrong wrong = once_in(rng, 4) ? pick(rng, WRONGS) : RIGHT;
	struct region *region = &thread->region[at];
	struct handle *handle = &thread->handle[to];
	struct ibv_pd *pd = thread->domain[from].pd;
	size_t offset = 0, size;
	struct expect expect = {};
	int fd = -1, other = -1;
	struct ibv_buf *buf;
	char *addr;

	if (handle->buf || !pd || !region->addr)
		return;
	by_fd = by_fd && region->has_dmabuf;
	if (wrong == FD_SHORT && !by_fd)
		return;

	/* Of a DMA-buf the first byte is at addr. */
	if (!by_fd)
		offset = pick(rng, region->size);
	size = 1 + pick(rng, region->size - offset);
	addr = region->addr + offset;
	if (by_fd)
		other = region->buf ? ibv_export_buf_dmabuf_fd(region->buf) :
				      fcntl(region->fd, F_DUPFD_CLOEXEC, 0);
	fd = other;

	call(thread, "user%d = ibv_alloc_user_buf(pd%d, buf%d + %zu, %zu, %s)%s",
	     to, from, at, offset, size, by_fd ? "its DMA-buf" : "-1",
	     wrong_names[wrong]);
	switch (wrong) {
	case NO_PD:
		pd = NULL;
		break;
	case NO_ADDR:
		addr = NULL;
		break;
	case NO_SIZE:
		size = 0;
		break;
	case WRAPS:
		size = SIZE_MAX - pick(rng, PAGE);
		break;
	case FD_BELOW:
		fd = -2 - (int)pick(rng, 1000);
		break;
	case FD_CLOSED:
		fd = 1000000;
		break;
	case FD_OTHER:
		fd = STDERR_FILENO;
		break;
	case FD_SHORT:
		size = mem_whole(region->size) + 1 + pick(rng, PAGE);
		break;
	default:
		break;
	}
	may(&expect, wrong == RIGHT ? 0 : wrong_errors[wrong]);
	errno = 0;
	buf = ibv_alloc_user_buf(pd, addr, size, fd);
	outcome(thread, V_ALLOC_USER_BUF, &expect, buf ? 0 : errno);
	/* The handle has a descriptor of its own. */
	if (other >= 0)
		close(other);
	if (!buf)
		return;

	*handle = (struct handle) {
		.buf = buf,
		.domain = from,
		.region = at,
		.offset = offset,
		.size = size,
		.by_fd = by_fd,
	};
	thread->domain[from].users++;
	region->users++;
	thread->fds += by_fd;
	region_check(thread, at);
}

void free_handle(struct thread *thread, int at)
{
	struct handle *handle = &thread->handle[at];
	struct expect expect = {};

	call(thread, "ibv_free_user_buf(user%d)", at);
	may(&expect, 0);
	ibv_free_user_buf(handle->buf);
	outcome(thread, V_FREE_USER_BUF, &expect, 0);
	region_check(thread, handle->region);
	thread->domain[handle->domain].users--;
	thread->region[handle->region].users--;
	thread->fds -= handle->by_fd;
	memset(handle, 0, sizeof(*handle));
}

/* Also NULL, and a buffer of the other kind, which stays */
void call_free_user_buf(struct thread *thread)
{
	struct rng *rng = &thread->rng;
	int at = pick(rng, HANDLES), region = pick(rng, REGIONS);
	bool null = once_in(rng, 64), wrong = once_in(rng, 32);
	struct expect expect = {};

	may(&expect, 0);
	if (null) {
		call(thread, "ibv_free_user_buf(NULL)");
		ibv_free_user_buf(NULL);
		outcome(thread, V_FREE_USER_BUF, &expect, 0);
	} else if (wrong) {
		if (!thread->region[region].buf)
			return;
		call(thread, "ibv_free_user_buf(buf%d)", region);
		ibv_free_user_buf(thread->region[region].buf);
		outcome(thread, V_FREE_USER_BUF, &expect, 0);
		region_check(thread, region);
	} else if (thread->handle[at].buf && !thread->handle[at].users) {
		free_handle(thread, at);
	}
}

/* Gives a buffer of the process's domains to the next thread, takes theirs. */
void call_park(struct thread *thread)
{
	int at = REGION_FIRST + pick(&thread->rng, REGIONS - REGION_FIRST);
	struct region *region = &thread->region[at], taken;
	struct world *world = thread->world;

	if (region->addr && (region->users || is_exported(thread, at) ||
			     region->domain >= DOMAIN_FIRST))
		return;
	call(thread, "buf%d for the one that another thread parked", at);
	if (region->addr)
		leave(thread, at);
	pthread_mutex_lock(&world->mutex);
	taken = world->parked;
	world->parked = *region;
	pthread_mutex_unlock(&world->mutex);
	*region = taken;
	if (!region->addr)
		return;
	region->serial = ++thread->serial;
	arrive(thread, at);
	region_check(thread, at);
}
