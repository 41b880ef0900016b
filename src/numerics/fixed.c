/* SPDX-License-Identifier: Apache-2.0 */
/* Fixed-point sums that do not depend on the order (<twin/reduce.h>): walks the blocks, gives the
 * ordinary ones to the kernels, and deals with NaN and infinities itself. src/mpi sums over ranks
 * with it.
 *
 * The elements of a block become integers: multiples of a unit that the block's largest exponent
 * and the number of contributions decide, so that no sum overflows 64 bits. Integers are added in
 * any order, then divided and rounded once. A block with NaN or infinities is flagged; its marks
 * ("specials") are kept beside the exponents and merged by MAX, as those are. */
#include <string.h>
#include "fixed_inside.h"
#include "fpenv.h"

int64_t twin_fixed_blocks(int64_t n, int64_t block)
{
    return n < 0 || block < 1 || block > TWIN_FIXED_MAX_BLOCK ? TWIN_EINVAL
                                                              : n / block + (n % block != 0);
}

int twin_fixed_exponent_bytes(enum twin_dtype dtype)
{
    const int kind = tw_kind_of(dtype);
    if (kind < 0)
        return TWIN_EINVAL;
    return kind == TW_F64 ? 2 : 1;
}

int twin_fixed_bits(int64_t total)
{
    if (total < 1 || total > TWIN_FIXED_MAX_TOTAL)
        return TWIN_EINVAL;
    return total == 1 ? 62 : 62 - (64 - __builtin_clzll((uint64_t)total - 1));
}

/* ---- exponents */
int twin_fixed_exponents(enum twin_dtype dtype, const void *x, int64_t n, int64_t block,
                         void *exponents, struct twin_error *err)
{
    struct tw_fixed_job j;
    const int rc = tw_fixed_job_init(&j, dtype, n, block, x && exponents, err);
    if (rc)
        return rc;
    const struct tw_fixed_set *set = tw_fixed_set_in_use();
    for (int64_t b = 0; b * block < n; b++)
        tw_fixed_raise(&j, exponents, b,
                       set->exponent[j.kind](tw_fixed_number_at(&j, x, b * block),
                                             (size_t)tw_fixed_block_length(&j, b)));
    return 0;
}

int64_t twin_fixed_flagged(enum twin_dtype dtype, const void *exponents, int64_t blocks)
{
    struct tw_fixed_job j;
    if (tw_fixed_job_init(&j, dtype, blocks, 1, exponents != NULL, NULL) != 0)
        return TWIN_EINVAL;
    int64_t flagged = 0;
    for (int64_t b = 0; b < blocks; b++)
        flagged += tw_fixed_mark(&j, exponents, b) == j.special;
    return flagged;
}

/* ---- NaN and infinities */
int64_t twin_fixed_specials_count(enum twin_dtype dtype, int64_t block, const void *exponents,
                                  int64_t blocks)
{
    const int64_t flagged = twin_fixed_flagged(dtype, exponents, blocks);
    if (flagged < 0 || block < 1 || block > TWIN_FIXED_MAX_BLOCK)
        return TWIN_EINVAL;
    return flagged * (1 + 2 * block);
}

/* For each flagged block 1 + 2 * block numbers: the largest exponent of its finite elements, then
 * two marks for each element (a short block leaves its last ones alone). */
int twin_fixed_specials(enum twin_dtype dtype, const void *x, int64_t n, int64_t block,
                        const void *exponents, void *specials, struct twin_error *err)
{
    struct tw_fixed_job j;
    const int rc = tw_fixed_job_init(&j, dtype, n, block, x && exponents && specials, err);
    if (rc)
        return rc;
    int64_t base = 0;
    for (int64_t b = 0; b * block < n; b++) {
        if (tw_fixed_mark(&j, exponents, b) != j.special)
            continue;
        for (int64_t i = 0; i < tw_fixed_block_length(&j, b); i++) {
            const uint64_t bits = tw_fixed_element_bits(&j, x, b * block + i);
            const unsigned marks = tw_fixed_marks_of(&j, bits);
            if (!marks)
                tw_fixed_raise(&j, specials, base, tw_fixed_field_of(&j, bits));
            tw_fixed_raise(&j, specials, base + 1 + 2 * i, marks & 1);
            tw_fixed_raise(&j, specials, base + 2 + 2 * i, marks >> 1);
        }
        base += 1 + 2 * block;
    }
    return 0;
}

/* ---- the steps */

