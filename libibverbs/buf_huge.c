// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The huge backing: a private mapping of reserved huge pages (hugetlb). Their
 * size is always named, since the system's default may be 1 GiB.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <infiniband/driver.h>
#include <util/util.h>

#include "buf.h"

#ifndef MAP_HUGE_SHIFT
#define MAP_HUGE_SHIFT 26
#endif

/* The next larger page size that the kernel has, 0 when there is none */
static size_t next_huge_page_size(DIR *dir, size_t size)
{
	size_t next = 0, kib;
	struct dirent *entry;

	rewinddir(dir);
	while ((entry = readdir(dir))) {
		if (sscanf(entry->d_name, "hugepages-%zukB", &kib) != 1)
			continue;
		if (kib << 10 > size && (!next || kib << 10 < next))
			next = kib << 10;
	}

	return next;
}

/*
 * The pages were reserved by mmap(), but a cgroup or a memory policy may still
 * refuse one when it is first touched, which would be a SIGBUS. A read() into
 * each is told instead.
 */
static int touch_pages(void *addr, size_t length, size_t page_size)
{
	size_t at;
	int ret = 0;
	int fd;

	fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;

	for (at = 0; at < length && !ret; at += page_size)
		if (read(fd, addr + at, 1) != 1)
			ret = ENOMEM;

	close(fd);
	return ret;
}

static int map_pages(struct ibv_buf *buf, size_t page_size)
{
	unsigned int shift = ilog64(page_size) - 1;
	void *addr;
	int ret;

	if (!buf_whole_pages(buf->size, page_size, &buf->map_length))
		return ENOMEM;
	/* Never take twice what is needed. */
	if (buf->map_length - buf->size >= buf->size)
		return EOPNOTSUPP;

	addr = mmap(NULL, buf->map_length, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB |
			    shift << MAP_HUGE_SHIFT,
		    -1, 0);
	if (addr == MAP_FAILED)
		return errno;

	ret = touch_pages(addr, buf->map_length, page_size);
	if (ret) {
		munmap(addr, buf->map_length);
		return ret;
	}

	buf->addr = addr;
	buf->map_page_size = page_size;
	return 0;
}

static int buf_huge_alloc(struct ibv_buf *buf)
{
	size_t page_size = 0;
	int ret = EOPNOTSUPP;
	DIR *dir;
	int err;

	dir = opendir("/sys/kernel/mm/hugepages");
	if (!dir)
		return errno == ENOENT ? EOPNOTSUPP : errno;

	/* The first error is that of the size that fits best. */
	while ((page_size = next_huge_page_size(dir, page_size))) {
		err = map_pages(buf, page_size);
		if (!err || ret == EOPNOTSUPP)
			ret = err;
		if (!err || err == EOPNOTSUPP)
			break;
	}

	closedir(dir);
	return ret;
}

static void buf_huge_free(struct ibv_buf *buf)
{
	munmap(buf->addr, buf->map_length);
}

const struct buf_backing_ops buf_huge_ops = {
	.alloc = buf_huge_alloc,
	.free = buf_huge_free,
};
