/* SPDX-License-Identifier: Apache-2.0 */
/* N runs: each is held against the first, then they are sorted into classes, and the verdict is put
 * together. The first comparison that differs is made in detail; later ones ask only whether two
 * runs are equal, since one divergence that is explained well is what a person can use. The word of
 * the verdict is decided last, when it is known what was not seen. */
#include "arms.h"
#include "evidence.h"
#include "internal.h"
#include "printed.h"
#include "scan.h"
#include "tolerance.h"

#include "src/stats/stats.h"

#include <string.h>

/* What the first comparison that parts shows in detail goes into the verdict; later ones only
 * count. */
static void adopt_origins(struct tw_cmp *c, struct tw_pair_result *r)
{
    struct twin_verdict *v = c->v;
    v->first = tw_finding_copy(c, &r->origins.f[0]);
    v->origins = r->origins.f;
    v->origin_count = r->origins.n;
    r->origins = (struct tw_findings){0};
    if (r->equal_before)
        tw_finding_set(c, &v->equal_before, r->equal_before);
    r->equal_before = NULL;
    v->equal_before_records = r->equal_records;
    v->steps_compared = r->steps_compared;
    v->order = r->order;
    r->order = NULL;
    if (!r->value && v->first)
        v->equal_before_records = 0;
}

/* Adds differences that do not count, each of them once: runs 2 and 3 mostly have the same ones. */
static void adopt_benign(struct tw_cmp *c, struct tw_pair_result *r)
{
    struct twin_verdict *v = c->v;
    for (size_t i = 0; i < r->benign.n; i++) {
        bool known = false;
        for (size_t k = 0; k < v->benign_count && !known; k++)
            known = strcmp(v->benign[k].text, r->benign.f[i].text) == 0 &&
                    strcmp(v->benign[k].name, r->benign.f[i].name) == 0;
        struct twin_finding *grown =
            known ? NULL : tw_reallocarray(v->benign, v->benign_count + 1, sizeof *grown);
        if (!grown) {
            c->oom |= !known;
            continue;
        }
        v->benign = grown;
        struct twin_finding *f = tw_finding_copy(c, &r->benign.f[i]);
        if (f)
            v->benign[v->benign_count++] = *f;
        tw_free(f);
    }
}

/* How many steps were compared, over all processes. */
static uint64_t steps_in(const struct twin_range *r, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += r[i].end - r[i].first;
    return sum;
}

/* Was of these no more compared than weights? */
static bool weights_alone(const struct twin_range *r, size_t n)
{
    return n > 0 && r[0].weights_only;
}

/* Of several comparisons the verdict shows the range of the one that it describes, or of the one in
 * which least was compared; where the numbers of ranks differ, that is weights alone. */
static void adopt_ranges(struct twin_verdict *v, struct tw_pair_result *r, bool described)
{
    bool fewer = steps_in(r->ranges, r->range_count) < steps_in(v->ranges, v->range_count);
    const bool weights = weights_alone(r->ranges, r->range_count);
    if (weights != weights_alone(v->ranges, v->range_count))
        fewer = weights;
    if (v->ranges && !described && (v->first || !fewer))
        return;
    tw_ranges_free(v->ranges, v->range_count);
    v->ranges = r->ranges;
    v->range_count = r->range_count;
    r->ranges = NULL;
    r->range_count = 0;
}

/* The headline speaks of all comparisons: of other numbers of ranks it names what was compared in
 * each step of each of them. */
static void narrow_ranges(const struct tw_cmp *c)
{
    for (size_t i = 0; i < c->v->range_count; i++) {
        c->v->ranges[i].gradients &= c->worlds_gradients.every == c->worlds;
        c->v->ranges[i].moments &= c->worlds_moments.every == c->worlds;
    }
}

/* ---- classes */

/* Which runs agree: the class of each run, the first run of each class, and of each run whether it
 * agrees for sure or just as far as was seen. */
struct classes {
    size_t *of;
    size_t *representative;
    bool *unsure;
    size_t n;
};

/*
 * Compares two runs of all of them. Where each has a number of ranks, those of one number are runs
 * of one command: every record counts, bit for bit.
 */
