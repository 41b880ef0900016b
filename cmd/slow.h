/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_SLOW_H
#define TW_CMD_SLOW_H
/* report without --postmortem: where a run was slow, and what moved with it (slow.c); where two sets of runs differ, and from what (diagnosis.c). */
#include <stdbool.h>
#include <twin/run.h>

int tw_slow_report(const struct twin_run *r, bool json);
int tw_diagnosis_report(const char *home, char *const operands[2], bool json);

#endif
