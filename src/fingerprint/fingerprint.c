/* SPDX-License-Identifier: Apache-2.0 */
/* Fingerprints of tensors in memory: twin_fingerprint() is what agents and readers call, with any
 * type, shape and strides. It gives the raw digest, statistics and a sketch, as far as they are
 * asked for.
 *
 * Dimensions are merged as far as memory allows; long contiguous runs go to the pass (pass.c) where
 * they lie, short and strided ones through a buffer of fixed size. The buffer is cut on lane
 * groups, so the results do not depend on the way. Nothing is allocated, and the floating-point
 * mode of the caller is put back. */
#include <string.h>
#include "axes.h"
#include "fpenv.h"
#include "pass.h"

/* Bytes of the buffer. */
#define GATHER_BYTES 4096
#define DIRECT_BYTES 2048 /* a shorter run is cheaper to copy than to start on */

/* A strided tensor. */
struct view {
    const unsigned char *data;
    size_t size;   /* bytes per element */
    uint32_t ndim; /* after merging; 0 = one element */
    struct tw_axis axis[TWIN_MAX_NDIM];
};

/* Collects elements and hands them to the pass in spans that end on lane groups. */
struct feeder {
    struct tw_pass *pass;
    size_t size, parts;  /* bytes and parts per element */
    size_t filled, room; /* elements in the buffer, and how many until the next cut */
    unsigned char buffer[GATHER_BYTES];
};

/* tw_check_tensor(), and whether the sketch that is wanted can be. In line where it counts: small
 * tensors are many. */
static inline __attribute__((always_inline)) int check_tensor(const struct twin_tensor *t,
                                                              const struct twin_sketch *sketch,
                                                              uint64_t *elements,
                                                              struct twin_error *err)
{
    size_t size = twin_dtype_size(t->dtype);
    uint64_t n = 1, end;
    bool overflow = false, empty = false;
    if (size == 0)
        return twin_error_set(err, TWIN_EINVAL, "dtype %d is not known (0 to %d are)",
                              (int)t->dtype, TWIN_DTYPE_COUNT - 1);
    if (t->ndim > TWIN_MAX_NDIM)
        return twin_error_set(err, TWIN_EINVAL, "%u dimensions; at most %d are supported", t->ndim,
                              TWIN_MAX_NDIM);
    if (t->ndim && !t->shape)
        return twin_error_set(err, TWIN_EINVAL, "shape is NULL for %u dimensions", t->ndim);
    for (uint32_t i = 0; i < t->ndim; i++) {
        if (t->shape[i] < 0)
            return twin_error_set(err, TWIN_EINVAL, "dimension %u has the negative size %lld", i,
                                  (long long)t->shape[i]);
        empty |= t->shape[i] == 0;
        overflow |= __builtin_mul_overflow(n, (uint64_t)t->shape[i], &n);
    }
    if (empty)
        n = 0, overflow = false;
    /* Numbers of bytes must fit in 63 bits: offsets are computed in them. */
    overflow |= __builtin_add_overflow(n, t->global_offset, &end) ||
                __builtin_mul_overflow(end, (uint64_t)size, &end);
    if (overflow || end > INT64_MAX)
        return twin_error_set(
            err, TWIN_EINVAL,
            "the tensor ends beyond 2^63 bytes (offset %llu elements of %zu bytes)",
            (unsigned long long)t->global_offset, size);
    if (n && !t->data)
        return twin_error_set(err, TWIN_EINVAL, "data is NULL for %llu elements",
                              (unsigned long long)n);
    if (sketch && (sketch->k == 0 || sketch->k > TWIN_SKETCH_MAX || (sketch->k & (sketch->k - 1))))
        return twin_error_set(err, TWIN_EINVAL,
                              "a sketch of %u buckets; expected a power of two from 1 to %d",
                              sketch->k, TWIN_SKETCH_MAX);
    *elements = n;
    return 0;
}

int tw_check_tensor(const struct twin_tensor *t, uint64_t *elements, struct twin_error *err)
{
    return check_tensor(t, NULL, elements, err);
}

/* Hands the buffer over. It may be filled up to its end again. */
static void feeder_flush(struct feeder *f)
{
    if (f->filled)
        tw_pass_span(f->pass, f->buffer, f->filled * f->parts);
    f->filled = 0;
    f->room = GATHER_BYTES / f->size; /* a multiple of TW_LANES for every size */
}

/* The first cut comes early when the tensor does not begin on a lane group. */
static void feeder_open(struct feeder *f, struct tw_pass *pass, size_t size)
{
    f->pass = pass;
    f->size = size;
    f->parts = size / pass->part_bytes;
    f->filled = 0;
    f->room = GATHER_BYTES / size - (size_t)(pass->next / f->parts % TW_LANES);
}

/* Copies elements that lie `step` bytes apart; ends the case that it stands in. */
#define GATHER(type)                             \
    for (size_t i = 0; i < n; i++, p += step) {  \
        type v;                                  \
        memcpy(&v, p, sizeof v);                 \
        memcpy(to + i * sizeof v, &v, sizeof v); \
    }                                            \
    break

