/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_FINGERPRINT_PASS_H
#define TW_FINGERPRINT_PASS_H
/*
 * One pass over a tensor's elements, span after span, in logical order: digest, statistics, sketch.
 */
#include <stdbool.h>
#include "kernels.h"

#define TW_PIECE 256 /* elements that are converted at a time */

/* State of one pass. A part is what is counted: an element, or one half of a complex number. */
struct tw_pass {
    const struct tw_kernels *k, *statistics; /* for the digest, for all else */
    enum twin_dtype dtype;                   /* of a part: f32 and f64 for complex elements */
    size_t part_bytes;
    bool moments; /* statistics or a sketch are wanted */
    struct twin_digest sum;
    struct twin_stats stats; /* min and max are +Inf and -Inf at the beginning */
    struct twin_sketch *sketch;
    uint64_t next; /* index of the next part */
    struct tw_lanes lanes;
    struct tw_rows rows;
    double converted[TW_PIECE], cleaned[TW_PIECE];
};

/* Leaves the two scratch arrays alone. sketch may be NULL; its buckets are cleared. */
void tw_pass_init(struct tw_pass *s, enum twin_dtype dtype, bool stats, struct twin_sketch *sketch,
                  uint64_t first);
/* The next n parts, at p. A span must end at a multiple of TW_LANES parts, unless it is the last
 * one. */
void tw_pass_span(struct tw_pass *s, const unsigned char *p, size_t n);
/* Folds what is open; completes the statistics and the sketch. */
void tw_pass_finish(struct tw_pass *s);

#endif
