/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_AGENT_FOUND_H
#define TW_AGENT_FOUND_H
/* What is found about one item of a record (record.c, gpu.c). */
#include "agent.h"

struct tw_found {
    struct twin_digest digest;
    struct twin_stats stats;
    struct twin_sketch sketch;
    bool want_stats, want_sketch, failed;
};

/* What the item asks for. sketch_step: the step is one of those that have sketches. */
static inline void tw_want(struct tw_found *f, const struct tw_agent_item *item, bool sketch_step)
{
    bool digested = item->flags & TW_ITEM_DIGESTED;
    f->want_stats = item->flags & TW_ITEM_STATS && !digested;
    f->want_sketch = sketch_step && item->flags & TW_ITEM_SKETCH && item->dtype != TWIN_BYTES &&
                     !digested;
    f->failed = false;
}
#endif
