/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A double: plays NCCL's side of the profiler interface, versions 1 to 5, where there is no GPU. It
 * loads what NCCL_PROFILER_PLUGIN names as NCCL does, takes one version, and tells it of
 * collectives that nobody runs. The layouts are declared here once more and in full (the agent's
 * header has only what it reads), so that one of the two being wrong shows.
 *
 *     nccl_double [--version N] [--name NAME] [--rank R] [--ranks N] [--steps N] [--odd STEP]
 *                 [--communicators N] [--threads N] [--hostile] [--child] CALL...
 *
 * CALL is FUNCTION:COUNT:DATATYPE:ALGORITHM:PROTOCOL:CHANNELS, once in each step, in order; with
 * @STEP behind it in that step alone, with !STEP in all others. In each step a value is recorded,
 * which is another one in the step --odd. --hostile: events that no NCCL sends. --child: a forked
 * child sends some, too. Prints "ok" and how many tables it found.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <twin/twin.h>
#include <unistd.h>

#define CHECK(what)                                                         \
    do {                                                                    \
        if (!(what)) {                                                      \
            fprintf(stderr, "nccl_double: line %d: %s\n", __LINE__, #what); \
            exit(70);                                                       \
        }                                                                   \
    } while (0)

enum { GROUP = 1, COLL = 2, P2P = 4, PROXY_OP = 8, PROXY_STEP = 16, COLL_API = 1 << 9 };

/* The largest of the other kinds of event are these: what a plugin might read of them by mistake is
 * filled with bytes that are no pointers. */
struct v1 {
    uint8_t type;
    void *parentObj;
    int rank;
    union {
        struct {
            const char *name;
            uint64_t commHash, seqNumber;
            uint8_t func;
            void const *sendBuff;
            void *recvBuff;
            size_t count;
            int root;
            uint8_t datatype;
            uint32_t op;
            size_t trafficBytes;
            uint8_t nMaxChannels, nWarps, algo, proto;
            int isCollnet, isNvls;
        } coll;
        unsigned char bytes[160];
    };
};

#define NAMED         \
    const char *name; \
    uint64_t commHash;
#define UNNAMED
#define TRAFFIC size_t trafficBytes;
#define GROUP_BEHIND void *parentGroup;
#define DESCRIPTION(version, type_of, named, traffic, behind) \
    struct version {                                          \
        type_of type;                                         \
        void *parentObj;                                      \
        int rank;                                             \
        union {                                               \
            struct {                                          \
                named uint64_t seqNumber;                     \
                const char *func;                             \
                void const *sendBuff;                         \
                void *recvBuff;                               \
                size_t count;                                 \
                int root;                                     \
                const char *datatype;                         \
                traffic uint8_t nChannels, nWarps;            \
                const char *algo, *proto;                     \
                behind                                        \
            } coll;                                           \
            unsigned char bytes[160];                         \
        };                                                    \
    }
DESCRIPTION(v2, uint8_t, NAMED, TRAFFIC, UNNAMED);
DESCRIPTION(v3, uint8_t, NAMED, UNNAMED, UNNAMED);
DESCRIPTION(v4, uint8_t, UNNAMED, UNNAMED, UNNAMED);
DESCRIPTION(v5, uint64_t, UNNAMED, UNNAMED, GROUP_BEHIND);

/* All versions have these five functions behind the name; the first has other arguments. */
struct table {
    const char *name;
    void *init;
    int (*startEvent)(void *context, void **eHandle, void *eDescr);
    int (*stopEvent)(void *eHandle);
    int (*recordEventState)(void *eHandle, int eState, void *eStateArgs);
    int (*finalize)(void *context);
};
typedef int init_unnamed(void **context, int *eActivationMask);
typedef int init_v4(void **context, int *eActivationMask, const char *commName, uint64_t commHash,
                    int nNodes, int nranks, int rank, void *logfn);
typedef int init_v5(void **context, uint64_t commId, int *eActivationMask, const char *commName,
                    int nNodes, int nranks, int rank, void *logfn);

struct call {
    char func[24], datatype[24], algo[24], proto[24];
    size_t count;
    int channels, at, not_at; /* -1: in every step */
};

static int version = 5, rank, ranks = 4, steps = 4, odd = -1, comms = 1, threads = 1, calls;
static const char *name;
static bool hostile, forks;
static struct call call[64];
static const struct table *plugin;

/* ---- one communicator */

struct comm {
    void *context;
    int mask, number;
    uint64_t sequence[64]; /* by the place of the function's first call */
};

static int number_of(const char *const *words, const char *word)
{
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    return 255;
}

static void open_comm(struct comm *c, int number)
{
    const uint64_t hash = 0x5555000000000000u ^ (uint64_t)getpid() << 8 ^ (uint64_t)number;
    memset(c, 0, sizeof *c);
    c->number = number;
    int rc;
    if (version == 5)
        rc = ((init_v5 *)plugin->init)(&c->context, hash, &c->mask, name, 1, ranks, rank, NULL);
    else if (version == 4)
        rc = ((init_v4 *)plugin->init)(&c->context, &c->mask, name, hash, 1, ranks, rank, NULL);
    else
        rc = ((init_unnamed *)plugin->init)(&c->context, &c->mask);
    CHECK(rc == 0);
}

#define FILL(e, sequence_of)                       \
    do {                                           \
        (e).type = COLL;                           \
        (e).parentObj = group;                     \
        (e).rank = rank;                           \
        (e).coll.seqNumber = (sequence_of);        \
        (e).coll.func = k->func;                   \
        (e).coll.count = k->count;                 \
        (e).coll.datatype = k->datatype;           \
        (e).coll.nChannels = (uint8_t)k->channels; \
        (e).coll.algo = k->algo;                   \
        (e).coll.proto = k->proto;                 \
    } while (0)

static void tell(struct comm *c, const struct call *k, uint64_t sequence, void *group,
                 void **handle)
{
    static const char *const funcs[] = {"Broadcast",     "Reduce",    "AllGather",
                                        "ReduceScatter", "AllReduce", NULL};
    static const char *const algos[] = {
        "TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT", NULL};
    static const char *const protos[] = {"LL", "LL128", "SIMPLE", NULL};
    static const char *const types[] = {
        "ncclInt8",       "ncclUint8",      "ncclInt32",   "ncclUint32",  "ncclInt64",
        "ncclUint64",     "ncclFloat16",    "ncclFloat32", "ncclFloat64", "ncclBfloat16",
        "ncclFloat8e4m3", "ncclFloat8e5m2", NULL};
    union {
        struct v1 v1;
        struct v2 v2;
        struct v3 v3;
        struct v4 v4;
        struct v5 v5;
    } e;
    memset(&e, 0xA5, sizeof e);
    switch (version) {
    case 1:
        e.v1.type = COLL;
        e.v1.parentObj = group;
        e.v1.rank = rank;
        e.v1.coll.name = name;
        e.v1.coll.commHash = 0;
        e.v1.coll.seqNumber = sequence;
        e.v1.coll.func = (uint8_t)number_of(funcs, k->func);
        e.v1.coll.count = k->count;
        e.v1.coll.datatype = (uint8_t)number_of(types, k->datatype);
        e.v1.coll.nMaxChannels = (uint8_t)k->channels;
        e.v1.coll.algo = (uint8_t)number_of(algos, k->algo);
        e.v1.coll.proto = (uint8_t)number_of(protos, k->proto);
        break;
    case 2:
        FILL(e.v2, sequence);
        e.v2.coll.name = name;
        break;
    case 3:
        FILL(e.v3, sequence);
        e.v3.coll.name = name;
        break;
    case 4: FILL(e.v4, sequence); break;
    default: FILL(e.v5, sequence); break;
    }
    CHECK(plugin->startEvent(c->context, handle, &e) == 0);
}

/* An event of another kind: nothing of it may be read. */
static void *start_other(void *context, uint64_t type)
{
    struct v5 e;
    void *handle = NULL;
    memset(&e, 0xA5, sizeof e);
    e.type = type; /* little-endian: the first byte is that of the older versions */
    CHECK(plugin->startEvent(context, &handle, &e) == 0);
    return handle;
}

/* As NCCL does it: the group, its tasks, then their ends. NCCL up to 2.27 leaves out the tasks of a
 * group without a handle. */
static void one_call(struct comm *c, const struct call *k)
{
    void *group, *handle = NULL;
    int at = 0;
    if (!(c->mask & COLL))
        return;
    if (version == 5)
        start_other(c->context, COLL_API);
    group = start_other(c->context, GROUP);
    if (!group && version < 5)
        return;
    while (strcmp(call[at].func, k->func) != 0)
        at++;
    tell(c, k, c->sequence[at]++, group, &handle);
    if (handle)
        CHECK(plugin->stopEvent(handle) == 0);
    CHECK(plugin->stopEvent(group) == 0);
}

static void be_hostile(struct comm *c)
{
    struct comm other = *c;
    struct call empty = {.count = SIZE_MAX, .channels = 255};
    struct call odd_words = {.func = "All,Re\"duce\n", .datatype = "\xff\x01", .algo = "a b"};
    void *handle = NULL;
    CHECK(plugin->startEvent(NULL, NULL, NULL) == 0);
    CHECK(plugin->startEvent(c->context, &handle, NULL) == 0);
    CHECK(plugin->stopEvent(NULL) == 0 && plugin->stopEvent(&handle) == 0);
    CHECK(plugin->recordEventState(NULL, 99, NULL) == 0 && plugin->finalize(NULL) == 0);
    for (int bit = 2; bit < 8; bit++)
        start_other(c->context, 1u << bit);
    start_other(c->context, 0);
    start_other(c->context, 0xFF);
    other.context = NULL; /* a communicator that was refused */
    tell(&other, &empty, 0, NULL, &handle);
    other.context = (char *)c->context + 1; /* none that was given out */
    tell(&other, &empty, 0, NULL, NULL);
    other.context = &handle;
    tell(&other, &empty, UINT64_MAX, NULL, &handle);
    tell(c, &empty, UINT64_MAX, NULL, &handle);
    tell(c, &odd_words, 7, NULL, &handle);
    open_comm(&other, 99);
    CHECK(plugin->finalize(other.context) == 0 && plugin->finalize(other.context) == 0);
    tell(&other, &call[0], 0, NULL, &handle); /* behind its end */
}

/* ---- the job */

static pthread_barrier_t all_opened;

static void *one_thread(void *user)
{
    struct comm *c = user;
    pthread_barrier_wait(&all_opened); /* NCCL sets communicators up in any order */
    for (int step = 0; step < steps; step++) {
        for (int i = 0; i < calls; i++)
            if ((call[i].at < 0 || call[i].at == step) && call[i].not_at != step)
                for (int n = 0; n < comms; n++)
                    one_call(&c[n], &call[i]);
        if (threads == 1 && twin_on()) {
            double value = step == odd ? 2.5 : 1.5;
            const int64_t shape[] = {1};
            twin_record("value", TWIN_F64, 1, shape, NULL, &value, 0);
            twin_step();
        }
    }
    if (hostile)
        be_hostile(c);
    return NULL;
}

static void parse_call(struct call *k, const char *word)
{
    const char *mark = strpbrk(word, "@!");
    memset(k, 0, sizeof *k);
    k->at = k->not_at = -1;
    if (sscanf(word, "%23[^:]:%zu:%23[^:]:%23[^:]:%23[^:]:%d", k->func, &k->count, k->datatype,
               k->algo, k->proto, &k->channels) != 6)
        exit(64);
    if (mark && *mark == '@')
        k->at = atoi(mark + 1);
    else if (mark)
        k->not_at = atoi(mark + 1);
}

static void parse(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : "";
        const struct {
            const char *word;
            int *number;
        } numbers[] = {{"--version", &version}, {"--rank", &rank}, {"--ranks", &ranks},
                       {"--steps", &steps},     {"--odd", &odd},   {"--communicators", &comms},
                       {"--threads", &threads}};
        bool taken = false;
        for (size_t k = 0; k < sizeof numbers / sizeof numbers[0] && !taken; k++)
            if (strcmp(argv[i], numbers[k].word) == 0) {
                *numbers[k].number = atoi(next);
                taken = ++i;
            }
        if (taken)
            continue;
        if (strcmp(argv[i], "--name") == 0)
            name = argv[++i];
        else if (strcmp(argv[i], "--hostile") == 0)
            hostile = true;
        else if (strcmp(argv[i], "--child") == 0)
            forks = true;
        else
            parse_call(&call[calls++], argv[i]);
    }
}

