/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch checkpoints, both kinds: a zip archive (since 1.6) and five pickles with the storages
 * behind them (before). tensors.c calls tw_torch_list() or tw_torch_legacy_list(); they add every
 * tensor of the file, and every other value when the caller wants those.
 *
 * The pickle is read as a tree and never run (pickle.c). A walk from its top gives each tensor the
 * path of keys and indexes that leads to it as its name. A tensor is an object whose function is
 * one of PyTorch's _rebuild functions; its arguments name a storage and say which of its bytes it
 * shows. Objects of other classes are looked into, too, and their classes are listed as passed
 * over.
 *
 * The file is foreign: how many values are visited, how long all names are together, and how deep
 * containers nest has limits, and a container inside of itself is visited once. */
#include "pickle.h"

#include <stdlib.h>
#include <string.h>

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
enum { MAX_VISITS = 1 << 17 };
#else
enum { MAX_VISITS = 1 << 22 }; /* a small pickle may name one thing in very many places */
#endif
/* Bytes of all names and texts together. */
#define MAX_NAMES ((uint64_t)256 << 20)
#define PICKLE_FREE                                                               \
    ((uint64_t)4 << 20) /* bytes that a pickle may have however well it is packed \
                         */

/* One storage of the old format. They stand behind each other, and each says how many elements it
 * has: so their places are known only once the sizes of elements are, from the tensors that use
 * them. bytes_each 0: no tensor has told. */
struct storage {
    const char *key;
    uint32_t key_bytes;
    uint64_t bytes_each;
    struct tw_piece piece;
};

/* State of one walk over a checkpoint. path: the name of the value that is being visited. visits,
 * names: against the limits. */
struct walk {
    struct twin_tensors *file;
    const char *name;         /* of the file, for messages */
    const struct tw_zip *zip; /* NULL: old format */
    char *folder;             /* "archive/data/" */
    bool swap;
    struct storage *storage; /* sorted by key */
    size_t storages;
    struct tw_buf path;
    uint64_t visits, names;
    struct twin_error *err;
};

static int bad_file(struct walk *w, const char *what)
{
    return twin_error_set(w->err, TWIN_EFORMAT, "%s: damaged checkpoint: %s, at %s", w->name, what,
                          w->path.len ? w->path.data : "its top");
}

/* ---- types */

/* By the name of a storage's class ("torch.FloatStorage") or of a dtype ("torch.float32"). */
enum twin_dtype tw_torch_type(const char *name)
{
    static const struct {
        const char *storage, *dtype;
        enum twin_dtype code;
    } types[] = {{"DoubleStorage", "float64", TWIN_F64},
                 {"FloatStorage", "float32", TWIN_F32},
                 {"HalfStorage", "float16", TWIN_F16},
                 {"BFloat16Storage", "bfloat16", TWIN_BF16},
                 {"LongStorage", "int64", TWIN_I64},
                 {"IntStorage", "int32", TWIN_I32},
                 {"ShortStorage", "int16", TWIN_I16},
                 {"CharStorage", "int8", TWIN_I8},
                 {"ByteStorage", "uint8", TWIN_U8},
                 {"BoolStorage", "bool", TWIN_BOOL},
                 {"ComplexFloatStorage", "complex64", TWIN_C64},
                 {"ComplexDoubleStorage", "complex128", TWIN_C128},
                 {"-", "uint16", TWIN_U16},
                 {"-", "uint32", TWIN_U32},
                 {"-", "uint64", TWIN_U64},
                 {"-", "float8_e4m3fn", TWIN_F8_E4M3FN},
                 {"-", "float8_e5m2", TWIN_F8_E5M2}};
    const char *last = strrchr(name, '.');
    last = last ? last + 1 : name;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(last, types[i].storage) == 0 ||
            (tw_starts(name, "torch.") && strcmp(last, types[i].dtype) == 0))
            return types[i].code;
    return TWIN_BYTES;
}

/* ---- storages: id is ("storage", type, key, place, number of elements, [view]) */

