/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_SCREEN_H
#define TW_CMD_SCREEN_H
/*
 * The whole terminal, for a command that redraws it: the alternate screen, keys, size, and the
 * signals that concern it. Plain sequences that every terminal of today knows, and no curses: a
 * frame is drawn as a whole and nothing is scrolled or edited, and curses would want a database of
 * terminals at run time, which a wheel cannot bring.
 */
#include "base.h"

#include <stdbool.h>
#include <stddef.h>

enum tw_screen_event {
    TW_SCREEN_NOTHING, /* the time is up */
    TW_SCREEN_END,     /* q, the end of the keyboard, Ctrl-C, SIGTERM, SIGHUP */
    TW_SCREEN_UP,
    TW_SCREEN_DOWN,
    TW_SCREEN_ENTER,
    TW_SCREEN_BACK,  /* Escape, left, backspace */
    TW_SCREEN_RESIZE /* also: the terminal is ours again after Ctrl-Z */
};

/* Can stdout be drawn on? Not a file, nor a terminal without a cursor. */
bool tw_screen_possible(void);
/* May it be coloured? (NO_COLOR is the custom of no-color.org.) */
bool tw_screen_colours(void);
/* Columns and rows of stdout; 80 and 24 where it has none. */
void tw_screen_size(size_t *columns, size_t *rows);

/* From here on signals come as events; drawn: and the terminal is ours. False: that cannot be. */
bool tw_screen_begin(bool drawn);
/* Gives the terminal back as it was. */
void tw_screen_end(void);
/* Waits for the next event, for so long. */
enum tw_screen_event tw_screen_wait(int milliseconds);

/* A frame: lines, each of which may hold colours and nothing else that a terminal obeys. */
void tw_screen_draw(const struct tw_buf *frame);

#endif
