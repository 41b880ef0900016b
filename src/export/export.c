/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goes through the traces of some runs step by step, and writes their records and the digests of
 * their steps. Rows are ordered by step, then by run, rank and process, then by sequence: a step
 * lies in few row groups, and what two runs had at the same moment lies side by side.
 *
 * Some steps of all traces are read at once, a window, as many as memory is spent on: a step by
 * itself would have its blocks read again for each of the steps in them. A single step of a trace
 * that is too large for that is streamed.
 */
#include "export.h"
#include "columns.h"

#include "base.h"

#include "src/formats/parquet.h"
#include "src/trace/trace.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Records of a window: as many as are aimed at (by the average of the traces), and held at most. */
enum { WINDOW_AIM = 16384, WINDOW_MAX = 65536, WINDOW_STEPS_MAX = 4096 };
/* An end of a step takes at least so many bytes of the file. A trace that says it has more steps
 * than that is not believed: it would keep us busy for hours. */
enum { STEP_BYTES = 56 };

/* One trace, and its records of the window: those from `at` on are not written yet. */
struct source {
    struct tw_export_trace trace;
    uint64_t last; /* step; an unfinished one counts */
    struct twin_trace_record *records;
    size_t count, at;
    bool failed; /* it cannot be read on; said */
};

struct export
{
    struct source *source;
    size_t count, room;
    struct tw_parquet *records, *steps;
    const struct tw_front *front;
    struct tw_export_counts *counts;
};

/* ---- sources */

/* Opens one trace. What cannot be opened is said and counted, and no error. */
static int add_source(struct export *e, const struct twin_run *run, const char *path,
                      struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    struct source *s = &e->source[e->count];
    *s = (struct source){.trace = {.path = path, .run = run->id}};
    int rc = twin_trace_open(path, &s->trace.trace, &why);
    if (rc == 0)
        rc = twin_trace_definitions(s->trace.trace, &why);
    const struct twin_trace_info *info = rc == 0 ? twin_trace_info(s->trace.trace) : NULL;
    if (info && info->steps > info->file_bytes / STEP_BYTES)
        rc = twin_error_set(&why, TWIN_EFORMAT, "it says that it has %llu steps in %llu bytes",
                            (unsigned long long)info->steps, (unsigned long long)info->file_bytes);
    if (rc == 0) {
        s->trace.role = tw_printable(info->role, strlen(info->role));
        if (!s->trace.role)
            rc = tw_no_memory(&why, "for %s", path);
        s->last = info->steps;
    }
    if (rc == 0) {
        e->count++;
        e->counts->traces++;
        return 0;
    }
    twin_trace_close(s->trace.trace);
    if (rc == TWIN_ENOMEM)
        return tw_no_memory(err, "for the trace %s", path);
    e->counts->broken++;
    tw_front_trouble(e->front, &why, "left out: %s", tw_base_name(path));
    return 0;
}

static int open_sources(struct export *e, struct twin_run *const *runs, size_t count,
                        struct twin_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < count; i++)
        e->room += runs[i]->trace_count;
    e->source = tw_calloc(e->room + 1, sizeof *e->source);
    if (!e->source)
        return tw_no_memory(err, "for %zu traces", e->room);
    for (size_t i = 0; rc == 0 && i < count; i++)
        for (size_t k = 0; rc == 0 && k < runs[i]->trace_count; k++)
            rc = add_source(e, runs[i], runs[i]->traces[k], err);
    return rc;
}

static void close_sources(struct export *e)
{
    for (size_t i = 0; i < e->count; i++) {
        struct tw_export_trace *t = &e->source[i].trace;
        for (size_t k = 0; k < t->text_room; k++)
            tw_free(t->texts[k].text);
        tw_free(t->texts);
        tw_free(t->role);
        twin_trace_records_free(e->source[i].records);
        twin_trace_close(t->trace);
    }
    tw_free(e->source);
}

/* What the trace lacks, in a sentence each. */
static void say_missing(struct export *e, const struct source *s)
{
    const char *name = tw_base_name(s->trace.path);
    const struct twin_trace_info *info = twin_trace_info(s->trace.trace);
    struct twin_trace_hole hole;
    bool holes = false;
    for (size_t i = 0; twin_trace_hole(s->trace.trace, i, &hole); i++) {
        holes = true;
        if (hole.definitions)
            tw_front_say(e->front, "%s is damaged at byte %llu: names or shapes are missing", name,
                         (unsigned long long)hole.offset);
        else
            tw_front_say(e->front,
                         "%s is damaged at byte %llu: records of steps %u to %u are missing", name,
                         (unsigned long long)hole.offset, hole.first_step, hole.last_step);
    }
    if (holes && !s->failed)
        e->counts->broken++;
    if (info->tail_bytes)
        tw_front_say(e->front,
                     "%s ends in %llu bytes that are no whole block, as where a process is killed: "
                     "what they held is missing",
                     name, (unsigned long long)info->tail_bytes);
    if (info->dropped)
        tw_front_say(e->front,
                     "%s lacks the details of %llu records, which were dropped while it was "
                     "recorded; the digests of the steps have them",
                     name, (unsigned long long)info->dropped);
}

