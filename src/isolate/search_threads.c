/* SPDX-License-Identifier: Apache-2.0 */
/*
 * isolate --a CMD --b CMD, when a cause is isolated and A and B computed with other numbers of
 * PyTorch's threads: does what was found act through that number? Fresh runs of B, some with A's
 * numbers and some as they are, in an arrangement that is drawn beforehand. Only where all with A's
 * numbers agree with A, and all others diverge, it does. Whatever the cause is named, a number of
 * threads is never one because it is another one.
 *
 * cmd/isolate.c calls this after the search. It ends at the first run that decides.
 */
#include "search_inside.h"
#include "search_runs.h"

#include "run_state.h"

#include "base.h"

#include <stdio.h>
#include <string.h>

/* Of C(7, 3) = 35 arrangements one looks as convincing as that in which all free runs diverge and
 * all held ones agree: p = 1/35. */
enum { FREE = 4, HELD = TW_ISOLATE_THREADS - FREE, ARRANGEMENTS = 35 };
_Static_assert(TW_ISOLATE_THREADS == 7 && HELD == 3, "C(7, 3)");

/* The first run that ended well for this purpose: of A or of B. NULL: none, or it is gone. */
static const struct twin_run *first_for(struct tw_isolate *c, enum twin_search_purpose purpose)
{
    for (size_t i = 0; i < c->log.count; i++) {
        const struct twin_search_entry *e = &c->log.entry[i];
        if (e->purpose == (uint32_t)purpose && e->result.status == TWIN_ENDED_WELL)
            return tw_isolate_find(c, e->result.handle);
    }
    return NULL;
}

/* A run of B, with A's numbers or as it is. NULL: it was not made, or the person wants an end. */
static struct twin_run *run_b(struct tw_isolate *c, bool held)
{
    struct tw_isolate_threads *x = &c->threads;
    struct tw_trial trial = {
        .front = c->front,
        .title = held ? "B, A's threads " : "B again ",
        .expected_s = c->natural_s,
        .deadline_ns = tw_patience_ends_ns(&tw_patience_under_pins, c->natural_s)};
    struct twin_launch_options o = tw_isolate_launch_options(c, held ? "b-held" : "b-again");
    struct twin_world_plan p = {.cpu = -1};
    const struct twin_world *world = tw_isolate_arms_held(c);
    char *argv[4];
    tw_shell_argv((char *)c->args.b, argv);
    o.argv = argv;
    o.level = x->reference->level;
    int rc = twin_world_plan(world, argv, &p, NULL);
    if (rc == 0)
        rc = twin_world_plan_apart(&p, world, NULL);
    if (rc == 0 && held)
        rc = twin_world_plan_variable(&p, tw_strdup(x->held.variable), NULL);
    if (rc == 0) {
        twin_world_plan_apply(&p, &o);
        rc = tw_isolate_make(c, &trial, &o, NULL);
    }
    twin_world_plan_free(&p);
    if (rc == 0 && !tw_isolate_stops(c))
        return trial.run;
    twin_run_free(trial.run);
    return NULL;
}

/* What one run says: the experiment goes on, or how it ends. */
static enum tw_isolate_threads_end judge(struct tw_isolate *c, const struct twin_run *run,
                                         bool held, bool *parted)
{
    struct tw_isolate_threads *x = &c->threads;
    struct twin_verdict *v = NULL;
    if (tw_run_failed(run))
        return TW_THREADS_FAILED;
    const bool as_a = tw_held_threads_kept(&x->held, run);
    if (held != as_a) /* by its own words */
        return held ? TW_THREADS_NOT_HELD : TW_THREADS_ALIKE;
    const int rc = tw_isolate_compare_pair(c, x->reference, run, &v, NULL);
    *parted = rc == 0 && tw_isolate_parted(c, v);
    const bool blind = rc != 0 || (!*parted && v->outcome == TWIN_INCONCLUSIVE);
    twin_verdict_free(v);
    if (blind)
        return TW_THREADS_FAILED;
    if (held && *parted)
        return TW_THREADS_NOT_ALONE;
    return !held && !*parted ? TW_THREADS_GONE : TW_THREADS_THROUGH;
}

