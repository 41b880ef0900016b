/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_LAYOUT_H
#define TWIN_LAYOUT_H
/*
 * Data that other tools keep: DVC (.dvc, dvc.lock), Git LFS pointers, the cache of Hugging Face.
 * Each names content by a digest of its own; here the bytes are held against it. Room:
 * src/snapshot. docs/snapshot.md.
 *
 * All these files are foreign bytes: whatever they are, the answer is results or an error, and no
 * path in them is followed out of the folder they stand in (DVC: out of its repository). Since 0.1.
 */
#include "src/snapshot/snapshot.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

/* Whose data it is. DVC and LFS are told by a file, Hugging Face by a folder. */
enum twin_layout { TWIN_LAYOUT_NONE, TWIN_LAYOUT_DVC, TWIN_LAYOUT_LFS, TWIN_LAYOUT_HUGGINGFACE };
/* What a file with this name and beginning is, or (head NULL) a folder. */
enum twin_layout twin_layout_of(const char *path, const char *head, size_t n);
const char *twin_layout_name(enum twin_layout layout); /* "DVC", "Git LFS", "Hugging Face" */

/* How a thing lies to what its tool says of it. */
enum twin_layout_outcome {
    TWIN_LAYOUT_SAME,
    TWIN_LAYOUT_CHANGED,
    TWIN_LAYOUT_MISSING,
    TWIN_LAYOUT_ADDED,
    TWIN_LAYOUT_UNKNOWN
};
/* One file, or one folder of DVC's whose list of files is not at hand. Strings live as long as the
 * call. */
struct twin_layout_result {
    enum twin_layout_outcome outcome; /* UNKNOWN: cannot be told: see why */
    const char *path;
    const char *scheme;           /* "md5", "sha256", "git" */
    const char *expected, *found; /* hex; NULL: none */
    uint64_t files, bytes;        /* that were read for it */
    const char *why;              /* NULL, or what a person should know */
};

/* Verifies what `target` names; calls visit for each thing. other: for a pointer of Git LFS the
 * file to hold against it; NULL: the object in .git/lfs. o: quick or paranoid, progress, troubles.
 * Returns the number of things that are not as named, or an error: those of twin_snapshot_take,
 * TWIN_EFORMAT. */
long twin_layout_verify(enum twin_layout layout, const char *target, const char *other,
                        const struct twin_snapshot_options *o,
                        void (*visit)(void *user, const struct twin_layout_result *r), void *user,
                        struct twin_error *err);

/* All results of one call together. Begins as zeros. */
struct twin_layout_sum {
    uint64_t files, bytes;
    size_t things, unknown;
    const char *scheme; /* "sha256 and git" where there are several; NULL: no result yet */
};
void twin_layout_add(struct twin_layout_sum *s, const struct twin_layout_result *r);
/* differences: what twin_layout_verify returned, 0 or more. CHANGED, or SAME; UNKNOWN: nothing
 * could be held against anything. */
enum twin_layout_outcome twin_layout_together(const struct twin_layout_sum *s, long differences);
#endif
