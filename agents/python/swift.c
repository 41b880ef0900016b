/* SPDX-License-Identifier: Apache-2.0 */
/* Arming the swift path, and how a tensor is asked. See swift.h. */
#include "swift.h"

#include <string.h>
#include "src/base/base.h"

struct tw_swift_given tw_py;

#define GIVEN (sizeof tw_py / sizeof(PyObject *))
#define EQUAL 2           /* Py_EQ */
#define LONG_BYTES 262144 /* as in _agent/tensors.py: from here on other threads may run */

static uint64_t spent_ns; /* in records, not yet told to Python; under the interpreter lock */

PyObject *tw_py_call(PyObject *method, PyObject *t)
{
    if (PyObject_Vectorcall)
        return PyObject_Vectorcall(method, &t, 1, NULL);
    return PyObject_CallFunctionObjArgs(method, t, NULL);
}

/* Takes `o`, which may be NULL. */
static bool whole_number(PyObject *o, uint64_t *out)
{
    if (!o)
        return false;
    *out = PyLong_AsUnsignedLongLong(o);
    Py_DecRef(o);
    return *out != UINT64_MAX || !PyErr_Occurred();
}

bool tw_py_number(PyObject *method, PyObject *t, uint64_t *out)
{
    return whole_number(tw_py_call(method, t), out);
}

bool tw_py_version(PyObject *t, uint64_t *out)
{
    return whole_number(PyObject_GetAttr(t, tw_py.version), out);
}

/* `made` is one of torch's or Python's constants. */
static bool is_constant(PyObject *made, PyObject *wanted)
{
    if (made)
        Py_DecRef(made);
    return made == wanted;
}

bool tw_py_says(PyObject *method, PyObject *t, PyObject *wanted)
{
    return is_constant(tw_py_call(method, t), wanted);
}

bool tw_py_has(PyObject *t, PyObject *attribute, PyObject *wanted)
{
    return is_constant(PyObject_GetAttr(t, attribute), wanted);
}

bool tw_py_equal(PyObject *made, PyObject *wanted)
{
    bool same = made && PyObject_RichCompareBool(made, wanted, EQUAL) == 1;
    if (made)
        Py_DecRef(made);
    return same;
}

bool tw_py_still_readable(PyObject *t, bool is_complex)
{
    return tw_py_has(t, tw_py.is_cpu, tw_py.yes) && tw_py_has(t, tw_py.layout, tw_py.strided) &&
           tw_py_says(tw_py.is_neg, t, tw_py.no) &&
           (!is_complex || tw_py_says(tw_py.is_conj, t, tw_py.no));
}

bool tw_py_readable(PyObject *t)
{
    return tw_py_still_readable(t, true) && tw_py_has(t, tw_py.is_quantized, tw_py.no) &&
           tw_py_has(t, tw_py.is_nested, tw_py.no) &&
           (tw_py.is_wrapped == tw_py.none || tw_py_says(tw_py.is_wrapped, t, tw_py.no));
}

PyObject *tw_py_target(PyObject *reference)
{
    PyObject *object = NULL;
    if (PyWeakref_GetRef) {
        if (PyWeakref_GetRef(reference, &object) < 0)
            PyErr_Clear();
        return object;
    }
    object = PyWeakref_GetObject(reference); /* borrowed */
    if (!object || object == tw_py.none)
        return NULL;
    Py_IncRef(object);
    return object;
}

bool tw_py_refers(PyObject *reference, PyObject *object)
{
    PyObject *target = tw_py_target(reference);
    if (target)
        Py_DecRef(target);
    return target == object;
}

PyObject *tw_py_answer(bool yes)
{
    if (!yes && PyErr_Occurred())
        PyErr_Clear();
    PyObject *answer = yes ? tw_py.yes : tw_py.no;
    Py_IncRef(answer);
    return answer;
}

PyObject *tw_py_none(void)
{
    if (PyErr_Occurred())
        PyErr_Clear();
    Py_IncRef(tw_py.none);
    return tw_py.none;
}

bool tw_py_u64(PyObject *o, uint64_t *out)
{
    *out = o ? PyLong_AsUnsignedLongLong(o) : UINT64_MAX;
    return *out != UINT64_MAX || !PyErr_Occurred();
}

void *tw_py_table(PyObject *capsule, const char *kind)
{
    return PyCapsule_GetPointer(capsule, kind);
}

PyObject *tw_py_capsule(void *table, const char *kind, void (*end)(PyObject *))
{
    PyObject *capsule = table ? PyCapsule_New(table, kind, end) : NULL;
    if (!capsule)
        tw_free(table);
    return capsule ? capsule : tw_py_none();
}

/* ---------------------------------------------------------------- records */

void tw_swift_send(struct tw_agent_item *items, size_t n, uint64_t bytes)
{
    uint64_t began = tw_agent_now_ns();
    void *thread = bytes >= LONG_BYTES ? PyEval_SaveThread() : NULL;
    tw_agent_records(items, n, NULL, 0);
    if (thread)
        PyEval_RestoreThread(thread);
    spent_ns += tw_agent_now_ns() - began;
}

