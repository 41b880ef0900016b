/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What processes that share one comparison say to the one that makes it (compare.h, struct
 * twin_share). Reading and checking every byte of every trace is most of the work, so that is what
 * is divided: each process verifies its share, and sends what it found of the traces that are
 * intact. Of all others it says nothing, and the first process looks for itself: what is wrong with
 * a trace is found and worded in one place, so the verdict is the one of a single process.
 *
 * A message comes from another machine. It has a checksum, says which traces it speaks of, and each
 * length in it is held against what is there before it is used.
 */
#include "share.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define SHARE_MAGIC UINT64_C(0x3165726168735754) /* bytes "TWshare1" */

/* The start of a message. traces: hash of the names of all traces of all runs, in order. Then
 * follow `items` items, or a text of `text` bytes: why there are none. */
struct head {
    uint64_t magic;
    uint32_t crc; /* CRC32C of all that follows this field */
    uint32_t part, parts, items, text, zero;
    uint64_t traces;
};
/* An intact trace. `series` bits follow, padded with zeros to a multiple of 8 bytes. */
struct item {
    uint64_t bytes, seal_a, seal_b, records, unfinished, finished, unobserved;
    uint32_t index; /* among the traces of all runs */
    uint32_t every_step, series;
    uint8_t threads, nonfinite, zero[2];
};
_Static_assert(sizeof(struct head) == 40 && sizeof(struct item) == 72, "no holes");
#define CRC_FROM (offsetof(struct head, crc) + sizeof(uint32_t))

static uint64_t bits_span(uint32_t series)
{
    return ((uint64_t)series + 63) / 64 * 8;
}

/* Of names without their folders: the machines may have mounted the storage in other places. */
static uint64_t hash_of_traces(const struct twin_run *const *runs, size_t n)
{
    uint64_t hash = n;
    for (size_t i = 0; i < n; i++) {
        hash = tw_mix64(hash ^ runs[i]->trace_count);
        for (size_t k = 0; k < runs[i]->trace_count; k++) {
            const char *path = runs[i]->traces[k], *slash = strrchr(path, '/');
            const char *name = slash ? slash + 1 : path;
            hash = tw_hash_bytes(name, strlen(name), hash).a;
        }
    }
    return hash;
}

/* ---- making one */

struct work {
    const char **path;
    size_t *index; /* of the work's traces among all */
    struct twin_trace_verified *found;
    bool *intact;
    struct twin_error *fault;
    bool alone;
};

/* Verifies one trace of the share. That it cannot be read here is kept as a fault; that it is
 * damaged, or not there, is for the first process to say. */
static void verify_one(void *user, size_t i)
{
    struct work *w = user;
    struct tw_opened x = {.trace = NULL};
    int rc = twin_trace_open(w->path[i], &x.trace, &w->fault[i]);
    if (rc == 0)
        rc = twin_trace_definitions(x.trace, &w->fault[i]);
    if (rc == 0 && !tw_trace_is_silent(twin_trace_info(x.trace))) {
        tw_opened_verify(&x, w->alone);
        rc = x.rc;
        w->fault[i] = x.fault;
        if (rc == 0 && twin_trace_summary(x.trace)) { /* not of one that was cut off */
            rc = twin_trace_hand_over(x.trace, &w->found[i], &w->fault[i]);
            w->intact[i] = rc == 0;
        }
    }
    if (rc != TWIN_EIO && rc != TWIN_ENOMEM)
        w->fault[i].code = 0;
    twin_trace_close(x.trace);
}

static int append_item(struct tw_buf *b, size_t index, const struct twin_trace_verified *v)
{
    const struct twin_trace_summary *s = &v->summary;
    static const char zeros[8];
    const size_t bytes = ((size_t)v->series + 7) / 8, span = bits_span(v->series);
    const struct item x = {.bytes = v->bytes,
                           .seal_a = v->seal[0],
                           .seal_b = v->seal[1],
                           .records = s->records,
                           .unfinished = s->unfinished,
                           .finished = s->finished,
                           .unobserved = s->unobserved,
                           .index = (uint32_t)index,
                           .every_step = s->every_step,
                           .series = v->series,
                           .threads = s->threads,
                           .nonfinite = s->nonfinite};
    tw_buf_append(b, &x, sizeof x);
    tw_buf_append(b, v->observed, bytes);
    return tw_buf_append(b, zeros, span - bytes);
}

