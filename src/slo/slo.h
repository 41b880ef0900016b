/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SLO_H
#define TW_SLO_H
/*
 * Service levels of a fleet: how reproducible its runs are, from what the ledger says was compared.
 * Room: src/slo. Formulas and their traps: docs/slo.md.
 *
 * A row is an indicator of a scope (all runs, a project, a family of models, a contributor) with
 * its value, interval, number of events and what became of its target:
 *   broken     more bad events in the window than its budget allows, which is a fact of the window
 *   kept       shown: the target lies outside of the one-sided 95% bound, even if all that is not
 *              known were bad
 *   not known  neither: the row says what is missing. Few runs never count as kept
 *
 * All functions belong to one thread. Errors: TWIN_ENOMEM, and those of the ledger.
 */
#include "src/ledger/ledger.h"
#include "src/stats/stats.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

enum tw_slo_id {
    TW_SLO_RUNS,        /* M1 */
    TW_SLO_CHECKPOINTS, /* M2 */
    TW_SLO_VARIANCE,    /* M3 */
    TW_SLO_FLAKES,      /* M4 */
    TW_SLO_DATA,        /* M5 */
    TW_SLO_OPERATORS,   /* M6 */
    TW_SLO_RUN_TIME,    /* M7 */
    TW_SLO_ROLLBACKS,   /* M8 */
    TW_SLO_ARTIFACTS,   /* M9 */
    TW_SLO_BURN,        /* M10 */
    TW_SLO_REPRODUCE,   /* seconds until a repeated run had agreed */
    TW_SLO_PROVENANCE,  /* areas of audits that pass */
    TW_SLO_RANKING,     /* Kendall's tau of repeated sweeps */
    TW_SLO_IDS
};
/* "M1" ... "M10", "reproduce", "provenance", "ranking"; and what it is, in a few words */
const char *tw_slo_name(enum tw_slo_id id);
const char *tw_slo_words(enum tw_slo_id id);
/* TWIN_EINVAL */
int tw_slo_parse(const char *name, enum tw_slo_id *out);

enum tw_slo_state {
    TW_SLO_KEPT,
    TW_SLO_BROKEN,
    TW_SLO_NOT_KNOWN,
    TW_SLO_SHOWN /* has no target */
};
const char *tw_slo_state_name(enum tw_slo_state s); /* kept|broken|not-known|shown */

enum tw_slo_scope { TW_SLO_ALL, TW_SLO_PROJECT, TW_SLO_FAMILY, TW_SLO_CONTRIBUTOR };
const char *tw_slo_scope_name(enum tw_slo_scope s); /* all|project|family|contributor */

enum tw_slo_unit { TW_SLO_SHARE, TW_SLO_RATIO, TW_SLO_COUNT, TW_SLO_SECONDS, TW_SLO_TAU };
const char *tw_slo_unit_name(enum tw_slo_unit u);
/* A value as its unit is read: 97.5%, 0.031, 12, 1 m 3 s; "-" for NaN. Returns out. */
const char *tw_slo_figure(enum tw_slo_unit unit, double v, char out[32]);

/* ---- targets */

/* One [[slo]] table. Patterns are globs; NULL: any, and the target then is of all runs, too. */
struct tw_slo_target {
    enum tw_slo_id id;
    char *project, *family;
    double target; /* a share, ratio, count or number of seconds, as the indicator is */
    double limit;  /* M3: of the variance; NaN: none */
    double window_s;
    uint64_t least; /* events below which nothing is kept; 0: the indicator's own number */
};
struct tw_slo_targets {
    struct tw_slo_target *item;
    size_t count;
};
/* Those of the design: M1 to M10 for all runs. TWIN_ENOMEM. */
int tw_slo_targets_default(struct tw_slo_targets *out, struct twin_error *err);
/* Reads a TOML file (docs/slo.md); only what it names has a target then. TWIN_ENOENT, TWIN_EIO,
 * TWIN_EFORMAT (names the line), TWIN_ENOMEM. tw_slo_targets_free in any case. */
int tw_slo_targets_read(const char *path, struct tw_slo_targets *out, struct twin_error *err);
void tw_slo_targets_free(struct tw_slo_targets *t);
/* The start of the longest window of any target; 30 days back where none is longer. */
int64_t tw_slo_since(const struct tw_slo_targets *t, int64_t until_ns);

/* ---- what the ledger says */

