/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Step 3: what the pins cost, all together and each, and (lab_ops.c) which operations wander here.
 */
#include "lab.h"

#include "json_text.h"
#include "phrase.h"
#include "run_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS_NEEDED = 5, PINS_MAX = 64, ROUNDS_MOST = 3, ROUNDS_S = 150, FREE_EVERY = 8 };
/* share of the processors that others may use before a pair counts as disturbed */
#define OTHERS_MUCH 0.15
#define COST_LEAST (-50.0)
#define COST_MOST 300.0

/* One pair: a free and a pinned run, in drawn order. */
struct timing {
    double natural, pinned, others;
    bool pinned_first, disturbed;
};

/* Steps are what is timed, where there are any: what a job does once, such as loading its
 * libraries, is no cost of a step. */
static double seconds_of(const struct tw_lab_run *r, bool by_steps)
{
    return by_steps ? r->ends.loop_s : r->run->wall_s;
}

/* Did the run begin, and end by itself without an error? */
static bool ended_well(const struct tw_lab_run *r)
{
    return r->run && r->run->outcome == TWIN_RUN_EXITED && r->run->exit_code == 0;
}

/* Drawn order: splitmix64 of a counter, so that the order is the same in every lab and no part of a
 * machine's rhythm. */
static bool coin(uint64_t *state)
{
    return tw_mix64(++*state) & 1;
}

/* ---- pairs */

/* The step while it goes on. */
struct costing {
    struct tw_lab *lab;
    struct tw_lab_step *s;
    struct tw_lab_world *all;
    struct timing *pair;
    size_t pairs, wanted, most;
    bool by_steps, failed;
    bool noisy; /* calm pairs were not to be had */
    double wall_s;
    size_t runs; /* whole runs so far */
    uint64_t drawn;
    /* of each setting of `all`, as the first pinned run showed it */
    struct twin_world_effect *effect;
};

/* One run of which only its time is kept. NaN: it did not end well, and the step says so. */
static int time_one(struct costing *c, const struct tw_lab_world *w, const char *title,
                    double *seconds, double *others, struct twin_error *err)
{
    struct tw_lab_run r;
    *seconds = NAN;
    int rc = tw_lab_run(c->lab, w, TWIN_LEVEL_STEPS, title, &r, err);
    if (rc == 0 && !c->lab->interrupted && !ended_well(&r)) {
        char *words = tw_run_last_words(r.run);
        if (c->s->result == TW_LAB_NOT_DONE)
            tw_lab_decide(c->s, TW_LAB_OPEN, "not measured: the job fails%s%s%s",
                          w == c->all ? " under the pins" : "", words ? ": " : "",
                          words ? words : "");
        tw_free(words);
        c->failed = true;
    } else if (rc == 0 && !c->lab->interrupted) {
        if (c->pairs == 0 && !c->effect && w != c->all)
            c->by_steps = isfinite(r.ends.loop_s);
        if (w == c->all && !c->effect)
            rc = twin_world_effects(&w->world, r.run, &c->effect, err);
        *seconds = seconds_of(&r, c->by_steps);
        *others = r.others;
        c->wall_s += r.run->wall_s;
        c->runs++;
        if (rc == 0 && !(*seconds > 0)) {
            if (c->s->result == TW_LAB_NOT_DONE)
                tw_lab_decide(c->s, TW_LAB_OPEN,
                              "not measured: a run showed less than two steps, so that there is no "
                              "time to compare");
            c->failed = true;
        }
    }
    tw_lab_run_free(&r);
    return rc;
}

/* Is there nothing more to time? */
static bool stop(const struct costing *c)
{
    return c->lab->interrupted || c->failed;
}

/* Pairs that no neighbour disturbed. */
static size_t calm(const struct costing *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->pairs; i++)
        n += !c->pair[i].disturbed;
    return n;
}

