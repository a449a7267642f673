// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Buffers and fork(), with fork support asked for in time. Where the kernel
 * copies on fork there is nothing to do; elsewhere the whole mapping of a
 * buffer stays out of children (MADV_DONTFORK, "dc") from its allocation to its
 * end, whatever is registered meanwhile. Without fork support: fork_late.c.
 *
 * The shared memory of a device that bounces is no copy in children, but the
 * same: nothing is to be done for it either, on the kernels that such a device
 * takes.
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
#include <unistd.h>

#include <cmocka.h>

#include "mem.h"
#include "rdma.h"
#include "store.h"

/* How a child ends that touched what it does not have */
#define EXIT_FAULT 99

static struct rdma rdma;
static struct mem_list before, after;
static size_t page;

static const size_t sizes[] = {
	1, 4096, 4097, MIB, 2 * MIB, 3 * MIB, 5 * MIB + 1,
};

/* Bytes that are kept out of children, buffers that were freed aside */
static size_t count_marked(void)
{
	store_empty(rdma.pd);
	return mem_bytes_flagged("dc");
}

static void *alloc(size_t size, struct ibv_buf **buf)
{
	void *mem = ibv_alloc_buf(rdma.pd, size, buf);

	assert_non_null(mem);
	return mem;
}

static struct ibv_mr *reg(struct ibv_buf *buf, void *addr, size_t length)
{
	struct ibv_mr *mr;

	mr = ibv_reg_buf_mr(rdma.pd, buf, addr, length, RDMA_REMOTE);
	assert_non_null(mr);
	return mr;
}

static void dereg(struct ibv_mr *mr)
{
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void fault(int sig)
{
	(void)sig;
	_exit(EXIT_FAULT);
}

/* A child that does one thing; its exit status, or -1 */
static int in_child(int (*act)(volatile char *mem), volatile char *mem)
{
	int status;
	pid_t pid;

	pid = fork();
	if (!pid) {
		signal(SIGSEGV, fault);
		_exit(act(mem));
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

static int child_reads(volatile char *mem)
{
	return mem[0] == 'p' ? 0 : 1;
}

static int child_writes(volatile char *mem)
{
	mem[0] = 'c';
	return mem[0] == 'c' ? 0 : 1;
}

static void assert_seen_in_child(char *mem, size_t size, int want, char after)
{
	const size_t at[] = { 0, size / 2, size - 1 };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(at); i++) {
		mem[at[i]] = 'p';
		assert_int_equal(in_child(child_reads, mem + at[i]), want);
		assert_int_equal(in_child(child_writes, mem + at[i]), want);
		assert_int_equal(mem[at[i]], after);
	}
}

/* Every page of the range is, or no page is, in a child. */
static void assert_in_child(char *mem, size_t size, bool there)
{
	assert_seen_in_child(mem, size, there ? 0 : EXIT_FAULT, 'p');
}

/* The same of a buffer that is there: a copy, but for shared memory */
static void assert_buf_in_child(char *mem, size_t size)
{
	assert_seen_in_child(mem, size, 0, rdma.bounces ? 'c' : 'p');
}

/* A page of our own right before or right after the buffer, or NULL */
static char *neighbour(char *mem, size_t size, bool behind)
{
	char *at = behind ? mem + mem_whole(size) : mem - page;

	return mem_take(at) ? at : NULL;
}

static void give_up(char *neighbour)
{
	if (neighbour)
		munmap(neighbour, page);
}

/* Buffers that fill a gap between other mappings, for a while */
static struct {
	struct ibv_buf *buf[16];
	size_t n;
} cramped;

static void free_cramped(void)
{
	while (cramped.n)
		ibv_free_buf(cramped.buf[--cramped.n]);
	store_empty(rdma.pd);
}

/*
 * A buffer with a page of ours before it, next[0], or behind it, next[1]; either
 * may be NULL, not both. Those without room for a page are in the way of later
 * ones until free_cramped().
 */
static char *alloc_beside(size_t size, struct ibv_buf **buf, char *next[2])
{
	char *mem;

	for (;;) {
		mem = alloc(size, buf);
		next[0] = neighbour(mem, size, false);
		next[1] = neighbour(mem, size, true);
		if (next[0] || next[1])
			return mem;
		assert_true(cramped.n < ARRAY_SIZE(cramped.buf));
		cramped.buf[cramped.n++] = *buf;
	}
}

/*
 * Traffic. A receive that is posted in one round is met in the next, so that
 * memory is in the hands of the device while the process forks.
 */
struct traffic {
	struct pair pair;
	struct ibv_buf *buf[2];
	char *mem[2];
	char *next[2][2];
	struct ibv_mr *mr[2];
	uint32_t round;
};

#define TRAFFIC_SIZE ((size_t)20000)

static void traffic_await(struct traffic *t)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)t->mr[1]->addr,
		.length = TRAFFIC_SIZE,
		.lkey = t->mr[1]->lkey,
	};

	assert_int_equal(rdma_recv(t->pair.qp[1], &sge, 1), 0);
}

