/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of agents/cuda/look.cu for grid.h, by their names. */
#include <cuda_runtime.h>
#include "agents/cuda/look.cu"
#include "libcuda.h"

extern unsigned char __start_shared_variables[], __stop_shared_variables[];

__attribute__((constructor)) static void tell_shared()
{
    grid_shared(__start_shared_variables,
                (size_t)(__stop_shared_variables - __start_shared_variables));
}

/* The values of a launch, behind each other in memory, as the kernel's parameters. */
static void call_digest(void *p)
{
    void **a = (void **)p;
    tw_digest(*(struct tw_looks *)a[0], *(struct tw_seen **)a[1]);
}

#define WITH_SCRATCH(kernel, scratch)                                                  \
    static void call_##kernel(void *p)                                                 \
    {                                                                                  \
        void **a = (void **)p;                                                         \
        kernel(*(struct tw_looks *)a[0], *(scratch **)a[1], *(struct tw_seen **)a[2]); \
    }

WITH_SCRATCH(tw_rows, struct tw_row_sums)
WITH_SCRATCH(tw_add_rows, const struct tw_row_sums)
WITH_SCRATCH(tw_chunks, struct tw_chunk_sums)
WITH_SCRATCH(tw_add_chunks, const struct tw_chunk_sums)

static const size_t DIGEST_BYTES[] = {sizeof(struct tw_looks), 8};
static const size_t SCRATCH_BYTES[] = {sizeof(struct tw_looks), 8, 8};

const struct emulated_kernel emulated_kernels[] = {
    {"tw_digest", call_digest, 2, DIGEST_BYTES},
    {"tw_rows", call_tw_rows, 3, SCRATCH_BYTES},
    {"tw_add_rows", call_tw_add_rows, 3, SCRATCH_BYTES},
    {"tw_chunks", call_tw_chunks, 3, SCRATCH_BYTES},
    {"tw_add_chunks", call_tw_add_chunks, 3, SCRATCH_BYTES},
    {NULL, NULL, 0, NULL},
};
