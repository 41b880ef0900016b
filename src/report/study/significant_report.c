/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What significant prints: the answer in one line, how many values would be needed, the figures
 * behind it, what was assumed, and a paragraph for a paper.
 *
 * The sets are called A and B. The numbers are those of twin_significance(); an effect is B - A, or
 * B / A where `ratio` is set.
 */
#include "significant_report.h"

#include "base.h"
#include "json_text.h"
#include "phrase.h"
#include "put.h"
#include "significant_sets.h"

#include "src/provenance/provenance.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* How measured values are printed. */
#define NUMBERS "%.4g"
/* Outliers are told from so many values on: of three values the MAD is the smaller of two gaps, and
 * calls almost any third one an outlier. */
enum { OUTLIERS_FROM = 5 };

/* Behind a value inside a sentence. */
static const char *unit(const struct tw_significant *s)
{
    return tw_measure_is_time(s) ? " s" : "";
}

/* What was measured, as JSON and the line "question" have it. */
static const char *what(const struct tw_significant *s)
{
    if (s->measure.text)
        return s->measure.text;
    return s->set[0].run ? "wall" : "values";
}

/* ---- the worlds: every figure carries its configuration */

/* Were all runs of one set over before the other's began? Then a drift of the machine looks like a
 * difference. Only times are affected, and only sets of runs have a time. */
static bool one_after_the_other(const struct tw_significant *s)
{
    if (!*unit(s)) /* no time: a slower machine computes the same numbers */
        return false;
    /* when the first and the last run of each set began */
    int64_t first[2] = {INT64_MAX, INT64_MAX}, last[2] = {0, 0};
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < s->set[k].n; i++) {
            if (!s->set[k].run)
                return false;
            const int64_t at = s->set[k].run[i]->start_realtime_ns;
            first[k] = at < first[k] ? at : first[k];
            last[k] = at > last[k] ? at : last[k];
        }
    return s->set[0].n > 1 && s->set[1].n > 1 && (last[0] < first[1] || last[1] < first[0]);
}

/* ---- sentences */

/* The test that was used; for Mann and Whitney's also how its p was computed. */
static const char *test_name(const struct tw_significant *s)
{
    switch (s->asked.question) {
    case TWIN_ASK_METRIC:
    case TWIN_ASK_SPEED:
        if (s->found.method == TWIN_METHOD_NORMAL)
            return "Mann-Whitney, normal approximation";
        if (s->found.method == TWIN_METHOD_PERMUTATION)
            return "Mann-Whitney, exact for the ties seen";
        return "Mann-Whitney, exact";
    case TWIN_ASK_VARIANCE: return "Brown-Forsythe";
    case TWIN_ASK_WITHIN: return "two one-sided tests on logarithms";
    case TWIN_ASK_BITWISE: return "bit patterns";
    }
    return "";
}

/* How far B is from A, with the interval where there is one. */
static void put_effect(struct tw_buf *b, const struct tw_significant *s)
{
    const struct twin_significance *f = &s->found;
    const double v = f->effect.value;
    /* where one of the sets does not spread, the ratio has no size and no interval */
    if (s->asked.question == TWIN_ASK_VARIANCE && isnan(v))
        tw_buf_puts(b, "neither set spreads at all");
    else if (s->asked.question == TWIN_ASK_VARIANCE && !(isfinite(v) && v > 0))
        tw_buf_puts(b, v > 0 ? "A does not spread at all, and B does"
                             : "B does not spread at all, and A does");
    else if (s->asked.question == TWIN_ASK_VARIANCE)
        tw_buf_printf(b, "B spreads " NUMBERS " times as much as A", v);
    else if (f->ratio)
        tw_buf_printf(b, "B is " NUMBERS "%% %s than A", fabs(v - 1) * 100,
                      v < 1 ? "lower" : "higher");
    else
        tw_buf_printf(b, "B is " NUMBERS "%s %s than A", fabs(v), unit(s),
                      v < 0 ? "lower" : "higher");
    if (isnan(f->effect.interval.low)) {
        if (s->asked.question == TWIN_ASK_WITHIN)
            tw_buf_puts(b, "; neither set spreads, so there is no interval");
        return;
    }
    tw_buf_printf(b, ", %.3g%% interval ", f->effect.confidence * 100);
    /* ratios as per cent above or below 1, but a ratio of spreads as it is */
    if (f->ratio && s->asked.question != TWIN_ASK_VARIANCE)
        tw_buf_printf(b, "%+.4g%% to %+.4g%%", (f->effect.interval.low - 1) * 100,
                      (f->effect.interval.high - 1) * 100);
    else
        tw_buf_printf(b, NUMBERS " to " NUMBERS, f->effect.interval.low, f->effect.interval.high);
}