static void traffic_open(struct traffic *t, size_t size)
{
	int i;

	memset(t, 0, sizeof(*t));
	assert_int_equal(pair_open(&t->pair, &rdma), 0);
	for (i = 0; i < 2; i++) {
		t->mem[i] = alloc_beside(size, &t->buf[i], t->next[i]);
		t->mr[i] = reg(t->buf[i], t->mem[i], TRAFFIC_SIZE);
	}
	free_cramped();
	traffic_await(t);
}

static void traffic_done(struct traffic *t, int end)
{
	struct ibv_wc wc;

	assert_int_equal(rdma_wait(t->pair.cq[end], &wc), 0);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

static void traffic_ask(struct traffic *t, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)t->mr[0]->addr,
		.length = TRAFFIC_SIZE,
		.lkey = t->mr[0]->lkey,
	};

	assert_int_equal(rdma_send(t->pair.qp[0], opcode, &sge, 1,
				   (uintptr_t)t->mr[1]->addr, t->mr[1]->rkey),
			 0);
	traffic_done(t, 0);
}

static void traffic_round(struct traffic *t)
{
	uint32_t seed = 10 * t->round++;

	mem_fill(t->mem[0], TRAFFIC_SIZE, seed);
	traffic_ask(t, IBV_WR_SEND);
	traffic_done(t, 1);
	assert_true(mem_is_filled(t->mem[1], TRAFFIC_SIZE, seed));
	traffic_await(t);

	mem_fill(t->mem[0], TRAFFIC_SIZE, seed + 1);
	traffic_ask(t, IBV_WR_RDMA_WRITE);
	assert_true(mem_is_filled(t->mem[1], TRAFFIC_SIZE, seed + 1));

	mem_fill(t->mem[1], TRAFFIC_SIZE, seed + 2);
	traffic_ask(t, IBV_WR_RDMA_READ);
	assert_true(mem_is_filled(t->mem[0], TRAFFIC_SIZE, seed + 2));
}

static void traffic_close(struct traffic *t)
{
	int i;

	pair_close(&t->pair);
	for (i = 0; i < 2; i++) {
		dereg(t->mr[i]);
		give_up(t->next[i][0]);
		give_up(t->next[i][1]);
		ibv_free_buf(t->buf[i]);
	}
}

/*
 * A child that writes again and again until it is killed: to all of the given
 * places, of which any may be NULL. It has written once when this returns.
 */
static pid_t writer_start(char *const place[], size_t places)
{
	int ready[2];
	pid_t pid;
	size_t i;
	char c;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		signal(SIGSEGV, fault);
		for (c = 1;; c ^= 3) {
			for (i = 0; i < places; i++)
				if (place[i])
					memset(place[i], c, page);
			if (ready[1] >= 0 && write(ready[1], &c, 1) == 1) {
				close(ready[1]);
				ready[1] = -1;
			}
			usleep(100);
		}
	}
	close(ready[1]);
	assert_int_not_equal(pid, -1);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return pid;
}

