/* SPDX-License-Identifier: Apache-2.0 */
/* Where do N runs split? Runs that part from the usual class at the same step may part from each
 * other later: those are sorted among themselves, until every class stands at its place. */
#include "internal.h"

#include <string.h>

struct growing {
    const struct twin_run *const *runs;
    const struct twin_compare_options *options;
    struct twin_class_tree *tree;
    struct twin_error *err;
};

static int no_memory(const struct growing *g)
{
    return twin_error_set(g->err, TWIN_ENOMEM, "out of memory sorting runs");
}

static int add_branch(const struct growing *g, const size_t *run, size_t n, size_t parent,
                      int64_t step)
{
    struct twin_class_tree *t = g->tree;
    /* they leave the same class together, each its own way */
    while (step >= 0 && t->branch[parent].step == step)
        parent = t->branch[parent].parent;
    struct twin_branch *grown = tw_reallocarray(t->branch, t->count + 1, sizeof *grown);
    if (!grown)
        return no_memory(g);
    t->branch = grown;
    struct twin_branch *b = &t->branch[t->count];
    *b = (struct twin_branch){.runs = tw_reallocarray(NULL, n, sizeof *b->runs),
                              .members = n,
                              .parent = parent,
                              .step = step};
    if (!b->runs)
        return no_memory(g);
    memcpy(b->runs, run, n * sizeof *run);
    t->count++;
    return 0;
}

static int sort_among(const struct growing *g, const size_t *run, size_t n, size_t parent,
                      int64_t step);

/* The classes of v that leave the usual one at the same step as class `at`, which has not been
 * placed yet. */
static int place_together(const struct growing *g, const struct twin_verdict *v, const size_t *run,
                          size_t at, size_t parent, bool *placed)
{
    int64_t step = v->classes[at].parts_at_step;
    size_t together = 0, classes = 0;
    size_t *members = tw_reallocarray(NULL, v->runs, sizeof *members);
    if (!members)
        return no_memory(g);
    for (size_t i = at; i < v->class_count; i++) {
        const struct twin_class *c = &v->classes[i];
        if (placed[i] || c->parts_at_step != step)
            continue;
        placed[i] = true;
        classes++;
        for (size_t k = 0; k < c->members; k++)
            members[together++] = run[c->runs[k]];
    }
    int rc = classes == 1 ? add_branch(g, members, together, parent, step)
                          : sort_among(g, members, together, parent, step);
    tw_free(members);
    return rc;
}

/* Ends: the usual class is taken out each time, so every call below has fewer runs. */
static int sort_among(const struct growing *g, const size_t *run, size_t n, size_t parent,
                      int64_t step)
{
    struct twin_verdict *v = NULL;
    const struct twin_run **some = tw_reallocarray(NULL, n, sizeof *some);
    if (!some)
        return no_memory(g);
    for (size_t i = 0; i < n; i++)
        some[i] = g->runs[run[i]];
    int rc = twin_compare(some, n, g->options, &v, g->err);
    tw_free(some);
    if (rc != 0)
        return rc;
    bool *placed = tw_calloc(v->class_count, sizeof *placed);
    size_t trunk = g->tree->count;
    if (!placed)
        rc = no_memory(g);
    for (size_t i = 0; rc == 0 && i < v->class_count; i++) {
        const struct twin_class *c = &v->classes[i];
        if (c->parts_at_step >= 0)
            continue;
        size_t *members = tw_reallocarray(NULL, c->members, sizeof *members);
        for (size_t k = 0; members && k < c->members; k++)
            members[k] = run[c->runs[k]];
        rc = members ? add_branch(g, members, c->members, parent, step) : no_memory(g);
        tw_free(members);
        placed[i] = true;
    }
    for (size_t i = 0; rc == 0 && i < v->class_count; i++)
        if (!placed[i])
            rc = place_together(g, v, run, i, trunk, placed);
    tw_free(placed);
    twin_verdict_free(v);
    return rc;
}

int twin_compare_tree(const struct twin_run *const *runs, size_t n,
                      const struct twin_compare_options *o, struct twin_class_tree *out,
                      struct twin_error *err)
{
    struct growing g = {.runs = runs, .options = o, .tree = out, .err = err};
    *out = (struct twin_class_tree){0};
    size_t *all = n ? tw_reallocarray(NULL, n, sizeof *all) : NULL;
    if (!all)
        return n ? no_memory(&g) : twin_error_set(err, TWIN_EINVAL, "no run to sort");
    for (size_t i = 0; i < n; i++)
        all[i] = i;
    int rc = sort_among(&g, all, n, 0, -1);
    tw_free(all);
    if (rc != 0)
        twin_class_tree_free(out);
    return rc;
}

void twin_class_tree_free(struct twin_class_tree *t)
{
    for (size_t i = 0; i < t->count; i++)
        tw_free(t->branch[i].runs);
    tw_free(t->branch);
    *t = (struct twin_class_tree){0};
}
