/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of a trace as a table, or as JSON. Each record has its place (step, number within the
 * step), what it is (phase, kind, name), layout, digest and, where recorded, statistics.
 *
 * One step is read by itself, without reading the whole file; without a step the file is streamed
 * from its beginning.
 */
#include "show_records.h"

#include "base.h"
#include "json_text.h"
#include "put.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <twin/fingerprint.h>

/* Most records that are read of one step. */
enum { MAX_STEP_RECORDS = 4 << 20 };

/* What on_record() needs: the trace, which records, and where they go. */
struct listing {
    struct twin_trace *trace;
    const char *pattern; /* NULL: all */
    json_t *rows;        /* array that is filled; NULL: text goes to out */
    FILE *out;
};

/* Does the record's "phase/kind/name" match the pattern that was asked for? Without memory for it:
 * no. */
static bool is_wanted(const struct listing *l, const struct twin_series *s)
{
    if (!l->pattern)
        return true;
    char *key = tw_printf("%s/%s/%s", twin_phase_name(s->phase), twin_kind_name(s->kind),
                          twin_trace_string(l->trace, s->name));
    bool hit = key && tw_glob(l->pattern, key);
    tw_free(key);
    return hit;
}

/* Type and shape: "f32[8,128]". The text has room for 160 bytes; dimensions behind byte 130 are
 * left out, since one of them takes at most 21. */
static void layout_text(const struct twin_layout *y, char text[160])
{
    int n = snprintf(text, 160, "%s[", twin_dtype_name(y->dtype));
    for (uint32_t i = 0; i < y->ndim && n < 130; i++)
        n += snprintf(text + n, 160 - (size_t)n, i ? ",%lld" : "%lld", (long long)y->shape[i]);
    snprintf(text + n, 160 - (size_t)n, "]");
}

/* The digest as 32 hex digits. */
static void digest_text(const struct twin_trace_record *r, const struct twin_layout *y,
                        char hex[33])
{
    const struct twin_digest d = twin_trace_digest(r, y);
    tw_hex_128(d.a, d.b, hex);
}

/* One line of the table. A value that consists of one number is shown itself, others with mean,
 * minimum and maximum. UNOBSERVED: the agent saw the tensor, not its contents. */
static void text_row(FILE *out, const struct listing *l, const struct twin_trace_record *r,
                     const struct twin_series *s)
{
    char layout[160], hex[33] = "(contents not read)";
    const struct twin_layout *y = twin_trace_layout(l->trace, r->layout);
    const char *name = twin_trace_string(l->trace, s->name);
    char *safe = tw_printable(name, strlen(name));
    layout_text(y, layout);
    if (!(r->flags & TWIN_REC_UNOBSERVED))
        digest_text(r, y, hex);
    tw_put_to(out, "%6u %5u  %-10s  %-16s  %-40s %-18s %.16s", r->step, r->seq,
              twin_phase_name(s->phase), twin_kind_name(s->kind), safe ? safe : "", layout, hex);
    if (r->occurrence)
        tw_put_to(out, "  #%u", r->occurrence);
    if ((r->flags & TWIN_REC_STATS) && r->stats.count) {
        uint64_t bad = r->stats.nan + r->stats.pos_inf + r->stats.neg_inf;
        uint64_t finite = r->stats.count - bad;
        if (r->stats.count == 1 && finite == 1)
            tw_put_to(out, "  value %.9g", r->stats.sum);
        else
            tw_put_to(out, "  mean %.6g  min %.6g  max %.6g",
                      finite ? r->stats.sum / (double)finite : NAN, r->stats.min, r->stats.max);
        if (bad)
            tw_put_to(out, "  NaN %llu  Inf %llu", (unsigned long long)r->stats.nan,
                      (unsigned long long)(r->stats.pos_inf + r->stats.neg_inf));
    }
    tw_put_to(out, "\n");
    tw_free(safe);
}

/* The record as an object, with rank and pid of the trace, since rows of several traces are put
 * into one list. digest is null when the contents were not read. */
