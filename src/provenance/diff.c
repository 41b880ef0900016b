/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two records side by side. What was not collected on one of the sides is no difference: it is not
 * known.
 *
 * Each part of the record has its function, which knows what a difference there may do to a
 * result's bits (power.c). Lists are held against each other by name, never by place. The result is
 * sorted by that power, so that who reads the first lines has read what matters.
 */
#include "differences.h"

#include "base.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 200, SINGLE = 6 }; /* more than SINGLE of a kind become one line */

/* ---- the list */

/* A text of the record, printable and not longer than a line or two. malloc'ed; NULL stays NULL. */
static char *cut_text(const char *s)
{
    char *safe = s ? tw_printable(s, strnlen(s, SHOWN)) : NULL;
    if (safe && strlen(s) > SHOWN) {
        char *more = tw_printf("%s...", safe);
        tw_free(safe);
        safe = more;
    }
    return safe;
}

void tw_difference(struct tw_differences *d, enum twin_power power, const char *group,
                   const char *what, const char *a, const char *b, size_t count)
{
    assert((unsigned)power <= TWIN_POWER_NOISE);
    struct twin_world_differences *out = d->out;
    if (out->count == d->room) {
        size_t room = d->room ? 2 * d->room : 32;
        struct twin_world_difference *grown = tw_reallocarray(out->item, room, sizeof *grown);
        if (!grown) {
            d->failed = true;
            return;
        }
        out->item = grown;
        d->room = room;
    }
    struct twin_world_difference *x = &out->item[out->count++];
    *x = (struct twin_world_difference){.power = power,
                                        .group = group,
                                        .what = cut_text(what),
                                        .a = cut_text(a),
                                        .b = cut_text(b),
                                        .count = count};
    d->failed |= !x->what || (a && !x->a) || (b && !x->b);
}

/* By power, then by group in the order in which a person would ask, then by name. */
static int by_power(const void *x, const void *y)
{
    const struct twin_world_difference *a = x, *b = y;
    static const char *const order[] = {"code",         "configuration", "data",     "libraries",
                                        "accelerators", "processor",     "seeds",    "settings",
                                        "launch",       "variables",     "packages", "system"};
    int at[2] = {0, 0};
    if (a->power != b->power)
        return a->power < b->power ? -1 : 1;
    for (int i = 0; i < (int)(sizeof order / sizeof order[0]); i++) {
        at[0] = strcmp(a->group, order[i]) == 0 ? i : at[0];
        at[1] = strcmp(b->group, order[i]) == 0 ? i : at[1];
    }
    return at[0] != at[1] ? at[0] - at[1] : strcmp(a->what, b->what);
}

int tw_differences_finish(struct tw_differences *d, struct twin_error *err)
{
    if (d->failed) {
        twin_world_differences_free(d->out);
        return tw_no_memory(err, "comparing provenance");
    }
    if (d->out->count > 1)
        qsort(d->out->item, d->out->count, sizeof *d->out->item, by_power);
    return 0;
}

void twin_world_differences_free(struct twin_world_differences *d)
{
    for (size_t i = 0; i < d->count; i++) {
        tw_free(d->item[i].what);
        tw_free(d->item[i].a);
        tw_free(d->item[i].b);
        tw_free(d->item[i].groups);
    }
    tw_free(d->item);
    *d = (struct twin_world_differences){0};
}

/* ---- values */

json_t *tw_pv_at(const json_t *o, const char *path)
{
    while (o && *path) {
        char key[64];
        size_t n = strcspn(path, "/");
        snprintf(key, sizeof key, "%.*s", (int)n, path);
        o = json_object_get(o, key);
        path += n + (path[n] == '/');
    }
    return (json_t *)o;
}

char *tw_pv_shown(const json_t *v)
{
    if (!v || json_is_null(v))
        return NULL;
    if (json_is_string(v))
        return tw_strdup(json_string_value(v));
    char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS);
    char *copy = text ? tw_strdup(text) : NULL;
    free(text);
    return copy;
}

/* Differ, both being known. */
static bool differ(const json_t *a, const json_t *b)
{
    return a && b && !json_equal(a, b);
}

