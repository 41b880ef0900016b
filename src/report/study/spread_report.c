/* SPDX-License-Identifier: Apache-2.0 */
/* What twinrun spread prints. Two questions share the command: one file, whose numbers are added up
 * to one sum in many orders; and several files, one for each rank, whose numbers are added element
 * by element as an all-reduce does. Both end with the floor below which a difference means nothing,
 * since another order of the same additions makes it. */
#include "spread_report.h"

#include "base.h"
#include "json_text.h"
#include "phrase.h"
#include "put.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tensors in the table; --json has all. */
enum { TENSOR_ROWS = 10 };

static const char *count_text(uint64_t n, char out[32])
{
    return tw_human_count(n, out);
}

/* k of n in per cent; 0 of nothing. */
static double percent_of(uint64_t k, uint64_t n)
{
    return n ? 100.0 * (double)k / (double)n : 0;
}

/* ---- text: one sum */

/* The sum in one order, and how far it is from the exact sum, also in units of the last place. */
static void print_row(FILE *out, const struct tw_spread_found *f, const struct twin_ordered_sum *s)
{
    char value[40];
    const double ulp = twin_ulp(f->add_in, f->sum.exact);
    tw_put_to(out, "  %-20s %-24s %+10.2e %10.4g\n", s->order, tw_shortest(s->value, value), s->off,
              s->off / ulp);
}

/* The largest relative floor first; tensors alike stay in their order. */
static int by_relative(const void *a, const void *b)
{
    const struct twin_sum_spread *x = *(const struct twin_sum_spread *const *)a;
    const struct twin_sum_spread *y = *(const struct twin_sum_spread *const *)b;
    const double p = x->floor / fabs(x->exact), q = y->floor / fabs(y->exact);
    if (p != q)
        return p < q ? 1 : -1;
    return (x > y) - (x < y);
}

/* A table of the tensors by themselves. Without memory for it the table is left out. */
static void print_tensors(FILE *out, const struct tw_spread_found *f)
{
    const size_t n = f->values->tensors;
    const struct twin_sum_spread **sorted = tw_reallocarray(NULL, n, sizeof *sorted);
    if (!sorted)
        return;
    for (size_t i = 0; i < n; i++)
        sorted[i] = &f->tensor[i];
    qsort(sorted, n, sizeof *sorted, by_relative);
    tw_put_to(out, "\n  each tensor by itself%-9s %14s %16s %10s %10s\n",
              n > TENSOR_ROWS ? ", first" : "", "numbers", "exact sum", "below", "relative");
    for (size_t i = 0; i < n && i < TENSOR_ROWS; i++) {
        const struct twin_sum_spread *s = sorted[i];
        char count[32];
        tw_put_to(out, "  %-30s %14s %16.8g %10.2e %10.2e\n", f->values->tensor[s - f->tensor].name,
                  count_text(s->count, count), s->exact, s->floor, s->floor / fabs(s->exact));
    }
    tw_free(sorted);
}

/* One sum: the named orders, what random orders give, and the floor. */
static void print_sum(FILE *out, const struct tw_spread_found *f)
{
    const struct twin_sum_spread *s = &f->sum;
    char number[40], count[32], places[40] = "";
    if (f->values->tensors > 1)
        snprintf(places, sizeof places, ", %zu tensors", f->values->tensors);
    tw_put_to(out, "%s: %s numbers%s, added up to one sum in %s\n", f->files[0],
              count_text(s->count, count), places, twin_dtype_name(f->add_in));
    if (f->precision != TWIN_AS_IS)
        tw_put_to(out, "rounded to %s first, which moves the exact sum by %+.2e (%.2e of it)\n",
                  f->args->precision, s->exact - f->exact_before,
                  fabs((s->exact - f->exact_before) / f->exact_before));
    /* named orders of all numbers, those that split them over workers, random orders */
    tw_put_to(out, "\n  %-20s %-24s %10s %10s\n", "order", "sum", "- exact", "ulp");
    tw_put_to(out, "  %-20s %-24s\n", "exact", tw_shortest(s->exact, number));
    const size_t own = s->named_count - 6; /* the last six orders split the numbers over workers */
    for (size_t i = 0; i < own; i++)
        print_row(out, f, &s->named[i]);
    tw_put_to(out, "  %u worker%s, then\n", f->ranks, tw_plural_s(f->ranks));
    for (size_t i = own; i < s->named_count; i++)
        print_row(out, f, &s->named[i]);
    tw_put_to(out, "  %s random orders, %s result%s\n", count_text(s->orders, number),
              count_text(s->distinct, count), tw_plural_s(s->distinct));
    /* orders in which a partial sum left the type's range */
    if (s->overflowed)
        tw_put_to(out, "  %-20s %s of them: the sum is too large for %s on the way\n", "  infinite",
                  count_text(s->overflowed, count), twin_dtype_name(f->add_in));
    if (s->overflowed < s->orders) {
        tw_put_to(out, "  %-20s %-24s %+10.2e\n", "  lowest", tw_shortest(s->min, number),
                  s->min - s->exact);
        tw_put_to(out, "  %-20s %-24s %+10.2e\n", "  highest", tw_shortest(s->max, number),
                  s->max - s->exact);
        tw_put_to(out, "  %-20s %-24s %10.2e\n", "  standard deviation", "", s->sd);
        tw_put_to(out, "  %-20s %-24s %10.2e   %.2e of the sum\n", "  max - min", "",
                  s->max - s->min, (s->max - s->min) / fabs(s->exact));
        tw_put_to(out, "  %-20s %-24s %+10.2e   95%%: %+.2e to %+.2e\n", "  mean - exact", "",
                  s->bias, s->bias_low, s->bias_high);
    }
    /* condition: sum of the absolute values over the absolute value of the sum */
    if (s->condition > 1e3)
        tw_put_to(out, "  Much cancels: the numbers' sizes sum up to %.1e times the sum.\n",
                  s->condition);
    if (f->tensor)
        print_tensors(out, f);
    /* floor 0: the orders that count for it all gave the same bits */
    if (s->floor == 0) {
        tw_put_to(out, "\nNo order changes a bit of this sum%s.\n",
                  own > 2 ? " (sorted orders left out)" : "");
        return;
    }
    tw_put_to(out,
              "\nDifferences below %.2e (%.2e of the sum) mean nothing: another order of the same "
              "additions makes them%s.\n",
              s->floor, s->floor / fabs(s->exact), own > 2 ? " (sorted orders left out)" : "");
}

