/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment as lists from which it can be built again: Python and its packages with exact
 * versions, the system's packages, machine and libraries as the run recorded them. What pip could
 * not find again (a package from a folder of this machine) is named.
 */
#include "pack.h"
#include "provenance_inside.h"

#include "base.h"
#include "phrase.h"
#include "json_load.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* By the name of the file: python, python3.11, pypy. */
static bool is_python(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    const char *base = slash ? slash + 1 : path;
    return base && (strcmp(base, "python") == 0 ||
                    (tw_starts(base, "python") && isdigit((unsigned char)base[6])) ||
                    tw_starts(base, "pypy"));
}

/* The record of the interpreter that the command starts; NULL: none. */
static const json_t *interpreter_of(const struct tw_pack *p)
{
    json_t *file;
    size_t i;
    json_array_foreach (TW_PK_AT(p->provenance, "programs", "files"), i, file)
        if (is_python(tw_pk_text(file, "path")) || is_python(tw_pk_text(file, "real_path")))
            return file;
    return NULL;
}

/* Asks the interpreter; -I and -S: without the user's folders and site packages, so that nothing of
 * theirs is run. */
char *tw_pk_python_version(const char *python)
{
    const char *const argv[] = {
        python, "-I", "-S", "-c", "import platform; print(platform.python_version())", NULL};
    struct tw_ask a = {.argv = argv, .dir = "/", .limit_s = 20, .cap = 4096};
    bool ok = tw_ask(&a);
    if (ok)
        a.out[strcspn(a.out, "\n")] = '\0';
    char *version = ok && *a.out ? tw_strdup(a.out) : NULL;
    tw_free(a.out);
    return version;
}

/* The version of the interpreter: as a process of the job said, else as it says now when it is
 * still the very same file. malloc'ed; NULL: not known. */
static char *version_of(const struct tw_pack *p, const json_t *python)
{
    json_t *rank;
    size_t i;
    /* what a process of the job said of itself is certain */
    json_array_foreach (json_object_get(p->provenance, "ranks"), i, rank) {
        const char *said = tw_pk_text(json_object_get(rank, "versions"), "python");
        if (said)
            return tw_strdup(said);
    }
    /* else only the file can be asked, and only when it did not change */
    char hex[65];
    uint64_t bytes;
    const char *path = tw_pk_text(python, "path"), *sha256 = tw_pk_text(python, "sha256"), *why;
    if (!path || !sha256 || tw_pv_sha256(path, 0, 0, hex, &bytes, &why) != 0 ||
        strcmp(hex, sha256) != 0)
        return NULL;
    return tw_pk_python_version(path);
}

/* Where a package was installed from when that was no index: direct_url.json beside its metadata
 * (PEP 610). The caller's; NULL: an index, or not known. */
static json_t *origin_of(const struct tw_pack *p, const char *name, const char *version)
{
    json_t *folder, *o = NULL;
    size_t i;
    /* the folders in which packages lay when the job ran */
    json_array_foreach (TW_PK_AT(p->provenance, "packages", "python_folders"), i, folder) {
        char *text = NULL;
        char *path = json_string_value(folder) ? tw_printf("%s/%s-%s.dist-info/direct_url.json",
                                                           json_string_value(folder), name, version)
                                               : NULL;
        size_t n = 0;
        if (path && !o && tw_read_file(path, 65536, &text, &n, NULL) == 0)
            o = tw_json_load(text, n, 0, NULL);
        tw_free(text);
        tw_free(path);
    }
    return o;
}

