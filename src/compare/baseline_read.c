/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a baseline. It comes out of a repository, so out of anybody's hands: every number is
 * checked before it is used, and steps must follow each other without a hole. The reader goes
 * through the file from its head (who made it, of which command) over the names to the processes;
 * the first thing that is wrong is named, with the place where it stands. */
#include "baseline_inside.h"

#include "json_load.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

/* The reading of one file: whom to blame, what was read so far, and where to say what is wrong. */
struct reading {
    const char *path;
    struct twin_baseline *b;
    struct twin_error *err;
};

/* Says what is wrong with the file, and how to get a good one. Returns TWIN_EFORMAT. What the file
 * itself says is made printable: it may hold bytes that a terminal would obey. */
static int not_a_baseline(const struct reading *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static int not_a_baseline(const struct reading *r, const char *format, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    char *safe = tw_printable(text, strlen(text));
    twin_error_set(
        r->err, TWIN_EFORMAT,
        "%s is not a baseline: %s; make it again: twinrun check --save-baseline FILE -- COMMAND",
        r->path, safe ? safe : "");
    tw_free(safe);
    return TWIN_EFORMAT;
}

/* A whole number of 0 to max; false for anything else, such as 1.5 or "1". */
static bool whole_number(const json_t *j, uint64_t max, uint64_t *out)
{
    if (!json_is_integer(j) || json_integer_value(j) < 0 || (uint64_t)json_integer_value(j) > max)
        return false;
    *out = (uint64_t)json_integer_value(j);
    return true;
}

/* A string, or {"hex": "..."}: bytes. malloc'ed; NULL: neither. */
static char *text_of(const json_t *j)
{
    if (json_is_string(j))
        return tw_strdup(json_string_value(j));
    const char *hex = json_string_value(json_object_get(j, "hex"));
    size_t n = hex ? strlen(hex) : 0;
    char *s = hex && n % 2 == 0 ? tw_malloc(n / 2 + 1) : NULL;
    if (!s)
        return NULL;
    s[n / 2] = '\0';
    if (tw_unhex(hex, n / 2, s) && strlen(s) == n / 2)
        return s;
    tw_free(s);
    return NULL;
}

/* A text of the object `root`, by its key. *out belongs to the baseline. */
static int field_text(const struct reading *r, const json_t *root, const char *key, char **out)
{
    *out = text_of(json_object_get(root, key));
    return *out ? 0 : not_a_baseline(r, "expected a string in \"%s\"", key);
}

/* A list of texts by its key. What was read before one that is none is counted, so that it is
 * freed. */
static int field_texts(const struct reading *r, const json_t *root, const char *key, char ***out,
                       size_t *count)
{
    const json_t *list = json_object_get(root, key);
    if (!json_is_array(list))
        return not_a_baseline(r, "expected a list in \"%s\"", key);
    *out = tw_calloc(json_array_size(list) + 1, sizeof **out);
    if (!*out)
        return tw_no_memory(r->err, "reading %s", r->path);
    for (size_t i = 0; i < json_array_size(list); i++) {
        char *s = text_of(json_array_get(list, i));
        if (!s)
            return not_a_baseline(r, "expected strings in \"%s\"", key);
        (*out)[(*count)++] = s;
    }
    return 0;
}

/* ---- names */

/* The phase of a name ("forward"); false: there is no such phase. */
static bool phase_of(const char *s, uint8_t *out)
{
    for (unsigned i = 0; s && i < TWIN_PHASE_COUNT; i++)
        if (strcmp(s, twin_phase_name((enum twin_phase)i)) == 0) {
            *out = (uint8_t)i;
            return true;
        }
    return false;
}

/* The kind of a name ("weight"); false: there is no such kind. */
static bool kind_of(const char *s, uint8_t *out)
{
    for (unsigned i = 0; s && i < TWIN_KIND_COUNT; i++)
        if (strcmp(s, twin_kind_name((enum twin_kind)i)) == 0) {
            *out = (uint8_t)i;
            return true;
        }
    return false;
}

/* Reads "names": a row of [phase, kind, name, scope, role, occurrence] for each. All else in the
 * file points into this list, so it is read first. */
static int read_names(struct reading *r, const json_t *root)
{
    const json_t *list = json_object_get(root, "names");
    struct twin_baseline *b = r->b;
    if (!json_is_array(list))
        return not_a_baseline(r, "expected a list in \"names\"");
    b->name = tw_calloc(json_array_size(list) + 1, sizeof *b->name);
    if (!b->name)
        return tw_no_memory(r->err, "reading %s", r->path);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i);
        struct tw_bl_name *n = &b->name[b->names++];
        uint64_t occurrence;
        n->name = text_of(json_array_get(row, 2));
        n->scope = text_of(json_array_get(row, 3));
        n->role = text_of(json_array_get(row, 4));
        if (json_array_size(row) != 6 ||
            !phase_of(json_string_value(json_array_get(row, 0)), &n->phase) ||
            !kind_of(json_string_value(json_array_get(row, 1)), &n->kind) || !n->name ||
            !n->scope || !n->role || !whole_number(json_array_get(row, 5), UINT32_MAX, &occurrence))
            return not_a_baseline(
                r, "name %zu: expected [phase, kind, name, scope, role, occurrence]", i);
        n->occurrence = (uint32_t)occurrence;
        n->key = tw_key_hash(n->phase, n->kind, n->name, n->scope, n->role);
    }
    return 0;
}

