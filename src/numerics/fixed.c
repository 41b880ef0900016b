/* SPDX-License-Identifier: Apache-2.0 */
/* Fixed-point sums that do not depend on the order (<twin/reduce.h>): walks the blocks, gives the
 * ordinary ones to the kernels, and deals with NaN and infinities itself. src/mpi sums over ranks
 * with it.
 *
 * The elements of a block become integers: multiples of a unit that the block's largest exponent
 * and the number of contributions decide, so that no sum overflows 64 bits. Integers are added in
 * any order, then divided and rounded once. A block with NaN or infinities is flagged; its marks
 * ("specials") are kept beside the exponents and merged by MAX, as those are. */
#include <stdatomic.h>
#include <string.h>
#include "fixed_inside.h"
#include "fpenv.h"

/* ---- which instruction set */
static const struct tw_fixed_set *const sets[] = {
#ifdef TW_HAVE_AVX512
    &tw_fixed_avx512,
#endif
#ifdef TW_HAVE_AVX2
    &tw_fixed_avx2,
#endif
    &tw_fixed_plain, /* what the processor's whole family has: SSE2, NEON */
};
static _Atomic(const struct tw_fixed_set *) forced;

void tw_fixed_use(const struct tw_fixed_set *set)
{
    atomic_store(&forced, set);
}

/* The set that the fingerprint uses, or plain C. */
static const struct tw_fixed_set *fixed_set(void)
{
    const struct tw_fixed_set *set = atomic_load(&forced);
    const char *name = twin_fingerprint_isa();
    for (size_t i = 0; !set && i < sizeof sets / sizeof *sets; i++)
        if (!strcmp(name, sets[i]->name))
            set = sets[i];
    return set ? set : &tw_fixed_plain;
}

/* ---- arguments */
/* The checked arguments of one call. */
struct job {
    enum tw_kind kind;
    size_t size;      /* bytes of an element */
    uint32_t special; /* the exponent field of NaN and infinities */
    int64_t n, block;
};

/* present: none of the addresses is NULL. */
static int job_init(struct job *j, enum twin_dtype dtype, int64_t n, int64_t block, bool present,
                    struct twin_error *err)
{
    const int kind = tw_kind_of(dtype);
    if (kind < 0)
        return twin_error_set(
            err, TWIN_EINVAL,
            "order-free sum: elements of type %s (%d); expected f64, f32, f16 or bf16",
            twin_dtype_name(dtype), (int)dtype);
    if (n < 0 || (n > 0 && !present))
        return twin_error_set(
            err, TWIN_EINVAL,
            "order-free sum: %lld elements at %s; expected 0 or more at an address", (long long)n,
            present ? "an address" : "NULL");
    if (block < 1 || block > TWIN_FIXED_MAX_BLOCK)
        return twin_error_set(err, TWIN_EINVAL,
                              "order-free sum: blocks of %lld elements; expected 1 to 2^30",
                              (long long)block);
    *j = (struct job){(enum tw_kind)kind, twin_dtype_size(dtype),
                      (1u << tw_float_formats[kind].exponent) - 1, n, block};
    return 0;
}

/* Bounds of the number of contributions and of the divisor. */
static int check_total(int64_t total, int64_t divisor, struct twin_error *err)
{
    if (total < 1 || total > TWIN_FIXED_MAX_TOTAL)
        return twin_error_set(err, TWIN_EINVAL,
                              "order-free sum: %lld contributions in all; expected 1 to 2^31",
                              (long long)total);
    if (divisor < 1 || divisor > TWIN_FIXED_MAX_TOTAL)
        return twin_error_set(err, TWIN_EINVAL, "order-free sum: divisor %lld; expected 1 to 2^31",
                              (long long)divisor);
    return 0;
}

static int refuse_mode(struct twin_error *err)
{
    return twin_error_set(
        err, TWIN_EINVAL,
        "order-free sum: this thread rounds other than to nearest, or takes subnormals for zero; "
        "restore the default floating-point mode (fesetenv(FE_DFL_ENV)) around the call");
}

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
/* Number i of a list of exponents or marks: 2 bytes each for f64, else 1. */
static uint32_t get_mark(const struct job *j, const void *numbers, int64_t i)
{
    if (j->kind != TW_F64)
        return ((const uint8_t *)numbers)[i];
    uint16_t v;
    memcpy(&v, (const char *)numbers + 2 * i, 2);
    return v;
}

