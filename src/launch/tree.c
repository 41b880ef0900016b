/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes belong to the job, and what became of each: the table behind run.json's
 * `processes`.
 *
 * They are all descendants of ours, found by sampling /proc. We are a subreaper while the job runs,
 * so a process whose parent ended becomes our child and stays in sight. What was a descendant
 * before the job started (a daemon left over by an earlier run) is not the job's: tw_tree_start()
 * takes a baseline. A process is known by its number and its start time, because numbers are used
 * again.
 *
 * The agents tell of themselves, too, in the run folder's file `processes`. So a process that lived
 * for too short a time to be sampled is still listed when an agent entered it; one that was sampled
 * and has no agent gets a reason (proc.c).
 *
 * Sampling is cheap where it can be: no process was created since when the last pid of
 * /proc/loadavg is the same; and it keeps to 1% of one core. One thread uses the table, the one
 * that runs tw_supervise(). */
#include "launch.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* TABLE_MAX: processes that are kept of one run, sampled ones and those that an agent named, each.
 * ARMED_LINE_MAX: bytes; a line of four times this length is not an agent's. */
enum {
    TABLE_MAX = 4096,
    ARMED_LINE_MAX = 8192,
    SETTLE_MS = 120, /* a process younger than this may not have run its agent's constructor yet */
};

/* One process of the job that was sampled. argv: its words as last seen, owned. why: why it has no
 * agent, owned; NULL when it has, or when nothing is known yet. examined: proc.c has looked into
 * this program, and `loaded` is what it found. is_fork_of_us: it still shows our own arguments,
 * since it is between fork and exec. */
struct seen {
    pid_t pid, ppid;
    uint64_t start;     /* clock ticks since boot */
    uint64_t cpu_ticks; /* so far, as last seen */
    uint64_t image_ns;  /* when this argv was first seen */
    char *argv;
    char *why;
    bool alive, examined, loaded, is_fork_of_us;
};

/* One process whose agent has said that it is there: the last line of that pid. */
struct armed {
    pid_t pid, ppid;
    char *argv;
    uint64_t start_ns; /* of the agent in the program that argv names */
};

/* preload_why: why nothing was preloaded, NULL when it was. armed_offset: how far the agents' file
 * has been read, bytes. last_pid: newest process number at the last scan. alive, busy_ns: of the
 * last sample. overflow: TABLE_MAX was reached, which becomes a note. */
struct tw_tree {
    char *processes_path, *environ_line, *our_argv;
    char *preload_why;
    bool agents;
    pid_t main_pid;
    struct seen *seen;
    size_t seen_count; /* sorted by (pid, start) */
    struct armed *armed;
    size_t armed_count;
    struct tw_proc *now;
    size_t now_count, now_room; /* the last scan, sorted by pid */
    struct tw_proc *baseline;
    size_t baseline_count; /* descendants from before the job */
    uint64_t armed_offset, next_sample_ns, last_pid;
    bool settled; /* /proc was read once more after last_pid was first seen */
    uint32_t alive;
    uint64_t busy_ns;
    bool overflow;
};

static int by_pid(const void *a, const void *b)
{
    pid_t x = ((const struct tw_proc *)a)->pid, y = ((const struct tw_proc *)b)->pid;
    return (x > y) - (x < y);
}

/* The line of a process in a list sorted by pid; NULL when it has none. */
static struct tw_proc *line_of(const struct tw_proc *lines, size_t n, pid_t pid)
{
    struct tw_proc key = {.pid = pid};
    return n ? bsearch(&key, lines, n, sizeof *lines, by_pid) : NULL;
}

/* Of a line during one scan. OPEN: on the path that decide_mark() is following now, so that a cycle
 * (lines are read one after another, and a number may be reused meanwhile) ends. */
enum { MARK_UNKNOWN, MARK_OURS, MARK_FOREIGN, MARK_OPEN };

/*
 * Is it below us? Follows the parents; marks what it passes, so that every process is decided once.
 */
static int decide_mark(struct tw_tree *t, struct tw_proc *line)
{
    pid_t self = getpid();
    struct tw_proc *path[128];
    size_t depth = 0;
    int mark = MARK_FOREIGN;
    for (struct tw_proc *l = line; l; l = line_of(t->now, t->now_count, l->ppid)) {
        if (l->pid == self) {
            mark = MARK_OURS;
            break;
        }
        const struct tw_proc *old = line_of(t->baseline, t->baseline_count, l->pid);
        if (l->mark == MARK_OURS || l->mark == MARK_FOREIGN) {
            mark = l->mark;
            break;
        }
        if (l->mark == MARK_OPEN || (old && old->start == l->start) ||
            depth == sizeof path / sizeof path[0])
            break;
        l->mark = MARK_OPEN;
        path[depth++] = l;
    }
    while (depth > 0)
        path[--depth]->mark = mark;
    return mark;
}

