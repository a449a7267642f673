// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * ibv_reg_buf_mr and ibv_reg_mr_ex on a real device: what the MR says, and
 * every refusal by itself. That the MRs carry data is shown in traffic.c. The
 * buffer is one that the device reaches, by address, or by the descriptor of
 * its DMA-buf where it bounces.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/dma-heap.h>

#include <cmocka.h>

#include "mem.h"
#include "rdma.h"
#include "sim.h"

#define ADDR IBV_REG_MR_MASK_ADDR
#define BUF IBV_REG_MR_MASK_BUF
#define DMAH IBV_REG_MR_MASK_DMAH
#define FD IBV_REG_MR_MASK_FD
#define FD_OFFSET IBV_REG_MR_MASK_FD_OFFSET
#define IOVA IBV_REG_MR_MASK_IOVA

#define SIZE (64 * KIB)
#define LOCAL IBV_ACCESS_LOCAL_WRITE

static struct rdma rdma;
static struct ibv_pd *other_pd;
static struct ibv_buf *buf;
static char *mem;

/* ibv_reg_mr_ex that must leave its attributes alone */
static struct ibv_mr *reg_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr)
{
	struct ibv_mr_init_attr copy;
	struct ibv_mr *mr;

	memcpy(&copy, attr, sizeof(copy));
	errno = 0;
	mr = ibv_reg_mr_ex(pd, attr);
	assert_memory_equal(&copy, attr, sizeof(copy));
	return mr;
}

/* All fields set to what would be right, so that only the mask decides */
static struct ibv_mr_init_attr full_attr(uint64_t comp_mask)
{
	struct ibv_mr_init_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.length = SIZE;
	attr.access = LOCAL;
	attr.comp_mask = comp_mask;
	attr.iova = (uintptr_t)mem;
	attr.addr = mem;
	attr.fd = -1;
	attr.buf = buf;
	return attr;
}

static void check_mr(struct ibv_mr *mr, void *addr, size_t length)
{
	assert_non_null(mr);
	assert_ptr_equal(mr->addr, addr);
	assert_int_equal(mr->length, length);
	assert_ptr_equal(mr->pd, rdma.pd);
	assert_ptr_equal(mr->context, rdma.context);
	assert_int_not_equal(mr->lkey, 0);
}

/* By both verbs */
static void register_range(size_t start, size_t length, struct ibv_mr *mr[2])
{
	struct ibv_mr_init_attr attr = full_attr(BUF | ADDR);

	mr[0] = ibv_reg_buf_mr(rdma.pd, buf, mem + start, length, RDMA_REMOTE);
	check_mr(mr[0], mem + start, length);
	assert_int_not_equal(mr[0]->rkey, 0);

	attr.addr = mem + start;
	attr.length = length;
	attr.access = RDMA_REMOTE;
	mr[1] = reg_ex(rdma.pd, &attr);
	check_mr(mr[1], mem + start, length);
	assert_int_not_equal(mr[1]->rkey, 0);
	assert_int_not_equal(mr[1]->lkey, mr[0]->lkey);
}

static void deregister(struct ibv_mr *mr[2])
{
	assert_int_equal(ibv_dereg_mr(mr[0]), 0);
	assert_int_equal(ibv_dereg_mr(mr[1]), 0);
}

static void refuse_range_of(struct ibv_pd *pd, struct ibv_buf *of, void *addr,
			    size_t length)
{
	struct ibv_mr_init_attr attr = full_attr(BUF | ADDR);

	errno = 0;
	assert_null(ibv_reg_buf_mr(pd, of, addr, length, LOCAL));
	assert_int_equal(errno, EINVAL);

	attr.buf = of;
	attr.addr = addr;
	attr.length = length;
	assert_null(reg_ex(pd, &attr));
	assert_int_equal(errno, EINVAL);
}

static void refuse_range(void *addr, size_t length)
{
	refuse_range_of(rdma.pd, buf, addr, length);
}