/* One value by its path in both records. */
static void diff_value(struct tw_differences *d, const json_t *a, const json_t *b, const char *path,
                       enum twin_power power, const char *group, const char *what)
{
    const json_t *x = tw_pv_at(a, path), *y = tw_pv_at(b, path);
    if (!differ(x, y))
        return;
    char *p = tw_pv_shown(x), *q = tw_pv_shown(y);
    tw_difference(d, power, group, what, p, q, 1);
    tw_free(p);
    tw_free(q);
}

/* Do two objects differ under a name? One that is not there is a value of its own, null is not. */
static bool differ_by_name(const json_t *a, const json_t *b, const char *key)
{
    const json_t *x = json_object_get(a, key), *y = json_object_get(b, key);
    /* null: not known, unlike a name that is not there */
    return !json_is_null(x) && !json_is_null(y) && !json_equal(x, y);
}

/* Two objects name by name. power(name) ranks each; many of one power become one line that names
 * the first, but never those of high power: each of them may be the cause. */
static void diff_names(struct tw_differences *d, const json_t *a, const json_t *b,
                       const char *group, const char *many, enum twin_power (*power)(const char *))
{
    json_t *all = json_object(), *v;
    const char *key;
    size_t count[TWIN_POWER_NOISE + 1] = {0};
    if (!a || !b || !all || json_object_update(all, (json_t *)a) != 0 ||
        json_object_update_missing(all, (json_t *)b) != 0) {
        json_decref(all);
        return;
    }
    json_object_foreach (all, key, v)
        if (differ_by_name(a, b, key))
            count[power(key)]++;
    bool told[TWIN_POWER_NOISE + 1] = {false};
    json_object_foreach (all, key, v) {
        json_t *x = json_object_get(a, key), *y = json_object_get(b, key);
        enum twin_power p = power(key);
        if (!differ_by_name(a, b, key) || told[p])
            continue;
        bool gathered = count[p] > SINGLE && p != TWIN_POWER_HIGH;
        char *s = tw_pv_shown(x);
        char *t = tw_pv_shown(y);
        char *what = gathered ? tw_printf("%zu %s, among them %s", count[p], many, key)
                              : tw_strdup(key);
        const size_t times = gathered ? count[p] : 1;
        tw_difference(d, p, group, what ? what : key, s, t, times);
        told[p] = gathered;
        tw_free(what);
        tw_free(s);
        tw_free(t);
    }
    json_decref(all);
}

/* ---- code */

/* The commit and the uncommitted changes of one repository. what: "commit", or the path of a
 * submodule. Other commits of equal trees are the same files. */
static void commits(struct tw_differences *d, const json_t *a, const json_t *b, const char *what)
{
    const char *x = json_string_value(json_object_get(a, "commit"));
    const char *y = json_string_value(json_object_get(b, "commit"));
    if (x && y && strcmp(x, y) != 0) {
        char p[13], q[13];
        bool same_tree = json_equal(json_object_get(a, "tree"), json_object_get(b, "tree"));
        snprintf(p, sizeof p, "%s", x);
        snprintf(q, sizeof q, "%s", y);
        tw_difference(d, same_tree ? TWIN_POWER_LOW : TWIN_POWER_HIGH, "code",
                      same_tree ? "commit (of the same files)" : what, p, q, 1);
    }
    const json_t *p = tw_pv_at(a, "diff/sha256"), *q = tw_pv_at(b, "diff/sha256");
    const bool clean_a = json_is_false(json_object_get(a, "dirty"));
    const bool clean_b = json_is_false(json_object_get(b, "dirty"));
    if ((p && q && !json_equal(p, q)) || (p && clean_b) || (q && clean_a)) {
        char *title = tw_printf("uncommitted changes%s%s", strcmp(what, "commit") ? " of " : "",
                                strcmp(what, "commit") ? what : "");
        char *s = NULL;
        char *t = NULL;
        s = p ? tw_printf("%.12s", json_string_value(p)) : tw_strdup("none");
        t = q ? tw_printf("%.12s", json_string_value(q)) : tw_strdup("none");
        tw_difference(d, TWIN_POWER_HIGH, "code", title ? title : what, s, t, 1);
        tw_free(title);
        tw_free(s);
        tw_free(t);
    }
}

/* A list of objects by their "path"; new reference. Of two with one path the last counts. */
static json_t *by_path(const json_t *list)
{
    json_t *o = json_object(), *item;
    size_t i;
    json_array_foreach ((json_t *)list, i, item) {
        const char *path = json_string_value(json_object_get(item, "path"));
        if (path)
            json_object_set(o, path, item);
    }
    return o;
}

