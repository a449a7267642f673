// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The test device as verbs show it, through the provider that takes it for its
 * own: every object that can be made of it, what the device then has, and how
 * making one fails. That a MR leads to the right bytes is the business of
 * provenance.c, that nothing is left when a process or the device goes, of
 * sim_gone.c.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "mem.h"
#include "sim.h"
#include "sim_kit.h"

#define PORT 1
#define LIST 64

/* With private memory, and, where the provider can, with shared memory */
static struct kit kits[2];
static int n_kits;
static struct kit *const plain = &kits[0];

/* One whose objects have rings that the device reaches, or NULL */
static struct kit *ringed(void)
{
	int i;

	for (i = 0; i < n_kits; i++)
		if (kit_has_rings(&kits[i]))
			return &kits[i];
	print_message("# no ring in memory that the device reaches\n");
	return NULL;
}

/* What there is of everything that a failure must not change */
struct books {
	size_t count;
	uint64_t bytes;
	size_t pieces;
	size_t fds;
	struct sim_heap heap;
};

static struct books take_books(const char *kind)
{
	struct books books = {
		.count = kind ? sim_count(kind) : 0,
		.bytes = kind ? sim_bytes(kind) : 0,
		.pieces = sim_memory(NULL, 0),
		.fds = mem_fds(),
		.heap = sim_heap(),
	};

	return books;
}

/* A pool of the provider may keep memory of the heap, and its descriptor. */
static void assert_same(struct books now, struct books before)
{
	assert_int_equal(now.count, before.count);
	assert_int_equal(now.bytes, before.bytes);
	assert_int_equal(now.pieces, before.pieces);
	assert_in_range(now.fds, before.fds, before.fds + 1);
	assert_in_range(now.heap.pieces, before.heap.pieces,
			before.heap.pieces + 1);
}

static bool reaches(const struct kit *kit, const struct maker *maker)
{
	if (maker->memory_of_kit)
		return !kit->bounce || !strcmp(maker->name, "MR of a DMA-buf");
	if (!strcmp(maker->name, "WQ"))
		return !kit->bounce;
	return !*maker->parts || !kit->bounce ||
	       (kit->opted && strcmp(maker->name, "CQ") &&
		strcmp(maker->name, "CQ with channel") &&
		strcmp(maker->name, "extended CQ"));
}

/* What was added since there were n pieces: which parts, from where */
static void assert_parts(const struct maker *maker, const struct kit *kit,
			 uint64_t bytes)
{
	static struct sim_memory list[LIST];
	size_t n = sim_memory(list, LIST), i;
	char parts[64] = "";
	size_t used = 0;
	uint32_t last = 0;
	uint64_t sum = 0;

	assert_true(n <= LIST);
	/* The newest of its kind has the highest number. */
	for (i = 0; i < n; i++)
		if (!strcmp(list[i].kind, maker->kind) && list[i].id > last)
			last = list[i].id;
	for (i = 0; i < n; i++) {
		if (strcmp(list[i].kind, maker->kind) || list[i].id != last)
			continue;
		used += snprintf(parts + used, sizeof(parts) - used, "%s ",
				 list[i].part);
		assert_true(used < sizeof(parts));
		sum += list[i].length;
		assert_int_equal(list[i].pid, getpid());
		if (list[i].inode) {
			assert_string_equal(list[i].exporter,
					    "system_cc_shared");
		} else {
			assert_false(kit->bounce);
			assert_false(mem_is_free((void *)list[i].at, 1));
		}
	}
	assert_string_equal(parts, maker->parts);
	assert_int_equal(sum, bytes);
}

static void come_and_go(const struct kit *kit, const struct maker *maker)
{
	struct books before = take_books(maker->kind), now;
	void *object[2];
	int i;

	print_message("# %s\n", maker->name);
	for (i = 0; i < 2; i++) {
		now = take_books(maker->kind);
		object[i] = maker->make(kit);
		if (!object[i])
			print_message("# %s: %s\n", maker->name,
				      strerror(errno));
		assert_non_null(object[i]);
		if (!maker->kind)
			continue;
		assert_int_equal(sim_count(maker->kind), now.count + 1);
		if (*maker->parts)
			assert_parts(maker, kit,
				     sim_bytes(maker->kind) - now.bytes);
	}
	for (i = 0; i < 2; i++)
		assert_int_equal(maker->undo(object[i]), 0);
	assert_same(take_books(maker->kind), before);
}

