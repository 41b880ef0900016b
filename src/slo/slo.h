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

/* ---- what the ledger says */

/* Runs, comparisons and events of a ledger, loaded: all that indicators are computed from. */
struct tw_slo_history;
/* What was compared or happened at since_ns or later. home: NULL for all homes of the ledger. */
int tw_slo_history_load(struct twin_ledger *l, const char *home, int64_t since_ns,
                        struct tw_slo_history **out, struct twin_error *err);
void tw_slo_history_free(struct tw_slo_history *h);

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
