// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Where a registration leads: the test device writes through the key at the
 * MR's address, and the process sees it there and nowhere else; what the
 * process writes, the device reads. For each form of registration, of the
 * buffers that this process gets: IBV_BUF_BACKING chooses, so one run tests
 * one word. On a device that reaches shared memory only, buffers are those of
 * a parent domain that allows it.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "mem.h"
#include "sim.h"

#define SIZE (4 * MIB)
/* No less than a huge page, so that it may be one too */
#define GUARD (2 * MIB)
#define HUGE_POOL "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
/* Not REMOTE_ATOMIC, which efa does not have */
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
		IBV_ACCESS_REMOTE_READ)

enum { SEED_BEFORE = 1, SEED_DEVICE, SEED_PROCESS, SEED_GUARD };

static struct ibv_context *context;
static struct ibv_pd *base, *pd;

/* Much faster than that of cmocka, which goes byte by byte */
#define assert_same(a, b, n) assert_true(!memcmp(a, b, n))

/* A buffer, and one beside it that nobody writes to */
struct area {
	struct ibv_buf *buf, *guard_buf;
	char *mem, *guard;
	size_t size;
};

static void area_open(struct area *area, size_t size)
{
	area->size = size;
	area->mem = ibv_alloc_buf(pd, size, &area->buf);
	if (!area->mem)
		print_message("# %zu bytes: %s\n", size, strerror(errno));
	assert_non_null(area->mem);
	area->guard = ibv_alloc_buf(pd, GUARD, &area->guard_buf);
	assert_non_null(area->guard);
	mem_fill(area->guard, GUARD, SEED_GUARD);
}

static void area_close(struct area *area)
{
	assert_true(mem_is_filled(area->guard, GUARD, SEED_GUARD));
	ibv_free_buf(area->guard_buf);
	ibv_free_buf(area->buf);
}

/* Beyond its ends a key leads nowhere. */
static void assert_bounded(uint32_t key, uint64_t at, size_t n)
{
	char two[2];

	assert_int_equal(sim_read(key, at - 1, two, 1), EFAULT);
	assert_int_equal(sim_read(key, at - 1, two, 2), EFAULT);
	assert_int_equal(sim_read(key, at + n, two, 1), EFAULT);
	assert_int_equal(sim_read(key, at + n - 1, two, 2), EFAULT);
	assert_int_equal(sim_write(key, at - 1, two, 1), EFAULT);
	assert_int_equal(sim_write(key, at + n, two, 1), EFAULT);
	assert_int_equal(sim_write(key, at + n - 1, two, 2), EFAULT);
}

/* The n bytes that key has at an address are those at offset of the area. */
static void assert_leads(struct area *area, uint32_t key, uint64_t at,
			 size_t offset, size_t n)
{
	char *copy = malloc(n), *expected = malloc(area->size);

	assert_non_null(copy);
	assert_non_null(expected);

	/* From the device to here, and nowhere else */
	mem_fill(area->mem, area->size, SEED_BEFORE);
	memcpy(expected, area->mem, area->size);
	mem_fill(copy, n, SEED_DEVICE);
	memcpy(expected + offset, copy, n);
	assert_int_equal(sim_write(key, at, copy, n), 0);
	assert_same(area->mem, expected, area->size);
	assert_true(mem_is_filled(area->guard, GUARD, SEED_GUARD));

	/* From here to the device */
	mem_fill(area->mem, area->size, SEED_PROCESS);
	assert_int_equal(sim_read(key, at, copy, n), 0);
	assert_same(copy, area->mem + offset, n);

	assert_bounded(key, at, n);
	/* Nor did what was refused leave a trace. */
	assert_true(mem_is_filled(area->mem, area->size, SEED_PROCESS));
	assert_true(mem_is_filled(area->guard, GUARD, SEED_GUARD));
	free(expected);
	free(copy);
}

static struct ibv_mr *reg(struct area *area, size_t offset, size_t n)
{
	struct ibv_mr *mr;

