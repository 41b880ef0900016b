/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the order of ranks (frontier.c) says in a verdict: who took the difference from whom and by
 * which message or call, which rank diverged before another one although its steps say otherwise,
 * and where that could not be told. Each is claimed, so that it can be looked up.
 */
#include "claims.h"

#include "phrase.h"
#include "scan.h"

#include <stdio.h>
#include <string.h>

enum { RANKS_NAMED = 16, NOTES_MOST = 8, CLAIMS_MOST = 256 };

/* "0, 2, 3": the ranks of items that took it by the same message or call as item `like`. Returns
 * how many there are. */
static size_t list_ranks(struct tw_buf *text, const struct twin_rank_order *o, size_t like)
{
    const struct twin_ranked *x = &o->item[like];
    size_t n = 0;
    for (size_t i = 0; i < o->count; i++) {
        const struct twin_ranked *r = &o->item[i];
        if (r->place != TWIN_RANK_CARRIED || r->from != x->from || r->number_a != x->number_a ||
            strcmp(r->by, x->by) != 0 || strcmp(r->scope, x->scope) != 0 || (x->message && r != x))
            continue;
        if (n < RANKS_NAMED)
            tw_buf_printf(text, "%s%d", n ? ", " : "", r->rank);
        else if (n == RANKS_NAMED)
            tw_buf_puts(text, ", ...");
        n++;
    }
    return n;
}

/* Is item i the first of those that took it by the same message or call? */
static bool is_first_of_its_kind(const struct twin_rank_order *o, size_t i)
{
    const struct twin_ranked *x = &o->item[i];
    for (size_t k = 0; k < i && !x->message; k++) {
        const struct twin_ranked *r = &o->item[k];
        if (r->place == TWIN_RANK_CARRIED && !r->message && r->from == x->from &&
            r->number_a == x->number_a && strcmp(r->by, x->by) == 0 &&
            strcmp(r->scope, x->scope) == 0)
            return false;
    }
    return true;
}

/* Who took it from whom: a note for each message or call. */
static void tell_carried(struct tw_cmp *c, const struct twin_rank_order *o)
{
    size_t notes = 0, left = 0;
    for (size_t i = 0; i < o->count; i++) {
        const struct twin_ranked *r = &o->item[i];
        struct tw_buf ranks = {0};
        if (r->place != TWIN_RANK_CARRIED || !is_first_of_its_kind(o, i))
            continue;
        if (notes++ >= NOTES_MOST) {
            left++;
            continue;
        }
        const size_t n = list_ranks(&ranks, o, i);
        char other[64] = ""; /* what came before it may differ, so its number may */
        if (r->number_a != r->number_b)
            snprintf(other, sizeof other, " in %s, %u in %s", c->label_a, r->number_b, c->label_b);
        if (!ranks.data || ranks.failed)
            c->oom = true;
        else if (r->message)
            tw_cmp_note(c, "carried to rank %s by message %u%s from rank %d, %.40s, on %s%.120s",
                        ranks.data, r->number_a, other, r->from, r->by,
                        strncmp(r->scope, "MPI_", 4) == 0 ? "" : "group ", r->scope);
        else
            tw_cmp_note(c, "carried to rank%s %s from rank %d by call %u%s of %.120s%s%.120s",
                        tw_plural_s(n), ranks.data, r->from, r->number_a, other, r->by,
                        strncmp(r->by, "MPI_", 4) == 0 ? " on " : ", group ", r->scope);
        tw_buf_free(&ranks);
    }
    if (left)
        tw_cmp_note(c, "carried by %zu more messages or calls: --json lists them", left);
}

/* The rank that steps would have named took it, over one or more ranks, from the one that is. */
static void tell_against_steps(struct tw_cmp *c, const struct twin_rank_order *o,
                               const struct twin_finding *by_steps)
{
    const struct twin_ranked *first = &o->item[0];
    for (size_t i = 1; i < o->count; i++) {
        const struct twin_ranked *r = &o->item[i];
        if (r->rank == by_steps->rank && r->place == TWIN_RANK_CARRIED)
            tw_cmp_note(c,
                        "rank %d diverged in its step %u before rank %d did in its step %u, as "
                        "messages and collectives order them",
                        first->rank, first->step_a, r->rank, r->step_a);
    }
}

