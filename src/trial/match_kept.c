/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What came of a replay: the order in the traces of the new run is held against the recorded one.
 * The agents are not believed; their notes are used for the reason.
 */
#include "match_inside.h"

#include "base.h"

#include "src/trace/trace.h"

#include <string.h>

/* The same rank of the other run, by the same agent. */
static const struct tw_matches_rank *rank_in(const struct tw_matches *o,
                                             const struct tw_matches_rank *r)
{
    for (size_t i = 0; i < o->count; i++)
        if (o->rank[i].rank == r->rank && o->rank[i].torch == r->torch)
            return &o->rank[i];
    return NULL;
}

static bool same_message(const struct tw_matches_rank *a, const struct tw_order_match *x,
                         const struct tw_matches_rank *b, const struct tw_order_match *y)
{
    return x->source == y->source && x->tag == y->tag && x->open == y->open &&
           (x->source == TW_ORDER_NOBODY || strcmp(a->comm[x->comm], b->comm[y->comm]) == 0);
}

/* "a message from rank 2, tag 7, on MPI_COMM_WORLD", malloc'ed; m is NULL: there are no more. */
static char *say_message(const struct tw_matches_rank *r, const struct tw_order_match *m)
{
    if (!m)
        return tw_strdup("no more messages");
    if (m->source == TW_ORDER_NOBODY)
        return tw_strdup("no message");
    const char *of = r->torch && *r->comm[m->comm] ? "group " : "";
    const char *comm = *r->comm[m->comm] ? r->comm[m->comm] : "the default group";
    if (m->tag < 0)
        return tw_printf("a message from rank %d on %s%s", (int)m->source, of, comm);
    return tw_printf("a message from rank %d, tag %d, on %s%s", (int)m->source, (int)m->tag, of,
                     comm);
}

/* That number `at` is another message, as a sentence; NULL without memory. */
static char *say_difference(const char *what, const struct tw_matches_rank *was,
                            const struct tw_order_match *x, const struct tw_matches_rank *is,
                            const struct tw_order_match *y, uint32_t at)
{
    char *expected = say_message(was, x);
    char *found = say_message(is, y);
    char *text = NULL;
    if (expected && found)
        text = tw_printf("%s %u of rank %d: expected %s, found %s", what, at + 1, (int)was->rank,
                         expected, found);
    tw_free(expected);
    tw_free(found);
    return text;
}

/* What the agent itself noted on giving up: the first of the run's ranks, malloc'ed; or NULL. */
static char *noted(const struct twin_run *run, const char *key)
{
    struct twin_error quiet = TWIN_ERROR_INIT;
    char *found = NULL;
    for (size_t i = 0; !found && i < run->trace_count; i++) {
        struct twin_trace *t;
        if (twin_trace_open(run->traces[i], &t, &quiet) != 0)
            continue;
        const char *value = twin_trace_note_of(t, key);
        found = value ? tw_strdup(value) : NULL;
        twin_trace_close(t);
    }
    return found;
}

/* How many ranks were released because another one was. */
static size_t count_told(const struct twin_run *run)
{
    struct twin_error quiet = TWIN_ERROR_INIT;
    size_t n = 0;
    for (size_t i = 0; i < run->trace_count; i++) {
        struct twin_trace *t;
        if (twin_trace_open(run->traces[i], &t, &quiet) != 0)
            continue;
        n += twin_trace_note_of(t, TW_ORDER_TOLD_NOTE) != NULL;
        twin_trace_close(t);
    }
    return n;
}

/* One list of a rank, or of none in the new run. */
struct lists {
    const char *what;
    const struct tw_matches_rank *was, *is;
    const struct tw_order_match *x, *y;
    uint32_t expected, made;
};

/* How far they agree. Sets *text where they do not as the first ones. */
static void compare_lists(const struct lists *l, struct tw_matches_kept *out)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < l->expected; i++)
        out->expected += l->x[i].source != TW_ORDER_NOBODY;
    while (at < l->expected && at < l->made && same_message(l->was, &l->x[at], l->is, &l->y[at]))
        out->kept += l->x[at++].source != TW_ORDER_NOBODY;
    const bool lacks = l->is && l->is->incomplete;
    if (at == l->expected && at == l->made && !lacks)
        return;
    out->whole = false;
    out->other = out->other || at < l->made;
    if (!out->text && lacks)
        out->text = tw_printf("the trace of rank %d lacks records", (int)l->was->rank);
    else if (!out->text)
        out->text = say_difference(l->what, l->was, at < l->expected ? &l->x[at] : NULL, l->is,
                                   at < l->made ? &l->y[at] : NULL, at);
}

/* The agent saw what it waited for: its words say more. */
static void take_word(const struct twin_run *run, const char *key, struct tw_matches_kept *out)
{
    char *said = noted(run, key);
    if (!said)
        return;
    out->whole = false;
    out->other = true;
    tw_free(out->text);
    out->text = said;
}

/* "...; 3 ranks were released with it" */
static void say_told(const struct twin_run *run, struct tw_matches_kept *out)
{
    const size_t told = out->text ? count_told(run) : 0;
    if (!told)
        return;
    const char *words = told == 1 ? "rank was" : "ranks were";
    char *said = tw_printf("%s; %zu other %s released with it", out->text, told, words);
    tw_free(out->text);
    out->text = said;
}

int tw_matches_compare(const struct tw_matches *o, const struct twin_run *replayed,
                       struct tw_matches_kept *out, struct tw_matches_kept *ends,
                       struct twin_error *err)
{
    struct tw_matches now = {.count = 0};
    *out = *ends = (struct tw_matches_kept){.whole = true};
    int rc = tw_matches_read_run(replayed, false, &now, err);
    for (size_t i = 0; rc == 0 && i < o->count; i++) {
        const struct tw_matches_rank *was = &o->rank[i], *is = rank_in(&now, was);
        struct lists l = {"match", was, is, was->match, NULL, was->matches, 0};
        if (is) {
            l.y = is->match;
            l.made = is->matches;
        }
        compare_lists(&l, out);
        if (was->ends == 0)
            continue;
        l = (struct lists){"completion", was, is, was->end, NULL, was->ends, 0};
        if (is) {
            l.y = is->end;
            l.made = is->ends;
        }
        compare_lists(&l, ends);
    }
    for (size_t i = 0; rc == 0 && i < now.count; i++)
        if (!rank_in(o, &now.rank[i])) {
            out->whole = false;
            out->other = true;
            if (!out->text)
                out->text = tw_printf("rank %d received messages that the recording has none of",
                                      (int)now.rank[i].rank);
        }
    if (rc == 0) {
        take_word(replayed, TW_ORDER_NOTE, out);
        take_word(replayed, TW_ORDER_ENDS_NOTE, ends);
        say_told(replayed, out);
    }
    tw_matches_free(&now);
    return rc;
}
