/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the sample traces of this version: make FOLDER. The samples of a released version are
 * never made again. */
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "writer.h"

static struct twin_writer *open_in(const char *folder, const char *name, size_t ring_bytes)
{
    char path[4096];
    struct twin_writer *w;
    struct twin_error err = TWIN_ERROR_INIT;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    struct twin_writer_options o = {
        .path = path, .rank = 5, .world = 16, .role = "main", .ring_bytes = ring_bytes};
    for (int i = 0; i < 16; i++)
        o.run_id[i] = (uint8_t)(255 - i);
    if (twin_writer_open(&o, &w, &err) != 0) {
        fprintf(stderr, "%s\n", err.message);
        _exit(1);
    }
    return w;
}

static uint32_t string(struct twin_writer *w, const char *s)
{
    return twin_writer_string(w, s, strlen(s));
}

static uint32_t series(struct twin_writer *w, int phase, int kind, const char *name,
                       const char *role)
{
    struct twin_series s = {.phase = (uint8_t)phase,
                            .kind = (uint8_t)kind,
                            .name = string(w, name),
                            .scope = string(w, "model"),
                            .role = string(w, role),
                            .op = string(w, "aten::mm"),
                            .site = string(w, "train.py:88 in forward")};
    return twin_writer_series(w, &s);
}

/* Every part of the format: all optional parts of a record, unobserved and unordered ones, notes,
 * several blocks. */
static void write_basic(struct twin_writer *w, int steps)
{
    const int64_t shape[3] = {2, 0, 7};
    const uint32_t layout = twin_writer_layout(w, TWIN_BF16, 3, shape);
    const uint32_t scalar = twin_writer_layout(w, TWIN_F64, 0, NULL);
    struct twin_stats stats = {.count = 14,
                               .nan = 1,
                               .pos_inf = 2,
                               .neg_inf = 3,
                               .zeros = 4,
                               .min = -INFINITY,
                               .max = INFINITY,
                               .absmax = INFINITY,
                               .sum = -0.0,
                               .sumsq = 0.1};
    struct twin_sketch sketch = {.k = 4, .skipped = 6, .bucket = {1.5, -2.25, 1e-300, 0}};
    uint64_t links[2] = {0, 0};
    twin_writer_note(w, "armed", "torch: 12 hooks \xC3\xA9\n\xFF");
    for (int s = 0; s < steps; s++) {
        struct twin_observation o = {
            .series = series(w, TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, "encoder.weight", ""),
            .layout = layout,
            .digest = {(uint64_t)s, UINT64_MAX},
            .stats = &stats,
            .sketch = &sketch,
            .flags = TWIN_REC_STATS | TWIN_REC_SKETCH | TWIN_REC_OFFSET,
            .global_offset = 1u << 20};
        links[0] = twin_writer_record(w, &o);
        o.flags = TWIN_REC_LINKS | TWIN_REC_UNORDERED | TWIN_REC_NOT_COMPOSABLE;
        o.links = links;
        o.link_count = 2;
        links[1] = twin_writer_record(w, &o);
        o = (struct twin_observation){
            .series = series(w, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "batch\xC2\xB2", "worker 0"),
            .flags = TWIN_REC_UNOBSERVED};
        twin_writer_record(w, &o);
        o = (struct twin_observation){
            .series = series(w, TWIN_PHASE_OPTIMIZER, TWIN_KIND_HYPER, "lr[0]", ""),
            .layout = scalar,
            .digest = {42, 43}};
        twin_writer_record(w, &o);
        twin_writer_add_observer_ns(w, 1000);
        twin_writer_step_end(w);
        twin_writer_flush(w);
    }
    twin_writer_record(w, &(struct twin_observation){0}); /* lost */
}

static void *record_many(void *writer)
{
    uint32_t s = series(writer, TWIN_PHASE_BACKWARD, TWIN_KIND_GRADIENT, "x", "worker 1");
    struct twin_sketch sketch = {.k = 64};
    struct twin_observation o = {.series = s, .flags = TWIN_REC_SKETCH, .sketch = &sketch};
    for (int i = 0; i < 40; i++)
        twin_writer_record(writer, &o);
    return NULL;
}

/* Rings of 16 KiB that overflow: a finished step with a gap, and an unfinished one. */
static void write_gaps(struct twin_writer *w)
{
    for (int i = 0; i < 3; i++) {
        pthread_t other;
        pthread_create(&other, NULL, record_many, w);
        pthread_join(other, NULL);
        struct twin_observation o = {
            .series = series(w, TWIN_PHASE_FORWARD, TWIN_KIND_LOSS, "loss", ""), .digest = {7, 8}};
        twin_writer_record(w, &o);
        if (i < 2)
            twin_writer_step_end(w);
    }
}

/* A process that learned its rank late, and notes that say none. */
static void write_joined(struct twin_writer *w)
{
    static const char *const rank[] = {"7 of 8",          "1 of 3",  "2 of 0x9", "3", "-1 of 4",
                                       "0 of 4294967296", " 1 of 2", "0 of 1 ",  "",  "9 of 9"};
    write_basic(w, 1);
    for (size_t i = 0; i < sizeof rank / sizeof rank[0]; i++)
        twin_writer_note(w, "rank", rank[i]);
    twin_writer_note(w, "ranks", "0 of 2");
}

int main(int argc, char **argv)
{
    char from[4096], to[4096], bytes[65536];
    if (argc != 2)
        return 2;
    struct twin_writer *w = open_in(argv[1], "v1-basic.twt", 0);
    write_basic(w, 3);
    tw_writer_free(w);
    w = open_in(argv[1], "v1-gaps.twt", 1);
    write_gaps(w);
    tw_writer_free(w);
    w = open_in(argv[1], "v1-empty.twt", 0);
    tw_writer_free(w);
    w = open_in(argv[1], "v1-joined.twt", 0);
    write_joined(w);
    tw_writer_free(w);
    snprintf(from, sizeof from, "%s/v1-basic.twt", argv[1]);
    snprintf(to, sizeof to, "%s/v1-torn.twt", argv[1]);
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ssize_t n = read(in, bytes, sizeof bytes);
    return n > 1000 && write(out, bytes, (size_t)n - 700) == n - 700 ? 0 : 1;
}
