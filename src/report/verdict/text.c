/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verdict for people: labelled paragraphs (paragraphs.h), short enough for one
 * screen. The commands that give a verdict print it (cmd/verdict.c).
 *
 * Each paragraph has a label at the left ("first", "rate", "note") and its text to the right of it;
 * a paragraph without content is left out. Lists are cut at the numbers below, and --json has the
 * rest. The text is made whole in memory and never printed here.
 */
#include "wording.h"

#include "paragraphs.h"
#include "phrase.h"

#include "src/stats/stats.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Columns of the labels. */
#define LABEL 8u
/* Most lines of each list. */
#define NOTES 5u
#define BENIGN 3u
#define UNSEEN 5u
#define ORIGINS 6u
#define RANGES 4u

/* The role of a finding as it is shown; "" where none is known, or the finding is no record. */
static const char *role_word(const struct twin_finding *f)
{
    if (!tw_is_record(f))
        return "";
    if (f->role == TWIN_ORIGIN)
        return "ORIGIN";
    return f->role == TWIN_CARRIER ? "CARRIER" : "";
}

/* The paragraph "first": where the difference is, and at the right edge of the line the finding's
 * role. Where both do not fit in one line, the role follows the place. */
static void put_place(struct tw_paragraphs *p, const struct twin_finding *f, bool ranks)
{
    struct tw_buf b = {0};
    const char *role = role_word(f);
    tw_say_place(&b, f, ranks);
    size_t used = b.failed ? 0 : LABEL + tw_columns_of(b.data, b.len), need = strlen(role);
    if (b.failed || !need || used + 2 + need > p->look.width) {
        if (need)
            tw_buf_printf(&b, "  %s", role);
        tw_paragraphs_put(p, "first", &b);
        return;
    }
    tw_paragraphs_label(p, "first");
    tw_buf_append(&p->out, b.data, b.len);
    tw_paragraphs_pad(p, p->look.width - used - need);
    tw_paragraphs_paint(p, TW_PAINT_BOLD);
    tw_buf_puts(&p->out, role);
    tw_paragraphs_paint(p, TW_PAINT_OFF);
    tw_buf_puts(&p->out, "\n");
    tw_buf_free(&b);
}

/* Appends a part of the paragraph above: indented, with a name of its own. Empties text; nothing
 * for an empty one. */
static void put_part(struct tw_paragraphs *p, const char *name, struct tw_buf *text)
{
    if (text->failed)
        p->out.failed = text->failed;
    if (text->len > 0) {
        tw_paragraphs_pad(p, LABEL);
        tw_paragraphs_paint(p, TW_PAINT_DIM);
        tw_buf_printf(&p->out, "%-7s", name);
        tw_paragraphs_paint(p, TW_PAINT_OFF);
        tw_paragraphs_wrap(p, text->data, LABEL + 7);
    }
    tw_buf_free(text);
}

/* The operation with its source line, and below it the line that called that one. */
static void put_source(struct tw_paragraphs *p, const struct twin_finding *f)
{
    struct tw_buf b = {0};
    tw_say_safe(&b, f->op, 80);
    size_t n = strcspn(f->site, "\n");
    char first[400];
    if (n > 0) {
        /* site has a line for each frame, the innermost first */
        snprintf(first, sizeof first, "%.*s", (int)(n < sizeof first - 1 ? n : sizeof first - 1),
                 f->site);
        tw_buf_puts(&b, b.len ? "   " : "");
        tw_say_safe(&b, first, 0);
    }
    put_part(p, f->op[0] ? "op" : "at", &b);
    if (f->site[n] == '\n' && f->site[n + 1]) {
        const char *next = f->site + n + 1;
        snprintf(first, sizeof first, "%.*s",
                 (int)(strcspn(next, "\n") < 390 ? strcspn(next, "\n") : 390), next);
        tw_say_safe(&b, first, 0);
        put_part(p, "called", &b);
    }
}

