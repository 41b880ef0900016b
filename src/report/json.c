/* SPDX-License-Identifier: Apache-2.0 */
/* Schema twinrun.check/1. A NULL json_t (no memory) travels through jansson's packing calls and ends in TWIN_ENOMEM. */
#include "internal.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *text(const char *s)
{
    char *safe = s ? tw_printable(s, strlen(s)) : NULL;
    json_t *j = safe ? json_string(safe) : s ? NULL : json_null();
    tw_free(safe);
    return j;
}

static json_t *number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *count(uint64_t n)
{
    return json_integer((json_int_t)(n <= INT64_MAX ? n : INT64_MAX));
}

static json_t *texts(char *const *s, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < n; i++)
        if (json_array_append_new(list, text(s[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* "a\nb" -> ["a", "b"] */
static json_t *lines(const char *s)
{
    json_t *list = json_array();
    while (list && *s) {
        size_t n = strcspn(s, "\n");
        char *line = tw_strndup(s, n);
        int rc = line ? json_array_append_new(list, text(line)) : -1;
        tw_free(line);
        if (rc != 0) {
            json_decref(list);
            return NULL;
        }
        s += n + (s[n] == '\n');
    }
    return list;
}

static json_t *digest(struct twin_digest d)
{
    char hex[33];
    snprintf(hex, sizeof hex, "%016llx%016llx", (unsigned long long)d.a, (unsigned long long)d.b);
    return json_string(hex);
}

static json_t *stats(const struct twin_stats *s, struct twin_digest d)
{
    if (s->count == 0)
        return json_pack("{s:o}", "digest", digest(d));
    return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "digest", digest(d), "count", count(s->count), "nan", count(s->nan),
                     "pos_inf", count(s->pos_inf), "neg_inf", count(s->neg_inf), "zeros", count(s->zeros), "min", number(s->min),
                     "max", number(s->max), "sum", number(s->sum), "norm", number(sqrt(s->sumsq)));
}

static const char *type_name(enum twin_finding_type t)
{
    static const char *const names[] = {"value", "layout", "only-a", "only-b", "order", "outcome", "output", "file", "ranks"};
    return (size_t)t < sizeof names / sizeof names[0] ? names[t] : "?";
}

static json_t *finding(const struct twin_finding *f)
{
    const char *role = f->role == TWIN_ORIGIN ? "origin" : f->role == TWIN_CARRIER ? "carrier" : "unknown";
    bool record = tw_is_record(f);
    json_t *detail = json_pack(
        "{s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:b}", "type", type_name(f->type), "step_b", count(f->step_b), "process", text(f->process),
        "scope", text(f->scope), "occurrence", count(f->occurrence), "text", text(f->text), "elements", record ? count(f->elements) : json_null(),
        "changed", f->changed_known ? count(f->changed) : json_null(), "max_ulp", number(f->max_ulp), "rel_l2", number(f->rel_l2),
        "rel_l2_exact", f->rel_l2_exact);
    bool known = f->digest_a.a || f->digest_a.b || f->stats_a.count; /* a baseline may keep no more than a hash */
    if (detail && record && known && f->type != TWIN_FINDING_ONLY_B && json_object_set_new(detail, "a", stats(&f->stats_a, f->digest_a)) != 0) {
        json_decref(detail);
        detail = NULL;
    }
    if (detail && record && f->type != TWIN_FINDING_ONLY_A && json_object_set_new(detail, "b", stats(&f->stats_b, f->digest_b)) != 0) {
        json_decref(detail);
        detail = NULL;
    }
    json_t *between = f->between[0] && f->between[1] ? json_pack("[o,o]", text(f->between[0]), text(f->between[1])) : json_null();
    return json_pack("{s:o,s:i,s:s,s:s,s:o,s:o,s:s,s:o,s:o,s:o,s:o}", "step", count(f->step_a), "rank", (int)f->rank, "phase", twin_phase_name(f->phase),
                     "kind", twin_kind_name(f->kind), "name", text(f->name), "layer", text(f->layer), "role", role, "between", between, "op", text(f->op),
                     "source", lines(f->site), "detail", detail);
}

static json_t *findings(const struct twin_finding *f, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < n; i++)
        if (json_array_append_new(list, finding(&f[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* Adds a field; a NULL value, or no object, makes *object NULL for good. */
static void add(json_t **object, const char *key, json_t *value)
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

static json_t *transplanted(const struct twin_transplant *t)
{
    return t ? json_pack("{s:s,s:[o,o],s:o,s:o,s:o,s:o,s:b}", "kind", twin_transplant_name(t->kind), "window", count(t->first), count(t->last),
                         "runs", count(t->runs), "steps", count(t->steps), "unequal", count(t->unequal), "left_out", count(t->left_out),
                         "stopped", t->stopped)
             : json_null();
}

/* The frontier at the first difference; of transplanted runs every origin with its rate. */
static json_t *origins(const struct twin_verdict *v)
{
    if (!v->transplant)
        return findings(v->origins, v->origin_count);
    json_t *list = json_array();
    for (size_t i = 0; list && i < v->transplant->origin_count; i++) {
        const struct twin_origin *o = &v->transplant->origin[i];
        json_t *item = finding(o->finding);
        add(&item, "steps_differing", count(o->steps_differing));
        add(&item, "steps", count(o->steps));
        add(&item, "runs_differing", count(o->runs_differing));
        add(&item, "rate", number(o->rate));
        add(&item, "low", number(o->low));
        add(&item, "high", number(o->high));
        if (json_array_append_new(list, item) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *onsets(const struct twin_verdict *v)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < v->onset_count; i++) {
        const struct twin_onset *o = &v->onsets[i];
        json_t *item = json_pack("{s:o,s:s,s:s,s:o}", "what", text(o->what), "phase", twin_phase_name(o->phase), "kind",
                                 twin_kind_name(o->kind), "step", count(o->step));
        if (json_array_append_new(list, item) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *classes(const struct twin_verdict *v)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < v->class_count; i++) {
        json_t *runs = json_array();
        for (size_t k = 0; runs && k < v->classes[i].members; k++)
            json_array_append_new(runs, count(v->classes[i].runs[k]));
        json_t *step = v->classes[i].parts_at_step < 0 ? json_null() : json_integer(v->classes[i].parts_at_step);
        if (json_array_append_new(list, json_pack("{s:o,s:o,s:b}", "runs", runs, "parts_at_step", step, "unsure",
                                                   (int)v->classes[i].unsure)) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* What of each process was compared; steps as run 1 counts them, but b_first and b_of. last: null when that is nothing. */
static json_t *ranges(const struct twin_verdict *v)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < v->range_count; i++) {
        const struct twin_range *r = &v->ranges[i];
        json_t *last = r->end > r->first ? count(r->end - 1) : json_null();
        json_t *item = json_pack("{s:i,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:b}", "rank", (int)r->rank, "process",
                                 text(r->process), "number_a", count(r->number_a), "number_b", count(r->number_b), "first",
                                 count(r->first), "last", last, "of", count(r->of), "b_first", count(r->first_b), "b_of",
                                 count(r->of_b), "records", count(r->records), "of_records", count(r->of_records), "whole",
                                 (int)r->whole);
        if (json_array_append_new(list, item) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* The share of run 1 that the verdict is about. */
static json_t *coverage(const struct twin_verdict *v)
{
    double share = v->records_a ? (double)v->records_compared / (double)v->records_a : NAN;
    return json_pack("{s:o,s:o,s:o,s:o,s:o}", "steps", count(v->steps_compared), "of_steps", count(v->steps_a), "records",
                     count(v->records_compared), "of_records", count(v->records_a), "share", number(share > 1 ? 1 : share));
}

static json_t *gaps(const struct twin_verdict *v)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < v->gap_count; i++) {
        const struct twin_gap_range *g = &v->gaps[i];
        json_t *item = json_pack("{s:i,s:o,s:o,s:o}", "rank", (int)g->rank, "first_step", count(g->first_step), "last_step",
                                 count(g->last_step), "records", count(g->records));
        if (json_array_append_new(list, item) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *dirs(const struct twin_report *r)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < r->run_count; i++)
        if (json_array_append_new(list, text(r->runs[i]->dir)) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *rules(const struct twin_verdict *v)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < v->rule_count; i++) {
        const struct twin_rule_use *r = &v->rules[i];
        json_t *item = json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "pattern", text(r->pattern), "reason", text(r->reason), "rel_l2",
                                 number(r->rel_l2), "abs", number(r->abs), "rtol", number(r->rtol), "atol", number(r->atol), "ulp", number(r->ulp),
                                 "matched", count(r->matched), "measured", count(r->measured), "unmeasured", count(r->unmeasured), "outside",
                                 count(r->outside), "worst", r->worst < 0 ? json_null() : number(r->worst), "where", text(r->where));
        if (json_array_append_new(list, item) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *against(const struct twin_against *a)
{
    json_t *world = json_array();
    if (!a) {
        json_decref(world);
        return json_null();
    }
    for (size_t i = 0; world && i < a->world_count; i++)
        if (json_array_append_new(world, json_pack("{s:o,s:o,s:o}", "name", text(a->world[i].name), "then", text(a->world[i].then), "now",
                                                   text(a->world[i].now))) != 0) {
            json_decref(world);
            return NULL;
        }
    return json_pack("{s:o,s:o,s:o,s:o,s:b,s:o}", "baseline", text(a->path), "made", text(a->made), "runs", count(a->runs), "signer", text(a->signer),
                     "world_known", a->world_known, "world", world);
}

static json_t *hints(const struct twin_report *r)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < r->hint_count; i++) {
        const struct twin_hint *h = &r->hint[i];
        json_t *item = json_pack("{s:o,s:o,s:o,s:o,s:o,s:i,s:i}", "id", text(h->id), "title", text(h->title), "cause", text(h->cause), "fix", text(h->fix),
                                 "why", text(h->why), "points", (int)h->points, "of", (int)h->of);
        if (json_array_append_new(list, item) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* Tensors that were recorded in parts, in turns; what is not listed was recorded whole. */
static json_t *covers(const struct twin_verdict *v)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < v->cover_count; i++) {
        const struct twin_cover *c = &v->covers[i];
        json_t *item = json_pack("{s:s,s:o,s:o,s:i,s:o,s:o}", "kind", twin_kind_name(c->kind), "elements_compared",
                                 count(c->compared), "elements", count(c->elements), "every_steps", (int)c->every, "tensors",
                                 count(c->tensors), "whole_at_end", count(c->whole_at_end));
        if (json_array_append_new(list, item) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* What each sentence rests on (docs/format/verdict.md). */
static json_t *claims(const struct twin_verdict *v)
{
    char *list = NULL;
    if (twin_verdict_claims(v, &list, NULL) != 0)
        return NULL;
    json_t *j = json_loads(list, 0, NULL);
    tw_free(list);
    return j;
}

int twin_report_json(const struct twin_report *r, char **out, struct twin_error *err)
{
    const struct twin_verdict *v = r->verdict;
    json_t *root = json_object();
    add(&root, "schema", json_string("twinrun.check/1"));
    add(&root, "outcome", json_string(twin_verdict_name(v->outcome)));
    add(&root, "bitwise", json_string(twin_verdict_name(v->bitwise)));
    add(&root, "runs", count(v->runs));
    add(&root, "comparisons", count(v->comparisons));
    add(&root, "differing", count(v->differing));
    add(&root, "bound", json_pack("{s:o,s:o}", "p_diverge_upper", number(v->p_diverge_upper), "confidence", number(v->confidence)));
    add(&root, "rate", json_pack("{s:o,s:o,s:o}", "value", number(v->rate), "low", number(v->rate_low), "high", number(v->rate_high)));
    add(&root, "first", v->first ? finding(v->first) : json_null());
    add(&root, "origins", origins(v));
    add(&root, "transplant", transplanted(v->transplant));
    add(&root, "benign", findings(v->benign, v->benign_count));
    add(&root, "equal_before", text(v->equal_before));
    add(&root, "equal_before_records", count(v->equal_before_records));
    add(&root, "then", onsets(v));
    add(&root, "drift_per_step", number(v->drift_per_step));
    add(&root, "nonfinite", v->nonfinite[0] ? text(v->nonfinite) : json_null());
    add(&root, "steps", json_pack("{s:o,s:o,s:o,s:b}", "reference", count(v->steps_a), "compared", count(v->steps_compared), "differing",
                                  count(v->steps_differing), "differing_exact", v->steps_differing_exact));
    add(&root, "records", json_pack("{s:o,s:o}", "reference", count(v->records_a), "compared", count(v->records_compared)));
    add(&root, "range", ranges(v));
    add(&root, "coverage", coverage(v));
    add(&root, "in_parts", covers(v));
    add(&root, "b_starts_at", v->shift ? json_integer(-v->shift) : json_null());
    add(&root, "classes", classes(v));
    add(&root, "gaps", gaps(v));
    add(&root, "unseen", texts(v->unseen, v->unseen_count));
    add(&root, "notes", texts(v->notes, v->note_count));
    add(&root, "observer", json_pack("{s:o,s:o,s:o,s:o}", "armed", texts(v->armed, v->armed_count), "unarmed", texts(v->unarmed, v->unarmed_count),
                                     "lost_records", count(v->lost_records), "overhead_ratio", number(v->overhead_ratio)));
    add(&root, "tolerance", v->rule_count ? rules(v) : json_null());
    add(&root, "against", against(v->against));
    add(&root, "claims", claims(v));
    add(&root, "seen_before", hints(r));
    add(&root, "runs_dir", dirs(r));
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
