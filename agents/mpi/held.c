/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives that wait for the recorded message. The program gets a request that is never started (or
 * has a persistent one, which is not started either), and MPI a receive that asks for the recorded
 * sender and tag alone. It is posted once no receive that was posted before it could still have to
 * be given that message: so whenever the rank is given up, those that are open are posted as the
 * program asked for them, in their order, and all is as MPI could have done it.
 *
 * A receive that asks for one sender may wait for ever where the program is another one. So nothing
 * of the program's waits in MPI while there is one: what waits is asked again and again
 * (held_calls.c), and the clock runs while another message is there. Calls of which that cannot be
 * done (a collective, say) have all of them take what comes: tw_mpi_replay_pause().
 */
#include "replay.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "src/base/base.h"

enum { HELD_MOST = TW_ORDER_OPEN_MOST, LOOKS = 64 };
/* WAITING: nothing of it is known to MPI. NARROW: the recorded message is asked for. WIDE: what the
 * program asked for. */
enum stands { WAITING, NARROW, WIDE, COME };

struct tw_mpi_held {
    uint64_t id; /* of the request that the program has; 0: a blocking call */
    enum stands stands;
    enum tw_mpi_held_by by;
    bool cancelled; /* by the program */
    bool owns_type;
    struct tw_mpi_open o;
    void *buffer;
    int64_t n;
    int rc;
    tw_mpi_handle type, request;
    uint64_t others_since; /* monotonic: another message than the recorded one is there; 0: no */
    char status[TW_MPI_STATUS_MOST];
};

static struct tw_mpi_held *held[HELD_MOST]; /* in the order of their posting */
static _Atomic uint32_t count, waiting;     /* waiting: neither COME nor WIDE for good */
static uint32_t looks;
static bool paused, wide; /* wide: the rank was given up, and all were posted anew */
static atomic_flag lock = ATOMIC_FLAG_INIT;

TW_MPI_CALL(Irecv, (b, n, t, s, g, c, r), void *b, int n, tw_mpi_handle t, int s, int g,
            tw_mpi_handle c, tw_mpi_handle *r)
TW_MPI_CALL(Recv_init, (b, n, t, s, g, c, r), void *b, int n, tw_mpi_handle t, int s, int g,
            tw_mpi_handle c, void *r)
TW_MPI_CALL(Irecv_c, (b, n, t, s, g, c, r), void *b, int64_t n, tw_mpi_handle t, int s, int g,
            tw_mpi_handle c, tw_mpi_handle *r)
TW_MPI_CALL(Recv_init_c, (b, n, t, s, g, c, r), void *b, int64_t n, tw_mpi_handle t, int s, int g,
            tw_mpi_handle c, void *r)
TW_MPI_CALL(Test, (r, flag, s), tw_mpi_handle *r, int *flag, void *s)
TW_MPI_CALL(Wait, (r, s), tw_mpi_handle *r, void *s)
TW_MPI_CALL(Request_free, (r), void *r)
TW_MPI_ASK(Cancel, (r), tw_mpi_handle *r)
TW_MPI_ASK(Test_cancelled, (s, out), const void *s, int *out)
TW_MPI_ASK(Status_set_cancelled, (s, flag), void *s, int flag)
TW_MPI_ASK(Type_dup, (t, out), tw_mpi_handle t, tw_mpi_handle *out)
TW_MPI_ASK(Type_free, (t), tw_mpi_handle *t)
TW_MPI_ASK(Iprobe, (s, t, c, flag, status), int s, int t, tw_mpi_handle c, int *flag, void *status)

/* MPI may call back into the program, and that may call MPI: then nothing is held for it. */
static __thread bool busy __attribute__((tls_model("initial-exec")));

static void enter(void)
{
    tw_mpi_hold(&lock);
    busy = true;
}

static void leave(void)
{
    busy = false;
    tw_mpi_release(&lock);
}

bool tw_mpi_held_any(void)
{
    return atomic_load(&count) != 0 && !busy;
}

bool tw_mpi_held_waits(void)
{
    return atomic_load(&waiting) != 0 && !busy;
}

/* Of all, how many have no message yet? Holding the lock, as all that follow. */
static void count_waiting(void)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < count; i++)
        n += held[i]->stands == WAITING || held[i]->stands == NARROW ||
             (held[i]->stands == WIDE && !wide);
    atomic_store(&waiting, n);
}

