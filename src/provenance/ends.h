/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_ENDS_H
#define TWIN_ENDS_H
/*
 * What a run was given and where it ended, in a few numbers, and how far the ends of two runs lie
 * apart. Room: src/provenance. Two runs of one command are a measure of noise only when they were
 * given the same: initial weights, batches, generators.
 */
#include "src/launch/run.h"
#include "src/snapshot/content.h"
#include "src/trace/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

/* What a job is given, as far as a trace shows it. */
enum twin_given { TWIN_GIVEN_WEIGHTS, TWIN_GIVEN_BATCHES, TWIN_GIVEN_GENERATORS, TWIN_GIVEN_COUNT };
const char *twin_given_name(enum twin_given g); /* "initial weights", "batches", "generators" */

/* One stream of what was given: "batch of DataLoader". */
struct twin_given_stream {
    char *name;
    enum twin_given what;
    uint64_t records;
    struct twin_digest sum;
};

/* A weight at the last step at which its sketch was kept, and as it was shown last. */
struct twin_end_weight {
    char *name;
    /* of the last sketch; step 0, k 0: none was kept */
    uint32_t step;
    uint64_t elements;
    struct twin_sketch sketch;
    bool shown;
    uint32_t last_step;
    struct twin_digest digest;
    struct twin_layout layout;
    /* the sketch is of what was shown last */
    bool measured;
};

/* What a job computes with, as far as the agent watched it; bits of twin_ends.uses. */
enum { TWIN_USES_TORCH = 1, TWIN_USES_TENSORFLOW = 2, TWIN_USES_JAX = 4 };

/* All that a run's traces say of what it was given and where it ended. Needs twin_ends_free. */
struct twin_ends {
    struct twin_given_stream *given;
    size_t given_count;                       /* by name */
    struct twin_digest sum[TWIN_GIVEN_COUNT]; /* over all steps and ranks */
    uint64_t records[TWIN_GIVEN_COUNT];       /* 0: not seen */
    /* finished, of the rank that finished fewest */
    uint64_t steps;
    uint64_t losses; /* recorded ones */
    /* the last one of the lowest rank that has any; NaN without */
    double loss;
    uint32_t loss_step;
    struct twin_digest loss_digest;
    /* at which a loss first was NaN or infinite; -1: none was */
    int64_t nonfinite_step;
    /* every recorded weight and loss of every step */
    struct twin_digest bits;
    uint64_t bits_records;
    struct twin_end_weight *weight;
    size_t weight_count; /* by name */
    /* from the end of the first step to the end of the last; NaN below two steps */
    double loop_s;
    uint64_t lost; /* records that are missing */
    unsigned uses;
};

/* Did the agent say that it watches this? `begin`: of one of the lines of its notes "armed". */
bool tw_is_watched(struct twin_trace *t, const char *begin);

/* From the run's traces. TWIN_EIO, TWIN_EFORMAT, TWIN_ENOMEM. Needs twin_ends_free after success. A
 * run without traces has no ends: all zero, NaN. */
int twin_ends_read(const struct twin_run *run, struct twin_ends *out, struct twin_error *err);
/* Of the first trace alone that shows weights or losses (that of rank 0), names without its rank,
 * weights of the last step that shows any: for runs with other numbers of ranks. Traces that cannot
 * be read are passed over. TWIN_ENOMEM. */
int twin_ends_read_first(const struct twin_run *run, struct twin_ends *out, struct twin_error *err);
void twin_ends_free(struct twin_ends *e);

/* The first stream that is not the same in both; NULL: all that were seen are. Points into a, or
 * into b where a lacks it. */
const struct twin_given_stream *
twin_ends_given_differ(const struct twin_ends *a, const struct twin_ends *b, enum twin_given what);

/* How far apart. */
struct twin_gap {
    double loss; /* |a - b|; NaN: one of them has none, or not a number */
    /* of the weights; NaN: not known. relative: to the norm of a; NaN for estimates */
    double l2, relative;
    double max_ulp; /* NaN for estimates */
    bool exact;     /* from values, not estimated from sketches */
    bool equal;     /* every weight has the same bits */
    uint32_t step;  /* of an estimate */
};

/* From the traces: l2 is estimated from sketches (relative error about sqrt(2/16)), NaN when no
 * weight has one in both at one step. */
void twin_gap_estimate(const struct twin_ends *a, const struct twin_ends *b, struct twin_gap *out);
/* From files of weights, exactly. Those tensors count whose names are, or end in, a name of a
 * weight that a recorded; all of floating point when there is none. */
int twin_gap_exact(const struct twin_ends *of, const struct twin_content *a,
                   const struct twin_content *b, struct twin_gap *out, struct twin_error *err);
#endif
