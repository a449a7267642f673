// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A kernel that answers wrongly, as one that is emulated might: the allocation
 * of a DMA-buf gives a descriptor that is none, or of something else, or of too
 * few bytes. Each is refused with EIO; what is not a DMA-buf may be the
 * program's own, so it is neither used nor closed. And a kernel that is only
 * strict: it breaks off what takes long when there is a signal, and refuses
 * memory that could be executed.
 *
 * Functions of this program take the place of the C library's for the library.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/dma-heap.h>
#include <linux/udmabuf.h>

#include <cmocka.h>

#include "../guest/mem.h"
#include "../guest/rdma.h"

#define SIZE (64 * KIB)
#define LARGE (8 * MIB)
#define MAX_STEP (2 * MIB)

enum answer {
	TRUE,
	SHORT,		/* a DMA-buf of one page */
	OTHER,		/* other_fd */
};

static struct rdma rdma;
static enum answer answer;
static int other_fd;
static unsigned int answers;
static bool breaks_off;
static unsigned int broken_off;

static int alloc_heap(int fd, struct dma_heap_allocation_data *data)
{
	struct dma_heap_allocation_data truth = *data;

	if (answer == OTHER) {
		data->fd = other_fd;
		return 0;
	}
	if (answer == SHORT)
		truth.len = 4096;
	if (syscall(SYS_ioctl, fd, DMA_HEAP_IOCTL_ALLOC, &truth))
		return -1;
	data->fd = truth.fd;
	return 0;
}

static int create_udmabuf(int fd, const struct udmabuf_create *create)
{
	struct udmabuf_create truth = *create;

	if (answer == OTHER)
		return other_fd;
	if (answer == SHORT)
		truth.size = 4096;
	return syscall(SYS_ioctl, fd, UDMABUF_CREATE, &truth);
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	void *arg;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);

	if (request != DMA_HEAP_IOCTL_ALLOC && request != UDMABUF_CREATE)
		return syscall(SYS_ioctl, fd, request, arg);
	answers++;
	return request == UDMABUF_CREATE ? create_udmabuf(fd, arg) :
					   alloc_heap(fd, arg);
}

/* As Linux 5.10, where signals come every few milliseconds */
int fallocate(int fd, int mode, off_t at, off_t length)
{
	if (breaks_off && (length > MAX_STEP || broken_off % 2 == 0)) {
		if (++broken_off > 10000)
			abort();
		errno = EINTR;
		return -1;
	}
	if (breaks_off)
		broken_off++;
	return syscall(SYS_fallocate, fd, mode, at, length);
}

struct use {
	size_t fds;
	size_t maps;
};

static struct use use_now(void)
{
	return (struct use) { mem_fds(), mem_maps() };
}

static void assert_as_before(struct use before)
{
	assert_int_equal(mem_fds(), before.fds);
	assert_int_equal(mem_maps(), before.maps);
}

/* Nothing is had, nothing is left, and the handle is untouched. */
static void assert_refused(enum answer wrong, int fd)
{
	struct ibv_buf *buf = (void *)1;
	struct use before = use_now();

	answer = wrong;
	other_fd = fd;
	answers = 0;
	errno = 0;
	assert_null(ibv_alloc_buf(rdma.pd, SIZE, &buf));
	assert_int_equal(errno, EIO);
	assert_ptr_equal(buf, (void *)1);
	assert_true(answers > 0);
	answer = TRUE;
	assert_as_before(before);
}

static void true_answer_is_taken(void **state)
{
	struct use before = use_now();
	struct ibv_buf *buf;

	answers = 0;
	assert_non_null(ibv_alloc_buf(rdma.pd, SIZE, &buf));
	assert_true(answers > 0);
	ibv_free_buf(buf);
	assert_as_before(before);
}

static void no_descriptor(void **state)
{
	assert_refused(OTHER, 1000);
	/* Of udmabuf, it is how the kernel says that there is an errno. */
	if (rdma.imports)
		assert_refused(OTHER, -1);
}

static void descriptor_of_a_pipe(void **state)
{
	char byte;
	int fd[2];

	assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
	assert_refused(OTHER, fd[0]);
	assert_int_equal(write(fd[1], "x", 1), 1);
	assert_int_equal(read(fd[0], &byte, 1), 1);
	close(fd[0]);
	close(fd[1]);
}

/* It could be mapped, and then be written to. */
static void descriptor_of_a_file(void **state)
{
	char text[8] = "";
	int fd;

	fd = syscall(SYS_memfd_create, "file", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 2 * SIZE), 0);
	assert_int_equal(pwrite(fd, "private", 8, 0), 8);
	assert_refused(OTHER, fd);
	assert_int_equal(pread(fd, text, 8, 0), 8);
	assert_string_equal(text, "private");
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
	close(fd);
}

static void too_few_bytes(void **state)
{
	assert_refused(SHORT, -1);
}

/* Of a udmabuf alone: a heap allocates in one go. */
static void broken_off_by_signals(void **state)
{
	struct use before = use_now();
	struct ibv_buf *buf;
	char *mem;

	if (rdma.imports) {
		print_message("# the device takes memory of a heap\n");
		skip();
	}
	broken_off = 0;
	breaks_off = true;
	mem = ibv_alloc_buf(rdma.pd, LARGE, &buf);
	breaks_off = false;
	assert_non_null(mem);
	assert_true(broken_off >= LARGE / MAX_STEP);
	assert_true(mem_is_zero(mem, LARGE));
	ibv_free_buf(buf);
	assert_as_before(before);
}

static void set_noexec(char value)
{
	int fd = open("/proc/sys/vm/memfd_noexec", O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, &value, 1), 1);
	close(fd);
}

/* The sysctl that refuses memory files that could be executed */
static void where_none_may_be_executed(void **state)
{
	struct ibv_buf *buf;
	char *mem;

	set_noexec('2');
	mem = ibv_alloc_buf(rdma.pd, SIZE, &buf);
	set_noexec('0');
	assert_non_null(mem);
	ibv_free_buf(buf);
}

static int setup(void **state)
{
	return rdma_open(&rdma);
}

static int teardown(void **state)
{
	rdma_close(&rdma);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(true_answer_is_taken),
		cmocka_unit_test(no_descriptor),
		cmocka_unit_test(descriptor_of_a_pipe),
		cmocka_unit_test(descriptor_of_a_file),
		cmocka_unit_test(too_few_bytes),
		cmocka_unit_test(broken_off_by_signals),
		cmocka_unit_test(where_none_may_be_executed),
	};

	setenv("IBV_BUF_BACKING", "dmabuf", 1);
	return cmocka_run_group_tests(tests, setup, teardown);
}
