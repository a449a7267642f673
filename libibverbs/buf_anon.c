// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The anonymous backing: a private mapping. From the size of one transparent
 * huge page up it is aligned to it and the kernel is asked to use huge pages,
 * which makes for fewer pages to pin and to translate.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <infiniband/driver.h>
#include <util/util.h>

#include "buf.h"

/*
 * Bytes of a transparent huge page, 0 where the kernel has none. Read for each
 * large buffer: next to mapping one it costs nothing, and a failure for want
 * of a file descriptor is not remembered.
 */
static size_t thp_size(void)
{
	char text[32];
	size_t size;

	if (ibv_read_sysfs_file("/sys/kernel/mm/transparent_hugepage",
				"hpage_pmd_size", text, sizeof(text)) <= 0)
		return 0;

	size = strtoul(text, NULL, 10);
	if (size < sysconf(_SC_PAGESIZE) || (size & (size - 1)))
		return 0;
	return size;
}

static void *map_anon(size_t length)
{
	return mmap(NULL, length, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* Map more than asked for and give back what is not aligned. */
static void *map_aligned(size_t length, size_t alignment)
{
	size_t slack = alignment - sysconf(_SC_PAGESIZE);
	size_t before, after;
	void *map;

	if (length > SIZE_MAX - slack) {
		errno = ENOMEM;
		return MAP_FAILED;
	}

	map = map_anon(length + slack);
	if (map == MAP_FAILED)
		return MAP_FAILED;

	before = align((uintptr_t)map, alignment) - (uintptr_t)map;
	after = slack - before;

	/* Fails when the process is at its limit of mappings. */
	if (before && munmap(map, before))
		goto err_before;

	map += before;
	if (after && munmap(map + length, after))
		goto err_after;

	return map;

err_before:
	after += before;
err_after:
	munmap(map, length + after);
	errno = ENOMEM;
	return MAP_FAILED;
}

static int buf_anon_alloc(struct ibv_buf *buf)
{
	size_t page_size = sysconf(_SC_PAGESIZE);
	size_t huge;
	void *addr;

	if (!buf_whole_pages(buf->size, page_size, &buf->map_length))
		return ENOMEM;

	huge = thp_size();
	if (huge && buf->map_length >= huge)
		addr = map_aligned(buf->map_length, huge);
	else
		addr = map_anon(buf->map_length);
	if (addr == MAP_FAILED)
		return errno;

	/* Advice only: the buffer is as good without huge pages. */
	if (huge && buf->map_length >= huge)
		madvise(addr, buf->map_length, MADV_HUGEPAGE);

	buf->addr = addr;
	buf->map_page_size = page_size;
	return 0;
}

static void buf_anon_free(struct ibv_buf *buf)
{
	/*
	 * The kernel may have joined the mapping with its neighbours. Cutting
	 * it out fails when the process is at its limit of mappings; the memory
	 * itself can be given back all the same.
	 */
	if (munmap(buf->addr, buf->map_length))
		madvise(buf->addr, buf->map_length, MADV_DONTNEED);
}

const struct buf_backing_ops buf_anon_ops = {
	.alloc = buf_anon_alloc,
	.free = buf_anon_free,
};
