/* SPDX-License-Identifier: Apache-2.0 */
/* Keras's archives (.keras): a zip file with the weights as HDF5 (model.weights.h5, or several such
 * files when they were cut), config.json, metadata.json, and files that layers have saved (assets).
 * tensors.c calls tw_keras_list().
 *
 * A weight has the name that it has in its file of HDF5, so that the archive and what save_weights
 * writes have one digest. Assets are arrays of bytes: a vocabulary is a part of the model. The
 * configuration is taken apart into values. Two saves of one model differ in the date, which is
 * left out, and in "shared_object_id", an address, which becomes a number by first use. */
#include "internal.h"

#include "json_load.h"

#include <jansson.h>
#include <string.h>

enum { MAX_CONFIG = 64 << 20 };

static bool is_weights(const char *name)
{
    return tw_ends(name, ".weights.h5") && !strchr(name, '/');
}

/* Sharded weights are called model_00000.weights.h5 and so on. */
bool tw_keras_is(const struct tw_zip *z)
{
    for (size_t i = 0; i < z->count; i++)
        if (is_weights(z->entry[i].name))
            return true;
    return false;
}

/* ---- configuration */

/* While a configuration is walked. ids: objects by their addresses, to their numbers. */
struct walk {
    struct twin_tensors *f;
    struct tw_buf path;
    json_t *ids;
    struct twin_error *err;
};

static int no_memory(const struct walk *w)
{
    return tw_no_memory(w->err, "for the list of %s", tw_tensors_source(w->f)->name);
}

/* The number of an address: 0 for the first that occurs. Negative: no memory. */
static json_int_t number_of(struct walk *w, const json_t *id)
{
    char *key = json_is_integer(id) ? tw_printf("%lld", (long long)json_integer_value(id)) : NULL;
    if (!key)
        return -1;
    json_t *known = json_object_get(w->ids, key);
    json_int_t n = known ? json_integer_value(known) : (json_int_t)json_object_size(w->ids);
    if (!known && json_object_set_new(w->ids, key, json_integer(n)) != 0)
        n = -1;
    tw_free(key);
    return n;
}

static int add_leaf(struct walk *w, const json_t *j)
{
    struct twin_tensors_value v = {.name = w->path.data, .kind = TWIN_VALUE_NONE};
    switch (json_typeof(j)) {
    case JSON_OBJECT:
    case JSON_ARRAY:
        v.kind = TWIN_VALUE_EMPTY;
        v.text = json_is_object(j) ? "{}" : "[]";
        v.text_bytes = 2;
        break;
    case JSON_STRING:
        v.kind = TWIN_VALUE_TEXT;
        v.text = json_string_value(j);
        v.text_bytes = json_string_length(j);
        break;
    case JSON_INTEGER:
        v.kind = TWIN_VALUE_INT;
        v.number = json_integer_value(j);
        break;
    case JSON_REAL:
        v.kind = TWIN_VALUE_FLOAT;
        v.real = json_real_value(j);
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        v.kind = TWIN_VALUE_TRUTH;
        v.number = json_is_true(j);
        break;
    case JSON_NULL: break;
    }
    return w->path.failed ? no_memory(w) : tw_tensors_value(w->f, &v, w->err);
}

static int walk_json(struct walk *w, const json_t *j, int depth);

static int walk_member(struct walk *w, const char *key, json_t *member, int depth)
{
    if (strcmp(key, "shared_object_id") != 0 || !json_is_integer(member))
        return walk_json(w, member, depth);
    json_int_t n = number_of(w, member);
    json_t *number = n >= 0 ? json_integer(n) : NULL;
    int rc = number ? add_leaf(w, number) : no_memory(w);
    json_decref(number);
    return rc;
}

