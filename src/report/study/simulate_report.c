/* SPDX-License-Identifier: Apache-2.0 */
/* What twinrun simulate prints: which collective algorithms were simulated with which network, and
 * for each algorithm how far results of repeated trials lie apart, how far from the exact sum, and
 * how long they take. */
#include "simulate_report.h"

#include "base.h"
#include "json_text.h"
#include "phrase.h"
#include "put.h"

#include "src/stats/stats.h"

#include <math.h>
#include <stdio.h>

/* Not all elements were computed, so shares are estimates and have an interval. */
static bool is_sample(const struct tw_simulation *s)
{
    return s->sampled < s->args->elements;
}

/* The share of elements with more than one result, as an interval: 95% for a sample, a single value
 * when all elements were computed. NaN: no element is finite. */
static struct twin_interval vary(const struct tw_simulation *s, const struct tw_simulated *r)
{
    const uint64_t n = r->spread.elements - r->spread.not_finite;
    const double share = n ? (double)r->spread.vary / (double)n : NAN;
    return is_sample(s) && n ? twin_stats_clopper_pearson(r->spread.vary, n, .95)
                             : (struct twin_interval){share, share};
}

/* Relative L2 distance of the results to the exact sums: mean over trials, and the farthest. Each
 * trial gives one vector of results. */
static void errors(const struct tw_simulated *r, double *mean, double *most)
{
    const struct twin_vector_spread *v = &r->spread;
    *mean = *most = 0;
    for (size_t i = 0; i < v->results; i++) {
        /* error2 and exact2 are sums of squares over the same elements */
        const double e = sqrt(v->result[i].error2 / v->exact2);
        *mean += e / (double)v->results;
        *most = fmax(*most, e);
    }
}

/* ---- text */

/* What was simulated: ranks, numbers, sample and network. Values that were measured are told apart
 * from those that were given. */
static void print_head(FILE *out, const struct tw_simulation *s)
{
    const struct tw_simulate_args *a = s->args;
    char ranks[32], elements[32], sampled[32], count[32], alpha[24], beta[24], late[24];
    tw_put_to(out, "%s ranks, %s elements of %s, %llu trials%s\n", tw_human_count(a->ranks, ranks),
              tw_human_count(a->elements, elements), a->type, (unsigned long long)a->trials,
              s->random_placement ? ", ranks placed anew in each" : ", ranks placed alike");
    /* numbers of a file, or drawn ones */
    if (s->values.n)
        tw_put_to(out, "numbers   drawn from the %s of %s\n", tw_human_count(s->values.n, count),
                  a->data);
    else
        tw_put_to(out, "numbers   drawn: standard normal%s\n",
                  s->wide ? " times 2^-20 to 2^20" : "");
    if (is_sample(s))
        tw_put_to(out,
                  "sampled   %s of the %s elements, at random (--sample changes that); intervals "
                  "are 95%%\n",
                  tw_human_count(s->sampled, sampled), tw_human_count(a->elements, elements));
    tw_put_to(out, "network   alpha %s%s, beta %s a byte%s, ", tw_human_time(s->net.alpha_s, alpha),
              s->measured_alpha ? " (measured)" : "", tw_human_time(s->net.beta_s, beta),
              s->measured_beta ? " (measured)" : "");
    if (s->net.jitter == TWIN_JITTER_NONE)
        tw_put_to(out, "no jitter\n");
    else
        tw_put_to(out, "jitter %s, mean %s\n",
                  s->net.jitter == TWIN_JITTER_UNIFORM ? "uniform" : "exponential",
                  tw_human_time(s->net.jitter_s, late));
    /* a loopback is not the user's network */
    if (s->measured_alpha || s->measured_beta)
        tw_put_to(out,
                  "          measured: TCP over this machine's loopback. Yours: --alpha, --beta\n");
}

/* The times are sorted: the median is that in the middle, the lower one of two. */
static void print_time(FILE *out, const struct tw_simulation *s, const struct tw_simulated *r)
{
    char low[24], middle[24], high[24], count[32], all[32];
    const uint64_t n = s->args->trials;
    tw_put_to(out, "  time      median %s, %s to %s\n",
              tw_human_time(r->seconds[(n - 1) / 2], middle), tw_human_time(r->seconds[0], low),
              tw_human_time(r->seconds[n - 1], high));
    /* a large ring has too many messages to draw each */
    if (r->algorithm == TWIN_RING && r->ring_ranks < s->args->ranks)
        tw_put_to(out,
                  "            (every message of a ring of %s was drawn; its time for each step "
                  "was carried over to %s)\n",
                  tw_human_count(r->ring_ranks, count), tw_human_count(s->args->ranks, all));
}

/* One algorithm. ulps[0] and relative[0] are medians over elements, ulps[1] is the 95th
 * percentile. */
