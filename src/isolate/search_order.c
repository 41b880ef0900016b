/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The factor match-order: its pin is the replay of the order in which the first natural run matched
 * messages of MPI or of torch.distributed (src/trial/match_order.h). Whether a run kept it is read
 * from its records, not believed. A run that did not was not pinned: it counts as one that ended
 * badly, as a job does under a pin that it cannot bear, so that nothing is concluded from it.
 */
#include "search_runs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char id[] = "match-order";
/* How long a run waits for a message while others could be taken: as long as the job takes, in
 * these bounds. */
enum { WAIT_LEAST_S = 5, WAIT_MOST_S = 60 };

bool tw_isolate_order_can_be_set(const struct tw_isolate *c)
{
    /* of two arms no run is both the recording and what is compared; nor is there a folder to be
     * filled on another machine */
    if (c->args.a || (c->on && c->on->engine))
        return false;
    /* a job of PyTorch may start its ranks by itself: then it has to be asked for */
    return twin_launch_wants_mpi(c->argv) || twin_launch_names_torch(c->argv) ||
           (c->args.pin && strstr(c->args.pin, id));
}

/* The first natural run that went to its end. */
static const struct twin_run *recording(struct tw_isolate *c)
{
    const struct twin_search_set none = {{0}};
    for (size_t i = 0; i < c->made_count; i++) {
        const struct tw_isolate_made *m = &c->made[i];
        const struct twin_run *r = m->whole && memcmp(&m->pinned, &none, sizeof none) == 0
                                       ? tw_isolate_find(c, m->handle)
                                       : NULL;
        if (r && r->level == c->level)
            return r;
    }
    return NULL;
}

/* Reads it, once. */
static void look(struct tw_isolate *c)
{
    struct tw_isolate_order *o = &c->order;
    struct twin_error err = TWIN_ERROR_INIT;
    const struct twin_run *r = o->looked ? NULL : recording(c);
    if (!r)
        return;
    o->looked = true;
    const double wait_s = fmin(fmax(c->natural_s, WAIT_LEAST_S), WAIT_MOST_S);
    o->known = tw_matches_read(r, (uint32_t)(wait_s * 1000), &o->matches, &err) == 0;
    if (!o->known)
        o->why = tw_strdup(err.message);
}

void tw_isolate_order_apply(struct tw_isolate *c, const struct twin_world *w,
                            struct twin_launch_options *o)
{
    if (!twin_world_sets(w, id))
        return;
    look(c);
    if (!c->order.known)
        return;
    o->fill_folder = tw_matches_fill;
    o->fill_user = &c->order.matches;
}

/* What is known of the pin's effect. The worst of it stays. Takes the text over. */
static void note_effect(struct tw_isolate *c, enum twin_effect effect, char *text)
{
    size_t i = 0;
    while (i < c->count && strcmp(c->factor[i]->id, id) != 0)
        i++;
    if (i == c->count || (c->effect[i].text && c->effect[i].effect == TWIN_EFFECT_FAILED)) {
        tw_free(text);
        return;
    }
    tw_free(c->effect[i].text);
    c->effect[i] = (struct twin_world_effect){effect, text};
}

bool tw_isolate_order_kept(struct tw_isolate *c, const struct twin_world *w,
                           const struct twin_run *r, bool cut)
{
    struct tw_matches_kept kept = {.whole = false}, ends = {.whole = false};
    struct twin_error quiet = TWIN_ERROR_INIT;
    if (!twin_world_sets(w, id))
        return true;
    look(c);
    if (!c->order.known) {
        note_effect(c, c->order.matches.none ? TWIN_EFFECT_NOT_USED : TWIN_EFFECT_FAILED,
                    tw_strdup(c->order.why ? c->order.why : "no run could be replayed"));
        return c->order.matches.none;
    }
    bool whole = tw_matches_compare(&c->order.matches, r, &kept, &ends, &quiet) == 0;
    /* a run that was cut where it diverged has not made all of them */
    if (cut)
        whole = whole && !kept.other && !ends.other;
    else
        whole = whole && kept.whole && ends.whole;
    const char *why = kept.text ? kept.text : ends.text;
    if (whole)
        note_effect(c, TWIN_EFFECT_IN_FORCE, tw_printf("%zu matches", (size_t)kept.kept));
    else
        note_effect(c, TWIN_EFFECT_FAILED, tw_strdup(why ? why : "its records cannot be read"));
    tw_free(kept.text);
    tw_free(ends.text);
    return whole;
}

/* As files: nothing was left open, or all was matched alike. */
bool tw_isolate_order_common(const struct twin_run *a, const struct twin_run *b)
{
    struct tw_matches x, y;
    struct tw_matches_kept kept = {.whole = false}, ends = {.whole = false};
    struct twin_error quiet = TWIN_ERROR_INIT;
    bool alike = false;
    const bool read = tw_matches_read(a, 0, &x, &quiet) == 0;
    if (read && tw_matches_compare(&x, b, &kept, &ends, &quiet) == 0)
        alike = kept.whole && ends.whole;
    if (!read && x.none) {
        alike = tw_matches_read(b, 0, &y, &quiet) != 0 && y.none;
        tw_matches_free(&y);
    }
    tw_matches_free(&x);
    tw_free(kept.text);
    tw_free(ends.text);
    return alike;
}

void tw_isolate_order_close(struct tw_isolate *c)
{
    tw_matches_free(&c->order.matches);
    tw_free(c->order.why);
}
