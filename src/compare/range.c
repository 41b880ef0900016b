/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says what of each process was compared, and holds it against what was asked for. pair.c calls
 * tw_ranges_account() behind the scans of two runs, and tw_ranges_make() for the list that the
 * verdict shows.
 *
 * Two runs of one command are asked for as a whole: all steps of all processes of both. A resumed
 * arm is asked for from the step where it goes on to the end of the shorter arm. Whatever is short
 * of that is named, so that nobody reads "same" where nothing, or too little, was compared. Nothing
 * is compared here, except that replicas of rank 0 are held against rank 0 where arms have other
 * numbers of ranks.
 */
#include "arms.h"
#include "internal.h"
#include "scan.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long ull;

/*
 * What the functions of one call of tw_ranges_account() share. differs: the runs are known to
 * differ, so that gaps become notes and not reasons.
 */
struct account {
    struct tw_cmp *c;
    const struct tw_side *a, *b;
    const struct tw_scan *scans;
    size_t count;
    bool differs;
};

/*
 * Says that something was not compared. Takes text (NULL: nothing is said). Where the runs differ
 * anyway this is no reason for the verdict, but worth a note.
 */
static void say_missing(struct account *x, char *text)
{
    if (!text)
        return;
    if (x->differs)
        tw_cmp_note(x->c, "%s", text);
    else
        tw_cmp_unseen(x->c, "%s", text);
    tw_free(text);
}

/* Writes "rank 1", "rank 0 (child 2)" or "rank 0, process 2" to out and returns it. */
static const char *who(const struct tw_proc *p, char out[96])
{
    const char *role = tw_proc_role(p);
    int n = snprintf(out, 96, "rank %d", p->rank);
    if (strcmp(role, "main") != 0)
        n += snprintf(out + n, 96 - (size_t)n, " (%.60s)", role);
    if (p->ordinal > 0)
        snprintf(out + n, 96 - (size_t)n, ", process %zu", p->ordinal + 1);
    return out;
}

/* Did the user ask for no more steps than this process made? Then that it ends there is no gap. */
static bool cut_by_user(const struct tw_side *s, const struct tw_proc *p)
{
    return s->run->outcome == TWIN_RUN_STOPPED && s->run->max_steps > 0 &&
           p->info->steps >= s->run->max_steps;
}

/*
 * Steps in a's count: where the comparison begins, and where each process ends. A limit of steps
 * that the user gave is applied.
 */
struct span {
    int64_t from, end_a, end_b;
};

static struct span span_of(const struct tw_cmp *c, const struct tw_pair *p)
{
    const int64_t limit = c->o->steps_given ? (int64_t)c->o->steps : INT64_MAX;
    struct span s = {.from = p->shift < 0 ? -p->shift : 0, .end_a = (int64_t)p->a->info->steps};
    s.end_b = (int64_t)p->b->info->steps - p->shift;
    s.end_a = s.end_a < limit ? s.end_a : limit;
    s.end_b = s.end_b < limit ? s.end_b : limit;
    return s;
}

/* The reason why no step of this pair was compared; the caller owns the text. NULL: no memory. */
static char *nothing_compared(struct account *x, const struct tw_pair *p, const struct span *s)
{
    struct tw_cmp *c = x->c;
    char name[96];
    const ull steps_a = p->a->info->steps, steps_b = p->b->info->steps;
    who(p->b, name);
    if (steps_a == 0 || steps_b == 0)
        return tw_cmp_text(c, "%s: no step was compared: %s made %llu, %s %llu", name, c->label_a,
                           steps_a, c->label_b, steps_b);
    if (s->from >= (int64_t)steps_a)
        return tw_cmp_text(
            c, "%s: no step was compared: %s goes on at step %lld, and %s ends after %llu", name,
            c->label_b, (long long)s->from, c->label_a, steps_a);
    return tw_cmp_text(
        c, "%s: no step was compared: %s goes on at step %lld, and the first %lld were asked for",
        name, c->label_b, (long long)s->from,
        (long long)(s->end_a < s->end_b ? s->end_a : s->end_b));
}

