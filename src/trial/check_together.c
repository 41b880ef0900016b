/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which wishes of a check go together. All of it is asked before the first run is made
 * (cmd/check_options.c): an hour of runs must not end with a word on an option. The messages name
 * the options as a person types them, and the caller prints them.
 */
#include "check.h"

/* A transplant needs a natural run, one that is recorded, and one that is given its values. */
enum { LEAST_TRANSPLANT_RUNS = 3 };

/* Is --resume-with given with what it needs, and without what it does not go with? */
static int resume_fits(const struct tw_check_asked *a, bool job, struct twin_error *err)
{
    if (a->half && !a->resume_with)
        return twin_error_set(err, TWIN_EINVAL, "--half belongs to --resume-with");
    if (!a->resume_with)
        return 0;
    if (!job)
        return twin_error_set(
            err, TWIN_EINVAL,
            "--resume-with: expected the whole job's command after --; write: twinrun "
            "check --resume-with 'python train.py --resume' -- python train.py");
    const char *other = NULL;
    if (a->against)
        other = "--against";
    else if (a->save_baseline)
        other = "--save-baseline";
    else if (a->transplant)
        other = "--transplant";
    if (other)
        return twin_error_set(err, TWIN_EINVAL,
                              "--resume-with does not go with %s, which is about one job", other);
    return 0;
}

int tw_check_arms_fit(const struct tw_check_asked *a, const struct tw_check_beside *b,
                      struct twin_error *err)
{
    if (b->job && (b->a || b->b))
        return twin_error_set(err, TWIN_EINVAL,
                              "expected either -- COMMAND or --a CMD --b CMD, found both");
    if (!b->job && !b->a && !b->b)
        return twin_error_set(
            err, TWIN_EINVAL,
            "expected the job's command after --; write: twinrun check -- python train.py");
    if (!b->job && (!b->a || !b->b))
        return twin_error_set(err, TWIN_EINVAL, "expected two arms, found only --%s; give --%s too",
                              b->a ? "a" : "b", b->a ? "b" : "a");
    if (b->job && a->b_starts_at != TW_NOT_GIVEN && !a->resume_with)
        return twin_error_set(err, TWIN_EINVAL,
                              "--b-starts-at belongs to --a and --b, or to --resume-with");
    return resume_fits(a, b->job, err);
}

/* Only runs of one command have the same steps, so that one can be given the values of another. */
int tw_check_transplant_fits(const struct tw_check_asked *a, bool arms, struct twin_error *err)
{
    enum twin_transplant_kind kind;
    if (!a->transplant)
        return a->window.given
                   ? twin_error_set(err, TWIN_EINVAL, "--window belongs to --transplant")
                   : 0;
    if (twin_transplant_parse(a->transplant, &kind) != 0)
        return twin_error_set(err, TWIN_EINVAL,
                              "--transplant: expected data, rng or step, found %s", a->transplant);
    if (arms)
        return twin_error_set(err, TWIN_EINVAL,
                              "--transplant compares runs of one command; write: twinrun check "
                              "--transplant %s -- COMMAND",
                              a->transplant);
    if (a->runs < LEAST_TRANSPLANT_RUNS)
        return twin_error_set(
            err, TWIN_EINVAL,
            "--transplant needs 3 runs or more (a natural one, one to record, one to "
            "give the values to), found --runs %llu",
            (unsigned long long)a->runs);
    return 0;
}

/* A baseline is written from runs that agree, or read to hold one run against it: never both, and
 * about one job. */
int tw_check_gate_fits(const struct tw_check_asked *a, const struct tw_check_beside *b, bool arms,
                       struct twin_error *err)
{
    if (!a->against && b->signers)
        return twin_error_set(err, TWIN_EINVAL,
                              "--key and --trust are about the file of --against: expected it too");
    if (!a->against && !a->save_baseline)
        return 0;
    const char *which = a->against ? "--against" : "--save-baseline";
    if (a->against && a->save_baseline)
        return twin_error_set(err, TWIN_EINVAL,
                              "expected --save-baseline, which writes what is expected, or "
                              "--against, which reads it; found both");
    if (arms)
        return twin_error_set(err, TWIN_EINVAL,
                              "%s is about one job: it does not go with --a and --b", which);
    if (a->transplant)
        return twin_error_set(
            err, TWIN_EINVAL,
            "%s does not go with --transplant, which changes what the job computes", which);
    if (a->against && a->ignore.count)
        return twin_error_set(
            err, TWIN_EINVAL,
            "what a baseline leaves out is written in it: give --ignore to --save-baseline");
    if (a->save_baseline && a->runs != TW_NOT_GIVEN && a->runs < 2)
        return twin_error_set(
            err, TWIN_EINVAL,
            "a baseline is what repeats itself: expected --runs 2 or more with --save-baseline");
    return 0;
}

int tw_check_pinned_fits(const struct tw_check_asked *a, const struct tw_check_beside *b,
                         struct twin_error *err)
{
    const char *other = NULL;
    if (!a->pinned)
        return b->factor_file
                   ? twin_error_set(err, TWIN_EINVAL, "--factor-file belongs to --pinned")
                   : 0;
    if (!b->job)
        other = "--a and --b: a search of two commands names what differs between them, and its "
                "own next line says how to hold that";
    else if (a->resume_with)
        other = "--resume-with";
    else if (a->ranks)
        other = "--ranks";
    else if (a->transplant)
        other = "--transplant";
    else if (a->against)
        other = "--against, which is of the job as it is";
    else if (a->save_baseline)
        other = "--save-baseline: what a job computes under pins is not what it computes";
    else if (a->control)
        other = "--control: a run that nobody watches has no pins";
    return other ? twin_error_set(err, TWIN_EINVAL, "--pinned does not go with %s", other) : 0;
}

/* A gate compares with a file: one run suffices, and is wanted in a CI. */
int tw_check_runs_fit(struct tw_check_asked *a, uint64_t usual, struct twin_error *err)
{
    if (a->runs == TW_NOT_GIVEN)
        a->runs = a->against || a->ranks ? 1 : usual;
    if (a->runs == 1 && !a->against && !a->ranks)
        return twin_error_set(err, TWIN_EINVAL,
                              "--runs: expected a number from 2 to 100000, found \"1\": one run "
                              "alone says nothing, unless --against says what to expect");
    return 0;
}
