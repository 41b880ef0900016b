/* SPDX-License-Identifier: Apache-2.0 */
/* Eight threads add under a lock, with values of their own per thread; one is cancelled. */
#include "../seen.h"
#include <pthread.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t key;
static long total, destroyed;
static void gone(void *p)
{
    pthread_mutex_lock(&lock);
    destroyed += *(long *)p;
    pthread_mutex_unlock(&lock);
    free(p);
}
static void *work(void *arg)
{
    long *mine = malloc(sizeof *mine);
    *mine = (long)arg;
    pthread_setspecific(key, mine);
    for (int i = 0; i < 1000; i++) {
        pthread_mutex_lock(&lock);
        total += (long)arg;
        pthread_mutex_unlock(&lock);
    }
    return arg;
}
static void *sleeper(void *arg)
{
    for (;;)
        pause();
    return arg;
}
int main(void)
{
    pthread_t t[8], s;
    pthread_key_create(&key, gone);
    seen("before");
    for (long i = 0; i < 8; i++)
        if (pthread_create(&t[i], NULL, work, (void *)(i + 1)))
            return 3;
    for (int i = 0; i < 8; i++)
        pthread_join(t[i], NULL);
    if (pthread_create(&s, NULL, sleeper, NULL))
        return 4;
    void *how;
    pthread_cancel(s);
    pthread_join(s, &how);
    printf("total %ld destroyed %ld cancelled %d\n", total, destroyed, how == PTHREAD_CANCELED);
    fflush(stdout);
    seen("after");
    pthread_exit(NULL);
}
