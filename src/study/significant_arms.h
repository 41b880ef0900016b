/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_STUDY_SIGNIFICANT_ARMS_H
#define TW_STUDY_SIGNIFICANT_ARMS_H
/*
 * The experiment with two commands: runs of both in drawn order, and three questions to them, each
 * answered by itself: speed, a metric, the bits of the last weights.
 */
#include "front.h"
#include "remote.h"
#include "significant_sets.h"

struct tw_experiment_asked {
    const char *command[2], *home; /* of sh -c; the option's, or NULL */
    uint64_t runs, seed, steps;
    struct tw_remote_asked engine; /* who is to make the runs */
    bool json, quiet;
};

/* Digests of the last weights of each good run that shows them; owned. */
struct tw_bits {
    char **weights;
    size_t runs;
};

/* Zeroed; front, asked, home, and of the metric measure and asked are given. tw_experiment_fini in
 * any case. */
struct tw_experiment {
    const struct tw_front *front;
    struct tw_remote on; /* who makes the runs; its engine NULL: this process */
    struct tw_experiment_asked asked;
    char *home; /* owned */
    /* the folders of the runs that were made whole; owned */
    char **dir[2];
    size_t made[2];
    struct tw_bits bits[2];
    struct tw_significant speed, metric;
    /* the node of the first run of a round, on which the second one is made, too; NULL: it has
     * none, or where runs are made is not ours to say; owned */
    char *round_node;
    bool apart;                  /* the runs of a round may have been on different nodes */
    bool interrupted, no_metric; /* no_metric: no run of an arm has it, and it was not asked */
};

/* A round has one run of each; which comes first is drawn. 0, or a TWIN_E* after the front was told
 * why. */
int tw_experiment_make(struct tw_experiment *x);
/* Answers speed and metric. Speed is of steps where every run that ended well shows them, of whole
 * runs otherwise. TWIN_EINVAL: the question does not fit the values; TWIN_ENOENT: no run of an arm
 * ended well; TWIN_EIO: a run is gone; TWIN_ENOMEM. */
int tw_experiment_ask(struct tw_experiment *x, struct twin_error *err);
void tw_experiment_fini(struct tw_experiment *x);

/* How many different ones. */
size_t tw_bits_classes(const struct tw_bits *b);

/* Answers what is asked of two sets. TWIN_EINVAL: tw_significant_positive; TWIN_ENOMEM. */
int tw_significant_ask(struct tw_significant *s, struct twin_error *err);

#endif
