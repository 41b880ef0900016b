/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares two runs: matches their processes, scans each pair of processes, and decides what to
 * name first. compare.c calls tw_pair_compare() for each two runs that it holds against each other,
 * clock_world.c for runs under a faster clock.
 *
 * Evidence is asked in the order of its worth. Recorded values come first; then how the runs ended,
 * processes and steps that one run alone has; printed lines and files come last, since where values
 * differ they are only consequences. Of several processes that diverge, the one that diverges first
 * in the flow of a step is named, and what of the other ranks diverges at the same place is listed
 * with it.
 */
#include "arms.h"
#include "evidence.h"
#include "internal.h"
#include "printed.h"
#include "scan.h"
#include "tolerance.h"

#include "phrase.h"

#include <stdio.h>
#include <string.h>

/* The scans of all pairs of processes; the array is owned by this struct. */
struct scans {
    struct tw_scan *s;
    size_t n;
};

static void scans_free(struct scans *scans)
{
    for (size_t i = 0; scans->s && i < scans->n; i++)
        tw_scan_free(&scans->s[i]);
    tw_free(scans->s);
}

static bool other_world(const struct tw_side *a, const struct tw_side *b)
{
    return a->world != b->world;
}

/*
 * Scans one pair of processes at its shift, into s. Between arms the seam comes first, and what
 * follows it only when nothing differs there. Returns 0 or an error; pairs without common steps
 * give an empty scan. alone: of the sides only weights can be compared (tw_weights_alone).
 */
static int scan_one(struct tw_cmp *c, const struct tw_pair *p, struct tw_side *a, struct tw_side *b,
                    bool alone, struct tw_scan *s, struct twin_error *err)
{
    const int64_t shift = p->shift;
    s->pair = p;
    s->shift = shift;
    if (alone)
        return tw_weights_only(c, p, a, b, shift, s, err);
    uint32_t from = 0;
    if (shift < 0) {
        from = (uint32_t)-shift;
        s->first = from;
        if (from >= p->a->info->steps || p->b->info->steps == 0 ||
            (c->o->steps_given && from >= c->o->steps))
            return 0; /* no overlap: tw_ranges_account says so */
        if (c->o->arms) {
            int rc = tw_shift_seam(c, p, from, s, err);
            if (rc != 0 || s->found) {
                uint64_t rest = p->a->info->steps - from;
                s->steps_compared = rest < p->b->info->steps ? rest : p->b->info->steps;
                s->end = from + s->steps_compared;
                return rc;
            }
            s->end = from + 1;
            from++;
        }
    }
    return tw_scan_pair(c, p, a, b, shift, from, s, err);
}

/*
 * Is x to be named before y? Processes with steps of their own come before auxiliary ones, then the
 * earlier step counts, then the place in the flow of the step, then the lower rank.
 */
static bool earlier(const struct tw_scan *x, const struct tw_scan *y)
{
    if (x->pair->auxiliary != y->pair->auxiliary)
        return y->pair->auxiliary;
    if (x->step != y->step)
        return x->step < y->step;
    if (x->cls != y->cls)
        return x->cls < y->cls;
    if (x->turn != y->turn)
        return x->turn < y->turn;
    return x->pair->a->rank < y->pair->a->rank;
}

/*
 * The scan to name instead of `best`, or `best` itself. A loader worker has no steps of its own.
 * When the trainer diverges first in its data, what diverged in its worker came before that and is
 * named.
 */
static struct tw_scan *prefer_worker(struct scans *scans, struct tw_scan *best)
{
    if (best->pair->auxiliary || best->cls > tw_cause_class(TWIN_PHASE_DATA, TWIN_KIND_BATCH))
        return best;
    for (size_t i = 0; i < scans->n; i++) {
        struct tw_scan *s = &scans->s[i];
        if (s->found && s->pair->auxiliary && s->pair->a->rank == best->pair->a->rank &&
            s->cls < best->cls)
            return s;
    }
    return best;
}

/* The scan whose difference comes first; NULL: none found one. */
static struct tw_scan *first_of(struct scans *scans)
{
    struct tw_scan *best = NULL;
    for (size_t i = 0; i < scans->n; i++)
        if (scans->s[i].found && (!best || earlier(&scans->s[i], best)))
            best = &scans->s[i];
    return best;
}

