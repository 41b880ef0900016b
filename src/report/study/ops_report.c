/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the measurements of twinrun ops mean, and how it is said. Each row of the catalogue is one
 * call of PyTorch that was made many times, in two processes and with several numbers of threads,
 * without and with the deterministic flag (python/twinrun/_ops). judge_row() puts a row into one of
 * five groups and says what the flag does; text and JSON both ask it.
 *
 * The text lists the operations that are unsafe here first, and those without a finding as names
 * only.
 */
#include "ops_report.h"

#include "base.h"
#include "json_text.h"
#include "put.h"

#include "src/stats/stats.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Columns of a line and of a name; most rounds of timing that are read of a row. */
enum { WIDTH = 100, NAME = 36, ROUNDS_MAX = 64 };

/* A call with the flag must be slower by more than a tenth to be called slower: less is not told
 * from the machine's mood. */
#define SLOWER 1.10
/* Of each interval. There are some eighty rows: at 95% four of them would be wrong. */
#define CONFIDENCE 0.99

/* Which answer a row belongs to, in the order in which groups are printed: bits differ from run to
 * run; they depend on the number of threads; only the flag acts; nothing was seen; no result. */
enum group { UNSAFE, THREADS, FLAG, CLEAN, NOT_MEASURED, GROUPS };
static const char *const group_names[] = {"unsafe", "depends-on-threads", "flag-acts", "clean",
                                          "not-measured"};

/* What the deterministic flag does to a call: nothing; other bits than without it; it takes longer;
 * a call that differed repeats with it; it differs all the same; an error is raised. */
enum effect { NOTHING, OTHER_BITS, SLOWER_PATH, REPEATS, STILL_DIFFERS, RAISES };
static const char *const effect_names[] = {"nothing", "other-bits",    "slower",
                                           "repeats", "still-differs", "raises"};
/* The same effects as words of the text. */
static const char *const effect_words[] = {"nothing", "other bits",    "slower",
                                           "repeats", "still differs", "raises"};

/* What is thought of one row. */
struct judged {
    enum group group;
    enum effect effect;
    struct twin_estimate cost; /* time with the flag over time without; NaN when not measured */
    /* upper end of the same interval for calls without the flag over calls without it */
    double noise;
};