static void print_one(FILE *out, const struct tw_simulation *s, const struct tw_simulated *r)
{
    const struct twin_vector_spread *v = &r->spread;
    const struct twin_interval share = vary(s, r);
    double mean, most, largest = 0;
    char text[32];
    errors(r, &mean, &most);
    for (size_t i = 0; i < v->results; i++)
        largest = fmax(largest, v->result[i].error_max);
    tw_put_to(out, "\n%s\n", twin_algorithm_name(r->algorithm));
    /* elements that overflowed have no distance to anything */
    if (v->not_finite)
        tw_put_to(
            out, "  infinite  %s elements are too large for %s in some trial, and left out below\n",
            tw_human_count(v->not_finite, text), s->args->type);
    if (v->elements > v->not_finite) {
        tw_put_to(out, "  results   %llu different vector%s in %zu trials; %.4g%% of the elements",
                  (unsigned long long)v->vectors, tw_plural_s(v->vectors), v->results,
                  100 * (double)v->vary / (double)(v->elements - v->not_finite));
        if (is_sample(s))
            tw_put_to(out, " (%.4g to %.4g%%)", 100 * share.low, 100 * share.high);
        tw_put_to(out, " have more than one result, %.3g on average, at most %llu\n",
                  v->distinct_mean, (unsigned long long)v->distinct_max);
        tw_put_to(out,
                  "  spread    max - min of an element: median %.3g ulp, 95%% within %.3g ulp; "
                  "relative: median %.2g\n",
                  v->ulps[0], v->ulps[1], v->relative[0]);
        tw_put_to(out,
                  "  error     relative L2 to the exact sum: %.2e on average, at most %.2e; "
                  "largest of an element %.2e\n",
                  mean, most, largest);
    }
    print_time(out, s, r);
}

/* ---- JSON */

/* One algorithm with each of its trials. */
static json_t *one_json(const struct tw_simulation *s, const struct tw_simulated *r)
{
    const struct twin_vector_spread *v = &r->spread;
    const struct twin_interval share = vary(s, r);
    json_t *trials = json_array(), *seconds = json_array();
    double mean, most;
    errors(r, &mean, &most);
    for (size_t i = 0; i < v->results; i++) {
        json_array_append_new(trials,
                              json_pack("{s:o, s:o, s:o, s:I}", "relative_l2",
                                        tw_json_number(sqrt(v->result[i].error2 / v->exact2)),
                                        "bias", tw_json_number(v->result[i].bias), "largest_error",
                                        tw_json_number(v->result[i].error_max), "not_nearest",
                                        (json_int_t)v->result[i].wrong));
        json_array_append_new(seconds, tw_json_number(r->seconds[i]));
    }
    return json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:[o, o], s:o, s:I, s:o, s:[o, o, o], s:[o, o, o], s:o, s:o, "
        "s:o, s:o, s:I}",
        "algorithm", twin_algorithm_name(r->algorithm), "elements", (json_int_t)v->elements,
        "not_finite", (json_int_t)v->not_finite, "distinct_vectors", (json_int_t)v->vectors, "vary",
        (json_int_t)v->vary, "vary_share", tw_json_number(share.low), tw_json_number(share.high),
        "distinct_mean", tw_json_number(v->distinct_mean), "distinct_max",
        (json_int_t)v->distinct_max, "largest_range", tw_json_number(v->range_max), "relative",
        tw_json_number(v->relative[0]), tw_json_number(v->relative[1]),
        tw_json_number(v->relative[2]), "ulps", tw_json_number(v->ulps[0]),
        tw_json_number(v->ulps[1]), tw_json_number(v->ulps[2]), "relative_l2", tw_json_number(mean),
        "relative_l2_max", tw_json_number(most), "trials", trials, "seconds", seconds, "ring_ranks",
        (json_int_t)(r->algorithm == TWIN_RING ? r->ring_ranks : s->args->ranks));
}

/* Arguments first, so that the simulation can be made again, then a result for each algorithm. */
json_t *tw_simulate_json(const struct tw_simulation *s)
{
    static const char *const jitter[] = {"none", "exponential", "uniform"};
    const struct tw_simulate_args *a = s->args;
    json_t *list = json_array();
    for (size_t i = 0; i < s->count; i++)
        json_array_append_new(list, one_json(s, &s->of[i]));
    return json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:s, s:I, s:I, s:s, s:s, s:o, s:{s:o, s:b, s:o, s:b, s:s, s:o}, "
        "s:o}",
        "schema", "twinrun.simulate/1", "outcome", "simulated", "ranks", (json_int_t)a->ranks,
        "elements", (json_int_t)a->elements, "sampled", (json_int_t)s->sampled, "type", a->type,
        "trials_per_algorithm", (json_int_t)a->trials, "seed", (json_int_t)a->seed, "placement",
        a->placement, "numbers", s->values.n ? "file" : a->draw, "data", tw_json_text(a->data),
        "network", "alpha_s", tw_json_number(s->net.alpha_s), "alpha_measured", s->measured_alpha,
        "beta_s", tw_json_number(s->net.beta_s), "beta_measured", s->measured_beta, "jitter",
        jitter[s->net.jitter], "jitter_s", tw_json_number(s->net.jitter_s), "algorithms", list);
}

void tw_simulate_text(FILE *out, const struct tw_simulation *s)
{
    print_head(out, s);
    for (size_t i = 0; i < s->count; i++)
        print_one(out, s, &s->of[i]);
}
