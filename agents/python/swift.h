/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_AGENT_PYTHON_SWIFT_H
#define TW_AGENT_PYTHON_SWIFT_H
/*
 * The swift path: what the Python half does in every step for each tensor, in one call for all.
 *
 * Python decides what is recorded, under which names, and keeps doing so wherever anything is not
 * as it was. It then hands over what it found as a table (tensors, places in memory, items of
 * agent.h). In the next step one call here looks whether everything still is what the table says,
 * and only then records. When one thing is not, the call records nothing and says no, and Python
 * goes its own way, which is the reference: both write the same records
 * (tests/agents/test_swift.py).
 *
 * Nothing here asks code of the job: tensors are asked by torch's own methods, and only those of
 * the exact types torch.Tensor and torch.nn.Parameter; containers are exact ones, too. An exception
 * on the way means no. All calls hold the interpreter lock, but for records that take long.
 *
 * The layout of an object's head is that of CPython with its lock: Python checks that before it
 * arms us (_agent/swift.py).
 */
#include "agents/common/agent.h"
#include "api.h"

/* What Python gives when it arms us, in this order. Each is ours for the life of the process. */
struct tw_swift_given {
    /* types and constants */
    PyObject *none, *yes, *no, *tensor, *parameter, *dict, *list, *tuple, *real, *whole, *strided;
    PyObject *reference; /* the class of our weak references */
    /* methods of a tensor; the last one may be None */
    PyObject *data_ptr, *is_contiguous, *stride, *numel, *element_size, *is_neg, *is_conj,
        *is_wrapped;
    /* names of attributes, and of a key */
    PyObject *shape, *dtype, *layout, *version, *grad, *is_cpu, *is_nested, *is_quantized, *params;
};
extern struct tw_swift_given tw_py;

static inline PyObject *tw_py_type(PyObject *o)
{
    return ((PyObject *const *)o)[1];
}

/* A tensor of a type that runs no code of the job when asked. */
static inline bool tw_py_plain(PyObject *t)
{
    PyObject *type = tw_py_type(t);
    return type == tw_py.tensor || type == tw_py.parameter;
}

/* Of plain tensors. false: it cannot be told; the error, if there is one, is still set. */
bool tw_py_number(PyObject *method, PyObject *t, uint64_t *out);
bool tw_py_version(PyObject *t, uint64_t *out);
bool tw_py_says(PyObject *method, PyObject *t, PyObject *wanted);
bool tw_py_has(PyObject *t, PyObject *attribute, PyObject *wanted);
bool tw_py_equal(PyObject *made, PyObject *wanted); /* takes `made`, which may be NULL */
PyObject *tw_py_call(PyObject *method, PyObject *t);
/* Strided memory of this process, to be read as it is. */
bool tw_py_readable(PyObject *t);
/* The same for a tensor that has the type of elements and the shape of a readable one, and an
 * address: that rules out quantized and nested ones, and stand-ins of a transform. */
bool tw_py_still_readable(PyObject *t, bool is_complex);

/* What a weak reference refers to, a new reference; NULL when that is gone. */
PyObject *tw_py_target(PyObject *reference);
/* Whether a weak reference refers to this very object. */
bool tw_py_refers(PyObject *reference, PyObject *object);

/* The answers of all functions. Clears an error: whoever hears no asks again in Python. */
PyObject *tw_py_answer(bool yes);
PyObject *tw_py_none(void);

/* Arguments as Python gives them. false, or NULL, with an error set. */
bool tw_py_u64(PyObject *o, uint64_t *out);
void *tw_py_table(PyObject *capsule, const char *kind);
PyObject *tw_py_capsule(void *table, const char *kind, void (*end)(PyObject *));

/* Records n items of so many bytes, without the interpreter lock where that takes long. */
void tw_swift_send(struct tw_agent_item *items, size_t n, uint64_t bytes);

/* A table of items and what their tensors must look like (table.c). */
struct tw_swift_table;
extern const char tw_swift_table_kind[];
size_t tw_swift_rows(const struct tw_swift_table *table);
/* Whether tensor t, which lies at `at`, is what row i says; its item follows it where it lies
 * elsewhere now. */
bool tw_swift_row(struct tw_swift_table *table, size_t i, PyObject *t, uint64_t at);
/* The place, among all parameters, of the tensor of row i. */
size_t tw_swift_place(const struct tw_swift_table *table, size_t i);
void tw_swift_send_all(struct tw_swift_table *table, uint32_t flags);

/* Takes what struct tw_swift_given lists, as a tuple, and gives a dictionary of functions; NULL,
 * and no error, where there is no swift path. Called by ctypes with the interpreter lock held. */
__attribute__((visibility("default"))) PyObject *tw_agent_swift(PyObject *given);

/* What Python calls; arguments in swift.c. */
tw_py_function tw_swift_new_table, tw_swift_record, tw_swift_again, tw_swift_still;
tw_py_function tw_swift_new_numbers, tw_swift_numbers, tw_swift_bytes, tw_swift_ns;
tw_py_function tw_swift_new_watch, tw_swift_check, tw_swift_look, tw_swift_seen;
tw_py_function tw_swift_new_left, tw_swift_left, tw_swift_step, tw_swift_rows_of;
tw_py_function tw_swift_new_moments, tw_swift_moments;
tw_py_function tw_swift_new_list, tw_swift_list;
tw_py_function tw_swift_new_memory, tw_swift_same, tw_swift_take;
#endif
