/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_ARMS_H
#define TWIN_ARMS_H
/*
 * Two commands that ought to compute the same, taken apart into what differs between them, so that
 * each difference can be set as in either. Room: src/isolate. Commands are texts for `sh -c`; words
 * are compared as written, nothing is expanded or run.
 */
#include "src/isolate/search.h"

#include <stdbool.h>
#include <stddef.h>
#include <twin/error.h>

struct twin_difference {
    /* "env:NAME", "arg:--option", "arg:3" (third argument), "program"; a later one of the same name
     * ends in #2, #3, ... */
    char *id;
    char *a, *b; /* as the command has it; NULL: it has not */
};

struct twin_arms; /* opaque but for its list */
struct twin_difference *twin_arms_differences(const struct twin_arms *arms, size_t *count);

/* TWIN_EINVAL: a quote without an end, or commands of different shape (pipes, &&, ;): the message
 * says what was found where. TWIN_EUNSUPPORTED: a here-document. TWIN_ELIMIT: more than
 * TWIN_SEARCH_FACTORS differences. No difference at all is no error. */
int twin_arms_compare(const char *a, const char *b, struct twin_arms **out, struct twin_error *err);
/* The command in which the differences of the set are as in B and all others as in A. Without any
 * it is A, with all it is B, to the byte. malloc'ed (tw_free); NULL when there is no memory. */
char *twin_arms_mix(const struct twin_arms *arms, const struct twin_search_set *as_b);
void twin_arms_free(struct twin_arms *arms);
#endif