/* Runs, comparisons and events of a ledger, loaded: all that indicators are computed from. */
struct tw_slo_history;
/* What was compared or happened at since_ns or later; INT64_MIN: ever. home: NULL for all homes of
 * the ledger. */
int tw_slo_history_load(struct twin_ledger *l, const char *home, int64_t since_ns,
                        struct tw_slo_history **out, struct twin_error *err);
void tw_slo_history_free(struct tw_slo_history *h);
/* The same without the comparisons and events before since_ns, so that rows are those of a history
 * that was loaded from then on. It borrows all from h; tw_slo_history_newer_free. NULL: no memory.
 */
struct tw_slo_history *tw_slo_history_newer(const struct tw_slo_history *h, int64_t since_ns);
void tw_slo_history_newer_free(struct tw_slo_history *h);

/* ---- what was compared, one by one (walk.c) */

/* A run of a comparison. recorded: false of one that is only named, of which nothing but the id is
 * there. */
struct tw_slo_run {
    const char *id, *project, *host, *home;
    int64_t start_ns;
    bool recorded;
    enum twin_ledger_agreed agreed;
};
/* A comparison as the ledger has it. A text of more than 4,096 bytes is cut, and ends in a digest
 * of the whole. */
struct tw_slo_comparison {
    const char *verb, *command, *outcome, *first, *cause, *layer;
    int64_t time_ns;
    bool repeats;
    const struct tw_slo_run *run; /* the reference first */
    size_t runs;
};
/* What it is given is borrowed for the call. One that returns non-zero ends the walk with that. */
typedef int tw_slo_comparison_fn(void *user, const struct tw_slo_comparison *c);
/* Comparisons made at since_ns or later, the newest first, those of one time by their ids.
 * TWIN_ENOMEM. */
int tw_slo_walk(const struct tw_slo_history *h, int64_t since_ns, tw_slo_comparison_fn *each,
                void *user);

/* ---- a history that is kept (kept.c): for who looks again and again */

/* Holds all that a ledger says, and reads what is new. It is what tw_slo_history_load would give
 * at each look: where that cannot be known, it is loaded anew. */
struct tw_slo_kept;
/* NULL: no memory. */
struct tw_slo_kept *tw_slo_kept_new(void);
void tw_slo_kept_free(struct tw_slo_kept *k);
/* What the last look did. */
enum tw_slo_look {
    TW_SLO_LOOK_SAME,  /* the ledger says what it said */
    TW_SLO_LOOK_ADDED, /* what was new was read */
    TW_SLO_LOOK_LOADED /* all was read: the first time, after a deletion, once in some hours */
};
/* Brings it up to what l says now. The history is k's until the next look. After an error nothing
 * is held. now_ns: since 1970. */
int tw_slo_kept_look(struct tw_slo_kept *k, struct twin_ledger *l, int64_t now_ns,
                     const struct tw_slo_history **out, enum tw_slo_look *what,
                     struct twin_error *err);
/* Another ledger is looked at from now on. */
void tw_slo_kept_forget(struct tw_slo_kept *k);

/* ---- counts that only grow (counts.c): for monitors that take differences themselves */

/* What is counted for each project over the whole history. A run counts once as a match and once
 * as a divergence, whatever was compared when: so no number ever falls while records are only
 * added, and one that agreed first and differed later is in both. */
