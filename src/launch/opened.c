/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Results in places that only the script knows. The agents tell in the run folder's `written` which
 * files the job's processes opened for writing, and what they put in place by renaming. What of it
 * is there when the job has ended, and was changed during the run, is listed like the files of the
 * working folder.
 */
#include "launch.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Paths that are looked at, and bytes of the agents' file that are read. */
enum { PATHS_MAX = 4096, BYTES_MAX = 16 << 20 };

static int by_path_then_place(const void *a, const void *b)
{
    const struct tw_opened_file *x = a, *y = b;
    int order = strcmp(x->path, y->path);
    if (order != 0)
        return order;
    return x->path < y->path ? -1 : 1; /* both lie in one text: the earlier line first */
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct tw_opened_file *)a)->path,
                  ((const struct tw_opened_file *)b)->path);
}

/* Sorts by path and keeps one entry of each. Of a path that several processes opened the first word
 * counts: it is nearest to the start of the job. */
static void sort_once(struct tw_opened *w)
{
    size_t kept = 0;
    if (w->count > 1)
        qsort(w->file, w->count, sizeof *w->file, by_path_then_place);
    for (size_t i = 0; i < w->count; i++)
        if (kept == 0 || strcmp(w->file[kept - 1].path, w->file[i].path) != 0)
            w->file[kept++] = w->file[i];
    w->count = kept;
}

/* Splits w->text into "<bytes before>TAB<path>"; the paths point into the text. */
static int take_lines(struct tw_opened *w, struct twin_error *err)
{
    char *save = NULL;
    for (char *line = strtok_r(w->text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *path = NULL;
        unsigned long long before = strtoull(line, &path, 10);
        if (path == line || path[0] != '\t' || path[1] != '/') {
            w->cut = true; /* a path that could not be told, or a line that was cut off */
            continue;
        }
        int rc = tw_launch_grow(&w->file, w->count, sizeof *w->file, err);
        if (rc)
            return rc;
        w->file[w->count++] = (struct tw_opened_file){path + 1, before};
    }
    return 0;
}

/* A run without the file has opened nothing that we know of. One that is too large or cannot be
 * read sets `cut`. On failure w is still to be freed. */
int tw_opened_load(struct tw_opened *w, const struct twin_run *run, struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    struct stat st;
    size_t bytes;
    *w = (struct tw_opened){0};
    char *path = tw_path_join(run->dir, "written");
    if (!path)
        return tw_no_memory(err, "listing what the job wrote");
    int rc = stat(path, &st) == 0 ? tw_read_file(path, BYTES_MAX, &w->text, &bytes, &why) : 0;
    tw_free(path);
    if (rc == TWIN_ENOMEM)
        return twin_error_set(err, rc, "%s", why.message);
    w->cut = rc != 0;
    if (!w->text)
        return 0;
    rc = take_lines(w, err);
    sort_once(w);
    return rc;
}

void tw_opened_free(struct tw_opened *w)
{
    tw_free(w->file);
    tw_free(w->text);
    *w = (struct tw_opened){0};
}

static const struct tw_opened_file *find(const struct tw_opened *w, const char *path)
{
    const struct tw_opened_file key = {path, 0};
    return w->count > 0 ? bsearch(&key, w->file, w->count, sizeof key, by_path) : NULL;
}

uint64_t tw_opened_before(const struct tw_opened *w, const char *path)
{
    const struct tw_opened_file *found = find(w, path);
    return found ? found->bytes_before : 0;
}

int twin_run_told_writing(const struct twin_run *run, const char *path, bool *told,
                          struct twin_error *err)
{
    struct tw_opened w;
    char real[PATH_MAX];
    int rc = tw_opened_load(&w, run, err);
    *told = rc == 0 && realpath(path, real) && find(&w, real);
    tw_opened_free(&w);
    return rc;
}

/* Does the path lead through a folder such as .git or node_modules? */
static bool has_bulk_part(const char *path)
{
    char part[256];
    for (const char *p = path; *p; p += strspn(p, "/")) {
        size_t n = strcspn(p, "/");
        if (n > 0 && n < sizeof part) {
            memcpy(part, p, n);
            part[n] = '\0';
            if (tw_files_is_bulk(part))
                return true;
        }
        p += n;
    }
    return false;
}

static int64_t ns(struct timespec t)
{
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* One path: a file, or a folder that was renamed to this place with all that is in it. */
static int look_at(const struct tw_opened_file *f, const char *home, int64_t since_ns,
                   tw_outside_fn *each, void *user, struct twin_error *err)
{
    struct stat st;
    if (lstat(f->path, &st) != 0)
        return 0; /* it was temporary */
    if (S_ISDIR(st.st_mode))
        return tw_snapshot_each_since(f->path, home, since_ns, each, user, err);
    bool changed = ns(st.st_mtim) >= since_ns || ns(st.st_ctim) >= since_ns;
    return S_ISREG(st.st_mode) && changed ? each(user, f->path, (uint64_t)st.st_size, err) : 0;
}

/* Tells `each` what of the opened paths is there and was changed since since_ns. Stops at its first
 * non-zero and returns it. */
int tw_opened_each(struct tw_opened *w, const char *home, int64_t since_ns, tw_outside_fn *each,
                   void *user, struct twin_error *err)
{
    int rc = 0;
    size_t looked_at = 0;
    for (size_t i = 0; rc == 0 && i < w->count; i++) {
        const struct tw_opened_file *f = &w->file[i];
        if (tw_path_lies_in(f->path, home) || has_bulk_part(f->path))
            continue;
        w->cut |= looked_at == PATHS_MAX;
        if (looked_at++ >= PATHS_MAX)
            break;
        rc = look_at(f, home, since_ns, each, user, err);
    }
    return rc;
}
