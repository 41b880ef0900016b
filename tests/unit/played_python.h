/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TESTS_PLAYED_PYTHON_H
#define TW_TESTS_PLAYED_PYTHON_H
/*
 * A Python that is played, for test_frames.c: what agents/python/frames.c calls of CPython. Its
 * objects are counted as CPython counts them, and freed when nobody has them, so that the address
 * sanitizer sees what is read too late, and each test sees what is never given back. Every new
 * object can be refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "agents/python/api.h"

enum kind { SIMPLE, TUPLE, FUNCTION, METHOD, CODE, ENTRY, FRAME, NUMBER };

struct _object {
    enum kind kind;
    long long references;
    long long number;     /* of a NUMBER; a CODE's flags; an ENTRY's arguments */
    PyObject *item[9];    /* of a TUPLE; an ENTRY's names; a FRAME's variables */
    ssize_t count;        /* of items */
    struct _object *back; /* a FRAME's caller, held as CPython does */
    void *extra;          /* a CODE's */
    tw_py_function *method;
    PyObject *(*function)(PyObject **given, size_t n);
};

static long long alive;
static int refuse_at = -1; /* the how manieth new object is refused */
static bool error_is_set;
static PyObject *running; /* the frame that runs */
static int recursion_limit = 1000, tracing;
static void (*end_of_extra)(void *);

static struct _object generator_exit = {.references = 1};
PyObject *PyExc_GeneratorExit = &generator_exit;

static PyObject *made(enum kind kind)
{
    if (refuse_at >= 0 && refuse_at-- == 0) {
        error_is_set = true;
        return NULL;
    }
    PyObject *o = calloc(1, sizeof *o);
    assert_non_null(o);
    o->kind = kind;
    o->references = 1;
    alive++;
    return o;
}

void Py_IncRef(PyObject *o)
{
    o->references++;
}

void Py_DecRef(PyObject *o)
{
    assert_true(o->references > 0);
    if (--o->references > 0)
        return;
    for (ssize_t i = 0; i < o->count; i++)
        if (o->item[i])
            Py_DecRef(o->item[i]);
    if (o->kind == CODE && o->extra)
        end_of_extra(o->extra);
    if (o->back)
        Py_DecRef(o->back);
    alive--;
    free(o);
}

PyObject *PyTuple_New(ssize_t n)
{
    PyObject *o = made(TUPLE);
    assert_true(n <= 9);
    if (o)
        o->count = n;
    return o;
}

int PyTuple_SetItem(PyObject *t, ssize_t i, PyObject *o)
{
    assert_true(t->kind == TUPLE && i < t->count && !t->item[i]);
    t->item[i] = o;
    return 0;
}

PyObject *PyTuple_GetItem(PyObject *t, ssize_t i)
{
    return t->item[i];
}

ssize_t PyTuple_Size(PyObject *t)
{
    return t->count;
}

PyObject *PyLong_FromUnsignedLongLong(unsigned long long n)
{
    PyObject *o = made(NUMBER);
    if (o)
        o->number = (long long)n;
    return o;
}

long long PyLong_AsLongLong(PyObject *o)
{
    return o->number;
}

PyObject *PyErr_Occurred(void)
{
    return error_is_set ? &generator_exit : NULL;
}

void PyErr_Clear(void)
{
    error_is_set = false;
}

int PyErr_GivenExceptionMatches(PyObject *error, PyObject *type)
{
    return error == type;
}

PyObject *PyObject_CallFunctionObjArgs(PyObject *callable, ...)
{
    PyObject *given[8];
    size_t n = 0;
    va_list args;
    assert_false(error_is_set); /* Python calls nothing with an error set */
    va_start(args, callable);
    for (PyObject *o = va_arg(args, PyObject *); o; o = va_arg(args, PyObject *))
        given[n++] = o;
    va_end(args);
    return callable->function(given, n);
}

static PyObject types[NUMBER + 1]; /* of each kind */

PyObject *PyObject_Type(PyObject *o)
{
    types[o->kind].references = 2; /* nobody frees it */
    return &types[o->kind];
}

PyObject *PyObject_Vectorcall(PyObject *callable, PyObject *const *args, size_t n, PyObject *names)
{
    PyObject *given[8];
    assert_true(!names && n <= 8);
    memcpy(given, args, n * sizeof *given);
    return callable->function(given, n);
}

PyObject *PyObject_GetAttrString(PyObject *o, const char *name)
{
    if (strcmp(name, "names") != 0) {
        PyObject *number = made(NUMBER);
        assert_string_equal(name, o->kind == CODE ? "co_flags" : "arguments");
        if (number)
            number->number = o->number;
        return number;
    }
    if (!o->item[0]) {
        error_is_set = true;
        return NULL;
    }
    Py_IncRef(o->item[0]);
    return o->item[0];
}

PyObject *PyCFunction_NewEx(struct tw_py_method *method, PyObject *self, PyObject *module)
{
    PyObject *o = made(METHOD);
    assert_true(!self && !module && method->flags == TW_PY_FASTCALL);
    if (o)
        o->method = method->function;
    return o;
}

ssize_t PyUnstable_Eval_RequestCodeExtraIndex(void (*end)(void *))
{
    end_of_extra = end;
    return 3;
}

int PyUnstable_Code_GetExtra(PyObject *code, ssize_t index, void **extra)
{
    assert_int_equal(index, 3);
    *extra = code->extra;
    return 0;
}

int PyUnstable_Code_SetExtra(PyObject *code, ssize_t index, void *extra)
{
    assert_int_equal(index, 3);
    if (refuse_at >= 0 && refuse_at-- == 0) {
        error_is_set = true;
        return -1;
    }
    code->extra = extra;
    return 0;
}

PyObject *PyFrame_GetVar(PyObject *frame, PyObject *name)
{
    PyObject *value = frame->item[name->number];
    if (!value) {
        error_is_set = true;
        return NULL;
    }
    Py_IncRef(value);
    return value;
}

PyObject *PyFrame_GetBack(PyObject *frame)
{
    if (frame->back)
        Py_IncRef(frame->back);
    return frame->back;
}

PyObject *PyEval_GetFrame(void)
{
    return running;
}

int Py_GetRecursionLimit(void)
{
    return recursion_limit;
}
void *PyThreadState_Get(void)
{
    return &running;
}

void PyThreadState_EnterTracing(void *state)
{
    assert_ptr_equal(state, &running);
    tracing++;
}

void PyThreadState_LeaveTracing(void *state)
{
    assert_ptr_equal(state, &running);
    tracing--;
}

#endif