/* Several diverged by themselves. */
static void tell_frontier(struct tw_cmp *c, const struct twin_rank_order *o)
{
    struct tw_buf text = {0};
    size_t n = 0;
    for (size_t i = 0; i < o->count; i++) {
        const struct twin_ranked *r = &o->item[i];
        if (r->place != TWIN_RANK_FIRST && r->place != TWIN_RANK_FRONTIER)
            continue;
        if (n < RANKS_NAMED)
            tw_buf_printf(&text, "%s%d (step %u)", n ? ", " : "", r->rank, r->step_a);
        else if (n == RANKS_NAMED)
            tw_buf_puts(&text, ", ...");
        n++;
    }
    if (n > 1 && text.data && !text.failed)
        tw_cmp_note(c, "no message or collective brought what differs to any of these ranks: %s",
                    text.data);
    tw_buf_free(&text);
}

static size_t count_places(const struct twin_rank_order *o, enum twin_rank_place place)
{
    size_t n = 0;
    for (size_t i = 0; i < o->count; i++)
        n += o->item[i].place == place;
    return n;
}

/* ---- claims */

static json_t *record_at(const struct tw_proc *p, uint32_t step, uint32_t record,
                         struct twin_digest digest)
{
    return json_pack("{s:o,s:o,s:o,s:o}", "file", tw_json_text(tw_claim_trace(p)), "step",
                     tw_json_count(step), "record", tw_json_count(record), "digest",
                     tw_json_128(digest.a, digest.b));
}

static void claim_carried(struct tw_cmp *c, const struct tw_frontier *f, size_t i)
{
    const struct twin_ranked *r = &f->order->item[i];
    const struct twin_finding *x = &f->scan[i]->origins.f[0];
    json_t *claim = tw_claim_process(c, f->scan[i]->pair);
    tw_claim_put(&claim, "step",
                 json_pack("[o,o]", tw_json_count(r->step_a), tw_json_count(r->step_b)));
    tw_claim_put(
        &claim, "at",
        json_pack("[o,o]",
                  record_at(f->scan[i]->pair->a, x->at_a.step, x->at_a.number, x->at_a.digest),
                  record_at(f->scan[i]->pair->b, x->at_b.step, x->at_b.number, x->at_b.digest)));
    tw_claim_put(&claim, "from", json_integer(r->from));
    tw_claim_put(&claim, "from_step", tw_json_count(r->from_step));
    tw_claim_put(&claim, "message", json_boolean(r->message));
    tw_claim_put(&claim, "by", tw_json_text(r->by));
    tw_claim_put(&claim, "scope", tw_json_text(r->scope));
    tw_claim_put(&claim, "number",
                 json_pack("[o,o]", tw_json_count(r->number_a), tw_json_count(r->number_b)));
    tw_claim_add(c, "carried", claim);
}

void tw_frontier_tell(struct tw_cmp *c, const struct tw_frontier *f, const struct tw_scan *best)
{
    const struct twin_rank_order *o = f->order;
    if (!o || !o->exchanges || o->count < 2 || c->quick)
        return;
    tell_carried(c, o);
    if (f->first != best)
        tell_against_steps(c, o, &best->origins.f[0]);
    const bool several = count_places(o, TWIN_RANK_FRONTIER) > 0;
    if (several && !f->one_call)
        tell_frontier(c, o);
    if (count_places(o, TWIN_RANK_UNKNOWN) > 0 && !f->one_call)
        tw_cmp_note(c,
                    "which of the ranks diverged first was judged by their steps, since messages "
                    "and collectives do not tell: %s",
                    o->why);
    for (size_t i = 0, claims = 0; i < o->count && claims < CLAIMS_MOST; i++)
        if (o->item[i].place == TWIN_RANK_CARRIED) {
            claim_carried(c, f, i);
            claims++;
        }
}
