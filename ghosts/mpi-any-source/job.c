/* SPDX-License-Identifier: Apache-2.0 */
/* A parameter server over MPI: rank 0 adds the gradients of its workers in the order in which their
 * messages arrive. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 300, STEPS = 12 };

/* A worker's gradient for the weights w. */
static void differentiate(const float *w, float *g, int rank, int step)
{
    for (int i = 0; i < SIZE; i++)
        g[i] = sinf(w[i] * (float)(rank + 1) + (float)(i % 17) * 0.3f) *
               (1.0f + 0.1f * (float)((step * 7 + rank) % 5));
}

/* Work takes longer here than there, as on any machine with neighbours. */
static void work(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    usleep((useconds_t)((t.tv_nsec / 100) % 2000));
}

int main(int argc, char **argv)
{
    float w[SIZE], g[SIZE], total[SIZE];
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 0; i < SIZE; i++)
        w[i] = (float)((i * 37) % 101) * 0.01f;
    for (int step = 0; step < STEPS; step++) {
        if (rank > 0) {
            differentiate(w, g, rank, step);
            work();
            MPI_Send(g, SIZE, MPI_FLOAT, 0, 1, MPI_COMM_WORLD);
        } else {
            memset(total, 0, sizeof total);
            for (int source = 1; source < ranks; source++) {
                MPI_Recv(g, SIZE, MPI_FLOAT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                for (int i = 0; i < SIZE; i++)
                    total[i] += g[i];
            }
            for (int i = 0; i < SIZE; i++)
                w[i] -= 0.05f * total[i];
        }
        MPI_Bcast(w, SIZE, MPI_FLOAT, 0, MPI_COMM_WORLD);
    }
    double sum = 0;
    for (int i = 0; i < SIZE; i++)
        sum += (double)w[i] * (i + 1);
    if (rank == 0)
        printf("result %a\n", sum);
    MPI_Finalize();
    return 0;
}
