/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events: what a comparison, a run or a happening adds to each indicator that counts.
 *
 * A run counts once as a repeat, however often it was compared: who diffs one good pair a hundred
 * times has one good event. A bad comparison outweighs a good one of the same run. Runs with
 * different inputs are different jobs, and say nothing of each other.
 */
#include "slo_inside.h"

#include "base.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct slo_event *add_event(struct slo_events *out, enum tw_slo_id id,
                                   enum slo_outcome outcome, int64_t time_ns, uint64_t count)
{
    if (out->count == out->room) {
        size_t room = out->room ? 2 * out->room : 256;
        struct slo_event *grown = tw_reallocarray(out->item, room, sizeof *grown);
        if (!grown)
            return NULL;
        out->item = grown;
        out->room = room;
    }
    struct slo_event *e = &out->item[out->count++];
    *e = (struct slo_event){.id = id,
                            .outcome = outcome,
                            .time_ns = time_ns,
                            .count = count,
                            .value = NAN,
                            .project = "",
                            .family = "",
                            .contributor = "",
                            .run = "",
                            .cause = ""};
    return e;
}

/* The same of a run. False: no memory. */
static bool add_of_run(struct slo_events *out, enum tw_slo_id id, enum slo_outcome outcome,
                       int64_t time_ns, uint64_t count, const struct slo_run *r, const char *cause)
{
    struct slo_event *e = count ? add_event(out, id, outcome, time_ns, count) : NULL;
    if (!e)
        return !count;
    e->project = r->project;
    e->family = r->family;
    e->contributor = r->contributor;
    e->run = r->id;
    e->cause = cause;
    return true;
}

/* ---- causes */

static bool word_is(const char *a, const char *b)
{
    return slo_text_order(a, b) == 0;
}

/* Why a comparison diverged: what isolate found for the same command, the newest such answer, else
 * the layer of the first divergence. */
static const char *cause_of(const struct tw_slo_history *h, const struct slo_comparison *c)
{
    for (size_t i = h->isolations; i-- > 0;) {
        const struct slo_comparison *x = &h->comparison[h->isolated[i]];
        if (word_is(x->command, c->command))
            return x->cause;
    }
    return c->layer;
}

/* ---- M1, M2, time to reproduce: comparisons of repeats */

/* What is known of a run as a repeat, over all comparisons that it took part in. */
struct repeat {
    bool seen, checkpoints;
    enum slo_outcome outcome;
    int64_t time_ns;
    const struct slo_comparison *by;
};

/* Two runs of the same inputs? Where the inputs of one are not known, the commands decide, which
 * are equal in a comparison of repeats. */
bool slo_same_inputs(const struct slo_run *a, const struct slo_run *b)
{
    return !*a->inputs || !*b->inputs || word_is(a->inputs, b->inputs);
}

static enum slo_outcome outcome_of(enum twin_ledger_agreed a)
{
    if (a == TWIN_AGREED)
        return SLO_GOOD;
    return a == TWIN_AGREED_NOT ? SLO_BAD : SLO_OPEN;
}

/* Bad outweighs good, and good what is not known; of equals the first one counts. */
static int weight_of(enum slo_outcome o)
{
    static const int weight[] = {[SLO_GOOD] = 1, [SLO_BAD] = 2, [SLO_OPEN] = 0};
    return weight[o];
}

static void see_repeats(const struct tw_slo_history *h, struct repeat *repeat,
                        const struct slo_comparison *c)
{
    for (size_t i = 1; i < c->count; i++) {
        struct repeat *r = &repeat[c->run[i]];
        const enum slo_outcome o = outcome_of(c->agreed[i]);
        if (!slo_same_inputs(&h->run[c->run[0]], &h->run[c->run[i]]))
            continue;
        if (r->seen && weight_of(o) <= weight_of(r->outcome))
            continue;
        *r = (struct repeat){true, r->checkpoints, o, c->time_ns, c};
    }
}

/* Checkpoints are counted by comparison, so one that has a new run counts whole. */
static bool add_checkpoints(const struct tw_slo_history *h, struct repeat *repeat,
                            const struct slo_comparison *c, struct slo_events *out)
{
    const struct twin_ledger_checkpoints *k = &c->checkpoints;
    bool fresh = false;
    if (k->compared < 0 || k->same < 0 || k->unknown < 0 || k->missing < 0 ||
        k->same > k->compared - k->unknown)
        return true; /* not said, or damaged */
    for (size_t i = 1; i < c->count; i++) {
        if (!slo_same_inputs(&h->run[c->run[0]], &h->run[c->run[i]]))
            return true;
        fresh |= !repeat[c->run[i]].checkpoints;
        repeat[c->run[i]].checkpoints = true;
    }
    if (!fresh)
        return true;
    const struct slo_run *r = &h->run[c->run[c->count - 1]];
    const uint64_t bad = (uint64_t)(k->compared - k->same - k->unknown);
    const uint64_t open = (uint64_t)k->unknown + (uint64_t)k->missing;
    const enum tw_slo_id id = TW_SLO_CHECKPOINTS;
    return add_of_run(out, id, SLO_GOOD, c->time_ns, (uint64_t)k->same, r, "") &&
           add_of_run(out, id, SLO_BAD, c->time_ns, bad, r, cause_of(h, c)) &&
           add_of_run(out, id, SLO_OPEN, c->time_ns, open, r, "");
}

