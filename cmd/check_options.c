/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which options of check go together, and what the files that they name hold: everything that can
 * be wrong before the first run is found before the first run. Complaints are said here.
 */
#include "check_args.h"

#include "on.h"
#include "page.h"
#include "runs.h"
#include "say.h"
#include "verify.h"

#include "base.h"
#include "verified.h"

#include <unistd.h>

/* A transplant needs a natural run, one that is recorded, and one that is given its values. A
 * baseline is a small text file: what is larger is none. */
enum { LEAST_RUNS = 3, FILE_MAX_BYTES = 5 << 20 };

/* Is --resume-with given with what it needs, and without what it does not go with? */
static int resume_options(const struct tw_check_asked *a, bool job)
{
    if (a->half && !a->resume_with)
        return tw_bad_use("check", "--half belongs to --resume-with");
    if (!a->resume_with)
        return -1;
    if (!job)
        return tw_bad_use(
            "check", "--resume-with: expected the whole job's command after --; write: twinrun "
                     "check --resume-with 'python train.py --resume' -- python train.py");
    const char *other = NULL;
    if (a->against)
        other = "--against";
    else if (a->save_baseline)
        other = "--save-baseline";
    else if (a->transplant)
        other = "--transplant";
    if (other)
        return tw_bad_use("check", "--resume-with does not go with %s, which is about one job",
                          other);
    return -1;
}

/* One command is both arms. With --resume-with the first arm is the whole job and the second one
 * what goes on with it; with --a and --b each is a shell of its own. */
int tw_check_choose_arms(struct tw_check_command *c, const struct tw_operands *job)
{
    struct tw_check_asked *asked = &c->args.asked;
    const struct tw_check_args *a = &c->args;
    if (job->count && (a->a || a->b))
        return tw_bad_use("check", "expected either -- COMMAND or --a CMD --b CMD, found both");
    if (!job->count && !a->a && !a->b)
        return tw_bad_use(
            "check",
            "expected the job's command after --; write: twinrun check -- python train.py");
    if (!job->count && (!a->a || !a->b))
        return tw_bad_use("check", "expected two arms, found only --%s; give --%s too",
                          a->a ? "a" : "b", a->a ? "b" : "a");
    if (job->count && asked->b_starts_at != TW_NOT_GIVEN && !asked->resume_with)
        return tw_bad_use("check", "--b-starts-at belongs to --a and --b, or to --resume-with");
    int rc = resume_options(asked, job->count > 0);
    if (rc >= 0)
        return rc;
    if (job->count) {
        c->check.arm[0] = c->check.arm[1] = job->items;
        if (asked->resume_with) {
            c->check.arms = true;
            /* what the whole run leaves must not be what the resumed one finds */
            asked->fresh_dir = true;
            tw_shell_argv(asked->resume_with, c->shell[1]);
            c->check.arm[1] = c->shell[1];
        }
        return -1;
    }
    c->check.arms = true;
    tw_shell_argv(a->a, c->shell[0]);
    tw_shell_argv(a->b, c->shell[1]);
    c->check.arm[0] = c->shell[0];
    c->check.arm[1] = c->shell[1];
    return -1;
}

/* Which steps are given the values of another run: only runs of one command have the same steps. */
int tw_check_transplant_options(const struct tw_check_asked *a, bool arms)
{
    enum twin_transplant_kind kind;
    if (!a->transplant)
        return a->window.given ? tw_bad_use("check", "--window belongs to --transplant") : -1;
    if (twin_transplant_parse(a->transplant, &kind) != 0)
        return tw_bad_use("check", "--transplant: expected data, rng or step, found %s",
                          a->transplant);
    if (arms)
        return tw_bad_use("check",
                          "--transplant compares runs of one command; write: twinrun check "
                          "--transplant %s -- COMMAND",
                          a->transplant);
    if (a->runs < LEAST_RUNS)
        return tw_bad_use("check",
                          "--transplant needs 3 runs or more (a natural one, one to record, one to "
                          "give the values to), found --runs %llu",
                          (unsigned long long)a->runs);
    return -1;
}

/* A baseline is written from runs that agree, or read to hold one run against it: never both, and
 * about one job. */
