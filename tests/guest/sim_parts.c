// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Where the rings and doorbell records on the test device lie. See sim_parts.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "sim_parts.h"

/* Three parts of each of 20,000 objects, and some to spare */
#define MAX_PARTS (1 << 16)

static size_t read_all(struct sim_memory **list)
{
	size_t n;

	*list = malloc(MAX_PARTS * sizeof(**list));
	if (!*list)
		abort();
	n = sim_memory(*list, MAX_PARTS);
	if (n > MAX_PARTS) {
		fprintf(stderr, "# sim_parts: too many parts: %zu\n", n);
		abort();
	}
	return n;
}

bool sim_find_part(const char *kind, uint32_t id, const char *name,
		   struct sim_memory *part)
{
	struct sim_memory *list;
	size_t i, n = read_all(&list);

	for (i = 0; i < n; i++)
		if (list[i].id == id && !strcmp(list[i].kind, kind) &&
		    !strcmp(list[i].part, name))
			break;
	if (i < n)
		*part = list[i];
	free(list);
	return i < n;
}

bool sim_is_shared(const struct sim_memory *part)
{
	return part->inode && !strcmp(part->exporter, "system_cc_shared");
}

static bool share_bytes(const struct sim_memory *a, const struct sim_memory *b)
{
	return a->inode && a->inode == b->inode && a->at < b->at + b->length &&
	       b->at < a->at + a->length;
}

int sim_parts_that_share_bytes(void)
{
	struct sim_memory *list;
	size_t i, j, n = read_all(&list);
	int pairs = 0;

	for (i = 0; i < n; i++)
		for (j = 0; j < i; j++)
			pairs += share_bytes(&list[i], &list[j]);
	free(list);
	return pairs;
}

size_t sim_memory_needed(size_t record)
{
	struct sim_memory *list;
	size_t i, n = read_all(&list);
	size_t sum = 0;

	for (i = 0; i < n; i++)
		sum += strcmp(list[i].part, "db") ? mem_whole(list[i].length) :
						    record;
	free(list);
	return sum;
}

size_t sim_live_objects(void)
{
	static const char *const kinds[] = {
		"pd", "mr", "mw", "ah", "cq", "qp", "srq", "wq", "xrcd",
		"umem",
	};
	size_t i, sum = 0;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		sum += sim_count(kinds[i]);
	return sum;
}
