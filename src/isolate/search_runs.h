/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_ISOLATE_SEARCH_RUNS_H
#define TW_ISOLATE_SEARCH_RUNS_H
/*
 * The runs of a search for a cause. The search (src/isolate/search.h) asks for runs in worlds; here
 * each becomes a trial, and what came of it a result. search_runs.c makes and compares them
 * in the worlds of search_worlds.c, search_made.c keeps them,
 * search_log.c keeps what lets an interrupted search go on, search_arms.c mixes two commands,
 * search_order.c replays the order of messages,
 * search_clock.c tells times from other numbers, search_vote.c replays the suspect operation,
 * search_who.c and search_lines.c ask who in the job uses a cause, search_through.c whether A
 * repeats itself.
 */
#include "base.h"
#include "front.h"
#include "held_threads.h"
#include "journal.h"
#include "match_order.h"
#include "remote.h"
#include "trial.h"
#include "verified_data.h"

#include "src/compare/compare.h"
#include "src/isolate/asking_lines.h"
#include "src/isolate/isolate.h"
#include "src/isolate/search.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The options of twinrun isolate, as they were given; texts are borrowed from the command line. A
 * text is NULL and a number 0 where an option was not given. max_time is in seconds. Options of the
 * output are the command's own and not looked at here. */
struct tw_isolate_args {
    const char *a, *b, *pin, *factor_file;
    uint64_t max_runs, max_time, steps, jobs, seed;
    struct tw_remote_asked engine; /* who is to make the runs */
    struct tw_strings ignore;
    bool fresh_dir, no_clock, quiet, resume, text, thorough, through;
};

/* A run that the search has asked for, found again by its handle, which is made of the first 64
 * bits of its id. The run is owned. */
struct tw_isolate_run {
    uint64_t handle;
    struct twin_run *run;
};

/* Two commands and what differs between them (search_arms.c). */
struct tw_isolate_arms;

/* What the search's own log does not say of a run: one for each run that was made, those of the log
 * included. */
struct tw_isolate_made {
    uint32_t number;
    uint64_t handle;
    double wall_s; /* of the job, without what we did around it */
    /* it went on to its own end, or to that of --steps: its time counts */
    bool whole;
    struct twin_search_set pinned; /* of two arms: as in A */
};

/* The order of messages that the pin of match-order replays (search_order.c). */
struct tw_isolate_order {
    struct tw_matches matches;
    bool looked, known;
    char *why; /* not known; owned */
};

/* B with A's numbers of PyTorch's threads, against B as it is (search_threads.c). */
enum { TW_ISOLATE_THREADS = 7 /* runs */ };
enum tw_isolate_threads_end {
    TW_THREADS_THROUGH,   /* held runs agree with A and the others diverge, as far as it went */
    TW_THREADS_NOT_ALONE, /* a held one diverges */
    TW_THREADS_NOT_HELD,  /* it computed with other numbers all the same */
    TW_THREADS_ALIKE,     /* one of the others told A's numbers by itself */
    TW_THREADS_GONE,      /* one of the others agrees */
    TW_THREADS_FAILED,    /* a run failed, was not made, or could not be judged */
};
struct tw_isolate_threads {
    struct tw_held_threads held; /* its texts NULL: there was no such experiment */
    enum tw_isolate_threads_end end;
    const struct twin_run *reference, *run[TW_ISOLATE_THREADS]; /* of A; of B, in their order */
    char order[TW_ISOLATE_THREADS + 1];                         /* as drawn: H held, F free */
    size_t trials, held_trials, held_parted, free_parted;
};

enum { TW_ISOLATE_NODES = 64 /* at most are candidates for a run */ };
/* The nodes of an engine on which runs may be (search_node.c). Texts are owned. */
struct tw_isolate_nodes {
    char **name;
    size_t count;
    bool used;  /* the factor node is a candidate */
    char *why;  /* why it cannot be; NULL */
    char *text; /* which node it is, or why that is not known; NULL: not asked */
    char *odd;  /* shown: its name, or theirs with ", "; NULL */
    bool shown;
    bool held_known;                              /* the baseline was looked at, and says: */
    size_t held;                                  /* the node of the pin */
    size_t odd_node[TW_ISOLATE_NODES], odd_count; /* some runs there diverged from the usual ones */
    size_t placed, placed_of[2]; /* free runs behind the baseline: all, on the others, on the odd */
};

