/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls (<twin/allreduce.h>), and the queue of a communicator's reductions.
 *
 * A reduction advances in steps, each of which posts MPI operations and names the next one. Only
 * the head of the queue moves, whichever one the program waits for, so all ranks post the
 * operations of one communicator in one order. Nothing moves outside of start, test and wait: there
 * is no thread of ours. */
#include <fenv.h>
#include <string.h>
#include "inside.h"

_Static_assert(sizeof(struct tw_reduction) <= sizeof(struct twin_reduction),
               "struct twin_reduction is too small");

static struct tw_reduction *inside(struct twin_reduction *r)
{
    return (struct tw_reduction *)(void *)r;
}

/* ---- progress */
/* The step after the agreement: chooses the way that all go. With no elements nothing is left to
 * do. */
static int agreed(struct tw_reduction *r)
{
    if (tw_agree_judge(r) != 0)
        return r->err.code;
    r->pending_count = 0;
    r->next = NULL;
    if (r->what.n != 0)
        r->next = r->way == TWIN_WAY_DIRECT ? tw_begin_direct : tw_begin_general;
    return 0;
}

/* Posts the agreement: the first step of every reduction. */
static void begin_reduction(struct tw_reduction *r)
{
    memset(&r->err, 0, sizeof r->err);
    tw_agree_fill(r);
    r->pending = &r->agreement;
    r->pending_count = 1;
    r->next = agreed;
    r->begun = true;
    const int rc = MPI_Iallreduce(&r->mine, &r->all, 1, r->on->header, r->on->agree, r->on->comm,
                                  &r->agreement);
    if (rc != MPI_SUCCESS) {
        tw_mpi_failed(&r->err, rc, "MPI_Iallreduce");
        r->next = NULL;
    }
}

/* Runs the next step in the default floating-point mode, in which the reduction was begun. If the
 * program has changed it since, it gets its own back. */
static int run_step(struct tw_reduction *r)
{
    fenv_t theirs;
    fegetenv(&theirs);
    fesetenv(FE_DFL_ENV);
    tw_step *const next = r->next;
    const int rc = next(r);
    fesetenv(&theirs);
    return rc;
}

/* Takes the head off the queue; r->err says how it went. */
static void end_reduction(struct tw_reduction *r)
{
    struct tw_comm *c = r->on;
    c->head = r->behind;
    if (!c->head)
        c->tail = &c->head;
    r->behind = NULL;
    r->active = false;
}

/* Moves the head of the queue until it has ended (true) or, when it may not block, would have to
 * wait. */
static bool advance(struct tw_reduction *r, bool block)
{
    if (!r->begun)
        begin_reduction(r);
    while (r->next) {
        int done = 1, rc = MPI_SUCCESS;
        if (r->pending_count > 0)
            rc = block ? MPI_Waitall(r->pending_count, r->pending, MPI_STATUSES_IGNORE)
                       : MPI_Testall(r->pending_count, r->pending, &done, MPI_STATUSES_IGNORE);
        if (rc != MPI_SUCCESS) {
            tw_mpi_failed(&r->err, rc, "waiting for messages");
            break;
        }
        if (!done)
            return false;
        if (run_step(r) != 0)
            break;
    }
    end_reduction(r);
    return true;
}

/* Hands the run's result to the caller. */
static int tell_result(const struct tw_reduction *r, struct twin_error *err)
{
    return r->err.code ? twin_error_set(err, r->err.code, "%s", r->err.message) : 0;
}

/* ---- the interface */
/* What is wrong with the arguments is kept and told at the run, where all ranks learn of it; here
 * only an unusable communicator is an error. */
int twin_reduction_init(struct twin_reduction *public, const struct twin_reduce *what,
                        MPI_Comm comm, struct twin_error *err)
{
    struct tw_reduction *r = inside(public);
    struct tw_comm *c;
    const int rc = tw_comm_of(comm, &c, err);
    if (rc)
        return rc;
    memset(r, 0, sizeof *r);
    r->on = c;
    r->what = *what;
    tw_reduction_prepare(r);
    return 0;
}

/* Behind others of its communicator it only queues up. */
int twin_reduction_start(struct twin_reduction *public, struct twin_error *err)
{
    struct tw_reduction *r = inside(public);
    if (r->active)
        return twin_error_set(err, TWIN_EBUSY,
                              "all-reduce: this reduction is under way already; wait for it first");
    r->active = r->ever = true;
    r->begun = false;
    r->behind = NULL;
    *r->on->tail = r;
    r->on->tail = &r->behind;
    if (r->on->head == r)
        begin_reduction(r);
    return 0;
}

static int never(struct twin_error *err)
{
    return twin_error_set(err, TWIN_EINVAL, "all-reduce: this reduction was never started");
}

/* Moves as far as possible without waiting, the ones before it first. */
int twin_reduction_test(struct twin_reduction *public, int *done, struct twin_error *err)
{
    struct tw_reduction *r = inside(public);
    *done = 0;
    if (!r->ever)
        return never(err);
    while (r->active && advance(r->on->head, false))
        ;
    *done = !r->active;
    return *done ? tell_result(r, err) : 0;
}

/* The reductions before it in the queue end first. */
int twin_reduction_wait(struct twin_reduction *public, struct twin_error *err)
{
    struct tw_reduction *r = inside(public);
    if (!r->ever)
        return never(err);
    while (r->active)
        advance(r->on->head, true);
    return tell_result(r, err);
}

/* Waits for a run that is under way: MPI still uses its buffers. */
void twin_reduction_fini(struct twin_reduction *public)
{
    struct tw_reduction *r = inside(public);
    while (r->active)
        advance(r->on->head, true);
    tw_reduction_release(r);
    memset(r, 0, sizeof *r);
}

int twin_reduce(const struct twin_reduce *what, MPI_Comm comm, struct twin_error *err)
{
    struct twin_reduction r;
    int rc = twin_reduction_init(&r, what, comm, err);
    if (rc)
        return rc;
    twin_reduction_start(&r, NULL);
    rc = twin_reduction_wait(&r, err);
    twin_reduction_fini(&r);
    return rc;
}

/* An all-reduce in one call, for one type. */
#define ALLREDUCE(name, type, dtype_)                                                     \
    int twin_allreduce_##name(const type *x, type *out, int64_t n, int64_t contributions, \
                              int64_t total, MPI_Comm comm, struct twin_error *err)       \
    {                                                                                     \
        const struct twin_reduce what = {.dtype = dtype_,                                 \
                                         .x = x,                                          \
                                         .out = out,                                      \
                                         .n = n,                                          \
                                         .contributions = contributions,                  \
                                         .total = total};                                 \
        return twin_reduce(&what, comm, err);                                             \
    }
ALLREDUCE(f64, double, TWIN_F64)
ALLREDUCE(f32, float, TWIN_F32)
ALLREDUCE(f16, uint16_t, TWIN_F16)
ALLREDUCE(bf16, uint16_t, TWIN_BF16)