/* Reads all of /proc; afterwards t->now holds the job's processes only. Keeps the last scan when
 * memory is short. */
static void scan_proc(struct tw_tree *t)
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
            struct tw_proc *grown = tw_reallocarray(t->now, room, sizeof *grown);
            if (!grown)
                break;
            t->now = grown;
            t->now_room = room;
        }
        if (tw_proc_stat((pid_t)atoi(e->d_name), &t->now[n]))
            n++;
    }
    closedir(d);
    if (n > 1)
        qsort(t->now, n, sizeof *t->now, by_pid);
    t->now_count = n;
    for (size_t i = 0; i < n; i++)
        decide_mark(t, &t->now[i]);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (t->now[i].mark == MARK_OURS && t->now[i].pid != getpid())
            t->now[kept++] = t->now[i];
    t->now_count = kept;
}

/* Looks a process up by number and start time. *at (may be NULL) is where it stands, or where it
 * would be inserted. */
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
    return low < t->seen_count && t->seen[low].pid == pid && t->seen[low].start == start
               ? &t->seen[low]
               : NULL;
}

/* The entry of a process, made when it is new; NULL when the table is full or there is no memory.
 * The table stays sorted. A pointer into it holds until the next call only. */
static struct seen *remember_process(struct tw_tree *t, const struct tw_proc *line)
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
    if (sscanf(line, "%d %d %llu %15s %n", &pid, &ppid, &start, kind, &at) < 4 || at == 0 ||
        pid <= 0)
        return;
    struct armed *known = armed_of(t, pid);
    char *argv = tw_strndup(line + at, TW_ARGV_MAX);
    if (known) { /* exec inside the same process: the later word counts */
        tw_free(known->argv);
        known->argv = argv;
        known->start_ns = start;
    } else if (t->armed_count < TABLE_MAX &&
               tw_launch_grow(&t->armed, t->armed_count, sizeof *t->armed, NULL) == 0) {
        t->armed[t->armed_count++] = (struct armed){
            .pid = pid, .ppid = ppid, .argv = argv, .start_ns = start};
    } else {
        t->overflow = true;
        tw_free(argv);
    }
}

/* Reads what the agents appended since the last time; a line without its end is left for the next
 * time. */
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

/* The agent spoke from inside the program that the process runs now. A line with another argv may
 * come from the program that it was before an exec (bash -c ./static), or the process renamed
 * itself: then the maps tell. */
static bool spoke(const struct tw_tree *t, const struct seen *s)
{
    const struct armed *line = armed_of(t, s->pid);
    /* Bytes of the two command lines that must be equal. */
    enum { COMPARED = 3500 }; /* agents cut earlier than we do */
    return line && line->argv && s->argv && strncmp(line->argv, s->argv, COMPARED) == 0;
}

/* The words of a process that has become another program, and a time at which they were these: an
 * agent's line of the program before may be written while we look. Takes argv; NULL when the
 * process is gone or there is no memory. */
static char *argv_of_image(pid_t pid, char *argv, uint64_t *when)
{
    enum { LOOKS = 3 };
    for (int i = 0; argv && i < LOOKS; i++) {
        *when = tw_monotonic_ns();
        char *again = tw_proc_argv(pid);
        if (!again || strcmp(again, argv) == 0) {
            tw_free(again);
            return argv;
        }
        tw_free(argv);
        argv = again;
    }
    return argv;
}

/* Looks at one living process: notes its words when they changed, and once it has run the same
 * program for SETTLE_MS without a word of an agent, finds out why. Its parent's words are not taken
 * for its own: right after the fork it still shows them. */
static void look_at(struct tw_tree *t, struct seen *s, uint64_t now_ns)
{
    char *argv = tw_proc_argv(s->pid);
    /* between fork and exec: not yet what it will be */
    bool forked = argv && t->our_argv && strcmp(argv, t->our_argv) == 0;
    s->is_fork_of_us = argv ? forked : s->is_fork_of_us;
    if (forked)
        s->image_ns = now_ns;
    if (argv && !(forked && s->argv) && (!s->argv || strcmp(argv, s->argv) != 0)) {
        tw_free(s->argv);
        tw_free(s->why);
        s->image_ns = now_ns;
        s->argv = argv_of_image(s->pid, argv, &s->image_ns);
        s->why = NULL;
        s->examined = s->loaded = false;
        argv = NULL;
    }
    tw_free(argv);
    if (!t->agents || s->examined || s->is_fork_of_us || !s->argv ||
        now_ns < s->image_ns + SETTLE_MS * 1000000ull || spoke(t, s))
        return;
    const char *why;
    if (!tw_proc_why_unarmed(s->pid, s->start, t->environ_line, t->preload_why, &why))
        return;
    s->why = why ? tw_strdup(why) : NULL;
    s->loaded = why == NULL;
    s->examined = true;
}

