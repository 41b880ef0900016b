/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TRIAL_REMOTE_INSIDE_H
#define TW_TRIAL_REMOTE_INSIDE_H
/* What the files about runs on an engine share: one such run, and the steps of its life. */
#include "base.h"
#include "remote.h"

#include "src/engine/order.h"

enum tw_remote_phase { TW_REMOTE_WAITS, TW_REMOTE_SENT, TW_REMOTE_ENDED };

struct tw_remote_run {
    struct tw_remote *of;
    struct tw_trial trial;
    struct tw_buf body; /* of the order */
    struct tw_place place;
    enum tw_remote_phase phase;
    struct tw_ticket ticket;
    uint32_t attempt;
    uint64_t left_ns; /* of the deadline, for a run that may wait in a queue; 0: none */
    uint64_t started_ns, gone_ns, stop_ns, watched_ns, seen_ns;
    bool asked_end, misplaced, cancelled;
    char *dir;
    int rc;
    struct twin_error err;
};

static inline double tw_seconds_since(uint64_t ns)
{
    return (double)(tw_monotonic_ns() - ns) * 1e-9;
}

/* The attempt is over: its place at the engine is free. Nothing where it was not handed over. */
static inline void tw_remote_let_go(struct tw_remote_run *x)
{
    if (x->phase == TW_REMOTE_SENT)
        tw_engine_release(x->of->engine, &x->ticket);
}

/* ---- remote_send.c */
/* What waits goes to the engine, batch by batch, in the order in which it came. */
int tw_remote_send(struct tw_remote *r, struct twin_error *err);

/* ---- remote_end.c */
void tw_remote_end_with(struct tw_remote_run *x, int rc);
/* The run is to be made again, as long as that has not been tried too often. counter: of r, for the
 * kind of loss. reason: what stands in the verdict's notes. */
void tw_remote_lose(struct tw_remote_run *x, size_t *counter, const char *reason);
/* A result is there: is it a whole run of this attempt, in its place? */
void tw_remote_take_result(struct tw_remote_run *x, const struct tw_result *result);
/* Was it lost: has its engine nothing of it any more, and is there no result? */
void tw_remote_look_gone(struct tw_remote_run *x);

#endif
