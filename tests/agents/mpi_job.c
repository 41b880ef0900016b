/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs of MPI that know nothing of twinrun: `mpi_job MODE`. Each prints its result on rank 0.
 * Where a mode is to diverge, an argument or FLIP_RANK and FLIP_STEP say so.
 */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 257, STEPS = 6 };
static int rank, size;

static int number(const char *name, int otherwise)
{
    const char *s = getenv(name);
    return s ? atoi(s) : otherwise;
}

/* Flips a bit of x on the rank and in the step that the environment names. */
static void flip(float *x, int step)
{
    uint32_t bits;
    if (rank != number("FLIP_RANK", -1) || step != number("FLIP_STEP", -1))
        return;
    memcpy(&bits, x, sizeof bits);
    bits ^= 1u << 3;
    memcpy(x, &bits, sizeof bits);
}

static void fill(float *x, int n, int step)
{
    for (int i = 0; i < n; i++)
        x[i] = (float)((i * 31 + rank * 17 + step * 7) % 101) * 0.37f + 0.01f * (float)rank;
}

static double sum(const float *x, int n)
{
    double s = 0;
    for (int i = 0; i < n; i++)
        s += (double)x[i] * (i + 1);
    return s;
}

static double collectives(void)
{
    static float x[4 * N], y[8 * N];
    int counts[64], where[64], given[64], from[64];
    double s = 0;
    for (int step = 0; step < STEPS; step++) {
        fill(x, N, step);
        flip(&x[5], step);
        MPI_Allreduce(x, y, N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        s += sum(y, N);
        MPI_Allreduce(MPI_IN_PLACE, x, N, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
        MPI_Bcast(x, N, MPI_FLOAT, size - 1, MPI_COMM_WORLD);
        MPI_Reduce(x, y, N, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
        MPI_Gather(x, 3, MPI_FLOAT, y, 3, MPI_FLOAT, 0, MPI_COMM_WORLD);
        MPI_Allgather(x, 5, MPI_FLOAT, y, 5, MPI_FLOAT, MPI_COMM_WORLD);
        MPI_Scatter(y, 2, MPI_FLOAT, x, 2, MPI_FLOAT, 0, MPI_COMM_WORLD);
        MPI_Alltoall(x, 3, MPI_FLOAT, y, 3, MPI_FLOAT, MPI_COMM_WORLD);
        MPI_Scan(x, y, N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Reduce_scatter_block(x, y, 2, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0, at = 0, to = 0; i < size; i++) {
            counts[i] = 1 + (rank + i) % 3;
            where[i] = at;
            at += counts[i] + 1;
            given[i] = 1 + (rank + i) % 3;
            from[i] = to;
            to += given[i];
        }
        MPI_Alltoallv(x, given, from, MPI_FLOAT, y, counts, where, MPI_FLOAT, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        s += sum(x, N);
    }
    return s;
}

/* Derived types with gaps, and persistent requests in a ring. */
static double ring(void)
{
    static float x[2 * N], y[2 * N];
    MPI_Datatype every_second;
    MPI_Request r[2];
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    double s = 0;
    MPI_Type_vector(N, 1, 2, MPI_FLOAT, &every_second);
    MPI_Type_commit(&every_second);
    MPI_Send_init(x, 1, every_second, next, 3, MPI_COMM_WORLD, &r[0]);
    MPI_Recv_init(y, 1, every_second, before, 3, MPI_COMM_WORLD, &r[1]);
    MPI_Type_free(&every_second);
    for (int step = 0; step < STEPS; step++) {
        fill(x, 2 * N, step);
        for (int i = 1; i < 2 * N; i += 2) /* what is not sent does not count */
            x[i] = (float)getpid();
        flip(&x[6], step);
        MPI_Startall(2, r);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        MPI_Sendrecv_replace(y, N, MPI_FLOAT, before, 4, next, 4, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
        for (int i = 0; i < 2 * N; i += 2)
            s += (double)y[i];
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Request_free(&r[0]);
    MPI_Request_free(&r[1]);
    return s;
}

/* Rank 0 takes whoever comes; in whole numbers the order changes nothing. */
static double server(int exact, int waits)
{
    float x[N], w[N];
    long whole[N], all[N] = {0};
    double s = 0;
    fill(w, N, 0);
    for (int step = 0; step < STEPS; step++) {
        float total[N] = {0};
        if (rank > 0) {
            fill(x, N, step);
            for (int i = 0; i < N; i++) {
                x[i] *= 1.0f / (1.0f + w[i] * w[i]);
                whole[i] = (long)i * rank + step;
            }
            /* who comes first depends on who runs when, or is asked for: far enough apart that a
             * busy machine does not change it */
            if (number("LATE", -1) >= 0)
                usleep(rank == number("LATE", -1) ? 150000 : 15000 * (unsigned)rank);
            if (exact)
                MPI_Send(whole, N, MPI_LONG, 0, 7, MPI_COMM_WORLD);
            else
                MPI_Send(x, N, MPI_FLOAT, 0, 7, MPI_COMM_WORLD);
        }
        static float inbox[64][N];
        MPI_Request r[64];
        for (int k = 1; rank == 0 && waits && k < size; k++)
            MPI_Irecv(inbox[k], N, MPI_FLOAT, k, 7, MPI_COMM_WORLD, &r[k - 1]);
        for (int k = 1; rank == 0 && k < size; k++) {
            int at = 0;
            if (exact)
                MPI_Recv(whole, N, MPI_LONG, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            else if (waits)
                MPI_Waitany(size - 1, r, &at, MPI_STATUS_IGNORE);
            else
                MPI_Recv(x, N, MPI_FLOAT, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            for (int i = 0; i < N; i++) {
                total[i] += waits ? inbox[at + 1][i] : x[i];
                all[i] += exact ? whole[i] : 0;
            }
        }
        for (int i = 0; i < N && !exact; i++)
            w[i] -= 0.01f * total[i];
        MPI_Bcast(w, N, MPI_FLOAT, 0, MPI_COMM_WORLD);
        s = sum(w, N) + (double)all[N - 1];
    }
    return s;
}

/* Communicators with members that differ, non-blocking collectives, probed messages. */
static double groups(void)
{
    static float x[N], y[N];
    MPI_Comm half, copy;
    MPI_Request r;
    int ranks, done = 0;
    double s = 0;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_size(half, &ranks);
    for (int step = 0; step < STEPS; step++) {
        fill(x, N, step);
        flip(&x[7], step);
        MPI_Iallreduce(x, y, N, MPI_FLOAT, MPI_SUM, half, &r);
        for (done = 0; !done;)
            MPI_Test(&r, &done, MPI_STATUS_IGNORE);
        MPI_Ibcast(y, N, MPI_FLOAT, 0, half, &r);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        if (rank == 0) {
            for (int k = 1; k < size; k++) {
                MPI_Message m;
                MPI_Status at;
                int n;
                MPI_Mprobe(k, MPI_ANY_TAG, copy, &m, &at);
                MPI_Get_count(&at, MPI_FLOAT, &n);
                MPI_Mrecv(x, n, MPI_FLOAT, &m, MPI_STATUS_IGNORE);
                s += (double)x[0];
            }
        } else {
            MPI_Send(y, 10 + rank, MPI_FLOAT, 0, 5000 + step, copy);
        }
        MPI_Barrier(copy);
        s += sum(y, N);
    }
    MPI_Comm_free(&half);
    MPI_Comm_free(&copy);
    return s;
}

static double one_sided(void)
{
    float x[4] = {1, 2, 3, 4}, y[4] = {0};
    MPI_Win w;
    MPI_Win_create(y, sizeof y, sizeof *y, MPI_INFO_NULL, MPI_COMM_WORLD, &w);
    MPI_Win_fence(0, w);
    MPI_Put(x, 4, MPI_FLOAT, (rank + 1) % size, 0, 4, MPI_FLOAT, w);
    MPI_Win_fence(0, w);
    MPI_Win_free(&w);
    MPI_Allreduce(MPI_IN_PLACE, y, 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return sum(y, 4);
}

/* Errors are returned, and errno is the program's. */
static double errors(void)
{
    float x = 1;
    double s = 0;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    s += MPI_Send(&x, 1, MPI_FLOAT, size + 7, 1, MPI_COMM_WORLD) != MPI_SUCCESS;
    s += MPI_Recv(&x, 1, MPI_FLOAT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE) ==
         MPI_SUCCESS;
    s += MPI_Send(&x, 1, MPI_FLOAT, MPI_PROC_NULL, 1, MPI_COMM_WORLD) == MPI_SUCCESS;
    if (rank == 0) {
        MPI_Request r;
        MPI_Status at;
        int gone = 0;
        MPI_Irecv(&x, 1, MPI_FLOAT, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &r);
        MPI_Cancel(&r);
        MPI_Wait(&r, &at);
        MPI_Test_cancelled(&at, &gone);
        s += gone;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return s;
}

static void *exchange(void *p)
{
    MPI_Comm *own = p;
    float x[N], y[N];
    for (int step = 0; step < 200; step++) {
        fill(x, N, step);
        MPI_Allreduce(x, y, N, MPI_FLOAT, MPI_SUM, *own);
    }
    return NULL;
}

static double threads(void)
{
    pthread_t t[4];
    MPI_Comm own[4];
    for (int i = 0; i < 4; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &own[i]);
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, exchange, &own[i]);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    for (int i = 0; i < 4; i++)
        MPI_Comm_free(&own[i]);
    return 4;
}

/* One rank dies, or does not come, in a collective of step 3. */
static double ends(int dies)
{
    float x[N], y[N];
    for (int step = 0; step < STEPS; step++) {
        fill(x, N, step);
        if (step == 3 && rank == 1 && dies)
            raise(SIGSEGV);
        if (step == 3 && rank == 1)
            pause();
        MPI_Allreduce(x, y, N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    }
    return sum(y, N);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    int level;
    double s = 0;
    if (strcmp(mode, "threads") == 0)
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    else
        MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (strcmp(mode, "collectives") == 0)
        s = collectives();
    else if (strcmp(mode, "ring") == 0)
        s = ring();
    else if (strcmp(mode, "server") == 0)
        s = server(0, 0);
    else if (strcmp(mode, "counting") == 0)
        s = server(1, 0);
    else if (strcmp(mode, "waiting") == 0)
        s = server(0, 1);
    else if (strcmp(mode, "groups") == 0)
        s = groups();
    else if (strcmp(mode, "one-sided") == 0)
        s = one_sided();
    else if (strcmp(mode, "errors") == 0)
        s = errors();
    else if (strcmp(mode, "threads") == 0)
        s = threads();
    else
        s = ends(strcmp(mode, "dies") == 0);
    if (rank == 0)
        printf("%s %.17g\n", mode, s);
    MPI_Finalize();
    return 0;
}
