/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_TWIN_H
#define TWIN_TWIN_H
/*
 * The C interface of twinrun for programs that are not Python: a trainer marks its steps and shows
 * its tensors.
 *
 *     twin_open();
 *     for (step...) {
 *         twin_record("batch:x", TWIN_F32, 2, (int64_t[]){B, D}, NULL, x, 0);
 *         ...
 *         twin_step();
 *     }
 *     twin_close();
 *
 * Link with -ltwinrun. Without twinrun around the program every call is a cheap no-op (one load and
 * a branch). No call ever fails visibly, prints, exits, changes errno or the program's numbers.
 * Thread-safe throughout; scopes and roles are per thread. Nothing passed in is kept: strings are
 * copied, tensors are only read during the call. A forked child that records gets a trace of its
 * own, whose steps begin at 0; a record made by a signal handler that interrupted a record is left
 * out. For users: docs/c-interface.md. Since 0.1.
 */
#include <stddef.h>
#include <stdint.h>
#include <twin/fingerprint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Optional: opens the trace now rather than at the first record. Returns 1 when recording, 0 when
 * off. */
int twin_open(void);
/* 1 when records are being kept, else 0. */
int twin_on(void);
/* Records one tensor under its name in the current scope of this thread. dtype: enum twin_dtype;
 * shape [ndim] in elements; strides [ndim] in elements or NULL for contiguous row-major;
 * global_offset: index of the first element in the global tensor when this is a shard, else 0. Kind
 * "value" unless the name starts with a known kind and a colon: "batch:", "indices:", "init:" (a
 * weight before training), "activation:", "loss:", "local gradient:" (one thread's or rank's,
 * before it is summed), "gradient:" (as the optimizer consumes it), "weight:", "moment:", "hyper:",
 * "state:" (of a generator). The phase follows from it; the prefix is not part of the name. Memory
 * that cannot be read is not touched: the record is kept as one that was not observed. */
void twin_record(const char *name, enum twin_dtype dtype, uint32_t ndim, const int64_t *shape,
                 const int64_t *strides, const void *data, uint64_t global_offset);
/* As twin_record, which is a macro over it: the call's place ("file:line", function; static
 * strings) is kept with the record. */
void twin_record_at(const char *file_line, const char *func, const char *name,
                    enum twin_dtype dtype, uint32_t ndim, const int64_t *shape,
                    const int64_t *strides, const void *data, uint64_t global_offset);
/* Ends the current step (one optimizer step). Call it from one thread, when no other thread records
 * for this step. */
void twin_step(void);
/* Scopes nest per thread (at most 64 deep, deeper ones are counted, not named): records inside
 * carry "outer/inner". */
void twin_scope_push(const char *name);
void twin_scope_pop(void);
/* Names this thread's role ("worker 0"), so that records of equal name from several threads stay
 * apart; their order among other threads' records is then taken to mean nothing. NULL = main. */
void twin_thread_role(const char *role);
/* Writes everything out. Also done at exit. Later records reopen nothing: they are ignored. */
void twin_close(void);

#pragma GCC visibility pop
#define TWIN_TEXT_(x) #x
#define TWIN_TEXT(x) TWIN_TEXT_(x)
#define twin_record(...) twin_record_at(__FILE__ ":" TWIN_TEXT(__LINE__), __func__, __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
