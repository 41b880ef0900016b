/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Within one run: do the ranks hold equal weights that DistributedDataParallel keeps equal, or that
 * DTensor says to be replicated over a dimension of its mesh? Two runs may agree in every record
 * though their replicas have drifted apart in the same way, so this is told of each run by itself.
 * It makes no two runs differ.
 *
 * Only what the ranks themselves noted is held against each other: the parameters whose gradients
 * DDP averages, from the step on in which its first forward was seen, and those that placements
 * replicate, from the first step of their optimizer on (replica_notes.c). Where one
 * rank recorded other weights in a step than another, lost records, or stepped on gradients that
 * were not averaged, nothing is known from that step on, and that is said.
 */
#include "replicas.h"

#include "phrase.h"

#include <stdlib.h>
#include <string.h>

size_t tw_replica_rows = 16000000; /* of one rank: 40 bytes each */

/* One record of a weight. */
struct row {
    uint64_t key, content;
    uint32_t step, seq, series, name;
    uint8_t phase;
    bool unread, differs;
};

/* The records of one rank, in the order of by_place(). */
struct rows {
    struct tw_cmp *c;
    const struct tw_replica *g;
    struct tw_proc *p;
    struct row *row;
    size_t n, room;
    uint32_t first, end; /* steps that count: [first, end] */
    bool full;
};

/* What is known of one group, while its ranks are held against each other. */
struct judged {
    struct tw_cmp *c;
    struct tw_replica *g;
    uint32_t limit;  /* the first step that is not compared */
    uint32_t steps;  /* finished ones that all have */
    char *why;       /* why it is not; NULL: nothing is left */
    struct rows own; /* of the first rank; what another one has otherwise is marked */
};

/* ---- reasons not to go on */

/* Nothing is known from this step on; the earliest reason stays. Takes text; NULL: there is nothing
 * to complain of. */
static void stop(struct judged *j, uint32_t step, char *text)
{
    if (step < j->limit || (step == j->limit && !j->why)) {
        tw_free(j->why);
        j->limit = step;
        j->why = text;
    } else {
        tw_free(text);
    }
}

static int32_t rank_of(const struct judged *j, size_t i)
{
    return j->g->member[i].rank;
}

/* What a rank says of itself that ends the comparison, and what it lost. */
static void look_at_member(struct judged *j, size_t i)
{
    const struct tw_replica_member *m = &j->g->member[i];
    uint32_t step, dropped;
    struct twin_trace_hole hole;
    if (!m->proc) {
        stop(j, 0, tw_cmp_text(j->c, "rank %d left no trace that says so", m->rank));
        return;
    }
    if (m->otherwise)
        stop(j, 0, tw_cmp_text(j->c, "rank %d says it of other weights", m->rank));
    if (m->several)
        stop(j, 0, tw_cmp_text(j->c, "several processes of rank %d say so", m->rank));
    if (m->proc->info->lost)
        stop(j, 0, tw_cmp_text(j->c, "rank %d could not record everything", m->rank));
    if (m->local != UINT32_MAX)
        stop(j, m->local,
             tw_cmp_text(j->c, "rank %d stepped on gradients that were not averaged (no_sync)",
                         m->rank));
    for (size_t k = 0; twin_trace_gap(m->proc->trace, k, &step, &dropped); k++)
        if (step >= j->g->from)
            stop(j, step, tw_cmp_text(j->c, "rank %d lost records of that step", m->rank));
    for (size_t k = 0; twin_trace_hole(m->proc->trace, k, &hole); k++)
        stop(j, hole.definitions ? 0 : hole.first_step,
             tw_cmp_text(j->c, "a part of rank %d's trace is damaged", m->rank));
}

/*
 * Up to which step can be compared? What came after the last one counts where all ranks made
 * equally many and ended by themselves.
 */
static void find_end(struct judged *j)
{
    const struct tw_replica *g = j->g;
    uint64_t least = UINT64_MAX, most = 0;
    bool closed = true;
    int32_t shortest = 0;
    for (size_t i = 0; i < g->members; i++) {
        const struct tw_proc *p = g->member[i].proc;
        if (!p)
            continue; /* look_at_member() says so */
        const uint64_t steps = p->info->steps;
        if (steps < least)
            shortest = p->rank;
        least = steps < least ? steps : least;
        most = steps > most ? steps : most;
        closed &= p->info->closed;
    }
    j->steps = (uint32_t)least;
    j->limit = (uint32_t)least + (least == most && closed);
    if (least != most)
        j->why = tw_cmp_text(j->c, "rank %d made %llu steps, and another one %llu", shortest,
                             (unsigned long long)least, (unsigned long long)most);
    for (size_t i = 0; i < g->members; i++)
        if (g->member[i].end < j->limit) /* DDP was gone: that is nobody's fault */
            stop(j, g->member[i].end, NULL);
}

