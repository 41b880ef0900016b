/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums along an axis and by index against MPFR: every kind of numbers, type, shape and instruction
 * set; rows in another order; wrong use; memory that is not there. TWINRUN_FULL=1: fifty times as
 * many cases.
 */
#include <fenv.h>
#include <twin/scatter.h>
#include "exact_oracle.h"
#include "sanitized.h"

#define PRECISION 2300 /* bits: sums of some thousand numbers, from 2^-1074 to above 2^1024 */
#define MOST 6000      /* elements of an array */

static unsigned cases(void)
{
    if (SANITIZED)
        return 300;
    return getenv("TWINRUN_FULL") ? 50000 : 1000;
}

static const char *const sets[] = {"scalar", "avx2", "avx512"};

static bool force(size_t i)
{
    tw_exact_use(NULL);
    return twin_fingerprint_force(sets[i], NULL) == 0;
}

static void add_element(mpfr_t sum, const char *x, size_t i, enum twin_dtype dtype, bool first)
{
    mpfr_t term;
    mpfr_init2(term, 53);
    mpfr_set_d(term, decode(shape_of(dtype), element(x, i, twin_dtype_size(dtype))), MPFR_RNDN);
    assert_int_equal(first ? mpfr_set(sum, term, MPFR_RNDN) : mpfr_add(sum, sum, term, MPFR_RNDN),
                     0);
    mpfr_clear(term);
}

/* Whether the bits of a type are that value; NaN: the canonical one. */
static bool is_rounded(uint64_t bits, double expected, struct shape s)
{
    const double found = decode(s, bits);
    const uint64_t canonical = ((((uint64_t)1 << s.exponent) - 1) << s.fraction) |
                               (uint64_t)1 << (s.fraction - 1);
    return isnan(expected) ? bits == canonical : memcmp(&found, &expected, sizeof found) == 0;
}

static void check(const mpfr_t sum, const char *out, size_t i, enum twin_dtype dtype,
                  const char *what, enum how how)
{
    const uint64_t bits = element(out, i, twin_dtype_size(dtype));
    const double expected = oracle_round(sum, dtype);
    if (!is_rounded(bits, expected, shape_of(dtype)))
        fail_msg("%s, numbers %d, element %zu of %s: expected %a, found %a", what, (int)how, i,
                 twin_dtype_name(dtype), expected, decode(shape_of(dtype), bits));
}

/* ---- along an axis */
static void check_axis(size_t number, char *x, char *out)
{
    uint64_t seed = (uint64_t)number << 32;
    const enum twin_dtype dtype = dtypes[number % DTYPES], to = dtypes[random_bits(&seed) % DTYPES];
    const enum how how = (enum how)(number / DTYPES % HOWS);
    const size_t inner = random_bits(&seed) % 3   ? 1 + random_bits(&seed) % 12
                         : random_bits(&seed) % 2 ? 1
                                                  : 250 + random_bits(&seed) % 12;
    const size_t n = random_bits(&seed) % (random_bits(&seed) % 4 ? 20 : MOST / inner);
    const size_t outer = 1 + random_bits(&seed) % 3;
    mpfr_t sum;
    mpfr_init2(sum, PRECISION);
    x += random_bits(&seed) % 16, out += random_bits(&seed) % 16;
    fill(x, outer * n * inner, dtype, how, &seed);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        if (!force(i))
            continue;
        memset(out, 0xA5, 8 * outer * inner);
        assert_int_equal(
            twin_sum_axis(dtype, x, (int64_t)outer, (int64_t)n, (int64_t)inner, to, out, NULL), 0);
        for (size_t o = 0; o < outer * inner; o++) {
            mpfr_set_zero(sum, 1);
            for (size_t k = 0; k < n; k++)
                add_element(sum, x, (o / inner * n + k) * inner + o % inner, dtype, k == 0);
            check(sum, out, o, to, sets[i], how);
        }
    }
    mpfr_clear(sum);
}

static void test_axis(void **state)
{
    (void)state;
    char *x = malloc(3 * 8 * MOST + 16), *out = malloc(3 * 8 * MOST + 16);
    assert_true(x && out);
    for (size_t i = 0; i < cases(); i++)
        check_axis(i, x, out);
    free(x);
    free(out);
    mpfr_free_cache();
}

/* ---- by index */
struct job {
    enum twin_dtype dtype;
    enum how how;
    size_t n, columns, targets;
    char rows[8 * MOST + 16], base[8 * MOST + 16], out[8 * MOST + 16], first[8 * MOST + 16];
    int64_t index[MOST];
};

