/* SPDX-License-Identifier: Apache-2.0 */
/* Data for a replay: what the package holds, a folder that the user has, or what fetch.txt names.
 * Whatever it is, it is held against the snapshot before anything runs: a replay on other data
 * would say nothing. */
#include "unpack.h"
#include "provenance_inside.h"

#include "base.h"
#include "phrase.h"

#include "src/snapshot/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The area's file below data/, for messages. */
static const char WHERE[] = "data/data.json";

/* May this be the name of a folder below data/? As pack_data.c makes names. */
static bool name_ok(const char *name)
{
    return name && *name && strlen(name) < 64 &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") ==
               strlen(name);
}

/* ---- a folder of the user's */

/* "NAME=DIR" for this set; "DIR" alone when the package has one set. NULL: none was given. */
static const char *given_folder(const struct tw_unpack *u, const char *name, size_t sets)
{
    size_t n = strlen(name);
    for (const char *const *d = u->o->data; d && *d; d++) {
        if (strncmp(*d, name, n) == 0 && (*d)[n] == '=')
            return *d + n + 1;
        if (sets == 1 && !strchr(*d, '='))
            return *d;
    }
    return NULL;
}

/* The first three differences as a text, and how many there are. */
struct differences {
    struct tw_buf text;
    size_t count;
};

/* Modes do not count: an archive or a download may have changed them. */
static int add_difference(void *user, const struct twin_snapshot_difference *d)
{
    static const char *const words[] = {"added", "missing", "changed", "mode"};
    struct differences *x = user;
    if (d->change == TWIN_SNAPSHOT_MODE)
        return 0;
    const struct twin_snapshot_entry *entry = d->is ? d->is : d->was;
    if (x->count++ < 3)
        tw_buf_printf(&x->text, "%s%s %s", x->count > 1 ? ", " : "", entry->path, words[d->change]);
    return 0;
}

/* Takes a snapshot of folder and compares it with `was`. TWIN_EIO: they differ, and the message
 * names the first differences. */
static int hold_against(const struct twin_snapshot *was, const char *folder, struct twin_error *err)
{
    struct twin_snapshot_options o = {.exclude = NULL};
    struct twin_snapshot now;
    struct differences d = {{0}, 0};
    int rc = twin_snapshot_take_again(was, folder, &o, &now, err);
    if (rc)
        return rc;
    if (twin_snapshot_compare(was, &now, add_difference, &d)) {
        char *text = d.text.data ? tw_printable(d.text.data, d.text.len) : NULL;
        rc = twin_error_set(
            err, TWIN_EIO,
            "%s does not hold the data of the package (%zu difference%s: %s): nothing was run",
            folder, d.count, tw_plural_s(d.count), text ? text : "?");
        tw_free(text);
    }
    tw_buf_free(&d.text);
    twin_snapshot_free(&now);
    return rc;
}

/* ---- files out of the package, or from their addresses */

/* Where a file can be had that is not in the package; NULL: nowhere. */
static const struct twin_bag_fetch *to_fetch(const struct tw_unpack *u, const char *path)
{
    for (size_t i = 0; i < u->verdict->fetches; i++)
        if (strcmp(u->verdict->fetch[i].path, path) == 0)
            return &u->verdict->fetch[i];
    return NULL;
}

/* Fetches one file with curl to dir/name (`to`: the same as a path). No file becomes larger than
 * the manifest says, whatever the server sends: POSIX counts `ulimit -f` in blocks of 512 bytes.
 * What the file holds is compared afterwards. Only https, http and file are allowed, and no
 * redirection leads to a file. */
static int download(struct tw_unpack *u, const struct twin_bag_fetch *f, int dir, const char *name,
                    const char *to, struct twin_error *err)
{
    unlinkat(dir, name, 0); /* a link that the code has there would lead curl elsewhere */
    /* curl's own limit needs a server that says the length */
    static const char limited[] = "ulimit -f \"$1\" && shift && exec \"$@\"";
    char size[24], blocks[24];
    snprintf(size, sizeof size, "%llu", (unsigned long long)(f->bytes ? f->bytes : 1));
    snprintf(blocks, sizeof blocks, "%llu", (unsigned long long)(f->bytes / 512 + 1));
    /* --disable: no .curlrc of the user's; --globoff: brackets in an address are no patterns */
    const char *const argv[] = {"sh",
                                "-c",
                                limited,
                                "sh",
                                blocks,
                                "curl",
                                "--disable",
                                "--silent",
                                "--show-error",
                                "--fail",
                                "--location",
                                "--proto",
                                "=https,http,file",
                                "--proto-redir",
                                "=https,http",
                                "--max-redirs",
                                "5",
                                "--max-filesize",
                                size,
                                "--retry",
                                "2",
                                "--globoff",
                                "--output",
                                to,
                                "--url",
                                f->url,
                                NULL};
    struct tw_ask a = {.argv = argv, .dir = "/", .limit_s = 24 * 3600, .cap = 65536};
    tw_unpack_say(u, f->url);
    bool ok = tw_ask(&a);
    int rc = 0;
    if (!ok && a.missing)
        rc = twin_error_set(err, TWIN_EUNSUPPORTED,
                            "curl is not installed: it is needed to fetch the data");
    else if (!ok)
        rc = twin_error_set(err, TWIN_EIO, "%s: %s", f->url,
                            *a.complaint ? a.complaint : "curl could not fetch it");
    tw_free(a.out);
    return rc;
}

