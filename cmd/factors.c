/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun factors: every source of variation that twinrun can hold still or shake, and what of it
 * applies here and to a job. The factors are src/isolate's; what applies to a command is told from
 * its program (applies.h), without running it.
 */
#include "factors_table.h"

#include "say.h"
#include "options.h"

#include "base.h"

#include <stdio.h>

/* The options, as the table below fills them in. */
struct factors_args {
    const char *factor_file;
    bool json;
};

#define FIELD(f) offsetof(struct factors_args, f)

static const struct tw_option options[] = {
    {"factor-file", 'f', TW_OPT_FILE, "FILE", NULL, "Factors", "also factors of your own, in TOML",
     FIELD(factor_file)},
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Output", "print one JSON object", FIELD(json)},
    {NULL},
};

static const char *const synopsis[] = {"[options] [-- COMMAND [ARG...]]", NULL};
static const struct tw_pair exits[] = {
    {"0", "listed"},
    {"2", "trouble: bad use, or a factor file that cannot be read"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun factors",
     "the table: who applies a factor, its pin, its variation, whether it is to be had here"},
    {"twinrun factors -- python train.py", "and which of them apply to this job"},
    {NULL, NULL},
};

static int run(int argc, char **argv)
{
    struct factors_args a = {0};
    struct tw_operands job;
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_factors f = {0};
    struct tw_factor_job j = {.given = false};
    int rc = tw_options_parse(&tw_command_factors, argc, argv, &a, &job);
    if (rc >= 0)
        return rc;
    rc = 0;
    if (twin_factors_load(a.factor_file, &f, &err) != 0)
        return tw_trouble(&err, "the factors cannot be listed");
    if (job.count && tw_factor_job_look(&j, job.items, &err) != 0)
        rc = tw_trouble(&err, "what applies to this command is not known");
    else if (a.json)
        rc = tw_json_print(tw_factors_json(&f, &j));
    else
        tw_factors_text(stdout, &f, &j);
    tw_factor_job_free(&j);
    twin_factors_free(&f);
    return rc;
}

const struct tw_command tw_command_factors = {
    "factors",
    "list the sources of variation that can be held still or shaken",
    synopsis,
    "Lists, by layer, every factor: who applies it, whether it is to be had here, what its pin "
    "does (as one would do it by hand) and what its variation does. With a command it also says "
    "which of them apply to that job: whether its program can carry the agent, whether it is a "
    "Python job, and whether that Python can import torch and numpy.\n\n"
    "A factor file holds factors of your own: [[factor]] tables with id = \"user:NAME\", layer, "
    "title, and env = {NAME = \"value\"} with vary_env, or replace = [\"--workers=4\", "
    "\"--workers=0\"] with vary_replace; fix and unit (\"run\" or \"exposure\") may be given.",
    options,
    TW_OPERANDS_JOB,
    0,
    0,
    exits,
    examples,
    run,
};