/*
 * For reduced gradients, or a collective, that differ first: did they diverge in the reduction?
 * They did when every rank's own gradients were still equal; then the layer becomes "collective".
 * Where local gradients were not recorded nobody can tell, and origins become findings between the
 * backward pass and the gradient.
 */
static void judge_reduction(struct tw_cmp *c, const struct scans *scans, const struct tw_scan *best,
                            int32_t world)
{
    struct twin_finding *f = best->origins.n ? &best->origins.f[0] : NULL;
    bool seen = false, differs = false;
    /* what the job's own callbacks made of a result is no reduction's doing (distributed.py) */
    if (f && strstr(f->name, ", behind callbacks"))
        return;
    if (f && strstr(f->name, "_object")) /* handed on, and not reduced */
        return;
    if (!f || world < 2 || best->weights_only || tw_is_written(f->phase, f->kind) ||
        tw_is_mpi(f->phase, f->name) ||
        (f->kind != TWIN_KIND_GRADIENT && f->phase != TWIN_PHASE_COLLECTIVE))
        return;
    for (size_t i = 0; i < scans->n; i++)
        if (scans->s[i].found && scans->s[i].step == best->step) {
            seen |= scans->s[i].local_seen;
            differs |= scans->s[i].local_differs;
        }
    if (seen && !differs) {
        for (size_t i = 0; i < best->origins.n; i++)
            tw_finding_set(c, &best->origins.f[i].layer, tw_cmp_copy(c, "collective"));
        tw_cmp_note(
            c,
            "local gradients of step %u were equal on every rank: they diverged in the reduction",
            best->step);
    } else if (!seen) {
        tw_cmp_note(c,
                    "local gradients were not recorded, so whether they or the reduction diverged "
                    "is not known");
        for (size_t i = 0; i < best->origins.n; i++) {
            struct twin_finding *g = &best->origins.f[i];
            if (g->role == TWIN_ORIGIN)
                tw_finding_between(c, g, tw_cmp_text(c, "the backward pass of step %u", best->step),
                                   tw_cmp_text(c, "%s %.200s of step %u", twin_kind_name(g->kind),
                                               g->name, best->step));
        }
    }
}

/* Is what another rank diverges in first an origin beside the one that is named? Where messages and
 * collectives tell, when it took it from nobody; else when it stands at the same place of the same
 * step. */
static bool stands_beside(const struct tw_frontier *frontier, const struct tw_scan *s,
                          const struct tw_scan *best)
{
    switch (tw_frontier_place(frontier, s)) {
    case TWIN_RANK_CARRIED: return false;
    case TWIN_RANK_FRONTIER: return true;
    default: return s->step == best->step && s->cls == best->cls && s->turn == best->turn;
    }
}

/*
 * Moves the findings of `best` to r, and adds those of other ranks that stand beside them. The
 * ranks that diverge in that step are named in a note, the first 16 of them.
 */
static void collect_findings(struct tw_cmp *c, struct scans *scans, struct tw_scan *best,
                             const struct tw_frontier *frontier, struct tw_pair_result *r)
{
    struct tw_texts others = {0};
    r->differs = r->value = true;
    r->step = best->step;
    r->origins = best->origins;
    best->origins = (struct tw_findings){0};
    for (size_t i = 0; i < scans->n; i++) {
        struct tw_scan *s = &scans->s[i];
        if (!s->found || s == best || s->pair->auxiliary)
            continue;
        if (s->step == best->step && !frontier->against_steps)
            tw_texts_add(c, &others, tw_cmp_text(c, "%d", s->pair->a->rank));
        const bool beside = stands_beside(frontier, s, best);
        for (size_t k = 0; beside && k < s->origins.n && r->origins.n < TW_MAX_FRONTIER; k++)
            tw_findings_take(c, &r->origins, tw_finding_copy(c, &s->origins.f[k]));
    }
    if (others.n) {
        struct tw_buf list = {0};
        for (size_t i = 0; i < others.n && i < 16; i++)
            tw_buf_printf(&list, "%s%s", i ? ", " : "", others.s[i]);
        char *text = tw_buf_steal(&list);
        tw_cmp_note(c, "diverging in the same step: rank%s %s%s", others.n > 1 ? "s" : "",
                    text ? text : "", others.n > 16 ? ", ..." : "");
        c->oom |= !text;
        tw_free(text);
    }
    tw_texts_free(&others);
}

