/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MPI_ASKS_H
#define MPI_ASKS_H
/*
 * Prints which functions of MPI are there, as an object finds them by weak references, and returns
 * how many are. `who`: the object, for people. To be included by each one, which has references of
 * its own then.
 */
#include <stdio.h>

/* What the library finds. */
__attribute__((visibility("default"))) int mpi_asks(void);

#define ASKED(each)                                                                                \
    each(MPI_Send) each(PMPI_Send) each(MPI_Iallreduce) each(MPI_Allreduce_init)                   \
        each(MPIX_Allreduce_init) each(MPI_Isendrecv) each(PMPI_Isendrecv)                         \
            each(MPI_Isendrecv_replace) each(MPI_Psend_init) each(MPI_Precv_init) each(MPI_Pready) \
                each(MPI_Session_init) each(MPI_Session_finalize) each(MPI_Comm_create_from_group) \
                    each(MPI_Send_c) each(MPI_Allreduce_c) each(PMPI_Allreduce_c)                  \
                        each(MPI_Isendrecv_c) each(MPIX_Comm_agree)

#define ASKED_DECLARED(name) extern int name(void) __attribute__((weak));
ASKED(ASKED_DECLARED)

static inline int asks(const char *who)
{
    int found = 0;
#define ASKED_SHOWN(name)                                         \
    printf("%s %s %s\n", who, #name, name != 0 ? "there" : "no"); \
    found += name != 0;
    ASKED(ASKED_SHOWN)
    return found;
}

#endif