int main(int argc, char **argv)
{
    char symbol[32];
    const char *path = getenv("NCCL_PROFILER_PLUGIN");
    int found = 0;
    parse(argc, argv);
    void *library = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (int v = 1; library && v <= 5; v++) {
        snprintf(symbol, sizeof symbol, "ncclProfiler_v%d", v);
        const struct table *t = dlsym(library, symbol);
        found += t != NULL;
        if (v == version)
            plugin = t;
    }
    struct comm *c = calloc((size_t)(threads * comms), sizeof *c);
    pthread_t *thread = calloc((size_t)threads, sizeof *thread);
    CHECK(c && thread && calls <= 64);
    pthread_barrier_init(&all_opened, NULL, (unsigned)threads);
    for (int i = 0; plugin && i < threads * comms; i++)
        open_comm(&c[i], i);
    if (forks && plugin) {
        pid_t child = fork();
        if (child == 0) {
            tell(c, &call[0], 0, NULL, NULL);
            exit(0);
        }
        int status = -1;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    for (int i = 1; i < threads; i++)
        CHECK(pthread_create(&thread[i], NULL, one_thread, &c[i * comms]) == 0);
    one_thread(c);
    for (int i = 1; i < threads; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; plugin && i < threads * comms; i++)
        CHECK(plugin->finalize(c[i].context) == 0);
    if (library)
        dlclose(library);
    printf("ok %d\n", found);
    free(c);
    free(thread);
    return 0;
}
