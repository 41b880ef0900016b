/* SPDX-License-Identifier: Apache-2.0 */
/* Claims behind the numbers of a verdict: the size of the first difference, what parts when, how
 * fast it grows, NaN and Inf. Each of these numbers stands in a sentence of the report, so each is
 * claimed with the record, the steps or the lines that it was computed from; the second reader
 * computes it again. */
#include "claims.h"
#include "evidence.h"
#include "scan.h"

#include <math.h>

/* Of a number and a NaN there is no distance in units of the last place: the claim says so in
 * words. */
static json_t *ulps(const struct twin_finding *f)
{
    return isinf(f->max_ulp) ? json_string("one is NaN") : tw_json_number(f->max_ulp);
}

/* How many elements are NaN or infinite. */
static uint64_t not_finite(const struct twin_stats *s)
{
    return s->nan + s->pos_inf + s->neg_inf;
}

void tw_claim_size(json_t **list, const struct twin_verdict *v)
{
    const struct twin_finding *f = v->first;
    if (!f || f->type != TWIN_FINDING_VALUE || f->kind == TWIN_KIND_STATE || f->elements == 0)
        return;
    /* Of one element each the statistics hold the number itself, which the report quotes. */
    const bool single = f->elements == 1 && f->stats_a.count == 1 && f->stats_b.count == 1 &&
                        !f->stats_a.nan && !f->stats_b.nan;
    json_t *claim = json_pack(
        "{s:s,s:[o,o],s:i,s:[o,o],s:o,s:o,s:o,s:o,s:b}", "claim", "size", "runs",
        v->against ? json_null() : tw_json_count(f->run_a + 1), tw_json_count(f->run_b + 1), "rank",
        (int)f->rank, "at", v->against ? json_null() : tw_claim_evidence(f, &f->at_a),
        tw_claim_evidence(f, &f->at_b), "elements", tw_json_count(f->elements), "changed",
        f->changed_known ? tw_json_count(f->changed) : json_null(), "max_ulp", ulps(f), "rel_l2",
        tw_json_number(f->rel_l2), "exact", (int)f->rel_l2_exact);
    tw_claim_put(
        &claim, "values",
        single ? json_pack("[o,o]", tw_json_number(f->stats_a.sum), tw_json_number(f->stats_b.sum))
               : json_null());
    tw_claim_put(&claim, "not_finite",
                 json_pack("[o,o]", tw_json_count(not_finite(&f->stats_a)),
                           tw_json_count(not_finite(&f->stats_b))));
    if (f->zoom[0] && f->zoom[1])
        tw_claim_put(&claim, "zoom",
                     json_pack("[o,o]", tw_json_text(f->zoom[0]), tw_json_text(f->zoom[1])));
    tw_claim_append(list, claim);
}

/* A claim of one pair of processes to fill in: who they are, how their steps are counted, and what
 * was left out of them. */
static json_t *steps_of(struct tw_cmp *c, const struct tw_scan *s)
{
    json_t *claim = tw_claim_process(c, s->pair);
    tw_claim_put(&claim, "shift", json_integer((json_int_t)s->shift));
    tw_claim_put(&claim, "rules", tw_claim_rules(c, s));
    return claim;
}

void tw_claim_onset(struct tw_cmp *c, const struct tw_scan *s, const struct twin_onset *o,
                    bool every_step)
{
    json_t *claim = steps_of(c, s);
    tw_claim_put(&claim, "what", tw_json_text(o->what));
    tw_claim_put(&claim, "phase", json_string(twin_phase_name(o->phase)));
    tw_claim_put(&claim, "kind", json_string(twin_kind_name(o->kind)));
    tw_claim_put(&claim, "from", tw_json_count(s->step));
    tw_claim_put(&claim, "step", tw_json_count(o->step));
    tw_claim_put(&claim, "every_step", json_boolean(every_step));
    tw_claim_add(c, "then", claim);
}

void tw_claim_printed(struct tw_cmp *c, const char *stream, const struct twin_onset *o,
                      size_t line_a, size_t line_b)
{
    tw_claim_add(c, "then",
                 json_pack("{s:[o,o],s:o,s:s,s:s,s:o,s:o,s:[o,o]}", "runs",
                           tw_json_count(c->run_a + 1), tw_json_count(c->run_b + 1), "what",
                           tw_json_text(o->what), "phase", twin_phase_name(o->phase), "kind",
                           twin_kind_name(o->kind), "step", tw_json_count(o->step), "stream",
                           tw_json_text(stream), "lines", tw_json_count(line_a + 1),
                           tw_json_count(line_b + 1)));
}

void tw_claim_drift(struct tw_cmp *c, const struct tw_scan *s, const char *what, const double *step,
                    size_t points, double factor)
{
    json_t *claim = steps_of(c, s), *steps = json_array();
    for (size_t i = 0; i < points; i++)
        tw_claim_append(&steps, tw_json_count((uint64_t)step[i]));
    tw_claim_put(&claim, "what", json_string(what));
    tw_claim_put(&claim, "steps", steps);
    tw_claim_put(&claim, "factor", tw_json_number(factor));
    tw_claim_add(c, "drift", claim);
}

void tw_claim_nonfinite(struct tw_cmp *c, const struct tw_proc *p, const struct tw_nonfinite_at *at,
                        const size_t *runs, size_t n, size_t have)
{
    json_t *looked = json_array();
    for (size_t i = 0; i < n; i++)
        tw_claim_append(&looked, tw_json_count(runs[i] + 1));
    tw_claim_add(c, "nan",
                 json_pack("{s:o,s:o,s:i,s:o,s:o,s:o,s:s,s:o,s:o,s:o}", "run",
                           tw_json_count(p->run + 1), "looked", looked, "rank", (int)p->rank,
                           "trace", tw_json_text(tw_claim_trace(p)), "step",
                           tw_json_count(at->step), "record", tw_json_count(at->number), "what",
                           at->nan ? "NaN" : "Inf", "kind", json_string(twin_kind_name(at->kind)),
                           "name", tw_json_text(at->name), "have", tw_json_count(have)));
}
