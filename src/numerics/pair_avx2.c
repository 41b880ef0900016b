/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs with AVX2: the loops of pair_rows.h, compiled for it. */
#define TW_PAIR_SET avx2
#include "pair_rows.h"