/* Between which records the origin must lie, when it was not seen. */
static void put_between(struct tw_paragraphs *p, const struct twin_finding *f)
{
    struct tw_buf b = {0};
    tw_say_between(&b, f);
    put_part(p, "role", &b);
}

/* Other origins in the same step, at most three of them. ranks: say their rank where it is another
 * one. */
static void put_also(struct tw_paragraphs *p, const struct twin_verdict *v, bool ranks)
{
    struct tw_buf b = {0};
    if (v->origin_count < 2 || !tw_is_record(v->first))
        return;
    for (size_t i = 1; i < v->origin_count && i < 4; i++) {
        tw_buf_puts(&b, i > 1 ? "; " : "");
        if (ranks && v->origins[i].rank != v->first->rank) {
            tw_say_rank(&b, &v->origins[i]);
            tw_buf_puts(&b, " ");
        }
        tw_say_what(&b, &v->origins[i]);
        if (v->origins[i].step_a != v->first->step_a)
            tw_buf_printf(&b, ", step %u", v->origins[i].step_a);
    }
    if (v->origin_count > 4)
        tw_buf_printf(&b, "; %zu more", v->origin_count - 4);
    put_part(p, "also", &b);
}

/* Is any rank but 0 spoken of? */
static bool many_ranks(const struct twin_verdict *v)
{
    for (size_t i = 0; i < v->origin_count; i++)
        if (v->origins[i].rank != 0)
            return true;
    return v->first && v->first->rank != 0;
}

/* All about the first difference. Of one that is no record only the place is known. */
static void put_first(struct tw_paragraphs *p, const struct twin_verdict *v)
{
    const struct twin_finding *f = v->first;
    struct tw_buf b = {0};
    bool ranks = many_ranks(v) || tw_is_record(f);
    put_place(p, f, ranks);
    if (!tw_is_record(f))
        return;
    put_source(p, f);
    put_between(p, f);
    if (f->text[0]) {
        tw_say_safe(&b, f->text, 200);
        put_part(p, "how", &b);
    }
    tw_say_safe(&b, v->equal_before, 300);
    put_part(p, "equal", &b);
    tw_say_size(&b, f);
    put_part(p, "size", &b);
    put_also(p, v, ranks);
    tw_say_onsets(&b, v);
    /* drift: by which factor the difference grows from step to step */
    if (isfinite(v->drift_per_step) && b.len)
        tw_buf_printf(&b, "   drift x%.3g per step", v->drift_per_step);
    else if (isfinite(v->drift_per_step))
        tw_buf_printf(&b, "drift x%.3g per step", v->drift_per_step);
    tw_paragraphs_put(p, "then", &b);
}

/* Of transplanted runs: every origin with its rate, over the steps that were made to start
 * equal. */
static void put_origins(struct tw_paragraphs *p, const struct twin_transplant *t)
{
    struct tw_buf b = {0};
    char n[32];
    tw_buf_printf(&b, "%s step%s of %zu transplanted run%s (%s)", tw_human_count(t->steps, n),
                  tw_plural_s(t->steps), t->runs, tw_plural_s(t->runs),
                  twin_transplant_name(t->kind));
    tw_buf_puts(&b, t->origin_count ? "; where they diverge that started equal:"
                                    : "; none diverges that started equal");
    tw_paragraphs_put(p, "origins", &b);
    for (size_t i = 0; i < t->origin_count && i < ORIGINS; i++) {
        const struct twin_origin *o = &t->origin[i];
        const struct twin_finding *f = o->finding;
        tw_buf_printf(&b, "%llu of %llu steps, %.3g%% (%.2g%% to %.2g%%)   %s: ",
                      (unsigned long long)o->steps_differing, (unsigned long long)o->steps,
                      100 * o->rate, 100 * o->low, 100 * o->high, f->layer);
        tw_say_what(&b, f);
        tw_buf_printf(&b, ", first in step %u", f->step_a);
        if (f->rank > 0) {
            tw_buf_puts(&b, " of ");
            tw_say_rank(&b, f);
        }
        if (f->text[0] && f->kind != TWIN_KIND_STATE) {
            tw_buf_puts(&b, ", ");
            tw_say_safe(&b, f->text, 80);
        }
        tw_paragraphs_put(p, "", &b);
        if (f->op[0] || f->site[0])
            put_source(p, f);
    }
    if (t->origin_count > ORIGINS) {
        tw_buf_printf(&b, "and %zu more: --json lists all", t->origin_count - ORIGINS);
        tw_paragraphs_put(p, "", &b);
    }
}

