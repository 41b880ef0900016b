/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two texts that runs wrote, line by line: what was printed, and files of text. Lines are matched
 * as a multiset, since ranks and threads interleave as they like: first byte for byte, then with
 * noise masked, then by what they say (numbers left out), then by the words that they share. A pair
 * that says the same with other numbers, or nearly the same with other words, is a difference.
 * Lines of which it cannot be told whether they matter are quoted, with the option that settles it.
 */
#include "lines.h"

#include "evidence.h"
#include "phrase.h"
#include "printed.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a line that a message quotes. */
#define QUOTED 120

/* A line of a and the line of b that is its counterpart, by their places. */
struct pair {
    size_t a, b;
};
struct pairs {
    struct pair *p;
    size_t n, room;
};

/* ---- matching */

/* What two lines must have in common to be matched, the strictest first: all bytes; all but noise;
 * the same with the step that an arm counts from another start; all but noise and what may be
 * noise; the words and the step; the words alone. */
enum tier { RAW, MASKED, SHIFTED, OPEN, SAME_STEP, SKELETON };

/* The hash of a text that ends. */
static uint64_t text_hash(const char *s, uint64_t seed)
{
    return tw_hash_bytes(s, strlen(s), seed).a;
}

/* A resumed arm may count from 0 again: the step that the line names, as the other arm would count
 * it. */
static uint64_t shifted_hash(const char *s, int64_t shift)
{
    int64_t step = tw_noise_step(s);
    char number[32];
    snprintf(number, sizeof number, "%lld", (long long)step);
    const char *at = step >= 0 ? strstr(s, number) : NULL;
    if (!at)
        return text_hash(s, 12);
    char *text = tw_printf("%.*s%lld%s", (int)(at - s), s, (long long)(step + shift),
                           at + strlen(number));
    uint64_t h = text ? text_hash(text, 12) : 0;
    tw_free(text);
    return h;
}

/* What the tier compares of a line, as a hash. */
static uint64_t line_hash(struct tw_cmp *c, const struct text *t, struct line *l, enum tier tier,
                          int64_t shift)
{
    if (tier == RAW)
        return tw_hash_bytes(l->text, l->n, 11).a;
    if (tier == MASKED)
        return text_hash(tw_line_masked(c, t, l), 12);
    if (tier == SHIFTED)
        return shifted_hash(tw_line_masked(c, t, l), shift);
    char *said = tw_noise_mask(l->text, l->n, t->facts,
                               tier == OPEN ? TW_MASK_OPEN : TW_MASK_NUMBERS);
    uint64_t h = said ? text_hash(said, 13) : 0;
    c->oom |= !said;
    tw_free(said);
    return tier == SAME_STEP ? tw_mix64(h ^ (uint64_t)tw_noise_step(tw_line_masked(c, t, l))) : h;
}

/* A line that has no counterpart yet, by the hash of what it says in the tier at hand. */
struct ref {
    uint64_t hash;
    size_t index;
};

