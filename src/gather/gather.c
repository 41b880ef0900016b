/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes one run folder of the parts. The part with rank 0 becomes the run: its folder is copied as
 * it is. Of the others what belongs to a rank goes beside its ranks (MERGED), and all else into
 * nodes/NUMBER-HOST/, so that nothing is lost. Every part's own run.json is there, too.
 */
#include "gather.h"

#include "parts.h"
#include "tar.h"

#include "base.h"
#include "launch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bytes of a run.json; folders inside of each other. */
enum { JSON_MAX = 64 << 20, DEPTH = 64 };

/* The folders whose files are named after a rank and its process. */
static const char *const merged[] = {"ranks", "worlds", "telemetry", "values", "nccl", "kernels"};
/* What speaks of a part and not of the whole. */
static const char *const own_files[] = {"run.json", "verdict.json"};

/* What of a folder is not copied. */
enum leave { LEAVE_NOTHING, LEAVE_MERGED, LEAVE_OWN };

struct gathering {
    const struct tw_gather_options *o;
    const struct tw_front *front;
    struct tw_gathered *out;
    struct twin_error *err;
    struct tw_parts parts;
    char *temp; /* beside o->into; removed at the end */
    char *run;  /* temp/run: what becomes o->into */
};

/* ---- copies */

static int copy_bytes(struct gathering *g, int from, int to, const char *name)
{
    struct stat st;
    if (tw_copy_bytes(from, to, g->front) != 0)
        return errno == ECANCELED ? twin_error_set(g->err, TWIN_EINTR, "interrupted")
                                  : twin_error_system(g->err, "cannot write a copy of %s", name);
    if (fstat(to, &st) == 0)
        g->out->bytes += (uint64_t)st.st_size;
    return 0;
}

static bool same_file(int a, int folder, const char *name)
{
    int b = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool same = b >= 0 && tw_same_bytes(a, b);
    if (b >= 0)
        close(b);
    return same;
}

/* A name that is free in the folder: NAME, NAME-2, ...; "0.7.twt" becomes "0.7-2.twt". False: it is
 * there already, with the same bytes. */
static bool free_name(int from, int folder, const char *name, char out[NAME_MAX + 1])
{
    struct stat st;
    const size_t stem = tw_ends(name, ".twt") ? strlen(name) - 4 : strlen(name);
    snprintf(out, NAME_MAX + 1, "%s", name);
    for (int again = 2; fstatat(folder, out, &st, AT_SYMLINK_NOFOLLOW) == 0; again++) {
        if (same_file(from, folder, out))
            return false;
        snprintf(out, NAME_MAX + 1, "%.*s-%d%s", (int)stem, name, again, name + stem);
    }
    return true;
}

