/* SPDX-License-Identifier: Apache-2.0 */
/* Many exact sums at once: along an axis of a tensor (twin_sum_axis), and rows added to targets by
 * an index (twin_index_add). Each sum is the rounded exact one, so the order of additions is
 * nothing.
 *
 * Most sums have few numbers. They are made as pairs of doubles (pairs.h), many side by side; a
 * pair notices when it no longer holds the exact sum, and that one is made again by an accumulator
 * (exact.c). Long sums go to an accumulator at once. */
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <twin/exact.h>
#include <twin/scatter.h>
#include "base.h"
#include "fpenv.h"
#include "pairs.h"

#define LONG_SUM 64   /* numbers from which on a window (exact.c) beats a pair */
#define DIGIT_BITS 11 /* of the sort */
#define GATHERED 256  /* numbers collected for an accumulator at a time */
#define AHEAD 16      /* numbers by which the memory of a target is asked for in advance */

/* The set that the fingerprint uses, where pairs have one; else plain C. */
static const struct tw_pair_set *pair_set(void)
{
    static const struct tw_pair_set *const sets[] = {
#ifdef TW_HAVE_AVX512
        &tw_pairs_avx512,
#endif
#ifdef TW_HAVE_AVX2
        &tw_pairs_avx2,
#endif
        &tw_pairs_scalar,
    };
    const char *name = twin_fingerprint_isa();
    for (size_t i = 0; i + 1 < sizeof sets / sizeof *sets; i++)
        if (!strcmp(name, sets[i]->name))
            return sets[i];
    return &tw_pairs_scalar;
}

/* Numbers of one type in memory, and the type that their sums are rounded to. */
struct source {
    const struct tw_pair_set *set;
    enum twin_dtype dtype, out_dtype;
    enum tw_kind kind, out_kind;
    size_t size, out_size; /* of an element */
};

/* Fills *s; an error for types that are not summed. */
static int source_of(struct source *s, enum twin_dtype dtype, enum twin_dtype out_dtype,
                     struct twin_error *err)
{
    const int kind = tw_kind_of(dtype), out_kind = tw_kind_of(out_dtype);
    if (kind < 0 || out_kind < 0)
        return twin_error_set(
            err, TWIN_EINVAL,
            "exact sums: elements of type %s (%d); expected f64, f32, f16 or bf16",
            twin_dtype_name(kind < 0 ? dtype : out_dtype), (int)(kind < 0 ? dtype : out_dtype));
    *s = (struct source){pair_set(),
                         dtype,
                         out_dtype,
                         (enum tw_kind)kind,
                         (enum tw_kind)out_kind,
                         (size_t)twin_dtype_size(dtype),
                         (size_t)twin_dtype_size(out_dtype)};
    return 0;
}

/* The error for a thread whose floating-point mode would change results. */
static int refuse_mode(struct twin_error *err)
{
    return twin_error_set(
        err, TWIN_EINVAL,
        "exact sums: this thread rounds other than to nearest, or takes subnormals for zero; "
        "restore the default floating-point mode (fesetenv(FE_DFL_ENV)) around the call");
}

/* The k numbers at x + stride * i (or, with an order, x + stride * order[i].row), and *first when
 * it is not NULL, in an accumulator. Never fails: type and mode have been looked at. */
static void by_accumulator(const struct source *s, const void *first, const char *x, size_t stride,
                           const struct tw_place *order, size_t k, void *out)
{
    struct twin_acc acc;
    char gathered[8 * GATHERED];
    twin_acc_init(&acc);
    if (first)
        twin_acc_add(&acc, s->dtype, first, 1, NULL);
    if (!order && stride == s->size) {
        twin_acc_add(&acc, s->dtype, x, (int64_t)k, NULL);
        k = 0;
    }
    for (size_t i = 0, m; i < k; i += m) {
        m = k - i < GATHERED ? k - i : GATHERED;
        for (size_t j = 0; j < m; j++)
            memcpy(gathered + j * s->size, x + stride * (order ? order[i + j].row : i + j),
                   s->size);
        twin_acc_add(&acc, s->dtype, gathered, (int64_t)m, NULL);
    }
    twin_acc_round(&acc, s->out_dtype, out, NULL);
}

