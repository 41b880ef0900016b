/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kubernetes by its own program: kubectl says what nodes there are, creates one Indexed Job for all
 * runs that may be made in one place, says what has become of their pods, and deletes them. Which
 * cluster, as whom and by which credentials is kubectl's business.
 *
 * What a pod looks like (image, shared file system, devices, tolerations, queue) is Kubernetes' own
 * language, and the user says it there: --on k8s:FILE names a manifest of kind Pod, into which
 * k8s_manifest.c puts the run.
 *
 * kubectl prints one object a line (jsonpath {@}), so that lists of any length are read in little
 * memory; what is no JSON is its complaint.
 */
#include "k8s_inside.h"

#include "base.h"
#include "json_load.h"

#include "src/launch/capture.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* kubectl asks several times before it gives up; RUNS_MAX is of one Job. */
enum { REQUEST_S = 20, SILENCE_S = 60, RUNS_MAX = 500, WORDS_MAX = 12, MISSED_TWICE = 2 };

#define ONE_A_LINE "jsonpath={@}{\"\\n\"}"
#define EACH_A_LINE "jsonpath={range .items[*]}{@}{\"\\n\"}{end}"

struct job {
    char name[48];
    size_t left; /* tickets that were not released */
    bool deleted;
};

struct k8s {
    char session[17];
    json_t *pod;     /* the user's manifest */
    char *space;     /* --namespace=..., or NULL: kubectl's own */
    struct job *job; /* owned */
    size_t job_count, made;
    bool lists_nodes; /* false: this account may not */
};

/* ---- kubectl */

struct answer {
    void (*on_object)(void *user, json_t *object);
    void *user;
    size_t objects;
    char words[400]; /* the last line that is no JSON */
};

static int take_line(void *user, char *line, struct twin_error *err)
{
    struct answer *a = user;
    (void)err;
    json_t *object = *line == '{' ? tw_json_load(line, strlen(line), 0, NULL) : NULL;
    if (object) {
        a->objects++;
        if (a->on_object)
            a->on_object(a->user, object);
        json_decref(object);
        return 0;
    }
    if (line[strspn(line, " \t\r")]) {
        snprintf(a->words, sizeof a->words, "%s", line);
        for (char *p = a->words; *p; p++)
            if ((unsigned char)*p < ' ' || *p == 127)
                *p = ' ';
    }
    return 0;
}

/* Runs kubectl with these words (NULL: none here) and hands out the objects that it prints. */
static int ask(const struct k8s *k, const char *const words[WORDS_MAX], struct answer *a,
               struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT; /* the first message of an error stays */
    char request[40];
    const char *argv[WORDS_MAX + 8] = {"/bin/sh", "-c", "exec kubectl \"$@\" 2>&1", "kubectl",
                                       request};
    size_t n = 5;
    int status = 0;
    bool interrupted;
    snprintf(request, sizeof request, "--request-timeout=%ds", REQUEST_S);
    for (size_t i = 0; i < WORDS_MAX && words[i]; i++)
        argv[n++] = words[i];
    if (k->space)
        argv[n++] = k->space;
    a->objects = 0;
    a->words[0] = '\0';
    int rc = tw_capture_lines((char *const *)(uintptr_t)argv, SILENCE_S, NULL, take_line, a,
                              &interrupted, &status, &why);
    if (rc == TWIN_ELIMIT)
        return twin_error_set(err, TWIN_EIO,
                              "kubectl %s: no answer within %d s; try kubectl get nodes: is the "
                              "cluster of kubectl config current-context the right one?",
                              words[0], SILENCE_S);
    if (rc != 0)
        return twin_error_set(err, rc, "%s", why.message);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        rc = twin_error_set(err, TWIN_EIO, "kubectl %s said: %s", words[0],
                            a->words[0] ? a->words : "nothing, and failed");
    return rc;
}
#define WORDS(...) ((const char *const[WORDS_MAX]){__VA_ARGS__})

/* ---- probe */

static void keep_object(void *user, json_t *object)
{
    json_t **kept = user;
    if (!*kept)
        *kept = json_incref(object);
}