/* Puts the head in front of what b holds behind the room for it. */
static void seal(struct tw_buf *b, struct head h)
{
    h.magic = SHARE_MAGIC;
    memcpy(b->data, &h, sizeof h);
    h.crc = tw_crc32c(0, b->data + CRC_FROM, b->len - CRC_FROM);
    memcpy(b->data, &h, sizeof h);
}

int twin_share_trouble(size_t part, size_t parts, const char *text, struct tw_buf *out)
{
    const struct head h = {.part = (uint32_t)part,
                           .parts = (uint32_t)parts,
                           .text = (uint32_t)strnlen(text, TWIN_ERROR_MESSAGE_BYTES - 1)};
    *out = (struct tw_buf){0};
    tw_buf_append(out, &h, sizeof h);
    if (tw_buf_append(out, text, h.text) != 0)
        return TWIN_ENOMEM;
    seal(out, h);
    return 0;
}

bool tw_share_has(const struct twin_share *s, size_t index)
{
    return s->parts < 2 || index % s->parts == s->part;
}

/* Lists the traces of the share. False: no memory. */
static bool list_work(const struct twin_run *const *runs, size_t n, const struct twin_share *share,
                      struct work *w, size_t *count)
{
    size_t all = 0, index = 0;
    *count = 0;
    for (size_t i = 0; i < n; i++)
        all += runs[i]->trace_count;
    w->path = tw_calloc(all + 1, sizeof *w->path);
    w->index = tw_calloc(all + 1, sizeof *w->index);
    w->found = tw_calloc(all + 1, sizeof *w->found);
    w->intact = tw_calloc(all + 1, sizeof *w->intact);
    w->fault = tw_calloc(all + 1, sizeof *w->fault);
    if (!w->path || !w->index || !w->found || !w->intact || !w->fault)
        return false;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < runs[i]->trace_count; k++, index++)
            if (tw_share_has(share, index)) {
                w->path[*count] = runs[i]->traces[k];
                w->index[(*count)++] = index;
            }
    return true;
}

int twin_share_verify(const struct twin_run *const *runs, size_t n, const struct twin_share *share,
                      struct tw_buf *out, struct twin_error *err)
{
    assert(share->part < share->parts);
    struct work w = {0};
    struct head h = {.part = (uint32_t)share->part,
                     .parts = (uint32_t)share->parts,
                     .traces = hash_of_traces(runs, n)};
    size_t count = 0;
    int rc = 0;
    *out = (struct tw_buf){0};
    if (!list_work(runs, n, share, &w, &count)) {
        rc = tw_no_memory(err, "verifying a share of the traces");
        count = 0;
    }
    w.alone = count * 2 > tw_processors();
    tw_by_processors(count, verify_one, &w);
    tw_buf_append(out, &h, sizeof h);
    for (size_t i = 0; i < count; i++) {
        if (rc == 0 && w.fault[i].code != 0)
            rc = twin_error_set(err, w.fault[i].code, "%s", w.fault[i].message);
        if (w.intact[i])
            append_item(out, w.index[i], &w.found[i]);
        h.items += w.intact[i];
        tw_free(w.found[i].observed);
    }
    tw_free(w.path);
    tw_free(w.index);
    tw_free(w.found);
    tw_free(w.intact);
    tw_free(w.fault);
    if (rc == 0 && out->failed)
        rc = tw_no_memory(err, "verifying a share of the traces");
    if (rc == 0)
        seal(out, h);
    else
        tw_buf_free(out);
    return rc;
}

/* ---- reading one */

static int is_wrong(struct twin_error *err, size_t part, const char *what)
{
    return twin_error_set(err, TWIN_EFORMAT,
                          "process %zu: what it sent cannot be used: %s; is it the same version of "
                          "twinrun on every machine?",
                          part, what);
}

