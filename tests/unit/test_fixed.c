/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order-free sums against MPFR, twice: the definition of <twin/reduce.h> followed to the letter,
 * which must give the same bits, and the exact sum, which must lie within the documented bound.
 * Contributions are spread over processes, orders and parts of the arrays at random.
 * TWINRUN_FULL=1: 3.2e4 reductions, of 5e5 elements and more, for each type.
 */
#include <fenv.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif
#include "fixed_oracle.h"

/* ---- the general way, on an imagined number of processes */

static void general(const struct reduction *r, char *out, uint64_t *seed)
{
    static uint16_t mine[LONGEST], exponents[LONGEST], special_mine[3 * LONGEST + 2],
        specials[3 * LONGEST + 2];
    static int64_t part[LONGEST], sum[LONGEST];
    const int64_t blocks = twin_fixed_blocks(r->n, r->block);
    const int bytes = twin_fixed_exponent_bytes(r->dtype);
    const int64_t ranks = 1 + (int64_t)(random_bits(seed) % (uint64_t)(r->count ? r->count : 1));
    int64_t order[MOST];
    for (int64_t c = 0; c < r->count; c++)
        order[c] = c;
    shuffle((char *)order, (size_t)r->count, sizeof *order, seed);
    memset(exponents, 0, sizeof exponents);
    for (int64_t rank = 0; rank < ranks; rank++) {
        memset(mine, 0, sizeof mine);
        for (int64_t c = rank; c < r->count; c += ranks)
            assert_int_equal(
                twin_fixed_exponents(r->dtype, r->x[order[c]], r->n, r->block, mine, NULL), 0);
        max_into(exponents, mine, blocks, bytes);
    }
    const int64_t flagged = twin_fixed_flagged(r->dtype, exponents, blocks);
    const int64_t count = twin_fixed_specials_count(r->dtype, r->block, exponents, blocks);
    assert_int_equal(count, flagged * (1 + 2 * r->block));
    assert_true((size_t)count * 2 <= sizeof specials);
    memset(specials, 0, sizeof specials);
    for (int64_t rank = 0; flagged && rank < ranks; rank++) {
        memset(special_mine, 0, sizeof special_mine);
        for (int64_t c = rank; c < r->count; c += ranks)
            assert_int_equal(twin_fixed_specials(r->dtype, r->x[order[c]], r->n, r->block,
                                                 exponents, special_mine, NULL),
                             0);
        max_into(specials, special_mine, count, bytes);
    }
    memset(sum, 0, sizeof sum);
    /* Each rank's share in two parts, that begin at whole blocks. */
    const int64_t cut = blocks ? (int64_t)(random_bits(seed) % (uint64_t)(blocks + 1)) * r->block
                               : 0;
    const int64_t first = cut < r->n ? cut : r->n;
    const char *const later_exponents = (char *)exponents + first / r->block * bytes;
    const char *const later_specials =
        (char *)specials +
        twin_fixed_specials_count(r->dtype, r->block, exponents, first / r->block) * bytes;
    for (int64_t rank = 0; rank < ranks; rank++) {
        memset(part, 0, sizeof part);
        for (int64_t c = rank; c < r->count; c += ranks) {
            const char *x = r->x[order[c]];
            assert_int_equal(twin_fixed_add(r->dtype, x + (size_t)first * r->size, r->n - first,
                                            r->block, r->total, later_exponents, later_specials,
                                            part + first, NULL),
                             0);
            assert_int_equal(twin_fixed_add(r->dtype, x, first, r->block, r->total, exponents,
                                            flagged ? specials : NULL, part, NULL),
                             0);
        }
        for (int64_t i = 0; i < r->n; i++)
            sum[i] += part[i];
    }
    assert_int_equal(twin_fixed_round(r->dtype, sum + first, r->n - first, r->block, r->total,
                                      r->divisor, later_exponents, later_specials,
                                      out + (size_t)first * r->size, NULL),
                     0);
    assert_int_equal(twin_fixed_round(r->dtype, sum, first, r->block, r->total, r->divisor,
                                      exponents, specials, out, NULL),
                     0);
}

