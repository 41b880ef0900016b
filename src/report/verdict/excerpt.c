/* SPDX-License-Identifier: Apache-2.0 */
/* Which file a place in the source means, whether it is still what ran, and its lines (excerpt.h).
 * The record of the run comes from a stranger: a file is read only where it is a small, regular one
 * of the recorded size, and shown only where its bytes have the recorded digest. */
#include "excerpt.h"

#include "page_inside.h"
#include "sha256.h"
#include "wording.h"

#include "base.h"

#include "src/launch/redact.h"
#include "src/provenance/provenance.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* AROUND: lines before and behind that of the finding. Of each LINE_BYTES are shown, and LOOK_BYTES
 * are searched for secrets. */
enum { FILE_BYTES = 2 << 20, AROUND = 3, LINE_BYTES = 200, LOOK_BYTES = 4096, TAB = 8 };

/* A file as the record has it. */
struct recorded {
    char *path; /* absolute; owned */
    const char *sha256;
    json_int_t bytes;
};

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

/* The file as the job sees it: absolute, where the record says where it was started. */
static char *place_of(const struct twin_run *run, const char *file)
{
    return *file == '/' ? tw_strdup(file) : tw_path_join(run->cwd, file);
}

/* Are these the same file, by name or by where the names lead? */
static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    if (strcmp(a, b) == 0)
        return true;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Is it the program that the run was started with? A run in a scratch copy had it there, so names
 * that are given from the working folder decide, too. */
static bool is_entry(const char *file, const char *place, const json_t *entry)
{
    const char *name = text_of(entry, "path"), *real = text_of(entry, "real_path");
    if (!*text_of(entry, "sha256") || !*real)
        return false;
    return strcmp(file, name) == 0 || same_file(place, real);
}

/* A source of C says nothing of what ran: the program may have been built before. */
static bool is_run_as_it_is(const char *file)
{
    const char *dot = strrchr(file, '.');
    return dot && strcmp(dot, ".py") == 0;
}

/* Sets *out where the record has a digest of the file; its path stays NULL where not. */
static int find_recorded(const struct twin_run *run, const json_t *world, const char *file,
                         struct recorded *out)
{
    const json_t *entry = json_object_get(json_object_get(world, "programs"), "entry");
    const json_t *code = json_object_get(world, "code"), *item;
    size_t i;
    char *place = place_of(run, file);
    if (!place)
        return TWIN_ENOMEM;
    if (is_entry(file, place, entry)) {
        *out = (struct recorded){tw_strdup(text_of(entry, "real_path")), text_of(entry, "sha256"),
                                 json_integer_value(json_object_get(entry, "bytes"))};
        tw_free(place);
        return out->path ? 0 : TWIN_ENOMEM;
    }
    json_array_foreach (json_object_get(code, "untracked"), i, item) {
        char *path = tw_path_join(text_of(code, "top"), text_of(item, "path"));
        if (path && !out->path && *text_of(item, "sha256") && is_run_as_it_is(file) &&
            same_file(place, path))
            *out = (struct recorded){path, text_of(item, "sha256"),
                                     json_integer_value(json_object_get(item, "bytes"))};
        else
            tw_free(path);
    }
    tw_free(place);
    return 0;
}

/* The file's text, if it is what was recorded; NULL, and *why, if not. */
static char *read_recorded(const struct recorded *r, size_t *bytes, const char **why)
{
    struct stat st;
    char *text = NULL, hex[65];
    if (stat(r->path, &st) != 0) {
        *why = "it is not where it was";
        return NULL;
    }
    *why = "it has changed since the run, so its lines are others";
    if (!S_ISREG(st.st_mode) || st.st_size != r->bytes)
        return NULL;
    if (st.st_size > FILE_BYTES) {
        *why = "it is too large";
        return NULL;
    }
    if (tw_read_file(r->path, FILE_BYTES, &text, bytes, NULL) != 0) {
        *why = "it cannot be read";
        return NULL;
    }
    if (tw_sha256_of(text, *bytes, hex) && strcmp(hex, r->sha256) == 0)
        return text;
    tw_free(text);
    return NULL;
}

