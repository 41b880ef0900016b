/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the accumulators of many arrays, and of order-free sums of them, with the instruction set
 * named by the argument. exact_cross.sh runs it on this machine and, cross-compiled, under an
 * emulator: the outputs must be equal.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <twin/exact.h>
#include <twin/reduce.h>

static uint64_t bits(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* Any bits; or with exponents that lie near each other; or finite ones: the top exponent bit
 * cleared. */
static void fill(unsigned char *p, size_t n, size_t size, int how, uint64_t *state)
{
    for (size_t i = 0; i < n; i++, p += size) {
        for (size_t j = 0; j < size; j++)
            p[j] = (unsigned char)bits(state);
        if (how == 1)
            p[size - 1] = (unsigned char)((p[size - 1] & 0x83) | 0x38);
        if (how == 2)
            p[size - 1] &= 0xBF;
    }
}

int main(int argc, char **argv)
{
    static const enum twin_dtype dtypes[] = {TWIN_F64, TWIN_F32, TWIN_F16, TWIN_BF16};
    struct twin_error err = TWIN_ERROR_INIT;
    uint64_t state = 1;
    unsigned char *p = malloc(2 * 8 * 9000 + 32), *fixed = malloc(8 * 9000);
    if (argc < 2 || !p || !fixed || twin_fingerprint_force(argv[1], &err)) {
        fprintf(stderr, "exact_cross: %s\n", argc < 2 ? "usage: exact_cross ISA" : err.message);
        return 2;
    }
    for (int round = 0; round < 400; round++) {
        const enum twin_dtype dtype = dtypes[round % 4];
        const size_t size = twin_dtype_size(dtype), n = bits(&state) % (round % 8 ? 300 : 9000);
        const unsigned char *x = p + bits(&state) % 16, *y = x + size * n;
        struct twin_acc acc;
        double rounded;
        uint64_t hash = 0;
        twin_acc_init(&acc);
        fill((unsigned char *)(uintptr_t)x, 2 * n, size,
             round / 16 % 8 == 7 ? 0 : round / 16 % 2 + 1, &state);
        int rc = round / 4 % 4 == 0   ? twin_acc_add(&acc, dtype, x, (int64_t)n, &err)
                 : round / 4 % 4 == 1 ? twin_acc_add_abs(&acc, dtype, x, (int64_t)n, &err)
                 : round / 4 % 4 == 2 ? twin_acc_add_squares(&acc, dtype, x, (int64_t)n, &err)
                                      : twin_acc_add_products(&acc, dtype, x, y, (int64_t)n, &err);
        if (rc) {
            fprintf(stderr, "exact_cross: %s\n", err.message);
            return 2;
        }
        for (size_t i = 0; i < TWIN_ACC_LIMBS; i++)
            hash = (hash ^ acc.limb[i]) * 0x94D049BB133111EBu;
        /* And the two halves as contributions to an order-free sum. */
        const void *const halves[2] = {x, y};
        if ((rc = twin_fixed_sum(dtype, halves, 2, (int64_t)n, 64, 2 + round, 1 + round % 3, fixed,
                                 &err)) != 0) {
            fprintf(stderr, "exact_cross: %s\n", err.message);
            return 2;
        }
        for (size_t i = 0; i < n * size; i++)
            hash = (hash ^ fixed[i]) * 0x94D049BB133111EBu;
        rounded = twin_acc_f64(&acc);
        uint64_t b;
        memcpy(&b, &rounded, 8);
        printf("%s %d %zu %u %016" PRIx64 " %016" PRIx64 "\n", twin_dtype_name(dtype), round, n,
               acc.flags, hash, b);
    }
    free(fixed);
    free(p);
    return 0;
}
