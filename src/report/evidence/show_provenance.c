/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What surrounded a run, to be read in five seconds (show --provenance), and what differs between
 * the worlds of two (diff --env).
 *
 * Each function below prints one row or a few of them from one part of provenance.json. A part that
 * is not there is said or left out, never invented: old runs have fewer parts. JSON is passed on as
 * it is.
 */
#include "show_provenance.h"

#include "base.h"
#include "json_text.h"
#include "phrase.h"
#include "put.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Columns of a row's name; hex digits of a hash that are shown. */
enum { WIDTH = 13, DIGITS = 12 };

/* ---- lines */

static void put_row(FILE *out, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void put_row(FILE *out, const char *name, const char *format, ...)
{
    struct tw_buf b = {0};
    va_list ap;
    va_start(ap, format);
    tw_buf_vprintf(&b, format, ap);
    va_end(ap);
    /* the whole row is escaped, with the values in it */
    char *safe = b.data ? tw_printable(b.data, strlen(b.data)) : NULL;
    tw_put_to(out, "%-*s%s\n", WIDTH, name, safe ? safe : "");
    tw_free(safe);
    tw_buf_free(&b);
}

/* A field's text, "" when it is not there or no text. o may be NULL in both. */
static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static json_int_t number_of(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

/* Commit and branch, what was changed since, and the file or module that the program began with. */
static void show_code(FILE *out, const json_t *p)
{
    const json_t *o = json_object_get(p, "code");
    const json_t *entry = json_object_get(json_object_get(p, "programs"), "entry");
    const json_t *diff = json_object_get(o, "diff");
    struct tw_buf b = {0};
    const char *commit = text_of(o, "commit"), *branch = text_of(o, "branch");
    size_t untracked = json_array_size(json_object_get(o, "untracked"));
    size_t modules = json_array_size(json_object_get(o, "submodules"));
    /* a repository without a commit is another thing than no repository */
    if (*commit)
        tw_buf_printf(&b, "commit %.*s%s%s", DIGITS, commit, *branch ? " on " : "", branch);
    else if (*text_of(o, "top"))
        tw_buf_puts(&b, "no commit yet");
    else
        tw_buf_puts(&b, *text_of(o, "why") ? text_of(o, "why") : "not known");
    if (json_is_true(json_object_get(o, "dirty")))
        tw_buf_printf(&b, ", %lld file%s changed%s%s", (long long)number_of(o, "changed_count"),
                      tw_plural_s(number_of(o, "changed_count")),
                      *text_of(diff, "file") ? ", kept in " : "", text_of(diff, "file"));
    else if (json_is_false(json_object_get(o, "dirty")))
        tw_buf_puts(&b, ", clean");
    if (untracked)
        tw_buf_printf(&b, ", %s%zu untracked",
                      json_is_true(json_object_get(o, "untracked_all_listed")) ? "" : "more than ",
                      untracked);
    if (modules)
        tw_buf_printf(&b, ", %zu submodule%s", modules, tw_plural_s(modules));
    put_row(out, "code", "%s", b.data ? b.data : "");
    tw_buf_free(&b);
    /* a script, or a module that was started by its name */
    if (*text_of(entry, "sha256"))
        put_row(out, "", "begins with %s, sha256 %.*s", text_of(entry, "path"), DIGITS,
                text_of(entry, "sha256"));
    else if (*text_of(entry, "name"))
        put_row(out, "", "begins with the module %s", text_of(entry, "name"));
}

/* Hashes of the command and of its configuration files, and the data that the run read: snapshots
 * that were verified, and folders or addresses that the command names. */
static void show_configuration(FILE *out, const json_t *p)
{
    const json_t *o = json_object_get(p, "config");
    json_t *item;
    size_t i;
    put_row(out, "command", "canonical sha256 %.*s", DIGITS,
            text_of(json_object_get(o, "argv_digest"), "canonical"));
    json_array_foreach (json_object_get(o, "files"), i, item)
        put_row(out, i ? "" : "config", "%s  %s %.*s%s%s", text_of(item, "path"),
                *text_of(item, "canonical") ? "canonical" : "bytes", DIGITS,
                *text_of(item, "canonical") ? text_of(item, "canonical") : text_of(item, "raw"),
                *text_of(item, "why") ? "; " : "", text_of(item, "why"));
    o = json_object_get(p, "data");
    bool any = false;
    /* data that were held against a snapshot first, then what the command names */
    json_array_foreach (json_object_get(o, "verified"), i, item) {
        put_row(out, any ? "" : "data", "%s  verified, root %.*s", text_of(item, "folder"), DIGITS,
                text_of(item, "root"));
        any = true;
    }
    json_array_foreach (json_object_get(o, "named"), i, item) {
        const json_t *id = json_object_get(item, "identity");
        /* of what the command names: folders, addresses, and what has an identity such as a
         * revision */
        if (id || strcmp(text_of(item, "kind"), "folder") == 0 ||
            strcmp(text_of(item, "kind"), "address") == 0) {
            put_row(out, any ? "" : "data", "%s  %s%s%s", text_of(item, "path"),
                    id ? text_of(id, "kind") : text_of(item, "kind"),
                    *text_of(id, "revision") ? " " : "", text_of(id, "revision"));
            any = true;
        }
    }
}

/* One row "name value, name value" of those keys that o has; nothing when it has none. */
static void pairs(FILE *out, const char *name, const json_t *o, const char *const *keys)
{
    struct tw_buf b = {0};
    for (; *keys; keys++)
        if (*text_of(o, *keys))
            tw_buf_printf(&b, "%s%s %s", b.len ? ", " : "", *keys, text_of(o, *keys));
    if (b.len)
        put_row(out, name, "%s", b.data);
    tw_buf_free(&b);
}

/* Versions that rank 0 told, and how many files of libraries were mapped into the job. */
static void show_libraries(FILE *out, const json_t *p)
{
    static const char *const versions[] = {"torch", "cudnn",  "nccl", "mpi",
                                           "numpy", "python", NULL};
    const json_t *files = json_object_get(json_object_get(p, "libraries"), "files");
    json_t *item;
    size_t i, hashed = 0, n = json_array_size(files);
    const json_t *first = json_array_get(json_object_get(p, "ranks"), 0);
    const json_t *known = json_object_get(first, "versions");
    pairs(out, "libraries", known, versions);
    json_array_foreach ((json_t *)files, i, item)
        hashed += *text_of(item, "sha256") != '\0';
    if (n)
        put_row(out, *text_of(known, "python") ? "" : "libraries", "%zu files mapped, %s", n,
                hashed == n ? "all with their sha256" : "not all hashed");
    else
        put_row(out, "libraries", "not known: no process of the job recorded anything");
}

/* The states of the generators. A state that is the same at the first and the last record was not
 * drawn from. */
static void show_seeds(FILE *out, const json_t *rank)
{
    static const char *const settings[] = {"deterministic_algorithms", "threads", "cudnn.benchmark",
                                           "matmul.allow_tf32",        "hash",    NULL};
    static const char *const names[] = {"torch", "numpy", "random"};
    const json_t *g = json_object_get(rank, "generators");
    struct tw_buf b = {0};
    for (size_t i = 0; i < 3; i++) {
        char first[32], last[32];
        snprintf(first, sizeof first, "%s.first", names[i]);
        snprintf(last, sizeof last, "%s.last", names[i]);
        if (*text_of(g, first))
            tw_buf_printf(&b, "%s%s %s", b.len ? ", " : "", names[i],
                          strcmp(text_of(g, first), text_of(g, last)) == 0 ? "not drawn from"
                                                                           : text_of(g, first));
    }
    if (b.len)
        put_row(out, "generators", "%s (at the first record)", b.data);
    tw_buf_free(&b);
    pairs(out, "settings", json_object_get(rank, "settings"), settings);
}

/* Processor, accelerators, system and packages of the machine. */
static void show_machine(FILE *out, const json_t *p)
{
    const json_t *e = json_object_get(p, "environment");
    const json_t *cpu = json_object_get(e, "cpu");
    const json_t *a = json_object_get(p, "accelerators");
    const json_t *gpu = json_array_get(json_object_get(a, "gpus"), 0);
    const json_t *packages = json_object_get(p, "packages");
    const json_t *container = json_object_get(e, "container");
    put_row(out, "processor", "%s, %lld online, family %s model %s stepping %s, microcode %s",
            text_of(cpu, "name"), (long long)number_of(cpu, "online"), text_of(cpu, "family"),
            text_of(cpu, "model"), text_of(cpu, "stepping"),
            *text_of(cpu, "microcode") ? text_of(cpu, "microcode") : "not known");
    /* the first GPU stands for all; where there is none, why */
    if (gpu)
        put_row(out, "accelerators", "%zu x %s, driver %s, CUDA up to %s",
                json_array_size(json_object_get(a, "gpus")), text_of(gpu, "name"),
                text_of(a, "driver"), text_of(a, "cuda_driver"));
    else
        put_row(out, "accelerators", "none: %s", text_of(a, "why"));
    put_row(out, "system", "%s, kernel %s, glibc %s%s%s",
            text_of(json_object_get(e, "system"), "pretty_name"),
            text_of(json_object_get(e, "kernel"), "release"), text_of(e, "libc"),
            *text_of(container, "kind") ? ", in a container: " : "", text_of(container, "kind"));
    put_row(out, "packages", "%zu of the system, %zu of Python%s",
            json_object_size(json_object_get(packages, "dpkg")),
            json_object_size(json_object_get(packages, "python")),
            json_object_size(json_object_get(packages, "conda")) ? ", conda" : "");
}

/* Processes, ranks, hosts and scheduler, and how many variables have values that are not kept. */
static void show_launch(FILE *out, const json_t *p)
{
    const json_t *o = json_object_get(p, "launch"), *scheduler = json_object_get(o, "scheduler");
    json_t *item, *hosts = json_object(), *v;
    const char *name;
    size_t i, redacted = 0;
    json_array_foreach (json_object_get(p, "ranks"), i, item)
        if (*text_of(item, "host"))
            json_object_set_new(hosts, text_of(item, "host"), json_true());
    /* a value that was kept back begins with this mark */
    json_object_foreach (json_object_get(o, "variables"), name, v)
        redacted += json_is_string(v) && strncmp(json_string_value(v), "[redacted", 9) == 0;
    put_row(out, "launch", "%zu process%s recorded, %lld rank%s, %zu host%s%s%s%s%s",
            json_array_size(json_object_get(p, "ranks")),
            json_array_size(json_object_get(p, "ranks")) == 1 ? "" : "es",
            (long long)number_of(o, "world"), tw_plural_s(number_of(o, "world")),
            json_object_size(hosts), tw_plural_s(json_object_size(hosts)),
            *text_of(scheduler, "kind") ? ", " : "", text_of(scheduler, "kind"),
            *text_of(scheduler, "job") ? " job " : "", text_of(scheduler, "job"));
    put_row(out, "variables", "%zu, the values of %zu redacted",
            json_object_size(json_object_get(o, "variables")), redacted);
    json_decref(hosts);
}

/* ---- differences */

/* Two lines: what differs, and its two values. */
static void text_difference(FILE *out, const struct twin_world_difference *d)
{
    char *what = d->what;
    tw_put_to(out, "  %-13s %s\n", d->group, what);
    tw_put_to(out, "  %-13s   %s  ->  %s\n", "", d->a ? d->a : "(not there)",
              d->b ? d->b : "(not there)");
}

/* The differences as JSON, in their order: by power, then by group. */
static json_t *json_differences(const struct twin_world_differences *d)
{
    json_t *list = json_array();
    for (size_t i = 0; i < d->count; i++) {
        const struct twin_world_difference *x = &d->item[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:o, s:o, s:I}", "power",
                                              twin_power_name(x->power), "group", x->group, "what",
                                              tw_json_text(x->what), "a", tw_json_text(x->a), "b",
                                              tw_json_text(x->b), "count", (json_int_t)x->count));
    }
    return list;
}