/*
 * Says which steps of a pair were asked for and not compared. Pairs without steps, and threads
 * whose records were compared as streams, have none.
 */
static void account_pair(struct account *x, const struct tw_scan *scan)
{
    struct tw_cmp *c = x->c;
    const struct tw_pair *p = scan->pair;
    const struct span s = span_of(c, p);
    const int64_t end = s.end_a < s.end_b ? s.end_a : s.end_b;
    char name[96];
    if (!tw_pair_steps(p) || scan->recut)
        return;
    if (end <= s.from) {
        say_missing(x, nothing_compared(x, p, &s));
        return;
    }
    /*
     * Ends that differ are no gap where b goes on inside of a, where the user cut the shorter one,
     * or where another process of b goes on.
     */
    if (s.end_a == s.end_b || p->resumed)
        return;
    if (s.end_a < s.end_b ? cut_by_user(x->a, p->a) : cut_by_user(x->b, p->b) || p->continued)
        return;
    if (x->differs) {
        say_missing(x, tw_cmp_text(c, "rank %d: only the %lld steps both have were compared",
                                   p->a->rank, (long long)(end - s.from)));
        return;
    }
    say_missing(
        x,
        tw_cmp_text(c, "%s: %s has %llu steps and %s %llu: from step %lld on nothing was compared",
                    who(p->a, name), c->label_a, (ull)s.end_a, c->label_b,
                    (ull)(s.end_b + p->shift), (long long)end));
}

/*
 * Where two processes were compared from beginning to end and nothing was left out, both must have
 * recorded equally often. That follows from the hashes; it is checked all the same, because "same"
 * hangs on it.
 */
static void account_records(struct account *x, const struct tw_scan *s)
{
    const struct twin_trace_info *a = s->pair->a->info, *b = s->pair->b->info;
    const bool stopped = tw_side_stopped(x->a) || tw_side_stopped(x->b) || a->steps != b->steps;
    const bool given_up = tw_proc_given_up(x->a, s->pair->a) || tw_proc_given_up(x->b, s->pair->b);
    const bool left_out = x->c->o->arms || stopped || x->c->o->steps_given ||
                          x->c->o->ignore_count > 0 || s->elsewhere > 0 || given_up;
    char name[96];
    if (x->differs || s->found || left_out || !a->closed || !b->closed || a->records == b->records)
        return;
    say_missing(
        x,
        tw_cmp_text(
            x->c, "%s: %llu records in %s and %llu in %s, and no difference was found between them",
            who(s->pair->a, name), (ull)a->records, x->c->label_a, (ull)b->records, x->c->label_b));
}

/* How many loader workers of this rank recorded anything? */
static size_t loader_workers(const struct tw_side *s, int32_t rank)
{
    size_t n = 0;
    for (size_t i = 0; i < s->count; i++)
        n += s->proc[i].rank == rank && tw_proc_is_loader(&s->proc[i]);
    return n;
}

/*
 * Names the processes of `side` that have no counterpart. A process that recorded no more than
 * states of generators is only noted.
 */
static void account_alone(struct account *x, const struct tw_side *side,
                          const struct tw_side *other, const char *label)
{
    for (size_t i = 0; i < side->count; i++) {
        struct tw_proc *p = &side->proc[i];
        char name[96];
        /* Other workers divide the same batches otherwise: what they made is compared where the
         * trainer got it. */
        if (p->taken || (tw_proc_is_loader(p) &&
                         loader_workers(side, p->rank) != loader_workers(other, p->rank)))
            continue;
        who(p, name);
        if (p->info->steps > 0)
            say_missing(
                x, tw_cmp_text(x->c,
                               "%s recorded only in %s: its %llu steps were compared with nothing",
                               name, label, (ull)p->info->steps));
        else if (tw_proc_computes(p))
            say_missing(x, tw_cmp_text(x->c, "%s recorded only in %s: it was compared with nothing",
                                       name, label));
        else
            tw_cmp_note(x->c, "%s recorded only in %s, and no more than states of generators", name,
                        label);
    }
}

