/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exact sums against MPFR, at a precision that makes each of its additions exact: many kinds of
 * numbers, every operation, length, misalignment, instruction set, order and way of cutting.
 * TWINRUN_FULL=1: 1e5 cases for each type, some minutes; not where sanitizers would make an hour of
 * them.
 */
#include "exact_oracle.h"
#include "sanitized.h"

#define FULL (!SANITIZED && getenv("TWINRUN_FULL") != NULL)
#define PRECISION 4500 /* bits: from 2^-2148 to above 2^2048 * 5000 */
#define LONGEST 5000

static void oracle(mpfr_t sum, enum tw_op op, enum twin_dtype dtype, const char *x, const char *y,
                   size_t n)
{
    const struct shape s = shape_of(dtype);
    const size_t size = twin_dtype_size(dtype);
    mpfr_t a, b, term;
    mpfr_inits2(53, a, b, (mpfr_ptr)0);
    mpfr_init2(term, 106);
    mpfr_set_zero(sum, 1);
    for (size_t i = 0; i < n; i++) {
        mpfr_set_d(a, decode(s, element(x, i, size)), MPFR_RNDN);
        mpfr_set_d(b,
                   op == TW_PRODUCT  ? decode(s, element(y, i, size))
                   : op == TW_SQUARE ? mpfr_get_d(a, MPFR_RNDN)
                                     : 1,
                   MPFR_RNDN);
        int inexact = mpfr_mul(term, a, b, MPFR_RNDN);
        if (op == TW_ABS)
            mpfr_abs(term, term, MPFR_RNDN);
        inexact |= i ? mpfr_add(sum, sum, term, MPFR_RNDN) : mpfr_set(sum, term, MPFR_RNDN);
        assert_int_equal(inexact, 0);
    }
    mpfr_clears(a, b, term, (mpfr_ptr)0);
}

struct sample {
    enum tw_op op;
    enum how how;
    enum twin_dtype dtype;
    size_t n;
    char *x, *y;
};

static void check_rounded(const struct twin_acc *acc, const mpfr_t sum, const struct sample *c,
                          const char *set)
{
    for (size_t t = 0; t < DTYPES; t++) {
        const struct shape s = shape_of(dtypes[t]);
        uint64_t bits = 0;
        assert_int_equal(twin_acc_round(acc, dtypes[t], &bits, NULL), 0);
        const double found = decode(s, bits), expected = oracle_round(sum, dtypes[t]);
        const uint64_t canonical = ((((uint64_t)1 << s.exponent) - 1) << s.fraction) |
                                   (uint64_t)1 << (s.fraction - 1);
        if (isnan(expected) ? bits != canonical : memcmp(&found, &expected, sizeof found) != 0)
            fail_msg(
                "%s: operation %d, numbers %d, %zu of %s, rounded to %s: expected %a, found %a",
                set, (int)c->op, (int)c->how, c->n, twin_dtype_name(c->dtype),
                twin_dtype_name(dtypes[t]), expected, found);
    }
}

/* The same terms in another order, cut into pieces whose sums are merged, some of them by way of
 * bytes. */
static void add_cut(struct twin_acc *acc, const struct sample *c, uint64_t *seed)
{
    const size_t size = twin_dtype_size(c->dtype);
    for (size_t i = 0; i < c->n;) {
        const size_t left = c->n - i;
        const size_t m = 1 + random_bits(seed) % (random_bits(seed) % 2 && left > 40 ? 40 : left);
        struct twin_acc part;
        unsigned char bytes[TWIN_ACC_BYTES];
        twin_acc_init(&part);
        assert_int_equal(add_op(&part, c->op, c->dtype, c->x + i * size, c->y + i * size, m), 0);
        if (m % 2) {
            twin_acc_write(&part, bytes);
            assert_int_equal(twin_acc_read(&part, bytes, sizeof bytes, NULL), 0);
        }
        assert_int_equal(twin_acc_merge(acc, &part, NULL), 0);
        i += m;
    }
}

static void check_sample(struct sample *c, uint64_t *seed)
{
    struct twin_acc first, acc;
    const char *name;
    mpfr_t sum;
    mpfr_init2(sum, PRECISION);
    oracle(sum, c->op, c->dtype, c->x, c->y, c->n);
    for (size_t i = 0; use_set(i, &name); i++) {
        twin_acc_init(&acc);
        assert_int_equal(add_op(&acc, c->op, c->dtype, c->x, c->y, c->n), 0);
        if (i == 0) {
            check_rounded(&acc, sum, c, name);
            first = acc;
        } else if (memcmp(&acc, &first, sizeof acc) != 0) {
            fail_msg("%s differs from plain C: operation %d, numbers %d, %zu of %s", name,
                     (int)c->op, (int)c->how, c->n, twin_dtype_name(c->dtype));
        }
    }
    if (c->op != TW_PRODUCT)
        shuffle(c->x, c->n, twin_dtype_size(c->dtype), seed);
    use_set(random_bits(seed) % 2, &name);
    twin_acc_init(&acc);
    add_cut(&acc, c, seed);
    if (memcmp(&acc, &first, sizeof acc) != 0)
        fail_msg("order or cuts matter: operation %d, numbers %d, %zu of %s", (int)c->op,
                 (int)c->how, c->n, twin_dtype_name(c->dtype));
    mpfr_clear(sum);
}

