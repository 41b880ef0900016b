/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TESTS_NCCL_H
#define TW_TESTS_NCCL_H
/*
 * A DOUBLE of NCCL for machines without a GPU: the functions that kernels/nccl.cu calls, with names
 * and numbers as NCCL's header has them. Ranks are processes of one machine, which meet in a file
 * that all of them map; what they reduce is the host's memory, added up in an order that is drawn
 * for each call. It keeps the rules that a caller can break: a collective is work of its stream,
 * and done when that is waited for; within a group nothing is begun before the group's end; a
 * communicator that does not block is in progress until it was asked often enough, and takes no
 * call meanwhile. It knows no algorithms, no channels and no network.
 */
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
#include "runtime.h"
extern "C" {
#else
typedef struct cudaStream *cudaStream_t;
#endif
#pragma GCC visibility push(default)

typedef struct ncclComm *ncclComm_t;
typedef struct {
    char internal[128];
} ncclUniqueId;
typedef enum {
    ncclSuccess = 0,
    ncclSystemError = 2,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclInProgress = 7
} ncclResult_t;
typedef enum { ncclInt32 = 2, ncclInt64 = 4, ncclFloat32 = 7 } ncclDataType_t;
typedef enum { ncclSum = 0, ncclMax = 2 } ncclRedOp_t;
#define NCCL_CONFIG_UNDEF_INT INT_MIN
typedef struct {
    size_t size;
    unsigned int magic, version;
    int blocking; /* what comes behind it is not looked at */
} ncclConfig_t;
#define NCCL_CONFIG_INITIALIZER {sizeof(ncclConfig_t), 0xcafebeef, 0, NCCL_CONFIG_UNDEF_INT}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config);
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state);
ncclResult_t ncclCommCount(const ncclComm_t comm, int *ranks);
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank);
ncclResult_t ncclAllReduce(const void *send, void *receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
const char *ncclGetErrorString(ncclResult_t result);

/* What tests find in the double, and in no NCCL. Of this process. */
/* Collective number n from now on, from 0, is not run, and nobody is told; -1: all are. */
void nccl_double_skip(int n);
/* How many collectives were begun since; and how many calls broke a rule, or did not fit what
 * another rank called. */
uint64_t nccl_double_begun(void);
uint64_t nccl_double_trouble(void);
/* Who uses the double gives it a stream: `run(argument)` is done when the stream has come there. */
void nccl_double_enqueue(cudaStream_t stream, void (*run)(void *), void *argument);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
