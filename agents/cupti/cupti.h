/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CUPTI_CUPTI_H
#define TW_CUPTI_CUPTI_H
/*
 * The part of CUPTI's callback interface that is used, and where a process finds the library. The
 * layouts and numbers are declared here by the published headers (cupti_callbacks.h,
 * cupti_driver_cbid.h, generated_cuda_meta.h, cuda.h), so that none of them is needed to build;
 * tests/agents/cupti_double.c is built with the real ones, and says at compile time where the two
 * do not agree. They have been the same from CUDA 11.8 to 13.0; numbers are only added.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Domains, and the callbacks of each that are asked for. */
enum { TW_CUPTI_DRIVER = 1, TW_CUPTI_RESOURCE = 3, TW_CUPTI_STATE = 6 };
enum {
    TW_CUPTI_LAUNCH = 307,
    TW_CUPTI_LAUNCH_PTSZ = 442, /* with the stream of each thread as the default */
    TW_CUPTI_COOPERATIVE = 477,
    TW_CUPTI_COOPERATIVE_PTSZ = 478,
    TW_CUPTI_GRAPH = 514,
    TW_CUPTI_GRAPH_PTSZ = 515,
    TW_CUPTI_LAUNCH_EX = 652,
    TW_CUPTI_LAUNCH_EX_PTSZ = 653,
};
enum {
    TW_CUPTI_CONTEXT_ENDS = 2,
    TW_CUPTI_MODULE_LOADED = 6,
    TW_CUPTI_MODULE_ENDS = 7,
    TW_CUPTI_GRAPH_ENDS = 19, /* an executable graph */
};
enum { TW_CUPTI_FATAL = 1 };

enum { TW_CUPTI_ENTER = 0 };

/* Results: success; there is a subscriber already (the first until 12.x, the second since). */
enum { TW_CUPTI_OK = 0, TW_CUPTI_MAX_LIMIT = 12, TW_CUPTI_MULTIPLE_SUBSCRIBERS = 39 };

/* CUpti_CallbackData */
struct tw_cupti_call {
    int site;
    const char *function;
    const void *arguments; /* of the driver's function, below */
    void *result;
    const char *symbol; /* the kernel's name; NULL: no launch of a kernel */
    void *context;
    uint32_t context_number;
    uint64_t *correlation;
    uint32_t correlation_number;
};

/* Arguments of cuLaunchKernel, and the first nine of cuLaunchCooperativeKernel. */
struct tw_cupti_launch {
    void *function;
    unsigned grid[3], block[3], shared;
    void *stream;
};
/* CUlaunchConfig, as far as it is read; of cuLaunchKernelEx; of cuGraphLaunch. */
struct tw_cupti_config {
    unsigned grid[3], block[3], shared;
};
struct tw_cupti_launch_ex {
    const struct tw_cupti_config *config;
    void *function;
};
struct tw_cupti_graph_launch {
    void *graph;
};

/* CUpti_ResourceData, CUpti_ModuleResourceData, CUpti_GraphData */
struct tw_cupti_resource {
    void *context, *stream, *descriptor;
};
struct tw_cupti_module {
    uint32_t number;
    size_t bytes;
    const void *code;
};
struct tw_cupti_graph {
    void *graph, *original, *node, *original_node;
    int node_type;
    void *dependency, *executable;
};

typedef struct tw_cupti_subscriber *tw_cupti_subscriber;
typedef void tw_cupti_callback(void *user, int domain, uint32_t number, const void *data);

struct tw_cupti {
    int (*version)(uint32_t *);
    int (*subscribe)(tw_cupti_subscriber *, tw_cupti_callback *, void *user);
    int (*unsubscribe)(tw_cupti_subscriber);
    int (*enable)(uint32_t on, tw_cupti_subscriber, int domain, uint32_t number);
    int (*result_name)(int result, const char **); /* may be NULL */
};

/* Finds and loads the library, and its functions. The one that the process has loaded already comes
 * first (PyTorch's profiler uses it, and two copies of it do not go together); then those in the
 * folders of CUDA_HOME and CUDA_PATH; beside the CUDA libraries of Python packages that are loaded;
 * where the loader looks. false: `why` says what is missing. */
bool tw_cupti_find(struct tw_cupti *c, char *why, size_t room);
#endif
