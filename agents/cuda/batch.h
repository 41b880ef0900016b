/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_AGENT_BATCH_H
#define TW_AGENT_BATCH_H
/*
 * Some tensors whose fingerprints are made together: the memory that this takes, the launches, and
 * what the kernels found. device.c waits for a batch, ring.c looks whether it is done.
 */
#include <stdbool.h>
#include "agents/common/life.h"
#include "driver.h"
#include "look.h"

enum { TW_BATCH_MOST = 256 }; /* tensors */

/* The kernels of look.cu in one context. */
struct tw_look_kernels {
    tw_cu_function digest, rows, add_rows, chunks, add_chunks;
};

/* scratch, seen: on the device; host: where results are copied to, pinned. */
struct tw_batch_memory {
    tw_cu_address scratch, seen;
    struct tw_seen *host;
};

/* One batch. failed: the function that CUDA has refused, with this code; nothing more is launched
 * then. */
struct tw_batch {
    const struct tw_driver *driver;
    const struct tw_look_kernels *kernels;
    struct tw_batch_memory *memory;
    void *stream;
    const char *failed;
    int code;
};

/* While another thread captures a stream, allocating would break its capture; a relaxed thread may.
 * Returns the mode to be restored, -1 when it could not be changed. */
int tw_relax_capture(const struct tw_driver *d);
void tw_restore_capture(const struct tw_driver *d, int mode);

/* Allocates in the current context. False, with nothing allocated, when one part is refused. */
bool tw_batch_allocate(const struct tw_driver *d, struct tw_batch_memory *m);
void tw_batch_release(const struct tw_driver *d, struct tw_batch_memory *m);
/* Puts the kernels for n <= TW_BATCH_MOST tensors on the stream, and the copy of what they find. */
void tw_batch_enqueue(struct tw_batch *w, const struct tw_device_tensor *tensors, size_t n);
void tw_batch_wait(struct tw_batch *w);
/* Of tensor i of a batch that is done. */
void tw_batch_result(const struct tw_batch_memory *m, size_t i, const struct tw_device_tensor *t,
                     struct tw_device_found *found);

/* The kernels in the calling thread's current context, loaded when it is new; NULL: there is no
 * context, or it cannot have them (device.c). */
const struct tw_look_kernels *tw_device_kernels(void);
#endif
