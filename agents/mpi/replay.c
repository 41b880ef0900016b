/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes, in the order of a recorded run (docs/internals/replay-order.md): they find the recorded
 * message, and no other one. That of MPI_Mprobe and MPI_Improbe is taken in one call with the
 * finding of it, so that no other thread comes between.
 *
 * While nothing can be received at all the program would wait without us, too. While another
 * message could be taken, the recorded one is waited for a bounded time; then the rank is given up.
 */
#include "replay.h"

#include <errno.h>
#include <stdio.h>
#include "src/base/base.h"

static uint64_t others_since; /* monotonic: another message than the next one is there; 0: no */
static uint32_t others_of;    /* the number of that next one */

TW_MPI_CALL(Iprobe, (s, t, c, flag, status), int s, int t, tw_mpi_handle c, int *flag, void *status)
TW_MPI_CALL(Improbe, (s, t, c, flag, m, status), int s, int t, tw_mpi_handle c, int *flag, void *m,
            void *status)

enum outcome { NATURAL, HELD_BACK, THERE, FAILED };

/* Another message is there than the recorded one. Is it for too long? */
static enum outcome held_back(const struct tw_mpi_open *o, bool fits)
{
    char own[TW_MPI_STATUS_MOST] = {0}, found[120];
    int other = 0;
    if (call_Iprobe(o->from, o->tag, o->comm, &other, own) != 0 || !other)
        return HELD_BACK;
    const uint64_t now = tw_monotonic_ns();
    if (others_of != o->number || !others_since) {
        others_of = o->number;
        others_since = now;
    }
    if (o->m && now - others_since <= tw_mpi_replay_wait_ns()) {
        if (!tw_mpi_is_told(TW_MPI_TOLD_MATCHES))
            return HELD_BACK;
        tw_mpi_release_with_others(o);
        tw_mpi_held_look();
        return NATURAL;
    }
    snprintf(found, sizeof found, "for %g s only others, first from rank %d, tag %d",
             (double)(tw_mpi_replay_wait_ns() / 1000000) / 1000.0,
             tw_mpi_comm_peer(o->c, tw_mpi_source(own)), tw_mpi_tag(own));
    if (fits)
        tw_mpi_differs(o, found);
    else
        tw_mpi_differs_by_call(o);
    tw_mpi_held_look();
    return NATURAL;
}

/* Is the message there? Where m is given it is taken, into *m and *status. */
static enum outcome look(struct tw_mpi_open *o, void *m, void *status, int *rc)
{
    int here = 0;
    const enum tw_mpi_expected is = tw_mpi_expect(o);
    if (is == TW_MPI_NATURAL) {
        tw_mpi_held_look();
        o->source = o->from;
        o->wanted = o->tag;
        if (!tw_mpi_held_waits())
            return NATURAL;
    }
    if (is == TW_MPI_OTHER || o->source == TW_MPI_NO_SOURCE)
        return held_back(o, is == TW_MPI_RECORDED);
    /* what one that was posted before would get is not there for others */
    if (tw_mpi_held_wants(o))
        return HELD_BACK;
    *rc = m ? call_Improbe(o->source, o->wanted, o->comm, &here, m, status)
            : call_Iprobe(o->source, o->wanted, o->comm, &here, status);
    if (*rc != 0)
        return FAILED;
    if (here) {
        others_since = 0;
        return THERE;
    }
    return is == TW_MPI_RECORDED ? held_back(o, true) : HELD_BACK;
}

bool tw_mpi_replay_probe(const char *function, const struct tw_mpi_comm *c, int from, int tag,
                         tw_mpi_handle comm, int *flag, void *m, void *status, int *rc)
{
    const struct tw_mpi_abi *a = tw_mpi_abi();
    const int before = errno;
    enum outcome is;
    struct tw_mpi_open o = {.function = function,
                            .c = c,
                            .comm = comm,
                            .from = from,
                            .tag = tag,
                            .number = tw_mpi_open_next()};
    o.open = (from == a->any_source ? (unsigned)TW_ORDER_ANY_SOURCE : 0U) |
             (tag == a->any_tag ? (unsigned)TW_ORDER_ANY_TAG : 0U);
    if (from == a->proc_null)
        return false;
    *rc = 0;
    while ((is = look(&o, m, status, rc)) == HELD_BACK && !flag)
        sched_yield();
    errno = before;
    if (flag)
        *flag = is == THERE;
    return is != NATURAL;
}
