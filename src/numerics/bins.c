/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference, and the way for blocks that no window fits: each number is taken apart and its
 * significand added to digits of 32 bits, held in 64, so that carries wait for 2^30 additions.
 */
#include <string.h>
#include "convert.h"
#include "exact_inside.h"

#define INFINITY_BITS 0x7FF0000000000000u

/* significand * 2^exponent; when special (NaN or an infinity) only the sign counts. */
struct number {
    uint64_t significand;
    int exponent;
    bool negative, infinite, nan;
};

/* Subnormals have the exponent of the smallest normal numbers, and no hidden bit. */
static inline struct number take_apart(double x)
{
    const uint64_t bits = tw_f64_bits(x), magnitude = bits & INT64_MAX;
    const int field = (int)(magnitude >> 52);
    return (struct number){
        .significand = field ? (magnitude & 0xFFFFFFFFFFFFFu) | (uint64_t)1 << 52 : magnitude,
        .exponent = (field ? field : 1) - 1075,
        .negative = bits >> 63,
        .infinite = magnitude == INFINITY_BITS,
        .nan = magnitude > INFINITY_BITS,
    };
}

/* Element i as f64, which holds all of these types exactly. */
static inline double load_element(enum tw_kind kind, const void *p, size_t i)
{
    switch (kind) {
    case TW_F16: return tw_load_f16(p, i);
    case TW_BF16: return tw_load_bf16(p, i);
    case TW_F32: return tw_load_f32(p, i);
    default: return tw_load_f64(p, i);
    }
}

void tw_bins_init(struct tw_bins *b)
{
    memset(b, 0, sizeof *b);
}

/* Brings every digit back to 0..2^32-1, but for the last one, which keeps the sign. */
static void settle_digits(struct tw_bins *b)
{
    int64_t carry = 0;
    for (size_t i = 0; i < TW_DIGITS - 1; i++) {
        int64_t t = b->digit[i] + carry;
        b->digit[i] = t & UINT32_MAX;
        carry = t >> 32;
    }
    b->digit[TW_DIGITS - 1] += carry;
    b->added = 0;
}

void tw_bins_flush(struct tw_bins *b, struct twin_acc *acc)
{
    uint64_t limb[TWIN_ACC_LIMBS];
    settle_digits(b);
    for (size_t i = 0; i < TWIN_ACC_LIMBS; i++)
        limb[i] = (uint64_t)b->digit[2 * i] | (uint64_t)b->digit[2 * i + 1] << 32;
    tw_acc_add_limbs(acc, limb);
    acc->flags |= b->flags;
    tw_bins_init(b);
}

/* Adds or subtracts v * 2^exponent, digit by digit, without a carry between them. sign is 0 or all
 * ones: (d ^ sign) - sign negates. */
static inline void add_digits(struct tw_bins *b, tw_u128 v, int exponent, bool negative)
{
    const unsigned at = (unsigned)(exponent - TW_ACC_LOW), shift = at % 32;
    int64_t *d = b->digit + at / 32;
    const int64_t sign = -(int64_t)negative;
    /* At most 106 bits, shifted by at most 31: five digits. */
    const uint64_t low = (uint64_t)v << shift;
    const uint64_t middle = (uint64_t)(v >> (64 - shift));
    const uint64_t high = (uint64_t)(v >> 64 >> (64 - shift));
    d[0] += ((int64_t)(low & UINT32_MAX) ^ sign) - sign;
    d[1] += ((int64_t)(low >> 32) ^ sign) - sign;
    d[2] += ((int64_t)(middle & UINT32_MAX) ^ sign) - sign;
    if (v >> 64) { /* else middle has at most 31 bits */
        d[3] += ((int64_t)(middle >> 32) ^ sign) - sign;
        d[4] += ((int64_t)high ^ sign) - sign;
    }
}

/* The flag of a term with a NaN or an infinity in it. */
static uint32_t special_flag(const struct number *x, const struct number *y, bool negative)
{
    const bool x_zero = !x->infinite && !x->nan && !x->significand;
    const bool y_zero = !y->infinite && !y->nan && !y->significand;
    if (x->nan || y->nan || x_zero || y_zero) /* Inf * 0 */
        return TW_ACC_NAN;
    return negative ? TW_ACC_NEG_INF : TW_ACC_POS_INF;
}

/* One term; x alone when y is NULL. */
static inline void add_term(struct tw_bins *b, struct number x, const struct number *y)
{
    static const struct number one = {.significand = 1};
    const struct number *other = y ? y : &one;
    const bool negative = x.negative != other->negative;
    if (x.nan || x.infinite || other->nan || other->infinite) {
        b->flags |= special_flag(&x, other, negative) | TW_ACC_NOT_MINUS_ZERO;
        return;
    }
    const tw_u128 v = (tw_u128)x.significand * other->significand;
    if (v || !negative)
        b->flags |= TW_ACC_NOT_MINUS_ZERO;
    if (v)
        add_digits(b, v, x.exponent + other->exponent, negative);
}

void tw_bins_add(struct tw_bins *b, enum tw_op op, enum tw_kind kind, const void *x, const void *y,
                 size_t n)
{
    if (b->added > (1u << 30) - TW_BLOCK)
        settle_digits(b);
    b->added += (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        struct number u = take_apart(load_element(kind, x, i)), v;
        switch (op) {
        case TW_ABS: u.negative = false; /* fall through */
        case TW_SUM: add_term(b, u, NULL); break;
        case TW_SQUARE: add_term(b, u, &u); break;
        default: v = take_apart(load_element(kind, y, i)); add_term(b, u, &v);
        }
    }
}

bool tw_bins_not_minus_zero(enum tw_op op, enum tw_kind kind, const void *x, const void *y,
                            size_t n)
{
    if (op == TW_ABS || op == TW_SQUARE)
        return n > 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t u = tw_f64_bits(load_element(kind, x, i));
        const uint64_t v = op == TW_PRODUCT ? tw_f64_bits(load_element(kind, y, i)) : 0;
        const bool zero = !(u << 1) || (op == TW_PRODUCT && !(v << 1));
        if (!zero || !((u ^ v) >> 63))
            return true;
    }
    return false;
}