/* Elements of flagged blocks are scaled by the exponent among the specials. */
int twin_fixed_add(enum twin_dtype dtype, const void *x, int64_t n, int64_t block, int64_t total,
                   const void *exponents, const void *specials, int64_t *sum,
                   struct twin_error *err)
{
    struct tw_fixed_job j;
    int rc = tw_fixed_job_init(&j, dtype, n, block, x && exponents && sum, err);
    if (!rc)
        rc = tw_fixed_check_total(total, 1, err);
    if (!rc)
        rc = tw_fixed_need_specials(&j, dtype, exponents, specials, err);
    if (rc)
        return rc;
    const struct tw_fpenv env = tw_fpenv_enter();
    const bool standard = tw_fpenv_is_standard(env);
    const struct tw_fixed_set *set = tw_fixed_set_in_use();
    const int bits = twin_fixed_bits(total);
    struct tw_fixed_walk w = {exponents, specials, 0};
    for (int64_t b = 0; standard && b * block < n; b++) {
        uint32_t field;
        int64_t base;
        const bool special = tw_fixed_walk_block(&j, &w, b, &field, &base);
        const struct tw_fixed_unit u = tw_fixed_unit_of(j.kind, field, bits);
        tw_fixed_add_block(set, &j, tw_fixed_number_at(&j, x, b * block),
                           tw_fixed_block_length(&j, b), &u, special, sum + b * block);
    }
    tw_fpenv_leave(env);
    return standard ? 0 : tw_fixed_refuse_mode(err);
}

/* Elements with marks become what the marks stand for, whatever their sum is. */
int twin_fixed_round(enum twin_dtype dtype, const int64_t *sum, int64_t n, int64_t block,
                     int64_t total, int64_t divisor, const void *exponents, const void *specials,
                     void *out, struct twin_error *err)
{
    struct tw_fixed_job j;
    int rc = tw_fixed_job_init(&j, dtype, n, block, sum && exponents && out, err);
    if (!rc)
        rc = tw_fixed_check_total(total, divisor, err);
    if (!rc)
        rc = tw_fixed_need_specials(&j, dtype, exponents, specials, err);
    if (rc)
        return rc;
    const struct tw_fpenv env = tw_fpenv_enter();
    const bool standard = tw_fpenv_is_standard(env);
    const struct tw_fixed_set *set = tw_fixed_set_in_use();
    const int bits = twin_fixed_bits(total);
    struct tw_fixed_walk w = {exponents, specials, 0};
    for (int64_t b = 0; standard && b * block < n; b++) {
        uint32_t field;
        int64_t base;
        const int64_t length = tw_fixed_block_length(&j, b);
        char *to = (char *)out + (size_t)(b * block) * j.size;
        const bool special = tw_fixed_walk_block(&j, &w, b, &field, &base);
        tw_fixed_round_block(set, &j, sum + b * block, length, divisor,
                             tw_fixed_unit_exponent(j.kind, field, bits), to);
        if (special)
            tw_fixed_put_marks(&j, specials, base, length, to);
    }
    tw_fpenv_leave(env);
    return standard ? 0 : tw_fixed_refuse_mode(err);
}

/* ---- all contributions in one place */

/* The fields of a block over all contributions. f64 has no smallest one: 0, the widest. */
static struct tw_fixed_extent extent_of_block(const struct tw_fixed_set *set,
                                              const struct tw_fixed_job *j, const void *const *x,
                                              int64_t count, int64_t first, int64_t length)
{
    struct tw_fixed_extent all = {0, j->kind == TW_F64 ? 0 : UINT32_MAX};
    for (int64_t c = 0; c < count; c++) {
        const char *from = tw_fixed_number_at(j, x[c], first);
        struct tw_fixed_extent e = {0, 0};
        if (j->kind == TW_F64)
            e.largest = set->exponent[j->kind](from, (size_t)length);
        else
            e = set->extent[j->kind](from, (size_t)length);
        all.largest = e.largest > all.largest ? e.largest : all.largest;
        all.smallest = e.smallest < all.smallest ? e.smallest : all.smallest;
    }
    return all;
}

/* The largest field of the finite elements of a block that has others, too. */
static uint32_t finite_field(const struct tw_fixed_job *j, const void *const *x, int64_t count,
                             int64_t first, int64_t length)
{
    uint32_t field = 0;
    for (int64_t c = 0; c < count; c++)
        for (int64_t i = 0; i < length; i++) {
            const uint32_t f = tw_fixed_field_of(j, tw_fixed_element_bits(j, x[c], first + i));
            field = f != j->special && f > field ? f : field;
        }
    return field;
}

/*
 * Whether sums of a block in f64, in any order, have the bits that sums of integers have.
 *
 * Let F be the bits of the type's fraction, and `low` and `high` the exponents of the smallest
 * element that is not zero and of the largest (fields, those of subnormals being 1, less the bias).
 * Every element is a whole multiple of u = 2^(low - F), and smaller than 2^(high + 1).
 *
 * - Any partial sum of `count` elements is a multiple of u and smaller than
 *   2^(high + 1 + ceil(log2 count)). If that is at most 2^53 u, f64 holds each of them exactly:
 *   high - low <= 52 - F - ceil(log2 count). u is at least 2^-149, far above what f64 can hold.
 * - Integers count units of 2^(high + 1 - B). If u is a multiple of that, no element is rounded on
 *   its way to an integer: high - low <= B - 1 - F. Both sums are then the exact one.
 *
 * A divisor that is a power of two leaves an f64 exact (2^-149 / 2^31 is a normal one), so that
 * both round the same number once. For f64 there is no wider type.
 */