/* Was the sentence asked for by --explain? src/trial/check_rounding.c writes them. */
static bool is_explanation(const char *note)
{
    return tw_starts(note, "rounding") || tw_starts(note, "beyond rounding");
}

/* Notes, in their order: all that were asked for, and NOTES of the others. */
static void put_notes(struct tw_paragraphs *p, char *const *notes, size_t count)
{
    struct tw_buf b = {0};
    size_t shown = 0, others = 0;
    for (size_t i = 0; i < count; i++) {
        if (!is_explanation(notes[i]) && ++others > NOTES)
            continue;
        tw_say_safe(&b, notes[i], 400);
        tw_paragraphs_put(p, shown++ ? "" : "note", &b);
    }
    if (shown < count) {
        tw_buf_printf(&b, "and %zu more: --json lists all", count - shown);
        tw_paragraphs_put(p, "", &b);
    }
}

/* Sentences under one label, each a paragraph. */
static void put_list(struct tw_paragraphs *p, const char *name, char *const *items, size_t count,
                     size_t most)
{
    struct tw_buf b = {0};
    for (size_t i = 0; i < count && i < most; i++) {
        tw_say_safe(&b, items[i], 400);
        tw_paragraphs_put(p, i ? "" : name, &b);
    }
    if (count > most) {
        tw_buf_printf(&b, "and %zu more: --json lists all", count - most);
        tw_paragraphs_put(p, "", &b);
    }
}

/* Differences that do not count, with the reason where they have one. */
static void benign(struct tw_paragraphs *p, const struct twin_verdict *v)
{
    struct tw_buf b = {0};
    for (size_t i = 0; i < v->benign_count && i < BENIGN; i++) {
        const struct twin_finding *f = &v->benign[i];
        tw_say_place(&b, f, false);
        if (tw_is_record(f) && f->text[0]) {
            tw_buf_puts(&b, ": ");
            tw_say_safe(&b, f->text, 200);
        }
        tw_paragraphs_put(p, i ? "" : "benign", &b);
    }
    if (v->benign_count > BENIGN) {
        tw_buf_printf(&b, "and %zu more: --json lists all", v->benign_count - BENIGN);
        tw_paragraphs_put(p, "", &b);
    }
}

/* How often runs diverge. With two runs there is one comparison, and nothing to say. */
static void rate(struct tw_paragraphs *p, const struct twin_verdict *v)
{
    struct tw_buf b = {0};
    if (v->runs < 3)
        return;
    tw_buf_printf(&b, "%zu of %zu comparisons diverged: %.0f%% (95%% interval %.0f%% to %.0f%%)",
                  v->differing, v->comparisons, 100 * v->rate, 100 * v->rate_low,
                  100 * v->rate_high);
    tw_paragraphs_put(p, "rate", &b);
    tw_say_classes(&b, v);
    tw_paragraphs_put(p, "classes", &b);
}

/* Below SAME: how rare a divergence could be and still not have been seen. "2 comparisons cannot
 * exclude a divergence in up to 78% of runs; --runs 30 brings that bound to 10%". The number of
 * runs suggested is 30, or ten times as many as there were. */
