/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_ISOLATE_ARMS_MATCH_H
#define TW_ISOLATE_ARMS_MATCH_H
/* Two simple commands side by side: which of their arguments are the same, or the same thing
 * changed. */
#include "words.h"

enum { TW_COMMON = -1 }; /* difference of what both have */

/* Words that belong together: an option with what follows it, a redirection with its target, or one
 * positional. */
struct tw_group {
    size_t first, words;
    const char *name; /* of the option as written, up to a '='; NULL: positional */
    size_t name_bytes;
    size_t place; /* of a positional: its number among the arguments, from 1 on */
    size_t mate;  /* the group of the other command that it is paired with; TW_NONE */
    bool common;  /* with its mate it is the same */
    size_t block; /* between the same two common groups as others of that number */
    int difference;
};
#define TW_NONE SIZE_MAX

/* One simple command of one side. */
struct tw_side {
    const struct tw_word *word;
    size_t assignments, assignments_from;
    size_t program; /* TW_NONE: only assignments or redirections */
    struct tw_group *group;
    size_t groups;
};

/* Fills a side with word[at .. end). side->group is the caller's to free, also after a failure. */
int tw_side_read(const struct tw_word *w, size_t at, size_t end, struct tw_side *s,
                 struct twin_error *err);
/* Finds each group's mate, and which mates are common. */
int tw_sides_match(struct tw_side side[2], struct twin_error *err);
bool tw_same_name(const struct tw_group *a, const struct tw_group *b); /* of two options */
#endif
