// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What the backings promise beyond what buf.c and traffic.c test of any buffer:
 * which memory it is, its export, and what happens when there is none. A
 * process chooses once, by IBV_BUF_BACKING, so one run tests one word.
 *
 * The buffers are of a plain protection domain: a device that bounces takes
 * none of them, which is all that differs there. On a device that imports
 * DMA-bufs the words for DMA-bufs mean the heap, else a udmabuf.
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
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <infiniband/driver.h>

#include "mem.h"
#include "rdma.h"
#include "sim.h"

#define HUGE_POOL "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
#define HUGE (2 * MIB)
#define HEAP "/dev/dma_heap/system"
#define HIDDEN_HEAP "/dev/heap"
#define SHARED_HEAP "/dev/dma_heap/system_cc_shared"

static struct rdma rdma;
static const char *word;

static bool wants(const char *what)
{
	return !strcmp(word, what);
}

static bool is_dmabuf(void)
{
	return wants("dmabuf") || wants("prefer_dmabuf");
}

static bool is_huge(void)
{
	return wants("huge") || wants("prefer_huge");
}

static void set_huge_pool(int pages)
{
	FILE *file = fopen(HUGE_POOL, "we");

	assert_non_null(file);
	assert_true(fprintf(file, "%d\n", pages) > 0);
	assert_int_equal(fclose(file), 0);
}

static size_t free_huge_pages(void)
{
	size_t n = 0;
	FILE *file = fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/"
			   "free_hugepages", "re");

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%zu", &n), 1);
	fclose(file);
	return n;
}

static bool has_udmabuf(void)
{
	return !access("/dev/udmabuf", F_OK);
}

/* There is memory for the words of DMA-bufs. */
static bool has_dmabuf(void)
{
	return has_udmabuf() || (rdma.imports && !access(HEAP, F_OK));
}

static void refuse(size_t size, int err)
{
	struct ibv_buf *const mark = (struct ibv_buf *)&rdma;
	const size_t maps = mem_maps(), fds = mem_fds(), space = mem_space();
	struct ibv_buf *buf = mark;

	errno = 0;
	assert_null(ibv_alloc_buf(rdma.base, size, &buf));
	assert_int_equal(errno, err);
	assert_ptr_equal(buf, mark);
	assert_int_equal(mem_maps(), maps);
	assert_int_equal(mem_fds(), fds);
	assert_int_equal(mem_space(), space);
}

static char *alloc(size_t size, struct ibv_buf **buf)
{
	char *mem = ibv_alloc_buf(rdma.base, size, buf);

	assert_non_null(mem);
	return mem;
}

/* NULL from a device that bounces, which says so */
static struct ibv_mr *reg(struct ibv_buf *buf, char *addr, size_t length)
{
	struct ibv_mr *mr;

	errno = 0;
	mr = ibv_reg_buf_mr(rdma.base, buf, addr, length, RDMA_REMOTE);
	if (rdma.bounces) {
		assert_null(mr);
		assert_int_equal(errno, EOPNOTSUPP);
		return NULL;
	}
	assert_non_null(mr);
	assert_ptr_equal(mr->addr, addr);
	assert_int_equal(mr->length, length);
	return mr;
}