static void refuse_mask(uint64_t comp_mask, int err)
{
	struct ibv_mr_init_attr attr = full_attr(comp_mask);

	assert_null(reg_ex(rdma.pd, &attr));
	assert_int_equal(errno, err);
}

static void whole_buffer(void **state)
{
	struct ibv_mr *mr[2];

	(void)state;
	register_range(0, SIZE, mr);
	deregister(mr);
}

static void sub_ranges(void **state)
{
	struct ibv_mr *mr[2];

	(void)state;
	register_range(4096, 4096, mr);
	deregister(mr);
	register_range(4097, 9001, mr);
	deregister(mr);
	register_range(0, 1, mr);
	deregister(mr);
	register_range(SIZE - 1, 1, mr);
	deregister(mr);
}

static void disjoint_ranges(void **state)
{
	struct ibv_mr *low[2], *high[2];

	(void)state;
	register_range(13, 4000, low);
	register_range(40000, 5555, high);
	assert_int_not_equal(low[0]->lkey, high[0]->lkey);
	deregister(low);
	deregister(high);
}

static void overlapping_ranges(void **state)
{
	struct ibv_mr *a[2], *b[2], *c[2];

	(void)state;
	register_range(0, SIZE, a);
	register_range(5000, 10000, b);
	register_range(9999, 20000, c);
	deregister(b);
	deregister(a);
	deregister(c);
}

static void range_before_the_buffer(void **state)
{
	(void)state;
	refuse_range(mem - 1, 1);
	refuse_range(mem - 1, 2);
	refuse_range(mem - 4096, 4096);
	refuse_range(mem - 4096, SIZE + 4096);
	refuse_range(NULL, 1);
}

static void range_after_the_buffer(void **state)
{
	(void)state;
	refuse_range(mem + SIZE, 1);
	refuse_range(mem + SIZE - 1, 2);
	refuse_range(mem, SIZE + 1);
	refuse_range(mem + 1, SIZE);
	refuse_range((void *)UINTPTR_MAX, 1);
}

/* The end of the range wraps to below or into the buffer. */
static void range_that_wraps(void **state)
{
	(void)state;
	refuse_range(mem, SIZE_MAX);
	refuse_range(mem + 1, SIZE_MAX);
	refuse_range(mem + 100, SIZE_MAX - 50);
	refuse_range(mem + SIZE - 1, (size_t)0 - SIZE + 2);
	refuse_range(mem + 4096, (size_t)0 - (uintptr_t)mem - 4096);
	refuse_range(mem - 4096, SIZE_MAX);
}

static void range_of_two_buffers(void **state)
{
	struct ibv_buf *next;
	char *start, *end, *next_mem;

	(void)state;
	next_mem = ibv_alloc_buf(rdma.pd, SIZE, &next);
	assert_non_null(next_mem);
	refuse_range(next_mem, SIZE);
	refuse_range_of(rdma.pd, next, mem, SIZE);
	start = next_mem < mem ? next_mem : mem;
	end = next_mem < mem ? mem : next_mem;
	refuse_range(start, end - start + SIZE);
	refuse_range_of(rdma.pd, next, start, end - start + SIZE);
	ibv_free_buf(next);
}

static void range_of_nothing(void **state)
{
	(void)state;
	refuse_range(mem, 0);
	refuse_range(mem + SIZE, 0);
}

/* More than was asked for, though it lies in the last page */
static void range_after_an_odd_size(void **state)
{
	struct ibv_buf *odd;
	struct ibv_mr *mr;
	char *odd_mem;

	(void)state;
	odd_mem = ibv_alloc_buf(rdma.pd, 4097, &odd);
	assert_non_null(odd_mem);
	refuse_range_of(rdma.pd, odd, odd_mem, 4098);
	refuse_range_of(rdma.pd, odd, odd_mem + 4097, 1);
	mr = ibv_reg_buf_mr(rdma.pd, odd, odd_mem, 4097, LOCAL);
	check_mr(mr, odd_mem, 4097);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	ibv_free_buf(odd);
}

