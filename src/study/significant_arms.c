/* SPDX-License-Identifier: Apache-2.0 */
/* significant --a CMD --b CMD: the experiment made ready, as for fp32 against mixed precision. Runs
 * take turns in drawn order; then what the change does to speed, to a metric, and to the bits is
 * answered, each by itself. */
#include "significant_arms.h"

#include "run_state.h"
#include "scale_runs.h"
#include "trial.h"

#include "base.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- the runs */

/* Takes text (NULL: no memory), also after an error. */
static int keep_text(char ***list, size_t *count, char *text)
{
    char **grown = text ? tw_reallocarray(*list, *count + 1, sizeof *grown) : NULL;
    if (!grown) {
        tw_free(text);
        return TWIN_ENOMEM;
    }
    *list = grown;
    grown[(*count)++] = text;
    return 0;
}

/* Keeps the digest of its last weights, of a good run that shows them. */
static int note_bits(struct tw_experiment *x, int arm, const struct twin_run *r)
{
    assert(arm == 0 || arm == 1);
    struct tw_scale_run one = {0};
    int rc = 0;
    if (!tw_run_failed(r) && tw_scale_read_run(r, 1, &one, NULL) == 0 && *one.weights)
        rc = keep_text(&x->bits[arm].weights, &x->bits[arm].runs, tw_strdup(one.weights));
    tw_scale_run_free(&one);
    return rc;
}

/* The two runs of a round are made on one node where that can be asked for: what machines differ in
 * must not be taken for what the commands differ in. */
static void note_node(struct tw_experiment *x, const struct twin_run *r)
{
    const bool can = tw_remote_is_on(&x->on) && tw_remote_can_pin(&x->on, NULL) == 0;
    tw_free(x->round_node);
    x->round_node = can && r->node.engine ? tw_strdup(r->node.name) : NULL;
    x->apart |= tw_remote_is_on(&x->on) && !x->round_node;
}

/* One run of an arm. */
static int make_run(struct tw_experiment *x, int arm, uint64_t number)
{
    assert(arm == 0 || arm == 1);
    struct twin_error err = TWIN_ERROR_INIT;
    char title[64], text[32], *argv[4];
    struct tw_trial t = {.front = x->front, .title = title};
    const unsigned long long all = x->asked.runs;
    snprintf(title, sizeof title, "%c %llu/%llu", "ab"[arm], (unsigned long long)number, all);
    tw_shell_argv(x->asked.command[arm], argv);
    const struct twin_launch_options o = {
        .argv = argv,
        .home = x->home,
        .label = arm ? "b" : "a",
        .agents = true,
        .max_steps = (uint32_t)x->asked.steps,
        .window_last = UINT32_MAX,
        .fresh_dir = tw_remote_is_on(&x->on),
        .on = &x->on,
        .at_node = x->round_node,
        /* the value of a loss is kept from tensors on */
        .level = x->metric.measure.metric == TW_METRIC_LOSS ? TWIN_LEVEL_TENSORS : TWIN_LEVEL_STEPS,
    };
    int rc = tw_trial_make(&t, &o, &err);
    const struct twin_run *r = t.run;
    x->interrupted |= rc == TWIN_EINTR || t.end == TW_TRIAL_INTERRUPTED;
    if (rc == TWIN_EINTR)
        return 0;
    if (rc != 0)
        return tw_front_trouble(x->front, &err, "significant: cannot run %s", arm ? "B" : "A");
    if (!x->asked.quiet)
        tw_trial_line(x->front, title, r, tw_run_state(r, text));
    if (!x->interrupted) /* else it is no whole run */
        rc = keep_text(&x->dir[arm], &x->made[arm], tw_strdup(r->dir));
    if (rc == 0 && !x->interrupted)
        rc = note_bits(x, arm, r);
    if (r)
        note_node(x, r);
    twin_run_free(t.run);
    return rc ? tw_front_trouble(x->front, NULL, "significant: no memory for the runs") : 0;
}

int tw_experiment_make(struct tw_experiment *x)
{
    int rc = 0;
    for (uint64_t i = 0; i < x->asked.runs && rc == 0 && !x->interrupted; i++) {
        /* Which arm goes first in a round is drawn, so that what drifts on the machine (heat, other
         * jobs) falls on both alike. */
        const int first = (int)(tw_mix64(x->asked.seed * 0x9E3779B97F4A7C15u + i) & 1);
        tw_free(x->round_node);
        x->round_node = NULL;
        rc = make_run(x, first, i + 1);
        x->interrupted |= tw_front_stops(x->front);
        if (rc == 0 && !x->interrupted)
            rc = make_run(x, !first, i + 1);
        x->interrupted |= tw_front_stops(x->front);
    }
    return rc;
}

