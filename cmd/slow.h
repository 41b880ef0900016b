/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_SLOW_H
#define TW_CMD_SLOW_H
/* report RUN: where a run was slow, and what moved with it. */
#include <stdbool.h>
#include <twin/run.h>

int tw_slow_report(const struct twin_run *r, bool json);

#endif
