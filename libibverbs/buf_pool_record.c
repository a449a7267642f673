// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The records of a pool, packed in pages of it. Nothing about them is written
 * into these pages, which the host can change.
 */
#include <stdlib.h>
#include <string.h>

#include <util/bitmap.h>

#include "buf_pool.h"

struct record_page {
	cl_map_item_t by_addr;
	struct list_node with_room;	/* unless all records are used */
	void *addr;
	size_t used_records;
	unsigned long used[];		/* bitmap of records */
};

static size_t records_per_page(const struct verbs_buf_pool *pool)
{
	return pool->page_size / pool->record_size;
}

static struct record_page *add_page(struct verbs_buf_pool *pool)
{
	struct record_page *page;

	page = calloc(1, sizeof(*page) +
			 BITS_TO_LONGS(records_per_page(pool)) *
				 sizeof(*page->used));
	if (!page)
		return NULL;

	page->addr = verbs_buf_pool_alloc(pool, pool->page_size);
	if (!page->addr) {
		free(page);
		return NULL;
	}

	cl_qmap_insert(&pool->record_pages, (uintptr_t)page->addr,
		       &page->by_addr);
	list_add(&pool->with_room, &page->with_room);
	return page;
}

static void remove_page(struct verbs_buf_pool *pool, struct record_page *page)
{
	list_del(&page->with_room);
	cl_qmap_remove_item(&pool->record_pages, &page->by_addr);
	verbs_buf_pool_free(pool, page->addr, pool->page_size);
	free(page);
}

static struct record_page *page_of(struct verbs_buf_pool *pool, void *record)
{
	uintptr_t addr = (uintptr_t)record & ~(pool->page_size - 1);

	return container_of(cl_qmap_get(&pool->record_pages, addr),
			    struct record_page, by_addr);
}

void *verbs_buf_pool_alloc_record(struct verbs_buf_pool *pool)
{
	size_t records = records_per_page(pool);
	struct record_page *page;
	void *record = NULL;
	size_t at;

	pthread_mutex_lock(&pool->record_lock);
	page = list_top(&pool->with_room, struct record_page, with_room);
	if (!page)
		page = add_page(pool);
	if (page) {
		at = bitmap_find_free_region(page->used, records, 1);
		bitmap_set_bit(page->used, at);
		record = page->addr + at * pool->record_size;
		if (++page->used_records == records)
			list_del(&page->with_room);
	}
	pthread_mutex_unlock(&pool->record_lock);
	return record;
}

void verbs_buf_pool_free_record(struct verbs_buf_pool *pool, void *record)
{
	struct record_page *page;

	memset(record, 0, pool->record_size);

	pthread_mutex_lock(&pool->record_lock);
	page = page_of(pool, record);
	bitmap_clear_bit(page->used, (record - page->addr) / pool->record_size);
	if (page->used_records-- == records_per_page(pool))
		list_add(&pool->with_room, &page->with_room);
	if (!page->used_records)
		remove_page(pool, page);
	pthread_mutex_unlock(&pool->record_lock);
}