/* ---- one receive */

static void come(struct tw_mpi_held *h, int rc)
{
    h->stands = COME;
    h->rc = rc;
}

static void post(struct tw_mpi_held *h, enum stands stands)
{
    const bool narrow = stands == NARROW;
    const int from = narrow ? h->o.source : h->o.from, tag = narrow ? h->o.wanted : h->o.tag;
    int rc = h->n > INT32_MAX
                 ? call_Irecv_c(h->buffer, h->n, h->type, from, tag, h->o.comm, &h->request)
                 : call_Irecv(h->buffer, (int)h->n, h->type, from, tag, h->o.comm, &h->request);
    h->stands = stands;
    if (rc != 0)
        come(h, rc);
}

/* It took what came while it was WIDE: is that another message than the recorded one? */
static bool is_other(const struct tw_mpi_held *h)
{
    const int any = tw_mpi_abi()->any_tag;
    return tw_mpi_source(h->status) != h->o.source ||
           (h->o.wanted != any && tw_mpi_tag(h->status) != h->o.wanted);
}

static void differs_by_message(const struct tw_mpi_held *h, const char *when)
{
    char found[160];
    snprintf(found, sizeof found, "a message from rank %d, tag %d, %s",
             tw_mpi_comm_peer(h->o.c, tw_mpi_source(h->status)), tw_mpi_tag(h->status), when);
    tw_mpi_differs(&h->o, found);
}

static void test(struct tw_mpi_held *h)
{
    int flag = 0;
    if (h->stands != NARROW && h->stands != WIDE)
        return;
    int rc = call_Test(&h->request, &flag, h->status);
    if (rc == 0 && !flag)
        return;
    const bool was_wide = h->stands == WIDE && h->o.number && !h->cancelled;
    come(h, rc);
    if (was_wide && rc == 0 && tw_mpi_replaying() && is_other(h))
        differs_by_message(h, "while the rank could not be looked after");
}

/* MPI is asked to give it back. It may have its message already; then it has come. */
static void take_back(struct tw_mpi_held *h, const char *when)
{
    int gone = 0;
    const bool was_wide = h->stands == WIDE && h->o.number && !h->cancelled;
    if (h->stands != NARROW && h->stands != WIDE)
        return;
    ask_Cancel(&h->request);
    int rc = call_Wait(&h->request, h->status);
    if (rc == 0 && !h->cancelled && ask_Test_cancelled(h->status, &gone) && gone) {
        h->stands = WAITING;
        return;
    }
    come(h, rc);
    if (was_wide && rc == 0 && tw_mpi_replaying() && is_other(h))
        differs_by_message(h, when);
}

/* The last one first: what comes meanwhile goes to one that was posted before it, as ever. */
static void take_all_back(const char *when)
{
    for (uint32_t i = count; i-- > 0;)
        take_back(held[i], when);
}

static void drop(uint32_t at)
{
    struct tw_mpi_held *h = held[at];
    if (h->owns_type)
        ask_Type_free(&h->type);
    tw_free(h);
    memmove(&held[at], &held[at + 1], (count - at - 1) * sizeof(struct tw_mpi_held *));
    atomic_fetch_sub(&count, 1);
    count_waiting();
}

/* ---- all of them */

/* May the receive have to be given the message that `o` takes? Where the tag of that is not known
 * it may be any. */
static bool accepts(const struct tw_mpi_held *h, const struct tw_mpi_open *o)
{
    const struct tw_mpi_abi *a = tw_mpi_abi();
    return h->stands != COME && !h->cancelled && tw_mpi_id(h->o.comm) == tw_mpi_id(o->comm) &&
           (h->o.from == a->any_source || o->source == a->any_source || h->o.from == o->source) &&
           (h->o.tag == a->any_tag || o->wanted == a->any_tag || h->o.tag == o->wanted);
}

/* Does one of the first `n` come before o? */
static bool is_behind(const struct tw_mpi_open *o, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (accepts(held[i], o))
            return true;
    return false;
}

static void post_all(enum stands stands)
{
    for (uint32_t i = 0; i < count; i++)
        if (held[i]->stands == WAITING &&
            (stands == WIDE ||
             (held[i]->o.source != TW_MPI_NO_SOURCE && !is_behind(&held[i]->o, i))))
            post(held[i], stands);
}

