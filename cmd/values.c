/* SPDX-License-Identifier: Apache-2.0 */
#include "values.h"

#include "runs.h"
#include "say.h"

#include "base.h"

#include <math.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <twin/run.h>
#include <twin/tensors.h>

enum { CHUNK = 1 << 16 };
#define MOST ((uint64_t)1 << 31) /* numbers that are held at a time */

/* ---- numbers */

static double from_half(uint16_t h)
{
    const int e = h >> 10 & 31, f = h & 1023;
    const double size = e == 31 ? (f ? NAN : INFINITY) : e ? ldexp(1024 + f, e - 25) : ldexp(f, -24);
    return h >> 15 ? -size : size;
}

static void convert(const void *from, enum twin_dtype dtype, size_t n, double *to)
{
    const uint16_t *half = from;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        float single;
        switch (dtype) {
        case TWIN_F64: to[i] = ((const double *)from)[i]; break;
        case TWIN_F32: to[i] = (double)((const float *)from)[i]; break;
        case TWIN_F16: to[i] = from_half(half[i]); break;
        default:
            bits = (uint32_t)half[i] << 16;
            memcpy(&single, &bits, 4);
            to[i] = (double)single;
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
    return !e->unreadable && (e->dtype == TWIN_F64 || e->dtype == TWIN_F32 || e->dtype == TWIN_F16 || e->dtype == TWIN_BF16);
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
            convert(room, e->dtype, n, to + at);
    }
    return rc;
}

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
    else if (e->dtype != v->dtype && twin_dtype_size(e->dtype) == 2 && twin_dtype_size(v->dtype) == 2)
        v->dtype = TWIN_F32; /* f16 and bf16 together */
    return 0;
}

static int nothing(const char *command, const char *path, struct twin_tensors *f, bool matched, const struct tw_strings *patterns)
{
    struct tw_buf names = {.cap = 400};
    for (size_t i = 0; i < twin_tensors_count(f) && !names.failed; i++)
        tw_buf_printf(&names, "%s%s", i ? ", " : "", twin_tensors_at(f, i)->name);
    char *safe = tw_printable(names.data ? names.data : "", names.len);
    if (patterns->count && !matched)
        tw_say("%s: no tensor of %s is called %s; it has: %s%s", command, path, patterns->items[0], safe ? safe : "", names.failed ? "..." : "");
    else
        tw_say("%s: expected tensors of f64, f32, f16 or bf16 in %s, found none (%zu of other types)", command, path, twin_tensors_count(f));
    tw_free(safe);
    tw_buf_free(&names);
    return TW_EXIT_TROUBLE;
}

static int load(const char *command, const char *path, struct twin_tensors *f, const struct tw_strings *patterns, struct tw_values *v)
{
    struct twin_error err = TWIN_ERROR_INIT;
    bool matched = false;
    int rc = 0;
    const size_t count = twin_tensors_count(f);
    bool *taken = tw_calloc(count + 1, sizeof *taken);
    for (size_t i = 0; taken && rc == 0 && i < count; i++) {
        const struct twin_tensors_entry *e = twin_tensors_at(f, i);
        if (!is_wanted(e, patterns))
            continue;
        matched = true;
        taken[i] = is_number(e) && e->count > 0 && (e->alias_of == i || !taken[e->alias_of]);
        if (!taken[i])
            v->left_out++;
        else if (e->count > MOST || v->n > MOST - e->count)
            rc = twin_error_set(&err, TWIN_ELIMIT, "more than %llu numbers; choose tensors with --tensor", (unsigned long long)MOST);
        else
            rc = note_tensor(v, e);
    }
    v->x = rc == 0 && taken ? tw_malloc(v->n * sizeof *v->x + 1) : NULL;
    if (rc == 0 && !v->x)
        rc = twin_error_set(&err, TWIN_ENOMEM, "no memory for %llu numbers", (unsigned long long)v->n);
    for (size_t i = 0, k = 0; rc == 0 && i < count; i++)
        if (taken[i])
            rc = read_tensor(f, i, v->x + v->tensor[k++].first, &err);
    tw_free(taken);
    if (rc != 0)
        return tw_trouble(&err, "%s: cannot read %s", command, path);
    return v->n ? -1 : nothing(command, path, f, matched, patterns);
}

int tw_values_load(const char *command, const char *path, const struct tw_strings *patterns, struct tw_values *out)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_tensors *f;
    *out = (struct tw_values){0};
    if (twin_tensors_open(path, &f, &err) != 0)
        return tw_trouble(&err, "%s", command);
    int rc = load(command, path, f, patterns, out);
    twin_tensors_close(f);
    if (rc >= 0)
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

/* ---- runs */

