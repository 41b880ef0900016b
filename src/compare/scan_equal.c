/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says what was equal until a pair of processes parted: the part of a finding that begins with
 * "equal". Each part of the sentence is noted for the claim that goes with it.
 */
#include "arms.h"
#include "evidence.h"
#include "internal.h"
#include "phrase.h"
#include "scan.h"

#include <string.h>

/* One part of "equal: ...": which records it stands for, and its words. phase 0: any phase. */
struct label {
    uint8_t phase, kind;
    const char *text;
};

/* The place in labels[] of the label without a kind: weights that entered the step. */
enum { ENTERING = 5 }; /* the label without a kind: weights that entered the step */

/*
 * The parts of "equal: ..." in the order in which they are said, which is that of a step. The first
 * row that fits a record is its label. Phase 0: any; kind 0xFF: any of that phase.
 */
static const struct label labels[] = {
    {0, TWIN_KIND_INDICES, "sample indices"},
    {0, TWIN_KIND_BATCH, "batch"},
    {TWIN_PHASE_DATA, TWIN_KIND_IN, "inputs of modules"},
    {0, TWIN_KIND_STATE, "generator states"},
    {TWIN_PHASE_INIT, TWIN_KIND_WEIGHT, "initial weights"},
    [ENTERING] = {0, 0, "weights"},
    {0, TWIN_KIND_ACTIVATION, "activations"},
    {0, TWIN_KIND_LOSS, "loss"},
    {0, TWIN_KIND_GRADIENT_LOCAL, "local gradients"},
    {0, TWIN_KIND_GRADIENT, "gradients"},
    {0, TWIN_KIND_HYPER, "hyperparameters"},
    {0, TWIN_KIND_MOMENT, "optimizer state"},
    {TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "updated weights"},
    {0, TWIN_KIND_VALUE, "recorded values"},
    {TWIN_PHASE_COLLECTIVE, 0xFF, "collectives"},
    {TWIN_PHASE_KERNEL, 0xFF, "operations"},
};
#define LABELS (sizeof labels / sizeof labels[0])

/* The row of labels[] that fits a record; LABELS: none. */
static size_t label_of(const struct tw_rec *r)
{
    for (size_t i = 0; i < LABELS; i++) {
        bool phase = labels[i].phase == 0 || labels[i].phase == r->phase;
        if (phase &&
            (labels[i].kind == r->kind || (labels[i].kind == 0xFF && labels[i].phase == r->phase)))
            return i;
    }
    return LABELS;
}

/*
 * What several of this kind are called, behind "3 other"; NULL: siblings of such a kind are not
 * counted.
 */
static const char *plural(uint8_t phase, uint8_t kind)
{
    if (kind == TWIN_KIND_WEIGHT)
        return phase == TWIN_PHASE_INIT ? "initial weights" : "weights";
    switch (kind) {
    case TWIN_KIND_GRADIENT_LOCAL: return "local gradients";
    case TWIN_KIND_GRADIENT: return "gradients";
    case TWIN_KIND_MOMENT: return "moments";
    default: return NULL;
    }
}

/*
 * Appends " (40% of the elements)" behind the name of what was recorded in parts: how much of it
 * was seen to be equal. Nothing where all was seen, and for kinds that are not recorded in parts.
 */
static void say_share(struct tw_buf *text, struct tw_proc *p, const struct label *l, uint32_t step)
{
    /* the weights that entered this step are those that left the one before */
    bool entering = l->kind == 0;
    bool updated = l->phase == TWIN_PHASE_OPTIMIZER && l->kind == TWIN_KIND_WEIGHT;
    if (!entering && !updated && l->kind != TWIN_KIND_MOMENT)
        return;
    enum twin_kind kind = l->kind == TWIN_KIND_MOMENT ? TWIN_KIND_MOMENT : TWIN_KIND_WEIGHT;
    double share = tw_share_of_elements(p, entering && step > 0 ? step - 1 : step, kind);
    if (share < 1)
        tw_buf_printf(text, " (%.0f%% of the elements)", share < 0.01 ? 1.0 : 100 * share);
}