/* ---- the records of a rank */

static bool is_of_group(void *user, uint32_t id, const struct twin_series *s)
{
    const struct rows *r = user;
    uint32_t index;
    (void)id;
    if (s->kind != TWIN_KIND_WEIGHT || s->phase >= TWIN_PHASE_COUNT)
        return false;
    if (s->phase != TWIN_PHASE_OPTIMIZER && !(s->phase == TWIN_PHASE_INIT && r->g->start))
        return false;
    return strcmp(twin_trace_string(r->p->trace, s->scope), r->g->scope) == 0 &&
           tw_replica_name(r->g, twin_trace_string(r->p->trace, s->name), &index);
}

static int keep_row(void *user, const struct twin_trace_record *x)
{
    struct rows *r = user;
    const struct twin_series *s = twin_trace_series(r->p->trace, x->series);
    struct row row = {.step = x->step,
                      .seq = x->seq,
                      .series = x->series,
                      .phase = s->phase,
                      .key = tw_proc_key(r->p, x->series),
                      .content = tw_record_content(r->p, x),
                      .unread = (x->flags & TWIN_REC_UNOBSERVED) != 0};
    if (x->step < r->first || x->step > r->end ||
        (s->phase == TWIN_PHASE_INIT && x->step != r->first) ||
        !tw_replica_name(r->g, twin_trace_string(r->p->trace, s->name), &row.name))
        return 0;
    if (r->n >= tw_replica_rows) {
        r->full = true;
        return 1;
    }
    if (!tw_cmp_room(r->c, &r->row, r->n, &r->room, sizeof row))
        return 1;
    r->row[r->n++] = row;
    return 0;
}

