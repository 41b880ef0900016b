/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `mpi_asks_job NAME...`: which functions of MPI are there for a program, by weak references of its
 * own and of a library that it is linked with, and the names given by dlsym; then it uses MPI.
 * Built with LATE: `mpi_asks_late MODULE NAME...` is not linked with MPI, and opens that library as
 * a module.
 */
#include "mpi_asks.h"

#include <dlfcn.h>

int MPI_Init(int *, char ***);
int MPI_Finalize(void);

static void look_up(char **names)
{
    for (; *names; names++) {
        dlerror();
        const void *found = dlsym(RTLD_DEFAULT, *names);
        const char *why = dlerror();
        printf("dlsym %s %s%s\n", *names, found ? "there" : "no", !found && !why ? ", no why" : "");
    }
}

#ifdef LATE
int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    /* as the extensions of Python are opened, but for all to see */
    void *module = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    int (*ask)(void) = module ? (int (*)(void))dlsym(module, "mpi_asks") : NULL;
    int (*init)(int *, char ***) = (int (*)(int *, char ***))dlsym(RTLD_DEFAULT, "MPI_Init");
    int (*end)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "MPI_Finalize");
    if (!ask || !init || !end || ask() <= 0)
        return 2;
    look_up(argv + 2);
    return init(NULL, NULL) || end();
}
#else
int main(int argc, char **argv)
{
    (void)argc;
    if (asks("program") <= 0 || mpi_asks() <= 0)
        return 2;
    look_up(argv + 1);
    return MPI_Init(NULL, NULL) || MPI_Finalize();
}
#endif