/* A trace that cannot be read on is said once, and its rest is left out. */
static int source_failed(struct export *e, struct source *s, const struct twin_error *why,
                         struct twin_error *err)
{
    if (why->code == TWIN_ENOMEM)
        return twin_error_set(err, why->code, "%s", why->message);
    tw_front_trouble(e->front, why, "%s cannot be read on", tw_base_name(s->trace.path));
    s->failed = true;
    e->counts->broken++;
    return 0;
}

/* ---- records */

static int write_record(struct export *e, struct source *s, const struct twin_trace_record *r,
                        struct twin_error *err)
{
    int rc = tw_export_record(e->records, &s->trace, r, err);
    if (rc == 0 && ++e->counts->records % 4096 == 0 && tw_front_stops(e->front))
        rc = twin_error_set(err, TWIN_EINTR, "interrupted");
    return rc;
}

/* While a step is streamed: what becomes of its records. */
struct streamed {
    struct export *e;
    struct source *s;
    uint32_t step;
    struct twin_error *err;
    bool failed; /* our side failed, not the trace */
};

static int on_record(void *user, const struct twin_trace_record *r)
{
    struct streamed *x = user;
    if (r->step != x->step)
        return 0;
    const int rc = write_record(x->e, x->s, r, x->err);
    x->failed = rc != 0;
    return rc;
}

/* Writes a step that is too large for memory, in the order of the file. */
static int stream_step(struct export *e, struct source *s, uint32_t step, struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    struct streamed x = {e, s, step, err, false};
    const int rc = twin_trace_walk(s->trace.trace, on_record, NULL, &x, &why);
    if (rc == 0 || x.failed)
        return rc;
    return source_failed(e, s, &why, err);
}

static int write_step_hash(struct export *e, struct source *s, uint32_t step,
                           struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    struct twin_step_hash h;
    int rc = twin_trace_step_hash(s->trace.trace, step, &h, &why);
    if (rc == TWIN_ENOENT) /* not finished, or damaged, which the holes say */
        return 0;
    if (rc != 0)
        return source_failed(e, s, &why, err);
    rc = tw_export_step(e->steps, &s->trace, &h, err);
    e->counts->steps += rc == 0;
    return rc;
}

/* Its records are given back. */
static void forget_window(struct source *s)
{
    twin_trace_records_free(s->records);
    s->records = NULL;
    s->count = s->at = 0;
}

/* Reads the window of one trace. TWIN_ELIMIT, without a message: it is too large. */
static int read_window(struct export *e, struct source *s, uint32_t first, uint32_t last,
                       size_t most, struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    forget_window(s);
    if (s->failed || s->last < first)
        return 0;
    const int rc = twin_trace_read(s->trace.trace, first, last, most, &s->records, &s->count, &why);
    if (rc == 0 || rc == TWIN_ELIMIT)
        return rc;
    return source_failed(e, s, &why, err);
}

/* One step of all traces, each read by itself: so no more than one is in memory. */
static int write_one_step(struct export *e, uint32_t step, struct twin_error *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < e->count; i++) {
        struct source *s = &e->source[i];
        rc = read_window(e, s, step, step, WINDOW_MAX, err);
        if (rc == TWIN_ELIMIT)
            rc = stream_step(e, s, step, err);
        for (; rc == 0 && s->at < s->count; s->at++)
            rc = write_record(e, s, &s->records[s->at], err);
        if (rc == 0 && !s->failed && step < s->last)
            rc = write_step_hash(e, s, step, err);
        forget_window(s);
    }
    return rc;
}

/* A window that was read: of each step the records of all traces. */
static int write_window(struct export *e, uint32_t first, uint32_t last, struct twin_error *err)
{
    int rc = 0;
    for (uint64_t step = first; rc == 0 && step <= last; step++)
        for (size_t i = 0; rc == 0 && i < e->count; i++) {
            struct source *s = &e->source[i];
            for (; rc == 0 && s->at < s->count && s->records[s->at].step == step; s->at++)
                rc = write_record(e, s, &s->records[s->at], err);
            if (rc == 0 && !s->failed && step < s->last)
                rc = write_step_hash(e, s, (uint32_t)step, err);
        }
    return rc;
}

