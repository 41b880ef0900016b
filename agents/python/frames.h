/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_AGENT_PYTHON_FRAMES_H
#define TW_AGENT_PYTHON_FRAMES_H
/* Calls of the job's own functions, for frames.py, which calls all this with Python's lock. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "api.h"

#define TW_FRAMES_API __attribute__((visibility("default")))

/* What Python gives at the start, as a tuple in this order. */
struct tw_frames_given {
    PyObject *learn;   /* (code) -> entry, with entry.names and entry.arguments; or nothing */
    PyObject *begins;  /* (entry, number, variables) -> token or nothing */
    PyObject *ends;    /* (entry, token or nothing, variables, result or nothing, error or None) */
    PyObject *nothing; /* stands for a variable that is not set, and the result of an exception */
    PyObject *disable; /* sys.monitoring.DISABLE */
    PyObject *none;
    PyObject *gives_way;   /* (tool id): the job is about to take it */
    PyObject *use_tool_id; /* of sys.monitoring */
    PyObject *frame_type;
};

/* The callables that we make, in this order: callbacks of four events, and what stands for
 * sys.monitoring's use_tool_id while we have a tool's place. */
enum {
    TW_FRAMES_STARTED,
    TW_FRAMES_RETURNED,
    TW_FRAMES_YIELDED,
    TW_FRAMES_UNWOUND,
    TW_FRAMES_USE_TOOL,
    TW_FRAMES_CALLABLES
};

/* What is counted of a function. */
enum tw_frames_count {
    TW_FRAMES_CALLS,     /* on the main thread, and values that a generator gave */
    TW_FRAMES_ELSEWHERE, /* calls on other threads */
    TW_FRAMES_DEEP,      /* calls that were due for a look, but too deep in others */
    TW_FRAMES_FULL,      /* 1: there were more calls than are counted, or no memory for one */
    TW_FRAMES_HANDLER,   /* calls that were given a frame, as a signal's handler is */
    TW_FRAMES_APART,     /* calls within one of those, of whatever function */
    TW_FRAMES_COUNTS,
};

/* The callables; an empty tuple where this Python has not what they need. New reference. */
TW_FRAMES_API PyObject *tw_agent_frames_start(PyObject *given);
/* code: of a function that learn() has given an entry */
TW_FRAMES_API uint64_t tw_agent_frames_count(PyObject *code, int which);
/* Is a function's n-th call (from 1) one that is looked at? */
bool tw_agent_frames_due(uint64_t call);
#endif
