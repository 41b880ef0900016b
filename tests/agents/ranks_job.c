/* SPDX-License-Identifier: Apache-2.0 */
/* ranks_job STEPS SPIN: each rank computes for SPIN iterations, then an all-reduce, STEPS times.
 * For tests/agents/test_telemetry_ranks.py. */
#include <mpi.h>
#include <stdlib.h>
#include <twin/twin.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    long steps = argc > 1 ? atol(argv[1]) : 100, spin = argc > 2 ? atol(argv[2]) : 1000000;
    float x = 0, sum = 0;
    for (long step = 0; step < steps; step++) {
        for (long i = 0; i < spin; i++)
            x = x * .999f + .001f;
        MPI_Allreduce(&x, &sum, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        twin_record("loss:sum", TWIN_F32, 0, NULL, NULL, &sum, 0);
        twin_step();
    }
    twin_close();
    MPI_Finalize();
    return 0;
}
