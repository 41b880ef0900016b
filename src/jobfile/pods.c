/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job of a manifest held against the rules: its images, its nodes (nodes.c), its data, its
 * environment, and what happens after a failure.
 *
 * What stands in another object (a ConfigMap, a runtime) or is filled in later ("{{...}}") is not
 * known, never held.
 */
#include "pods.h"

#include <string.h>
#include <strings.h>

/* ---- containers */

static void each_of(const struct jf_node *list, bool starts_first, jf_container_fn *each,
                    void *user)
{
    for (size_t i = 0; i < jf_count(list); i++)
        each(user, list->item[i], starts_first);
}

void jf_each_container(const struct jf_unit *u, jf_container_fn *each, void *user)
{
    if (u->trainer)
        each(user, u->trainer, false);
    for (size_t i = 0; i < u->specs; i++) {
        const struct jf_node *s = u->spec[i], *one = jf_get(s, "container");
        if (one)
            each(user, one, false);
        one = jf_get(s, "script");
        if (one)
            each(user, one, false);
        each_of(jf_get(s, "containers"), false, each, user);
        each_of(JF_AT(s, "containerSet", "containers"), false, each, user);
    }
    for (size_t i = 0; i < u->specs; i++)
        each_of(jf_get(u->spec[i], "initContainers"), true, each, user);
}

/* ---- images */

struct images {
    const struct jf_place *p;
    size_t judged;
    struct jf_images seen;
};

static void judge_image(void *user, const struct jf_node *container, bool starts_first)
{
    struct images *x = user;
    const struct jf_node *image = jf_get(container, "image");
    const char *text = jf_text(image), *name = jf_text(jf_get(container, "name"));
    (void)starts_first;
    if (!jf_given(image))
        return; /* of a patch, or of a runtime whose trainer has it */
    const struct jf_place at = {x->p->out, image->line, x->p->where};
    char *whose = tw_printf(*name ? "container %s: " : "%s", name);
    x->judged++;
    jf_see_image(&x->seen, text, image->line);
    if (jf_has_digest(text))
        jf_holds(&at, TW_RULE_IMAGE, "%s%s", whose ? whose : "", text);
    else if (strstr(text, "{{"))
        jf_say(&at, TW_RULE_IMAGE, TW_RULE_NOT_KNOWN,
               tw_printf("%sthe image is filled in later: %s", whose ? whose : "", text),
               "write it out: image: REPOSITORY@sha256:DIGEST");
    else
        jf_say(&at, TW_RULE_IMAGE, TW_RULE_BROKEN,
               tw_printf("%sexpected REPOSITORY@sha256:DIGEST, found %s", whose ? whose : "", text),
               "image: REPOSITORY@sha256:DIGEST; docker inspect -f '{{index .RepoDigests 0}}' "
               "IMAGE prints it");
    tw_free(whose);
}

static void judge_images(const struct jf_unit *u, const struct jf_place *p,
                         const struct tw_jobfile_asked *asked)
{
    struct images x = {p, 0, {.asked = asked}};
    jf_each_container(u, judge_image, &x);
    jf_judge_package(p, &x.seen, u->elsewhere != NULL);
    if (x.judged > 0)
        return;
    if (u->elsewhere)
        jf_say(p, TW_RULE_IMAGE, TW_RULE_NOT_KNOWN,
               tw_printf("the runtime %s has the image, and is not in the file", u->elsewhere),
               "trainer: {image: REPOSITORY@sha256:DIGEST}");
    else
        jf_say(p, TW_RULE_IMAGE, TW_RULE_BROKEN, tw_printf("no container has an image"),
               "image: REPOSITORY@sha256:DIGEST");
}

/* ---- devices */

