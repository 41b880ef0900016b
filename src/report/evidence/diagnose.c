/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From evidence to a source: the rules by which two sets of runs that differ are explained. Called
 * by diagnosis_report.c with what it gathered; prints nothing.
 *
 * An order of rules, each of which excludes what the ones before it would explain: other numbers of
 * ranks change sums and speed whatever else is so; hardware is blamed when bits follow it over
 * several runs; the order of additions when nothing else is left that differs, inputs are equal and
 * the difference is that of a few roundings. What no rule covers stays unknown.
 *
 * A world is told by its differences from that of the first run. The first run's own view is empty.
 */
#include "wording.h"

#include "src/report/diagnosis.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Relative L2 distance below which a first divergence is taken for other roundings. Single
 * precision rounds at 6e-8. */
#define ROUNDINGS 1e-5

/* By enum twin_source; that of telemetry has a name and a practice for each of its causes. */
static const struct {
    const char *name, *practice;
} sources[] = {
    [TWIN_SOURCE_UNKNOWN] = {"unknown", "search by experiment: twinrun isolate -- CMD"},
    [TWIN_SOURCE_REDUCTION_ORDER] =
        {"reduction-order", "fix the order of additions (deterministic algorithms, ordered or "
                            "exact all-reduce: twinrun run --pin all), or report results with "
                            "their spread (twinrun spread); twinrun isolate -- CMD proves which"},
    [TWIN_SOURCE_RANDOMNESS] = {"randomness",
                                "seed every generator and the order of data from one root (twinrun "
                                "run --pin all); twinrun isolate -- CMD names the one that is not"},
    [TWIN_SOURCE_WORLD] = {"changed-world",
                           "run both sets in one world (lock file, image digest, configuration "
                           "hash); twinrun isolate --a CMD --b CMD tells which change matters"},
    [TWIN_SOURCE_HETEROGENEITY] = {"heterogeneity",
                                   "run what is to be compared on one kind of node (node selector, "
                                   "constraint), record processor and libraries with each result, "
                                   "and hold the instruction set still (twinrun run --pin isa)"},
    [TWIN_SOURCE_SCALING] =
        {"scaling", "compare at equal numbers of workers, with error bars (twinrun scale); make "
                    "sums independent of the number (exact all-reduce, elastic training)"},
};

/* ---- the worlds */

static bool is_one_of(const char *s, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(s, *list) == 0)
            return true;
    return false;
}

/* A difference in hardware that may change bits: neither a name nor what seldom matters. */
static bool is_hardware(const struct twin_incident_world *w)
{
    static const char *const groups[] = {"processor", "accelerators", NULL};
    return is_one_of(w->group, groups) && strcmp(w->power, "noise") != 0 &&
           strcmp(w->power, "low") != 0;
}

/* Another number of ranks. */
static bool is_ranks(const struct twin_incident_world *w)
{
    return strcmp(w->group, "launch") == 0 && strcmp(w->what, "ranks") == 0;
}

/* A difference that decides about numbers, and is neither hardware nor the number of ranks. */
static bool is_decisive(const struct twin_incident_world *w)
{
    return strcmp(w->power, "high") == 0 && !is_hardware(w) && !is_ranks(w);
}

/* The first item of a view for which is() holds; NULL: none. */
static const struct twin_incident_world *first_of(const struct twin_world_view *v,
                                                  bool (*is)(const struct twin_incident_world *))
{
    for (size_t i = 0; i < v->count; i++)
        if (is(&v->item[i]))
            return &v->item[i];
    return NULL;
}

/* The same over all runs but the first, which the others are compared with. */
static const struct twin_incident_world *in_any(const struct twin_diagnosis_facts *f,
                                                bool (*is)(const struct twin_incident_world *))
{
    for (size_t i = 1; i < f->a + f->b; i++) {
        const struct twin_incident_world *w = first_of(&f->world[i], is);
        if (w)
            return w;
    }
    return NULL;
}

