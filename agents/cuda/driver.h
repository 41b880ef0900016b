/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_AGENT_DRIVER_H
#define TW_AGENT_DRIVER_H
/*
 * The functions of the CUDA driver that are used, found in the libcuda.so.1 that the job has
 * loaded. Types as in the driver's documented interface (CUDA Driver API); no header of CUDA is
 * needed to build.
 */
#include <stdbool.h>
#include <stddef.h>

/* Opaque handles, and addresses in the memory of a device. */
typedef struct tw_cu_context *tw_cu_context;
typedef struct tw_cu_module *tw_cu_module;
typedef struct tw_cu_function *tw_cu_function;
typedef struct tw_cu_event *tw_cu_event;
typedef unsigned long long tw_cu_address;

/* CU_STREAM_CAPTURE_STATUS_NONE, and CU_STREAM_CAPTURE_MODE_RELAXED. */
enum { TW_CU_CAPTURE_NONE = 0, TW_CU_CAPTURE_RELAXED = 2 };
/* CUDA_ERROR_NOT_READY: an event has not come yet; CU_EVENT_DISABLE_TIMING. */
enum { TW_CU_NOT_READY = 600, TW_CU_EVENT_WITHOUT_TIME = 2 };

/* Each returns 0 for success (CUDA_SUCCESS). driver.c says what each is called in the driver's
 * interface. */
struct tw_driver {
    int (*context_current)(tw_cu_context *);
    int (*context_set)(tw_cu_context);
    int (*context_push)(tw_cu_context);
    int (*context_pop)(tw_cu_context *);
    int (*context_device)(int *device); /* of the current one */
    int (*device_get)(int *device, int number);
    int (*primary_state)(int device, unsigned *flags, int *active);
    int (*primary_retain)(tw_cu_context *, int device);
    int (*primary_release)(int device);
    int (*module_load)(tw_cu_module *, const void *image);
    int (*module_function)(tw_cu_function *, tw_cu_module, const char *name);
    int (*allocate)(tw_cu_address *, size_t bytes);
    int (*release)(tw_cu_address);
    /* page-locked memory, which copies from the device can go to directly; flags: 0 */
    int (*allocate_host)(void **, size_t bytes, unsigned flags);
    int (*clear)(tw_cu_address, unsigned char value, size_t bytes, void *stream);
    int (*launch)(tw_cu_function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                  unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                  void *stream, void **arguments, void **extra);
    int (*to_host)(void *host, tw_cu_address device, size_t bytes, void *stream);
    int (*wait)(void *stream);
    int (*is_capturing)(void *stream, int *status);
    int (*exchange_capture_mode)(int *mode);
    int (*error_name)(int code, const char **name); /* a constant of the driver's */
    int (*release_host)(void *);
    int (*event_create)(tw_cu_event *, unsigned flags);
    int (*event_record)(tw_cu_event, void *stream);
    int (*event_query)(tw_cu_event);
    int (*event_wait)(tw_cu_event);
    int (*event_destroy)(tw_cu_event);
};

/* The driver; NULL when the job has not loaded it, or it lacks a function. */
const struct tw_driver *tw_driver(void);
/* The function that a loaded driver lacks; NULL: none, or no driver is loaded. */
const char *tw_driver_lacks(void);
#endif
