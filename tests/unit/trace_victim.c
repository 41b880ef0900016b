/* SPDX-License-Identifier: Apache-2.0 */
/* A job that is killed, for tests/harmless/test_kills.py.
 *   trace_victim run PATH PUBLISHED SEED   records until killed; after each flush stores (steps,
 * records) in PUBLISHED trace_victim fill PATH PUBLISHED SEED  the same until its disk is full, and
 * for a while after trace_victim check PATH                prints "steps records tail intact": of
 * the trace, and of it without its tail */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "writer.h"

struct published {
    _Atomic uint64_t steps, records;
};

static uint32_t series(struct twin_writer *w, const char *name, const char *role)
{
    struct twin_series s = {.phase = TWIN_PHASE_FORWARD,
                            .kind = TWIN_KIND_ACTIVATION,
                            .name = twin_writer_string(w, name, strlen(name)),
                            .role = twin_writer_string(w, role, strlen(role))};
    return twin_writer_series(w, &s);
}

static void *record_beside(void *writer)
{
    uint32_t s = series(writer, "beside", "worker");
    for (uint64_t i = 0;; i++) {
        struct twin_observation o = {.series = s, .digest = {i, 0}};
        twin_writer_record(writer, &o);
        if (i % 64 == 0)
            usleep(200);
    }
    return NULL;
}

static int run(const char *path, const char *published, unsigned seed, bool fill)
{
    uint64_t after_failure = 0;
    int fd = open(published, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(struct published)) != 0)
        return 2;
    struct published *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    struct twin_writer *w;
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_writer_options o = {.path = path, .world = 1};
    if (p == MAP_FAILED)
        return 2;
    if (twin_writer_open(&o, &w, &err) != 0)
        return fill ? 0 : 2;
    struct twin_stats stats = {.count = 1};
    struct twin_sketch sketch = {.k = 16};
    pthread_t beside;
    if (!fill)
        pthread_create(&beside, NULL, record_beside, w);
    for (uint64_t step = 0; after_failure < 200; step++) {
        char name[32];
        /* new definitions all the time */
        snprintf(name, sizeof name, "tensor %llu", (unsigned long long)(step % 1000));
        struct twin_observation ob = {.series = series(w, name, ""),
                                      .stats = &stats,
                                      .sketch = &sketch,
                                      .digest = {step, seed},
                                      .flags = TWIN_REC_STATS | TWIN_REC_SKETCH};
        for (int i = rand_r(&seed) % 50; i >= 0; i--)
            twin_writer_record(w, &ob);
        twin_writer_step_end(w);
        const bool first_of_fill = fill && step == 0;
        if (rand_r(&seed) % 8 == 0 || first_of_fill) {
            twin_writer_note(w, "step", name);
            twin_writer_flush(w);
            if (twin_writer_counts(w).failed_errno) {
                after_failure++;
                continue;
            }
            atomic_store(&p->records, twin_writer_counts(w).records);
            atomic_store(&p->steps, step + 1);
        }
        /* not before something was sealed: it alone would fill a small disk */
        if (first_of_fill)
            pthread_create(&beside, NULL, record_beside, w);
    }
    twin_writer_close(w);
    return 0;
}

static int check(const char *path)
{
    struct twin_trace *t;
    struct twin_error err = TWIN_ERROR_INIT;
    if (twin_trace_open(path, &t, &err) != 0) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    const struct twin_trace_info i = *twin_trace_info(t);
    twin_trace_close(t);
    if (i.tail_bytes && truncate(path, (off_t)(i.file_bytes - i.tail_bytes)) != 0)
        return 2;
    if (twin_trace_open(path, &t, &err) != 0 || twin_trace_verify(t, &err) != 0) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    twin_trace_close(t);
    printf("%llu %llu %llu\n", (unsigned long long)i.steps, (unsigned long long)i.records,
           (unsigned long long)i.tail_bytes);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 5 && (strcmp(argv[1], "run") == 0 || strcmp(argv[1], "fill") == 0))
        return run(argv[2], argv[3], (unsigned)atoi(argv[4]), argv[1][0] == 'f');
    if (argc == 3 && strcmp(argv[1], "check") == 0)
        return check(argv[2]);
    return 2;
}