/* Copies a regular file from one open folder into another. */
static int copy_file(struct gathering *g, int from, const char *name, int to)
{
    char new_name[NAME_MAX + 1];
    struct stat st;
    int rc = 0, out = -1, in = openat(from, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (in < 0 || fstat(in, &st) != 0) {
        rc = twin_error_system(g->err, "cannot read %s", name);
    } else if (!S_ISREG(st.st_mode)) {
        rc = twin_error_set(g->err, TWIN_EFORMAT, "refused: %s is no regular file", name);
    } else if (free_name(in, to, name, new_name)) {
        out = openat(to, new_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                     (st.st_mode & 0777) | 0600);
        rc = out < 0 ? twin_error_system(g->err, "cannot make a copy of %s", name)
                     : copy_bytes(g, in, out, name);
    }
    if (in >= 0)
        close(in);
    if (out >= 0 && close(out) != 0 && rc == 0)
        rc = twin_error_system(g->err, "cannot write a copy of %s", name);
    return rc;
}

/* A link is copied as a link, and never followed: a kept working folder has some. */
static int copy_link(struct gathering *g, int from, const char *name, int to)
{
    char target[4096];
    ssize_t n = readlinkat(from, name, target, sizeof target - 1);
    if (n < 0)
        return twin_error_system(g->err, "cannot read the link %s", name);
    target[n] = '\0';
    return symlinkat(target, to, name) == 0
               ? 0
               : twin_error_system(g->err, "cannot make a copy of the link %s", name);
}

static bool is_left(enum leave leave, const char *name)
{
    for (size_t i = 0; leave == LEAVE_MERGED && i < sizeof merged / sizeof merged[0]; i++)
        if (strcmp(name, merged[i]) == 0)
            return true;
    for (size_t i = 0; leave == LEAVE_OWN && i < sizeof own_files / sizeof own_files[0]; i++)
        if (strcmp(name, own_files[i]) == 0)
            return true;
    return false;
}

/* Copies what is in `from` into `to`, but for what is left at the top. Both are closed. */
static int copy_folder(struct gathering *g, int from, int to, enum leave leave, int depth)
{
    DIR *d = from >= 0 ? fdopendir(from) : NULL;
    int rc = 0;
    if (!d || to < 0)
        rc = twin_error_system(g->err, "cannot copy a folder");
    if (rc == 0 && depth == 0)
        rc = twin_error_set(g->err, TWIN_ELIMIT, "folders too deep inside of each other");
    for (struct dirent *e; rc == 0 && (e = readdir(d));) {
        const char *name = e->d_name;
        struct stat st;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || is_left(leave, name))
            continue;
        if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            rc = twin_error_system(g->err, "cannot look at %s", name);
        else if (S_ISDIR(st.st_mode))
            rc = copy_folder(g, openat(from, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW),
                             tw_folder_below(to, name), LEAVE_NOTHING, depth - 1);
        else
            rc = S_ISLNK(st.st_mode) ? copy_link(g, from, name, to) : copy_file(g, from, name, to);
    }
    if (d)
        closedir(d);
    else if (from >= 0)
        close(from);
    if (to >= 0)
        close(to);
    return rc;
}

static int open_folder(const char *path)
{
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* Where what is a part's own goes: "nodes/0-HOST". */
static char *own_folder(const struct gathering *g, size_t i)
{
    char host[65];
    snprintf(host, sizeof host, "%s", g->parts.item[i].run->host);
    for (char *c = host; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
              *c == '.' || *c == '_' || *c == '-'))
            *c = '_';
    return tw_printf("nodes/%zu-%s", i, host);
}

/* Puts a part beside the base. */
static int merge_part(struct gathering *g, size_t i, int run)
{
    char *own = own_folder(g, i);
    int rc = own ? 0 : tw_no_memory(g->err, "gathering runs");
    if (rc == 0)
        rc = copy_folder(g, open_folder(g->parts.item[i].dir), tw_folder_below(run, own),
                         LEAVE_MERGED, DEPTH);
    for (size_t k = 0; rc == 0 && k < sizeof merged / sizeof merged[0]; k++) {
        char *path = tw_path_join(g->parts.item[i].dir, merged[k]);
        int from = path ? open_folder(path) : -1;
        if (from >= 0)
            rc = copy_folder(g, from, tw_folder_below(run, merged[k]), LEAVE_NOTHING, DEPTH);
        else if (!path)
            rc = tw_no_memory(g->err, "gathering runs");
        else if (errno != ENOENT)
            rc = twin_error_system(g->err, "cannot read %s", path);
        tw_free(path);
    }
    tw_free(own);
    return rc;
}

/* ---- run.json */

/* json_dumps makes it with the functions that jansson was given. */
static void free_text(char *text)
{
    json_malloc_t make;
    json_free_t release;
    json_get_alloc_funcs(&make, &release);
    release(text);
}

/* NULL: g->err says why. */
static json_t *load_json(struct gathering *g, size_t i)
{
    char *path = tw_path_join(g->parts.item[i].dir, "run.json"), *text = NULL;
    size_t n = 0;
    json_t *o = NULL;
    int rc = path ? tw_read_file(path, JSON_MAX, &text, &n, g->err)
                  : tw_no_memory(g->err, "gathering runs");
    if (rc == 0 && !(o = json_loadb(text, n, 0, NULL))) /* it was loaded before: no memory */
        tw_no_memory(g->err, "reading %s", path);
    tw_free(text);
    tw_free(path);
    return o;
}

