/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Tries a backing of buffers on a device: really allocates, registers,
 * deregisters and frees, and tells what memory it was and how long each step
 * took. It knows only the public verbs and what the kernel shows any process.
 * Words for why a backing cannot be had are in buf_cause.h.
 */
#ifndef BUF_PROBE_H
#define BUF_PROBE_H

#include <stdbool.h>
#include <stddef.h>

#include <infiniband/verbs.h>

enum buf_backing {
	BUF_AS_CHOSEN,	/* what the process gets without asking */
	BUF_ANON,
	BUF_HUGE,
	BUF_DMABUF,
	BUF_CC_SHARED,
	BUF_BACKINGS,
};

/* Where a probe ended */
enum buf_step {
	BUF_STEP_DONE,
	BUF_STEP_MEMORY,	/* not tried: so much memory is not available */
	BUF_STEP_START,		/* no process for it */
	BUF_STEP_OPEN,
	BUF_STEP_PD,
	BUF_STEP_PARENT_DOMAIN,
	BUF_STEP_ALLOC,
	BUF_STEP_REG,
	BUF_STEP_KILLED,	/* its process died of a signal */
};

enum buf_op {
	BUF_OP_ALLOC,
	BUF_OP_REG,
	BUF_OP_DEREG,
	BUF_OP_FREE,
	BUF_OPS,
};

struct buf_request {
	struct ibv_device *device;
	enum buf_backing backing;
	bool opted_in;		/* a parent domain that takes shared memory */
	size_t size;
	int rounds;		/* to time, BUF_MAX_ROUNDS at most */
};

#define BUF_MAX_ROUNDS 101

struct buf_probe {
	enum buf_step step;
	int err;		/* errno at step, or the signal; 0 when done */

	/* Of the device, known once the protection domain is there */
	bool bounces;		/* cannot reach private memory of the guest */
	bool imports;		/* takes DMA-bufs */

	/* Of the buffer, known once it is allocated */
	enum buf_backing got;
	char memory[32];	/* anonymous, hugetlb, DMA-buf's exporter */
	size_t page_size;	/* of the mapping; 0: not known */
	size_t thp_bytes;	/* of the buffer, in transparent huge pages */

	/* Known when done: medians in microseconds */
	double usec[BUF_OPS];
};

/* The word for a backing, which IBV_BUF_BACKING takes too but for cc_shared */
const char *buf_backing_word(enum buf_backing backing);

/*
 * The backing without which the probe fails: the one that is asked for or, for
 * BUF_AS_CHOSEN, the last resort of what the process chooses.
 */
enum buf_backing buf_wanted(const struct buf_request *request,
			    const struct buf_probe *probe);

/* Bytes of a transparent huge page, 0 where the kernel has none */
size_t buf_thp_size(void);

/* Bytes that can be taken without pressing others for memory */
size_t buf_memory_available(void);

/*
 * Runs a probe in a process of its own, since a process chooses its backing
 * once, and since the death of the probe must not be that of the caller. More
 * memory than is available is not tried.
 */
void buf_probe(const struct buf_request *request, struct buf_probe *probe);

#endif /* BUF_PROBE_H */
