/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_SNAPSHOTS_H
#define TW_CMD_SNAPSHOTS_H
/* What the commands that look at folders of data have in common. (snapshots.c) */
#include "src/snapshot/snapshot.h"

#include <jansson.h>
#include <stdio.h>

/* Progress on a terminal, troubles as messages (the first 20), Ctrl-C. `user` is a struct
 * tw_looking. */
struct tw_looking {
    const char *what;
    size_t troubles;
    uint64_t began_ns;
};
struct twin_snapshot_options tw_snapshot_options(struct tw_looking *l, const char *what);
/* After a failed look: says why; the exit code. */
int tw_snapshot_failed(const struct tw_looking *l, const struct twin_error *err);

size_t tw_snapshot_count_differences(const struct twin_snapshot *was,
                                     const struct twin_snapshot *is);
/* Lines "changed  PATH  why" of the differences in data, `most` of them (0: all). *modes: how many
 * entries have other modes or links. */
void tw_snapshot_print_differences(FILE *out, const struct twin_snapshot *was,
                                   const struct twin_snapshot *is, size_t most, size_t *modes);
/* The same as a JSON list. */
json_t *tw_snapshot_json_differences(const struct twin_snapshot *was,
                                     const struct twin_snapshot *is, size_t *differences);
/* "3 files, 1.2 GiB" with links and folders where there are some. */
char *tw_snapshot_holds(const struct twin_snapshot *s, char out[160]);
/* The folder that a manifest is about unless one is given: its name without ".snapshot". malloc'ed;
 * NULL: it has another ending. */
char *tw_snapshot_folder(const char *manifest);
#endif