static void test_mpfr(void **state)
{
    (void)state;
    const size_t cases = FULL ? 100000 : 512;
    char *memory = malloc(2 * (8 * LONGEST + 64));
    assert_non_null(memory);
    for (size_t t = 0; t < DTYPES; t++)
        for (size_t i = 0; i < cases; i++) {
            uint64_t seed = (t * cases + i) << 32;
            struct sample c = {.op = (enum tw_op)(i % TW_OPS),
                               .how = (enum how)(i / TW_OPS % HOWS),
                               .dtype = dtypes[t]};
            const uint64_t r = random_bits(&seed);
            c.n = r % (r >> 32 & 31 ? 70 : r >> 37 & 1 ? 700 : LONGEST + 1);
            c.x = memory + random_bits(&seed) % 64;
            c.y = memory + 8 * LONGEST + 64 + random_bits(&seed) % 64;
            fill(c.x, c.n, c.dtype, c.how, &seed);
            fill(c.y, c.n, c.dtype,
                 random_bits(&seed) % 2 ? c.how : (enum how)(random_bits(&seed) % HOWS), &seed);
            check_sample(&c, &seed);
        }
    free(memory);
    mpfr_free_cache();
}

/* Many blocks: sizes that drift from block to block, so that windows are left and chosen anew; the
 * sum is an integer that 128 bits hold. */
static void test_long(void **state)
{
    (void)state;
    const size_t n = FULL ? 10000000 : 60000;
    double *x = malloc(n * sizeof *x);
    assert_non_null(x);
    uint64_t seed = 5;
    for (int how = 0; how < 3; how++) {
        tw_i128 expected = 0;
        for (size_t i = 0; i < n; i++) {
            const int shift = how == 0   ? 0
                              : how == 1 ? (int)(i / 3000 % 40)
                                         : (int)(random_bits(&seed) % 48);
            const int64_t v = (int64_t)random_bits(&seed) >> 12;
            expected += (tw_i128)v * ((int64_t)1 << shift);
            x[i] = ldexp((double)v, shift - 30);
        }
        const char *name;
        mpfr_t sum;
        mpfr_init2(sum, 128);
        mpfr_set_sj(sum, (int64_t)(expected >> 64), MPFR_RNDN);
        mpfr_mul_2si(sum, sum, 64, MPFR_RNDN);
        mpfr_add_d(sum, sum, (double)(uint32_t)((uint64_t)expected >> 32) * 4294967296.0,
                   MPFR_RNDN);
        mpfr_add_d(sum, sum, (double)(uint32_t)expected, MPFR_RNDN);
        mpfr_mul_2si(sum, sum, -30, MPFR_RNDN);
        for (size_t i = 0; use_set(i, &name); i++) {
            struct twin_acc acc;
            const struct sample c = {.op = TW_SUM, .how = LIKE_SIZED, .dtype = TWIN_F64, .n = n};
            twin_acc_init(&acc);
            assert_int_equal(twin_acc_add(&acc, TWIN_F64, x, (int64_t)n, NULL), 0);
            check_rounded(&acc, sum, &c, name);
        }
        mpfr_clear(sum);
    }
    free(x);
    mpfr_free_cache();
}

/* 3 * 2^60 copies of a number, by merging the accumulator with itself. */
static void test_huge_count(void **state)
{
    (void)state;
    uint64_t seed = 9;
    for (int i = 0; i < 200; i++) {
        const struct sample c = {.op = TW_SQUARE, .how = ANY_FINITE, .dtype = TWIN_F64, .n = 3};
        double x[3];
        const char *name = "scalar";
        if (!use_set(1, &name)) /* neither this processor nor SIMDe has another */
            use_set(0, &name);
        fill((char *)x, 3, TWIN_F64, i ? ANY_FINITE : NEAR_OVERFLOW, &seed);
        struct twin_acc acc;
        mpfr_t sum;
        twin_acc_init(&acc);
        mpfr_init2(sum, PRECISION);
        oracle(sum, c.op, c.dtype, (char *)x, NULL, 3);
        assert_int_equal(add_op(&acc, c.op, c.dtype, x, NULL, 3), 0);
        for (int doublings = 0; doublings < 60; doublings++)
            assert_int_equal(twin_acc_merge(&acc, &acc, NULL), 0);
        mpfr_mul_2ui(sum, sum, 60, MPFR_RNDN);
        check_rounded(&acc, sum, &c, name);
        unsigned char bytes[TWIN_ACC_BYTES];
        twin_acc_write(&acc, bytes);
        assert_int_equal(twin_acc_read(&acc, bytes, sizeof bytes, NULL), 0);
        mpfr_clear(sum);
    }
    mpfr_free_cache();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mpfr),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_huge_count),
    };
    return cmocka_run_group_tests_name("exact sums against MPFR", tests, NULL, NULL);
}
