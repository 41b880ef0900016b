/* SPDX-License-Identifier: Apache-2.0 */
/* Whether anything has been written since the last look: states of generators, and weights. */
#include "swift.h"

#include <string.h>
#include "src/base/base.h"

static const char memory_kind[] = "twinrun memory", watch_kind[] = "twinrun watch";

#define PROBE 4096u /* as in _agent/written.py: bytes of a large tensor that are looked at */

/* ---------------------------------------------------------------- memory that stays in its place
 */

struct region {
    const void *at;
    size_t bytes, copy; /* copy: where its known content begins in `copies` */
};

struct memory {
    size_t n;
    char *copies;
    struct region region[];
};

static void memory_end(PyObject *capsule)
{
    struct memory *m = tw_py_table(capsule, memory_kind);
    if (m)
        tw_free(m->copies);
    tw_free(m);
}

static void take_memory(struct memory *m)
{
    for (size_t i = 0; i < m->n; i++)
        memcpy(m->copies + m->region[i].copy, m->region[i].at, m->region[i].bytes);
}

/* new_memory([(address, bytes)]): what these hold now is known. */
PyObject *tw_swift_new_memory(PyObject *self, PyObject *const *args, ssize_t n)
{
    (void)self;
    ssize_t count = n == 1 ? PyList_Size(args[0]) : 0;
    struct memory *m = NULL;
    if (count > 0)
        m = tw_calloc(1, sizeof *m + (size_t)count * sizeof *m->region);
    if (!m)
        return tw_py_none();
    size_t total = 0;
    bool good = true;
    for (ssize_t i = 0; good && i < count; i++) {
        PyObject *one = PyList_GetItem(args[0], i);
        uint64_t at = 0, bytes = 0;
        good = one && tw_py_u64(PyTuple_GetItem(one, 0), &at) &&
               tw_py_u64(PyTuple_GetItem(one, 1), &bytes) && bytes <= SIZE_MAX / 2 - total;
        m->region[i] = (struct region){(const void *)(uintptr_t)at, (size_t)bytes, total};
        total += (size_t)bytes;
    }
    m->n = (size_t)count;
    m->copies = good ? tw_malloc(total + 1) : NULL;
    if (!m->copies) {
        tw_free(m);
        return tw_py_none();
    }
    take_memory(m);
    return tw_py_capsule(m, memory_kind, memory_end);
}

PyObject *tw_swift_same(PyObject *self, PyObject *const *args, ssize_t n)
{
    (void)self;
    const struct memory *m = n == 1 ? tw_py_table(args[0], memory_kind) : NULL;
    bool same = m != NULL;
    for (size_t i = 0; same && i < m->n; i++)
        same = memcmp(m->copies + m->region[i].copy, m->region[i].at, m->region[i].bytes) == 0;
    return tw_py_answer(same);
}

PyObject *tw_swift_take(PyObject *self, PyObject *const *args, ssize_t n)
{
    (void)self;
    struct memory *m = n == 1 ? tw_py_table(args[0], memory_kind) : NULL;
    if (m)
        take_memory(m);
    return tw_py_answer(m != NULL);
}

/* ---------------------------------------------------------------- weights (_agent/written.py) */

/* One tensor, and how it was when it was looked at last. */
struct watched {
    PyObject *reference;
    uint64_t at, count, bytes;
    bool partly; /* only the part from `first` on is digested, and its version is held against */
    uint64_t first, version, known;
};

struct watch {
    size_t n;
    uint64_t turn;
    struct watched row[];
};

static void watch_free(struct watch *w)
{
    for (size_t i = 0; w && i < w->n; i++)
        if (w->row[i].reference)
            Py_DecRef(w->row[i].reference);
    tw_free(w);
}

static void watch_end(PyObject *capsule)
{
    watch_free(tw_py_table(capsule, watch_kind));
}

/* One of Python's rows: (reference, address, elements, bytes, first byte or -1, version). */
static bool take_row(struct watched *r, PyObject *row)
{
    PyObject *first = row ? PyTuple_GetItem(row, 4) : NULL;
    if (!first || !tw_py_u64(PyTuple_GetItem(row, 1), &r->at) ||
        !tw_py_u64(PyTuple_GetItem(row, 2), &r->count) ||
        !tw_py_u64(PyTuple_GetItem(row, 3), &r->bytes) ||
        !tw_py_u64(PyTuple_GetItem(row, 5), &r->version))
        return false;
    long long part = PyLong_AsLongLong(first);
    r->partly = part >= 0;
    r->first = r->partly ? (uint64_t)part : 0;
    r->reference = PyTuple_GetItem(row, 0);
    if (r->reference)
        Py_IncRef(r->reference);
    return r->reference != NULL;
}