/* For qsort and bsearch: bytes first, then the length. */
static int by_key(const void *a, const void *b)
{
    const struct storage *x = a, *y = b;
    size_t n = x->key_bytes < y->key_bytes ? x->key_bytes : y->key_bytes;
    int order = memcmp(x->key, y->key, n);
    return order ? order : (x->key_bytes > y->key_bytes) - (x->key_bytes < y->key_bytes);
}

static struct storage *old_storage(const struct walk *w, const struct tw_node *key)
{
    const struct storage wanted = {.key = key->text, .key_bytes = key->count};
    return w->storages ? bsearch(&wanted, w->storage, w->storages, sizeof wanted, by_key) : NULL;
}

/* Sets type and piece of a tensor from the persistent id of its storage. The zip's checksum is not
 * relied on. */
static int find_storage(struct walk *w, const struct tw_node *n, struct tw_found *t)
{
    const struct tw_node *id = n && n->kind == TW_PERSISTENT ? tw_node_item(n, 0) : NULL;
    const struct tw_node *type = tw_node_item(id, 1);
    const struct tw_node *key = tw_node_item(id, 2);
    const struct tw_node *view = tw_node_item(id, 5);
    if (!id || id->kind != TW_TUPLE ||
        !(tw_node_is(tw_node_item(id, 0), TW_TEXT, "storage") ||
          tw_node_is(tw_node_item(id, 0), TW_OCTETS, "storage")) ||
        !type || type->kind != TW_GLOBAL || !key || key->kind != TW_TEXT)
        return bad_file(w, "a tensor without its storage");
    w->names += type->count;
    t->stored_as = tw_arena_text(w->file, type->text, type->count);
    t->dtype = tw_torch_type(type->text);
    if (!t->stored_as)
        return tw_no_memory(w->err, "for the list of %s", w->name);
    /* Such a view would need the storage that it is a part of. */
    if (view && view->kind != TW_NONE)
        t->unreadable = "it shows a part of another storage, as PyTorch before 0.4 wrote it";
    /* The old format has the places in a table; in a zip the key is the name of a file. */
    if (!w->zip) {
        const struct storage *s = old_storage(w, key);
        if (!s)
            return bad_file(w, "a storage that is not there");
        t->piece = s->piece;
        return 0;
    }
    char *name = tw_printf("%s%.*s", w->folder, (int)(key->count < 1000 ? key->count : 1000),
                           key->text);
    if (!name)
        return tw_no_memory(w->err, "for the list of %s", w->name);
    const struct tw_zip_entry *e = tw_zip_find(w->zip, name);
    tw_free(name);
    if (!e)
        return bad_file(w, "a storage that is not there");
    t->piece = e->piece;
    t->piece.checked = false; /* PyTorch can be told not to compute it */
    t->unreadable = e->unreadable ? e->unreadable : t->unreadable;
    return 0;
}

/* Whether n rebuilds a tensor, and from what: *arguments of *function, behind what only wraps. */
static bool rebuilds(const struct tw_node *n, const char **function,
                     const struct tw_node **arguments)
{
    for (int depth = 0; depth < 8 && n && n->kind == TW_OBJECT; depth++) {
        const struct tw_node *f = tw_node_item(n, 0), *a = tw_node_item(n, 1);
        /* function, class, arguments, state */
        if (f && f->kind == TW_GLOBAL &&
            tw_node_is(f, TW_GLOBAL, "torch._tensor._rebuild_from_type_v2")) {
            f = tw_node_item(a, 0);
            a = tw_node_item(a, 2);
        }
        if (!f || f->kind != TW_GLOBAL || !a || a->kind != TW_TUPLE ||
            !tw_starts(f->text, "torch._utils._rebuild_"))
            return false;
        *function = f->text + strlen("torch._utils._rebuild_");
        *arguments = a;
        /* A parameter wraps the tensor that is its first argument. */
        if (strcmp(*function, "parameter") != 0 && strcmp(*function, "parameter_with_state") != 0)
            return strcmp(*function, "tensor") == 0 || strcmp(*function, "tensor_v2") == 0 ||
                   strcmp(*function, "tensor_v3") == 0;
        n = tw_node_item(a, 0);
    }
    return false;
}

