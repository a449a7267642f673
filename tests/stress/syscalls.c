// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The system calls of all that is done with buffers (script.h), each of them:
 * the process is killed after it, a signal comes in the midst of it, and what it
 * opens is looked at. IBV_BUF_BACKING chooses the memory, so one run tests one
 * word.
 *
 * usage: syscalls [long]
 *
 * With long, the process is killed from the opening of the device on.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../guest/mem.h"
#include "left.h"
#include "script.h"
#include "trace.h"

/* Fewer means that nothing was tested. */
#define MIN_CALLS 20
#define MAX_PATHS 64
#define MAX_PATH 1024
#define MAX_FDS 1024

/* -errno of a call that a signal ended, as a tracer sees it */
static bool is_interrupted(int64_t result)
{
	return result == -EINTR || (result <= -512 && result >= -516);
}

/* The child */
static struct rdma rdma;
static struct script script;
static size_t fds, maps;

static int nothing(void)
{
	return 0;
}

static int open_device(void)
{
	return rdma_open(&rdma) ? 1 : 0;
}

static int run(void)
{
	int err = script_run(&script, &rdma);

	return err == SCRIPT_WRONG ? 1 : err;
}

static int open_and_run(void)
{
	int err = open_device() ?: run();

	rdma_close(&rdma);
	return err;
}

static void on_signal(int signal)
{
}

/* Once before, so that it finds all that stays as it is. */
static int open_for_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal };

	if (sigaction(SIGUSR1, &action, NULL) || open_device() || run())
		return 1;
	fds = mem_fds();
	maps = mem_maps();
	return 0;
}

static int run_with_signals(void)
{
	int err = run();
	size_t now = mem_fds();

	if (now != fds) {
		fprintf(stderr, "# %zu descriptors, were %zu\n", now, fds);
		return 1;
	}
	now = mem_maps();
	if (now != maps) {
		fprintf(stderr, "# %zu mappings, were %zu\n", now, maps);
		return 1;
	}
	if (err)
		fprintf(stderr, "# %s: %s\n", script.step, strerror(err));
	return err;
}

/* The tests */
static bool is_long;

/* False if the child ended before */
static bool kill_after(unsigned int n)
{
	struct trace trace;
	int status;

	assert_int_equal(trace_start(&trace, is_long ? nothing : open_device,
				     is_long ? open_and_run : run), 0);
	while (n && trace_next(&trace))
		n -= !trace.entered;
	status = trace.status;
	if (n) {
		assert_int_equal(status, 0);
		return false;
	}
	trace_kill(&trace);
	assert_true(WIFSIGNALED(trace.status));
	return true;
}

static void killed_after_each_call(void **state)
{
	struct left before;
	unsigned int n;

	assert_true(left_read(&before));
	for (n = 1; kill_after(n); n++)
		if (!left_as(&before))
			fail_msg("left after call %u", n);
	assert_true(left_as(&before));
	assert_true(n > MIN_CALLS);
	print_message("# killed after each of %u calls\n", n - 1);
}

struct counts {
	unsigned int calls;
	unsigned int signals;
	unsigned int interrupted;	/* calls that a signal ended */
	unsigned int refused;		/* runs that told so */
};

/* A signal is pending when the n-th call begins; n 0: each. */
static void interrupt(unsigned int n, struct counts *counts)
{
	struct trace trace;
	bool sent = false;

	counts->calls = 0;
	assert_int_equal(trace_start(&trace, open_for_signals,
				     run_with_signals), 0);
	while (trace_next(&trace)) {
		if (!trace.entered) {
			counts->interrupted += sent &&
					       is_interrupted(trace.result);
			sent = false;
			continue;
		}
		/* The handler's return: for ever, if each had a signal */
		if (trace.call == SYS_rt_sigreturn ||
		    (n && ++counts->calls != n))
			continue;
		assert_int_equal(syscall(SYS_tgkill, trace.pid, trace.pid,
					 SIGUSR1), 0);
		counts->signals++;
		sent = true;
	}
	assert_true(WIFEXITED(trace.status));
	counts->refused += WEXITSTATUS(trace.status) == EINTR;
	if (WEXITSTATUS(trace.status) && WEXITSTATUS(trace.status) != EINTR)
		fail_msg("interrupted at call %u", n);
}

