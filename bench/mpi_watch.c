/* SPDX-License-Identifier: Apache-2.0 */
/* Loops of MPI for bench/mpi_watch.py and bench/mpi_replay.py: `mpi_watch allreduce BYTES TIMES`,
 * `mpi_watch any BYTES TIMES`, `mpi_watch server BYTES TIMES`, `mpi_watch posted BYTES TIMES`.
 * Prints the median time of one call, one message or one step on rank 0, in microseconds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 64 };

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Messages from all other ranks to rank 0, in rounds: it takes whoever comes. */
static void round_of_messages(char *x, int bytes, int rank, int ranks, int messages)
{
    for (int i = 0; i < messages; i++) {
        if (rank > 0)
            MPI_Send(x, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        for (int k = 1; rank == 0 && k < ranks; k++)
            MPI_Recv(x, bytes, MPI_BYTE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

/* A step of a parameter server, as that of ghosts/mpi-any-source: workers work for up to 2 ms.
 * posted: all receives are posted first. */
static void step_of_server(char *x, int bytes, int rank, int ranks, int posted)
{
    MPI_Request request[RANKS];
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    if (rank > 0) {
        usleep((useconds_t)((t.tv_nsec / 100) % 2000));
        MPI_Send(x, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
    for (int k = 1; rank == 0 && k < ranks && posted; k++)
        MPI_Irecv(x + (size_t)k * (size_t)bytes, bytes, MPI_BYTE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD,
                  &request[k]);
    for (int k = 1; rank == 0 && k < ranks; k++)
        if (posted)
            MPI_Wait(&request[k], MPI_STATUS_IGNORE);
        else
            MPI_Recv(x, bytes, MPI_BYTE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Bcast(x, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    enum { MESSAGES = 100 };
    int rank, ranks, bytes = argc > 2 ? atoi(argv[2]) : 1024, times = argc > 3 ? atoi(argv[3]) : 50;
    int any = argc > 1 && strcmp(argv[1], "any") == 0;
    int posted = argc > 1 && strcmp(argv[1], "posted") == 0;
    int server = posted || (argc > 1 && strcmp(argv[1], "server") == 0);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    float *x = calloc((size_t)bytes, posted ? (size_t)ranks : 1), *y = calloc((size_t)bytes, 1);
    double *took = calloc((size_t)times, sizeof *took);
    if (!x || !y || !took || ranks > RANKS)
        return 1;
    for (int i = 0; i < bytes / 4; i++)
        x[i] = (float)(i % 1000) * 0.37f + (float)rank;
    for (int i = -times / 10 - 1; i < times; i++) {
        if (any)
            MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        if (any)
            round_of_messages((char *)x, bytes, rank, ranks, MESSAGES);
        else if (server)
            step_of_server((char *)x, bytes, rank, ranks, posted);
        else
            MPI_Allreduce(x, y, bytes / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        double end = MPI_Wtime();
        if (i >= 0)
            took[i] = (end - begin) / (any ? MESSAGES * (ranks - 1) : 1);
    }
    qsort(took, (size_t)times, sizeof *took, ascending);
    if (rank == 0)
        printf("%.4f\n", took[times / 2] * 1e6);
    free(x);
    free(y);
    free(took);
    MPI_Finalize();
    return 0;
}
