/* SPDX-License-Identifier: Apache-2.0 */
/* twinrun spread: what the order of additions does to real numbers. */
#include "spread_report.h"

#include "json.h"
#include "options.h"
#include "progress.h"
#include "say.h"
#include "terminal.h"
#include "values_path.h"

#include "base.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <twin/exact.h>
#include <twin/random.h>

enum { DEFAULT_RANKS = 8, SORTED_MOST = 20000000 };

#define FIELD(f) offsetof(struct tw_spread_args, f)

static const struct tw_option options[] = {
    {"tensor", 't', TW_OPT_LIST, "NAME", NULL, "Numbers", "only tensors whose name is or matches NAME (*, ?)", FIELD(tensor)},
    {"precision", 'p', TW_OPT_STRING, "TYPE", NULL, "Numbers", "round the numbers to fp16, bf16 or tf32 first, as mixed precision does", FIELD(precision)},
    {"add-in", 'a', TW_OPT_STRING, "TYPE", NULL, "Numbers",
     "round every addition to f64, f32, f16 or bf16. Unless given: one file's numbers are added in f64 or f32, those of several in their own type", FIELD(add_in)},
    {"ranks", 'r', TW_OPT_COUNT, "P", NULL, "Orders", "one file: workers that split the numbers (8 unless given). Several files: each is a rank", FIELD(ranks), 1, TWIN_MAX_RANKS},
    {"orders", 'k', TW_OPT_COUNT, "K", "50", "Orders", "random orders", FIELD(orders), 2, 100000},
    {"seed", 's', TW_OPT_COUNT, "N", "7", "Orders", "which random orders", FIELD(seed)},
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Output", "folder that holds the runs", FIELD(home)},
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Output", "print one JSON object, schema twinrun.spread/1", FIELD(json)},
    {"quiet", 'q', TW_OPT_FLAG, NULL, NULL, "Output", "no progress line", FIELD(quiet)},
    {NULL},
};