static void writer_stop(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void traffic_over_fork(size_t size)
{
	bool copies = ibv_is_fork_initialized() == IBV_FORK_UNNEEDED;
	struct traffic t;
	char *place[6];
	int round, i;
	pid_t pid;

	traffic_open(&t, size);
	for (i = 0; i < 2; i++) {
		place[3 * i] = t.next[i][0];
		place[3 * i + 1] = t.next[i][1];
		place[3 * i + 2] = copies ? t.mem[i] : NULL;
	}
	traffic_round(&t);
	pid = writer_start(place, ARRAY_SIZE(place));
	for (round = 0; round < 20; round++)
		traffic_round(&t);
	writer_stop(pid);
	traffic_round(&t);

	/* Nor did the child write to pages of ours. */
	for (i = 0; i < 2; i++) {
		if (place[3 * i])
			assert_true(mem_is_zero(place[3 * i], page));
		if (place[3 * i + 1])
			assert_true(mem_is_zero(place[3 * i + 1], page));
	}
	traffic_close(&t);
}

static void traffic_while_a_child_writes(void **state)
{
	(void)state;
	traffic_over_fork(TRAFFIC_SIZE);
	traffic_over_fork(3 * MIB);
}

/* The memory of the application beside a buffer is as ever for a child. */
static void neighbours_are_in_children(void **state)
{
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	char *mem, *next[2];
	size_t i, side;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		mem = alloc_beside(sizes[i], &buf, next);
		free_cramped();
		for (side = 0; side < 2; side++) {
			if (!next[side])
				continue;
			assert_in_child(next[side], page, true);
			mr = reg(buf, mem, sizes[i]);
			assert_in_child(next[side], page, true);
			dereg(mr);
			assert_in_child(next[side], page, true);
			give_up(next[side]);
		}
		ibv_free_buf(buf);
	}
}

/* Kernels that copy on fork */

static void nothing_is_marked(void **state)
{
	size_t i, marked = count_marked();
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	char *mem;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		mem = alloc(sizes[i], &buf);
		assert_int_equal(count_marked(), marked);
		mr = reg(buf, mem, sizes[i]);
		assert_int_equal(count_marked(), marked);
		assert_buf_in_child(mem, sizes[i]);
		dereg(mr);
		assert_buf_in_child(mem, sizes[i]);
		ibv_free_buf(buf);
		assert_int_equal(count_marked(), marked);
	}
}

/* Kernels that do not */

/* The buffer, whole, and nothing else was marked since there were so many. */
static void assert_marked(char *mem, size_t size, size_t marked)
{
	size_t more = mem_bytes_flagged("dc") - marked;

	assert_in_range(more, mem_whole(size), mem_whole(size) + mem_huge());
	assert_true(mem_all_flagged(mem, more, "dc"));
}

static void marked_from_start_to_end(void **state)
{
	size_t i, marked = count_marked();
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	char *mem;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		mem = alloc(sizes[i], &buf);
		assert_marked(mem, sizes[i], marked);
		assert_in_child(mem, sizes[i], false);
		mr = reg(buf, mem, sizes[i]);
		assert_marked(mem, sizes[i], marked);
		assert_in_child(mem, sizes[i], false);
		dereg(mr);
		assert_marked(mem, sizes[i], marked);
		assert_in_child(mem, sizes[i], false);
		ibv_free_buf(buf);
		assert_int_equal(count_marked(), marked);
	}
}

static void many_registrations_split_nothing(void **state)
{
	enum { MRS = 2000 };
	const size_t size = 4 * MIB;
	size_t i, n, at, maps, marked = count_marked();
	static struct ibv_mr *mr[MRS];
	struct ibv_buf *buf;
	char *mem;

	(void)state;
	mem = alloc(size, &buf);
	/* Touched now, so that no page table is built meanwhile. */
	memset(mem, 0, size);
	maps = mem_maps();
	for (n = 0; n < 2; n++) {
		for (i = 0; i < MRS; i++) {
			at = i * 2087 % (size - 5000);
			mr[i] = reg(buf, mem + at, 1 + i % 5000);
		}
		assert_int_equal(mem_maps(), maps);
		assert_marked(mem, size, marked);
		for (i = n; i < MRS; i += 2)
			dereg(mr[i]);
		assert_int_equal(mem_maps(), maps);
		assert_marked(mem, size, marked);
		for (i = !n; i < MRS; i += 2)
			dereg(mr[i]);
		assert_int_equal(mem_maps(), maps);
		assert_marked(mem, size, marked);
	}
	assert_in_child(mem, size, false);
	ibv_free_buf(buf);
	assert_int_equal(count_marked(), marked);
}

static void failed_registrations_leave_the_mark(void **state)
{
	const unsigned int refused = IBV_ACCESS_REMOTE_WRITE;
	size_t size = 3 * MIB, marked = count_marked();
	struct ibv_buf *buf;
	char *mem;

	(void)state;
	mem = alloc(size, &buf);
	assert_null(ibv_reg_buf_mr(rdma.pd, buf, mem, size, refused));
	assert_marked(mem, size, marked);
	assert_null(ibv_reg_buf_mr(rdma.pd, buf, mem + 5000, 5000, refused));
	assert_marked(mem, size, marked);
	assert_null(ibv_reg_mr(rdma.pd, mem, size, refused));
	assert_marked(mem, size, marked);
	assert_null(ibv_reg_mr(rdma.pd, mem + 5000, 5000, refused));
	assert_marked(mem, size, marked);
	ibv_free_buf(buf);
	assert_int_equal(count_marked(), marked);
}