static void find_gpu(void *user, const struct jf_node *container, bool starts_first)
{
    static const char *const places[] = {"limits", "requests"};
    const char **found = user;
    const struct jf_node *all = jf_get(container, "resources");
    (void)starts_first;
    if (!all)
        all = jf_get(container, "resourcesPerNode");
    for (size_t i = 0; i < 2; i++) {
        const struct jf_node *some = jf_get(all, places[i]);
        for (size_t j = 0; some && some->kind == JF_MAP && j < some->count; j++) {
            const char *name = jf_text(some->key[j]);
            const bool is_gpu = tw_starts(name, "nvidia.com/gpu") ||
                                tw_starts(name, "nvidia.com/mig-") ||
                                tw_starts(name, "amd.com/gpu");
            if (is_gpu && strcmp(jf_text(some->item[j]), "0") != 0)
                *found = name;
        }
    }
}

/* ---- the environment */

/* What is known of a variable, of all containers together. */
struct variable {
    bool (*is)(const char *name);
    const struct jf_node *value; /* of the first; NULL: none, or it comes from elsewhere */
    const char *name;
    size_t line;
    bool from_field;   /* of the pod itself: its name, a label */
    bool from_other;   /* of another object */
    bool all_of_other; /* envFrom: any variable may come from there */
};

static void find_variable(void *user, const struct jf_node *container, bool starts_first)
{
    struct variable *v = user;
    const struct jf_node *env = jf_get(container, "env");
    if (starts_first)
        return;
    v->all_of_other |= jf_count(jf_get(container, "envFrom")) > 0;
    for (size_t i = 0; i < jf_count(env); i++) {
        const char *name = jf_text(jf_get(env->item[i], "name"));
        const struct jf_node *value = jf_get(env->item[i], "value");
        if (!v->is(name) || v->value)
            continue;
        v->name = name;
        v->line = env->item[i]->line;
        if (value)
            v->value = value;
        else if (JF_AT(env->item[i], "valueFrom", "fieldRef"))
            v->from_field = true;
        else
            v->from_other = true;
    }
}

static struct variable variable_of(const struct jf_unit *u, bool (*is)(const char *name))
{
    struct variable v = {.is = is};
    jf_each_container(u, find_variable, &v);
    return v;
}

static bool is_hash_seed(const char *name)
{
    return strcmp(name, "PYTHONHASHSEED") == 0;
}

static bool is_seed(const char *name)
{
    return tw_ends(name, "SEED") && !is_hash_seed(name);
}

static bool is_run_id(const char *name)
{
    return tw_ends(name, "RUN_ID") || tw_ends(name, "RUN_NAME");
}

static bool is_threads(const char *name)
{
    return strcmp(name, "OMP_NUM_THREADS") == 0;
}

bool jf_names_seed(const char *text)
{
    for (const char *p = text; *p; p++) {
        if (strncasecmp(p, "seed", 4) != 0)
            continue;
        /* the salt of Python's hashes seeds no generator */
        if (p - text >= 10 && strncmp(p - 10, "PYTHONHASH", 10) == 0)
            continue;
        const char *q = p + 4;
        q += *q == '=' || *q == ' ' || *q == '\n';
        if (q > p + 4 && *q >= '0' && *q <= '9')
            return true;
    }
    return false;
}

/* The words of a command and its arguments, one a line, into a buffer. */
static void take_words(void *user, const struct jf_node *container, bool starts_first)
{
    static const char *const lists[] = {"command", "args"};
    struct tw_buf *b = user;
    if (starts_first)
        return;
    for (size_t i = 0; i < 2; i++) {
        const struct jf_node *list = jf_get(container, lists[i]);
        for (size_t j = 0; j < jf_count(list); j++)
            tw_buf_printf(b, "%s\n", jf_text(list->item[j]));
    }
    tw_buf_puts(b, jf_text(jf_get(container, "source"))); /* of Argo's scripts */
}

