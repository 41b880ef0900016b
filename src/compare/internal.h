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

/* ---- finding.c */
struct twin_finding *tw_finding_new(struct tw_cmp *c, enum twin_finding_type type,
                                    enum twin_phase phase, enum twin_kind kind);
struct twin_finding *tw_finding_from(struct tw_cmp *c, const struct tw_diff *d,
                                     const struct tw_view *a, const struct tw_view *b);
struct twin_finding *tw_finding_copy(struct tw_cmp *c, const struct twin_finding *f);
void tw_finding_clear(struct twin_finding *f);
void tw_finding_free(struct twin_finding *f);
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

/* ---- scan.c: where a pair of processes first parts */
/* What both had in a step that was decoded because it is not the same in both: only that much of it
 * was compared. */
struct tw_shared {
    uint32_t step;           /* of a */
    uint32_t records;        /* equal in both */
    uint16_t phases, values; /* in which of them: results and inputs; recorded values */
};
/* The compared steps of which both had records of one kind. */
struct tw_in_steps {
    uint64_t n;
    uint32_t first, last;
};
/* One part of "equal: ..." and how many records of the step it stands for; records 0: it was handed
 * on by the step before. */
struct tw_equal {
    const char *label;
    uint64_t records;
    bool others; /* of a kind of which one differs */
};
#define TW_EQUAL_MAX 20

struct tw_scan {
    const struct tw_pair *pair;
    int64_t shift;     /* b's step = a's step + shift */
    bool found;        /* a significant difference */
    bool weights_only; /* arms of different world size: of a step its updated weights */
    /* with weights_only: of these some were compared, too; in which of how many steps */
    bool gradients, moments;
    struct tw_in_steps of_gradients, of_moments;
    uint64_t looked;
    uint32_t looked_to; /* steps of a below this are among them */
    /* with weights_only: whose ranks' parts were put together; NULL: parts were left out */
    const struct tw_side *side_a, *side_b;
    /* tokens of tensors that one run had in parts by turns, the other as a whole (turns.c) */
    uint64_t *joined;
    size_t joins, join_room;
    bool added_up;              /* of these some were put together of several ranks' parts */
    uint32_t step;              /* of a */
    int cls;                    /* cause class of the first difference */
    int turn;                   /* tw_mpi_turn() of it */
    struct tw_findings origins; /* the frontier; [0] is named first */
    struct tw_findings benign;
    struct tw_findings order;    /* order-only differences seen before */
    struct tw_findings inserted; /* arms: what one of them did in between, by kind and name */
    /* batches that a resumed b read and dropped before its first step */
    uint32_t skipped;
    char *equal_before;
    uint64_t equal_records;
    struct tw_equal equal[TW_EQUAL_MAX]; /* what equal_before is made of */
    size_t equal_count;
    bool tail_compared; /* what came after the last finished step, too */
    /* records that one run could not read; steps whose dropped records may differ */
    uint64_t unread, undecided;
    uint64_t steps_compared;
    uint64_t first, end;      /* these steps of a: [first, end) */
    struct tw_shared *shared; /* ascending by step */
    size_t shares, share_room;
    uint64_t records; /* of a, that were compared: tw_coverage fills it */
    /* what came after the last step was compared, too; it is shared[shares - 1] */
    bool tail_seen;
    bool local_seen, local_differs; /* local gradients in the step where they part */
    bool recut;                     /* threads: the same records, cut into steps in another way */
    bool cut; /* threads: the same records as far as both go, from step `end` on in other steps */
    /* steps with values whose order among several threads is not known */
    uint64_t scheduled;
    uint32_t scheduled_at; /* the first of them */
    bool tail_unknown;     /* the unfinished last step could not be compared in full */
    uint64_t numbers;      /* single numbers that differ and that --ignore leaves out */
    /* parts of large tensors that only one of the two recorded in a step */
    uint64_t elsewhere;
    /* the parameters reached an optimizer in another order, first at step `reordered_at` */
    bool reordered;
    uint32_t reordered_at;
};

int tw_scan_pair(struct tw_cmp *c, const struct tw_pair *p, const struct tw_side *a,
                 const struct tw_side *b, int64_t shift, uint32_t from, struct tw_scan *out,
                 struct twin_error *err);
