/* SPDX-License-Identifier: Apache-2.0 */
/* A library that is linked with MPI, and asks by itself which functions there are. */
#include "mpi_asks.h"

int PMPI_Get_library_version(char *, int *);

int mpi_asks(void)
{
    char version[8200];
    int bytes;
    return PMPI_Get_library_version(version, &bytes) == 0 ? asks("library") : -1;
}
