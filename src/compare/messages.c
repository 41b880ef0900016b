/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What records of messages and collectives say beyond those of one process: which rank's difference
 * is to be named, whether a collective made it, and in which order messages had come by then.
 *
 * Ranks. A step of such records ends on all ranks with the same collective. Within one, a rank
 * whose first difference is what it gave to MPI (IN) had received equal contents until then: nobody
 * else made its difference. What came out of a collective (OUT) is next: its members' own inputs
 * are looked at. A message that arrived different was sent different, so it is named last.
 *
 * Order. A message's name holds who sent it. So the names of what a rank received, in their order,
 * are the order of arrival. It is told beside a difference, as what was recorded: that contents
 * were equal until then says when it was, not why.
 */
#include "internal.h"
#include "scan.h"

#include "phrase.h"

#include <stdlib.h>
#include <string.h>

enum { RECEIVED_MOST = 1 << 22 }; /* of a rank; behind that the order is not looked at */

bool tw_is_mpi(uint8_t phase, const char *name)
{
    return phase == TWIN_PHASE_COLLECTIVE && strncmp(name, "MPI_", 4) == 0;
}

size_t tw_mpi_name_length(const char *name)
{
    return strlen(name) - (tw_starts(name, "MPI_") && tw_ends(name, "_c") ? 2 : 0);
}

/* "rank 2, tag 7" in "MPI_Recv from rank 2, tag 7"; NULL: nothing that one rank received of one. */
static const char *sender_in(const char *name)
{
    const char *from = strstr(name, " from rank ");
    return from ? from + strlen(" from ") : NULL;
}

bool tw_is_given(uint8_t phase, uint8_t kind, const char *name)
{
    return phase == TWIN_PHASE_COLLECTIVE &&
           (kind == TWIN_KIND_IN || (kind == TWIN_KIND_OUT && sender_in(name)));
}

int tw_mpi_turn(uint8_t phase, uint8_t kind, const char *name)
{
    if (!tw_is_mpi(phase, name) || kind == TWIN_KIND_IN)
        return 0;
    return sender_in(name) ? 2 : 1;
}

char *tw_mpi_before(struct tw_cmp *c, const struct tw_view *v, size_t index)
{
    const struct tw_rec *r = &v->rec[index];
    const char *name = tw_rec_name(v, r), *sender = sender_in(name);
    if (r->kind == TWIN_KIND_OUT)
        return sender ? tw_cmp_text(c, "what %.60s was sent from", sender)
                      : tw_cmp_text(c, "what the ranks gave to %.120s", name);
    for (size_t i = index; i-- > 0;) {
        const struct tw_rec *x = &v->rec[i];
        if (x->step == r->step && x->kind == TWIN_KIND_OUT &&
            tw_is_mpi(x->phase, tw_rec_name(v, x)))
            return tw_cmp_text(c, "the output of %.120s, step %u", tw_rec_name(v, x), x->step);
    }
    return r->step > 0 ? tw_cmp_text(c, "the end of step %u", r->step - 1)
                       : tw_cmp_copy(c, "the beginning");
}

/* ---- did a collective make it? */

/* The same call as the finding's, by a rank that took part in it. */
static bool same_call(const struct twin_finding *f, const struct tw_view *v, const struct tw_rec *r)
{
    return tw_is_mpi(r->phase, tw_rec_name(v, r)) && strcmp(tw_rec_name(v, r), f->name) == 0 &&
           strcmp(tw_rec_scope(v, r), f->scope) == 0 && r->occurrence == f->occurrence;
}

/* What a rank gave to the call was seen, and equal: its first difference is what came out of this
 * very call, or stands in a later step. Counts what it gave. */
