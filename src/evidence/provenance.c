/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector: a child of the launcher, made before the job and outside of it. The two talk by packets of one byte and a number:
 * the launcher says P (the job's pid) and E (the run has ended, make an end); the collector says S (what had to be seen before the job was seen).
 * When the launcher dies the collector writes what it has and ends.
 */
#include "provenance.h"

#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { START_MS = 250, END_MS = 20000, NICE = 10 };

struct packet { char what; int64_t number; };

/* ---- values */

json_t *tw_pv_bytes(const char *s)
{
    json_t *v = s ? json_string(s) : json_null();
    if (v)
        return v;
    size_t n = strlen(s);
    char *hex = tw_malloc(2 * n + 1);
    if (!hex)
        return NULL;
    tw_hex(s, n, hex);
    v = json_pack("{s:s}", "hex", hex);
    tw_free(hex);
    return v;
}

json_t *tw_pv_text(const struct tw_collector *c, const char *s)
{
    char *safe = s ? twin_redact(c->redactor, s, NULL) : NULL;
    json_t *v = s && !safe ? NULL : tw_pv_bytes(safe);
    tw_free(safe);
    return v;
}

void tw_pv_put(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
}

void tw_pv_add(json_t *list, json_t *value)
{
    json_array_append_new(list, value);
}

void tw_pv_note(struct tw_collector *c, const char *format, ...)
{
    char text[600];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    tw_pv_add(c->notes, tw_pv_text(c, text));
}

const char *tw_pv_variable(char *const *env, const char *name)
{
    size_t n = strlen(name);
    for (; env && *env; env++)
        if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
            return *env + n + 1;
    return NULL;
}

char *tw_pv_read(const char *path, size_t cap)
{
    char *text = NULL;
    size_t n = 0;
    if (tw_read_file(path, cap, &text, &n, NULL) != 0)
        return NULL;
    while (n && (text[n - 1] == '\n' || text[n - 1] == '\0'))
        text[--n] = '\0';
    return text;
}

json_t *tw_pv_line(const char *path)
{
    char *text = tw_pv_read(path, 1 << 16);
    if (!text)
        return NULL;
    text[strcspn(text, "\n")] = '\0';
    json_t *v = tw_pv_bytes(text);
    tw_free(text);
    return v;
}

void tw_pv_sha256_of(const void *data, size_t n, char hex[65])
{
    unsigned char digest[32];
    hex[0] = '\0';
    if (EVP_Digest(data, n, digest, NULL, EVP_sha256(), NULL) == 1)
        tw_hex(digest, sizeof digest, hex);
}

int tw_pv_sha256(const char *path, uint64_t cap, uint64_t deadline_ns, char hex[65], uint64_t *bytes, const char **why)
{
    enum { ROOM = 1 << 20 };
    struct stat st;
    unsigned char digest[32];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    char *chunk = NULL;
    EVP_MD_CTX *ctx = NULL;
    uint64_t at = 0;
    hex[0] = '\0';
    *why = fd < 0 ? strerror(errno) : fstat(fd, &st) != 0 ? strerror(errno) : !S_ISREG(st.st_mode) ? "not a regular file" : NULL;
    if (!*why && cap && (uint64_t)st.st_size > cap)
        *why = "too large";
    if (!*why && (!(chunk = tw_malloc(ROOM)) || !(ctx = EVP_MD_CTX_new()) || EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) != 1))
        *why = "out of memory";
    while (!*why) {
        ssize_t n = tw_pread_all(fd, chunk, ROOM, at);
        if (n < 0)
            *why = strerror(errno);
        else if (EVP_DigestUpdate(ctx, chunk, (size_t)n) != 1)
            *why = "out of memory";
        else if (deadline_ns && tw_monotonic_ns() > deadline_ns)
            *why = "no time left to hash it";
        at += n > 0 ? (uint64_t)n : 0;
        if (n < ROOM || at > (uint64_t)st.st_size + ROOM) /* one that grows while it is read ends somewhere */
            break;
    }
    if (!*why && EVP_DigestFinal_ex(ctx, digest, NULL) == 1)
        tw_hex(digest, sizeof digest, hex);
    *bytes = at;
    EVP_MD_CTX_free(ctx);
    tw_free(chunk);
    if (fd >= 0)
        close(fd);
    return *why ? -1 : 0;
}

