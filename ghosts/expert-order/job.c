/* SPDX-License-Identifier: Apache-2.0 */
/* A mixture of experts over MPI: rank 0 holds an expert, the others route tokens to it. The expert
 * takes tokens up to its capacity, in the order in which they arrive, and drops the rest. What it
 * took is counted and added in whole numbers, which do not depend on an order. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { TOKENS = 40, STEPS = 12 };

/* Work takes longer here than there, as on any machine with neighbours. */
static void work(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    usleep((useconds_t)((t.tv_nsec / 100) % 2000));
}

int main(int argc, char **argv)
{
    int32_t tokens[TOKENS], expert[2] = {1, 0};
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int step = 0; step < STEPS; step++) {
        if (rank > 0) {
            for (int i = 0; i < TOKENS; i++)
                tokens[i] = (expert[0] * rank + i * step) % 997;
            work();
            MPI_Send(tokens, TOKENS, MPI_INT32_T, 0, 1, MPI_COMM_WORLD);
        } else {
            int capacity = TOKENS * (ranks - 1) * 5 / 8;
            for (int source = 1; source < ranks; source++) {
                MPI_Recv(tokens, TOKENS, MPI_INT32_T, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
                for (int i = 0; i < TOKENS && capacity > 0; i++, capacity--) {
                    expert[0] = (expert[0] + tokens[i]) % 9973;
                    expert[1]++;
                }
            }
        }
        MPI_Bcast(expert, 2, MPI_INT32_T, 0, MPI_COMM_WORLD);
    }
    if (rank == 0)
        printf("result %d of %d tokens\n", expert[0], expert[1]);
    MPI_Finalize();
    return 0;
}
