/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_FINGERPRINT_H
#define TWIN_FINGERPRINT_H
/*
 * Fingerprint (128-bit position-aware digest of a tensor's logical bytes), statistics and sketch.
 * Equal bits on every instruction set. Definition and its tests: docs/format/fingerprint.md.
 *
 * All functions are thread-safe, allocate nothing, are safe after fork, and leave the
 * floating-point environment (MXCSR/FPCR, exception flags) as they found it; exceptions are stated
 * where they are. Those without an err may be called in signal handlers once any of them has been
 * called before (the first call chooses the instruction set, by TWINRUN_ISA among others). Since
 * 0.1.
 */
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Element types. The numbers are stored in traces: never renumber. */
enum twin_dtype {
    TWIN_BYTES = 0, /* opaque bytes: digested, no statistics */
    TWIN_U8 = 1,
    TWIN_I8 = 2,
    TWIN_BOOL = 3,
    TWIN_U16 = 4,
    TWIN_I16 = 5,
    TWIN_F16 = 6,
    TWIN_BF16 = 7,
    TWIN_U32 = 8,
    TWIN_I32 = 9,
    TWIN_F32 = 10,
    TWIN_U64 = 11,
    TWIN_I64 = 12,
    TWIN_F64 = 13,
    /* complex: pairs of f32 / f64; statistics over both parts */
    TWIN_C64 = 14,
    TWIN_C128 = 15,
    TWIN_F8_E4M3FN = 16,
    TWIN_F8_E5M2 = 17, /* 8-bit floats (OCP FP8) */
    TWIN_DTYPE_COUNT = 18
};

#define TWIN_MAX_NDIM 64       /* dimensions of a tensor */
#define TWIN_SKETCH_MAX 64     /* buckets of a sketch */
#define TWIN_SKETCH_DEFAULT 16 /* a distance to about 35% */

size_t twin_dtype_size(enum twin_dtype dtype);      /* bytes per element; 0 for an unknown code */
const char *twin_dtype_name(enum twin_dtype dtype); /* "f32", ...; "?" for an unknown code */

/* A view of a tensor. Nothing is owned. */
struct twin_tensor {
    /* first logical element; may be NULL only when there are no elements */
    const void *data;
    enum twin_dtype dtype;
    uint32_t ndim;        /* 0 = one element; at most TWIN_MAX_NDIM */
    const int64_t *shape; /* [ndim] elements, each >= 0 */
    /* [ndim] in elements, may be 0 or negative; NULL = contiguous row-major */
    const int64_t *strides;
    uint64_t
        global_offset; /* index of the first element in the global tensor (0 when not a shard). The
                          shard must be a contiguous run of the global tensor's row-major order. */
};

/* The two raw 64-bit sums that a trace stores. Sums of shards, mod 2^64, are the sums of the whole
 * when every shard's byte offset is a multiple of 16 (or it is the first) — see
 * twin_digest_composable. */
struct twin_digest {
    uint64_t a, b;
};

/* Statistics of a tensor's elements. */
struct twin_stats {
    uint64_t count; /* elements seen (complex: parts) */
    uint64_t nan, pos_inf, neg_inf, zeros;
    /* over non-NaN elements, -0 < +0; both NaN when there is none */
    double min, max;
    double absmax; /* NaN when there is no non-NaN element */
    /* over finite elements, float64, fixed lane order: equal bits on every ISA */
    double sum, sumsq;
}; /* integers and bool: converted to double (i64/u64 rounded to nearest) */

/* Sums of the finite elements into k buckets with signs that depend on their places: the difference
 * of two sketches is the sketch of the difference. Which bucket and sign a place has:
 * docs/format/fingerprint.md. */
struct twin_sketch {
    uint32_t k;       /* in: 1..TWIN_SKETCH_MAX, power of two */
    uint64_t skipped; /* non-finite elements left out */
    double bucket[TWIN_SKETCH_MAX];
};

/*
 * Digests a tensor of any layout in one pass over its memory, which is only read; fills stats and
 * sketch in the same pass when they are not NULL (sketch->k set by the caller). Returns 0. For
 * TWIN_BYTES, stats are all zero with count = bytes. Errors: TWIN_EINVAL (unknown dtype, ndim too
 * large, negative size, NULL data with elements, size overflow).
 */
int twin_fingerprint(const struct twin_tensor *t, struct twin_digest *digest,
                     struct twin_stats *stats, struct twin_sketch *sketch, struct twin_error *err);

/* The fast path for contiguous bytes: raw sums of `bytes` bytes that begin at byte `offset` of the
 * global tensor (any offset is accepted; composable only when a multiple of 16). Never fails. */
struct twin_digest twin_digest_bytes(const void *data, size_t bytes, uint64_t offset);

/* 1 when a shard at this element offset composes with its neighbours (byte offset multiple of 16),
 * else 0. */
int twin_digest_composable(enum twin_dtype dtype, uint64_t global_offset);

/* Mixes raw sums with byte length, dtype, shape and seed into the final 128 bits that are shown and
 * compared across unlike shapes. shape may be NULL when ndim is 0. */
struct twin_digest twin_digest_finish(struct twin_digest raw, uint64_t byte_length,
                                      enum twin_dtype dtype, uint32_t ndim, const int64_t *shape,
                                      uint64_t seed);

/* Estimate of the L2 distance of two tensors from their sketches (relative error about sqrt(2/k)).
 * NaN when k differs. */
double twin_sketch_distance(const struct twin_sketch *x, const struct twin_sketch *y);
/* Adds y into x (shards, linearity). TWIN_EINVAL when k differs. */
int twin_sketch_add(struct twin_sketch *x, const struct twin_sketch *y, struct twin_error *err);

/* Instruction set in use: "scalar", "avx2", "avx512", "neon". TWINRUN_ISA=name forces one that the
 * CPU has. */
const char *twin_fingerprint_isa(void);
/* For tests and benchmarks: selects by name; TWIN_EUNSUPPORTED when CPU or build lacks it. Not
 * thread-safe. */
int twin_fingerprint_force(const char *isa, struct twin_error *err);

#ifdef __cplusplus
}
#endif
#endif
