/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_FIXED_ORACLE_H
#define TW_FIXED_ORACLE_H
/* Order-free reductions to test with, and what each must give: the definition of <twin/reduce.h>
 * followed to the letter in MPFR. */
#include "exact_oracle.h"
#include "fixed_inside.h"
#include "sanitized.h"

#define FULL (!SANITIZED && getenv("TWINRUN_FULL") != NULL)
#define MOST 40      /* contributions */
#define LONGEST 1500 /* elements */

struct reduction {
    enum twin_dtype dtype;
    enum how how;
    size_t size;
    int64_t n, block, total, divisor, count;
    char *x[MOST]; /* the contributions; misaligned */
    char memory[MOST][8 * LONGEST + 64];
};

static const char *use_fixed(size_t i)
{
    static const struct tw_fixed_set *const sets[] = {&tw_fixed_plain,
#if defined(__x86_64__)
                                                      &tw_fixed_avx2, &tw_fixed_avx512
#endif
    };
    if (i >= sizeof sets / sizeof *sets)
        return NULL;
    if (i && twin_fingerprint_force(sets[i]->name, NULL) != 0) /* not on this processor */
        return use_fixed(i + 1);
    tw_fixed_use(sets[i]);
    return sets[i]->name;
}

/* ---- the oracle */

/* E of the definition: of the finite elements of the block around i. */
static int block_top(const struct reduction *r, int64_t i)
{
    const struct shape s = shape_of(r->dtype);
    const int64_t first = i / r->block * r->block;
    const int64_t end = first + r->block < r->n ? first + r->block : r->n;
    int most = 1;
    for (int64_t c = 0; c < r->count; c++)
        for (int64_t k = first; k < end; k++) {
            const int field = (int)(element(r->x[c], (size_t)k, r->size) >> s.fraction) &
                              ((1 << s.exponent) - 1);
            most = field > most && field < (1 << s.exponent) - 1 ? field : most;
        }
    return most - (1 << (s.exponent - 1)) + 2;
}

static void round_quotient(double *out, const mpfr_t sum, int64_t divisor, enum twin_dtype dtype)
{
    const struct shape s = shape_of(dtype);
    const mpfr_exp_t emin = mpfr_get_emin(), emax = mpfr_get_emax();
    const int bias = (1 << (s.exponent - 1)) - 1;
    mpfr_t q;
    mpfr_init2(q, s.fraction + 1);
    int inexact = mpfr_div_ui(q, sum, (unsigned long)divisor, MPFR_RNDN);
    mpfr_set_emin(2 - bias - s.fraction);
    mpfr_set_emax(bias + 1);
    inexact = mpfr_check_range(q, inexact, MPFR_RNDN);
    mpfr_subnormalize(q, inexact, MPFR_RNDN);
    *out = mpfr_get_d(q, MPFR_RNDN);
    mpfr_set_emin(emin);
    mpfr_set_emax(emax);
    mpfr_clear(q);
}

/* What element i must be; and, in units of 2^(E-B-1), how far it is from the exact quotient and how
 * far it may be. */
