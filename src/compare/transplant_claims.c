/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the claims behind what was set into a run: which steps of a transplanted run showed which
 * origin (called by transplant.c), and what replaying an operation on its recorded inputs gave
 * (called by zoom.c). The form of both is in docs/format/verdict.md; docs and tools that recheck a
 * verdict read them.
 */
#include "claims.h"
#include "evidence.h"

#include <string.h>

/* Steps that are listed of an origin and run; the count says how many there are. */
#define STEPS_LISTED 64u

/* The last part of a run folder's path, by which a claim names the run. */
static const char *folder(const char *dir)
{
    const char *slash = strrchr(dir, '/');
    return slash ? slash + 1 : dir;
}

/* One origin with the steps of this run that showed it; NULL where none did, or no memory. */
static json_t *shown_by(const struct tw_transplanted_run *r, size_t origin)
{
    const struct twin_finding *f = r->origin[origin].finding;
    json_t *steps = json_array();
    uint64_t count = 0;
    for (size_t i = 0; i < r->seen; i++)
        if (r->see[i].origin == origin && count++ < STEPS_LISTED)
            tw_claim_append(&steps, tw_json_count(r->see[i].step));
    if (count == 0) {
        json_decref(steps);
        return NULL;
    }
    return json_pack("{s:s,s:s,s:o,s:o,s:o,s:o}", "phase", twin_phase_name(f->phase), "kind",
                     twin_kind_name(f->kind), "name", tw_json_text(f->name), "scope",
                     tw_json_text(f->scope), "count", tw_json_count(count), "steps", steps);
}

/* The patterns of --ignore go with the claim, because what they leave out was not judged. */
void tw_claim_transplanted(struct tw_cmp *c, const struct tw_transplanted_run *r)
{
    json_t *origins = json_array(), *judged = json_array(), *ignored = json_array();
    for (size_t i = 0; i < r->origins; i++) {
        bool shown = false;
        for (size_t k = 0; k < r->seen; k++)
            shown |= r->see[k].origin == i;
        if (shown)
            tw_claim_append(&origins, shown_by(r, i));
    }
    for (size_t i = 0; i < sizeof r->judged / sizeof r->judged[0]; i++)
        tw_claim_append(&judged, tw_json_count(r->judged[i]));
    for (size_t i = 0; i < c->o->ignore_count; i++)
        tw_claim_append(&ignored, tw_json_text(c->o->ignore[i]));
    tw_claim_add(c, "transplant",
                 json_pack("{s:s,s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "of", "run", "kind",
                           twin_transplant_name(r->kind), "recorded",
                           tw_json_text(folder(r->reference->dir)), "given",
                           tw_json_text(folder(r->run->dir)), "first", tw_json_count(r->first),
                           "steps", tw_json_count(r->steps), "left_out", tw_json_count(r->left_out),
                           "unequal", tw_json_count(r->unequal), "judged", judged, "origins",
                           origins, "ignore", ignored));
}

void tw_claim_replays(struct tw_cmp *c, const struct twin_finding *f, const struct twin_run *a,
                      const struct twin_run *b, const char *call, unsigned replays,
                      unsigned disagree)
{
    json_t *claim = json_pack("{s:s,s:[o,o],s:i,s:o,s:o,s:o}", "of", "replay", "zoom",
                              tw_json_text(folder(a->dir)), tw_json_text(folder(b->dir)), "rank",
                              (int)f->rank, "op", tw_json_text(f->op), "replays",
                              tw_json_count(replays), "disagree", tw_json_count(disagree));
    if (call)
        tw_claim_put(&claim, "call", tw_json_text(call));
    tw_claim_add(c, "transplant", claim);
}
