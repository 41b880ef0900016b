/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of the code one by one: untracked ones, programs that were built from it, what --code
 * names; and outside a repository the script with the modules that stand beside it. Only a file
 * whose digest the run recorded is known to be what ran.
 */
#include "pack.h"
#include "provenance_inside.h"

#include "base.h"

#include <ctype.h>
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

/* Most files that --code gives, folders inside of each other, bytes of a file that is searched for
 * secrets or imports, modules that a script imports. */
enum { TREE_MAX = 20000, DEPTH_MAX = 32, SCAN_MAX = 4 << 20, IMPORTS_MAX = 2000 };

bool tw_pack_has_file(const json_t *area, const char *path)
{
    json_t *f;
    size_t i;
    json_array_foreach (json_object_get(area, "files"), i, f)
        if (strcmp(tw_pk_text(f, "path"), path) == 0)
            return true;
    return false;
}

/* A file is suspicious by its name, or by a line that looks like a secret (src/base/secret.c).
 * Binary files, files above SCAN_MAX and lines from 8,192 bytes on are not searched. */
bool tw_pack_is_secret(const char *path)
{
    static const char *const names[] = {
        ".env",    "*.env",   ".env.*",      "*.pem",      "*.key",         "*.p12",
        "*.pfx",   "id_rsa*", "id_ed25519*", "id_ecdsa*",  "*credentials*", ".netrc",
        ".pypirc", ".npmrc",  "*secret*",    "*.keystore", "redaction.key", NULL};
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    /* by its name */
    for (const char *const *p = names; *p; p++)
        if (tw_glob(*p, base))
            return true;
    /* files in which values stand without quotes: what follows the name of a secret is one */
    static const char *const unquoted[] = {"*.yaml", "*.yml",        "*.ini",  "*.cfg",
                                           "*.conf", "*.properties", "*.toml", NULL};
    char *text;
    size_t n;
    bool found = false, plain = false;
    /* by what is in it, line by line */
    for (const char *const *p = unquoted; *p; p++)
        plain |= tw_glob(*p, base);
    if (tw_read_file(path, SCAN_MAX, &text, &n, NULL) != 0)
        return false; /* larger: no place where secrets are kept */
    if (!memchr(text, '\0', n))
        for (char *line = text, *end = text + n; line < end && !found;) {
            char *stop = memchr(line, '\n', (size_t)(end - line));
            size_t length = (size_t)((stop ? stop : end) - line), at = 0, from, to;
            int pending = TW_SECRET_IN_FILE, again = TW_SECRET_IN_FILE;
            while (length < 8192 && !found &&
                   tw_secret_next(&pending, line, length, &at, &from, &to)) {
                /* Programs speak of tokens all the time: only what stands in quotes or in an
                 * address, and known shapes, count. */
                bool quoted = from > 0 && (line[from - 1] == '"' || line[from - 1] == '\'') &&
                              to < length && line[to] == line[from - 1] && to - from >= 6;
                bool address = from >= 3 && memcmp(line + from - 3, "://", 3) == 0;
                size_t alone = 0, f, t;
                found = quoted || address || plain ||
                        tw_secret_next(&again, line + from, to - from, &alone, &f, &t);
            }
            line += length + 1;
        }
    tw_free(text);
    return found;
}

/* role: as in the format ("untracked", "program", "script", "imported", "named"). A file that the
 * user named with --code is packed even when it seems to hold a secret, and programs are not
 * searched. sha256 NULL: any contents, and "recorded" is false. */
int tw_pack_file(struct tw_pack *p, json_t *area, const char *path, const char *sha256,
                 const char *role, struct twin_error *err)
{
    struct twin_error inner = TWIN_ERROR_INIT;
    struct stat st;
    char hex[65];
    if (tw_pack_has_file(area, path))
        return 0;
    char *from = tw_path_join(p->top, path), *place = tw_printf("data/code/files/%s", path);
    int rc = from && place ? 0 : TWIN_ENOMEM;
    bool named = strcmp(role, "named") == 0;
    /* reasons for which no file goes into a package, then the copy */
    if (rc == 0 && twin_home_holds(from))
        tw_pk_missing(&p->failed, area, "%s: lies in a home of twinrun's, which is never packed",
                      path);
    else if (rc == 0 && lstat(from, &st) == 0 && S_ISLNK(st.st_mode))
        tw_pk_missing(&p->failed, area, "%s: a symbolic link that git does not track", path);
    else if (rc == 0 && !named && strcmp(role, "program") != 0 && tw_pack_is_secret(from))
        tw_pk_missing(&p->failed, area,
                      "%s: seems to hold a secret; if it does not, name it with --code", path);
    else if (rc == 0) {
        rc = tw_bag_copy(&p->w, place, from, sha256, hex, &inner);
        if (rc == TWIN_EFORMAT) {
            tw_pk_missing(&p->failed, area, "%s (%s): %s", path, role, inner.message);
            rc = 0;
        } else if (rc == 0) {
            bool runs = stat(from, &st) == 0 && (st.st_mode & S_IXUSR);
            tw_pk_add(&p->failed, json_object_get(area, "files"),
                      json_pack("{s:s, s:s, s:s, s:b, s:b}", "path", path, "sha256", hex, "role",
                                role, "executable", runs, "recorded", sha256 != NULL));
        }
    }
    if (rc)
        twin_error_set(err, rc, "%s",
                       inner.code ? inner.message : "out of memory packing the code");
    tw_free(from);
    tw_free(place);
    return rc;
}