/* new_watch(rows, [digest], turn): what Python's own look has found. */
PyObject *tw_swift_new_watch(PyObject *self, PyObject *const *args, ssize_t n)
{
    uint64_t turn;
    (void)self;
    if (n != 3 || !tw_py_u64(args[2], &turn))
        return tw_py_none();
    ssize_t rows = PyList_Size(args[0]);
    struct watch *w = NULL;
    if (rows > 0 && PyList_Size(args[1]) == rows)
        w = tw_calloc(1, sizeof *w + (size_t)rows * sizeof *w->row);
    if (!w)
        return tw_py_none();
    w->n = (size_t)rows;
    w->turn = turn;
    for (ssize_t i = 0; i < rows; i++)
        if (!take_row(&w->row[i], PyList_GetItem(args[0], i)) ||
            !tw_py_u64(PyList_GetItem(args[1], i), &w->row[i].known)) {
            watch_free(w);
            return tw_py_none();
        }
    return tw_py_capsule(w, watch_kind, watch_end);
}

static uint64_t digest(const struct watched *r)
{
    uint64_t bytes = r->bytes;
    if (r->partly) {
        bytes = r->bytes > r->first ? r->bytes - r->first : 0;
        bytes = bytes < PROBE ? bytes : PROBE;
    }
    return tw_agent_quick_digest((const void *)(uintptr_t)(r->at + r->first), (size_t)bytes);
}

/* Whether it is alive and lies where it lay. Its new reference, or NULL. */
static PyObject *in_its_place(const struct watched *r)
{
    PyObject *t = tw_py_target(r->reference);
    uint64_t now;
    if (t && tw_py_plain(t) && tw_py_number(tw_py.data_ptr, t, &now) && now == r->at)
        return t;
    if (t)
        Py_DecRef(t);
    return NULL;
}

static bool unwritten(const struct watched *r)
{
    PyObject *t = in_its_place(r);
    uint64_t version = r->version;
    bool same = t && (!r->partly || tw_py_version(t, &version)) && version == r->version &&
                digest(r) == r->known;
    if (t)
        Py_DecRef(t);
    return same;
}

/* check(watch): whether nothing has been written since the last look. */
PyObject *tw_swift_check(PyObject *self, PyObject *const *args, ssize_t n)
{
    (void)self;
    const struct watch *w = n == 1 ? tw_py_table(args[0], watch_kind) : NULL;
    bool same = w != NULL;
    for (size_t i = 0; same && i < w->n; i++)
        same = unwritten(&w->row[i]);
    return tw_py_answer(same);
}

static bool look_at_row(struct watched *r, bool partly, uint64_t turn)
{
    PyObject *t = in_its_place(r);
    uint64_t count;
    bool good = t && tw_py_number(tw_py.numel, t, &count) && count == r->count &&
                (!partly || tw_py_version(t, &r->version));
    if (good) {
        r->partly = partly;
        r->first = partly ? turn * PROBE * 37 % r->bytes & ~UINT64_C(63) : 0;
        r->known = digest(r);
    }
    if (t)
        Py_DecRef(t);
    return good;
}

/* look(watch, large, whole): what they hold now is known. Tensors of `large` elements or more are
 * looked at in part, unless all of them are looked at whole. After a no Python looks anew. */
PyObject *tw_swift_look(PyObject *self, PyObject *const *args, ssize_t n)
{
    uint64_t large;
    (void)self;
    struct watch *w = n == 3 ? tw_py_table(args[0], watch_kind) : NULL;
    if (!w || !tw_py_u64(args[1], &large))
        return tw_py_answer(false);
    bool whole = args[2] == tw_py.yes, good = true;
    for (size_t i = 0; good && i < w->n; i++)
        good = look_at_row(&w->row[i], w->row[i].count >= large && !whole, w->turn + 1);
    w->turn += good;
    return tw_py_answer(good);
}

/* seen(watch): the turn, then of each whether it is looked at in part, first byte, version, digest:
 * for Python to go on with. */
PyObject *tw_swift_seen(PyObject *self, PyObject *const *args, ssize_t n)
{
    (void)self;
    const struct watch *w = n == 1 ? tw_py_table(args[0], watch_kind) : NULL;
    PyObject *found = w ? PyList_New((ssize_t)(4 * w->n + 1)) : NULL;
    if (!found)
        return tw_py_none();
    PyList_SetItem(found, 0, PyLong_FromUnsignedLongLong(w->turn));
    for (size_t i = 0; i < w->n; i++) {
        const struct watched *r = &w->row[i];
        const uint64_t numbers[] = {r->partly, r->first, r->version, r->known};
        for (size_t k = 0; k < 4; k++)
            PyList_SetItem(found, (ssize_t)(4 * i + k + 1),
                           PyLong_FromUnsignedLongLong(numbers[k]));
    }
    return found;
}
