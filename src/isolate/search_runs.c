/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runs that the search asks for: a world becomes a launch, and what came of it one result.
 * tw_isolate_run is the callback that twin_search is given; for each request it makes a trial
 * (src/trial), compares it with the reference, and learns what later runs and the report need.
 *
 * One run is made in this process. Several at the same time are made by workers, and what they show
 * is learned in the order of the requests, so that nothing depends on which run ended first. Runs
 * are kept in memory (search_made.c), since many are compared again.
 */
#include "search_runs.h"

#include "results_order.h"
#include "run_state.h"
#include "workers.h"

#include "base.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Notes what the search's log does not say. A run that was cut short, or out of time, says nothing
 * of how long the job takes. */
static int remember_made(struct tw_isolate *c, const struct twin_search_request *q,
                         const struct tw_trial *t)
{
    const struct twin_run *r = t->run;
    bool whole = t->end != TW_TRIAL_DIVERGED && t->end != TW_TRIAL_OUT_OF_TIME;
    struct tw_isolate_made m = {.number = q->number,
                                .handle = tw_isolate_handle(r),
                                .whole = whole,
                                .wall_s = r->wall_s,
                                .pinned = tw_isolate_pinned(c, q)};
    return tw_isolate_made_add(c, &m);
}

/* ---- what a run shows */

/* The first reason why a comparison proves little is kept for the report. */
static void note_unseen(struct tw_isolate *c, const struct twin_verdict *v)
{
    if (v->outcome == TWIN_INCONCLUSIVE && v->unseen_count && !c->unseen)
        c->unseen = tw_strdup(v->unseen[0]);
}

/* Adds the factors that neither run met, or both with one value, to *same. A run that was cut where
 * it diverged has not said everything, and is no evidence against what the others said: then all
 * count as common. */
static void note_common(struct tw_isolate *c, const struct twin_run *a, const struct twin_run *b,
                        bool cut, struct twin_search_set *same)
{
    assert(c->count <= TWIN_SEARCH_FACTORS);
    bool common[TWIN_SEARCH_FACTORS] = {false};
    if (cut)
        memset(common, true, sizeof common);
    else
        twin_factors_common(a, b, c->factor, c->count, common);
    c->common_known |= !cut;
    for (size_t i = 0; i < c->count && !cut; i++)
        if (strcmp(c->factor[i]->id, "match-order") == 0)
            common[i] = tw_isolate_order_common(a, b);
    /* also where executors were used: they told of all results in one order */
    for (size_t i = 0; i < c->count && !cut; i++)
        if (strcmp(c->factor[i]->id, "executor-order") == 0)
            common[i] = common[i] || tw_results_alike(a, b);
    /* where a run is made is known from its beginning, also of one that was cut */
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->factor[i]->id, "node") == 0)
            common[i] = tw_isolate_node_common(a, b);
    for (size_t i = 0; i < c->count; i++)
        if (common[i])
            same->word[i / 64] |= UINT64_C(1) << i % 64;
}

/* The first run of the same world that r agrees with, as far as both go; 0: none. It tells the
 * usual class of runs from a rare one. Comparisons that fail are passed over. */
static uint64_t agreeing(struct tw_isolate *c, const struct twin_search_set *pinned,
                         const struct twin_run *r)
{
    for (size_t i = 0; i < c->made_count; i++) {
        const struct tw_isolate_made *m = &c->made[i];
        bool alike = memcmp(&m->pinned, pinned, sizeof *pinned) == 0;
        const struct twin_run *other = alike ? tw_isolate_find(c, m->handle) : NULL;
        struct twin_verdict *v = NULL;
        if (!other || tw_isolate_compare_pair(c, other, r, &v, NULL) != 0)
            continue;
        bool differ = tw_isolate_parted(c, v);
        twin_verdict_free(v);
        if (!differ)
            return m->handle;
    }
    return 0;
}

/* Compares a run with its reference and fills the result: diverged or not, where, in which layer;
 * blind where only text or files differ. Also takes what a natural pair shows beside that: common
 * factors, the first divergence for the report, and what replays say of it. */
