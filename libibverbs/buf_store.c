// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The store of freed buffers. See buf_store.h.
 *
 * To map pages, to have the kernel find and clear each of them as it is pinned,
 * and to unmap them takes several times as long as to register a few pages that
 * are there. So whole buffers are kept, with their mapping and the fork
 * protection that it has: neither to keep one nor to reuse it is a system call,
 * let alone one that splits a mapping. Lengths recur, so only one of the same
 * length is reused; lengths that do not recur age out.
 */
#include <pthread.h>
#include <string.h>

#include <ccan/array_size.h>
#include <ccan/list.h>

#include <infiniband/driver.h>

#include "buf_store.h"
#include "ibverbs.h"

/* Of the smallest pages that Linux has: the step of the lengths */
#define STEP 4096

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static bool usable;

/* Guarded by the mutex. In both lists the one that was freed last is first. */
static LIST_HEAD(by_age);
static struct list_head by_length[BUF_STORE_LARGEST / STEP];
static size_t bytes;

/* How many forks lie between the process that loaded the library and this */
static unsigned int generation;

static void lock(void)
{
	pthread_mutex_lock(&mutex);
}

static void unlock(void)
{
	pthread_mutex_unlock(&mutex);
}

static void unlock_in_child(void)
{
	generation++;
	unlock();
}

/* No thread is in here while another forks, so the child can go on. */
static void init(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(by_length); i++)
		list_head_init(&by_length[i]);
	usable = !pthread_atfork(lock, unlock, unlock_in_child);
}

static struct list_head *same_length(size_t length)
{
	return &by_length[length / STEP - 1];
}

static void take_out(struct ibv_buf *buf)
{
	list_del(&buf->by_age);
	list_del(&buf->by_length);
	bytes -= buf->map_length;
}

/* The oldest ones go until the rest is no more than so many bytes. */
static void shrink(size_t limit, struct list_head *gone)
{
	struct ibv_buf *buf;

	while (bytes > limit) {
		buf = list_tail(&by_age, struct ibv_buf, by_age);
		take_out(buf);
		list_add(gone, &buf->by_age);
	}
}

/* What a child cannot use is older than all that it keeps itself. */
static void drop_lost(struct list_head *gone)
{
	struct ibv_buf *oldest = list_tail(&by_age, struct ibv_buf, by_age);

	if (oldest && buf_store_lost(oldest))
		shrink(0, gone);
}

unsigned int buf_store_generation(void)
{
	return generation;
}

bool buf_store_lost(const struct ibv_buf *buf)
{
	return buf->generation != generation && verbs_fork_protects();
}

/*
 * Cleared here rather than when it is kept: so it is zero whatever a stray
 * pointer wrote to it meanwhile. Until then only this process can read it, as
 * nothing of it is registered.
 */
struct ibv_buf *buf_store_take(size_t length, struct list_head *gone)
{
	struct ibv_buf *buf;

	pthread_once(&once, init);
	lock();
	drop_lost(gone);
	buf = list_top(same_length(length), struct ibv_buf, by_length);
	if (buf)
		take_out(buf);
	unlock();

	if (buf)
		memset(buf->addr, 0, buf->map_length);
	return buf;
}

/*
 * A device could still write to a buffer that is registered, so its memory must
 * not become another's.
 */
static bool may_keep(const struct ibv_buf *buf)
{
	return usable && buf->backing == VERBS_BUF_ANON &&
	       buf->map_length <= BUF_STORE_LARGEST &&
	       atomic_load(&buf->users) == 1 && !buf_store_lost(buf);
}

void buf_store_put(struct ibv_buf *buf, struct list_head *gone)
{
	pthread_once(&once, init);
	if (!may_keep(buf)) {
		list_add(gone, &buf->by_age);
		return;
	}

	/* Nobody's: to free it once more is a crash, not two owners later. */
	buf->pd = NULL;

	lock();
	drop_lost(gone);
	list_add(&by_age, &buf->by_age);
	list_add(same_length(buf->map_length), &buf->by_length);
	bytes += buf->map_length;
	shrink(BUF_STORE_LIMIT, gone);
	unlock();
}

void buf_store_empty(struct list_head *gone)
{
	pthread_once(&once, init);
	lock();
	shrink(0, gone);
	unlock();
}
