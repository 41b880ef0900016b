/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_JOBFILE_PODS_H
#define TW_JOBFILE_PODS_H
/* A job of a manifest as its rules see it (units.c finds it, pods.c judges it). */
#include "inside.h"

/* Where a kind says what happens after a failure. */
enum jf_retry { JF_RETRY_ELSEWHERE, JF_RETRY_POD, JF_RETRY_JOB, JF_RETRY_ARGO, JF_RETRY_SET };

enum { JF_SPECS = 16 };

/*
 * One kind of pod that a document starts. spec: the places that describe it, what counts more
 * first: a pod's spec, a template of Argo, a patch. trainer: a TrainJob's own part of it.
 * elsewhere: the name of a runtime that is not in the file; else NULL.
 */
struct jf_unit {
    size_t line;
    const struct jf_node *spec[JF_SPECS];
    size_t specs;
    const struct jf_node *meta[2];
    const struct jf_node *trainer, *outer, *policy, *set;
    enum jf_retry retry;
    const char *elsewhere;
    bool unknown_kind;
};

struct jf_lint {
    const struct jf_yaml *yaml;
    const struct tw_jobfile_asked *asked;
    struct tw_jobfile_findings *out;
};

void jf_judge_unit(struct jf_lint *l, const struct jf_unit *u, const char *where);

/* ---- nodes (nodes.c) */
void jf_judge_nodes(struct jf_lint *l, const struct jf_unit *u, const struct jf_place *p,
                    const char *gpu);

/* ---- containers (pods.c) */
/* "--seed 7", "--seed=7", "seed=7" in the words of a command, which may be one text for a shell. */
bool jf_names_seed(const char *text);

typedef void jf_container_fn(void *user, const struct jf_node *container, bool starts_first);
/* Each container of a unit: a trainer, "containers", Argo's forms, then those that start first. */
void jf_each_container(const struct jf_unit *u, jf_container_fn *each, void *user);

#endif
