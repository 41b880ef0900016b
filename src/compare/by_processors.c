/* SPDX-License-Identifier: Apache-2.0 */
/* Independent pieces of work, done by as many threads as there are processors. */
#include "internal.h"

#include <pthread.h>
#include <stdatomic.h>

struct pieces {
    size_t count;
    atomic_size_t next;
    void (*each)(void *user, size_t i);
    void *user;
};

static void *work(void *arg)
{
    struct pieces *p = arg;
    for (size_t i; (i = atomic_fetch_add(&p->next, 1)) < p->count;)
        p->each(p->user, i);
    return NULL;
}

void tw_by_processors(size_t count, void (*each)(void *user, size_t i), void *user)
{
    enum { MOST = 64 };
    pthread_t thread[MOST];
    struct pieces p = {.count = count, .each = each, .user = user};
    const size_t processors = tw_processors();
    const size_t workers = count < processors ? count : processors;
    size_t started = 0;
    while (started + 1 < workers && started < MOST &&
           pthread_create(&thread[started], NULL, work, &p) == 0)
        started++;
    work(&p); /* this thread is one of them, and without others the only one */
    for (size_t i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
}
