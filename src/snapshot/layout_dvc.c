/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DVC: MD5 of files; a folder is the MD5 of the list of its files as Python writes JSON, and ".dir"
 * behind it. So the list has to be made byte for byte as DVC makes it, and a folder that differs
 * shows which of its files does only where DVC's cache has the old list.
 *
 * Paths in .dvc files are foreign: resolve_path() keeps them in the repository.
 */
#include "layout_inside.h"

#include "base.h"
#include "config_values.h"
#include "json_load.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A .dvc file or a list of DVC's cache that is larger is refused. */
enum { MOST_BYTES = 64 << 20 };

/* ---- .dvc and dvc.lock */

/* Tells of one item of deps or outs. Its hash counts only where it is an MD5; without a `hash` the
 * file is of DVC before 3, whose MD5 treats text in its own way. */
static int tell_item(json_t *v, const char *wdir, const char *name,
                     int (*each)(void *, const struct tw_dvc_out *), void *user,
                     struct twin_error *err)
{
    const char *path = json_string_value(json_object_get(v, "path"));
    const char *md5 = json_string_value(json_object_get(v, "md5"));
    const char *hash = json_string_value(json_object_get(v, "hash"));
    if (!path || !*path || strlen(path) != json_string_length(json_object_get(v, "path")))
        return twin_error_set(err, TWIN_EFORMAT, "%s: expected a path in each of deps and outs",
                              name);
    if (hash && strcmp(hash, "md5") != 0)
        md5 = NULL;
    return each(user, &(struct tw_dvc_out){path, wdir, md5, hash == NULL});
}

/* Tells of each item of a list, which may be missing. */
static int tell_list(json_t *o, const char *key, const char *wdir, const char *name,
                     int (*each)(void *, const struct tw_dvc_out *), void *user,
                     struct twin_error *err)
{
    json_t *a = json_object_get(o, key);
    int rc = a && !json_is_array(a)
                 ? twin_error_set(err, TWIN_EFORMAT, "%s: expected a list in %s", name, key)
                 : 0;
    for (size_t i = 0; rc == 0 && i < json_array_size(a); i++)
        rc = tell_item(json_array_get(a, i), wdir, name, each, user, err);
    return rc;
}

/* A .dvc file has its outs at the top, dvc.lock has deps and outs in each stage. */
int tw_dvc_read(const char *data, size_t n, const char *name, bool lock,
                int (*each)(void *, const struct tw_dvc_out *), void *user, struct twin_error *err)
{
    json_t *o = tw_config_from_yaml(data, n, name, err), *stages = json_object_get(o, "stages");
    int rc = 0;
    if (!o)
        rc = err->code;
    else if (!json_is_object(lock ? stages : o))
        rc = twin_error_set(err, TWIN_EFORMAT, "%s: expected %s, found something else", name,
                            lock ? "stages" : "outs");
    const char *key;
    json_t *stage;
    if (rc == 0 && !lock) {
        rc = !json_object_get(o, "outs")
                 ? twin_error_set(err, TWIN_EFORMAT, "%s: expected outs, found none", name)
                 : 0;
        rc = rc ? rc
                : tell_list(o, "outs", json_string_value(json_object_get(o, "wdir")), name, each,
                            user, err);
    } else if (rc == 0) {
        json_object_foreach (stages, key, stage) {
            rc = rc ? rc : tell_list(stage, "deps", NULL, name, each, user, err);
            rc = rc ? rc : tell_list(stage, "outs", NULL, name, each, user, err);
        }
    }
    json_decref(o);
    return rc;
}

/* ---- a folder's list */

/* The bytes of a code point of UTF-8, by its first one; 0: none begins so. */
static size_t bytes_of_code_point(uint32_t first)
{
    if (first < 0x80)
        return 1;
    if (first >= 0xC2 && first < 0xE0)
        return 2;
    if (first >= 0xE0 && first < 0xF0)
        return 3;
    return first >= 0xF0 && first < 0xF5 ? 4 : 0;
}

/* The next code point of valid UTF-8; *n bytes of it. 0: it is not valid. */
static uint32_t code_point(const unsigned char *p, size_t *n)
{
    const uint32_t c = p[0];
    *n = bytes_of_code_point(c);
    if (*n == 0)
        return 0;
    uint32_t v = *n == 1 ? c : c & (0xFFu >> (*n + 1));
    for (size_t i = 1; i < *n; i++) {
        if ((p[i] & 0xC0) != 0x80)
            return 0;
        v = v << 6 | (p[i] & 0x3Fu);
    }
    return (*n == 3 && (v < 0x800 || (v >= 0xD800 && v < 0xE000))) ||
                   (*n == 4 && (v < 0x10000 || v > 0x10FFFF))
               ? 0
               : v;
}

