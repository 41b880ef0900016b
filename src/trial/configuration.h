/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TRIAL_CONFIGURATION_H
#define TW_TRIAL_CONFIGURATION_H
/* Every figure carries the configuration that it was measured with. */
#include "src/launch/run.h"

#include <stdbool.h>

/* "python train.py, 2 ranks, batch 64, commit 1f..., torch 2.13.0, threads 2, on host": command,
 * workers, batch, code, versions, precision and flags, as far as the run's traces and provenance
 * say them. malloc'ed (tw_free); NULL: no memory. */
char *tw_configuration(const struct twin_run *r);
/* The same without the command, and, where these are what varies, without workers and batch. */
char *tw_configuration_of_world(const struct twin_run *r, bool workers);
#endif
