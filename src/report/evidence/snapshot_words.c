/* SPDX-License-Identifier: Apache-2.0 */
/* What snapshot and verify say of a folder: what it holds, what differs and why. Permission bits
 * that alone are other ones are counted and not listed: a copy of a folder often has others, and
 * the same data. */
#include "snapshot_words.h"

#include "base.h"
#include "json_text.h"
#include "phrase.h"
#include "put.h"

#include <stdio.h>
#include <string.h>

/* Names that other tools have for the data; of more the number is told. */
enum { SHOWN_IDS = 5 };

/* What an entry is, in a word. */
static const char *kind_name(const struct twin_snapshot_entry *e)
{
    if (e->kind == TWIN_SNAPSHOT_FILE)
        return "file";
    return e->kind == TWIN_SNAPSHOT_LINK ? "link" : "empty folder";
}

/* The lines of differences while they are printed: how many, of how many at most (0: all). */
struct printing {
    FILE *out;
    size_t modes, shown, most;
};

/* In what an entry that is in both differs: the first thing that tells them apart. */
static void print_why(FILE *out, const struct twin_snapshot_entry *was,
                      const struct twin_snapshot_entry *is)
{
    char a[32], b[32], *target;
    if (was->kind != is->kind) {
        tw_put_to(out, "%s -> %s", kind_name(was), kind_name(is));
    } else if (was->kind == TWIN_SNAPSHOT_LINK) {
        target = tw_printable(is->target, strlen(is->target));
        tw_put_to(out, "leads to %s", target ? target : "?");
        tw_free(target);
    } else if (was->bytes != is->bytes) {
        tw_put_to(out, "%s -> %s bytes", tw_human_count(was->bytes, a),
                  tw_human_count(is->bytes, b));
    } else {
        tw_hex(was->sha256, 6, a);
        tw_hex(is->sha256, 6, b);
        tw_put_to(out, "sha256 %s... -> %s...", a, b);
    }
}

/* For twin_snapshot_compare; user is a struct printing. */
static int print_difference(void *user, const struct twin_snapshot_difference *d)
{
    static const char *const words[] = {"added", "missing", "changed"};
    const struct twin_snapshot_entry *e = d->was ? d->was : d->is;
    char *path = tw_printable(e->path, strlen(e->path)), count[32];
    struct printing *p = user;
    FILE *out = p->out;
    if (d->change == TWIN_SNAPSHOT_MODE) {
        p->modes++;
    } else if (p->most == 0 || p->shown++ < p->most) {
        tw_put_to(out, "  %-7s  %s  ", words[d->change], path ? path : "?");
        if (d->was && d->is)
            print_why(out, d->was, d->is);
        else if (e->kind == TWIN_SNAPSHOT_FILE)
            tw_put_to(out, "%s bytes", tw_human_count(e->bytes, count));
        else
            tw_put_to(out, "%s", kind_name(e));
        tw_put_to(out, "\n");
    }
    tw_free(path);
    return 0;
}

void tw_snapshot_text_differences(FILE *out, const struct twin_snapshot *was,
                                  const struct twin_snapshot *is, size_t most, size_t *modes)
{
    struct printing p = {.out = out, .most = most};
    twin_snapshot_compare(was, is, print_difference, &p);
    if (most && p.shown > most)
        tw_put_to(out, "  and %zu more\n", p.shown - most);
    *modes = p.modes;
}

/* One side of a difference, null where the entry is not there. known: its digest was taken. */
static json_t *side(const struct twin_snapshot_entry *e, bool known)
{
    char hex[65], mode[8];
    if (!e)
        return json_null();
    if (e->kind != TWIN_SNAPSHOT_FILE)
        return json_pack("{s:s, s:o}", "kind", e->kind == TWIN_SNAPSHOT_LINK ? "link" : "folder",
                         "target", tw_json_text(e->target));
    tw_hex(e->sha256, sizeof e->sha256, hex);
    snprintf(mode, sizeof mode, "%o", e->mode & 07777);
    return json_pack("{s:s, s:I, s:s, s:o}", "kind", "file", "bytes", (json_int_t)e->bytes, "mode",
                     mode, "sha256", known ? json_string(hex) : json_null());
}

/* For twin_snapshot_compare; user is a JSON list. */
static int add_difference(void *list, const struct twin_snapshot_difference *d)
{
    static const char *const words[] = {"added", "missing", "changed", "mode"};
    static const unsigned char not_read[sizeof d->is->sha256]; /* its size told enough */
    const bool known = d->is && memcmp(d->is->sha256, not_read, sizeof not_read) != 0;
    return json_array_append_new(list,
                                 json_pack("{s:s, s:o, s:o, s:o}", "change", words[d->change],
                                           "path", tw_json_text((d->was ? d->was : d->is)->path),
                                           "was", side(d->was, true), "is", side(d->is, known)));
}

json_t *tw_snapshot_json_differences(const struct twin_snapshot *was,
                                     const struct twin_snapshot *is, size_t *differences)
{
    json_t *list = json_array();
    *differences = twin_snapshot_compare(was, is, add_difference, list);
    return list;
}

