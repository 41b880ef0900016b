/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data that the command names: what each file or folder says of itself (DVC, Git LFS, a Hugging
 * Face snapshot), and enough to see that it has changed. The digests of its contents are a
 * snapshot's (twinrun snapshot): reading a data set here would cost more than the job.
 */
#include "provenance_inside.h"

#include "base.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How many data sets are listed, and up to which size a file is hashed here. */
enum { ITEMS_MAX = 50, SMALL = 1 << 20 };

/* .../datasets--x--y/snapshots/<commit>/...: the repository and its revision. NULL: no such
 * path. */
static json_t *hugging_face(const char *real)
{
    const char *at = strstr(real, "/snapshots/"), *repo = NULL;
    if (!at)
        return NULL;
    for (const char *p = at; p > real && !repo; p--)
        if (p[-1] == '/')
            repo = p;
    const char *commit = at + strlen("/snapshots/");
    size_t n = strcspn(commit, "/");
    if (!repo || n != 40)
        return NULL;
    return json_pack("{s:s, s:s#, s:s#}", "kind", "hugging-face", "repository", repo,
                     (int)(at - repo), "revision", commit, (int)n);
}

/* The pointer file that Git LFS leaves where the content was not fetched. */
static json_t *lfs(const char *path, const struct stat *st)
{
    char *text = S_ISREG(st->st_mode) && st->st_size < 1024 ? tw_pv_read(path, 1024) : NULL;
    const char *oid = text && tw_starts(text, "version https://git-lfs")
                          ? strstr(text, "oid sha256:")
                          : NULL;
    json_t *o = oid ? json_pack("{s:s, s:s#}", "kind", "git-lfs-pointer", "sha256", oid + 11,
                                (int)strcspn(oid + 11, "\n"))
                    : NULL;
    tw_free(text);
    return o;
}

/* data.dvc beside data: `md5: ...` in it names the content. */
static json_t *dvc(const char *path)
{
    char *beside = tw_printf("%.*s.dvc", (int)(strlen(path) - (tw_ends(path, "/") ? 1 : 0)), path);
    char *text = beside ? tw_pv_read(beside, SMALL) : NULL;
    const char *md5 = text ? strstr(text, "md5: ") : NULL;
    json_t *o = md5 ? json_pack("{s:s, s:s#}", "kind", "dvc", "md5", md5 + 5,
                                (int)strcspn(md5 + 5, "\r\n"))
                    : NULL;
    tw_free(text);
    tw_free(beside);
    return o;
}

/* What an argument names, if it is a file or a folder: who names its content, and enough to see
 * that it changed (size, time, for small ones a digest). NULL: neither. */
static json_t *data_item(struct tw_collector *c, const char *path)
{
    struct stat st;
    char real[4096];
    if (stat(path, &st) != 0 || !(S_ISDIR(st.st_mode) || S_ISREG(st.st_mode)))
        return NULL;
    json_t *o = json_pack("{s:o, s:s}", "path", tw_pv_text(c, path), "kind",
                          S_ISDIR(st.st_mode) ? "folder" : "file");
    json_t *id = NULL;
    if (realpath(path, real)) {
        id = hugging_face(real);
        if (strcmp(real, path) != 0)
            tw_pv_put(o, "real_path", tw_pv_text(c, real));
    }
    id = id ? id : lfs(path, &st);
    id = id ? id : dvc(path);
    tw_pv_put(o, "identity", id);
    if (S_ISREG(st.st_mode)) {
        tw_pv_put(o, "bytes", json_integer((json_int_t)st.st_size));
        tw_pv_put(o, "mtime_ns",
                  json_integer((json_int_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec));
        char hex[65];
        uint64_t bytes;
        const char *why;
        if (st.st_size <= SMALL && tw_pv_sha256(path, SMALL, 0, hex, &bytes, &why) == 0)
            tw_pv_put(o, "sha256", json_string(hex));
    }
    return o;
}

/* SCHEME://..., a place that is not on this disk. */
static bool is_address(const char *s)
{
    const char *sign = strstr(s, "://");
    return sign && sign > s &&
           strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-") ==
               (size_t)(sign - s);
}

/* Configuration files have their own place, and a digest of what they say. */
static bool is_config(const struct tw_collector *c, const char *path)
{
    json_t *item;
    size_t i;
    json_array_foreach (json_object_get(json_object_get(c->root, "config"), "files"), i, item)
        if (json_string_value(json_object_get(item, "path")) &&
            strcmp(json_string_value(json_object_get(item, "path")), path) == 0)
            return true;
    return false;
}

/* Options may name data behind "=". The script itself is code, configurations are in their own
 * part. */
json_t *tw_pv_data(struct tw_collector *c)
{
    json_t *o = json_object();
    json_t *named = json_array();
    json_t *verified = json_array();
    json_t *entry = json_object_get(json_object_get(c->root, "programs"), "entry");
    const char *script = json_string_value(json_object_get(entry, "path"));
    for (size_t i = 1; i < c->run->argc && json_array_size(named) < ITEMS_MAX; i++) {
        const char *word = c->run->argv[i], *sign = strchr(word, '=');
        const char *path = sign && (word[0] == '-' || strchr(sign, '/')) ? sign + 1 : word;
        if (is_address(path))
            tw_pv_add(named,
                      json_pack("{s:s, s:o}", "kind", "address", "path", tw_pv_text(c, path)));
        else if (*path && *path != '-' && !(script && strcmp(path, script) == 0) &&
                 !is_config(c, path))
            tw_pv_add(named, data_item(c, path));
    }
    tw_pv_put(o, "named", named);
    for (size_t i = 0; i < c->run->data_count; i++) {
        const struct twin_run_data *d = &c->run->data[i];
        tw_pv_add(verified,
                  json_pack("{s:o, s:o, s:s, s:I, s:I}", "folder", tw_json_bytes(d->folder),
                            "manifest", tw_json_bytes(d->manifest), "root", d->root, "files",
                            (json_int_t)d->files, "bytes", (json_int_t)d->bytes));
    }
    tw_pv_put(o, "verified", verified);
    return o;
}
