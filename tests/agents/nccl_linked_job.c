/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job that has NCCL: statically, by a DOUBLE in its own file, or as a library that it loads.
 *
 *     nccl_linked_job[_static] DRIVER [LIBRARY]    loads both, and records two steps
 *
 * A stub has the function, and nothing of NCCL's own.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <twin/twin.h>

#if defined STATIC_NCCL || defined STUB_NCCL
int ncclCommInitRank(void *comm, int ranks, const char id[128], int rank);
int ncclCommInitRank(void *comm, int ranks, const char id[128], int rank)
{
    (void)comm, (void)ranks, (void)id, (void)rank;
    return 5; /* it is not called */
}
#endif

#ifdef STATIC_NCCL
const char *nccl_variable(void);
const char *nccl_variable(void)
{
    return "NCCL_DEBUG_SUBSYS";
}
#endif

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!dlopen(argv[i], RTLD_NOW | RTLD_LOCAL)) {
            fprintf(stderr, "%s\n", dlerror());
            return 70;
        }
    for (int step = 0; step < 2; step++) {
        const float x[2] = {1, (float)step};
        twin_record("x", TWIN_F32, 1, (int64_t[]){2}, NULL, x, 0);
        twin_step();
    }
    return 0;
}