enum tw_slo_count {
    TW_COUNT_COMPARISONS_MATCH,
    TW_COUNT_COMPARISONS_DIVERGED,
    TW_COUNT_COMPARISONS_INCONCLUSIVE,
    TW_COUNT_COMPARISONS_ERROR,
    TW_COUNT_REPEATS_MATCH,
    TW_COUNT_REPEATS_DIVERGED,
    TW_COUNT_REPEATS_INCONCLUSIVE,
    TW_COUNT_CHECKPOINTS_MATCH,
    TW_COUNT_CHECKPOINTS_MISMATCH,
    TW_COUNT_CHECKPOINTS_MISSING, /* of one run only, or not readable */
    TW_COUNT_CI_PASS,
    TW_COUNT_CI_FAIL,
    TW_COUNT_CI_FLAKY, /* also one of the two before */
    TW_COUNT_DATA_MATCH,
    TW_COUNT_DATA_MISMATCH,
    TW_COUNT_DATA_UNKNOWN,
    TW_COUNT_OPERATORS,
    TW_COUNT_ROLLBACKS_RESTORED,
    TW_COUNT_ROLLBACKS_FAILED,
    TW_COUNT_ARTIFACTS_TRUE,
    TW_COUNT_ARTIFACTS_FALSE,
    TW_COUNT_ARTIFACTS_UNKNOWN,
    TW_COUNTS
};
/* run: of the newest event that was counted; "": none, or no run. */
struct tw_slo_counter {
    uint64_t n;
    char run[33];
    int64_t time_ns;
    double value; /* of the newest: 1, or seconds */
};
/* Upper bounds of the histogram of run times, in seconds; behind them everything. */
enum { TW_SLO_BUCKETS = 11 };
extern const double tw_slo_bucket[TW_SLO_BUCKETS];
struct tw_slo_project {
    char *name; /* "": runs of which no project is known */
    int64_t first_ns;
    struct tw_slo_counter count[TW_COUNTS];
    struct tw_slo_counter duration[TW_SLO_BUCKETS + 1]; /* runs that ended well, by bucket */
    double duration_sum;
};
struct tw_slo_counted {
    struct tw_slo_project *project; /* by name */
    size_t count;
};
/* tw_slo_counted_free in any case. */
int tw_slo_count(const struct tw_slo_history *h, struct tw_slo_counted *out,
                 struct twin_error *err);
void tw_slo_counted_free(struct tw_slo_counted *c);

/* ---- rules for Prometheus (rules.c) */

/* Recording and alert rules for these targets, as the YAML of a rules file; malloc'ed into *out.
 * What no rule can be made for is a comment in it, and counts in *left_out. */
int tw_slo_rules(const struct tw_slo_targets *t, char **out, size_t *left_out,
                 struct twin_error *err);

/* ---- routes for Alertmanager (routes.c): its configuration as YAML; static */
const char *tw_slo_routes(void);

/* ---- dashboards for Grafana (dashboards.c) */
enum { TW_SLO_DASHBOARDS = 3 };
/* The JSON of one and the name of its file; static. */
const char *tw_slo_dashboard(size_t i, const char **file, size_t *bytes);

/* ---- rows */

/* A bad event: what burned the budget. Texts are borrowed from the history. */
struct tw_slo_burned {
    const char *run, *project, *cause; /* run: 32 hex digits, or "" */
    int64_t time_ns;
    uint64_t count; /* events in one: checkpoints of a comparison, calls of a run */
};
enum { TW_SLO_BURNED_MAX = 10 };

struct tw_slo_row {
    enum tw_slo_id id;
    enum tw_slo_scope scope;
    const char *name; /* of the project, ...; "" for all. Borrowed from the history */
    /* M10: whose budget ("M1"); M3, M7: the worst job's command; else "". Borrowed */
    const char *subject;
    enum tw_slo_state state;
    enum tw_slo_unit unit;
    double value;                  /* NaN: nothing to compute it from */
    struct twin_interval interval; /* 95%, NaN: none */
    double p90;                    /* of seconds; else NaN */
    double target;                 /* NaN: none */
    bool at_least;                 /* the value should be that much at least; else at most */
    double window_s;
    uint64_t good, bad, unknown; /* events of a share; calls: runs with none, with some */
    uint64_t runs;               /* from how many runs, comparisons or events it is computed */
    uint64_t needed;             /* good events, all of them, that would show it kept; 0: n/a */
    double budget, left;         /* bad events that the window allows; share left; NaN: none */
    char why[160];               /* not known: what is missing. "" */
    bool limited;                /* M3: its limit is given, and the value is a ratio of it */
    bool own;                    /* a target that names this project or family */
    struct tw_slo_burned burned[TW_SLO_BURNED_MAX]; /* newest first */
    size_t burned_count;
};
struct tw_slo_rows {
    struct tw_slo_row *row;
    size_t count;
};
/* All rows, in the order of the indicators, within them all runs first. until_ns: the end of the
 * windows. The rows borrow from h. tw_slo_rows_free in any case. */
int tw_slo_compute(const struct tw_slo_history *h, const struct tw_slo_targets *t, int64_t until_ns,
                   struct tw_slo_rows *out, struct twin_error *err);
void tw_slo_rows_free(struct tw_slo_rows *r);
/* Broken where any row is; not known where one for all runs, or with a target of its own, is;
 * else kept. */
enum tw_slo_state tw_slo_verdict(const struct tw_slo_rows *r);

#endif