/* Fills out from two views that were already made (a seam, restricted views). drop (may be NULL)
 * takes out differences that do not count. Sets out->found. 0 or an error. */
int tw_scan_views(struct tw_cmp *c, const struct tw_view *a, const struct tw_view *b,
                  bool (*drop)(const struct tw_diff *, void *), void *user, struct tw_scan *out,
                  struct twin_error *err);
/* What was equal in a step before one of its differences: a sentence part, and how many records
 * that were. */
void tw_equal_before(struct tw_cmp *c, const struct tw_pair *pair, const struct tw_view *a,
                     const struct tw_view *b, const struct tw_stepdiff *d,
                     const struct tw_diff *first, int64_t shift, char **text, uint64_t *records);
void tw_scan_free(struct tw_scan *s);
/* Differences of one step after --ignore and the idle-generator rule; views and diff are the
 * caller's to free. */
int tw_scan_step(struct tw_cmp *c, const struct tw_scan *s, uint32_t step, struct tw_view *va,
                 struct tw_view *vb, struct tw_stepdiff *d, struct twin_error *err);

/* ---- numbers.c: records of one floating-point number, that may be an elapsed time */

/* --ignore 'number:FIRST-LAST:GLOB': steps of the first run, and the records' names. */
struct tw_number_pattern {
    uint32_t first, last;
    const char *glob; /* in the pattern */
};
/* Those that were left out of one comparison. */
struct tw_numbers {
    size_t count;
    uint32_t first, last; /* steps of the first run */
    char name[64];        /* of the first; cut */
    bool several;         /* others have other names */
};
/* Does the pattern begin as one of numbers? */
bool tw_number_pattern_is(const char *pattern);
/* False: it is none, or no good one. */
bool tw_number_pattern_read(const char *pattern, struct tw_number_pattern *out);
/* Of two counterparts whose values differ: is each one number, and left out? */
bool tw_number_left_out(struct tw_cmp *c, const struct tw_view *a, const struct tw_rec *x,
                        const struct tw_view *b, const struct tw_rec *y);

/* ---- numbers_alone.c: a note where such numbers of collectives are all that differs between the
 * runs of the verdict. 0 or an error of comparing. */
int tw_numbers_tell(struct tw_cmp *c, struct tw_side *a, struct tw_side *b, struct twin_error *err);

/* ---- messages.c: records of messages and collectives (agents/mpi, PyTorch's distributed.py) */

/* Is it one, of a call of that name? */
bool tw_is_mpi(uint8_t phase, const char *name);
/* The length of the name of a collective without the "_c" of calls with large counts:
 * MPI_Allreduce_c is the same collective as MPI_Allreduce. */
size_t tw_mpi_name_length(const char *name);
/* Is it what a rank gave to others, or got in a message? It was made elsewhere. */
bool tw_is_given(uint8_t phase, uint8_t kind, const char *name);
/* Which of the ranks that diverge in one step comes first: 0 what a rank gave, 1 what came out of a
 * collective, 2 a message that arrived; 0 for all other records. */
int tw_mpi_turn(uint8_t phase, uint8_t kind, const char *name);
/* What was seen last before such a record was made; NULL: no memory. */
char *tw_mpi_before(struct tw_cmp *c, const struct tw_view *v, size_t index);
/* For what came out of a collective, and is named first: an origin when what all ranks gave to that
 * call was seen and equal. */
void tw_mpi_judge(struct tw_cmp *c, const struct tw_scan *scans, size_t n,
                  const struct tw_scan *best, int32_t world, struct twin_error *err);
/* Notes which call of the run it is, and whether messages had come in another order before. */
void tw_mpi_tell(struct tw_cmp *c, const struct tw_scan *best);

/* ---- frontier.c: of the ranks that differ, which did so by itself, and which only took it */
struct tw_frontier {
    struct twin_rank_order *order; /* NULL: there is nothing to order */
    struct tw_scan *first;         /* to be named; NULL: as steps say */
    struct tw_scan **scan;         /* of each item of order */
    bool one_call;                 /* those that are not carried came out of one call */
    bool against_steps;            /* equal numbers of steps are not one time on all ranks */
};
/* best: what steps and the flow of a step would name. 0 or TWIN_ENOMEM; tw_frontier_free() in
 * either case. */
