// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Nothing is left of a process that is killed, nor of a device that is
 * unplugged or whose module is unloaded while a process has everything that
 * can be had of it; and that process goes on. The process is a child each time:
 * libibverbs is set up once in a process, by its environment.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "mem.h"
#include "sim.h"
#include "sim_kit.h"

#define ROUNDS 12
#define MAX_OBJECTS 64

/* A check in a child, where there is no cmocka to report to */
#define CHECK(condition)                                                       \
	do {                                                                   \
		if (!(condition)) {                                            \
			fprintf(stderr, "# line %d: %s\n", __LINE__,           \
				#condition);                                   \
			_exit(1);                                              \
		}                                                              \
	} while (0)

/* With shared memory, where the provider has it for objects */
static void open_kit(struct kit *kit)
{
	CHECK(!kit_open(kit, true) || !kit_open(kit, false));
}

struct holding {
	const struct maker *maker[MAX_OBJECTS];
	void *object[MAX_OBJECTS];
	int n;
	struct ibv_buf *buf;
	struct ibv_mr *mr;
};

/* One of each, and a buffer with its MR if the pd has one that is reached */
static void hold_all(struct holding *all, const struct kit *kit)
{
	const struct maker *maker;
	void *object, *mem;

	memset(all, 0, sizeof(*all));
	for (maker = kit_makers(kit); maker->name; maker++) {
		object = maker_can(maker, kit) ? maker->make(kit) : NULL;
		if (!object)
			continue;	/* in memory that is not reached */
		CHECK(all->n < MAX_OBJECTS);
		all->maker[all->n] = maker;
		all->object[all->n++] = object;
	}
	mem = ibv_alloc_buf(kit->pd, MIB, &all->buf);
	CHECK(mem);
	all->mr = ibv_reg_buf_mr(kit->pd, all->buf, mem, MIB, 0);
	CHECK(all->mr || (kit->bounce && !kit->opted));
}

/* What verbs answer when the device is gone */
static bool is_gone(int err)
{
	return err == EIO || err == ENODEV;
}

/* With tolerant, the library takes what is gone for destroyed. */
static void end_all(struct holding *all, bool tolerant)
{
	int err, i;

	err = all->mr ? ibv_dereg_mr(all->mr) : 0;
	CHECK(!err || (!tolerant && is_gone(err)));
	if (!err)
		ibv_free_buf(all->buf);
	for (i = all->n - 1; i >= 0; i--) {
		err = all->maker[i]->undo(all->object[i]);
		CHECK(!err || (!tolerant && (is_gone(err) || err == EBUSY)));
	}
}

static bool is_told(int pipe)
{
	char byte;

	return read(pipe, &byte, 1) == 1;
}

static bool tell(int pipe)
{
	return write(pipe, "", 1) == 1;
}

/* Has all there is, and makes and ends it again until it is killed. */
static void make_until_killed(int to)
{
	struct holding held, all;
	struct kit kit[2];

	open_kit(&kit[0]);
	hold_all(&held, &kit[0]);
	CHECK(tell(to));
	for (;;) {
		open_kit(&kit[1]);
		hold_all(&all, &kit[1]);
		end_all(&all, false);
		CHECK(!kit_close(&kit[1]));
	}
}

static void killed_process_leaves_nothing(void **state)
{
	uint64_t total = sim_heap().total;
	unsigned int seed = time(NULL);
	struct timespec delay = {};
	int status, i, from[2];
	pid_t pid;

	print_message("# seed %u\n", seed);
	for (i = 0; i < ROUNDS; i++) {
		assert_int_equal(pipe(from), 0);
		pid = fork();
		assert_int_not_equal(pid, -1);
		if (!pid)
			make_until_killed(from[1]);
		close(from[1]);

		/* Every second has all there is before it is in the midst. */
		if (i % 2) {
			assert_true(is_told(from[0]));
			assert_true(sim_count("ucontext") > 0);
			assert_true(sim_bytes("mr") > 0);
		}
		delay.tv_nsec = rand_r(&seed) % 600000000;
		nanosleep(&delay, NULL);
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		close(from[0]);
		assert_true(sim_is_empty());
		assert_int_equal(sim_heap().pieces, 0);
		assert_int_equal(sim_heap().bytes, 0);
	}
	assert_true(sim_heap().total > total);
}

static void use_what_is_gone(const struct kit *kit, const struct holding *all)
{
	struct ibv_device_attr_ex device;
	struct ibv_port_attr port;
	const struct maker *maker;
	struct ibv_wc wc;
	int i;

	CHECK(is_gone(ibv_query_port(kit->context, 1, &port)));
	ibv_query_device_ex(kit->context, NULL, &device);
	for (maker = kit_makers(kit); maker->name; maker++) {
		/* Of the others the device never knew. */
		if (!maker->kind || !maker_can(maker, kit))
			continue;
		errno = 0;
		CHECK(!maker->make(kit));
		CHECK(is_gone(errno));
	}
	/* Rings and doorbells are still mapped. */
	if (kit->cq) {
		CHECK(!ibv_req_notify_cq(kit->cq, 0));
		CHECK(!ibv_poll_cq(kit->cq, 1, &wc));
	}
	for (i = 0; i < all->n; i++) {
		struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

		if (all->maker[i]->kind && !strcmp(all->maker[i]->kind, "qp"))
			CHECK(is_gone(ibv_modify_qp(all->object[i], &attr,
						    IBV_QP_STATE)));
	}
}

static void hold_while_it_goes(int from, int to, bool tolerant)
{
	struct holding all;
	struct kit kit;
	size_t fds;

	if (tolerant)
		setenv("RDMAV_ALLOW_DISASSOC_DESTROY", "1", 1);
	fds = mem_fds();
	open_kit(&kit);
	hold_all(&all, &kit);
	CHECK(tell(to));
	CHECK(is_told(from));

	use_what_is_gone(&kit, &all);
	end_all(&all, tolerant);
	if (tolerant) {
		CHECK(!kit_close(&kit));
		CHECK(mem_fds() == fds);
	} else {
		kit_close(&kit);
	}
	_exit(0);
}

/* A child has all there is while the device goes, and comes again. */
static void go_and_come(void (*go)(void), void (*come)(void), bool tolerant)
{
	int to[2], from[2], status;
	pid_t pid;

	assert_int_equal(pipe(to), 0);
	assert_int_equal(pipe(from), 0);
	pid = fork();
	assert_int_not_equal(pid, -1);
	if (!pid) {
		close(to[1]);
		close(from[0]);
		hold_while_it_goes(to[0], from[1], tolerant);
	}
	close(to[0]);
	close(from[1]);
	assert_true(is_told(from[0]));
	assert_true(sim_count("pd") > 0);
	assert_true(sim_count("mr") > 0);
	go();
	assert_false(sim_is_there());
	assert_true(tell(to[1]));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(sim_heap().pieces, 0);
	close(to[1]);
	close(from[0]);

	come();
	assert_true(sim_is_there());
	assert_true(sim_is_empty());
}

/* Once more in a new process, which finds the device as it was */
static void assert_works(void)
{
	struct holding all;
	struct kit kit;
	int status;
	pid_t pid;

	pid = fork();
	assert_int_not_equal(pid, -1);
	if (!pid) {
		open_kit(&kit);
		hold_all(&all, &kit);
		CHECK(sim_count("mr") > 0);
		end_all(&all, true);
		CHECK(!kit_close(&kit));
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(sim_is_empty());
	assert_int_equal(sim_heap().pieces, 0);
}

static void device_is_unplugged(void **state)
{
	go_and_come(sim_unbind, sim_bind, true);
	assert_works();
}

static void device_is_unplugged_and_nobody_expects_it(void **state)
{
	go_and_come(sim_unbind, sim_bind, false);
	assert_works();
}

static void unload(void)
{
	assert_int_equal(system("rmmod ibv_sim"), 0);
}

/* As the guest loaded it */
static void load(void)
{
	assert_int_equal(system(". /.guest/env && insmod "
				"\"$sim_dir\"/ibv_sim.ko personality=$sim"),
			 0);
}

static void module_is_unloaded(void **state)
{
	unload();
	assert_false(sim_is_there());
	load();
	assert_works();
}

static void module_is_unloaded_while_in_use(void **state)
{
	go_and_come(unload, load, true);
	assert_works();
}

static int setup(void **state)
{
	if (!sim_is_there()) {
		print_message("# the guest has no test device\n");
		return -1;
	}
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(killed_process_leaves_nothing),
		cmocka_unit_test(device_is_unplugged),
		cmocka_unit_test(device_is_unplugged_and_nobody_expects_it),
		cmocka_unit_test(module_is_unloaded),
		cmocka_unit_test(module_is_unloaded_while_in_use),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