static void draw_job(struct job *j, size_t number, uint64_t *seed)
{
    j->dtype = dtypes[number % DTYPES];
    j->how = (enum how)(number / DTYPES % HOWS);
    j->columns = random_bits(seed) % 2   ? 1
                 : random_bits(seed) % 4 ? 2 + random_bits(seed) % 9
                                         : 250 + random_bits(seed) % 12;
    j->n = random_bits(seed) % (MOST / j->columns + 1);
    if (random_bits(seed) % 4)
        j->n %= 100;
    j->targets = 1 + random_bits(seed) % (MOST / j->columns);
    if (random_bits(seed) % 2)
        j->targets = 1 + j->targets % 10;
    fill(j->rows, j->n * j->columns, j->dtype, j->how, seed);
    fill(j->base, j->targets * j->columns, j->dtype, random_bits(seed) % 2 ? j->how : ZEROS, seed);
    for (size_t r = 0; r < j->n; r++)
        j->index[r] = (int64_t)(random_bits(seed) % (random_bits(seed) % 8 ? j->targets : 1));
}

/* Expectation for each element; the bits for one that nothing was added to. */
static void check_job(const struct job *j, const char *set)
{
    const size_t size = twin_dtype_size(j->dtype);
    mpfr_t sum;
    mpfr_init2(sum, PRECISION);
    for (size_t t = 0; t < j->targets; t++)
        for (size_t c = 0; c < j->columns; c++) {
            const size_t at = t * j->columns + c;
            bool any = false;
            add_element(sum, j->base, at, j->dtype, true);
            for (size_t r = 0; r < j->n; r++)
                if ((size_t)j->index[r] == t) {
                    add_element(sum, j->rows, r * j->columns + c, j->dtype, false);
                    any = true;
                }
            if (any)
                check(sum, j->out, at, j->dtype, set, j->how);
            else
                assert_memory_equal(j->out + at * size, j->base + at * size, size);
        }
    mpfr_clear(sum);
}

static void run_job(struct job *j)
{
    memcpy(j->out, j->base, sizeof j->out);
    assert_int_equal(twin_index_add(j->dtype, j->rows, j->index, (int64_t)j->n, (int64_t)j->columns,
                                    j->out, (int64_t)j->targets, NULL),
                     0);
}

static void swap_rows(struct job *j, size_t a, size_t b)
{
    const size_t size = twin_dtype_size(j->dtype) * j->columns;
    for (size_t k = 0; k < size; k++) {
        const char t = j->rows[a * size + k];
        j->rows[a * size + k] = j->rows[b * size + k];
        j->rows[b * size + k] = t;
    }
    const int64_t t = j->index[a];
    j->index[a] = j->index[b];
    j->index[b] = t;
}

static void test_index(void **state)
{
    (void)state;
    struct job *j = malloc(sizeof *j);
    assert_non_null(j);
    for (size_t number = 0; number < cases(); number++) {
        uint64_t seed = (uint64_t)number << 32 | 1;
        const size_t bytes = sizeof j->out;
        draw_job(j, number, &seed);
        for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
            if (!force(i))
                continue;
            run_job(j);
            if (i == 0) {
                check_job(j, sets[i]);
                memcpy(j->first, j->out, bytes);
            } else {
                assert_memory_equal(j->out, j->first,
                                    j->targets * j->columns * twin_dtype_size(j->dtype));
            }
        }
        for (size_t r = j->n; r > 1; r--)
            swap_rows(j, r - 1, random_bits(&seed) % r);
        run_job(j);
        assert_memory_equal(j->out, j->first, j->targets * j->columns * twin_dtype_size(j->dtype));
    }
    free(j);
    mpfr_free_cache();
}

/* ---- wrong use leaves everything as it was */
static void refused(int expected, const char *part, int rc, const struct twin_error *err)
{
    assert_int_equal(rc, expected);
    if (!strstr(err->message, part))
        fail_msg("expected \"%s\" in: %s", part, err->message);
}

