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
#include "remote_inside.h"

#include "phrase.h"
#include "run_state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A run that was told to end gets so long before the engine is told to end it. */
enum { STOP_GRACE_S = 60 };
/* A run that waits so long for its turn is told of once, with the engine's reason. */
enum { WAIT_SAID_S = 120 };
/* The pulse by which nodes know that somebody still wants their runs. */
enum { PULSE_S = 10, ROUND_MS = 50, WATCH_MS = 500 };
/* How long what ends elsewhere may go on to write into the folder that is to be deleted. */
enum { REMOVE_S = 10 };

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
    tw_trial_forget_ranks(&x->trial);
    tw_buf_free(&x->body);
    tw_place_free(&x->place);
    tw_place_free(&x->ticket.place);
    tw_free(x->ticket.folder);
    tw_free(x->dir);
    tw_free(x);
}

/* Tells the node that the run is to end, and why, where that is known. The file is there in one
 * step, since its reader may look at any time. */
static void write_stop(struct tw_remote_run *x)
{
    char *path = x->ticket.folder ? tw_path_join(x->ticket.folder, "stop") : NULL;
    const char *why = x->trial.stopped_because ? x->trial.stopped_because : "";
    if (path)
        tw_write_file_atomic(path, why, strlen(why), NULL);
    tw_free(path);
    if (!x->stop_ns)
        x->stop_ns = tw_monotonic_ns();
}

/* Their files are on the disk before the first is told: a slow disk parts them no further then. */
void tw_remote_cancel(struct tw_remote_run *const *run, size_t count)
{
    struct tw_ticket **t = tw_calloc(count + 1, sizeof *t);
    const struct tw_remote *of = NULL;
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        struct tw_remote_run *x = run[i];
        struct tw_ticket *one = &x->ticket;
        if (x->phase != TW_REMOTE_SENT || x->cancelled)
            continue;
        write_stop(x);
        x->cancelled = true;
        of = x->of;
        if (t)
            t[n++] = one;
        else /* without memory, one by one */
            tw_engine_cancel(of->engine, &one, 1);
    }
    if (n)
        tw_engine_cancel(of->engine, t, n);
    tw_free(t);
}

