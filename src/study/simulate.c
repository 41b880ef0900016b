/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Results and time of an all-reduce over ranks that exist only here (twinrun simulate). For each
 * algorithm: times of all trials by an alpha-beta model (twin_network_time), and the sums of a
 * sample of elements in the orders of these trials (twin_vector_spread).
 *
 * Everything is drawn from the seed, by names ("simulate/numbers", ...): the contribution of a rank
 * to an element is the same in every trial and for every algorithm, so results differ by the order
 * of additions alone.
 */
#include "simulate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <twin/random.h>

/*
 * Processor time that elements are sampled for, and what one contribution costs: to draw it, and to
 * add it in a trial. Fixed numbers, so that the sample does not depend on how busy the machine is.
 */
#define BUDGET_NS 12e9
#define DRAW_NS 40.0
#define ADD_NS 1.0
enum { LEAST_SAMPLE = 64 };

/* ---- numbers */

/* What fill_element() draws contributions from. scale_seed: of the magnitudes of wide numbers. */
struct numbers {
    const struct tw_simulation *s;
    uint64_t seed, scale_seed;
    uint32_t ranks;
};

static double to_type(enum twin_dtype dtype, double x)
{
    if (dtype == TWIN_F64)
        return x;
    if (dtype == TWIN_F32)
        return (double)(float)x;
    return twin_round_to(dtype == TWIN_F16 ? TWIN_TO_F16 : TWIN_TO_BF16, x);
}

/* Contributions of all ranks to an element: draw r of the element's own seed is rank r's. With
 * --data a number of the file is drawn; else a normal one, of wide numbers times 2 to a power from
 * -20 to 20. */
static void fill_element(const void *user, uint64_t element, double *x)
{
    const struct numbers *n = user;
    const uint64_t seed = twin_seed_index(n->seed, "element", element);
    if (n->s->values.n) {
        for (uint32_t r = 0; r < n->ranks; r++)
            x[r] = n->s->values.x[twin_random_below(seed, r, n->s->values.n)];
    } else {
        twin_random_fill_normal(seed, 0, n->ranks, x);
        if (n->s->wide) {
            const uint64_t scale = twin_seed_index(n->scale_seed, "element", element);
            for (uint32_t r = 0; r < n->ranks; r++)
                x[r] = ldexp(x[r], (int)twin_random_below(scale, r, 41) - 20);
        }
    }
    if (n->s->dtype != TWIN_F64)
        for (uint32_t r = 0; r < n->ranks; r++)
            x[r] = to_type(n->s->dtype, x[r]);
}

/* Reads --data. Numbers that are not finite in the type are refused with a complaint. */
static int load_data(struct tw_simulation *s, const struct tw_front *front)
{
    const struct tw_simulate_args *a = s->args;
    uint64_t bad = 0;
    int rc = a->data ? tw_values_load(front, "simulate", a->data, &a->tensor, &s->values) : 0;
    for (uint64_t i = 0; rc == 0 && i < s->values.n; i++)
        bad += !isfinite(to_type(s->dtype, s->values.x[i]));
    if (bad == 0)
        return rc;
    tw_front_say(front,
                 "simulate: %llu of the %llu numbers of %s are NaN, infinite, or too large for %s",
                 (unsigned long long)bad, (unsigned long long)s->values.n, a->data, a->type);
    return TWIN_EINVAL;
}

/* ---- which elements */