static enum twin_power medium(const char *name)
{
    (void)name;
    return TWIN_POWER_MEDIUM;
}

/* {"path": {"sha256": ...}} -> {"path": "0123456789ab"} */
static json_t *digests_of(const json_t *list)
{
    json_t *all = by_path(list), *o = json_object(), *item;
    const char *path;
    json_object_foreach (all, path, item) {
        const char *hex = json_string_value(json_object_get(item, "sha256"));
        tw_pv_put(o, path, hex ? json_stringn(hex, 12) : json_string("not hashed"));
    }
    json_decref(all);
    return o;
}

/* Code: commits, submodules, untracked files, the script. Untracked files are compared only where
 * both lists are complete. */
static void diff_code(struct tw_differences *d, const json_t *a, const json_t *b)
{
    const json_t *x = json_object_get(a, "code"), *y = json_object_get(b, "code");
    commits(d, x, y, "commit");
    json_t *p = by_path(json_object_get(x, "submodules"));
    json_t *q = by_path(json_object_get(y, "submodules"));
    json_t *item;
    const char *path;
    json_object_foreach (p, path, item)
        commits(d, item, json_object_get(q, path), path);
    json_decref(p);
    json_decref(q);
    if (json_is_true(json_object_get(x, "untracked_all_listed")) &&
        json_is_true(json_object_get(y, "untracked_all_listed"))) {
        p = digests_of(json_object_get(x, "untracked"));
        q = digests_of(json_object_get(y, "untracked"));
        diff_names(d, p, q, "code", "untracked files", medium);
        json_decref(p);
        json_decref(q);
    }
    const char *script = json_string_value(tw_pv_at(a, "programs/entry/path"));
    diff_value(d, a, b, "programs/entry/sha256", TWIN_POWER_HIGH, "code",
               script ? script : "script");
    diff_value(d, a, b, "programs/entry/name", TWIN_POWER_HIGH, "code", "module");
    diff_value(d, a, b, "code/branch", TWIN_POWER_NOISE, "code", "branch");
    diff_value(d, a, b, "code/remotes", TWIN_POWER_NOISE, "code", "remotes");
}

/* ---- configuration, data */

/* A list of words as one text; malloc'ed. */
static char *joined_words(const json_t *list)
{
    struct tw_buf text = {0};
    json_t *item;
    size_t i;
    json_array_foreach ((json_t *)list, i, item)
        tw_buf_printf(&text, "%s%s", i ? " " : "",
                      json_string_value(item) ? json_string_value(item) : "?");
    return tw_buf_steal(&text);
}

/* The command and the files it names. A file with other bytes that says the same is noise. */
static void diff_configuration(struct tw_differences *d, const json_t *a, const json_t *b)
{
    if (differ(tw_pv_at(a, "config/argv_digest/canonical"),
               tw_pv_at(b, "config/argv_digest/canonical"))) {
        char *p = joined_words(tw_pv_at(a, "config/argv")),
             *q = joined_words(tw_pv_at(b, "config/argv"));
        tw_difference(d, TWIN_POWER_HIGH, "configuration", "command", p, q, 1);
        tw_free(p);
        tw_free(q);
    }
    json_t *x = by_path(tw_pv_at(a, "config/files"));
    json_t *y = by_path(tw_pv_at(b, "config/files"));
    json_t *item;
    const char *path;
    json_object_foreach (x, path, item) {
        const json_t *other = json_object_get(y, path);
        bool says_other = differ(json_object_get(item, "canonical"),
                                 json_object_get(other, "canonical"));
        bool has_canonical = json_object_get(item, "canonical") &&
                             json_object_get(other, "canonical");
        if (!differ(json_object_get(item, "raw"), json_object_get(other, "raw")))
            continue;
        char *p = tw_printf("%.12s", json_string_value(json_object_get(item, "raw")));
        char *q = tw_printf("%.12s", json_string_value(json_object_get(other, "raw")));
        char *what = says_other || !has_canonical ? tw_strdup(path)
                                                  : tw_printf("%s (says the same)", path);
        tw_difference(d, says_other || !has_canonical ? TWIN_POWER_HIGH : TWIN_POWER_NOISE,
                      "configuration", what ? what : path, p, q, 1);
        tw_free(what);
        tw_free(p);
        tw_free(q);
    }
    json_decref(x);
    json_decref(y);
}

