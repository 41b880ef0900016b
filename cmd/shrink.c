/* SPDX-License-Identifier: Apache-2.0 */
/* twinrun shrink: the smallest command that still shows the divergence. */
#include "shrink_report.h"
#include "shrink_runs.h"

#include "interrupt.h"
#include "json.h"
#include "progress.h"
#include "runs.h"
#include "say.h"

#include "base.h"

#include "src/stats/stats.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FIELD(f) offsetof(struct tw_shrink_args, f)

/* The baseline, and the confirmation, end when BASELINE comparisons have parted; a trial needs NEED
 * of them, within as many comparisons as a job that parts as often as before would miss in one of
 * MISS^-1 trials only. CAP keeps a rare divergence from eating the budget. */
enum { BASELINE = TW_WAYS_MAX, NEED = 2, CAP = 60, HALVINGS = 8, CHAIN = 128 };
#define MISS 0.1

static const struct tw_option options[] = {
    {"knob", 'k', TW_OPT_LIST, "KNOB", NULL, "What may shrink",
     "a number of the command or its environment: --OPTION=FROM:TO or env:NAME=FROM:TO; may be "
     "given again",
     FIELD(knobs)},
    {"runs", 'n', TW_OPT_COUNT, "N", "15", "Budget",
     "give up when N runs as it is have not diverged", FIELD(runs), 2, 100000},
    {"max-runs", 0, TW_OPT_COUNT, "N", "150", "Budget", "make at most N runs", FIELD(max_runs), 2,
     100000},
    {"max-time", 0, TW_OPT_SECONDS, "TIME", NULL, "Budget",
     "spend at most TIME on runs (90, 90s, 10m, 2h)", FIELD(max_time)},
    {"level", 'l', TW_OPT_LEVEL, "LEVEL", "tensors", "Recording",
     "what is recorded: steps, tensors, modules or ops", FIELD(level)},
    {"fresh-dir", 0, TW_OPT_FLAG, NULL, NULL, "Recording",
     "run each time in a scratch copy of the working folder", FIELD(fresh_dir)},
    {"ignore", 'i', TW_OPT_LIST, "PATTERN", NULL, "Comparison",
     "leave out records whose phase/kind/name, or files whose name, match; file:GLOB: files alone; "
     "line:REGEX: printed lines and lines of files",
     FIELD(ignore)},
    {"no-zoom", 0, TW_OPT_FLAG, NULL, NULL, "Comparison",
     "do not name the operation of the first divergence, before and after", FIELD(no_zoom)},
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Output", "folder that holds the runs", FIELD(home)},
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Output", "print the result as one JSON object",
     FIELD(json)},
    {"quiet", 'q', TW_OPT_FLAG, NULL, NULL, "Output",
     "only the result: no progress, no line per trial", FIELD(quiet)},
    {NULL},
};

