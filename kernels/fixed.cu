/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order-free sums on a GPU: one element is one thread's, with element.h, which is also the
 * reference on the host. Memory bounds them, not arithmetic: quantising reads each contribution
 * once and writes each sum once.
 */
#include <stdlib.h>
#include <string.h>
#include "device.cuh"

/* A thread block to a block of elements, through all contributions. */
__global__ static void exponents_kernel(struct tw_type t, const char *x, int64_t contributions,
                                        int64_t n, int64_t block, int32_t *exponents)
{
    __shared__ uint32_t most;
    const int64_t first = blockIdx.x * block, end = first + block < n ? first + block : n;
    uint32_t mine = 0;
    if (threadIdx.x == 0)
        most = 0;
    __syncthreads();
    for (int64_t c = 0; c < contributions; c++)
        for (int64_t i = first + threadIdx.x; i < end; i += blockDim.x) {
            const uint32_t field = tw_exponent_field(tw_device_load(x + c * n * t.size, i, t.size),
                                                     t.format);
            mine = field > mine ? field : mine;
        }
    atomicMax(&most, mine);
    __syncthreads();
    if (threadIdx.x == 0)
        exponents[blockIdx.x] = (int32_t)most;
}

__global__ static void specials_kernel(struct tw_type t, const char *x, int64_t contributions,
                                       int64_t n, int64_t block, const int32_t *exponents,
                                       const int32_t *index, int32_t *specials)
{
    if (exponents[blockIdx.x] != (1 << t.format.exponent) - 1)
        return;
    const int64_t first = blockIdx.x * block, end = first + block < n ? first + block : n;
    int32_t *mine = specials + index[blockIdx.x] * (1 + 2 * block);
    for (int64_t i = first + threadIdx.x; i < end; i += blockDim.x) {
        unsigned marks = 0;
        int32_t most = 0;
        for (int64_t c = 0; c < contributions; c++) {
            const uint64_t bits = tw_device_load(x + c * n * t.size, i, t.size);
            const unsigned mark = tw_element_mark(bits, t.format);
            const int32_t field = (int32_t)tw_exponent_field(bits, t.format);
            marks |= mark;
            most = !mark && field > most ? field : most;
        }
        atomicMax(mine, most);
        mine[1 + 2 * (i - first)] = marks & 1;
        mine[2 + 2 * (i - first)] = marks >> 1;
    }
}

/* The exponent field that a block's unit is made from, and the marks of one of its elements. */
__device__ static uint32_t field_and_marks(struct tw_type t, int64_t i, int64_t block,
                                           const int32_t *exponents, const int32_t *index,
                                           const int32_t *specials, unsigned *marks)
{
    const int64_t b = i / block;
    const int32_t field = exponents[b];
    *marks = 0;
    if (field != (1 << t.format.exponent) - 1)
        return (uint32_t)field;
    const int32_t *special = specials + index[b] * (1 + 2 * block);
    *marks = (special[1 + 2 * (i - b * block)] ? 1u : 0u) |
             (special[2 + 2 * (i - b * block)] ? 2u : 0u);
    return (uint32_t)special[0];
}

__global__ static void quantise_kernel(struct tw_type t, const char *x, int64_t contributions,
                                       int64_t n, int64_t block, int bits, const int32_t *exponents,
                                       const int32_t *index, const int32_t *specials, int64_t *sum)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned marks;
    const int unit = tw_unit_exponent(
        field_and_marks(t, i, block, exponents, index, specials, &marks), bits, t.format);
    int64_t total = 0;
    for (int64_t c = 0; c < contributions; c++) {
        const uint64_t element = tw_device_load(x + c * n * t.size, i, t.size);
        if (!tw_element_mark(element, t.format))
            total += tw_element_units(element, t.format, unit);
    }
    sum[i] = total;
}

__global__ static void round_kernel(struct tw_type t, const int64_t *sum, int64_t n, int64_t block,
                                    int bits, uint64_t divisor, const int32_t *exponents,
                                    const int32_t *index, const int32_t *specials, void *out)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned marks;
    const int unit = tw_unit_exponent(
        field_and_marks(t, i, block, exponents, index, specials, &marks), bits, t.format);
    tw_device_store(out, i, t.size,
                    marks ? tw_marked_element(marks, t.format)
                          : tw_round_units(sum[i], divisor, unit, t.format));
}

static int check(enum twin_dtype dtype, struct tw_type *t, int64_t contributions, int64_t n,
                 int64_t block, int64_t total, int64_t divisor, struct twin_error *err)
{
    if (!tw_type_of(dtype, t))
        return twin_error_set(err, TWIN_EINVAL,
                              "CUDA sum: elements of type %d; expected f64, f32, f16 or bf16",
                              (int)dtype);
    if (n < 0 || n > INT32_MAX || contributions < 0 || block < 1 || block > TWIN_FIXED_MAX_BLOCK ||
        total < 1 || total > TWIN_FIXED_MAX_TOTAL || contributions > total || divisor < 1 ||
        divisor > TWIN_FIXED_MAX_TOTAL)
        return twin_error_set(err, TWIN_EINVAL,
                              "CUDA sum: %lld of %lld contributions of %lld elements, block %lld, "
                              "divisor %lld: out of range",
                              (long long)contributions, (long long)total, (long long)n,
                              (long long)block, (long long)divisor);
    return 0;
}

