/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON without the order of its keys. The members of an object have no order, and programs that
 * make one from a set write another order in each run. Here they are sorted by their keys.
 * Everything else stays as it was written, digit by digit: what stands between the members, and the
 * lines that they stand on, so that the lines of two files can be compared afterwards as those of
 * any text.
 */
#include "internal.h"
#include "printed.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Deeper nesting is no result of a job: it would fill the stack. */
enum { DEPTH_MAX = 100 };

/* The reading of one text, from `at` to `stop`. */
struct reader {
    const char *at, *stop;
    size_t depth;
    bool compact; /* without the blanks between the values */
    bool oom;
};

/* A piece of the text. */
struct slice {
    const char *p;
    size_t n;
};

/* A member of an object, with its value already sorted inside. */
struct member {
    struct slice key;
    struct tw_buf text; /* from the key's first quote to the end of the value */
    size_t index;
};

/* The members of one object. */
struct members {
    struct member *m;
    struct slice (*gap)[2]; /* what stands before and behind each, which keeps its place */
    size_t n, room, gap_room;
};

static bool read_value(struct reader *r, struct tw_buf *out);

/* Appends n bytes as they are. */
static void put_bytes(struct reader *r, struct tw_buf *out, const char *p, size_t n)
{
    r->oom |= tw_buf_append(out, p, n) != 0;
}

/* The blanks that stand here. A compact text has none, so they are read and not handed on. */
static struct slice read_blanks(struct reader *r)
{
    struct slice blanks = {r->at, 0};
    while (r->at < r->stop && strchr(" \t\r\n", *r->at) && *r->at)
        r->at++;
    blanks.n = r->compact ? 0 : (size_t)(r->at - blanks.p);
    return blanks;
}

/* Is the next character this one? Then it is read. */
static bool read_char(struct reader *r, char ch)
{
    if (r->at == r->stop || *r->at != ch)
        return false;
    r->at++;
    return true;
}

/* A string with its quotes, as it was written. False: none stands here, or it does not end. */
static bool read_string(struct reader *r, struct slice *out)
{
    out->p = r->at;
    if (!read_char(r, '"'))
        return false;
    while (r->at < r->stop && *r->at != '"') {
        r->at += *r->at == '\\' && r->at + 1 < r->stop;
        r->at++;
    }
    if (!read_char(r, '"'))
        return false;
    out->n = (size_t)(r->at - out->p);
    return true;
}

/* A number or a word: true, null, and NaN and Infinity as Python writes them. */
static bool read_plain(struct reader *r, struct slice *out)
{
    out->p = r->at;
    while (r->at < r->stop && (isalnum((unsigned char)*r->at) || strchr("+-.", *r->at)) && *r->at)
        r->at++;
    out->n = (size_t)(r->at - out->p);
    return out->n > 0;
}

/* The rest of an array behind its '[', whose values keep their order. */
static bool read_array(struct reader *r, struct tw_buf *out)
{
    bool more = true, empty = true;
    put_bytes(r, out, "[", 1);
    while (more) {
        struct slice blanks = read_blanks(r);
        put_bytes(r, out, blanks.p, blanks.n);
        if (empty && r->at < r->stop && *r->at == ']')
            break;
        empty = false;
        if (!read_value(r, out))
            return false;
        blanks = read_blanks(r);
        put_bytes(r, out, blanks.p, blanks.n);
        more = read_char(r, ',');
        if (more)
            put_bytes(r, out, ",", 1);
    }
    put_bytes(r, out, "]", 1);
    return read_char(r, ']');
}

/* Makes room for one more. False: no memory. */
static bool room_for_member(struct reader *r, struct members *m)
{
    if (m->n < m->room)
        return true;
    size_t room = m->room ? 2 * m->room : 8;
    struct member *grown = tw_reallocarray(m->m, room, sizeof *grown);
    if (grown)
        m->m = grown;
    struct slice(*gap)[2] = grown ? tw_reallocarray(m->gap, room, sizeof *gap) : NULL;
    r->oom |= !gap;
    if (!gap)
        return false;
    m->gap = gap;
    m->room = room;
    return true;
}

