/* SPDX-License-Identifier: Apache-2.0 */
/* Step 1 of the lab: the same seed, the same command, several runs. How far apart do they end, and
 * were they given the same? Runs are taken in pairs without a run in common, which are independent,
 * so that the mean gap has an interval. A gap counts as noise of the job only when the runs were
 * given the same weights, batches and random numbers: else the seed is what differs. */
#include "lab.h"

#include "json_text.h"
#include "phrase.h"
#include "run_state.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- numbers */

struct twin_estimate tw_lab_interval(const double *x, size_t n)
{
    size_t zeros = 0;
    for (size_t i = 0; i < n; i++) {
        if (isnan(x[i]))
            return (struct twin_estimate){NAN, {NAN, NAN}, TW_LAB_CONFIDENCE};
        zeros += x[i] == 0;
    }
    if (n && zeros == n) /* nothing varied: what may still vary is a matter of rates */
        return (struct twin_estimate){0, {NAN, NAN}, TW_LAB_CONFIDENCE};
    if (!zeros)
        return twin_stats_log_mean_interval(x, n, TW_LAB_CONFIDENCE);
    struct twin_estimate e = twin_stats_mean_interval(x, n, TW_LAB_CONFIDENCE);
    e.interval.low = fmax(e.interval.low, 0);
    return e;
}

json_t *tw_lab_estimate_json(const struct twin_estimate *e, size_t n)
{
    return json_pack("{s:o, s:o, s:o, s:f, s:I}", "value", tw_json_number(e->value), "low",
                     tw_json_number(e->interval.low), "high", tw_json_number(e->interval.high),
                     "confidence", e->confidence, "n", (json_int_t)n);
}

json_t *tw_lab_gap_json(size_t a, size_t b, const struct twin_gap *g)
{
    return json_pack("{s:I, s:I, s:o, s:o, s:o, s:o, s:b, s:b}", "a", (json_int_t)a, "b",
                     (json_int_t)b, "loss", tw_json_number(g->loss), "l2", tw_json_number(g->l2),
                     "relative_l2", tw_json_number(g->relative), "max_ulp",
                     tw_json_number(g->max_ulp), "exact", g->exact, "bit_equal", g->equal);
}

/* A digest in hex; null: nothing was recorded for it. */
static json_t *digest_json(const struct twin_digest *d, uint64_t records)
{
    return records ? tw_json_128(d->a, d->b) : json_null();
}

json_t *tw_lab_runs_json(const struct tw_lab_set *set)
{
    json_t *list = json_array();
    for (size_t i = 0; i < set->count; i++) {
        const struct tw_lab_run *r = &set->run[i];
        json_t *given = json_object();
        for (int g = 0; g < TWIN_GIVEN_COUNT; g++)
            json_object_set_new(given, twin_given_name((enum twin_given)g),
                                digest_json(&r->ends.sum[g], r->ends.records[g]));
        json_array_append_new(
            list,
            json_pack("{s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "run",
                      tw_json_text(tw_base_name(r->run->dir)), "steps", (json_int_t)r->ends.steps,
                      "loss", tw_json_number(r->ends.loss), "given", given, "recorded",
                      digest_json(&r->ends.bits, r->ends.bits_records), "weights",
                      r->has_weights ? json_string(r->weights.content) : json_null(), "seconds",
                      tw_json_number(r->run->wall_s), "others", tw_json_number(r->others)));
    }
    return list;
}

/* ---- was the same given? */

/* What was seen of what the runs were given. differs: which kind was not the same, in run `run`;
 * -1: none. */
struct given {
    bool unseen[TWIN_GIVEN_COUNT];
    int differs;
    size_t run;
    char *stream;
};

/* Holds what each run was given against run 1. stream is the caller's. */
static struct given look_at_given(const struct tw_lab_set *set)
{
    struct given g = {.differs = -1};
    for (int w = 0; w < TWIN_GIVEN_COUNT; w++)
        for (size_t i = 0; i < set->count; i++) {
            g.unseen[w] |= set->run[i].ends.records[w] == 0;
            const struct twin_given_stream *s =
                i ? twin_ends_given_differ(&set->run[0].ends, &set->run[i].ends, (enum twin_given)w)
                  : NULL;
            if (s && g.differs < 0) {
                g.differs = w;
                g.run = i;
                g.stream = tw_printable(s->name, strlen(s->name));
            }
        }
    return g;
}

