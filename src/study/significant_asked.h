/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_STUDY_SIGNIFICANT_ASKED_H
#define TW_STUDY_SIGNIFICANT_ASKED_H
/* What a person asked of two sets of values, from the words of the options. */
#include "significant.h"

#include <twin/error.h>

/* The options' words; NULL: not given. alpha and floor always are. */
struct tw_significant_words {
    const char *metric, *question, *within, *floor, *alpha;
};

/*
 * Fills in s->measure, s->asked and where the floor comes from. The sets are there already: whether
 * their values are times decides the question where none was asked. TWIN_EINVAL: the message says
 * which option, what was expected and what was found.
 */
int tw_significant_understand(const struct tw_significant_words *words, struct tw_significant *s,
                              struct twin_error *err);
/* Turns a floor that was taken from a file into the unit of the answer: a share of the median of A,
 * unless the answer is a ratio. TWIN_ENOMEM. */
int tw_significant_floor_in_units(struct tw_significant *s, struct twin_error *err);

#endif