static void another_pd(void **state)
{
	(void)state;
	refuse_range_of(other_pd, buf, mem, SIZE);
	refuse_range_of(NULL, buf, mem, SIZE);
}

static void no_buffer(void **state)
{
	(void)state;
	refuse_range_of(rdma.pd, NULL, mem, SIZE);
}

static void buf_with_iova(void **state)
{
	struct ibv_mr_init_attr attr = full_attr(BUF | ADDR | IOVA);
	struct ibv_mr *mr;

	(void)state;
	attr.addr = mem + 4096 + 12;
	attr.length = 5000;
	attr.iova = (1ULL << 40) + 12;
	mr = reg_ex(rdma.pd, &attr);
	if (rdma.bounces) {
		assert_null(mr);
		assert_int_equal(errno, EINVAL);
		return;
	}
	check_mr(mr, mem + 4096 + 12, 5000);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void unknown_bits(void **state)
{
	int bit;

	(void)state;
	for (bit = 6; bit < 64; bit++) {
		refuse_mask(ADDR | 1ULL << bit, EOPNOTSUPP);
		refuse_mask(ADDR | BUF | 1ULL << bit, EOPNOTSUPP);
		refuse_mask(FD | FD_OFFSET | IOVA | 1ULL << bit, EOPNOTSUPP);
	}
}

static void dma_handles(void **state)
{
	(void)state;
	refuse_mask(ADDR | DMAH, EOPNOTSUPP);
	refuse_mask(ADDR | BUF | DMAH, EOPNOTSUPP);
	refuse_mask(FD | FD_OFFSET | IOVA | DMAH, EOPNOTSUPP);
}

/* All combinations of known bits but the five that mean something */
static void other_combinations(void **state)
{
	static const uint64_t known[] = {
		IOVA, ADDR, FD, FD_OFFSET, BUF,
	};
	uint64_t mask, i, n;
	int refused = 0;

	(void)state;
	for (n = 0; n < 1 << 5; n++) {
		for (mask = 0, i = 0; i < 5; i++)
			mask |= n >> i & 1 ? known[i] : 0;
		if (mask == ADDR || mask == (ADDR | IOVA) ||
		    mask == (ADDR | BUF) || mask == (ADDR | BUF | IOVA) ||
		    mask == (FD | FD_OFFSET | IOVA))
			continue;
		refuse_mask(mask, EINVAL);
		refused++;
	}
	assert_int_equal(refused, 27);
}

static int errno_of(struct ibv_mr *mr)
{
	int err = errno;

	if (!mr)
		return err;
	assert_int_equal(ibv_dereg_mr(mr), 0);
	return 0;
}

/* What becomes of an application's own descriptor, by either verb */
static void register_fd(int fd, int err)
{
	struct ibv_mr_init_attr attr = full_attr(FD | FD_OFFSET | IOVA);
	struct ibv_mr *mr;

	assert_true(fd >= 0);
	attr.fd = fd;
	attr.fd_offset = 4096 + 10;
	attr.length = 5000;
	attr.iova = (1ULL << 40) + 10;
	mr = reg_ex(rdma.pd, &attr);
	if (mr)
		assert_int_equal(mr->length, 5000);
	assert_int_equal(errno_of(mr), err);

	errno = 0;
	mr = ibv_reg_dmabuf_mr(rdma.pd, attr.fd_offset, attr.length, attr.iova,
			       fd, LOCAL);
	assert_int_equal(errno_of(mr), err);
}

static int heap_fd(const char *heap)
{
	struct dma_heap_allocation_data data = {
		.len = SIZE,
		.fd_flags = O_RDWR | O_CLOEXEC,
	};
	int fd = open(heap, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ioctl(fd, DMA_HEAP_IOCTL_ALLOC, &data), 0);
	close(fd);
	return data.fd;
}

/* The device decides: whether it imports DMA-bufs, and memory of which heap. */
static void descriptors(void **state)
{
	const int private = !rdma.imports ? EOPNOTSUPP :
			    rdma.bounces  ? EOPNOTSUPP :
					    0;
	const size_t fds = mem_fds();
	int fd;

	(void)state;
	assert_int_equal(rdma.imports, rdma.is_efa || rdma.is_mlx5);
	fd = memfd_create("reg", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, SIZE), 0);
	register_fd(fd, rdma.imports ? EINVAL : EOPNOTSUPP);
	close(fd);

	if (!access("/dev/dma_heap/system", F_OK)) {
		fd = heap_fd("/dev/dma_heap/system");
		register_fd(fd, private);
		close(fd);
	} else {
		/* No kernel without heaps has a device that imports. */
		assert_false(rdma.imports);
	}

	fd = ibv_export_buf_dmabuf_fd(buf);
	assert_int_equal(fd >= 0, rdma.bounces);
	if (fd >= 0) {
		register_fd(fd, 0);
		close(fd);
	}
	assert_int_equal(mem_fds(), fds);
}