/* ---- the questions */

/* The values of both sets, from the runs that were made. */
static int fill_sets(struct tw_experiment *x, struct tw_significant *s, struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    int rc = 0;
    for (int arm = 0; arm < 2; arm++) {
        s->set[arm].operand = x->asked.command[arm];
        for (size_t i = 0; i < x->made[arm] && rc == 0; i++) {
            struct twin_run *r = NULL;
            rc = twin_run_load(x->dir[arm][i], &r, &why);
            rc = rc ? rc : tw_set_add_run(&s->set[arm], &s->measure, r, &why);
        }
    }
    return rc ? twin_error_set(err, TWIN_EIO, "a run cannot be read: %s", why.message) : 0;
}

int tw_significant_positive(const struct tw_significant *s, struct twin_error *err)
{
    if (s->asked.question != TWIN_ASK_SPEED && s->asked.question != TWIN_ASK_WITHIN)
        return 0;
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < s->set[k].n; i++)
            if (!(s->set[k].x[i] > 0))
                return twin_error_set(
                    err, TWIN_EINVAL,
                    "%s: value %zu is %g: a ratio needs values above 0 (--question "
                    "metric takes any)",
                    s->set[k].operand, i + 1, s->set[k].x[i]);
    return 0;
}

int tw_significant_ask(struct tw_significant *s, struct twin_error *err)
{
    int rc = tw_significant_positive(s, err);
    if (rc == 0 && twin_significance(s->set[0].x, s->set[0].n, s->set[1].x, s->set[1].n, &s->asked,
                                     &s->found) != 0)
        rc = tw_no_memory(err, "for so many values");
    return rc;
}

/* Of steps where every run that ended well shows them, of whole runs otherwise. */
static int ask_speed(struct tw_experiment *x, struct twin_error *err)
{
    x->speed.measure = (struct tw_measure){TW_METRIC_STEP, "step"};
    x->speed.asked = (struct twin_asked){.question = TWIN_ASK_SPEED,
                                         .alpha = x->metric.asked.alpha};
    int rc = fill_sets(x, &x->speed, err);
    /* One run that shows no steps, and all are measured by their whole time: the two sets must hold
     * the same quantity. */
    if (rc == 0 && (x->speed.set[0].left_out_count || x->speed.set[1].left_out_count)) {
        tw_set_free(&x->speed.set[0]);
        tw_set_free(&x->speed.set[1]);
        x->speed.measure = (struct tw_measure){TW_METRIC_WALL, "wall"};
        rc = fill_sets(x, &x->speed, err);
    }
    if (rc != 0)
        return rc;
    for (int arm = 0; arm < 2; arm++)
        if (x->speed.set[arm].n == 0)
            return twin_error_set(err, TWIN_ENOENT, "no run of %s ended well: %s", arm ? "B" : "A",
                                  x->speed.set[arm].left_out_count ? x->speed.set[arm].left_out[0]
                                                                   : "none was made");
    return tw_significant_ask(&x->speed, err);
}

/* Not asked (x->no_metric) where no run of an arm has the metric. */
static int ask_metric(struct tw_experiment *x, struct twin_error *err)
{
    int rc = fill_sets(x, &x->metric, err);
    x->no_metric = rc == 0 && (x->metric.set[0].n == 0 || x->metric.set[1].n == 0);
    return rc || x->no_metric ? rc : tw_significant_ask(&x->metric, err);
}

int tw_experiment_ask(struct tw_experiment *x, struct twin_error *err)
{
    int rc = ask_speed(x, err);
    return rc ? rc : ask_metric(x, err);
}

size_t tw_bits_classes(const struct tw_bits *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->runs; i++) {
        bool known = false;
        for (size_t k = 0; k < i && !known; k++)
            known = strcmp(b->weights[k], b->weights[i]) == 0;
        n += !known;
    }
    return n;
}

void tw_experiment_fini(struct tw_experiment *x)
{
    for (int arm = 0; arm < 2; arm++) {
        for (size_t i = 0; i < x->made[arm]; i++)
            tw_free(x->dir[arm][i]);
        for (size_t i = 0; i < x->bits[arm].runs; i++)
            tw_free(x->bits[arm].weights[i]);
        tw_free(x->dir[arm]);
        tw_free(x->bits[arm].weights);
        tw_set_free(&x->speed.set[arm]);
        tw_set_free(&x->metric.set[arm]);
    }
    tw_free(x->round_node);
    tw_remote_close(&x->on);
    tw_free(x->home);
}
