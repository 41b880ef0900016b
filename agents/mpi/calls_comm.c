/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators as they are made and freed, and the end of MPI. */
#include "inside.h"

/* A call that all ranks of `parent` make, and that gives *made. */
#define MAKES(name, what, arguments, ...)          \
    TW_WATCH(name, arguments, __VA_ARGS__)         \
    {                                              \
        if (!tw_mpi_enter())                       \
            return real arguments;                 \
        tw_mpi_replay_pause();                     \
        int rc = real arguments;                   \
        tw_mpi_replay_resume("MPI_" #name);        \
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

#define ENDS(name)                                   \
    TW_WATCH(name, (comm), void *comm)               \
    {                                                \
        if (!tw_mpi_enter())                         \
            return real(comm);                       \
        tw_mpi_replay_comm_gone(tw_mpi_at(comm, 0)); \
        tw_mpi_comm_gone(tw_mpi_at(comm, 0));        \
        tw_mpi_replay_pause();                       \
        int rc = real(comm);                         \
        tw_mpi_replay_resume("MPI_" #name);          \
        tw_mpi_leave();                              \
        return rc;                                   \
    }
ENDS(Comm_free)
ENDS(Comm_disconnect)

TW_EXPORT int MPI_Finalize(void);
TW_EXPORT int PMPI_Finalize(void);

static int finalize(bool profiled)
{
    static struct tw_mpi_function f = {.symbol = "PMPI_Finalize"};
    int (*real)(void) = (int (*)(void))tw_mpi_real(&f, profiled);
    tw_mpi_replay_pause();
    return real ? real() : TW_MPI_NO_FUNCTION;
}

int MPI_Finalize(void)
{
    return finalize(false);
}

int PMPI_Finalize(void)
{
    return finalize(true);
}
