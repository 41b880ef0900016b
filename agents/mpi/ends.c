/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order in which the program learns that its non-blocking receives are complete, as recorded.
 * Calls that choose among several (MPI_Waitany, MPI_Testsome, ...) are made to choose the next one
 * (held_calls.c). Where that one does not come while others are complete, or another one was waited
 * for by itself, this is given up; which messages are matched is another matter, and goes on.
 */
#include "replay.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "src/base/base.h"

#pragma weak tw_agent_note /* as in records.c */

static _Atomic bool off;
static _Atomic uint32_t next;
static uint64_t others_since; /* monotonic: another one is complete, and held back; 0: no */

/* The thread that learns of receives. */
static bool is_our_thread(void)
{
    static __thread int here __attribute__((tls_model("initial-exec")));
    static _Atomic int taken;
    return tw_mpi_is_first_thread(&taken, &here);
}

static const struct tw_order_match *expected(const struct tw_order **order)
{
    *order = atomic_load(&off) ? NULL : tw_mpi_order();
    return *order && next < (*order)->head.ends ? &(*order)->ends[next] : NULL;
}

bool tw_mpi_ends_replayed(void)
{
    const struct tw_order *order;
    return tw_mpi_entered() && expected(&order) && is_our_thread();
}

static bool is_one(const struct tw_order *order, const struct tw_order_match *m,
                   const struct tw_mpi_comm *c, int source, int tag)
{
    return tw_mpi_comm_peer(c, source) == m->source &&
           (m->tag < 0 ? tag >= TW_ORDER_TAGS : tag == m->tag) &&
           strcmp(order->names[m->comm], c->name) == 0;
}

bool tw_mpi_end_is_next(const struct tw_mpi_comm *c, const void *status)
{
    const struct tw_order *order;
    const struct tw_order_match *m = expected(&order);
    return m && is_one(order, m, c, tw_mpi_source(status), tw_mpi_tag(status));
}

static void give_up(const struct tw_order *order, const struct tw_order_match *m, const char *found)
{
    char text[512], tag[24] = "of 1024 or more";
    if (atomic_exchange(&off, true) || !tw_agent_note)
        return;
    if (m->tag >= 0)
        snprintf(tag, sizeof tag, "%d", (int)m->tag);
    snprintf(text, sizeof text,
             "completion %u of rank %d: expected a message from rank %d, tag %s, on %.159s; found "
             "%.160s",
             next + 1, tw_mpi_comm(tw_mpi_world())->rank, (int)m->source, tag,
             order->names[m->comm], found);
    tw_agent_note(TW_ORDER_ENDS_NOTE, text);
}

void tw_mpi_end_held_back(void)
{
    char found[80];
    const struct tw_order *order;
    const struct tw_order_match *m = expected(&order);
    const uint64_t now = tw_monotonic_ns();
    others_since = others_since ? others_since : now;
    if (!m)
        return;
    if (now - others_since > tw_mpi_replay_wait_ns()) {
        snprintf(found, sizeof found, "for %g s only others",
                 (double)(tw_mpi_replay_wait_ns() / 1000000) / 1000.0);
        give_up(order, m, found);
        tw_mpi_tell(TW_MPI_TOLD_ENDS);
    } else if (tw_mpi_is_told(TW_MPI_TOLD_ENDS) || tw_mpi_is_told(TW_MPI_TOLD_MATCHES)) {
        give_up(order, m, "only others, and another rank had waited in vain");
    }
}

void tw_mpi_end_was(const struct tw_mpi_call *call)
{
    char found[120];
    const int before = errno;
    const struct tw_order *order;
    const struct tw_order_match *m = expected(&order);
    if (m && !is_our_thread()) {
        give_up(order, m, "receives in more than one thread");
    } else if (m && is_one(order, m, call->comm, call->peer, call->tag)) {
        next++;
        others_since = 0;
    } else if (m) {
        snprintf(found, sizeof found, "one from rank %d, tag %d",
                 tw_mpi_comm_peer(call->comm, call->peer), call->tag);
        give_up(order, m, found);
    }
    errno = before;
}
