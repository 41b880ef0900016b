/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_FINGERPRINT_AXES_H
#define TW_FINGERPRINT_AXES_H
/*
 * The dimensions of a strided tensor: whether they make sense, and as few as its memory allows.
 * Compiles as C and as CUDA.
 */
#include <stdbool.h>
#include <twin/fingerprint.h>

/* One dimension that is left after merging. */
struct tw_axis {
    uint64_t count;
    int64_t stride; /* in elements */
};

/* Checks everything that can be wrong, and counts the elements. An empty tensor is fine, whatever
 * its other sizes. TWIN_EINVAL as twin_fingerprint(). */
int tw_check_tensor(const struct twin_tensor *t, uint64_t *elements, struct twin_error *err);

/* Are the elements in row-major order without gaps? The stride of a dimension of size 1 does not
 * matter. */
static inline bool tw_contiguous(const struct twin_tensor *t)
{
    uint64_t expected = 1;
    if (!t->strides)
        return true;
    for (uint32_t i = t->ndim; i-- > 0;) {
        if (t->shape[i] != 1 && (uint64_t)t->strides[i] != expected)
            return false;
        expected *= (uint64_t)t->shape[i];
    }
    return true;
}

/* Leaves out dimensions of size 1 and joins those that run on in memory. Returns how many are left
 * in `axis`, outermost first; 0: one element. */
static inline uint32_t tw_merge_axes(const struct twin_tensor *t,
                                     struct tw_axis axis[TWIN_MAX_NDIM])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->ndim; i++) {
        struct tw_axis a = {(uint64_t)t->shape[i], t->strides[i]};
        struct tw_axis *outer = n ? &axis[n - 1] : NULL;
        if (a.count == 1)
            continue;
        if (outer && (uint64_t)outer->stride == a.count * (uint64_t)a.stride) {
            outer->count *= a.count;
            outer->stride = a.stride;
        } else {
            axis[n++] = a;
        }
    }
    return n;
}

#endif