/* ---- --code */

/* A file, or a folder with all that is in it. Of imported folders only Python's files and those
 * without an ending are taken. count: files so far. */
static int put_tree(struct tw_pack *p, json_t *area, const char *real, const char *role, int depth,
                    size_t *count, struct twin_error *err)
{
    struct stat st;
    const char *below = tw_pk_below(real, p->top);
    int rc = 0;
    if (!below || lstat(real, &st) != 0 || twin_home_holds(real))
        return 0;
    if (S_ISREG(st.st_mode))
        return ++*count > TREE_MAX
                   ? twin_error_set(err, TWIN_ELIMIT, "--code: more than %d files", TREE_MAX)
                   : tw_pack_file(p, area, below, NULL, role, err);
    DIR *d = S_ISDIR(st.st_mode) && depth < DEPTH_MAX ? opendir(real) : NULL;
    for (struct dirent *e; d && rc == 0 && (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            strcmp(e->d_name, ".git") == 0 || strcmp(e->d_name, "__pycache__") == 0)
            continue;
        if (strcmp(role, "imported") == 0 && strchr(e->d_name, '.') && !tw_ends(e->d_name, ".py"))
            continue;
        char *path = tw_path_join(real, e->d_name);
        rc = path ? put_tree(p, area, path, role, depth + 1, count, err)
                  : tw_no_memory(err, "packing the code");
        tw_free(path);
    }
    if (d)
        closedir(d);
    return rc;
}

/* What --code names. It must lie below the folder that stands for the code, since that is where a
 * replay puts it. */
static int put_named(struct tw_pack *p, json_t *area, struct twin_error *err)
{
    int rc = 0;
    size_t count = 0;
    for (const char *const *c = p->o ? p->o->code : NULL; c && *c && rc == 0; c++) {
        char *real = tw_pk_real(".", *c);
        if (!real)
            rc = twin_error_set(err, TWIN_ENOENT, "--code %s: not there", *c);
        else if (!tw_pk_below(real, p->top))
            rc = twin_error_set(err, TWIN_EINVAL,
                                "--code %s: expected something below %s, where the job ran", *c,
                                p->top);
        else
            rc = put_tree(p, area, real, "named", 0, &count, err);
        tw_free(real);
    }
    return rc;
}

/* ---- what Python imports from the folder of the script */

/* Files and folders that were found to be imported, each once. next: the first one that was not
 * searched itself yet. */
struct imports {
    char *path[IMPORTS_MAX];
    size_t count, next;
};

/* Takes path; frees it when it is there already, or when there is no room. */
static void import_add(struct imports *q, char *path)
{
    for (size_t i = 0; path && i < q->count; i++)
        if (strcmp(q->path[i], path) == 0) {
            tw_free(path);
            return;
        }
    if (path && q->count < IMPORTS_MAX)
        q->path[q->count++] = path;
    else
        tw_free(path);
}

/* A module that a line names: dir/NAME.py, or the folder dir/NAME. Others are not beside the
 * script, so they belong to the environment. */
static void import_name(struct imports *q, const char *dir, const char *name, size_t n)
{
    struct stat st;
    /* a module is a file or a folder of that name */
    char *file = tw_printf("%s/%.*s.py", dir, (int)n, name);
    char *folder = tw_printf("%s/%.*s", dir, (int)n, name);
    if (file && stat(file, &st) == 0 && S_ISREG(st.st_mode)) {
        import_add(q, file);
        file = NULL;
    } else if (folder && stat(folder, &st) == 0 && S_ISDIR(st.st_mode)) {
        import_add(q, folder);
        folder = NULL;
    }
    tw_free(file);
    tw_free(folder);
}

/* Length of the name at s. Bytes of UTF-8 count as letters, as in Python. */
static size_t word_at(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && (isalnum((unsigned char)s[i]) || s[i] == '_' || (unsigned char)s[i] >= 0x80))
        i++;
    return i;
}

/* Finds names in "import a, b as c" and "from a import b". This is a search by words, not a parser:
 * it may find a line inside of a text, which costs no more than a file too many. */
static void scan_line(struct imports *q, const char *dir, const char *line, const char *end)
{
    while (line < end && (*line == ' ' || *line == '\t'))
        line++;
    bool from = end - line > 5 && memcmp(line, "from ", 5) == 0;
    if (!from && !(end - line > 7 && memcmp(line, "import ", 7) == 0))
        return;
    line += from ? 5 : 7;
    while (line < end) {
        while (line < end && (*line == ' ' || *line == '.' || *line == ','))
            line++;
        size_t n = word_at(line, (size_t)(end - line));
        if (n)
            import_name(q, dir, line, n);
        /* "from" names one module only; "import" may go on behind a comma */
        const char *comma = from ? NULL : memchr(line, ',', (size_t)(end - line));
        if (!comma)
            return;
        line = comma;
    }
}