static int compare_pair(struct tw_cmp *c, struct tw_side *a, struct tw_side *b,
                        struct tw_pair_result *r, struct twin_error *err)
{
    const struct twin_compare_options *const asked = c->o;
    struct tw_judged *const judged = c->judged;
    static char no_tolerance[] = "runs with one number of ranks";
    struct tw_judged none = {.outside = no_tolerance}; /* whatever differs is outside */
    struct twin_compare_options alike = *asked;
    if (!tw_of_one_number(asked, a->index, b->index))
        return tw_pair_compare(c, a, b, r, err);
    const uint64_t compared = c->v->records_compared;
    alike.arms = alike.find_shift = false;
    c->o = &alike;
    c->judged = judged ? &none : NULL;
    int rc = tw_pair_compare(c, a, b, r, err);
    c->o = asked;
    c->judged = judged;
    if (rc == 0 && judged && r->differs)
        tw_judged_outside(c, judged,
                          tw_cmp_text(c,
                                      "runs %zu and %zu have the same number of ranks, and "
                                      "differ",
                                      a->index + 1, b->index + 1));
    c->v->records_compared = compared; /* what counts there is said of other numbers of ranks */
    return rc;
}

/* Are two runs equal, and at which step do they diverge? Says nothing into the verdict. */
static int quick_compare(struct tw_cmp *c, struct tw_side *a, struct tw_side *b, bool *equal,
                         bool *unsure, int64_t *step, struct twin_error *err)
{
    struct tw_pair_result r;
    const size_t doubts = c->doubts;
    struct tw_judged *const judged = c->judged;
    c->judged = NULL; /* a rule counts what differs from the first run, once */
    c->quick = true;
    int rc = compare_pair(c, a, b, &r, err);
    c->quick = false;
    c->judged = judged;
    if (rc != 0)
        return rc;
    *equal = !r.differs;
    *unsure = c->doubts > doubts || r.unknown.n > 0;
    *step = r.step;
    tw_pair_result_free(&r);
    return 0;
}

/* Sorts the runs into classes. A run that differs from the first is held against one run of each
 * further class, in order, and founds a new class when it agrees with none. */
static int classify_runs(struct tw_cmp *c, struct tw_side *side, size_t n, const bool *differs,
                         struct classes *k, struct twin_error *err)
{
    k->of[0] = 0;
    k->representative[0] = 0;
    k->n = 1;
    for (size_t i = 1; i < n; i++) {
        bool equal = !differs[i], unsure = k->unsure[i];
        int64_t step;
        size_t class = 0;
        while (!equal && ++class < k->n) {
            int rc = quick_compare(c, &side[k->representative[class]], &side[i], &equal, &unsure,
                                   &step, err);
            if (rc != 0)
                return rc;
        }
        if (!equal) {
            class = k->n++;
            k->representative[class] = i;
        }
        k->unsure[i] = equal && unsure;
        k->of[i] = class;
    }
    return 0;
}

/* Puts the classes into the verdict. The largest is the usual one, whose runs do not count as
 * differing; every other class gets the step at which it leaves the usual one. */
static int store_classes(struct tw_cmp *c, struct tw_side *side, size_t n, const struct classes *k,
                         const int64_t *parts_from_first, struct twin_error *err)
{
    struct twin_verdict *v = c->v;
    size_t modal = 0;
    v->classes = tw_calloc(k->n, sizeof *v->classes);
    if (!v->classes)
        return tw_no_memory(err, "sorting runs");
    v->class_count = k->n;
    for (size_t i = 0; i < k->n; i++) {
        struct twin_class *cl = &v->classes[i];
        cl->runs = tw_reallocarray(NULL, n, sizeof *cl->runs);
        if (!cl->runs)
            return tw_no_memory(err, "sorting runs");
        for (size_t r = 0; r < n; r++)
            if (k->of[r] == i) {
                cl->runs[cl->members++] = r;
                cl->unsure |= k->unsure[r];
            }
        if (cl->members > v->classes[modal].members)
            modal = i;
    }
    v->differing = n - v->classes[modal].members;
    for (size_t i = 0; i < k->n; i++) {
        struct twin_class *cl = &v->classes[i];
        cl->parts_at_step = -1;
        if (i == modal)
            continue;
        bool equal, unsure;
        if (modal == 0)
            cl->parts_at_step = parts_from_first[k->representative[i]];
        else if (quick_compare(c, &side[k->representative[modal]], &side[k->representative[i]],
                               &equal, &unsure, &cl->parts_at_step, err) != 0)
            return err && err->code ? err->code : TWIN_ENOMEM;
        if (cl->parts_at_step < 0)
            /* -1 is the modal class's; these part in how they ended or what they printed */
            cl->parts_at_step = 0;
    }
    return 0;
}

/* ---- the verdict */

/* The rate of comparisons that differed, with its bounds. */
static void set_rate(struct twin_verdict *v)
{
    struct twin_interval i = twin_stats_clopper_pearson(v->differing, v->comparisons,
                                                        v->confidence);
    v->rate = v->comparisons ? (double)v->differing / (double)v->comparisons : 0;
    v->rate_low = i.low;
    v->rate_high = i.high;
    v->p_diverge_upper = v->differing == 0 ? twin_stats_zero_bound(v->comparisons, v->confidence)
                                           : i.high;
}