static json_int_t number_in(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

/* Did any repetition give other bits, with any number of threads? */
static bool row_differs(const json_t *row)
{
    const json_t *list = json_object_get(row, "threads");
    bool any = false;
    for (size_t i = 0; i < json_array_size(list); i++)
        any |= number_in(json_array_get(list, i), "differ") > 0;
    return any;
}

/* The cost of the flag: the median of the rounds' ratios, with the interval of its order
 * statistics, because times on a busy machine have wild tails. A round times the call without the
 * flag, with it, and without it again: the two outer times give a mean for the ratio, and their own
 * ratio says how much a round drifts (noise). NaN when nothing was timed. */
static void cost_of(const json_t *flag, struct judged *j)
{
    const json_t *rounds = json_object_get(flag, "rounds");
    double ratio[ROUNDS_MAX], idle[ROUNDS_MAX];
    size_t n = 0;
    struct twin_estimate e = {NAN, {NAN, NAN}, NAN}, same = e;
    for (size_t i = 0; i < json_array_size(rounds) && n < ROUNDS_MAX; i++) {
        double t[3];
        for (size_t k = 0; k < 3; k++)
            t[k] = json_number_value(json_array_get(json_array_get(rounds, i), k));
        if (t[0] > 0 && t[1] > 0 && t[2] > 0) {
            ratio[n] = t[1] / sqrt(t[0] * t[2]);
            idle[n++] = t[2] / t[0];
        }
    }
    if (n) {
        twin_stats_median_interval(ratio, n, CONFIDENCE, &e);
        twin_stats_median_interval(idle, n, CONFIDENCE, &same);
    }
    j->cost = e;
    j->noise = fmax(same.interval.high, 1 / same.interval.low);
}

/* The group is the first that fits: unsafe, threads, flag, clean. The effect is the strongest that
 * was seen: an error, still other bits, repeats with the flag, other bits than without it, slower.
 */
static struct judged judge_row(const json_t *row)
{
    const json_t *flag = json_object_get(row, "flag");
    bool unsafe = row_differs(row);
    struct judged j = {0};
    cost_of(flag, &j);
    if (json_object_get(row, "error")) {
        j.group = NOT_MEASURED;
        return j;
    }
    if (json_object_get(flag, "raises"))
        j.effect = RAISES;
    else if (number_in(flag, "differ") > 0)
        j.effect = STILL_DIFFERS;
    else if (unsafe)
        j.effect = REPEATS;
    else if (json_is_true(json_object_get(flag, "changes_bits")))
        j.effect = OTHER_BITS;
    else if (j.cost.interval.low > fmax(SLOWER, j.noise))
        j.effect = SLOWER_PATH;
    bool threads = json_is_true(json_object_get(row, "threads_change"));
    if (unsafe)
        j.group = UNSAFE;
    else if (threads)
        j.group = THREADS;
    else
        j.group = j.effect != NOTHING ? FLAG : CLEAN;
    return j;
}

/* ---- text */

/* The numbers of threads that were measured, taken from the first row that has any; NULL: no row
 * was measured. */
static const json_t *counts_of(const struct tw_ops_device *d)
{
    for (size_t i = 0; i < json_array_size(d->rows); i++) {
        const json_t *list = json_object_get(json_array_get(d->rows, i), "threads");
        if (list)
            return list;
    }
    return NULL;
}

static bool on_cuda(const struct tw_ops_device *d)
{
    return strcmp(d->name, "cuda") == 0;
}

/* Words, broken into lines that fit; a line is broken at a space behind `at` only: behind any word
 * for ' ', behind a comma for ','. Where none fits, the text is broken at the width. */
static void print_wrapped(FILE *out, const char *indent, const char *text, char at)
{
    size_t room = WIDTH - strlen(indent);
    while (*text) {
        size_t n = strlen(text);
        if (n > room) {
            for (n = room; n > 1 && !(text[n] == ' ' && (at == ' ' || text[n - 1] == at)); n--)
                ;
            if (n == 1)
                n = room;
        }
        tw_put_to(out, "%s%.*s\n", indent, (int)n, text);
        text += n + strspn(text + n, " ");
    }
}

/* What stands before the i-th of count numbers in a sentence: " at 1, 2 and 4". */
static const char *before_number(size_t i, size_t count)
{
    if (i == 0)
        return " at ";
    return i + 1 < count ? ", " : " and ";
}

/* What was measured with, and what the number of runs can and cannot exclude. */
static void print_head(FILE *out, const struct tw_ops_result *r, const struct tw_ops_device *d)
{
    const json_t *counts = counts_of(d);
    const char *capability = json_string_value(json_object_get(d->about, "capability"));
    struct tw_buf b = {0};
    tw_buf_printf(&b, "PyTorch %s, Python %s, %s%s%s; %llu runs of each call",
                  json_string_value(json_object_get(d->about, "torch")),
                  json_string_value(json_object_get(d->about, "python")),
                  on_cuda(d) ? "CUDA" : "CPU", capability ? ", " : "", capability ? capability : "",
                  (unsigned long long)r->runs);
    for (size_t i = 0; !on_cuda(d) && i < json_array_size(counts); i++)
        tw_buf_printf(&b, "%s%lld", before_number(i, json_array_size(counts)),
                      (long long)number_in(json_array_get(counts, i), "threads"));
    if (!on_cuda(d) && counts)
        tw_buf_puts(&b, json_array_size(counts) == 1 &&
                                number_in(json_array_get(counts, 0), "threads") == 1
                            ? " thread"
                            : " threads");
    tw_buf_printf(&b,
                  ", half of them in a second process. %llu comparison%s without a difference "
                  "cannot exclude one in up to %.0f%% of calls.",
                  (unsigned long long)r->runs - 1, r->runs == 2 ? "" : "s",
                  100 * twin_stats_zero_bound(r->runs - 1, 0.95));
    char *text = tw_buf_steal(&b), *safe = text ? tw_printable(text, strlen(text)) : NULL;
    print_wrapped(out, "", safe ? safe : "", ' ');
    tw_free(safe);
    tw_free(text);
}

/* The heading of a table: a column for each number of threads. */
static void print_columns(FILE *out, const struct tw_ops_device *d)
{
    const json_t *counts = counts_of(d);
    tw_put_to(out, "  %-*s", NAME, "");
    /* more do not fit; --json has them */
    for (size_t i = 0; i < json_array_size(counts) && i < 3; i++) {
        char title[24];
        long long n = (long long)number_in(json_array_get(counts, i), "threads");
        if (on_cuda(d))
            snprintf(title, sizeof title, "CUDA");
        else
            snprintf(title, sizeof title, n == 1 ? "%lld thread" : "%lld threads", n);
        tw_put_to(out, "  %-10s", title);
    }
    tw_put_to(out, "  %-13s  %s\n", "with the flag", "time with it");
}

/* One operation: in how many of the repeated calls its bits differ, and what the flag does. A star:
 * only calls of different processes differ. */
static void print_row(FILE *out, const json_t *row, const struct judged *j)
{
    const json_t *list = json_object_get(row, "threads");
    tw_put_to(out, "  %-*s", NAME, json_string_value(json_object_get(row, "name")));
    for (size_t i = 0; i < json_array_size(list) && i < 3; i++) {
        const json_t *t = json_array_get(list, i);
        char text[32] = "same";
        if (number_in(t, "differ"))
            snprintf(text, sizeof text, "%lld of %lld%s", (long long)number_in(t, "differ"),
                     (long long)number_in(t, "runs") - 1,
                     json_is_true(json_object_get(t, "between_processes_only")) ? "*" : "");
        tw_put_to(out, "  %-10s", text);
    }
    if (isfinite(j->cost.interval.low))
        tw_put_to(out, "  %-13s  x%.2f (%.2f-%.2f)\n", effect_words[j->effect], j->cost.value,
                  j->cost.interval.low, j->cost.interval.high);
    else
        tw_put_to(out, "  %s\n", effect_words[j->effect]);
}

/* A table of all operations of a group under a heading; nothing for an empty group. */
static void print_group(FILE *out, const struct tw_ops_device *d, enum group group,
                        const char *heading)
{
    bool first = true, starred = false;
    for (size_t i = 0; i < json_array_size(d->rows); i++) {
        const json_t *row = json_array_get(d->rows, i), *list = json_object_get(row, "threads");
        const char *instead = json_string_value(json_object_get(row, "instead"));
        struct judged j = judge_row(row);
        if (j.group != group)
            continue;
        if (first) {
            tw_put_to(out, "\n%s\n", heading);
            print_columns(out, d);
        }
        first = false;
        print_row(out, row, &j);
        for (size_t t = 0; t < json_array_size(list); t++)
            starred |= json_is_true(
                json_object_get(json_array_get(list, t), "between_processes_only"));
        if (instead && group == UNSAFE)
            tw_put_to(out, "      instead: %s\n", instead);
    }
    if (starred)
        tw_put_to(out, "  * only between processes\n");
}

/* The names alone of all operations of a group. */
static void print_names(FILE *out, const struct tw_ops_device *d, enum group group,
                        const char *heading)
{
    struct tw_buf b = {0};
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(d->rows); i++) {
        const json_t *row = json_array_get(d->rows, i);
        if (judge_row(row).group == group)
            tw_buf_printf(&b, "%s%s", n++ ? ", " : "",
                          json_string_value(json_object_get(row, "name")));
    }
    char *text = tw_buf_steal(&b);
    if (n) {
        tw_put_to(out, "\n%s (%zu)\n", heading, n);
        print_wrapped(out, "  ", text ? text : "", ',');
    }
    tw_free(text);
}

