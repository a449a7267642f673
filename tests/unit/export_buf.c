// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * ibv_export_buf_dmabuf_fd(). A memfd stands for the DMA-buf: what counts here
 * is which file descriptor comes back.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stub.h"

static struct ibv_buf *open_buf(struct stub *stub)
{
	struct ibv_buf *buf;

	assert_non_null(ibv_alloc_buf(&stub->pd, 8192, &buf));
	buf->dmabuf_fd = memfd_create("dmabuf", MFD_CLOEXEC);
	assert_true(buf->dmabuf_fd >= 0);
	return buf;
}

static void close_buf(struct ibv_buf *buf)
{
	assert_int_equal(close(buf->dmabuf_fd), 0);
	buf->dmabuf_fd = -1;
	buf->dmabuf_offset = 0;
	ibv_free_buf(buf);
}

static void null_is_einval(void **state)
{
	errno = 0;
	assert_int_equal(ibv_export_buf_dmabuf_fd(NULL), -1);
	assert_int_equal(errno, EINVAL);
}

static void anonymous_buffer_is_enodata(void **state)
{
	struct stub *stub = *state;
	struct ibv_buf *buf;

	assert_non_null(ibv_alloc_buf(&stub->pd, 8192, &buf));
	errno = 0;
	assert_int_equal(ibv_export_buf_dmabuf_fd(buf), -1);
	assert_int_equal(errno, ENODATA);
	ibv_free_buf(buf);
}

static void fd_is_new_and_close_on_exec(void **state)
{
	struct ibv_buf *buf = open_buf(*state);
	struct stat own, exported;
	int fd;

	fd = ibv_export_buf_dmabuf_fd(buf);
	assert_true(fd >= 0);
	assert_int_not_equal(fd, buf->dmabuf_fd);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fstat(buf->dmabuf_fd, &own), 0);
	assert_int_equal(fstat(fd, &exported), 0);
	assert_int_equal(own.st_ino, exported.st_ino);

	assert_int_equal(close(fd), 0);
	assert_int_equal(fcntl(buf->dmabuf_fd, F_GETFD), FD_CLOEXEC);
	close_buf(buf);
}

static void interior_of_a_dmabuf_is_enodata(void **state)
{
	struct ibv_buf *buf = open_buf(*state);

	buf->dmabuf_offset = 4096;
	errno = 0;
	assert_int_equal(ibv_export_buf_dmabuf_fd(buf), -1);
	assert_int_equal(errno, ENODATA);
	close_buf(buf);
}

static void no_fd_left_is_emfile(void **state)
{
	struct ibv_buf *buf = open_buf(*state);
	struct rlimit old, low;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = old;
	low.rlim_cur = buf->dmabuf_fd + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	errno = 0;
	assert_int_equal(ibv_export_buf_dmabuf_fd(buf), -1);
	assert_int_equal(errno, EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	close_buf(buf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(null_is_einval),
		cmocka_unit_test(anonymous_buffer_is_enodata),
		cmocka_unit_test(fd_is_new_and_close_on_exec),
		cmocka_unit_test(interior_of_a_dmabuf_is_enodata),
		cmocka_unit_test(no_fd_left_is_emfile),
	};

	return cmocka_run_group_tests(tests, stub_setup, stub_teardown);
}
