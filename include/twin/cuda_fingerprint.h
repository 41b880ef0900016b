/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_CUDA_FINGERPRINT_H
#define TWIN_CUDA_FINGERPRINT_H
/*
 * Fingerprints of tensors in the memory of an NVIDIA GPU, without waiting: the bits that
 * <twin/fingerprint.h> gives on the host. A ring holds a fixed number of batches. A call puts one
 * on a stream of yours and returns; its results come into pinned memory, from which they are taken
 * later, in any order. docs/internals/device.md says how, and what has been run on a GPU.
 *
 * The driver that the program has loaded is used, in its current context; nothing of CUDA is needed
 * to build or to link (-ltwinrun). No call waits for the GPU but those that say so, none but
 * twin_cuda_ring_open() and _close() allocates. A ring is for one thread at a time. As with all of
 * CUDA: not in a child that was forked after CUDA was used, and not in signal handlers. Since 0.1.
 */
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>
#include <twin/fingerprint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define TWIN_CUDA_BATCH_MOST 256 /* tensors in one batch */
#define TWIN_CUDA_RING_MOST 1024 /* batches in a ring */

/* What is wanted besides digests. A sketch has TWIN_SKETCH_DEFAULT buckets. */
enum twin_cuda_want { TWIN_CUDA_STATS = 1, TWIN_CUDA_SKETCH = 2 };

struct twin_cuda_ring;

/*
 * Makes a ring of 1 to TWIN_CUDA_RING_MOST batches in the calling thread's current CUDA context, in
 * which all calls with it are to be made. A batch takes 4 MiB and 56 KiB of the GPU, and 56 KiB of
 * pinned memory. Returns 0, and *ring is closed by twin_cuda_ring_close(). Errors: TWIN_EINVAL
 * (batches), TWIN_EUNSUPPORTED (no driver is loaded, there is no context, or it does not take our
 * kernels), TWIN_ENOMEM.
 */
int twin_cuda_ring_open(struct twin_cuda_ring **ring, uint32_t batches, struct twin_error *err);

/*
 * Fingerprints n tensors (1 to TWIN_CUDA_BATCH_MOST) after the work that `stream` (a CUstream or
 * cudaStream_t; NULL: the default one) holds already. Their descriptions are read during the call;
 * `data` are addresses of the context's device, aligned for their elements, and what lies there may
 * be written again by work that comes later in this stream, or waits for it: by nobody else before
 * the results are there. want: any of enum twin_cuda_want. Returns 0, and *ticket names the batch.
 * Errors: TWIN_EINVAL (as twin_fingerprint; n), TWIN_ELIMIT (no batch is free: take one),
 * TWIN_EUNSUPPORTED (the stream is being captured into a graph), TWIN_EIO (CUDA refused: nothing
 * was fingerprinted, and the batch is lost).
 */
int twin_cuda_fingerprint(struct twin_cuda_ring *ring, const struct twin_tensor *tensors, size_t n,
                          unsigned want, void *stream, uint64_t *ticket, struct twin_error *err);

/*
 * The results of a batch, if it is done: 1, and the arrays, of the batch's n tensors each, are
 * filled; the batch is free again. 0: not yet (never with `wait` not 0, which waits for it). Any
 * array may be NULL; stats and sketches are left alone where they were not wanted. Errors:
 * TWIN_EINVAL (no such batch is under way), TWIN_EIO (CUDA failed: the batch is lost).
 */
int twin_cuda_take(struct twin_cuda_ring *ring, uint64_t ticket, int wait,
                   struct twin_digest *digests, struct twin_stats *stats,
                   struct twin_sketch *sketches, struct twin_error *err);

/* Waits for what is under way, and frees everything. NULL: does nothing. */
void twin_cuda_ring_close(struct twin_cuda_ring *ring);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
