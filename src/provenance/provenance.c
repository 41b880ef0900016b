/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector: a child of the launcher, made before the job and outside of it. The two talk by
 * packets of one byte and a number: the launcher says P (the job's pid) and E (the run has ended,
 * make an end); the collector says S (what had to be seen before the job was seen). When the
 * launcher dies the collector writes what it has and ends.
 */
#include "provenance_inside.h"

#include "base.h"
#include "written.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* How long the job waits for us at its start, and the launcher at its end for each next step; NICE:
 * how far threads beside the job step back. */
enum { START_MS = 250, END_MS = 20000, NICE = 10 };

/* What the two say to each other; number: a process, of 'P' only. */
struct packet {
    char what;
    int64_t number;
};

/* ---- writing */

/* jansson's callback for a piece of text. */
static int append_bytes(const char *text, size_t n, void *data)
{
    return tw_buf_append(data, text, n) == 0 ? 0 : -1;
}

/* Writes the record as it is now: with what the job could change, with the machine, and whole. A
 * collector that is killed leaves the one before, which says that it is not complete. */
static void write_record(const struct tw_collector *c, bool complete)
{
    struct tw_buf text = {0};
    char *path = tw_path_join(c->run->dir, "provenance.json");
    tw_pv_put(c->root, "complete", json_boolean(complete));
    json_object_set(c->root, "notes", c->notes);
    if (path &&
        json_dump_callback(c->root, append_bytes, &text,
                           JSON_INDENT(1) | JSON_ENSURE_ASCII | JSON_SORT_KEYS) == 0 &&
        tw_buf_puts(&text, "\n") == 0)
        /* a full disk: the run says so elsewhere */
        tw_write_file_atomic(path, text.data, text.len, NULL);
    tw_buf_free(&text);
    tw_free(path);
}

/* ---- the collector */

/* Without SIGPIPE: the other side may be gone. */
static void say_byte(int fd, char what)
{
    struct packet p = {.what = what};
    send(fd, &p, sizeof p, MSG_NOSIGNAL);
}

/* Reads what the launcher has said; waits for it when asked to. True: make an end. */
static bool told_to_end(struct tw_collector *c, int fd, int timeout_ms)
{
    struct pollfd p = {fd, POLLIN, 0};
    while (!c->ended && poll(&p, 1, timeout_ms) > 0) {
        struct packet said;
        ssize_t n = recv(fd, &said, sizeof said, 0);
        if (n < 0 && errno == EINTR)
            continue;
        c->ended |= n != sizeof said || said.what == 'E';
        if (c->ended)
            break;
        if (said.what == 'P')
            c->job = (pid_t)said.number;
        timeout_ms = 0;
    }
    return c->ended;
}

/* One look beside the job, which goes first: on a thread that steps back, since nobody may take
 * that back, and once the job has ended the launcher waits for us and is in a hurry. What a stage
 * asks other programs steps back with it. */
struct stage {
    struct tw_collector *c;
    void (*look)(struct tw_collector *);
};

static void *step_back_and_look(void *stage)
{
    const struct stage *s = stage;
    setpriority(PRIO_PROCESS, 0, NICE); /* of this thread alone (Linux) */
    s->look(s->c);
    return NULL;
}

/* Once the end was told there is nothing to step back for. */
static void beside_job(struct tw_collector *c, int fd, void (*look)(struct tw_collector *))
{
    struct stage s = {c, look};
    pthread_t thread;
    if (told_to_end(c, fd, 0) || pthread_create(&thread, NULL, step_back_and_look, &s) != 0)
        look(c);
    else
        pthread_join(thread, NULL);
}

static void look_at_environment(struct tw_collector *c)
{
    tw_pv_put(c->root, "launch", tw_pv_launch(c));
    tw_pv_put(c->root, "environment", tw_pv_environment(c));
    tw_pv_put(c->root, "accelerators", tw_pv_accelerators(c));
}

static void look_at_packages(struct tw_collector *c)
{
    tw_pv_put(c->root, "packages", tw_pv_packages(c));
}

static void look_at_code(struct tw_collector *c)
{
    tw_pv_code_later(c, json_object_get(c->root, "code"));
}

/* Which run it is. The key's name tells whether redacted values of two records can be compared. */
static void describe_run(struct tw_collector *c)
{
    tw_pv_put(c->root, "schema", json_string(TW_PROVENANCE_SCHEMA));
    tw_pv_put(c->root, "run", tw_json_bytes(c->run->id));
    tw_pv_put(c->root, "host", tw_json_bytes(c->run->host));
    tw_pv_put(c->root, "start_realtime_ns", json_integer(c->run->start_realtime_ns));
    tw_pv_put(c->root, "redaction_key", json_string(twin_redactor_key_id(c->redactor)));
}

/* The collector's whole life: what the job could change, then what it cannot, then what its
 * processes say while they run, and all of it once more at the end. */
