/* SPDX-License-Identifier: Apache-2.0 */
/* What snapshot and verify say of a folder: how far the reading is, what differs and why. */
#include "snapshots.h"

#include "interrupt.h"
#include "json.h"
#include "options.h"
#include "progress.h"
#include "say.h"

#include "base.h"

#include <stdio.h>
#include <string.h>

enum { SHOWN_TROUBLES = 20 };

static int progress(void *user, uint64_t files, uint64_t all_files, uint64_t bytes,
                    uint64_t all_bytes)
{
    const struct tw_looking *l = user;
    char line[200], done[16], of[16], n[32], all[32], left[24], bar[21];
    const double part = all_bytes ? (double)bytes / (double)all_bytes : 1;
    const double s = (double)(tw_monotonic_ns() - l->began_ns) / 1e9;
    if (!tw_progress_on())
        return tw_interrupted();
    for (int i = 0; i < 20; i++)
        bar[i] = i < (int)(part * 20) ? '#' : '-';
    bar[20] = '\0';
    int at = snprintf(line, sizeof line, "%s  [%s]  %s of %s  %s of %s files", l->what, bar,
                      tw_human_bytes(bytes, done), tw_human_bytes(all_bytes, of),
                      tw_human_count(files, n), tw_human_count(all_files, all));
    if (s > 1 && part > 0.01 && part < 1)
        snprintf(line + at, sizeof line - (size_t)at, "  about %s left",
                 tw_human_seconds(s / part * (1 - part), left));
    tw_progress_line(line);
    return tw_interrupted();
}

static void trouble(void *user, const char *path, const char *why)
{
    struct tw_looking *l = user;
    char *safe = tw_printable(path, strlen(path));
    if (l->troubles++ < SHOWN_TROUBLES)
        tw_say("%s: %s", safe ? safe : "?", why);
    tw_free(safe);
}

struct twin_snapshot_options tw_snapshot_options(struct tw_looking *l, const char *what)
{
    *l = (struct tw_looking){.what = what, .began_ns = tw_monotonic_ns()};
    tw_interrupt_hold();
    return (struct twin_snapshot_options){.progress = progress, .trouble = trouble, .user = l};
}

int tw_snapshot_failed(const struct tw_looking *l, const struct twin_error *err)
{
    tw_progress_clear();
    if (err->code == TWIN_EINTR) {
        tw_say("%s", err->message);
        return TW_EXIT_INTERRUPTED;
    }
    if (l->troubles > SHOWN_TROUBLES)
        tw_say("and %zu more", l->troubles - SHOWN_TROUBLES);
    if (l->troubles)
        tw_say("expected files that can be read, found %zu thing%s without a digest: see above",
               l->troubles, l->troubles == 1 ? "" : "s");
    else
        tw_trouble(err, "no snapshot");
    return TW_EXIT_TROUBLE;
}

static const char *kind_name(const struct twin_snapshot_entry *e)
{
    if (e->kind == TWIN_SNAPSHOT_FILE)
        return "file";
    return e->kind == TWIN_SNAPSHOT_LINK ? "link" : "empty folder";
}

struct printing {
    FILE *out;
    size_t modes, shown, most;
};

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

void tw_snapshot_print_differences(FILE *out, const struct twin_snapshot *was,
                                   const struct twin_snapshot *is, size_t most, size_t *modes)
{
    struct printing p = {.out = out, .most = most};
    twin_snapshot_compare(was, is, print_difference, &p);
    if (most && p.shown > most)
        tw_put_to(out, "  and %zu more\n", p.shown - most);
    *modes = p.modes;
}

static int pass_over(void *user, const struct twin_snapshot_difference *d)
{
    (void)user, (void)d;
    return 0;
}

size_t tw_snapshot_count_differences(const struct twin_snapshot *was,
                                     const struct twin_snapshot *is)
{
    return twin_snapshot_compare(was, is, pass_over, NULL);
}

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
    int at = snprintf(out, 160, "%s file%s, %s", tw_human_count(s->files, n),
                      s->files == 1 ? "" : "s", tw_human_bytes(s->bytes, size));
    if (s->links)
        at += snprintf(out + at, 160 - (size_t)at, ", %s link%s", tw_human_count(s->links, n),
                       s->links == 1 ? "" : "s");
    if (s->folders)
        snprintf(out + at, 160 - (size_t)at, ", %s empty folder%s", tw_human_count(s->folders, n),
                 s->folders == 1 ? "" : "s");
    return out;
}

char *tw_snapshot_folder(const char *manifest)
{
    const size_t n = strlen(manifest), m = strlen(".snapshot");
    return n > m && tw_ends(manifest, ".snapshot") && manifest[n - m - 1] != '/'
               ? tw_strndup(manifest, n - m)
               : NULL;
}
