/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TWINRUN_WATCH: what of the sources of variation a process has met while nothing is held still, so
 * that a search leaves out what cannot be the cause (src/isolate/watch.c reads it). Calls of
 * entropy and clock are counted (factors.c); here are the libraries that are loaded at the end, and
 * the order in which directories were read.
 */
#include "defined.h"
#include "factors.h"
#include "state.h"

#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "src/base/base.h"

enum { PYTHON, TORCH, TENSORFLOW, NUMPY, OPENMP, BLAS, NCCL, MPI, WORDS };
static const char *const words[WORDS] = {"python", "torch", "tensorflow", "numpy",
                                         "openmp", "blas",  "nccl",       "mpi"};

/* By the beginning of the file's name. */
static const struct {
    const char *file;
    int word;
} known[] = {
    {"libpython", PYTHON},
    {"python", PYTHON},
    {"pypy", PYTHON},
    {"libtorch", TORCH},
    {"libtensorflow", TENSORFLOW},
    {"_multiarray_umath", NUMPY},
    {"multiarray", NUMPY},
    {"libgomp", OPENMP},
    {"libomp", OPENMP},
    {"libiomp", OPENMP},
    {"libmkl", BLAS},
    {"libopenblas", BLAS},
    {"libscipy_openblas", BLAS},
    {"libblas", BLAS},
    {"libcblas", BLAS},
    {"libnccl", NCCL},
    {"librccl", NCCL},
    {"libmpi", MPI},
    {"libmpich", MPI},
};

/* sum over directories of a hash of their entries in the order read */
static _Atomic uint64_t orders;
static _Atomic int unseen; /* some order was not: scandir(3) reads inside libc */

/* The directory that the calling thread is reading. */
static _Thread_local struct {
    const void *dir;
    uint64_t hash;
} now __attribute__((tls_model("initial-exec")));

static void finish_watching(void)
{
    if (now.dir)
        atomic_fetch_add_explicit(&orders, tw_mix64(now.hash), memory_order_relaxed);
    now.dir = NULL;
}

void tw_watch_entry(const void *dir, const char *name)
{
    if (dir != now.dir) {
        finish_watching();
        now.dir = dir;
        now.hash = 1;
    }
    if (name)
        now.hash = tw_hash_bytes(name, strlen(name), now.hash).a;
    else
        finish_watching();
}

void tw_watch_unseen(void)
{
    atomic_store_explicit(&unseen, 1, memory_order_relaxed);
}

void tw_watch_forget(void)
{
    atomic_store_explicit(&orders, 0, memory_order_relaxed);
    now.dir = NULL;
}

static void look_at(const char *path, unsigned *seen)
{
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strncmp(file, known[i].file, strlen(known[i].file)) == 0)
            *seen |= 1u << known[i].word;
}

static int loaded(struct dl_phdr_info *i, size_t bytes, void *seen)
{
    (void)bytes;
    if (i->dlpi_name && i->dlpi_name[0])
        look_at(i->dlpi_name, seen);
    return 0;
}

void tw_watch_report(tw_note_sink *sink, void *user)
{
    char text[1024];
    unsigned seen = 0;
    ssize_t n = readlink("/proc/self/exe", text, sizeof text - 1);
    if (n > 0) {
        text[n] = '\0';
        look_at(text, &seen);
    }
    dl_iterate_phdr(loaded, &seen);
    struct tw_nccl_home nccl;
    tw_nccl_home(&nccl);
    if (nccl.linked == TW_LINKED_STATIC) /* a file of another name has it */
        seen |= 1u << NCCL;
    size_t at = 0;
    text[0] = '\0';
    for (int w = 0; w < WORDS; w++)
        if (seen >> w & 1)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", at ? " " : "", words[w]);
    sink(user, "watch.libraries", text);
    finish_watching();
    if (atomic_load_explicit(&unseen, memory_order_relaxed))
        snprintf(text, sizeof text, "unseen");
    else
        snprintf(text, sizeof text, "%016llx",
                 (unsigned long long)atomic_load_explicit(&orders, memory_order_relaxed));
    sink(user, "watch.dir-order", text);
    for (int f = 0; f < TW_FACTORS; f++) {
        char key[32];
        snprintf(key, sizeof key, "watch.%s", tw_factor_names[f]);
        if (f != TW_DIRECTORY &&
            atomic_load_explicit(&tw_factors[f].mode, memory_order_acquire) == TW_FACTOR_COUNT) {
            snprintf(text, sizeof text, "%llu",
                     (unsigned long long)atomic_load_explicit(&tw_factors[f].calls,
                                                              memory_order_relaxed));
            sink(user, key, text);
        }
    }
}