/* A string as Python's json.dumps writes it: ASCII, with surrogate pairs. False: it is no UTF-8. */
static bool put_string(struct tw_buf *b, const char *s)
{
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    tw_buf_puts(b, "\"");
    for (size_t n; *s; s += n) {
        const uint32_t c = code_point((const unsigned char *)s, &n);
        const char *known = c && c < 0x80 ? strchr(from, (int)c) : NULL;
        if (c == 0)
            return false;
        if (known)
            tw_buf_printf(b, "\\%c", to[known - from]);
        else if (c >= ' ' && c <= '~')
            tw_buf_append(b, s, 1);
        else if (c < 0x10000)
            tw_buf_printf(b, "\\u%04x", c);
        else
            tw_buf_printf(b, "\\u%04x\\u%04x", 0xD800 + ((c - 0x10000) >> 10),
                          0xDC00 + ((c - 0x10000) & 0x3FF));
    }
    tw_buf_puts(b, "\"");
    return true;
}

int tw_dvc_list(const struct tw_hash_item *item, size_t n, struct tw_buf *out,
                struct twin_error *err)
{
    char hex[33];
    bool first = true;
    tw_buf_puts(out, "[");
    for (size_t i = 0; i < n; i++) {
        if (item[i].skip)
            continue;
        tw_hex(item[i].digest, 16, hex);
        tw_buf_printf(out, "%s{\"md5\": \"%s\", \"relpath\": ", first ? "" : ", ", hex);
        first = false;
        if (!put_string(out, item[i].path)) {
            char *safe = tw_printable(item[i].path, strlen(item[i].path));
            int rc = twin_error_set(err, TWIN_EUNSUPPORTED,
                                    "%s: the name is not UTF-8, which DVC's lists are",
                                    safe ? safe : "?");
            tw_free(safe);
            return rc;
        }
        tw_buf_puts(out, "}");
    }
    tw_buf_puts(out, "]");
    return out->failed ? twin_error_set(err, out->failed, "the list of %zu files is too large", n)
                       : 0;
}

/* ---- holding data against it */

/* One .dvc or dvc.lock that is looked at, and where paths in it lead. */
struct dvc {
    struct tw_look *l;
    /*
     * of the repository: the folder with .dvc in it, else that of the file; absolute, without links
     */
    char *root;
    char *folder; /* of the file */
};

/* Is the way to a path below the root one of folders, as DVC wants it? A link on it leads
 * elsewhere. What is missing is fine. */
