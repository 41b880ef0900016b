/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_AGENT_GPU_H
#define TW_AGENT_GPU_H
/*
 * Items of a record that lie in the memory of GPUs: all of a call are looked at before the first is
 * recorded, those of one GPU together. A GPU whose items cannot be read leaves the others alone.
 */
#include "agent.h"
#include "life.h"

struct tw_gpu_place;
struct tw_gpu_batch {
    struct tw_device_tensor *tensors; /* those of each GPU together */
    struct tw_device_found *found;
    struct tw_gpu_place *places; /* of each item, in their order; NULL: nothing could be read */
    size_t n, next;
};

/* Is it looked at on a GPU? */
bool tw_gpu_item(const struct tw_agent_item *item);
size_t tw_gpu_items(const struct tw_agent_item *items, size_t n); /* how many of them are */
struct tw_gpu_batch tw_gpu_look(const struct tw_agent_item *items, size_t n, bool stats,
                                bool sketch_step);
/* Of the batch's next item; NULL: it could not be read. */
const struct tw_device_found *tw_gpu_next(struct tw_gpu_batch *b);
void tw_gpu_free(struct tw_gpu_batch *b);
#endif