/* Operations that could not be measured, with the beginning of the error. */
static void print_missing(FILE *out, const struct tw_ops_device *d)
{
    bool first = true;
    for (size_t i = 0; i < json_array_size(d->rows); i++) {
        const json_t *row = json_array_get(d->rows, i);
        const char *error = json_string_value(json_object_get(row, "error"));
        if (!error)
            continue;
        if (first)
            tw_put_to(out, "\nNOT MEASURED\n");
        first = false;
        char *safe = tw_printable(error, strlen(error));
        tw_put_to(out, "  %-*s  %.60s\n", NAME, json_string_value(json_object_get(row, "name")),
                  safe ? safe : "");
        tw_free(safe);
    }
}

/* Device by device. That no operation is unsafe is said, too. */
void tw_ops_text(FILE *out, const struct tw_ops_result *r)
{
    for (size_t i = 0; i < r->count; i++) {
        const struct tw_ops_device *d = &r->device[i];
        bool any = false;
        if (i)
            tw_put_to(out, "\n");
        print_head(out, r, d);
        for (size_t k = 0; k < json_array_size(d->rows); k++)
            any |= judge_row(json_array_get(d->rows, k)).group == UNSAFE;
        if (any)
            print_group(out, d, UNSAFE, "UNSAFE: the same call gives other bits from run to run");
        else
            tw_put_to(out, "\nUNSAFE: none of these was seen to differ from run to run\n");
        print_group(out, d, THREADS,
                    "THREADS: repeats itself, but another number of threads gives other bits (pin: "
                    "threads)");
        print_group(out, d, FLAG,
                    "FLAG: repeats itself here; the deterministic flag acts on it all the same");
        print_names(out, d, CLEAN, "CLEAN: no difference seen, and the flag does nothing");
        print_missing(out, d);
    }
}

