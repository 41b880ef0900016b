/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two records side by side. What was not collected on one of the sides is no difference: it is not
 * known.
 *
 * Each part of the record has its function, which knows what a difference there may do to a
 * result's bits (power.c). Lists are held against each other by name, never by place.
 */
#include "differences.h"

#include "base.h"

#include <stdio.h>
#include <string.h>

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
        tw_diff_names(d, p, q, "code", "untracked files", tw_power_medium);
        json_decref(p);
        json_decref(q);
    }
    const char *script = json_string_value(tw_pv_at(a, "programs/entry/path"));
    tw_diff_value(d, a, b, "programs/entry/sha256", TWIN_POWER_HIGH, "code",
                  script ? script : "script");
    tw_diff_value(d, a, b, "programs/entry/name", TWIN_POWER_HIGH, "code", "module");
    tw_diff_value(d, a, b, "code/branch", TWIN_POWER_NOISE, "code", "branch");
    tw_diff_value(d, a, b, "code/remotes", TWIN_POWER_NOISE, "code", "remotes");
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
    if (tw_values_differ(tw_pv_at(a, "config/argv_digest/canonical"),
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
        bool says_other = tw_values_differ(json_object_get(item, "canonical"),
                                           json_object_get(other, "canonical"));
        bool has_canonical = json_object_get(item, "canonical") &&
                             json_object_get(other, "canonical");
        if (!tw_values_differ(json_object_get(item, "raw"), json_object_get(other, "raw")))
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
            if ((contents = tw_values_differ(json_object_get(item, keys[i]),
                                             json_object_get(other, keys[i]))))
                tw_diff_value(d, item, other, keys[i], TWIN_POWER_HIGH, "data", path);
        if (!contents && !json_object_get(item, "sha256"))
            tw_diff_value(d, item, other, "mtime_ns", TWIN_POWER_MEDIUM, "data", path);
    }
    json_decref(x);
    json_decref(y);
    json_t *verified = tw_pv_at(a, "data/verified"), *other = tw_pv_at(b, "data/verified");
    for (size_t i = 0; i < json_array_size(verified) && i < json_array_size(other); i++) {
        const char *folder = json_string_value(
            json_object_get(json_array_get(verified, i), "folder"));
        tw_diff_value(d, json_array_get(verified, i), json_array_get(other, i), "root",
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
    tw_diff_names(d, tw_pv_at(json_array_get(json_object_get(a, "ranks"), 0), "versions"),
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
        tw_diff_value(d, a, b, row[i].path, row[i].power, group, row[i].what);
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
    /* just-in-time compilation calls compilers */
    tw_diff_names(d, tw_pv_at(a, "environment/compilers"), tw_pv_at(b, "environment/compilers"),
                  "system", "compilers", tw_power_medium);
    rows(d, a, b, "system", system, sizeof system / sizeof system[0]);
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
    tw_diff_launch(&d, a, b);
    return tw_differences_finish(&d, err);
}
