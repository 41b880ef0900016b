/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SERVE_SHARE_H
#define TW_SERVE_SHARE_H
/*
 * What the watcher may take of a machine: a share of all time, which it may save up while nothing
 * is new. So news are shown at once as long as they are rare, and a fleet that writes all the time
 * does not keep a processor busy. Times are monotonic; pure but for its own state.
 */
#include <stdbool.h>
#include <stdint.h>

/* A fifth; and what a minute of quiet earns is the most that is saved. */
enum { SERVE_SHARE_OF = 5, SERVE_SHARE_SAVED_S = 12 };

struct serve_share {
    double saved_s; /* below 0: owed */
    int64_t seen_ns;
};
void serve_share_init(struct serve_share *s, int64_t now_ns); /* all is saved */
/* May work begin? One piece of work may take more than is saved, which is owed then. */
bool serve_share_may(struct serve_share *s, int64_t now_ns);
void serve_share_spend(struct serve_share *s, double seconds);

#endif
