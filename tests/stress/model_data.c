// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Access to memory: by the process, by the device with a key, and by a child.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../guest/sim.h"
#include "model.h"

#define MOST 512

static void pick_bytes(struct rng *rng, char *to, size_t n)
{
	memset(to, rng_next(rng), n);
	to[0] = rng_next(rng);
	to[n - 1] = rng_next(rng);
}

void call_touch(struct thread *thread)
{
	struct rng *rng = &thread->rng;
	int at = pick(rng, REGIONS);
	struct region *region = &thread->region[at];
	size_t offset, n;

	if (!region->addr)
		return;
	offset = pick(rng, region->size);
	n = 1 + pick(rng, region->size - offset);
	if (n > MOST)
		n = MOST;
	call(thread, "%zu bytes to buf%d + %zu", n, at, offset);
	pick_bytes(rng, region->addr + offset, n);
	memcpy(region->want + offset, region->addr + offset, n);
	region_check(thread, at);
}

/* By the pair of QPs, whose domain must be that of the MR in the kernel */
static int carry(struct thread *thread, const struct key *key, uint64_t at,
		 void *data, size_t n, bool write)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)thread->stage,
		.length = n,
		.lkey = thread->stage_mr->lkey,
	};
	struct ibv_wc wc;

	if (write)
		memcpy(thread->stage, data, n);
	if (rdma_send(thread->pair.qp[0],
		      write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, &sge, 1, at,
		      key->mr->rkey) || rdma_wait(thread->pair.cq[0], &wc))
		return EIO;
	if (wc.status)
		return EREMOTEIO;
	if (!write)
		memcpy(data, thread->stage, n);
	return 0;
}

static int reach(struct thread *thread, const struct key *key, uint64_t at,
		 void *data, size_t n, bool write)
{
	if (thread->world->config->native)
		return native_access(key->mr, at, data, n, write);
	if (thread->world->rdma.carries)
		return carry(thread, key, at, data, n, write);
	return write ? sim_write(key->mr->lkey, at, data, n) :
		       sim_read(key->mr->lkey, at, data, n);
}

/*
 * A QP fails for ever when it is refused, so it does only what is allowed. To
 * an MR on demand rxe of Linux 7.3 writes at the start of the page, wherever it
 * is told to, and however the MR was registered.
 */
static bool may_carry(const struct thread *thread, const struct key *key,
		      bool write)
{
	const struct domain *domain = &thread->domain[key->domain];

	if (key->access & IBV_ACCESS_ON_DEMAND)
		return false;
	return (key->domain == DOMAIN_BASE || domain->base == DOMAIN_BASE) &&
	       key->access & (write ? IBV_ACCESS_REMOTE_WRITE :
				      IBV_ACCESS_REMOTE_READ);
}

/* What the device refuses, at the ends of the MR and for want of permission */
static void reach_beyond(struct thread *thread, const struct key *key)
{
	char two[2] = {};
	uint64_t end = key->iova + key->length;

	if (reach(thread, key, key->iova - 1, two, 1, false) != EFAULT ||
	    reach(thread, key, end, two, 1, true) != EFAULT ||
	    reach(thread, key, end - 1, two, 2, true) != EFAULT)
		halt(thread, "beyond an MR", "the device reaches memory");
	if (!(key->access & (IBV_ACCESS_LOCAL_WRITE |
			     IBV_ACCESS_REMOTE_WRITE)) &&
	    reach(thread, key, key->iova, two, 1, true) != EACCES)
		halt(thread, "an MR to read", "the device writes to it");
}

void call_access(struct thread *thread)
{
	struct rng *rng = &thread->rng;
	int at = pick(rng, KEYS);
	struct key *key = &thread->key[at];
	bool write = once_in(rng, 2), carries = thread->world->rdma.carries;
	bool beyond = once_in(rng, 8);
	struct region *region;
	char data[MOST];
	size_t offset, n;
	char *want;
	int err;

	if (!key->mr)
		return;
	if (carries ? !may_carry(thread, key, write) :
	    write && !(key->access & IBV_ACCESS_LOCAL_WRITE))
		return;

	region = &thread->region[key->region];
	offset = pick(rng, key->length);
	n = 1 + pick(rng, key->length - offset);
	if (n > MOST)
		n = MOST;
	want = region->want + key->offset + offset;
	call(thread, "the device %s %zu bytes at %zu of mr%d",
	     write ? "writes" : "reads", n, offset, at);
	if (write)
		pick_bytes(rng, data, n);
	err = reach(thread, key, key->iova + offset, data, n, write);
	if (err)
		halt(thread, "the device cannot reach an MR", "%s",
		     strerror(err));
	if (write)
		memcpy(want, data, n);
	else if (memcmp(want, data, n))
		halt(thread, "what the device reads", "%zu bytes at %zu of mr%d",
		     n, offset, at);
	if (beyond && !carries)
		reach_beyond(thread, key);
	region_check(thread, key->region);
	atomic_fetch_add(&thread->world->shared->accesses, 1);
}

/*
 * A child sees the memory as it is. What it writes to private memory the parent
 * does not see, and the device goes on to reach that of the parent.
 */
static void child(const struct thread *thread, bool protected)
{
	int i;

	for (i = 0; i < REGIONS && !protected; i++) {
		const struct region *region = &thread->region[i];

		if (!region->addr)
			continue;
		if (memcmp(region->addr, region->want, region->size))
			_exit(1);
		if (region->memory == MEM_PRIVATE && !region->has_dmabuf)
			memset(region->addr, 0xcc,
			       region->size < MOST ? region->size : MOST);
	}
	_exit(0);
}

void call_fork(struct thread *thread)
{
	bool protected = ibv_is_fork_initialized() == IBV_FORK_ENABLED;
	int i, status;
	pid_t pid;

	call(thread, "fork()");
	pid = fork();
	if (!pid)
		child(thread, protected);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		halt(thread, "no child", "%s", strerror(errno));
	if (status)
		halt(thread, "a child sees other memory", "status %#x", status);
	for (i = 0; i < REGIONS; i++)
		if (thread->region[i].addr)
			region_check(thread, i);
	atomic_fetch_add(&thread->world->shared->forks, 1);
}
