// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What the provider of efa makes of buffers and parent domains, as its kernel
 * driver sees it: the test device tells where the memory of each MR comes from,
 * and what it was asked to take and did not. Its rings are the kernel's own, so
 * that no other memory of the process reaches it. What is the same on each
 * device is in the programs named after it.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <infiniband/efadv.h>

#include "mem.h"
#include "rdma.h"
#include "sim.h"

#define SIZE (MIB + 5)
#define LOCAL IBV_ACCESS_LOCAL_WRITE

static struct rdma rdma;
static bool wants_dmabuf;	/* IBV_BUF_BACKING is "dmabuf" */

/* A protection domain of each kind */
enum kind {
	BASE,
	PARENT,
	OPTED_IN,
	KINDS,
};

static struct ibv_pd *pd_open(enum kind kind)
{
	struct ibv_parent_domain_init_attr attr = {
		.pd = rdma.base,
		.comp_mask = kind == OPTED_IN ?
			IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC :
			0,
	};
	struct ibv_pd *pd;

	pd = kind == BASE ? ibv_alloc_pd(rdma.context) :
			    ibv_alloc_parent_domain(rdma.context, &attr);
	assert_non_null(pd);
	return pd;
}

static void pd_close(struct ibv_pd *pd)
{
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* Its buffers are those of the shared heap. */
static bool is_shared(enum kind kind)
{
	return kind == OPTED_IN && rdma.bounces;
}

/* The device takes its buffers. */
static bool is_usable(enum kind kind)
{
	return kind == OPTED_IN || !rdma.bounces;
}

static void objects_of_each_domain(void **state)
{
	struct ibv_qp_init_attr attr = {
		.cap = {
			.max_send_wr = 64,
			.max_recv_wr = 64,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};
	struct ibv_ah_attr ah_attr = {
		.is_global = 1,
		.port_num = RDMA_PORT,
		.grh.dgid = rdma.gid,
	};
	const struct sim_heap heap = sim_heap();
	const uint64_t refused = sim_refused();
	struct ibv_qp *ud, *srd;
	struct ibv_cq *cq;
	struct ibv_ah *ah;
	struct ibv_pd *pd;
	enum kind kind;

	for (kind = BASE; kind < KINDS; kind++) {
		pd = pd_open(kind);
		cq = ibv_create_cq(rdma.context, 128, NULL, NULL, 0);
		assert_non_null(cq);
		attr.send_cq = cq;
		attr.recv_cq = cq;
		attr.qp_type = IBV_QPT_UD;
		ud = ibv_create_qp(pd, &attr);
		assert_non_null(ud);
		assert_ptr_equal(ud->pd, pd);
		attr.qp_type = IBV_QPT_DRIVER;
		srd = efadv_create_driver_qp(pd, &attr,
					     EFADV_QP_DRIVER_TYPE_SRD);
		assert_non_null(srd);
		assert_ptr_equal(srd->pd, pd);
		ah = ibv_create_ah(pd, &ah_attr);
		assert_non_null(ah);
		assert_ptr_equal(ah->pd, pd);
		assert_int_equal(rdma_start_ud(ud), 0);
		assert_int_equal(ud->state, IBV_QPS_RTS);
		assert_int_equal(rdma_start_ud(srd), 0);
		assert_int_equal(srd->state, IBV_QPS_RTS);

		assert_int_equal(sim_count("cq"), 1);
		assert_int_equal(sim_count("qp"), 2);
		assert_int_equal(sim_count("ah"), 1);
		/* No memory of the process is any of theirs. */
		assert_int_equal(sim_memory(NULL, 0), 0);
		/* They are the base's, as far as the kernel knows. */
		assert_int_equal(ibv_dealloc_pd(kind == BASE ? pd : rdma.base),
				 EBUSY);

		assert_int_equal(ibv_destroy_qp(srd), 0);
		assert_int_equal(ibv_destroy_qp(ud), 0);
		assert_int_equal(ibv_destroy_ah(ah), 0);
		assert_int_equal(ibv_destroy_cq(cq), 0);
		assert_int_equal(sim_count("qp") + sim_count("cq") +
				 sim_count("ah"), 0);
		pd_close(pd);
	}
	assert_int_equal(sim_heap().total, heap.total);
	assert_int_equal(sim_refused(), refused);
}

static uint64_t inode_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_ino;
}

/* The one MR that the device has is as the library was asked for. */
static void assert_source(struct ibv_buf *buf, const char *mem,
			  const struct ibv_mr *mr)
{
	int fd = ibv_export_buf_dmabuf_fd(buf);
	struct sim_memory piece;

	assert_int_equal(sim_memory(&piece, 1), 1);
	assert_string_equal(piece.kind, "mr");
	assert_string_equal(piece.part, "buf");
	assert_int_equal(piece.length, mr->length);
	if (fd < 0) {
		assert_int_equal(piece.inode, 0);
		assert_int_equal(piece.at, (uintptr_t)mr->addr);
		assert_string_equal(piece.exporter, "-");
		return;
	}
	assert_int_equal(piece.inode, inode_of(fd));
	assert_int_equal(piece.at, (char *)mr->addr - mem);
	assert_string_equal(piece.exporter, rdma.bounces ? "system_cc_shared" :
							   "system");
	close(fd);
}

/* The key leads to these bytes, by the address of the MR. */
static void assert_reaches(struct ibv_mr *mr)
{
	const uint64_t at = (uintptr_t)mr->addr;
	char *want = malloc(mr->length);

	assert_non_null(want);
	mem_fill(want, mr->length, 7);
	assert_int_equal(sim_write(mr->lkey, at, want, mr->length), 0);
	assert_memory_equal(mr->addr, want, mr->length);
	/* And to none beside */
	assert_int_equal(sim_write(mr->lkey, at - 1, want, 1), EFAULT);
	assert_int_equal(sim_write(mr->lkey, at + mr->length, want, 1),
			 EFAULT);
	free(want);
}

static void buffers_of_each_domain(void **state)
{
	static const struct {
		size_t at;
		size_t length;
	} ranges[] = {
		{ 0, SIZE }, { 0, 1 }, { 4096, 8192 }, { 12345, 54321 },
		{ SIZE - 1, 1 },
	};
	const struct sim_heap before = sim_heap();
	const uint64_t refused = sim_refused();
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	struct ibv_pd *pd;
	enum kind kind;
	size_t i;
	char *mem;
	int fd;

	for (kind = BASE; kind < KINDS; kind++) {
		if (!is_usable(kind))
			continue;
		pd = pd_open(kind);
		mem = ibv_alloc_buf(pd, SIZE, &buf);
		assert_non_null(mem);
		assert_int_equal(mem_is_private(mem, SIZE),
				 !is_shared(kind) && !wants_dmabuf);
		assert_int_equal(sim_heap().bytes - before.bytes,
				 is_shared(kind) ? mem_whole(SIZE) : 0);
		fd = ibv_export_buf_dmabuf_fd(buf);
		assert_int_equal(fd >= 0, is_shared(kind) || wants_dmabuf);
		if (fd >= 0)
			close(fd);

		for (i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
			mr = ibv_reg_buf_mr(pd, buf, mem + ranges[i].at,
					    ranges[i].length, LOCAL);
			assert_non_null(mr);
			assert_ptr_equal(mr->addr, mem + ranges[i].at);
			assert_int_equal(mr->length, ranges[i].length);
			assert_source(buf, mem, mr);
			assert_reaches(mr);
			assert_int_equal(ibv_dereg_mr(mr), 0);
			assert_int_equal(sim_count("mr"), 0);
		}
		ibv_free_buf(buf);
		pd_close(pd);
	}
	/* One buffer, if it had to be; and private memory was not even tried. */
	assert_int_equal(sim_heap().total - before.total, rdma.bounces);
	assert_int_equal(sim_heap().bytes, before.bytes);
	assert_int_equal(sim_refused(), refused);
}

/* The application asks for what the device cannot do: it is told. */
static void private_memory_is_refused(void **state)
{
	const struct sim_heap before = sim_heap();
	struct ibv_buf *buf;
	struct ibv_pd *pd;
	uint64_t refused;
	enum kind kind;
	char *mem;

	for (kind = BASE; kind <= PARENT; kind++) {
		pd = pd_open(kind);
		mem = ibv_alloc_buf(pd, SIZE, &buf);
		assert_non_null(mem);
		refused = sim_refused();
		errno = 0;
		assert_null(ibv_reg_buf_mr(pd, buf, mem, SIZE, LOCAL));
		assert_int_equal(errno, EOPNOTSUPP);
		errno = 0;
		assert_null(ibv_reg_mr(pd, mem, SIZE, LOCAL));
		assert_int_equal(errno, EOPNOTSUPP);
		assert_int_equal(sim_refused(), refused + 2);
		assert_int_equal(sim_count("mr"), 0);
		ibv_free_buf(buf);
		pd_close(pd);
	}
	assert_int_equal(sim_heap().total, before.total);
}

/* What the application exports it may register by itself, on any domain. */
static void exported_descriptor(void **state)
{
	const struct sim_heap before = sim_heap();
	const uint64_t refused = sim_refused();
	struct sim_memory piece;
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	char *mem, *map;
	int fd;

	mem = ibv_alloc_buf(rdma.pd, SIZE, &buf);
	assert_non_null(mem);
	mem_fill(mem, SIZE, 1);
	fd = ibv_export_buf_dmabuf_fd(buf);
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	map = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	assert_true(mem_is_filled(map, SIZE, 1));

	mr = ibv_reg_dmabuf_mr(rdma.base, 8192 + 3, 5000, (5ULL << 40) + 3, fd,
			       LOCAL);
	assert_non_null(mr);
	assert_int_equal(sim_memory(&piece, 1), 1);
	assert_int_equal(piece.inode, inode_of(fd));
	assert_int_equal(piece.at, 8192 + 3);
	assert_int_equal(piece.length, 5000);
	assert_int_equal(sim_write(mr->lkey, (5ULL << 40) + 3, "device", 6), 0);
	assert_memory_equal(mem + 8192 + 3, "device", 6);

	/* All of them outlive the handle, each by itself. */
	ibv_free_buf(buf);
	assert_int_equal(sim_write(mr->lkey, (5ULL << 40) + 9, "again", 5), 0);
	assert_memory_equal(map + 8192 + 9, "again", 5);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	close(fd);
	assert_memory_equal(map + 8192 + 9, "again", 5);
	munmap(map, SIZE);
	assert_int_equal(sim_heap().bytes, before.bytes);
	assert_int_equal(sim_refused(), refused);
}

static void in_use(void **state)
{
	struct ibv_pd *base = rdma.base, *pd;
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	char *mem;

	rdma.base = ibv_alloc_pd(rdma.context);
	assert_non_null(rdma.base);
	pd = pd_open(OPTED_IN);
	assert_int_equal(ibv_dealloc_pd(rdma.base), EBUSY);
	mem = ibv_alloc_buf(pd, SIZE, &buf);
	assert_non_null(mem);
	mr = ibv_reg_buf_mr(pd, buf, mem, SIZE, LOCAL);
	assert_non_null(mr);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	ibv_free_buf(buf);
	pd_close(pd);
	/* The kernel has the MR on the base, and its memory. */
	assert_int_equal(ibv_dealloc_pd(rdma.base), EBUSY);
	assert_int_equal(sim_bytes("mr"), SIZE);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	pd_close(rdma.base);
	rdma.base = base;
	assert_int_equal(sim_bytes("mr"), 0);
}

static int teardown(void **state)
{
	rdma_close(&rdma);
	return !sim_is_empty();
}

int main(void)
{
	const struct CMUnitTest any[] = {
		cmocka_unit_test(objects_of_each_domain),
		cmocka_unit_test(buffers_of_each_domain),
		cmocka_unit_test(in_use),
	};
	const struct CMUnitTest dmabuf[] = {
		cmocka_unit_test(exported_descriptor),
	};
	const struct CMUnitTest bounces[] = {
		cmocka_unit_test(private_memory_is_refused),
	};
	struct CMUnitTest tests[8];
	const char *word = getenv("IBV_BUF_BACKING");
	size_t n = 0;

	wants_dmabuf = word && !strcmp(word, "dmabuf");
	if (rdma_open(&rdma) || !rdma.is_efa)
		return 1;
#define ADD(list)							       \
	do {								       \
		memcpy(tests + n, list, sizeof(list));			       \
		n += sizeof(list) / sizeof(*(list));			       \
	} while (0)
	ADD(any);
	if (rdma.bounces || wants_dmabuf)
		ADD(dmabuf);
	if (rdma.bounces)
		ADD(bounces);

	return _cmocka_run_group_tests("efa", tests, n, NULL, teardown);
}
