/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SLO_INSIDE_H
#define TW_SLO_INSIDE_H
/* What the files of this room share: the history as it is loaded, and the events made of it. */
#include "slo.h"

#include <string.h>

/* ---- memory of a history (texts.c): all of it is freed at once */

/* texts: each different one once, in a table that is found by hash; and whatever else is small and
 * lives as long. Zeroed: empty. */
struct slo_store {
    struct slo_block *block; /* the newest first */
    struct slo_slot *slot;
    size_t slots, texts;
};
/* n bytes, aligned for anything, zeroed. NULL: no memory. */
void *slo_store_bytes(struct slo_store *s, size_t n);
/* A copy of at most `most` bytes of a text, NULL being "". shared: two equal texts are one, so that
 * they are equal where their addresses are. All texts of a history but ids are shared. */
const char *slo_store_text(struct slo_store *s, const char *text, size_t most, bool shared);
void slo_store_free(struct slo_store *s);
/* strcmp, which texts of one history mostly do not need. */
static inline int slo_text_order(const char *a, const char *b)
{
    return a == b ? 0 : strcmp(a, b);
}

/* ---- names (names.c): of projects, families, contributors */

/* Each text once, sorted. Borrowed. Zeroed: none. */
struct slo_names {
    const char **name;
    size_t count;
    struct slo_name_slot *slot; /* by the address of a text */
    size_t slots, texts;
};
/* Adds a text, any number of times; then, once, all get their places. False: no memory. */
bool slo_names_add(struct slo_names *n, const char *text);
bool slo_names_settle(struct slo_names *n);
/* Its place in name; count: it is none of them. */
size_t slo_names_place(const struct slo_names *n, const char *text);
void slo_names_free(struct slo_names *n);

/* What of 0 to n-1 belongs to each key, in that order: item[first[k]] to item[first[k + 1] - 1]. */
struct slo_lists {
    size_t *first, *item;
};
/* key: of each of the n; one that is not below keys is on no list. slo_lists_free in any case. */
int slo_lists_make(struct slo_lists *l, size_t keys, const size_t *key, size_t n);
void slo_lists_free(struct slo_lists *l);

/* A run as the ledger has it. recorded: false of one that is only named in a comparison, of which
 * nothing but the id is there (of another home, or older than what was loaded). known: it has
 * facts; one of an older twinrun has none. Texts are the history's. */
struct slo_run {
    const char *id, *command, *host, *home, *state;
    const char *project, *family, *contributor, *sweep, *inputs;
    int64_t start_ns, snapshots, deterministic, nondeterministic, version;
    double wall_s, loss;
    uint64_t steps, records;
    bool recorded, known, ci;
};

/* runs: indices into the history's runs, the reference first. */
struct slo_comparison {
    const char *id, *verb, *command, *outcome, *first, *cause, *layer;
    int64_t time_ns;
    bool repeats;
    struct twin_ledger_checkpoints checkpoints;
    uint32_t *run;
    enum twin_ledger_agreed *agreed;
    size_t count;
};

struct slo_happened {
    const char *id, *kind, *outcome, *subject, *project, *family, *contributor, *run;
    int64_t time_ns;
};

/* All sorted: runs by id, comparisons and what happened by time and id, the oldest first. */
struct tw_slo_history {
    struct slo_store store;
    struct slo_run *run;
    size_t runs, run_room;
    struct slo_comparison *comparison;
    size_t comparisons, comparison_room;
    size_t *isolated, isolations; /* the comparisons in which isolate named a cause */
    struct slo_happened *happened;
    size_t happenings, happened_room;
};

/* ---- putting records into a history (adding.c) */

/* What is on its way into a history, in any order. Zeroed: nothing. A run of a comparison that the
 * history lacks has the index h->runs + its place here. */
struct slo_adding {
    struct slo_run *run;
    size_t runs, run_room;
    struct slo_comparison *comparison;
    size_t comparisons, comparison_room;
    struct slo_happened *happened;
    size_t happenings, happened_room;
};
struct slo_run *slo_find_run(const struct tw_slo_history *h, const char *id);
bool slo_has_comparison(const struct tw_slo_history *h, int64_t time_ns, const char *id);
bool slo_has_happened(const struct tw_slo_history *h, int64_t time_ns, const char *id);
/* Of two versions of a run the later one stays, and either instead of one that is only named. */
int slo_add_run(struct tw_slo_history *h, struct slo_adding *a, const struct twin_ledger_run *r,
                const struct twin_ledger_facts *f);
int slo_add_comparison(struct tw_slo_history *h, struct slo_adding *a,
                       const struct twin_ledger_comparison *c);
int slo_add_happened(struct tw_slo_history *h, struct slo_adding *a,
                     const struct twin_ledger_event *e);
/* Gives a run of h its facts. */
int slo_set_facts(struct tw_slo_history *h, struct slo_run *r, const struct twin_ledger_facts *f);
/* Puts all in its place, and empties a. A record that h has already must not be in it, but for
 * runs. After TWIN_ENOMEM h is only good to be freed. */
int slo_settle(struct tw_slo_history *h, struct slo_adding *a);
/* Remembers which comparisons name causes: each bad event asks for them. */
int slo_index_isolations(struct tw_slo_history *h);
void slo_adding_free(struct slo_adding *a);

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
/* Makes the events of a history, in no order of time; of one time in that of the history. */
int slo_events_make(const struct tw_slo_history *h, struct slo_events *out, struct twin_error *err);

/* ---- groups: M3, M7 and rankings, from values of runs that belong together */

/* The places of all runs, those of one job (command, inputs) together, and of a job those of one
 * machine that recorded as much; order: room for h->runs. TWIN_ENOMEM. */
int slo_jobs_order(const struct tw_slo_history *h, size_t *order);

/* What is asked of groups: of the runs in the window that belong to a scope. */
struct slo_question {
    const struct slo_run *const *run; /* those of the scope, in the order of jobs */
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