/* kubectl reads the file, so YAML is as good as JSON. */
static int read_manifest(struct k8s *k, const char *file, struct twin_error *err)
{
    struct stat st;
    char path[PATH_MAX];
    struct answer a = {.on_object = keep_object, .user = &k->pod};
    if (stat(file, &st) != 0 || !S_ISREG(st.st_mode) || !realpath(file, path))
        return twin_error_set(
            err, TWIN_EINVAL,
            "--on k8s:FILE: expected a manifest of kind Pod, found no file \"%s\"", file);
    char *option = tw_printf("--filename=%s", path);
    int rc = option ? ask(k, WORDS("create", option, "--dry-run=client", "-o", ONE_A_LINE), &a, err)
                    : tw_no_memory(err, "for a command");
    tw_free(option);
    if (rc == 0 && a.objects != 1)
        rc = twin_error_set(err, TWIN_EINVAL,
                            "--on k8s: %s: expected one manifest of kind Pod, found %zu", file,
                            a.objects);
    rc = rc ? rc : tw_k8s_check_pod(k->pod, file, err);
    const char *space = tw_k8s_text(TW_K8S_AT(k->pod, "metadata", "namespace"));
    if (rc == 0 && *space && !(k->space = tw_printf("--namespace=%s", space)))
        rc = tw_no_memory(err, "for a command");
    return rc;
}

struct nodes {
    struct tw_engine *e;
    const struct k8s *k;
    int rc;
};

static void add_node(void *user, json_t *node)
{
    struct nodes *x = user;
    const char *name = tw_k8s_text(TW_K8S_AT(node, "metadata", "name"));
    if (x->rc != 0 || strcmp(tw_k8s_text(json_object_get(node, "kind")), "Node") != 0 ||
        !tw_k8s_is_node_name(name))
        return;
    char *type = tw_k8s_type(node);
    x->rc = type ? tw_engine_add_node(x->e, name, type, tw_k8s_takes(node, x->k->pod), NULL)
                 : TWIN_ENOMEM;
    tw_free(type);
}

/* An account of one namespace may not list nodes, which is no trouble: the cluster places runs by
 * itself, and only what needs a choice of ours does not go. */
static int read_nodes(struct tw_engine *e, struct twin_error *err)
{
    struct k8s *k = e->own;
    struct twin_error why = TWIN_ERROR_INIT;
    struct nodes x = {.e = e, .k = k};
    struct answer a = {.on_object = add_node, .user = &x};
    char *selector = tw_k8s_selector(k->pod);
    char *option = selector ? tw_printf("--selector=%s", selector) : NULL;
    tw_engine_forget_nodes(e);
    int rc = option ? ask(k, WORDS("get", "nodes", option, "-o", EACH_A_LINE), &a, &why)
                    : tw_no_memory(err, "for a command");
    bool forbidden = rc == TWIN_EIO && strstr(a.words, "(Forbidden)");
    k->lists_nodes = rc == 0;
    tw_free(selector);
    tw_free(option);
    if (x.rc != 0)
        return tw_no_memory(err, "for the nodes of a cluster");
    if (rc == 0 && !e->node_count)
        return twin_error_set(err, TWIN_EINVAL,
                              "--on k8s: the cluster has no node that the manifest's nodeSelector "
                              "allows");
    if (rc == TWIN_EIO && !forbidden)
        return twin_error_set(err, rc, "--on k8s: %s; try kubectl get nodes", why.message);
    return forbidden ? 0 : rc;
}

static int open_session(struct tw_engine *e, struct twin_error *err)
{
    unsigned char bytes[8];
    struct k8s *k = tw_calloc(1, sizeof *k);
    if (!k)
        return tw_no_memory(err, "for an engine");
    e->own = k;
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return twin_error_system(err, "no random bytes for the names of jobs");
    tw_hex(bytes, sizeof bytes, k->session);
    return read_manifest(k, e->words, err);
}

static int k8s_probe(struct tw_engine *e, struct twin_error *err)
{
    if (!*e->words)
        return twin_error_set(err, TWIN_EINVAL,
                              "--on k8s: expected k8s:FILE, a manifest of kind Pod with the image "
                              "and the shared file system; an example is in docs/engines.md");
    if (!tw_in_path("kubectl"))
        return twin_error_set(err, TWIN_EUNSUPPORTED, "--on k8s: no kubectl in PATH");
    if (e->node_count && !e->own)
        return twin_error_set(err, TWIN_EINVAL,
                              "--hosts is for --on cmd: a cluster knows its nodes");
    int rc = e->own ? 0 : open_session(e, err);
    return rc ? rc : read_nodes(e, err);
}

