// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * mlx5dv_devx_umem_reg_ex() of a buffer and of what is none, on the test device:
 * which memory the kernel is given, by address or by DMA-buf, and what is
 * refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <infiniband/mlx5dv.h>

#include "mem.h"
#include "sim_parts.h"

#define SIZE (4 * (size_t)4096)
#define OFFSET 4096
#define ALLOW IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC

static struct ibv_context *context;
static struct ibv_pd *base, *pd;

static struct ibv_context *open_devx(void)
{
	struct mlx5dv_context_attr attr = {
		.flags = MLX5DV_CONTEXT_FLAGS_DEVX,
	};
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *opened = NULL;
	int i;

	assert_non_null(list);
	for (i = 0; list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), "sim0"))
			opened = mlx5dv_open_device(list[i], &attr);
	ibv_free_device_list(list);
	assert_non_null(opened);
	return opened;
}

static struct mlx5dv_devx_umem *reg(struct ibv_buf *buf, size_t offset,
				    size_t size, uint64_t mask)
{
	struct mlx5dv_devx_umem_in in = {
		.addr = (void *)offset,
		.size = size,
		.access = IBV_ACCESS_LOCAL_WRITE,
		.pgsz_bitmap = 4096,
		.comp_mask = mask,
		.dmabuf_fd = -1,
		.buf = buf,
	};

	errno = 0;
	return mlx5dv_devx_umem_reg_ex(context, &in);
}

/* The memory of the umem is that of the buffer from offset on. */
static void assert_memory(uint32_t id, struct ibv_buf *buf, char *mem,
			  size_t offset, size_t size)
{
	struct sim_memory part;
	struct stat own;
	int fd;

	assert_true(sim_find_part("umem", id, "buf", &part));
	assert_int_equal(part.length, size);
	fd = ibv_export_buf_dmabuf_fd(buf);
	if (fd < 0) {
		assert_int_equal(part.inode, 0);
		assert_int_equal(part.at, (uintptr_t)mem + offset);
		return;
	}
	assert_int_equal(fstat(fd, &own), 0);
	close(fd);
	assert_int_equal(part.inode, own.st_ino);
	assert_int_equal(part.at, offset);
	assert_int_equal(sim_is_shared(&part), sim_bounces());
}

static void check_buf(struct ibv_buf *buf, char *mem, size_t offset,
		      size_t size)
{
	struct mlx5dv_devx_umem *umem;

	umem = reg(buf, offset, size, MLX5DV_UMEM_MASK_BUF);
	assert_non_null(umem);
	assert_memory(umem->umem_id, buf, mem, offset, size);
	assert_int_equal(mlx5dv_devx_umem_dereg(umem), 0);
	assert_int_equal(sim_count("umem"), 0);
}

static void parts_of_a_buffer(void **state)
{
	struct ibv_buf *buf;
	char *mem;

	mem = ibv_alloc_buf(pd, SIZE, &buf);
	assert_non_null(mem);
	check_buf(buf, mem, 0, SIZE);
	check_buf(buf, mem, OFFSET, 1);
	check_buf(buf, mem, OFFSET, SIZE - OFFSET);
	check_buf(buf, mem, SIZE - 1, 1);
	ibv_free_buf(buf);
}

static void parts_of_a_user_buffer(void **state)
{
	struct ibv_buf *own, *buf;
	char *mem;
	int fd;

	/* Memory with a DMA-buf if there is any, and then by that */
	mem = ibv_alloc_buf(pd, SIZE, &own);
	assert_non_null(mem);
	fd = ibv_export_buf_dmabuf_fd(own);
	buf = ibv_alloc_user_buf(pd, mem, SIZE, fd);
	assert_non_null(buf);
	if (fd >= 0)
		close(fd);
	check_buf(buf, mem, OFFSET, OFFSET);
	ibv_free_user_buf(buf);
	ibv_free_buf(own);
}