int tw_frontier_make(struct tw_cmp *c, struct tw_scan *scans, size_t n, struct tw_scan *best,
                     int32_t world, struct tw_frontier *out, struct twin_error *err);
/* Its place; UNKNOWN where it has none. */
enum twin_rank_place tw_frontier_place(const struct tw_frontier *f, const struct tw_scan *s);
/* Notes who took what from whom, and claims it. */
void tw_frontier_tell(struct tw_cmp *c, const struct tw_frontier *f, const struct tw_scan *best);
void tw_frontier_free(struct tw_frontier *f);
void tw_rank_order_free(struct twin_rank_order *o);

/* ---- grid.c: ranks of a grid that are chosen evenly; those that the order of ranks names come
 * besides. Tests make it smaller. */
extern size_t tw_grid_rows;

/* ---- waiting.c: notes of a run that failed or was ended who waited in which collective of MPI */
void tw_waiting(struct tw_cmp *c, const struct tw_side *side);

/* ---- streams.c: are all records of every thread and scope equal, and in the same order, from
 * beginning to end, however they were cut into steps? DIFFER also when only one thread recorded, or
 * records are missing. UNKNOWN: equal, as far as can be told without knowing in which order several
 * threads recorded under one name. */
enum tw_streams_verdict { TW_STREAMS_DIFFER, TW_STREAMS_EQUAL, TW_STREAMS_UNKNOWN };
enum tw_streams_verdict tw_streams_compare(struct tw_cmp *c, const struct tw_pair *p);
/* Several threads, and one of the traces, or both, were cut: are the records of every name and
 * scope equal, and in the same order, as far as both go? Only what was cut may lack its end. False
 * also where several threads recorded under one name. */
bool tw_streams_agree_until_cut(struct tw_cmp *c, const struct tw_pair *p, bool cut_a, bool cut_b);

/* ---- steps.c: one small entry per finished step */
struct tw_step_entry {
    uint64_t hash;
    uint32_t records;
    uint16_t phases;
    bool known;
};
struct tw_steps {
    struct tw_step_entry *step;
    size_t n;
    bool cut; /* there are more steps than tw_steps_most */
};
extern uint64_t tw_steps_most;
/* The step of b that stands beside the one that the scan has found. */
uint64_t tw_found_in_b(const struct tw_scan *s);
/* from: the first step that is wanted */
int tw_steps_load(struct tw_cmp *c, struct tw_proc *p, uint64_t from, struct tw_steps *out,
                  struct twin_error *err);
void tw_steps_free(struct tw_steps *s);

/* ---- trend.c: what happens after the first difference, NaN onset */
void tw_trend(struct tw_cmp *c, const struct tw_scan *s, struct twin_error *err);
/* traces that are read in search of NaN. Tests make it smaller. */
extern uint64_t tw_nonfinite_bytes;
void tw_nonfinite(struct tw_cmp *c, const struct tw_side *sides, size_t n);

/* ---- shift.c: resumed arms */
/* Where the process b of a pair goes on in a, by the weights that it starts with. */
struct tw_place {
    int64_t step; /* of a; b's step 0 */
    bool found;
    size_t weights, known; /* that b starts with; of these a has some of the same names */
    size_t cut;            /* weights over other numbers of ranks: not looked for */
};
int tw_shift_of(struct tw_cmp *c, const struct tw_pair *p, struct tw_place *out,
                struct twin_error *err);
/* Does b begin with the weights that a had before its step k? False where that is not known. One
 * step of each is read. */
bool tw_shift_is(struct tw_cmp *c, const struct tw_pair *p, uint32_t k);
/* Compares the seam: a's end of step K-1 and its step K with b's start and step 0. */
int tw_shift_seam(struct tw_cmp *c, const struct tw_pair *p, uint32_t k, struct tw_scan *out,
                  struct twin_error *err);

