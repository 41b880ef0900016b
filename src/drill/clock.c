/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock: the job under wrong clocks. Another date and a clock that is set back are shown to it by
 * the libc agent, another time zone by TZ. Nothing of the machine's own clock is changed.
 */
#include "inside.h"

#include "base.h"

#include <stdio.h>
#include <string.h>

/* One wrong clock. factors NULL: it is the variable alone. */
struct wrong_clock {
    const char *what, *saying, *factors, *zone;
};

enum { SET_BACK_S = 120, BACK_TRIES = 3 };

/* What the job's processes were seen doing with the clock that they were shown. */
struct seen {
    bool clock;         /* one asked for it */
    bool before, after; /* one read it before it was set back, one after that */
    bool jump;          /* one and the same did both: another one has not seen it go back */
    /* the first that was not shown it, and may have read the machine's: of d->half; NULL: none */
    const struct twin_run_process *blind;
    bool writer; /* who wrote the checkpoint was shown it: a short-lived one may be missed above */
};

static bool says(const struct twin_said_line *l, const char *key, const char *value)
{
    return strcmp(l->key, key) == 0 && (!value || strcmp(l->value, value) == 0);
}

/* Is there a line of that process, too? */
static bool also(const struct twin_said_line *line, size_t count, const char *pid, const char *key,
                 const char *value)
{
    for (size_t i = 0; i < count; i++)
        if (says(&line[i], key, value) && strcmp(line[i].pid, pid) == 0)
            return true;
    return false;
}

static int look(struct dr_drill *d, struct seen *s)
{
    static const char back[] = "clock.back", after[] = "read after it";
    const struct twin_run *run = d->half.run;
    struct twin_said_line *line = NULL;
    char *text = NULL;
    size_t count = 0;
    *s = (struct seen){0};
    char *path = dr_checkpoint_of(d->asked, run);
    int rc = path ? twin_run_told_writing(run, path, &s->writer, d->err)
                  : tw_no_memory(d->err, "for a drill");
    rc = rc ? rc : twin_said_lines(run, &text, &line, &count, d->err);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        s->clock |= says(&line[i], "effect.clock", NULL);
        s->after |= says(&line[i], back, after);
        if (says(&line[i], back, "read before it")) {
            s->before = true;
            s->jump = s->jump || also(line, count, line[i].pid, back, after);
        }
    }
    for (size_t i = 0; i < run->process_count && !s->blind; i++)
        s->blind = run->processes[i].armed ? NULL : &run->processes[i];
    tw_free(line);
    tw_free(text);
    tw_free(path);
    return rc;
}

/* Has the agent said that it did not do what it was told to? Then the run shows nothing. */
static int check_shown(struct dr_drill *d, const struct wrong_clock *c)
{
    const struct twin_run *run = d->half.run;
    size_t armed = 0;
    for (size_t i = 0; i < run->process_count; i++)
        armed += run->processes[i].armed;
    if (!c->factors || armed > 0)
        return 0;
    return twin_error_set(
        d->err, TWIN_EUNSUPPORTED,
        "expected a job that can be shown another clock, and the agent is in none "
        "of its processes (a static program?): see twinrun doctor, and %s",
        run->dir);
}

/* One run by this clock. *alike: another state makes it false. */
static int try_clock(struct dr_drill *d, const struct wrong_clock *c, bool *alike, struct seen *s)
{
    char factors[96] = "", zone[48] = "";
    char *env[3] = {NULL};
    size_t n = 0;
    bool same = false;
    if (c->factors) {
        snprintf(factors, sizeof factors, "TWINRUN_FACTORS=%s", c->factors);
        env[n++] = factors;
    }
    if (c->zone) {
        snprintf(zone, sizeof zone, "TZ=%s", c->zone);
        env[n++] = zone;
    }
    const struct dr_run as = {.argv = d->asked->argv, .env = env, .agents = c->factors != NULL};
    dr_say(d, c->saying);
    int rc = dr_try(d, &as, c->what, &same);
    rc = rc ? rc : check_shown(d, c);
    rc = rc ? rc : look(d, s);
    *alike &= same;
    return rc;
}

