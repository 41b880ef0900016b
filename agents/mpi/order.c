/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order file of this rank, what it says of the call that comes next, and giving up: from there
 * on all is as it comes, and a note in the trace says why.
 */
#include "order_file.h"
#include "replay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "src/base/base.h"

#pragma weak tw_agent_note /* as in records.c */

enum state { UNKNOWN, REPLAYING, OFF };
static _Atomic int state = UNKNOWN;
static struct tw_order order;
static _Atomic bool loaded;

/* ---- ranks to each other */

enum { TOLD_EVERY_NS = 100000000 };
static const char *const told_files[] = {
    [TW_MPI_TOLD_MATCHES] = TW_ORDER_TOLD_FILE, [TW_MPI_TOLD_ENDS] = TW_ORDER_TOLD_ENDS_FILE};

static bool told_path(char path[4096], enum tw_mpi_told what)
{
    const char *folder = getenv("TWINRUN_RUN_DIR");
    int n = folder ? snprintf(path, 4096, told_files[what], folder) : -1;
    return n > 0 && n < 4096;
}

void tw_mpi_tell(enum tw_mpi_told what)
{
    char path[4096];
    const int before = errno;
    int fd = -1;
    if (told_path(path, what))
        fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    errno = before;
}

bool tw_mpi_is_told(enum tw_mpi_told what)
{
    static _Atomic uint64_t looked[2];
    static _Atomic bool told[2];
    char path[4096];
    const int before = errno;
    const uint64_t now = tw_monotonic_ns();
    if (!atomic_load(&told[what]) && now - atomic_load(&looked[what]) >= TOLD_EVERY_NS) {
        atomic_store(&looked[what], now);
        if (told_path(path, what) && access(path, F_OK) == 0)
            atomic_store(&told[what], true);
    }
    errno = before;
    return atomic_load(&told[what]);
}

/* ---- giving up */

static void release(const char *key, const char *why, bool tell)
{
    int before = errno;
    if (atomic_exchange(&state, OFF) != OFF) {
        if (tell)
            tw_mpi_tell(TW_MPI_TOLD_MATCHES);
        if (tw_agent_note)
            tw_agent_note(key, why);
    }
    errno = before;
}

void tw_mpi_release_rank(const char *why, bool tell)
{
    release(TW_ORDER_NOTE, why, tell);
}

void tw_mpi_release_with_others(const struct tw_mpi_open *o)
{
    char text[80];
    snprintf(text, sizeof text, "match %u of rank %d: another rank was released", o->number,
             o->rank);
    release(TW_ORDER_TOLD_NOTE, text, false);
}

bool tw_mpi_replaying(void)
{
    return atomic_load(&state) == REPLAYING;
}

uint64_t tw_mpi_replay_wait_ns(void)
{
    return (uint64_t)order.head.wait_ms * 1000000;
}

/* Once: is there an order for this rank? */
static void begin(int rank)
{
    static atomic_flag looked = ATOMIC_FLAG_INIT;
    const char *folder = getenv("TWINRUN_RUN_DIR");
    char path[4096];
    if (atomic_flag_test_and_set(&looked)) /* one thread alone looks */
        return;
    int n = folder ? snprintf(path, sizeof path, TW_ORDER_FILE, folder, rank) : -1;
    int fd = n > 0 && (size_t)n < sizeof path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    bool sound = fd >= 0 && tw_order_load(fd, &order);
    if (fd >= 0)
        close(fd);
    if (fd >= 0 && !sound) {
        snprintf(path, sizeof path, "rank %d: its order file cannot be read", rank);
        tw_mpi_release_rank(path, true);
    } else {
        atomic_store(&loaded, sound);
        atomic_store(&state, sound ? REPLAYING : OFF);
    }
}

const struct tw_order *tw_mpi_order(void)
{
    if (atomic_load(&state) == UNKNOWN)
        begin(tw_mpi_comm(tw_mpi_world())->rank);
    return atomic_load(&loaded) ? &order : NULL;
}

/* ---- one call */

