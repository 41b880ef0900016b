/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_COMPARE_INTERNAL_H
#define TW_COMPARE_INTERNAL_H
/*
 * Inside the compare room. How the files play together: docs/internals/compare.md.
 * Memory: every growing list lives in struct tw_cmp or in a result that the caller frees. An
 * allocation that fails sets tw_cmp.oom; work goes on with what there is, and the one check at the
 * end turns it into TWIN_ENOMEM.
 */
#include "src/compare/compare.h"
#include "src/launch/run.h"
#include "src/trace/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/fingerprint.h>

#include "base.h"

#define TW_NONE SIZE_MAX
/* records of one step that are decoded; more are left out and said so */
#define TW_MAX_STEP_RECORDS 2000000u
#define TW_MAX_FRONTIER 64u

struct tw_texts {
    char **s;
    size_t n, room;
};

struct tw_claims {
    struct twin_claim *claim;
    size_t n, room;
};

struct tw_cmp {
    const struct twin_compare_options *o;
    struct twin_verdict *v;
    struct tw_tolerance *tolerance; /* NULL = bit for bit */
    /* of all pairs that are held against the tolerance; NULL: none is */
    struct tw_judged *judged;
    struct tw_texts notes, unseen, armed, unarmed;
    struct tw_texts open_texts; /* reasons that the clock experiment could take away */
    /* calls of tw_cmp_unseen so far, also those that repeat a text or were quick */
    size_t doubts;
    bool oom;
    /* only "equal or not" is wanted (classes): no notes, no onsets */
    bool quick;
    char label_a[24], label_b[24]; /* "run 1", "run 3": the two runs at hand */
    struct tw_filters *filters;    /* lines that are left out; NULL: none */
    size_t run_a, run_b;           /* the same as numbers from 0 */
    bool weights_alone;            /* tw_weights_alone() of the two */
    /* of those pairs of runs: how many, and in how many these were compared, too */
    size_t worlds;
    struct tw_worlds_with {
        size_t every, any; /* in each compared step; in some, or at the end alone */
    } worlds_gradients, worlds_moments;
    /* what of the two runs at hand was not compared then, for tw_not_held_told() */
    struct tw_not_held *not_held;
    size_t not_held_count, not_held_room;
    bool failed_a, failed_b; /* did these two fail? */
    bool states_given;       /* generators of the second were set by us, not by the job */
    struct tw_claims claims;
    struct tw_clock *clock; /* the clock experiment; NULL: none was made */
    const char *zoom[2];    /* while a zoom pair is judged: the names of its folders */
    struct tw_ahead *ahead; /* traces that are verified already; NULL: none is */
    /* while two runs are compared without single numbers of collectives: which those are; NULL:
     * they count */
    struct tw_numbers *numbers;
    bool numbers_said; /* that --ignore left out single numbers */
};

/* ---- verdict.c: a verdict before anything is known; the ranges that it owns */
struct twin_verdict *tw_verdict_new(struct tw_cmp *c, size_t runs);
void tw_ranges_free(struct twin_range *r, size_t n);

/* ---- compare.c: the lists of c go to c->v */
void tw_verdict_hand_over(struct tw_cmp *c);
/* Frees what c holds; *out gets the verdict where rc is 0. Returns rc. */
int tw_cmp_close(struct tw_cmp *c, int rc, struct twin_verdict **out);