static void judge_seed(const struct jf_unit *u, const struct jf_place *p)
{
    static const char fix[] = "env: [{name: PYTHONHASHSEED, value: \"0\"}, {name: SEED, value: "
                              "\"7\"}], and a program that reads SEED; or --seed 7 in args";
    const struct variable hash = variable_of(u, is_hash_seed), seed = variable_of(u, is_seed);
    struct tw_buf words = {0};
    tw_buf_puts(&words, "");
    jf_each_container(u, take_words, &words);
    const bool in_words = !words.failed && jf_names_seed(words.data);
    const bool in_variable = seed.value && jf_is_number(jf_text(seed.value));
    const bool hash_fixed = hash.value && jf_is_number(jf_text(hash.value));
    const bool open = seed.all_of_other || seed.from_other || seed.from_field || hash.from_other ||
                      u->elsewhere || (seed.value && jf_is_template(jf_text(seed.value)));
    p->out->failed |= words.failed != 0;
    if ((in_words || in_variable) && hash_fixed)
        jf_holds(p, TW_RULE_SEED, "PYTHONHASHSEED=%s, and %s", jf_text(hash.value),
                 in_variable ? seed.name : "a seed in the command");
    else if (hash.value && !hash_fixed && !jf_is_template(jf_text(hash.value)))
        jf_say(p, TW_RULE_SEED, TW_RULE_BROKEN,
               tw_printf("PYTHONHASHSEED=%s is drawn anew in each process", jf_text(hash.value)),
               fix);
    else if (open)
        jf_say(p, TW_RULE_SEED, TW_RULE_NOT_KNOWN,
               tw_printf("seeds may come from an object that is not in the file"), fix);
    else
        jf_say(p, TW_RULE_SEED, TW_RULE_BROKEN,
               tw_printf(in_words || in_variable
                             ? "PYTHONHASHSEED is not set: the order of Python's sets is drawn "
                               "anew in each process"
                             : "no seed: neither a variable that ends in SEED nor one in the "
                               "command"),
               fix);
    tw_buf_free(&words);
}

static void judge_run_id(const struct jf_unit *u, const struct jf_place *p)
{
    static const char fix[] = "env: [{name: RUN_ID, value: NAME}], or the label "
                              "app.kubernetes.io/instance: NAME";
    const struct variable v = variable_of(u, is_run_id);
    for (size_t i = 0; i < 2; i++) {
        const char *label = jf_text(JF_AT(u->meta[i], "labels", "app.kubernetes.io/instance"));
        if (*label) {
            jf_holds(p, TW_RULE_RUN_ID, "label app.kubernetes.io/instance: %s", label);
            return;
        }
    }
    if ((v.value && *jf_text(v.value)) || v.from_field)
        jf_holds(p, TW_RULE_RUN_ID, "%s", v.name);
    else if (v.from_other || v.all_of_other || u->elsewhere)
        jf_say(p, TW_RULE_RUN_ID, TW_RULE_NOT_KNOWN,
               tw_printf("a name may come from an object that is not in the file"), fix);
    else
        jf_say(p, TW_RULE_RUN_ID, TW_RULE_BROKEN,
               tw_printf("no variable RUN_ID, and no label app.kubernetes.io/instance"), fix);
}

static void judge_threads(const struct jf_unit *u, const struct jf_place *p)
{
    static const char fix[] = "env: [{name: OMP_NUM_THREADS, value: \"8\"}]";
    const struct variable v = variable_of(u, is_threads);
    const char *text = jf_text(v.value);
    if (jf_is_number(text) && strcmp(text, "0") != 0)
        jf_holds(p, TW_RULE_THREADS, "OMP_NUM_THREADS=%s", text);
    else if (v.from_other || v.from_field || v.all_of_other || u->elsewhere || jf_is_template(text))
        jf_say(p, TW_RULE_THREADS, TW_RULE_NOT_KNOWN,
               tw_printf("OMP_NUM_THREADS may come from an object that is not in the file"), fix);
    else
        jf_say(p, TW_RULE_THREADS, TW_RULE_BROKEN,
               v.value ? tw_printf("OMP_NUM_THREADS: expected a number above 0, found \"%s\"", text)
                       : tw_printf("OMP_NUM_THREADS is not set"),
               fix);
}

/* ---- data */

/* What the mounts of a unit's containers come to. */
struct mounts {
    const struct jf_unit *u;
    const struct jf_node *read_only, *writable, *local;
};

