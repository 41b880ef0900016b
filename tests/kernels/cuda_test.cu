/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA kernels against the host's: exact sums and order-free sums, bit for bit. Exit 77
 * (skipped) without a GPU. With the double of CUDA's runtime (emulated/runtime.h) also under drawn
 * schedules, which must miss every barrier and atomic that is taken away.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cuda_runtime.h>
#include <twin/cuda.h>

static int failures;
static bool quiet; /* failures are counted, not told */

#define CHECK(condition, text)                                                            \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            if (!quiet)                                                                   \
                fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, text); \
            failures++;                                                                   \
        }                                                                                 \
    } while (0)

static uint64_t next(uint64_t *s)
{
    uint64_t z = *s += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* Any bits; or of like size; or finite ones. */
static void fill(unsigned char *p, size_t n, size_t size, int how, uint64_t *state)
{
    for (size_t i = 0; i < n; i++, p += size) {
        for (size_t j = 0; j < size; j++)
            p[j] = (unsigned char)next(state);
        if (how == 1)
            p[size - 1] = (unsigned char)((p[size - 1] & 0x83) | 0x38);
        if (how == 2)
            p[size - 1] &= 0xBF;
    }
}

static void check_reduction(enum twin_dtype dtype, size_t size, int64_t n, int64_t block,
                            int64_t divisor, int how, uint64_t *state)
{
    enum { G = 5 };
    const int64_t blocks = twin_fixed_blocks(n, block);
    struct twin_error err = TWIN_ERROR_INIT;
    unsigned char *x = (unsigned char *)malloc(G * n * size);
    unsigned char *expected = (unsigned char *)malloc(n * size);
    unsigned char *found = (unsigned char *)malloc(n * size);
    int32_t *host = (int32_t *)malloc(blocks * 4), *d_exponents, *d_index, *d_specials = NULL;
    char *d_x;
    int64_t *d_sum;
    const void *parts[G];
    fill(x, G * n, size, how, state);
    for (int g = 0; g < G; g++)
        parts[g] = x + g * n * size;
    CHECK(twin_fixed_sum(dtype, parts, G, n, block, G, divisor, expected, &err) == 0, err.message);
    CHECK(!cudaMalloc(&d_x, G * n * size) && !cudaMalloc(&d_sum, 8 * n) &&
              !cudaMalloc(&d_exponents, 4 * blocks) && !cudaMalloc(&d_index, 4 * blocks),
          "cudaMalloc");
    CHECK(!cudaMemcpy(d_x, x, G * n * size, cudaMemcpyHostToDevice), "cudaMemcpy");
    CHECK(twin_cuda_fixed_exponents(dtype, d_x, G, n, block, d_exponents, NULL, &err) == 0,
          err.message);
    const int64_t flagged = twin_cuda_fixed_flagged(dtype, d_exponents, blocks, host, d_index, NULL,
                                                    &err);
    CHECK(flagged >= 0, err.message);
    if (flagged > 0) {
        CHECK(!cudaMalloc(&d_specials, 4 * flagged * (1 + 2 * block)) &&
                  !cudaMemset(d_specials, 0, 4 * flagged * (1 + 2 * block)),
              "cudaMalloc");
        CHECK(twin_cuda_fixed_specials(dtype, d_x, G, n, block, d_exponents, d_index, d_specials,
                                       NULL, &err) == 0,
              err.message);
    }
    CHECK(twin_cuda_fixed_quantise(dtype, d_x, G, n, block, G, d_exponents, d_index, d_specials,
                                   d_sum, NULL, &err) == 0,
          err.message);
    CHECK(twin_cuda_fixed_round(dtype, d_sum, n, block, G, divisor, d_exponents, d_index,
                                d_specials, d_x, NULL, &err) == 0,
          err.message);
    CHECK(!cudaMemcpy(found, d_x, n * size, cudaMemcpyDeviceToHost), "cudaMemcpy");
    CHECK(!memcmp(expected, found, n * size), "order-free sum: other bits than on the host");
    cudaFree(d_x), cudaFree(d_sum), cudaFree(d_exponents), cudaFree(d_index), cudaFree(d_specials);
    free(x), free(expected), free(found), free(host);
}

static void check_sum(enum twin_dtype dtype, size_t size, int64_t n, int how, uint64_t *state)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_acc expected, found;
    unsigned char *x = (unsigned char *)malloc(n * size + 1);
    void *d_x, *d_scratch;
    fill(x, n, size, how, state);
    twin_acc_init(&expected);
    twin_acc_init(&found);
    CHECK(!cudaMalloc(&d_x, n * size + 1) && !cudaMalloc(&d_scratch, TWIN_CUDA_SCRATCH_BYTES),
          "cudaMalloc");
    CHECK(!cudaMemcpy(d_x, x, n * size, cudaMemcpyHostToDevice), "cudaMemcpy");
    CHECK(twin_acc_add(&expected, dtype, x, n, &err) == 0 &&
              twin_cuda_acc_add(&found, dtype, d_x, n, d_scratch, NULL, &err) == 0,
          err.message);
    CHECK(!memcmp(&expected, &found, sizeof found),
          "exact sum: another accumulator than on the host");
    cudaFree(d_x), cudaFree(d_scratch);
    free(x);
}