/* ---- threads: roles of records within a process */

/*
 * Roles of one process that are looked at; of a process with more nothing is said about single
 * ones.
 */
#define THREADS_MAX 1024u

/*
 * The roles that name a process's threads in its records. id: a hash of the role's text, which
 * means the same in every trace; name: its number in this trace.
 */
struct roles {
    struct tw_proc *p;
    uint64_t id[THREADS_MAX];
    uint32_t name[THREADS_MAX];
    size_t n;
    bool too_many;
};

/* For twin_trace_walk_some: what take_role() looks at. */
static bool has_role(void *user, uint32_t id, const struct twin_series *s)
{
    (void)user, (void)id;
    return s->role != 0 && s->kind != TWIN_KIND_STATE;
}

/*
 * Callback of twin_trace_walk: adds the role of a record. States of generators do not count. Ends
 * the walk with 1 when there are too many roles.
 */
static int take_role(void *user, const struct twin_trace_record *r)
{
    struct roles *t = user;
    const struct twin_series *s = twin_trace_series(t->p->trace, r->series);
    assert(t->n <= THREADS_MAX);
    if (s->role == 0 || s->kind == TWIN_KIND_STATE)
        return 0;
    for (size_t i = 0; i < t->n; i++)
        if (t->name[i] == s->role)
            return 0;
    if (t->n == THREADS_MAX) {
        t->too_many = true;
        return 1;
    }
    t->id[t->n] = tw_key_hash(0, 0, twin_trace_string(t->p->trace, s->role), "", "");
    t->name[t->n++] = s->role;
    return 0;
}

/* The roles of a process; NULL: no memory. The caller frees it. */
static struct roles *roles_of(struct tw_cmp *c, struct tw_proc *p)
{
    struct roles *t = tw_calloc(1, sizeof *t);
    c->oom |= !t;
    if (t) {
        t->p = p;
        if (twin_trace_walk_some(p->trace, has_role, take_role, NULL, t, NULL) == TWIN_ENOMEM)
            c->oom = true;
        twin_trace_rest(p->trace);
    }
    return t;
}

/* Names the roles of t that `other` has not. */
static void only_in(struct account *x, const struct roles *t, const struct roles *other,
                    const char *label)
{
    char name[96];
    for (size_t i = 0; i < t->n; i++) {
        bool both = false;
        for (size_t k = 0; k < other->n && !both; k++)
            both = t->id[i] == other->id[k];
        if (!both)
            say_missing(x, tw_cmp_text(x->c, "%s: %.80s recorded only in %s", who(t->p, name),
                                       twin_trace_string(t->p->trace, t->name[i]), label));
    }
}

/*
 * Names the threads that one arm alone has. Arms may do more in between, but such a thread was
 * compared with nothing.
 */
static void account_threads(struct account *x, const struct tw_pair *p)
{
    struct roles *a = roles_of(x->c, p->a), *b = roles_of(x->c, p->b);
    if (a && b && (a->too_many || b->too_many))
        say_missing(x, tw_cmp_text(x->c,
                                   "rank %d: which threads both have, for there are more than %u",
                                   p->a->rank, THREADS_MAX));
    else if (a && b) {
        only_in(x, a, b, x->c->label_a);
        only_in(x, b, a, x->c->label_b);
    }
    tw_free(a);
    tw_free(b);
}

static bool has_rank(const struct tw_side *s, int32_t rank)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->proc[i].rank == rank)
            return true;
    return false;
}

/* Names ranks of `world` of which neither side (b may be NULL) has a record, the first 8 of them.
 */
