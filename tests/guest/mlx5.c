// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Rings and doorbell records of mlx5 on the test device: in shared memory for a
 * parent domain that allows it, where the device reaches no other, and in
 * private memory everywhere else. The device tells where each piece of memory
 * comes from. How many objects fit, and how fast, is measured by mlx5_scale.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <infiniband/driver.h>
#include <infiniband/mlx5dv.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl.h>

#include "mem.h"
#include "sim_parts.h"

#define SHARED IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC
#define ENTRIES 100

static struct ibv_context *context;
static struct ibv_pd *base;
static bool bounce;

/* A kernel from before the attributes, on demand */
static bool attributes_are_unknown;
static int commands_by_write;
/* One that frees no PD by ioctl, and how often it was asked to */
static bool command_is_unknown;
static int unknown_commands;

static bool is_umem_attribute(const struct ib_uverbs_ioctl_hdr *hdr,
			      const struct ib_uverbs_attr *attr)
{
	return attr->len == sizeof(struct ib_uverbs_buffer_desc) &&
	       attr->attr_id != UVERBS_ATTR_UHW_IN &&
	       attr->attr_id != UVERBS_ATTR_UHW_OUT &&
	       (hdr->object_id == UVERBS_OBJECT_CQ ||
		hdr->object_id == UVERBS_OBJECT_QP ||
		hdr->object_id == UVERBS_OBJECT_SRQ);
}

int ioctl(int fd, unsigned long request, ...)
{
	struct ib_uverbs_ioctl_hdr *hdr;
	va_list args;
	void *arg;
	int i;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);

	hdr = arg;
	if (request == RDMA_VERBS_IOCTL && command_is_unknown &&
	    hdr->object_id == UVERBS_OBJECT_PD &&
	    hdr->method_id == UVERBS_METHOD_PD_DESTROY) {
		unknown_commands++;
		errno = EPROTONOSUPPORT;
		return -1;
	}
	if (request == RDMA_VERBS_IOCTL && attributes_are_unknown)
		for (i = 0; i < hdr->num_attrs; i++)
			if (is_umem_attribute(hdr, &hdr->attrs[i])) {
				errno = EPROTONOSUPPORT;
				return -1;
			}
	return syscall(SYS_ioctl, fd, request, arg);
}

ssize_t write(int fd, const void *buf, size_t length)
{
	if (context && fd == context->cmd_fd)
		commands_by_write++;
	return syscall(SYS_write, fd, buf, length);
}

static struct ibv_pd *parent_of(struct ibv_pd *pd, uint32_t comp_mask)
{
	struct ibv_parent_domain_init_attr attr = {
		.pd = pd,
		.comp_mask = comp_mask,
	};

	errno = 0;
	return ibv_alloc_parent_domain(context, &attr);
}

static struct ibv_cq *create_cq(struct ibv_pd *parent)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = ENTRIES,
		.comp_mask = parent ? IBV_CQ_INIT_ATTR_MASK_PD : 0,
		.parent_domain = parent,
	};
	struct ibv_cq_ex *cq;

	errno = 0;
	cq = ibv_create_cq_ex(context, &attr);
	return cq ? ibv_cq_ex_to_cq(cq) : NULL;
}

static struct ibv_srq *create_srq(struct ibv_pd *pd)
{
	struct ibv_srq_init_attr attr = {
		.attr = { .max_wr = ENTRIES, .max_sge = 2 },
	};

	errno = 0;
	return ibv_create_srq(pd, &attr);
}

static struct ibv_srq *create_xrc_srq(struct ibv_pd *pd, struct ibv_cq *cq,
				      struct ibv_xrcd *xrcd)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = ENTRIES, .max_sge = 2 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = pd,
		.xrcd = xrcd,
		.cq = cq,
	};

	errno = 0;
	return ibv_create_srq_ex(context, &attr);
}