static const char *const synopsis[] = {"[options] FILE|RUN", "[options] FILE FILE...", NULL};
static const struct tw_pair exits[] = {
    {"0", "measured"},
    {"2", "trouble: bad use, a file that cannot be read, numbers that are not finite"},
    {"130", "interrupted by Ctrl-C"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun spread grads.pt", "how far apart are sums of these numbers in 50 random orders and on 8 workers?"},
    {"twinrun spread grads-0.pt grads-1.pt grads-2.pt grads-3.pt", "one gradient of each rank, added element by element: what does the all-reduce's order change?"},
    {"twinrun spread checkpoint.safetensors --tensor 'layers.0.*' --precision bf16", "some tensors, rounded to bf16 first"},
    {NULL, NULL},
};

/* ---- preparing */

static void on_progress(void *user, uint64_t done, uint64_t all)
{
    char text[80];
    (void)user;
    snprintf(text, sizeof text, "spread: %llu of %llu", (unsigned long long)done, (unsigned long long)all);
    tw_progress_line(text);
}

static int choose(const struct tw_spread_args *a, size_t files, struct tw_spread_found *f)
{
    static const struct { const char *name; enum twin_precision p; } precisions[] = {{"fp16", TWIN_TO_F16}, {"bf16", TWIN_TO_BF16}, {"tf32", TWIN_TO_TF32}};
    f->precision = TWIN_AS_IS;
    for (size_t i = 0; a->precision && i < 3; i++)
        if (strcmp(a->precision, precisions[i].name) == 0)
            f->precision = precisions[i].p;
    if (a->precision && f->precision == TWIN_AS_IS)
        return tw_bad_use("spread", "--precision: expected fp16, bf16 or tf32, found \"%s\"", a->precision);
    if (a->add_in && tw_values_type(a->add_in, &f->add_in) != 0)
        return tw_bad_use("spread", "--add-in: expected f64, f32, f16 or bf16, found \"%s\"", a->add_in);
    if (files == 0)
        return tw_bad_use("spread", "expected a file of numbers (.npy, .npz, .safetensors, PyTorch) or a run; several files: one gradient of each rank");
    if (files > TWIN_MAX_RANKS || (files > 1 && a->ranks != TW_NOT_GIVEN && a->ranks != files))
        return tw_bad_use("spread", "%zu files are %zu ranks; leave --ranks out, or give one file to be split", files, files);
    f->ranks = files > 1 ? (uint32_t)files : a->ranks != TW_NOT_GIVEN ? (uint32_t)a->ranks : DEFAULT_RANKS;
    return -1;
}

static void choose_type(struct tw_spread_found *f)
{
    const enum twin_dtype own = f->values->dtype;
    if (f->args->add_in)
        return;
    if (f->file_count > 1)
        f->add_in = f->precision == TWIN_TO_F16 ? TWIN_F16 : f->precision == TWIN_TO_BF16 ? TWIN_BF16 : f->precision == TWIN_TO_TF32 ? TWIN_F32 : own;
    else
        f->add_in = own == TWIN_F64 && f->precision == TWIN_AS_IS ? TWIN_F64 : TWIN_F32;
}

/* Every number must be one that additions can begin with: finite, and exact in the type that they are made in. */
static int round_all(const struct tw_spread_found *f, struct tw_values *v, const char *path)
{
    uint64_t bad = 0, overflow = 0, inexact = 0;
    for (uint64_t i = 0; i < v->n; i++) {
        const double x = twin_round_to(f->precision, v->x[i]), held = f->add_in == TWIN_F64 ? x : (double)(float)x,
                     y = f->add_in == TWIN_F16 ? twin_round_to(TWIN_TO_F16, x) : f->add_in == TWIN_BF16 ? twin_round_to(TWIN_TO_BF16, x) : held;
        bad += !isfinite(v->x[i]);
        overflow += isfinite(v->x[i]) && !isfinite(y);
        inexact += y != x && isfinite(y);
        v->x[i] = y;
    }
    if (bad)
        tw_say("spread: %llu of the %llu numbers of %s are NaN or infinite: their sum is, too, in every order", (unsigned long long)bad, (unsigned long long)v->n, path);
    else if (overflow)
        tw_say("spread: %llu of the %llu numbers of %s are too large for %s: scale them first, as a loss scaler does", (unsigned long long)overflow,
               (unsigned long long)v->n, path, f->precision != TWIN_AS_IS ? f->args->precision : twin_dtype_name(f->add_in));
    else if (inexact && f->precision == TWIN_AS_IS && !f->args->add_in)
        tw_say("spread: %s holds numbers of more digits than %s", path, twin_dtype_name(f->add_in));
    else
        return -1;
    return TW_EXIT_TROUBLE;
}

/* ---- one file: one sum */

static int exact_sum(const struct tw_values *v, double *out)
{
    struct twin_acc acc;
    struct twin_error err = TWIN_ERROR_INIT;
    twin_acc_init(&acc);
    if (twin_acc_add(&acc, TWIN_F64, v->x, (int64_t)v->n, &err) != 0)
        return tw_trouble(&err, "spread");
    *out = twin_acc_f64(&acc);
    return -1;
}

static int print_answer(const struct tw_spread_found *f)
{
    tw_progress_clear();
    if (f->args->json)
        return tw_json_print_exact(tw_spread_json(f));
    tw_spread_text(stdout, f);
    return 0;
}

static int one_sum(struct tw_spread_found *f, const struct tw_values *v)
{
    struct twin_error err = TWIN_ERROR_INIT;
    const struct tw_spread_args *a = f->args;
    struct twin_sum_options o = {.dtype = f->add_in, .orders = a->orders, .seed = a->seed, .workers = f->ranks, .sorted = v->n <= SORTED_MOST, .progress = on_progress};
    const size_t several = v->tensors > 1 ? v->tensors : 0;
    double *random = tw_reallocarray(NULL, a->orders, 2 * sizeof *random);
    f->tensor = several ? tw_calloc(several, sizeof *f->tensor) : NULL;
    int rc = random && (f->tensor || !several) ? 0 : twin_error_set(&err, TWIN_ENOMEM, "no memory for %llu orders", (unsigned long long)a->orders);
    if (rc == 0)
        rc = twin_sum_spread(v->x, v->n, &o, random, &f->sum, &err);
    o.workers = 0;
    for (size_t i = 0; rc == 0 && i < several; i++) { /* their own random sums are not kept */
        o.sorted = v->tensor[i].count <= SORTED_MOST;
        rc = twin_sum_spread(v->x + v->tensor[i].first, v->tensor[i].count, &o, random + a->orders, &f->tensor[i], &err);
    }
    rc = rc == 0 ? print_answer(f) : tw_trouble(&err, "spread");
    tw_free(random);
    tw_free(f->tensor);
    return rc;
}

/* ---- several files: element by element */

struct stack { double **x; uint32_t ranks; };

static void fill(const void *user, uint64_t element, double *x)
{
    const struct stack *s = user;
    for (uint32_t r = 0; r < s->ranks; r++)
        x[r] = s->x[r][element];
}

static int vectors(struct tw_spread_found *f, const struct stack *s)
{
    static const enum twin_algorithm named[] = {TWIN_RANK_ORDER, TWIN_RING, TWIN_TREE, TWIN_DOUBLE_TREE, TWIN_RECURSIVE_DOUBLING};
    enum { NAMED = sizeof named / sizeof *named };
    struct twin_error err = TWIN_ERROR_INIT;
    const size_t all = NAMED + f->args->orders;
    struct twin_vector_order *order = tw_calloc(all, sizeof *order);
    struct twin_vector_result *result = tw_calloc(all, sizeof *result);
    uint32_t *place = tw_reallocarray(NULL, f->args->orders, s->ranks * sizeof *place);
    int rc = order && result && place ? 0 : twin_error_set(&err, TWIN_ENOMEM, "no memory for %zu orders", all);
    for (size_t i = 0; rc == 0 && i < all; i++) {
        order[i].algorithm = i < NAMED ? named[i] : TWIN_RANK_ORDER;
        if (i < NAMED)
            continue;
        struct twin_shuffle shuffle;
        uint32_t *p = place + (i - NAMED) * s->ranks;
        twin_shuffle_init(&shuffle, s->ranks, twin_seed_index(f->args->seed, "spread/order", i - NAMED));
        for (uint32_t r = 0; r < s->ranks; r++)
            p[r] = (uint32_t)twin_shuffle_at(&shuffle, r);
        order[i].place = p;
    }
    const struct twin_vector_job job = {.dtype = f->add_in, .ranks = s->ranks, .elements = f->values->n, .all = f->values->n, .fill = fill, .user = s,
                                        .order = order, .orders = all, .progress = on_progress};
    if (rc == 0)
        rc = twin_vector_spread(&job, result, &f->vector, &err);
    f->order = order;
    f->named = NAMED;
    rc = rc == 0 ? print_answer(f) : tw_trouble(&err, "spread");
    tw_free(order);
    tw_free(result);
    tw_free(place);
    return rc;
}

static int unlike(const struct tw_values *a, const struct tw_values *b, const char *path_a, const char *path_b)
{
    size_t i = 0;
    while (i < a->tensors && i < b->tensors && strcmp(a->tensor[i].name, b->tensor[i].name) == 0 && a->tensor[i].count == b->tensor[i].count)
        i++;
    if (i == a->tensors && i == b->tensors)
        return -1;
    tw_say("spread: expected the same tensors in every file, found %s (%llu numbers) in %s and %s (%llu) in %s", i < a->tensors ? a->tensor[i].name : "nothing more",
           (unsigned long long)(i < a->tensors ? a->tensor[i].count : 0), path_a, i < b->tensors ? b->tensor[i].name : "nothing more",
           (unsigned long long)(i < b->tensors ? b->tensor[i].count : 0), path_b);
    return TW_EXIT_TROUBLE;
}

/* ---- the command */

static int measure(struct tw_spread_found *f, char **paths)
{
    struct tw_values *v = tw_calloc(f->file_count, sizeof *v);
    struct stack s = {tw_calloc(f->file_count, sizeof *s.x), (uint32_t)f->file_count};
    int rc = v && s.x ? -1 : tw_trouble(&(struct twin_error){.code = TWIN_ENOMEM}, "spread");
    for (size_t i = 0; rc < 0 && i < f->file_count; i++) {
        const bool read = tw_values_load(&tw_terminal, "spread", paths[i], &f->args->tensor,
                                         &v[i]) == 0;
        rc = read ? -1 : TW_EXIT_TROUBLE;
        if (rc < 0)
            rc = unlike(&v[0], &v[i], paths[0], paths[i]);
        if (rc < 0 && i == 0) {
            f->values = &v[0];
            choose_type(f);
            rc = exact_sum(&v[0], &f->exact_before);
        }
        if (rc < 0)
            rc = round_all(f, &v[i], paths[i]);
        if (rc < 0)
            s.x[i] = v[i].x;
    }
    if (rc < 0)
        rc = f->file_count > 1 ? vectors(f, &s) : one_sum(f, &v[0]);
    for (size_t i = 0; v && i < f->file_count; i++)
        tw_values_free(&v[i]);
    tw_free(v);
    tw_free(s.x);
    return rc;
}

static int run(int argc, char **argv)
{
    struct tw_spread_args a = {.ranks = TW_NOT_GIVEN};
    struct tw_operands rest;
    struct tw_spread_found f = {.args = &a};
    int rc = tw_options_parse(&tw_command_spread, argc, argv, &a, &rest);
    if (rc >= 0)
        return rc;
    rc = choose(&a, rest.count, &f);
    tw_progress_setup(a.quiet);
    char **paths = rc < 0 ? tw_calloc(rest.count + 1, sizeof *paths) : NULL;
    for (size_t i = 0; rc < 0 && i < rest.count; i++)
        if (!paths || !(paths[i] = tw_values_path("spread", rest.items[i], a.home)))
            rc = TW_EXIT_TROUBLE;
    f.files = paths;
    f.file_count = rest.count;
    if (rc < 0)
        rc = measure(&f, paths);
    if (rc == TW_EXIT_TROUBLE && a.json && tw_said()[0])
        tw_json_print(json_pack("{s:s, s:s, s:o}", "schema", "twinrun.spread/1", "outcome", "error", "message", tw_json_text(tw_said())));
    for (size_t i = 0; paths && i < rest.count; i++)
        tw_free(paths[i]);
    tw_free(paths);
    tw_free(a.tensor.items);
    return rc;
}

const struct tw_command tw_command_spread = {
    "spread",
    "measure how far the order of additions moves real sums",
    synopsis,
    "One file: all of its numbers are added up to one sum, in random orders and in the orders that P workers use, and every result is held against the exact "
    "sum. Several files: each is one rank's gradient, and they are added element by element, as an all-reduce does.\n\n"
    "Files: .npy, .npz, .safetensors, PyTorch checkpoints (nothing in them is executed). A run stands for the one file of tensors that it wrote. A run "
    "itself keeps fingerprints, not values: to measure gradients, let the job save them.\n\n"
    "The last line is the point: two results of this sum that differ by less differ by the order of additions alone.",
    options,
    TW_OPERANDS_FILES,
    0,
    0,
    exits,
    examples,
    run,
};