/* The rank was given up: what is open is asked for as the program did. */
static void widen(void)
{
    wide = true;
    take_all_back("");
    post_all(WIDE);
    count_waiting();
}

/* Is another message there than the recorded one, and for too long? */
static void look_for_others(struct tw_mpi_held *h)
{
    char own[TW_MPI_STATUS_MOST] = {0}, found[120];
    int there = 0;
    const bool chained = h->stands == WAITING && h->o.source != TW_MPI_NO_SOURCE;
    const uint64_t now = tw_monotonic_ns();
    if (h->stands == COME || h->cancelled || !h->o.number || chained ||
        (h->others_since && now - h->others_since <= tw_mpi_replay_wait_ns() &&
         !tw_mpi_is_told(TW_MPI_TOLD_MATCHES)) ||
        !ask_Iprobe(h->o.from, h->o.tag, h->o.comm, &there, own) || !there)
        return;
    const bool known = h->others_since != 0 || !h->o.m;
    h->others_since = h->others_since ? h->others_since : now;
    if (!known)
        return;
    if (h->o.m && now - h->others_since <= tw_mpi_replay_wait_ns()) {
        tw_mpi_release_with_others(&h->o);
        return;
    }
    snprintf(found, sizeof found, "for %g s only others, first from rank %d, tag %d",
             (double)(tw_mpi_replay_wait_ns() / 1000000) / 1000.0,
             tw_mpi_comm_peer(h->o.c, tw_mpi_source(own)), tw_mpi_tag(own));
    if (h->o.m)
        tw_mpi_differs(&h->o, found);
    else
        tw_mpi_differs_by_call(&h->o);
}

static void look(void)
{
    for (uint32_t i = 0; i < count; i++)
        test(held[i]);
    if (!wide && !paused && tw_mpi_replaying()) {
        post_all(NARROW);
        if (++looks % LOOKS == 0)
            for (uint32_t i = 0; i < count && tw_mpi_replaying(); i++)
                look_for_others(held[i]);
    }
    if (!wide && !paused && !tw_mpi_replaying())
        widen();
    count_waiting();
}

void tw_mpi_held_look(void)
{
    int before = errno;
    if (!tw_mpi_held_any())
        return;
    enter();
    look();
    leave();
    errno = before;
}

bool tw_mpi_held_wants(const struct tw_mpi_open *o)
{
    bool wants = false;
    if (!tw_mpi_held_waits())
        return false;
    enter();
    look();
    wants = !wide && is_behind(o, count);
    leave();
    return wants;
}

void tw_mpi_replay_pause(void)
{
    int before = errno;
    if (!tw_mpi_held_waits())
        return;
    enter();
    look();
    if (!wide && waiting) {
        take_all_back("");
        paused = true;
        post_all(WIDE);
    }
    leave();
    errno = before;
}

void tw_mpi_replay_resume(const char *function)
{
    char when[80];
    int before = errno;
    if (!tw_mpi_held_any())
        return;
    snprintf(when, sizeof when, "during %.60s", function);
    enter();
    if (paused) {
        take_all_back(when);
        paused = false;
        look();
    }
    leave();
    errno = before;
}

void tw_mpi_replay_comm_gone(tw_mpi_handle comm)
{
    bool open = false;
    if (!tw_mpi_held_waits())
        return;
    enter();
    for (uint32_t i = 0; i < count; i++)
        if (held[i]->stands != COME && tw_mpi_id(held[i]->o.comm) == tw_mpi_id(comm) && !open) {
            open = true; /* later it could not be posted anew */
            tw_mpi_differs(&held[i]->o, "the communicator was freed");
        }
    look();
    leave();
}

/* ---- from the program's calls */

static struct tw_mpi_held *made(struct tw_mpi_open *o, void *buffer, int64_t n, tw_mpi_handle type)
{
    enum twin_dtype predefined;
    struct tw_mpi_held *h = tw_calloc(1, sizeof *h);
    if (!h)
        return NULL;
    h->o = *o;
    h->buffer = buffer;
    h->n = n;
    h->type = type;
    if (!tw_mpi_predefined(type, &predefined)) /* the program may free it while it is under way */
        h->owns_type = ask_Type_dup(type, &h->type);
    return h;
}