/* worlds that may have a clock experiment */
enum { TW_ISOLATE_CLOCKS = 4 };

/* One call of twinrun isolate: what was asked for, what the search is to work with, and what its
 * runs have shown. cmd/isolate.c makes and frees it; the search has it as the `user` of its
 * callbacks, so it must not move while the search goes on. */
struct tw_isolate {
    struct tw_isolate_args args;
    const struct tw_front *front;
    char *const *argv;            /* the job; without any words with --a and --b */
    struct tw_remote *on;         /* who makes the runs; its engine NULL: this process */
    struct tw_data data;          /* what args.data names, verified */
    struct tw_isolate_arms *arms; /* NULL without --a and --b, and with --through */
    char *shell[2][4];            /* --through: A and B as sh -c; argv is B's */
    /* home: the folder of all runs. spool: the file that holds the job's stdin, so that each run
     * reads the same bytes; NULL: stdin is a terminal. */
    char *home, *spool;
    struct tw_journal journal; /* its folder is the search's, below <home>/searches */
    struct twin_factors factors;
    const struct twin_factor **factor; /* the factor of each candidate; the list is owned */
    struct twin_candidate *candidate;
    /* of each candidate's pin, as the first run with it showed; text NULL: not seen yet */
    struct twin_world_effect *effect;
    size_t count;
    struct twin_search_plan plan;
    struct twin_search_log log;
    struct tw_isolate_run *runs;
    size_t run_count;
    struct tw_isolate_made *made;
    size_t made_count;
    /* operation level when the hooks of the usual one see nothing */
    enum twin_level level;
    bool common_known; /* a whole pair of natural runs has said what it met */
    /* wall time of the longest natural run that was not cut short; 0: none yet */
    double natural_s;
    int suspect_core[2]; /* processors that a vote told apart; equal: none was */
    /* verdict of the first natural pair that diverged; owned; NULL: none has */
    struct twin_verdict *first;
    /* why a comparison that found no difference proves little; NULL */
    char *unseen;
    /* of each cause; factor NULL: of what no pin reaches */
    struct tw_isolate_consumers {
        const struct twin_factor *factor;
        char **text;
        size_t count, left_out;
    } *consumer;
    size_t consumer_count;
    /* --through: natural runs of A, compared with its first until one diverges */
    struct tw_isolate_again {
        const struct twin_run *reference, *run[3];
        size_t trials;
        bool parted;
    } a_again;
    /* Clock experiments: the world of each, and its runs under faster clocks by their handles (0:
     * cut short) */
    struct tw_isolate_clock {
        struct twin_search_set pinned;
        uint64_t run[2];
        char *text;
    } clock[TW_ISOLATE_CLOCKS];
    size_t clock_count;
    struct tw_isolate_order order;
    struct tw_isolate_nodes nodes;
    struct tw_isolate_threads threads;
    bool interrupted, reported;
};

/* ---- search_made.c: the runs that were made, and what every part needs to make one */
/* A run by its handle: from memory, or from its folder in the home. NULL when it is gone. */
const struct twin_run *tw_isolate_find(struct tw_isolate *c, uint64_t handle);
/* Keeps a run that was made; it belongs to c then. */
int tw_isolate_keep(struct tw_isolate *c, struct twin_run *r);
uint64_t tw_isolate_handle(const struct twin_run *r);
/* The first run that ended badly, with its number in the search. NULL: none, or this process has
 * not read it. */
const struct twin_run *tw_isolate_failed(const struct tw_isolate *c, uint32_t *number);
/* By a run's number in the log; NULL when nothing is known. */
const struct tw_isolate_made *tw_isolate_made(const struct tw_isolate *c, uint32_t number);
int tw_isolate_made_add(struct tw_isolate *c, const struct tw_isolate_made *m);
/* What a request pins (of two arms: has as in A). */
struct twin_search_set tw_isolate_pinned(const struct tw_isolate *c,
                                         const struct twin_search_request *q);
/* The options that every run of the search has beside its world; argv is the job's. */
struct twin_launch_options tw_isolate_launch_options(const struct tw_isolate *c, const char *label);
/* As tw_trial_make, for a run beside the search; an interruption of it is one of the search. */
int tw_isolate_make(struct tw_isolate *c, struct tw_trial *t, const struct twin_launch_options *o,
                    struct twin_error *err);
/* Does the person in front want an end? While a run goes on the launcher takes the signal, and the
 * front never sees it. */
