/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the job printed. Lines are matched as a multiset, since ranks and threads interleave as they like: first byte for
 * byte, then with noise masked, then by what they say (numbers left out). A pair that says the same with other numbers is
 * a difference; text that only one run printed (a warning, "downloading ...") is named but proves nothing.
 */
#include "internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define STREAM_CAP ((size_t)64 << 20)
#define LINES_MAX 200000u

struct line { const char *text; size_t n; char *masked; uint64_t hash; bool matched; };
struct stream { char *data; size_t bytes; struct line *line; size_t count, room; struct tw_noise_span span; bool cut; };

static void stream_free(struct stream *s)
{
    for (size_t i = 0; i < s->count; i++)
        tw_free(s->line[i].masked);
    tw_free(s->line);
    tw_free(s->data);
}

/* Cuts into lines. Of a progress bar, which overwrites itself with '\r', only what a terminal would show at the end is kept. */
static void split(struct tw_cmp *c, struct stream *s)
{
    for (size_t at = 0; at < s->bytes;) {
        const char *start = s->data + at, *end = memchr(start, '\n', s->bytes - at);
        size_t n = end ? (size_t)(end - start) : s->bytes - at;
        at += n + 1;
        while (n > 0 && (start[n - 1] == '\r' || start[n - 1] == ' '))
            n--;
        const char *shown = memrchr(start, '\r', n);
        if (shown) {
            n -= (size_t)(shown + 1 - start);
            start = shown + 1;
        }
        if (n == 0)
            continue;
        if (s->count >= LINES_MAX) {
            s->cut = true;
            return;
        }
        if (!tw_cmp_room(c, &s->line, s->count, &s->room, sizeof *s->line))
            return;
        s->line[s->count++] = (struct line){.text = start, .n = n};
    }
}

static void stream_load(struct tw_cmp *c, const struct twin_run *run, const char *which, struct stream *s)
{
    struct twin_error err = TWIN_ERROR_INIT;
    char *path = tw_path_join(run->dir, which);
    *s = (struct stream){.span = tw_noise_span(run)};
    int rc = path ? tw_read_file(path, STREAM_CAP, &s->data, &s->bytes, &err) : TWIN_ENOMEM;
    tw_free(path);
    c->oom |= rc == TWIN_ENOMEM;
    if (rc == 0)
        split(c, s);
    else
        s->cut = rc != TWIN_ENOENT;
}

enum tier { RAW, MASKED, SAME_STEP, SKELETON };

static uint64_t line_hash(struct tw_cmp *c, const struct stream *s, struct line *l, enum tier tier)
{
    if (tier == RAW)
        return tw_hash_bytes(l->text, l->n, 11).a;
    if (!l->masked)
        l->masked = tw_noise_mask(l->text, l->n, s->span);
    c->oom |= !l->masked;
    if (!l->masked)
        return 0;
    if (tier == MASKED)
        return tw_hash_bytes(l->masked, strlen(l->masked), 12).a;
    char *skeleton = tw_noise_skeleton(l->masked);
    c->oom |= !skeleton;
    uint64_t h = skeleton ? tw_hash_bytes(skeleton, strlen(skeleton), 13).a : 0;
    tw_free(skeleton);
    return tier == SAME_STEP ? tw_mix64(h ^ (uint64_t)tw_noise_step(l->masked)) : h;
}

struct ref { uint64_t hash; size_t index; };

