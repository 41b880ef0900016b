/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of an iteration that all ranks reduce in float: which of MPI's algorithms adds them is a
 * setting of the library. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { SIZE = 500, STEPS = 10, RANKS_MOST = 64 };

/* The same sum on every machine: in the order of the ranks. */
static void add_in_order(const float *part, float *total, int ranks)
{
    static float all[RANKS_MOST * SIZE];
    MPI_Allgather(part, SIZE, MPI_FLOAT, all, SIZE, MPI_FLOAT, MPI_COMM_WORLD);
    memset(total, 0, SIZE * sizeof *total);
    for (int r = 0; r < ranks; r++)
        for (int i = 0; i < SIZE; i++)
            total[i] += all[r * SIZE + i];
}

static void add(const float *part, float *total, int ranks)
{
    if (ranks > RANKS_MOST)
        add_in_order(part, total, RANKS_MOST);
    else
        MPI_Allreduce(part, total, SIZE, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    float w[SIZE], part[SIZE], total[SIZE];
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 0; i < SIZE; i++)
        w[i] = (float)((i * 37) % 101) * 0.01f;
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < SIZE; i++)
            part[i] = sinf(w[i] * (float)(rank + 1) + (float)(i % 17) * 0.3f);
        add(part, total, ranks);
        for (int i = 0; i < SIZE; i++)
            w[i] -= 0.05f * total[i];
    }
    double sum = 0;
    for (int i = 0; i < SIZE; i++)
        sum += (double)w[i] * (i + 1);
    if (rank == 0)
        printf("result %a\n", sum);
    MPI_Finalize();
    return 0;
}
