/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun doctor: what can be captured here and what not, and why. The checks are src/provenance's
 * (doctor.h), in the order in which a person would put things right; each is printed as soon as it
 * is known.
 */
#include "doctor.h"

#include "say.h"
#include "options.h"
#include "runs.h"

#include "base.h"

#include <stdio.h>

/* What the command line gave; NULL, false or 0 where it gave nothing. */
struct doctor_args {
    const char *home, *python;
    bool json;
};

#define FIELD(f) offsetof(struct doctor_args, f)

static const struct tw_option options[] = {
    {"python", 'p', TW_OPT_FILE, "PYTHON", NULL, "Subject",
     "the interpreter that the job uses; python3 or python of PATH unless given", FIELD(python)},
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Subject", "folder that will hold the runs", FIELD(home)},
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Output", "print one JSON object", FIELD(json)},
    {NULL},
};

static const char *const synopsis[] = {"[options] [SCRIPT...]", NULL};
static const struct tw_pair exits[] = {
    {"0", "jobs can be watched here, perhaps with limits"},
    {"1", "something that watching needs is missing; each \"no\" line says what to do"},
    {"2", "trouble: bad use"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun doctor", "look around"},
    {"twinrun doctor --python .venv/bin/python train.py",
     "also look into a script for habits that only look like seeding"},
    {NULL, NULL},
};

/* What has been told so far. */
struct report {
    json_t *checks; /* array; NULL: lines were printed instead */
    bool failed;    /* something that watching needs is missing */
};

/* A line, or an object for the list; what is missing decides the exit code. */
static void print_check(void *user, enum tw_doctor_state state, const char *id, const char *text)
{
    struct report *r = user;
    const char *name = tw_doctor_state_name(state);
    r->failed |= state == TW_DOCTOR_NO;
    if (r->checks)
        json_array_append_new(r->checks, json_pack("{s:s, s:s, s:o}", "id", id, "state", name,
                                                   "text", tw_json_text(text)));
    else
        tw_put("%-8s %-12s %s\n", name, id, text);
    fflush(stdout); /* some checks take seconds */
}

static int run(int argc, char **argv)
{
    struct doctor_args a = {0};
    struct tw_operands rest;
    int rc = tw_options_parse(&tw_command_doctor, argc, argv, &a, &rest);
    if (rc >= 0)
        return rc;
    char *home = tw_home(a.home);
    if (!home)
        return tw_trouble(&(struct twin_error){.code = TWIN_ENOMEM}, "cannot name the home");
    struct report r = {.checks = a.json ? json_array() : NULL};
    const struct tw_doctor doctor = {.user = &r, .tell = print_check};
    tw_doctor_parts(&doctor);
    tw_doctor_home(&doctor, home);
    tw_doctor_kernel(&doctor);
    tw_doctor_python(&doctor, a.python);
    tw_doctor_machine(&doctor);
    for (size_t i = 0; i < rest.count; i++)
        tw_doctor_script(&doctor, rest.items[i]);
    rc = r.failed ? 1 : 0;
    if (a.json && tw_json_print(json_pack("{s:s, s:b, s:o}", "schema", "twinrun.doctor/1", "ok",
                                          !r.failed, "checks", r.checks)) != 0)
        rc = TW_EXIT_TROUBLE;
    tw_free(home);
    return rc;
}

const struct tw_command tw_command_doctor = {
    "doctor",
    "say what can be captured here and what not, and why",
    synopsis,
    "Looks at twinrun's own parts, the home, the job's Python with its PyTorch, and what the "
    "machine allows, and makes one trial run. Each line is ok, limited (works, with the limit "
    "named), no (must be put right first) or absent (not here, not needed).\n\n"
    "A SCRIPT is searched for habits that look like seeding and are not: PYTHONHASHSEED set inside "
    "the script, worker seeds of base + worker id only, flags and seeds set after what they should "
    "govern was built. The search is a heuristic on the text.",
    options,
    TW_OPERANDS_FILES,
    0,
    64,
    exits,
    examples,
    run,
};
