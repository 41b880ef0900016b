/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digest, statistics and sketch of tensors in GPU memory: the same bits as src/fingerprint gives on
 * the host.
 *
 * The digest is a sum of integers, so thread blocks add their shares in any order. Sums of
 * floating-point numbers have the order that docs/format/fingerprint.md gives them: a thread is one
 * lane of a row (sketch) or of a chunk (statistics), and what rows and chunks found is added up one
 * after another by a second kernel. Products are rounded before they are added: __dmul_rn and
 * __dadd_rn are never fused.
 */
#include <twin/fingerprint.h>
#include "look.h"
#include "src/fingerprint/small.h"

/* Which tensor this thread block works on. */
__device__ static const struct tw_look *mine(const struct tw_looks &looks)
{
    uint32_t low = 0, high = looks.n;
    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;
        if (looks.look[middle].block <= blockIdx.x)
            low = middle;
        else
            high = middle;
    }
    return &looks.look[low];
}

static_assert(sizeof(struct tw_looks) + 16 <= 4096, "what a kernel's arguments may take");

/* Where element number `index` of the global tensor lies, of a strided tensor. */
__device__ static const void *address(const struct tw_looks &looks, const struct tw_look *t,
                                      uint64_t index)
{
    uint64_t at = index - t->origin;
    int64_t steps = 0;
    for (uint32_t i = t->axis + t->axes; i-- > t->axis;) {
        const struct tw_axis a = looks.axis[i];
        const uint64_t outer = at / a.count;
        steps += (int64_t)(at - outer * a.count) * a.stride;
        at = outer;
    }
    return (const char *)t->data + steps * t->width;
}

/* The sum over all threads of the block, known to thread 0: within each warp by shuffles, then over
 * the warps. All threads must call it, since it waits for them. */
__device__ static uint64_t sum_of_block(uint64_t v, uint64_t *shared)
{
    for (int width = 16; width > 0; width /= 2)
        v += __shfl_down_sync(0xFFFFFFFFu, v, width);
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = v;
    __syncthreads();
    uint64_t sum = 0;
    if (threadIdx.x == 0)
        for (int i = 0; i < TW_LOOK_THREADS / 32; i++)
            sum += shared[i];
    __syncthreads();
    return sum; /* of thread 0 */
}

/* ---- digest */

/* The 16 bytes at p, of which those from `low` to before `high` belong to the tensor; the others
 * count as zero. */
__device__ static void load_unit(const unsigned char *p, int low, int high, uint64_t *w0,
                                 uint64_t *w1)
{
    const uintptr_t at = (uintptr_t)p;
    if (low == 0 && high == 16 && at % 16 == 0) {
        const ulonglong2 v = *(const ulonglong2 *)p;
        *w0 = v.x;
        *w1 = v.y;
    } else if (low == 0 && high == 16 && at % 4 == 0) {
        const uint32_t *q = (const uint32_t *)p;
        *w0 = q[0] | (uint64_t)q[1] << 32;
        *w1 = q[2] | (uint64_t)q[3] << 32;
    } else {
        *w0 = *w1 = 0;
        for (int i = low; i < high; i++)
            *(i < 8 ? w0 : w1) |= (uint64_t)p[i] << i % 8 * 8;
    }
}

__device__ static uint64_t bits_at(const void *p, int width)
{
    switch (width) {
    case 1: return *(const uint8_t *)p;
    case 2: return *(const uint16_t *)p;
    case 4: return *(const uint32_t *)p;
    default: return *(const uint64_t *)p;
    }
}

/* The 16 bytes of this unit of the global tensor, gathered from a strided one. */
__device__ static void gather_unit(const struct tw_looks &looks, const struct tw_look *t,
                                   uint64_t unit, uint64_t *w0, uint64_t *w1)
{
    const uint32_t each = 16 / t->width;
    *w0 = *w1 = 0;
    for (uint32_t i = 0; i < each; i++) {
        const uint64_t index = unit * each + i;
        if (index < t->first || index >= t->first + t->count)
            continue;
        const uint32_t byte = i * t->width;
        *(byte < 8 ? w0 : w1) |= bits_at(address(looks, t, index), t->width) << byte % 8 * 8;
    }
}

