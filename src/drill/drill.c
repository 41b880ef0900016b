/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The drills. Each begins with a whole run of the job, whose last checkpoint is the proven state.
 * Where another one comes out in the end, the whole run is made once more: a job that does not
 * repeat itself shows nothing, and no drill of it fails or succeeds.
 */
#include "inside.h"

#include "base.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {[TW_DRILL_PREEMPT] = "preempt",
                                    [TW_DRILL_CORRUPT] = "corrupt",
                                    [TW_DRILL_NODE] = "node",
                                    [TW_DRILL_UPGRADE] = "upgrade",
                                    [TW_DRILL_CLOCK] = "clock",
                                    [TW_DRILL_ROLLBACK] = "rollback",
                                    [TW_DRILL_REGISTRY_LOSS] = "registry-loss"};
_Static_assert(sizeof names / sizeof names[0] == TW_DRILL_KINDS, "a name for each drill");

const char *tw_drill_name(enum tw_drill_kind k)
{
    assert(k < TW_DRILL_KINDS);
    return names[k];
}

enum tw_drill_kind tw_drill_of(const char *name)
{
    size_t i = 0;
    while (i < TW_DRILL_KINDS && strcmp(names[i], name) != 0)
        i++;
    return (enum tw_drill_kind)i;
}

/* ---- one drill */

void dr_say(const struct dr_drill *d, const char *what)
{
    if (d->asked->progress)
        d->asked->progress(d->asked->user, what);
}

void dr_note(struct dr_drill *d, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    char *text = tw_vprintf(format, ap);
    va_end(ap);
    char **all = text ? tw_reallocarray(d->out->step, d->out->steps + 1, sizeof *all) : NULL;
    if (!all) {
        tw_free(text);
        d->lost_words = true;
        return;
    }
    d->out->step = all;
    all[d->out->steps++] = text;
}

void dr_add(struct dr_drill *d, const char *format, ...)
{
    va_list ap;
    if (d->lost_words) /* the last one that is there is another one */
        return;
    assert(d->out->steps > 0);
    char **last = &d->out->step[d->out->steps - 1];
    va_start(ap, format);
    char *more = tw_vprintf(format, ap);
    va_end(ap);
    char *longer = more ? tw_printf("%s%s", *last, more) : NULL;
    tw_free(more);
    if (!longer) {
        d->lost_words = true;
        return;
    }
    tw_free(*last);
    *last = longer;
}

void tw_drill_result_free(struct tw_drill_result *r)
{
    for (size_t i = 0; i < r->steps; i++)
        tw_free(r->step[i]);
    tw_free(r->step);
    *r = (struct tw_drill_result){.detect_s = NAN, .reproduce_s = NAN};
}

void dr_records(struct dr_drill *d, const char *word)
{
    snprintf(d->out->records, sizeof d->out->records, "%s", word);
}

double dr_seconds(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (double)(to_ns - from_ns) / 1e9 : 0;
}

/* A whole run, which must end well and leave the checkpoint. */
int dr_make_whole(struct dr_drill *d, struct dr_run *r)
{
    *r = (struct dr_run){.argv = d->asked->argv};
    int rc = dr_make(d->asked, r, d->err);
    if (rc == 0 && !dr_ended_well(r->run))
        rc = twin_error_set(d->err, TWIN_EINVAL,
                            "expected a job that ends well, found exit code %d: its output is in "
                            "%s",
                            r->run->exit_code, r->run->dir);
    if (rc == 0 && !dr_wrote(d->asked, r->run))
        rc = twin_error_set(d->err, TWIN_EINVAL,
                            "expected a job that writes %s below its working folder; this one did "
                            "not",
                            d->asked->checkpoint);
    return rc;
}

int dr_make_back(struct dr_drill *d, struct dr_run *r)
{
    twin_run_free(r->run);
    *r = (struct dr_run){.argv = d->asked->argv};
    return dr_make(d->asked, r, d->err);
}

