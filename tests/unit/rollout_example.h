/* SPDX-License-Identifier: Apache-2.0 */
/* A flag that the tests of rollouts change as they need it. */
#ifndef TESTS_UNIT_ROLLOUT_EXAMPLE_H
#define TESTS_UNIT_ROLLOUT_EXAMPLE_H

#include "src/rollout/rollout_inside.h"

static inline struct tw_rollout_flag example(void)
{
    static char pins[] = "hash-seed,threads=2", fallback[] = "all,-clock", any[] = "*";
    static char said[] = "fix hash-seed";
    return (struct tw_rollout_flag){.id = "0123456789abcdef",
                                    .state = TW_ROLLOUT_ON,
                                    .share = 100000,
                                    .pins = pins,
                                    .fallback = fallback,
                                    .project = any,
                                    .rule = {.alpha = .05,
                                             .max_slowdown = 1.2,
                                             .max_divergence = .05,
                                             .max_loss = .05,
                                             .least = 5,
                                             .ladder = {250000, 1000000},
                                             .steps = 2},
                                    .began_ns = INT64_C(1764186000000000000),
                                    .sequence = 3,
                                    .decided_ns = INT64_C(1764186000000000001),
                                    .decision = TW_ROLLOUT_WIDENED,
                                    .widened_at = 12,
                                    .seen = "00112233445566778899aabbccddeeff",
                                    .said = said};
}

#endif
