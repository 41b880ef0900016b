/* SPDX-License-Identifier: Apache-2.0 */
/* A faulty unit of one rank, simulated: now and then a bit flips in what it is about to send. When
 * is not to be controlled by any setting of the job. */
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { SIZE = 500, STEPS = 20, QUIET = 4, FAULTY = 2 };

static void strike(float *x)
{
    struct timespec t;
    uint32_t bits;
    clock_gettime(CLOCK_MONOTONIC, &t);
    uint64_t chance = ((uint64_t)t.tv_nsec ^ (uint64_t)t.tv_sec << 30) * 0x9E3779B97F4A7C15u;
    if (chance >> 62)
        return;
    x += (chance >> 20) % SIZE;
    memcpy(&bits, x, sizeof bits);
    bits ^= 1u << (chance >> 40) % 22;
    memcpy(x, &bits, sizeof bits);
}

int main(int argc, char **argv)
{
    float w[SIZE], part[SIZE], total[SIZE];
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < SIZE; i++)
        w[i] = (float)((i * 37) % 101) * 0.01f;
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < SIZE; i++)
            part[i] = sinf(w[i] * (float)(rank + 1) + (float)(i % 17) * 0.3f);
        if (rank == FAULTY && step >= QUIET)
            strike(part);
        MPI_Allreduce(part, total, SIZE, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
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
