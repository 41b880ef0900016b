/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXACT_ORACLE_H
#define EXACT_ORACLE_H
/* What the tests against MPFR share: numbers of many kinds in each type, and rounding to a type. */
#include <math.h>
#include <stdio.h>
#include "exact_test.h"
#include <mpfr.h> /* after stdio.h */

struct shape {
    int exponent, fraction; /* bits */
};

static inline struct shape shape_of(enum twin_dtype dtype)
{
    return dtype == TWIN_F64   ? (struct shape){11, 52}
           : dtype == TWIN_F32 ? (struct shape){8, 23}
           : dtype == TWIN_F16 ? (struct shape){5, 10}
                               : (struct shape){8, 7};
}

/* Any bits of a type as a double, by the definition of the format. */
static inline double decode(struct shape s, uint64_t bits)
{
    const int bias = (1 << (s.exponent - 1)) - 1;
    const int field = (int)(bits >> s.fraction & ((1u << s.exponent) - 1));
    const uint64_t fraction = bits & (((uint64_t)1 << s.fraction) - 1);
    const double sign = bits >> (s.exponent + s.fraction) & 1 ? -1 : 1;
    if (field == (1 << s.exponent) - 1)
        return fraction ? NAN : sign * INFINITY;
    if (!field)
        return sign * ldexp((double)fraction, 1 - bias - s.fraction);
    return sign * ldexp((double)(fraction | (uint64_t)1 << s.fraction), field - bias - s.fraction);
}

static inline uint64_t element(const void *p, size_t i, size_t size)
{
    uint64_t bits = 0;
    memcpy(&bits, (const char *)p + i * size, size);
    return bits;
}

enum how {
    LIKE_SIZED,
    UNIFORM,
    SPREAD_8,
    SPREAD_64,
    SPREAD_300,
    ANY_FINITE,
    ANY_BITS,
    SUBNORMAL,
    NEAR_OVERFLOW,
    CANCELLING,
    ILL_CONDITIONED,
    CONSTANT,
    ZEROS,
    MINUS_ZEROS,
    ONE_SPECIAL,
    TIES,
    HOWS
};

static inline uint64_t draw(enum how how, struct shape s, int base, uint64_t *seed)
{
    const uint64_t r = random_bits(seed), fraction_mask = ((uint64_t)1 << s.fraction) - 1;
    const int top = (1 << s.exponent) - 2; /* of finite numbers */
    const uint64_t sign = (r >> 63) << (s.exponent + s.fraction);
    uint64_t fraction = random_bits(seed) & fraction_mask;
    int field = base, shift = (int)(r % 64);
    switch (how) {
    case UNIFORM: field = base - (r & 0xFFFFF ? __builtin_ctzll(r & 0xFFFFF) : 20); break;
    case SPREAD_8: field = base + (int)(r % 9) - 4; break;
    case SPREAD_64: field = base + (int)(r % 65) - 32; break;
    case ILL_CONDITIONED:
    case SPREAD_300: field = base + (int)(r % 301) - 150; break;
    case ANY_FINITE: field = (int)(r % (uint64_t)(top + 1)); break;
    case ANY_BITS: field = (int)(r % (uint64_t)(top + 2)); break;
    case SUBNORMAL: field = (int)(r % 16 == 0); break;
    case NEAR_OVERFLOW: field = top - (int)(r % 3); break;
    case TIES:
        fraction = fraction_mask << shift & fraction_mask;
        field = base + (int)(r >> 8 & 63) - 32;
        break;
    case ZEROS: return r % 8 ? sign : 0;
    case MINUS_ZEROS: return (uint64_t)1 << (s.exponent + s.fraction);
    default: break;
    }
    const int most = how == ANY_BITS ? top + 1 : top;
    field = field < 0 ? 0 : field > most ? most : field;
    return sign | (uint64_t)field << s.fraction | fraction;
}

static inline void shuffle(char *p, size_t n, size_t size, uint64_t *seed)
{
    char t[8];
    for (size_t i = n; i > 1; i--) {
        size_t j = random_bits(seed) % i;
        memcpy(t, p + (i - 1) * size, size);
        memcpy(p + (i - 1) * size, p + j * size, size);
        memcpy(p + j * size, t, size);
    }
}

static inline void fill(char *p, size_t n, enum twin_dtype dtype, enum how how, uint64_t *seed)
{
    const struct shape s = shape_of(dtype);
    const size_t size = twin_dtype_size(dtype);
    const uint64_t minus = (uint64_t)1 << (s.exponent + s.fraction);
    const int base = (int)(random_bits(seed) % (1u << s.exponent));
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++) {
        if (how != CONSTANT || i == 0)
            v = (how == CANCELLING || how == ILL_CONDITIONED) && i % 2 ? v ^ minus
                                                                       : draw(how, s, base, seed);
        memcpy(p + i * size, &v, size); /* little-endian, as the build machines are */
    }
    if (how == ILL_CONDITIONED && n) {
        v = draw(LIKE_SIZED, s, base, seed);
        memcpy(p, &v, size);
    }
    if (how == ONE_SPECIAL && n) {
        v = random_bits(seed) & minus;
        v |= (((uint64_t)1 << s.exponent) - 1) << s.fraction | (random_bits(seed) % 4 == 0);
        memcpy(p + random_bits(seed) % n * size, &v, size);
    }
    shuffle(p, n, size, seed);
}

/* Rounded to the type, by MPFR's recipe for IEEE 754 formats, as a double. */
static inline double oracle_round(const mpfr_t sum, enum twin_dtype dtype)
{
    const struct shape s = shape_of(dtype);
    const mpfr_exp_t emin = mpfr_get_emin(), emax = mpfr_get_emax();
    const int bias = (1 << (s.exponent - 1)) - 1;
    mpfr_t r;
    mpfr_init2(r, s.fraction + 1);
    int inexact = mpfr_set(r, sum, MPFR_RNDN);
    mpfr_set_emin(2 - bias - s.fraction);
    mpfr_set_emax(bias + 1);
    inexact = mpfr_check_range(r, inexact, MPFR_RNDN);
    mpfr_subnormalize(r, inexact, MPFR_RNDN);
    const double d = mpfr_get_d(r, MPFR_RNDN);
    mpfr_set_emin(emin);
    mpfr_set_emax(emax);
    mpfr_clear(r);
    return d;
}
#endif