static int compare_with_reference(struct tw_isolate *c, const struct twin_search_request *q,
                                  const struct twin_run *reference, const struct twin_run *r,
                                  bool cut, struct twin_search_result *out, struct twin_error *err)
{
    struct twin_verdict *v = NULL;
    int rc = tw_isolate_compare_pair(c, reference, r, &v, err);
    if (rc == 0)
        rc = tw_isolate_clock(c, q, reference, r, &v, err);
    if (rc != 0) {
        twin_verdict_free(v);
        return rc;
    }
    /* Where they diverged, as far as a record says it. The steps count the divergent one as well.
     */
    const struct twin_finding *f = v->first;
    out->unseen = v->outcome == TWIN_INCONCLUSIVE;
    out->unjudged = out->unseen && v->unjudged;
    out->blind = out->unjudged || (out->unseen && v->nothing_compared);
    out->parted = tw_isolate_parted(c, v);
    out->steps = v->steps_compared;
    if (out->parted && f) {
        out->layer = twin_search_layer(f->layer);
        out->step = f->step_a;
        out->steps = (uint64_t)f->step_a + 1;
        /* No record differs, so what was printed or written does. */
    } else if (out->parted) {
        out->layer = twin_search_layer("artifact");
        out->steps = 1;
    }
    if (out->parted && !c->args.a) { /* of two commands only A's first run is the measure */
        struct twin_search_set pinned = tw_isolate_pinned(c, q);
        out->agrees = agreeing(c, &pinned, r);
    }
    /* What only natural pairs tell. */
    if (q->purpose == TWIN_FOR_BASELINE)
        note_common(c, reference, r, cut, &out->same);
    note_unseen(c, v);
    if (c->arms)
        tw_isolate_arms_learn(c, q, r, v);
    bool natural = q->purpose == TWIN_FOR_BASELINE || q->purpose == TWIN_FOR_FREE;
    /* The first natural divergence is what the report shows; of two arms, that of B with A. c owns
     * it then. */
    bool wanted = out->parted && !c->first && (c->arms ? tw_isolate_arms_unmixed(c, q) : natural);
    if (wanted)
        c->first = v;
    if (out->parted && natural && !c->args.through)
        out->vote = tw_isolate_replays(c, v, reference);
    if (!wanted)
        twin_verdict_free(v);
    return 0;
}

/* Whether a pin took effect is learned from the first run that had it. */
static void learn_effects(struct tw_isolate *c, const struct twin_world *w,
                          const struct twin_run *r)
{
    struct twin_world_effect *e = NULL;
    if (twin_world_effects(w, r, &e, NULL) != 0)
        return;
    for (size_t s = 0; s < w->count; s++)
        for (size_t i = 0; i < c->count; i++)
            if (c->factor[i] == w->setting[s].factor && !c->effect[i].text) {
                c->effect[i] = e[s];
                e[s].text = NULL;
            }
    twin_world_effects_free(e, w->count);
}

/* Goes through the log as if its runs were made now, but compares nothing. */
void tw_isolate_recall(struct tw_isolate *c)
{
    for (size_t i = 0; i < c->log.count; i++) {
        const struct twin_search_entry *e = &c->log.entry[i];
        const struct tw_isolate_made *m = tw_isolate_made(c, e->number);
        const struct twin_run *r = m ? tw_isolate_find(c, m->handle) : NULL;
        struct twin_world w;
        if (!r || tw_isolate_world(c, &m->pinned, &w) != 0)
            continue;
        if (m->whole && e->result.status == TWIN_ENDED_WELL &&
            (c->arms || e->purpose == TWIN_FOR_BASELINE))
            c->natural_s = fmax(c->natural_s, r->wall_s);
        if (c->arms)
            tw_isolate_arms_learn(c, NULL, r, NULL);
        else
            learn_effects(c, &w, r);
        if (!c->arms && e->result.status == TWIN_ENDED_WELL)
            tw_isolate_order_kept(c, &w, r, !m->whole);
        tw_free(w.setting);
    }
}

/* ---- one run */

static void title_of(const struct tw_isolate *c, const struct twin_search_request *q,
                     char title[64])
{
    size_t pinned = 0;
    if (c->arms) {
        tw_isolate_arms_title(c, q, title);
        return;
    }
    for (size_t i = 0; i < c->count; i++)
        pinned += q->setting[i].mode == TWIN_PIN;
    snprintf(title, 64, "run %-3u %-9s %2zu pinned ", q->number,
             twin_search_purpose_name(q->purpose), pinned);
}

