/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A parameter server whose messages come in any order: `mpi_order_job MODE[/HOW] [STEPS]`. Rank 0
 * prints from whom each message came, and a sum that depends on that. MODE is how the workers send:
 *
 *     free      when they like
 *     up, down  worker 1 (the last one) sends first, the others one after another
 *     split     when they like, on a communicator in which the ranks are in reverse order
 *
 * HOW is the way in which rank 0 takes the messages; without it by MPI_Recv from any source.
 *
 *     tags      and with any tag, too: another call than the others make
 *     drawn     and in some steps with any tag, as random bytes of the system say
 *     named     it receives from one worker after another; one adds random bytes of the system
 *     mprobe    it probes for messages and takes what it found
 *     improbe   the same, asking again and again
 *     irecv     it posts a receive for each worker, and waits for one after another
 *     waitall   the same, and waits for all at once (not with up and down)
 *     waitany   the same, and takes what is complete
 *     testsome  the same, asking again and again
 *     chosen    it posts a receive from each worker, and takes what MPI_Waitany finds complete
 *     gathered  the same by MPI_Testsome, of receives from any source
 *     tested    the same by MPI_Test of one after another, of receives from any source
 *     ahead     each receive is posted before the message before it is waited for
 *     service   another receive, that nothing is sent to, stays posted, and is cancelled at the end
 *     barrier   irecv, with a barrier between the posting and the messages
 *     sendrecv  it sends something to itself and receives in one call
 *     replaced  the same by MPI_Sendrecv_replace
 *     started   it starts one persistent receive for each message
 *     kept      it starts a persistent receive for each worker, and waits for one after another
 *     keptany   the same, and takes what MPI_Waitany finds complete
 *     keptall   the same, and waits for all at once (not with up and down)
 *     freed     a persistent receive is started and freed; its message comes at the end
 *     probe     it probes, and receives from whom the probe said
 *     iprobe    the same, asking again and again
 *     cross     irecv, and before it waits it sends to worker 1, who sends to it first; neither
 *               send ends before it is received
 *     join      irecv, and before it waits there is a barrier, to which worker 1 comes when its
 *               message was received
 *     turns     each rank is the one that receives, in turn
 *     join-X    the same with another call that waits for worker 1 (mpi_order_joins.c)
 */
#include "mpi_order_joins.h"

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#ifdef WEAK_LARGE /* it receives with counts of 64 bits */
#ifdef OPEN_MPI
#include "mpi_large.h"
#endif
#define MPI_Recv MPI_Recv_c
#define MPI_Irecv MPI_Irecv_c
#define MPI_Mrecv MPI_Mrecv_c
#define MPI_Recv_init MPI_Recv_init_c
#define MPI_Sendrecv MPI_Sendrecv_c
#define MPI_Sendrecv_replace MPI_Sendrecv_replace_c
#endif

enum { TAG = 7, TURN = 8, NEVER = 9, CROSS = 10, WORKERS = 16 };
static int rank, size, server;
static const char *mode, *how = "";
static MPI_Comm comm;
static MPI_Request ahead = MPI_REQUEST_NULL, service = MPI_REQUEST_NULL;
static MPI_Request kept[WORKERS]; /* persistent */
static float kept_slot[WORKERS];
static float slot[2]; /* of `ahead`, in turn */
static int filled;

static int is(const char *name)
{
    return strncmp(mode, name, strcspn(mode, "/")) == 0 && strlen(name) == strcspn(mode, "/");
}

static int by(const char *name)
{
    return strcmp(how, name) == 0;
}

static int joins(void)
{
    return strncmp(how, "join", 4) == 0;
}

static void work(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    /* The ranks come here at nearly the same time, so its last bits decide, for each by itself. */
    const uint32_t drawn = ((uint32_t)t.tv_nsec + (uint32_t)rank) * 2654435761U >> 16;
    usleep(drawn % 3000);
}

/* The worker that sends behind this one; 0: none. Workers are numbered from 1. */
static int next_of(int worker)
{
    int n = is("up") ? worker + 1 : worker - 1;
    return n < size ? n : 0;
}

static void give_turn(int to)
{
    if (to > 0)
        MPI_Send(NULL, 0, MPI_INT, to, TURN, comm);
}

static void worker(int step)
{
    float x = 1.0f / (float)(1 + rank * 3 + step);
    if (is("up") || is("down"))
        MPI_Recv(NULL, 0, MPI_INT, server, TURN, comm, MPI_STATUS_IGNORE);
    else
        work();
    if (rank == 1 && (by("cross") || joins()))
        MPI_Ssend(&x, 1, MPI_FLOAT, server, TAG, comm);
    else
        MPI_Send(&x, 1, MPI_FLOAT, server, TAG, comm);
    if (rank == 1 && by("cross"))
        MPI_Recv(NULL, 0, MPI_INT, server, CROSS, comm, MPI_STATUS_IGNORE);
}

