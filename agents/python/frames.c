/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows Python the calls of the job's own functions, from CPython 3.12 on: what a function is
 * given, and what its variables hold when it ends. Here are the callbacks of `sys.monitoring`.
 *
 * They are in C for three reasons. A callback in Python needs a level of Python's stack, so that a
 * recursion of the job would fail earlier than without us. It cannot read variables without
 * touching what the job's `locals()` has given it (in 3.12). And most calls need no look at all:
 * they are only counted.
 *
 * Which calls are looked at is decided by numbers alone, so that two runs choose the same ones.
 */
#include "frames.h"
#include "src/base/base.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#define PY_VARARGS 0x04
#define PY_VARKEYWORDS 0x08
#define PY_RESUMES (0x20 | 0x80 | 0x200) /* generators, coroutines, asynchronous generators */
#define ALL_CALLS 1024                   /* of a function are looked at: the first ones */
#define SPARSE_BITS 4                    /* then 2^4 of each doubling of their number */
#define MOST_CALLS (1 << 14)             /* then a function is not watched any longer */
#define MOST_OPEN 64                     /* calls of one function in each other */
#define MOST_DEPTH 128                   /* of Python's stack: far from where it ends */
#define LEAST_LIMIT 500                  /* of recursion, in which that depth is far from the end */

/* A call that runs and is looked at. */
struct open_call {
    PyObject *frame; /* borrowed: the call that runs holds it */
    PyObject *token; /* Python's name for the call */
};

/* What is kept of a code. */
struct known {
    PyObject *entry;   /* Python's name for it; NULL: it is none of the job's functions */
    PyObject *names;   /* of its variables */
    ssize_t arguments; /* how many of them, from the first on */
    ssize_t rest;      /* the one that holds a tuple of arguments; -1: none */
    long long flags;
    uint64_t count[TW_FRAMES_COUNTS];
    int open_count;
    struct open_call open[MOST_OPEN];
};

static struct tw_frames_given py;
static ssize_t slot = -1;
static pthread_t main_thread;
/* The call of a signal's handler that runs. Where it came hangs on the clock: what is called in it
 * is counted apart, and not looked at. */
static PyObject *handler; /* its frame, borrowed */

static void forget(void *extra)
{
    struct known *k = extra;
    if (k && k->entry)
        Py_DecRef(k->entry);
    if (k && k->names)
        Py_DecRef(k->names);
    tw_free(k);
}

static PyObject *give(PyObject *o)
{
    Py_IncRef(o);
    return o;
}

static struct known *known_of(PyObject *code)
{
    void *extra = NULL;
    if (PyUnstable_Code_GetExtra(code, slot, &extra) != 0)
        PyErr_Clear();
    return extra;
}

static bool number_of(PyObject *o, const char *name, long long *to)
{
    PyObject *found = PyObject_GetAttrString(o, name);
    if (!found)
        return false;
    *to = PyLong_AsLongLong(found);
    Py_DecRef(found);
    return true;
}

/* The code is met for the first time. NULL: no memory, or an exception of the job's is set. */
static struct known *learn(PyObject *code)
{
    PyObject *entry = PyObject_CallFunctionObjArgs(py.learn, code, NULL);
    if (!entry)
        return NULL;
    struct known *k = tw_calloc(1, sizeof *k);
    long long arguments = 0;
    if (k && entry != py.nothing) {
        if (number_of(code, "co_flags", &k->flags) && number_of(entry, "arguments", &arguments))
            k->names = PyObject_GetAttrString(entry, "names");
        k->arguments = (ssize_t)arguments;
        k->rest = -1;
        if (k->flags & PY_VARARGS) /* behind it is only the one for keywords */
            k->rest = k->arguments - 1 - ((k->flags & PY_VARKEYWORDS) != 0);
        if (k->names)
            k->entry = give(entry);
        PyErr_Clear();
    }
    Py_DecRef(entry);
    if (k && PyUnstable_Code_SetExtra(code, slot, k) != 0) {
        PyErr_Clear();
        forget(k);
        k = NULL;
    }
    return k;
}

