/* SPDX-License-Identifier: Apache-2.0 */
/* From the words of the options to a simulation: which algorithms, which network, which numbers. */
#include "simulate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* "20us", "1.5 ms" -> seconds. TWIN_EINVAL. */
static int parse_time(const char *s, double *seconds)
{
    static const struct {
        const char *unit;
        double s;
    } units[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
    char *end;
    const double v = strtod(s, &end);
    if (end == s || !isfinite(v) || v < 0)
        return TWIN_EINVAL;
    while (*end == ' ')
        end++;
    if (!*end && v == 0) {
        *seconds = 0;
        return 0;
    }
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(end, units[i].unit) == 0) {
            *seconds = v * units[i].s;
            return 0;
        }
    return TWIN_EINVAL;
}

/* What was not given of the network is measured on this machine's loopback. */
static int choose_network(const struct tw_simulate_args *a, struct tw_simulation *s,
                          struct twin_error *err)
{
    const char *jitter = a->jitter, *colon = strchr(jitter, ':');
    s->net.jitter = TWIN_JITTER_EXPONENTIAL;
    if (colon && tw_starts(jitter, "uniform:"))
        s->net.jitter = TWIN_JITTER_UNIFORM;
    else if (colon && !tw_starts(jitter, "exponential:"))
        colon = jitter; /* no time follows */
    if (parse_time(colon ? colon + 1 : jitter, &s->net.jitter_s) != 0)
        return twin_error_set(
            err, TWIN_EINVAL,
            "--jitter: expected a time such as 1us, exponential:1us, uniform:1us or "
            "0, found \"%s\"",
            jitter);
    if (s->net.jitter_s == 0)
        s->net.jitter = TWIN_JITTER_NONE;
    s->measured_alpha = !a->alpha;
    s->measured_beta = !a->beta;
    if (!a->alpha || !a->beta) {
        int rc = twin_network_measure(&s->net, err);
        if (rc != 0)
            return rc;
    }
    if (a->alpha && parse_time(a->alpha, &s->net.alpha_s) != 0)
        return twin_error_set(err, TWIN_EINVAL,
                              "--alpha: expected a time such as 5us, found \"%s\"", a->alpha);
    if (a->beta && parse_time(a->beta, &s->net.beta_s) != 0)
        return twin_error_set(err, TWIN_EINVAL,
                              "--beta: expected a time for each byte such as 0.08ns, found \"%s\"",
                              a->beta);
    return 0;
}

/* Each algorithm once, in their own order, however often it was named. */
static int choose_algorithms(const struct tw_simulate_args *a, struct tw_simulation *s,
                             struct twin_error *err)
{
    bool wanted[TWIN_ALGORITHMS] = {false};
    for (size_t i = 0; i < a->algorithm.count; i++) {
        enum twin_algorithm found;
        if (strcmp(a->algorithm.items[i], "all") == 0)
            memset(wanted, true, sizeof wanted);
        else if (twin_algorithm_parse(a->algorithm.items[i], &found) == 0)
            wanted[found] = true;
        else
            return twin_error_set(
                err, TWIN_EINVAL,
                "--algorithm: expected ring, tree, double-tree, recursive-doubling, "
                "arrival, rank-order or all, found \"%s\"",
                a->algorithm.items[i]);
    }
    if (a->algorithm.count == 0)
        wanted[TWIN_RING] = true;
    for (int i = 0; i < TWIN_ALGORITHMS; i++)
        if (wanted[i])
            s->of[s->count++].algorithm = (enum twin_algorithm)i;
    return 0;
}

int tw_simulate_understand(struct tw_simulation *s, struct twin_error *err)
{
    const struct tw_simulate_args *a = s->args;
    s->random_placement = strcmp(a->placement, "random") == 0;
    s->wide = strcmp(a->draw, "wide") == 0;
    if (!s->random_placement && strcmp(a->placement, "fixed") != 0)
        return twin_error_set(err, TWIN_EINVAL,
                              "--placement: expected random or fixed, found \"%s\"", a->placement);
    if (!s->wide && strcmp(a->draw, "normal") != 0)
        return twin_error_set(err, TWIN_EINVAL, "--draw: expected normal or wide, found \"%s\"",
                              a->draw);
    if (tw_values_type(a->type, &s->dtype) != 0)
        return twin_error_set(err, TWIN_EINVAL,
                              "--type: expected f64, f32, f16 or bf16, found \"%s\"", a->type);
    if (a->tensor.count && !a->data)
        return twin_error_set(err, TWIN_EINVAL, "--tensor belongs to --data FILE");
    int rc = choose_algorithms(a, s, err);
    return rc ? rc : choose_network(a, s, err);
}