/* Looks through the lines of a Python file. A folder, or a file above SCAN_MAX, is passed over. */
static void scan_file(struct imports *q, const char *dir, const char *path)
{
    char *text;
    size_t n;
    if (tw_read_file(path, SCAN_MAX, &text, &n, NULL) != 0)
        return;
    for (const char *line = text, *end = text + n; line < end;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        stop = stop ? stop : end;
        scan_line(q, dir, line, stop);
        line = stop + 1;
    }
    tw_free(text);
}

/* The modules that stand beside the script, and those which they import. Outside git the run did
 * not record their digests, so each one is also named as missing. */
static int put_imports(struct tw_pack *p, json_t *area, const char *script, struct twin_error *err)
{
    struct imports *q = tw_calloc(1, sizeof *q);
    char *dir = tw_strndup(script, (size_t)(strrchr(script, '/') - script));
    size_t count = 0, before = json_array_size(json_object_get(area, "files"));
    int rc = q && dir ? 0 : tw_no_memory(err, "packing the code");
    if (rc == 0) {
        /* the queue grows while it is worked off: modules import modules */
        scan_file(q, dir, script);
        for (; q->next < q->count && rc == 0; q->next++) {
            scan_file(q, dir, q->path[q->next]);
            rc = put_tree(p, area, q->path[q->next], "imported", 0, &count, err);
        }
    }
    json_t *files = json_object_get(area, "files");
    for (size_t i = before; rc == 0 && i < json_array_size(files); i++)
        tw_pk_missing(&p->failed, area,
                      "%s: imported by the script; outside git no digest of it was recorded, so it "
                      "may have changed since the run",
                      tw_pk_text(json_array_get(files, i), "path"));
    for (size_t i = 0; q && i < q->count; i++)
        tw_free(q->path[i]);
    tw_free(q);
    tw_free(dir);
    return rc;
}

/* ---- all */

/* Does `git ls-files` list anything for this path? When git fails, the answer is yes. */
static bool lists_something(const struct tw_pack *p, const char *which, const char *path)
{
    struct tw_ask a;
    bool ok = TW_GIT(&a, p->top, 30, "-c", "safe.directory=*", "--literal-pathspecs", "ls-files",
                     which, "--", path);
    bool some = ok && a.bytes > 0;
    tw_free(a.out);
    return some || !ok;
}

bool tw_pack_is_tracked(const struct tw_pack *p, const char *path, bool folder)
{
    if (!tw_pk_text(json_object_get(p->provenance, "code"), "top"))
        return false;
    return lists_something(p, "--cached", path) &&
           !(folder && lists_something(p, "--others", path));
}

/* A program or script of the run that lies in the code and is not in the commit: built from it, or
 * not added yet. */
static int put_started(struct tw_pack *p, json_t *area, const json_t *file, const char *role,
                       struct twin_error *err)
{
    const char *path = tw_pk_real_path(file), *sha256 = tw_pk_text(file, "sha256");
    /* a program of the system is not below top, and is of the environment */
    const char *below = path && path[0] == '/' && p->top ? tw_pk_below(path, p->top) : NULL;
    if (!below || !*below || tw_pack_is_tracked(p, below, false))
        return 0;
    if (!sha256) {
        tw_pk_missing(&p->failed, area, "%s: no digest of it was recorded", below);
        return 0;
    }
    return tw_pack_file(p, area, below, sha256, role, err);
}

/* In git: only what the repository does not hold. Outside git also the modules that the script
 * imports. */
int tw_pack_files(struct tw_pack *p, json_t *area, struct twin_error *err)
{
    json_t *programs = json_object_get(p->provenance, "programs");
    json_t *file;
    json_t *entry = json_object_get(programs, "entry");
    bool git = tw_pk_text(json_object_get(p->provenance, "code"), "top") != NULL;
    const char *kind = tw_pk_text(entry, "kind"), *real = tw_pk_real_path(entry);
    size_t i;
    int rc = 0;
    if (!p->top)
        return 0;
    json_array_foreach (json_object_get(programs, "files"), i, file)
        if (rc == 0)
            rc = put_started(p, area, file, "program", err);
    if (rc == 0 && kind && strcmp(kind, "file") == 0)
        rc = put_started(p, area, entry, "script", err);
    rc = rc ? rc : put_named(p, area, err);
    if (rc || git)
        return rc;
    if (kind && strcmp(kind, "file") == 0 && real && tw_pk_below(real, p->top))
        rc = put_imports(p, area, real, err);
    else if (json_array_size(json_object_get(area, "files")) == 0)
        tw_pk_missing(&p->failed, area,
                      "the command names no script or program below %s, and there is no git "
                      "repository: commit the code, or name it with --code",
                      p->top);
    return rc;
}