/* The answer in capitals, and in a sentence why. Five answers: there is a difference; it may lie
 * below the floor; the sets are equal within the margin; no difference was shown; too few values to
 * show any. */
static void put_answer(struct tw_buf *b, const struct tw_significant *s)
{
    const struct twin_significance *f = &s->found;
    const bool bitwise = s->asked.question == TWIN_ASK_BITWISE;
    switch (f->answer) {
    case TWIN_REAL:
        tw_buf_puts(b, "REAL        ");
        if (bitwise)
            tw_buf_printf(b, "not one value: A has %zu in %zu, B %zu in %zu", f->set[0].distinct,
                          f->set[0].n, f->set[1].distinct, f->set[1].n);
        else
            put_effect(b, s);
        break;
    case TWIN_REAL_BELOW:
        tw_buf_puts(b, "NO MATTER   ");
        put_effect(b, s);
        tw_buf_printf(b,
                      "\n            that reaches into the floor of " NUMBERS
                      ", below which a difference means nothing",
                      s->asked.floor);
        break;
    case TWIN_REAL_WITHIN:
        if (bitwise)
            tw_buf_printf(b, "SAME        one value, bit for bit, in %zu",
                          f->set[0].n + f->set[1].n);
        else if (s->asked.question == TWIN_ASK_VARIANCE)
            tw_buf_puts(b, "SAME        neither set spreads at all");
        else if (isnan(f->effect.interval.low))
            tw_buf_printf(b, "EQUAL       within %.4g%%: neither set spreads, and B / A is %.8g",
                          (s->asked.margin - 1) * 100, f->effect.value);
        else
            tw_buf_printf(b,
                          "EQUAL       within %.4g%%: B / A is " NUMBERS
                          ", %.3g%% interval " NUMBERS " to " NUMBERS,
                          (s->asked.margin - 1) * 100, f->effect.value, f->effect.confidence * 100,
                          f->effect.interval.low, f->effect.interval.high);
        break;
    case TWIN_REAL_NOT:
        tw_buf_puts(b, "NOT SHOWN   ");
        put_effect(b, s);
        break;
    case TWIN_REAL_TOO_FEW:
        if (bitwise)
            tw_buf_puts(b, "TOO FEW     one value each, and the same: whether a set repeats its "
                           "own was not seen");
        else
            tw_buf_printf(b,
                          "TOO FEW     %zu and %zu values cannot show a difference at %.3g, "
                          "whatever they are",
                          f->set[0].n, f->set[1].n, s->asked.alpha);
        break;
    }
    tw_buf_puts(b, "\n");
}

/* How many values would be needed, and how small a difference this many show. Only where no answer
 * was had. */
static void put_needed(struct tw_buf *b, const struct tw_significant *s)
{
    const struct twin_significance *f = &s->found;
    if (f->answer == TWIN_REAL_TOO_FEW)
        tw_buf_printf(b, "needed      %zu values in each set at the very least\n", f->needed);
    else if (f->answer == TWIN_REAL_NOT) {
        /* 0: no number of values would do */
        if (f->needed)
            tw_buf_printf(b,
                          "needed      about %zu values in each set, if they go on as they are (8 "
                          "cases in 10)\n",
                          f->needed);
        if (!isnan(f->visible) && f->ratio)
            tw_buf_printf(
                b, "            as many as these show a difference of %.3g%% in 8 cases of 10\n",
                (f->visible - 1) * 100);
        else if (!isnan(f->visible))
            tw_buf_printf(
                b, "            as many as these show a difference of %.3g in 8 cases of 10\n",
                f->visible);
    }
}

/* ---- text */

/* One set: its values in summary, its configuration, values that were left out, and the worlds of
 * its runs. */