extern "C" __global__ void __launch_bounds__(TW_LOOK_THREADS)
    tw_digest(const __grid_constant__ struct tw_looks looks, struct tw_seen *seen)
{
    __shared__ uint64_t shared[TW_LOOK_THREADS / 32];
    const struct tw_look *t = mine(looks);
    const uint64_t from = t->first * t->width, bytes = t->count * t->width, cut = from % 16;
    const uint64_t unit = from / 16, units = (cut + bytes + 15) / 16;
    const unsigned char *base = (const unsigned char *)t->data - cut;
    const uint64_t start = (uint64_t)(blockIdx.x - t->block) * TW_LOOK_UNITS;
    const uint64_t end = start + TW_LOOK_UNITS < units ? start + TW_LOOK_UNITS : units;
    uint64_t a = 0, b = 0;
    /* whole units: several loads under way */
    if (t->axes) {
        for (uint64_t u = start + threadIdx.x; u < end; u += TW_LOOK_THREADS) {
            uint64_t w0, w1;
            gather_unit(looks, t, unit + u, &w0, &w1);
            tw_mix_block(w0, w1, tw_block_key(unit + u), &a, &b);
        }
    } else if ((uintptr_t)base % 16 == 0 && cut == 0 && start + TW_LOOK_UNITS <= bytes / 16) {
        const ulonglong2 *from = (const ulonglong2 *)base + start + threadIdx.x;
        enum { AHEAD = 8 };
        for (uint32_t i = 0; i < TW_LOOK_UNITS / TW_LOOK_THREADS; i += AHEAD) {
            ulonglong2 v[AHEAD];
#pragma unroll
            for (uint32_t j = 0; j < AHEAD; j++)
                v[j] = from[(i + j) * TW_LOOK_THREADS];
#pragma unroll
            for (uint32_t j = 0; j < AHEAD; j++)
                tw_mix_block(v[j].x, v[j].y,
                             tw_block_key(unit + start + threadIdx.x + (i + j) * TW_LOOK_THREADS),
                             &a, &b);
        }
    } else {
        for (uint64_t u = start + threadIdx.x; u < end; u += TW_LOOK_THREADS) {
            const uint64_t left = cut + bytes - 16 * u;
            uint64_t w0, w1;
            load_unit(base + 16 * u, u == 0 ? (int)cut : 0, left < 16 ? (int)left : 16, &w0, &w1);
            tw_mix_block(w0, w1, tw_block_key(unit + u), &a, &b);
        }
    }
    a = sum_of_block(a, shared);
    b = sum_of_block(b, shared);
    if (threadIdx.x == 0) {
        atomicAdd((unsigned long long *)&seen[t->result].a, (unsigned long long)a);
        atomicAdd((unsigned long long *)&seen[t->result].b, (unsigned long long)b);
    }
}

/* ---- elements as binary64 */

/* Element types that have no code of their own, and strided tensors of all types. */
enum { OTHER = -1, STRIDED = -2 };

/* Element i as binary64; exact but for large 64-bit integers. With a DTYPE of its own the switch is
 * gone at compile time. */
template <int DTYPE> __device__ static double element(int dtype, const void *p, uint64_t i)
{
    switch (DTYPE < 0 ? dtype : DTYPE) {
    case TWIN_U8: return ((const uint8_t *)p)[i];
    case TWIN_I8: return ((const int8_t *)p)[i];
    case TWIN_BOOL: return ((const uint8_t *)p)[i] != 0;
    case TWIN_U16: return ((const uint16_t *)p)[i];
    case TWIN_I16: return ((const int16_t *)p)[i];
    case TWIN_F16: return tw_f16_value(((const uint16_t *)p)[i]);
    case TWIN_BF16: return tw_bf16_value(((const uint16_t *)p)[i]);
    case TWIN_U32: return ((const uint32_t *)p)[i];
    case TWIN_I32: return ((const int32_t *)p)[i];
    case TWIN_F32: return ((const float *)p)[i];
    case TWIN_U64: return (double)((const uint64_t *)p)[i];
    case TWIN_I64: return (double)((const int64_t *)p)[i];
    case TWIN_F8_E4M3FN: return tw_e4m3fn_value(((const uint8_t *)p)[i]);
    case TWIN_F8_E5M2: return tw_e5m2_value(((const uint8_t *)p)[i]);
    default: return ((const double *)p)[i];
    }
}

