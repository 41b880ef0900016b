/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ends of non-blocking operations. MPI sets a request to "null" when it is complete, so their
 * handles are kept over the call; and statuses are asked for also where the program wants none.
 */
#include "inside.h"

#include <errno.h>
#include <string.h>
#include "src/base/base.h"

enum { FEW = 32 };

/* Handles and statuses of one call; on the stack where they are few. */
struct watched {
    tw_mpi_handle few[FEW], *handle;
    char few_statuses[FEW * TW_MPI_STATUS_MOST], *own;
    void *status; /* the program's, or `own` */
    int n;
};

/* False: nothing of it is followed, or there is no memory. Then the call is passed on as it is. */
static bool begin(struct watched *w, int n, const void *requests, void *statuses)
{
    int before = errno;
    if (n <= 0 || (!tw_mpi_any_pending() && !tw_mpi_any_arrays()))
        return false;
    /* not cleared: the arrays are large, and filled before they are read */
    w->n = n;
    w->handle = w->few;
    w->own = w->few_statuses;
    w->status = statuses;
    if (n > FEW) {
        w->handle = tw_malloc((size_t)n * sizeof *w->handle);
        w->own = tw_malloc((size_t)n * TW_MPI_STATUS_MOST);
    }
    bool room = w->handle && w->own;
    if (!room) {
        tw_free(w->handle);
        tw_free(w->own);
        tw_mpi_unseen("MPI_Wait", "out of memory while operations ended");
    }
    for (int i = 0; room && i < n; i++)
        w->handle[i] = tw_mpi_at(requests, (size_t)i);
    if ((uintptr_t)statuses == tw_mpi_abi()->ignore)
        w->status = w->own;
    errno = before;
    return room;
}

/* Request i is complete, and its status is number k of those that MPI filled. */
static void ended(const struct watched *w, int i, int k)
{
    if (i < 0 || i >= w->n)
        return;
    tw_mpi_complete(w->handle[i], (const char *)w->status + (size_t)k * tw_mpi_abi()->status_bytes);
    tw_mpi_drop_arrays(w->handle[i], false);
}

static void end(struct watched *w)
{
    int before = errno;
    if (w->n > FEW) {
        tw_free(w->handle);
        tw_free(w->own);
    }
    errno = before;
}

/* Around `call`, which uses w.status; `after` runs when MPI says success. */
#define FOLLOW(count, requests, statuses, plain, call, after) \
    do {                                                      \
        struct watched w;                                     \
        if (!tw_mpi_enter())                                  \
            return plain;                                     \
        if (!begin(&w, count, requests, statuses)) {          \
            int rc_ = plain;                                  \
            tw_mpi_leave();                                   \
            return rc_;                                       \
        }                                                     \
        int rc = call;                                        \
        if (rc == 0) {                                        \
            after                                             \
        }                                                     \
        end(&w);                                              \
        tw_mpi_leave();                                       \
        return rc;                                            \
    } while (0)

TW_WATCH(Wait, (request, status), void *request, void *status)
{
    FOLLOW(1, request, status, tw_mpi_replay_wait(real, request, status),
           tw_mpi_replay_wait(real, request, w.status), { ended(&w, 0, 0); });
}

TW_WATCH(Test, (request, flag, status), void *request, int *flag, void *status)
{
    FOLLOW(1, request, status, tw_mpi_replay_test(real, request, flag, status),
           tw_mpi_replay_test(real, request, flag, w.status), {
               if (*flag)
                   ended(&w, 0, 0);
           });
}

TW_WATCH(Waitall, (n, requests, statuses), int n, void *requests, void *statuses)
{
    FOLLOW(n, requests, statuses, tw_mpi_replay_waitall(real, n, requests, statuses),
           tw_mpi_replay_waitall(real, n, requests, w.status), {
               for (int i = 0; i < n; i++)
                   ended(&w, i, i);
           });
}

TW_WATCH(Testall, (n, requests, flag, statuses), int n, void *requests, int *flag, void *statuses)
{
    FOLLOW(n, requests, statuses, tw_mpi_replay_testall(real, n, requests, flag, statuses),
           tw_mpi_replay_testall(real, n, requests, flag, w.status), {
               for (int i = 0; *flag && i < n; i++)
                   ended(&w, i, i);
           });
}

TW_WATCH(Waitany, (n, requests, index, status), int n, void *requests, int *index, void *status)
{
    FOLLOW(n, requests, status, tw_mpi_replay_waitany(real, n, requests, index, status),
           tw_mpi_replay_waitany(real, n, requests, index, w.status), { ended(&w, *index, 0); });
}

TW_WATCH(Testany, (n, requests, index, flag, status), int n, void *requests, int *index, int *flag,
         void *status)
{
    FOLLOW(n, requests, status, tw_mpi_replay_testany(real, n, requests, index, flag, status),
           tw_mpi_replay_testany(real, n, requests, index, flag, w.status), {
               if (*flag)
                   ended(&w, *index, 0);
           });
}

TW_WATCH(Waitsome, (n, requests, done, which, statuses), int n, void *requests, int *done,
         int *which, void *statuses)
{
    FOLLOW(n, requests, statuses, tw_mpi_replay_waitsome(real, n, requests, done, which, statuses),
           tw_mpi_replay_waitsome(real, n, requests, done, which, w.status), {
               for (int i = 0; i < *done; i++) /* nothing where it is MPI_UNDEFINED, below 0 */
                   ended(&w, which[i], i);
           });
}

TW_WATCH(Testsome, (n, requests, done, which, statuses), int n, void *requests, int *done,
         int *which, void *statuses)
{
    FOLLOW(n, requests, statuses, tw_mpi_replay_testsome(real, n, requests, done, which, statuses),
           tw_mpi_replay_testsome(real, n, requests, done, which, w.status), {
               for (int i = 0; i < *done; i++)
                   ended(&w, which[i], i);
           });
}

TW_WATCH(Request_free, (request), void *request)
{
    int rc;
    bool seen = tw_mpi_enter();
    const tw_mpi_handle handle = tw_mpi_at(request, 0);
    if (seen)
        tw_mpi_forget(handle);
    if (!tw_mpi_replay_free(request, &rc))
        rc = real(request);
    if (rc == 0)
        tw_mpi_drop_arrays(handle, true);
    if (seen)
        tw_mpi_leave();
    return rc;
}

/* Of these only requests that we hold are of interest. */
TW_WATCH(Request_get_status, (request, flag, status), tw_mpi_handle request, int *flag,
         void *status)
{
    return tw_mpi_replay_status(request, flag, status) ? 0 : real(request, flag, status);
}

TW_WATCH(Cancel, (request), void *request)
{
    return tw_mpi_replay_cancel(tw_mpi_at(request, 0)) ? 0 : real(request);
}
