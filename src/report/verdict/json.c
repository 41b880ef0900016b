/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verdict as JSON, schema twinrun.check/1: one object in one line, for --json and for
 * verdict.json in the run folder. Fields may be added, never renamed; what is not known is null or
 * absent, and NaN becomes null (tw_json_number).
 *
 * A NULL json_t (no memory) travels through jansson's packing calls and ends in TWIN_ENOMEM, so the
 * functions here need not check every value. Each returns a new value, which the caller's packing
 * takes; NULL: no memory.
 */
#include "wording.h"

#include "json_text.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lines of a text as a list: "a\nb" gives ["a", "b"]. NULL: no memory. */
static json_t *lines(const char *s)
{
    json_t *list = json_array();
    while (list && *s) {
        size_t n = strcspn(s, "\n");
        char *line = tw_strndup(s, n);
        int rc = line ? json_array_append_new(list, tw_json_text(line)) : -1;
        tw_free(line);
        if (rc != 0) {
            json_decref(list);
            return NULL;
        }
        s += n + (s[n] == '\n');
    }
    return list;
}

/* Digest and statistics of one side. count 0: no statistics were recorded, the digest alone is
 * given. */
static json_t *stats(const struct twin_stats *s, struct twin_digest d)
{
    if (s->count == 0)
        return json_pack("{s:o}", "digest", tw_json_128(d.a, d.b));
    return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "digest", tw_json_128(d.a, d.b),
                     "count", tw_json_count(s->count), "nan", tw_json_count(s->nan), "pos_inf",
                     tw_json_count(s->pos_inf), "neg_inf", tw_json_count(s->neg_inf), "zeros",
                     tw_json_count(s->zeros), "min", tw_json_number(s->min), "max",
                     tw_json_number(s->max), "sum", tw_json_number(s->sum), "norm",
                     tw_json_number(sqrt(s->sumsq)));
}

/* By enum twin_finding_type. */
static const char *type_name(enum twin_finding_type t)
{
    _Static_assert(TWIN_FINDING_RANKS == 8, "a further type needs a name here");
    static const char *const names[] = {"value",   "layout", "only-a", "only-b", "order",
                                        "outcome", "output", "file",   "ranks"};
    return (size_t)t < sizeof names / sizeof names[0] ? names[t] : "?";
}

/* "unknown" is said, too: it is an answer, and not the same as absent. */
static const char *role_word(const struct twin_finding *f)
{
    if (f->role == TWIN_ORIGIN)
        return "origin";
    return f->role == TWIN_CARRIER ? "carrier" : "unknown";
}

/* One finding: what readers need at its top, the numbers in "detail". "a" and "b" are there for the
 * sides that have a record. */
static json_t *finding_json(const struct twin_finding *f)
{
    const char *role = role_word(f);
    bool record = tw_is_record(f);
    json_t *detail = json_pack(
        "{s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:b}", "type", type_name(f->type), "step_b",
        tw_json_count(f->step_b), "process", tw_json_text(f->process), "scope",
        tw_json_text(f->scope), "occurrence", tw_json_count(f->occurrence), "text",
        tw_json_text(f->text), "elements", record ? tw_json_count(f->elements) : json_null(),
        "changed", f->changed_known ? tw_json_count(f->changed) : json_null(), "max_ulp",
        tw_json_number(f->max_ulp), "rel_l2", tw_json_number(f->rel_l2), "rel_l2_exact",
        f->rel_l2_exact);
    /* a baseline may keep no more than a hash: then there is nothing to show of that side */
    bool known = f->digest_a.a || f->digest_a.b || f->stats_a.count;
    if (detail && record && known && f->type != TWIN_FINDING_ONLY_B &&
        json_object_set_new(detail, "a", stats(&f->stats_a, f->digest_a)) != 0) {
        json_decref(detail);
        detail = NULL;
    }
    if (detail && record && f->type != TWIN_FINDING_ONLY_A &&
        json_object_set_new(detail, "b", stats(&f->stats_b, f->digest_b)) != 0) {
        json_decref(detail);
        detail = NULL;
    }
    /* between which two records the origin must lie; null when that is not known, or the role is */
    json_t *between = f->between[0] && f->between[1]
                          ? json_pack("[o,o]", tw_json_text(f->between[0]),
                                      tw_json_text(f->between[1]))
                          : json_null();
    return json_pack(
        "{s:o,s:i,s:s,s:s,s:o,s:o,s:s,s:o,s:o,s:o,s:o}", "step", tw_json_count(f->step_a), "rank",
        (int)f->rank, "phase", twin_phase_name(f->phase), "kind", twin_kind_name(f->kind), "name",
        tw_json_text(f->name), "layer", tw_json_text(f->layer), "role", role, "between", between,
        "op", tw_json_text(f->op), "source", lines(f->site), "detail", detail);
}