/* How each run ended that did not end well, as notes. */
static void note_failures(struct tw_cmp *c, const struct tw_side *side, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char *text = tw_outcome_text(c, side[i].run);
        if (text)
            tw_cmp_note(c, "run %zu: %s, %llu steps recorded", i + 1, text,
                        (unsigned long long)side[i].steps);
        tw_free(text);
    }
}

/* How a run ends that we stopped nobody knows: one that failed cannot be the same as it. */
static void say_failed(struct tw_cmp *c, const struct tw_side *side, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char *text = tw_side_failed(&side[i]) ? tw_outcome_text(c, side[i].run) : NULL;
        if (text)
            tw_cmp_unseen(c,
                          "run %zu failed (%s), and another run was stopped before its end: "
                          "whether they end alike is not known",
                          i + 1, text);
        tw_free(text);
    }
}

/* Is all that is missing for "same" whether numbers in printed lines are times? */
static bool only_open(const struct tw_cmp *c)
{
    size_t open = 0;
    for (size_t i = 0; i < c->unseen.n; i++)
        for (size_t k = 0; k < c->open_texts.n; k++)
            open += strcmp(c->unseen.s[i], c->open_texts.s[k]) == 0;
    return open > 0 && open == c->unseen.n;
}

/* What "same" needs, "within tolerance" needs, too: nothing unseen, no run that failed. */
static bool nothing_missing(struct tw_cmp *c, const struct tw_side *side, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char *text = tw_side_failed(&side[i]) ? tw_outcome_text(c, side[i].run) : NULL;
        if (!text)
            continue;
        tw_cmp_note(c, "not judged by the tolerance: run %zu failed (%s)", i + 1, text);
        tw_free(text);
        return false;
    }
    if (c->unseen.n)
        tw_cmp_note(c, "not judged by the tolerance: %s", c->unseen.s[0]);
    return c->unseen.n == 0;
}

/* Of runs that differ in values: does the tolerance allow all of it? Says why not in notes. */
static bool allowed(struct tw_cmp *c, const struct tw_side *side, size_t n)
{
    const struct tw_judged *j = c->judged;
    const bool missing = !j->outside && !nothing_missing(c, side, n);
    if (missing && j->unmeasured + j->unknown_steps == 0)
        return false;
    return tw_judged_inside(c, j) && !missing;
}

/* Makes the word of the verdict out of all that was found. differ, within, value: some run differs;
 * all that differs is within the tolerance; recorded values are what differs. */
static void decide_outcome(struct tw_cmp *c, const struct tw_side *side, size_t n, bool differ,
                           bool within, bool value)
{
    struct twin_verdict *v = c->v;
    bool all_failed = true, interrupted = false;
    for (size_t i = 0; i < n; i++) {
        all_failed &= tw_side_failed(&side[i]);
        interrupted |= side[i].run->outcome == TWIN_RUN_INTERRUPTED || side[i].run->in_progress;
        if (side[i].run->outcome == TWIN_RUN_INTERRUPTED)
            tw_cmp_unseen(c, "run %zu was interrupted after %llu steps", i + 1,
                          (unsigned long long)side[i].steps);
        if (side[i].run->in_progress)
            tw_cmp_unseen(c, "run %zu is still going on", i + 1);
    }
    if (!all_failed && !differ)
        say_failed(c, side, n);
    if (n == 1)
        tw_cmp_unseen(c, "a second run: there is nothing to compare the only one with");
    if (all_failed && !value)
        v->bitwise = TWIN_FAILED;
    else if (differ)
        v->bitwise = TWIN_DIFFER;
    else if (c->unseen.n > 0 || interrupted)
        v->bitwise = TWIN_INCONCLUSIVE;
    else
        v->bitwise = TWIN_SAME;
    v->open_only = v->bitwise == TWIN_INCONCLUSIVE && only_open(c);
    v->open_numbers = v->bitwise == TWIN_INCONCLUSIVE && c->open_texts.n > 0;
    const bool judged = c->judged && value && v->bitwise == TWIN_DIFFER && allowed(c, side, n);
    v->outcome = judged && within ? TWIN_WITHIN_TOLERANCE : v->bitwise;
    if (v->bitwise == TWIN_FAILED)
        note_failures(c, side, n);
}

