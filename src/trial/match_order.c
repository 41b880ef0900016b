/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders of matches out of traces. A record of the agent of MPI says who sent a message ("MPI_Recv
 * from rank 2, tag 7"), on which communicator (scope), and what the receive had left open (op: "any
 * source"). Records stand in the order in which receives were complete; the op says also how many
 * that were posted before it were then still open ("any source, behind 2 open"). So they are put
 * into the order in which the receives were posted, which is all that a replay needs.
 */
#include "match_order.h"

#include "base.h"

#include "src/trace/order.h"
#include "src/trace/trace.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tw_matches_rank {
    int32_t rank;
    char (*comm)[TW_ORDER_NAME];
    uint32_t comms;
    struct tw_order_match *match; /* in the order of posting */
    uint32_t matches, taken;      /* taken: those that got a message */
    struct tw_order_match *end;   /* non-blocking receives, in the order in which they ended */
    uint32_t ends;
    bool ends_unknown; /* several threads learnt of them */
    bool incomplete;   /* its trace lacks records */
};

/* A walk over one trace. */
struct reading {
    struct twin_trace *trace;
    const char *path;
    struct tw_matches_rank *to;
    struct twin_error *err;
    uint32_t open[TW_ORDER_OPEN_MOST]; /* places in `match` that no record has filled, ascending */
    uint32_t opened;
    uint32_t thread, end_thread;
    bool seen, end_seen;
};

/* What a receive left open, by its operation, and how many before it were still open; 0: nothing.
 */
static unsigned open_of(const char *op, uint32_t *behind)
{
    static const struct {
        const char *says;
        unsigned open;
    } known[] = {{"any source, any tag", TW_ORDER_ANY_SOURCE | TW_ORDER_ANY_TAG},
                 {"any source", TW_ORDER_ANY_SOURCE},
                 {"any tag", TW_ORDER_ANY_TAG}};
    unsigned open = 0;
    *behind = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known && !open; i++) {
        const size_t n = strlen(known[i].says);
        if (strncmp(op, known[i].says, n) == 0 && (op[n] == 0 || op[n] == ',')) {
            open = known[i].open;
            op += n;
        }
    }
    if (open && strncmp(op, ", probed", 8) == 0) {
        open |= TW_ORDER_PROBED;
        op += 8;
    }
    unsigned number;
    if (open && sscanf(op, ", behind %u open", &number) == 1)
        *behind = number;
    return open;
}

/* Is it a record of one of these functions? "MPI_Recv_c from rank 1" is one of MPI_Recv: its count
 * is of another type, and nothing else. */
static bool is_of(const char *name, const char *const *those, size_t count)
{
    size_t length = strcspn(name, " ");
    if (length > 2 && strncmp(name + length - 2, "_c", 2) == 0)
        length -= 2;
    for (size_t i = 0; i < count; i++)
        if (strlen(those[i]) == length && strncmp(name, those[i], length) == 0)
            return true;
    return false;
}

/* Receives that the agent can make take a message of its choice. MPI_Mrecv and MPI_Imrecv: what a
 * probe found. */
static bool is_replayed(const char *name)
{
    static const char *const those[] = {"MPI_Recv",     "MPI_Irecv",    "MPI_Mrecv",
                                        "MPI_Imrecv",   "MPI_Sendrecv", "MPI_Sendrecv_replace",
                                        "MPI_Recv_init"};
    return is_of(name, those, sizeof those / sizeof *those);
}

/* Receives that the program learns of by MPI_Wait, MPI_Testany, ... */
static bool has_end(const char *name)
{
    static const char *const those[] = {"MPI_Irecv", "MPI_Imrecv", "MPI_Recv_init"};
    return is_of(name, those, sizeof those / sizeof *those);
}

