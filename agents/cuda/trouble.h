/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_AGENT_TROUBLE_H
#define TW_AGENT_TROUBLE_H
/*
 * What the CUDA driver refused, and what became of it: one line in the trace. The first refusal
 * counts. Atomics alone: threads that fail at the same time do not wait for each other.
 */
#include <stdbool.h>
#include <stddef.h>

struct tw_driver;
struct twin_writer;

/* The kernels could not be had: the caller copies tensors to the host. code: what `function` gave;
 * 0: the driver has no such function. d may be NULL then. */
void tw_trouble_copied(const struct tw_driver *d, const char *function, int code);
/* Kernels that were there failed. From now on nothing is tried any more in this process. */
void tw_trouble_off(const struct tw_driver *d, const char *function, int code);
bool tw_trouble_is_off(void);
/* So many tensors were not read because of it. */
void tw_trouble_unread(size_t tensors);
/* Writes the line, if there is one. */
void tw_trouble_report(struct twin_writer *w);
/* In a forked child: the trouble was the parent's. */
void tw_trouble_forget(void);
#endif
