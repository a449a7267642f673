// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * IBV_BUF_BACKING: which backing is tried, among those that a provider names.
 * It is read once, so each case runs in a process of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stub.h"

/* No device has all of them. */
static const enum verbs_buf_backing all[] = {
	VERBS_BUF_ANON, VERBS_BUF_HUGE, VERBS_BUF_DMABUF, VERBS_BUF_END,
};

static const enum verbs_buf_backing anon[] = { VERBS_BUF_ANON, VERBS_BUF_END };

static const enum verbs_buf_backing shared[] = {
	VERBS_BUF_CC_SHARED, VERBS_BUF_END,
};

/*
 * Allocates 1 byte, too little for huge pages, in a child with that word.
 * Returns the backing, or minus the errno; stderr goes to *text.
 */
static int try_word(struct stub *stub, const char *word,
		    const enum verbs_buf_backing *list, char *text, size_t size)
{
	struct ibv_buf *buf;
	int status, pipe_fd[2];
	pid_t child;
	ssize_t n;

	assert_int_equal(pipe2(pipe_fd, O_CLOEXEC), 0);
	child = fork();
	assert_int_not_equal(child, -1);
	if (!child) {
		if (word)
			setenv("IBV_BUF_BACKING", word, 1);
		else
			unsetenv("IBV_BUF_BACKING");
		dup2(pipe_fd[1], STDERR_FILENO);
		if (!verbs_alloc_buf_from(&stub->pd, 1, list, &buf))
			_exit(errno);
		_exit(200 + buf->backing);
	}

	close(pipe_fd[1]);
	n = read(pipe_fd[0], text, size - 1);
	assert_true(n >= 0);
	text[n] = 0;
	close(pipe_fd[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	status = WEXITSTATUS(status);
	return status >= 200 ? status - 200 : -status;
}

static void assert_word(struct stub *stub, const char *word,
			const enum verbs_buf_backing *list, int result)
{
	char text[256];

	assert_int_equal(try_word(stub, word, list, text, sizeof(text)),
			 result);
	assert_string_equal(text, "");
}

static void default_is_anonymous(void **state)
{
	assert_word(*state, NULL, all, VERBS_BUF_ANON);
	assert_word(*state, "anon", all, VERBS_BUF_ANON);
}

static void huge_fails_rather_than_fall_back(void **state)
{
	assert_word(*state, "huge", all, -EOPNOTSUPP);
	assert_word(*state, "prefer_huge", all, VERBS_BUF_ANON);
}

static void word_picks_from_what_the_provider_names(void **state)
{
	assert_word(*state, "huge", anon, -EOPNOTSUPP);
	assert_word(*state, "dmabuf", anon, -EOPNOTSUPP);
	assert_word(*state, "prefer_huge", anon, VERBS_BUF_ANON);
	assert_word(*state, "prefer_dmabuf", anon, VERBS_BUF_ANON);
	assert_word(*state, "anon", all + 1, -EOPNOTSUPP);
}

static void nothing_overrides_shared_memory(void **state)
{
	static const char *const words[] = {
		NULL, "anon", "huge", "prefer_huge", "dmabuf", "prefer_dmabuf",
	};
	size_t i;

	if (!access("/dev/dma_heap/system_cc_shared", F_OK)) {
		print_message("# this machine has a shared heap\n");
		skip();
	}
	for (i = 0; i < sizeof(words) / sizeof(*words); i++)
		assert_word(*state, words[i], shared, -ENOENT);
}

static void unknown_word_warns_and_is_anonymous(void **state)
{
	static const char *const words[] = { "", "ANON", "huge ", "bogus" };
	char text[256];
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(*words); i++) {
		assert_int_equal(try_word(*state, words[i], all, text,
					  sizeof(text)), VERBS_BUF_ANON);
		assert_non_null(strstr(text, "IBV_BUF_BACKING"));
		assert_non_null(strstr(text, words[i]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(default_is_anonymous),
		cmocka_unit_test(huge_fails_rather_than_fall_back),
		cmocka_unit_test(word_picks_from_what_the_provider_names),
		cmocka_unit_test(nothing_overrides_shared_memory),
		cmocka_unit_test(unknown_word_warns_and_is_anonymous),
	};

	return cmocka_run_group_tests(tests, stub_setup, stub_teardown);
}
