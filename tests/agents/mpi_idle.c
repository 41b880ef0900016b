/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked into a job of MPI: a rank that waits for a message sleeps between two looks, in place of
 * asking all the time. More ranks than processors wait in these tests, and what they burn is taken
 * from other tests: two thirds of what a job of MPICH took. What is received, and from whom, is
 * for the library as before.
 *
 * The library's calls come here because a program's own functions are found before those of the
 * libraries: MPICH looks by ucp_worker_progress (where it was built on UCX; elsewhere nothing
 * changes). Open MPI is asked to yield by mpirun, and sched_yield is not replaced: the agents' own
 * waits call it.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <time.h>

enum { EAGER_LOOKS = 20 }; /* in vain, before it sleeps: what is under way comes by then */

__attribute__((visibility("default"))) unsigned ucp_worker_progress(void *worker);

unsigned ucp_worker_progress(void *worker)
{
    static unsigned (*_Atomic library)(void *);
    static _Thread_local int in_vain;
    unsigned (*look)(void *) = library;
    if (!look)
        library = look = (unsigned (*)(void *))dlsym(RTLD_NEXT, "ucp_worker_progress");
    const unsigned events = look(worker);
    in_vain = events ? 0 : in_vain + 1;
    if (in_vain > EAGER_LOOKS)
        nanosleep(&(struct timespec){.tv_nsec = 50 * 1000}, NULL);
    return events;
}