/* A plain ibv_reg_mr of memory that happens to be a buffer's, in any order */
static void plain_registrations_leave_the_mark(void **state)
{
	size_t size = 3 * MIB, marked = count_marked();
	struct ibv_mr *by_addr, *by_buf;
	struct ibv_buf *buf;
	size_t at, n;
	char *mem;

	(void)state;
	mem = alloc(size, &buf);
	for (n = 0; n < 4; n++) {
		at = n & 1 ? 5000 : 0;
		by_addr = ibv_reg_mr(rdma.pd, mem + at, size - 2 * at,
				     IBV_ACCESS_LOCAL_WRITE);
		assert_non_null(by_addr);
		assert_marked(mem, size, marked);
		by_buf = reg(buf, mem + 100000, 100000);
		dereg(n & 2 ? by_buf : by_addr);
		assert_marked(mem, size, marked);
		dereg(n & 2 ? by_addr : by_buf);
		assert_marked(mem, size, marked);
	}
	assert_in_child(mem, size, false);
	ibv_free_buf(buf);
	assert_int_equal(count_marked(), marked);
}

/* One MR over a page of a buffer and the page beside it */
static void plain_registration_across_the_end(void **state)
{
	size_t size = 64 * KIB, marked = count_marked();
	char *mem, *next[2], *start;
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	size_t side;

	(void)state;
	mem = alloc_beside(size, &buf, next);
	free_cramped();
	for (side = 0; side < 2; side++) {
		if (!next[side])
			continue;
		start = side ? next[side] - page : next[side];
		mr = ibv_reg_mr(rdma.pd, start, 2 * page,
				IBV_ACCESS_LOCAL_WRITE);
		assert_non_null(mr);
		assert_true(mem_all_flagged(next[side], page, "dc"));
		assert_true(mem_all_flagged(mem, size, "dc"));
		dereg(mr);
		assert_false(mem_any_flagged(next[side], page, "dc"));
		assert_marked(mem, size, marked);
		give_up(next[side]);
	}
	ibv_free_buf(buf);
	assert_int_equal(count_marked(), marked);
}

/* rxe refuses; what the library does before and after must even out. */
static void rereg_leaves_the_mark(void **state)
{
	static const int flags[] = {
		IBV_REREG_MR_CHANGE_ACCESS,
		IBV_REREG_MR_CHANGE_TRANSLATION,
		IBV_REREG_MR_CHANGE_ACCESS | IBV_REREG_MR_CHANGE_TRANSLATION,
	};
	size_t size = 3 * MIB, i, marked = count_marked();
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	char *mem, *plain;
	int access;

	(void)state;
	mem = alloc(size, &buf);
	plain = mmap(NULL, page, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(plain, MAP_FAILED);
	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		access = flags[i] & IBV_REREG_MR_CHANGE_ACCESS ? RDMA_REMOTE :
								 0;
		mr = reg(buf, mem + 5000, 5000);
		ibv_rereg_mr(mr, flags[i], NULL, mem + 40000, 5000, access);
		assert_marked(mem, size, marked);
		ibv_rereg_mr(mr, flags[i], NULL, plain, page, access);
		assert_true(mem_all_flagged(mem, size, "dc"));
		dereg(mr);
		assert_marked(mem, size, marked);

		mr = ibv_reg_mr(rdma.pd, plain, page, IBV_ACCESS_LOCAL_WRITE);
		assert_non_null(mr);
		ibv_rereg_mr(mr, flags[i], NULL, mem, size, access);
		assert_true(mem_all_flagged(mem, size, "dc"));
		dereg(mr);
		assert_marked(mem, size, marked);
	}
	munmap(plain, page);
	ibv_free_buf(buf);
	assert_int_equal(count_marked(), marked);
}

