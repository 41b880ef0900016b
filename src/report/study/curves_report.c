/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of runs that twinrun did not record. The sentences say "imported numbers" and never
 * "runs" where they speak of equality: nothing but those numbers was seen. */
#include "curves_report.h"
#include "curves_page.h"

#include "base.h"
#include "json_text.h"
#include "phrase.h"
#include "put.h"

#include <math.h>
#include <string.h>

/* Runs in the table of the text; --json and the page have all. */
enum { RUNS_SHOWN = 40 };

#define RECORDS "twinrun check -- COMMAND"
static const char not_said[] =
    "whether any two of these runs computed the same: no tensor, no data, no seed of them was "
    "seen, "
    "and numbers that were written down may have been rounded or left out";

/* The first run that has points: those of the same metric are held against it. NULL: none has. */
static const struct tw_curve *reference(const struct tw_curves_report *r)
{
    for (size_t f = 0; f < r->files; f++)
        for (size_t i = 0; i < r->file[f].runs; i++)
            if (r->file[f].run[i].points)
                return &r->file[f].run[i];
    return NULL;
}

/* Is the metric of this file that of the first one? Numbers of another one are no repeats of it. */
static bool has_its_metric(const struct tw_curves_report *r, const struct tw_curves *c)
{
    return strcmp(c->metric, r->file[0].metric) == 0;
}

static size_t count_runs(const struct tw_curves_report *r)
{
    size_t n = 0;
    for (size_t f = 0; f < r->files; f++)
        n += r->file[f].runs;
    return n;
}

/* How a curve stands to the first one, in words. malloc'ed; NULL: no memory. */
char *tw_curves_beside_words(const struct tw_curves_report *r, const struct tw_curves *c,
                             const struct tw_curve *run)
{
    const struct tw_curve *first = reference(r);
    struct tw_curves_beside x;
    char a[40], b[40];
    if (run == first)
        return tw_strdup("the first one");
    if (!first || !run->points)
        return tw_strdup("it has no curve");
    if (!has_its_metric(r, c))
        return tw_strdup("another metric: not compared");
    tw_curves_compare(first, run, &x);
    const size_t alone = x.only_a + x.only_b;
    if (x.differ)
        return tw_printf("differs first at step %lld: %s and %s", (long long)x.step,
                         tw_shortest(x.a, a), tw_shortest(x.b, b));
    if (!x.common)
        return tw_strdup("no step in common: not compared");
    if (tw_curves_equal_numbers(&x))
        return tw_printf("the imported numbers are equal, all %zu", x.common);
    return tw_printf("equal numbers at %zu point%s; %zu stand%s in one alone", x.common,
                     tw_plural_s(x.common), alone, alone == 1 ? "s" : "");
}

/* "0 to 7". malloc'ed; NULL: no memory. */
static char *steps_words(const struct tw_curve *r)
{
    if (!r->points)
        return tw_strdup("");
    return tw_printf("%lld to %lld", (long long)r->step[0], (long long)r->step[r->points - 1]);
}

/* How the values that stand for the runs of a file are spread. malloc'ed; NULL: no memory. */
static char *values_words(const struct tw_curves *c, const struct tw_curves_noise *n)
{
    char low[40], high[40];
    if (!n->values)
        return tw_printf("none of %zu run%s has one", c->runs, tw_plural_s(c->runs));
    if (n->values == 1)
        return tw_printf("of 1 run of %zu: %s; of one value no spread can be said", c->runs,
                         tw_shortest(n->low, low));
    return tw_printf("of %zu runs of %zu: mean %.6g, standard deviation %.3g, from %s to %s",
                     n->values, c->runs, n->mean, n->sd, tw_shortest(n->low, low),
                     tw_shortest(n->high, high));
}

