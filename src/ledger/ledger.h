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

#define TWIN_LEDGER_SCHEMA 4

/* url: "postgresql://..." or "postgres://..."; NULL: the value of $TWINRUN_LEDGER, else
 * <home>/ledger.db. "none": TWIN_EUNSUPPORTED, as for a database that this build has no library
 * for. Made, and migrated to our schema, when it is not there yet. TWIN_EVERSION: made by a newer
 * twinrun. */
int twin_ledger_open(const char *home, const char *url, struct twin_ledger **out,
                     struct twin_error *err);
/* The same for who never writes: nothing is made or migrated, and the database refuses every write.
 * TWIN_ENOENT: there is no ledger.db. TWIN_EVERSION: made by a newer twinrun, or by an older one.
 */
int twin_ledger_open_to_read(const char *home, const char *url, struct twin_ledger **out,
                             struct twin_error *err);
/* A mark that is another one after anybody else wrote to the ledger; to ask it costs next to
 * nothing. It may change without new records. TWIN_EIO: what was opened is not there any more. */
enum { TWIN_LEDGER_MARK_BYTES = 64 };
int twin_ledger_change(struct twin_ledger *l, char mark[TWIN_LEDGER_MARK_BYTES],
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

/* What became of one run of a comparison, and of the checkpoints that it has in common with the
 * reference. */
enum twin_ledger_agreed {
    TWIN_AGREED_NOT_SAID, /* written by an older twinrun, or not a repeat */
    TWIN_AGREED,          /* with the reference: same, or within the tolerance */
    TWIN_AGREED_NOT,
    TWIN_AGREED_UNKNOWN /* not enough was seen */
};
const char *twin_agreed_name(enum twin_ledger_agreed a); /* ""|agrees|differs|unknown */

/* NULL, or a word that this program does not know, of a newer one: TWIN_AGREED_NOT_SAID. */
enum twin_ledger_agreed twin_agreed_of(const char *name);

struct twin_ledger_checkpoints {
    int64_t compared; /* names that both wrote; -1: not said */
    int64_t same, unknown;
    int64_t missing; /* written by one of the two only */
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
    const char *layer;  /* of the first divergence, one of twelve words; "" */
    bool repeats;       /* its runs are one job on the same inputs, made again */
    struct twin_ledger_checkpoints checkpoints;
    const char *const *run_id;
    /* beside run_id; NULL: of none it is said */
    const enum twin_ledger_agreed *agreed;
    size_t run_count;    /* the reference first */
    int64_t recorded_ns; /* out only */
};

/* What is known of a run besides how it went; written once. Texts as in twin_ledger_run. */
struct twin_ledger_facts {
    const char *run_id;
    const char *project, *family, *contributor, *sweep;
    /* what it was made from: code, command, configuration, data; "": not known. Equal texts: equal
     * inputs */
    const char *inputs;
    bool ci;
    int64_t snapshots;        /* data that matched their snapshots at the start; -1: not known */
    int64_t deterministic;    /* was it meant to be? 1, 0; -1: not known */
    int64_t nondeterministic; /* calls of operations that PyTorch lists as such; -1: not known */
    double loss;              /* the last one recorded; NaN: none */
    int64_t recorded_ns;      /* out only, and only of twin_ledger_recorded */
};
/* Does the outcome of a comparison by "isolate" say that a cause was found? "isolated": it is all
 * of it; "isolated (main cause)": it matters, and others may, too. */
bool tw_ledger_is_isolated(const char *outcome);
/* Something that happened once and is no comparison. kind, outcome: "snapshot" match|mismatch;
 * "audit" pass|fail, one for each area, which is the subject; "artifact" verified|failed|unsigned;
 * "rollback" and "drill" restored|failed; "shadow" not-repeated, with the reason as the subject;
 * "rollout-run" the arm of a run, with the rollout's id, its share, a hash of the key that it was
 * drawn by and the reason as the subject ("ID SHARE key=HASH WHY"; docs/format/rollout.md);
 * "rollout" started|widened|held|fell-back|stopped, with the rollout's id, the number of the
 * decision and its numbers. */
struct twin_ledger_event {
    const char *id; /* 32 hex digits, made once */
    int64_t time_ns;
    const char *kind, *outcome, *subject;
    const char *project, *family, *contributor, *run_id;
    int64_t recorded_ns; /* out only */
};

/* One transaction: the run's next version with its artifacts. Nothing is written when the newest
 * version says the same. */
int twin_ledger_put_run(struct twin_ledger *l, const struct twin_ledger_run *r,
                        const struct twin_ledger_artifact *a, size_t count, struct twin_error *err);
/* A comparison is written once: its id is there already: 0, and nothing changes. */
int twin_ledger_put_comparison(struct twin_ledger *l, const struct twin_ledger_comparison *c,
                               struct twin_error *err);
/* Facts and events are written once, too. */
int twin_ledger_put_facts(struct twin_ledger *l, const struct twin_ledger_facts *f,
                          struct twin_error *err);
int twin_ledger_put_event(struct twin_ledger *l, const struct twin_ledger_event *e,
                          struct twin_error *err);
/* Many puts as one transaction: faster. Until the end others wait. */
int twin_ledger_begin(struct twin_ledger *l, struct twin_error *err);
int twin_ledger_end(struct twin_ledger *l, bool keep, struct twin_error *err);
/* What is read until twin_ledger_end is one state of the ledger, whatever others write meanwhile.
 */
int twin_ledger_begin_to_read(struct twin_ledger *l, struct twin_error *err);

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
/* One comparison by its whole id. */
int twin_ledger_comparison(struct twin_ledger *l, const char *id, twin_ledger_comparison_fn *each,
                           void *user, struct twin_error *err);
/* A run with its facts, NULL where there are none: recorded by an older twinrun, folder gone. */
typedef int twin_ledger_history_fn(void *user, const struct twin_ledger_run *r,
                                   const struct twin_ledger_facts *f);
/* Runs that began at since_ns or later, in no order. home NULL: any. */
int twin_ledger_history(struct twin_ledger *l, const char *home, int64_t since_ns,
                        twin_ledger_history_fn *each, void *user, struct twin_error *err);
/* Comparisons made at since_ns or later, newest first, as twin_ledger_comparisons. */
int twin_ledger_comparisons_since(struct twin_ledger *l, int64_t since_ns,
                                  twin_ledger_comparison_fn *each, void *user,
                                  struct twin_error *err);
/* Events at since_ns or later, the oldest first. */
typedef int twin_ledger_event_fn(void *user, const struct twin_ledger_event *e);
int twin_ledger_events(struct twin_ledger *l, int64_t since_ns, twin_ledger_event_fn *each,
                       void *user, struct twin_error *err);

/* ---- pages of long lists, newest first (pages.c). Strings: NULL for any. */
struct twin_ledger_page {
    const char *project;
    const char *command; /* glob */
    const char *outcome; /* of a comparison; of a run its state, or that of a comparison of it */
    const char *verb;    /* of comparisons only */
    int64_t since_ns;
    /* what is older than the record of this time and id; id NULL: from the newest on */
    int64_t before_ns;
    const char *before_id;
    uint64_t limit;
};
/* Where the next page begins: the last record that was looked at, whether it was shown or not.
 * more: there may be another page. */
struct twin_ledger_place {
    int64_t time_ns;
    char id[33];
    bool more;
};
int twin_ledger_page_of_runs(struct twin_ledger *l, const struct twin_ledger_page *p,
                             twin_ledger_history_fn *each, void *user,
                             struct twin_ledger_place *next, struct twin_error *err);
int twin_ledger_page_of_comparisons(struct twin_ledger *l, const struct twin_ledger_page *p,
                                    twin_ledger_comparison_fn *each, void *user,
                                    struct twin_ledger_place *next, struct twin_error *err);
/* The newest version of one run with its facts. */
int twin_ledger_run_with_facts(struct twin_ledger *l, const char *id, twin_ledger_history_fn *each,
                               void *user, struct twin_error *err);
/* What was written down at recorded_ns or later by the writers' clocks: first versions of runs,
 * comparisons. At most `limit` of each, in no order. */
int twin_ledger_news(struct twin_ledger *l, int64_t recorded_ns, uint64_t limit,
                     twin_ledger_history_fn *run, twin_ledger_comparison_fn *comparison, void *user,
                     struct twin_error *err);

/* ---- keeping up (recorded.c): for who holds all that a ledger says, and reads what is new */

/* Kinds of records, and rows of each: versions of runs, facts, comparisons, events. */
enum twin_ledger_kind {
    TWIN_LEDGER_RUNS,
    TWIN_LEDGER_FACTS,
    TWIN_LEDGER_COMPARISONS,
    TWIN_LEDGER_EVENTS,
    TWIN_LEDGER_KINDS
};
/* Two tallies that are equal: the same records, but for chance. times: the sum of the remainders of
 * the times at which they were written down (twin_ledger_remainder). */
struct twin_ledger_tally {
    int64_t count[TWIN_LEDGER_KINDS], times[TWIN_LEDGER_KINDS];
    int64_t compared;  /* runs of comparisons */
    int64_t newest_ns; /* the latest of those times, by the writers' clocks; INT64_MIN: none */
};
int twin_ledger_tally(struct twin_ledger *l, struct twin_ledger_tally *out, struct twin_error *err);
int64_t twin_ledger_remainder(int64_t recorded_ns);

typedef int twin_ledger_facts_fn(void *user, const struct twin_ledger_facts *f);
/* Whom rows are handed to. run: each version, with the facts of its run. */
struct twin_ledger_recorder {
    twin_ledger_history_fn *run;
    twin_ledger_facts_fn *facts;
    twin_ledger_comparison_fn *comparison;
    twin_ledger_event_fn *event;
};
/* Every row that was written down at recorded_ns or later: facts, versions of runs, comparisons,
 * events, each in no order. NULL for a kind: it is not read. */
int twin_ledger_recorded(struct twin_ledger *l, int64_t recorded_ns,
                         const struct twin_ledger_recorder *r, void *user, struct twin_error *err);

/* Numbers of records: of runs (newest versions), of all versions, of comparisons. */
struct twin_ledger_counts {
    uint64_t runs, versions, comparisons, artifacts, events;
};
int twin_ledger_count(struct twin_ledger *l, struct twin_ledger_counts *out,
                      struct twin_error *err);
#endif