static void test_against_mpfr(void **state)
{
    (void)state;
    static struct reduction r;
    static double expected[LONGEST];
    static char out[8 * LONGEST + 8];
    uint64_t seed = 1;
    const int rounds = FULL ? 2000 : 25;
    for (size_t t = 0; t < DTYPES; t++)
        for (int how = 0; how < HOWS; how++)
            for (int round = 0; round < rounds; round++) {
                draw_reduction(&r, dtypes[t], (enum how)how, &seed);
                for (int64_t i = 0; i < r.n; i++) {
                    double error, bound;
                    expected[i] = expect(&r, i, block_top(&r, i), &error, &bound);
                    if (error > bound)
                        fail_msg("the definition itself is off: %g > %g", error, bound);
                }
                const char *set;
                for (size_t k = 0; (set = use_fixed(k)); k++) {
                    memset(out, 0x5A, sizeof out);
                    assert_int_equal(twin_fixed_sum(r.dtype, (const void *const *)r.x, r.count, r.n,
                                                    r.block, r.total, r.divisor, out, NULL),
                                     0);
                    compare(&r, set, "at once", out, expected);
                    assert_int_equal(out[(size_t)r.n * r.size], 0x5A);
                    memset(out, 0x5A, sizeof out);
                    general(&r, out, &seed);
                    compare(&r, set, "general", out, expected);
                    assert_int_equal(out[(size_t)r.n * r.size], 0x5A);
                    if (r.count) { /* in place */
                        const char *kept = r.x[r.count - 1];
                        memcpy(out, kept, (size_t)r.n * r.size);
                        r.x[r.count - 1] = out;
                        assert_int_equal(twin_fixed_sum(r.dtype, (const void *const *)r.x, r.count,
                                                        r.n, r.block, r.total, r.divisor, out,
                                                        NULL),
                                         0);
                        compare(&r, set, "in place", out, expected);
                        r.x[r.count - 1] = (char *)(uintptr_t)kept;
                    }
                }
            }
    tw_fixed_use(NULL);
}

static void test_edge_of_f64(void **state)
{
    (void)state;
    static struct reduction r;
    static double expected[LONGEST];
    static char out[8 * LONGEST + 8];
    static const int counts[] = {1, 2, 3, 4, 7, 8, 9};
    static const int64_t totals[] = {0, 1000, 1 << 17, 1 << 22, 1 << 23, TWIN_FIXED_MAX_TOTAL};
    uint64_t seed = 11;
    for (size_t t = 1; t < DTYPES; t++)
        for (int round = 0; round < (FULL ? 40000 : 1000); round++) {
            const struct shape s = shape_of(dtypes[t]);
            const int most = (1 << s.exponent) - 2;
            r.dtype = dtypes[t];
            r.size = twin_dtype_size(r.dtype);
            r.how = HOWS; /* none of those of fill */
            r.n = 1 + (int64_t)(random_bits(&seed) % 140);
            r.block = random_bits(&seed) % 2 ? 1024 : 48;
            r.count = counts[random_bits(&seed) % 7];
            if (round % 5 == 1)
                r.count = round % 2 ? 4 : 8;
            r.total = totals[random_bits(&seed) % 6];
            r.total = r.total && round % 3 == 0 ? r.total : r.count;
            r.divisor = round % 4 == 0 ? r.total : (int64_t)1 << random_bits(&seed) % 32;
            if (round % 5 == 1) { /* for sums beside a tie, below */
                r.total = r.count;
                r.divisor = 1;
            }
            /* where f64 ends, or the integers' unit */
            int bits = 62, log2 = 0;
            for (int64_t k = 1; k < r.total; k *= 2)
                bits--;
            for (int64_t k = 1; k < r.count; k *= 2)
                log2++;
            const int in_f64 = 52 - s.fraction - log2, in_units = bits - 1 - s.fraction;
            int apart = (in_f64 < in_units ? in_f64 : in_units) + (int)(random_bits(&seed) % 5) - 2;
            apart = random_bits(&seed) % 8 ? apart : (int)(random_bits(&seed) % 60);
            apart = apart < 0 ? 0 : apart > most ? most : apart;
            int low = (int)(random_bits(&seed) % (uint64_t)(most - apart + 1));
            low = round % 5 == 1 ? (int)(random_bits(&seed) % 2) : low; /* subnormals */
            low = round % 5 == 2 || low + apart > most ? most - apart : low;
            if (round % 5 == 1 &&
                in_f64 + 2 + round / 5 % 3 <= most) { /* at, and behind, the edge */
                low = 1;
                apart = in_f64 + round / 5 % 3;
            }
            fill_edge(&r, low + apart, low, &seed);
            if (round % 8 == 7)
                put_special(&r, &seed);
            for (int64_t i = 0; i < r.n; i++) {
                double error, bound;
                expected[i] = expect(&r, i, block_top(&r, i), &error, &bound);
            }
            const char *set;
            for (size_t k = 0; (set = use_fixed(k)); k++) {
                memset(out, 0x5A, sizeof out);
                assert_int_equal(twin_fixed_sum(r.dtype, (const void *const *)r.x, r.count, r.n,
                                                r.block, r.total, r.divisor, out, NULL),
                                 0);
                compare(&r, set, "at once, at the edge of f64", out, expected);
                assert_int_equal(out[(size_t)r.n * r.size], 0x5A);
                shuffle((char *)r.x, (size_t)r.count, sizeof *r.x, &seed);
            }
        }
    tw_fixed_use(NULL);
}