bool tw_weights_in_each(const struct tw_scan *s, uint32_t from, uint32_t to)
{
    uint32_t n = 0;
    for (size_t i = 0; i < s->shares; i++)
        n += s->shared[i].step >= from && s->shared[i].step < to &&
             s->shared[i].phases >> TWIN_PHASE_OPTIMIZER & 1;
    return from < to && n == to - from;
}

/*
 * Says what is known to be equal when nothing of the step itself is: everything before it. "" for
 * step 0, or where no weights of a step before were compared; NULL: no memory. The caller frees it.
 */
char *tw_steps_before(struct tw_cmp *c, uint32_t step, const struct tw_scan *s)
{
    /* other numbers of ranks: gradients and optimizer state may not be compared in each step */
    const char *what = s->weights_only ? "the weights" : "all that was recorded";
    const uint32_t first = s->weights_only ? (uint32_t)s->first : 0;
    if (step == 0 || (s->weights_only && !tw_weights_in_each(s, first, step)))
        return tw_cmp_copy(c, "");
    if (step == first + 1)
        return tw_cmp_text(c, "%s of step %u", what, first);
    return tw_cmp_text(c, "%s of steps %u to %u", what, first, step - 1);
}

/*
 * Notes one part of the sentence for the claim that goes with it. `label` must live as long as the
 * program.
 */
static void say_equal(struct tw_scan *out, const char *label, uint64_t records, bool others)
{
    if (out->equal_count < TW_EQUAL_MAX)
        out->equal[out->equal_count++] = (struct tw_equal){label, records, others};
}

/*
 * Sets out->equal_before to a sentence part that names what was equal in step out->step before its
 * first difference, and out->equal_records to how many records that were. Siblings are records of
 * the kind that differs first: they are counted wherever they stand ("3 other gradients").
 */
