/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXACT_TEST_H
#define EXACT_TEST_H
/* What the tests of exact sums share: random numbers, the types, every instruction set that can run
 * here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base.h"
#include "exact_inside.h"

#ifdef TW_TEST_SIMDE
extern const struct tw_window_set tw_windows_avx512_simde, tw_windows_neon_simde;
#endif

static const enum twin_dtype dtypes[] = {TWIN_F64, TWIN_F32, TWIN_F16, TWIN_BF16};
#define DTYPES (sizeof dtypes / sizeof *dtypes)

/* Set number i; the first is plain C. False past the last. */
static inline bool use_set(size_t i, const char **name)
{
    const struct tw_window_set *sets[5] = {NULL};
    size_t n = 1;
#if defined(__x86_64__)
    if (twin_fingerprint_force("avx2", NULL) == 0)
        sets[n++] = &tw_windows_avx2;
    if (twin_fingerprint_force("avx512", NULL) == 0)
        sets[n++] = &tw_windows_avx512;
#endif
#ifdef TW_TEST_SIMDE
    sets[n++] = &tw_windows_avx512_simde;
    sets[n++] = &tw_windows_neon_simde;
#endif
    if (i >= n)
        return false;
    *name = sets[i] ? sets[i]->name : "scalar";
    tw_exact_use(sets[i]);
    return true;
}

static inline uint64_t random_bits(uint64_t *state)
{
    return tw_mix64((*state)++);
}

static inline int add_op(struct twin_acc *a, enum tw_op op, enum twin_dtype dtype, const void *x,
                         const void *y, size_t n)
{
    switch (op) {
    case TW_SUM: return twin_acc_add(a, dtype, x, (int64_t)n, NULL);
    case TW_ABS: return twin_acc_add_abs(a, dtype, x, (int64_t)n, NULL);
    case TW_SQUARE: return twin_acc_add_squares(a, dtype, x, (int64_t)n, NULL);
    default: return twin_acc_add_products(a, dtype, x, y, (int64_t)n, NULL);
    }
}
#endif
