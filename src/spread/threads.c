/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of work handed out to threads. Results do not depend on who did what: each piece writes
 * its own place. */
#include "threads.h"

#include "base.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Threads of one call, at most. */
enum { MOST = 64 };

/* What the threads of one call share. */
struct crew {
    const struct tw_work *w;
    uint64_t n;
    _Atomic uint64_t next, done;
    _Atomic bool failed;
    pthread_mutex_t lock; /* guards err */
    struct twin_error err;
};

/* One thread; number 0 is the caller's own. */
struct member {
    struct crew *crew;
    unsigned number;
    pthread_t thread;
};

unsigned tw_threads(unsigned wanted, uint64_t n)
{
    if (wanted == 0)
        wanted = tw_processors();
    if (wanted > MOST)
        wanted = MOST;
    if (n >= wanted)
        return wanted;
    return n ? (unsigned)n : 1;
}

/* Takes the next piece until there is none, or one has failed. Only the caller's thread reports
 * progress, since the person's terminal is its own. */
static void *work_on_pieces(void *p)
{
    struct member *m = p;
    struct crew *c = m->crew;
    uint64_t i;
    while (!atomic_load(&c->failed) && (i = atomic_fetch_add(&c->next, 1)) < c->n) {
        struct twin_error err = TWIN_ERROR_INIT;
        int rc = c->w->work(c->w->user, m->number, i, &err);
        if (rc != 0) {
            pthread_mutex_lock(&c->lock);
            twin_error_set(&c->err, rc, "%s", err.message);
            pthread_mutex_unlock(&c->lock);
            atomic_store(&c->failed, true);
        }
        uint64_t done = atomic_fetch_add(&c->done, 1) + 1;
        if (m->number == 0 && c->w->after)
            c->w->after(c->w->after_user, done, c->n);
    }
    return NULL;
}

/* A thread that cannot be had is no error: those that were started, and the caller, do all of it.
 * When several pieces fail, the message of one of them is kept. */
int tw_work_run(const struct tw_work *w, uint64_t n, unsigned threads, struct twin_error *err)
{
    struct crew c = {.w = w, .n = n, .lock = PTHREAD_MUTEX_INITIALIZER};
    struct member member[MOST];
    threads = tw_threads(threads, n);
    unsigned started = 1;
    for (; started < threads; started++) {
        member[started] = (struct member){.crew = &c, .number = started};
        if (pthread_create(&member[started].thread, NULL, work_on_pieces, &member[started]) != 0)
            break;
    }
    member[0] = (struct member){.crew = &c};
    work_on_pieces(&member[0]);
    for (unsigned i = 1; i < started; i++)
        pthread_join(member[i].thread, NULL);
    pthread_mutex_destroy(&c.lock);
    return c.err.code ? twin_error_set(err, c.err.code, "%s", c.err.message) : 0;
}