static struct ibv_qp *create_qp_of(struct ibv_pd *pd, struct ibv_cq *cq,
				   struct ibv_srq *srq, enum ibv_qp_type type,
				   uint32_t create_flags)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq,
		.recv_cq = type == IBV_QPT_XRC_SEND ? NULL : cq,
		.srq = srq,
		.cap = {
			.max_send_wr = ENTRIES,
			.max_recv_wr = ENTRIES,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.qp_type = type,
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			(create_flags ? IBV_QP_INIT_ATTR_CREATE_FLAGS : 0),
		.pd = pd,
		.create_flags = create_flags,
	};

	if (srq || type == IBV_QPT_XRC_SEND)
		attr.cap.max_recv_wr = 0;
	errno = 0;
	return ibv_create_qp_ex(context, &attr);
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_cq *cq)
{
	return create_qp_of(pd, cq, NULL, IBV_QPT_RC, 0);
}

static struct ibv_qp *create_dci(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = ENTRIES, .max_send_sge = 1 },
		.qp_type = IBV_QPT_DRIVER,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};
	struct mlx5dv_qp_init_attr dv_attr = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
		.dc_init_attr = { .dc_type = MLX5DV_DCTYPE_DCI },
	};

	errno = 0;
	return mlx5dv_create_qp(context, &attr, &dv_attr);
}

/* The descriptor that this process has of the DMA-buf with that inode */
static int fd_of(unsigned long inode)
{
	char path[32], target[16] = {};
	struct stat st;
	int fd;

	for (fd = 0; fd < 1024; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		if (readlink(path, target, sizeof(target) - 1) > 0 &&
		    !strncmp(target, "/dmabuf", 7) && !fstat(fd, &st) &&
		    st.st_ino == inode)
			return fd;
	}
	return -1;
}

/* What the device has at part is what the program has at addr. */
static void assert_same_memory(const struct sim_memory *part, void *addr)
{
	size_t page = mem_whole(1);
	size_t shift = part->at % page;
	uint32_t *seen, *word = addr;
	uint32_t was = *word;
	int fd = fd_of(part->inode);
	char *map;

	assert_true(fd >= 0);
	map = mmap(NULL, page, PROT_READ, MAP_SHARED, fd,
		   part->at - shift);
	assert_ptr_not_equal(map, MAP_FAILED);
	seen = (uint32_t *)(map + shift);
	*word = 0x5ca1ab1e;
	assert_int_equal(*seen, 0x5ca1ab1e);
	*word = was;
	assert_int_equal(*seen, was);
	munmap(map, page);
}

/* The memory of an object, as the kernel knows it and the program */
static void assert_cq_is_shared(struct ibv_cq *ibcq)
{
	struct sim_memory buf, db;
	struct mlx5dv_cq cq = {};
	struct mlx5dv_obj obj = { .cq = { .in = ibcq, .out = &cq } };

	assert_int_equal(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ), 0);
	assert_true(sim_find_part("cq", cq.cqn, "buf", &buf));
	assert_true(sim_find_part("cq", cq.cqn, "db", &db));
	assert_true(sim_is_shared(&buf) && sim_is_shared(&db));
	assert_true(buf.length >= (size_t)cq.cqe_cnt * cq.cqe_size);
	assert_same_memory(&buf, cq.buf);
	assert_same_memory(&db, cq.dbrec);
}

static void assert_qp_is_shared(struct ibv_qp *ibqp, int rings)
{
	struct sim_memory buf, sq, db;
	struct mlx5dv_qp qp = {};
	struct mlx5dv_obj obj = { .qp = { .in = ibqp, .out = &qp } };
	bool has_buf, has_sq;

	assert_int_equal(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP), 0);
	has_buf = sim_find_part("qp", ibqp->qp_num, "buf", &buf);
	has_sq = sim_find_part("qp", ibqp->qp_num, "sq", &sq);
	assert_int_equal(has_buf + has_sq, rings);
	assert_true(sim_find_part("qp", ibqp->qp_num, "db", &db));
	assert_true(sim_is_shared(&db));
	assert_same_memory(&db, qp.dbrec);
	if (has_buf) {
		assert_true(sim_is_shared(&buf));
		assert_same_memory(&buf, qp.rq.wqe_cnt ? qp.rq.buf : qp.sq.buf);
	}
	if (has_sq) {
		assert_true(sim_is_shared(&sq));
		assert_same_memory(&sq, qp.sq.buf);
	}
}