/* The id of the whole: that of the parts where they have one, else one that follows from theirs, in
 * whatever order they were named. */
static void id_of(const struct gathering *g, char hex[33])
{
    uint64_t a = 0, b = 0;
    bool one = true;
    for (size_t i = 0; i < g->parts.count; i++) {
        const char *id = g->parts.item[i].run->id;
        uint64_t x = 1, y = 2;
        one &= strcmp(id, g->parts.item[0].run->id) == 0;
        for (const char *c = id; *c; c++) {
            x = tw_mix64(x ^ (unsigned char)*c);
            y = tw_mix64(y + (unsigned char)*c);
        }
        a += x;
        b += y;
    }
    snprintf(hex, 33, "%016llx%016llx", (unsigned long long)a, (unsigned long long)b);
    if (one)
        snprintf(hex, 33, "%.32s", g->parts.item[0].run->id);
}

/* What a person is to know of the others: it goes into every verdict on the run. */
static char *note_of(const struct gathering *g, size_t base)
{
    struct tw_buf b = {0};
    tw_buf_printf(&b,
                  "gathered from %zu folders: what was printed and written is that of %s; that of "
                  "the others is kept in nodes/ and not compared",
                  g->parts.count, g->parts.item[base].run->host);
    for (size_t i = 0; i < g->out->missing_count && i < TW_GATHER_NAMED; i++)
        tw_buf_printf(&b, "%s%d", i ? ", " : "; no trace of rank ", g->out->missing[i]);
    if (g->out->missing_count > TW_GATHER_NAMED)
        tw_buf_printf(&b, " and %zu more", g->out->missing_count - TW_GATHER_NAMED);
    return tw_buf_steal(&b);
}

/* A run is as well as the worst of its parts: 0 ended well, 1 has no end, 2 failed. */
static int badness(const struct twin_run *r)
{
    if (r->in_progress)
        return 1;
    return r->outcome == TWIN_RUN_EXITED && r->exit_code == 0 ? 0 : 2;
}

/* How a part ended, as how the whole did. False: no memory. */
static bool take_end(json_t *root, const json_t *part)
{
    static const char *const names[] = {"outcome", "exit_code", "signal", "message"};
    bool ok = true;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        json_t *value = json_object_get(part, names[i]);
        if (value)
            ok &= json_object_set(root, names[i], value) == 0;
        else
            json_object_del(root, names[i]);
    }
    return ok;
}

/* Adds what one part says to the run's: its processes, its notes, who it is, how it ended. */
static int add_json(struct gathering *g, json_t *root, json_t *nodes, size_t base, size_t i,
                    int *worst)
{
    static const char *const lists[] = {"processes", "notes"};
    const struct twin_run *r = g->parts.item[i].run;
    json_t *part = load_json(g, i);
    char *own = own_folder(g, i);
    bool ok = own != NULL;
    int rc = part ? 0 : g->err->code;
    for (size_t k = 0; part && i != base && k < 2; k++) {
        json_t *to = json_object_get(root, lists[k]), *from = json_object_get(part, lists[k]);
        if (!to && json_is_array(from))
            ok &= json_object_set(root, lists[k], from) == 0;
        else if (json_is_array(from))
            ok &= json_array_extend(to, from) == 0;
    }
    if (part && badness(r) > *worst) {
        *worst = badness(r);
        ok &= take_end(root, part);
    }
    if (part && own)
        ok &= json_array_append_new(nodes, json_pack("{s:s, s:O, s:s, s:b}", "id", r->id, "host",
                                                     json_object_get(part, "host"), "folder", own,
                                                     "base", i == base)) == 0;
    json_decref(part);
    tw_free(own);
    return rc == 0 && !ok ? tw_no_memory(g->err, "gathering runs") : rc;
}

