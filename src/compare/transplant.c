/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges runs whose steps were made to start as a recorded run's did (twin_compare_transplant()).
 * The agent sets recorded values (batches, generator states, or all that a step starts from) into a
 * run at the start of each step; here each step is judged on its own, so that one divergence does
 * not hide the next. The result is a list of origins with the rate of steps that show them, with a
 * Clopper-Pearson interval.
 *
 * What was replaced is cut off: it may differ as recorded, before it is replaced, and then is an
 * origin itself, but nothing behind it can come from there. A step whose start could not be made
 * equal is not judged for what depends on it. docs/internals/transplant.md says more.
 */
#include "evidence.h"
#include "internal.h"
#include "scan.h"

#include "src/stats/stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Steps of a window: each takes a few bytes per comparison. More are not judged. */
#define STEPS_MAX 16384u
/*
 * Different origins of all runs together, and generators of one process that are told apart; more
 * are left out.
 */
#define ORIGINS_MAX 256u
#define GENERATORS_MAX 16u
/* Of the intervals of the rates. */
#define CONFIDENCE 0.95

/*
 * What an origin is of. It decides which steps can show it: weights that differ already say nothing
 * about batches.
 */
enum part { OF_DATA, OF_GENERATORS, OF_COMPUTING, PARTS };

/*
 * One sight of an origin: in a step, by a rank, at a place in the flow of the step (cls, see
 * tw_cause_class()). cut: it is of a value that was replaced behind it.
 */
struct hit {
    uint32_t step;
    size_t origin;
    int32_t rank;
    int cls;
    bool cut;
};

/*
 * Everything that one call of twin_compare_transplant() works on. unjudged has for each step of the
 * window one bit per part that cannot be judged there, and bit PARTS when the step was left out.
 */
struct judge {
    struct tw_cmp *c;
    const struct twin_transplant_options *o;
    struct twin_transplant *t;
    size_t origin_room;
    enum part part[ORIGINS_MAX];
    uint32_t steps;          /* of the window that this comparison has */
    unsigned char *unjudged; /* per step: bit per part */
    struct hit *hit;
    size_t hits, hit_room;
    struct tw_seen *see; /* in the run at hand */
    size_t seen, see_room;
    bool uncut;             /* something differed that was not replaced */
    uint64_t judged[PARTS]; /* steps, over all comparisons */
};

/*
 * One process of a transplanted run beside its counterpart, and what of it differs already when a
 * step starts: the model (weights or optimizer state), or generators by name. 63 bytes of a name
 * are kept.
 */
struct start {
    const struct tw_pair *pair;
    uint32_t ended; /* from this step on nothing was transplanted */
    bool model;
    char generator[GENERATORS_MAX][64];
    size_t generators;
};

/* ---- what the agent said */

/*
 * Looks for a note of this name. value NULL: is there one of that step? Else *value gets the number
 * of the first one.
 */
static bool note_step(struct twin_trace *t, const char *name, uint32_t step, uint32_t *value)
{
    const char *key, *text;
    for (size_t i = 0; twin_trace_note(t, i, &key, &text); i++) {
        unsigned number;
        if (strcmp(key, name) != 0 || sscanf(text, "%u", &number) != 1)
            continue;
        if (value)
            *value = number;
        if (value || number == step)
            return true;
    }
    return false;
}

/* Was this step given recorded values? The agent notes the steps that it had to leave out. */
static bool transplanted(const struct judge *j, const struct start *s, uint32_t step)
{
    return step >= j->o->first && step <= j->o->last && step < s->ended &&
           !note_step(s->pair->b->trace, "transplant.left_out", step, NULL);
}

/* ---- the records of a step */

/* Is it what a loader delivers: indices, or a batch? */
static bool delivered(const struct tw_rec *r, const struct tw_view *v)
{
    return r->phase == TWIN_PHASE_DATA &&
           (r->kind == TWIN_KIND_INDICES ||
            (r->kind == TWIN_KIND_BATCH && tw_starts(tw_rec_name(v, r), "batch")));
}

