/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent collectives: `mpi_kept_job`. A sum over all ranks, a sum for rank 0 alone, and the
 * gathering of every second number, of a type that is freed as soon as the request is made; all
 * started STEPS times. FLIP=STEP: rank 1 gives another bit to the first sum from that step on.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif
#if MPI_VERSION >= 4
#define MADE(name) MPI_##name
#else
#define MADE(name) MPIX_##name
#endif

enum { N = 64, STEPS = 5, RANKS = 16 };

int main(int argc, char **argv)
{
    static float x[N], y[N], z[N], all[N * RANKS];
    int rank;
    double sum = 0;
    MPI_Request r[3];
    MPI_Datatype second;
    const char *flip = getenv("FLIP");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Type_vector(N / 2, 1, 2, MPI_FLOAT, &second);
    MPI_Type_commit(&second);
    MADE(Allreduce_init)(x, y, N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &r[0]);
    MADE(Reduce_init)(x, z, N, MPI_FLOAT, MPI_MAX, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &r[1]);
    MADE(Allgather_init)
    (x, 1, second, all, N / 2, MPI_FLOAT, MPI_COMM_WORLD, MPI_INFO_NULL, &r[2]);
    MPI_Type_free(&second);
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < N; i++)
            x[i] = (float)(i + step) * 0.3f + (float)rank;
        if (flip && rank == 1 && step >= atoi(flip))
            x[3] += 0.5f;
        MPI_Start(&r[0]);
        MPI_Wait(&r[0], MPI_STATUS_IGNORE);
        MPI_Startall(2, &r[1]);
        MPI_Waitall(2, &r[1], MPI_STATUSES_IGNORE);
        sum += (double)(y[3] + z[5] + all[7]);
    }
    for (int i = 0; i < 3; i++)
        MPI_Request_free(&r[i]);
    if (rank == 0)
        printf("%.17g\n", sum);
    MPI_Finalize();
    return 0;
}
