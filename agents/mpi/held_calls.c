/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's calls while there are receives that we hold (held.c): what waits in MPI is made of
 * calls that do not wait, so that those receives are looked after. Where there is none, each is
 * MPI's own call.
 */
#include "replay.h"

#include <errno.h>
#include <string.h>
#include "src/base/base.h"

TW_MPI_ASK(Pack_size, (n, t, c, out), int n, tw_mpi_handle t, tw_mpi_handle c, int *out)
TW_MPI_ASK(Pack, (in, n, t, out, room, at, c), const void *in, int n, tw_mpi_handle t, void *out,
           int room, int *at, tw_mpi_handle c)
TW_MPI_CALL(Isend, (b, n, t, to, g, c, r), const void *b, int n, tw_mpi_handle t, int to, int g,
            tw_mpi_handle c, void *r)
TW_MPI_CALL(Issend, (b, n, t, to, g, c, r), const void *b, int n, tw_mpi_handle t, int to, int g,
            tw_mpi_handle c, void *r)
TW_MPI_CALL(Irsend, (b, n, t, to, g, c, r), const void *b, int n, tw_mpi_handle t, int to, int g,
            tw_mpi_handle c, void *r)
TW_MPI_CALL(Recv, (b, n, t, s, g, c, status), void *b, int n, tw_mpi_handle t, int s, int g,
            tw_mpi_handle c, void *status)
TW_MPI_CALL(Isend_c, (b, n, t, to, g, c, r), const void *b, int64_t n, tw_mpi_handle t, int to,
            int g, tw_mpi_handle c, void *r)
TW_MPI_CALL(Issend_c, (b, n, t, to, g, c, r), const void *b, int64_t n, tw_mpi_handle t, int to,
            int g, tw_mpi_handle c, void *r)
TW_MPI_CALL(Irsend_c, (b, n, t, to, g, c, r), const void *b, int64_t n, tw_mpi_handle t, int to,
            int g, tw_mpi_handle c, void *r)
TW_MPI_CALL(Recv_c, (b, n, t, s, g, c, status), void *b, int64_t n, tw_mpi_handle t, int s, int g,
            tw_mpi_handle c, void *status)
TW_MPI_CALL(Wait, (r, s), void *r, void *s)
TW_MPI_CALL(Test, (r, flag, s), void *r, int *flag, void *s)
TW_MPI_CALL(Testany, (n, r, index, flag, s), int n, void *r, int *index, int *flag, void *s)
TW_MPI_ASK(Test_cancelled, (s, out), const void *s, int *out)
TW_MPI_CALL(Request_get_status, (r, flag, s), tw_mpi_handle r, int *flag, void *s)

static void *ignored(void)
{
    return (void *)tw_mpi_abi()->ignore; /* NOLINT: MPI_STATUS_IGNORE is a number */
}

static void *request_at(void *requests, int i)
{
    return (char *)requests + (size_t)i * tw_mpi_abi()->handle_bytes;
}

static void *status_at(void *statuses, int i)
{
    return statuses == ignored() ? statuses
                                 : (char *)statuses + (size_t)i * tw_mpi_abi()->status_bytes;
}

/* ---- receives */

static struct tw_mpi_open opened(const struct tw_mpi_call *call, tw_mpi_handle comm)
{
    const struct tw_mpi_abi *a = tw_mpi_abi();
    struct tw_mpi_open o = {.function = call->function,
                            .c = call->comm,
                            .comm = comm,
                            .from = call->peer,
                            .tag = call->tag,
                            .number = call->number};
    o.open = (o.from == a->any_source ? (unsigned)TW_ORDER_ANY_SOURCE : 0U) |
             (o.tag == a->any_tag ? (unsigned)TW_ORDER_ANY_TAG : 0U);
    if (o.open == 0 && o.number) /* the probe left it open, and it asks for what that found */
        o.open = (strstr(call->detail, "any source") ? (unsigned)TW_ORDER_ANY_SOURCE : 0U) |
                 (strstr(call->detail, "any tag") ? (unsigned)TW_ORDER_ANY_TAG : 0U) |
                 TW_ORDER_PROBED;
    return o;
}

/* Is the receive to be held? waits: it would wait in MPI. May give the rank up. */
static bool is_to_be_held(struct tw_mpi_open *o, bool waits)
{
    if (o->from == tw_mpi_abi()->proc_null)
        return false;
    const enum tw_mpi_expected is = tw_mpi_expect(o);
    if (is == TW_MPI_RECORDED || (is == TW_MPI_OTHER && !o->m && !waits))
        return true;
    if (is == TW_MPI_OTHER)
        tw_mpi_differs_by_call(o);
    tw_mpi_held_look();
    o->source = o->from;
    o->wanted = o->tag;
    return o->open == 0 && (waits ? tw_mpi_held_waits() : tw_mpi_held_wants(o));
}