/* Element number `index` of the global tensor, which is number i of those at p where the tensor is
 * contiguous. */
template <int DTYPE>
__device__ static double element_of(const struct tw_looks &looks, const struct tw_look *t,
                                    uint64_t index, const void *p, uint64_t i)
{
    if (DTYPE == STRIDED)
        return element<STRIDED>(t->dtype, address(looks, t, index), 0);
    return element<DTYPE>(t->dtype, p, i);
}

__device__ static int kind_of(const struct tw_look *t)
{
    return t->axes ? (int)STRIDED : t->dtype;
}

/* Calls function<type>(...) for the tensor's type: those that training computes in have code of
 * their own. */
#define BY_TYPE(type, function, ...)                         \
    switch (type) {                                          \
    case TWIN_F16: function<TWIN_F16>(__VA_ARGS__); break;   \
    case TWIN_BF16: function<TWIN_BF16>(__VA_ARGS__); break; \
    case TWIN_F32: function<TWIN_F32>(__VA_ARGS__); break;   \
    case TWIN_F64: function<TWIN_F64>(__VA_ARGS__); break;   \
    case STRIDED: function<STRIDED>(__VA_ARGS__); break;     \
    default: function<OTHER>(__VA_ARGS__);                   \
    }

static __device__ const uint64_t INFINITE = 0x7FF0000000000000u, SIGN = (uint64_t)1 << 63;

__device__ static uint64_t bits_of(double x)
{
    return tw_f64_bits(x);
}

/* Which of the places, 16 threads each, that all thread blocks of a tensor share. */
__device__ static uint32_t my_place(const struct tw_look *t)
{
    return (blockIdx.x - t->block) * TW_LOOK_AT_ONCE + threadIdx.x / TW_LOOK_LANES;
}

/* Adds up n over the warp, and the warp's sum to *all. All threads of the warp must call it. */
__device__ static void count(uint32_t n, uint64_t *all)
{
    for (int width = 16; width > 0; width /= 2)
        n += __shfl_down_sync(0xFFFFFFFFu, n, width);
    if (threadIdx.x % 32 == 0 && n)
        atomicAdd((unsigned long long *)all, (unsigned long long)n);
}

/* ---- sketch */

/* This thread's lane of one row, with its signs; counts the elements that are not finite. */
template <int DTYPE>
__device__ static void lane_of_row(const struct tw_looks &looks, const struct tw_look *t,
                                   uint64_t row, uint32_t lane, struct tw_row_sums *out,
                                   uint32_t *skipped)
{
    const uint64_t begin = row * TW_LOOK_ROW, end = t->first + t->count;
    const bool whole = begin >= t->first && begin + TW_LOOK_ROW <= end;
    /* of the row's first element, if there is one */
    const void *data = (const char *)t->data - (t->first - begin) * t->width;
    double sum = 0;
#pragma unroll(DTYPE < 0 ? 1 : 4)
    for (int quarter = 0; quarter < 4; quarter++) {
        uint64_t x = 0, y = 0;
        tw_mix_block(0, 0, (row * 4 + quarter) * TW_KEY_STEP + TW_SIGN_BASE, &x, &y);
#pragma unroll(DTYPE < 0 ? 1 : 8)
        for (uint32_t i = 0; i < 8; i++) {
            const uint64_t at = quarter * 128 + i * 16 + lane;
            if (!whole && (begin + at < t->first || begin + at >= end))
                continue;
            const double v = element_of<DTYPE>(looks, t, begin + at, data, at);
            const bool finite = (bits_of(v) & ~SIGN) < INFINITE;
            const bool minus = (i < 4 ? x : y) >> (i % 4 * 16 + lane) & 1;
            *skipped += !finite;
            const double turned = minus ? -v : v;
            sum = __dadd_rn(sum, finite ? turned : 0.0);
        }
    }
    out->bucket[(lane + tw_sketch_turn(begin, TW_LOOK_LANES)) % TW_LOOK_LANES] = sum;
}

