/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Why a backing of buffers cannot be had, in words, and what can be done about
 * it. Tells it from the probe and from what the kernel shows any process.
 */
#ifndef BUF_CAUSE_H
#define BUF_CAUSE_H

#include "buf_probe.h"

struct buf_cause {
	char text[192];		/* empty: there is nothing to tell */
	char fix[192];		/* empty: nothing can be done */
};

/* Room for a size as people write it */
#define BUF_SIZE_LEN 24

/* Writes size as 4K, 2M, 1G, or in bytes; returns text. */
const char *buf_size_text(size_t size, char text[BUF_SIZE_LEN]);

/* Reads bytes with K, M or G behind them; 0 if text is no such thing. */
size_t buf_parse_size(const char *text);

/* Whether the probe got what it asked for */
bool buf_probe_ok(const struct buf_request *request,
		  const struct buf_probe *probe);

void buf_explain(const struct buf_request *request,
		 const struct buf_probe *probe, struct buf_cause *cause);

/* Why no device of that name, or none at all for NULL, is listed */
void buf_explain_unlisted(const char *name, struct buf_cause *cause);

#endif /* BUF_CAUSE_H */
