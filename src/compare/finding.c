/* SPDX-License-Identifier: Apache-2.0 */
/* Findings: from a difference between two records to what a person or a program is told. A finding
 * owns all its strings, and has "" and not NULL where nothing is known: whoever prints one need not
 * ask. A text that cannot be stored leaves the old one in place and sets c->oom. */
#include "evidence.h"
#include "internal.h"
#include "tolerance.h"
#include "ulp.h"

#include <math.h>
#include <string.h>

/* A finding with nothing in it but its type and its place in the flow of a step. NULL: no
 * memory. */
struct twin_finding *tw_finding_new(struct tw_cmp *c, enum twin_finding_type type,
                                    enum twin_phase phase, enum twin_kind kind)
{
    struct twin_finding *f = tw_calloc(1, sizeof *f);
    if (!f) {
        c->oom = true;
        return NULL;
    }
    *f = (struct twin_finding){.type = type,
                               .phase = phase,
                               .kind = kind,
                               .rel_l2 = NAN,
                               .max_ulp = NAN,
                               .layer = tw_cmp_copy(c, tw_layer(phase, kind)),
                               .process = tw_cmp_copy(c, "main"),
                               .name = tw_cmp_copy(c, ""),
                               .scope = tw_cmp_copy(c, ""),
                               .op = tw_cmp_copy(c, ""),
                               .site = tw_cmp_copy(c, ""),
                               .text = tw_cmp_copy(c, ""),
                               .run_a = c->run_a,
                               .run_b = c->run_b,
                               .weights_alone = c->weights_alone};
    if (!f->layer || !f->process || !f->name || !f->scope || !f->op || !f->site || !f->text) {
        tw_finding_free(f);
        return NULL;
    }
    return f;
}

void tw_finding_set(struct tw_cmp *c, char **field, char *owned)
{
    c->oom |= !owned;
    if (!owned)
        return;
    tw_free(*field);
    *field = owned;
}

void tw_finding_clear(struct twin_finding *f)
{
    tw_free(f->seat);
    tw_free(f->process);
    tw_free(f->layer);
    tw_free(f->name);
    tw_free(f->scope);
    tw_free(f->op);
    tw_free(f->site);
    tw_free(f->text);
    for (int i = 0; i < 2; i++) {
        tw_free(f->between[i]);
        tw_free(f->zoom[i]);
    }
    tw_free(f->record);
    tw_free(f->record_scope);
}

void tw_finding_free(struct twin_finding *f)
{
    if (f)
        tw_finding_clear(f);
    tw_free(f);
}

void tw_finding_replace(struct twin_finding *f, struct twin_finding *n)
{
    struct twin_finding old = *f;
    *f = *n;
    *n = old;
    tw_finding_free(n);
}

/* Copies a text that may be missing. */
static void set_copy(struct tw_cmp *c, char **field, const char *s)
{
    if (s)
        tw_finding_set(c, field, tw_cmp_copy(c, s));
}

/* Numbers are copied as they are; every string gets a copy of its own. */
struct twin_finding *tw_finding_copy(struct tw_cmp *c, const struct twin_finding *f)
{
    struct twin_finding *copy = tw_finding_new(c, f->type, f->phase, f->kind);
    if (!copy)
        return NULL;
    /* Its own empty strings, which stand until each copy is made. */
    struct twin_finding blank = *copy;
    *copy = *f;
    copy->process = blank.process;
    copy->layer = blank.layer;
    copy->name = blank.name;
    copy->scope = blank.scope;
    copy->op = blank.op;
    copy->site = blank.site;
    copy->text = blank.text;
    copy->seat = copy->between[0] = copy->between[1] = copy->zoom[0] = copy->zoom[1] =
        copy->record = copy->record_scope = NULL;
    tw_finding_set(c, &copy->process, tw_cmp_copy(c, f->process));
    tw_finding_set(c, &copy->layer, tw_cmp_copy(c, f->layer));
    tw_finding_set(c, &copy->name, tw_cmp_copy(c, f->name));
    tw_finding_set(c, &copy->scope, tw_cmp_copy(c, f->scope));
    tw_finding_set(c, &copy->op, tw_cmp_copy(c, f->op));
    tw_finding_set(c, &copy->site, tw_cmp_copy(c, f->site));
    tw_finding_set(c, &copy->text, tw_cmp_copy(c, f->text));
    for (int i = 0; i < 2; i++) {
        set_copy(c, &copy->between[i], f->between[i]);
        set_copy(c, &copy->zoom[i], f->zoom[i]);
    }
    set_copy(c, &copy->seat, f->seat);
    set_copy(c, &copy->record, f->record);
    set_copy(c, &copy->record_scope, f->record_scope);
    return copy;
}

