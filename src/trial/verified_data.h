/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TRIAL_VERIFIED_DATA_H
#define TW_TRIAL_VERIFIED_DATA_H
/* Data that were verified against their snapshots before the first run; handed to each launch, which records them. */
#include <stddef.h>
#include <twin/run.h>

/* Lives as long as the process. */
struct tw_data { const struct twin_run_data *item; size_t count; };

#endif