/* Sets number i to `value` if that is larger: lists are merged by MAX. */
static void raise_to(const struct job *j, void *numbers, int64_t i, uint32_t value)
{
    if (value <= get_mark(j, numbers, i))
        return;
    const uint16_t v = (uint16_t)value;
    if (j->kind == TW_F64)
        memcpy((char *)numbers + 2 * i, &v, 2);
    else
        ((uint8_t *)numbers)[i] = (uint8_t)value;
}

static const char *number_at(const struct job *j, const void *x, int64_t i)
{
    return (const char *)x + (size_t)i * j->size;
}

/* The last block may be shorter. */
static int64_t block_length(const struct job *j, int64_t b)
{
    const int64_t left = j->n - b * j->block;
    return left < j->block ? left : j->block;
}

int twin_fixed_exponents(enum twin_dtype dtype, const void *x, int64_t n, int64_t block,
                         void *exponents, struct twin_error *err)
{
    struct job j;
    const int rc = job_init(&j, dtype, n, block, x && exponents, err);
    if (rc)
        return rc;
    const struct tw_fixed_set *set = fixed_set();
    for (int64_t b = 0; b * block < n; b++)
        raise_to(&j, exponents, b,
                 set->exponent[j.kind](number_at(&j, x, b * block), (size_t)block_length(&j, b)));
    return 0;
}

