/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_DATA_H
#define TW_CMD_DATA_H
/*
 * --data DIR=SNAPSHOT of the commands that run jobs: data are verified before the first run, which
 * records their root. And how every command looks at a folder of data with the person in front.
 */
#include "looking.h"
#include "options.h"
#include "verified_data.h"

#define TW_DATA_OPTION(offset)                                                                 \
    {"data",                                                                                   \
     'd',                                                                                      \
     TW_OPT_LIST,                                                                              \
     "DIR=SNAPSHOT",                                                                           \
     NULL,                                                                                     \
     "Job",                                                                                    \
     "start only if the folder holds what its snapshot says. SNAPSHOT is DIR.snapshot unless " \
     "given",                                                                                  \
     offset}

/* -1: all are as recorded. Else the exit code; what differs was said, on stderr, and is an event in
 * the ledger of home (NULL: the default one). */
int tw_data_verify(const char *command, const struct tw_strings *given, const char *home,
                   bool quiet, struct tw_data *out);

/* ---- looking at folders */

/* From here on Ctrl-C only asks for an end. */
struct twin_snapshot_options tw_snapshot_options(struct tw_looking *l, const char *what);
/* After a failed look: says why; the exit code. */
int tw_snapshot_failed(const struct tw_looking *l, const struct twin_error *err);

#endif
