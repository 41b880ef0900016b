/* SPDX-License-Identifier: Apache-2.0 */
#include "launch.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/*
 * Which processes belong to the job: all descendants of ours, found by sampling /proc. We are a subreaper while the job
 * runs, so a process whose parent ended becomes our child and stays in sight. What was a descendant before the job
 * started (a daemon left over by an earlier run) is not the job's. Sampling is cheap where it can be: no process was
 * created since when the last pid of /proc/loadavg is the same; and it keeps to 1% of one core.
 */
#define LIBRARY "/libtwinrun.so"

enum {
    TABLE_MAX = 4096,
    ARGV_MAX = 4096,
    ENVIRON_MAX = 2 << 20,
    MAPS_MAX = 16 << 20,
    ARMED_LINE_MAX = 8192,
    SETTLE_MS = 120, /* a process younger than this may not have run its agent's constructor yet */
};

struct stat_line { pid_t pid, ppid, pgrp; char state; uint64_t start; int mark; };

struct seen {
    pid_t pid, ppid;
    uint64_t start;          /* clock ticks since boot */
    uint64_t image_ns;       /* when this argv was first seen */
    char *argv;
    char *why;
    bool alive, examined, loaded, is_fork_of_us;
};

struct armed { pid_t pid, ppid; char *argv; };

struct tw_tree {
    char *processes_path, *environ_line, *our_argv;
    char *preload_why;
    bool agents;
    pid_t main_pid;
    struct seen *seen; size_t seen_count;         /* sorted by (pid, start) */
    struct armed *armed; size_t armed_count;
    struct stat_line *now; size_t now_count, now_room; /* the last scan, sorted by pid */
    struct stat_line *baseline; size_t baseline_count; /* descendants from before the job */
    uint64_t armed_offset, next_sample_ns, last_pid;
    bool settled;            /* /proc was read once more after last_pid was first seen */
    uint32_t alive;
    bool overflow;
};

static int read_small(const char *path, char *out, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, out, room - 1);
    close(fd);
    if (n < 0)
        return -1;
    out[n] = '\0';
    return (int)n;
}

/* pid (comm) state ppid pgrp ... starttime is field 22. The name may hold anything, also ") S 1": take the last ')'. */
static bool read_stat(pid_t pid, struct stat_line *out)
{
    char path[40], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (read_small(path, text, sizeof text) <= 0)
        return false;
    char *p = strrchr(text, ')');
    if (!p || sscanf(p + 1, " %c %d %d", &out->state, &out->ppid, &out->pgrp) != 3)
        return false;
    p++;
    for (int field = 2; field < 21 && p; field++) /* p stands before field 3 */
        p = strchr(p + 1, ' ');
    out->pid = pid;
    out->start = p ? strtoull(p + 1, NULL, 10) : 0;
    out->mark = 0;
    return true;
}

uint64_t tw_process_start_ticks(pid_t pid)
{
    struct stat_line line;
    return read_stat(pid, &line) ? line.start : 0;
}

static int by_pid(const void *a, const void *b)
{
    pid_t x = ((const struct stat_line *)a)->pid, y = ((const struct stat_line *)b)->pid;
    return (x > y) - (x < y);
}

static struct stat_line *line_of(const struct stat_line *lines, size_t n, pid_t pid)
{
    struct stat_line key = {.pid = pid};
    return n ? bsearch(&key, lines, n, sizeof *lines, by_pid) : NULL;
}

enum { MARK_UNKNOWN, MARK_OURS, MARK_FOREIGN, MARK_OPEN };

/* Is it below us? Follows the parents; marks what it passes, so that every process is decided once. */
static int decide(struct tw_tree *t, struct stat_line *line)
{
    pid_t self = getpid();
    struct stat_line *path[128];
    size_t depth = 0;
    int mark = MARK_FOREIGN;
    for (struct stat_line *l = line; l; l = line_of(t->now, t->now_count, l->ppid)) {
        if (l->pid == self) {
            mark = MARK_OURS;
            break;
        }
        const struct stat_line *old = line_of(t->baseline, t->baseline_count, l->pid);
        if (l->mark == MARK_OURS || l->mark == MARK_FOREIGN) {
            mark = l->mark;
            break;
        }
        if (l->mark == MARK_OPEN || (old && old->start == l->start) || depth == sizeof path / sizeof path[0])
            break;
        l->mark = MARK_OPEN;
        path[depth++] = l;
    }
    while (depth > 0)
        path[--depth]->mark = mark;
    return mark;
}

