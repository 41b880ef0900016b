/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One row of counters of this process at the end of a step: `telemetry/<rank>.<pid>`
 * (docs/format/telemetry.md). Nothing of it is in the trace, so that runs which computed the same
 * stay equal whatever the machine did. What it costs is bounded by what it has cost: rows keep a
 * distance of 400 times their own time (0.25%). Steps that end in between are counted, and the next
 * row stands for all of them. Their number grows with the logarithm of the run's length.
 */
#include "state.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include "src/base/base.h"

#define SPACING 400 /* times what a row costs */
#define SPACING_MIN_NS 1000000u
#define ROWS_DENSE 20000 /* rows keep a distance of elapsed / ROWS_DENSE, too */
#define FLUSH_NS 250000000u
#define ROW_BYTES 320

/* Guards all below. Who finds it taken goes without: a lost row makes the next one stand for more
 * steps. */
static atomic_flag taken = ATOMIC_FLAG_INIT;
static struct {
    bool begun, failed;
    uint64_t start_ns, next_ns, flushed_ns, cost_ns, flush_cost_ns;
    long page_bytes;
    size_t used;
    char text[16384];
} t;

static void flush_rows(uint64_t now)
{
    char path[PATH_MAX];
    const struct tw_agent_config *c = &tw_agent_config;
    t.flushed_ns = now;
    if (t.used == 0 || t.failed)
        return;
    int n = snprintf(path, sizeof path, "%s/telemetry/%d.%ld", c->run_dir, (int)c->rank,
                     (long)getpid());
    int fd = n > 0 && (size_t)n < sizeof path
                 ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW,
                        0666)
                 : -1;
    struct tw_file_limit limit;
    tw_file_limit_hold(&limit);
    /* Rows behind one that was cut off (disk full) would be misread: then no more are written. */
    t.failed = fd < 0 || write(fd, t.text, t.used) != (ssize_t)t.used;
    tw_file_limit_release(&limit);
    if (fd >= 0)
        close(fd);
    t.used = 0;
}

static size_t read_small(const char *path, char *text, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, room - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

/* "-": not known here. */
static const char *write_number(char out[24], bool known, unsigned long long v)
{
    if (known)
        snprintf(out, 24, "%llu", v);
    else
        memcpy(out, "-", 2);
    return out;
}

static unsigned long long micros(const struct timeval *v)
{
    return (unsigned long long)v->tv_sec * 1000000u + (unsigned long long)v->tv_usec;
}

/* Processor time and waiting for a processor of the thread that ends the steps: every other thread
 * waits for it, or it for them. */
static void write_row(uint64_t now, uint32_t steps)
{
    struct rusage u = {.ru_maxrss = 0};
    char text[128], wait[24], run[24], rss[24];
    unsigned long long ran = 0, waited = 0, size = 0, resident = 0;
    bool scheduled = read_small("/proc/thread-self/schedstat", text, sizeof text) &&
                     sscanf(text, "%llu %llu", &ran, &waited) == 2;
    bool sized = read_small("/proc/self/statm", text, sizeof text) &&
                 sscanf(text, "%llu %llu", &size, &resident) == 2;
    getrusage(RUSAGE_SELF, &u);
    if (sizeof t.text - t.used < ROW_BYTES)
        flush_rows(now);
    int n = snprintf(
        t.text + t.used, ROW_BYTES,
        "%llu\t%u\t%ld\t%llu\t%s\t%s\t%ld\t%ld\t%ld\t%ld\t%s\t%llu\t%llu\n",
        (unsigned long long)now, steps, (long)syscall(SYS_gettid),
        (micros(&u.ru_utime) + micros(&u.ru_stime)) * 1000u, write_number(wait, scheduled, waited),
        write_number(run, scheduled, ran), u.ru_minflt, u.ru_majflt, u.ru_nvcsw, u.ru_nivcsw,
        write_number(rss, sized, resident * (unsigned long long)t.page_bytes),
        (unsigned long long)u.ru_inblock * 512u, (unsigned long long)u.ru_oublock * 512u);
    if (n > 0 && n < ROW_BYTES)
        t.used += (size_t)n;
}

static void begin_file(uint64_t now)
{
    t.begun = true;
    t.start_ns = t.flushed_ns = now;
    t.page_bytes = sysconf(_SC_PAGESIZE);
    struct utsname u = {.nodename = ""};
    uname(&u);
    int n = snprintf(t.text, sizeof t.text,
                     "twinrun.telemetry/1\tprocess\t%s\t%d\t%d\t%ld\t%s\n"
                     "t_ns\tsteps\tthread\tcpu_ns\twait_ns\tran_ns\tfaults\tmajor_"
                     "faults\twaits\tpreempted\trss_bytes\tread_bytes\twritten_bytes\n",
                     u.nodename, (int)tw_agent_config.rank, (int)tw_agent_config.world,
                     (long)getpid(), tw_agent_config.role);
    t.used = n > 0 ? (size_t)n : 0;
}

static uint64_t thread_cpu_ns(void)
{
    struct timespec now = {.tv_sec = 0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void tw_telemetry_row(uint32_t steps)
{
    if (!tw_agent_config.telemetry)
        return;
    uint64_t now = tw_monotonic_ns();
    if (atomic_flag_test_and_set(&taken))
        return;
    if (!t.begun)
        begin_file(now);
    if (!t.failed && now >= t.next_ns) {
        uint64_t cpu = thread_cpu_ns();
        write_row(now, steps);
        uint64_t cost = thread_cpu_ns() - cpu, wrote = 0;
        if (now - t.flushed_ns > FLUSH_NS && now - t.flushed_ns > 2 * SPACING * t.flush_cost_ns) {
            flush_rows(now);
            t.flush_cost_ns = wrote = thread_cpu_ns() - cpu - cost;
        }
        /* A row that met a cold cache says nothing about the next one: it counts as four usual ones
         * at most. Writing counts in full. */
        if (t.cost_ns)
            cost = (7 * t.cost_ns + (cost < 4 * t.cost_ns ? cost : 4 * t.cost_ns)) / 8;
        t.cost_ns = cost;
        uint64_t spacing = (cost + wrote) * SPACING, sparse = (now - t.start_ns) / ROWS_DENSE;
        spacing = spacing > SPACING_MIN_NS ? spacing : SPACING_MIN_NS;
        t.next_ns = now + (spacing > sparse ? spacing : sparse);
    }
    atomic_flag_clear(&taken);
}

void tw_telemetry_flush(void)
{
    if (!tw_agent_config.telemetry || atomic_flag_test_and_set(&taken))
        return;
    if (t.begun)
        flush_rows(tw_monotonic_ns());
    atomic_flag_clear(&taken);
}

void tw_telemetry_begin_anew(void)
{
    if (!tw_agent_config.telemetry || atomic_flag_test_and_set(&taken))
        return;
    if (t.begun)
        flush_rows(tw_monotonic_ns());
    t.begun = false;
    t.next_ns = 0;
    atomic_flag_clear(&taken);
}

void tw_telemetry_forget(void)
{
    atomic_flag_clear(&taken);
    t.begun = t.failed = false;
    t.used = 0;
    t.next_ns = t.cost_ns = t.flush_cost_ns = 0;
}
