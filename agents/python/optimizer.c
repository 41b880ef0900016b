/* SPDX-License-Identifier: Apache-2.0 */
/* What belongs to an optimizer: its parameters, their gradients, the tensors of its state. */
#include "swift.h"

#include <string.h>
#include "src/base/base.h"

static const char list_kind[] = "twinrun list", left_kind[] = "twinrun left",
                  moments_kind[] = "twinrun moments";

#define PROBE 4096u               /* as in _agent/written.py */
#define DICT_SUBCLASS (1ul << 29) /* Py_TPFLAGS_DICT_SUBCLASS */

/* ---------------------------------------------------------------- parameters */

struct list {
    size_t n;
    const PyObject *id[]; /* compared, never used */
};

static void list_end(PyObject *capsule)
{
    tw_free(tw_py_table(capsule, list_kind));
}

/* new_list([id of each parameter]) */
PyObject *tw_swift_new_list(PyObject *self, PyObject *const *args, ssize_t n)
{
    (void)self;
    ssize_t count = n == 1 ? PyList_Size(args[0]) : 0;
    struct list *b = NULL;
    if (count > 0)
        b = tw_calloc(1, sizeof *b + (size_t)count * sizeof *b->id);
    if (!b)
        return tw_py_none();
    b->n = (size_t)count;
    for (ssize_t i = 0; i < count; i++) {
        uint64_t id = 0;
        if (!tw_py_u64(PyList_GetItem(args[0], i), &id)) {
            tw_free(b);
            return tw_py_none();
        }
        b->id[i] = (const PyObject *)(uintptr_t)id;
    }
    return tw_py_capsule(b, list_kind, list_end);
}

/* The list of a group's parameters, borrowed; NULL where groups are not what torch makes. */
static PyObject *of_group(PyObject *groups, ssize_t g)
{
    PyObject *group = PyList_GetItem(groups, g);
    PyObject *list = NULL;
    if (group && tw_py_type(group) == tw_py.dict)
        list = PyDict_GetItemWithError(group, tw_py.params);
    return list && tw_py_type(list) == tw_py.list ? list : NULL;
}

/* Whether the groups hold these very parameters in this order. */
static bool same_list(const struct list *b, PyObject *groups)
{
    size_t at = 0;
    for (ssize_t g = 0; g < PyList_Size(groups); g++) {
        PyObject *list = of_group(groups, g);
        ssize_t count = list ? PyList_Size(list) : -1;
        if (count < 0 || (size_t)count > b->n - at)
            return false;
        for (ssize_t i = 0; i < count; i++)
            if (PyList_GetItem(list, i) != b->id[at++])
                return false;
    }
    return at == b->n;
}

/* list(list, groups): the parameters, where they are those that the list was made of. */
PyObject *tw_swift_list(PyObject *self, PyObject *const *args, ssize_t n)
{
    (void)self;
    const struct list *b = n == 2 ? tw_py_table(args[0], list_kind) : NULL;
    if (!b || tw_py_type(args[1]) != tw_py.list || !same_list(b, args[1]))
        return tw_py_none();
    PyObject *found = PyList_New((ssize_t)b->n);
    ssize_t at = 0;
    for (ssize_t g = 0; found && g < PyList_Size(args[1]); g++) {
        PyObject *list = of_group(args[1], g);
        for (ssize_t i = 0; i < PyList_Size(list); i++) {
            PyObject *p = PyList_GetItem(list, i);
            Py_IncRef(p);
            PyList_SetItem(found, at++, p);
        }
    }
    return found ? found : tw_py_none();
}

/* ---------------------------------------------------------------- gradients */

/* A gradient as a backward left it. */
struct left_row {
    PyObject *reference; /* NULL: there was none */
    uint64_t at, version;
};

struct left {
    size_t n;
    bool busy;
    size_t probed; /* the place of the one that is digested */
    uint64_t region_at, region_bytes, known;
    PyObject **held; /* gradients while they are recorded */
    struct left_row row[];
};

static void left_end(PyObject *capsule)
{
    struct left *b = tw_py_table(capsule, left_kind);
    for (size_t i = 0; b && i < b->n; i++)
        if (b->row[i].reference)
            Py_DecRef(b->row[i].reference);
    if (b)
        tw_free(b->held);
    tw_free(b);
}

