/* SPDX-License-Identifier: Apache-2.0 */
/* The accumulator of exact sums: one long integer in two's complement, in units of 2^TW_ACC_LOW.
 * Addition of integers does not care about order; that is the whole trick. exact.c fills it,
 * twin_acc_round() at the end rounds it once, to any type. What no integer holds (NaN, infinities,
 * the sign of an all-zero sum) is kept in flags. */
#include <string.h>
#include "base.h"
#include "exact_inside.h"

void twin_acc_init(struct twin_acc *acc)
{
    memset(acc, 0, sizeof *acc);
}

/* Adds v * 2^exponent. v is moved to its place and added in three words; above them only its sign
 * is left to add, which is nothing when the carry makes up for it. */
void tw_acc_add_integer(struct twin_acc *acc, tw_i128 v, int exponent)
{
    const unsigned at = (unsigned)(exponent - TW_ACC_LOW), shift = at % 64;
    const uint64_t sign = v < 0 ? UINT64_MAX : 0;
    const uint64_t word[3] = {(uint64_t)v << shift, (uint64_t)(v >> (64 - shift)),
                              (uint64_t)(v >> 64 >> (64 - shift))};
    uint64_t carry = 0;
    size_t i = at / 64;
    for (size_t j = 0; j < 3 && i < TWIN_ACC_LIMBS; j++, i++) {
        tw_u128 t = (tw_u128)acc->limb[i] + word[j] + carry;
        acc->limb[i] = (uint64_t)t;
        carry = (uint64_t)(t >> 64);
    }
    /*
     * What is left to add is all zeros or all ones: nothing, once the carry makes up for the ones.
     */
    for (; i < TWIN_ACC_LIMBS && carry != (sign & 1); i++) {
        tw_u128 t = (tw_u128)acc->limb[i] + sign + carry;
        acc->limb[i] = (uint64_t)t;
        carry = (uint64_t)(t >> 64);
    }
}

/* Adds another accumulator's integer, word by word. */
void tw_acc_add_limbs(struct twin_acc *acc, const uint64_t limb[TWIN_ACC_LIMBS])
{
    uint64_t carry = 0;
    for (size_t i = 0; i < TWIN_ACC_LIMBS; i++) {
        tw_u128 t = (tw_u128)acc->limb[i] + limb[i] + carry;
        acc->limb[i] = (uint64_t)t;
        carry = (uint64_t)(t >> 64);
    }
}

/* Sums of parts become the sum of all: the result does not depend on how the numbers were shared.
 */
int twin_acc_merge(struct twin_acc *to, const struct twin_acc *from, struct twin_error *err)
{
    if (to->count > UINT64_MAX - from->count)
        return twin_error_set(
            err, TWIN_ELIMIT,
            "exact sum: cannot merge %llu with %llu numbers: at most 2^64 - 1 in all",
            (unsigned long long)to->count, (unsigned long long)from->count);
    tw_acc_add_limbs(to, from->limb);
    to->count += from->count;
    to->flags |= from->flags;
    return 0;
}

/* The integer without its sign. *bits: the number of bits, 0 for zero. Returns whether it is
 * negative. */
bool tw_acc_magnitude(const struct twin_acc *acc, uint64_t magnitude[TWIN_ACC_LIMBS], int *bits)
{
    const bool negative = acc->limb[TWIN_ACC_LIMBS - 1] >> 63;
    const uint64_t flip = negative ? UINT64_MAX : 0;
    int i = 0, top = TWIN_ACC_LIMBS - 1;
    for (int j = 0; j < TWIN_ACC_LIMBS; j++)
        magnitude[j] = acc->limb[j] ^ flip;
    /* Plus one: the lowest limb that does not overflow takes the carry. */
    while (negative && i < TWIN_ACC_LIMBS && ++magnitude[i] == 0)
        i++;
    while (top > 0 && magnitude[top] == 0)
        top--;
    *bits = magnitude[top] ? 64 * top + 64 - __builtin_clzll(magnitude[top]) : 0;
    return negative;
}

/* A binary floating-point type: bits of its significand, the hidden one included, and of its
 * exponent. */
struct format {
    int significand, exponent;
};

