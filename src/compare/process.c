/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the traces of a run, and says which process of one run corresponds to which of another.
 * compare.c, live.c and others open a side for each run (tw_side_open()); pair.c asks for the pairs
 * (tw_side_match()).
 *
 * Processes correspond by rank, role and order of start. Processes that start at once have no order
 * of their own, so within a rank and role those whose records agree are paired first. What cannot
 * be read, and what processes say that they could not see, is added to the reasons against "same"
 * here.
 */
#include "printed.h"
#include "replicas.h"

#include <stdlib.h>
#include <string.h>

const char *tw_proc_role(const struct tw_proc *p)
{
    return p->info->role && p->info->role[0] ? p->info->role : "main";
}

/* Order of the processes of a side. The path only makes the order complete. */
static int by_rank_role_start(const void *x, const void *y)
{
    const struct tw_proc *a = x, *b = y;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    int role = strcmp(tw_proc_role(a), tw_proc_role(b));
    if (role)
        return role;
    if (a->info->start_monotonic_ns != b->info->start_monotonic_ns)
        return a->info->start_monotonic_ns < b->info->start_monotonic_ns ? -1 : 1;
    return strcmp(a->path, b->path);
}

/*
 * Opens one trace and adds its process to the side, unless it holds no record at all. Problems
 * become unseen texts; *no_memory is set when memory runs out. `silent` collects what processes
 * without any record say that they could not see; tw_side_open() decides whether it counts.
 */
static void open_one(struct tw_cmp *c, struct tw_side *side, const char *path,
                     struct tw_texts *silent, bool *no_memory)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_opened x = {.trace = NULL};
    const bool verified = tw_ahead_take(c->ahead, path, &x);
    int rc = verified ? 0 : twin_trace_open(path, &x.trace, &err);
    struct twin_trace *t = x.trace;
    if (rc == 0)
        rc = twin_trace_definitions(t, &err);
    if (rc == TWIN_ENOMEM) {
        twin_trace_close(t);
        *no_memory = true;
        return;
    }
    if (rc != 0) {
        twin_trace_close(t);
        side->damaged = true;
        tw_cmp_unseen(c, "run %zu: a trace cannot be read: %s", side->index + 1, err.message);
        return;
    }
    const struct twin_trace_info *info = twin_trace_info(t);
    if (tw_trace_is_silent(info)) {
        /* opened for a record, so there was one: cut off, or killed before anything was sealed */
        if (!info->closed) {
            side->damaged = true;
            tw_cmp_unseen(c,
                          "run %zu: nothing is left in the trace of a process that recorded (%s)",
                          side->index + 1, path);
        }
        /* Its records were not stored, though nothing says that the file was damaged. */
        if (info->lost)
            tw_cmp_unseen(
                c, "run %zu: all %llu records of rank %d were lost: no memory, or over a limit",
                side->index + 1, (unsigned long long)info->lost, info->rank);
        /*
         * A process in which the agent sat and saw nothing (a shell, a launcher) corresponds to
         * nothing, so it is not added. Its notes count.
         */
        const char *key, *value;
        for (size_t i = 0; twin_trace_note(t, i, &key, &value); i++)
            if (strcmp(key, "unarmed") == 0)
                tw_texts_add(c, &c->unarmed,
                             tw_cmp_text(c, "%s: %s",
                                         tw_starts(info->role, "main") ? "process" : info->role,
                                         value));
            else if (strcmp(key, "unseen.trained") == 0) /* a child, whatever others recorded */
                tw_cmp_unseen(c, "run %zu: %s", side->index + 1, value);
            else if (strcmp(key, "unseen") == 0)
                tw_texts_add(c, silent, tw_cmp_text(c, "run %zu: %s", side->index + 1, value));
        twin_trace_close(t);
        return;
    }
    /* A quick look makes no claim of "same", and while a run is going on it is repeated at every
     * tick. */
    if (!verified && (!c->quick || info->tail_bytes > 0))
        tw_opened_verify(&x, false);
    if (x.rc == TWIN_ENOMEM) {
        twin_trace_close(t);
        *no_memory = true;
        return;
    }
    if (x.rc == TWIN_EFORMAT)
        tw_cmp_unseen(c, "run %zu: a trace is damaged: %s", side->index + 1, x.fault.message);
    struct tw_proc *p = &side->proc[side->count++];
    *p = (struct tw_proc){.trace = t,
                          .info = info,
                          .path = path,
                          .facts = side->facts,
                          .rank = info->rank,
                          .own_rank = info->rank,
                          .attempt = twin_trace_attempt(t),
                          .run = side->index};
    if (p->attempt > side->attempts)
        side->attempts = p->attempt;
    const char *queued = twin_trace_note_of(t, TW_NOTE_QUEUED);
    *no_memory |= queued && !tw_facts_add_id(side->facts, strtol(queued, NULL, 10));
    tw_say_damage(c, p);
    if (info->lost > 0)
        tw_cmp_unseen(c,
                      "run %zu: %llu calls of rank %d (%s) could not be recorded: no memory, or "
                      "more names than a trace holds",
                      side->index + 1, (unsigned long long)info->lost, info->rank, tw_proc_role(p));
    /* a worker counts as it likes */
    if (tw_starts(tw_proc_role(p), "main"))
        side->steps = info->steps > side->steps ? info->steps : side->steps;
    if (info->world > side->world)
        side->world = info->world;
    if (info->tail_bytes > 0 && info->closed)
        tw_cmp_note(c, "run %zu: %s has %llu bytes after its last good block", side->index + 1,
                    path, (unsigned long long)info->tail_bytes);
}

