/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TRIAL_CHECK_H
#define TW_TRIAL_CHECK_H
/*
 * A check: does a job repeat itself, do two commands compute the same, does a run compute what a
 * file expects? Here are the runs and what is decided between them; the verdict stands in
 * series.v. The order of events, and what is printed of them, is the command's (cmd/check.c).
 *
 * A check is made by one thread. Functions that return int return 0 to go on, or a TWIN_E* after
 * the front was told why; TWIN_EINTR, of which it was not told, when the person wants an end.
 */
#include "base.h"
#include "remote.h"
#include "series.h"
#include "verified_data.h"

#include "src/compare/baseline.h"
#include "src/compare/compare.h"
#include "src/launch/run.h"

#include <stdbool.h>
#include <stdint.h>

/* The level of an asker who leaves it to us. */
#define TW_CHECK_LEVEL_NOT_GIVEN ((enum twin_level) - 1)

/* What was asked, in the words of the command's options; texts are the command line's. */
struct tw_check_asked {
    const char *resume_with, *half; /* commands for sh -c; NULL: not asked */
    const char *tolerance, *transplant, *against, *save_baseline; /* files, and a kind; or NULL */
    const char *explain;                                          /* "rounding"; NULL: not asked */
    const char *ranks;     /* numbers of ranks, "2,4"; NULL: not asked */
    enum twin_level level; /* or TW_CHECK_LEVEL_NOT_GIVEN */
    uint64_t runs, steps, b_starts_at, sketch_every, zoom_time;
    uint64_t transplant_limit; /* bytes */
    struct tw_steps_window window;
    struct tw_strings ignore;
    struct tw_remote_asked engine; /* who is to make the runs */
    bool all, lossless, no_telemetry, fresh_dir, no_zoom, no_clock, control, show_output, quiet;
    bool require_parity;
    bool pinned; /* under the pins that the last search of this command named */
};

/* The most numbers of ranks that one check runs a command with. */
enum { TW_CHECK_NUMBERS_MAX = 16 };

/* One command with several numbers of ranks (args.ranks): number by number, `each` runs of each. */
struct tw_check_numbers {
    uint32_t number[TW_CHECK_NUMBERS_MAX];
    char **argv[TW_CHECK_NUMBERS_MAX]; /* the command with that number; owned */
    size_t count;                      /* 0: it was not asked for */
    uint64_t each;
    uint32_t *of_run; /* of each run of the series, for the comparison; owned */
};

/* A check that goes on. Zeroed, then `asked` to `version` filled in; tw_check_fini in any case. */
struct tw_check {
    struct tw_check_asked args;
    bool runs_given; /* the number of runs was asked for */
    bool arms; /* two commands, one and its resumption, or one with several numbers of ranks */
    /* argv of each arm; the same twice where there is one command. With numbers of ranks: the
     * command as it was typed, {ranks} and all */
    char *const *arm[2];
    struct tw_check_numbers numbers;
    char *spool;         /* where the standard input is kept, the same for all runs; owned */
    struct tw_data data; /* verified */
    struct twin_baseline *baseline; /* what is expected (args.against); owned */
    char *signer;                   /* whose signatures of it are good; NULL: nobody asked; owned */
    struct tw_remote remote;        /* who makes the runs */
    const char *version;            /* of this program, for a baseline that is written */
    /* what is put into every launch besides (args.pinned); NULL: nothing */
    void (*dress)(void *user, struct twin_launch_options *o);
    void *dress_user;

    enum twin_level level; /* in force: the one asked for, or operations where hooks saw nothing */
    struct tw_series series; /* the runs and the verdict on them */
    /* the run that was cut short, in whose folder arm B goes on (args.resume_with); owned */
    struct twin_run *half;
    bool zoomed;        /* the operation was looked for */
    bool gate_unsteady; /* the run diverges from the baseline, and from a second run */
    /* A against A: it repeats itself; it diverges from itself no later than from B */
    bool arm_repeats, arm_unsteady;
    /* runs found files that earlier ones wrote: said, and a likelier cause than any factor */
    bool shares_files;
    /* a TWIN_E* that is left after the verdict on the runs that worked; 0: none */
    int trouble;
};

/* ---- check_together.c: which wishes go together. 0, or TWIN_EINVAL with a message that names the
 * options; the front is told nothing. */
/* What was asked beside the struct above, as far as it has to fit with it. */
struct tw_check_beside {
    const char *a, *b; /* commands of two arms; NULL: not given */
    bool job;          /* a command stands behind -- */
    bool signers;      /* keys, or a trust file, that the baseline must satisfy */
    bool factor_file;  /* factors of one's own */
};
int tw_check_arms_fit(const struct tw_check_asked *a, const struct tw_check_beside *b,
                      struct twin_error *err);
/* arms: there are two commands, or one and its resumption. */
int tw_check_transplant_fits(const struct tw_check_asked *a, bool arms, struct twin_error *err);
int tw_check_gate_fits(const struct tw_check_asked *a, const struct tw_check_beside *b, bool arms,
                       struct twin_error *err);
int tw_check_pinned_fits(const struct tw_check_asked *a, const struct tw_check_beside *b,
                         struct twin_error *err);