static void take_back(struct tw_remote_run *x)
{
    if (x->phase != TW_REMOTE_SENT)
        return;
    tw_remote_cancel(&x, 1);
    tw_remote_let_go(x);
    x->phase = TW_REMOTE_ENDED;
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

static void take_all_back(struct tw_remote *r)
{
    tw_remote_cancel(r->run, r->count);
    for (size_t i = 0; i < r->count; i++) {
        tw_remote_let_go(r->run[i]);
        if (r->run[i]->phase != TW_REMOTE_ENDED)
            r->run[i]->rc = twin_error_set(&r->run[i]->err, TWIN_EINTR, "interrupted");
        r->run[i]->phase = TW_REMOTE_ENDED;
    }
}

/* Whether there is a file in a folder, or it cannot be read. */
static bool holds_anything(const char *path)
{
    DIR *d = opendir(path);
    bool found = !d && errno != ENOENT;
    for (struct dirent *e; d && !found && (e = readdir(d));)
        found = strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    if (d)
        closedir(d);
    return found;
}

/* A run that was taken back leaves its result, and its engine the log, a moment later: a file that
 * comes between the look into a folder and its end keeps it there. Orders hold the environment of
 * the caller, so it is tried until nothing is left; who writes later finds no folder. What else
 * keeps it will not pass. */
static void remove_folder(const struct tw_remote *r)
{
    const struct timespec round = {.tv_nsec = ROUND_MS * 1000000L};
    const uint64_t began = tw_monotonic_ns();
    struct twin_error err = TWIN_ERROR_INIT;
    while (tw_remove_tree(r->folder, NULL, &err) != 0) {
        bool comes = errno == ENOTEMPTY || errno == EEXIST;
        if (!comes || tw_seconds_since(began) > REMOVE_S) {
            if (holds_anything(r->folder))
                tw_front_say(r->front,
                             "%s is left, which holds the environment of this command: %s (delete "
                             "it when the runs have ended)",
                             r->folder, err.message);
            return;
        }
        err = (struct twin_error)TWIN_ERROR_INIT;
        nanosleep(&round, NULL);
    }
}

void tw_remote_close(struct tw_remote *r)
{
    if (r->engine)
        take_all_back(r);
    while (r->count)
        forget(r->run[--r->count]);
    tw_free(r->run);
    if (r->folder)
        remove_folder(r);
    tw_free(r->folder);
    tw_free(r->processor);
    tw_free(r->type);
    tw_place_free(&r->place);
    for (size_t i = 0; i < r->why_count; i++)
        tw_free(r->why[i]);
    for (size_t i = 0; i < r->made_count; i++)
        tw_free(r->made[i].node);
    tw_free(r->made);
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
        if (ready == 0 && !told && tw_seconds_since(began) > 1) {
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
    x->trial.parity = NULL;
    x->trial.stopped_because = NULL;
    tw_trial_take_found(&x->trial, &(struct tw_trial){.end = TW_TRIAL_RAN});
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
    if (!x->started_ns || x->stop_ns || tw_seconds_since(x->watched_ns) * 1e3 < WATCH_MS)
        return;
    x->watched_ns = tw_monotonic_ns();
    if (!x->dir)
        look_dir(x);
    if (!x->dir)
        return;
    struct twin_progress p = {.run_dir = x->dir, .elapsed_s = tw_seconds_since(x->started_ns)};
    twin_progress_of(x->dir, &p);
    if (tw_trial_watch(&x->trial, &p) != 0 || tw_trial_look_at_ranks(&x->trial, &p) != 0) {
        x->asked_end = true;
        write_stop(x);
    }
}

/* What was told to end and does not is taken from the engine. */
static void press(struct tw_remote_run *x)
{
    struct tw_ticket *t = &x->ticket;
    if (!x->stop_ns || x->cancelled || tw_seconds_since(x->stop_ns) < STOP_GRACE_S)
        return;
    x->cancelled = true;
    tw_engine_cancel(x->of->engine, &t, 1);
}

static bool is_out_of_time(const struct tw_remote_run *x)
{
    return x->trial.holds_in_queue && x->trial.deadline_ns &&
           tw_monotonic_ns() > x->trial.deadline_ns;
}

static bool is_late(const struct tw_remote_run *x)
{
    return x->phase == TW_REMOTE_SENT && !x->started_ns && is_out_of_time(x);
}

static void look(struct tw_remote_run *x)
{
    struct tw_result result;
    if (x->phase == TW_REMOTE_WAITS && is_out_of_time(x)) {
        x->trial.end = TW_TRIAL_OUT_OF_TIME;
        tw_remote_end_with(x,
                           twin_error_set(&x->err, TWIN_EINTR, "the time was up before it began"));
    }
    if (x->phase != TW_REMOTE_SENT)
        return;
    look_claim(x);
    if (tw_result_read(&x->ticket, &result)) {
        if (x->misplaced)
            tw_remote_lose(x, &x->of->misplaced,
                           "the engine put it on a node that was not asked for");
        else
            tw_remote_take_result(x, &result);
        tw_result_free(&result);
        return;
    }
    tw_remote_look_gone(x);
    if (x->phase != TW_REMOTE_SENT)
        return;
    if (is_late(x)) /* see take_back_late */
        return;
    watch(x);
    press(x);
}

/* Runs whose time is up before they began. All are told before one is waited for, which may take a
 * while to end. */
static void take_back_late(struct tw_remote *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (is_late(r->run[i]))
            tw_remote_cancel(&r->run[i], 1);
    for (size_t i = 0; i < r->count; i++) {
        struct tw_remote_run *x = r->run[i];
        if (!x->cancelled || !is_late(x))
            continue;
        take_back(x);
        x->trial.end = TW_TRIAL_OUT_OF_TIME;
        x->rc = twin_error_set(&x->err, TWIN_EINTR, "the time was up before it began");
    }
}

/* Shows the nodes that somebody is there. */
static void beat(struct tw_remote *r)
{
    if (r->alive_ns && tw_seconds_since(r->alive_ns) < PULSE_S)
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
    if (r->polled_ns && tw_seconds_since(r->polled_ns) < tw_engine_poll_s(r->engine))
        return;
    struct tw_ticket **t = tw_calloc(r->count + 1, sizeof *t);
    size_t n = 0;
    for (size_t i = 0; t && i < r->count; i++)
        if (r->run[i]->phase == TW_REMOTE_SENT)
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
    int rc = tw_remote_send(r, err);
    if (rc != 0)
        return rc;
    poll_engine(r);
    for (size_t i = 0; i < r->count; i++)
        look(r->run[i]);
    take_back_late(r);
    return 0;
}

/* ---- waiting */

/* What the person sees while a run is in the queue, or its node has not said anything yet. */
static void show(const struct tw_remote_run *x, const char *title)
{
    const struct tw_remote *r = x->of;
    size_t running = 0;
    if (!title || !r->front || !r->front->progress || (x->dir && x->phase == TW_REMOTE_SENT))
        return;
    for (size_t i = 0; i < r->count; i++)
        running += r->run[i]->phase == TW_REMOTE_SENT && r->run[i]->started_ns;
    char *line = tw_printf("%s  waits for %s (%zu running%s%s)", title, tw_engine_name(r->engine),
                           running, x->ticket.why[0] ? "; " : "", x->ticket.why);
    if (line)
        tw_front_progress(r->front, line);
    tw_free(line);
}

/* Counts a run for its node. Without memory it is left out of the words, and of nothing else. */
static void count_run(struct tw_remote *r, const char *node)
{
    size_t i = 0;
    while (i < r->made_count && strcmp(r->made[i].node, node) != 0)
        i++;
    if (i == r->made_count) {
        struct tw_remote_made *grown = tw_reallocarray(r->made, i + 1, sizeof *grown);
        r->made = grown ? grown : r->made;
        char *name = grown ? tw_strdup(node) : NULL;
        if (!name)
            return;
        r->made[r->made_count++] = (struct tw_remote_made){.node = name};
    }
    r->made[i].runs++;
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
    while (rc == 0 && x->phase != TW_REMOTE_ENDED) {
        rc = service(r, err);
        if (rc != 0 || x->phase == TW_REMOTE_ENDED)
            break;
        show(x, title);
        if (!said && !x->started_ns && tw_seconds_since(began) > WAIT_SAID_S) {
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
    tw_trial_take_found(t, &x->trial);
    t->run = rc == 0 ? x->trial.run : NULL;
    if (t->run && t->run->node.engine)
        count_run(r, t->run->node.name);
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
