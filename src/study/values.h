/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_STUDY_VALUES_H
#define TW_STUDY_VALUES_H
/* Numbers of files of tensors, as doubles: what spread and simulate add up. */
#include "base.h"
#include "front.h"

#include <twin/fingerprint.h>

/* A tensor that was taken: its numbers are x[first] to x[first + count - 1]. The name is printable,
 * and owned. */
struct tw_value_tensor {
    char *name;
    enum twin_dtype dtype;
    uint64_t first, count;
};

/* The numbers of one file. All is owned; tw_values_free leaves zeros. */
struct tw_values {
    double *x; /* numbers of all tensors, one after the other */
    uint64_t n;
    struct tw_value_tensor *tensor;
    size_t tensors, left_out; /* left_out: of other types, unreadable, or the same memory again */
    enum twin_dtype dtype;    /* the widest of the tensors' */
};
/*
 * Reads the floating-point tensors of a file whose names match one of the patterns (no pattern:
 * all), each memory once.
 * 0, or a TWIN_E* after a complaint to front, which begins with the name of the command.
 */
int tw_values_load(const struct tw_front *front, const char *command, const char *path,
                   const struct tw_strings *patterns, struct tw_values *out);
void tw_values_free(struct tw_values *v);
/* Of the files that a run wrote, those of tensors that are still as it left them; and how many of
 * tensors are not (a later run writes to the same place). Owned. */
struct tw_values_files {
    char **path;
    size_t count, changed;
};
struct twin_run;
/* TWIN_ENOMEM. tw_values_files_free in any case. */
int tw_values_of_run(const struct twin_run *r, struct tw_values_files *out, struct twin_error *err);
void tw_values_files_free(struct tw_values_files *f);
/* f64, f32, f16 or bf16 by its name; TWIN_EINVAL for another one. */
int tw_values_type(const char *s, enum twin_dtype *out);

#endif
