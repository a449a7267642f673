// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Prints each command that reaches the kernel while objects of all kinds are
 * made and destroyed without shared memory, by ioctl and by write(), with all
 * attributes and what the kernel reads of them, but for addresses. It knows
 * nothing that the base does not have, so that it runs with the base too and
 * the outputs can be compared.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl.h>

static int cmd_fd = -1;

/* Addresses differ from run to run, and nothing else is as large. */
static void print_word(uint64_t word)
{
	if (word >> 32 && word >> 47 == 0)
		printf(" ADDRESS");
	else
		printf(" %llx", (unsigned long long)word);
}

static void print_bytes(const void *data, size_t length)
{
	uint64_t word;

	for (; length >= 8; length -= 8, data += 8) {
		memcpy(&word, data, 8);
		print_word(word);
	}
	for (; length; length--, data++)
		printf(" %02x", *(const uint8_t *)data);
}

/* What the kernel reads, and not only writes */
static bool is_input(const struct ib_uverbs_ioctl_hdr *hdr,
		     const struct ib_uverbs_attr *attr)
{
	return attr->attr_id == UVERBS_ATTR_UHW_IN ||
	       (hdr->object_id == UVERBS_OBJECT_DEVICE &&
		hdr->method_id == UVERBS_METHOD_INVOKE_WRITE &&
		attr->attr_id == UVERBS_ATTR_CORE_IN) ||
	       (hdr->object_id == UVERBS_OBJECT_QP &&
		hdr->method_id == UVERBS_METHOD_QP_CREATE &&
		attr->attr_id == UVERBS_ATTR_CREATE_QP_CAP);
}

static void print_command(const struct ib_uverbs_ioctl_hdr *hdr)
{
	const struct ib_uverbs_attr *attr;

	printf("ioctl object %x method %x driver %x\n", hdr->object_id,
	       hdr->method_id, hdr->driver_id);
	for (attr = hdr->attrs; attr < hdr->attrs + hdr->num_attrs; attr++) {
		printf("  attr %x length %u flags %x:", attr->attr_id,
		       attr->len, attr->flags);
		if (attr->len <= 8)
			print_word(attr->data);
		else if (is_input(hdr, attr))
			print_bytes((void *)(uintptr_t)attr->data, attr->len);
		printf("\n");
	}
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	void *arg;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if (request == RDMA_VERBS_IOCTL)
		print_command(arg);
	return syscall(SYS_ioctl, fd, request, arg);
}

ssize_t write(int fd, const void *buf, size_t length)
{
	if (fd == cmd_fd) {
		printf("write:");
		print_bytes(buf, length);
		printf("\n");
	}
	return syscall(SYS_write, fd, buf, length);
}

static void check(bool ok, const char *what)
{
	printf("# %s: %s\n", what, ok ? "done" : strerror(errno));
}

static void *custom_alloc(struct ibv_pd *pd, void *pd_context, size_t size,
			  size_t alignment, uint64_t resource_type)
{
	return aligned_alloc(4096, (size + 4095) & ~4095ULL);
}

static void custom_free(struct ibv_pd *pd, void *pd_context, void *ptr,
			uint64_t resource_type)
{
	free(ptr);
}

static void qps(struct ibv_context *context, struct ibv_pd *pd,
		struct ibv_cq *cq, struct ibv_srq *srq)
{
	static const enum ibv_qp_type types[] = {
		IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_RAW_PACKET,
		IBV_QPT_XRC_SEND,
	};
	struct ibv_qp_init_attr_ex attr;
	struct ibv_qp *qp;
	int i;

	/* The last two: an SRQ, and a ring of its own for the send queue */
	for (i = 0; i < 7; i++) {
		attr = (struct ibv_qp_init_attr_ex) {
			.send_cq = cq,
			.recv_cq = i == 4 ? NULL : cq,
			.srq = i == 5 ? srq : NULL,
			.cap = { .max_send_wr = 9, .max_send_sge = 1,
				 .max_recv_wr = i == 4 ? 0 : 9,
				 .max_recv_sge = 1 },
			.qp_type = i < 5 ? types[i] :
				   i == 5 ? IBV_QPT_RC : IBV_QPT_UD,
			.comp_mask = IBV_QP_INIT_ATTR_PD,
			.pd = pd,
		};
		if (i == 6) {
			attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
			attr.create_flags = IBV_QP_CREATE_SOURCE_QPN;
			attr.source_qpn = 7;
		}
		qp = ibv_create_qp_ex(context, &attr);
		check(qp, "QP");
		if (qp)
			ibv_destroy_qp(qp);
	}
}