	mr = ibv_reg_buf_mr(pd, area->buf, area->mem + offset, n, ACCESS);
	if (!mr)
		print_message("# register %zu at %zu: %s\n", n, offset,
			      strerror(errno));
	assert_non_null(mr);
	assert_ptr_equal(mr->addr, area->mem + offset);
	assert_int_equal(mr->length, n);
	return mr;
}

/* By lkey and rkey, at the address that the MR has */
static void assert_mr_leads(struct area *area, struct ibv_mr *mr)
{
	size_t offset = (char *)mr->addr - area->mem;

	assert_leads(area, mr->lkey, (uintptr_t)mr->addr, offset, mr->length);
	if (mr->rkey != mr->lkey)
		assert_leads(area, mr->rkey, (uintptr_t)mr->addr, offset,
			     mr->length);
}

static void each_range(void **state)
{
	static const struct {
		size_t offset, n;
	} ranges[] = {
		{ 0, SIZE },			/* the whole */
		{ 0, 1 },
		{ 0, 4096 },
		{ 8192, 3 * 4096 },		/* pages */
		{ 4096 + 123, 10000 },		/* from within a page */
		{ MIB + 4095, 2 },		/* across two pages */
		{ 2 * MIB - 1, MIB + 2 },	/* across a huge page */
		{ SIZE - 5000, 5000 },		/* to the last byte */
		{ SIZE - 1, 1 },
		{ 1, SIZE - 1 },
	};
	struct area area;
	struct ibv_mr *mr;
	size_t i;

	area_open(&area, SIZE);
	for (i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		mr = reg(&area, ranges[i].offset, ranges[i].n);
		assert_mr_leads(&area, mr);
		assert_int_equal(ibv_dereg_mr(mr), 0);
	}
	area_close(&area);
}

/* One beside the other, one across both, and the same range twice */
static void many_of_one_buffer(void **state)
{
	static const struct {
		size_t offset, n;
	} ranges[] = {
		{ 0, MIB }, { MIB, MIB }, { MIB / 2 + 77, MIB }, { MIB, MIB },
		{ 0, SIZE }, { MIB + 4096, 100 },
	};
	enum { N = sizeof(ranges) / sizeof(ranges[0]) };
	struct ibv_mr *mr[N];
	struct area area;
	int i;

	area_open(&area, SIZE);
	for (i = 0; i < N; i++)
		mr[i] = reg(&area, ranges[i].offset, ranges[i].n);
	for (i = 0; i < N; i++)
		assert_mr_leads(&area, mr[i]);
	/* The end of one does not touch the others. */
	for (i = 0; i < N; i++) {
		assert_int_equal(ibv_dereg_mr(mr[i]), 0);
		if (i + 1 < N)
			assert_mr_leads(&area, mr[i + 1]);
	}
	area_close(&area);
}

static void keys_of_two_buffers_stay_apart(void **state)
{
	struct area area[2];
	struct ibv_mr *mr[2];
	char byte;
	int i;

	for (i = 0; i < 2; i++) {
		area_open(&area[i], SIZE);
		mr[i] = reg(&area[i], 4096 + i, MIB);
	}
	for (i = 0; i < 2; i++) {
		mem_fill(area[!i].mem, SIZE, SEED_GUARD);
		assert_mr_leads(&area[i], mr[i]);
		assert_true(mem_is_filled(area[!i].mem, SIZE, SEED_GUARD));
		assert_int_equal(sim_read(mr[i]->lkey,
					  (uintptr_t)mr[!i]->addr, &byte, 1),
				 EFAULT);
	}
	for (i = 0; i < 2; i++) {
		assert_int_equal(ibv_dereg_mr(mr[i]), 0);
		area_close(&area[i]);
	}
}

/* New memory at old addresses, and the key of what was there */
static void addresses_are_used_again(void **state)
{
	struct area area;
	uint32_t key = 0;
	char *last = NULL;
	int round, again = 0;
	char byte;

	for (round = 0; round < 6; round++) {
		struct ibv_mr *mr;

		area_open(&area, SIZE);
		again += area.mem == last;
		last = area.mem;
		mr = reg(&area, 100, MIB);
		assert_mr_leads(&area, mr);
		if (key)
			assert_int_equal(sim_read(key, (uintptr_t)mr->addr,
						  &byte, 1), ENOENT);
		key = mr->lkey;
		assert_int_equal(ibv_dereg_mr(mr), 0);
		area_close(&area);
	}
	assert_true(again > 0);
}