/* By hash; lines that say the same keep their order. */
static int by_hash(const void *x, const void *y)
{
    const struct ref *a = x, *b = y;
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* The lines of a text that have no counterpart yet, sorted. *n of them; NULL: no memory. */
static struct ref *sorted_refs(struct tw_cmp *c, struct text *t, enum tier tier, int64_t shift,
                               size_t *n)
{
    struct ref *r = tw_reallocarray(NULL, t->count + 1, sizeof *r);
    *n = 0;
    c->oom |= !r;
    for (size_t i = 0; r && i < t->count; i++) {
        struct line *l = &t->line[i];
        if (l->matched)
            continue;
        /* a step is only told apart when the line names one */
        if (tier == SAME_STEP && tw_noise_step(tw_line_masked(c, t, l)) < 0)
            continue;
        r[(*n)++] = (struct ref){line_hash(c, t, l, tier, shift), i};
    }
    if (r && *n)
        qsort(r, *n, sizeof *r, by_hash);
    return r;
}

/* How many lines from `from` on say the same. */
static size_t run_length(const struct ref *r, size_t from, size_t n)
{
    assert(from < n);
    size_t to = from;
    while (to < n && r[to].hash == r[from].hash)
        to++;
    return to - from;
}

/* Matches what is left by the tier's hash; the pairs are appended. even: only where both have as
 * many lines that say the same; of others *uneven counts those of the shorter side. Returns how
 * many matched. */
static size_t match_tier(struct tw_cmp *c, struct text *a, struct text *b, enum tier tier,
                         int64_t shift, bool even, struct pairs *pairs, size_t *uneven)
{
    size_t n, m, count = 0;
    struct ref *x = sorted_refs(c, a, tier, 0, &n), *y = sorted_refs(c, b, tier, shift, &m);
    for (size_t i = 0, j = 0; x && y && i < n && j < m;) {
        if (x[i].hash != y[j].hash) {
            if (x[i].hash < y[j].hash)
                i++;
            else
                j++;
            continue;
        }
        size_t p = run_length(x, i, n), q = run_length(y, j, m), both = p < q ? p : q;
        bool take = !even || p == q;
        for (size_t k = 0; take && k < both; k++) {
            a->line[x[i + k].index].matched = b->line[y[j + k].index].matched = true;
            count++;
            if (pairs && tw_cmp_room(c, &pairs->p, pairs->n, &pairs->room, sizeof *pairs->p))
                pairs->p[pairs->n++] = (struct pair){x[i + k].index, y[j + k].index};
        }
        if (!take && uneven)
            *uneven += both;
        i += p;
        j += q;
    }
    tw_free(x);
    tw_free(y);
    return count;
}

/* Pairs lines that share half of their words, in order. */
static void match_words(struct tw_cmp *c, struct text *a, struct text *b, struct pairs *pairs)
{
    size_t left[2] = {0}, from = 0;
    for (size_t i = 0; i < a->count; i++)
        left[0] += !a->line[i].matched;
    for (size_t i = 0; i < b->count; i++)
        left[1] += !b->line[i].matched;
    if (left[0] > SINGLES_MAX || left[1] > SINGLES_MAX)
        return;
    /* Texts of as many lines, with as many left over on both sides, correspond place by place. */
    bool in_place = left[0] == left[1] && a->count == b->count;
    for (size_t i = 0; i < a->count; i++) {
        struct line *x = &a->line[i];
        if (x->matched)
            continue;
        for (size_t j = from; j < b->count; j++) {
            struct line *y = &b->line[j];
            bool same_place = in_place && i == j;
            if (y->matched || (!same_place && tw_noise_alike(x->text, x->n, y->text, y->n) < 0.5))
                continue;
            x->matched = y->matched = true;
            if (tw_cmp_room(c, &pairs->p, pairs->n, &pairs->room, sizeof *pairs->p))
                pairs->p[pairs->n++] = (struct pair){i, j};
            from = j + 1;
            break;
        }
    }
}

/* ---- what is said about it */

/* The word that names the first number in which two lines differ: "loss" of "step 3 loss 0.12".
 * malloc'ed. */
static char *name_of_difference(const char *x, const char *y)
{
    size_t at = 0, end, start;
    while (x[at] && x[at] == y[at])
        at++;
    while (at > 0 && (isdigit((unsigned char)x[at - 1]) || strchr(".+-e", x[at - 1])) &&
           !isspace((unsigned char)x[at - 1]))
        at--; /* to the number's beginning */
    for (end = at; end > 0 && !isalpha((unsigned char)x[end - 1]); end--) {
    }
    for (start = end; start > 0 && (isalnum((unsigned char)x[start - 1]) || x[start - 1] == '_');
         start--) {
    }
    return end > start ? tw_strndup(x + start, end - start) : tw_strdup("line");
}

/* A number that a line prints with its step differs: the report lists it with what is recorded, as
 * "printed loss". */
static void add_onset(struct tw_cmp *c, const struct tw_lines *l, const struct line *line_a,
                      const struct line *line_b)
{
    const char *x = line_a->masked, *y = line_b->masked;
    struct twin_verdict *v = c->v;
    int64_t step = tw_noise_step(x);
    if (step < 0 || tw_noise_step(y) != step) /* the number that differs may be the step itself */
        return;
    /* a resumed arm may count anew */
    if (c->quick || c->o->shift != 0 || (c->o->arms && c->o->find_shift))
        return;
    char *name = name_of_difference(x, y);
    char *what = name ? tw_cmp_text(c, "printed %s", name) : NULL;
    tw_free(name);
    struct twin_onset *grown = what ? tw_reallocarray(v->onsets, v->onset_count + 1, sizeof *grown)
                                    : NULL;
    if (!grown) {
        c->oom = true;
        tw_free(what);
        return;
    }
    v->onsets = grown;
    v->onsets[v->onset_count++] = (struct twin_onset){what, TWIN_PHASE_OUTPUT, TWIN_KIND_LINE,
                                                      (uint32_t)step};
    tw_claim_printed(c, l->name, &v->onsets[v->onset_count - 1], line_a->number, line_b->number);
}

struct twin_finding *tw_lines_finding(struct tw_cmp *c, const char *name, const char *name_b,
                                      enum twin_kind kind, char *text)
{
    enum twin_finding_type type = kind == TWIN_KIND_FILE ? TWIN_FINDING_FILE : TWIN_FINDING_OUTPUT;
    struct twin_finding *f = tw_finding_new(c, type, TWIN_PHASE_OUTPUT, kind);
    if (!f) {
        tw_free(text);
        return NULL;
    }
    tw_finding_set(c, &f->name, tw_cmp_copy(c, name));
    tw_finding_set(c, &f->text, text);
    if (kind == TWIN_KIND_FILE) {
        tw_evidence_line(&f->at_a, name, 0);
        tw_evidence_line(&f->at_b, name_b, 0);
    }
    return f;
}

/* How much of a line is quoted. */
static int quoted_bytes(const struct line *l)
{
    return (int)(l->n < QUOTED ? l->n : QUOTED);
}

/* The pair that stands first in a: the tiers found them in the order of hashes. */
static struct pair first_pair(const struct pairs *pairs)
{
    struct pair first = pairs->p[0];
    for (size_t i = 1; i < pairs->n; i++)
        if (pairs->p[i].a < first.a)
            first = pairs->p[i];
    return first;
}

/* Lines that say the same with other numbers: a difference. The first is quoted. `in` says what
 * differs in them ("numbers"). */
static void report_pairs(struct tw_cmp *c, const struct tw_lines *l, const struct text *a,
                         const struct text *b, const struct pairs *pairs, const char *in,
                         struct tw_last_resort *out)
{
    if (pairs->n == 0)
        return;
    struct pair first = first_pair(pairs);
    struct line *x = &a->line[first.a], *y = &b->line[first.b];
    const char *said = l->kind == TWIN_KIND_FILE ? "line" : "printed line";
    char *text = tw_cmp_text(c, "%zu %s%s in %s, first line %zu of %s: \"%.*s\" and \"%.*s\"",
                             pairs->n, said, pairs->n == 1 ? " differs" : "s differ", in, x->place,
                             l->name, quoted_bytes(x), x->text, quoted_bytes(y), y->text);
    int64_t step = x->masked ? tw_noise_step(x->masked) : -1;
    if (x->masked && y->masked && l->kind == TWIN_KIND_LINE)
        add_onset(c, l, x, y);
    struct twin_finding *f = tw_lines_finding(c, l->name, l->name_b, l->kind, text);
    if (f && l->kind == TWIN_KIND_LINE) {
        tw_evidence_line(&f->at_a, l->name, x->number);
        tw_evidence_line(&f->at_b, l->name_b, y->number);
    }
    if (f && step >= 0)
        f->step_a = f->step_b = (uint32_t)step;
    tw_findings_take(c, &out->findings, f);
}

/* Lines of which it is not known whether their numbers are times or results. */
static void report_open(struct tw_cmp *c, const struct tw_lines *l, const struct text *a,
                        const struct text *b, const struct pairs *pairs, struct tw_last_resort *out)
{
    if (pairs->n == 0 || tw_clock_learns(c))
        return;
    struct pair first = first_pair(pairs);
    struct line *x = &a->line[first.a], *y = &b->line[first.b];
    char *text = tw_cmp_text(c,
                             "%s: whether %zu line%s in a speed or in a result is not known, first "
                             "\"%.*s\" and \"%.*s\" (--ignore 'line:REGEX' leaves lines out)",
                             l->name, pairs->n, pairs->n == 1 ? " differs" : "s differ",
                             quoted_bytes(x), x->text, quoted_bytes(y), y->text);
    if (!l->grows && text)
        tw_texts_add(c, &c->open_texts, tw_cmp_copy(c, text));
    tw_texts_add(c, &out->unknown, text);
}

/* Lines of one run that nothing in the other corresponds to. */
static void report_singles(struct tw_cmp *c, const struct tw_lines *l, const struct text *a,
                           const struct text *b, struct tw_last_resort *out)
{
    size_t single[2] = {0};
    const struct line *first[2] = {NULL, NULL};
    const struct text *side[2] = {a, b};
    for (size_t s = 0; s < 2; s++)
        for (size_t i = side[s]->count; i-- > 0;)
            if (!side[s]->line[i].matched) {
                single[s]++;
                first[s] = &side[s]->line[i];
            }
    const struct line *shown = first[0] ? first[0] : first[1];
    if (shown)
        tw_texts_add(c, &out->unknown,
                     tw_cmp_text(c,
                                 "%s: text differs (%zu lines only in %s, %zu only in %s), first "
                                 "\"%.*s\" (--ignore 'line:REGEX' leaves lines out)",
                                 l->name, single[0], c->label_a, single[1], c->label_b,
                                 quoted_bytes(shown), shown->text));
}

/* The whole words in which two lines differ, from the first to the last of them: [from, end) of
 * each. */
struct unlike {
    const char *from[2], *end[2];
};

static struct unlike unlike_words(const struct line *x, const struct line *y)
{
    const char *p = x->text, *q = y->text, *p_end = p + x->n, *q_end = q + y->n;
    while (p < p_end && q < q_end && *p == *q) {
        p++;
        q++;
    }
    while (p_end > p && q_end > q && p_end[-1] == q_end[-1]) {
        p_end--;
        q_end--;
    }
    while (p > x->text && isalnum((unsigned char)p[-1])) { /* to the beginning of the word */
        p--;
        q--;
    }
    while (p_end < x->text + x->n && isalnum((unsigned char)*p_end)) {
        p_end++;
        q_end++;
    }
    return (struct unlike){{p, q}, {p_end, q_end}};
}

/* Do the lines differ in words alone, without a digit in any that differs? A set in another order,
 * a name: what that means no rule here can tell. A digest or a number in a name is a result. */
static bool only_words_differ(const struct line *x, const struct line *y)
{
    struct unlike u = unlike_words(x, y);
    size_t digits = 0;
    for (int i = 0; i < 2; i++)
        for (const char *p = u.from[i]; p < u.end[i]; p++)
            digits += isdigit((unsigned char)*p) != 0;
    return digits == 0;
}

/* Is what differs, in each of the lines, a part of the value of an option that only this arm has?
 * An arm that was told another name prints another name. */
static bool options_differ(const struct line *x, const struct tw_facts *f, const struct line *y,
                           const struct tw_facts *g)
{
    struct unlike u = unlike_words(x, y);
    const struct tw_facts *facts[2] = {f, g};
    for (int i = 0; i < 2; i++) {
        size_t n = (size_t)(u.end[i] - u.from[i]);
        bool named = n == 0;
        for (size_t k = 0; k < facts[i]->option_count && !named; k++)
            named = memmem(facts[i]->option[k], strlen(facts[i]->option[k]), u.from[i], n) != NULL;
        if (!named)
            return false;
    }
    return true;
}

/* Two commands may print other words, and what that means is not judged. But a digest or a number
 * within a word may be a result, and then "no difference" would say more than was compared. */
static void report_words_of_arms(struct tw_cmp *c, const struct tw_lines *l, const struct text *a,
                                 const struct text *b, const struct pairs *pairs,
                                 struct tw_last_resort *out)
{
    struct pair first = {0};
    size_t n = 0;
    for (size_t i = 0; i < pairs->n; i++) {
        const struct line *x = &a->line[pairs->p[i].a], *y = &b->line[pairs->p[i].b];
        if (only_words_differ(x, y) || options_differ(x, a->facts, y, b->facts))
            continue;
        if (n++ == 0)
            first = pairs->p[i];
    }
    if (n == 0)
        return;
    const struct line *x = &a->line[first.a], *y = &b->line[first.b];
    tw_texts_add(c, &out->unknown,
                 tw_cmp_text(c,
                             "%s: %zu line%s of text differ%s between the arms, first line %zu: "
                             "\"%.*s\" and \"%.*s\" (--ignore 'line:REGEX' leaves lines out)",
                             l->name, n, tw_plural_s(n), n == 1 ? "s" : "", x->place,
                             quoted_bytes(x), x->text, quoted_bytes(y), y->text));
}

/* Pairs that share half of their words. Where a digit differs it is a difference; where only words
 * do, what that means is not known. */
static void report_words(struct tw_cmp *c, const struct tw_lines *l, const struct text *a,
                         const struct text *b, const struct pairs *pairs,
                         struct tw_last_resort *out)
{
    struct pairs digits = {0};
    size_t words = 0;
    struct pair first = {0};
    for (size_t i = 0; i < pairs->n; i++) {
        if (!only_words_differ(&a->line[pairs->p[i].a], &b->line[pairs->p[i].b])) {
            if (tw_cmp_room(c, &digits.p, digits.n, &digits.room, sizeof *digits.p))
                digits.p[digits.n++] = pairs->p[i];
        } else if (words++ == 0) {
            first = pairs->p[i];
        }
    }
    report_pairs(c, l, a, b, &digits, "what they say", out);
    if (words > 0) {
        const struct line *x = &a->line[first.a], *y = &b->line[first.b];
        tw_texts_add(c, &out->unknown,
                     tw_cmp_text(c,
                                 "%s: text differs in %zu line%s, first line %zu: \"%.*s\" and "
                                 "\"%.*s\" (--ignore 'line:REGEX' leaves lines out)",
                                 l->name, words, tw_plural_s(words), x->place, quoted_bytes(x),
                                 x->text, quoted_bytes(y), y->text));
    }
    tw_free(digits.p);
}

/* Pairs that say the same: noise after all (a result that happens to equal a fact in one run), not
 * known, or a difference. */
static size_t judge_pairs(const struct text *a, const struct text *b, struct pairs *pairs,
                          struct pairs *open, struct tw_cmp *c)
{
    size_t kept = 0, noise = 0;
    for (size_t i = 0; i < pairs->n; i++) {
        const struct line *x = &a->line[pairs->p[i].a], *y = &b->line[pairs->p[i].b];
        bool unsure;
        if (tw_noise_equal(x->text, x->n, a->facts, y->text, y->n, b->facts, &unsure))
            noise++;
        else if (!unsure)
            pairs->p[kept++] = pairs->p[i];
        else if (tw_cmp_room(c, &open->p, open->n, &open->room, sizeof *open->p))
            open->p[open->n++] = pairs->p[i];
    }
    pairs->n = kept;
    return noise;
}

/* Every line has its equal: do they stand in the same order? */
static void report_order(struct tw_cmp *c, const struct tw_lines *l, struct text *a, struct text *b,
                         struct tw_last_resort *out)
{
    bool all = a->count == b->count;
    for (size_t i = 0; i < a->count && all; i++)
        all = a->line[i].matched && b->line[i].matched;
    for (size_t i = 0; i < a->count && all; i++) {
        struct line *x = &a->line[i], *y = &b->line[i];
        bool unsure = false;
        if ((x->n == y->n && memcmp(x->text, y->text, x->n) == 0) ||
            tw_noise_equal(x->text, x->n, a->facts, y->text, y->n, b->facts, &unsure) || unsure)
            continue;
        tw_findings_take(
            c, &out->findings,
            tw_lines_finding(
                c, l->name, l->name_b, l->kind,
                tw_cmp_text(
                    c, "%s: the same lines in another order, first line %zu: \"%.*s\" and \"%.*s\"",
                    l->name, i + 1, quoted_bytes(x), x->text, quoted_bytes(y), y->text)));
        return;
    }
}

/* How many lines --ignore left out, as a note. */
static void say_filtered(struct tw_cmp *c, const struct tw_lines *l, const struct text *a,
                         const struct text *b)
{
    if (a->filtered + b->filtered == 0)
        return;
    if (a->filtered == b->filtered)
        tw_cmp_note(c, "left out by --ignore 'line:...': %zu line%s of %s of each run", a->filtered,
                    tw_plural_s(a->filtered), l->name);
    else
        tw_cmp_note(c, "left out by --ignore 'line:...': %zu lines of %s of %s, %zu of %s",
                    a->filtered, l->name, c->label_a, b->filtered, c->label_b);
}

/* The lines that say the same with their noise left out, as evidence. */
static void claim_noise(struct tw_cmp *c, const struct tw_lines *l, const struct text *a,
                        const struct text *b, const struct pairs *pairs)
{
    if (l->kind != TWIN_KIND_LINE || c->quick || pairs->n == 0)
        return;
    size_t(*numbers)[2] = tw_reallocarray(NULL, pairs->n, sizeof *numbers);
    c->oom |= !numbers;
    for (size_t i = 0; numbers && i < pairs->n; i++) {
        numbers[i][0] = a->line[pairs->p[i].a].number;
        numbers[i][1] = b->line[pairs->p[i].b].number;
    }
    if (numbers)
        tw_claim_noise(c, l->name, numbers, pairs->n);
    tw_free(numbers);
}

/* Arms that end at other steps: what is printed without a step belongs to an end, and says nothing
 * of the steps that both made. */
static void drop_stepless(struct tw_cmp *c, const struct tw_lines *l, const struct text *a,
                          struct pairs *pairs, size_t *uneven)
{
    size_t kept = 0, dropped = *uneven;
    for (size_t i = 0; i < pairs->n; i++) {
        const struct line *x = &a->line[pairs->p[i].a];
        if (x->masked && tw_noise_step(x->masked) >= 0)
            pairs->p[kept++] = pairs->p[i];
        else
            dropped++;
    }
    pairs->n = kept;
    *uneven = 0;
    if (dropped > 0)
        tw_cmp_note(
            c, "%s: numbers in %zu line%s were not compared, because the arms end at other steps",
            l->name, dropped, tw_plural_s(dropped));
}

/* Shows the clock experiment each pair of lines, while it learns. */
static void look_at_clock(struct tw_cmp *c, const struct tw_lines *l, const struct text *a,
                          const struct text *b, const struct pairs *pairs)
{
    for (size_t i = 0; i < pairs->n; i++)
        tw_clock_look(c, l, a, b, pairs->p[i].a, pairs->p[i].b);
}

/* Leaves out of `open` what the clock experiment showed to be times; returns how many lines. */
static size_t take_times(struct tw_cmp *c, const struct tw_lines *l, const struct text *a,
                         const struct text *b, struct pairs *open)
{
    size_t kept = 0, n = open->n;
    for (size_t i = 0; i < n; i++)
        if (!tw_clock_takes(c, l, a, b, open->p[i].a, open->p[i].b))
            open->p[kept++] = open->p[i];
    open->n = kept;
    return n - kept;
}

void tw_lines_compare(struct tw_cmp *c, const struct tw_lines *l, struct tw_last_resort *out)
{
    struct text a, b;
    struct pairs numbers = {0}, words = {0}, open = {0}, noisy = {0}, equal = {0};
    size_t uneven = 0;
    bool arms = c->o->arms;
    bool bars = l->kind != TWIN_KIND_FILE || !l->ordered;
    /* Lines that are equal, byte for byte or but for their noise. */
    tw_text_split(c, &l->a, bars, &a);
    tw_text_split(c, &l->b, bars, &b);
    match_tier(c, &a, &b, RAW, 0, false, tw_clock_learns(c) ? &equal : NULL, NULL);
    size_t noise = match_tier(c, &a, &b, MASKED, 0, false, &noisy, NULL);
    claim_noise(c, l, &a, &b, &noisy);
    if (l->shift != 0)
        noise += match_tier(c, &a, &b, SHIFTED, -l->shift, false, NULL, NULL);
    /* Lines of several processes that ran together. */
    size_t glued = l->several_writers ? tw_lines_unglue(c, &a, &b) : 0;
    size_t mixed = l->several_writers ? tw_lines_mixed(c, &a, &b) : 0;
    if (mixed)
        tw_cmp_unseen(c,
                      "%s: %zu lines of several processes ran together in the middle, so that it "
                      "is not known which number is whose (print each line with one write)",
                      l->name, mixed);
    /* Lines that say the same with other numbers: noise after all, open, or a difference. */
    match_tier(c, &a, &b, OPEN, 0, false, &open, NULL);
    match_tier(c, &a, &b, SAME_STEP, 0, false, &numbers, NULL);
    match_tier(c, &a, &b, SKELETON, 0, arms, &numbers, &uneven);
    noise += judge_pairs(&a, &b, &numbers, &open, c);
    /* The clock experiment learns from all of them, or says which of the open ones are times. */
    look_at_clock(c, l, &a, &b, &equal);
    look_at_clock(c, l, &a, &b, &noisy);
    look_at_clock(c, l, &a, &b, &open);
    noise += take_times(c, l, &a, &b, &open);
    /* What is told: first what does not matter, then what does, then what is not known. */
    if (noise)
        tw_findings_take(
            c, &out->benign,
            tw_lines_finding(
                c, l->name, l->name_b, l->kind,
                tw_cmp_text(c, "%zu line%s of %s differ%s only in times, pids, speeds or addresses",
                            noise, tw_plural_s(noise), l->name, noise == 1 ? "s" : "")));
    if (glued)
        tw_findings_take(
            c, &out->benign,
            tw_lines_finding(
                c, l->name, l->name_b, l->kind,
                tw_cmp_text(
                    c,
                    "%zu line%s of %s ran together with others that were printed at the same time",
                    glued, tw_plural_s(glued), l->name)));
    if (l->other_ends)
        drop_stepless(c, l, &a, &numbers, &uneven);
    /* which of its lines mean which of the other arm is not sure */
    bool renumbered = arms && l->shift != 0;
    if (renumbered && numbers.n > 0)
        uneven += numbers.n;
    else
        report_pairs(c, l, &a, &b, &numbers, "numbers", out);
    /* Text of one run alone counts where all of both is there. */
    if (!arms && l->whole && !a.cut && !b.cut) {
        match_words(c, &a, &b, &words);
        report_words(c, l, &a, &b, &words, out);
        report_singles(c, l, &a, &b, out);
    }
    if (arms && !l->other_ends && l->kind == TWIN_KIND_LINE && !a.cut && !b.cut) {
        match_words(c, &a, &b, &words);
        report_words_of_arms(c, l, &a, &b, &words, out);
    }
    report_open(c, l, &a, &b, &open, out);
    if (l->ordered && numbers.n == 0 && words.n == 0)
        report_order(c, l, &a, &b, out);
    if (uneven)
        tw_texts_add(c, &out->unknown,
                     tw_cmp_text(c,
                                 "%s: %zu line%s of numbers that the other arm did not print "
                                 "(--ignore 'line:REGEX' leaves lines out)",
                                 l->name, uneven, tw_plural_s(uneven)));
    if (a.cut || b.cut)
        tw_texts_add(c, &out->unknown,
                     tw_cmp_text(c, "%s: more than %u lines, the rest was not compared", l->name,
                                 LINES_MAX));
    say_filtered(c, l, &a, &b);
    tw_free(numbers.p);
    tw_free(words.p);
    tw_free(open.p);
    tw_free(noisy.p);
    tw_free(equal.p);
    tw_text_free(&a);
    tw_text_free(&b);
}
