/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs with AVX-512: the loops of pair_rows.h, compiled for it. */
#define TW_PAIR_SET avx512
#include "pair_rows.h"
