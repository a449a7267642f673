/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A child process under ptrace, from system call to system call.
 */
#ifndef TESTS_STRESS_TRACE_H
#define TESTS_STRESS_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct trace {
	pid_t pid;
	int signal;		/* to pass on when it goes on */
	bool entered;		/* stands before a call, else after it */
	uint64_t call;
	uint64_t args[6];
	int64_t result;		/* after it: of the call, or -errno */
	int status;		/* of waitpid(), when it has ended */
};

/*
 * Starts a child that calls prepare() untraced, then run(), with whose result
 * it exits. Stands before the first call of run(). 0 or an errno.
 */
int trace_start(struct trace *trace, int (*prepare)(void), int (*run)(void));

/* Goes on to the next stop before or after a call; false: it has ended. */
bool trace_next(struct trace *trace);

/* Kills it where it stands. */
void trace_kill(struct trace *trace);

/* The string at an address of the child; false if it is none. */
bool trace_string(const struct trace *trace, uint64_t addr, char *text,
		  size_t size);

#endif