/* Is it the state of a generator as the step found it? */
static bool first_state(const struct tw_rec *r)
{
    return r->phase == TWIN_PHASE_INIT && r->kind == TWIN_KIND_STATE;
}

/* What a difference of this record tells about. */
static enum part part_of(const struct tw_rec *r, const struct tw_view *v)
{
    if (delivered(r, v))
        return OF_DATA;
    return r->kind == TWIN_KIND_STATE ? OF_GENERATORS : OF_COMPUTING;
}

/*
 * Is this record's value one that was replaced right behind it? Batches are with kinds data and
 * step, first states with kinds rng and step.
 */
static bool is_cut(const struct judge *j, bool replaced, const struct tw_rec *r,
                   const struct tw_view *v)
{
    bool data = j->o->kind != TWIN_TRANSPLANT_RNG && delivered(r, v);
    bool state = j->o->kind != TWIN_TRANSPLANT_DATA && first_state(r);
    return replaced && (data || state);
}

/* Did this generator differ already when the step started? */
static bool known_generator(const struct start *s, const char *name)
{
    for (size_t i = 0; i < s->generators; i++)
        if (strncmp(s->generator[i], name, sizeof s->generator[i] - 1) == 0)
            return true;
    return false;
}

/* ---- origins */

/* Are the two findings sights of one origin: same place in the job, whatever the step and rank? */
static bool same_origin(const struct twin_finding *x, const struct twin_finding *y)
{
    return x->phase == y->phase && x->kind == y->kind && strcmp(x->layer, y->layer) == 0 &&
           strcmp(x->name, y->name) == 0 && strcmp(x->scope, y->scope) == 0 &&
           strcmp(x->op, y->op) == 0 && strcmp(x->site, y->site) == 0;
}

/*
 * The index of the origin that f is one more sight of, made when it is new; takes f. TW_NONE: no
 * room, or no memory.
 */
static size_t origin_of(struct judge *j, struct twin_finding *f, enum part part)
{
    struct twin_transplant *t = j->t;
    for (size_t i = 0; i < t->origin_count; i++)
        if (same_origin(t->origin[i].finding, f)) {
            tw_finding_free(f);
            return i;
        }
    if (t->origin_count == ORIGINS_MAX ||
        !tw_cmp_room(j->c, &t->origin, t->origin_count, &j->origin_room, sizeof *t->origin)) {
        tw_finding_free(f);
        return TW_NONE;
    }
    j->part[t->origin_count] = part;
    t->origin[t->origin_count] = (struct twin_origin){.finding = f};
    return t->origin_count++;
}

/* Does the view hold a record of this kind? */
static bool has_kind(const struct tw_view *v, enum twin_kind kind)
{
    for (size_t i = 0; i < v->count; i++)
        if (v->rec[i].kind == kind)
            return true;
    return false;
}

/*
 * Notes one difference as a sight of an origin. cut: see struct hit. others: how many differences
 * of its phase and kind this one stands for.
 */
static void take_sight(struct judge *j, const struct tw_diff *d, bool cut, size_t others,
                       const struct tw_view *a, const struct tw_view *b, uint32_t step)
{
    const struct tw_view *v;
    const struct tw_rec *r = tw_diff_rec(d, a, b, &v);
    struct twin_finding *f = tw_finding_from(j->c, d, a, b);
    if (!f)
        return;
    f->role = TWIN_ORIGIN;
    if (others)
        tw_finding_set(j->c, &f->text, tw_cmp_text(j->c, "with %zu more of its kind", others));
    /* which agree, or they would be named */
    if (r->kind == TWIN_KIND_GRADIENT && !tw_is_written(r->phase, r->kind) &&
        has_kind(a, TWIN_KIND_GRADIENT_LOCAL))
        tw_finding_set(j->c, &f->layer, tw_cmp_copy(j->c, "collective"));
    size_t origin = origin_of(j, f, part_of(r, v));
    if (origin != TW_NONE && tw_cmp_room(j->c, &j->hit, j->hits, &j->hit_room, sizeof *j->hit))
        j->hit[j->hits++] = (struct hit){step, origin, v->proc->rank,
                                         tw_cause_class(r->phase, r->kind), cut};
}

