// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What backing the user of a process wants: the environment variable
 * IBV_BUF_BACKING. Huge pages are scarce and DMA-bufs cost a file descriptor,
 * so both are only taken where they are asked for.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ccan/array_size.h>

#include "buf.h"
#include "ibverbs.h"

struct policy {
	const char *word;
	enum verbs_buf_backing backings[4];
};

/* The first is the default. */
static const struct policy policies[] = {
	{ "anon", { VERBS_BUF_ANON } },
	{ "huge", { VERBS_BUF_HUGE } },
	{ "prefer_huge", { VERBS_BUF_HUGE, VERBS_BUF_ANON } },
	{ "dmabuf", { VERBS_BUF_DMABUF, VERBS_BUF_UDMABUF } },
	{ "prefer_dmabuf",
	  { VERBS_BUF_DMABUF, VERBS_BUF_UDMABUF, VERBS_BUF_ANON } },
};

static const struct policy *chosen = &policies[0];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* A set-id program must not be led by whoever starts it. */
static void read_environment(void)
{
	const char *word = secure_getenv("IBV_BUF_BACKING");
	size_t i;

	if (!word)
		return;

	for (i = 0; i < ARRAY_SIZE(policies); i++) {
		if (!strcmp(word, policies[i].word)) {
			chosen = &policies[i];
			return;
		}
	}

	fprintf(stderr,
		PFX "Warning: IBV_BUF_BACKING is '%s', which is no backing; using '%s'.\n",
		word, chosen->word);
}

const enum verbs_buf_backing *buf_policy(void)
{
	pthread_once(&once, read_environment);
	return chosen->backings;
}