/*
 * Memory of the application by address: as ibv_reg_mr and ibv_reg_mr_iova, which
 * a device that bounces refuses
 */
static void plain_forms(void **state)
{
	struct ibv_mr_init_attr attr = full_attr(ADDR);
	char *plain = malloc(3 * 4096);
	struct ibv_mr *mr;
	int i;

	(void)state;
	assert_non_null(plain);
	attr.addr = plain + 77;
	attr.length = 2 * 4096;
	for (i = 0; i < 2; i++) {
		mr = reg_ex(rdma.pd, &attr);
		if (rdma.bounces) {
			assert_null(mr);
			assert_int_equal(errno, EOPNOTSUPP);
		} else {
			check_mr(mr, plain + 77, 2 * 4096);
			assert_int_equal(ibv_dereg_mr(mr), 0);
		}
		attr.comp_mask = ADDR | IOVA;
		attr.iova = (1ULL << 41) + (uintptr_t)attr.addr % 4096;
	}
	free(plain);
}

/*
 * The kernel judges access flags, on each kernel its own way and for DMA-bufs
 * another way than for addresses; all verbs pass them on. The one that every
 * kernel refuses is refused.
 */
static void access_flags(void **state)
{
	static const unsigned int flags[] = {
		0,
		LOCAL,
		IBV_ACCESS_REMOTE_READ,
		IBV_ACCESS_REMOTE_WRITE,
		IBV_ACCESS_REMOTE_ATOMIC,
		RDMA_REMOTE | IBV_ACCESS_MW_BIND,
		LOCAL | IBV_ACCESS_RELAXED_ORDERING,
		LOCAL | IBV_ACCESS_ON_DEMAND,
		LOCAL | IBV_ACCESS_HUGETLB,
		LOCAL | 1 << 19,
	};
	struct ibv_mr_init_attr attr = full_attr(BUF | ADDR);
	void *plain = aligned_alloc(4096, SIZE);
	int fd = ibv_export_buf_dmabuf_fd(buf);
	unsigned int access;
	int want, of_plain;
	size_t i;

	(void)state;
	assert_non_null(plain);
	for (i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		access = flags[i];
		of_plain = errno_of(ibv_reg_mr(rdma.pd, plain, SIZE, access));
		want = of_plain;
		if (fd >= 0)
			want = errno_of(ibv_reg_dmabuf_mr(rdma.pd, 0, SIZE,
							  (uintptr_t)mem, fd,
							  access));
		attr.access = access;
		attr.addr = mem;
		attr.comp_mask = BUF | ADDR;
		assert_int_equal(errno_of(ibv_reg_buf_mr(rdma.pd, buf, mem,
							 SIZE, access)), want);
		assert_int_equal(errno_of(reg_ex(rdma.pd, &attr)), want);
		attr.addr = plain;
		attr.comp_mask = ADDR;
		assert_int_equal(errno_of(reg_ex(rdma.pd, &attr)), of_plain);
		if (access == IBV_ACCESS_REMOTE_WRITE)
			assert_int_equal(want, EINVAL);
		if (access == LOCAL)
			assert_int_equal(want, 0);
	}
	if (fd >= 0)
		close(fd);
	free(plain);
}

