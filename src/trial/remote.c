/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of runs on an engine. service() is the one loop that all of it turns on: it hands over
 * what waits, looks for claims and results in the tickets' folders, asks the engine now and then
 * what it knows, ends what is to be ended, and decides what was lost. It is called while somebody
 * waits for one of the runs.
 *
 * A ticket's number is drawn anew for each attempt, and its folder is a new one: nothing that an
 * earlier attempt may still write is ever read.
 */
#include "remote.h"

#include "base.h"
#include "phrase.h"
#include "run_state.h"

#include "src/engine/order.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A run that is lost so often is lost for a reason that another attempt does not change. */
enum { ATTEMPTS_MAX = 4 };
/* A run that was told to end gets so long before the engine is told to end it. */
enum { STOP_GRACE_S = 60 };
/* A run that waits so long for its turn is told of once, with the engine's reason. */
enum { WAIT_SAID_S = 120 };
/* The pulse by which nodes know that somebody still wants their runs. */
enum { PULSE_S = 10, ROUND_MS = 50, WATCH_MS = 500 };

enum phase { WAITS, SENT, ENDED };

struct tw_remote_run {
    struct tw_remote *of;
    struct tw_trial trial;
    struct tw_buf body; /* of the order */
    struct tw_place place;
    enum phase phase;
    struct tw_ticket ticket;
    uint32_t attempt;
    uint64_t left_ns; /* of the deadline, for a run that may wait in a queue; 0: none */
    uint64_t started_ns, gone_ns, stop_ns, watched_ns, seen_ns;
    bool asked_end, misplaced, cancelled;
    char *dir;
    int rc;
    struct twin_error err;
};

static double seconds_since(uint64_t ns)
{
    return (double)(tw_monotonic_ns() - ns) * 1e-9;
}

/* ---- open and close */

int tw_remote_open(struct tw_remote *r, const struct tw_remote_asked *asked, const char *home,
                   const struct tw_front *front, struct twin_error *err)
{
    char stamp[32];
    *r = (struct tw_remote){.front = front};
    if (!asked->on) {
        if (asked->place || asked->hosts || asked->slots)
            return twin_error_set(err, TWIN_EINVAL,
                                  "--place, --hosts and --slots belong to --on: expected it too");
        return 0;
    }
    int rc = tw_engine_open(asked->on, asked->hosts, (size_t)asked->slots, &r->engine, err);
    if (rc == 0 && asked->place)
        rc = tw_place_parse(asked->place, &r->place, err);
    if (rc == 0 && r->engine)
        rc = tw_engine_knows_place(r->engine, &r->place, err);
    if (rc != 0 || !r->engine)
        return rc;
    tw_utc_stamp(tw_realtime_ns(), stamp);
    r->folder = tw_printf("%s/engine/%s-%d", home, stamp, (int)getpid());
    rc = r->folder ? twin_home_make(home, err) : tw_no_memory(err, "for an engine's tickets");
    rc = rc ? rc : tw_mkdirs(r->folder, err);
    if (rc == 0 && chmod(r->folder, 0700) != 0)
        rc = twin_error_system(err, "cannot keep %s from others", r->folder);
    return rc;
}

static void forget(struct tw_remote_run *x)
{
    twin_run_free(x->trial.run);
    tw_buf_free(&x->body);
    tw_place_free(&x->place);
    tw_place_free(&x->ticket.place);
    tw_free(x->ticket.folder);
    tw_free(x->dir);
    tw_free(x);
}

/* Tells the node that the run is to end. */
static void write_stop(struct tw_remote_run *x)
{
    char *path = x->ticket.folder ? tw_path_join(x->ticket.folder, "stop") : NULL;
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd >= 0)
        close(fd);
    tw_free(path);
    if (!x->stop_ns)
        x->stop_ns = tw_monotonic_ns();
}

/* The attempt is over: its place at the engine is free. */
static void let_go(struct tw_remote_run *x)
{
    if (x->phase == SENT)
        tw_engine_release(x->of->engine, &x->ticket);
}

static void take_back(struct tw_remote_run *x)
{
    struct tw_ticket *t = &x->ticket;
    if (x->phase != SENT)
        return;
    write_stop(x);
    tw_engine_cancel(x->of->engine, &t, 1);
    let_go(x);
    x->phase = ENDED;
}

