/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Non-blocking operations until they are complete: what has come is read then. The table is one of
 * fixed size, since it is used inside of the program's calls; sends are not in it, their contents
 * are read when they are posted.
 */
#include "inside.h"

#include <string.h>
#include "src/base/base.h"
#include "src/trace/trace.h"

enum { SLOTS = 32768, PENDING_MOST = SLOTS / 2 };
enum { GONE = 1 }; /* an id that no handle has: a place that was used */

static struct tw_mpi_pending table[SLOTS];
static uint32_t used;
static _Atomic uint32_t kept; /* requests among the places that are not free */
static uint64_t orders;
static atomic_flag lock = ATOMIC_FLAG_INIT;

TW_MPI_ASK(Get_count, (s, t, out), const void *s, tw_mpi_handle t, int *out)
TW_MPI_ASK(Get_count_c, (s, t, out), const void *s, tw_mpi_handle t, int64_t *out)
TW_MPI_ASK(Test_cancelled, (s, out), const void *s, int *out)
TW_MPI_ASK(Type_dup, (t, out), tw_mpi_handle t, tw_mpi_handle *out)
TW_MPI_ASK(Type_free, (t), tw_mpi_handle *t)

static void copy_out(const struct tw_mpi_pending *p, struct tw_mpi_pending *out)
{
    *out = *p;
    if (p->call.detail == p->detail)
        out->call.detail = out->detail;
}

static bool is_before(const struct tw_mpi_pending *x, const struct tw_mpi_pending *y,
                      pthread_t here)
{
    const bool mine = pthread_equal(x->thread, here), other = pthread_equal(y->thread, here);
    return mine != other ? mine : x->order < y->order;
}

/*
 * The oldest request of this handle, of this thread's if it has one. MPI gives the handle of a
 * request that is complete to the next one, in any thread, before the thread that waited for it is
 * here. Holding the lock.
 */
static struct tw_mpi_pending *oldest(uint64_t id)
{
    const pthread_t here = pthread_self();
    struct tw_mpi_pending *found = NULL;
    for (size_t i = 0, at = tw_mix64(id) % SLOTS; i < SLOTS; i++, at = (at + 1) % SLOTS) {
        uint64_t there = table[at].id;
        if (there == 0)
            break;
        if (there == id && (!found || is_before(&table[at], found, here)))
            found = &table[at];
    }
    return found;
}

/* Nothing is under way: all places are free again. Holding the lock. */
static void take_out(struct tw_mpi_pending *p)
{
    p->id = GONE;
    if (--kept == 0) {
        if (used > SLOTS / 4) {
            memset(table, 0, sizeof table);
            used = 0;
        }
    }
}

bool tw_mpi_pending(tw_mpi_handle request, const struct tw_mpi_pending *what)
{
    const uint64_t id = tw_mpi_id(request);
    bool room = false;
    tw_mpi_hold(&lock);
    room = kept < PENDING_MOST && used < SLOTS - 1;
    for (size_t at = tw_mix64(id) % SLOTS; room; at = (at + 1) % SLOTS) {
        if (table[at].id > GONE)
            continue;
        used += table[at].id == 0;
        table[at] = *what;
        if (what->call.detail == what->detail)
            table[at].call.detail = table[at].detail;
        table[at].order = ++orders;
        table[at].thread = pthread_self();
        table[at].id = id;
        kept++;
        break;
    }
    tw_mpi_release(&lock);
    if (!room)
        tw_mpi_unseen("MPI_Request", "more operations under way than are followed");
    return room;
}

bool tw_mpi_any_pending(void)
{
    return atomic_load_explicit(&kept, memory_order_relaxed) != 0;
}

bool tw_mpi_take(tw_mpi_handle request, struct tw_mpi_pending *out)
{
    tw_mpi_hold(&lock);
    struct tw_mpi_pending *p = kept ? oldest(tw_mpi_id(request)) : NULL;
    if (p) {
        copy_out(p, out);
        if (p->persistent)
            p->active = false;
        else
            take_out(p);
    }
    tw_mpi_release(&lock);
    return p != NULL;
}

bool tw_mpi_receives(tw_mpi_handle request, struct tw_mpi_comm **comm, uint64_t *order)
{
    tw_mpi_hold(&lock);
    const struct tw_mpi_pending *p = kept ? oldest(tw_mpi_id(request)) : NULL;
    const bool does = p && p->receives && p->active;
    if (does) {
        *comm = p->call.comm;
        *order = p->order;
    }
    tw_mpi_release(&lock);
    return does;
}

