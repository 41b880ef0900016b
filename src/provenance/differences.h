/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_PROVENANCE_DIFFERENCES_H
#define TW_PROVENANCE_DIFFERENCES_H
/* What the comparisons of worlds share: the growing list, the power of names (power.c), lists of
 * libraries. */
#include "provenance_inside.h"

/* A list of differences that grows. failed: memory ran out, so the list is not complete and nothing
 * may be said from it. */
struct tw_differences {
    struct twin_world_differences *out;
    size_t room;
    bool failed;
};
/* Adds one; NULL values are "not there". Text is made printable and cut at 200 bytes. */
void tw_difference(struct tw_differences *d, enum twin_power power, const char *group,
                   const char *what, const char *a, const char *b, size_t count);
/* sorts; frees on failure */
int tw_differences_finish(struct tw_differences *d, struct twin_error *err);

/* A value as text; NULL for null and what is not there. tw_free. */
char *tw_pv_shown(const json_t *v);
json_t *tw_pv_at(const json_t *o, const char *path); /* "a/b/c", borrowed; NULL */

enum twin_power tw_power_of_library(const char *file); /* by its file's name */
enum twin_power tw_power_of_version(const char *name);
enum twin_power tw_power_of_variable(const char *name);
bool tw_variable_is_per_rank(const char *name);

/* name of a library (package, or file's name without its version's tail) -> {file name: digest}; of
 * one list, or of all when rank is NULL. */
json_t *tw_libraries_by_name(const json_t *p, const json_t *rank);
#endif
