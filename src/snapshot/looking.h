/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SNAPSHOT_LOOKING_H
#define TW_SNAPSHOT_LOOKING_H
/* A look at a folder of data with a person in front. */
#include "front.h"

#include "src/snapshot/snapshot.h"

#include <stddef.h>
#include <stdint.h>

/* One look: how it is called before the bar, when it began, and how much could not be read. */
struct tw_looking {
    const struct tw_front *front;
    const char *what; /* "verifying" */
    size_t troubles;
    uint64_t began_ns;
};
/* Options of a look that begins now: its progress, its troubles (the first 20) and the wish to stop
 * go to and come from the front. They point to l. */
struct twin_snapshot_options tw_looking_options(struct tw_looking *l, const struct tw_front *front,
                                                const char *what);
/* After a failed look: tells the front why. */
void tw_looking_failed(const struct tw_looking *l, const struct twin_error *err);

size_t tw_snapshot_count_differences(const struct twin_snapshot *was,
                                     const struct twin_snapshot *is);
/* The folder that a manifest is about unless one is given: its name without ".snapshot". malloc'ed;
 * NULL: it has another ending. */
char *tw_snapshot_folder(const char *manifest);

#endif
