/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_COMPARE_ARMS_H
#define TW_COMPARE_ARMS_H
/* Runs that are unlike on purpose: resumed, of other numbers of ranks, or cut over ranks. */
#include "internal.h"

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

#endif
