/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_PACKAGE_REPLAYED_H
#define TW_PACKAGE_REPLAYED_H
/* The run of a replay: how it is started, and whether the same came out as the package says. */
#include "src/compare/compare.h"
#include "src/launch/run.h"
#include "src/package/package.h"

#include "src/image/image.h"

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
    /* of a replay in an image, the caller's to set: {"engine", "image", "outside"}, as
     * docs/containers.md says; NULL: in none. Owned */
    json_t *container;
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

/* ---- in an image (outside.c) */

enum tw_image_place { TW_IMAGE_ELSEWHERE, TW_IMAGE_INSIDE, TW_IMAGE_BESIDE };

/* The image that a verified package names. "" and NULL: it does not say. */
struct tw_package_image {
    bool is_named; /* whoever packed named one: id and digest are there */
    char id[TW_DIGEST_ROOM], digest[TW_DIGEST_ROOM];
    char manifest[TW_DIGEST_ROOM]; /* for one platform; "": the package does not say */
    char recorded[TW_DIGEST_ROOM]; /* the digest in the run's own record */
    bool moved;                    /* the record's digest is of another image */
    bool moved_unknown;            /* ... or of the same one in another form */
    char *reference;               /* REPOSITORY@sha256:...; owned */
    enum tw_image_place layout;
};
/* dir: of the package, or of a copy of it; verdict: of the package. TWIN_EFORMAT: what it says
 * cannot be, or is not what was verified; TWIN_ENOENT; TWIN_EIO; TWIN_ENOMEM. */
int tw_package_image(const char *dir, const struct twin_bag_verdict *verdict,
                     struct tw_package_image *out, struct twin_error *err);
void tw_package_image_free(struct tw_package_image *i);
/* Does the record of the packaged run name a GPU? expected: its folder in the package. */
bool tw_package_used_gpus(const char *expected);
/* What no image fixes, in the package and here: a list of {"what", "package", "here", "same"}, the
 * last null where one of the two is not known. The caller's. */
json_t *tw_replay_outside(const char *expected, const struct twin_run *now);

#endif
