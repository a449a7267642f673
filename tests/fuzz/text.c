// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What libibverbs reads as text: IBV_BUF_BACKING and IBV_BUF_POOL_KIB, the
 * memory that is available, the page sizes of a range of memory, the size of
 * transparent huge pages, and those of reserved ones. Where the text is made
 * here, as the kernel writes it, what it means is known; any other must do no
 * harm. What mlx5 reads of its environment is its own, and older than buffers.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "buf.h"
#include "buf_dmabuf.h"
#include "buf_pool.h"
#include "ibverbs.h"
#include "input.h"
#include "stub.h"
#include "system.h"

#define PAGE 4096UL

static struct stub *stub;
static char text[16384];
static size_t text_length;

static void add(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void add(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	text_length += vsnprintf(text + text_length,
				 sizeof(text) - text_length, format, args);
	va_end(args);
	CHECK(text_length < sizeof(text));
}

/* Bytes of the input, until one that is 0 if there is to be none */
static void add_bytes(struct input *input, size_t limit, bool zero)
{
	while (limit-- && input->at < input->end && (zero || *input->at))
		text[text_length++] = *input->at++;
	text[text_length] = '\0';
}

/* The same in a line, as the kernel writes names */
static void add_name(struct input *input)
{
	size_t n = input_byte(input) % 32;

	while (n-- && input->at < input->end) {
		char c = input_byte(input);

		text[text_length++] = c > ' ' ? c : '_';
	}
	text[text_length] = '\0';
}

static void show(const char *path)
{
	fake.path = path;
	fake.text = text;
	fake.text_length = text_length;
}

/* What the library says meanwhile goes here. */
static char said[2048];
static FILE *real_stderr;

static void listen(void)
{
	memset(said, 0, sizeof(said));
	real_stderr = stderr;
	stderr = fmemopen(said, sizeof(said) - 1, "w");
	CHECK(stderr);
}

static void listen_no_more(void)
{
	fclose(stderr);
	stderr = real_stderr;
}

static const enum verbs_buf_backing *policy(const char *word)
{
	const enum verbs_buf_backing *backings;

	setenv("IBV_BUF_BACKING", word, 1);
	fake.once_again = true;
	listen();
	backings = buf_policy();
	listen_no_more();
	fake.once_again = false;
	return backings;
}

static void fuzz_backing(struct input *input)
{
	static const struct {
		const char *word;
		enum verbs_buf_backing backings[4];
	} words[] = {
		{ "huge", { VERBS_BUF_HUGE } },
		{ "prefer_huge", { VERBS_BUF_HUGE, VERBS_BUF_ANON } },
		{ "dmabuf", { VERBS_BUF_DMABUF, VERBS_BUF_UDMABUF } },
		{ "prefer_dmabuf", { VERBS_BUF_DMABUF, VERBS_BUF_UDMABUF,
				     VERBS_BUF_ANON } },
		{ "anon", { VERBS_BUF_ANON } },
	};
	const enum verbs_buf_backing *got, *wanted;
	size_t i;

	policy("anon");
	add_bytes(input, 1000, false);
	got = policy(text);
	for (i = 0; i < ARRAY_LENGTH(words) - 1; i++)
		if (!strcmp(text, words[i].word))
			break;
	wanted = words[i].backings;
	while (*wanted != VERBS_BUF_END)
		CHECK(*got++ == *wanted++);
	CHECK(*got == VERBS_BUF_END);
	/* A warning that tells the word, for a word that is none */
	CHECK(!*said == !strcmp(text, words[i].word));
	CHECK(!*said || strstr(said, text));
}

static void fuzz_pool_kib(struct input *input)
{
	struct verbs_pd pd = { .pd.context = &stub->vctx.context };
	struct verbs_buf_pool *pool;
	size_t i, kib = 0;

	add_bytes(input, 40, false);
	for (i = 0; text[i] >= '0' && text[i] <= '9' && kib <= 65536; i++)
		kib = 10 * kib + (text[i] - '0');
	if (!i || text[i] || kib < 1 || kib > 65536)
		kib = 0;

	setenv("IBV_BUF_POOL_KIB", text, 1);
	listen();
	pool = verbs_buf_pool_create(&pd.pd, 64);
	listen_no_more();
	CHECK(pool);
	CHECK(pool->chunk_pages ==
	      ((kib ? kib : 2048) * 1024 + PAGE - 1) / PAGE);
	CHECK(!*said == !!kib);
	verbs_buf_pool_destroy(pool);
}

static void fuzz_available(struct input *input)
{
	static const char *const keys[] = {
		"MemTotal", "MemFree", "Buffers", "Cached", "HugePages_Total",
	};
	uint64_t kib = input_number(input, 1 + input_byte(input) % 6);
	uint64_t length = input_number(input, 8);
	bool known = input_byte(input) % 4, told = known && input_byte(input);
	size_t n = input_byte(input) % 8;

	if (!known)
		add_bytes(input, 4000, true);
	for (; known && n; n--)
		add("%s:  %8lu kB\n", keys[n % ARRAY_LENGTH(keys)],
		    (unsigned long)input_number(input, 3));
	if (told)
		add("MemAvailable:   %8lu kB\n", (unsigned long)kib);
	show("/proc/meminfo");
	if (input_byte(input) == 255)
		fake.path = NULL;

	if (!fake.path || (known && !told))
		CHECK(buf_memory_is_available(length));
	else if (known)
		CHECK(buf_memory_is_available(length) ==
		      (length / 1024 <= kib));
	else
		buf_memory_is_available(length);
}

struct map {
	uint64_t start;
	uint64_t end;
	size_t kib;	/* of its pages */
};

/* Mappings, as the kernel shows them */
static size_t add_maps(struct input *input, struct map *map, size_t n)
{
	static const size_t kibs[] = { 4, 64, 2048, 1 << 20 };
	uint64_t end = 0x1000;
	size_t i;

	for (i = 0; i < n; i++, map++) {
		map->start = end + ((uint64_t)input_byte(input) % 4 << 12);
		end = map->start + ((1 + input_number(input, 2)) << 12);
		map->end = end;
		map->kib = kibs[input_byte(input) % ARRAY_LENGTH(kibs)];
		add("%08lx-%08lx rw-p 00000000 00:00 %-20u ", (long)map->start,
		    (long)end, input_byte(input));
		add_name(input);
		add("\nSize: %18lu kB\nKernelPageSize: %8zu kB\n"
		    "MMUPageSize: %11zu kB\nRss: %19u kB\n"
		    "Anonymous: %13u kB\nVmFlags: rd wr mr mw me ac\n",
		    (long)(end - map->start) >> 10, map->kib, map->kib, 0, 0);
	}
	return n;
}

/* An address next to the start of a mapping, or to the end of one */
static uint64_t next_to(struct input *input, const struct map *map, size_t maps)
{
	uint8_t choice = input_byte(input);
	int near = (int8_t)input_byte(input) % 3;

	if (!maps)
		return 0x5000 + near;
	map += choice / 2 % maps;
	return (choice % 2 ? map->start : map->end) + near;
}

/* The page size of a range of memory, by the mappings that it touches */
static void fuzz_smaps(struct input *input)
{
	struct ibv_buf buf = { .dmabuf_fd = -1 };
	bool known = input_byte(input) % 4, mixed = false;
	uint64_t start, last;
	size_t maps = 0, found = 0, i;
	struct map map[12] = {};
	int ret;

	if (known)
		maps = add_maps(input, map, input_byte(input) % 12);
	start = next_to(input, map, maps);
	last = next_to(input, map, maps);
	if (!known)
		add_bytes(input, 8000, true);
	if (last < start)
		last = start;
	buf.addr = (void *)start;
	buf.size = last - start + 1;
	for (i = 0; i < maps; i++) {
		if (map[i].end <= start || map[i].start > last)
			continue;
		mixed |= found && found != map[i].kib << 10;
		found = map[i].kib << 10;
	}
	show("/proc/self/smaps");
	if (input_byte(input) == 255)
		fake.path = NULL;

	ret = buf_user_ops.alloc(&buf);
	CHECK((uintptr_t)buf.addr == start && buf.size == last - start + 1);
	if (!fake.path) {
		CHECK(ret == ENOENT);
	} else if (known) {
		CHECK(ret == (mixed ? EINVAL : 0));
		if (!ret)
			CHECK(buf.map_page_size == (found ? found : PAGE));
	}
}

/* Whatever is there, a large buffer is had, and aligned where that is wise. */
static void fuzz_thp(struct input *input)
{
	struct ibv_buf buf = {
		.size = (512 << 10) + 1 + input_number(input, 3),
	};
	uint64_t huge = 0;
	size_t i;

	if (input_byte(input) % 2)
		add("%llu\n", 1ULL << input_byte(input) % 40);
	else
		add_bytes(input, 48, true);
	for (i = 0; text[i] >= '0' && text[i] <= '9' && huge < 1ULL << 48; i++)
		huge = 10 * huge + (text[i] - '0');
	if (text[0] < '0' || text[0] > '9' || text_length > 31)
		huge = 0;

	show("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size");
	CHECK(buf_anon_ops.alloc(&buf) == 0);
	CHECK(fake.mappings == 1 && (uintptr_t)buf.addr % PAGE == 0);
	CHECK(buf.map_length == (buf.size + PAGE - 1) / PAGE * PAGE);
	CHECK(fake.mapping[0].addr == buf.addr &&
	      fake.mapping[0].length == buf.map_length);
	if (huge >= PAGE && !(huge & (huge - 1)) && huge <= buf.map_length) {
		CHECK((uintptr_t)buf.addr % huge == 0);
		CHECK(fake.advised == buf.map_length);
	}
	buf_anon_ops.free(&buf);
}

static uint64_t whole_pages(uint64_t size, int shift)
{
	return (((size - 1) >> shift) + 1) << shift;
}

/* Page sizes that the kernel has, some with pages; the best that fits is had. */
static void fuzz_huge(struct input *input)
{
	struct ibv_buf buf = {
		.size = 1 + input_number(input, 1 + input_byte(input) % 6),
	};
	uint32_t sizes = input_number(input, 4);	/* KiB, one a bit */
	uint32_t pages = input_number(input, 4);
	bool known = input_byte(input) % 4;
	int best = -1, shift, ret;
	bool fits = false;

	/* Not more than a thousand pages: each is read into. */
	buf.size &= known ? (1ULL << 42) - 1 : (4 << 20) - 1;
	buf.size += !buf.size;
	if (!known)
		add_bytes(input, 4000, true);
	for (shift = 31; known && shift >= 2; shift--) {
		if (!(sizes & 1U << shift) || buf.size >> (shift + 10) > 1000)
			continue;
		add("%s\nhugepages-%lukB\n", shift % 2 ? "." : "..",
		    1UL << shift);
		if (whole_pages(buf.size, shift + 10) >= 2 * buf.size)
			continue;
		fits = true;
		if (pages & 1U << shift)
			best = shift + 10;
	}
	fake.huge_pages = (uint64_t)pages << 10;
	show("/sys/kernel/mm/hugepages");

	ret = buf_huge_ops.alloc(&buf);
	if (known)
		CHECK(ret == (best >= 0 ? 0 : fits ? ENOMEM : EOPNOTSUPP));
	if (ret) {
		CHECK(!fake.mappings && !fake.fds);
		return;
	}
	if (known) {
		CHECK(fake.huge_shift == best);
		CHECK(buf.map_page_size == 1ULL << best);
		CHECK(buf.map_length == whole_pages(buf.size, best));
	}
	buf_huge_ops.free(&buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const fuzz[])(struct input *) = {
		fuzz_backing, fuzz_pool_kib, fuzz_available,
		fuzz_smaps, fuzz_thp, fuzz_huge,
	};
	struct input input = { data, data + size };

	if (!stub) {
		stub = stub_open();
		/* Without it, smaps is not read. */
		CHECK(!ibv_fork_init());
	}
	system_begin();
	text_length = 0;
	text[0] = '\0';
	fuzz[input_byte(&input) % ARRAY_LENGTH(fuzz)](&input);
	system_end();
	return 0;
}