/* Adds the tensor that a _rebuild function with these arguments would make. Arguments: storage,
 * offset in elements, sizes, strides, ..., in tensor_v3 the type at place 6. */
static int add_tensor(struct walk *w, const char *function, const struct tw_node *a)
{
    struct tw_found t = {.swap = w->swap};
    uint32_t strides;
    const struct tw_node *offset = tw_node_item(a, 1);
    int rc = find_storage(w, tw_node_item(a, 0), &t);
    if (rc != 0)
        return rc;
    /* Its storage has no type, so the tensor says it. */
    if (strcmp(function, "tensor_v3") == 0) {
        const struct tw_node *type = tw_node_item(a, 6);
        if (!type || type->kind != TW_GLOBAL)
            return bad_file(w, "a tensor without its type");
        t.dtype = tw_torch_type(type->text);
        t.stored_as = tw_arena_text(w->file, type->text, type->count);
        if (!t.stored_as)
            return tw_no_memory(w->err, "for the list of %s", w->name);
    }
    if (!offset || offset->kind != TW_INT || offset->number < 0 ||
        !tw_node_sizes(tw_node_item(a, 2), t.shape, &t.ndim) ||
        !tw_node_sizes(tw_node_item(a, 3), t.strides, &strides) || strides != t.ndim)
        return bad_file(w, "a tensor whose shape makes no sense");
    if (t.dtype == TWIN_BYTES)
        t.unreadable = "its elements are of a type that twinrun does not know";
    if (__builtin_mul_overflow((uint64_t)offset->number, twin_dtype_size(t.dtype), &t.offset))
        return bad_file(w, "a tensor outside of its storage");
    const char *path = w->path.len ? w->path.data : "tensor";
    t.name = tw_arena_text(w->file, path, strlen(path));
    w->names += strlen(path);
    if (!t.name)
        return tw_no_memory(w->err, "for the list of %s", w->name);
    if (w->names > MAX_NAMES)
        return twin_error_set(w->err, TWIN_ELIMIT, "%s: the names of its tensors are too long",
                              w->name);
    return tw_tensors_add(w->file, &t, w->err);
}

/* ---- names */

/* A key that would read as an index, an argument or several keys stands in quotes. */
void tw_torch_append_key(struct tw_buf *b, const char *s, uint32_t n)
{
    bool plain = n > 0, digits = n > 0;
    for (uint32_t i = 0; i < n; i++) {
        plain &= !strchr("/[]()\"\\", s[i]) && (unsigned char)s[i] >= ' ' && s[i] != 0x7F;
        digits &= (s[i] >= '0' && s[i] <= '9') || (i == 0 && n > 1 && s[i] == '-');
    }
    if (plain && !digits) {
        tw_buf_append(b, s, n);
        return;
    }
    tw_buf_puts(b, "\"");
    for (uint32_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c < ' ' || c == 0x7F)
            tw_buf_printf(b, "\\x%02x", c);
        else
            tw_buf_printf(b, c == '"' || c == '\\' ? "\\%c" : "%c", c);
    }
    tw_buf_puts(b, "\"");
}

/* A key of a dict as a part of the path. A key that is neither text nor a number is named by its
 * place. */
static void append_key(struct tw_buf *b, const struct tw_node *key, uint32_t i)
{
    if (b->len)
        tw_buf_puts(b, "/");
    if (key->kind == TW_TEXT)
        tw_torch_append_key(b, key->text, key->count);
    else if (key->kind == TW_INT)
        tw_buf_printf(b, "%lld", (long long)key->number);
    else
        tw_buf_printf(b, "(key %u)", i / 2);
}

/* ---- the walk */

static int visit_node(struct walk *w, struct tw_node *n, int depth);

