/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads from traces which record of a rank gives what a record of another rank takes (exchange.h).
 *
 * Messages. MPI delivers the messages of one sender, receiver, tag and communicator in the order in
 * which they were sent (MPI 4.1, 3.5: they do not overtake each other). The k-th receive is held
 * against the k-th send. Where several receives are open at once, the k-th that completes may be of
 * another message; but then one of the first k is of the k-th message or a later one, so that the
 * k-th send came before it all the same.
 *
 * Collectives. All ranks of a communicator call them in the same order (MPI 4.1, 6.13), so the k-th
 * call of a function is the same call everywhere. What comes out of one is made from what all ranks
 * gave, or the root. Calls of which that need not hold (a part of no elements, a prefix) are not
 * followed, and said to be so.
 *
 * Numbers hold only where nothing is missing and one thread alone exchanges. Of any other process
 * nothing is taken: it neither gives nor takes, and `why` says the reason.
 */
#include "exchange.h"
#include "scan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

size_t tw_exchange_most = (size_t)1 << 20;
uint64_t tw_exchange_records = (uint64_t)1 << 26;

enum { LEAST_KEPT = 64 }; /* of each process, however many there are */

/* How the records of a function are counted. */
enum follow {
    NOT_FOLLOWED,
    MESSAGE,
    ALL,       /* every rank gives and gets, so the n-th OUT is of the n-th call or a later one */
    TO_ROOT,   /* every rank gives; the root gets */
    BROADCAST, /* the root gives, the others get: every record is a call */
    SCATTER    /* the root gives and may get; the others get */
};

static const struct {
    const char *name;
    enum follow follow;
} followed[] = {
    {"MPI_Allreduce", ALL},
    {"MPI_Iallreduce", ALL},
    {"MPI_Allgather", ALL},
    {"MPI_Iallgather", ALL},
    {"MPI_Allgatherv", ALL},
    {"MPI_Iallgatherv", ALL},
    {"MPI_Alltoall", ALL},
    {"MPI_Ialltoall", ALL},
    {"MPI_Reduce_scatter", ALL},
    {"MPI_Ireduce_scatter", ALL},
    {"MPI_Reduce_scatter_block", ALL},
    {"MPI_Ireduce_scatter_block", ALL},
    {"MPI_Reduce", TO_ROOT},
    {"MPI_Gather", TO_ROOT},
    {"MPI_Gatherv", TO_ROOT},
    {"MPI_Bcast", BROADCAST},
    {"MPI_Scatter", SCATTER},
    {"MPI_Scatterv", SCATTER},
    {"all_reduce", ALL},
    {"all_gather", ALL},
    {"all_gather_into_tensor", ALL},
    {"reduce_scatter", ALL},
    {"reduce_scatter_tensor", ALL},
    {"reduce", TO_ROOT},
    {"gather", TO_ROOT},
    {"broadcast", BROADCAST},
    {"scatter", SCATTER},
    {"all_gather_object", ALL},
    {"gather_object", TO_ROOT},
    {"broadcast_object_list", BROADCAST},
    {"scatter_object_list", SCATTER},
};

/* ---- names */

/* "all_gather[2]" is part 2 of a call of all_gather, "gather_object: /a" an object with a path in
 * it. Returns the length of the function's name. */
static size_t function_length(const char *name, bool *first_part)
{
    const char *path = strstr(name, ": /");
    const size_t said = path ? (size_t)(path - name) : strlen(name);
    const char *bracket = memchr(name, '[', said);
    *first_part = !bracket || strncmp(bracket, "[0]", 3) == 0;
    if (path && !bracket)
        return said;
    return bracket ? (size_t)(bracket - name) : tw_mpi_name_length(name);
}

/* Does the communicator have one name on all of its ranks, and no other one the same? Those of
 * groups are counted by their members alone, and an intercommunicator has two groups. */
static bool name_is_shared(const char *scope, bool mpi)
{
    if (!mpi)
        return true;
    return strncmp(scope, "MPI_COMM_WORLD", 14) == 0 && !strstr(scope, "/group ") &&
           !strstr(scope, "/bridge ");
}

