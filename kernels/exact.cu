/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exact sums on a GPU: as src/numerics/bins.c, with the digits of each thread block in shared
 * memory. Additions of integers by atomics come in any order, and give one result. A digit takes
 * 2^31 additions of 32 bits; a thread block makes fewer, settles its carries, and adds to the
 * digits of all, of which each then has less than 2^32 times the number of thread blocks.
 */
#include "device.cuh"
extern "C" {
#include "exact_inside.h"
}

#define BLOCKS_MOST 1024
static_assert(TWIN_CUDA_SCRATCH_BYTES >= TW_DIGITS * 8 + 8, "scratch: the digits and the flags");

__device__ static void add_digit(unsigned long long *digit, uint64_t v, bool negative)
{
    if (v)
        atomicAdd(digit, (unsigned long long)(negative ? 0 - v : v));
}

/* A finite element: its significand, of at most 53 bits, over three digits. */
__device__ static void add_element(unsigned long long *digits, uint64_t bits,
                                   struct tw_float_format f)
{
    const uint32_t field = tw_exponent_field(bits, f);
    const uint64_t fraction = bits & (((uint64_t)1 << f.fraction) - 1);
    const uint64_t significand = field ? fraction | (uint64_t)1 << f.fraction : fraction;
    const int exponent = (int)(field ? field : 1) - ((1 << (f.exponent - 1)) - 1) - f.fraction;
    const unsigned at = (unsigned)(exponent - TW_ACC_LOW), shift = at % 32;
    const bool negative = bits >> (f.fraction + f.exponent) & 1;
    const tw_units128 v = (tw_units128)significand << shift;
    unsigned long long *d = digits + at / 32;
    add_digit(d, (uint64_t)v & UINT32_MAX, negative);
    add_digit(d + 1, (uint64_t)v >> 32, negative);
    add_digit(d + 2, (uint64_t)(v >> 64), negative);
}

/* The flag of an accumulator that a mark of tw_element_mark stands for. */
__device__ static unsigned flag_of(unsigned mark)
{
    if (mark == 3)
        return TW_ACC_NAN;
    return mark == 2 ? TW_ACC_NEG_INF : TW_ACC_POS_INF;
}

__global__ static void sum_kernel(struct tw_type t, const void *x, int64_t n,
                                  unsigned long long *all, unsigned *all_flags)
{
    __shared__ unsigned long long digits[TW_DIGITS];
    __shared__ unsigned flags;
    unsigned seen = 0;
    for (int i = threadIdx.x; i < TW_DIGITS; i += blockDim.x)
        digits[i] = 0;
    if (threadIdx.x == 0)
        flags = 0;
    __syncthreads();
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * blockDim.x) {
        const uint64_t bits = tw_device_load(x, i, t.size);
        const unsigned mark = tw_element_mark(bits, t.format);
        if (mark)
            seen |= TW_ACC_NOT_MINUS_ZERO | flag_of(mark);
        else
            add_element(digits, bits, t.format);
        if (bits != (uint64_t)1 << (t.format.fraction + t.format.exponent))
            seen |= TW_ACC_NOT_MINUS_ZERO;
    }
    if (seen)
        atomicOr(&flags, seen);
    __syncthreads();
    if (threadIdx.x == 0) { /* carries: every digit to 0..2^32-1, the last one keeps the sign */
        long long carry = 0;
        for (int i = 0; i < TW_DIGITS - 1; i++) {
            const long long v = (long long)digits[i] + carry;
            digits[i] = (unsigned long long)v & UINT32_MAX;
            carry = v >> 32;
        }
        digits[TW_DIGITS - 1] += (unsigned long long)carry;
        atomicOr(all_flags, flags);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < TW_DIGITS; i += blockDim.x)
        if (digits[i])
            atomicAdd(all + i, digits[i]);
}

extern "C" int twin_cuda_acc_add(struct twin_acc *acc, enum twin_dtype dtype, const void *d_x,
                                 int64_t n, void *d_scratch, void *stream, struct twin_error *err)
{
    struct tw_type t = {};
    struct tw_bins bins;
    uint64_t flags = 0;
    if (!tw_type_of(dtype, &t) || n < 0 || (n > 0 && (!d_x || !d_scratch)))
        return twin_error_set(err, TWIN_EINVAL,
                              "CUDA sum: %lld elements of type %d at %s; expected 0 or more of "
                              "f64, f32, f16 or bf16 at an address, and scratch memory",
                              (long long)n, (int)dtype, d_x && d_scratch ? "addresses" : "NULL");
    if (acc->count > UINT64_MAX - (uint64_t)n)
        return twin_error_set(err, TWIN_ELIMIT, "CUDA sum: more than 2^64 - 1 numbers in all");
    /*
     * A thread block's share stays below 2^30 elements: the grid is limited, so the array is cut.
     */
    for (int64_t done = 0, m; done < n; done += m) {
        m = n - done < (int64_t)1 << 38 ? n - done : (int64_t)1 << 38;
        const int64_t wanted = (m + 16 * TW_THREADS - 1) / (16 * TW_THREADS);
        unsigned long long *digits = (unsigned long long *)d_scratch;
        tw_bins_init(&bins);
        int rc = tw_cuda_result(
            cudaMemsetAsync(d_scratch, 0, TWIN_CUDA_SCRATCH_BYTES, (cudaStream_t)stream),
            "clearing the digits", err);
        if (rc)
            return rc;
        sum_kernel<<<(unsigned)(wanted < BLOCKS_MOST ? wanted : BLOCKS_MOST), TW_THREADS, 0,
                     (cudaStream_t)stream>>>(t, (const char *)d_x + done * t.size, m, digits,
                                             (unsigned *)(digits + TW_DIGITS));
        rc = tw_cuda_result(cudaGetLastError(), "exact sum", err);
        if (!rc)
            rc = tw_cuda_result(cudaMemcpyAsync(bins.digit, digits, TW_DIGITS * 8,
                                                cudaMemcpyDeviceToHost, (cudaStream_t)stream),
                                "digits to the host", err);
        if (!rc)
            rc = tw_cuda_result(cudaMemcpyAsync(&flags, digits + TW_DIGITS, 8,
                                                cudaMemcpyDeviceToHost, (cudaStream_t)stream),
                                "flags to the host", err);
        if (!rc)
            rc = tw_cuda_result(cudaStreamSynchronize((cudaStream_t)stream), "waiting for the sum",
                                err);
        if (rc)
            return rc;
        bins.flags = (uint32_t)flags;
        tw_bins_flush(&bins, acc);
        acc->count += (uint64_t)m;
    }
    return 0;
}