bool tw_mpi_replay_recv(const struct tw_mpi_call *call, void *buffer, int64_t n, tw_mpi_handle type,
                        tw_mpi_handle comm, void *status, int *rc)
{
    struct tw_mpi_held *h = NULL;
    struct tw_mpi_open o = opened(call, comm);
    if (is_to_be_held(&o, true))
        tw_mpi_held_post(&o, TW_MPI_BY_CALL, buffer, n, type, NULL, &h);
    if (!h)
        return false;
    while (!tw_mpi_held_ended(h, status, rc))
        sched_yield();
    return true;
}

bool tw_mpi_replay_irecv(const struct tw_mpi_call *call, void *buffer, int64_t n,
                         tw_mpi_handle type, tw_mpi_handle comm, void *request, int *rc)
{
    struct tw_mpi_held *h = NULL;
    struct tw_mpi_open o = opened(call, comm);
    if (!is_to_be_held(&o, false))
        return false;
    *rc = tw_mpi_held_post(&o, TW_MPI_BY_REQUEST, buffer, n, type, request, &h);
    return h || *rc != 0;
}

bool tw_mpi_replay_start(const struct tw_mpi_pending *p, void *request)
{
    struct tw_mpi_held *h = NULL;
    struct tw_mpi_open o = opened(&p->call, p->data.comm);
    if (is_to_be_held(&o, false))
        tw_mpi_held_post(&o, TW_MPI_BY_START, (void *)p->data.buffer, p->data.count,
                         p->data.type.handle, request, &h);
    return h != NULL;
}

bool tw_mpi_replay_on(void)
{
    return tw_mpi_held_any() || (tw_mpi_order() && tw_mpi_replaying());
}

/* ---- sends */

/* A count that no int holds can only be one of a call with large counts, so there are such calls.
 */
static int isend(enum tw_mpi_send how, const void *buffer, int64_t n, tw_mpi_handle type, int to,
                 int tag, tw_mpi_handle comm, tw_mpi_handle *request)
{
    const bool large = n > INT32_MAX;
    const int few = (int)n;
    switch (how) {
    case TW_MPI_SSEND:
        return large ? call_Issend_c(buffer, n, type, to, tag, comm, request)
                     : call_Issend(buffer, few, type, to, tag, comm, request);
    case TW_MPI_RSEND:
        return large ? call_Irsend_c(buffer, n, type, to, tag, comm, request)
                     : call_Irsend(buffer, few, type, to, tag, comm, request);
    case TW_MPI_SEND: break;
    }
    return large ? call_Isend_c(buffer, n, type, to, tag, comm, request)
                 : call_Isend(buffer, few, type, to, tag, comm, request);
}

bool tw_mpi_replay_send(enum tw_mpi_send how, const void *buffer, int64_t n, tw_mpi_handle type,
                        int to, int tag, tw_mpi_handle comm, int *rc)
{
    tw_mpi_handle request = NULL;
    int sent = 0;
    if (!tw_mpi_held_waits())
        return false;
    *rc = isend(how, buffer, n, type, to, tag, comm, &request);
    while (*rc == 0 && !sent) {
        *rc = call_Test(&request, &sent, ignored());
        tw_mpi_held_look();
        if (!sent)
            sched_yield();
    }
    return true;
}

bool tw_mpi_replay_sendrecv(const struct tw_mpi_call *call, const void *out, int64_t out_n,
                            tw_mpi_handle out_type, int to, int out_tag, void *in, int64_t n,
                            tw_mpi_handle type, tw_mpi_handle comm, void *status, int *rc)
{
    struct tw_mpi_held *h = NULL;
    tw_mpi_handle request = NULL;
    int sent = 0, send_rc;
    bool got = false;
    struct tw_mpi_open o = opened(call, comm);
    if (!is_to_be_held(&o, true))
        return false;
    *rc = isend(TW_MPI_SEND, out, out_n, out_type, to, out_tag, comm, &request);
    if (*rc != 0)
        return true;
    tw_mpi_held_post(&o, TW_MPI_BY_CALL, in, n, type, NULL, &h);
    if (!h) {
        *rc = n > INT32_MAX ? call_Recv_c(in, n, type, o.from, o.tag, comm, status)
                            : call_Recv(in, (int)n, type, o.from, o.tag, comm, status);
        send_rc = call_Wait(&request, ignored());
    }
    for (send_rc = 0; h && (!sent || !got);) {
        got = got || tw_mpi_held_ended(h, status, rc);
        if (!sent && (send_rc = call_Test(&request, &sent, ignored())) != 0)
            sent = 1;
        sched_yield();
    }
    *rc = *rc ? *rc : send_rc;
    return true;
}

