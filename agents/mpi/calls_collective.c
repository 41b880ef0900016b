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
    bool wide; /* counts and displacements are of 64 bits (MPI_Allreduce_c) */
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

static void begin(struct exchange *x, const char *function, bool wide, tw_mpi_handle comm)
{
    *x = (struct exchange){
        .call = {.function = function, .comm = tw_mpi_comm(comm), .peer = TW_MPI_NOBODY},
        .wide = wide};
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
    struct tw_mpi_data d = {.buffer = buffer, .count = n, .comm = comm};
    if (tw_mpi_contents()) /* else nobody asks for it */
        d.type = tw_mpi_type(type);
    return d;
}

static struct tw_mpi_data in_parts(const struct exchange *x, const void *buffer, const void *counts,
                                   const void *where, tw_mpi_handle type, tw_mpi_handle comm)
{
    struct tw_mpi_data d = plain(buffer, 0, type, comm);
    d.counts = counts;
    d.where = where;
    d.wide = x->wide;
    d.parts = (int)ranks(x);
    return d;
}

/* This rank's part of a buffer that has one for each, `each` elements or counts[rank]. */
static struct tw_mpi_data own_part(const struct exchange *x, const void *buffer, int64_t each,
                                   const void *counts, const void *where, tw_mpi_handle type,
                                   tw_mpi_handle comm)
{
    const int own = x->call.comm->rank;
    struct tw_mpi_data d = plain(buffer, counts ? tw_mpi_number(counts, x->wide, own) : each, type,
                                 comm);
    int64_t at = where ? tw_mpi_number(where, x->wide, own) : each * own;
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

/* The same, of copies of its arrays. */
static bool is_kept(const struct exchange *x, struct tw_mpi_data *d)
{
    if (!stays(x, d))
        return false;
    const bool kept = tw_mpi_keep_arrays(d);
    if (!kept)
        tw_mpi_unseen(x->call.function, "out of memory for what it moves");
    return kept;
}

static void follow(struct exchange *x, struct tw_mpi_pending *p, const void *request)
{
    snprintf(p->detail, sizeof p->detail, "%s", x->detail);
    p->call = x->call;
    p->call.detail = p->detail[0] ? p->detail : NULL;
    p->gets = x->gets && is_kept(x, &x->out);
    if (p->gets)
        p->data = x->out;
    tw_mpi_keep_type(p);
    if (!tw_mpi_pending(tw_mpi_at(request, 0), p))
        tw_mpi_free_arrays(&p->data);
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
    if (x->gives && tw_mpi_contents() && is_kept(x, &x->in)) {
        p.in = tw_malloc(sizeof *p.in);
        if (p.in) {
            *p.in = x->in;
            p.owns_in_type = tw_mpi_keep(&p.in->type, true);
        } else {
            tw_mpi_free_arrays(&x->in);
            tw_mpi_unseen(x->call.function, "out of memory for what it gives");
        }
    }
    follow(x, &p, request);
}

/*
 * COLLECTIVE(Allreduce, Iallreduce, (arguments), PARAMETERS) { fills x }: all functions of that
 * description. PARAMETERS(number, numbers) are theirs, by the types of a count and of an array of
 * counts or displacements: those of calls with large counts (MPI 4) are of 64 bits, and the
 * description gets either. Open MPI has persistent ones under another name until its version 5.
 */
#define WITH_REQUEST(...) (__VA_ARGS__, request)
#define WITH_INFO(...) (__VA_ARGS__, info, request)
#define PERSISTENT(kind, name, made, wide, arguments, ...)                                       \
    TW_WATCH_AS(kind, made, WITH_INFO arguments, __VA_ARGS__, tw_mpi_handle info, void *request) \
    {                                                                                            \
        struct exchange x;                                                                       \
        if (!tw_mpi_enter())                                                                     \
            return real WITH_INFO arguments;                                                     \
        begin(&x, "MPI_" #made, wide, comm);                                                     \
        describe_##name(&x, TW_ARGUMENTS arguments);                                             \
        tw_mpi_replay_pause();                                                                   \
        int rc = real WITH_INFO arguments;                                                       \
        tw_mpi_replay_resume("MPI_" #made);                                                      \
        if (rc == 0)                                                                             \
            prepared(&x, request);                                                               \
        tw_mpi_leave();                                                                          \
        return rc;                                                                               \
    }
#define WAITS(name, called, wide, arguments, ...)    \
    TW_WATCH(called, arguments, __VA_ARGS__)         \
    {                                                \
        struct exchange x;                           \
        if (!tw_mpi_enter())                         \
            return real arguments;                   \
        begin(&x, "MPI_" #called, wide, comm);       \
        describe_##name(&x, TW_ARGUMENTS arguments); \
        entered(&x);                                 \
        tw_mpi_replay_pause();                       \
        int rc = real arguments;                     \
        tw_mpi_replay_resume("MPI_" #called);        \
        if (rc == 0)                                 \
            finished(&x);                            \
        tw_mpi_leave();                              \
        return rc;                                   \
    }
#define LATER(name, later, wide, arguments, ...)                        \
    TW_WATCH(later, WITH_REQUEST arguments, __VA_ARGS__, void *request) \
    {                                                                   \
        struct exchange x;                                              \
        if (!tw_mpi_enter())                                            \
            return real WITH_REQUEST arguments;                         \
        begin(&x, "MPI_" #later, wide, comm);                           \
        describe_##name(&x, TW_ARGUMENTS arguments);                    \
        entered(&x);                                                    \
        int rc = real WITH_REQUEST arguments;                           \
        if (rc == 0)                                                    \
            under_way(&x, request);                                     \
        tw_mpi_leave();                                                 \
        return rc;                                                      \
    }
#define OF_INTS(parameters) parameters(int, const int *)
#define OF_COUNTS(parameters) parameters(int64_t, const int64_t *)
#define OF_EITHER(parameters) parameters(int64_t, const void *)
#define COLLECTIVE(name, later, arguments, parameters)                           \
    static void describe_##name(struct exchange *x, OF_EITHER(parameters));      \
    WAITS(name, name, false, arguments, OF_INTS(parameters))                     \
    LATER(name, later, false, arguments, OF_INTS(parameters))                    \
    PERSISTENT(MPI, name, name##_init, false, arguments, OF_INTS(parameters))    \
    PERSISTENT(MPIX, name, name##_init, false, arguments, OF_INTS(parameters))   \
    WAITS(name, name##_c, true, arguments, OF_COUNTS(parameters))                \
    LATER(name, later##_c, true, arguments, OF_COUNTS(parameters))               \
    PERSISTENT(MPI, name, name##_init_c, true, arguments, OF_COUNTS(parameters)) \
    static void describe_##name(struct exchange *x, OF_EITHER(parameters))

/* It has no count, and so no second one. */
static void describe_Barrier(struct exchange *x, tw_mpi_handle comm)
{
    (void)x, (void)comm;
}
WAITS(Barrier, Barrier, false, (comm), tw_mpi_handle comm)
LATER(Barrier, Ibarrier, false, (comm), tw_mpi_handle comm)
PERSISTENT(MPI, Barrier, Barrier_init, false, (comm), tw_mpi_handle comm)
PERSISTENT(MPIX, Barrier, Barrier_init, false, (comm), tw_mpi_handle comm)

#define OF_BCAST(number, numbers) \
    void *buffer, number n, tw_mpi_handle type, int root, tw_mpi_handle comm
COLLECTIVE(Bcast, Ibcast, (buffer, n, type, root, comm), OF_BCAST)
{
    with_root(x, root);
    if (is_root(x->call.comm, root))
        give(x, plain(buffer, n, type, comm));
    else if (takes_part(x->call.comm, root))
        get(x, plain(buffer, n, type, comm));
}

#define OF_A_REDUCTION(number, numbers) \
    const void *in, void *out, number n, tw_mpi_handle type, tw_mpi_handle op, tw_mpi_handle comm
COLLECTIVE(Allreduce, Iallreduce, (in, out, n, type, op, comm), OF_A_REDUCTION)
{
    with_operation(x, op);
    give(x, plain(tw_mpi_in_place(in) ? out : in, n, type, comm));
    get(x, plain(out, n, type, comm));
}

#define OF_REDUCE(number, numbers)                                                       \
    const void *in, void *out, number n, tw_mpi_handle type, tw_mpi_handle op, int root, \
        tw_mpi_handle comm
COLLECTIVE(Reduce, Ireduce, (in, out, n, type, op, root, comm), OF_REDUCE)
{
    const bool mine = is_root(x->call.comm, root);
    with_operation(x, op);
    if (takes_part(x->call.comm, root) && !(mine && x->call.comm->inter))
        give(x, plain(tw_mpi_in_place(in) ? out : in, n, type, comm));
    if (mine)
        get(x, plain(out, n, type, comm));
}

COLLECTIVE(Scan, Iscan, (in, out, n, type, op, comm), OF_A_REDUCTION)
{
    with_operation(x, op);
    give(x, plain(tw_mpi_in_place(in) ? out : in, n, type, comm));
    get(x, plain(out, n, type, comm));
}

/* What rank 0 gets is undefined. */
COLLECTIVE(Exscan, Iexscan, (in, out, n, type, op, comm), OF_A_REDUCTION)
{
    with_operation(x, op);
    give(x, plain(tw_mpi_in_place(in) ? out : in, n, type, comm));
    if (x->call.comm->rank > 0)
        get(x, plain(out, n, type, comm));
}

COLLECTIVE(Reduce_scatter_block, Ireduce_scatter_block, (in, out, n, type, op, comm),
           OF_A_REDUCTION)
{
    with_operation(x, op);
    give(x, plain(tw_mpi_in_place(in) ? out : in, n * x->call.comm->size, type, comm));
    get(x, plain(out, n, type, comm));
}

#define OF_REDUCE_SCATTER(number, numbers)                                           \
    const void *in, void *out, numbers counts, tw_mpi_handle type, tw_mpi_handle op, \
        tw_mpi_handle comm
COLLECTIVE(Reduce_scatter, Ireduce_scatter, (in, out, counts, type, op, comm), OF_REDUCE_SCATTER)
{
    int64_t all = 0;
    for (int i = 0; i < x->call.comm->size; i++)
        all += tw_mpi_number(counts, x->wide, i);
    with_operation(x, op);
    give(x, plain(tw_mpi_in_place(in) ? out : in, all, type, comm));
    get(x, plain(out, tw_mpi_number(counts, x->wide, x->call.comm->rank), type, comm));
}

#define OF_GATHER(number, numbers)                                                                \
    const void *in, number n, tw_mpi_handle type, void *out, number each, tw_mpi_handle out_type, \
        int root, tw_mpi_handle comm
COLLECTIVE(Gather, Igather, (in, n, type, out, each, out_type, root, comm), OF_GATHER)
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

#define OF_GATHERV(number, numbers)                                                         \
    const void *in, number n, tw_mpi_handle type, void *out, numbers counts, numbers where, \
        tw_mpi_handle out_type, int root, tw_mpi_handle comm
COLLECTIVE(Gatherv, Igatherv, (in, n, type, out, counts, where, out_type, root, comm), OF_GATHERV)
{
    const bool mine = is_root(x->call.comm, root);
    with_root(x, root);
    if (mine && tw_mpi_in_place(in))
        give(x, own_part(x, out, 0, counts, where, out_type, comm));
    else if (takes_part(x->call.comm, root) && !(mine && x->call.comm->inter))
        give(x, plain(in, n, type, comm));
    if (mine)
        get(x, in_parts(x, out, counts, where, out_type, comm));
}

#define OF_ALLGATHER(number, numbers)                                                             \
    const void *in, number n, tw_mpi_handle type, void *out, number each, tw_mpi_handle out_type, \
        tw_mpi_handle comm
COLLECTIVE(Allgather, Iallgather, (in, n, type, out, each, out_type, comm), OF_ALLGATHER)
{
    give(x, tw_mpi_in_place(in) ? own_part(x, out, each, NULL, NULL, out_type, comm)
                                : plain(in, n, type, comm));
    get(x, plain(out, each * ranks(x), out_type, comm));
}

#define OF_ALLGATHERV(number, numbers)                                                      \
    const void *in, number n, tw_mpi_handle type, void *out, numbers counts, numbers where, \
        tw_mpi_handle out_type, tw_mpi_handle comm
COLLECTIVE(Allgatherv, Iallgatherv, (in, n, type, out, counts, where, out_type, comm),
           OF_ALLGATHERV)
{
    give(x, tw_mpi_in_place(in) ? own_part(x, out, 0, counts, where, out_type, comm)
                                : plain(in, n, type, comm));
    get(x, in_parts(x, out, counts, where, out_type, comm));
}

/* The root may leave its own part where it is. */
#define OF_SCATTER(number, numbers)                                                               \
    const void *in, number each, tw_mpi_handle type, void *out, number n, tw_mpi_handle out_type, \
        int root, tw_mpi_handle comm
COLLECTIVE(Scatter, Iscatter, (in, each, type, out, n, out_type, root, comm), OF_SCATTER)
{
    const bool mine = is_root(x->call.comm, root);
    with_root(x, root);
    if (mine)
        give(x, plain(in, each * ranks(x), type, comm));
    if (takes_part(x->call.comm, root) && !tw_mpi_in_place(out) && !(mine && x->call.comm->inter))
        get(x, plain(out, n, out_type, comm));
}

#define OF_SCATTERV(number, numbers)                                                        \
    const void *in, numbers counts, numbers where, tw_mpi_handle type, void *out, number n, \
        tw_mpi_handle out_type, int root, tw_mpi_handle comm
COLLECTIVE(Scatterv, Iscatterv, (in, counts, where, type, out, n, out_type, root, comm),
           OF_SCATTERV)
{
    const bool mine = is_root(x->call.comm, root);
    with_root(x, root);
    if (mine)
        give(x, in_parts(x, in, counts, where, type, comm));
    if (takes_part(x->call.comm, root) && !tw_mpi_in_place(out) && !(mine && x->call.comm->inter))
        get(x, plain(out, n, out_type, comm));
}

#define OF_ALLTOALL(number, numbers)                                                              \
    const void *in, number n, tw_mpi_handle type, void *out, number each, tw_mpi_handle out_type, \
        tw_mpi_handle comm
COLLECTIVE(Alltoall, Ialltoall, (in, n, type, out, each, out_type, comm), OF_ALLTOALL)
{
    give(x, tw_mpi_in_place(in) ? plain(out, each * ranks(x), out_type, comm)
                                : plain(in, n * ranks(x), type, comm));
    get(x, plain(out, each * ranks(x), out_type, comm));
}

#define OF_ALLTOALLV(number, numbers)                                             \
    const void *in, numbers counts, numbers where, tw_mpi_handle type, void *out, \
        numbers out_counts, numbers out_where, tw_mpi_handle out_type, tw_mpi_handle comm
COLLECTIVE(Alltoallv, Ialltoallv,
           (in, counts, where, type, out, out_counts, out_where, out_type, comm), OF_ALLTOALLV)
{
    struct tw_mpi_data got = in_parts(x, out, out_counts, out_where, out_type, comm);
    give(x, tw_mpi_in_place(in) ? got : in_parts(x, in, counts, where, type, comm));
    get(x, got);
}

#define OF_ALLTOALLW(number, numbers)                                            \
    const void *in, numbers counts, numbers where, const void *types, void *out, \
        numbers out_counts, numbers out_where, const void *out_types, tw_mpi_handle comm
COLLECTIVE(Alltoallw, Ialltoallw,
           (in, counts, where, types, out, out_counts, out_where, out_types, comm), OF_ALLTOALLW)
{
    struct tw_mpi_data got = {.buffer = out,
                              .counts = out_counts,
                              .where = out_where,
                              .types = out_types,
                              .parts = (int)ranks(x),
                              .by_bytes = true,
                              .wide = x->wide,
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
