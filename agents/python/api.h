/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_AGENT_PYTHON_API_H
#define TW_AGENT_PYTHON_API_H
/*
 * What we use of CPython's C API: functions of its limited API, unchanged from 3.8 to 3.14,
 * declared by hand. Our library is made without Python's headers, and one binary serves all
 * versions. The symbols are weak: absent in processes without a Python.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct _object PyObject;
#define TW_WEAK extern __attribute__((weak, visibility("default")))

TW_WEAK int PySys_AddAuditHook(int (*hook)(const char *, PyObject *, void *), void *user);
TW_WEAK int Py_IsInitialized(void);
TW_WEAK PyObject *Py_CompileString(const char *text, const char *filename, int start);
TW_WEAK PyObject *PyImport_ExecCodeModuleEx(const char *name, PyObject *code, const char *path);
TW_WEAK PyObject *PyImport_GetModule(PyObject *name);
TW_WEAK PyObject *PyObject_CallMethod(PyObject *o, const char *name, const char *format, ...);
TW_WEAK int PyObject_IsTrue(PyObject *o);
TW_WEAK PyObject *PyTuple_GetItem(PyObject *t, ssize_t i);
TW_WEAK PyObject *PyUnicode_FromString(const char *s);
TW_WEAK PyObject *PyObject_Str(PyObject *o);
TW_WEAK const char *PyUnicode_AsUTF8(PyObject *s);
TW_WEAK PyObject *PyErr_Occurred(void);
TW_WEAK int PyErr_GivenExceptionMatches(PyObject *error, PyObject *type);
TW_WEAK void PyErr_Fetch(PyObject **type, PyObject **value, PyObject **trace);
TW_WEAK void PyErr_Restore(PyObject *type, PyObject *value, PyObject *trace);
TW_WEAK void PyErr_Clear(void);
TW_WEAK void PyErr_SetInterrupt(void);
TW_WEAK void Py_IncRef(PyObject *o);
TW_WEAK void Py_DecRef(PyObject *o);
extern PyObject *PyExc_KeyboardInterrupt __attribute__((weak, visibility("default")));

/* For the swift path (swift.c). */
typedef PyObject *tw_py_function(PyObject *self, PyObject *const *args, ssize_t n);
struct tw_py_method { /* PyMethodDef */
    const char *name;
    tw_py_function *function;
    int flags;
    const char *doc;
};
#define TW_PY_FASTCALL 0x0080
TW_WEAK PyObject *PyCFunction_NewEx(struct tw_py_method *method, PyObject *self, PyObject *module);
TW_WEAK PyObject *PyCapsule_New(void *pointer, const char *name, void (*end)(PyObject *));
TW_WEAK void *PyCapsule_GetPointer(PyObject *capsule, const char *name);
TW_WEAK PyObject *PyObject_CallFunctionObjArgs(PyObject *callable, ...);
/* exported since 3.9 */
TW_WEAK PyObject *PyObject_Vectorcall(PyObject *callable, PyObject *const *args, size_t n,
                                      PyObject *names);
TW_WEAK PyObject *PyObject_GetAttr(PyObject *o, PyObject *name);
TW_WEAK int PyObject_RichCompareBool(PyObject *a, PyObject *b, int operation);
TW_WEAK unsigned long long PyLong_AsUnsignedLongLong(PyObject *o);
TW_WEAK long long PyLong_AsLongLong(PyObject *o);
TW_WEAK PyObject *PyLong_FromUnsignedLongLong(unsigned long long n);
TW_WEAK double PyFloat_AsDouble(PyObject *o);
TW_WEAK PyObject *PyTuple_New(ssize_t n);
TW_WEAK int PyTuple_SetItem(PyObject *t, ssize_t i, PyObject *o);
TW_WEAK ssize_t PyTuple_Size(PyObject *t);
TW_WEAK PyObject *PyList_New(ssize_t n);
TW_WEAK ssize_t PyList_Size(PyObject *list);
TW_WEAK PyObject *PyList_GetItem(PyObject *list, ssize_t i);
TW_WEAK int PyList_SetItem(PyObject *list, ssize_t i, PyObject *o);
TW_WEAK PyObject *PyDict_New(void);
TW_WEAK int PyDict_SetItemString(PyObject *dict, const char *key, PyObject *o);
TW_WEAK ssize_t PyDict_Size(PyObject *dict);
TW_WEAK PyObject *PyDict_GetItemWithError(PyObject *dict, PyObject *key);
TW_WEAK int PyDict_Next(PyObject *dict, ssize_t *at, PyObject **key, PyObject **value);
TW_WEAK unsigned long PyType_GetFlags(void *type);
TW_WEAK void *PyEval_SaveThread(void);
TW_WEAK void PyEval_RestoreThread(void *state);
/* one of the two: until 3.14, and since 3.13 */
TW_WEAK PyObject *PyWeakref_GetObject(PyObject *reference);
TW_WEAK int PyWeakref_GetRef(PyObject *reference, PyObject **object);

/* For calls of the job's functions (frames.c), since 3.12. */
TW_WEAK ssize_t PyUnstable_Eval_RequestCodeExtraIndex(void (*end)(void *));
TW_WEAK int PyUnstable_Code_GetExtra(PyObject *code, ssize_t index, void **extra);
TW_WEAK int PyUnstable_Code_SetExtra(PyObject *code, ssize_t index, void *extra);
TW_WEAK PyObject *PyFrame_GetVar(PyObject *frame, PyObject *name);
TW_WEAK PyObject *PyFrame_GetBack(PyObject *frame);
TW_WEAK PyObject *PyEval_GetFrame(void);
TW_WEAK PyObject *PyObject_Type(PyObject *o);
TW_WEAK PyObject *PyObject_GetAttrString(PyObject *o, const char *name);
TW_WEAK int Py_GetRecursionLimit(void);
TW_WEAK void *PyThreadState_Get(void);
TW_WEAK void PyThreadState_EnterTracing(void *state);
TW_WEAK void PyThreadState_LeaveTracing(void *state);
extern PyObject *PyExc_GeneratorExit __attribute__((weak, visibility("default")));
#endif
