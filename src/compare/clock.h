/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_COMPARE_CLOCK_H
#define TW_COMPARE_CLOCK_H
/* The clock experiment, for its two files: clock_columns.c looks at the numbers of lines, and
 * clock_world.c makes the comparisons from which it learns. */
#include "lines.h"
#include "printed.h"

/* The number at one place of lines that say the same, and how it moved under either faster
 * clock. */
struct tw_column {
    uint64_t said; /* what its lines say, numbers left out */
    size_t token;
    bool denied;
    bool grows[2], shrinks[2]; /* in every line so far, under either clock */
    bool decided[2];           /* at least one line could show it */
    size_t lines[2];
    const char *stream;
    size_t line;  /* of run 1, its first */
    char *text;   /* the number there */
    char *quoted; /* the line */
};

/* The experiment: its columns, and the pair of lines at hand. */
struct tw_clock {
    struct tw_column *column;
    size_t count, room;
    size_t which; /* of the two runs, while they are looked at */
    bool learning, failed;
    const struct tw_lines *lines;
    const struct line *line; /* of run 1 */
    const struct tw_facts *facts;
    double factor[2];
    bool followed; /* tw_clock_takes: so far each number of the pair of lines is a time */
};

/* Did the column follow both clocks? Then its numbers are times, or rates. */
bool tw_column_follows(const struct tw_column *col);
#endif
