// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * ibv_reg_mr_ex(), ibv_reg_buf_mr(), ibv_alloc_user_buf(), the export of a
 * DMA-buf, and the description of a part of a buffer for the kernel, on any
 * arguments, against the contract: which errno, or what the provider is called
 * with and what is in the MR. The oracle is written from the man pages, not
 * from the code: it judges a range in 128 bits, and a mask by rules.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "buf.h"
#include "input.h"
#include "stub.h"
#include "system.h"

#include <rdma/ib_user_ioctl_verbs.h>

#define IOVA IBV_REG_MR_MASK_IOVA
#define ADDR IBV_REG_MR_MASK_ADDR
#define FD IBV_REG_MR_MASK_FD
#define FD_OFFSET IBV_REG_MR_MASK_FD_OFFSET
#define DMAH IBV_REG_MR_MASK_DMAH
#define BUF IBV_REG_MR_MASK_BUF

typedef unsigned __int128 wide;

static struct stub *stub;
static int memfd;

/* What a call should come to: an error, or one call of the provider */
struct expected {
	int err;
	bool by_fd;
	bool of_buf;
	struct stub_call call;
	void *mr_addr;
};

/* A number near the ends of what it is compared with, or any other */
static uint64_t some_number(struct input *input, uint64_t a, uint64_t b)
{
	int64_t near = (int8_t)input_byte(input);

	switch (input_byte(input) % 8) {
	case 0:
		return a + near;
	case 1:
		return b + near;
	case 2:
		return near;
	case 3:
		return a + (b ? input_number(input, 8) % b : 0);
	case 4:
		return (uint64_t)near << 56 | input_byte(input);
	case 5:
		return b - a + near;
	default:
		return input_number(input, 8);
	}
}

static bool is_within(uint64_t at, uint64_t length, uint64_t start,
		      uint64_t size)
{
	return length && at >= start &&
	       (wide)at + length <= (wide)start + size;
}

/* The contract's rules for what goes with what, without a buffer */
static bool mask_is_right(uint64_t mask)
{
	if (!(mask & ADDR) == !(mask & FD))
		return false;
	if (mask & FD)
		return mask & FD_OFFSET && mask & IOVA;
	return !(mask & FD_OFFSET);
}

static bool may_register(const struct ibv_pd *pd,
			 const struct ibv_mr_init_attr *attr)
{
	const struct ibv_buf *buf = attr->buf;

	if (!(attr->comp_mask & ADDR) || attr->comp_mask & (FD | FD_OFFSET))
		return false;
	if (!buf || buf->pd != pd)
		return false;
	if (attr->comp_mask & IOVA && buf->dmabuf_fd != -1)
		return false;
	return is_within((uintptr_t)attr->addr, attr->length,
			 (uintptr_t)buf->addr, buf->size);
}

static unsigned int access_to(const struct stub *stub, unsigned int access)
{
	if (verbs_get_device(stub->vctx.context.device)->core_support &
	    IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS)
		return access;
	return access & ~IBV_ACCESS_OPTIONAL_RANGE;
}

static struct expected expect(struct ibv_pd *pd,
			      const struct ibv_mr_init_attr *attr)
{
	struct expected e = {};
	uint64_t mask;

	if (!pd || !attr)
		return (struct expected) { .err = EINVAL };
	mask = attr->comp_mask;
	if (mask & DMAH || mask >= BUF << 1)
		return (struct expected) { .err = EOPNOTSUPP };
	if ((mask & BUF) ? !may_register(pd, attr) : !mask_is_right(mask))
		return (struct expected) { .err = EINVAL };

	e.of_buf = mask & BUF;
	e.by_fd = e.of_buf ? attr->buf->dmabuf_fd != -1 &&
				     attr->buf->backing != VERBS_BUF_UDMABUF :
			     mask & FD;
	e.mr_addr = (mask & FD) ? (void *)(uintptr_t)attr->fd_offset :
				  attr->addr;
	e.call.pd = pd;
	e.call.length = attr->length;
	e.call.iova = (mask & IOVA) ? attr->iova : (uintptr_t)attr->addr;
	if (e.by_fd) {
		e.call.access = attr->access;
		e.call.fd = e.of_buf ? attr->buf->dmabuf_fd : attr->fd;
		e.call.offset = e.of_buf ?
			attr->buf->dmabuf_offset + (uintptr_t)attr->addr -
				(uintptr_t)attr->buf->addr :
			attr->fd_offset;
	} else {
		e.call.addr = attr->addr;
		e.call.access = access_to(stub, attr->access);
	}
	e.err = stub->fail_with;
	return e;
}

static void check_call(const struct expected *e, const struct stub_call *call)
{
	CHECK(call->count == 1 && call->pd == e->call.pd &&
	      call->addr == e->call.addr && call->offset == e->call.offset &&
	      call->fd == e->call.fd && call->length == e->call.length &&
	      call->iova == e->call.iova && call->access == e->call.access);
}

