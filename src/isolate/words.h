/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_ISOLATE_WORDS_H
#define TW_ISOLATE_WORDS_H
/* The words and operators of a shell command, as far as two commands must be understood to be
 * compared. */
#include "base.h"

enum tw_word_kind {
    TW_WORD,
    TW_REDIRECT /* "2>", the word behind it is the target */,
    TW_CONTROL /* && ; | ( ) ... */
};

struct tw_word {
    enum tw_word_kind kind;
    char *raw;  /* as written, with its quotes */
    char *text; /* without them; as written when the shell would expand something in it */
    bool expands;
};
struct tw_words {
    struct tw_word *word;
    size_t count, room;
};

/* TWIN_EINVAL, TWIN_EUNSUPPORTED, TWIN_ENOMEM. */
int tw_words_split(const char *command, struct tw_words *out, struct twin_error *err);
void tw_words_free(struct tw_words *w);
/* Do they mean the same, however they are quoted? */
bool tw_word_same(const struct tw_word *a, const struct tw_word *b);
/* Length of NAME in NAME=value; 0: not an assignment. */
size_t tw_word_assigns(const char *raw);
#endif
