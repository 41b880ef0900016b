/* SPDX-License-Identifier: Apache-2.0 */
#include "group.h"

#include "abi.h"
#include "base.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define GROUP_MOST (UINT64_C(1) << 30) /* bytes of one message: an int counts them */
enum { TAG_LENGTH = 1, TAG_BYTES, TAG_NUMBER };

/* ---- which library */

/* A launcher by what it sets in the environment of its processes, and the names of its library.
 * srun sets the variables of the interface that it was told to speak (--mpi). */
static const struct launcher {
    const char *size; /* how many processes there are */
    const char *mark; /* set where `size` may not be: by the interface, not by the launcher */
    const char *library[3];
} launchers[] = {
    {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", {"libmpi.so.40", "libmpi.so.80", "libmpi.so"}},
    {"PMI_SIZE", "PMI_RANK", {"libmpich.so.12", "libmpi.so.12", "libmpi.so"}},
};
enum { LAUNCHERS = sizeof launchers / sizeof *launchers, NAMES = 3 };

/* The launcher of this process; NULL: none. */
static const struct launcher *find_launcher(void)
{
    for (size_t i = 0; i < LAUNCHERS; i++)
        if (getenv(launchers[i].mark) || getenv(launchers[i].size))
            return &launchers[i];
    return NULL;
}

/* How many processes the launcher says that there are; 0: it does not say. */
static long told_size(const struct launcher *l)
{
    const char *said = getenv(l->size);
    return said ? strtol(said, NULL, 10) : 0;
}

/* Loads the library for good. Its plug-ins look for its symbols among those of the program, hence
 * RTLD_GLOBAL. */
static int load_library(const struct launcher *l, struct twin_error *err)
{
    const char *given = getenv("TWINRUN_MPI_LIBRARY");
    if (given && *given) {
        if (dlopen(given, RTLD_NOW | RTLD_GLOBAL))
            return 0;
        return twin_error_set(err, TWIN_EUNSUPPORTED,
                              "the library that TWINRUN_MPI_LIBRARY names cannot be loaded: %s",
                              dlerror());
    }
    for (size_t i = 0; i < NAMES; i++)
        if (dlopen(l->library[i], RTLD_NOW | RTLD_GLOBAL))
            return 0;
    return twin_error_set(err, TWIN_EUNSUPPORTED,
                          "the launcher's library cannot be loaded (%s): put its folder into "
                          "LD_LIBRARY_PATH, or name the file in TWINRUN_MPI_LIBRARY",
                          l->library[0]);
}

/* ---- calls: what a register holds (abi.h) */

/* The functions, in the order of their names. */
enum call { INIT, SIZE, RANK, SEND, RECV, PROBE, FINALIZE, ABORT, CALLS };
static struct tw_mpi_function functions[CALLS] = {
    [INIT] = {"PMPI_Init_thread", {NULL}},  [SIZE] = {"PMPI_Comm_size", {NULL}},
    [RANK] = {"PMPI_Comm_rank", {NULL}},    [SEND] = {"PMPI_Send", {NULL}},
    [RECV] = {"PMPI_Recv", {NULL}},         [PROBE] = {"PMPI_Iprobe", {NULL}},
    [FINALIZE] = {"PMPI_Finalize", {NULL}}, [ABORT] = {"PMPI_Abort", {NULL}},
};
#define FUNCTION(which) tw_mpi_real(&functions[which], true)

/* The level at which the thread that initialized MPI alone calls it; the same number in both. */
enum { FUNNELED = 1 };

typedef int init_fn(int *, char ***, int, int *);
typedef int number_fn(tw_mpi_handle, int *);
typedef int send_fn(const void *, int, tw_mpi_handle, int, int, tw_mpi_handle);
typedef int recv_fn(void *, int, tw_mpi_handle, int, int, tw_mpi_handle, void *);
typedef int probe_fn(int, int, tw_mpi_handle, int *, void *);
typedef int finalize_fn(void);
typedef int abort_fn(tw_mpi_handle, int);

/* Their results are not looked at: the error handler of a communicator that nobody changed ends all
 * processes. */
static void send_bytes(const void *bytes, size_t n, int to, int tag)
{
    send_fn *send = (send_fn *)FUNCTION(SEND);
    send(bytes, (int)n, tw_mpi_byte(), to, tag, tw_mpi_world());
}

static void receive_bytes(void *bytes, size_t n, int from, int tag)
{
    probe_fn *probe = (probe_fn *)FUNCTION(PROBE);
    recv_fn *recv = (recv_fn *)FUNCTION(RECV);
    void *const ignore = (void *)tw_mpi_abi()->ignore;
    const struct timespec nap = {.tv_nsec = 2 * 1000 * 1000};
    int there = 0;
    while (probe(from, tag, tw_mpi_world(), &there, ignore) == 0 && !there)
        nanosleep(&nap, NULL);
    recv(bytes, (int)n, tw_mpi_byte(), from, tag, tw_mpi_world(), ignore);
}

/* ---- the group */

int tw_group_join(struct tw_group *g, struct twin_error *err)
{
    int provided;
    *g = (struct tw_group){.size = 1};
    const struct launcher *l = find_launcher();
    if (!l)
        return twin_error_set(err, TWIN_EUNSUPPORTED,
                              "no launcher of MPI started this process: expected mpirun -n 8 "
                              "twinrun ..., or srun --mpi=pmix");
    int rc = load_library(l, err);
    if (rc != 0)
        return rc;
    if (!tw_mpi_abi())
        return twin_error_set(
            err, TWIN_EUNSUPPORTED,
            "the library that was loaded is neither Open MPI nor one with MPICH's "
            "interface, or its file is not called libmpi...");
    for (size_t i = 0; i < CALLS; i++)
        if (!FUNCTION(i))
            return twin_error_set(err, TWIN_EUNSUPPORTED, "the library of %s has no %s",
                                  tw_mpi_abi()->name, functions[i].symbol + 1);
    if (((init_fn *)FUNCTION(INIT))(NULL, NULL, FUNNELED, &provided) != 0)
        return twin_error_set(err, TWIN_EUNSUPPORTED, "%s cannot be initialized",
                              tw_mpi_abi()->name);
    ((number_fn *)FUNCTION(SIZE))(tw_mpi_world(), &g->size);
    ((number_fn *)FUNCTION(RANK))(tw_mpi_world(), &g->rank);
    if (told_size(l) > 0 && told_size(l) != g->size) {
        tw_group_leave(g);
        return twin_error_set(err, TWIN_EUNSUPPORTED,
                              "the launcher started %ld processes, and %s sees %d: its library is "
                              "another MPI's; TWINRUN_MPI_LIBRARY can name the right one",
                              told_size(l), tw_mpi_abi()->name, g->size);
    }
    return 0;
}

int tw_group_send(const struct tw_group *g, const void *bytes, size_t n, struct twin_error *err)
{
    const uint64_t length = n;
    (void)g;
    if (length > GROUP_MOST)
        return twin_error_set(err, TWIN_ELIMIT, "a message of %zu bytes: expected at most 1 GiB",
                              n);
    send_bytes(&length, sizeof length, 0, TAG_LENGTH);
    send_bytes(bytes, n, 0, TAG_BYTES);
    return 0;
}

int tw_group_receive(const struct tw_group *g, int from, struct tw_buf *out, struct twin_error *err)
{
    uint64_t length = 0;
    (void)g;
    *out = (struct tw_buf){0};
    receive_bytes(&length, sizeof length, from, TAG_LENGTH);
    if (length > GROUP_MOST)
        return twin_error_set(err, TWIN_EFORMAT,
                              "process %d: a message of %llu bytes: expected at most 1 GiB", from,
                              (unsigned long long)length);
    out->data = tw_malloc(length + 1);
    if (!out->data)
        return tw_no_memory(err, "a message of process %d", from);
    receive_bytes(out->data, length, from, TAG_BYTES);
    out->data[length] = '\0';
    out->len = length;
    out->room = length + 1;
    return 0;
}

int tw_group_agree(const struct tw_group *g, int number)
{
    if (g->rank > 0) {
        receive_bytes(&number, sizeof number, 0, TAG_NUMBER);
        return number;
    }
    for (int i = 1; i < g->size; i++)
        send_bytes(&number, sizeof number, i, TAG_NUMBER);
    return number;
}

void tw_group_leave(struct tw_group *g)
{
    ((finalize_fn *)FUNCTION(FINALIZE))();
    g->size = 1;
}

void tw_group_abort(const struct tw_group *g, int code)
{
    (void)g;
    ((abort_fn *)FUNCTION(ABORT))(tw_mpi_world(), code);
    _exit(code);
}
