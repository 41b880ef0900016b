/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun rollout VERB: a fix for a share of the runs, and more or none of it by what the ledger
 * says. Options in, src/rollout called, words out. How a run gets its pins: rollout_run.c.
 */
#include "options.h"
#include "rollout_words.h"
#include "runs.h"
#include "say.h"

#include "base.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct rollout_args {
    const char *flag, *share, *ladder, *alpha, *slowdown, *divergence, *loss, *fallback;
    const char *fallback_pins, *project, *why, *home, *ledger;
    uint64_t least;
    bool json;
};

#define FIELD(f) offsetof(struct rollout_args, f)

static const struct tw_option options[] = {
    {"flag", 'f', TW_OPT_FILE, "FILE", NULL, "Which",
     "the flag file, which jobs read (default: $TWINRUN_ROLLOUT)", FIELD(flag)},
    {"share", 's', TW_OPT_STRING, "PERCENT", "10%", "Start",
     "how many of the runs get the fix at first: 10% or 0.1", FIELD(share)},
    {"ladder", 0, TW_OPT_STRING, "LIST", NULL, "Start",
     "the shares that come after it, separated by commas (default: those above it of "
     "1%,5%,10%,25%,50%,100%)",
     FIELD(ladder)},
    {"project", 'p', TW_OPT_STRING, "PATTERN", NULL, "Start",
     "only runs whose TWINRUN_PROJECT is like it (* ? [..])", FIELD(project)},
    {"least", 0, TW_OPT_COUNT, "N", "5", "Rule",
     "so many new comparisons of runs with the fix before the next share", FIELD(least), 1,
     1000000},
    {"max-divergence", 0, TW_OPT_STRING, "PERCENT", "5%", "Rule",
     "fall back when more of the repeats with the fix diverge", FIELD(divergence)},
    {"max-slowdown", 0, TW_OPT_STRING, "RATIO", "1.2", "Rule",
     "fall back when runs with the fix take longer than so many times those without",
     FIELD(slowdown)},
    {"max-loss", 0, TW_OPT_STRING, "PERCENT", "5%", "Rule",
     "fall back when the last loss with the fix is higher by more than so much of itself",
     FIELD(loss)},
    {"alpha", 0, TW_OPT_STRING, "P", "0.05", "Rule",
     "the chance to ever fall back although all is within the bounds, however often it is looked "
     "at",
     FIELD(alpha)},
    {"fallback", 0, TW_OPT_STRING, "HOW", "pins", "Rule",
     "what all runs get after falling back: pins, or off (nothing)", FIELD(fallback)},
    {"fallback-pins", 0, TW_OPT_STRING, "LIST", NULL, "Rule",
     "those pins (default: all,-entropy,-clock; all, where the fix pins one of these two)",
     FIELD(fallback_pins)},
    {"why", 'm', TW_OPT_STRING, "TEXT", NULL, "End",
     "of stop and fallback: the reason, which the ledger keeps", FIELD(why)},
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Output", "folder that holds the runs", FIELD(home)},
    TW_LEDGER_OPTION(rollout_args, ledger),
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Output", "print one JSON object", FIELD(json)},
    {NULL},
};

/* ---- what is asked for */

/* A decimal number; NaN: it is none. */
static double number_of(const char *text)
{
    char *end = NULL;
    const double x = strtod(text, &end);
    return end == text || *end || !isfinite(x) ? NAN : x;
}

/* -1: done. Else the exit code of a complaint. */
static int ladder_of(const char *list, struct tw_rollout_rule *rule)
{
    if (!list)
        return -1;
    char *copy = tw_strdup(list), *save = NULL;
    int rc = copy ? -1 : tw_trouble(NULL, "out of memory");
    for (char *at = rc < 0 ? strtok_r(copy, ",", &save) : NULL; at && rc < 0;
         at = strtok_r(NULL, ",", &save)) {
        const double share = tw_share_of(at);
        if (share < 0 || rule->steps == TW_ROLLOUT_LADDER)
            rc = tw_bad_use("rollout",
                            "--ladder: expected up to %d shares such as 10%%,50%%, found \"%s\"",
                            TW_ROLLOUT_LADDER, list);
        else
            rule->ladder[rule->steps++] = (uint32_t)lround(share * TW_ROLLOUT_WHOLE);
    }
    if (rc < 0 && rule->steps == 0)
        rc = tw_bad_use("rollout", "--ladder: expected shares such as 10%%,50%%, found \"%s\"",
                        list);
    tw_free(copy);
    return rc;
}

