/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data: the snapshots that were verified before the run, their files when they are small or asked
 * for, addresses otherwise. It also looks at what the command names and no snapshot vouches for,
 * and says so.
 *
 * The other areas ask this one what is data (tw_pack_datum_of) and what is a result
 * (tw_pack_is_result), so it goes first.
 */
#include "pack.h"

#include "base.h"
#include "phrase.h"

#include "src/launch/redact.h"
#include "src/snapshot/snapshot.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { NAMED_MAX = 50 }; /* a record lists at most so many names of a command */

const struct tw_pack_datum *tw_pack_datum_of(const struct tw_pack *p, const char *real)
{
    for (size_t i = 0; i < p->data; i++)
        if (p->datum[i].folder && tw_pk_below(real, p->datum[i].folder))
            return &p->datum[i];
    return NULL;
}

/* The name of a set: that of its folder, with other characters than letters, digits, "-" and "_"
 * replaced, and a number when another set has it. malloc'ed; NULL: no memory. */
static char *name_of(const struct tw_pack *p, const char *folder)
{
    const char *slash = strrchr(folder, '/'), *base = slash ? slash + 1 : folder;
    char plain[64];
    size_t n = 0;
    for (; *base && n < 40; base++)
        plain[n++] = (*base >= 'a' && *base <= 'z') || (*base >= 'A' && *base <= 'Z') ||
                             (*base >= '0' && *base <= '9') || *base == '-' || *base == '_'
                         ? *base
                         : '_';
    plain[n] = '\0';
    /* two folders of one name: the later one gets its number */
    for (size_t k = 0; k < p->data; k++)
        if (strcmp(p->datum[k].name, n ? plain : "data") == 0)
            return tw_printf("%s-%zu", n ? plain : "data", p->data);
    return tw_strdup(n ? plain : "data");
}

/* Where a file of the set can be fetched: below the address that --data fetch=URL gave, its path's
 * bytes as RFC 3986 wants them. With several sets each has a folder of its name there. */
static char *address_of(const struct tw_pack *p, const struct tw_pack_datum *d, const char *path)
{
    struct tw_buf b = {0};
    tw_buf_puts(&b, p->o->url);
    if (!tw_ends(p->o->url, "/"))
        tw_buf_puts(&b, "/");
    if (p->run->data_count > 1)
        tw_buf_printf(&b, "%s/", d->name);
    for (; *path; path++) {
        bool plain = (*path >= 'a' && *path <= 'z') || (*path >= 'A' && *path <= 'Z') ||
                     (*path >= '0' && *path <= '9') || strchr("-._~/", *path);
        tw_buf_printf(&b, plain ? "%c" : "%%%02X", (unsigned char)*path);
    }
    return tw_buf_steal(&b);
}

/* Embeds or lists each file of a set. *all: none of them is missing. A file that changed since the
 * snapshot is not packed. */
static int put_contents(struct tw_pack *p, json_t *area, const struct tw_pack_datum *d,
                        enum twin_pack_data how, bool *all, struct twin_error *err)
{
    int rc = 0;
    *all = true;
    for (size_t i = 0; i < d->snapshot->count && rc == 0; i++) {
        const struct twin_snapshot_entry *e = &d->snapshot->entry[i];
        struct twin_error inner = TWIN_ERROR_INIT;
        char hex[65];
        if (e->kind != TWIN_SNAPSHOT_FILE)
            continue; /* the manifest says all about them */
        tw_hex(e->sha256, 32, hex);
        char *place = tw_printf("data/data/%s/%s", d->name, e->path);
        char *from = tw_path_join(d->folder, e->path);
        if (!place || !from)
            rc = tw_no_memory(err, "packing the data");
        else if (twin_home_holds(from)) {
            /* other runs, and what they printed, lie there */
            tw_pk_missing(&p->failed, area,
                          "%s/%s: lies in a home of twinrun's, which is never packed", d->name,
                          e->path);
            *all = false;
        } else if (!tw_path_ok(place) || (how == TWIN_PACK_DATA_FETCH && strchr(place, ' '))) {
            tw_pk_missing(&p->failed, area, "%s/%s: no package can hold a file of this name",
                          d->name, e->path);
            *all = false;
        } else if (how == TWIN_PACK_DATA_FETCH) {
            char *url = address_of(p, d, e->path);
            rc = url ? tw_bag_list(&p->w, place, hex, e->bytes, url, err)
                     : tw_no_memory(err, "packing the data");
            tw_free(url);
        } else if ((rc = tw_bag_copy(&p->w, place, from, hex, NULL, &inner)) == TWIN_EFORMAT) {
            tw_pk_missing(&p->failed, area, "%s/%s: %s", d->name, e->path, inner.message);
            *all = false;
            rc = 0;
        } else if (rc) {
            twin_error_set(err, rc, "%s", inner.message);
        }
        tw_free(place);
        tw_free(from);
    }
    return rc;
}

