/* SPDX-License-Identifier: Apache-2.0 */
#include "thread.h"

#include "base.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <time.h>

bool serve_thread_start(pthread_t *thread, void *(*body)(void *user), void *user)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool started = pthread_create(thread, NULL, body, user) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

void serve_end_init(struct serve_end *e)
{
    pthread_condattr_t clock;
    pthread_mutex_init(&e->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&e->come, &clock);
    pthread_condattr_destroy(&clock);
    e->stop = false;
}

void serve_end_destroy(struct serve_end *e)
{
    pthread_cond_destroy(&e->come);
    pthread_mutex_destroy(&e->lock);
}

void serve_end_tell(struct serve_end *e)
{
    pthread_mutex_lock(&e->lock);
    e->stop = true;
    pthread_cond_broadcast(&e->come);
    pthread_mutex_unlock(&e->lock);
}

bool serve_end_rest(struct serve_end *e, int64_t ns)
{
    const int64_t second_ns = 1000000000, until_ns = (int64_t)tw_monotonic_ns() + ns;
    const struct timespec until = {.tv_sec = (time_t)(until_ns / second_ns),
                                   .tv_nsec = (long)(until_ns % second_ns)};
    int rc = 0;
    assert(ns >= 0);
    pthread_mutex_lock(&e->lock);
    while (!e->stop && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&e->come, &e->lock, &until);
    const bool stop = e->stop;
    pthread_mutex_unlock(&e->lock);
    return stop;
}
