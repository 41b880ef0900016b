/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A buffer, a count and a datatype as what the agent can record: elements of a type that has no
 * gaps are read where they lie; others are packed first, so that bytes that the program does not
 * send do not count.
 */
#include "inside.h"
#include "data.h"

#include <string.h>
#include "src/base/base.h"

enum { PACKED_MOST = 256 << 20 }; /* a derived type larger than that is not looked into */

TW_MPI_ASK(Type_size, (t, out), tw_mpi_handle t, int *out)
TW_MPI_ASK(Type_size_x, (t, out), tw_mpi_handle t, int64_t *out)
TW_MPI_ASK(Type_get_extent, (t, lower, extent), tw_mpi_handle t, intptr_t *lower, intptr_t *extent)
TW_MPI_ASK(Type_get_true_extent, (t, lower, extent), tw_mpi_handle t, intptr_t *lower,
           intptr_t *extent)
TW_MPI_ASK(Pack_size, (n, t, c, out), int n, tw_mpi_handle t, tw_mpi_handle c, int *out)
TW_MPI_ASK(Pack, (in, n, t, out, room, at, c), const void *in, int n, tw_mpi_handle t, void *out,
           int room, int *at, tw_mpi_handle c)

struct tw_mpi_type tw_mpi_type(tw_mpi_handle handle)
{
    struct tw_mpi_type t = {.handle = handle, .dtype = TWIN_BYTES};
    int64_t size = 0;
    int small = 0;
    intptr_t lower = 0, extent = 0, true_lower = 0, true_extent = 0;
    if (tw_mpi_predefined(handle, &t.dtype)) {
        t.size = t.extent = (int64_t)twin_dtype_size(t.dtype);
        t.known = t.dense = true;
        return t;
    }
    if (ask_Type_size(handle, &small) && small >= 0)
        size = small;
    else if (!ask_Type_size_x(handle, &size)) /* it is larger than an int says */
        size = -1;
    t.known = size >= 0 && ask_Type_get_extent(handle, &lower, &extent) &&
              ask_Type_get_true_extent(handle, &true_lower, &true_extent);
    t.size = size;
    t.extent = extent;
    t.lower = true_lower;
    t.dense = t.known && size == extent && size == true_extent;
    return t;
}

/* Where n elements lie, without a copy; false: they have to be packed. */
static bool in_place(struct tw_mpi_piece *p, const void *buffer, int64_t n,
                     const struct tw_mpi_type *t)
{
    if (!t->dense)
        return false;
    *p = (struct tw_mpi_piece){.data = (const char *)buffer + t->lower,
                               .count = t->dtype == TWIN_BYTES ? n * t->size : n,
                               .dtype = t->dtype};
    return true;
}

/* Packs n elements; false: they cannot be read so. */
static bool packed(struct tw_mpi_piece *p, const void *buffer, int64_t n,
                   const struct tw_mpi_type *t, tw_mpi_handle comm)
{
    int room = 0, at = 0;
    if (n > INT32_MAX || n * t->size > PACKED_MOST ||
        !ask_Pack_size((int)n, t->handle, comm, &room) || room < 0)
        return false;
    void *copy = tw_malloc((size_t)room + 1);
    if (!copy || !ask_Pack(buffer, (int)n, t->handle, copy, room, &at, comm)) {
        tw_free(copy);
        return false;
    }
    *p = (struct tw_mpi_piece){.data = copy, .count = at, .dtype = TWIN_BYTES, .owned = copy};
    return true;
}

bool tw_mpi_piece(struct tw_mpi_piece *p, const void *buffer, int64_t n,
                  const struct tw_mpi_type *t, tw_mpi_handle comm)
{
    *p = (struct tw_mpi_piece){.dtype = t->dtype};
    if (!t->known || n < 0)
        return false;
    if (n == 0 || t->size == 0)
        return true;
    return in_place(p, buffer, n, t) || packed(p, buffer, n, t, comm);
}

bool tw_mpi_keep_arrays(struct tw_mpi_data *d)
{
    const size_t parts = d->counts && d->parts > 0 ? (size_t)d->parts : 0;
    const size_t numbers = parts * (d->wide ? sizeof(int64_t) : sizeof(int));
    const size_t handles = d->types ? parts * tw_mpi_abi()->handle_bytes : 0;
    if (parts == 0)
        return true;
    char *copy = tw_malloc(2 * numbers + handles);
    if (!copy)
        return false;
    memcpy(copy, d->counts, numbers);
    d->counts = copy;
    if (d->where)
        d->where = memcpy(copy + numbers, d->where, numbers);
    if (d->types)
        d->types = memcpy(copy + 2 * numbers, d->types, handles);
    d->owned = copy;
    return true;
}

void tw_mpi_free_arrays(struct tw_mpi_data *d)
{
    tw_free(d->owned);
    d->owned = NULL;
}