/* new_left(number of parameters) */
PyObject *tw_swift_new_left(PyObject *self, PyObject *const *args, ssize_t n)
{
    uint64_t count;
    (void)self;
    if (n != 1 || !tw_py_u64(args[0], &count) || !count || count > 1u << 24)
        return tw_py_none();
    struct left *b = tw_calloc(1, sizeof *b + (size_t)count * sizeof *b->row);
    if (!b)
        return tw_py_none();
    b->n = (size_t)count;
    b->held = tw_calloc(b->n, sizeof(PyObject *));
    if (!b->held) {
        tw_free(b);
        return tw_py_none();
    }
    return tw_py_capsule(b, left_kind, left_end);
}

/* The gradient of parameter i, a new reference, None where there is none; NULL: ask in Python. */
static PyObject *gradient(PyObject *parameters, size_t i)
{
    PyObject *p = PyList_GetItem(parameters, (ssize_t)i);
    PyObject *g = p && tw_py_plain(p) ? PyObject_GetAttr(p, tw_py.grad) : NULL;
    if (g && g != tw_py.none && !tw_py_plain(g)) {
        Py_DecRef(g);
        return NULL;
    }
    return g;
}

/* Notes how a gradient is. Takes nothing. */
static bool note_gradient(struct left_row *r, PyObject *g)
{
    if (r->reference && (g == tw_py.none || !tw_py_refers(r->reference, g))) {
        Py_DecRef(r->reference);
        r->reference = NULL;
    }
    if (g == tw_py.none)
        return true;
    if (!tw_py_number(tw_py.data_ptr, g, &r->at) || !tw_py_version(g, &r->version))
        return false;
    if (!r->reference)
        r->reference = tw_py_call(tw_py.reference, g);
    return r->reference != NULL;
}

/* Which bytes of a gradient are digested. */
static void aim(struct left *b, PyObject *g, uint64_t turn)
{
    uint64_t at, count, width;
    b->region_at = b->region_bytes = 0;
    if (g == tw_py.none || !tw_py_readable(g) || !tw_py_says(tw_py.is_contiguous, g, tw_py.yes) ||
        !tw_py_number(tw_py.data_ptr, g, &at) || !at || !tw_py_number(tw_py.numel, g, &count) ||
        !tw_py_number(tw_py.element_size, g, &width)) {
        PyErr_Clear(); /* then nothing of it is digested */
        return;
    }
    uint64_t size = count * width, first = 0;
    if (size > PROBE) {
        first = turn * PROBE * 37 % size & ~UINT64_C(63);
        size = size - first < PROBE ? size - first : PROBE;
    }
    b->region_at = at + first;
    b->region_bytes = size;
}

static uint64_t probe(const struct left *b)
{
    return tw_agent_quick_digest((const void *)(uintptr_t)b->region_at, (size_t)b->region_bytes);
}

/* left(left, parameters, turn): a backward has ended; what it left is noted, and one of the
 * gradients, which takes turns, is digested. After a no Python looks for itself. */
PyObject *tw_swift_left(PyObject *self, PyObject *const *args, ssize_t n)
{
    uint64_t turn;
    (void)self;
    struct left *b = n == 3 ? tw_py_table(args[0], left_kind) : NULL;
    bool good = b && !b->busy && tw_py_u64(args[2], &turn) && tw_py_type(args[1]) == tw_py.list &&
                PyList_Size(args[1]) == (ssize_t)b->n;
    if (good)
        b->probed = (size_t)(turn % b->n);
    for (size_t i = 0; good && i < b->n; i++) {
        PyObject *g = gradient(args[1], i);
        good = g && note_gradient(&b->row[i], g);
        if (good && i == b->probed)
            aim(b, g, turn);
        if (g)
            Py_DecRef(g);
    }
    if (good)
        b->known = probe(b);
    return tw_py_answer(good);
}

/* Whether a gradient is still what the backward left. */
static bool unwritten(const struct left_row *r, PyObject *g)
{
    uint64_t at, version;
    if (!r->reference)
        return g == tw_py.none;
    return tw_py_refers(r->reference, g) && tw_py_number(tw_py.data_ptr, g, &at) && at == r->at &&
           tw_py_version(g, &version) && version == r->version;
}

