/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What an analyser has to know of cmocka: an assert that fails does not return,
 * nor does skip(). Only for analysers; no test is run like this.
 */
#ifndef ANALYSIS_ASSERTS_H
#define ANALYSIS_ASSERTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define ANALYSIS_ASSERT(holds) ((holds) ? (void)0 : abort())

#undef assert_true
#undef assert_false
#undef assert_null
#undef assert_non_null
#undef assert_int_equal
#undef assert_int_not_equal
#undef assert_ptr_equal
#undef assert_ptr_not_equal
#undef assert_string_equal
#undef assert_memory_equal
#undef skip
#undef fail
#undef fail_msg

#define assert_true(c) ANALYSIS_ASSERT(c)
#define assert_false(c) ANALYSIS_ASSERT(!(c))
#define assert_null(c) ANALYSIS_ASSERT((c) == NULL)
#define assert_non_null(c) ANALYSIS_ASSERT((c) != NULL)
#define assert_int_equal(a, b) ANALYSIS_ASSERT((uintmax_t)(a) == (uintmax_t)(b))
#define assert_int_not_equal(a, b)                                             \
	ANALYSIS_ASSERT((uintmax_t)(a) != (uintmax_t)(b))
#define assert_ptr_equal(a, b)                                                 \
	ANALYSIS_ASSERT((uintptr_t)(a) == (uintptr_t)(b))
#define assert_ptr_not_equal(a, b)                                             \
	ANALYSIS_ASSERT((uintptr_t)(a) != (uintptr_t)(b))
#define assert_string_equal(a, b) ANALYSIS_ASSERT(strcmp(a, b) == 0)
#define assert_memory_equal(a, b, n) ANALYSIS_ASSERT(memcmp(a, b, n) == 0)
#define skip() abort()
#define fail() abort()
#define fail_msg(...) abort()

#endif