/* The line that such a run leaves, numbered on behind those of the search. */
static void say_run(const struct tw_isolate *c, const struct twin_run *run, bool held, bool parted)
{
    char title[64], text[32];
    if (c->args.quiet)
        return;
    snprintf(title, sizeof title, "run %-3zu %-9s %-14s ", c->log.count + c->threads.trials + 1,
             "threads", held ? "b, a's threads" : "b");
    tw_trial_line(c->front, title, run, parted ? "diverged" : tw_run_state(run, text));
}

void tw_isolate_try_threads(struct tw_isolate *c, const struct twin_search_report *r)
{
    struct tw_isolate_threads *x = &c->threads;
    double limit = (double)c->args.max_time;
    bool time_left = limit <= 0 || r->seconds + TW_ISOLATE_THREADS * c->natural_s < limit;
    uint32_t kind[TW_ISOLATE_THREADS] = {0};
    if (!c->arms || r->outcome != TWIN_SEARCH_ISOLATED || !time_left || tw_isolate_stops(c))
        return;
    const struct twin_run *a = first_for(c, TWIN_FOR_REFERENCE);
    const struct twin_run *b = first_for(c, TWIN_FOR_BASELINE);
    if (!a || !b || !tw_held_threads_of(a, b, &x->held))
        return;
    x->reference = a;
    for (size_t i = FREE; i < TW_ISOLATE_THREADS; i++)
        kind[i] = 1;
    tw_block_draw(r->seed, UINT32_MAX, 0, kind, TW_ISOLATE_THREADS); /* no confirmation's number */
    for (size_t i = 0; i < TW_ISOLATE_THREADS; i++)
        x->order[i] = kind[i] ? 'H' : 'F';
    x->end = TW_THREADS_THROUGH;
    for (size_t i = 0; i < TW_ISOLATE_THREADS && x->end == TW_THREADS_THROUGH; i++) {
        struct twin_run *run = run_b(c, kind[i]);
        bool parted = false;
        x->end = run ? judge(c, run, kind[i], &parted) : TW_THREADS_FAILED;
        if (run)
            say_run(c, run, kind[i], parted);
        if (!run || tw_isolate_keep(c, run) != 0) {
            twin_run_free(run);
            x->end = TW_THREADS_FAILED;
            return;
        }
        x->run[x->trials++] = run;
        x->held_parted += kind[i] && parted;
        x->free_parted += !kind[i] && parted;
        x->held_trials += kind[i];
    }
}

double tw_isolate_threads_p(const struct tw_isolate_threads *x)
{
    return x->end == TW_THREADS_THROUGH && x->trials == TW_ISOLATE_THREADS ? 1. / ARRANGEMENTS : 1;
}

char *tw_isolate_threads_text(const struct tw_isolate *c)
{
    const struct tw_isolate_threads *x = &c->threads;
    if (!x->held.variable)
        return NULL;
    switch (x->end) {
    case TW_THREADS_THROUGH:
        return tw_printf("B with A's number of threads of PyTorch (%s) agrees with A in %zu of %zu "
                         "runs, B as it is in 0 of %zu, in an order drawn beforehand (p = %.2g): "
                         "the difference goes away with that number, too",
                         x->held.words, x->held_trials, x->held_trials, x->free_parted,
                         tw_isolate_threads_p(x));
    case TW_THREADS_NOT_ALONE:
        return tw_printf("B with A's number of threads of PyTorch (%s) still diverges from A: the "
                         "difference does not go away with that number alone",
                         x->held.words);
    case TW_THREADS_NOT_HELD:
        return tw_printf("B could not be held at A's number of threads of PyTorch (%s): whether "
                         "what was found acts through it is not known",
                         x->held.words);
    case TW_THREADS_ALIKE:
        return tw_printf("B as it is computed with A's number of threads of PyTorch (%s) by itself "
                         "in one of the runs that were to tell whether what was found acts through "
                         "it: that is not known",
                         x->held.words);
    case TW_THREADS_GONE:
        return tw_printf("B as it is agreed with A in one of the runs that were to tell whether "
                         "what was found acts through A's number of threads of PyTorch (%s): that "
                         "is not known",
                         x->held.words);
    default:
        return tw_printf("whether what was found acts through A's number of threads of PyTorch "
                         "(%s) was not found out: a run failed, or could not be judged",
                         x->held.words);
    }
}
