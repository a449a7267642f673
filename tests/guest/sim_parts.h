/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Where the rings and doorbell records on the test device lie: found by object,
 * compared with each other, and added up. What debugfs says is read in sim.h.
 */
#ifndef TESTS_GUEST_SIM_PARTS_H
#define TESTS_GUEST_SIM_PARTS_H

#include "sim.h"

/* False if the object has no such part. */
bool sim_find_part(const char *kind, uint32_t id, const char *name,
		   struct sim_memory *part);
bool sim_is_shared(const struct sim_memory *part);

/* Pairs of parts of all objects that have a byte of a DMA-buf in common */
int sim_parts_that_share_bytes(void);

/*
 * Bytes that all rings need, in whole pages, and all doorbell records, of that
 * size
 */
size_t sim_memory_needed(size_t record);

/* Objects but contexts, all together */
size_t sim_live_objects(void);

#endif
