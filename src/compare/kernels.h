/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_COMPARE_KERNELS_H
#define TW_COMPARE_KERNELS_H
/* What a run launched on GPUs, as its agents wrote it down (docs/internals/cupti.md): read by
 * kernels_read.c, named by kernel_names.c, compared by kernels.c. */
#include "internal.h"

/* What one thread launched in one step. */
struct tw_sequence {
    uint32_t step;
    uint64_t count, digest;
};

/* One thread of one process, with its steps in their order. */
struct tw_launcher {
    int32_t rank;
    const char *role, *thread; /* owned by the trace */
    struct tw_sequence *item;
    size_t count, room;
    bool twice; /* another process of the run says the same of itself */
};

/* One place in a sequence that is listed. */
struct tw_listed {
    uint64_t digest, place;
    const char *name, *shape; /* owned by the trace */
};

/* Machine code that was loaded. */
struct tw_code {
    uint64_t digest;
    int64_t bytes;
};
/* Their order in tw_launched.code, for qsort and for who goes through two of them. */
int tw_by_code(const void *x, const void *y);

struct tw_launched {
    const struct tw_side *side;
    struct tw_side_traces of;
    struct tw_launcher *thread;
    size_t threads, thread_room;
    struct tw_listed *listed; /* by digest and place */
    size_t listed_count, listed_room;
    struct tw_code *code; /* by digest and size */
    size_t codes, code_room;
    bool code_unseen;    /* some of it was not digested */
    const char *stopped; /* why an agent recorded nothing more; NULL: none stopped */
};

void tw_launched_read(struct tw_cmp *c, const struct tw_side *side, struct tw_launched *out);
void tw_launched_free(struct tw_launched *x);

/* The first `count` launches of a sequence; NULL: they are not listed, or not all of them. */
const struct tw_listed *tw_launched_list(const struct tw_launched *x, const struct tw_sequence *s);

/* A kernel as a sentence names it: "at::native::forward<...> (grid 32 x 1 x 1, ...)". Where `other`
 * has the same words and is yet another kernel, what tells them apart in their full names follows.
 * tw_free; NULL: no memory. */
char *tw_kernel_said(struct tw_cmp *c, const struct tw_listed *k, const struct tw_listed *other);
#endif