static bool worlds_known(const struct twin_diagnosis_facts *f)
{
    for (size_t i = 1; i < f->a + f->b; i++)
        if (!f->world[i].known)
            return false;
    return true;
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Do two runs have the same hardware? Each is told by how it differs from the first run, so they
 * have when they differ from it in the same things, with the same values. */
static bool same_hardware(const struct twin_world_view *x, const struct twin_world_view *y)
{
    size_t nx = 0, ny = 0, shared = 0;
    for (size_t i = 0; i < x->count; i++)
        nx += is_hardware(&x->item[i]);
    for (size_t k = 0; k < y->count; k++)
        ny += is_hardware(&y->item[k]);
    for (size_t i = 0; i < x->count; i++)
        for (size_t k = 0; is_hardware(&x->item[i]) && k < y->count; k++)
            if (is_hardware(&y->item[k]) && strcmp(x->item[i].what, y->item[k].what) == 0 &&
                same_text(x->item[i].b, y->item[k].b)) {
                shared++;
                break;
            }
    return nx == ny && shared == nx;
}

/* Index of the class that a run is in; SIZE_MAX: in none. */
static size_t class_of(const struct twin_verdict *v, size_t run)
{
    for (size_t c = 0; c < v->class_count; c++)
        for (size_t i = 0; i < v->classes[c].members; i++)
            if (v->classes[c].runs[i] == run)
                return c;
    return SIZE_MAX;
}

/* Do the bits follow the hardware? Over all pairs of runs: equal hardware always gave equal bits,
 * and did at least once; other bits came with other hardware, and did at least once. */
static bool bits_follow_hardware(const struct twin_diagnosis_facts *f)
{
    size_t n = f->a + f->b, equal = 0, apart = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n; k++) {
            bool hardware = same_hardware(&f->world[i], &f->world[k]);
            bool bits = class_of(f->verdict, i) == class_of(f->verdict, k);
            if (hardware && !bits)
                return false;
            equal += hardware && bits;
            apart += !hardware && !bits;
        }
    return equal > 0 && apart > 0;
}

/* ---- rules */

/* Fills a finding. Takes evidence, which is malloc'ed; NULL: no memory, which twin_diagnose
 * reports. */
static void say_source(struct twin_diagnosis_finding *d, enum twin_source source, char *evidence)
{
    assert((size_t)source < sizeof sources / sizeof *sources);
    d->source = source;
    d->name = sources[source].name;
    d->practice = sources[source].practice;
    d->evidence = evidence;
}

/* "processor model: EPYC 7763 against Xeon 8480". before: begins the sentence. malloc'ed. */
static char *change_text(const char *before, const struct twin_incident_world *w)
{
    return tw_printf("%s%s %s: %.80s against %.80s", before, w->group, w->what,
                     w->a ? w->a : "none", w->b ? w->b : "none");
}

/* Data, generators and initial values: what differs first there was drawn differently. */
static bool by_chance(const struct twin_finding *x)
{
    return x->phase == TWIN_PHASE_DATA || x->phase == TWIN_PHASE_RNG || x->phase == TWIN_PHASE_INIT;
}

/* Relative distance of the two values of a finding: of the sketch or of kept values; else a lower
 * bound from the norms and sums that were recorded with the tensor. NaN: not known. */
static double distance_of(const struct twin_finding *x)
{
    if (isfinite(x->rel_l2) && x->rel_l2 > 0)
        return x->rel_l2;
    double a = sqrt(x->stats_a.sumsq);
    double b = sqrt(x->stats_b.sumsq);
    double scale = fmax(a, b) * sqrt((double)x->stats_a.count);
    if (x->stats_a.count == 0 || x->stats_a.count != x->stats_b.count || !(scale > 0))
        return NAN;
    return fmax(fabs(a - b) / fmax(a, b), fabs(x->stats_a.sum - x->stats_b.sum) / scale);
}

/* Is this what another order of additions makes? A value that differs by a few roundings (64 ulp)
 * and is not known to come from different inputs; not in checkpoints or the environment, where
 * nothing is added up. */
static bool roundings(const struct twin_finding *x)
{
    return x->type == TWIN_FINDING_VALUE &&
           (distance_of(x) < ROUNDINGS || (isfinite(x->max_ulp) && x->max_ulp <= 64)) &&
           x->phase != TWIN_PHASE_CHECKPOINT && x->phase != TWIN_PHASE_ENVIRONMENT &&
           x->role != TWIN_CARRIER;
}

/* "first at step 17, rank 0, backward of w1", behind `before`. malloc'ed. */
static char *place_text(const char *before, const struct twin_finding *x)
{
    char *safe = tw_printable(x->name, strnlen(x->name, 120));
    struct tw_buf rank = {0};
    tw_say_rank(&rank, x);
    char *s = tw_printf("%sfirst at step %u, %s, %s of %s", before, x->step_a,
                        rank.data ? rank.data : "?", twin_phase_name(x->phase), safe ? safe : "?");
    tw_buf_free(&rank);
    tw_free(safe);
    return s;
}

