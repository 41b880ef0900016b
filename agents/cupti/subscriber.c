/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The subscriber of CUPTI. The CUDA driver loads the library that CUDA_INJECTION64_PATH names when
 * it starts, and calls InitializeInjection in it: so a process that uses no GPU never gets here.
 * The launcher names the agent there with TWINRUN_CUPTI=on only (src/launch/cupti.c).
 *
 * Whatever does not fit (no library, another version, another subscriber, a callback that cannot be
 * had) leaves the job as it would be without us: one note of the run, and nothing more is called.
 */
#include "cupti.h"
#include "launches.h"

#include <stdatomic.h>
#include <stdio.h>
#include "agents/common/state.h"

/* CUDA 11.8, the first with cuLaunchKernelEx; from 13.0 on the number is major, minor, update. */
enum { OLDEST = 18, NUMBERED_ANEW = 130000, TOO_NEW = 140000 };

static const struct {
    int domain;
    uint32_t number;
    bool needed; /* else: an older library may not have it */
} wanted[] = {
    {TW_CUPTI_DRIVER, TW_CUPTI_LAUNCH, true},
    {TW_CUPTI_DRIVER, TW_CUPTI_LAUNCH_PTSZ, true},
    {TW_CUPTI_DRIVER, TW_CUPTI_LAUNCH_EX, true},
    {TW_CUPTI_DRIVER, TW_CUPTI_LAUNCH_EX_PTSZ, true},
    {TW_CUPTI_DRIVER, TW_CUPTI_COOPERATIVE, true},
    {TW_CUPTI_DRIVER, TW_CUPTI_COOPERATIVE_PTSZ, true},
    {TW_CUPTI_DRIVER, TW_CUPTI_GRAPH, true},
    {TW_CUPTI_DRIVER, TW_CUPTI_GRAPH_PTSZ, true},
    /* without these three a name or number could be taken for that of something that has ended */
    {TW_CUPTI_RESOURCE, TW_CUPTI_MODULE_ENDS, true},
    {TW_CUPTI_RESOURCE, TW_CUPTI_CONTEXT_ENDS, true},
    {TW_CUPTI_RESOURCE, TW_CUPTI_GRAPH_ENDS, true},
    {TW_CUPTI_RESOURCE, TW_CUPTI_MODULE_LOADED, true},
    {TW_CUPTI_STATE, TW_CUPTI_FATAL, false},
};

/* ---- callbacks: by any thread, several at once, in the middle of the job's calls */

static void launched(const struct tw_cupti_call *call, const void *function,
                     const struct tw_cupti_config *shape)
{
    struct tw_launch l = {.name = call->symbol, .function = function, .shared = shape->shared};
    for (int i = 0; i < 3; i++) {
        l.grid[i] = shape->grid[i];
        l.block[i] = shape->block[i];
    }
    tw_launches_kernel(&l);
}

static void driver_called(uint32_t number, const struct tw_cupti_call *call)
{
    if (call->site != TW_CUPTI_ENTER || !call->arguments)
        return;
    switch (number) {
    case TW_CUPTI_LAUNCH:
    case TW_CUPTI_LAUNCH_PTSZ:
    case TW_CUPTI_COOPERATIVE:
    case TW_CUPTI_COOPERATIVE_PTSZ: {
        const struct tw_cupti_launch *a = call->arguments;
        const struct tw_cupti_config shape = {{a->grid[0], a->grid[1], a->grid[2]},
                                              {a->block[0], a->block[1], a->block[2]},
                                              a->shared};
        launched(call, a->function, &shape);
        break;
    }
    case TW_CUPTI_LAUNCH_EX:
    case TW_CUPTI_LAUNCH_EX_PTSZ: {
        const struct tw_cupti_launch_ex *a = call->arguments;
        static const struct tw_cupti_config none; /* the driver refuses the call */
        launched(call, a->function, a->config ? a->config : &none);
        break;
    }
    case TW_CUPTI_GRAPH:
    case TW_CUPTI_GRAPH_PTSZ: {
        const struct tw_cupti_graph_launch *a = call->arguments;
        tw_launches_graph(a->graph);
        break;
    }
    default: break;
    }
}