static void each_object_comes_and_goes(void **state)
{
	const struct maker *maker;
	int i;

	for (i = 0; i < n_kits; i++)
		for (maker = kit_makers(&kits[i]); maker->name; maker++)
			if (maker_can(maker, &kits[i]) &&
			    reaches(&kits[i], maker))
				come_and_go(&kits[i], maker);
}

static void refuse(const struct kit *kit, const struct maker *maker, int err)
{
	struct books before = take_books(maker->kind);

	print_message("# %s: %s\n", maker->name, strerror(err));
	errno = 0;
	assert_null(maker->make(kit));
	assert_int_equal(errno, err);
	assert_same(take_books(maker->kind), before);
}

static void private_memory_is_refused(void **state)
{
	const struct maker *maker;
	uint64_t refused;
	int i;

	if (!plain->bounce) {
		print_message("# the device reaches private memory\n");
		skip();
	}
	for (i = 0; i < n_kits; i++) {
		for (maker = kit_makers(&kits[i]); maker->name; maker++) {
			if (!maker_can(maker, &kits[i]) ||
			    reaches(&kits[i], maker))
				continue;
			refused = sim_refused();
			refuse(&kits[i], maker, EOPNOTSUPP);
			/* Or the provider knows and does not ask. */
			assert_in_range(sim_refused(),
					refused + maker->memory_of_kit,
					refused + 1);
		}
	}
}

/* Shared is the heap of that name: other DMA-bufs are as good as private. */
static void other_dmabuf_is_private(void **state)
{
	uint64_t refused = sim_refused();
	struct ibv_mr *mr;
	int fd;

	assert_int_equal(rename("/dev/dma_heap/system_cc_shared",
				"/dev/dma_heap/shared"), 0);
	assert_int_equal(symlink("system", "/dev/dma_heap/system_cc_shared"),
			 0);
	fd = kit_shared(8192);
	assert_int_equal(unlink("/dev/dma_heap/system_cc_shared"), 0);
	assert_int_equal(rename("/dev/dma_heap/shared",
				"/dev/dma_heap/system_cc_shared"), 0);
	assert_true(fd >= 0);

	errno = 0;
	mr = ibv_reg_dmabuf_mr(plain->base, 0, 8192, 0, fd, 0);
	if (plain->bounce) {
		assert_null(mr);
		assert_int_equal(errno, EOPNOTSUPP);
		assert_int_equal(sim_refused(), refused + 1);
	} else {
		assert_non_null(mr);
		assert_int_equal(ibv_dereg_mr(mr), 0);
		assert_int_equal(sim_refused(), refused);
	}
	close(fd);
}

static void making_fails_on_demand(void **state)
{
	static const char *const parts[] = { "buf", "sq", "db" };
	const struct maker *maker;
	const struct kit *kit;
	void *object;
	size_t p;
	int i;

	for (i = 0; i < n_kits; i++) {
		kit = &kits[i];
		for (maker = kit_makers(kit); maker->name; maker++) {
			if (!maker->kind || !maker_can(maker, kit) ||
			    !reaches(kit, maker))
				continue;
			sim_fail(maker->kind, 1, EIO);
			refuse(kit, maker, EIO);
			for (p = 0; p < 3; p++) {
				char word[8];

				snprintf(word, sizeof(word), "%s ", parts[p]);
				if (!strstr(maker->parts, word))
					continue;
				sim_fail(parts[p], 1, ENOSPC);
				refuse(kit, maker, ENOSPC);
			}

			sim_fail(maker->kind, 2, ENOMEM);
			object = maker->make(kit);
			assert_non_null(object);
			refuse(kit, maker, ENOMEM);
			assert_int_equal(maker->undo(object), 0);

			sim_fail(maker->kind, 1, ENOMEM);
			sim_fail(maker->kind, 0, ENOMEM);
			come_and_go(kit, maker);
		}
	}
}

static void opening_fails_on_demand(void **state)
{
	const size_t fds = mem_fds();
	struct ibv_context *context;

	sim_fail("ucontext", 1, EAGAIN);
	context = sim_open();
	/* A provider may ask again in an older way. */
	if (context) {
		assert_true(plain->mlx5);
		assert_int_equal(ibv_close_device(context), 0);
	}
	assert_int_equal(mem_fds(), fds);
	assert_int_equal(sim_count("ucontext"), n_kits);
}

