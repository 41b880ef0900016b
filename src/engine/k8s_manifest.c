/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods, jobs and nodes of Kubernetes as JSON: the job that we write around the user's pod, and what
 * the cluster's answers say. Nothing here runs anything.
 *
 * One Indexed Job stands for all runs that may be in one place. The cluster repeats nothing:
 * backoffLimitPerIndex is 0, restartPolicy is Never, and no podFailurePolicy makes an exception for
 * evicted pods. What was lost is made again by src/trial/remote.c, which counts it.
 */
#include "k8s_inside.h"

#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A finished job that nobody has deleted goes by itself. */
enum { KEPT_S = 3600 };

/* ---- reading */

json_t *tw_k8s_at(const json_t *object, const char *const *names)
{
    for (; object && *names; names++)
        object = json_object_get(object, *names);
    return (json_t *)(uintptr_t)object;
}

const char *tw_k8s_text(const json_t *text)
{
    const char *s = json_string_value(text);
    return s ? s : "";
}

static bool is(const json_t *text, const char *wanted)
{
    return strcmp(tw_k8s_text(text), wanted) == 0;
}

bool tw_k8s_is_node_name(const char *name)
{
    size_t n = strlen(name);
    return n > 0 && n <= 253 && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789.-") == n;
}

/* ---- the user's pod */

/* The container that runs the job: the only one, or the one called twinrun. */
static json_t *container_of(const json_t *pod)
{
    json_t *all = TW_K8S_AT(pod, "spec", "containers"), *one;
    size_t i;
    if (json_array_size(all) == 1)
        return json_array_get(all, 0);
    json_array_foreach (all, i, one)
        if (is(json_object_get(one, "name"), "twinrun"))
            return one;
    return NULL;
}

int tw_k8s_check_pod(const json_t *pod, const char *file, struct twin_error *err)
{
    const char *kind = tw_k8s_text(json_object_get(pod, "kind"));
    const json_t *restarts = TW_K8S_AT(pod, "spec", "restartPolicy");
    if (strcmp(kind, "Pod") != 0)
        return twin_error_set(err, TWIN_EINVAL,
                              "--on k8s: %s: expected one manifest of kind Pod, found \"%s\"", file,
                              kind);
    if (!json_is_object(container_of(pod)))
        return twin_error_set(err, TWIN_EINVAL,
                              "--on k8s: %s: expected one container, or one that is called "
                              "twinrun, found %zu",
                              file, json_array_size(TW_K8S_AT(pod, "spec", "containers")));
    if (restarts && !is(restarts, "Never"))
        return twin_error_set(err, TWIN_EINVAL,
                              "--on k8s: %s: expected restartPolicy Never or none, found \"%s\": "
                              "a cluster that repeats runs hides how many fail",
                              file, tw_k8s_text(restarts));
    return 0;
}

bool tw_k8s_chooses_nodes(const json_t *pod)
{
    return TW_K8S_AT(pod, "spec", "nodeName") || TW_K8S_AT(pod, "spec", "affinity");
}

char *tw_k8s_selector(const json_t *pod)
{
    struct tw_buf b = {0};
    const char *name;
    json_t *value;
    tw_buf_puts(&b, "");
    json_object_foreach (TW_K8S_AT(pod, "spec", "nodeSelector"), name, value)
        tw_buf_printf(&b, "%s%s=%s", b.len ? "," : "", name, tw_k8s_text(value));
    return tw_buf_steal(&b);
}

/* ---- where the pod may be */

int tw_k8s_read_labels(const char *words, json_t *requirements, struct twin_error *err)
{
    for (const char *p = words; *p;) {
        size_t n = strcspn(p, ","), name = strcspn(p, "=");
        if (name == 0 || name + 1 >= n)
            return twin_error_set(err, TWIN_EINVAL,
                                  "--place type: expected labels of nodes as NAME=VALUE,..., found "
                                  "\"%s\"",
                                  words);
        const char *value = p + name + 1;
        json_t *one = json_pack("{s:s%, s:s, s:[s%]}", "key", p, name, "operator", "In", "values",
                                value, n - name - 1);
        if (!one)
            return twin_error_set(err, TWIN_EINVAL, "--place type: \"%s\" is no text in UTF-8",
                                  words);
        if (requirements)
            json_array_append(requirements, one);
        json_decref(one);
        p += n + (p[n] == ',');
    }
    return 0;
}

/* Nodes by name, not by the label kubernetes.io/hostname, which need not be the name. The field
 * takes one value at a time. */
static json_t *name_requirements(const struct tw_place *place)
{
    const char *how = place->kind == TW_PLACE_PIN ? "In" : "NotIn";
    json_t *all = json_array();
    for (const char *p = place->hosts; all && *p;) {
        size_t n = strcspn(p, ",");
        if (n)
            json_array_append_new(all, json_pack("{s:s, s:s, s:[s%]}", "key", "metadata.name",
                                                 "operator", how, "values", p, n));
        p += n + (p[n] == ',');
    }
    return all;
}

