/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the guest programs ask of memory: patterns in it, and what the kernel
 * tells of it in /proc/self. Nothing here knows of RDMA or of cmocka, so it
 * serves threads and children too.
 */
#ifndef TESTS_GUEST_MEM_H
#define TESTS_GUEST_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/*
 * With a sanitizer a process maps memory of its own accord, so tests that
 * use up the mappings or the address space are for the plain build alone.
 */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEM_SANITIZED 1
#else
#define MEM_SANITIZED 0
#endif

/* n rounded up to whole pages */
size_t mem_whole(size_t n);
/* Size of a transparent huge page */
size_t mem_huge(void);

/* Another pattern for each seed, of which no word repeats */
void mem_fill(void *p, size_t n, uint32_t seed);
bool mem_is_filled(const void *p, size_t n, uint32_t seed);
bool mem_is_zero(const void *p, size_t n);

/*
 * VmFlags of smaps by their two letters: "dc" is MADV_DONTFORK, "hg" is
 * MADV_HUGEPAGE. All bytes of the range are mapped and flagged; any byte is;
 * bytes so flagged in the whole process.
 */
bool mem_all_flagged(const void *p, size_t n, const char *flag);
bool mem_any_flagged(const void *p, size_t n, const char *flag);
size_t mem_bytes_flagged(const char *flag);
/* All bytes of the range are private, anonymous, readable and writable. */
bool mem_is_private(const void *p, size_t n);
/* No byte of the range is mapped. */
bool mem_is_free(const void *p, size_t n);
/* Maps a page at p alone; false if the place is taken. */
bool mem_take(void *p);

/* Mappings, open descriptors, address space in bytes of the process */
size_t mem_maps(void);
size_t mem_fds(void);
size_t mem_space(void);

/* The list of mappings but for what grows by itself: heap and stack */
struct mem_list {
	char text[1 << 17];
};

void mem_list_read(struct mem_list *list);
/* Prints the first difference. */
bool mem_list_same(const struct mem_list *a, const struct mem_list *b);

/* Uses up the mappings that a process may have, then gives back one by one. */
struct mem_crowd {
	char *base;
	void *last;
	size_t n;
	size_t max;
};

bool mem_crowd_start(struct mem_crowd *crowd);
void mem_crowd_yield(struct mem_crowd *crowd);
void mem_crowd_end(struct mem_crowd *crowd);

#endif
