/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock experiment of a search. Where runs of one world differ in numbers of which it is not
 * known whether they are times, the job runs twice more in that world under clocks that run faster,
 * as in check; from then on runs of that world are compared in that light. So what a job prints of
 * its own speed is no divergence, and the clock is not named for it.
 *
 * search_runs.c calls this after each comparison. At most TW_ISOLATE_CLOCKS worlds have an
 * experiment, each one only; what it showed is in the log, so that a resumed search does not repeat
 * it.
 */
#include "search_runs.h"

#include "faster.h"
#include "run_state.h"

#include "base.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const char note_begins[] = "clock experiment: ";

/* The experiment in a run's own world; NULL: none. */
static const struct tw_isolate_clock *of_world(const struct tw_isolate *c,
                                               const struct twin_search_set *pinned)
{
    for (size_t i = 0; i < c->clock_count; i++)
        if (memcmp(&c->clock[i].pinned, pinned, sizeof *pinned) == 0)
            return &c->clock[i];
    return NULL;
}

/* What was pinned in a run; NULL: nothing is known of it. */
static const struct twin_search_set *pins_of(const struct tw_isolate *c, const struct twin_run *r)
{
    uint64_t handle = tw_isolate_handle(r);
    for (size_t i = c->made_count; i-- > 0;)
        if (c->made[i].handle == handle)
            return &c->made[i].pinned;
    return NULL;
}

void tw_isolate_clock_add(struct tw_isolate *c, const struct twin_run *first,
                          struct twin_compare_options *o)
{
    const struct twin_search_set *pinned = c->clock_count && !c->args.through ? pins_of(c, first)
                                                                              : NULL;
    const struct tw_isolate_clock *k = pinned ? of_world(c, pinned) : NULL;
    const struct twin_run *run[TW_FASTER_RUNS] = {NULL, NULL};
    for (int i = 0; k && i < TW_FASTER_RUNS; i++)
        run[i] = k->run[i] ? tw_isolate_find(c, k->run[i]) : NULL;
    if (run[0] && run[1])
        memcpy(o->faster, run, sizeof run);
}

int tw_isolate_compare_pair(struct tw_isolate *c, const struct twin_run *a,
                            const struct twin_run *b, struct twin_verdict **v,
                            struct twin_error *err)
{
    const struct twin_run *pair[2] = {a, b};
    struct twin_compare_options o = tw_isolate_compare_options(c);
    tw_isolate_clock_add(c, a, &o);
    int rc = twin_compare(pair, 2, &o, v, err);
    if (rc != 0 || !o.arms || (*v)->outcome != TWIN_INCONCLUSIVE || (*v)->records_a)
        return rc;
    /* Different commands print different things by nature; but where nothing was recorded that is
     * all there is to judge by. */
    twin_verdict_free(*v);
    o.arms = o.find_shift = false;
    return twin_compare(pair, 2, &o, v, err);
}

/* Makes one run whose clocks are faster, of the job or of A; returns its handle. 0: it was not
 * made, or not to its end. */
static uint64_t run_faster(struct tw_isolate *c, const struct twin_world *w, int i)
{
    char title[48], state[32], *of_a[4];
    struct tw_trial trial = {.front = c->front,
                             .title = title,
                             .expected_s = c->natural_s,
                             .deadline_ns = tw_faster_limit_ns(c->natural_s)};
    struct twin_launch_options o = tw_isolate_launch_options(c, "clock");
    struct twin_world_plan p = {.cpu = -1};
    snprintf(title, sizeof title, "clock x%u ", tw_faster_factor(i));
    tw_shell_argv(c->args.a ? c->args.a : "", of_a);
    if (c->arms)
        o.argv = of_a;
    bool made = twin_world_plan(w, o.argv, &p, NULL) == 0 &&
                twin_world_plan_apart(&p, w, NULL) == 0 &&
                twin_world_plan_faster(&p, tw_faster_factor(i), tw_faster_since(), NULL) == 0;
    twin_world_plan_apply(&p, &o);
    tw_isolate_order_apply(c, w, &o);
    made = made && tw_isolate_make(c, &trial, &o, NULL) == 0 && trial.end != TW_TRIAL_OUT_OF_TIME &&
           !tw_isolate_stops(c);
    twin_world_plan_free(&p);
    if (made && !c->args.quiet)
        tw_trial_line(c->front, title, trial.run, tw_run_state(trial.run, state));
    if (made && tw_isolate_keep(c, trial.run) == 0)
        return tw_isolate_handle(trial.run);
    twin_run_free(trial.run);
    return 0;
}