/* The object under this name, which is made where there is none. Borrowed. */
static json_t *object_in(json_t *object, const char *name)
{
    if (!json_is_object(json_object_get(object, name)))
        json_object_set_new(object, name, json_object());
    return json_object_get(object, name);
}

static json_t *list_in(json_t *object, const char *name)
{
    if (!json_is_array(json_object_get(object, name)))
        json_object_set_new(object, name, json_array());
    return json_object_get(object, name);
}

/* Terms of a node affinity are alternatives, so each gets what we ask for. */
static int add_place(json_t *spec, const struct tw_place *place, struct twin_error *err)
{
    const bool by_label = place->kind == TW_PLACE_TYPE;
    if (place->kind == TW_PLACE_ANY || place->kind == TW_PLACE_SAME_TYPE)
        return 0;
    json_t *wanted = by_label ? json_array() : name_requirements(place);
    int rc = wanted ? 0 : tw_no_memory(err, "for a place");
    if (rc == 0 && by_label)
        rc = tw_k8s_read_labels(place->hosts, wanted, err);
    json_t *affinity = object_in(object_in(spec, "affinity"), "nodeAffinity");
    json_t *required = object_in(affinity, "requiredDuringSchedulingIgnoredDuringExecution");
    json_t *terms = list_in(required, "nodeSelectorTerms"), *term;
    size_t i;
    if (json_array_size(terms) == 0)
        json_array_append_new(terms, json_object());
    json_array_foreach (terms, i, term)
        json_array_extend(list_in(term, by_label ? "matchExpressions" : "matchFields"), wanted);
    json_decref(wanted);
    return rc;
}

/* ---- the job */

/* Kubernetes reads $(NAME) in a command's words as its own; $$ is a $ there. */
static json_t *word(const char *text)
{
    struct tw_buf b = {0};
    tw_buf_puts(&b, "");
    for (const char *p = text; *p; p++)
        tw_buf_puts(&b, *p == '$' ? "$$" : (char[]){*p, '\0'});
    char *doubled = tw_buf_steal(&b);
    json_t *made = doubled ? json_string(doubled) : NULL;
    tw_free(doubled);
    return made;
}

static const char script[] =
    "d=\"$2/$JOB_COMPLETION_INDEX\"\n"
    "if ! [ -x \"$1\" ]; then echo \"no program $1 in this pod\" >&2; exit 66; fi\n"
    "if ! [ -d \"$d\" ]; then echo \"no folder $d in this pod\" >&2; exit 66; fi\n"
    "exec \"$1\" --node-run \"$d\" >>\"$d/log\" 2>&1\n";
_Static_assert(TW_K8S_SEES_NOTHING == 66, "the script says the number");

/* The run in place of what the container would do, and the node's name from the cluster itself. */
static void put_run(json_t *container, const struct tw_k8s_job *job)
{
    json_t *command = json_pack("[s, s, o, s, o, o]", "/bin/sh", "-c", word(script), "twinrun",
                                word(job->program), word(job->batch));
    json_t *env = list_in(container, "env");
    for (size_t i = json_array_size(env); i-- > 0;)
        if (is(json_object_get(json_array_get(env, i), "name"), "TWINRUN_NODE"))
            json_array_remove(env, i);
    json_array_append_new(env, json_pack("{s:s, s:{s:{s:s}}}", "name", "TWINRUN_NODE", "valueFrom",
                                         "fieldRef", "fieldPath", "spec.nodeName"));
    json_object_set_new(container, "command", command);
    json_object_del(container, "args");
}

/* Files that a pod makes as root in the caller's folder could not be deleted by the caller. */
static void put_user(json_t *spec, const json_t *container)
{
    if (geteuid() == 0 || TW_K8S_AT(spec, "securityContext", "runAsUser") ||
        TW_K8S_AT(container, "securityContext", "runAsUser"))
        return;
    json_t *security = object_in(spec, "securityContext");
    json_object_set_new(security, "runAsUser", json_integer(geteuid()));
    if (!json_object_get(security, "runAsGroup"))
        json_object_set_new(security, "runAsGroup", json_integer(getegid()));
}

/* Labels and annotations of the user's (queues go by them), and ours. */
static json_t *metadata_of(const json_t *pod, const struct tw_k8s_job *job)
{
    json_t *made = json_object();
    json_t *labels = json_deep_copy(TW_K8S_AT(pod, "metadata", "labels"));
    json_t *notes = json_deep_copy(TW_K8S_AT(pod, "metadata", "annotations"));
    json_object_set_new(made, "labels", labels ? labels : json_object());
    labels = json_object_get(made, "labels");
    json_object_set_new(labels, "app.kubernetes.io/managed-by", json_string("twinrun"));
    json_object_set_new(labels, "twinrun-session", json_string(job->session));
    if (notes)
        json_object_set_new(made, "annotations", notes);
    return made;
}

