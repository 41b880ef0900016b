/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the order of additions does to real numbers (twinrun spread). Numbers of one file are one
 * sum, added in many orders (twin_sum_spread); several files are the contributions of ranks, whose
 * elements are added one by one in the orders of collectives and in random ones
 * (twin_vector_spread).
 *
 * Every number is first rounded to the precision that was asked for. A complaint goes to the front
 * and ends the study.
 */
#include "spread.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <twin/exact.h>
#include <twin/random.h>

enum { SORTED_MOST = 20000000 }; /* numbers of which sorted orders are tried, too */

static void on_progress(void *user, uint64_t done, uint64_t all)
{
    char text[80];
    const struct tw_front *front = user;
    snprintf(text, sizeof text, "spread: %llu of %llu", (unsigned long long)done,
             (unsigned long long)all);
    tw_front_progress(front, text);
}

/* The type that additions are made in, where none was asked for. One file: what a program would sum
 * these numbers in, f32 or f64. Several: what they are held in, as a collective adds them. */
static void choose_type(struct tw_spread_found *f)
{
    const enum twin_dtype own = f->values->dtype;
    if (f->args->add_in)
        return;
    if (f->file_count <= 1)
        f->add_in = own == TWIN_F64 && f->precision == TWIN_AS_IS ? TWIN_F64 : TWIN_F32;
    else if (f->precision == TWIN_TO_F16)
        f->add_in = TWIN_F16;
    else if (f->precision == TWIN_TO_BF16)
        f->add_in = TWIN_BF16;
    else
        f->add_in = f->precision == TWIN_TO_TF32 ? TWIN_F32 : own;
}

/* The number as the type that additions are made in holds it. */
static double held_in(enum twin_dtype add_in, double x)
{
    if (add_in == TWIN_F16)
        return twin_round_to(TWIN_TO_F16, x);
    if (add_in == TWIN_BF16)
        return twin_round_to(TWIN_TO_BF16, x);
    return add_in == TWIN_F64 ? x : (double)(float)x;
}

/* Every number must be one that additions can begin with: finite, and exact in the type that they
 * are made in. */
static int round_all(const struct tw_spread_found *f, struct tw_values *v, const char *path,
                     const struct tw_front *front)
{
    uint64_t bad = 0, overflow = 0, inexact = 0;
    for (uint64_t i = 0; i < v->n; i++) {
        const double x = twin_round_to(f->precision, v->x[i]);
        const double y = held_in(f->add_in, x);
        bad += !isfinite(v->x[i]);
        overflow += isfinite(v->x[i]) && !isfinite(y);
        inexact += y != x && isfinite(y);
        v->x[i] = y;
    }
    if (bad)
        tw_front_say(front,
                     "spread: %llu of the %llu numbers of %s are NaN or infinite: their sum is, "
                     "too, in every order",
                     (unsigned long long)bad, (unsigned long long)v->n, path);
    else if (overflow)
        tw_front_say(front,
                     "spread: %llu of the %llu numbers of %s are too large for %s: scale them "
                     "first, as a loss scaler does",
                     (unsigned long long)overflow, (unsigned long long)v->n, path,
                     f->precision != TWIN_AS_IS ? f->args->precision : twin_dtype_name(f->add_in));
    else if (inexact && f->precision == TWIN_AS_IS && !f->args->add_in)
        tw_front_say(front, "spread: %s holds numbers of more digits than %s", path,
                     twin_dtype_name(f->add_in));
    else
        return 0;
    return TWIN_EINVAL;
}

/* ---- one file: one sum */

static int exact_sum(const struct tw_values *v, double *out, struct twin_error *err)
{
    struct twin_acc acc;
    twin_acc_init(&acc);
    int rc = twin_acc_add(&acc, TWIN_F64, v->x, (int64_t)v->n, err);
    if (rc == 0)
        *out = twin_acc_f64(&acc);
    return rc;
}

/* The sum of all numbers, and of each tensor by itself when there are several. Both write random
 * sums into f->random, whose second half is used again by each tensor. */
static int one_sum(struct tw_spread_found *f, const struct tw_values *v,
                   const struct tw_front *front, struct twin_error *err)
{
    const struct tw_spread_args *a = f->args;
    struct twin_sum_options o = {
        .dtype = f->add_in,
        .orders = a->orders,
        .seed = a->seed,
        .workers = f->ranks,
        .sorted = v->n <= SORTED_MOST,
        .progress = on_progress,
        .user = (void *)(uintptr_t)front,
    };
    const size_t several = v->tensors > 1 ? v->tensors : 0;
    double *random = f->random = tw_reallocarray(NULL, a->orders, 2 * sizeof *random);
    f->tensor = several ? tw_calloc(several, sizeof *f->tensor) : NULL;
    int rc = random && (f->tensor || !several)
                 ? 0
                 : tw_no_memory(err, "for %llu orders", (unsigned long long)a->orders);
    if (rc == 0)
        rc = twin_sum_spread(v->x, v->n, &o, random, &f->sum, err);
    o.workers = 0;
    for (size_t i = 0; rc == 0 && i < several; i++) { /* their own random sums are not kept */
        o.sorted = v->tensor[i].count <= SORTED_MOST;
        rc = twin_sum_spread(v->x + v->tensor[i].first, v->tensor[i].count, &o, random + a->orders,
                             &f->tensor[i], err);
    }
    return rc;
}

/* ---- several files: element by element */

