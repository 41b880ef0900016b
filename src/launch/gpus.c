/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of the machine's NVIDIA GPUs while the job runs: `telemetry/gpus`
 * (docs/format/telemetry.md). By a process of its own: the driver's library may take a second to
 * answer, or never does, and the event loop must go on. It must not be a thread of the launcher: a
 * process that is forked later would inherit the library as it was set up here, without its
 * descriptors, and the driver refuses to answer that one. Where there is no such library the
 * process ends at once.
 */
#include "launch.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* PERIOD and SPACING as in host.c, but for wall time. PATIENCE_MS: how long tw_gpus_stop() waits
 * for the process before it kills it. */
enum { PERIOD_MS = 200, SPACING = 400, GPUS_MAX = 64, PATIENCE_MS = 500 };
#define ROWS_DENSE 20000 /* as in agents/common/telemetry.c */
#define ROW "%llu\t%s\t%s\t%s\t%s\t%s\n"

/* From nvml.h, which need not be there when we are built: an opaque handle, and the numbers of the
 * clock and of the sensor that we ask for. */
typedef struct nvml_device *device;
enum { SM_CLOCK = 1, DIE = 0 };
/* Why clocks are held down: power cap, hardware slowdown, heat (software, hardware), power brake.
 * Not: idle, or as set by somebody. */
#define HELD_DOWN (0x4ull | 0x8 | 0x20 | 0x40 | 0x80)

/* The launcher's side: the process that samples, and the end of a pipe. */
struct tw_gpus {
    pid_t pid;
    int end; /* closed: make an end */
};

/* The side of the process that samples: where it writes, the library, and its functions. A function
 * that this driver does not have is NULL. */
struct sampler {
    char *path, host[256];
    void *library;
    device gpu[GPUS_MAX];
    unsigned count;
    int (*use)(device, unsigned *); /* two of them: GPU and memory, percent */
    int (*clock)(device, int, unsigned *);
    int (*power)(device, unsigned *);
    int (*temperature)(device, int, unsigned *);
    int (*reasons)(device, unsigned long long *);
};

/* NULL stays NULL: what an older driver does not have is not known. */
#define LOOK_UP(g, field, name) *(void **)&(g)->field = dlsym((g)->library, name)

/* Loads the driver's library and finds the GPUs. False: there is none to sample. */
static bool begin_sampling(struct sampler *g)
{
    int (*init)(void), (*count)(unsigned *), (*at)(unsigned, device *);
    g->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!g->library)
        return false;
    *(void **)&init = dlsym(g->library, "nvmlInit_v2");
    *(void **)&count = dlsym(g->library, "nvmlDeviceGetCount_v2");
    *(void **)&at = dlsym(g->library, "nvmlDeviceGetHandleByIndex_v2");
    LOOK_UP(g, use, "nvmlDeviceGetUtilizationRates");
    LOOK_UP(g, clock, "nvmlDeviceGetClockInfo");
    LOOK_UP(g, power, "nvmlDeviceGetPowerUsage");
    LOOK_UP(g, temperature, "nvmlDeviceGetTemperature");
    LOOK_UP(g, reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
    unsigned n = 0;
    if (!init || !count || !at || init() != 0 || count(&n) != 0)
        return false;
    for (unsigned i = 0; i < n && g->count < GPUS_MAX; i++)
        if (at(i, &g->gpu[g->count]) == 0)
            g->count++;
    return g->count > 0;
}

/* A cell: the number, or "-" when no GPU told one. */
static void write_number(char out[24], unsigned known, unsigned long long v)
{
    if (known)
        snprintf(out, 24, "%llu", v);
    else
        memcpy(out, "-", 2);
}

/* One row over all GPUs: mean use, slowest clock, sum of power, hottest die, and whether any is
 * slowed down. n counts the GPUs that answered. False when the row could not be written. */