/* From the start of the first repeat to the verdict that all agreed. */
static bool add_time(const struct tw_slo_history *h, const struct slo_comparison *c,
                     struct slo_events *out)
{
    const struct slo_run *r = &h->run[c->run[1]];
    const double seconds = (double)(c->time_ns - r->start_ns) / 1e9;
    for (size_t i = 1; i < c->count; i++)
        if (c->agreed[i] != TWIN_AGREED || !slo_same_inputs(&h->run[c->run[0]], &h->run[c->run[i]]))
            return true;
    /* diff is asked whenever somebody likes: its time is no measure */
    if (!word_is(c->verb, "check") || !r->recorded || seconds < 0)
        return true;
    if (!add_of_run(out, TW_SLO_REPRODUCE, SLO_GOOD, c->time_ns, 1, r, ""))
        return false;
    out->item[out->count - 1].value = seconds;
    return true;
}

static bool add_repeats(const struct tw_slo_history *h, struct slo_events *out)
{
    struct repeat *repeat = tw_calloc(h->runs + 1, sizeof *repeat);
    bool ok = repeat != NULL;
    for (size_t i = 0; ok && i < h->comparisons; i++) {
        const struct slo_comparison *c = &h->comparison[i];
        if (!c->repeats || c->count < 2)
            continue;
        see_repeats(h, repeat, c);
        ok = add_checkpoints(h, repeat, c, out) && add_time(h, c, out);
    }
    for (size_t i = 0; ok && i < h->runs; i++) {
        const struct repeat *r = &repeat[i];
        if (r->seen)
            ok = add_of_run(out, TW_SLO_RUNS, r->outcome, r->time_ns, 1, &h->run[i],
                            r->outcome == SLO_BAD ? cause_of(h, r->by) : "");
    }
    tw_free(repeat);
    return ok;
}

/* ---- M4: CI results */

/* A result of CI: what was judged, and how. key: what is the same when only chance can change it.
 */
struct result {
    const char *inputs, *verb, *command;
    const struct slo_comparison *c;
    const struct slo_run *run;
};

static int by_key(const void *x, const void *y)
{
    const struct result *a = x, *b = y;
    int order = slo_text_order(a->inputs, b->inputs);
    order = order ? order : slo_text_order(a->verb, b->verb);
    order = order ? order : slo_text_order(a->command, b->command);
    if (order)
        return order;
    return (a->c->time_ns > b->c->time_ns) - (a->c->time_ns < b->c->time_ns);
}

static enum slo_outcome passed(const struct slo_comparison *c)
{
    if (word_is(c->outcome, "same") || word_is(c->outcome, "within-tolerance"))
        return SLO_GOOD;
    return word_is(c->outcome, "differ") ? SLO_BAD : SLO_OPEN;
}

/* Results of one key, one behind the other: each settled one is held against the settled one before
 * it. The first of a key is no event, since nothing could have changed. */
static bool add_flakes_of(const struct result *r, size_t n, const struct tw_slo_history *h,
                          struct slo_events *out)
{
    enum slo_outcome before = SLO_OPEN;
    for (size_t i = 0; i < n; i++) {
        const enum slo_outcome now = passed(r[i].c);
        const bool first = before == SLO_OPEN;
        enum slo_outcome event = now == before ? SLO_GOOD : SLO_BAD;
        if (now == SLO_OPEN || !*r[i].inputs)
            event = SLO_OPEN;
        if (now != SLO_OPEN)
            before = now;
        if (first && event != SLO_OPEN)
            continue;
        if (!add_of_run(out, TW_SLO_FLAKES, event, r[i].c->time_ns, 1, r[i].run,
                        event == SLO_BAD ? cause_of(h, r[i].c) : ""))
            return false;
    }
    return true;
}

static bool add_flakes(const struct tw_slo_history *h, struct slo_events *out)
{
    struct result *all = tw_calloc(h->comparisons + 1, sizeof *all);
    size_t n = 0;
    bool ok = all != NULL;
    for (size_t i = 0; ok && i < h->comparisons; i++) {
        const struct slo_comparison *c = &h->comparison[i];
        const struct slo_run *run = c->count ? &h->run[c->run[c->count - 1]] : NULL;
        if (run && run->ci &&
            (word_is(c->verb, "check") || word_is(c->verb, "gate") || word_is(c->verb, "diff")))
            all[n++] = (struct result){run->inputs, c->verb, c->command, c, run};
    }
    if (n)
        qsort(all, n, sizeof *all, by_key);
    for (size_t i = 0, end; ok && i < n; i = end) {
        for (end = i + 1; end < n && word_is(all[end].inputs, all[i].inputs) &&
                          word_is(all[end].verb, all[i].verb) &&
                          word_is(all[end].command, all[i].command);)
            end++;
        ok = add_flakes_of(all + i, end - i, h, out);
    }
    tw_free(all);
    return ok;
}