/* Is an experiment in place? Only where the verdict leaves numbers open, and both runs are of one
 * world that has none yet. Under pins a difference in text counts with --text alone, so it is asked
 * only then. */
static bool is_wanted(const struct tw_isolate *c, const struct twin_search_request *q,
                      const struct twin_search_set *pinned, const struct twin_verdict *v)
{
    const struct twin_search_set none = {{0}};
    bool open = v->outcome == TWIN_INCONCLUSIVE && v->open_numbers;
    if (!open || c->args.no_clock || c->args.through || !pinned ||
        c->clock_count == TW_ISOLATE_CLOCKS || of_world(c, pinned))
        return false;
    if (c->arms)
        return q->purpose == TWIN_FOR_CONTRAST && tw_isolate_arms_unmixed(c, q); /* A against A */
    struct twin_search_set mine = tw_isolate_pinned(c, q);
    return memcmp(pinned, &mine, sizeof mine) == 0 &&
           (c->args.text || memcmp(pinned, &none, sizeof none) == 0);
}

/* The sentence for the report, "with entropy pinned: in two more runs, ..."; taken from the note of
 * the new verdict v. NULL v: the runs were not made to their end. malloc'ed. */
static char *what_it_says(const struct tw_isolate *c, const struct twin_search_set *pinned,
                          const struct twin_verdict *v)
{
    struct tw_buf b = {0};
    size_t n = 0;
    for (size_t i = 0; i < c->count && !c->arms; i++)
        if (twin_search_has(pinned, i))
            tw_buf_printf(&b, "%s%s", n++ ? ", " : "with ", c->factor[i]->id);
    tw_buf_puts(&b, n ? " pinned: " : "");
    for (size_t i = 0; v && i < v->note_count; i++)
        if (tw_starts(v->notes[i], note_begins)) {
            tw_buf_puts(&b, v->notes[i] + strlen(note_begins));
            return tw_buf_steal(&b);
        }
    tw_buf_puts(&b, "a run under a faster clock was cut short, so nothing is known by it");
    return tw_buf_steal(&b);
}

/* Both runs, or none: without the first the second is not made. */
static void make_runs(struct tw_isolate *c, const struct twin_world *w, struct tw_isolate_clock *k)
{
    uint64_t made[TW_FASTER_RUNS] = {0, 0};
    if (!c->args.quiet)
        tw_front_say(c->front, "it is not known whether numbers that differ are times: two more "
                               "runs under faster clocks tell (--no-clock leaves that out)");
    for (int i = 0; i < TW_FASTER_RUNS && (i == 0 || made[0]); i++)
        made[i] = run_faster(c, w, i);
    if (made[1])
        memcpy(k->run, made, sizeof made);
}

/* The entry is made before the runs, so that a world is not asked for again when they were cut
 * short. */
int tw_isolate_clock(struct tw_isolate *c, const struct twin_search_request *q,
                     const struct twin_run *reference, const struct twin_run *run,
                     struct twin_verdict **v, struct twin_error *err)
{
    const struct twin_search_set *pinned = pins_of(c, reference);
    struct twin_verdict *again = NULL;
    struct twin_world w;
    if (!is_wanted(c, q, pinned, *v))
        return 0;
    int rc = tw_isolate_world(c, pinned, &w);
    if (rc == 0 && !twin_world_sets(&w, "clock")) {
        assert(c->clock_count < TW_ISOLATE_CLOCKS);
        struct tw_isolate_clock *k = &c->clock[c->clock_count++];
        *k = (struct tw_isolate_clock){.pinned = *pinned};
        make_runs(c, &w, k);
        rc = k->run[1] ? tw_isolate_compare_pair(c, reference, run, &again, err) : 0;
        k->text = what_it_says(c, &k->pinned, again);
    }
    tw_free(w.setting);
    if (rc == 0 && again) {
        twin_verdict_free(*v);
        *v = again;
    }
    return rc;
}
