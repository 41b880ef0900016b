/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of a run of MPI that ended badly, or was ended while it hung: who waited in which collective, and
 * who had not come. A rank waits where it gave something to a call that gives something back to
 * everybody, and nothing came out. What is said holds as far as it was recorded: a process that is
 * killed may take its last quarter of a second with it.
 */
#include "internal.h"
#include "scan.h"

#include "phrase.h"

#include <string.h>

enum { RANKS_NAMED = 8, NAME_BYTES = 120 };

/* A call by one rank: its last record, and how often such a record was made by then. */
struct last {
    const struct tw_proc *proc;
    const char *name, *scope; /* of the wanted call; of the last record */
    uint8_t kind;
    uint32_t step, seq;
    uint64_t calls;
    bool any;
};

static bool is_mpi(void *user, uint32_t id, const struct twin_series *s)
{
    const struct last *l = user;
    (void)id;
    return tw_is_mpi(s->phase, twin_trace_string(l->proc->trace, s->name));
}

static int keep_last(void *user, const struct twin_trace_record *r)
{
    struct last *l = user;
    if (l->any && (r->step < l->step || (r->step == l->step && r->seq < l->seq)))
        return 0;
    const struct twin_series *s = twin_trace_series(l->proc->trace, r->series);
    l->any = true;
    l->step = r->step;
    l->seq = r->seq;
    l->kind = s->kind;
    l->name = twin_trace_string(l->proc->trace, s->name);
    l->scope = twin_trace_string(l->proc->trace, s->scope);
    return 0;
}

static bool is_call(void *user, uint32_t id, const struct twin_series *s)
{
    const struct last *l = user;
    (void)id;
    return s->phase == TWIN_PHASE_COLLECTIVE && s->kind == l->kind &&
           strcmp(twin_trace_string(l->proc->trace, s->name), l->name) == 0 &&
           strcmp(twin_trace_string(l->proc->trace, s->scope), l->scope) == 0;
}

static int count(void *user, const struct twin_trace_record *r)
{
    struct last *l = user;
    (void)r;
    l->calls++;
    return 0;
}

/* How often a rank made the call of this name, kind and communicator. */
static uint64_t calls_of(const struct tw_proc *p, const struct last *what)
{
    struct last l = {.proc = p, .name = what->name, .scope = what->scope, .kind = what->kind};
    const int rc = twin_trace_walk_some(p->trace, is_call, count, NULL, &l, NULL);
    twin_trace_rest(p->trace);
    return rc == 0 ? l.calls : 0;
}

/* Does everybody who calls it get something, and not before all have called it? */
static bool gives_to_all(const char *name)
{
    static const char *const all[] = {
        "MPI_Allreduce", "MPI_Allgather", "MPI_Allgatherv",     "MPI_Alltoall",
        "MPI_Alltoallv", "MPI_Alltoallw", "MPI_Reduce_scatter", "MPI_Reduce_scatter_block"};
    const size_t length = tw_mpi_name_length(name);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strlen(all[i]) == length && strncmp(name, all[i], length) == 0)
            return true;
    return false;
}

static bool waits(const struct last *l)
{
    return l->any && l->kind == TWIN_KIND_IN && gives_to_all(l->name);
}

/* Adds "3" or ", 4" for a rank, at most RANKS_NAMED of them. */
static void add_rank(struct tw_buf *text, size_t *n, int32_t rank)
{
    if (*n < RANKS_NAMED)
        tw_buf_printf(text, "%s%d", *n ? ", " : "", rank);
    else if (*n == RANKS_NAMED)
        tw_buf_puts(text, ", ...");
    ++*n;
}

/* The ranks that wait in the call of `in`, and those that had made it fewer times. */
static void say(struct tw_cmp *c, const struct tw_side *side, const struct last *l,
                const struct last *in)
{
    struct tw_buf there = {0}, missing = {0};
    size_t n = 0, absent = 0;
    const struct last *one = NULL;
    const uint64_t calls = calls_of(in->proc, in);
    for (size_t i = 0; i < side->count; i++) {
        if (!l[i].any)
            continue;
        uint64_t made = calls_of(l[i].proc, in);
        bool here = waits(&l[i]) && made == calls && strcmp(l[i].name, in->name) == 0 &&
                    strcmp(l[i].scope, in->scope) == 0;
        if (here)
            add_rank(&there, &n, side->proc[i].rank);
        else if (made < calls) {
            add_rank(&missing, &absent, side->proc[i].rank);
            one = one ? one : &l[i];
        }
    }
    if (one && there.data && missing.data && !there.failed && !missing.failed)
        tw_cmp_note(
            c,
            "run %zu: when it ended, rank%s %s waited in call %llu of %s on %.*s; no record "
            "of rank%s %s shows that call; the last one of rank %d is the %s of %.*s in "
            "step %u%s",
            side->index + 1, tw_plural_s(n), there.data, (unsigned long long)calls, in->name,
            NAME_BYTES, in->scope, tw_plural_s(absent), missing.data, one->proc->rank,
            one->kind == TWIN_KIND_IN ? "input" : "output", NAME_BYTES, one->name, one->step,
            one->proc->info->closed ? ""
                                    : " (what a process did in the 250 ms before it was "
                                      "killed may be missing)");
    tw_buf_free(&there);
    tw_buf_free(&missing);
}

void tw_waiting(struct tw_cmp *c, const struct tw_side *side)
{
    const struct last *first = NULL;
    const bool by_steps = side->run->outcome == TWIN_RUN_STOPPED && side->run->max_steps > 0;
    if (by_steps || (!tw_side_failed(side) && !tw_side_stopped(side)) || side->count < 2)
        return;
    struct last *l = tw_calloc(side->count, sizeof *l);
    c->oom |= !l;
    for (size_t i = 0; l && i < side->count; i++) {
        l[i].proc = &side->proc[i];
        if (twin_trace_walk_some(side->proc[i].trace, is_mpi, keep_last, NULL, &l[i], NULL) != 0)
            l[i].any = false;
        twin_trace_rest(side->proc[i].trace);
        if (!first && waits(&l[i]))
            first = &l[i];
    }
    if (first)
        say(c, side, l, first);
    tw_free(l);
}
