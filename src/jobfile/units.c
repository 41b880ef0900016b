/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which jobs a file of manifests holds, and where each says what its pods are.
 *
 * Kinds that are known are read along their fields: Pod, Job, CronJob, Argo's workflows, JobSet,
 * Kubeflow's TrainJob with the runtime that it names, where that is in the file. In any other kind
 * whatever has "containers" is a pod; of its retries nothing is known then. A document without a
 * pod (Service, ConfigMap) is no job, and is counted as skipped.
 */
#include "pods.h"

#include <string.h>

/* A document, its kind and name. */
struct document {
    const struct jf_node *root;
    const char *kind, *name;
};

static struct document document_of(const struct jf_node *root)
{
    const struct jf_node *meta = jf_get(root, "metadata");
    const char *name = jf_text(jf_get(meta, "name"));
    if (!*name)
        name = jf_text(jf_get(meta, "generateName"));
    return (struct document){root, jf_text(jf_get(root, "kind")), *name ? name : "without a name"};
}

static bool is_kind(const struct document *d, const char *kind)
{
    return strcmp(d->kind, kind) == 0;
}

static void add_spec(struct jf_unit *u, const struct jf_node *spec)
{
    if (spec && spec->kind == JF_MAP && u->specs < JF_SPECS)
        u->spec[u->specs++] = spec;
}

/* One pod of a document: judged, and counted. */
static void judge(struct jf_lint *l, const struct document *d, struct jf_unit *u, const char *part)
{
    char *where = *part ? tw_printf("%s %s, %s", d->kind, d->name, part)
                        : tw_printf("%s %s", d->kind, d->name);
    if (!where)
        l->out->failed = true;
    else
        jf_judge_unit(l, u, where);
    l->out->jobs++;
    tw_free(where);
}

/* ---- a Job's template, in a Job, a CronJob, a replicated job */

static void one_job(struct jf_lint *l, const struct document *d, const struct jf_node *spec)
{
    const struct jf_node *pod = JF_AT(spec, "template", "spec");
    struct jf_unit u = {.line = d->root->line, .retry = JF_RETRY_JOB, .policy = spec};
    u.meta[0] = jf_get(d->root, "metadata");
    u.meta[1] = JF_AT(spec, "template", "metadata");
    add_spec(&u, pod);
    if (pod)
        judge(l, d, &u, "");
    else
        l->out->skipped++;
}

static void one_pod(struct jf_lint *l, const struct document *d)
{
    struct jf_unit u = {.line = d->root->line, .retry = JF_RETRY_POD};
    u.policy = jf_get(d->root, "spec");
    u.meta[0] = jf_get(d->root, "metadata");
    add_spec(&u, u.policy);
    judge(l, d, &u, "");
}

/* ---- Argo */

static void workflow(struct jf_lint *l, const struct document *d, const struct jf_node *spec)
{
    const struct jf_node *templates = jf_get(spec, "templates");
    size_t judged = 0;
    for (size_t i = 0; i < jf_count(templates); i++) {
        const struct jf_node *t = templates->item[i];
        if (!jf_get(t, "container") && !jf_get(t, "script") && !jf_get(t, "containerSet"))
            continue; /* steps, a DAG: what they start are templates of their own */
        struct jf_unit u = {.line = t->line, .retry = JF_RETRY_ARGO, .policy = t};
        u.meta[0] = jf_get(d->root, "metadata");
        u.meta[1] = jf_get(t, "metadata");
        u.outer = spec;
        add_spec(&u, t);
        add_spec(&u, spec);
        add_spec(&u, jf_get(spec, "templateDefaults"));
        char *part = tw_printf("template %s", jf_text(jf_get(t, "name")));
        if (part)
            judge(l, d, &u, part);
        else
            l->out->failed = true;
        tw_free(part);
        judged++;
    }
    if (judged == 0)
        l->out->skipped++;
}

/* ---- JobSet, and what Kubeflow makes of it */

/* The replicated job that trains: the one that Kubeflow marks, else the last. */
static const struct jf_node *trains(const struct jf_node *set)
{
    const struct jf_node *jobs = jf_get(set, "replicatedJobs"), *found = NULL;
    for (size_t i = 0; i < jf_count(jobs); i++) {
        const char *step = jf_text(JF_AT(jobs->item[i], "template", "metadata", "labels",
                                         "trainer.kubeflow.org/trainjob-ancestor-step"));
        found = jobs->item[i];
        if (strcmp(step, "trainer") == 0)
            break;
    }
    return found;
}

/* The pod of a JobSet's job. set: a JobSet's spec. */
static void add_set(struct jf_unit *u, const struct jf_node *set)
{
    const struct jf_node *job = trains(set);
    u->set = set;
    u->policy = JF_AT(job, "template", "spec");
    u->retry = JF_RETRY_SET;
    u->meta[1] = JF_AT(u->policy, "template", "metadata");
    add_spec(u, JF_AT(u->policy, "template", "spec"));
}

static void job_set(struct jf_lint *l, const struct document *d, const struct jf_node *set)
{
    struct jf_unit u = {.line = d->root->line};
    u.meta[0] = jf_get(d->root, "metadata");
    add_set(&u, set);
    if (u.specs > 0)
        judge(l, d, &u, "");
    else
        l->out->skipped++;
}