int tw_check_gate_options(const struct tw_check_args *args, bool arms)
{
    const struct tw_check_asked *a = &args->asked;
    if (!a->against && (args->keys.count || args->trust))
        return tw_bad_use("check",
                          "--key and --trust are about the file of --against: expected it too");
    if (!a->against && !a->save_baseline)
        return -1;
    const char *which = a->against ? "--against" : "--save-baseline";
    if (a->against && a->save_baseline)
        return tw_bad_use("check", "expected --save-baseline, which writes what is expected, or "
                                   "--against, which reads it; found both");
    if (arms)
        return tw_bad_use("check", "%s is about one job: it does not go with --a and --b", which);
    if (a->transplant)
        return tw_bad_use("check",
                          "%s does not go with --transplant, which changes what the job computes",
                          which);
    if (a->against && a->ignore.count)
        return tw_bad_use(
            "check",
            "what a baseline leaves out is written in it: give --ignore to --save-baseline");
    if (a->save_baseline && a->runs != TW_NOT_GIVEN && a->runs < 2)
        return tw_bad_use(
            "check",
            "a baseline is what repeats itself: expected --runs 2 or more with --save-baseline");
    return -1;
}

/* Page, tolerances, home and data are looked at now: an hour of runs must not end with a file that
 * cannot be written. */
int tw_check_prepare(struct tw_check_command *command)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_check *c = &command->check;
    const struct tw_check_args *a = &command->args;
    if (tw_page_check("check", a->html) != 0)
        return TW_EXIT_TROUBLE;
    if (a->asked.tolerance && twin_tolerance_check(a->asked.tolerance, &err) != 0)
        return tw_trouble(&err, "check: --tolerance");
    c->args = a->asked;
    c->series.home = tw_home_for_runs(a->home, "check");
    if (!c->series.home)
        return TW_EXIT_TROUBLE;
    int rc = tw_on_open("check", &c->remote, &a->asked.engine, c->series.home);
    if (rc >= 0)
        return rc;
    if (c->remote.engine && a->asked.show_output)
        return tw_bad_use("check", "--show-output does not go with --on: the jobs print elsewhere "
                                   "(what they print lies in the run folders)");
    /* runs at the same time must not write over each other's files */
    c->args.fresh_dir |= c->remote.engine != NULL;
    rc = tw_data_verify("check", &a->data, a->asked.quiet, &c->data);
    if (rc >= 0)
        return rc;
    if (!isatty(STDIN_FILENO)) /* each run is to read the same bytes */
        c->spool = tw_printf("%s/stdin-%d-%llx", c->series.home, (int)getpid(),
                             (unsigned long long)tw_monotonic_ns());
    if (a->max_time)
        c->series.deadline_ns = tw_monotonic_ns() + a->max_time * 1000000000u;
    c->level = a->asked.level == TW_CHECK_LEVEL_NOT_GIVEN ? TWIN_LEVEL_TENSORS : a->asked.level;
    return -1;
}

/* With --key or --trust: sets c->signer, or fails (src/sign/bytes.c). text: of the baseline. */
static int judge_signature(struct tw_check_command *c, const char *text, size_t bytes,
                           struct twin_error *err)
{
    const struct tw_check_args *a = &c->args;
    if (!a->keys.count && !a->trust)
        return 0;
    struct tw_verify_args how = {.keys = a->keys, .trust = a->trust};
    struct twin_trust *trust = NULL;
    int64_t at_ns;
    int rc = tw_signed_trust(&how, &trust, &at_ns, err);
    if (rc == 0)
        rc = tw_signed_bytes(a->asked.against, text, bytes, trust, at_ns, &c->check.signer, err);
    twin_trust_free(trust);
    return rc;
}

/* The signature is judged on the very bytes that are read afterwards, so that the file cannot be
 * exchanged in between. */
int tw_check_load_baseline(struct tw_check_command *c)
{
    struct twin_error err = TWIN_ERROR_INIT;
    const char *path = c->args.asked.against;
    char *text = NULL;
    size_t bytes = 0;
    int rc = tw_read_file(path, FILE_MAX_BYTES, &text, &bytes, &err);
    if (rc == 0)
        rc = judge_signature(c, text, bytes, &err);
    if (rc == 0)
        rc = twin_baseline_read(text, bytes, path, &c->check.baseline, &err);
    tw_free(text);
    if (rc != 0)
        return tw_trouble(&err, "check: --against");
    if (tw_check_gate_as_then(&c->check, &err) != 0)
        return tw_bad_use("check", "%s", err.message);
    return -1;
}
