/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a trace: opened, asked everything, closed. The mutator makes checksums good again,
 * so that what lies behind them is reached. Built with libFuzzer (-Dfuzz=true), or with replay.c to
 * run files. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size) __attribute__((weak));

static int on_record(void *user, const struct twin_trace_record *r)
{
    struct twin_trace *t = user;
    const struct twin_series *s = twin_trace_series(t, r->series);
    const struct twin_layout *l = twin_trace_layout(t, r->layout);
    size_t used = strlen(twin_trace_string(t, s->name)) + strlen(twin_trace_string(t, s->site));
    if (r->link_count > TWIN_MAX_LINKS || r->sketch.k > TWIN_SKETCH_MAX ||
        l->ndim > TWIN_MAX_NDIM || used > 1u << 30)
        abort();
    return 0;
}

static void ask(struct twin_trace *t)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_step_hash h;
    struct twin_trace_record *records;
    const char *key, *value;
    size_t count;
    uint32_t step, dropped;
    uint64_t compared;
    bool found;
    uint32_t steps = (uint32_t)twin_trace_info(t)->steps;
    twin_trace_walk(t, on_record, NULL, t, NULL);
    for (uint32_t s = 0; s < 5; s++)
        twin_trace_step_hash(t, s < 3 ? s : steps - s, &h, NULL);
    if (twin_trace_read(t, 1, 2, 10000, &records, &count, NULL) == 0)
        twin_trace_records_free(records);
    for (size_t i = 0; twin_trace_note(t, i, &key, &value); i++)
        if (strlen(key) > TW_PAYLOAD_MAX || strlen(value) > TW_PAYLOAD_MAX)
            abort();
    for (size_t i = 0; twin_trace_gap(t, i, &step, &dropped); i++)
        ;
    twin_trace_first_difference(t, t, 1, 0, UINT32_MAX, &found, &step, &compared, NULL);
    twin_trace_first_order_difference(t, t, -1, 1, UINT32_MAX, &found, &step, &compared, NULL);
    if (twin_trace_verify(t, &err) != 0 && err.message[0] == '\0')
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    char path[64];
    struct twin_trace *t;
    if (fd < 0)
        fd = memfd_create("trace", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (twin_trace_open(path, &t, NULL) == 0) {
        ask(t);
        twin_trace_close(t);
    }
    return 0;
}

static void repair(uint8_t *data, size_t size)
{
    struct tw_file_header h;
    struct tw_block b;
    if (size < sizeof h)
        return;
    memcpy(&h, data, sizeof h);
    h.crc = tw_crc32c(0, &h, offsetof(struct tw_file_header, crc));
    memcpy(data, &h, sizeof h);
    for (size_t at = sizeof h; at + sizeof b <= size; at += TW_BLOCK_ALIGN) {
        memcpy(&b, data + at, sizeof b);
        if (b.magic != TW_BLOCK_MAGIC)
            continue;
        b.offset = at;
        if (b.payload_bytes <= size - at - sizeof b)
            b.payload_crc = tw_crc32c(h.crc, data + at + sizeof b, b.payload_bytes);
        b.crc = tw_crc32c(h.crc, &b, offsetof(struct tw_block, crc));
        memcpy(data + at, &b, sizeof b);
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    size = LLVMFuzzerMutate(data, size, max_size);
    if (seed % 8 != 0)
        repair(data, size);
    return size;
}
