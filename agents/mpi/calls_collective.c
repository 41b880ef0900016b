/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives: what this rank gave, before; what it got, after, or when a non-blocking one is
 * complete. A persistent one gives at each start. One description serves all.
 */
#include "inside.h"

#include <stdio.h>
#include "src/base/base.h"
#include "src/trace/trace.h"

struct exchange {
    struct tw_mpi_call call;
    char detail[48];
    struct tw_mpi_data in, out;
    bool gives, gets;
};

/* A rank of the communicator that a root of this number is: of an intercommunicator's two groups
 * one says MPI_ROOT, and the others of it MPI_PROC_NULL. */
static bool is_root(const struct tw_mpi_comm *c, int root)
{
    return c->inter ? root == tw_mpi_abi()->root : root == c->rank;
}

static bool takes_part(const struct tw_mpi_comm *c, int root)
{
    return !(c->inter && root == tw_mpi_abi()->proc_null);
}

/* Ranks that a buffer has a part for. */
static int64_t ranks(const struct exchange *x)
{
    return x->call.comm->inter ? x->call.comm->peers : x->call.comm->size;
}

static void begin(struct exchange *x, const char *function, tw_mpi_handle comm)
{
    *x = (struct exchange){
        .call = {.function = function, .comm = tw_mpi_comm(comm), .peer = TW_MPI_NOBODY}};
}

static void with_operation(struct exchange *x, tw_mpi_handle op)
{
    snprintf(x->detail, sizeof x->detail, "%s", tw_mpi_operation(op));
}

static void with_root(struct exchange *x, int root)
{
    if (!x->call.comm->inter)
        snprintf(x->detail, sizeof x->detail, "root %d", tw_mpi_comm_peer(x->call.comm, root));
}

static struct tw_mpi_data plain(const void *buffer, int64_t n, tw_mpi_handle type,
                                tw_mpi_handle comm)
{
    return (struct tw_mpi_data){
        .buffer = buffer, .count = n, .type = tw_mpi_type(type), .comm = comm};
}

static struct tw_mpi_data in_parts(const void *buffer, const int *counts, const int *where,
                                   tw_mpi_handle type, int64_t parts, tw_mpi_handle comm)
{
    struct tw_mpi_data d = plain(buffer, 0, type, comm);
    d.counts = counts;
    d.where = where;
    d.parts = (int)parts;
    return d;
}

/* This rank's part of a buffer that has one for each, `each` elements or counts[rank]. */
static struct tw_mpi_data own_part(const struct exchange *x, const void *buffer, int64_t each,
                                   const int *counts, const int *where, tw_mpi_handle type,
                                   tw_mpi_handle comm)
{
    struct tw_mpi_data d = plain(buffer, counts ? counts[x->call.comm->rank] : each, type, comm);
    int64_t at = where ? where[x->call.comm->rank] : each * x->call.comm->rank;
    d.buffer = (const char *)buffer + at * d.type.extent;
    return d;
}

static void give(struct exchange *x, struct tw_mpi_data d)
{
    x->in = d;
    x->gives = true;
}

static void get(struct exchange *x, struct tw_mpi_data d)
{
    x->out = d;
    x->gets = true;
}

static void entered(struct exchange *x)
{
    x->call.detail = x->detail[0] ? x->detail : NULL;
    if (x->gives && tw_mpi_contents())
        tw_mpi_record(TWIN_KIND_IN, &x->call, &x->in);
}

static void finished(struct exchange *x)
{
    if (x->gets && tw_mpi_contents())
        tw_mpi_record(TWIN_KIND_OUT, &x->call, &x->out);
    tw_mpi_collective_ended(x->call.comm);
}

/* May what this says be read later on? The program may free types of its own as soon as the call is
 * back; the one of a whole buffer is kept, those of parts are not. */
static bool stays(const struct exchange *x, const struct tw_mpi_data *d)
{
    enum twin_dtype predefined;
    bool all = true;
    for (int i = 0; d->types && all && i < d->parts; i++)
        all = tw_mpi_predefined(tw_mpi_at(d->types, (size_t)i), &predefined);
    if (!all)
        tw_mpi_unseen(x->call.function, "parts of derived types, which may be freed under way");
    return all;
}

