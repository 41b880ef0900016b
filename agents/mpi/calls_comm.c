/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators as they are made and freed, and calls whose effects nobody sees. */
#include "inside.h"

/* A call that all ranks of `parent` make, and that gives *made. */
#define MAKES(name, what, arguments, ...)          \
    TW_WATCH(name, arguments, __VA_ARGS__)         \
    {                                              \
        if (!tw_mpi_enter())                       \
            return real arguments;                 \
        int rc = real arguments;                   \
        if (rc == 0)                               \
            tw_mpi_comm_made(parent, *made, what); \
        tw_mpi_leave();                            \
        return rc;                                 \
    }
#define PARENT tw_mpi_handle parent
#define MADE tw_mpi_handle *made
MAKES(Comm_dup, "dup", (parent, made), PARENT, MADE)
MAKES(Comm_dup_with_info, "dup", (parent, info, made), PARENT, tw_mpi_handle info, MADE)
MAKES(Comm_split, "split", (parent, color, key, made), PARENT, int color, int key, MADE)
MAKES(Comm_split_type, "split", (parent, type, key, info, made), PARENT, int type, int key,
      tw_mpi_handle info, MADE)
MAKES(Comm_create, "group", (parent, group, made), PARENT, tw_mpi_handle group, MADE)
MAKES(Comm_create_group, "group", (parent, group, tag, made), PARENT, tw_mpi_handle group, int tag,
      MADE)
MAKES(Cart_create, "grid", (parent, n, dims, periods, reorder, made), PARENT, int n,
      const int *dims, const int *periods, int reorder, MADE)
MAKES(Cart_sub, "part", (parent, keep, made), PARENT, const int *keep, MADE)
MAKES(Graph_create, "graph", (parent, n, index, edges, reorder, made), PARENT, int n,
      const int *index, const int *edges, int reorder, MADE)
MAKES(Dist_graph_create, "graph",
      (parent, n, sources, degrees, targets, weights, info, reorder, made), PARENT, int n,
      const int *sources, const int *degrees, const int *targets, const int *weights,
      tw_mpi_handle info, int reorder, MADE)
MAKES(Dist_graph_create_adjacent, "graph",
      (parent, n, sources, in, m, targets, out, info, reorder, made), PARENT, int n,
      const int *sources, const int *in, int m, const int *targets, const int *out,
      tw_mpi_handle info, int reorder, MADE)
MAKES(Intercomm_create, "bridge", (parent, leader, peer, remote, tag, made), PARENT, int leader,
      tw_mpi_handle peer, int remote, int tag, MADE)
MAKES(Intercomm_merge, "merge", (parent, high, made), PARENT, int high, MADE)

#define ENDS(name)                            \
    TW_WATCH(name, (comm), void *comm)        \
    {                                         \
        if (!tw_mpi_enter())                  \
            return real(comm);                \
        tw_mpi_comm_gone(tw_mpi_at(comm, 0)); \
        int rc = real(comm);                  \
        tw_mpi_leave();                       \
        return rc;                            \
    }
ENDS(Comm_free)
ENDS(Comm_disconnect)

/* ---- not seen: said once in a process, and passed on */

#define UNSEEN(name, why, arguments, ...)     \
    TW_WATCH(name, arguments, __VA_ARGS__)    \
    {                                         \
        if (tw_mpi_enter()) {                 \
            tw_mpi_unseen("MPI_" #name, why); \
            tw_mpi_leave();                   \
        }                                     \
        return real arguments;                \
    }
#define ONE_SIDED "what one-sided calls move is not seen"
#define NEIGHBOURS "what neighbourhood collectives move is not seen"
UNSEEN(Put, ONE_SIDED, (a, n, t, r, d, m, u, w), const void *a, int n, tw_mpi_handle t, int r,
       intptr_t d, int m, tw_mpi_handle u, tw_mpi_handle w)
UNSEEN(Get, ONE_SIDED, (a, n, t, r, d, m, u, w), void *a, int n, tw_mpi_handle t, int r, intptr_t d,
       int m, tw_mpi_handle u, tw_mpi_handle w)
UNSEEN(Accumulate, ONE_SIDED, (a, n, t, r, d, m, u, o, w), const void *a, int n, tw_mpi_handle t,
       int r, intptr_t d, int m, tw_mpi_handle u, tw_mpi_handle o, tw_mpi_handle w)
UNSEEN(Get_accumulate, ONE_SIDED, (a, n, t, b, k, v, r, d, m, u, o, w), const void *a, int n,
       tw_mpi_handle t, void *b, int k, tw_mpi_handle v, int r, intptr_t d, int m, tw_mpi_handle u,
       tw_mpi_handle o, tw_mpi_handle w)
UNSEEN(Fetch_and_op, ONE_SIDED, (a, b, t, r, d, o, w), const void *a, void *b, tw_mpi_handle t,
       int r, intptr_t d, tw_mpi_handle o, tw_mpi_handle w)
UNSEEN(Compare_and_swap, ONE_SIDED, (a, c, b, t, r, d, w), const void *a, const void *c, void *b,
       tw_mpi_handle t, int r, intptr_t d, tw_mpi_handle w)
UNSEEN(Rput, ONE_SIDED, (a, n, t, r, d, m, u, w, q), const void *a, int n, tw_mpi_handle t, int r,
       intptr_t d, int m, tw_mpi_handle u, tw_mpi_handle w, void *q)
UNSEEN(Rget, ONE_SIDED, (a, n, t, r, d, m, u, w, q), void *a, int n, tw_mpi_handle t, int r,
       intptr_t d, int m, tw_mpi_handle u, tw_mpi_handle w, void *q)
UNSEEN(Raccumulate, ONE_SIDED, (a, n, t, r, d, m, u, o, w, q), const void *a, int n,
       tw_mpi_handle t, int r, intptr_t d, int m, tw_mpi_handle u, tw_mpi_handle o, tw_mpi_handle w,
       void *q)
UNSEEN(Neighbor_allgather, NEIGHBOURS, (a, n, t, b, m, u, c), const void *a, int n, tw_mpi_handle t,
       void *b, int m, tw_mpi_handle u, tw_mpi_handle c)
UNSEEN(Neighbor_alltoall, NEIGHBOURS, (a, n, t, b, m, u, c), const void *a, int n, tw_mpi_handle t,
       void *b, int m, tw_mpi_handle u, tw_mpi_handle c)
UNSEEN(Neighbor_alltoallv, NEIGHBOURS, (a, n, d, t, b, m, e, u, c), const void *a, const int *n,
       const int *d, tw_mpi_handle t, void *b, const int *m, const int *e, tw_mpi_handle u,
       tw_mpi_handle c)