/* ---- asked_ranks.c: runs of one command with several numbers of ranks (o->ranks) */
/* Are these two runs of one number? False where nobody said how many ranks each has. */
bool tw_of_one_number(const struct twin_compare_options *o, size_t a, size_t b);
/* The first run with as many ranks as run i; 0 where nobody said. */
size_t tw_first_of_number(const struct twin_compare_options *o, size_t i);
/* A run of n of which the command is another one than that of run i; i: there is none. */
size_t tw_of_other_command(const struct twin_compare_options *o, size_t n, size_t i);
/* How many comparisons with run 1 add to the records that were compared. */
size_t tw_pairs_counted(const struct twin_compare_options *o, size_t n);
/* Puts the numbers into the verdict, with what was compared between them; a reason where the runs
 * do not have the ranks that they were to have. */
void tw_ranks_as_asked(struct tw_cmp *c, const struct tw_side *side, size_t n);

/* ---- thread_counts.c: notes of pairs whose processes told other numbers of PyTorch's threads.
 * differs: something differs between the two runs. Notes only: no cause, no finding. */
void tw_thread_counts(struct tw_cmp *c, const struct tw_side *a, const struct tw_pair *pairs,
                      size_t n, bool differs);

/* "1 thread of PyTorch in run 1 and 2 in run 2". malloc'ed; NULL: these two processes told the same
 * number, or one of them told none, or there is no memory. */
char *tw_threads_unlike(struct tw_cmp *c, const struct tw_proc *a, const struct tw_proc *b);

/* ---- worlds.c: arms of different world size, or whose ranks hold other parts of weights */
/* Are the two sides such arms? Then ranks cannot be compared one by one. */
bool tw_weights_alone(const struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b);
/*
 * Only weights can be compared, rank 0's for all, after each step and at the end of the job. Where
 * they are cut over ranks, those of the sides are put together; without sides (both NULL) they are
 * left out.
 */
int tw_weights_only(struct tw_cmp *c, const struct tw_pair *p, const struct tw_side *a,
                    const struct tw_side *b, int64_t shift, struct tw_scan *out,
                    struct twin_error *err);
/*
 * What differs in one step that tw_weights_only() compares. The caller frees the views and *d where
 * 0 is returned. *left_out: large tensors that could not be compared.
 */
int tw_weights_step(struct tw_cmp *c, const struct tw_scan *s, uint32_t step, struct tw_view *a,
                    struct tw_view *b, struct tw_stepdiff *d, size_t *left_out,
                    struct twin_error *err);
/* Notes what both have of a step that was compared, and counts the step, once. */
void tw_worlds_count(struct tw_cmp *c, struct tw_scan *s, uint32_t step, const struct tw_view *a,
                     const struct tw_view *b);
/* Were equal weights, as the optimizer left them, seen in each of these steps of a: [from, to)? */
bool tw_weights_in_each(const struct tw_scan *s, uint32_t from, uint32_t to);
/* Notes what was compared of two such sides, and in which steps where that is not each one. */
void tw_worlds_say(struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b,
                   const struct tw_scan *scans, size_t n);
/*
 * Then no hash of a step covers what was dropped of it: says so, which is a reason against "same".
 */
void tw_say_lost_weights(struct tw_cmp *c, const struct tw_view *v, uint32_t step);
/* ---- held.c: gradients and optimizer state between other numbers of ranks */
/* For tw_view_filter(): the weights of a step that are compared then. */
bool tw_is_updated_weight(const struct tw_view *v, const struct tw_rec *r, void *user);
/* The same, with the gradients that the optimizer read, and its state. */
bool tw_is_training_state(const struct tw_view *v, const struct tw_rec *r, void *user);

/* Notes which gradients and optimizer state of the two runs were not compared, and why. */
void tw_not_held_told(struct tw_cmp *c);
/* Reads what the ranks of a side are to hold alike (replicas.h), once. */
void tw_side_replicas(struct tw_cmp *c, struct tw_side *side);

/* ---- shards.c: tensors that are cut over ranks */
/* Is it a rank's part of a tensor? */
bool tw_is_shard(const struct tw_rec *r);
bool tw_has_shards(struct tw_proc *p);               /* does it say that it recorded some? */
bool tw_side_has_shards(const struct tw_side *side); /* does one of its processes? */
/* Do two processes hold other parts of the same weights, or only one of them parts at all? */
bool tw_cut_otherwise(struct tw_proc *p, struct tw_proc *q);
/* Are the parts that p recorded added to those of this process of rank 0? */
bool tw_adds_to(const struct tw_proc *p, const struct tw_proc *zero);
/*
 * For a finding of records that were put together: notes which ranks hold the elements that differ,
 * or that this is not known, and sets the finding's rank and its number of elements.
 */