static bool write_row(const struct sampler *g, uint64_t now, bool head)
{
    unsigned long long used = 0, watts = 0, hottest = 0, slowest = ~0ull, slowed = 0, why;
    unsigned n[5] = {0}, v, both[2];
    for (unsigned i = 0; i < g->count; i++) {
        device d = g->gpu[i];
        if (g->use && g->use(d, both) == 0)
            n[0]++, used += both[0];
        if (g->clock && g->clock(d, SM_CLOCK, &v) == 0)
            n[1]++, slowest = v < slowest ? v : slowest;
        if (g->power && g->power(d, &v) == 0)
            n[2]++, watts += v;
        if (g->temperature && g->temperature(d, DIE, &v) == 0)
            n[3]++, hottest = v > hottest ? v : hottest;
        if (g->reasons && g->reasons(d, &why) == 0)
            n[4]++, slowed |= (why & HELD_DOWN) != 0;
    }
    char cell[5][24], text[512];
    write_number(cell[0], n[0], n[0] ? used / n[0] : 0);
    write_number(cell[1], n[1], slowest);
    write_number(cell[2], n[2], watts);
    write_number(cell[3], n[3], hottest);
    write_number(cell[4], n[4], slowed);
    int used_bytes =
        head
            ? snprintf(text, sizeof text,
                       "twinrun.telemetry/"
                       "1\tgpus\t%.64s\nt_ns\tbusy_percent\tclock_mhz\tpower_mw\tcelsius\tslowed\n",
                       g->host)
            : 0;
    used_bytes += snprintf(text + used_bytes, sizeof text - (size_t)used_bytes, ROW,
                           (unsigned long long)now, cell[0], cell[1], cell[2], cell[3], cell[4]);
    int fd = open(g->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    bool ok = fd >= 0 && tw_write_all(fd, text, (size_t)used_bytes) == 0;
    if (fd >= 0)
        close(fd);
    return ok;
}

/* Until the launcher closes its end, or is no more. */
static _Noreturn void sample(struct sampler *g)
{
    uint64_t start = tw_monotonic_ns(), pause = 0;
    struct pollfd end = {.fd = TW_CHILD_KEEPS, .events = POLLIN};
    bool head = true, more = g->path && begin_sampling(g);
    while (more && poll(&end, 1, (int)(pause / 1000000)) == 0) {
        uint64_t now = tw_monotonic_ns();
        more = write_row(g, now, head);
        head = false;
        uint64_t spacing = (tw_monotonic_ns() - now) * SPACING, sparse = (now - start) / ROWS_DENSE;
        pause = spacing > PERIOD_MS * 1000000ull ? spacing : PERIOD_MS * 1000000ull;
        pause = pause > sparse ? pause : sparse;
    }
    _exit(0); /* the library is not shut down, which can take longer than all the rest */
}

/* Memory that ran out, a pipe or a fork that failed: NULL, and the run goes on without these
 * counters. */
struct tw_gpus *tw_gpus_start(const char *run_dir)
{
    struct tw_gpus *g = tw_calloc(1, sizeof *g);
    int ends[2] = {-1, -1};
    if (!g || pipe2(ends, O_CLOEXEC) != 0) {
        tw_free(g);
        return NULL;
    }
    g->pid = fork();
    if (g->pid == 0) {
        struct sampler s = {.path = tw_path_join(run_dir, "telemetry/gpus")};
        tw_child_leaves_parent(ends[0], "twinrun-gpus");
        gethostname(s.host, sizeof s.host - 1);
        sample(&s);
    }
    close(ends[0]);
    g->end = ends[1];
    if (g->pid > 0)
        return g;
    close(g->end);
    tw_free(g);
    return NULL;
}

/* Closing our end makes the process leave its loop; it is killed when it does not. */
void tw_gpus_stop(struct tw_gpus *g)
{
    if (!g)
        return;
    close(g->end);
    /* Whoever waits for any child may have buried it by now. */
    for (int ms = 0; waitpid(g->pid, NULL, WNOHANG) == 0; ms++) {
        if (ms == PATIENCE_MS) { /* it hangs in the driver */
            kill(g->pid, SIGKILL);
            break;
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    tw_free(g);
}
