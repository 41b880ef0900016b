/* SPDX-License-Identifier: Apache-2.0 */
/* Curves that `twinrun import` wrote: read, held against each other number by number, and how far
 * they lie apart. */
#include "curves.h"

#include "base.h"
#include "json_load.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of a file: as much as `twinrun import` writes at most. */
#define FILE_MAX ((size_t)1 << 30)

/* ---- reading */

void tw_curves_free(struct tw_curves *c)
{
    for (size_t i = 0; i < c->runs; i++) {
        struct tw_curve *r = &c->run[i];
        tw_free(r->name);
        tw_free(r->left_out);
        tw_free(r->ended);
        tw_free(r->step);
        tw_free(r->y);
    }
    tw_free(c->run);
    tw_free(c->path);
    tw_free(c->source);
    tw_free(c->metric);
    tw_free(c->take);
    tw_free(c->unknown);
    *c = (struct tw_curves){.runs = 0};
}

static bool is_curves(const json_t *file)
{
    const char *schema = json_string_value(json_object_get(file, "schema"));
    return schema && strcmp(schema, "twinrun.curves/1") == 0 &&
           json_is_array(json_object_get(file, "runs")) &&
           json_is_string(json_object_get(file, "metric")) &&
           json_is_string(json_object_get(file, "take")) &&
           json_is_string(json_object_get(file, "source"));
}

/* A copy of a member that is a text; NULL where it is none. False: no memory. */
static bool copy_text(const json_t *object, const char *key, char **out)
{
    const char *text = json_string_value(json_object_get(object, key));
    *out = text ? tw_strdup(text) : NULL;
    return !text || *out;
}

static char *unknown_of(const json_t *file)
{
    struct tw_buf b = {0};
    size_t i;
    json_t *item;
    json_array_foreach (json_object_get(file, "unknown"), i, item)
        tw_buf_print_safe(&b, "%s%s", i ? ", " : "",
                          json_is_string(item) ? json_string_value(item) : "?");
    return tw_buf_steal(&b);
}

/* A number, or the word for one that JSON has none for. */
static bool read_y(const json_t *v, double *out)
{
    const char *word = json_string_value(v);
    if (json_is_number(v))
        *out = json_number_value(v);
    else if (word && strcmp(word, "nan") == 0)
        *out = NAN;
    else if (word && strcmp(word, "inf") == 0)
        *out = INFINITY;
    else if (word && strcmp(word, "-inf") == 0)
        *out = -INFINITY;
    else
        return false;
    return true;
}

/* A point while points are sorted; at: its place in the file. */
struct point {
    int64_t step;
    size_t at;
    double y;
};

static int by_step(const void *a, const void *b)
{
    const struct point *x = a, *y = b;
    if (x->step != y->step)
        return (x->step > y->step) - (x->step < y->step);
    return (x->at > y->at) - (x->at < y->at);
}

static int read_points(const json_t *list, struct tw_curve *r, const char *path, size_t run,
                       struct twin_error *err)
{
    const size_t n = json_array_size(list);
    struct point *p = tw_calloc(n + 1, sizeof *p);
    r->step = tw_calloc(n + 1, sizeof *r->step);
    r->y = tw_calloc(n + 1, sizeof *r->y);
    int rc = p && r->step && r->y ? 0 : tw_no_memory(err, "for %zu points", n);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const json_t *point = json_array_get(list, i), *step = json_array_get(point, 0);
        if (json_array_size(point) != 2 || !json_is_integer(step) ||
            !read_y(json_array_get(point, 1), &p[i].y))
            rc = twin_error_set(err, TWIN_EFORMAT, "%s: run %zu, point %zu: expected [step, value]",
                                path, run + 1, i + 1);
        p[i].step = json_integer_value(step);
        p[i].at = i;
    }
    if (rc == 0)
        qsort(p, n, sizeof *p, by_step);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        r->step[i] = p[i].step;
        r->y[i] = p[i].y;
    }
    r->points = rc == 0 ? n : 0;
    tw_free(p);
    return rc;
}

static int read_run(const json_t *run, struct tw_curve *r, const char *path, size_t at,
                    struct twin_error *err)
{
    const json_t *value = json_object_get(run, "value");
    r->value = NAN;
    if (!copy_text(run, "name", &r->name) || !copy_text(run, "left_out", &r->left_out) ||
        !copy_text(run, "ended", &r->ended))
        return tw_no_memory(err, "for what a file says");
    if (!r->name || (!r->left_out && !json_is_number(value)))
        return twin_error_set(err, TWIN_EFORMAT,
                              "%s: run %zu: expected a name and a value, or why it was left out",
                              path, at + 1);
    if (!r->left_out)
        r->value = json_number_value(value);
    return read_points(json_object_get(run, "points"), r, path, at, err);
}

int tw_curves_parse(const char *path, const char *text, size_t bytes, struct tw_curves *out,
                    struct twin_error *err)
{
    json_error_t e;
    json_t *file = tw_json_load(text, bytes, JSON_REJECT_DUPLICATES, &e);
    const json_t *runs = json_object_get(file, "runs");
    const size_t n = json_array_size(runs);
    int rc = 0;
    *out = (struct tw_curves){.runs = 0};
    if (!is_curves(file))
        rc = twin_error_set(err, TWIN_EFORMAT,
                            "%s: expected curves that `twinrun import` wrote "
                            "(schema twinrun.curves/1)",
                            path);
    else if (!(out->path = tw_strdup(path)) || !copy_text(file, "source", &out->source) ||
             !copy_text(file, "metric", &out->metric) || !copy_text(file, "take", &out->take) ||
             !(out->unknown = unknown_of(file)) || !(out->run = tw_calloc(n + 1, sizeof *out->run)))
        rc = tw_no_memory(err, "for what a file says");
    for (size_t i = 0; rc == 0 && i < n; i++) {
        out->runs = i + 1;
        rc = read_run(json_array_get(runs, i), &out->run[i], path, i, err);
    }
    json_decref(file);
    return rc;
}