extern "C" __global__ void __launch_bounds__(TW_LOOK_THREADS)
    tw_rows(const __grid_constant__ struct tw_looks looks, struct tw_row_sums *scratch,
            struct tw_seen *seen)
{
    const struct tw_look *t = mine(looks);
    const uint32_t place = my_place(t);
    const uint64_t row = t->first / TW_LOOK_ROW + place;
    uint32_t skipped = 0;
    if (row <= (t->first + t->count - 1) / TW_LOOK_ROW)
        BY_TYPE(kind_of(t), lane_of_row, looks, t, row, threadIdx.x % TW_LOOK_LANES,
                scratch + t->place + place, &skipped);
    count(skipped, &seen[t->result].skipped);
}

/* One thread block a tensor: adds its rows to the buckets, in their order. One warp adds while the
 * others fetch the next ones. */
extern "C" __global__ void __launch_bounds__(TW_LOOK_THREADS)
    tw_add_rows(const __grid_constant__ struct tw_looks looks, const struct tw_row_sums *scratch,
                struct tw_seen *seen)
{
    enum { TILE = 128, FETCHERS = TW_LOOK_THREADS - 32 };
    __shared__ struct tw_row_sums tile[2][TILE];
    const struct tw_look *t = &looks.look[blockIdx.x];
    const uint64_t count = (t->first + t->count - 1) / TW_LOOK_ROW - t->first / TW_LOOK_ROW + 1;
    const double *from = (const double *)(scratch + t->place);
    double *bucket = &seen[t->result].bucket[threadIdx.x % TW_LOOK_LANES];
    double v = *bucket;
    /* the tile at `at` is fetched, that before it is added */
    for (uint64_t at = 0; at < count + TILE; at += TILE) {
        const uint32_t turn = at / TILE % 2;
        if (threadIdx.x >= 32) {
            const uint64_t end = (at + TILE < count ? at + TILE : count) * TW_LOOK_LANES;
            double *to = (double *)tile[turn];
#pragma unroll 4
            for (uint64_t i = at * TW_LOOK_LANES + threadIdx.x - 32; i < end; i += FETCHERS)
                to[i - at * TW_LOOK_LANES] = from[i];
        } else if (at && threadIdx.x < TW_LOOK_LANES) {
            const uint64_t left = count - (at - TILE);
            const uint32_t some = left < TILE ? (uint32_t)left : (uint32_t)TILE;
            const struct tw_row_sums *row = tile[1 - turn];
            if (some == TILE) {
#pragma unroll 32
                for (uint32_t i = 0; i < TILE; i++)
                    v = __dadd_rn(v, row[i].bucket[threadIdx.x]);
            } else {
                for (uint32_t i = 0; i < some; i++)
                    v = __dadd_rn(v, row[i].bucket[threadIdx.x]);
            }
        }
        __syncthreads();
    }
    if (threadIdx.x < TW_LOOK_LANES)
        *bucket = v;
}

/* ---- statistics */

/* What one thread has seen of a chunk. */
struct counts {
    uint32_t nan, pos_inf, neg_inf, zeros; /* of one thread: at most 256 elements */
    uint64_t max_key, min_key;
};

/* Counts x; whether it is finite, which is what goes into the sums. */
__device__ static bool count_element(double x, struct counts *c)
{
    const uint64_t bits = bits_of(x), magnitude = bits & ~SIGN;
    if (magnitude <= INFINITE) {
        const uint64_t key = tw_look_key(bits), low = ~key;
        c->zeros += magnitude == 0;
        c->max_key = key + 1 > c->max_key ? key + 1 : c->max_key;
        c->min_key = low + 1 > c->min_key ? low + 1 : c->min_key;
    }
    if (magnitude < INFINITE)
        return true;
    c->nan += magnitude > INFINITE;
    c->pos_inf += bits == INFINITE;
    c->neg_inf += bits == (INFINITE | SIGN);
    return false;
}