/* Takes one item from *at on, and steps over it. NULL, or what is wrong with it. */
static const char *take_item(const char **at, size_t *left, const struct twin_share *share,
                             size_t part, struct tw_shares *out)
{
    struct item x;
    const struct twin_share theirs = {.part = part, .parts = share->parts};
    if (*left < sizeof x)
        return "a trace is cut short";
    memcpy(&x, *at, sizeof x);
    if (x.series > TW_SHARE_SERIES || bits_span(x.series) > *left - sizeof x)
        return "a list of series is cut short";
    if (x.index >= out->count || !tw_share_has(&theirs, x.index))
        return "it speaks of a trace that is not its own";
    if (out->found[x.index].bytes > 0)
        return "it speaks twice of a trace";
    if (x.threads > 1 || x.nonfinite > 1 || x.bytes == 0)
        return "a number is out of its range";
    const size_t bytes = ((size_t)x.series + 7) / 8;
    uint8_t *observed = tw_calloc(bytes + 1, 1);
    if (!observed)
        return "there is no memory for it";
    memcpy(observed, *at + sizeof x, bytes);
    out->found[x.index] = (struct twin_trace_verified){.bytes = x.bytes,
                                                       .seal = {x.seal_a, x.seal_b},
                                                       .summary = {.records = x.records,
                                                                   .unfinished = x.unfinished,
                                                                   .finished = x.finished,
                                                                   .every_step = x.every_step,
                                                                   .unobserved = x.unobserved,
                                                                   .threads = x.threads,
                                                                   .nonfinite = x.nonfinite},
                                                       .observed = observed,
                                                       .series = x.series};
    *at += sizeof x + bits_span(x.series);
    *left -= sizeof x + bits_span(x.series);
    return NULL;
}

int tw_shares_read(const struct twin_run *const *runs, size_t n, const struct twin_share *share,
                   size_t part, const void *bytes, size_t size, struct tw_shares *out,
                   struct twin_error *err)
{
    struct head h;
    if (size < sizeof h)
        return is_wrong(err, part, "it is shorter than its head");
    memcpy(&h, bytes, sizeof h);
    const char *at = (const char *)bytes + sizeof h;
    size_t left = size - sizeof h;
    if (h.magic != SHARE_MAGIC)
        return is_wrong(err, part, "it begins otherwise");
    if (h.crc != tw_crc32c(0, (const char *)bytes + CRC_FROM, size - CRC_FROM))
        return is_wrong(err, part, "its checksum is wrong");
    if (h.part != part || h.parts != share->parts)
        return is_wrong(err, part, "it is of another process");
    if (h.text > 0 && (h.text != left || h.text >= TWIN_ERROR_MESSAGE_BYTES))
        return is_wrong(err, part, "its text is cut short");
    if (h.text > 0)
        return twin_error_set(err, TWIN_EIO, "process %zu of %zu: %.*s", part, share->parts,
                              (int)h.text, at);
    if (h.traces != hash_of_traces(runs, n))
        return twin_error_set(err, TWIN_EIO,
                              "process %zu of %zu sees other traces than process 0: is it the same "
                              "storage, and is no run still going on?",
                              part, share->parts);
    const char *wrong = NULL;
    for (uint32_t i = 0; i < h.items && !wrong; i++)
        wrong = take_item(&at, &left, share, part, out);
    if (!wrong && left > 0)
        wrong = "there is more of it than it says";
    return wrong ? is_wrong(err, part, wrong) : 0;
}

int tw_shares_collect(const struct twin_run *const *runs, size_t n, const struct twin_share *share,
                      size_t count, struct tw_shares *out, struct twin_error *err)
{
    int rc = 0;
    out->found = tw_calloc(count + 1, sizeof *out->found);
    out->count = count;
    if (!out->found)
        return tw_no_memory(err, "collecting what other processes verified");
    for (size_t part = 1; rc == 0 && part < share->parts; part++) {
        struct tw_buf b = {0};
        rc = share->collect(share->user, part, &b, err);
        if (rc == 0)
            rc = tw_shares_read(runs, n, share, part, b.data, b.len, out, err);
        tw_buf_free(&b);
    }
    return rc;
}

void tw_shares_free(struct tw_shares *s)
{
    for (size_t i = 0; s->found && i < s->count; i++)
        tw_free(s->found[i].observed);
    tw_free(s->found);
    *s = (struct tw_shares){0};
}