static void bound(struct tw_paragraphs *p, const struct twin_verdict *v)
{
    struct tw_buf b = {0};
    uint64_t runs = v->runs < 30 ? 30 : v->runs * 10;
    if (v->comparisons == 0 || v->against)
        return;
    tw_buf_printf(&b,
                  "%zu comparison%s cannot exclude a divergence in up to %.2g%% of runs; --runs "
                  "%llu brings that bound to %.2g%%",
                  v->comparisons, tw_plural_s(v->comparisons), 100 * v->p_diverge_upper,
                  (unsigned long long)runs, 100 * twin_stats_zero_bound(runs - 1, v->confidence));
    tw_paragraphs_put(p, "", &b);
}

/* A command is not wrapped, so that it can be copied; what it is good for stands behind it where
 * there is room, else below it, further in than commands are. */
static void suggest(struct tw_paragraphs *p, bool *said, struct tw_buf *command, const char *why)
{
    if (command->failed)
        p->out.failed = command->failed;
    if (command->len > 0) {
        tw_paragraphs_label(p, *said ? "" : "next");
        tw_buf_append(&p->out, command->data, command->len);
        const bool fits = LABEL + tw_columns_of(command->data, command->len) + 3 +
                              tw_columns_of(why, strlen(why)) <=
                          p->look.width;
        if (fits && *why)
            tw_buf_printf(&p->out, "   %s", why);
        tw_buf_puts(&p->out, "\n");
        if (!fits && *why) {
            tw_paragraphs_pad(p, LABEL + 2);
            tw_paragraphs_wrap(p, why, LABEL + 2);
        }
        *said = true;
    }
    tw_buf_free(command);
}

/* The best known case that looks like this; the page and JSON have all of them. */
static void hint(struct tw_paragraphs *p, const struct twin_report *r)
{
    char *text = r->hint_count ? twin_hint_text(&r->hint[0]) : NULL;
    if (text) {
        tw_paragraphs_label(p, "hint");
        tw_paragraphs_wrap(p, text, LABEL);
    } else if (r->hint_count) {
        p->out.failed = TWIN_ENOMEM;
    }
    tw_free(text);
}

/* The paragraphs "next": commands to try. */
static void put_next(struct tw_paragraphs *p, const struct twin_report *r)
{
    struct tw_next n[TW_NEXT_MAX];
    bool said = false;
    for (size_t i = 0, count = tw_report_next(r, n); i < count; i++)
        suggest(p, &said, &n[i].command, n[i].why);
}

/* The first line: the outcome in its colour, and the headline. */
static void outcome_word(struct tw_paragraphs *p, const struct twin_verdict *v)
{
    static const struct {
        const char *word;
        enum tw_paint paint;
    } shown[] = {
        [TWIN_SAME] = {"SAME", TW_PAINT_GOOD},
        [TWIN_WITHIN_TOLERANCE] = {"WITHIN TOLERANCE", TW_PAINT_GOOD},
        [TWIN_DIFFER] = {"DIFFER", TW_PAINT_BAD},
        [TWIN_INCONCLUSIVE] = {"INCONCLUSIVE", TW_PAINT_OPEN},
        [TWIN_FAILED] = {"ERROR", TW_PAINT_BAD},
    };
    struct tw_buf b = {0};
    const char *word = shown[v->outcome].word;
    size_t n = strlen(word);
    tw_say_headline(&b, v);
    tw_paragraphs_paint(p, shown[v->outcome].paint);
    tw_buf_puts(&p->out, word);
    tw_paragraphs_paint(p, TW_PAINT_OFF);
    tw_paragraphs_pad(p, n < LABEL ? LABEL - n : 2);
    if (b.failed)
        p->out.failed = b.failed;
    else
        tw_paragraphs_wrap(p, b.data, n < LABEL ? LABEL : n + 2);
    tw_buf_free(&b);
}

/* Most changes of the world and most rules of a tolerance file. */
#define WORLD 6u
#define RULES 6u

/* What the run was held against, and whether the world is still the same: beside every verdict,
 * also a good one. */
