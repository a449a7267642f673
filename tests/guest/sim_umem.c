// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The attributes by which a process says where the rings and doorbell records
 * of its objects lie, as the kernel of the test device takes them: sent by hand
 * for a CQ, since a provider only sends what is right. Other objects take them
 * the same way, which sim_device.c and the suites of the provider show.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <infiniband/verbs.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/mlx5-abi.h>
#include <rdma/rdma_user_ioctl.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include "mem.h"
#include "sim.h"
#include "sim_kit.h"

/* Of Linux 7.2, which headers of today may not have */
#define CQ_BUF_UMEM 12
#define CQ_DBR_BUF_UMEM (UVERBS_ID_DRIVER_NS_WITH_UHW + 1)
enum { DMABUF, VA };

struct place {
	uint32_t type;
	int32_t fd;
	uint32_t flags, optional_flags;
	uint64_t at, length;
};

static struct kit kit;

static void add(struct ib_uverbs_ioctl_hdr *hdr, uint16_t id, uint64_t data,
		uint16_t len)
{
	struct ib_uverbs_attr *attr = &hdr->attrs[hdr->num_attrs++];

	attr->attr_id = id;
	attr->len = len;
	attr->flags = UVERBS_ATTR_F_MANDATORY;
	attr->data = data;
	hdr->driver_id = RDMA_DRIVER_MLX5;
	hdr->length = sizeof(*hdr) + hdr->num_attrs * sizeof(*attr);
}

static void add_ptr(struct ib_uverbs_ioctl_hdr *hdr, uint16_t id,
		    const void *data, uint16_t len)
{
	add(hdr, id, (uintptr_t)data, len);
}

static int call(struct ib_uverbs_ioctl_hdr *hdr)
{
	return ioctl(kit.context->cmd_fd, RDMA_VERBS_IOCTL, hdr) ? errno : 0;
}

static void destroy(uint32_t handle)
{
	union {
		struct ib_uverbs_ioctl_hdr hdr;
		char room[512];
	} cmd = { .hdr = { .object_id = UVERBS_OBJECT_CQ,
			   .method_id = UVERBS_METHOD_CQ_DESTROY } };
	struct ib_uverbs_destroy_cq_resp resp = {};

	add(&cmd.hdr, UVERBS_ATTR_DESTROY_CQ_HANDLE, handle, 0);
	add_ptr(&cmd.hdr, UVERBS_ATTR_DESTROY_CQ_RESP, &resp, sizeof(resp));
	assert_int_equal(call(&cmd.hdr), 0);
}

/* A CQ of 64 entries of 64 bytes; without a place, from the address in req */
static int create(const struct place *ring, const struct place *db,
		  uint32_t *handle)
{
	union {
		struct ib_uverbs_ioctl_hdr hdr;
		char room[512];
	} cmd = { .hdr = { .object_id = UVERBS_OBJECT_CQ,
			   .method_id = UVERBS_METHOD_CQ_CREATE } };
	struct mlx5_ib_create_cq req = {
		.buf_addr = (uintptr_t)kit.mem,
		.db_addr = (uintptr_t)kit.mem + 8192,
		.cqe_size = 64,
	};
	struct mlx5_ib_create_cq_resp resp = {};
	uint32_t cqe = 0;
	int err;

	add(&cmd.hdr, UVERBS_ATTR_CREATE_CQ_HANDLE, 0, 0);
	add(&cmd.hdr, UVERBS_ATTR_CREATE_CQ_CQE, 63, sizeof(uint32_t));
	add(&cmd.hdr, UVERBS_ATTR_CREATE_CQ_USER_HANDLE, 0, sizeof(uint64_t));
	add(&cmd.hdr, UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 0, sizeof(uint32_t));
	add_ptr(&cmd.hdr, UVERBS_ATTR_CREATE_CQ_RESP_CQE, &cqe, sizeof(cqe));
	add_ptr(&cmd.hdr, UVERBS_ATTR_UHW_IN, &req, sizeof(req));
	add_ptr(&cmd.hdr, UVERBS_ATTR_UHW_OUT, &resp, sizeof(resp));
	if (ring)
		add_ptr(&cmd.hdr, CQ_BUF_UMEM, ring, sizeof(*ring));
	if (db)
		add_ptr(&cmd.hdr, CQ_DBR_BUF_UMEM, db, sizeof(*db));

	err = call(&cmd.hdr);
	if (!err)
		*handle = cmd.hdr.attrs[0].data;
	return err;
}

static struct place in_dmabuf(uint64_t at, uint64_t length)
{
	return (struct place){ .type = DMABUF, .fd = kit.fd, .at = at,
			       .length = length };
}