void tw_remote_drop(struct tw_remote_run *x)
{
    if (!x)
        return;
    struct tw_remote *r = x->of;
    take_back(x);
    for (size_t i = 0; i < r->count; i++)
        if (r->run[i] == x) {
            /* the others keep their order, in which they are handed over */
            memmove(&r->run[i], &r->run[i + 1], (--r->count - i) * sizeof(struct tw_remote_run *));
            break;
        }
    forget(x);
}

/* All at once, since an engine takes a list. */
static void take_all_back(struct tw_remote *r)
{
    struct tw_ticket **t = tw_calloc(r->count + 1, sizeof *t);
    size_t n = 0;
    for (size_t i = 0; i < r->count; i++)
        if (r->run[i]->phase == SENT) {
            write_stop(r->run[i]);
            if (t)
                t[n++] = &r->run[i]->ticket;
        }
    tw_engine_cancel(r->engine, t, n);
    for (size_t i = 0; i < r->count; i++) {
        let_go(r->run[i]);
        if (r->run[i]->phase != ENDED)
            r->run[i]->rc = twin_error_set(&r->run[i]->err, TWIN_EINTR, "interrupted");
        r->run[i]->phase = ENDED;
    }
    tw_free(t);
}

void tw_remote_close(struct tw_remote *r)
{
    if (r->engine)
        take_all_back(r);
    while (r->count)
        forget(r->run[--r->count]);
    tw_free(r->run);
    if (r->folder)
        tw_remove_tree(r->folder, NULL, NULL);
    tw_free(r->folder);
    tw_free(r->processor);
    tw_free(r->type);
    tw_place_free(&r->place);
    for (size_t i = 0; i < r->why_count; i++)
        tw_free(r->why[i]);
    tw_engine_close(r->engine);
    *r = (struct tw_remote){.engine = NULL};
}

/* ---- giving away */

/* Nodes have not our stdin. It is read to its end before the first run, and each run reads the
 * file. */
