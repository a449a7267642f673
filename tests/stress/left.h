/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the kernel has of processes that use RDMA devices, to be compared before
 * and after: objects of all devices, DMA-bufs, the test device's memory and the
 * pieces of its heap, reserved huge pages.
 */
#ifndef TESTS_STRESS_LEFT_H
#define TESTS_STRESS_LEFT_H

#include <stdbool.h>

struct left {
	char text[16384];
};

/* Mounts debugfs if need be; false, after a line to stderr, if it cannot. */
bool left_read(struct left *left);

/* Waits a little for what ends late; else prints the first that differs. */
bool left_as(const struct left *before);

#endif
