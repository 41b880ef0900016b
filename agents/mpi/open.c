/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives that leave open which message they take, by number: in the order in which the program
 * posts them. Their records stand in the order in which they are complete, so a record says how
 * many of those posted before it are still open, where there are any: "any source, behind 2 open".
 * From that the numbers are found again (src/trial/match_order.c). One that never gets a message
 * (it is cancelled, or fails) stays open.
 */
#include "inside.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "src/base/base.h"
#include "src/trace/order.h"

#pragma weak tw_agent_note /* as in records.c */

static uint32_t numbers[TW_ORDER_OPEN_MOST]; /* of those that are open, ascending */
static uint32_t count, posted;
static bool lost;
static atomic_flag lock = ATOMIC_FLAG_INIT;

/* The thread that posts receives. */
bool tw_mpi_open_thread(void)
{
    static __thread int here __attribute__((tls_model("initial-exec")));
    static _Atomic int taken;
    return tw_mpi_is_first_thread(&taken, &here);
}

uint32_t tw_mpi_open_next(void)
{
    tw_mpi_hold(&lock);
    uint32_t number = posted + 1;
    tw_mpi_release(&lock);
    return number;
}

uint32_t tw_mpi_open_post(void)
{
    const char *why = tw_mpi_open_thread() ? NULL : "receives were posted in more than one thread";
    tw_mpi_hold(&lock);
    const uint32_t number = ++posted;
    if (!why && count == TW_ORDER_OPEN_MOST)
        why = "more open receives under way than are counted";
    const bool first = why && !lost;
    if (why)
        lost = true;
    else
        numbers[count++] = number;
    tw_mpi_release(&lock);
    if (first && tw_agent_note) {
        int before = errno;
        tw_agent_note(TW_ORDER_LOST_NOTE, why);
        errno = before;
    }
    return number;
}

/* Where it is among those that are open, and it is not any more. */
static uint32_t taken(uint32_t number)
{
    uint32_t at = 0;
    tw_mpi_hold(&lock);
    while (at < count && numbers[at] < number)
        at++;
    if (at < count && numbers[at] == number) {
        memmove(&numbers[at], &numbers[at + 1], (count - at - 1) * sizeof *numbers);
        count--;
    } else {
        at = 0; /* the order is lost, which was noted */
    }
    tw_mpi_release(&lock);
    return at;
}

const char *tw_mpi_open_taken(uint32_t number, const char *open, char room[TW_MPI_DETAIL])
{
    const uint32_t behind = taken(number);
    if (behind == 0)
        return open;
    snprintf(room, TW_MPI_DETAIL, "%s, behind %u open", open, behind);
    return room;
}

/* ---- what a probe found */

/* The program learns from whom a message is, and then receives it from that rank: so that receive
 * is the open one. */
static __thread struct {
    uint64_t comm;
    int source, tag;
    bool any_source, any_tag;
} found __attribute__((tls_model("initial-exec")));

void tw_mpi_probe_found(tw_mpi_handle comm, int from, int tag, const void *status)
{
    const struct tw_mpi_abi *a = tw_mpi_abi();
    found.any_source = from == a->any_source;
    found.any_tag = tag == a->any_tag;
    found.comm = tw_mpi_id(comm);
    found.source = tw_mpi_source(status);
    found.tag = tw_mpi_tag(status);
}

static const char *probed(int source, int tag, tw_mpi_handle comm)
{
    const bool it_is = (found.any_source || found.any_tag) && found.source == source &&
                       found.tag == tag && found.comm == tw_mpi_id(comm);
    if (!it_is)
        return NULL;
    const bool any_source = found.any_source, any_tag = found.any_tag;
    found.any_source = found.any_tag = false;
    if (!any_source)
        return "any tag, probed";
    return any_tag ? "any source, any tag, probed" : "any source, probed";
}

const char *tw_mpi_open_to(int source, int tag, tw_mpi_handle comm)
{
    const struct tw_mpi_abi *a = tw_mpi_abi();
    if (source == a->proc_null)
        return NULL;
    if (source == a->any_source)
        return tag == a->any_tag ? "any source, any tag" : "any source";
    return tag == a->any_tag ? "any tag" : probed(source, tag, comm);
}