static double expect(const struct reduction *r, int64_t i, int top, double *error, double *bound)
{
    int bits = 62;
    for (int64_t t = 1; t < r->total; t *= 2)
        bits--;
    bool nan = false, plus = false, minus = false;
    mpfr_t term, whole, sum, exact;
    mpfr_inits2(2500, term, whole, sum, exact, (mpfr_ptr)0);
    mpfr_set_zero(sum, 1);
    mpfr_set_zero(exact, 1);
    for (int64_t c = 0; c < r->count; c++) {
        const double v = decode(shape_of(r->dtype), element(r->x[c], (size_t)i, r->size));
        nan |= isnan(v);
        plus |= isinf(v) && v > 0;
        minus |= isinf(v) && v < 0;
        if (!isfinite(v))
            continue;
        mpfr_set_d(term, v, MPFR_RNDN);
        mpfr_add(exact, exact, term, MPFR_RNDN);
        mpfr_mul_2si(term, term, bits - top, MPFR_RNDN);
        mpfr_rint(whole, term, MPFR_RNDN);
        mpfr_add(sum, sum, whole, MPFR_RNDN);
    }
    double value;
    const bool cancelled = mpfr_zero_p(sum);
    mpfr_mul_2si(sum, sum, top - bits, MPFR_RNDN);
    round_quotient(&value, sum, r->divisor, r->dtype);
    if (cancelled)
        value = 0;
    mpfr_div_ui(exact, exact, (unsigned long)r->divisor, MPFR_RNDN);
    mpfr_set_d(term, isfinite(value) ? value : 0, MPFR_RNDN);
    mpfr_sub(term, term, exact, MPFR_RNDN);
    mpfr_mul_2si(term, term, bits + 1 - top, MPFR_RNDN);
    *error = isfinite(value) ? fabs(mpfr_get_d(term, MPFR_RNDA)) : 0;
    mpfr_set_d(term, isfinite(value) ? value : 0, MPFR_RNDN);
    const struct shape s = shape_of(r->dtype);
    mpfr_exp_t e = mpfr_zero_p(term) ? -5000 : mpfr_get_exp(term) - 1;
    const int lowest = 2 - (1 << (s.exponent - 1));
    e = (e < lowest ? lowest : e) - s.fraction;
    *bound = (double)r->total / (double)r->divisor + ldexp(0.5, (int)e + bits + 1 - top);
    *bound *= 1 + 0x1p-50;
    mpfr_clears(term, whole, sum, exact, (mpfr_ptr)0);
    if (nan || (plus && minus))
        return NAN;
    return plus ? INFINITY : minus ? -INFINITY : value;
}

static void compare(const struct reduction *r, const char *set, const char *way, const char *out,
                    const double *expected)
{
    const struct shape s = shape_of(r->dtype);
    const uint64_t canonical = ((((uint64_t)1 << s.exponent) - 1) << s.fraction) |
                               (uint64_t)1 << (s.fraction - 1);
    for (int64_t i = 0; i < r->n; i++) {
        const uint64_t bits = element(out, (size_t)i, r->size);
        const double found = decode(s, bits);
        if (isnan(expected[i]) ? bits != canonical
                               : memcmp(&found, &expected[i], sizeof found) != 0)
            fail_msg("%s, %s: %s, numbers %d, element %lld of %lld, block %lld, total %lld, "
                     "divisor %lld: expected %a, found %a",
                     set, way, twin_dtype_name(r->dtype), (int)r->how, (long long)i,
                     (long long)r->n, (long long)r->block, (long long)r->total,
                     (long long)r->divisor, expected[i], found);
    }
}

static void max_into(void *to, const void *from, int64_t n, int bytes)
{
    for (int64_t i = 0; i < n; i++) {
        uint8_t *a = to;
        const uint8_t *b = from;
        uint16_t *wide = to;
        const uint16_t *wide_from = from;
        if (bytes == 1)
            a[i] = a[i] > b[i] ? a[i] : b[i];
        else
            wide[i] = wide[i] > wide_from[i] ? wide[i] : wide_from[i];
    }
}

static void draw_reduction(struct reduction *r, enum twin_dtype dtype, enum how how, uint64_t *seed)
{
    static const int64_t blocks[] = {1, 2, 7, 64, 100, 1024, TWIN_FIXED_MAX_BLOCK};
    static const int64_t divisors[] = {1,         1, 2, 3, 5, 24, 1000003, TWIN_FIXED_MAX_TOTAL,
                                       0x7FFFFFFF};
    r->dtype = dtype;
    r->how = how;
    r->size = twin_dtype_size(dtype);
    r->n = (int64_t)(random_bits(seed) % (random_bits(seed) % 16 ? 40 : FULL ? LONGEST : 300));
    r->block = blocks[random_bits(seed) % 7];
    if (r->block > LONGEST) /* one block of everything; marks would not fit the buffers */
        r->block = how == ANY_BITS || how == ONE_SPECIAL ? LONGEST : r->block;
    r->count = (int64_t)(random_bits(seed) % 8 ? random_bits(seed) % 12 : random_bits(seed) % MOST);
    r->total = r->count < 1 ? 1
               : random_bits(seed) % 4
                   ? r->count
                   : r->count +
                         (int64_t)(random_bits(seed) % (uint64_t)(TWIN_FIXED_MAX_TOTAL - r->count));
    r->divisor = random_bits(seed) % 3 ? divisors[random_bits(seed) % 9] : r->total;
    for (int64_t c = 0; c < r->count; c++) {
        r->x[c] = r->memory[c] + random_bits(seed) % 64;
        uint64_t same = 12345; /* contributions of like size */
        fill(r->x[c], (size_t)r->n, dtype, how,
             how == LIKE_SIZED || how == ANY_FINITE || how == ANY_BITS ? seed
             : random_bits(seed) % 2                                   ? seed
                                                                       : &same);
    }
}

