/* SPDX-License-Identifier: Apache-2.0 */
/* What is installed: dpkg, Python's packages, conda. Read from the folders where they keep it; no
 * package manager is asked. */
#include "provenance_inside.h"

#include "base.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { STATUS_MAX = 128 << 20, PACKAGES_MAX = 50000 };

/* ---- dpkg */

/* The value behind `key` at the start of a line in [from, end). malloc'ed; NULL: no such line. */
static char *field_in(const char *from, const char *end, const char *key)
{
    size_t n = strlen(key);
    for (const char *line = from; line < end;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        stop = stop ? stop : end;
        if ((size_t)(stop - line) > n && memcmp(line, key, n) == 0)
            return tw_strndup(line + n, (size_t)(stop - line) - n);
        line = stop + 1;
    }
    return NULL;
}

/* {"libc6": "2.36-9"} of what is installed. A second architecture of a package has it in its
 * name. */
static json_t *dpkg(void)
{
    char *text = tw_pv_read("/var/lib/dpkg/status", STATUS_MAX);
    json_t *o = text ? json_object() : NULL;
    for (const char *at = text; at && *at && json_object_size(o) < PACKAGES_MAX;) {
        const char *end = strstr(at, "\n\n");
        end = end ? end : at + strlen(at);
        char *name = field_in(at, end, "Package: ");
        char *version = field_in(at, end, "Version: ");
        char *arch = field_in(at, end, "Architecture: ");
        char *status = field_in(at, end, "Status: ");
        if (name && version && status && tw_ends(status, " installed")) {
            char *key = arch && json_object_get(o, name) ? tw_printf("%s:%s", name, arch)
                                                         : tw_strdup(name);
            if (key)
                tw_pv_put(o, key, tw_json_bytes(version));
            tw_free(key);
        }
        tw_free(name);
        tw_free(version);
        tw_free(arch);
        tw_free(status);
        at = *end ? end + 2 : end;
    }
    tw_free(text);
    return o;
}

/* ---- Python: NAME-VERSION.dist-info, also .egg-info */

/* How the folder of an installed package ends; NULL: it is none. */
static const char *package_tail(const char *name)
{
    if (tw_ends(name, ".dist-info"))
        return ".dist-info";
    return tw_ends(name, ".egg-info") ? ".egg-info" : NULL;
}

/* Adds the packages of one folder. The name of the metadata's folder has name and version, so no
 * file is opened. */
static void python_folder(json_t *o, const char *dir)
{
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        const char *tail = package_tail(e->d_name);
        char *name = tail ? tw_strndup(e->d_name, strlen(e->d_name) - strlen(tail)) : NULL;
        char *dash = name ? strchr(name, '-') : NULL;
        if (dash && json_object_size(o) < PACKAGES_MAX) {
            *dash++ = '\0';
            dash[strcspn(dash, "-")] = '\0'; /* "1.2-py3.11" of an egg */
            if (!json_object_get(o, name))   /* the first on the path counts */
                tw_pv_put(o, name, tw_json_bytes(dash));
        }
        tw_free(name);
    }
    if (d)
        closedir(d);
}