/* One entry of a snapshot: makes the folder or link, copies or fetches the file. root: descriptor
 * of the set's folder; folder: its path. */
static int put_entry(struct tw_unpack *u, const char *name, const struct twin_snapshot_entry *e,
                     int root, const char *folder, struct twin_error *err)
{
    if (!tw_path_ok(e->path))
        return tw_unpack_bad("data", "a snapshot whose paths stay inside its folder", err);
    const char *slash = strrchr(e->path, '/');
    char *parent = slash ? tw_strndup(e->path, (size_t)(slash - e->path)) : tw_strdup("");
    char *from = tw_printf("data/data/%s/%s", name, e->path);
    char *full = tw_path_join(folder, e->path);
    int rc = parent && from && full ? 0 : tw_no_memory(err, "unpacking the data");
    int dir = -1;
    const char *leaf = slash ? slash + 1 : e->path;
    const struct twin_bag_fetch *f = rc ? NULL : to_fetch(u, from);
    if (rc == 0)
        dir = tw_folder_below(root, e->kind == TWIN_SNAPSHOT_FOLDER ? e->path : parent);
    if (rc == 0 && dir < 0)
        rc = twin_error_system(err, "cannot make the folder of %s", full);
    else if (rc == 0 && e->kind == TWIN_SNAPSHOT_LINK) {
        /* a link of the data must stay inside of the set */
        if (!tw_path_link_ok(e->path, e->target))
            rc = tw_unpack_bad("data", "a snapshot whose links stay inside its folder", err);
        else if (symlinkat(e->target, dir, leaf) != 0 && errno != EEXIST)
            rc = twin_error_system(err, "cannot make the link %s", full);
    } else if (rc == 0 && e->kind == TWIN_SNAPSHOT_FILE)
        rc = f ? download(u, f, dir, leaf, full, err)
               : tw_unpack_file(u, from, root, e->path, e->mode & 0100, err);
    if (dir >= 0)
        close(dir);
    tw_free(parent);
    tw_free(from);
    tw_free(full);
    return rc;
}

static bool is_link(const struct twin_snapshot_entry *e)
{
    return e->kind == TWIN_SNAPSHOT_LINK;
}

/* Makes a whole set: folders and files, then links. */
static int put_set(struct tw_unpack *u, const char *name, const struct twin_snapshot *s, int root,
                   const char *folder, struct twin_error *err)
{
    int rc = 0;
    /* links last: no file is written through one */
    for (size_t i = 0; i < s->count && rc == 0; i++)
        if (!is_link(&s->entry[i]))
            rc = put_entry(u, name, &s->entry[i], root, folder, err);
    for (size_t i = 0; i < s->count && rc == 0; i++)
        if (is_link(&s->entry[i]))
            rc = put_entry(u, name, &s->entry[i], root, folder, err);
    return rc;
}

/* ---- one set */

/* Makes a set of data out of the package and its addresses. *folder: where it lies then, the
 * caller's. below: its path in the checkout; NULL: it lies beside the code. */
static int from_package(struct tw_unpack *u, const json_t *set, const char *name,
                        const struct twin_snapshot *s, const char *below, char **folder,
                        struct twin_error *err)
{
    const char *contents = tw_pk_text(set, "contents");
    char prefix[80];
    size_t later = 0;
    snprintf(prefix, sizeof prefix, "data/data/%s/", name);
    for (size_t i = 0; i < u->verdict->fetches; i++)
        later += tw_starts(u->verdict->fetch[i].path, prefix);
    /* a set in part cannot become the whole one */
    if (!contents || (strcmp(contents, "embedded") != 0 && strcmp(contents, "by address") != 0))
        return twin_error_set(err, TWIN_ENOENT,
                              "the data \"%s\" (sha256 %.16s...) are not in the package: say where "
                              "you have them with --data %s=DIR",
                              name, s->root, name);
    if (later && !u->o->fetch)
        return twin_error_set(
            err, TWIN_ENOENT,
            "%zu files of the data \"%s\" are not in the package: --fetch downloads them "
            "(fetch.txt says from where), or say where you have them with --data %s=DIR",
            later, name, name);
    /* data of the checkout go where the checkout had them */
    char *path = below ? tw_printf("code/%s", below) : tw_printf("data/%s", name);
    int root = path ? tw_folder_below(u->into_fd, path) : -1;
    *folder = path ? tw_path_join(u->into, path) : NULL;
    int rc = root < 0 ? twin_error_system(err, "cannot make the folder of the data \"%s\"", name)
                      : put_set(u, name, s, root, *folder, err);
    if (root >= 0)
        close(root);
    tw_free(path);
    /* the verified copy held these files, too; they are not needed twice */
    char *copied = rc ? NULL : tw_printf("%s/data/data/%s", u->dir, name);
    if (copied)
        tw_remove_tree(copied, NULL, NULL);
    tw_free(copied);
    return rc;
}