/* What is sent is copied: the message that is received may come first. False: nothing was done. */
static bool copied(const void *buffer, int64_t n, tw_mpi_handle type, tw_mpi_handle comm,
                   void **copy, int *bytes)
{
    int room = 0;
    *copy = NULL;
    *bytes = 0;
    if (n > INT32_MAX || !tw_mpi_packed() || !ask_Pack_size((int)n, type, comm, &room) || room < 0)
        return false;
    *copy = tw_malloc((size_t)room + 1);
    return *copy && ask_Pack(buffer, (int)n, type, *copy, room, bytes, comm);
}

bool tw_mpi_replay_sendrecv_replace(const struct tw_mpi_call *call, void *buffer, int64_t n,
                                    tw_mpi_handle type, int to, int tag, tw_mpi_handle comm,
                                    void *status, int *rc)
{
    const int before = errno;
    void *copy = NULL;
    int bytes = 0;
    bool done = false;
    if (tw_mpi_replay_on() && copied(buffer, n, type, comm, &copy, &bytes))
        done = tw_mpi_replay_sendrecv(call, copy, bytes, tw_mpi_packed(), to, tag, buffer, n, type,
                                      comm, status, rc);
    tw_free(copy);
    errno = before;
    return done;
}

/* ---- ends of requests */

int tw_mpi_replay_wait(tw_mpi_wait_fn *real, void *request, void *status)
{
    while (tw_mpi_held_any()) {
        int ended = 0;
        tw_mpi_held_look();
        const enum tw_mpi_held_is is = tw_mpi_held_is(tw_mpi_at(request, 0), NULL);
        if (is == TW_MPI_HELD_COME)
            return tw_mpi_held_give(request, status);
        if (is == TW_MPI_HELD_NONE) {
            int rc = call_Test(request, &ended, status);
            if (rc != 0 || ended)
                return rc;
        }
        sched_yield();
    }
    return real(request, status);
}

/* All have to end, so one is waited for after another. */
static int wait_for_each(int n, void *requests, void *statuses)
{
    int rc = 0;
    for (int i = 0; i < n; i++) {
        int one = tw_mpi_replay_wait(call_Wait, request_at(requests, i), status_at(statuses, i));
        rc = rc ? rc : one;
    }
    return rc;
}

int tw_mpi_replay_waitall(tw_mpi_waitall_fn *real, int n, void *requests, void *statuses)
{
    if (!tw_mpi_held_any())
        return real(n, requests, statuses);
    return wait_for_each(n, requests, statuses);
}

int tw_mpi_replay_testall(tw_mpi_testall_fn *real, int n, void *requests, int *flag, void *statuses)
{
    if (!tw_mpi_held_any())
        return real(n, requests, flag, statuses);
    tw_mpi_held_look();
    *flag = 1;
    for (int i = 0; i < n && *flag; i++) {
        tw_mpi_handle h = tw_mpi_at(requests, (size_t)i);
        const enum tw_mpi_held_is is = tw_mpi_held_is(h, NULL);
        if (is != TW_MPI_HELD_NONE)
            *flag = is == TW_MPI_HELD_COME;
        else if (call_Request_get_status(h, flag, ignored()) != 0)
            return real(n, requests, flag, statuses);
    }
    return *flag ? wait_for_each(n, requests, statuses) : 0;
}

/* ---- calls that choose among several */

enum ended { NONE_ACTIVE, NOT_YET, ENDED };

/* Is it complete? It is left as it is. */
static bool is_complete(tw_mpi_handle request, void *status)
{
    int flag = 0;
    const enum tw_mpi_held_is is = tw_mpi_held_is(request, status);
    if (is != TW_MPI_HELD_NONE)
        return is == TW_MPI_HELD_COME;
    return call_Request_get_status(request, &flag, status) == 0 && flag;
}

/* Of all receives that are complete the oldest one that is the next one by the recording. */
static enum ended next_of(int n, void *requests, int *index)
{
    enum ended is = NONE_ACTIVE;
    uint64_t best = UINT64_MAX, age;
    bool others = false;
    for (int i = 0; i < n; i++) {
        char status[TW_MPI_STATUS_MOST] = {0};
        struct tw_mpi_comm *c;
        tw_mpi_handle h = tw_mpi_at(requests, (size_t)i);
        if (!tw_mpi_receives(h, &c, &age))
            continue;
        is = is == NONE_ACTIVE ? NOT_YET : is;
        int cancelled = 0;
        if (!is_complete(h, status))
            continue;
        cancelled = ask_Test_cancelled(status, &cancelled) && cancelled;
        if (!cancelled && !tw_mpi_end_is_next(c, status)) {
            others = true;
        } else if (age < best) {
            best = age;
            *index = i;
            is = ENDED;
        }
    }
    if (others && is != ENDED)
        tw_mpi_end_held_back();
    return is;
}