/* Reads all of /proc; afterwards t->now holds the job's processes only. Keeps the last scan when memory is short. */
static void scan(struct tw_tree *t)
{
    DIR *d = opendir("/proc");
    size_t n = 0;
    if (!d)
        return;
    for (struct dirent *e; (e = readdir(d));) {
        if (!isdigit((unsigned char)e->d_name[0]))
            continue;
        if (n == t->now_room) {
            size_t room = n ? n * 2 : 256;
            struct stat_line *grown = tw_reallocarray(t->now, room, sizeof *grown);
            if (!grown)
                break;
            t->now = grown;
            t->now_room = room;
        }
        if (read_stat((pid_t)atoi(e->d_name), &t->now[n]))
            n++;
    }
    closedir(d);
    if (n > 1)
        qsort(t->now, n, sizeof *t->now, by_pid);
    t->now_count = n;
    for (size_t i = 0; i < n; i++)
        decide(t, &t->now[i]);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (t->now[i].mark == MARK_OURS && t->now[i].pid != getpid())
            t->now[kept++] = t->now[i];
    t->now_count = kept;
}

/* argv joined by spaces; NULL when it has none (a zombie) or there is no memory. */
static char *read_argv(pid_t pid)
{
    char path[40], text[ARGV_MAX + 1];
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    int n = read_small(path, text, sizeof text);
    while (n > 0 && text[n - 1] == '\0')
        n--;
    if (n <= 0)
        return NULL;
    for (int i = 0; i < n; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            text[i] = text[i] ? '?' : ' ';
    return tw_strndup(text, (size_t)n);
}

static struct seen *seen_of(struct tw_tree *t, pid_t pid, uint64_t start, size_t *at)
{
    size_t low = 0, high = t->seen_count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        const struct seen *s = &t->seen[mid];
        if (s->pid < pid || (s->pid == pid && s->start < start))
            low = mid + 1;
        else
            high = mid;
    }
    if (at)
        *at = low;
    return low < t->seen_count && t->seen[low].pid == pid && t->seen[low].start == start ? &t->seen[low] : NULL;
}

static struct seen *remember(struct tw_tree *t, const struct stat_line *line)
{
    size_t at;
    struct seen *s = seen_of(t, line->pid, line->start, &at);
    if (s)
        return s;
    if (t->seen_count == TABLE_MAX) {
        t->overflow = true;
        return NULL;
    }
    if (tw_launch_grow(&t->seen, t->seen_count, sizeof *t->seen, NULL) != 0)
        return NULL;
    s = &t->seen[at];
    memmove(s + 1, s, (t->seen_count - at) * sizeof *s);
    t->seen_count++;
    *s = (struct seen){.pid = line->pid, .ppid = line->ppid, .start = line->start};
    return s;
}

static struct armed *armed_of(const struct tw_tree *t, pid_t pid)
{
    for (size_t i = 0; i < t->armed_count; i++)
        if (t->armed[i].pid == pid)
            return &t->armed[i];
    return NULL;
}

/* One line of `processes`: pid ppid start kind argv... */
static void armed_line(struct tw_tree *t, char *line)
{
    int pid, ppid, at = 0;
    unsigned long long start;
    char kind[16];
    if (sscanf(line, "%d %d %llu %15s %n", &pid, &ppid, &start, kind, &at) < 4 || at == 0 || pid <= 0)
        return;
    struct armed *known = armed_of(t, pid);
    char *argv = tw_strndup(line + at, ARGV_MAX);
    if (known) { /* exec inside the same process: the later word counts */
        tw_free(known->argv);
        known->argv = argv;
    } else if (t->armed_count < TABLE_MAX && tw_launch_grow(&t->armed, t->armed_count, sizeof *t->armed, NULL) == 0) {
        t->armed[t->armed_count++] = (struct armed){.pid = pid, .ppid = ppid, .argv = argv};
    } else {
        t->overflow = true;
        tw_free(argv);
    }
}