static void put_against(struct tw_paragraphs *p, const struct twin_verdict *v)
{
    struct tw_buf b = {0};
    if (!v->against)
        return;
    tw_say_against(&b, v->against);
    tw_paragraphs_put(p, "against", &b);
    tw_say_world(&b, v->against, WORLD);
    tw_paragraphs_put(p, "world", &b);
}

/* Under "allowed" the rules that covered a difference; under "unused" the names of the others,
 * which may be wrong or out of date. */
static void put_rules(struct tw_paragraphs *p, const struct twin_verdict *v)
{
    struct tw_buf b = {0};
    size_t unused = 0;
    for (size_t i = 0, said = 0; i < v->rule_count && said < RULES; i++)
        if (v->rules[i].matched) {
            tw_say_rule(&b, &v->rules[i]);
            tw_paragraphs_put(p, said++ ? "" : "allowed", &b);
        }
    for (size_t i = 0; i < v->rule_count; i++)
        if (!v->rules[i].matched) {
            tw_buf_puts(&b, unused++ ? ", " : "");
            tw_say_safe(&b, v->rules[i].pattern, 80);
        }
    if (unused)
        tw_buf_puts(&b, unused == 1
                            ? ": no difference that this rule of the tolerance file covers"
                            : ": no difference that these rules of the tolerance file cover");
    tw_paragraphs_put(p, "unused", &b);
}

/* What weakens the verdict: details that were lost, and an observer that took long. 7% is the share
 * of the run's time from which on it is said. */
static void losses(struct tw_paragraphs *p, const struct twin_verdict *v)
{
    struct tw_buf b = {0};
    char n[32];
    if (v->lost_records) {
        tw_buf_printf(
            &b,
            "the details of %s records were lost in %zu stretch%s (rings were full); "
            "their values were still compared; --lossless keeps them, where ulimit -v and "
            "-d leave room",
            tw_human_count(v->lost_records, n), v->gap_count, v->gap_count == 1 ? "" : "es");
        tw_paragraphs_put(p, "gaps", &b);
    }
    if (v->overhead_ratio > 0.07) {
        tw_buf_printf(&b,
                      "+%.0f%% of the run's time: watching this closely can itself hide or cause a "
                      "divergence",
                      100 * v->overhead_ratio);
        tw_paragraphs_put(p, "watcher", &b);
    }
}

/* The order of the paragraphs: outcome, what was compared, the first difference and how often, what
 * does not count or was not seen, what was allowed, notes, what next. */
int twin_report_text(const struct twin_report *r, char **out, struct twin_error *err)
{
    const struct twin_verdict *v = r->verdict;
    struct tw_paragraphs p = {.look = {.width = r->width ? r->width : 80, .colour = r->color},
                              .label = LABEL};
    if (p.look.width < 40)
        p.look.width = 40;
    struct tw_buf b = {0};
    outcome_word(&p, v);
    if (v->outcome == TWIN_SAME)
        bound(&p, v);
    tw_say_ranges(&b, v, RANGES);
    tw_paragraphs_put(&p, "range", &b);
    if (v->first) {
        tw_buf_puts(&p.out, "\n");
        put_first(&p, v);
    }
    if (v->transplant)
        put_origins(&p, v->transplant);
    tw_say_safe(&b, v->nonfinite, 300);
    tw_paragraphs_put(&p, "nan", &b);
    if (v->differing > 0)
        rate(&p, v);
    benign(&p, v);
    if (v->outcome == TWIN_INCONCLUSIVE)
        put_list(&p, "unseen", v->unseen, v->unseen_count, UNSEEN);
    put_rules(&p, v);
    put_against(&p, v);
    if (v->pinned)
        tw_say_pinned(&b, v);
    tw_paragraphs_put(&p, "pinned", &b);
    losses(&p, v);
    put_notes(&p, v->notes, v->note_count);
    hint(&p, r);
    put_next(&p, r);
    return tw_report_finish(&p.out, out, err);
}