/* ---- writing */

static int append(const char *text, size_t n, void *data)
{
    return tw_buf_append(data, text, n) == 0 ? 0 : -1;
}

static void write_record(const struct tw_collector *c, bool complete)
{
    struct tw_buf text = {0};
    char *path = tw_path_join(c->run->dir, "provenance.json");
    tw_pv_put(c->root, "complete", json_boolean(complete));
    json_object_set(c->root, "notes", c->notes);
    if (path && json_dump_callback(c->root, append, &text, JSON_INDENT(1) | JSON_ENSURE_ASCII | JSON_SORT_KEYS) == 0 && tw_buf_puts(&text, "\n") == 0)
        tw_write_file_atomic(path, text.data, text.len, NULL); /* a full disk: the run says so elsewhere */
    tw_buf_free(&text);
    tw_free(path);
}

/* ---- the collector */

static void say(int fd, char what)
{
    struct packet p = {.what = what};
    send(fd, &p, sizeof p, MSG_NOSIGNAL);
}

/* Reads what the launcher has said; waits for it when asked to. True: make an end. */
static bool told_to_end(struct tw_collector *c, int fd, int timeout_ms)
{
    struct pollfd p = {fd, POLLIN, 0};
    while (poll(&p, 1, timeout_ms) > 0) {
        struct packet said;
        ssize_t n = recv(fd, &said, sizeof said, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n != sizeof said || said.what == 'E')
            return true;
        if (said.what == 'P')
            c->job = (pid_t)said.number;
        timeout_ms = 0;
    }
    return false;
}

/* Nothing of the launcher's stays open here: an end of its pipes held by us would keep somebody waiting. */
static void leave_launcher(int keep)
{
    int null = open("/dev/null", O_RDWR);
    sigset_t none;
    for (int fd = 0; fd < 3 && null >= 0; fd++)
        dup2(null, fd);
    if (keep != 3 && dup3(keep, 3, O_CLOEXEC) != 3)
        _exit(1);
#ifdef SYS_close_range
    if (syscall(SYS_close_range, 4u, ~0u, 0u) != 0)
#endif
        for (int fd = 4; fd < 4096; fd++)
            close(fd);
    setpgid(0, 0); /* the terminal's Ctrl-C is not for us */
    for (int s = 1; s < 32; s++)
        signal(s, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* what a program of ours leaves behind must not look like the job's */
    prctl(PR_SET_NAME, "twinrun-record");
}

/* From now on beside the job: it goes first. */
static void step_back(void)
{
    setpriority(PRIO_PROCESS, 0, NICE);
}

static void describe(struct tw_collector *c)
{
    tw_pv_put(c->root, "schema", json_string(TW_PROVENANCE_SCHEMA));
    tw_pv_put(c->root, "run", tw_pv_bytes(c->run->id));
    tw_pv_put(c->root, "host", tw_pv_bytes(c->run->host));
    tw_pv_put(c->root, "start_realtime_ns", json_integer(c->run->start_realtime_ns));
    tw_pv_put(c->root, "redaction_key", json_string(twin_redactor_key_id(c->redactor)));
}

static _Noreturn void collect(struct tw_collector *c, uint64_t begin)
{
    const int fd = 3;
    describe(c);
    json_t *code = tw_pv_code(c);
    tw_pv_put(c->root, "code", code);
    tw_pv_put(c->root, "programs", tw_pv_programs(c));
    tw_pv_put(c->root, "config", tw_pv_config(c));
    tw_pv_put(c->root, "data", tw_pv_data(c));
    double ms = (double)(tw_monotonic_ns() - begin) * 1e-6;
    bool early = !told_to_end(c, fd, 0) && c->job == 0;
    say(fd, 'S');
    step_back();
    tw_pv_put(c->root, "before_job", json_pack("{s:b, s:f}", "seen", early, "ms", ms));
    if (!early)
        tw_pv_note(c, "code and configuration were looked at while the job ran already: it took %.0f ms", ms);
    tw_pv_put(c->root, "launch", tw_pv_launch(c));
    tw_pv_put(c->root, "environment", tw_pv_environment(c));
    tw_pv_put(c->root, "accelerators", tw_pv_accelerators(c));
    tw_pv_put(c->root, "packages", tw_pv_packages(c));
    tw_pv_untracked(code);
    write_record(c, false);
    /* Libraries are hashed while the job runs; ranks may come late. At the end all are asked for. */
    static const int pauses_ms[] = {300, 1000, 4000, 20000, 60000};
    bool ended = false;
    for (size_t i = 0; i < sizeof pauses_ms / sizeof pauses_ms[0] && !ended; i++)
        if (!(ended = told_to_end(c, fd, pauses_ms[i])))
            tw_pv_ranks(c);
    while (!ended)
        ended = told_to_end(c, fd, -1);
    tw_pv_ranks(c);
    json_decref(c->before);
    c->before = json_pack("{s:O}", "packages", json_object_get(c->root, "packages"));
    tw_pv_put(c->root, "packages", tw_pv_packages(c)); /* by now the job's Python has said where its packages are */
    write_record(c, true);
    _exit(0);
}

/* ---- in the launcher */

struct watch { pid_t pid; int fd; char *before_dir; };

/* Whether the collector sends what is asked for (0: hangs up) in time. Ctrl-C is not waited for. */
static bool wait_for(const struct watch *w, char what, int ms)
{
    uint64_t deadline = tw_monotonic_ns() + (uint64_t)ms * 1000000;
    for (;;) {
        uint64_t now = tw_monotonic_ns();
        struct pollfd p = {w->fd, POLLIN, 0};
        struct packet said;
        sigset_t pending;
        int left = now < deadline ? (int)((deadline - now) / 1000000) + 1 : 0;
        int ready = left ? poll(&p, 1, left < 100 ? left : 100) : 0;
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready == 0 && left && !(sigpending(&pending) == 0 && (sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM))))
            continue;
        if (ready <= 0)
            return false;
        ssize_t n = recv(w->fd, &said, sizeof said, 0);
        if (n != sizeof said)
            return what == 0;
        if (said.what == what)
            return true;
    }
}

