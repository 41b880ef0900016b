/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SERVE_NEWS_H
#define TW_SERVE_NEWS_H
/* What is new in the ledger since the last look, as events for clients. Belongs to one thread. */
#include "src/ledger/ledger.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

/* text: an event without its id, malloc'ed; NULL: more is new than can be listed. */
struct serve_news {
    char *text;
    struct serve_news *next;
};
/* Oldest first; end: where the next one would be hung, valid where there is a first. */
struct serve_news_list {
    struct serve_news *first, **end;
};
/* Takes text, which may be NULL for want of memory. NULL: no memory. */
struct serve_news *serve_news_of(char *text);
void serve_news_free(struct serve_news *n);

/* Ids of what is not new any more, sorted. Zeroed: nothing was looked at yet, and what is there
 * then is no news. */
struct serve_seen {
    char (*id)[33];
    size_t count;
    bool primed;
};
/* TWIN_ENOMEM, and errors of the ledger: then nothing is seen that was not before, and out is
 * empty. */
int serve_news_look(struct serve_seen *seen, struct twin_ledger *l, int64_t now_ns,
                    struct serve_news_list *out, struct twin_error *err);
void serve_seen_free(struct serve_seen *s);

#endif