static void resource_changed(uint32_t number, const struct tw_cupti_resource *r)
{
    if (number == TW_CUPTI_MODULE_LOADED && r->descriptor) {
        const struct tw_cupti_module *m = r->descriptor;
        tw_launches_module(m->code, m->bytes);
    } else if (number == TW_CUPTI_MODULE_ENDS || number == TW_CUPTI_CONTEXT_ENDS) {
        tw_launches_unload();
    } else if (number == TW_CUPTI_GRAPH_ENDS && r->descriptor) {
        const struct tw_cupti_graph *g = r->descriptor;
        tw_launches_graph_ends(g->executable);
    }
}

/* What the agent launches itself is not the job's: the guard turns it away. */
static void callback(void *user, int domain, uint32_t number, const void *data)
{
    struct tw_guard g;
    (void)user;
    if (!data || !atomic_load_explicit(tw_agent_mine, memory_order_relaxed) || !tw_guard_enter(&g))
        return;
    if (domain == TW_CUPTI_DRIVER)
        driver_called(number, data);
    else if (domain == TW_CUPTI_RESOURCE)
        resource_changed(number, data);
    else if (domain == TW_CUPTI_STATE)
        tw_launches_stop("CUPTI had a fatal error and ended itself");
    tw_guard_leave(&g);
}

/* ---- start */

static void not_seen(const struct tw_cupti *c, const char *function, int result)
{
    const char *name = NULL;
    char why[256];
    if (result == TW_CUPTI_MULTIPLE_SUBSCRIBERS || result == TW_CUPTI_MAX_LIMIT)
        snprintf(why, sizeof why,
                 "%s says that something else in the job uses CUPTI (a profiler), and it has one "
                 "user only",
                 function);
    else if (c->result_name && c->result_name(result, &name) == TW_CUPTI_OK && name)
        snprintf(why, sizeof why, "%s failed with %s (%d)", function, name, result);
    else
        snprintf(why, sizeof why, "%s failed with error %d", function, result);
    tw_launches_stop(why);
}

static bool fits(const struct tw_cupti *c, uint32_t *version)
{
    char why[160];
    const int rc = c->version(version);
    if (rc != TW_CUPTI_OK) {
        not_seen(c, "cuptiGetVersion", rc);
        return false;
    }
    if (*version >= OLDEST && *version < TOO_NEW &&
        (*version >= NUMBERED_ANEW || *version < NUMBERED_ANEW / 100))
        return true;
    snprintf(why, sizeof why,
             "libcupti has the version %u: expected %d (CUDA 11.8) to %d (CUDA 13)", *version,
             OLDEST, TOO_NEW - 1);
    tw_launches_stop(why);
    return false;
}

static void subscribe(const struct tw_cupti *c)
{
    tw_cupti_subscriber subscriber = NULL;
    uint32_t version = 0;
    if (!fits(c, &version) || !tw_launches_start(version))
        return;
    int rc = c->subscribe(&subscriber, callback, NULL);
    if (rc != TW_CUPTI_OK) {
        not_seen(c, "cuptiSubscribe", rc);
        return;
    }
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        rc = c->enable(1, subscriber, wanted[i].domain, wanted[i].number);
        if (rc != TW_CUPTI_OK && wanted[i].needed) {
            c->unsubscribe(subscriber);
            not_seen(c, "cuptiEnableCallback", rc);
            return;
        }
    }
}

/* What the driver calls. Any other answer than 1 means that the library did not start, which is
 * told to nobody who could use it. */
int InitializeInjection(void);
__attribute__((visibility("default"))) int InitializeInjection(void)
{
    static atomic_flag done = ATOMIC_FLAG_INIT;
    struct tw_cupti c;
    struct tw_guard g;
    char why[320];
    if (!tw_agent_on() || !atomic_load_explicit(tw_agent_mine, memory_order_relaxed) ||
        !tw_guard_enter(&g))
        return 1;
    if (atomic_flag_test_and_set(&done))
        ; /* the driver starts once */
    else if (tw_cupti_find(&c, why, sizeof why))
        subscribe(&c);
    else
        tw_launches_stop(why);
    tw_guard_leave(&g);
    return 1;
}
