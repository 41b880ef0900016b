/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The columns of the exported tables and their rows. A table's enum and its columns go by the same
 * order. Texts are escaped as in `show --json`, once for each text of a trace: a name that is no
 * UTF-8 would make the whole column unreadable for others.
 */
#include "columns.h"

#include "base.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- texts */

/* Ids beyond this are made anew each time; the format allows no more texts. */
enum { TEXTS_MAX = 1 << 20 };

static int make_room(struct tw_export_trace *t, uint32_t id)
{
    if (id < t->text_room)
        return 0;
    size_t room = t->text_room ? t->text_room : 64;
    while (room <= id)
        room *= 2;
    struct tw_export_text *grown = tw_reallocarray(t->texts, room, sizeof *grown);
    if (!grown)
        return TWIN_ENOMEM;
    memset(grown + t->text_room, 0, (room - t->text_room) * sizeof *grown);
    t->texts = grown;
    t->text_room = room;
    return 0;
}

/* The text with this id; {"", 0} where there is none. NULL: no memory. It is the trace's. */
static const struct tw_export_text *text_of(struct tw_export_trace *t, uint32_t id)
{
    static const struct tw_export_text none = {(char *)"", 0};
    const char *raw = twin_trace_string(t->trace, id);
    if (raw[0] == '\0' || id > TEXTS_MAX)
        return &none;
    if (make_room(t, id) != 0)
        return NULL;
    struct tw_export_text *text = &t->texts[id];
    if (!text->text) {
        text->text = tw_printable(raw, strlen(raw));
        text->bytes = text->text ? strlen(text->text) : 0;
    }
    return text->text ? text : NULL;
}

static void put(struct tw_parquet *w, size_t column, const char *s)
{
    tw_parquet_text(w, column, s, strlen(s));
}

/* A required text, "" where there is none. False: no memory. */
static bool put_text(struct tw_parquet *w, size_t column, struct tw_export_trace *t, uint32_t id)
{
    const struct tw_export_text *text = text_of(t, id);
    if (text)
        tw_parquet_text(w, column, text->text, text->bytes);
    return text != NULL;
}

/* An optional text, null where there is none. */
static bool put_text_or_null(struct tw_parquet *w, size_t column, struct tw_export_trace *t,
                             uint32_t id)
{
    const struct tw_export_text *text = text_of(t, id);
    if (text && text->bytes)
        tw_parquet_text(w, column, text->text, text->bytes);
    return text != NULL;
}

/* A count beyond what a column holds is in no true trace, and null. */
static void put_count(struct tw_parquet *w, size_t column, uint64_t n)
{
    if (n <= INT64_MAX)
        tw_parquet_int(w, column, (int64_t)n);
}

/* ---- records */

enum record_column {
    R_RUN,
    R_RANK,
    R_ROLE,
    R_PID,
    R_STEP,
    R_SEQ,
    R_THREAD,
    R_THREAD_ROLE,
    R_TIME_NS,
    R_PHASE,
    R_KIND,
    R_NAME,
    R_SCOPE,
    R_OP,
    R_OCCURRENCE,
    R_DTYPE,
    R_SHAPE,
    R_ELEMENTS,
    R_DIGEST,
    R_OFFSET,
    R_WHOLE,
    R_RECOMPUTED,
    R_UNORDERED,
    R_COUNT,
    R_NAN,
    R_POS_INF,
    R_NEG_INF,
    R_ZEROS,
    R_MIN,
    R_MAX,
    R_ABSMAX,
    R_SUM,
    R_SUMSQ,
    R_MEAN,
    R_NORM,
    R_FILE,
    R_LINE,
    R_SITE,
    RECORD_COLUMNS
};

