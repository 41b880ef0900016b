/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_DIAGNOSIS_H
#define TWIN_DIAGNOSIS_H
/*
 * Two sets of runs that differ: from what source, in their numbers, their speed, or both, and which
 * practice addresses it. Reasons from recorded evidence only: the first divergence, the worlds,
 * step times and counters. Room: src/report. Rules: docs/internals/telemetry.md.
 */
#include "src/compare/compare.h"
#include "src/report/incident.h"
#include "src/stats/significant.h"
#include "src/telemetry/telemetry.h"

/* How the world of a run differs from that of the first one. */
struct twin_world_view {
    bool known;
    const struct twin_incident_world *item;
    size_t count;
};

struct twin_diagnosis_facts {
    const struct twin_verdict *verdict;    /* over all runs, those of set A first */
    size_t a, b;                           /* runs in each set */
    const struct twin_world_view *world;   /* a + b of them; the first one is empty */
    const struct twin_significance *speed; /* times of B over times of A; NULL: not measured */
    /* a typical run of the slower set against one of the faster; NULL: no telemetry */
    const struct twin_dip *between;
};

enum twin_source {
    TWIN_SOURCE_UNKNOWN,
    TWIN_SOURCE_REDUCTION_ORDER,
    TWIN_SOURCE_RANDOMNESS,
    TWIN_SOURCE_WORLD,
    TWIN_SOURCE_HETEROGENEITY,
    TWIN_SOURCE_SCALING,
    TWIN_SOURCE_TELEMETRY /* the cause of `between` says which */
};
struct twin_diagnosis_finding {
    bool numeric, speed; /* what it explains; both: "both" */
    enum twin_source source;
    const char *name, *practice; /* "reduction-order", ...; static */
    char *evidence;              /* one line */
};
struct twin_diagnosis {
    struct twin_diagnosis_finding finding[2];
    size_t count;
};

/* TWIN_ENOMEM. */
int twin_diagnose(const struct twin_diagnosis_facts *f, struct twin_diagnosis *out,
                  struct twin_error *err);
void twin_diagnosis_free(struct twin_diagnosis *d);

#endif
