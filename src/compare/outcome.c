/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares how two runs ended: exit codes, signals, missing processes, other numbers of steps.
 * pair.c calls the three tw_*_compare() functions after the records; each returns one finding,
 * which pair.c owns then, or NULL. A NULL for lack of memory is told by tw_cmp.oom. Only runs that
 * nobody stopped are judged: a run that was stopped has no end of its own.
 */
#include "internal.h"
#include "printed.h"

#include "phrase.h"

#include <string.h>

/*
 * The last case is a run that was stopped or interrupted; the callers here do not ask for the text
 * of such a run.
 */
char *tw_outcome_text(struct tw_cmp *c, const struct twin_run *r)
{
    switch (r->outcome) {
    case TWIN_RUN_EXITED: return tw_cmp_text(c, "exit code %d", r->exit_code);
    case TWIN_RUN_SIGNALED:
        return tw_cmp_text(c, "signal %d (%s)", r->signal, strsignal(r->signal));
    case TWIN_RUN_NOT_STARTED:
        return tw_cmp_text(c, "not started (%s)", r->message ? r->message : "");
    default: return tw_cmp_copy(c, "interrupted");
    }
}

/*
 * Steps beyond 32 bits are shown as the largest such number. NULL: text was NULL, or no memory;
 * text is freed in either case.
 */
struct twin_finding *tw_outcome_new(struct tw_cmp *c, enum twin_finding_type type, const char *name,
                                    char *text, uint64_t step)
{
    struct twin_finding *f = text ? tw_finding_new(c, type, TWIN_PHASE_OUTPUT, TWIN_KIND_STATE)
                                  : NULL;
    if (!f) {
        tw_free(text);
        return NULL;
    }
    tw_finding_set(c, &f->layer, tw_cmp_copy(c, "environment"));
    tw_finding_set(c, &f->name, tw_cmp_copy(c, name));
    tw_finding_set(c, &f->text, text);
    f->step_a = f->step_b = (uint32_t)(step < UINT32_MAX ? step : UINT32_MAX);
    return f;
}

/* NULL when a run was stopped, when both ended in the same way, or when neither failed. */
struct twin_finding *tw_outcome_compare(struct tw_cmp *c, const struct tw_side *a,
                                        const struct tw_side *b)
{
    bool fa = tw_side_failed(a), fb = tw_side_failed(b);
    const struct tw_side *failed = fb ? b : a;
    if (tw_side_stopped(a) || tw_side_stopped(b) ||
        (a->run->outcome == b->run->outcome && a->run->exit_code == b->run->exit_code &&
         a->run->signal == b->run->signal) ||
        (!fa && !fb))
        return NULL;
    char *x = tw_outcome_text(c, a->run), *y = tw_outcome_text(c, b->run), *where = NULL;
    /* Say how far the records of the run that failed go. */
    if (failed->steps > 0 || failed->count > 0)
        where = tw_cmp_text(c, "; the records of %s stop in step %llu",
                            failed == a ? c->label_a : c->label_b,
                            (unsigned long long)failed->steps);
    else if (a->count + b->count > 0)
        where = tw_cmp_text(c, "; %s left no records", failed == a ? c->label_a : c->label_b);
    else
        where = tw_cmp_copy(c, "");
    char *text = x && y && where
                     ? tw_cmp_text(c, "%s: %s, %s: %s%s", c->label_a, x, c->label_b, y, where)
                     : NULL;
    tw_free(x);
    tw_free(y);
    tw_free(where);
    const bool cut = failed->run->one_stream ? failed->run->stdout_truncated
                                             : failed->run->stderr_truncated;
    char *last = cut ? NULL : tw_last_printed(c, failed->run);
    if (last)
        tw_cmp_note(c, "the last line that %s wrote to %s: %s",
                    failed == a ? c->label_a : c->label_b,
                    failed->run->one_stream ? "its terminal" : "stderr", last);
    tw_free(last);
    struct twin_finding *f = tw_outcome_new(c, TWIN_FINDING_OUTCOME, "how the job ended", text,
                                            failed->steps);
    for (size_t i = 0; f && i < failed->count; i++)
        if (failed->proc[i].info->steps == failed->steps) { /* where it was last seen */
            f->rank = failed->proc[i].rank;
            break;
        }
    return f;
}

