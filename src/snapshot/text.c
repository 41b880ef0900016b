/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Manifests as text that `sha256sum -c` reads too: docs/format/snapshot.md. What sha256sum does not
 * know (sizes, links, empty folders) stands in comments before the line it belongs to.
 *
 * Reading takes exactly what writing makes. The last line is a digest of all above it, the head
 * repeats the counts and the root; all three are checked, so that a damaged manifest says so before
 * it is held against data. It may still be anybody's bytes: lines, numbers and paths have limits.
 */
#include "snapshot_inside.h"

#include "base.h"
#include "sha256.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_LINE "# twinrun.snapshot/"
#define LAST_LINE "# end sha256:"
#define MOST_BYTES ((size_t)1 << 30)

/* ---- writing */

/* How a character is written that would break a line. */
static const char *escape_of(char c)
{
    if (c == '\n')
        return "\\n";
    return c == '\r' ? "\\r" : "\\\\";
}

/* A path as sha256sum writes it; put_entry() marks a line with such an escape by a backslash. */
static void put_escaped(struct tw_buf *b, const char *s)
{
    for (size_t n; *s; s += n) {
        n = strcspn(s, "\\\n\r");
        tw_buf_append(b, s, n);
        if (s[n]) {
            tw_buf_puts(b, escape_of(s[n]));
            n++;
        }
    }
}

static void put_named(struct tw_buf *b, const char *what, const char *s)
{
    tw_buf_puts(b, what);
    put_escaped(b, s);
    tw_buf_puts(b, "\n");
}

/* One entry: two lines for a file, and one before them where it is reached by a link. */
static void put_entry(struct tw_buf *b, const struct twin_snapshot_entry *e)
{
    char hex[65];
    if (e->kind == TWIN_SNAPSHOT_FOLDER) {
        put_named(b, "#folder ", e->path);
        return;
    }
    if (e->target)
        put_named(b, "#to ", e->target);
    if (e->kind == TWIN_SNAPSHOT_LINK) {
        put_named(b, "#link ", e->path);
        return;
    }
    tw_hex(e->sha256, sizeof e->sha256, hex);
    tw_buf_printf(b, "#file %o %llu\n%s%s  ", e->mode, (unsigned long long)e->bytes,
                  strpbrk(e->path, "\\\n\r") ? "\\" : "", hex);
    /* "-" alone is standard input to sha256sum */
    put_named(b, strcmp(e->path, "-") == 0 ? "./" : "", e->path);
}

bool twin_snapshot_is(const char *path, const char *head)
{
    return tw_starts(head, FIRST_LINE) || tw_ends(path, ".snapshot");
}

/* The digest of the last line is over all lines before it, so they are put together first. */
int twin_snapshot_write(const struct twin_snapshot *s, const char *path, struct twin_error *err)
{
    struct tw_buf b = {.cap = MOST_BYTES};
    tw_buf_printf(&b,
                  FIRST_LINE
                  "1\n# root sha256:%s\n# holds %llu files, %llu links, %llu folders, %llu bytes\n",
                  s->root, (unsigned long long)s->files, (unsigned long long)s->links,
                  (unsigned long long)s->folders, (unsigned long long)s->bytes);
    if (s->follow)
        tw_buf_puts(&b, "# follow\n");
    for (size_t i = 0; i < s->exclude_count; i++)
        put_named(&b, "# exclude ", s->exclude[i]);
    for (size_t i = 0; i < s->id_count; i++) {
        tw_buf_printf(&b, "# id %s %s ", s->id[i].scheme, s->id[i].value);
        put_named(&b, "", s->id[i].path);
    }
    for (size_t i = 0; i < s->count; i++)
        put_entry(&b, &s->entry[i]);
    char hex[65];
    if (!b.failed && tw_sha256_of(b.data, b.len, hex))
        tw_buf_printf(&b, LAST_LINE "%s\n", hex);
    int rc = b.failed
                 ? twin_error_set(err, b.failed, "%s: the manifest would be larger than %zu MiB",
                                  path, MOST_BYTES >> 20)
                 : tw_write_file_atomic(path, b.data, b.len, err);
    tw_buf_free(&b);
    return rc;
}

/* ---- reading */

/* Where the reading is, and what a comment said about the line that follows. The list of entries
 * has room for `room` of them. */
struct reader {
    const char *name, *at, *end;
    size_t line;
    struct twin_snapshot *s;
    size_t room;
    char *target; /* of "#to", for the next entry */
    bool is_file; /* "#file" was read, its other line is to come */
    uint32_t mode;
    uint64_t bytes;
    struct twin_error *err;
};

