/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes for baselines: what a process computed, as one sum for each step. Hashes of records are
 * added up, so the order in which threads recorded them does not matter; steps are chained, so
 * theirs does. Definitions are frozen: a file of one version of twinrun is compared with runs of
 * another (docs/format/baseline.md). */
#include "baseline_inside.h"

#include <string.h>

/* "baserec", "basestp" and "basespn" as numbers: a hash of one kind is never taken for one of
 * another. */
#define SEED_RECORD UINT64_C(0x62617365726563)
#define SEED_STEP UINT64_C(0x62617365737470)
#define SEED_SPAN UINT64_C(0x6261736573706e)

/* A record that could not be read hashes to something else than one that was: the bit beside the
 * occurrence says so. */
struct tw_hash128 tw_bl_record_hash128(uint64_t key, uint32_t occurrence, uint64_t content,
                                       bool unobserved)
{
    uint64_t w[3] = {key, (uint64_t)occurrence << 1 | unobserved, content};
    return tw_hash_bytes(w, sizeof w, SEED_RECORD);
}

uint32_t tw_bl_record_hash(uint64_t key, uint32_t occurrence, uint64_t content, bool unobserved)
{
    return (uint32_t)tw_bl_record_hash128(key, occurrence, content, unobserved).a;
}

/* Trainers, their children that step, and whatever else computed something. What a loader's workers
 * made is what the trainer got of them. */
bool tw_bl_wanted(const struct tw_side *s, struct tw_proc *p)
{
    if (tw_proc_is_loader(p))
        return false;
    if (p->info->steps > 0 || (s->steps == 0 && tw_starts(tw_proc_role(p), "main")))
        return true;
    return tw_side_complete(s) && p->info->closed && tw_proc_computes(p);
}

/* A name that did not repeat is left out with all its occurrences. */
bool tw_bl_skip(void *user, struct tw_proc *p, uint32_t series, uint64_t key)
{
    const struct tw_bl_left_out *l = user;
    const struct twin_series *s = twin_trace_series(p->trace, series);
    for (size_t i = 0; i < l->proc->left_out_count; i++)
        if (l->b->name[l->proc->left_out[i]].key == key)
            return true;
    return l->c->o->ignore_count &&
           tw_cmp_ignored(l->c, s->phase, s->kind, twin_trace_string(p->trace, s->name));
}

/* ---- the walk over a trace. Whether a series is skipped is asked once. */

enum { UNASKED, TAKEN, SKIPPED };

/* One walk; `asked` holds the answer for each series, and `oom` says why a walk was given up. */
struct walk {
    struct tw_proc *p;
    struct tw_bl_sums *out;
    tw_bl_skip_fn *skip;
    void *user;
    unsigned char *asked;
    size_t room;
    bool oom;
};

/* Does the series count? False also when there is no memory, which w->oom tells. */
static bool is_taken(struct walk *w, uint32_t series, uint64_t key)
{
    if (series >= w->room) {
        size_t room = w->room ? w->room : 256;
        while (room <= series)
            room *= 2;
        unsigned char *grown = tw_realloc(w->asked, room);
        if (!grown) {
            w->oom = true;
            return false;
        }
        memset(grown + w->room, UNASKED, room - w->room);
        w->asked = grown;
        w->room = room;
    }
    if (w->asked[series] == UNASKED)
        w->asked[series] = w->skip && w->skip(w->user, w->p, series, key) ? SKIPPED : TAKEN;
    return w->asked[series] == TAKEN;
}

/* Adds a record to the sum of its step. One of a step behind the last, or of a series number beyond
 * two million, stands in damaged bytes and is left alone. */
static int add_record(void *user, const struct twin_trace_record *r)
{
    struct walk *w = user;
    uint64_t key = tw_proc_key(w->p, r->series);
    if (r->step >= w->out->n || r->series > 1u << 21)
        return 0;
    if (key == 0 || !is_taken(w, r->series, key))
        return w->oom || key == 0 ? TWIN_ENOMEM : 0;
    const struct twin_series *s = twin_trace_series(w->p->trace, r->series);
    struct tw_hash128 h = tw_bl_record_hash128(key, r->occurrence, tw_record_content(w->p, r),
                                               r->flags & TWIN_REC_UNOBSERVED);
    struct tw_bl_sum *sum = &w->out->step[r->step];
    sum->a += h.a;
    sum->b += h.b;
    sum->count++;
    if (s->phase < TWIN_PHASE_COUNT)
        sum->phase[s->phase] += (uint32_t)h.a | 1u; /* never nothing for one record */
    return 0;
}

int tw_bl_sums_load(struct tw_cmp *c, struct tw_proc *p, tw_bl_skip_fn *skip, void *user,
                    struct tw_bl_sums *out, struct twin_error *err)
{
    uint32_t step, dropped;
    struct walk w = {.p = p, .out = out, .skip = skip, .user = user};
    *out = (struct tw_bl_sums){0};
    if (p->info->steps >= TW_BL_STEPS_MAX)
        return twin_error_set(err, TWIN_ELIMIT, "%s has %llu steps; a baseline holds up to %llu",
                              p->path, (unsigned long long)p->info->steps,
                              (unsigned long long)TW_BL_STEPS_MAX);
    out->n = (size_t)p->info->steps + 1;
    out->step = tw_calloc(out->n, sizeof *out->step);
    int rc = out->step ? twin_trace_walk(p->trace, add_record, NULL, &w, err) : TWIN_ENOMEM;
    for (size_t i = 0; rc == 0 && twin_trace_gap(p->trace, i, &step, &dropped); i++)
        if (step < out->n)
            out->step[step].dropped += dropped;
    tw_free(w.asked);
    if (rc == 0)
        return 0;
    tw_bl_sums_free(out);
    c->oom |= rc == TWIN_ENOMEM;
    return rc == TWIN_ENOMEM ? tw_no_memory(err, "reading %s", p->path) : rc;
}

void tw_bl_sums_free(struct tw_bl_sums *s)
{
    tw_free(s->step);
    *s = (struct tw_bl_sums){0};
}

struct tw_bl_span tw_bl_span_of(const struct tw_bl_sums *s, uint32_t first, uint32_t last)
{
    struct tw_bl_span span = {.first = first, .last = last};
    for (uint64_t i = first; i <= last && i < s->n; i++) {
        const struct tw_bl_sum *sum = &s->step[i];
        uint64_t w[3] = {sum->a, sum->b, sum->count};
        struct tw_hash128 h = tw_hash_bytes(w, sizeof w, SEED_STEP);
        uint64_t chain[4] = {span.hash.a, span.hash.b, h.a, h.b};
        span.hash = tw_hash_bytes(chain, sizeof chain, SEED_SPAN);
        for (unsigned p = 0; p < TWIN_PHASE_COUNT; p++)
            if (sum->phase[p] || span.phase[p])
                span.phase[p] = (uint32_t)tw_mix64((uint64_t)span.phase[p] << 32 | sum->phase[p]) |
                                1u;
    }
    return span;
}
