/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SERVE_THREAD_H
#define TW_SERVE_THREAD_H
/* What all threads of the server have in common: how one is started, and how one rests. */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Starts a thread that takes no signals: those are for the thread of the clients. */
bool serve_thread_start(pthread_t *thread, void *(*body)(void *user), void *user);

/* An end that a thread can be told of while it rests. The lock may guard more than `stop`. */
struct serve_end {
    pthread_mutex_t lock;
    pthread_cond_t come;
    bool stop;
};
void serve_end_init(struct serve_end *e);
void serve_end_destroy(struct serve_end *e);
/* For whoever ends it, without the lock. */
void serve_end_tell(struct serve_end *e);
/* Rests for so long, or until the end: true. ns >= 0; changes of the time of day do not count. */
bool serve_end_rest(struct serve_end *e, int64_t ns);

#endif