/* A value that is no container, or `text` of kind, at the path. */
static int add_value(struct walk *w, const struct tw_node *n, enum twin_value_kind kind,
                     const char *text)
{
    struct twin_tensors_value v = {.name = w->path.len ? w->path.data : "value",
                                   .kind = kind,
                                   .text = text,
                                   .text_bytes = text ? strlen(text) : 0};
    if (!tw_tensors_wants_values(w->file))
        return 0;
    if (n->kind == TW_TRUTH || n->kind == TW_INT)
        v.number = n->number;
    else if (n->kind == TW_FLOAT)
        v.real = n->real;
    else if (n->kind == TW_TEXT || n->kind == TW_OCTETS)
        v.text = n->text, v.text_bytes = n->count;
    w->names += strlen(v.name) + v.text_bytes;
    if (w->names > MAX_NAMES)
        return twin_error_set(w->err, TWIN_ELIMIT, "%s: its values are too many or too long",
                              w->name);
    return tw_tensors_value(w->file, &v, w->err);
}

/* Adds a value that holds no others, at the path. */
static int add_leaf(struct walk *w, const struct tw_node *n)
{
    static const enum twin_value_kind kinds[] = {
        [TW_NONE] = TWIN_VALUE_NONE, [TW_TRUTH] = TWIN_VALUE_TRUTH,
        [TW_INT] = TWIN_VALUE_INT,   [TW_FLOAT] = TWIN_VALUE_FLOAT,
        [TW_TEXT] = TWIN_VALUE_TEXT, [TW_OCTETS] = TWIN_VALUE_BYTES};
    if (n->kind == TW_GLOBAL)
        return add_value(w, n, TWIN_VALUE_CLASS, n->text);
    if (n->kind == TW_LARGE || n->kind == TW_PERSISTENT)
        return add_value(w, n, TWIN_VALUE_OPAQUE,
                         n->kind == TW_LARGE ? "an integer beyond 64 bits" : "a storage");
    return add_value(w, n, kinds[n->kind], NULL);
}

/* Visits n with one part more in the path: a key, or `format` printed with i. The path is as before
 * when this returns. */
static int visit_at(struct walk *w, struct tw_node *n, int depth, const struct tw_node *key,
                    const char *format, uint32_t i)
{
    size_t length = w->path.len;
    const bool leaf = n->kind < TW_TUPLE || n->kind == TW_GLOBAL || n->kind == TW_PERSISTENT;
    if (leaf && ++w->visits > MAX_VISITS)
        return twin_error_set(w->err, TWIN_ELIMIT, "%s: it names more than %d values", w->name,
                              MAX_VISITS);
    /* Most values of a checkpoint are leaves: no path is made for them when nobody asks. */
    if (leaf && !tw_tensors_wants_values(w->file))
        return 0;
    if (key)
        append_key(&w->path, key, i);
    else
        tw_buf_printf(&w->path, format, i);
    w->names += w->path.len - length;
    int rc;
    if (w->path.failed == TWIN_ELIMIT || w->names > MAX_NAMES)
        rc = twin_error_set(w->err, TWIN_ELIMIT, "%s: the names of its tensors are too long",
                            w->name);
    else if (w->path.failed)
        rc = tw_no_memory(w->err, "for the list of %s", w->name);
    else
        rc = leaf ? add_leaf(w, n) : visit_node(w, n, depth);
    w->path.len = length;
    w->path.data[length] = '\0';
    return rc;
}

/* An object: a tensor, or of some class. Of the latter the arguments, what was appended or set in
 * it, and its state are visited, all under the object's own name. */
static int visit_object(struct walk *w, struct tw_node *n, int depth)
{
    const char *function;
    const struct tw_node *arguments;
    struct tw_node *f = tw_node_item(n, 0);
    if (rebuilds(n, &function, &arguments))
        return add_tensor(w, function, arguments);
    /* A class is listed once, however many objects it has. */
    if (f && !f->noted &&
        tw_tensors_skip(
            w->file, f->kind == TW_GLOBAL ? f->text : "an object of a class that is computed") != 0)
        return tw_no_memory(w->err, "for the list of %s", w->name);
    if (f)
        f->noted = true;
    int rc = add_value(w, n, TWIN_VALUE_OPAQUE,
                       f && f->kind == TW_GLOBAL ? f->text
                                                 : "an object of a class that is computed");
    /* a plain tuple of arguments: each for itself */
    for (uint32_t i = 1; rc == 0 && i < n->count; i++)
        for (uint32_t j = 0; rc == 0 && j < n->item[i]->count && n->item[i]->kind == TW_TUPLE; j++)
            rc = visit_at(w, n->item[i]->item[j], depth, NULL, "(%u)", j);
    if (rc == 0 && n->list)
        rc = visit_node(w, n->list, depth);
    if (rc == 0 && n->dict)
        rc = visit_node(w, n->dict, depth);
    if (rc == 0 && n->state)
        rc = visit_node(w, n->state, depth); /* attributes: of a module, its parameters */
    return rc;
}