static const char *const synopsis[] = {"[options] -- COMMAND [ARG...]", NULL};
static const struct tw_pair exits[] = {
    {"0", "the job does not diverge; what that excludes is printed"},
    {"1", "the job diverges; the smallest command found that still does is printed"},
    {"2", "trouble: bad use, the home cannot be written, the job fails"},
    {"3", "inconclusive: the budget ended before the divergence was seen often enough, or not "
          "everything was seen"},
    {"130", "interrupted by Ctrl-C; the smallest command so far has been printed"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun shrink -- python train.py", "fewer steps"},
    {"twinrun shrink --knob --batch-size=64:4 --knob env:SAMPLES=50000:100 -- python train.py "
     "--batch-size 64",
     "and a smaller batch and less data"},
    {"twinrun shrink -- torchrun --nproc-per-node=4 train.py", "fewer ranks and steps"},
    {NULL, NULL},
};

static struct tw_shrink_rule rule_for(const struct tw_shrink *c, uint64_t need)
{
    const struct tw_shrink_evidence *b = &c->baseline;
    /* 3 of 3 does not mean always; and a series that ended with its third divergence shows too many
     * of them. */
    double rate = b->parted == b->trials ? ((double)b->parted + 0.5) / ((double)b->trials + 1)
                                         : twin_stats_rate_lower(b->parted, b->trials, 0.75);
    struct tw_shrink_rule rule = {need, need};
    while (rule.trials < CAP && twin_stats_binomial_cdf(need - 1, rule.trials, rate) > MISS)
        rule.trials++;
    return rule;
}

/* ---- what was accepted, in order: a setting that does not stand up to fresh runs is given back */

struct chain {
    struct tw_shrink_setting at[CHAIN];
    struct tw_shrink_evidence seen[CHAIN];
    size_t count;
};

static void say_trial(const struct tw_shrink *c, const struct tw_shrink_setting *s,
                      const struct tw_shrink_evidence *e, const char *what)
{
    char time[24], steps[40] = "all steps";
    if (c->args.quiet)
        return;
    if (s->steps)
        snprintf(steps, sizeof steps, "%llu step%s", (unsigned long long)s->steps,
                 s->steps == 1 ? "" : "s");
    tw_progress_clear();
    tw_put_to(stderr, "%s", steps);
    for (size_t i = 0; i < c->knob_count; i++)
        tw_put_to(stderr, ", %s %llu", c->knob[i].name, (unsigned long long)s->value[i]);
    if (!e->trials && e->other)
        tw_put_to(stderr, ": %s\n", e->other);
    else
        tw_put_to(stderr, ": %s, diverged in %llu of %llu comparisons, %s a run\n", what,
                  (unsigned long long)e->parted, (unsigned long long)e->trials,
                  tw_human_seconds(e->seconds, time));
}

/* Tries a setting, and keeps it when the divergence stays. 0, or the exit code after trouble;
 * *kept, and *why (the caller's) when not. */
static int try(struct tw_shrink *c, struct chain *k, const struct tw_shrink_setting *s, bool *kept,
               char **why)
{
    static const char *const words[] = {"stays", "gone", "fails", "not finished"};
    struct tw_shrink_evidence e;
    enum tw_shrink_answer answer;
    int rc = tw_shrink_trial(c, s, rule_for(c, NEED), &e, &answer);
    *kept = rc == 0 && answer == TW_SHRINK_STAYS && k->count < CHAIN;
    if (rc == 0)
        say_trial(c, s, &e, words[answer]);
    if (*kept) {
        k->at[k->count] = *s;
        k->seen[k->count++] = e;
        return rc;
    }
    tw_free(*why);
    if (answer == TW_SHRINK_UNKNOWN)
        *why = tw_strdup(c->interrupted ? "interrupted" : "the budget ended");
    else if (e.other)
        *why = tw_strdup(e.other);
    else
        *why = tw_printf("diverges in %llu of %llu comparisons only", (unsigned long long)e.parted,
                         (unsigned long long)e.trials);
    tw_shrink_evidence_free(&e);
    return rc;
}

static const struct tw_shrink_evidence *last_seen(const struct tw_shrink *c, const struct chain *k)
{
    return k->count ? &k->seen[k->count - 1] : &c->baseline;
}

static struct tw_shrink_setting current(const struct tw_shrink *c, const struct chain *k)
{
    return k->count ? k->at[k->count - 1] : c->whole;
}

static bool going(const struct tw_shrink *c)
{
    return !c->interrupted && !c->out_of_budget;
}

/* "at 4: ..."; gives why up. */
static void set_why(char **slot, uint64_t value, char *why)
{
    tw_free(*slot);
    *slot = why ? tw_printf("at %llu: %s", (unsigned long long)value, why) : NULL;
    tw_free(why);
}

/* Tries that many steps. A later success at fewer steps makes an earlier reason void. */
static int try_steps(struct tw_shrink *c, struct chain *k, uint64_t steps, bool *kept)
{
    struct tw_shrink_setting s = current(c, k);
    char *why = NULL;
    s.steps = steps;
    int rc = try(c, k, &s, kept, &why);
    if (rc == 0 && (!*kept || steps <= c->steps_why_at)) {
        set_why(&c->steps_why, steps, why);
        c->steps_why_at = steps;
    }
    return rc;
}

/* ---- steps */

static bool in_a_step(const struct twin_finding *f)
{
    return f->type <= TWIN_FINDING_ORDER;
}

/* Runs that end earlier are the beginnings of longer ones, so the steps at which comparisons have
 * parted so far say where to look: no job of fewer steps than the earliest can part there, and one
 * of as many as the latest should. Between them by bisection. */
static int fewer_steps(struct tw_shrink *c, struct chain *k)
{
    const struct tw_shrink_evidence *e = last_seen(c, k);
    struct tw_shrink_setting s = current(c, k);
    uint64_t most = s.steps ? s.steps : e->steps;
    uint64_t least = (uint64_t)e->first_step + 1;
    uint64_t next = (uint64_t)e->last_step + 1;
    int rc = 0;
    if (!in_a_step(e->verdict[0]->first) || most <= 1) {
        if (!k->count && !c->steps_why)
            c->steps_why = tw_strdup(
                most <= 1
                    ? "there are none to leave out"
                    : "the job does not diverge in a step, but in how it ends or what it writes");
        return 0;
    }
    bool found = false, kept;
    /* where it should part; further on when chance was against it twice */
    while (rc == 0 && going(c) && !found && next < most) {
        rc = try_steps(c, k, next, &found);
        if (rc == 0 && going(c) && !found)
            rc = try_steps(c, k, next, &found);
        if (!found && least <= next)
            least = next + 1;
        next = found ? next : next * 2;
    }
    most = found ? next : most;
    for (int i = 0; rc == 0 && going(c) && found && least < most && i < HALVINGS; i++) {
        uint64_t middle = least + (most - least) / 2;
        rc = try_steps(c, k, middle, &kept);
        if (kept)
            most = middle;
        else
            least = middle + 1;
    }
    return rc;
}

/* ---- knobs */

/* First as small as allowed, which is the largest gain; then halves, until the divergence goes. */
static int smaller(struct tw_shrink *c, struct chain *k, size_t knob)
{
    struct tw_knob *x = &c->knob[knob];
    struct tw_shrink_setting s = current(c, k);
    uint64_t value = s.value[knob];
    bool kept = true;
    int rc = 0;
    for (uint64_t next = x->to; rc == 0 && going(c) && kept && value > x->to && next < value;) {
        char *why = NULL;
        s.value[knob] = next;
        rc = try(c, k, &s, &kept, &why);
        if (kept) {
            value = next;
        } else {
            set_why(&x->why, next, why);
            kept = next == x->to && value / 2 > x->to; /* the halves have not been tried yet */
        }
        next = value / 2 > x->to ? value / 2 : value;
    }
    return rc;
}

/* ---- confirmation */

/* What was accepted was chosen among many; only fresh runs testify. A setting that does not stand
 * up to them is given back for the one accepted before it. */
static const char *confirmation_word(bool stands, enum tw_shrink_answer answer)
{
    if (stands)
        return "confirmed";
    return answer == TW_SHRINK_UNKNOWN ? "not finished" : "not confirmed";
}

static int confirm(struct tw_shrink *c, struct chain *k)
{
    int rc = 0;
    for (bool stands = false; rc == 0 && k->count && !stands;) {
        struct tw_shrink_evidence *e = &c->confirmed;
        struct tw_shrink_setting s = current(c, k);
        enum tw_shrink_answer answer;
        tw_shrink_evidence_free(e);
        c->now = s;
        if (!going(c)) /* the budget is over: its trial stands for it, and the report says so */
            return 0;
        rc = tw_shrink_trial(
            c, &s, rule_for(c, c->baseline.parted < NEED ? NEED : c->baseline.parted), e, &answer);
        stands = answer == TW_SHRINK_STAYS;
        if (stands)
            tw_shrink_name_operation(c, &s, e);
        if (stands && !tw_shrink_known(c, e->verdict[0]->first))
            stands = false;
        if (rc == 0)
            say_trial(c, &s, e, confirmation_word(stands, answer));
        if (answer == TW_SHRINK_UNKNOWN) {
            tw_shrink_evidence_free(e);
            return rc;
        }
        if (!stands && rc == 0) {
            if (!c->given_back)
                c->given_back = tw_printf(
                    "a smaller one (%llu steps) did not stand up to fresh runs: %llu of %llu "
                    "comparisons diverged",
                    (unsigned long long)(s.steps ? s.steps : c->baseline.steps),
                    (unsigned long long)e->parted, (unsigned long long)e->trials);
            tw_shrink_evidence_free(&k->seen[--k->count]);
        }
    }
    if (!k->count) {
        c->now = c->whole;
        tw_shrink_evidence_free(&c->confirmed);
    }
    return rc;
}

/* ---- the order of events */

/* The smallest command that still diverges, as one could type it. malloc'ed; NULL: no memory. */
static char *check_command(const struct tw_shrink *c)
{
    char *job = tw_shrink_shell(c, &c->now), *out = NULL;
    if (job && c->now.steps)
        out = tw_printf("twinrun check --steps %llu -- %s", (unsigned long long)c->now.steps, job);
    else if (job)
        out = tw_printf("twinrun check -- %s", job);
    tw_free(job);
    return out;
}

/*
 * The object that --json prints when there is no result: outcome "error" and what was said. Returns
 * code.
 */
static int json_error(int code)
{
    json_t *j = json_pack("{s:s, s:s, s:o, s:n, s:i}", "schema", "twinrun.shrink/1", "outcome",
                          "error", "message", tw_json_text(tw_said()), "command", "runs_used", 0);
    return tw_json_print(j) != 0 ? TW_EXIT_TROUBLE : code;
}

/* Prints; returns the exit code. */
static int report(struct tw_shrink *c, enum tw_shrink_outcome outcome)
{
    static const int code[] = {
        [TW_SHRUNK] = TW_EXIT_DIFFER,
        [TW_NOT_SHRUNK] = TW_EXIT_DIFFER,
        [TW_NO_DIVERGENCE] = TW_EXIT_SAME,
        [TW_SHRINK_INCONCLUSIVE] = TW_EXIT_INCONCLUSIVE,
    };
    int rc = 0;
    char *command = c->baseline.parted ? check_command(c) : NULL;
    c->reported = true;
    if (c->args.json)
        rc = tw_json_print(tw_shrink_json(c, outcome, command));
    else
        tw_shrink_text(stdout, c, outcome, command);
    tw_free(command);
    if (rc != 0)
        return TW_EXIT_TROUBLE;
    return c->interrupted ? TW_EXIT_INTERRUPTED : code[outcome];
}

/* -1 when the job parts, else the exit code. */
static int baseline(struct tw_shrink *c)
{
    enum tw_shrink_answer answer;
    int rc = tw_shrink_trial(c, &c->whole, (struct tw_shrink_rule){BASELINE, c->args.runs - 1},
                             &c->baseline, &answer);
    if (rc != 0)
        return rc;
    if (answer == TW_SHRINK_FAILS)
        return TW_EXIT_TROUBLE;
    say_trial(c, &c->whole, &c->baseline, "as it is");
    if (c->baseline.parted) {
        tw_shrink_name_operation(c, &c->whole, &c->baseline);
        return -1;
    }
    return report(c, !going(c) || c->baseline.unseen ? TW_SHRINK_INCONCLUSIVE : TW_NO_DIVERGENCE);
}

static enum tw_shrink_outcome outcome_of(const struct tw_shrink *c, const struct chain *k)
{
    if (k->count)
        return TW_SHRUNK;
    return going(c) ? TW_NOT_SHRUNK : TW_SHRINK_INCONCLUSIVE;
}

static int shrink(struct tw_shrink *c)
{
    struct chain *k = tw_calloc(1, sizeof *k);
    if (!k)
        return tw_trouble(&(struct twin_error){.code = TWIN_ENOMEM}, "shrink");
    int rc = baseline(c);
    if (rc < 0) {
        rc = fewer_steps(c, k);
        for (size_t i = 0; i < c->knob_count && rc == 0; i++)
            rc = smaller(c, k, i);
        if (rc == 0 && c->knob_count && k->count) /* a smaller job may part sooner */
            rc = fewer_steps(c, k);
        if (rc == 0)
            rc = confirm(c, k);
        if (rc == 0)
            rc = report(c, outcome_of(c, k));
    }
    for (size_t i = 0; i < k->count; i++)
        tw_shrink_evidence_free(&k->seen[i]);
    tw_free(k);
    return rc;
}

static int prepare(struct tw_shrink *c)
{
    int rc = tw_shrink_knobs(c);
    if (rc >= 0)
        return rc;
    c->now = c->whole;
    c->home = tw_home_for_runs(c->args.home, "shrink");
    if (!c->home)
        return TW_EXIT_TROUBLE;
    if (!isatty(STDIN_FILENO)) /* each run is to read the same bytes */
        c->spool = tw_printf("%s/stdin-%d-%llx", c->home, (int)getpid(),
                             (unsigned long long)tw_monotonic_ns());
    c->began_ns = tw_monotonic_ns();
    if (c->args.max_time)
        c->deadline_ns = c->began_ns + c->args.max_time * 1000000000u;
    return -1;
}

static void fini(struct tw_shrink *c)
{
    for (size_t i = 0; i < c->knob_count; i++) {
        tw_free(c->knob[i].name);
        tw_free(c->knob[i].why);
    }
    tw_shrink_evidence_free(&c->baseline);
    tw_shrink_evidence_free(&c->confirmed);
    if (c->spool)
        unlink(c->spool);
    tw_free(c->steps_why);
    tw_free(c->given_back);
    tw_free(c->spool);
    tw_free(c->home);
    tw_free(c->args.knobs.items);
    tw_free(c->args.ignore.items);
}

static int run(int argc, char **argv)
{
    struct tw_shrink c = {0};
    struct tw_operands job;
    int rc = tw_options_parse(&tw_command_shrink, argc, argv, &c.args, &job);
    if (rc < 0 && job.count == 0)
        rc = tw_bad_use(
            "shrink",
            "expected the job's command after --; write: twinrun shrink -- python train.py");
    if (rc < 0) {
        c.argv = job.items;
        tw_interrupt_hold();
        tw_progress_setup(c.args.quiet);
        rc = prepare(&c);
        if (rc < 0)
            rc = shrink(&c);
        if (c.args.json && !c.reported)
            rc = json_error(rc);
    }
    fini(&c);
    return rc;
}

const struct tw_command tw_command_shrink = {
    "shrink",
    "find a smaller command that still shows the divergence",
    synopsis,
    "Runs COMMAND until three comparisons have diverged, then with fewer steps, fewer ranks "
    "(torchrun, mpirun, srun) and smaller numbers where a knob was declared, and keeps what is "
    "smaller as long as the same divergence stays: the same layer and operation (or, where no "
    "operation is seen, the same phase and kind of record). The smallest command that stood up to "
    "fresh runs is printed.\n\n"
    "A trial needs two comparisons that diverge, within as many as a job that diverges as often as "
    "before would fail in one trial of ten. Steps are found by bisection between the earliest and "
    "the latest step at which comparisons have diverged; a knob is tried at its smallest value, "
    "then "
    "halved.\n\n"
    "A knob names an option of the command with its number (--batch-size 64 or --batch-size=64), "
    "or a variable of the environment, and the smallest value to try.",
    options,
    TW_OPERANDS_JOB,
    0,
    0,
    exits,
    examples,
    run,
};
