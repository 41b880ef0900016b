/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_LEDGER_NOTED_H
#define TW_LEDGER_NOTED_H
/*
 * What is written to a ledger: what a command found out, and, when it is opened for reading, the
 * run folders and comparisons of the home that it has not seen yet.
 */
#include "src/compare/compare.h"
#include "src/launch/run.h"
#include "src/ledger/ledger.h"

/* How the runs of this home are told from others': "" in the home's own ledger.db, so that a home
 * that is moved stays what it is; HOST:/home in a ledger for many homes. malloc'ed; NULL: no
 * memory. */
char *tw_ledger_home(const char *home, const char *url);

/* What a command found out about some runs. Everything is borrowed. */
struct tw_noted {
    const char *home, *url;
    const char *verb;                      /* "check", "diff", ...; NULL: it only made the runs */
    const char *command, *outcome, *cause; /* as struct twin_ledger_comparison has them */
    const struct twin_finding *first;      /* NULL: no divergence */
    /* which runs agree, and their checkpoints; NULL: no verdict of these runs alone */
    const struct twin_verdict *verdict;
    bool arms; /* the runs are of two jobs, or of one that was started in two ways */
    const struct twin_run *const *runs; /* the reference first */
    size_t count;
};

/*
 * Writes the runs of this home, and, where there is a verb, the comparison: as a file below
 * <home>/comparisons, from which any ledger catches up, and as a record. Secrets in commands are
 * redacted first. 0 also when nothing is to be written: no runs, or no ledger is asked for.
 */
int tw_ledger_write(const struct tw_noted *n, struct twin_error *err);

/* What happened once: kind, outcome, subject, run_id of e count, and an id of 32 hex digits and a
 * time where they are given; the rest is filled in here, and to whom it belongs comes from the
 * environment, as for a run. A file below <home>/events and a
 * record. Nothing is written where there is no home yet, or no ledger is asked for: 0. */
int tw_ledger_write_event(const char *home, const char *url, const struct twin_ledger_event *e,
                          struct twin_error *err);

/* Called with each run that is going on, or may be where nobody here can see it, or that could not
 * be loaded (r NULL, and err says why): such runs are not written. */
typedef void tw_live_fn(void *user, const char *dir, const struct twin_run *r,
                        const struct twin_error *err);

/*
 * Opens the ledger of a home and writes what it has not seen: run folders that are new, those whose
 * folder was removed, comparisons. All of it is one transaction. live may be NULL. *out NULL with
 * 0: there is no such home, or no ledger is asked for. After an error there is no ledger to close.
 */
int tw_ledger_catch_up(const char *home, const char *url, tw_live_fn *live, void *user,
                       struct twin_ledger **out, struct twin_error *err);

#endif
