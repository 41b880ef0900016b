/* SPDX-License-Identifier: Apache-2.0 */
/* significant --a CMD --b CMD: the experiment made ready, as for fp32 against mixed precision. Runs
 * take turns in drawn order; then what the change does to speed, to a metric, and to the bits is
 * answered, each by itself. */
#include "significant_report.h"
#include "significant_sets.h"

#include "interrupt.h"
#include "json.h"
#include "options.h"
#include "progress.h"
#include "runs.h"
#include "say.h"
#include "scale_runs.h"
#include "terminal.h"
#include "trial.h"

#include "base.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* digests of the last weights of each good run that shows them */
struct bits {
    char **weights;
    size_t runs;
};

struct arms {
    const struct tw_significant_arms *a;
    char *home;
    char **dir[2];
    size_t made[2];
    struct bits bits[2];
    struct tw_significant speed, metric;
    bool interrupted, no_metric;
};

/* ---- the runs */

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

static int note_bits(struct arms *x, int arm, const struct twin_run *r)
{
    struct tw_scale_run one = {0};
    int rc = 0;
    if (!tw_run_failed(r) && tw_scale_read_run(r, 1, &one, NULL) == 0 && *one.weights)
        rc = keep_text(&x->bits[arm].weights, &x->bits[arm].runs, tw_strdup(one.weights));
    tw_scale_run_free(&one);
    return rc;
}

static int make(struct arms *x, int arm, uint64_t number)
{
    struct twin_error err = TWIN_ERROR_INIT;
    char title[64], text[32], *argv[4];
    struct tw_trial t = {.front = &tw_terminal, .title = title};
    snprintf(title, sizeof title, "%c %llu/%llu", "ab"[arm], (unsigned long long)number,
             (unsigned long long)x -> a -> runs);
    tw_shell_argv(x->a->command[arm], argv);
    const struct twin_launch_options o = {
        .argv = argv,
        .home = x->home,
        .label = arm ? "b" : "a",
        .agents = true,
        .max_steps = (uint32_t)x->a->steps,
        .window_last = UINT32_MAX,
        /* the value of a loss is kept from tensors on */
        .level = x->metric.measure.metric == TW_METRIC_LOSS ? TWIN_LEVEL_TENSORS : TWIN_LEVEL_STEPS,
    };
    int rc = tw_trial_make(&t, &o, &err);
    const struct twin_run *r = t.run;
    x->interrupted |= rc == TWIN_EINTR || t.end == TW_TRIAL_INTERRUPTED;
    if (rc == TWIN_EINTR)
        return 0;
    if (rc != 0)
        return tw_trouble(&err, "significant: cannot run %s", arm ? "B" : "A");
    if (!x->a->quiet)
        tw_trial_line(&tw_terminal, title, r, tw_run_state(r, text));
    if (!x->interrupted) /* else it is no whole run */
        rc = keep_text(&x->dir[arm], &x->made[arm], tw_strdup(r->dir)) || note_bits(x, arm, r)
                 ? TWIN_ENOMEM
                 : 0;
    twin_run_free(t.run);
    return rc ? tw_trouble(NULL, "significant: no memory for the runs") : 0;
}

/* A round has one run of each; which comes first is drawn. */
static int make_all(struct arms *x)
{
    int rc = 0;
    for (uint64_t i = 0; i < x->a->runs && rc == 0 && !x->interrupted; i++) {
        const int first = (int)(tw_mix64(x->a->seed * 0x9E3779B97F4A7C15u + i) & 1);
        rc = make(x, first, i + 1);
        x->interrupted |= tw_interrupted();
        if (rc == 0 && !x->interrupted)
            rc = make(x, !first, i + 1);
        x->interrupted |= tw_interrupted();
    }
    return rc;
}

/* ---- the questions */

static int fill(struct arms *x, struct tw_significant *s)
{
    struct twin_error err = TWIN_ERROR_INIT;
    int rc = 0;
    for (int arm = 0; arm < 2; arm++) {
        s->set[arm].operand = x->a->command[arm];
        for (size_t i = 0; i < x->made[arm] && rc == 0; i++) {
            struct twin_run *r = NULL;
            rc = twin_run_load(x->dir[arm][i], &r, &err);
            rc = rc ? rc : tw_set_add_run(&s->set[arm], &s->measure, r, &err);
        }
    }
    return rc ? tw_trouble(&err, "significant: a run cannot be read") : 0;
}

static int ask(struct tw_significant *s)
{
    int rc = tw_significant_positive(s);
    if (rc == 0 && twin_significance(s->set[0].x, s->set[0].n, s->set[1].x, s->set[1].n, &s->asked,
                                     &s->found) != 0)
        rc = tw_trouble(NULL, "significant: no memory for so many values");
    return rc;
}

/* Of steps where every run that ended well shows them, of whole runs otherwise. */
static int ask_speed(struct arms *x)
{
    x->speed.measure = (struct tw_measure){TW_METRIC_STEP, "step"};
    x->speed.asked = (struct twin_asked){.question = TWIN_ASK_SPEED,
                                         .alpha = x->metric.asked.alpha};
    int rc = fill(x, &x->speed);
    if (rc == 0 && (x->speed.set[0].left_out_count || x->speed.set[1].left_out_count)) {
        tw_set_free(&x->speed.set[0]);
        tw_set_free(&x->speed.set[1]);
        x->speed.measure = (struct tw_measure){TW_METRIC_WALL, "wall"};
        rc = fill(x, &x->speed);
    }
    if (rc != 0)
        return rc;
    for (int arm = 0; arm < 2; arm++)
        if (x->speed.set[arm].n == 0)
            return tw_trouble(NULL, "significant: no run of %s ended well: %s", arm ? "B" : "A",
                              x->speed.set[arm].left_out_count ? x->speed.set[arm].left_out[0]
                                                               : "none was made");
    return ask(&x->speed);
}