static void assert_srq_is_shared(struct ibv_srq *ibsrq)
{
	struct sim_memory buf, db;
	struct mlx5dv_srq srq = { .comp_mask = MLX5DV_SRQ_MASK_SRQN };
	struct mlx5dv_obj obj = { .srq = { .in = ibsrq, .out = &srq } };

	assert_int_equal(mlx5dv_init_obj(&obj, MLX5DV_OBJ_SRQ), 0);
	assert_true(sim_find_part("srq", srq.srqn, "buf", &buf));
	assert_true(sim_find_part("srq", srq.srqn, "db", &db));
	assert_true(sim_is_shared(&buf) && sim_is_shared(&db));
	assert_same_memory(&buf, srq.buf);
	assert_same_memory(&db, srq.dbrec);
}

static int setup(void **state)
{
	context = sim_open();
	if (!context)
		return -1;
	base = ibv_alloc_pd(context);
	return !base;
}

static int teardown(void **state)
{
	int err = ibv_dealloc_pd(base);

	err = ibv_close_device(context) || err;
	context = NULL;
	/* Nothing is left: the base PD is gone too. */
	return err || sim_live_objects() || sim_heap().pieces;
}

static bool reaches_private_memory(void)
{
	if (!bounce)
		print_message("# the device reaches all memory\n");
	return !bounce;
}

static void every_object_is_in_shared_memory(void **state)
{
	static const struct {
		enum ibv_qp_type type;
		uint32_t create_flags;
		bool srq;
		int rings;
	} cases[] = {
		{ IBV_QPT_RC, 0, false, 1 },
		{ IBV_QPT_RC, 0, true, 1 },
		{ IBV_QPT_UC, 0, false, 1 },
		{ IBV_QPT_UD, 0, false, 1 },
		{ IBV_QPT_UD, IBV_QP_CREATE_SOURCE_QPN, false, 2 },
		{ IBV_QPT_XRC_SEND, 0, false, 1 },
		{ IBV_QPT_RAW_PACKET, 0, false, 2 },
	};
	struct ibv_xrcd_init_attr xrcd_attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_qp *qp[sizeof(cases) / sizeof(*cases)], *dci;
	struct ibv_srq *srq, *xrc_srq;
	struct ibv_xrcd *xrcd;
	struct ibv_pd *parent;
	struct ibv_cq *cq;
	size_t i;

	if (reaches_private_memory())
		skip();
	parent = parent_of(base, SHARED);
	assert_non_null(parent);
	xrcd = ibv_open_xrcd(context, &xrcd_attr);
	assert_non_null(xrcd);
	cq = create_cq(parent);
	assert_non_null(cq);
	assert_cq_is_shared(cq);
	srq = create_srq(parent);
	assert_non_null(srq);
	assert_srq_is_shared(srq);
	xrc_srq = create_xrc_srq(parent, cq, xrcd);
	assert_non_null(xrc_srq);
	assert_srq_is_shared(xrc_srq);
	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		qp[i] = create_qp_of(parent, cq, cases[i].srq ? srq : NULL,
				     cases[i].type, cases[i].create_flags);
		if (!qp[i])
			print_message("# QP %zu: errno %d\n", i, errno);
		assert_non_null(qp[i]);
		assert_qp_is_shared(qp[i], cases[i].rings);
	}
	dci = create_dci(parent, cq);
	assert_non_null(dci);
	assert_qp_is_shared(dci, 1);
	assert_int_equal(sim_parts_that_share_bytes(), 0);
	assert_int_equal(sim_heap().pieces, 1);

	assert_int_equal(ibv_destroy_qp(dci), 0);
	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_int_equal(ibv_destroy_qp(qp[i]), 0);
	assert_int_equal(ibv_destroy_srq(xrc_srq), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
}

