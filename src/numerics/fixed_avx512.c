/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of fixed-point sums (fixed_kernels.h), compiled for AVX-512. fixed.c chooses among
 * the sets. */
#define TW_FIXED_SET tw_fixed_avx512
#define TW_FIXED_NAME "avx512"
#include "fixed_kernels.h"
