/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_DIFF_MPI_H
#define TW_CMD_DIFF_MPI_H
/*
 * The processes of `mpirun -n N twinrun diff --mpi`. Each of the others sends process 0 one
 * message, and gets its exit code; process 0 takes all messages, also when it has failed by itself,
 * so that none waits for ever. One thread.
 */
#include "src/compare/compare.h"
#include "src/mpiabi/group.h"

struct tw_processes {
    struct tw_group group;
    struct twin_share share;
    size_t taken; /* process 0: how many of the others' messages it has */
};

/* Joins. All processes but the first say nothing from then on. 0, or the exit code: the trouble was
 * said. *p must not move until tw_processes_end(). */
int tw_processes_begin(struct tw_processes *p);
/* In the others: verifies this process's share and sends what was found, or why not. runs NULL:
 * they could not be opened, as was said. */
void tw_processes_help(struct tw_processes *p, const struct twin_run *const *runs, size_t count);
/* Ends all with the exit code of the first, which it returns. */
int tw_processes_end(struct tw_processes *p, int code);

#endif