static void name_silent_ranks(struct account *x, const struct tw_side *a, const struct tw_side *b,
                              int32_t world, const char *where)
{
    struct tw_buf list = {0};
    size_t silent = 0;
    for (int32_t r = 0; r < world; r++) {
        if (has_rank(a, r) || (b && has_rank(b, r)))
            continue;
        if (silent < 8)
            tw_buf_printf(&list, "%s%d", silent ? ", " : "", r);
        silent++;
    }
    if (silent)
        say_missing(x, tw_cmp_text(x->c, "rank%s %s%s of %d recorded nothing%s",
                                   silent > 1 ? "s" : "", list.data ? list.data : "",
                                   silent > 8 ? ", ..." : "", world, where));
    tw_buf_free(&list);
}

/* Ranks that the job says it has and of which nobody has a record. Of arms with other numbers of
 * ranks the ranks of one do not stand for those of the other. */
static void account_silent_ranks(struct account *x)
{
    char where[40];
    if (!x->b) {
        name_silent_ranks(x, x->a, NULL, x->a->world, "");
    } else if (!x->c->o->arms || x->a->world == x->b->world) {
        const int32_t world = x->b->world > x->a->world ? x->b->world : x->a->world;
        name_silent_ranks(x, x->a, x->b, world, " in either run");
    } else {
        snprintf(where, sizeof where, " in %s", x->c->label_a);
        name_silent_ranks(x, x->a, NULL, x->a->world, where);
        snprintf(where, sizeof where, " in %s", x->c->label_b);
        name_silent_ranks(x, x->b, NULL, x->b->world, where);
    }
}

/* ---- arms of different world size: rank 0 of each stands for the others */

/*
 * Does this process hold at every step the weights that rank 0 of its own run holds? Then rank 0,
 * which was compared, stands for it, and NULL is returned; else what is wrong. Parts of tensors
 * that are cut over ranks were put together, or a reason was given.
 */
static const char *why_not_the_same(struct tw_cmp *c, const struct tw_side *side,
                                    struct tw_proc *zero, struct tw_proc *p)
{
    static const char other[] = "does not hold rank 0's weights: it was compared with nothing";
    const struct tw_pair pair = {.a = zero, .b = p};
    struct tw_scan scan = {0};
    size_t weights = 0;
    if (!zero)
        return other;
    c->quick = true; /* what this shows is no part of the comparison */
    int rc = tw_weights_only(c, &pair, NULL, NULL, 0, &scan, NULL);
    c->quick = false;
    twin_trace_rest(p->trace);
    for (size_t i = 0; i < scan.shares; i++)
        weights += scan.shared[i].records;
    const bool parts = tw_has_shards(p);
    const bool same = rc == 0 && !scan.found &&
                      (zero->info->steps == p->info->steps || tw_proc_given_up(side, p));
    const bool lost = scan.undecided > 0;
    tw_scan_free(&scan);
    if (!same || (weights == 0 && !(parts && tw_has_shards(zero))))
        return other;
    if (parts && !tw_adds_to(p, zero))
        return "holds parts of tensors, which were compared with nothing: it is another process "
               "than rank 0's";
    if (lost)
        return "has lost records, or rank 0 has: whether both hold the same weights is not known";
    return NULL;
}

static bool was_compared(const struct account *x, const struct tw_proc *p)
{
    for (size_t i = 0; i < x->count; i++)
        if (x->scans[i].pair->a == p || x->scans[i].pair->b == p)
            return true;
    return false;
}

static bool makes_steps(const struct tw_proc *p)
{
    return p->info->steps > 0 && !tw_proc_is_loader(p);
}

/* The process of rank 0 that was compared in the attempt of p; where none was, the first of them;
 * NULL: it has none. */
static struct tw_proc *rank_zero(const struct account *x, const struct tw_side *side,
                                 const struct tw_proc *p)
{
    struct tw_proc *zero = NULL;
    for (size_t i = 0; i < side->count; i++) {
        struct tw_proc *q = &side->proc[i];
        if (q->rank != 0 || q->attempt != p->attempt || !makes_steps(q))
            continue;
        if (was_compared(x, q))
            return q;
        zero = zero ? zero : q;
    }
    return zero;
}

/*
 * Names the processes with steps that rank 0 does not stand for. Not done in a quick look, and not
 * where the runs differ anyway, because it reads all weights of every rank.
 */
