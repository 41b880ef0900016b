/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_ENGINE_K8S_INSIDE_H
#define TW_ENGINE_K8S_INSIDE_H
/* What the two files about Kubernetes share: k8s.c talks to kubectl, k8s_manifest.c knows what a
 * pod, a job and a node look like. */
#include "engine_inside.h"

#include <jansson.h>

/* The pod's exit code when it does not see our files. */
enum { TW_K8S_SEES_NOTHING = 66 };

/* Is this a Pod that a run can be put into? TWIN_EINVAL says what it has to be. */
int tw_k8s_check_pod(const json_t *pod, const char *file, struct twin_error *err);
/* The words of --place type:, as "name=value,name=value"; TWIN_EINVAL. requirements: NULL, or a
 * list to which they are added in the words of a node affinity. */
int tw_k8s_read_labels(const char *words, json_t *requirements, struct twin_error *err);

struct tw_k8s_job {
    const char *name, *session, *batch, *program;
    const struct tw_place *place;
    size_t runs;
};
/* The manifest of an Indexed Job whose pods are the user's, each with one run in it. A new
 * reference; NULL: no memory, or a place that cannot be said. */
json_t *tw_k8s_job(const json_t *pod, const struct tw_k8s_job *job, struct twin_error *err);

/* The pod's own nodeSelector as kubectl's --selector takes it; "" without. malloc'ed. */
char *tw_k8s_selector(const json_t *pod);
/* Does the pod itself say on which nodes it may be, beyond a nodeSelector? */
bool tw_k8s_chooses_nodes(const json_t *pod);
/* Is the node ready, and does it take this pod? */
bool tw_k8s_takes(const json_t *node, const json_t *pod);
/* What makes nodes alike, in the cluster's words. malloc'ed. */
char *tw_k8s_type(const json_t *node);
/* Can a node be called so? Other names are none of a cluster's. */
bool tw_k8s_is_node_name(const char *name);

/* What a pod, made like `ours`, says of its run: state, node, why. False: it is being deleted. */
bool tw_k8s_read_pod(const json_t *pod, const json_t *ours, struct tw_ticket *t);
/* Has the job done with this index, whatever became of its pod? */
bool tw_k8s_job_has_ended(const json_t *job, uint64_t index);

/* object.a.b...; names end with NULL. NULL: it is not there. Borrowed. */
json_t *tw_k8s_at(const json_t *object, const char *const *names);
#define TW_K8S_AT(object, ...) tw_k8s_at(object, (const char *const[]){__VA_ARGS__, NULL})
/* The same, when it is a text; "" else. */
const char *tw_k8s_text(const json_t *text);

#endif
