/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON Canonicalization Scheme (RFC 8785) over jansson's values: no space, keys in the order of
 * their UTF-16 code units, numbers as ECMAScript prints them.
 *
 * Numbers are the hard part: of the decimals that read back as a double the shortest is wanted, and
 * of the shortest the nearest. They are found by trying, which needs no tables: printf rounds
 * correctly and strtod reads correctly, so both together decide.
 */
#include "jcs.h"

#include "base.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 17 }; /* enough for every double */

/* ---- numbers */

/* p decimal digits, the value being 0.DIGITS * 10^point. */
struct decimal {
    char digit[DIGITS + 2];
    int count, point;
};

/* Is this decimal read as v? */
static bool reads_back(const struct decimal *d, double v)
{
    char text[DIGITS + 16];
    /* no decimal point: no locale */
    snprintf(text, sizeof text, "%.*se%d", d->count, d->digit, d->point - d->count);
    return strtod(text, NULL) == v;
}

/* The next decimal of as many digits, upwards or downwards. */
static void step_decimal(struct decimal *d, int by)
{
    const char over = by > 0 ? '9' : '0';
    const char under = by > 0 ? '0' : '9';
    int i = d->count - 1;
    while (i >= 0 && d->digit[i] == over)
        d->digit[i--] = under;
    if (i >= 0)
        d->digit[i] = (char)(d->digit[i] + by);
    if (by > 0 && i < 0) { /* 999 -> 1000: 100 and one place up */
        d->digit[0] = '1';
        d->point++;
    } else if (by < 0 && d->digit[0] == '0') { /* 100 -> 099: 999 one place down, but for the last
                                                  digit, which is lost */
        memmove(d->digit, d->digit + 1, (size_t)d->count - 1);
        d->digit[d->count - 1] = '9';
        d->point--;
    }
}

/* The shortest decimal that reads back as v > 0, the nearest of those. The nearest of p digits is
 * what printf gives; where it does not read back a neighbour may, since below a power of two the
 * doubles lie twice as close as above it. */
static void shortest_decimal(double v, struct decimal *d)
{
    for (int p = 1; p <= DIGITS; p++) {
        char text[DIGITS + 16];
        snprintf(text, sizeof text, "%.*e", p - 1, v);
        const char *e = strchr(text, 'e');
        d->count = 0;
        for (const char *c = text; c < e; c++)
            if (*c >= '0' && *c <= '9')
                d->digit[d->count++] = *c;
        d->point = atoi(e + 1) + 1;
        const struct decimal nearest = *d;
        if (reads_back(d, v))
            return;
        for (int by = -1; by <= 1; by += 2) {
            *d = nearest;
            step_decimal(d, by);
            if (reads_back(d, v))
                return;
        }
    }
}

/* The four forms of Number::toString: n places before the point, k digits. */
void tw_jcs_number(double v, char out[32])
{
    struct decimal d;
    char *o = out;
    if (v == 0) {
        strcpy(out, "0");
        return;
    }
    if (v < 0)
        *o++ = '-';
    shortest_decimal(fabs(v), &d);
    while (d.count > 1 && d.digit[d.count - 1] == '0')
        d.count--;
    const int k = d.count, n = d.point;
    if (k <= n && n <= 21)
        sprintf(o, "%.*s%.*s", k, d.digit, n - k, "000000000000000000000");
    else if (0 < n && n <= 21)
        sprintf(o, "%.*s.%.*s", n, d.digit, k - n, d.digit + n);
    else if (-6 < n && n <= 0)
        sprintf(o, "0.%.*s%.*s", -n, "000000", k, d.digit);
    else
        sprintf(o, "%.1s%s%.*se%+d", d.digit, k > 1 ? "." : "", k - 1, d.digit + 1, n - 1);
}

/* ---- strings */

/* A string with the escapes that RFC 8785 asks for, and no others. The loop runs once beyond the
 * end, so that the last stretch is written by the same lines. */
static void write_string(struct tw_buf *b, const char *s, size_t n)
{
    static const char *const named = "\b\t\n\f\r", *const letter = "btnfr";
    tw_buf_puts(b, "\"");
    for (size_t i = 0, from = 0; i <= n; i++) {
        const unsigned char c = i < n ? (unsigned char)s[i] : 0;
        if (i < n && c >= 0x20 && c != '"' && c != '\\')
            continue;
        tw_buf_append(b, s + from, i - from);
        from = i + 1;
        const char *at = c ? strchr(named, c) : NULL;
        if (i == n)
            break;
        if (at)
            tw_buf_printf(b, "\\%c", letter[at - named]);
        else if (c == '"' || c == '\\')
            tw_buf_printf(b, "\\%c", c);
        else
            tw_buf_printf(b, "\\u%04x", c);
    }
    tw_buf_puts(b, "\"");
}

