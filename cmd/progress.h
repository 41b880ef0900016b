/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_PROGRESS_H
#define TW_CMD_PROGRESS_H
/* One rewritten line on stderr, only when that is a terminal. */
#include <stdbool.h>
#include <twin/run.h>

/* Decides once whether progress is shown: a terminal that can move its cursor, and not quiet. */
void tw_progress_setup(bool quiet);
bool tw_progress_on(void);
/* title: "run 2/3"; expected_s, expected_steps: from the first run, 0 when not known. */
void tw_progress_show(const char *title, const struct twin_progress *p, double expected_s, uint64_t expected_steps);
/* Any other line: what a command without runs is busy with. */
void tw_progress_line(const char *text);
/* Takes the line away before anything else is printed. */
void tw_progress_clear(void);

#endif
