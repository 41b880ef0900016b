/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_GPU_WAITS_H
#define TW_GPU_WAITS_H
/*
 * The driver's functions that wait for a GPU, by CUPTI's numbers (cupti_driver_cbid.h), with which
 * tests/agents/cupti_double.c compares them. The runtime's go through these. A copy between the
 * host's pageable memory and the GPU waits, too, and is not counted: it is the job's.
 */
enum {
    WAITS_CONTEXT = 17,
    WAITS_EVENT = 121,
    WAITS_STREAM = 126,
    WAITS_STREAM_PTSZ = 440,
    WAITS_CONTEXT_V2 = 800, /* since CUDA 13: older libraries lack it */
};
#endif
