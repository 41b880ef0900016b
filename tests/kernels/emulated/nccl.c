/* SPDX-License-Identifier: Apache-2.0 */
/* The double of NCCL (nccl.h). */
#include "nccl.h"

#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { RANKS = 8, PIECE = 1 << 16, POLLS = 3, QUEUED = 16 };

/* What a rank is about to do; all ranks of a communicator must say the same. */
struct post {
    uint64_t number, count;
    int type, operation;
};

/* The file that all ranks of a communicator map. */
struct meeting {
    pthread_barrier_t barrier;
    struct post post[RANKS];
    unsigned char data[RANKS][PIECE];
};

struct ncclComm {
    struct meeting *at;
    int rank, ranks;
    bool blocking;
    uint64_t calls;
    int polls;            /* how often it must be asked until it is no longer in progress */
    struct work *pending; /* what begins then */
};

struct work {
    struct ncclComm *comm;
    struct post post;
    const unsigned char *send;
    unsigned char *receive;
    cudaStream_t stream;
};

static int skipped = -1, depth, queued;
static struct work *group[QUEUED];
static uint64_t begun, troubles;

void nccl_double_skip(int n)
{
    skipped = n;
    begun = 0;
}

uint64_t nccl_double_begun(void)
{
    return begun;
}

uint64_t nccl_double_trouble(void)
{
    return troubles;
}

/* ---- communicators */

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    const char *folder = getenv("TMPDIR");
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "%s/nccl-double-XXXXXX", folder ? folder : "/tmp");
    const int fd = mkstemp(id->internal);
    if (fd < 0 || ftruncate(fd, sizeof(struct meeting)) != 0)
        return ncclSystemError;
    close(fd);
    return ncclSuccess;
}

/* Rank 0 makes the barrier, and the others wait until the file says that it is there: its length is
 * one byte more then. */
static ncclResult_t join(struct ncclComm *c, const char *path)
{
    const int fd = open(path, O_RDWR);
    if (fd < 0)
        return ncclSystemError;
    c->at = mmap(NULL, sizeof *c->at, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (c->at == MAP_FAILED) {
        close(fd);
        return ncclSystemError;
    }
    if (c->rank == 0) {
        pthread_barrierattr_t shared;
        pthread_barrierattr_init(&shared);
        pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
        pthread_barrier_init(&c->at->barrier, &shared, (unsigned)c->ranks);
        pthread_barrierattr_destroy(&shared);
        if (ftruncate(fd, sizeof *c->at + 1) != 0)
            abort();
    }
    while (lseek(fd, 0, SEEK_END) == (off_t)sizeof *c->at)
        usleep(100);
    close(fd);
    pthread_barrier_wait(&c->at->barrier);
    if (c->rank == 0)
        unlink(path); /* all have it */
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    if (ranks < 1 || ranks > RANKS || rank < 0 || rank >= ranks)
        return ncclInvalidArgument;
    struct ncclComm *c = calloc(1, sizeof *c);
    assert(c);
    c->rank = rank;
    c->ranks = ranks;
    c->blocking = !config || config->blocking != 0;
    *comm = c;
    return join(c, id.internal);
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
    return ncclCommInitRankConfig(comm, ranks, id, rank, NULL);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    munmap(comm->at, sizeof *comm->at);
    free(comm);
    return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *ranks)
{
    *ranks = comm->ranks;
    return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
    *rank = comm->rank;
    return ncclSuccess;
}

/* ---- arithmetic */

static size_t size_of(int type)
{
    return type == ncclInt64 ? 8 : 4;
}

static int64_t combine(int operation, int64_t a, int64_t b)
{
    if (operation == ncclMax)
        return a > b ? a : b;
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* One more rank's elements. */
static void add(const struct post *p, unsigned char *to, const unsigned char *from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p->type == ncclInt64)
            ((int64_t *)to)[i] = combine(p->operation, ((int64_t *)to)[i], ((int64_t *)from)[i]);
        else if (p->type == ncclInt32)
            ((int32_t *)to)[i] = (int32_t)combine(p->operation, ((int32_t *)to)[i],
                                                  ((const int32_t *)from)[i]);
        else
            ((float *)to)[i] += ((const float *)from)[i];
    }
}

/* ---- collectives */

/* As work of the stream: every rank is in here, or will come. */
static void run(void *argument)
{
    struct work *w = argument;
    struct meeting *m = w->comm->at;
    const int ranks = w->comm->ranks;
    const size_t size = size_of(w->post.type), most = PIECE / size;
    m->post[w->comm->rank] = w->post;
    pthread_barrier_wait(&m->barrier);
    bool fits = true;
    for (int i = 0; i < ranks; i++)
        fits = fits && memcmp(&m->post[i], &w->post, sizeof w->post) == 0;
    troubles += !fits;
    pthread_barrier_wait(&m->barrier);
    for (size_t at = 0; fits && at < w->post.count; at += most) {
        const size_t n = w->post.count - at < most ? w->post.count - at : most;
        memcpy(m->data[w->comm->rank], w->send + at * size, n * size);
        pthread_barrier_wait(&m->barrier);
        const int first = (int)((w->post.number * 0x9E3779B9u >> 7) % (unsigned)ranks);
        memcpy(w->receive + at * size, m->data[first], n * size);
        for (int i = 1; i < ranks; i++)
            add(&w->post, w->receive + at * size, m->data[(first + i) % ranks], n);
        pthread_barrier_wait(&m->barrier);
    }
    free(w);
}

static void begin(struct work *w)
{
    if (skipped >= 0 && begun++ == (uint64_t)skipped) {
        free(w);
        return;
    }
    nccl_double_enqueue(w->stream, run, w);
}

/* Now, or when a communicator that does not block was asked often enough. */
static ncclResult_t launch(struct work *w)
{
    struct ncclComm *c = w->comm;
    if (c->blocking) {
        begin(w);
        return ncclSuccess;
    }
    c->polls = POLLS;
    c->pending = w;
    return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
    if (comm->pending && --comm->polls == 0) {
        begin(comm->pending);
        comm->pending = NULL;
    }
    *state = comm->pending ? ncclInProgress : ncclSuccess;
    return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *send, void *receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream)
{
    if (comm->pending) {
        troubles++;
        return ncclInvalidUsage;
    }
    struct work *w = calloc(1, sizeof *w);
    assert(w);
    w->comm = comm;
    w->post.number = comm->calls++;
    w->post.count = count;
    w->post.type = (int)type;
    w->post.operation = (int)operation;
    w->send = send;
    w->receive = receive;
    w->stream = stream;
    if (depth == 0)
        return launch(w);
    assert(queued < QUEUED);
    group[queued++] = w;
    return ncclSuccess;
}

ncclResult_t ncclGroupStart(void)
{
    depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    ncclResult_t result = ncclSuccess;
    if (--depth > 0)
        return result;
    for (int i = 0; i < queued; i++) {
        assert(group[i]->comm->blocking); /* a group of others is not played */
        launch(group[i]);
    }
    queued = 0;
    return result;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclInvalidUsage ? "invalid usage" : "an error of the double";
}
