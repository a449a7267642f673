// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Pools of shared memory, by sequences of calls: no two pieces overlap, each is
 * aligned and zero-filled and lies where the pool says, the kernel is asked for
 * memory only when no chunk has room, and all is given back.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "buf_pool.h"
#include "input.h"
#include "stub.h"
#include "system.h"

#define PIECES 48
#define PAGE 4096UL
#define MAX_CHUNK_PAGES 128
/* Of the largest piece, which has a chunk of its own */
#define MAX_PAGES (3 * MAX_CHUNK_PAGES)

struct piece {
	char *addr;
	size_t size;	/* as asked for */
	size_t length;	/* as had */
	bool record;
	uint64_t tag;
};

static struct verbs_pd pd;
static struct verbs_buf_pool *pool;
static size_t record_size;
static struct piece piece[PIECES];
static size_t pieces;
static uint64_t next_tag;

static bool is_zero(const char *addr, size_t length)
{
	return !addr[0] && !memcmp(addr, addr + 1, length - 1);
}

/* The step from one mark in a piece to the next: each page has one */
static void mark(struct piece *p)
{
	size_t at;

	p->tag = ++next_tag;
	for (at = 0; at < p->length; at += PAGE / 2)
		memcpy(p->addr + at, &p->tag, sizeof(p->tag));
	memcpy(p->addr + p->length - 8, &p->tag, sizeof(p->tag));
}

static void check_marks(const struct piece *p)
{
	size_t at;

	for (at = 0; at < p->length; at += PAGE / 2)
		CHECK(!memcmp(p->addr + at, &p->tag, sizeof(p->tag)));
	CHECK(!memcmp(p->addr + p->length - 8, &p->tag, sizeof(p->tag)));
}

/* A piece's memory is that of the DMA-buf at the offset that is told. */
static void check_place(const struct piece *p)
{
	uint64_t offset, tag;
	int fd;

	fd = verbs_buf_pool_find(pool, p->addr + p->length - 8, &offset);
	CHECK(pread(fd, &tag, sizeof(tag), offset) == sizeof(tag));
	CHECK(tag == p->tag);
	fd = verbs_buf_pool_find(pool, p->addr, &offset);
	CHECK(pread(fd, &tag, sizeof(tag), offset) == sizeof(tag));
	CHECK(tag == p->tag);
}

/* Whether a chunk has so many pages in a row; counts chunks without use */
static bool has_room(size_t pages, size_t *unused_chunks)
{
	static bool used[MAX_PAGES];
	const struct mapping *chunk;
	size_t i, at, first, n, run, longest = 0;

	*unused_chunks = 0;
	for (chunk = fake.mapping; chunk < fake.mapping + fake.mappings;
	     chunk++) {
		n = chunk->length / PAGE;
		CHECK(n <= MAX_PAGES);
		memset(used, false, n);
		for (i = 0; i < pieces; i++) {
			if (piece[i].addr < chunk->addr ||
			    piece[i].addr >= chunk->addr + chunk->length)
				continue;
			first = (piece[i].addr - chunk->addr) / PAGE;
			memset(used + first, true,
			       (piece[i].length + PAGE - 1) / PAGE);
		}
		for (at = run = 0; at < n; at++) {
			run = used[at] ? 0 : run + 1;
			if (run > longest)
				longest = run;
		}
		*unused_chunks += run == n;
	}
	return longest >= pages;
}

/* Whether a page of records has one that is not used */
static bool has_record(void)
{
	size_t i, j, records, pages = 0;

	for (i = records = 0; i < pieces; i++) {
		if (!piece[i].record)
			continue;
		records++;
		for (j = 0; j < i; j++)
			if (piece[j].record &&
			    ((uintptr_t)piece[i].addr ^
			     (uintptr_t)piece[j].addr) < PAGE)
				break;
		pages += j == i;
	}
	return records < pages * (PAGE / record_size);
}

static void check_new(const struct piece *p)
{
	size_t i, alignment = p->record ? record_size : PAGE;

	CHECK((uintptr_t)p->addr % alignment == 0);
	for (i = 0; i < fake.mappings; i++)
		if (p->addr >= fake.mapping[i].addr &&
		    p->addr + p->length <=
			    fake.mapping[i].addr + fake.mapping[i].length)
			break;
	CHECK(i < fake.mappings);
	for (i = 0; i < pieces; i++)
		CHECK(p->addr + p->length <= piece[i].addr ||
		      p->addr >= piece[i].addr + piece[i].length);
	CHECK(is_zero(p->addr, p->length));
}

static void take(struct input *input, bool record)
{
	struct piece *p = &piece[pieces];
	unsigned int calls = fake.calls, users = pd.users;
	size_t size = 1 + input_number(input, 2) * 17 % (3 * pool->chunk_pages *
							PAGE);
	bool room, failing = fake.failures;
	size_t unused;

	if (pieces == PIECES)
		return;
	p->record = record;
	p->size = record ? record_size : size;
	p->length = record ? record_size : (size + PAGE - 1) / PAGE * PAGE;
	room = has_room((p->length + PAGE - 1) / PAGE, &unused) ||
	       (record && has_record());

	errno = 0;
	p->addr = record ? verbs_buf_pool_alloc_record(pool) :
			   verbs_buf_pool_alloc(pool, size);
	CHECK(!p->addr == (failing && !room));
	CHECK((fake.calls == calls) == room);
	if (!p->addr) {
		CHECK(errno == fake.fail_with);
		CHECK(pd.users == users);
		return;
	}

	check_new(p);
	mark(p);
	pieces++;
	check_place(p);
}

static void take_too_much(struct input *input)
{
	unsigned int calls = fake.calls;

	errno = 0;
	CHECK(!verbs_buf_pool_alloc(pool, SIZE_MAX - input_byte(input)));
	CHECK(errno == ENOMEM && fake.calls == calls);
}

static void give_back(size_t i)
{
	struct piece p;
	size_t unused;

	if (i >= pieces)
		return;
	p = piece[i];
	check_marks(&p);
	check_place(&p);
	piece[i] = piece[--pieces];
	if (p.record)
		verbs_buf_pool_free_record(pool, p.addr);
	else
		verbs_buf_pool_free(pool, p.addr, p.size);
	has_room(0, &unused);
	CHECK(unused <= 1);
}

/* The number of operations and of their calls is bounded by the input. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct stub *stub;
	struct input input = { data, data + size };
	char kib[16];

	if (!stub)
		stub = stub_open();
	system_begin();
	fake.has_heaps = true;
	fake.all_is_dmabuf = true;
	pd.pd.context = &stub->vctx.context;
	snprintf(kib, sizeof(kib), "%d", 1 << input_byte(&input) % 10);
	setenv("IBV_BUF_POOL_KIB", kib, 1);
	record_size = 8 << input_byte(&input) % 10;
	pool = verbs_buf_pool_create(&pd.pd, record_size);
	CHECK(pool);

	while (input.at < input.end) {
		switch (input_byte(&input) % 8) {
		case 0:
		case 1:
			take(&input, false);
			break;
		case 2:
		case 3:
			take(&input, true);
			break;
		case 4:
			take_too_much(&input);
			break;
		case 5:
			fake.failures = input_byte(&input) % 3;
			fake.fail_with = fake.failures == 1 ? ENOMEM : EPERM;
			break;
		default:
			give_back(input_byte(&input) % PIECES);
			break;
		}
	}

	while (pieces)
		give_back(0);
	CHECK(!pd.users);
	CHECK(fake.mappings <= 1);
	verbs_buf_pool_destroy(pool);
	system_end();
	return 0;
}
