/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_MPI_GROUP_H
#define TW_MPI_GROUP_H
/*
 * Our own processes that a launcher of MPI started (mpirun -n 8 twinrun ...). The program is not
 * linked with MPI: the library that belongs to the launcher is loaded when it is asked for. All
 * that is needed is that the others send bytes to process 0, and process 0 a number to them. Who
 * waits sleeps between looks, since MPI's own waiting takes a whole processor from whom is waited
 * for. By one thread.
 *
 * A process that dies, and a failing call of MPI, end all of them: by the launcher, and by MPI's
 * own error handler.
 */
#include <stddef.h>
#include <twin/error.h>

struct tw_buf;

struct tw_group {
    int rank, size;
};

/* Loads the library and initializes MPI. TWIN_EUNSUPPORTED: no launcher of MPI started this
 * process, its library cannot be loaded, or is another MPI's than the launcher. A library of
 * another name: TWINRUN_MPI_LIBRARY. */
int tw_group_join(struct tw_group *g, struct twin_error *err);
/* To process 0, which must receive it. TWIN_ELIMIT: over 1 GiB; nothing was sent. */
int tw_group_send(const struct tw_group *g, const void *bytes, size_t n, struct twin_error *err);
/* Process 0: what process `from` sends. out: empty; freed by the caller with tw_buf_free().
 * TWIN_EFORMAT: a length that cannot be; TWIN_ENOMEM. After either only tw_group_abort() is left.
 */
int tw_group_receive(const struct tw_group *g, int from, struct tw_buf *out,
                     struct twin_error *err);
/* All of them: gives process 0's number to all. Returns it. */
int tw_group_agree(const struct tw_group *g, int number);
/* Finalizes MPI. */
void tw_group_leave(struct tw_group *g);
/* Ends all processes with this exit code; does not return. */
_Noreturn void tw_group_abort(const struct tw_group *g, int code);

#endif