static bool is_the_runs(const char *path, const char *expected)
{
    unsigned char digest[EVP_MAX_MD_SIZE], buffer[CHUNK];
    unsigned length = 0;
    char hex[2 * EVP_MAX_MD_SIZE + 1] = "";
    FILE *f = fopen(path, "rbe");
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    bool ok = f && md && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1;
    for (size_t n; ok && (n = fread(buffer, 1, sizeof buffer, f)) > 0;)
        ok = EVP_DigestUpdate(md, buffer, n) == 1;
    ok = ok && !ferror(f) && EVP_DigestFinal_ex(md, digest, &length) == 1;
    if (ok)
        tw_hex(digest, length, hex);
    EVP_MD_CTX_free(md);
    if (f)
        fclose(f);
    return ok && strcmp(hex, expected) == 0;
}

static bool is_tensor_file(const char *path)
{
    struct twin_tensors *f;
    if (twin_tensors_open(path, &f, NULL) != 0)
        return false;
    twin_tensors_close(f);
    return true;
}

/* Of the files that the run wrote: those of tensors that are still as it left them. */
static char *file_of(const char *command, const struct twin_run *r)
{
    struct tw_buf list = {.cap = 2000};
    char *found = NULL;
    size_t count = 0, changed = 0;
    for (size_t i = 0; i < r->file_count; i++) {
        char *path = tw_path_join(r->cwd, r->files[i].path);
        if (path && is_tensor_file(path)) {
            if (!is_the_runs(path, r->files[i].sha256)) {
                changed++;
            } else {
                if (count++ == 0)
                    found = tw_strdup(path);
                char *safe = tw_printable(path, strlen(path));
                tw_buf_printf(&list, "    twinrun %s %s\n", command, safe ? safe : "?");
                tw_free(safe);
            }
        }
        tw_free(path);
    }
    if (count != 1) {
        tw_free(found);
        found = NULL;
    }
    if (count > 1) {
        tw_say("%s: the run wrote %zu files of tensors; one of them, or all in one command when each is one rank's gradient:",
               command, count);
        tw_put_lines(stderr, list.data ? list.data : "");
    } else if (count == 0 && changed) {
        tw_say("%s: the %zu file%s of tensors that the run wrote %s no longer as it left %s (a later run writes to the same place; see --fresh-dir)", command,
               changed, changed == 1 ? "" : "s", changed == 1 ? "is" : "are", changed == 1 ? "it" : "them");
    } else if (count == 0) {
        tw_say("%s: a run keeps fingerprints, not values. Let the job write what is to be added up, for instance\n"
               "    torch.save({n: p.grad for n, p in model.named_parameters()}, f\"grads-{rank}.pt\")\n"
               "and give that file, or the run", command);
    }
    tw_buf_free(&list);
    return found;
}

char *tw_values_path(const char *command, const char *operand, const char *home)
{
    struct stat st;
    if (stat(operand, &st) == 0 && !S_ISDIR(st.st_mode))
        return tw_strdup(operand);
    const bool could_be_file = strchr(operand, '.') && stat(operand, &st) != 0;
    if (could_be_file) { /* a name with a dot that is not there is a file that is not there */
        tw_say("%s: %s: no such file", command, operand);
        return NULL;
    }
    char *named = tw_home(home), *path = NULL;
    struct twin_run *r = named ? tw_run_open(named, operand) : NULL;
    if (r)
        path = file_of(command, r);
    twin_run_free(r);
    tw_free(named);
    return path;
}

/* ---- words */

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

int tw_parse_time(const char *s, double *seconds)
{
    static const struct { const char *unit; double s; } units[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
    char *end;
    const double v = strtod(s, &end);
    if (end == s || !isfinite(v) || v < 0)
        return TWIN_EINVAL;
    while (*end == ' ')
        end++;
    if (!*end && v == 0) {
        *seconds = 0;
        return 0;
    }
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(end, units[i].unit) == 0) {
            *seconds = v * units[i].s;
            return 0;
        }
    return TWIN_EINVAL;
}

char *tw_shortest(double x, char out[40])
{
    const bool single = (double)(float)x == x;
    for (int digits = single ? 6 : 15; digits <= 17; digits++) {
        snprintf(out, 40, "%.*g", digits, x);
        if (single ? strtof(out, NULL) == (float)x : strtod(out, NULL) == x)
            break;
    }
    return out;
}

char *tw_human_time(double s, char out[24])
{
    if (s < 1e-6)
        snprintf(out, 24, "%.3g ns", s * 1e9);
    else if (s < 1e-3)
        snprintf(out, 24, "%.3g us", s * 1e6);
    else if (s < 1)
        snprintf(out, 24, "%.3g ms", s * 1e3);
    else
        snprintf(out, 24, "%.4g s", s);
    return out;
}