/* Do all ranks of the run have the same world? d: the differences between its ranks; an item's what
 * names the ranks that differ, b is their value and a that of most ranks. Nothing for a run of one
 * process. */
static void parity(FILE *out, const json_t *p, const struct twin_world_differences *d)
{
    size_t n = json_array_size(json_object_get(p, "ranks")), told = 0;
    if (n < 2)
        return;
    for (size_t i = 0; i < d->count; i++)
        if (d->item[i].power != TWIN_POWER_NOISE)
            put_row(out, told++ ? "" : "parity", "%s: %s, the others: %s", d->item[i].what,
                    d->item[i].b ? d->item[i].b : "(not there)",
                    d->item[i].a ? d->item[i].a : "(not there)");
    char *unseen = twin_provenance_unseen(p);
    if (unseen)
        put_row(out, told++ ? "" : "parity", "%s", unseen);
    tw_free(unseen);
    if (!told)
        put_row(out, "parity",
                "%zu processes: the same libraries, versions, settings and variables", n);
}

/* All rows, from what ran to where it ran. */
static void show_world(FILE *out, const char *run, const json_t *p,
                       const struct twin_world_differences *d)
{
    json_t *item;
    size_t i;
    put_row(out, "run", "%s", run);
    show_code(out, p);
    show_configuration(out, p);
    show_libraries(out, p);
    show_seeds(out, json_array_get(json_object_get(p, "ranks"), 0));
    show_launch(out, p);
    parity(out, p, d);
    show_machine(out, p);
    json_array_foreach (json_object_get(p, "notes"), i, item)
        put_row(out, "note", "%s", json_string_value(item) ? json_string_value(item) : "");
    if (!json_is_true(json_object_get(p, "complete")))
        put_row(out, "note", "written while the job ran; its end was not seen");
}

