/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SPREAD_THREADS_H
#define TW_SPREAD_THREADS_H
/*
 * Pieces of work handed out to threads, for one.c and vector.c. The functions return only when all
 * threads have ended.
 */
#include <stdint.h>
#include <twin/error.h>

/* Calls work(user, thread, i) for i = 0 to n - 1, each once, from `threads` threads (0: as many as
 * processors, at most 64; fewer when threads cannot be had). The first failure ends it and is the
 * result. after: called with the number of finished pieces, from the caller's thread; may be
 * NULL. */
struct tw_work {
    int (*work)(void *user, unsigned thread, uint64_t i, struct twin_error *err);
    void (*after)(void *user, uint64_t done, uint64_t all);
    void *user, *after_user;
};
/* How many threads tw_work_run would use for n pieces: at least 1. */
unsigned tw_threads(unsigned wanted, uint64_t n);
int tw_work_run(const struct tw_work *w, uint64_t n, unsigned threads, struct twin_error *err);

#endif
