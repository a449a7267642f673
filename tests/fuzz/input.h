/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The bytes that libFuzzer gives, taken one after the other, and how a fuzzer
 * says that the library is wrong. Past the end there are zeros.
 */
#ifndef TESTS_FUZZ_INPUT_H
#define TESTS_FUZZ_INPUT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct input {
	const uint8_t *at;
	const uint8_t *end;
};

static inline uint64_t input_number(struct input *input, int bytes)
{
	uint64_t n = 0;
	int i;

	for (i = 0; i < bytes && input->at < input->end; i++)
		n |= (uint64_t)*input->at++ << 8 * i;
	return n;
}

static inline uint8_t input_byte(struct input *input)
{
	return input_number(input, 1);
}

#define CHECK(condition)                                                       \
	do {                                                                   \
		if (!(condition)) {                                            \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__,       \
				__LINE__, #condition);                         \
			abort();                                               \
		}                                                              \
	} while (0)

#define ARRAY_LENGTH(array) (sizeof(array) / sizeof((array)[0]))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif /* TESTS_FUZZ_INPUT_H */
