/* SPDX-License-Identifier: Apache-2.0 */
/* Sorts the items by their GPU and hands them to the agent that reads there. */
#include "gpu.h"
#include "found.h"
#include "state.h"

#include <errno.h>
#include "src/base/base.h"

static __thread void *device_streams[TW_ITEM_DEVICES] __attribute__((tls_model("initial-exec")));

/* Who makes fingerprints on a device; NULL: nobody does. */
static const struct tw_agent_device *device_agent(void)
{
    TW_AGENT_EACH(agent)
    {
        if ((*agent)->device)
            return (*agent)->device;
    }
    return NULL;
}

int tw_agent_device(uint32_t device, uint64_t stream)
{
    struct tw_guard g;
    int before = errno;
    if (device >= TW_ITEM_DEVICES)
        return 0;
    device_streams[device] = (void *)(uintptr_t)stream;
    const struct tw_agent_device *there = device_agent();
    /* what is loaded into the GPU there is ours, and not told as the job's (agents/cupti) */
    const bool guarded = tw_guard_enter(&g);
    bool ready = there && there->ready(device);
    if (guarded)
        tw_guard_leave(&g);
    errno = before;
    return ready;
}

bool tw_gpu_item(const struct tw_agent_item *item)
{
    return item->flags & TW_ITEM_DEVICE && !(item->flags & TW_ITEM_DIGESTED) &&
           !(item->flags >> 8 & TWIN_REC_UNOBSERVED);
}

/* Its number. Callers have asked tw_agent_device() for it; the mask is for those who have not. */
static uint32_t device_of(const struct tw_agent_item *item)
{
    return item->flags >> TW_ITEM_DEVICE_AT & (TW_ITEM_DEVICES - 1);
}

size_t tw_gpu_items(const struct tw_agent_item *items, size_t n)
{
    size_t found = 0;
    for (size_t i = 0; i < n; i++)
        found += tw_gpu_item(&items[i]);
    return found;
}

/* Where what was found of an item lies; NOWHERE: its GPU has not had its turn. */
struct tw_gpu_place {
    size_t at;
    bool read;
};
static const size_t NOWHERE = SIZE_MAX;

void tw_gpu_free(struct tw_gpu_batch *b)
{
    tw_free(b->tensors);
    tw_free(b->found);
    tw_free(b->places);
}

/* Strides of a view; NULL: it is contiguous. Those of a part say how long the whole is. */
static const int64_t *strides_of(const struct tw_agent_item *item)
{
    return item->shape ? item->strides : NULL;
}

static struct tw_device_tensor tensor_of(const struct tw_agent_item *item, bool stats,
                                         bool sketch_step)
{
    struct tw_found f;
    tw_want(&f, item, sketch_step);
    return (struct tw_device_tensor){.data = item->data,
                                     .count = item->count,
                                     .global_offset = item->global_offset,
                                     .shape = item->shape,
                                     .strides = strides_of(item),
                                     .ndim = item->ndim,
                                     .dtype = (enum twin_dtype)item->dtype,
                                     .want_stats = stats && f.want_stats,
                                     .want_sketch = f.want_sketch};
}

/* Puts this device's items behind the `first` tensors that are there. Returns how many then are. */
static size_t fill(struct tw_gpu_batch *b, uint32_t device, const struct tw_agent_item *items,
                   size_t n, size_t first, bool stats, bool sketch_step)
{
    for (size_t i = 0, place = 0; i < n; i++) {
        if (!tw_gpu_item(&items[i]))
            continue;
        if (device_of(&items[i]) == device) {
            b->places[place].at = first;
            b->tensors[first++] = tensor_of(&items[i], stats, sketch_step);
        }
        place++;
    }
    return first;
}

/* Looks at the tensors from `first` to `end`, all of one device. */
static void look_at_device(struct tw_gpu_batch *b, uint32_t device, size_t first, size_t end)
{
    const struct tw_agent_device *there = device_agent();
    if (first == end || !there ||
        !there->look(device, b->tensors + first, end - first, device_streams[device],
                     b->found + first))
        return;
    for (size_t i = 0; i < b->n; i++)
        if (b->places[i].at >= first && b->places[i].at < end)
            b->places[i].read = true;
}

struct tw_gpu_batch tw_gpu_look(const struct tw_agent_item *items, size_t n, bool stats,
                                bool sketch_step)
{
    struct tw_gpu_batch b = {.n = tw_gpu_items(items, n)};
    if (b.n == 0)
        return b;
    b.tensors = tw_calloc(b.n, sizeof *b.tensors);
    b.found = tw_calloc(b.n, sizeof *b.found);
    b.places = b.tensors && b.found ? tw_calloc(b.n, sizeof *b.places) : NULL;
    if (!b.places)
        return b;
    for (size_t i = 0; i < b.n; i++)
        b.places[i].at = NOWHERE;
    size_t end = 0;
    for (uint32_t device = 0; device < TW_ITEM_DEVICES && end < b.n; device++) {
        const size_t first = end;
        end = fill(&b, device, items, n, first, stats, sketch_step);
        look_at_device(&b, device, first, end);
    }
    return b;
}

const struct tw_device_found *tw_gpu_next(struct tw_gpu_batch *b)
{
    const struct tw_gpu_place *p = b->places ? &b->places[b->next] : NULL;
    b->next++;
    return p && p->read ? &b->found[p->at] : NULL;
}
