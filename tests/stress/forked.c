// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * fork() and exec() after each step of all that is done with buffers: a program
 * that is started then has no descriptor of the library's, and a child that
 * ends takes nothing with it of its parent's, neither in memory nor in the
 * kernel. What a child sees of the memory is the business of tests/guest/fork.c.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../guest/mem.h"
#include "left.h"
#include "script.h"

static struct rdma rdma;
static char inherited[16];	/* descriptors of a program from the start */
static unsigned int children;

static int status_of(pid_t pid)
{
	int status;

	assert_int_not_equal(pid, -1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	children++;
	return status;
}

/* This program again, which counts what it was given */
static void started_program_has_nothing(void)
{
	pid_t pid = fork();

	if (!pid) {
		execl("/proc/self/exe", "forked", inherited, NULL);
		_exit(9);
	}
	assert_int_equal(status_of(pid), 0);
}

/* With all that exit() does, the library's part too */
static void child_that_ends_takes_nothing(void)
{
	pid_t pid = fork();

	if (!pid)
		exit(0);
	assert_int_equal(status_of(pid), 0);
}

static bool is_kept(char *mem, size_t size, const void *what)
{
	return !what || mem_is_filled(mem, size, size);
}

static void after_step(struct script *script)
{
	struct left before;

	if (script->small)
		mem_fill(script->small_mem, SCRIPT_SMALL, SCRIPT_SMALL);
	if (script->big)
		mem_fill(script->big_mem, SCRIPT_SMALL, SCRIPT_SMALL);
	assert_true(left_read(&before));
	started_program_has_nothing();
	child_that_ends_takes_nothing();
	assert_true(left_as(&before));
	assert_true(is_kept(script->small_mem, SCRIPT_SMALL, script->small));
	assert_true(is_kept(script->big_mem, SCRIPT_SMALL, script->big));
}

static void fork_and_exec_after_each_step(void **state)
{
	struct script script = { .after_step = after_step };

	children = 0;
	assert_int_equal(script_run(&script, &rdma), 0);
	assert_true(children > 10);
	print_message("# %u children\n", children);
}

static int setup(void **state)
{
	snprintf(inherited, sizeof(inherited), "%zu", mem_fds());
	return rdma_open(&rdma);
}

static int teardown(void **state)
{
	rdma_close(&rdma);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fork_and_exec_after_each_step),
	};

	if (argc > 1)
		return mem_fds() != strtoul(argv[1], NULL, 10);
	return cmocka_run_group_tests(tests, setup, teardown);
}