const struct tw_parquet_column tw_export_record_columns[] = {
    [R_RUN] = {"run", TW_PARQUET_TEXT, false},
    [R_RANK] = {"rank", TW_PARQUET_INT32, false},
    [R_ROLE] = {"role", TW_PARQUET_TEXT, false},
    [R_PID] = {"pid", TW_PARQUET_INT64, false},
    [R_STEP] = {"step", TW_PARQUET_INT64, false},
    [R_SEQ] = {"seq", TW_PARQUET_INT64, false},
    [R_THREAD] = {"thread", TW_PARQUET_INT64, false},
    [R_THREAD_ROLE] = {"thread_role", TW_PARQUET_TEXT, true},
    [R_TIME_NS] = {"time_ns", TW_PARQUET_INT64, true},
    [R_PHASE] = {"phase", TW_PARQUET_TEXT, false},
    [R_KIND] = {"kind", TW_PARQUET_TEXT, false},
    [R_NAME] = {"name", TW_PARQUET_TEXT, false},
    [R_SCOPE] = {"scope", TW_PARQUET_TEXT, true},
    [R_OP] = {"op", TW_PARQUET_TEXT, true},
    [R_OCCURRENCE] = {"occurrence", TW_PARQUET_INT64, false},
    [R_DTYPE] = {"dtype", TW_PARQUET_TEXT, true},
    [R_SHAPE] = {"shape", TW_PARQUET_TEXT, true},
    [R_ELEMENTS] = {"elements", TW_PARQUET_INT64, true},
    [R_DIGEST] = {"digest", TW_PARQUET_TEXT, true},
    [R_OFFSET] = {"global_offset", TW_PARQUET_INT64, true},
    [R_WHOLE] = {"whole_elements", TW_PARQUET_INT64, true},
    [R_RECOMPUTED] = {"recomputed", TW_PARQUET_BOOLEAN, false},
    [R_UNORDERED] = {"unordered", TW_PARQUET_BOOLEAN, false},
    [R_COUNT] = {"count", TW_PARQUET_INT64, true},
    [R_NAN] = {"nan", TW_PARQUET_INT64, true},
    [R_POS_INF] = {"pos_inf", TW_PARQUET_INT64, true},
    [R_NEG_INF] = {"neg_inf", TW_PARQUET_INT64, true},
    [R_ZEROS] = {"zeros", TW_PARQUET_INT64, true},
    [R_MIN] = {"min", TW_PARQUET_DOUBLE, true},
    [R_MAX] = {"max", TW_PARQUET_DOUBLE, true},
    [R_ABSMAX] = {"absmax", TW_PARQUET_DOUBLE, true},
    [R_SUM] = {"sum", TW_PARQUET_DOUBLE, true},
    [R_SUMSQ] = {"sumsq", TW_PARQUET_DOUBLE, true},
    [R_MEAN] = {"mean", TW_PARQUET_DOUBLE, true},
    [R_NORM] = {"norm", TW_PARQUET_DOUBLE, true},
    [R_FILE] = {"file", TW_PARQUET_TEXT, true},
    [R_LINE] = {"line", TW_PARQUET_INT64, true},
    [R_SITE] = {"site", TW_PARQUET_TEXT, true},
};
const size_t tw_export_record_column_count = RECORD_COLUMNS;
_Static_assert(sizeof tw_export_record_columns / sizeof tw_export_record_columns[0] ==
                   RECORD_COLUMNS,
               "each column of records has a name and a type");

/* Type, shape as "[8, 128]" and number of elements. The reader takes TWIN_MAX_NDIM dimensions at
 * most, and a number takes 20 bytes and its comma. */
static void put_layout(struct tw_parquet *w, const struct twin_layout *y)
{
    char shape[TWIN_MAX_NDIM * 22 + 3] = "[";
    size_t n = 1;
    uint64_t elements = 1;
    bool huge = false;
    for (uint32_t i = 0; i < y->ndim; i++) {
        n += (size_t)snprintf(shape + n, sizeof shape - n, i ? ", %lld" : "%lld",
                              (long long)y->shape[i]);
        huge |= __builtin_mul_overflow(elements, (uint64_t)y->shape[i], &elements);
    }
    shape[n++] = ']';
    put(w, R_DTYPE, twin_dtype_name(y->dtype));
    tw_parquet_text(w, R_SHAPE, shape, n);
    if (!huge)
        put_count(w, R_ELEMENTS, elements);
}

static void put_statistics(struct tw_parquet *w, const struct twin_stats *s)
{
    const uint64_t bad = s->nan + s->pos_inf + s->neg_inf;
    put_count(w, R_COUNT, s->count);
    put_count(w, R_NAN, s->nan);
    put_count(w, R_POS_INF, s->pos_inf);
    put_count(w, R_NEG_INF, s->neg_inf);
    put_count(w, R_ZEROS, s->zeros);
    tw_parquet_double(w, R_MIN, s->min);
    tw_parquet_double(w, R_MAX, s->max);
    tw_parquet_double(w, R_ABSMAX, s->absmax);
    tw_parquet_double(w, R_SUM, s->sum);
    tw_parquet_double(w, R_SUMSQ, s->sumsq);
    tw_parquet_double(w, R_NORM, sqrt(s->sumsq));
    if (s->count > bad)
        tw_parquet_double(w, R_MEAN, s->sum / (double)(s->count - bad));
}

/* The innermost line of "file:line in func", one below the other. Escaping made \x0a of the line
 * breaks, and \x5cx0a of what looked like one before. */
static void put_line(struct tw_parquet *w, const struct tw_export_text *site)
{
    const char *end = strstr(site->text, "\\x0a");
    if (!end)
        end = site->text + site->bytes;
    for (const char *p = end; p-- > site->text;) {
        const size_t digits = strspn(p + 1, "0123456789");
        const char *behind = p + 1 + digits;
        if (*p != ':' || digits == 0 || digits > 9 || behind > end)
            continue;
        if (behind != end && strncmp(behind, " in ", 4) != 0)
            continue;
        int64_t line = 0;
        for (size_t i = 0; i < digits; i++)
            line = line * 10 + (p[1 + i] - '0');
        tw_parquet_text(w, R_FILE, site->text, (size_t)(p - site->text));
        tw_parquet_int(w, R_LINE, line);
        return;
    }
}

