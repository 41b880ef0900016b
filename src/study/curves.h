/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_STUDY_CURVES_H
#define TW_STUDY_CURVES_H
/*
 * Curves of runs that twinrun did not record, as `twinrun import` wrote them (docs/import.md).
 *
 * They are numbers that somebody wrote down, maybe rounded, maybe not all of them. So nothing here
 * says that two runs computed the same: equal curves are equal numbers.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

/* One run. Owned by its file. */
struct tw_curve {
    char *name, *left_out; /* why it has no value that stands for it; NULL: it has one */
    char *ended;           /* the source's word; NULL: it does not say */
    double value;          /* that stands for the run; NaN: left out */
    /* by step; values of one step in the order of the source. y may be NaN or infinite */
    int64_t *step;
    double *y;
    size_t points;
};

/* One file. */
struct tw_curves {
    char *path, *source, *metric, *take;
    char *unknown; /* "code and its version, data": what is not known of these runs */
    struct tw_curve *run;
    size_t runs;
};

/* The content of a file. TWIN_EFORMAT: it is none of ours; TWIN_ENOMEM. tw_curves_free in any
 * case. */
int tw_curves_parse(const char *path, const char *text, size_t bytes, struct tw_curves *out,
                    struct twin_error *err);
/* The same of a file; also the errors of reading it. */
int tw_curves_read(const char *path, struct tw_curves *out, struct twin_error *err);
void tw_curves_free(struct tw_curves *c);
/* What the file says of its runs, in a sentence. malloc'ed; NULL: no memory. */
char *tw_curves_words(const struct tw_curves *c);

/* Two curves beside each other, point by point: the n-th value of a step with the n-th. */
struct tw_curves_beside {
    size_t common;         /* points that both have */
    size_t only_a, only_b; /* points that one of them has */
    bool differ;           /* one of the common ones does; then the first that does: */
    int64_t step;
    double a, b;
};
void tw_curves_compare(const struct tw_curve *a, const struct tw_curve *b,
                       struct tw_curves_beside *out);
/* All points are common, there is one at least, and none differs. */
bool tw_curves_equal_numbers(const struct tw_curves_beside *x);

/* What the runs of a file come to; those that were left out have no part in it. */
struct tw_curves_noise {
    size_t values; /* runs that have one */
    double mean, low, high;
    double sd; /* NaN: of fewer than two */
    /* steps that all of them have, and how far the last values there lie apart at the
     * first and the last of them; NaN: one is no number */
    size_t steps;
    int64_t first_step, last_step;
    double first_apart, last_apart;
};
/* TWIN_ENOMEM. */
int tw_curves_noise(const struct tw_curves *c, struct tw_curves_noise *out, struct twin_error *err);

#endif