/* ---- text.c: strings that may run out of memory, lists without duplicates */
char *tw_cmp_text(struct tw_cmp *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *tw_cmp_copy(struct tw_cmp *c, const char *s);
/* takes the string; equal ones are kept once */
void tw_texts_add(struct tw_cmp *c, struct tw_texts *list, char *owned);
void tw_texts_free(struct tw_texts *list);
void tw_cmp_note(struct tw_cmp *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tw_cmp_unseen(struct tw_cmp *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/*
 * How much of a record's name is the tensor's own: of "fc.weight[0:4096]", a part of a large
 * tensor, the length of "fc.weight"; of any other name all of it.
 */
size_t tw_tensor_name_length(const char *name);
/* Makes room for one more element in a growing array; false (and oom) when it cannot. */
bool tw_cmp_room(struct tw_cmp *c, void *array_pointer, size_t count, size_t *room,
                 size_t element_bytes);
/* Does a pattern of --ignore or of a tolerance rule mean this record? It may name the phase and the
 * kind, and of a large tensor that is recorded in parts ("fc.weight[0:4096]") the tensor alone. */
bool tw_pattern_fits(const char *pattern, const char *phase, const char *kind, const char *name);
/* True when "phase/kind/name", or the bare name, matches one of the --ignore patterns. */
bool tw_cmp_ignored(const struct tw_cmp *c, enum twin_phase phase, enum twin_kind kind,
                    const char *name);

/* moves c->notes behind the notes that c->v has already */
void tw_cmp_append_notes(struct tw_cmp *c);

/* ---- opened.c: how a trace is verified */
/* traces up to this size are verified as a whole when they are opened. Tests make it smaller. */
extern uint64_t tw_verified_bytes;
/* The trace of a process that recorded nothing. */
bool tw_trace_is_silent(const struct twin_trace_info *i);

/* A trace that was opened, with its definitions, and what twin_trace_verify() said of it. */
struct tw_opened {
    struct twin_trace *trace;
    int rc;
    struct twin_error fault;
};
/* alone: by this thread alone */
void tw_opened_verify(struct tw_opened *x, bool alone);

/* ---- by_processors.c: each(user, i) for i below count, in any order, by as many threads as there
 * are processors. Returns when all is done. */
void tw_by_processors(size_t count, void (*each)(void *user, size_t i), void *user);

/* ---- ahead.c: traces of several runs are opened and verified by several threads, for the sides
 * that are opened then. share: other processes verify the rest; NULL: there are none. 0,
 * TWIN_ENOMEM, or the trouble of another process; *out goes to tw_ahead_free() in either case. */
int tw_ahead_verify(const struct twin_run *const *runs, size_t n, const struct twin_share *share,
                    struct tw_ahead **out, struct twin_error *err);
/* Hands one over; path: the pointer in the run's list. False: it was not verified ahead. */
bool tw_ahead_take(struct tw_ahead *a, const char *path, struct tw_opened *out);
/* NULL is allowed. What was not taken is closed. */
void tw_ahead_free(struct tw_ahead *a);

/* ---- process.c: the traces of a run, and which of them correspond */
struct tw_proc {
    struct twin_trace *trace;
    const struct twin_trace_info *info;
    const char *path;             /* owned by the run */
    const struct tw_facts *facts; /* of its run: names of checkpoints carry them */
    /* As compared: own_rank, but in the second of two runs whose launchers numbered the places of
     * one mesh otherwise the number that its place has in the first one (roles.c). */
    int32_t rank, own_rank;
    /* with such runs: rank of the first run by own_rank, of both; NULL: numbers are as they are */
    const int32_t *as;
    size_t as_ranks;
    const char *seat; /* its place in the mesh, "pp 1, dp 0"; NULL: not known. Owned by a side */
    uint32_t attempt; /* of a launcher that starts its ranks again; the first is 0 */
    size_t ordinal;   /* among processes of equal rank and role, by start time */
    size_t nth;       /* the same of its attempt alone */
    size_t run;       /* which of the runs it belongs to */
    bool taken;       /* matched with a process of the other run */
    uint64_t *key, *token; /* per series id, filled on demand; 0 = not yet */
    /* where parts of tensors lie, per series id (shards.c), filled on demand; owned by the trace */
    const char **place;
    size_t places;
    size_t series_room;
};

struct tw_facts;
struct tw_scan;
struct tw_side {
    const struct twin_run *run;
    struct tw_facts *facts; /* of the run */
    size_t index;           /* which of the runs */
    struct tw_proc *proc;
    size_t count;
    uint64_t steps; /* finished steps of the process that has most */
    int32_t world;
    uint32_t attempts; /* the last attempt of any process */
    bool closed;       /* every trace of the last attempt was ended in an orderly way */
    bool damaged;      /* a trace could not be opened, or has lost everything */
    int32_t *as;       /* what its processes' `as` points to */
    /* why they are compared by number though a run declares a mesh; NULL: no reason to say so */
    char *by_number;
    char **seat; /* what their `seat` points to, by rank */
    size_t seats;
    /* what its ranks are to hold alike, read by tw_side_replicas() */
    struct tw_replica *replica;
    size_t replicas;
    bool replicas_read;
};

struct tw_pair {
    struct tw_proc *a, *b;
    /* a worker of another process, or without steps of its own while others have some */
    bool auxiliary;
    bool recut;     /* its scan found the same records in other steps */
    int64_t shift;  /* b's step = a's step + shift */
    bool resumed;   /* b goes on inside of a: it need not have a's steps before, nor all behind */
    bool continued; /* another process of b goes on where this one ends, or before */
};

int tw_side_open(struct tw_cmp *c, const struct twin_run *run, size_t index, struct tw_side *side,
                 struct twin_error *err);
void tw_side_close(struct tw_side *side);
/* Pairs processes of one attempt by (rank, role, ordinal); processes of equal rank and role whose
 * records agree are paired first. */
int tw_side_match(struct tw_cmp *c, struct tw_side *a, struct tw_side *b, struct tw_pair **pairs,
                  size_t *count);
const char *tw_proc_role(const struct tw_proc *p);
/* True for a run that ended as it wanted to: what it did not record did not happen. */
bool tw_side_complete(const struct tw_side *s);
/* Did its launcher give this attempt up, and start the ranks again? Where its processes end is a
 * matter of the moment at which they were told to. */
bool tw_proc_given_up(const struct tw_side *s, const struct tw_proc *p);
/* True for a process that ended as it wanted to, in a run that did. */
bool tw_proc_complete(const struct tw_side *s, const struct tw_proc *p);
/* A worker of a data loader: it counts as it likes, and may be killed with its work done. */
bool tw_proc_is_loader(const struct tw_proc *p);
/* of the same rank and role */
bool tw_proc_alike(const struct tw_proc *x, const struct tw_proc *y);
/* Did it record more than the states of its generators and its settings? A launcher that seeded
 * itself did not. */
bool tw_proc_computes(struct tw_proc *p);
/*
 * Must the steps of the two add up? True for trainers and their children, not for loader workers.
 */
bool tw_pair_steps(const struct tw_pair *p);
bool tw_side_stopped(const struct tw_side *s); /* by us: only the overlap counts */
bool tw_side_failed(const struct tw_side *s);  /* non-zero exit, signal, or never started */

/* ---- roles.c: ranks by their place in the mesh that both runs declare. Renumbers b's where its
 * launcher numbered them otherwise, and a note says that; b->by_number says why not. 0 or
 * TWIN_ENOMEM. */
int tw_roles_match(struct tw_cmp *c, struct tw_side *a, struct tw_side *b);
void tw_roles_forget(struct tw_side *s); /* frees what it gave a side */
/* ---- role_names.c: names of a record with the ranks in them renumbered, of a process with `as`;
 * malloc'ed. False: no memory. */
bool tw_names_by_role(const struct tw_proc *p, const char *name, const char *scope, char **name_out,
                      char **scope_out);
/* Which ranks a group of torch.distributed has, as its process says: "0,2"; "": it does not. NULL:
 * of this name it had several. */
const char *tw_group_members(const struct tw_proc *p, const char *scope);

/* ---- view.c: the records of a few steps of one process, in a compact form */
struct tw_rec {
    uint64_t key; /* hash of (phase, kind, name, scope, role) */
    /* the key, for generator states with its consumer: what alignment compares */
    uint64_t token;
    uint64_t layout_hash; /* dtype, shape, offset */
    uint64_t content;     /* layout and digest */
    struct twin_digest digest;
    uint32_t step, seq, occurrence, series, layout, flags, thread;
    uint8_t phase, kind;
    uint64_t whole;         /* elements of the tensor: of a part, and of what was put together */
    const char *name;       /* NULL: its series's */
    uint64_t global_offset; /* with TWIN_REC_OFFSET */
    struct twin_stats stats;
    size_t sketch;           /* index in the view's sketches + 1; 0 = none */
    size_t link, link_count; /* in the view's links */
};

struct tw_view {
    struct tw_proc *proc;
    struct tw_rec *rec;
    size_t count, room;
    struct twin_sketch *sketch;
    size_t sketches, sketch_room;
    uint64_t *link;
    size_t links, link_room;
    uint64_t dropped; /* records of these steps without details */
    uint64_t total;   /* records of these steps, dropped ones included; 0: not known */
    /* the process ended (or was cut) inside: what is missing is unknown */
    bool partial;
    bool cut; /* more than tw_view_limit */
    /* of the dropped ones: stored, but what they are stood in damaged bytes */
    uint64_t nameless;
};

/* How many records of a step are decoded: TW_MAX_STEP_RECORDS. Tests make it smaller. */
extern size_t tw_view_limit;
/* records of a trace in which parts are counted; tests make it smaller */
extern uint64_t tw_whole_limit;
/* Names the damaged stretches that were met in a trace so far, as reasons why not everything was
 * compared. */
void tw_say_damage(struct tw_cmp *c, const struct tw_proc *p);

/* Loads steps first..last. A damaged stretch gives fewer records and dropped > 0. 0, TWIN_ENOMEM,
 * or a trace error. */
int tw_view_load(struct tw_cmp *c, struct tw_proc *p, uint32_t first, uint32_t last,
                 struct tw_view *v, struct twin_error *err);
void tw_view_free(struct tw_view *v);
/* Did the runs call a file otherwise that they agree on? Such names are part of a step's value
 * hash. */
struct tw_stepdiff;
bool tw_view_renamed(const struct tw_view *a, const struct tw_view *b, const struct tw_stepdiff *d);
uint64_t tw_key_hash(uint8_t phase, uint8_t kind, const char *name, const char *scope,
                     const char *role);
uint64_t tw_proc_key(struct tw_proc *p, uint32_t series); /* of a series; 0 = no memory */
uint64_t tw_record_content(struct tw_proc *p, const struct twin_trace_record *r);
uint64_t tw_layout_hash(const struct twin_layout *l); /* of type and shape */
const char *tw_rec_name(const struct tw_view *v, const struct tw_rec *r);
const char *tw_rec_scope(const struct tw_view *v, const struct tw_rec *r);
const char *tw_rec_role(const struct tw_view *v, const struct tw_rec *r);
const char *tw_rec_op(const struct tw_view *v, const struct tw_rec *r);
const char *tw_rec_site(const struct tw_view *v, const struct tw_rec *r);
/* Keeps only the records for which keep() is true. */
void tw_view_filter(struct tw_view *v,
                    bool (*keep)(const struct tw_view *, const struct tw_rec *, void *),
                    void *user);

/* ---- stepdiff.c: two views side by side */
struct tw_diff {
    enum twin_finding_type type; /* VALUE, LAYOUT, ONLY_A, ONLY_B or ORDER */
    size_t a, b;                 /* indices in the views; TW_NONE when absent */
    /* position in the reference's execution sequence: sorts differences */
    size_t at;
    bool carrier;
};

struct tw_stepdiff {
    struct tw_diff *d; /* sorted by at */
    size_t count, room;
    size_t *to_b;   /* per record of a: its counterpart or TW_NONE */
    size_t equal;   /* matched records with equal contents */
    size_t order;   /* how many of d are of type ORDER */
    size_t ignored; /* differences left out by --ignore */
    size_t numbers; /* of these the single numbers ("number:") */
    /* records of the order of parameters that differ: they matter by what follows from them */
    size_t reordered;
    /* parts of large tensors where the other run recorded other parts: unknown */
    size_t elsewhere;
    /* equal records of which one run counts another occurrence: threads in another order */
    size_t renumbered;
    size_t unread; /* matched records whose contents only one of the two has */
    /* names of equal values that several threads recorded: which came n-th is not known */
    size_t schedule;
    /* names of several threads of which records were dropped: what is left over is unknown */
    size_t unnumbered;
};

int tw_stepdiff_make(struct tw_cmp *c, const struct tw_view *a, const struct tw_view *b,
                     struct tw_stepdiff *out);
void tw_stepdiff_free(struct tw_stepdiff *d);
/* Removes the differences for which drop() is true. */
void tw_stepdiff_drop(struct tw_stepdiff *d, bool (*drop)(const struct tw_diff *, void *),
                      void *user);
const struct tw_rec *tw_diff_rec(const struct tw_diff *d, const struct tw_view *a,
                                 const struct tw_view *b, const struct tw_view **view);
bool tw_diff_significant(const struct tw_diff *d); /* not order-only */

/* ---- relevance.c: which differences count */
/* Takes out states of generators that nobody draws from; *dropped says how many. torch_counts:
 * those of torch stay. */
int tw_drop_idle(struct tw_cmp *c, const struct tw_view *va, const struct tw_view *vb,
                 bool torch_counts, struct tw_stepdiff *d, size_t *dropped, struct twin_error *err);
/* Arms: is all that differs a stretch that one of them did in between (and the generators it drew
 * from), with nothing changed that both computed? */
bool tw_only_insertions(const struct tw_view *a, const struct tw_view *b,
                        const struct tw_stepdiff *d, bool tail);

/* ---- causes.c: origin or carrier */
void tw_causes_mark(struct tw_stepdiff *d, const struct tw_view *a, const struct tw_view *b);
/* The place of a record in the flow of a step: lower can cause higher. Orders findings of different
 * ranks. */
int tw_cause_class(uint8_t phase, uint8_t kind);
/* Is it a weight that was found changed where it was about to be used: written by something that is
 * no optimizer? */
bool tw_is_written(uint8_t phase, uint8_t kind);
/* An input of a module that the job had computed. */
bool tw_is_handed(uint8_t phase, uint8_t kind);
/* What a jitted function gave back, and what that is to the job was declared: a weight, a moment, a
 * hyperparameter (jax_calls.py). No optimizer that is seen made it. */
bool tw_is_given_back(uint8_t phase, const char *name, const char *scope);
bool tw_rec_given_back(const struct tw_view *v, const struct tw_rec *r);
/* What came from outside of the computation: batches, indices. */
bool tw_is_data(uint8_t phase, uint8_t kind);
/* The difference to name first: the earliest origin; among gradients without an order of their own
 * the one nearest the loss. */
size_t tw_causes_first(const struct tw_stepdiff *d, const struct tw_view *a,
                       const struct tw_view *b);
const char *tw_layer(enum twin_phase phase, enum twin_kind kind);

/* Can an earlier record of the same step be something that this one was made from? Without links, a
 * guess on the safe side. */
bool tw_may_cause(const struct tw_view *v, const struct tw_rec *earlier, const struct tw_rec *r);

/* ---- origin.c: what may be called an origin */
/* How many numbers a record holds; 0: it holds none, or they cannot be counted. */
uint64_t tw_rec_elements(const struct tw_view *v, const struct tw_rec *r);
/* Does the record cover fewer elements than the tensor has, or none? */
bool tw_rec_in_part(const struct tw_view *v, const struct tw_rec *r);
/* and no record of the view shows the whole tensor */
bool tw_rec_hidden(const struct tw_view *v, const struct tw_rec *r);
/* Were the weights that a step left recorded, other than in samples? */
bool tw_left_whole(struct tw_cmp *c, struct tw_proc *p, uint32_t step);
/* "gradient table of step 3", "aten::addmm of step 3" */
char *tw_rec_say(struct tw_cmp *c, const struct tw_view *v, const struct tw_rec *r);
/* f was made of x and is called an origin: is everything that it is made from known to be equal?
 * Else its role becomes unknown. */
int tw_origin_judge(struct tw_cmp *c, const struct tw_view *a, const struct tw_view *b,
                    const struct tw_diff *x, struct twin_finding *f, struct twin_error *err);

/* ---- carried.c */
/* Says in f, which was made of x, where one run alone was given what the function had given back
 * before. Returns 0 or an error of loading a step. */
int tw_carried_say(struct tw_cmp *c, const struct tw_view *a, const struct tw_view *b,
                   const struct tw_diff *x, struct twin_finding *f, struct twin_error *err);

/* ---- finding.c */
struct twin_finding *tw_finding_new(struct tw_cmp *c, enum twin_finding_type type,
                                    enum twin_phase phase, enum twin_kind kind);
struct twin_finding *tw_finding_from(struct tw_cmp *c, const struct tw_diff *d,
                                     const struct tw_view *a, const struct tw_view *b);
struct twin_finding *tw_finding_copy(struct tw_cmp *c, const struct twin_finding *f);
void tw_finding_clear(struct twin_finding *f);
void tw_finding_free(struct twin_finding *f);
/* *f becomes what n says, and what *f said before is freed with n. */
void tw_finding_replace(struct twin_finding *f, struct twin_finding *n);
/* replaces a string of a finding */
void tw_finding_set(struct tw_cmp *c, char **field, char *owned);
/* Its role is not known: what made it lies between these two. Takes both texts. */
void tw_finding_between(struct tw_cmp *c, struct twin_finding *f, char *from, char *to);
/* Relative L2 distance of two records: exact for single elements, else estimated from sketches; NaN
 * when neither. */
double tw_rec_distance(const struct tw_view *va, const struct tw_rec *a, const struct tw_view *vb,
                       const struct tw_rec *b, double *absolute, bool *exact);

struct tw_findings {
    struct twin_finding *f;
    size_t n, room;
};
/* takes f (may be NULL) */
void tw_findings_take(struct tw_cmp *c, struct tw_findings *list, struct twin_finding *f);
void tw_findings_free(struct tw_findings *list);

/* ---- pair.c: two runs */
struct tw_pair_result {
    bool differs, failed_alike; /* failed_alike: both failed, with equal records */
    bool value;                 /* a recorded value differs, not just outcome or output */
    int64_t step;               /* where they part; -1 when that is not at a step */
    struct tw_findings origins; /* [0] is named first */
    struct tw_findings benign;
    struct tw_texts unknown;
    char *equal_before;
    uint64_t equal_records, steps_compared;
    /* what differs are values, and none of those judged so far is outside of the tolerance */
    bool within;
    int64_t shift;
    bool shift_found;
    struct twin_range *ranges;
    size_t range_count;
    struct twin_rank_order *order; /* NULL: there is nothing to order */
};
int tw_pair_compare(struct tw_cmp *c, struct tw_side *a, struct tw_side *b,
                    struct tw_pair_result *r, struct twin_error *err);
void tw_pair_result_free(struct tw_pair_result *r);

/* ---- outcome.c: how the runs ended */
/* A finding when one failed and the other did not, or they ended elsewhere; NULL when they ended
 * alike. */
struct twin_finding *tw_outcome_compare(struct tw_cmp *c, const struct tw_side *a,
                                        const struct tw_side *b);
/* A finding when torchrun started the ranks of one run again more often; NULL when it did not. */
struct twin_finding *tw_attempts_compare(struct tw_cmp *c, const struct tw_side *a,
                                         const struct tw_side *b);
/* A finding when processes that matter have no counterpart; NULL when none. */
struct twin_finding *tw_ranks_compare(struct tw_cmp *c, const struct tw_side *a,
                                      const struct tw_side *b);
/* A finding when processes of runs that ended well have other numbers of steps; NULL when none. */
struct twin_finding *tw_steps_compare(struct tw_cmp *c, const struct tw_side *a,
                                      const struct tw_side *b, const struct tw_pair *pairs,
                                      size_t count);
/* A finding that says `text` (taken; may be NULL) in a line. */
struct twin_finding *tw_outcome_new(struct tw_cmp *c, enum twin_finding_type type, const char *name,
                                    char *text, uint64_t step);
/* "exit code 1", "signal 9 (Killed)" */
char *tw_outcome_text(struct tw_cmp *c, const struct twin_run *r);

/* ---- coverage.c: was enough seen to say "same"? Adds to c->unseen. */
/* other: the run that side is compared with; NULL: a baseline */
void tw_coverage(struct tw_cmp *c, const struct tw_side *side, const struct tw_side *other,
                 struct tw_scan *scans, size_t count);
void tw_coverage_notes(struct tw_cmp *c, const struct tw_side *side);

/* ---- side_traces.c: traces that agents write beside those of the ranks, FOLDER/ in the run folder
 */
struct tw_side_trace {
    struct twin_trace *trace;
    int32_t rank; /* as compared */
};
struct tw_side_traces {
    const struct tw_side *side;
    struct tw_side_trace *item; /* by the names of their files */
    size_t count, room;
    uint64_t lost; /* records that are missing, in any of them */
    bool unread;   /* one could not be read, or has no end */
};
/* lost_key: of the note of what an agent did not record. Free it also after trouble. */
void tw_side_traces_open(struct tw_cmp *c, const struct tw_side *side, const char *folder,
                         const char *lost_key, struct tw_side_traces *out);
void tw_side_traces_free(struct tw_side_traces *b);

/* ---- kernels.c: what two runs launched on GPUs; a note. differ: something else of them does. */
void tw_kernels(struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b, bool differ);

/* ---- choices.c: what NCCL chose for the collectives of two runs; a note. differ: something else
 * of them does. */
void tw_choices(struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b, bool differ);
/* calls of a run that are looked at; a test makes it smaller */
extern size_t tw_choices_most;

/* ---- facts.c: what agents noted, where it explains what differs */
/* The parameters reached an optimizer in another order: named first where what differs may follow
 * from it, else a note. */
void tw_order_of_parameters(struct tw_cmp *c, const struct tw_scan *s, struct tw_pair_result *r,
                            struct twin_error *err);
/* Runs that differ: shared weights, draws before any seed. */
void tw_facts(struct tw_cmp *c, const struct tw_side *sides, size_t n);

/* ---- whole.c: large tensors that are recorded in parts, in turns */
/* A part (TWIN_REC_PART) whose tensor the view's parts do not cover whole. */
bool tw_part_alone(const struct tw_view *v, const struct tw_rec *r);
/* The other view has parts of the same tensor, but not this one: what it holds there is unknown. */
bool tw_part_elsewhere(const struct tw_view *own, const struct tw_rec *r,
                       const struct tw_view *other);
/* How much of the weights, or of the optimizer's state, a step's records hold, of 1. */
double tw_share_of_elements(struct tw_proc *p, uint32_t step, enum twin_kind kind);
/* Is every element covered, and whole at the end of what was compared? Adds to c->v->covers, notes
 * and c->unseen. */
void tw_whole(struct tw_cmp *c, const struct tw_scan *scans, size_t count);

/* ---- replicas.c: weights of one run that its ranks should hold equal: what is not so, as notes */
void tw_replicas(struct tw_cmp *c, struct tw_side *side);
extern size_t tw_replica_rows; /* records of a rank that are looked at; tests make it smaller */

#endif
