/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of fixed-point sums (fixed_kernels.h), compiled for AVX2. fixed.c chooses among the
 * sets. */
#define TW_FIXED_SET tw_fixed_avx2
#define TW_FIXED_NAME "avx2"
#include "fixed_kernels.h"