/* The ranks without a trace, those that are named. NULL: no memory. */
static json_t *missing_json(const struct gathering *g)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < g->out->missing_count && i < TW_GATHER_NAMED; i++)
        if (json_array_append_new(list, json_integer(g->out->missing[i])) != 0) {
            json_decref(list);
            list = NULL;
        }
    return list;
}

/* What the whole alone has. False: no memory. */
static bool add_whole(struct gathering *g, json_t *root, json_t *nodes, const char *note)
{
    char id[33];
    json_t *notes = json_object_get(root, "notes");
    bool ok = true;
    id_of(g, id);
    if (!json_is_array(notes)) {
        ok = json_object_set_new(root, "notes", json_array()) == 0;
        notes = json_object_get(root, "notes");
    }
    ok &= json_array_append_new(notes, tw_json_bytes(note)) == 0;
    ok &= json_object_set_new(root, "id", json_string(id)) == 0;
    ok &= json_object_set_new(root, "gathered",
                              json_pack("{s:O, s:i, s:o}", "nodes", nodes, "world", g->out->world,
                                        "missing", missing_json(g))) == 0;
    return ok;
}

/* Writes the run.json of the whole; those of the parts are in their own folders. */
static int write_json(struct gathering *g, size_t base)
{
    json_t *root = load_json(g, base), *nodes = json_array();
    char *note = note_of(g, base), *path = tw_path_join(g->run, "run.json"), *text = NULL;
    int worst = badness(g->parts.item[base].run);
    int rc = root ? 0 : g->err->code;
    if (rc == 0 && (!nodes || !note || !path))
        rc = tw_no_memory(g->err, "gathering runs");
    for (size_t i = 0; rc == 0 && i < g->parts.count; i++)
        rc = add_json(g, root, nodes, base, i, &worst);
    if (rc == 0 && !(add_whole(g, root, nodes, note) && (text = json_dumps(root, JSON_INDENT(1)))))
        rc = tw_no_memory(g->err, "gathering runs");
    if (rc == 0)
        rc = tw_write_file_atomic(path, text, strlen(text), g->err);
    json_decref(root);
    json_decref(nodes);
    free_text(text);
    tw_free(note);
    tw_free(path);
    return rc;
}

/* ---- the steps */

/* Unpacks an archive into a folder of its own, and adds the parts that are in it. */
static int take_archive(struct gathering *g, size_t i, int fd, const char *name)
{
    char *folder = tw_printf("%s/in-%zu", g->temp, i);
    int rc = folder ? tw_mkdirs(folder, g->err) : tw_no_memory(g->err, "gathering runs");
    int root = rc == 0 ? open_folder(folder) : -1;
    if (rc == 0 && root < 0)
        rc = twin_error_system(g->err, "cannot open %s", folder);
    rc = rc ? rc : tw_tar_unpack(fd, name, root, g->front, g->err);
    if (root >= 0)
        close(root);
    rc = rc ? rc : tw_parts_add(&g->parts, folder, name, g->err);
    tw_free(folder);
    return rc;
}

static int take_operand(struct gathering *g, size_t i)
{
    const char *name = g->o->names[i];
    struct stat st;
    if (strcmp(name, "-") == 0)
        return take_archive(g, i, STDIN_FILENO, "stdin");
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY), rc = 0;
    if (fd < 0 || fstat(fd, &st) != 0)
        rc = twin_error_system(g->err, "cannot open %s", name);
    else if (S_ISDIR(st.st_mode))
        rc = tw_parts_add(&g->parts, name, name, g->err);
    else
        rc = take_archive(g, i, fd, name);
    if (fd >= 0)
        close(fd);
    return rc;
}

