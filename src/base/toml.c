/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of TOML that our own small files need: [[NAME]] tables whose values are strings,
 * numbers, lists of strings, and inline tables of strings, each on one line; comments. What is
 * outside of it is refused by line, never guessed.
 */
#include "base.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of a key with its NUL, keys of one table, items of one list. */
enum { KEY_BYTES = 64, KEYS_MAX = 32, ITEMS_MAX = 256 };

/* One text that is being read, line by line. */
struct reader {
    const char *path, *p; /* p: where we are in the line */
    size_t line;
    struct twin_error *err;
    bool in_table;
    char seen[KEYS_MAX][KEY_BYTES]; /* keys of the table so far */
    size_t seen_count;
};

/* An error that shows what stands at r->p instead. */
static int refuse_token(const struct reader *r, const char *expected)
{
    char *found = tw_printable(r->p, strnlen(r->p, 60));
    int rc = twin_error_set(r->err, TWIN_EFORMAT, "%s: line %zu: expected %s, found \"%s\"",
                            r->path, r->line, expected, found ? found : "");
    tw_free(found);
    return rc;
}

static void skip_blank(struct reader *r)
{
    r->p += strspn(r->p, " \t\r");
}

static bool at_end(const struct reader *r)
{
    return *r->p == '\0' || *r->p == '#';
}

/* "..." with \" \\ \n \t, or '...'. */
static int read_string(struct reader *r, char **out)
{
    struct tw_buf b = {0};
    char quote = *r->p;
    const char *p = r->p + 1;
    if (quote != '"' && quote != '\'')
        return refuse_token(r, "a string in quotes");
    tw_buf_puts(&b, "");
    for (; *p && *p != quote; p++) {
        char ch = *p;
        if (ch == '\\' && quote == '"') {
            ch = *++p;
            if (!ch || !strchr("\"\\nt", ch))
                break;
            if (ch == 'n')
                ch = '\n';
            else if (ch == 't')
                ch = '\t';
        }
        tw_buf_append(&b, &ch, 1);
    }
    if (*p != quote) {
        tw_buf_free(&b);
        return refuse_token(r, "a string that ends on its line (escapes: \\\" \\\\ \\n \\t)");
    }
    r->p = p + 1;
    *out = tw_buf_steal(&b);
    return *out ? 0 : tw_no_memory(r->err, "reading %s", r->path);
}

