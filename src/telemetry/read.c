/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes rows of steps out of the tables of a run folder (twin_telemetry_load()). table.c reads the
 * files; here each two rows of a process in which steps ended become one row of the result: how
 * long its steps took, how much each counter of the process grew, and what the machine's tables say
 * of the same time. A counter that is not known is NaN and never 0.
 */
#include "telemetry_inside.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Files in the telemetry folder of one run. */
enum { FILES_MAX = 512 };

/*
 * Where a counter stands: the column of a table, and the factor that turns its unit into that of
 * the counter.
 */
struct place {
    enum twin_counter counter;
    const char *column;
    double scale;
};
static const struct place of_process[] = {
    {TWIN_COUNTER_CPU, "cpu_ns", 1e-9},         {TWIN_COUNTER_WAIT, "wait_ns", 1e-9},
    {TWIN_COUNTER_RAN, "ran_ns", 1e-9},         {TWIN_COUNTER_FAULTS, "faults", 1},
    {TWIN_COUNTER_WAITS, "waits", 1},           {TWIN_COUNTER_MAJOR_FAULTS, "major_faults", 1},
    {TWIN_COUNTER_PREEMPTED, "preempted", 1},   {TWIN_COUNTER_READ, "read_bytes", 1},
    {TWIN_COUNTER_WRITTEN, "written_bytes", 1}, {TWIN_COUNTER_RSS, "rss_bytes", 1},
};
/*
 * OTHERS begins as the processor time of the job and is made the rest of BUSY in fill_machine();
 * DISK begins as what was read.
 */
static const struct place of_host[] = {
    {TWIN_COUNTER_BUSY, "busy_ns", 1e-9},
    {TWIN_COUNTER_OTHERS, "job_cpu_ns", 1e-9},
    {TWIN_COUNTER_IOWAIT, "iowait_ns", 1e-9},
    {TWIN_COUNTER_STEAL, "steal_ns", 1e-9},
    {TWIN_COUNTER_THROTTLED, "throttled_ns", 1e-9},
    {TWIN_COUNTER_CPU_STALL, "cpu_stall_ns", 1e-9},
    {TWIN_COUNTER_IO_STALL, "io_stall_ns", 1e-9},
    {TWIN_COUNTER_MEMORY_STALL, "memory_stall_ns", 1e-9},
    {TWIN_COUNTER_NET, "net_bytes", 1},
    {TWIN_COUNTER_LOOPBACK, "loopback_bytes", 1},
    {TWIN_COUNTER_RETRANSMITS, "retransmits", 1},
    {TWIN_COUNTER_DISK, "disk_read_bytes", 1},
    {TWIN_COUNTER_THERMAL, "thermal_events", 1},
    {TWIN_COUNTER_CLOCK, "khz", 1e3},
    {TWIN_COUNTER_RUNNABLE, "runnable", 1},
    {TWIN_COUNTER_AVAILABLE, "available_bytes", 1},
    {TWIN_COUNTER_PROCESSES, "job_processes", 1},
    {TWIN_COUNTER_THREADS, "job_threads", 1},
};
static const struct place of_gpus[] = {
    {TWIN_COUNTER_GPU_BUSY, "busy_percent", .01}, {TWIN_COUNTER_GPU_CLOCK, "clock_mhz", 1e6},
    {TWIN_COUNTER_GPU_POWER, "power_mw", 1e-3},   {TWIN_COUNTER_GPU_HEAT, "celsius", 1},
    {TWIN_COUNTER_GPU_SLOWED, "slowed", 1},
};
#define COUNT(x) (sizeof(x) / sizeof(x)[0])

/* A cell; TW_UNKNOWN also when the table has no such column. */
static uint64_t cell_value(const struct tw_table *t, size_t row, size_t column)
{
    assert(row < t->rows && (column == SIZE_MAX || column < t->columns));
    return column == SIZE_MAX ? TW_UNKNOWN : t->cell[row * t->columns + column];
}

/*
 * Fills in what the table of a process says of the time between two of its rows. Amounts that went
 * backwards stay unknown.
 */
static void from_process(const struct tw_table *t, size_t before, size_t now,
                         double out[TWIN_COUNTERS])
{
    size_t thread = tw_table_column(t, "thread");
    bool other_thread = cell_value(t, before, thread) != cell_value(t, now, thread);
    for (size_t i = 0; i < COUNT(of_process); i++) {
        const struct place *p = &of_process[i];
        size_t column = tw_table_column(t, p->column);
        uint64_t a = cell_value(t, before, column), b = cell_value(t, now, column);
        if ((p->counter == TWIN_COUNTER_WAIT || p->counter == TWIN_COUNTER_RAN) && other_thread)
            continue; /* counters of two threads */
        if (twin_counter_info(p->counter)->level)
            out[p->counter] = b == TW_UNKNOWN ? NAN : (double)b * p->scale;
        else if (a != TW_UNKNOWN && b != TW_UNKNOWN && b >= a)
            out[p->counter] = (double)(b - a) * p->scale;
    }
}