void tw_finding_between(struct tw_cmp *c, struct twin_finding *f, char *from, char *to)
{
    f->role = TWIN_ROLE_UNKNOWN;
    tw_finding_set(c, &f->between[0], from);
    tw_finding_set(c, &f->between[1], to);
}

uint64_t tw_rec_elements(const struct tw_view *v, const struct tw_rec *r)
{
    /* the bytes of their text, and of the list of a checkpoint's tensors */
    if ((r->kind == TWIN_KIND_IN && tw_ends(tw_rec_name(v, r), ".arguments")) ||
        (r->phase == TWIN_PHASE_CHECKPOINT && r->kind == TWIN_KIND_FILE))
        return 0;
    const struct twin_layout *l = twin_trace_layout(v->proc->trace, r->layout);
    uint64_t n = 1;
    for (unsigned i = 0; i < l->ndim && i < TWIN_MAX_NDIM; i++)
        if (l->shape[i] < 0 || __builtin_mul_overflow(n, (uint64_t)l->shape[i], &n))
            return 0;
    return n;
}

/* A single element's statistics hold its value: sum, when it is finite. */
static bool single_value(const struct tw_view *v, const struct tw_rec *r, double *value)
{
    if (!(r->flags & TWIN_REC_STATS) || r->stats.count != 1 || tw_rec_elements(v, r) != 1)
        return false;
    if (r->stats.nan)
        *value = NAN;
    else if (r->stats.pos_inf)
        *value = INFINITY;
    else
        *value = r->stats.neg_inf ? -INFINITY : r->stats.sum;
    return true;
}

double tw_rec_distance(const struct tw_view *va, const struct tw_rec *a, const struct tw_view *vb,
                       const struct tw_rec *b, double *absolute, bool *exact)
{
    double x, y;
    *absolute = NAN;
    *exact = false;
    if (a->layout_hash != b->layout_hash)
        return NAN;
    if (single_value(va, a, &x) && single_value(vb, b, &y)) {
        *exact = true;
        *absolute = fabs(x - y);
        return *absolute == 0 ? 0 : *absolute / fabs(x);
    }
    if (!a->sketch || !b->sketch)
        return NAN;
    const struct twin_sketch *s = &va->sketch[a->sketch - 1], *t = &vb->sketch[b->sketch - 1];
    /* NaN or Inf were left out: the distance of the rest would say too little */
    if (s->skipped || t->skipped)
        return NAN;
    /* The distance is told relative to a's norm, which the sketch estimates where there are no
     * statistics. */
    double norm = 0;
    *absolute = twin_sketch_distance(s, t);
    if (a->flags & TWIN_REC_STATS)
        norm = a->stats.sumsq;
    else
        for (uint32_t i = 0; i < s->k && i < TWIN_SKETCH_MAX; i++)
            norm += s->bucket[i] * s->bucket[i];
    return *absolute == 0 ? 0 : *absolute / sqrt(norm);
}

/* Units in the last place between two single numbers; NaN for types that have none, or that a
 * double cannot tell. */
static double ulps_of(const struct tw_view *v, const struct tw_rec *r, double x, double y)
{
    struct tw_exact e;
    float p = (float)x, q = (float)y;
    enum twin_dtype dtype = twin_trace_layout(v->proc->trace, r->layout)->dtype;
    if (dtype == TWIN_F64 && tw_exact_compare(&x, &y, 1, TWIN_F64, &e))
        return e.max_ulp;
    if (dtype == TWIN_F32 && tw_exact_compare(&p, &q, 1, TWIN_F32, &e))
        return e.max_ulp;
    return NAN;
}

void tw_rec_measure(const struct tw_view *va, const struct tw_rec *a, const struct tw_view *vb,
                    const struct tw_rec *b, struct tw_measure *m)
{
    double x, y;
    bool exact;
    *m = (struct tw_measure){.ulp = NAN, .elements = tw_rec_elements(vb, b)};
    m->relative = tw_rec_distance(va, a, vb, b, &m->absolute, &exact);
    if (single_value(va, a, &x) && single_value(vb, b, &y))
        m->ulp = ulps_of(vb, b, x, y);
    if (a->flags & b->flags & TWIN_REC_STATS) {
        m->stats_a = &a->stats;
        m->stats_b = &b->stats;
    }
}