static bool without_links(const char *root, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? tw_strndup(path, (size_t)(slash - path)) : NULL;
    int top = folder ? open(root, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    int fd = top < 0 ? -1 : tw_open_below(top, folder, O_PATH | O_DIRECTORY);
    bool ok = !slash || fd >= 0 || (top >= 0 && errno == ENOENT);
    if (fd >= 0)
        close(fd);
    if (top >= 0)
        close(top);
    tw_free(folder);
    return ok;
}

/* root/a/../b as root/b; NULL: it leaves the root, by its parts or by a link, or no memory. */
static char *resolve_path(const struct dvc *d, const char *wdir, const char *path)
{
    char *joined = tw_printf("%s/%s/%s", d->folder, wdir ? wdir : ".", path);
    char *out = joined ? tw_calloc(strlen(joined) + 2, 1) : NULL;
    const bool relative = path[0] != '/' && !(wdir && wdir[0] == '/');
    size_t at = 0;
    for (char *p = joined, *part; out && (part = strsep(&p, "/"));) {
        if (strcmp(part, "..") == 0) {
            while (at > 0 && out[--at] != '/') {
            }
            out[at] = '\0';
        } else if (*part && strcmp(part, ".") != 0) {
            out[at++] = '/';
            memcpy(out + at, part, strlen(part) + 1);
            at += strlen(part);
        }
    }
    tw_free(joined);
    const size_t n = strlen(d->root);
    const char *below = out && relative && strncmp(out, d->root, n) == 0 &&
                                (out[n] == '/' || n == 1)
                            ? out + n + (n > 1)
                            : NULL;
    if (below && !tw_path_fault(below, strlen(below), TW_PATH_ANY_NAME) &&
        without_links(d->root, below))
        return out;
    tw_free(out);
    return NULL;
}

/* The list that DVC has in its cache for a folder; NULL: not there, or not what its name says. DVC
 * 3 keeps its cache one folder deeper. */
static json_t *cached_list(const struct dvc *d, const char *md5, bool text)
{
    unsigned char digest[16];
    char hex[33], *data = NULL;
    size_t n = 0;
    char *path = tw_printf("%s/.dvc/cache/%s%.2s/%s", d->root, text ? "" : "files/md5/", md5,
                           md5 + 2);
    json_t *out = NULL;
    if (path && tw_read_file(path, MOST_BYTES, &data, &n, NULL) == 0 &&
        EVP_Digest(data, n, digest, NULL, EVP_md5(), NULL) == 1) {
        tw_hex(digest, sizeof digest, hex);
        if (strncmp(hex, md5, 32) == 0)
            out = tw_json_load(data, n, JSON_REJECT_DUPLICATES, NULL);
    }
    tw_free(data);
    tw_free(path);
    return json_is_array(out) ? out : (json_decref(out), NULL);
}

/* Tells of one thing: an output, or a file in one that is a folder. */
static void tell_outcome(struct dvc *d, enum twin_layout_outcome outcome, const char *out,
                         const char *path, const char *expected, const char *found, uint64_t files,
                         uint64_t bytes, const char *why)
{
    char *shown = path ? tw_printf("%s/%s", out, path) : tw_strdup(out);
    tw_look_tell(d->l, &(struct twin_layout_result){outcome, shown ? shown : "?", "md5", expected,
                                                    found, files, bytes, why});
    tw_free(shown);
}

/* Says which of a folder's files differ, by the list that DVC has of them. `seen` begins as what
 * lies there; what the list names is taken out, the rest was added. */
static void name_files(struct dvc *d, const struct tw_dvc_out *out, json_t *all,
                       const struct tw_hash_item *item, size_t n)
{
    json_t *seen = json_object(), *v;
    size_t i;
    for (i = 0; i < n; i++)
        if (!item[i].skip) {
            char hex[33];
            tw_hex(item[i].digest, 16, hex);
            json_object_set_new(seen, item[i].path, json_string(hex));
        }
    json_array_foreach (all, i, v) {
        const char *relpath = json_string_value(json_object_get(v, "relpath"));
        const char *md5 = json_string_value(json_object_get(v, "md5"));
        const char *is = relpath ? json_string_value(json_object_get(seen, relpath)) : NULL;
        if (!relpath || !md5)
            continue;
        if (!is)
            tell_outcome(d, TWIN_LAYOUT_MISSING, out->path, relpath, md5, NULL, 0, 0, NULL);
        else if (strcmp(is, md5) != 0)
            tell_outcome(d, TWIN_LAYOUT_CHANGED, out->path, relpath, md5, is, 0, 0, NULL);
        if (is)
            json_object_set_new(seen, relpath, json_null());
    }
    const char *path;
    json_object_foreach (seen, path, v)
        if (json_is_string(v))
            tell_outcome(d, TWIN_LAYOUT_ADDED, out->path, path, NULL, json_string_value(v), 0, 0,
                         NULL);
    json_decref(seen);
}

/* Digests a folder's files, makes the list of them, and holds its digest against the .dvc. What DVC
 * itself leaves out is left out. */
static int look_at_folder(struct dvc *d, const struct tw_dvc_out *out, const char *full)
{
    char *exclude[] = {(char *)".git/", (char *)".git", (char *)".hg/", (char *)".dvc/", NULL};
    char hex[40] = "";
    struct twin_snapshot_options o = *d->l->o;
    struct tw_listing list;
    struct tw_buf text = {0};
    unsigned char digest[16];
    uint64_t bytes = 0, files = 0;
    o.not_this = NULL;
    o.follow = true;
    int rc = tw_listing_take(full, &o, exclude, &list, d->l->err);
    if (rc)
        return rc;
    struct tw_hash_item *item = tw_calloc(list.count + 1, sizeof *item);
    if (!item)
        rc = tw_no_memory(d->l->err, "for %zu files", list.count);
    if (rc == 0 && list.troubles)
        rc = twin_error_set(d->l->err, TWIN_EIO, "%s/%s", full,
                            list.first_trouble ? list.first_trouble : "?");
    for (size_t i = 0; i < list.count && rc == 0; i++) {
        item[i] = (struct tw_hash_item){.path = list.entry[i].path,
                                        .kind = out->text ? TW_HASH_MD5_TEXT : TW_HASH_MD5,
                                        .link = list.entry[i].target != NULL,
                                        .skip = list.entry[i].kind != TWIN_SNAPSHOT_FILE,
                                        .state = list.state[i]};
        files += !item[i].skip;
        bytes += list.entry[i].bytes;
    }
    rc = rc ? rc : tw_look_hash(d->l, full, item, list.count);
    rc = rc ? rc : tw_dvc_list(item, list.count, &text, d->l->err);
    if (rc == 0 && EVP_Digest(text.data, text.len, digest, NULL, EVP_md5(), NULL) != 1)
        rc = twin_error_set(d->l->err, TWIN_ENOMEM, "MD5 failed");
    if (rc == 0) {
        tw_hex(digest, sizeof digest, hex);
        strcat(hex, ".dir");
        json_t *all = strcmp(hex, out->md5) == 0 ? NULL : cached_list(d, out->md5, out->text);
        if (all)
            name_files(d, out, all, item, list.count);
        else
            tell_outcome(
                d, strcmp(hex, out->md5) == 0 ? TWIN_LAYOUT_SAME : TWIN_LAYOUT_CHANGED, out->path,
                NULL, out->md5, hex, files, bytes,
                strcmp(hex, out->md5) == 0
                    ? NULL
                    : "which of its files is in DVC's cache only, and that has no list of them");
        json_decref(all);
    }
    for (size_t i = 0; i < list.count && item; i++)
        tw_free(item[i].why);
    tw_free(item);
    tw_buf_free(&text);
    tw_listing_free(&list);
    return rc;
}

/* Digests one file, which lies below the last folder of its path. */
static int look_at_file(struct dvc *d, const struct tw_dvc_out *out, const char *full,
                        const struct stat *st)
{
    const char *slash = strrchr(full, '/');
    char hex[40], *dir = tw_strndup(full, (size_t)(slash - full) + (slash == full));
    struct tw_hash_item item = {.path = slash + 1,
                                .kind = out->text ? TW_HASH_MD5_TEXT : TW_HASH_MD5,
                                .link = true,
                                .state = tw_file_state(st)};
    int rc = dir ? tw_look_hash(d->l, dir, &item, 1)
                 : tw_no_memory(d->l->err, "looking at data of DVC");
    if (rc == 0) {
        tw_hex(item.digest, 16, hex);
        tell_outcome(d, strcmp(hex, out->md5) == 0 ? TWIN_LAYOUT_SAME : TWIN_LAYOUT_CHANGED,
                     out->path, NULL, out->md5, hex, 1, item.state.bytes, NULL);
    }
    tw_free(item.why);
    tw_free(dir);
    return rc;
}

/* One output: what it is called, whether it is there, whether it is what it was. */
static int look_at(void *user, const struct tw_dvc_out *out)
{
    struct dvc *d = user;
    struct stat st;
    const bool folder = out->md5 && tw_ends(out->md5, ".dir");
    char *full = resolve_path(d, out->wdir, out->path);
    int rc = 0;
    if (!full)
        tell_outcome(d, TWIN_LAYOUT_UNKNOWN, out->path, NULL, out->md5, NULL, 0, 0,
                     "outside of the repository, or behind a link: not read");
    else if (!out->md5 || tw_hex_span(out->md5) != 32 || strlen(out->md5) != (folder ? 36u : 32u))
        tell_outcome(d, TWIN_LAYOUT_UNKNOWN, out->path, NULL, NULL, NULL, 0, 0,
                     "it has no MD5 here: DVC checks it by another digest");
    else if (stat(full, &st) != 0)
        tell_outcome(d, TWIN_LAYOUT_MISSING, out->path, NULL, out->md5, NULL, 0, 0,
                     errno == ENOENT ? NULL : strerror(errno));
    else if (S_ISDIR(st.st_mode) != folder || (!folder && !S_ISREG(st.st_mode)))
        tell_outcome(d, TWIN_LAYOUT_CHANGED, out->path, NULL, out->md5, NULL, 0, 0,
                     folder ? "no longer a folder" : "no longer a file");
    else
        rc = folder ? look_at_folder(d, out, full) : look_at_file(d, out, full, &st);
    tw_free(full);
    return rc;
}

/* Does the folder hold a .dvc folder? */
static bool is_repository(const char *folder)
{
    struct stat st;
    char *path = tw_path_join(folder, ".dvc");
    const bool yes = path && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    tw_free(path);
    return yes;
}

/* The repository is the nearest folder above the file that has a .dvc in it. */
int tw_look_dvc(struct tw_look *l, const char *file)
{
    struct dvc d = {.l = l};
    char *data = NULL, *real = realpath(file, NULL), *slash = real ? strrchr(real, '/') : NULL;
    size_t n = 0;
    const bool lock = tw_ends(file, "dvc.lock");
    int rc = real ? tw_read_file(file, MOST_BYTES, &data, &n, l->err)
                  : twin_error_system(l->err, "cannot read %s", file);
    if (rc == 0) {
        d.folder = tw_strndup(real, (size_t)(slash - real) + (slash == real));
        d.root = d.folder ? tw_strdup(d.folder) : NULL;
        while (d.root && !is_repository(d.root) && strlen(d.root) > 1) {
            char *cut = strrchr(d.root, '/');
            cut[cut == d.root] = '\0';
        }
        if (d.root && !is_repository(d.root)) { /* none: what stands beside the file */
            tw_free(d.root);
            d.root = tw_strdup(d.folder);
        }
        rc = d.root ? tw_dvc_read(data, n, file, lock, look_at, &d, l->err)
                    : tw_no_memory(l->err, "looking at data of DVC");
    }
    tw_free(d.root);
    tw_free(d.folder);
    tw_free(data);
    free(real);
    return rc;
}