/*
 * Judges every process that differs against the tolerance, until one difference is outside: then
 * the verdict cannot become "within tolerance" any more.
 */
static int judge_all(struct tw_cmp *c, struct scans *scans, struct twin_error *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < scans->n && !c->judged->outside; i++)
        if (scans->s[i].found) {
            rc = tw_tolerance_judge(c, &scans->s[i], err);
            twin_trace_rest(scans->s[i].pair->a->trace);
            twin_trace_rest(scans->s[i].pair->b->trace);
        }
    return rc;
}

/* May records of one of the runs be missing behind those that it has, since it did not end as it
 * wanted to? */
static bool may_be_cut(const struct tw_side *a, const struct tw_side *b)
{
    return !tw_side_complete(a) || tw_side_failed(a) || !tw_side_complete(b) || tw_side_failed(b);
}

/*
 * For runs that are within the tolerance so far: what came after the last step of processes that
 * differ was judged together with their steps, so it counts as seen. Of a run that did not end as
 * it wanted to more may be missing.
 */
static void look_at_tails(const struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b,
                          struct scans *scans)
{
    const bool partial = may_be_cut(a, b);
    const bool stopped = tw_side_stopped(a) || tw_side_stopped(b);
    for (size_t i = 0; i < scans->n; i++) {
        struct tw_scan *s = &scans->s[i];
        const bool same_end = (int64_t)s->pair->a->info->steps + s->shift ==
                              (int64_t)s->pair->b->info->steps;
        if (!s->found || !same_end || (c->o->steps_given && s->end >= c->o->steps))
            continue;
        s->tail_seen = true;
        s->tail_unknown = partial && !stopped;
    }
}

/*
 * Adds a finding (taken; NULL: nothing) behind those that r has. Where recorded values differ
 * already it is a note, too, since only the first finding is named.
 */
static void take_one(struct tw_cmp *c, struct tw_pair_result *r, struct twin_finding *f)
{
    if (!f)
        return;
    r->differs = true;
    if (r->origins.n && r->value)
        tw_cmp_note(c, "%s", f->text);
    tw_findings_take(c, &r->origins, f);
}

/* Appends copies of all findings of `from`; from keeps its own. */
static void move_findings(struct tw_cmp *c, struct tw_findings *to, struct tw_findings *from)
{
    for (size_t i = 0; i < from->n; i++)
        tw_findings_take(c, to, tw_finding_copy(c, &from->f[i]));
}

/* What differs is no record. cut: there may have been more records than were recorded. */
static void say_records_are_equal(struct tw_cmp *c, bool cut)
{
    if (cut)
        tw_cmp_note(c, "all records that were compared are equal: what differs was made by "
                       "something that was not seen, or after the last record of a run that failed "
                       "or was ended");
    else
        tw_cmp_note(c,
                    "all records are equal: what differs was made by something that was not seen");
}

/*
 * Compares printed lines and files. Where recorded values differ these are consequences, and only
 * the onset of printed numbers is of use, which lines.c notes. Otherwise they are the findings,
 * with an unknown role: what made them was not seen.
 */
static void last_resort(struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b,
                        const struct scans *scans, struct tw_pair_result *r)
{
    struct tw_last_resort l = {
        .shift = c->o->arms ? r->shift : 0,
        .other_ends = c->o->arms &&
                      (c->o->steps_given || (int64_t)a->steps + r->shift != (int64_t)b->steps)};
    tw_output_compare(c, a, b, &l);
    tw_files_compare(c, a, b, &l);
    move_findings(c, &r->benign, &l.benign);
    if (!r->differs) {
        for (size_t i = 0; i < l.findings.n; i++) {
            struct twin_finding *f = tw_finding_copy(c, &l.findings.f[i]);
            if (f)
                f->role = TWIN_ROLE_UNKNOWN;
            r->step = r->step < 0 && f && f->step_a ? (int64_t)f->step_a : r->step;
            take_one(c, r, f);
        }
        if (r->differs && scans->n > 0)
            say_records_are_equal(c, may_be_cut(a, b));
        for (size_t i = 0; i < l.unknown.n; i++)
            tw_texts_add(c, &r->unknown, tw_cmp_copy(c, l.unknown.s[i]));
    }
    tw_last_resort_free(&l);
}