int tw_mpi_held_post(struct tw_mpi_open *o, enum tw_mpi_held_by by, void *buffer, int64_t n,
                     tw_mpi_handle type, void *request, struct tw_mpi_held **out)
{
    int rc = 0;
    struct tw_mpi_held *h = made(o, buffer, n, type);
    *out = NULL;
    if (h && by == TW_MPI_BY_REQUEST)
        rc = n > INT32_MAX
                 ? call_Recv_init_c(buffer, n, type, o->from, o->tag, o->comm, request)
                 : call_Recv_init(buffer, (int)n, type, o->from, o->tag, o->comm, request);
    enter();
    const bool room = h && count < HELD_MOST;
    if (!wide && room && rc == 0) {
        h->by = by;
        h->id = by == TW_MPI_BY_CALL ? 0 : tw_mpi_id(tw_mpi_at(request, 0));
        held[count] = h;
        atomic_fetch_add(&count, 1);
        *out = h;
        if (paused) /* by another thread, which is in a collective: as all others are then */
            post(h, WIDE);
    } else if (rc == 0 && !room) {
        tw_mpi_differs(o, "more receives under way than can be held");
    }
    look();
    leave();
    if (*out)
        return 0;
    if (h && by == TW_MPI_BY_REQUEST && rc == 0)
        call_Request_free(request);
    if (h && h->owns_type)
        ask_Type_free(&h->type);
    tw_free(h);
    return rc;
}

/* Copies a status, but its MPI_ERROR, which belongs to calls that end several requests. */
static void tell(const struct tw_mpi_held *h, void *status)
{
    const struct tw_mpi_abi *a = tw_mpi_abi();
    int error;
    if ((uintptr_t)status == a->ignore)
        return;
    memcpy(&error, (char *)status + a->error, sizeof error);
    memcpy(status, h->status, a->status_bytes);
    memcpy((char *)status + a->error, &error, sizeof error);
}

static uint32_t place_of(const struct tw_mpi_held *h, uint64_t id)
{
    uint32_t at = 0;
    while (at < count && (h ? held[at] != h : held[at]->id != id))
        at++;
    return h || id ? at : count; /* those of blocking calls have no number */
}

bool tw_mpi_held_ended(struct tw_mpi_held *h, void *status, int *rc)
{
    enter();
    look();
    const uint32_t at = place_of(h, 0);
    const bool ended = at < count && h->stands == COME;
    if (ended) {
        tell(h, status);
        *rc = h->rc;
        drop(at);
    }
    leave();
    return ended;
}

enum tw_mpi_held_is tw_mpi_held_is(tw_mpi_handle request, void *status)
{
    enum tw_mpi_held_is is = TW_MPI_HELD_NONE;
    enter();
    const uint32_t at = place_of(NULL, tw_mpi_id(request));
    if (at < count)
        is = held[at]->stands == COME ? TW_MPI_HELD_COME : TW_MPI_HELD_OPEN;
    if (is == TW_MPI_HELD_COME && status)
        tell(held[at], status);
    leave();
    return is;
}

int tw_mpi_held_give(void *request, void *status)
{
    int rc = 0;
    enter();
    const uint32_t at = place_of(NULL, tw_mpi_id(tw_mpi_at(request, 0)));
    if (at < count) {
        const bool again = held[at]->by == TW_MPI_BY_START;
        tell(held[at], status);
        rc = held[at]->rc;
        drop(at);
        if (!again)
            call_Request_free(request); /* MPI_REQUEST_NULL is put there */
    }
    leave();
    return rc;
}

bool tw_mpi_held_cancel(tw_mpi_handle request)
{
    enter();
    const uint32_t at = place_of(NULL, tw_mpi_id(request));
    struct tw_mpi_held *h = at < count ? held[at] : NULL;
    if (h)
        h->cancelled = true;
    if (h && h->stands == WAITING) {
        ask_Status_set_cancelled(h->status, 1);
        come(h, 0);
    } else if (h && h->stands != COME) {
        ask_Cancel(&h->request);
    }
    if (h)
        look();
    leave();
    return h != NULL;
}

bool tw_mpi_held_free(void *request, int *rc)
{
    enter();
    const uint32_t at = place_of(NULL, tw_mpi_id(tw_mpi_at(request, 0)));
    const bool ours = at < count;
    if (ours) {
        if (held[at]->stands == WAITING) /* what comes is still to be put into its buffer */
            post(held[at], WIDE);
        if (held[at]->stands != COME)
            call_Request_free(&held[at]->request);
        drop(at);
        *rc = call_Request_free(request);
    }
    leave();
    return ours;
}
