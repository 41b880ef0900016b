/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorts N runs by where they split (twin_compare_tree()). The result is a tree: the usual class is
 * the trunk, and each other class leaves another one at a step.
 *
 * twin_compare() gives the classes of some runs, and for each at which step it diverges from the
 * usual one. Several classes that diverge there at the same step may diverge from each other later:
 * their runs are sorted among themselves in the same way, until every class stands at its place.
 */
#include "internal.h"

#include <assert.h>
#include <string.h>

/* What the functions here share. Runs are handed around as indices into `runs`. */
struct growing {
    const struct twin_run *const *runs;
    const struct twin_compare_options *options;
    struct twin_class_tree *tree;
    struct twin_error *err;
};

/*
 * Appends a branch with a copy of run[0 .. n). parent is a place in the tree, step where the branch
 * leaves it; -1 for the trunk. Returns 0 or TWIN_ENOMEM.
 */
static int add_branch(const struct growing *g, const size_t *run, size_t n, size_t parent,
                      int64_t step)
{
    assert(n > 0);
    struct twin_class_tree *t = g->tree;
    assert(step < 0 || parent < t->count);
    /* they leave the same class together, each its own way */
    while (step >= 0 && t->branch[parent].step == step)
        parent = t->branch[parent].parent;
    struct twin_branch *grown = tw_reallocarray(t->branch, t->count + 1, sizeof *grown);
    if (!grown)
        return tw_no_memory(g->err, "sorting runs");
    t->branch = grown;
    struct twin_branch *b = &t->branch[t->count];
    *b = (struct twin_branch){.runs = tw_reallocarray(NULL, n, sizeof *b->runs),
                              .members = n,
                              .parent = parent,
                              .step = step};
    if (!b->runs)
        return tw_no_memory(g->err, "sorting runs");
    memcpy(b->runs, run, n * sizeof *run);
    t->count++;
    return 0;
}

static int sort_among(const struct growing *g, const size_t *run, size_t n, size_t parent,
                      int64_t step);

/*
 * Places the classes of v that leave the usual one at the same step as class `at`, which is one of
 * them. A single class is a branch; several are sorted among themselves. placed: per class of v.
 * Returns 0 or an error.
 */
static int place_together(const struct growing *g, const struct twin_verdict *v, const size_t *run,
                          size_t at, size_t parent, bool *placed)
{
    assert(at < v->class_count && !placed[at]);
    int64_t step = v->classes[at].parts_at_step;
    size_t together = 0, classes = 0;
    size_t *members = tw_reallocarray(NULL, v->runs, sizeof *members);
    if (!members)
        return tw_no_memory(g->err, "sorting runs");
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

/*
 * Adds these n runs to the tree, as branches that leave `parent` at `step`. It ends, because the
 * usual class is taken out each time and so every inner call has fewer runs. Returns 0 or an error.
 */
static int sort_among(const struct growing *g, const size_t *run, size_t n, size_t parent,
                      int64_t step)
{
    assert(n > 0);
    struct twin_verdict *v = NULL;
    const struct twin_run **some = tw_reallocarray(NULL, n, sizeof *some);
    if (!some)
        return tw_no_memory(g->err, "sorting runs");
    for (size_t i = 0; i < n; i++)
        some[i] = g->runs[run[i]];
    int rc = twin_compare(some, n, g->options, &v, g->err);
    tw_free(some);
    if (rc != 0)
        return rc;
    bool *placed = tw_calloc(v->class_count, sizeof *placed);
    /* The usual class is added first and is the parent of those that follow. */
    size_t trunk = g->tree->count;
    if (!placed)
        rc = tw_no_memory(g->err, "sorting runs");
    for (size_t i = 0; rc == 0 && i < v->class_count; i++) {
        const struct twin_class *c = &v->classes[i];
        if (c->parts_at_step >= 0)
            continue;
        size_t *members = tw_reallocarray(NULL, c->members, sizeof *members);
        for (size_t k = 0; members && k < c->members; k++)
            members[k] = run[c->runs[k]];
        rc = members ? add_branch(g, members, c->members, parent, step)
                     : tw_no_memory(g->err, "sorting runs");
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

/* TWIN_EINVAL without a run; on an error *out is empty. */
int twin_compare_tree(const struct twin_run *const *runs, size_t n,
                      const struct twin_compare_options *o, struct twin_class_tree *out,
                      struct twin_error *err)
{
    struct growing g = {.runs = runs, .options = o, .tree = out, .err = err};
    *out = (struct twin_class_tree){0};
    size_t *all = n ? tw_reallocarray(NULL, n, sizeof *all) : NULL;
    if (!all)
        return n ? tw_no_memory(g.err, "sorting runs")
                 : twin_error_set(err, TWIN_EINVAL, "no run to sort");
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