static int asked_of(const struct rollout_args *a, const char *fix, struct tw_rollout_asked *out)
{
    const bool off = strcmp(a->fallback, "off") == 0;
    *out = (struct tw_rollout_asked){.fix = fix,
                                     .share = tw_share_of(a->share),
                                     .project = a->project,
                                     .fallback_pins = a->fallback_pins,
                                     .fallback_off = off,
                                     .rule = {.alpha = number_of(a->alpha),
                                              .max_slowdown = number_of(a->slowdown),
                                              .max_divergence = tw_share_of(a->divergence),
                                              .max_loss = tw_share_of(a->loss),
                                              .least = a->least}};
    if (out->share < 0)
        return tw_bad_use("rollout", "--share: expected 0%% to 100%%, or 0 to 1, found \"%s\"",
                          a->share);
    if (!(out->rule.alpha > 0 && out->rule.alpha < .5))
        return tw_bad_use("rollout", "--alpha: expected a number between 0 and 0.5, found \"%s\"",
                          a->alpha);
    if (!(out->rule.max_slowdown >= 1 && out->rule.max_slowdown <= 1000))
        return tw_bad_use("rollout", "--max-slowdown: expected 1 to 1000, found \"%s\"",
                          a->slowdown);
    if (!(out->rule.max_divergence > 0 && out->rule.max_divergence < 1))
        return tw_bad_use("rollout",
                          "--max-divergence: expected a share between 0%% and 100%%, "
                          "found \"%s\"",
                          a->divergence);
    if (out->rule.max_loss < 0)
        return tw_bad_use("rollout", "--max-loss: expected 0%% to 100%%, or 0 to 1, found \"%s\"",
                          a->loss);
    if (!off && strcmp(a->fallback, "pins") != 0)
        return tw_bad_use("rollout", "--fallback: expected pins or off, found \"%s\"", a->fallback);
    if (off && a->fallback_pins)
        return tw_bad_use("rollout", "--fallback off and --fallback-pins exclude each other");
    return ladder_of(a->ladder, &out->rule);
}

/* ---- verbs */

static int exit_code(const char *verb, const struct tw_rollout_result *r)
{
    if (r->busy)
        return TW_EXIT_INCONCLUSIVE;
    const bool looks = strcmp(verb, "step") == 0 || strcmp(verb, "status") == 0;
    return looks && r->flag.decision == TW_ROLLOUT_FELL_BACK ? TW_EXIT_DIFFER : TW_EXIT_SAME;
}

static int act(const char *verb, const struct tw_rollout_call *c, const struct rollout_args *a,
               const char *fix)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_rollout_result r = {.busy = false};
    struct tw_rollout_log log = {.count = 0};
    struct tw_rollout_asked asked;
    int rc, code = -1;
    if (strcmp(verb, "start") == 0) {
        code = asked_of(a, fix, &asked);
        rc = code < 0 ? tw_rollout_start(c, &asked, &r, &err) : 0;
    } else if (strcmp(verb, "step") == 0) {
        rc = tw_rollout_step(c, &r, &err);
    } else if (strcmp(verb, "status") == 0) {
        rc = tw_rollout_status(c, &r, &err);
        if (rc == 0 && a->json)
            rc = tw_rollout_log_load(c, r.flag.id, &log, &err);
    } else {
        rc = tw_rollout_end(c, strcmp(verb, "fallback") == 0, a->why, &r, &err);
    }
    if (rc != 0)
        code = tw_trouble(&err, "rollout %s", verb);
    else if (code < 0 && a->json)
        code = tw_json_print(tw_rollout_json(verb, c->flag, &r, &log)) ? TW_EXIT_TROUBLE : -1;
    else if (code < 0)
        tw_rollout_print(stdout, verb, c->flag, &r);
    if (code < 0)
        code = exit_code(verb, &r);
    tw_rollout_log_free(&log);
    tw_rollout_result_free(&r);
    return code;
}

