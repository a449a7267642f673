/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the guest programs ask of the test device sim0 (tests/sim) and of its
 * heap of shared memory: what lives there, where its memory comes from, a
 * failure on demand, and access to memory by a key as the device has it. What
 * verbs say of the device is not here.
 *
 * A file that is not there or says something else ends the process, after a
 * line to stderr: it means that the module is not the one that this belongs to.
 */
#ifndef TESTS_GUEST_SIM_H
#define TESTS_GUEST_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <infiniband/verbs.h>

/* The guest was booted with the device. */
bool sim_is_there(void);
/* As booted, or as set by the parameter: it holds from the next bind on. */
bool sim_is_mlx5(void);
bool sim_bounces(void);
/* NULL, with errno set, after a line to stderr */
struct ibv_context *sim_open(void);

/* Objects of a kind ("cq", ...: see tests/sim/debugfs.c), and their memory */
size_t sim_count(const char *kind);
uint64_t sim_bytes(const char *kind);
/* Prints what is left; waits a little for what a dying process left behind. */
bool sim_is_empty(void);
/* Pieces of memory that were refused, since they are private */
uint64_t sim_refused(void);
/* The n-th object of the kind from now fails with err; n 0: none does. */
void sim_fail(const char *kind, unsigned int n, int err);

/* A piece of the memory of an object */
struct sim_memory {
	char kind[16];
	uint32_t id;
	char part[8];		/* "buf", "sq", "db" */
	pid_t pid;		/* process that made it */
	uint64_t inode;		/* of the DMA-buf; 0: by address */
	uint64_t at;		/* address, or offset in the DMA-buf */
	size_t length;
	char exporter[32];	/* of the DMA-buf, or "-" */
};

/* Writes up to max, returns how many there are. */
size_t sim_memory(struct sim_memory *list, size_t max);

struct sim_heap {
	uint64_t pieces;	/* that are out now */
	uint64_t bytes;
	uint64_t total;		/* pieces that were ever handed out */
};

struct sim_heap sim_heap(void);
void sim_heap_fail(unsigned int n, int err);

/* n bytes at an address that goes with the key; 0 or an errno */
int sim_read(uint32_t key, uint64_t at, void *to, size_t n);
int sim_write(uint32_t key, uint64_t at, const void *from, size_t n);

/* A parameter of the module; the device goes (unplugged) and comes. */
void sim_set(const char *parameter, unsigned int value);
unsigned int sim_get(const char *parameter);
void sim_unbind(void);
void sim_bind(void);

#endif