/* The limit is one of the device, at once; what it says it has is older. */
static void number_is_limited(void **state)
{
	const unsigned int max = sim_get("max_objects");
	const struct maker *maker;
	void *object[2];

	for (maker = kit_makers(plain); maker->name; maker++) {
		if (!maker->kind || !maker_can(maker, plain) ||
		    !reaches(plain, maker))
			continue;
		sim_set("max_objects", sim_count(maker->kind) + 2);
		object[0] = maker->make(plain);
		object[1] = maker->make(plain);
		assert_non_null(object[0]);
		assert_non_null(object[1]);
		refuse(plain, maker, ENOMEM);
		assert_int_equal(maker->undo(object[0]), 0);
		object[0] = maker->make(plain);
		assert_non_null(object[0]);
		assert_int_equal(maker->undo(object[0]), 0);
		assert_int_equal(maker->undo(object[1]), 0);
	}
	sim_set("max_objects", max);
}

static void depth_is_limited(void **state)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = plain->cq,
		.recv_cq = plain->cq,
		.cap = { .max_send_wr = 65, .max_recv_wr = 1,
			 .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_UD,
	};
	const unsigned int cqe = sim_get("max_cqe"), wr = sim_get("max_wr");
	/* mlx5 asks for one less than a power of two. */
	const unsigned int max = plain->mlx5 ? 63 : 64;
	struct ibv_cq *cq;

	if (!kit_has_rings(plain)) {
		print_message("# rings of ibv_create_cq() are private\n");
		skip();
	}
	sim_set("max_cqe", max);
	cq = ibv_create_cq(plain->context, max, NULL, NULL, 0);
	assert_non_null(cq);
	assert_int_equal(cq->cqe, max);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	errno = 0;
	assert_null(ibv_create_cq(plain->context, max + 1, NULL, NULL, 0));
	assert_int_equal(errno, EINVAL);
	sim_set("max_cqe", cqe);

	sim_set("max_wr", 64);
	errno = 0;
	assert_null(ibv_create_qp(plain->pd, &attr));
	assert_int_equal(errno, EINVAL);
	sim_set("max_wr", wr);
}

static void device_says_what_it_is(void **state)
{
	struct ibv_device_attr_ex attr = {};
	struct ibv_port_attr port;
	union ibv_gid gid;
	__be16 pkey;

	assert_int_equal(ibv_query_device_ex(plain->context, NULL, &attr), 0);
	assert_int_equal(!!(attr.device_cap_flags_ex &
			    IBV_DEVICE_CC_DMA_BOUNCE), plain->bounce);
	assert_int_equal(attr.orig_attr.max_cq, sim_get("max_objects"));
	assert_int_equal(!!(attr.orig_attr.device_cap_flags & IBV_DEVICE_XRC),
			 plain->mlx5);
	assert_int_equal(attr.orig_attr.max_srq > 0, plain->mlx5);
	assert_int_equal(ibv_query_port(plain->context, PORT, &port), 0);
	assert_int_equal(port.state, IBV_PORT_ACTIVE);
	assert_int_equal(ibv_query_gid(plain->context, PORT, 0, &gid), 0);
	assert_int_not_equal(gid.global.interface_id, 0);
	assert_int_equal(ibv_query_pkey(plain->context, PORT, 0, &pkey), 0);
	assert_int_equal(ibv_query_port(plain->context, PORT + 1, &port),
			 EINVAL);
}

static void go(struct ibv_qp *qp, enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr attr = {
		.qp_state = to,
		.port_num = PORT,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qp->qp_num,
		.max_dest_rd_atomic = 1,
		.max_rd_atomic = 1,
		.ah_attr = { .dlid = 1, .port_num = PORT },
	};
	struct ibv_qp_init_attr init;

	assert_int_equal(ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE), 0);
	memset(&attr, 0xff, sizeof(attr));
	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, to);
	assert_int_equal(qp->state, to);
}

static void walk(const struct kit *kit, const char *name, int init, int rtr,
		 int rts)
{
	const struct maker *maker = kit_makers(kit);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	struct ibv_qp *qp;

	while (strcmp(maker->name, name))
		maker++;
	qp = maker->make(kit);
	assert_non_null(qp);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN),
			 EINVAL);
	go(qp, IBV_QPS_INIT, init);
	go(qp, IBV_QPS_RTR, rtr);
	go(qp, IBV_QPS_RTS, rts);
	go(qp, IBV_QPS_ERR, 0);
	go(qp, IBV_QPS_RESET, 0);
	assert_int_equal(maker->undo(qp), 0);
}