json_t *tw_k8s_job(const json_t *pod, const struct tw_k8s_job *job, struct twin_error *err)
{
    json_t *copy = json_deep_copy(pod), *spec = json_object_get(copy, "spec");
    json_t *container = container_of(copy), *space = TW_K8S_AT(pod, "metadata", "namespace");
    int rc = container ? add_place(spec, job->place, err) : tw_no_memory(err, "for a job");
    if (rc == 0) {
        put_run(container, job);
        put_user(spec, container);
        json_object_set_new(spec, "restartPolicy", json_string("Never"));
    }
    json_t *made = rc != 0 ? NULL
                           : json_pack("{s:s, s:s, s:o, s:{s:s, s:I, s:I, s:i, s:s, s:i, "
                                       "s:{s:o, s:O}}}",
                                       "apiVersion", "batch/v1", "kind", "Job", "metadata",
                                       metadata_of(pod, job), "spec", "completionMode", "Indexed",
                                       "completions", (json_int_t)job->runs, "parallelism",
                                       (json_int_t)job->runs, "backoffLimitPerIndex", 0,
                                       "podReplacementPolicy", "Failed", "ttlSecondsAfterFinished",
                                       KEPT_S, "template", "metadata", metadata_of(pod, job),
                                       "spec", spec);
    if (rc == 0 && !made)
        tw_no_memory(err, "for a job");
    if (made)
        json_object_set_new(json_object_get(made, "metadata"), "name", json_string(job->name));
    if (made && space)
        json_object_set(json_object_get(made, "metadata"), "namespace", space);
    json_decref(copy);
    return made;
}

/* ---- nodes */

static bool tolerates(const json_t *toleration, const json_t *taint)
{
    const char *key = tw_k8s_text(json_object_get(toleration, "key"));
    const char *effect = tw_k8s_text(json_object_get(toleration, "effect"));
    bool exists = is(json_object_get(toleration, "operator"), "Exists");
    if (*effect && !is(json_object_get(taint, "effect"), effect))
        return false;
    if (!*key)
        return exists;
    if (!is(json_object_get(taint, "key"), key))
        return false;
    return exists ||
           is(json_object_get(taint, "value"), tw_k8s_text(json_object_get(toleration, "value")));
}

/* A taint that keeps pods away, and that this pod does not tolerate. */
static bool keeps_away(const json_t *taint, const json_t *pod)
{
    json_t *all = TW_K8S_AT(pod, "spec", "tolerations"), *one;
    size_t i;
    if (is(json_object_get(taint, "effect"), "PreferNoSchedule"))
        return false;
    json_array_foreach (all, i, one)
        if (tolerates(one, taint))
            return false;
    return true;
}

bool tw_k8s_takes(const json_t *node, const json_t *pod)
{
    json_t *conditions = TW_K8S_AT(node, "status", "conditions"), *one;
    json_t *taints = TW_K8S_AT(node, "spec", "taints");
    bool ready = false;
    size_t i;
    json_array_foreach (conditions, i, one)
        if (is(json_object_get(one, "type"), "Ready"))
            ready = is(json_object_get(one, "status"), "True");
    json_array_foreach (taints, i, one)
        ready &= !keeps_away(one, pod);
    return ready && !json_is_true(TW_K8S_AT(node, "spec", "unschedulable"));
}

/* Devices have a slash in their name (nvidia.com/gpu); memory differs by some pages between nodes
 * that are alike. */
char *tw_k8s_type(const json_t *node)
{
    const json_t *labels = TW_K8S_AT(node, "metadata", "labels");
    json_t *capacity = TW_K8S_AT(node, "status", "capacity"), *count;
    struct tw_buf b = {0};
    const char *name;
    tw_buf_printf(&b, "%s|%s|%s|%s",
                  tw_k8s_text(json_object_get(labels, "node.kubernetes.io/instance-type")),
                  tw_k8s_text(json_object_get(labels, "kubernetes.io/arch")),
                  tw_k8s_text(json_object_get(labels, "nvidia.com/gpu.product")),
                  tw_k8s_text(json_object_get(capacity, "cpu")));
    json_object_foreach (capacity, name, count)
        if (strchr(name, '/'))
            tw_buf_printf(&b, "|%s=%s", name, tw_k8s_text(count));
    return tw_buf_steal(&b);
}

/* ---- what became of a run */