static int drawn_bit(void)
{
    unsigned char byte = 0;
    if (getrandom(&byte, 1, 0) != 1)
        abort();
    return byte & 1;
}

static int probed(void)
{
    MPI_Status status;
    int flag = by("probe");
    if (flag)
        MPI_Probe(MPI_ANY_SOURCE, TAG, comm, &status);
    while (!flag)
        MPI_Iprobe(MPI_ANY_SOURCE, TAG, comm, &flag, &status);
    return status.MPI_SOURCE;
}

static int receive(float *x)
{
    MPI_Status status;
    MPI_Message m;
    int flag = by("mprobe");
    if (by("mprobe"))
        MPI_Mprobe(MPI_ANY_SOURCE, TAG, comm, &m, &status);
    while (by("improbe") && !flag)
        MPI_Improbe(MPI_ANY_SOURCE, TAG, comm, &flag, &m, &status);
    if (flag) {
        MPI_Mrecv(x, 1, MPI_FLOAT, &m, &status);
    } else if (by("ahead")) {
        MPI_Wait(&ahead, &status);
        *x = slot[filled];
        filled = !filled;
        MPI_Irecv(&slot[filled], 1, MPI_FLOAT, MPI_ANY_SOURCE, TAG, comm, &ahead);
    } else if (by("sendrecv")) {
        int one = 1, other = 0;
        MPI_Request r;
        MPI_Irecv(&other, 1, MPI_INT, server, TURN, comm, &r);
        MPI_Sendrecv(&one, 1, MPI_INT, server, TURN, x, 1, MPI_FLOAT, MPI_ANY_SOURCE, TAG, comm,
                     &status);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
    } else if (by("replaced")) {
        float other = 0;
        MPI_Request r;
        *x = 2;
        MPI_Irecv(&other, 1, MPI_FLOAT, server, TURN, comm, &r);
        MPI_Sendrecv_replace(x, 1, MPI_FLOAT, server, TURN, MPI_ANY_SOURCE, TAG, comm, &status);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        *x += other - 2;
    } else if (by("started")) {
        MPI_Start(&kept[0]);
        MPI_Wait(&kept[0], &status);
        *x = kept_slot[0];
    } else if (by("probe") || by("iprobe")) {
        MPI_Recv(x, 1, MPI_FLOAT, probed(), TAG, comm, &status);
    } else if (by("named")) {
        static int last;
        last = last % (size - 1) + 1;
        MPI_Recv(x, 1, MPI_FLOAT, last, TAG, comm, &status);
        *x += (float)drawn_bit();
    } else {
        const int any_tag = by("tags") || (by("drawn") && drawn_bit());
        MPI_Recv(x, 1, MPI_FLOAT, MPI_ANY_SOURCE, any_tag ? MPI_ANY_TAG : TAG, comm, &status);
    }
    return status.MPI_SOURCE;
}

static int in_their_order(void)
{
    return by("chosen") || by("gathered") || by("tested") || by("keptany");
}

/* One more of those that are complete. How many. */
static int some(MPI_Request *posted, int *index, MPI_Status *done)
{
    int n = 1, flag = 0;
    if (by("testsome") || by("gathered"))
        MPI_Testsome(size - 1, posted, &n, index, done);
    else if (by("tested"))
        for (*index = -1; !flag && *index < size - 2;) {
            ++*index;
            if (posted[*index] != MPI_REQUEST_NULL)
                MPI_Test(&posted[*index], &flag, done);
        }
    else
        MPI_Waitany(size - 1, posted, index, done);
    return by("tested") ? flag : n;
}

/* Waits for receives that were posted, and writes down which message each of them took, or, where
 * that is asked for, in which order they came. */
static void finish(MPI_Request *posted, MPI_Status *took, float *x)
{
    MPI_Status done[WORKERS];
    float was[WORKERS];
    int index[WORKERS], n = 0, all = 0;
    const int at_once = by("waitall") || by("keptall");
    if (at_once)
        MPI_Waitall(size - 1, posted, took);
    for (int left = size - 1; left > 0 && !at_once; left -= n) {
        n = some(posted, index, done);
        for (int i = 0; i < n; i++) {
            took[in_their_order() ? all : index[i]] = done[i];
            was[all++] = x[index[i]];
            if (is("up") || is("down"))
                give_turn(next_of(done[i].MPI_SOURCE));
        }
    }
    if (in_their_order())
        memcpy(x, was, (size_t)all * sizeof *x);
}

static int keeps(void)
{
    return by("kept") || by("keptany") || by("keptall");
}