static void mpfr_quotient(double *out, int64_t sum, int64_t divisor, int exponent,
                          enum twin_dtype dtype)
{
    mpfr_t v;
    mpfr_init2(v, 64);
    mpfr_set_sj(v, sum, MPFR_RNDN);
    mpfr_mul_2si(v, v, exponent, MPFR_RNDN);
    round_quotient(out, v, divisor, dtype);
    mpfr_clear(v);
}

/* Quotients beside a boundary between two numbers of the type, or on it; subnormal ones too:
 * kernels are right or say that they are not sure, and the slow way is right. */
static void test_close_quotients(void **state)
{
    (void)state;
    uint64_t seed = 5;
    int sure = 0;
    for (int round = 0; round < 40000; round++) {
        const enum twin_dtype dtype = dtypes[1 + random_bits(&seed) % 3];
        const enum tw_kind kind = dtype == TWIN_F32 ? TW_F32 : dtype == TWIN_F16 ? TW_F16 : TW_BF16;
        const struct shape s = shape_of(dtype);
        const int64_t divisor = (int64_t)(random_bits(&seed) % 2 ? 3 + 2 * (random_bits(&seed) % 30)
                                                                 : (random_bits(&seed) >> 33 | 1));
        const int length = 64 - __builtin_clzll((uint64_t)divisor);
        /* one bit more than the type has: odd ones lie in the middle between two numbers */
        const int64_t middle =
            (int64_t)((uint64_t)1 << (s.fraction + 1) |
                      (random_bits(&seed) & (((uint64_t)1 << (s.fraction + 1)) - 1)));
        const int room = 61 - length - s.fraction - 2;
        const int shift = room > 0 ? (int)(random_bits(&seed) % (uint64_t)room) : 0;
        int64_t sum = (middle * divisor << shift) + (int64_t)(random_bits(&seed) % 3) - 1;
        sum = random_bits(&seed) % 2 ? sum : -sum;
        /* from subnormal, on every place, to overflow */
        const int bias = (1 << (s.exponent - 1)) - 1;
        const int lead = random_bits(&seed) % 2
                             ? 1 - bias - (int)(random_bits(&seed) % (uint64_t)(s.fraction + 3))
                             : (int)(random_bits(&seed) % (uint64_t)(2 * bias)) - bias + 2;
        const int exponent = lead - s.fraction - 1 - shift;
        double expected;
        mpfr_quotient(&expected, sum, divisor, exponent, dtype);
        const double slow = decode(
            s, tw_fixed_round_one(sum, (uint64_t)divisor, exponent, tw_float_formats[kind]));
        assert_memory_equal(&slow, &expected, 8);
        const struct tw_fixed_set *const sets[] = {
            &tw_fixed_plain,
#if defined(__x86_64__)
            twin_fingerprint_force("avx2", NULL) == 0 ? &tw_fixed_avx2 : &tw_fixed_plain,
#endif
        };
        for (size_t k = 0; k < sizeof sets / sizeof *sets; k++) {
            uint64_t bits = 0;
            if (!sets[k]->divide[kind](
                    &sum, 1, (struct tw_fixed_way){(double)divisor, ldexp(1, exponent)}, &bits))
                continue;
            const double found = decode(s, bits);
            assert_memory_equal(&found, &expected, 8);
            sure++;
        }
    }
    assert_true(sure > 4000); /* where there is no doubt they do not doubt: even `middle`, normal */
}

/* The reference, element by element, as CUDA kernels do it, gives the integers that the vector
 * kernels give. */