bool tw_agent_frames_due(uint64_t call)
{
    if (call <= ALL_CALLS)
        return true;
    unsigned bits = 63 - (unsigned)__builtin_clzll(call);
    return (call & (((uint64_t)1 << (bits - SPARSE_BITS)) - 1)) == 0;
}

/* Is Python's stack so deep, or may it be only so deep, that our own calls could end it? */
static bool is_deep(PyObject *frame)
{
    int depth = 0;
    if (Py_GetRecursionLimit() < LEAST_LIMIT)
        return true;
    for (PyObject *f = give(frame); f; depth++) {
        PyObject *back = depth < MOST_DEPTH ? PyFrame_GetBack(f) : NULL;
        Py_DecRef(f);
        f = back;
    }
    return depth > MOST_DEPTH;
}

/* The values of a frame's variables, in the order of their names; `nothing` for one that is not
 * set. Not by `f_locals`: it would change what the job has got from its own `locals()`. */
static PyObject *variables_of(const struct known *k, PyObject *frame)
{
    const ssize_t count = PyTuple_Size(k->names);
    PyObject *found = PyTuple_New(count);
    for (ssize_t i = 0; found && i < count; i++) {
        PyObject *value = PyFrame_GetVar(frame, PyTuple_GetItem(k->names, i));
        if (!value) {
            PyErr_Clear();
            value = give(py.nothing);
        }
        PyTuple_SetItem(found, i, value);
    }
    return found;
}

static bool is_frame(PyObject *o)
{
    PyObject *type = PyObject_Type(o);
    Py_DecRef(type);
    return type == py.frame_type;
}

/* Is a call given a frame, as a signal's handler is? */
static bool is_given_a_frame(const struct known *k, PyObject *frame)
{
    bool found = false;
    for (ssize_t i = 0; !found && i < k->arguments; i++) {
        PyObject *value = PyFrame_GetVar(frame, PyTuple_GetItem(k->names, i));
        if (!value) {
            PyErr_Clear();
            continue;
        }
        found = is_frame(value);
        for (ssize_t n = i == k->rest ? PyTuple_Size(value) : 0; !found && n > 0; n--)
            found = is_frame(PyTuple_GetItem(value, n - 1));
        Py_DecRef(value);
    }
    return found;
}

/* A call of the job begins: whether it is a handler's, or within one. */
static bool begins_apart(struct known *k)
{
    if (handler) {
        k->count[TW_FRAMES_APART]++;
        return true;
    }
    PyObject *frame = k->arguments > 0 ? PyEval_GetFrame() : NULL;
    if (!frame || !is_given_a_frame(k, frame))
        return false;
    handler = frame;
    k->count[TW_FRAMES_HANDLER]++;
    return true;
}

/* The same at the end of a call. */
static bool ends_apart(struct known *k)
{
    if (!handler)
        return false;
    if (PyEval_GetFrame() == handler)
        handler = NULL;
    else if (k->flags & PY_RESUMES) /* other calls were counted where they began */
        k->count[TW_FRAMES_APART]++;
    return true;
}

/* Whether this call is one to look at, and where it runs. NULL: it is not. */
static PyObject *frame_to_look_at(struct known *k, bool whatever_open)
{
    if (!tw_agent_frames_due(k->count[TW_FRAMES_CALLS]))
        return NULL;
    PyObject *frame = PyEval_GetFrame();
    if (!frame || (!whatever_open && k->open_count == MOST_OPEN) || is_deep(frame)) {
        k->count[TW_FRAMES_DEEP]++;
        return NULL;
    }
    return frame;
}

/* False: there were so many that the function is not watched any longer. */
static bool count_call(struct known *k)
{
    if (k->count[TW_FRAMES_CALLS] == MOST_CALLS)
        k->count[TW_FRAMES_FULL] = 1;
    else
        k->count[TW_FRAMES_CALLS]++;
    return !k->count[TW_FRAMES_FULL];
}

