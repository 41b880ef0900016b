/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_CHECK_ARGS_H
#define TW_CMD_CHECK_ARGS_H
/* twinrun check as the command line gave it: check.c (table, order of events, output),
 * check_options.c (what is looked at before the first run), check_pinned.c (--pinned). What a check
 * is and does: src/trial/check.h. */
#include "check.h"
#include "data.h"
#include "options.h"
#include "pinned.h"

/* The options, as the table of check.c fills them in. */
struct tw_check_args {
    struct tw_check_asked asked; /* what runs and their comparison need */
    const char *a, *b, *home, *junit, *html, *trust, *ledger, *factor_file;
    struct tw_strings keys, data; /* keys: that must have signed the baseline */
    uint64_t max_time;
    bool no_cases, json, github, bisect;
};

/* One call of twinrun check. */
struct tw_check_command {
    struct tw_check_args args;
    struct tw_check check;
    char *shell[2][4]; /* argv of the commands that sh -c runs */
    bool printed;      /* the verdict is out */
    struct tw_pinned pinned;
};

/* ---- check_options.c. Each returns -1 to go on, or the exit code to leave with (the reason has
 * been said). */
/* Do the options go together? Then the arms are known, which point into *c and job, and so is the
 * number of runs: `usual`, where none was given and there is nothing to hold one run against. */
int tw_check_options(struct tw_check_command *c, const struct tw_operands *job, uint64_t usual);
/* Everything that can be wrong before the first run is found before the first run. */
int tw_check_prepare(struct tw_check_command *c);
/* --against: reads the file, judges its signature, and takes its level and steps. */
int tw_check_load_baseline(struct tw_check_command *c);

/* ---- check_pinned.c. The same; with --pinned only. */
/* The pins that the last search of this command named, if this is the job that it was of. */
int tw_check_pinned_open(struct tw_check_command *c);
/* Puts the word on the pins into the verdict. */
int tw_check_pinned_judge(struct tw_check_command *c);

#endif
