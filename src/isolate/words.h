/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_ISOLATE_WORDS_H
#define TW_ISOLATE_WORDS_H
/*
 * The words and operators of a shell command, as far as two commands must be understood to be
 * compared. arms.c splits both commands with this; nothing is expanded or run. Texts belong to the
 * list, which tw_words_free empties.
 */
#include "base.h"

enum tw_word_kind {
    TW_WORD,
    TW_REDIRECT /* "2>"; the word behind it is the target */,
    TW_CONTROL /* && ; | ( ) ... */
};

/* One word or operator, in the order in which the command has them. */
struct tw_word {
    enum tw_word_kind kind;
    char *raw;  /* as written, with its quotes; owned */
    char *text; /* without them; as written when the shell would expand something in it */
    /* the shell would expand something in it: $, ` or a pattern outside of quotes */
    bool expands;
};
/* The list of a command; owned, with all texts. */
struct tw_words {
    struct tw_word *word;
    size_t count, room;
};

/* Splits a command. Comments, empty lines and semicolons at the end are left out. TWIN_EINVAL: a
 * quote or substitution without an end; TWIN_EUNSUPPORTED: a here-document; TWIN_ENOMEM. After an
 * error *out is empty. */
int tw_words_split(const char *command, struct tw_words *out, struct twin_error *err);
void tw_words_free(struct tw_words *w);
/* Do they mean the same, however they are quoted? 'a b' and "a b" do; '$x' and $x do not. */
bool tw_word_same(const struct tw_word *a, const struct tw_word *b);
/* Length of NAME in NAME=value; 0: not an assignment. */
size_t tw_word_assigns(const char *raw);
#endif
