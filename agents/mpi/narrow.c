/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of MPI 4 that the library does not have. A program that is built for several MPIs
 * (mpi4py's wheel) has weak references to them, and finds ours: so ours do what it asks for by the
 * functions that the library has. MPI_Allreduce_c becomes MPI_Allreduce, with counts as ints;
 * MPI_Allreduce_init becomes MPIX_Allreduce_init, or the other way round. The call is made of the
 * function that we stand in front of, so it is recorded, and replayed, as that one. Of a few others
 * (MPI_Isendrecv, MPI_Psend_init, MPI_Session_init) a library without them has nothing that does
 * the same: MPI_ERR_UNSUPPORTED_OPERATION.
 *
 * Arguments are one word each: numbers, addresses and handles. A count that is no int is an error
 * of the program's, MPI_ERR_COUNT, as where a library has no such messages.
 */
#include "inside.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "src/base/base.h"

enum { WORDS = 13, NAME = 64 };
enum { ERR_COUNT = 2 }; /* MPI_ERR_COUNT of all libraries; no memory is told as that, too */

/*
 * What the arguments are, by a letter each; those behind the last one are passed on.
 *   .  passed on as it is
 *   c  a count      C  a count that the root alone gives
 *   g  a count that is not read where the buffer before it is MPI_IN_PLACE
 *   n  an array, one for each peer    r  the same, which the root alone gives
 *   i  the same, not read where what is sent lies in place
 *   s  an array, one for each rank of this group
 *   <  an array, one for each neighbour that sends to us; >: that we send to
 *   D  the address of a count that the call fills
 *   o  the communicator   W  the window   F  the file   R  the root
 */
static const struct shape {
    const char *name, *letters;
} shapes[] = {
    {"Send", ".c...o"},
    {"Ssend", ".c...o"},
    {"Rsend", ".c...o"},
    {"Bsend", ".c...o"},
    {"Recv", ".c...o"},
    {"Mrecv", ".c"},
    {"Sendrecv", ".c....c...o"},
    {"Sendrecv_replace", ".c.....o"},
    {"Bcast", ".c.Ro"},
    {"Allreduce", "..c..o"},
    {"Scan", "..c..o"},
    {"Exscan", "..c..o"},
    {"Reduce", "..c..Ro"},
    {"Reduce_scatter_block", "..c..o"},
    {"Reduce_scatter", "..s..o"},
    {"Gather", ".g..C.Ro"},
    {"Gatherv", ".g..rr.Ro"},
    {"Allgather", ".g..c.o"},
    {"Allgatherv", ".g..nn.o"},
    {"Scatter", ".C..g.Ro"},
    {"Scatterv", ".rr..g.Ro"},
    {"Alltoall", ".g..c.o"},
    {"Alltoallv", ".ii..nn.o"},
    {"Alltoallw", ".ii..nn.o"},
    {"Neighbor_allgather", ".c..c.o"},
    {"Neighbor_allgatherv", ".c..<<.o"},
    {"Neighbor_alltoall", ".c..c.o"},
    {"Neighbor_alltoallv", ".>>..<<.o"},
    {"Neighbor_alltoallw", ".>...<..o"}, /* its displacements are addresses in both */
    {"Put", ".c...c.W"},
    {"Get", ".c...c.W"},
    {"Accumulate", ".c...c..W"},
    {"Get_accumulate", ".c..c...c..W"},
    {"Win_create", "..c.o"},
    {"Win_allocate", ".c.o"},
    {"Win_allocate_shared", ".c.o"},
    {"Buffer_detach", ".D"},
};
static const struct shape of_file = {"File", "F.c"}, of_file_at = {"File", "F..c"};

TW_MPI_ASK(Comm_rank, (c, out), tw_mpi_handle c, int *out)
TW_MPI_ASK(Comm_size, (c, out), tw_mpi_handle c, int *out)
TW_MPI_ASK(Comm_remote_size, (c, out), tw_mpi_handle c, int *out)
TW_MPI_ASK(Comm_test_inter, (c, out), tw_mpi_handle c, int *out)
TW_MPI_ASK(Topo_test, (c, out), tw_mpi_handle c, int *out)
TW_MPI_ASK(Cartdim_get, (c, out), tw_mpi_handle c, int *out)
TW_MPI_ASK(Graph_neighbors_count, (c, rank, out), tw_mpi_handle c, int rank, int *out)
TW_MPI_ASK(Dist_graph_neighbors_count, (c, in, out, weighted), tw_mpi_handle c, int *in, int *out,
           int *weighted)
TW_MPI_CALL(Comm_call_errhandler, (c, error), tw_mpi_handle c, int error)
TW_MPI_CALL(Win_call_errhandler, (w, error), tw_mpi_handle w, int error)
TW_MPI_CALL(File_call_errhandler, (h, error), tw_mpi_handle h, int error)

/* ---- the function by its name */

static bool is_name(const char *name, size_t length, const char *wanted)
{
    return strlen(wanted) == length && memcmp(name, wanted, length) == 0;
}

static const struct shape *named(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (is_name(name, length, shapes[i].name))
            return &shapes[i];
    return NULL;
}

/* "Iallreduce", "Allreduce_init" and "Allreduce" are of one shape. *kept: it gives a request, and
 * arrays are read until that is complete; *again: or until it is freed. */
static const struct shape *shape_of(const char *name, size_t length, bool *kept, bool *again)
{
    char base[NAME];
    *kept = *again = false;
    if (strncmp(name, "File_", 5) == 0)
        return strstr(name, "_at_") ? &of_file_at : &of_file;
    const struct shape *s = named(name, length);
    if (s)
        return s;
    *kept = true;
    if (length > 5 && memcmp(name + length - 5, "_init", 5) == 0) {
        *again = true;
        return named(name, length - 5);
    }
    if (length < 2 || length >= NAME || (name[0] != 'I' && name[0] != 'R'))
        return NULL;
    memcpy(base, name + 1, length - 1);
    base[0] = (char)(base[0] - 'a' + 'A');
    return named(base, length - 1);
}

/* ---- what the arguments say */

struct narrowing {
    const struct shape *shape;
    int words;
    intptr_t word[WORDS];
    int filled;     /* what MPI_Buffer_detach says */
    int64_t *wants; /* where the program wants that; NULL: nowhere */
};

static intptr_t argument(const struct narrowing *n, char letter, intptr_t none)
{
    const char *at = strchr(n->shape->letters, letter);
    return at ? n->word[at - n->shape->letters] : none;
}

static bool is_root(const struct narrowing *n, tw_mpi_handle comm)
{
    int inter = 0, rank = -1;
    const struct tw_mpi_abi *a = tw_mpi_abi();
    const int root = (int)argument(n, 'R', 0);
    ask_Comm_test_inter(comm, &inter);
    if (inter)
        return a && root == a->root;
    return ask_Comm_rank(comm, &rank) && root == rank;
}

static int peers(tw_mpi_handle comm)
{
    int inter = 0, count = 0;
    ask_Comm_test_inter(comm, &inter);
    if (inter ? ask_Comm_remote_size(comm, &count) : ask_Comm_size(comm, &count))
        return count;
    return 0;
}

/* Those that send to this rank, or that it sends to. What a communicator is not, is not asked of
 * it: that would be an error of the program's. */
static int neighbours(tw_mpi_handle comm, bool that_send)
{
    enum { DIST_GRAPH = 3 }; /* MPI_DIST_GRAPH of all libraries */
    const struct tw_mpi_abi *a = tw_mpi_abi();
    int kind, count = 0, in = 0, out = 0, weighted, rank;
    if (!a || !ask_Topo_test(comm, &kind))
        return 0;
    if (kind == a->cart)
        return ask_Cartdim_get(comm, &count) ? 2 * count : 0;
    if (kind == DIST_GRAPH && ask_Dist_graph_neighbors_count(comm, &in, &out, &weighted))
        return that_send ? in : out;
    if (kind != a->graph || !ask_Comm_rank(comm, &rank))
        return 0;
    return ask_Graph_neighbors_count(comm, rank, &count) ? count : 0;
}

/* How many numbers an array has; 0: it is not read. */
static int length_of(const struct narrowing *n, char letter)
{
    const tw_mpi_handle comm = (tw_mpi_handle)argument(n, 'o', 0);
    int size = 0;
    switch (letter) {
    case 'r': return is_root(n, comm) ? peers(comm) : 0;
    case 'i': return tw_mpi_in_place((const void *)n->word[0]) ? 0 : peers(comm);
    case 'n': return peers(comm);
    case 's': return ask_Comm_size(comm, &size) ? size : 0;
    default: return neighbours(comm, letter == '<');
    }
}

/* ---- the call with ints */

/* False: a count is no int. */
static bool one(struct narrowing *n, int i, char letter)
{
    const tw_mpi_handle comm = (tw_mpi_handle)argument(n, 'o', 0);
    const bool in_place = letter == 'g' && tw_mpi_in_place((const void *)n->word[i - 1]);
    if (in_place || (letter == 'C' && !is_root(n, comm)))
        n->word[i] = 0; /* it may be anything */
    return n->word[i] == (int)n->word[i];
}

static bool counts(struct narrowing *n)
{
    const char *letters = n->shape->letters;
    for (int i = 0; letters[i] && i < n->words; i++) {
        if (strchr("cCg", letters[i]) && !one(n, i, letters[i]))
            return false;
        if (letters[i] == 'D') {
            n->wants = (int64_t *)n->word[i];
            n->word[i] = (intptr_t)&n->filled;
        }
    }
    return true;
}

/* False: one of them is no int. */
static bool copied(const int64_t *from, int length, int *to)
{
    for (int i = 0; i < length; i++) {
        if (from[i] != (int)from[i])
            return false;
        to[i] = (int)from[i];
    }
    return true;
}

/* ---- arrays that are read until a request is complete, or is freed */

struct kept {
    struct kept *next; /* a younger one */
    uint64_t id;       /* of the request */
    bool again;        /* it is a persistent one */
    int numbers[];
};
static struct kept *oldest, **youngest = &oldest;
static _Atomic uint32_t many;
static atomic_flag lock = ATOMIC_FLAG_INIT;

static void keep(struct kept *k, const void *request, bool again)
{
    k->next = NULL;
    k->id = tw_mpi_id(tw_mpi_at(request, 0));
    k->again = again;
    tw_mpi_hold(&lock);
    *youngest = k;
    youngest = &k->next;
    many++;
    tw_mpi_release(&lock);
}

bool tw_mpi_any_arrays(void)
{
    return atomic_load_explicit(&many, memory_order_relaxed) != 0;
}

void tw_mpi_drop_arrays(tw_mpi_handle request, bool freed)
{
    const uint64_t id = tw_mpi_id(request);
    if (!tw_mpi_any_arrays())
        return;
    tw_mpi_hold(&lock);
    struct kept **at = &oldest;
    while (*at && ((*at)->id != id || (*at)->again != freed))
        at = &(*at)->next;
    struct kept *k = *at;
    if (k) {
        *at = k->next;
        if (youngest == &k->next)
            youngest = at;
        many--;
    }
    tw_mpi_release(&lock);
    tw_free(k);
}

/* The arrays as ints, all in *made; NULL: none is read. False: one of them is none, or there is no
 * memory. */
static bool arrays(struct narrowing *n, struct kept **made)
{
    const char *letters = n->shape->letters;
    int length[WORDS] = {0};
    size_t all = 0;
    bool done = true;
    *made = NULL;
    for (int i = 0; letters[i] && i < n->words; i++)
        if (strchr("nris<>", letters[i]) && n->word[i]) {
            length[i] = length_of(n, letters[i]);
            all += (size_t)length[i];
        }
    if (all == 0)
        return true;
    *made = tw_malloc(sizeof **made + all * sizeof(int));
    if (!*made)
        return false;
    int *at = (*made)->numbers;
    for (int i = 0; i < WORDS && done; at += length[i++]) {
        if (length[i] == 0)
            continue;
        done = copied((const int64_t *)n->word[i], length[i], at);
        n->word[i] = (intptr_t)at;
    }
    return done;
}

/* ---- the call with ints */

/* As MPI's own calls say it: by the error handler of what the call was made on. */
static int wrong(const struct narrowing *n)
{
    const char *letters = n->shape->letters;
    const tw_mpi_handle world = tw_mpi_abi() ? tw_mpi_world() : NULL;
    const tw_mpi_handle comm = (tw_mpi_handle)argument(n, 'o', (intptr_t)world);
    if (letters[0] == 'F')
        call_File_call_errhandler((tw_mpi_handle)n->word[0], ERR_COUNT);
    else if (strchr(letters, 'W'))
        call_Win_call_errhandler((tw_mpi_handle)argument(n, 'W', 0), ERR_COUNT);
    else if (comm)
        call_Comm_call_errhandler(comm, ERR_COUNT);
    return ERR_COUNT;
}

static int unsupported(void)
{
    return tw_mpi_abi() ? tw_mpi_abi()->unsupported : TW_MPI_NO_FUNCTION;
}

/* Calls with one word for each argument. */
#define WORD intptr_t
#define WORD_2 WORD, WORD
#define WORD_5 WORD_2, WORD_2, WORD
#define W_2 w[0], w[1]
#define W_5 W_2, w[2], w[3], w[4]
#define W_10 W_5, w[5], w[6], w[7], w[8], w[9]
static int called(void *f, int words, const intptr_t *w)
{
    switch (words) {
    case 2: return ((int (*)(WORD_2))f)(W_2);
    case 3: return ((int (*)(WORD_2, WORD))f)(W_2, w[2]);
    case 4: return ((int (*)(WORD_2, WORD_2))f)(W_2, w[2], w[3]);
    case 5: return ((int (*)(WORD_5))f)(W_5);
    case 6: return ((int (*)(WORD_5, WORD))f)(W_5, w[5]);
    case 7: return ((int (*)(WORD_5, WORD_2))f)(W_5, w[5], w[6]);
    case 8: return ((int (*)(WORD_5, WORD_2, WORD))f)(W_5, w[5], w[6], w[7]);
    case 9: return ((int (*)(WORD_5, WORD_2, WORD_2))f)(W_5, w[5], w[6], w[7], w[8]);
    case 10: return ((int (*)(WORD_5, WORD_5))f)(W_10);
    case 11: return ((int (*)(WORD_5, WORD_5, WORD))f)(W_10, w[10]);
    case 12: return ((int (*)(WORD_5, WORD_5, WORD_2))f)(W_10, w[10], w[11]);
    case 13: return ((int (*)(WORD_5, WORD_5, WORD_2, WORD))f)(W_10, w[10], w[11], w[12]);
    default: return unsupported();
    }
}

static int narrow(struct narrowing *n, void *f, bool kept, bool again)
{
    struct kept *made = NULL;
    if (!counts(n) || !arrays(n, &made)) {
        tw_free(made);
        return wrong(n);
    }
    const int rc = called(f, n->words, n->word);
    if (rc == 0 && n->wants)
        *n->wants = n->filled;
    if (made && kept && rc == 0)
        keep(made, (const void *)n->word[n->words - 1], again);
    else
        tw_free(made);
    return rc;
}

/* ---- what stands in for a function */

/* The one that ours in front of it has, by another name of the same. */
static void *by_name(const char *prefix, const char *name, size_t length, bool profiled)
{
    char symbol[NAME + 8];
    const int before = errno;
    snprintf(symbol, sizeof symbol, "P%s%.*s", prefix, (int)length, name);
    void *f = dlsym(RTLD_DEFAULT, profiled ? symbol : symbol + 1);
    errno = before;
    return f;
}

static bool is_there(const char *prefix, const char *name)
{
    char symbol[NAME + 8];
    struct tw_mpi_function f = {.symbol = symbol};
    snprintf(symbol, sizeof symbol, "P%s%s", prefix, name);
    return tw_mpi_real(&f, true) != NULL;
}

int tw_mpi_missing(struct tw_mpi_function *f, bool profiled, int words, ...)
{
    struct narrowing n = {.words = words};
    const bool ahead = strncmp(f->symbol, "PMPIX_", 6) == 0;
    const char *name = f->symbol + (ahead ? 6 : 5);
    const size_t length = strlen(name);
    const bool large = length > 2 && strcmp(name + length - 2, "_c") == 0;
    const char *prefix = large || ahead ? "MPI_" : "MPIX_";
    bool kept = false, again = false;
    if (large)
        n.shape = shape_of(name, length - 2, &kept, &again);
    if (words > WORDS || (large ? !n.shape : !is_there(prefix, name)))
        return unsupported();
    void *other = atomic_load_explicit(&f->other[profiled], memory_order_relaxed);
    if (!other) {
        other = by_name(prefix, name, large ? length - 2 : length, profiled);
        atomic_store_explicit(&f->other[profiled], other, memory_order_relaxed);
    }
    va_list given;
    va_start(given, words);
    for (int i = 0; i < words; i++)
        n.word[i] = va_arg(given, intptr_t);
    va_end(given);
    if (!other)
        return unsupported();
    return large ? narrow(&n, other, kept, again) : called(other, words, n.word);
}