/* TWIN_ELIMIT: together they are too large. */
static int read_windows(struct export *e, uint32_t first, uint32_t last, struct twin_error *err)
{
    size_t held = 0;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < e->count; i++) {
        rc = read_window(e, &e->source[i], first, last, WINDOW_MAX - held, err);
        held += e->source[i].count;
    }
    return rc;
}

/* How many steps a window has by the averages of the traces. */
static uint64_t window_steps(const struct export *e)
{
    double each = 0;
    for (size_t i = 0; i < e->count; i++) {
        const struct twin_trace_info *info = twin_trace_info(e->source[i].trace.trace);
        each += (double)info->records / (double)(info->steps + 1);
    }
    if (each * WINDOW_STEPS_MAX <= WINDOW_AIM)
        return WINDOW_STEPS_MAX;
    return each < WINDOW_AIM ? (uint64_t)(WINDOW_AIM / each) : 1;
}

static int write_rows(struct export *e, struct twin_error *err)
{
    const uint64_t usual = window_steps(e);
    uint64_t last = 0;
    int rc = 0;
    for (size_t i = 0; i < e->count; i++)
        last = e->source[i].last > last ? e->source[i].last : last;
    if (last > UINT32_MAX - 1)
        last = UINT32_MAX - 1;
    for (uint64_t step = 0, n = usual; rc == 0 && step <= last;) {
        const uint32_t first = (uint32_t)step;
        const uint32_t end = (uint32_t)(last - step < n ? last : step + n - 1);
        rc = n > 1 ? read_windows(e, first, end, err) : write_one_step(e, first, err);
        if (rc == TWIN_ELIMIT) { /* more than usual is in these steps */
            rc = 0;
            n /= 2;
            continue;
        }
        if (rc == 0 && n > 1)
            rc = write_window(e, first, end, err);
        if (rc == 0 && tw_front_stops(e->front))
            rc = twin_error_set(err, TWIN_EINTR, "interrupted");
        step = (uint64_t)end + 1;
        n = usual;
    }
    return rc;
}

/* ---- files */

static int open_tables(struct export *e, const struct tw_export_options *o, struct twin_error *err)
{
    char *records = tw_path_join(o->folder, "records.parquet");
    char *steps = tw_path_join(o->folder, "steps.parquet");
    const char *there = NULL;
    int rc = tw_mkdirs(o->folder, err);
    if (!records || !steps)
        rc = tw_no_memory(err, "writing to %s", o->folder);
    /* Before the work, not behind it; tw_parquet_place asks again. */
    if (rc == 0 && !o->replace && access(records, F_OK) == 0)
        there = records;
    else if (rc == 0 && !o->replace && access(steps, F_OK) == 0)
        there = steps;
    if (there)
        rc = twin_error_set(err, TWIN_EINVAL,
                            "%s is there already: --force replaces it, or name another folder",
                            there);
    if (rc == 0)
        rc = tw_parquet_open(records, tw_export_record_columns, tw_export_record_column_count,
                             TW_EXPORT_RECORDS_SCHEMA, &e->records, err);
    if (rc == 0)
        rc = tw_parquet_open(steps, tw_export_step_columns, tw_export_step_column_count,
                             TW_EXPORT_STEPS_SCHEMA, &e->steps, err);
    tw_free(records);
    tw_free(steps);
    return rc;
}

int tw_export_parquet(struct twin_run *const *runs, size_t count, const struct tw_export_options *o,
                      const struct tw_front *front, struct tw_export_counts *counts,
                      struct twin_error *err)
{
    struct export e = {.front = front, .counts = counts};
    *counts = (struct tw_export_counts){0};
    int rc = open_tables(&e, o, err);
    if (rc == 0)
        rc = open_sources(&e, runs, count, err);
    if (rc == 0)
        rc = write_rows(&e, err);
    for (size_t i = 0; rc == 0 && i < e.count; i++)
        say_missing(&e, &e.source[i]);
    /* Both are whole before either gets its name. */
    if (rc == 0)
        rc = tw_parquet_finish(e.records, err);
    if (rc == 0)
        rc = tw_parquet_finish(e.steps, err);
    if (rc == 0)
        rc = tw_parquet_place(e.records, o->replace, err);
    if (rc == 0) {
        rc = tw_parquet_place(e.steps, o->replace, err);
        if (rc != 0)
            tw_parquet_take_back(e.records);
    }
    tw_parquet_free(e.records);
    tw_parquet_free(e.steps);
    close_sources(&e);
    return rc;
}
