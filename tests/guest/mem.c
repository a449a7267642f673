// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Patterns in memory, and what /proc/self says of it. See mem.h.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mem.h"

struct vma {
	uintptr_t start;
	uintptr_t end;
	char perms[8];
	bool named;
	char flags[256];
};

static size_t page_size(void)
{
	return sysconf(_SC_PAGESIZE);
}

static size_t read_number(const char *path, size_t otherwise)
{
	size_t n = otherwise;
	FILE *file = fopen(path, "re");

	if (!file)
		return otherwise;
	if (fscanf(file, "%zu", &n) != 1)
		n = otherwise;
	fclose(file);
	return n;
}

size_t mem_whole(size_t n)
{
	return (n + page_size() - 1) & ~(page_size() - 1);
}

size_t mem_huge(void)
{
	return read_number("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size",
			   2 * MIB);
}

/*
 * A pattern is made of blocks that differ in their first word only: emulated
 * processors copy and compare blocks many times faster than words.
 */
struct block {
	uint64_t word[512];
};

static void block_first(struct block *block, uint32_t seed)
{
	uint64_t x = (seed + 1) * 0xd1342543de82ef95ULL;
	size_t i;

	for (i = 0; i < 512; i++, x += 0x9e3779b97f4a7c15ULL)
		block->word[i] = x;
}

static void block_next(struct block *block)
{
	block->word[0] += 0xbf58476d1ce4e5b9ULL;
}

void mem_fill(void *p, size_t n, uint32_t seed)
{
	struct block block;
	char *to = p;

	block_first(&block, seed);
	for (; n >= sizeof(block); n -= sizeof(block), to += sizeof(block)) {
		memcpy(to, &block, sizeof(block));
		block_next(&block);
	}
	memcpy(to, &block, n);
}

bool mem_is_filled(const void *p, size_t n, uint32_t seed)
{
	const char *at = p;
	struct block block;

	block_first(&block, seed);
	for (; n >= sizeof(block); n -= sizeof(block), at += sizeof(block)) {
		if (memcmp(at, &block, sizeof(block)))
			return false;
		block_next(&block);
	}
	return !memcmp(at, &block, n);
}

bool mem_is_zero(const void *p, size_t n)
{
	const char *at = p;

	return !n || (!at[0] && !memcmp(at, at + 1, n - 1));
}

static bool next_vma(FILE *smaps, struct vma *vma)
{
	uintptr_t start, end;
	char line[512];
	char name[2];
	int fields;

	while (fgets(line, sizeof(line), smaps)) {
		/* Only the first line of a mapping has two addresses. */
		fields = sscanf(line,
				"%" SCNxPTR "-%" SCNxPTR " %7s %*s %*s %*s %1s",
				&start, &end, vma->perms, name);
		if (fields >= 3) {
			vma->start = start;
			vma->end = end;
			vma->named = fields == 4;
		} else if (sscanf(line, "VmFlags:%255[^\n]", vma->flags) == 1) {
			return true;
		}
	}
	return false;
}

static FILE *open_smaps(void)
{
	FILE *smaps = fopen("/proc/self/smaps", "re");

	if (!smaps) {
		fprintf(stderr, "# mem: no /proc/self/smaps\n");
		abort();
	}
	return smaps;
}

static bool has_flag(const struct vma *vma, const char *flag)
{
	char word[8];

	snprintf(word, sizeof(word), " %s ", flag);
	return strstr(vma->flags, word);
}

static bool is_private(const struct vma *vma, const char *unused)
{
	(void)unused;
	return !vma->named && !strcmp(vma->perms, "rw-p");
}

/* Bytes of the range that lie in mappings for which test() holds */
static size_t bytes_that(const void *p, size_t n,
			 bool (*test)(const struct vma *, const char *),
			 const char *flag)
{
	uintptr_t start = (uintptr_t)p, end = start + n;
	FILE *smaps = open_smaps();
	struct vma vma;
	size_t sum = 0;

	while (next_vma(smaps, &vma)) {
		if (vma.start >= end || vma.end <= start || !test(&vma, flag))
			continue;
		sum += (vma.end < end ? vma.end : end) -
		       (vma.start > start ? vma.start : start);
	}
	fclose(smaps);
	return sum;
}

