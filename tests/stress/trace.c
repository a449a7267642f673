// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A child process under ptrace. See trace.h.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trace.h"

#define OPTIONS (PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL)

/* What crashes is to end, and not to go on as a test. */
static void forget_handlers(void)
{
	int i;

	for (i = 1; i < SIGRTMIN; i++)
		signal(i, SIG_DFL);
}

int trace_start(struct trace *trace, int (*prepare)(void), int (*run)(void))
{
	memset(trace, 0, sizeof(*trace));
	trace->pid = fork();
	if (trace->pid < 0)
		return errno;

	if (!trace->pid) {
		forget_handlers();
		if (prepare() || ptrace(PTRACE_TRACEME, 0, NULL, NULL))
			_exit(125);
		raise(SIGSTOP);
		_exit(run());
	}

	if (waitpid(trace->pid, &trace->status, 0) != trace->pid)
		return errno;
	if (!WIFSTOPPED(trace->status))
		return ECHILD;
	if (ptrace(PTRACE_SETOPTIONS, trace->pid, NULL, OPTIONS))
		return errno;
	return 0;
}

/* After a call that has no result, as exit_group(), it ends. */
static void read_stop(struct trace *trace)
{
	struct __ptrace_syscall_info info = {};

	ptrace(PTRACE_GET_SYSCALL_INFO, trace->pid, sizeof(info), &info);
	trace->entered = info.op == PTRACE_SYSCALL_INFO_ENTRY;
	if (trace->entered) {
		trace->call = info.entry.nr;
		memcpy(trace->args, info.entry.args, sizeof(trace->args));
	} else {
		trace->result = info.exit.rval;
	}
}

bool trace_next(struct trace *trace)
{
	for (;;) {
		if (ptrace(PTRACE_SYSCALL, trace->pid, NULL, trace->signal) &&
		    errno != ESRCH)
			return false;
		trace->signal = 0;
		if (waitpid(trace->pid, &trace->status, 0) != trace->pid ||
		    !WIFSTOPPED(trace->status))
			return false;
		if (WSTOPSIG(trace->status) == (SIGTRAP | 0x80)) {
			read_stop(trace);
			return true;
		}
		trace->signal = WSTOPSIG(trace->status);
	}
}

void trace_kill(struct trace *trace)
{
	kill(trace->pid, SIGKILL);
	while (waitpid(trace->pid, &trace->status, 0) == trace->pid &&
	       WIFSTOPPED(trace->status))
		;
}

bool trace_string(const struct trace *trace, uint64_t addr, char *text,
		  size_t size)
{
	struct iovec to = { text, size };
	struct iovec from = { (void *)(uintptr_t)addr, size };
	ssize_t n;

	/* Up to the end of the page, if what follows it is not there */
	n = process_vm_readv(trace->pid, &to, 1, &from, 1, 0);
	if (n < 0) {
		to.iov_len = from.iov_len = 4096 - addr % 4096;
		if (to.iov_len > size)
			return false;
		n = process_vm_readv(trace->pid, &to, 1, &from, 1, 0);
	}
	return n > 0 && memchr(text, 0, n);
}