/* Contribution c of a column whose sum lies beside the middle of two results, by the smallest
 * number that there is: losing its one bit shows. */
static uint64_t beside_tie(const struct reduction *r, int64_t c, int high)
{
    const int fraction = shape_of(r->dtype).fraction;
    const int64_t ones = ((int64_t)1 << fraction) - 1;
    int64_t last_place = 1; /* of a sum of so many, in those of the elements */
    while (last_place < r->count)
        last_place *= 2;
    if (c + 1 == r->count)
        return 1;
    if (c + 2 < r->count)
        return (uint64_t)high << fraction | (uint64_t)ones;
    /* the others lack one each to a power of two; all together lack half a last place */
    int64_t lack = (last_place / 2 - (r->count - 2)) % last_place;
    lack = lack <= 0 ? lack + last_place : lack;
    return (uint64_t)high << fraction | (uint64_t)(ones + 1 - lack);
}

/* Sums that f64 holds exactly are made in f64, others of integers: blocks whose smallest element
 * lies at the edge between both, one binade before it and one behind, and far from it. Elements
 * have all bits of the type set or only the first and the last one, so that one bit lost is seen;
 * columns cancel, tie between two results, or hold nothing but zeros of either sign; at the lower
 * end of the type there are subnormals, at the upper end sums overflow. */
static void fill_edge(struct reduction *r, int high, int low, uint64_t *seed)
{
    const struct shape s = shape_of(r->dtype);
    const uint64_t ones = ((uint64_t)1 << s.fraction) - 1;
    const uint64_t minus = (uint64_t)1 << (s.fraction + s.exponent);
    for (int64_t c = 0; c < r->count; c++) {
        r->x[c] = r->memory[c] + random_bits(seed) % 64;
        for (int64_t i = 0; i < r->n; i++) {
            const uint64_t any = random_bits(seed);
            const uint64_t field = (uint64_t)(any % 4 ? any % 8 < 5 ? high : low
                                                      : low + (int)((any >> 8) % 4096) %
                                                                  (high - low + 1));
            uint64_t bits = field << s.fraction | (any % 3 ? ones : any % 2) |
                            (any >> 40) % 2 * minus;
            if (i % 7 == 1) /* zeros of either sign, alone or beside others */
                bits = i % 2 ? bits & minus : any % 2 ? bits : bits & minus;
            if (i % 7 == 2) /* half of a last place of the largest, or nearly: ties */
                bits =
                    (uint64_t)(c ? high - s.fraction - 1 > low ? high - s.fraction - 1 : low : high)
                        << s.fraction |
                    (c ? 0 : any % 2);
            if (i % 7 == 3 && c % 2) { /* what the contribution before has, less all of it */
                bits = element(r->x[c - 1], (size_t)i, r->size) ^ minus;
                if (any % 16 == 0)
                    bits ^= 1;
            }
            if (i % 7 == 4 && low < 2 &&
                r->count > 1) /* a tie, but for the smallest number there is */
                bits = beside_tie(r, c, high) | any % 2 * minus * (c + 1 == r->count);
            memcpy(r->x[c] + (size_t)i * r->size, &bits, r->size);
        }
    }
}

static void put_special(struct reduction *r, uint64_t *seed)
{
    const struct shape s = shape_of(r->dtype);
    const uint64_t infinity = (((uint64_t)1 << s.exponent) - 1) << s.fraction;
    const uint64_t any = random_bits(seed);
    const uint64_t bits = infinity | any % 3 / 2 | (any >> 8) % 2 << (s.fraction + s.exponent);
    memcpy(r->x[(any >> 16) % (uint64_t)r->count] + (any >> 32) % (uint64_t)r->n * r->size, &bits,
           r->size);
}
#endif