/* Of whatever pd that has not opted in, or any on a device without need */
static void no_other_object_is(void **state)
{
	uint32_t mask = bounce ? 0 : SHARED;
	struct ibv_pd *parent = parent_of(base, mask);
	unsigned long refused = sim_refused();
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_srq *srq;
	struct sim_memory part;

	assert_non_null(parent);
	cq = create_cq(parent);
	srq = create_srq(parent);
	if (bounce) {
		assert_null(cq);
		assert_int_equal(errno, EOPNOTSUPP);
		assert_null(srq);
		assert_int_equal(errno, EOPNOTSUPP);
		assert_true(sim_refused() > refused);
	} else {
		qp = create_qp(parent, cq);
		assert_non_null(qp);
		assert_true(sim_find_part("qp", qp->qp_num, "buf", &part));
		assert_int_equal(part.inode, 0);
		assert_true(sim_find_part("qp", qp->qp_num, "db", &part));
		assert_int_equal(part.inode, 0);
		assert_int_equal(ibv_destroy_qp(qp), 0);
		/* This one takes another command. */
		qp = create_qp_of(parent, cq, NULL, IBV_QPT_UD,
				  IBV_QP_CREATE_SOURCE_QPN);
		assert_non_null(qp);
		assert_true(sim_find_part("qp", qp->qp_num, "sq", &part));
		assert_int_equal(part.inode, 0);
		assert_int_equal(ibv_destroy_qp(qp), 0);
		assert_int_equal(ibv_destroy_srq(srq), 0);
		assert_int_equal(ibv_destroy_cq(cq), 0);
	}
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(sim_heap().pieces, 0);
}

static void queues_without_entries_have_no_ring(void **state)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };
	struct ibv_pd *parent;
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	if (reaches_private_memory())
		skip();
	parent = parent_of(base, SHARED);
	assert_non_null(parent);
	cq = create_cq(parent);
	assert_non_null(cq);
	attr.send_cq = cq;
	attr.recv_cq = cq;
	qp = ibv_create_qp(parent, &attr);
	assert_non_null(qp);
	assert_qp_is_shared(qp, 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
}

static void buffers_come_from_where_the_device_reaches(void **state)
{
	struct ibv_pd *parent = parent_of(base, SHARED);
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	char *mem;
	int fd;

	assert_non_null(parent);
	mem = ibv_alloc_buf(parent, MIB, &buf);
	assert_non_null(mem);
	assert_int_equal(sim_heap().pieces, bounce);
	mr = ibv_reg_buf_mr(parent, buf, mem + 4096, 8192,
			    IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	assert_int_equal(ibv_dealloc_pd(parent), EBUSY);
	assert_int_equal(ibv_dealloc_pd(base), EBUSY);
	fd = ibv_export_buf_dmabuf_fd(buf);
	assert_int_equal(fd >= 0, bounce);
	if (fd >= 0)
		close(fd);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	ibv_free_buf(buf);
	assert_int_equal(ibv_dealloc_pd(parent), 0);

	mem = ibv_alloc_buf(base, 1, &buf);
	assert_non_null(mem);
	assert_int_equal(ibv_dealloc_pd(base), EBUSY);
	ibv_free_buf(buf);
}

static void objects_keep_the_parent_domain(void **state)
{
	struct ibv_pd *parent;
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	if (reaches_private_memory())
		skip();
	parent = parent_of(base, SHARED);
	assert_non_null(parent);
	srq = create_srq(parent);
	assert_non_null(srq);
	assert_int_equal(ibv_dealloc_pd(parent), EBUSY);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	cq = create_cq(parent);
	assert_non_null(cq);
	assert_int_equal(ibv_dealloc_pd(parent), EBUSY);
	qp = create_qp(parent, cq);
	assert_non_null(qp);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_dealloc_pd(parent), EBUSY);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(sim_heap().pieces, 0);
}

static void what_has_no_attribute_is_refused(void **state)
{
	struct ibv_pd *parent;
	struct ibv_wq_init_attr wq_attr = {
		.wq_type = IBV_WQT_RQ,
		.max_wr = ENTRIES,
		.max_sge = 1,
	};
	unsigned long refused = sim_refused();
	struct ibv_cq *cq;
	int cqe;

	if (reaches_private_memory())
		skip();
	parent = parent_of(base, SHARED);
	assert_non_null(parent);
	cq = create_cq(parent);
	assert_non_null(cq);
	cqe = cq->cqe;
	wq_attr.cq = cq;
	wq_attr.pd = parent;
	assert_null(ibv_create_wq(context, &wq_attr));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(ibv_resize_cq(cq, 4 * ENTRIES), EOPNOTSUPP);
	assert_int_equal(cq->cqe, cqe);
	assert_cq_is_shared(cq);
	/* The kernel was not even asked. */
	assert_int_equal(sim_refused(), refused);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
}

