/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a trace is verified before anything in it is compared: by process.c, one after the other, or
 * ahead of it by the threads of ahead.c. Both must find the same.
 */
#include "internal.h"

uint64_t tw_verified_bytes = UINT64_MAX; /* tests make it smaller, to see what is found without */

bool tw_trace_is_silent(const struct twin_trace_info *i)
{
    return i->records == 0 && i->dropped == 0 && i->steps == 0;
}

/*
 * Prefix hashes prove steps equal across a damaged stretch, but a trace that was altered is no
 * evidence for "same", so the whole file is verified up to tw_verified_bytes. A trace with a tail
 * is cut off, which verification would call a fault.
 */
void tw_opened_verify(struct tw_opened *x, bool alone)
{
    const struct twin_trace_info *info = twin_trace_info(x->trace);
    x->rc = 0;
    x->fault = (struct twin_error)TWIN_ERROR_INIT;
    if (info->file_bytes > tw_verified_bytes)
        return;
    if (info->tail_bytes == 0)
        x->rc = alone ? twin_trace_verify_alone(x->trace, &x->fault)
                      : twin_trace_verify(x->trace, &x->fault);
    else
        /* a killed process's tail is no damage, but what lies before it may be */
        twin_trace_walk(x->trace, NULL, NULL, NULL, NULL);
}