/* By step, what begins it first, and then equal keys together in their order. */
static int by_place(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    if (x->phase != y->phase)
        return x->phase == TWIN_PHASE_INIT ? -1 : 1;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* Loads what a rank recorded of the group, up to the step that is compared last. */
static void load(struct judged *j, size_t i, struct rows *out)
{
    struct tw_proc *p = j->g->member[i].proc;
    *out = (struct rows){
        .c = j->c, .g = j->g, .p = p, .first = j->g->from, .end = j->limit ? j->limit - 1 : 0};
    const int rc = twin_trace_walk_some(p->trace, is_of_group, keep_row, NULL, out, NULL);
    struct twin_trace_hole hole;
    if (out->n)
        qsort(out->row, out->n, sizeof *out->row, by_place);
    if (out->full)
        stop(j, out->row[out->n - 1].step,
             tw_cmp_text(j->c, "rank %d recorded more of them than are looked at", rank_of(j, i)));
    if (twin_trace_hole(p->trace, 0, &hole) || (rc != 0 && rc != 1))
        stop(j, twin_trace_hole(p->trace, 0, &hole) && !hole.definitions ? hole.first_step : 0,
             tw_cmp_text(j->c, "a part of rank %d's trace is damaged", rank_of(j, i)));
    twin_trace_rest(p->trace);
}

/* ---- two ranks */

static bool alike(const struct row *x, const struct row *y)
{
    return x->step == y->step && x->phase == y->phase && x->key == y->key;
}

/* That the ranks recorded other things in the step of x or y, whichever comes first. */
static void stop_at_other(struct judged *j, const struct row *x, const struct row *y, size_t i)
{
    const uint32_t step = !y || (x && x->step < y->step) ? x->step : y->step;
    if (step >= j->steps) /* behind the last step: not every look at the end is taken */
        stop(j, step, NULL);
    else
        stop(j, step,
             tw_cmp_text(j->c, "rank %d recorded other weights in that step than rank %d",
                         rank_of(j, i), rank_of(j, 0)));
}

/* Marks what of the first rank's records rank i has with other contents. */
static void hold_against(struct judged *j, size_t i, const struct rows *other)
{
    size_t a = 0, b = 0;
    while (a < j->own.n || b < other->n) {
        struct row *x = a < j->own.n ? &j->own.row[a] : NULL;
        const struct row *y = b < other->n ? &other->row[b] : NULL;
        if (!x || !y || !alike(x, y)) {
            stop_at_other(j, x, y, i);
            return;
        }
        if (x->unread || y->unread) {
            stop(j, x->step,
                 tw_cmp_text(j->c, "rank %d could not read %.200s", rank_of(j, x->unread ? 0 : i),
                             j->g->name[x->name]));
            return;
        }
        x->differs |= x->content != y->content;
        a++;
        b++;
    }
}

/* ---- what differs */

/* Counts of what differs, below the limit. */
struct counts {
    const struct row *first; /* NULL: nothing does */
    size_t weights;
    uint64_t steps, differing;
};

static struct counts count(const struct judged *j, bool *name_differs)
{
    struct counts k = {0};
    uint32_t counted = UINT32_MAX, differing = UINT32_MAX;
    for (size_t i = 0; i < j->own.n && j->own.row[i].step < j->limit; i++) {
        const struct row *x = &j->own.row[i];
        const bool of_step = x->phase == TWIN_PHASE_OPTIMIZER && x->step < j->steps;
        k.steps += of_step && counted != x->step;
        counted = of_step ? x->step : counted;
        if (!x->differs)
            continue;
        k.differing += of_step && differing != x->step;
        differing = of_step ? x->step : differing;
        k.weights += !name_differs[x->name];
        name_differs[x->name] = true;
        /* the one that was recorded first, of those of the same step */
        if (!k.first ||
            (x->step == k.first->step && x->phase == k.first->phase && x->seq < k.first->seq))
            k.first = x;
    }
    return k;
}

/* What one rank has in the place of a record. */
struct place {
    struct tw_proc *p;
    const struct row *row;
    size_t nth; /* among the records of its key in that step, from 0 */
    size_t seen;
    uint64_t content;
};

static bool is_key(void *user, uint32_t id, const struct twin_series *s)
{
    const struct place *x = user;
    return s->phase == x->row->phase && s->kind == TWIN_KIND_WEIGHT &&
           tw_proc_key(x->p, id) == x->row->key;
}

static int take_content(void *user, const struct twin_trace_record *r)
{
    struct place *x = user;
    if (r->step != x->row->step)
        return r->step > x->row->step;
    if (x->seen++ == x->nth)
        x->content = tw_record_content(x->p, r);
    return 0;
}

/* Adds "0, 1, 2", at most so many. */
static void say_ranks(struct tw_buf *b, const struct tw_replica *g, const bool *only)
{
    size_t said = 0;
    for (size_t i = 0; i < g->members; i++) {
        if (only && !only[i])
            continue;
        if (said == TW_REPLICA_NAMED) {
            tw_buf_puts(b, ", ...");
            return;
        }
        tw_buf_printf(b, "%s%d", said++ ? ", " : "", g->member[i].rank);
    }
}

/* Where more than half of at least three ranks agree: which do not. */
static void say_odd(struct judged *j, const struct row *first, struct tw_buf *b)
{
    const size_t n = j->g->members;
    uint64_t *content = tw_calloc(n, sizeof *content);
    bool *odd = tw_calloc(n, sizeof *odd);
    size_t nth = 0;
    for (const struct row *x = first; x > j->own.row && alike(x - 1, first); x--)
        nth++;
    for (size_t i = 0; content && odd && i < n; i++) {
        struct place at = {.p = j->g->member[i].proc, .row = first, .nth = nth};
        twin_trace_walk_some(at.p->trace, is_key, take_content, NULL, &at, NULL);
        twin_trace_rest(at.p->trace);
        content[i] = at.content;
    }
    j->c->oom |= !content || !odd;
    for (size_t i = 0; content && odd && n > 2 && i < n; i++) {
        size_t agree = 0;
        for (size_t k = 0; k < n; k++)
            agree += content[k] == content[i];
        if (2 * agree <= n)
            continue;
        for (size_t k = 0; k < n; k++)
            odd[k] = content[k] != content[i];
        tw_buf_printf(b, ", where rank%s ", tw_plural_s(n - agree));
        say_ranks(b, j->g, odd);
        tw_buf_printf(b, " differ%s from the other %zu, which agree", n - agree == 1 ? "s" : "",
                      agree);
        break;
    }
    tw_free(content);
    tw_free(odd);
}

/* ---- words */

/* Who says that they should: "DistributedDataParallel", or of "DTensor/dp" the dimension of the
 * mesh over which the job's placements replicate. */
static char *keeper_text(const struct judged *j)
{
    static const char dtensor[] = "DTensor/";
    if (!tw_starts(j->g->keeper, dtensor))
        return tw_cmp_text(j->c, "%s", j->g->keeper);
    const char *over = j->g->keeper + sizeof dtensor - 1;
    return tw_cmp_text(j->c, "DTensor, replicated over mesh dimension%s %s",
                       strchr(over, '+') ? "s" : "", over);
}

static void say_drift(struct judged *j, const struct counts *k, struct tw_texts *out)
{
    struct tw_buf ranks = {0}, odd = {0}, when = {0};
    const struct row *x = k->first;
    char *keeper = keeper_text(j);
    say_ranks(&ranks, j->g, NULL);
    say_odd(j, x, &odd);
    if (x->phase == TWIN_PHASE_INIT)
        tw_buf_puts(&when, "at the start");
    else if (x->step >= j->steps)
        tw_buf_puts(&when, "at the end");
    else
        tw_buf_printf(&when, "after step %u", x->step);
    tw_texts_add(
        j->c, out,
        tw_cmp_text(j->c,
                    "ranks %s should hold equal weights (%s) and do not: %.200s is first "
                    "seen to differ %s%s; %zu of %zu weights differ, in %llu of %llu steps",
                    tw_text_or(ranks.data, ""), tw_text_or(keeper, ""), j->g->name[x->name],
                    tw_text_or(when.data, ""), tw_text_or(odd.data, ""), k->weights, j->g->names,
                    (unsigned long long)k->differing, (unsigned long long)k->steps));
    tw_buf_free(&ranks);
    tw_buf_free(&odd);
    tw_buf_free(&when);
    tw_free(keeper);
}

static void say_unknown(struct judged *j, struct tw_texts *out)
{
    struct tw_buf ranks = {0}, from = {0};
    char *keeper = keeper_text(j);
    say_ranks(&ranks, j->g, NULL);
    if (j->limit > j->g->from)
        tw_buf_printf(&from, " from step %u on", j->limit);
    tw_texts_add(j->c, out,
                 tw_cmp_text(j->c, "whether ranks %s hold equal weights (%s) is not known%s: %s",
                             tw_text_or(ranks.data, ""), tw_text_or(keeper, ""),
                             tw_text_or(from.data, ""), j->why));
    tw_buf_free(&ranks);
    tw_buf_free(&from);
    tw_free(keeper);
}

static void say_equal(struct judged *j, const struct counts *k, struct tw_texts *out)
{
    struct tw_buf ranks = {0};
    char *keeper = keeper_text(j);
    say_ranks(&ranks, j->g, NULL);
    tw_texts_add(j->c, out,
                 tw_cmp_text(j->c, "ranks %s hold equal weights (%s): %zu of them, in %llu steps",
                             tw_text_or(ranks.data, ""), tw_text_or(keeper, ""), j->g->names,
                             (unsigned long long)k->steps));
    tw_buf_free(&ranks);
    tw_free(keeper);
}

/* ---- a group, and all of a run */

static void judge(struct tw_cmp *c, struct tw_replica *g, bool equal_too, struct tw_texts *out)
{
    struct judged j = {.c = c, .g = g};
    bool *names = tw_calloc(g->names, sizeof *names);
    c->oom |= !names;
    find_end(&j);
    for (size_t i = 0; i < g->members; i++)
        look_at_member(&j, i);
    if (j.limit > g->from && names) {
        load(&j, 0, &j.own);
        for (size_t i = 1; i < g->members && !c->oom; i++) {
            struct rows other;
            load(&j, i, &other);
            hold_against(&j, i, &other);
            tw_free(other.row);
        }
    }
    if (names && !c->oom) {
        const struct counts k = count(&j, names);
        if (k.first)
            say_drift(&j, &k, out);
        if (j.why)
            say_unknown(&j, out);
        if (equal_too && !k.first && k.steps)
            say_equal(&j, &k, out);
    }
    tw_free(j.own.row);
    tw_free(j.why);
    tw_free(names);
}

void tw_replicas_told(struct tw_cmp *c, struct tw_side *side, bool equal_too, struct tw_texts *out)
{
    struct tw_replica *g = NULL;
    size_t n = 0;
    tw_replicas_noted(c, side, &g, &n);
    for (size_t i = 0; i < n && !c->oom; i++)
        judge(c, &g[i], equal_too, out);
    tw_replicas_free(g, n);
}

void tw_replicas(struct tw_cmp *c, struct tw_side *side)
{
    struct tw_texts found = {0};
    tw_replicas_told(c, side, false, &found);
    for (size_t i = 0; i < found.n; i++)
        tw_cmp_note(c, "run %zu: %s", side->index + 1, found.s[i]);
    tw_texts_free(&found);
}
