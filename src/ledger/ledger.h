/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_LEDGER_H
#define TWIN_LEDGER_H
/*
 * The ledger: runs, their artifacts, and what comparisons found, in SQLite below the home
 * (ledger.db) or in PostgreSQL. Room: src/ledger. The run folders are the truth; the ledger is a
 * record of them that is fast to search and outlives them. Append-only: what changes is a new
 * version of a record, the older ones stay. docs/ledger.md, docs/internals/ledger.md.
 *
 * Every function may fail without harm to a run: callers report, and go on. Errors besides those
 * named: TWIN_EIO (unreachable, read-only, full), TWIN_EBUSY (others hold it for too long),
 * TWIN_EFORMAT (damaged), TWIN_ENOMEM. A message never holds credentials. A ledger belongs to one
 * thread at a time; any number of processes may have it open.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

struct twin_ledger;

#define TWIN_LEDGER_SCHEMA 2

/* url: "postgresql://..." or "postgres://..."; NULL: the value of $TWINRUN_LEDGER, else
 * <home>/ledger.db. "none": TWIN_EUNSUPPORTED, as for a database that this build has no library
 * for. Made, and migrated to our schema, when it is not there yet. TWIN_EVERSION: made by a newer
 * twinrun. */
int twin_ledger_open(const char *home, const char *url, struct twin_ledger **out,
                     struct twin_error *err);
void twin_ledger_close(struct twin_ledger *l);
/* What it is called in messages, without credentials: "/path/ledger.db", "postgresql://host/name".
 * Owned by l. */
const char *twin_ledger_name(const struct twin_ledger *l);
/* Was ledger.db just made by this open? Then it knows nothing of older runs yet. */
bool twin_ledger_is_new(const struct twin_ledger *l);
/* True when url, or the environment, asks for no ledger at all. */
bool twin_ledger_off(const char *url);

/* ---- runs. All strings are borrowed: the caller's, or in a callback only valid inside of it. NULL
 * reads and writes as "". */
struct twin_ledger_run {
    const char *id, *name;       /* 32 hex digits; the folder's name */
    const char *home;            /* "" in the home's own ledger.db; else HOST:/absolute/home */
    const char *label, *command; /* command: as one could type it */
    const char *argv, *host;     /* argv: a JSON list */
    const char *state;           /* "ok", "exit 3", "SIGSEGV", ...; as `ls` shows it */
    int64_t exit_code, start_ns;
    double wall_s;
    uint64_t steps, records, dropped;
    bool gone;                    /* its folder was removed */
    const char *data_root;        /* digest of the snapshot that the job was started on; "" */
    int64_t version, recorded_ns; /* out only */
};
/* kind: "checkpoint" or "file" */
struct twin_ledger_artifact {
    const char *path, *kind, *sha256;
    uint64_t bytes;
};

struct twin_ledger_comparison {
    const char *id; /* 32 hex digits, made once */
    int64_t time_ns;
    const char *verb, *command; /* "check", "diff", "isolate", ... */
    /* same|within-tolerance|differ|inconclusive|error|isolated|not-isolated|no-divergence */
    const char *outcome;
    const char *first;  /* the first divergence in one line; "" */
    int64_t first_step; /* -1: none */
    const char *cause;  /* of isolate: factors, comma-separated; "" */
    const char *const *run_id;
    size_t run_count; /* the reference first */
};

/* One transaction: the run's next version with its artifacts. Nothing is written when the newest
 * version says the same. */
int twin_ledger_put_run(struct twin_ledger *l, const struct twin_ledger_run *r,
                        const struct twin_ledger_artifact *a, size_t count, struct twin_error *err);
/* A comparison is written once: its id is there already: 0, and nothing changes. */
int twin_ledger_put_comparison(struct twin_ledger *l, const struct twin_ledger_comparison *c,
                               struct twin_error *err);
/* Many puts as one transaction: faster. Until the end others wait. */
int twin_ledger_begin(struct twin_ledger *l, struct twin_error *err);
int twin_ledger_end(struct twin_ledger *l, bool keep, struct twin_error *err);

struct twin_ledger_filter {
    const char *home;    /* only this one; NULL: any */
    const char *command; /* glob; NULL: any */
    /* of a comparison that the run took part in, or its state; NULL: any */
    const char *outcome;
    int64_t since_ns; /* began then or later; 0: any */
    uint64_t limit;   /* newest first; 0: all */
};
/* A callback that returns non-zero ends the walk with that value. */
typedef int twin_ledger_run_fn(void *user, const struct twin_ledger_run *r);
typedef int twin_ledger_comparison_fn(void *user, const struct twin_ledger_comparison *c);
typedef int twin_ledger_artifact_fn(void *user, const struct twin_ledger_artifact *a);
int twin_ledger_runs(struct twin_ledger *l, const struct twin_ledger_filter *f,
                     twin_ledger_run_fn *each, void *user, struct twin_error *err);
/* The newest version of one run by its whole id; all versions, oldest first, with history. */
int twin_ledger_run(struct twin_ledger *l, const char *id, bool history, twin_ledger_run_fn *each,
                    void *user, struct twin_error *err);
int twin_ledger_artifacts(struct twin_ledger *l, const char *run_id, twin_ledger_artifact_fn *each,
                          void *user, struct twin_error *err);
/* Newest first. run_id NULL: all; command NULL: any, else exactly this one. */
int twin_ledger_comparisons(struct twin_ledger *l, const char *run_id, const char *command,
                            twin_ledger_comparison_fn *each, void *user, struct twin_error *err);
/* Numbers of records: of runs (newest versions), of all versions, of comparisons. */
struct twin_ledger_counts {
    uint64_t runs, versions, comparisons, artifacts;
};
int twin_ledger_count(struct twin_ledger *l, struct twin_ledger_counts *out,
                      struct twin_error *err);
#endif