/* A list of findings. */
static json_t *findings_json(const struct twin_finding *f, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < n; i++)
        if (json_array_append_new(list, finding_json(&f[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* Adds a field; a NULL value, or no object, makes *object NULL for good. */
static void add_field(json_t **object, const char *key, json_t *value)
{
    if (!*object) {
        json_decref(value);
        return;
    }
    if (json_object_set_new(*object, key, value) != 0) {
        json_decref(*object);
        *object = NULL;
    }
}

/* What was transplanted and how far that went; null for runs that were not. */
static json_t *transplanted(const struct twin_transplant *t)
{
    return t ? json_pack("{s:s,s:[o,o],s:o,s:o,s:o,s:o,s:b}", "kind", twin_transplant_name(t->kind),
                         "window", tw_json_count(t->first), tw_json_count(t->last), "runs",
                         tw_json_count(t->runs), "steps", tw_json_count(t->steps), "unequal",
                         tw_json_count(t->unequal), "left_out", tw_json_count(t->left_out),
                         "stopped", t->stopped)
             : json_null();
}

/* The frontier at the first difference; of transplanted runs every origin with its rate. */
static json_t *origins_json(const struct twin_verdict *v)
{
    if (!v->transplant)
        return findings_json(v->origins, v->origin_count);
    json_t *list = json_array();
    for (size_t i = 0; list && i < v->transplant->origin_count; i++) {
        const struct twin_origin *o = &v->transplant->origin[i];
        json_t *item = finding_json(o->finding);
        add_field(&item, "steps_differing", tw_json_count(o->steps_differing));
        add_field(&item, "steps", tw_json_count(o->steps));
        add_field(&item, "runs_differing", tw_json_count(o->runs_differing));
        add_field(&item, "rate", tw_json_number(o->rate));
        add_field(&item, "low", tw_json_number(o->low));
        add_field(&item, "high", tw_json_number(o->high));
        if (json_array_append_new(list, item) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* How many ranks each run was to have (check --ranks). */
static json_t *ranks_of(const struct twin_verdict *v)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < v->runs; i++)
        if (json_array_append_new(list, tw_json_count(v->ranks[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* When each kind of thing first differs. */
static json_t *onsets(const struct twin_verdict *v)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < v->onset_count; i++) {
        const struct twin_onset *o = &v->onsets[i];
        json_t *item = json_pack("{s:o,s:s,s:s,s:o}", "what", tw_json_text(o->what), "phase",
                                 twin_phase_name(o->phase), "kind", twin_kind_name(o->kind), "step",
                                 tw_json_count(o->step));
        if (json_array_append_new(list, item) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* Runs that agree among themselves, as indices from 0. parts_at_step is null for the usual
 * class. */
static json_t *classes(const struct twin_verdict *v)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < v->class_count; i++) {
        json_t *runs = json_array();
        for (size_t k = 0; runs && k < v->classes[i].members; k++)
            json_array_append_new(runs, tw_json_count(v->classes[i].runs[k]));
        json_t *step = v->classes[i].parts_at_step < 0 ? json_null()
                                                       : json_integer(v->classes[i].parts_at_step);
        if (json_array_append_new(list, json_pack("{s:o,s:o,s:b}", "runs", runs, "parts_at_step",
                                                  step, "unsure", (int)v->classes[i].unsure)) !=
            0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* A rank that differs, and what brought it there; `number` counts in each run from 1. */
static json_t *ranked(const struct twin_ranked *r)
{
    json_t *item = json_pack("{s:i,s:s,s:o,s:o,s:s,s:o}", "rank", (int)r->rank, "place",
                             twin_rank_place_name(r->place), "step", tw_json_count(r->step_a),
                             "step_b", tw_json_count(r->step_b), "kind", twin_kind_name(r->kind),
                             "name", tw_json_text(r->name));
    if (r->place != TWIN_RANK_CARRIED)
        return item;
    add_field(&item, "from", json_integer(r->from));
    add_field(&item, "from_step", tw_json_count(r->from_step));
    add_field(&item, "message", json_boolean(r->message));
    add_field(&item, "by", tw_json_text(r->by));
    add_field(&item, "scope", tw_json_text(r->scope));
    add_field(&item, "number",
              json_pack("[o,o]", tw_json_count(r->number_a), tw_json_count(r->number_b)));
    return item;
}

/* The ranks that differ, in causal order as far as that is known; null for jobs of one rank. */
static json_t *order_json(const struct twin_rank_order *o)
{
    json_t *list = json_array();
    for (size_t i = 0; list && o && i < o->count; i++)
        if (json_array_append_new(list, ranked(&o->item[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    if (o)
        return json_pack("{s:b,s:o,s:o,s:o}", "known", (int)o->known, "why",
                         o->known ? json_null() : tw_json_text(o->why), "ranks",
                         tw_json_count(o->ranks), "differing", list);
    json_decref(list);
    return json_null();
}

/* What of each process was compared; steps as run 1 counts them, but b_first and b_of. last: null
 * when that is nothing. */
static json_t *ranges(const struct twin_verdict *v)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < v->range_count; i++) {
        const struct twin_range *r = &v->ranges[i];
        json_t *last = r->end > r->first ? tw_json_count(r->end - 1) : json_null();
        json_t *item = json_pack(
            "{s:i,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:b}", "rank", (int)r->rank, "process",
            tw_json_text(r->process), "number_a", tw_json_count(r->number_a), "number_b",
            tw_json_count(r->number_b), "first", tw_json_count(r->first), "last", last, "of",
            tw_json_count(r->of), "b_first", tw_json_count(r->first_b), "b_of",
            tw_json_count(r->of_b), "records", tw_json_count(r->records), "of_records",
            tw_json_count(r->of_records), "whole", (int)r->whole);
        if (json_array_append_new(list, item) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* How much of run 1 was compared, in steps and records. More records than run 1 has are a share
 * of 1. */
static json_t *coverage(const struct twin_verdict *v)
{
    double share = v->records_a ? (double)v->records_compared / (double)v->records_a : NAN;
    return json_pack("{s:o,s:o,s:o,s:o,s:o}", "steps", tw_json_count(v->steps_compared), "of_steps",
                     tw_json_count(v->steps_a), "records", tw_json_count(v->records_compared),
                     "of_records", tw_json_count(v->records_a), "share",
                     tw_json_number(share > 1 ? 1 : share));
}

/* Stretches in which records were lost. */
static json_t *gaps(const struct twin_verdict *v)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < v->gap_count; i++) {
        const struct twin_gap_range *g = &v->gaps[i];
        json_t *item = json_pack("{s:i,s:o,s:o,s:o}", "rank", (int)g->rank, "first_step",
                                 tw_json_count(g->first_step), "last_step",
                                 tw_json_count(g->last_step), "records", tw_json_count(g->records));
        if (json_array_append_new(list, item) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* The folders of the runs, the reference first. */
static json_t *dirs(const struct twin_report *r)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < r->run_count; i++)
        if (json_array_append_new(list, tw_json_text(r->runs[i]->dir)) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* Where an engine made each run, in the order of runs_dir; NULL: none of them was made by one. */
static json_t *nodes_json(const struct twin_report *r)
{
    json_t *list = json_array();
    bool any = false;
    for (size_t i = 0; list && i < r->run_count; i++) {
        const struct twin_run_node *n = &r->runs[i]->node;
        json_t *item = json_null();
        any |= n->engine != NULL;
        if (n->engine)
            item = json_pack("{s:o,s:o,s:o,s:o,s:o}", "engine", tw_json_text(n->engine), "name",
                             tw_json_text(n->name), "job", tw_json_text(n->job), "attempt",
                             tw_json_count(n->attempt), "processor",
                             tw_json_text(r->runs[i]->processor));
        if (json_array_append_new(list, item) != 0)
            any = false;
    }
    if (any)
        return list;
    json_decref(list);
    return NULL;
}

/* The rules of the tolerance file, and what became of each. worst: the share of what a rule allows
 * that was used; null when nothing was measured. */
static json_t *rules_json(const struct twin_verdict *v)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < v->rule_count; i++) {
        const struct twin_rule_use *r = &v->rules[i];
        json_t *item = json_pack(
            "{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "pattern",
            tw_json_text(r->pattern), "reason", tw_json_text(r->reason), "rel_l2",
            tw_json_number(r->rel_l2), "abs", tw_json_number(r->abs), "rtol",
            tw_json_number(r->rtol), "atol", tw_json_number(r->atol), "ulp", tw_json_number(r->ulp),
            "matched", tw_json_count(r->matched), "measured", tw_json_count(r->measured),
            "unmeasured", tw_json_count(r->unmeasured), "outside", tw_json_count(r->outside),
            "worst", r->worst < 0 ? json_null() : tw_json_number(r->worst), "where",
            tw_json_text(r->where));
        if (json_array_append_new(list, item) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* The baseline that a run was held against, and how the world has changed since; null without
 * one. */
static json_t *against_json(const struct twin_against *a)
{
    json_t *world = json_array();
    if (!a) {
        json_decref(world);
        return json_null();
    }
    for (size_t i = 0; world && i < a->world_count; i++)
        if (json_array_append_new(world,
                                  json_pack("{s:o,s:o,s:o}", "name", tw_json_text(a->world[i].name),
                                            "then", tw_json_text(a->world[i].then), "now",
                                            tw_json_text(a->world[i].now))) != 0) {
            json_decref(world);
            return NULL;
        }
    return json_pack("{s:o,s:o,s:o,s:o,s:b,s:o}", "baseline", tw_json_text(a->path), "made",
                     tw_json_text(a->made), "runs", tw_json_count(a->runs), "signer",
                     tw_json_text(a->signer), "world_known", a->world_known, "world", world);
}

/* The pins that all runs were made under. */
static json_t *pinned_json(const struct twin_pinned *p)
{
    return json_pack("{s:o,s:o,s:b}", "factors", tw_json_split(p->factors), "search",
                     tw_json_text(p->search), "held", (int)p->held);
}

/* Known cases that look like this one. */
static json_t *hints_json(const struct twin_report *r)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < r->hint_count; i++) {
        const struct twin_hint *h = &r->hint[i];
        json_t *item = json_pack("{s:o,s:o,s:o,s:o,s:o,s:i,s:i}", "id", tw_json_text(h->id),
                                 "title", tw_json_text(h->title), "cause", tw_json_text(h->cause),
                                 "fix", tw_json_text(h->fix), "why", tw_json_text(h->why), "points",
                                 (int)h->points, "of", (int)h->of);
        if (json_array_append_new(list, item) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* Tensors that are too large to be recorded in every step and take turns in parts; what is not
 * listed was recorded whole. */
static json_t *covers(const struct twin_verdict *v)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < v->cover_count; i++) {
        const struct twin_cover *c = &v->covers[i];
        json_t *item = json_pack("{s:s,s:o,s:o,s:i,s:o,s:o}", "kind", twin_kind_name(c->kind),
                                 "elements_compared", tw_json_count(c->compared), "elements",
                                 tw_json_count(c->elements), "every_steps", (int)c->every,
                                 "tensors", tw_json_count(c->tensors), "whole_at_end",
                                 tw_json_count(c->whole_at_end));
        if (json_array_append_new(list, item) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* The claims of the verdict: what each of its sentences rests on (docs/format/verdict.md). */
static json_t *claims(const struct twin_verdict *v)
{
    char *list = NULL;
    if (twin_verdict_claims(v, &list, NULL) != 0)
        return NULL;
    json_t *j = json_loads(list, 0, NULL);
    tw_free(list);
    return j;
}

/* The order of the fields is the order of the document. The last step escapes what a terminal would
 * obey inside of strings; as JSON it means the same. */
int twin_report_json(const struct twin_report *r, char **out, struct twin_error *err)
{
    const struct twin_verdict *v = r->verdict;
    json_t *root = json_object();
    add_field(&root, "schema", json_string("twinrun.check/1"));
    add_field(&root, "outcome", json_string(twin_verdict_name(v->outcome)));
    add_field(&root, "bitwise", json_string(twin_verdict_name(v->bitwise)));
    add_field(&root, "runs", tw_json_count(v->runs));
    if (v->ranks)
        add_field(&root, "ranks", ranks_of(v));
    add_field(&root, "comparisons", tw_json_count(v->comparisons));
    add_field(&root, "differing", tw_json_count(v->differing));
    add_field(&root, "bound",
              json_pack("{s:o,s:o}", "p_diverge_upper", tw_json_number(v->p_diverge_upper),
                        "confidence", tw_json_number(v->confidence)));
    add_field(&root, "rate",
              json_pack("{s:o,s:o,s:o}", "value", tw_json_number(v->rate), "low",
                        tw_json_number(v->rate_low), "high", tw_json_number(v->rate_high)));
    add_field(&root, "first", v->first ? finding_json(v->first) : json_null());
    add_field(&root, "origins", origins_json(v));
    add_field(&root, "order", order_json(v->order));
    add_field(&root, "transplant", transplanted(v->transplant));
    if (v->rounding)
        add_field(&root, "rounding", json_loads(v->rounding, 0, NULL));
    add_field(&root, "benign", findings_json(v->benign, v->benign_count));
    add_field(&root, "equal_before", tw_json_text(v->equal_before));
    add_field(&root, "equal_before_records", tw_json_count(v->equal_before_records));
    add_field(&root, "then", onsets(v));
    add_field(&root, "drift_per_step", tw_json_number(v->drift_per_step));
    add_field(&root, "nonfinite", v->nonfinite[0] ? tw_json_text(v->nonfinite) : json_null());
    add_field(&root, "steps",
              json_pack("{s:o,s:o,s:o,s:b}", "reference", tw_json_count(v->steps_a), "compared",
                        tw_json_count(v->steps_compared), "differing",
                        tw_json_count(v->steps_differing), "differing_exact",
                        v->steps_differing_exact));
    add_field(&root, "records",
              json_pack("{s:o,s:o}", "reference", tw_json_count(v->records_a), "compared",
                        tw_json_count(v->records_compared)));
    add_field(&root, "range", ranges(v));
    add_field(&root, "coverage", coverage(v));
    add_field(&root, "in_parts", covers(v));
    add_field(&root, "b_starts_at", v->shift ? json_integer(-v->shift) : json_null());
    add_field(&root, "classes", classes(v));
    add_field(&root, "gaps", gaps(v));
    add_field(&root, "unseen", tw_json_texts(v->unseen, v->unseen_count));
    add_field(&root, "notes", tw_json_texts(v->notes, v->note_count));
    add_field(&root, "observer",
              json_pack("{s:o,s:o,s:o,s:o}", "armed", tw_json_texts(v->armed, v->armed_count),
                        "unarmed", tw_json_texts(v->unarmed, v->unarmed_count), "lost_records",
                        tw_json_count(v->lost_records), "overhead_ratio",
                        tw_json_number(v->overhead_ratio)));
    add_field(&root, "tolerance", v->rule_count ? rules_json(v) : json_null());
    add_field(&root, "against", against_json(v->against));
    if (v->pinned)
        add_field(&root, "pinned", pinned_json(v->pinned));
    add_field(&root, "claims", claims(v));
    add_field(&root, "seen_before", hints_json(r));
    add_field(&root, "runs_dir", dirs(r));
    json_t *at = nodes_json(r);
    if (at)
        add_field(&root, "nodes", at);
    char *dumped = root ? json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    char *shown = dumped ? tw_printable_json(dumped) : NULL;
    struct tw_buf b = {0};
    json_decref(root);
    if (!shown)
        b.failed = TWIN_ENOMEM;
    else
        tw_buf_printf(&b, "%s\n", shown);
    tw_free(shown);
    free(dumped);
    return tw_report_finish(&b, out, err);
}