/* What one series of a trace is. */
struct known {
    enum follow follow;
    uint32_t channel, op;
    uint8_t kind;
    bool looked_at, first_part, exchange;
    bool beside; /* a call with a root while others of its function were under way */
};

/* How often a process has used a channel so far. */
struct counted {
    uint32_t in, out, calls;
    bool open; /* the last record gave: what is taken next is of the same call */
};

/* The reading of one trace. */
struct reading {
    struct tw_cmp *c;
    struct tw_exchanges *x;
    struct tw_talker *t;
    uint32_t first, last;
    size_t most;
    struct known *known; /* by series */
    size_t known_room;
    struct counted *count; /* by channel */
    size_t count_room;
    uint32_t thread, asked_thread, last_step, last_seq;
    bool any, asked;
    int rc;
};

/* Index of a channel; UINT32_MAX: no memory. The key is one string, taken. */
static uint32_t channel_of(struct reading *r, char *key, bool message, int32_t from,
                           const char *name, const char *scope)
{
    struct tw_exchanges *x = r->x;
    if (!key)
        return UINT32_MAX;
    if (2 * x->channels + 2 > x->slots) {
        const size_t slots = x->slots ? 2 * x->slots : 256;
        uint32_t *grown = tw_calloc(slots, sizeof *grown);
        if (!grown) {
            tw_free(key);
            return UINT32_MAX;
        }
        tw_free(x->slot);
        x->slot = grown;
        x->slots = slots;
        for (uint32_t i = 0; i < x->channels; i++) {
            size_t at = tw_hash_bytes(x->channel[i].key, strlen(x->channel[i].key), 7).a;
            while (grown[at & (slots - 1)])
                at++;
            grown[at & (slots - 1)] = i + 1;
        }
    }
    size_t at = tw_hash_bytes(key, strlen(key), 7).a;
    for (; x->slot[at & (x->slots - 1)]; at++)
        if (strcmp(x->channel[x->slot[at & (x->slots - 1)] - 1].key, key) == 0) {
            tw_free(key);
            return x->slot[at & (x->slots - 1)] - 1;
        }
    if (!tw_cmp_room(r->c, &x->channel, x->channels, &x->channel_room, sizeof *x->channel)) {
        tw_free(key);
        return UINT32_MAX;
    }
    x->channel[x->channels] = (struct tw_channel){.key = key,
                                                  .name = tw_cmp_copy(r->c, name),
                                                  .scope = tw_cmp_copy(r->c, scope),
                                                  .message = message,
                                                  .from = from};
    x->slot[at & (x->slots - 1)] = (uint32_t)++x->channels;
    return (uint32_t)x->channels - 1;
}

/* Few programs use more than some operations and roots: they are looked for one after the other. */
static uint32_t op_of(struct reading *r, const char *op)
{
    struct tw_exchanges *x = r->x;
    for (size_t i = 0; i < x->ops; i++)
        if (strcmp(x->op[i], op) == 0)
            return (uint32_t)i;
    if (!tw_cmp_room(r->c, &x->op, x->ops, &x->op_room, sizeof *x->op))
        return 0;
    x->op[x->ops] = tw_cmp_copy(r->c, op);
    return x->op[x->ops] ? (uint32_t)x->ops++ : 0;
}

/* Of a message the other rank stands in the name: "MPI_Recv from rank 2, tag 7". */
static bool is_message(struct reading *r, const char *name, const char *scope, const char *members,
                       struct known *k)
{
    const char *to = strstr(name, " to rank "), *from = strstr(name, " from rank ");
    const char *peer = to ? to + strlen(" to rank ") : NULL;
    if (!to && from)
        peer = from + strlen(" from rank ");
    const char *tag = peer ? strstr(peer, ", tag ") : NULL;
    if (!tag || (k->kind == TWIN_KIND_IN) != (to != NULL))
        return false;
    const int32_t other = (int32_t)strtol(peer, NULL, 10), own = r->t->proc->own_rank;
    const int32_t sender = to ? own : other, receiver = to ? other : own;
    k->follow = MESSAGE;
    k->channel = channel_of(
        r, tw_cmp_text(r->c, "m %d %d %s %s %s", sender, receiver, tag + 2, scope, members), true,
        sender, tag + 2, scope);
    return true;
}