static void check_mr(const struct expected *e, struct ibv_mr *mr,
		     struct ibv_buf *buf)
{
	unsigned int users = e->of_buf ? buf->users : 0;

	CHECK(mr->addr == e->mr_addr && mr->length == e->call.length);
	CHECK(mr->pd == e->call.pd && mr->context == &stub->vctx.context);
	if (!e->by_fd)
		CHECK(verbs_get_mr(mr)->buf == (e->of_buf ? buf : NULL));
	CHECK(ibv_dereg_mr(mr) == 0);
	if (e->of_buf)
		CHECK(buf->users == users - !e->by_fd);
}

static void try_reg(struct input *input, struct ibv_pd *pd,
		    struct ibv_mr_init_attr *attr, bool short_form)
{
	struct ibv_mr_init_attr before;
	struct expected e = expect(pd, attr);
	struct ibv_mr *mr;

	stub->reg_mr = stub->reg_dmabuf_mr = (struct stub_call) {};
	if (attr)
		before = *attr;
	errno = 0;
	mr = short_form ? ibv_reg_buf_mr(pd, attr->buf, attr->addr,
					 attr->length, attr->access) :
			  ibv_reg_mr_ex(pd, attr);
	if (attr)
		CHECK(!memcmp(&before, attr, sizeof(before)));

	CHECK(!mr == !!e.err);
	if (e.err && e.err != stub->fail_with)
		CHECK(!stub->reg_mr.count && !stub->reg_dmabuf_mr.count);
	else if (!e.err || e.err == stub->fail_with)
		CHECK(stub->reg_mr.count + stub->reg_dmabuf_mr.count <= 1);
	if (e.err) {
		CHECK(errno == e.err);
		return;
	}

	check_call(&e, e.by_fd ? &stub->reg_dmabuf_mr : &stub->reg_mr);
	CHECK(!(e.by_fd ? stub->reg_mr : stub->reg_dmabuf_mr).count);
	check_mr(&e, mr, attr->buf);
}

/* Any buffer that a backing could make; it is never freed. */
static void make_buf(struct input *input, struct ibv_buf *buf)
{
	static const enum verbs_buf_backing backings[] = {
		VERBS_BUF_ANON, VERBS_BUF_HUGE, VERBS_BUF_DMABUF,
		VERBS_BUF_UDMABUF, VERBS_BUF_CC_SHARED, VERBS_BUF_USER,
	};
	uint8_t byte = input_byte(input);
	uintptr_t addr = input_number(input, 8) & ~0xfffULL;
	size_t size = input_number(input, 1 + input_byte(input) % 8);

	*buf = (struct ibv_buf) {
		.addr = (void *)addr,
		.size = size && size <= UINTPTR_MAX - addr ? size : 1,
		.pd = byte & 0x80 ? &stub->other_pd : &stub->pd,
		.backing = backings[byte % ARRAY_LENGTH(backings)],
		.users = 1,
	};
	buf->dmabuf_fd = buf->backing <= VERBS_BUF_HUGE ||
			 (buf->backing == VERBS_BUF_USER && byte & 0x40) ?
				-1 : memfd;
	if (buf->dmabuf_fd >= 0 && byte & 0x20)
		buf->dmabuf_offset = input_number(input, 6);
}

static void fuzz_reg(struct input *input)
{
	uint8_t choice = input_byte(input);
	struct ibv_mr_init_attr attr;
	struct ibv_buf buf;
	struct ibv_pd *pd;

	make_buf(input, &buf);
	/* With its padding, since nothing of it may change */
	memset(&attr, 0, sizeof(attr));
	attr.comp_mask = input_byte(input);
	if (choice & 1)
		attr.comp_mask |= input_number(input, 8);
	attr.addr = (void *)(uintptr_t)some_number(input, (uintptr_t)buf.addr,
						   (uintptr_t)buf.addr +
							   buf.size);
	attr.length = some_number(input, (uintptr_t)attr.addr -
					 (uintptr_t)buf.addr, buf.size);
	attr.iova = input_number(input, 8);
	attr.fd = (int8_t)input_byte(input);
	attr.fd_offset = input_number(input, 8);
	attr.access = input_number(input, 4);
	attr.buf = choice & 2 ? &buf : choice & 4 ? NULL : &buf;
	pd = choice & 8 ? &stub->pd : choice & 16 ? NULL : buf.pd;
	stub->fail_with = (choice & 0x60) == 0x60 ? ENOSPC : 0;
	verbs_get_device(stub->vctx.context.device)->core_support =
		choice & 0x80 ? 0 : IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS;

	try_reg(input, pd, &attr, false);
	attr.comp_mask = ADDR | BUF;
	try_reg(input, pd, &attr, true);
	if (choice == 0x10)
		try_reg(input, &stub->pd, NULL, false);
	CHECK(buf.users == 1);
}

