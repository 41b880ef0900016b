/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and records. What a rank gave is IN, what it got is OUT, of phase collective, in the scope
 * of the communicator. The peer stands in the name of a message, so that the n-th message from one
 * rank is held against the n-th from it in another run, whatever came between; in which order the
 * records stand is the order of arrival. At level steps nothing is read: a MATCH for each message
 * received.
 *
 * Steps. A program that knows nothing of steps gets them from its collectives: each one that all
 * ranks take part in ends a step, on every rank the same one. A program with steps of its own (it
 * is linked with libtwinrun, or trains with PyTorch, or has ended a step) keeps them.
 */
#include "data.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include "src/base/base.h"
#include "src/trace/trace.h"

/* The agent's own functions: in libtwinrun.so, which is preloaded before us. Where it is not, or
 * refused to be loaded, there is nothing to be done here. */
#pragma weak tw_agent_on
#pragma weak tw_agent_level
#pragma weak tw_agent_identify
#pragma weak tw_agent_series
#pragma weak tw_agent_layout
#pragma weak tw_agent_records
#pragma weak tw_agent_digests
#pragma weak tw_agent_bytes
#pragma weak tw_agent_sketch_every
#pragma weak tw_agent_step
#pragma weak tw_agent_step_end
#pragma weak tw_agent_note
#pragma weak tw_agent_can_read

enum { TAGS_NAMED = 1024, CACHE = 4096, PARTS_MOST = 65536 };
/* Statistics take several times as long as a digest: contents of more bytes get them only in steps
 * that have sketches, and of more than the second never. */
enum { STATISTICS_ALWAYS = 2 << 10, STATISTICS_MOST = 256 << 10 };

static __thread int inside __attribute__((tls_model("initial-exec")));
static _Atomic int known_as; /* 0: not yet looked at; 1: told who we are */
static atomic_flag lock = ATOMIC_FLAG_INIT;

TW_MPI_ASK(Initialized, (out), int *out)
TW_MPI_ASK(Finalized, (out), int *out)

/* Once, when MPI is up: rank and size as MPI has them, where no launcher's variable said so. */
static bool is_up(void)
{
    int up = 0, down = 0;
    if (atomic_load_explicit(&known_as, memory_order_acquire))
        return true;
    if (!tw_mpi_abi() || !ask_Initialized(&up) || !up || !ask_Finalized(&down) || down)
        return false;
    const struct tw_mpi_comm *world = tw_mpi_comm(tw_mpi_world());
    if (world->size > 1)
        tw_agent_identify(world->rank, world->size, NULL, 1);
    atomic_store_explicit(&known_as, 1, memory_order_release);
    return true;
}

bool tw_mpi_enter(void)
{
    if (inside || !tw_agent_on || !tw_agent_on())
        return false;
    int before = errno;
    inside = 1;
    bool up = is_up();
    inside = up;
    errno = before;
    return up;
}

void tw_mpi_leave(void)
{
    inside = 0;
}

bool tw_mpi_entered(void)
{
    return inside;
}

bool tw_mpi_contents(void)
{
    return tw_agent_level() >= TW_LEVEL_TENSORS;
}

/* ---- names */

/* The series of one name and the layout of one size, as they were asked for last. */
struct cached {
    uint64_t key;
    uint32_t series, layout;
};
static struct cached cache[CACHE];

/* "MPI_Recv from rank 2, tag 7". Tags that count something would be a name each: large ones are
 * one. */
static void say_name(char *out, size_t room, int kind, const struct tw_mpi_call *call)
{
    char tag[32] = "of 1024 or more";
    if (call->tag < TAGS_NAMED)
        snprintf(tag, sizeof tag, "%d", call->tag);
    if (call->peer == TW_MPI_NOBODY)
        snprintf(out, room, "%s", call->function);
    else
        snprintf(out, room, "%s %s rank %d, tag %s", call->function,
                 kind == TWIN_KIND_IN ? "to" : "from", tw_mpi_comm_peer(call->comm, call->peer),
                 tag);
}

static uint64_t key_of(int kind, const struct tw_mpi_call *call, int dtype, int64_t count)
{
    const int tag = call->tag < TAGS_NAMED ? call->tag : TAGS_NAMED;
    uint64_t h = tw_mix64((uintptr_t)call->function ^ call->comm->serial << 48);
    h = tw_mix64(h ^ ((uint64_t)(uint32_t)call->peer << 32 | (uint32_t)tag));
    h = tw_mix64(h ^ ((uint64_t)count << 16 | (uint64_t)dtype << 8 | (uint64_t)kind));
    for (const char *s = call->detail; s && *s; s++) /* a few letters */
        h = h * 31 + (unsigned char)*s;
    return h | 1;
}

