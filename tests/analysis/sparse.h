/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the kernel's headers use and sparse 0.6.4 does not know: a newer word of
 * gcc's, and the length of a literal as a constant.
 */
#define __typeof_unqual__ __typeof__
#define __builtin_strlen(literal) (sizeof(literal) - 1)