/* Embed, by address or omit, as the user said; without a word small sets are embedded. */
static enum twin_pack_data how_for(const struct tw_pack *p, const struct twin_snapshot *s)
{
    if (!p->o || p->o->data == TWIN_PACK_DATA_NONE)
        return TWIN_PACK_DATA_OMIT;
    if (p->o->data == TWIN_PACK_DATA_AUTO)
        return s->bytes <= TW_SMALL_DATA ? TWIN_PACK_DATA_EMBED : TWIN_PACK_DATA_OMIT;
    return p->o->data;
}

/* One set: its snapshot always, its files as how_for() says. The snapshot must still be the one
 * that the run was held against, by its root. */
static int put_datum(struct tw_pack *p, json_t *area, const struct twin_run_data *given,
                     struct twin_error *err)
{
    static const char *const words[] = {"", "embedded", "by address", "not here", ""};
    struct twin_error inner = TWIN_ERROR_INIT;
    struct tw_pack_datum d = {.folder = tw_pk_real("/", given->folder)};
    char size[16];
    bool all = true;
    d.snapshot = tw_calloc(1, sizeof *d.snapshot);
    d.name = name_of(p, given->folder);
    int rc = d.snapshot && d.name ? twin_snapshot_read(given->manifest, d.snapshot, &inner)
                                  : TWIN_ENOMEM;
    if (rc == TWIN_ENOMEM)
        return tw_no_memory(err, "packing the data");
    /* a snapshot that cannot be read, or is another one, is missing; the set is known all the
     * same */
    bool usable = rc == 0 && strcmp(d.snapshot->root, given->root) == 0;
    if (rc)
        tw_pk_missing(&p->failed, area, "the snapshot %s: %s", given->manifest, inner.message);
    else if (!usable)
        tw_pk_missing(&p->failed, area,
                      "the snapshot %s is another one than the run was held against (root "
                      "%.16s..., expected %.16s...)",
                      given->manifest, d.snapshot->root, given->root);
    p->datum[p->data++] = d;
    if (!usable)
        return 0;
    /* the snapshot goes in even when its files do not: a replay elsewhere is held against it */
    char *place = tw_printf("data/data/%s.snapshot", d.name);
    enum twin_pack_data how = how_for(p, d.snapshot);
    rc = place ? tw_bag_copy(&p->w, place, given->manifest, NULL, NULL, &inner) : TWIN_ENOMEM;
    if (rc)
        twin_error_set(err, rc, "%s: %s", given->manifest, inner.message);
    if (rc == 0 && p->w.dir &&
        (how == TWIN_PACK_DATA_FETCH || (how == TWIN_PACK_DATA_EMBED && d.folder)))
        rc = put_contents(p, area, &d, how, &all, err);
    else if (rc == 0 && how == TWIN_PACK_DATA_EMBED)
        tw_pk_missing(&p->failed, area, "%s: the folder is not there any more", given->folder);
    else if (rc == 0 && p->w.dir)
        tw_pk_missing(&p->failed, area,
                      "%s: its contents (%s) are not in the package, and no address of them is; "
                      "pack with --data embed or --data fetch=URL",
                      d.name, tw_human_bytes(d.snapshot->bytes, size));
    const char *below = d.folder && p->top ? tw_pk_below(d.folder, p->top) : NULL;
    json_t *o = json_pack("{s:s, s:s, s:s, s:I, s:I, s:s, s:o}", "name", d.name, "snapshot",
                          place ? place + 5 : "", "root", d.snapshot->root, "files",
                          (json_int_t)d.snapshot->files, "bytes", (json_int_t)d.snapshot->bytes,
                          "contents", all ? words[how] : "in part", "in_code",
                          below ? json_string(below) : json_null());
    tw_pk_add(&p->failed, json_object_get(area, "sets"), o);
    tw_free(place);
    return rc;
}

/* Is this file a program or the script of the run? Then it is code, not data. */
static bool is_started(const struct tw_pack *p, const char *real)
{
    json_t *programs = json_object_get(p->provenance, "programs"), *file;
    const char *entry = tw_pk_real_path(json_object_get(programs, "entry"));
    bool yes = entry && strcmp(entry, real) == 0;
    size_t i;
    json_array_foreach (json_object_get(programs, "files"), i, file)
        yes |= tw_pk_real_path(file) && strcmp(tw_pk_real_path(file), real) == 0;
    return yes;
}

/* What the command names is looked up before the job starts: a file that is not among what was
 * there then is a result of the job's. A full list, or none, proves nothing. */
