// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory of the kernel's DMA-buf heaps, and the backing that is nothing else:
 * cc_shared, memory that a confidential guest shares with the host so that a
 * device can reach it.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/dma-heap.h>

#include <infiniband/driver.h>

#include "buf_dmabuf.h"

/* DMA_BUF_MAGIC of linux/magic.h, since Linux 5.2 */
#define DMABUF_FS_MAGIC 0x444d4142

/* The end of a DMA-buf is its size; asking for it moves no file position. */
int buf_dmabuf_size(int fd, size_t *size)
{
	struct statfs fs;
	off_t end;

	if (fstatfs(fd, &fs))
		return errno;
	if (fs.f_type != DMABUF_FS_MAGIC)
		return EINVAL;

	end = lseek(fd, 0, SEEK_END);
	if (end < 0)
		return errno;

	*size = end;
	return 0;
}

/*
 * What the kernel answered is not taken on trust: it may be an emulation of
 * the kernel. A descriptor of something else may well be the application's.
 */
int buf_dmabuf_map(struct ibv_buf *buf, size_t length, int map_fd,
		   int dmabuf_fd)
{
	size_t size;
	void *addr;
	int ret;

	if (buf_dmabuf_size(dmabuf_fd, &size))
		return EIO;
	if (size < length) {
		ret = EIO;
		goto err_close;
	}

	addr = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, map_fd,
		    0);
	if (addr == MAP_FAILED) {
		ret = errno;
		goto err_close;
	}

	buf->addr = addr;
	buf->map_length = length;
	buf->map_page_size = sysconf(_SC_PAGESIZE);
	buf->dmabuf_fd = dmabuf_fd;
	return 0;

err_close:
	close(dmabuf_fd);
	return ret;
}

void buf_dmabuf_free(struct ibv_buf *buf)
{
	munmap(buf->addr, buf->map_length);
	close(buf->dmabuf_fd);
}

bool buf_memory_is_available(size_t length)
{
	size_t kib = SIZE_MAX >> 10;
	char line[128];
	FILE *file;

	file = fopen("/proc/meminfo", "r" STREAM_CLOEXEC);
	if (!file)
		return true;

	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %zu kB", &kib) == 1)
			break;

	fclose(file);
	return length >> 10 <= kib;
}

static int open_heap(const char *heap)
{
	char path[64];

	snprintf(path, sizeof(path), "/dev/dma_heap/%s", heap);
	return open(path, O_RDWR | O_CLOEXEC);
}

int buf_heap_check(const char *heap)
{
	int fd = open_heap(heap);

	if (fd < 0)
		return errno;

	close(fd);
	return 0;
}

int buf_heap_alloc(struct ibv_buf *buf, const char *heap)
{
	struct dma_heap_allocation_data data = {
		.fd_flags = O_RDWR | O_CLOEXEC,
	};
	size_t length;
	int heap_fd;
	int ret;

	if (!buf_whole_pages(buf->size, sysconf(_SC_PAGESIZE), &length))
		return ENOMEM;

	heap_fd = open_heap(heap);
	if (heap_fd < 0)
		return errno;

	data.len = length;
	if (!buf_memory_is_available(length))
		ret = ENOMEM;
	else
		ret = ioctl(heap_fd, DMA_HEAP_IOCTL_ALLOC, &data) ? errno : 0;
	close(heap_fd);
	if (ret)
		return ret;

	return buf_dmabuf_map(buf, length, data.fd, data.fd);
}

static int buf_cc_shared_alloc(struct ibv_buf *buf)
{
	return buf_heap_alloc(buf, BUF_HEAP_CC_SHARED);
}

const struct buf_backing_ops buf_cc_shared_ops = {
	.alloc = buf_cc_shared_alloc,
	.free = buf_dmabuf_free,
};
