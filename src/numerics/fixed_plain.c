/* SPDX-License-Identifier: Apache-2.0 */
#define TW_FIXED_SET tw_fixed_plain
#define TW_FIXED_NAME "scalar"
#include "fixed_kernels.h"
