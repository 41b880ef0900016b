/* SPDX-License-Identifier: Apache-2.0 */
#include "faster.h"

#include "base.h"

enum { LONGER = 4, LONGER_S = 30 };

unsigned tw_faster_factor(int i)
{
    static const unsigned factors[TW_FASTER_RUNS] = {64, 12};
    return factors[i];
}

uint64_t tw_faster_since(void)
{
    return tw_monotonic_ns() / 1000000000u;
}

uint64_t tw_faster_limit_ns(double wall_s)
{
    return tw_monotonic_ns() + (uint64_t)((LONGER * wall_s + LONGER_S) * 1e9);
}
