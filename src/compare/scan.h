/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_COMPARE_SCAN_H
#define TW_COMPARE_SCAN_H
/* Two runs side by side: where processes first part, in which causal order, and what follows. */
#include "internal.h"

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
    int turn;                   /* tw_mpi_turn() and tw_joint_turn() of it */
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
void tw_scan_free(struct tw_scan *s);

/* ---- scan_equal.c: what was equal until then */
/* Sets out->equal_before to a sentence part that names what was equal in step out->step before its
 * first difference, and out->equal_records to how many records that were. */
void tw_say_equal_before(struct tw_cmp *c, const struct tw_view *a, const struct tw_view *b,
                         const struct tw_stepdiff *d, const struct tw_diff *first,
                         struct tw_scan *out);
/* The same of any difference of a step, into *text and *records. */
void tw_equal_before(struct tw_cmp *c, const struct tw_pair *pair, const struct tw_view *a,
                     const struct tw_view *b, const struct tw_stepdiff *d,
                     const struct tw_diff *first, int64_t shift, char **text, uint64_t *records);
/* What is known to be equal when nothing of the step itself is. The caller frees it; NULL: no
 * memory. */
char *tw_steps_before(struct tw_cmp *c, uint32_t step, const struct tw_scan *s);

/* ---- scan_hashes.c: a step whose value hashes differ, and none of whose stored records does */
void tw_judge_hashes(struct tw_cmp *c, uint32_t step, const struct tw_view *a,
                     const struct tw_view *b, const struct tw_stepdiff *d, struct tw_scan *out);
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
/* The same of what a call of JAX over several processes gave back here: 1; else 0. */
int tw_joint_turn(const struct tw_view *v, const struct tw_rec *r);
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

#endif