/* What the series says. False: no memory. */
static bool put_series(struct tw_parquet *w, struct tw_export_trace *t, const struct twin_series *s)
{
    const struct tw_export_text *site = text_of(t, s->site);
    if (site && site->bytes) {
        put_line(w, site);
        tw_parquet_text(w, R_SITE, site->text, site->bytes);
    }
    put(w, R_PHASE, twin_phase_name(s->phase));
    put(w, R_KIND, twin_kind_name(s->kind));
    return site && put_text(w, R_NAME, t, s->name) && put_text_or_null(w, R_SCOPE, t, s->scope) &&
           put_text_or_null(w, R_OP, t, s->op) && put_text_or_null(w, R_THREAD_ROLE, t, s->role);
}

int tw_export_record(struct tw_parquet *w, struct tw_export_trace *t,
                     const struct twin_trace_record *r, struct twin_error *err)
{
    const struct twin_trace_info *info = twin_trace_info(t->trace);
    const struct twin_layout *y = twin_trace_layout(t->trace, r->layout);
    if (!put_series(w, t, twin_trace_series(t->trace, r->series)))
        return tw_no_memory(err, "for the names in %s", t->path);
    put(w, R_RUN, t->run);
    tw_parquet_int(w, R_RANK, info->rank);
    put(w, R_ROLE, t->role);
    tw_parquet_int(w, R_PID, info->pid);
    tw_parquet_int(w, R_STEP, r->step);
    tw_parquet_int(w, R_SEQ, r->seq);
    tw_parquet_int(w, R_THREAD, r->thread);
    put_count(w, R_TIME_NS, r->time_ns);
    tw_parquet_int(w, R_OCCURRENCE, r->occurrence);
    if (r->layout)
        put_layout(w, y);
    if (!(r->flags & TWIN_REC_UNOBSERVED)) {
        char hex[33];
        const struct twin_digest d = twin_trace_digest(r, y);
        put(w, R_DIGEST, tw_hex_128(d.a, d.b, hex));
    }
    if (r->flags & TWIN_REC_OFFSET)
        put_count(w, R_OFFSET, r->global_offset);
    if (r->flags & TWIN_REC_PART)
        put_count(w, R_WHOLE, r->whole);
    tw_parquet_bool(w, R_RECOMPUTED, r->flags & TWIN_REC_RECOMPUTED);
    tw_parquet_bool(w, R_UNORDERED, r->flags & TWIN_REC_UNORDERED);
    if (r->flags & TWIN_REC_STATS)
        put_statistics(w, &r->stats);
    return tw_parquet_row_end(w, err);
}

/* ---- steps */

enum step_column {
    S_RUN,
    S_RANK,
    S_ROLE,
    S_PID,
    S_STEP,
    S_RECORDS,
    S_DROPPED,
    S_VALUES,
    S_ORDER,
    S_PREFIX,
    S_ORDER_PREFIX,
    STEP_COLUMNS
};

const struct tw_parquet_column tw_export_step_columns[] = {
    [S_RUN] = {"run", TW_PARQUET_TEXT, false},
    [S_RANK] = {"rank", TW_PARQUET_INT32, false},
    [S_ROLE] = {"role", TW_PARQUET_TEXT, false},
    [S_PID] = {"pid", TW_PARQUET_INT64, false},
    [S_STEP] = {"step", TW_PARQUET_INT64, false},
    [S_RECORDS] = {"records", TW_PARQUET_INT64, false},
    [S_DROPPED] = {"dropped", TW_PARQUET_INT64, false},
    [S_VALUES] = {"value_digest", TW_PARQUET_TEXT, false},
    [S_ORDER] = {"order_digest", TW_PARQUET_TEXT, false},
    [S_PREFIX] = {"value_prefix", TW_PARQUET_TEXT, false},
    [S_ORDER_PREFIX] = {"order_prefix", TW_PARQUET_TEXT, false},
};
const size_t tw_export_step_column_count = STEP_COLUMNS;
_Static_assert(sizeof tw_export_step_columns / sizeof tw_export_step_columns[0] == STEP_COLUMNS,
               "each column of steps has a name and a type");

int tw_export_step(struct tw_parquet *w, const struct tw_export_trace *t,
                   const struct twin_step_hash *h, struct twin_error *err)
{
    const struct twin_trace_info *info = twin_trace_info(t->trace);
    const struct tw_hash128 values = tw_hash_bytes(h->phase, sizeof h->phase, h->records);
    char hex[33];
    put(w, S_RUN, t->run);
    tw_parquet_int(w, S_RANK, info->rank);
    put(w, S_ROLE, t->role);
    tw_parquet_int(w, S_PID, info->pid);
    tw_parquet_int(w, S_STEP, h->step);
    tw_parquet_int(w, S_RECORDS, h->records);
    tw_parquet_int(w, S_DROPPED, h->dropped);
    put(w, S_VALUES, tw_hex_128(values.a, values.b, hex));
    snprintf(hex, sizeof hex, "%016llx", (unsigned long long)h->order);
    put(w, S_ORDER, hex);
    put(w, S_PREFIX, tw_hex_128(h->prefix.hi, h->prefix.lo, hex));
    put(w, S_ORDER_PREFIX, tw_hex_128(h->order_prefix.hi, h->order_prefix.lo, hex));
    return tw_parquet_row_end(w, err);
}
