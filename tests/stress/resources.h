/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the kernel counts of an RDMA device: the objects that all processes have
 * of it, as "rdma resource show" prints them.
 */
#ifndef TESTS_STRESS_RESOURCES_H
#define TESTS_STRESS_RESOURCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct resources {
	size_t contexts;
	size_t pds;
	size_t mrs;
	size_t cqs;
	size_t qps;
};

/*
 * By the index of the device. Both are false, after a line to stderr, if there
 * is no such device, or the kernel does not tell.
 */
bool resources_find(const char *name, uint32_t *index);
bool resources_read(uint32_t index, struct resources *resources);

#endif