static void diff_data(struct tw_differences *d, const json_t *a, const json_t *b)
{
    static const char *const keys[] = {"identity", "sha256", "bytes"};
    json_t *x = by_path(tw_pv_at(a, "data/named")), *y = by_path(tw_pv_at(b, "data/named")), *item;
    const char *path;
    json_object_foreach (x, path, item) {
        const json_t *other = json_object_get(y, path);
        bool contents = false;
        for (size_t i = 0; i < sizeof keys / sizeof keys[0] && !contents; i++)
            if ((contents = differ(json_object_get(item, keys[i]),
                                   json_object_get(other, keys[i]))))
                diff_value(d, item, other, keys[i], TWIN_POWER_HIGH, "data", path);
        if (!contents && !json_object_get(item, "sha256"))
            diff_value(d, item, other, "mtime_ns", TWIN_POWER_MEDIUM, "data", path);
    }
    json_decref(x);
    json_decref(y);
    json_t *verified = tw_pv_at(a, "data/verified"), *other = tw_pv_at(b, "data/verified");
    for (size_t i = 0; i < json_array_size(verified) && i < json_array_size(other); i++) {
        const char *folder = json_string_value(
            json_object_get(json_array_get(verified, i), "folder"));
        diff_value(d, json_array_get(verified, i), json_array_get(other, i), "root",
                   TWIN_POWER_HIGH, "data", folder ? folder : "snapshot");
    }
}

/* ---- libraries */

json_t *tw_libraries_by_name(const json_t *p, const json_t *rank)
{
    json_t *files = tw_pv_at(p, "libraries/files"), *o = json_object(), *number;
    json_t *list = rank ? json_array_get(
                              tw_pv_at(p, "libraries/lists"),
                              (size_t)json_integer_value(json_object_get(rank, "libraries")))
                        : NULL;
    size_t n = rank ? json_array_size(list) : json_array_size(files);
    for (size_t i = 0; i < n; i++) {
        number = rank ? json_array_get(list, i) : NULL;
        const json_t *file = json_array_get(files, rank ? (size_t)json_integer_value(number) : i);
        const char *path = json_string_value(json_object_get(file, "real_path"));
        const char *hex = json_string_value(json_object_get(file, "sha256"));
        path = path ? path : json_string_value(json_object_get(file, "path"));
        const char *base = path ? strrchr(path, '/') : NULL;
        const char *package = path ? strstr(path, "-packages/") : NULL;
        if (!base || !hex || tw_starts(base, "/libtwinrun"))
            continue;
        char name[128];
        if (package)
            snprintf(name, sizeof name, "%.*s", (int)strcspn(package + 10, "/"), package + 10);
        else
            snprintf(name, sizeof name, "%s", base + 1);
        json_t *group = json_object_get(o, name);
        if (!group)
            tw_pv_put(o, name, group = json_object());
        tw_pv_put(group, base + 1, json_string(hex));
    }
    return o;
}

/* What to show of a library: the version of the package that it belongs to; else the digest's
 * beginning, else how many files. NULL: it is not there. */
static char *version_of(const json_t *p, const char *name, const json_t *group)
{
    const json_t *v = json_object_get(tw_pv_at(p, "packages/python"), name), *first;
    if (!group)
        return NULL;
    if (v)
        return tw_pv_shown(v);
    if (json_object_size(group) > 1)
        return tw_printf("%zu files", json_object_size(group));
    first = json_object_iter_value(json_object_iter((json_t *)group));
    return tw_printf("%.12s", json_string_value(first) ? json_string_value(first) : "?");
}

/* Libraries that were loaded, by package. Equal versions with other bytes are said to be so: a
 * rebuilt wheel is as much another library as another version. */
