/* SPDX-License-Identifier: Apache-2.0 */
/* The runs of a study. Round 0 makes one of each number of workers at level tensors: it shows
 * whether the job works with so many and what comes out of it, and warms the caches; it is not
 * timed. Each round after it makes one of each in drawn order, so that a machine that drifts drifts
 * over all of them. */
#include "scale_runs.h"

#include "configuration.h"
#include "filled.h"
#include "journal.h"
#include "run_state.h"
#include "trial.h"

#include "base.h"
#include "json_text.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOPELESS = 2 /* failed runs of a number of workers, without one that ended well */ };

/* ---- the plan */

/* The numbers of workers in the order of a round. */
static void draw(const struct tw_scale *s, uint64_t round, uint64_t order[TW_SCALE_COUNTS])
{
    uint64_t state = tw_mix64(s->args.seed * 0x9E3779B97F4A7C15u + round);
    memcpy(order, s->count, s->counts * sizeof *order);
    for (size_t i = s->counts; round > 0 && i-- > 1;) {
        state = tw_mix64(state + 0x9E3779B97F4A7C15u);
        /* of at most 32: no bias that anybody could measure */
        const size_t k = (size_t)(state % (i + 1));
        const uint64_t other = order[k];
        order[k] = order[i];
        order[i] = other;
    }
}

/* The plan in two lines. malloc'ed; NULL: no memory. */
static char *plan_text(const struct tw_scale *s)
{
    struct tw_buf b = {0};
    uint64_t order[TW_SCALE_COUNTS];
    tw_buf_printf(&b,
                  "plan: %llu timed runs of each of %zu numbers of workers, and one before them "
                  "that is not timed\n",
                  (unsigned long long)s->args.repeats, s->counts);
    tw_buf_printf(&b, "plan: in drawn order (seed %llu):", (unsigned long long)s->args.seed);
    for (uint64_t round = 1; round <= s->args.repeats && round <= 20; round++) {
        draw(s, round, order);
        for (size_t i = 0; i < s->counts; i++)
            tw_buf_printf(&b, "%s%llu", i == 0 && round > 1 ? " | " : " ",
                          (unsigned long long)order[i]);
    }
    tw_buf_puts(&b, s->args.repeats > 20 ? " | ...\n" : "\n");
    return tw_buf_steal(&b);
}

/* The work of a run, or of a step, as it was given; empty when it was not. */
static const char *work_text(const struct tw_scale *s)
{
    if (s->args.work_per_run)
        return s->args.work_per_run;
    return s->args.work_per_step ? s->args.work_per_step : "";
}

/* What a study is made for: one with an equal object may be gone on with. */
static json_t *describe_study(const struct tw_scale *s)
{
    json_t *counts = json_array();
    char *cwd = tw_path_absolute(".", NULL);
    for (size_t i = 0; i < s->counts; i++)
        json_array_append_new(counts, json_integer((json_int_t)s->count[i]));
    json_t *j = json_pack("{s:s, s:o, s:o, s:o, s:I, s:I, s:I, s:s, s:s}", "schema",
                          "twinrun.study/1", "argv", tw_journal_argv(s->home, s->argv), "cwd",
                          tw_json_text(cwd), "counts", counts, "seed", (json_int_t)s->args.seed,
                          "warmup", (json_int_t)s->args.warmup, "steps", (json_int_t)s->args.steps,
                          "level", twin_level_name(s->args.level), "work", work_text(s));
    tw_free(cwd);
    return j;
}

/* A tw_journal_line. */
static int read_line(void *user, const json_t *j, struct twin_error *err)
{
    struct tw_scale_run r;
    int rc = tw_scale_run_read(j, &r);
    if (rc == 0 && (rc = tw_scale_add(user, &r)) != 0) {
        tw_scale_run_free(&r);
        tw_no_memory(err, "for the runs of the study");
    }
    return rc;
}

/* Is this run of the plan there already? */
static bool is_made(const struct tw_scale *s, uint64_t round, uint64_t workers)
{
    for (size_t i = 0; i < s->runs; i++)
        if (s->run[i].round == round && s->run[i].workers == workers)
            return true;
    return false;
}

/* Did runs of so many workers fail, and none end well? */
static bool is_hopeless(const struct tw_scale *s, uint64_t workers)
{
    size_t failed = 0, good = 0;
    for (size_t i = 0; i < s->runs; i++) {
        failed += s->run[i].workers == workers && !s->run[i].good;
        good += s->run[i].workers == workers && s->run[i].good;
    }
    return failed >= HOPELESS && good == 0;
}