/* The line with its tabs as spaces; NULL: no memory. */
static char *spread(const char *line, size_t n)
{
    struct tw_buf b = {0};
    size_t column = 0;
    for (size_t i = 0; i < n && line[i]; i++, column++) {
        if (line[i] != '\t') {
            tw_buf_append(&b, line + i, 1);
            continue;
        }
        for (tw_buf_puts(&b, " "); (column + 1) % TAB; column++)
            tw_buf_puts(&b, " ");
    }
    return tw_buf_steal(&b);
}

/* Appends one line, with its number. It is cut behind the look for secrets, which finds no half of
 * one. */
static void add_line(struct tw_buf *b, const struct twin_redactor *safe, const char *line, size_t n,
                     unsigned long number, bool meant)
{
    while (n && (line[n - 1] == '\r' || line[n - 1] == ' '))
        n--;
    char *own = spread(line, n < LOOK_BYTES ? n : LOOK_BYTES);
    char *shown = own ? twin_redact(safe, own, NULL) : NULL;
    if (!shown) {
        b->failed = TWIN_ENOMEM;
    } else {
        const bool cut = n > LOOK_BYTES || strlen(shown) > LINE_BYTES;
        tw_buf_printf(b, "%s%5lu  %.*s%s\n", meant ? ">" : " ", number, (int)LINE_BYTES, shown,
                      cut ? " ..." : "");
    }
    tw_free(shown);
    tw_free(own);
}

/* The lines around this one; NULL with *why: the file has no such line. */
static int cut_out(const char *text, size_t bytes, unsigned long line, struct tw_excerpt *out)
{
    struct tw_buf b = {0};
    unsigned long number = 1, first = line > AROUND ? line - AROUND : 1;
    struct twin_redactor *safe = twin_redactor_without_key();
    for (size_t at = 0; safe && at < bytes && number <= line + AROUND; number++) {
        const char *end = memchr(text + at, '\n', bytes - at);
        const size_t n = end ? (size_t)(end - text) - at : bytes - at;
        if (number >= first)
            add_line(&b, safe, text + at, n, number, number == line);
        at += n + 1;
    }
    twin_redactor_close(safe);
    if (!safe || b.failed) {
        tw_buf_free(&b);
        return TWIN_ENOMEM;
    }
    if (line == 0 || number <= line) {
        tw_buf_free(&b);
        out->why = "it has no such line";
        return 0;
    }
    out->lines = tw_buf_steal(&b);
    return out->lines ? 0 : TWIN_ENOMEM;
}

int tw_excerpt_of(const struct twin_run *run, const char *site, struct tw_excerpt *out)
{
    struct tw_buf file = {0};
    struct recorded r = {.path = NULL};
    json_t *world = NULL;
    unsigned long line = 0;
    size_t bytes = 0;
    *out = (struct tw_excerpt){.why = ""};
    if (!tw_source_line(site, &file, &line)) {
        const int failed = file.failed;
        tw_buf_free(&file);
        return failed;
    }
    out->file = tw_buf_steal(&file);
    int rc = out->file ? 0 : TWIN_ENOMEM;
    if (rc == 0 && twin_provenance_load(run->dir, &world, NULL) != 0)
        out->why = "what surrounded the run was not recorded";
    else if (rc == 0 && (rc = find_recorded(run, world, out->file, &r)) == 0 && !r.path)
        out->why = "no digest of it was recorded, so that nobody can tell whether it is still what "
                   "ran";
    char *text = rc == 0 && r.path ? read_recorded(&r, &bytes, &out->why) : NULL;
    if (text)
        rc = cut_out(text, bytes, line, out);
    tw_free(text);
    tw_free(r.path);
    json_decref(world);
    return rc;
}

void tw_excerpt_free(struct tw_excerpt *x)
{
    tw_free(x->file);
    tw_free(x->lines);
    *x = (struct tw_excerpt){.file = NULL};
}

bool tw_page_excerpt(struct twin_page *p, const struct twin_run *run, const char *site,
                     const char *who)
{
    struct tw_excerpt x;
    const int rc = tw_excerpt_of(run, site, &x);
    const bool said = rc != 0 || x.file;
    if (rc != 0)
        p->body.failed = TWIN_ENOMEM;
    else if (x.lines) {
        twin_page_heading(p, "What stands there?");
        twin_page_small(p, "%s, as it was in %s (by its digest).", x.file, who);
        twin_page_code(p, x.lines);
    } else if (x.file) {
        twin_page_small(p, "The lines of %s are not shown: %s.", x.file, x.why);
    }
    tw_excerpt_free(&x);
    return said;
}