/* As many pairs as asked for without much of others' work, or up to twice as many in all: then the
 * interval is as wide as the neighbours make it. */
static int make_pairs(struct costing *c, struct twin_error *err)
{
    int rc = 0;
    while (rc == 0 && !stop(c) && calm(c) < c->wanted && c->pairs < c->most) {
        /* Blocks of two pairs, one of each order: what drifts over the lab falls on both arms. The
         * first one is free, by which it is seen what can be timed. */
        const bool second = c->pairs % 2 == 1;
        struct timing t = {.pinned_first = second ? !c->pair[c->pairs - 1].pinned_first
                                                  : c->pairs > 0 && coin(&c->drawn)};
        double others[2] = {NAN, NAN};
        char title[64];
        for (int k = 0; k < 2 && rc == 0 && !stop(c); k++) {
            const bool pinned = (k == 0) == t.pinned_first;
            snprintf(title, sizeof title, "cost     pair %zu %-8s", c->pairs + 1,
                     pinned ? "pinned" : "free");
            rc = time_one(c, pinned ? c->all : &c->lab->natural, title,
                          pinned ? &t.pinned : &t.natural, &others[k], err);
        }
        if (rc != 0 || stop(c))
            break;
        t.others = fmax(others[0], others[1]);
        t.disturbed = t.others > OTHERS_MUCH;
        c->pair[c->pairs++] = t;
    }
    return rc;
}

/* Ratios of the calm pairs where there are enough of them, else of all. */
static size_t ratios(const struct costing *c, double *x, bool *all)
{
    size_t n = 0;
    *all = calm(c) < c->wanted;
    for (size_t i = 0; i < c->pairs; i++)
        if (*all || !c->pair[i].disturbed)
            x[n++] = c->pair[i].pinned / c->pair[i].natural;
    return n;
}

/* Of a ratio of times: +10 for 1.1. */
static double percent(double ratio)
{
    return 100 * (ratio - 1);
}

/* ---- each pin alone */

/* One pin, with nothing else held still. */
struct alone {
    const struct twin_factor *factor;
    double seconds[ROUNDS_MOST];
    size_t rounds;
    bool failed;
    struct twin_estimate cost;
};

/* What single pins are held against: the free runs of the pairs that count, and those between the
 * pins. */
struct against {
    double *free_s, *pinned_s;
    size_t free, pinned;
};

/* Three rounds where they fit into the time by what runs took so far, else one: a job that starts
 * slowly takes most of a run for that. Not two: a pin's own scatter then has one degree of freedom,
 * and where it is the larger one the interval says nothing (t = 12.7). */
static size_t rounds_for(const struct costing *c, size_t pins)
{
    return c->wall_s / (double)c->runs * (double)pins * ROUNDS_MOST <= ROUNDS_S ? ROUNDS_MOST : 1;
}

/* Where calm runs can be had, one that neighbours disturbed is made once more, and the calmer of
 * both counts. */
static int time_calm(struct costing *c, const struct tw_lab_world *w, const char *title,
                     double *seconds, struct twin_error *err)
{
    double others, again, more;
    int rc = time_one(c, w, title, seconds, &others, err);
    if (rc != 0 || stop(c) || c->noisy || !(others > OTHERS_MUCH))
        return rc;
    rc = time_one(c, w, title, &again, &more, err);
    if (rc == 0 && !stop(c) && more < others)
        *seconds = again;
    return rc;
}

/* One run under one pin. A job that fails under it is no trouble: the pin is not timed. */
static int time_alone(struct costing *c, struct alone *a, const char *title, struct twin_error *err)
{
    struct tw_lab_world w;
    double seconds;
    const char *held = c->lab->args.pin;
    char *list = tw_printf("%s%s%s", held ? held : "", held ? "," : "", a->factor->id);
    int rc = list ? tw_lab_world(c->lab, list, &w, err) : tw_no_memory(err, "for a list of pins");
    tw_free(list);
    if (rc != 0)
        return rc;
    rc = time_calm(c, &w, title, &seconds, err);
    a->failed = c->failed;
    c->failed = false;
    if (rc == 0 && !a->failed && !c->lab->interrupted)
        a->seconds[a->rounds++] = seconds;
    tw_lab_world_free(&w);
    return rc;
}