/* A cluster's words on one line, without what a terminal would obey. */
static void take_words(char *out, size_t size, const char *a, const char *b)
{
    snprintf(out, size, "%s%s%s", a, *a && *b ? ": " : "", b);
    for (char *p = out; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 127)
            *p = ' ';
}

/* The state of the container in which the run is: one of "waiting", "running", "terminated". NULL:
 * nothing is said of it yet. Others in the pod may go on for ever. */
static const json_t *state_of(const json_t *pod, const json_t *ours)
{
    json_t *all = TW_K8S_AT(pod, "status", "containerStatuses"), *one;
    const char *name = tw_k8s_text(json_object_get(container_of(ours), "name"));
    size_t i;
    json_array_foreach (all, i, one)
        if (is(json_object_get(one, "name"), name))
            return json_object_get(one, "state");
    return NULL;
}

/* How the container ended, or why it does not begin. False: neither. */
static bool say_container(const json_t *state, struct tw_ticket *t)
{
    const json_t *waits = json_object_get(state, "waiting");
    json_int_t code = json_integer_value(TW_K8S_AT(state, "terminated", "exitCode"));
    if (code == TW_K8S_SEES_NOTHING)
        snprintf(t->why, sizeof t->why,
                 "its pod does not see this program or the home: their file system has to be "
                 "mounted at the same paths");
    else if (code)
        snprintf(t->why, sizeof t->why, "its container ended with exit code %d", (int)code);
    else if (waits)
        take_words(t->why, sizeof t->why, tw_k8s_text(json_object_get(waits, "reason")),
                   tw_k8s_text(json_object_get(waits, "message")));
    return t->why[0] != '\0';
}

/* Evicted and preempted pods say so in a condition; one that waits says for what. */
static bool say_condition(const json_t *pod, const char *type, const char *status,
                          struct tw_ticket *t)
{
    json_t *all = TW_K8S_AT(pod, "status", "conditions"), *one;
    size_t i;
    json_array_foreach (all, i, one)
        if (is(json_object_get(one, "type"), type) && is(json_object_get(one, "status"), status)) {
            take_words(t->why, sizeof t->why, tw_k8s_text(json_object_get(one, "reason")),
                       tw_k8s_text(json_object_get(one, "message")));
            return true;
        }
    return false;
}

bool tw_k8s_read_pod(const json_t *pod, const json_t *ours, struct tw_ticket *t)
{
    const json_t *status = json_object_get(pod, "status");
    const char *phase = tw_k8s_text(json_object_get(status, "phase"));
    const char *node = tw_k8s_text(TW_K8S_AT(pod, "spec", "nodeName"));
    bool leaves = TW_K8S_AT(pod, "metadata", "deletionTimestamp") != NULL;
    const json_t *state = state_of(pod, ours);
    bool ended = strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0 ||
                 json_object_get(state, "terminated");
    if (*node) {
        take_words(t->node, sizeof t->node, node, "");
        snprintf(t->asked, sizeof t->asked, "%s", t->node);
    }
    t->why[0] = '\0';
    if (!say_condition(pod, "DisruptionTarget", "True", t) && json_object_get(status, "reason"))
        take_words(t->why, sizeof t->why, tw_k8s_text(json_object_get(status, "reason")),
                   tw_k8s_text(json_object_get(status, "message")));
    if (!t->why[0] && !say_container(state, t) && strcmp(phase, "Pending") == 0)
        say_condition(pod, "PodScheduled", "False", t);
    if (!t->why[0] && leaves)
        snprintf(t->why, sizeof t->why, "its pod was deleted");
    t->state = strcmp(phase, "Pending") == 0 ? TW_JOB_QUEUED : TW_JOB_RUNNING;
    if (ended)
        t->state = TW_JOB_GONE;
    return !leaves;
}

/* "1,3-5": is the number in the list? */
static bool is_listed(const char *list, uint64_t number)
{
    for (const char *p = list; *p;) {
        char *end;
        uint64_t first = strtoull(p, &end, 10), last = first;
        if (*end == '-')
            last = strtoull(end + 1, &end, 10);
        if (end == p)
            return false;
        if (number >= first && number <= last)
            return true;
        p = end + (*end == ',');
        if (*end && *end != ',')
            return false;
    }
    return false;
}

bool tw_k8s_job_has_ended(const json_t *job, uint64_t index)
{
    json_t *status = json_object_get(job, "status"), *one;
    json_t *conditions = json_object_get(status, "conditions");
    size_t i;
    json_array_foreach (conditions, i, one)
        if ((is(json_object_get(one, "type"), "Failed") ||
             is(json_object_get(one, "type"), "Complete")) &&
            is(json_object_get(one, "status"), "True"))
            return true;
    return is_listed(tw_k8s_text(json_object_get(status, "failedIndexes")), index) ||
           is_listed(tw_k8s_text(json_object_get(status, "completedIndexes")), index);
}