static void diff_libraries(struct tw_differences *d, const json_t *a, const json_t *b)
{
    json_t *x = tw_libraries_by_name(a, NULL);
    json_t *y = tw_libraries_by_name(b, NULL);
    json_t *all = json_copy(x);
    json_t *v;
    const char *name;
    if (json_object_size(x) && json_object_size(y) && all &&
        json_object_update_missing(all, y) == 0)
        json_object_foreach (all, name, v) {
            const json_t *p = json_object_get(x, name), *q = json_object_get(y, name);
            if (json_equal(p, q))
                continue;
            char *s = version_of(a, name, p), *t = version_of(b, name, q);
            if (s && t && strcmp(s, t) == 0) { /* the same version, other bytes */
                tw_free(t);
                t = tw_printf("%s, other bytes", s);
            }
            tw_difference(d, tw_power_of_library(name), "libraries", name, s, t, 1);
            tw_free(s);
            tw_free(t);
        }
    json_decref(x);
    json_decref(y);
    json_decref(all);
    diff_names(d, tw_pv_at(json_array_get(json_object_get(a, "ranks"), 0), "versions"),
               tw_pv_at(json_array_get(json_object_get(b, "ranks"), 0), "versions"), "libraries",
               "versions", tw_power_of_version);
}

/* ---- machine */

/* One value that is compared: where it is in the record, what it is called, what it can do. */
struct row {
    const char *path, *what;
    enum twin_power power;
};

static void rows(struct tw_differences *d, const json_t *a, const json_t *b, const char *group,
                 const struct row *row, size_t count)
{
    for (size_t i = 0; i < count; i++)
        diff_value(d, a, b, row[i].path, row[i].power, group, row[i].what);
}

static const char *text_or_fewer(const struct tw_buf *only)
{
    return only->len ? only->data : "fewer";
}

/* Instruction sets that only one of the processors has. */
static void flags(struct tw_differences *d, const json_t *a, const json_t *b)
{
    const char *text[2] = {json_string_value(tw_pv_at(a, "environment/cpu/flags")),
                           json_string_value(tw_pv_at(b, "environment/cpu/flags"))};
    struct tw_buf only[2] = {{0}, {0}};
    for (int side = 0; side < 2 && text[0] && text[1]; side++)
        for (const char *w = text[side]; *w;) {
            size_t n = strcspn(w, " ");
            bool found = false;
            for (const char *p = text[1 - side]; *p && !found;) {
                size_t m = strcspn(p, " ");
                found = m == n && memcmp(p, w, n) == 0;
                p += m + (p[m] == ' ');
            }
            if (!found)
                tw_buf_printf(&only[side], "%s%.*s", only[side].len ? " " : "only here: ", (int)n,
                              w);
            w += n + (w[n] == ' ');
        }
    if (only[0].len || only[1].len)
        tw_difference(d, TWIN_POWER_HIGH, "processor", "instruction sets", text_or_fewer(&only[0]),
                      text_or_fewer(&only[1]), 1);
    tw_buf_free(&only[0]);
    tw_buf_free(&only[1]);
}

static enum twin_power compiler_power(const char *name)
{
    (void)name;
    return TWIN_POWER_MEDIUM; /* just-in-time compilation calls them */
}

/* NULL: not known. A driver that is there and did not answer says nothing about the GPUs. */
static const json_t *known_gpus(const json_t *p)
{
    const char *why = json_string_value(tw_pv_at(p, "accelerators/why"));
    return why && tw_starts(why, "the NVIDIA driver does not answer")
               ? NULL
               : tw_pv_at(p, "accelerators/gpus");
}

/* Processor, accelerators, system. GPUs are compared by number: which of them a rank used is with
 * the ranks. */