static bool is_dmabuf(struct ibv_buf *buf)
{
	int fd = ibv_export_buf_dmabuf_fd(buf);

	if (fd < 0)
		assert_int_equal(errno, ENODATA);
	else
		close(fd);
	return fd >= 0;
}

/* Else another backing would be tested than the run says. */
static void buffer_is_of_the_word(void **state)
{
	const char *word = getenv("IBV_BUF_BACKING") ?: "anon";
	struct area area;

	area_open(&area, SIZE);
	if (sim_bounces() || strstr(word, "dmabuf"))
		assert_true(is_dmabuf(area.buf));
	else if (strstr(word, "huge"))
		assert_true(mem_all_flagged(area.mem, SIZE, "ht"));
	else
		assert_true(mem_is_private(area.mem, SIZE));
	area_close(&area);
}

/* Where the device finds the memory is the caller's to say. */
static void another_iova(void **state)
{
	struct ibv_mr_init_attr attr = {
		.length = 10000,
		.access = ACCESS,
		.comp_mask = IBV_REG_MR_MASK_BUF | IBV_REG_MR_MASK_ADDR |
			     IBV_REG_MR_MASK_IOVA,
		.iova = (1ULL << 40) + 123,
	};
	struct area area;
	struct ibv_mr *mr;

	area_open(&area, SIZE);
	attr.buf = area.buf;
	attr.addr = area.mem + 8192 + 123;
	errno = 0;
	mr = ibv_reg_mr_ex(pd, &attr);
	if (is_dmabuf(area.buf)) {
		assert_null(mr);
		assert_int_equal(errno, EINVAL);
	} else {
		assert_non_null(mr);
		assert_ptr_equal(mr->addr, attr.addr);
		assert_leads(&area, mr->lkey, attr.iova, 8192 + 123, 10000);
		assert_int_equal(ibv_dereg_mr(mr), 0);
		/* The device translates whole pages. */
		attr.iova++;
		errno = 0;
		assert_null(ibv_reg_mr_ex(pd, &attr));
		assert_int_equal(errno, EINVAL);
	}
	area_close(&area);
}

/* The same memory by other verbs: its address, or its DMA-buf */
static void other_verbs_lead_there_too(void **state)
{
	struct ibv_mr_init_attr attr = {
		.length = 10000,
		.access = ACCESS,
		.comp_mask = IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET |
			     IBV_REG_MR_MASK_IOVA,
		.fd_offset = 4096 + 5,
		.iova = (1ULL << 41) + 4096 + 5,
	};
	struct area area;
	struct ibv_mr *mr;

	area_open(&area, SIZE);
	attr.fd = ibv_export_buf_dmabuf_fd(area.buf);
	if (attr.fd >= 0) {
		mr = ibv_reg_mr_ex(pd, &attr);
		assert_non_null(mr);
		close(attr.fd);
		assert_leads(&area, mr->lkey, attr.iova, attr.fd_offset,
			     attr.length);
	} else {
		mr = ibv_reg_mr(pd, area.mem + 4096 + 5, 10000, ACCESS);
		assert_non_null(mr);
		assert_mr_leads(&area, mr);
	}
	assert_int_equal(ibv_dereg_mr(mr), 0);
	area_close(&area);
}

