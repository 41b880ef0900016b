/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of tensors, and of plain numbers, that are recorded together in every step. */
#include "swift.h"

#include <string.h>
#include "src/base/base.h"

const char tw_swift_table_kind[] = "twinrun table";
static const char numbers_kind[] = "twinrun numbers";

/* What a tensor must look like for its item to be right. */
struct row {
    PyObject *shape, *dtype;
    PyObject *strides; /* None: contiguous */
    uint64_t at;       /* where it lies */
    size_t place;      /* among all parameters of an optimizer */
};

struct tw_swift_table {
    PyObject *buffer; /* keeps `items` alive */
    /* NULL: the rows are only looked at, and one that lies elsewhere is another one */
    struct tw_agent_item *items;
    size_t n;
    uint64_t bytes;
    uint32_t flags;
    bool busy; /* its records are being made, without the interpreter lock */
    struct row row[];
};

static void table_end(PyObject *capsule)
{
    struct tw_swift_table *b = tw_py_table(capsule, tw_swift_table_kind);
    for (size_t i = 0; b && i < b->n; i++) {
        Py_DecRef(b->row[i].shape);
        Py_DecRef(b->row[i].dtype);
        Py_DecRef(b->row[i].strides);
    }
    if (b)
        Py_DecRef(b->buffer);
    tw_free(b);
}

/* One of Python's rows: (shape, dtype, strides or None, address, place). */
static bool take_row(struct row *r, PyObject *row)
{
    uint64_t place;
    if (!row || !tw_py_u64(PyTuple_GetItem(row, 3), &r->at) ||
        !tw_py_u64(PyTuple_GetItem(row, 4), &place))
        return false;
    r->place = (size_t)place;
    r->shape = PyTuple_GetItem(row, 0);
    r->dtype = PyTuple_GetItem(row, 1);
    r->strides = PyTuple_GetItem(row, 2);
    return r->shape && r->dtype && r->strides;
}

/* new_table(buffer, address of its items or 0, bytes of the tensors, flags of the items, rows) */
PyObject *tw_swift_new_table(PyObject *self, PyObject *const *args, ssize_t n)
{
    uint64_t address, bytes, flags;
    (void)self;
    if (n != 5 || !tw_py_u64(args[1], &address) || !tw_py_u64(args[2], &bytes) ||
        !tw_py_u64(args[3], &flags))
        return tw_py_none();
    ssize_t rows = PyList_Size(args[4]);
    struct tw_swift_table *b = NULL;
    if (rows > 0)
        b = tw_calloc(1, sizeof *b + (size_t)rows * sizeof *b->row);
    if (!b)
        return tw_py_none();
    for (ssize_t i = 0; i < rows; i++)
        if (!take_row(&b->row[i], PyList_GetItem(args[4], i))) {
            tw_free(b);
            return tw_py_none();
        }
    for (ssize_t i = 0; i < rows; i++) {
        Py_IncRef(b->row[i].shape);
        Py_IncRef(b->row[i].dtype);
        Py_IncRef(b->row[i].strides);
    }
    b->buffer = args[0];
    Py_IncRef(b->buffer);
    b->items = (struct tw_agent_item *)(uintptr_t)address;
    b->n = (size_t)rows;
    b->bytes = bytes;
    b->flags = (uint32_t)flags;
    return tw_py_capsule(b, tw_swift_table_kind, table_end);
}

size_t tw_swift_rows(const struct tw_swift_table *b)
{
    return b->busy ? 0 : b->n;
}

size_t tw_swift_place(const struct tw_swift_table *b, size_t i)
{
    return b->row[i].place;
}

static bool looks_the_same(const struct row *r, PyObject *t)
{
    if (!tw_py_has(t, tw_py.dtype, r->dtype) ||
        !tw_py_equal(PyObject_GetAttr(t, tw_py.shape), r->shape))
        return false;
    if (r->strides == tw_py.none)
        return tw_py_says(tw_py.is_contiguous, t, tw_py.yes);
    return tw_py_equal(tw_py_call(tw_py.stride, t), r->strides);
}

