/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_AGAIN_H
#define TW_CMD_AGAIN_H
/*
 * A suggested command has to make the situation again in which the verdict was found: with the
 * options that shaped the runs, the variables that were set in front of the command, its standard
 * input. Here they are put into words that a shell takes.
 */
#include "options.h"

#include "src/report/report.h"

/* What `twinrun` has to be told for a command that follows one whose options are in args. */
struct tw_again {
    char *env;  /* "OMP_NUM_THREADS=1 " or ""; for commands that run the job */
    char *look; /* "TWINRUN_HOME=DIR " or ""; for those that look at runs */
    char *job;  /* "-- python train.py < data.txt", or "--a CMD --b CMD" */
    char *check, *isolate, *zoom, *show, *run; /* options, each with a blank in front; or "" */
};

/* Those options in args that `to` has too and that shape what runs compute or where they are kept.
 * Returns " --steps 5 --home DIR", or ""; malloc'ed (tw_free); NULL: no memory. */
char *tw_options_again(const struct tw_command *from, const void *args,
                       const struct tw_command *to);

/* argv: of the job, or NULL when arms (two commands for sh -c) are given. */
int tw_again_make(const struct tw_command *from, const void *args, char *const *argv,
                  const char *const *arms, struct tw_again *out);
void tw_again_free(struct tw_again *again);
/* For a report; borrowed from again. */
struct twin_report_again tw_again_words(const struct tw_again *again);

#endif
