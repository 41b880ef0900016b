/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_PACKAGE_REPLAYED_H
#define TW_PACKAGE_REPLAYED_H
/* The run of a replay: how it is started, and whether the same came out as the package says. */
#include "src/compare/compare.h"
#include "src/launch/run.h"
#include "src/package/package.h"

#include <jansson.h>

/* As the packaged run was recorded; what the record does not say is as for any run. What is pointed
 * to belongs to u, which must live as long. */
struct twin_launch_options tw_replay_launch_options(const struct twin_unpacked *u,
                                                    const char *home);

enum tw_replay_outcome {
    TW_REPLAY_SAME,
    TW_REPLAY_WITHIN_TOLERANCE,
    TW_REPLAY_DIFFERS, /* in what was recorded, in its end, or in the tensors of a checkpoint */
    TW_REPLAY_INCONCLUSIVE,
    TW_REPLAY_FAILED, /* nothing can be said: the jobs failed */
};

struct tw_replayed {
    struct twin_run *was;       /* as the package has it */
    const struct twin_run *now; /* the caller's */
    struct twin_verdict *v;
    json_t *checkpoints; /* {"path", "outcome": "same"|"differ"|"missing", "content"} */
    json_t *world; /* in what the worlds differ: {"power", "group", "what", "package", "here"} */
    enum tw_replay_outcome outcome;
};

/* Holds a run against the one in the package. tolerance: a file, or NULL. tw_replayed_free in any
 * case. */
int tw_replay_judge(const struct twin_unpacked *u, const struct twin_run *now,
                    const char *tolerance, struct tw_replayed *out, struct twin_error *err);
/* What a replay came to, from the verdict on the runs and on what is beside it. Checkpoints that
 * differ count where the runs are not judged by a tolerance. */
enum tw_replay_outcome tw_replay_outcome_of(enum twin_verdict_outcome verdict, bool ended_alike,
                                            bool checkpoints_differ);
void tw_replayed_free(struct tw_replayed *r);

#endif
