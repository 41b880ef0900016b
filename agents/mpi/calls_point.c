/* SPDX-License-Identifier: Apache-2.0 */
/* Messages from one rank to another. */
#include "calls.h"

#include "src/trace/trace.h"

/* A message that is received, or may be. What is left open is numbered. */
static struct tw_mpi_call awaited(const char *function, tw_mpi_handle comm, int from, int tag)
{
    struct tw_mpi_call call = tw_mpi_message(function, comm, from, tag);
    call.detail = tw_mpi_open_to(from, tag, comm);
    call.number = call.detail ? tw_mpi_open_post() : 0;
    return call;
}

static void given(const char *function, const void *buffer, int64_t n, tw_mpi_handle type, int to,
                  int tag, tw_mpi_handle comm)
{
    if (to == tw_mpi_abi()->proc_null || !tw_mpi_contents())
        return;
    struct tw_mpi_call call = tw_mpi_message(function, comm, to, tag);
    struct tw_mpi_data data = tw_mpi_message_data(buffer, n, type, comm);
    tw_mpi_record(TWIN_KIND_IN, &call, &data);
}

/* Each function twice: with an int for a count, and with 64 bits (MPI 4). */
#define TWICE(function, name, ...) \
    function(name, int, __VA_ARGS__) function(name##_c, int64_t, __VA_ARGS__)

/* `wait`: is it done, where receives are held? */
#define SEND(name, number, wait)                                                   \
    TW_WATCH(name, (buffer, n, type, to, tag, comm), const void *buffer, number n, \
             tw_mpi_handle type, int to, int tag, tw_mpi_handle comm)              \
    {                                                                              \
        int rc;                                                                    \
        const bool seen = tw_mpi_enter();                                          \
        if (seen)                                                                  \
            given("MPI_" #name, buffer, n, type, to, tag, comm);                   \
        if (!(wait))                                                               \
            rc = real(buffer, n, type, to, tag, comm);                             \
        if (seen)                                                                  \
            tw_mpi_leave();                                                        \
        return rc;                                                                 \
    }
#define WAITING(how) tw_mpi_replay_send(how, buffer, n, type, to, tag, comm, &rc)
TWICE(SEND, Send, WAITING(TW_MPI_SEND))
TWICE(SEND, Ssend, WAITING(TW_MPI_SSEND))
TWICE(SEND, Rsend, WAITING(TW_MPI_RSEND))
TWICE(SEND, Bsend, false) /* it waits for nobody */

/* The contents of a non-blocking send are the program's to leave alone from its call on. */
#define ISEND(name, number, ...)                                                            \
    TW_WATCH(name, (buffer, n, type, to, tag, comm, request), const void *buffer, number n, \
             tw_mpi_handle type, int to, int tag, tw_mpi_handle comm, void *request)        \
    {                                                                                       \
        bool seen = tw_mpi_enter();                                                         \
        if (seen)                                                                           \
            given("MPI_" #name, buffer, n, type, to, tag, comm);                            \
        int rc = real(buffer, n, type, to, tag, comm, request);                             \
        if (seen)                                                                           \
            tw_mpi_leave();                                                                 \
        return rc;                                                                          \
    }
TWICE(ISEND, Isend, 0)
TWICE(ISEND, Ibsend, 0)
TWICE(ISEND, Issend, 0)
TWICE(ISEND, Irsend, 0)

#define RECV(name, number, ...)                                                        \
    TW_WATCH(name, (buffer, n, type, from, tag, comm, status), void *buffer, number n, \
             tw_mpi_handle type, int from, int tag, tw_mpi_handle comm, void *status)  \
    {                                                                                  \
        if (!tw_mpi_enter())                                                           \
            return real(buffer, n, type, from, tag, comm, status);                     \
        char own[TW_MPI_STATUS_MOST];                                                  \
        void *told = tw_mpi_status(status, own);                                       \
        struct tw_mpi_call call = awaited("MPI_" #name, comm, from, tag);              \
        int rc;                                                                        \
        if (!tw_mpi_replay_recv(&call, buffer, n, type, comm, told, &rc))              \
            rc = real(buffer, n, type, from, tag, comm, told);                         \
        if (rc == 0) {                                                                 \
            struct tw_mpi_data data = tw_mpi_message_data(buffer, n, type, comm);      \
            tw_mpi_got(&call, &data, told);                                            \
        }                                                                              \
        tw_mpi_leave();                                                                \
        return rc;                                                                     \
    }
TWICE(RECV, Recv, 0)

/* A receive that was posted, of which the request is now known. */
static void posted(const struct tw_mpi_call *call, void *buffer, int64_t n, tw_mpi_handle type,
                   tw_mpi_handle comm, const void *request)
{
    struct tw_mpi_pending p = {.active = true,
                               .receives = true,
                               .call = *call,
                               .data = tw_mpi_message_data(buffer, n, type, comm)};
    if (call->peer == tw_mpi_abi()->proc_null)
        return;
    tw_mpi_keep_type(&p);
    tw_mpi_pending(tw_mpi_at(request, 0), &p);
}

#define IRECV(name, number, ...)                                                        \
    TW_WATCH(name, (buffer, n, type, from, tag, comm, request), void *buffer, number n, \
             tw_mpi_handle type, int from, int tag, tw_mpi_handle comm, void *request)  \
    {                                                                                   \
        int rc;                                                                         \
        if (!tw_mpi_enter())                                                            \
            return real(buffer, n, type, from, tag, comm, request);                     \
        struct tw_mpi_call call = awaited("MPI_" #name, comm, from, tag);               \
        if (!tw_mpi_replay_irecv(&call, buffer, n, type, comm, request, &rc))           \
            rc = real(buffer, n, type, from, tag, comm, request);                       \
        if (rc == 0)                                                                    \
            posted(&call, buffer, n, type, comm, request);                              \
        tw_mpi_leave();                                                                 \
        return rc;                                                                      \
    }
TWICE(IRECV, Irecv, 0)

/*
 * What all that send and receive at once do. The three calls are of the function itself (with the
 * status that the program gave, or with `told`) and of its replay, which says `rc` where it knows
 * it.
 */
#define EXCHANGE(name, out, n, type, in, room, in_type, unseen, replayed, seen)     \
    {                                                                               \
        if (!tw_mpi_enter())                                                        \
            return unseen;                                                          \
        char own[TW_MPI_STATUS_MOST];                                               \
        void *told = tw_mpi_status(status, own);                                    \
        int rc;                                                                     \
        given("MPI_" #name, out, n, type, to, tag, comm);                           \
        struct tw_mpi_call call = awaited("MPI_" #name, comm, from, in_tag);        \
        if (!replayed) {                                                            \
            tw_mpi_replay_pause();                                                  \
            rc = seen;                                                              \
            tw_mpi_replay_resume("MPI_" #name);                                     \
        }                                                                           \
        if (rc == 0) {                                                              \
            struct tw_mpi_data data = tw_mpi_message_data(in, room, in_type, comm); \
            tw_mpi_got(&call, &data, told);                                         \
        }                                                                           \
        tw_mpi_leave();                                                             \
        return rc;                                                                  \
    }

#define SENDRECV(name, number, ...)                                                               \
    TW_WATCH(name, (out, n, type, to, tag, in, room, in_type, from, in_tag, comm, status),        \
             const void *out, number n, tw_mpi_handle type, int to, int tag, void *in,            \
             number room, tw_mpi_handle in_type, int from, int in_tag, tw_mpi_handle comm,        \
             void *status)                                                                        \
    EXCHANGE(                                                                                     \
        name, out, n, type, in, room, in_type,                                                    \
        real(out, n, type, to, tag, in, room, in_type, from, in_tag, comm, status),               \
        tw_mpi_replay_sendrecv(&call, out, n, type, to, tag, in, room, in_type, comm, told, &rc), \
        real(out, n, type, to, tag, in, room, in_type, from, in_tag, comm, told))
TWICE(SENDRECV, Sendrecv, 0)

#define SENDRECV_REPLACE(name, number, ...)                                                        \
    TW_WATCH(name, (buffer, n, type, to, tag, from, in_tag, comm, status), void *buffer, number n, \
             tw_mpi_handle type, int to, int tag, int from, int in_tag, tw_mpi_handle comm,        \
             void *status)                                                                         \
    EXCHANGE(name, buffer, n, type, buffer, n, type,                                               \
             real(buffer, n, type, to, tag, from, in_tag, comm, status),                           \
             tw_mpi_replay_sendrecv_replace(&call, buffer, n, type, to, tag, comm, told, &rc),     \
             real(buffer, n, type, to, tag, from, in_tag, comm, told))
TWICE(SENDRECV_REPLACE, Sendrecv_replace, 0)

/* ---- messages that were probed for: their handle alone says on which communicator they came */

static tw_mpi_handle as_message(tw_mpi_handle m)
{
    /* beside requests in one table: handles of theirs are even, or small numbers */
    return (tw_mpi_handle)((uintptr_t)tw_mpi_id(m) ^ (uintptr_t)0x5555 << 44);
}

static void found(int source, int tag, tw_mpi_handle comm, const void *m)
{
    struct tw_mpi_pending p = {.receives = true, .call = awaited("MPI_Mrecv", comm, source, tag)};
    p.data.comm = comm;
    tw_mpi_pending(as_message(tw_mpi_at(m, 0)), &p);
}

TW_WATCH(Mprobe, (from, tag, comm, m, status), int from, int tag, tw_mpi_handle comm, void *m,
         void *status)
{
    int rc;
    if (!tw_mpi_enter())
        return real(from, tag, comm, m, status);
    if (!tw_mpi_replay_probe("MPI_Mprobe", tw_mpi_comm(comm), from, tag, comm, NULL, m, status,
                             &rc))
        rc = real(from, tag, comm, m, status);
    if (rc == 0 && from != tw_mpi_abi()->proc_null)
        found(from, tag, comm, m);
    tw_mpi_leave();
    return rc;
}

TW_WATCH(Improbe, (from, tag, comm, flag, m, status), int from, int tag, tw_mpi_handle comm,
         int *flag, void *m, void *status)
{
    int rc;
    if (!tw_mpi_enter())
        return real(from, tag, comm, flag, m, status);
    if (!tw_mpi_replay_probe("MPI_Improbe", tw_mpi_comm(comm), from, tag, comm, flag, m, status,
                             &rc))
        rc = real(from, tag, comm, flag, m, status);
    if (rc == 0 && *flag && from != tw_mpi_abi()->proc_null)
        found(from, tag, comm, m);
    tw_mpi_leave();
    return rc;
}

/* Probes that leave the message where it is are not recorded. But the receive of what an open one
 * found is an open one. */
static bool leaves_open(int from, int tag)
{
    const struct tw_mpi_abi *a = tw_mpi_abi();
    return from != a->proc_null && (from == a->any_source || tag == a->any_tag);
}

TW_WATCH(Probe, (from, tag, comm, status), int from, int tag, tw_mpi_handle comm, void *status)
{
    int rc;
    char own[TW_MPI_STATUS_MOST];
    if (!tw_mpi_enter())
        return real(from, tag, comm, status);
    void *told = tw_mpi_status(status, own);
    if (!tw_mpi_replay_probe("MPI_Probe", tw_mpi_comm(comm), from, tag, comm, NULL, NULL, told,
                             &rc))
        rc = real(from, tag, comm, told);
    if (rc == 0 && leaves_open(from, tag))
        tw_mpi_probe_found(comm, from, tag, told);
    tw_mpi_leave();
    return rc;
}

TW_WATCH(Iprobe, (from, tag, comm, flag, status), int from, int tag, tw_mpi_handle comm, int *flag,
         void *status)
{
    int rc;
    char own[TW_MPI_STATUS_MOST];
    if (!tw_mpi_enter())
        return real(from, tag, comm, flag, status);
    void *told = tw_mpi_status(status, own);
    if (!tw_mpi_replay_probe("MPI_Iprobe", tw_mpi_comm(comm), from, tag, comm, flag, NULL, told,
                             &rc))
        rc = real(from, tag, comm, flag, told);
    if (rc == 0 && *flag && leaves_open(from, tag))
        tw_mpi_probe_found(comm, from, tag, told);
    tw_mpi_leave();
    return rc;
}

#define MRECV(name, number, ...)                                                             \
    TW_WATCH(name, (buffer, n, type, m, status), void *buffer, number n, tw_mpi_handle type, \
             void *m, void *status)                                                          \
    {                                                                                        \
        if (!tw_mpi_enter())                                                                 \
            return real(buffer, n, type, m, status);                                         \
        char own[TW_MPI_STATUS_MOST];                                                        \
        void *told = tw_mpi_status(status, own);                                             \
        struct tw_mpi_pending p;                                                             \
        bool known = tw_mpi_take(as_message(tw_mpi_at(m, 0)), &p);                           \
        int rc = real(buffer, n, type, m, told);                                             \
        if (rc == 0 && known) {                                                              \
            p.call.function = "MPI_" #name;                                                  \
            struct tw_mpi_data data = tw_mpi_message_data(buffer, n, type, p.data.comm);     \
            tw_mpi_got(&p.call, &data, told);                                                \
        }                                                                                    \
        tw_mpi_leave();                                                                      \
        return rc;                                                                           \
    }
TWICE(MRECV, Mrecv, 0)

#define IMRECV(name, number, ...)                                                             \
    TW_WATCH(name, (buffer, n, type, m, request), void *buffer, number n, tw_mpi_handle type, \
             void *m, void *request)                                                          \
    {                                                                                         \
        if (!tw_mpi_enter())                                                                  \
            return real(buffer, n, type, m, request);                                         \
        struct tw_mpi_pending p;                                                              \
        bool known = tw_mpi_take(as_message(tw_mpi_at(m, 0)), &p);                            \
        int rc = real(buffer, n, type, m, request);                                           \
        if (rc == 0 && known) {                                                               \
            p.call.function = "MPI_" #name;                                                   \
            p.active = true;                                                                  \
            p.data = tw_mpi_message_data(buffer, n, type, p.data.comm);                       \
            tw_mpi_keep_type(&p);                                                             \
            tw_mpi_pending(tw_mpi_at(request, 0), &p);                                        \
        }                                                                                     \
        tw_mpi_leave();                                                                       \
        return rc;                                                                            \
    }
TWICE(IMRECV, Imrecv, 0)
