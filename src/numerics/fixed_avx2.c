/* SPDX-License-Identifier: Apache-2.0 */
#define TW_FIXED_SET tw_fixed_avx2
#define TW_FIXED_NAME "avx2"
#include "fixed_kernels.h"
