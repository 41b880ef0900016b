/* SPDX-License-Identifier: Apache-2.0 */
#define TW_FIXED_SET tw_fixed_avx512
#define TW_FIXED_NAME "avx512"
#include "fixed_kernels.h"