char *tw_snapshot_holds(const struct twin_snapshot *s, char out[160])
{
    char n[32], size[16];
    int at = snprintf(out, 160, "%s file%s, %s", tw_human_count(s->files, n), tw_plural_s(s->files),
                      tw_human_bytes(s->bytes, size));
    if (s->links)
        at += snprintf(out + at, 160 - (size_t)at, ", %s link%s", tw_human_count(s->links, n),
                       tw_plural_s(s->links));
    if (s->folders)
        snprintf(out + at, 160 - (size_t)at, ", %s empty folder%s", tw_human_count(s->folders, n),
                 tw_plural_s(s->folders));
    return out;
}

void tw_snapshot_verified_text(FILE *out, const char *manifest, const char *dir,
                               const struct twin_snapshot *was, const struct twin_snapshot *now)
{
    const size_t differences = tw_snapshot_count_differences(was, now);
    char holds[160], n[32];
    size_t modes = 0;
    char *folder = tw_printable(dir, strlen(dir)), *name = tw_printable(manifest, strlen(manifest));
    if (differences)
        tw_put_to(out, "DIFFER  %s is not what %s says: %s difference%s\n", folder ? folder : "?",
                  name ? name : "?", tw_human_count(differences, n), tw_plural_s(differences));
    tw_snapshot_text_differences(out, was, now, 0, &modes);
    if (!differences)
        tw_put_to(out, "OK      %s  %s  sha256:%s\n", folder ? folder : "?",
                  tw_snapshot_holds(was, holds), was->root);
    if (modes)
        tw_put_to(out, "  note     %s with other permission bits or links, the same bytes\n",
                  tw_human_count(modes, n));
    tw_free(folder);
    tw_free(name);
}

json_t *tw_snapshot_verified_json(const char *manifest, const char *dir,
                                  const struct twin_snapshot *was, const struct twin_snapshot *now)
{
    size_t n = 0;
    json_t *differences = tw_snapshot_json_differences(was, now, &n);
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:s, s:I, s:I, s:o}", "schema", "twinrun.verify/1",
                     "kind", "snapshot", "outcome", n ? "differ" : "same", "target",
                     tw_json_text(manifest), "folder", tw_json_text(dir), "root", was->root,
                     "files", (json_int_t)was->files, "bytes", (json_int_t)was->bytes,
                     "differences", differences);
}

/* What other tools call the data. */
static json_t *ids_json(const struct twin_snapshot *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->id_count; i++)
        json_array_append_new(
            list, json_pack("{s:o, s:o, s:o}", "scheme", tw_json_text(s->id[i].scheme), "value",
                            tw_json_text(s->id[i].value), "path", tw_json_text(s->id[i].path)));
    return list;
}

json_t *tw_snapshot_taken_json(const char *dir, const char *output, const struct twin_snapshot *s,
                               const struct twin_snapshot *was, const char *outcome)
{
    size_t n = 0;
    json_t *o = json_pack("{s:s, s:s, s:o, s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "schema",
                          "twinrun.snapshot/1", "outcome", outcome, "folder", tw_json_text(dir),
                          "manifest", tw_json_text(output), "root", s->root, "files",
                          (json_int_t)s->files, "links", (json_int_t)s->links, "folders",
                          (json_int_t)s->folders, "bytes", (json_int_t)s->bytes, "read_files",
                          (json_int_t)s->read_files, "read_bytes", (json_int_t)s->read_bytes, "ids",
                          ids_json(s));
    if (was)
        json_object_set_new(o, "differences", tw_snapshot_json_differences(was, s, &n));
    return o;
}

void tw_snapshot_taken_text(FILE *out, const char *output, const struct twin_snapshot *s,
                            const struct twin_snapshot *was)
{
    char holds[160], n[32], size[16];
    size_t modes;
    char *safe = tw_printable(output, strlen(output));
    tw_put_to(out, "%s%s\n  root   sha256:%s\n  holds  %s\n", safe ? safe : "?",
              was ? "  says something else" : "", was ? was->root : s->root,
              tw_snapshot_holds(was ? was : s, holds));
    if (was) {
        tw_put_to(out, "  now    sha256:%s\n", s->root);
        tw_snapshot_text_differences(out, was, s, 0, &modes);
        tw_put_to(out, "  next   --force replaces it, -o FILE writes another\n");
        tw_free(safe);
        return;
    }
    for (size_t i = 0; i < s->id_count && i < SHOWN_IDS; i++) {
        char *path = tw_printable(s->id[i].path, strlen(s->id[i].path));
        char *value = tw_printable(s->id[i].value, strlen(s->id[i].value));
        tw_put_to(out, "  id     %s %s%s%s\n", s->id[i].scheme, value ? value : "?",
                  *s->id[i].path ? "  " : "", path ? path : "?");
        tw_free(path);
        tw_free(value);
    }
    if (s->id_count > SHOWN_IDS)
        tw_put_to(out, "         and %zu more\n", s->id_count - SHOWN_IDS);
    if (s->read_files < s->files)
        tw_put_to(out,
                  "  read   %s file%s, %s; the others have not changed since they were last read\n",
                  tw_human_count(s->read_files, n), tw_plural_s(s->read_files),
                  tw_human_bytes(s->read_bytes, size));
    tw_free(safe);
}