/* On failure the side is closed already. c->unseen may have got texts in either case. */
int tw_side_open(struct tw_cmp *c, const struct twin_run *run, size_t index, struct tw_side *side,
                 struct twin_error *err)
{
    struct tw_texts silent = {0};
    bool no_memory = false;
    *side = (struct tw_side){.run = run, .index = index, .world = 1, .closed = true};
    side->proc = tw_calloc(run->trace_count, sizeof *side->proc);
    side->facts = tw_calloc(1, sizeof *side->facts);
    no_memory = !side->facts || !tw_facts_load(run, side->facts);
    for (size_t i = 0; side->proc && !no_memory && i < run->trace_count; i++)
        open_one(c, side, run->traces[i], &silent, &no_memory);
    /* a launcher's silence means nothing beside its workers' records */
    for (size_t i = 0; i < silent.n && side->count == 0; i++)
        tw_cmp_unseen(c, "%s", silent.s[i]);
    tw_texts_free(&silent);
    if (!side->proc || no_memory) {
        tw_side_close(side);
        return tw_no_memory(err, "opening the traces of %s", run->dir);
    }
    /* Processes of equal rank and role stand side by side after this; the ordinal counts them. */
    qsort(side->proc, side->count, sizeof *side->proc, by_rank_role_start);
    for (size_t i = 1; i < side->count; i++) {
        struct tw_proc *p = &side->proc[i];
        if (p->rank == p[-1].rank && strcmp(tw_proc_role(p), tw_proc_role(p - 1)) == 0)
            p->ordinal = p[-1].ordinal + 1;
        for (struct tw_proc *q = p; q > p - p->ordinal && p->nth == 0;)
            p->nth = (--q)->attempt == p->attempt ? q->nth + 1 : 0;
    }
    for (size_t i = 0; i < side->count; i++) {
        const struct tw_proc *p = &side->proc[i];
        /* a worker may be killed with its work done */
        if (tw_starts(tw_proc_role(p), "main") && !tw_proc_given_up(side, p))
            side->closed &= p->info->closed;
    }
    return 0;
}

void tw_side_close(struct tw_side *side)
{
    tw_roles_forget(side);
    for (size_t i = 0; side->proc && i < side->count; i++) {
        twin_trace_close(side->proc[i].trace);
        tw_free(side->proc[i].key);
        tw_free(side->proc[i].token);
        tw_free(side->proc[i].place);
    }
    tw_free(side->proc);
    if (side->facts)
        tw_facts_free(side->facts);
    tw_free(side->facts);
    tw_replicas_free(side->replica, side->replicas);
    *side = (struct tw_side){0};
}