/* The MR is another part of the buffer then, with the access that it had. */
static void rereg_works(struct ibv_mr *mr)
{
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL,
				      NULL, 0, LOCAL), 0);
	check_mr(mr, mem + 100, 9000);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION,
				      NULL, mem + 8192, 4096, 0), 0);
	check_mr(mr, mem + 8192, 4096);
	assert_int_equal(sim_write(mr->lkey, (uintptr_t)mem + 8192, "rereg", 5),
			 0);
	assert_memory_equal(mem + 8192, "rereg", 5);
	assert_int_equal(sim_write(mr->lkey, (uintptr_t)mem + 100, "rereg", 5),
			 EFAULT);
}

/* The MR is as it was. */
static void rereg_fails(struct ibv_mr *mr, int ret, int err)
{
	errno = 0;
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL,
				      NULL, 0, LOCAL), ret);
	assert_int_equal(errno, err);
	errno = 0;
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION,
				      NULL, mem + 8192, 4096, 0), ret);
	assert_int_equal(errno, err);
	check_mr(mr, mem + 100, 9000);
}

/* mlx5 alone can, and the library not for MRs of DMA-bufs. */
static void rereg(void **state)
{
	struct ibv_mr *mr[2];
	int i;

	(void)state;
	register_range(100, 9000, mr);
	for (i = 0; i < 2; i++) {
		if (rdma.bounces)
			rereg_fails(mr[i], IBV_REREG_MR_ERR_INPUT, EINVAL);
		else if (rdma.is_mlx5)
			rereg_works(mr[i]);
		else
			rereg_fails(mr[i], IBV_REREG_MR_ERR_CMD, EOPNOTSUPP);
	}
	deregister(mr);
}

/* The kernel pins the pages: registering must leave what is in them. */
static void content_stays(void **state)
{
	struct ibv_mr *mr[2];

	(void)state;
	mem_fill(mem, SIZE, 5);
	register_range(0, SIZE, mr);
	assert_true(mem_is_filled(mem, SIZE, 5));
	deregister(mr);
	assert_true(mem_is_filled(mem, SIZE, 5));
}

static int setup(void **state)
{
	(void)state;
	if (rdma_open(&rdma))
		return -1;
	other_pd = rdma_alloc_pd(&rdma);
	mem = ibv_alloc_buf(rdma.pd, SIZE, &buf);
	return other_pd && mem ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	ibv_free_buf(buf);
	ibv_dealloc_pd(other_pd);
	rdma_close(&rdma);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_buffer),
		cmocka_unit_test(sub_ranges),
		cmocka_unit_test(disjoint_ranges),
		cmocka_unit_test(overlapping_ranges),
		cmocka_unit_test(content_stays),
		cmocka_unit_test(range_before_the_buffer),
		cmocka_unit_test(range_after_the_buffer),
		cmocka_unit_test(range_that_wraps),
		cmocka_unit_test(range_of_two_buffers),
		cmocka_unit_test(range_of_nothing),
		cmocka_unit_test(range_after_an_odd_size),
		cmocka_unit_test(another_pd),
		cmocka_unit_test(no_buffer),
		cmocka_unit_test(buf_with_iova),
		cmocka_unit_test(unknown_bits),
		cmocka_unit_test(dma_handles),
		cmocka_unit_test(other_combinations),
		cmocka_unit_test(descriptors),
		cmocka_unit_test(plain_forms),
		cmocka_unit_test(access_flags),
		cmocka_unit_test(rereg),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