/* A round: each pin once, in drawn order, with free runs in between, so that what drifts is seen in
 * them. */
static int time_each(struct costing *c, struct alone *pin, size_t count, size_t rounds,
                     struct against *with, struct twin_error *err)
{
    int rc = 0;
    for (size_t round = 0; round < rounds && rc == 0 && !stop(c); round++) {
        size_t order[PINS_MAX];
        char title[64];
        for (size_t i = 0; i < count; i++) {
            const size_t k = (size_t)(tw_mix64(++c->drawn) % (i + 1));
            order[i] = order[k];
            order[k] = i;
        }
        for (size_t i = 0; i < count && rc == 0 && !stop(c); i++) {
            struct alone *a = &pin[order[i]];
            if (i % FREE_EVERY == 0) {
                snprintf(title, sizeof title, "each pin round %zu free", round + 1);
                rc = time_calm(c, &c->lab->natural, title, &with->free_s[with->free], err);
                with->free += rc == 0 && !stop(c);
            }
            snprintf(title, sizeof title, "each pin round %zu %s", round + 1, a->factor->id);
            if (rc == 0 && !stop(c) && !a->failed)
                rc = time_alone(c, a, title, err);
        }
    }
    return rc;
}

/* Mean and standard deviation of logarithms; n of 2 at least for the latter. */
static double log_mean(const double *x, size_t n, double *deviation)
{
    double mean = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        mean += log(x[i]) / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (log(x[i]) - mean) * (log(x[i]) - mean);
    *deviation = n > 1 ? sqrt(squares / (double)(n - 1)) : NAN;
    return mean;
}

/*
 * One run of a pin has no scatter of its own to be seen: it gets that of the free or of the pinned
 * runs, whichever is larger, or its own, where it has more than one run and that is larger still;
 * with the degrees of freedom of the one that was taken. Logarithms throughout.
 */
static struct twin_estimate cost_of(const struct alone *a, const struct against *with)
{
    struct {
        double deviation;
        size_t n;
    } scatter[3] = {{NAN, with->free}, {NAN, with->pinned}, {NAN, a->rounds}}, *s = scatter;
    const double base = log_mean(with->free_s, with->free, &scatter[0].deviation);
    log_mean(with->pinned_s, with->pinned, &scatter[1].deviation);
    const double shift = log_mean(a->seconds, a->rounds, &scatter[2].deviation) - base;
    for (size_t i = 1; i < 3; i++)
        if (scatter[i].deviation > s->deviation)
            s = &scatter[i];
    if (a->rounds == 0 || with->free < 2)
        return (struct twin_estimate){NAN, {NAN, NAN}, TW_LAB_CONFIDENCE};
    const double half = twin_stats_t_quantile(0.5 + TW_LAB_CONFIDENCE / 2, (double)(s->n - 1)) *
                        s->deviation * sqrt(1 / (double)a->rounds + 1 / (double)with->free);
    return (struct twin_estimate){
        exp(shift), {exp(shift - half), exp(shift + half)}, TW_LAB_CONFIDENCE};
}

/* Dearest first; those without a cost last. */
static int by_cost(const void *a, const void *b)
{
    const double x = ((const struct alone *)a)->cost.value;
    const double y = ((const struct alone *)b)->cost.value;
    if (isnan(x) || isnan(y))
        return isnan(x) - isnan(y);
    return (x < y) - (x > y);
}

/* A list of numbers, null where one is not known. */
static json_t *numbers_json(const double *x, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, tw_json_number(x[i]));
    return list;
}