/* n elements that lie `stride` elements apart, side by side. One loop for each size, so that each
 * element is one load and one store. */
static void gather_elements(unsigned char *to, const unsigned char *p, size_t n, int64_t stride,
                            size_t size)
{
    int64_t step = stride * (int64_t)size;
    struct two {
        uint64_t w[2];
    };
    switch (size) {
    case 1: GATHER(uint8_t);
    case 2: GATHER(uint16_t);
    case 4: GATHER(uint32_t);
    case 8: GATHER(uint64_t);
    default: GATHER(struct two);
    }
}

/* Feeds n elements from p on, `stride` elements apart. A long run is given to the pass directly, up
 * to its last lane group; what is in the buffer is filled up to a lane group before that. */
static void feed(struct feeder *f, const unsigned char *p, uint64_t n, int64_t stride)
{
    while (n) {
        bool run = stride == 1 && n * f->size >= DIRECT_BYTES;
        size_t to_group = f->room % TW_LANES;
        /* The buffer ends on a lane group, so the run may follow directly. */
        if (run && (f->filled == 0 || to_group == 0)) {
            feeder_flush(f);
            uint64_t at = f->pass->next / f->parts;
            size_t m = (size_t)((at + n) / TW_LANES * TW_LANES - at);
            tw_pass_span(f->pass, p, m * f->parts);
            p += m * f->size;
            n -= m;
            continue;
        }
        size_t m = n < f->room ? (size_t)n : f->room;
        /* Of a long run only what completes the lane group goes through the buffer. */
        if (run && m > to_group)
            m = to_group;
        if (stride == 1)
            memcpy(f->buffer + f->filled * f->size, p, m * f->size);
        else
            gather_elements(f->buffer + f->filled * f->size, p, m, stride, f->size);
        f->filled += m;
        f->room -= m;
        p += (int64_t)m * stride * (int64_t)f->size;
        n -= m;
        if (f->room == 0)
            feeder_flush(f);
    }
}

/* Walks the view in logical order: an odometer over all axes but the innermost. */
static void walk_view(const struct view *v, struct tw_pass *pass)
{
    struct feeder f;
    uint64_t at[TWIN_MAX_NDIM] = {0};
    const unsigned char *p = v->data;
    struct tw_axis inner = v->ndim ? v->axis[v->ndim - 1] : (struct tw_axis){1, 1};
    feeder_open(&f, pass, v->size);
    for (;;) {
        feed(&f, p, inner.count, inner.stride);
        uint32_t d = v->ndim ? v->ndim - 1 : 0;
        /* Axes that have come to their end go back to their first element. */
        while (d > 0 && ++at[d - 1] == v->axis[d - 1].count) {
            d--;
            p -= (int64_t)(at[d] - 1) * v->axis[d].stride * (int64_t)v->size;
            at[d] = 0;
        }
        if (d == 0)
            break;
        p += v->axis[d - 1].stride * (int64_t)v->size;
    }
    feeder_flush(&f);
}

/* Apart, so that the view is on the stack only for strided tensors. */
static __attribute__((noinline)) void walk_strided(const struct twin_tensor *t,
                                                   struct tw_pass *pass)
{
    struct view v = {.data = t->data, .size = twin_dtype_size(t->dtype)};
    v.ndim = tw_merge_axes(t, v.axis);
    walk_view(&v, pass);
}

/* The arithmetic of one tensor, in the default floating-point mode. */
static __attribute__((noinline)) void pass_over(const struct twin_tensor *t, uint64_t elements,
                                                struct twin_digest *digest,
                                                struct twin_stats *stats,
                                                struct twin_sketch *sketch)
{
    struct tw_pass s;
    tw_pass_init(&s, t->dtype, stats != NULL, sketch, t->global_offset);
    if (elements == 0)
        ;
    else if (tw_contiguous(t))
        tw_pass_span(&s, t->data, (size_t)elements * (twin_dtype_size(t->dtype) / s.part_bytes));
    else
        walk_strided(t, &s);
    tw_pass_finish(&s);
    if (digest)
        *digest = s.sum;
    if (stats)
        *stats = s.stats;
}

/* digest, stats and sketch may each be NULL. */
int twin_fingerprint(const struct twin_tensor *t, struct twin_digest *digest,
                     struct twin_stats *stats, struct twin_sketch *sketch, struct twin_error *err)
{
    uint64_t n = 0;
    int rc = check_tensor(t, sketch, &n, err);
    if (rc)
        return rc;
    /* the common small case: no state, no floating point */
    if (!stats && !sketch && tw_contiguous(t)) {
        size_t size = twin_dtype_size(t->dtype);
        if (digest)
            *digest = n ? twin_digest_bytes(t->data, (size_t)n * size, t->global_offset * size)
                        : (struct twin_digest){0, 0};
        return 0;
    }
    struct tw_fpenv env = tw_fpenv_enter();
    pass_over(t, n, digest, stats, sketch);
    tw_fpenv_leave(env);
    return 0;
}