/* How far the curves of a file lie apart. malloc'ed; NULL: no memory. */
static char *apart_words(const struct tw_curves_noise *n)
{
    if (n->values < 2)
        return tw_strdup("not known: fewer than two runs");
    if (!n->steps)
        return tw_strdup("not known: no step that all of them have");
    if (!isfinite(n->last_apart) || !isfinite(n->first_apart))
        return tw_strdup("not known: a value there is no finite number");
    if (n->steps == 1)
        return tw_printf("%.3g at step %lld, the only one that all have", n->last_apart,
                         (long long)n->last_step);
    return tw_printf(
        "%.3g at step %lld, %.3g at step %lld: the first and the last of %zu steps that "
        "all have",
        n->first_apart, (long long)n->first_step, n->last_apart, (long long)n->last_step, n->steps);
}

/* What would tell more. malloc'ed; NULL: no memory. */
static char *next_words(const struct tw_curves_report *r)
{
    char *a = tw_shell_quote((char *[]){r->file[0].path, NULL}, 1);
    char *b = r->files > 1 ? tw_shell_quote((char *[]){r->file[1].path, NULL}, 1) : tw_strdup("B");
    char *text = a && b ? tw_printf("twinrun significant %s %s", a, b) : NULL;
    tw_free(a);
    tw_free(b);
    return text;
}

/* ---- text */

/* A line of ours; text is freed. */
static void put_line(FILE *out, const char *name, char *text)
{
    tw_put_to(out, "%-9s %s\n", name, text ? text : "");
    tw_free(text);
}

static void put_run(FILE *out, const struct tw_curves_report *r, const struct tw_curves *c,
                    const struct tw_curve *run)
{
    char *beside = tw_curves_beside_words(r, c, run), *steps = steps_words(run);
    char value[40] = "left out";
    if (!isnan(run->value))
        tw_shortest(run->value, value);
    if (beside && steps)
        tw_put_to(out, "  %-16s  %-12s  %7zu  %-12s  %-9s  %s\n", run->name, value, run->points,
                  steps, run->ended ? run->ended : "not said", beside);
    tw_free(beside);
    tw_free(steps);
}

static void put_file(FILE *out, const struct tw_curves_report *r, size_t f)
{
    const struct tw_curves *c = &r->file[f];
    tw_put_to(out, "\n%s: %s %s of each run in %s\n", c->path, c->take, c->metric, c->source);
    tw_put_to(out, "  %-16s  %-12s  %7s  %-12s  %-9s  %s\n", "run", "value", "points", "steps",
              "ended", "beside the first one");
    for (size_t i = 0; i < c->runs && i < RUNS_SHOWN; i++)
        put_run(out, r, c, &c->run[i]);
    if (c->runs > RUNS_SHOWN)
        tw_put_to(out, "  and %zu more: --json and --html have all\n", c->runs - RUNS_SHOWN);
    for (size_t i = 0; i < c->runs && i < RUNS_SHOWN; i++)
        if (c->run[i].left_out)
            tw_put_to(out, "left out  %s: %s\n", c->run[i].name, c->run[i].left_out);
    put_line(out, "values", values_words(c, &r->noise[f]));
    put_line(out, "apart", apart_words(&r->noise[f]));
    put_line(out, "not known", tw_strdup(c->unknown));
}

void tw_curves_text(FILE *out, const struct tw_curves_report *r)
{
    const size_t runs = count_runs(r);
    tw_put_to(out, "IMPORTED  curves of %zu run%s that twinrun did not record\n", runs,
              tw_plural_s(runs));
    for (size_t f = 0; f < r->files; f++)
        put_file(out, r, f);
    tw_put_to(out, "\n");
    put_line(out, "not said", tw_strdup(not_said));
    put_line(out, "next", next_words(r));
    put_line(out, "", tw_strdup(RECORDS "   records what these runs did not"));
}

/* ---- JSON */

