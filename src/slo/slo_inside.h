/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SLO_INSIDE_H
#define TW_SLO_INSIDE_H
/* What the files of this room share: the history as it is loaded, and the events made of it. */
#include "slo.h"

/* A run as the ledger has it. known: it has facts; a run of another home or of an older twinrun has
 * none, and of a run that is only named in a comparison nothing but the id is there. */
struct slo_run {
    char *id, *command, *host, *state, *project, *family, *contributor, *sweep, *inputs;
    int64_t start_ns, snapshots, deterministic, nondeterministic;
    double wall_s, loss;
    uint64_t steps, records;
    bool recorded, known, ci;
};

/* runs: indices into the history's runs, the reference first. */
struct slo_comparison {
    char *verb, *command, *outcome, *cause, *layer;
    int64_t time_ns;
    bool repeats;
    struct twin_ledger_checkpoints checkpoints;
    char **id; /* while loading */
    size_t *run;
    enum twin_ledger_agreed *agreed;
    size_t count;
};

struct slo_happened {
    char *kind, *outcome, *subject, *project, *family, *contributor, *run;
    int64_t time_ns;
};

/* All sorted: runs by id, comparisons and what happened by time, the oldest first. */
struct tw_slo_history {
    struct slo_run *run;
    size_t runs, run_room;
    struct slo_comparison *comparison;
    size_t comparisons, comparison_room;
    size_t *isolated, isolations; /* the comparisons in which isolate named a cause */
    struct slo_happened *happened;
    size_t happenings, happened_room;
};

/* ---- events: one list for all indicators that count */

enum slo_outcome { SLO_GOOD, SLO_BAD, SLO_OPEN };
struct slo_event {
    enum tw_slo_id id;
    enum slo_outcome outcome;
    int64_t time_ns;
    uint64_t count;
    double value; /* reproduce: seconds */
    const char *project, *family, *contributor, *run, *cause;
};
struct slo_events {
    struct slo_event *item;
    size_t count, room;
};
/* Two runs of the same inputs? Where those of one are not known, yes. */
bool slo_same_inputs(const struct slo_run *a, const struct slo_run *b);
/* Makes the events of a history, in the order of time for each indicator. */
int slo_events_make(const struct tw_slo_history *h, struct slo_events *out, struct twin_error *err);

/* ---- groups: M3, M7 and rankings, from values of runs that belong together */

/* What is asked of groups: of the runs in the window that belong to a scope. */
struct slo_question {
    const struct slo_run *const *run; /* those of the scope */
    size_t count;
    int64_t from_ns, until_ns;
    double limit;   /* M3 */
    uint64_t least; /* runs of a group */
};
/* Fills value, interval, runs, good (groups that can be judged), subject of a row with the worst
 * group. */
int slo_group_variance(const struct slo_question *q, struct tw_slo_row *row,
                       struct twin_error *err);
int slo_group_run_time(const struct slo_question *q, struct tw_slo_row *row,
                       struct twin_error *err);
int slo_ranking(const struct slo_question *q, struct tw_slo_row *row, struct twin_error *err);

/* ---- judging (judge.c) */

/* Fills interval, state, needed, budget, left, why of a share whose counts, value, target and
 * at_least are there. least: events below which nothing is kept. */
void slo_judge_share(struct tw_slo_row *row, uint64_t least);
/* The same of a value with an interval of which the upper end must not exceed the target. */
void slo_judge_bound(struct tw_slo_row *row, uint64_t least, const char *what);

#endif