static bool is_of_interest(void *user, uint32_t id, const struct twin_series *s)
{
    struct reading *r = user;
    const char *name = twin_trace_string(r->trace, s->name);
    uint32_t behind;
    (void)id;
    return s->phase == TWIN_PHASE_COLLECTIVE && s->kind != TWIN_KIND_IN &&
           strncmp(name, "MPI_", 4) == 0 && strstr(name, " from rank ") &&
           (has_end(name) || open_of(twin_trace_string(r->trace, s->op), &behind) != 0);
}

/* The number of a communicator's name, which is added where it is new; -1 with an error. */
static int comm_number(struct tw_matches_rank *to, const char *name, struct twin_error *err)
{
    for (uint32_t i = 0; i < to->comms; i++)
        if (strcmp(to->comm[i], name) == 0)
            return (int)i;
    if (to->comms == TW_ORDER_COMMS_MOST || strlen(name) >= TW_ORDER_NAME) {
        twin_error_set(err, TWIN_ELIMIT, "rank %d received on too many communicators", to->rank);
        return -1;
    }
    char(*grown)[TW_ORDER_NAME] = tw_reallocarray(to->comm, to->comms + 1, sizeof *grown);
    if (!grown) {
        tw_no_memory(err, "for an order of matches");
        return -1;
    }
    to->comm = grown;
    memset(grown[to->comms], 0, sizeof *grown); /* it is written to a file whole */
    memcpy(grown[to->comms], name, strlen(name));
    return (int)to->comms++;
}

/* Room for one more of `count`. */
static int grow(struct reading *r, struct tw_order_match **list, uint32_t count)
{
    if (count == TW_ORDER_MATCHES_MOST)
        return twin_error_set(r->err, TWIN_ELIMIT, "rank %d received more than %d messages",
                              r->to->rank, TW_ORDER_MATCHES_MOST);
    if (count & (count - 1)) /* no power of two: it is not full */
        return 0;
    struct tw_order_match *grown = tw_reallocarray(*list, count ? 2 * (size_t)count : 1,
                                                   sizeof *grown);
    if (!grown)
        return tw_no_memory(r->err, "for an order of matches");
    *list = grown;
    return 0;
}

/* One place more, which is open. */
static int one_more(struct reading *r)
{
    struct tw_matches_rank *to = r->to;
    int rc = grow(r, &to->match, to->matches);
    if (rc != 0)
        return rc;
    to->match[to->matches] = (struct tw_order_match){.source = TW_ORDER_NOBODY, .tag = -1};
    r->open[r->opened++] = to->matches++;
    return 0;
}

/* Puts a match where it was posted: behind so many that are still open. */
static int add(struct reading *r, const struct tw_order_match *m, uint32_t behind)
{
    if (behind >= TW_ORDER_OPEN_MOST)
        return twin_error_set(r->err, TWIN_EFORMAT, "%s: more than %d open receives under way",
                              r->path, TW_ORDER_OPEN_MOST);
    while (r->opened <= behind) {
        int rc = one_more(r);
        if (rc != 0)
            return rc;
    }
    r->to->match[r->open[behind]] = *m;
    r->to->taken++;
    r->opened--;
    memmove(&r->open[behind], &r->open[behind + 1], (r->opened - behind) * sizeof *r->open);
    return 0;
}

/* The message of a record's name and scope. */
static int read_message(struct reading *r, const char *name, const char *scope,
                        struct tw_order_match *m)
{
    static const char from[] = " from rank ";
    char *end;
    long source = strtol(strstr(name, from) + sizeof from - 1, &end, 10);
    const char *tag = strncmp(end, ", tag ", 6) == 0 ? end + 6 : NULL;
    if (!tag || source < 0 || source > INT_MAX)
        return twin_error_set(r->err, TWIN_EFORMAT, "%s: \"%.80s\" is not the name of a message",
                              r->path, name);
    m->source = (int32_t)source;
    m->tag = -1;
    if (*tag >= '0' && *tag <= '9') {
        long number = strtol(tag, NULL, 10);
        m->tag = number < TW_ORDER_TAGS ? (int32_t)number : -1;
    }
    int comm = comm_number(r->to, scope, r->err);
    if (comm < 0)
        return r->err->code;
    m->comm = (uint16_t)comm;
    return 0;
}

