/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of fixed-point sums (fixed_kernels.h) compiled for what every processor of the family
 * has (SSE2, NEON). */
#define TW_FIXED_SET tw_fixed_plain
#define TW_FIXED_NAME "scalar"
#include "fixed_kernels.h"
