/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_COMPARE_ULP_H
#define TW_COMPARE_ULP_H
/* How far two arrays are apart, from their values. Nothing here allocates. */
#include <stdbool.h>
#include <stdint.h>
#include <twin/fingerprint.h>

/* The distance of two arrays so far. */
struct tw_exact {
    uint64_t elements, changed;
    double max_ulp, rel_l2; /* NaN: the type has none */
    double distance, norm;  /* sums of squares: of the differences, of a */
};

/*
 * Compares n elements of a dtype. False when the dtype has no ulp (then changed is still counted).
 */
bool tw_exact_compare(const void *a, const void *b, uint64_t n, enum twin_dtype dtype,
                      struct tw_exact *out);
/* The same for one piece after the other of larger arrays; *sum starts as zeros. */
bool tw_exact_add(struct tw_exact *sum, const void *a, const void *b, uint64_t n,
                  enum twin_dtype dtype);
#endif