/* How far the two are apart, and of single numbers by how many units in the last place. */
static void fill_numbers(struct twin_finding *f, const struct tw_view *va, const struct tw_rec *a,
                         const struct tw_view *vb, const struct tw_rec *b)
{
    double x, y, absolute;
    f->rel_l2 = tw_rec_distance(va, a, vb, b, &absolute, &f->rel_l2_exact);
    if (!single_value(va, a, &x) || !single_value(vb, b, &y))
        return;
    f->changed = 1;
    f->changed_known = true;
    double ulp = ulps_of(va, a, x, y);
    /* of two NaN only the payload differs, which statistics do not hold */
    if (!isnan(ulp) && !(isnan(x) && isnan(y)))
        f->max_ulp = ulp;
}

/* Same count, sum, extremes and zeros but another digest: most likely the same elements in another
 * order. */
static bool looks_permuted(const struct tw_rec *a, const struct tw_rec *b)
{
    const struct twin_stats *s = &a->stats, *t = &b->stats;
    return a->flags & b->flags & TWIN_REC_STATS && s->count > 1 && s->count == t->count &&
           s->nan == t->nan && s->zeros == t->zeros && s->min == t->min && s->max == t->max &&
           fabs(s->sum - t->sum) <= 1e-12 * fabs(s->sum) &&
           fabs(s->sumsq - t->sumsq) <= 1e-12 * fabs(s->sumsq);
}

/* "st" of 1st and 21st, "th" of 11th. */
static const char *ordinal_ending(size_t n)
{
    if (n % 100 >= 11 && n % 100 <= 13)
        return "th";
    switch (n % 10) {
    case 1: return "st";
    case 2: return "nd";
    case 3: return "rd";
    default: return "th";
    }
}

/* Of a record whose name the step holds several times: which of them it is, and what it holds where
 * that is one number. */
static char *which_of_many(struct tw_cmp *c, const struct tw_diff *d, const struct tw_view *va,
                           const struct tw_view *vb)
{
    const struct tw_rec *a = &va->rec[d->a], *b = &vb->rec[d->b];
    size_t count = 0, nth = 0, permuted = 0;
    double x, y;
    for (size_t i = 0; i < va->count; i++)
        if (va->rec[i].token == a->token && va->rec[i].step == a->step) {
            count++;
            nth += i <= d->a;
            permuted += va->rec[i].content == b->content;
        }
    if (count < 2)
        return NULL;
    const char *moved = permuted ? "; the other run holds it at another place" : "";
    if (single_value(va, a, &x) && single_value(vb, b, &y))
        return tw_cmp_text(c, "%zu%s of %zu in this step: %.9g and %.9g%s", nth,
                           ordinal_ending(nth), count, x, y, moved);
    return tw_cmp_text(c, "%zu%s of %zu in this step%s", nth, ordinal_ending(nth), count, moved);
}

/* What the two records were made from, where both name as many. Records of steps that are not
 * loaded have no digest here. */
static void fill_inputs(struct twin_finding *f, const struct tw_view *va, const struct tw_rec *a,
                        const struct tw_view *vb, const struct tw_rec *b)
{
    if (a->link_count != b->link_count)
        return;
    for (size_t i = 0; i < a->link_count && i < TWIN_FINDING_INPUTS; i++) {
        tw_evidence_link(&f->input[i].a, va, va->link[a->link + i]);
        tw_evidence_link(&f->input[i].b, vb, vb->link[b->link + i]);
        f->input_count++;
    }
}

/* Where the two records stand in their traces, and those that they were made from. */
static void fill_evidence(struct tw_cmp *c, struct twin_finding *f, const struct tw_diff *d,
                          const struct tw_view *a, const struct tw_view *b)
{
    f->run_a = c->run_a;
    f->run_b = c->run_b;
    f->weights_alone = c->weights_alone;
    if (d->a != TW_NONE)
        tw_evidence_set(&f->at_a, a, &a->rec[d->a]);
    if (d->b != TW_NONE)
        tw_evidence_set(&f->at_b, b, &b->rec[d->b]);
    if (d->a != TW_NONE && d->b != TW_NONE)
        fill_inputs(f, a, &a->rec[d->a], b, &b->rec[d->b]);
}

/* What the numbers do not say: in which run alone, drawn by whom, which of many, in another
 * order. */
