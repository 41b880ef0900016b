/* SPDX-License-Identifier: Apache-2.0 */
/* A histogram over MPI: rank 0 adds what its workers counted, whoever comes first. Whole numbers:
 * the order changes nothing. */
#include <mpi.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { BINS = 64, STEPS = 12 };

static void work(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    usleep((useconds_t)((t.tv_nsec / 100) % 2000));
}

int main(int argc, char **argv)
{
    long all[BINS] = {0}, mine[BINS];
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int step = 0; step < STEPS; step++) {
        if (rank > 0) {
            for (int i = 0; i < BINS; i++)
                mine[i] = (i * 31 + rank * 17 + step * 7) % 101;
            work();
            MPI_Send(mine, BINS, MPI_LONG, 0, 1, MPI_COMM_WORLD);
        }
        for (int source = 1; rank == 0 && source < ranks; source++) {
            MPI_Recv(mine, BINS, MPI_LONG, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            for (int i = 0; i < BINS; i++)
                all[i] += mine[i];
        }
        MPI_Bcast(all, BINS, MPI_LONG, 0, MPI_COMM_WORLD);
    }
    long sum = 0;
    for (int i = 0; i < BINS; i++)
        sum += all[i] * (i + 1);
    if (rank == 0)
        printf("result %ld\n", sum);
    MPI_Finalize();
    return 0;
}