/* ---- one run */

/* One run of the job with so many workers; t->run is the caller's. */
static int launch_run(struct tw_scale *s, uint64_t round, uint64_t workers, struct tw_trial *t,
                      struct twin_error *err)
{
    char *spool = isatty(STDIN_FILENO) ? NULL : tw_printf("%s/stdin", s->journal->folder);
    char **argv = tw_filled(s->argv, "{n}", workers);
    const struct twin_launch_options o = {
        .argv = argv,
        .home = s->home,
        .label = "scale",
        .level = round ? s->args.level : TWIN_LEVEL_TENSORS,
        .sketch_every = round ? 0 : 1,
        .agents = true,
        .max_steps = (uint32_t)s->args.steps,
        .window_last = UINT32_MAX,
        .fresh_dir = s->args.fresh_dir,
        .stdin_spool = spool,
        .on = s->on,
    };
    int rc = argv ? tw_trial_make(t, &o, err) : tw_no_memory(err, "for a command");
    tw_filled_free(argv);
    tw_free(spool);
    return rc;
}

/* Takes from a run what the study needs of it. */
static int take_run(struct tw_scale *s, const struct tw_trial *t, struct tw_scale_run *out,
                    struct twin_error *err)
{
    const struct twin_run *r = t->run;
    char text[32];
    const bool by_plan = r->outcome == TWIN_RUN_STOPPED && s->args.steps &&
                         t->end != TW_TRIAL_OUT_OF_TIME;
    out->good = by_plan || (r->outcome == TWIN_RUN_EXITED && r->exit_code == 0);
    out->run = tw_strdup(tw_base_name(r->dir));
    out->state = tw_strdup(by_plan ? "ok" : tw_run_state(r, text));
    out->node = r->node.engine ? tw_strdup(r->node.name) : NULL;
    out->wall_s = r->wall_s;
    if (!out->run || !out->state || (r->node.engine && !out->node))
        return tw_no_memory(err, "for a run");
    return tw_scale_read_run(r, s->args.warmup, out, err);
}

/* Writes a run down, then counts it. Takes what one holds. */
static int keep_run(struct tw_scale *s, struct tw_scale_run *one, struct twin_error *err)
{
    int rc = tw_journal_add(s->journal, tw_scale_run_json(one), err);
    if (rc == 0 && (rc = tw_scale_add(s, one)) != 0)
        tw_no_memory(err, "for the runs of the study");
    return rc;
}

/* One run, which the journal keeps before it counts. */
static int make_run(struct tw_scale *s, uint64_t round, uint64_t workers, uint64_t deadline_ns)
{
    struct twin_error err = TWIN_ERROR_INIT;
    char title[64];
    struct tw_trial t = {.front = s->front, .title = title, .deadline_ns = deadline_ns};
    struct tw_scale_run one = {.round = round, .workers = workers};
    if (round)
        snprintf(title, sizeof title, "round %llu/%llu  %llu workers", (unsigned long long)round,
                 (unsigned long long)s->args.repeats, (unsigned long long)workers);
    else
        snprintf(title, sizeof title, "not timed  %llu workers", (unsigned long long)workers);
    for (size_t i = 0; i < s->runs; i++)
        if (s->run[i].workers == workers && s->run[i].good)
            t.expected_s = s->run[i].wall_s;
    int rc = launch_run(s, round, workers, &t, &err);
    s->interrupted |= rc == TWIN_EINTR || t.end == TW_TRIAL_INTERRUPTED;
    s->out_of_time |= t.end == TW_TRIAL_OUT_OF_TIME;
    if (rc == TWIN_EINTR)
        return 0;
    if (rc != 0)
        return tw_front_trouble(s->front, &err, "scale: cannot run the job");
    if (t.end == TW_TRIAL_NOT_STARTED && s->runs == 0) {
        tw_front_say(s->front, "scale: %s", t.run->message);
        twin_run_free(t.run);
        return TWIN_ENOENT;
    }
    if (!s->interrupted && !s->out_of_time) { /* else it is made again */
        rc = take_run(s, &t, &one, &err);
        if (rc == 0 && !s->args.quiet)
            tw_trial_line(s->front, title, t.run, one.state);
        rc = rc ? rc : keep_run(s, &one, &err);
    }
    tw_scale_run_free(&one);
    twin_run_free(t.run);
    if (rc == 0)
        return 0;
    return tw_front_trouble(s->front, &err,
                            "scale: the study ended; what was measured stands in %s",
                            s->journal->folder);
}

