/* SPDX-License-Identifier: Apache-2.0 */
/* Where each step stands in the payload that is loaded. Whoever compares step by step asks one
 * block for all of its steps, one after the other, and with a record or two a step a block has
 * hundreds of them: looking from its start each time takes a time that grows with their square.
 *
 * The table is made at the second question to a payload, since a search by halving asks most blocks
 * once. It answers nothing that the bytes do not say: who has a place decodes and checks the entry
 * there as before. A payload that is not in the order in which every writer writes (the records of
 * a step, its end, the next step) gets no table, and is looked through from its start. */
#include "reader.h"

#include <assert.h>
#include <string.h>

static uint32_t step_of(const char *entry, bool record)
{
    uint32_t step;
    const size_t at = record ? offsetof(struct tw_record, step)
                             : offsetof(struct tw_step_end, step);
    memcpy(&step, entry + at, sizeof step);
    return step;
}

/* What is known of the order while the entries are passed. */
struct passing {
    struct tw_places *places;
    uint32_t at; /* where the step that is passed begins */
    bool any;    /* an entry of it was met: */
    uint32_t step;
};

/* Takes one entry; false: it is not in order, or there is no memory. */
static bool pass_entry(struct passing *s, const struct tw_entry *e, const char *p, uint32_t offset)
{
    struct tw_places *x = s->places;
    if (e->type != TW_ENTRY_RECORD && e->type != TW_ENTRY_STEP_END)
        return true;
    const bool record = e->type == TW_ENTRY_RECORD;
    if (e->bytes < (record ? sizeof(struct tw_record) : (size_t)TW_STEP_END_FIXED))
        return false;
    const uint32_t step = step_of(p, record);
    if (s->any ? step != s->step : x->count > 0 && step <= x->place[x->count - 1].step)
        return false;
    s->any = true;
    s->step = step;
    if (record)
        return true;
    if (x->count == x->room) {
        const size_t room = x->room ? 2 * x->room : 64;
        struct tw_step_place *grown = tw_reallocarray(x->place, room, sizeof *grown);
        if (!grown)
            return false;
        x->place = grown;
        x->room = room;
    }
    x->place[x->count++] = (struct tw_step_place){.step = step, .at = s->at, .end = offset};
    s->at = offset + e->bytes;
    s->any = false;
    return true;
}

/* Makes the table of the payload that is loaded. */
static void make_places(struct twin_trace *t, const struct tw_block *b)
{
    struct passing s = {.places = &t->places};
    struct tw_cursor at = tw_cursor_over(t, b);
    struct tw_entry e;
    bool bad = false, ordered = true;
    for (const char *p; ordered && (p = tw_cursor_next(&at, &e, &bad));)
        ordered = pass_entry(&s, &e, p, (uint32_t)(p - t->payload));
    t->places.tail = s.at;
    t->places.stand = ordered && !bad ? TW_PLACES_MADE : TW_PLACES_NONE;
}

/* The table of b, whose payload is loaded; NULL: there is none. */
static const struct tw_places *places_of(struct twin_trace *t, const struct tw_block *b)
{
    struct tw_places *x = &t->places;
    assert(t->payload && t->payload_offset == b->offset);
    if (x->of != b->offset) {
        x->of = b->offset;
        x->stand = TW_PLACES_ASKED;
        x->count = 0;
    } else if (x->stand == TW_PLACES_ASKED) {
        make_places(t, b);
    }
    return x->stand == TW_PLACES_MADE ? x : NULL;
}

/* Index of the first place whose step is `step` or a later one. */
static size_t place_from(const struct tw_places *x, uint64_t step)
{
    size_t low = 0, high = x->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (x->place[middle].step < step)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct tw_cursor tw_cursor_over_steps(struct twin_trace *t, const struct tw_block *b,
                                      uint32_t first, uint32_t last)
{
    struct tw_cursor all = tw_cursor_over(t, b);
    const struct tw_places *x = places_of(t, b);
    if (!x)
        return all;
    const size_t from = place_from(x, first), behind = place_from(x, (uint64_t)last + 1);
    const char *start = t->payload + (from < x->count ? x->place[from].at : x->tail);
    return (struct tw_cursor){start,
                              behind < x->count ? t->payload + x->place[behind].at : all.end};
}

struct tw_cursor tw_cursor_at_end(struct twin_trace *t, const struct tw_block *b, uint32_t step)
{
    struct tw_cursor all = tw_cursor_over(t, b);
    const struct tw_places *x = places_of(t, b);
    if (!x)
        return all;
    const size_t i = place_from(x, step);
    if (i == x->count || x->place[i].step != step)
        return (struct tw_cursor){all.end, all.end};
    return (struct tw_cursor){t->payload + x->place[i].end, all.end};
}

void tw_places_free(struct tw_places *x)
{
    tw_free(x->place);
    *x = (struct tw_places){.place = NULL};
}
