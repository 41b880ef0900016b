/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TESTS_MPI_ORDER_JOINS_H
#define TW_TESTS_MPI_ORDER_JOINS_H
/* Calls of MPI in which a rank waits for others, for mpi_order_job.c: one for each family. */

/* On all ranks, before anything else, and at the end. */
void join_prepare(const char *how);
void join_end(void);
/* On all ranks. Rank 0 comes back only when rank 1 has come. */
void join_all(const char *how);
#endif
