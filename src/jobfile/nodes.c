/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On which nodes a pod may be, and what they have in common: node selectors and required node
 * affinities.
 *
 * That nodes are of one type is known of labels that are made from the type. Any other label may
 * stand on machines of several types: then it is not known, unless who asks says so (pool_labels).
 */
#include "pods.h"

#include <string.h>

/* A condition on labels: one value, or several of which any will do. */
struct condition {
    const char *label, *value;
    size_t values, line;
    bool alternative; /* one of several terms, of which any will do */
};
enum { CONDITIONS = 128 };
struct conditions {
    struct condition item[CONDITIONS];
    size_t count;
    const char *node; /* nodeName */
};

static void add_condition(struct conditions *c, struct condition x)
{
    if (c->count < CONDITIONS)
        c->item[c->count++] = x;
}

static void take_affinity(struct conditions *c, const struct jf_node *spec)
{
    const struct jf_node *terms = JF_AT(spec, "affinity", "nodeAffinity",
                                        "requiredDuringSchedulingIgnoredDuringExecution",
                                        "nodeSelectorTerms");
    for (size_t i = 0; i < jf_count(terms); i++) {
        const struct jf_node *all = jf_get(terms->item[i], "matchExpressions");
        for (size_t j = 0; j < jf_count(all); j++) {
            const struct jf_node *one = all->item[j], *values = jf_get(one, "values");
            if (strcmp(jf_text(jf_get(one, "operator")), "In") != 0 || jf_count(values) == 0)
                continue; /* what a node is not leaves open what it is */
            add_condition(c,
                          (struct condition){jf_text(jf_get(one, "key")), jf_text(values->item[0]),
                                             values->count, one->line, terms->count > 1});
        }
    }
}

static void take_conditions(struct conditions *c, const struct jf_unit *u)
{
    for (size_t i = 0; i < u->specs; i++) {
        const struct jf_node *selector = jf_get(u->spec[i], "nodeSelector");
        const char *node = jf_text(jf_get(u->spec[i], "nodeName"));
        if (*node)
            c->node = node;
        for (size_t j = 0; selector && selector->kind == JF_MAP && j < selector->count; j++)
            add_condition(c,
                          (struct condition){jf_text(selector->key[j]), jf_text(selector->item[j]),
                                             1, selector->key[j]->line, false});
        take_affinity(c, u->spec[i]);
    }
}

/* Labels that a cluster makes from the type of the machine, or that one machine has. */
static const char *const type_labels[] = {
    "node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type",
    "nvidia.com/gpu.product",           "amd.com/gpu.product-name",
    "cloud.google.com/gke-nodepool",    "cloud.google.com/gke-accelerator",
    "eks.amazonaws.com/nodegroup",      "kubernetes.azure.com/agentpool",
    "kubernetes.io/hostname",           NULL};
/* Labels that say nothing of the type, though they leave nodes out. */
static const char *const other_labels[] = {"kubernetes.io/arch",
                                           "kubernetes.io/os",
                                           "beta.kubernetes.io/arch",
                                           "beta.kubernetes.io/os",
                                           "topology.kubernetes.io/zone",
                                           "topology.kubernetes.io/region",
                                           "failure-domain.beta.kubernetes.io/zone",
                                           NULL};

static bool is_one_of(const char *label, const char *const *list)
{
    for (; list && *list; list++)
        if (strcmp(label, *list) == 0)
            return true;
    return false;
}

static const char pool_fix[] =
    "nodeSelector: {node.kubernetes.io/instance-type: TYPE}, or a label of yours that only nodes "
    "of one type have, with lint --pool-label LABEL";

