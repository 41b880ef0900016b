/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A verdict as an object: the names of its outcomes and of the kinds of transplants, how one begins
 * and is freed, and notes that are added when it is finished. compare.c and its helpers fill it;
 * everything that it points to belongs to it.
 */
#include "evidence.h"
#include "internal.h"
#include "scan.h"

#include <math.h>
#include <string.h>

/* Of every bound and interval in a verdict. */
#define CONFIDENCE 0.95

const char *twin_verdict_name(enum twin_verdict_outcome o)
{
    switch (o) {
    case TWIN_SAME: return "same";
    case TWIN_WITHIN_TOLERANCE: return "within-tolerance";
    case TWIN_DIFFER: return "differ";
    case TWIN_INCONCLUSIVE: return "inconclusive";
    default: return "error";
    }
}

struct twin_verdict *tw_verdict_new(struct tw_cmp *c, size_t runs)
{
    struct twin_verdict *v = tw_calloc(1, sizeof *v);
    if (!v)
        return NULL;
    v->runs = runs;
    v->comparisons = runs - 1;
    v->confidence = CONFIDENCE;
    v->drift_per_step = v->overhead_ratio = NAN;
    v->equal_before = tw_cmp_copy(c, "");
    v->nonfinite = tw_cmp_copy(c, "");
    return v;
}

/* In the order of enum twin_transplant_kind. */
static const char *const transplants[] = {"none", "data", "rng", "step"};

const char *twin_transplant_name(enum twin_transplant_kind k)
{
    return (size_t)k < sizeof transplants / sizeof transplants[0] ? transplants[k] : "?";
}

int twin_transplant_parse(const char *s, enum twin_transplant_kind *out)
{
    for (int k = TWIN_TRANSPLANT_DATA; k <= TWIN_TRANSPLANT_STEP; k++)
        if (strcmp(s, transplants[k]) == 0) {
            *out = (enum twin_transplant_kind)k;
            return 0;
        }
    return TWIN_EINVAL;
}

static void free_texts(char **s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        tw_free(s[i]);
    tw_free(s);
}

static void free_findings(struct twin_finding *f, size_t n)
{
    for (size_t i = 0; i < n; i++)
        tw_finding_clear(&f[i]);
    tw_free(f);
}

/* What a comparison with a baseline holds; NULL for a comparison of runs. */
static void free_against(struct twin_against *a)
{
    if (!a)
        return;
    for (size_t i = 0; i < a->world_count; i++) {
        tw_free(a->world[i].name);
        tw_free(a->world[i].then);
        tw_free(a->world[i].now);
    }
    tw_free(a->world);
    tw_free(a->path);
    tw_free(a->made);
    tw_free(a->signer);
    tw_free(a);
}

void tw_ranges_free(struct twin_range *r, size_t n)
{
    for (size_t i = 0; r && i < n; i++)
        tw_free(r[i].process);
    tw_free(r);
}

static void free_pinned(struct twin_pinned *p)
{
    if (!p)
        return;
    tw_free(p->factors);
    tw_free(p->search);
    tw_free(p);
}

/* Takes the text, which is lost where there is no memory for it. */
static void add_text(char ***list, size_t *count, char *text)
{
    char **grown = tw_reallocarray(*list, *count + 1, sizeof *grown);
    if (grown)
        *list = grown;
    if (grown && text)
        grown[(*count)++] = text;
    else
        tw_free(text);
}

/* Unlike tw_cmp_note() this works on a finished verdict and keeps equal notes. */
void twin_verdict_note(struct twin_verdict *v, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    add_text(&v->notes, &v->note_count, tw_vprintf(format, ap));
    va_end(ap);
}

/* The outcome first: it must not hang on whether there is memory for the words. */
void twin_verdict_unseen(struct twin_verdict *v, const char *format, ...)
{
    va_list ap;
    const bool settled = v->outcome == TWIN_DIFFER || v->outcome == TWIN_FAILED;
    if (!settled)
        v->outcome = TWIN_INCONCLUSIVE;
    if (v->bitwise == TWIN_SAME)
        v->bitwise = TWIN_INCONCLUSIVE;
    v->open_only = false;
    va_start(ap, format);
    char *text = tw_vprintf(format, ap);
    va_end(ap);
    if (settled)
        add_text(&v->notes, &v->note_count, text);
    else
        add_text(&v->unseen, &v->unseen_count, text);
}

int twin_verdict_pinned(struct twin_verdict *v, const char *factors, const char *search, bool held,
                        struct twin_error *err)
{
    struct twin_pinned *p = tw_calloc(1, sizeof *p);
    free_pinned(v->pinned);
    v->pinned = p;
    if (p) {
        p->factors = tw_strdup(factors);
        p->search = tw_strdup(search);
        p->held = held;
    }
    return p && p->factors && p->search ? 0 : tw_no_memory(err, "for a verdict");
}

void twin_verdict_free(struct twin_verdict *v)
{
    if (!v)
        return;
    tw_free(v->ranks);
    tw_finding_free(v->first);
    free_findings(v->origins, v->origin_count);
    free_findings(v->benign, v->benign_count);
    for (size_t i = 0; i < v->onset_count; i++)
        tw_free(v->onsets[i].what);
    tw_free(v->onsets);
    tw_free(v->equal_before);
    tw_free(v->nonfinite);
    for (size_t i = 0; i < v->class_count; i++)
        tw_free(v->classes[i].runs);
    tw_free(v->classes);
    tw_free(v->gaps);
    tw_rank_order_free(v->order);
    tw_ranges_free(v->ranges, v->range_count);
    free_texts(v->unseen, v->unseen_count);
    free_texts(v->armed, v->armed_count);
    free_texts(v->unarmed, v->unarmed_count);
    free_texts(v->notes, v->note_count);
    for (size_t i = 0; v->transplant && i < v->transplant->origin_count; i++)
        tw_finding_free(v->transplant->origin[i].finding);
    if (v->transplant)
        tw_free(v->transplant->origin);
    tw_free(v->transplant);
    tw_free(v->rounding);
    for (size_t i = 0; i < v->rule_count; i++) {
        tw_free(v->rules[i].pattern);
        tw_free(v->rules[i].reason);
        tw_free(v->rules[i].where);
    }
    tw_free(v->rules);
    tw_free(v->covers);
    free_against(v->against);
    free_pinned(v->pinned);
    tw_claims_free(v->claims, v->claim_count);
    tw_free(v);
}