/*
 * Are the two differences of one phase and kind (of generators: of one name)? Then the one that is
 * named stands for the other.
 */
static bool stands_for(const struct tw_diff *x, const struct tw_diff *y, const struct tw_view *a,
                       const struct tw_view *b)
{
    const struct tw_view *v, *w;
    const struct tw_rec *r = tw_diff_rec(x, a, b, &v), *q = tw_diff_rec(y, a, b, &w);
    return r->phase == q->phase && r->kind == q->kind &&
           (r->kind != TWIN_KIND_STATE || strcmp(tw_rec_name(v, r), tw_rec_name(w, q)) == 0);
}

/*
 * Fills out with those differences of a step that can depend on each other, and marks origins and
 * carriers among them anew. want_cut: the values that were replaced, with the states of generators
 * that they may come from; else what was not replaced. False: no memory; out->d is the caller's to
 * free.
 */
static bool subset(struct judge *j, const struct tw_stepdiff *d, bool want_cut, bool replaced,
                   const struct tw_view *a, const struct tw_view *b, struct tw_stepdiff *out)
{
    *out = (struct tw_stepdiff){.d = tw_calloc(d->count + 1, sizeof *out->d), .room = d->count + 1};
    j->c->oom |= !out->d;
    for (size_t i = 0; out->d && i < d->count; i++) {
        const struct tw_view *v;
        const struct tw_rec *r = tw_diff_rec(&d->d[i], a, b, &v);
        bool cut = is_cut(j, replaced, r, v);
        /* What a loader delivers may come from a generator; nothing else can be behind it. */
        if (tw_diff_significant(&d->d[i]) &&
            (cut == want_cut || (want_cut && r->kind == TWIN_KIND_STATE)))
            out->d[out->count++] = d->d[i];
    }
    if (out->d)
        tw_causes_mark(out, a, b);
    return out->d != NULL;
}

/*
 * Takes the origins among the cut, or the other, differences of a step. What differed already when
 * the step started is stale and left out, and of one kind only one is taken.
 */
static void take_origins(struct judge *j, const struct start *s, const struct tw_stepdiff *d,
                         bool cut, bool replaced, uint32_t step, const struct tw_view *a,
                         const struct tw_view *b)
{
    struct tw_stepdiff sub;
    if (!subset(j, d, cut, replaced, a, b, &sub))
        return;
    /* of gradients without an order the one nearest the loss, which is the last */
    size_t first = tw_causes_first(&sub, a, b);
    for (size_t i = 0; i < sub.count; i++) {
        const struct tw_view *v;
        const struct tw_rec *r = tw_diff_rec(&sub.d[i], a, b, &v);
        enum part part = part_of(r, v);
        bool stale = (part == OF_COMPUTING && s->model) ||
                     (part == OF_GENERATORS && !is_cut(j, replaced, r, v) &&
                      known_generator(s, tw_rec_name(v, r)));
        bool before = first != TW_NONE && first != i && stands_for(&sub.d[first], &sub.d[i], a, b);
        if (sub.d[i].carrier || stale || before || is_cut(j, replaced, r, v) != cut)
            continue;
        for (size_t k = 0; k < i && !before; k++)
            before = !sub.d[k].carrier && stands_for(&sub.d[k], &sub.d[i], a, b);
        size_t others = 0;
        for (size_t k = 0; k < sub.count; k++)
            others += k != i && !sub.d[k].carrier && r->kind != TWIN_KIND_STATE &&
                      stands_for(&sub.d[k], &sub.d[i], a, b);
        if (!before)
            take_sight(j, &sub.d[i], cut, others, a, b, step);
    }
    if (!cut)
        j->uncut |= sub.count > 0;
    tw_stepdiff_free(&sub);
}

/* ---- from step to step */

