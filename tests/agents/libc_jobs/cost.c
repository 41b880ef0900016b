/* SPDX-License-Identifier: Apache-2.0 */
/* Nanoseconds of processor time per call of interposed functions, the best of several rounds: `name
 * ns` lines. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

#define CALLS 100000
#define MEASURE(name, call)                        \
    do {                                           \
        double best = 1e9;                         \
        for (int round = 0; round < 40; round++) { \
            double began = now();                  \
            for (int i = 0; i < CALLS; i++) {      \
                call;                              \
            }                                      \
            double each = (now() - began) / CALLS; \
            best = each < best ? each : best;      \
        }                                          \
        printf("%s %.2f\n", name, best);           \
    } while (0)

int main(void)
{
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    struct timespec t;
    void *volatile p;
    volatile time_t s;
    MEASURE("time", s = time(NULL));
    MEASURE("clock_gettime", clock_gettime(CLOCK_REALTIME, &t));
    MEASURE("mutex", (pthread_mutex_lock(&m), pthread_mutex_unlock(&m)));
    MEASURE("malloc", (p = malloc(64), free(p)));
    (void)s;
    return 0;
}