static json_t *json_row(const struct listing *l, const struct twin_trace_record *r,
                        const struct twin_series *s)
{
    char hex[33];
    const struct twin_layout *y = twin_trace_layout(l->trace, r->layout);
    json_t *shape = json_array(), *stats = NULL;
    for (uint32_t i = 0; i < y->ndim; i++)
        json_array_append_new(shape, json_integer((json_int_t)y->shape[i]));
    digest_text(r, y, hex);
    if (r->flags & TWIN_REC_STATS)
        stats = json_pack("{s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "count",
                          (json_int_t)r->stats.count, "nan", (json_int_t)r->stats.nan, "pos_inf",
                          (json_int_t)r->stats.pos_inf, "neg_inf", (json_int_t)r->stats.neg_inf,
                          "zeros", (json_int_t)r->stats.zeros, "min", tw_json_number(r->stats.min),
                          "max", tw_json_number(r->stats.max), "absmax",
                          tw_json_number(r->stats.absmax), "sum", tw_json_number(r->stats.sum),
                          "sumsq", tw_json_number(r->stats.sumsq));
    json_t *j = json_pack("{s:I, s:I, s:I, s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "step",
                          (json_int_t)r->step, "seq", (json_int_t)r->seq, "occurrence",
                          (json_int_t)r->occurrence, "phase", twin_phase_name(s->phase), "kind",
                          twin_kind_name(s->kind), "name",
                          tw_json_text(twin_trace_string(l->trace, s->name)), "scope",
                          tw_json_text(twin_trace_string(l->trace, s->scope)), "role",
                          tw_json_text(twin_trace_string(l->trace, s->role)), "op",
                          tw_json_text(twin_trace_string(l->trace, s->op)), "site",
                          tw_json_text(twin_trace_string(l->trace, s->site)));
    json_object_set_new(j, "dtype", json_string(twin_dtype_name(y->dtype)));
    json_object_set_new(j, "shape", shape);
    json_object_set_new(j, "digest",
                        r->flags & TWIN_REC_UNOBSERVED ? json_null() : json_string(hex));
    json_object_set_new(j, "stats", stats ? stats : json_null());
    const struct twin_trace_info *info = twin_trace_info(l->trace);
    json_object_set_new(j, "rank", json_integer(info->rank));
    json_object_set_new(j, "pid", json_integer(info->pid));
    return j;
}

/* For twin_trace_walk_some: the pattern is about series. */
static bool series_wanted(void *user, uint32_t id, const struct twin_series *s)
{
    (void)id;
    return is_wanted(user, s);
}

/* Called for each record, by the reader or by tw_show_records. 0: go on. */
static int on_record(void *user, const struct twin_trace_record *r)
{
    const struct listing *l = user;
    const struct twin_series *s = twin_trace_series(l->trace, r->series);
    if (!is_wanted(l, s))
        return 0;
    if (l->rows)
        json_array_append_new(l->rows, json_row(l, r, s));
    else
        text_row(l->out, l, r, s);
    return 0;
}

int tw_show_records(struct twin_trace *t, const char *path, const struct tw_records_asked *asked,
                    FILE *out, json_t *rows, const struct tw_front *front)
{
    struct listing l = {.trace = t, .pattern = asked->pattern, .rows = rows, .out = out};
    struct twin_error err = TWIN_ERROR_INIT;
    int rc;
    if (!rows)
        tw_put_to(out, "%s\n%6s %5s  %-10s  %-16s  %-40s %-18s %s\n", tw_base_name(path), "step",
                  "seq", "phase", "kind", "name", "layout", "digest");
    if (asked->one_step) {
        struct twin_trace_record *records = NULL;
        size_t count = 0;
        rc = twin_trace_read(t, asked->step, asked->step, MAX_STEP_RECORDS, &records, &count, &err);
        for (size_t i = 0; rc == 0 && i < count; i++)
            on_record(&l, &records[i]);
        twin_trace_records_free(records);
    } else {
        rc = twin_trace_definitions(t, &err);
        if (rc == 0)
            rc = twin_trace_walk_some(t, series_wanted, on_record, NULL, &l, &err);
    }
    if (rc != 0)
        tw_front_trouble(front, &err, "%s", tw_base_name(path));
    return rc;
}