static void interrupted_at_each_call(void **state)
{
	struct counts counts = {};
	struct left before;
	unsigned int n = 0;

	assert_true(left_read(&before));
	do {
		interrupt(++n, &counts);
	} while (counts.calls >= n);
	assert_true(left_as(&before));
	assert_true(n > MIN_CALLS);
	print_message("# %u signals, %u calls ended by them, %u runs refused\n",
		      counts.signals, counts.interrupted, counts.refused);
}

static void interrupted_at_every_call(void **state)
{
	struct counts counts = {};
	struct left before;

	assert_true(left_read(&before));
	interrupt(0, &counts);
	assert_true(left_as(&before));
	assert_true(counts.signals > MIN_CALLS);
	print_message("# %u signals, %u calls ended by them, %u runs refused\n",
		      counts.signals, counts.interrupted, counts.refused);
}

/* flags of a descriptor of the child, -1 if it is not open */
static long flags_of(pid_t pid, const char *fd)
{
	char path[64], line[128];
	long flags = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%.16s", pid, fd);
	file = fopen(path, "re");
	if (!file)
		return -1;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "flags: %li", &flags) == 1)
			break;
	fclose(file);
	return flags;
}

/*
 * Descriptors that an exec() would pass on: all that the tests' runner gave are
 * there from the start, as known. Those seen are counted.
 */
static unsigned int inherited(pid_t pid, bool known[MAX_FDS], bool learn,
			      bool seen[MAX_FDS])
{
	unsigned int n = 0, number;
	struct dirent *entry;
	char path[64];
	long flags;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo", pid);
	dir = opendir(path);
	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		if (sscanf(entry->d_name, "%u", &number) != 1)
			continue;
		assert_true(number < MAX_FDS);
		if (learn)
			known[number] = true;
		if (known[number])
			continue;
		seen[number] = true;
		flags = flags_of(pid, entry->d_name);
		if (flags == -1 || flags & O_CLOEXEC)
			continue;
		print_message("# descriptor %u is inherited\n", number);
		n++;
	}
	closedir(dir);
	return n;
}

static void no_descriptor_is_ever_inherited(void **state)
{
	bool known[MAX_FDS] = {}, seen[MAX_FDS] = {};
	unsigned int calls = 0, bad = 0, n = 0, i;
	struct trace trace;

	assert_int_equal(trace_start(&trace, open_device, run), 0);
	inherited(trace.pid, known, true, seen);
	while (trace_next(&trace)) {
		if (trace.entered)
			continue;
		calls++;
		bad += inherited(trace.pid, known, false, seen);
	}
	assert_int_equal(trace.status, 0);
	assert_int_equal(bad, 0);
	for (i = 0; i < MAX_FDS; i++)
		n += seen[i];
	assert_true(n > 0);
	print_message("# %u calls, %u descriptors seen\n", calls, n);
}

/* Which argument of a call is a path, -1: none; the one before is a directory */
static int path_argument(uint64_t call)
{
	switch (call) {
	case SYS_open:
	case SYS_stat:
	case SYS_lstat:
	case SYS_access:
	case SYS_readlink:
	case SYS_statfs:
	case SYS_creat:
	case SYS_execve:
	case SYS_unlink:
	case SYS_mkdir:
	case SYS_rmdir:
	case SYS_rename:
	case SYS_link:
	case SYS_symlink:
	case SYS_mknod:
	case SYS_chmod:
	case SYS_chown:
	case SYS_truncate:
		return 0;
	case SYS_openat:
	case SYS_openat2:
	case SYS_newfstatat:
	case SYS_statx:
	case SYS_faccessat:
	case SYS_faccessat2:
	case SYS_readlinkat:
	case SYS_execveat:
	case SYS_unlinkat:
	case SYS_mkdirat:
	case SYS_renameat:
	case SYS_linkat:
	case SYS_mknodat:
		return 1;
	}
	return -1;
}

