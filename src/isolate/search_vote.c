/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What replays of the suspect operation tell the search: that it disagrees with itself, or that one
 * core answers otherwise. To replay, the runs are zoomed into (src/trial/zoom_runs.c), which
 * records the operation's inputs. Replays are evidence beside the comparisons, never a condition,
 * so whatever fails here leaves the search as it is.
 */
#include "search_runs.h"

#include "zoom_runs.h"

#include "base.h"

#include <string.h>

/* Zooms into v->first under a world. Its absence is no error: replays are evidence, not a
 * condition. */
static void zoom_into(struct tw_isolate *c, const struct twin_world *w, struct twin_verdict *v,
                      const struct twin_run *reference)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_world_plan p = {.cpu = -1};
    const char *why;
    if (!tw_zoom_is_possible(v, reference, &why) || twin_world_plan(w, c->argv, &p, &err) != 0)
        return;
    struct twin_launch_options a = {.argv = c->argv,
                                    .home = c->home,
                                    .label = "zoom-a",
                                    .agents = true,
                                    .fresh_dir = c->args.fresh_dir,
                                    .on = c->on,
                                    .stdin_spool = c->spool};
    twin_world_plan_apply(&p, &a);
    tw_isolate_order_apply(c, w, &a);
    struct twin_launch_options b = a;
    b.label = "zoom-b";
    struct tw_zoom z = {
        .front = c->front,
        .base_a = &a,
        .base_b = &b,
        .deadline_ns = tw_patience_ends_ns(&tw_patience_for_a_zoom, c->natural_s),
        .quiet = c->args.quiet,
    };
    if (tw_zoom_run(v, &z, &err) != 0)
        tw_front_trouble(c->front, &err, "isolate: a zoom failed, the search goes on without it");
    c->interrupted |= tw_front_stops(c->front);
    tw_zoom_free(&z);
    twin_world_plan_free(&p);
}

static enum twin_search_vote vote_of(const struct twin_verdict *v)
{
    if (v->replay == TWIN_REPLAY_DISAGREES)
        return TWIN_VOTE_OPERATION;
    return v->replay == TWIN_REPLAY_BY_CORE ? TWIN_VOTE_HARDWARE : TWIN_VOTE_UNKNOWN;
}

/* One zoom is enough: a later divergence that begins at the same rank, phase, kind and name is
 * taken for the same operation's. A zoom's answer is kept in its verdict, c->first. */
enum twin_search_vote tw_isolate_replays(struct tw_isolate *c, const struct twin_verdict *v,
                                         const struct twin_run *reference)
{
    const struct twin_world natural = {0};
    const struct twin_finding *f = v->first, *first = c->first ? c->first->first : NULL;
    if (c->arms || !f || !first)
        return TWIN_VOTE_UNKNOWN;
    if (v == c->first)
        zoom_into(c, &natural, c->first, reference);
    bool same = f->phase == first->phase && f->kind == first->kind && f->rank == first->rank &&
                strcmp(f->name, first->name) == 0 && strcmp(f->scope, first->scope) == 0;
    return same ? vote_of(c->first) : TWIN_VOTE_UNKNOWN;
}

/* Runs diverge with every pin on: is it the operation, or one core? Zooms into that pair, under
 * these pins. A pair that is gone gives no vote, which is no evidence. */
int tw_isolate_vote(struct tw_isolate *c, const struct twin_world *w,
                    const struct twin_search_request *q, struct twin_search_result *out,
                    struct twin_error *err)
{
    const struct twin_run *pair[2] = {tw_isolate_find(c, q->reference),
                                      tw_isolate_find(c, q->other)};
    struct twin_compare_options o = tw_isolate_compare_options(c);
    struct twin_verdict *v = NULL;
    *out = (struct twin_search_result){
        .status = TWIN_ENDED_WELL, .layer = -1, .vote = TWIN_VOTE_UNKNOWN, .handle = q->reference};
    if (c->arms || !pair[0] || !pair[1])
        return 0; /* a vote that cannot be made is no evidence */
    int rc = twin_compare(pair, 2, &o, &v, err);
    if (rc == 0)
        zoom_into(c, w, v, pair[0]);
    if (rc == 0) {
        out->vote = vote_of(v);
        memcpy(c->suspect_core, v->replay_core, sizeof c->suspect_core);
    }
    twin_verdict_free(v);
    return rc;
}
