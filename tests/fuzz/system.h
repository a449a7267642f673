/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The system as a fuzzer shows it to libibverbs: what a file or a directory
 * reads as, a heap of shared memory, huge pages, and calls that fail; and what
 * the library has of it: mappings and file descriptors. All else is the real
 * system's. It knows nothing of buffers.
 */
#ifndef TESTS_FUZZ_SYSTEM_H
#define TESTS_FUZZ_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mapping {
	char *addr;
	size_t length;
};

struct system {
	bool in_use;		/* libFuzzer's own calls do not count. */

	/* This path reads as this text; a directory has a name a line. */
	const char *path;
	const char *text;
	size_t text_length;
	const char *entry;	/* the next name */

	bool has_heaps;		/* each of them, without end */
	bool all_is_dmabuf;	/* all files pass for DMA-bufs */
	bool once_again;	/* what is done once is done each time */
	uint64_t huge_pages;	/* bit n: there are some of 1 << n bytes */
	unsigned int failures;	/* so many calls from now on for memory fail */
	int fail_with;

	unsigned int calls;	/* for memory */
	size_t advised;		/* bytes that are to be of huge pages */
	int huge_shift;		/* of the last huge pages that were mapped */

	/* What the library has */
	struct mapping mapping[1024];
	size_t mappings;
	int fds;
};

extern struct system fake;

/* Around each input; in the end the library must have nothing. */
void system_begin(void);
void system_end(void);

/* Bytes in all mappings */
size_t system_mapped(void);

#endif /* TESTS_FUZZ_SYSTEM_H */
