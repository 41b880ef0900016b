/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_VALUES_H
#define TW_CMD_VALUES_H
/* Numbers of files for spread and simulate, as doubles; and how numbers and times are written for people. */
#include "options.h"

#include <twin/fingerprint.h>

struct tw_value_tensor { char *name; enum twin_dtype dtype; uint64_t first, count; };

struct tw_values {
    double *x;               /* of all tensors, one after the other */
    uint64_t n;
    struct tw_value_tensor *tensor;
    size_t tensors, left_out; /* left_out: of other types, unreadable, or the same memory again */
    enum twin_dtype dtype;   /* the widest of the tensors' */
};
/* The floating-point tensors of a file whose names match one of the patterns (no pattern: all), each memory once. -1, or the
 * exit code after a complaint. */
int tw_values_load(const char *command, const char *path, const struct tw_strings *patterns, struct tw_values *out);
void tw_values_free(struct tw_values *v);

/* A file to read for an operand: the path itself, or the one file of tensors that a run wrote. malloc'ed; NULL after a complaint. */
char *tw_values_path(const char *command, const char *operand, const char *home);

int tw_values_type(const char *s, enum twin_dtype *out); /* f64, f32, f16, bf16 */
/* "20us", "1.5 ms" -> seconds. TWIN_EINVAL. */
int tw_parse_time(const char *s, double *seconds);
/* The shortest decimal number that reads back as x: of a double, or of a float where that holds x. */
char *tw_shortest(double x, char out[40]);
char *tw_human_time(double s, char out[24]); /* "12.3 us" */

#endif
