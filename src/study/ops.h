/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_STUDY_OPS_H
#define TW_STUDY_OPS_H
/*
 * What was measured of the operations of the catalogue, by the Python half of twinrun ops
 * (python/twinrun/_ops). cmd/ops.c fills these structs, the report reads them.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
    struct tw_ops_device device[2];
    size_t count;
    uint64_t runs;
};

#endif
