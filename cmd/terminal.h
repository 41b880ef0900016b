/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_TERMINAL_H
#define TW_CMD_TERMINAL_H
/*
 * The terminal: the person in front as rooms see them (messages and progress go to stderr, Ctrl-C
 * asks for an end), the line that says how far it is, and the wish to stop.
 */
#include "front.h"

#include <stdbool.h>

extern const struct tw_front tw_terminal;

/* ---- the progress line */

/* Decides once whether progress is shown: a terminal that can move its cursor, and not quiet. */
void tw_progress_setup(bool quiet);
bool tw_progress_on(void);
/* The line now: what a run or a command without runs is busy with. */
void tw_progress_line(const char *text);
/* Takes the line away before anything else is printed. */
void tw_progress_clear(void);

/* ---- Ctrl-C */

/* From here on the first of them only leaves a mark; the second one ends twinrun as ever. */
void tw_interrupt_hold(void);
bool tw_interrupted(void);

#endif