static unsigned blocks_of(int64_t n, int64_t block)
{
    return (unsigned)(n / block + (n % block != 0));
}

/* Powers of two are for the exponent, so that the division is by what is left. */
static uint64_t odd_part(int64_t divisor, int *bits)
{
    while (divisor % 2 == 0) {
        divisor /= 2;
        ++*bits;
    }
    return (uint64_t)divisor;
}

extern "C" int twin_cuda_fixed_exponents(enum twin_dtype dtype, const void *d_x,
                                         int64_t contributions, int64_t n, int64_t block,
                                         int32_t *d_exponents, void *stream, struct twin_error *err)
{
    struct tw_type t = {};
    const int rc = check(dtype, &t, contributions, n, block, TWIN_FIXED_MAX_TOTAL, 1, err);
    if (rc || n == 0)
        return rc;
    exponents_kernel<<<blocks_of(n, block), TW_THREADS, 0, (cudaStream_t)stream>>>(
        t, (const char *)d_x, contributions, n, block, d_exponents);
    return tw_cuda_result(cudaGetLastError(), "exponents", err);
}

extern "C" int64_t twin_cuda_fixed_flagged(enum twin_dtype dtype, const int32_t *d_exponents,
                                           int64_t blocks, int32_t *exponents, int32_t *d_index,
                                           void *stream, struct twin_error *err)
{
    struct tw_type t = {};
    int32_t flagged = 0;
    int rc = check(dtype, &t, 0, blocks, 1, 1, 1, err);
    if (!rc)
        rc = tw_cuda_result(cudaMemcpyAsync(exponents, d_exponents, (size_t)blocks * 4,
                                            cudaMemcpyDeviceToHost, (cudaStream_t)stream),
                            "exponents to the host", err);
    if (!rc)
        rc = tw_cuda_result(cudaStreamSynchronize((cudaStream_t)stream),
                            "waiting for the exponents", err);
    /* from here on: where each block's specials are */
    for (int64_t b = 0; !rc && b < blocks; b++) {
        const int is = exponents[b] == (1 << t.format.exponent) - 1;
        exponents[b] = flagged;
        flagged += is;
    }
    if (!rc && flagged)
        rc = tw_cuda_result(
            cudaMemcpy(d_index, exponents, (size_t)blocks * 4, cudaMemcpyHostToDevice),
            "index of flagged blocks", err);
    return rc ? rc : flagged;
}

extern "C" int twin_cuda_fixed_specials(enum twin_dtype dtype, const void *d_x,
                                        int64_t contributions, int64_t n, int64_t block,
                                        const int32_t *d_exponents, const int32_t *d_index,
                                        int32_t *d_specials, void *stream, struct twin_error *err)
{
    struct tw_type t = {};
    const int rc = check(dtype, &t, contributions, n, block, TWIN_FIXED_MAX_TOTAL, 1, err);
    if (rc || n == 0)
        return rc;
    specials_kernel<<<blocks_of(n, block), TW_THREADS, 0, (cudaStream_t)stream>>>(
        t, (const char *)d_x, contributions, n, block, d_exponents, d_index, d_specials);
    return tw_cuda_result(cudaGetLastError(), "specials", err);
}

extern "C" int twin_cuda_fixed_quantise(enum twin_dtype dtype, const void *d_x,
                                        int64_t contributions, int64_t n, int64_t block,
                                        int64_t total, const int32_t *d_exponents,
                                        const int32_t *d_index, const int32_t *d_specials,
                                        int64_t *d_sum, void *stream, struct twin_error *err)
{
    struct tw_type t = {};
    const int rc = check(dtype, &t, contributions, n, block, total, 1, err);
    if (rc || n == 0)
        return rc;
    quantise_kernel<<<blocks_of(n, TW_THREADS), TW_THREADS, 0, (cudaStream_t)stream>>>(
        t, (const char *)d_x, contributions, n, block, twin_fixed_bits(total), d_exponents, d_index,
        d_specials, d_sum);
    return tw_cuda_result(cudaGetLastError(), "quantise", err);
}

extern "C" int twin_cuda_fixed_round(enum twin_dtype dtype, const int64_t *d_sum, int64_t n,
                                     int64_t block, int64_t total, int64_t divisor,
                                     const int32_t *d_exponents, const int32_t *d_index,
                                     const int32_t *d_specials, void *d_out, void *stream,
                                     struct twin_error *err)
{
    struct tw_type t = {};
    const int rc = check(dtype, &t, 0, n, block, total, divisor, err);
    if (rc || n == 0)
        return rc;
    int bits = twin_fixed_bits(total);
    const uint64_t odd = odd_part(divisor, &bits);
    round_kernel<<<blocks_of(n, TW_THREADS), TW_THREADS, 0, (cudaStream_t)stream>>>(
        t, d_sum, n, block, bits, odd, d_exponents, d_index, d_specials, d_out);
    return tw_cuda_result(cudaGetLastError(), "round", err);
}
