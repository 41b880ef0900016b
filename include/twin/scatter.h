/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_SCATTER_H
#define TWIN_SCATTER_H
/*
 * Many exact sums at once: along one axis of an array, and by index, as the gradient of a table
 * look-up needs them. Each element of the answer is the correctly rounded sum of what went into it,
 * so that it depends neither on the order of the rows nor on anything else that <twin/exact.h>
 * lists; special values are treated as there. docs/internals/exact.md says how.
 *
 *     // gradient[t] += the rows of `grad` whose token is t
 *     twin_index_add(TWIN_F32, grad, tokens, rows, columns, gradient, vocabulary, &err);
 *
 * Errors of both: TWIN_EINVAL (another type than f64, f32, f16 and bf16; a negative size; NULL;
 * floating-point mode, see <twin/exact.h>). Nothing has been written then. Both return 0 or a
 * negative TWIN_E* code. Thread safety: calls on different results may run at the same time; inputs
 * may be shared. Safe after fork; not for signal handlers. Link with -ltwinnumerics. Since 0.1.
 */
#include <stdint.h>
#include <twin/error.h>
#include <twin/fingerprint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/*
 * out[o][i] = the sum of x[o][0..n-1][i], for an array x[outer][n][inner] and a result
 * out[outer][inner] of type out_dtype, rounded once. The arrays must not overlap. Sums of nothing
 * (n = 0) are +0. Allocates nothing.
 */
int twin_sum_axis(enum twin_dtype dtype, const void *x, int64_t outer, int64_t n, int64_t inner,
                  enum twin_dtype out_dtype, void *out, struct twin_error *err);

/*
 * out[index[r]][c] += rows[r][c], for rows[n][columns], index[n] and out[targets][columns], rounded
 * once: what stands in `out` before the call is one more number of each sum. A target that no index
 * names is left as it is. `rows` and `out` must not overlap. An index that is not 0 to targets - 1:
 * TWIN_EINVAL, which names its place. TWIN_ENOMEM: about 32 bytes for each row, or 16 for each
 * target, are needed for the time of the call.
 */
int twin_index_add(enum twin_dtype dtype, const void *rows, const int64_t *index, int64_t n,
                   int64_t columns, void *out, int64_t targets, struct twin_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