/* Adds a benign finding that says `text` (taken; may be NULL), at the place of `at`. */
static void take_benign(struct tw_cmp *c, const struct twin_finding *at, char *text,
                        struct tw_pair_result *r)
{
    struct twin_finding *f = tw_finding_new(c, TWIN_FINDING_OUTPUT, at->phase, at->kind);
    if (!f) {
        tw_free(text);
        return;
    }
    f->rank = at->rank;
    f->step_a = at->step_a;
    f->step_b = at->step_b;
    tw_finding_set(c, &f->name, tw_cmp_copy(c, at->name));
    tw_finding_set(c, &f->text, text);
    tw_findings_take(c, &r->benign, f);
}

/*
 * Says how many batches a resumed job read and dropped before its first step: it went through the
 * epoch up to the place where it stopped.
 */
static void take_skipped(struct tw_cmp *c, const struct tw_scan *s, struct tw_pair_result *r)
{
    uint32_t first = (uint32_t)-s->shift;
    bool one = s->skipped == 1;
    const struct twin_finding at = {.phase = TWIN_PHASE_DATA,
                                    .kind = TWIN_KIND_BATCH,
                                    .rank = s->pair->a->rank,
                                    .step_a = first,
                                    .name = (char *)"batch"};
    if (s->skipped)
        take_benign(c, &at,
                    tw_cmp_text(c, "%s read %u batch%s and dropped %s before step %u (its 0)",
                                c->label_b, s->skipped, one ? "" : "es", one ? "it" : "them",
                                first),
                    r);
}

/*
 * Reports what one arm did in between as benign, per pair of processes, when no recorded value
 * differs. Otherwise scan.c has named it already where it is to blame.
 */
static void take_insertions(struct tw_cmp *c, const struct scans *scans, struct tw_pair_result *r)
{
    for (size_t i = 0; i < scans->n && !r->value; i++) {
        const struct tw_findings *in = &scans->s[i].inserted;
        take_skipped(c, &scans->s[i], r);
        if (in->n > 0)
            take_benign(c, &in->f[0],
                        tw_cmp_text(c,
                                    "from step %u on one arm did more in between (%s/%s %s and %zu "
                                    "more): nothing that both did differs",
                                    in->f[0].step_a, twin_phase_name(in->f[0].phase),
                                    twin_kind_name(in->f[0].kind), in->f[0].name, in->n - 1),
                        r);
    }
}

/*
 * Records that came in another order are benign as long as no value differs; else they are a hint
 * in a note. Only the first of each pair of processes is told.
 */
static void take_orders(struct tw_cmp *c, struct scans *scans, struct tw_pair_result *r)
{
    for (size_t i = 0; i < scans->n; i++) {
        struct tw_findings *o = &scans->s[i].order;
        if (o->n == 0)
            continue;
        if (r->value)
            tw_cmp_note(c, "records came in another order from step %u on (rank %d, %s)",
                        o->f[0].step_a, o->f[0].rank, o->f[0].name);
        else
            tw_findings_take(c, &r->benign, tw_finding_copy(c, &o->f[0]));
    }
}

/*
 * Scans every pair of processes into scans, which the caller frees. Arms with other numbers of
 * ranks divide the data otherwise: of these worlds.c compares rank 0's weights, and more.
 */
static int scan_all(struct tw_cmp *c, struct tw_side *a, struct tw_side *b, struct tw_pair *pairs,
                    size_t n, struct scans *scans, struct twin_error *err)
{
    scans->s = tw_calloc(n, sizeof *scans->s);
    if (!scans->s)
        return tw_no_memory(err, "comparing two runs");
    const bool alone = tw_weights_alone(c, a, b);
    if (!alone && b->by_number)
        tw_cmp_note(c, "ranks are compared by their numbers: %s", b->by_number);
    if (alone) {
        tw_side_replicas(c, a);
        tw_side_replicas(c, b);
    }
    for (size_t i = 0; i < n; i++) {
        if (alone && (pairs[i].a->rank != 0 || pairs[i].auxiliary))
            continue;
        struct tw_scan *s = &scans->s[scans->n++];
        int rc = scan_one(c, &pairs[i], a, b, alone, s, err);
        twin_trace_rest(pairs[i].a->trace);
        twin_trace_rest(pairs[i].b->trace);
        if (rc != 0)
            return rc;
        pairs[i].recut = s->recut;
    }
    return 0;
}

