/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_DATA_H
#define TW_CMD_DATA_H
/* --data DIR=SNAPSHOT of the commands that run jobs: data are verified before the first run, which
 * records their root. (data.c) */
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

/* -1: all are as recorded. Else the exit code; what differs was said, on stderr. */
int tw_data_verify(const char *command, const struct tw_strings *given, bool quiet,
                   struct tw_data *out);
#endif