/* Fills in what a table of the machine or of its GPUs says of the time from a to b. */
static void from_machine(const struct tw_table *t, const struct place *places, size_t n, uint64_t a,
                         uint64_t b, double out[TWIN_COUNTERS])
{
    for (size_t i = 0; i < n; i++) {
        const struct place *p = &places[i];
        out[p->counter] = (twin_counter_info(p->counter)->level ? tw_table_level : tw_table_amount)(
                              t, p->column, a, b) *
                          p->scale;
    }
}

/*
 * The table of this kind for a host; one with a single row says nothing about a stretch of time.
 * NULL: none.
 */
static const struct tw_table *table_of(const struct tw_table *list, size_t count,
                                       enum tw_table_kind kind, const char *host)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].kind == kind && list[i].rows > 1 && strcmp(list[i].host, host) == 0)
            return &list[i];
    return NULL;
}

/* Fills in the counters of the machine; host and gpus may be NULL. */
static void fill_machine(const struct tw_table *host, const struct tw_table *gpus, uint64_t a,
                         uint64_t b, double out[TWIN_COUNTERS])
{
    if (gpus)
        from_machine(gpus, of_gpus, COUNT(of_gpus), a, b, out);
    if (!host)
        return;
    from_machine(host, of_host, COUNT(of_host), a, b, out);
    /* Two clocks of the kernel with ticks of 10 ms: the difference may fall below 0. */
    double others = out[TWIN_COUNTER_BUSY] - out[TWIN_COUNTER_OTHERS];
    out[TWIN_COUNTER_OTHERS] = isnan(others) ? NAN : fmax(0, others);
    out[TWIN_COUNTER_DISK] += tw_table_amount(host, "disk_written_bytes", a, b);
}

/*
 * Fills p with the rows of one process's table; p->rows stays 0 when no step ended in it. Time in
 * which no step ended is added to the next row. zero_ns: the first row of the run. Returns 0,
 * TWIN_EFORMAT or TWIN_ENOMEM; the caller frees p->row in every case.
 */
static int process(const struct tw_table *t, const struct tw_table *list, size_t count,
                   uint64_t zero_ns, struct twin_telemetry_process *p, struct twin_error *err)
{
    const struct tw_table *host = table_of(list, count, TW_TABLE_HOST, t->host);
    const struct tw_table *gpus = table_of(list, count, TW_TABLE_GPUS, t->host);
    size_t steps = tw_table_column(t, "steps"), before = 0;
    *p = (struct twin_telemetry_process){.rank = t->rank, .world = t->world, .pid = t->pid};
    memcpy(p->role, t->role, sizeof p->role);
    memcpy(p->host, t->host, sizeof p->host);
    if (steps == SIZE_MAX || t->rows < 2)
        return 0;
    if (!(p->row = tw_calloc(t->rows, sizeof *p->row)))
        return tw_no_memory(err, "for the telemetry of a run");
    for (size_t i = 1; i < t->rows; i++) {
        uint64_t from = cell_value(t, before, steps);
        uint64_t to = cell_value(t, i, steps);
        uint64_t a = t->t_ns[before];
        uint64_t b = t->t_ns[i];
        if (from == TW_UNKNOWN || to == TW_UNKNOWN || to > UINT32_MAX || to < from)
            return twin_error_set(err, TWIN_EFORMAT,
                                  "telemetry of process %d: expected numbers of finished steps "
                                  "that grow, found them going backwards",
                                  t->pid);
        if (to == from || b == a)
            continue;
        struct twin_telemetry_row *r = &p->row[p->rows++];
        *r = (struct twin_telemetry_row){.first = (uint32_t)from,
                                         .steps = (uint32_t)(to - from),
                                         .start_s = (double)(a - zero_ns) * 1e-9,
                                         .seconds = (double)(b - a) * 1e-9};
        for (int c = 0; c < TWIN_COUNTERS; c++)
            r->value[c] = NAN;
        from_process(t, before, i, r->value);
        fill_machine(host, gpus, a, b, r->value);
        p->steps = (uint32_t)to;
        before = i;
    }
    return 0;
}

/* Order of processes: by rank, then by the time of the first row. */
static int by_rank(const void *x, const void *y)
{
    const struct twin_telemetry_process *a = x, *b = y;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return a->row[0].start_s < b->row[0].start_s ? -1 : a->row[0].start_s > b->row[0].start_s;
}