/*
 * Notes what differs at the end of a step, for the step behind it. A model that differed goes on to
 * differ unless this step recorded updated weights that are all equal.
 */
static void carry_on(struct start *s, const struct tw_stepdiff *d, const struct tw_view *a,
                     const struct tw_view *b)
{
    bool weights = false, seen = false;
    for (size_t i = 0; i < a->count; i++)
        seen |= a->rec[i].phase == TWIN_PHASE_OPTIMIZER && a->rec[i].kind == TWIN_KIND_WEIGHT;
    for (size_t i = 0; i < d->count; i++) {
        const struct tw_view *v;
        const struct tw_rec *r = tw_diff_rec(&d->d[i], a, b, &v);
        if (!tw_diff_significant(&d->d[i]))
            continue;
        weights |= r->kind == TWIN_KIND_WEIGHT || r->kind == TWIN_KIND_MOMENT ||
                   r->kind == TWIN_KIND_HYPER;
        if (r->kind == TWIN_KIND_STATE && !known_generator(s, tw_rec_name(v, r)) &&
            s->generators < GENERATORS_MAX)
            snprintf(s->generator[s->generators++], sizeof s->generator[0], "%s",
                     tw_rec_name(v, r));
    }
    s->model = weights || (s->model && !seen);
}

/* Marks parts of a step as not judged; steps outside of the window are passed over. */
static void unjudge(struct judge *j, uint32_t step, unsigned parts)
{
    if (step >= j->o->first && step - j->o->first < j->steps)
        j->unjudged[step - j->o->first] |= (unsigned char)parts;
}

/*
 * Judges one step whose hashes differ: takes its origins when it is inside of the window, and
 * carries on what differs at its end. Returns 0 or an error of loading.
 */
static int judge_step(struct judge *j, struct start *s, uint32_t step, struct twin_error *err)
{
    struct tw_scan scan = {.pair = s->pair};
    struct tw_view va, vb;
    struct tw_stepdiff d;
    bool replaced = transplanted(j, s, step);
    bool inside = step >= j->o->first && step - j->o->first < j->steps;
    int rc = tw_scan_step(j->c, &scan, step, &va, &vb, &d, err);
    if (rc != 0)
        return rc;
    /* The recorded values took the place of what differed before. */
    if (replaced && j->o->kind != TWIN_TRANSPLANT_DATA)
        s->generators = 0;
    if (replaced && j->o->kind == TWIN_TRANSPLANT_STEP)
        s->model = false;
    if (va.dropped + vb.dropped)
        unjudge(j, step, (1u << PARTS) - 1);
    unjudge(j, step,
            (s->model ? 1u << OF_COMPUTING : 0u) | (s->generators ? 1u << OF_GENERATORS : 0u));
    if (inside && !(va.dropped + vb.dropped) && (replaced || step < s->ended)) {
        take_origins(j, s, &d, true, replaced, step, &va, &vb);
        take_origins(j, s, &d, false, replaced, step, &va, &vb);
    }
    carry_on(s, &d, &va, &vb);
    tw_stepdiff_free(&d);
    tw_view_free(&va);
    tw_view_free(&vb);
    return 0;
}