/* ---- text: element by element */

/* Relative L2 distance of result i to the exact sums. */
static double l2(const struct twin_vector_spread *v, size_t i)
{
    return sqrt(v->result[i].error2 / v->exact2);
}

/* The mean over n results from `first` on; the largest error is that of all of them. */
static void print_vector_row(FILE *out, const char *name, const struct twin_vector_spread *v,
                             size_t first, size_t n)
{
    double wrong = 0, error = 0, most = 0;
    for (size_t i = first; i < first + n; i++) {
        wrong += percent_of(v->result[i].wrong, v->elements - v->not_finite) / (double)n;
        error += l2(v, i) / (double)n;
        most = fmax(most, v->result[i].error_max);
    }
    tw_put_to(out, "  %-20s %12.3g%% %16.2e %16.2e\n", name, wrong, error, most);
}

/* All ranks' files element by element. The first `named` results are those of named algorithms, the
 * others are random orders. */
static void print_vector(FILE *out, const struct tw_spread_found *f)
{
    const struct twin_vector_spread *v = &f->vector;
    char a[32], b[32], c[32];
    /* how far apart the largest and the smallest result of each element are, all elements
     * together */
    const double far = sqrt(v->range2 / v->exact2);
    tw_put_to(out,
              "%zu files, one gradient each: %s numbers, added element by element in %s, as an "
              "all-reduce of %zu ranks does\n",
              f->file_count, count_text(v->elements, a), twin_dtype_name(f->add_in), f->file_count);
    if (f->precision != TWIN_AS_IS)
        tw_put_to(out, "rounded to %s first\n", f->args->precision);
    if (v->not_finite)
        tw_put_to(out, "%s elements whose sum is too large for %s in some order are left out\n",
                  count_text(v->not_finite, a), twin_dtype_name(f->add_in));
    /* each named order is one result; the random ones share a row */
    tw_put_to(out, "\n  %-20s %13s %16s %16s\n", "order", "not nearest", "relative L2",
              "largest error");
    for (size_t i = 0; i < f->named; i++)
        print_vector_row(out, twin_algorithm_name(f->order[i].algorithm), v, i, 1);
    char name[48];
    snprintf(name, sizeof name, "%zu random orders", v->results - f->named);
    print_vector_row(out, name, v, f->named, v->results - f->named);
    tw_put_to(out,
              "\n  %s orders give %s different vector%s; %s elements (%.3g%%) have more than one "
              "result, at most %llu\n",
              count_text(v->results, b), count_text(v->vectors, a), tw_plural_s(v->vectors),
              count_text(v->vary, c), percent_of(v->vary, v->elements - v->not_finite),
              (unsigned long long)v->distinct_max);
    tw_put_to(out,
              "  max - min of an element: median %.2g ulp, 95%% within %.2g ulp, at most %.2e\n",
              v->ulps[0], v->ulps[1], v->range_max);
    if (v->vectors == 1)
        tw_put_to(out, "\nNo order changes a bit of these sums.\n");
    else
        tw_put_to(out,
                  "\nDifferences below a relative L2 distance of %.2e mean nothing: another order "
                  "of the same additions goes as far.\n",
                  far);
}

/* ---- JSON */

/* The names as the user gave them. */
static json_t *files_json(const struct tw_spread_found *f)
{
    return tw_json_texts(f->files, f->file_count);
}