void tw_shards_name(struct tw_cmp *c, const struct tw_side *sa, const struct tw_view *a,
                    const struct tw_side *sb, const struct tw_view *b, struct twin_finding *f);

/* ---- turns.c: large tensors in parts by turns, held against wholes */
/*
 * Of tensors that one view has in parts and the other as a whole: joins the parts, or leaves the
 * tensor out of both where they are not all of it; *left_out: how many. Returns 0 or an error.
 */
int tw_turns_join(struct tw_cmp *c, struct tw_view *a, struct tw_view *b, struct tw_scan *out,
                  size_t *left_out, struct twin_error *err);
/* The token of the tensor that a record is of, also where it is a part by turns; 0: no memory. */
uint64_t tw_tensor_token(const struct tw_view *v, const struct tw_rec *r);
/* Says in how many steps some were left out, and how many in the last one. */
void tw_turns_say(struct tw_cmp *c, const struct tw_scan *s, uint64_t steps, size_t at_end);

/* ---- chain.c: arms: at which step of a each process of b begins */
/* Sets the shift of every pair, and adds a pair for each further trainer of b that goes on
 * somewhere in one of a's. *place: of the first pair that trains. */
int tw_chain(struct tw_cmp *c, struct tw_side *a, struct tw_side *b, struct tw_pair **pairs,
             size_t *count, struct tw_place *place, struct twin_error *err);

/* ---- range.c: what of each process was compared, held against what was asked for */
/* One range per scan, rank by rank. */
int tw_ranges_make(struct tw_cmp *c, const struct tw_scan *scans, size_t count,
                   struct twin_range **out, size_t *n);
/* What was asked for and not compared goes to c->unseen; when the runs differ, to the notes. */
void tw_ranges_account(struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b,
                       const struct tw_scan *scans, size_t count, bool differs);
/* What a run did not record at all, of what it says that there is: lost calls, silent ranks. other:
 * NULL, or a run that may have recorded them. */
void tw_account_side(struct tw_cmp *c, const struct tw_side *side, const struct tw_side *other,
                     bool differs);

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
void tw_coverage(struct tw_cmp *c, const struct tw_side *side, struct tw_scan *scans, size_t count);
void tw_coverage_notes(struct tw_cmp *c, const struct tw_side *side);

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

/* ---- run_facts.c: what is known of a run itself. Where it shows in what the job printed or named,
 * it means nothing. */
/* The seconds since 1970 in which a bare number is a time stamp: of numbers of ten digits almost
 * every fourth lies in this century's first third, and most of those are checksums, seeds and
 * results. */
struct tw_noise_span {
    /* [0] by this machine's clock, which files keep; [1] by the one that the job was shown */
    double from[2], to[2];
};
/* from a day before the run to a day after it */
struct tw_noise_span tw_noise_span(const struct twin_run *run);

struct tw_facts {
    struct tw_noise_span span;
    /* seconds since 1970, of the run as the job saw it; end < start: any time of day fits */
    double start, end;
    double elapsed; /* of the run, in seconds; infinite when not known */
    double clock;   /* CLOCK_MONOTONIC when the run began, in seconds; 0: not known */
    long *id;       /* processes of the run and its launcher, sorted */
    size_t id_count;
    /* every process and thread that was made during the run has an id between these; 0, 0: not
     * known */
    long id_low, id_high;
    int exit_code;   /* of the job's command, where it failed with one; else 0 */
    const char *dir; /* the run folder; everything borrowed lives as long as the run */
    const char *host;
    char *const *fresh; /* folders that took the next free number: "version_1" */
    size_t fresh_count;
    /* arms: "name=value" of options that only this arm has, or has with another value */
    char **option;
    size_t option_count;
};
bool tw_facts_load(const struct twin_run *run, struct tw_facts *out); /* false: no memory */
/* Arms: the options of a run whose command is not that of the run it is compared with. False: no
 * memory. */