/* A run from the request to the result. */
struct making {
    const struct twin_run *reference; /* the run to compare with; NULL: none */
    struct twin_world world;
    struct tw_trial trial; /* its run is NULL when it was not made, or is kept already */
};

/* What the trial is given: how long the job takes, a deadline, and the reference where the run may
 * be cut as soon as it has diverged. at_once: runs that share the machine, and slow each other
 * down. */
static struct tw_trial trial_for(const struct tw_isolate *c, const struct twin_search_request *q,
                                 const struct twin_run *reference, size_t at_once)
{
    struct tw_trial t = {.front = c->front, .expected_s = c->natural_s};
    /* The first pair of natural runs goes on to the end: what neither met cannot be the cause. */
    if (q->may_cut && !c->args.through &&
        (c->arms ? tw_isolate_arms_may_cut(c) : q->purpose != TWIN_FOR_BASELINE || c->common_known))
        t.reference = reference;
    t.how.ignore = c->args.ignore.items;
    t.how.ignore_count = c->args.ignore.count;
    if (c->natural_s > 0)
        t.deadline_ns = tw_patience_ends_ns(&tw_patience_under_pins,
                                            c->natural_s * (double)at_once);
    return t;
}

/* The command of a run. With --through a run without a reference, or that is one, is of A, and what
 * is compared with it is of B. */
static char *const *command_of(struct tw_isolate *c, const struct twin_search_request *q)
{
    bool of_a = !q->reference || q->purpose == TWIN_FOR_REFERENCE;
    if (!c->args.through)
        return c->argv;
    return of_a ? c->shell[0] : c->shell[1];
}

/* Starts the run: waits for its end, or, with workers, leaves that to them. */
static int launch_run(struct tw_isolate *c, const struct twin_search_request *q, struct making *m,
                      struct tw_workers *workers, struct twin_error *err)
{
    char *mix[4], *const *argv = c->arms ? mix : command_of(c, q);
    struct twin_world_plan p = {.cpu = -1};
    struct twin_launch_options o = tw_isolate_launch_options(c,
                                                             twin_search_purpose_name(q->purpose));
    int rc = c->arms ? tw_isolate_arms_command(c, q, mix, err) : 0;
    if (rc == 0)
        rc = twin_world_plan(&m->world, argv, &p, err);
    if (rc == 0)
        rc = twin_world_plan_apart(&p, &m->world, err);
    if (rc == 0 && q->purpose == TWIN_FOR_BASELINE && !c->arms)
        rc = twin_world_plan_watch(&p, err);
    o.argv = argv;
    if (rc == 0) {
        twin_world_plan_apply(&p, &o);
        tw_isolate_order_apply(c, &m->world, &o);
        tw_isolate_node_apply(c, &m->world, q, &o);
        rc = workers ? tw_workers_start(workers, &o, &m->trial, err)
                     : tw_trial_make(&m->trial, &o, err);
    }
    twin_world_plan_free(&p);
    return rc;
}

/* The line that a finished run leaves for the person, unless quiet. */
static void say_run(const struct tw_isolate *c, const struct twin_search_request *q,
                    const struct twin_run *r, const struct twin_search_result *x)
{
    char title[64], text[32];
    if (c->args.quiet)
        return;
    title_of(c, q, title);
    const char *state;
    if (x->status == TWIN_ENDED_STUCK)
        state = "stood still";
    else
        state = x->parted ? "diverged" : tw_run_state(r, text);
    tw_trial_line(c->front, title, r, state);
}

static enum twin_search_status status_of(const struct tw_trial *t)
{
    if (t->end == TW_TRIAL_INTERRUPTED)
        return TWIN_NOT_ENDED;
    if (t->end == TW_TRIAL_OUT_OF_TIME)
        return TWIN_ENDED_STUCK;
    return tw_run_failed(t->run) ? TWIN_ENDED_BADLY : TWIN_ENDED_WELL;
}

/* Makes a run, or starts it with workers. The run is made at the level at which its reference was
 * recorded, since runs of different levels have different records. */
