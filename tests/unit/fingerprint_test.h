/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_FINGERPRINT_TEST_H
#define TW_FINGERPRINT_TEST_H
/* Shared by the fingerprint's tests: the sets of kernels that can be run here, and inputs that
 * hurt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <twin/fingerprint.h>
#include "kernels.h"

#ifdef TW_TEST_SIMDE
extern const struct tw_kernels tw_kernels_avx512_simde, tw_kernels_neon_simde;
#endif

/* Number `i` of the sets that run here, scalar first; NULL past the end. */
static inline const struct tw_kernels *kernel_set(size_t i)
{
    static const struct tw_kernels *sets[8];
    static size_t count;
    if (!count) {
        static const char *const names[] = {"scalar", "avx2", "avx512", "neon"};
        for (size_t n = 0; n < 4; n++)
            if (twin_fingerprint_force(names[n], NULL) == 0)
                sets[count++] = tw_fingerprint_kernels();
#ifdef TW_TEST_SIMDE
        int compiled_for_this = 1; /* on x86-64 SIMDe itself is compiled for AVX2 */
#ifdef __x86_64__
        compiled_for_this = __builtin_cpu_supports("avx2");
#endif
        if (compiled_for_this) {
            sets[count++] = &tw_kernels_avx512_simde;
            sets[count++] = &tw_kernels_neon_simde;
        }
#endif
        tw_fingerprint_use(sets[0]);
    }
    return sets[i];
}

static inline uint64_t random_bits(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static inline double random_uniform(uint64_t *state) /* in [0, 1) */
{
    return (double)(random_bits(state) >> 11) * 0x1p-53;
}

static inline int full_run(void)
{
    const char *v = getenv("TWINRUN_FULL");
    return v && *v && strcmp(v, "0") != 0;
}

/* How a buffer is filled: any bits; finite; finite with zeros; with special values here and there;
 * special values. */
enum fill { FILL_BITS, FILL_FINITE, FILL_ZEROS, FILL_SOME, FILL_SPECIAL, FILL_KINDS };

/* One element of a float type, as bits. exponent and fraction give the layout. */
static inline uint64_t float_bits(unsigned exponent, unsigned fraction, enum fill how,
                                  uint64_t *state)
{
    uint64_t r = random_bits(state);
    uint64_t sign = (r & 1) << (exponent + fraction);
    uint64_t top = (1ull << exponent) - 1;
    uint64_t f = r >> 8 & ((1ull << fraction) - 1), e = (r >> 1) % 7 + top / 2 - 3;
    if (how == FILL_BITS)
        return r & (exponent + fraction == 63 ? ~0ull : (2ull << (exponent + fraction)) - 1);
    if (how == FILL_FINITE || (how == FILL_ZEROS && r >> 60 < 12) ||
        (how == FILL_SOME && r >> 56 != 0))
        return sign | e << fraction | f;
    if (how == FILL_ZEROS)
        return r >> 62 & 1 ? sign : 0;
    switch (r >> 61) {
    case 0: return sign;                                 /* zeros */
    case 1: return sign | top << fraction;               /* infinities */
    case 2: return sign | top << fraction | (f ? f : 1); /* NaNs of any payload */
    case 3: return sign | f;                             /* subnormals */
    case 4: return sign | 1;                             /* the smallest one */
    case 5: return sign | ((top << fraction) - 1);       /* the largest finite number */
    case 6: return sign | 1ull << fraction;              /* the smallest normal one */
    default: return sign | e << fraction | f;
    }
}

static inline void fill_tensor(void *to, size_t n, enum twin_dtype dtype, enum fill how,
                               uint64_t *state)
{
    unsigned char *p = to;
    size_t parts = dtype == TWIN_C64 || dtype == TWIN_C128 ? 2 : 1;
    size_t size = twin_dtype_size(dtype) / parts;
    for (size_t i = 0; i < n * parts; i++) {
        uint64_t w;
        switch (dtype) {
        case TWIN_F16: w = float_bits(5, 10, how, state); break;
        case TWIN_BF16: w = float_bits(8, 7, how, state); break;
        case TWIN_F32:
        case TWIN_C64: w = float_bits(8, 23, how, state); break;
        case TWIN_F64:
        case TWIN_C128: w = float_bits(11, 52, how, state); break;
        default:
            w = how == FILL_ZEROS && random_bits(state) % 3 == 0 ? 0 : random_bits(state);
            break;
        }
        memcpy(p + i * size, &w, size);
    }
}

#endif