/* ---- along an axis */

/* Numbers that lie side by side. */
static void sum_line(const struct source *s, const char *x, size_t n, char *out)
{
    if (n < LONG_SUM) {
        double high = -0.0, low = 0;
        uint64_t inexact = 0;
        for (size_t i = 0; i < n; i++)
            inexact |= tw_pair_add(&high, &low, tw_pair_load(s->kind, x, i));
        if (!inexact) {
            tw_pair_store(s->out_kind, out, 0, high, low);
            return;
        }
    }
    by_accumulator(s, NULL, x, s->size, NULL, n, out);
}

/* The sums of n rows of `inner` columns. */
static void sum_columns(const struct source *s, const char *x, size_t n, size_t inner, char *out)
{
    struct tw_pairs pairs;
    const size_t stride = inner * s->size;
    for (size_t at = 0, width; at < inner; at += width) {
        const char *from = x + at * s->size;
        char *to = out + at * s->out_size;
        width = inner - at < TW_PAIRS_WIDTH ? inner - at : TW_PAIRS_WIDTH;
        s->set->begin(&pairs, s->kind, from, width);
        s->set->add(&pairs, s->kind, from + stride, stride, NULL, n - 1, width);
        if (s->set->round(&pairs, s->out_kind, to, width))
            for (size_t j = 0; j < width; j++)
                if (pairs.inexact[j])
                    by_accumulator(s, NULL, from + j * s->size, stride, NULL, n,
                                   to + j * s->out_size);
    }
}

/* outer tensors of n rows of `inner` columns each: the rows are summed. Without rows the sums are
 * zero. */
static void sum_axis(const struct source *s, const char *x, size_t outer, size_t n, size_t inner,
                     char *out)
{
    if (!n) {
        if (outer && inner)
            memset(out, 0, outer * inner * s->out_size);
        return;
    }
    for (size_t o = 0; o < outer; o++, x += n * inner * s->size, out += inner * s->out_size)
        if (inner == 1)
            sum_line(s, x, n, out);
        else
            sum_columns(s, x, n, inner, out);
}

/* Sizes are multiplied with a check: their product must be a number of elements. */
int twin_sum_axis(enum twin_dtype dtype, const void *x, int64_t outer, int64_t n, int64_t inner,
                  enum twin_dtype out_dtype, void *out, struct twin_error *err)
{
    struct source s;
    int64_t rows, all;
    const int rc = source_of(&s, dtype, out_dtype, err);
    if (rc)
        return rc;
    if (outer < 0 || n < 0 || inner < 0 || __builtin_mul_overflow(outer, n, &rows) ||
        __builtin_mul_overflow(rows, inner, &all) || __builtin_mul_overflow(outer, inner, &rows))
        return twin_error_set(err, TWIN_EINVAL,
                              "exact sums: sizes %lld x %lld x %lld; expected 0 or more each",
                              (long long)outer, (long long)n, (long long)inner);
    if ((all && !x) || (rows && !out))
        return twin_error_set(err, TWIN_EINVAL, "exact sums: %s is NULL; expected an address",
                              all && !x ? "x" : "out");
    const struct tw_fpenv env = tw_fpenv_enter();
    const bool standard = tw_fpenv_is_standard(env);
    if (standard)
        sum_axis(&s, x, (size_t)outer, (size_t)n, (size_t)inner, out);
    tw_fpenv_leave(env);
    return standard ? 0 : refuse_mode(err);
}

/* ---- by index */
/* One call of twin_index_add, checked. `out` is read, too: its numbers are part of the sums. */
struct scatter {
    struct source s;
    const char *rows;
    const int64_t *index;
    size_t n, columns, targets;
    char *out;
};

/* Sorts by target, digit by digit from the lowest; rows of one target keep their order. The answer
 * is in one of the two arrays, which is returned. */