static bool is_runtime(const struct document *d)
{
    return is_kind(d, "TrainingRuntime") || is_kind(d, "ClusterTrainingRuntime");
}

/* The runtime of that name among the documents; NULL: it is not in the file. */
static const struct jf_node *runtime_of(const struct jf_yaml *y, const struct jf_node *train_job)
{
    const struct jf_node *ref = JF_AT(train_job, "spec", "runtimeRef");
    const char *name = jf_text(jf_get(ref, "name")), *kind = jf_text(jf_get(ref, "kind"));
    for (size_t i = 0; i < y->documents; i++) {
        const struct document d = document_of(y->document[i]);
        const char *wanted = *kind ? kind : "ClusterTrainingRuntime";
        if (is_kind(&d, wanted) && strcmp(d.name, name) == 0)
            return d.root;
    }
    return NULL;
}

/* Is the runtime used by a TrainJob of the file? Then it is judged together with that. */
static bool is_used(const struct jf_yaml *y, const struct jf_node *runtime)
{
    for (size_t i = 0; i < y->documents; i++) {
        const struct document d = document_of(y->document[i]);
        if (is_kind(&d, "TrainJob") && runtime_of(y, d.root) == runtime)
            return true;
    }
    return false;
}

static void train_job(struct jf_lint *l, const struct document *d)
{
    const struct jf_node *spec = jf_get(d->root, "spec"), *runtime = runtime_of(l->yaml, d->root);
    const struct jf_node *patches = jf_get(spec, "runtimePatches");
    const struct jf_node *overrides = jf_get(spec, "podTemplateOverrides"); /* before 2.2 */
    struct jf_unit u = {.line = d->root->line, .retry = JF_RETRY_ELSEWHERE};
    u.meta[0] = jf_get(d->root, "metadata");
    u.trainer = jf_get(spec, "trainer");
    const char *named = jf_text(JF_AT(spec, "runtimeRef", "name"));
    if (!runtime)
        u.elsewhere = *named ? named : "(not named)";
    if (runtime)
        add_set(&u, JF_AT(runtime, "spec", "template", "spec"));
    for (size_t i = 0; i < jf_count(patches); i++) {
        const struct jf_node *job = trains(
            JF_AT(patches->item[i], "trainingRuntimeSpec", "template", "spec"));
        add_spec(&u, JF_AT(job, "template", "spec", "template", "spec"));
    }
    for (size_t i = 0; i < jf_count(overrides); i++)
        add_spec(&u, jf_get(overrides->item[i], "spec"));
    judge(l, d, &u, "");
}

/* ---- kinds that are not known */

static void search_pods(struct jf_lint *l, const struct document *d, const struct jf_node *n,
                        size_t *found)
{
    if (n->kind == JF_MAP && jf_count(jf_get(n, "containers")) > 0) {
        struct jf_unit u = {.line = n->line, .retry = JF_RETRY_ELSEWHERE};
        u.meta[0] = jf_get(d->root, "metadata");
        u.unknown_kind = true;
        add_spec(&u, n);
        judge(l, d, &u, "");
        (*found)++;
        return;
    }
    for (size_t i = 0; n->kind != JF_SCALAR && i < n->count; i++)
        search_pods(l, d, n->item[i], found);
}

static void one_document(struct jf_lint *l, const struct jf_node *root)
{
    const struct document d = document_of(root);
    const struct jf_node *spec = jf_get(root, "spec"), *items = jf_get(root, "items");
    size_t found = 0;
    if (is_kind(&d, "Pod"))
        one_pod(l, &d);
    else if (is_kind(&d, "Job"))
        one_job(l, &d, spec);
    else if (is_kind(&d, "CronJob"))
        one_job(l, &d, JF_AT(spec, "jobTemplate", "spec"));
    else if (is_kind(&d, "Workflow") || is_kind(&d, "WorkflowTemplate") ||
             is_kind(&d, "ClusterWorkflowTemplate"))
        workflow(l, &d, spec);
    else if (is_kind(&d, "CronWorkflow"))
        workflow(l, &d, jf_get(spec, "workflowSpec"));
    else if (is_kind(&d, "JobSet"))
        job_set(l, &d, spec);
    else if (is_kind(&d, "TrainJob"))
        train_job(l, &d);
    else if (is_runtime(&d)) {
        if (!is_used(l->yaml, root))
            job_set(l, &d, JF_AT(spec, "template", "spec"));
    } else if (is_kind(&d, "List") && items) {
        for (size_t i = 0; i < jf_count(items); i++)
            one_document(l, items->item[i]);
    } else {
        search_pods(l, &d, root, &found);
        l->out->skipped += found == 0;
    }
}

void jf_lint_documents(const struct jf_yaml *y, const struct tw_jobfile_asked *asked,
                       struct tw_jobfile_findings *out)
{
    struct jf_lint l = {.yaml = y, .asked = asked, .out = out};
    for (size_t i = 0; i < y->documents; i++)
        one_document(&l, y->document[i]);
}