/* PyTorch's calls with a root are followed where the agent says which rank that is: until it did,
 * it recorded on every rank a buffer that goes in and one that comes out, as if all gave. */
static void is_collective(struct reading *r, const char *name, const char *scope,
                          const char *members, const char *op, struct known *k)
{
    const size_t length = function_length(name, &k->first_part);
    const bool root_known = strncmp(name, "MPI_", 4) == 0 || strncmp(op, "root ", 5) == 0;
    for (size_t i = 0; i < sizeof followed / sizeof followed[0]; i++)
        if (strlen(followed[i].name) == length && strncmp(followed[i].name, name, length) == 0 &&
            (followed[i].follow == ALL || root_known)) {
            k->follow = followed[i].follow;
            k->channel = channel_of(
                r, tw_cmp_text(r->c, "c %s %s %s", followed[i].name, scope, members), false, -1,
                followed[i].name, scope);
        }
}

/* Looks at a series once. NULL: no memory. */
static struct known *known_of(struct reading *r, uint32_t id)
{
    if (id >= r->known_room) {
        size_t room = r->known_room ? r->known_room : 64;
        while (room <= id)
            room *= 2;
        struct known *grown = tw_reallocarray(r->known, room, sizeof *grown);
        if (!grown) {
            r->rc = TWIN_ENOMEM;
            return NULL;
        }
        memset(grown + r->known_room, 0, (room - r->known_room) * sizeof *grown);
        r->known = grown;
        r->known_room = room;
    }
    struct known *k = &r->known[id];
    if (k->looked_at)
        return k;
    const struct twin_series *s = twin_trace_series(r->t->proc->trace, id);
    const char *name = twin_trace_string(r->t->proc->trace, s->name);
    const char *scope = twin_trace_string(r->t->proc->trace, s->scope);
    const bool mpi = tw_is_mpi(s->phase, name);
    *k = (struct known){.looked_at = true, .first_part = true, .kind = s->kind};
    k->exchange = s->phase == TWIN_PHASE_COLLECTIVE && s->kind != TWIN_KIND_ORDER;
    if (!k->exchange)
        return k;
    const char *op = twin_trace_string(r->t->proc->trace, s->op), *members = "";
    if (!mpi && !*scope) /* PyTorch's name for the group of all ranks, which need not be given */
        scope = "0";
    if (!mpi && strcmp(scope, "0") != 0)
        members = tw_group_members(r->t->proc, scope);
    if (members && name_is_shared(scope, mpi) && !is_message(r, name, scope, members, k))
        is_collective(r, name, scope, members, op, k);
    if (k->follow != NOT_FOLLOWED && k->channel == UINT32_MAX)
        r->rc = TWIN_ENOMEM;
    k->beside = !mpi && k->follow != ALL && k->follow != MESSAGE && strstr(op, ", beside others");
    k->op = op_of(r, k->follow == MESSAGE ? "" : op);
    return k;
}

static struct counted *counted_of(struct reading *r, uint32_t channel)
{
    if (channel >= r->count_room) {
        size_t room = r->count_room ? r->count_room : 64;
        while (room <= channel)
            room *= 2;
        struct counted *grown = tw_reallocarray(r->count, room, sizeof *grown);
        if (!grown)
            return NULL;
        memset(grown + r->count_room, 0, (room - r->count_room) * sizeof *grown);
        r->count = grown;
        r->count_room = room;
    }
    return &r->count[channel];
}

/* ---- counting */