static int add_end(struct reading *r, const struct tw_order_match *m)
{
    struct tw_matches_rank *to = r->to;
    int rc = grow(r, &to->end, to->ends);
    if (rc == 0) {
        to->end[to->ends] = *m;
        to->end[to->ends++].open = 0;
    }
    return rc;
}

static int take(void *user, const struct twin_trace_record *record)
{
    struct reading *r = user;
    const struct twin_series *s = twin_trace_series(r->trace, record->series);
    const char *name = twin_trace_string(r->trace, s->name);
    uint32_t behind;
    struct tw_order_match m = {
        .open = (uint16_t)open_of(twin_trace_string(r->trace, s->op), &behind)};
    int rc = read_message(r, name, twin_trace_string(r->trace, s->scope), &m);
    if (rc == 0 && has_end(name)) {
        if (r->end_seen && record->thread != r->end_thread)
            r->to->ends_unknown = true;
        r->end_seen = true;
        r->end_thread = record->thread;
        rc = add_end(r, &m);
    }
    if (rc != 0 || !m.open || !is_replayed(name))
        return rc;
    if (r->seen && record->thread != r->thread)
        return twin_error_set(r->err, TWIN_EINVAL,
                              "rank %d received in more than one thread, so that there is no one "
                              "order to replay",
                              r->to->rank);
    r->seen = true;
    r->thread = record->thread;
    return add(r, &m, behind);
}

static bool lacks_records(struct twin_trace *t)
{
    const struct twin_trace_info *info = twin_trace_info(t);
    struct twin_trace_hole hole;
    return info->dropped || info->lost || info->tail_bytes || twin_trace_hole(t, 0, &hole);
}

/* Records that are missing would shift all that come behind them. */
static int require_whole(struct twin_trace *t, const char *path, struct twin_error *err)
{
    const char *lost = twin_trace_note_of(t, TW_ORDER_LOST_NOTE);
    if (lost)
        return twin_error_set(err, TWIN_EINVAL, "the order of the messages in %s is not known: %s",
                              path, lost);
    if (lacks_records(t))
        return twin_error_set(err, TWIN_EINVAL,
                              "%s lacks records, so the order of its messages is not known; record "
                              "it again, with --lossless",
                              path);
    return 0;
}

static void free_rank(struct tw_matches_rank *r)
{
    tw_free(r->comm);
    tw_free(r->match);
    tw_free(r->end);
    *r = (struct tw_matches_rank){.rank = -1};
}

/* All matches of one trace; none is no error. */
static int read_trace(const char *path, bool whole, struct tw_matches_rank *to,
                      struct twin_error *err)
{
    struct reading *r = tw_calloc(1, sizeof *r);
    if (!r)
        return tw_no_memory(err, "for an order of matches");
    *r = (struct reading){.path = path, .to = to, .err = err};
    int rc = twin_trace_open(path, &r->trace, err);
    if (rc == 0) {
        to->rank = twin_trace_info(r->trace)->rank;
        rc = twin_trace_definitions(r->trace, err);
        if (rc == 0)
            rc = twin_trace_walk_some(r->trace, is_of_interest, take, NULL, r, err);
        if (to->ends_unknown)
            to->ends = 0;
        if (rc == 0 && whole && (to->matches || to->ends))
            rc = require_whole(r->trace, path, err);
        to->incomplete = lacks_records(r->trace) ||
                         twin_trace_note_of(r->trace, TW_ORDER_LOST_NOTE);
        twin_trace_close(r->trace);
    }
    tw_free(r);
    return rc;
}

