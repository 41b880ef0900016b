/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent of MPI in a program of one rank and several threads, which all call MPI at once: one
 * receives in a recorded order, one sends, one probes, receives and waits for all. The agent's
 * pages are compiled in, so that ThreadSanitizer sees them; what stands in for libtwinrun.so only
 * counts. Fails where a message is wrong, where it hangs, or where the replay was given up in the
 * first part, in which one thread alone receives. In the last part contents are recorded, and each
 * thread makes collectives, messages and derived types on communicators of its own, which it makes
 * and frees while others look theirs up.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agents/common/agent.h"
#include "src/trace/order.h"

enum {
    ROUNDS = 200,
    TAG = 7,
    OTHER = 9,
    THIRD = 11,
    EACH = 3,
    PAUSES = 10,
    THREADS = 4,
    LASTING = 64
};
/* lasting: some of each thread of the last part, so that looking one up passes others */
static MPI_Comm copy, lasting[THREADS * LASTING];
static _Atomic unsigned notes, series, records, digests;
static _Atomic int level = TW_LEVEL_STEPS;
static int second; /* the part in which two threads receive */

/* ---- in place of libtwinrun.so */

int tw_agent_on(void)
{
    return 1;
}

int tw_agent_level(void)
{
    return level;
}

void tw_agent_note(const char *key, const char *value)
{
    fprintf(stderr, "note %s: %s\n", key, value);
    notes++;
}

uint32_t tw_agent_step(void)
{
    return 0;
}

uint32_t tw_agent_step_end(void)
{
    return 0;
}

void tw_agent_identify(int32_t rank, int32_t world, const char *role, int kind)
{
    (void)rank, (void)world, (void)role, (void)kind;
}

uint32_t tw_agent_series(int phase, int kind, const char *name, const char *scope, const char *role,
                         const char *op, const char *site)
{
    (void)phase, (void)kind, (void)name, (void)scope, (void)role, (void)op, (void)site;
    return ++series;
}

uint32_t tw_agent_layout(int dtype, uint32_t ndim, const int64_t *shape)
{
    (void)dtype, (void)ndim, (void)shape;
    return 1;
}

size_t tw_agent_records(struct tw_agent_item *items, size_t n, const uint64_t *consumed,
                        size_t consumed_count)
{
    struct twin_digest read;
    (void)consumed, (void)consumed_count;
    for (size_t i = 0; i < n && level == TW_LEVEL_TENSORS; i++)
        if (!(items[i].flags >> 8))
            tw_agent_digests(&items[i], 1, &read);
    records += (unsigned)n;
    return n;
}

/* What is recorded is read, as a digest would: a race with the program's writing shows. */
void tw_agent_digests(const struct tw_agent_item *items, size_t n, struct twin_digest *out)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char sum = 0;
        for (size_t k = 0; k < items[i].count; k++)
            sum ^= ((const unsigned char *)items[i].data)[k];
        out[i] = (struct twin_digest){.a = sum};
        digests++;
    }
}

uint32_t tw_agent_sketch_every(void)
{
    return 0;
}

int tw_agent_can_read(const void *data, size_t bytes)
{
    (void)data, (void)bytes;
    return 1;
}

/* ---- the order */

static void must(int yes, const char *what)
{
    if (yes)
        return;
    fprintf(stderr, "mpi_threads: %s\n", what);
    exit(1);
}

/* All messages come from this rank, so that only their tags tell them apart. */
static void write_order(const char *folder)
{
    static struct tw_order_match m[ROUNDS * 5];
    char name[TW_ORDER_NAME] = "MPI_COMM_WORLD", path[256];
    struct tw_order_head head = {
        .magic = TW_ORDER_MAGIC, .version = TW_ORDER_VERSION, .comms = 1, .wait_ms = 60000};
    for (int i = 0; i < ROUNDS; i++) {
        for (int k = 0; k < 2; k++)
            m[head.matches++] = (struct tw_order_match){.open = TW_ORDER_ANY_SOURCE, .tag = TAG};
        if (i % EACH == 0)
            m[head.matches++] = (struct tw_order_match){.open = TW_ORDER_ANY_SOURCE, .tag = THIRD};
    }
    for (int i = 0; i < 2 * ROUNDS; i++)
        m[head.matches + head.ends++] = (struct tw_order_match){.tag = TAG};
    snprintf(path, sizeof path, TW_ORDER_FILE, folder, 0);
    FILE *f = fopen(path, "wb");
    must(f && fwrite(&head, sizeof head, 1, f) == 1 && fwrite(name, sizeof name, 1, f) == 1 &&
             fwrite(m, sizeof *m, head.matches + head.ends, f) == head.matches + head.ends &&
             fclose(f) == 0,
         "the order file cannot be written");
}

/* ---- the threads */

static void *receive(void *unused)
{
    for (int i = 0; i < ROUNDS; i++) {
        float x[3] = {-1, -1, (float)i};
        MPI_Request r[2];
        MPI_Status s[2];
        int index;
        for (int k = 0; k < 2; k++)
            MPI_Irecv(&x[k], 1, MPI_FLOAT, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &r[k]);
        MPI_Waitany(2, r, &index, s);
        MPI_Waitall(2, r, s);
        if (i % EACH == 0)
            MPI_Recv(&x[2], 1, MPI_FLOAT, MPI_ANY_SOURCE, THIRD, MPI_COMM_WORLD, s);
        must(x[0] == (float)i && x[1] == (float)i && x[2] == (float)i, "another message came");
    }
    return unused;
}

