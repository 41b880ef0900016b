/* SPDX-License-Identifier: Apache-2.0 */
/* Damage that was met while a trace was read, as a list of holes: where, and which steps may have
 * lost records there. Whoever compares records has to know which ones may be missing, for a record
 * that is only in the other run is then no difference.
 *
 * A hole is noted when it is met, so the list is complete only for what has been read. Meeting it
 * again adds nothing. Beyond TW_HOLES_MAX the last one is widened: the list may say too much, never
 * too little. */
#include "reader.h"

static void add_hole(struct twin_trace *t, struct twin_trace_hole h)
{
    for (size_t i = 0; i < t->holes; i++)
        if (t->hole[i].offset == h.offset && t->hole[i].definitions == h.definitions)
            return;
    if (t->holes < TW_HOLES_MAX) {
        t->hole[t->holes++] = h;
        return;
    }
    struct twin_trace_hole *last = &t->hole[TW_HOLES_MAX - 1];
    last->first_step = h.first_step < last->first_step ? h.first_step : last->first_step;
    last->last_step = h.last_step > last->last_step ? h.last_step : last->last_step;
}

/* A block whose header is good and whose contents are not: its header tells the steps. Lost
 * definitions may concern any step. */
void tw_trace_bad_block(struct twin_trace *t, const struct tw_block *b)
{
    bool definitions = b->type != TW_BLOCK_DATA;
    add_hole(t, (struct twin_trace_hole){.block = b->index,
                                         .offset = b->offset,
                                         .first_step = definitions ? 0 : b->first_step,
                                         .last_step = definitions ? UINT32_MAX : b->last_step,
                                         .definitions = definitions});
}

/* Between `before` (NULL: the start of the file) and the next good block at least one block is
 * missing, which may have held definitions. */
void tw_trace_lost_definitions(struct twin_trace *t, const struct tw_block *before)
{
    struct twin_trace_hole h = {
        .offset = sizeof t->header, .last_step = UINT32_MAX, .definitions = true};
    if (before) {
        h.block = before->index + 1;
        h.offset = before->offset + tw_block_span(before);
    }
    add_hole(t, h);
}

/* Records of the steps from the last of `before` to the first of `after` may be missing; NULL
 * leaves that side open. */
void tw_trace_bad_stretch(struct twin_trace *t, const struct tw_block *before,
                          const struct tw_block *after)
{
    struct twin_trace_hole h = {.offset = sizeof t->header, .last_step = UINT32_MAX};
    if (before) {
        h.block = before->index + 1;
        h.offset = before->offset + tw_block_span(before);
        h.first_step = before->last_step;
    }
    if (after)
        h.last_step = after->first_step;
    add_hole(t, h);
}

bool twin_trace_hole(const struct twin_trace *t, size_t index, struct twin_trace_hole *out)
{
    if (index >= t->holes)
        return false;
    *out = t->hole[index];
    return true;
}