/* Links the user's folder to the place where the checkout had its own. below: that place in the
 * code. */
static int link_into_code(struct tw_unpack *u, const char *below, const char *folder,
                          struct twin_error *err)
{
    const char *slash = strrchr(below, '/');
    char *parent = slash ? tw_strndup(below, (size_t)(slash - below)) : tw_strdup("");
    int dir = parent ? tw_folder_below(u->code_fd, parent) : -1, rc = 0;
    if (dir < 0 || symlinkat(folder, dir, slash ? slash + 1 : below) != 0)
        rc = twin_error_system(err, "cannot make the link code/%s to the data", below);
    if (dir >= 0)
        close(dir);
    tw_free(parent);
    return rc;
}

/* One set: found or made, verified, and for a folder of the user's linked into the code where the
 * job expects it. */
static int unpack_set(struct tw_unpack *u, const json_t *set, size_t sets,
                      struct twin_run_data *out, struct twin_error *err)
{
    const char *name = tw_pk_text(set, "name");
    const char *snapshot = tw_pk_text(set, "snapshot");
    const char *root = tw_pk_text(set, "root");
    const char *below = tw_pk_text(set, "in_code");
    struct twin_snapshot s;
    if (!name_ok(name) || !snapshot || !tw_path_ok(snapshot) || !tw_starts(snapshot, "data/") ||
        !root || strlen(root) != 64 || (below && !tw_path_ok(below)))
        return tw_unpack_bad(WHERE, "sets with a name, a snapshot inside the package and its root",
                             err);
    const char *mine = given_folder(u, name, sets);
    out->manifest = tw_printf("%s/data/%s", u->dir, snapshot);
    int rc = out->manifest ? twin_snapshot_read(out->manifest, &s, err)
                           : tw_no_memory(err, "unpacking the data");
    if (rc)
        return rc;
    /* the snapshot names its root in the package's JSON as well */
    if (strcmp(s.root, root) != 0)
        rc = tw_unpack_bad(WHERE, "the root of the snapshot that it names", err);
    /* the user's folder wins over what the package holds */
    if (rc == 0 && mine) {
        char *real = tw_pk_real(".", mine);
        out->folder = real;
        rc = real ? 0 : twin_error_set(err, TWIN_ENOENT, "--data %s: not there", mine);
    } else if (rc == 0) {
        rc = from_package(u, set, name, &s, below, &out->folder, err);
    }
    tw_unpack_say(u, "verifying the data");
    rc = rc ? rc : hold_against(&s, out->folder, err);
    /* in an image the link is there already */
    if (rc == 0 && mine && below && u->o->part != TWIN_UNPACK_REST)
        rc = link_into_code(u, below, out->folder, err);
    /* what was verified, for whoever records the replay */
    memcpy(out->root, s.root, sizeof out->root);
    out->files = s.files;
    out->bytes = s.bytes;
    twin_snapshot_free(&s);
    return rc;
}

/* At most 1,000 sets. data_count goes up before a set is unpacked, so that twin_unpacked_free frees
 * one that failed half-way. */
int tw_unpack_data(struct tw_unpack *u, struct twin_error *err)
{
    json_t *sets = json_object_get(u->data_json, "sets"), *set;
    size_t i, n = json_array_size(sets);
    tw_unpack_say(u, "the data");
    if (!json_is_array(sets) || n > 1000)
        return tw_unpack_bad(WHERE, "\"sets\", at most 1,000", err);
    if (n == 0 && u->o->data && *u->o->data)
        return twin_error_set(err, TWIN_EINVAL, "--data %s: the package names no data",
                              *u->o->data);
    if (!(u->out->data = tw_calloc(n + 1, sizeof *u->out->data)) ||
        !(u->out->data_given = tw_calloc(n + 1, sizeof *u->out->data_given)))
        return tw_no_memory(err, "unpacking the data");
    json_array_foreach (sets, i, set) {
        u->out->data_count = i + 1;
        int rc = unpack_set(u, set, n, &u->out->data[i], err);
        if (rc)
            return rc;
        u->out->data_given[i] = tw_printf("%s=%s", tw_pk_text(set, "name"), u->out->data[i].folder);
        if (!u->out->data_given[i])
            return tw_no_memory(err, "unpacking the data");
    }
    return 0;
}