static int by_number(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Which elements are looked at: as many as asked for, or as the budget of processor time allows,
 * drawn at random and put into ascending order. *list NULL: all; else the caller's. */
static int choose_sample(const struct tw_simulate_args *a, struct tw_simulation *s, uint64_t **list,
                         struct twin_error *err)
{
    const double each = (double)a->ranks *
                        (DRAW_NS + ADD_NS * (double)a->trials * (double)s->count);
    const double affordable = fmax(LEAST_SAMPLE, floor(BUDGET_NS / each / 64) * 64);
    double most = a->sample != TW_SIMULATE_FREE ? (double)a->sample : affordable;
    *list = NULL;
    s->sampled = most < (double)a->elements ? (uint64_t)most : a->elements;
    if (s->sampled == a->elements && s->sampled <= 100000000)
        return 0;
    if (s->sampled > 100000000)
        s->sampled = 100000000;
    struct twin_shuffle order;
    uint64_t *e = *list = tw_reallocarray(NULL, s->sampled, sizeof *e);
    if (!e)
        return tw_no_memory(err, "for %llu elements", (unsigned long long)s->sampled);
    twin_shuffle_init(&order, a->elements, twin_seed(a->seed, "simulate/sample"));
    for (uint64_t i = 0; i < s->sampled; i++)
        e[i] = twin_shuffle_at(&order, i);
    qsort(e, s->sampled, sizeof *e, by_number);
    return 0;
}

/* ---- trials */

/* Who hears how far which algorithm is. */
struct hearer {
    const struct tw_front *front;
    const char *algorithm;
};

static void on_progress(void *user, uint64_t done, uint64_t all)
{
    const struct hearer *h = user;
    char text[96];
    snprintf(text, sizeof text, "simulate: %s, %llu of %llu", h->algorithm,
             (unsigned long long)done, (unsigned long long)all);
    tw_front_progress(h->front, text);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* For each trial: who stands at which place, and its time. Of "arrival" the order in which
 * contributions came decides the places. Times are sorted, since only their distribution is
 * shown. */
static int prepare_trials(const struct tw_simulation *s, struct tw_simulated *r, uint32_t *place,
                          struct twin_vector_order *order, struct twin_error *err)
{
    const struct tw_simulate_args *a = s->args;
    const uint32_t ranks = (uint32_t)a->ranks;
    const uint64_t seed = twin_seed(a->seed, "simulate");
    uint32_t *arrival = tw_reallocarray(NULL, ranks, 2 * sizeof *arrival);
    uint32_t *stands = arrival + ranks;
    int rc = arrival ? 0 : tw_no_memory(err, "for %u ranks", ranks);
    for (uint64_t t = 0; rc == 0 && t < a->trials; t++) {
        struct twin_shuffle shuffle;
        uint32_t *p = place + t * ranks;
        rc = twin_network_time(&s->net, r->algorithm, ranks,
                               (double)a->elements * (double)twin_dtype_size(s->dtype), seed, t,
                               arrival, &r->ring_ranks, &r->seconds[t], err);
        twin_shuffle_init(&shuffle, ranks, twin_seed_index(seed, "placement/trial", t));
        for (uint32_t i = 0; i < ranks; i++)
            stands[i] = s->random_placement ? (uint32_t)twin_shuffle_at(&shuffle, i) : i;
        for (uint32_t i = 0; rc == 0 && i < ranks; i++)
            p[i] = stands[r->algorithm == TWIN_ARRIVAL ? arrival[i] : i];
        order[t] = (struct twin_vector_order){r->algorithm, p};
    }
    qsort(r->seconds, a->trials, sizeof *r->seconds, by_value);
    tw_free(arrival);
    return rc;
}

/* One algorithm: times first, since they give the orders; then the sums. */
static int simulate_one(struct tw_simulation *s, struct tw_simulated *r, const uint64_t *list,
                        const struct tw_front *front, struct twin_error *err)
{
    struct hearer hearer = {front, twin_algorithm_name(r->algorithm)};
    const struct tw_simulate_args *a = s->args;
    const struct numbers numbers = {s, twin_seed(a->seed, "simulate/numbers"),
                                    twin_seed(a->seed, "simulate/scales"), (uint32_t)a->ranks};
    uint32_t *place = tw_reallocarray(NULL, a->trials, a->ranks * sizeof *place);
    struct twin_vector_order *order = tw_calloc(a->trials, sizeof *order);
    /* the results stay with the answer */
    struct twin_vector_result *result = tw_calloc(a->trials, sizeof *result);
    r->spread.result = result;
    r->seconds = tw_calloc(a->trials, sizeof *r->seconds);
    int rc = place && order && result && r->seconds
                 ? 0
                 : tw_no_memory(err, "for %llu trials of %llu ranks", (unsigned long long)a->trials,
                                (unsigned long long)a->ranks);
    if (rc == 0)
        rc = prepare_trials(s, r, place, order, err);
    const struct twin_vector_job job = {
        .dtype = s->dtype,
        .ranks = (uint32_t)a->ranks,
        .element = list,
        .elements = s->sampled,
        .all = a->elements,
        .fill = fill_element,
        .user = &numbers,
        .order = order,
        .orders = a->trials,
        .threads = a->threads == TW_SIMULATE_FREE ? 0 : (unsigned)a->threads,
        .progress = on_progress,
        .progress_user = &hearer,
    };
    if (rc == 0)
        rc = twin_vector_spread(&job, result, &r->spread, err);
    tw_free(place);
    tw_free(order);
    return rc;
}

int tw_simulate(struct tw_simulation *s, const struct tw_front *front)
{
    struct twin_error err = TWIN_ERROR_INIT;
    uint64_t *list = NULL;
    int rc = load_data(s, front);
    if (rc != 0)
        return rc;
    rc = choose_sample(s->args, s, &list, &err);
    for (size_t i = 0; rc == 0 && i < s->count; i++)
        rc = simulate_one(s, &s->of[i], list, front, &err);
    tw_free(list);
    if (rc != 0)
        tw_front_trouble(front, &err, "simulate");
    return rc;
}

void tw_simulate_free(struct tw_simulation *s)
{
    for (size_t i = 0; i < s->count; i++) {
        tw_free(s->of[i].seconds);
        tw_free(s->of[i].spread.result);
    }
    tw_values_free(&s->values);
}
