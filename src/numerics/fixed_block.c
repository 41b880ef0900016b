/* SPDX-License-Identifier: Apache-2.0 */
/* What the calls of fixed-point sums share: arguments, marks of NaN and infinities, the unit of a
 * block, and a block to integers and back (fixed_inside.h says which function does what). */
#include <stdatomic.h>
#include <string.h>
#include "fixed_inside.h"

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
const struct tw_fixed_set *tw_fixed_set_in_use(void)
{
    const struct tw_fixed_set *set = atomic_load(&forced);
    const char *name = twin_fingerprint_isa();
    for (size_t i = 0; !set && i < sizeof sets / sizeof *sets; i++)
        if (!strcmp(name, sets[i]->name))
            set = sets[i];
    return set ? set : &tw_fixed_plain;
}

/* ---- arguments */
/* present: none of the addresses is NULL. */
int tw_fixed_job_init(struct tw_fixed_job *j, enum twin_dtype dtype, int64_t n, int64_t block,
                      bool present, struct twin_error *err)
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
    *j = (struct tw_fixed_job){(enum tw_kind)kind, twin_dtype_size(dtype),
                               (1u << tw_float_formats[kind].exponent) - 1, n, block};
    return 0;
}

/* Bounds of the number of contributions and of the divisor. */
int tw_fixed_check_total(int64_t total, int64_t divisor, struct twin_error *err)
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

int tw_fixed_refuse_mode(struct twin_error *err)
{
    return twin_error_set(
        err, TWIN_EINVAL,
        "order-free sum: this thread rounds other than to nearest, or takes subnormals for zero; "
        "restore the default floating-point mode (fesetenv(FE_DFL_ENV)) around the call");
}

/* ---- exponents */
/* Sets number i to `value` if that is larger: lists are merged by MAX. */
void tw_fixed_raise(const struct tw_fixed_job *j, void *numbers, int64_t i, uint32_t value)
{
    if (value <= tw_fixed_mark(j, numbers, i))
        return;
    const uint16_t v = (uint16_t)value;
    if (j->kind == TW_F64)
        memcpy((char *)numbers + 2 * i, &v, 2);
    else
        ((uint8_t *)numbers)[i] = (uint8_t)value;
}

/* The bits of element i. */
uint64_t tw_fixed_element_bits(const struct tw_fixed_job *j, const void *x, int64_t i)
{
    uint64_t bits = 0;
    uint32_t word;
    uint16_t half;
    if (j->size == 8) {
        memcpy(&bits, tw_fixed_number_at(j, x, i), 8);
        return bits;
    }
    if (j->size == 4) {
        memcpy(&word, tw_fixed_number_at(j, x, i), 4);
        return word;
    }
    memcpy(&half, tw_fixed_number_at(j, x, i), 2);
    return half;
}

void tw_fixed_put_element(const struct tw_fixed_job *j, void *out, int64_t i, uint64_t bits)
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

uint32_t tw_fixed_field_of(const struct tw_fixed_job *j, uint64_t bits)
{
    return tw_exponent_field(bits, tw_float_formats[j->kind]);
}

/* What an element is when it is not finite: two bits, which are merged by or. */
unsigned tw_fixed_marks_of(const struct tw_fixed_job *j, uint64_t bits)
{
    return tw_element_mark(bits, tw_float_formats[j->kind]);
}

uint64_t tw_fixed_from_marks(const struct tw_fixed_job *j, unsigned marks)
{
    return tw_marked_element(marks, tw_float_formats[j->kind]);
}

void tw_fixed_put_marks(const struct tw_fixed_job *j, const void *specials, int64_t base,
                        int64_t length, char *out)
{
    for (int64_t i = 0; i < length; i++) {
        const unsigned marks = (tw_fixed_mark(j, specials, base + 1 + 2 * i) ? 1 : 0) |
                               (tw_fixed_mark(j, specials, base + 2 + 2 * i) ? 2 : 0);
        if (marks)
            tw_fixed_put_element(j, out, i, tw_fixed_from_marks(j, marks));
    }
}

/* ---- units */
static double power_of_two(int e) /* -1074..1023 */
{
    const uint64_t bits = e < -1022 ? (uint64_t)1 << (e + 1074) : (uint64_t)(e + 1023) << 52;
    double v;
    memcpy(&v, &bits, 8);
    return v;
}

int tw_fixed_unit_exponent(enum tw_kind kind, uint32_t field, int bits)
{
    return tw_unit_exponent(field, bits, tw_float_formats[kind]);
}

/* The constants by which a kernel turns elements of such a block into integers. Two scales, because
 * one power of two may be out of range. */
struct tw_fixed_unit tw_fixed_unit_of(enum tw_kind kind, uint32_t field, int bits)
{
    int up = -tw_fixed_unit_exponent(kind, field, bits);
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
void tw_fixed_add_block(const struct tw_fixed_set *set, const struct tw_fixed_job *j, const void *x,
                        int64_t n, const struct tw_fixed_unit *u, bool special, int64_t *sum)
{
    if (!special) {
        set->add[j->kind](x, (size_t)n, u, sum);
        return;
    }
    uint64_t finite[TW_FIXED_CHUNK]; /* of any type */
    for (int64_t i = 0; i < n; i += TW_FIXED_CHUNK) {
        const int64_t m = n - i < TW_FIXED_CHUNK ? n - i : TW_FIXED_CHUNK;
        memcpy(finite, tw_fixed_number_at(j, x, i), (size_t)m * j->size);
        for (int64_t k = 0; k < m; k++)
            if (tw_fixed_marks_of(j, tw_fixed_element_bits(j, finite, k)))
                tw_fixed_put_element(j, finite, k, 0);
        set->add[j->kind](finite, (size_t)m, u, sum + i);
    }
}

/* exponent: that of the sum's unit. divisor is odd. */
static void round_slowly(const struct tw_fixed_job *j, const int64_t *sum, int64_t n,
                         int64_t divisor, int exponent, void *out)
{
    for (int64_t i = 0; i < n; i++)
        tw_fixed_put_element(
            j, out, i,
            tw_fixed_round_one(sum[i], (uint64_t)divisor, exponent, tw_float_formats[j->kind]));
}

/* Divides and rounds the sums of one block. Powers of two in the divisor go into the exponent,
 * which leaves an odd one; 64 elements at a time, so that one close quotient costs little. */
void tw_fixed_round_block(const struct tw_fixed_set *set, const struct tw_fixed_job *j,
                          const int64_t *sum, int64_t n, int64_t divisor, int exponent, char *out)
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

/* Goes on to block b. True: it is flagged; *base is where its specials lie, and *field the exponent
 * of its finite elements. Else *field is that of the block. */
bool tw_fixed_walk_block(const struct tw_fixed_job *j, struct tw_fixed_walk *w, int64_t b,
                         uint32_t *field, int64_t *base)
{
    *field = tw_fixed_mark(j, w->exponents, b);
    if (*field != j->special)
        return false;
    *base = w->base;
    *field = tw_fixed_mark(j, w->specials, w->base);
    w->base += 1 + 2 * j->block;
    return true;
}

/* Flagged blocks need their marks: an error without them. */
int tw_fixed_need_specials(const struct tw_fixed_job *j, enum twin_dtype dtype,
                           const void *exponents, const void *specials, struct twin_error *err)
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

int tw_fixed_ceil_log2(int64_t v) /* 0 for less than 2 */
{
    return v < 2 ? 0 : 64 - __builtin_clzll((uint64_t)v - 1);
}