/* Folders of packages below a prefix: lib/python3.x/site-packages. */
static void python_prefix(json_t *folders, const char *prefix)
{
    char *lib = tw_path_join(prefix, "lib");
    DIR *d = lib ? opendir(lib) : NULL;
    for (struct dirent *e; d && (e = readdir(d));) {
        static const char *const names[] = {"site-packages", "dist-packages"};
        for (size_t i = 0; tw_starts(e->d_name, "python") && i < 2; i++) {
            struct stat st;
            char *path = tw_printf("%s/%s/%s", lib, e->d_name, names[i]);
            if (path && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
                tw_pv_add(folders, tw_json_bytes(path));
            tw_free(path);
        }
    }
    if (d)
        closedir(d);
    tw_free(lib);
}

/* Whether a folder holds the metadata of a package. */
static bool has_package(const char *dir)
{
    DIR *d = opendir(dir);
    bool found = false;
    for (struct dirent *e; d && !found && (e = readdir(d));)
        found = package_tail(e->d_name) != NULL;
    if (d)
        closedir(d);
    return found;
}

/* Folders of PYTHONPATH that packages were installed into (`pip install --target`): Python looks
 * there before it looks in its own. What the first rank had counts before what the job was started
 * with, which a wrapper such as `env` may have changed. */
static void pythonpath_folders(const struct tw_collector *c, json_t *folders)
{
    const json_t *rank = json_array_get(json_object_get(c->root, "ranks"), 0);
    const char *list = json_string_value(
        json_object_get(json_object_get(rank, "variables"), "PYTHONPATH"));
    const char *from = json_string_value(json_object_get(rank, "cwd"));
    if (!list)
        list = tw_pv_variable(c->env, "PYTHONPATH");
    if (!from)
        from = c->from;
    while (list && *list) {
        size_t n = strcspn(list, ":");
        char *name = tw_strndup(list, n);
        /* an absolute path stays as it is */
        char *path = name && *name ? tw_path_join(from, name) : NULL;
        if (path && has_package(path))
            tw_pv_add(folders, tw_json_bytes(path));
        tw_free(path);
        tw_free(name);
        list += n + (list[n] == ':');
    }
}

/* Where the packages of the job's Python are: as its processes said, else by PYTHONPATH and the
 * interpreter's place. In the order in which Python looks there. */
static json_t *python_folders(const struct tw_collector *c)
{
    json_t *said = json_object_get(json_object_get(c->root, "python"), "path");
    json_t *folders = json_array();
    json_t *item;
    size_t i;
    json_array_foreach (said, i, item) {
        const char *path = json_string_value(item);
        if (path && (strstr(path, "-packages") || has_package(path)))
            json_array_append(folders, item);
    }
    if (json_array_size(folders))
        return folders;
    pythonpath_folders(c, folders);
    const char *env[] = {tw_pv_variable(c->env, "VIRTUAL_ENV"),
                         tw_pv_variable(c->env, "CONDA_PREFIX")};
    for (i = 0; i < 2; i++)
        if (env[i] && *env[i])
            python_prefix(folders, env[i]);
    json_array_foreach (json_object_get(json_object_get(c->root, "programs"), "files"), i, item) {
        const char *path = json_string_value(json_object_get(item, "path"));
        const char *base = path ? strrchr(path, '/') : NULL;
        char *prefix = base && tw_starts(base, "/python") ? tw_strndup(path, (size_t)(base - path))
                                                          : NULL;
        char *up = prefix ? strrchr(prefix, '/') : NULL;
        if (up) {
            *up = '\0';
            python_prefix(folders, prefix);
        }
        tw_free(prefix);
    }
    return folders;
}

/* ---- conda: conda-meta/NAME-VERSION-BUILD.json */

/* {"numpy": "1.26.4-py311h64a7726_0"} of the active environment; NULL: none is active. */
static json_t *conda(const struct tw_collector *c)
{
    const char *prefix = tw_pv_variable(c->env, "CONDA_PREFIX");
    char *dir = prefix && *prefix ? tw_path_join(prefix, "conda-meta") : NULL;
    DIR *d = dir ? opendir(dir) : NULL;
    json_t *o = d ? json_object() : NULL;
    for (struct dirent *e; d && (e = readdir(d));) {
        char *name = tw_ends(e->d_name, ".json") ? tw_strndup(e->d_name, strlen(e->d_name) - 5)
                                                 : NULL;
        char *build = name ? strrchr(name, '-') : NULL;
        if (build) {
            *build = '\0';
            char *version = strrchr(name, '-');
            *build = '-';
            if (version) {
                *version++ = '\0';
                tw_pv_put(o, name, tw_json_bytes(version)); /* VERSION-BUILD */
            }
        }
        tw_free(name);
    }
    if (d)
        closedir(d);
    tw_free(dir);
    return o;
}

/* A text that changes whenever something is installed: the times of the lists and folders. null:
 * none of them is there. */
static json_t *stamp_of(json_t *folders)
{
    struct tw_buf b = {0};
    struct stat st;
    size_t i;
    json_t *item, *v;
    if (stat("/var/lib/dpkg/status", &st) == 0)
        tw_buf_printf(&b, "%lld.%09ld", (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    json_array_foreach (folders, i, item)
        if (stat(json_string_value(item) ? json_string_value(item) : "", &st) == 0)
            tw_buf_printf(&b, " %s=%lld.%09ld", json_string_value(item),
                          (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    v = b.len ? tw_json_bytes(b.data) : json_null();
    tw_buf_free(&b);
    return v;
}

/* The lists of the run before count as long as the stamp is the same. */
json_t *tw_pv_packages(struct tw_collector *c)
{
    json_t *folders = python_folders(c), *now = stamp_of(folders), *item;
    json_t *old = json_object_get(c->before, "packages");
    size_t i;
    if (!json_is_null(now) && json_equal(json_object_get(old, "stamp"), now)) {
        json_decref(folders);
        json_decref(now);
        return json_incref(old);
    }
    json_t *o = json_object(), *python = json_object();
    json_array_foreach (folders, i, item)
        if (json_string_value(item))
            python_folder(python, json_string_value(item));
    tw_pv_put(o, "stamp", now);
    tw_pv_put(o, "dpkg", dpkg());
    tw_pv_put(o, "python", python);
    tw_pv_put(o, "python_folders", folders);
    tw_pv_put(o, "conda", conda(c));
    return o;
}