/* Says with file and line what was expected and what stands there, 60 bytes of it. TWIN_EFORMAT. */
static int bad_line(struct reader *r, const char *expected, const char *found, size_t n)
{
    char *shown = tw_printable(found, n < 60 ? n : 60);
    const char *more = n > 60 ? "..." : "";
    int rc = twin_error_set(r->err, TWIN_EFORMAT, "%s, line %zu: expected %s, found \"%s%s\"",
                            r->name, r->line, expected, shown ? shown : "?", more);
    tw_free(shown);
    return rc;
}

static bool starts(const char *line, size_t n, const char *prefix)
{
    const size_t m = strlen(prefix);
    return n >= m && memcmp(line, prefix, m) == 0;
}

/* What stands behind a backslash for itself, or for the end of a line. */
static char unescaped_of(char c)
{
    if (c == 'n')
        return '\n';
    return c == 'r' ? '\r' : '\\';
}

/* Text with \\ \n \r taken back; NULL: bad escape, or a NUL, or (err set) no memory. */
static char *unescaped(struct reader *r, const char *p, size_t n)
{
    char *out = tw_malloc(n + 1), *q = out;
    if (!out) {
        tw_no_memory(r->err, "reading %s", r->name);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        bool fine = p[i] != '\0' && p[i] != '\r';
        if (p[i] == '\\') {
            i++;
            fine = i < n && (p[i] == 'n' || p[i] == 'r' || p[i] == '\\');
            *q++ = fine ? unescaped_of(p[i]) : '\0';
        } else {
            *q++ = p[i];
        }
        if (!fine) {
            tw_free(out);
            return NULL;
        }
    }
    *q = '\0';
    return out;
}

/* Adds an entry with its path, which must come behind the one before: a list that is sorted and has
 * nothing twice is what comparing rests on. Takes over r->target. */
static int add_entry(struct reader *r, enum twin_snapshot_kind kind, const char *text, size_t n)
{
    struct twin_snapshot *s = r->s;
    char *path = unescaped(r, text, n);
    if (!path)
        return r->err->code ? r->err->code
                            : bad_line(r, "a path (with \\n, \\r and \\\\ for what they stand for)",
                                       text, n);
    int rc = 0;
    if (tw_path_fault(path, strlen(path), TW_PATH_ANY_NAME | TW_PATH_GIT))
        rc = bad_line(r, "a path below the folder, without . and ..", text, n);
    else if (s->count && strcmp(s->entry[s->count - 1].path, path) >= 0)
        rc = bad_line(r, "paths in the order of their bytes, each once", text, n);
    else if (s->count >= TW_SNAPSHOT_MOST)
        rc = twin_error_set(r->err, TWIN_ELIMIT, "%s: more than %d files", r->name,
                            TW_SNAPSHOT_MOST);
    if (rc == 0 && s->count == r->room) {
        const size_t room = r->room ? r->room * 2 : 64;
        void *e = tw_reallocarray(s->entry, room, sizeof *s->entry);
        if (!e)
            rc = tw_no_memory(r->err, "reading %s", r->name);
        else
            s->entry = e, r->room = room;
    }
    if (rc) {
        tw_free(path);
        return rc;
    }
    s->entry[s->count++] = (struct twin_snapshot_entry){
        .kind = kind, .path = path, .target = r->target};
    r->target = NULL;
    return 0;
}

/* The line of sha256sum, which "#file" was before. A backslash at its start says that the name has
 * escapes, and only then may it. */
static int file_line(struct reader *r, const char *line, size_t n)
{
    unsigned char digest[32];
    const bool escaped = n && line[0] == '\\';
    const char *p = line + escaped, *name = p + 66;
    const bool fine = r->is_file && n - escaped > 66 && memcmp(p + 64, "  ", 2) == 0 &&
                      tw_unhex(p, sizeof digest, digest);
    size_t m = fine ? n - (size_t)(name - line) : 0;
    if (m == 3 && memcmp(name, "./-", 3) == 0) {
        name += 2;
        m = 1;
    }
    if (!fine || escaped != (memchr(name, '\\', m) != NULL))
        return bad_line(r,
                        r->is_file ? "SHA-256 in 64 small hex digits, two spaces, a path"
                                   : "#file MODE BYTES before each SHA-256",
                        line, n);
    int rc = add_entry(r, TWIN_SNAPSHOT_FILE, name, m);
    if (rc == 0) {
        struct twin_snapshot_entry *e = &r->s->entry[r->s->count - 1];
        e->mode = r->mode;
        e->bytes = r->bytes;
        memcpy(e->sha256, digest, sizeof digest);
        r->is_file = false;
    }
    return rc;
}