static void follow(struct exchange *x, struct tw_mpi_pending *p, const void *request)
{
    snprintf(p->detail, sizeof p->detail, "%s", x->detail);
    p->call = x->call;
    p->call.detail = p->detail[0] ? p->detail : NULL;
    p->gets = x->gets && stays(x, &x->out);
    if (p->gets)
        p->data = x->out;
    tw_mpi_keep_type(p);
    tw_mpi_pending(tw_mpi_at(request, 0), p);
}

static void under_way(struct exchange *x, const void *request)
{
    struct tw_mpi_pending p = {.active = true};
    if (x->gets && tw_mpi_contents())
        follow(x, &p, request);
}

/* A persistent one was made. */
static void prepared(struct exchange *x, const void *request)
{
    struct tw_mpi_pending p = {.persistent = true};
    x->call.detail = x->detail[0] ? x->detail : NULL;
    if (x->gives && tw_mpi_contents() && stays(x, &x->in)) {
        p.in = tw_malloc(sizeof *p.in);
        if (p.in) {
            *p.in = x->in;
            p.owns_in_type = tw_mpi_keep(&p.in->type, true);
        } else {
            tw_mpi_unseen(x->call.function, "out of memory for what it gives");
        }
    }
    follow(x, &p, request);
}

/*
 * COLLECTIVE(Allreduce, Iallreduce, (arguments), parameters) { fills x }: all functions of that
 * description. Open MPI has persistent ones under another name until its version 5.
 */
