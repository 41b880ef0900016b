/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How one claim is made: the JSON values that it consists of, the evidence that it names (a record,
 * a line, a file), what a claim of two processes begins with, and the list of those that were made
 * while comparing. Which claims there are: claims.c, claims_numbers.c and whoever else adds one.
 */
#include "claims.h"
#include "evidence.h"
#include "scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A share of what a tolerance allows; -1 stands for "nothing was measured", which is null here. */
json_t *tw_claim_share(double share)
{
    return share < 0 ? json_null() : tw_json_number(share);
}

/* A NULL value, or no object, makes *object NULL for good: one check at the end finds that memory
 * ran out. */
void tw_claim_put(json_t **object, const char *key, json_t *value)
{
    if (*object && value && json_object_set(*object, key, value) == 0) {
        json_decref(value);
        return;
    }
    json_decref(value);
    json_decref(*object);
    *object = NULL;
}

/* The same for a list: NULL stays NULL, and one check at the end is enough. */
void tw_claim_append(json_t **list, json_t *item)
{
    if (*list && item && json_array_append(*list, item) == 0) {
        json_decref(item);
        return;
    }
    json_decref(item);
    json_decref(*list);
    *list = NULL;
}

/* ---- evidence */

/* A trace's path as it stands below its run folder. */
const char *tw_claim_trace(const struct tw_proc *p)
{
    const char *slash = strrchr(p->path, '/');
    while (slash && slash > p->path && slash[-1] != '/')
        slash--;
    return slash ? slash : p->path;
}

void tw_evidence_set(struct twin_evidence *e, const struct tw_view *v, const struct tw_rec *r)
{
    snprintf(e->file, sizeof e->file, "%s", tw_claim_trace(v->proc));
    e->step = r->step;
    e->number = r->seq;
    e->digest = r->digest;
}

void tw_evidence_link(struct twin_evidence *e, const struct tw_view *v, uint64_t link)
{
    snprintf(e->file, sizeof e->file, "%s", tw_claim_trace(v->proc));
    /* A link is the step in its upper half and the record's number in its lower. */
    e->step = (uint32_t)(link >> 32);
    e->number = (uint32_t)link;
    for (size_t i = 0; i < v->count; i++)
        if (v->rec[i].step == e->step && v->rec[i].seq == e->number)
            e->digest = v->rec[i].digest;
}

void tw_evidence_line(struct twin_evidence *e, const char *file, size_t line)
{
    snprintf(e->file, sizeof e->file, "%s", file);
    e->number = (uint32_t)(line < UINT32_MAX ? line + 1 : 0);
}

bool tw_claim_is_record(const struct twin_finding *f)
{
    return f->type <= TWIN_FINDING_ORDER;
}

/* Where a finding shows in one run: a record, a line, or a file as a whole; null: nowhere in this
 * run. */
json_t *tw_claim_evidence(const struct twin_finding *f, const struct twin_evidence *e)
{
    if (!e->file[0])
        return json_null();
    if (tw_claim_is_record(f))
        return json_pack("{s:o,s:o,s:o,s:o}", "file", tw_json_text(e->file), "step",
                         tw_json_count(e->step), "record", tw_json_count(e->number), "digest",
                         tw_json_128(e->digest.a, e->digest.b));
    if (f->type == TWIN_FINDING_OUTPUT)
        return json_pack("{s:o,s:o}", "file", tw_json_text(e->file), "line",
                         tw_json_count(e->number));
    return json_pack("{s:o}", "file", tw_json_text(e->file));
}

/* ---- what a claim of two processes begins with */

json_t *tw_claim_process(const struct tw_cmp *c, const struct tw_pair *p)
{
    json_t *claim = json_pack("{s:[o,o],s:i,s:o,s:[o,o]}", "runs", tw_json_count(c->run_a + 1),
                              tw_json_count(c->run_b + 1), "rank", (int)p->a->rank, "process",
                              tw_json_text(tw_proc_role(p->a)), "traces",
                              tw_json_text(tw_claim_trace(p->a)),
                              tw_json_text(tw_claim_trace(p->b)));
    if (c->zoom[0] && c->zoom[1])
        tw_claim_put(&claim, "zoom",
                     json_pack("[o,o]", tw_json_text(c->zoom[0]), tw_json_text(c->zoom[1])));
    return claim;
}

/*
 * The rules by which records may be left out of "equal"; the second reader knows each by its name.
 */
json_t *tw_claim_rules(const struct tw_cmp *c, const struct tw_scan *s)
{
    json_t *list = json_array();
    tw_claim_append(&list, json_string("idle-generators"));
    tw_claim_append(&list, json_string("set-generators"));
    if (c->o->arms)
        tw_claim_append(&list, json_string("insertions"));
    if (s->weights_only)
        tw_claim_append(&list, json_string("only-weights"));
    if (s->gradients)
        tw_claim_append(&list, json_string("with-gradients"));
    if (s->moments)
        tw_claim_append(&list, json_string("with-moments"));
    if (s->pair->b->as)
        tw_claim_append(&list, json_string("ranks-by-role"));
    if (s->added_up)
        tw_claim_append(&list, json_string("parts-of-ranks"));
    if (s->recut)
        tw_claim_append(&list, json_string("steps-of-threads"));
    if (s->cut)
        tw_claim_append(&list, json_string("threads-cut"));
    if (s->scheduled)
        tw_claim_append(&list, json_string("order-of-threads"));
    if (s->unread)
        tw_claim_append(&list, json_string("unread"));
    if (s->undecided)
        tw_claim_append(&list, json_string("dropped"));
    if (s->elsewhere)
        tw_claim_append(&list, json_string("parts-in-turns"));
    if (s->reordered)
        tw_claim_append(&list, json_string("order-of-parameters"));
    for (size_t i = 0; i < c->o->ignore_count; i++)
        tw_claim_append(&list, json_pack("{s:o}", "ignore", tw_json_text(c->o->ignore[i])));
    return list;
}

/* ---- the list */

/* Takes the evidence; NULL means that there was no memory for it. */
void tw_claim_add(struct tw_cmp *c, const char *kind, json_t *evidence)
{
    struct tw_claims *list = &c->claims;
    char *dumped = evidence ? json_dumps(evidence, JSON_COMPACT) : NULL;
    json_decref(evidence);
    if (!dumped) {
        c->oom = true;
        return;
    }
    if (tw_cmp_room(c, &list->claim, list->n, &list->room, sizeof *list->claim)) {
        struct twin_claim *claim = &list->claim[list->n];
        claim->kind = tw_cmp_copy(c, kind);
        claim->evidence = tw_cmp_copy(c, dumped);
        if (claim->kind && claim->evidence) {
            list->n++;
        } else {
            tw_free(claim->kind);
            tw_free(claim->evidence);
        }
    }
    free(dumped);
}

void tw_claims_append(struct tw_cmp *c)
{
    struct twin_verdict *v = c->v;
    size_t n = v->claim_count + c->claims.n;
    struct twin_claim *grown = c->claims.n ? tw_reallocarray(v->claims, n, sizeof *grown) : NULL;
    if (grown) {
        memcpy(grown + v->claim_count, c->claims.claim, c->claims.n * sizeof *grown);
        v->claims = grown;
        v->claim_count = n;
        c->claims.n = 0;
    }
    c->oom |= c->claims.n > 0;
    tw_claims_free(c->claims.claim, c->claims.n);
    c->claims = (struct tw_claims){0};
}

void tw_claims_free(struct twin_claim *claim, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        tw_free(claim[i].kind);
        tw_free(claim[i].evidence);
    }
    tw_free(claim);
}
