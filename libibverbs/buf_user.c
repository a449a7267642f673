// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The user backing: memory that the application owns, known to the library by
 * a handle only. The verbs for it, and what fork protection must know of a
 * mapping that somebody else made.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <infiniband/driver.h>

#include "buf.h"
#include "buf_dmabuf.h"
#include "ibverbs.h"

struct ibv_buf *ibv_alloc_user_buf(struct ibv_pd *pd, void *addr, size_t size,
				   int dmabuf_fd)
{
	if (!pd || !addr || !size || size - 1 > UINTPTR_MAX - (uintptr_t)addr ||
	    dmabuf_fd < -1) {
		errno = EINVAL;
		return NULL;
	}

	return get_ops(pd->context)->alloc_user_buf(pd, addr, size, dmabuf_fd);
}

void ibv_free_user_buf(struct ibv_buf *buf)
{
	if (!buf)
		return;

	if (buf->backing != VERBS_BUF_USER) {
		verbs_err(verbs_get_ctx(buf->pd->context),
			  "buffer at %p is one of ibv_alloc_buf(): not freed\n",
			  buf->addr);
		return;
	}

	get_ops(buf->pd->context)->free_buf(buf);
}

struct ibv_buf *verbs_alloc_user_buf(struct ibv_pd *pd, void *addr, size_t size,
				     int dmabuf_fd)
{
	return buf_alloc_backed(pd, size, VERBS_BUF_USER, addr, dmabuf_fd);
}

static int dup_dmabuf(int dmabuf_fd, size_t size, int *new_fd)
{
	size_t has;
	int ret;

	ret = buf_dmabuf_size(dmabuf_fd, &has);
	if (ret)
		return ret;
	if (has < size)
		return EINVAL;

	*new_fd = fcntl(dmabuf_fd, F_DUPFD_CLOEXEC, 0);
	return *new_fd < 0 ? errno : 0;
}

/*
 * The page size of the mappings that the range touches. EINVAL when they
 * differ: rounded to the larger pages, the range would take in memory that it
 * does not touch.
 */
static int range_page_size(uintptr_t start, uintptr_t last, size_t *page_size)
{
	uintptr_t map_start, map_end;
	size_t found = 0, room = 0, kib;
	bool touched = false;
	char *line = NULL;
	FILE *file;
	int ret = 0;

	file = fopen("/proc/self/smaps", "r" STREAM_CLOEXEC);
	if (!file)
		return errno;

	while (!ret && getline(&line, &room, file) >= 0) {
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &map_start,
			   &map_end) == 2)
			touched = map_start <= last && map_end > start;
		else if (touched &&
			 sscanf(line, "KernelPageSize: %zu kB", &kib) == 1) {
			if (found && found != kib << 10)
				ret = EINVAL;
			found = kib << 10;
		}
	}

	if (!ret && !feof(file))
		ret = errno;
	free(line);
	fclose(file);
	if (!ret && found)
		*page_size = found;
	return ret;
}

static int buf_user_alloc(struct ibv_buf *buf)
{
	uintptr_t start = (uintptr_t)buf->addr;
	int ret;

	buf->map_length = buf->size;
	buf->map_page_size = sysconf(_SC_PAGESIZE);
	if (ibv_is_fork_initialized() == IBV_FORK_ENABLED) {
		ret = range_page_size(start, start + (buf->size - 1),
				      &buf->map_page_size);
		if (ret)
			return ret;
	}

	if (buf->dmabuf_fd < 0)
		return 0;

	return dup_dmabuf(buf->dmabuf_fd, buf->size, &buf->dmabuf_fd);
}

static void buf_user_free(struct ibv_buf *buf)
{
	if (buf->dmabuf_fd >= 0)
		close(buf->dmabuf_fd);
}

const struct buf_backing_ops buf_user_ops = {
	.alloc = buf_user_alloc,
	.free = buf_user_free,
};
