/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_MPI_AGENT_CALLS_H
#define TW_MPI_AGENT_CALLS_H
/* A message from one rank to another, as the functions in front of MPI's describe it. */
#include "inside.h"

static inline struct tw_mpi_call tw_mpi_message(const char *function, tw_mpi_handle comm, int peer,
                                                int tag)
{
    return (struct tw_mpi_call){
        .function = function, .comm = tw_mpi_comm(comm), .peer = peer, .tag = tag};
}

/* What it carries. The type is left out where no contents are recorded. */
static inline struct tw_mpi_data tw_mpi_message_data(const void *buffer, int64_t n,
                                                     tw_mpi_handle type, tw_mpi_handle comm)
{
    struct tw_mpi_data d = {.buffer = buffer, .count = n, .comm = comm};
    if (tw_mpi_contents())
        d.type = tw_mpi_type(type);
    return d;
}
#endif