/* Memory that comes to lie where a buffer was is treated as any other. */
static void free_forgets_the_place(void **state)
{
	size_t i, marked = count_marked();
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	char *mem;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		mem = alloc(sizes[i], &buf);
		dereg(reg(buf, mem, sizes[i]));
		ibv_free_buf(buf);
		store_empty(rdma.pd);

		assert_true(mem_take(mem));
		assert_int_equal(count_marked(), marked);
		assert_in_child(mem, page, true);
		mr = ibv_reg_mr(rdma.pd, mem, page, IBV_ACCESS_LOCAL_WRITE);
		assert_non_null(mr);
		assert_true(mem_all_flagged(mem, page, "dc"));
		assert_in_child(mem, page, false);
		dereg(mr);
		assert_int_equal(count_marked(), marked);
		assert_in_child(mem, page, true);
		munmap(mem, page);
	}
}

/*
 * What cannot be marked is refused, and what is not refused is marked, at every
 * number of mappings left. The small buffer gets a place beside a page of ours,
 * with which the kernel joins it, so that to mark it is to split a mapping.
 */
static void mappings_end(void **state)
{
	const size_t tried[] = { page, 3 * MIB };
	size_t i, n, refused = 0, got = 0, marked = count_marked();
	struct ibv_buf *const mark = (struct ibv_buf *)&rdma;
	struct mem_crowd crowd;
	struct ibv_buf *buf;
	char *mem, *next[2];

	(void)state;
	alloc_beside(page, &buf, next);
	ibv_free_buf(buf);
	store_empty(rdma.pd);
	mem_list_read(&before);
	assert_true(mem_crowd_start(&crowd));
	for (n = 0; n < 10; n++) {
		for (i = 0; i < ARRAY_SIZE(tried); i++) {
			buf = mark;
			errno = 0;
			mem = ibv_alloc_buf(rdma.pd, tried[i], &buf);
			if (mem) {
				got++;
				assert_int_equal(in_child(child_writes, mem),
						 EXIT_FAULT);
				ibv_free_buf(buf);
				store_empty(rdma.pd);
			} else {
				refused++;
				assert_int_equal(errno, ENOMEM);
				assert_ptr_equal(buf, mark);
			}
		}
		mem_crowd_yield(&crowd);
	}
	mem_crowd_end(&crowd);
	/* Both when nothing can be mapped, the small one when nothing splits */
	assert_true(refused >= 3);
	assert_true(got > 0);
	mem_list_read(&after);
	assert_true(mem_list_same(&before, &after));
	free_cramped();
	assert_int_equal(count_marked(), marked);
	give_up(next[0]);
	give_up(next[1]);
}

static int teardown(void **state)
{
	(void)state;
	rdma_close(&rdma);
	return 0;
}

int main(void)
{
	const struct CMUnitTest copied[] = {
		cmocka_unit_test(nothing_is_marked),
		cmocka_unit_test(neighbours_are_in_children),
		/* For devices that carry traffic */
		cmocka_unit_test(traffic_while_a_child_writes),
	};
	const struct CMUnitTest kept_out[] = {
		cmocka_unit_test(marked_from_start_to_end),
		cmocka_unit_test(neighbours_are_in_children),
		cmocka_unit_test(many_registrations_split_nothing),
		cmocka_unit_test(failed_registrations_leave_the_mark),
		cmocka_unit_test(plain_registrations_leave_the_mark),
		cmocka_unit_test(plain_registration_across_the_end),
		cmocka_unit_test(rereg_leaves_the_mark),
		cmocka_unit_test(free_forgets_the_place),
		cmocka_unit_test(traffic_while_a_child_writes),
		/* For the plain build alone */
		cmocka_unit_test(mappings_end),
	};
	const size_t n = ARRAY_SIZE(kept_out) - (MEM_SANITIZED ? 1 : 0);
	size_t n_copied = ARRAY_SIZE(copied);

	page = mem_whole(1);
	if (ibv_fork_init()) {
		fprintf(stderr, "# fork: ibv_fork_init failed\n");
		return 1;
	}
	if (rdma_open(&rdma))
		return 1;
	switch (ibv_is_fork_initialized()) {
	case IBV_FORK_UNNEEDED:
		if (!rdma.carries)
			n_copied--;
		return _cmocka_run_group_tests("copied", copied, n_copied,
					       NULL, teardown);
	case IBV_FORK_ENABLED:
		return _cmocka_run_group_tests("fork", kept_out, n, NULL,
					       teardown);
	default:
		fprintf(stderr, "# fork: support is on and off at once\n");
		return 1;
	}
}