/* Steps that both processes finished. */
static uint32_t common_steps(const struct tw_pair *p)
{
    uint64_t a = p->a->info->steps, b = p->b->info->steps, n = a < b ? a : b;
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/*
 * Judges one pair of processes: every step that differs, in order, from step 0 on, since what
 * happens before the window decides how its first step starts.
 */
static int judge_pair(struct judge *j, const struct tw_pair *p, struct twin_error *err)
{
    struct start s = {.pair = p, .ended = UINT32_MAX};
    uint32_t from = 0, limit = j->o->first + j->steps;
    note_step(p->b->trace, "transplant.ended", 0, &s.ended);
    for (uint32_t step = j->o->first; step < limit; step++)
        if (step >= s.ended ||
            ((step || j->o->kind == TWIN_TRANSPLANT_DATA) && !transplanted(j, &s, step)))
            unjudge(j, step, 1u << PARTS | ((1u << PARTS) - 1));
    while (from < limit) {
        bool found = false;
        uint32_t step = 0;
        uint64_t compared;
        int rc = twin_trace_first_difference(p->a->trace, p->b->trace, 0, from, limit, &found,
                                             &step, &compared, err);
        if (rc != 0)
            return rc;
        if (!found)
            break;
        if (step > from) { /* the steps between agree in everything, so they end equal */
            s.model = false;
            s.generators = 0;
        }
        rc = judge_step(j, &s, step, err);
        if (rc != 0)
            return rc;
        from = step + 1;
    }
    return 0;
}

/* ---- one transplanted run */

/* Order of hits: by step, then by origin, so that equal ones stand side by side. */
static int by_step(const void *x, const void *y)
{
    const struct hit *a = x, *b = y;
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    return (a->origin > b->origin) - (a->origin < b->origin);
}

/*
 * May another rank's message be the cause of this hit? Of what a step computes from the first
 * collective on, only the earliest place counts. `group`: all n hits of the step.
 */
static bool from_another_rank(const struct hit *h, const struct hit *group, size_t n)
{
    int exchange = tw_cause_class(TWIN_PHASE_COLLECTIVE, TWIN_KIND_NONE);
    for (size_t i = 0; i < n; i++)
        if (group[i].rank != h->rank && !group[i].cut && group[i].cls < h->cls &&
            h->cls >= exchange)
            return true;
    return false;
}

/*
 * Counts the hits of one run into the rates of their origins, each step once, and empties the list.
 */
static void count_hits(struct judge *j)
{
    bool seen[ORIGINS_MAX] = {false};
    if (j->hits)
        qsort(j->hit, j->hits, sizeof *j->hit, by_step);
    for (size_t from = 0, to; from < j->hits; from = to) {
        for (to = from; to < j->hits && j->hit[to].step == j->hit[from].step; to++)
            ;
        size_t last = TW_NONE; /* ranks that show the same count once */
        for (size_t i = from; i < to; i++) {
            const struct hit *h = &j->hit[i];
            bool unjudged = j->unjudged[h->step - j->o->first] >> j->part[h->origin] & 1;
            if (h->origin == last || unjudged || from_another_rank(h, &j->hit[from], to - from))
                continue;
            last = h->origin;
            j->t->origin[last].steps_differing++;
            j->t->origin[last].runs_differing += !seen[last];
            seen[last] = true;
            if (tw_cmp_room(j->c, &j->see, j->seen, &j->see_room, sizeof *j->see))
                j->see[j->seen++] = (struct tw_seen){last, h->step};
        }
    }
    j->hits = 0;
}

/*
 * Adds up for how many steps of the run each part was judged, into r and into the sums over all
 * runs.
 */
static void count_steps(struct judge *j, struct tw_transplanted_run *r)
{
    for (uint32_t i = 0; i < j->steps; i++) {
        unsigned bits = j->unjudged[i];
        r->left_out += bits >> PARTS & 1;
        r->unequal += !(bits >> PARTS & 1) && (bits >> OF_COMPUTING & 1);
        for (unsigned p = 0; p < PARTS; p++)
            r->judged[p] += !(bits >> p & 1);
    }
    j->t->steps += j->steps;
    j->t->left_out += r->left_out;
    j->t->unequal += r->unequal;
    for (unsigned p = 0; p < PARTS; p++)
        j->judged[p] += r->judged[p];
}

/*
 * Judges one transplanted run against the reference and makes its claim. TWIN_EINVAL: no process of
 * it was given any value. The window ends where the first transplanted process has no more steps.
 */
static int judge_run(struct judge *j, const struct twin_run *reference, const struct twin_run *run,
                     size_t index, struct twin_error *err)
{
    struct tw_side a = {0}, b = {0};
    struct tw_pair *pairs = NULL;
    size_t n = 0, trainers = 0;
    uint32_t end = UINT32_MAX;
    snprintf(j->c->label_a, sizeof j->c->label_a, "the recorded run");
    snprintf(j->c->label_b, sizeof j->c->label_b, "transplanted run %zu", index % 1000);
    int rc = tw_side_open(j->c, reference, 0, &a, err);
    if (rc == 0)
        rc = tw_side_open(j->c, run, index, &b, err);
    if (rc == 0)
        rc = tw_side_match(j->c, &a, &b, &pairs, &n);
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (twin_trace_note_of(pairs[i].b->trace, "transplant.began")) {
            uint32_t steps = common_steps(&pairs[i]);
            end = steps < end ? steps : end;
            trainers++;
        }
    if (rc == 0 && !trainers)
        rc = twin_error_set(err, TWIN_EINVAL,
                            "nothing was transplanted in %s: no recorded value was taken",
                            run->dir);
    end = trainers && end > j->o->first ? end - j->o->first : 0;
    end = j->o->last - j->o->first < end ? j->o->last - j->o->first + 1 : end;
    j->steps = end < STEPS_MAX ? end : STEPS_MAX;
    j->unjudged = tw_calloc(j->steps + 1, 1);
    if (rc == 0 && !j->unjudged)
        rc = tw_no_memory(err, "judging %u steps", j->steps);
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (twin_trace_note_of(pairs[i].b->trace, "transplant.began"))
            rc = judge_pair(j, &pairs[i], err);
    if (rc == 0) {
        j->t->last = j->steps ? j->o->first + j->steps - 1 : j->o->first;
        struct tw_transplanted_run r = {.reference = reference,
                                        .run = run,
                                        .kind = j->o->kind,
                                        .first = j->o->first,
                                        .steps = j->steps};
        j->seen = 0;
        count_hits(j);
        count_steps(j, &r);
        r.origin = j->t->origin;
        r.origins = j->t->origin_count;
        r.see = j->see;
        r.seen = j->seen;
        tw_claim_transplanted(j->c, &r);
    }
    tw_free(j->unjudged);
    j->unjudged = NULL;
    tw_side_close(&a);
    tw_side_close(&b);
    tw_free(pairs);
    return rc;
}

/* ---- all of them */

/* Order of origins: the most frequent first, then by the step where it was first seen. */
static int most_frequent(const void *x, const void *y)
{
    const struct twin_origin *a = x, *b = y;
    if (a->steps_differing != b->steps_differing)
        return a->steps_differing > b->steps_differing ? -1 : 1;
    return a->finding->step_a < b->finding->step_a ? -1 : a->finding->step_a > b->finding->step_a;
}

/*
 * Gives each origin its rate and interval over the steps in which it could have been seen, and
 * sorts them.
 */
static void rates(struct judge *j)
{
    size_t kept = 0;
    struct twin_transplant *t = j->t;
    for (size_t i = 0; i < t->origin_count; i++) {
        struct twin_origin o = t->origin[i];
        o.steps = j->judged[j->part[i]];
        /* seen in steps only that are not judged, or another rank's doing */
        if (o.steps_differing == 0) {
            tw_finding_free(o.finding);
            continue;
        }
        struct twin_interval ci = twin_stats_clopper_pearson(o.steps_differing, o.steps,
                                                             CONFIDENCE);
        o.rate = (double)o.steps_differing / (double)o.steps;
        o.low = ci.low;
        o.high = ci.high;
        t->origin[kept++] = o;
    }
    t->origin_count = kept;
    if (kept)
        qsort(t->origin, kept, sizeof *t->origin, most_frequent);
}

/*
 * Adds the notes that say what the transplant showed: through what the divergence came, and what
 * could not be judged. parted_before: the natural runs diverged.
 */
static void say_result(struct judge *j, bool parted_before)
{
    static const char *const through[] = {"", "the batches", "the generator states",
                                          "what a step starts from"};
    struct twin_transplant *t = j->t;
    const char *carrier = through[t->kind];
    if (t->kind == TWIN_TRANSPLANT_STEP && t->origin_count) {
        bool data = true, states = true;
        for (size_t i = 0; i < t->origin_count; i++) {
            data &= t->origin[i].finding->phase == TWIN_PHASE_DATA;
            states &= t->origin[i].finding->kind == TWIN_KIND_STATE;
        }
        if (data)
            carrier = through[TWIN_TRANSPLANT_DATA];
        else if (states)
            carrier = through[TWIN_TRANSPLANT_RNG];
        else
            carrier = "the batches and the generator states";
    }
    t->stopped = !j->uncut && t->steps > t->left_out && (parted_before || t->origin_count);
    if (t->stopped && (t->kind != TWIN_TRANSPLANT_STEP || t->origin_count))
        tw_cmp_note(j->c,
                    "the divergence came through %s: with the recorded ones in their place every "
                    "step agreed",
                    carrier);
    else if (t->stopped)
        tw_cmp_note(
            j->c,
            "the runs diverge, but no step did that started equal: what makes them diverge acts "
            "before the first step, between steps, or more rarely than in %llu steps",
            (unsigned long long)t->steps);
    if (t->left_out)
        tw_cmp_note(j->c, "%llu of %llu steps could not be transplanted and are not judged",
                    (unsigned long long)t->left_out, (unsigned long long)t->steps);
    if (t->unequal)
        tw_cmp_note(j->c,
                    "%llu of %llu steps started with weights or optimizer state that differed "
                    "already: what they compute is not judged%s",
                    (unsigned long long)t->unequal, (unsigned long long)t->steps,
                    t->kind == TWIN_TRANSPLANT_STEP
                        ? ""
                        : "; --transplant step makes every step start equal");
}

/*
 * Makes the verdict "differ" where the natural runs agreed. The transplanted runs are runs of the
 * job, too: a step that started equal and diverged proves a difference by itself.
 */
static void adopt(struct judge *j)
{
    struct twin_verdict *v = j->c->v;
    if (v->outcome == TWIN_DIFFER || v->outcome == TWIN_FAILED || v->first || !j->t->origin_count)
        return;
    v->first = tw_finding_copy(j->c, j->t->origin[0].finding);
    v->outcome = v->bitwise = TWIN_DIFFER;
    tw_cmp_note(j->c, "the two natural runs agreed; it was the transplanted ones that diverged");
}

int twin_compare_transplant(struct twin_verdict *v, const struct twin_run *const *runs, size_t n,
                            const struct twin_transplant_options *o, struct twin_error *err)
{
    struct twin_compare_options how = {.ignore = o->ignore, .ignore_count = o->ignore_count};
    struct tw_cmp c = {.o = &how, .v = v, .states_given = true};
    struct judge j = {.c = &c, .o = o};
    bool parted_before = v->outcome == TWIN_DIFFER;
    if (n < 2 || o->first > o->last || o->kind == TWIN_TRANSPLANT_NONE)
        return twin_error_set(err, TWIN_EINVAL,
                              "expected a recorded run, transplanted ones and a window");
    if (!v->transplant)
        v->transplant = tw_calloc(1, sizeof *v->transplant);
    if (!v->transplant)
        return tw_no_memory(err, "judging %zu runs", n);
    j.t = v->transplant;
    *j.t = (struct twin_transplant){
        .kind = o->kind, .first = o->first, .last = o->first, .runs = n - 1};
    int rc = 0;
    for (size_t i = 1; rc == 0 && i < n; i++)
        rc = judge_run(&j, runs[0], runs[i], i, err);
    if (rc == 0) {
        rates(&j);
        say_result(&j, parted_before);
        adopt(&j);
        tw_cmp_append_notes(&c);
        tw_claims_append(&c);
        if (c.oom)
            rc = tw_no_memory(err, "judging %zu runs", n);
    }
    tw_free(j.hit);
    tw_free(j.see);
    tw_claims_free(c.claims.claim, c.claims.n);
    tw_texts_free(&c.notes);
    tw_texts_free(&c.unseen);
    tw_texts_free(&c.armed);
    tw_texts_free(&c.unarmed);
    return rc;
}
