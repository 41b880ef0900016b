/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_STUDY_OPS_H
#define TW_STUDY_OPS_H
/*
 * Measures the operations of a catalogue: on which devices and with how many threads, by the Python
 * half of twinrun ops (python/twinrun/_ops). src/report/study/ops_report.c judges the rows.
 */
#include "front.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TW_OPS_DEVICES = 2, TW_OPS_THREADS_MAX = 16 };

/* What a person asked for. Everything is borrowed; NULL: as it is usual here. */
struct tw_ops_asked {
    const char *python;  /* the interpreter */
    const char *device;  /* "cpu" or "cuda" */
    const char *threads; /* "1,2,8" */
    const char *const *pattern;
    size_t pattern_count; /* 0: the whole catalogue */
    uint64_t runs;
};

/* What was measured on one device. Rows are as python/twinrun/_ops/__main__.py prints them. All but
 * the name is owned. */
struct tw_ops_device {
    const char *name; /* "cpu", "cuda" */
    json_t *rows;     /* array */
    json_t *about;    /* versions and capability; NULL before they are known */
    char *failed;     /* why there is nothing; NULL */
};

/* The answer for all devices that were asked for, `count` of them. runs: how often each operation
 * ran. */
struct tw_ops_result {
    struct tw_ops_device device[TW_OPS_DEVICES];
    size_t count;
    uint64_t runs;
    json_t *threads; /* numbers of threads on the CPU; owned */
};

/* Decides devices and numbers of threads. TWIN_EINVAL, with what was expected: the answer of a
 * person who asked for something else. r: zeroed; the caller's to free, after an error too. */
int tw_ops_choose(const struct tw_ops_asked *a, struct tw_ops_result *r, struct twin_error *err);

/*
 * Measures what tw_ops_choose chose. 0: there are rows for each device that is left in r; CUDA that
 * nobody asked for by name is left out where this PyTorch cannot use it, which is said. TWIN_EINTR:
 * the person wanted an end. Any other code: nothing was measured. What went wrong was said to
 * front.
 */
int tw_ops_measure(const struct tw_ops_asked *a, struct tw_ops_result *r,
                   const struct tw_front *front);
void tw_ops_free(struct tw_ops_result *r);

#endif