/* NULL: all was seen. */
static char *unseen_text(const struct given *g)
{
    struct tw_buf b = {0};
    for (int w = 0; w < TWIN_GIVEN_COUNT; w++)
        if (g->unseen[w])
            tw_buf_printf(&b, "%s%s", b.len ? ", " : "", twin_given_name((enum twin_given)w));
    return b.len ? tw_buf_steal(&b) : NULL;
}

/* What the runs were found to have been given of one kind. */
static const char *given_word(const struct given *g, int w)
{
    assert(w >= 0 && (size_t)w < sizeof g->unseen / sizeof *g->unseen);
    if (g->differs == w)
        return "differ";
    return g->unseen[w] ? "unseen" : "equal";
}

/* Each kind of thing that is given, with what was seen of it. */
static json_t *given_json(const struct given *g)
{
    json_t *o = json_object();
    for (int w = 0; w < TWIN_GIVEN_COUNT; w++)
        json_object_set_new(o, twin_given_name((enum twin_given)w), json_string(given_word(g, w)));
    return o;
}

/* ---- the step */

/* How far the runs ended apart, pair by pair. */
struct measured {
    double *loss, *l2, *relative;
    size_t pairs;
    struct twin_estimate loss_gap, l2_gap, relative_gap;
    bool exact, equal;      /* of every pair */
    size_t classes, broken; /* broken: runs whose loss was not a number */
    int64_t broken_step;
};

/* Pairs without a run in common are independent of one another; all pairs are not. */
static int measure_pairs(const struct tw_lab_set *set, struct measured *m, json_t *list,
                         struct twin_error *err)
{
    const size_t n = set->count / 2;
    double *x = tw_calloc(3 * n + 1, sizeof *x);
    *m = (struct measured){.loss = x,
                           .l2 = x + n,
                           .relative = x + 2 * n,
                           .pairs = n,
                           .exact = n > 0,
                           .equal = n > 0,
                           .broken_step = -1};
    int rc = x ? 0 : tw_no_memory(err, "for %zu pairs", n);
    for (size_t i = 0; i < n && rc == 0; i++) {
        struct twin_gap g;
        rc = tw_lab_gap(&set->run[2 * i], &set->run[2 * i + 1], &g, err);
        if (rc != 0)
            break;
        m->loss[i] = g.loss;
        m->l2[i] = g.l2;
        m->relative[i] = g.relative;
        m->exact &= g.exact;
        m->equal &= g.equal;
        json_array_append_new(list, tw_lab_gap_json(2 * i + 1, 2 * i + 2, &g));
    }
    if (rc != 0)
        return rc;
    m->loss_gap = tw_lab_interval(m->loss, n);
    m->l2_gap = tw_lab_interval(m->l2, n);
    m->relative_gap = tw_lab_interval(m->relative, n);
    m->classes = tw_lab_classes(set);
    for (size_t i = 0; i < set->count; i++)
        if (set->run[i].ends.nonfinite_step >= 0) {
            const int64_t step = set->run[i].ends.nonfinite_step;
            m->broken_step = m->broken++ && m->broken_step < step ? m->broken_step : step;
        }
    return 0;
}

/* Which of the two gaps is too wide, as a sentence goes on about it. */
static const char *gap_words(const struct measured *m)
{
    if (m->loss_gap.value > TW_LAB_NOISE)
        return "the distance of the weights does";
    if (m->l2_gap.value > TW_LAB_NOISE)
        return "the gap in loss does";
    return "the gaps do";
}

