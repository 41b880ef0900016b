/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SERVE_SEARCH_H
#define TW_SERVE_SEARCH_H
/*
 * Searches for a cause, out of their journals below <home>/searches (src/isolate/search_log.c): the
 * ledger has only how one ended. What is there was written by others, may be cut off, and is read
 * as far as it can be.
 */
#include "query.h"

struct tw_buf;

/* Answers a query of SERVE_SEARCH: twinrun.timeline/1. Returns an HTTP status: 200; 404 with *why,
 * static; 0: *err says what is wrong with the ledger; 500. */
int serve_search_answer(struct twin_ledger *l, const char *home, const struct serve_query *q,
                        struct tw_buf *b, const char **why, struct twin_error *err);

/* What was seen of the newest searches. Begin with zeros. */
enum { SERVE_SEARCHES_SEEN = 8 };
struct serve_searches {
    struct serve_search_seen {
        char name[64];
        int64_t size, ended;
    } seen[SERVE_SEARCHES_SEEN];
    bool primed;
};
/* Calls each with an event (as those of answer.h; malloc'ed, the callback's) for each search in
 * which something happened since the last look; of the first look nothing is new. */
void serve_searches_look(struct serve_searches *s, const char *home,
                         void (*each)(void *user, char *event), void *user);

#endif