/* Without regard to case, as people look a name up. */
static int by_line(const void *a, const void *b)
{
    return strcasecmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorted lines as one text. Takes the lines, not the array. malloc'ed; NULL: no memory. */
static char *joined_lines(char **lines, size_t n)
{
    struct tw_buf b = {0};
    if (n)
        qsort(lines, n, sizeof *lines, by_line);
    tw_buf_puts(&b, "");
    for (size_t i = 0; i < n; i++) {
        tw_buf_puts(&b, lines[i]);
        tw_free(lines[i]);
    }
    return tw_buf_steal(&b);
}

/* The line of the lock list for one package: from an index by its version, from a repository by its
 * commit, from another address by that. A package of the checkout goes to `local` instead, and one
 * from elsewhere on this machine is missing; both give NULL, as does no memory (p->failed). */
static char *requirement(struct tw_pack *p, json_t *area, json_t *local, const char *name,
                         const char *version)
{
    json_t *from = origin_of(p, name, version);
    const char *url = tw_pk_text(from, "url");
    const char *commit = tw_pk_text(json_object_get(from, "vcs_info"), "commit_id");
    const char *vcs = tw_pk_text(json_object_get(from, "vcs_info"), "vcs");
    char *line = NULL;
    if (!url) {
        /* installed from an index: the version is enough */
        line = tw_printf("%s==%s\n", name, version);
    } else if (vcs && commit) {
        /* from a repository: its commit, since a branch moves on */
        line = tw_printf("%s @ %s+%s@%s\n", name, vcs, url, commit);
    } else if (!tw_starts(url, "file://")) {
        line = tw_printf("%s @ %s\n", name, url);
    } else {
        /* a folder of this machine */
        char *real = tw_pk_real("/", url + strlen("file://"));
        const char *below = real && p->top ? tw_pk_below(real, p->top) : NULL;
        if (below)
            tw_pk_add(&p->failed, local, json_pack("{s:s, s:s}", "name", name, "path", below));
        else
            tw_pk_missing(&p->failed, area,
                          "the Python package %s %s was installed from %s, which nobody else has; "
                          "install it from an index",
                          name, version, url);
        tw_free(real);
        json_decref(from);
        return NULL;
    }
    p->failed |= !line;
    json_decref(from);
    return line;
}

/* Adds the index where builds of PyTorch with a local version ("2.13.0+cpu") are, since the usual
 * index has none of these. options: those of pip, empty so far. */
static void torch_index(bool *failed, json_t *options, const char *name, const char *version)
{
    /* what is behind the plus names the build: cpu, cu126, rocm6.2 */
    const char *plus = strchr(version, '+');
    if (!plus ||
        !(strcmp(name, "torch") == 0 || strcmp(name, "torchvision") == 0 ||
          strcmp(name, "torchaudio") == 0) ||
        json_array_size(options))
        return;
    if (strspn(plus + 1, "abcdefghijklmnopqrstuvwxyz0123456789.") != strlen(plus + 1))
        return;
    char *url = tw_printf("https://download.pytorch.org/whl/%s", plus + 1);
    tw_pk_add(failed, options, json_string("--extra-index-url"));
    tw_pk_add(failed, options, url ? json_string(url) : NULL);
    tw_free(url);
}

/* Writes requirements.txt. *packages: how many there are, with those of the checkout. */
static int put_python(struct tw_pack *p, json_t *area, size_t *packages, struct twin_error *err)
{
    json_t *list = TW_PK_AT(p->provenance, "packages", "python");
    json_t *local = json_array();
    json_t *options = json_array();
    json_t *value;
    const char *name;
    char **line = tw_calloc(json_object_size(list) + 1, sizeof *line);
    size_t n = 0;
    /* options of the user's come first, and then torch_index() adds none */
    for (const char *const *o = p->o ? p->o->pip : NULL; o && *o; o++)
        tw_pk_add(&p->failed, options, json_string(*o));
    if (line && list)
        json_object_foreach (list, name, value) {
            const char *version = json_string_value(value);
            if (!version || strcasecmp(name, "pip") == 0 || strcasecmp(name, "twinrun") == 0)
                continue; /* pip installs and twinrun replays: a replay has its own */
            torch_index(&p->failed, options, name, version);
            if ((line[n] = requirement(p, area, local, name, version)))
                n++;
        }
    *packages = n + json_array_size(local);
    tw_pk_put(&p->failed, area, "local", local);
    tw_pk_put(&p->failed, area, "pip_options", options);
    char *text = line ? joined_lines(line, n) : NULL;
    int rc = text ? tw_bag_put(&p->w, "data/environment/requirements.txt", text, strlen(text), err)
                  : tw_no_memory(err, "packing the environment");
    tw_pk_put(&p->failed, area, "requirements", json_string("environment/requirements.txt"));
    tw_free(text);
    tw_free(line);
    return rc;
}

/* A list "NAME=VERSION" of another package manager; nothing where the run recorded none. */
static int put_list(struct tw_pack *p, const char *key, const char *path, struct twin_error *err)
{
    json_t *list = TW_PK_AT(p->provenance, "packages", key), *value;
    const char *name;
    if (!json_object_size(list))
        return 0;
    char **line = tw_calloc(json_object_size(list), sizeof *line);
    size_t n = 0;
    if (line)
        json_object_foreach (list, name, value)
            if (json_string_value(value) &&
                (line[n] = tw_printf("%s=%s\n", name, json_string_value(value))))
                n++;
    char *text = line ? joined_lines(line, n) : NULL;
    int rc = text ? tw_bag_put(&p->w, path, text, strlen(text), err)
                  : tw_no_memory(err, "packing the environment");
    tw_free(text);
    tw_free(line);
    return rc;
}

/* Machine and libraries as the run recorded them. */
static int put_system(struct tw_pack *p, struct twin_error *err)
{
    static const char *const keys[] = {"environment", "accelerators", "libraries"};
    json_t *o = json_object();
    size_t n = 0;
    for (size_t i = 0; i < 3; i++) {
        json_t *v = json_object_get(p->provenance, keys[i]);
        if (v)
            tw_pk_put(&p->failed, o, keys[i], json_incref(v));
    }
    char *text = o ? tw_pk_dump(o, &n) : NULL;
    int rc = text ? tw_bag_put(&p->w, "data/environment/system.json", text, n, err)
                  : tw_no_memory(err, "packing the environment");
    tw_free(text);
    json_decref(o);
    return rc;
}

/* What the record of the environment does not say. */
static void look_for_gaps(struct tw_pack *p, json_t *area, const json_t *python,
                          const char *version)
{
    json_t *file;
    size_t i, unknown = 0, all = 0;
    if (!json_is_true(json_object_get(p->provenance, "complete")))
        tw_pk_missing(&p->failed, area,
                      "the record of what surrounded the run is not complete: twinrun was ended "
                      "before the job");
    if (python && !version)
        tw_pk_missing(&p->failed, area,
                      "the version of Python: the job did not say it, and %s is another file now",
                      tw_pk_text(python, "path"));
    if (python && json_array_size(TW_PK_AT(p->provenance, "packages", "python_folders")) == 0)
        tw_pk_missing(&p->failed, area,
                      "the list of Python packages: no folder of packages was found when it ran");
    if (!json_object_size(TW_PK_AT(p->provenance, "environment", "system")))
        tw_pk_missing(&p->failed, area, "the operating system");
    json_array_foreach (TW_PK_AT(p->provenance, "libraries", "files"), i, file) {
        all++;
        unknown += !tw_pk_text(file, "sha256");
    }
    if (unknown)
        tw_pk_missing(&p->failed, area, "the digests of %zu of %zu libraries", unknown, all);
    /* without Python the libraries are all that is known of the software */
    if (!python && all == 0)
        tw_pk_missing(
            &p->failed, area,
            "the libraries that the job used: none was recorded (an unwatched or static program)");
}

/* The lock list of Python, lists of the system's packages, machine and libraries; then what is
 * missing. */
int tw_pack_environment(struct tw_pack *p, struct twin_error *err)
{
    json_t *area = p->area[TWIN_AREA_ENVIRONMENT];
    const json_t *python = interpreter_of(p);
    char *version = python ? version_of(p, python) : NULL;
    const char *system = tw_pk_text(TW_PK_AT(p->provenance, "environment", "system"),
                                    "pretty_name");
    const char *cpu = tw_pk_text(TW_PK_AT(p->provenance, "environment", "cpu"), "name");
    size_t packages = 0;
    /* a job without Python has no lock list, and needs none */
    int rc = python ? put_python(p, area, &packages, err) : 0;
    rc = rc ? rc : put_list(p, "dpkg", "data/environment/dpkg.txt", err);
    rc = rc ? rc : put_list(p, "conda", "data/environment/conda.txt", err);
    rc = rc ? rc : put_system(p, err);
    rc = rc ? rc : tw_pack_image(p, area, err);
    tw_pk_put(&p->failed, area, "python", version ? json_string(version) : json_null());
    look_for_gaps(p, area, python, version);
    if (version)
        tw_pk_holds(&p->failed, area, "Python %s, %zu package%s, %s, %s", version, packages,
                    tw_plural_s(packages), tw_text_or(system, "?"), tw_text_or(cpu, "?"));
    else
        tw_pk_holds(&p->failed, area, "%zu libraries, %s, %s",
                    json_array_size(TW_PK_AT(p->provenance, "libraries", "files")),
                    tw_text_or(system, "?"), tw_text_or(cpu, "?"));
    tw_free(version);
    return rc;
}