/* ibv_export_buf_dmabuf_fd(): 0 for the base of a DMA-buf */
static void check_export(struct ibv_buf *buf)
{
	struct stat own, exported;
	int fd;

	errno = 0;
	fd = ibv_export_buf_dmabuf_fd(buf);
	if (!buf || buf->dmabuf_fd == -1 || buf->dmabuf_offset) {
		CHECK(fd == -1 && errno == (buf ? ENODATA : EINVAL));
		return;
	}
	CHECK(fd >= 0 && fd != buf->dmabuf_fd);
	CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC);
	CHECK(!fstat(buf->dmabuf_fd, &own) && !fstat(fd, &exported));
	CHECK(own.st_dev == exported.st_dev && own.st_ino == exported.st_ino);
	close(fd);
}

static void fuzz_export(struct input *input)
{
	struct ibv_buf buf;

	make_buf(input, &buf);
	check_export(input_byte(input) ? &buf : NULL);
}

/* The range is by offset; it stays the buffer's own way to register. */
static void fuzz_umem(struct input *input)
{
	struct ib_uverbs_buffer_desc umem = { .flags = 0x5ead };
	uint64_t offset, length;
	struct ibv_buf buf;
	int ret;

	make_buf(input, &buf);
	offset = some_number(input, 0, buf.size);
	length = some_number(input, offset, buf.size);
	ret = verbs_buf_umem(&buf, offset, length, &umem);
	if (!is_within(offset, length, 0, buf.size)) {
		CHECK(ret == EINVAL && umem.flags == 0x5ead);
		return;
	}
	CHECK(!ret && umem.length == length);
	CHECK(!umem.flags && !umem.optional_flags);
	if (buf.dmabuf_fd != -1 && buf.backing != VERBS_BUF_UDMABUF)
		CHECK(umem.type == IB_UVERBS_BUFFER_TYPE_DMABUF &&
		      umem.fd == memfd &&
		      umem.addr == buf.dmabuf_offset + offset);
	else
		CHECK(umem.type == IB_UVERBS_BUFFER_TYPE_VA && umem.fd == -1 &&
		      umem.addr == (uintptr_t)buf.addr + offset);
}

/* errno of ibv_alloc_user_buf(), 0 if it should succeed */
static int user_buf_error(const struct ibv_pd *pd, uint64_t addr, uint64_t size,
			  int fd, uint64_t length)
{
	if (!pd || !addr || !size || fd < -1 || (wide)addr + size > (wide)1 << 64)
		return EINVAL;
	if (fd == -1)
		return 0;
	if (fd != memfd)
		return EBADF;
	return fake.all_is_dmabuf && size <= length ? 0 : EINVAL;
}

static void fuzz_user_buf(struct input *input)
{
	uint64_t length = input_number(input, 1 + input_byte(input) % 4);
	uint8_t choice = input_byte(input);
	struct ibv_pd *pd = choice & 1 || choice & 2 ? &stub->pd : NULL;
	int fds[] = { memfd, -1, 1 << 20, -1 - (choice >> 4), memfd };
	int err, fd = fds[(choice >> 2) % ARRAY_LENGTH(fds)];
	uint64_t addr, size;
	struct ibv_buf *buf;

	size = some_number(input, length, 4096);
	addr = some_number(input, 0x10000, -size);
	CHECK(!ftruncate(memfd, length));
	fake.all_is_dmabuf = choice & 0x80;
	err = user_buf_error(pd, addr, size, fd, length);

	errno = 0;
	buf = ibv_alloc_user_buf(pd, (void *)(uintptr_t)addr, size, fd);
	CHECK(!buf == !!err);
	if (!buf) {
		CHECK(errno == err);
		return;
	}
	CHECK((uintptr_t)buf->addr == addr && buf->size == size);
	CHECK(fake.fds == (fd != -1) && !fake.calls);
	CHECK(fd == -1 ? buf->dmabuf_fd == -1 : buf->dmabuf_fd != fd);
	check_export(buf);
	ibv_free_buf(buf);	/* the other verb's: refused */
	CHECK(fake.fds == (fd != -1) && buf->users == 1);
	ibv_free_user_buf(buf);
	ibv_free_user_buf(NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = { data, data + size };

	if (!stub) {
		stub = stub_open();
		memfd = memfd_create("dmabuf", MFD_CLOEXEC);
	}
	system_begin();
	switch (input_byte(&input) % 8) {
	case 0:
		fuzz_export(&input);
		break;
	case 1:
		fuzz_umem(&input);
		break;
	case 2:
	case 3:
		fuzz_user_buf(&input);
		break;
	default:
		fuzz_reg(&input);
		break;
	}
	system_end();
	return 0;
}