static int create_all(struct ibv_pd *parent, struct ibv_cq **cq,
		      struct ibv_srq **srq, struct ibv_qp **qp)
{
	*srq = NULL;
	*qp = NULL;
	*cq = create_cq(parent);
	if (*cq)
		*srq = create_srq(parent);
	if (*srq)
		*qp = create_qp_of(parent, *cq, NULL, IBV_QPT_RAW_PACKET, 0);
	return *qp ? 0 : errno;
}

static void destroy_all(struct ibv_cq *cq, struct ibv_srq *srq,
			struct ibv_qp *qp)
{
	if (qp)
		assert_int_equal(ibv_destroy_qp(qp), 0);
	if (srq)
		assert_int_equal(ibv_destroy_srq(srq), 0);
	if (cq)
		assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void failures_leave_nothing(void **state)
{
	static const char *const kinds[] = { "cq", "srq", "qp" };
	struct ibv_pd *parent;
	size_t fds = mem_fds();
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	size_t i;

	if (reaches_private_memory())
		skip();
	parent = parent_of(base, SHARED);
	assert_non_null(parent);
	/* Of the heap */
	sim_heap_fail(1, ENOSPC);
	assert_int_equal(create_all(parent, &cq, &srq, &qp), ENOSPC);
	assert_null(cq);
	assert_int_equal(sim_heap().pieces, 0);
	assert_int_equal(mem_fds(), fds);

	/* Of the device, which has read everything by then */
	for (i = 0; i < 3; i++) {
		sim_fail(kinds[i], 1, ENOMEM);
		assert_int_equal(create_all(parent, &cq, &srq, &qp), ENOMEM);
		assert_true(i != 0 || !cq);
		assert_true(i != 1 || (cq && !srq));
		assert_true(i != 2 || (srq && !qp));
		destroy_all(cq, srq, qp);
		assert_int_equal(sim_heap().pieces, 1);
	}

	assert_int_equal(create_all(parent, &cq, &srq, &qp), 0);
	destroy_all(cq, srq, qp);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(mem_fds(), fds);
}

static void kernel_without_the_attributes_is_told(void **state)
{
	struct ibv_pd *parent;
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	if (reaches_private_memory())
		skip();
	parent = parent_of(base, SHARED);
	assert_non_null(parent);
	cq = create_cq(parent);
	assert_non_null(cq);
	attributes_are_unknown = true;
	assert_null(create_cq(parent));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_null(create_qp(parent, cq));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_null(create_srq(parent));
	assert_int_equal(errno, EOPNOTSUPP);
	attributes_are_unknown = false;
	assert_int_equal(ibv_destroy_cq(cq), 0);

	/* That has not changed the way of any other command. */
	commands_by_write = 0;
	assert_int_equal(create_all(parent, &cq, &srq, &qp), 0);
	destroy_all(cq, srq, qp);
	assert_null(create_cq(NULL));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(commands_by_write, 0);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
}

static void kernel_without_a_command_is_asked_once(void **state)
{
	struct ibv_pd *pd[2];
	int i;

	for (i = 0; i < 2; i++) {
		pd[i] = ibv_alloc_pd(context);
		assert_non_null(pd[i]);
	}
	command_is_unknown = true;
	unknown_commands = 0;
	for (i = 0; i < 2; i++) {
		assert_int_equal(ibv_dealloc_pd(pd[i]), 0);
		assert_int_equal(unknown_commands, 1);
	}
	command_is_unknown = false;
}

static void no_heap_is_no_parent_domain(void **state)
{
	static const char heap[] = "/dev/dma_heap/system_cc_shared";
	struct ibv_pd *parent;

	assert_int_equal(rename(heap, "/dev/dma_heap/away"), 0);
	parent = parent_of(base, SHARED);
	assert_int_equal(rename("/dev/dma_heap/away", heap), 0);
	if (bounce) {
		assert_null(parent);
		assert_int_equal(errno, ENOENT);
	} else {
		assert_non_null(parent);
		assert_int_equal(ibv_dealloc_pd(parent), 0);
	}
}

static int allocations;

static void *custom_alloc(struct ibv_pd *pd, void *pd_context, size_t size,
			  size_t alignment, uint64_t resource_type)
{
	allocations++;
	return aligned_alloc(4096, mem_whole(size));
}

static void custom_free(struct ibv_pd *pd, void *pd_context, void *ptr,
			uint64_t resource_type)
{
	free(ptr);
}

static void shared_memory_wins_over_custom_allocators(void **state)
{
	struct ibv_parent_domain_init_attr attr = {
		.pd = base,
		.comp_mask = SHARED | IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS,
		.alloc = custom_alloc,
		.free = custom_free,
	};
	struct ibv_pd *parent = ibv_alloc_parent_domain(context, &attr);
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	assert_non_null(parent);
	allocations = 0;
	assert_int_equal(create_all(parent, &cq, &srq, &qp), 0);
	assert_int_equal(allocations == 0, bounce);
	assert_int_equal(sim_heap().pieces, bounce);
	destroy_all(cq, srq, qp);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
}

static void *churn(void *arg)
{
	struct ibv_pd *parent = arg;
	uintptr_t failures = 0;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	int i;

	for (i = 0; i < 30; i++) {
		cq = create_cq(parent);
		srq = create_srq(parent);
		qp = cq ? create_qp(parent, cq) : NULL;
		failures += !cq || !srq || !qp;
		failures += qp && ibv_destroy_qp(qp);
		failures += srq && ibv_destroy_srq(srq);
		failures += cq && ibv_destroy_cq(cq);
	}
	return (void *)failures;
}

static void threads_share_a_parent_domain(void **state)
{
	struct ibv_pd *parent = parent_of(base, SHARED);
	pthread_t thread[4];
	void *failures;
	int i;

	if (reaches_private_memory()) {
		assert_int_equal(ibv_dealloc_pd(parent), 0);
		skip();
	}
	for (i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, churn,
						parent), 0);
	for (i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(thread[i], &failures), 0);
		assert_null(failures);
	}
	assert_int_equal(sim_heap().pieces, 1);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
}

