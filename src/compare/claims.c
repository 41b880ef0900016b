/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the sentences of a verdict rest on. Each claim is a word and an object of evidence: run,
 * trace, step, record number, digest, line or file. A stranger can look it up in the recordings;
 * python -m twinrun.recheck does, and shares no code with this room. The words and their fields:
 * docs/format/verdict.md.
 */
#include "claims.h"
#include "evidence.h"
#include "scan.h"

#include <assert.h>
#include <stdlib.h>

/* ---- lines that say the same but for noise */

/* Pairs of lines in the order of the first run. */
static int by_first(const void *x, const void *y)
{
    const size_t *a = x, *b = y;
    return a[0] < b[0] ? -1 : a[0] > b[0];
}

/* Lines are listed as stretches: a job that prints ten thousand of them, each with a time of its
 * own, needs one entry and not ten thousand. */
void tw_claim_noise(struct tw_cmp *c, const char *stream, size_t (*pairs)[2], size_t n)
{
    json_t *list = json_array();
    if (c->quick || n == 0) {
        json_decref(list);
        return;
    }
    qsort(pairs, n, sizeof *pairs, by_first);
    for (size_t i = 0, length; i < n; i += length) { /* [line of a, line of b, how many in a row] */
        length = 1;
        while (i + length < n && pairs[i + length][0] == pairs[i][0] + length &&
               pairs[i + length][1] == pairs[i][1] + length)
            length++;
        tw_claim_append(&list, json_pack("[o,o,o]", tw_json_count(pairs[i][0] + 1),
                                         tw_json_count(pairs[i][1] + 1), tw_json_count(length)));
    }
    tw_claim_add(c, "noise",
                 json_pack("{s:[o,o],s:o,s:o}", "runs", tw_json_count(c->run_a + 1),
                           tw_json_count(c->run_b + 1), "stream", tw_json_text(stream), "lines",
                           list));
}

/* ---- what two runs agree in */

/* The steps of one pair of processes in which nothing differs. A seam of arms is no whole step, so
 * it is not among them. */
static void same_range(struct tw_cmp *c, const struct tw_scan *s)
{
    uint64_t first = s->shift < 0 ? (uint64_t)-s->shift : 0, end = first + s->steps_compared;
    json_t *claim = tw_claim_process(c, s->pair);
    if (s->shift < 0 && c->o->arms)
        first++;
    if (s->found && s->step < end)
        end = s->step;
    const struct twin_trace_info *a = s->pair->a->info, *b = s->pair->b->info;
    tw_claim_put(&claim, "first", tw_json_count(first));
    tw_claim_put(&claim, "steps", tw_json_count(end > first ? end - first : 0));
    tw_claim_put(&claim, "shift", json_integer((json_int_t)s->shift));
    tw_claim_put(&claim, "of",
                 json_pack("[o,o]", tw_json_count(a->steps), tw_json_count(b->steps)));
    tw_claim_put(&claim, "records",
                 json_pack("[o,o]", tw_json_count(a->records), tw_json_count(b->records)));
    tw_claim_put(&claim, "tail", json_boolean(s->tail_compared && !s->found));
    tw_claim_put(&claim, "auxiliary", json_boolean(s->pair->auxiliary));
    tw_claim_put(&claim, "rules", tw_claim_rules(c, s));
    tw_claim_add(c, "same-range", claim);
}

/* What the report lists as "equal before" in the first step that differs, part by part. */
static void equal_in_step(struct tw_cmp *c, const struct tw_scan *s)
{
    json_t *list = json_array(), *claim = tw_claim_process(c, s->pair);
    for (size_t i = 0; i < s->equal_count; i++)
        tw_claim_append(&list, json_pack("{s:s,s:o,s:b}", "what", s->equal[i].label, "records",
                                         tw_json_count(s->equal[i].records), "others",
                                         s->equal[i].others));
    tw_claim_put(&claim, "step", tw_json_count(s->step));
    tw_claim_put(&claim, "shift", json_integer((json_int_t)s->shift));
    tw_claim_put(&claim, "records", tw_json_count(s->equal_records));
    tw_claim_put(&claim, "equal", list);
    tw_claim_put(&claim, "rules", tw_claim_rules(c, s));
    tw_claim_add(c, "equal", claim);
}

void tw_claims_equal(struct tw_cmp *c, const struct tw_scan *s)
{
    equal_in_step(c, s);
}

/* The processes that only one of the two runs has. */
static void without_counterpart(struct tw_cmp *c, const struct tw_side *side)
{
    for (size_t i = 0; i < side->count; i++) {
        const struct tw_proc *p = &side->proc[i];
        if (p->taken)
            continue;
        tw_claim_add(
            c, "only-in",
            json_pack("{s:[o,o],s:o,s:i,s:o,s:o,s:o,s:o}", "runs", tw_json_count(c->run_a + 1),
                      tw_json_count(c->run_b + 1), "run", tw_json_count(side->index + 1), "rank",
                      (int)p->rank, "process", tw_json_text(tw_proc_role(p)), "trace",
                      tw_json_text(tw_claim_trace(p)), "steps", tw_json_count(p->info->steps),
                      "records", tw_json_count(p->info->records)));
    }
}