bool tw_side_stopped(const struct tw_side *s)
{
    return s->run->outcome == TWIN_RUN_STOPPED || s->run->outcome == TWIN_RUN_INTERRUPTED ||
           s->run->in_progress;
}

bool tw_side_failed(const struct tw_side *s)
{
    return s->run->outcome == TWIN_RUN_NOT_STARTED || s->run->outcome == TWIN_RUN_SIGNALED ||
           (s->run->outcome == TWIN_RUN_EXITED && s->run->exit_code != 0);
}

bool tw_side_complete(const struct tw_side *s)
{
    return s->closed && !s->damaged && !tw_side_stopped(s) && s->run->outcome != TWIN_RUN_SIGNALED;
}

bool tw_proc_given_up(const struct tw_side *s, const struct tw_proc *p)
{
    return p->attempt < s->attempts;
}

bool tw_proc_complete(const struct tw_side *s, const struct tw_proc *p)
{
    return tw_side_complete(s) && !tw_side_failed(s) && !tw_proc_given_up(s, p);
}

bool tw_proc_alike(const struct tw_proc *x, const struct tw_proc *y)
{
    return x->rank == y->rank && strcmp(tw_proc_role(x), tw_proc_role(y)) == 0;
}

#define WORKER "loader worker "

bool tw_proc_is_loader(const struct tw_proc *p)
{
    return tw_starts(tw_proc_role(p), WORKER);
}

/*
 * Callback of twin_trace_walk: the first record of a computed thing ends the walk with a non-zero
 * value.
 */
static int is_computed(void *user, const struct twin_trace_record *r)
{
    struct tw_proc *p = user;
    const struct twin_series *s = twin_trace_series(p->trace, r->series);
    return s->kind != TWIN_KIND_STATE && s->kind != TWIN_KIND_HYPER &&
           s->phase != TWIN_PHASE_ENVIRONMENT;
}

/*
 * Where records were dropped, what they were is not known: then the answer is true. An error of
 * reading counts as true as well.
 */
bool tw_proc_computes(struct tw_proc *p)
{
    const bool computes = p->info->dropped > 0 ||
                          twin_trace_walk(p->trace, is_computed, NULL, p, NULL) != 0;
    twin_trace_rest(p->trace);
    return computes;
}

bool tw_pair_steps(const struct tw_pair *p)
{
    return !tw_proc_is_loader(p->a) && (p->a->info->steps > 0 || p->b->info->steps > 0);
}

/*
 * Do the two agree over the first `steps` steps that both have (UINT32_MAX: all)? False where
 * nothing could be compared.
 */
static bool agree(struct tw_proc *x, struct tw_proc *y, uint32_t steps)
{
    bool found = true;
    uint32_t step;
    uint64_t compared = 0;
    int rc = twin_trace_first_difference(x->trace, y->trace, 0, 0, steps, &found, &step, &compared,
                                         NULL);
    twin_trace_rest(x->trace);
    twin_trace_rest(y->trace);
    return rc == 0 && !found && compared > 0;
}

/* Adds a pair and marks both as taken. False: no memory. */
static bool pair_up(struct tw_cmp *c, struct tw_proc *x, struct tw_proc *y, struct tw_pair **pairs,
                    size_t *count, size_t *room)
{
    if (!tw_cmp_room(c, pairs, *count, room, sizeof **pairs))
        return false;
    x->taken = y->taken = true;
    (*pairs)[(*count)++] = (struct tw_pair){.a = x, .b = y};
    return true;
}

/* Are the two of one rank and role, in the same attempt? A second attempt may agree with the first
 * one of another run as long as both go on, and says nothing about it. */
static bool correspond(const struct tw_proc *x, const struct tw_proc *y)
{
    return x->attempt == y->attempt && tw_proc_alike(x, y);
}

/* How many processes of s may be the counterpart of p? */
static size_t group_size(const struct tw_side *s, const struct tw_proc *p)
{
    size_t n = 0;
    for (size_t i = 0; i < s->count; i++)
        n += correspond(&s->proc[i], p);
    return n;
}

