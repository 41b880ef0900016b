/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_CHECK_H
#define TW_CMD_CHECK_H
/* Inside of twinrun check: check.c (options, order of events), check_series.c (the runs),
 * check_extra.c (what follows). */
#include "data.h"
#include "options.h"
#include "series.h"

#include "src/compare/compare.h"
#include "src/launch/run.h"

#include <stdbool.h>
#include <stdint.h>

struct tw_check_args {
    const char *resume_with, *half; /* --resume-with, --half */
    const char *a, *b, *home, *junit, *html, *tolerance, *transplant, *against, *save_baseline,
        *trust, *ledger;
    struct tw_strings keys; /* that must have signed the baseline */
    enum twin_level level;
    uint64_t runs, steps, b_starts_at, sketch_every, max_time, zoom_time;
    uint64_t transplant_limit;
    struct tw_window window;
    struct tw_strings ignore, data;
    bool no_cases, all, lossless, no_telemetry, fresh_dir, no_zoom, no_clock, control, show_output,
        json, github, bisect, quiet;
};

struct tw_check {
    struct tw_check_args args;
    /* in force: args.level, or operation level when the hooks saw nothing */
    enum twin_level level;
    char *const *arm[2]; /* argv of each; the same twice for A/A */
    char *shell[2][4];
    bool arms; /* --a and --b, or --resume-with */
    /* --resume-with: the run that was cut short, in whose folder arm B goes on */
    struct twin_run *half;
    char *spool;
    struct tw_data data;     /* of args.data, verified */
    struct tw_series series; /* the runs and the verdict on them */
    bool zoomed, printed;
    struct twin_baseline *baseline; /* --against */
    char *signer;                   /* whose signatures of it are good; NULL: nobody asked */
    bool runs_given;                /* --runs */
    bool gate_unsteady;             /* the run parts from the baseline, and from a second run */
    /* A against A: it repeats itself; it parts from itself no later than from B */
    bool arm_repeats, arm_unsteady;
    /* runs found files that earlier ones wrote: said, and a likelier cause than any factor */
    bool shares_files;
    /* exit code to leave with after the verdict on the runs that worked; 0 = none */
    int trouble;
};

enum { TW_CHECK_UNSEEN = 1000 }; /* no hook saw a tensor: not an exit code */

/* ---- check_series.c. Each returns -1 to go on, or the exit code to leave with (the reason has
 * been said). */
int tw_check_series(struct tw_check *c);
/* The options that all of a check's launches share. arm: 0 or 1. */
struct twin_launch_options tw_check_launch_options(const struct tw_check *c, int arm,
                                                   const char *label);
/* One run. *out is the caller's. */
int tw_check_launch(struct tw_check *c, const struct twin_launch_options *o, const char *title,
                    bool live, struct twin_run **out);
struct twin_compare_options tw_check_how(const struct tw_check *c); /* are its runs compared */
int tw_check_compare(struct tw_check *c);

/* Adds a run to the series, which owns it then. */
int tw_check_keep(struct tw_check *c, struct twin_run *r);

/* How the run ended, in the word that its line shows. May use text. */
const char *tw_check_state(const struct tw_check *c, const struct twin_run *r, bool parted,
                           char text[32]);

/* ---- check_transplant.c: instead of the series. -1 to go on, or the exit code to leave with. */
int tw_check_transplant_options(const struct tw_check_args *a, bool arms);
int tw_check_transplant(struct tw_check *c);

/* ---- check_gate.c: instead of the series, one run held against a file. -1 to go on, or the exit
 * code to leave with. */
int tw_check_gate_options(const struct tw_check_args *a, bool arms);
int tw_check_gate(struct tw_check *c);
/* check_signed.c: with --key or --trust, sets c->signer or fails. text: of the baseline as it was
 * read. */
int tw_check_signature(struct tw_check *c, const char *text, size_t bytes, struct twin_error *err);
void tw_check_save_baseline(struct tw_check *c); /* of runs that agree; says why not */

/* ---- check_resume.c: the run that arm B goes on from. */
int tw_check_resume_options(const struct tw_check_args *a, bool job);
/* Makes it, after run 1. -1 to go on, or the exit code to leave with. *done: the verdict is known
 * already. */
int tw_check_half(struct tw_check *c, bool *done);

/* ---- check_extra.c */
void tw_check_clock(struct tw_check *c); /* check_clock.c: the clock experiment */
void tw_check_zoom(struct tw_check *c);
void tw_check_repeat_arm(struct tw_check *c); /* does arm A repeat itself? */
void tw_check_control(struct tw_check *c);    /* --control */
void tw_check_shared_files(struct tw_check *c);
/* The end of what the job printed to stderr, for a job that never worked. */
void tw_check_show_tail(const struct twin_run *r);

#endif
