/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_TWIN_H
#define TWIN_TWIN_H
/*
 * The C interface of twinrun for programs that are not Python: a trainer marks its steps and shows its tensors.
 *
 *     twin_open();
 *     for (step...) {
 *         twin_record("batch", TWIN_F32, 2, (int64_t[]){B, D}, NULL, x, 0);
 *         ...
 *         twin_step();
 *     }
 *     twin_close();
 *
 * Link with -ltwinrun. Without twinrun around the program every call is a cheap no-op (one load and a branch).
 * No call ever fails visibly, prints, exits, changes errno or the program's numbers. Thread-safe throughout;
 * scopes and roles are per thread. Nothing passed in is kept: strings are copied, tensors are only read during the call.
 */
#include <stddef.h>
#include <stdint.h>
#include <twin/fingerprint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Optional: opens the trace now rather than at the first record. Returns 1 when recording, 0 when off. */
int twin_open(void);
/* 1 when records are being kept, else 0. */
int twin_on(void);
/* Records one tensor under its name in the current scope of this thread. dtype: enum twin_dtype; shape [ndim] in
 * elements; strides [ndim] in elements or NULL for contiguous row-major; global_offset: index of the first element in
 * the global tensor when this is a shard, else 0. Kind "value" unless the name starts with a known kind and a colon:
 * "batch:", "weight:", "gradient:", "activation:", "loss:", "state:", "moment:", "indices:" (phase follows from it). */
void twin_record(const char *name, enum twin_dtype dtype, uint32_t ndim, const int64_t *shape, const int64_t *strides,
                 const void *data, uint64_t global_offset);
/* Ends the current step (one optimizer step). Call it from one thread, when no other thread records for this step. */
void twin_step(void);
/* Scopes nest per thread (at most 64 deep, deeper ones are counted, not named): records inside carry "outer/inner". */
void twin_scope_push(const char *name);
void twin_scope_pop(void);
/* Names this thread's role ("worker 0"), so that records of equal name from several threads stay apart. NULL = main. */
void twin_thread_role(const char *role);
/* Writes everything out. Also done at exit. Later records reopen nothing: they are ignored. */
void twin_close(void);

#ifdef __cplusplus
}
#endif
#endif
