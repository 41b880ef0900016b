/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast the clocks of a clock experiment run, and how long such a run may take. Two runs with
 * two factors: what a number does under both tells src/compare whether it is a time.
 */
#include "faster.h"

#include "base.h"
#include "trial.h"

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
    return tw_patience_ends_ns(&tw_patience_under_faster_clocks, wall_s);
}
