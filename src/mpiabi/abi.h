/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_MPI_ABI_H
#define TW_MPI_ABI_H
/*
 * MPI without its header: which library this process runs on, found at run time. Open MPI and MPICH
 * (with its kin: Intel MPI, MVAPICH, Cray) have the same functions and other handles: pointers to
 * objects in one, numbers in the other. So no mpi.h is compiled in. A handle is what a register
 * holds of it; its upper half means nothing in MPICH, which passes an int. Constants are those of
 * struct tw_mpi_abi, held against both headers by tests/agents/mpi_abi.c.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/fingerprint.h>

/* A communicator, datatype, operation, request, message, window: one argument. */
typedef void *tw_mpi_handle;

enum { TW_MPI_VERSIONS = 3 };
struct tw_mpi_abi {
    const char *name; /* "Open MPI" */
    /* what its MPI_Get_library_version has in it */
    const char *versions[TW_MPI_VERSIONS];
    size_t handle_bytes; /* of a handle in memory: arrays of requests and types */
    size_t status_bytes; /* of one MPI_Status, */
    size_t source, tag;  /* and where in it these ints are */
    size_t error;        /* MPI_ERROR */
    int any_source, any_tag, proc_null, root;
    int graph, cart;            /* what MPI_Topo_test says; MPI_DIST_GRAPH is 3 in both */
    int unsupported;            /* MPI_ERR_UNSUPPORTED_OPERATION; MPI_ERR_COUNT is 2 in both */
    uintptr_t in_place, ignore; /* MPI_IN_PLACE; MPI_STATUS_IGNORE and MPI_STATUSES_IGNORE */
};
enum { TW_MPI_UNDEFINED = -32766, TW_MPI_STATUS_MOST = 64 };

/* The one in use; NULL: not known (yet). */
extern const struct tw_mpi_abi *_Atomic tw_mpi_in_use;
const struct tw_mpi_abi *tw_mpi_find_abi(void);
static inline const struct tw_mpi_abi *tw_mpi_abi(void)
{
    const struct tw_mpi_abi *a = atomic_load_explicit(&tw_mpi_in_use, memory_order_acquire);
    return __builtin_expect(a != NULL, 1) ? a : tw_mpi_find_abi();
}
/* All that are known, `*n` of them: for the test. */
const struct tw_mpi_abi *tw_mpi_abis(size_t *n);

/* A handle as a number that is equal for equal handles. */
static inline uint64_t tw_mpi_id(tw_mpi_handle h)
{
    const struct tw_mpi_abi *a = tw_mpi_abi();
    return a && a->handle_bytes == sizeof(int) ? (uint32_t)(uintptr_t)h : (uintptr_t)h;
}
/* The i-th handle of an array of the program's; which ones a predefined name stands for. */
tw_mpi_handle tw_mpi_at(const void *array, size_t i);
bool tw_mpi_is_world(tw_mpi_handle comm);
bool tw_mpi_is_self(tw_mpi_handle comm);
tw_mpi_handle tw_mpi_world(void);
tw_mpi_handle tw_mpi_byte(void);   /* MPI_BYTE */
tw_mpi_handle tw_mpi_packed(void); /* MPI_PACKED; NULL: not known */
/* The element type that a predefined datatype stands for; false: it is derived, or unknown. */
bool tw_mpi_predefined(tw_mpi_handle type, enum twin_dtype *out);
/* "MPI_SUM"; "an operation of its own". */
const char *tw_mpi_operation(tw_mpi_handle op);

static inline bool tw_mpi_in_place(const void *buffer)
{
    const struct tw_mpi_abi *a = tw_mpi_abi();
    return a && (uintptr_t)buffer == a->in_place;
}

/* A function of the MPI library that one of ours stands in front of. */
struct tw_mpi_function {
    const char *symbol; /* "PMPI_Send" */
    void *_Atomic found[2];
    _Atomic bool absent[2]; /* the library does not have it */
    void *_Atomic other[2]; /* what we do in place of that (agents/mpi/narrow.c) */
};
/* The function behind MPI_X (profiled: PMPI_X). Another tool's MPI_X that was preloaded behind us
 * comes before the library's. NULL: there is none. */
void *tw_mpi_real(struct tw_mpi_function *f, bool profiled);
#endif