/* That we had no memory is not the job's error. The function is not watched any longer, as if there
 * had been too many calls: that is told. */
static PyObject *no_memory(struct known *k)
{
    PyErr_Clear();
    k->count[TW_FRAMES_FULL] = 1;
    return give(py.none);
}

static PyObject *started(PyObject *self, PyObject *const *args, ssize_t n)
{
    (void)self, (void)n;
    struct known *k = known_of(args[0]);
    if (!k)
        k = learn(args[0]);
    if (!k && PyErr_Occurred())
        return NULL;
    if (!k || !k->entry)
        return give(py.disable);
    if (!pthread_equal(pthread_self(), main_thread)) {
        k->count[TW_FRAMES_ELSEWHERE]++; /* in an order of its own: it is only counted */
        return give(py.none);
    }
    if (k->flags & PY_RESUMES) /* is counted and looked at where it yields and returns */
        return give(py.none);
    if (!k->count[TW_FRAMES_FULL] && begins_apart(k))
        return give(py.none);
    if (!count_call(k))
        return give(py.disable);
    PyObject *frame = frame_to_look_at(k, false);
    if (!frame)
        return give(py.none);
    PyObject *number = PyLong_FromUnsignedLongLong(k->count[TW_FRAMES_CALLS]);
    PyObject *variables = number ? variables_of(k, frame) : NULL, *token = NULL;
    const bool enough = number && variables;
    if (enough)
        token = PyObject_CallFunctionObjArgs(py.begins, k->entry, number, variables, NULL);
    if (number)
        Py_DecRef(number);
    if (variables)
        Py_DecRef(variables);
    if (!enough)
        return no_memory(k);
    if (!token) /* the exception of a signal handler of the job's goes on to the job */
        return NULL;
    if (token == py.nothing) {
        Py_DecRef(token);
        return give(py.none);
    }
    k->open[k->open_count++] = (struct open_call){frame, token};
    return give(py.none);
}

/* Takes the token of the call that ends; NULL when it was not looked at. */
static PyObject *close_call(struct known *k)
{
    if (k->open_count == 0)
        return NULL;
    PyObject *frame = PyEval_GetFrame();
    for (int i = k->open_count - 1; i >= 0; i--) {
        if (k->open[i].frame != frame)
            continue;
        PyObject *token = k->open[i].token;
        k->open_count--;
        memmove(&k->open[i], &k->open[i + 1], (size_t)(k->open_count - i) * sizeof k->open[0]);
        return token;
    }
    return NULL;
}

/* Calls ends(). error: or NULL. */
static PyObject *look_at_end(struct known *k, PyObject *token, PyObject *frame, PyObject *result,
                             PyObject *error)
{
    PyObject *variables = variables_of(k, frame);
    if (!variables)
        return no_memory(k);
    PyObject *done = PyObject_CallFunctionObjArgs(py.ends, k->entry, token, variables, result,
                                                  error ? error : py.none, NULL);
    Py_DecRef(variables);
    return done;
}

/* A generator has given a value, or come to its end. */
static PyObject *resumed(struct known *k, PyObject *result, PyObject *error)
{
    if (!count_call(k))
        return give(error ? py.none : py.disable);
    PyObject *frame = frame_to_look_at(k, true);
    return frame ? look_at_end(k, py.nothing, frame, result, error) : give(py.none);
}

/* A function has ended, or a generator has given a value. error: or NULL. */
static PyObject *ended(PyObject *code, PyObject *result, PyObject *error)
{
    struct known *k = known_of(code);
    if (!k || !k->entry) /* PY_UNWIND cannot be disabled */
        return give(error ? py.none : py.disable);
    if (!pthread_equal(pthread_self(), main_thread))
        return give(py.none);
    if (ends_apart(k))
        return give(py.none);
    if (k->flags & PY_RESUMES)
        return resumed(k, result, error);
    PyObject *token = close_call(k);
    if (!token) {
        const bool over = k->count[TW_FRAMES_FULL] && k->open_count == 0 && !error;
        return give(over ? py.disable : py.none);
    }
    PyObject *done = look_at_end(k, token, PyEval_GetFrame(), result, error);
    Py_DecRef(token);
    return done;
}

