// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The dmabuf backings: memory that can be handed on as a DMA-buf. A device
 * that imports DMA-bufs gets the kernel's heap or, where that is not to be had,
 * a udmabuf over a memfd. A device that does not gets the latter, since the
 * mapping of a memfd can be registered by address.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <ccan/minmax.h>
#include <linux/udmabuf.h>

#include <infiniband/driver.h>

#include "buf_dmabuf.h"

/* Since Linux 6.3 */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/* A huge page */
#define FALLOCATE_STEP ((size_t)2 << 20)

/* Not executable, without which the sysctl vm.memfd_noexec may refuse it */
static int create_memfd(void)
{
	unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd;

	fd = memfd_create("ibv_buf", flags | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("ibv_buf", flags);
	return fd;
}

/*
 * A signal makes the kernel take back all pages of the call that it comes in,
 * so one call for all of them might never end where signals keep coming.
 */
static int allocate_pages(int fd, size_t length)
{
	size_t at = 0;
	size_t step;

	while (at < length) {
		step = min(length - at, FALLOCATE_STEP);
		if (!fallocate(fd, 0, at, step))
			at += step;
		else if (errno != EINTR)
			return errno;
	}

	return 0;
}

/*
 * A memfd whose pages are all there, since one that is missing later would be
 * a SIGBUS, and which nobody who is given the DMA-buf can make smaller.
 */
static int open_memfd(size_t length)
{
	int ret;
	int fd;

	if (!buf_memory_is_available(length)) {
		errno = ENOMEM;
		return -1;
	}

	fd = create_memfd();
	if (fd < 0)
		return -1;

	ret = allocate_pages(fd, length);
	if (!ret &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		ret = errno;
	if (ret) {
		close(fd);
		errno = ret;
		return -1;
	}

	return fd;
}

/*
 * EINVAL is how the kernel says that it is longer than the parameter
 * size_limit_mb of udmabuf allows, all else being right.
 */
static int open_udmabuf(int memfd, size_t length)
{
	struct udmabuf_create create = {
		.memfd = memfd,
		.flags = UDMABUF_FLAGS_CLOEXEC,
		.size = length,
	};
	int dev, fd, err;

	dev = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	if (dev < 0)
		return -1;

	fd = ioctl(dev, UDMABUF_CREATE, &create);
	err = errno == EINVAL ? EFBIG : errno;
	close(dev);
	errno = err;
	return fd;
}

/*
 * What is only reserved in a memfd the kernel clears when it is first touched
 * through the memfd. By then a device, or whoever was given the DMA-buf, may
 * have written there.
 */
static void clear_pages(const struct ibv_buf *buf)
{
	const volatile char *addr = buf->addr;
	size_t at;

	for (at = 0; at < buf->map_length; at += buf->map_page_size)
		(void)addr[at];
}

static int buf_udmabuf_alloc(struct ibv_buf *buf)
{
	int memfd, fd, ret;
	size_t length;

	if (!buf_whole_pages(buf->size, sysconf(_SC_PAGESIZE), &length))
		return ENOMEM;

	memfd = open_memfd(length);
	if (memfd < 0)
		return errno;

	fd = open_udmabuf(memfd, length);
	if (fd < 0) {
		ret = errno;
		goto out;
	}

	ret = buf_dmabuf_map(buf, length, memfd, fd);
	if (!ret)
		clear_pages(buf);
out:
	close(memfd);
	return ret;
}

/* An error of the heap says more than that of the second choice. */
static int buf_dmabuf_alloc(struct ibv_buf *buf)
{
	int heap_ret, ret;

	heap_ret = buf_heap_alloc(buf, BUF_HEAP_SYSTEM);
	if (!heap_ret)
		return 0;

	ret = buf_udmabuf_alloc(buf);
	return ret && heap_ret != ENOENT ? heap_ret : ret;
}

const struct buf_backing_ops buf_dmabuf_ops = {
	.alloc = buf_dmabuf_alloc,
	.free = buf_dmabuf_free,
};

const struct buf_backing_ops buf_udmabuf_ops = {
	.alloc = buf_udmabuf_alloc,
	.free = buf_dmabuf_free,
};