static void dereg(struct ibv_mr *mr)
{
	if (mr)
		assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* The heap's name, or "udmabuf" */
static void assert_exporter(int fd, const char *name)
{
	char path[64], line[256], found[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	file = fopen(path, "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		sscanf(line, "exp_name: %31s", found);
	fclose(file);
	assert_string_equal(found, name);
}

static void memory_is_of_the_kind(void **state)
{
	const size_t sizes[] = { 3 * MIB / 2, HUGE, 5 * MIB };
	struct ibv_buf *buf;
	bool exports;
	size_t i;
	char *mem;
	int fd;

	set_huge_pool(8);
	for (i = 0; i < 3; i++) {
		mem = alloc(sizes[i], &buf);
		assert_int_equal((uintptr_t)mem % mem_whole(1), 0);
		assert_true(mem_is_zero(mem, mem_whole(sizes[i])));
		/* VmFlags ht: hugetlb */
		assert_int_equal(mem_any_flagged(mem, sizes[i], "ht"),
				 is_huge());
		mem_fill(mem, sizes[i], i);

		exports = is_dmabuf() && has_dmabuf();
		errno = 0;
		fd = ibv_export_buf_dmabuf_fd(buf);
		if (exports) {
			assert_true(fd >= 0);
			assert_exporter(fd, rdma.imports ? "system" :
							   "udmabuf");
			close(fd);
		} else {
			assert_int_equal(fd, -1);
			assert_int_equal(errno, ENODATA);
		}
		ibv_free_buf(buf);
	}
	set_huge_pool(0);
}

static void iova_goes_with_what_is_no_dmabuf(void **state)
{
	struct ibv_mr_init_attr attr = {
		.length = 8192,
		.access = RDMA_REMOTE,
		.comp_mask = IBV_REG_MR_MASK_BUF | IBV_REG_MR_MASK_ADDR |
			     IBV_REG_MR_MASK_IOVA,
		.iova = 0x10000,
	};
	struct ibv_mr *mr;
	int fd;

	set_huge_pool(8);
	attr.addr = alloc(2 * MIB, &attr.buf);
	fd = ibv_export_buf_dmabuf_fd(attr.buf);
	errno = 0;
	mr = ibv_reg_mr_ex(rdma.base, &attr);
	if (fd >= 0) {
		assert_null(mr);
		assert_int_equal(errno, EINVAL);
		close(fd);
	} else if (rdma.bounces) {
		assert_null(mr);
		assert_int_equal(errno, EOPNOTSUPP);
	} else {
		assert_non_null(mr);
		assert_ptr_equal(mr->addr, attr.addr);
		assert_int_equal(ibv_dereg_mr(mr), 0);
	}
	ibv_free_buf(attr.buf);
	set_huge_pool(0);
}

static void huge_needs_reserved_pages(void **state)
{
	struct ibv_buf *buf;
	char *mem;

	set_huge_pool(0);
	if (wants("huge")) {
		refuse(HUGE, ENOMEM);
		set_huge_pool(2);
		refuse(3 * HUGE, ENOMEM);
		assert_int_equal(free_huge_pages(), 2);
		alloc(2 * HUGE, &buf);
		assert_int_equal(free_huge_pages(), 0);
		refuse(HUGE, ENOMEM);
		ibv_free_buf(buf);
		assert_int_equal(free_huge_pages(), 2);
		set_huge_pool(0);
	} else {
		/* Nobody else is in want of them, prefer_huge falls back. */
		mem = alloc(HUGE, &buf);
		assert_false(mem_any_flagged(mem, HUGE, "ht"));
		ibv_free_buf(buf);
	}
}

static void huge_never_takes_twice_the_size(void **state)
{
	struct ibv_buf *buf;
	char *mem;

	set_huge_pool(8);
	if (wants("huge")) {
		refuse(1, EOPNOTSUPP);
		refuse(HUGE / 2, EOPNOTSUPP);
	} else {
		mem = alloc(HUGE / 2, &buf);
		assert_false(mem_any_flagged(mem, HUGE / 2, "ht"));
		ibv_free_buf(buf);
	}
	mem = alloc(HUGE / 2 + 1, &buf);
	assert_true(mem_all_flagged(mem, HUGE, "ht"));
	assert_int_equal(free_huge_pages(), 7);
	ibv_free_buf(buf);
	set_huge_pool(0);
}

/* A part of a hugetlb mapping is registered like any other. */
static void parts_are_registered(void **state)
{
	struct ibv_buf *buf;
	size_t at;
	char *mem;

	set_huge_pool(8);
	mem = alloc(2 * HUGE, &buf);
	for (at = 1; at < 2 * HUGE - 5000; at += 600001)
		dereg(reg(buf, mem + at, 5000));
	ibv_free_buf(buf);
	set_huge_pool(0);
}

static void export_shows_the_bytes_and_keeps_them(void **state)
{
	struct ibv_buf *buf;
	char *mem, *map;
	int fd, other;

	mem = alloc(3 * MIB, &buf);
	assert_int_equal(fcntl(buf->dmabuf_fd, F_GETFD), FD_CLOEXEC);
	mem_fill(mem, 3 * MIB, 1);
	fd = ibv_export_buf_dmabuf_fd(buf);
	other = ibv_export_buf_dmabuf_fd(buf);
	assert_true(fd >= 0 && other >= 0 && fd != other);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(close(other), 0);

	map = mmap(NULL, 3 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	assert_true(mem_is_filled(map, 3 * MIB, 1));
	mem_fill(map, 3 * MIB, 2);
	assert_true(mem_is_filled(mem, 3 * MIB, 2));

	ibv_free_buf(buf);
	assert_true(mem_is_filled(map, 3 * MIB, 2));
	/* Nobody who holds the fd can take pages away from the device. */
	assert_int_not_equal(ftruncate(fd, 0), 0);
	munmap(map, 3 * MIB);
	close(fd);
}

static void send_fd(int socket, int fd)
{
	char byte = 0, control[CMSG_SPACE(sizeof(int))] = {};
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(int));
	assert_int_equal(sendmsg(socket, &msg, 0), 1);
}

static int receive_fd(int socket)
{
	char byte, control[CMSG_SPACE(sizeof(int))] = {};
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	int fd;

	if (recvmsg(socket, &msg, 0) != 1 || !CMSG_FIRSTHDR(&msg))
		return -1;
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(int));
	return fd;
}

/* The other process: maps what it is sent, and answers what it sees there. */
static void watch_buffer(int socket)
{
	char *map;
	char want;
	int fd;

	fd = receive_fd(socket);
	map = mmap(NULL, MIB, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		_exit(1);
	while (read(socket, &want, 1) == 1) {
		bool right = mem_is_filled(map, MIB, want);

		if (write(socket, &right, 1) != 1)
			_exit(1);
	}
	_exit(0);
}

/* A buffer that the device reaches, written to by it */
struct target {
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	char *mem;
};

static void target_open(struct target *t)
{
	t->mem = ibv_alloc_buf(rdma.pd, MIB, &t->buf);
	assert_non_null(t->mem);
	t->mr = ibv_reg_buf_mr(rdma.pd, t->buf, t->mem, MIB, RDMA_REMOTE);
	assert_non_null(t->mr);
}

static void target_close(struct target *t)
{
	assert_int_equal(ibv_dereg_mr(t->mr), 0);
	ibv_free_buf(t->buf);
}

static void carry(struct pair *pair, struct target *from, struct target *to)
{
	struct ibv_sge sge = { (uintptr_t)from->mem, MIB, from->mr->lkey };
	struct ibv_wc wc;

	assert_int_equal(rdma_send(pair->qp[0], IBV_WR_RDMA_WRITE, &sge, 1,
				   (uintptr_t)to->mem, to->mr->rkey), 0);
	assert_int_equal(rdma_wait(pair->cq[0], &wc), 0);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

/* Traffic, or what the test device writes on demand */
static void another_process_sees_what_the_device_writes(void **state)
{
	struct target from, to;
	struct pair pair = {};
	int socket[2], status, fd;
	bool right;
	pid_t pid;
	char seed;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0,
				    socket), 0);
	pid = fork();
	assert_int_not_equal(pid, -1);
	if (!pid) {
		close(socket[0]);
		watch_buffer(socket[1]);
	}
	close(socket[1]);

	if (rdma.carries)
		assert_int_equal(pair_open(&pair, &rdma), 0);
	target_open(&from);
	target_open(&to);
	fd = ibv_export_buf_dmabuf_fd(to.buf);
	assert_true(fd >= 0);
	send_fd(socket[0], fd);
	close(fd);

	for (seed = 1; seed < 10; seed++) {
		mem_fill(from.mem, MIB, seed);
		if (rdma.carries)
			carry(&pair, &from, &to);
		else
			assert_int_equal(sim_write(to.mr->rkey,
						   (uintptr_t)to.mem,
						   from.mem, MIB), 0);
		assert_int_equal(write(socket[0], &seed, 1), 1);
		assert_int_equal(read(socket[0], &right, 1), 1);
		assert_true(right);
	}

	close(socket[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	target_close(&from);
	target_close(&to);
	if (rdma.carries)
		pair_close(&pair);
}

/*
 * With the heap: its node, or its DMA-buf and then the node of udmabuf, is one
 * too many. Without: the memfd, the node or the DMA-buf.
 */
static void no_descriptor_left_is_emfile(void **state)
{
	const size_t needed = rdma.imports ? 2 : 3;
	struct rlimit old, low;
	size_t free_fds;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	for (free_fds = 0; free_fds <= needed; free_fds++) {
		size_t fds = mem_fds();
		size_t maps = mem_maps();
		struct ibv_buf *buf;
		int last, err;
		char *mem;

		last = dup(0);
		assert_true(last >= 0);
		close(last);
		low = old;
		low.rlim_cur = last + free_fds;
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
		errno = 0;
		mem = ibv_alloc_buf(rdma.base, MIB, &buf);
		err = errno;
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
		if (free_fds < needed) {
			assert_null(mem);
			assert_int_equal(err, EMFILE);
		} else {
			assert_non_null(mem);
			ibv_free_buf(buf);
		}
		assert_int_equal(mem_fds(), fds);
		assert_int_equal(mem_maps(), maps);
	}
}

/* RLIMIT_NOFILE of 64: each DMA-buf takes one, and the rest is for others. */
static void few_descriptors(void **state)
{
	static struct ibv_buf *buf[64];
	const size_t fds = mem_fds();
	struct rlimit old, low;
	int n, err;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = old;
	low.rlim_cur = 64;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	for (n = 0; n < 64; n++) {
		errno = 0;
		if (!ibv_alloc_buf(rdma.base, 4096, &buf[n]))
			break;
		dereg(reg(buf[n], buf[n]->addr, 4096));
	}
	err = errno;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(err, EMFILE);
	assert_int_equal(mem_fds(), fds + n);
	/* Standard streams, the device, and what it takes to make the next */
	assert_in_range(n, 48, 60);
	while (n--)
		ibv_free_buf(buf[n]);
	assert_int_equal(mem_fds(), fds);
}

/* In a process that may not open the node of the device */
static void no_permission_is_eacces(void **state)
{
	struct ibv_buf *buf;
	int status;
	pid_t pid;

	pid = fork();
	assert_int_not_equal(pid, -1);
	if (!pid) {
		if (setgid(65534) || setuid(65534))
			_exit(1);
		if (ibv_alloc_buf(rdma.base, MIB, &buf))
			_exit(2);
		_exit(errno == EACCES ? 0 : 3);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void hide(const char *node, const char *hidden)
{
	if (!access(node, F_OK))
		assert_int_equal(rename(node, hidden), 0);
}

static void assert_heap_is_first(void)
{
	struct ibv_buf *buf;
	int fd;

	alloc(MIB, &buf);
	fd = ibv_export_buf_dmabuf_fd(buf);
	assert_true(fd >= 0);
	assert_exporter(fd, "system");
	close(fd);
	ibv_free_buf(buf);
}

/* A device that imports needs it only where there is no heap. */
static void no_udmabuf_is_enoent(void **state)
{
	struct ibv_buf *buf;
	char *mem;

	hide("/dev/udmabuf", "/dev/hidden");
	if (rdma.imports) {
		assert_heap_is_first();
		hide(HEAP, HIDDEN_HEAP);
	}
	if (wants("dmabuf")) {
		refuse(MIB, ENOENT);
	} else {
		mem = alloc(MIB, &buf);
		assert_true(mem_is_zero(mem, MIB));
		errno = 0;
		assert_int_equal(ibv_export_buf_dmabuf_fd(buf), -1);
		assert_int_equal(errno, ENODATA);
		ibv_free_buf(buf);
	}
	hide("/dev/hidden", "/dev/udmabuf");
	hide(HIDDEN_HEAP, HEAP);
}

static void beyond_memory_is_an_error_not_a_signal(void **state)
{
	set_huge_pool(4);
	/* Far more than the guest has, and a little more */
	refuse((size_t)1 << 40, ENOMEM);
	refuse((size_t)3 << 30, ENOMEM);
	set_huge_pool(0);
}

/* As the op of a provider asks; rxe, which imports nothing, never does. */
static void heap_is_for_devices_that_import(void **state)
{
	static const enum verbs_buf_backing list[] = {
		VERBS_BUF_DMABUF, VERBS_BUF_END,
	};
	static const char *const exporters[] = { "system", "udmabuf" };
	const size_t fds = mem_fds(), maps = mem_maps();
	struct ibv_buf *buf;
	int round, fd;
	char *mem, *map;

	/* In the second round a udmabuf has to do. */
	for (round = 0; round < 2; round++) {
		mem = verbs_alloc_buf_from(rdma.base, MIB + 1, list, &buf);
		assert_non_null(mem);
		assert_int_equal(buf->backing, VERBS_BUF_DMABUF);
		assert_true(mem_is_zero(mem, MIB + 4096));
		mem_fill(mem, MIB + 4096, round);

		fd = ibv_export_buf_dmabuf_fd(buf);
		assert_true(fd >= 0);
		assert_exporter(fd, exporters[round]);
		map = mmap(NULL, MIB, PROT_READ, MAP_SHARED, fd, 0);
		assert_ptr_not_equal(map, MAP_FAILED);
		assert_memory_equal(map, mem, MIB);
		munmap(map, MIB);
		close(fd);
		if (rdma.imports)
			dereg(reg(buf, mem + 4099, 5000));
		/* Not the op of the provider, which did not allocate it */
		verbs_free_buf(buf);
		if (!round)
			assert_int_equal(rename(HEAP, HIDDEN_HEAP), 0);
	}
	assert_int_equal(rename(HIDDEN_HEAP, HEAP), 0);
	assert_int_equal(mem_fds(), fds);
	assert_int_equal(mem_maps(), maps);
}

/* With the heap there, it is as good as any. */
static void no_shared_heap_is_enoent(void **state)
{
	static const enum verbs_buf_backing list[] = {
		VERBS_BUF_CC_SHARED, VERBS_BUF_END,
	};
	struct ibv_buf *buf;
	uint64_t total;

	if (!access(SHARED_HEAP, F_OK)) {
		total = sim_heap().total;
		assert_non_null(verbs_alloc_buf_from(rdma.base, MIB, list,
						     &buf));
		assert_int_equal(buf->backing, VERBS_BUF_CC_SHARED);
		assert_int_equal(sim_heap().total, total + 1);
		verbs_free_buf(buf);
		return;
	}

	errno = 0;
	assert_null(verbs_alloc_buf_from(rdma.base, MIB, list, &buf));
	assert_int_equal(errno, ENOENT);
}

static void nothing_is_left(void **state)
{
	size_t maps = 0, fds = 0, space = 0;
	struct ibv_buf *buf[8];
	struct ibv_mr *mr[8];
	int round, i;
	char *mem;

	set_huge_pool(16);
	for (round = 0; round < 3; round++) {
		for (i = 0; i < 8; i++) {
			mem = alloc(HUGE + i * 4096, &buf[i]);
			mr[i] = reg(buf[i], mem, HUGE);
		}
		for (i = 0; i < 8; i++) {
			dereg(mr[i]);
			ibv_free_buf(buf[i]);
		}
		/* The first round may leave memory with malloc(). */
		if (!round) {
			maps = mem_maps();
			fds = mem_fds();
			space = mem_space();
		}
	}
	assert_int_equal(mem_maps(), maps);
	assert_int_equal(mem_fds(), fds);
	assert_int_equal(mem_space(), space);
	assert_int_equal(free_huge_pages(), 16);
	set_huge_pool(0);
}

static int teardown(void **state)
{
	rdma_close(&rdma);
	return 0;
}

/* What a copy of this program says of its buffer: is it backed by a DMA-buf? */
static int tell_export(void)
{
	struct ibv_buf *buf;
	int fd, ret;

	if (rdma_open(&rdma) || !ibv_alloc_buf(rdma.base, MIB, &buf))
		return 2;
	fd = ibv_export_buf_dmabuf_fd(buf);
	ret = fd >= 0 ? 0 : errno == ENODATA ? 1 : 3;
	if (fd >= 0)
		close(fd);
	ibv_free_buf(buf);
	rdma_close(&rdma);
	return ret;
}

static int run_as_nobody(const char *path)
{
	int status;
	pid_t pid;

	pid = fork();
	assert_int_not_equal(pid, -1);
	if (!pid) {
		if (setgid(65534) || setuid(65534))
			_exit(9);
		execl(path, path, "export", NULL);
		_exit(9);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void set_id_program_ignores_the_word(void **state)
{
	const char *copy = "/tmp/backings";
	char command[600], self[512];
	ssize_t n;

	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	assert_true(n > 0);
	self[n] = 0;
	snprintf(command, sizeof(command), "cp '%s' %s", self, copy);
	assert_int_equal(system(command), 0);

	/* Without the bit it only lacks the permissions of root. */
	assert_int_equal(chmod(rdma.node, 0666), 0);
	assert_int_equal(chmod("/dev/udmabuf", 0666), 0);
	/* Which a device that bounces takes, to be opened at all */
	if (rdma.bounces)
		assert_int_equal(chmod(SHARED_HEAP, 0666), 0);
	assert_int_equal(chmod(copy, 0755), 0);
	assert_int_equal(run_as_nobody(copy), 0);
	assert_int_equal(chmod(copy, 04755), 0);
	assert_int_equal(run_as_nobody(copy), 1);

	assert_int_equal(chmod("/dev/udmabuf", 0600), 0);
	if (rdma.bounces)
		assert_int_equal(chmod(SHARED_HEAP, 0600), 0);
	assert_int_equal(unlink(copy), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest any[] = {
		cmocka_unit_test(memory_is_of_the_kind),
		cmocka_unit_test(iova_goes_with_what_is_no_dmabuf),
		cmocka_unit_test(huge_needs_reserved_pages),
		cmocka_unit_test(parts_are_registered),
		cmocka_unit_test(nothing_is_left),
	};
	const struct CMUnitTest huge[] = {
		cmocka_unit_test(huge_never_takes_twice_the_size),
	};
	const struct CMUnitTest no_dmabuf[] = {
		cmocka_unit_test(no_udmabuf_is_enoent),
	};
	const struct CMUnitTest dmabuf[] = {
		cmocka_unit_test(export_shows_the_bytes_and_keeps_them),
		cmocka_unit_test(another_process_sees_what_the_device_writes),
	};
	/* Where the process may not fall back to other memory */
	const struct CMUnitTest strict[] = {
		cmocka_unit_test(beyond_memory_is_an_error_not_a_signal),
	};
	const struct CMUnitTest strict_dmabuf[] = {
		cmocka_unit_test(beyond_memory_is_an_error_not_a_signal),
		cmocka_unit_test(heap_is_for_devices_that_import),
		cmocka_unit_test(no_shared_heap_is_enoent),
		cmocka_unit_test(no_descriptor_left_is_emfile),
		cmocka_unit_test(few_descriptors),
		cmocka_unit_test(no_permission_is_eacces),
		cmocka_unit_test(set_id_program_ignores_the_word),
	};
	struct CMUnitTest tests[16] = {};
	size_t n = 0;

	if (argc > 1)
		return tell_export();

	word = getenv("IBV_BUF_BACKING") ?: "anon";
	if (rdma_open(&rdma))
		return 1;
#define ADD(list)                                                              \
	do {                                                                   \
		memcpy(tests + n, list, sizeof(list));                         \
		n += sizeof(list) / sizeof(*(list));                             \
	} while (0)
	/* On a kernel without DMA-bufs the word dmabuf only ever fails. */
	if (!wants("dmabuf") || has_dmabuf())
		ADD(any);
	if (is_dmabuf())
		ADD(no_dmabuf);
	if (is_huge())
		ADD(huge);
	if (wants("huge"))
		ADD(strict);
	if (is_dmabuf() && has_dmabuf())
		ADD(dmabuf);
	if (wants("dmabuf") && has_dmabuf())
		ADD(strict_dmabuf);

	return _cmocka_run_group_tests(word, tests, n, NULL, teardown);
}