static struct cached identity(int kind, const struct tw_mpi_call *call, enum twin_dtype dtype,
                              int64_t count)
{
    struct cached found = {.key = key_of(kind, call, (int)dtype, count)};
    struct cached *place = &cache[found.key >> 1 & (CACHE - 1)];
    tw_mpi_hold(&lock);
    bool known = place->key == found.key;
    if (known)
        found = *place;
    tw_mpi_release(&lock);
    if (known)
        return found;
    char name[TW_MPI_COMM_NAME];
    say_name(name, sizeof name, kind, call);
    found.series = tw_agent_series(TWIN_PHASE_COLLECTIVE, kind, name, call->comm->name, NULL,
                                   call->detail ? call->detail : call->function, NULL);
    found.layout = tw_agent_layout((int)dtype, 1, &count);
    tw_mpi_hold(&lock);
    *place = found;
    tw_mpi_release(&lock);
    return found;
}

/* ---- records */

/* Where a GPU's driver is loaded a buffer may be memory that only a device reads. Asked for now and
 * then, since it may be loaded late. */
static bool near_a_device(void)
{
    static const char *const drivers[] = {"libcuda.so.1", "libamdhip64.so", "libze_loader.so.1"};
    static _Atomic uint32_t calls;
    static _Atomic bool there;
    if ((atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed) & 0xFF) == 0)
        for (size_t i = 0; i < sizeof drivers / sizeof drivers[0]; i++)
            if (dlopen(drivers[i], RTLD_LAZY | RTLD_NOLOAD)) /* it stays loaded, as drivers do */
                atomic_store_explicit(&there, true, memory_order_relaxed);
    return atomic_load_explicit(&there, memory_order_relaxed);
}

static bool readable(const void *data, int64_t bytes)
{
    return bytes == 0 || !near_a_device() ||
           (tw_agent_can_read && tw_agent_can_read(data, (size_t)bytes));
}

static bool wants_statistics(const struct tw_mpi_piece *p, int64_t bytes)
{
    const uint32_t every = tw_agent_sketch_every();
    if (p->dtype == TWIN_BYTES || bytes > STATISTICS_MOST)
        return false;
    return bytes <= STATISTICS_ALWAYS || (every && tw_agent_step() % every == 0);
}

static struct tw_agent_item item_of(const struct tw_mpi_piece *p, bool seen)
{
    const int64_t bytes = p->count * (int64_t)twin_dtype_size(p->dtype);
    struct tw_agent_item item = {
        .data = p->data, .count = (uint64_t)p->count, .dtype = (uint16_t)p->dtype, .ndim = 1};
    if (!seen || !readable(p->data, bytes))
        item.flags = (uint32_t)TWIN_REC_UNOBSERVED << 8;
    else if (wants_statistics(p, bytes))
        item.flags = TW_ITEM_STATS | TW_ITEM_SKETCH;
    return item;
}

static void record_one(int kind, const struct tw_mpi_call *call, const struct tw_mpi_data *d)
{
    struct tw_mpi_piece p;
    bool seen = tw_mpi_piece(&p, d->buffer, d->count, &d->type, d->comm);
    struct tw_agent_item item = item_of(&p, seen);
    struct cached c = identity(kind, call, p.dtype, p.count);
    item.series = c.series;
    item.layout = c.layout;
    tw_agent_records(&item, 1, NULL, 0);
    tw_free(p.owned);
}

/* Part i of a buffer: where it begins, how many elements, of which type. */
static struct tw_mpi_data part_of(const struct tw_mpi_data *d, int i)
{
    struct tw_mpi_data part = {.type = d->types ? tw_mpi_type(tw_mpi_at(d->types, (size_t)i))
                                                : d->type,
                               .count = tw_mpi_number(d->counts, d->wide, i),
                               .comm = d->comm};
    int64_t at = d->where ? tw_mpi_number(d->where, d->wide, i) : 0;
    part.buffer = (const char *)d->buffer + (d->by_bytes ? at : at * part.type.extent);
    return part;
}

/* Do the parts lie one behind the other, so that they are one piece? */
static bool one_piece(const struct tw_mpi_data *d, int64_t *count)
{
    *count = 0;
    if (d->types || !d->type.dense || !d->where)
        return false;
    const int64_t first = tw_mpi_number(d->where, d->wide, 0);
    for (int i = 0; i < d->parts; i++) {
        const int64_t n = tw_mpi_number(d->counts, d->wide, i);
        if (n > 0 && tw_mpi_number(d->where, d->wide, i) != first + *count)
            return false;
        *count += n;
    }
    return true;
}