static const struct jf_node *volume_of(const struct jf_unit *u, const char *name)
{
    for (size_t i = 0; i < u->specs; i++) {
        const struct jf_node *all = jf_get(u->spec[i], "volumes");
        for (size_t j = 0; j < jf_count(all); j++)
            if (strcmp(jf_text(jf_get(all->item[j], "name")), name) == 0)
                return all->item[j];
    }
    return NULL;
}

/* true as YAML 1.2 has it, which clusters read */
static bool is_true(const struct jf_node *n)
{
    return n && n->is_plain && strcasecmp(jf_text(n), "true") == 0;
}

static void take_mount(struct mounts *m, const struct jf_node *mount)
{
    static const char *const kinds[] = {"persistentVolumeClaim",
                                        "nfs",
                                        "csi",
                                        "cephfs",
                                        "iscsi",
                                        "azureFile",
                                        "glusterfs",
                                        "rbd",
                                        NULL};
    const struct jf_node *volume = volume_of(m->u, jf_text(jf_get(mount, "name")));
    bool read_only = is_true(jf_get(mount, "readOnly")), holds_data = false;
    if (jf_get(volume, "hostPath"))
        m->local = mount;
    for (size_t i = 0; kinds[i]; i++) {
        const struct jf_node *source = jf_get(volume, kinds[i]);
        holds_data |= source != NULL;
        read_only |= is_true(jf_get(source, "readOnly"));
    }
    if (jf_get(volume, "image")) /* an image as a volume: nobody can write to it */
        holds_data = read_only = true;
    if (holds_data && read_only)
        m->read_only = mount;
    else if (holds_data)
        m->writable = mount;
}

static void take_mounts(void *user, const struct jf_node *container, bool starts_first)
{
    const struct jf_node *all = jf_get(container, "volumeMounts");
    for (size_t i = 0; !starts_first && i < jf_count(all); i++)
        take_mount(user, all->item[i]);
}

static void judge_data(const struct jf_unit *u, const struct jf_place *p)
{
    static const char fix[] = "volumeMounts: [{name: data, mountPath: /data, readOnly: true}] of "
                              "a volume that holds a snapshot";
    struct mounts m = {.u = u};
    jf_each_container(u, take_mounts, &m);
    struct jf_place at = *p;
    if (m.read_only) {
        at.line = m.read_only->line;
        jf_holds(&at, TW_RULE_SNAPSHOT, "%s is mounted read-only",
                 jf_text(jf_get(m.read_only, "mountPath")));
    } else if (m.writable) {
        at.line = m.writable->line;
        jf_say(&at, TW_RULE_SNAPSHOT, TW_RULE_BROKEN,
               tw_printf("%s is mounted so that the job can write to it",
                         jf_text(jf_get(m.writable, "mountPath"))),
               fix);
    } else if (m.local) {
        at.line = m.local->line;
        jf_say(&at, TW_RULE_SNAPSHOT, TW_RULE_NOT_KNOWN,
               tw_printf("%s is a folder of the node (hostPath): each node has its own",
                         jf_text(jf_get(m.local, "mountPath"))),
               fix);
    } else if (u->elsewhere) {
        jf_say(&at, TW_RULE_SNAPSHOT, TW_RULE_NOT_KNOWN,
               tw_printf("the runtime %s may mount data, and is not in the file", u->elsewhere),
               fix);
    } else {
        jf_say(&at, TW_RULE_SNAPSHOT, TW_RULE_BROKEN,
               tw_printf("no volume with data is mounted: where they come from is not in the file"),
               fix);
    }
}

/* ---- what happens after a failure */

/* False: said that a pod starts again in its place. value: NULL, the kind's own default is Never.
 */
static bool restarts_never(const struct jf_unit *u, const struct jf_place *p, bool may_lack)
{
    for (size_t i = 0; i < u->specs; i++) {
        const struct jf_node *value = jf_get(u->spec[i], "restartPolicy");
        if (!value)
            continue;
        if (strcmp(jf_text(value), "Never") == 0)
            return true;
        const struct jf_place at = {p->out, value->line, p->where};
        jf_say(&at, TW_RULE_RETRY, TW_RULE_BROKEN,
               tw_printf("restartPolicy %s starts a failed program again in its pod, without a "
                         "record",
                         jf_text(value)),
               "restartPolicy: Never");
        return false;
    }
    if (may_lack)
        return true;
    jf_say(p, TW_RULE_RETRY, TW_RULE_BROKEN, tw_printf("no restartPolicy: a pod's own is Always"),
           "restartPolicy: Never");
    return false;
}

