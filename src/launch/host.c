/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of the machine while the job runs: `telemetry/host` (docs/format/telemetry.md). Sampled
 * by the launcher, not by the agents: one reader for all ranks of a machine, and none of it in the
 * job's own time. It keeps to 0.25% of one core. What cannot be read here is "-", never 0.
 */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ull
/* Milliseconds: PERIOD between two rows at least, SLOW between two looks at what moves slowly,
 * FLUSH between two writes. SPACING: the pause is at least so many times the processor time of the
 * last row, which makes 0.25% of a core. */
enum {
    PERIOD_MS = 50,
    SLOW_MS = 500,
    FLUSH_MS = 250,
    SPACING = 400,
    CPUS_MAX = 16,
    LEVELS_MAX = 16
};
#define ROWS_DENSE 20000 /* as in agents/common/telemetry.c */

/* The columns, in the order of the file. Counters count since some time before the run; the last
 * ones are levels. */
#define COLUMNS(X)        \
    X(cpus)               \
    X(busy_ns)            \
    X(iowait_ns)          \
    X(steal_ns)           \
    X(job_cpu_ns)         \
    X(throttled_ns)       \
    X(cpu_stall_ns)       \
    X(io_stall_ns)        \
    X(memory_stall_ns)    \
    X(net_bytes)          \
    X(loopback_bytes)     \
    X(retransmits)        \
    X(disk_read_bytes)    \
    X(disk_written_bytes) \
    X(thermal_events)     \
    X(khz)                \
    X(runnable)           \
    X(available_bytes)    \
    X(job_processes)      \
    X(job_threads)
#define NAME(x) #x "\t"
#define INDEX(x) H_##x,
enum { COLUMNS(INDEX) H_COUNT };

/* The sampler. known, value: the row that is being made, one cell for each column. next_ns,
 * slow_ns: when the next row, and the next slow look, are due. tick_ns: length of a tick of /proc's
 * times. failed: the file cannot be written, so nothing is sampled any more. */
struct tw_host {
    char *path;
    pid_t job;
    uint64_t start_ns, next_ns, slow_ns, flushed_ns;
    uint64_t tick_ns;
    bool known[H_COUNT];
    uint64_t value[H_COUNT];
    /*
     * the job's line of /proc/PID/cgroup; throttled time counts from when it was first seen there
     */
    char group[512];
    uint64_t throttled_base;
    struct tw_buf rows;
    bool failed;
};

static void set_counter(struct tw_host *h, int column, bool known, uint64_t value)
{
    h->known[column] = known;
    h->value[column] = value;
}

/* ---- processors */

/* cpu user nice system idle iowait irq softirq steal; guests are in user and nice. */
static void read_processors(struct tw_host *h)
{
    char text[8192];
    unsigned long long v[8] = {0};
    if (tw_proc_read_small("/proc/stat", text, sizeof text) <= 0)
        return;
    int n = sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", v, v + 1, v + 2, v + 3,
                   v + 4, v + 5, v + 6, v + 7);
    set_counter(h, H_busy_ns, n >= 7, (v[0] + v[1] + v[2] + v[5] + v[6]) * h->tick_ns);
    set_counter(h, H_iowait_ns, n >= 5, v[4] * h->tick_ns);
    set_counter(h, H_steal_ns, n == 8, v[7] * h->tick_ns);
}

/* "some avg10=.. total=MICROSECONDS": time in which at least one task waited for it. */
static void pressure(struct tw_host *h, const char *path, int column)
{
    char text[256], *total;
    if (tw_proc_read_small(path, text, sizeof text) > 0 && (total = strstr(text, "total=")))
        set_counter(h, column, true, strtoull(total + 6, NULL, 10) * 1000u);
}

/* The number before the slash of "0.20 0.18 0.12 1/80 11206": threads that run or could run. */
static void read_load(struct tw_host *h)
{
    char text[128], *slash;
    if (tw_proc_read_small("/proc/loadavg", text, sizeof text) <= 0 || !(slash = strchr(text, '/')))
        return;
    while (slash > text && slash[-1] != ' ')
        slash--;
    set_counter(h, H_runnable, true, strtoull(slash, NULL, 10));
}

/* ---- the quota of the job's control group */

/* Adds the time for which this control group was held by its quota. False: the group has no such
 * number. */
static bool throttled_in(const char *dir, uint64_t *ns)
{
    char path[700], text[1024], *at;
    int n = snprintf(path, sizeof path, "%s/cpu.stat", dir);
    if (n < 0 || (size_t)n >= sizeof path || tw_proc_read_small(path, text, sizeof text) <= 0)
        return false;
    if ((at = strstr(text, "throttled_usec "))) /* version 2 */
        *ns += strtoull(at + 15, NULL, 10) * 1000u;
    else if ((at = strstr(text, "throttled_time "))) /* version 1 */
        *ns += strtoull(at + 15, NULL, 10);
    return at != NULL;
}