#define WITH_REQUEST(...) (__VA_ARGS__, request)
#define WITH_INFO(...) (__VA_ARGS__, info, request)
#define PERSISTENT(kind, name, made, arguments, ...)                                             \
    TW_WATCH_AS(kind, made, WITH_INFO arguments, __VA_ARGS__, tw_mpi_handle info, void *request) \
    {                                                                                            \
        struct exchange x;                                                                       \
        if (!tw_mpi_enter())                                                                     \
            return real WITH_INFO arguments;                                                     \
        begin(&x, "MPI_" #made, comm);                                                           \
        describe_##name(&x, TW_ARGUMENTS arguments);                                             \
        tw_mpi_replay_pause();                                                                   \
        int rc = real WITH_INFO arguments;                                                       \
        tw_mpi_replay_resume("MPI_" #made);                                                      \
        if (rc == 0)                                                                             \
            prepared(&x, request);                                                               \
        tw_mpi_leave();                                                                          \
        return rc;                                                                               \
    }
#define COLLECTIVE(name, later, arguments, ...)                         \
    static void describe_##name(struct exchange *x, __VA_ARGS__);       \
    TW_WATCH(name, arguments, __VA_ARGS__)                              \
    {                                                                   \
        struct exchange x;                                              \
        if (!tw_mpi_enter())                                            \
            return real arguments;                                      \
        begin(&x, "MPI_" #name, comm);                                  \
        describe_##name(&x, TW_ARGUMENTS arguments);                    \
        entered(&x);                                                    \
        tw_mpi_replay_pause();                                          \
        int rc = real arguments;                                        \
        tw_mpi_replay_resume("MPI_" #name);                             \
        if (rc == 0)                                                    \
            finished(&x);                                               \
        tw_mpi_leave();                                                 \
        return rc;                                                      \
    }                                                                   \
    TW_WATCH(later, WITH_REQUEST arguments, __VA_ARGS__, void *request) \
    {                                                                   \
        struct exchange x;                                              \
        if (!tw_mpi_enter())                                            \
            return real WITH_REQUEST arguments;                         \
        begin(&x, "MPI_" #later, comm);                                 \
        describe_##name(&x, TW_ARGUMENTS arguments);                    \
        entered(&x);                                                    \
        int rc = real WITH_REQUEST arguments;                           \
        if (rc == 0)                                                    \
            under_way(&x, request);                                     \
        tw_mpi_leave();                                                 \
        return rc;                                                      \
    }                                                                   \
    PERSISTENT(MPI, name, name##_init, arguments, __VA_ARGS__)          \
    PERSISTENT(MPIX, name, name##_init, arguments, __VA_ARGS__)         \
    static void describe_##name(struct exchange *x, __VA_ARGS__)

COLLECTIVE(Barrier, Ibarrier, (comm), tw_mpi_handle comm)
{
    (void)x, (void)comm;
}

COLLECTIVE(Bcast, Ibcast, (buffer, n, type, root, comm), void *buffer, int n, tw_mpi_handle type,
           int root, tw_mpi_handle comm)
{
    with_root(x, root);
    if (is_root(x->call.comm, root))
        give(x, plain(buffer, n, type, comm));
    else if (takes_part(x->call.comm, root))
        get(x, plain(buffer, n, type, comm));
}

COLLECTIVE(Allreduce, Iallreduce, (in, out, n, type, op, comm), const void *in, void *out, int n,
           tw_mpi_handle type, tw_mpi_handle op, tw_mpi_handle comm)
{
    with_operation(x, op);
    give(x, plain(tw_mpi_in_place(in) ? out : in, n, type, comm));
    get(x, plain(out, n, type, comm));
}

COLLECTIVE(Reduce, Ireduce, (in, out, n, type, op, root, comm), const void *in, void *out, int n,
           tw_mpi_handle type, tw_mpi_handle op, int root, tw_mpi_handle comm)
{
    const bool mine = is_root(x->call.comm, root);
    with_operation(x, op);
    if (takes_part(x->call.comm, root) && !(mine && x->call.comm->inter))
        give(x, plain(tw_mpi_in_place(in) ? out : in, n, type, comm));
    if (mine)
        get(x, plain(out, n, type, comm));
}

COLLECTIVE(Scan, Iscan, (in, out, n, type, op, comm), const void *in, void *out, int n,
           tw_mpi_handle type, tw_mpi_handle op, tw_mpi_handle comm)
{
    with_operation(x, op);
    give(x, plain(tw_mpi_in_place(in) ? out : in, n, type, comm));
    get(x, plain(out, n, type, comm));
}

/* What rank 0 gets is undefined. */
COLLECTIVE(Exscan, Iexscan, (in, out, n, type, op, comm), const void *in, void *out, int n,
           tw_mpi_handle type, tw_mpi_handle op, tw_mpi_handle comm)
{
    with_operation(x, op);
    give(x, plain(tw_mpi_in_place(in) ? out : in, n, type, comm));
    if (x->call.comm->rank > 0)
        get(x, plain(out, n, type, comm));
}

COLLECTIVE(Reduce_scatter_block, Ireduce_scatter_block, (in, out, n, type, op, comm),
           const void *in, void *out, int n, tw_mpi_handle type, tw_mpi_handle op,
           tw_mpi_handle comm)
{
    with_operation(x, op);
    give(x, plain(tw_mpi_in_place(in) ? out : in, n * (int64_t)x->call.comm->size, type, comm));
    get(x, plain(out, n, type, comm));
}

COLLECTIVE(Reduce_scatter, Ireduce_scatter, (in, out, counts, type, op, comm), const void *in,
           void *out, const int *counts, tw_mpi_handle type, tw_mpi_handle op, tw_mpi_handle comm)
{
    int64_t all = 0;
    for (int i = 0; i < x->call.comm->size; i++)
        all += counts[i];
    with_operation(x, op);
    give(x, plain(tw_mpi_in_place(in) ? out : in, all, type, comm));
    get(x, plain(out, counts[x->call.comm->rank], type, comm));
}

COLLECTIVE(Gather, Igather, (in, n, type, out, each, out_type, root, comm), const void *in, int n,
           tw_mpi_handle type, void *out, int each, tw_mpi_handle out_type, int root,
           tw_mpi_handle comm)
{
    const bool mine = is_root(x->call.comm, root);
    with_root(x, root);
    if (mine && tw_mpi_in_place(in))
        give(x, own_part(x, out, each, NULL, NULL, out_type, comm));
    else if (takes_part(x->call.comm, root) && !(mine && x->call.comm->inter))
        give(x, plain(in, n, type, comm));
    if (mine)
        get(x, plain(out, each * ranks(x), out_type, comm));
}

COLLECTIVE(Gatherv, Igatherv, (in, n, type, out, counts, where, out_type, root, comm),
           const void *in, int n, tw_mpi_handle type, void *out, const int *counts,
           const int *where, tw_mpi_handle out_type, int root, tw_mpi_handle comm)
{
    const bool mine = is_root(x->call.comm, root);
    with_root(x, root);
    if (mine && tw_mpi_in_place(in))
        give(x, own_part(x, out, 0, counts, where, out_type, comm));
    else if (takes_part(x->call.comm, root) && !(mine && x->call.comm->inter))
        give(x, plain(in, n, type, comm));
    if (mine)
        get(x, in_parts(out, counts, where, out_type, ranks(x), comm));
}

COLLECTIVE(Allgather, Iallgather, (in, n, type, out, each, out_type, comm), const void *in, int n,
           tw_mpi_handle type, void *out, int each, tw_mpi_handle out_type, tw_mpi_handle comm)
{
    give(x, tw_mpi_in_place(in) ? own_part(x, out, each, NULL, NULL, out_type, comm)
                                : plain(in, n, type, comm));
    get(x, plain(out, each * ranks(x), out_type, comm));
}

COLLECTIVE(Allgatherv, Iallgatherv, (in, n, type, out, counts, where, out_type, comm),
           const void *in, int n, tw_mpi_handle type, void *out, const int *counts,
           const int *where, tw_mpi_handle out_type, tw_mpi_handle comm)
{
    give(x, tw_mpi_in_place(in) ? own_part(x, out, 0, counts, where, out_type, comm)
                                : plain(in, n, type, comm));
    get(x, in_parts(out, counts, where, out_type, ranks(x), comm));
}

/* The root may leave its own part where it is. */
COLLECTIVE(Scatter, Iscatter, (in, each, type, out, n, out_type, root, comm), const void *in,
           int each, tw_mpi_handle type, void *out, int n, tw_mpi_handle out_type, int root,
           tw_mpi_handle comm)
{
    const bool mine = is_root(x->call.comm, root);
    with_root(x, root);
    if (mine)
        give(x, plain(in, each * ranks(x), type, comm));
    if (takes_part(x->call.comm, root) && !tw_mpi_in_place(out) && !(mine && x->call.comm->inter))
        get(x, plain(out, n, out_type, comm));
}

COLLECTIVE(Scatterv, Iscatterv, (in, counts, where, type, out, n, out_type, root, comm),
           const void *in, const int *counts, const int *where, tw_mpi_handle type, void *out,
           int n, tw_mpi_handle out_type, int root, tw_mpi_handle comm)
{
    const bool mine = is_root(x->call.comm, root);
    with_root(x, root);
    if (mine)
        give(x, in_parts(in, counts, where, type, ranks(x), comm));
    if (takes_part(x->call.comm, root) && !tw_mpi_in_place(out) && !(mine && x->call.comm->inter))
        get(x, plain(out, n, out_type, comm));
}

COLLECTIVE(Alltoall, Ialltoall, (in, n, type, out, each, out_type, comm), const void *in, int n,
           tw_mpi_handle type, void *out, int each, tw_mpi_handle out_type, tw_mpi_handle comm)
{
    give(x, tw_mpi_in_place(in) ? plain(out, each * ranks(x), out_type, comm)
                                : plain(in, n * ranks(x), type, comm));
    get(x, plain(out, each * ranks(x), out_type, comm));
}

COLLECTIVE(Alltoallv, Ialltoallv,
           (in, counts, where, type, out, out_counts, out_where, out_type, comm), const void *in,
           const int *counts, const int *where, tw_mpi_handle type, void *out,
           const int *out_counts, const int *out_where, tw_mpi_handle out_type, tw_mpi_handle comm)
{
    struct tw_mpi_data got = in_parts(out, out_counts, out_where, out_type, ranks(x), comm);
    give(x, tw_mpi_in_place(in) ? got : in_parts(in, counts, where, type, ranks(x), comm));
    get(x, got);
}

COLLECTIVE(Alltoallw, Ialltoallw,
           (in, counts, where, types, out, out_counts, out_where, out_types, comm), const void *in,
           const int *counts, const int *where, const void *types, void *out, const int *out_counts,
           const int *out_where, const void *out_types, tw_mpi_handle comm)
{
    struct tw_mpi_data got = {.buffer = out,
                              .counts = out_counts,
                              .where = out_where,
                              .types = out_types,
                              .parts = (int)ranks(x),
                              .by_bytes = true,
                              .comm = comm};
    struct tw_mpi_data put = got;
    if (!tw_mpi_in_place(in)) {
        put.buffer = in;
        put.counts = counts;
        put.where = where;
        put.types = types;
    }
    give(x, put);
    get(x, got);
}