static bool narrow(const struct tw_fixed_job *j, struct tw_fixed_extent e, int64_t count, int bits,
                   int64_t divisor)
{
    if (j->kind == TW_F64 || e.largest == j->special || (divisor & (divisor - 1)))
        return false;
    const int fraction = tw_float_formats[j->kind].fraction;
    const int exact = 52 - fraction - tw_fixed_ceil_log2(count), whole = bits - 1 - fraction;
    const int high = e.largest ? (int)e.largest : 1;
    if (e.smallest > j->special) /* zeros alone */
        return true;
    const int low = e.smallest ? (int)e.smallest : 1;
    return high - low <= exact && high - low <= whole;
}

/* Elements first to first + length of all contributions, where f64 holds their sums. A chunk is
 * read before any of it is written: out may be one of the contributions. */
static void sum_in_f64(const struct tw_fixed_set *set, const struct tw_fixed_job *j,
                       const void *const *x, int64_t count, int64_t first, int64_t length,
                       double scale, char *out)
{
    double sum[TW_FIXED_IN_L1];
    for (int64_t i = 0; i < length; i += TW_FIXED_IN_L1) {
        const int64_t m = length - i < TW_FIXED_IN_L1 ? length - i : TW_FIXED_IN_L1;
        set->gather[j->kind](x, (size_t)count, (size_t)(first + i), (size_t)m, sum);
        set->finish[j->kind](sum, (size_t)m, scale, out + (size_t)(first + i) * j->size);
    }
}

/* A block of all contributions: in f64 where that is exact, else exponent, integers and rounding in
 * one go, a chunk at a time on the stack. */
static void sum_block(const struct tw_fixed_set *set, const struct tw_fixed_job *j,
                      const void *const *x, int64_t count, int64_t first, int64_t total,
                      int64_t divisor, char *out)
{
    const int64_t length = tw_fixed_block_length(j, first / j->block);
    const int bits = twin_fixed_bits(total);
    const struct tw_fixed_extent extent = extent_of_block(set, j, x, count, first, length);
    if (narrow(j, extent, count, bits, divisor)) {
        sum_in_f64(set, j, x, count, first, length, 1 / (double)divisor, out);
        return;
    }
    const bool special = extent.largest == j->special;
    const uint32_t field = special ? finite_field(j, x, count, first, length) : extent.largest;
    const struct tw_fixed_unit u = tw_fixed_unit_of(j->kind, field, bits);
    int64_t sum[TW_FIXED_CHUNK];
    uint8_t marks[TW_FIXED_CHUNK]; /* known before anything is stored: out may be one of x */
    for (int64_t i = 0; i < length; i += TW_FIXED_CHUNK) {
        const int64_t m = length - i < TW_FIXED_CHUNK ? length - i : TW_FIXED_CHUNK;
        char *to = out + (size_t)(first + i) * j->size;
        memset(sum, 0, (size_t)m * sizeof *sum);
        memset(marks, 0, (size_t)m);
        for (int64_t c = 0; c < count; c++) {
            tw_fixed_add_block(set, j, tw_fixed_number_at(j, x[c], first + i), m, &u, special, sum);
            for (int64_t k = 0; special && k < m; k++)
                marks[k] |= (uint8_t)tw_fixed_marks_of(
                    j, tw_fixed_element_bits(j, x[c], first + i + k));
        }
        tw_fixed_round_block(set, j, sum, m, divisor, tw_fixed_unit_exponent(j->kind, field, bits),
                             to);
        for (int64_t k = 0; special && k < m; k++)
            if (marks[k])
                tw_fixed_put_element(j, to, k, tw_fixed_from_marks(j, marks[k]));
    }
}

/* The steps above in one, for contributions that are all in memory. */
int twin_fixed_sum(enum twin_dtype dtype, const void *const *x, int64_t count, int64_t n,
                   int64_t block, int64_t total, int64_t divisor, void *out, struct twin_error *err)
{
    struct tw_fixed_job j;
    int rc = tw_fixed_job_init(&j, dtype, n, block, (x || count == 0) && out, err);
    if (!rc)
        rc = tw_fixed_check_total(total, divisor, err);
    if (!rc && (count < 0 || count > total))
        rc = twin_error_set(err, TWIN_EINVAL,
                            "order-free sum: %lld contributions here of %lld in all",
                            (long long)count, (long long)total);
    for (int64_t c = 0; !rc && n > 0 && c < count; c++)
        if (!x[c])
            rc = twin_error_set(err, TWIN_EINVAL, "order-free sum: contribution %lld is NULL",
                                (long long)c);
    if (rc)
        return rc;
    const struct tw_fpenv env = tw_fpenv_enter();
    const bool standard = tw_fpenv_is_standard(env);
    const struct tw_fixed_set *set = tw_fixed_set_in_use();
    for (int64_t first = 0; standard && first < n; first += block)
        sum_block(set, &j, x, count, first, total, divisor, out);
    tw_fpenv_leave(env);
    return standard ? 0 : tw_fixed_refuse_mode(err);
}