static void queue_pairs_change_state(void **state)
{
	const int rc_init = IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			    IBV_QP_ACCESS_FLAGS;
	const int rc_rtr = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			   IBV_QP_MIN_RNR_TIMER;
	const int rc_rts = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			   IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			   IBV_QP_MAX_QP_RD_ATOMIC;
	const int ud_init = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
	const struct kit *kit = ringed();

	if (!kit)
		skip();
	walk(kit, "UD QP", ud_init, 0, IBV_QP_SQ_PSN);
	if (!kit->mlx5) {
		walk(kit, "SRD QP", ud_init, 0, IBV_QP_SQ_PSN);
		return;
	}
	walk(kit, "RC QP", rc_init, rc_rtr, rc_rts);
	walk(kit, "RC QP with SRQ", rc_init, rc_rtr, rc_rts);
	walk(kit, "UC QP", rc_init, IBV_QP_AV | IBV_QP_PATH_MTU |
	     IBV_QP_DEST_QPN | IBV_QP_RQ_PSN, IBV_QP_SQ_PSN);
	walk(kit, "raw packet QP", IBV_QP_PORT, 0, 0);
}

static void srq_tells_and_takes_its_limit(void **state)
{
	struct ibv_srq_attr attr = { .srq_limit = 10 };
	const struct kit *kit = ringed();

	if (!kit)
		skip();
	if (!kit->srq) {
		print_message("# efa has no shared receive queues\n");
		skip();
	}
	assert_int_equal(ibv_modify_srq(kit->srq, &attr, IBV_SRQ_LIMIT), 0);
	memset(&attr, 0, sizeof(attr));
	assert_int_equal(ibv_query_srq(kit->srq, &attr), 0);
	assert_int_equal(attr.srq_limit, 10);
	assert_true(attr.max_wr >= 100);
	attr.srq_limit = attr.max_wr + 1;
	assert_int_equal(ibv_modify_srq(kit->srq, &attr, IBV_SRQ_LIMIT),
			 EINVAL);
	attr.max_wr = 10;
	assert_int_equal(ibv_modify_srq(kit->srq, &attr, IBV_SRQ_MAX_WR),
			 EINVAL);
}

static void completion_queue_is_armed_and_empty(void **state)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;

	if (!kit_has_rings(plain)) {
		print_message("# rings of ibv_create_cq() are private\n");
		skip();
	}
	cq = ibv_create_cq(plain->context, 10, NULL, plain->channel, 0);
	assert_non_null(cq);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void resize_is_by_address(void **state)
{
	struct ibv_cq *cq;
	uint64_t bytes;

	if (!kit_has_rings(plain)) {
		print_message("# rings of ibv_create_cq() are private\n");
		skip();
	}
	cq = ibv_create_cq(plain->context, 10, NULL, NULL, 0);
	assert_non_null(cq);
	bytes = sim_bytes("cq");
	if (plain->mlx5) {
		assert_int_equal(ibv_resize_cq(cq, 1000), 0);
		assert_int_equal(cq->cqe, 1023);
		assert_int_equal(sim_bytes("cq") - bytes, (1024 - 16) * 64);
		sim_fail("buf", 1, ENOSPC);
		assert_int_equal(ibv_resize_cq(cq, 10), ENOSPC);
		assert_int_equal(cq->cqe, 1023);
		assert_int_equal(ibv_resize_cq(cq, 10), 0);
		assert_int_equal(sim_bytes("cq"), bytes);
	} else {
		assert_int_equal(ibv_resize_cq(cq, 1000), EOPNOTSUPP);
	}
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* Keys come back late: a stale one leads nowhere. */
static void key_ends_with_its_mr(void **state)
{
	uint32_t key[3];
	struct ibv_mr *mr;
	char byte;
	int i;

	for (i = 0; i < 3; i++) {
		mr = ibv_reg_dmabuf_mr(plain->base, 0, 4096, 0, plain->fd, 0);
		assert_non_null(mr);
		key[i] = mr->lkey;
		assert_int_equal(sim_read(key[i], 0, &byte, 1), 0);
		assert_int_equal(ibv_dereg_mr(mr), 0);
		assert_int_equal(sim_read(key[i], 0, &byte, 1), ENOENT);
	}
	assert_true(key[0] != key[1] && key[1] != key[2] && key[0] != key[2]);
}

static void device_keeps_to_the_rights(void **state)
{
	struct ibv_mr *mr;
	char byte = 1;

	mr = ibv_reg_dmabuf_mr(plain->base, 0, 4096, 0, plain->fd, 0);
	assert_non_null(mr);
	assert_int_equal(sim_read(mr->lkey, 7, &byte, 1), 0);
	assert_int_equal(sim_write(mr->lkey, 7, &byte, 1), EACCES);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	errno = 0;
	assert_null(ibv_reg_dmabuf_mr(plain->base, 0, 4096, 0, plain->fd,
				      IBV_ACCESS_REMOTE_WRITE));
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_null(ibv_reg_mr(plain->base, plain->mem, 4096,
			       IBV_ACCESS_ON_DEMAND));
	assert_int_equal(errno, EOPNOTSUPP);
}

static void registration_changes(void **state)
{
	struct ibv_mr *mr;
	struct ibv_pd *pd;
	uint32_t key;
	char byte;

	mr = ibv_reg_dmabuf_mr(plain->base, 0, 4096, 0, plain->fd, 0);
	assert_non_null(mr);
	assert_int_not_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL,
					  NULL, 0, IBV_ACCESS_LOCAL_WRITE), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	if (plain->bounce) {
		print_message("# shared memory is registered once\n");
		skip();
	}

	memset(plain->mem, 'a', 4096);
	memset(plain->mem + 4096, 'b', 4096);
	mr = ibv_reg_mr(plain->base, plain->mem, 4096, 0);
	assert_non_null(mr);
	key = mr->lkey;
	if (!plain->mlx5) {
		assert_int_not_equal(ibv_rereg_mr(mr,
				IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
				plain->mem + 4096, 4096, 0), 0);
		assert_int_equal(ibv_dereg_mr(mr), 0);
		return;
	}

	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
				      plain->mem + 4096, 4096, 0), 0);
	assert_int_not_equal(mr->lkey, key);
	assert_int_equal(sim_read(key, (uintptr_t)plain->mem, &byte, 1),
			 ENOENT);
	assert_int_equal(sim_read(mr->lkey, (uintptr_t)plain->mem + 4096,
				  &byte, 1), 0);
	assert_int_equal(byte, 'b');

	key = mr->lkey;
	pd = ibv_alloc_pd(plain->context);
	assert_non_null(pd);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0,
				      0), 0);
	assert_int_equal(mr->lkey, key);
	assert_int_not_equal(ibv_dealloc_pd(pd), 0);
	assert_int_not_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL,
					  NULL, 0, IBV_ACCESS_LOCAL_WRITE), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* What the device gave nobody to map is not there. */