static void print_set(FILE *out, char letter, const struct tw_set *set,
                      const struct twin_set_summary *m, const char *units)
{
    tw_put_to(out, "%c           %zu value%s, median " NUMBERS "%s", letter, m->n,
              tw_plural_s(m->n), m->median.value, units);
    if (!isnan(m->median.interval.low))
        tw_put_to(out, " (%.4g%% interval " NUMBERS " to " NUMBERS ")", m->median.confidence * 100,
                  m->median.interval.low, m->median.interval.high);
    tw_put_to(out, ", " NUMBERS " to " NUMBERS, m->min, m->max);
    if (!isnan(m->sd))
        tw_put_to(out, ", s " NUMBERS, m->sd);
    tw_put_to(out, "\n            %s\n", set->configuration);
    for (size_t i = 0; i < set->left_out_count; i++)
        tw_put_to(out, "            left out: %s\n", set->left_out[i]);
    /* the runs of one set may have had different worlds */
    char *worlds = set->run ? twin_provenance_summary((const struct twin_run *const *)set->run,
                                                      set->n, false)
                            : NULL;
    if (worlds)
        tw_put_to(out, "            %s\n", worlds);
    tw_free(worlds);
}

/* What the test assumes, and what in the values speaks against it: one set after the other, unlike
 * spreads, values that repeat. */
static void print_assumptions(FILE *out, const struct tw_significant *s)
{
    const struct twin_significance *f = &s->found;
    /* these two questions are answered by a test on ranks */
    const bool ranks = s->asked.question == TWIN_ASK_METRIC || s->asked.question == TWIN_ASK_SPEED;
    tw_put_to(out, "assumed     the values are independent of one another");
    if (one_after_the_other(s))
        tw_put_to(out, "\n            NOT HELD: one set was measured wholly after the other, so a "
                       "machine that drifts looks like a difference; take turns");
    if (ranks && f->spread.p < .05)
        tw_put_to(out,
                  "\n            the sets spread differently (Brown-Forsythe p = %.2g): the answer "
                  "is which tends to be larger, the difference only its middle",
                  f->spread.p);
    for (int k = 0; k < 2; k++) {
        /* what repeats or lies far out, set by set */
        if (f->set[k].n > 2 && f->set[k].mad.mad == 0 && f->set[k].distinct > 1)
            tw_put_to(out,
                      "\n            %c: more than half of the values are equal (MAD = 0): "
                      "outliers cannot be told",
                      "AB"[k]);
        else if (s->set[k].run && f->set[k].n > 1 && f->set[k].distinct == 1)
            tw_put_to(out,
                      "\n            %c: one value in %zu runs: they repeat one another, and say "
                      "nothing of other seeds",
                      "AB"[k], f -> set[k].n);
        else if (f->set[k].n > 1 && f->set[k].distinct == 1)
            tw_put_to(out,
                      "\n            %c: one value %zu times (MAD = 0): if runs that repeat one "
                      "another gave them, they are one observation",
                      "AB"[k], f -> set[k].n);
        else if (f->set[k].mad.outliers && f->set[k].n >= OUTLIERS_FROM)
            tw_put_to(out, "\n            %c: %zu outlier%s by modified z > 3.5, kept", "AB"[k],
                      f -> set[k].mad.outliers, tw_plural_s(f->set[k].mad.outliers));
    }
    tw_put_to(out, "\n");
}

/* What was measured, as a phrase for the middle of a sentence. */
static const char *measure_words(const struct tw_significant *s)
{
    if (s->measure.text)
        return s->measure.text;
    return s->set[0].run ? "wall time" : "as given";
}

/* Two or three sentences that can be put into a paper as they are. malloc'ed; NULL: no memory. */
static char *paragraph_text(const struct tw_significant *s)
{
    static const char *const tests[] = {
        "the two-sided Mann-Whitney test with the Hodges-Lehmann estimate of the difference",
        "the two-sided Mann-Whitney test on logarithms with the Hodges-Lehmann estimate of the "
        "ratio",
        "the Brown-Forsythe test of equal variances",
        "two one-sided t tests on logarithms (Schuirmann), Welch's degrees of freedom",
        "their bit patterns"};
    const struct twin_significance *f = &s->found;
    struct tw_buf b = {0};
    tw_buf_printf(&b, "We compared %zu values of A (%s) with %zu of B (%s), %s, by %s", f->set[0].n,
                  s->set[0].configuration, f->set[1].n, s->set[1].configuration, measure_words(s),
                  tests[s->asked.question]);
    if (s->asked.question != TWIN_ASK_BITWISE)
        tw_buf_printf(&b, " at the level %.3g", s->asked.alpha);
    if (!isnan(f->p))
        tw_buf_printf(&b, " (p = %.2g)", f->p);
    tw_buf_puts(&b, ". ");
    if (s->asked.floor > 0)
        tw_buf_printf(&b, "Differences below " NUMBERS " were taken to mean nothing. ",
                      s->asked.floor);
    if (f->answer != TWIN_REAL_TOO_FEW && s->asked.question != TWIN_ASK_BITWISE) {
        put_effect(&b, s);
        tw_buf_puts(&b, ".");
    }
    return tw_buf_steal(&b);
}