/* ---- places */

/* A pod that fits no node would wait for ever. */
static int k8s_knows_place(const struct tw_engine *e, const struct tw_place *place,
                           struct twin_error *err)
{
    const struct k8s *k = e->own;
    struct answer a = {.on_object = NULL};
    if (place->kind == TW_PLACE_TYPE) {
        char *option = tw_printf("--selector=%s", place->hosts);
        int rc = tw_k8s_read_labels(place->hosts, NULL, err);
        if (rc == 0 && k->lists_nodes)
            rc = option ? ask(k, WORDS("get", "nodes", option, "-o", EACH_A_LINE), &a, err)
                        : tw_no_memory(err, "for a command");
        tw_free(option);
        if (rc == 0 && k->lists_nodes && !a.objects)
            rc = twin_error_set(err, TWIN_EINVAL, "--place: no node has the labels %s",
                                place->hosts);
        return rc;
    }
    if (place->kind != TW_PLACE_ANY && TW_K8S_AT(k->pod, "spec", "nodeName"))
        return twin_error_set(err, TWIN_EINVAL,
                              "--place: the manifest's nodeName has chosen the node already");
    for (size_t i = 0; i < e->node_count; i++)
        if (e->node[i].up && tw_place_holds(place, e->node[i].name))
            return 0;
    if (!k->lists_nodes)
        return 0;
    return twin_error_set(err, TWIN_EINVAL,
                          "--place: it leaves no node that is ready and takes this pod (kubectl "
                          "get nodes; taints and the manifest's nodeSelector count)");
}

static int k8s_can_pin(const struct tw_engine *e, struct twin_error *err)
{
    const struct k8s *k = e->own;
    if (!k->lists_nodes)
        return twin_error_set(err, TWIN_EUNSUPPORTED,
                              "this account may not list the cluster's nodes");
    if (tw_k8s_chooses_nodes(k->pod))
        return twin_error_set(err, TWIN_EUNSUPPORTED,
                              "the manifest of the pod chooses nodes by itself (nodeName, "
                              "affinity)");
    return 0;
}

static size_t k8s_room(const struct tw_engine *e, const struct tw_place *place)
{
    (void)e;
    (void)place;
    return RUNS_MAX;
}

/* ---- submit */

static struct job *job_of(const struct k8s *k, const struct tw_ticket *t)
{
    for (size_t i = 0; i < k->job_count; i++)
        if (tw_starts(t->job, k->job[i].name) && t->job[strlen(k->job[i].name)] == '/')
            return &k->job[i];
    return NULL;
}

static uint64_t index_of(const struct tw_ticket *t)
{
    const char *slash = strchr(t->job, '/');
    return slash ? strtoull(slash + 1, NULL, 10) : 0;
}

static void delete_job(const struct k8s *k, struct job *j)
{
    struct answer a = {.on_object = NULL};
    if (!j->deleted)
        j->deleted = ask(k, WORDS("delete", "jobs", j->name, "--ignore-not-found", "--wait=false"),
                         &a, NULL) == 0;
}

static struct job *add_job(struct k8s *k, size_t runs, struct twin_error *err)
{
    struct job *grown = tw_reallocarray(k->job, k->job_count + 1, sizeof *grown);
    if (!grown) {
        tw_no_memory(err, "for a job");
        return NULL;
    }
    k->job = grown;
    struct job *j = &grown[k->job_count++];
    *j = (struct job){.left = runs};
    snprintf(j->name, sizeof j->name, "twinrun-%s-%zu", k->session, ++k->made);
    return j;
}

static int write_manifest(const char *path, const json_t *job, struct twin_error *err)
{
    char *text = json_dumps(job, JSON_COMPACT);
    int rc = text ? tw_write_file_atomic(path, text, strlen(text), err)
                  : tw_no_memory(err, "for a job");
    free(text);
    return rc;
}

/* What the cluster has made of it: one that does not know a field leaves it out, and would then
 * repeat runs by itself. */
