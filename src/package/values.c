/* SPDX-License-Identifier: Apache-2.0 */
/* Small helpers of the package room: JSON values that are built or read, texts of areas, real
 * paths. What they share is one habit: a failure to allocate is noted in a flag of the caller's and
 * looked at once in the end, so that the code which builds an area reads as a list of facts. */
#include "pack.h"

#include "base.h"
#include "json_load.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* jansson takes value in any case, also when it is NULL. */
void tw_pk_put(bool *failed, json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) != 0)
        *failed = true;
}

/* The same for a list. */
void tw_pk_add(bool *failed, json_t *list, json_t *value)
{
    if (json_array_append_new(list, value) != 0)
        *failed = true;
}

/* object may be NULL or no object; the text is object's. */
const char *tw_pk_text(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

const char *tw_pk_real_path(const json_t *file)
{
    const char *real = tw_pk_text(file, "real_path");
    return real ? real : tw_pk_text(file, "path");
}

/* The cast takes const away for jansson, whose look-ups do not change anything. */
json_t *tw_pk_at(const json_t *object, const char *const *keys)
{
    json_t *at = (json_t *)(uintptr_t)object;
    for (; at && *keys; keys++)
        at = json_object_get(at, *keys);
    return at;
}

/* The variables by which agents are told what to hold still. */
bool tw_pk_is_of_pins(const char *name)
{
    return strcmp(name, "TWINRUN_FACTORS") == 0 || strcmp(name, "TWINRUN_PINS") == 0 ||
           strcmp(name, "TWINRUN_HELD") == 0;
}

/* A value that somebody else chose, as a JSON string; NULL: no memory. */
json_t *tw_pk_printable(const char *s)
{
    char *safe = tw_printable(s, strlen(s));
    json_t *v = safe ? json_string(safe) : NULL;
    tw_free(safe);
    return v;
}

/* The callback of jansson's writer; non-zero ends it. */
static int append_bytes(const char *text, size_t n, void *data)
{
    return tw_buf_append(data, text, n) == 0 ? 0 : -1;
}

/* Sorted keys and one form of indentation: the same value always gives the same bytes, and so the
 * same digest. */
char *tw_pk_dump(const json_t *value, size_t *n)
{
    struct tw_buf b = {0};
    bool ok = value &&
              json_dump_callback(value, append_bytes, &b, JSON_INDENT(1) | JSON_SORT_KEYS) == 0 &&
              tw_buf_puts(&b, "\n") == 0;
    *n = b.len;
    if (ok)
        return tw_buf_steal(&b);
    tw_buf_free(&b);
    return NULL;
}

/* A file of the package is read below an open folder, never by a path of its own. */
int tw_pk_load(int root, const char *path, json_t **out, struct twin_error *err)
{
    char *text;
    size_t n;
    *out = NULL;
    int rc = tw_bag_read(root, path, TW_BAG_JSON_MAX, &text, &n, err);
    rc = rc ? rc : tw_pk_parse(text, n, path, out, err);
    tw_free(text);
    return rc;
}

/* No memory and damage look alike in jansson's result; its error code tells them apart. */
int tw_pk_parse(const char *text, size_t n, const char *path, json_t **out, struct twin_error *err)
{
    json_error_t where;
    *out = tw_json_load(text, n, JSON_REJECT_DUPLICATES, &where);
    if (!*out && (where.text[0] == '\0' || json_error_code(&where) == json_error_out_of_memory))
        return tw_no_memory(err, "reading %s", path);
    if (!*out)
        return twin_error_set(err, TWIN_EFORMAT, "%s, line %d, column %d: %s", path, where.line,
                              where.column, where.text);
    if (json_is_object(*out))
        return 0;
    json_decref(*out);
    *out = NULL;
    return twin_error_set(err, TWIN_EFORMAT, "%s: expected a JSON object", path);
}

/* printf whose text arguments are made printable; NULL: no memory. */
static json_t *vtext(const char *format, va_list ap)
{
    struct tw_buf b = {0};
    tw_buf_vprint_safe(&b, format, ap); /* what a package holds was escaped when it was packed */
    json_t *v = b.failed ? NULL : json_string(b.data);
    tw_buf_free(&b);
    return v;
}

void tw_pk_missing(bool *failed, json_t *area, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    json_t *list = json_object_get(area, "missing");
    tw_pk_add(failed, list, vtext(format, ap));
    va_end(ap);
}

void tw_pk_holds(bool *failed, json_t *area, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    tw_pk_put(failed, area, "holds", vtext(format, ap));
    va_end(ap);
}

/* Compares whole parts: "/a/bc" is not below "/a/b". */
const char *tw_pk_below(const char *path, const char *base)
{
    size_t n = strlen(base);
    /* everything lies below "/" */
    if (n == 1 && base[0] == '/')
        return path + 1;
    if (strncmp(path, base, n) != 0 || (path[n] && path[n] != '/'))
        return NULL;
    return path + n + (path[n] == '/');
}

/* Links are resolved, and what is not there gives NULL. The copy is ours, so that tests can make it
 * fail. */
char *tw_pk_real(const char *dir, const char *path)
{
    char *joined = tw_path_join(dir, path);
    char *real = joined ? realpath(joined, NULL) : NULL;
    char *copy = real ? tw_strdup(real) : NULL;
    free(real); /* libc's */
    tw_free(joined);
    return copy;
}
