/* SPDX-License-Identifier: Apache-2.0 */
/* Messages from one rank to another. */
#include "inside.h"

#include "src/trace/trace.h"

static struct tw_mpi_call message(const char *function, tw_mpi_handle comm, int peer, int tag)
{
    return (struct tw_mpi_call){
        .function = function, .comm = tw_mpi_comm(comm), .peer = peer, .tag = tag};
}

static struct tw_mpi_data contents(const void *buffer, int64_t n, tw_mpi_handle type,
                                   tw_mpi_handle comm)
{
    struct tw_mpi_data d = {.buffer = buffer, .count = n, .comm = comm};
    if (tw_mpi_contents())
        d.type = tw_mpi_type(type);
    return d;
}

/* What the program asked for, where that leaves the order of messages open. */
static const char *open_to(int source, int tag)
{
    const struct tw_mpi_abi *a = tw_mpi_abi();
    if (source == a->any_source)
        return tag == a->any_tag ? "any source, any tag" : "any source";
    return tag == a->any_tag ? "any tag" : NULL;
}

static void given(const char *function, const void *buffer, int n, tw_mpi_handle type, int to,
                  int tag, tw_mpi_handle comm)
{
    if (to == tw_mpi_abi()->proc_null || !tw_mpi_contents())
        return;
    struct tw_mpi_call call = message(function, comm, to, tag);
    struct tw_mpi_data data = contents(buffer, n, type, comm);
    tw_mpi_record(TWIN_KIND_IN, &call, &data);
}

