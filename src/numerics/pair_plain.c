/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs in plain C, which is also what NEON gets: every AArch64 has it. */
#define TW_PAIR_SET scalar
#include "pair_rows.h"
