// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The pages of a pool. Each chunk is a buffer of shared memory with a bitmap of
 * its pages. Chunks are indexed by their longest run of free pages, so that an
 * allocation finds the fullest chunk that has room for it without looking at
 * any other: its cost depends on the size of a chunk, not on how many there
 * are. One chunk without use is kept, so that a program that has one object
 * at a time does not go to the kernel for each.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ccan/minmax.h>
#include <util/bitmap.h>

#include "buf.h"
#include "buf_pool.h"
#include "ibverbs.h"

#define CHUNK_KIB_DEFAULT 2048
#define CHUNK_KIB_MAX 65536

struct chunk {
	cl_map_item_t by_addr;
	struct list_node by_run;
	struct ibv_buf *buf;
	size_t pages;
	size_t used_pages;
	unsigned long used[];	/* bitmap of pages */
};

/*
 * The size of chunks, by the environment variable IBV_BUF_POOL_KIB. A set-id
 * program must not be led by whoever starts it.
 */
static size_t chunk_size(void)
{
	const char *text = secure_getenv("IBV_BUF_POOL_KIB");
	unsigned long kib;
	char *end;

	if (!text)
		return CHUNK_KIB_DEFAULT << 10;

	kib = strtoul(text, &end, 10);
	if (*text >= '0' && *text <= '9' && !*end && kib && kib <= CHUNK_KIB_MAX)
		return kib << 10;

	fprintf(stderr,
		PFX "Warning: IBV_BUF_POOL_KIB is '%s', which is not from 1 to %d; using %d.\n",
		text, CHUNK_KIB_MAX, CHUNK_KIB_DEFAULT);
	return CHUNK_KIB_DEFAULT << 10;
}

struct verbs_buf_pool *verbs_buf_pool_create(struct ibv_pd *pd,
					     size_t record_size)
{
	struct verbs_buf_pool *pool;
	size_t i;

	pool = calloc(1, sizeof(*pool));
	if (!pool)
		return NULL;

	pool->pd = verbs_get_pd(pd);
	pool->page_size = sysconf(_SC_PAGESIZE);
	pool->chunk_pages = DIV_ROUND_UP(chunk_size(), pool->page_size);
	pool->record_size = record_size;

	pool->by_run = calloc(2 * pool->chunk_pages, sizeof(*pool->by_run));
	if (!pool->by_run) {
		free(pool);
		return NULL;
	}

	for (i = 0; i < 2 * pool->chunk_pages; i++)
		list_head_init(&pool->by_run[i]);
	list_head_init(&pool->with_room);
	cl_qmap_init(&pool->chunks);
	cl_qmap_init(&pool->record_pages);
	pthread_mutex_init(&pool->lock, NULL);
	pthread_mutex_init(&pool->record_lock, NULL);
	return pool;
}

/*
 * The pages of a new chunk for objects like one of that many pages: such that
 * they leave no more than an eighth of it over.
 */
static size_t chunk_pages_for(const struct verbs_buf_pool *pool, size_t pages)
{
	size_t over = pool->chunk_pages % pages;

	if (over <= pool->chunk_pages / 8)
		return pool->chunk_pages;

	return pool->chunk_pages - over + pages;
}

/* The first page from this one on that is not used */
static size_t next_free_page(const struct chunk *chunk, size_t page)
{
	unsigned long unused;

	while (page < chunk->pages) {
		unused = ~chunk->used[page / BITS_PER_LONG] >>
			 page % BITS_PER_LONG;
		if (unused)
			return page + __builtin_ctzl(unused);
		page += BITS_PER_LONG - page % BITS_PER_LONG;
	}

	return chunk->pages;
}

static size_t longest_run(const struct chunk *chunk)
{
	size_t longest = 0;
	size_t page, end;

	for (page = next_free_page(chunk, 0); page < chunk->pages;
	     page = next_free_page(chunk, end)) {
		end = bitmap_find_first_bit(chunk->used, page, chunk->pages);
		longest = max(longest, end - page);
	}

	return longest;
}

static void index_chunk(struct verbs_buf_pool *pool, struct chunk *chunk)
{
	list_add(&pool->by_run[longest_run(chunk)], &chunk->by_run);
}

static void mark_pages(struct verbs_buf_pool *pool, struct chunk *chunk,
		       size_t page, size_t pages)
{
	if (!chunk->used_pages)
		pool->empty_chunks--;
	chunk->used_pages += pages;
	bitmap_fill_region(chunk->used, page, page + pages);
}

static void unmark_pages(struct verbs_buf_pool *pool, struct chunk *chunk,
			 size_t page, size_t pages)
{
	bitmap_zero_region(chunk->used, page, page + pages);
	chunk->used_pages -= pages;
	if (!chunk->used_pages)
		pool->empty_chunks++;
}

