/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a table over the finished steps of a trace: for each step its value hash, which phases were
 * seen, how many records it has. coverage.c, trend.c and others that look at every step use it,
 * because it takes 16 bytes a step and one walk over the trace.
 */
#include "internal.h"
#include "scan.h"

/*
 * The most steps that a table holds: 2^26 entries of 16 bytes are 1 GiB. Steps behind that are left
 * out, and tw_steps.cut says so. Unit tests make it smaller.
 */
uint64_t tw_steps_most = UINT64_C(1) << 26;

/*
 * Callback of twin_trace_walk: fills the entry of one step. The hash covers the number of records
 * and the hashes of all phases; a phase whose hash is 0 was not seen.
 */
static int take_step(void *user, const struct twin_step_hash *h)
{
    struct tw_steps *t = user;
    if (h->step >= t->n)
        return 0;
    struct tw_step_entry *e = &t->step[h->step];
    *e = (struct tw_step_entry){.records = h->records, .known = true};
    e->hash = tw_mix64(h->records);
    for (unsigned p = 0; p < TWIN_PHASE_COUNT; p++) {
        if (h->phase[p].lo | h->phase[p].hi)
            e->phases |= (uint16_t)(1u << p);
        e->hash = tw_mix64(tw_mix64(e->hash ^ h->phase[p].lo) + h->phase[p].hi);
    }
    return 0;
}

uint64_t tw_found_in_b(const struct tw_scan *s)
{
    const int64_t step = (int64_t)s->step + s->shift;
    return step < 0 ? 0 : (uint64_t)step;
}

/*
 * Steps before `from` stay unknown (known false), because who asks behind a late difference does
 * not need them; and steps that lie in damaged bytes. On an error out is empty. Returns 0 or
 * TWIN_ENOMEM; tw_steps_free() frees out.
 */
int tw_steps_load(struct tw_cmp *c, struct tw_proc *p, uint64_t from, struct tw_steps *out,
                  struct twin_error *err)
{
    uint64_t n = p->info->steps < tw_steps_most ? p->info->steps : tw_steps_most;
    *out = (struct tw_steps){.n = (size_t)n, .cut = p->info->steps > n};
    out->step = tw_calloc(out->n, sizeof *out->step);
    if (!out->step) {
        c->oom = true;
        return tw_no_memory(err, "for a table of %zu steps", out->n);
    }
    from = from < UINT32_MAX ? from : UINT32_MAX;
    int rc = twin_trace_walk_steps(p->trace, (uint32_t)from, take_step, out, NULL);
    if (rc != TWIN_ENOMEM) /* damage only leaves steps unknown */
        return 0;
    tw_steps_free(out);
    return tw_no_memory(err, "reading a trace");
}

void tw_steps_free(struct tw_steps *s)
{
    tw_free(s->step);
    *s = (struct tw_steps){0};
}