/* One pin with its times and its cost. */
static json_t *alone_json(const struct alone *a)
{
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:b}", "id", a->factor->id, "seconds",
                     numbers_json(a->seconds, a->rounds), "cost_pct",
                     tw_json_number(percent(a->cost.value)), "low",
                     tw_json_number(percent(a->cost.interval.low)), "high",
                     tw_json_number(percent(a->cost.interval.high)), "fails", a->failed);
}

/* A variable that arrived is in force, whether anything reads it or not: what only Python reads is
 * not timed in a job without. */
static bool acts(const struct tw_lab *lab, const struct twin_factor *f)
{
    return !f->needs || tw_starts(tw_base_name(lab->argv[0]), "python");
}

/* Those of the pairs that count. */
static void from_pairs(const struct costing *c, struct against *with)
{
    for (size_t i = 0; i < c->pairs; i++)
        if (c->noisy || !c->pair[i].disturbed) {
            with->free_s[with->free++] = c->pair[i].natural;
            with->pinned_s[with->pinned++] = c->pair[i].pinned;
        }
}

/* The lines on what each pin costs. */
static void say_pins(struct costing *c, const struct alone *pin, size_t count, size_t rounds,
                     size_t free)
{
    struct tw_buf dear = {0}, rest = {0}, fails = {0};
    for (size_t i = 0; i < count; i++) {
        const struct twin_estimate *e = &pin[i].cost;
        struct tw_buf *b = &rest;
        if (isnan(e->value))
            b = &fails;
        else if (e->interval.low > 1 || e->interval.high < 1)
            b = &dear;
        tw_buf_printf(b, "%s%s", b->len ? ", " : "", pin[i].factor->id);
        if (b != &fails)
            tw_buf_printf(b, " %+.0f%% (%+.0f to %+.0f)", percent(e->value),
                          percent(e->interval.low), percent(e->interval.high));
    }
    tw_lab_line(c->s, "each pin", "%s",
                dear.len ? dear.data : "none was shown to cost or gain time");
    if (rest.len)
        tw_lab_line(c->s, "not shown", "to cost or gain time: %s", rest.data);
    if (fails.len)
        tw_lab_line(c->s, "not timed",
                    "%s: the job failed under each of these alone, or showed no steps", fails.data);
    tw_lab_line(c->s, "",
                "95%% intervals of %zu run%s of each against %zu free ones; of %zu such intervals "
                "about one in twenty is off by chance",
                rounds, tw_plural_s(rounds), free, count);
    tw_buf_free(&dear);
    tw_buf_free(&rest);
    tw_buf_free(&fails);
}

/* Times each pin that is in force, and says which ones cost. */
static int each_pin(struct costing *c, struct twin_error *err)
{
    struct alone pin[PINS_MAX] = {0};
    struct against with = {0};
    size_t count = 0;
    json_t *list = json_array();
    for (size_t i = 0; i < c->all->world.count && count < PINS_MAX; i++)
        if (c->effect && c->effect[i].effect == TWIN_EFFECT_IN_FORCE &&
            acts(c->lab, c->all->world.setting[i].factor))
            pin[count++].factor = c->all->world.setting[i].factor;
    with.free_s = tw_calloc(2 * c->pairs + ROUNDS_MOST * (PINS_MAX / FREE_EVERY + 1),
                            sizeof *with.free_s);
    if (!with.free_s) {
        json_decref(list);
        return tw_no_memory(err, "for the times of single pins");
    }
    with.pinned_s = with.free_s + c->pairs + ROUNDS_MOST * (PINS_MAX / FREE_EVERY + 1);
    from_pairs(c, &with);
    const size_t rounds = rounds_for(c, count);
    int rc = time_each(c, pin, count, rounds, &with, err);
    for (size_t i = 0; i < count; i++)
        pin[i].cost = cost_of(&pin[i], &with);
    qsort(pin, count, sizeof *pin, by_cost);
    if (c->failed)
        tw_lab_line(c->s, "each pin", "not measured: the job failed in a run without pins");
    else if (count && rc == 0 && !stop(c))
        say_pins(c, pin, count, rounds, with.free);
    for (size_t i = 0; i < count && rc == 0 && !stop(c); i++)
        json_array_append_new(list, alone_json(&pin[i]));
    json_object_set_new(c->s->json, "cost_per_pin", list);
    json_object_set_new(c->s->json, "cost_per_pin_free_s", numbers_json(with.free_s, with.free));
    tw_free(with.free_s);
    return rc;
}

