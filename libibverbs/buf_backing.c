// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The table of backings, one row each, and what several of them need. Which
 * backing a buffer gets is decided elsewhere: by the provider, in order of its
 * preference.
 */
#include <stdint.h>

#include <ccan/array_size.h>
#include <util/util.h>

#include "buf.h"

static const struct buf_backing_ops *const backings[] = {
	[VERBS_BUF_ANON] = &buf_anon_ops,
};

const struct buf_backing_ops *buf_backing_ops(enum verbs_buf_backing backing)
{
	return (size_t)backing < ARRAY_SIZE(backings) ? backings[backing] :
							 NULL;
}

bool buf_whole_pages(size_t size, size_t page_size, size_t *length)
{
	if (size > SIZE_MAX - (page_size - 1))
		return false;

	*length = align(size, page_size);
	return true;
}
