/* SPDX-License-Identifier: Apache-2.0 */
/* The reference of fixed-point sums, one element at a time: what the kernels leave aside, and what
 * they are tested against. */
#include "fixed_inside.h"

const struct tw_float_format tw_float_formats[TW_KINDS] = {
    [TW_F16] = {10, 5}, [TW_BF16] = {7, 8}, [TW_F32] = {23, 8}, [TW_F64] = {52, 11}};

uint64_t tw_fixed_round_one(int64_t sum, uint64_t divisor, int exponent, struct tw_float_format f)
{
    return tw_round_units(sum, divisor, exponent, f);
}