bool tw_isolate_stops(const struct tw_isolate *c);
struct twin_compare_options tw_isolate_compare_options(const struct tw_isolate *c);
/* Do two runs count as diverged? With --text, what differs in text that is no number does, too. */
bool tw_isolate_parted(const struct tw_isolate *c, const struct twin_verdict *v);

/* ---- search_worlds.c */
/* The world in which so much is pinned; that of a request. Their settings are for tw_free. */
int tw_isolate_world(const struct tw_isolate *c, const struct twin_search_set *pinned,
                     struct twin_world *out);
int tw_isolate_world_of(const struct tw_isolate *c, const struct twin_search_request *q,
                        struct twin_world *out);

/* ---- search_runs.c */
twin_search_run tw_isolate_run;
/* With --resume: what earlier runs showed beside their results. */
void tw_isolate_recall(struct tw_isolate *c);

/* ---- search_vote.c */
/* v, of a natural pair: what do replays of its operation show? Zooms when v is c->first. */
enum twin_search_vote tw_isolate_replays(struct tw_isolate *c, const struct twin_verdict *v,
                                         const struct twin_run *reference);
int tw_isolate_vote(struct tw_isolate *c, const struct twin_world *w,
                    const struct twin_search_request *q, struct twin_search_result *out,
                    struct twin_error *err);

/* ---- search_order.c: the factor match-order */
/* Can it be set in runs of this search? */
bool tw_isolate_order_can_be_set(const struct tw_isolate *c);
/* Where the world pins it: lets the launch replay the first natural run. */
void tw_isolate_order_apply(struct tw_isolate *c, const struct twin_world *w,
                            struct twin_launch_options *o);
/* Where the world pins it: was it so in this run? Notes what is known of the pin's effect. cut: the
 * run was ended where it had diverged. */
bool tw_isolate_order_kept(struct tw_isolate *c, const struct twin_world *w,
                           const struct twin_run *r, bool cut);
/* Have two natural runs matched alike, so that it cannot be what makes them diverge? */
bool tw_isolate_order_common(const struct twin_run *a, const struct twin_run *b);
void tw_isolate_order_close(struct tw_isolate *c);

/* ---- search_node.c: the factor node */
/* Looks which nodes there are. Can it be set in runs of this search? If not, c->nodes.why. */
bool tw_isolate_nodes_open(struct tw_isolate *c);
void tw_isolate_nodes_close(struct tw_isolate *c);
/* Says on which node a run is made: the pin's, or one that is drawn. */
void tw_isolate_node_apply(struct tw_isolate *c, const struct twin_world *w,
                           const struct twin_search_request *q, struct twin_launch_options *o);
const char *tw_isolate_node_held(const struct tw_isolate *c); /* NULL: no run had the pin */
bool tw_isolate_node_common(const struct twin_run *a, const struct twin_run *b);
/* When the node is the cause: which one? Some runs more; the sentence is c->nodes.text. */
void tw_isolate_which_node(struct tw_isolate *c, const struct twin_search_report *r);

/* ---- search_log.c. 0, or an error. */
/* A new search folder with search.json (what is searched) and plan.txt; or, with --resume, the
 * newest one for the same job and candidates, whose log is read into c->log. */
int tw_isolate_log_open(struct tw_isolate *c, struct twin_error *err);
twin_search_saved tw_isolate_log_save;

/* ---- search_arms.c. All but close and json only where c->arms. */
/* Makes c->arms and the candidates. 0, or a TWIN_E*. */
int tw_isolate_arms_open(struct tw_isolate *c, struct twin_error *err);
void tw_isolate_arms_close(struct tw_isolate *c);
/* sh -c with the request's mix of A and B; valid until the next call. */
int tw_isolate_arms_command(struct tw_isolate *c, const struct twin_search_request *q,
                            char *argv[4], struct twin_error *err);
void tw_isolate_arms_title(const struct tw_isolate *c, const struct twin_search_request *q,
                           char title[64]);
/* What every run holds still (--pin). */
const struct twin_world *tw_isolate_arms_held(const struct tw_isolate *c);
/* Is it A or B as they are, and no mix? */
bool tw_isolate_arms_unmixed(const struct tw_isolate *c, const struct twin_search_request *q);
/* Is it known that B's steps are A's, so that a run can be compared while it goes on? */
bool tw_isolate_arms_may_cut(const struct tw_isolate *c);
/* Takes from a run what later ones and the report need. v: NULL when it was not compared; then q is
 * not looked at. */