static void diff_machine(struct tw_differences *d, const json_t *a, const json_t *b)
{
    static const struct row cpu[] = {
        {"environment/kernel/machine", "architecture", TWIN_POWER_HIGH},
        {"environment/cpu/name", "model", TWIN_POWER_HIGH},
        {"environment/cpu/vendor", "vendor", TWIN_POWER_HIGH},
        {"environment/cpu/family", "family", TWIN_POWER_HIGH},
        {"environment/cpu/model", "model number", TWIN_POWER_HIGH},
        {"environment/cpu/stepping", "stepping", TWIN_POWER_MEDIUM},
        {"environment/cpu/microcode", "microcode", TWIN_POWER_MEDIUM},
        {"environment/cpu/online", "processors", TWIN_POWER_MEDIUM},
        {"environment/cpu/usable", "usable processors", TWIN_POWER_MEDIUM},
        {"environment/cpu/smt", "SMT", TWIN_POWER_LOW},
        {"environment/cpu/governor", "governor", TWIN_POWER_LOW},
        {"environment/cpu/numa_nodes", "NUMA nodes", TWIN_POWER_LOW}};
    static const struct row gpu[] = {
        {"accelerators/driver", "driver", TWIN_POWER_HIGH},
        {"accelerators/cuda_driver", "CUDA of the driver", TWIN_POWER_HIGH},
        {"accelerators/topology", "topology", TWIN_POWER_MEDIUM}};
    static const struct row each[] = {{"name", "GPU", TWIN_POWER_HIGH},
                                      {"compute_capability", "compute capability", TWIN_POWER_HIGH},
                                      {"mig", "MIG", TWIN_POWER_HIGH},
                                      {"vbios", "VBIOS", TWIN_POWER_MEDIUM},
                                      {"memory_bytes", "memory", TWIN_POWER_MEDIUM},
                                      {"ecc", "ECC", TWIN_POWER_LOW},
                                      {"power_limit_mw", "power limit", TWIN_POWER_LOW},
                                      {"application_clocks_mhz", "clocks", TWIN_POWER_LOW},
                                      {"nvlinks_up", "NVLinks", TWIN_POWER_LOW},
                                      {"uuid", "UUID", TWIN_POWER_NOISE},
                                      {"pci", "PCI address", TWIN_POWER_NOISE}};
    static const struct row system[] = {
        {"environment/topology/sha256", "caches, cores and memory (hwloc)", TWIN_POWER_LOW},
        {"environment/libc", "C library", TWIN_POWER_MEDIUM},
        {"environment/locale", "locale", TWIN_POWER_LOW},
        {"environment/system/pretty_name", "system", TWIN_POWER_LOW},
        {"environment/kernel/release", "kernel", TWIN_POWER_LOW},
        {"environment/kernel/command_line", "kernel command line", TWIN_POWER_LOW},
        {"environment/kernel/address_layout", "address layout", TWIN_POWER_LOW},
        {"environment/memory", "memory", TWIN_POWER_LOW},
        {"environment/limits", "limits", TWIN_POWER_LOW},
        {"environment/cgroup", "control group", TWIN_POWER_LOW},
        {"environment/container", "container", TWIN_POWER_LOW},
        {"launch/cwd", "folder", TWIN_POWER_NOISE},
        {"host", "host", TWIN_POWER_NOISE}};
    rows(d, a, b, "processor", cpu, sizeof cpu / sizeof cpu[0]);
    flags(d, a, b);
    rows(d, a, b, "accelerators", gpu, sizeof gpu / sizeof gpu[0]);
    const json_t *x = known_gpus(a), *y = known_gpus(b);
    if (x && y && json_array_size(x) != json_array_size(y)) {
        char p[24], q[24];
        snprintf(p, sizeof p, "%zu", json_array_size(x));
        snprintf(q, sizeof q, "%zu", json_array_size(y));
        tw_difference(d, TWIN_POWER_HIGH, "accelerators", "GPUs", p, q, 1);
    }
    for (size_t i = 0; i < json_array_size(x) && i < json_array_size(y); i++)
        rows(d, json_array_get(x, i), json_array_get(y, i), "accelerators", each,
             sizeof each / sizeof each[0]);
    diff_names(d, tw_pv_at(a, "environment/compilers"), tw_pv_at(b, "environment/compilers"),
               "system", "compilers", compiler_power);
    rows(d, a, b, "system", system, sizeof system / sizeof system[0]);
}

/* ---- launch, seeds */

static enum twin_power high(const char *name)
{
    (void)name;
    return TWIN_POWER_HIGH;
}

static enum twin_power low(const char *name)
{
    (void)name;
    return TWIN_POWER_LOW;
}

static enum twin_power of_package(const char *name)
{
    enum twin_power p = tw_power_of_version(name);
    return p == TWIN_POWER_HIGH ? p : TWIN_POWER_MEDIUM;
}

/* Generators whose first state differs. One that nobody drew from (its last state is its first) is
 * noise: it is as the entropy left it. */
