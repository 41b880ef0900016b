/* SPDX-License-Identifier: Apache-2.0 */
/*
 * News: each time all that was written down within the last hour is read, and what was not there
 * the last time is new. So what was seen the last time is all that has to be remembered.
 */
#include "news.h"

#include "answer.h"

#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NEWS_MOST = 2000 };
/* Writers' clocks may be off by that much, and a transaction may take that long. */
static const int64_t OVERLAP_NS = (int64_t)3600 * 1000000000;

struct serve_news *serve_news_of(char *text)
{
    struct serve_news *n = text ? tw_calloc(1, sizeof *n) : NULL;
    if (n)
        n->text = text;
    else
        tw_free(text);
    return n;
}

void serve_news_free(struct serve_news *n)
{
    while (n) {
        struct serve_news *next = n->next;
        tw_free(n->text);
        tw_free(n);
        n = next;
    }
}

void serve_seen_free(struct serve_seen *s)
{
    tw_free(s->id);
    *s = (struct serve_seen){.count = 0};
}

/* What one look found: all ids within the overlap, and the events of those that are new. */
struct looking {
    const struct serve_seen *seen;
    char (*id)[33];
    size_t count, room, fresh;
    struct serve_news *first, **end;
};

static int by_id(const void *x, const void *y)
{
    return strcmp(x, y);
}

/* Notes an id. 1: it is new; 0: it is not; TWIN_ENOMEM. */
static int note(struct looking *k, const char *id)
{
    if (k->count == k->room) {
        const size_t room = k->room ? 2 * k->room : 64;
        char(*grown)[33] = tw_reallocarray(k->id, room, sizeof *grown);
        if (!grown)
            return TWIN_ENOMEM;
        k->id = grown;
        k->room = room;
    }
    snprintf(k->id[k->count++], sizeof *k->id, "%s", id);
    const struct serve_seen *s = k->seen;
    const bool known = s->count &&
                       bsearch(k->id[k->count - 1], s->id, s->count, sizeof *s->id, by_id);
    k->fresh += !known;
    return !known && s->primed;
}

static int add(struct looking *k, char *text)
{
    struct serve_news *n = serve_news_of(text);
    if (!n)
        return TWIN_ENOMEM;
    *k->end = n;
    k->end = &n->next;
    return 0;
}

static int see_run(void *user, const struct twin_ledger_run *r, const struct twin_ledger_facts *f)
{
    const int fresh = note(user, r->id);
    return fresh > 0 ? add(user, serve_run_event(r, f)) : fresh;
}

static int see_verdict(void *user, const struct twin_ledger_comparison *c)
{
    const int fresh = note(user, c->id);
    return fresh > 0 ? add(user, serve_verdict_event(c)) : fresh;
}

int serve_news_look(struct serve_seen *seen, struct twin_ledger *l, int64_t now_ns,
                    struct serve_news_list *out, struct twin_error *err)
{
    struct looking k = {.seen = seen};
    k.end = &k.first;
    *out = (struct serve_news_list){.first = NULL};
    int rc = twin_ledger_news(l, now_ns - OVERLAP_NS, NEWS_MOST, see_run, see_verdict, &k, err);
    if (rc == 0 && seen->primed && k.fresh >= NEWS_MOST) {
        /* some were cut off: clients have to read the lists again */
        serve_news_free(k.first);
        k.first = tw_calloc(1, sizeof *k.first);
        k.end = k.first ? &k.first->next : NULL;
        rc = k.first ? 0 : TWIN_ENOMEM;
    }
    if (rc != 0) {
        serve_news_free(k.first);
        tw_free(k.id);
        return rc == TWIN_ENOMEM ? tw_no_memory(err, "for what is new") : rc;
    }
    if (k.count)
        qsort(k.id, k.count, sizeof *k.id, by_id);
    tw_free(seen->id);
    *seen = (struct serve_seen){.id = k.id, .count = k.count, .primed = true};
    *out = (struct serve_news_list){k.first, k.end};
    return 0;
}