/* Which message or call of its channel the record is. */
static void number_of(struct counted *n, const struct known *k, struct tw_exchange *x)
{
    const bool gives = k->kind == TWIN_KIND_IN;
    const bool new = k->first_part;
    x->act = gives ? TW_ACT_GIVE : TW_ACT_TAKE;
    x->sure = true;
    switch (k->follow) {
    case MESSAGE: x->number = gives ? ++n->in : ++n->out; break;
    case ALL:
        n->in += gives && new;
        n->out += !gives && new;
        x->number = gives ? n->in : n->out;
        x->sure = gives || n->in == n->out;
        break;
    case TO_ROOT:
        n->in += gives && new;
        x->number = n->in;
        break;
    case BROADCAST: x->number = ++n->calls; break;
    case SCATTER:
        n->calls += gives ? new : !n->open;
        x->number = n->calls;
        n->open = gives;
        break;
    default: x->act = TW_ACT_NONE; break;
    }
}

static uint64_t elements_of(const struct twin_layout *l)
{
    uint64_t n = 1;
    for (unsigned i = 0; i < l->ndim && i < TWIN_MAX_NDIM; i++)
        if (l->shape[i] <= 0 || __builtin_mul_overflow(n, (uint64_t)l->shape[i], &n))
            return 0;
    return n;
}

static bool is_wanted(void *user, uint32_t id, const struct twin_series *s)
{
    struct reading *r = user;
    const struct twin_finding *f = r->t->seq ? r->t->asked : NULL;
    const struct known *k = known_of(r, id);
    return k &&
           (k->exchange || (f && s->phase == f->phase && s->kind == f->kind &&
                            strcmp(twin_trace_string(r->t->proc->trace, s->name), f->name) == 0));
}

/* Nothing may be concluded from it any more. The first reason stays. */
static void distrust(struct tw_talker *t, const char *why)
{
    if (!t->why)
        t->why = why;
}

static void keep(struct reading *r, const struct twin_trace_record *record, struct tw_exchange *x)
{
    struct tw_talker *t = r->t;
    if (record->step < r->first)
        return;
    if (t->n >= r->most) {
        t->cut = true;
        return;
    }
    if (!tw_cmp_room(r->c, &t->x, t->n, &t->room, sizeof *t->x)) {
        r->rc = TWIN_ENOMEM;
        return;
    }
    t->x[t->n++] = *x;
}

static int take_record(void *user, const struct twin_trace_record *record)
{
    struct reading *r = user;
    const struct known *k = known_of(r, record->series);
    if (!k || r->rc)
        return r->rc = TWIN_ENOMEM;
    if (record->step > r->last)
        return 1;
    if (r->t->seq && record->step == r->t->step && record->seq == r->t->seq) {
        r->asked = true;
        r->asked_thread = record->thread;
    }
    if (!k->exchange)
        return 0;
    if (r->any && record->thread != r->thread)
        distrust(r->t, "several threads exchange messages");
    if (r->any && (record->step < r->last_step ||
                   (record->step == r->last_step && record->seq <= r->last_seq)))
        distrust(r->t, "its records are out of order");
    r->any = true;
    r->thread = record->thread;
    r->last_step = record->step;
    r->last_seq = record->seq;
    struct tw_exchange x = {.step = record->step,
                            .seq = record->seq,
                            .channel = k->follow ? k->channel : UINT32_MAX,
                            .op = k->op,
                            .read = k->kind != TWIN_KIND_MATCH &&
                                    !(record->flags & TWIN_REC_UNOBSERVED),
                            .digest = record->digest};
    if (k->follow == NOT_FOLLOWED) {
        const struct twin_series *s = twin_trace_series(r->t->proc->trace, record->series);
        if (record->step >= r->first && !r->t->unfollowed)
            r->t->unfollowed = twin_trace_string(r->t->proc->trace, s->name);
    } else {
        struct counted *n = counted_of(r, k->channel);
        if (!n)
            return r->rc = TWIN_ENOMEM;
        if (k->beside)
            distrust(r->t, "several of its calls with a root were under way at once");
        number_of(n, k, &x);
        x.elements = elements_of(twin_trace_layout(r->t->proc->trace, record->layout));
        x.empty = x.elements == 0;
        if (k->follow == ALL && n->out > n->in)
            distrust(r->t, "a collective gave more than it was called");
    }
    keep(r, record, &x);
    /* enough, once the record that was asked about is among those that were seen */
    return r->t->cut && (!r->t->seq || r->asked);
}