/* The orders of a run's ranks. whole: those that lack records are an error. */
static int read_run(const struct twin_run *run, bool whole, struct tw_matches *out,
                    struct twin_error *err)
{
    int rc = 0;
    out->rank = tw_calloc(run->trace_count + 1, sizeof *out->rank);
    if (!out->rank)
        return tw_no_memory(err, "for an order of matches");
    for (size_t i = 0; rc == 0 && i < run->trace_count; i++) {
        struct tw_matches_rank *to = &out->rank[out->count];
        rc = read_trace(run->traces[i], whole, to, err);
        if (rc != 0 || (to->matches == 0 && to->ends == 0)) {
            free_rank(to);
            continue;
        }
        for (size_t k = 0; k < out->count; k++) /* sorted by rank, but a check costs nothing */
            if (out->rank[k].rank == to->rank)
                rc = twin_error_set(err, TWIN_EINVAL,
                                    "two processes of %s received messages as rank %d", run->id,
                                    to->rank);
        out->count++;
    }
    return rc;
}

int tw_matches_read(const struct twin_run *recorded, uint32_t wait_ms, struct tw_matches *out,
                    struct twin_error *err)
{
    *out = (struct tw_matches){.recorded = recorded, .wait_ms = wait_ms};
    int rc = read_run(recorded, true, out, err);
    out->none = rc == 0 && out->count == 0;
    if (out->none)
        rc = twin_error_set(err, TWIN_EINVAL,
                            "run %.8s recorded no receive of MPI that left its sender or tag open: "
                            "there is no order "
                            "to replay",
                            recorded->id);
    return rc;
}

void tw_matches_free(struct tw_matches *o)
{
    for (size_t i = 0; i < o->count; i++)
        free_rank(&o->rank[i]);
    tw_free(o->rank);
    *o = (struct tw_matches){.count = 0};
}

static int write_rank(const struct tw_matches *o, const struct tw_matches_rank *r,
                      const char *run_dir, struct twin_error *err)
{
    struct tw_order_head head = {.magic = TW_ORDER_MAGIC,
                                 .version = TW_ORDER_VERSION,
                                 .comms = r->comms,
                                 .matches = r->matches,
                                 .ends = r->ends,
                                 .wait_ms = o->wait_ms};
    const size_t names = (size_t)r->comms * sizeof *r->comm;
    const size_t matches = (size_t)r->matches * sizeof *r->match;
    const size_t ends = (size_t)r->ends * sizeof *r->end;
    char *path = tw_printf(TW_ORDER_FILE, run_dir, (int)r->rank);
    char *all = tw_malloc(sizeof head + names + matches + ends);
    int rc = path && all ? 0 : tw_no_memory(err, "for an order of matches");
    if (rc == 0) {
        memcpy(all, &head, sizeof head);
        memcpy(all + sizeof head, r->comm, names);
        if (matches)
            memcpy(all + sizeof head + names, r->match, matches);
        if (ends)
            memcpy(all + sizeof head + names + matches, r->end, ends);
        rc = tw_write_file_atomic(path, all, sizeof head + names + matches + ends, err);
    }
    tw_free(all);
    tw_free(path);
    return rc;
}

int tw_matches_fill(void *user, const char *run_dir, struct twin_error *err)
{
    const struct tw_matches *o = user;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < o->count; i++)
        rc = write_rank(o, &o->rank[i], run_dir, err);
    return rc;
}

/* ---- what came of it */

static const struct tw_matches_rank *rank_in(const struct tw_matches *o, int32_t rank)
{
    for (size_t i = 0; i < o->count; i++)
        if (o->rank[i].rank == rank)
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
    if (m->tag < 0)
        return tw_printf("a message from rank %d on %s", (int)m->source, r->comm[m->comm]);
    return tw_printf("a message from rank %d, tag %d, on %s", (int)m->source, (int)m->tag,
                     r->comm[m->comm]);
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
    int rc = read_run(replayed, false, &now, err);
    for (size_t i = 0; rc == 0 && i < o->count; i++) {
        const struct tw_matches_rank *was = &o->rank[i], *is = rank_in(&now, was->rank);
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
        if (!rank_in(o, now.rank[i].rank)) {
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