static const char *say_number(char room[24], int32_t value, const char *any)
{
    if (value < 0)
        return any;
    snprintf(room, 24, "%d", (int)value);
    return room;
}

/* What the recording has is not what comes, or can come. */
void tw_mpi_differs(const struct tw_mpi_open *o, const char *found)
{
    char text[640], tag[24];
    const struct tw_order_match *m = o->m;
    if (!m)
        snprintf(text, sizeof text,
                 "match %u of rank %d: the recording ends before it; found %.200s", o->number,
                 o->rank, found);
    else if (m->open == 0)
        snprintf(text, sizeof text, "match %u of rank %d: expected no message; found %.200s",
                 o->number, o->rank, found);
    else
        snprintf(text, sizeof text,
                 "match %u of rank %d: expected a message from rank %d, tag %s, on %.159s; found "
                 "%.200s",
                 o->number, o->rank, (int)m->source, say_number(tag, m->tag, "any"),
                 order.names[m->comm], found);
    tw_mpi_release_rank(text, m != NULL);
}

void tw_mpi_differs_by_call(const struct tw_mpi_open *o)
{
    char found[240], number[24];
    const bool any = (o->open & TW_ORDER_ANY_SOURCE) && !(o->open & TW_ORDER_PROBED);
    const int world = any ? -1 : tw_mpi_comm_peer(o->c, o->from);
    snprintf(found, sizeof found, "%s from %s rank%s%.12s, %s tag, on %.159s", o->function,
             world < 0 ? "any" : "one", world < 0 ? "" : " ", say_number(number, world, ""),
             (o->open & TW_ORDER_ANY_TAG) ? "any" : "one", o->c->name);
    tw_mpi_differs(o, found);
}

/* A rank of MPI_COMM_WORLD as a peer in a communicator; -1: it is none. */
static int peer_of(const struct tw_mpi_comm *c, int32_t rank)
{
    if (!c->world)
        return rank < c->peers ? rank : -1;
    for (int i = 0; i < c->peers; i++)
        if (c->world[i] == rank)
            return i;
    return -1;
}

/* Does the recorded message fit what the program asks for? Then it is to be taken. */
static bool fits(struct tw_mpi_open *o)
{
    const struct tw_mpi_abi *a = tw_mpi_abi();
    const struct tw_order_match *m = o->m;
    const unsigned asked = m->open & (TW_ORDER_ANY_SOURCE | TW_ORDER_ANY_TAG);
    const int source = peer_of(o->c, m->source);
    if (asked != (o->open & (TW_ORDER_ANY_SOURCE | TW_ORDER_ANY_TAG)) || source < 0 ||
        strcmp(order.names[m->comm], o->c->name) != 0)
        return false;
    if ((o->from != a->any_source && o->from != source) ||
        (o->tag != a->any_tag && m->tag >= 0 && o->tag != m->tag))
        return false;
    o->source = source;
    o->wanted = o->tag == a->any_tag && m->tag >= 0 ? m->tag : o->tag;
    return true;
}

enum tw_mpi_expected tw_mpi_expect(struct tw_mpi_open *o)
{
    char text[80];
    if (o->open == 0 || atomic_load(&state) == OFF)
        return TW_MPI_NATURAL;
    o->rank = tw_mpi_comm(tw_mpi_world())->rank;
    if (atomic_load(&state) == UNKNOWN)
        begin(o->rank);
    if (atomic_load(&state) != REPLAYING)
        return TW_MPI_NATURAL;
    if (!tw_mpi_open_thread()) {
        snprintf(text, sizeof text, "rank %d: receives in more than one thread", o->rank);
        tw_mpi_release_rank(text, true);
        return TW_MPI_NATURAL;
    }
    o->m = o->number - 1 < order.head.matches ? &order.matches[o->number - 1] : NULL;
    o->source = TW_MPI_NO_SOURCE;
    o->wanted = o->tag;
    if (!o->m || (o->m->open != 0 && !fits(o)))
        return TW_MPI_OTHER;
    return TW_MPI_RECORDED;
}