/* Visits a value and everything in it. */
static int visit_node(struct walk *w, struct tw_node *n, int depth)
{
    int rc = 0;
    if (++w->visits > MAX_VISITS)
        return twin_error_set(w->err, TWIN_ELIMIT, "%s: it names more than %d values", w->name,
                              MAX_VISITS);
    if (depth == TW_MAX_DEPTH)
        return twin_error_set(w->err, TWIN_ELIMIT, "%s: containers in containers beyond %d",
                              w->name, TW_MAX_DEPTH);
    /* A value may be reached from inside of itself. */
    if (n->on_path)
        return 0; /* a list in itself */
    if (depth == 0 && (n->kind < TW_TUPLE || n->kind == TW_GLOBAL))
        return add_leaf(w, n); /* it is all that there is */
    n->on_path = true;
    if (n->kind == TW_DICT)
        for (uint32_t i = 0; rc == 0 && i + 1 < n->count; i += 2)
            rc = visit_at(w, n->item[i + 1], depth + 1, n->item[i], NULL, i);
    else if (n->kind == TW_TUPLE || n->kind == TW_LIST || n->kind == TW_SET)
        for (uint32_t i = 0; rc == 0 && i < n->count; i++)
            rc = visit_at(w, n->item[i], depth + 1, NULL, "[%u]", i);
    else if (n->kind == TW_OBJECT)
        rc = visit_object(w, n, depth + 1);
    /* An empty container is a value: two checkpoints may differ in it. */
    if (rc == 0 && n->count == 0 && n->kind >= TW_TUPLE && n->kind <= TW_SET)
        rc = add_value(w, n, TWIN_VALUE_EMPTY, n->kind == TW_DICT ? "{}" : "[]");
    n->on_path = false;
    return rc;
}

/* ---- the zip format */

/* The whole of a file of the archive, unpacked; malloc'ed, also after an error of reading it. A
 * small file may unpack to very much: the size is bounded by the packed one. */
static int read_piece(const struct tw_source *s, const struct tw_zip_entry *e, char **out,
                      struct twin_error *err)
{
    struct tw_unpack *state = NULL;
    *out = NULL;
    if (e->unreadable)
        return twin_error_set(err, TWIN_EUNSUPPORTED, "%s: %s cannot be read: %s", s->name, e->name,
                              e->unreadable);
    if (e->piece.bytes > TW_MAX_LIST)
        return twin_error_set(err, TWIN_ELIMIT, "%s: its pickle has more than 256 MiB", s->name);
    if (e->piece.bytes > PICKLE_FREE + TW_UNPACKED_EACH * e->piece.packed)
        return twin_error_set(
            err, TWIN_ELIMIT, "%s: its pickle has %llu bytes, packed into %llu: too many", s->name,
            (unsigned long long)e->piece.bytes, (unsigned long long)e->piece.packed);
    *out = tw_malloc(e->piece.bytes + 1);
    if (!*out)
        return tw_no_memory(err, "for the pickle of %s", s->name);
    int rc = tw_piece_read(s, &state, &e->piece, 0, *out, e->piece.bytes, err);
    tw_unpack_free(state);
    return rc;
}

/* The archive's byte order. "little" when the archive does not say. */
static int find_order(struct walk *w, const char *archive)
{
    char *name = tw_printf("%s/byteorder", archive), *order = NULL;
    if (!name)
        return tw_no_memory(w->err, "for the list of %s", w->name);
    const struct tw_zip_entry *e = tw_zip_find(w->zip, name);
    tw_free(name);
    if (!e) /* before PyTorch 2.1: that of the machine, little in practice */
        return 0;
    int rc = read_piece(tw_tensors_source(w->file), e, &order, w->err);
    if (rc == 0) {
        w->swap = e->piece.bytes == 3 && memcmp(order, "big", 3) == 0;
        if (!w->swap && !(e->piece.bytes == 6 && memcmp(order, "little", 6) == 0))
            rc = bad_file(w, "a byte order that is neither little nor big");
    }
    tw_free(order);
    return rc;
}

