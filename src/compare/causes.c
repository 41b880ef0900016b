/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Origin or carrier: a difference is a carrier when something it was made from differs too. Where
 * the trace has links (which records were consumed) they decide; else what came earlier in the step
 * may be a cause, except between records of which we know that they do not feed each other (two
 * parameters' initial values, two gradients of one backward pass).
 */
#include "internal.h"

#include <assert.h>
#include <string.h>

/* What a record is in the flow of a step. Finer than phase and kind where those say too little: a
 * weight is one thing as the optimizer leaves it (CAT_WEIGHT), and another where it is about to be
 * used and was found changed (CAT_WRITTEN). */
enum category {
    CAT_INIT,
    CAT_WRITTEN,
    CAT_INDICES,
    CAT_BATCH,
    CAT_RNG,
    CAT_ACTIVATION,
    CAT_LOSS,
    CAT_LOCAL,
    CAT_GRADIENT,
    CAT_MOMENT,
    CAT_WEIGHT,
    CAT_HYPER,
    CAT_COLLECTIVE,
    CAT_KERNEL,
    CAT_FILE,
    CAT_OTHER,
    CAT_COUNT
};
#define BIT(c) (1u << (c))

/* What an earlier difference of the same step cannot have caused. */
static const uint32_t not_a_cause[CAT_COUNT] = {
    /* drawn before any batch was seen, recorded after */
    [CAT_INIT] = BIT(CAT_INIT) | BIT(CAT_INDICES) | BIT(CAT_BATCH),
    /* weights or gradients that a line of the job wrote: several at once */
    [CAT_WRITTEN] = BIT(CAT_WRITTEN),
    [CAT_INDICES] = BIT(CAT_INDICES) | BIT(CAT_BATCH) | BIT(CAT_INIT) | BIT(CAT_WRITTEN),
    [CAT_BATCH] = BIT(CAT_BATCH) | BIT(CAT_INIT) | BIT(CAT_WRITTEN),
    [CAT_LOCAL] = BIT(CAT_LOCAL),
    [CAT_GRADIENT] = BIT(CAT_GRADIENT),
    [CAT_MOMENT] = BIT(CAT_MOMENT) | BIT(CAT_WEIGHT), /* the optimizer reads last step's weights */
    [CAT_WEIGHT] = BIT(CAT_WEIGHT),
    [CAT_HYPER] = BIT(CAT_HYPER),
    [CAT_FILE] = BIT(CAT_FILE),
};

/* What causes it wherever it stands: the post-hook lists weights before the moments they were made
 * from. */
static const uint32_t always_a_cause[CAT_COUNT] = {
    [CAT_WEIGHT] = BIT(CAT_MOMENT) | BIT(CAT_HYPER),
    [CAT_MOMENT] = BIT(CAT_HYPER),
    [CAT_BATCH] = BIT(CAT_INDICES),
};

/* What was found changed where it was about to be used, so that something has written to it in
 * between: a weight that a forward, a backward or an optimizer uses, a gradient that an optimizer
 * reads. */
bool tw_is_written(uint8_t phase, uint8_t kind)
{
    if (kind == TWIN_KIND_GRADIENT)
        return phase == TWIN_PHASE_OPTIMIZER;
    return kind == TWIN_KIND_WEIGHT &&
           (phase == TWIN_PHASE_FORWARD || phase == TWIN_PHASE_BACKWARD);
}

/* What a module was given, and lines of the job had computed: no batch. It shows when the module is
 * called. */
bool tw_is_handed(uint8_t phase, uint8_t kind)
{
    return phase == TWIN_PHASE_DATA && kind == TWIN_KIND_IN;
}

bool twin_finding_is_handed(const struct twin_finding *f)
{
    return f->phase == TWIN_PHASE_DATA &&
           (f->kind == TWIN_KIND_IN ||
            (f->kind == TWIN_KIND_BATCH && f->name && tw_starts(f->name, "input")));
}

bool tw_is_data(uint8_t phase, uint8_t kind)
{
    return phase == TWIN_PHASE_DATA && !tw_is_handed(phase, kind);
}

bool tw_is_given_back(uint8_t phase, const char *name, const char *scope)
{
    const size_t n = strlen(scope);
    return phase == TWIN_PHASE_OPTIMIZER && n > 0 && strncmp(name, scope, n) == 0 &&
           tw_starts(name + n, ": ");
}

bool tw_rec_given_back(const struct tw_view *v, const struct tw_rec *r)
{
    return tw_is_given_back(r->phase, tw_rec_name(v, r), tw_rec_scope(v, r));
}

bool twin_finding_is_given_back(const struct twin_finding *f)
{
    return tw_is_given_back((uint8_t)f->phase, f->name ? f->name : "", f->scope ? f->scope : "");
}

/* The category of a phase and a kind. The phase decides where it has one meaning. */
static enum category category(uint8_t phase, uint8_t kind)
{
    switch (phase) {
    case TWIN_PHASE_INIT:
        if (kind == TWIN_KIND_STATE)
            return CAT_RNG;
        return kind == TWIN_KIND_MOMENT ? CAT_MOMENT : CAT_INIT;
    case TWIN_PHASE_RNG: return CAT_RNG;
    case TWIN_PHASE_COLLECTIVE: return CAT_COLLECTIVE;
    case TWIN_PHASE_KERNEL: return CAT_KERNEL;
    case TWIN_PHASE_CHECKPOINT: return CAT_FILE;
    default: break;
    }
    switch (kind) {
    case TWIN_KIND_INDICES: return CAT_INDICES;
    case TWIN_KIND_BATCH: return CAT_BATCH;
    case TWIN_KIND_STATE: return CAT_RNG;
    case TWIN_KIND_ACTIVATION: return CAT_ACTIVATION;
    case TWIN_KIND_LOSS: return CAT_LOSS;
    case TWIN_KIND_GRADIENT_LOCAL: return CAT_LOCAL;
    case TWIN_KIND_GRADIENT: return tw_is_written(phase, kind) ? CAT_WRITTEN : CAT_GRADIENT;
    case TWIN_KIND_MOMENT: return CAT_MOMENT;
    case TWIN_KIND_WEIGHT: return tw_is_written(phase, kind) ? CAT_WRITTEN : CAT_WEIGHT;
    case TWIN_KIND_HYPER: return CAT_HYPER;
    default: return CAT_OTHER;
    }
}

int tw_cause_class(uint8_t phase, uint8_t kind)
{
    /* Lower numbers come first in a step; equal ones may cause each other either way. */
    static const int class_of[CAT_COUNT] = {
        [CAT_RNG] = 1,     [CAT_INDICES] = 2,    [CAT_BATCH] = 3,      [CAT_INIT] = 4,
        [CAT_WRITTEN] = 4, [CAT_ACTIVATION] = 5, [CAT_KERNEL] = 5,     [CAT_OTHER] = 5,
        [CAT_LOSS] = 6,    [CAT_LOCAL] = 7,      [CAT_COLLECTIVE] = 8, [CAT_GRADIENT] = 9,
        [CAT_HYPER] = 10,  [CAT_MOMENT] = 11,    [CAT_WEIGHT] = 12,    [CAT_FILE] = 13,
    };
    if (kind == TWIN_KIND_GRADIENT && tw_is_written(phase, kind))
        return class_of[CAT_GRADIENT];
    if (phase == TWIN_PHASE_ENVIRONMENT)
        return 0;
    return phase == TWIN_PHASE_OUTPUT && kind != TWIN_KIND_VALUE ? 14
                                                                 : class_of[category(phase, kind)];
}

const char *tw_layer(enum twin_phase phase, enum twin_kind kind)
{
    if (kind == TWIN_KIND_STATE)
        return "rng";
    /* what the job itself records with twin_record: the result of computing */
    if (kind == TWIN_KIND_VALUE)
        return "forward";
    if (kind == TWIN_KIND_GRADIENT && tw_is_written(phase, kind))
        return "backward";
    switch (phase) {
    case TWIN_PHASE_DATA: return tw_is_data(phase, kind) ? "data" : "forward";
    case TWIN_PHASE_RNG: return "rng";
    case TWIN_PHASE_INIT: return "init";
    case TWIN_PHASE_FORWARD:
    case TWIN_PHASE_KERNEL:
    case TWIN_PHASE_NONE: return "forward";
    case TWIN_PHASE_BACKWARD: return "backward";
    case TWIN_PHASE_COLLECTIVE: return "collective";
    case TWIN_PHASE_OPTIMIZER: return "optimizer";
    case TWIN_PHASE_CHECKPOINT: return "checkpoint";
    case TWIN_PHASE_ENVIRONMENT: return "environment";
    default: return "artifact";
    }
}

/* The category of a record. What a function has given back is an output, whatever it is to the job:
 * no order among weights and moments is known of it. */
static enum category category_in(const struct tw_view *v, const struct tw_rec *r)
{
    return tw_rec_given_back(v, r) ? CAT_ACTIVATION : category(r->phase, r->kind);
}

/* The category of the record that differs. */
static enum category category_of(const struct tw_diff *d, const struct tw_view *a,
                                 const struct tw_view *b)
{
    const struct tw_view *v;
    const struct tw_rec *r = tw_diff_rec(d, a, b, &v);
    return category_in(v, r);
}

/* The index in the view of a link, or TW_NONE when it points to another step (equal: we are at the
 * first that parts). */
static size_t find_link(const struct tw_view *v, uint64_t link)
{
    uint32_t step = (uint32_t)(link >> 32), seq = (uint32_t)link;
    size_t low = 0, high = v->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct tw_rec *r = &v->rec[middle];
        if (r->step < step || (r->step == step && r->seq < seq))
            low = middle + 1;
        else
            high = middle;
    }
    return low < v->count && v->rec[low].step == step && v->rec[low].seq == seq ? low : TW_NONE;
}