static void test_element_reference(void **state)
{
    (void)state;
    static struct reduction r;
    uint64_t seed = 9;
    for (int round = 0; round < 600; round++) {
        draw_reduction(&r, dtypes[round % 4], (enum how)(round / 4 % HOWS), &seed);
        const enum tw_kind kind = round % 4 == 0   ? TW_F64
                                  : round % 4 == 1 ? TW_F32
                                  : round % 4 == 2 ? TW_F16
                                                   : TW_BF16;
        assert_int_equal(dtypes[round % 4], kind == TW_F64   ? TWIN_F64
                                            : kind == TW_F32 ? TWIN_F32
                                            : kind == TW_F16 ? TWIN_F16
                                                             : TWIN_BF16);
        for (int64_t c = 0; c < r.count; c++)
            for (int64_t i = 0; i < r.n; i++) {
                const uint64_t bits = element(r.x[c], (size_t)i, r.size);
                const int top = block_top(&r, i), used = twin_fixed_bits(r.total);
                const uint8_t narrow = (uint8_t)(top - 2 +
                                                 ((1 << (shape_of(r.dtype).exponent - 1)) - 1));
                const uint16_t wide = (uint16_t)(top - 2 +
                                                 ((1 << (shape_of(r.dtype).exponent - 1)) - 1));
                int64_t sum = 0;
                if (tw_element_mark(bits, tw_float_formats[kind]))
                    continue;
                assert_int_equal(
                    twin_fixed_add(r.dtype, r.x[c] + (size_t)i * r.size, 1, 1, r.total,
                                   kind == TW_F64 ? (const void *)&wide : (const void *)&narrow,
                                   NULL, &sum, NULL),
                    0);
                assert_int_equal(
                    tw_element_units(bits, tw_float_formats[kind],
                                     tw_unit_exponent(wide, used, tw_float_formats[kind])),
                    sum);
            }
    }
}

/* Where typical gradients are concerned the result is the correctly rounded sum: that of the exact
 * sum. */
static void test_correctly_rounded(void **state)
{
    (void)state;
    enum { N = 3000, G = 24 };
    static float x[G][N], out[N];
    const void *p[G];
    uint64_t seed = 3;
    for (int c = 0; c < G; c++) {
        p[c] = x[c];
        for (int i = 0; i < N; i++) {
            double v = 0;
            for (int k = 0; k < 12; k++)
                v += (double)(random_bits(&seed) >> 11) * 0x1p-53;
            x[c][i] = (float)((v - 6) * 1e-3);
        }
    }
    assert_int_equal(twin_fixed_sum(TWIN_F32, p, G, N, TWIN_FIXED_BLOCK, G, 1, out, NULL), 0);
    for (int i = 0; i < N; i++) {
        float column[G], exact;
        for (int c = 0; c < G; c++)
            column[c] = x[c][i];
        assert_int_equal(twin_sum_f32(column, G, &exact, NULL), 0);
        assert_memory_equal(&exact, &out[i], 4);
    }
}