/* One sum; all: with each random order's result, too. */
static json_t *sum_json(const struct twin_sum_spread *s, bool all)
{
    json_t *named = json_array(), *random = all ? json_array() : NULL;
    for (size_t i = 0; i < s->named_count; i++)
        json_array_append_new(named, json_pack("{s:s, s:o, s:o}", "order", s->named[i].order, "sum",
                                               tw_json_number(s->named[i].value), "off",
                                               tw_json_number(s->named[i].off)));
    for (uint64_t i = 0; all && i < s->orders; i++)
        json_array_append_new(random, tw_json_number(s->random[i]));
    json_t *j = json_pack("{s:I, s:o, s:o, s:o, s:o}", "count", (json_int_t)s->count, "exact",
                          tw_json_number(s->exact), "exact_rounded",
                          tw_json_number(s->exact_rounded), "condition",
                          tw_json_number(s->condition), "orders", named);
    /* the random orders; their sums only where they are asked for */
    json_t *r = json_pack("{s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:[o, o]}", "orders",
                          (json_int_t)s->orders, "distinct", (json_int_t)s->distinct, "overflowed",
                          (json_int_t)s->overflowed, "mean", tw_json_number(s->mean), "sd",
                          tw_json_number(s->sd), "min", tw_json_number(s->min), "max",
                          tw_json_number(s->max), "bias", tw_json_number(s->bias), "bias_interval",
                          tw_json_number(s->bias_low), tw_json_number(s->bias_high));
    if (random && r)
        json_object_set_new(r, "sums", random);
    if (j) {
        json_object_set_new(j, "random", r);
        json_object_set_new(j, "max_minus_min", tw_json_number(s->max - s->min));
        json_object_set_new(j, "relative", tw_json_number((s->max - s->min) / fabs(s->exact)));
        json_object_set_new(j, "floor", tw_json_number(s->floor));
        json_object_set_new(j, "floor_relative", tw_json_number(s->floor / fabs(s->exact)));
    }
    return j;
}

/* The results of all orders, element by element. */
static json_t *vector_json(const struct tw_spread_found *f)
{
    const struct twin_vector_spread *v = &f->vector;
    json_t *orders = json_array();
    for (size_t i = 0; i < v->results; i++)
        json_array_append_new(
            orders, json_pack("{s:s, s:I, s:o, s:o, s:o}", "order",
                              i < f->named ? twin_algorithm_name(f->order[i].algorithm) : "random",
                              "not_nearest", (json_int_t)v->result[i].wrong, "relative_l2",
                              tw_json_number(l2(v, i)), "largest_error",
                              tw_json_number(v->result[i].error_max), "bias",
                              tw_json_number(v->result[i].bias)));
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:[o, o, o], s:[o, o, o], s:o}",
                     "elements", (json_int_t)v->elements, "not_finite", (json_int_t)v->not_finite,
                     "vary", (json_int_t)v->vary, "distinct_max", (json_int_t)v->distinct_max,
                     "distinct_vectors", (json_int_t)v->vectors, "distinct_mean",
                     tw_json_number(v->distinct_mean), "largest_range",
                     tw_json_number(v->range_max), "relative", tw_json_number(v->relative[0]),
                     tw_json_number(v->relative[1]), tw_json_number(v->relative[2]), "ulps",
                     tw_json_number(v->ulps[0]), tw_json_number(v->ulps[1]),
                     tw_json_number(v->ulps[2]), "orders", orders);
}

/* One field holds the answer: "sum" or "elementwise", as "mode" says. */
json_t *tw_spread_json(const struct tw_spread_found *f)
{
    json_t *j = json_pack("{s:s, s:s, s:s, s:o, s:s, s:o, s:I, s:I}", "schema", "twinrun.spread/1",
                          "outcome", "measured", "mode", f->file_count > 1 ? "elementwise" : "sum",
                          "files", files_json(f), "add_in", twin_dtype_name(f->add_in), "precision",
                          f->args->precision ? json_string(f->args->precision) : json_null(),
                          "ranks", (json_int_t)f->ranks, "seed", (json_int_t)f->args->seed);
    if (j && f->file_count > 1) {
        json_object_set_new(j, "elementwise", vector_json(f));
        json_object_set_new(j, "floor_relative_l2",
                            tw_json_number(sqrt(f->vector.range2 / f->vector.exact2)));
    } else if (j) {
        json_object_set_new(j, "sum", sum_json(&f->sum, true));
        json_object_set_new(j, "exact_before_rounding", tw_json_number(f->exact_before));
        json_t *tensors = json_array();
        for (size_t i = 0; i < f->values->tensors; i++) {
            /* with one tensor the sum of all is that of the tensor */
            json_t *t = sum_json(f->tensor ? &f->tensor[i] : &f->sum, false);
            if (t)
                json_object_set_new(t, "name", tw_json_text(f->values->tensor[i].name));
            json_array_append_new(tensors, t);
        }
        json_object_set_new(j, "tensors", tensors);
    }
    return j;
}

void tw_spread_text(FILE *out, const struct tw_spread_found *f)
{
    if (f->file_count > 1)
        print_vector(out, f);
    else
        print_sum(out, f);
}