/* Was the record made from one that differs, as far as its links say? */
static bool linked_to_difference(const struct tw_view *v, const struct tw_rec *r,
                                 const bool *differs)
{
    for (size_t i = 0; i < r->link_count; i++) {
        size_t cause = find_link(v, v->link[r->link + i]);
        if (cause != TW_NONE && differs[cause])
            return true;
    }
    return false;
}

bool tw_may_cause(const struct tw_view *v, const struct tw_rec *earlier, const struct tw_rec *r)
{
    enum category cause = category_in(v, earlier);
    enum category made = category_in(v, r);
    if (cause == CAT_RNG && made == CAT_RNG)
        return strcmp(tw_rec_name(v, earlier), tw_rec_name(v, r)) == 0;
    return !(not_a_cause[made] & BIT(cause));
}

/* An earlier difference in a generator: another generator does not matter to this one. */
static bool same_generator_before(const struct tw_stepdiff *d, size_t index,
                                  const struct tw_view *a, const struct tw_view *b)
{
    assert(index < d->count);
    const struct tw_view *v, *w;
    const struct tw_rec *r = tw_diff_rec(&d->d[index], a, b, &v);
    for (size_t i = 0; i < index; i++) {
        const struct tw_rec *x = tw_diff_rec(&d->d[i], a, b, &w);
        if (tw_diff_significant(&d->d[i]) && x->kind == TWIN_KIND_STATE &&
            strcmp(tw_rec_name(w, x), tw_rec_name(v, r)) == 0)
            return true;
    }
    return false;
}