static void memory_is_where_it_was_said(void **state)
{
	const struct place ring = in_dmabuf(4096 + 64, 4096);
	const struct place db = in_dmabuf(3 * 4096 + 8, 8);
	const uint64_t refused = sim_refused();
	struct sim_memory piece[2];
	struct stat stat;
	uint32_t handle;

	assert_int_equal(fstat(kit.fd, &stat), 0);
	assert_int_equal(create(&ring, &db, &handle), 0);
	assert_int_equal(sim_memory(piece, 2), 2);
	assert_string_equal(piece[0].kind, "cq");
	assert_string_equal(piece[0].part, "buf");
	assert_int_equal(piece[0].inode, stat.st_ino);
	assert_int_equal(piece[0].at, ring.at);
	assert_int_equal(piece[0].length, ring.length);
	assert_string_equal(piece[0].exporter, "system_cc_shared");
	assert_string_equal(piece[1].part, "db");
	assert_int_equal(piece[1].inode, stat.st_ino);
	assert_int_equal(piece[1].at, db.at);
	assert_int_equal(piece[1].length, db.length);
	assert_int_equal(sim_refused(), refused);
	destroy(handle);
	assert_int_equal(sim_memory(NULL, 0), 0);
}

static void one_of_the_two_may_be_private(void **state)
{
	const struct place ring = in_dmabuf(0, 4096), db = in_dmabuf(8192, 8);
	const struct place here = { .type = VA, .at = (uintptr_t)kit.mem,
				    .length = 4096 };
	const int want = kit.bounce ? EOPNOTSUPP : 0;
	uint64_t refused = sim_refused();
	uint32_t handle;
	int i, err;

	for (i = 0; i < 4; i++) {
		err = create(i == 0 ? &ring : i == 1 ? NULL : &here,
			     i == 0 ? NULL : i == 3 ? &here : &db, &handle);
		assert_int_equal(err, want);
		if (!err)
			destroy(handle);
		refused += kit.bounce;
		assert_int_equal(sim_refused(), refused);
		assert_int_equal(sim_memory(NULL, 0), 0);
	}
}

static void other_places_are_refused(void **state)
{
	static const struct {
		uint64_t at, length;
	} rings[] = {
		{ 0, 4095 },			/* too short */
		{ 32, 4096 },			/* between two lines */
		{ KIT_SIZE - 4096 + 64, 4096 },	/* past the end */
		{ KIT_SIZE, 4096 },
		{ UINT64_MAX - 4095, 4096 },
		{ UINT64_MAX - 63, 4096 },
		{ 0, UINT64_MAX },
		{ 0, 0 },
	}, dbs[] = {
		{ 8192, 7 },
		{ 2 * 4096 - 4, 8 },		/* in two pages */
		{ KIT_SIZE - 4, 8 },
		{ UINT64_MAX - 7, 8 },
		{ 8192, 0 },
	};
	const struct place ring = in_dmabuf(0, 4096), db = in_dmabuf(8192, 8);
	struct place other;
	uint32_t handle;
	size_t i;

	for (i = 0; i < sizeof(rings) / sizeof(rings[0]); i++) {
		other = in_dmabuf(rings[i].at, rings[i].length);
		assert_int_equal(create(&other, &db, &handle), EINVAL);
	}
	for (i = 0; i < sizeof(dbs) / sizeof(dbs[0]); i++) {
		other = in_dmabuf(dbs[i].at, dbs[i].length);
		assert_int_equal(create(&ring, &other, &handle), EINVAL);
	}

	other = ring;
	other.flags = 1;
	assert_int_equal(create(&other, &db, &handle), EINVAL);
	other = ring;
	other.type = 2;
	assert_int_equal(create(&other, &db, &handle), EINVAL);
	other = ring;
	other.fd = 0;
	assert_int_equal(create(&other, &db, &handle), EINVAL);
	other.fd = -1;
	assert_int_equal(create(&other, &db, &handle), EBADF);
	assert_int_equal(sim_count("cq"), 0);
}

static void failure_takes_the_first_part_back(void **state)
{
	const struct place ring = in_dmabuf(0, 4096), db = in_dmabuf(8192, 8);
	uint32_t handle;

	sim_fail("db", 1, ENOSPC);
	assert_int_equal(create(&ring, &db, &handle), ENOSPC);
	assert_int_equal(sim_memory(NULL, 0), 0);
	sim_fail("cq", 1, EIO);
	assert_int_equal(create(&ring, &db, &handle), EIO);
	assert_int_equal(create(&ring, &db, &handle), 0);
	destroy(handle);
}

static int setup(void **state)
{
	if (!sim_is_there() || kit_open(&kit, false))
		return -1;
	/* That the pieces of a test are all there is */
	if (kit.srq && ibv_destroy_srq(kit.srq))
		return -1;
	if (kit.cq && ibv_destroy_cq(kit.cq))
		return -1;
	kit.srq = NULL;
	kit.cq = NULL;
	return 0;
}

static int teardown(void **state)
{
	return kit_close(&kit) || !sim_is_empty() || sim_heap().pieces;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_is_where_it_was_said),
		cmocka_unit_test(one_of_the_two_may_be_private),
		cmocka_unit_test(other_places_are_refused),
		cmocka_unit_test(failure_takes_the_first_part_back),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
