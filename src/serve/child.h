/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SERVE_CHILD_H
#define TW_SERVE_CHILD_H
/*
 * The process that compares runs for the live page (cmd/pictures.c), and what it gives: the field
 * of a comparison, or a postmortem. It runs beside the server, so that no run folder can harm it:
 * what comes back is looked at before it is used.
 */
#include "base.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SERVE_CHILD_RUNS = 24,
    SERVE_CHILD_CHECKS = 100, /* most checks on record that a postmortem lists */
    SERVE_CHILD_S = 45,       /* most seconds of one comparison */
    SERVE_CHILD_MAGIC = 0x31505754,
    SERVE_CHILD_BYTES = 128 << 20, /* most that it may give */
    /* exit codes */
    SERVE_CHILD_CANNOT = 3, /* the runs cannot be compared */
    SERVE_CHILD_GONE = 4    /* a folder is not that of the run */
};

/* What it writes first; then the two texts of JSON, the steps and the cells. */
struct serve_child_head {
    uint32_t magic, head_bytes, rows_bytes, rows, steps;
};

/* A comparison as it was given: head and rows are what src/report/verdict/verdict_data.h says. */
struct serve_field {
    json_t *head, *rows;
    size_t row_count, steps;
    uint32_t *step;
    uint16_t *cell;
    size_t bytes; /* of memory, about */
};
/* Takes apart what a child wrote. NULL: it is not what one writes, or no memory. */
struct serve_field *serve_field_read(const void *data, size_t bytes);
void serve_field_free(struct serve_field *f);

/* What a postmortem's child wrote: an object with the members of cmd/pictures.c. NULL: it is none,
 * or no memory. */
json_t *serve_postmortem_read(const void *data, size_t bytes);

/* argv: of the program, NULL-terminated; in: what it finds on stdin. Waits until it ended; ends it
 * when `stop` (asked about five times a second) says so, after SERVE_CHILD_S, or at
 * SERVE_CHILD_BYTES. Returns an HTTP status: 200, and out has what it wrote, which may be nonsense;
 * 410 (a folder is gone) or 503 with *why, static, and how it ended, "" where it did not. */
int serve_child_run(char *const *argv, const struct tw_buf *in, bool (*stop)(void *), void *user,
                    struct tw_buf *out, const char **why, char ended[40]);

/* What a client wants to see of it. */
struct serve_view {
    size_t rows, columns; /* at most; 1 to SERVE_VIEW_MOST */
    uint32_t from, to;    /* steps, both included */
    const char *tensor;   /* glob over the name, or phase/kind/name; NULL: all */
};
enum { SERVE_VIEW_MOST = 512, SERVE_VIEW = 256 };
/* Appends the heatmap, reduced to the view: an object of JSON. Of cells that share a place the
 * largest code stands for all: a difference hides no equality, NaN is not hidden by anything, and
 * what is not known is not equal. */
void serve_field_reduce(const struct serve_field *f, const struct serve_view *v, struct tw_buf *b);

#endif