static void before(void *user, const struct twin_run *run, const char *home, char *const *env)
{
    struct watch *w = user;
    int ends[2];
    uint64_t begin = tw_monotonic_ns();
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return;
    w->pid = fork();
    if (w->pid == 0) {
        struct tw_collector c = {.run = run, .home = home, .env = env, .root = json_object(), .notes = json_array()};
        leave_launcher(ends[1]);
        c.from = tw_path_absolute(".", NULL);
        if (!c.root || !c.notes || !c.from || twin_redactor_open(home, &c.redactor, NULL) != 0)
            _exit(1);
        if (w->before_dir)
            twin_provenance_load(w->before_dir, &c.before, NULL);
        collect(&c, begin);
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

static void started(void *user, int pid)
{
    struct watch *w = user;
    struct packet p = {.what = 'P', .number = pid};
    if (w->fd >= 0)
        send(w->fd, &p, sizeof p, MSG_NOSIGNAL);
}

static void after(void *user, const struct twin_run *run)
{
    struct watch *w = user;
    (void)run;
    if (w->fd < 0)
        return;
    say(w->fd, 'E');
    if (!wait_for(w, 0, END_MS))
        kill(w->pid, SIGKILL);
    close(w->fd);
    w->fd = -1;
    while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

int twin_provenance_launch(const struct twin_launch_options *o, struct twin_run **out, struct twin_error *err)
{
    static char *last_dir; /* what the run before found out about the machine is true for this one, too */
    struct watch w = {.fd = -1, .before_dir = last_dir};
    struct twin_launch_watcher watcher = {.user = &w, .before = before, .started = started, .after = after};
    struct twin_launch_options with = *o;
    with.watcher = &watcher;
    int rc = twin_launch(&with, out, err);
    if (rc == 0) {
        tw_free(last_dir);
        last_dir = tw_strdup((*out)->dir);
    }
    return rc;
}
