/* SPDX-License-Identifier: Apache-2.0 */
/* The trace: what a record costs its thread, beside a memcpy of the same bytes in the same run; and
 * how long the first divergence of two sets of traces takes to find. Prints `name value unit`.
 *
 *   bench_trace [--full] [--ranks N] [--steps M] [--records K] [--seed S] [--folder DIR]
 *
 * Default: 8 ranks, 20000 steps, 3 records. --full: ten times the steps (about 1 GB). The sets are
 * written by the shipped writer into DIR (default: a scratch folder) and deleted. One rank diverges
 * at one step, both drawn from the seed. Full size, by hand for its 18 GB: --ranks 64 --steps
 * 1000000 --records 1. */
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "writer.h"

enum { ROUNDS = 21, BATCH = 25000 };

static double now_s(void)
{
    return (double)tw_monotonic_ns() * 1e-9;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v)
{
    qsort(v, ROUNDS, sizeof *v, by_value);
    return v[ROUNDS / 2];
}

static void stop(const char *what)
{
    fprintf(stderr, "bench_trace: %s\n", what);
    exit(2);
}

static struct twin_writer *open_writer(const char *path, bool lossless)
{
    struct twin_writer *w;
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_writer_options o = {.path = path, .world = 1, .lossless = lossless};
    if (twin_writer_open(&o, &w, &err) != 0)
        stop(err.message);
    return w;
}

static uint32_t series(struct twin_writer *w, const char *name)
{
    struct twin_series s = {.phase = TWIN_PHASE_FORWARD,
                            .kind = TWIN_KIND_ACTIVATION,
                            .name = twin_writer_string(w, name, strlen(name))};
    return twin_writer_series(w, &s);
}

/* ---- a record */

struct costs {
    double record, copy;
};

static struct costs one_round(struct twin_writer *w, struct twin_observation *o, size_t bytes,
                              char *ring, size_t ring_bytes)
{
    static char record[256];
    size_t at = 0;
    double t0 = now_s();
    for (uint64_t i = 0; i < BATCH; i++) {
        record[0] = (char)i;
        memcpy(ring + at, record, bytes);
        __asm__ volatile("" : : "r"(ring) : "memory");
        at = (at + bytes) & (ring_bytes - 1) & ~(size_t)255;
    }
    double t1 = now_s();
    for (uint64_t i = 0; i < BATCH; i++) {
        o->digest.a = i;
        twin_writer_record(w, o);
    }
    double t2 = now_s();
    twin_writer_flush(w); /* the ring is empty again: this measures the caller's side */
    return (struct costs){(t2 - t1) / BATCH, (t1 - t0) / BATCH};
}

static void measure_record(const char *path, bool with_stats)
{
    const size_t ring_bytes = (size_t)8 << 20;
    struct twin_writer *w = open_writer(path, false);
    struct twin_stats stats = {.count = 10, .min = 1, .max = 2, .sum = 3, .sumsq = 4};
    const int64_t shape[2] = {1024, 1024};
    struct twin_observation o = {.series = series(w, "encoder.weight"),
                                 .layout = twin_writer_layout(w, TWIN_F32, 2, shape),
                                 .flags = with_stats ? TWIN_REC_STATS : 0u,
                                 .stats = &stats,
                                 .digest = {1, 2}};
    size_t bytes = sizeof(struct tw_record) + (with_stats ? sizeof(struct tw_record_stats) : 0);
    char *ring = tw_calloc(1, ring_bytes + 256);
    double record[ROUNDS], copy[ROUNDS], ratio[ROUNDS];
    if (!ring)
        stop("out of memory");
    for (int i = -2; i < ROUNDS; i++) {
        struct costs c = one_round(w, &o, bytes, ring, ring_bytes);
        if (i < 0)
            continue; /* first touch of both rings */
        record[i] = c.record;
        copy[i] = c.copy;
        ratio[i] = c.record / c.copy;
        twin_writer_step_end(w);
    }
    const char *name = with_stats ? "record_with_statistics" : "record";
    printf("trace_%s_bytes %zu bytes\n", name, bytes);
    printf("trace_%s_per_second_per_thread %.2f million/s\n", name, 1e-6 / median(record));
    printf("trace_%s_cost %.1f ns\n", name, 1e9 * median(record));
    printf("trace_%s_memcpy %.1f ns\n", name, 1e9 * median(copy));
    printf("trace_%s_over_memcpy %.2f ratio\n", name, median(ratio));
    printf("trace_%s_dropped %llu records\n", name,
           (unsigned long long)twin_writer_counts(w).dropped);
    tw_free(ring);
    tw_writer_free(w);
    unlink(path);
}

