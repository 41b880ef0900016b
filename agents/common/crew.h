/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_AGENT_CREW_H
#define TW_AGENT_CREW_H
/*
 * A few threads that help with long digests while the job waits for them anyway. They are made at
 * the first use, sleep between uses, run with all signals blocked, and touch nothing but what they
 * are given.
 */
#include <stdbool.h>
#include <stddef.h>

typedef void tw_crew_work(void *user, size_t piece);

/* Calls work(user, i) once for every i < n, on this thread and the helpers, and returns when all
 * calls have returned. false, and nothing was called, when the crew is busy for another thread or
 * has no helpers (one CPU, no threads to be had). */
bool tw_crew_run(tw_crew_work *work, void *user, size_t n);
/* In a forked child: the helpers are the parent's. */
void tw_crew_forget(void);
#endif