/* This thread's lane of one chunk: every 16th element. */
template <int DTYPE>
__device__ static void lane_of_chunk(const struct tw_looks &looks, const struct tw_look *t,
                                     uint64_t chunk, uint32_t lane, double *sum, double *sumsq,
                                     struct counts *c)
{
    const uint64_t begin = chunk * TW_LOOK_CHUNK, end = t->first + t->count;
    const bool whole = begin >= t->first && begin + TW_LOOK_CHUNK <= end;
    const void *data = (const char *)t->data - (t->first - begin) * t->width;
#pragma unroll(DTYPE < 0 ? 1 : 8)
    for (uint32_t at = lane; at < TW_LOOK_CHUNK; at += TW_LOOK_LANES) {
        if (!whole && (begin + at < t->first || begin + at >= end))
            continue;
        const double x = element_of<DTYPE>(looks, t, begin + at, data, at);
        const double v = count_element(x, c) ? x : 0.0;
        *sum = __dadd_rn(*sum, v);
        *sumsq = __dadd_rn(*sumsq, __dmul_rn(v, v));
    }
}

/* The largest key of the warp, merged into *all. All threads of the warp must call it. */
__device__ static void largest(uint64_t key, uint64_t *all)
{
    for (int width = 16; width > 0; width /= 2) {
        const uint64_t other = __shfl_down_sync(0xFFFFFFFFu, key, width);
        key = other > key ? other : key;
    }
    if (threadIdx.x % 32 == 0 && key)
        atomicMax((unsigned long long *)all, (unsigned long long)key);
}

extern "C" __global__ void __launch_bounds__(TW_LOOK_THREADS)
    tw_chunks(const __grid_constant__ struct tw_looks looks, struct tw_chunk_sums *scratch,
              struct tw_seen *seen)
{
    const struct tw_look *t = mine(looks);
    const uint32_t lane = threadIdx.x % TW_LOOK_LANES, place = my_place(t);
    const uint64_t chunk = t->first / TW_LOOK_CHUNK + place;
    const bool there = chunk <= (t->first + t->count - 1) / TW_LOOK_CHUNK;
    struct counts c = {};
    double sum = 0, sumsq = 0;
    if (there)
        BY_TYPE(kind_of(t), lane_of_chunk, looks, t, chunk, lane, &sum, &sumsq, &c);
    for (int width = 8; width > 0; width /= 2) {
        sum = __dadd_rn(sum, __shfl_down_sync(0xFFFFFFFFu, sum, width, 16));
        sumsq = __dadd_rn(sumsq, __shfl_down_sync(0xFFFFFFFFu, sumsq, width, 16));
    }
    if (there && lane == 0)
        scratch[t->place + place] = {sum, sumsq};
    struct tw_seen *all = seen + t->result;
    count(c.nan, &all->nan);
    count(c.pos_inf, &all->pos_inf);
    count(c.neg_inf, &all->neg_inf);
    count(c.zeros, &all->zeros);
    largest(c.max_key, &all->max_key);
    largest(c.min_key, &all->min_key);
}

/* One warp a tensor: adds up its chunks, in their order. */
extern "C" __global__ void __launch_bounds__(32)
    tw_add_chunks(const __grid_constant__ struct tw_looks looks,
                  const struct tw_chunk_sums *scratch, struct tw_seen *seen)
{
    __shared__ struct tw_chunk_sums tile[32];
    const struct tw_look *t = &looks.look[blockIdx.x];
    const uint64_t count = (t->first + t->count - 1) / TW_LOOK_CHUNK - t->first / TW_LOOK_CHUNK + 1;
    struct tw_seen *all = seen + t->result;
    double sum = all->sum, sumsq = all->sumsq;
    struct tw_chunk_sums ahead = threadIdx.x < count ? scratch[t->place + threadIdx.x]
                                                     : tw_chunk_sums{};
    for (uint64_t at = 0; at < count; at += 32) {
        tile[threadIdx.x] = ahead;
        __syncwarp();
        const uint64_t later = at + 32 + threadIdx.x;
        ahead = later < count ? scratch[t->place + later] : tw_chunk_sums{};
        const uint32_t some = count - at < 32 ? (uint32_t)(count - at) : 32;
        for (uint32_t i = 0; i < some; i++) {
            sum = __dadd_rn(sum, tile[i].sum);
            sumsq = __dadd_rn(sumsq, tile[i].sumsq);
        }
        __syncwarp();
    }
    if (threadIdx.x == 0) {
        all->sum = sum;
        all->sumsq = sumsq;
    }
}
