/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_COMPARE_SHARDS_H
#define TW_COMPARE_SHARDS_H
/*
 * Shared by places.c and shards.c: where the part of a tensor lies that a rank holds.
 */
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

#endif
