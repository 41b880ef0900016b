/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of one file as one number, or those of two files beside each other: in words and as
 * JSON. */
#include "tensors_words.h"

#include "base.h"
#include "json_text.h"
#include "phrase.h"
#include "put.h"

#include <math.h>
#include <string.h>

enum { SHOWN = 20, VALUE_BYTES = 72 }; /* a SHA-256 in hex and its name fit */

/* "f32 [64, 3]" */
static void print_type(FILE *out, const struct twin_tensors_entry *e)
{
    tw_put_to(out, "%s [", twin_dtype_name(e->dtype));
    for (uint32_t i = 0; i < e->ndim; i++)
        tw_put_to(out, "%s%lld", i ? ", " : "", (long long)e->shape[i]);
    tw_put_to(out, "]");
}

/* The lengths of a tensor, dimension by dimension. */
static json_t *shape_json(const struct twin_tensors_entry *e)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < e->ndim; i++)
        json_array_append_new(list, json_integer(e->shape[i]));
    return list;
}

/* A file: its digests, and each tensor with its own. */
static json_t *item_json(const char *name, const struct twin_content *c)
{
    json_t *list = json_array();
    for (size_t i = 0; i < c->count; i++) {
        const struct twin_tensors_entry *e = c->tensor[i].entry;
        json_array_append_new(list, json_pack("{s:o, s:s, s:o, s:s}", "name", tw_json_text(e->name),
                                              "dtype", twin_dtype_name(e->dtype), "shape",
                                              shape_json(e), "sha256", c->tensor[i].sha256));
    }
    return json_pack("{s:o, s:s, s:I, s:o, s:s, s:s, s:o}", "name", tw_json_text(name), "format",
                     twin_tensors_kind_name(twin_tensors_kind(c->tensors)), "bytes",
                     (json_int_t)c->file_bytes, "file",
                     *c->file ? json_string(c->file) : json_null(), "content", c->content, "values",
                     c->values, "tensors", list);
}

/* One side of a difference; null: the tensor is in the other file only. */
static json_t *side_json(const struct twin_tensors_entry *e)
{
    return e ? json_pack("{s:s, s:o}", "dtype", twin_dtype_name(e->dtype), "shape", shape_json(e))
             : json_null();
}

/* For twin_content_compare; list is a JSON list. */
static int add_difference(void *list, const struct twin_content_difference *d)
{
    return json_array_append_new(
        list, json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "name", tw_json_text(d->name), "a",
                        side_json(d->a), "b", side_json(d->b), "changed",
                        d->values ? json_integer((json_int_t)d->changed) : json_null(), "max_ulp",
                        tw_json_number(d->values ? d->max_ulp : NAN), "relative_l2",
                        tw_json_number(d->values ? d->rel_l2 : NAN)));
}

/* What was printed of a list of differences, and where. */
struct seen {
    FILE *out;
    long shown, all;
};

/* For twin_content_compare; user is a struct seen. The first SHOWN are printed, all are counted. */
static int print_difference(void *user, const struct twin_content_difference *d)
{
    struct seen *s = user;
    FILE *out = s->out;
    char *name = tw_printable(d->name, strlen(d->name));
    if (s->all++ >= SHOWN) {
        tw_free(name);
        return 0;
    }
    s->shown++;
    tw_put_to(out, "  %s  ", name ? name : "?");
    tw_free(name);
    print_type(out, d->a ? d->a : d->b);
    if (!d->a || !d->b) {
        tw_put_to(out, "  only in %s\n", d->a ? "the first" : "the second");
    } else if (!d->values) {
        tw_put_to(out, " against ");
        print_type(out, d->b);
        tw_put_to(out, "\n");
    } else {
        char changed[32], all[32];
        tw_put_to(out, "  %s of %s elements", tw_human_count(d->changed, changed),
                  tw_human_count(d->a->count, all));
        if (isinf(d->max_ulp))
            tw_put_to(out, ", NaN among them");
        else if (!isnan(d->max_ulp))
            tw_put_to(out, ", at most %.6g ulp", d->max_ulp);
        if (!isnan(d->rel_l2))
            tw_put_to(out, ", relative L2 %.2g", d->rel_l2);
        tw_put_to(out, "\n");
    }
    return 0;
}