/* A number of that base, ended by `end`, or by the line's end when `end` is 0. */
static bool read_number(const char **p, const char *stop, unsigned base, uint64_t most, char end,
                        uint64_t *out)
{
    const char *from = *p;
    uint64_t v = 0;
    for (; *p < stop && **p >= '0' && (unsigned)(**p - '0') < base; ++*p) {
        const unsigned d = (unsigned)(**p - '0');
        if (v > (most - d) / base)
            return false;
        v = v * base + d;
    }
    *out = v;
    if (*p == from || (*from == '0' && *p - from > 1))
        return false;
    if (end == '\0')
        return *p == stop;
    return *p < stop && *(*p)++ == end;
}

/* One line of an entry. "#to" stands before the file or link that it belongs to. */
static int entry_line(struct reader *r, const char *line, size_t n)
{
    uint64_t mode;
    const char *p = line + 6, *stop = line + n;
    if (r->is_file || line[0] != '#')
        return file_line(r, line, n);
    if (starts(line, n, "#file ")) {
        if (!read_number(&p, stop, 8, 07777, ' ', &mode) ||
            !read_number(&p, stop, 10, INT64_MAX, '\0', &r->bytes))
            return bad_line(r, "#file MODE BYTES", line, n);
        r->mode = (uint32_t)mode;
        r->is_file = true;
        return 0;
    }
    if (starts(line, n, "#to ") && !r->target) {
        r->target = unescaped(r, line + 4, n - 4);
        if (r->target)
            return 0;
        return r->err->code ? r->err->code : bad_line(r, "where a link leads to", line, n);
    }
    if (starts(line, n, "#link ") && r->target)
        return add_entry(r, TWIN_SNAPSHOT_LINK, line + 6, n - 6);
    if (starts(line, n, "#folder ") && !r->target)
        return add_entry(r, TWIN_SNAPSHOT_FOLDER, line + 8, n - 8);
    return bad_line(r, "#file, #folder, or #to before #link", line, n);
}

/* "SCHEME VALUE PATH"; the path may be empty and may have blanks. */
static int id_line(struct reader *r, const char *line, size_t n)
{
    char *text = unescaped(r, line, n);
    char *value = text ? strchr(text, ' ') : NULL;
    char *path = value ? strchr(value + 1, ' ') : NULL;
    if (!text && r->err->code)
        return r->err->code;
    int rc = 0;
    if (!path || r->s->id_count >= 100000) {
        rc = bad_line(r, "# id SCHEME VALUE PATH (at most 100,000)", line, n);
    } else {
        *value = *path = '\0';
        if (tw_snapshot_add_id(r->s, text, value + 1, path + 1) != 0)
            rc = tw_no_memory(r->err, "reading %s", r->name);
    }
    tw_free(text);
    return rc;
}

static int exclude_line(struct reader *r, const char *line, size_t n)
{
    struct twin_snapshot *s = r->s;
    if (s->exclude_count >= 1000)
        return bad_line(r, "at most 1,000 patterns", line, n);
    char *pattern = unescaped(r, line, n);
    char **list = pattern ? tw_reallocarray(s->exclude, s->exclude_count + 2, sizeof *list) : NULL;
    if (!list) {
        tw_free(pattern);
        return r->err->code || pattern ? tw_no_memory(r->err, "reading %s", r->name)
                                       : bad_line(r, "a pattern", line, n);
    }
    s->exclude = list;
    list[s->exclude_count++] = pattern;
    list[s->exclude_count] = NULL;
    return 0;
}

/* The next line, without its end. False: there is none. */
static bool next_line(struct reader *r, const char **line, size_t *n)
{
    if (r->at == r->end)
        return false;
    const char *stop = memchr(r->at, '\n', (size_t)(r->end - r->at));
    r->line++;
    *line = r->at;
    *n = (size_t)((stop ? stop : r->end) - r->at);
    r->at = stop ? stop + 1 : r->end;
    return true;
}

/* "# root sha256:HEX" and what it holds; to be compared with the entries at the end. */
static int read_head(struct reader *r, char root[65], uint64_t holds[4])
{
    static const char *const words[] = {" files, ", " links, ", " folders, ", " bytes"};
    const char *line = "";
    size_t n = 0;
    if (!next_line(r, &line, &n) || !starts(line, n, FIRST_LINE))
        return bad_line(r, "\"" FIRST_LINE "1\" (is this a snapshot's manifest?)", line, n);
    if (n != strlen(FIRST_LINE "1") || line[n - 1] != '1')
        return twin_error_set(r->err, TWIN_EVERSION,
                              "%s: a manifest of another version than 1: a newer twinrun reads it",
                              r->name);
    bool fine = next_line(r, &line, &n) && n == strlen("# root sha256:") + 64 &&
                starts(line, n, "# root sha256:");
    if (!fine)
        return bad_line(r, "# root sha256: and 64 hex digits", line, n);
    memcpy(root, line + n - 64, 64);
    root[64] = '\0';
    fine = next_line(r, &line, &n) && starts(line, n, "# holds ");
    const char *p = line + 8, *stop = line + n;
    for (int i = 0; i < 4 && fine; i++) {
        fine = read_number(&p, stop, 10, INT64_MAX, ' ', &holds[i]) &&
               starts(p - 1, (size_t)(stop - p) + 1, words[i]);
        p += fine ? strlen(words[i]) - 1 : 0;
    }
    return fine && p == stop ? 0
                             : bad_line(r, "# holds N files, N links, N folders, N bytes", line, n);
}

