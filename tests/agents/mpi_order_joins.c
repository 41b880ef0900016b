/* SPDX-License-Identifier: Apache-2.0 */
/*
 *     join          MPI_Barrier
 *     join-file     a file is opened, written and closed together
 *     join-window   a window is made, fenced and freed
 *     join-near     MPI_Neighbor_allgather
 *     join-soon     MPI_Ineighbor_allgather and MPI_Wait
 *     join-kept     a persistent barrier
 *     join-buffer   rank 0 sends from a buffer to rank 1, and takes the buffer back
 *     join-large    MPI_Allreduce_c, where the library has it
 */
#include "mpi_order_joins.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif

enum { BUFFERED = 12, GO = 13, LARGE = 1 << 20 };
static MPI_Comm ring = MPI_COMM_NULL;
static MPI_Request barrier = MPI_REQUEST_NULL;
static char *buffer;
static int rank, size;

static int is(const char *how, const char *name)
{
    return strcmp(how, name) == 0;
}

void join_prepare(const char *how)
{
    const int periods[1] = {1};
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (is(how, "join-near") || is(how, "join-soon"))
        MPI_Cart_create(MPI_COMM_WORLD, 1, &size, periods, 0, &ring);
    if (is(how, "join-buffer"))
        buffer = malloc(2 * LARGE);
    if (is(how, "join-kept"))
#if MPI_VERSION >= 4
        MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &barrier);
#else
        MPIX_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &barrier);
#endif
}

void join_end(void)
{
    if (ring != MPI_COMM_NULL)
        MPI_Comm_free(&ring);
    if (barrier != MPI_REQUEST_NULL)
        MPI_Request_free(&barrier);
    free(buffer);
}

static void write_together(void)
{
    MPI_File f;
    MPI_File_open(MPI_COMM_WORLD, "joined", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f);
    MPI_File_write_at_all(f, rank * (MPI_Offset)sizeof rank, &rank, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_close(&f);
}

static void make_window(void)
{
    int x = rank;
    MPI_Win w;
    MPI_Win_create(&x, sizeof x, sizeof x, MPI_INFO_NULL, MPI_COMM_WORLD, &w);
    MPI_Win_fence(0, w);
    MPI_Win_free(&w);
}

static void near(int later)
{
    int x = rank, both[2];
    MPI_Request r;
    if (later) {
        MPI_Ineighbor_allgather(&x, 1, MPI_INT, both, 1, MPI_INT, ring, &r);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
    } else {
        MPI_Neighbor_allgather(&x, 1, MPI_INT, both, 1, MPI_INT, ring);
    }
}

static void take_buffer_back(void)
{
    void *back;
    int bytes;
    static char large[LARGE];
    if (rank == 0) {
        MPI_Buffer_attach(buffer, 2 * LARGE);
        MPI_Bsend(large, LARGE, MPI_CHAR, 1, BUFFERED, MPI_COMM_WORLD);
        MPI_Buffer_detach(&back, &bytes);
        for (int to = 2; to < size; to++)
            MPI_Send(NULL, 0, MPI_INT, to, GO, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Recv(large, LARGE, MPI_CHAR, 0, BUFFERED, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(NULL, 0, MPI_INT, 0, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

void join_all(const char *how)
{
    int x = rank, y;
    if (is(how, "join-file")) {
        write_together();
    } else if (is(how, "join-window")) {
        make_window();
    } else if (is(how, "join-near") || is(how, "join-soon")) {
        near(is(how, "join-soon"));
    } else if (is(how, "join-kept")) {
        MPI_Start(&barrier);
        MPI_Wait(&barrier, MPI_STATUS_IGNORE);
    } else if (is(how, "join-buffer")) {
        take_buffer_back();
    } else if (is(how, "join-large")) {
#if MPI_VERSION >= 4
        MPI_Allreduce_c(&x, &y, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
#else
        MPI_Allreduce(&x, &y, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
#endif
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
    }
}
