/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TRIAL_FASTER_H
#define TW_TRIAL_FASTER_H
/* The runs of a clock experiment: the same job, whose clocks all run faster. What they show,
 * src/compare decides. */
#include <stdint.h>

enum { TW_FASTER_RUNS = 2 };
/* How many times as fast the clocks of run i are. */
unsigned tw_faster_factor(int i);
/* Since when, for a run that begins now: a second of the monotonic clock. */
uint64_t tw_faster_since(void);
/* When such a run is ended, where the job takes wall_s by itself: one that waits for a moment of a
 * clock must not go on for ever. */
uint64_t tw_faster_limit_ns(double wall_s);
#endif
