/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of several files below one folder as one list, for whoever compares whole folders of
 * checkpoints. The caller names the files; tensors.c calls tw_folder_list() for the list and
 * tw_folder_read() for elements.
 *
 * A name begins with the path of its file, unless an index says that the file is only a part:
 * Hugging Face's NAME.safetensors.index.json names the tensors of a model that was cut into several
 * files, wherever the cuts are. Then the names begin with the folder of the model, so a model that
 * was cut in another way has the same list. A file that holds no tensors becomes one value.
 *
 * While the list is made each file is opened once and closed again; for elements one file at a time
 * is open. */
#include "internal.h"

#include <fcntl.h>
#include "json_load.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_INDEX ((uint64_t)64 << 20) /* bytes of an index: a model of a million tensors */

/* One file of tensors: its path below the folder, and which entries of the list are its own. */
struct part {
    const char *path;
    size_t first, count;
};

/* The folder behind a list. One file at a time is open for reading elements. */
struct tw_folder {
    const char *name; /* the list's */
    int fd;
    struct part *part; /* files of tensors, by their first one */
    size_t count;
    size_t current; /* part that is open */
    struct twin_tensors *open;
};

/* A descriptor of a regular file below the folder, or an error. */
static int open_regular(const struct tw_folder *d, const char *path, const char *name,
                        uint64_t *size, struct twin_error *err)
{
    struct stat st;
    /* a FIFO must not hold us up */
    int fd = openat(d->fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return twin_error_system(err, "%s", name);
    int rc = 0;
    if (fstat(fd, &st) != 0)
        rc = twin_error_system(err, "%s", name);
    else if (!S_ISREG(st.st_mode))
        rc = twin_error_set(err, TWIN_EIO, "%s: expected a file", name);
    if (rc) {
        close(fd);
        return rc;
    }
    *size = (uint64_t)st.st_size;
    return fd;
}

/* Opens a file of the folder as tensors. 1: it is none of the formats that hold tensors, and *out
 * is NULL. */
static int open_file(const struct tw_folder *d, const char *path, bool values,
                     struct twin_tensors **out, struct twin_error *err)
{
    char *name = tw_path_join(d->name, path);
    struct tw_source s = {.name = name};
    *out = NULL;
    s.fd = name ? open_regular(d, path, name, &s.size, err) : tw_no_memory(err, "reading %s", path);
    struct twin_error why = TWIN_ERROR_INIT; /* that a file is none of tensors is no error here */
    int rc = s.fd < 0 ? s.fd : tw_tensors_open_source(&s, values, out, &why);
    tw_free(name);
    if (s.fd < 0 || rc == 0)
        return rc;
    return rc == TWIN_EUNSUPPORTED ? 1 : twin_error_set(err, rc, "%s", why.message);
}

/* ---- indexes */

/* The whole of an index, NUL-terminated; NULL: it cannot be read, or is larger than an index ever
 * is. */
static char *index_text(const struct tw_folder *d, const char *path, size_t *n)
{
    uint64_t size;
    int fd = open_regular(d, path, path, &size, NULL);
    char *text = fd >= 0 && size <= MAX_INDEX ? tw_malloc((size_t)size + 1) : NULL;
    ssize_t got = text ? tw_pread_all(fd, text, (size_t)size, 0) : -1;
    if (fd >= 0)
        close(fd);
    if (got < 0) {
        tw_free(text);
        return NULL;
    }
    text[got] = '\0';
    *n = (size_t)got;
    return text;
}

/* Adds to `parts` the paths of the files that the index at `path` cuts its model into. One that
 * cannot be read as such says nothing, and its files are listed like any other. */
static void read_index(const struct tw_folder *d, const char *path, json_t *parts)
{
    size_t n = 0;
    char *text = index_text(d, path, &n);
    json_t *index = text ? tw_json_load(text, n, JSON_REJECT_DUPLICATES, NULL) : NULL, *file;
    const char *tensor, *slash = strrchr(path, '/');
    const int folder = slash ? (int)(slash + 1 - path) : 0;
    json_object_foreach (json_object_get(index, "weight_map"), tensor, file) {
        const char *name = json_string_value(file);
        bool below = name && !tw_path_fault(name, strlen(name), TW_PATH_ANY_NAME);
        char *full = below ? tw_printf("%.*s%s", folder, path, name) : NULL;
        if (full)
            json_object_set_new(parts, full, json_true());
        tw_free(full);
    }
    json_decref(index);
    tw_free(text);
}

/* ---- one list of all */

/*
 * What stands before the names of a file's tensors: its path and '/', or the folder of its model.
 */
static char *prefix_of(const char *path, const json_t *parts)
{
    if (!json_object_get(parts, path))
        return tw_printf("%s/", path);
    const char *slash = strrchr(path, '/');
    return tw_strndup(path, slash ? (size_t)(slash + 1 - path) : 0);
}

/* Adds the tensors of one file with the prefix before their names. They get no place: values are
 * read through the file itself. */
static int add_tensors(struct twin_tensors *f, struct twin_tensors *in, const char *prefix,
                       struct twin_error *err)
{
    for (size_t i = 0; i < twin_tensors_count(in); i++) {
        const struct twin_tensors_entry *e = twin_tensors_at(in, i);
        struct tw_found t = {.dtype = e->dtype, .ndim = e->ndim, .dense = true};
        char *name = tw_printf("%s%s", prefix, e->name);
        memcpy(t.shape, e->shape, e->ndim * sizeof *e->shape);
        t.name = name ? tw_arena_text(f, name, strlen(name)) : NULL;
        t.stored_as = tw_arena_text(f, e->stored_as, strlen(e->stored_as));
        t.unreadable = e->unreadable ? tw_arena_text(f, e->unreadable, strlen(e->unreadable))
                                     : NULL;
        /* a place of its own: nothing shares it */
        t.piece = (struct tw_piece){
            .at = twin_tensors_count(f), .packed = INT64_MAX, .bytes = INT64_MAX};
        tw_free(name);
        if (!t.name || !t.stored_as)
            return tw_no_memory(err, "for the list of %s", tw_tensors_source(f)->name);
        int rc = tw_tensors_add(f, &t, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* Adds the other values of one file; their names always begin with its path. */
static int add_values(struct twin_tensors *f, const struct twin_tensors *in, const char *path,
                      struct twin_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < twin_tensors_value_count(in) && rc == 0; i++) {
        struct twin_tensors_value v = *twin_tensors_value_at(in, i);
        char *name = tw_printf("%s/%s", path, v.name);
        v.name = name ? name : "?";
        rc = tw_tensors_value(f, &v, err);
        tw_free(name);
    }
    for (size_t i = 0; i < twin_tensors_skipped_count(in) && rc == 0; i++)
        rc = tw_tensors_skip(f, twin_tensors_skipped(in, i));
    return rc;
}

/* Adds one file: its tensors and values, or, when it holds no tensors, the text that the caller
 * gave for it. */
static int add_file(struct twin_tensors *f, struct tw_folder *d,
                    const struct twin_tensors_file *file, const json_t *parts,
                    struct twin_error *err)
{
    struct twin_tensors *in;
    struct part p = {.path = tw_arena_text(f, file->path, strlen(file->path)),
                     .first = twin_tensors_count(f)};
    char *prefix = prefix_of(file->path, parts);
    int rc = prefix && p.path ? open_file(d, file->path, true, &in, err)
                              : tw_no_memory(err, "for the list of %s", file->path);
    if (rc == 1) {
        rc = tw_tensors_value(f,
                              &(struct twin_tensors_value){.name = file->path,
                                                           .kind = TWIN_VALUE_TEXT,
                                                           .text = file->otherwise,
                                                           .text_bytes = strlen(file->otherwise)},
                              err);
    } else if (rc == 0) {
        rc = add_tensors(f, in, prefix, err);
        rc = rc ? rc : add_values(f, in, file->path, err);
        twin_tensors_close(in);
        p.count = twin_tensors_count(f) - p.first;
        d->part[d->count++] = p;
    }
    tw_free(prefix);
    return rc;
}

/* All indexes are read first: whether a file is a part of a model decides the names of its tensors.
 */
int tw_folder_list(struct twin_tensors *f, const struct twin_tensors_file *file, size_t count,
                   struct tw_folder **out, struct twin_error *err)
{
    struct tw_folder *d = *out = tw_calloc(1, sizeof *d);
    json_t *parts = json_object();
    const char *name = tw_tensors_source(f)->name;
    int rc = 0;
    if (d) {
        d->name = name;
        d->fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        d->part = tw_calloc(count + 1, sizeof *d->part);
    }
    if (!d || !d->part || !parts)
        rc = tw_no_memory(err, "for the list of %s", name);
    else if (d->fd < 0)
        rc = twin_error_system(err, "%s", name);
    for (size_t i = 0; i < count && rc == 0; i++)
        if (tw_ends(file[i].path, ".index.json"))
            read_index(d, file[i].path, parts);
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = add_file(f, d, &file[i], parts, err);
    json_decref(parts);
    return rc ? rc : tw_tensors_check_names(f, err);
}

void tw_folder_free(struct tw_folder *d)
{
    if (!d)
        return;
    twin_tensors_close(d->open);
    if (d->fd >= 0)
        close(d->fd);
    tw_free(d->part);
    tw_free(d);
}

/* ---- values */

/* Finds the file that has entry i, going forward from the open one. The file is opened anew, so it
 * may have changed: type and number of elements must be the same. */
int tw_folder_read(struct tw_folder *d, const struct twin_tensors_entry *e, size_t i,
                   uint64_t first, uint64_t n, void *out, struct twin_error *err)
{
    /* Parts are sorted by their first entry, so the search goes one way. */
    size_t k = d->open && d->part[d->current].first <= i ? d->current : 0;
    while (i - d->part[k].first >= d->part[k].count)
        k++;
    if (!d->open || k != d->current) {
        twin_tensors_close(d->open);
        int rc = open_file(d, d->part[k].path, false, &d->open, err);
        if (rc)
            return rc == 1 ? twin_error_set(err, TWIN_EFORMAT, "%s: another file than before",
                                            d->part[k].path)
                           : rc;
        d->current = k;
    }
    const struct twin_tensors_entry *is = twin_tensors_at(d->open, i - d->part[k].first);
    if (!is || is->dtype != e->dtype || is->count != e->count)
        return twin_error_set(err, TWIN_EFORMAT, "%s: another file than before", d->part[k].path);
    return twin_tensors_read(d->open, i - d->part[k].first, first, n, out, err);
}