/* Takes the last line off, which is the digest of those above it. */
static int tail(struct reader *r)
{
    const size_t n = strlen(LAST_LINE) + 65, all = (size_t)(r->end - r->at);
    char hex[65];
    if (all < n || memcmp(r->end - n, LAST_LINE, strlen(LAST_LINE)) != 0 || r->end[-1] != '\n' ||
        (all > n && r->end[-(long)n - 1] != '\n'))
        return twin_error_set(r->err, TWIN_EFORMAT,
                              "%s: expected \"" LAST_LINE
                              "\" and 64 hex digits as the last line: was it cut off?",
                              r->name);
    if (!tw_sha256_of(r->at, all - n, hex))
        return twin_error_set(r->err, TWIN_ENOMEM, "%s: SHA-256 failed", r->name);
    if (memcmp(hex, r->end - 65, 64) != 0)
        return twin_error_set(r->err, TWIN_EFORMAT,
                              "%s: its last line says sha256:%.64s, the lines above give %s: it "
                              "was edited or damaged",
                              r->name, r->end - 65, hex);
    r->end -= n;
    return 0;
}

/* Head, tail, and then what is between them. Entries end the head: what belongs there is refused
 * behind the first of them. */
static int parse_manifest(struct reader *r)
{
    char root[65];
    uint64_t holds[4] = {0};
    const char *line;
    size_t n;
    bool entries = false;
    const char *from = r->at;
    int rc = read_head(r, root, holds);
    const char *below = r->at;
    r->at = from;
    rc = rc ? rc : tail(r);
    r->at = below;
    while (rc == 0 && next_line(r, &line, &n)) {
        if (!entries && starts(line, n, "# exclude "))
            rc = exclude_line(r, line + 10, n - 10);
        else if (!entries && starts(line, n, "# id "))
            rc = id_line(r, line + 5, n - 5);
        else if (!entries && n == 8 && starts(line, n, "# follow"))
            r->s->follow = true;
        else
            entries = true, rc = entry_line(r, line, n);
    }
    if (rc == 0 && (r->is_file || r->target))
        rc = twin_error_set(r->err, TWIN_EFORMAT, "%s ends in the middle of an entry (line %zu)",
                            r->name, r->line);
    rc = rc ? rc : tw_snapshot_seal(r->s, r->err);
    if (rc == 0 && (holds[0] != r->s->files || holds[1] != r->s->links ||
                    holds[2] != r->s->folders || holds[3] != r->s->bytes))
        rc = twin_error_set(r->err, TWIN_EFORMAT,
                            "%s: its head says %llu files, %llu links, %llu folders, %llu bytes, "
                            "its lines %llu, %llu, %llu, %llu: was it cut off or edited?",
                            r->name, (unsigned long long)holds[0], (unsigned long long)holds[1],
                            (unsigned long long)holds[2], (unsigned long long)holds[3],
                            (unsigned long long)r->s->files, (unsigned long long)r->s->links,
                            (unsigned long long)r->s->folders, (unsigned long long)r->s->bytes);
    if (rc == 0 && strcmp(root, r->s->root) != 0)
        rc = twin_error_set(r->err, TWIN_EFORMAT,
                            "%s: its root says %s, its lines give %s: it was edited or damaged",
                            r->name, root, r->s->root);
    return rc;
}

int twin_snapshot_parse(const char *data, size_t bytes, const char *name, struct twin_snapshot *out,
                        struct twin_error *err)
{
    struct twin_error own = TWIN_ERROR_INIT;
    struct reader r = {
        .name = name, .at = data, .end = data + bytes, .s = out, .err = err ? err : &own};
    *out = (struct twin_snapshot){0};
    int rc = parse_manifest(&r);
    tw_free(r.target);
    if (rc)
        twin_snapshot_free(out);
    return rc;
}

int twin_snapshot_read(const char *path, struct twin_snapshot *out, struct twin_error *err)
{
    char *data = NULL;
    size_t bytes;
    int rc = tw_read_file(path, MOST_BYTES, &data, &bytes, err);
    *out = (struct twin_snapshot){0};
    rc = rc ? rc : twin_snapshot_parse(data, bytes, path, out, err);
    tw_free(data);
    return rc;
}