/* pickle: the name of the archive's data.pkl. The storages stand below the same folder, in data/.
 */
int tw_torch_list(struct twin_tensors *f, const struct tw_zip *z, const char *pickle,
                  struct twin_error *err)
{
    const struct tw_source *s = tw_tensors_source(f);
    struct walk w = {.file = f, .name = s->name, .zip = z, .err = err, .path = {.cap = 1 << 20}};
    struct tw_pickle p = {0};
    struct tw_node *top;
    const struct tw_zip_entry *e = tw_zip_find(z, pickle);
    char *archive = tw_strndup(pickle, strlen(pickle) - strlen("/data.pkl")), *data = NULL;
    size_t at = 0;
    w.folder = archive ? tw_printf("%s/data/", archive) : NULL;
    tw_buf_puts(&w.path, "");
    int rc = w.folder && !w.path.failed ? find_order(&w, archive)
                                        : tw_no_memory(w.err, "for the list of %s", w.name);
    if (rc == 0)
        rc = read_piece(s, e, &data, err);
    if (rc == 0) {
        tw_tensors_budget(f, e->piece.bytes, TW_PICKLE_BYTES_EACH);
        rc = tw_pickle_read(&p, (const unsigned char *)data, e->piece.bytes, &at, s->name, &top,
                            err);
    }
    if (rc == 0)
        rc = visit_node(&w, top, 0);
    tw_pickle_free(&p);
    tw_buf_free(&w.path);
    tw_free(data);
    tw_free(w.folder);
    tw_free(archive);
    return rc;
}

/* ---- the format before 1.6: five pickles, then the storages */

/* The first pickle of the old format: a LONG1 with PyTorch's magic number, then the end. */
static const unsigned char magic[] = {0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46, 0xf9,
                                      0x20, 0x6a, 0xa8, 0x50, 0x19, '.'};

bool tw_torch_legacy_is(const unsigned char *start, size_t n)
{
    size_t at = n > 2 && start[2] == 0x95 ? 11 : 2; /* behind the frame of protocols from 4 on */
    /* then MEMOIZE may follow */
    return n >= at + sizeof magic && start[0] == 0x80 &&
           memcmp(start + at, magic, sizeof magic - (at > 2)) == 0;
}

/* Finds out how many bytes an element of each storage has, from the persistent ids of the tree,
 * which name a type with each storage. Each node is looked at once. The storage of a type that is
 * not known gets 0: what lies behind it cannot be found. */
static void learn_sizes(struct walk *w, struct tw_node *n, int depth)
{
    if (n->sized || depth == TW_MAX_DEPTH)
        return;
    n->sized = true;
    if (n->kind == TW_PERSISTENT) {
        const struct tw_node *id = tw_node_item(n, 0);
        const struct tw_node *type = tw_node_item(id, 1);
        const struct tw_node *key = tw_node_item(id, 2);
        struct storage *s = type && type->kind == TW_GLOBAL && key && key->kind == TW_TEXT
                                ? old_storage(w, key)
                                : NULL;
        const enum twin_dtype dtype = s ? tw_torch_type(type->text) : TWIN_BYTES;
        /* of a type that is not known the size is not either: then what lies behind it cannot be
         * found */
        if (s)
            s->bytes_each = dtype != TWIN_BYTES ? twin_dtype_size(dtype)
                                                : tw_ends(type->text, "UntypedStorage");
        return;
    }
    if (n->kind < TW_TUPLE || n->kind == TW_GLOBAL)
        return;
    for (uint32_t i = 0; i < n->count; i++)
        learn_sizes(w, n->item[i], depth + 1);
    struct tw_node *more[] = {n->state, n->list, n->dict};
    for (size_t i = 0; i < 3; i++)
        if (more[i])
            learn_sizes(w, more[i], depth + 1);
}