static const enum twin_dtype dtypes[] = {TWIN_F64, TWIN_F32, TWIN_F16, TWIN_BF16};
static const size_t sizes[] = {8, 4, 2, 2};

/* All types, kinds of numbers, and lengths below `most`. */
static void check_all(int64_t most, uint64_t *state)
{
    for (int d = 0; d < 4; d++)
        for (int how = 0; how < 3; how++)
            for (int64_t n = 1; n < most; n = n * 7 + 3) {
                check_sum(dtypes[d], sizes[d], n, how, state);
                check_reduction(dtypes[d], sizes[d], n, n % 3 ? TWIN_FIXED_BLOCK : 37,
                                n % 2 ? 1 : 24, how, state);
            }
}

#ifdef TW_EMULATED
/* Is everything as on the host, under this schedule? */
static bool right(uint64_t seed, uint64_t *state)
{
    const int before = failures;
    const uint64_t trouble = grid_trouble();
    quiet = true;
    grid_seed(seed);
    check_all(seed % 2 ? 200 : 40000, state);
    quiet = false;
    const bool all = failures == before && grid_trouble() == trouble;
    failures = before;
    return all;
}

/* A site that is removed must be missed, under some schedule. */
static void check_removed(uint64_t *state)
{
    struct grid_site list[GRID_SITES];
    const int n = grid_sites(list);
    for (int i = 0; i < n; i++) {
        bool missed = false;
        grid_remove(i);
        for (uint64_t seed = 1; seed <= 12 && !missed; seed++)
            missed = !right(seed, state);
        if (!missed)
            fprintf(stderr, "%s:%d: %s\n", list[i].file, list[i].line, list[i].what);
        CHECK(missed, "nobody misses what was removed");
    }
    grid_remove(-1);
    printf("%d barriers and atomics removed, one at a time\n", n);
    CHECK(n >= 11, "fewer than kernels/ has");
}

int main()
{
    uint64_t state = 1;
    printf("A DOUBLE of CUDA's runtime: kernels run on the host\n");
    for (uint64_t seed = 1; seed <= 4; seed++) {
        grid_seed(seed);
        check_all(40000, &state);
    }
    CHECK(grid_trouble() == 0, "threads waited for each other in vain");
    check_removed(&state);
    printf("%s\n", failures ? "FAILED" : "ok");
    return failures ? 1 : 0;
}
#else
/* An exact sum of n elements beside a copy of them. */
static void bench(enum twin_dtype dtype, size_t size, const char *name, int64_t n)
{
    uint64_t state = 1;
    struct twin_error err = TWIN_ERROR_INIT;
    void *d_x, *d_y, *d_scratch;
    float copy = 1e9f, sum = 1e9f, ms;
    cudaEvent_t began, ended;
    unsigned char *x = (unsigned char *)malloc(n * size);
    fill(x, n, size, 1, &state);
    CHECK(!cudaMalloc(&d_x, n * size) && !cudaMalloc(&d_y, n * size) &&
              !cudaMalloc(&d_scratch, TWIN_CUDA_SCRATCH_BYTES),
          "cudaMalloc");
    CHECK(!cudaMemcpy(d_x, x, n * size, cudaMemcpyHostToDevice), "cudaMemcpy");
    CHECK(!cudaEventCreate(&began) && !cudaEventCreate(&ended), "cudaEventCreate");
    for (int round = 0; round < 11; round++)
        for (int what = 0; what < 2; what++) {
            struct twin_acc acc;
            twin_acc_init(&acc);
            cudaEventRecord(began);
            if (what == 0)
                cudaMemcpyAsync(d_y, d_x, n * size, cudaMemcpyDeviceToDevice);
            else
                CHECK(twin_cuda_acc_add(&acc, dtype, d_x, n, d_scratch, NULL, &err) == 0,
                      err.message);
            cudaEventRecord(ended);
            cudaEventSynchronize(ended);
            cudaEventElapsedTime(&ms, began, ended);
            float *best = what ? &sum : &copy;
            *best = ms < *best ? ms : *best;
        }
    printf("exact sum of %lld %s: %.3f ms (%.0f GB/s), copy %.3f ms\n", (long long)n, name, sum,
           n * size * 1e-6 / sum, copy);
    cudaFree(d_x), cudaFree(d_y), cudaFree(d_scratch);
    free(x);
}

int main(int argc, char **argv)
{
    int devices = 0;
    uint64_t state = 1;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        printf("SKIPPED: no GPU\n");
        return 77;
    }
    if (argc > 1 && !strcmp(argv[1], "bench")) {
        static const char *const names[] = {"f64", "f32", "f16", "bf16"};
        for (int d = 0; d < 4; d++)
            bench(dtypes[d], sizes[d], names[d], 100000000);
        return failures != 0;
    }
    check_all(3000000, &state);
    printf("%s\n", failures ? "FAILED" : "ok");
    return failures ? 1 : 0;
}
#endif