static int list(const struct tw_rollout_call *c, const struct rollout_args *a)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_rollout_log log;
    int rc = tw_rollout_log_load(c, NULL, &log, &err);
    if (rc != 0)
        rc = tw_trouble(&err, "rollout list");
    else if (a->json)
        rc = tw_json_print(tw_rollout_list_json(&log));
    else
        tw_rollout_print_list(stdout, &log);
    tw_rollout_log_free(&log);
    return rc;
}

static int run(int argc, char **argv)
{
    static const char *const verbs[] = {"start",    "step", "status", "stop",
                                        "fallback", "list", NULL};
    struct rollout_args a = {.home = NULL};
    struct tw_operands given;
    int rc = tw_options_parse(&tw_command_rollout, argc, argv, &a, &given);
    if (rc >= 0)
        return rc;
    const char *verb = given.count ? given.items[0] : "";
    const bool starts = strcmp(verb, "start") == 0;
    size_t known = 0;
    while (verbs[known] && strcmp(verbs[known], verb) != 0)
        known++;
    if (!verbs[known])
        return tw_bad_use(
            "rollout", "expected start, step, status, stop, fallback or list, found \"%s\"", verb);
    if (starts && given.count != 2)
        return tw_bad_use("rollout", "start: expected the fix: last, the id of a search, or pins "
                                     "such as hash-seed,threads");
    if (!starts && given.count != 1)
        return tw_bad_use("rollout", "%s: expected nothing behind it, found \"%s\"", verb,
                          given.items[1]);
    const char *flag = a.flag ? a.flag : getenv("TWINRUN_ROLLOUT");
    const bool lists = strcmp(verb, "list") == 0;
    if (!lists && (!flag || !*flag))
        return tw_bad_use("rollout", "expected --flag FILE, or TWINRUN_ROLLOUT");
    char *home = tw_home_for_runs(a.home, "rollout");
    if (!home)
        return TW_EXIT_TROUBLE;
    const struct tw_rollout_call c = {.flag = flag, .home = home, .url = a.ledger};
    if (lists)
        rc = list(&c, &a);
    else
        rc = act(verb, &c, &a, starts ? given.items[1] : NULL);
    tw_free(home);
    return rc;
}

static const char *const synopsis[] = {"start FIX --flag FILE [--share PERCENT] [options]",
                                       "step [--flag FILE]",
                                       "status [--flag FILE]",
                                       "stop|fallback [--flag FILE] [--why TEXT]",
                                       "list",
                                       NULL};
static const struct tw_pair exits[] = {
    {"0", "done; step: more runs get the fix, or as many as before"},
    {"1", "step, status: the rollout fell back"},
    {"2", "trouble: bad use, a flag file or a ledger that cannot be read or written"},
    {"3", "another call is at work on this flag file: nothing was done"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun rollout start last --flag /srv/train/rollout",
     "what isolate found last, for a tenth of the runs"},
    {"TWINRUN_ROLLOUT=/srv/train/rollout twinrun record -- python train.py", "a job that reads it"},
    {"twinrun rollout step --flag /srv/train/rollout", "for cron: more, the same, or none of it"},
    {"twinrun rollout stop --flag /srv/train/rollout --why 'fixed in the code'",
     "no run gets the fix any more"},
    {NULL, NULL},
};

const struct tw_command tw_command_rollout = {
    "rollout",
    "give a share of the runs a fix, and more or none by what it does",
    synopsis,
    "FIX is what twinrun isolate found (last, or the id of a search or of a run in it), or a list "
    "of pins as of twinrun run. A flag file says which share of the runs gets it; twinrun record "
    "and twinrun run read it where TWINRUN_ROLLOUT names it, and a hash of the run says which they "
    "are. A flag file that is broken, missing or of another version means no fix, and never harms "
    "the job.\n\n"
    "step compares the runs of equal inputs, and decides from the ledger: repeats that diverge, "
    "time, last loss, its spread and failures with the fix beside those without. Where one is "
    "shown to be beyond its bound, all runs get the fallback. Where the fix is shown to help, the "
    "next share gets it. The rule holds however often it is looked at. Each decision is in the "
    "ledger with its numbers.",
    options,
    TW_OPERANDS_FILES,
    0,
    0,
    exits,
    examples,
    run,
};