bool tw_facts_options(const struct twin_run *run, const struct twin_run *other,
                      struct tw_facts *out);
/* One more id that means this run, such as its number in a queue. False: no memory. */
bool tw_facts_add_id(struct tw_facts *f, long id);
void tw_facts_free(struct tw_facts *f);
bool tw_facts_has_id(const struct tw_facts *f, long id);
bool tw_facts_near_id(const struct tw_facts *f, long id);           /* made during the run */
bool tw_facts_has_second(const struct tw_facts *f, double seconds); /* since 1970: near the run */
/* CLOCK_MONOTONIC: during the run */
bool tw_facts_has_reading(const struct tw_facts *f, double seconds);
/* year 0: any of the run's */
bool tw_facts_has_date(const struct tw_facts *f, int year, int month, int day);
/* a time of day, or elapsed */
bool tw_facts_has_clock(const struct tw_facts *f, int hour, int minute, double second);

/* ---- shape.c: forms that a fact of the run can take in a text: dates, clocks, time stamps, ids,
 * addresses, temporary names. Returns how many bytes at `at` are noise, 0 when none are. */
size_t tw_shape_at(const char *line, size_t at, const struct tw_facts *f);
size_t tw_number_length(const char *p); /* of the number that begins there; 0: none does */

/* ---- grammar.c: what kind of number is it, by its unit and its label? */
enum tw_worth { TW_RESULT, TW_OPEN, TW_NOISE };
/* The number line[at .. at + n). *length is what belongs to it: the number, with its unit when that
 * makes it noise. */
enum tw_worth tw_grammar_worth(const char *line, size_t at, size_t n, size_t *length,
                               bool *by_label);

bool tw_grammar_names_result(const char *line, size_t at); /* "loss", "acc" */

/* ---- duration.c. The number line[at .. at + n) has a unit of time behind it: can the run have
 * measured so much? */
bool tw_duration_fits(const char *line, size_t at, size_t n, const struct tw_facts *f);

/* ---- clock_world.c: learns from c->o->faster, held against the first run */
int tw_clock_experiment(struct tw_cmp *c, struct tw_side *first, struct twin_error *err);
void tw_clock_free(struct tw_cmp *c); /* clock_columns.c */

/* ---- noise.c: lines and names with their noise masked */
enum tw_mask {
    TW_MASK_NOISE,  /* '~' for each part that is shown to be noise */
    TW_MASK_OPEN,   /* and for each of which it is not known */
    TW_MASK_NUMBERS /* and '#' for every number, noise or not: what the line says, not how much */
};
/* A copy of the line with parts masked and white space left out where it only separates. NULL = no
 * memory. */
char *tw_noise_mask(const char *line, size_t n, const struct tw_facts *f, enum tw_mask mask);
/* Two lines of one meaning: is every number that differs noise in both? *open: no, but none of
 * those is surely a result. */
bool tw_noise_equal(const char *a, size_t n, const struct tw_facts *fa, const char *b, size_t m,
                    const struct tw_facts *fb, bool *open);
/* A number of two lines of one meaning of which it is not known whether it is a result, with its
 * unit. */
struct tw_noise_pair {
    size_t token;
    const char *a, *b;
    size_t a_bytes, b_bytes;
    bool of_result; /* its label names a result */
};
typedef void tw_noise_pair_fn(void *user, const struct tw_noise_pair *p);
/* Calls `each` for every such number. False: no memory. */
bool tw_noise_each_open(const char *a, size_t n, const struct tw_facts *fa, const char *b, size_t m,
                        const struct tw_facts *fb, tw_noise_pair_fn *each, void *user);
/* How much of their words two lines share, 0 to 1. */
double tw_noise_alike(const char *a, size_t n, const char *b, size_t m);
/* A path, or a name of a file in a record, with the facts of its own run masked: the same file has
 * the same one in both runs. NULL = no memory. */
char *tw_noise_name(const char *name, const struct tw_facts *f);
/* Step named by a printed line ("step 12", "epoch 3"); -1 when none. */
int64_t tw_noise_step(const char *line);

