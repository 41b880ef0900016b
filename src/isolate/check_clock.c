/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock experiment of a check: where it is not known whether numbers that differ are times, the
 * job runs twice more under clocks that run faster. What that shows, src/compare decides.
 */
#include "check_clock.h"

#include "faster.h"
#include "pinned.h"
#include "run_state.h"

#include "base.h"

#include "src/isolate/isolate.h"

#include <stdio.h>

/* The pins of this check; NULL: it has none. */
static const struct tw_pinned *pins_of(const struct tw_check *c)
{
    return c->dress == tw_pins_dress ? c->dress_user : NULL;
}

/* Does the verdict hang on whether numbers that differ are times? */
static bool is_wanted(const struct tw_check *c)
{
    if (pins_of(c) && twin_world_sets(&pins_of(c)->world, "clock"))
        return false; /* it stands still in every run: nothing would follow a faster one */
    return !c->args.no_clock && !c->args.against && !c->args.transplant && c->series.v &&
           c->series.v->outcome == TWIN_INCONCLUSIVE && c->series.v->open_only &&
           c->series.count > 1;
}

/* The world of the other runs, with faster clocks. */
static int faster_plan(const struct tw_check *c, int i, struct twin_world_plan *p)
{
    const struct tw_pinned *pins = pins_of(c);
    int rc = pins ? twin_world_plan(&pins->world, c->arm[0], p, NULL) : 0;
    if (rc == 0 && pins)
        rc = twin_world_plan_apart(p, &pins->world, NULL);
    return rc ? rc : twin_world_plan_faster(p, tw_faster_factor(i), tw_faster_since(), NULL);
}

/* One run; NULL: it was not made to its end. */
static struct twin_run *run_faster(struct tw_check *c, int i)
{
    char title[48];
    struct twin_run *run = NULL;
    uint64_t limit = tw_faster_limit_ns(c->series.runs[0]->wall_s);
    uint64_t deadline = c->series.deadline_ns;
    snprintf(title, sizeof title, "clock x%u", tw_faster_factor(i));
    struct twin_world_plan p = {.cpu = -1};
    if (faster_plan(c, i, &p) != 0) {
        twin_world_plan_free(&p);
        return NULL;
    }
    struct twin_launch_options o = tw_check_launch_options(c, 0, "clock");
    twin_world_plan_apply(&p, &o);
    if (deadline == 0 || limit < deadline)
        c->series.deadline_ns = limit;
    bool had_time = c->series.out_of_time;
    bool made = tw_check_launch(c, &o, title, false, &run) == 0;
    bool cut = c->series.out_of_time && !had_time;
    twin_world_plan_free(&p);
    c->series.deadline_ns = deadline;
    c->series.out_of_time = had_time;
    if (made && !cut && !c->series.interrupted)
        return run;
    twin_run_free(run);
    return NULL;
}

void tw_check_clock(struct tw_check *c)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_run *run[2] = {NULL, NULL};
    struct twin_verdict *v = NULL;
    char text[32];
    if (!is_wanted(c))
        return;
    if (!c->args.quiet)
        tw_front_say(
            c->series.front,
            "it is not known whether numbers that differ are times: two more runs under faster "
            "clocks tell (--no-clock leaves that out)");
    for (int i = 0; i < TW_FASTER_RUNS && (i == 0 || run[0]); i++) {
        run[i] = run_faster(c, i);
        if (run[i] && !c->args.quiet)
            tw_trial_line(c->series.front, i ? "clock x12" : "clock x64", run[i],
                          tw_run_state(run[i], text));
    }
    if (!run[0] || !run[1]) {
        twin_verdict_note(c->series.v, "clock experiment: a run under a faster clock was cut "
                                       "short, so nothing is known by it");
    } else {
        struct twin_compare_options o = tw_check_how(c);
        o.faster[0] = run[0];
        o.faster[1] = run[1];
        if (twin_compare((const struct twin_run *const *)c->series.runs, c->series.count, &o, &v,
                         &err) != 0) {
            tw_front_trouble(c->series.front, &err,
                             "check: the clock experiment failed, the verdict stands without it");
        } else {
            twin_verdict_free(c->series.v);
            c->series.v = v;
        }
    }
    twin_run_free(run[0]);
    twin_run_free(run[1]);
}