/* Is there a label that stands for one type, with one value? */
static void judge_pool(struct jf_lint *l, const struct conditions *c, const struct jf_unit *u,
                       const struct jf_place *p)
{
    const struct condition *open = NULL, *several = NULL;
    if (c->node) {
        jf_holds(p, TW_RULE_POOL, "nodeName %s is one node", c->node);
        return;
    }
    for (size_t i = 0; i < c->count; i++) {
        const struct condition *x = &c->item[i];
        const struct jf_place at = {p->out, x->line, p->where};
        const bool names_type = is_one_of(x->label, type_labels) ||
                                is_one_of(x->label, l->asked->pool_labels);
        if (names_type && !x->alternative && x->values == 1 && *x->value &&
            !jf_is_template(x->value)) {
            jf_holds(&at, TW_RULE_POOL, "%s=%s", x->label, x->value);
            return;
        }
        if (names_type && (x->alternative || x->values > 1))
            several = x;
        else if (!is_one_of(x->label, other_labels) && !tw_starts(x->label, "nvidia.com/cuda."))
            open = x;
    }
    struct jf_place at = *p;
    if (several) {
        at.line = several->line;
        jf_say(&at, TW_RULE_POOL, TW_RULE_BROKEN,
               tw_printf("%s may have several values: nodes of several types can take it",
                         several->label),
               pool_fix);
    } else if (open) {
        at.line = open->line;
        jf_say(&at, TW_RULE_POOL, TW_RULE_NOT_KNOWN,
               tw_printf("whether nodes with %s=%s are of one type is not in the file", open->label,
                         open->value),
               pool_fix);
    } else if (u->elsewhere) {
        jf_say(&at, TW_RULE_POOL, TW_RULE_NOT_KNOWN,
               tw_printf("the runtime %s may choose nodes, and is not in the file", u->elsewhere),
               "put the runtime into the same file, or the selector into runtimePatches");
    } else {
        jf_say(&at, TW_RULE_POOL, TW_RULE_BROKEN,
               tw_printf(c->count ? "its selectors leave the type of machine open"
                                  : "no node selector: nodes of any type can take it"),
               pool_fix);
    }
}

/* The value that is asked of a label; NULL: none, or several will do. */
static const char *asked(const struct conditions *c, const char *label)
{
    for (size_t i = 0; i < c->count; i++) {
        const struct condition *x = &c->item[i];
        if (strcmp(x->label, label) == 0 && x->values == 1 && !x->alternative && *x->value &&
            !jf_is_template(x->value))
            return x->value;
    }
    return NULL;
}

/* gpu: the resource of which it asks for some. */
static void judge_driver(const struct conditions *c, const struct jf_unit *u,
                         const struct jf_place *p, const char *gpu)
{
    const char *full = asked(c, "nvidia.com/cuda.driver-version.full");
    const char *major = asked(c, "nvidia.com/cuda.driver.major");
    const char *minor = asked(c, "nvidia.com/cuda.driver.minor");
    const char *rev = asked(c, "nvidia.com/cuda.driver.rev");
    const char *amd = asked(c, "amd.com/gpu.driver-version");
    if (full || amd)
        jf_holds(p, TW_RULE_DRIVER, "nodes with driver %s", full ? full : amd);
    else if (major && minor && rev)
        jf_holds(p, TW_RULE_DRIVER, "nodes with driver %s.%s.%s", major, minor, rev);
    else if (u->elsewhere)
        jf_say(p, TW_RULE_DRIVER, TW_RULE_NOT_KNOWN,
               tw_printf("the runtime %s may choose nodes, and is not in the file", u->elsewhere),
               "put the runtime into the same file, or the selector into runtimePatches");
    else
        jf_say(p, TW_RULE_DRIVER, TW_RULE_BROKEN,
               tw_printf("it asks for %s, and nodes with any driver can take it", gpu),
               "nodeSelector: {nvidia.com/cuda.driver-version.full: \"550.54.15\"}, a label of "
               "NVIDIA's gpu-feature-discovery");
}

void jf_judge_nodes(struct jf_lint *l, const struct jf_unit *u, const struct jf_place *p,
                    const char *gpu)
{
    struct conditions c = {.count = 0};
    take_conditions(&c, u);
    judge_pool(l, &c, u, p);
    if (gpu)
        judge_driver(&c, u, p, gpu);
}