/* ---- what is no tensor */

/* The text of a value, cut at VALUE_BYTES; NULL when it has none. The caller frees it. */
static char *text_of_value(const struct twin_tensors_value *v)
{
    if (!v || !v->text)
        return NULL;
    return tw_printable(v->text, v->text_bytes < VALUE_BYTES ? v->text_bytes : VALUE_BYTES);
}

/* As a person writes it, cut at VALUE_BYTES. */
static void put_value(struct tw_buf *b, const struct twin_tensors_value *v)
{
    char *text = text_of_value(v);
    const char *shown = text ? text : "?";
    const char *cut = v && v->text_bytes > VALUE_BYTES ? "..." : "";
    if (!v)
        tw_buf_puts(b, "(not there)");
    else if (v->kind == TWIN_VALUE_NONE)
        tw_buf_puts(b, "None");
    else if (v->kind == TWIN_VALUE_TRUTH)
        tw_buf_puts(b, v->number ? "True" : "False");
    else if (v->kind == TWIN_VALUE_INT)
        tw_buf_printf(b, "%lld", (long long)v->number);
    else if (v->kind == TWIN_VALUE_FLOAT)
        tw_buf_printf(b, "%.17g", v->real);
    else if (v->kind == TWIN_VALUE_TEXT)
        tw_buf_printf(b, "\"%s%s\"", shown, cut);
    else if (v->kind == TWIN_VALUE_OPAQUE)
        tw_buf_printf(b, "object of %s%s", shown, cut);
    else
        tw_buf_printf(b, "%s%s", shown, cut);
    tw_free(text);
}

/* The same of things in the files that are no tensors. */
static int print_value_difference(void *user, const struct twin_tensors_value *a,
                                  const struct twin_tensors_value *b)
{
    struct seen *s = user;
    struct tw_buf line = {0};
    char *name = tw_printable((a ? a : b)->name, strlen((a ? a : b)->name));
    if (s->all++ < SHOWN) {
        tw_buf_printf(&line, "  %s  ", name ? name : "?");
        put_value(&line, a);
        tw_buf_puts(&line, " -> ");
        put_value(&line, b);
        tw_put_to(s->out, "%s\n", line.data ? line.data : "?");
        s->shown++;
    }
    tw_buf_free(&line);
    tw_free(name);
    return 0;
}

/* A value that is no tensor: as JSON has it, where JSON has such a value, else as text. */
static json_t *value_json(const struct twin_tensors_value *v)
{
    struct tw_buf b = {0};
    if (!v)
        return json_null();
    put_value(&b, v);
    json_t *j;
    if (v->kind == TWIN_VALUE_INT)
        j = json_integer(v->number);
    else if (v->kind == TWIN_VALUE_TRUTH)
        j = json_boolean(v->number);
    else if (v->kind == TWIN_VALUE_TEXT && v->text_bytes <= VALUE_BYTES)
        j = tw_json_text(v->text);
    else
        j = tw_json_text(b.data);
    tw_buf_free(&b);
    return json_pack("{s:o}", "value", j);
}

/* For twin_content_compare_values; list is a JSON list. */
static int add_value_difference(void *list, const struct twin_tensors_value *a,
                                const struct twin_tensors_value *b)
{
    return json_array_append_new(list, json_pack("{s:o, s:o, s:o}", "name",
                                                 tw_json_text((a ? a : b)->name), "a",
                                                 value_json(a), "b", value_json(b)));
}

