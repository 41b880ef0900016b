/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Manifests from what a job is to be: an Indexed Job, an Argo Workflow, a Kubeflow TrainJob with
 * the runtime that it names.
 *
 * What the caller did not give is left out, never made up: the lint says then what is missing.
 * Kubernetes puts values in place of $(NAME) in commands, so a "$(" of the user's is doubled.
 */
#include "inside.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const char *const kinds[] = {[TW_JOBFILE_ARGO] = "argo",
                                    [TW_JOBFILE_K8S] = "k8s",
                                    [TW_JOBFILE_TRAINJOB] = "trainjob",
                                    [TW_JOBFILE_SLURM] = "slurm"};
_Static_assert(sizeof kinds / sizeof kinds[0] == TW_JOBFILE_KINDS, "a name for each kind");

const char *tw_jobfile_kind_name(enum tw_jobfile_kind k)
{
    assert(k < TW_JOBFILE_KINDS);
    return kinds[k];
}

enum tw_jobfile_kind tw_jobfile_kind_of(const char *name)
{
    size_t i = 0;
    while (i < TW_JOBFILE_KINDS && strcmp(kinds[i], name) != 0)
        i++;
    return (enum tw_jobfile_kind)i;
}

/* ---- what may be given */

static bool only(const char *text, const char *extra, size_t most)
{
    size_t n = 0;
    for (const char *p = text; *p; p++, n++) {
        const bool plain = (*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9');
        if (!plain && !strchr(extra, *p))
            return false;
    }
    return n > 0 && n <= most;
}

static const char capitals[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ-._";

/* A name of DNS, as names of objects are: small letters, digits, dashes inside. */
static bool is_dns_label(const char *s)
{
    return only(s, "-", 52) && *s != '-' && s[strlen(s) - 1] != '-';
}

/* A label's value: it begins and ends in a letter or digit. */
static bool is_label_value(const char *s)
{
    const size_t n = strlen(s);
    return only(s, capitals, 63) && !strchr("-._", s[0]) && !strchr("-._", s[n - 1]);
}

size_t jf_label_length(const char *pool)
{
    const char *equals = strchr(pool, '=');
    if (!equals || equals == pool || !is_label_value(equals + 1))
        return SIZE_MAX;
    const size_t n = (size_t)(equals - pool);
    for (size_t i = 0; i < n; i++) {
        const char one[2] = {pool[i], '\0'};
        if (!only(one, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-._/", 1))
            return SIZE_MAX;
    }
    return n;
}

static int check_pool(enum tw_jobfile_kind kind, const struct tw_jobfile_job *job,
                      struct twin_error *err)
{
    for (const char *const *p = job->pool; p && *p; p++) {
        if (kind != TW_JOBFILE_SLURM && jf_label_length(*p) == SIZE_MAX)
            return twin_error_set(err, TWIN_EINVAL,
                                  "--pool: expected a label of nodes as NAME=VALUE, found \"%s\"",
                                  *p);
        if (kind == TW_JOBFILE_SLURM && !only(*p, capitals, 255))
            return twin_error_set(err, TWIN_EINVAL,
                                  "--pool: expected a feature of Slurm's nodes (letters, digits, "
                                  "-._), found \"%s\"",
                                  *p);
    }
    return 0;
}

static int check_data(enum tw_jobfile_kind kind, const struct tw_jobfile_job *job,
                      struct twin_error *err)
{
    static const char path_chars[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ-._/+@";
    if (!job->claim)
        return 0;
    const bool is_slurm = kind == TW_JOBFILE_SLURM;
    if (is_slurm && !job->image)
        return twin_error_set(err, TWIN_EINVAL,
                              "--data: the folder is mounted into a container: expected --image "
                              "beside it");
    if (is_slurm ? *job->claim != '/' || !only(job->claim, path_chars, 4000)
                 : !is_dns_label(job->claim))
        return twin_error_set(err, TWIN_EINVAL,
                              "--data: expected %s before the colon, found "
                              "\"%s\"",
                              is_slurm ? "an absolute folder" : "the name of a claim", job->claim);
    if (!job->data_path || *job->data_path != '/' || !only(job->data_path, path_chars, 4000))
        return twin_error_set(err, TWIN_EINVAL,
                              "--data: expected an absolute path behind the colon, where the job "
                              "sees the data, found \"%s\"",
                              job->data_path ? job->data_path : "");
    return 0;
}

int jf_check_job(enum tw_jobfile_kind kind, const struct tw_jobfile_job *job,
                 struct twin_error *err)
{
    if (!job->name || !is_dns_label(job->name))
        return twin_error_set(err, TWIN_EINVAL,
                              "--name: expected small letters, digits and dashes, at most 52, "
                              "found \"%s\"",
                              job->name ? job->name : "");
    if (job->space && !is_dns_label(job->space))
        return twin_error_set(err, TWIN_EINVAL, "--namespace: expected a namespace, found \"%s\"",
                              job->space);
    if (job->image &&
        (!jf_has_digest(job->image) || !only(job->image, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-._/:@", 500)))
        return twin_error_set(err, TWIN_EINVAL,
                              "--image: expected REPOSITORY@sha256: and 64 hex digits, found "
                              "\"%s\"; docker inspect -f '{{index .RepoDigests 0}}' IMAGE prints "
                              "it",
                              job->image);
    if (job->driver && !only(job->driver, capitals, 63))
        return twin_error_set(err, TWIN_EINVAL,
                              "--driver: expected a version like 550.54.15, found \"%s\"",
                              job->driver);
    if (job->run_id && !is_label_value(job->run_id))
        return twin_error_set(err, TWIN_EINVAL,
                              "--run-id: expected letters, digits and -._ inside, at most 63, "
                              "found \"%s\"",
                              job->run_id);
    if (job->snapshot && !tw_is_hex(job->snapshot, 64))
        return twin_error_set(err, TWIN_EINVAL,
                              "--snapshot: expected the 64 hex digits of a snapshot's root, found "
                              "\"%s\"",
                              job->snapshot);
    if (job->argc == 0)
        return twin_error_set(err, TWIN_EINVAL, "expected a command behind --");
    if (kind == TW_JOBFILE_ARGO && job->nodes > 1)
        return twin_error_set(err, TWIN_EINVAL,
                              "--nodes: a template of a Workflow is one pod: expected 1 with argo, "
                              "found %llu; try k8s or trainjob",
                              (unsigned long long)job->nodes);
    for (size_t i = 0; kind == TW_JOBFILE_ARGO && i < job->argc; i++)
        if (strstr(job->argv[i], "{{"))
            return twin_error_set(err, TWIN_EINVAL,
                                  "argo puts parameters in place of {{ }}: expected a command "
                                  "without them, found \"%s\"",
                                  job->argv[i]);
    int rc = check_pool(kind, job, err);
    return rc ? rc : check_data(kind, job, err);
}

/* ---- parts; NULL travels on, as everywhere with jansson */

/* Doubles "$(", which Kubernetes would fill in. */
static json_t *literal(const char *text)
{
    struct tw_buf b = {0};
    tw_buf_puts(&b, "");
    for (const char *p = text; *p; p++)
        tw_buf_printf(&b, p[0] == '$' && p[1] == '(' ? "$%c" : "%c", *p);
    json_t *out = b.failed ? NULL : json_string(b.data);
    tw_buf_free(&b);
    return out;
}

/* What was put together, unless a part of it could not be put in, which would make another job.
 * NULL: no memory; whoever puts it in then gets -1 in turn. */
static json_t *whole(json_t *o, int bad)
{
    if (!bad)
        return o;
    json_decref(o);
    return NULL;
}

static json_t *command_of(const struct tw_jobfile_job *job)
{
    json_t *list = json_array();
    int bad = 0;
    for (size_t i = 0; i < job->argc; i++)
        bad |= json_array_append_new(list, literal(job->argv[i]));
    return whole(list, bad);
}

static int add_variable(json_t *env, const char *name, const char *value)
{
    return json_array_append_new(env, json_pack("{s:s, s:s}", "name", name, "value", value));
}

static int add_number(json_t *env, const char *name, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    return add_variable(env, name, text);
}

static json_t *env_of(const struct tw_jobfile_job *job)
{
    json_t *env = json_array();
    int bad = env ? 0 : -1;
    if (job->run_id)
        bad |= add_variable(env, "RUN_ID", job->run_id);
    if (job->has_seed) {
        bad |= add_number(env, "SEED", job->seed);
        bad |= add_number(env, "PYTHONHASHSEED", job->seed);
    }
    if (job->cpus)
        bad |= add_number(env, "OMP_NUM_THREADS", job->cpus);
    if (job->snapshot)
        bad |= add_variable(env, "DATA_SNAPSHOT", job->snapshot);
    return whole(env, bad);
}

static int add_amount(json_t *some, const char *name, uint64_t amount)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)amount);
    /* amounts are texts there */
    return amount ? json_object_set_new(some, name, json_string(text)) : 0;
}

/* Requests equal limits: the scheduler then gives whole processors where it is told to. */
static json_t *resources_of(const struct tw_jobfile_job *job)
{
    json_t *some = json_object();
    int bad = add_amount(some, "cpu", job->cpus);
    bad |= add_amount(some, "nvidia.com/gpu", job->gpus);
    some = whole(some, bad);
    return json_pack("{s:O, s:o}", "requests", some, "limits", some);
}

static json_t *selector_of(const struct tw_jobfile_job *job)
{
    json_t *out = json_object();
    int bad = out ? 0 : -1;
    for (const char *const *p = job->pool; p && *p; p++) {
        char *label = tw_strndup(*p, jf_label_length(*p));
        bad |= label ? json_object_set_new(out, label, json_string(*p + strlen(label) + 1)) : -1;
        tw_free(label);
    }
    if (job->driver)
        bad |= json_object_set_new(out, "nvidia.com/cuda.driver-version.full",
                                   json_string(job->driver));
    return whole(out, bad);
}

static json_t *metadata_of(const struct tw_jobfile_job *job, bool named)
{
    json_t *labels = json_pack("{s:s}", "app.kubernetes.io/name", job->name);
    json_t *out = json_object();
    int bad = 0;
    if (job->run_id)
        bad |= json_object_set_new(labels, "app.kubernetes.io/instance", json_string(job->run_id));
    if (named)
        bad |= json_object_set_new(out, "name", json_string(job->name));
    if (named && job->space)
        bad |= json_object_set_new(out, "namespace", json_string(job->space));
    bad |= json_object_set_new(out, "labels", labels);
    return whole(out, bad);
}

static json_t *container_of(const struct tw_jobfile_job *job, const char *name)
{
    json_t *out = json_object();
    int bad = 0;
    if (name)
        bad |= json_object_set_new(out, "name", json_string(name));
    if (job->image)
        bad |= json_object_set_new(out, "image", json_string(job->image));
    bad |= json_object_set_new(out, "command", command_of(job));
    bad |= json_object_set_new(out, "env", env_of(job));
    if (job->cpus || job->gpus)
        bad |= json_object_set_new(out, "resources", resources_of(job));
    if (job->claim)
        bad |= json_object_set_new(out, "volumeMounts",
                                   json_pack("[{s:s, s:s, s:b}]", "name", "data", "mountPath",
                                             job->data_path, "readOnly", 1));
    return whole(out, bad);
}

/* Nodes and volumes, into a pod's spec. -1: no memory. */
static int add_placement(json_t *spec, const struct tw_jobfile_job *job)
{
    json_t *selector = selector_of(job);
    int bad = selector ? 0 : -1;
    if (json_object_size(selector) > 0)
        bad |= json_object_set(spec, "nodeSelector", selector);
    json_decref(selector);
    if (job->claim)
        bad |= json_object_set_new(spec, "volumes",
                                   json_pack("[{s:s, s:{s:s, s:b}}]", "name", "data",
                                             "persistentVolumeClaim", "claimName", job->claim,
                                             "readOnly", 1));
    return bad;
}

static json_t *pod_of(const struct tw_jobfile_job *job, const char *container)
{
    json_t *spec = json_pack("{s:s}", "restartPolicy", "Never");
    int bad = add_placement(spec, job);
    bad |= json_object_set_new(spec, "containers", json_pack("[o]", container_of(job, container)));
    return json_pack("{s:o, s:o}", "metadata", metadata_of(job, false), "spec", whole(spec, bad));
}

static json_int_t nodes_of(const struct tw_jobfile_job *job)
{
    return (json_int_t)(job->nodes ? job->nodes : 1);
}

/* ---- kinds */

/* All ranks at once, none beside a first that failed, and no second pod while the first one ends.
 */
static json_t *indexed_job(const struct tw_jobfile_job *job)
{
    return json_pack("{s:s, s:s, s:o, s:{s:s, s:I, s:I, s:I, s:i, s:s, s:o}}", "apiVersion",
                     "batch/v1", "kind", "Job", "metadata", metadata_of(job, true), "spec",
                     "completionMode", "Indexed", "completions", nodes_of(job), "parallelism",
                     nodes_of(job), "backoffLimitPerIndex", (json_int_t)job->retries,
                     "maxFailedIndexes", 0, "podReplacementPolicy", "Failed", "template",
                     pod_of(job, "train"));
}

static json_t *argo_workflow(const struct tw_jobfile_job *job)
{
    json_t *template = json_pack("{s:s, s:o, s:{s:I, s:s}}", "name", "train", "metadata",
                                 metadata_of(job, false), "retryStrategy", "limit",
                                 (json_int_t)job->retries, "retryPolicy", "OnFailure");
    int bad = add_placement(template, job);
    bad |= json_object_set_new(template, "container", container_of(job, NULL));
    return json_pack("{s:s, s:s, s:o, s:{s:s, s:[o]}}", "apiVersion", "argoproj.io/v1alpha1",
                     "kind", "Workflow", "metadata", metadata_of(job, true), "spec", "entrypoint",
                     "train", "templates", whole(template, bad));
}

/* The pods are the runtime's: placement and retries stand there, so one is written for the job. */
static json_t *training_runtime(const struct tw_jobfile_job *job)
{
    json_t *pod = pod_of(job, "node"), *metadata = metadata_of(job, true);
    const int bad = json_object_set_new(json_object_get(metadata, "labels"),
                                        "trainer.kubeflow.org/framework", json_string("torch"));
    json_t *replicated = json_pack("{s:s, s:{s:{s:{s:s}}, s:{s:I, s:o}}}", "name", "node",
                                   "template", "metadata", "labels",
                                   "trainer.kubeflow.org/trainjob-ancestor-step", "trainer", "spec",
                                   "backoffLimit", (json_int_t)job->retries, "template", pod);
    return json_pack("{s:s, s:s, s:o, s:{s:{s:I, s:{}}, s:{s:{s:{s:i}, s:[o]}}}}", "apiVersion",
                     "trainer.kubeflow.org/v1alpha1", "kind", "TrainingRuntime", "metadata",
                     whole(metadata, bad), "spec", "mlPolicy", "numNodes", nodes_of(job), "torch",
                     "template", "spec", "failurePolicy", "maxRestarts", 0, "replicatedJobs",
                     replicated);
}

static json_t *train_job(const struct tw_jobfile_job *job)
{
    json_t *trainer = json_pack("{s:I, s:o, s:o}", "numNodes", nodes_of(job), "command",
                                command_of(job), "env", env_of(job));
    int bad = 0;
    if (job->image)
        bad |= json_object_set_new(trainer, "image", json_string(job->image));
    if (job->cpus || job->gpus)
        bad |= json_object_set_new(trainer, "resourcesPerNode", resources_of(job));
    return json_pack("{s:s, s:s, s:o, s:{s:{s:s, s:s}, s:o}}", "apiVersion",
                     "trainer.kubeflow.org/v1alpha1", "kind", "TrainJob", "metadata",
                     metadata_of(job, true), "spec", "runtimeRef", "name", job->name, "kind",
                     "TrainingRuntime", "trainer", whole(trainer, bad));
}

int tw_jobfile_write(enum tw_jobfile_kind kind, const struct tw_jobfile_job *job, char **out,
                     struct twin_error *err)
{
    json_t *document[2] = {NULL, NULL};
    size_t count = 1;
    *out = NULL;
    int rc = jf_check_job(kind, job, err);
    if (rc != 0 || kind == TW_JOBFILE_SLURM)
        return rc ? rc : jf_write_slurm(job, out, err);
    for (size_t i = 0; i < job->argc; i++) {
        json_t *text = json_string(job->argv[i]);
        if (!text)
            return twin_error_set(err, TWIN_EINVAL,
                                  "expected a command in UTF-8: argument %zu is not", i + 1);
        json_decref(text);
    }
    if (kind == TW_JOBFILE_ARGO)
        document[0] = argo_workflow(job);
    else if (kind == TW_JOBFILE_K8S)
        document[0] = indexed_job(job);
    else {
        document[0] = training_runtime(job);
        document[1] = train_job(job);
        count = 2;
    }
    if (!document[0] || !document[count - 1])
        rc = tw_no_memory(err, "for a manifest");
    rc = rc ? rc : jf_yaml_write((const json_t *const *)document, count, out, err);
    for (size_t i = 0; i < count; i++)
        json_decref(document[i]);
    return rc;
}