static void objects(struct ibv_context *context, struct ibv_pd *pd,
		    struct ibv_pd *parent)
{
	struct ibv_cq_init_attr_ex cq_attr = {
		.cqe = 20,
		.wc_flags = IBV_WC_STANDARD_FLAGS,
		.comp_mask = parent ? IBV_CQ_INIT_ATTR_MASK_PD : 0,
		.parent_domain = parent,
	};
	struct ibv_srq_init_attr srq_attr = {
		.attr = { .max_wr = 30, .max_sge = 2 },
	};
	struct ibv_srq_init_attr_ex xsrq_attr = {
		.attr = { .max_wr = 30, .max_sge = 2 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = pd,
	};
	struct ibv_xrcd_init_attr xrcd_attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_wq_init_attr wq_attr = {
		.wq_type = IBV_WQT_RQ,
		.max_wr = 8,
		.max_sge = 1,
		.pd = parent ?: pd,
	};
	struct ibv_cq *cq = ibv_create_cq(context, 10, NULL, NULL, 0);
	struct ibv_cq_ex *cq_ex = ibv_create_cq_ex(context, &cq_attr);
	struct ibv_srq *srq = ibv_create_srq(parent ?: pd, &srq_attr);
	struct ibv_xrcd *xrcd = ibv_open_xrcd(context, &xrcd_attr);
	struct ibv_srq *xsrq;
	struct ibv_wq *wq;

	check(cq && cq_ex && srq && xrcd, "CQs, SRQ, XRCD");
	if (!cq || !cq_ex || !srq || !xrcd)
		goto out;
	check(!ibv_resize_cq(cq, 100), "resize");
	xsrq_attr.xrcd = xrcd;
	xsrq_attr.cq = cq;
	xsrq = ibv_create_srq_ex(context, &xsrq_attr);
	check(xsrq, "XRC SRQ");
	wq_attr.cq = cq;
	wq = ibv_create_wq(context, &wq_attr);
	check(wq, "WQ");
	qps(context, parent ?: pd, cq, srq);

	if (wq)
		ibv_destroy_wq(wq);
	ibv_destroy_srq(xsrq);
out:
	if (xrcd)
		ibv_close_xrcd(xrcd);
	if (srq)
		ibv_destroy_srq(srq);
	if (cq_ex)
		ibv_destroy_cq(ibv_cq_ex_to_cq(cq_ex));
	if (cq)
		ibv_destroy_cq(cq);
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_context *context = NULL;
	struct ibv_device **list = ibv_get_device_list(NULL);
	int i;

	for (i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			context = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	return context;
}

int main(int argc, char **argv)
{
	struct ibv_parent_domain_init_attr attr = {
		.alloc = custom_alloc,
		.free = custom_free,
	};
	static char memory[8192] __attribute__((aligned(4096)));
	struct ibv_context *context;
	struct ibv_pd *parent;
	struct ibv_mr *mr;

	context = open_device("sim0");
	if (!context) {
		fprintf(stderr, "# no sim0\n");
		return 1;
	}
	cmd_fd = context->cmd_fd;
	attr.pd = ibv_alloc_pd(context);
	check(attr.pd, "PD");
	mr = ibv_reg_mr(attr.pd, memory, sizeof(memory), 0);
	check(mr && !ibv_dereg_mr(mr), "MR");

	printf("# no parent domain\n");
	objects(context, attr.pd, NULL);
	printf("# parent domain\n");
	parent = ibv_alloc_parent_domain(context, &attr);
	check(parent, "parent domain");
	objects(context, attr.pd, parent);
	check(!ibv_dealloc_pd(parent), "parent domain is gone");
	printf("# parent domain with allocators\n");
	attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
	parent = ibv_alloc_parent_domain(context, &attr);
	objects(context, attr.pd, parent);
	check(!ibv_dealloc_pd(parent), "parent domain is gone");

	check(!ibv_dealloc_pd(attr.pd), "PD is gone");
	cmd_fd = -1;
	check(!ibv_close_device(context), "device is closed");
	return 0;
}