/* The first line of the answer; what follows in put_answer() is cut off. */
char *tw_significant_line(const struct tw_significant *s)
{
    struct tw_buf b = {0};
    put_answer(&b, s);
    char *text = tw_buf_steal(&b);
    if (text)
        text[strcspn(text, "\n")] = '\0';
    return text;
}

/* Everything that needs memory is made before the first word is printed. */
int tw_significant_text(FILE *out, const struct tw_significant *s)
{
    struct tw_buf b = {0};
    put_answer(&b, s);
    put_needed(&b, s);
    char *answer = tw_buf_steal(&b), *method = paragraph_text(s);
    if (!answer || !method) {
        tw_free(answer);
        tw_free(method);
        return TWIN_ENOMEM;
    }
    tw_put_lines(out, answer);
    tw_put_to(out, "\nquestion    %s of %s: %s", twin_question_name(s->asked.question), what(s),
              test_name(s));
    if (!isnan(s->found.p))
        tw_put_to(out, ", p = %.2g", s->found.p);
    tw_put_to(out, "\n");
    if (s->asked.floor > 0 && s->floor_file)
        tw_put_to(out,
                  "floor       " NUMBERS
                  ": the relative spread of another order of additions, " NUMBERS ", in %s%s\n",
                  s->asked.floor, s->floor_relative, s->floor_file,
                  s->asked.floor == s->floor_relative ? "" : ", of the median of A");
    else if (s->asked.floor > 0)
        tw_put_to(out, "floor       " NUMBERS "\n", s->asked.floor);
    for (int k = 0; k < 2; k++)
        print_set(out, "AB"[k], &s -> set[k], &s -> found.set[k], unit(s));
    print_assumptions(out, s);
    tw_put_to(out, "for a paper %s\n", method);
    tw_free(answer);
    tw_free(method);
    return 0;
}

/* ---- JSON */

/* Null where there is no interval. */
static json_t *interval_json(struct twin_interval i)
{
    return isnan(i.low) ? json_null()
                        : json_pack("[o, o]", tw_json_number(i.low), tw_json_number(i.high));
}

/* A set with all of its values; runs is null for values of a file. */
static json_t *set_json(const struct tw_set *set, const struct twin_set_summary *m)
{
    json_t *values = json_array(), *runs = set->run ? json_array() : json_null();
    for (size_t i = 0; i < set->n; i++) {
        json_array_append_new(values, json_real(set->x[i]));
        if (set->run)
            json_array_append_new(runs, tw_json_text(tw_base_name(set->run[i]->dir)));
    }
    json_t *j = json_pack("{s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:o}",
                          "operand", tw_json_text(set->operand), "values", values, "runs", runs,
                          "distinct", (json_int_t)m->distinct, "median",
                          tw_json_number(m->median.value), "median_interval",
                          interval_json(m->median.interval), "min", tw_json_number(m->min), "max",
                          tw_json_number(m->max), "sd", tw_json_number(m->sd), "mad",
                          tw_json_number(m->mad.mad), "outliers", (json_int_t)m->mad.outliers,
                          "left_out", tw_json_texts(set->left_out, set->left_out_count),
                          "configuration", tw_json_text(set->configuration));
    return j;
}

/* All values of both sets are in it, so the test can be made again by anybody. */
json_t *tw_significant_json(const struct tw_significant *s)
{
    const struct twin_significance *f = &s->found;
    char *method = paragraph_text(s);
    json_t *j = json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, "
                          "s:b, s:o, s:o, s:o}",
                          "schema", "twinrun.significant/1", "answer", twin_real_name(f->answer),
                          "question", twin_question_name(s->asked.question), "metric", what(s),
                          "test", test_name(s), "p", tw_json_number(f->p), "effect",
                          tw_json_number(f->effect.value), "ratio", (int)f->ratio, "interval",
                          interval_json(f->effect.interval), "confidence",
                          tw_json_number(f->effect.confidence), "alpha", json_real(s->asked.alpha),
                          "floor", json_real(s->asked.floor), "needed",
                          f->needed ? json_integer((json_int_t)f->needed) : json_null(), "visible",
                          tw_json_number(f->visible), "took_turns", (int)!one_after_the_other(s),
                          "a", set_json(&s->set[0], &f->set[0]), "b",
                          set_json(&s->set[1], &f->set[1]), "paragraph", tw_json_text(method));
    tw_free(method);
    return j;
}
