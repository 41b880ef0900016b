/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints digests, statistics and sketches of many tensors, computed with the instruction set named
 * by the argument. fingerprint_cross.sh runs it on this machine and, cross-compiled, under an
 * emulator: the outputs must be equal.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <twin/fingerprint.h>

static uint64_t bits(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* Any bits, or finite ones: the top exponent bit of every 16, 32 or 64 bits cleared. */
static void fill(unsigned char *p, size_t bytes, size_t size, int finite, uint64_t *state)
{
    for (size_t i = 0; i < bytes; i++)
        p[i] = (unsigned char)bits(state);
    for (size_t i = size - 1; finite && i < bytes; i += size)
        p[i] &= 0xBF;
}

int main(int argc, char **argv)
{
    struct twin_error err = TWIN_ERROR_INIT;
    uint64_t state = 1;
    unsigned char *p = malloc(16 * 9000 + 16);
    if (argc < 2 || !p || twin_fingerprint_force(argv[1], &err)) {
        fprintf(stderr, "fingerprint_cross: %s\n",
                argc < 2 ? "usage: fingerprint_cross ISA" : err.message);
        return 2;
    }
    for (int dtype = 0; dtype < TWIN_DTYPE_COUNT; dtype++)
        for (int round = 0; round < 24; round++) {
            int64_t n = (int64_t)(bits(&state) % (round < 16 ? 300 : 9000));
            int64_t shape[2] = {n / 16, 16};
            int64_t strides[2] = {1, n / 16};
            size_t size = twin_dtype_size((enum twin_dtype)dtype), shift = bits(&state) % 16;
            struct twin_tensor t = {p + shift, (enum twin_dtype)dtype,
                                    1,         &n,
                                    NULL,      round % 2 ? bits(&state) % 9000 : 0};
            struct twin_digest d;
            struct twin_stats s;
            struct twin_sketch k = {.k = 1u << round % 7};
            if (round % 4 == 3)
                t.ndim = 2, t.shape = shape, t.strides = strides;
            fill(p + shift, (size_t)n * size, size > 8 ? 8 : size, round % 3, &state);
            if (twin_fingerprint(&t, &d, &s, &k, &err)) {
                fprintf(stderr, "fingerprint_cross: %s\n", err.message);
                return 2;
            }
            uint64_t values[5], sum = 0;
            memcpy(values, &s.min, sizeof values);
            for (uint32_t j = 0; j < k.k; j++) {
                uint64_t b;
                memcpy(&b, &k.bucket[j], 8);
                sum = sum * 31 + b;
            }
            printf("%s %d %016" PRIx64 " %016" PRIx64 " %" PRIu64 " %" PRIu64 " %" PRIu64
                   " %" PRIu64,
                   twin_dtype_name(t.dtype), round, d.a, d.b, s.nan, s.pos_inf, s.neg_inf, s.zeros);
            for (int j = 0; j < 5; j++)
                printf(" %016" PRIx64, values[j]);
            printf(" %" PRIu64 " %016" PRIx64 "\n", k.skipped, sum);
        }
    free(p);
    return 0;
}