static json_t *beside_json(const struct tw_curves_report *r, const struct tw_curves *c,
                           const struct tw_curve *run)
{
    const struct tw_curve *first = reference(r);
    struct tw_curves_beside x;
    if (!first || run == first || !run->points || !has_its_metric(r, c))
        return json_null();
    tw_curves_compare(first, run, &x);
    json_t *differs = json_null();
    if (x.differ)
        differs = json_pack("{s:o, s:o, s:o}", "step", json_integer(x.step), "first",
                            tw_json_number(x.a), "this", tw_json_number(x.b));
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "equal_numbers",
                     x.common ? json_boolean(tw_curves_equal_numbers(&x)) : json_null(),
                     "points_in_common", tw_json_count(x.common), "only_in_first",
                     tw_json_count(x.only_a), "only_in_this", tw_json_count(x.only_b), "differs",
                     differs);
}

static json_t *run_json(const struct tw_curves_report *r, const struct tw_curves *c,
                        const struct tw_curve *run)
{
    const bool any = run->points > 0;
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o}", "name",
                     tw_json_text(run->name), "value", tw_json_number(run->value), "left_out",
                     tw_json_text(run->left_out), "ended", tw_json_text(run->ended), "points",
                     tw_json_count(run->points), "first_step",
                     any ? json_integer(run->step[0]) : json_null(), "last_step",
                     any ? json_integer(run->step[run->points - 1]) : json_null(), "is_first",
                     run == reference(r), "beside_first", beside_json(r, c, run));
}

static json_t *noise_json(const struct tw_curves_noise *n)
{
    const bool any = n->values > 0, steps = n->steps > 0;
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "values",
                     tw_json_count(n->values), "mean", tw_json_number(n->mean), "sd",
                     tw_json_number(n->sd), "low", any ? tw_json_number(n->low) : json_null(),
                     "high", any ? tw_json_number(n->high) : json_null(), "steps_of_all",
                     tw_json_count(n->steps), "first_step",
                     steps ? json_integer(n->first_step) : json_null(), "first_apart",
                     tw_json_number(n->first_apart), "last_step",
                     steps ? json_integer(n->last_step) : json_null(), "last_apart",
                     tw_json_number(n->last_apart));
}

static json_t *file_json(const struct tw_curves_report *r, size_t f)
{
    const struct tw_curves *c = &r->file[f];
    json_t *runs = json_array();
    for (size_t i = 0; runs && i < c->runs; i++)
        if (json_array_append_new(runs, run_json(r, c, &c->run[i])) != 0) {
            json_decref(runs);
            return NULL;
        }
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "file", tw_json_text(c->path), "source",
                     tw_json_text(c->source), "metric", tw_json_text(c->metric), "take",
                     tw_json_text(c->take), "unknown", tw_json_text(c->unknown), "noise",
                     noise_json(&r->noise[f]), "runs", runs);
}

json_t *tw_curves_json(const struct tw_curves_report *r)
{
    json_t *files = json_array();
    for (size_t f = 0; files && f < r->files; f++)
        if (json_array_append_new(files, file_json(r, f)) != 0) {
            json_decref(files);
            return NULL;
        }
    return json_pack("{s:s, s:s, s:o, s:s}", "schema", "twinrun.imported/1", "outcome", "imported",
                     "files", files, "not_said", not_said);
}

/* ---- what the page says, too */

void tw_curves_put_facts(struct twin_page *p, const struct tw_curves_report *r)
{
    for (size_t f = 0; f < r->files; f++) {
        const struct tw_curves *c = &r->file[f];
        char *values = values_words(c, &r->noise[f]), *apart = apart_words(&r->noise[f]);
        twin_page_facts(p, c->path);
        twin_page_fact(p, "what", "%s %s of each run in %s", c->take, c->metric, c->source);
        twin_page_fact(p, "values", "%s", values ? values : "");
        twin_page_fact(p, "apart", "%s", apart ? apart : "");
        twin_page_fact(p, "not known", "%s", c->unknown);
        twin_page_facts_end(p);
        tw_free(values);
        tw_free(apart);
    }
    twin_page_text(p, "Not said: %s.", not_said);
}

void tw_curves_put_next(struct twin_page *p, const struct tw_curves_report *r)
{
    char *next = next_words(r);
    twin_page_heading(p, "What would tell more?");
    if (next)
        twin_page_command(p, next);
    twin_page_code(p, RECORDS);
    tw_free(next);
}