static int ask_metric(struct arms *x)
{
    int rc = fill(x, &x->metric);
    x->no_metric = rc == 0 && (x->metric.set[0].n == 0 || x->metric.set[1].n == 0);
    return rc || x->no_metric ? rc : ask(&x->metric);
}

static size_t classes(const struct bits *b)
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

/* ---- the answer */

static void put_bits(struct tw_buf *b, const struct arms *x)
{
    for (int arm = 0; arm < 2; arm++) {
        const size_t n = classes(&x->bits[arm]);
        tw_buf_printf(b, "%s: ", arm ? "; B" : "A");
        if (n == 0)
            tw_buf_puts(b, "no weights were seen");
        else if (x->bits[arm].runs == 1)
            tw_buf_puts(b, "weights of one run only");
        else if (n == 1)
            tw_buf_printf(b, "one set of weights, bit for bit, in %zu runs", x->bits[arm].runs);
        else
            tw_buf_printf(b, "%zu different sets of weights in %zu runs", n, x->bits[arm].runs);
    }
    if (classes(&x->bits[0]) == 1 && classes(&x->bits[1]) == 1)
        tw_buf_puts(b, strcmp(x->bits[0].weights[0], x->bits[1].weights[0]) == 0
                           ? "; A's are B's, bit for bit"
                           : "; A's are not B's");
}

static void not_asked(const struct arms *x)
{
    const struct tw_set *set = x->metric.set[0].n ? &x->metric.set[1] : &x->metric.set[0];
    tw_put("NOT ASKED   %s; -m 'printed:REGEX' reads a number that the job prints\n",
           set->left_out_count ? set->left_out[0] : "no run has it");
}

/* Three lines that say it, then each of them with all that it rests on. */
static int print_text(struct arms *x)
{
    struct tw_buf bits = {0};
    char *speed = tw_significant_line(&x->speed);
    char *metric = x->no_metric ? NULL : tw_significant_line(&x->metric);
    put_bits(&bits, x);
    tw_put("speed       %s\nmetric      %s\nbits        %s\n", speed ? speed : "",
           metric ? metric : "NOT ASKED", bits.data ? bits.data : "");
    tw_buf_free(&bits);
    tw_free(speed);
    tw_free(metric);
    tw_put("\n== speed: what a %s takes\n\n",
           x->speed.measure.metric == TW_METRIC_STEP ? "step" : "run");
    int rc = tw_significant_print(&x->speed);
    tw_put("\n== metric: %s\n\n", x->metric.measure.text);
    if (rc == 0 && x->no_metric)
        not_asked(x);
    else if (rc == 0)
        rc = tw_significant_print(&x->metric);
    tw_put("\norder       drawn in each round of one run of A and one of B, seed %llu\n",
           (unsigned long long)x->a->seed);
    return rc;
}

static int print_json(struct arms *x)
{
    struct tw_buf bits = {0};
    put_bits(&bits, x);
    json_t *speed = tw_significant_object(&x->speed);
    json_t *metric = x->no_metric ? json_null() : tw_significant_object(&x->metric);
    const bool both = classes(&x->bits[0]) == 1 && classes(&x->bits[1]) == 1;
    json_t *j = json_pack(
        "{s:s, s:o, s:o, s:{s:I, s:I, s:I, s:I, s:o, s:o}, s:I}", "schema", "twinrun.significant/1",
        "speed", speed, "metric", metric, "bits", "a_runs", (json_int_t)x->bits[0].runs,
        "a_classes", (json_int_t)classes(&x->bits[0]), "b_runs", (json_int_t)x->bits[1].runs,
        "b_classes", (json_int_t)classes(&x->bits[1]), "equal",
        both ? json_boolean(strcmp(x->bits[0].weights[0], x->bits[1].weights[0]) == 0)
             : json_null(),
        "text", tw_json_text(bits.data), "seed", (json_int_t)x->a->seed);
    tw_buf_free(&bits);
    return tw_json_print_exact(j);
}

static void fini(struct arms *x)
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
    tw_free(x->home);
}

/* The exit code once everything was asked and printed. */
static int exit_code_of(const struct arms *x)
{
    if (x->interrupted)
        return TW_EXIT_INTERRUPTED;
    return x->no_metric ? TW_EXIT_INCONCLUSIVE : tw_significant_exit(&x->metric);
}

int tw_significant_arms(const struct tw_significant_arms *a, const struct tw_measure *m,
                        const struct twin_asked *asked)
{
    struct arms x = {.a = a, .home = tw_home_for_runs(a->home, "significant")};
    x.metric.measure = *m;
    x.metric.asked = *asked;
    tw_interrupt_hold();
    tw_progress_setup(a->quiet);
    int rc = x.home ? make_all(&x) : TW_EXIT_TROUBLE;
    if (rc == 0 && x.interrupted && (x.made[0] == 0 || x.made[1] == 0))
        rc = TW_EXIT_INTERRUPTED;
    rc = rc ? rc : ask_speed(&x);
    rc = rc ? rc : ask_metric(&x);
    if (rc == 0) {
        rc = a->json ? print_json(&x) : print_text(&x);
        rc = rc ? rc : exit_code_of(&x);
    }
    fini(&x);
    return rc;
}