/* ---- JSON */

/* A row as JSON: the judgement, and what it rests on. */
static json_t *row_json(const json_t *row)
{
    struct judged j = judge_row(row);
    json_t *o = json_pack("{s:O, s:s, s:O?}", "op", json_object_get(row, "name"), "verdict",
                          group_names[j.group], "instead", json_object_get(row, "instead"));
    if (!o)
        return NULL;
    if (j.group == NOT_MEASURED) {
        json_object_set(o, "error", json_object_get(row, "error"));
        return o;
    }
    const json_t *flag = json_object_get(row, "flag"), *raises = json_object_get(flag, "raises");
    json_t *effect = json_pack("{s:s}", "effect", effect_names[j.effect]);
    if (raises)
        json_object_set(effect, "message", (json_t *)raises);
    else
        json_object_set_new(effect, "differ", json_integer(number_in(flag, "differ")));
    json_object_set_new(effect, "cost_ratio", tw_json_number(j.cost.value));
    json_object_set_new(effect, "cost_low", tw_json_number(j.cost.interval.low));
    json_object_set_new(effect, "cost_high", tw_json_number(j.cost.interval.high));
    json_object_set_new(effect, "noise_high", tw_json_number(j.noise));
    json_object_set_new(effect, "cost_confidence", tw_json_number(j.cost.confidence));
    json_object_set_new(effect, "rounds",
                        json_integer((json_int_t)json_array_size(json_object_get(flag, "rounds"))));
    json_object_set(o, "threads", json_object_get(row, "threads"));
    json_object_set(o, "threads_change", json_object_get(row, "threads_change"));
    json_object_set_new(o, "flag", effect);
    return o;
}

/* Rows are not sorted: each has its verdict, and readers choose. */
json_t *tw_ops_json(const struct tw_ops_result *r)
{
    json_t *devices = json_array();
    for (size_t i = 0; i < r->count; i++) {
        const struct tw_ops_device *d = &r->device[i];
        json_t *ops = json_array();
        for (size_t k = 0; k < json_array_size(d->rows); k++)
            json_array_append_new(ops, row_json(json_array_get(d->rows, k)));
        json_array_append_new(devices,
                              json_pack("{s:s, s:O, s:O, s:O?, s:o}", "device", d->name, "torch",
                                        json_object_get(d->about, "torch"), "python",
                                        json_object_get(d->about, "python"), "capability",
                                        json_object_get(d->about, "capability"), "ops", ops));
    }
    return json_pack("{s:s, s:s, s:I, s:{s:f, s:f}, s:o}", "schema", "twinrun.ops/1", "outcome",
                     "measured", "runs", (json_int_t)r->runs, "bound", "p_differ_upper",
                     twin_stats_zero_bound(r->runs - 1, 0.95), "confidence", 0.95, "devices",
                     devices);
}