/* One that has ended, of those that are receives and of the others: its number in *index, what MPI
 * said of it in *rc. in_order: of receives the next one alone. */
static enum ended any(int n, void *requests, int *index, void *status, int *rc)
{
    tw_mpi_held_look();
    const bool in_order = tw_mpi_ends_replayed();
    enum ended is = in_order ? next_of(n, requests, index) : NONE_ACTIVE;
    if (is == ENDED) {
        *rc = tw_mpi_replay_wait(call_Wait, request_at(requests, *index), status);
        return ENDED;
    }
    for (int i = 0; i < n; i++) {
        int found = 0, flag = 0;
        uint64_t age;
        struct tw_mpi_comm *c;
        tw_mpi_handle h = tw_mpi_at(requests, (size_t)i);
        const enum tw_mpi_held_is held = tw_mpi_held_is(h, NULL);
        if (held != TW_MPI_HELD_NONE)
            is = NOT_YET;
        if (in_order && tw_mpi_receives(h, &c, &age))
            continue;
        if (held == TW_MPI_HELD_COME) {
            *index = i;
            *rc = tw_mpi_held_give(request_at(requests, i), status);
            return ENDED;
        }
        if (held != TW_MPI_HELD_NONE)
            continue;
        *rc = call_Testany(1, request_at(requests, i), &found, &flag, status);
        if (*rc != 0 || (flag && found != TW_MPI_UNDEFINED)) {
            *index = i;
            return ENDED;
        }
        is = flag ? is : NOT_YET;
    }
    return is;
}

static bool is_replayed(void)
{
    return tw_mpi_held_any() || tw_mpi_ends_replayed();
}

int tw_mpi_replay_waitany(tw_mpi_waitany_fn *real, int n, void *requests, int *index, void *status)
{
    int rc;
    while (is_replayed()) {
        const enum ended is = any(n, requests, index, status, &rc);
        if (is == ENDED)
            return rc;
        if (is == NONE_ACTIVE)
            break;
        sched_yield();
    }
    return real(n, requests, index, status);
}

int tw_mpi_replay_testany(tw_mpi_testany_fn *real, int n, void *requests, int *index, int *flag,
                          void *status)
{
    int rc = 0;
    enum ended is = is_replayed() ? any(n, requests, index, status, &rc) : NONE_ACTIVE;
    if (is == NONE_ACTIVE)
        return real(n, requests, index, flag, status);
    *flag = is == ENDED;
    if (is == NOT_YET)
        *index = TW_MPI_UNDEFINED;
    return rc;
}

/* One at a time: how many of them came at once is not recorded, and MPI may do so. */
int tw_mpi_replay_waitsome(tw_mpi_some_fn *real, int n, void *requests, int *done, int *which,
                           void *statuses)
{
    int rc;
    while (is_replayed()) {
        const enum ended is = any(n, requests, which, statuses, &rc);
        if (is == NONE_ACTIVE)
            break;
        *done = is == ENDED;
        if (is == ENDED)
            return rc;
        sched_yield();
    }
    return real(n, requests, done, which, statuses);
}

int tw_mpi_replay_testsome(tw_mpi_some_fn *real, int n, void *requests, int *done, int *which,
                           void *statuses)
{
    int rc = 0;
    enum ended is = is_replayed() ? any(n, requests, which, statuses, &rc) : NONE_ACTIVE;
    if (is == NONE_ACTIVE)
        return real(n, requests, done, which, statuses);
    *done = is == ENDED;
    return rc;
}

int tw_mpi_replay_test(tw_mpi_test_fn *real, void *request, int *flag, void *status)
{
    int index, rc = 0;
    enum ended is = is_replayed() ? any(1, request, &index, status, &rc) : NONE_ACTIVE;
    if (is == NONE_ACTIVE)
        return real(request, flag, status);
    *flag = is == ENDED;
    return rc;
}

bool tw_mpi_replay_status(tw_mpi_handle request, int *flag, void *status)
{
    if (!tw_mpi_held_any())
        return false;
    tw_mpi_held_look();
    const enum tw_mpi_held_is is = tw_mpi_held_is(request, status);
    if (is != TW_MPI_HELD_NONE)
        *flag = is == TW_MPI_HELD_COME;
    return is != TW_MPI_HELD_NONE;
}

bool tw_mpi_replay_cancel(tw_mpi_handle request)
{
    return tw_mpi_held_any() && tw_mpi_held_cancel(request);
}

bool tw_mpi_replay_free(void *request, int *rc)
{
    return tw_mpi_held_any() && tw_mpi_held_free(request, rc);
}
