/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_FINGERPRINT_KERNELS_H
#define TW_FINGERPRINT_KERNELS_H
/*
 * What an instruction set must provide, and the state that the driver carries between calls.
 * Every kernel of every set leaves the same bits; docs/format/fingerprint.md is the definition.
 */
#include <stddef.h>
#include <stdint.h>
#include <twin/fingerprint.h>

/* Element i of the global tensor belongs to lane i mod TW_LANES; lanes are summed per chunk,
 * sketches per row. */
#define TW_LANES 16
#define TW_CHUNK 4096 /* elements; lanes are folded into the totals where a chunk ends */
/* elements; sketch lanes are folded, rotated, into the buckets where a row ends */
#define TW_ROW 512

/* Number of lanes of a sketch row: the buckets, but never fewer than a vector group. */
#define TW_SKETCH_LANES(k) ((k) < TW_LANES ? TW_LANES : (k))

/* Element types that kernels read directly; the driver turns all others into f64 first. */
enum tw_kind { TW_F16, TW_BF16, TW_F32, TW_F64, TW_KINDS };

/* The kind of a public type; -1: kernels do not read it. */
static inline int tw_kind_of(enum twin_dtype dtype)
{
    switch ((int)dtype) {
    case TWIN_F64: return TW_F64;
    case TWIN_F32: return TW_F32;
    case TWIN_F16: return TW_F16;
    case TWIN_BF16: return TW_BF16;
    default: return -1;
    }
}

/* Sums and sums of squares of the current chunk. */
struct tw_lanes {
    double sum[TW_LANES], sumsq[TW_LANES];
};

/* What a span's kernel found besides the sums. The sign of a zero minimum or maximum is not
 * meaningful. */
struct tw_extremes {
    double min, max;
    uint64_t zeros;
};

/* The sketch under way: lanes of the current row, and the caller's buckets. */
struct tw_rows {
    double lane[TWIN_SKETCH_MAX]; /* of the current row */
    double *bucket;               /* [k] */
    uint32_t k;
};

/* Of elements that may be anything (careful kernels). Here the signs of zeros count. */
struct tw_careful {
    uint64_t nan, pos_inf, neg_inf, zeros;
    double min, max; /* +Inf and -Inf while all are NaN */
};

/* One instruction set. p is aligned to nothing. */
struct tw_kernels {
    const char *name;
    /* Adds blocks first..first+blocks-1, which begin at p (any alignment), to *sum. */
    void (*digest)(const unsigned char *p, size_t blocks, uint64_t first, struct twin_digest *sum);
    /* Adds n elements (a multiple of TW_LANES, at most TW_CHUNK and not 0; the first one belongs to
     * lane 0) to the lanes. When an element is not finite, some lane of sumsq is not finite
     * afterwards, and the caller starts again with careful. */
    struct tw_extremes (*moments[TW_KINDS])(const void *p, size_t n, struct tw_lanes *lanes);
    /* Adds n finite elements (a multiple of TW_LANES; index, that of the first one, too) to the
     * rows. */
    void (*sketch[TW_KINDS])(const void *p, size_t n, uint64_t index, struct tw_rows *rows);
    /* Both of these in one walk, for a sketch of at most TW_LANES buckets. When an element is not
     * finite, the rows are worth no more than the lanes. */
    struct tw_extremes (*both[TW_KINDS])(const void *p, size_t n, uint64_t index,
                                         struct tw_lanes *lanes, struct tw_rows *rows);
    /* Converts n elements (any number) to f64 with non-finite ones replaced by +0, and adds to the
     * counts. */
    void (*careful[TW_KINDS])(const void *p, size_t n, double *out, struct tw_careful *c);
};

extern const struct tw_kernels tw_kernels_scalar;
extern const struct tw_kernels tw_kernels_avx2;
extern const struct tw_kernels tw_kernels_avx512;
extern const struct tw_kernels tw_kernels_neon;

/* The set in use; chosen at first call, never NULL. */
const struct tw_kernels *tw_fingerprint_kernels(void);
/* The same for all but digests: another set where wide vectors are slower at it and none was asked
 * for by name. */
const struct tw_kernels *tw_statistics_kernels(void);
/* Makes any set the one in use, also one that is not in the list. For tests. */
void tw_fingerprint_use(const struct tw_kernels *k);

/* Adds bytes that begin at this byte of the global tensor: whole blocks by the kernel, cut ones
 * zero-filled. */
void tw_digest_add(const struct tw_kernels *k, const unsigned char *p, size_t bytes,
                   uint64_t offset, struct twin_digest *sum);

#endif