/* Processes that have no row are left out of t. */
int tw_telemetry_arrange(const struct tw_table *list, size_t count, struct twin_telemetry *t,
                         struct twin_error *err)
{
    uint64_t zero = UINT64_MAX;
    if (!(t->process = tw_calloc(count ? count : 1, sizeof *t->process)))
        return tw_no_memory(err, "for the telemetry of a run");
    /* First the zero of all times, and what is known of the launcher's machine. */
    for (size_t i = 0; i < count; i++) {
        if (list[i].kind == TW_TABLE_PROCESS && list[i].rows && list[i].t_ns[0] < zero)
            zero = list[i].t_ns[0];
        if (list[i].kind != TW_TABLE_HOST || list[i].rows < 2)
            continue;
        uint64_t cpus = cell_value(&list[i], list[i].rows - 1, tw_table_column(&list[i], "cpus"));
        t->host = true;
        t->cpus = cpus < 1u << 20 ? (uint32_t)cpus : 0;
    }
    for (size_t i = 0; i < count; i++) {
        if (list[i].kind != TW_TABLE_PROCESS)
            continue;
        int rc = process(&list[i], list, count, zero, &t->process[t->processes], err);
        if (rc || t->process[t->processes].rows == 0)
            tw_free(t->process[t->processes].row);
        else
            t->processes++;
        if (rc)
            return rc;
    }
    if (t->processes > 1)
        qsort(t->process, t->processes, sizeof *t->process, by_rank);
    return 0;
}

/*
 * Lists the paths of the files in the folder, sorted, so that two loads give one order. The caller
 * frees the *n paths and *out also after an error. TWIN_ENOENT: there is no such folder.
 */
static int list_names(const char *dir, char ***out, size_t *n, struct twin_error *err)
{
    struct dirent **entries = NULL;
    int found = scandir(dir, &entries, NULL, alphasort), rc = 0;
    if (found < 0)
        return errno == ENOENT
                   ? twin_error_set(err, TWIN_ENOENT, "%s: no telemetry was recorded", dir)
                   : twin_error_system(err, "cannot read %s", dir);
    *out = tw_calloc((size_t)found + 1, sizeof **out);
    if (!*out)
        rc = tw_no_memory(err, "for the telemetry of a run");
    for (int i = 0; i < found; i++) {
        if (rc == 0 && entries[i]->d_name[0] != '.') {
            if (*n == FILES_MAX)
                rc = twin_error_set(err, TWIN_ELIMIT, "%s: expected at most %d files", dir,
                                    FILES_MAX);
            else if (!((*out)[*n] = tw_path_join(dir, entries[i]->d_name)))
                rc = tw_no_memory(err, "for the telemetry of a run");
            else
                ++*n;
        }
        free(entries[i]);
    }
    free(entries);
    return rc;
}

int twin_telemetry_load(const char *run_dir, struct twin_telemetry **out, struct twin_error *err)
{
    struct tw_table *list = NULL;
    size_t count = 0, files = 0;
    char **path = NULL, *dir = tw_path_join(run_dir, "telemetry");
    *out = NULL;
    struct twin_telemetry *t = tw_calloc(1, sizeof *t);
    int rc = dir && t ? list_names(dir, &path, &files, err)
                      : tw_no_memory(err, "for the telemetry of a run");
    for (size_t i = 0; rc == 0 && i < files; i++)
        rc = tw_tables_read(path[i], &list, &count, err);
    if (rc == 0)
        rc = tw_telemetry_arrange(list, count, t, err);
    if (rc == 0 && t->processes == 0)
        rc = twin_error_set(err, TWIN_ENOENT, "%s: no step of any process was recorded", dir);
    for (size_t i = 0; path && i < files; i++)
        tw_free(path[i]);
    tw_free(path);
    tw_tables_free(list, count);
    tw_free(dir);
    if (rc)
        twin_telemetry_free(t);
    else
        *out = t;
    return rc;
}

void twin_telemetry_free(struct twin_telemetry *t)
{
    for (size_t i = 0; t && i < t->processes; i++)
        tw_free(t->process[i].row);
    if (t)
        tw_free(t->process);
    tw_free(t);
}

const struct twin_telemetry_process *twin_telemetry_rank(const struct twin_telemetry *t, int rank)
{
    const struct twin_telemetry_process *found = NULL;
    for (size_t i = 0; i < t->processes; i++)
        if (t->process[i].rank == rank && (!found || t->process[i].steps > found->steps))
            found = &t->process[i];
    return found;
}