static int make_run(struct tw_isolate *c, const struct twin_search_request *q, size_t at_once,
                    struct making *m, struct tw_workers *workers, struct twin_error *err)
{
    char title[64];
    *m = (struct making){.reference = q->reference ? tw_isolate_find(c, q->reference) : NULL};
    if (q->reference && !m->reference)
        return twin_error_set(
            err, TWIN_ENOENT,
            "the run that the next one is compared with is gone from %s; start the search anew",
            c->home);
    if (m->reference)
        c->level = m->reference->level;
    title_of(c, q, title);
    m->trial = trial_for(c, q, m->reference, at_once);
    m->trial.title = title;
    int rc = tw_isolate_world_of(c, q, &m->world);
    if (rc == 0)
        rc = launch_run(c, q, m, workers, err);
    m->trial.title = NULL;
    return rc;
}

/* Takes from a run what it shows, and fills *out; keeps the run, so that m has it no longer. */
static int learn_from_run(struct tw_isolate *c, const struct twin_search_request *q,
                          struct making *m, struct twin_search_result *out, struct twin_error *err)
{
    struct twin_run *r = m->trial.run;
    int rc = 0;
    *out = (struct twin_search_result){
        .status = status_of(&m->trial), .layer = -1, .handle = tw_isolate_handle(r)};
    if ((q->purpose == TWIN_FOR_BASELINE || c->arms) && m->trial.end != TW_TRIAL_DIVERGED &&
        out->status == TWIN_ENDED_WELL)
        c->natural_s = fmax(c->natural_s, r->wall_s);
    if (c->arms)
        tw_isolate_arms_learn(c, q, r, NULL);
    else
        learn_effects(c, &m->world, r);
    /* under a pin that did not hold it counts as a run that the pin does not let end */
    if (!c->arms && out->status == TWIN_ENDED_WELL &&
        !tw_isolate_order_kept(c, &m->world, r, m->trial.end == TW_TRIAL_DIVERGED))
        out->status = TWIN_ENDED_BADLY;
    if (m->reference && out->status == TWIN_ENDED_WELL)
        rc = compare_with_reference(c, q, m->reference, r, m->trial.end == TW_TRIAL_DIVERGED, out,
                                    err);
    if (c->args.through && q->purpose == TWIN_FOR_REFERENCE)
        out->parted = m->reference != NULL; /* a run of A that agrees with A says nothing of B */
    bool badly = out->status == TWIN_ENDED_BADLY || out->status == TWIN_ENDED_STUCK;
    if (rc == 0 && badly && m->reference) {
        out->parted = true; /* its reference did end well */
        out->layer = twin_search_layer("environment");
    }
    if (rc == 0)
        rc = remember_made(c, q, &m->trial);
    if (rc == 0)
        say_run(c, q, r, out);
    if (rc == 0)
        rc = tw_isolate_keep(c, r);
    if (rc == 0)
        m->trial.run = NULL;
    return rc;
}

static void unmake(struct making *m)
{
    twin_run_free(m->trial.run);
    tw_free(m->world.setting);
}

/* One request, made here and at once. */
static int run_one(struct tw_isolate *c, const struct twin_search_request *q,
                   struct twin_search_result *out, struct twin_error *err)
{
    struct making m;
    uint64_t began = tw_monotonic_ns();
    int rc = make_run(c, q, 1, &m, NULL, err);
    if (rc == 0)
        rc = learn_from_run(c, q, &m, out, err);
    if (rc == TWIN_EINTR)
        rc = 0; /* before it began: *out says that it has not ended */
    unmake(&m);
    out->seconds = (double)(tw_monotonic_ns() - began) * 1e-9;
    return rc;
}

/* The first run shows whether the usual level sees anything. If not, it is made once more at the
 * level that does, and both count as the time of this run. */