static void test_wrong_use(void **state)
{
    (void)state;
    const double x[4] = {1, 2, 3, 4};
    double out[4] = {5, 6, 7, 8};
    const double before[4] = {5, 6, 7, 8};
    int64_t index[4] = {0, 1, 2, 4};
#define REFUSED(code, part, call)                     \
    do {                                              \
        struct twin_error err = TWIN_ERROR_INIT;      \
        refused(code, part, call, &err);              \
        assert_memory_equal(out, before, sizeof out); \
    } while (0)
    REFUSED(TWIN_EINVAL, "index[3] is 4; expected 0 to 3",
            twin_index_add(TWIN_F64, x, index, 4, 1, out, 4, &err));
    index[3] = -1;
    REFUSED(TWIN_EINVAL, "index[3] is -1", twin_index_add(TWIN_F64, x, index, 4, 1, out, 4, &err));
    index[3] = 0;
    REFUSED(TWIN_EINVAL, "index[0] is 0; expected 0 to -1",
            twin_index_add(TWIN_F64, x, index, 4, 1, out, 0, &err));
    REFUSED(TWIN_EINVAL, "i64", twin_index_add(TWIN_I64, x, index, 4, 1, out, 4, &err));
    REFUSED(TWIN_EINVAL, "-1 rows", twin_index_add(TWIN_F64, x, index, -1, 1, out, 4, &err));
    REFUSED(TWIN_EINVAL, "expected 0 or more",
            twin_index_add(TWIN_F64, x, index, INT64_MAX, 3, out, 4, &err));
    REFUSED(TWIN_EINVAL, "index is NULL", twin_index_add(TWIN_F64, x, NULL, 4, 1, out, 4, &err));
    REFUSED(TWIN_EINVAL, "rows is NULL", twin_index_add(TWIN_F64, NULL, index, 4, 1, out, 4, &err));
    REFUSED(TWIN_EINVAL, "out is NULL", twin_index_add(TWIN_F64, x, index, 4, 1, NULL, 4, &err));
    REFUSED(TWIN_EINVAL, "i64", twin_sum_axis(TWIN_I64, x, 1, 4, 1, TWIN_F64, out, &err));
    REFUSED(TWIN_EINVAL, "i64", twin_sum_axis(TWIN_F64, x, 1, 4, 1, TWIN_I64, out, &err));
    REFUSED(TWIN_EINVAL, "1 x -4 x 1", twin_sum_axis(TWIN_F64, x, 1, -4, 1, TWIN_F64, out, &err));
    REFUSED(TWIN_EINVAL, "expected 0 or more",
            twin_sum_axis(TWIN_F64, x, INT64_MAX, 4, 1, TWIN_F64, out, &err));
    REFUSED(TWIN_EINVAL, "x is NULL", twin_sum_axis(TWIN_F64, NULL, 1, 4, 1, TWIN_F64, out, &err));
    REFUSED(TWIN_EINVAL, "out is NULL", twin_sum_axis(TWIN_F64, x, 1, 4, 1, TWIN_F64, NULL, &err));
    assert_int_equal(fesetround(FE_UPWARD), 0);
    REFUSED(TWIN_EINVAL, "to nearest", twin_index_add(TWIN_F64, x, index, 4, 1, out, 4, &err));
    REFUSED(TWIN_EINVAL, "to nearest", twin_sum_axis(TWIN_F64, x, 1, 4, 1, TWIN_F64, out, &err));
    assert_int_equal(fesetround(FE_TONEAREST), 0);
    assert_int_equal(twin_index_add(TWIN_F64, NULL, NULL, 0, 3, NULL, 0, NULL), 0);
    assert_int_equal(twin_index_add(TWIN_F64, NULL, index, 4, 0, NULL, 4, NULL), 0);
    assert_int_equal(twin_sum_axis(TWIN_F64, NULL, 0, 3, 2, TWIN_F64, NULL, NULL), 0);
}

/* Each allocation fails once: an error, and nothing written. The numbers are such that pairs do not
 * hold them. */
static void test_no_memory(void **state)
{
    (void)state;
    const double x[6] = {1e300, 1, 1e-300, 1e300, 1, 1e-300};
    const int64_t index[6] = {0, 0, 0, 1, 1, 1}, *one = index;
    for (int columns = 1; columns <= 2; columns++)
        for (uint64_t fail = 1;; fail++) {
            double out[4] = {1, 2, 3, 4};
            const double before[4] = {1, 2, 3, 4};
            struct twin_error err = TWIN_ERROR_INIT;
            tw_alloc_fail_at(fail, false);
            const int rc = twin_index_add(TWIN_F64, x, columns == 1 ? index : one, 6 / columns,
                                          columns, out, 2, &err);
            tw_alloc_fail_at(0, false);
            if (rc == 0) {
                assert_int_equal(fail, columns == 1 ? 3 : 2);
                break;
            }
            assert_int_equal(rc, TWIN_ENOMEM);
            assert_memory_equal(out, before, sizeof out);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_axis),
        cmocka_unit_test(test_index),
        cmocka_unit_test(test_wrong_use),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("sums along an axis and by index against MPFR", tests, NULL,
                                       NULL);
}