static int make_temp(struct gathering *g)
{
    struct stat st;
    if (lstat(g->o->into, &st) == 0)
        return twin_error_set(g->err, TWIN_EINVAL,
                              "%s is there already: expected a new name (--into DIR)", g->o->into);
    char *parent = tw_strdup(g->o->into), *slash = parent ? strrchr(parent, '/') : NULL;
    if (slash)
        *slash = '\0';
    const char *above = parent && *parent ? parent : "/";
    int rc = slash ? tw_mkdirs(above, g->err) : tw_no_memory(g->err, "gathering runs");
    g->temp = rc == 0 ? tw_printf("%s/.gather-XXXXXX", parent) : NULL;
    if (rc == 0 && !g->temp)
        rc = tw_no_memory(g->err, "gathering runs");
    if (rc == 0 && !mkdtemp(g->temp)) {
        rc = twin_error_system(g->err, "cannot make a folder in %s", parent);
        tw_free(g->temp);
        g->temp = NULL;
    }
    if (rc == 0 && !(g->run = tw_path_join(g->temp, "run")))
        rc = tw_no_memory(g->err, "gathering runs");
    tw_free(parent);
    return rc;
}

/* The files of the base that speak of it alone: they go where those of the others are. */
static int keep_own(struct gathering *g, size_t base, int run)
{
    char *own = own_folder(g, base);
    int from = open_folder(g->parts.item[base].dir), to = own ? tw_folder_below(run, own) : -1;
    int rc = own ? 0 : tw_no_memory(g->err, "gathering runs");
    if (rc == 0 && (from < 0 || to < 0))
        rc = twin_error_system(g->err, "cannot make nodes/");
    for (size_t i = 0; rc == 0 && i < sizeof own_files / sizeof own_files[0]; i++) {
        struct stat st;
        if (fstatat(from, own_files[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
            rc = copy_file(g, from, own_files[i], to);
    }
    if (from >= 0)
        close(from);
    if (to >= 0)
        close(to);
    tw_free(own);
    return rc;
}

/* All of the base, then the others beside it. What was made is read back before it gets its name.
 */
static int put_together(struct gathering *g)
{
    const size_t base = tw_parts_base(&g->parts);
    struct twin_run *whole = NULL;
    int rc = tw_mkdirs(g->run, g->err), run = rc == 0 ? open_folder(g->run) : -1;
    if (rc == 0 && run < 0)
        rc = twin_error_system(g->err, "cannot open %s", g->run);
    if (rc == 0)
        rc = copy_folder(g, open_folder(g->parts.item[base].dir), tw_folder_below(run, ""),
                         LEAVE_OWN, DEPTH);
    rc = rc ? rc : keep_own(g, base, run);
    for (size_t i = 0; rc == 0 && i < g->parts.count; i++)
        if (i != base)
            rc = merge_part(g, i, run);
    if (run >= 0)
        close(run);
    rc = rc ? rc : write_json(g, base);
    rc = rc ? rc : twin_run_load(g->run, &whole, g->err);
    twin_run_free(whole);
    return rc;
}

int tw_gather(const struct tw_gather_options *o, const struct tw_front *front,
              struct tw_gathered *out, struct twin_error *err)
{
    struct twin_error mine = TWIN_ERROR_INIT;
    struct gathering g = {.o = o, .front = front, .out = out, .err = err ? err : &mine};
    *out = (struct tw_gathered){0};
    int rc = make_temp(&g);
    for (size_t i = 0; rc == 0 && i < o->count; i++)
        rc = take_operand(&g, i);
    rc = rc ? rc : tw_parts_belong(&g.parts, o->one_job, g.err);
    rc = rc ? rc : tw_parts_missing(&g.parts, out, g.err);
    rc = rc ? rc : put_together(&g);
    out->parts = g.parts.count;
    for (size_t i = 0; i < g.parts.count; i++) {
        out->traces += g.parts.item[i].run ? g.parts.item[i].run->trace_count : 0;
        out->unfinished |= g.parts.item[i].run &&
                           g.parts.item[i].run->outcome == TWIN_RUN_INTERRUPTED;
    }
    if (rc == 0 && rename(g.run, o->into) != 0)
        rc = twin_error_system(g.err, "cannot give %s its name", o->into);
    if (g.temp)
        tw_remove_tree(g.temp, NULL, NULL);
    tw_parts_free(&g.parts);
    tw_free(g.temp);
    tw_free(g.run);
    return rc;
}
