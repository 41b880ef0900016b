/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_AGENT_DEVICE_H
#define TW_AGENT_DEVICE_H
/*
 * Fingerprints of tensors in the memory of an NVIDIA GPU, made there (docs/internals/device.md).
 * The driver that the job has loaded is used, in the job's own contexts and on the stream that the
 * job names; the thread's current context is afterwards what it was; nothing is loaded into a job
 * that uses no GPU. What cannot be done is said by the result, never by an error of the job's.
 */
#include "agents/common/life.h"

/* Whether fingerprints can be made on this device (visit.h). Loads the kernels at the first call in
 * a context. */
bool tw_device_ready(unsigned device);
/* Fingerprints n tensors of this device after the work that `stream`, a stream of it, holds
 * already; waits for them. false, and `found` is undefined: the stream is being captured, or CUDA
 * refused. Thread-safe. */
bool tw_device_look(unsigned device, const struct tw_device_tensor *tensors, size_t n, void *stream,
                    struct tw_device_found *found);
/* In a forked child: CUDA is the parent's, and is never touched again. */
void tw_device_forget(void);
#endif
