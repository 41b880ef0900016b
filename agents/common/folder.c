/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's lines in the run folder: `processes`, `faults`, `factors`, `progress`
 * (docs/format/run-folder.md). The progress file is written with pwrite and never mapped: a store
 * to a mapping raises SIGBUS, and kills the job, when the disk is full or the file shrinks.
 */
#include "state.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "src/base/base.h"

#define LINE_BYTES 4000
#define FORKED_BYTES 200
#define SLOTS 64
#define UPDATE_NS 10000000u

struct slot {
    uint32_t pid;
    int32_t rank;
    uint64_t steps, records, dropped, observer_ns;
    uint32_t state, kind;
    uint32_t ranks_here;
    uint8_t reserved[12];
};
_Static_assert(sizeof(struct slot) == 64, "docs/format/run-folder.md says 64 bytes");

static char argv_line[LINE_BYTES];
static int claimed = -1;
static _Atomic uint64_t last_update_ns;

static int open_entry(const char *name, int flags)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", tw_agent_config.run_dir, name);
    if (n < 0 || (size_t)n >= sizeof path)
        return -1;
    return open(path, flags | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW, 0666);
}

static bool append_line(const char *name, const char *line, size_t bytes)
{
    int fd = open_entry(name, O_WRONLY | O_APPEND | O_CREAT);
    if (fd < 0)
        return false;
    struct tw_file_limit limit;
    tw_file_limit_hold(&limit);
    /*
     * One write: lines of concurrent processes never mix. A short one (disk full) is not repaired.
     */
    ssize_t n = write(fd, line, bytes);
    tw_file_limit_release(&limit);
    close(fd);
    return n == (ssize_t)bytes;
}

void tw_folder_init(int argc, char **argv)
{
    size_t used = 0;
    int pending = TW_SECRET_NONE;
    for (int i = 0; i < argc && argv && argv[i]; i++) {
        if (i && used < sizeof argv_line - 1)
            argv_line[used++] = ' ';
        used += tw_secret_mask(&pending, argv[i], strlen(argv[i]), argv_line + used,
                               sizeof argv_line - used);
    }
    for (size_t i = 0; i < used; i++)
        if ((unsigned char)argv_line[i] < 0x20 || argv_line[i] == 0x7F)
            argv_line[i] = '?';
    argv_line[used] = '\0';
}

/* Thousands of forks of a job with a long command line would fill the folder with copies of it. */
void tw_folder_forget(void)
{
    if (strlen(argv_line) > FORKED_BYTES)
        memcpy(argv_line + FORKED_BYTES - 3, "...", 4);
}

size_t tw_agent_masked(const char *text, size_t bytes, char *out, size_t room)
{
    int pending = TW_SECRET_NONE;
    return tw_secret_mask(&pending, text, bytes, out, room);
}

bool tw_folder_announce(int kind)
{
    char line[LINE_BYTES];
    int n = snprintf(line, sizeof line, "%ld %ld %llu %s %s", (long)getpid(), (long)getppid(),
                     (unsigned long long)tw_monotonic_ns(), kind == 2 ? "python" : "native",
                     argv_line);
    if (n < 0)
        return false;
    size_t bytes = (size_t)n < sizeof line - 1 ? (size_t)n : sizeof line - 2;
    line[bytes++] = '\n';
    return append_line("processes", line, bytes);
}

void tw_folder_fault(const char *what, const char *why)
{
    char line[LINE_BYTES];
    int n = snprintf(line, sizeof line, "%ld %s: %s", (long)getpid(), what, why);
    if (n < 0)
        return;
    size_t bytes = (size_t)n < sizeof line - 1 ? (size_t)n : sizeof line - 2;
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)line[i] < 0x20)
            line[i] = '?';
    line[bytes++] = '\n';
    append_line("faults", line, bytes);
}

void tw_folder_factor(const char *key, const char *value)
{
    char line[LINE_BYTES];
    int n = snprintf(line, sizeof line, "%ld\t%d\t%s\t%s\t%s", (long)getpid(),
                     (int)tw_agent_config.rank, tw_agent_config.role, key, value);
    if (n < 0)
        return;
    size_t bytes = (size_t)n < sizeof line - 1 ? (size_t)n : sizeof line - 2;
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)line[i] < 0x20 && line[i] != '\t')
            line[i] = '?';
    line[bytes++] = '\n';
    append_line("factors", line, bytes);
}