int tw_check_explain_fits(const struct tw_check_asked *a, const struct tw_check_beside *b,
                          struct twin_error *err); /* check_rounding.c */
/* Sets a->runs where no number was given: 1 with a baseline to hold against, else `usual`. */
int tw_check_runs_fit(struct tw_check_asked *a, uint64_t usual, struct twin_error *err);

/* ---- check_ranks.c: one command with several numbers of ranks */
/* Is args.ranks a list of numbers, and does it go with the rest? The numbers go to n. Not asked
 * for: it does, and there are none. */
int tw_check_ranks_fit(const struct tw_check_asked *a, const struct tw_check_beside *b,
                       char *const *job, struct tw_check_numbers *n, struct twin_error *err);
/* Makes the commands of c->numbers of one that has {ranks} in it, c->args.runs of each, and sets
 * c->args.runs to how many runs that are. 0 or TWIN_ENOMEM. */
int tw_check_ranks_make(struct tw_check *c, char *const *job, struct twin_error *err);
void tw_check_ranks_free(struct tw_check_numbers *n);
/* Which of the numbers run i of the series has, from 0; 0 where there are none. */
size_t tw_check_number_of(const struct tw_check *c, size_t i);
/* Has run i as many ranks as the first? True where there are no numbers. */
bool tw_check_as_first(const struct tw_check *c, size_t i);

/* ---- check_run.c: one run, of whatever part of the check */
/* The options that all of a check's launches share. arm: 0 or 1; with several numbers of ranks
 * which of them. */
struct twin_launch_options tw_check_launch_options(struct tw_check *c, int arm, const char *label);
/* One run. *out is the caller's. live: compared with the first while it goes on. TWIN_EINVAL, and
 * no run: its ranks differ, which was not to be. */
int tw_check_launch(struct tw_check *c, const struct twin_launch_options *o, const char *title,
                    bool live, struct twin_run **out);
/* Gives n runs like this one to the engine, of which tw_check_launch then takes the next. */
int tw_check_ahead(struct tw_check *c, const struct twin_launch_options *o, size_t n, bool live);
struct twin_compare_options tw_check_how(const struct tw_check *c); /* are its runs compared */
/* Compares all runs of the series anew. */
int tw_check_compare(struct tw_check *c);
/* Adds a run to the series, which owns it then. */
int tw_check_keep(struct tw_check *c, struct twin_run *r);
/* How the run ended, in the word that its line shows. May use text. */
const char *tw_check_state(const struct tw_check *c, const struct twin_run *r, bool diverged,
                           char text[32]);
/* Frees what the check owns, with its runs; the file of the standard input is deleted. */
void tw_check_fini(struct tw_check *c);

/* ---- check_series.c: the runs */
/* All of them, at operation level where no hook of the usual one saw what goes in. */
int tw_check_series(struct tw_check *c);

/* ---- check_transplant.c: instead of the series, runs that are given recorded values. */
int tw_check_transplant(struct tw_check *c);

/* ---- check_gate.c: instead of the series, runs held against c->baseline. */
/*
 * The runs are made as those of the baseline were: takes its level and its steps. TWIN_EINVAL, with
 * the reason in err and not told to the front: something else was asked for.
 */
int tw_check_gate_as_then(struct tw_check *c, struct twin_error *err);
int tw_check_gate(struct tw_check *c);
/* Of several runs, the verdict of the highest rank is the gate's: failed, differ, inconclusive,
 * within tolerance, same. */
int tw_check_gate_rank(enum twin_verdict_outcome outcome);
/* Why no baseline can come of these runs, which have a verdict; NULL when one can. */
const char *tw_check_no_baseline_because(const struct tw_series *s);
/* Writes args.save_baseline, of runs that agree; says why not. */
void tw_check_save_baseline(struct tw_check *c);

/* ---- check_resume.c: the run that arm B goes on from */
/* Makes it, after run 1. *done: the verdict is known already. */
int tw_check_half(struct tw_check *c, bool *done);
/* Notes it where the resumed run failed at once and that run had written nothing. */
void tw_check_nothing_to_resume(struct tw_check *c);

/* ---- check_rounding.c: args.explain, one more run of each arm, judged operation by operation. The
 * verdict stands; what was found becomes notes. */
void tw_check_rounding(struct tw_check *c);

/* ---- check_threads.c: of two commands that differ, B again with A's numbers of PyTorch's threads.
 * Up to two runs more, none where the numbers are equal or not known. Notes only. */
void tw_check_threads(struct tw_check *c);

/* ---- check_extra.c: what follows the runs. None of it changes the outcome. */
void tw_check_zoom(struct tw_check *c);
void tw_check_repeat_arm(struct tw_check *c); /* does arm A repeat itself? */
void tw_check_control(struct tw_check *c);    /* args.control: a run that nobody watches */
void tw_check_shared_files(struct tw_check *c);
/* Had the runs, and the ranks of the first, different worlds? Notes of the verdict. */
void tw_check_look_around(struct tw_check *c);
/* Can isolate say more of this verdict? Not of a resumed arm: its verdict names the state that the
 * seam lost, which a search among pins cannot; nor of several numbers of ranks, since it runs one
 * command. */
bool tw_check_can_isolate(const struct tw_check *c);

#endif
