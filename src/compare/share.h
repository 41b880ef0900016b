/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_COMPARE_SHARE_H
#define TW_COMPARE_SHARE_H
/*
 * Shared by ahead.c and share.c: what other processes found of traces, by the number of a trace
 * among those of all runs.
 */
#include "internal.h"

/* More series than a trace can define are not believed. */
enum { TW_SHARE_SERIES = (1 << 20) + 1 };

/* bytes 0: nothing is known of that trace. */
struct tw_shares {
    struct twin_trace_verified *found;
    size_t count;
};

/* Is trace `index` of all runs in this process's share? */
bool tw_share_has(const struct twin_share *s, size_t index);
/* Reads what process `part` sent, which is foreign, into out->found[0 .. out->count), which the
 * caller made. TWIN_EFORMAT: it cannot be used; TWIN_EIO: it has the trouble that it tells, or sees
 * other traces. */
int tw_shares_read(const struct twin_run *const *runs, size_t n, const struct twin_share *share,
                   size_t part, const void *bytes, size_t size, struct tw_shares *out,
                   struct twin_error *err);
/* Collects what all the others found of `count` traces. *out goes to tw_shares_free() in either
 * case. */
int tw_shares_collect(const struct twin_run *const *runs, size_t n, const struct twin_share *share,
                      size_t count, struct tw_shares *out, struct twin_error *err);
void tw_shares_free(struct tw_shares *s);

#endif