static void generators(struct tw_differences *d, const json_t *a, const json_t *b)
{
    const json_t *x = json_object_get(a, "generators"), *y = json_object_get(b, "generators");
    static const char *const all[][3] = {{"random.first", "random.last", "Python's random"},
                                         {"numpy.first", "numpy.last", "NumPy"},
                                         {"torch.first", "torch.last", "PyTorch"}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const json_t *p = json_object_get(x, all[i][0]), *q = json_object_get(y, all[i][0]);
        bool unused = json_equal(p, json_object_get(x, all[i][1])) &&
                      json_equal(q, json_object_get(y, all[i][1]));
        if (!differ(p, q))
            continue;
        char *s = tw_pv_shown(p);
        char *t = tw_pv_shown(q);
        char *what = tw_printf("state of %s%s", all[i][2], unused ? " (not used)" : "");
        tw_difference(d, unused ? TWIN_POWER_NOISE : TWIN_POWER_HIGH, "seeds",
                      what ? what : all[i][2], s, t, 1);
        tw_free(s);
        tw_free(t);
        tw_free(what);
    }
}

/* Variables that the job's processes had and the launcher had not: set by the job, or by what
 * starts its ranks. */
static json_t *own_variables(const json_t *p)
{
    json_t *o = json_deep_copy(
        tw_pv_at(json_array_get(json_object_get(p, "ranks"), 0), "variables"));
    json_t *v;
    const char *name;
    void *next;
    json_object_foreach_safe (o, next, name, v)
        if (json_object_get(tw_pv_at(p, "launch/variables"), name))
            json_object_del(o, name);
    return o;
}

/* Variables but for those whose values are digests under different keys: these would differ in any
 * case. */
static json_t *comparable_variables(const json_t *p, bool same_key)
{
    json_t *o = json_deep_copy(tw_pv_at(p, "launch/variables")), *v;
    const char *name;
    void *next;
    json_object_foreach_safe (o, next, name, v)
        if (!same_key && json_is_string(v) && twin_redacted(json_string_value(v)))
            json_object_del(o, name);
    return o;
}

/* How it was started, seeds and settings of the first rank, and what is installed. Packages that
 * were loaded are among the libraries; here are all. */
static void diff_launch(struct tw_differences *d, const json_t *a, const json_t *b)
{
    const json_t *x = json_array_get(json_object_get(a, "ranks"), 0);
    const json_t *y = json_array_get(json_object_get(b, "ranks"), 0);
    bool same_key = json_equal(json_object_get(a, "redaction_key"),
                               json_object_get(b, "redaction_key"));
    /* 0: the job ended before anybody looked at its processes. */
    if (json_integer_value(tw_pv_at(a, "launch/world")) > 0 &&
        json_integer_value(tw_pv_at(b, "launch/world")) > 0)
        diff_value(d, a, b, "launch/world", TWIN_POWER_HIGH, "launch", "ranks");
    diff_value(d, a, b, "launch/files", TWIN_POWER_HIGH, "launch", "files that steer collectives");
    diff_value(d, a, b, "launch/scheduler", TWIN_POWER_NOISE, "launch", "scheduler");
    json_t *p = comparable_variables(a, same_key), *q = comparable_variables(b, same_key);
    diff_names(d, p, q, "variables", "variables", tw_power_of_variable);
    json_decref(p);
    json_decref(q);
    p = own_variables(a);
    q = own_variables(b);
    diff_names(d, p, q, "variables", "variables", tw_power_of_variable);
    json_decref(p);
    json_decref(q);
    diff_names(d, tw_pv_at(x, "settings"), tw_pv_at(y, "settings"), "settings", "settings", high);
    generators(d, x, y);
    diff_names(d, tw_pv_at(a, "packages/python"), tw_pv_at(b, "packages/python"), "packages",
               "Python packages", of_package);
    diff_names(d, tw_pv_at(a, "packages/conda"), tw_pv_at(b, "packages/conda"), "packages",
               "conda packages", medium);
    diff_names(d, tw_pv_at(a, "packages/dpkg"), tw_pv_at(b, "packages/dpkg"), "packages",
               "system packages", low);
}

int twin_provenance_diff(const struct json_t *a, const struct json_t *b,
                         struct twin_world_differences *out, struct twin_error *err)
{
    struct tw_differences d = {.out = out};
    *out = (struct twin_world_differences){0};
    diff_code(&d, a, b);
    diff_configuration(&d, a, b);
    diff_data(&d, a, b);
    diff_libraries(&d, a, b);
    diff_machine(&d, a, b);
    diff_launch(&d, a, b);
    return tw_differences_finish(&d, err);
}
