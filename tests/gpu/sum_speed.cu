/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exact sum of kernels/exact.cu beside CUB's plain sum of the same floats:
 *
 *     sum_speed COUNT ROUNDS
 *
 * prints the best time of each, from the call until the sum is on the host: `exact_us`, `cub_us`.
 * Exit code 1: a sum is not what it should be, and no time is printed.
 */
#include <cub/cub.cuh>
#include <cuda_runtime.h>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#include <twin/cuda.h>

/* What both sum, and what they need. */
struct work {
    int64_t count;
    float *x;        /* on the device */
    void *digits;    /* TWIN_CUDA_SCRATCH_BYTES there */
    void *temporary; /* CUB's */
    size_t temporary_bytes;
    float *out; /* CUB's sum, on the device */
};

/* false: CUDA refused. */
static bool good(cudaError_t e, const char *what)
{
    if (e != cudaSuccess)
        fprintf(stderr, "sum_speed: %s: %s\n", what, cudaGetErrorString(e));
    return e == cudaSuccess;
}

/* Values of both signs and of many sizes. */
static std::vector<float> draw(int64_t count)
{
    std::vector<float> x((size_t)count);
    uint64_t state = 2026;
    for (float &v : x) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        v = (float)(int32_t)(state >> 32) * (state & 1 ? 1e-9f : 1e-4f);
    }
    return x;
}

static bool prepare(struct work *w, const std::vector<float> &x)
{
    const size_t bytes = x.size() * sizeof(float);
    w->count = (int64_t)x.size();
    return good(cudaMalloc(&w->x, bytes), "cudaMalloc") &&
           good(cudaMalloc(&w->digits, TWIN_CUDA_SCRATCH_BYTES), "cudaMalloc") &&
           good(cudaMalloc(&w->out, sizeof(float)), "cudaMalloc") &&
           good(cub::DeviceReduce::Sum(NULL, w->temporary_bytes, w->x, w->out, w->count),
                "DeviceReduce::Sum") &&
           good(cudaMalloc(&w->temporary, w->temporary_bytes), "cudaMalloc") &&
           good(cudaMemcpy(w->x, x.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
}

static bool exact_sum(const struct work *w, double *sum)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_acc acc;
    twin_acc_init(&acc);
    if (twin_cuda_acc_add(&acc, TWIN_F32, w->x, w->count, w->digits, NULL, &err) != 0) {
        fprintf(stderr, "sum_speed: %s\n", err.message);
        return false;
    }
    *sum = twin_acc_f64(&acc);
    return true;
}

static bool cub_sum(const struct work *w, double *sum)
{
    float found = 0;
    size_t bytes = w->temporary_bytes;
    if (!good(cub::DeviceReduce::Sum(w->temporary, bytes, w->x, w->out, w->count),
              "DeviceReduce::Sum") ||
        !good(cudaMemcpyAsync(&found, w->out, sizeof found, cudaMemcpyDeviceToHost, NULL),
              "cudaMemcpyAsync") ||
        !good(cudaStreamSynchronize(NULL), "cudaStreamSynchronize"))
        return false;
    *sum = found;
    return true;
}

/* The exact sum has the bits of the host's; the plain one is near. */
static bool are_right(const std::vector<float> &x, double exact, double plain)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_acc acc, sizes;
    twin_acc_init(&acc);
    twin_acc_init(&sizes);
    if (twin_acc_add(&acc, TWIN_F32, x.data(), (int64_t)x.size(), &err) != 0 ||
        twin_acc_add_abs(&sizes, TWIN_F32, x.data(), (int64_t)x.size(), &err) != 0) {
        fprintf(stderr, "sum_speed: %s\n", err.message);
        return false;
    }
    const double want = twin_acc_f64(&acc);
    if (memcmp(&want, &exact, sizeof want) == 0 &&
        std::fabs(plain - want) <= 1e-4 * twin_acc_f64(&sizes))
        return true;
    fprintf(stderr, "sum_speed: the sum is %.17g, the exact sum on the GPU %.17g, CUB's %.9g\n",
            want, exact, plain);
    return false;
}

/* Of one call, in microseconds; negative: it failed. */
static double time_of(bool (*sum)(const struct work *, double *), const struct work *w, double *out)
{
    const auto began = std::chrono::steady_clock::now();
    if (!sum(w, out))
        return -1;
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began)
        .count();
}

int main(int argc, char **argv)
{
    const long long count = argc == 3 ? atoll(argv[1]) : 0, rounds = argc == 3 ? atoll(argv[2]) : 0;
    if (count < 1 || rounds < 1) {
        fprintf(stderr, "usage: sum_speed COUNT ROUNDS\n");
        return 2;
    }
    struct work w = {};
    const std::vector<float> x = draw(count);
    double exact = 0, plain = 0, best_exact = INFINITY, best_plain = INFINITY;
    if (!prepare(&w, x))
        return 1;
    for (long long i = 0; i < rounds; i++) { /* they take turns */
        const double one = time_of(exact_sum, &w, &exact), other = time_of(cub_sum, &w, &plain);
        if (one < 0 || other < 0 || (i == 0 && !are_right(x, exact, plain)))
            return 1;
        best_exact = one < best_exact ? one : best_exact;
        best_plain = other < best_plain ? other : best_plain;
    }
    printf("exact_us %.2f\ncub_us %.2f\n", best_exact, best_plain);
    return 0;
}
