/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SPREAD_ORDERS_H
#define TW_SPREAD_ORDERS_H
/* An order of additions as a small program for a stack of sums. Addition commutes bit for bit, so
 * only the grouping counts. */
#include "src/spread/spread.h"

enum { TW_MAX_STACK = 48 }; /* the deepest, a binary tree of 65,536 ranks, needs 34 */
#define TW_PUSH 0u          /* | place: a new sum, of this contribution */
#define TW_ADD 0x40000000u  /* | place: add this contribution to the top sum */
#define TW_FOLD 0x80000000u /* the top sum goes into the one below */
#define TW_PLACE 0x3FFFFFFFu

struct tw_program {
    uint32_t *op;
    size_t count;
};

/* half: which of the two trees of TWIN_DOUBLE_TREE; else 0. The ring's and arrival's program is
 * that of the rank order. */
int tw_program_make(enum twin_algorithm a, uint32_t ranks, int half, struct tw_program *p,
                    struct twin_error *err);
void tw_program_free(struct tw_program *p);

/* NCCL's binary tree `half` of `ranks`: the parent and the children of a rank, -1 where there is
 * none. */
struct tw_family {
    int parent, child[2];
};
struct tw_family tw_double_tree(uint32_t ranks, uint32_t rank, int half);
/* The rank at its top. */
uint32_t tw_double_tree_root(uint32_t ranks, int half);

/* The chunk of P in which an element of `all` lies: chunk c begins at floor(c all / P). */
uint32_t tw_chunk_of(uint64_t element, uint64_t all, uint32_t ranks);

#endif
