/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_HELPER_H
#define TRACE_HELPER_H
/* Shared by the tests of the trace: scratch files, a small typical job. */
#include "src/trace/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "writer.h"

#define MANY 10000000u

static char scratch[64];

static inline const char *scratch_path(const char *name)
{
    static char path[4][160];
    static int turn;
    char *p = path[turn++ % 4];
    if (!scratch[0]) {
        /* in memory where possible: some tests rewrite a file ten thousand times */
        strcpy(scratch, access("/dev/shm", W_OK) == 0 ? "/dev/shm/twinrun-trace-XXXXXX"
                                                      : "/tmp/twinrun-trace-XXXXXX");
        if (!mkdtemp(scratch))
            abort();
    }
    snprintf(p, sizeof path[0], "%s/%s", scratch, name);
    return p;
}

static inline int scratch_remove(void **state)
{
    (void)state;
    if (scratch[0]) {
        uint64_t bytes;
        tw_remove_tree(scratch, &bytes, NULL);
    }
    return 0;
}

static inline struct twin_writer *open_writer(const char *path, size_t ring_bytes)
{
    struct twin_writer *w;
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_writer_options o = {
        .path = path, .rank = 3, .world = 8, .role = "main", .ring_bytes = ring_bytes};
    unlink(path);
    if (twin_writer_open(&o, &w, &err) != 0)
        fail_msg("%s", err.message);
    return w;
}

static inline struct twin_trace *open_trace(const char *path)
{
    struct twin_trace *t;
    struct twin_error err = TWIN_ERROR_INIT;
    if (twin_trace_open(path, &t, &err) != 0)
        fail_msg("%s", err.message);
    return t;
}

static inline void assert_verified(struct twin_trace *t)
{
    struct twin_error err = TWIN_ERROR_INIT;
    if (twin_trace_verify(t, &err) != 0)
        fail_msg("%s", err.message);
}

static inline uint32_t string_id(struct twin_writer *w, const char *s)
{
    return twin_writer_string(w, s, strlen(s));
}

static inline uint32_t series_id(struct twin_writer *w, int phase, int kind, const char *name)
{
    struct twin_series s = {
        .phase = (uint8_t)phase, .kind = (uint8_t)kind, .name = string_id(w, name)};
    return twin_writer_series(w, &s);
}

static inline uint64_t record_value(struct twin_writer *w, uint32_t series, uint32_t layout,
                                    uint64_t value)
{
    struct twin_observation o = {.series = series, .layout = layout, .digest = {value, ~value}};
    return twin_writer_record(w, &o);
}

/* A job of `steps` steps that records a batch, two activations, a gradient and a weight; from step
 * `parts` on the gradient and the weight have other values. */
static inline void write_job_from(const char *path, uint32_t first, uint32_t steps, uint32_t parts)
{
    struct twin_writer *w = open_writer(path, 0);
    const int64_t shape[2] = {4, 8};
    uint32_t layout = twin_writer_layout(w, TWIN_F32, 2, shape);
    uint32_t batch = series_id(w, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "batch");
    uint32_t act = series_id(w, TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, "encoder");
    uint32_t grad = series_id(w, TWIN_PHASE_BACKWARD, TWIN_KIND_GRADIENT, "encoder.weight");
    uint32_t weight = series_id(w, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "encoder.weight");
    for (uint32_t s = first; s < first + steps; s++) {
        uint64_t other = s >= parts;
        record_value(w, batch, layout, 7 * (uint64_t)s);
        record_value(w, act, layout, 11 * (uint64_t)s);
        record_value(w, act, layout, 11 * (uint64_t)s + 1);
        record_value(w, grad, layout, 13 * (uint64_t)s + other);
        record_value(w, weight, layout, 17 * (uint64_t)s + other);
        twin_writer_step_end(w);
    }
    tw_writer_free(w);
}

static inline void write_job(const char *path, uint32_t steps, uint32_t parts)
{
    write_job_from(path, 0, steps, parts);
}

#endif