static struct tw_place *sorted_places(struct tw_place *place, struct tw_place *spare, size_t n,
                                      size_t targets)
{
    size_t start[1 << DIGIT_BITS];
    for (unsigned shift = 0; shift < 64 && (targets - 1) >> shift; shift += DIGIT_BITS) {
        size_t sum = 0;
        memset(start, 0, sizeof start);
        for (size_t i = 0; i < n; i++)
            start[place[i].target >> shift & ((1 << DIGIT_BITS) - 1)]++;
        for (size_t d = 0; d < 1 << DIGIT_BITS; d++) {
            const size_t count = start[d];
            start[d] = sum;
            sum += count;
        }
        for (size_t i = 0; i < n; i++)
            spare[start[place[i].target >> shift & ((1 << DIGIT_BITS) - 1)]++] = place[i];
        struct tw_place *swap = place;
        place = spare;
        spare = swap;
    }
    return place;
}

/* Adds the k rows of one target to what stands there. */
static void add_line(const struct scatter *j, const struct tw_place *place, size_t k, char *out)
{
    const struct source *s = &j->s;
    if (k < LONG_SUM) {
        double high = tw_pair_load(s->kind, out, 0), low = 0;
        uint64_t inexact = 0;
        for (size_t i = 0; i < k; i++)
            inexact |= tw_pair_add(&high, &low, tw_pair_load(s->kind, j->rows, place[i].row));
        if (!inexact) {
            tw_pair_store(s->kind, out, 0, high, low);
            return;
        }
    }
    by_accumulator(s, out, j->rows, s->size, place, k, out);
}

/* The same for rows of several columns. Results are kept aside until the inexact ones are made
 * again, which need what `out` held before. */
static void add_columns(const struct scatter *j, const struct tw_place *place, size_t k, char *out)
{
    const struct source *s = &j->s;
    struct tw_pairs pairs;
    char rounded[8 * TW_PAIRS_WIDTH];
    const size_t stride = j->columns * s->size;
    for (size_t at = 0, width; at < j->columns; at += width) {
        const char *from = j->rows + at * s->size;
        char *to = out + at * s->size;
        width = j->columns - at < TW_PAIRS_WIDTH ? j->columns - at : TW_PAIRS_WIDTH;
        s->set->begin(&pairs, s->kind, to, width);
        s->set->add(&pairs, s->kind, from, stride, place, k, width);
        if (s->set->round(&pairs, s->kind, rounded, width))
            for (size_t c = 0; c < width; c++)
                if (pairs.inexact[c])
                    by_accumulator(s, to + c * s->size, from + c * s->size, stride, place, k,
                                   rounded + c * s->size);
        memcpy(to, rounded, width * s->size);
    }
}

/* Places that lie target by target. */
static void add_groups(const struct scatter *j, const struct tw_place *place, size_t n)
{
    for (size_t i = 0, k; i < n; i += k) {
        char *out = j->out + place[i].target * j->columns * j->s.size;
        for (k = 1; i + k < n && place[i + k].target == place[i].target; k++)
            ;
        if (j->columns == 1)
            add_line(j, place + i, k, out);
        else
            add_columns(j, place + i, k, out);
    }
}

/* Rows in any number and width: first brought together by their targets. 0 or TWIN_ENOMEM, with out
 * untouched. */
static int add_sorted(const struct scatter *j, struct twin_error *err)
{
    struct tw_place *place = tw_reallocarray(NULL, j->n, 2 * sizeof *place);
    if (!place)
        return tw_no_memory(err, "adding %zu rows to %zu targets", j->n, j->targets);
    for (size_t r = 0; r < j->n; r++)
        place[r] = (struct tw_place){(uint64_t)j->index[r], r};
    add_groups(j, sorted_places(place, place + j->n, j->n, j->targets), j->n);
    tw_free(place);
    return 0;
}

/* The sum of one target while all are made at once, without sorting. low: -0 until something is
 * added (or only -0 to -0), NaN when the pair is inexact, which no addition undoes. */
struct held {
    double high, low;
};

/* Adds all rows to the pairs of their targets. Returns whether any is inexact. */
static bool hold_rows(const struct scatter *j, struct held *held)
{
    bool any = false;
    for (size_t t = 0; t < j->targets; t++)
        held[t] = (struct held){tw_pair_load(j->s.kind, j->out, t), -0.0};
    for (size_t r = 0; r < j->n; r++) {
        struct held *h = held + j->index[r];
        __builtin_prefetch(held + j->index[r + AHEAD < j->n ? r + AHEAD : r], 1);
        if (tw_pair_add(&h->high, &h->low, tw_pair_load(j->s.kind, j->rows, r))) {
            h->low = NAN;
            any = true;
        }
    }
    return any;
}

