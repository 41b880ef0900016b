/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_AGENT_LOOK_H
#define TW_AGENT_LOOK_H
/*
 * What the agent and its kernels on a GPU say to each other. Compiles as C and as CUDA: a kernel's
 * argument has the same layout for both. Definitions of digest, statistics and sketch:
 * docs/format/fingerprint.md.
 */
#include <stdint.h>
#include "src/fingerprint/axes.h"

/* Threads of a thread block, a multiple of 32 and at least 64. Tests on a double have fewer. */
#ifndef TW_LOOK_BLOCK
#define TW_LOOK_BLOCK 256
#endif

/* Sizes that both sides must agree on. Rows and chunks are those of the fingerprint's definition.
 */
enum {
    /* tensors in one launch: their descriptions are the kernel's argument, at most 4 KiB */
    TW_LOOK_MOST = 60,
    /* dimensions of all strided tensors of a launch; none alone has more, as each that is left
     * after merging has two elements at least, and all together less than 2^63 bytes */
    TW_LOOK_AXES = 63,
    TW_LOOK_THREADS = TW_LOOK_BLOCK,
    /* of a row and of a chunk; also the buckets of a sketch. A thread is one lane. */
    TW_LOOK_LANES = 16,
    TW_LOOK_UNITS = 4096, /* 16-byte units that one thread block digests */
    TW_LOOK_ROW = 512,    /* elements of a sketch's row */
    TW_LOOK_CHUNK = 4096, /* elements whose sums are folded together */
    /* rows or chunks that one thread block takes */
    TW_LOOK_AT_ONCE = TW_LOOK_THREADS / TW_LOOK_LANES,
};

/*
 * A tensor on the device, or a run of one. Elements of a complex tensor are its parts.
 */
struct tw_look {
    /* contiguous: the first element of the run; strided: that of the tensor */
    const void *data;
    uint64_t first;       /* index of the run's first element in the global tensor */
    uint64_t count;       /* elements of the run */
    uint64_t origin;      /* index, in the global tensor, of the element at `data` */
    uint32_t block;       /* number of the first thread block that works on it */
    uint32_t place;       /* of its first row or chunk in the scratch memory */
    uint16_t result;      /* which of the results it is added to */
    uint8_t dtype, width; /* enum twin_dtype, without the complex ones; bytes of an element */
    uint8_t axis, axes;   /* its dimensions among those of the launch; 0 axes: contiguous */
};

/* The tensors of one launch, handed to the kernel as its argument. */
struct tw_looks {
    struct tw_look look[TW_LOOK_MOST];
    struct tw_axis axis[TW_LOOK_AXES]; /* outermost first */
    uint32_t n, axes;
};

/* What a row adds to the sketch, in scratch memory: turned already, place j is for bucket j. */
struct tw_row_sums {
    double bucket[TW_LOOK_LANES];
};

/* What a chunk adds to the statistics, in scratch memory. */
struct tw_chunk_sums {
    double sum, sumsq;
};

/* What was found about one tensor. All zeros before the first launch. */
struct tw_seen {
    uint64_t a, b;    /* the raw digest */
    uint64_t skipped; /* by the sketch: elements that are not finite */
    uint64_t nan, pos_inf, neg_inf, zeros;
    /* 1 + the order of the largest; 1 + that of the smallest's complement; 0: none */
    uint64_t max_key, min_key;
    double sum, sumsq;
    double bucket[TW_LOOK_LANES];
};

/* A number for a binary64, by its bits, that grows with it, -0 below +0. Less than 2^64 - 1 for all
 * but NaN. */
#ifdef __CUDACC__
__host__ __device__
#endif
    static inline uint64_t
    tw_look_key(uint64_t bits)
{
    return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}

#endif