/* Everything, the drain thread and the file included: the caller waits when its ring is full. */
static void measure_sustained(const char *path)
{
    enum { RECORDS = 2000000 };
    struct twin_writer *w = open_writer(path, true);
    struct twin_observation o = {.series = series(w, "x")};
    double t0 = now_s();
    for (uint64_t i = 0; i < RECORDS; i++) {
        o.digest.a = i;
        twin_writer_record(w, &o);
        if (i % 300 == 299)
            twin_writer_step_end(w);
    }
    twin_writer_close(w);
    printf("trace_sustained_to_file %.2f million/s\n", 1e-6 * RECORDS / (now_s() - t0));
    tw_writer_free(w);
    unlink(path);
}

/* ---- first divergence */

struct plan {
    unsigned ranks, steps, records;
    uint64_t seed;
    char *folder;
    unsigned parting_rank, parting_step;
};

static void path_of(char *out, size_t n, const struct plan *p, char set, unsigned rank)
{
    snprintf(out, n, "%s/%c%u.twt", p->folder, set, rank);
}

static uint64_t write_rank(const struct plan *p, char set, unsigned rank)
{
    char path[4096];
    path_of(path, sizeof path, p, set, rank);
    struct twin_writer *w = open_writer(path, true);
    bool parts = set == 'b' && rank == p->parting_rank;
    uint32_t id[64];
    for (unsigned k = 0; k < p->records; k++) {
        char name[32];
        snprintf(name, sizeof name, "layer.%u.weight", k);
        id[k] = series(w, name);
    }
    for (unsigned s = 0; s < p->steps; s++) {
        for (unsigned k = 0; k < p->records; k++) {
            struct twin_observation o = {
                .series = id[k],
                .digest = {tw_mix64((uint64_t)rank << 40 ^ (uint64_t)s << 8 ^ k), s}};
            if (parts && s == p->parting_step && k + 1 == p->records)
                o.digest.b++;
            twin_writer_record(w, &o);
        }
        twin_writer_step_end(w);
    }
    twin_writer_close(w);
    struct twin_writer_counts c = twin_writer_counts(w);
    tw_writer_free(w);
    if (c.failed_errno)
        stop("the traces could not be written: is the disk full?");
    int fd = open(path, O_RDONLY);
    if (fd < 0 || fdatasync(fd) != 0)
        stop("a trace could not be synced");
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); /* so that the first search reads the disk */
    close(fd);
    return c.bytes;
}

static void find(const struct plan *p, const char *how, uint64_t total)
{
    uint64_t read = 0;
    unsigned first_rank = 0, first_step = UINT32_MAX, parted = 0;
    double t0 = now_s();
    for (unsigned r = 0; r < p->ranks; r++) {
        char path[4096];
        struct twin_trace *a, *b;
        struct twin_error err = TWIN_ERROR_INIT;
        bool found = false;
        uint32_t step = 0;
        uint64_t compared = 0;
        path_of(path, sizeof path, p, 'a', r);
        if (twin_trace_open(path, &a, &err) != 0)
            stop(err.message);
        path_of(path, sizeof path, p, 'b', r);
        if (twin_trace_open(path, &b, &err) != 0 ||
            twin_trace_first_difference(a, b, 0, 0, UINT32_MAX, &found, &step, &compared, &err) !=
                0)
            stop(err.message);
        parted += found;
        if (found && step < first_step) {
            first_step = step;
            first_rank = r;
        }
        read += twin_trace_bytes_read(a) + twin_trace_bytes_read(b);
        twin_trace_close(a);
        twin_trace_close(b);
    }
    double seconds = now_s() - t0;
    if (parted != 1 || first_rank != p->parting_rank || first_step != p->parting_step)
        stop("the search found another place than the one that was made to part");
    printf("trace_first_divergence_%s %.4f s\n", how, seconds);
    printf("trace_first_divergence_%s_read %.4f percent\n", how,
           100.0 * (double)read / (double)total);
}

static int count(void *user, const struct twin_trace_record *r)
{
    *(uint64_t *)user += r->seq;
    return 0;
}

/* Processor time of all threads: this machine may have others to serve. */
static double processor_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void read_plainly(const char *path)
{
    static char block[64 << 10];
    int fd = open(path, O_RDONLY);
    uint64_t at = 0;
    for (ssize_t n = 1; n > 0; at += (uint64_t)n)
        if ((n = pread(fd, block, sizeof block, (off_t)at)) < 0)
            stop("a trace cannot be read");
    close(fd);
}

enum { PLAIN, WALK, SOME, ENDS, VERIFY, VERIFY_BESIDE, WAYS };

static bool is_first(void *user, uint32_t id, const struct twin_series *s)
{
    (void)user, (void)s;
    return id == 1;
}

static int count_steps(void *user, const struct twin_step_hash *h)
{
    *(uint64_t *)user += h->step;
    return 0;
}

