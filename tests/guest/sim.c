// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The test device and its heap for the guest programs. See sim.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim.h"

#define DEVICE "sim0"
#define DEBUG "/sys/kernel/debug/ibv_sim/"
#define HEAP "/sys/kernel/debug/ibv_sim_heap/"
#define PARAMETERS "/sys/module/ibv_sim/parameters/"
#define DRIVER "/sys/bus/platform/drivers/ibv_sim/"
/* Emulation beside another guest is slow: this only ends what hangs. */
#define WAIT_SECONDS 30

static void die(const char *path)
{
	fprintf(stderr, "# sim: %s: %s\n", path, strerror(errno));
	abort();
}

static FILE *open_file(const char *path)
{
	FILE *file = fopen(path, "re");

	if (!file)
		die(path);
	return file;
}

__attribute__((format(scanf, 2, 4)))
static void scan(const char *path, const char *format, int fields, ...)
{
	FILE *file = open_file(path);
	va_list args;

	va_start(args, fields);
	if (vfscanf(file, format, args) != fields)
		die(path);
	va_end(args);
	fclose(file);
}

/* One write(2), since each is a request of its own */
__attribute__((format(printf, 2, 3)))
static void print(const char *path, const char *format, ...)
{
	char text[64];
	va_list args;
	int fd, n;

	va_start(args, format);
	n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);

	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, n) != n)
		die(path);
	close(fd);
}

bool sim_is_there(void)
{
	return !access(DEBUG, F_OK);
}

bool sim_is_mlx5(void)
{
	char name[16];

	scan(PARAMETERS "personality", "%15s", 1, name);
	return !strcmp(name, "mlx5");
}

bool sim_bounces(void)
{
	char yes = 0;

	scan(PARAMETERS "bounce", "%c", 1, &yes);
	return yes == 'Y';
}

struct ibv_context *sim_open(void)
{
	struct ibv_context *context = NULL;
	struct ibv_device **list;
	int i, err = ENODEV;

	list = ibv_get_device_list(NULL);
	for (i = 0; list && list[i]; i++) {
		if (strcmp(ibv_get_device_name(list[i]), DEVICE))
			continue;
		context = ibv_open_device(list[i]);
		err = errno;
		break;
	}
	if (list)
		ibv_free_device_list(list);

	if (!context) {
		fprintf(stderr, "# sim: " DEVICE ": %s\n", strerror(err));
		errno = err;
	}
	return context;
}

static void read_live(const char *kind, size_t *count, uint64_t *bytes)
{
	FILE *file = open_file(DEBUG "live");
	char name[16];

	while (fscanf(file, "%15s %zu %" SCNu64, name, count, bytes) == 3) {
		if (!strcmp(name, kind)) {
			fclose(file);
			return;
		}
	}
	errno = EINVAL;
	die(kind);
}

size_t sim_count(const char *kind)
{
	uint64_t bytes;
	size_t count;

	read_live(kind, &count, &bytes);
	return count;
}

uint64_t sim_bytes(const char *kind)
{
	uint64_t bytes;
	size_t count;

	read_live(kind, &count, &bytes);
	return bytes;
}

static bool is_empty(bool tell)
{
	FILE *file = open_file(DEBUG "live");
	bool empty = true;
	uint64_t bytes;
	char name[16];
	size_t count;

	while (fscanf(file, "%15s %zu %" SCNu64, name, &count, &bytes) == 3) {
		if (!count && !bytes)
			continue;
		empty = false;
		if (tell)
			fprintf(stderr, "# sim: left: %zu %s, %" PRIu64
				" bytes\n", count, name, bytes);
	}
	fclose(file);
	return empty;
}

bool sim_is_empty(void)
{
	int i;

	for (i = 0; i < WAIT_SECONDS * 10 && !is_empty(false); i++)
		usleep(100000);
	return is_empty(true);
}

uint64_t sim_refused(void)
{
	uint64_t n = 0;

	scan(DEBUG "refused", "%" SCNu64, 1, &n);
	return n;
}

void sim_fail(const char *kind, unsigned int n, int err)
{
	print(DEBUG "fail", "%s %u %d", kind, n, err);
}

size_t sim_memory(struct sim_memory *list, size_t max)
{
	FILE *file = open_file(DEBUG "memory");
	struct sim_memory entry;
	char source[24];
	size_t n = 0;

	while (fscanf(file, "%15s %" SCNu32 " %7s %d %23s %" SCNu64
		      " %zu %31s", entry.kind, &entry.id, entry.part,
		      &entry.pid, source, &entry.at, &entry.length,
		      entry.exporter) == 8) {
		entry.inode = strtoull(source, NULL, 10);
		if (n < max)
			list[n] = entry;
		n++;
	}
	fclose(file);
	return n;
}

struct sim_heap sim_heap(void)
{
	struct sim_heap heap = { 0 };

	scan(HEAP "live", "%" SCNu64 " %" SCNu64, 2, &heap.pieces, &heap.bytes);
	scan(HEAP "total", "%" SCNu64, 1, &heap.total);
	return heap;
}

void sim_heap_fail(unsigned int n, int err)
{
	print(HEAP "fail", "%u %d", n, err);
}

static int open_key(uint32_t key, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), DEBUG "mr/%08" PRIx32, key);
	return open(path, flags | O_CLOEXEC);
}

int sim_read(uint32_t key, uint64_t at, void *to, size_t n)
{
	int fd = open_key(key, O_RDONLY);
	int err = 0;

	if (fd < 0 || pread(fd, to, n, at) != n)
		err = errno;
	if (fd >= 0)
		close(fd);
	return err;
}

int sim_write(uint32_t key, uint64_t at, const void *from, size_t n)
{
	int fd = open_key(key, O_WRONLY);
	int err = 0;

	if (fd < 0 || pwrite(fd, from, n, at) != n)
		err = errno;
	if (fd >= 0)
		close(fd);
	return err;
}

void sim_set(const char *parameter, unsigned int value)
{
	char path[96];

	snprintf(path, sizeof(path), PARAMETERS "%s", parameter);
	print(path, "%u", value);
}

unsigned int sim_get(const char *parameter)
{
	unsigned int value = 0;
	char path[96];

	snprintf(path, sizeof(path), PARAMETERS "%s", parameter);
	scan(path, "%u", 1, &value);
	return value;
}

void sim_unbind(void)
{
	print(DRIVER "unbind", "ibv_sim");
}

void sim_bind(void)
{
	print(DRIVER "bind", "ibv_sim");
}