static void exported_descriptor_shows_the_bytes(void **state)
{
	struct area area;
	struct ibv_mr *mr;
	char *map, *copy = malloc(MIB);
	int fd;

	assert_non_null(copy);
	area_open(&area, SIZE);
	fd = ibv_export_buf_dmabuf_fd(area.buf);
	if (fd < 0) {
		assert_int_equal(errno, ENODATA);
		area_close(&area);
		free(copy);
		print_message("# such memory is no DMA-buf\n");
		skip();
	}
	map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	close(fd);

	mr = reg(&area, MIB + 1, MIB);
	mem_fill(area.mem, SIZE, SEED_BEFORE);
	assert_same(map, area.mem, SIZE);
	mem_fill(copy, MIB, SEED_DEVICE);
	assert_int_equal(sim_write(mr->lkey, (uintptr_t)mr->addr, copy, MIB),
			 0);
	assert_same(map + MIB + 1, copy, MIB);
	assert_same(map, area.mem, SIZE);
	mem_fill(map, SIZE, SEED_PROCESS);
	assert_int_equal(sim_read(mr->lkey, (uintptr_t)mr->addr, copy, MIB), 0);
	assert_same(copy, map + MIB + 1, MIB);

	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(map, SIZE);
	area_close(&area);
	free(copy);
}

/* What the kernel says of the source: one piece, at the right place */
static void kernel_has_the_source(void **state)
{
	struct sim_memory piece;
	struct area area;
	struct ibv_mr *mr;
	bool dmabuf;

	area_open(&area, SIZE);
	dmabuf = is_dmabuf(area.buf);
	mr = reg(&area, MIB + 77, 5000);
	assert_int_equal(sim_memory(&piece, 1), 1);
	assert_string_equal(piece.kind, "mr");
	assert_int_equal(piece.length, 5000);
	assert_int_equal(piece.inode != 0, dmabuf);
	assert_int_equal(piece.at, dmabuf ? MIB + 77 : (uintptr_t)mr->addr);
	if (sim_bounces())
		assert_string_equal(piece.exporter, "system_cc_shared");
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(sim_memory(&piece, 1), 0);
	area_close(&area);
}

/* Memory of the application, without any buffer */
static void plain_registration(void **state)
{
	struct area area = { .size = SIZE };
	struct ibv_mr *mr;

	area.mem = malloc(SIZE);
	area.guard = malloc(GUARD);
	assert_non_null(area.mem);
	assert_non_null(area.guard);
	mem_fill(area.guard, GUARD, SEED_GUARD);
	errno = 0;
	mr = ibv_reg_mr(pd, area.mem + 4097, MIB, ACCESS);
	if (sim_bounces()) {
		assert_null(mr);
		assert_int_equal(errno, EOPNOTSUPP);
	} else {
		assert_non_null(mr);
		assert_mr_leads(&area, mr);
		assert_int_equal(ibv_dereg_mr(mr), 0);
	}
	free(area.guard);
	free(area.mem);
}

static void set_huge_pool(const char *pages)
{
	FILE *file = fopen(HUGE_POOL, "we");

	assert_non_null(file);
	assert_true(fputs(pages, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static int setup(void **state)
{
	struct ibv_parent_domain_init_attr attr = {
		.comp_mask =
		    IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC,
	};

	if (!sim_is_there()) {
		print_message("# the guest has no test device\n");
		return -1;
	}
	set_huge_pool("32");
	context = sim_open();
	if (!context)
		return -1;
	base = ibv_alloc_pd(context);
	attr.pd = base;
	pd = sim_bounces() && base ? ibv_alloc_parent_domain(context, &attr) :
				     base;
	if (!pd)
		print_message("# protection domain: %s\n", strerror(errno));
	return pd ? 0 : -1;
}

/* cmocka calls it after a setup that failed, too. */
static int teardown(void **state)
{
	set_huge_pool("0");
	if (pd && pd != base && ibv_dealloc_pd(pd))
		return -1;
	if (base && ibv_dealloc_pd(base))
		return -1;
	if (context && ibv_close_device(context))
		return -1;
	return sim_is_there() && (!sim_is_empty() || sim_heap().pieces);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buffer_is_of_the_word),
		cmocka_unit_test(each_range),
		cmocka_unit_test(many_of_one_buffer),
		cmocka_unit_test(keys_of_two_buffers_stay_apart),
		cmocka_unit_test(addresses_are_used_again),
		cmocka_unit_test(another_iova),
		cmocka_unit_test(other_verbs_lead_there_too),
		cmocka_unit_test(exported_descriptor_shows_the_bytes),
		cmocka_unit_test(kernel_has_the_source),
		cmocka_unit_test(plain_registration),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