/* NULL for a type that sums are not rounded to. */
static const struct format *format_of(enum twin_dtype dtype)
{
    static const struct format f64 = {53, 11}, f32 = {24, 8}, f16 = {11, 5}, bf16 = {8, 8};
    switch ((int)dtype) {
    case TWIN_F64: return &f64;
    case TWIN_F32: return &f32;
    case TWIN_F16: return &f16;
    case TWIN_BF16: return &bf16;
    default: return NULL;
    }
}

/* At most 64 bits of the magnitude from bit `at` on. */
static uint64_t bits_from(const uint64_t *magnitude, int at)
{
    const int i = at / 64, shift = at % 64;
    uint64_t low = magnitude[i] >> shift;
    return shift && i + 1 < TWIN_ACC_LIMBS ? low | magnitude[i + 1] << (64 - shift) : low;
}

/* Is any bit below `at` set? */
static bool any_below(const uint64_t *magnitude, int at)
{
    uint64_t any = at % 64 ? magnitude[at / 64] << (64 - at % 64) : 0;
    for (int i = 0; i < at / 64; i++)
        any |= magnitude[i];
    return any != 0;
}

/* Rounds a magnitude of that many bits to nearest, ties to even. Returns the bits of the type
 * without the sign; what is too large becomes infinity. */
static uint64_t round_magnitude(const uint64_t *magnitude, int bits, const struct format *f)
{
    const int bias = (1 << (f->exponent - 1)) - 1, fraction = f->significand - 1;
    const uint64_t infinity = (((uint64_t)1 << f->exponent) - 1) << fraction;
    const int lead = bits - 1 + TW_ACC_LOW; /* exponent of the highest set bit */
    if (lead > bias)
        return infinity;
    /* subnormals share the step of the smallest normal numbers */
    const int normal = lead > 1 - bias ? lead : 1 - bias;
    /* the bit that becomes the lowest; > 0 for every type */
    const int last = normal - fraction - TW_ACC_LOW;
    uint64_t kept = bits_from(magnitude, last);
    const bool half = bits_from(magnitude, last - 1) & 1;
    if (half && ((kept & 1) || any_below(magnitude, last - 1)))
        kept++;
    /* The hidden bit adds one to the exponent field, and so does a carry out of the significand: up
     * to infinity. */
    return kept + ((uint64_t)(normal + bias - 1) << fraction);
}

/* The bits of the rounded sum. NaN, and infinities of both signs, give the quiet NaN of the type; a
 * sum of nothing but -0 is -0, one of no numbers +0. */
static uint64_t round_to(const struct twin_acc *acc, const struct format *f)
{
    const int fraction = f->significand - 1;
    const uint64_t infinity = (((uint64_t)1 << f->exponent) - 1) << fraction;
    const uint64_t minus = (uint64_t)1 << (f->exponent + fraction);
    const uint32_t infinities = acc->flags & (TW_ACC_POS_INF | TW_ACC_NEG_INF);
    if ((acc->flags & TW_ACC_NAN) || infinities == (TW_ACC_POS_INF | TW_ACC_NEG_INF))
        return infinity | (uint64_t)1 << (fraction - 1);
    if (infinities)
        return infinities == TW_ACC_NEG_INF ? infinity | minus : infinity;
    uint64_t magnitude[TWIN_ACC_LIMBS];
    int bits;
    const bool negative = tw_acc_magnitude(acc, magnitude, &bits);
    if (bits == 0)
        return acc->count && !(acc->flags & TW_ACC_NOT_MINUS_ZERO) ? minus : 0;
    return round_magnitude(magnitude, bits, f) | (negative ? minus : 0);
}

int twin_acc_round(const struct twin_acc *acc, enum twin_dtype dtype, void *out,
                   struct twin_error *err)
{
    const struct format *f = format_of(dtype);
    if (!f)
        return twin_error_set(err, TWIN_EINVAL,
                              "exact sum: cannot round to %s (%d); expected f64, f32, f16 or bf16",
                              twin_dtype_name(dtype), (int)dtype);
    const uint64_t bits = round_to(acc, f);
    const uint32_t word = (uint32_t)bits;
    const uint16_t half = (uint16_t)bits;
    switch (twin_dtype_size(dtype)) {
    case 8: memcpy(out, &bits, 8); break;
    case 4: memcpy(out, &word, 4); break;
    default: memcpy(out, &half, 2); break;
    }
    return 0;
}

/* For those who only want to see it. */
double twin_acc_f64(const struct twin_acc *acc)
{
    const uint64_t bits = round_to(acc, format_of(TWIN_F64));
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
