/* SPDX-License-Identifier: Apache-2.0 */
/* Eight threads draw in whatever order they run; two forked children draw, one of them in a thread;
 * a raw clone and a vfork child draw. One line for each, in the order of creation. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t *drawn;

static void *draw(void *p)
{
    struct timespec t;
    uint64_t r;
    clock_gettime(CLOCK_MONOTONIC, &t);
    usleep((useconds_t)(t.tv_nsec / 7 % 3000)); /* another interleaving each time */
    getrandom(&r, sizeof r, 0);
    getrandom(p, sizeof(uint64_t), 0);
    return NULL;
}

static void in_thread(uint64_t *to)
{
    pthread_t t;
    if (pthread_create(&t, NULL, draw, to) == 0)
        pthread_join(t, NULL);
}

int main(void)
{
    pthread_t t[8];
    drawn = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 8; i++)
        pthread_create(&t[i], NULL, draw, &drawn[i]);
    for (int i = 0; i < 8; i++)
        pthread_join(t[i], NULL);
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        if (child == 0) {
            if (i == 0)
                draw(&drawn[8]);
            else
                in_thread(&drawn[9]);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    draw(&drawn[10]);
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        getrandom(&drawn[11], 8, 0);
        syscall(SYS_exit_group, 0);
    }
    waitpid(child, NULL, 0);
    getrandom(&drawn[12], 8, 0);
    for (int i = 0; i < 13; i++)
        printf("%016llx\n", (unsigned long long)drawn[i]);
    return 0;
}
