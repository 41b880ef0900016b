/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SPREAD_THREADS_H
#define TW_SPREAD_THREADS_H
#include <stdint.h>
#include <twin/error.h>

/* Calls work(user, thread, i) for i = 0 to n - 1, each once, from `threads` threads (0: as many as
 * processors, at most 64; fewer when threads cannot be had). The first failure ends it and is the
 * result. after: called with i + 1 finished, from the caller's thread; may be NULL. */
struct tw_work {
    int (*work)(void *user, unsigned thread, uint64_t i, struct twin_error *err);
    void (*after)(void *user, uint64_t done, uint64_t all);
    void *user, *after_user;
};
unsigned tw_threads(unsigned wanted, uint64_t n);
int tw_work_run(const struct tw_work *w, uint64_t n, unsigned threads, struct twin_error *err);

#endif
