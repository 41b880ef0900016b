/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `mpi_large_job FILE`, on two ranks: calls with large counts that mpi_calls_job does not make
 * (neighbours, windows, files), each beside the one with ints, which must give the same; what is
 * said of a count that no int holds; and persistent collectives by the name that another library
 * has. All are weak references. What is wrong is printed, by name; "right" where nothing is.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#include "mpi_large.h"
#define OTHER(name) MPI_##name
#else
#define WEAK(name, ...) extern int name(__VA_ARGS__) __attribute__((weak));
#define OTHER(name) MPIX_##name
#endif
#define INIT(name, ...) WEAK(name, __VA_ARGS__, MPI_Info, MPI_Request *)
#define ARRAY const int *, const int *
INIT(OTHER(Bcast_init), void *, int, MPI_Datatype, int, MPI_Comm)
INIT(OTHER(Allreduce_init), const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm)
INIT(OTHER(Alltoallv_init), const void *, ARRAY, MPI_Datatype, void *, ARRAY, MPI_Datatype,
     MPI_Comm)
INIT(OTHER(Neighbor_allgather_init), const void *, int, MPI_Datatype, void *, int, MPI_Datatype,
     MPI_Comm)
INIT(OTHER(Barrier_init), MPI_Comm)

enum { ROOM = 64, PART = 3, FEW = 8 };
static int rank, wrong, failures;
static int x[ROOM], y[ROOM], z[ROOM];
static MPI_Request r;

static void is(const char *what, int right)
{
    if (!right) {
        printf("rank %d: %s\n", rank, what);
        wrong = 1;
    }
}

