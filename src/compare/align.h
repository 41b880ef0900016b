/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_ALIGN_H
#define TW_ALIGN_H
/* Alignment of two token sequences: which element of one corresponds to which of the other. */
#include <stddef.h>
#include <stdint.h>

#define TW_ALIGN_NONE SIZE_MAX

/*
 * Myers' O(ND) difference algorithm in linear space (Algorithmica 1, 1986). to_b[i] receives the
 * index in b of the element that a[i] was matched with, or TW_ALIGN_NONE; matches are increasing in
 * both sequences and equal in token. The number of matches is the longest common subsequence's as
 * long as no subproblem needs more than max_cost edits (0 = 4,096): beyond that the remaining
 * middle is matched greedily, so that hostile input costs no more than O((n + m) * max_cost).
 * Returns 0 or TWIN_ENOMEM.
 */
int tw_align(const uint64_t *a, size_t n, const uint64_t *b, size_t m, size_t max_cost,
             size_t *to_b);
#endif