bool tw_swift_row(struct tw_swift_table *b, size_t i, PyObject *t, uint64_t at)
{
    struct row *r = &b->row[i];
    if (!looks_the_same(r, t))
        return false;
    if (at == r->at)
        return true;
    if (!b->items || !at)
        return false;
    bool is_complex = b->items[i].dtype == TWIN_C64 || b->items[i].dtype == TWIN_C128;
    if (!tw_py_still_readable(t, is_complex))
        return false;
    b->items[i].data = (const void *)(uintptr_t)at;
    r->at = at;
    return true;
}

void tw_swift_send_all(struct tw_swift_table *b, uint32_t flags)
{
    for (size_t i = 0; flags != b->flags && i < b->n; i++)
        b->items[i].flags = flags;
    b->flags = flags;
    b->busy = true;
    tw_swift_send(b->items, b->n, b->bytes);
    b->busy = false;
}

/* Element i of a list or tuple, borrowed. */
static PyObject *element_of(PyObject *many, size_t i)
{
    PyObject *type = tw_py_type(many);
    if (type == tw_py.list)
        return PyList_GetItem(many, (ssize_t)i);
    return type == tw_py.tuple ? PyTuple_GetItem(many, (ssize_t)i) : NULL;
}

static bool all_the_same(struct tw_swift_table *b, PyObject *tensors)
{
    ssize_t size = -1;
    if (tw_py_type(tensors) == tw_py.list)
        size = PyList_Size(tensors);
    else if (tw_py_type(tensors) == tw_py.tuple)
        size = PyTuple_Size(tensors);
    if (b->busy || size != (ssize_t)b->n)
        return false;
    for (size_t i = 0; i < b->n; i++) {
        PyObject *t = element_of(tensors, i);
        uint64_t at;
        if (!t || !tw_py_plain(t) || !tw_py_number(tw_py.data_ptr, t, &at) ||
            !tw_swift_row(b, i, t, at))
            return false;
    }
    return true;
}

PyObject *tw_swift_record(PyObject *self, PyObject *const *args, ssize_t n)
{
    uint64_t flags;
    (void)self;
    struct tw_swift_table *b = n == 3 ? tw_py_table(args[0], tw_swift_table_kind) : NULL;
    bool same = b && b->items && tw_py_u64(args[2], &flags) && all_the_same(b, args[1]);
    if (same)
        tw_swift_send_all(b, (uint32_t)flags);
    return tw_py_answer(same);
}

PyObject *tw_swift_again(PyObject *self, PyObject *const *args, ssize_t n)
{
    uint64_t flags;
    (void)self;
    struct tw_swift_table *b = n == 2 ? tw_py_table(args[0], tw_swift_table_kind) : NULL;
    bool can = b && b->items && !b->busy && tw_py_u64(args[1], &flags);
    if (can)
        tw_swift_send_all(b, (uint32_t)flags);
    return tw_py_answer(can);
}

PyObject *tw_swift_still(PyObject *self, PyObject *const *args, ssize_t n)
{
    (void)self;
    struct tw_swift_table *b = n == 2 ? tw_py_table(args[0], tw_swift_table_kind) : NULL;
    return tw_py_answer(b && all_the_same(b, args[1]));
}

/* ---------------------------------------------------------------- hyperparameters */

struct number {
    size_t group;
    PyObject *key;
    long long index; /* in a tuple or list; -1: none */
};

struct numbers {
    PyObject *keep; /* buffers of items and values */
    struct tw_agent_item *items;
    double *values;
    size_t n, groups;
    ssize_t *keys; /* of each group: how many it has */
    struct number number[];
};

static void numbers_free(struct numbers *b)
{
    for (size_t i = 0; b && i < b->n; i++)
        if (b->number[i].key)
            Py_DecRef(b->number[i].key);
    if (b) {
        Py_DecRef(b->keep);
        tw_free(b->keys);
    }
    tw_free(b);
}

