/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communicators by names that all of their ranks agree about. A handle says nothing to another
 * rank. But all ranks of a parent make its children in the same order, so "MPI_COMM_WORLD/split 2"
 * is the same one everywhere. Where only some of them take part (MPI_Comm_create_group) the ordinal
 * may be another on each rank, so the first member's rank in MPI_COMM_WORLD stands in the name.
 */
#include "inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "src/base/base.h"

enum { COMMS = 1024, SLOTS = 2 * COMMS };

/* Open addressing by the handle's number. Numbers stand apart, since they are looked at without the
 * lock: place i is filled before ids[i] says whose it is. */
static _Atomic uint64_t ids[SLOTS];
static struct tw_mpi_comm comms[SLOTS];
static struct tw_mpi_comm too_many = {.peers = 0, .name = "a communicator among too many"};
static uint64_t serials, used;
static uint32_t unknown; /* seen first when they were used */
static atomic_flag lock = ATOMIC_FLAG_INIT;
enum { GONE = 1 }; /* an id that no handle has */

static struct tw_mpi_comm *find(uint64_t id)
{
    for (size_t i = 0, at = tw_mix64(id) % SLOTS; i < SLOTS; i++, at = (at + 1) % SLOTS) {
        uint64_t there = atomic_load_explicit(&ids[at], memory_order_acquire);
        if (there == id)
            return &comms[at];
        if (there == 0)
            return NULL;
    }
    return NULL;
}

TW_MPI_ASK(Comm_rank, (c, out), tw_mpi_handle c, int *out)
TW_MPI_ASK(Comm_size, (c, out), tw_mpi_handle c, int *out)
TW_MPI_ASK(Comm_remote_size, (c, out), tw_mpi_handle c, int *out)
TW_MPI_ASK(Comm_test_inter, (c, out), tw_mpi_handle c, int *out)
TW_MPI_ASK(Comm_group, (c, out), tw_mpi_handle c, tw_mpi_handle *out)
TW_MPI_ASK(Comm_remote_group, (c, out), tw_mpi_handle c, tw_mpi_handle *out)
TW_MPI_ASK(Group_translate_ranks, (g, n, from, h, to), tw_mpi_handle g, int n, const int *from,
           tw_mpi_handle h, int *to)
TW_MPI_ASK(Group_free, (g), tw_mpi_handle *g)

/* The peers' ranks in MPI_COMM_WORLD; NULL: they are the same, or not known. */
static int *translated(const struct tw_mpi_comm *c)
{
    tw_mpi_handle ours = NULL, all = NULL;
    int *from = tw_malloc((size_t)c->peers * sizeof *from);
    int *to = tw_malloc((size_t)c->peers * sizeof *to);
    bool done = from && to &&
                (c->inter ? ask_Comm_remote_group(c->handle, &ours)
                          : ask_Comm_group(c->handle, &ours)) &&
                ask_Comm_group(tw_mpi_world(), &all);
    for (int i = 0; done && i < c->peers; i++)
        from[i] = i;
    done = done && ask_Group_translate_ranks(ours, c->peers, from, all, to);
    if (ours)
        ask_Group_free(&ours);
    if (all)
        ask_Group_free(&all);
    tw_free(from);
    if (done)
        return to;
    tw_free(to);
    return NULL;
}

/* Fills everything but the name. */
static void describe(struct tw_mpi_comm *c, tw_mpi_handle handle)
{
    int inter = 0, everyone = 0;
    *c = (struct tw_mpi_comm){.handle = handle};
    if (!ask_Comm_rank(handle, &c->rank) || !ask_Comm_size(handle, &c->size))
        return;
    ask_Comm_test_inter(handle, &inter);
    c->inter = inter != 0;
    c->peers = c->size;
    if (inter)
        ask_Comm_remote_size(handle, &c->peers);
    c->all = !inter && ask_Comm_size(tw_mpi_world(), &everyone) && c->size == everyone;
    if (c->peers > 0 && !tw_mpi_is_world(handle))
        c->world = translated(c);
}

/* Puts it into the table. Returns where it is, or the one for too many. */
static struct tw_mpi_comm *add(struct tw_mpi_comm *c)
{
    const uint64_t id = tw_mpi_id(c->handle);
    size_t place = SLOTS; /* none */
    tw_mpi_hold(&lock);
    struct tw_mpi_comm *there = find(id);
    for (size_t i = 0, at = tw_mix64(id) % SLOTS; !there && i < SLOTS && place == SLOTS;
         i++, at = (at + 1) % SLOTS) {
        uint64_t is = atomic_load_explicit(&ids[at], memory_order_relaxed);
        if (is == 0 && used >= COMMS)
            break;
        if (is <= GONE)
            place = at;
        used += is == 0;
    }
    if (place < SLOTS) {
        c->serial = ++serials;
        comms[place] = *c;
        atomic_store_explicit(&ids[place], id, memory_order_release);
    }
    tw_mpi_release(&lock);
    if (place < SLOTS)
        return &comms[place];
    tw_free(c->world);
    if (!there)
        tw_mpi_unseen("MPI_Comm", "more communicators than are told apart by name");
    return there ? there : &too_many;
}

struct tw_mpi_comm *tw_mpi_comm(tw_mpi_handle handle)
{
    struct tw_mpi_comm c, *there = find(tw_mpi_id(handle));
    if (__builtin_expect(there != NULL, 1))
        return there;
    describe(&c, handle);
    if (tw_mpi_is_world(handle))
        snprintf(c.name, sizeof c.name, "MPI_COMM_WORLD");
    else if (tw_mpi_is_self(handle))
        snprintf(c.name, sizeof c.name, "MPI_COMM_SELF");
    else
        snprintf(c.name, sizeof c.name, "communicator %u of %d ranks",
                 __atomic_add_fetch(&unknown, 1, __ATOMIC_RELAXED), c.size);
    return add(&c);
}

void tw_mpi_comm_made(tw_mpi_handle parent, tw_mpi_handle made, const char *what)
{
    struct tw_mpi_comm *from = tw_mpi_comm(parent), c;
    uint32_t ordinal = atomic_fetch_add_explicit(&from->children, 1, memory_order_relaxed) + 1;
    describe(&c, made);
    if (c.size == 0) /* MPI_COMM_NULL: this rank is in none */
        return;
    int n = snprintf(c.name, sizeof c.name, "%s/%s %u", from->name, what, ordinal);
    /* Members of one child know each other; those of its siblings have another first one. */
    if (n > 0 && (size_t)n < sizeof c.name && c.size < from->size)
        snprintf(c.name + n, sizeof c.name - (size_t)n, " of rank %d", tw_mpi_comm_peer(&c, 0));
    add(&c);
}

void tw_mpi_comm_gone(tw_mpi_handle handle)
{
    tw_mpi_hold(&lock);
    struct tw_mpi_comm *c = find(tw_mpi_id(handle));
    if (c) {
        /* Requests may still name it: its name stays until the place is used again. */
        atomic_store_explicit(&ids[c - comms], GONE, memory_order_release);
        tw_free(c->world);
        c->world = NULL;
    }
    tw_mpi_release(&lock);
}

int tw_mpi_comm_peer(const struct tw_mpi_comm *c, int rank)
{
    return c->world && rank >= 0 && rank < c->peers ? c->world[rank] : rank;
}
