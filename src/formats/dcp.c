/* SPDX-License-Identifier: Apache-2.0 */
/* torch.distributed.checkpoint: a folder with a pickle, .metadata, that says of each tensor which
 * boxes of it (chunks) stand in which file, where; each box is a PyTorch archive inside of that
 * file. What is no tensor is such an archive, too. tensors.c calls tw_dcp_list() for a folder with
 * .metadata in it, tw_dcp_read() for elements, tw_dcp_free() at the end.
 *
 * Listing reads .metadata only, through pickle.c, and finds for each chunk its place in
 * storage_data. Reading finds the chunk that holds an element, opens its archive as a file of its
 * own (at an offset), and copies as many elements as follow each other in both. Names are those
 * that torch.save would have given: planner_data has the path of keys for each dotted name.
 *
 * .metadata is foreign: names of files must lie directly in the folder, places within the files,
 * chunks within their tensors, and the search of one list in the other has a limit. */
#include "pickle.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A box of one tensor: from its first index on, so many elements in each dimension; and the bytes
 * of a file that hold it. */
struct chunk {
    int64_t from[TWIN_MAX_NDIM], size[TWIN_MAX_NDIM];
    size_t file; /* index + 1; 0: its place was not told */
    uint64_t at, bytes;
    struct twin_tensors *open; /* while its tensor is read */
};

/* The chunks of one tensor. */
struct boxes {
    struct chunk *chunk;
    size_t count;
};

/* The folder behind a list; it lives as long as the list. file: those that chunks lie in, each
 * opened once. */
struct tw_dcp {
    int folder;
    struct {
        char *name;
        int fd;
        uint64_t bytes;
    } *file;
    size_t files;
    struct boxes *tensor;
    size_t tensors;
    size_t current; /* tensor whose chunks may be open */
};

/* Names are looked for one by one: in the order of the other list one look suffices, in any other
 * it takes the square. */
#define MAX_LOOKS ((uint64_t)1 << 28)

/* While .metadata is read. looks: comparisons of names so far, against MAX_LOOKS. */
struct reading {
    struct twin_tensors *f;
    const char *name; /* of the folder, for messages */
    uint64_t looks;
    struct tw_dcp *d;
    const struct tw_node *names, *places; /* planner_data, storage_data */
    struct twin_error *err;
};

static int bad_metadata(struct reading *r, const char *what, const char *name, size_t n)
{
    return twin_error_set(r->err, TWIN_EFORMAT, "%s: damaged .metadata: %s: %.*s", r->name, what,
                          (int)(n < 200 ? n : 200), name);
}

/* The value of a text key in a dict; NULL: none. */
static const struct tw_node *field_of(const struct tw_node *dict, const char *key)
{
    for (uint32_t i = 0; dict && dict->kind == TW_DICT && i + 1 < dict->count; i += 2)
        if (tw_node_is(dict->item[i], TW_TEXT, key))
            return dict->item[i + 1];
    return NULL;
}

/* An attribute of an object whose state is a dict of them; NULL: none. */
static const struct tw_node *attribute(const struct tw_node *object, const char *name)
{
    return object && object->kind == TW_OBJECT ? field_of(object->state, name) : NULL;
}

/* Is n an object of a class of this name, in whatever module? */
static bool is_class(const struct tw_node *n, const char *name)
{
    const struct tw_node *f = n && n->kind == TW_OBJECT ? tw_node_item(n, 0) : NULL;
    return f && f->kind == TW_GLOBAL && tw_ends(f->text, name) && f->count > strlen(name) &&
           f->text[f->count - strlen(name) - 1] == '.';
}

/* The name that torch.save would give, malloc'ed: by the path in planner_data, else the dotted one.
 * NULL when there is no memory, or too much was looked for. */
static char *name_of(struct reading *r, const struct tw_node *fqn)
{
    const struct tw_node *path = NULL;
    struct tw_buf b = {.cap = 1 << 20};
    if (r->names)
        r->looks += r->names->count / 2;
    if (r->looks > MAX_LOOKS)
        return NULL;
    /* planner_data: from the dotted name to the path of keys. */
    for (uint32_t i = 0; r->names && r->names->kind == TW_DICT && i + 1 < r->names->count && !path;
         i += 2)
        if (r->names->item[i]->kind == TW_TEXT && r->names->item[i]->count == fqn->count &&
            memcmp(r->names->item[i]->text, fqn->text, fqn->count) == 0)
            path = r->names->item[i + 1];
    for (uint32_t i = 0; path && path->kind == TW_TUPLE && i < path->count; i++) {
        const struct tw_node *p = path->item[i];
        if (p->kind == TW_INT) {
            tw_buf_printf(&b, "[%lld]", (long long)p->number);
        } else if (p->kind == TW_TEXT) {
            bool digits = p->count > 0; /* a number that was a key has become a text here */
            for (uint32_t j = 0; j < p->count; j++)
                digits &= p->text[j] >= '0' && p->text[j] <= '9';
            if (b.len)
                tw_buf_puts(&b, "/");
            if (digits)
                tw_buf_append(&b, p->text, p->count);
            else
                tw_torch_append_key(&b, p->text, p->count);
        }
    }
    if (b.len == 0)
        tw_torch_append_key(&b, fqn->text, fqn->count);
    return tw_buf_steal(&b);
}

