/* SPDX-License-Identifier: Apache-2.0 */
/* Digests of a configuration: which reader it takes (src/formats/config_*.c), the two hashes, the
 * places where two differ. */
#include "config_argv.h"

#include "base.h"
#include "config_values.h"
#include "jcs.h"
#include "sha256.h"

#include "src/provenance/config.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* A configuration that is larger is refused. */
#define BYTES_MAX ((size_t)64 << 20)

/* Keeps jansson out of the public header. */
struct twin_config_value {
    json_t *json;
};

static const char *const names[] = {[TWIN_CONFIG_JSON] = "json",
                                    [TWIN_CONFIG_YAML] = "yaml",
                                    [TWIN_CONFIG_TOML] = "toml",
                                    [TWIN_CONFIG_ARGV] = "argv"};
enum { NAMES = sizeof names / sizeof names[0] };

const char *twin_config_format_name(enum twin_config_format f)
{
    return (unsigned)f < NAMES ? names[f] : NULL;
}

/* By the ending of the name; TWIN_CONFIG_BY_NAME: none that is known. */
static enum twin_config_format format_of(const char *path)
{
    static const struct {
        const char *ending;
        enum twin_config_format format;
    } rows[] = {{".json", TWIN_CONFIG_JSON},
                {".yaml", TWIN_CONFIG_YAML},
                {".yml", TWIN_CONFIG_YAML},
                {".toml", TWIN_CONFIG_TOML}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (tw_ends(path, rows[i].ending))
            return rows[i].format;
    return TWIN_CONFIG_BY_NAME;
}

/* ---- digests */

/* Fills c from a value and the bytes it was read from. Takes over value; on an error nothing is
 * left in c. */
static int finish_config(json_t *value, const void *raw, size_t n, struct twin_config *c,
                         struct twin_error *err)
{
    struct tw_buf b = {0};
    int rc = tw_jcs_write(value, &b, err);
    c->bytes = n;
    c->text_bytes = b.len;
    if (rc == 0 && !(tw_sha256_of(raw, n, c->raw) && tw_sha256_of(b.data, b.len, c->canonical)))
        rc = twin_error_set(err, TWIN_ENOMEM, "SHA-256 failed");
    c->values = rc ? NULL : tw_malloc(sizeof *c->values);
    c->text = rc ? NULL : tw_buf_steal(&b);
    if (rc == 0 && (!c->values || !c->text))
        rc = tw_no_memory(err, "for a configuration");
    if (rc == 0) {
        c->values->json = value;
        return 0;
    }
    json_decref(value);
    tw_buf_free(&b);
    tw_free(c->values);
    tw_free(c->text);
    return rc;
}

/* The name in messages is printable, the one that is opened is as given. */
int twin_config_read(const char *path, enum twin_config_format format, struct twin_config *out,
                     struct twin_error *err)
{
    struct twin_error own = TWIN_ERROR_INIT;
    char *data, *name;
    size_t n;
    json_t *value = NULL;
    err = err ? err : &own;
    *out = (struct twin_config){.format = format == TWIN_CONFIG_BY_NAME ? format_of(path) : format};
    if (out->format == TWIN_CONFIG_BY_NAME || out->format == TWIN_CONFIG_ARGV)
        return twin_error_set(err, TWIN_EINVAL,
                              "%s: its name ends neither in .json nor in .yaml, .yml or .toml: say "
                              "which with --format",
                              path);
    int rc = tw_read_file(path, BYTES_MAX, &data, &n, err);
    if (rc != 0)
        return rc;
    name = tw_printable(path, strlen(path));
    if (!name)
        rc = tw_no_memory(err, "for a configuration");
    else if (out->format == TWIN_CONFIG_JSON)
        value = tw_config_from_json(data, n, name, err);
    else if (out->format == TWIN_CONFIG_YAML)
        value = tw_config_from_yaml(data, n, name, err);
    else
        value = tw_config_from_toml(data, n, name, err);
    if (rc == 0)
        rc = value ? finish_config(value, data, n, out, err) : err->code;
    tw_free(name);
    tw_free(data);
    return rc;
}

/* The raw form has the NUL of each word, so that "a b" and "a", "b" differ. */
int twin_config_argv(char *const *argv, struct twin_config *out, struct twin_error *err)
{
    struct twin_error own = TWIN_ERROR_INIT;
    struct tw_buf raw = {0};
    err = err ? err : &own;
    *out = (struct twin_config){.format = TWIN_CONFIG_ARGV};
    for (size_t i = 0; argv[i]; i++)
        tw_buf_append(&raw, argv[i], strlen(argv[i]) + 1);
    json_t *value = tw_config_from_argv(argv, err);
    const char *text = raw.data ? raw.data : "";
    int rc = value ? finish_config(value, text, raw.len, out, err) : err->code;
    tw_buf_free(&raw);
    return rc;
}

void twin_config_free(struct twin_config *c)
{
    if (c->values)
        json_decref(c->values->json);
    tw_free(c->values);
    tw_free(c->text);
    *c = (struct twin_config){0};
}

/* ---- where two differ */

/* A walk over two values: where it is, whom it tells, and whether it goes on. `at` grows by a part
 * for each step down and shrinks on the way back. */
struct walk {
    int (*visit)(void *, const char *, const char *, const char *);
    void *user;
    long visits;
    bool end, no_memory;
    struct tw_buf at; /* JSON pointer */
};

static void compare_values(struct walk *w, const json_t *a, const json_t *b);

/* Tells of one place, with the canonical texts of both sides; NULL: not there. */
static void told(struct walk *w, const json_t *a, const json_t *b)
{
    struct tw_buf x = {0}, y = {0};
    bool fine = (!a || tw_jcs_write(a, &x, NULL) == 0) && (!b || tw_jcs_write(b, &y, NULL) == 0) &&
                tw_buf_puts(&w->at, "") == 0;
    w->no_memory |= !fine;
    if (fine) {
        const char *was = a ? x.data : NULL;
        const char *is = b ? y.data : NULL;
        w->visits++;
        w->end |= w->visit(w->user, w->at.data, was, is) != 0;
    }
    tw_buf_free(&x);
    tw_buf_free(&y);
}

/* Goes down one key or index. '~' and '/' in a key are written as RFC 6901 has them. */
static void step_into(struct walk *w, const char *key, const json_t *a, const json_t *b)
{
    const size_t here = w->at.len;
    tw_buf_puts(&w->at, "/");
    for (; *key; key++) {
        if (*key == '~')
            tw_buf_append(&w->at, "~0", 2);
        else if (*key == '/')
            tw_buf_append(&w->at, "~1", 2);
        else
            tw_buf_append(&w->at, key, 1);
    }
    compare_values(w, a, b);
    w->at.len = here;
    if (w->at.data)
        w->at.data[here] = '\0';
}

/* Keys of both, merged in the canonical order. */
static void compare_objects(struct walk *w, const json_t *a, const json_t *b)
{
    json_t *all = json_copy((json_t *)(uintptr_t)a);
    size_t count = 0;
    if (!all || json_object_update_missing(all, (json_t *)(uintptr_t)b) != 0)
        w->no_memory = true;
    const char **keys = w->no_memory ? NULL : tw_jcs_keys(all, &count);
    w->no_memory |= !keys;
    for (size_t i = 0; i < count && !w->end; i++)
        step_into(w, keys[i], json_object_get(a, keys[i]), json_object_get(b, keys[i]));
    tw_free(keys);
    json_decref(all);
}

/* Compares two values, of which at most one is NULL. Lists are compared place by place: an item
 * that was put in front changes all places behind it, as it does for the program that reads
 * them. */
static void compare_values(struct walk *w, const json_t *a, const json_t *b)
{
    if (w->end || w->no_memory)
        return;
    if (json_is_object(a) && json_is_object(b)) {
        compare_objects(w, a, b);
    } else if (json_is_array(a) && json_is_array(b)) {
        size_t n = json_array_size(a) > json_array_size(b) ? json_array_size(a)
                                                           : json_array_size(b);
        for (size_t i = 0; i < n && !w->end; i++) {
            char index[24];
            snprintf(index, sizeof index, "%zu", i);
            step_into(w, index, json_array_get(a, i), json_array_get(b, i));
        }
    } else if (!a || !b) {
        told(w, a, b);
    } else {
        struct tw_buf x = {0}, y = {0};
        w->no_memory |= tw_jcs_write(a, &x, NULL) != 0 || tw_jcs_write(b, &y, NULL) != 0;
        bool same = w->no_memory || (x.len == y.len && memcmp(x.data, y.data, x.len) == 0);
        tw_buf_free(&x);
        tw_buf_free(&y);
        if (!same)
            told(w, a, b);
    }
}

/* Out of memory leaves an unknown rest: it is an error, not a shorter list. */
long twin_config_compare(const struct twin_config *a, const struct twin_config *b,
                         int (*visit)(void *, const char *, const char *, const char *), void *user)
{
    struct walk w = {.visit = visit, .user = user};
    compare_values(&w, a->values->json, b->values->json);
    tw_buf_free(&w.at);
    return w.no_memory ? TWIN_ENOMEM : w.visits;
}