/* What is no buffer is taken as ever: by address, and by DMA-buf. */
static void memory_that_is_no_buffer(void **state)
{
	static char memory[2 * 4096] __attribute__((aligned(4096)));
	struct mlx5dv_devx_umem_in in = {
		.size = SIZE,
		.access = IBV_ACCESS_LOCAL_WRITE,
		.pgsz_bitmap = 4096,
		.comp_mask = MLX5DV_UMEM_MASK_DMABUF,
	};
	struct mlx5dv_devx_umem *umem;
	struct sim_memory part;
	struct ibv_buf *buf;
	struct stat own;

	if (!sim_bounces()) {
		umem = mlx5dv_devx_umem_reg(context, memory, sizeof(memory),
					    IBV_ACCESS_LOCAL_WRITE);
		assert_non_null(umem);
		assert_true(sim_find_part("umem", umem->umem_id, "buf", &part));
		assert_int_equal(part.inode, 0);
		assert_int_equal(part.at, (uintptr_t)memory);
		assert_int_equal(part.length, sizeof(memory));
		assert_int_equal(mlx5dv_devx_umem_dereg(umem), 0);
		return;
	}

	/* The one DMA-buf that such a device may have */
	assert_non_null(ibv_alloc_buf(pd, SIZE, &buf));
	in.dmabuf_fd = ibv_export_buf_dmabuf_fd(buf);
	assert_int_equal(fstat(in.dmabuf_fd, &own), 0);
	umem = mlx5dv_devx_umem_reg_ex(context, &in);
	assert_non_null(umem);
	assert_true(sim_find_part("umem", umem->umem_id, "buf", &part));
	assert_int_equal(part.inode, own.st_ino);
	assert_int_equal(part.length, SIZE);
	assert_int_equal(mlx5dv_devx_umem_dereg(umem), 0);
	close(in.dmabuf_fd);
	ibv_free_buf(buf);
}

static void refuse(struct ibv_buf *buf, size_t offset, size_t size,
		   uint64_t mask, int err)
{
	assert_null(reg(buf, offset, size, mask));
	assert_int_equal(errno, err);
	assert_int_equal(sim_count("umem"), 0);
}

static void what_is_refused(void **state)
{
	const uint64_t by_buf = MLX5DV_UMEM_MASK_BUF;
	const uint64_t refused = sim_refused();
	struct ibv_context *other = open_devx();
	struct ibv_pd *other_pd = ibv_alloc_pd(other);
	struct ibv_buf *buf, *other_buf;
	char *mem;

	mem = ibv_alloc_buf(pd, SIZE, &buf);
	assert_non_null(mem);
	assert_non_null(other_pd);
	assert_non_null(ibv_alloc_buf(other_pd, SIZE, &other_buf));

	refuse(NULL, 0, 1, by_buf, EINVAL);
	refuse(buf, 0, 0, by_buf, EINVAL);
	refuse(buf, 0, SIZE + 1, by_buf, EINVAL);
	refuse(buf, SIZE, 1, by_buf, EINVAL);
	refuse(buf, 1, SIZE_MAX, by_buf, EINVAL);
	refuse(buf, (uintptr_t)mem, 1, by_buf, EINVAL);
	refuse(buf, 0, 1, by_buf | MLX5DV_UMEM_MASK_DMABUF, EINVAL);
	refuse(buf, 0, 1, by_buf << 1, EOPNOTSUPP);
	refuse(other_buf, 0, 1, by_buf, EINVAL);
	assert_int_equal(sim_refused(), refused);

	ibv_free_buf(other_buf);
	ibv_free_buf(buf);
	assert_int_equal(ibv_dealloc_pd(other_pd), 0);
	assert_int_equal(ibv_close_device(other), 0);
}

/* The device could write to it, so it must not be handed out again. */
static void memory_of_a_umem_is_not_reused(void **state)
{
	struct mlx5dv_devx_umem *umem;
	struct ibv_buf *buf, *next;
	char *mem, *other;

	mem = ibv_alloc_buf(pd, SIZE, &buf);
	assert_non_null(mem);
	umem = reg(buf, 0, SIZE, MLX5DV_UMEM_MASK_BUF);
	assert_non_null(umem);
	ibv_free_buf(buf);
	assert_true(mem_is_free(mem, SIZE));
	other = ibv_alloc_buf(pd, SIZE, &next);
	assert_non_null(other);
	assert_int_equal(mlx5dv_devx_umem_dereg(umem), 0);
	ibv_free_buf(next);
}

static int setup(void **state)
{
	struct ibv_parent_domain_init_attr attr = { .comp_mask = ALLOW };

	context = open_devx();
	base = ibv_alloc_pd(context);
	attr.pd = base;
	pd = ibv_alloc_parent_domain(context, &attr);
	return !pd;
}

static int teardown(void **state)
{
	return ibv_dealloc_pd(pd) || ibv_dealloc_pd(base) ||
	       ibv_close_device(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_of_a_buffer),
		cmocka_unit_test(parts_of_a_user_buffer),
		cmocka_unit_test(memory_that_is_no_buffer),
		cmocka_unit_test(what_is_refused),
		cmocka_unit_test(memory_of_a_umem_is_not_reused),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
