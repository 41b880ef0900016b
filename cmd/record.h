/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_RECORD_H
#define TW_CMD_RECORD_H
/* What record and run share: one job, as transparent as can be. */
#include "data.h"
#include "runs.h"
#include "options.h"
#include "trial.h"

/* The options that both have; verified is filled in by tw_data_verify. */
struct tw_record_args {
    const char *home, *label, *ledger, *json;
    enum twin_level level;
    uint64_t steps, sketch_every;
    struct tw_steps_window window;
    struct tw_strings data;
    struct tw_data verified; /* of data */
    bool lossless, no_telemetry, require_parity, fresh_dir, quiet;
};

/* The rows of an option table for a struct tw_record_args that is member `m` of struct `s`. */
#define TW_RECORD_OPTIONS(s, m)                                                        \
    {"level",                                                                          \
     'l',                                                                              \
     TW_OPT_LEVEL,                                                                     \
     "LEVEL",                                                                          \
     "tensors",                                                                        \
     "Recording",                                                                      \
     "what is recorded: steps, tensors, modules or ops (every operation; slow)",       \
     offsetof(struct s, m.level)},                                                     \
        {"steps",                                                                      \
         's',                                                                          \
         TW_OPT_COUNT,                                                                 \
         "N",                                                                          \
         NULL,                                                                         \
         "Recording",                                                                  \
         "end the job after N steps (exit code 0)",                                    \
         offsetof(struct s, m.steps),                                                  \
         1,                                                                            \
         UINT32_MAX},                                                                  \
        {"window",                                                                     \
         'w',                                                                          \
         TW_OPT_WINDOW,                                                                \
         "FIRST:LAST",                                                                 \
         NULL,                                                                         \
         "Recording",                                                                  \
         "with --level ops: only in these steps",                                      \
         offsetof(struct s, m.window)},                                                \
        {"sketch-every",                                                               \
         0,                                                                            \
         TW_OPT_COUNT,                                                                 \
         "K",                                                                          \
         NULL,                                                                         \
         "Recording",                                                                  \
         "keep a sketch of each tensor every K steps, for distances; 10 unless given", \
         offsetof(struct s, m.sketch_every),                                           \
         1,                                                                            \
         UINT32_MAX},                                                                  \
        {"lossless",                                                                   \
         0,                                                                            \
         TW_OPT_FLAG,                                                                  \
         NULL,                                                                         \
         NULL,                                                                         \
         "Recording",                                                                  \
         "make the job wait rather than lose a record",                                \
         offsetof(struct s, m.lossless)},                                              \
        {"no-telemetry",                                                               \
         0,                                                                            \
         TW_OPT_FLAG,                                                                  \
         NULL,                                                                         \
         NULL,                                                                         \
         "Recording",                                                                  \
         "no counters of processes and machine",                                       \
         offsetof(struct s, m.no_telemetry)},                                          \
        TW_PARITY_OPTION(offsetof(struct s, m.require_parity)),                        \
        TW_DATA_OPTION(offsetof(struct s, m.data)),                                    \
        {"fresh-dir",                                                                  \
         0,                                                                            \
         TW_OPT_FLAG,                                                                  \
         NULL,                                                                         \
         NULL,                                                                         \
         "Job",                                                                        \
         "run in a scratch copy of the working folder",                                \
         offsetof(struct s, m.fresh_dir)},                                             \
        {"home",                                                                       \
         0,                                                                            \
         TW_OPT_DIR,                                                                   \
         "DIR",                                                                        \
         NULL,                                                                         \
         "Output",                                                                     \
         "folder that holds the runs",                                                 \
         offsetof(struct s, m.home)},                                                  \
        {"label",                                                                      \
         0,                                                                            \
         TW_OPT_STRING,                                                                \
         "TEXT",                                                                       \
         NULL,                                                                         \
         "Output",                                                                     \
         "part of the run folder's name",                                              \
         offsetof(struct s, m.label)},                                                 \
        {"json",                                                                       \
         0,                                                                            \
         TW_OPT_FILE,                                                                  \
         "FILE",                                                                       \
         NULL,                                                                         \
         "Output",                                                                     \
         "write the run to a file, as show --json prints it; stdout is the job's",     \
         offsetof(struct s, m.json)},                                                  \
        TW_LEDGER_OPTION(s, m.ledger)

/* A run that is to pass for the job itself: nobody in front sees it. Zeroed by the caller; code is
 * set when the job ends. */
struct tw_transparent {
    struct tw_trial trial;
    int code;
};
struct twin_launch_options tw_record_launch(const struct tw_record_args *a, char **argv,
                                            struct tw_transparent *t);
/* The exit code of a run that has ended so: the job's, or trouble where its ranks were to be alike
 * and were not. */
int tw_record_exit(const struct tw_transparent *t);

/* --json: says before the job is started what would keep the file from being written (verb: whose
 * complaint), and writes it. Trouble afterwards is said and changes no exit code. */
int tw_record_json_check(const char *verb, const struct tw_record_args *a);
void tw_record_json(const struct tw_record_args *a, const struct twin_run *r);

/* After a tw_trial_make that failed with err: runs the job all the same when it was not started,
 * and says how ("unwatched"). Returns the exit code. */
int tw_record_failed(const struct tw_transparent *t, char **argv, const char *how,
                     const struct twin_error *err);

#endif
