/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many threads that record at once, and a program that has use for what its limits leave: crowd
 * THREADS MIB. The first record is the main thread's: who makes it starts the watcher's thread, for
 * which the C library allocates. Then each thread records under names and a role of its own, keeps
 * its stack until all have recorded, and then the program takes MIB of memory. Where addresses or
 * data are limited, it gets what it gets alone.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <twin/twin.h>
#include <unistd.h>

static pthread_barrier_t all;

static void *one_of_many(void *number)
{
    char role[32], name[64];
    float values[256] = {(float)(size_t)number};
    snprintf(role, sizeof role, "worker %zu", (size_t)number);
    snprintf(name, sizeof name, "weight:w%zu", (size_t)number);
    twin_thread_role(role);
    for (int i = 0; i < 5; i++) {
        twin_scope_push("layer");
        twin_record(name, TWIN_F32, 1, (int64_t[]){256}, NULL, values, 0);
        twin_record("loss:loss", TWIN_F32, 1, (int64_t[]){1 + i}, NULL, values, 0);
        twin_scope_pop();
    }
    pthread_barrier_wait(&all);
    return NULL;
}

int main(int argc, char **argv)
{
    size_t many = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
    size_t bytes = argc > 2 ? strtoul(argv[2], NULL, 10) << 20 : 0;
    pthread_t *thread = calloc(many, sizeof *thread);
    pthread_attr_t a;
    size_t made = 0;
    pthread_attr_init(&a);
    pthread_attr_setstacksize(&a, 64 << 10);
    pthread_barrier_init(&all, NULL, (unsigned)many + 1);
    int error = 0;
    twin_record("init:first", TWIN_F32, 1, (int64_t[]){1}, NULL, (float[]){1}, 0);
    while (made < many && !(error = pthread_create(&thread[made], &a, one_of_many, (void *)made)))
        made++;
    dprintf(1, "threads %zu of %zu, error %d\n", made, many, error);
    if (made < many)
        _exit(1);
    pthread_barrier_wait(&all);
    void *p = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    dprintf(1, "memory of %zu MiB: %s\n", bytes >> 20, p == MAP_FAILED ? "none" : "there");
    for (size_t i = 0; i < made; i++)
        pthread_join(thread[i], NULL);
    twin_step();
    return p == MAP_FAILED ? 2 : 0;
}
