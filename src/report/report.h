/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_REPORT_H
#define TWIN_REPORT_H
/*
 * Reports: a verdict as text for people, JSON for programs, JUnit XML for test runners, annotations
 * for GitHub. Room: src/report. Prints nothing: every function returns one malloc'ed string
 * (tw_free or free). Whatever a job put into names, paths or printed lines is made harmless first:
 * control characters and invalid UTF-8 come out as \xNN. All functions are thread-safe.
 */
#include "src/compare/compare.h"
#include "src/compare/field.h"
#include "src/launch/run.h"
#include "src/report/page.h"

#include <stdbool.h>
#include <stddef.h>
#include <twin/error.h>

/* A known case that looks like this divergence: a hint, no proof. All strings borrowed. */
struct twin_hint {
    const char *id, *title, *cause, *fix, *why;
    unsigned points, of; /* why: what agrees */
};

/* What suggested commands need so that they make the situation again, in the words of a shell; all
 * borrowed, NULL: nothing. Options begin with a blank. */
struct twin_report_again {
    /* "OMP_NUM_THREADS=1 ": in front of a command that runs the job */
    const char *env;
    /* "TWINRUN_HOME=DIR ": in front of one that looks at runs */
    const char *home;
    /* "-- CMD < FILE" or "--a CMD --b CMD"; NULL: "-- " and command */
    const char *job;
    const char *check, *isolate, *zoom, *show, *run; /* options for these commands */
    /* made in scratch copies, which are used up: zoom needs the command */
    bool scratch;
};

struct twin_report {
    const struct twin_verdict *verdict;
    const struct twin_run *const *runs; /* the runs that were compared, the reference first */
    size_t run_count;
    /* "check", "diff", "zoom": what the user typed; NULL = "check" */
    const char *verb;
    /* the job as one could type it; NULL when there is none (diff of folders) */
    const char *command;
    bool color;     /* text only: ANSI colours */
    unsigned width; /* text only: columns; 0 = 80, at least 40 */
    /* text only: a zoom may name the operation, so suggest it */
    bool can_zoom;
    /* text only: the cause is not known and the command can be run again, so suggest it */
    bool can_isolate;
    /* text only: a run may have read what an earlier one left: suggest scratch copies */
    bool shares_files;
    bool repeats; /* text only: what was found is no matter of chance */
    const struct twin_hint *hint;
    size_t hint_count;              /* best first */
    struct twin_report_again again; /* for the suggestions of text and page */
    /* page only: the searches for a cause that a single run belongs to, as
     * tw_ledger_show_searches has them; NULL: none */
    const struct json_t *searches;
    /* page only: a page of each run lies beside this one ("run-1.html") */
    bool has_run_pages;
    /* page only: this is the page of one run, which is the page_of-th of a comparison
     * ("index.html"); 0: of no comparison */
    size_t page_of;
};

/* What a person reads: what parted, where, what was still equal just before it, what to try next.
 * Fits one screen. 0, or TWIN_ENOMEM. */
int twin_report_text(const struct twin_report *r, char **out, struct twin_error *err);

/* One JSON object in one line, schema twinrun.check/1 (docs: README, "JSON"). Fields may be added,
 * never renamed; what is not known is null or absent. Ends with a newline. 0, or TWIN_ENOMEM. */
int twin_report_json(const struct twin_report *r, char **out, struct twin_error *err);

/* One JUnit test suite with one test case: a failure for "differ", an error for "error", skipped
 * for "inconclusive". */
int twin_report_junit(const struct twin_report *r, char **out, struct twin_error *err);

/* "seen before: TITLE (id): CAUSE Remedy: FIX", as a hint. malloc'ed (tw_free); NULL: no memory. */
char *twin_hint_text(const struct twin_hint *h);

/* GitHub workflow commands: one ::error, ::warning or ::notice line, at the source line of the
 * first finding when known. */
int twin_report_github(const struct twin_report *r, char **out, struct twin_error *err);

/* Markdown for GitHub's job summary: the verdict as a table, the whole text folded away. What a job
 * made is only ever code in it. */
int twin_report_summary(const struct twin_report *r, char **out, struct twin_error *err);

/* What a page's pictures are made from; each may be NULL. */
/* of runs 0 and `other` */
struct twin_report_pair {
    const struct twin_field *field;
    size_t other;
};
struct twin_report_pictures {
    const struct twin_report_pair *pair; /* the first one is what the verdict speaks of */
    size_t pairs;
    const struct twin_class_tree *tree; /* of all runs */
    const struct twin_curves *curves;   /* of all runs */
    const char *const *label;           /* of each run; NULL: "run 1" and so on */
    const struct twin_page_plot *times; /* how long steps took */
    const struct twin_grid *grid;       /* of the first pair, which rank differs when; NULL: none */
};
/* The pictures alone, in a page of another kind. Of r the verdict and the runs count. */
void twin_report_draw(struct twin_page *p, const struct twin_report *r,
                      const struct twin_report_pictures *pictures);
/* The curves alone; first may be NULL, label too. */
void twin_report_curves(struct twin_page *p, const struct twin_curves *curves,
                        const char *const *label, const struct twin_finding *first);
/* The verdict as a page; twin_page_finish tells of failures. NULL: no memory. */
struct twin_page *twin_report_page(const struct twin_report *r,
                                   const struct twin_report_pictures *pictures);
/* Index of the run outside the reference's class that the first finding is from; 1 when all are in
 * it. */
size_t twin_report_other(const struct twin_verdict *v);

/* The exit code that belongs to an outcome: 0 same and within-tolerance, 1 differ, 2 error, 3
 * inconclusive. */
int twin_report_exit_code(enum twin_verdict_outcome o);
#endif
