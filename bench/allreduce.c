/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order-free all-reduce against MPI_Allreduce of the same numbers, in turn in one process, so that
 * whatever else the machine does hits both. A time is that of the slowest rank, from a barrier on.
 * Rank 0 prints, for each way, the median of the pairs' ratios and its 95% interval (order
 * statistics). Arguments: elements, pairs, contributions of each rank (0: one, the fast way too;
 * else the general ones only), "sum" (that way, too). Started by bench/allreduce.py.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <twin/allreduce.h>

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static double slowest(double began)
{
    double took = MPI_Wtime() - began, most;
    MPI_Allreduce(&took, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        enum twin_reduce_way way;
    } all[] = {{"direct", TWIN_WAY_DIRECT}, {"owners", TWIN_WAY_OWNERS}, {"sum", TWIN_WAY_SUM}};
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int n = argc > 1 ? atoi(argv[1]) : 1000000;
    const int pairs = argc > 2 ? atoi(argv[2]) : 200;
    const int several = argc > 3 ? atoi(argv[3]) : 0;
    const int64_t contributions = several ? several : 1;
    float *x = malloc((size_t)contributions * (size_t)n * sizeof *x);
    float *local = malloc((size_t)n * sizeof *x);
    float *out = malloc((size_t)n * sizeof *x);
    double *ratio = malloc((size_t)pairs * sizeof *ratio);
    double *plain = malloc((size_t)pairs * sizeof *plain);
    if (!x || !local || !out || !ratio || !plain)
        MPI_Abort(MPI_COMM_WORLD, 1);
    srand((unsigned)rank + 1);
    for (int64_t i = 0; i < contributions * n; i++)
        x[i] = (float)((rand() + (double)rand() - RAND_MAX) / RAND_MAX);
    for (size_t way = several ? 1 : 0; way < (argc > 4 ? 3 : 2); way++) {
        const struct twin_reduce what = {.dtype = TWIN_F32,
                                         .x = x,
                                         .out = out,
                                         .n = n,
                                         .contributions = contributions,
                                         .total = contributions * ranks,
                                         .way = all[way].way};
        struct twin_reduction r;
        struct twin_error err = TWIN_ERROR_INIT;
        if (twin_reduction_init(&r, &what, MPI_COMM_WORLD, &err) != 0)
            MPI_Abort(MPI_COMM_WORLD, 1);
        for (int k = -3; k < pairs; k++) { /* the first three warm up */
            MPI_Barrier(MPI_COMM_WORLD);
            double began = MPI_Wtime();
            if (contributions > 1)
                memcpy(local, x, (size_t)n * sizeof *x);
            for (int64_t c = 1; c < contributions; c++) /* what a program does that has several */
                for (int i = 0; i < n; i++)
                    local[i] += x[c * n + i];
            MPI_Allreduce(contributions > 1 ? local : x, out, n, MPI_FLOAT, MPI_SUM,
                          MPI_COMM_WORLD);
            const double theirs = slowest(began);
            MPI_Barrier(MPI_COMM_WORLD);
            began = MPI_Wtime();
            twin_reduction_start(&r, &err);
            if (twin_reduction_wait(&r, &err) != 0) {
                fprintf(stderr, "%s\n", err.message);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
            const double ours = slowest(began);
            if (k >= 0) {
                plain[k] = theirs;
                ratio[k] = ours / theirs;
            }
        }
        twin_reduction_fini(&r);
        qsort(ratio, (size_t)pairs, sizeof *ratio, by_value);
        qsort(plain, (size_t)pairs, sizeof *plain, by_value);
        /* 1.96 standard deviations of a count of halves */
        const int half = (int)ceil(0.98 * sqrt((double)pairs));
        const int low = pairs / 2 - half > 0 ? pairs / 2 - half : 0;
        const int high = pairs / 2 + half < pairs ? pairs / 2 + half : pairs - 1;
        if (rank == 0) {
            printf("%s %.3f [%.3f, %.3f] of-MPI_Allreduce (%.2f ms)\n", all[way].name,
                   ratio[pairs / 2], ratio[low], ratio[high], plain[pairs / 2] * 1e3);
            fflush(stdout);
        }
    }
    free(x), free(local), free(out), free(ratio), free(plain);
    MPI_Finalize();
    return 0;
}
