/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_GATHER_H
#define TW_GATHER_H
/*
 * Gather: where nodes share no file system, each has a run folder of its own with the traces of its
 * ranks. This room puts the folders of one job together, as one run folder, and says what is
 * missing (docs/launchers.md). Folders and archives are foreign: they may come from anybody.
 */
#include "front.h"

#include <stdbool.h>
#include <stdint.h>

/* At most so many parts, and ranks that are named. */
enum { TW_GATHER_PARTS = 65536, TW_GATHER_NAMED = 8 };

struct tw_gather_options {
    char *const *names; /* folders, tar archives, or "-" for an archive on stdin */
    size_t count;
    const char *into; /* the new run folder, absolute; it may not exist */
    /* runs of their own, of which nothing says that they are one job, are taken for one */
    bool one_job;
};

struct tw_gathered {
    size_t parts;
    uint64_t traces, bytes;
    int32_t world; /* as the traces say */
    size_t missing_count;
    int32_t missing[TW_GATHER_NAMED]; /* ranks of which there is no trace, the first ones */
    bool unfinished;                  /* a part was interrupted, or has no end in its run.json */
};

/*
 * Makes o->into, under another name until it is whole. Errors, after which nothing is left:
 * TWIN_EINVAL: into is there, or no part is; TWIN_EFORMAT: something is no run folder or no
 * archive, or was refused, the parts are not one job, or one rank is in two of them; TWIN_ELIMIT,
 * TWIN_EINTR, TWIN_EIO, TWIN_ENOMEM.
 */
int tw_gather(const struct tw_gather_options *o, const struct tw_front *front,
              struct tw_gathered *out, struct twin_error *err);
#endif