/* ---- processes */

/* Reads the hashes of a process. Spans must begin at step 0 and follow each other without a hole up
 * to the last step, and one more where the process has a tail: else a step that nobody compares
 * could stand in a verdict as equal. */
static int read_spans(struct reading *r, const json_t *j, struct tw_bl_proc *p)
{
    const json_t *phases = json_object_get(j, "phases"), *list = json_object_get(j, "hashes");
    uint8_t phase[TWIN_PHASE_COUNT];
    size_t n = json_array_size(phases);
    uint64_t expected = 0, first, last, x;
    if (n > TWIN_PHASE_COUNT || !json_is_array(phases) || !json_is_array(list))
        return not_a_baseline(r, "rank %d: expected lists in \"phases\" and \"hashes\"", p->rank);
    for (size_t i = 0; i < n; i++)
        if (!phase_of(json_string_value(json_array_get(phases, i)), &phase[i]))
            return not_a_baseline(r, "rank %d: \"phases\" names one that there is not", p->rank);
    p->span = tw_calloc(json_array_size(list) + 1, sizeof *p->span);
    if (!p->span)
        return tw_no_memory(r->err, "reading %s", r->path);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i);
        const char *hash = json_string_value(json_array_get(row, 2));
        /* Eight digits for each phase that "phases" lists. */
        const char *marks = json_string_value(json_array_get(row, 3));
        struct tw_bl_span *s = &p->span[p->spans++];
        bool good = json_array_size(row) == 4 && hash && marks && strlen(hash) == 32 &&
                    strlen(marks) == 8 * n &&
                    whole_number(json_array_get(row, 0), UINT32_MAX, &first) &&
                    whole_number(json_array_get(row, 1), UINT32_MAX, &last) &&
                    tw_hex_number(hash, 16, &s->hash.a) && tw_hex_number(hash + 16, 16, &s->hash.b);
        for (size_t k = 0; good && k < n; k++) {
            good = tw_hex_number(marks + 8 * k, 8, &x);
            s->phase[phase[k]] = (uint32_t)x;
        }
        if (!good)
            return not_a_baseline(
                r,
                "rank %d, entry %zu of \"hashes\": expected [first, last, 32 hex digits, "
                "%zu hex digits]",
                p->rank, i, 8 * n);
        if (first != expected || last < first || last > p->steps ||
            (last == p->steps && (!p->tail || first != last)))
            return not_a_baseline(
                r,
                "rank %d: \"hashes\" go from step %llu to %llu where %llu was expected to "
                "begin, of %llu steps",
                p->rank, (unsigned long long)first, (unsigned long long)last,
                (unsigned long long)expected, (unsigned long long)p->steps);
        s->first = (uint32_t)first;
        s->last = (uint32_t)last;
        expected = last + 1;
    }
    return expected == p->steps + p->tail
               ? 0
               : not_a_baseline(r, "rank %d: \"hashes\" end at step %llu of %llu", p->rank,
                                (unsigned long long)expected, (unsigned long long)p->steps);
}