void tw_claims_of_pair(struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b,
                       const struct tw_scan *scans, size_t n, const struct tw_scan *named)
{
    if (c->quick && !c->judged) /* "within tolerance" is said of every pair */
        return;
    for (size_t i = 0; i < n; i++)
        if (scans[i].pair)
            same_range(c, &scans[i]);
    if (named && !c->quick)
        equal_in_step(c, named);
    without_counterpart(c, a);
    without_counterpart(c, b);
}

/* ---- the verdict's own words, and its findings */

static const char *type_name(enum twin_finding_type t)
{
    _Static_assert(TWIN_FINDING_RANKS == 8, "a further type needs a name here");
    static const char *const names[] = {"value",   "layout", "only-a", "only-b", "order",
                                        "outcome", "output", "file",   "ranks"};
    return (size_t)t < sizeof names / sizeof names[0] ? names[t] : "?";
}

/* The word of the claim that a finding is. A record with a role is an origin or a carrier; one
 * without is just what differs first. */
static const char *claim_of(const struct twin_finding *f, bool benign)
{
    switch (f->type) {
    case TWIN_FINDING_OUTCOME: return "outcome";
    case TWIN_FINDING_RANKS: return "outcome";
    case TWIN_FINDING_OUTPUT:
    case TWIN_FINDING_FILE: return benign ? "noise" : "artifact";
    case TWIN_FINDING_ORDER: return "order-only";
    case TWIN_FINDING_ONLY_A:
    case TWIN_FINDING_ONLY_B: return "only-in";
    default: break;
    }
    if (f->role == TWIN_ORIGIN)
        return "origin";
    return f->role == TWIN_CARRIER ? "carrier" : "first";
}

/* `against`: the reference is a baseline, of which no recording is at hand; the other side is the
 * only run. */
static json_t *from_finding(const struct twin_finding *f, bool first, bool benign, bool against)
{
    assert((unsigned)f->role <= TWIN_CARRIER);
    static const char *const roles[] = {
        [TWIN_ROLE_UNKNOWN] = "unknown", [TWIN_ORIGIN] = "origin", [TWIN_CARRIER] = "carrier"};
    json_t *claim = json_pack(
        "{s:s,s:[o,o],s:b,s:s,s:[o,o]}", "claim", claim_of(f, benign), "runs",
        against ? json_null() : tw_json_count(f->run_a + 1), tw_json_count(f->run_b + 1), "first",
        first, "type", type_name(f->type), "at",
        against ? json_null() : tw_claim_evidence(f, &f->at_a), tw_claim_evidence(f, &f->at_b));
    tw_claim_put(&claim, "text", tw_json_text(f->text));
    tw_claim_put(&claim, "name", tw_json_text(f->record ? f->record : f->name));
    if (!tw_claim_is_record(f))
        return claim;
    if (f->zoom[0] && f->zoom[1])
        tw_claim_put(&claim, "zoom",
                     json_pack("[o,o]", tw_json_text(f->zoom[0]), tw_json_text(f->zoom[1])));
    tw_claim_put(&claim, "role", json_string(roles[f->role]));
    tw_claim_put(&claim, "rank", json_integer(f->rank));
    tw_claim_put(&claim, "process", tw_json_text(f->process));
    tw_claim_put(&claim, "step",
                 json_pack("[o,o]", tw_json_count(f->step_a), tw_json_count(f->step_b)));
    tw_claim_put(&claim, "phase",
                 json_string(twin_phase_name(f->record ? TWIN_PHASE_KERNEL : f->phase)));
    tw_claim_put(&claim, "kind", json_string(twin_kind_name(f->record ? f->record_kind : f->kind)));
    tw_claim_put(&claim, "scope", tw_json_text(f->record_scope ? f->record_scope : f->scope));
    json_t *inputs = json_array();
    for (size_t i = 0; i < f->input_count; i++)
        tw_claim_append(&inputs, json_pack("[o,o]", tw_claim_evidence(f, &f->input[i].a),
                                           tw_claim_evidence(f, &f->input[i].b)));
    tw_claim_put(&claim, "inputs", inputs);
    return claim;
}

/* The verdict itself: its word, and how many runs, steps and records it rests on. */
static json_t *headline(const struct twin_verdict *v)
{
    return json_pack("{s:s,s:s,s:s,s:o,s:o,s:o,s:o,s:o,s:b}", "claim", "verdict", "outcome",
                     twin_verdict_name(v->outcome), "bitwise", twin_verdict_name(v->bitwise),
                     "runs", tw_json_count(v->runs), "comparisons", tw_json_count(v->comparisons),
                     "differing", tw_json_count(v->differing), "steps",
                     tw_json_count(v->steps_compared), "records",
                     tw_json_count(v->records_compared), "against", v->against != NULL);
}

