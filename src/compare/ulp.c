/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes exact distances from values themselves: how many elements changed, the distance in units
 * of the last place (ulp), the relative L2 distance. zoom.c uses it for values that a zoom pair
 * kept, finding.c for records of one element; snapshot and provenance use it for the contents of
 * files. Where only a sketch is at hand distances are estimated elsewhere. Sums run over the
 * elements in their order, in double precision, so the result does not depend on how an array is
 * cut into pieces.
 */
#include "ulp.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* The bits of a floating-point format; bytes 0: the type is none. */
struct format {
    unsigned bytes, exponent_bits, mantissa_bits;
};

/* The bits of a floating-point type; complex types have the format of one part. */
static struct format format_of(enum twin_dtype dtype)
{
    switch (dtype) {
    case TWIN_F16: return (struct format){2, 5, 10};
    case TWIN_BF16: return (struct format){2, 8, 7};
    case TWIN_F32:
    case TWIN_C64: return (struct format){4, 8, 23};
    case TWIN_F64:
    case TWIN_C128: return (struct format){8, 11, 52};
    default: return (struct format){0, 0, 0};
    }
}

/* The bits of one value, at any alignment. */
static uint64_t bits_at(const unsigned char *p, unsigned bytes)
{
    assert(bytes <= sizeof(uint64_t));
    uint64_t x = 0;
    /* traces and kept values are little endian, like every machine we run on */
    memcpy(&x, p, bytes);
    return x;
}

/*
 * A number whose order is that of the floats: they are ordered like their bits when negatives are
 * mirrored. The distance of two such numbers is the distance in ulp; -0 and +0 have the same.
 */
static int64_t ordered_bits(uint64_t bits, struct format f)
{
    assert(f.bytes > 0);
    uint64_t sign = UINT64_C(1) << (8 * f.bytes - 1);
    return bits & sign ? -(int64_t)(bits & (sign - 1)) : (int64_t)bits;
}

/* In unsigned arithmetic, because the distance of two int64_t may not fit into one. */
static uint64_t ulp_between(int64_t x, int64_t y)
{
    return x > y ? (uint64_t)x - (uint64_t)y : (uint64_t)y - (uint64_t)x;
}

/*
 * The value of a float of this format; subnormal numbers, infinities and NaN as IEEE 754 defines
 * them.
 */
static double value_of(uint64_t bits, struct format f)
{
    uint64_t mantissa = bits & ((UINT64_C(1) << f.mantissa_bits) - 1);
    unsigned exponent = (unsigned)(bits >> f.mantissa_bits) & ((1u << f.exponent_bits) - 1);
    int bias = (1 << (f.exponent_bits - 1)) - 1;
    double sign = bits >> (8 * f.bytes - 1) & 1 ? -1 : 1;
    if (exponent == (1u << f.exponent_bits) - 1)
        return mantissa ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexp((double)mantissa, 1 - bias - (int)f.mantissa_bits);
    return sign * ldexp((double)(mantissa | UINT64_C(1) << f.mantissa_bits),
                        (int)exponent - bias - (int)f.mantissa_bits);
}

/* The value of an integer; types of no sign, and bool, take the bits as they are. */
static double integer_of(uint64_t bits, enum twin_dtype dtype)
{
    switch (dtype) {
    case TWIN_I8: return (int8_t)bits;
    case TWIN_I16: return (int16_t)bits;
    case TWIN_I32: return (int32_t)bits;
    case TWIN_I64: return (double)(int64_t)bits;
    default: return (double)bits;
    }
}

/*
 * A NaN in one of the arrays makes max_ulp infinite, and any value that is not finite makes the
 * distance so, since no number could say how far they are apart. Equal bits are equal values, NaN
 * included.
 */
bool tw_exact_add(struct tw_exact *out, const void *a, const void *b, uint64_t n,
                  enum twin_dtype dtype)
{
    struct format f = format_of(dtype);
    bool complex_pair = dtype == TWIN_C64 || dtype == TWIN_C128;
    unsigned bytes = f.bytes ? f.bytes : (unsigned)twin_dtype_size(dtype);
    const unsigned char *x = a, *y = b;
    out->elements += n;
    out->max_ulp = f.bytes ? out->max_ulp : NAN;
    out->rel_l2 = NAN;
    if (bytes == 0 || bytes > 8)
        return false;
    bool numbers = dtype != TWIN_BYTES && dtype != TWIN_F8_E4M3FN && dtype != TWIN_F8_E5M2;
    /* A complex element is two floats; it counts as one changed element. */
    unsigned parts = complex_pair ? 2 : 1;
    for (uint64_t i = 0; i < n; i++) {
        bool changed = false;
        for (unsigned part = 0; part < parts; part++, x += bytes, y += bytes) {
            uint64_t p = bits_at(x, bytes), q = bits_at(y, bytes);
            double u = f.bytes ? value_of(p, f) : integer_of(p, dtype);
            double w = f.bytes ? value_of(q, f) : integer_of(q, dtype);
            if (isfinite(u))
                out->norm += u * u;
            if (p == q)
                continue;
            changed = true;
            if (f.bytes && (isnan(u) || isnan(w)))
                out->max_ulp = INFINITY;
            else if (f.bytes)
                out->max_ulp = fmax(out->max_ulp,
                                    (double)ulp_between(ordered_bits(p, f), ordered_bits(q, f)));
            out->distance += isfinite(u) && isfinite(w) ? (u - w) * (u - w) : INFINITY;
        }
        out->changed += changed;
    }
    if (numbers)
        out->rel_l2 = out->distance == 0 ? 0 : sqrt(out->distance) / sqrt(out->norm);
    return f.bytes != 0;
}

bool tw_exact_compare(const void *a, const void *b, uint64_t n, enum twin_dtype dtype,
                      struct tw_exact *out)
{
    *out = (struct tw_exact){0};
    return tw_exact_add(out, a, b, n, dtype);
}