static void account_replicas(struct account *x, const struct tw_side *side)
{
    const bool quick = x->c->quick;
    char name[96];
    for (size_t i = 0; i < side->count && !quick && !x->differs; i++) {
        struct tw_proc *p = &side->proc[i];
        if (!makes_steps(p))
            continue;
        struct tw_proc *zero = rank_zero(x, side, p);
        const char *why = NULL;
        if (p != zero)
            why = why_not_the_same(x->c, side, zero, p);
        else if (!was_compared(x, p))
            why = "was compared with nothing";
        if (why)
            say_missing(x, tw_cmp_text(x->c, "run %zu: %s %s", side->index + 1, who(p, name), why));
    }
}

void tw_account_side(struct tw_cmp *c, const struct tw_side *side, const struct tw_side *other,
                     bool differs)
{
    struct account x = {.c = c, .a = side, .b = other, .differs = differs};
    if (side->count > 0)
        account_silent_ranks(&x);
}

void tw_ranges_account(struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b,
                       const struct tw_scan *scans, size_t count, bool differs)
{
    struct account x = {c, a, b, scans, count, differs};
    const bool alone = tw_weights_alone(c, a, b);
    for (size_t i = 0; i < count; i++) {
        account_pair(&x, &scans[i]);
        account_records(&x, &scans[i]);
        if (c->o->arms && !differs && !tw_proc_is_loader(scans[i].pair->a))
            account_threads(&x, scans[i].pair);
    }
    tw_account_side(c, a, b, differs);
    if (alone) {
        account_replicas(&x, a);
        account_replicas(&x, b);
        return;
    }
    account_alone(&x, a, b, c->label_a);
    account_alone(&x, b, a, c->label_b);
}

/* ---- the ranges, as the verdict shows them */

/* Order of ranges: rank, role, number of the process in the other run. */
static int by_rank(const void *x, const void *y)
{
    const struct twin_range *a = x, *b = y;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    int role = strcmp(a->process, b->process);
    if (role)
        return role;
    return a->number_b < b->number_b ? -1 : a->number_b > b->number_b;
}

/*
 * *out is malloc'ed (tw_ranges_free()). Auxiliary processes without steps are left out. Returns 0
 * or TWIN_ENOMEM, then with an empty list.
 */
int tw_ranges_make(struct tw_cmp *c, const struct tw_scan *scans, size_t count,
                   struct twin_range **out, size_t *n)
{
    *n = 0;
    *out = tw_calloc(count ? count : 1, sizeof **out);
    if (!*out)
        return TWIN_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        const struct tw_scan *s = &scans[i];
        const struct tw_pair *p = s->pair;
        const struct span at = span_of(c, p);
        struct twin_range *r = &(*out)[*n];
        if (p->auxiliary && !tw_pair_steps(p))
            continue;
        *r = (struct twin_range){
            .rank = p->a->rank,
            .process = tw_cmp_copy(c, tw_proc_role(p->a)),
            .number_a = p->a->ordinal + 1,
            .number_b = p->b->ordinal + 1,
            .first = (uint64_t)at.from,
            .end = s->end > (uint64_t)at.from ? s->end : (uint64_t)at.from,
            .of = p->a->info->steps,
            .first_b = (uint64_t)(at.from + p->shift),
            .of_b = p->b->info->steps,
            .records = s->records,
            .of_records = p->a->info->records,
            .weights_only = s->weights_only,
            .gradients = s->gradients && s->of_gradients.n == s->looked,
            .moments = s->moments && s->of_moments.n == s->looked,
        };
        /* Whole means: from step 0 of both to the end of both. */
        r->whole = !s->weights_only && r->first == 0 && r->first_b == 0 && r->end == r->of &&
                   r->end == r->of_b;
        if (!r->process) {
            tw_ranges_free(*out, *n);
            *out = NULL;
            *n = 0;
            return TWIN_ENOMEM;
        }
        ++*n;
    }
    if (*n)
        qsort(*out, *n, sizeof **out, by_rank);
    return 0;
}