/* A buffer in parts is recorded as the digests of its parts, in their order. */
static void record_parts(int kind, const struct tw_mpi_call *call, const struct tw_mpi_data *d)
{
    int64_t together;
    if (d->parts > 0 && one_piece(d, &together)) {
        struct tw_mpi_data whole = *d;
        whole.buffer = (const char *)d->buffer +
                       tw_mpi_number(d->where, d->wide, 0) * d->type.extent;
        whole.count = together;
        record_one(kind, call, &whole);
        return;
    }
    struct twin_digest *all = d->parts <= PARTS_MOST ? tw_calloc((size_t)d->parts + 1, sizeof *all)
                                                     : NULL;
    bool seen = all != NULL;
    for (int i = 0; seen && i < d->parts; i++) {
        struct tw_mpi_data part = part_of(d, i);
        struct tw_mpi_piece p;
        seen = tw_mpi_piece(&p, part.buffer, part.count, &part.type, part.comm);
        struct tw_agent_item item = item_of(&p, seen);
        item.flags &= ~(uint32_t)(TW_ITEM_STATS | TW_ITEM_SKETCH);
        seen = seen && item.flags == 0;
        if (seen)
            tw_agent_digests(&item, 1, &all[i]);
        tw_free(p.owned);
    }
    struct tw_mpi_piece p = {
        .data = all, .count = (int64_t)d->parts * (int64_t)sizeof *all, .dtype = TWIN_BYTES};
    struct cached c = identity(kind, call, TWIN_BYTES, p.count);
    struct tw_agent_item item = item_of(&p, seen);
    item.series = c.series;
    item.layout = c.layout;
    tw_agent_records(&item, 1, NULL, 0);
    tw_free(all);
}

void tw_mpi_record(int kind, const struct tw_mpi_call *call, const struct tw_mpi_data *data)
{
    int before = errno;
    if (data->counts)
        record_parts(kind, call, data);
    else
        record_one(kind, call, data);
    errno = before;
}

void tw_mpi_match(const struct tw_mpi_call *call)
{
    int before = errno;
    struct cached c = identity(TWIN_KIND_MATCH, call, TWIN_BYTES, 0);
    struct tw_agent_item item = {
        .data = "", .series = c.series, .layout = c.layout, .dtype = TWIN_BYTES, .ndim = 1};
    tw_agent_records(&item, 1, NULL, 0);
    errno = before;
}

/* ---- steps */

/* Does this object need libtwinrun.so, or is it PyTorch? Then the program has steps of its own. */
static int has_steps(struct dl_phdr_info *info, size_t size, void *user)
{
    const char *strings = NULL, *base = strrchr(info->dlpi_name ? info->dlpi_name : "", '/');
    (void)size;
    if (base && strncmp(base, "/libtorch", 9) == 0) {
        *(bool *)user = true;
        return 1;
    }
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
            continue;
        const ElfW(Dyn) *d = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        for (const ElfW(Dyn) *x = d; x->d_tag != DT_NULL; x++)
            if (x->d_tag == DT_STRTAB && x->d_un.d_ptr >= info->dlpi_addr)
                strings = (const char *)x->d_un.d_ptr;
        for (const ElfW(Dyn) *x = d; strings && x->d_tag != DT_NULL; x++)
            if (x->d_tag == DT_NEEDED && strcmp(strings + x->d_un.d_val, "libtwinrun.so") == 0)
                *(bool *)user = true;
    }
    return *(bool *)user;
}

void tw_mpi_collective_ended(const struct tw_mpi_comm *c)
{
    static __thread int here __attribute__((tls_model("initial-exec")));
    static _Atomic int thread_known, own_steps; /* 1 no, 2 yes */
    static _Atomic uint32_t expected;
    int none = 0;
    if (!c->all)
        return;
    int before = errno;
    /* Threads beside each other would cut each other's steps: the first one alone cuts. */
    if (atomic_compare_exchange_strong(&thread_known, &none, 1)) {
        bool own = false;
        here = 1;
        dl_iterate_phdr(has_steps, &own);
        atomic_store(&own_steps, own || tw_agent_step() != 0 ? 2 : 1);
    }
    if (here && atomic_load(&own_steps) == 1) {
        if (tw_agent_step() == atomic_load(&expected))
            atomic_store(&expected, tw_agent_step_end());
        else
            atomic_store(&own_steps, 2); /* somebody else counts */
    }
    errno = before;
}

void tw_mpi_unseen(const char *function, const char *why)
{
    static const char *noted[32];
    char text[160];
    size_t i = 0;
    if (!tw_agent_note)
        return;
    tw_mpi_hold(&lock);
    while (i < 32 && noted[i] && noted[i] != function)
        i++;
    bool first = i < 32 && !noted[i];
    if (first)
        noted[i] = function;
    tw_mpi_release(&lock);
    if (first) {
        int before = errno;
        snprintf(text, sizeof text, "%s: %s", function, why);
        tw_agent_note("unseen", text);
        errno = before;
    }
}