static int keep_stdin(struct tw_remote *r, const char *spool, struct twin_error *err)
{
    char chunk[65536];
    struct stat st;
    /* a device (/dev/null) gives nodes nothing that their own does not */
    if (r->stdin_kept || !spool || fstat(STDIN_FILENO, &st) != 0 || S_ISCHR(st.st_mode))
        return 0;
    int fd = open(spool, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), rc = 0;
    if (fd < 0)
        return twin_error_system(err, "cannot keep stdin in %s", spool);
    uint64_t began = tw_monotonic_ns();
    bool told = false;
    for (;;) {
        struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
        int ready = poll(&p, 1, 200);
        if (tw_front_stops(r->front)) {
            rc = twin_error_set(err, TWIN_EINTR, "interrupted");
            break;
        }
        if (ready == 0 && !told && seconds_since(began) > 1) {
            told = true;
            tw_front_say(r->front, "reading the standard input to its end: the runs are made "
                                   "elsewhere (give </dev/null where the job reads none)");
        }
        if (ready <= 0)
            continue;
        ssize_t n = read(STDIN_FILENO, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        if (tw_write_all(fd, chunk, (size_t)n) != 0) {
            rc = twin_error_system(err, "cannot keep stdin in %s", spool);
            break;
        }
    }
    close(fd);
    r->stdin_kept = rc == 0;
    return rc;
}

static int keep(struct tw_remote *r, struct tw_remote_run *x, struct twin_error *err)
{
    if (r->count == r->room) {
        size_t room = r->room ? 2 * r->room : 16;
        struct tw_remote_run **grown = tw_reallocarray(r->run, room, sizeof *grown);
        if (!grown)
            return tw_no_memory(err, "for %zu runs", r->count + 1);
        r->run = grown;
        r->room = room;
    }
    r->run[r->count++] = x;
    return 0;
}

int tw_remote_add(const struct twin_launch_options *o, const struct tw_trial *asked,
                  struct tw_remote_run **out, struct twin_error *err)
{
    struct tw_remote *r = o->on;
    *out = NULL;
    if (r->stopped || tw_front_stops(r->front))
        return twin_error_set(err, TWIN_EINTR, "interrupted");
    int rc = keep_stdin(r, o->stdin_spool, err);
    struct tw_remote_run *x = rc == 0 ? tw_calloc(1, sizeof *x) : NULL;
    if (rc == 0 && !x)
        rc = tw_no_memory(err, "for a run");
    if (rc != 0)
        return rc;
    x->of = r;
    x->trial = *asked;
    x->trial.title = NULL;
    x->trial.run = NULL;
    x->trial.end = TW_TRIAL_RAN;
    if (asked->deadline_ns && !asked->holds_in_queue) {
        uint64_t now = tw_monotonic_ns();
        x->left_ns = asked->deadline_ns > now ? asked->deadline_ns - now : 1;
    }
    rc = tw_order_body(o, asked->bare, &x->body, err);
    if (rc == 0 && o->at_node) {
        x->place.kind = TW_PLACE_PIN;
        if (!(x->place.hosts = tw_strdup(o->at_node)))
            rc = tw_no_memory(err, "for a place");
    } else if (rc == 0) {
        rc = tw_place_copy(&r->place, &x->place, err);
    }
    if (rc == 0)
        rc = keep(r, x, err);
    if (rc == 0)
        *out = x;
    else
        forget(x);
    return rc;
}

/* ---- placing */

/* A processor that a run has shown counts; of a node that had no run yet, the engine's word. */
static bool is_of_other_type(const struct tw_remote *r, const struct tw_node *n)
{
    if (!r->processor)
        return false;
    if (n->processor)
        return strcmp(n->processor, r->processor) != 0;
    return r->type && strcmp(n->type, r->type) != 0;
}

/* Nodes of another type than the first run's, with commas; "" when there is none. */
static char *nodes_of_other_types(const struct tw_remote *r)
{
    struct tw_buf b = {0};
    size_t n;
    const struct tw_node *node = tw_engine_nodes(r->engine, &n);
    tw_buf_puts(&b, "");
    for (size_t i = 0; i < n; i++)
        if (is_of_other_type(r, &node[i]))
            tw_buf_printf(&b, "%s%s", b.len ? "," : "", node[i].name);
    return tw_buf_steal(&b);
}

/* What the engine is told of a run's place: only names, since types are ours to compare. */
static int place_now(const struct tw_remote_run *x, struct tw_place *out, struct twin_error *err)
{
    if (x->place.kind != TW_PLACE_SAME_TYPE)
        return tw_place_copy(&x->place, out, err);
    *out = (struct tw_place){.kind = TW_PLACE_ANY};
    char *others = nodes_of_other_types(x->of);
    if (!others)
        return tw_no_memory(err, "for a place");
    if (*others)
        *out = (struct tw_place){.kind = TW_PLACE_AVOID, .hosts = others};
    else
        tw_free(others);
    return 0;
}

/* ---- handing over */

static int draw_number(char out[TW_TICKET_DIGITS + 1], struct twin_error *err)
{
    unsigned char bytes[TW_TICKET_DIGITS / 2];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return twin_error_system(err, "no random bytes for a ticket");
    tw_hex(bytes, sizeof bytes, out);
    return 0;
}

/* A new ticket for the next attempt, in a folder of the batch. Takes the place. */
static int write_ticket(struct tw_remote_run *x, const char *batch, size_t i,
                        struct tw_place *place, struct twin_error *err)
{
    tw_place_free(&x->ticket.place);
    tw_free(x->ticket.folder);
    x->ticket = (struct tw_ticket){.attempt = x->attempt + 1, .place = *place};
    *place = (struct tw_place){.kind = TW_PLACE_ANY};
    x->ticket.folder = tw_printf("%s/%zu", batch, i);
    int rc = x->ticket.folder ? draw_number(x->ticket.number, err)
                              : tw_no_memory(err, "for a ticket");
    rc = rc ? rc : tw_mkdirs(x->ticket.folder, err);
    return rc ? rc : tw_order_write(&x->ticket, tw_engine_name(x->of->engine), &x->body, err);
}

/* Hands over the runs of one place, as many as the engine takes. *sent: how many. */
static int send_batch(struct tw_remote *r, const struct tw_place *place, size_t room, size_t *sent,
                      struct twin_error *err)
{
    struct tw_ticket **ticket = tw_calloc(r->count + 1, sizeof *ticket);
    struct tw_remote_run **of = tw_calloc(r->count + 1, sizeof *of);
    char *batch = tw_printf("%s/b%u", r->folder, ++r->batches);
    int rc = ticket && of && batch ? tw_mkdirs(batch, err) : tw_no_memory(err, "for tickets");
    size_t n = 0;
    for (size_t i = 0; rc == 0 && i < r->count && n < room; i++) {
        struct tw_remote_run *x = r->run[i];
        struct tw_place its = {.kind = TW_PLACE_ANY};
        if (x->phase != WAITS)
            continue;
        rc = place_now(x, &its, err);
        if (rc == 0 && tw_place_equal(&its, place)) {
            rc = write_ticket(x, batch, n, &its, err);
            of[n] = x;
            ticket[n++] = &x->ticket;
        }
        tw_place_free(&its);
    }
    if (rc == 0)
        rc = tw_engine_submit(r->engine, batch, ticket, n, err);
    for (size_t i = 0; i < n; i++)
        if (ticket[i]->job[0]) {
            of[i]->phase = SENT;
            of[i]->attempt++;
            of[i]->started_ns = of[i]->gone_ns = of[i]->stop_ns = of[i]->watched_ns = 0;
            of[i]->misplaced = of[i]->cancelled = false;
            (*sent)++;
        }
    tw_free(ticket);
    tw_free(of);
    tw_free(batch);
    return rc;
}

/* What waits goes to the engine, batch by batch, in the order in which it came. */
static int send(struct tw_remote *r, struct twin_error *err)
{
    for (size_t i = 0; i < r->count;) {
        struct tw_place place = {.kind = TW_PLACE_ANY};
        size_t sent = 0;
        int rc = 0;
        if (r->run[i]->phase == WAITS)
            rc = place_now(r->run[i], &place, err);
        size_t room = rc == 0 && r->run[i]->phase == WAITS ? tw_engine_room(r->engine, &place) : 0;
        if (room)
            rc = send_batch(r, &place, room, &sent, err);
        tw_place_free(&place);
        if (rc != 0)
            return rc;
        i += sent == 0; /* a batch may have taken run i, or filled its places only in part */
    }
    return 0;
}

/* ---- what came of it */

/* The last line that the engine or the node left in the ticket's log; "" where there is none. */
static void last_words(const struct tw_remote_run *x, char out[200])
{
    char *path = tw_path_join(x->ticket.folder, "log"), *data = NULL;
    size_t n = 0;
    out[0] = '\0';
    if (path && tw_read_file(path, 1 << 20, &data, &n, NULL) == 0 && n) {
        while (n && data[n - 1] == '\n')
            data[--n] = '\0';
        const char *line = strrchr(data, '\n') ? strrchr(data, '\n') + 1 : data;
        snprintf(out, 200, "%.180s", line);
    }
    tw_free(data);
    tw_free(path);
}

static void end_with(struct tw_remote_run *x, int rc)
{
    let_go(x);
    x->rc = rc;
    x->phase = ENDED;
}

/* The run is to be made again, as long as that has not been tried too often. reason: what stands in
 * the verdict's notes. */
static void lose(struct tw_remote_run *x, size_t *counter, const char *reason)
{
    struct tw_remote *r = x->of;
    char words[200];
    struct tw_node *node = tw_engine_node(r->engine, x->ticket.node);
    const char *where = x->ticket.node[0] ? x->ticket.node : "a node that is not known";
    ++*counter;
    last_words(x, words);
    if (node)
        node->failed++;
    if (r->why_count < sizeof r->why / sizeof r->why[0]) {
        char *text = tw_printf("on %s: %s", where, reason);
        if (text)
            r->why[r->why_count++] = text;
    }
    let_go(x);
    if (x->asked_end) { /* it was to end anyway, and has shown why */
        x->phase = ENDED;
        x->rc = x->dir ? twin_run_load(x->dir, &x->trial.run, &x->err)
                       : twin_error_set(&x->err, TWIN_EINTR, "interrupted");
        return;
    }
    if (x->attempt < ATTEMPTS_MAX) {
        tw_front_line(r->front, "a run was lost on %s (%s); it is made again (attempt %u of %d)",
                      where, reason, x->attempt + 1, ATTEMPTS_MAX);
        tw_free(x->dir);
        x->dir = NULL;
        x->trial.diverged = false;
        x->trial.start_s = 0;
        x->phase = WAITS;
        return;
    }
    x->phase = ENDED;
    x->rc = twin_error_set(&x->err, TWIN_EIO,
                           "a run was lost %d times by %s, the last time on %s: %s%s%s%s",
                           ATTEMPTS_MAX, tw_engine_name(r->engine), where, reason,
                           *words ? "; its log ends with \"" : "", words, *words ? "\"" : "");
}

/* Is the run where it was to be? The first run of all says what the type is. */
static bool is_in_place(struct tw_remote_run *x, const char *node)
{
    struct tw_remote *r = x->of;
    struct tw_node *known = tw_engine_node(r->engine, node);
    if (!tw_place_holds(&x->ticket.place, node))
        return false;
    if (x->place.kind != TW_PLACE_SAME_TYPE || !x->trial.run)
        return true;
    /* the processor is what the engine's own words for a type stand for, and it is seen */
    const char *seen = x->trial.run->processor ? x->trial.run->processor : "";
    if (known && !known->processor)
        known->processor = tw_strdup(seen);
    if (!r->processor) {
        r->processor = tw_strdup(seen);
        r->type = known ? tw_strdup(known->type) : NULL;
    }
    return !r->processor || strcmp(r->processor, seen) == 0;
}

/* A result is there: is it a whole run of this attempt, in its place? */
static void take_result(struct tw_remote_run *x, const struct tw_result *result)
{
    struct tw_remote *r = x->of;
    char digest[33] = "";
    snprintf(x->ticket.node, sizeof x->ticket.node, "%s", result->node);
    if (result->rc != 0) {
        end_with(x,
                 twin_error_set(&x->err, result->rc, "on %s: %s", result->node, result->message));
        return;
    }
    if (result->interrupted && !x->asked_end) {
        lose(x, &r->lost, "ended by a signal from outside (preempted, or cancelled)");
        return;
    }
    int rc = twin_run_load(result->dir, &x->trial.run, NULL);
    rc = rc ? rc : tw_run_digest(x->trial.run, digest, NULL);
    if (rc != 0 || strcmp(digest, result->digest) != 0) {
        /* not all of it is to be seen here yet */
        twin_run_free(x->trial.run);
        x->trial.run = NULL;
        if (!x->seen_ns)
            x->seen_ns = tw_monotonic_ns();
        if (seconds_since(x->seen_ns) > tw_engine_grace_s(r->engine)) {
            x->seen_ns = 0;
            lose(x, &r->lost, "its run folder is not what its result says");
        }
        return;
    }
    if (!is_in_place(x, result->node)) {
        twin_run_free(x->trial.run);
        x->trial.run = NULL;
        lose(x, &r->misplaced,
             tw_place_holds(&x->ticket.place, result->node)
                 ? "its processor is another one than the first run's"
                 : "the engine put it on a node that was not asked for");
        return;
    }
    r->refused += tw_claim_again(x->ticket.folder) > 0;
    if (x->trial.run->outcome == TWIN_RUN_NOT_STARTED)
        x->trial.end = TW_TRIAL_NOT_STARTED;
    end_with(x, 0);
}

/* Its engine has nothing of it any more, and there is no result. */
static void look_gone(struct tw_remote_run *x)
{
    struct tw_remote *r = x->of;
    char reason[300];
    if (x->ticket.state != TW_JOB_GONE) {
        x->gone_ns = 0;
        return;
    }
    if (!x->gone_ns)
        x->gone_ns = tw_monotonic_ns();
    if (seconds_since(x->gone_ns) < tw_engine_grace_s(r->engine))
        return;
    bool twice = tw_claim_again(x->ticket.folder) > 0;
    snprintf(reason, sizeof reason, "%s%s%s",
             twice ? "the engine started it again by itself" : "gone without a result",
             x->ticket.why[0] ? "; " : "", x->ticket.why);
    lose(x, twice ? &r->twice : &r->lost, reason);
}

/* ---- while it goes on */

/* Is the node where the run was to be, and the same machine under that name as ever? */
static bool is_as_asked(struct tw_remote_run *x, const struct tw_claim *c)
{
    struct tw_node *known = tw_engine_node(x->of->engine, c->node);
    if (known && !known->host)
        known->host = tw_strdup(c->host);
    if (known && known->host && strcmp(known->host, c->host) != 0)
        return false;
    if (x->ticket.asked[0] && strcmp(x->ticket.asked, c->node) != 0)
        return false;
    return tw_place_holds(&x->ticket.place, c->node);
}

/* The run has begun: its time counts from here. */
static void look_claim(struct tw_remote_run *x)
{
    struct tw_claim c;
    if (x->started_ns || !tw_claim_read(&x->ticket, &c))
        return;
    x->started_ns = tw_monotonic_ns();
    x->trial.started = true;
    if (x->left_ns)
        x->trial.deadline_ns = x->started_ns + x->left_ns;
    snprintf(x->ticket.node, sizeof x->ticket.node, "%s", c.node);
    x->misplaced = !is_as_asked(x, &c);
    if (x->misplaced) /* no use to wait for its end */
        write_stop(x);
    tw_claim_free(&c);
}

static void look_dir(struct tw_remote_run *x)
{
    char *path = tw_path_join(x->ticket.folder, "dir"), *data = NULL;
    size_t n = 0;
    if (path && tw_read_file(path, PATH_MAX, &data, &n, NULL) == 0 && n) {
        x->dir = data;
        data = NULL;
    }
    tw_free(data);
    tw_free(path);
}

/* The same look as at a run here; what it wants ended is told to the node. */
static void watch(struct tw_remote_run *x)
{
    if (!x->started_ns || x->stop_ns || seconds_since(x->watched_ns) * 1e3 < WATCH_MS)
        return;
    x->watched_ns = tw_monotonic_ns();
    if (!x->dir)
        look_dir(x);
    if (!x->dir)
        return;
    struct twin_progress p = {.run_dir = x->dir, .elapsed_s = seconds_since(x->started_ns)};
    twin_progress_of(x->dir, &p);
    if (tw_trial_watch(&x->trial, &p) != 0) {
        x->asked_end = true;
        write_stop(x);
    }
}

/* What was told to end and does not is taken from the engine. */
static void press(struct tw_remote_run *x)
{
    struct tw_ticket *t = &x->ticket;
    if (!x->stop_ns || x->cancelled || seconds_since(x->stop_ns) < STOP_GRACE_S)
        return;
    x->cancelled = true;
    tw_engine_cancel(x->of->engine, &t, 1);
}

static void look(struct tw_remote_run *x)
{
    struct tw_result result;
    bool out_of_time = x->trial.holds_in_queue && x->trial.deadline_ns &&
                       tw_monotonic_ns() > x->trial.deadline_ns;
    if (x->phase == WAITS && out_of_time) {
        x->trial.end = TW_TRIAL_OUT_OF_TIME;
        end_with(x, twin_error_set(&x->err, TWIN_EINTR, "the time was up before it began"));
    }
    if (x->phase != SENT)
        return;
    look_claim(x);
    if (tw_result_read(&x->ticket, &result)) {
        if (x->misplaced)
            lose(x, &x->of->misplaced, "the engine put it on a node that was not asked for");
        else
            take_result(x, &result);
        tw_result_free(&result);
        return;
    }
    look_gone(x);
    if (x->phase != SENT)
        return;
    if (out_of_time && !x->started_ns) {
        x->trial.end = TW_TRIAL_OUT_OF_TIME;
        take_back(x);
        x->rc = twin_error_set(&x->err, TWIN_EINTR, "the time was up before it began");
        return;
    }
    watch(x);
    press(x);
}

/* Shows the nodes that somebody is there. */
static void beat(struct tw_remote *r)
{
    if (r->alive_ns && seconds_since(r->alive_ns) < PULSE_S)
        return;
    char text[32], *path = tw_path_join(r->folder, "alive");
    r->alive_ns = tw_monotonic_ns();
    snprintf(text, sizeof text, "%llu\n", (unsigned long long)r->alive_ns);
    if (path)
        tw_write_file_atomic(path, text, strlen(text), NULL);
    tw_free(path);
}

static void poll_engine(struct tw_remote *r)
{
    if (r->polled_ns && seconds_since(r->polled_ns) < tw_engine_poll_s(r->engine))
        return;
    struct tw_ticket **t = tw_calloc(r->count + 1, sizeof *t);
    size_t n = 0;
    for (size_t i = 0; t && i < r->count; i++)
        if (r->run[i]->phase == SENT)
            t[n++] = &r->run[i]->ticket;
    tw_engine_poll(r->engine, t, n);
    r->polled_ns = tw_monotonic_ns();
    tw_free(t);
}

/* One round for all runs. TWIN_EINTR: the person wants an end, and all was taken back. */
static int service(struct tw_remote *r, struct twin_error *err)
{
    if (!r->stopped && tw_front_stops(r->front)) {
        r->stopped = true;
        take_all_back(r);
    }
    if (r->stopped)
        return twin_error_set(err, TWIN_EINTR, "interrupted");
    beat(r);
    int rc = send(r, err);
    if (rc != 0)
        return rc;
    poll_engine(r);
    for (size_t i = 0; i < r->count; i++)
        look(r->run[i]);
    return 0;
}

/* ---- waiting */

/* What the person sees while a run is in the queue, or its node has not said anything yet. */
static void show(const struct tw_remote_run *x, const char *title)
{
    const struct tw_remote *r = x->of;
    size_t running = 0;
    if (!title || !r->front || !r->front->progress || (x->dir && x->phase == SENT))
        return;
    for (size_t i = 0; i < r->count; i++)
        running += r->run[i]->phase == SENT && r->run[i]->started_ns;
    char *line = tw_printf("%s  waits for %s (%zu running%s%s)", title, tw_engine_name(r->engine),
                           running, x->ticket.why[0] ? "; " : "", x->ticket.why);
    if (line)
        tw_front_progress(r->front, line);
    tw_free(line);
}

int tw_remote_wait(struct tw_remote_run *x, const char *title, struct tw_trial *t,
                   struct twin_error *err)
{
    const struct timespec round = {.tv_nsec = ROUND_MS * 1000000L};
    struct tw_remote *r = x->of;
    uint64_t began = tw_monotonic_ns();
    bool said = false;
    int rc = 0;
    x->trial.title = t->on_progress ? NULL : title;
    x->trial.on_progress = t->on_progress;
    x->trial.user = t->user;
    while (rc == 0 && x->phase != ENDED) {
        rc = service(r, err);
        if (rc != 0 || x->phase == ENDED)
            break;
        show(x, title);
        if (!said && !x->started_ns && seconds_since(began) > WAIT_SAID_S) {
            said = true;
            tw_front_say(r->front, "a run waits for %s: %s (Ctrl-C takes it back)",
                         tw_engine_name(r->engine),
                         x->ticket.why[0] ? x->ticket.why : "nothing has been heard of it yet");
        }
        nanosleep(&round, NULL); /* a signal ends it early, and is looked at next */
    }
    tw_front_progress(r->front, NULL);
    if (rc == 0 && x->rc != 0)
        rc = twin_error_set(err, x->rc, "%s", x->err.message);
    t->end = x->trial.end;
    t->started = x->trial.started;
    t->diverged = x->trial.diverged;
    t->diverged_step = x->trial.diverged_step;
    t->last_step = x->trial.last_step;
    t->start_s = x->trial.start_s;
    t->run = rc == 0 ? x->trial.run : NULL;
    if (rc == 0)
        x->trial.run = NULL;
    else if (rc == TWIN_EINTR && t->end != TW_TRIAL_OUT_OF_TIME)
        t->end = TW_TRIAL_INTERRUPTED;
    tw_remote_drop(x);
    return rc;
}

int tw_remote_make(struct tw_trial *t, const struct twin_launch_options *o, struct twin_error *err)
{
    struct tw_remote_run *x = NULL;
    int rc = tw_remote_add(o, t, &x, err);
    return rc ? rc : tw_remote_wait(x, t->title, t, err);
}