/* A rule of the tolerance file, in the file's order, and what it judged. */
static json_t *rule_of(const struct twin_rule_use *r, size_t number, bool against)
{
    return json_pack("{s:s,s:o,s:o,s:f,s:f,s:f,s:f,s:f,s:o,s:o,s:o,s:o,s:o,s:o,s:b}", "claim",
                     "rule", "number", tw_json_count(number), "pattern", tw_json_text(r->pattern),
                     "rel_l2", r->rel_l2, "abs", r->abs, "rtol", r->rtol, "atol", r->atol, "ulp",
                     r->ulp, "matched", tw_json_count(r->matched), "measured",
                     tw_json_count(r->measured), "unmeasured", tw_json_count(r->unmeasured),
                     "outside", tw_json_count(r->outside), "worst", tw_claim_share(r->worst),
                     "where", r->where ? tw_json_text(r->where) : json_null(), "against", against);
}

/* One class of runs that agree, and where it leaves the usual one. */
static json_t *class_of(const struct twin_class *k)
{
    json_t *runs = json_array();
    for (size_t i = 0; i < k->members; i++)
        tw_claim_append(&runs, tw_json_count(k->runs[i] + 1));
    return json_pack("{s:s,s:o,s:o}", "claim", "class", "runs", runs, "parts_at_step",
                     k->parts_at_step < 0 ? json_null()
                                          : json_integer((json_int_t)k->parts_at_step));
}

/* How many of the comparisons differed, and the bounds that follow from that. */
static json_t *rate_of(const struct twin_verdict *v)
{
    return json_pack("{s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "claim", "rate", "comparisons",
                     tw_json_count(v->comparisons), "differing", tw_json_count(v->differing),
                     "rate", tw_json_number(v->rate), "low", tw_json_number(v->rate_low), "high",
                     tw_json_number(v->rate_high), "upper", tw_json_number(v->p_diverge_upper),
                     "confidence", tw_json_number(v->confidence));
}

/* A stretch of steps of which records were dropped. */
static json_t *lost_in(const struct twin_gap_range *g)
{
    return json_pack("{s:s,s:i,s:o,s:o,s:o}", "claim", "lost", "rank", (int)g->rank, "first",
                     tw_json_count(g->first_step), "last", tw_json_count(g->last_step), "records",
                     tw_json_count(g->records));
}

/* Which pins the runs were made under, and whether each was in force. */
static json_t *pinned_of(const struct twin_pinned *p)
{
    return json_pack("{s:s,s:o,s:o,s:b}", "claim", "pinned", "factors", tw_json_split(p->factors),
                     "search", tw_json_text(p->search), "held", p->held);
}

/* One claim that was made while comparing: its word goes in front of its evidence. */
static json_t *collected(const struct twin_claim *k)
{
    json_t *object = json_pack("{s:s}", "claim", k->kind);
    json_t *fields = json_loads(k->evidence, 0, NULL);
    if (object && fields && json_object_update(object, fields) == 0) {
        json_decref(fields);
        return object;
    }
    json_decref(fields);
    json_decref(object);
    return NULL;
}

/* The first difference, the other origins, and what is benign. Of runs that all failed no
 * difference is called the first, but what differed between them is said and so must be claimed. */
static void append_findings(json_t **list, const struct twin_verdict *v)
{
    if (v->first)
        tw_claim_append(list, from_finding(v->first, true, false, v->against));
    for (size_t i = v->first ? 1 : 0; i < v->origin_count; i++)
        tw_claim_append(list, from_finding(&v->origins[i], false, false, v->against));
    for (size_t i = 0; i < v->benign_count; i++)
        tw_claim_append(list, from_finding(&v->benign[i], false, true, v->against));
}

/* Claims made while comparing stand in front of those that the finished verdict yields. */
int twin_verdict_claims(const struct twin_verdict *v, char **out, struct twin_error *err)
{
    json_t *list = json_array();
    tw_claim_append(&list, headline(v));
    if (v->pinned)
        tw_claim_append(&list, pinned_of(v->pinned));
    for (size_t i = 0; i < v->claim_count; i++)
        tw_claim_append(&list, collected(&v->claims[i]));
    append_findings(&list, v);
    tw_claim_size(&list, v);
    for (size_t i = 0; i < v->class_count; i++)
        tw_claim_append(&list, class_of(&v->classes[i]));
    if (v->comparisons && !v->against)
        tw_claim_append(&list, rate_of(v));
    for (size_t i = 0; i < v->rule_count; i++)
        tw_claim_append(&list, rule_of(&v->rules[i], i + 1, v->against));
    for (size_t i = 0; i < v->gap_count; i++)
        tw_claim_append(&list, lost_in(&v->gaps[i]));
    for (size_t i = 0; i < v->unseen_count; i++)
        tw_claim_append(
            &list, json_pack("{s:s,s:o}", "claim", "unseen", "text", tw_json_text(v->unseen[i])));
    for (size_t i = 0; i < v->note_count; i++)
        tw_claim_append(&list,
                        json_pack("{s:s,s:o}", "claim", "note", "text", tw_json_text(v->notes[i])));
    char *dumped = list ? json_dumps(list, JSON_COMPACT) : NULL;
    json_decref(list);
    *out = dumped ? tw_strdup(dumped) : NULL;
    free(dumped);
    return *out ? 0 : tw_no_memory(err, "listing the claims of a verdict");
}
