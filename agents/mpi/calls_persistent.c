/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent messages: made once, started many times. What is sent is read at each start; a receive
 * that leaves something open gets its number there. Persistent collectives are made in
 * calls_collective.c, and started here as well.
 */
#include "calls.h"

TW_MPI_CALL(Start, (request), void *request)

/* It was made. Also one that goes to nobody: a start knows then that nothing is missed. */
static void made(struct tw_mpi_pending *p, tw_mpi_handle type, const void *request)
{
    p->persistent = true;
    p->data.type = tw_mpi_type(type); /* a replay needs it at each level */
    tw_mpi_keep_type(p);
    tw_mpi_pending(tw_mpi_at(request, 0), p);
}

#define RECV_INIT(name, number)                                                           \
    TW_WATCH(name, (buffer, n, type, from, tag, comm, request), void *buffer, number n,   \
             tw_mpi_handle type, int from, int tag, tw_mpi_handle comm, void *request)    \
    {                                                                                     \
        if (!tw_mpi_enter())                                                              \
            return real(buffer, n, type, from, tag, comm, request);                       \
        int rc = real(buffer, n, type, from, tag, comm, request);                         \
        struct tw_mpi_pending p = {.receives = true,                                      \
                                   .call = tw_mpi_message("MPI_" #name, comm, from, tag), \
                                   .data = tw_mpi_message_data(buffer, n, type, comm)};   \
        if (rc == 0)                                                                      \
            made(&p, type, request);                                                      \
        tw_mpi_leave();                                                                   \
        return rc;                                                                        \
    }
RECV_INIT(Recv_init, int)
RECV_INIT(Recv_init_c, int64_t)

#define SEND_INIT(name, number)                                                             \
    TW_WATCH(name, (buffer, n, type, to, tag, comm, request), const void *buffer, number n, \
             tw_mpi_handle type, int to, int tag, tw_mpi_handle comm, void *request)        \
    {                                                                                       \
        if (!tw_mpi_enter())                                                                \
            return real(buffer, n, type, to, tag, comm, request);                           \
        int rc = real(buffer, n, type, to, tag, comm, request);                             \
        struct tw_mpi_pending p = {.sends = true,                                           \
                                   .call = tw_mpi_message("MPI_" #name, comm, to, tag),     \
                                   .data = tw_mpi_message_data(buffer, n, type, comm)};     \
        if (rc == 0)                                                                        \
            made(&p, type, request);                                                        \
        tw_mpi_leave();                                                                     \
        return rc;                                                                          \
    }
SEND_INIT(Send_init, int)
SEND_INIT(Send_init_c, int64_t)
SEND_INIT(Bsend_init, int)
SEND_INIT(Bsend_init_c, int64_t)
SEND_INIT(Ssend_init, int)
SEND_INIT(Ssend_init_c, int64_t)
SEND_INIT(Rsend_init, int)
SEND_INIT(Rsend_init_c, int64_t)

/* Starts one by `real`, or holds it. */
static int start(int (*real)(void *request), void *request)
{
    struct tw_mpi_pending p;
    const bool known = tw_mpi_start(tw_mpi_at(request, 0), &p);
    if (known && p.receives && tw_mpi_replay_start(&p, request))
        return 0;
    return real(request);
}

TW_WATCH(Start, (request), void *request)
{
    if (!tw_mpi_enter())
        return real(request);
    int rc = start(real, request);
    tw_mpi_leave();
    return rc;
}

/* One after another in a replay: MPI may start them in any order, and does so in theirs. */
static int start_each(int n, void *requests)
{
    int rc = 0;
    for (int i = 0; i < n && rc == 0; i++)
        rc = start(call_Start, (char *)requests + (size_t)i * tw_mpi_abi()->handle_bytes);
    return rc;
}

TW_WATCH(Startall, (n, requests), int n, void *requests)
{
    int rc;
    struct tw_mpi_pending p;
    if (!tw_mpi_enter())
        return real(n, requests);
    if (tw_mpi_replay_on()) {
        rc = start_each(n, requests);
    } else {
        for (int i = 0; i < n; i++)
            tw_mpi_start(tw_mpi_at(requests, (size_t)i), &p);
        rc = real(n, requests);
    }
    tw_mpi_leave();
    return rc;
}
