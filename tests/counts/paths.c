/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hot paths whose instructions tests/counts/run has counted, each in a function of its own that
 * valgrind's callgrind looks into (--toggle-collect=counted). Everything is run once before, so
 * that what happens once in a process is not in the count.
 *
 *   counts PATH [FOLDER]     PATH as in the table; FOLDER: for a trace
 *   counts compiler          the compiler that made this program, and whether it optimized
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <twin/exact.h>
#include <twin/fingerprint.h>
#include <twin/twin.h>
#include "writer.h"

enum { MANY = 1 << 20, STEPS = 200, RECORDS = 30 };

static unsigned char bytes[MANY];
static const char *folder;
static volatile uint64_t sink;

/* Numbers of the type with random signs and fractions, all of one exponent. */
static void fill(enum twin_dtype dtype)
{
    uint64_t state = 7;
    for (size_t i = 0; i + 8 <= sizeof bytes; i += 8) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint64_t w = state ^ state >> 29;
        switch (dtype) {
        case TWIN_F64: w = (w & 0x800FFFFFFFFFFFFFu) | 0x3FE0000000000000u; break;
        case TWIN_BF16: w = (w & 0x807F807F807F807Fu) | 0x3F003F003F003F00u; break;
        default: w = (w & 0x807FFFFF807FFFFFu) | 0x3F0000003F000000u; break;
        }
        memcpy(bytes + i, &w, 8);
    }
}

static void fingerprint(enum twin_dtype dtype, size_t n, bool all)
{
    const int64_t shape = (int64_t)(n / twin_dtype_size(dtype));
    const struct twin_tensor t = {bytes, dtype, 1, &shape, NULL, 0};
    struct twin_digest d;
    struct twin_stats s;
    struct twin_sketch k = {.k = TWIN_SKETCH_DEFAULT};
    twin_fingerprint(&t, &d, all ? &s : NULL, all ? &k : NULL, NULL);
    sink = sink + d.a;
}

static void digest(void)
{
    fingerprint(TWIN_F32, MANY, false);
}

static void small(void)
{
    fingerprint(TWIN_F32, 256, false);
}

static void small_all(void)
{
    fingerprint(TWIN_F32, 256, true);
}

static void all_f32(void)
{
    fingerprint(TWIN_F32, MANY, true);
}

static void all_bf16(void)
{
    fingerprint(TWIN_BF16, MANY, true);
}

static void exact(enum twin_dtype dtype)
{
    struct twin_acc acc;
    twin_acc_init(&acc);
    twin_acc_add(&acc, dtype, bytes, 10000, NULL);
    sink = sink + (uint64_t)twin_acc_f64(&acc);
}

static void exact_f64(void)
{
    exact(TWIN_F64);
}

static void exact_f32(void)
{
    exact(TWIN_F32);
}

/* Under `twinrun record`: without it, nothing is recorded. */
static void record(void)
{
    static const int64_t shape[] = {64};
    twin_record("x", TWIN_F32, 1, shape, NULL, bytes, 0);
    twin_step();
}

static void stop(const char *what)
{
    fprintf(stderr, "counts: %s\n", what);
    exit(2);
}

static const char *trace_path(void)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/counted.twt", folder ? folder : ".");
    return path;
}

/* A trace of some thousand records. Which steps share a block is a matter of time; reading takes
 * more where there are more blocks. So each step is made a block by itself. */
static void write_trace(void)
{
    struct twin_writer *w;
    struct twin_error err = TWIN_ERROR_INIT;
    const struct twin_writer_options o = {.path = trace_path(), .world = 1, .lossless = true};
    if (twin_writer_open(&o, &w, &err) != 0)
        stop(err.message);
    uint32_t series[RECORDS];
    for (int j = 0; j < RECORDS; j++) {
        char name[32];
        snprintf(name, sizeof name, "layer%d.weight", j);
        series[j] = twin_writer_series(w, &(struct twin_series){
                                              .phase = TWIN_PHASE_FORWARD,
                                              .kind = TWIN_KIND_ACTIVATION,
                                              .name = twin_writer_string(w, name, strlen(name)),
                                          });
    }
    for (int i = 0; i < STEPS; i++) {
        for (int j = 0; j < RECORDS; j++) {
            struct twin_observation seen = {.series = series[j]};
            seen.digest.a = (uint64_t)(i * RECORDS + j);
            twin_writer_record(w, &seen);
        }
        twin_writer_step_end(w);
        twin_writer_flush(w);
    }
    tw_writer_free(w);
}

static int on_record(void *user, const struct twin_trace_record *r)
{
    *(uint64_t *)user += r->digest.a;
    return 0;
}

static void reading(void)
{
    struct twin_trace *t;
    struct twin_error err = TWIN_ERROR_INIT;
    uint64_t total = 0;
    if (twin_trace_open(trace_path(), &t, &err) != 0)
        stop(err.message);
    if (twin_trace_walk(t, on_record, NULL, &total, &err) != 0)
        stop(err.message);
    twin_trace_close(t);
    sink = sink + total;
}

/* By the portable way, which is the same on every machine. */
static void verifying(void)
{
    struct twin_trace *t;
    struct twin_error err = TWIN_ERROR_INIT;
    tw_trace_vector_bits = 0;
    if (twin_trace_open(trace_path(), &t, &err) != 0 || twin_trace_verify_alone(t, &err) != 0)
        stop(err.message);
    twin_trace_close(t);
}

static const struct path {
    const char *name;
    void (*run)(void);
    enum twin_dtype dtype;
    void (*before)(void);
} paths[] = {
    {"digest-1-MiB", digest, TWIN_F32, NULL},
    {"digest-256-bytes", small, TWIN_F32, NULL},
    {"all-256-bytes", small_all, TWIN_F32, NULL},
    {"all-f32-1-MiB", all_f32, TWIN_F32, NULL},
    {"all-bf16-1-MiB", all_bf16, TWIN_BF16, NULL},
    {"exact-sum-f64-1e4", exact_f64, TWIN_F64, NULL},
    {"exact-sum-f32-1e4", exact_f32, TWIN_F32, NULL},
    {"record-and-step", record, TWIN_F32, NULL},
    {"read-trace", reading, TWIN_F32, write_trace},
    {"verify-trace", verifying, TWIN_F32, write_trace},
};

/* By this name callgrind finds what to count. */
__attribute__((noinline)) void counted(void (*run)(void));
__attribute__((noinline)) void counted(void (*run)(void))
{
    run();
    __asm__ volatile("" ::: "memory"); /* no jump in place of the call */
}

static void compiler(void)
{
#if defined(__clang__)
    const char *name = "clang";
#else
    const char *name = "gcc";
#endif
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    const char *how = "optimized";
#else
    const char *how = "not optimized";
#endif
    printf("%s %d %s\n", name, __GNUC__, how);
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "compiler")) {
        compiler();
        return 0;
    }
    folder = argc > 2 ? argv[2] : NULL;
    for (size_t i = 0; argc > 1 && i < sizeof paths / sizeof *paths; i++) {
        if (strcmp(argv[1], paths[i].name) != 0)
            continue;
        if (paths[i].run == record && !twin_on())
            stop("record-and-step: run it under twinrun record");
        fill(paths[i].dtype);
        if (paths[i].before)
            paths[i].before();
        for (int warm = 0; warm < 3; warm++)
            paths[i].run();
        counted(paths[i].run);
        printf("%s\n", twin_fingerprint_isa());
        return 0;
    }
    fprintf(stderr, "usage: counts PATH [FOLDER]; the paths are:\n");
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        fprintf(stderr, "  %s\n", paths[i].name);
    return 2;
}
