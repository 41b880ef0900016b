/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_OPS_H
#define TW_CMD_OPS_H
/* Inside of twinrun ops: ops.c (options; the Python half measures), ops_report.c (what the measurements mean, as text and JSON). */
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What was measured on one device. Rows are as python/twinrun/_ops/__main__.py prints them. */
struct tw_ops_device {
    const char *name; /* "cpu", "cuda" */
    json_t *rows;     /* array */
    json_t *about;    /* versions and capability; NULL before they are known */
    char *failed;     /* why there is nothing; NULL */
};

struct tw_ops_result { struct tw_ops_device device[2]; size_t count; uint64_t runs; };

int tw_ops_print_text(const struct tw_ops_result *r);
/* One object, schema twinrun.ops/1. 0 or TW_EXIT_TROUBLE. */
int tw_ops_print_json(const struct tw_ops_result *r);

#endif
