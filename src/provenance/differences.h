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

/* Differ, both being known. */
bool tw_values_differ(const json_t *a, const json_t *b);
/* One value by its path in both records. */
void tw_diff_value(struct tw_differences *d, const json_t *a, const json_t *b, const char *path,
                   enum twin_power power, const char *group, const char *what);
/* Two objects name by name. power(name) ranks each; many of one power become one line that names
 * the first, but never those of high power: each of them may be the cause. */
void tw_diff_names(struct tw_differences *d, const json_t *a, const json_t *b, const char *group,
                   const char *many, enum twin_power (*power)(const char *));
void tw_diff_launch(struct tw_differences *d, const json_t *a, const json_t *b); /* diff_launch.c */

/* A value as text; NULL for null and what is not there. tw_free. */
char *tw_pv_shown(const json_t *v);
json_t *tw_pv_at(const json_t *o, const char *path); /* "a/b/c", borrowed; NULL */

enum twin_power tw_power_of_library(const char *file); /* by its file's name */
enum twin_power tw_power_of_version(const char *name);
enum twin_power tw_power_of_variable(const char *name);
enum twin_power tw_power_medium(const char *name); /* that, whatever the name */
/* a launcher gives it to each rank: of two runs and of two ranks it says nothing */
bool tw_variable_is_per_rank(const char *name);
/* that, or it says where on its machine a rank runs: of two ranks it says nothing */
bool tw_variable_differs_among_ranks(const char *name);

/* ---- ranks side by side (parity.c, parity_groups.c) */
/* As twin_provenance_parity, of ranks that have just begun: only of variables does it count that a
 * rank does not have one. */
int tw_parity_at_start(const struct json_t *record, struct twin_world_differences *out,
                       struct twin_error *err);
/* "ranks 0-2 have NAME 1, rank 3 has 2, rank 4 does not have it" of groups: value -> numbers of
 * ranks, which rise; `missing` is the value of those that have none. malloc'ed; NULL: no memory, or
 * a number is in two groups. */
char *tw_parity_groups(const char *name, const json_t *groups, const char *missing);
/* "rank 3 was not seen": of a world of so many, those that are not in the list of ranks, which is
 * sorted. malloc'ed; NULL: all are. */
char *tw_parity_unseen(const json_t *ranks, json_int_t world);
/* Which halves of the agent have said all that they say at a process's first record. */
struct tw_told {
    bool library, python;
};
/* What one process said, by the file in `worlds` (ranks.c): an object as in the record, without its
 * libraries; NULL: not readable, or not begun. Of the collector only the redactor is used. */
json_t *tw_pv_rank(struct tw_collector *c, const char *path, struct tw_told *told);

/* name of a library (package, or file's name without its version's tail) -> {file name: digest}; of
 * one list, or of all when rank is NULL. */
json_t *tw_libraries_by_name(const json_t *p, const json_t *rank);
#endif