static PyObject *returned(PyObject *self, PyObject *const *args, ssize_t n)
{
    (void)self, (void)n;
    return ended(args[0], args[2], NULL);
}

static PyObject *unwound(PyObject *self, PyObject *const *args, ssize_t n)
{
    (void)self, (void)n;
    const struct known *k = known_of(args[0]);
    /* a generator that nobody wants ends when it is freed, whenever that may be */
    if (k && k->flags & PY_RESUMES && PyErr_GivenExceptionMatches(args[2], PyExc_GeneratorExit))
        return give(py.none);
    return ended(args[0], py.nothing, args[2]);
}

/* The job takes a place among the tools: where it is ours, it must get it as it would without us.
 * What we do for that is shown to no tool, as nothing is that a callback does. */
static PyObject *use_tool_id(PyObject *self, PyObject *const *args, ssize_t n)
{
    (void)self;
    if (n > 0) {
        void *thread = PyThreadState_Get();
        PyThreadState_EnterTracing(thread);
        PyObject *gone = PyObject_CallFunctionObjArgs(py.gives_way, args[0], NULL);
        PyThreadState_LeaveTracing(thread);
        if (!gone) /* the exception of a signal handler of the job's */
            return NULL;
        Py_DecRef(gone);
    }
    return PyObject_Vectorcall(py.use_tool_id, args, (size_t)n, NULL);
}

/* ---------------------------------------------------------------- what Python calls */

static PyObject *callable(struct tw_py_method *method)
{
    return PyCFunction_NewEx(method, NULL, NULL);
}

PyObject *tw_agent_frames_start(PyObject *given)
{
    static struct tw_py_method methods[TW_FRAMES_CALLABLES] = {
        {"started", started, TW_PY_FASTCALL, NULL},
        {"returned", returned, TW_PY_FASTCALL, NULL},
        {"yielded", returned, TW_PY_FASTCALL, NULL},
        {"unwound", unwound, TW_PY_FASTCALL, NULL},
        {"use_tool_id", use_tool_id, TW_PY_FASTCALL, NULL},
    };
    const bool have = PyUnstable_Eval_RequestCodeExtraIndex && PyUnstable_Code_GetExtra &&
                      PyUnstable_Code_SetExtra && PyFrame_GetVar && PyFrame_GetBack &&
                      PyEval_GetFrame && PyObject_GetAttrString && PyObject_Type &&
                      PyObject_Vectorcall && PyThreadState_Get && PyThreadState_EnterTracing &&
                      PyThreadState_LeaveTracing && Py_GetRecursionLimit && &PyExc_GeneratorExit;
    const size_t count = sizeof py / sizeof(PyObject *);
    if (!have || PyTuple_Size(given) != (ssize_t)count)
        return PyTuple_New(0);
    if (slot < 0)
        slot = PyUnstable_Eval_RequestCodeExtraIndex(forget);
    if (slot < 0)
        return PyTuple_New(0);
    PyObject *taken[sizeof py / sizeof(PyObject *)];
    for (size_t i = 0; i < count; i++)
        taken[i] = give(PyTuple_GetItem(given, (ssize_t)i));
    memcpy(&py, taken, sizeof py);
    main_thread = pthread_self();
    PyObject *made = PyTuple_New(TW_FRAMES_CALLABLES);
    for (ssize_t i = 0; made && i < TW_FRAMES_CALLABLES; i++)
        PyTuple_SetItem(made, i, callable(&methods[i]));
    return made;
}

uint64_t tw_agent_frames_count(PyObject *code, int which)
{
    if (slot < 0 || which < 0 || which >= TW_FRAMES_COUNTS)
        return 0;
    const struct known *k = known_of(code);
    if (!k || !k->entry) /* there was no memory to count it */
        return which == TW_FRAMES_FULL;
    return k->count[which];
}