int64_t twin_fixed_flagged(enum twin_dtype dtype, const void *exponents, int64_t blocks)
{
    struct job j;
    if (job_init(&j, dtype, blocks, 1, exponents != NULL, NULL) != 0)
        return TWIN_EINVAL;
    int64_t flagged = 0;
    for (int64_t b = 0; b < blocks; b++)
        flagged += get_mark(&j, exponents, b) == j.special;
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

/* The bits of element i. */
static uint64_t element_bits(const struct job *j, const void *x, int64_t i)
{
    uint64_t bits = 0;
    uint32_t word;
    uint16_t half;
    if (j->size == 8) {
        memcpy(&bits, number_at(j, x, i), 8);
        return bits;
    }
    if (j->size == 4) {
        memcpy(&word, number_at(j, x, i), 4);
        return word;
    }
    memcpy(&half, number_at(j, x, i), 2);
    return half;
}

static void put_element(const struct job *j, void *out, int64_t i, uint64_t bits)
{
    const uint32_t word = (uint32_t)bits;
    const uint16_t half = (uint16_t)bits;
    char *to = (char *)out + (size_t)i * j->size;
    switch (j->size) {
    case 8: memcpy(to, &bits, 8); break;
    case 4: memcpy(to, &word, 4); break;
    default: memcpy(to, &half, 2); break;
    }
}

static uint32_t field_of(const struct job *j, uint64_t bits)
{
    return tw_exponent_field(bits, tw_float_formats[j->kind]);
}

/* What an element is when it is not finite: two bits, which are merged by or. */
static unsigned marks_of(const struct job *j, uint64_t bits)
{
    return tw_element_mark(bits, tw_float_formats[j->kind]);
}

static uint64_t from_marks(const struct job *j, unsigned marks)
{
    return tw_marked_element(marks, tw_float_formats[j->kind]);
}

/* For each flagged block 1 + 2 * block numbers: the largest exponent of its finite elements, then
 * two marks for each element (a short block leaves its last ones alone). */
int twin_fixed_specials(enum twin_dtype dtype, const void *x, int64_t n, int64_t block,
                        const void *exponents, void *specials, struct twin_error *err)
{
    struct job j;
    const int rc = job_init(&j, dtype, n, block, x && exponents && specials, err);
    if (rc)
        return rc;
    int64_t base = 0;
    for (int64_t b = 0; b * block < n; b++) {
        if (get_mark(&j, exponents, b) != j.special)
            continue;
        for (int64_t i = 0; i < block_length(&j, b); i++) {
            const uint64_t bits = element_bits(&j, x, b * block + i);
            const unsigned marks = marks_of(&j, bits);
            if (!marks)
                raise_to(&j, specials, base, field_of(&j, bits));
            raise_to(&j, specials, base + 1 + 2 * i, marks & 1);
            raise_to(&j, specials, base + 2 + 2 * i, marks >> 1);
        }
        base += 1 + 2 * block;
    }
    return 0;
}

/* ---- units */
static double power_of_two(int e) /* -1074..1023 */
{
    const uint64_t bits = e < -1022 ? (uint64_t)1 << (e + 1074) : (uint64_t)(e + 1023) << 52;
    double v;
    memcpy(&v, &bits, 8);
    return v;
}

static int unit_exponent(enum tw_kind kind, uint32_t field, int bits)
{
    return tw_unit_exponent(field, bits, tw_float_formats[kind]);
}

/* The constants by which a kernel turns elements of such a block into integers. Two scales, because
 * one power of two may be out of range. */
static struct tw_fixed_unit unit_of(enum tw_kind kind, uint32_t field, int bits)
{
    int up = -unit_exponent(kind, field, bits);
    const int first = up > 1000 ? 1000 : up;
    struct tw_fixed_unit u = {.scale = power_of_two(first),
                              .scale_too = power_of_two(up - first),
                              .shift = bits > 50 ? bits - 50 : 0};
    u.high_magic = 1.5 * power_of_two(52 + u.shift);
    u.low_magic = 0x1.8p52;
    uint64_t high, low;
    memcpy(&high, &u.high_magic, 8);
    memcpy(&low, &u.low_magic, 8);
    u.both_magic = (high << u.shift) + low;
    return u;
}

/* ---- to integer and back, one block */
/* Adds one block's elements, as integers, to sum. What is not finite counts as zero here; its marks
 * are kept elsewhere. */
static void add_block(const struct tw_fixed_set *set, const struct job *j, const void *x, int64_t n,
                      const struct tw_fixed_unit *u, bool special, int64_t *sum)
{
    if (!special) {
        set->add[j->kind](x, (size_t)n, u, sum);
        return;
    }
    uint64_t finite[TW_FIXED_CHUNK]; /* of any type */
    for (int64_t i = 0; i < n; i += TW_FIXED_CHUNK) {
        const int64_t m = n - i < TW_FIXED_CHUNK ? n - i : TW_FIXED_CHUNK;
        memcpy(finite, number_at(j, x, i), (size_t)m * j->size);
        for (int64_t k = 0; k < m; k++)
            if (marks_of(j, element_bits(j, finite, k)))
                put_element(j, finite, k, 0);
        set->add[j->kind](finite, (size_t)m, u, sum + i);
    }
}

/* exponent: that of the sum's unit. divisor is odd. */
static void round_slowly(const struct job *j, const int64_t *sum, int64_t n, int64_t divisor,
                         int exponent, void *out)
{
    for (int64_t i = 0; i < n; i++)
        put_element(
            j, out, i,
            tw_fixed_round_one(sum[i], (uint64_t)divisor, exponent, tw_float_formats[j->kind]));
}

/* Divides and rounds the sums of one block. Powers of two in the divisor go into the exponent,
 * which leaves an odd one; 64 elements at a time, so that one close quotient costs little. */
static void round_block(const struct tw_fixed_set *set, const struct job *j, const int64_t *sum,
                        int64_t n, int64_t divisor, int exponent, char *out)
{
    const int twos = __builtin_ctzll((uint64_t)divisor);
    divisor >>= twos;
    exponent -= twos;
    /* f64 has no wider type that would hold a quotient or a number between two subnormals. */
    if (j->kind == TW_F64 && (divisor > 1 || exponent < -1074)) {
        round_slowly(j, sum, n, divisor, exponent, out);
        return;
    }
    const struct tw_fixed_way w = {(double)divisor, power_of_two(exponent)};
    if (divisor == 1) {
        set->round[j->kind](sum, (size_t)n, w, out);
        return;
    }
    for (int64_t i = 0; i < n; i += 64) { /* so that one close quotient costs little */
        const int64_t m = n - i < 64 ? n - i : 64;
        if (!set->divide[j->kind](sum + i, (size_t)m, w, out + (size_t)i * j->size))
            round_slowly(j, sum + i, m, divisor, exponent, out + (size_t)i * j->size);
    }
}

/* ---- the steps */

/* Whether a block is flagged, and then where its specials lie; steps on from block to block. */
struct walk {
    const void *exponents, *specials;
    int64_t base;
};

/* Goes on to block b. True: it is flagged; *base is where its specials lie, and *field the exponent
 * of its finite elements. Else *field is that of the block. */
static bool walk_block(const struct job *j, struct walk *w, int64_t b, uint32_t *field,
                       int64_t *base)
{
    *field = get_mark(j, w->exponents, b);
    if (*field != j->special)
        return false;
    *base = w->base;
    *field = get_mark(j, w->specials, w->base);
    w->base += 1 + 2 * j->block;
    return true;
}

/* Flagged blocks need their marks: an error without them. */
static int need_specials(const struct job *j, enum twin_dtype dtype, const void *exponents,
                         const void *specials, struct twin_error *err)
{
    const int64_t blocks = twin_fixed_blocks(j->n, j->block);
    if (j->n > 0 && !specials && twin_fixed_flagged(dtype, exponents, blocks) > 0)
        return twin_error_set(err, TWIN_EINVAL,
                              "order-free sum: %lld of %lld blocks hold a NaN or an infinity, and "
                              "specials is NULL; make it with twin_fixed_specials",
                              (long long)twin_fixed_flagged(dtype, exponents, blocks),
                              (long long)blocks);
    return 0;
}

/* Elements of flagged blocks are scaled by the exponent among the specials. */
int twin_fixed_add(enum twin_dtype dtype, const void *x, int64_t n, int64_t block, int64_t total,
                   const void *exponents, const void *specials, int64_t *sum,
                   struct twin_error *err)
{
    struct job j;
    int rc = job_init(&j, dtype, n, block, x && exponents && sum, err);
    if (!rc)
        rc = check_total(total, 1, err);
    if (!rc)
        rc = need_specials(&j, dtype, exponents, specials, err);
    if (rc)
        return rc;
    const struct tw_fpenv env = tw_fpenv_enter();
    const bool standard = tw_fpenv_is_standard(env);
    const struct tw_fixed_set *set = fixed_set();
    const int bits = twin_fixed_bits(total);
    struct walk w = {exponents, specials, 0};
    for (int64_t b = 0; standard && b * block < n; b++) {
        uint32_t field;
        int64_t base;
        const bool special = walk_block(&j, &w, b, &field, &base);
        const struct tw_fixed_unit u = unit_of(j.kind, field, bits);
        add_block(set, &j, number_at(&j, x, b * block), block_length(&j, b), &u, special,
                  sum + b * block);
    }
    tw_fpenv_leave(env);
    return standard ? 0 : refuse_mode(err);
}

/* Elements with marks become what the marks stand for, whatever their sum is. */
int twin_fixed_round(enum twin_dtype dtype, const int64_t *sum, int64_t n, int64_t block,
                     int64_t total, int64_t divisor, const void *exponents, const void *specials,
                     void *out, struct twin_error *err)
{
    struct job j;
    int rc = job_init(&j, dtype, n, block, sum && exponents && out, err);
    if (!rc)
        rc = check_total(total, divisor, err);
    if (!rc)
        rc = need_specials(&j, dtype, exponents, specials, err);
    if (rc)
        return rc;
    const struct tw_fpenv env = tw_fpenv_enter();
    const bool standard = tw_fpenv_is_standard(env);
    const struct tw_fixed_set *set = fixed_set();
    const int bits = twin_fixed_bits(total);
    struct walk w = {exponents, specials, 0};
    for (int64_t b = 0; standard && b * block < n; b++) {
        uint32_t field;
        int64_t base;
        const int64_t length = block_length(&j, b);
        char *to = (char *)out + (size_t)(b * block) * j.size;
        const bool special = walk_block(&j, &w, b, &field, &base);
        round_block(set, &j, sum + b * block, length, divisor, unit_exponent(j.kind, field, bits),
                    to);
        for (int64_t i = 0; special && i < length; i++) {
            const unsigned marks = (get_mark(&j, specials, base + 1 + 2 * i) ? 1 : 0) |
                                   (get_mark(&j, specials, base + 2 + 2 * i) ? 2 : 0);
            if (marks)
                put_element(&j, to, i, from_marks(&j, marks));
        }
    }
    tw_fpenv_leave(env);
    return standard ? 0 : refuse_mode(err);
}

/* ---- all contributions in one place */

/* The fields of a block over all contributions. f64 has no smallest one: 0, the widest. */
static struct tw_fixed_extent extent_of_block(const struct tw_fixed_set *set, const struct job *j,
                                              const void *const *x, int64_t count, int64_t first,
                                              int64_t length)
{
    struct tw_fixed_extent all = {0, j->kind == TW_F64 ? 0 : UINT32_MAX};
    for (int64_t c = 0; c < count; c++) {
        const char *from = number_at(j, x[c], first);
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
static uint32_t finite_field(const struct job *j, const void *const *x, int64_t count,
                             int64_t first, int64_t length)
{
    uint32_t field = 0;
    for (int64_t c = 0; c < count; c++)
        for (int64_t i = 0; i < length; i++) {
            const uint32_t f = field_of(j, element_bits(j, x[c], first + i));
            field = f != j->special && f > field ? f : field;
        }
    return field;
}

static int ceil_log2(int64_t v) /* 0 for less than 2 */
{
    return v < 2 ? 0 : 64 - __builtin_clzll((uint64_t)v - 1);
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
static bool narrow(const struct job *j, struct tw_fixed_extent e, int64_t count, int bits,
                   int64_t divisor)
{
    if (j->kind == TW_F64 || e.largest == j->special || (divisor & (divisor - 1)))
        return false;
    const int fraction = tw_float_formats[j->kind].fraction;
    const int exact = 52 - fraction - ceil_log2(count), whole = bits - 1 - fraction;
    const int high = e.largest ? (int)e.largest : 1;
    if (e.smallest > j->special) /* zeros alone */
        return true;
    const int low = e.smallest ? (int)e.smallest : 1;
    return high - low <= exact && high - low <= whole;
}

/* A block of all contributions: in f64 where that is exact, else exponent, integers and rounding in
 * one go, a chunk at a time on the stack. */
static void sum_block(const struct tw_fixed_set *set, const struct job *j, const void *const *x,
                      int64_t count, int64_t first, int64_t total, int64_t divisor, char *out)
{
    const int64_t length = block_length(j, first / j->block);
    const int bits = twin_fixed_bits(total);
    const struct tw_fixed_extent extent = extent_of_block(set, j, x, count, first, length);
    if (narrow(j, extent, count, bits, divisor)) {
        set->sum[j->kind](x, (size_t)count, (size_t)first, (size_t)length, 1 / (double)divisor,
                          out + (size_t)first * j->size);
        return;
    }
    const bool special = extent.largest == j->special;
    const uint32_t field = special ? finite_field(j, x, count, first, length) : extent.largest;
    const struct tw_fixed_unit u = unit_of(j->kind, field, bits);
    int64_t sum[TW_FIXED_CHUNK];
    uint8_t marks[TW_FIXED_CHUNK]; /* known before anything is stored: out may be one of x */
    for (int64_t i = 0; i < length; i += TW_FIXED_CHUNK) {
        const int64_t m = length - i < TW_FIXED_CHUNK ? length - i : TW_FIXED_CHUNK;
        char *to = out + (size_t)(first + i) * j->size;
        memset(sum, 0, (size_t)m * sizeof *sum);
        memset(marks, 0, (size_t)m);
        for (int64_t c = 0; c < count; c++) {
            add_block(set, j, number_at(j, x[c], first + i), m, &u, special, sum);
            for (int64_t k = 0; special && k < m; k++)
                marks[k] |= (uint8_t)marks_of(j, element_bits(j, x[c], first + i + k));
        }
        round_block(set, j, sum, m, divisor, unit_exponent(j->kind, field, bits), to);
        for (int64_t k = 0; special && k < m; k++)
            if (marks[k])
                put_element(j, to, k, from_marks(j, marks[k]));
    }
}

/* The steps above in one, for contributions that are all in memory. */
int twin_fixed_sum(enum twin_dtype dtype, const void *const *x, int64_t count, int64_t n,
                   int64_t block, int64_t total, int64_t divisor, void *out, struct twin_error *err)
{
    struct job j;
    int rc = job_init(&j, dtype, n, block, (x || count == 0) && out, err);
    if (!rc)
        rc = check_total(total, divisor, err);
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
    const struct tw_fixed_set *set = fixed_set();
    for (int64_t first = 0; standard && first < n; first += block)
        sum_block(set, &j, x, count, first, total, divisor, out);
    tw_fpenv_leave(env);
    return standard ? 0 : refuse_mode(err);
}