static int check_made(const json_t *job, struct twin_error *err)
{
    const json_t *limit = TW_K8S_AT(job, "spec", "backoffLimitPerIndex");
    bool indexed = strcmp(tw_k8s_text(TW_K8S_AT(job, "spec", "completionMode")), "Indexed") == 0;
    if (indexed && json_is_integer(limit) && json_integer_value(limit) == 0)
        return 0;
    return twin_error_set(err, TWIN_EUNSUPPORTED,
                          "--on k8s: expected an Indexed Job with backoffLimitPerIndex 0, and the "
                          "cluster made one without it, which repeats runs by itself: Kubernetes "
                          "1.29 or newer is needed");
}

static int create(const struct k8s *k, const char *file, struct twin_error *err)
{
    json_t *made = NULL;
    struct answer a = {.on_object = keep_object, .user = &made};
    char *option = tw_printf("--filename=%s", file);
    int rc = option ? ask(k, WORDS("create", option, "-o", ONE_A_LINE), &a, err)
                    : tw_no_memory(err, "for a command");
    rc = rc ? rc : check_made(made, err);
    tw_free(option);
    json_decref(made);
    return rc;
}

static char *program_path(struct twin_error *err)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0) {
        twin_error_system(err, "cannot find the program that runs (/proc/self/exe)");
        return NULL;
    }
    return tw_strndup(path, (size_t)n);
}

static int k8s_submit(struct tw_engine *e, const char *batch, struct tw_ticket *const *ticket,
                      size_t n, struct twin_error *err)
{
    struct k8s *k = e->own;
    char *program = program_path(err), *file = tw_path_join(batch, "job.json");
    struct job *j = program && file ? add_job(k, n, err) : NULL;
    int rc = j ? 0 : tw_no_memory(err, "for a job");
    json_t *manifest = rc == 0 ? tw_k8s_job(k->pod,
                                            &(struct tw_k8s_job){.name = j->name,
                                                                 .session = k->session,
                                                                 .batch = batch,
                                                                 .program = program,
                                                                 .place = &ticket[0]->place,
                                                                 .runs = n},
                                            err)
                               : NULL;
    if (rc == 0)
        rc = manifest ? write_manifest(file, manifest, err) : TWIN_EINVAL;
    if (rc == 0 && (rc = create(k, file, err)) != 0)
        delete_job(k, j); /* an answer that was lost may have made it */
    for (size_t i = 0; rc == 0 && i < n; i++) {
        snprintf(ticket[i]->job, sizeof ticket[i]->job, "%s/%u", j->name, (unsigned)i);
        ticket[i]->state = TW_JOB_QUEUED;
        ticket[i]->missed = 0;
    }
    if (rc != 0 && j && j->deleted)
        k->job_count--;
    json_decref(manifest);
    tw_free(program);
    tw_free(file);
    return rc;
}

/* ---- poll */

struct polled {
    const struct k8s *k;
    struct tw_ticket *const *ticket;
    size_t n;
};

static struct tw_ticket *ticket_of(const struct polled *p, const char *job, const char *index)
{
    char name[sizeof p->ticket[0]->job];
    if (snprintf(name, sizeof name, "%s/%s", job, index) >= (int)sizeof name)
        return NULL;
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->ticket[i]->job, name) == 0)
            return p->ticket[i];
    return NULL;
}

static void look_pod(const struct polled *p, const json_t *pod)
{
    const json_t *labels = TW_K8S_AT(pod, "metadata", "labels");
    const json_t *notes = TW_K8S_AT(pod, "metadata", "annotations");
    struct tw_ticket *t = ticket_of(
        p, tw_k8s_text(json_object_get(labels, "job-name")),
        tw_k8s_text(json_object_get(notes, "batch.kubernetes.io/job-completion-index")));
    if (!t)
        return;
    bool stays = tw_k8s_read_pod(pod, p->k->pod, t);
    if (t->state == TW_JOB_GONE)
        t->missed = MISSED_TWICE;
    else if (stays)
        t->missed = 0;
}

/* A run whose pod is not made yet waits; one whose index is done with, and that has no pod, is
 * missing. Jobs are listed before pods, so a pod says more. */
static void look_job(const struct polled *p, const json_t *job)
{
    const char *name = tw_k8s_text(TW_K8S_AT(job, "metadata", "name"));
    for (size_t i = 0; i < p->n; i++) {
        struct tw_ticket *t = p->ticket[i];
        const struct job *of = job_of(p->k, t);
        if (!of || strcmp(of->name, name) != 0 || t->node[0] ||
            tw_k8s_job_has_ended(job, index_of(t)))
            continue;
        t->missed = 0;
        t->state = TW_JOB_QUEUED;
        snprintf(t->why, sizeof t->why, "no pod yet: kubectl describe job %s", name);
    }
}

