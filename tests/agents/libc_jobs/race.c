/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that append their number to a list under a lock, ten times each, and meet at a barrier.
 * `turns`: each waits for its turn, so that no delay can change the list. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 6, ROUNDS = 10 };
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static char list[THREADS * ROUNDS + 1];
static int used, turns;

static void *work(void *p)
{
    int me = (int)(size_t)p;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&m);
        while (turns && used % THREADS != me)
            pthread_cond_wait(&c, &m);
        list[used++] = (char)('a' + me);
        if (turns)
            pthread_cond_broadcast(&c);
        pthread_mutex_unlock(&m);
    }
    pthread_barrier_wait(&barrier);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t t[THREADS];
    (void)argv;
    turns = argc > 1;
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    puts(list);
    return 0;
}