void tw_folder_written(uint64_t bytes_before, const char *path)
{
    char line[TW_WRITTEN_PATH_BYTES + 32];
    int n = snprintf(line, sizeof line, "%llu\t%s\n", (unsigned long long)bytes_before, path);
    if (n > 0 && (size_t)n < sizeof line)
        append_line("written", line, (size_t)n);
}

static void fill_slot(struct slot *s, enum tw_progress_state state)
{
    static atomic_bool told;
    struct twin_writer_counts c = {0};
    if (tw_agent_writer)
        c = twin_writer_counts(tw_agent_writer);
    if (c.failed_errno) {
        state = TW_PROGRESS_OFF;
        if (!atomic_exchange(&told, true))
            tw_folder_fault("the trace ends early", strerror(c.failed_errno));
    }
    *s = (struct slot){.pid = (uint32_t)getpid(),
                       .rank = tw_agent_config.rank,
                       .records = c.records,
                       .dropped = c.dropped,
                       .observer_ns = c.observer_ns,
                       .state = (uint32_t)state,
                       .kind = (uint32_t)tw_agent_config.kind,
                       .ranks_here = tw_agent_config.ranks_here};
    if (tw_agent_writer)
        s->steps = twin_writer_step(tw_agent_writer);
}

/* Takes slot i if it is free (ended: or if its process has ended). Whose lock is on it claims it at
 * this moment: it will not be free, so nobody waits for anybody, however long a process is held up
 * here. */
static bool take_slot(int fd, int i, bool ended)
{
    struct slot s;
    struct flock one = {.l_type = F_WRLCK,
                        .l_whence = SEEK_SET,
                        .l_start = (off_t)(sizeof s) * i,
                        .l_len = sizeof s};
    for (int look = 0; look < 2; look++) {
        if (pread(fd, &s, sizeof s, one.l_start) != (ssize_t)sizeof s ||
            (s.pid != 0 && !(ended && s.state >= TW_PROGRESS_CLOSED)))
            return false;
        if (look == 0 && fcntl(fd, F_SETLK, &one) != 0)
            return false;
    }
    fill_slot(&s, TW_PROGRESS_RECORDING);
    return pwrite(fd, &s, sizeof s, one.l_start) == (ssize_t)sizeof s;
}

/* A free slot; when there is none, one whose process has ended. None: reported nowhere, the trace
 * is unaffected. */
void tw_progress_claim(void)
{
    struct stat st;
    int fd = open_entry("progress", O_RDWR | O_CREAT);
    if (fd < 0)
        return;
    struct tw_file_limit limit;
    tw_file_limit_hold(&limit);
    /* Readers may count on the full size. */
    bool whole = fstat(fd, &st) == 0 && (st.st_size >= (off_t)(SLOTS * sizeof(struct slot)) ||
                                         ftruncate(fd, SLOTS * sizeof(struct slot)) == 0);
    for (int i = 0; whole && claimed < 0 && i < 2 * SLOTS; i++)
        if (take_slot(fd, i % SLOTS, i >= SLOTS))
            claimed = i % SLOTS;
    tw_file_limit_release(&limit);
    close(fd); /* gives the locks back */
}

void tw_progress_forget(void)
{
    claimed = -1;
}

void tw_progress_update(enum tw_progress_state state, bool now)
{
    if (claimed < 0)
        return;
    uint64_t t = tw_monotonic_ns();
    if (!now && t - atomic_load_explicit(&last_update_ns, memory_order_relaxed) < UPDATE_NS)
        return;
    atomic_store_explicit(&last_update_ns, t, memory_order_relaxed);
    int fd = open_entry("progress", O_WRONLY);
    if (fd < 0)
        return;
    struct slot mine;
    struct tw_file_limit limit;
    fill_slot(&mine, state);
    tw_file_limit_hold(&limit);
    ssize_t n = pwrite(fd, &mine, sizeof mine, (off_t)(sizeof mine) * claimed);
    (void)n; /* the next update tries again */
    tw_file_limit_release(&limit);
    close(fd);
}