static void look_object(void *user, json_t *object)
{
    const char *kind = tw_k8s_text(json_object_get(object, "kind"));
    if (strcmp(kind, "Job") == 0)
        look_job(user, object);
    else if (strcmp(kind, "Pod") == 0)
        look_pod(user, object);
}

/* A run whose container has ended, or whose pod is being deleted or not there twice in a row, is
 * gone. */
static void k8s_poll(struct tw_engine *e, struct tw_ticket *const *ticket, size_t n)
{
    const struct k8s *k = e->own;
    struct polled p = {.k = k, .ticket = ticket, .n = n};
    struct answer a = {.on_object = look_object, .user = &p};
    unsigned *missed = tw_calloc(n, sizeof *missed);
    char *option = tw_printf("--selector=twinrun-session=%s", k->session);
    for (size_t i = 0; missed && i < n; i++)
        missed[i] = ticket[i]->missed++;
    int rc = missed && option
                 ? ask(k, WORDS("get", "jobs,pods", option, "-o", EACH_A_LINE), &a, NULL)
                 : TWIN_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        if (rc != 0 && missed) { /* the cluster may be away for a while: nothing is known */
            ticket[i]->missed = missed[i];
            if (ticket[i]->state != TW_JOB_GONE)
                snprintf(ticket[i]->why, sizeof ticket[i]->why, "kubectl does not answer");
        } else if (rc == 0 && ticket[i]->missed >= MISSED_TWICE) {
            ticket[i]->state = TW_JOB_GONE;
        }
    }
    tw_free(option);
    tw_free(missed);
}

/* ---- cancel and release */

/* Whole jobs go as such; of others the pods. */
static void cancel_of(const struct k8s *k, struct job *j, struct tw_ticket *const *ticket, size_t n)
{
    struct tw_buf b = {0};
    struct answer a = {.on_object = NULL};
    size_t asked = 0;
    tw_buf_printf(&b, "--selector=job-name=%s,batch.kubernetes.io/job-completion-index in (",
                  j->name);
    for (size_t i = 0; i < n; i++)
        if (job_of(k, ticket[i]) == j)
            tw_buf_printf(&b, "%s%llu", asked++ ? "," : "",
                          (unsigned long long)index_of(ticket[i]));
    tw_buf_puts(&b, ")");
    char *option = tw_buf_steal(&b);
    if (asked && asked >= j->left)
        delete_job(k, j);
    else if (asked && option)
        ask(k, WORDS("delete", "pods", option, "--ignore-not-found", "--wait=false"), &a, NULL);
    tw_free(option);
}

static void k8s_cancel(struct tw_engine *e, struct tw_ticket *const *ticket, size_t n)
{
    struct k8s *k = e->own;
    for (size_t i = 0; i < k->job_count; i++)
        cancel_of(k, &k->job[i], ticket, n);
}

/* A job of which all runs are done with is of no more use. */
static void k8s_release(struct tw_engine *e, struct tw_ticket *t)
{
    struct k8s *k = e->own;
    struct job *j = job_of(k, t);
    if (!j || (j->left && --j->left))
        return;
    delete_job(k, j);
    if (j->deleted)
        *j = k->job[--k->job_count];
}

static void k8s_close(struct tw_engine *e)
{
    struct k8s *k = e->own;
    for (size_t i = 0; k && i < k->job_count; i++)
        delete_job(k, &k->job[i]);
    if (!k)
        return;
    json_decref(k->pod);
    tw_free(k->space);
    tw_free(k->job);
    tw_free(k);
}

const struct tw_engine_kind tw_engine_k8s = {.name = "k8s",
                                             .poll_s = 3,
                                             .grace_s = 30,
                                             .probe = k8s_probe,
                                             .knows_place = k8s_knows_place,
                                             .can_pin = k8s_can_pin,
                                             .room = k8s_room,
                                             .submit = k8s_submit,
                                             .poll = k8s_poll,
                                             .cancel = k8s_cancel,
                                             .release = k8s_release,
                                             .close = k8s_close};