/* A file: what kind, its digests, and what was passed over. */
static void print_item(FILE *out, const char *path, const struct twin_content *c)
{
    char size[16], *name = tw_printable(path, strlen(path));
    tw_put_to(out, "%s  %s, %zu tensor%s, %s\n", name ? name : "?",
              twin_tensors_kind_name(twin_tensors_kind(c->tensors)), c->count,
              tw_plural_s(c->count), tw_human_bytes(c->file_bytes, size));
    if (*c->file)
        tw_put_to(out, "  file       sha256:%s\n", c->file);
    tw_put_to(out, "  content    sha256:%s\n", c->content);
    for (size_t i = 0; i < twin_tensors_skipped_count(c->tensors); i++) {
        char *skipped = tw_printable(twin_tensors_skipped(c->tensors, i),
                                     strlen(twin_tensors_skipped(c->tensors, i)));
        tw_put_to(out, "%s%s", i ? ", " : "  passed over: ", skipped ? skipped : "?");
        tw_free(skipped);
    }
    if (twin_tensors_skipped_count(c->tensors))
        tw_put_to(out, "\n");
    if (c->value_count)
        tw_put_to(out, "  values     sha256:%s  (%zu that are no tensor%s: %s)\n", c->values,
                  c->value_count, tw_plural_s(c->value_count),
                  twin_tensors_kind(c->tensors) == TWIN_TENSORS_FOLDER
                      ? "other files, step counts, settings"
                      : "step counts, settings, names");
    tw_free(name);
}

/* How two files with the same tensors are the same. */
static const char *sameness(const struct twin_content *c, bool values)
{
    /* Of TensorFlow's checkpoints `file` is the index alone: the bytes lie in other files. */
    const bool known = *c[0].file && *c[1].file &&
                       twin_tensors_kind(c[0].tensors) != TWIN_TENSORS_TENSORFLOW;
    if (!values)
        return "the same tensors; what is no tensor differs";
    if (known && strcmp(c[0].file, c[1].file) == 0)
        return "byte for byte";
    return known ? "the same tensors in other bytes" : "the same tensors";
}

int tw_tensors_text(FILE *out, char *const *files, const struct twin_content *c, size_t count,
                    struct twin_error *err)
{
    struct seen seen = {.out = out};
    for (size_t i = 0; i < count; i++)
        print_item(out, files[i], &c[i]);
    if (count < 2)
        return 0;
    const bool same = strcmp(c[0].content, c[1].content) == 0;
    const bool values = strcmp(c[0].values, c[1].values) == 0;
    if (same)
        tw_put_to(out, "SAME    %s\n", sameness(c, values));
    else
        tw_put_to(out, "DIFFER\n");
    if (!same && twin_content_compare(&c[0], &c[1], print_difference, &seen, err) < 0)
        return err->code;
    if (seen.all > seen.shown)
        tw_put_to(out, "  and %ld more (--json lists all)\n", seen.all - seen.shown);
    seen = (struct seen){.out = out};
    if (!values && !same)
        tw_put_to(out, "and what is no tensor:\n");
    if (!values)
        twin_content_compare_values(&c[0], &c[1], print_value_difference, &seen);
    if (seen.all > seen.shown)
        tw_put_to(out, "  and %ld more (--json lists all)\n", seen.all - seen.shown);
    return same ? 0 : 1;
}

int tw_tensors_json(char *const *files, const struct twin_content *c, size_t count, json_t **out,
                    struct twin_error *err)
{
    json_t *items = json_array();
    json_t *differences = json_array();
    json_t *o = json_pack("{s:s}", "schema", "twinrun.digest/1");
    for (size_t i = 0; i < count; i++)
        json_array_append_new(items, item_json(files[i], &c[i]));
    json_object_set_new(o, "items", items);
    long n = count == 2 ? twin_content_compare(&c[0], &c[1], add_difference, differences, err) : 0;
    if (count == 2) {
        json_object_set_new(o, "outcome", json_string(n == 0 ? "same" : "differ"));
        json_object_set(o, "differences", differences);
        json_t *values = json_array();
        twin_content_compare_values(&c[0], &c[1], add_value_difference, values);
        json_object_set_new(o, "value_differences", values);
    }
    json_decref(differences);
    if (n < 0) {
        json_decref(o);
        return err->code;
    }
    *out = o;
    return n != 0;
}
