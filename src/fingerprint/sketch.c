/* SPDX-License-Identifier: Apache-2.0 */
/* What is done with finished sketches: the distance of two, which estimates that of their tensors,
 * and their sum, which is the sketch of both parts of one tensor. The arithmetic runs in the
 * default floating-point mode, whatever the job has set (fpenv.h), and so in functions that are
 * never inlined. */
#include "fpenv.h"
#include "kernels.h"

/* Added in the order of the buckets. */
static __attribute__((noinline)) double squared_distance(const struct twin_sketch *x,
                                                         const struct twin_sketch *y)
{
    double sum = 0;
    for (uint32_t j = 0; j < x->k && j < TWIN_SKETCH_MAX; j++) {
        double d = x->bucket[j] - y->bucket[j];
        sum += d * d;
    }
    return __builtin_sqrt(sum);
}

/* NaN when the sketches have different numbers of buckets. */
double twin_sketch_distance(const struct twin_sketch *x, const struct twin_sketch *y)
{
    if (x->k != y->k)
        return __builtin_nan("");
    struct tw_fpenv env = tw_fpenv_enter();
    double d = squared_distance(x, y);
    tw_fpenv_leave(env);
    return d;
}

static __attribute__((noinline)) void add_sketch(struct twin_sketch *x, const struct twin_sketch *y)
{
    for (uint32_t j = 0; j < x->k && j < TWIN_SKETCH_MAX; j++)
        x->bucket[j] += y->bucket[j];
}

int twin_sketch_add(struct twin_sketch *x, const struct twin_sketch *y, struct twin_error *err)
{
    if (x->k != y->k)
        return twin_error_set(err, TWIN_EINVAL, "sketches of %u and %u buckets cannot be added",
                              x->k, y->k);
    struct tw_fpenv env = tw_fpenv_enter();
    add_sketch(x, y);
    tw_fpenv_leave(env);
    x->skipped += y->skipped;
    return 0;
}