static void killed_process_leaves_nothing(void **state)
{
	struct ibv_context *own = context;
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	int status;
	pid_t pid;

	if (reaches_private_memory())
		skip();
	pid = fork();
	if (!pid) {
		context = sim_open();
		status = !context ||
			 create_all(parent_of(ibv_alloc_pd(context), SHARED),
				    &cq, &srq, &qp) ||
			 sim_heap().pieces != 1;
		if (status)
			_exit(1);
		kill(getpid(), SIGKILL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	context = own;
	assert_true(WIFSIGNALED(status));
	/* The device and the heap: see teardown(). */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_object_is_in_shared_memory),
		TEST(no_other_object_is),
		TEST(buffers_come_from_where_the_device_reaches),
		TEST(objects_keep_the_parent_domain),
		TEST(what_has_no_attribute_is_refused),
		TEST(failures_leave_nothing),
		TEST(kernel_without_the_attributes_is_told),
		TEST(kernel_without_a_command_is_asked_once),
		TEST(no_heap_is_no_parent_domain),
		TEST(shared_memory_wins_over_custom_allocators),
		TEST(threads_share_a_parent_domain),
		TEST(killed_process_leaves_nothing),
		/*
		 * For the plain build alone: without entries the base's
		 * roundup_pow_of_two() shifts by 64.
		 */
		TEST(queues_without_entries_have_no_ring),
	};
	const size_t n = ARRAY_SIZE(tests) - (MEM_SANITIZED ? 1 : 0);

	bounce = sim_bounces();
	return _cmocka_run_group_tests("mlx5", tests, n, NULL, NULL);
}