/* Members in the order of the file, so that numbers by first use mean the same in two files. */
static int walk_json(struct walk *w, const json_t *j, int depth)
{
    const size_t before = w->path.len;
    const char *key;
    json_t *member;
    size_t i;
    int rc = 0;
    if (depth > TW_MAX_DEPTH)
        return twin_error_set(w->err, TWIN_ELIMIT, "%s: containers in containers beyond %d",
                              tw_tensors_source(w->f)->name, TW_MAX_DEPTH);
    if (json_object_size(j) == 0 && json_array_size(j) == 0)
        return add_leaf(w, j);
    json_object_foreach ((json_t *)j, key, member) {
        tw_buf_puts(&w->path, "/");
        tw_torch_append_key(&w->path, key, (uint32_t)strlen(key));
        rc = rc ? rc : walk_member(w, key, member, depth + 1);
        w->path.len = before;
    }
    json_array_foreach (j, i, member) {
        tw_buf_printf(&w->path, "[%zu]", i);
        rc = rc ? rc : walk_json(w, member, depth + 1);
        w->path.len = before;
    }
    return rc;
}

/* The values of one file of JSON; their names begin with its name. */
static int add_json(struct twin_tensors *f, const struct tw_zip_entry *e, struct twin_error *err)
{
    struct walk w = {.f = f, .path = {.cap = 1 << 20}, .ids = json_object(), .err = err};
    struct tw_unpack *state = NULL;
    json_error_t why = {.line = 0};
    json_t *tree = NULL;
    if (e->piece.bytes > MAX_CONFIG) {
        json_decref(w.ids);
        return twin_error_set(err, TWIN_ELIMIT, "%s: %s has %llu bytes: expected at most %d",
                              tw_tensors_source(f)->name, e->name,
                              (unsigned long long)e->piece.bytes, MAX_CONFIG);
    }
    char *text = tw_malloc(e->piece.bytes + 1);
    int rc = text && w.ids ? 0 : no_memory(&w);
    if (rc == 0)
        rc = tw_piece_read(tw_tensors_source(f), &state, &e->piece, 0, text, e->piece.bytes, err);
    if (rc == 0 && !(tree = tw_json_load(text, e->piece.bytes, JSON_REJECT_DUPLICATES, &why)))
        rc = twin_error_set(err, TWIN_EFORMAT, "%s: %s is no JSON: line %d: %s",
                            tw_tensors_source(f)->name, e->name, why.line, why.text);
    if (rc == 0) {
        if (strcmp(e->name, "metadata.json") == 0)
            json_object_del(tree, "date_saved");
        tw_buf_puts(&w.path, e->name);
        rc = walk_json(&w, tree, 0);
    }
    json_decref(tree);
    json_decref(w.ids);
    tw_buf_free(&w.path);
    tw_unpack_free(state);
    tw_free(text);
    return rc;
}

/* ---- the list */

/* A file that a layer has saved. */
static int add_asset(struct twin_tensors *f, const struct tw_zip_entry *e, struct twin_error *err)
{
    struct tw_found t = {.stored_as = "file",
                         .dtype = TWIN_U8,
                         .ndim = 1,
                         .shape = {(int64_t)e->piece.bytes},
                         .dense = true,
                         .piece = e->piece,
                         .unreadable = e->unreadable};
    t.name = tw_arena_text(f, e->name, strlen(e->name));
    return t.name ? tw_tensors_add(f, &t, err)
                  : tw_no_memory(err, "for the list of %s", tw_tensors_source(f)->name);
}

static int add_entry(struct twin_tensors *f, const struct tw_zip_entry *e, struct twin_error *err)
{
    const size_t n = strlen(e->name);
    if (is_weights(e->name)) {
        /* Weights are read at any place of theirs, which packed bytes do not allow. */
        if (e->unreadable || e->piece.deflated)
            return twin_error_set(err, TWIN_EUNSUPPORTED,
                                  "%s: %s in it is compressed, which Keras does not do: unpack the "
                                  "archive and give the .h5",
                                  tw_tensors_source(f)->name, e->name);
        return tw_hdf5_list(f, e->piece.at, e->piece.bytes, err);
    }
    if (n > 0 && e->name[n - 1] == '/') /* a folder */
        return 0;
    if (tw_ends(e->name, ".json") && !strchr(e->name, '/') && !e->unreadable)
        return tw_tensors_wants_values(f) ? add_json(f, e, err) : 0;
    return add_asset(f, e, err);
}

int tw_keras_list(struct twin_tensors *f, const struct tw_zip *z, struct twin_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < z->count && rc == 0; i++)
        rc = add_entry(f, &z->entry[i], err);
    return rc ? rc : tw_tensors_check_names(f, err);
}