void tw_verdict_hand_over(struct tw_cmp *c)
{
    struct twin_verdict *v = c->v;
    v->notes = c->notes.s;
    v->note_count = c->notes.n;
    v->unseen = c->unseen.s;
    v->unseen_count = c->unseen.n;
    v->armed = c->armed.s;
    v->armed_count = c->armed.n;
    v->unarmed = c->unarmed.s;
    v->unarmed_count = c->unarmed.n;
    c->notes = c->unseen = c->armed = c->unarmed = (struct tw_texts){0};
    v->claims = c->claims.claim;
    v->claim_count = c->claims.n;
    c->claims = (struct tw_claims){0};
}

int tw_cmp_close(struct tw_cmp *c, int rc, struct twin_verdict **out)
{
    tw_tolerance_free(c->tolerance);
    tw_lines_filters_free(c);
    tw_texts_free(&c->notes);
    tw_texts_free(&c->unseen);
    tw_texts_free(&c->open_texts);
    tw_texts_free(&c->armed);
    tw_texts_free(&c->unarmed);
    tw_claims_free(c->claims.claim, c->claims.n);
    tw_clock_free(c);
    if (rc == 0)
        *out = c->v;
    else
        twin_verdict_free(c->v);
    return rc;
}

/* What all comparisons so far have found. detailed: the run that the verdict describes, beside
 * `reference`; 0: none differs. within: all that differs is within the tolerance. */
struct found {
    bool any, within, value;
    size_t detailed, reference;
};

/* Compares run i with an earlier one, and takes over what that shows. */
static int compare_with(struct tw_cmp *c, struct tw_side *side, size_t with, size_t i,
                        struct classes *k, bool *differs, int64_t *parts, struct found *f,
                        struct twin_error *err)
{
    struct twin_verdict *v = c->v;
    struct tw_pair_result r;
    const size_t doubts = c->doubts;
    c->quick = f->any; /* what is named first was named already */
    int rc = compare_pair(c, &side[with], &side[i], &r, err);
    c->quick = false;
    if (rc != 0)
        return rc;
    if (with == 0 || !differs[i])
        parts[i] = r.step;
    differs[i] |= r.differs;
    k->unsure[i] |= c->doubts > doubts || r.unknown.n > 0;
    bool described = false;
    if (r.differs) {
        f->within &= r.within;
        f->value |= r.value;
        if (!f->any && r.origins.n) {
            f->detailed = i;
            f->reference = with;
            described = true;
            adopt_origins(c, &r);
            v->shift = r.shift;
            v->shift_found = r.shift_found;
        }
        f->any = true;
    } else if (!f->any) {
        v->steps_compared = r.steps_compared;
        v->shift = r.shift;
        v->shift_found = r.shift_found;
        for (size_t u = 0; u < r.unknown.n; u++)
            tw_cmp_unseen(c, "%s", r.unknown.s[u]);
        v->unjudged |= r.unknown.n > 0;
    }
    adopt_benign(c, &r);
    adopt_ranges(v, &r, described);
    tw_pair_result_free(&r);
    return 0;
}

/* Compares every run with the first, sorts them, looks for NaN and for facts that explain what
 * differs, and decides. k, differs and parts have room for every run; the caller frees them. */
static int compare_all(struct tw_cmp *c, struct tw_side *side, size_t n, struct classes *k,
                       bool *differs, int64_t *parts, struct twin_error *err)
{
    struct twin_verdict *v = c->v;
    struct found f = {.within = true};
    /* by what a run itself says: then no two of them are sure to agree */
    const bool blurred = c->doubts > 0;
    for (size_t i = 1; i < n; i++)
        k->unsure[i] = blurred;
    int rc = 0;
    /* Each run against the first, and against the first of its own number of ranks. */
    for (size_t i = 1; rc == 0 && i < n; i++) {
        const size_t own = tw_first_of_number(c->o, i);
        rc = compare_with(c, side, 0, i, k, differs, parts, &f, err);
        if (rc == 0 && own != 0 && own != i)
            rc = compare_with(c, side, own, i, k, differs, parts, &f, err);
    }
    /* Which runs agree with each other. */
    rc = rc ? rc : classify_runs(c, side, n, differs, k, err);
    if (rc == 0)
        rc = store_classes(c, side, n, k, parts, err);
    if (rc != 0)
        return rc;
    if (f.detailed) {
        /* NaN is looked for in the two runs that the verdict describes. */
        struct tw_side two[2] = {side[f.reference], side[f.detailed]};
        tw_nonfinite(c, two, 2);
    } else {
        tw_nonfinite(c, side, n < 2 ? n : 2);
    }
    if (f.any)
        tw_facts(c, side, n);
    if (n > 1) {
        tw_choices(c, &side[f.reference], &side[f.detailed ? f.detailed : 1], f.any);
        tw_kernels(c, &side[f.reference], &side[f.detailed ? f.detailed : 1], f.any);
    }
    if (f.detailed)
        rc = tw_numbers_tell(c, &side[f.reference], &side[f.detailed], err);
    if (rc != 0)
        return rc;
    if (f.any && c->unseen.n > 0 && !f.value)
        tw_cmp_note(c, "not everything was seen: %s", c->unseen.s[0]);
    narrow_ranges(c);
    tw_ranks_as_asked(c, side, n);
    decide_outcome(c, side, n, f.any, f.any && f.within, f.value);
    /* all failed: how they did is in the notes, and not a finding */
    if (v->bitwise == TWIN_FAILED && v->first) {
        tw_finding_free(v->first);
        v->first = NULL;
    }
    set_rate(v);
    return 0;
}

