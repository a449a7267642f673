// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Who may see what of memory that has a DMA-buf: an exported descriptor shows
 * its buffer and nothing else, neither other buffers nor the rings of queues;
 * and how a set-id program takes shared memory is not for others to say. To be
 * run with IBV_BUF_BACKING=dmabuf, or on a device that bounces.
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
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../guest/mem.h"
#include "../guest/rdma.h"
#include "../guest/sim.h"

#define N 8
#define COPY "/tmp/shared"
#define POOL_KIB "64"
#define HEAP "/dev/dma_heap/system_cc_shared"

static struct rdma rdma;

struct exported {
	struct ibv_buf *buf;
	size_t size;
	int fd;
	ino_t inode;
};

static void export_one(struct exported *one, unsigned int seed)
{
	struct stat st;
	char *mem;

	one->size = 4096 * (seed % 3) + 100;
	mem = ibv_alloc_buf(rdma.pd, one->size, &one->buf);
	assert_non_null(mem);
	mem_fill(mem, one->size, seed);
	one->fd = ibv_export_buf_dmabuf_fd(one->buf);
	assert_true(one->fd >= 0);
	assert_int_equal(fstat(one->fd, &st), 0);
	one->inode = st.st_ino;
}

/* It is as long as the buffer, and cannot be mapped beyond. */
static void assert_shows_its_own(const struct exported *one, unsigned int seed)
{
	size_t length = mem_whole(one->size);
	char *map;

	assert_int_equal(lseek(one->fd, 0, SEEK_END), length);
	map = mmap(NULL, length, PROT_READ, MAP_SHARED, one->fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	assert_true(mem_is_filled(map, one->size, seed));
	assert_true(mem_is_zero(map + one->size, length - one->size));
	munmap(map, length);
	map = mmap(NULL, length + 4096, PROT_READ, MAP_SHARED, one->fd, 0);
	assert_ptr_equal(map, MAP_FAILED);
}

/* A queue of mlx5 takes a piece of a pool, others have memory of their own. */
static struct ibv_cq *make_cq(void)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 16,
		.wc_flags = IBV_WC_STANDARD_FLAGS,
		.comp_mask = rdma.is_mlx5 ? IBV_CQ_INIT_ATTR_MASK_PD : 0,
		.parent_domain = rdma.pd,
	};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(rdma.context, &attr);

	return cq ? ibv_cq_ex_to_cq(cq) : NULL;
}

static bool has_pool(void)
{
	return rdma.is_mlx5 && rdma.bounces;
}

static void assert_no_ring_is_in(const struct exported *all)
{
	struct sim_memory list[64];
	size_t n, i, j;

	n = sim_memory(list, 64);
	assert_in_range(n, 2, 64);
	for (i = 0; i < n; i++)
		for (j = 0; j < N; j++)
			assert_int_not_equal(list[i].inode, all[j].inode);
}

static void exported_is_this_buffer_alone(void **state)
{
	struct exported all[N];
	struct ibv_cq *cq = NULL;
	int i, j;

	for (i = 0; i < N; i++) {
		export_one(&all[i], i);
		for (j = 0; j < i; j++)
			assert_int_not_equal(all[i].inode, all[j].inode);
	}
	if (has_pool()) {
		cq = make_cq();
		assert_non_null(cq);
		assert_no_ring_is_in(all);
	}
	for (i = 0; i < N; i++) {
		assert_shows_its_own(&all[i], i);
		close(all[i].fd);
		ibv_free_buf(all[i].buf);
	}
	if (cq)
		assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* KiB of the DMA-bufs that this process has mapped */
static size_t mapped_kib(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	size_t start, end, bytes = 0;
	char line[512];

	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, "dmabuf") &&
		    sscanf(line, "%zx-%zx", &start, &end) == 2)
			bytes += end - start;
	if (maps)
		fclose(maps);
	return bytes >> 10;
}

/* What a copy of this program says: how large the chunk for a queue is */
static int tell_chunk(void)
{
	return rdma_open(&rdma) || !make_cq() ? 250 : mapped_kib() / 64;
}

static int run_as_nobody(void)
{
	int status;
	pid_t pid;

	pid = fork();
	assert_int_not_equal(pid, -1);
	if (!pid) {
		if (setenv("IBV_BUF_POOL_KIB", POOL_KIB, 1) || setgid(65534) ||
		    setuid(65534))
			_exit(251);
		execl(COPY, COPY, "chunk", NULL);
		_exit(252);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void set_id_program_ignores_the_size_of_chunks(void **state)
{
	if (!has_pool()) {
		print_message("# a device without pools\n");
		skip();
	}
	assert_int_equal(system("cp /proc/$PPID/exe " COPY), 0);
	assert_int_equal(chmod(rdma.node, 0666), 0);
	assert_int_equal(chmod(HEAP, 0666), 0);
	assert_int_equal(chmod(COPY, 0755), 0);
	assert_int_equal(run_as_nobody(), 1);
	assert_int_equal(chmod(COPY, 04755), 0);
	assert_int_equal(run_as_nobody(), 2048 / 64);
	assert_int_equal(chmod(HEAP, 0600), 0);
	assert_int_equal(unlink(COPY), 0);
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

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exported_is_this_buffer_alone),
		cmocka_unit_test(set_id_program_ignores_the_size_of_chunks),
	};

	if (argc > 1)
		return tell_chunk();
	return cmocka_run_group_tests(tests, setup, teardown);
}
