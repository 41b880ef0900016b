/* SPDX-License-Identifier: Apache-2.0 */
/* The lab as one HTML file, made of what its steps said and measured: first what each step came to,
 * then the facts, where the runs end, each step by itself, and the runs of the first step beside
 * each other. */
#include "lab_report.h"

#include "verdict_gather.h"

#include <math.h>

/* The colour of a result. */
static enum twin_mood mood_of(enum tw_lab_result r)
{
    if (r == TW_LAB_PASS || r == TW_LAB_QUIET)
        return TWIN_MOOD_CLEAN;
    return r == TW_LAB_FAIL ? TWIN_MOOD_FOUND : TWIN_MOOD_OPEN;
}

/* NaN: there is no such number. */
static double number_at(const json_t *o, const char *key)
{
    const json_t *x = json_object_get(o, key);
    return json_is_number(x) ? json_number_value(x) : NAN;
}

/* What each run ended with: the losses of the first two steps over the same bins. */
static void put_losses(struct twin_page *p, const struct tw_lab *lab)
{
    struct twin_page_set set[2];
    size_t sets = 0;
    static const char *const names[2] = {"as it is", "everything held still"};
    for (size_t i = TW_LAB_STEP_NOISE; i <= TW_LAB_STEP_PINS; i++) {
        const json_t *runs = json_object_get(lab->step[i].json, "runs");
        const size_t n = json_array_size(runs);
        double *x = n ? tw_calloc(n, sizeof *x) : NULL;
        for (size_t k = 0; x && k < n; k++)
            x[k] = number_at(json_array_get(runs, k), "loss");
        if (x)
            set[sets++] = (struct twin_page_set){names[i], x, n};
    }
    if (sets)
        twin_page_histogram(p, &(struct twin_page_histogram){
                                   "Where do the runs end?",
                                   "The last loss of each run: one bar is what one would want.",
                                   "loss", false, set, sets});
    for (size_t i = 0; i < sets; i++)
        tw_free((void *)(uintptr_t)set[i].value);
}

/* What the runs of the first step show of where they part: pictures as of a check. */
static void put_wandering(struct twin_page *p, const struct tw_lab *lab)
{
    const json_t *list = json_object_get(lab->step[TW_LAB_STEP_NOISE].json, "runs");
    const size_t n = json_array_size(list);
    struct twin_run **run = n ? tw_calloc(n, sizeof *run) : NULL;
    size_t count = 0;
    for (size_t i = 0; run && i < n; i++) {
        const char *name = json_string_value(json_object_get(json_array_get(list, i), "run"));
        char *path = name ? tw_printf("%s/runs/%s", lab->home, name) : NULL;
        count += path && twin_run_load(path, &run[count], NULL) == 0;
        tw_free(path);
    }
    if (count > 1) {
        twin_page_heading(p, "The runs of the first step, one beside the other");
        twin_page_small(p, "Run 1 is %s.", run[0]->id ? run[0]->id : "");
        tw_page_runs(p, (const struct twin_run *const *)run, count);
    }
    for (size_t i = 0; i < count; i++)
        twin_run_free(run[i]);
    tw_free(run);
}

/* Times of free and pinned runs, pair by pair; list: of the cost step. */
static void put_timings(struct twin_page *p, const json_t *list)
{
    const size_t n = json_array_size(list);
    double *x = n ? tw_calloc(3 * n, sizeof *x) : NULL;
    if (!x)
        return;
    for (size_t i = 0; i < n; i++) {
        x[i] = (double)(i + 1);
        x[n + i] = number_at(json_array_get(list, i), "free_s");
        x[2 * n + i] = number_at(json_array_get(list, i), "pinned_s");
    }
    const struct twin_page_series series[2] = {{"free", x + n, NULL, NULL},
                                               {"pinned", x + 2 * n, NULL, NULL}};
    twin_page_plot(
        p,
        &(struct twin_page_plot){
            .question = "What do the pins cost?",
            .caption = "Each pair was run in drawn order; a neighbour that was busy shows in both.",
            .x_name = "pair",
            .y_name = "time (s)",
            .style = TWIN_PAGE_POINTS,
            .from_zero = true,
            .x = x,
            .count = n,
            .series = series,
            .series_count = 2});
    tw_free(x);
}

/* The first thing seen: what each step came to. */
static void put_results(struct twin_page *p, const struct tw_lab *lab)
{
    static const char *const columns[] = {"step", "result", "why", NULL};
    twin_page_table(p, columns, "  t");
    for (size_t i = 0; i < TW_LAB_STEPS; i++) {
        const struct tw_lab_step *s = &lab->step[i];
        if (!s->wanted || !s->why)
            continue;
        twin_page_cell(p, "%s", s->title);
        twin_page_cell_mood(p, mood_of(s->result), tw_lab_result_name(s->result));
        twin_page_cell(p, "%s", s->why);
    }
    twin_page_table_end(p);
}

/* The lines of a step, its times, and the command to see it oneself. */
static void put_step(struct twin_page *p, const struct tw_lab_step *s)
{
    twin_page_heading(p, s->question);
    twin_page_facts(p, "");
    for (size_t i = 0; i < s->said_count; i++)
        twin_page_fact(p, s->said[i].label, "%s", s->said[i].text);
    if (s->said_count == 0)
        twin_page_fact(p, tw_lab_result_name(s->result), "%s", s->why);
    twin_page_facts_end(p);
    put_timings(p, json_object_get(s->json, "timings"));
    if (s->command) {
        twin_page_small(p, "To see it yourself:");
        twin_page_command(p, s->command);
    }
}

struct twin_page *tw_lab_page(const struct tw_lab *lab)
{
    struct twin_page *p = twin_page_open("twinrun lab");
    const enum tw_lab_outcome outcome = tw_lab_outcome(lab);
    char *job = tw_shell_quote(lab->argv, 0);
    if (!p) {
        tw_free(job);
        return NULL;
    }
    if (outcome == TW_LAB_PASSED)
        twin_page_verdict(p, TWIN_MOOD_CLEAN, "PASS",
                          "Every step of the lab passed, or had nothing to measure.", lab->name);
    else if (outcome == TW_LAB_FAILED)
        twin_page_verdict(p, TWIN_MOOD_FOUND, "FAIL", "A step of the lab failed.", lab->name);
    else
        twin_page_verdict(p, TWIN_MOOD_OPEN, "OPEN", "A step of the lab could not say.", lab->name);
    put_results(p, lab);
    twin_page_facts(p, "");
    twin_page_fact(p, "command", "%s", job ? job : "");
    twin_page_fact(p, "wanders", "%s", lab->wanders ? lab->wanders : "");
    twin_page_fact(p, "held still in every run", "%s", lab->args.pin ? lab->args.pin : "");
    twin_page_fact(p, "measured with", "%s", lab->configuration ? lab->configuration : "");
    twin_page_fact(p, "runs", "%llu", (unsigned long long)lab->made);
    twin_page_fact(p, "numbers", "%s/lab.json", lab->folder);
    twin_page_facts_end(p);
    put_losses(p, lab);
    for (size_t i = 0; i < TW_LAB_STEPS; i++)
        if (lab->step[i].wanted && lab->step[i].why)
            put_step(p, &lab->step[i]);
    put_wandering(p, lab);
    tw_free(job);
    return p;
}
