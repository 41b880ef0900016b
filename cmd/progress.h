/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_PROGRESS_H
#define TW_CMD_PROGRESS_H
/* One rewritten line on stderr, only when that is a terminal. */
#include <stdbool.h>

/* Decides once whether progress is shown: a terminal that can move its cursor, and not quiet. */
void tw_progress_setup(bool quiet);
bool tw_progress_on(void);
/* The line now: what a run or a command without runs is busy with. */
void tw_progress_line(const char *text);
/* Takes the line away before anything else is printed. */
void tw_progress_clear(void);

#endif