/* Reads the list of keys and finds the place of each storage, which begins at `at` with its number
 * of elements in 8 bytes. */
static int find_storages(struct walk *w, const struct tw_node *keys, struct tw_node *top,
                         uint64_t at)
{
    const struct tw_source *s = tw_tensors_source(w->file);
    if (keys->kind != TW_LIST)
        return bad_file(w, "expected a list of storages");
    w->storage = tw_calloc(keys->count + 1, sizeof *w->storage);
    if (!w->storage)
        return tw_no_memory(w->err, "for the list of %s", w->name);
    for (; w->storages < keys->count; w->storages++) {
        const struct tw_node *key = keys->item[w->storages];
        if (key->kind != TW_TEXT || key->count > 100)
            return bad_file(w, "the key of a storage is no short text");
        w->storage[w->storages] = (struct storage){.key = key->text, .key_bytes = key->count};
    }
    qsort(w->storage, w->storages, sizeof *w->storage, by_key);
    learn_sizes(w, top, 0);
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < keys->count; i++) { /* they stand in the list's order */
        struct storage *t = old_storage(w, keys->item[i]);
        unsigned char b[8];
        uint64_t bytes = 0;
        rc = tw_source_read(s, at, b, 8, w->err);
        if (rc != 0)
            break;
        at += 8;
        /* Number of elements times their size, within the file. */
        if (t->bytes_each == 0 || __builtin_mul_overflow(tw_le64(b), t->bytes_each, &bytes) ||
            bytes > s->size - at)
            rc = bad_file(w, "a storage of unknown size, or larger than the file");
        else
            t->piece = (struct tw_piece){.at = at, .packed = bytes, .bytes = bytes};
        at += rc == 0 ? bytes : 0;
    }
    return rc;
}

/* Reads the five pickles, then the storages, then walks. */
static int read_old(struct walk *w, struct tw_pickle *p, const unsigned char *data, size_t bytes)
{
    struct tw_node *part[5]; /* magic number, version, system, the object, keys of the storages */
    const char *name = w->name;
    size_t at = 0;
    int rc = 0;
    for (int i = 0; rc == 0 && i < 5; i++)
        rc = tw_pickle_read(p, data, bytes, &at, name, &part[i], w->err);
    if (rc == 0 && (part[1]->kind != TW_INT || part[1]->number != 1001))
        rc = twin_error_set(w->err, TWIN_EVERSION,
                            "%s: expected version 1001 of PyTorch's old format", name);
    if (rc != 0)
        return rc;
    for (uint32_t i = 0; part[2]->kind == TW_DICT && i + 1 < part[2]->count; i += 2)
        if (tw_node_is(part[2]->item[i], TW_TEXT, "little_endian"))
            w->swap = part[2]->item[i + 1]->kind == TW_TRUTH && !part[2]->item[i + 1]->number;
    /* What the five pickles take, which is `at` by now. */
    tw_tensors_budget(w->file, at, TW_PICKLE_BYTES_EACH);
    rc = find_storages(w, part[4], part[3], at);
    return rc == 0 ? visit_node(w, part[3], 0) : rc;
}

/* Where the pickles end is not said anywhere, so as much of the file is read as a pickle may be
 * large. */
int tw_torch_legacy_list(struct twin_tensors *f, struct twin_error *err)
{
    const struct tw_source *s = tw_tensors_source(f);
    struct walk w = {.file = f, .name = s->name, .err = err, .path = {.cap = 1 << 20}};
    struct tw_pickle p = {0};
    size_t n = s->size < TW_MAX_LIST ? (size_t)s->size : TW_MAX_LIST;
    unsigned char *data = tw_malloc(n + 1);
    tw_buf_puts(&w.path, "");
    int rc = data && !w.path.failed ? tw_source_read(s, 0, data, n, err)
                                    : tw_no_memory(w.err, "for the list of %s", w.name);
    if (rc == 0)
        rc = read_old(&w, &p, data, n);
    tw_pickle_free(&p);
    tw_buf_free(&w.path);
    tw_free(data);
    tw_free(w.storage);
    return rc;
}