static void read_so(int way, const char *path, struct twin_trace *t)
{
    struct twin_error err = TWIN_ERROR_INIT;
    uint64_t sum = 0;
    int rc = 0;
    switch (way) {
    case PLAIN: read_plainly(path); break;
    case WALK: rc = twin_trace_walk(t, count, NULL, &sum, &err); break;
    case SOME: rc = twin_trace_walk_some(t, is_first, count, NULL, &sum, &err); break;
    case ENDS: rc = twin_trace_walk_steps(t, 0, count_steps, &sum, &err); break;
    case VERIFY: rc = twin_trace_verify_alone(t, &err); break;
    default: rc = twin_trace_verify(t, &err); break;
    }
    if (rc != 0)
        stop(err.message);
}

/* Reading all of it, from the page cache, in turns with a plain read of the same file. */
static void measure_walk(const struct plan *p)
{
    static const char *const name[WAYS] = {"plain_read", "walk",   "walk_of_a_series",
                                           "walk_steps", "verify", "verify_two_threads"};
    static double used[WAYS][ROUNDS], ratio[WAYS][ROUNDS], took[WAYS][ROUNDS];
    char path[4096];
    struct twin_trace *t;
    struct twin_error err = TWIN_ERROR_INIT;
    path_of(path, sizeof path, p, 'a', 0);
    if (twin_trace_open(path, &t, &err) != 0)
        stop(err.message);
    double bytes = (double)twin_trace_info(t)->file_bytes;
    for (int i = -1; i < ROUNDS; i++)
        for (int way = 0; way < WAYS; way++) {
            double t0 = now_s(), p0 = processor_s();
            read_so(way, path, t);
            if (i < 0)
                continue; /* now it is in the page cache */
            took[way][i] = now_s() - t0;
            used[way][i] = processor_s() - p0;
            ratio[way][i] = used[way][i] / used[PLAIN][i];
        }
    for (int way = 0; way < WAYS; way++) {
        printf("trace_%s %.2f GB/s\n", name[way], 1e-9 * bytes / median(took[way]));
        printf("trace_%s_a_core %.2f GB/s\n", name[way], 1e-9 * bytes / median(used[way]));
        if (way != PLAIN)
            printf("trace_%s_over_plain_read %.2f ratio\n", name[way], median(ratio[way]));
    }
    twin_trace_close(t);
}

static void measure_search(struct plan *p)
{
    uint64_t total = 0;
    p->parting_rank = (unsigned)(tw_mix64(p->seed) % p->ranks);
    p->parting_step = (unsigned)(tw_mix64(p->seed + 1) % p->steps);
    double t0 = now_s();
    for (unsigned r = 0; r < p->ranks; r++)
        total += write_rank(p, 'a', r) + write_rank(p, 'b', r);
    printf("trace_set %u ranks\ntrace_set_steps %u steps\ntrace_set_records %u records/step\n",
           p->ranks, p->steps, p->records);
    printf("trace_set_bytes %.3f GB\ntrace_set_written %.1f s\n", 1e-9 * (double)total,
           now_s() - t0);
    find(p, "cold", total);
    find(p, "warm", total);
    measure_walk(p);
    for (unsigned r = 0; r < p->ranks; r++)
        for (char set = 'a'; set <= 'b'; set++) {
            char path[4096];
            path_of(path, sizeof path, p, set, r);
            unlink(path);
        }
}

static unsigned number(const char *s, uint64_t max)
{
    uint64_t v;
    if (tw_parse_u64(s, max, &v) != 0 || v == 0)
        stop("a count from 1 on is expected after --ranks, --steps, --records (at most 64)");
    return (unsigned)v;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"ranks", 1, NULL, 'r'},
                                            {"steps", 1, NULL, 's'},
                                            {"records", 1, NULL, 'k'},
                                            {"seed", 1, NULL, 'e'},
                                            {"folder", 1, NULL, 'f'},
                                            {"full", 0, NULL, 'F'},
                                            {0}};
    struct plan p = {.ranks = 8, .steps = 20000, .records = 3, .seed = tw_monotonic_ns()};
    char scratch[] = "/tmp/twinrun-bench-XXXXXX", path[4096];
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (c) {
        case 'r': p.ranks = number(optarg, 100000); break;
        case 's': p.steps = number(optarg, UINT32_MAX); break;
        case 'k': p.records = number(optarg, 64); break;
        case 'e': p.seed = number(optarg, UINT32_MAX); break;
        case 'f': p.folder = optarg; break;
        case 'F': p.steps *= 10; break;
        default: return 2;
        }
    bool own = !p.folder;
    if (own)
        p.folder = mkdtemp(scratch);
    if (!p.folder)
        stop("no scratch folder can be made in /tmp: name one with --folder");
    snprintf(path, sizeof path, "%s/record.twt", p.folder);
    measure_record(path, false);
    measure_record(path, true);
    measure_sustained(path);
    measure_search(&p);
    if (own)
        rmdir(p.folder);
    return 0;
}