/* Code point at s, which is valid UTF-8 (jansson's promise). */
static unsigned code_point(const char *s)
{
    const unsigned char *u = (const unsigned char *)s;
    if (u[0] < 0x80)
        return u[0];
    if (u[0] < 0xE0)
        return (u[0] & 0x1Fu) << 6 | (u[1] & 0x3Fu);
    if (u[0] < 0xF0)
        return (u[0] & 0x0Fu) << 12 | (u[1] & 0x3Fu) << 6 | (u[2] & 0x3Fu);
    return (u[0] & 0x07u) << 18 | (u[1] & 0x3Fu) << 12 | (u[2] & 0x3Fu) << 6 | (u[3] & 0x3Fu);
}

/* By UTF-16 code units. Those of code points from 0x10000 on begin with 0xD800 to 0xDBFF, and so
 * stand before 0xE000 to 0xFFFF. */
static int by_code_units(const void *x, const void *y)
{
    const char *a = *(const char *const *)x, *b = *(const char *const *)y;
    while (*a && *a == *b)
        a++, b++;
    /* back to the first byte of the character */
    while (((unsigned char)*a & 0xC0) == 0x80 || ((unsigned char)*b & 0xC0) == 0x80)
        a--, b--;
    unsigned u = code_point(a), v = code_point(b);
    if ((u >= 0x10000) != (v >= 0x10000)) {
        u = u >= 0x10000 ? 0xD800 : u;
        v = v >= 0x10000 ? 0xD800 : v;
    }
    return (u > v) - (u < v);
}

const char **tw_jcs_keys(const json_t *object, size_t *count)
{
    json_t *o = (json_t *)(uintptr_t)object, *value;
    const char *key, **list = tw_calloc(json_object_size(o) + 1, sizeof *list);
    *count = 0;
    if (!list)
        return NULL;
    json_object_foreach (o, key, value)
        list[(*count)++] = key;
    qsort(list, *count, sizeof *list, by_code_units);
    return list;
}

/* ---- values */

static int write_value(const json_t *value, struct tw_buf *b, int depth, struct twin_error *err);

static int write_object(const json_t *value, struct tw_buf *b, int depth, struct twin_error *err)
{
    size_t count;
    int rc = 0;
    const char **keys = tw_jcs_keys(value, &count);
    if (!keys)
        return tw_no_memory(err, "for the keys of a configuration");
    tw_buf_puts(b, "{");
    for (size_t i = 0; i < count && rc == 0; i++) {
        tw_buf_puts(b, i ? "," : "");
        write_string(b, keys[i], strlen(keys[i]));
        tw_buf_puts(b, ":");
        rc = write_value(json_object_get(value, keys[i]), b, depth, err);
    }
    tw_buf_puts(b, "}");
    tw_free(keys);
    return rc;
}

static int write_value(const json_t *value, struct tw_buf *b, int depth, struct twin_error *err)
{
    char number[32];
    int rc = 0;
    if (depth > TW_JCS_DEPTH)
        return twin_error_set(err, TWIN_ELIMIT, "values nested more than %d deep", TW_JCS_DEPTH);
    switch (json_typeof(value)) {
    case JSON_OBJECT: return write_object(value, b, depth + 1, err);
    case JSON_ARRAY:
        tw_buf_puts(b, "[");
        for (size_t i = 0; i < json_array_size(value) && rc == 0; i++) {
            tw_buf_puts(b, i ? "," : "");
            rc = write_value(json_array_get(value, i), b, depth + 1, err);
        }
        tw_buf_puts(b, "]");
        return rc;
    case JSON_STRING: write_string(b, json_string_value(value), json_string_length(value)); break;
    case JSON_INTEGER: tw_buf_printf(b, "%lld", (long long)json_integer_value(value)); break;
    case JSON_REAL:
        if (!isfinite(json_real_value(value)))
            return twin_error_set(err, TWIN_EFORMAT, "NaN and infinities have no canonical form");
        tw_jcs_number(json_real_value(value), number);
        tw_buf_puts(b, number);
        break;
    case JSON_TRUE: tw_buf_puts(b, "true"); break;
    case JSON_FALSE: tw_buf_puts(b, "false"); break;
    case JSON_NULL: tw_buf_puts(b, "null"); break;
    }
    return 0;
}

int tw_jcs_write(const json_t *value, struct tw_buf *out, struct twin_error *err)
{
    int rc = write_value(value, out, 0, err);
    if (rc == 0 && out->failed)
        rc = twin_error_set(err, out->failed,
                            "no memory for the canonical form of a configuration");
    return rc;
}
