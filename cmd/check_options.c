/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of check before the first run: do they go together (src/trial/check_together.c
 * knows), and what do the files hold that they name? Everything that can be wrong before the first
 * run is found before it, and complaints are said here.
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

/* A baseline is a small text file: what is larger is none. */
enum { FILE_MAX_BYTES = 5 << 20 };

/* What has to fit with the options of the check proper. */
static struct tw_check_beside beside(const struct tw_check_args *a, const struct tw_operands *job)
{
    return (struct tw_check_beside){.a = a->a,
                                    .b = a->b,
                                    .job = job->count > 0,
                                    .signers = a->keys.count || a->trust,
                                    .factor_file = a->factor_file};
}

/* One command is both arms. With --resume-with the first arm is the whole job and the second one
 * what goes on with it; with --a and --b each is a shell of its own. */
static void choose_arms(struct tw_check_command *c, const struct tw_operands *job)
{
    struct tw_check_asked *asked = &c->args.asked;
    c->check.arms = !job->count || asked->resume_with || asked->ranks;
    c->check.arm[0] = c->check.arm[1] = job->items;
    if (job->count && asked->resume_with) {
        /* what the whole run leaves must not be what the resumed one finds */
        asked->fresh_dir = true;
        tw_shell_argv(asked->resume_with, c->shell[1]);
        c->check.arm[1] = c->shell[1];
    } else if (!job->count) {
        tw_shell_argv(c->args.a, c->shell[0]);
        tw_shell_argv(c->args.b, c->shell[1]);
        c->check.arm[0] = c->shell[0];
        c->check.arm[1] = c->shell[1];
    }
}

int tw_check_options(struct tw_check_command *c, const struct tw_operands *job, uint64_t usual)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_check_asked *a = &c->args.asked;
    const struct tw_check_beside b = beside(&c->args, job);
    int rc = tw_check_arms_fit(a, &b, &err);
    rc = rc ? rc : tw_check_ranks_fit(a, &b, job->items, &c->check.numbers, &err);
    if (rc == 0)
        choose_arms(c, job);
    rc = rc ? rc : tw_check_gate_fits(a, &b, c->check.arms, &err);
    c->check.runs_given = a->runs != TW_NOT_GIVEN;
    rc = rc ? rc : tw_check_runs_fit(a, usual, &err);
    rc = rc ? rc : tw_check_explain_fits(a, &b, &err);
    rc = rc ? rc : tw_check_pinned_fits(a, &b, &err);
    rc = rc ? rc : tw_check_transplant_fits(a, c->check.arms, &err);
    return rc ? tw_bad_use("check", "%s", err.message) : -1;
}

/* Page, tolerances, home and data are looked at now: an hour of runs must not end with a file that
 * cannot be written. */
int tw_check_prepare(struct tw_check_command *command)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_check *c = &command->check;
    const struct tw_check_args *a = &command->args;
    if (tw_pages_check("check", a->html) != 0)
        return TW_EXIT_TROUBLE;
    if (a->asked.tolerance && twin_tolerance_check(a->asked.tolerance, &err) != 0)
        return tw_trouble(&err, "check: --tolerance");
    c->args = a->asked;
    if (a->asked.ranks && tw_check_ranks_make(c, c->arm[0], &err) != 0)
        return tw_trouble(&err, "check");
    c->series.require_parity = a->asked.require_parity;
    c->series.tells_parity = !a->asked.quiet;
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
    rc = a->asked.pinned ? tw_check_pinned_open(command) : -1;
    if (rc >= 0)
        return rc;
    rc = tw_data_verify("check", &a->data, c->series.home, a->asked.quiet, &c->data);
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
