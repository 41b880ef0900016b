/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_DIAGNOSIS_H
#define TW_CMD_DIAGNOSIS_H
/* twinrun report A B: where two sets of runs differ, and from what. */
#include <stdbool.h>

/* Prints; returns the exit code. */
int tw_diagnosis_report(const char *home, char *const operands[2], bool json);

#endif
