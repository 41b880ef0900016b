/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_COMPARE_REPLICAS_H
#define TW_COMPARE_REPLICAS_H
/*
 * Shared by replica_notes.c, replicas.c and replicas_alone.c: which weights the ranks of a run are
 * to hold equal, as they noted it themselves (docs/format/trace.md, notes "replica").
 */
#include "internal.h"

enum { TW_REPLICA_NAMED = 16 }; /* ranks that a sentence lists */

/* One rank of a group. */
struct tw_replica_member {
    int32_t rank;
    struct tw_proc *proc; /* NULL: none of its processes says so */
    bool otherwise;       /* it names other weights, or another step */
    bool several;         /* more than one of its processes says so */
    uint32_t local; /* from this step on its gradients were not averaged; UINT32_MAX: all are */
    uint32_t end;   /* in this step what kept them equal was gone; UINT32_MAX: it stayed */
};

/* Weights of one root that are equal on some ranks. */
struct tw_replica {
    char *keeper, *ranks, *scope; /* "DistributedDataParallel" or "DTensor/DIMENSIONS", "0,1,2", the
                                     root's label */
    uint32_t attempt;
    uint32_t from; /* the first step that counts */
    bool start;    /* the first weights of that step count, too */
    char **name;   /* sorted */
    size_t names;
    struct tw_replica_member *member; /* in the order of ranks */
    size_t members;
};

/* What the processes of a side note; *out goes to tw_replicas_free(). Memory that runs out sets
 * c->oom. Notes that are damaged say nothing. */
void tw_replicas_noted(struct tw_cmp *c, struct tw_side *side, struct tw_replica **out, size_t *n);
void tw_replicas_free(struct tw_replica *g, size_t n);
/* Is a record of this name one of the group's weights, or a part of one ("fc.weight[0:4096]")?
 * *index: which of its names. */
bool tw_replica_name(const struct tw_replica *g, const char *name, uint32_t *index);

/* replicas.c: what may be said of them, in *out; equal_too: also that they are equal. */
void tw_replicas_told(struct tw_cmp *c, struct tw_side *side, bool equal_too, struct tw_texts *out);

#endif