/* Did the run end by itself, with all of its traces? Then what is not there did not happen. */
static bool is_whole(const struct tw_side *s)
{
    return !s->damaged && !tw_side_failed(s) && !tw_side_stopped(s);
}

/*
 * torchrun started the ranks of one run again, and those of the other not so often: what the
 * further attempts did was compared with nothing. Of arms, and where the other run may have been
 * cut before, range.c says that.
 */
struct twin_finding *tw_attempts_compare(struct tw_cmp *c, const struct tw_side *a,
                                         const struct tw_side *b)
{
    const struct tw_side *fewer = a->attempts < b->attempts ? a : b;
    if (a->attempts == b->attempts || c->o->arms || !is_whole(fewer) || fewer->count == 0)
        return NULL;
    return tw_outcome_new(c, TWIN_FINDING_RANKS, "attempts",
                          tw_cmp_text(c,
                                      "torchrun started the ranks of %s again %u time%s, those of "
                                      "%s %u time%s: attempt was compared with attempt",
                                      c->label_a, a->attempts, tw_plural_s(a->attempts), c->label_b,
                                      b->attempts, tw_plural_s(b->attempts)),
                          0);
}

/*
 * Names the first process that one run has and the other has not, where both are of one command and
 * the other run ended by itself. What is less certain than that (arms, runs that were stopped,
 * helper processes without steps) is no finding; range.c names it as not compared.
 */
struct twin_finding *tw_ranks_compare(struct tw_cmp *c, const struct tw_side *a,
                                      const struct tw_side *b)
{
    for (int s = 0; s < 2; s++) {
        const struct tw_side *side = s ? b : a, *other = s ? a : b;
        for (size_t i = 0; i < side->count; i++) {
            const struct tw_proc *p = &side->proc[i];
            const bool works = p->info->steps > 0 || side->steps == 0;
            /* of a further attempt: tw_attempts_compare() */
            if (p->taken || !works || !is_whole(other) || c->o->arms ||
                p->attempt > other->attempts)
                continue;
            char *text = tw_cmp_text(c, "rank %d (%s, number %zu) recorded only in %s", p->rank,
                                     tw_proc_role(p), p->ordinal + 1, s ? c->label_b : c->label_a);
            struct twin_finding *f = tw_outcome_new(c, TWIN_FINDING_RANKS, "processes", text, 0);
            if (f)
                f->rank = p->rank;
            return f;
        }
    }
    return NULL;
}

/*
 * Did both processes end in an orderly way, in runs that nobody stopped and that did not fail? Then
 * what they did not do, they were not meant to do.
 */
static bool ended_well(const struct tw_side *a, const struct tw_side *b, const struct tw_pair *p)
{
    return tw_proc_complete(a, p->a) && tw_proc_complete(b, p->b) && p->a->info->closed &&
           p->b->info->closed;
}

struct twin_finding *tw_steps_compare(struct tw_cmp *c, const struct tw_side *a,
                                      const struct tw_side *b, const struct tw_pair *pairs,
                                      size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct tw_pair *p = &pairs[i];
        /* Both in steps of a: b's own count is moved by the shift of the pair. */
        const int64_t x = (int64_t)p->a->info->steps, y = (int64_t)p->b->info->steps - p->shift;
        const bool enough = c->o->steps_given && x >= c->o->steps && y >= c->o->steps;
        if (x == y || !tw_pair_steps(p) || p->recut || enough || c->o->arms || !ended_well(a, b, p))
            continue;
        char *text = tw_cmp_text(c, "%s has %lld steps, %s %lld", c->label_a, (long long)x,
                                 c->label_b, (long long)y);
        struct twin_finding *f = tw_outcome_new(c, TWIN_FINDING_OUTCOME, "number of steps", text,
                                                (uint64_t)(x < y ? x : y));
        if (f)
            f->rank = p->a->rank;
        return f;
    }
    return NULL;
}