/* "key =": the key is copied, and r->p stands at the value then. */
static int read_key(struct reader *r, char key[KEY_BYTES])
{
    size_t n = strspn(r->p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-0123456789");
    if (n == 0 || n >= KEY_BYTES || r->p[n + strspn(r->p + n, " \t")] != '=')
        return refuse_token(r, "key = value");
    memcpy(key, r->p, n);
    key[n] = '\0';
    r->p += n + strspn(r->p + n, " \t") + 1;
    skip_blank(r);
    return 0;
}

/* Adds a text to the value, which owns it from here on, also after an error. */
static int push_text(const struct reader *r, struct tw_toml_value *v, char *text)
{
    char **grown = text && v->count < ITEMS_MAX
                       ? tw_reallocarray(v->text, v->count + 1, sizeof *grown)
                       : NULL;
    if (!grown) {
        tw_free(text);
        return v->count < ITEMS_MAX
                   ? tw_no_memory(r->err, "reading %s", r->path)
                   : twin_error_set(r->err, TWIN_ELIMIT, "%s: line %zu: more than %d items",
                                    r->path, r->line, ITEMS_MAX);
    }
    v->text = grown;
    v->text[v->count++] = text;
    return 0;
}

/* ["a", "b"] or {a = "x", b = "y"}; a comma behind the last one is allowed in lists only, as
 * TOML 1.0 has it. */
static int read_group(struct reader *r, struct tw_toml_value *v)
{
    bool table = *r->p == '{';
    char close = table ? '}' : ']', key[KEY_BYTES], *text;
    v->type = table ? TW_TOML_TABLE : TW_TOML_STRINGS;
    r->p++;
    for (bool comma = false;; comma = true) {
        skip_blank(r);
        if (*r->p == close && !(table && comma))
            break;
        int rc = table ? read_key(r, key) : 0;
        if (rc == 0 && table)
            rc = push_text(r, v, tw_strdup(key));
        if (rc == 0)
            rc = read_string(r, &text);
        if (rc == 0)
            rc = push_text(r, v, text);
        if (rc != 0)
            return rc;
        skip_blank(r);
        if (*r->p == close)
            break;
        if (*r->p != ',')
            return refuse_token(r, table ? "a comma or } on the same line"
                                         : "a comma or ] on the same line");
        r->p++;
    }
    r->p++;
    return 0;
}

/* A value and its type; r->p stands behind it. */
static int read_value(struct reader *r, struct tw_toml_value *v)
{
    char *text;
    if (*r->p == '[' || *r->p == '{')
        return read_group(r, v);
    if (*r->p == '"' || *r->p == '\'') {
        v->type = TW_TOML_STRING;
        int rc = read_string(r, &text);
        return rc ? rc : push_text(r, v, text);
    }
    char *end = NULL;
    v->type = TW_TOML_NUMBER;
    if (*r->p && strchr("+-.0123456789", *r->p))
        v->number = strtod(r->p, &end);
    if (!end || end == r->p)
        return refuse_token(r, "a number, a string, a list of strings or an inline table");
    r->p = end;
    return 0;
}

static void free_value(struct tw_toml_value *v)
{
    for (size_t i = 0; i < v->count; i++)
        tw_free(v->text[i]);
    tw_free(v->text);
}

/* Each key once in a table. */
static int remember_key(struct reader *r, const char *key)
{
    for (size_t i = 0; i < r->seen_count; i++)
        if (strcmp(r->seen[i], key) == 0)
            return twin_error_set(r->err, TWIN_EFORMAT, "%s: line %zu: key %s is given twice",
                                  r->path, r->line, key);
    if (r->seen_count == KEYS_MAX)
        return twin_error_set(r->err, TWIN_ELIMIT, "%s: line %zu: more than %d keys in one table",
                              r->path, r->line, KEYS_MAX);
    memcpy(r->seen[r->seen_count++], key, strlen(key) + 1);
    return 0;
}

/* One line: nothing, the head of a table, or a key with its value. */
static int read_line(struct reader *r, const struct tw_toml_handler *h)
{
    char key[KEY_BYTES];
    size_t n = strlen(h->table);
    skip_blank(r);
    if (at_end(r))
        return 0;
    if (*r->p == '[') {
        if (!tw_starts(r->p, "[[") || !tw_starts(r->p + 2, h->table) ||
            !tw_starts(r->p + 2 + n, "]]"))
            return twin_error_set(r->err, TWIN_EFORMAT,
                                  "%s: line %zu: expected [[%s]], found \"%.60s\"", r->path,
                                  r->line, h->table, r->p);
        r->p += n + 4;
        skip_blank(r);
        if (!at_end(r))
            return refuse_token(r, "nothing behind the table's name");
        r->in_table = true;
        r->seen_count = 0;
        return h->begin(h->user, r->line, r->err);
    }
    if (!r->in_table)
        return twin_error_set(r->err, TWIN_EFORMAT,
                              "%s: line %zu: expected [[%s]] before the first key, found \"%.60s\"",
                              r->path, r->line, h->table, r->p);
    struct tw_toml_value v = {.type = TW_TOML_NUMBER};
    int rc = read_key(r, key);
    if (rc == 0)
        rc = remember_key(r, key);
    if (rc == 0)
        rc = read_value(r, &v);
    if (rc == 0) {
        skip_blank(r);
        rc = at_end(r) ? h->key(h->user, key, &v, r->line, r->err)
                       : refuse_token(r, "nothing behind the value");
    }
    free_value(&v);
    return rc;
}

/* Line by line; stops at the first error. */
int tw_toml_read(char *data, const char *path, const struct tw_toml_handler *h,
                 struct twin_error *err)
{
    struct reader *r = tw_calloc(1, sizeof *r);
    if (!r)
        return tw_no_memory(err, "reading %s", path);
    r->path = path;
    r->err = err;
    int rc = 0;
    for (char *line = data, *next; rc == 0 && line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        r->p = line;
        r->line++;
        rc = read_line(r, h);
    }
    tw_free(r);
    return rc;
}
