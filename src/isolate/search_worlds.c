/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The world of a run of the search: which factors are set in it, and to what. One factor alone, the
 * pins of a contrast, or values that a request draws; of two arms only what both hold still, since
 * their settings are in the command.
 */
#include "search_runs.h"

/* Begins a world, with room for every setting, and with what two arms hold still in every run: of
 * arms nothing else is set, since their settings are in the command. The setting list is the
 * caller's to free. */
static int world_begin(const struct tw_isolate *c, struct twin_world *out)
{
    const struct twin_world *held = c->arms ? tw_isolate_arms_held(c) : NULL;
    *out = (struct twin_world){
        .setting = tw_calloc((held ? held->count : c->count) + 1, sizeof *out->setting)};
    if (!out->setting)
        return TWIN_ENOMEM;
    for (size_t i = 0; held && i < held->count; i++)
        out->setting[out->count++] = held->setting[i];
    return 0;
}

int tw_isolate_world(const struct tw_isolate *c, const struct twin_search_set *pinned,
                     struct twin_world *out)
{
    int rc = world_begin(c, out);
    for (size_t i = 0; rc == 0 && !c->arms && i < c->count; i++)
        if (twin_search_has(pinned, i))
            out->setting[out->count++] = (struct twin_setting){c->factor[i], TWIN_PIN, 0};
    return rc;
}

/* The world of a request, with the values and seeds that it asks for. */
int tw_isolate_world_of(const struct tw_isolate *c, const struct twin_search_request *q,
                        struct twin_world *out)
{
    int rc = world_begin(c, out);
    for (size_t i = 0; rc == 0 && !c->arms && i < c->count; i++)
        if (q->setting[i].mode != TWIN_FREE)
            out->setting[out->count++] = (struct twin_setting){c->factor[i], q->setting[i].mode,
                                                               q->setting[i].value};
    return rc;
}