/* A quota of any level above holds the job, too. */
static bool throttled_along(const char *mount, const char *group, uint64_t *ns)
{
    char dir[600];
    int n = snprintf(dir, sizeof dir, "%s%s", mount, group);
    bool any = false;
    if (n < 0 || (size_t)n >= sizeof dir)
        return false;
    for (int level = 0; level < LEVELS_MAX; level++) {
        any |= throttled_in(dir, ns);
        char *slash = strrchr(dir, '/');
        if (!slash || strlen(dir) <= strlen(mount))
            break;
        *slash = '\0';
    }
    return any;
}

/* Lines ID:CONTROLLERS:PATH. Version 1 has the controller's name; version 2 is "0::PATH". */
static bool throttled(const char *lines, uint64_t *ns)
{
    static const char *const v1[] = {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"};
    static const char *const v2[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    char text[512], *save = NULL;
    bool any = false;
    snprintf(text, sizeof text, "%s", lines);
    for (char *line = strtok_r(text, "\n", &save); line && !any;
         line = strtok_r(NULL, "\n", &save)) {
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        controllers++;
        bool cpu = strcmp(controllers, "cpu") == 0 || strncmp(controllers, "cpu,", 4) == 0 ||
                   strstr(controllers, ",cpu") != NULL;
        for (int i = 0; i < 2 && !any && (cpu || !*controllers); i++) {
            const char *top = cpu ? v1[i] : v2[i];
            any = throttled_along(top, strcmp(path, "/") == 0 ? "" : path, ns);
        }
    }
    return any;
}

/* Time for which the job was held by a quota since it was first seen in its control group. */
static void quota(struct tw_host *h)
{
    char path[40], text[sizeof h->group];
    uint64_t ns = 0;
    snprintf(path, sizeof path, "/proc/%d/cgroup", (int)h->job);
    if (tw_proc_read_small(path, text, sizeof text) <= 0)
        return;
    bool known = throttled(text, &ns);
    if (strcmp(text, h->group) != 0) { /* moved into another group: its past is not the job's */
        memcpy(h->group, text, sizeof text);
        h->throttled_base = ns - h->value[H_throttled_ns];
    }
    set_counter(h, H_throttled_ns, known, ns - h->throttled_base);
}

/* ---- network and disks */

/* Bytes in and out of all interfaces; the loopback is counted apart and once. */
static void read_network(struct tw_host *h)
{
    char text[16384], *save = NULL;
    uint64_t loopback = 0, others = 0;
    if (tw_proc_read_small("/proc/net/dev", text, sizeof text) <= 0)
        return;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *colon = strchr(line, ':');
        unsigned long long in, out;
        if (!colon || sscanf(colon + 1, "%llu %*u %*u %*u %*u %*u %*u %*u %llu", &in, &out) != 2)
            continue;
        line += strspn(line, " ");
        if (strncmp(line, "lo:", 3) == 0)
            loopback += out; /* what goes out there comes in */
        else
            others += in + out;
    }
    set_counter(h, H_net_bytes, true, others);
    set_counter(h, H_loopback_bytes, true, loopback);
}

/* The second line that begins with Tcp: is numbers; retransmitted segments are the 12th. */
static void retransmits(struct tw_host *h)
{
    char text[8192], *at;
    unsigned long long v;
    if (tw_proc_read_small("/proc/net/snmp", text, sizeof text) > 0 &&
        (at = strstr(text, "\nTcp:")) && (at = strstr(at + 1, "\nTcp:")) &&
        sscanf(at, "\nTcp: %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %llu", &v) == 1)
        set_counter(h, H_retransmits, true, v);
}

/* Pages in and out of block devices, in KiB: no double counting of partitions and of devices built
 * on others. */
static void disks(struct tw_host *h)
{
    char text[16384], *in, *out;
    if (tw_proc_read_small("/proc/vmstat", text, sizeof text) <= 0 ||
        !(in = strstr(text, "\npgpgin ")) || !(out = strstr(text, "\npgpgout ")))
        return;
    set_counter(h, H_disk_read_bytes, true, strtoull(in + 8, NULL, 10) * 1024u);
    set_counter(h, H_disk_written_bytes, true, strtoull(out + 9, NULL, 10) * 1024u);
}

/* ---- what moves slowly, or costs much to read */

/* The number at the start of a small file; false when there is none. */
static bool file_number(const char *path, uint64_t *v)
{
    char text[64], *end;
    if (tw_proc_read_small(path, text, sizeof text) <= 0)
        return false;
    *v = strtoull(text, &end, 10);
    return end != text;
}

/* The mean clock of the first CPUS_MAX processors and the sum of their thermal events. Where the
 * first one tells neither, no other is asked. */
static void read_clocks(struct tw_host *h)
{
    uint64_t khz = 0, events = 0, v;
    unsigned n = 0, m = 0;
    for (int cpu = 0; cpu < CPUS_MAX; cpu++) {
        char path[128];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", cpu);
        if (file_number(path, &v)) {
            khz += v;
            n++;
        }
        snprintf(path, sizeof path,
                 "/sys/devices/system/cpu/cpu%d/thermal_throttle/core_throttle_count", cpu);
        if (file_number(path, &v)) {
            events += v;
            m++;
        }
        if (cpu == 0 && n + m == 0)
            return; /* a virtual machine, mostly */
    }
    set_counter(h, H_khz, n > 0, n ? khz / n : 0);
    set_counter(h, H_thermal_events, m > 0, events);
}

static void read_memory(struct tw_host *h)
{
    char text[512], *at;
    if (tw_proc_read_small("/proc/meminfo", text, sizeof text) > 0 &&
        (at = strstr(text, "MemAvailable:")))
        set_counter(h, H_available_bytes, true, strtoull(at + 13, NULL, 10) * 1024u);
}

/* ---- rows */

/* Appends the rows so far to the file, which is opened each time: no descriptor of it is open while
 * the job runs on. */
static void flush_rows(struct tw_host *h, uint64_t now)
{
    h->flushed_ns = now;
    if (h->rows.len == 0 || h->failed)
        return;
    int fd = open(h->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    h->failed = fd < 0 || tw_write_all(fd, h->rows.data, h->rows.len) != 0;
    if (fd >= 0)
        close(fd);
    h->rows.len = 0;
}

/* Writes one row from known and value. */
static void write_row(struct tw_host *h, uint64_t now)
{
    tw_buf_printf(&h->rows, "%llu", (unsigned long long)now);
    for (int i = 0; i < H_COUNT; i++) {
        if (h->known[i])
            tw_buf_printf(&h->rows, "\t%llu", (unsigned long long)h->value[i]);
        else
            tw_buf_puts(&h->rows, "\t-");
    }
    tw_buf_puts(&h->rows, "\n");
}

static uint64_t cpu_ns(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Makes a row when one is due, or always with `last`. What moves slowly is "-" in the rows between.
 * The next row is due after the longest of three times: the period, SPACING times what this row
 * cost, and a pause that grows with the length of the run, which keeps the file of a long run
 * small. */
void tw_host_sample(struct tw_host *h, struct tw_tree *tree, uint64_t now, bool last)
{
    if (!h || h->failed || (!last && now < h->next_ns))
        return;
    uint64_t begin_cpu = cpu_ns();
    struct tw_tree_usage u;
    read_processors(h);
    tw_tree_usage(tree, &u);
    set_counter(h, H_job_cpu_ns, true, u.cpu_ticks * h->tick_ns);
    /* none: it has ended, which is no number of workers */
    set_counter(h, H_job_processes, u.processes > 0, u.processes);
    set_counter(h, H_job_threads, u.processes > 0, u.threads);
    pressure(h, "/proc/pressure/cpu", H_cpu_stall_ns);
    pressure(h, "/proc/pressure/io", H_io_stall_ns);
    quota(h);
    read_network(h);
    static const int slow[] = {H_memory_stall_ns, H_runnable,           H_retransmits,
                               H_disk_read_bytes, H_disk_written_bytes, H_khz,
                               H_thermal_events,  H_available_bytes};
    for (size_t i = 0; i < sizeof slow / sizeof slow[0]; i++)
        h->known[slow[i]] = false;
    if (last || now >= h->slow_ns) {
        h->slow_ns = now + SLOW_MS * MS;
        pressure(h, "/proc/pressure/memory", H_memory_stall_ns);
        read_load(h);
        retransmits(h);
        disks(h);
        read_clocks(h);
        read_memory(h);
    }
    write_row(h, now);
    if (last || now - h->flushed_ns > FLUSH_MS * MS)
        flush_rows(h, now);
    uint64_t spacing = (cpu_ns() - begin_cpu) * SPACING, sparse = (now - h->start_ns) / ROWS_DENSE;
    spacing = spacing > PERIOD_MS * MS ? spacing : PERIOD_MS * MS;
    h->next_ns = now + (spacing > sparse ? spacing : sparse);
}

uint64_t tw_host_due_ns(const struct tw_host *h)
{
    return h && !h->failed ? h->next_ns : UINT64_MAX;
}

/* A run without these counters is better than no run: NULL when out of memory. */
struct tw_host *tw_host_open(const char *run_dir, pid_t job, uint64_t now)
{
    struct tw_host *h = tw_calloc(1, sizeof *h);
    long ticks = sysconf(_SC_CLK_TCK);
    if (!h)
        return NULL;
    h->path = tw_path_join(run_dir, "telemetry/host");
    h->job = job;
    h->start_ns = h->flushed_ns = h->next_ns = now;
    h->tick_ns = 1000000000u / (uint64_t)(ticks > 0 ? ticks : 100);
    h->failed = !h->path;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    set_counter(h, H_cpus, online > 0, (uint64_t)online);
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    tw_buf_printf(&h->rows, "twinrun.telemetry/1\thost\t%s\nt_ns\t" COLUMNS(NAME), host);
    if (h->rows.len)
        h->rows.data[h->rows.len - 1] = '\n'; /* for the last tab */
    return h;
}

void tw_host_close(struct tw_host *h)
{
    if (!h)
        return;
    tw_buf_free(&h->rows);
    tw_free(h->path);
    tw_free(h);
}