/* Reads the records of one step: `names` lists places in the list of names as "0-41,43", in order
 * and none twice, and `hashes` holds 8 hex digits for each. False when they are not as many, or are
 * no such lists. */
static bool read_records(const struct twin_baseline *b, const char *names, const char *hashes,
                         struct tw_bl_detail *d)
{
    size_t room = strlen(hashes) / 8;
    uint64_t next = 0, from, to, hash;
    if (strlen(hashes) % 8 || !(d->rec = tw_calloc(room + 1, sizeof *d->rec)))
        return false;
    while (*names) {
        char *end;
        if (*names < '0' || *names > '9')
            return false;
        from = to = strtoull(names, &end, 10);
        if (*end == '-') {
            if (end[1] < '0' || end[1] > '9')
                return false;
            to = strtoull(end + 1, &end, 10);
        }
        if (from < next || to < from || to >= b->names || (*end && *end != ',') ||
            (*end == ',' && !end[1]))
            return false;
        for (; from <= to; from++) {
            if (d->n == room || !tw_hex_number(hashes + 8 * d->n, 8, &hash))
                return false;
            d->rec[d->n++] = (struct tw_bl_record){(uint32_t)from, (uint32_t)hash};
        }
        next = to + 1;
        names = end + (*end == ',');
    }
    return d->n == room;
}

/* Reads the steps that are kept record by record, which ascend. */
static int read_details(struct reading *r, const json_t *j, struct tw_bl_proc *p)
{
    const json_t *list = json_object_get(j, "tensors");
    uint64_t step;
    if (!json_is_array(list))
        return not_a_baseline(r, "rank %d: expected a list in \"tensors\"", p->rank);
    p->detail = tw_calloc(json_array_size(list) + 1, sizeof *p->detail);
    if (!p->detail)
        return tw_no_memory(r->err, "reading %s", r->path);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i);
        const char *names = json_string_value(json_array_get(row, 1));
        const char *hashes = json_string_value(json_array_get(row, 2));
        struct tw_bl_detail *d = &p->detail[p->details++];
        if (json_array_size(row) != 3 || !names || !hashes ||
            !whole_number(json_array_get(row, 0), p->steps, &step) ||
            (i > 0 && step <= p->detail[i - 1].step) || !read_records(r->b, names, hashes, d))
            return not_a_baseline(
                r,
                "rank %d, entry %zu of \"tensors\": expected [step, names such as "
                "\"0-4,7\", 8 hex digits for each]",
                p->rank, i);
        d->step = (uint32_t)step;
    }
    return 0;
}

/* A sketch is the bits of its buckets, 16 hex digits each; their number is a power of two. False
 * for anything else: a bucket that is no finite number would make every distance one that is
 * not. */
static bool read_sketch(const json_t *j, struct tw_bl_number *n)
{
    const char *s = json_string_value(j);
    size_t k = s ? strlen(s) / 16 : 0;
    uint64_t bits;
    if (!s || strlen(s) % 16 || k == 0 || k > TWIN_SKETCH_MAX || (k & (k - 1)) ||
        !(n->sketch = tw_calloc(1, sizeof *n->sketch)))
        return false;
    n->sketch->k = (uint32_t)k;
    for (size_t i = 0; i < k; i++) {
        if (!tw_hex_number(s + 16 * i, 16, &bits))
            return false;
        memcpy(&n->sketch->bucket[i], &bits, sizeof bits);
        if (!isfinite(n->sketch->bucket[i]))
            return false;
    }
    return true;
}