/* ---- wrong use */
static void test_wrong_use(void **state)
{
    (void)state;
    const float x[4] = {1, 2, INFINITY, 4};
    const void *p[2] = {x, NULL};
    uint8_t e[4] = {0};
    int64_t sum[4] = {0};
    float out[4] = {9, 9, 9, 9};
    struct twin_error err = TWIN_ERROR_INIT;
    assert_int_equal(twin_fixed_exponents(TWIN_F32, x, -1, 2, e, NULL), TWIN_EINVAL);
    assert_int_equal(twin_fixed_exponents(TWIN_F32, NULL, 4, 2, e, NULL), TWIN_EINVAL);
    assert_int_equal(twin_fixed_exponents(TWIN_F32, x, 4, 2, NULL, NULL), TWIN_EINVAL);
    assert_int_equal(twin_fixed_exponents(TWIN_F32, x, 4, 0, e, NULL), TWIN_EINVAL);
    assert_int_equal(twin_fixed_exponents(TWIN_F32, x, 4, TWIN_FIXED_MAX_BLOCK + 1, e, NULL),
                     TWIN_EINVAL);
    assert_int_equal(twin_fixed_exponents(TWIN_I32, x, 4, 2, e, NULL), TWIN_EINVAL);
    assert_int_equal(twin_fixed_exponents((enum twin_dtype)99, x, 4, 2, e, NULL), TWIN_EINVAL);
    assert_int_equal(twin_fixed_exponents(TWIN_F32, NULL, 0, 2, NULL, NULL), 0);
    assert_int_equal(twin_fixed_blocks(-1, 1), TWIN_EINVAL);
    assert_int_equal(twin_fixed_blocks(1, 0), TWIN_EINVAL);
    assert_int_equal(twin_fixed_blocks(0, 8), 0);
    assert_int_equal(twin_fixed_blocks(INT64_MAX, 1), INT64_MAX);
    assert_int_equal(twin_fixed_exponent_bytes(TWIN_F64), 2);
    assert_int_equal(twin_fixed_exponent_bytes(TWIN_F16), 1);
    assert_int_equal(twin_fixed_exponent_bytes(TWIN_U8), TWIN_EINVAL);
    assert_int_equal(twin_fixed_bits(0), TWIN_EINVAL);
    assert_int_equal(twin_fixed_bits(TWIN_FIXED_MAX_TOTAL + 1), TWIN_EINVAL);
    assert_int_equal(twin_fixed_bits(1), 62);
    assert_int_equal(twin_fixed_bits(2), 61);
    assert_int_equal(twin_fixed_bits(24), 57);
    assert_int_equal(twin_fixed_bits(32), 57);
    assert_int_equal(twin_fixed_bits(33), 56);
    assert_int_equal(twin_fixed_bits(TWIN_FIXED_MAX_TOTAL), 31);
    assert_int_equal(twin_fixed_exponents(TWIN_F32, x, 4, 2, e, NULL), 0);
    assert_int_equal(e[0], 128);
    assert_int_equal(e[1], 255);
    assert_int_equal(twin_fixed_flagged(TWIN_F32, e, 2), 1);
    assert_int_equal(twin_fixed_flagged(TWIN_F32, NULL, 2), TWIN_EINVAL);
    assert_int_equal(twin_fixed_specials_count(TWIN_F32, 2, e, 2), 5);
    assert_int_equal(twin_fixed_specials_count(TWIN_F32, 0, e, 2), TWIN_EINVAL);
    assert_int_equal(twin_fixed_specials(TWIN_F32, x, 4, 2, e, NULL, NULL), TWIN_EINVAL);
    assert_int_equal(twin_fixed_add(TWIN_F32, x, 4, 2, 1, e, NULL, sum, &err), TWIN_EINVAL);
    assert_non_null(strstr(err.message, "1 of 2 blocks"));
    assert_int_equal(twin_fixed_add(TWIN_F32, x, 2, 2, 0, e, NULL, sum, NULL), TWIN_EINVAL);
    assert_int_equal(twin_fixed_round(TWIN_F32, sum, 4, 2, 1, 1, e, NULL, out, NULL), TWIN_EINVAL);
    assert_int_equal(twin_fixed_round(TWIN_F32, sum, 2, 2, 1, 0, e, NULL, out, NULL), TWIN_EINVAL);
    assert_int_equal(twin_fixed_sum(TWIN_F32, p, 2, 4, 2, 2, 1, out, NULL), TWIN_EINVAL);
    assert_int_equal(twin_fixed_sum(TWIN_F32, p, 1, 4, 2, 0, 1, out, NULL), TWIN_EINVAL);
    assert_int_equal(twin_fixed_sum(TWIN_F32, p, 2, 4, 2, 1, 1, out, NULL), TWIN_EINVAL);
    assert_int_equal(twin_fixed_sum(TWIN_F32, p, -1, 4, 2, 1, 1, out, NULL), TWIN_EINVAL);
    assert_int_equal(twin_fixed_sum(TWIN_F32, NULL, 1, 4, 2, 1, 1, out, NULL), TWIN_EINVAL);
    assert_true(sum[0] == 0 && out[0] == 9);
}