/*
 * Sets r->steps_compared: the steps of that process of a of which most were compared. Where several
 * trainers of b go on in one process of a (chain.c), their stretches are added up without counting
 * a step twice; pairs of one process of a stand in the order of their steps.
 */
static void count_steps(const struct scans *scans, struct tw_pair_result *r)
{
    for (size_t i = 0; i < scans->n; i++) {
        uint64_t steps = 0, reached = 0;
        for (size_t k = 0; k < scans->n; k++) {
            const struct tw_scan *s = &scans->s[k];
            if (s->pair->a != scans->s[i].pair->a)
                continue;
            uint64_t first = s->first > reached ? s->first : reached;
            bool alone = steps == 0 && reached == 0;
            if (alone)
                steps = s->steps_compared;
            else if (s->end > first)
                steps += s->end - first;
            reached = s->end > reached ? s->end : reached;
        }
        if (steps > r->steps_compared)
            r->steps_compared = steps;
    }
}

/* Adds to findings where their ranks stand in the mesh of the first run. */
static void name_seats(struct tw_cmp *c, const struct tw_side *a, struct tw_findings *list)
{
    for (size_t i = 0; i < list->n; i++) {
        struct twin_finding *f = &list->f[i];
        if (a->seat && !f->seat && f->rank >= 0 && (size_t)f->rank < a->seats)
            f->seat = tw_cmp_copy(c, a->seat[f->rank]);
    }
}

/* Ranks that were started again are not mixed with those before them, and that is said. */
static void say_attempts(struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b)
{
    const uint32_t both = a->attempts < b->attempts ? a->attempts : b->attempts;
    if (both > 0)
        tw_cmp_note(c,
                    "torchrun started the ranks again: each of attempts 0 to %u was compared with "
                    "the same attempt of the other run",
                    both);
    if (a->attempts != b->attempts && c->o->arms)
        tw_cmp_note(c, "torchrun started the ranks of %s again %u time%s, those of %s %u time%s",
                    c->label_a, a->attempts, tw_plural_s(a->attempts), c->label_b, b->attempts,
                    tw_plural_s(b->attempts));
}

/*
 * The order below matters: findings of recorded values are collected before those of how the runs
 * ended, because the first finding is the one that is named; whether the values are within the
 * tolerance is known before coverage is asked for; last_resort() must know whether anything
 * differs.
 */