static void *send(void *unused)
{
    for (int i = 0; i < ROUNDS; i++) {
        float x = (float)i;
        MPI_Request r;
        MPI_Send(&x, 1, MPI_FLOAT, 0, TAG, MPI_COMM_WORLD);
        MPI_Isend(&x, 1, MPI_FLOAT, 0, TAG, MPI_COMM_WORLD, &r);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        if (i % EACH == 0)
            MPI_Send(&x, 1, MPI_FLOAT, 0, THIRD, MPI_COMM_WORLD);
    }
    return unused;
}

static void *others(void *unused)
{
    for (int i = 0; i < ROUNDS; i++) {
        float x = 1, y = 0;
        MPI_Request r;
        MPI_Status s;
        int flag = 0;
        MPI_Iprobe(0, OTHER + 1, MPI_COMM_WORLD, &flag, &s);
        if (second) {
            MPI_Irecv(&y, 1, MPI_FLOAT, 0, OTHER, MPI_COMM_WORLD, &r);
            MPI_Send(&x, 1, MPI_FLOAT, 0, OTHER, MPI_COMM_WORLD);
            while (!flag)
                MPI_Test(&r, &flag, &s);
            must(y == 1, "another message came to the other thread");
        }
        if (i % PAUSES == 0)
            MPI_Barrier(copy);
    }
    return unused;
}

/* One thread of the last part. */
static void *by_itself(void *number)
{
    const int own = *(const int *)number;
    for (int i = 0; i < ROUNDS / 2; i++) {
        MPI_Comm comm;
        MPI_Datatype gaps;
        MPI_Request r[2];
        float x[8], y[8] = {0}, z[8] = {0};
        int some[1] = {3}, where[1] = {1}, bytes[1] = {4};
        MPI_Datatype floats[1] = {MPI_FLOAT};
        for (int k = 0; k < 8; k++)
            x[k] = (float)(own * 1000 + i + k);
        MPI_Comm_dup(lasting[own * LASTING + i % LASTING], &comm);
        MPI_Allreduce(x, y, 8, MPI_FLOAT, MPI_SUM, comm);
        must(memcmp(x, y, sizeof x) == 0, "another sum");
        MPI_Scan(x, z, 8, MPI_FLOAT, MPI_MAX, comm);
        MPI_Iallreduce(MPI_IN_PLACE, z, 8, MPI_FLOAT, MPI_SUM, comm, &r[0]);
        MPI_Wait(&r[0], MPI_STATUS_IGNORE);
        must(memcmp(x, z, sizeof x) == 0, "another sum of a non-blocking call");
        MPI_Alltoallv(x, some, where, MPI_FLOAT, y, some, where, MPI_FLOAT, comm);
        MPI_Alltoallw(x, some, bytes, floats, z, some, bytes, floats, comm);
        MPI_Type_vector(4, 1, 2, MPI_FLOAT, &gaps);
        MPI_Type_commit(&gaps);
        MPI_Irecv(z, 1, gaps, 0, own, comm, &r[0]);
        MPI_Isend(x, 1, gaps, 0, own, comm, &r[1]);
        MPI_Type_free(&gaps);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        MPI_Sendrecv(x, 8, MPI_FLOAT, 0, own, y, 8, MPI_FLOAT, 0, own, comm, MPI_STATUS_IGNORE);
        must(y[7] == x[7] && z[2] == x[2], "another message came to a thread of its own");
        MPI_Comm_free(&comm);
    }
    return NULL;
}

static void threads_by_themselves(void)
{
    static int number[THREADS];
    pthread_t thread[THREADS];
    level = TW_LEVEL_TENSORS;
    for (int i = 0; i < THREADS * LASTING; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &lasting[i]);
    for (int i = 0; i < THREADS; i++) {
        number[i] = i;
        must(pthread_create(&thread[i], NULL, by_itself, &number[i]) == 0, "no thread");
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    must(digests > 0, "no parts were digested");
}

int main(void)
{
    static void *(*const part[])(void *) = {receive, send, others};
    char folder[] = "/tmp/twinrun-mpi-threads-XXXXXX", path[64];
    pthread_t thread[3];
    int given;
    must(mkdtemp(folder) && setenv("TWINRUN_RUN_DIR", folder, 1) == 0, "no folder");
    write_order(folder);
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &given);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    for (; second < 2 && given == MPI_THREAD_MULTIPLE; second++) {
        for (int i = 0; i < 3; i++)
            must(pthread_create(&thread[i], NULL, part[i], NULL) == 0, "no thread");
        for (int i = 0; i < 3; i++)
            pthread_join(thread[i], NULL);
        must(second || notes == 0, "the replay was given up");
    }
    if (given == MPI_THREAD_MULTIPLE)
        threads_by_themselves();
    MPI_Finalize();
    snprintf(path, sizeof path, TW_ORDER_FILE, folder, 0);
    unlink(path);
    rmdir(folder);
    must(given != MPI_THREAD_MULTIPLE || records > 0, "nothing was recorded");
    return 0;
}