static void ended(int rc)
{
    failures += rc != MPI_SUCCESS;
    MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static void started(int rc)
{
    failures += rc != MPI_SUCCESS;
    if (rc != MPI_SUCCESS)
        return;
    for (int i = 0; i < 2; i++) { /* arrays have to be there for each start */
        memset(z, 0, sizeof z);
        MPI_Start(&r);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&r);
}

static void same(const char *what)
{
    is(what, failures == 0 && memcmp(y, z, sizeof y) == 0);
    failures = 0;
    memset(y, 0, sizeof y);
    memset(z, 0, sizeof z);
}

/* ---- neighbours */

#define FORMS(name, later, ...)                                   \
    failures += MPI_##name##_c(__VA_ARGS__) != 0;                 \
    same(#name);                                                  \
    again;                                                        \
    ended(MPI_##later##_c(__VA_ARGS__, &r));                      \
    same(#later);                                                 \
    again;                                                        \
    started(MPI_##name##_init_c(__VA_ARGS__, MPI_INFO_NULL, &r)); \
    same(#name "_init")

static void neighbours(MPI_Comm c, int in, int out)
{
    int counts[FEW], where[FEW], got[FEW], got_where[FEW];
    MPI_Aint bytes[FEW];
    MPI_Count counts_c[FEW], got_c[FEW];
    MPI_Aint where_c[FEW], got_where_c[FEW];
    MPI_Datatype types[FEW];
    for (int i = 0; i < FEW; i++) {
        counts_c[i] = counts[i] = i < out ? PART : 0x7fff;
        got_c[i] = got[i] = i < in ? PART : 0x7fff;
        where_c[i] = where[i] = i * PART;
        got_where_c[i] = got_where[i] = i * (PART + 1);
        bytes[i] = i * PART * (int)sizeof(int);
        types[i] = MPI_INT;
    }
#define ONE x, PART, MPI_INT, y, PART, MPI_INT, c
#define again MPI_Neighbor_allgather(ONE)
    again;
    FORMS(Neighbor_allgather, Ineighbor_allgather, x, PART, MPI_INT, z, PART, MPI_INT, c);
#undef again
#define again MPI_Neighbor_alltoall(ONE)
    again;
    FORMS(Neighbor_alltoall, Ineighbor_alltoall, x, PART, MPI_INT, z, PART, MPI_INT, c);
#undef again
#define again MPI_Neighbor_allgatherv(x, PART, MPI_INT, y, got, got_where, MPI_INT, c)
    again;
    FORMS(Neighbor_allgatherv, Ineighbor_allgatherv, x, PART, MPI_INT, z, got_c, got_where_c,
          MPI_INT, c);
#undef again
#define again MPI_Neighbor_alltoallv(x, counts, where, MPI_INT, y, got, got_where, MPI_INT, c)
    again;
    FORMS(Neighbor_alltoallv, Ineighbor_alltoallv, x, counts_c, where_c, MPI_INT, z, got_c,
          got_where_c, MPI_INT, c);
#undef again
/* not MPI_Neighbor_alltoallw: MPICH 4.0 loses what a rank gets that sends to fewer than it gets of
 */
#define again MPI_Neighbor_alltoallv(x, counts, where, MPI_INT, y, got, where, MPI_INT, c)
    again;
    FORMS(Neighbor_alltoallw, Ineighbor_alltoallw, x, counts_c, bytes, types, z, got_c, bytes,
          types, c);
#undef again
}

static void graphs(void)
{
    const int periodic = 0, all = 2, index[2] = {1, 2}, edges[2] = {1, 0};
    const int both[2] = {0, 1}, weights[2] = {1, 1};
    MPI_Comm c;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &all, &periodic, 0, &c);
    neighbours(c, 2, 2);
    MPI_Comm_free(&c);
    MPI_Graph_create(MPI_COMM_WORLD, 2, index, edges, 0, &c);
    neighbours(c, 1, 1);
    MPI_Comm_free(&c);
    /* rank 0 sends to both, and gets nothing of rank 1 */
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, (const int[]){0}, weights, rank == 0 ? 2 : 0,
                                   both, weights, MPI_INFO_NULL, 0, &c);
    neighbours(c, 1, rank == 0 ? 2 : 0);
    MPI_Comm_free(&c);
}

/* ---- windows: each puts into the other's, and reads it back */

static void one_sided(MPI_Win w)
{
    const int to = 1 - rank, mine[PART] = {rank + 5, rank + 6, rank + 7};
    int back[PART] = {0}, before[PART] = {0};
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, w);
    failures += MPI_Put_c(mine, PART, MPI_INT, to, 1, PART, MPI_INT, w) != 0;
    MPI_Win_flush(to, w);
    failures += MPI_Get_c(back, PART, MPI_INT, to, 1, PART, MPI_INT, w) != 0;
    MPI_Win_flush(to, w);
    is("Put, Get", memcmp(mine, back, sizeof mine) == 0);
    failures += MPI_Accumulate_c(mine, PART, MPI_INT, to, 1, PART, MPI_INT, MPI_SUM, w) != 0;
    MPI_Win_flush(to, w);
    failures += MPI_Get_accumulate_c(mine, PART, MPI_INT, before, PART, MPI_INT, to, 1, PART,
                                     MPI_INT, MPI_SUM, w) != 0;
    MPI_Win_flush(to, w);
    is("Accumulate", before[2] == 2 * mine[2]);
    ended(MPI_Rput_c(mine, PART, MPI_INT, to, 1, PART, MPI_INT, w, &r));
    MPI_Win_flush(to, w);
    ended(MPI_Raccumulate_c(mine, PART, MPI_INT, to, 1, PART, MPI_INT, MPI_SUM, w, &r));
    MPI_Win_flush(to, w);
    ended(MPI_Rget_c(back, PART, MPI_INT, to, 1, PART, MPI_INT, w, &r));
    is("Rput, Raccumulate, Rget", back[0] == 2 * mine[0] && back[2] == 2 * mine[2]);
    ended(MPI_Rget_accumulate_c(mine, PART, MPI_INT, before, PART, MPI_INT, to, 1, PART, MPI_INT,
                                MPI_SUM, w, &r));
    is("Rget_accumulate", before[1] == 2 * mine[1]);
    MPI_Win_unlock(to, w);
    is("one-sided calls", failures == 0);
    failures = 0;
}

static void windows(void)
{
    static int room[ROOM];
    void *given;
    MPI_Win w;
    is("Win_create",
       MPI_Win_create_c(room, sizeof room, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &w) == 0);
    one_sided(w);
    MPI_Win_free(&w);
    is("Win_allocate", MPI_Win_allocate_c(sizeof room, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                                          &given, &w) == 0);
    one_sided(w);
    MPI_Win_free(&w);
    is("Win_allocate_shared", MPI_Win_allocate_shared_c(sizeof room, sizeof(int), MPI_INFO_NULL,
                                                        MPI_COMM_WORLD, &given, &w) == 0);
    one_sided(w);
    MPI_Win_free(&w);
}

/* ---- files: what is written has to be read again */

static void rewound(MPI_File f)
{
    MPI_File_sync(f);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_seek(f, rank * (int)sizeof x, MPI_SEEK_SET);
    MPI_File_seek_shared(f, 0, MPI_SEEK_SET);
    for (int i = 0; i < ROOM; i++)
        x[i] += 1;
}

static void was_read(const char *what, MPI_File f)
{
    is(what, failures == 0 && memcmp(x, z, sizeof x) == 0);
    failures = 0;
    memset(z, 0, sizeof z);
    rewound(f);
}

#define SPLIT(name, f, ...)                                \
    failures += MPI_File_##name##_begin_c(f, __VA_ARGS__); \
    failures += MPI_File_##name##_end

static void files(const char *path)
{
    const MPI_Offset at = rank * (MPI_Offset)sizeof x;
    MPI_File f;
    MPI_Status s;
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f);
    rewound(f);
    failures += MPI_File_write_at_all_c(f, at, x, ROOM, MPI_INT, &s) != 0;
    failures += MPI_File_read_at_all_c(f, at, z, ROOM, MPI_INT, &s) != 0;
    was_read("File_read_at_all", f);
    ended(MPI_File_iwrite_at_all_c(f, at, x, ROOM, MPI_INT, &r));
    ended(MPI_File_iread_at_all_c(f, at, z, ROOM, MPI_INT, &r));
    was_read("File_iread_at_all", f);
    SPLIT(write_at_all, f, at, x, ROOM, MPI_INT)(f, x, &s);
    SPLIT(read_at_all, f, at, z, ROOM, MPI_INT)(f, z, &s);
    was_read("File_read_at_all_begin", f);
    failures += MPI_File_write_all_c(f, x, ROOM, MPI_INT, &s) != 0;
    MPI_File_seek(f, at, MPI_SEEK_SET);
    failures += MPI_File_read_all_c(f, z, ROOM, MPI_INT, &s) != 0;
    was_read("File_read_all", f);
    ended(MPI_File_iwrite_all_c(f, x, ROOM, MPI_INT, &r));
    MPI_File_seek(f, at, MPI_SEEK_SET);
    ended(MPI_File_iread_all_c(f, z, ROOM, MPI_INT, &r));
    was_read("File_iread_all", f);
    SPLIT(write_all, f, x, ROOM, MPI_INT)(f, x, &s);
    MPI_File_seek(f, at, MPI_SEEK_SET);
    SPLIT(read_all, f, z, ROOM, MPI_INT)(f, z, &s);
    was_read("File_read_all_begin", f);
    failures += MPI_File_write_ordered_c(f, x, ROOM, MPI_INT, &s) != 0;
    MPI_File_seek_shared(f, 0, MPI_SEEK_SET);
    failures += MPI_File_read_ordered_c(f, z, ROOM, MPI_INT, &s) != 0;
    was_read("File_read_ordered", f);
    SPLIT(write_ordered, f, x, ROOM, MPI_INT)(f, x, &s);
    MPI_File_seek_shared(f, 0, MPI_SEEK_SET);
    SPLIT(read_ordered, f, z, ROOM, MPI_INT)(f, z, &s);
    was_read("File_read_ordered_begin", f);
    if (rank == 0) {
        failures += MPI_File_write_shared_c(f, x, ROOM, MPI_INT, &s) != 0;
        failures += MPI_File_read_at(f, 0, z, ROOM, MPI_INT, &s) != 0;
        is("File_write_shared", failures == 0 && memcmp(x, z, sizeof x) == 0);
    }
    MPI_File_seek_shared(f, 0, MPI_SEEK_SET);
    if (rank == 0) {
        memset(z, 0, sizeof z);
        failures += MPI_File_read_shared_c(f, z, ROOM, MPI_INT, &s) != 0;
        is("File_read_shared", failures == 0 && memcmp(x, z, sizeof x) == 0);
    }
    MPI_File_close(&f);
}

/* ---- counts that no int holds */

#ifdef OPEN_MPI
static int told;

static void tell(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    told = *code;
}

static void too_many(void)
{
    const MPI_Count much = (MPI_Count)1 << 40, parts[2] = {1, much};
    const MPI_Aint where[2] = {0, 1};
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(tell, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    is("Send of too many", MPI_Send_c(x, much, MPI_INT, rank, 0, MPI_COMM_WORLD) == MPI_ERR_COUNT);
    is("what the error handler is told", told == MPI_ERR_COUNT);
    told = 0;
    is("Allgatherv of too many",
       MPI_Allgatherv_c(x, 1, MPI_INT, y, parts, where, MPI_INT, MPI_COMM_WORLD) == MPI_ERR_COUNT);
    is("what it is told then", told == MPI_ERR_COUNT);
    told = 0;
    /* what is not read may be anything */
    is("Gather, which rank 0 alone reads all of",
       MPI_Gather_c(x, 1, MPI_INT, y, rank == 0 ? 1 : much, MPI_INT, 0, MPI_COMM_WORLD) == 0);
    is("Gatherv, the same",
       MPI_Gatherv_c(x, 1, MPI_INT, y, rank == 0 ? (MPI_Count[]){1, 1} : (MPI_Count *)16, where,
                     MPI_INT, 0, MPI_COMM_WORLD) == 0);
    is("Allgather in place",
       MPI_Allgather_c(MPI_IN_PLACE, much, MPI_INT, y, 1, MPI_INT, MPI_COMM_WORLD) == 0);
    is("Alltoallv in place",
       MPI_Alltoallv_c(MPI_IN_PLACE, (MPI_Count *)16, (MPI_Aint *)16, MPI_INT, y,
                       (MPI_Count[]){1, 1}, where, MPI_INT, MPI_COMM_WORLD) == 0);
    is("no error is told then", told == 0);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&handler);
}
#endif

/* ---- persistent collectives by the other name */

static void kept(void)
{
    const int counts[2] = {PART, PART}, where[2] = {0, PART}, all = 2, periodic = 1;
    MPI_Comm c;
    memset(y, 0, sizeof y);
    memset(z, 0, sizeof z);
    MPI_Allreduce(x, y, PART, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    started(OTHER(Allreduce_init)(x, z, PART, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &r));
    same("Allreduce_init");
    MPI_Alltoallv(x, counts, where, MPI_INT, y, counts, where, MPI_INT, MPI_COMM_WORLD);
    started(OTHER(Alltoallv_init)(x, counts, where, MPI_INT, z, counts, where, MPI_INT,
                                  MPI_COMM_WORLD, MPI_INFO_NULL, &r));
    same("Alltoallv_init");
    MPI_Cart_create(MPI_COMM_WORLD, 1, &all, &periodic, 0, &c);
    MPI_Neighbor_allgather(x, PART, MPI_INT, y, PART, MPI_INT, c);
    started(
        OTHER(Neighbor_allgather_init)(x, PART, MPI_INT, z, PART, MPI_INT, c, MPI_INFO_NULL, &r));
    same("Neighbor_allgather_init");
    MPI_Comm_free(&c);
    started(OTHER(Barrier_init)(MPI_COMM_WORLD, MPI_INFO_NULL, &r));
    same("Barrier_init");
    memcpy(y, x, sizeof y);
    MPI_Bcast(y, PART, MPI_INT, 1, MPI_COMM_WORLD);
    memcpy(z, x, sizeof z);
    if (OTHER(Bcast_init)(z, PART, MPI_INT, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &r) == 0) {
        MPI_Start(&r);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        MPI_Request_free(&r);
    }
    same("Bcast_init");
}

/* Libraries read arrays of counts when the call is made, so programs free them behind it. */
static void lent(void)
{
    int counts[2] = {PART, PART}, where[2] = {0, PART};
    MPI_Allgatherv(x, PART, MPI_INT, y, counts, where, MPI_INT, MPI_COMM_WORLD);
    failures += MPI_Iallgatherv(x, PART, MPI_INT, z, counts, where, MPI_INT, MPI_COMM_WORLD, &r);
    counts[0] = counts[1] = where[0] = where[1] = 1 << 30;
    ended(0);
    same("Iallgatherv, its arrays gone");
}

int main(int argc, char **argv)
{
    static char room[4096];
    void *gone;
    MPI_Count bytes = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 2)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int i = 0; i < ROOM; i++)
        x[i] = i * 7 + rank * 1000;
    graphs();
    windows();
    files(argv[1]);
#ifdef OPEN_MPI
    too_many();
#endif
    kept();
    lent();
    MPI_Buffer_attach(room, sizeof room);
    is("Buffer_detach",
       MPI_Buffer_detach_c(&gone, &bytes) == 0 && gone == room && bytes == sizeof room);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0 && !wrong)
        puts("right");
    MPI_Finalize();
    return wrong;
}
