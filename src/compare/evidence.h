/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_COMPARE_EVIDENCE_H
#define TW_COMPARE_EVIDENCE_H
/* What each sentence of a verdict rests on (docs/format/verdict.md). */
#include "internal.h"

/* ---- claims.c: what each sentence of the verdict rests on (docs/format/verdict.md) */
/* Those of two runs: which steps of which traces were equal, what was listed as equal, which
 * processes had no counterpart. */
void tw_claims_of_pair(struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b,
                       const struct tw_scan *scans, size_t n, const struct tw_scan *named);
/* Lines of a stream that differ in noise only: which of one run is which of the other, as indices
 * from 0. */
void tw_claim_noise(struct tw_cmp *c, const char *stream, size_t (*pairs)[2], size_t n);
/* Evidence in a stream (line: index from 0 of those shown) or of a file. */
void tw_evidence_line(struct twin_evidence *e, const char *file, size_t line);
/* Fills a record's evidence: its trace, step, number and digest. */
void tw_evidence_set(struct twin_evidence *e, const struct tw_view *v, const struct tw_rec *r);
/* The same of a record that a link names; without a digest when its step is not loaded. */
void tw_evidence_link(struct twin_evidence *e, const struct tw_view *v, uint64_t link);
/* ---- claims_numbers.c: behind "then", "drift" and "nan". every_step: each step from the first
 * difference on was looked at */
void tw_claim_onset(struct tw_cmp *c, const struct tw_scan *s, const struct twin_onset *o,
                    bool every_step);
void tw_claim_printed(struct tw_cmp *c, const char *stream, const struct twin_onset *o,
                      size_t line_a, size_t line_b);
void tw_claim_drift(struct tw_cmp *c, const struct tw_scan *s, const char *what, const double *step,
                    size_t points, double factor);
struct tw_nonfinite_at {
    uint32_t step, number;
    enum twin_kind kind;
    bool nan;
    const char *name;
};
/* runs: those that were looked through, from 0; have: how many of them have one. */
void tw_claim_nonfinite(struct tw_cmp *c, const struct tw_proc *p, const struct tw_nonfinite_at *at,
                        const size_t *runs, size_t n, size_t have);

/* ---- transplant_claims.c */
struct tw_transplanted_run {
    const struct twin_run *reference, *run;
    enum twin_transplant_kind kind;
    uint32_t first, steps;
    uint64_t left_out, unequal, judged[3]; /* steps; judged: for data, generators, computing */
    const struct twin_origin *origin;
    size_t origins;
    /* each origin in each step that showed it */
    const struct tw_seen {
        size_t origin;
        uint32_t step;
    } *see;
    size_t seen;
};
void tw_claim_transplanted(struct tw_cmp *c, const struct tw_transplanted_run *r);
/* An operation that was run again on its recorded inputs, in the runs of a zoom pair. call: the one
 * call of the second that was; NULL: the one that its command named. */
void tw_claim_replays(struct tw_cmp *c, const struct twin_finding *f, const struct twin_run *a,
                      const struct twin_run *b, const char *call, unsigned replays,
                      unsigned disagree);

void tw_claims_equal(struct tw_cmp *c, const struct tw_scan *s); /* what a scan lists as equal */
/* moves c->claims behind those that c->v has already */
void tw_claims_append(struct tw_cmp *c);
void tw_claims_free(struct twin_claim *claim, size_t n);

#endif