/* Another mode is refused; flags and masks of exceptions stay. */
static void test_floating_point_mode(void **state)
{
    (void)state;
    static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    const double x[2] = {0x1p-1074, 1};
    const void *p[1] = {x};
    uint16_t e[2] = {0};
    int64_t sum[2] = {0};
    double out[2] = {9, 9};
    struct twin_error err = TWIN_ERROR_INIT;
    assert_int_equal(twin_fixed_exponents(TWIN_F64, x, 2, 1, e, NULL), 0);
    for (size_t m = 0; m < 3; m++) {
        assert_int_equal(fesetround(modes[m]), 0);
        const int rc = twin_fixed_add(TWIN_F64, x, 2, 1, 1, e, NULL, sum, &err);
        const int rc2 = twin_fixed_round(TWIN_F64, sum, 2, 1, 1, 1, e, NULL, out, NULL);
        const int rc3 = twin_fixed_sum(TWIN_F64, p, 1, 2, 1, 1, 1, out, NULL), mode = fegetround();
        fesetround(FE_TONEAREST);
        assert_true(rc == TWIN_EINVAL && rc2 == TWIN_EINVAL && rc3 == TWIN_EINVAL &&
                    mode == modes[m]);
    }
    assert_non_null(strstr(err.message, "default floating-point mode"));
#if defined(__x86_64__)
    static const unsigned flush[] = {0x8000, 0x40};
    for (size_t m = 0; m < 2; m++) {
        const unsigned csr = _mm_getcsr();
        _mm_setcsr(csr | flush[m]);
        const int rc = twin_fixed_sum(TWIN_F64, p, 1, 2, 1, 1, 1, out, NULL);
        const unsigned after = _mm_getcsr();
        _mm_setcsr(csr);
        assert_int_equal(rc, TWIN_EINVAL);
        assert_int_equal(after, csr | flush[m]);
    }
#endif
    assert_true(sum[0] == 0 && out[0] == 9);
    feclearexcept(FE_ALL_EXCEPT);
    const int trapping = feenableexcept(FE_INVALID | FE_OVERFLOW);
    const double huge[2] = {1.7e308, INFINITY};
    const void *both[2] = {huge, huge};
    const int rc = twin_fixed_sum(TWIN_F64, both, 2, 2, 1, 2, 1, out, NULL);
    fedisableexcept(FE_INVALID | FE_OVERFLOW);
    feenableexcept(trapping);
    assert_int_equal(rc, 0);
    assert_int_equal(fetestexcept(FE_ALL_EXCEPT), 0);
    assert_true(isinf(out[0]) && isinf(out[1]));
}

/* Values whose answers are known by heart. */
static void test_by_heart(void **state)
{
    (void)state;
    const float a[6] = {-0.0f, 1, 0x1p127f, NAN, INFINITY, -INFINITY};
    const float b[6] = {-0.0f, -1, 0x1p127f, 1, INFINITY, INFINITY};
    const void *p[2] = {a, b};
    uint32_t out[6];
    assert_int_equal(twin_fixed_sum(TWIN_F32, p, 2, 6, 1, 2, 1, out, NULL), 0);
    assert_int_equal(out[0], 0);          /* +0 where all are -0 */
    assert_int_equal(out[1], 0);          /* +0 where they cancel */
    assert_int_equal(out[2], 0x7F800000); /* overflow */
    assert_int_equal(out[3], 0x7FC00000);
    assert_int_equal(out[4], 0x7F800000);
    assert_int_equal(out[5], 0x7FC00000);
    assert_int_equal(twin_fixed_sum(TWIN_F32, p, 2, 3, 1, 2, 2, out, NULL), 0);
    assert_int_equal(out[2], 0x7F000000); /* the mean does not overflow on the way */
    const float tiny[1] = {-0x1p-149f};
    const void *q[1] = {tiny};
    assert_int_equal(twin_fixed_sum(TWIN_F32, q, 1, 1, 1, 1, 2, out, NULL), 0);
    assert_int_equal(out[0], 0x80000000); /* rounds to zero, and keeps its sign */
    const float mean[1] = {1};
    const void *three[3] = {mean, mean, mean};
    assert_int_equal(twin_fixed_sum(TWIN_F32, three, 1, 1, 1, 3, 3, out, NULL), 0);
    assert_int_equal(out[0], 0x3EAAAAAB);
    assert_int_equal(twin_fixed_sum(TWIN_F32, three, 3, 1, 1, 3, 3, out, NULL), 0);
    assert_int_equal(out[0], 0x3F800000);
    assert_int_equal(twin_fixed_sum(TWIN_F32, NULL, 0, 1, 1, 3, 3, out, NULL), 0);
    assert_int_equal(out[0], 0); /* a sum of nothing */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_heart),
        cmocka_unit_test(test_wrong_use),
        cmocka_unit_test(test_floating_point_mode),
        cmocka_unit_test(test_close_quotients),
        cmocka_unit_test(test_element_reference),
        cmocka_unit_test(test_correctly_rounded),
        cmocka_unit_test(test_against_mpfr),
        cmocka_unit_test(test_edge_of_f64),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