/* Reads what the agents appended since the last time; a line without its end is left for the next time. */
static void read_armed(struct tw_tree *t)
{
    char block[ARMED_LINE_MAX * 4 + 1];
    int fd = open(t->processes_path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    for (;;) {
        ssize_t n = tw_pread_all(fd, block, sizeof block - 1, t->armed_offset);
        if (n <= 0)
            break;
        block[n] = '\0';
        char *p = block, *end;
        while ((end = memchr(p, '\n', (size_t)(block + n - p)))) {
            *end = '\0';
            armed_line(t, p);
            p = end + 1;
        }
        if (p == block && (size_t)n == sizeof block - 1)
            p = block + n; /* longer than any line an agent writes: not ours, skipped */
        if (p == block)
            break;
        t->armed_offset += (uint64_t)(p - block);
    }
    close(fd);
}

static char *read_of(pid_t pid, const char *name, size_t cap, size_t *n)
{
    char path[40], *text = NULL;
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    return tw_read_file(path, cap, &text, n, NULL) == 0 ? text : NULL;
}

/* What is wrong with the environment that the program was started with; NULL: nothing. */
static const char *environment_fault(const struct tw_tree *t, pid_t pid)
{
    size_t n = 0;
    char *text = read_of(pid, "environ", ENVIRON_MAX, &n);
    if (!text)
        return "its environment cannot be read";
    bool passed_on = false, preload = false;
    for (const char *p = text; p < text + n; p += strlen(p) + 1) {
        passed_on |= strcmp(p, t->environ_line) == 0;
        preload |= tw_starts(p, "LD_PRELOAD=") && strstr(p, LIBRARY);
    }
    tw_free(text);
    return !passed_on ? "environment not passed on" : t->preload_why ? t->preload_why : !preload ? "LD_PRELOAD not passed on" : NULL;
}

static bool maps_library(pid_t pid)
{
    size_t n = 0;
    char *text = read_of(pid, "maps", MAPS_MAX, &n);
    bool has = text && memmem(text, n, LIBRARY, strlen(LIBRARY));
    tw_free(text);
    return has;
}

/* Why is this process not armed? NULL: the library is in it. The properties of the program come before those of its
 * environment: they would hold with a better one too. */
static const char *examine(const struct tw_tree *t, pid_t pid)
{
    struct tw_elf elf;
    char path[40];
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    if (tw_elf_inspect(path, &elf) != 0)
        return "another user's process: it cannot be looked into";
    if (maps_library(pid))
        return NULL;
    if (elf.foreign)
        return "a program for another kind of machine";
    if (elf.is_elf && !elf.dynamic)
        return "static binary";
    if (tw_program_is_privileged(path))
        return "set-user-ID program";
    const char *why = environment_fault(t, pid);
    return why ? why : elf.sanitizer ? "built with a sanitizer" : "its loader did not load the agent library";
}

/* The agent spoke from inside the program that the process runs now. A line with another argv may come from the program
 * that it was before an exec (bash -c ./static), or the process renamed itself: then the maps tell. */
static bool spoke(const struct tw_tree *t, const struct seen *s)
{
    const struct armed *line = armed_of(t, s->pid);
    enum { COMPARED = 3500 }; /* agents cut earlier than we do */
    return line && line->argv && s->argv && strncmp(line->argv, s->argv, COMPARED) == 0;
}

static void look_at(struct tw_tree *t, struct seen *s, uint64_t now_ns)
{
    char *argv = read_argv(s->pid);
    if (argv && (!s->argv || strcmp(argv, s->argv) != 0)) {
        tw_free(s->argv);
        tw_free(s->why);
        s->argv = argv;
        s->why = NULL;
        s->image_ns = now_ns;
        s->examined = s->loaded = false;
        s->is_fork_of_us = t->our_argv && strcmp(argv, t->our_argv) == 0;
    } else {
        tw_free(argv);
    }
    if (!t->agents || s->examined || s->is_fork_of_us || !s->argv || now_ns < s->image_ns + SETTLE_MS * 1000000ull || spoke(t, s))
        return;
    const char *why = examine(t, s->pid);
    struct stat_line again;
    if (!read_stat(s->pid, &again) || again.start != s->start || again.state == 'Z')
        return; /* it ended while we looked: what we saw is worth nothing */
    s->why = why ? tw_strdup(why) : NULL;
    s->loaded = why == NULL;
    s->examined = true;
}

static uint64_t cpu_ns(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void tw_tree_sample(struct tw_tree *t, bool force)
{
    uint64_t begin = tw_monotonic_ns(), begin_cpu = cpu_ns(), last_pid = 0;
    if (!force && begin < t->next_sample_ns)
        return;
    char text[128];
    if (read_small("/proc/loadavg", text, sizeof text) > 0 && strrchr(text, ' '))
        last_pid = strtoull(strrchr(text, ' ') + 1, NULL, 10);
    if (force || last_pid == 0 || last_pid != t->last_pid || !t->settled) {
        /* A number is given out before its process shows in /proc: only a second look with the same number has it. */
        t->settled = last_pid == t->last_pid;
        t->last_pid = last_pid;
        scan(t);
    } else { /* nobody new: only ends and execs can have happened */
        size_t kept = 0;
        for (size_t i = 0; i < t->now_count; i++) {
            struct stat_line line;
            if (read_stat(t->now[i].pid, &line) && line.start == t->now[i].start)
                t->now[kept++] = line;
        }
        t->now_count = kept;
    }
    read_armed(t);
    for (size_t i = 0; i < t->seen_count; i++)
        t->seen[i].alive = false;
    t->alive = 0;
    for (size_t i = 0; i < t->now_count; i++) {
        if (strchr("ZXx", t->now[i].state))
            continue;
        t->alive++;
        struct seen *s = remember(t, &t->now[i]);
        if (s) {
            s->alive = true;
            look_at(t, s, begin);
        }
    }
    uint64_t pause = (cpu_ns() - begin_cpu) * 100;
    t->next_sample_ns = begin + (pause < 150000000 ? 150000000 : pause > 1000000000 ? 1000000000 : pause);
}

struct tw_tree *tw_tree_start(const char *run_dir, bool agents, const char *preload_why, struct twin_error *err)
{
    struct tw_tree *t = tw_calloc(1, sizeof *t);
    if (!t)
        goto no_memory;
    t->agents = agents;
    t->processes_path = tw_path_join(run_dir, "processes");
    t->environ_line = tw_printf("TWINRUN_RUN_DIR=%s", run_dir);
    t->our_argv = read_argv(getpid());
    if (preload_why && !(t->preload_why = tw_strdup(preload_why)))
        goto no_memory;
    if (!t->processes_path || !t->environ_line)
        goto no_memory;
    scan(t);
    t->baseline = t->now;
    t->baseline_count = t->now_count;
    t->now = NULL;
    t->now_count = t->now_room = 0;
    return t;
no_memory:
    tw_tree_free(t);
    twin_error_set(err, TWIN_ENOMEM, "out of memory for the table of processes");
    return NULL;
}

void tw_tree_set_main(struct tw_tree *t, pid_t pid, char *const *argv)
{
    t->main_pid = pid;
    struct stat_line line = {.pid = pid, .ppid = getpid(), .start = tw_process_start_ticks(pid)};
    struct seen *s = remember(t, &line);
    struct tw_buf joined = {0};
    for (size_t i = 0; argv[i]; i++)
        tw_buf_printf(&joined, "%s%s", i ? " " : "", argv[i]);
    if (s && (s->argv = tw_buf_steal(&joined)) && strlen(s->argv) > ARGV_MAX)
        s->argv[ARGV_MAX] = '\0';
    tw_buf_free(&joined);
}

uint32_t tw_tree_alive(const struct tw_tree *t)
{
    return t->alive;
}

uint32_t tw_tree_armed(struct tw_tree *t)
{
    read_armed(t);
    return (uint32_t)t->armed_count;
}

static int by_start(const void *a, const void *b)
{
    const struct stat_line *x = a, *y = b;
    return x->start != y->start ? (x->start > y->start) - (x->start < y->start) : by_pid(a, b);
}

void tw_tree_kill(struct tw_tree *t, int signal, enum tw_kill_scope scope)
{
    scan(t);
    if (t->now_count > 1)
        qsort(t->now, t->now_count, sizeof *t->now, by_start);
    for (size_t i = 0; i < t->now_count; i++) {
        const struct stat_line *l = &t->now[i];
        bool in_group = l->pgrp == getpgrp() || l->pid == t->main_pid;
        if (l->state != 'Z' && (scope == TW_KILL_ALL || in_group == (scope == TW_KILL_GROUP)))
            kill(l->pid, signal);
    }
    if (t->now_count > 1)
        qsort(t->now, t->now_count, sizeof *t->now, by_pid);
}

/* What goes into run.json: the main process; every armed one; every other one that was looked into. One that was gone
 * before we could look is left out: a short-lived process that the agent entered has spoken for itself. */
int tw_tree_finish(struct tw_tree *t, struct twin_run *run, struct twin_error *err)
{
    read_armed(t);
    size_t room = t->seen_count + t->armed_count;
    run->processes = tw_calloc(room ? room : 1, sizeof *run->processes);
    if (!run->processes)
        return twin_error_set(err, TWIN_ENOMEM, "out of memory for the table of processes");
    for (size_t i = 0; i < t->seen_count; i++) {
        struct seen *s = &t->seen[i];
        bool armed = s->examined ? s->loaded || spoke(t, s) : armed_of(t, s->pid) != NULL, is_main = s->pid == t->main_pid;
        if (!is_main && !armed && !s->alive && !s->examined && t->agents)
            continue;
        if (!is_main && s->is_fork_of_us && !s->alive)
            continue;
        const char *why = armed ? NULL : !t->agents ? "unobserved control run" : s->why ? s->why : t->preload_why;
        struct twin_run_process *p = &run->processes[run->process_count++];
        *p = (struct twin_run_process){.pid = s->pid, .ppid = s->ppid, .armed = armed, .outlived = s->alive && !is_main};
        p->argv = tw_strdup(s->argv ? s->argv : "");
        p->why = why ? tw_strdup(why) : NULL;
        if (!p->argv || (why && !p->why))
            return twin_error_set(err, TWIN_ENOMEM, "out of memory for the table of processes");
    }
    size_t sampled = run->process_count;
    for (size_t i = 0; i < t->armed_count; i++) {
        size_t k = 0;
        while (k < sampled && run->processes[k].pid != t->armed[i].pid)
            k++;
        if (k < sampled)
            continue;
        struct twin_run_process *p = &run->processes[run->process_count++];
        *p = (struct twin_run_process){.pid = t->armed[i].pid, .ppid = t->armed[i].ppid, .armed = true};
        p->argv = tw_strdup(t->armed[i].argv ? t->armed[i].argv : "");
        if (!p->argv)
            return twin_error_set(err, TWIN_ENOMEM, "out of memory for the table of processes");
    }
    if (t->overflow)
        tw_run_note(run, "more than %d processes belonged to the job; only the first ones are listed", TABLE_MAX);
    return 0;
}

void tw_tree_free(struct tw_tree *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->seen_count; i++) {
        tw_free(t->seen[i].argv);
        tw_free(t->seen[i].why);
    }
    for (size_t i = 0; i < t->armed_count; i++)
        tw_free(t->armed[i].argv);
    tw_free(t->seen);
    tw_free(t->armed);
    tw_free(t->now);
    tw_free(t->baseline);
    tw_free(t->processes_path);
    tw_free(t->environ_line);
    tw_free(t->our_argv);
    tw_free(t->preload_why);
    tw_free(t);
}