static int by_hash(const void *x, const void *y)
{
    const struct ref *a = x, *b = y;
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static struct ref *refs(struct tw_cmp *c, struct stream *s, enum tier tier, size_t *n)
{
    struct ref *r = tw_reallocarray(NULL, s->count, sizeof *r);
    *n = 0;
    c->oom |= !r;
    for (size_t i = 0; r && i < s->count; i++) {
        /* a step is only told apart when the line names one */
        if (s->line[i].matched || (tier == SAME_STEP && s->line[i].masked && tw_noise_step(s->line[i].masked) < 0))
            continue;
        r[(*n)++] = (struct ref){line_hash(c, s, &s->line[i], tier), i};
    }
    if (r && *n)
        qsort(r, *n, sizeof *r, by_hash);
    return r;
}

struct pairs { size_t (*p)[2]; size_t n, room; };

/* Matches what is left by the tier's hash; the pairs are appended when wanted. Returns how many matched. */
static size_t match(struct tw_cmp *c, struct stream *a, struct stream *b, enum tier tier, struct pairs *pairs)
{
    size_t n, m, count = 0;
    struct ref *x = refs(c, a, tier, &n), *y = refs(c, b, tier, &m);
    for (size_t i = 0, j = 0; x && y && i < n && j < m;) {
        if (x[i].hash == y[j].hash) {
            a->line[x[i].index].matched = b->line[y[j].index].matched = true;
            if (pairs && tw_cmp_room(c, &pairs->p, pairs->n, &pairs->room, sizeof *pairs->p)) {
                pairs->p[pairs->n][0] = x[i].index;
                pairs->p[pairs->n++][1] = y[j].index;
            }
            count++, i++, j++;
        } else if (x[i].hash < y[j].hash) {
            i++;
        } else {
            j++;
        }
    }
    tw_free(x);
    tw_free(y);
    return count;
}

/* The word that names the first number in which two lines differ: "loss" of "step 3 loss 0.12". malloc'ed. */
static char *name_of_difference(const char *x, const char *y)
{
    size_t at = 0, end, start;
    while (x[at] && x[at] == y[at])
        at++;
    while (at > 0 && (isdigit((unsigned char)x[at - 1]) || strchr(".+-e", x[at - 1])) && !isspace((unsigned char)x[at - 1]))
        at--; /* to the number's beginning */
    for (end = at; end > 0 && !isalpha((unsigned char)x[end - 1]); end--) {}
    for (start = end; start > 0 && (isalnum((unsigned char)x[start - 1]) || x[start - 1] == '_'); start--) {}
    return end > start ? tw_strndup(x + start, end - start) : tw_strdup("line");
}

static void add_onset(struct tw_cmp *c, const char *x, const char *y)
{
    struct twin_verdict *v = c->v;
    int64_t step = tw_noise_step(x);
    if (step < 0 || c->quick || c->o->shift != 0 || (c->o->arms && c->o->find_shift)) /* a resumed arm may count anew */
        return;
    char *name = name_of_difference(x, y);
    char *what = name ? tw_cmp_text(c, "printed %s", name) : NULL;
    tw_free(name);
    struct twin_onset *grown = what ? tw_reallocarray(v->onsets, v->onset_count + 1, sizeof *grown) : NULL;
    if (!grown) {
        c->oom = true;
        tw_free(what);
        return;
    }
    v->onsets = grown;
    v->onsets[v->onset_count++] = (struct twin_onset){what, TWIN_PHASE_OUTPUT, TWIN_KIND_LINE, (uint32_t)step};
}

static struct twin_finding *output_finding(struct tw_cmp *c, const char *which, char *text)
{
    struct twin_finding *f = tw_finding_new(c, TWIN_FINDING_OUTPUT, TWIN_PHASE_OUTPUT, TWIN_KIND_LINE);
    if (f) {
        tw_finding_set(c, &f->name, tw_cmp_copy(c, which));
        tw_finding_set(c, &f->text, text);
    } else {
        tw_free(text);
    }
    return f;
}

static void report_pair(struct tw_cmp *c, const char *which, const struct stream *a, const struct stream *b, size_t i, size_t j,
                        size_t count, bool arms, struct tw_last_resort *out)
{
    const struct line *x = &a->line[i], *y = &b->line[j];
    char *text = tw_cmp_text(c, "%zu printed line%s in numbers, first line %zu of %s: \"%.*s\" and \"%.*s\"", count,
                             count == 1 ? " differs" : "s differ", i + 1, which, (int)(x->n < 160 ? x->n : 160), x->text,
                             (int)(y->n < 160 ? y->n : 160), y->text);
    if (x->masked && y->masked)
        add_onset(c, x->masked, y->masked);
    if (arms) {
        tw_texts_add(c, &out->unknown, text);
        return;
    }
    struct twin_finding *f = output_finding(c, which, text);
    if (f) {
        tw_evidence_line(&f->at_a, which, i);
        tw_evidence_line(&f->at_b, which, j);
    }
    int64_t step = x->masked ? tw_noise_step(x->masked) : -1;
    if (f && step >= 0)
        f->step_a = f->step_b = (uint32_t)step;
    tw_findings_take(c, &out->findings, f);
}

static void compare_stream(struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b, const char *which,
                           struct tw_last_resort *out)
{
    struct stream x, y;
    struct pairs pairs = {0}, noisy = {0};
    stream_load(c, a->run, which, &x);
    stream_load(c, b->run, which, &y);
    match(c, &x, &y, RAW, NULL);
    size_t noise = match(c, &x, &y, MASKED, &noisy);
    tw_claim_noise(c, which, noisy.p, noisy.n);
    match(c, &x, &y, SAME_STEP, &pairs);
    if (!c->o->arms)
        match(c, &x, &y, SKELETON, &pairs);
    if (noise)
        tw_findings_take(c, &out->benign, output_finding(c, which, tw_cmp_text(c, "%zu line%s of %s only in times, pids, speeds or addresses",
                                                                               noise, noise == 1 ? " differs" : "s differ", which)));
    size_t first = TW_NONE;
    for (size_t i = 0; i < pairs.n; i++)
        if (first == TW_NONE || pairs.p[i][0] < pairs.p[first][0])
            first = i;
    if (first != TW_NONE)
        report_pair(c, which, &x, &y, pairs.p[first][0], pairs.p[first][1], pairs.n, c->o->arms, out);
    /* Text of one run alone. A stopped or failed run, or arms, print other things by nature. */
    bool comparable = !c->o->arms && tw_side_complete(a) && tw_side_complete(b) && !tw_side_failed(a) && !tw_side_failed(b);
    size_t single[2] = {0}, where[2] = {0};
    for (size_t side = 0; side < 2; side++) {
        const struct stream *s = side ? &y : &x;
        for (size_t i = s->count; i-- > 0;)
            if (!s->line[i].matched) {
                single[side]++;
                where[side] = i;
            }
    }
    if (comparable && !x.cut && !y.cut && single[0] + single[1] > 0) {
        const struct line *l = single[0] ? &x.line[where[0]] : &y.line[where[1]];
        tw_texts_add(c, &out->unknown, tw_cmp_text(c, "%s: text differs (%zu lines only in %s, %zu only in %s), first \"%.*s\"", which,
                                                   single[0], c->label_a, single[1], c->label_b, (int)(l->n < 120 ? l->n : 120), l->text));
    }
    if (x.cut || y.cut)
        tw_cmp_note(c, "%s was too long to be compared in full", which);
    tw_free(pairs.p);
    tw_free(noisy.p);
    stream_free(&x);
    stream_free(&y);
}

int tw_output_compare(struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b, struct tw_last_resort *out)
{
    const struct twin_run *x = a->run, *y = b->run;
    if (strcmp(x->stdout_sha256, y->stdout_sha256) != 0 && !tw_cmp_ignored(c, TWIN_PHASE_OUTPUT, TWIN_KIND_LINE, "stdout"))
        compare_stream(c, a, b, "stdout", out);
    if (strcmp(x->stderr_sha256, y->stderr_sha256) != 0 && !tw_cmp_ignored(c, TWIN_PHASE_OUTPUT, TWIN_KIND_LINE, "stderr"))
        compare_stream(c, a, b, "stderr", out);
    return c->oom ? TWIN_ENOMEM : 0;
}

void tw_last_resort_free(struct tw_last_resort *r)
{
    tw_findings_free(&r->findings);
    tw_findings_free(&r->benign);
    tw_texts_free(&r->unknown);
}