/* ---- places */

/* *out: the number (index + 1) of the file that `path` names, opened when it is new. Only names
 * directly in the folder are taken, and no links. */
static int find_file(struct reading *r, const struct tw_node *path, size_t *out)
{
    struct tw_dcp *d = r->d;
    bool is_text = path && path->kind == TW_TEXT;
    if (!is_text || tw_path_fault(path->text, path->count, TW_PATH_ANY_NAME) ||
        memchr(path->text, '/', path->count) || path->text[0] == '.')
        return bad_metadata(r, "a file that is not one of the folder",
                            path && path->kind == TW_TEXT ? path->text : "?",
                            path && path->kind == TW_TEXT ? path->count : 1);
    for (size_t i = 0; i < d->files; i++)
        if (strlen(d->file[i].name) == path->count &&
            memcmp(d->file[i].name, path->text, path->count) == 0) {
            *out = i + 1;
            return 0;
        }
    /* The name is entered before the file is opened, so that freeing finds both. */
    void *grown = tw_reallocarray(d->file, d->files + 1, sizeof *d->file);
    if (!grown)
        return tw_no_memory(r->err, "for the list of %s", r->name);
    d->file = grown;
    char *name = tw_strndup(path->text, path->count);
    if (!name)
        return tw_no_memory(r->err, "for the list of %s", r->name);
    struct stat st;
    int fd = openat(d->folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    d->file[d->files].name = name;
    d->file[d->files].fd = fd;
    *out = ++d->files;
    if (fd < 0 || fstat(fd, &st) != 0)
        return twin_error_system(r->err, "%s/%s", r->name, name);
    if (!S_ISREG(st.st_mode))
        return bad_metadata(r, "expected a file", name, strlen(name));
    d->file[d->files - 1].bytes = (uint64_t)st.st_size;
    return 0;
}

/* Where a chunk lies: file, offset, length, all checked against the file. */
static int set_place(struct reading *r, const struct tw_node *info, struct chunk *c,
                     const struct tw_node *fqn)
{
    const struct tw_node *at = attribute(info, "offset");
    const struct tw_node *bytes = attribute(info, "length");
    const struct tw_node *transforms = attribute(info, "transform_descriptors");
    if (!at || !bytes || at->kind != TW_INT || bytes->kind != TW_INT || at->number < 0 ||
        bytes->number < 0)
        return bad_metadata(r, "no place in a file", fqn->text, fqn->count);
    if (transforms && transforms->kind != TW_NONE && transforms->count > 0)
        return twin_error_set(r->err, TWIN_EUNSUPPORTED,
                              "%s: %.*s is stored compressed or encrypted", r->name,
                              (int)(fqn->count < 200 ? fqn->count : 200), fqn->text);
    int rc = find_file(r, attribute(info, "relative_path"), &c->file);
    if (rc == 0 && ((uint64_t)at->number > r->d->file[c->file - 1].bytes ||
                    (uint64_t)bytes->number > r->d->file[c->file - 1].bytes - (uint64_t)at->number))
        rc = twin_error_set(r->err, TWIN_EFORMAT, "%s/%s ends before %.*s does: was it cut off?",
                            r->name, r->d->file[c->file - 1].name,
                            (int)(fqn->count < 200 ? fqn->count : 200), fqn->text);
    c->at = (uint64_t)at->number;
    c->bytes = (uint64_t)bytes->number;
    return rc;
}

/* Is this the index of the chunk of tensor fqn that begins at `from`? from NULL: of a value,
 * whatever its offset. */
static bool index_is(const struct tw_node *index, const struct tw_node *fqn, const int64_t *from,
                     uint32_t ndim)
{
    const struct tw_node *name = attribute(index, "fqn"), *offset = attribute(index, "offset");
    int64_t at[TWIN_MAX_NDIM];
    uint32_t n = 0;
    if (!name || name->kind != TW_TEXT || name->count != fqn->count ||
        memcmp(name->text, fqn->text, fqn->count) != 0)
        return false;
    if (!from || !offset || offset->kind == TW_NONE)
        return !from || ndim == 0;
    return tw_node_sizes(offset, at, &n) && n == ndim && memcmp(at, from, n * sizeof *at) == 0;
}

/* Finds the chunk of tensor fqn that begins at `from` and sets its place. Indexes are looked
 * through from where the last one was found (*hint): both lists have one order as a rule. */
static int find_place(struct reading *r, const struct tw_node *fqn, const int64_t *from,
                      uint32_t ndim, struct chunk *c, uint32_t *hint)
{
    const uint32_t pairs = r->places->count / 2;
    for (uint32_t k = 0; k < pairs; k++) {
        const uint32_t i = (*hint + k) % pairs;
        if (++r->looks > MAX_LOOKS)
            return twin_error_set(
                r->err, TWIN_ELIMIT,
                "%s: its .metadata lists tensors and places in too different orders", r->name);
        if (index_is(r->places->item[2 * i], fqn, from, ndim)) {
            *hint = i + 1;
            return set_place(r, r->places->item[2 * i + 1], c, fqn);
        }
    }
    return bad_metadata(r, "no file has it", fqn->text, fqn->count);
}

/* ---- what is in it */

/* Opens the archive that a chunk is, in the file that stays open; *out is the caller's to close. */
static int open_chunk(const struct tw_dcp *d, const struct chunk *c, bool values, const char *name,
                      struct twin_tensors **out, struct twin_error *err)
{
    const struct tw_source s = {.fd = d->file[c->file - 1].fd,
                                .borrowed = true,
                                .base = c->at,
                                .size = c->bytes,
                                .name = name};
    return tw_tensors_open_source(&s, values, out, err);
}

/* Adds one tensor with its chunks. They are only listed here; whether they cover the tensor shows
 * when it is read. */
static int add_tensor(struct reading *r, const struct tw_node *fqn, const struct tw_node *meta,
                      uint32_t *hint)
{
    struct tw_dcp *d = r->d;
    struct tw_found t = {.dense = true};
    const struct tw_node *properties = attribute(meta, "properties");
    const struct tw_node *chunks = attribute(meta, "chunks");
    const struct tw_node *type = properties ? tw_node_item(properties->state, 0) : NULL;
    if (!type || type->kind != TW_GLOBAL ||
        !tw_node_sizes(attribute(meta, "size"), t.shape, &t.ndim) || !chunks ||
        chunks->kind != TW_LIST)
        return bad_metadata(r, "expected type, size and chunks", fqn->text, fqn->count);
    char *name = name_of(r, fqn);
    t.name = name ? tw_arena_text(r->f, name, strlen(name)) : NULL;
    t.stored_as = tw_arena_text(r->f, type->text, type->count);
    tw_free(name);
    void *grown = tw_reallocarray(d->tensor, d->tensors + 1, sizeof *d->tensor);
    d->tensor = grown ? grown : d->tensor;
    /* Chunks are counted in: a small pickle could list very many. */
    int over = tw_tensors_charge(r->f, chunks->count * sizeof(struct chunk), 0, r->err);
    if (over)
        return over;
    struct boxes b = {.chunk = tw_calloc(chunks->count + 1, sizeof *b.chunk),
                      .count = chunks->count};
    if (!t.name || !t.stored_as || !grown || !b.chunk) {
        tw_free(b.chunk);
        return tw_no_memory(r->err, "for the list of %s", r->name);
    }
    /* From here on the chunks are freed with the list. */
    d->tensor[d->tensors++] = b;
    t.dtype = tw_torch_type(type->text);
    t.unreadable = t.dtype == TWIN_BYTES ? "its elements are of a type that twinrun does not know"
                                         : NULL;
    /* a place of its own: nothing shares it */
    t.piece = (struct tw_piece){.at = d->tensors, .packed = INT64_MAX, .bytes = INT64_MAX};
    int rc = 0;
    for (size_t i = 0; i < b.count && rc == 0; i++) {
        uint32_t n = 0, m = 0;
        bool fits = tw_node_sizes(attribute(chunks->item[i], "offsets"), b.chunk[i].from, &n) &&
                    tw_node_sizes(attribute(chunks->item[i], "sizes"), b.chunk[i].size, &m) &&
                    n == t.ndim && m == n;
        for (uint32_t k = 0; fits && k < n; k++)
            fits = b.chunk[i].from[k] <= t.shape[k] &&
                   b.chunk[i].size[k] <= t.shape[k] - b.chunk[i].from[k];
        rc = fits ? find_place(r, fqn, b.chunk[i].from, n, &b.chunk[i], hint)
                  : bad_metadata(r, "a chunk outside of its tensor", fqn->text, fqn->count);
    }
    return rc ? rc : tw_tensors_add(r->f, &t, r->err);
}

/* What a value is called that lies as `part` in the archive of `name`; malloc'ed. A part that is an
 * index or an argument follows without a slash. */
static char *value_name(const char *name, const char *part)
{
    if (strcmp(part, "value") == 0)
        return tw_strdup(name);
    const bool indexed = part[0] == '[' || part[0] == '(';
    return tw_printf(indexed ? "%s%s" : "%s/%s", name, part);
}

/* Adds what an archive of its own holds that is no tensor. */
static int add_values(struct reading *r, const struct tw_node *fqn, uint32_t *hint)
{
    struct chunk c = {0};
    struct twin_tensors *in = NULL;
    int rc = tw_tensors_wants_values(r->f) ? find_place(r, fqn, NULL, 0, &c, hint) : 1;
    char *name = rc == 0 ? name_of(r, fqn) : NULL;
    if (rc == 0)
        rc = name ? open_chunk(r->d, &c, true, name, &in, r->err)
                  : tw_no_memory(r->err, "for the list of %s", r->name);
    for (size_t i = 0; rc == 0 && i < twin_tensors_value_count(in); i++) {
        struct twin_tensors_value v = *twin_tensors_value_at(in, i);
        char *full = value_name(name, v.name);
        v.name = full ? full : "?";
        rc = full ? tw_tensors_value(r->f, &v, r->err)
                  : tw_no_memory(r->err, "for the list of %s", r->name);
        tw_free(full);
    }
    if (rc == 0 && twin_tensors_count(in) &&
        tw_tensors_skip(r->f, "tensors among other values") != 0)
        rc = tw_no_memory(r->err, "for the list of %s", r->name);
    twin_tensors_close(in);
    tw_free(name);
    return rc == 1 ? 0 : rc;
}

/* Goes through state_dict_metadata: tensors and other values, in its order. */
static int read_metadata(struct reading *r, const struct tw_node *top)
{
    const struct tw_node *all = attribute(top, "state_dict_metadata");
    uint32_t hint = 0;
    int rc = 0;
    r->names = attribute(top, "planner_data");
    r->places = attribute(top, "storage_data");
    if (!is_class(top, "Metadata") || !all || all->kind != TW_DICT || !r->places ||
        r->places->kind != TW_DICT)
        return bad_metadata(r, "expected the metadata of torch.distributed.checkpoint", "", 0);
    for (uint32_t i = 0; i + 1 < all->count && rc == 0; i += 2) {
        const struct tw_node *fqn = all->item[i], *meta = all->item[i + 1];
        if (fqn->kind != TW_TEXT)
            rc = bad_metadata(r, "a name that is no text", "", 0);
        else if (is_class(meta, "TensorStorageMetadata"))
            rc = add_tensor(r, fqn, meta, &hint);
        else if (is_class(meta, "BytesStorageMetadata"))
            rc = add_values(r, fqn, &hint);
        else
            rc = bad_metadata(r, "neither a tensor nor bytes", fqn->text, fqn->count);
    }
    return rc;
}

/* Reads .metadata and adds everything that it names. folder is closed by tw_dcp_free(). */
int tw_dcp_list(struct twin_tensors *f, int folder, struct tw_dcp **out, struct twin_error *err)
{
    struct tw_dcp *d = *out = tw_calloc(1, sizeof *d);
    struct reading r = {.f = f, .name = tw_tensors_source(f)->name, .d = d, .err = err};
    struct tw_pickle p = {0};
    struct tw_node *top = NULL;
    struct stat st;
    if (!d) {
        close(folder);
        return tw_no_memory(r.err, "for the list of %s", r.name);
    }
    d->folder = folder;
    int fd = openat(folder, ".metadata", O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc = 0;
    if (fd < 0 || fstat(fd, &st) != 0)
        rc = twin_error_system(err, "%s/.metadata", tw_tensors_source(f)->name);
    else if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > TW_MAX_LIST)
        rc = twin_error_set(err, TWIN_ELIMIT, "%s/.metadata: expected a file of at most 256 MiB",
                            tw_tensors_source(f)->name);
    const size_t n = rc == 0 ? (size_t)st.st_size : 0;
    unsigned char *data = rc == 0 ? tw_malloc(n + 1) : NULL;
    size_t at = 0;
    if (rc == 0 && !data)
        rc = tw_no_memory(r.err, "for the list of %s", r.name);
    if (rc == 0 && tw_pread_all(fd, data, n, 0) != (ssize_t)n)
        rc = twin_error_system(err, "%s/.metadata", tw_tensors_source(f)->name);
    tw_tensors_budget(f, n, TW_PICKLE_BYTES_EACH);
    rc = rc ? rc : tw_pickle_read(&p, data, n, &at, tw_tensors_source(f)->name, &top, err);
    rc = rc ? rc : read_metadata(&r, top);
    if (fd >= 0)
        close(fd);
    tw_pickle_free(&p);
    tw_free(data);
    return rc;
}

/* Closes the chunks of the tensor that was read last. */
static void close_chunks(struct tw_dcp *d)
{
    for (size_t i = 0; d->current < d->tensors && i < d->tensor[d->current].count; i++) {
        twin_tensors_close(d->tensor[d->current].chunk[i].open);
        d->tensor[d->current].chunk[i].open = NULL;
    }
}

void tw_dcp_free(struct tw_dcp *d)
{
    if (!d)
        return;
    close_chunks(d);
    for (size_t i = 0; i < d->tensors; i++)
        tw_free(d->tensor[i].chunk);
    for (size_t i = 0; i < d->files; i++) {
        if (d->file[i].fd >= 0)
            close(d->file[i].fd);
        tw_free(d->file[i].name);
    }
    close(d->folder);
    tw_free(d->tensor);
    tw_free(d->file);
    tw_free(d);
}

/* ---- values */

/* Finds the chunk with element `first` (counted in the whole tensor); NULL when no chunk has it.
 * *inside: which element of the chunk it is. *run: how many of the next ones follow each other in
 * both, which is a row of the chunk, or more where the chunk is as wide as the tensor. */
static struct chunk *locate(const struct twin_tensors_entry *e, const struct boxes *b,
                            uint64_t first, uint64_t *inside, uint64_t *run)
{
    int64_t index[TWIN_MAX_NDIM];
    for (uint32_t k = e->ndim; k-- > 0;) {
        index[k] = (int64_t)(first % (uint64_t)e->shape[k]);
        first /= (uint64_t)e->shape[k];
    }
    for (size_t i = 0; i < b->count; i++) {
        struct chunk *c = &b->chunk[i];
        bool here = true;
        for (uint32_t k = 0; here && k < e->ndim; k++)
            here = index[k] >= c->from[k] && index[k] - c->from[k] < c->size[k];
        if (!here)
            continue;
        uint64_t volume = 1;
        bool whole = true; /* all dimensions behind this one are whole in the chunk */
        *inside = 0;
        *run = 1;
        for (uint32_t k = e->ndim; k-- > 0;) {
            const uint64_t at = (uint64_t)(index[k] - c->from[k]);
            *inside += at * volume;
            if (whole)
                *run = ((uint64_t)c->size[k] - at) * volume - (*inside - at * volume);
            whole &= c->size[k] == e->shape[k];
            volume *= (uint64_t)c->size[k];
        }
        return c;
    }
    return NULL;
}

/* Reads elements of tensor i, run by run: as many as follow each other both in the tensor and in
 * one chunk. The chunks of one tensor stay open until another one is read. */
int tw_dcp_read(struct tw_dcp *d, const struct twin_tensors_entry *e, size_t i, uint64_t first,
                uint64_t n, void *out, struct twin_error *err)
{
    const size_t size = twin_dtype_size(e->dtype);
    if (d->current != i)
        close_chunks(d);
    d->current = i;
    for (uint64_t take; n > 0; first += take, n -= take, out = (char *)out + take * size) {
        uint64_t inside, run;
        struct chunk *c = locate(e, &d->tensor[i], first, &inside, &run);
        if (!c)
            return twin_error_set(err, TWIN_EFORMAT, "tensor %s: no chunk has element %llu",
                                  e->name, (unsigned long long)first);
        int rc = c->open ? 0 : open_chunk(d, c, false, e->name, &c->open, err);
        const struct twin_tensors_entry *in = rc == 0 ? twin_tensors_at(c->open, 0) : NULL;
        uint64_t volume = 1;
        for (uint32_t k = 0; k < e->ndim; k++)
            volume *= (uint64_t)c->size[k];
        if (rc == 0 && (!in || twin_tensors_count(c->open) != 1 || in->dtype != e->dtype ||
                        in->count != volume))
            rc = twin_error_set(err, TWIN_EFORMAT,
                                "tensor %s: a chunk holds something else than its metadata say",
                                e->name);
        take = run < n ? run : n;
        rc = rc ? rc : twin_tensors_read(c->open, 0, inside, take, out, err);
        if (rc)
            return rc;
    }
    return 0;
}
