/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A first look at two runs of many ranks, for who waits for their verdict: of each rank, which step
 * is the first whose digest differs, by binary search in the digests that the traces state. That
 * takes a few reads a trace, where a verdict reads and verifies all of it. It is no verdict:
 * nothing was verified, no rule was applied, and a rank with several processes is passed over.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* One trace of either run, or what is left of it. */
struct glanced {
    const char *path;
    int32_t rank;
    bool main; /* it has steps, and is the trace of the rank itself */
    bool differs;
    uint32_t step;
    struct glanced *other;    /* of the second run; NULL: none, or more than one */
    struct twin_trace *trace; /* at rest, so that there may be thousands; NULL: not opened */
};

static void look_at(void *user, size_t i)
{
    struct glanced *x = &((struct glanced *)user)[i];
    if (twin_trace_open(x->path, &x->trace, NULL) != 0)
        return;
    const struct twin_trace_info *info = twin_trace_info(x->trace);
    x->rank = info->rank;
    x->main = info->steps > 0 && (!*info->role || strcmp(info->role, "main") == 0);
    twin_trace_rest(x->trace);
}

static void compare_with_other(void *user, size_t i)
{
    struct glanced *x = &((struct glanced *)user)[i];
    uint64_t compared;
    bool found = false;
    if (!x->other)
        return;
    if (twin_trace_first_difference(x->trace, x->other->trace, 0, 0, UINT32_MAX, &found, &x->step,
                                    &compared, NULL) == 0)
        x->differs = found;
    twin_trace_rest(x->trace);
    twin_trace_rest(x->other->trace);
}

static int by_rank(const void *a, const void *b)
{
    const struct glanced *x = a, *y = b;
    if (x->main != y->main)
        return x->main ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* The ranks that have one trace with steps, in order; the others stand behind *n. */
static struct glanced *glance_at(const struct twin_run *run, size_t *n)
{
    struct glanced *list = tw_calloc(run->trace_count + 1, sizeof *list);
    *n = 0;
    if (!list)
        return NULL;
    for (size_t i = 0; i < run->trace_count; i++)
        list[i].path = run->traces[i];
    tw_by_processors(run->trace_count, look_at, list);
    qsort(list, run->trace_count, sizeof *list, by_rank);
    while (*n < run->trace_count && list[*n].main)
        ++*n;
    return list;
}

static void glanced_free(struct glanced *list, size_t n)
{
    for (size_t i = 0; list && i < n; i++)
        twin_trace_close(list[i].trace);
    tw_free(list);
}

static bool is_alone(const struct glanced *list, size_t n, size_t i)
{
    return (i == 0 || list[i - 1].rank != list[i].rank) &&
           (i + 1 == n || list[i + 1].rank != list[i].rank);
}

bool twin_compare_glance(const struct twin_run *a, const struct twin_run *b,
                         struct twin_glance *out)
{
    size_t n, m, k = 0;
    *out = (struct twin_glance){.ranks = 0};
    struct glanced *mine = glance_at(a, &n), *theirs = glance_at(b, &m);
    for (size_t i = 0; mine && theirs && i < n; i++) {
        while (k < m && theirs[k].rank < mine[i].rank)
            k++;
        if (k < m && theirs[k].rank == mine[i].rank && is_alone(mine, n, i) &&
            is_alone(theirs, m, k))
            mine[i].other = &theirs[k];
    }
    if (mine && theirs)
        tw_by_processors(n, compare_with_other, mine);
    for (size_t i = 0; mine && theirs && i < n; i++) {
        out->ranks += mine[i].other != NULL;
        out->differing += mine[i].differs;
        if (mine[i].differs && (out->differing == 1 || mine[i].step < out->step)) {
            out->rank = mine[i].rank;
            out->step = mine[i].step;
        }
    }
    glanced_free(mine, a->trace_count);
    glanced_free(theirs, b->trace_count);
    return out->ranks > 0;
}

uint64_t twin_compare_bytes(const struct twin_run *const *runs, size_t n)
{
    uint64_t sum = 0;
    struct stat st;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < runs[i]->trace_count; k++)
            sum += stat(runs[i]->traces[k], &st) == 0 ? (uint64_t)st.st_size : 0;
    return sum;
}
