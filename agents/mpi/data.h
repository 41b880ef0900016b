/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_MPI_DATA_H
#define TW_MPI_DATA_H
/* A contiguous stretch of memory that holds the contents of a part of a buffer. */
#include "inside.h"

struct tw_mpi_piece {
    const void *data;
    int64_t count; /* elements of dtype */
    enum twin_dtype dtype;
    void *owned; /* to be freed with tw_free; NULL: it is the program's own memory */
};
/* False: the contents cannot be read. */
bool tw_mpi_piece(struct tw_mpi_piece *p, const void *buffer, int64_t n,
                  const struct tw_mpi_type *t, tw_mpi_handle comm);
#endif