/* ---- the step */

static json_t *timings_json(const struct costing *c)
{
    json_t *list = json_array();
    for (size_t i = 0; i < c->pairs; i++)
        json_array_append_new(list, json_pack("{s:o, s:o, s:s, s:o, s:b}", "free_s",
                                              tw_json_number(c->pair[i].natural), "pinned_s",
                                              tw_json_number(c->pair[i].pinned), "first",
                                              c->pair[i].pinned_first ? "pinned" : "free", "others",
                                              tw_json_number(c->pair[i].others), "disturbed",
                                              c->pair[i].disturbed));
    return list;
}

/* The figure, and the same by another way from the same times: the ratio of the sums must lie in
 * the ratios' range. */
static void judge_cost(struct costing *c)
{
    double x[2 * 1000], free_s = 0, pinned_s = 0, worst = 0, least = INFINITY, most = 0;
    bool all;
    const size_t n = ratios(c, x, &all), disturbed = c->pairs - calm(c);
    const struct twin_estimate e = twin_stats_log_mean_interval(x, n, TW_LAB_CONFIDENCE);
    for (size_t i = 0, k = 0; i < c->pairs; i++) {
        worst = fmax(worst, isnan(c->pair[i].others) ? 0 : c->pair[i].others);
        if (!all && c->pair[i].disturbed)
            continue;
        free_s += c->pair[i].natural;
        pinned_s += c->pair[i].pinned;
        least = fmin(least, x[k]);
        most = fmax(most, x[k++]);
    }
    const double pct = percent(e.value), check = percent(pinned_s / free_s);
    const bool agrees = pinned_s / free_s >= least && pinned_s / free_s <= most;
    const bool sane = pct >= COST_LEAST && pct <= COST_MOST;
    tw_lab_line(c->s, "cost",
                "%+.1f%%, 95%% interval %+.1f%% to %+.1f%% (%zu pairs in drawn order; %s)", pct,
                percent(e.interval.low), percent(e.interval.high), n,
                c->by_steps ? "from the end of the first step to that of the last"
                            : "whole runs: no steps were seen");
    tw_lab_line(c->s, "checked", "all times together give %+.1f%%: %.2f s free, %.2f s pinned",
                check, free_s, pinned_s);
    if (isfinite(e.interval.low) && isfinite(e.interval.high) && sane)
        tw_lab_line(c->s, "means",
                    "an hour as it is takes %.0f minutes with everything held still, 95%% interval "
                    "%.0f to %.0f",
                    60 * e.value, 60 * e.interval.low, 60 * e.interval.high);
    if (tw_remote_is_on(c->lab->on))
        tw_lab_line(c->s, "node",
                    c->lab->timed_node ? "all timed runs were made on %s; what else ran there "
                                         "meanwhile is not known, and is in the interval"
                                       : "timed runs were made wherever %s put them, so that what "
                                         "differs between nodes is in the interval",
                    c->lab->timed_node ? c->lab->timed_node : tw_remote_name(c->lab->on));
    if (disturbed)
        tw_lab_line(c->s, "neighbours",
                    "others used up to %.0f%% of the processors in %zu of %zu pairs; %s",
                    100 * worst, disturbed, c->pairs,
                    all ? "no calm ones came, so that all count, and the interval is as wide as "
                          "that makes it"
                        : "those were repeated and do not count");
    json_object_set_new(c->s->json, "determinism_cost_pct",
                        json_pack("{s:o, s:o, s:o, s:f, s:I}", "value", tw_json_number(pct), "low",
                                  tw_json_number(percent(e.interval.low)), "high",
                                  tw_json_number(percent(e.interval.high)), "confidence",
                                  TW_LAB_CONFIDENCE, "pairs", (json_int_t)n));
    json_object_set_new(c->s->json, "cross_check_pct", tw_json_number(check));
    json_object_set_new(c->s->json, "bounds_pct", json_pack("[f, f]", COST_LEAST, COST_MOST));
    json_object_set_new(c->s->json, "neighbours",
                        json_pack("{s:I, s:f, s:b}", "disturbed", (json_int_t)disturbed, "worst",
                                  worst, "all_count", all));
    json_object_set_new(c->s->json, "timed", json_string(c->by_steps ? "steps" : "runs"));
    /* others' work was timed as well: neither the switches nor the figure are to blame */
    if (all && (!sane || !agrees))
        tw_lab_decide(c->s, TW_LAB_OPEN,
                      "%+.0f%%, but neighbours disturbed %zu of %zu pairs, and no calm ones came: "
                      "measure it where nothing else runs",
                      pct, disturbed, c->pairs);
    else if (!sane)
        tw_lab_decide(c->s, TW_LAB_FAIL,
                      "%+.0f%% lies outside %.0f%% to +%.0f%%: that is no cost of switches, "
                      "something else is timed here",
                      pct, COST_LEAST, COST_MOST);
    else if (n < PAIRS_NEEDED)
        tw_lab_decide(c->s, TW_LAB_OPEN, "%zu pairs are too few: at least %d are needed (--pairs)",
                      n, PAIRS_NEEDED);
    else if (!agrees)
        tw_lab_decide(c->s, TW_LAB_FAIL, "the figure and the times it comes from do not agree");
    else if (e.interval.low > 1)
        tw_lab_decide(c->s, TW_LAB_PASS, "determinism costs time here");
    else if (e.interval.high < 1)
        tw_lab_decide(c->s, TW_LAB_PASS, "pinned runs are faster here");
    else
        tw_lab_decide(c->s, TW_LAB_PASS, "no cost was shown: the interval holds 0");
}

