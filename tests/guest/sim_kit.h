/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * One of each object that a process can have of the test device: what it takes
 * to make one, how it is made and undone, and what the device then has of it.
 * It judges nothing: that is up to the programs.
 */
#ifndef TESTS_GUEST_SIM_KIT_H
#define TESTS_GUEST_SIM_KIT_H

#include <stdbool.h>
#include <stddef.h>

#include <infiniband/verbs.h>

#define KIT_SIZE ((size_t)1 << 16)

/* What objects are made from */
struct kit {
	bool mlx5;		/* else efa */
	bool bounce;
	bool opted;		/* pd allows shared memory */
	struct ibv_context *context;
	struct ibv_pd *base;
	struct ibv_pd *parent;	/* a parent domain of base */
	struct ibv_pd *pd;	/* where objects are made: one of the two */
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;	/* NULL if all its memory would be private */
	struct ibv_xrcd *xrcd;	/* NULL with efa */
	struct ibv_srq *srq;	/* NULL with efa and where cq is */
	char *mem;		/* private, KIT_SIZE bytes */
	int fd;			/* shared, KIT_SIZE bytes */
};

/*
 * 0 or an errno; opted: with a parent domain that allows shared memory.
 * kit_close() also makes up for what is gone of a kit whose device is unplugged
 * and tells the first error of the calls.
 */
int kit_open(struct kit *kit, bool opted);
int kit_close(struct kit *kit);

/* Whether the device reaches the rings of objects made from the kit */
bool kit_has_rings(const struct kit *kit);

struct maker {
	const char *name;
	const char *kind;	/* in the device; NULL: it sees none */
	const char *parts;	/* its memory there, each with a blank behind */
	bool memory_of_kit;	/* else that of the provider */
	void *(*make)(const struct kit *kit);	/* NULL: with errno set */
	int (*undo)(void *object);		/* 0 or an errno */
};

/* Those of the personality; the end has no name. */
const struct maker *kit_makers(const struct kit *kit);
/* The kit has what it takes. */
bool maker_can(const struct maker *maker, const struct kit *kit);

/* The shared heap itself: a DMA-buf of size bytes, or -1 */
int kit_shared(size_t size);

#endif