#define SEND(name)                                                              \
    TW_WATCH(name, (buffer, n, type, to, tag, comm), const void *buffer, int n, \
             tw_mpi_handle type, int to, int tag, tw_mpi_handle comm)           \
    {                                                                           \
        bool seen = tw_mpi_enter();                                             \
        if (seen)                                                               \
            given("MPI_" #name, buffer, n, type, to, tag, comm);                \
        int rc = real(buffer, n, type, to, tag, comm);                          \
        if (seen)                                                               \
            tw_mpi_leave();                                                     \
        return rc;                                                              \
    }
SEND(Send)
SEND(Bsend)
SEND(Ssend)
SEND(Rsend)

/* The contents of a non-blocking send are the program's to leave alone from its call on. */
#define ISEND(name)                                                                      \
    TW_WATCH(name, (buffer, n, type, to, tag, comm, request), const void *buffer, int n, \
             tw_mpi_handle type, int to, int tag, tw_mpi_handle comm, void *request)     \
    {                                                                                    \
        bool seen = tw_mpi_enter();                                                      \
        if (seen)                                                                        \
            given("MPI_" #name, buffer, n, type, to, tag, comm);                         \
        int rc = real(buffer, n, type, to, tag, comm, request);                          \
        if (seen)                                                                        \
            tw_mpi_leave();                                                              \
        return rc;                                                                       \
    }
ISEND(Isend)
ISEND(Ibsend)
ISEND(Issend)
ISEND(Irsend)

TW_WATCH(Recv, (buffer, n, type, from, tag, comm, status), void *buffer, int n, tw_mpi_handle type,
         int from, int tag, tw_mpi_handle comm, void *status)
{
    if (!tw_mpi_enter())
        return real(buffer, n, type, from, tag, comm, status);
    char own[TW_MPI_STATUS_MOST];
    void *told = tw_mpi_status(status, own);
    int rc = real(buffer, n, type, from, tag, comm, told);
    if (rc == 0) {
        struct tw_mpi_call call = message("MPI_Recv", comm, from, tag);
        struct tw_mpi_data data = contents(buffer, n, type, comm);
        call.detail = open_to(from, tag);
        tw_mpi_got(&call, &data, told);
    }
    tw_mpi_leave();
    return rc;
}

/* A receive that was posted, of which the request is now known. */
static void posted(const char *function, bool persistent, void *buffer, int n, tw_mpi_handle type,
                   int from, int tag, tw_mpi_handle comm, const void *request)
{
    struct tw_mpi_pending p = {.persistent = persistent,
                               .active = !persistent,
                               .receives = true,
                               .call = message(function, comm, from, tag),
                               .data = contents(buffer, n, type, comm)};
    p.call.detail = open_to(from, tag);
    if (from == tw_mpi_abi()->proc_null)
        return;
    tw_mpi_keep_type(&p);
    tw_mpi_pending(tw_mpi_at(request, 0), &p);
}

#define POST(name, persistent)                                                           \
    TW_WATCH(name, (buffer, n, type, from, tag, comm, request), void *buffer, int n,     \
             tw_mpi_handle type, int from, int tag, tw_mpi_handle comm, void *request)   \
    {                                                                                    \
        if (!tw_mpi_enter())                                                             \
            return real(buffer, n, type, from, tag, comm, request);                      \
        int rc = real(buffer, n, type, from, tag, comm, request);                        \
        if (rc == 0)                                                                     \
            posted("MPI_" #name, persistent, buffer, n, type, from, tag, comm, request); \
        tw_mpi_leave();                                                                  \
        return rc;                                                                       \
    }
POST(Irecv, false)
POST(Recv_init, true)

#define SEND_INIT(name)                                                                  \
    TW_WATCH(name, (buffer, n, type, to, tag, comm, request), const void *buffer, int n, \
             tw_mpi_handle type, int to, int tag, tw_mpi_handle comm, void *request)     \
    {                                                                                    \
        if (!tw_mpi_enter())                                                             \
            return real(buffer, n, type, to, tag, comm, request);                        \
        int rc = real(buffer, n, type, to, tag, comm, request);                          \
        struct tw_mpi_pending p = {.persistent = true,                                   \
                                   .sends = true,                                        \
                                   .call = message("MPI_" #name, comm, to, tag),         \
                                   .data = contents(buffer, n, type, comm)};             \
        if (rc == 0 && to != tw_mpi_abi()->proc_null) {                                  \
            tw_mpi_keep_type(&p);                                                        \
            tw_mpi_pending(tw_mpi_at(request, 0), &p);                                   \
        }                                                                                \
        tw_mpi_leave();                                                                  \
        return rc;                                                                       \
    }
SEND_INIT(Send_init)
SEND_INIT(Bsend_init)
SEND_INIT(Ssend_init)
SEND_INIT(Rsend_init)

TW_WATCH(Start, (request), void *request)
{
    if (!tw_mpi_enter())
        return real(request);
    tw_mpi_start(tw_mpi_at(request, 0));
    int rc = real(request);
    tw_mpi_leave();
    return rc;
}

TW_WATCH(Startall, (n, requests), int n, void *requests)
{
    if (!tw_mpi_enter())
        return real(n, requests);
    for (int i = 0; i < n; i++)
        tw_mpi_start(tw_mpi_at(requests, (size_t)i));
    int rc = real(n, requests);
    tw_mpi_leave();
    return rc;
}

TW_WATCH(Sendrecv, (out, n, type, to, tag, in, room, in_type, from, in_tag, comm, status),
         const void *out, int n, tw_mpi_handle type, int to, int tag, void *in, int room,
         tw_mpi_handle in_type, int from, int in_tag, tw_mpi_handle comm, void *status)
{
    if (!tw_mpi_enter())
        return real(out, n, type, to, tag, in, room, in_type, from, in_tag, comm, status);
    char own[TW_MPI_STATUS_MOST];
    void *told = tw_mpi_status(status, own);
    given("MPI_Sendrecv", out, n, type, to, tag, comm);
    int rc = real(out, n, type, to, tag, in, room, in_type, from, in_tag, comm, told);
    if (rc == 0) {
        struct tw_mpi_call call = message("MPI_Sendrecv", comm, from, in_tag);
        struct tw_mpi_data data = contents(in, room, in_type, comm);
        call.detail = open_to(from, in_tag);
        tw_mpi_got(&call, &data, told);
    }
    tw_mpi_leave();
    return rc;
}

TW_WATCH(Sendrecv_replace, (buffer, n, type, to, tag, from, in_tag, comm, status), void *buffer,
         int n, tw_mpi_handle type, int to, int tag, int from, int in_tag, tw_mpi_handle comm,
         void *status)
{
    if (!tw_mpi_enter())
        return real(buffer, n, type, to, tag, from, in_tag, comm, status);
    char own[TW_MPI_STATUS_MOST];
    void *told = tw_mpi_status(status, own);
    given("MPI_Sendrecv_replace", buffer, n, type, to, tag, comm);
    int rc = real(buffer, n, type, to, tag, from, in_tag, comm, told);
    if (rc == 0) {
        struct tw_mpi_call call = message("MPI_Sendrecv_replace", comm, from, in_tag);
        struct tw_mpi_data data = contents(buffer, n, type, comm);
        call.detail = open_to(from, in_tag);
        tw_mpi_got(&call, &data, told);
    }
    tw_mpi_leave();
    return rc;
}

/* ---- messages that were probed for: their handle alone says on which communicator they came */

static tw_mpi_handle as_message(tw_mpi_handle m)
{
    /* beside requests in one table: handles of theirs are even, or small numbers */
    return (tw_mpi_handle)((uintptr_t)tw_mpi_id(m) ^ (uintptr_t)0x5555 << 44);
}

static void probed(int source, int tag, tw_mpi_handle comm, const void *m)
{
    struct tw_mpi_pending p = {.receives = true, .call = message("MPI_Mrecv", comm, source, tag)};
    p.call.detail = open_to(source, tag);
    p.data.comm = comm;
    tw_mpi_pending(as_message(tw_mpi_at(m, 0)), &p);
}

TW_WATCH(Mprobe, (from, tag, comm, m, status), int from, int tag, tw_mpi_handle comm, void *m,
         void *status)
{
    if (!tw_mpi_enter())
        return real(from, tag, comm, m, status);
    int rc = real(from, tag, comm, m, status);
    if (rc == 0 && from != tw_mpi_abi()->proc_null)
        probed(from, tag, comm, m);
    tw_mpi_leave();
    return rc;
}

TW_WATCH(Improbe, (from, tag, comm, flag, m, status), int from, int tag, tw_mpi_handle comm,
         int *flag, void *m, void *status)
{
    if (!tw_mpi_enter())
        return real(from, tag, comm, flag, m, status);
    int rc = real(from, tag, comm, flag, m, status);
    if (rc == 0 && *flag && from != tw_mpi_abi()->proc_null)
        probed(from, tag, comm, m);
    tw_mpi_leave();
    return rc;
}

TW_WATCH(Mrecv, (buffer, n, type, m, status), void *buffer, int n, tw_mpi_handle type, void *m,
         void *status)
{
    if (!tw_mpi_enter())
        return real(buffer, n, type, m, status);
    char own[TW_MPI_STATUS_MOST];
    void *told = tw_mpi_status(status, own);
    struct tw_mpi_pending p;
    bool known = tw_mpi_take(as_message(tw_mpi_at(m, 0)), &p);
    int rc = real(buffer, n, type, m, told);
    if (rc == 0 && known) {
        struct tw_mpi_data data = contents(buffer, n, type, p.data.comm);
        tw_mpi_got(&p.call, &data, told);
    }
    tw_mpi_leave();
    return rc;
}

TW_WATCH(Imrecv, (buffer, n, type, m, request), void *buffer, int n, tw_mpi_handle type, void *m,
         void *request)
{
    if (!tw_mpi_enter())
        return real(buffer, n, type, m, request);
    struct tw_mpi_pending p;
    bool known = tw_mpi_take(as_message(tw_mpi_at(m, 0)), &p);
    int rc = real(buffer, n, type, m, request);
    if (rc == 0 && known) {
        p.call.function = "MPI_Imrecv";
        p.active = true;
        p.data = contents(buffer, n, type, p.data.comm);
        tw_mpi_keep_type(&p);
        tw_mpi_pending(tw_mpi_at(request, 0), &p);
    }
    tw_mpi_leave();
    return rc;
}