int tw_lab_cost(struct tw_lab *lab, struct tw_lab_step *s, struct twin_error *err)
{
    struct tw_lab_world all;
    char *list;
    if (lab->pins)
        list = tw_strdup(lab->pins);
    else
        list = tw_printf("%s%sall", lab->args.pin ? lab->args.pin : "", lab->args.pin ? "," : "");
    int rc = list ? tw_lab_world(lab, list, &all, err) : tw_no_memory(err, "for a list of pins");
    if (rc != 0) {
        tw_free(list);
        return rc;
    }
    struct costing c = {.lab = lab,
                        .s = s,
                        .all = &all,
                        .wanted = (size_t)lab->args.pairs,
                        .most = 2 * (size_t)lab->args.pairs};
    c.pair = tw_calloc(c.most, sizeof *c.pair);
    s->json = json_object();
    rc = c.pair ? make_pairs(&c, err) : tw_no_memory(err, "for %zu pairs", c.most);
    c.noisy = calm(&c) < c.wanted;
    if (rc == 0 && !stop(&c))
        judge_cost(&c);
    json_object_set_new(s->json, "timings", timings_json(&c));
    if (rc == 0 && !stop(&c))
        rc = each_pin(&c, err);
    if (rc == 0 && !stop(&c))
        rc = tw_lab_ops(lab, s, err);
    s->command = tw_printf("--pin %s --cost", list);
    twin_world_effects_free(c.effect, all.world.count);
    tw_free(c.pair);
    tw_lab_world_free(&all);
    tw_free(list);
    return rc;
}