bool mem_all_flagged(const void *p, size_t n, const char *flag)
{
	return bytes_that(p, n, has_flag, flag) == n;
}

bool mem_any_flagged(const void *p, size_t n, const char *flag)
{
	return bytes_that(p, n, has_flag, flag);
}

size_t mem_bytes_flagged(const char *flag)
{
	return bytes_that(NULL, UINTPTR_MAX, has_flag, flag);
}

bool mem_is_private(const void *p, size_t n)
{
	return bytes_that(p, n, is_private, NULL) == n;
}

bool mem_is_free(const void *p, size_t n)
{
	const char *at = p;
	unsigned char vec;

	for (; n; n -= page_size(), at += page_size())
		if (!mincore((void *)at, page_size(), &vec) ||
		    errno != ENOMEM)
			return false;
	return true;
}

bool mem_take(void *p)
{
	return mmap(p, page_size(), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
		    0) == p;
}

size_t mem_maps(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	size_t n = 0;
	int c;

	if (!maps)
		abort();
	while ((c = getc(maps)) != EOF)
		n += c == '\n';
	fclose(maps);
	return n;
}

size_t mem_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t n = 0;

	if (!dir)
		abort();
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

size_t mem_space(void)
{
	return read_number("/proc/self/statm", 0) * page_size();
}

void mem_list_read(struct mem_list *list)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	size_t used = 0;
	char line[512];

	if (!maps)
		abort();
	while (fgets(line, sizeof(line), maps)) {
		if (strstr(line, "[heap]") || strstr(line, "[stack]"))
			continue;
		if (used + strlen(line) >= sizeof(list->text))
			abort();
		used += snprintf(list->text + used, sizeof(list->text) - used,
				 "%s", line);
	}
	list->text[used] = '\0';
	fclose(maps);
}

bool mem_list_same(const struct mem_list *a, const struct mem_list *b)
{
	const char *x = a->text, *y = b->text;
	size_t at = 0, i;

	for (i = 0; x[i] && x[i] == y[i]; i++)
		if (x[i] == '\n')
			at = i + 1;
	if (x[i] == y[i])
		return true;
	fprintf(stderr, "# mappings before: %.*s\n# mappings after: %.*s\n",
		(int)strcspn(x + at, "\n"), x + at,
		(int)strcspn(y + at, "\n"), y + at);
	return false;
}

/*
 * A page taken from the front of one inaccessible mapping is one mapping more,
 * as long as it differs from the page before it; given back from the end, it
 * merges with the rest.
 */
static bool crowd_in(struct mem_crowd *crowd)
{
	int prot = crowd->n % 2 ? PROT_READ : PROT_READ | PROT_EXEC;

	if (crowd->n == crowd->max ||
	    mprotect(crowd->base + crowd->n * page_size(), page_size(), prot))
		return false;
	crowd->n++;
	return true;
}

/* mmap() still works when mappings can no longer be split: take that one. */
bool mem_crowd_start(struct mem_crowd *crowd)
{
	crowd->n = 0;
	crowd->max = read_number("/proc/sys/vm/max_map_count", 65530);
	crowd->base = mmap(NULL, (crowd->max + 1) * page_size(), PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (crowd->base == MAP_FAILED)
		return false;
	while (crowd_in(crowd))
		;
	crowd->last = mmap(NULL, page_size(), PROT_NONE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return crowd->n < crowd->max && crowd->last != MAP_FAILED;
}

void mem_crowd_yield(struct mem_crowd *crowd)
{
	if (crowd->last != MAP_FAILED) {
		munmap(crowd->last, page_size());
		crowd->last = MAP_FAILED;
		return;
	}
	crowd->n--;
	mprotect(crowd->base + crowd->n * page_size(), page_size(), PROT_NONE);
}

void mem_crowd_end(struct mem_crowd *crowd)
{
	if (crowd->last != MAP_FAILED)
		munmap(crowd->last, page_size());
	munmap(crowd->base, (crowd->max + 1) * page_size());
}
