/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CASES_INTERNAL_H
#define TW_CASES_INTERNAL_H
/* What the two files of this room share: the table of keys, and how names and source lines are
 * written so that two programs can share them. The public contract is src/cases/cases.h. */
#include "src/cases/cases.h"

/* A key's name in the files, what it is worth, and whether it can make a case particular: many
 * divergences share a phase, few an operation. */
struct tw_case_key {
    const char *name;
    unsigned points;
    bool particular;
};
extern const struct tw_case_key tw_case_keys[TWIN_CASE_KEYS];
/*
 * The points that a case with these keys can reach, or 0 when it would match nothing in particular.
 */
unsigned tw_case_worth(const bool asked[TWIN_CASE_KEYS]);
/* A name without its numbers: "layers.12.weight" gives "layers.#.weight"; a source line without
 * folder and number: "train.py:load". */
char *tw_name_shape(const char *name);
char *tw_frame_shape(const char *line, size_t n);
#endif
