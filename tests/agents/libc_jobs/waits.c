/* SPDX-License-Identifier: Apache-2.0 */
/* Timed waits with deadlines made from the wall clock, each of 60 ms; prints how each ended, and
 * fails when one took much less or much more time by the monotonic clock. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static double now(clockid_t c)
{
    struct timespec t;
    clock_gettime(c, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static struct timespec in(clockid_t c, long ms)
{
    struct timespec t;
    clock_gettime(c, &t);
    t.tv_nsec += ms * 1000000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

static int wrong;

static void ended(const char *what, int rc, double began)
{
    double took = now(CLOCK_MONOTONIC) - began;
    printf("%s %s\n", what, rc == 0 ? "ok" : rc == ETIMEDOUT ? "timed out" : strerror(rc));
    wrong |= took < 0.04 || took > 5;
}

int main(void)
{
    sem_t s;
    pthread_cond_t c = PTHREAD_COND_INITIALIZER, steady;
    pthread_condattr_t a;
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    struct timespec t;
    double began;
    sem_init(&s, 0, 0);
    pthread_condattr_init(&a);
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    pthread_cond_init(&steady, &a);
    pthread_mutex_lock(&m);

    began = now(CLOCK_MONOTONIC), t = in(CLOCK_REALTIME, 60);
    ended("semaphore", sem_timedwait(&s, &t) ? errno : 0, began);
    began = now(CLOCK_MONOTONIC), t = in(CLOCK_REALTIME, 60);
    ended("condition", pthread_cond_timedwait(&c, &m, &t), began);
    began = now(CLOCK_MONOTONIC), t = in(CLOCK_MONOTONIC, 60);
    ended("steady condition", pthread_cond_timedwait(&steady, &m, &t), began);
    began = now(CLOCK_MONOTONIC), t = in(CLOCK_REALTIME, 60);
    ended("mutex", pthread_mutex_timedlock(&m, &t), began);
    began = now(CLOCK_MONOTONIC), t = in(CLOCK_REALTIME, 60);
    ended("sleep", clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &t, NULL), began);
    return wrong;
}