static void fill_text(struct tw_cmp *c, struct twin_finding *f, const struct tw_diff *d,
                      const struct tw_view *a, const struct tw_view *b)
{
    const struct tw_view *v;
    const struct tw_rec *r = tw_diff_rec(d, a, b, &v);
    bool draws = r->phase == TWIN_PHASE_RNG && f->op[0];
    const char *where = d->type == TWIN_FINDING_ONLY_A ? c->label_a : c->label_b;
    char *nth;
    if (d->type == TWIN_FINDING_ONLY_A || d->type == TWIN_FINDING_ONLY_B)
        tw_finding_set(c, &f->text,
                       draws ? tw_cmp_text(c, "only in %s, where %s drew from it", where, f->op)
                             : tw_cmp_text(c, "only in %s", where));
    else if (d->type == TWIN_FINDING_ORDER)
        tw_finding_set(c, &f->text, tw_cmp_copy(c, "same records, another order"));
    else if (draws)
        tw_finding_set(c, &f->text, tw_cmp_text(c, "drawn by %s", f->op));
    else if (d->type == TWIN_FINDING_VALUE && (nth = which_of_many(c, d, a, b)))
        tw_finding_set(c, &f->text, nth);
    else if (d->type == TWIN_FINDING_VALUE && looks_permuted(&a->rec[d->a], &b->rec[d->b]))
        tw_finding_set(
            c, &f->text,
            tw_cmp_copy(c, "same sum, minimum and maximum: the same values in another order?"));
}

/* All that is told of a difference: who, what, where in the program, how large, and the
 * evidence. */
struct twin_finding *tw_finding_from(struct tw_cmp *c, const struct tw_diff *d,
                                     const struct tw_view *a, const struct tw_view *b)
{
    const struct tw_view *v;
    const struct tw_rec *r = tw_diff_rec(d, a, b, &v);
    struct twin_finding *f = tw_finding_new(c, d->type, r->phase, r->kind);
    if (!f)
        return NULL;
    f->role = d->carrier ? TWIN_CARRIER : TWIN_ORIGIN;
    f->rank = v->proc->rank;
    f->occurrence = r->occurrence;
    f->elements = tw_rec_elements(v, r);
    /* A record of a thread is told with its thread: "main, reader 2". */
    const char *thread = tw_rec_role(v, r), *process = tw_proc_role(v->proc);
    tw_finding_set(c, &f->process,
                   thread[0] ? tw_cmp_text(c, "%s, %s", process, thread) : tw_cmp_copy(c, process));
    tw_finding_set(c, &f->name, tw_cmp_copy(c, tw_rec_name(v, r)));
    tw_finding_set(c, &f->scope, tw_cmp_copy(c, tw_rec_scope(v, r)));
    tw_finding_set(c, &f->op, tw_cmp_copy(c, tw_rec_op(v, r)));
    tw_finding_set(c, &f->site, tw_cmp_copy(c, tw_rec_site(v, r)));
    /* the agent says so: an operation has no phase of its own */
    if (r->phase == TWIN_PHASE_KERNEL && tw_starts(f->scope, "backward"))
        tw_finding_set(c, &f->layer, tw_cmp_copy(c, "backward"));
    if (r->phase == TWIN_PHASE_KERNEL && strcmp(f->scope, "optimizer") == 0)
        tw_finding_set(c, &f->layer, tw_cmp_copy(c, "optimizer"));
    if (d->type == TWIN_FINDING_ORDER && r->phase != TWIN_PHASE_DATA)
        tw_finding_set(c, &f->layer, tw_cmp_copy(c, "schedule"));
    if (d->a != TW_NONE) {
        f->step_a = f->step_b = a->rec[d->a].step;
        f->stats_a = a->rec[d->a].stats;
        f->digest_a = a->rec[d->a].digest;
    }
    if (d->b != TW_NONE) {
        f->step_b = b->rec[d->b].step;
        f->stats_b = b->rec[d->b].stats;
        f->digest_b = b->rec[d->b].digest;
        f->step_a = d->a != TW_NONE ? f->step_a : f->step_b;
    }
    if (d->type == TWIN_FINDING_VALUE)
        fill_numbers(f, a, &a->rec[d->a], b, &b->rec[d->b]);
    fill_text(c, f, d, a, b);
    fill_evidence(c, f, d, a, b);
    return f;
}

/* A list ends at a thousand: nobody reads more, and each finding has a dozen strings. */
void tw_findings_take(struct tw_cmp *c, struct tw_findings *list, struct twin_finding *f)
{
    if (!f)
        return;
    if (list->n < 1000 && tw_cmp_room(c, &list->f, list->n, &list->room, sizeof *list->f)) {
        list->f[list->n++] = *f;
        tw_free(f);
    } else {
        tw_finding_free(f);
    }
}

void tw_findings_free(struct tw_findings *list)
{
    for (size_t i = 0; i < list->n; i++)
        tw_finding_clear(&list->f[i]);
    tw_free(list->f);
    *list = (struct tw_findings){0};
}
