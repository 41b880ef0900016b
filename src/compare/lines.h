/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_COMPARE_LINES_H
#define TW_COMPARE_LINES_H
/* A text as lines, for the files of this room that match them. */
#include "internal.h"
#include "printed.h"

/* Lines of a text that are looked at. The rest of a longer one is said not to be compared. */
#define LINES_MAX 200000u
#define SINGLES_MAX 400u /* lines without a counterpart that are compared each with each */

/* One line that says something: empty ones, and those that --ignore names, are none. */
struct line {
    const char *text;
    size_t n;
    size_t number; /* among the lines of the text that say something, from 0: claims name it */
    size_t place;  /* in the text, from 1, as an editor counts: for people */
    char *masked;  /* noise left out; made when it is needed */
    bool matched;
};
/* The lines of one text. `filtered` counts those that --ignore names; cut: there were more than
 * LINES_MAX. */
struct text {
    const struct tw_facts *facts;
    struct line *line;
    size_t count, room, filtered;
    bool cut;
};

/* ---- text_lines.c */
/* Cuts a text into lines; bars: as a terminal would show it. t is the caller's to free, and points
 * into the text. */
void tw_text_split(struct tw_cmp *c, const struct tw_text *from, bool bars, struct text *t);
void tw_text_free(struct text *t);
/* The line with its noise left out; kept in the line. "" when there is no memory (c->oom). */
const char *tw_line_masked(struct tw_cmp *c, const struct text *t, struct line *l);

/* ---- glued.c */
/* Matches lines that several processes printed into each other. Returns how many lines
 * of the two texts had run together. */
size_t tw_lines_unglue(struct tw_cmp *c, struct text *a, struct text *b);
/* Are the lines without a counterpart parts of the same lines, mixed? Then they count as
 * matched, and the number of lines is returned: what they say is not known. Otherwise 0. */
size_t tw_lines_mixed(struct tw_cmp *c, struct text *a, struct text *b);

/* ---- clock_columns.c: what two runs under faster clocks show (tw_clock_experiment) */
/* Lines x of a and y of b say the same: looks how their numbers moved, while that is learnt. */
void tw_clock_look(struct tw_cmp *c, const struct tw_lines *l, const struct text *a,
                   const struct text *b, size_t x, size_t y);
/* Are all numbers in which these lines differ, and of which it was not known, times? */
bool tw_clock_takes(struct tw_cmp *c, const struct tw_lines *l, const struct text *a,
                    const struct text *b, size_t x, size_t y);
bool tw_clock_learns(const struct tw_cmp *c);

#endif