void tw_isolate_arms_learn(struct tw_isolate *c, const struct twin_search_request *q,
                           const struct twin_run *r, const struct twin_verdict *v);
/* once, before the report: takes from the log what its notes say */
void tw_isolate_arms_look_back(struct tw_isolate *c, const struct twin_search_report *r);
/* What differs, and the fix: lines to be printed, printable. malloc'ed; NULL: no memory. */
char *tw_isolate_arms_text(const struct tw_isolate *c, const struct twin_search_report *r);
/* malloc'ed texts: the options that give the job; a mixed command; notes 0 to TW_ISOLATE_ARMS_NOTES
 * - 1, NULL: none. */
enum { TW_ISOLATE_ARMS_NOTES = 16 };
char *tw_isolate_arms_job(const struct tw_isolate *c);
/* "--a FIRST --b SECOND", quoted for a shell; malloc'ed. */
char *tw_isolate_arms_words(const char *first, const char *second);
/* B with the causes as in A; or (applied) A with them, and what they need, as in B. */
char *tw_isolate_arms_mixed(const struct tw_isolate *c, const struct twin_search_report *r,
                            bool applied);
char *tw_isolate_arms_note(const struct tw_isolate *c, size_t i);
/* What differs and what was found, for the report's JSON; null without arms. */
json_t *tw_isolate_arms_json(const struct tw_isolate *c, const struct twin_search_report *r);
/* ---- search_who.c */
/* Who in the job asks for the causes that were found, where that can be asked, or for what no pin
 * reaches, when the cause lies there: one more run for each, kept in c->consumer. */
void tw_isolate_ask_who(struct tw_isolate *c, const struct twin_search_report *r);

/* ---- search_clock.c */
/* Where *v leaves open whether numbers are times: the two runs that tell, once in each world, and
 * the comparison anew in their light. */
int tw_isolate_clock(struct tw_isolate *c, const struct twin_search_request *q,
                     const struct twin_run *reference, const struct twin_run *run,
                     struct twin_verdict **v, struct twin_error *err);
/* Adds these runs to the options of a comparison with `first`, where it is of their world. */
void tw_isolate_clock_add(struct tw_isolate *c, const struct twin_run *first,
                          struct twin_compare_options *o);
/* Compares two runs as the search does, in the light of those runs. *v is the caller's. */
int tw_isolate_compare_pair(struct tw_isolate *c, const struct twin_run *a,
                            const struct twin_run *b, struct twin_verdict **v,
                            struct twin_error *err);

/* ---- search_through.c */
/* With --through, when a cause is isolated: does A repeat itself? Up to three runs more. */
void tw_isolate_a_again(struct tw_isolate *c, const struct twin_search_report *r);
/* What that showed, as a sentence; malloc'ed. */
char *tw_isolate_a_again_text(const struct tw_isolate *c);

/* ---- search_threads.c */
/* Of two commands, when a cause is isolated and their numbers of PyTorch's threads differ: up to
 * TW_ISOLATE_THREADS runs more. */
void tw_isolate_try_threads(struct tw_isolate *c, const struct twin_search_report *r);
/* Share of the arrangements that look as convincing; 1 where it did not come to its end. */
double tw_isolate_threads_p(const struct tw_isolate_threads *x);
/* What that showed, as a sentence; malloc'ed. NULL: nothing was tried. */
char *tw_isolate_threads_text(const struct tw_isolate *c);

/* ---- search_lines.c */
/* One line of the job that asks for what varies, over all its processes: "train.py:12 |
 * 3@1795349337000 | seed = os.urandom(4)". */
struct tw_asking {
    const char *where, *source; /* borrowed from the run's lines */
    size_t where_bytes;
    unsigned long long calls, first_ns;
    enum twin_line_answer answer;
    /* " in thread NAME": the threads that asked, but the main one; borrowed; NULL: none */
    const char *threads;
    size_t threads_bytes;
    bool mixed; /* it asked in other threads in some processes than in others */
};
/* Which of these lines matter? Some runs more, under the pins of all causes; none when that cannot
 * be tried. Puts those first whose other values alone made a run diverge, and those last with whose
 * other values it agreed. word: the agents' name of the factor. */
void tw_isolate_try_lines(struct tw_isolate *c, const struct twin_search_report *r,
                          const char *word, struct tw_asking *line, size_t count);

#endif