/* bytes(series, address, size): tw_agent_bytes; its link. */
PyObject *tw_swift_bytes(PyObject *self, PyObject *const *args, ssize_t n)
{
    uint64_t series, address, size;
    (void)self;
    if (n != 3 || !tw_py_u64(args[0], &series) || !tw_py_u64(args[1], &address) ||
        !tw_py_u64(args[2], &size))
        return NULL; /* with an error of ours */
    uint64_t began = tw_agent_now_ns();
    const void *data = (const void *)(uintptr_t)address;
    uint64_t link = tw_agent_bytes((uint32_t)series, data, (size_t)size, 0);
    spent_ns += tw_agent_now_ns() - began;
    return PyLong_FromUnsignedLongLong(link);
}

/* ns(): how long records have taken since the last call. */
PyObject *tw_swift_ns(PyObject *self, PyObject *const *args, ssize_t n)
{
    (void)self, (void)args, (void)n;
    uint64_t spent = spent_ns;
    spent_ns = 0;
    return PyLong_FromUnsignedLongLong(spent);
}

/* ---------------------------------------------------------------- arming */

static struct tw_py_method methods[] = {
    /* (buffer, address, bytes, flags, rows, places): see table.c */
    {"new_table", tw_swift_new_table, TW_PY_FASTCALL, NULL},
    {"record", tw_swift_record, TW_PY_FASTCALL, NULL}, /* (table, tensors, flags) -> bool */
    {"again", tw_swift_again, TW_PY_FASTCALL, NULL},   /* (table, flags) */
    {"still", tw_swift_still, TW_PY_FASTCALL, NULL},   /* (table, tensors) -> bool */
    {"new_numbers", tw_swift_new_numbers, TW_PY_FASTCALL, NULL},
    {"numbers", tw_swift_numbers, TW_PY_FASTCALL, NULL}, /* (numbers, groups) -> bool */
    {"bytes", tw_swift_bytes, TW_PY_FASTCALL, NULL},
    {"ns", tw_swift_ns, TW_PY_FASTCALL, NULL},
    {"new_watch", tw_swift_new_watch, TW_PY_FASTCALL, NULL},
    {"check", tw_swift_check, TW_PY_FASTCALL, NULL},       /* (watch) -> bool */
    {"look", tw_swift_look, TW_PY_FASTCALL, NULL},         /* (watch, large, whole) -> bool */
    {"seen", tw_swift_seen, TW_PY_FASTCALL, NULL},         /* (watch) -> what look() found */
    {"new_left", tw_swift_new_left, TW_PY_FASTCALL, NULL}, /* (number) */
    {"left", tw_swift_left, TW_PY_FASTCALL, NULL},         /* (left, parameters, turn) -> bool */
    {"step", tw_swift_step, TW_PY_FASTCALL, NULL}, /* (left, table, parameters, flags) -> bool */
    {"rows_of", tw_swift_rows_of, TW_PY_FASTCALL, NULL}, /* (left) -> what left() found */
    {"new_moments", tw_swift_new_moments, TW_PY_FASTCALL, NULL},
    {"moments", tw_swift_moments, TW_PY_FASTCALL, NULL},   /* (moments, state) -> list or None */
    {"new_list", tw_swift_new_list, TW_PY_FASTCALL, NULL}, /* (ids) */
    {"list", tw_swift_list, TW_PY_FASTCALL, NULL}, /* (list, groups) -> parameters or None */
    {"new_memory", tw_swift_new_memory, TW_PY_FASTCALL, NULL}, /* ([(address, bytes)]) */
    {"same", tw_swift_same, TW_PY_FASTCALL, NULL}, /* (memory) -> whether it holds the same */
    {"take", tw_swift_take, TW_PY_FASTCALL, NULL}, /* (memory): what it holds now is known */
};

/* All that this room calls. The functions of bootstrap.c are looked at there. */
static bool have_api(void)
{
    return PyCFunction_NewEx && PyCapsule_New && PyCapsule_GetPointer &&
           (PyObject_Vectorcall || PyObject_CallFunctionObjArgs) && PyObject_GetAttr &&
           PyObject_RichCompareBool && PyLong_AsUnsignedLongLong && PyLong_AsLongLong &&
           PyLong_FromUnsignedLongLong && PyFloat_AsDouble && PyTuple_GetItem && PyTuple_New &&
           PyTuple_SetItem && PyTuple_Size && PyList_New && PyList_Size && PyList_GetItem &&
           PyList_SetItem && PyDict_New && PyDict_SetItemString && PyDict_Size &&
           PyDict_GetItemWithError && PyDict_Next && PyType_GetFlags && PyEval_SaveThread &&
           PyEval_RestoreThread && (PyWeakref_GetRef || PyWeakref_GetObject) && PyErr_Occurred &&
           PyErr_Clear && Py_IncRef && Py_DecRef;
}

PyObject *tw_agent_swift(PyObject *given)
{
    if (!have_api() || !given || PyTuple_Size(given) != (ssize_t)GIVEN)
        return NULL;
    PyObject *taken[GIVEN];
    for (size_t i = 0; i < GIVEN; i++) {
        taken[i] = PyTuple_GetItem(given, (ssize_t)i);
        Py_IncRef(taken[i]);
    }
    memcpy(&tw_py, taken, sizeof tw_py);
    PyObject *functions = PyDict_New();
    for (size_t i = 0; functions && i < sizeof methods / sizeof *methods; i++) {
        PyObject *function = PyCFunction_NewEx(&methods[i], NULL, NULL);
        if (function) {
            PyDict_SetItemString(functions, methods[i].name, function);
            Py_DecRef(function);
        }
    }
    return functions;
}
