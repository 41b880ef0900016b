/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A double of libcupti, built with the real headers, for machines without a GPU: it keeps one
 * subscriber and the callbacks that were asked for, and tells of launches that nobody runs
 * (cupti_double.h) by the library's own structures. What surrounds them in memory is filled with
 * bytes that are no pointers. And it holds the agent's declarations (agents/cupti/cupti.h) against
 * the headers when it is compiled.
 *
 *     CUPTI_DOUBLE_VERSION=N     what cuptiGetVersion says
 *     CUPTI_DOUBLE_REFUSES=D:N   callback N of domain D cannot be had
 */
#include "cupti_double.h"

#define __CUDA_API_VERSION_INTERNAL /* types of old functions, which generated_cuda_meta.h names \
                                     */
#include <cuda.h>
#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <cupti_result.h>
#include <cupti_version.h>
#include <generated_cuda_meta.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "agents/cupti/cupti.h"
#include "tests/gpu/waits.h"

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours " is " #theirs)
#define SAME_PLACE(ours, field, theirs, their_field)                                      \
    _Static_assert(offsetof(struct ours, field) == offsetof(theirs, their_field) &&       \
                       sizeof((struct ours){0}.field) == sizeof((theirs){0}.their_field), \
                   #ours "." #field)

SAME(TW_CUPTI_DRIVER, CUPTI_CB_DOMAIN_DRIVER_API);
SAME(TW_CUPTI_RESOURCE, CUPTI_CB_DOMAIN_RESOURCE);
SAME(TW_CUPTI_STATE, CUPTI_CB_DOMAIN_STATE);
SAME(TW_CUPTI_LAUNCH, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel);
SAME(TW_CUPTI_LAUNCH_PTSZ, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz);
SAME(TW_CUPTI_LAUNCH_EX, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx);
SAME(TW_CUPTI_LAUNCH_EX_PTSZ, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz);
SAME(TW_CUPTI_COOPERATIVE, CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel);
SAME(TW_CUPTI_COOPERATIVE_PTSZ, CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz);
SAME(TW_CUPTI_GRAPH, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch);
SAME(TW_CUPTI_GRAPH_PTSZ, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz);
SAME(WAITS_CONTEXT, CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize);
SAME(WAITS_EVENT, CUPTI_DRIVER_TRACE_CBID_cuEventSynchronize);
SAME(WAITS_STREAM, CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize);
SAME(WAITS_STREAM_PTSZ, CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize_ptsz);
#if CUPTI_API_VERSION >= 130000
SAME(WAITS_CONTEXT_V2, CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize_v2);
#endif
SAME(TW_CUPTI_CONTEXT_ENDS, CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING);
SAME(TW_CUPTI_MODULE_LOADED, CUPTI_CBID_RESOURCE_MODULE_LOADED);
SAME(TW_CUPTI_MODULE_ENDS, CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING);
SAME(TW_CUPTI_GRAPH_ENDS, CUPTI_CBID_RESOURCE_GRAPHEXEC_DESTROY_STARTING);
SAME(TW_CUPTI_FATAL, CUPTI_CBID_STATE_FATAL_ERROR);
SAME(TW_CUPTI_ENTER, CUPTI_API_ENTER);
SAME(TW_CUPTI_OK, CUPTI_SUCCESS);
SAME(TW_CUPTI_MAX_LIMIT, CUPTI_ERROR_MAX_LIMIT_REACHED);
SAME(TW_CUPTI_MULTIPLE_SUBSCRIBERS, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
SAME_PLACE(tw_cupti_call, site, CUpti_CallbackData, callbackSite);
SAME_PLACE(tw_cupti_call, arguments, CUpti_CallbackData, functionParams);
SAME_PLACE(tw_cupti_call, symbol, CUpti_CallbackData, symbolName);
SAME_PLACE(tw_cupti_launch, function, cuLaunchKernel_params, f);
SAME_PLACE(tw_cupti_launch, stream, cuLaunchKernel_params, hStream);
SAME_PLACE(tw_cupti_launch, shared, cuLaunchKernel_params, sharedMemBytes);
SAME_PLACE(tw_cupti_launch, function, cuLaunchCooperativeKernel_params, f);
SAME_PLACE(tw_cupti_launch, shared, cuLaunchCooperativeKernel_params, sharedMemBytes);
SAME_PLACE(tw_cupti_launch_ex, config, cuLaunchKernelEx_params, config);
SAME_PLACE(tw_cupti_launch_ex, function, cuLaunchKernelEx_params, f);
SAME_PLACE(tw_cupti_config, shared, CUlaunchConfig, sharedMemBytes);
SAME_PLACE(tw_cupti_graph_launch, graph, cuGraphLaunch_params, hGraph);
SAME_PLACE(tw_cupti_resource, descriptor, CUpti_ResourceData, resourceDescriptor);
SAME_PLACE(tw_cupti_module, bytes, CUpti_ModuleResourceData, cubinSize);
SAME_PLACE(tw_cupti_module, code, CUpti_ModuleResourceData, pCubin);
SAME_PLACE(tw_cupti_graph, executable, CUpti_GraphData, graphExec);

#define EXPORT __attribute__((visibility("default")))

#define DOMAINS CUPTI_CB_DOMAIN_SIZE
enum { NUMBERS = 1024 };

struct CUpti_Subscriber_st {
    CUpti_CallbackFunc callback;
    void *user;
};

static struct CUpti_Subscriber_st only;
static _Atomic(CUpti_SubscriberHandle) subscriber;
static atomic_bool enabled[DOMAINS][NUMBERS];

/* ---- the library's own functions */

EXPORT CUptiResult cuptiGetVersion(uint32_t *version)
{
    const char *said = getenv("CUPTI_DOUBLE_VERSION");
    if (!version)
        return CUPTI_ERROR_INVALID_PARAMETER;
    *version = said ? (uint32_t)atoi(said) : CUPTI_API_VERSION;
    return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiGetResultString(CUptiResult result, const char **text)
{
    if (!text || result != CUPTI_ERROR_INVALID_PARAMETER)
        return CUPTI_ERROR_INVALID_PARAMETER;
    *text = "CUPTI_ERROR_INVALID_PARAMETER";
    return CUPTI_SUCCESS;
}

#ifdef DOUBLE_LACKS_SUBSCRIBE
#define cuptiSubscribe twin_cupti_double_other /* a library without it */
extern CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *, CUpti_CallbackFunc, void *);
#endif
EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *out, CUpti_CallbackFunc callback,
                                  void *user)
{
    CUpti_SubscriberHandle none = NULL;
    if (!out || !callback)
        return CUPTI_ERROR_INVALID_PARAMETER;
    if (atomic_load(&subscriber))
        return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    only = (struct CUpti_Subscriber_st){callback, user};
    if (!atomic_compare_exchange_strong(&subscriber, &none, &only))
        return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    *out = &only;
    return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle handle)
{
    CUpti_SubscriberHandle there = handle;
    if (!handle || !atomic_compare_exchange_strong(&subscriber, &there, NULL))
        return CUPTI_ERROR_INVALID_PARAMETER;
    memset(enabled, 0, sizeof enabled);
    return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle handle,
                                       CUpti_CallbackDomain domain, CUpti_CallbackId number)
{
    const char *refuses = getenv("CUPTI_DOUBLE_REFUSES");
    unsigned d = 0, n = 0;
    if (!handle || handle != atomic_load(&subscriber) || domain <= 0 || domain >= DOMAINS ||
        number >= NUMBERS)
        return CUPTI_ERROR_INVALID_PARAMETER;
    if (refuses && sscanf(refuses, "%u:%u", &d, &n) == 2 && d == (unsigned)domain && n == number)
        return CUPTI_ERROR_INVALID_PARAMETER;
    atomic_store(&enabled[domain][number], enable != 0);
    return CUPTI_SUCCESS;
}

/* ---- what it tells the subscriber */

static void tell(CUpti_CallbackDomain domain, CUpti_CallbackId number, const void *data)
{
    const CUpti_SubscriberHandle s = atomic_load(&subscriber);
    if (s && atomic_load(&enabled[domain][number]))
        s->callback(s->user, domain, number, data);
}

/* Before the driver's function, and behind it, as the library does. */
static void tell_call(CUpti_CallbackId number, const char *function, const void *arguments,
                      const char *symbol)
{
    uint64_t correlation = 0;
    CUresult result = CUDA_SUCCESS;
    CUpti_CallbackData d;
    memset(&d, 0xA5, sizeof d);
    d.callbackSite = CUPTI_API_ENTER;
    d.functionName = function;
    d.functionParams = arguments;
    d.symbolName = symbol;
    d.correlationData = &correlation;
    tell(CUPTI_CB_DOMAIN_DRIVER_API, number, &d);
    d.callbackSite = CUPTI_API_EXIT;
    d.functionReturnValue = &result;
    tell(CUPTI_CB_DOMAIN_DRIVER_API, number, &d);
}

#define FILL(a)                        \
    do {                               \
        memset(&(a), 0xA5, sizeof(a)); \
        (a).f = function;              \
        (a).gridDimX = grid[0];        \
        (a).gridDimY = grid[1];        \
        (a).gridDimZ = grid[2];        \
        (a).blockDimX = block[0];      \
        (a).blockDimY = block[1];      \
        (a).blockDimZ = block[2];      \
        (a).sharedMemBytes = shared;   \
    } while (0)

static void launch_ex(CUpti_CallbackId number, CUfunction function, const char *name,
                      const unsigned grid[3], const unsigned block[3], unsigned shared)
{
    cuLaunchKernelEx_params a;
    CUlaunchConfig config;
    memset(&a, 0xA5, sizeof a);
    memset(&config, 0xA5, sizeof config);
    config.gridDimX = grid[0];
    config.gridDimY = grid[1];
    config.gridDimZ = grid[2];
    config.blockDimX = block[0];
    config.blockDimY = block[1];
    config.blockDimZ = block[2];
    config.sharedMemBytes = shared;
    a.config = &config;
    a.f = function;
    tell_call(number, "cuLaunchKernelEx", &a, name);
}

static void launch(enum double_launch how, void *at, const char *name, const unsigned grid[3],
                   const unsigned block[3], unsigned shared)
{
    CUfunction function = at;
    cuLaunchKernel_params plain;
    cuLaunchCooperativeKernel_params cooperative;
    FILL(plain);
    FILL(cooperative);
    switch (how) {
    case DOUBLE_KERNEL:
        tell_call(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, "cuLaunchKernel", &plain, name);
        break;
    case DOUBLE_KERNEL_PTSZ:
        tell_call(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz, "cuLaunchKernel_ptsz", &plain, name);
        break;
    case DOUBLE_COOPERATIVE:
        tell_call(CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel",
                  &cooperative, name);
        break;
    case DOUBLE_COOPERATIVE_PTSZ:
        tell_call(CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz,
                  "cuLaunchCooperativeKernel_ptsz", &cooperative, name);
        break;
    case DOUBLE_EX:
        launch_ex(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, function, name, grid, block, shared);
        break;
    default:
        launch_ex(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz, function, name, grid, block,
                  shared);
        break;
    }
}

static void launch_graph(void *executable, int ptsz)
{
    cuGraphLaunch_params a;
    memset(&a, 0xA5, sizeof a);
    a.hGraph = executable;
    tell_call(ptsz ? CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz
                   : CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,
              "cuGraphLaunch", &a, NULL);
}

static void tell_resource(CUpti_CallbackIdResource number, void *descriptor)
{
    CUpti_ResourceData r;
    memset(&r, 0xA5, sizeof r);
    r.resourceDescriptor = descriptor;
    tell(CUPTI_CB_DOMAIN_RESOURCE, number, &r);
}

static void graph_ends(void *executable)
{
    CUpti_GraphData g;
    memset(&g, 0xA5, sizeof g);
    g.graphExec = executable;
    tell_resource(CUPTI_CBID_RESOURCE_GRAPHEXEC_DESTROY_STARTING, &g);
}

static void tell_module(CUpti_CallbackIdResource number, const void *code, unsigned long bytes)
{
    CUpti_ModuleResourceData m;
    memset(&m, 0xA5, sizeof m);
    m.pCubin = code;
    m.cubinSize = bytes;
    tell_resource(number, &m);
}

static void module(const void *code, unsigned long bytes)
{
    tell_module(CUPTI_CBID_RESOURCE_MODULE_LOADED, code, bytes);
}

static void module_ends(const void *code, unsigned long bytes)
{
    tell_module(CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING, code, bytes);
}

static void fatal(void)
{
    CUpti_StateData s;
    memset(&s, 0, sizeof s);
    s.notification.result = CUPTI_ERROR_UNKNOWN;
    tell(CUPTI_CB_DOMAIN_STATE, CUPTI_CBID_STATE_FATAL_ERROR, &s);
}

/* Straight to the subscriber, whatever it asked for. */
static void hostile(void)
{
    const CUpti_SubscriberHandle s = atomic_load(&subscriber);
    CUpti_CallbackData d = {.callbackSite = CUPTI_API_ENTER};
    CUpti_ResourceData r = {.resourceDescriptor = NULL};
    cuLaunchKernelEx_params without = {.config = NULL};
    if (!s)
        return;
    for (int number = 0; number < CUPTI_DRIVER_TRACE_CBID_SIZE; number++) {
        s->callback(s->user, CUPTI_CB_DOMAIN_DRIVER_API, (CUpti_CallbackId)number, NULL);
        s->callback(s->user, CUPTI_CB_DOMAIN_DRIVER_API, (CUpti_CallbackId)number, &d);
    }
    for (int number = 0; number < CUPTI_CBID_RESOURCE_SIZE; number++)
        s->callback(s->user, CUPTI_CB_DOMAIN_RESOURCE, (CUpti_CallbackId)number, &r);
    s->callback(s->user, CUPTI_CB_DOMAIN_NVTX, 7, &d);
    d.functionParams = &without;
    s->callback(s->user, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, &d);
    module(NULL, 77);
}

static void wait_for_gpu(unsigned number)
{
    cuStreamSynchronize_params a = {.hStream = NULL};
    tell_call(number, "a function that waits", &a, NULL);
}

static int subscribers(void)
{
    return atomic_load(&subscriber) != NULL;
}

extern const struct cupti_double twin_cupti_double;
EXPORT const struct cupti_double twin_cupti_double = {
    .launch = launch,
    .graph = launch_graph,
    .graph_ends = graph_ends,
    .module = module,
    .module_ends = module_ends,
    .fatal = fatal,
    .hostile = hostile,
    .subscribers = subscribers,
    .wait = wait_for_gpu,
};