/* ---- output.c, files.c: evidence of last resort */
struct tw_last_resort {
    /* in: b's step = a's step + shift, for lines that name their step */
    int64_t shift;
    /* in: arms that end at other steps show other results at their ends */
    bool other_ends;
    struct tw_findings findings; /* differences that are real */
    struct tw_findings benign;
    struct tw_texts unknown; /* differences of which it is not known whether they matter */
};
/* ---- lines.c: two texts, line by line */
struct tw_text {
    const char *data;
    size_t bytes;
    const struct tw_facts *facts;
};
struct tw_lines {
    const char *name;    /* "stdout", or a file's path */
    const char *name_b;  /* the same file in the other run */
    enum twin_kind kind; /* TWIN_KIND_LINE or TWIN_KIND_FILE */
    struct tw_text a, b;
    bool ordered; /* the order of its lines is part of what it says */
    /* both are all that was written by runs that ended: text of one alone counts */
    bool whole;
    /* processes that print at once: one's line may begin where another's has not ended */
    bool several_writers;
    int64_t shift;
    bool other_ends; /* numbers count only in lines that name a step */
    bool grows;      /* only what was added to it is looked at */
};
void tw_lines_compare(struct tw_cmp *c, const struct tw_lines *l, struct tw_last_resort *out);
/* json_order.c: the text with the members of each object sorted by their keys, and else as it is
 * (compact: without blanks between values). *sorted is NULL when the text is no JSON; malloc'ed.
 * 0 or TWIN_ENOMEM. */
int tw_json_sorted(const char *text, size_t n, bool compact, char **sorted, size_t *length);
/* The finding or the note that says `text` (taken; may be NULL) of a file or a stream. */
struct twin_finding *tw_lines_finding(struct tw_cmp *c, const char *name, const char *name_b,
                                      enum twin_kind kind, char *text);
/* ---- filters.c: --ignore 'line:REGEX'. 0, or TWIN_EINVAL that names the expression. */
bool tw_lines_left_out(const struct tw_cmp *c, const char *text, size_t n);
int tw_lines_filters(struct tw_cmp *c, struct twin_error *err);
void tw_lines_filters_free(struct tw_cmp *c);

int tw_output_compare(struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b,
                      struct tw_last_resort *out);
int tw_files_compare(struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b,
                     struct tw_last_resort *out);
void tw_last_resort_free(struct tw_last_resort *r);

/* ---- claims.c: what each sentence of the verdict rests on (docs/format/verdict.md) */
/* Those of two runs: which steps of which traces were equal, what was listed as equal, which
 * processes had no counterpart. */
void tw_claims_of_pair(struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b,
                       const struct tw_scan *scans, size_t n, const struct tw_scan *named);
/* Lines of a stream that differ in noise only: which of one run is which of the other, as indices
 * from 0. */
void tw_claim_noise(struct tw_cmp *c, const char *stream, size_t (*pairs)[2], size_t n);
/* Evidence in a stream (line: index from 0 of those shown) or of a file. */
void tw_evidence_line(struct twin_evidence *e, const char *file, size_t line);
/* Fills a record's evidence: its trace, step, number and digest. */
void tw_evidence_set(struct twin_evidence *e, const struct tw_view *v, const struct tw_rec *r);
/* The same of a record that a link names; without a digest when its step is not loaded. */
void tw_evidence_link(struct twin_evidence *e, const struct tw_view *v, uint64_t link);
/* ---- claims_numbers.c: behind "then", "drift" and "nan". every_step: each step from the first
 * difference on was looked at */
void tw_claim_onset(struct tw_cmp *c, const struct tw_scan *s, const struct twin_onset *o,
                    bool every_step);
void tw_claim_printed(struct tw_cmp *c, const char *stream, const struct twin_onset *o,
                      size_t line_a, size_t line_b);
void tw_claim_drift(struct tw_cmp *c, const struct tw_scan *s, const char *what, const double *step,
                    size_t points, double factor);
struct tw_nonfinite_at {
    uint32_t step, number;
    enum twin_kind kind;
    bool nan;
    const char *name;
};
/* runs: those that were looked through, from 0; have: how many of them have one. */
void tw_claim_nonfinite(struct tw_cmp *c, const struct tw_proc *p, const struct tw_nonfinite_at *at,
                        const size_t *runs, size_t n, size_t have);