/* Calls that only look, or open what is there */
static bool may_have_path(const struct trace *trace)
{
	switch (trace->call) {
	case SYS_open:
		return !(trace->args[1] & (O_CREAT | O_TRUNC));
	case SYS_openat:
		return !(trace->args[2] & (O_CREAT | O_TRUNC));
	case SYS_stat:
	case SYS_newfstatat:
	case SYS_access:
	case SYS_readlink:
		return true;
	}
	return false;
}

/* Nobody but root can put another file at the path. */
static bool is_of_root_alone(const char *path)
{
	char part[MAX_PATH];
	struct stat st;
	char *end;

	if (*path != '/')
		return false;
	snprintf(part, sizeof(part), "%s", path);
	do {
		/* What is not there could be put into its directory. */
		if (!lstat(*part ? part : "/", &st) &&
		    (st.st_uid || (S_ISDIR(st.st_mode) &&
				   st.st_mode & (S_IWGRP | S_IWOTH))))
			return false;
		end = strrchr(part, '/');
		if (end)
			*end = '\0';
	} while (end);
	return true;
}

/* The path of the call; relative ones with the directory that they start at */
static void read_path(const struct trace *trace, int argument, char *path,
		      size_t size)
{
	char name[512], link[64], dir[512] = "";
	ssize_t n;

	assert_true(trace_string(trace, trace->args[argument], name,
				 sizeof(name)));
	if (*name != '/') {
		if (!argument || (int)trace->args[0] == AT_FDCWD)
			snprintf(link, sizeof(link), "/proc/%d/cwd",
				 trace->pid);
		else
			snprintf(link, sizeof(link), "/proc/%d/fd/%d",
				 trace->pid, (int)trace->args[0]);
		n = readlink(link, dir, sizeof(dir) - 1);
		assert_true(n > 0);
		dir[n] = '\0';
	}
	n = snprintf(path, size, "%s%s%s", dir, *dir && *name ? "/" : "", name);
	assert_true(n < size);
}

static void paths_are_of_root_alone(void **state)
{
	static char paths[MAX_PATHS][MAX_PATH];
	unsigned int n = 0, bad = 0, i;
	struct trace trace;
	char path[MAX_PATH];
	int argument;

	assert_int_equal(trace_start(&trace, open_device, run), 0);
	while (trace_next(&trace)) {
		argument = trace.entered ? path_argument(trace.call) : -1;
		if (argument < 0)
			continue;
		read_path(&trace, argument, path, sizeof(path));
		for (i = 0; i < n && strcmp(paths[i], path); i++)
			;
		if (i < n)
			continue;
		assert_true(n < MAX_PATHS);
		snprintf(paths[n++], MAX_PATH, "%s", path);
		if (may_have_path(&trace) && is_of_root_alone(path)) {
			print_message("# %s\n", path);
			continue;
		}
		print_message("# call %" PRIu64 " of %s\n", trace.call, path);
		bad++;
	}
	assert_int_equal(trace.status, 0);
	assert_int_equal(bad, 0);
	assert_true(n > 0);
}

/*
 * What a device takes to be known is not asked for in each child. On one CPU,
 * as tracer and child take turns: to wait for another one takes long where it
 * is emulated.
 */
static int setup(void **state)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		return -1;
	if (is_long)
		return 0;
	if (rdma_open(&rdma))
		return -1;
	rdma_close(&rdma);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(killed_after_each_call),
		cmocka_unit_test(interrupted_at_each_call),
		cmocka_unit_test(interrupted_at_every_call),
		cmocka_unit_test(no_descriptor_is_ever_inherited),
		cmocka_unit_test(paths_are_of_root_alone),
	};

	is_long = argc > 1 && !strcmp(argv[1], "long");
	return cmocka_run_group_tests(tests, setup, NULL);
}