/* Order of pairs by their process of a, whose array is sorted by rank. */
static int pair_order(const void *x, const void *y)
{
    const struct tw_pair *a = x, *b = y;
    return a->a < b->a ? -1 : a->a > b->a;
}

/*
 * How many workers the loaders of a rank have, as far as they recorded: the highest number in their
 * roles ("loader worker 3"), which count from 0, plus one.
 */
static long loader_workers(const struct tw_side *s, int32_t rank)
{
    long most = 0;
    for (size_t i = 0; i < s->count; i++)
        if (s->proc[i].rank == rank && tw_proc_is_loader(&s->proc[i])) {
            long n = strtol(tw_proc_role(&s->proc[i]) + sizeof WORKER - 1, NULL, 10) + 1;
            most = n > most ? n : most;
        }
    return most;
}

/*
 * Takes out the pairs of loader workers of ranks whose loaders have another number of workers in
 * each run, and returns how many pairs are left. Two workers divide the same batches otherwise than
 * three. What comes of it is what the trainer gets, which is compared.
 */
static size_t drop_divided_otherwise(struct tw_cmp *c, const struct tw_side *a,
                                     const struct tw_side *b, struct tw_pair *pairs, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        int32_t rank = pairs[i].a->rank;
        long in_a = loader_workers(a, rank), in_b = loader_workers(b, rank);
        if (!tw_proc_is_loader(pairs[i].a) || in_a == in_b) {
            pairs[kept++] = pairs[i];
            continue;
        }
        tw_cmp_note(c,
                    "rank %d has %ld loader workers in %s and %ld in %s: not they but the batches "
                    "that it got were compared",
                    rank, in_a, c->label_a, in_b, c->label_b);
    }
    return kept;
}

/*
 * *pairs is malloc'ed and sorted by the process of a; the caller frees it. Returns 0 or
 * TWIN_ENOMEM.
 */
int tw_side_match(struct tw_cmp *c, struct tw_side *a, struct tw_side *b, struct tw_pair **pairs,
                  size_t *count)
{
    size_t room = 0;
    *pairs = NULL;
    *count = 0;
    if (tw_roles_match(c, a, b) != 0)
        return TWIN_ENOMEM;
    for (size_t i = 0; i < a->count; i++)
        a->proc[i].taken = false;
    for (size_t i = 0; i < b->count; i++)
        b->proc[i].taken = false;
    /* Rounds: whole records agree, the first step agrees, then by ordinal: trainers with trainers
     * first, so that what prepares the data for one arm alone does not take the trainer's place. */
    enum { ALL_AGREES, FIRST_AGREES, BOTH_STEP, LEFT, ROUNDS };
    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < a->count; i++) {
            struct tw_proc *p = &a->proc[i];
            /*
             * With one process on each side there is no choice: reading the traces to see whether
             * they agree would be of no use.
             */
            bool single = round <= FIRST_AGREES && group_size(a, p) == 1 && group_size(b, p) == 1;
            for (size_t j = 0; j < b->count && !p->taken && !single; j++) {
                struct tw_proc *q = &b->proc[j];
                if (q->taken || !correspond(p, q))
                    continue;
                if (round <= FIRST_AGREES && !agree(p, q, round == ALL_AGREES ? UINT32_MAX : 1))
                    continue;
                if (round == BOTH_STEP && (p->info->steps == 0 || q->info->steps == 0))
                    continue;
                if (!pair_up(c, p, q, pairs, count, &room))
                    return TWIN_ENOMEM;
            }
        }
    *count = drop_divided_otherwise(c, a, b, *pairs, *count);
    if (*count)
        qsort(*pairs, *count, sizeof **pairs, pair_order);
    for (size_t i = 0; i < *count; i++) {
        struct tw_pair *p = &(*pairs)[i];
        bool stepless = p->a->info->steps == 0 && p->b->info->steps == 0 &&
                        (a->steps > 0 || b->steps > 0);
        p->auxiliary = stepless || !tw_starts(tw_proc_role(p->a), "main");
    }
    return 0;
}