static void judge_job_retry(const struct jf_unit *u, const struct jf_place *p)
{
    const struct jf_node *limit = jf_get(u->policy, "backoffLimitPerIndex");
    const char *name = "backoffLimitPerIndex";
    if (!limit) {
        limit = jf_get(u->policy, "backoffLimit");
        name = "backoffLimit";
    }
    if (!restarts_never(u, p, false))
        return;
    if (jf_is_number(jf_text(limit))) {
        const struct jf_node *whole = jf_get(u->set, "failurePolicy");
        jf_holds(p, TW_RULE_RETRY, "%s: %s, restartPolicy: Never%s%s", name, jf_text(limit),
                 whole ? ", maxRestarts: " : "",
                 whole ? jf_text(jf_get(whole, "maxRestarts")) : "");
    } else {
        jf_say(p, TW_RULE_RETRY, TW_RULE_BROKEN,
               tw_printf("no backoffLimit: a Job repeats a failed pod 6 times"),
               "backoffLimit: 0 (or a number of repeats that you want), for an Indexed Job "
               "backoffLimitPerIndex");
    }
}

static void judge_argo_retry(const struct jf_unit *u, const struct jf_place *p)
{
    static const char fix[] = "retryStrategy: {limit: 0, retryPolicy: OnFailure}, or the number "
                              "of repeats that you want";
    const struct jf_node *strategy = NULL, *limit;
    for (size_t i = 0; !strategy && i < u->specs; i++)
        strategy = jf_get(u->spec[i], "retryStrategy");
    limit = jf_get(strategy, "limit");
    if (!strategy)
        jf_say(p, TW_RULE_RETRY, TW_RULE_NOT_KNOWN,
               tw_printf("no retryStrategy: the defaults of the workflow controller decide"), fix);
    else if (jf_is_number(jf_text(limit)))
        jf_holds(p, TW_RULE_RETRY, "retryStrategy: limit %s", jf_text(limit));
    else
        jf_say(p, TW_RULE_RETRY, jf_given(limit) ? TW_RULE_NOT_KNOWN : TW_RULE_BROKEN,
               jf_given(limit) ? tw_printf("the limit of retryStrategy is filled in later")
                               : tw_printf("a retryStrategy without a limit repeats for ever"),
               fix);
}

static void judge_retry(const struct jf_unit *u, const struct jf_place *p)
{
    switch (u->retry) {
    case JF_RETRY_JOB:
    case JF_RETRY_SET: judge_job_retry(u, p); return;
    case JF_RETRY_ARGO: judge_argo_retry(u, p); return;
    case JF_RETRY_POD:
        if (restarts_never(u, p, false))
            jf_holds(p, TW_RULE_RETRY, "restartPolicy: Never");
        return;
    case JF_RETRY_ELSEWHERE: break;
    }
    jf_say(p, TW_RULE_RETRY, TW_RULE_NOT_KNOWN,
           u->elsewhere ? tw_printf("the runtime %s decides, and is not in the file", u->elsewhere)
                        : tw_printf("what this kind does after a failure is not known here"),
           u->elsewhere ? "put the runtime into the same file"
                        : "look it up in the manual of its controller");
}

void jf_judge_unit(struct jf_lint *l, const struct jf_unit *u, const char *where)
{
    const struct jf_place p = {l->out, u->line, where};
    const char *gpu = NULL;
    jf_each_container(u, find_gpu, &gpu);
    judge_images(u, &p, l->asked);
    jf_judge_nodes(l, u, &p, gpu);
    judge_data(u, &p);
    judge_seed(u, &p);
    judge_run_id(u, &p);
    judge_retry(u, &p);
    judge_threads(u, &p);
}