void tw_mpi_forget(tw_mpi_handle request)
{
    struct tw_mpi_pending dropped = {0};
    tw_mpi_hold(&lock);
    struct tw_mpi_pending *p = kept ? oldest(tw_mpi_id(request)) : NULL;
    if (p) {
        dropped = *p;
        take_out(p);
    }
    tw_mpi_release(&lock);
    if (dropped.owns_type)
        ask_Type_free(&dropped.data.type.handle);
    if (dropped.owns_in_type)
        ask_Type_free(&dropped.in->type.handle);
    if (dropped.in)
        tw_mpi_free_arrays(dropped.in);
    tw_mpi_free_arrays(&dropped.data);
    tw_free(dropped.in);
    if (p && dropped.active)
        tw_mpi_unseen("MPI_Request_free", "what came of a request that was freed under way");
}

/* The receive that was started gets its number, outside of the lock. */
static void number_receive(tw_mpi_handle request, struct tw_mpi_pending *started)
{
    struct tw_mpi_call *call = &started->call;
    call->detail = tw_mpi_open_to(call->peer, call->tag, started->data.comm);
    call->number = call->detail ? tw_mpi_open_post() : 0;
    tw_mpi_hold(&lock);
    struct tw_mpi_pending *p = kept ? oldest(tw_mpi_id(request)) : NULL;
    if (p) {
        p->call.detail = call->detail;
        p->call.number = call->number;
        p->order = ++orders; /* it is as old as its start */
    }
    tw_mpi_release(&lock);
}

bool tw_mpi_start(tw_mpi_handle request, struct tw_mpi_pending *out)
{
    tw_mpi_hold(&lock);
    struct tw_mpi_pending *p = kept ? oldest(tw_mpi_id(request)) : NULL;
    if (p) {
        p->active = true;
        copy_out(p, out);
    }
    tw_mpi_release(&lock);
    if (!p) {
        tw_mpi_unseen("MPI_Start", "an operation of a kind that is not followed");
        return false;
    }
    if (out->receives)
        number_receive(request, out);
    else if (out->sends && out->call.peer != tw_mpi_abi()->proc_null && tw_mpi_contents())
        tw_mpi_record(TWIN_KIND_IN, &out->call, &out->data);
    else if (out->in && tw_mpi_contents())
        tw_mpi_record(TWIN_KIND_IN, &out->call, out->in);
    return true;
}

bool tw_mpi_keep(struct tw_mpi_type *t, bool persistent)
{
    enum twin_dtype predefined;
    /* a later start needs the handle itself */
    const bool needed = !t->dense || (persistent && !tw_mpi_predefined(t->handle, &predefined));
    return t->known && needed && ask_Type_dup(t->handle, &t->handle);
}

void tw_mpi_keep_type(struct tw_mpi_pending *p)
{
    p->owns_type = tw_mpi_keep(&p->data.type, p->persistent);
}

/* ---- completion */

static int field(const void *status, size_t at)
{
    int value;
    memcpy(&value, (const char *)status + at, sizeof value);
    return value;
}

int tw_mpi_source(const void *status)
{
    return field(status, tw_mpi_abi()->source);
}

int tw_mpi_tag(const void *status)
{
    return field(status, tw_mpi_abi()->tag);
}

int64_t tw_mpi_received(const void *status, const struct tw_mpi_type *type)
{
    int n = 0;
    int64_t many = 0;
    if (ask_Get_count(status, type->handle, &n) && n != TW_MPI_UNDEFINED)
        return n;
    /* more than an int holds, perhaps: a library that has no such calls has no such messages */
    return ask_Get_count_c(status, type->handle, &many) && many >= 0 ? many : -1;
}

void tw_mpi_got(struct tw_mpi_call *call, struct tw_mpi_data *data, const void *status)
{
    char detail[TW_MPI_DETAIL];
    call->peer = tw_mpi_source(status);
    call->tag = tw_mpi_tag(status);
    if (call->peer == tw_mpi_abi()->proc_null)
        return;
    if (call->number)
        call->detail = tw_mpi_open_taken(call->number, call->detail, detail);
    if (!tw_mpi_contents()) {
        tw_mpi_match(call);
        return;
    }
    data->count = tw_mpi_received(status, &data->type);
    tw_mpi_record(TWIN_KIND_OUT, call, data);
}

void tw_mpi_complete(tw_mpi_handle request, const void *status)
{
    struct tw_mpi_pending p;
    int cancelled = 0;
    if (!tw_mpi_take(request, &p))
        return;
    if (p.active && p.receives) {
        if (!ask_Test_cancelled(status, &cancelled) || !cancelled) {
            tw_mpi_got(&p.call, &p.data, status);
            tw_mpi_end_was(&p.call);
        }
    } else if (p.active && p.gets && tw_mpi_contents()) {
        tw_mpi_record(TWIN_KIND_OUT, &p.call, &p.data);
    }
    if (p.persistent)
        return;
    if (p.owns_type)
        ask_Type_free(&p.data.type.handle);
    tw_mpi_free_arrays(&p.data);
}