/* Was the clock shown to all of the job? If not, the line goes on with that. */
static bool all_shown(struct dr_drill *d, const struct seen *s)
{
    const char *words = s->blind && s->blind->argv ? s->blind->argv : "one of its processes";
    if (s->blind)
        dr_add(d, "; %.200s was not shown that clock, so what it changes is not known", words);
    else if (!s->writer && dr_wrote(d->asked, d->half.run))
        dr_add(d,
               "; no process that was shown that clock was seen opening %s, so what it changes is "
               "not known",
               d->asked->checkpoint);
    else
        return true;
    return false;
}

/* A clock that stands at another date. *known: all of the job was shown it, and was seen reading
 * it. */
static int try_date(struct dr_drill *d, const struct wrong_clock *c, bool *alike, bool *known)
{
    struct seen s;
    const int rc = try_clock(d, c, alike, &s);
    if (rc != 0 || !c->factors)
        return rc;
    if (!all_shown(d, &s)) {
        *known = false;
    } else if (!s.clock) {
        *known = false;
        dr_add(d, "; no process was seen reading the clock, so what it changes is not known");
    }
    return 0;
}

/*
 * A clock that is set back in the middle of the run, if that takes as long as the one before. One
 * that was faster or slower has missed the moment: it is made again, with the time that it took.
 * *known: all of the job was shown the clock, and one process was seen reading it before and after.
 */
static int try_back(struct dr_drill *d, bool *alike, bool *known)
{
    double wall_s = d->whole.run->wall_s;
    struct seen s = {0};
    int rc = 0;
    for (int n = 0; n < BACK_TRIES && rc == 0; n++) {
        char text[64];
        const uint64_t at_ms = tw_monotonic_ns() / 1000000 + (uint64_t)(wall_s * 500) + 1;
        snprintf(text, sizeof text, "clock=back:%d:%llu", SET_BACK_S, (unsigned long long)at_ms);
        const struct wrong_clock back = {"set back by two minutes on the way",
                                         "a run whose clock is set back on the way", text, NULL};
        rc = try_clock(d, &back, alike, &s);
        if (rc != 0)
            return rc;
        if (!all_shown(d, &s)) {
            *known = false;
            return 0;
        }
        if (s.jump)
            return 0;
        const bool early = s.after && !s.before;
        const bool late = !s.after && d->half.ended_ns / 1000000 < at_ms;
        if (!s.clock || n + 1 == BACK_TRIES || !(early || late))
            break;
        dr_add(d, early ? "; its clock was set back before it first read it: once more"
                        : "; it ended before its clock was set back: once more");
        wall_s = d->half.run->wall_s;
    }
    if (rc != 0)
        return rc;
    *known = false;
    dr_add(d, "; no process was seen reading it before and after that, so what it changes is not "
              "known");
    return 0;
}

int dr_clock(struct dr_drill *d)
{
    /* A past date, and one behind January 2038, when seconds since 1970
     * do not fit into 31 bits. */
    const struct wrong_clock fixed[] = {
        {"in November 2001", "a run in November 2001", "clock=pin:1005000000", NULL},
        {"in September 2039", "a run in September 2039", "clock=pin:2200000000", NULL},
        {"14 hours east of Greenwich", "a run in another time zone", NULL, "<+14>-14"},
    };
    bool alike = true, known = true;
    int rc = 0;
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0] && rc == 0; i++)
        rc = try_date(d, &fixed[i], &alike, &known);
    rc = rc ? rc : try_back(d, &alike, &known);
    if (rc != 0)
        return rc;
    if (alike && known)
        dr_note(d, "the job does not depend on the clock in these");
    dr_say(d, "a run by the machine's own clock");
    rc = dr_make_back(d, &d->again);
    rc = rc ? rc : dr_judge(d, "back by the right clock");
    if (rc == 0 && d->out->outcome == TW_DRILL_RESTORED)
        d->out->reproduce_s = d->again.run->wall_s;
    return rc;
}