/* The source of other numbers. The first rule that holds decides. */
static void numeric(const struct twin_diagnosis_facts *f, struct twin_diagnosis_finding *d)
{
    const struct twin_finding *first = f->verdict->first;
    const struct twin_incident_world *w;
    d->numeric = true;
    if ((w = in_any(f, is_ranks)) || (first && first->type == TWIN_FINDING_RANKS)) {
        say_source(d, TWIN_SOURCE_SCALING,
                   w ? change_text("", w) : tw_strdup("the runs have other numbers of ranks"));
    } else if (worlds_known(f) && bits_follow_hardware(f)) {
        w = in_any(f, is_hardware);
        say_source(
            d, TWIN_SOURCE_HETEROGENEITY,
            w ? change_text(
                    "runs on equal hardware agree bit for bit, on other hardware they diverge; ", w)
              : NULL);
    } else if ((w = in_any(f, is_decisive)) || (w = in_any(f, is_hardware))) {
        say_source(d, TWIN_SOURCE_WORLD, change_text("", w));
    } else if (first && by_chance(first)) {
        say_source(d, TWIN_SOURCE_RANDOMNESS, place_text("", first));
    } else if (first && worlds_known(f) && roundings(first)) {
        char size[96];
        snprintf(size, sizeof size,
                 "the worlds agree, inputs are equal, relative distance about %.0e; ",
                 distance_of(first));
        say_source(d, TWIN_SOURCE_REDUCTION_ORDER,
                   place_text(isfinite(distance_of(first))
                                  ? size
                                  : "the worlds agree, inputs are equal, a few ulp; ",
                              first));
    } else {
        say_source(d, TWIN_SOURCE_UNKNOWN,
                   first ? place_text("", first) : tw_strdup("no record says where"));
    }
}

/* The source of other speed. The hardware is blamed only when each run of A has other hardware than
 * each run of B. */
static void find_speed(const struct twin_diagnosis_facts *f, struct twin_diagnosis_finding *d)
{
    const struct twin_incident_world *ranks = in_any(f, is_ranks);
    bool other_hardware = worlds_known(f);
    d->speed = true;
    for (size_t i = 0; i < f->a; i++)
        for (size_t k = f->a; k < f->a + f->b; k++)
            other_hardware &= !same_hardware(&f->world[i], &f->world[k]);
    if (ranks) {
        say_source(d, TWIN_SOURCE_SCALING, change_text("", ranks));
    } else if (other_hardware) {
        say_source(d, TWIN_SOURCE_HETEROGENEITY, change_text("", in_any(f, is_hardware)));
    } else if (f->between && f->between->outcome == TWIN_DIP_FOUND &&
               f->between->cause != TWIN_CAUSE_UNKNOWN) {
        char *s = twin_dip_sentence(f->between);
        /* the sentence is "WHERE: CAUSE (COUNTERS)"; where is known here, so only the rest is
         * kept */
        const char *colon = s ? strstr(s, ": ") : NULL;
        d->source = TWIN_SOURCE_TELEMETRY;
        d->name = twin_cause_name(f->between->cause);
        d->practice = twin_cause_advice(f->between->cause);
        d->evidence = tw_strdup(colon ? colon + 2 : "");
        tw_free(s);
    } else {
        const struct twin_incident_world *w = in_any(f, is_decisive);
        const char *nothing = f->between ? "nothing that was recorded moved with it"
                                         : "no telemetry was recorded";
        if (w)
            say_source(d, TWIN_SOURCE_WORLD, change_text("", w));
        else
            say_source(d, TWIN_SOURCE_UNKNOWN, tw_strdup(nothing));
    }
}

/* The test over runs decides; with too few runs for it, the telemetry of two typical runs does. */
static bool speed_differs(const struct twin_diagnosis_facts *f)
{
    if (f->speed && f->speed->answer != TWIN_REAL_TOO_FEW)
        return f->speed->answer == TWIN_REAL;
    return f->between && f->between->outcome == TWIN_DIP_FOUND;
}

/* At most two findings: numbers, then speed. When both have one source they become one. */
int twin_diagnose(const struct twin_diagnosis_facts *f, struct twin_diagnosis *out,
                  struct twin_error *err)
{
    struct twin_diagnosis_finding of_speed = {.speed = true};
    *out = (struct twin_diagnosis){.count = 0};
    if (f->verdict && f->verdict->bitwise == TWIN_DIFFER)
        numeric(f, &out->finding[out->count++]);
    if (speed_differs(f)) {
        find_speed(f, &of_speed);
        if (out->count && out->finding[0].source == of_speed.source) {
            out->finding[0].speed = true;
            tw_free(of_speed.evidence);
        } else {
            out->finding[out->count++] = of_speed;
        }
    }
    for (size_t i = 0; i < out->count; i++)
        if (!out->finding[i].evidence) {
            twin_diagnosis_free(out);
            return tw_no_memory(err, "for a diagnosis");
        }
    return 0;
}

void twin_diagnosis_free(struct twin_diagnosis *d)
{
    for (size_t i = 0; i < d->count; i++)
        tw_free(d->finding[i].evidence);
    d->count = 0;
}