/* Holds every gradient, as long as each is what the backward left and what the table says. */
static bool hold_gradients(struct left *b, struct tw_swift_table *table, PyObject *parameters)
{
    size_t rows = tw_swift_rows(table), next = 0;
    for (size_t i = 0; i < b->n; i++) {
        PyObject *g = b->held[i] = gradient(parameters, i);
        if (!g || !unwritten(&b->row[i], g)) /* of one that is there, row[i].at holds then */
            return false;
        if (g == tw_py.none)
            continue;
        if (next == rows || tw_swift_place(table, next) != i ||
            !tw_swift_row(table, next, g, b->row[i].at))
            return false;
        next++;
    }
    return next == rows && rows && probe(b) == b->known;
}

/* step(left, table, parameters, flags): records the gradients, where none has been written since
 * the backward. */
PyObject *tw_swift_step(PyObject *self, PyObject *const *args, ssize_t n)
{
    uint64_t flags;
    (void)self;
    struct left *b = n == 4 ? tw_py_table(args[0], left_kind) : NULL;
    struct tw_swift_table *table = b ? tw_py_table(args[1], tw_swift_table_kind) : NULL;
    if (!table || b->busy || !tw_py_u64(args[3], &flags) || tw_py_type(args[2]) != tw_py.list ||
        PyList_Size(args[2]) != (ssize_t)b->n)
        return tw_py_answer(false);
    b->busy = true;
    bool same = hold_gradients(b, table, args[2]);
    if (same)
        tw_swift_send_all(table, (uint32_t)flags);
    for (size_t i = 0; i < b->n; i++)
        if (b->held[i]) {
            Py_DecRef(b->held[i]);
            b->held[i] = NULL;
        }
    b->busy = false;
    return tw_py_answer(same);
}

/* rows_of(left): the place, the address, the bytes and the digest of what is digested, then of each
 * gradient its reference (or None), address and version: for Python to go on with. */
PyObject *tw_swift_rows_of(PyObject *self, PyObject *const *args, ssize_t n)
{
    (void)self;
    const struct left *b = n == 1 ? tw_py_table(args[0], left_kind) : NULL;
    PyObject *found = b ? PyList_New((ssize_t)(4 + 3 * b->n)) : NULL;
    if (!found)
        return tw_py_none();
    const uint64_t head[] = {b->probed, b->region_at, b->region_bytes, b->known};
    for (size_t k = 0; k < 4; k++)
        PyList_SetItem(found, (ssize_t)k, PyLong_FromUnsignedLongLong(head[k]));
    for (size_t i = 0; i < b->n; i++) {
        const struct left_row *r = &b->row[i];
        PyObject *reference = r->reference ? r->reference : tw_py.none;
        Py_IncRef(reference);
        PyList_SetItem(found, (ssize_t)(4 + 3 * i), reference);
        PyList_SetItem(found, (ssize_t)(5 + 3 * i), PyLong_FromUnsignedLongLong(r->at));
        PyList_SetItem(found, (ssize_t)(6 + 3 * i), PyLong_FromUnsignedLongLong(r->version));
    }
    return found;
}

/* ---------------------------------------------------------------- state */

/* A tensor in the state of one parameter. */
struct moment {
    PyObject *key, *reference;
    uint64_t at;
};

/* The state of one parameter, in the order of the dictionary. */
struct state_entry {
    const PyObject *parameter; /* compared, never used */
    ssize_t entries;
    size_t first, count; /* its moments */
};

struct moments {
    size_t entries, n;
    struct state_entry *entry;
    struct moment moment[];
};

static void moments_free(struct moments *b)
{
    for (size_t i = 0; b && i < b->n; i++) {
        if (b->moment[i].key)
            Py_DecRef(b->moment[i].key);
        if (b->moment[i].reference)
            Py_DecRef(b->moment[i].reference);
    }
    if (b)
        tw_free(b->entry);
    tw_free(b);
}

static void moments_end(PyObject *capsule)
{
    moments_free(tw_py_table(capsule, moments_kind));
}