/* Processor time of this thread. */
static uint64_t cpu_ns(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* One look at the job: who lives, who is busy, which agents have spoken. */
void tw_tree_sample(struct tw_tree *t, bool force)
{
    uint64_t begin = tw_monotonic_ns(), begin_cpu = cpu_ns(), last_pid = 0;
    if (!force && begin < t->next_sample_ns)
        return;
    char text[128];
    if (tw_proc_read_small("/proc/loadavg", text, sizeof text) > 0 && strrchr(text, ' '))
        last_pid = strtoull(strrchr(text, ' ') + 1, NULL, 10);
    if (force || last_pid == 0 || last_pid != t->last_pid || !t->settled) {
        /* A number is given out before its process shows in /proc: only a second look with the same
         * number has it. */
        t->settled = last_pid == t->last_pid;
        t->last_pid = last_pid;
        scan_proc(t);
    } else { /* nobody new: only ends and execs can have happened */
        size_t kept = 0;
        for (size_t i = 0; i < t->now_count; i++) {
            struct tw_proc line;
            if (tw_proc_stat(t->now[i].pid, &line) && line.start == t->now[i].start)
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
        if (strchr("RD", t->now[i].state))
            t->busy_ns = begin;
        struct seen *s = remember_process(t, &t->now[i]);
        if (s) {
            s->alive = true;
            look_at(t, s, begin);
        }
    }
    /* A hundred times what this look cost, so that we keep to 1% of a core; between 0.15 and 1 s.
     */
    uint64_t pause = (cpu_ns() - begin_cpu) * 100;
    if (pause < 150000000)
        pause = 150000000;
    else if (pause > 1000000000)
        pause = 1000000000;
    t->next_sample_ns = begin + pause;
}

/* The table, with all present descendants in its baseline; NULL when out of memory. */
struct tw_tree *tw_tree_start(const char *run_dir, bool agents, const char *preload_why,
                              struct twin_error *err)
{
    struct tw_tree *t = tw_calloc(1, sizeof *t);
    if (!t)
        goto no_memory;
    t->agents = agents;
    t->processes_path = tw_path_join(run_dir, "processes");
    t->environ_line = tw_printf("TWINRUN_RUN_DIR=%s", run_dir);
    t->our_argv = tw_proc_argv(getpid());
    if (preload_why && !(t->preload_why = tw_strdup(preload_why)))
        goto no_memory;
    if (!t->processes_path || !t->environ_line)
        goto no_memory;
    scan_proc(t);
    t->baseline = t->now;
    t->baseline_count = t->now_count;
    t->now = NULL;
    t->now_count = t->now_room = 0;
    return t;
no_memory:
    tw_tree_free(t);
    tw_no_memory(err, "for the table of processes");
    return NULL;
}

/* The main process, known without a sample: its words come from the command itself, masked as those
 * of the others are. They hold from start_ns on: by now it may have become another program. */
void tw_tree_set_main(struct tw_tree *t, pid_t pid, char *const *argv, uint64_t start_ns)
{
    t->main_pid = pid;
    struct tw_proc line = {.pid = pid, .ppid = getpid(), .start = tw_process_start_ticks(pid)};
    struct seen *s = remember_process(t, &line);
    char text[TW_ARGV_MAX + 1];
    size_t used = 0;
    int pending = TW_SECRET_NONE;
    for (size_t i = 0; argv[i]; i++) {
        if (i && used < sizeof text - 1)
            text[used++] = ' ';
        used += tw_secret_mask(&pending, argv[i], strlen(argv[i]), text + used, sizeof text - used);
    }
    if (s)
        s->argv = tw_strndup(text, used);
    if (s)
        s->image_ns = start_ns;
}

/* Reads the living processes of the last scan again. Those that have ended count with what they had
 * used when they were last read. */
void tw_tree_usage(struct tw_tree *t, struct tw_tree_usage *out)
{
    *out = (struct tw_tree_usage){.cpu_ticks = 0};
    for (size_t i = 0; i < t->now_count; i++) {
        struct tw_proc line;
        if (!tw_proc_stat(t->now[i].pid, &line) || line.start != t->now[i].start)
            continue;
        struct seen *s = seen_of(t, line.pid, line.start, NULL);
        if (s)
            s->cpu_ticks = line.cpu_ticks;
        if (line.state == 'Z')
            continue;
        out->processes++;
        out->threads += line.threads;
    }
    for (size_t i = 0; i < t->seen_count; i++)
        out->cpu_ticks += t->seen[i].cpu_ticks;
}

uint32_t tw_tree_alive(const struct tw_tree *t)
{
    return t->alive;
}

uint64_t tw_tree_busy_ns(const struct tw_tree *t)
{
    return t->busy_ns;
}

uint32_t tw_tree_armed(struct tw_tree *t)
{
    read_armed(t);
    return (uint32_t)t->armed_count;
}

static int by_start(const void *a, const void *b)
{
    const struct tw_proc *x = a, *y = b;
    return x->start != y->start ? (x->start > y->start) - (x->start < y->start) : by_pid(a, b);
}

/* Reads /proc anew, so that processes made since the last sample are met, too. They are signalled
 * in the order of their start times, which puts parents before children; the list is sorted by pid
 * again for those who search it. */
void tw_tree_kill(struct tw_tree *t, int signal, enum tw_kill_scope scope)
{
    scan_proc(t);
    if (t->now_count > 1)
        qsort(t->now, t->now_count, sizeof *t->now, by_start);
    for (size_t i = 0; i < t->now_count; i++) {
        const struct tw_proc *l = &t->now[i];
        bool in_group = l->pgrp == getpgrp() || l->pid == t->main_pid;
        if (l->state != 'Z' && (scope == TW_KILL_ALL || in_group == (scope == TW_KILL_GROUP)))
            kill(l->pid, signal);
    }
    if (t->now_count > 1)
        qsort(t->now, t->now_count, sizeof *t->now, by_pid);
}

/* Is the first word of both command lines the same? */
static bool same_program(const char *argv, const char *other)
{
    size_t n = strcspn(argv, " ");
    return n == strcspn(other, " ") && memcmp(argv, other, n) == 0;
}

/* A process that was gone before it was looked at again may have become another program (sh -c
 * 'exec python ...'): its agent has said so. What was sampled later than that counts more. */
static const char *last_argv(const struct tw_tree *t, const struct seen *s)
{
    const struct armed *line = armed_of(t, s->pid);
    const char *sampled = s->argv ? s->argv : "";
    if (!line || !line->argv || line->start_ns <= s->image_ns || same_program(line->argv, sampled))
        return sampled;
    return line->argv;
}

/* What goes into run.json: the main process; every armed one; every other one that was looked into.
 * One that was gone before we could look is left out: a short-lived process that the agent entered
 * has spoken for itself. */
int tw_tree_finish(struct tw_tree *t, struct twin_run *run, struct twin_error *err)
{
    read_armed(t);
    size_t room = t->seen_count + t->armed_count;
    run->processes = tw_calloc(room ? room : 1, sizeof *run->processes);
    if (!run->processes)
        return tw_no_memory(err, "for the table of processes");
    for (size_t i = 0; i < t->seen_count; i++) {
        struct seen *s = &t->seen[i];
        bool armed = s->examined ? s->loaded || spoke(t, s) : armed_of(t, s->pid) != NULL;
        bool is_main = s->pid == t->main_pid;
        if (!is_main && !armed && !s->alive && !s->examined && t->agents)
            continue;
        if (!is_main && s->is_fork_of_us && !s->alive)
            continue;
        const char *why = NULL;
        if (!armed && !t->agents)
            why = "unobserved control run";
        else if (!armed)
            why = s->why ? s->why : t->preload_why;
        struct twin_run_process *p = &run->processes[run->process_count++];
        *p = (struct twin_run_process){
            .pid = s->pid, .ppid = s->ppid, .armed = armed, .outlived = s->alive && !is_main};
        p->argv = tw_strdup(last_argv(t, s));
        p->why = why ? tw_strdup(why) : NULL;
        if (!p->argv || (why && !p->why))
            return tw_no_memory(err, "for the table of processes");
    }
    size_t sampled = run->process_count;
    for (size_t i = 0; i < t->armed_count; i++) {
        size_t k = 0;
        while (k < sampled && run->processes[k].pid != t->armed[i].pid)
            k++;
        if (k < sampled)
            continue;
        struct twin_run_process *p = &run->processes[run->process_count++];
        *p = (struct twin_run_process){
            .pid = t->armed[i].pid, .ppid = t->armed[i].ppid, .armed = true};
        p->argv = tw_strdup(t->armed[i].argv ? t->armed[i].argv : "");
        if (!p->argv)
            return tw_no_memory(err, "for the table of processes");
    }
    if (t->overflow)
        tw_run_note(run,
                    "more than %d processes belonged to the job; only the first ones are listed",
                    TABLE_MAX);
    return 0;
}

/* NULL is fine. */
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
