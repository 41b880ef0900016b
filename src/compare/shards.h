/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_COMPARE_SHARDS_H
#define TW_COMPARE_SHARDS_H
/*
 * Shared by places.c and shards.c: where the part of a tensor lies that a rank holds.
 */
#include "arms.h"
#include "internal.h"

/* Where a part lies in its tensor: `shape` elements in each dimension, from `start` on. */
struct tw_box {
    uint32_t ndim;
    int64_t whole[TWIN_MAX_NDIM], start[TWIN_MAX_NDIM], shape[TWIN_MAX_NDIM];
    bool adds;        /* its digests are parts of the whole's, with its edges */
    uint32_t edge[2]; /* series of these */
    unsigned edges;
};

/* A block of 16 bytes that a part shares with another one: bytes from .. to are its own. */
struct tw_cut {
    uint64_t block;
    unsigned from, to;
};

/* The place of a series's records. False: it was not said, or two places were. */
bool tw_box_of(struct tw_proc *p, uint32_t series, struct tw_box *b);
/* Does its process say that this is an edge, and is it as large as one? */
bool tw_is_edge(struct tw_proc *p, const struct tw_rec *r);
uint64_t tw_box_elements(const struct tw_box *b, const int64_t *shape);
uint64_t tw_box_first(const struct tw_box *b); /* number of its first element in the whole */
bool tw_box_one_run(const struct tw_box *b);   /* do its elements lie side by side there? */
/* Of a single run: the blocks that it shares, in order; returns how many. width: of an element. */
unsigned tw_box_cuts(const struct tw_box *b, size_t width, struct tw_cut out[2]);
bool tw_box_same(const struct tw_box *x, const struct tw_box *y);
bool tw_box_disjoint(const struct tw_box *x, const struct tw_box *y);

/* Tensors that are not compared in a step, by tw_tensor_token(). */
struct tw_left_out {
    uint64_t *token;
    size_t n, room;
};

/* ---- held.c: what all ranks of a run recorded of one step, of what is compared between worlds */
struct tw_ranks {
    struct tw_cmp *c;
    const struct tw_side *side;
    struct tw_view *view; /* each in an order of its own, for tw_ranks_counterpart() */
    size_t n;
    uint32_t step;
    /* Several ranks hold optimizer state of which no other has any; and what the rest is of, by
     * name and scope, sorted. */
    bool own_moments;
    struct tw_left_out shared;
};
/* Of the processes whose parts are added to those of `zero`, a process of rank 0. */
int tw_ranks_load(struct tw_ranks *k, const struct tw_proc *zero, struct twin_error *err);
void tw_ranks_free(struct tw_ranks *k);
/* The record of v, a view of struct tw_ranks, with r's key and occurrence; NULL: it has none. */
const struct tw_rec *tw_ranks_counterpart(const struct tw_view *v, const struct tw_rec *r);

/* For tw_view_filter(): what is not left out. Sort the list first. */
bool tw_is_kept(const struct tw_view *v, const struct tw_rec *r, void *left_out);
/* Leaves out a tensor; a gradient in whichever phase the other run recorded what its optimizer
 * read.
 */
void tw_leave_out_tensor(struct tw_cmp *c, struct tw_left_out *l, const struct tw_view *v,
                         const struct tw_rec *r);
void tw_left_out_sort(struct tw_left_out *l);
/* "gradient ", "optimizer state " in front of a name; weights have their name alone. */
const char *tw_state_word(uint8_t kind);
/* Keeps for tw_not_held_told() that a gradient or some optimizer state of this run was not
 * compared. `why` must live as long as the program. */
void tw_say_not_held(struct tw_cmp *c, const struct tw_side *side, const struct tw_view *v,
                     const struct tw_rec *r, const char *why);

/*
 * shards.c: makes records of wholes of the parts in rank 0's view of a step, with the records of
 * all ranks of its side. Those that are not known to be whole are left out; each has given a
 * reason, or a note where the recording does not say enough. Returns 0 or an error.
 */
int tw_shards_whole(const struct tw_ranks *k, struct tw_view *zero, struct tw_left_out *l,
                    struct twin_error *err);
/*
 * held.c: leaves out the gradients and the optimizer state that rank 0 holds whole, and for which
 * it is not known that all ranks of its run hold the same. tail: the records behind the last step.
 * here: what is left out of this side alone, gradients that were written to later in the step.
 */
void tw_held_alike(const struct tw_ranks *k, const struct tw_view *zero, bool tail,
                   struct tw_left_out *l, struct tw_left_out *here);
/* Leaves out gradients that something wrote to behind the backward pass in one of the runs alone.
 */
void tw_held_in_one_phase(struct tw_cmp *c, const struct tw_side *sa, const struct tw_view *a,
                          const struct tw_side *sb, const struct tw_view *b, struct tw_left_out *l);
/* Was some of this kind compared: have both read records of one tensor, which the user does not
 * ignore? */
bool tw_held_both(struct tw_cmp *c, const struct tw_view *a, const struct tw_view *b,
                  enum twin_kind kind);

#endif