int tw_curves_read(const char *path, struct tw_curves *out, struct twin_error *err)
{
    char *text = NULL;
    size_t n = 0;
    *out = (struct tw_curves){.runs = 0};
    int rc = tw_read_file(path, FILE_MAX, &text, &n, err);
    rc = rc ? rc : tw_curves_parse(path, text, n, out, err);
    tw_free(text);
    return rc;
}

char *tw_curves_words(const struct tw_curves *c)
{
    struct tw_buf b = {0};
    tw_buf_print_safe(&b, "%s: %s %s of each run in %s, which twinrun did not record; not known: ",
                      c->path, c->take, c->metric, c->source);
    tw_buf_puts(&b, c->unknown); /* printable already */
    return tw_buf_steal(&b);
}

/* ---- one beside the other */

/* The same number: a NaN is one, and -0 is not 0. */
static bool is_same_number(double a, double b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    return a == b && signbit(a) == signbit(b);
}

void tw_curves_compare(const struct tw_curve *a, const struct tw_curve *b,
                       struct tw_curves_beside *out)
{
    size_t i = 0, k = 0;
    *out = (struct tw_curves_beside){.common = 0};
    while (i < a->points && k < b->points) {
        assert((i == 0 || a->step[i - 1] <= a->step[i]) &&
               (k == 0 || b->step[k - 1] <= b->step[k]));
        if (a->step[i] < b->step[k]) {
            out->only_a++;
            i++;
        } else if (a->step[i] > b->step[k]) {
            out->only_b++;
            k++;
        } else {
            if (!out->differ && !is_same_number(a->y[i], b->y[k])) {
                out->differ = true;
                out->step = a->step[i];
                out->a = a->y[i];
                out->b = b->y[k];
            }
            out->common++;
            i++;
            k++;
        }
    }
    out->only_a += a->points - i;
    out->only_b += b->points - k;
}

bool tw_curves_equal_numbers(const struct tw_curves_beside *x)
{
    return x->common > 0 && !x->differ && !x->only_a && !x->only_b;
}

/* ---- all of them */

/* Steps that all runs have so far, with the lowest and highest last value there. */
struct shared {
    int64_t step;
    double low, high;
};

/* The last point of the step that i is of. */
static size_t last_of_step(const struct tw_curve *r, size_t i)
{
    while (i + 1 < r->points && r->step[i + 1] == r->step[i])
        i++;
    return i;
}

/* Keeps of s what r has, too. Returns how many. */
static size_t keep_shared(struct shared *s, size_t n, const struct tw_curve *r)
{
    size_t kept = 0, at = 0;
    for (size_t i = 0; i < n; i++) {
        while (at < r->points && r->step[at] < s[i].step)
            at++;
        if (at == r->points || r->step[at] != s[i].step)
            continue;
        const double y = r->y[last_of_step(r, at)];
        s[kept] = s[i];
        /* NaN stays: then nothing is said of this step */
        s[kept].low = isnan(y) || y < s[kept].low ? y : s[kept].low;
        s[kept].high = isnan(y) || y > s[kept].high ? y : s[kept].high;
        kept++;
    }
    return kept;
}

/* The steps of one run. Returns how many. */
static size_t begin_shared(struct shared *s, const struct tw_curve *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->points; i++) {
        i = last_of_step(r, i);
        s[n++] = (struct shared){r->step[i], r->y[i], r->y[i]};
    }
    return n;
}

static void set_steps(const struct shared *s, size_t n, struct tw_curves_noise *out)
{
    out->steps = n;
    out->first_apart = out->last_apart = NAN;
    if (n) {
        out->first_step = s[0].step;
        out->last_step = s[n - 1].step;
        out->first_apart = s[0].high - s[0].low;
        out->last_apart = s[n - 1].high - s[n - 1].low;
    }
}

static void set_values(const struct tw_curves *c, struct tw_curves_noise *out)
{
    double sum = 0, squares = 0;
    out->low = INFINITY;
    out->high = -INFINITY;
    for (size_t i = 0; i < c->runs; i++) {
        const double v = c->run[i].value;
        if (isnan(v))
            continue;
        out->values++;
        sum += v;
        out->low = v < out->low ? v : out->low;
        out->high = v > out->high ? v : out->high;
    }
    out->mean = sum / (double)out->values;
    for (size_t i = 0; i < c->runs; i++) {
        const double d = c->run[i].value - out->mean;
        squares += isnan(d) ? 0 : d * d;
    }
    out->sd = out->values > 1 ? sqrt(squares / (double)(out->values - 1)) : NAN;
}

int tw_curves_noise(const struct tw_curves *c, struct tw_curves_noise *out, struct twin_error *err)
{
    struct shared *s = NULL;
    size_t n = 0;
    *out = (struct tw_curves_noise){.values = 0};
    for (size_t i = 0; i < c->runs; i++) {
        const struct tw_curve *r = &c->run[i];
        if (!r->points || isnan(r->value))
            continue;
        if (s) {
            n = keep_shared(s, n, r);
            continue;
        }
        s = tw_calloc(r->points, sizeof *s);
        if (!s)
            return tw_no_memory(err, "for %zu points", r->points);
        n = begin_shared(s, r);
    }
    set_steps(s, n, out);
    set_values(c, out);
    tw_free(s);
    return 0;
}