static void foreign_offset_maps_nothing(void **state)
{
	const size_t page = mem_whole(1);
	/* In pages: beyond the doorbells of mlx5, and other things it has */
	const off_t offsets[] = { 0xff, 1 << 8, 4 << 8, 7 << 8 };
	struct ibv_context *other = sim_open();
	size_t i;

	assert_non_null(other);
	for (i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		errno = 0;
		assert_ptr_equal(mmap(NULL, page, PROT_READ, MAP_SHARED,
				      other->cmd_fd, offsets[i] * page),
				 MAP_FAILED);
		assert_int_equal(errno, EINVAL);
	}
	errno = 0;
	assert_ptr_equal(mmap(NULL, 2 * page, PROT_READ, MAP_SHARED,
			      other->cmd_fd, 0), MAP_FAILED);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_close_device(other), 0);
}

static int setup(void **state)
{
	int err;

	if (!sim_is_there()) {
		print_message("# the guest has no test device\n");
		return -1;
	}
	err = kit_open(plain, false);
	if (err) {
		print_message("# no kit: %s\n", strerror(err));
		return -1;
	}
	n_kits = 1;
	err = kit_open(&kits[1], true);
	if (!err)
		n_kits = 2;
	else
		print_message("# no shared memory for objects: %s\n",
			      strerror(err));
	return 0;
}

static int teardown(void **state)
{
	int err = 0;

	while (n_kits)
		err |= kit_close(&kits[--n_kits]);
	return err || !sim_is_empty() || sim_heap().pieces;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(device_says_what_it_is),
		cmocka_unit_test(each_object_comes_and_goes),
		cmocka_unit_test(private_memory_is_refused),
		cmocka_unit_test(other_dmabuf_is_private),
		cmocka_unit_test(making_fails_on_demand),
		cmocka_unit_test(opening_fails_on_demand),
		cmocka_unit_test(number_is_limited),
		cmocka_unit_test(depth_is_limited),
		cmocka_unit_test(queue_pairs_change_state),
		cmocka_unit_test(srq_tells_and_takes_its_limit),
		cmocka_unit_test(completion_queue_is_armed_and_empty),
		cmocka_unit_test(resize_is_by_address),
		cmocka_unit_test(key_ends_with_its_mr),
		cmocka_unit_test(device_keeps_to_the_rights),
		cmocka_unit_test(registration_changes),
		cmocka_unit_test(foreign_offset_maps_nothing),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