/* Differences are sorted by where they stand. `before` collects the categories of those before the
 * one at hand, `present` those of all. */
void tw_causes_mark(struct tw_stepdiff *d, const struct tw_view *a, const struct tw_view *b)
{
    bool *differs_a = tw_calloc(a->count, sizeof *differs_a);
    bool *differs_b = tw_calloc(b->count, sizeof *differs_b);
    uint32_t present = 0, before = 0;
    for (size_t i = 0; i < d->count; i++) {
        if (!tw_diff_significant(&d->d[i]))
            continue;
        present |= BIT(category_of(&d->d[i], a, b));
        if (differs_a && d->d[i].a != TW_NONE)
            differs_a[d->d[i].a] = true;
        if (differs_b && d->d[i].b != TW_NONE)
            differs_b[d->d[i].b] = true;
    }
    for (size_t i = 0; i < d->count; i++) {
        struct tw_diff *x = &d->d[i];
        const struct tw_view *v;
        const struct tw_rec *r = tw_diff_rec(x, a, b, &v);
        enum category cat = category_in(v, r);
        const bool *differs = v == a ? differs_a : differs_b;
        uint32_t possible = before & ~not_a_cause[cat];
        if (cat == CAT_RNG) {
            possible &= ~BIT(CAT_RNG);
            if (before & BIT(CAT_RNG) && same_generator_before(d, i, a, b))
                possible |= BIT(CAT_RNG);
        }
        if (r->link_count > 0 && differs)
            x->carrier = linked_to_difference(v, r, differs);
        else
            x->carrier = (possible | (present & always_a_cause[cat])) != 0;
        if (tw_diff_significant(x))
            before |= BIT(cat);
    }
    tw_free(differs_a);
    tw_free(differs_b);
}

size_t tw_causes_first(const struct tw_stepdiff *d, const struct tw_view *a,
                       const struct tw_view *b)
{
    size_t first = TW_NONE;
    for (size_t i = 0; i < d->count && first == TW_NONE; i++)
        if (tw_diff_significant(&d->d[i]) && !d->d[i].carrier)
            first = i;
    /* links in a circle: damage; name something */
    for (size_t i = 0; i < d->count && first == TW_NONE; i++)
        if (tw_diff_significant(&d->d[i]))
            first = i;
    if (first == TW_NONE)
        return first;
    /* Gradients read out in the parameters' order, not in the order they were made in: the backward
     * pass went from the last to the first, so the last one that differs is the nearest to where it
     * began. */
    const struct tw_view *v;
    const struct tw_rec *r = tw_diff_rec(&d->d[first], a, b, &v);
    if (!(r->flags & TWIN_REC_UNORDERED) || category(r->phase, r->kind) != CAT_GRADIENT)
        return first;
    for (size_t i = first + 1; i < d->count; i++) {
        const struct tw_rec *x = tw_diff_rec(&d->d[i], a, b, &v);
        if (!tw_diff_significant(&d->d[i]) || d->d[i].carrier)
            continue;
        if (!(x->flags & TWIN_REC_UNORDERED) || category(x->phase, x->kind) != CAT_GRADIENT)
            break;
        first = i;
    }
    return first;
}