/* Reads the numbers that a tolerance is measured by: [step, name, elements, value], with a sketch
 * for what is more than one number. */
static int read_numbers(struct reading *r, const json_t *j, struct tw_bl_proc *p)
{
    const json_t *list = json_object_get(j, "numbers");
    uint64_t step, name, count;
    if (!json_is_array(list))
        return not_a_baseline(r, "rank %d: expected a list in \"numbers\"", p->rank);
    p->number = tw_calloc(json_array_size(list) + 1, sizeof *p->number);
    if (!p->number)
        return tw_no_memory(r->err, "reading %s", r->path);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i), *value = json_array_get(row, 3);
        struct tw_bl_number *n = &p->number[p->numbers++];
        size_t size = json_array_size(row);
        if ((size != 4 && size != 5) || !whole_number(json_array_get(row, 0), p->steps, &step) ||
            r->b->names == 0 || !whole_number(json_array_get(row, 1), r->b->names - 1, &name) ||
            !whole_number(json_array_get(row, 2), INT64_MAX, &count) || !json_is_number(value) ||
            (size == 5 && !read_sketch(json_array_get(row, 4), n)))
            return not_a_baseline(
                r,
                "rank %d, entry %zu of \"numbers\": expected [step, name, elements, value] "
                "and a sketch of 16 hex digits each",
                p->rank, i);
        n->step = (uint32_t)step;
        n->name = (uint32_t)name;
        n->count = count;
        n->value = json_number_value(value);
    }
    return 0;
}

/* Reads one process. Its rank and role come first, since later messages name them. */
static int read_process(struct reading *r, const json_t *j, struct tw_bl_proc *p)
{
    const json_t *rank = json_object_get(j, "rank"), *left_out = json_object_get(j, "left_out");
    uint64_t x;
    if (!json_is_integer(rank) || json_integer_value(rank) < INT32_MIN ||
        json_integer_value(rank) > INT32_MAX)
        return not_a_baseline(r, "expected a whole number in \"rank\" of a process");
    p->rank = (int32_t)json_integer_value(rank);
    int rc = field_text(r, j, "role", &p->role);
    if (rc != 0)
        return rc;
    if (!whole_number(json_object_get(j, "steps"), TW_BL_STEPS_MAX, &p->steps) ||
        !whole_number(json_object_get(j, "records"), INT64_MAX, &p->records) ||
        !json_is_boolean(json_object_get(j, "tail")) || !json_is_array(left_out))
        return not_a_baseline(
            r,
            "rank %d: expected whole numbers in \"steps\" (up to %llu) and \"records\", "
            "true or false in \"tail\", a list in \"left_out\"",
            p->rank, (unsigned long long)TW_BL_STEPS_MAX);
    p->tail = json_is_true(json_object_get(j, "tail"));
    p->left_out = tw_calloc(json_array_size(left_out) + 1, sizeof *p->left_out);
    if (!p->left_out)
        return tw_no_memory(r->err, "reading %s", r->path);
    for (size_t i = 0; i < json_array_size(left_out); i++) {
        if (r->b->names == 0 || !whole_number(json_array_get(left_out, i), r->b->names - 1, &x))
            return not_a_baseline(r, "rank %d: \"left_out\" holds no place in \"names\"", p->rank);
        p->left_out[p->left_out_count++] = (uint32_t)x;
    }
    rc = read_spans(r, j, p);
    if (rc == 0)
        rc = read_details(r, j, p);
    return rc ? rc : read_numbers(r, j, p);
}

