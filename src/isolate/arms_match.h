/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_ISOLATE_ARMS_MATCH_H
#define TW_ISOLATE_ARMS_MATCH_H
/*
 * Two simple commands side by side: which of their arguments are the same, and which are the same
 * thing changed. arms.c calls this for each pair of simple commands, and makes differences of what
 * is not common. Words come from words.h and are only borrowed.
 */
#include "words.h"

/* the `difference` of a group that has none, or none yet */
enum { TW_COMMON = -1 };

/* Words that belong together and move together: an option with what follows it, a redirection with
 * its target, or one positional. */
struct tw_group {
    /* the first word's place in the list of words, and how many they are */
    size_t first, words;
    const char *name; /* of the option as written, up to a '='; NULL: positional */
    size_t name_bytes;
    size_t place; /* of a positional: its number among the arguments, from 1 on */
    size_t mate;  /* the group of the other command that it is paired with; TW_NONE */
    bool common;  /* the mate has the same words */
    size_t block; /* between the same two common groups as others of that number */
    int difference;
};
#define TW_NONE SIZE_MAX

/* One simple command of one side: its parts, as places in the list of words. */
struct tw_side {
    const struct tw_word *word;
    /* how many NAME=value stand in front of the program, and where the first one is */
    size_t assignments, assignments_from;
    size_t program; /* its place; TW_NONE: the command has only assignments or redirections */
    /* the arguments, in their order; owned */
    struct tw_group *group;
    size_t groups;
};

/* Fills a side with word[at .. end), in which there is no control operator. side->group is the
 * caller's to free, also after a failure. 0 or TWIN_ENOMEM. */
int tw_side_read(const struct tw_word *w, size_t at, size_t end, struct tw_side *s,
                 struct twin_error *err);
/* Finds each group's mate, and which mates are common. 0 or TWIN_ENOMEM. */
int tw_sides_match(struct tw_side side[2], struct twin_error *err);
/* Have both groups the same option's name? */
bool tw_same_name(const struct tw_group *a, const struct tw_group *b);
#endif
