/* SPDX-License-Identifier: Apache-2.0 */
/* The constants of src/mpiabi/abi.c against the mpi.h of the MPI that this is compiled with. Says
 * what is wrong, and fails. Argument: which row of the table it is. */
#include <mpi.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include "src/mpiabi/abi.h"

static int wrong;

static void same(const char *what, long long ours, long long theirs)
{
    if (ours == theirs)
        return;
    printf("%s: %lld, mpi.h says %lld\n", what, ours, theirs);
    wrong = 1;
}

static void dtype(const char *name, MPI_Datatype type, enum twin_dtype expected)
{
    enum twin_dtype found = TWIN_BYTES;
    tw_mpi_handle h = (tw_mpi_handle)(uintptr_t)type;
    int size;
    if (!tw_mpi_predefined(h, &found)) {
        printf("%s: not known\n", name);
        wrong = 1;
        return;
    }
    MPI_Type_size(type, &size);
    same(name, found, expected);
    same(name, (long long)twin_dtype_size(found), size);
}

int main(int argc, char **argv)
{
    size_t n;
    const struct tw_mpi_abi *a;
    MPI_Init(&argc, &argv);
    a = tw_mpi_abi();
    if (!a || a != &tw_mpi_abis(&n)[atoi(argc > 1 ? argv[1] : "0")]) {
        printf("it was taken for %s\n", a ? a->name : "none");
        return 1;
    }
    same("bytes of a handle", (long long)a->handle_bytes, sizeof(MPI_Request));
    same("bytes of a status", (long long)a->status_bytes, sizeof(MPI_Status));
    same("source", (long long)a->source, offsetof(MPI_Status, MPI_SOURCE));
    same("tag", (long long)a->tag, offsetof(MPI_Status, MPI_TAG));
    same("error", (long long)a->error, offsetof(MPI_Status, MPI_ERROR));
    same("MPI_ANY_SOURCE", a->any_source, MPI_ANY_SOURCE);
    same("MPI_ANY_TAG", a->any_tag, MPI_ANY_TAG);
    same("MPI_PROC_NULL", a->proc_null, MPI_PROC_NULL);
    same("MPI_ROOT", a->root, MPI_ROOT);
    same("MPI_GRAPH", a->graph, MPI_GRAPH);
    same("MPI_CART", a->cart, MPI_CART);
    same("MPI_DIST_GRAPH", 3, MPI_DIST_GRAPH);
    same("MPI_ERR_UNSUPPORTED_OPERATION", a->unsupported, MPI_ERR_UNSUPPORTED_OPERATION);
    same("MPI_ERR_COUNT", 2, MPI_ERR_COUNT);
    same("MPI_UNDEFINED", TW_MPI_UNDEFINED, MPI_UNDEFINED);
    same("MPI_IN_PLACE", (long long)a->in_place, (long long)(intptr_t)MPI_IN_PLACE);
    same("MPI_STATUS_IGNORE", (long long)a->ignore, (long long)(intptr_t)MPI_STATUS_IGNORE);
    same("MPI_STATUSES_IGNORE", (long long)a->ignore, (long long)(intptr_t)MPI_STATUSES_IGNORE);
    same("world", tw_mpi_is_world((tw_mpi_handle)(uintptr_t)MPI_COMM_WORLD), 1);
    same("self", tw_mpi_is_self((tw_mpi_handle)(uintptr_t)MPI_COMM_SELF), 1);
    same("MPI_PACKED", (long long)(intptr_t)tw_mpi_packed(), (long long)(intptr_t)MPI_PACKED);
    dtype("MPI_CHAR", MPI_CHAR, TWIN_I8);
    dtype("MPI_BYTE", MPI_BYTE, TWIN_BYTES);
    dtype("MPI_SHORT", MPI_SHORT, TWIN_I16);
    dtype("MPI_INT", MPI_INT, TWIN_I32);
    dtype("MPI_UNSIGNED", MPI_UNSIGNED, TWIN_U32);
    dtype("MPI_LONG", MPI_LONG, TWIN_I64);
    dtype("MPI_UNSIGNED_LONG", MPI_UNSIGNED_LONG, TWIN_U64);
    dtype("MPI_LONG_LONG", MPI_LONG_LONG, TWIN_I64);
    dtype("MPI_FLOAT", MPI_FLOAT, TWIN_F32);
    dtype("MPI_DOUBLE", MPI_DOUBLE, TWIN_F64);
    dtype("MPI_INT8_T", MPI_INT8_T, TWIN_I8);
    dtype("MPI_UINT64_T", MPI_UINT64_T, TWIN_U64);
    dtype("MPI_C_FLOAT_COMPLEX", MPI_C_FLOAT_COMPLEX, TWIN_C64);
    dtype("MPI_C_DOUBLE_COMPLEX", MPI_C_DOUBLE_COMPLEX, TWIN_C128);
    dtype("MPI_REAL", MPI_REAL, TWIN_F32);
    dtype("MPI_DOUBLE_PRECISION", MPI_DOUBLE_PRECISION, TWIN_F64);
    dtype("MPI_INTEGER", MPI_INTEGER, TWIN_I32);
    printf("%s %s\n", tw_mpi_operation((tw_mpi_handle)(uintptr_t)MPI_SUM),
           tw_mpi_operation((tw_mpi_handle)(uintptr_t)MPI_MAXLOC));
    MPI_Finalize();
    return wrong;
}
