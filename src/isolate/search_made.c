/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runs that a search has made, and what all parts of it need to make and compare one: the list
 * of kept runs, found again by their handles, what the log does not say of each, the options of a
 * launch and of a comparison. The files of arms, votes, clocks and runs stand on this one.
 */
#include "search_runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 0 means "no run" in the search, so an id that would give it gets 1. */
uint64_t tw_isolate_handle(const struct twin_run *r)
{
    char first[17];
    snprintf(first, sizeof first, "%.16s", r->id);
    uint64_t handle = strtoull(first, NULL, 16);
    return handle ? handle : 1;
}

int tw_isolate_keep(struct tw_isolate *c, struct twin_run *r)
{
    struct tw_isolate_run *grown = tw_reallocarray(c->runs, c->run_count + 1, sizeof *grown);
    if (!grown)
        return TWIN_ENOMEM;
    c->runs = grown;
    c->runs[c->run_count++] = (struct tw_isolate_run){tw_isolate_handle(r), r};
    return 0;
}

/* Runs of an interrupted search are loaded from their folders when they are first asked for. */
const struct twin_run *tw_isolate_find(struct tw_isolate *c, uint64_t handle)
{
    char **dirs = NULL;
    size_t count = 0;
    struct twin_run *found = NULL;
    for (size_t i = 0; i < c->run_count; i++)
        if (c->runs[i].handle == handle)
            return c->runs[i].run;
    if (twin_run_list(c->home, &dirs, &count, NULL) != 0)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        struct twin_run *r = NULL;
        if (!found && twin_run_load(dirs[i], &r, NULL) == 0 && tw_isolate_handle(r) == handle &&
            tw_isolate_keep(c, r) == 0)
            found = r;
        else
            twin_run_free(r);
        tw_free(dirs[i]);
    }
    tw_free(dirs);
    return found;
}

const struct twin_run *tw_isolate_failed(const struct tw_isolate *c, uint32_t *number)
{
    *number = 0;
    for (size_t i = 0; i < c->log.count; i++) {
        const struct twin_search_entry *e = &c->log.entry[i];
        for (size_t k = 0; e->result.status == TWIN_ENDED_BADLY && k < c->run_count; k++) {
            if (c->runs[k].handle != e->result.handle)
                continue;
            *number = e->number;
            return c->runs[k].run;
        }
    }
    return NULL;
}

/* From the end, since a run that was made once more (at another level) has the later entry. */
const struct tw_isolate_made *tw_isolate_made(const struct tw_isolate *c, uint32_t number)
{
    for (size_t i = c->made_count; i-- > 0;)
        if (c->made[i].number == number)
            return &c->made[i];
    return NULL;
}

int tw_isolate_made_add(struct tw_isolate *c, const struct tw_isolate_made *m)
{
    struct tw_isolate_made *grown = tw_reallocarray(c->made, c->made_count + 1, sizeof *grown);
    if (!grown)
        return TWIN_ENOMEM;
    c->made = grown;
    c->made[c->made_count++] = *m;
    return 0;
}

/* Of two arms a value other than 0 means "as in B", which is not pinned. */
struct twin_search_set tw_isolate_pinned(const struct tw_isolate *c,
                                         const struct twin_search_request *q)
{
    struct twin_search_set set = {{0}};
    for (size_t i = 0; i < c->count; i++)
        if (q->setting[i].mode == TWIN_PIN && !(c->arms && q->setting[i].value))
            set.word[i / 64] |= UINT64_C(1) << i % 64;
    return set;
}

/* ---- how runs are made and compared */

struct twin_launch_options tw_isolate_launch_options(const struct tw_isolate *c, const char *label)
{
    return (struct twin_launch_options){
        .argv = c->argv,
        .home = c->home,
        .label = label,
        .level = c->level,
        .agents = true,
        .max_steps = (uint32_t)c->args.steps,
        .window_last = UINT32_MAX,
        .fresh_dir = c->args.fresh_dir,
        .stdin_spool = c->spool,
        .on = c->on,
        .data = c->data.item,
        .data_count = c->data.count,
    };
}

int tw_isolate_make(struct tw_isolate *c, struct tw_trial *t, const struct twin_launch_options *o,
                    struct twin_error *err)
{
    int rc = tw_trial_make(t, o, err);
    c->interrupted |= rc == TWIN_EINTR || t->end == TW_TRIAL_INTERRUPTED;
    return rc;
}

bool tw_isolate_stops(const struct tw_isolate *c)
{
    return c->interrupted || tw_front_stops(c->front);
}

struct twin_compare_options tw_isolate_compare_options(const struct tw_isolate *c)
{
    return (struct twin_compare_options){
        .steps_given = c->args.steps > 0,
        .steps = (uint32_t)c->args.steps,
        .arms = c->args.a != NULL,
        .find_shift = c->args.a != NULL,
        .ignore = c->args.ignore.items,
        .ignore_count = c->args.ignore.count,
    };
}

bool tw_isolate_parted(const struct tw_isolate *c, const struct twin_verdict *v)
{
    return v->outcome == TWIN_DIFFER || (c->args.text && v->unjudged);
}
