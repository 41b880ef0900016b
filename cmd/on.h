/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_ON_H
#define TW_CMD_ON_H
/* --on ENGINE and what belongs to it, of the commands that hand their runs to an engine. */
#include "options.h"
#include "remote.h"

#define TW_ON_OPTIONS(on_, place_, hosts_, slots_)                                                \
    {"on",                                                                                        \
     0,                                                                                           \
     TW_OPT_STRING,                                                                               \
     "ENGINE",                                                                                    \
     NULL,                                                                                        \
     "Engine",                                                                                    \
     "who makes the runs: local (this machine, unless given), slurm, 'slurm:OPTIONS OF SBATCH', " \
     "k8s:FILE (a manifest of a pod), ray, or 'cmd:TEMPLATE', a shell command with {command} "    \
     "(and "                                                                                      \
     "{host}) in it. docs/engines.md",                                                            \
     on_},                                                                                        \
        {"place",                                                                                 \
         0,                                                                                       \
         TW_OPT_STRING,                                                                           \
         "PLACE",                                                                                 \
         NULL,                                                                                    \
         "Engine",                                                                                \
         "with --on: any node (unless given), same-type (as the first run's), pin:HOST, "         \
         "avoid:HOST,HOST, or type:WORDS (features of Slurm, labels NAME=VALUE of Kubernetes)",   \
         place_},                                                                                 \
        {"hosts",                                                                                 \
         0,                                                                                       \
         TW_OPT_STRING,                                                                           \
         "HOSTS",                                                                                 \
         NULL,                                                                                    \
         "Engine",                                                                                \
         "with --on cmd: the hosts for {host}, with commas; each has one run at a time",          \
         hosts_},                                                                                 \
    {                                                                                             \
        "slots", 0, TW_OPT_COUNT, "N", NULL, "Engine", "with --on: at most N runs at a time",     \
            slots_, 1, 10000                                                                      \
    }

/* Opens the engine. -1, or the exit code after a complaint. */
int tw_on_open(const char *command, struct tw_remote *r, const struct tw_remote_asked *asked,
               const char *home);

#endif
