/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_COMPARE_GRAMMAR_H
#define TW_COMPARE_GRAMMAR_H
/* What names a number, for the files that judge numbers by their names. */
#include "internal.h"
#include "printed.h"

/* Words of a label, and bytes of one. A longer word is none that a rule knows. */
enum { TW_PARTS_MAX = 12, TW_PART_BYTES = 24 };

/* What names a number, its words from the last to the first, in small letters. */
struct tw_label {
    char part[TW_PARTS_MAX][TW_PART_BYTES];
    size_t count;
    bool measured;       /* the nearest word is a number itself: "1.2s" of "Time 1.2s (1.3s)" */
    bool rate;           /* "tok/s", "samples_per_second" */
    const char *rate_of; /* of "tok/s" the "tok", of "ms/batch" the "ms/batch" */
    size_t rate_length;
    const char *unit; /* what stands in parentheses behind it: "ms" of "time (ms): 3" */
    size_t unit_length;
};

/* ---- own_time.c */
size_t tw_label_head(const struct tw_label *l); /* the place of its head among the parts */
bool tw_word_in(const char *word, size_t n, const char *const *list);
bool tw_label_has(const struct tw_label *l, const char *const *list); /* one of its words */
bool tw_line_says(const char *line, const char *word);
bool tw_is_simulation(const char *line);
/* Is a time, or a rate, one that the run can have had itself? TW_OPEN: not known. */
/* The number line[at] has a unit of time, or a name for one; unit: "s" or "ms" of n bytes, "" for
 * none. */
enum tw_worth tw_time_of_run(const char *line, size_t at, const struct tw_label *l,
                             const char *unit, size_t n);
/* "it/s", "/s", "ms/step", "beats/min": what stands at the number, or in its label. */
enum tw_worth tw_rate_of_run(const struct tw_label *l, const char *unit, size_t n);
/* A thing that programs work through: samples, tokens, steps. */
bool tw_thing_of_machine(const char *thing, size_t n);

#endif