/* Those rows again whose target's sum is inexact: counted, and stored when there is a place to. */
static size_t inexact_rows(const struct scatter *j, const struct held *held, struct tw_place *place)
{
    size_t n = 0;
    for (size_t r = 0; r < j->n; r++)
        if (isnan(held[j->index[r]].low)) {
            if (place)
                place[n] = (struct tw_place){(uint64_t)j->index[r], r};
            n++;
        }
    return n;
}

/* Stores the sums that are exact. An untouched target keeps its bits. */
static void let_go(const struct scatter *j, const struct held *held)
{
    for (size_t t = 0; t < j->targets; t++) {
        const bool untouched = held[t].low == 0 && signbit(held[t].low);
        if (!untouched && !isnan(held[t].low))
            tw_pair_store(j->s.kind, j->out, t, held[t].high, held[t].low);
    }
}

/* Single numbers, to not many more targets than there are numbers: no need to sort, but for those
 * that a pair does not hold. All memory is taken before the first target is changed. */
static int add_held(const struct scatter *j, struct twin_error *err)
{
    struct held *held = tw_reallocarray(NULL, j->targets, sizeof *held);
    struct tw_place *place = NULL;
    size_t again = 0;
    int rc = held ? 0 : tw_no_memory(err, "adding %zu rows to %zu targets", j->n, j->targets);
    if (!rc && hold_rows(j, held)) {
        again = inexact_rows(j, held, NULL);
        place = tw_reallocarray(NULL, again, 2 * sizeof *place);
        rc = place ? 0 : tw_no_memory(err, "adding %zu rows to %zu targets", j->n, j->targets);
    }
    if (!rc) {
        let_go(j, held);
        if (again) {
            inexact_rows(j, held, place);
            add_groups(j, sorted_places(place, place + again, again, j->targets), again);
        }
    }
    tw_free(place);
    tw_free(held);
    return rc;
}

/* Sizes, addresses, and that each index is one of the targets. */
static int check_scatter(const struct scatter *j, int64_t n, int64_t columns, int64_t targets,
                         struct twin_error *err)
{
    int64_t size;
    if (n < 0 || columns < 0 || targets < 0 || __builtin_mul_overflow(n, columns, &size) ||
        __builtin_mul_overflow(targets, columns, &size))
        return twin_error_set(
            err, TWIN_EINVAL,
            "exact sums: %lld rows of %lld columns, %lld targets; expected 0 or more each",
            (long long)n, (long long)columns, (long long)targets);
    const char *missing = NULL;
    if (n && !j->index)
        missing = "index";
    else if (n && columns && (!j->rows || !j->out))
        missing = j->rows ? "out" : "rows";
    if (missing)
        return twin_error_set(err, TWIN_EINVAL, "exact sums: %s is NULL; expected an address",
                              missing);
    for (int64_t r = 0; r < n; r++)
        if (j->index[r] < 0 || j->index[r] >= targets)
            return twin_error_set(err, TWIN_EINVAL,
                                  "exact sums: index[%lld] is %lld; expected 0 to %lld",
                                  (long long)r, (long long)j->index[r], (long long)targets - 1);
    return 0;
}

/* Sorting pays when rows have several columns, or when there are many more targets than rows. */
int twin_index_add(enum twin_dtype dtype, const void *rows, const int64_t *index, int64_t n,
                   int64_t columns, void *out, int64_t targets, struct twin_error *err)
{
    struct scatter j = {.rows = rows, .index = index, .out = out};
    int rc = source_of(&j.s, dtype, dtype, err);
    if (!rc)
        rc = check_scatter(&j, n, columns, targets, err);
    if (rc || !n || !columns)
        return rc;
    j.n = (size_t)n;
    j.columns = (size_t)columns;
    j.targets = (size_t)targets;
    const struct tw_fpenv env = tw_fpenv_enter();
    const bool standard = tw_fpenv_is_standard(env);
    if (standard)
        rc = columns == 1 && targets / 4 <= n ? add_held(&j, err) : add_sorted(&j, err);
    tw_fpenv_leave(env);
    return standard ? rc : refuse_mode(err);
}
