/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Random numbers that are the same wherever they are made.
 */
#ifndef TESTS_STRESS_RNG_H
#define TESTS_STRESS_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct rng {
	uint64_t state;
};

static inline uint64_t rng_next(struct rng *rng)
{
	uint64_t z = rng->state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

static inline uint32_t pick(struct rng *rng, uint32_t below)
{
	return (rng_next(rng) >> 32) * below >> 32;
}

/* Holds once in n times. */
static inline bool once_in(struct rng *rng, uint32_t n)
{
	return !pick(rng, n);
}

#endif