static float serve_posted(float sum)
{
    MPI_Request requests[WORKERS], *posted = keeps() ? kept : requests;
    MPI_Status took[WORKERS];
    float slots[WORKERS], *x = keeps() ? kept_slot : slots;
    const int in_turn = is("up") || is("down");
    const int each = !by("waitall") && !by("waitany") && !by("testsome") && !by("keptall") &&
                     !in_their_order();
    if (keeps())
        MPI_Startall(size - 1, kept);
    for (int i = 0; i < size - 1 && !keeps(); i++)
        MPI_Irecv(&x[i], 1, MPI_FLOAT, by("chosen") ? i + (server == 0) : MPI_ANY_SOURCE, TAG, comm,
                  &posted[i]);
    if (by("barrier"))
        MPI_Barrier(comm);
    if (joins())
        join_all(how);
    if (in_turn)
        give_turn(is("up") ? 1 : size - 1);
    if (by("cross"))
        MPI_Ssend(NULL, 0, MPI_INT, 1, CROSS, comm);
    if (!each)
        finish(posted, took, x);
    for (int i = 0; i < size - 1; i++) {
        if (each)
            MPI_Wait(&posted[i], &took[i]);
        sum = sum * 0.7f + x[i];
        printf("%d ", took[i].MPI_SOURCE);
        if (in_turn && each)
            give_turn(next_of(took[i].MPI_SOURCE));
    }
    return sum;
}

static float serve(float sum)
{
    if (is("up") || is("down"))
        give_turn(is("up") ? 1 : size - 1);
    for (int i = 1; i < size; i++) {
        float x;
        const int source = receive(&x);
        sum = sum * 0.7f + x;
        printf("%d ", source);
        if (is("up") || is("down"))
            give_turn(next_of(source));
    }
    return sum;
}

static int posts(void)
{
    static const char *const those[] = {"irecv",   "waitall", "waitany", "testsome",
                                        "barrier", "cross",   "chosen",  "gathered",
                                        "tested",  "kept",    "keptany", "keptall"};
    for (size_t i = 0; i < sizeof those / sizeof *those; i++)
        if (by(those[i]))
            return 1;
    return joins();
}

static void post_first(void)
{
    if (by("ahead"))
        MPI_Irecv(slot, 1, MPI_FLOAT, MPI_ANY_SOURCE, TAG, comm, &ahead);
    if (by("service"))
        MPI_Irecv(NULL, 0, MPI_INT, MPI_ANY_SOURCE, NEVER, comm, &service);
}

static void make_persistent(void)
{
    for (int i = 0; i < size - 1 && (keeps() || by("started")); i++)
        MPI_Recv_init(&kept_slot[i], 1, MPI_FLOAT, MPI_ANY_SOURCE, TAG, comm, &kept[i]);
    if (!by("freed"))
        return;
    MPI_Request r;
    MPI_Recv_init(NULL, 0, MPI_INT, MPI_ANY_SOURCE, NEVER, comm, &r);
    MPI_Start(&r);
    MPI_Request_free(&r);
}

static void free_persistent(void)
{
    for (int i = 0; i < size - 1 && (keeps() || by("started")); i++)
        MPI_Request_free(&kept[i]);
}

static void end_one(MPI_Request *r)
{
    if (*r == MPI_REQUEST_NULL)
        return;
    MPI_Cancel(r);
    MPI_Wait(r, MPI_STATUS_IGNORE);
}

/* A communicator in which the ranks go round, so that another one is the server. */
static MPI_Comm turned(int by)
{
    MPI_Comm made;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, 0, (rank + size - by) % size, &made);
    MPI_Comm_rank(made, &rank);
    return made;
}

int main(int argc, char **argv)
{
    float sum = 0;
    MPI_Init(&argc, &argv);
    mode = argc > 1 ? argv[1] : "free";
    if (strchr(mode, '/'))
        how = strchr(mode, '/') + 1;
    const int steps = argc > 2 ? atoi(argv[2]) : 6;
    join_prepare(how);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    comm = MPI_COMM_WORLD;
    if (is("split")) {
        MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comm);
        MPI_Comm_rank(comm, &rank);
        server = size - 1; /* rank 0 of all */
    }
    if (rank == server) {
        make_persistent();
        post_first();
    }
    for (int step = 0; step < steps; step++) {
        if (by("turns"))
            comm = turned(step % size);
        if (rank == server) {
            sum = posts() ? serve_posted(sum) : serve(sum);
        } else {
            if (by("barrier"))
                MPI_Barrier(comm);
            if (joins() && rank != 1)
                join_all(how);
            worker(step);
            if (joins() && rank == 1)
                join_all(how);
        }
        MPI_Bcast(&sum, 1, MPI_FLOAT, server, comm);
    }
    if (by("freed") && rank == 1) /* is received, though its request is not there any more */
        MPI_Ssend(NULL, 0, MPI_INT, server, NEVER, comm);
    end_one(&ahead);
    end_one(&service);
    join_end();
    if (rank == server) {
        free_persistent();
        printf("%a\n", (double)sum);
    }
    MPI_Finalize();
    return 0;
}
