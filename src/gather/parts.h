/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_GATHER_PARTS_H
#define TW_GATHER_PARTS_H
/* Inside of the room: the parts of a run, what they hold, and whether they belong together. */
#include "gather.h"

#include "src/launch/run.h"

/* A trace of a part: whose it is. silent: its process recorded nothing. */
struct tw_part_trace {
    const char *path; /* the run's */
    int32_t rank, world;
    uint32_t attempt;
    bool readable, main, silent;
};

/* A run folder on one node, or a copy of it. */
struct tw_part {
    char *dir;
    struct twin_run *run;
    struct tw_part_trace *trace; /* as many as run->trace_count */
    /* "NAME=VALUE", of what a launcher gives all ranks of one job and no other; NULL: not known */
    char *job[16];
};

struct tw_parts {
    struct tw_part *item;
    size_t count, room;
};

/* Adds each run folder below dir, or dir itself. TWIN_EFORMAT: there is none. name: for messages.
 */
int tw_parts_add(struct tw_parts *p, const char *dir, const char *name, struct twin_error *err);
void tw_parts_free(struct tw_parts *p);
/* Are these parts of one job, and is no rank in two of them? TWIN_EFORMAT: no, and why. */
int tw_parts_belong(const struct tw_parts *p, bool one_job, struct twin_error *err);
/* The part that has rank 0 of the earliest attempt; the first where none has. */
size_t tw_parts_base(const struct tw_parts *p);
/* Do two open files hold the same? */
bool tw_same_bytes(int a, int b);
/* World size and ranks without a trace. Returns 0 or TWIN_ENOMEM. */
int tw_parts_missing(const struct tw_parts *p, struct tw_gathered *out, struct twin_error *err);
#endif