/* Reads all processes; a baseline without one would agree with any run. */
static int read_processes(struct reading *r, const json_t *root)
{
    const json_t *list = json_object_get(root, "processes");
    size_t n = json_array_size(list);
    if (n == 0 || n > TW_BL_PROCESSES_MAX)
        return not_a_baseline(r, "expected 1 to %u entries in \"processes\", found %zu",
                              TW_BL_PROCESSES_MAX, n);
    r->b->proc = tw_calloc(n, sizeof *r->b->proc);
    if (!r->b->proc)
        return tw_no_memory(r->err, "reading %s", r->path);
    for (size_t i = 0; i < n; i++) {
        int rc = read_process(r, json_array_get(list, i), &r->b->proc[r->b->procs++]);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* Reads what the baseline says of itself: who made it, when, of which command, under which options,
 * in which world. */
static int read_head(struct reading *r, json_t *root)
{
    struct twin_baseline *b = r->b;
    const char *level = json_string_value(json_object_get(root, "level")), *key;
    json_t *world = json_object_get(root, "world"), *value;
    uint64_t max_steps = 0;
    int rc = field_text(r, root, "twinrun", &b->twinrun);
    if (rc == 0)
        rc = field_text(r, root, "made", &b->made);
    if (rc == 0)
        rc = field_texts(r, root, "command", &b->command, &b->command_count);
    if (rc == 0)
        rc = field_texts(r, root, "ignore", &b->ignore, &b->ignore_count);
    if (rc == 0 && (!level || twin_level_parse(level, &b->level) != 0))
        rc = not_a_baseline(r, "expected steps, tensors, modules or ops in \"level\"");
    if (rc == 0 && (!whole_number(json_object_get(root, "runs"), INT64_MAX, &b->runs) ||
                    !whole_number(json_object_get(root, "max_steps"), UINT32_MAX - 1, &max_steps)))
        rc = not_a_baseline(r, "expected whole numbers in \"runs\" and \"max_steps\"");
    if (rc == 0)
        b->max_steps = (uint32_t)max_steps;
    if (rc == 0 && !json_is_object(world))
        rc = not_a_baseline(r, "expected an object in \"world\"");
    json_object_foreach (world, key, value) {
        char *text = rc == 0 ? text_of(value) : NULL;
        if (rc == 0)
            rc = text ? twin_baseline_add_world(b, key, text, r->err)
                      : not_a_baseline(r, "expected strings in \"world\"");
        tw_free(text);
    }
    return rc;
}

/* A later version of the format is not damage: it gets an error of its own, TWIN_EVERSION. */
static int check_schema(const struct reading *r, const json_t *root)
{
    const char *schema = json_string_value(json_object_get(root, "schema"));
    if (!schema || !tw_starts(schema, "twinrun.baseline/"))
        return not_a_baseline(r, "expected \"schema\": \"twinrun.baseline/1\", found %s",
                              schema ? schema : "none");
    if (strcmp(schema, "twinrun.baseline/1") == 0)
        return 0;
    char *safe = tw_printable(schema, strlen(schema));
    int rc = twin_error_set(
        r->err, TWIN_EVERSION,
        "%s is a %.60s, which this program does not read (it reads twinrun.baseline/1)", r->path,
        safe ? safe : "");
    tw_free(safe);
    return rc;
}

int twin_baseline_read(const char *text, size_t bytes, const char *path, struct twin_baseline **out,
                       struct twin_error *err)
{
    struct twin_error ours = TWIN_ERROR_INIT;
    struct reading r = {.path = path, .err = err ? err : &ours};
    json_error_t e;
    *out = NULL;
    if (bytes > TW_BL_FILE_MAX)
        return twin_error_set(err, TWIN_ELIMIT, "%s has %zu bytes; a baseline has up to %zu", path,
                              bytes, TW_BL_FILE_MAX);
    json_t *root = tw_json_load(text, bytes, JSON_REJECT_DUPLICATES, &e);
    if (!root)
        return not_a_baseline(&r, "line %d: %s", e.line, e.text);
    r.b = tw_calloc(1, sizeof *r.b);
    int rc = r.b ? check_schema(&r, root) : tw_no_memory(r.err, "reading %s", r.path);
    if (rc == 0)
        rc = read_head(&r, root);
    if (rc == 0)
        rc = read_names(&r, root);
    if (rc == 0)
        rc = read_processes(&r, root);
    json_decref(root);
    if (rc == 0)
        *out = r.b;
    else
        twin_baseline_free(r.b);
    return rc;
}
