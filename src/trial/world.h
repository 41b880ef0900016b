/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TRIAL_WORLD_H
#define TW_TRIAL_WORLD_H
/* The world of a run in a few names: what a baseline keeps of it, and a gate compares. */
#include "src/launch/run.h"

#include <twin/error.h>

typedef int tw_world_fn(void *user, const char *name, const char *value, struct twin_error *err);
/* Calls each(name, value) until one returns non-zero, which is returned. A run without a record of
 * its world: no call, 0. */
int tw_world_of(const struct twin_run *r, tw_world_fn *each, void *user, struct twin_error *err);

#endif
