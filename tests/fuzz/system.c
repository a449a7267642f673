// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * See system.h. The linker leads the library's calls here (--wrap), by the list
 * in the file "wrapped".
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/dma-heap.h>

#include "input.h"
#include "system.h"

#define DMABUF_FS_MAGIC 0x444d4142
#define HUGE_SHIFT 26
#define HUGE_MASK 63U

struct system fake;

int __real_close(int fd);
int __real_closedir(DIR *dir);
int __real_fcntl(int fd, int command, ...);
FILE *__real_fopen(const char *path, const char *mode);
int __real_fstatfs(int fd, struct statfs *fs);
int __real_ioctl(int fd, unsigned long request, ...);
int __real_madvise(void *addr, size_t length, int advice);
void *__real_mmap(void *addr, size_t length, int prot, int flags, int fd,
		  off_t at);
int __real_munmap(void *addr, size_t length);
int __real_open(const char *path, int flags, ...);
int __real_openat(int dir, const char *path, int flags, ...);
DIR *__real_opendir(const char *path);
int __real_pthread_once(pthread_once_t *once, void (*init)(void));
struct dirent *__real_readdir(DIR *dir);
void __real_rewinddir(DIR *dir);

void system_begin(void)
{
	fake = (struct system) { .in_use = true };
}

void system_end(void)
{
	CHECK(!fake.mappings && !fake.fds);
	fake.in_use = false;
}

size_t system_mapped(void)
{
	size_t bytes = 0, i;

	for (i = 0; i < fake.mappings; i++)
		bytes += fake.mapping[i].length;
	return bytes;
}

static bool is_shown(const char *path)
{
	return fake.in_use && fake.path && !strcmp(path, fake.path);
}

static bool fails(void)
{
	fake.calls += fake.in_use;
	if (!fake.in_use || !fake.failures)
		return false;
	fake.failures--;
	errno = fake.fail_with;
	return true;
}

static int count_fd(int fd)
{
	fake.fds += fake.in_use && fd >= 0;
	return fd;
}

/* A file that reads as the text that is shown */
static int open_text(void)
{
	int fd = memfd_create("text", MFD_CLOEXEC);

	CHECK(write(fd, fake.text, fake.text_length) == fake.text_length);
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	return count_fd(fd);
}

int __wrap_open(const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = (flags & O_CREAT) ? va_arg(args, mode_t) : 0;
	va_end(args);
	if (strncmp(path, "/dev/dma_heap/", 14))
		return count_fd(__real_open(path, flags, mode));
	if (fake.has_heaps)
		return count_fd(__real_open("/dev/null", flags));
	errno = ENOENT;
	return -1;
}

int __wrap_openat(int dir, const char *path, int flags, ...)
{
	if (is_shown(path))
		return open_text();
	return count_fd(__real_openat(dir, path, flags));
}

int __wrap_close(int fd)
{
	fake.fds -= fake.in_use;
	return __real_close(fd);
}

int __wrap_fcntl(int fd, int command, ...)
{
	va_list args;
	long arg;
	int ret;

	va_start(args, command);
	arg = va_arg(args, long);
	va_end(args);
	ret = __real_fcntl(fd, command, arg);
	return command == F_DUPFD_CLOEXEC ? count_fd(ret) : ret;
}

int __wrap_fstatfs(int fd, struct statfs *fs)
{
	int ret = __real_fstatfs(fd, fs);

	if (!ret && fake.all_is_dmabuf)
		fs->f_type = DMABUF_FS_MAGIC;
	return ret;
}

/* What is not shown is not there: no fuzzer depends on this machine. */
FILE *__wrap_fopen(const char *path, const char *mode)
{
	if (is_shown(path) && fake.text_length)
		return fmemopen((void *)fake.text, fake.text_length, mode);
	if (is_shown(path))
		return __real_fopen("/dev/null", mode);
	if (strncmp(path, "/proc/", 6))
		return __real_fopen(path, mode);
	errno = ENOENT;
	return NULL;
}

DIR *__wrap_opendir(const char *path)
{
	return is_shown(path) ? (DIR *)&fake : __real_opendir(path);
}

void __wrap_rewinddir(DIR *dir)
{
	if (dir != (DIR *)&fake)
		__real_rewinddir(dir);
	fake.entry = fake.text;
}

struct dirent *__wrap_readdir(DIR *dir)
{
	static struct dirent dirent;
	const char *end;
	size_t n = 0;

	if (dir != (DIR *)&fake)
		return __real_readdir(dir);
	end = fake.text + fake.text_length;
	if (fake.entry == end)
		return NULL;
	while (fake.entry < end && *fake.entry != '\n') {
		if (n < sizeof(dirent.d_name) - 1)
			dirent.d_name[n++] = *fake.entry;
		fake.entry++;
	}
	fake.entry += fake.entry < end;
	dirent.d_name[n] = '\0';
	return &dirent;
}

int __wrap_closedir(DIR *dir)
{
	return dir == (DIR *)&fake ? 0 : __real_closedir(dir);
}

int __wrap_ioctl(int fd, unsigned long request, ...)
{
	struct dma_heap_allocation_data *data;
	va_list args;
	void *arg;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if (request != DMA_HEAP_IOCTL_ALLOC)
		return __real_ioctl(fd, request, arg);

	if (fails())
		return -1;
	data = arg;
	data->fd = count_fd(memfd_create("chunk", MFD_CLOEXEC));
	CHECK(!ftruncate(data->fd, data->len));
	return 0;
}

void *__wrap_mmap(void *addr, size_t length, int prot, int flags, int fd,
		  off_t at)
{
	void *map;

	if (fails())
		return MAP_FAILED;

	if (flags & MAP_HUGETLB) {
		fake.huge_shift = flags >> HUGE_SHIFT & HUGE_MASK;
		if (!(fake.huge_pages & 1ULL << fake.huge_shift)) {
			errno = ENOMEM;
			return MAP_FAILED;
		}
		flags &= ~(MAP_HUGETLB | HUGE_MASK << HUGE_SHIFT);
		flags |= MAP_NORESERVE;
	}

	map = __real_mmap(addr, length, prot, flags, fd, at);
	if (map == MAP_FAILED || !fake.in_use)
		return map;
	CHECK(fake.mappings < ARRAY_LENGTH(fake.mapping));
	fake.mapping[fake.mappings++] = (struct mapping) { map, length };
	return map;
}

/* Always within a mapping, of which there may be left something on each side */
int __wrap_munmap(void *addr, size_t length)
{
	char *start = addr, *end = start + length, *map_end;
	struct mapping *map = fake.mapping;

	if (!fake.in_use)
		return __real_munmap(addr, length);
	while (map < fake.mapping + fake.mappings &&
	       (start < map->addr || end > map->addr + map->length))
		map++;
	CHECK(map < fake.mapping + fake.mappings);

	map_end = map->addr + map->length;
	map->length = start - map->addr;
	if (!map->length)
		*map = fake.mapping[--fake.mappings];
	if (end < map_end)
		fake.mapping[fake.mappings++] =
			(struct mapping) { end, map_end - end };
	return __real_munmap(addr, length);
}

int __wrap_madvise(void *addr, size_t length, int advice)
{
	if (advice == MADV_HUGEPAGE)
		fake.advised += length;
	return __real_madvise(addr, length, advice);
}

int __wrap_pthread_once(pthread_once_t *once, void (*init)(void))
{
	if (!fake.once_again)
		return __real_pthread_once(once, init);
	init();
	return 0;
}