/* Loads the record and compares the ranks in it, for text and JSON alike. */
int tw_show_provenance(const struct twin_run *r, FILE *out, json_t **json,
                       const struct tw_front *front)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_world_differences d = {0};
    json_t *p = NULL;
    int rc = twin_provenance_load(r->dir, &p, &err);
    if (rc != 0) {
        tw_front_trouble(front, &err, "show: no provenance of %s", tw_base_name(r->dir));
        return rc;
    }
    rc = twin_provenance_parity(p, &d, &err);
    if (rc != 0)
        tw_front_trouble(front, &err, "show: cannot compare the ranks");
    else if (json)
        *json = json_pack("{s:s, s:o, s:O, s:o}", "schema", "twinrun.show-provenance/1", "dir",
                          tw_json_text(r->dir), "provenance", p, "parity", json_differences(&d));
    else
        show_world(out, tw_base_name(r->dir), p, &d);
    twin_world_differences_free(&d);
    json_decref(p);
    return rc;
}

/* By enum twin_power. */
static const char *const headings[] = {"decides about numbers", "may change them",
                                       "seldom changes them", "names and places"};

/* Differences come sorted by power, so a heading is printed where the power changes. real: how many
 * are more than a name or a place. */
static void show_differences(FILE *out, const struct twin_world_differences *d, size_t real)
{
    if (real == 0)
        tw_put_to(out, "SAME    the worlds are equal%s\n", d->count ? ", but for:" : "");
    else
        tw_put_to(out, "DIFFER  in %zu thing%s\n", real, tw_plural_s(real));
    for (size_t i = 0; i < d->count; i++) {
        if (i == 0 || d->item[i].power != d->item[i - 1].power)
            tw_put_to(out, "\n%s\n", headings[d->item[i].power]);
        text_difference(out, &d->item[i]);
    }
}