/* All members of an object, up to its '}'. */
static bool read_members(struct reader *r, struct members *m)
{
    for (bool more = true; more; more = read_char(r, ',')) {
        struct slice before = read_blanks(r);
        if (!room_for_member(r, m))
            return false;
        struct member *next = &m->m[m->n];
        *next = (struct member){.index = m->n};
        m->gap[m->n][0] = before;
        m->n++;
        if (!read_string(r, &next->key))
            return false;
        put_bytes(r, &next->text, next->key.p, next->key.n);
        struct slice blanks = read_blanks(r);
        put_bytes(r, &next->text, blanks.p, blanks.n);
        if (!read_char(r, ':'))
            return false;
        put_bytes(r, &next->text, ":", 1);
        blanks = read_blanks(r);
        put_bytes(r, &next->text, blanks.p, blanks.n);
        if (!read_value(r, &next->text))
            return false;
        m->gap[m->n - 1][1] = read_blanks(r);
    }
    return true;
}

/* Members of one key stay in their order: the last of them is what a reader takes. */
static int by_key(const void *x, const void *y)
{
    const struct member *a = x, *b = y;
    int order = memcmp(a->key.p, b->key.p, a->key.n < b->key.n ? a->key.n : b->key.n);
    if (order == 0)
        order = (a->key.n > b->key.n) - (a->key.n < b->key.n);
    if (order == 0)
        order = a->index < b->index ? -1 : 1;
    return order;
}

/* The rest of an object behind its '{'. The members change places; the blanks before and behind
 * each place stay, so that the text keeps its lines. */
static bool read_object(struct reader *r, struct tw_buf *out)
{
    struct members m = {0};
    const char *inside = r->at;
    struct slice blanks = read_blanks(r);
    bool ok = true, empty = r->at < r->stop && *r->at == '}';
    put_bytes(r, out, "{", 1);
    if (empty) {
        put_bytes(r, out, blanks.p, blanks.n);
    } else {
        r->at = inside;
        ok = read_members(r, &m);
    }
    if (ok && m.n > 1)
        qsort(m.m, m.n, sizeof *m.m, by_key);
    for (size_t i = 0; i < m.n; i++) {
        if (ok && i > 0)
            put_bytes(r, out, ",", 1);
        if (ok) {
            put_bytes(r, out, m.gap[i][0].p, m.gap[i][0].n);
            put_bytes(r, out, m.m[i].text.data, m.m[i].text.len);
            put_bytes(r, out, m.gap[i][1].p, m.gap[i][1].n);
        }
        tw_buf_free(&m.m[i].text);
    }
    tw_free(m.m);
    tw_free(m.gap);
    put_bytes(r, out, "}", 1);
    return ok && !r->oom && read_char(r, '}');
}

/* Any value. False: none stands here, or it is nested too deep. */
static bool read_value(struct reader *r, struct tw_buf *out)
{
    struct slice text;
    bool ok;
    if (r->at == r->stop || r->depth == DEPTH_MAX || r->oom)
        return false;
    r->depth++;
    if (read_char(r, '{')) {
        ok = read_object(r, out);
    } else if (read_char(r, '[')) {
        ok = read_array(r, out);
    } else {
        ok = *r->at == '"' ? read_string(r, &text) : read_plain(r, &text);
        if (ok)
            put_bytes(r, out, text.p, text.n);
    }
    r->depth--;
    return ok;
}

int tw_json_sorted(const char *text, size_t n, bool compact, char **sorted, size_t *length)
{
    struct reader r = {.at = text, .stop = text + n, .compact = compact};
    struct tw_buf out = {0};
    bool ok = true;
    *sorted = NULL;
    tw_buf_puts(&out, "");
    while (ok) { /* one value, or one on each line */
        const char *from = r.at;
        struct slice blanks = read_blanks(&r);
        put_bytes(&r, &out, compact ? "\n" : blanks.p, compact ? 1 : blanks.n);
        if (r.at == r.stop)
            break;
        ok = (from == text || r.at > from) && read_value(&r, &out);
    }
    *length = out.len;
    if (ok && !r.oom)
        *sorted = tw_buf_steal(&out);
    tw_buf_free(&out);
    return r.oom || (ok && !*sorted) ? TWIN_ENOMEM : 0;
}
