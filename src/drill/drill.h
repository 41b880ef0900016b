/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_DRILL_H
#define TW_DRILL_H
/*
 * Drills: what is to go wrong one day is done on purpose to a staging job, and it is seen whether
 * the proven state comes back. Room: src/drill. docs/drill.md.
 *
 * Every run is made in a copy of the working folder, below the home, and what happens to a registry
 * in a copy of it, so that nothing of the user's is killed, damaged or overwritten. Not
 * thread-safe: runs are made by twin_launch.
 */
#include "src/launch/run.h"

#include <stdbool.h>
#include <twin/error.h>

struct tw_strings;
struct twin_trust;

enum tw_drill_kind {
    TW_DRILL_PREEMPT,
    TW_DRILL_CORRUPT,
    TW_DRILL_NODE,
    TW_DRILL_UPGRADE,
    TW_DRILL_CLOCK,
    TW_DRILL_ROLLBACK,
    TW_DRILL_REGISTRY_LOSS,
    TW_DRILL_KINDS
};
const char *tw_drill_name(enum tw_drill_kind k); /* preempt, corrupt, ... */
/* TW_DRILL_KINDS: there is no such drill. */
enum tw_drill_kind tw_drill_of(const char *name);

struct tw_drill_asked {
    const char *home; /* absolute */
    /* the job from its start; NULL-terminated. rollback: a check of an artifact, whose path takes
     * the place of {}, or NULL */
    char *const *argv;
    const char *checkpoint; /* a file that it saves to, relative to the working folder */
    /* preempt, corrupt: a command for sh that goes on from that file */
    const char *resume;
    /* upgrade: one of them. with: an interpreter of the other environment; requirements: a file
     * for pip, absolute */
    const char *with, *requirements;
    /* upgrade: an envelope (absolute) that signs the checkpoint, or NULL, and options of twinrun
     * verify that say whom to trust: "--trust", "FILE" */
    const char *baseline;
    const char *const *trust;
    size_t trust_count;  /* 16 at most */
    const char *twinrun; /* this program, absolute: upgrade, rollback */
    /* rollback, registry-loss: a folder, s3://... or oci://..., and who is trusted in it */
    const char *registry;
    const struct twin_trust *trusted;
    /* of an encrypted registry: files of keys that open it, absolute; NULL: none */
    const struct tw_strings *identities;
    const char *model; /* rollback */
    const char *bad;   /* rollback: what is promoted; NULL: the version in production, damaged */
    /* rollback: "--rerun" and how, words for twinrun registry rollback; NULL: no replay of the
     * version's package */
    const char *const *rerun;
    const char *mirror; /* registry-loss: what it is restored from; NULL: there is nothing */
    /* told what begins; may be NULL */
    void (*progress)(void *user, const char *what);
    void *user;
};

enum tw_drill_outcome {
    TW_DRILL_RESTORED, /* the proven state came back */
    TW_DRILL_FAILED,
    TW_DRILL_NOTHING_SHOWN /* the job does not repeat itself: nothing can be held against it */
};

/* What was done and seen. Times in seconds; NaN: it was not detected, or not reproduced. Ended by
 * tw_drill_result_free. */
struct tw_drill_result {
    enum tw_drill_outcome outcome;
    double detect_s;    /* from the fault to the moment at which it was known */
    double reproduce_s; /* from there to the proven state */
    /* upgrade: same, differ, rounding, beyond rounding, not known; "" of other drills */
    char records[24];
    char **step; /* a line each */
    size_t steps;
};
void tw_drill_result_free(struct tw_drill_result *r);

/* TWIN_EINVAL: the job or the registry is not fit for the drill (it fails, it saves no such file,
 * it ends before its second save; a registry with faults or too few entries): the message says what
 * is missing. Errors of twin_launch. TWIN_EINTR: Ctrl-C. After an error *out holds nothing. */
int tw_drill(enum tw_drill_kind kind, const struct tw_drill_asked *asked,
             struct tw_drill_result *out, struct twin_error *err);

#endif
