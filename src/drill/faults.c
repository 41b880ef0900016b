/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preempt, corrupt, node: a job that is killed, a checkpoint that is damaged, another machine.
 */
#include "inside.h"

#include "base.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A run of the resume command in a copy of the killed run's folder. */
static int make_resumed(struct dr_drill *d)
{
    char *const argv[] = {"/bin/sh", "-c", (char *)(uintptr_t)d->asked->resume, NULL};
    twin_run_free(d->again.run);
    d->again = (struct dr_run){.argv = argv, .copy_of = d->half.run->cwd};
    int rc = dr_make(d->asked, &d->again, d->err);
    d->again.argv = NULL;
    return rc;
}

/* The job again, killed at a moment. */
static int make_half(struct dr_drill *d, enum dr_moment moment)
{
    d->half = (struct dr_run){.argv = d->asked->argv, .moment = moment};
    int rc = dr_make(d->asked, &d->half, d->err);
    if (rc == 0 && d->half.killed_ns == 0)
        rc = twin_error_set(d->err, TWIN_EINVAL,
                            "expected a job that saves %s %s, and it ended before: let it save "
                            "more often",
                            d->asked->checkpoint,
                            moment == DR_SAVED ? "and goes on" : "twice at least");
    return rc;
}

int dr_preempt(struct dr_drill *d)
{
    dr_say(d, "a run that is killed in its second save");
    int rc = make_half(d, DR_SAVING);
    if (rc != 0)
        return rc;
    d->out->detect_s = dr_seconds(d->half.killed_ns, d->half.ended_ns);
    dr_note(d, "killed after %.3g s, while it saved %s for the second time", d->half.run->wall_s,
            d->asked->checkpoint);
    dr_say(d, "the run that goes on from there");
    rc = make_resumed(d);
    rc = rc ? rc : dr_judge(d, "resumed");
    if (d->out->outcome == TW_DRILL_RESTORED)
        d->out->reproduce_s = dr_seconds(d->half.ended_ns, d->again.ended_ns);
    return rc;
}

/* Halves a file's bytes, or turns one bit over in its middle. */
static int damage(const char *path, const char *good, size_t bytes, bool truncate,
                  struct twin_error *err)
{
    char *bad = tw_malloc(bytes + 1);
    if (!bad)
        return tw_no_memory(err, "for a drill");
    memcpy(bad, good, bytes);
    if (bytes > 0)
        bad[bytes / 2] ^= 1;
    int rc = tw_write_file_atomic(path, bad, truncate ? bytes / 2 : bytes, err);
    tw_free(bad);
    return rc;
}

/* Goes on from a damaged checkpoint. *silent: it ended well, without the proven state: its exit
 * code tells nobody of the damage. */
static int try_damage(struct dr_drill *d, const char *path, const char *good, size_t bytes,
                      bool truncate, bool *silent)
{
    const char *what = truncate ? "cut in half" : "one bit turned over";
    bool same = false;
    dr_say(d, truncate ? "a run from half of the checkpoint"
                       : "a run from a checkpoint with a bit "
                         "turned over");
    int rc = damage(path, good, bytes, truncate, d->err);
    rc = rc ? rc : make_resumed(d);
    if (rc != 0)
        return rc;
    if (!dr_ended_well(d->again.run)) {
        dr_note(d, "%s: the job refused it after %.3g s, exit code %d", what, d->again.run->wall_s,
                d->again.run->exit_code);
    } else if (!dr_wrote(d->asked,
                         d->again.run)) { /* what lies there is no state that it came to */
        dr_note(d, "%s: the job ended well and did not write %s: no exit code tells of the damage",
                what, d->asked->checkpoint);
        *silent = true;
    } else {
        rc = dr_same_state(d->asked, d->whole.run, d->again.run, &same, d->err);
        if (rc == 0)
            dr_note(d,
                    same ? "%s: the job came to the proven state all the same"
                         : "%s: the job went on from it silently, to another state",
                    what);
        *silent |= !same;
    }
    /* what was noticed last counts: both have to be */
    const double took = d->again.run->wall_s;
    if (isnan(d->out->detect_s) || took > d->out->detect_s)
        d->out->detect_s = took;
    return rc;
}

int dr_corrupt(struct dr_drill *d)
{
    char *good = NULL;
    size_t bytes = 0;
    bool silent = false;
    dr_say(d, "a run that is killed after its first save");
    int rc = make_half(d, DR_SAVED);
    char *path = rc == 0 ? dr_checkpoint_of(d->asked, d->half.run) : NULL;
    if (rc == 0 && !path)
        rc = tw_no_memory(d->err, "for a drill");
    rc = rc ? rc : tw_read_file(path, DR_CHECKPOINT_BYTES, &good, &bytes, d->err);
    rc = rc ? rc : try_damage(d, path, good, bytes, true, &silent);
    rc = rc ? rc : try_damage(d, path, good, bytes, false, &silent);
    const uint64_t known_ns = tw_monotonic_ns();
    if (rc == 0)
        rc = tw_write_file_atomic(path, good, bytes, d->err);
    if (rc == 0) {
        dr_say(d, "a run from the checkpoint as it was");
        rc = make_resumed(d);
    }
    rc = rc ? rc : dr_judge(d, "put back and resumed");
    if (d->out->outcome == TW_DRILL_RESTORED)
        d->out->reproduce_s = dr_seconds(known_ns, d->again.ended_ns);
    if (silent && d->out->outcome == TW_DRILL_RESTORED)
        d->out->outcome = TW_DRILL_FAILED;
    if (silent)
        d->out->detect_s = NAN;
    tw_free(good);
    tw_free(path);
    return rc;
}

/* Another instruction set, as an older node would have it: for the libraries that choose theirs by
 * a variable. */
int dr_node(struct dr_drill *d)
{
    char *const other[] = {"ATEN_CPU_CAPABILITY=default", "MKL_ENABLE_INSTRUCTIONS=SSE4_2",
                           "DNNL_MAX_CPU_ISA=SSE41", "OPENBLAS_CORETYPE=NEHALEM", NULL};
    bool same = false;
    dr_say(d, "a run on another instruction set");
    d->half = (struct dr_run){.argv = d->asked->argv, .env = other};
    int rc = dr_make(d->asked, &d->half, d->err);
    if (rc == 0 && dr_ended_well(d->half.run) && dr_wrote(d->asked, d->half.run))
        rc = dr_same_state(d->asked, d->whole.run, d->half.run, &same, d->err);
    if (rc != 0)
        return rc;
    if (!same)
        d->out->detect_s = d->half.run->wall_s;
    if (!dr_ended_well(d->half.run))
        dr_note(d, "on SSE 4: it ended with exit code %d", d->half.run->exit_code);
    else if (!dr_wrote(d->asked, d->half.run))
        dr_note(d, "on SSE 4: it ended well and did not write %s", d->asked->checkpoint);
    else
        dr_note(d, same ? "on SSE 4: the same state, so this job does not depend on it"
                        : "on SSE 4: another state; nodes of several types are told apart by it");
    dr_say(d, "a run on this machine's own");
    rc = dr_make_back(d, &d->again);
    rc = rc ? rc : dr_judge(d, "back on the first instruction set");
    if (rc == 0 && d->out->outcome == TW_DRILL_RESTORED)
        d->out->reproduce_s = d->again.run->wall_s;
    return rc;
}