static int one_at_the_right_level(struct tw_isolate *c, const struct twin_search_request *q,
                                  struct twin_search_result *out, struct twin_error *err)
{
    int rc = run_one(c, q, out, err);
    bool first = rc == 0 && !q->reference && q->purpose == TWIN_FOR_BASELINE;
    bool ended = out->status == TWIN_ENDED_WELL && !tw_front_stops(c->front);
    const struct twin_run *r = first && ended ? tw_isolate_find(c, out->handle) : NULL;
    if (!r || tw_run_level_that_sees(r) == c->level)
        return rc;
    c->level = tw_run_level_that_sees(r);
    double seconds = out->seconds;
    rc = run_one(c, q, out, err);
    out->seconds += seconds;
    return rc;
}

/* A vote zooms into two runs that are there already, in the world of the request. */
static int vote_on_pair(struct tw_isolate *c, const struct twin_search_request *q,
                        struct twin_search_result *out, struct twin_error *err)
{
    struct twin_world w;
    int rc = tw_isolate_world_of(c, q, &w);
    if (rc == 0)
        rc = tw_isolate_vote(c, &w, q, out, err);
    tw_free(w.setting);
    return rc;
}

/* What is learned is learned in the order of the requests, whichever run ends first. */
static int learn_all(struct tw_isolate *c, const struct twin_search_request *q, struct making *m,
                     struct tw_workers *w, struct twin_search_result *out, struct twin_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < w->count; i++) {
        struct tw_worker *worker = &w->worker[i];
        if (worker->rc == TWIN_EINTR) {
            c->interrupted = true;
        } else if (worker->rc != 0) {
            rc = rc ? rc : twin_error_set(err, worker->rc, "%s", worker->err.message);
        } else {
            m[i].trial = worker->trial;
            worker->trial.run = NULL;
            int one_rc = learn_from_run(c, &q[i], &m[i], &out[i], err);
            rc = rc ? rc : one_rc;
            c->interrupted |= one_rc == 0 && out[i].status == TWIN_NOT_ENDED;
        }
    }
    c->interrupted |= w->interrupted || tw_front_stops(c->front);
    return rc;
}

/* Makes n runs at the same time. They count as long as the batch took, which is what they cost of
 * --max-time. */
static int run_several(struct tw_isolate *c, const struct twin_search_request *q, size_t n,
                       struct twin_search_result *out, struct twin_error *err)
{
    assert(n > 1);
    struct tw_workers w;
    char title[64];
    size_t begun = 0;
    uint64_t began = tw_monotonic_ns();
    struct making *m = tw_calloc(n, sizeof *m);
    if (!m)
        return tw_no_memory(err, "for %zu runs at the same time", n);
    int rc = tw_workers_open(&w, c->front, n, err);
    /* begun counts the one that failed as well, since it has to be unmade */
    for (; rc == 0 && begun < n; begun++)
        rc = make_run(c, &q[begun], n, &m[begun], &w, err);
    if (rc == 0) {
        snprintf(title, sizeof title, "runs %u to %u %s", q[0].number, q[n - 1].number,
                 twin_search_purpose_name(q[0].purpose));
        tw_workers_wait(&w, title, c->natural_s);
        rc = learn_all(c, q, m, &w, out, err);
    }
    tw_workers_close(&w);
    for (size_t i = 0; i < begun; i++) {
        unmake(&m[i]);
        out[i].seconds = (double)(tw_monotonic_ns() - began) * 1e-9;
    }
    tw_free(m);
    return rc;
}

/* Every result says "not ended" until its run has come to an end. */
int tw_isolate_run(void *user, const struct twin_search_request *request, size_t n,
                   struct twin_search_result *out, struct twin_error *err)
{
    struct tw_isolate *c = user;
    for (size_t i = 0; i < n; i++)
        out[i] = (struct twin_search_result){.status = TWIN_NOT_ENDED, .layer = -1};
    if (n > 1)
        return run_several(c, request, n, out, err);
    /* what two commands compute is no question for a replay */
    if (request->purpose == TWIN_FOR_VOTE && c->args.through) {
        *out = (struct twin_search_result){
            .status = TWIN_ENDED_WELL, .layer = -1, .handle = request->reference};
        return 0;
    }
    int rc = request->purpose == TWIN_FOR_VOTE ? vote_on_pair(c, request, out, err)
                                               : one_at_the_right_level(c, request, out, err);
    c->interrupted |= tw_front_stops(c->front) || (rc == 0 && out->status == TWIN_NOT_ENDED);
    return rc;
}