int dr_try(struct dr_drill *d, const struct dr_run *as, const char *what, bool *same)
{
    twin_run_free(d->half.run);
    d->half = *as;
    *same = false;
    int rc = dr_make(d->asked, &d->half, d->err);
    d->half.argv = d->half.env = NULL; /* the caller's */
    if (rc == 0 && dr_ended_well(d->half.run) && dr_wrote(d->asked, d->half.run))
        rc = dr_same_state(d->asked, d->whole.run, d->half.run, same, d->err);
    if (rc != 0)
        return rc;
    if (!dr_ended_well(d->half.run))
        dr_note(d, "%s: it ended with exit code %d", what, d->half.run->exit_code);
    else if (!dr_wrote(d->asked, d->half.run))
        dr_note(d, "%s: it ended well and did not write %s", what, d->asked->checkpoint);
    else
        dr_note(d, *same ? "%s: the same state" : "%s: another state", what);
    if (!*same && !(d->out->detect_s > d->half.run->wall_s))
        d->out->detect_s = d->half.run->wall_s;
    return 0;
}

/* The end of each drill: is the last run's state the proven one? If not, is there one? */
int dr_judge(struct dr_drill *d, const char *what)
{
    struct dr_run second = {.run = NULL};
    bool same = false, repeats = false;
    int rc = 0;
    /* In a copy of the user's folder a checkpoint may lie that an earlier run wrote; in that of the
     * killed run's folder lies the one that this drill saw being saved. */
    const bool wrote = d->again.copy_of || dr_wrote(d->asked, d->again.run);
    d->out->outcome = TW_DRILL_FAILED;
    if (dr_ended_well(d->again.run) && wrote)
        rc = dr_same_state(d->asked, d->whole.run, d->again.run, &same, d->err);
    if (rc != 0)
        return rc;
    if (same) {
        dr_note(d, "%s: the same state as of the run that nothing happened to", what);
        d->out->outcome = TW_DRILL_RESTORED;
        return 0;
    }
    dr_say(d, "another state came out: does the job repeat itself?");
    rc = dr_make_whole(d, &second);
    rc = rc ? rc : dr_same_state(d->asked, d->whole.run, second.run, &repeats, d->err);
    if (rc == 0 && !dr_ended_well(d->again.run))
        dr_note(d, "%s: it ended with exit code %d", what, d->again.run->exit_code);
    else if (rc == 0 && !wrote)
        dr_note(d, "%s: it ended well and did not write %s", what, d->asked->checkpoint);
    else if (rc == 0)
        dr_note(d, "%s: another state than that of the run that nothing happened to", what);
    if (rc == 0 && !repeats)
        dr_note(d, "the job does not repeat itself even so: see twinrun check");
    if (rc == 0 && !repeats && dr_ended_well(d->again.run))
        d->out->outcome = TW_DRILL_NOTHING_SHOWN;
    twin_run_free(second.run);
    return rc;
}

/* Those of a job have its whole run behind them. */
static int (*const drills[])(struct dr_drill *) = {[TW_DRILL_PREEMPT] = dr_preempt,
                                                   [TW_DRILL_CORRUPT] = dr_corrupt,
                                                   [TW_DRILL_NODE] = dr_node,
                                                   [TW_DRILL_UPGRADE] = dr_upgrade,
                                                   [TW_DRILL_CLOCK] = dr_clock,
                                                   [TW_DRILL_ROLLBACK] = dr_rollback,
                                                   [TW_DRILL_REGISTRY_LOSS] = dr_registry_loss};
_Static_assert(sizeof drills / sizeof drills[0] == TW_DRILL_KINDS, "a function for each drill");

int tw_drill(enum tw_drill_kind kind, const struct tw_drill_asked *asked,
             struct tw_drill_result *out, struct twin_error *err)
{
    struct dr_drill d = {.asked = asked, .out = out, .err = err};
    assert(kind < TW_DRILL_KINDS);
    assert(asked->resume || (kind != TW_DRILL_PREEMPT && kind != TW_DRILL_CORRUPT));
    *out = (struct tw_drill_result){.detect_s = NAN, .reproduce_s = NAN};
    int rc = 0;
    if (kind != TW_DRILL_ROLLBACK && kind != TW_DRILL_REGISTRY_LOSS) {
        dr_say(&d, "a whole run, for the state that is to come back");
        rc = dr_make_whole(&d, &d.whole);
    }
    rc = rc ? rc : drills[kind](&d);
    if (rc == 0 && d.lost_words)
        rc = tw_no_memory(err, "for a drill");
    if (rc != 0)
        tw_drill_result_free(out);
    twin_run_free(d.whole.run);
    twin_run_free(d.half.run);
    twin_run_free(d.again.run);
    return rc;
}