int tw_pair_compare(struct tw_cmp *c, struct tw_side *a, struct tw_side *b,
                    struct tw_pair_result *r, struct twin_error *err)
{
    struct tw_pair *pairs = NULL;
    struct scans scans = {0};
    struct tw_place place;
    struct tw_frontier frontier = {0};
    size_t n = 0;
    *r = (struct tw_pair_result){.step = -1};
    snprintf(c->label_a, sizeof c->label_a, "run %zu", a->index + 1);
    c->failed_a = tw_side_failed(a);
    c->failed_b = tw_side_failed(b);
    snprintf(c->label_b, sizeof c->label_b, "run %zu", b->index + 1);
    c->run_a = a->index;
    c->run_b = b->index;
    int rc = tw_side_match(c, a, b, &pairs, &n);
    c->weights_alone = tw_weights_alone(c, a, b); /* asks by the ranks' roles */
    if (rc == 0)
        rc = tw_chain(c, a, b, &pairs, &n, &place, err);
    if (rc == 0)
        say_attempts(c, a, b);
    if (rc == 0)
        rc = scan_all(c, a, b, pairs, n, &scans, err);
    if (rc != 0)
        goto out;
    r->shift = -place.step;
    r->shift_found = place.found;
    if (c->o->resumed && r->shift >= 0 && b->steps > 0)
        tw_cmp_unseen(c, "a resume: %s begins at step 0 of %s, so it found nothing to go on from",
                      c->label_b, c->label_a);
    count_steps(&scans, r);
    struct tw_scan *best = first_of(&scans), *by_steps = best;
    if (best)
        rc = tw_frontier_make(c, scans.s, scans.n, best, a->world, &frontier, err);
    if (rc != 0)
        goto out;
    if (best) {
        best = frontier.first ? frontier.first : best;
        struct tw_scan *named = prefer_worker(&scans, best);
        if (!c->quick)
            tw_trend(c, best, err);
        judge_reduction(c, &scans, best, a->world);
        tw_mpi_judge(c, scans.s, scans.n, best, a->world, err);
        tw_mpi_tell(c, best);
        tw_frontier_tell(c, &frontier, by_steps);
        if (c->judged)
            rc = judge_all(c, &scans, err);
        if (named != best) {
            /* its own numbering means nothing to the reader */
            for (size_t i = 0; i < named->origins.n; i++)
                named->origins.f[i].step_a = named->origins.f[i].step_b = best->step;
            named->step = best->step;
        }
        r->equal_before = named->equal_before;
        r->equal_records = named->equal_records;
        named->equal_before = NULL;
        r->shift = named->shift;
        tw_claims_of_pair(c, a, b, scans.s, scans.n, named);
        const uint32_t step = by_steps->step; /* where the runs diverge, whoever does so */
        collect_findings(c, &scans, named, &frontier, r);
        r->step = step < best->step ? step : best->step;
        r->order = frontier.order;
        frontier.order = NULL;
    } else {
        tw_claims_of_pair(c, a, b, scans.s, scans.n, NULL);
    }
    if (c->weights_alone) /* a tolerance has judged further steps */
        tw_worlds_say(c, a, b, scans.s, scans.n);
    for (size_t i = 0; i < scans.n; i++)
        if (!best || scans.s[i].pair == best->pair)
            tw_order_of_parameters(c, &scans.s[i], r, err);
    take_one(c, r, tw_outcome_compare(c, a, b));
    take_one(c, r, tw_attempts_compare(c, a, b));
    take_one(c, r, c->o->arms && other_world(a, b) ? NULL : tw_ranks_compare(c, a, b));
    take_one(c, r, tw_steps_compare(c, a, b, pairs, n));
    if (r->differs && !r->value && r->origins.n)
        r->step = r->origins.f[0].type == TWIN_FINDING_RANKS ? -1 : (int64_t)r->origins.f[0].step_a;
    r->within = c->judged && !c->judged->outside && r->value && r->origins.n &&
                r->origins.f[r->origins.n - 1].type == TWIN_FINDING_VALUE;
    r->failed_alike = !r->value && tw_side_failed(a) && tw_side_failed(b);
    if (r->within)
        look_at_tails(c, a, b, &scans);
    if (!r->differs || r->within) /* what "same" needs, "within tolerance" needs, too */
        tw_coverage(c, a, b, scans.s, scans.n);
    tw_ranges_account(c, a, b, scans.s, scans.n, r->differs && !r->within);
    if (tw_ranges_make(c, scans.s, scans.n, &r->ranges, &r->range_count) != 0)
        c->oom = true;
    last_resort(c, a, b, &scans, r);
    take_orders(c, &scans, r);
    take_insertions(c, &scans, r);
    tw_thread_counts(c, a, pairs, n, r->differs);
    name_seats(c, a, &r->origins);
    name_seats(c, a, &r->benign);
out:
    tw_not_held_told(c);
    tw_frontier_free(&frontier);
    scans_free(&scans);
    tw_free(pairs);
    if (rc == 0 && c->oom)
        rc = tw_no_memory(err, "comparing two runs");
    if (rc != 0) {
        tw_pair_result_free(r);
        return twin_error_set(err, rc, "out of memory comparing two runs");
    }
    return 0;
}

void tw_pair_result_free(struct tw_pair_result *r)
{
    tw_findings_free(&r->origins);
    tw_findings_free(&r->benign);
    tw_texts_free(&r->unknown);
    tw_free(r->equal_before);
    tw_rank_order_free(r->order);
    tw_ranges_free(r->ranges, r->range_count);
    *r = (struct tw_pair_result){.step = -1};
}