/* ---- transplant_claims.c */
struct tw_transplanted_run {
    const struct twin_run *reference, *run;
    enum twin_transplant_kind kind;
    uint32_t first, steps;
    uint64_t left_out, unequal, judged[3]; /* steps; judged: for data, generators, computing */
    const struct twin_origin *origin;
    size_t origins;
    /* each origin in each step that showed it */
    const struct tw_seen {
        size_t origin;
        uint32_t step;
    } *see;
    size_t seen;
};
void tw_claim_transplanted(struct tw_cmp *c, const struct tw_transplanted_run *r);
/* An operation that was run again on its recorded inputs, in the runs of a zoom pair. call: the one
 * call of the second that was; NULL: the one that its command named. */
void tw_claim_replays(struct tw_cmp *c, const struct twin_finding *f, const struct twin_run *a,
                      const struct twin_run *b, const char *call, unsigned replays,
                      unsigned disagree);

void tw_claims_equal(struct tw_cmp *c, const struct tw_scan *s); /* what a scan lists as equal */
/* moves c->claims behind those that c->v has already */
void tw_claims_append(struct tw_cmp *c);
void tw_claims_free(struct twin_claim *claim, size_t n);

/* ---- tolerance.c */
struct tw_tolerance_rule {
    char *pattern, *reason;
    double rel_l2, abs, rtol, atol, ulp;             /* 0: not given */
    uint64_t matched, measured, unmeasured, outside; /* differences that it was applied to */
    /* share of what it allows; -1: nothing measured */
    double worst;
    char *where;
};
struct tw_tolerance {
    struct tw_tolerance_rule *rule;
    size_t n, room;
};
int tw_tolerance_load(const char *path, struct tw_tolerance **out, struct twin_error *err);
void tw_tolerance_free(struct tw_tolerance *t);
struct tw_tolerance_rule *tw_tolerance_for(struct tw_tolerance *t, const char *phase,
                                           const char *kind, const char *name);
/* One difference. stats_*: NULL when not recorded. relative, absolute: of the L2 distance; NaN when
 * it is not known. */
struct tw_measure {
    bool missing;
    double relative, absolute, ulp;
    uint64_t elements;
    const struct twin_stats *stats_a, *stats_b;
};
void tw_rec_measure(const struct tw_view *va, const struct tw_rec *a, const struct tw_view *vb,
                    const struct tw_rec *b, struct tw_measure *m);
/* Begins with worst = -1. outside, open: the first difference that is outside, that could not be
 * judged; unknown: the first step of which something is missing. few_kept: the reference is a
 * baseline, which keeps numbers of few steps: the verdict then says in which steps it judged
 * (span), and the last step of each process that differs must be among them, with its weights: else
 * `end_open` names it. */
#define TW_JUDGED_SPANS 16
struct tw_judged {
    double worst, worst_of_step;
    char *where;
    /* differences; open_weights: of the unmeasured, weights */
    uint64_t measured, unmeasured, open_weights;
    uint64_t outside_rows, unknown_steps;
    char *outside, *open, *unknown, *end_open;
    bool few_kept;
    struct tw_judged_span {
        uint32_t first, last;
    } span[TW_JUDGED_SPANS];
    size_t spans, more; /* more: steps beyond those that fit */
};
extern uint64_t tw_judge_limit;
void tw_tolerance_measure(struct tw_cmp *c, const char *phase, const char *kind, const char *name,
                          uint32_t step, const struct tw_measure *m, struct tw_judged *j);
/* takes text; the first one stays */
void tw_judged_outside(struct tw_cmp *c, struct tw_judged *j, char *text);
/* takes text; counts a step that is not judged */
void tw_judged_unknown(struct tw_cmp *c, struct tw_judged *j, char *text);
/* says which in a note */
bool tw_judged_inside(struct tw_cmp *c, const struct tw_judged *j);
void tw_judged_free(struct tw_judged *j);
/* judge.c: judges every differing step of a pair of processes into c->judged, up to the first that
 * is outside, and claims it. */
int tw_tolerance_judge(struct tw_cmp *c, struct tw_scan *s, struct twin_error *err);
void tw_tolerance_report(struct tw_cmp *c); /* the rules and their use go to c->v */

#endif