/* The numbers of all files: x[r] are those of rank r. */
struct stack {
    double **x;
    uint32_t ranks;
};

static void fill_element(const void *user, uint64_t element, double *x)
{
    const struct stack *s = user;
    for (uint32_t r = 0; r < s->ranks; r++)
        x[r] = s->x[r][element];
}

/* Adds the ranks' elements in the orders of the named algorithms, then in random orders of the
 * ranks. */
static int vectors(struct tw_spread_found *f, const struct stack *s, const struct tw_front *front,
                   struct twin_error *err)
{
    static const enum twin_algorithm named[] = {TWIN_RANK_ORDER, TWIN_RING, TWIN_TREE,
                                                TWIN_DOUBLE_TREE, TWIN_RECURSIVE_DOUBLING};
    enum { NAMED = sizeof named / sizeof *named };
    const size_t all = NAMED + f->args->orders;
    struct twin_vector_order *order = f->order = tw_calloc(all, sizeof *order);
    struct twin_vector_result *result = f->result = tw_calloc(all, sizeof *result);
    uint32_t *place = f->place = tw_reallocarray(NULL, f->args->orders, s->ranks * sizeof *place);
    int rc = order && result && place ? 0 : tw_no_memory(err, "for %zu orders", all);
    for (size_t i = 0; rc == 0 && i < all; i++) {
        order[i].algorithm = i < NAMED ? named[i] : TWIN_RANK_ORDER;
        if (i < NAMED)
            continue;
        struct twin_shuffle shuffle;
        uint32_t *p = place + (i - NAMED) * s->ranks;
        twin_shuffle_init(&shuffle, s->ranks,
                          twin_seed_index(f->args->seed, "spread/order", i - NAMED));
        for (uint32_t r = 0; r < s->ranks; r++)
            p[r] = (uint32_t)twin_shuffle_at(&shuffle, r);
        order[i].place = p;
    }
    const struct twin_vector_job job = {
        .dtype = f->add_in,
        .ranks = s->ranks,
        .elements = f->values->n,
        .all = f->values->n,
        .fill = fill_element,
        .user = s,
        .order = order,
        .orders = all,
        .progress = on_progress,
        .progress_user = (void *)(uintptr_t)front,
    };
    if (rc == 0)
        rc = twin_vector_spread(&job, result, &f->vector, err);
    f->named = NAMED;
    return rc;
}

/* 0: a and b hold the same tensors; else front is told what differs. */
static int hold_the_same(const struct tw_values *a, const struct tw_values *b, const char *path_a,
                         const char *path_b, const struct tw_front *front)
{
    size_t i = 0;
    while (i < a->tensors && i < b->tensors && strcmp(a->tensor[i].name, b->tensor[i].name) == 0 &&
           a->tensor[i].count == b->tensor[i].count)
        i++;
    if (i == a->tensors && i == b->tensors)
        return 0;
    tw_front_say(front,
                 "spread: expected the same tensors in every file, found %s (%llu numbers) in %s "
                 "and %s (%llu) in %s",
                 i < a->tensors ? a->tensor[i].name : "nothing more",
                 (unsigned long long)(i < a->tensors ? a->tensor[i].count : 0), path_a,
                 i < b->tensors ? b->tensor[i].name : "nothing more",
                 (unsigned long long)(i < b->tensors ? b->tensor[i].count : 0), path_b);
    return TWIN_EINVAL;
}

/* ---- the study */

/* Reads file i and makes it ready to be added: 0, or a TWIN_E* after a complaint. */
static int take_file(struct tw_spread_found *f, size_t i, const struct tw_front *front)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_values *v = f->loaded;
    int rc = tw_values_load(front, "spread", f->files[i], &f->args->tensor, &v[i]);
    if (rc == 0)
        rc = hold_the_same(&v[0], &v[i], f->files[0], f->files[i], front);
    if (rc == 0 && i == 0) {
        f->values = &v[0];
        choose_type(f);
        rc = exact_sum(&v[0], &f->exact_before, &err);
        if (rc != 0)
            tw_front_trouble(front, &err, "spread");
    }
    if (rc == 0)
        rc = round_all(f, &v[i], f->files[i], front);
    return rc;
}

int tw_spread_measure(struct tw_spread_found *f, const struct tw_front *front)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct stack s = {tw_calloc(f->file_count, sizeof *s.x), (uint32_t)f->file_count};
    f->loaded = tw_calloc(f->file_count, sizeof *f->loaded);
    if (!f->loaded || !s.x) {
        tw_free(s.x);
        tw_front_trouble(front, &(struct twin_error){.code = TWIN_ENOMEM}, "spread");
        return TWIN_ENOMEM;
    }
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < f->file_count; i++) {
        rc = take_file(f, i, front);
        s.x[i] = f->loaded[i].x;
    }
    if (rc == 0) {
        rc = f->file_count > 1 ? vectors(f, &s, front, &err)
                               : one_sum(f, &f->loaded[0], front, &err);
        if (rc != 0)
            tw_front_trouble(front, &err, "spread");
    }
    tw_free(s.x);
    return rc;
}

void tw_spread_free(struct tw_spread_found *f)
{
    for (size_t i = 0; f->loaded && i < f->file_count; i++)
        tw_values_free(&f->loaded[i]);
    tw_free(f->loaded);
    tw_free(f->random);
    tw_free(f->tensor);
    tw_free(f->order);
    tw_free(f->result);
    tw_free(f->place);
}