/* One of Python's rows: (key, reference, address). */
static bool take_moment(struct moment *m, PyObject *row)
{
    if (!row || !tw_py_u64(PyTuple_GetItem(row, 2), &m->at))
        return false;
    m->key = PyTuple_GetItem(row, 0);
    m->reference = PyTuple_GetItem(row, 1);
    if (m->key)
        Py_IncRef(m->key);
    if (m->reference)
        Py_IncRef(m->reference);
    return m->key && m->reference;
}

/* One of Python's: (id of the parameter, entries of its state, first of its rows, their number). */
static bool take_entry(struct state_entry *e, PyObject *row, size_t n)
{
    uint64_t number[4];
    for (ssize_t k = 0; k < 4; k++)
        if (!row || !tw_py_u64(PyTuple_GetItem(row, k), &number[k]))
            return false;
    *e = (struct state_entry){(const PyObject *)(uintptr_t)number[0], (ssize_t)number[1],
                              (size_t)number[2], (size_t)number[3]};
    return e->first <= n && e->count <= n - e->first;
}

/* new_moments(entries in the order of the dictionary, rows in the order of the records) */
PyObject *tw_swift_new_moments(PyObject *self, PyObject *const *args, ssize_t n)
{
    (void)self;
    ssize_t entries = n == 2 ? PyList_Size(args[0]) : 0, rows = n == 2 ? PyList_Size(args[1]) : 0;
    struct moments *b = NULL;
    if (entries > 0 && rows > 0)
        b = tw_calloc(1, sizeof *b + (size_t)rows * sizeof *b->moment);
    if (!b)
        return tw_py_none();
    b->n = (size_t)rows;
    b->entries = (size_t)entries;
    b->entry = tw_calloc(b->entries, sizeof *b->entry);
    bool good = b->entry != NULL;
    for (ssize_t i = 0; good && i < rows; i++)
        good = take_moment(&b->moment[i], PyList_GetItem(args[1], i));
    for (ssize_t i = 0; good && i < entries; i++)
        good = take_entry(&b->entry[i], PyList_GetItem(args[0], i), b->n);
    if (!good) {
        moments_free(b);
        return tw_py_none();
    }
    return tw_py_capsule(b, moments_kind, moments_end);
}

/* Whether a tensor of the state is the one that it was, and lies where it lay. */
static bool in_its_place(const struct moment *m, PyObject *t)
{
    uint64_t now;
    return t && tw_py_plain(t) && tw_py_refers(m->reference, t) &&
           tw_py_has(t, tw_py.layout, tw_py.strided) && tw_py_number(tw_py.data_ptr, t, &now) &&
           now == m->at;
}

/* The moments of one parameter, into `found`. */
static bool find_moments(const struct moments *b, const struct state_entry *e, PyObject *values,
                         PyObject *found)
{
    if (tw_py_type(values) != tw_py.dict || PyDict_Size(values) != e->entries)
        return false;
    for (size_t k = e->first; k < e->first + e->count; k++) {
        PyObject *t = PyDict_GetItemWithError(values, b->moment[k].key);
        if (!in_its_place(&b->moment[k], t))
            return false;
        Py_IncRef(t);
        PyList_SetItem(found, (ssize_t)k, t);
    }
    return true;
}

/* moments(moments, state): the tensors, where each is the one that it was, in its place. The
 * dictionary is walked, not asked: torch's tensors are hashed by a function in Python. */
PyObject *tw_swift_moments(PyObject *self, PyObject *const *args, ssize_t n)
{
    (void)self;
    const struct moments *b = n == 2 ? tw_py_table(args[0], moments_kind) : NULL;
    if (!b || !(PyType_GetFlags(tw_py_type(args[1])) & DICT_SUBCLASS) ||
        PyDict_Size(args[1]) != (ssize_t)b->entries)
        return tw_py_none();
    PyObject *found = PyList_New((ssize_t)b->n), *parameter, *values;
    ssize_t at = 0;
    size_t i = 0;
    bool same = found != NULL;
    while (same && PyDict_Next(args[1], &at, &parameter, &values)) {
        same = parameter == b->entry[i].parameter && find_moments(b, &b->entry[i], values, found);
        i++;
    }
    if (same)
        return found;
    if (found)
        Py_DecRef(found);
    return tw_py_none();
}