/* Text that was made in lines, each ended by a line break. */
static void show_lines(const struct tw_front *front, char *text)
{
    for (char *line; (line = strsep(&text, "\n")) && text;)
        tw_front_line(front, "%s", line);
}

/* Opens the folder of the study; with args.resume the runs that it has are taken. Shows the plan.
 */
static int open_journal(struct tw_scale *s)
{
    struct twin_error err = TWIN_ERROR_INIT;
    json_t *what = describe_study(s);
    char *plan = plan_text(s);
    const struct tw_journal_of of = {.kind = "studies",
                                     .name = "study.json",
                                     .what = what,
                                     .plan = plan,
                                     .resume = s->args.resume,
                                     .thing = "study of this job with these options"};
    int rc = tw_journal_open(s->journal, s->home, &of, read_line, s, &err);
    if (rc == 0 && plan && !s->args.quiet)
        show_lines(s->front, plan);
    tw_free(plan);
    json_decref(what);
    return rc ? tw_front_trouble(s->front, &err, "scale: cannot keep the study") : 0;
}

int tw_scale_make_runs(struct tw_scale *s)
{
    uint64_t order[TW_SCALE_COUNTS];
    uint64_t deadline_ns = s->args.max_time
                               ? tw_monotonic_ns() + s->args.max_time * UINT64_C(1000000000)
                               : 0;
    int rc = open_journal(s);
    for (uint64_t round = 0; round <= s->args.repeats && rc == 0; round++) {
        draw(s, round, order);
        for (size_t i = 0; i < s->counts && rc == 0; i++) {
            s->interrupted |= tw_front_stops(s->front);
            s->out_of_time |= deadline_ns && tw_monotonic_ns() > deadline_ns;
            if (s->interrupted || s->out_of_time)
                return 0;
            if (!is_made(s, round, order[i]) && !is_hopeless(s, order[i]))
                rc = make_run(s, round, order[i], deadline_ns);
        }
    }
    return rc;
}

/* ---- the whole study */

/* The processors that this process may use. */
static long usable_cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                       : sysconf(_SC_NPROCESSORS_ONLN);
}

/* The job as one could type it, without secrets. malloc'ed; NULL: no memory. */
static char *masked_command(const struct tw_scale *s)
{
    json_t *words = tw_journal_argv(s->home, s->argv);
    const size_t n = json_array_size(words);
    char **argv = tw_calloc(n + 1, sizeof *argv);
    for (size_t i = 0; argv && i < n; i++)
        argv[i] = (char *)(uintptr_t)json_string_value(json_array_get(words, i));
    char *text = argv ? tw_shell_quote(argv, n) : NULL;
    tw_free(argv);
    json_decref(words);
    return text;
}

/* Of the first run that ended well, whose commands and numbers of workers are left out: these are
 * the study's. */
static char *gather_configuration(const struct tw_scale *s)
{
    char *text = NULL;
    for (size_t i = 0; i < s->runs && !text; i++) {
        struct twin_run *r = NULL;
        char *path = s->run[i].good ? tw_printf("%s/runs/%s", s->home, s->run[i].run) : NULL;
        if (path && twin_run_load(path, &r, NULL) == 0)
            text = tw_configuration_of_world(r, false);
        twin_run_free(r);
        tw_free(path);
    }
    return text ? text : tw_strdup("");
}

int tw_scale_measure(struct tw_scale *s)
{
    char when[32];
    tw_utc_stamp(tw_realtime_ns(), when);
    when[10] = '\0'; /* the day */
    /* of the machines of an engine nothing is known beforehand */
    s->cores = tw_remote_is_on(s->on) ? 0 : usable_cores();
    s->made = tw_strdup(when);
    s->command = masked_command(s);
    if (!s->made || !s->command)
        return tw_front_trouble(s->front, NULL, "scale: no memory");
    int rc = tw_scale_make_runs(s);
    if (rc != 0)
        return rc;
    s->configuration = gather_configuration(s);
    if (!s->configuration)
        return tw_front_trouble(s->front, NULL, "scale: no memory");
    tw_scale_compare_results(s);
    return 0;
}