bool tw_pack_is_result(const struct tw_pack *p, const char *path)
{
    json_t *named = TW_PK_AT(p->provenance, "data", "named");
    json_t *files = TW_PK_AT(p->provenance, "config", "files");
    json_t *item;
    size_t i;
    char *real = p->from ? tw_pk_real(p->from, path) : NULL;
    bool result = real && tw_pack_written(p, real);
    /* the list of what the command names must be complete, and made before the job began */
    if (real && !result && json_is_array(named) && json_array_size(named) < NAMED_MAX &&
        json_is_true(TW_PK_AT(p->provenance, "before_job", "seen"))) {
        result = !is_started(p, real);
        json_array_foreach (named, i, item) {
            const char *there = tw_pk_text(item, "path");
            result &= there && !twin_redacted(there) && strcmp(there, path) != 0 &&
                      strcmp(tw_pk_real_path(item), real) != 0;
        }
        json_array_foreach (files, i, item)
            result &= tw_pk_text(item, "path") && strcmp(tw_pk_text(item, "path"), path) != 0;
    }
    tw_free(real);
    return result;
}

/* Names what the command names and nothing vouches for: no snapshot, no commit, and the job did not
 * make it. Configuration files are left to their own area. */
static void look_at_named(struct tw_pack *p, json_t *area)
{
    json_t *item;
    size_t i;
    json_array_foreach (TW_PK_AT(p->provenance, "data", "named"), i, item) {
        const char *path = tw_pk_text(item, "path"), *kind = tw_pk_text(item, "kind");
        if (!path || !kind)
            continue;
        if (strcmp(kind, "address") == 0) {
            tw_pk_missing(&p->failed, area, "%s: an address; no snapshot says what it gave", path);
            continue;
        }
        char *real = p->from ? tw_pk_real(p->from, path) : NULL;
        const char *below = real && p->top ? tw_pk_below(real, p->top) : NULL;
        struct stat st;
        bool folder = real && stat(real, &st) == 0 && S_ISDIR(st.st_mode);
        /* their endings say that they are configuration or code */
        bool config = tw_ends(path, ".json") || tw_ends(path, ".yaml") || tw_ends(path, ".yml") ||
                      tw_ends(path, ".toml") || tw_ends(path, ".py") || tw_ends(path, ".sh");
        /* vouched for by another area, or made by the job */
        if ((real &&
             (tw_pack_datum_of(p, real) || tw_pack_written(p, real) || is_started(p, real))) ||
            (!folder && config) || (below && !*below))
            ;
        /* the commit says what it held */
        else if (real && below && tw_pack_is_tracked(p, below, folder))
            ;
        else if (real && tw_pack_overwritten(p, real))
            tw_pk_missing(&p->failed, area,
                          "%s: it was there before the run, which wrote to it; whether it was read "
                          "first is not known: run again without it, or with --data %s",
                          path, path);
        else
            tw_pk_missing(&p->failed, area,
                          "%s: the command names it, and no snapshot says what it held; run again "
                          "with --data %s",
                          path, path);
        tw_free(real);
    }
}

/* Without a snapshot the area passes only when whoever packs says that the job reads no data. */
int tw_pack_data(struct tw_pack *p, struct twin_error *err)
{
    json_t *area = p->area[TWIN_AREA_DATA];
    const struct twin_run *r = p->run;
    int rc = 0;
    uint64_t files = 0, bytes = 0;
    char size[16], count[32];
    tw_pk_put(&p->failed, area, "sets", json_array());
    p->datum = tw_calloc(r->data_count + 1, sizeof *p->datum);
    if (!p->datum)
        return tw_no_memory(err, "packing the data");
    for (size_t i = 0; i < r->data_count && rc == 0; i++) {
        rc = put_datum(p, area, &r->data[i], err);
        files += r->data[i].files;
        bytes += r->data[i].bytes;
    }
    look_at_named(p, area);
    bool none = r->data_count == 0, declared = p->o && p->o->data == TWIN_PACK_DATA_NONE;
    if (none)
        tw_pk_holds(&p->failed, area,
                    declared ? "none: whoever packed it says that the job reads none"
                             : "no snapshot");
    else
        tw_pk_holds(&p->failed, area, "%zu snapshot%s, %s files, %s, verified before the run",
                    r->data_count, tw_plural_s(r->data_count), tw_human_count(files, count),
                    tw_human_bytes(bytes, size));
    tw_pk_put(&p->failed, area, "none_declared", json_boolean(none && declared));
    if (none && !declared && json_array_size(json_object_get(area, "missing")) == 0)
        tw_pk_missing(&p->failed, area,
                      "nothing says which data the job read: run again with --data DIR, or pack "
                      "with --data none when it reads none");
    return rc;
}