/* How much the first run recorded, and how much of it was compared. */
static void records_of_reference(struct twin_verdict *v, const struct tw_side *a, size_t pairs)
{
    v->steps_a = a->steps;
    for (size_t i = 0; i < a->count; i++)
        v->records_a += a->proc[i].info->records + a->proc[i].info->dropped;
    /* counted once per comparison; they are the same records */
    if (v->records_compared > 0 && pairs > 1)
        v->records_compared /= pairs;
}

int twin_compare(const struct twin_run *const *runs, size_t n, const struct twin_compare_options *o,
                 struct twin_verdict **out, struct twin_error *err)
{
    static const struct twin_compare_options none;
    struct tw_judged judged = {.worst = -1, .worst_of_step = -1};
    struct tw_cmp c = {.o = o ? o : &none};
    *out = NULL;
    if (n == 0)
        return twin_error_set(err, TWIN_EINVAL, "no run to compare");
    int rc = c.o->tolerance_file ? tw_tolerance_load(c.o->tolerance_file, &c.tolerance, err) : 0;
    if (rc == 0)
        rc = tw_lines_filters(&c, err);
    if (rc != 0)
        return tw_cmp_close(&c, rc, out);
    c.judged = c.tolerance ? &judged : NULL;
    size_t opened = 0;
    struct tw_side *side = tw_calloc(n, sizeof *side);
    bool *differs = tw_calloc(n, sizeof *differs);
    int64_t *parts = tw_calloc(n, sizeof *parts);
    struct classes k = {.of = tw_calloc(n, sizeof *k.of),
                        .representative = tw_calloc(n, sizeof *k.representative),
                        .unsure = tw_calloc(n, sizeof *k.unsure)};
    c.v = tw_verdict_new(&c, n);
    if (!side || !differs || !parts || !k.of || !k.representative || !k.unsure || !c.v) {
        rc = tw_no_memory(err, "comparing %zu runs", n);
        goto out;
    }
    rc = tw_ahead_verify(runs, n, c.o->share, &c.ahead, err);
    for (; rc == 0 && opened < n; opened += rc == 0)
        rc = tw_side_open(&c, runs[opened], opened, &side[opened], err);
    tw_ahead_free(c.ahead);
    c.ahead = NULL;
    for (size_t i = 0; rc == 0 && c.o->arms && n > 1 && i < n; i++)
        c.oom |= !tw_facts_options(runs[i], runs[tw_of_other_command(c.o, n, i)], side[i].facts);
    for (size_t i = 0; rc == 0 && i < n; i++)
        tw_coverage_notes(&c, &side[i]);
    for (size_t i = 0; rc == 0 && i < n; i++)
        tw_waiting(&c, &side[i]);
    for (size_t i = 0; rc == 0 && i < n; i++)
        tw_replicas(&c, &side[i]);
    if (rc == 0 && n > 1)
        rc = tw_clock_experiment(&c, &side[0], err);
    if (rc == 0)
        rc = compare_all(&c, side, n, &k, differs, parts, err);
    if (rc == 0)
        records_of_reference(c.v, &side[0], tw_pairs_counted(c.o, n));
    if (rc == 0 && c.tolerance)
        tw_tolerance_report(&c);
    tw_verdict_hand_over(&c);
    if (rc == 0 && c.oom)
        rc = tw_no_memory(err, "comparing %zu runs", n);
out:
    for (size_t i = 0; i < opened; i++)
        tw_side_close(&side[i]);
    tw_free(side);
    tw_free(differs);
    tw_free(parts);
    tw_free(k.of);
    tw_free(k.representative);
    tw_free(k.unsure);
    tw_judged_free(&judged);
    return tw_cmp_close(&c, rc, out);
}
