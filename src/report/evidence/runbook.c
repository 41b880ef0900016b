/* SPDX-License-Identifier: Apache-2.0 */
/* Which runbook (docs/runbooks/) fits an incident, and by what that is known. A page to read, and
 * no cause: what is said here rests on a cause that an experiment showed, on another version of
 * something, or on the layer in which the runs first differ. */
#include "runbook.h"

#include "base.h"

#include <string.h>

struct row {
    const char *begins, *page;
};

/* Factors of isolate, by how their names begin; the rest have no page. */
static const struct row by_factor[] = {
    {"hash-seed", "data-order"},
    {"dir-order", "data-order"},
    {"loader-workers", "data-order"},
    {"executor-order", "data-order"},
    {"tensor-hash", "data-order"},
    {"seed.", "seed"},
    {"entropy", "seed"},
    {"clock", "seed"},
    {"tf32", "precision"},
    {"torch-deterministic", "operator"},
    {"tensorflow-deterministic", "operator"},
    {"onednn", "operator"},
    {"jax-cache", "operator"},
    {"cudnn-", "operator"},
    {"cublas-", "operator"},
    {"autotune", "operator"},
    {"malloc-fill", "operator"},
    {"threads", "race"},
    {"affinity", "race"},
    {"match-order", "race"},
    {"collective-algorithm", "race"},
    {"ddp-buckets", "race"},
    {"restore.", "checkpoint"},
    {"version:", "library"},
    {"isa", "library"},
    {"node", "library"},
    {"device", "library"},
};

/* Layers of a first difference (src/compare/compare.h). */
static const struct row by_layer[] = {
    {"data", "data-order"},       {"rng", "seed"},          {"init", "seed"},
    {"forward", "operator"},      {"backward", "operator"}, {"collective", "race"},
    {"checkpoint", "checkpoint"},
};

static const char *page_of(const struct row *rows, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (tw_starts(name, rows[i].begins))
            return rows[i].page;
    return NULL;
}

struct twin_runbook twin_runbook_of(const char *cause, const struct twin_incident *x)
{
    const char *page = NULL;
    if (cause) {
        page = page_of(by_factor, sizeof by_factor / sizeof *by_factor, cause);
        return (struct twin_runbook){page, page ? "by the cause that was shown" : NULL};
    }
    for (size_t i = 0; x->world_known && i < x->world_count; i++)
        if (strcmp(x->world[i].power, "high") == 0 && (strcmp(x->world[i].group, "packages") == 0 ||
                                                       strcmp(x->world[i].group, "libraries") == 0))
            return (struct twin_runbook){"library", "since a library is another version"};
    const struct twin_finding *first = x->verdict->first;
    if (first && first->layer)
        page = page_of(by_layer, sizeof by_layer / sizeof *by_layer, first->layer);
    return (struct twin_runbook){page, page ? "by where the runs first differ" : NULL};
}