char *tw_lab_seed_advice(unsigned uses)
{
    struct tw_buf how = {0}, pins = {0};
    tw_buf_puts(&pins, "seed.python,seed.numpy");
    if (uses & TWIN_USES_TENSORFLOW) {
        tw_buf_puts(&how, "tf.random.set_seed, of Keras keras.utils.set_random_seed");
        tw_buf_puts(&pins, ",seed.tensorflow");
    }
    if (uses & TWIN_USES_JAX) {
        tw_buf_printf(&how, "%s%s", how.len ? "; " : "", "jax.random.key of a fixed number");
        /* a key has no generator of its own: what is left is where its number comes from */
        tw_buf_puts(&pins, ",entropy");
    }
    if (uses & TWIN_USES_TORCH || !(uses & (TWIN_USES_TENSORFLOW | TWIN_USES_JAX)))
        tw_buf_puts(&pins, ",seed.torch");
    const char *begin = how.len ? " (" : "", *end = how.len ? ")" : "";
    char *text = NULL;
    if (!how.failed && !pins.failed)
        text = tw_printf("Seed it%s%s%s, or hold its seeds still: --pin %s", begin,
                         *begin ? how.data : "", end, pins.data);
    tw_buf_free(&how);
    tw_buf_free(&pins);
    return text;
}

/* What all runs compute with. */
static unsigned uses_of(const struct tw_lab_set *set)
{
    unsigned uses = 0;
    for (size_t i = 0; i < set->count; i++)
        uses |= set->run[i].ends.uses;
    return uses;
}

/* The runs were not given the same. */
static void decide_unseeded(struct tw_lab_step *s, const struct tw_lab_set *set, int differs)
{
    char *advice = tw_lab_seed_advice(uses_of(set));
    tw_lab_decide(s, TW_LAB_OPEN,
                  "the %s are not the same in every run: the job draws other numbers each time, "
                  "and that is no noise. %s",
                  twin_given_name((enum twin_given)differs), advice ? advice : "Seed it");
    tw_free(advice);
}

/* What the step comes to. */
static void decide_noise(struct tw_lab_step *s, const struct tw_lab_set *set, const struct given *g,
                         const struct measured *m)
{
    char *unseen = unseen_text(g);
    if (g->differs >= 0)
        decide_unseeded(s, set, g->differs);
    else if (m->pairs < 2)
        tw_lab_decide(s, TW_LAB_OPEN, "%zu run%s give no interval: at least 4 are needed (--runs)",
                      set->count, tw_plural_s(set->count));
    else if (m->broken)
        tw_lab_decide(s, TW_LAB_OPEN,
                      "the loss is not a number from step %lld on, in %zu of %zu runs: there is no "
                      "gap to measure",
                      (long long)m->broken_step, m->broken, set->count);
    else if (isnan(m->loss_gap.value))
        tw_lab_decide(s, TW_LAB_OPEN,
                      "no loss was seen: twinrun sees those of PyTorch; a C program shows its with "
                      "twin_record(\"loss:...\")");
    else if (isnan(m->l2_gap.value))
        tw_lab_decide(s, TW_LAB_OPEN,
                      "no weights were seen: let the job write them at its end, and name the file "
                      "with --weights");
    else if (m->equal && m->classes == 1)
        tw_lab_decide(s, TW_LAB_QUIET,
                      "all runs are equal bit for bit: this job does not wander here; %zu runs "
                      "cannot exclude a divergence in up to %.0f%% of runs",
                      set->count, 100 * twin_stats_zero_bound(set->count - 1, TW_LAB_CONFIDENCE));
    else if (unseen)
        tw_lab_decide(s, TW_LAB_OPEN,
                      "not seen: %s; so it is not known whether every run was given the same",
                      unseen);
    else if (m->loss_gap.value > TW_LAB_NOISE && m->l2_gap.value > TW_LAB_NOISE)
        tw_lab_decide(s, TW_LAB_PASS, "both gaps exceed %g: same seed, same command, another model",
                      TW_LAB_NOISE);
    else
        tw_lab_decide(s, TW_LAB_QUIET, "the runs differ, but %s not exceed %g", gap_words(m),
                      TW_LAB_NOISE);
    tw_free(unseen);
}

/* The line on what the runs were given. */
static void say_given(struct tw_lab_step *s, const struct tw_lab_set *set, const struct given *g)
{
    char *unseen = unseen_text(g), steps[32];
    if (g->differs >= 0)
        tw_lab_line(s, "given", "NOT the same: %s (%s) differ between runs 1 and %zu",
                    twin_given_name((enum twin_given)g->differs), g->stream ? g->stream : "?",
                    g->run + 1);
    else if (unseen)
        tw_lab_line(s, "given", "not seen: %s", unseen);
    else
        tw_lab_line(s, "given",
                    "%zu runs of %s steps: initial weights, batches and generators are the same, "
                    "bit for bit",
                    set->count, tw_human_count(set->run[0].ends.steps, steps));
    tw_free(unseen);
}