/* What the trace itself says is missing of it, or was not followed by the agent. */
static void look_for_gaps(struct tw_talker *t)
{
    const struct twin_trace_info *info = t->proc->info;
    struct twin_trace_hole hole;
    uint32_t step, dropped;
    const char *key, *value;
    if (info->dropped || info->lost || twin_trace_gap(t->proc->trace, 0, &step, &dropped))
        distrust(t, "records of it were dropped");
    if (twin_trace_hole(t->proc->trace, 0, &hole))
        distrust(t, "its trace is damaged");
    for (size_t i = 0; twin_trace_note(t->proc->trace, i, &key, &value); i++)
        if (strcmp(key, "unseen") == 0 && strncmp(value, "MPI_", 4) == 0)
            distrust(t, "some of its calls of MPI were not seen");
        else if (strcmp(key, "exchange.unseen") == 0)
            distrust(t, "some of its messages or collectives were not seen");
}

static int read_one(struct tw_cmp *c, struct tw_exchanges *x, struct tw_talker *t, uint32_t first,
                    uint32_t last, size_t most)
{
    struct reading r = {.c = c, .x = x, .t = t, .first = first, .last = last, .most = most};
    int rc = twin_trace_walk_some(t->proc->trace, is_wanted, take_record, NULL, &r, NULL);
    if (r.rc == 0 && rc < 0 && rc != TWIN_ENOMEM)
        distrust(t, "its trace is damaged");
    if (rc == TWIN_ENOMEM)
        r.rc = TWIN_ENOMEM;
    look_for_gaps(t);
    t->asked_in_order = r.asked && (!r.any || r.asked_thread == r.thread);
    twin_trace_rest(t->proc->trace);
    tw_free(r.known);
    tw_free(r.count);
    return r.rc;
}

/* How many records a walk up to this step has to pass: all, as far as the steps are alike. */
static uint64_t records_until(const struct twin_trace_info *info, uint32_t last)
{
    const uint64_t steps = info->steps + 1, until = (uint64_t)last + 1;
    return until >= steps ? info->records : info->records / steps * until;
}

int tw_exchanges_read(struct tw_cmp *c, struct tw_exchanges *x, uint32_t first, uint32_t last)
{
    uint64_t records = 0;
    int rc = 0;
    for (size_t i = 0; i < x->talkers; i++)
        records += records_until(x->talker[i].proc->info, last);
    if (records > tw_exchange_records)
        return TWIN_ELIMIT;
    size_t most = x->talkers ? tw_exchange_most / x->talkers : 0;
    if (most < LEAST_KEPT && tw_exchange_most > LEAST_KEPT)
        most = LEAST_KEPT;
    for (size_t i = 0; rc == 0 && i < x->talkers; i++)
        rc = read_one(c, x, &x->talker[i], first, last, most);
    return rc;
}

void tw_exchanges_free(struct tw_exchanges *x)
{
    for (size_t i = 0; i < x->talkers; i++)
        tw_free(x->talker[i].x);
    for (size_t i = 0; i < x->channels; i++) {
        tw_free(x->channel[i].key);
        tw_free(x->channel[i].name);
        tw_free(x->channel[i].scope);
    }
    for (size_t i = 0; i < x->ops; i++)
        tw_free(x->op[i]);
    tw_free(x->channel);
    tw_free(x->op);
    tw_free(x->slot);
}

/* ---- looking up */

const struct tw_exchange *tw_exchange_at(const struct tw_talker *t, uint32_t step, uint32_t seq)
{
    size_t low = 0, high = t->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct tw_exchange *x = &t->x[middle];
        if (x->step < step || (x->step == step && x->seq < seq))
            low = middle + 1;
        else
            high = middle;
    }
    return low < t->n && t->x[low].step == step && t->x[low].seq == seq ? &t->x[low] : NULL;
}
