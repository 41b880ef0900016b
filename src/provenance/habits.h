/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_PROVENANCE_HABITS_H
#define TW_PROVENANCE_HABITS_H
/* Habits in training scripts that look like seeding or pinning and are not. (habits.c) */
#include <stddef.h>
#include <twin/error.h>

/* One place in a Python script that looks like seeding or pinning and is not. */
struct tw_habit {
    size_t line;      /* 1-based */
    size_t earlier;   /* the line it comes too late for; 0 when that is not the point */
    const char *id;   /* "hash-seed", "worker-seed", "late-flag" */
    const char *text; /* what is wrong with it, and what to do */
};

/* Scans a script's text line by line: a heuristic, so it says where to look, not that the script is
 * wrong. *found is malloc'ed (tw_free). TWIN_ENOMEM. */
int tw_habits_scan(const char *source, struct tw_habit **found, size_t *count,
                   struct twin_error *err);

#endif