/* Not indexed by its run yet */
static struct chunk *add_chunk(struct verbs_buf_pool *pool, size_t pages)
{
	static const enum verbs_buf_backing backings[] = {
		VERBS_BUF_CC_SHARED,
		VERBS_BUF_END,
	};
	struct chunk *chunk;
	void *addr;

	chunk = calloc(1, sizeof(*chunk) +
			  BITS_TO_LONGS(pages) * sizeof(*chunk->used));
	if (!chunk)
		return NULL;

	addr = verbs_alloc_buf_from(&pool->pd->pd, pages * pool->page_size,
				    backings, &chunk->buf);
	if (!addr) {
		free(chunk);
		return NULL;
	}

	chunk->pages = pages;
	pool->empty_chunks++;
	cl_qmap_insert(&pool->chunks, (uintptr_t)addr, &chunk->by_addr);
	return chunk;
}

static void remove_chunk(struct verbs_buf_pool *pool, struct chunk *chunk)
{
	cl_qmap_remove_item(&pool->chunks, &chunk->by_addr);
	pool->empty_chunks--;
	verbs_free_buf(chunk->buf);
	free(chunk);
}

/* One that has a run of that many pages, taken out of the index */
static struct chunk *get_chunk(struct verbs_buf_pool *pool, size_t pages)
{
	struct chunk *chunk;
	size_t run;

	for (run = pages; run < 2 * pool->chunk_pages; run++) {
		chunk = list_pop(&pool->by_run[run], struct chunk, by_run);
		if (chunk)
			return chunk;
	}

	return add_chunk(pool, chunk_pages_for(pool, pages));
}

static struct chunk *chunk_at(struct verbs_buf_pool *pool, const void *addr)
{
	cl_map_item_t *after = cl_qmap_get_next(&pool->chunks, (uintptr_t)addr);

	return container_of(cl_qmap_prev(after), struct chunk, by_addr);
}

void *verbs_buf_pool_alloc(struct verbs_buf_pool *pool, size_t size)
{
	struct chunk *chunk;
	void *addr = NULL;
	size_t pages;
	size_t page;

	if (!buf_whole_pages(size, pool->page_size, &pages)) {
		errno = ENOMEM;
		return NULL;
	}
	pages /= pool->page_size;

	/* Before, so that no other thread deallocates the pd meanwhile */
	atomic_fetch_add(&pool->pd->users, 1);
	pthread_mutex_lock(&pool->lock);
	chunk = get_chunk(pool, pages);
	if (chunk) {
		page = bitmap_find_free_region(chunk->used, chunk->pages,
					       pages);
		addr = chunk->buf->addr + page * pool->page_size;
		mark_pages(pool, chunk, page, pages);
		index_chunk(pool, chunk);
	}
	pthread_mutex_unlock(&pool->lock);
	if (!addr)
		atomic_fetch_sub(&pool->pd->users, 1);
	return addr;
}

void verbs_buf_pool_free(struct verbs_buf_pool *pool, void *addr, size_t size)
{
	size_t pages = DIV_ROUND_UP(size, pool->page_size);
	struct chunk *chunk;
	size_t page;

	/* Now, while it is nobody else's: it is handed out as it is. */
	memset(addr, 0, pages * pool->page_size);

	pthread_mutex_lock(&pool->lock);
	chunk = chunk_at(pool, addr);
	page = (addr - chunk->buf->addr) / pool->page_size;
	list_del(&chunk->by_run);
	unmark_pages(pool, chunk, page, pages);
	if (!chunk->used_pages && (pool->empty_chunks > 1 ||
				   chunk->pages >= 2 * pool->chunk_pages))
		remove_chunk(pool, chunk);
	else
		index_chunk(pool, chunk);
	pthread_mutex_unlock(&pool->lock);
	atomic_fetch_sub(&pool->pd->users, 1);
}

int verbs_buf_pool_find(struct verbs_buf_pool *pool, const void *addr,
			uint64_t *offset)
{
	struct ibv_buf *buf;

	pthread_mutex_lock(&pool->lock);
	buf = chunk_at(pool, addr)->buf;
	pthread_mutex_unlock(&pool->lock);

	*offset = buf->dmabuf_offset + (addr - buf->addr);
	return buf->dmabuf_fd;
}

void verbs_buf_pool_destroy(struct verbs_buf_pool *pool)
{
	cl_map_item_t *item;

	while ((item = cl_qmap_head(&pool->chunks)) !=
	       cl_qmap_end(&pool->chunks))
		remove_chunk(pool, container_of(item, struct chunk, by_addr));

	pthread_mutex_destroy(&pool->record_lock);
	pthread_mutex_destroy(&pool->lock);
	free(pool->by_run);
	free(pool);
}