/* ---- M5, M6: runs; M5, M8, M9, provenance: what happened */

static bool add_runs(const struct tw_slo_history *h, struct slo_events *out)
{
    bool ok = true;
    for (size_t i = 0; ok && i < h->runs; i++) {
        const struct slo_run *r = &h->run[i];
        if (!r->recorded)
            continue;
        ok = add_of_run(out, TW_SLO_DATA, r->snapshots > 0 ? SLO_GOOD : SLO_OPEN, r->start_ns, 1, r,
                        "");
        if (!ok || r->deterministic != 1)
            continue;
        enum slo_outcome o = r->nondeterministic < 0 ? SLO_OPEN : SLO_GOOD;
        if (r->nondeterministic > 0)
            o = SLO_BAD;
        ok = add_of_run(out, TW_SLO_OPERATORS, o, r->start_ns,
                        o == SLO_BAD ? (uint64_t)r->nondeterministic : 1, r,
                        o == SLO_BAD ? "nondeterministic operators" : "");
    }
    return ok;
}

static int by_run_id(const void *x, const void *y)
{
    return strcmp(((const struct slo_run *)x)->id, ((const struct slo_run *)y)->id);
}

/* An event that says of a recorded run that it was drawn to be repeated and was not: it is that
 * run's, and no event once a repeat was compared after all. */
static bool is_answered(const struct tw_slo_history *h, const struct slo_happened *x,
                        const struct slo_run **run)
{
    const struct slo_run key = {.id = x->run};
    *run = h->runs ? bsearch(&key, h->run, h->runs, sizeof key, by_run_id) : NULL;
    if (*run && !(*run)->recorded)
        *run = NULL; /* nothing but its id is known */
    for (size_t i = 0; *run && i < h->comparisons; i++) {
        const struct slo_comparison *c = &h->comparison[i];
        if (c->repeats && c->count > 1 && &h->run[c->run[0]] == *run && word_is(c->verb, "shadow"))
            return true;
    }
    return false;
}

static bool add_happened(const struct tw_slo_history *h, struct slo_events *out)
{
    static const struct {
        const char *kind, *outcome;
        enum tw_slo_id id;
        enum slo_outcome means;
    } table[] = {
        /* a match is counted by the runs that were made on it */
        {"snapshot", "mismatch", TW_SLO_DATA, SLO_BAD},
        {"rollback", "restored", TW_SLO_ROLLBACKS, SLO_GOOD},
        {"rollback", "failed", TW_SLO_ROLLBACKS, SLO_BAD},
        {"drill", "restored", TW_SLO_ROLLBACKS, SLO_GOOD},
        {"drill", "failed", TW_SLO_ROLLBACKS, SLO_BAD},
        {"artifact", "verified", TW_SLO_ARTIFACTS, SLO_GOOD},
        {"artifact", "failed", TW_SLO_ARTIFACTS, SLO_BAD},
        {"artifact", "unsigned", TW_SLO_ARTIFACTS, SLO_BAD},
        {"artifact", "open", TW_SLO_ARTIFACTS, SLO_OPEN},
        {"audit", "pass", TW_SLO_PROVENANCE, SLO_GOOD},
        {"audit", "fail", TW_SLO_PROVENANCE, SLO_BAD},
        /* drawn to be repeated, and it could not be, or nothing could be said of it */
        {"shadow", "not-repeated", TW_SLO_RUNS, SLO_OPEN},
    };
    for (size_t i = 0; i < h->happenings; i++) {
        const struct slo_happened *x = &h->happened[i];
        for (size_t k = 0; k < sizeof table / sizeof table[0]; k++) {
            if (!word_is(x->kind, table[k].kind) || !word_is(x->outcome, table[k].outcome))
                continue;
            const struct slo_run *run = NULL;
            if (word_is(x->kind, "shadow") && is_answered(h, x, &run))
                continue;
            struct slo_event *e = add_event(out, table[k].id, table[k].means, x->time_ns, 1);
            if (!e)
                return false;
            e->project = run ? run->project : x->project;
            e->family = run ? run->family : x->family;
            e->contributor = run ? run->contributor : x->contributor;
            e->run = x->run;
            e->cause = x->subject;
        }
    }
    return true;
}

int slo_events_make(const struct tw_slo_history *h, struct slo_events *out, struct twin_error *err)
{
    *out = (struct slo_events){.count = 0};
    if (!add_repeats(h, out) || !add_flakes(h, out) || !add_runs(h, out) || !add_happened(h, out))
        return tw_no_memory(err, "for the events of the ledger");
    return 0;
}
