/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests/gpu/waits.py: counts, by CUPTI's callbacks, how often a process waits for a GPU. A
 * profiler's trace does not show it: what waits is a call of the driver's interface, and
 * torch.profiler keeps those of the runtime's.
 */
#include "waits.h"
#include <stdatomic.h>
#include <stdio.h>
#include "agents/cupti/cupti.h"

static atomic_ulong counted;

static void on_call(void *user, int domain, uint32_t number, const void *data)
{
    const struct tw_cupti_call *call = data;
    (void)user;
    (void)number; /* those that were asked for alone come here */
    if (domain == TW_CUPTI_DRIVER && call->site == TW_CUPTI_ENTER)
        atomic_fetch_add(&counted, 1);
}

/* 0: from now on it counts; else why it cannot, in `why`. */
int waits_begin(char *why, size_t room);
int waits_begin(char *why, size_t room)
{
    static const uint32_t needed[] = {WAITS_CONTEXT, WAITS_EVENT, WAITS_STREAM, WAITS_STREAM_PTSZ};
    struct tw_cupti cupti;
    tw_cupti_subscriber subscriber;
    if (!tw_cupti_find(&cupti, why, room))
        return 1;
    int code = cupti.subscribe(&subscriber, on_call, NULL);
    for (size_t i = 0; i < sizeof needed / sizeof *needed && code == TW_CUPTI_OK; i++)
        code = cupti.enable(1, subscriber, TW_CUPTI_DRIVER, needed[i]);
    if (code == TW_CUPTI_OK)
        cupti.enable(1, subscriber, TW_CUPTI_DRIVER, WAITS_CONTEXT_V2);
    snprintf(why, room, "CUPTI refused with %d", code);
    return code != TW_CUPTI_OK;
}

unsigned long waits_counted(void);
unsigned long waits_counted(void)
{
    return atomic_load(&counted);
}