void tw_say_equal_before(struct tw_cmp *c, const struct tw_view *a, const struct tw_view *b,
                         const struct tw_stepdiff *d, const struct tw_diff *first,
                         struct tw_scan *out)
{
    bool seen[LABELS] = {false}, differs[LABELS] = {false};
    uint64_t records[LABELS] = {0};
    const struct tw_view *v;
    const struct tw_rec *r = tw_diff_rec(first, a, b, &v);
    /* What differs at the seam of a resumed arm stands among records of two steps: others of its
     * kind are no records of the step that is named (shift.c says what is equal at the seam). */
    bool at_seam = v == a && a->rec[a->count - 1].step > r->step;
    size_t siblings = 0;
    out->equal_records = 0;
    /* First pass: labels of which some record differs are not listed as equal. */
    for (size_t i = 0; i < d->count; i++) {
        const struct tw_view *w;
        const struct tw_rec *x = tw_diff_rec(&d->d[i], a, b, &w);
        if (tw_diff_significant(&d->d[i]) && label_of(x) < LABELS)
            differs[label_of(x)] = true;
    }
    /*
     * Second pass: what is equal, seen whole, and stands before the first difference. Places of
     * differences are twice the index plus 2 (stepdiff.c), hence the factor.
     */
    for (size_t i = 0; i < a->count; i++) {
        const struct tw_rec *x = &a->rec[i];
        if (d->to_b[i] == TW_NONE)
            continue;
        /* a state that nobody was seen to draw from counts for nothing, and is not equal either */
        if (b->rec[d->to_b[i]].content != x->content) {
            if (label_of(x) < LABELS)
                differs[label_of(x)] |= x->kind == TWIN_KIND_STATE;
            continue;
        }
        /* not read, or a sample: not all of its kind are equal */
        if (!(x->flags & TWIN_REC_PART) && tw_rec_hidden(a, x)) {
            if (label_of(x) < LABELS)
                differs[label_of(x)] = true;
            continue;
        }
        bool sibling = !at_seam && x->phase == r->phase && x->kind == r->kind &&
                       plural(r->phase, r->kind);
        siblings += sibling;
        /* a model is announced when it is called */
        bool first_of_all = x->phase == TWIN_PHASE_INIT && r->phase != TWIN_PHASE_INIT;
        if (2 * (i + 1) >= first->at && !sibling && !first_of_all)
            continue;
        out->equal_records++;
        if (!sibling && label_of(x) < LABELS) {
            seen[label_of(x)] = true;
            records[label_of(x)]++;
        }
    }
    /*
     * Weights that no record of this step shows were handed on by the step before: that step has a
     * hash of its optimizer's phase and left its weights whole.
     */
    struct twin_step_hash h;
    uint32_t step = out->step;
    bool handed_on = !seen[ENTERING] && step > 0 &&
                     (!out->weights_only || tw_weights_in_each(out, step - 1, step)) &&
                     twin_trace_step_hash(a->proc->trace, step - 1, &h, NULL) == 0 &&
                     (h.phase[TWIN_PHASE_OPTIMIZER].lo | h.phase[TWIN_PHASE_OPTIMIZER].hi) &&
                     tw_left_whole(c, a->proc, step - 1);
    seen[ENTERING] |= handed_on; /* what was written to them since is not seen here */
    /* Then the sentence: the labels in their order, the siblings at the end. */
    size_t count = 0, done = 0;
    for (size_t i = 0; i < LABELS; i++)
        count += seen[i] && !differs[i];
    count += siblings > 0;
    struct tw_buf text = {0};
    for (size_t i = 0; i <= LABELS; i++) {
        bool last = i == LABELS;
        if (last ? siblings == 0 : !seen[i] || differs[i])
            continue;
        if (done > 0)
            tw_buf_puts(&text, done + 1 == count ? " and " : ", ");
        if (last)
            say_equal(out, plural(r->phase, r->kind), siblings, true);
        else
            say_equal(out, labels[i].text, records[i], false);
        if (last)
            tw_buf_printf(&text, "%zu other %.*s", siblings,
                          (int)(strlen(plural(r->phase, r->kind)) - (siblings == 1)),
                          plural(r->phase, r->kind));
        else
            tw_buf_puts(&text, labels[i].text);
        if (!last)
            say_share(&text, a->proc, &labels[i], step);
        if (i == ENTERING && handed_on)
            tw_buf_printf(&text, " (as step %u left them)", step - 1);
        done++;
    }
    if (out->equal_records > 0 && done) {
        tw_buf_printf(&text, " of step %u (%llu record%s)", step,
                      (unsigned long long)out->equal_records, tw_plural_s(out->equal_records));
        tw_finding_set(c, &out->equal_before, tw_buf_steal(&text));
    } else {
        /* and what these steps handed on, by name */
        char *before = tw_steps_before(c, step, out);
        char *all;
        if (done && before)
            all = tw_cmp_text(c, "%s of step %u%s%s", text.data ? text.data : "", step,
                              before[0] ? ", and " : "", before);
        else
            all = tw_cmp_copy(c, before ? before : "");
        tw_finding_set(c, &out->equal_before, all);
        tw_free(before);
    }
    tw_buf_free(&text);
}

void tw_equal_before(struct tw_cmp *c, const struct tw_pair *pair, const struct tw_view *a,
                     const struct tw_view *b, const struct tw_stepdiff *d,
                     const struct tw_diff *first, int64_t shift, char **text, uint64_t *records)
{
    const struct tw_view *v;
    const struct tw_rec *r = tw_diff_rec(first, a, b, &v);
    struct tw_scan s = {
        .pair = pair, .shift = shift, .step = (uint32_t)(r->step - (v == b ? shift : 0))};
    tw_say_equal_before(c, a, b, d, first, &s);
    *records = s.equal_records;
    tw_claims_equal(c, &s);
    if (s.equal_before)
        tw_finding_set(c, text, s.equal_before);
}
