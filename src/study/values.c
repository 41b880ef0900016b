/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floating-point numbers of a file of tensors, as doubles, for the studies that add them up.
 * Formats are those of src/formats (src/formats/tensors.h). Two passes: the first chooses tensors
 * and counts numbers, the second reads.
 */
#include "values.h"

#include "base.h"

#include "src/fingerprint/convert.h"
#include "src/formats/tensors.h"

#include <math.h>
#include <string.h>

/* numbers that are read at a time: half a MiB as doubles */
enum { CHUNK = 1 << 16 };
#define MOST ((uint64_t)1 << 31) /* numbers that are held at a time */

/* What is to be read, for whom. */
struct values_asked {
    const struct tw_front *front;
    const char *command, *path;
    const struct tw_strings *patterns;
};

/* ---- numbers */

static void convert_values(const void *from, enum twin_dtype dtype, size_t n, double *to)
{
    for (size_t i = 0; i < n; i++) {
        switch (dtype) {
        case TWIN_F64: to[i] = tw_load_f64(from, i); break;
        case TWIN_F32: to[i] = tw_load_f32(from, i); break;
        case TWIN_F16: to[i] = tw_load_f16(from, i); break;
        default: to[i] = tw_load_bf16(from, i);
        }
    }
}

static bool is_wanted(const struct twin_tensors_entry *e, const struct tw_strings *patterns)
{
    for (size_t i = 0; i < patterns->count; i++)
        if (strcmp(patterns->items[i], e->name) == 0 || tw_glob(patterns->items[i], e->name))
            return true;
    return patterns->count == 0;
}

static bool is_number(const struct twin_tensors_entry *e)
{
    return !e->unreadable && (e->dtype == TWIN_F64 || e->dtype == TWIN_F32 ||
                              e->dtype == TWIN_F16 || e->dtype == TWIN_BF16);
}

static int read_tensor(struct twin_tensors *f, size_t i, double *to, struct twin_error *err)
{
    const struct twin_tensors_entry *e = twin_tensors_at(f, i);
    double room[CHUNK]; /* aligned for every type */
    int rc = 0;
    for (uint64_t at = 0; rc == 0 && at < e->count; at += CHUNK) {
        const uint64_t n = e->count - at < CHUNK ? e->count - at : CHUNK;
        rc = twin_tensors_read(f, i, at, n, room, err);
        if (rc == 0)
            convert_values(room, e->dtype, n, to + at);
    }
    return rc;
}

/* Adds a tensor to those that are taken. The type of all is the widest of them. */
static int note_tensor(struct tw_values *v, const struct twin_tensors_entry *e)
{
    struct tw_value_tensor *grown = tw_reallocarray(v->tensor, v->tensors + 1, sizeof *grown);
    if (!grown)
        return TWIN_ENOMEM;
    v->tensor = grown;
    struct tw_value_tensor *t = &grown[v->tensors];
    *t = (struct tw_value_tensor){tw_printable(e->name, strlen(e->name)), e->dtype, v->n, e->count};
    if (!t->name)
        return TWIN_ENOMEM;
    v->tensors++;
    v->n += e->count;
    if (v->tensors == 1 || twin_dtype_size(e->dtype) > twin_dtype_size(v->dtype))
        v->dtype = e->dtype;
    else if (e->dtype != v->dtype && twin_dtype_size(e->dtype) == 2 &&
             twin_dtype_size(v->dtype) == 2)
        v->dtype = TWIN_F32; /* f16 and bf16 together */
    return 0;
}

/* Says why no tensor of the file is taken. */
static int say_nothing(const struct values_asked *asked, struct twin_tensors *f, bool matched)
{
    const char *command = asked->command, *path = asked->path;
    const struct tw_strings *patterns = asked->patterns;
    struct tw_buf names = {.cap = 400};
    for (size_t i = 0; i < twin_tensors_count(f) && !names.failed; i++)
        tw_buf_printf(&names, "%s%s", i ? ", " : "", twin_tensors_at(f, i)->name);
    char *safe = tw_printable(names.data ? names.data : "", names.len);
    if (patterns->count && !matched)
        tw_front_say(asked->front, "%s: no tensor of %s is called %s; it has: %s%s", command, path,
                     patterns->items[0], safe ? safe : "", names.failed ? "..." : "");
    else
        tw_front_say(
            asked->front,
            "%s: expected tensors of f64, f32, f16 or bf16 in %s, found none (%zu of other types)",
            command, path, twin_tensors_count(f));
    tw_free(safe);
    tw_buf_free(&names);
    return TWIN_EINVAL;
}

static int load_values(const struct values_asked *asked, struct twin_tensors *f,
                       struct tw_values *v)
{
    struct twin_error err = TWIN_ERROR_INIT;
    bool matched = false;
    int rc = 0;
    const size_t count = twin_tensors_count(f);
    bool *taken = tw_calloc(count + 1, sizeof *taken);
    for (size_t i = 0; taken && rc == 0 && i < count; i++) {
        const struct twin_tensors_entry *e = twin_tensors_at(f, i);
        if (!is_wanted(e, asked->patterns))
            continue;
        matched = true;
        /* One memory is taken once: an alias of a tensor that was taken is left out. */
        taken[i] = is_number(e) && e->count > 0 && (e->alias_of == i || !taken[e->alias_of]);
        if (!taken[i])
            v->left_out++;
        else if (e->count > MOST || v->n > MOST - e->count)
            rc = twin_error_set(&err, TWIN_ELIMIT,
                                "more than %llu numbers; choose tensors with --tensor",
                                (unsigned long long)MOST);
        else
            rc = note_tensor(v, e);
    }
    v->x = rc == 0 && taken ? tw_malloc(v->n * sizeof *v->x + 1) : NULL;
    if (rc == 0 && !v->x)
        rc = tw_no_memory(&err, "for %llu numbers", (unsigned long long)v->n);
    for (size_t i = 0, k = 0; rc == 0 && i < count; i++)
        if (taken[i])
            rc = read_tensor(f, i, v->x + v->tensor[k++].first, &err);
    tw_free(taken);
    if (rc != 0) {
        tw_front_trouble(asked->front, &err, "%s: cannot read %s", asked->command, asked->path);
        return rc;
    }
    return v->n ? 0 : say_nothing(asked, f, matched);
}

int tw_values_load(const struct tw_front *front, const char *command, const char *path,
                   const struct tw_strings *patterns, struct tw_values *out)
{
    const struct values_asked asked = {front, command, path, patterns};
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_tensors *f;
    *out = (struct tw_values){0};
    int rc = twin_tensors_open(path, &f, &err);
    if (rc != 0) {
        tw_front_trouble(front, &err, "%s", command);
        return rc;
    }
    rc = load_values(&asked, f, out);
    twin_tensors_close(f);
    if (rc != 0)
        tw_values_free(out);
    return rc;
}

void tw_values_free(struct tw_values *v)
{
    for (size_t i = 0; i < v->tensors; i++)
        tw_free(v->tensor[i].name);
    tw_free(v->tensor);
    tw_free(v->x);
    *v = (struct tw_values){0};
}

int tw_values_type(const char *s, enum twin_dtype *out)
{
    static const enum twin_dtype types[] = {TWIN_F64, TWIN_F32, TWIN_F16, TWIN_BF16};
    for (size_t i = 0; i < 4; i++)
        if (strcmp(s, twin_dtype_name(types[i])) == 0) {
            *out = types[i];
            return 0;
        }
    return TWIN_EINVAL;
}