/* The lines on how far the runs ended apart. */
static void say_measured(struct tw_lab_step *s, const struct tw_lab_set *set,
                         const struct measured *m)
{
    char text[120], rel[40] = "";
    const struct tw_lab_run *r = &set->run[0];
    if (!isnan(m->loss_gap.value))
        tw_lab_line(s, "loss", "gap of two runs %s; the loss is %.3g",
                    tw_lab_estimate_text(&m->loss_gap, m->pairs, text), r->ends.loss);
    if (isfinite(m->relative_gap.value))
        snprintf(rel, sizeof rel, "; relative %.2g", m->relative_gap.value);
    if (!isnan(m->l2_gap.value))
        tw_lab_line(s, "weights", "L2 distance %s%s",
                    tw_lab_estimate_text(&m->l2_gap, m->pairs, text), rel);
    if (!isnan(m->l2_gap.value) && !m->exact)
        tw_lab_line(s, "", "estimated from sketches at step %u (within about 35%%)%s%s",
                    r->ends.weight_count ? r->ends.weight[0].step : 0, r->no_weights ? ": " : "",
                    r->no_weights ? r->no_weights : "");
    tw_lab_line(s, "results", "%zu different one%s in %zu runs", m->classes,
                tw_plural_s(m->classes), set->count);
    if (s->result == TW_LAB_PASS && m->loss_gap.interval.high > fabs(r->ends.loss))
        tw_lab_line(s, "means",
                    "one run of each tells no gain from noise here; how large a gain would be "
                    "told, these pairs do not say: their interval reaches beyond the loss itself "
                    "(more pairs: --runs 30)");
    else if (s->result == TW_LAB_PASS)
        tw_lab_line(
            s, "means",
            "a change that lowers the loss by less than %.2g is not seen by one run of each",
            isnan(m->loss_gap.interval.high) ? m->loss_gap.value : m->loss_gap.interval.high);
}

int tw_lab_noise(struct tw_lab *lab, struct tw_lab_step *s, struct twin_error *err)
{
    struct tw_lab_set set;
    struct measured m = {0};
    json_t *pairs = json_array();
    int rc = tw_lab_set_make(lab, &lab->natural, (size_t)lab->args.runs, "noise", &set, err);
    const struct tw_lab_run *last = set.count ? &set.run[set.count - 1] : NULL;
    s->json = json_object();
    if (rc == 0 && last && !lab->interrupted &&
        (last->run->outcome != TWIN_RUN_EXITED || last->run->exit_code != 0)) {
        char *words = tw_run_last_words(last->run);
        lab->failed = set.count == 1;
        tw_lab_decide(s, TW_LAB_FAIL, "the job failed in run %zu of %llu%s%s", set.count,
                      (unsigned long long)lab->args.runs, words ? ": " : "", words ? words : "");
        tw_free(words);
    } else if (rc == 0 && !lab->interrupted) {
        struct given g = look_at_given(&set);
        rc = measure_pairs(&set, &m, pairs, err);
        if (rc == 0) {
            decide_noise(s, &set, &g, &m);
            say_given(s, &set, &g);
            say_measured(s, &set, &m);
            json_object_set_new(s->json, "given", given_json(&g));
            json_object_set_new(s->json, "loss_gap", tw_lab_estimate_json(&m.loss_gap, m.pairs));
            json_object_set_new(s->json, "weights_l2", tw_lab_estimate_json(&m.l2_gap, m.pairs));
            json_object_set_new(s->json, "exact", json_boolean(m.exact));
            json_object_set_new(s->json, "results", json_integer((json_int_t)m.classes));
        }
        tw_free(g.stream);
    }
    json_object_set_new(s->json, "runs", tw_lab_runs_json(&set));
    json_object_set(s->json, "pairs", pairs);
    json_decref(pairs);
    tw_free(m.loss);
    tw_lab_set_free(&set);
    return rc;
}