static bool gave_equal(struct tw_cmp *c, const struct tw_scan *s, const struct twin_finding *f,
                       size_t *given, struct twin_error *err)
{
    struct tw_view v = {0};
    const struct twin_finding *own = s->found && s->origins.n ? &s->origins.f[0] : NULL;
    if (own && s->step == f->step_a &&
        (own->kind != TWIN_KIND_OUT || strcmp(own->name, f->name) != 0 ||
         strcmp(own->scope, f->scope) != 0 || strcmp(own->op, f->op) != 0 ||
         own->occurrence != f->occurrence))
        return false; /* op: with another root it is another call */
    const int rc = tw_view_load(c, s->pair->a, f->step_a, f->step_a, &v, err);
    twin_trace_rest(s->pair->a->trace);
    if (rc != 0)
        return false;
    bool whole = v.dropped == 0;
    for (size_t i = 0; whole && i < v.count; i++) {
        if (v.rec[i].kind != TWIN_KIND_IN || !same_call(f, &v, &v.rec[i]))
            continue;
        whole = !(v.rec[i].flags & TWIN_REC_UNOBSERVED); /* never recorded in parts */
        ++*given;
    }
    tw_view_free(&v);
    return whole;
}

void tw_mpi_judge(struct tw_cmp *c, const struct tw_scan *scans, size_t n,
                  const struct tw_scan *best, int32_t world, struct twin_error *err)
{
    struct twin_finding *f = best->origins.n ? &best->origins.f[0] : NULL;
    size_t given = 0;
    int32_t ranks = 0;
    if (!f || f->kind != TWIN_KIND_OUT || sender_in(f->name) || f->type != TWIN_FINDING_VALUE)
        return;
    bool equal = true;
    for (size_t i = 0; equal && i < n; i++) {
        if (scans[i].pair->auxiliary)
            continue;
        ranks++;
        equal = gave_equal(c, &scans[i], f, &given, err);
    }
    if (!equal || given == 0 || ranks != world)
        return;
    f->role = TWIN_ORIGIN;
    for (int i = 0; i < 2; i++) {
        tw_free(f->between[i]);
        f->between[i] = NULL;
    }
    tw_cmp_note(
        c,
        "what the ranks gave to %.60s in step %u was equal in both runs: it diverged in the "
        "collective",
        f->name, f->step_a);
}

/* ---- the order of arrival */

/* What one rank received up to a record, and how often the record's call was made by then. */
struct received {
    struct tw_cmp *c;
    struct twin_trace *trace;
    const struct twin_finding *f;
    uint32_t step, number; /* of the record, which ends the walk */
    uint32_t *series, *at; /* each one's series and step */
    size_t n, room;
    uint64_t calls;
    bool whole;
};

static bool is_wanted(void *user, uint32_t id, const struct twin_series *s)
{
    struct received *x = user;
    const char *name = twin_trace_string(x->trace, s->name);
    (void)id;
    return s->phase == TWIN_PHASE_COLLECTIVE &&
           ((s->kind != TWIN_KIND_IN && sender_in(name)) ||
            (s->kind == x->f->kind && strcmp(name, x->f->name) == 0));
}

static int take(void *user, const struct twin_trace_record *r)
{
    struct received *x = user;
    const struct twin_series *s = twin_trace_series(x->trace, r->series);
    const char *name = twin_trace_string(x->trace, s->name);
    if (r->step > x->step || (r->step == x->step && r->seq > x->number))
        return 0; /* not the end: blocks of several threads need not be in order */
    x->calls += s->kind == x->f->kind && strcmp(name, x->f->name) == 0 &&
                strcmp(twin_trace_string(x->trace, s->scope), x->f->scope) == 0;
    if (s->kind == TWIN_KIND_IN || !sender_in(name) || (r->step == x->step && r->seq == x->number))
        return 0;
    if (x->n == x->room) {
        size_t room = x->room ? 2 * x->room : 256;
        uint32_t *series = tw_reallocarray(x->series, room, sizeof *series);
        x->series = series ? series : x->series;
        uint32_t *at = tw_reallocarray(x->at, room, sizeof *at);
        x->at = at ? at : x->at;
        x->whole = series && at && room <= RECEIVED_MOST;
        if (!x->whole)
            return 1;
        x->room = room;
    }
    x->series[x->n] = r->series;
    x->at[x->n++] = r->step;
    return 0;
}