static _Noreturn void collect_all(struct tw_collector *c, uint64_t begin)
{
    const int fd = TW_CHILD_KEEPS;
    describe_run(c);
    tw_pv_put(c->root, "code", tw_pv_code(c));
    tw_pv_put(c->root, "programs", tw_pv_programs(c));
    tw_pv_put(c->root, "config", tw_pv_config(c));
    tw_pv_put(c->root, "data", tw_pv_data(c));
    double ms = (double)(tw_monotonic_ns() - begin) * 1e-6;
    bool early = !told_to_end(c, fd, 0) && c->job == 0;
    say_byte(fd, 'S');
    tw_pv_put(c->root, "before_job", json_pack("{s:b, s:f}", "seen", early, "ms", ms));
    if (!early)
        tw_pv_note(
            c, "code and configuration were looked at while the job ran already: it took %.0f ms",
            ms);
    write_record(c, false);
    void (*const stages[])(struct tw_collector *) = {look_at_environment, tw_pv_compilers,
                                                     look_at_packages, look_at_code};
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        beside_job(c, fd, stages[i]);
        say_byte(fd, 'W');
    }
    write_record(c, false);
    /*
     * Libraries are hashed while the job runs; ranks may come late. At the end all are asked for.
     */
    static const int pauses_ms[] = {300, 1000, 4000, 20000, 60000};
    bool ended = false;
    for (size_t i = 0; i < sizeof pauses_ms / sizeof pauses_ms[0] && !ended; i++)
        if (!(ended = told_to_end(c, fd, pauses_ms[i])))
            beside_job(c, fd, tw_pv_ranks);
    while (!ended)
        ended = told_to_end(c, fd, -1);
    say_byte(fd, 'W');
    tw_pv_ranks(c);
    say_byte(fd, 'W');
    json_decref(c->before);
    c->before = json_pack("{s:O}", "packages", json_object_get(c->root, "packages"));
    /* by now the job's Python has said where its packages are */
    tw_pv_put(c->root, "packages", tw_pv_packages(c));
    write_record(c, true);
    _exit(0);
}

/* ---- in the launcher */

/* What the launcher knows of its collector. fd -1: there is none. */
struct watch {
    pid_t pid;
    int fd;
    char *before_dir;
};

/* Does the collector send what is asked for (0: hangs up) in time? Whatever else it sends says that
 * it gets on, and its time begins anew: on a busy machine one step takes as long as all do else.
 * Ctrl-C is not waited for: the user wants an end, and signals are held back here by the launcher.
 */
static bool wait_for(const struct watch *w, char what, int ms)
{
    uint64_t deadline = tw_monotonic_ns() + (uint64_t)ms * 1000000;
    for (;;) {
        uint64_t now = tw_monotonic_ns();
        struct pollfd p = {w->fd, POLLIN, 0};
        struct packet said;
        sigset_t pending;
        int left = now < deadline ? (int)((deadline - now) / 1000000) + 1 : 0;
        int pause = left < 100 ? left : 100;
        int ready = left ? poll(&p, 1, pause) : 0;
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready == 0 && left &&
            !(sigpending(&pending) == 0 &&
              (sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM))))
            continue;
        if (ready <= 0)
            return false;
        ssize_t n = recv(w->fd, &said, sizeof said, 0);
        if (n != sizeof said)
            return what == 0;
        if (said.what == what)
            return true;
        deadline = tw_monotonic_ns() + (uint64_t)ms * 1000000;
    }
}

/* Called by the launcher when the run folder is there and the job is not: forks the collector and
 * waits, START_MS at most, until it has seen what the job could change. */
static void before(void *user, const struct twin_run *run, const char *home, char *const *env)
{
    struct watch *w = user;
    int ends[2];
    uint64_t begin = tw_monotonic_ns();
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return;
    w->pid = fork();
    if (w->pid == 0) {
        struct tw_collector c = {
            .run = run, .home = home, .env = env, .root = json_object(), .notes = json_array()};
        tw_child_leaves_parent(ends[1], "twinrun-record");
        char from[PATH_MAX];
        c.from = getcwd(from, sizeof from) ? from : NULL;
        if (!c.root || !c.notes || !c.from || twin_redactor_open(home, &c.redactor, NULL) != 0)
            _exit(1);
        if (w->before_dir)
            twin_provenance_load(w->before_dir, &c.before, NULL);
        collect_all(&c, begin);
    }
    close(ends[1]);
    w->fd = ends[0];
    if (w->pid < 0) {
        close(w->fd);
        w->fd = -1;
        return;
    }
    wait_for(w, 'S', START_MS);
}

/* The job runs: its process can be looked at from outside. */
static void started(void *user, int pid)
{
    struct watch *w = user;
    struct packet p = {.what = 'P', .number = pid};
    if (w->fd >= 0)
        send(w->fd, &p, sizeof p, MSG_NOSIGNAL);
}

/* The job has ended: the collector may take END_MS for each step of the rest. A record that is not
 * complete says so. */
static void after(void *user, const struct twin_run *run)
{
    struct watch *w = user;
    (void)run;
    if (w->fd < 0)
        return;
    say_byte(w->fd, 'E');
    if (!wait_for(w, 0, END_MS))
        kill(w->pid, SIGKILL);
    close(w->fd);
    w->fd = -1;
    while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

static void written(void *user, const struct twin_run *run, struct twin_run_file *f)
{
    (void)user;
    tw_written_list(run, f);
}

int twin_provenance_launch(const struct twin_launch_options *o, struct twin_run **out,
                           struct twin_error *err)
{
    /* what the run before found out about the machine is true for this one, too */
    static char *last_dir;
    struct watch w = {.fd = -1, .before_dir = last_dir};
    struct twin_launch_watcher watcher = {
        .user = &w, .before = before, .started = started, .file = written, .after = after};
    struct twin_launch_options with = *o;
    with.watcher = &watcher;
    int rc = twin_launch(&with, out, err);
    if (rc == 0) {
        tw_free(last_dir);
        last_dir = tw_strdup((*out)->dir);
    }
    return rc;
}