/* The same in colours. Values stand in pairs of columns, and no line is broken. */
static void print_differences(FILE *out, const struct tw_look *look,
                              const struct twin_world_differences *d, size_t real)
{
    const struct tw_painted words[] = {
        {"SAME", TW_PAINT_GOOD},      {"DIFFER", TW_PAINT_BAD},     {headings[0], TW_PAINT_BOLD},
        {headings[1], TW_PAINT_BOLD}, {headings[2], TW_PAINT_BOLD}, {headings[3], TW_PAINT_BOLD},
        {NULL, TW_PAINT_OFF},
    };
    struct tw_kept_text k;
    if (tw_keep_text(&k, NULL) == 0)
        show_differences(k.file, d, real);
    tw_put_kept(out, &k, look, &(struct tw_style){.words = words});
}

/* Differences of TWIN_POWER_NOISE (names, places) are listed and do not count. */
int tw_diff_environment(const struct twin_run *a, const struct twin_run *b, FILE *out,
                        const struct tw_look *look, json_t **json, bool *differ,
                        const struct tw_front *front)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_world_differences d = {0};
    json_t *x = NULL, *y = NULL;
    size_t real = 0;
    /* x stays NULL when the first one is missing, which tells the message whose it is */
    int rc = twin_provenance_load(a->dir, &x, &err);
    if (rc == 0)
        rc = twin_provenance_load(b->dir, &y, &err);
    if (rc != 0)
        tw_front_trouble(front, &err, "diff: no provenance of %s",
                         tw_base_name(x ? b->dir : a->dir));
    else if ((rc = twin_provenance_diff(x, y, &d, &err)) != 0)
        tw_front_trouble(front, &err, "diff: cannot compare the worlds");
    for (size_t i = 0; i < d.count; i++)
        real += d.item[i].power != TWIN_POWER_NOISE;
    *differ = real > 0;
    if (rc == 0 && json)
        *json = json_pack("{s:s, s:s, s:o}", "schema", "twinrun.diff-env/1", "outcome",
                          real ? "differ" : "same", "differences", json_differences(&d));
    else if (rc == 0)
        print_differences(out, look, &d, real);
    twin_world_differences_free(&d);
    json_decref(x);
    json_decref(y);
    return rc;
}