static void gather(struct tw_cmp *c, const struct tw_proc *p, const struct twin_finding *f,
                   const struct twin_evidence *end, struct received *x)
{
    *x = (struct received){
        .c = c, .trace = p->trace, .f = f, .step = end->step, .number = end->number, .whole = true};
    if (twin_trace_walk_some(p->trace, is_wanted, take, NULL, x, NULL) != 0)
        x->whole = false;
    twin_trace_rest(p->trace);
}

static const char *sender(const struct received *x, size_t i)
{
    const struct twin_series *s = twin_trace_series(x->trace, x->series[i]);
    return sender_in(twin_trace_string(x->trace, s->name));
}

static const char *scope(const struct received *x, size_t i)
{
    return twin_trace_string(x->trace, twin_trace_series(x->trace, x->series[i])->scope);
}

static bool same_message(const struct received *a, const struct received *b, size_t i)
{
    return strcmp(sender(a, i), sender(b, i)) == 0 && strcmp(scope(a, i), scope(b, i)) == 0;
}

/* "1, 3, 2": who sent the messages of a step, the first eight from number `from` on. */
static void list_senders(struct tw_buf *text, const struct received *x, size_t from)
{
    size_t i = from;
    for (; i < x->n && x->at[i] == x->at[from] && i < from + 8; i++)
        tw_buf_printf(text, "%s%ld", i > from ? ", " : "",
                      strtol(sender(x, i) + strlen("rank "), NULL, 10));
    if (i < x->n && x->at[i] == x->at[from])
        tw_buf_puts(text, ", ...");
}

/* Says where the orders of arrival last differed before the record, and where first. */
static void say_order(struct tw_cmp *c, const struct received *a, const struct received *b,
                      int32_t rank)
{
    const size_t n = a->n < b->n ? a->n : b->n;
    size_t first = 0, last = n;
    struct tw_buf from_a = {0}, from_b = {0}, since = {0};
    while (first < n && same_message(a, b, first))
        first++;
    if (first == n)
        return;
    while (same_message(a, b, last - 1))
        last--;
    size_t begin = last - 1; /* of that step's messages */
    while (begin > 0 && a->at[begin - 1] == a->at[last - 1])
        begin--;
    list_senders(&from_a, a, begin);
    list_senders(&from_b, b, begin);
    if (a->at[first] < a->at[begin])
        tw_buf_printf(&since, " (another order first in step %u)", a->at[first]);
    if (from_a.data && from_b.data && !from_a.failed && !from_b.failed && !since.failed)
        tw_cmp_note(
            c,
            "before that, in step %u, messages came to rank %d from ranks %s in %s and from "
            "ranks %s in %s%s; contents were equal until then. That is what was recorded; "
            "whether it is the cause was not tried",
            a->at[begin], rank, from_a.data, c->label_a, from_b.data, c->label_b,
            since.data ? since.data : "");
    tw_buf_free(&from_a);
    tw_buf_free(&from_b);
    tw_buf_free(&since);
}

void tw_mpi_tell(struct tw_cmp *c, const struct tw_scan *best)
{
    const struct twin_finding *f = best->origins.n ? &best->origins.f[0] : NULL;
    struct received a, b;
    if (!f || f->phase != TWIN_PHASE_COLLECTIVE || f->type != TWIN_FINDING_VALUE || c->quick)
        return;
    const bool mpi = tw_is_mpi((uint8_t)f->phase, f->name);
    gather(c, best->pair->a, f, &f->at_a, &a);
    gather(c, best->pair->b, f, &f->at_b, &b);
    if (a.whole && a.calls > 0 && (mpi || a.n > 0)) /* PyTorch's groups are named by a number */
        tw_cmp_note(c,
                    "rank %d: call %llu of %.120s on %s%.120s in %s, behind %zu message%s received",
                    f->rank, (unsigned long long)a.calls, f->name, mpi ? "" : "group ",
                    mpi || *f->scope ? f->scope : "0", c->label_a, a.n, tw_plural_s(a.n));
    if (a.whole && b.whole)
        say_order(c, &a, &b, f->rank);
    tw_free(a.series);
    tw_free(a.at);
    tw_free(b.series);
    tw_free(b.at);
}
