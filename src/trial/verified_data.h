/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TRIAL_VERIFIED_DATA_H
#define TW_TRIAL_VERIFIED_DATA_H
/* Data that were verified against their snapshots before the first run; handed to each launch,
 * which records them. */
#include "src/launch/run.h"
#include "src/snapshot/snapshot.h"

#include <stdbool.h>
#include <stddef.h>

/* Lives as long as the process. */
struct tw_data {
    const struct twin_run_data *item;
    size_t count;
};

/* DIR=SNAPSHOT, cut at the last '='; DIR alone means DIR.snapshot beside it. Both are malloc'ed,
 * whatever it returns. False: no memory. */
bool tw_data_split(const char *given, char **dir, char **manifest);
/* What a run records of a folder that is what `was`, read from the manifest, says. Its texts are
 * malloc'ed. err is not NULL. */
int tw_data_record(const char *dir, const char *manifest, const struct twin_snapshot *was,
                   struct twin_run_data *out, struct twin_error *err);

/* A folder that was held against its manifest. */
struct tw_data_held {
    struct twin_snapshot was, now; /* of the manifest; of the folder */
    bool read, taken;              /* they are there */
    size_t differences;            /* 0: the folder may be used */
};
/*
 * Reads the manifest, then the folder by o, and compares them. Where nothing differs, *out is what
 * a run records of the folder. A TWIN_E*: held says how far it came. tw_data_held_free in any case.
 * err is not NULL.
 */
int tw_data_hold(const char *dir, const char *manifest, const struct twin_snapshot_options *o,
                 struct tw_data_held *held, struct twin_run_data *out, struct twin_error *err);
void tw_data_held_free(struct tw_data_held *held);

#endif