static void numbers_end(PyObject *capsule)
{
    numbers_free(tw_py_table(capsule, numbers_kind));
}

/* One of Python's: (group, key, index or -1). */
static bool take_number(struct number *p, PyObject *plan)
{
    uint64_t group;
    if (!plan || !tw_py_u64(PyTuple_GetItem(plan, 0), &group))
        return false;
    PyObject *key = PyTuple_GetItem(plan, 1), *index = PyTuple_GetItem(plan, 2);
    if (!key || !index)
        return false;
    p->group = (size_t)group;
    p->index = PyLong_AsLongLong(index);
    p->key = key;
    Py_IncRef(key);
    return true;
}

/* new_numbers(keep, address of items, address of values, numbers of keys, plan) */
PyObject *tw_swift_new_numbers(PyObject *self, PyObject *const *args, ssize_t n)
{
    uint64_t items, values, keys;
    (void)self;
    if (n != 5 || !tw_py_u64(args[1], &items) || !tw_py_u64(args[2], &values))
        return tw_py_none();
    ssize_t count = PyList_Size(args[4]), groups = PyList_Size(args[3]);
    struct numbers *b = NULL;
    if (count > 0 && groups > 0)
        b = tw_calloc(1, sizeof *b + (size_t)count * sizeof *b->number);
    if (!b)
        return tw_py_none();
    b->keep = args[0];
    Py_IncRef(b->keep);
    b->items = (struct tw_agent_item *)(uintptr_t)items;
    b->values = (double *)(uintptr_t)values;
    b->n = (size_t)count;
    b->groups = (size_t)groups;
    b->keys = tw_calloc((size_t)groups, sizeof *b->keys);
    bool good = b->keys != NULL;
    for (ssize_t i = 0; good && i < groups; i++) {
        good = tw_py_u64(PyList_GetItem(args[3], i), &keys);
        b->keys[i] = (ssize_t)keys;
    }
    for (ssize_t i = 0; good && i < count; i++)
        good = take_number(&b->number[i], PyList_GetItem(args[4], i)) &&
               b->number[i].group < b->groups;
    if (!good) {
        numbers_free(b);
        return tw_py_none();
    }
    return tw_py_capsule(b, numbers_kind, numbers_end);
}

/* A number as Python's own path takes it; of exactly these types it runs no code of the job. */
static bool read_number(const struct number *p, PyObject *group, double *out)
{
    PyObject *o = PyDict_GetItemWithError(group, p->key);
    if (o && p->index >= 0) {
        PyObject *type = tw_py_type(o);
        bool inside = (type == tw_py.tuple && p->index < PyTuple_Size(o)) ||
                      (type == tw_py.list && p->index < PyList_Size(o));
        o = inside ? element_of(o, (size_t)p->index) : NULL;
    }
    if (!o || (tw_py_type(o) != tw_py.real && tw_py_type(o) != tw_py.whole))
        return false;
    *out = PyFloat_AsDouble(o);
    return *out != -1.0 || !PyErr_Occurred();
}

PyObject *tw_swift_numbers(PyObject *self, PyObject *const *args, ssize_t n)
{
    (void)self;
    struct numbers *b = n == 2 ? tw_py_table(args[0], numbers_kind) : NULL;
    bool same = b && tw_py_type(args[1]) == tw_py.list &&
                PyList_Size(args[1]) == (ssize_t)b->groups;
    for (size_t g = 0; same && g < b->groups; g++) {
        PyObject *group = PyList_GetItem(args[1], (ssize_t)g);
        same = tw_py_type(group) == tw_py.dict && PyDict_Size(group) == b->keys[g];
    }
    for (size_t i = 0; same && i < b->n; i++)
        same = read_number(&b->number[i], PyList_GetItem(args[1], (ssize_t)b->number[i].group),
                           &b->values[i]);
    if (same)
        tw_swift_send(b->items, b->n, 8 * b->n);
    return tw_py_answer(same);
}
