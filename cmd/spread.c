/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun spread: what the order of additions does to real numbers. An operand is a file of
 * tensors, or a run that stands for the one that it wrote. One file is split among workers; several
 * files are the contributions of one rank each. src/study/spread.c adds them up in many orders.
 */
#include "spread_report.h"

#include "say.h"
#include "options.h"
#include "terminal.h"
#include "runs.h"

#include "base.h"
#include "phrase.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Workers that split one file unless --ranks says otherwise; files of a run that are named. */
enum { DEFAULT_RANKS = 8, FILES_SHOWN = 20 };

#define FIELD(f) offsetof(struct tw_spread_args, f)

static const struct tw_option options[] = {
    {"tensor", 't', TW_OPT_LIST, "NAME", NULL, "Numbers",
     "only tensors whose name is or matches NAME (*, ?)", FIELD(tensor)},
    {"precision", 'p', TW_OPT_STRING, "TYPE", NULL, "Numbers",
     "round the numbers to fp16, bf16 or tf32 first, as mixed precision does", FIELD(precision)},
    {"add-in", 'a', TW_OPT_STRING, "TYPE", NULL, "Numbers",
     "round every addition to f64, f32, f16 or bf16. Unless given: one file's numbers are added in "
     "f64 or f32, those of several in their own type",
     FIELD(add_in)},
    {"ranks", 'r', TW_OPT_COUNT, "P", NULL, "Orders",
     "one file: workers that split the numbers (8 unless given). Several files: each is a rank",
     FIELD(ranks), 1, TWIN_MAX_RANKS},
    {"orders", 'k', TW_OPT_COUNT, "K", "50", "Orders", "random orders", FIELD(orders), 2, 100000},
    {"seed", 's', TW_OPT_COUNT, "N", "7", "Orders", "which random orders", FIELD(seed)},
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Output", "folder that holds the runs", FIELD(home)},
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Output", "print one JSON object, schema twinrun.spread/1",
     FIELD(json)},
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
    {"twinrun spread grads.pt",
     "how far apart are sums of these numbers in 50 random orders and on 8 workers?"},
    {"twinrun spread grads-0.pt grads-1.pt grads-2.pt grads-3.pt",
     "one gradient of each rank, added element by element: what does the all-reduce's order "
     "change?"},
    {"twinrun spread checkpoint.safetensors --tensor 'layers.0.*' --precision bf16",
     "some tensors, rounded to bf16 first"},
    {NULL, NULL},
};

/* ---- which file an operand means */

/* The one file of tensors that the run wrote. malloc'ed; NULL after a complaint that says what to
 * type. */
static char *file_of_run(const struct twin_run *r)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_values_files files;
    char *found = NULL;
    if (tw_values_of_run(r, &files, &err) != 0) {
        tw_trouble(&err, "spread");
    } else if (files.count == 1) {
        found = tw_strdup(files.path[0]);
    } else if (files.count > 1) {
        tw_say(
            "spread: the run wrote %zu files of tensors; one of them, or all in one command when "
            "each is one rank's gradient:",
            files.count);
        for (size_t i = 0; i < files.count && i < FILES_SHOWN; i++)
            tw_put_to(stderr, "    twinrun spread %s\n", files.path[i]);
        if (files.count > FILES_SHOWN)
            tw_put_to(stderr, "    and %zu more\n", files.count - FILES_SHOWN);
    } else if (files.changed) {
        tw_say("spread: the %zu file%s of tensors that the run wrote %s no longer as it left %s (a "
               "later run writes to the same place; see --fresh-dir)",
               files.changed, tw_plural_s(files.changed), files.changed == 1 ? "is" : "are",
               files.changed == 1 ? "it" : "them");
    } else {
        tw_say(
            "spread: a run keeps fingerprints, not values. Let the job write what is to be added "
            "up, for instance\n"
            "    torch.save({n: p.grad for n, p in model.named_parameters()}, "
            "f\"grads-{rank}.pt\")\n"
            "and give that file, or the run");
    }
    tw_values_files_free(&files);
    return found;
}

/* A path is a file; a folder, or what is no path, a run. A name with a dot that is not there is a
 * file that is not there. malloc'ed; NULL after a complaint. */
static char *path_of(const char *operand, const char *home)
{
    struct stat st;
    const bool there = stat(operand, &st) == 0;
    if (there && !S_ISDIR(st.st_mode))
        return tw_strdup(operand);
    if (!there && strchr(operand, '.')) {
        tw_say("spread: %s: no such file", operand);
        return NULL;
    }
    char *named = tw_home(home), *path = NULL;
    struct twin_run *r = named ? tw_run_open(named, operand) : NULL;
    if (r)
        path = file_of_run(r);
    twin_run_free(r);
    tw_free(named);
    return path;
}

/* ---- preparing */

/*
 * Precisions, files and ranks, which must fit each other. -1, or the exit code after a complaint.
 */
static int choose_sources(const struct tw_spread_args *a, size_t files, struct tw_spread_found *f)
{
    static const struct {
        const char *name;
        enum twin_precision p;
    } precisions[] = {{"fp16", TWIN_TO_F16}, {"bf16", TWIN_TO_BF16}, {"tf32", TWIN_TO_TF32}};
    f->precision = TWIN_AS_IS;
    for (size_t i = 0; a->precision && i < 3; i++)
        if (strcmp(a->precision, precisions[i].name) == 0)
            f->precision = precisions[i].p;
    if (a->precision && f->precision == TWIN_AS_IS)
        return tw_bad_use("spread", "--precision: expected fp16, bf16 or tf32, found \"%s\"",
                          a->precision);
    if (a->add_in && tw_values_type(a->add_in, &f->add_in) != 0)
        return tw_bad_use("spread", "--add-in: expected f64, f32, f16 or bf16, found \"%s\"",
                          a->add_in);
    if (files == 0)
        return tw_bad_use("spread", "expected a file of numbers (.npy, .npz, .safetensors, "
                                    "PyTorch) or a run; several files: one gradient of each rank");
    if (files > TWIN_MAX_RANKS || (files > 1 && a->ranks != TW_NOT_GIVEN && a->ranks != files))
        return tw_bad_use(
            "spread", "%zu files are %zu ranks; leave --ranks out, or give one file to be split",
            files, files);
    /*
     * Several files are the ranks' own gradients; one file is split among as many as are asked for.
     */
    if (files > 1)
        f->ranks = (uint32_t)files;
    else
        f->ranks = a->ranks != TW_NOT_GIVEN ? (uint32_t)a->ranks : DEFAULT_RANKS;
    return -1;
}

/* Every digit counts: the floor in it is read again by twinrun significant. */
static int print_answer(const struct tw_spread_found *f)
{
    tw_progress_clear();
    if (f->args->json)
        return tw_json_print_exact(tw_spread_json(f));
    tw_spread_text(stdout, f);
    return 0;
}

/* ---- the command */

static int run(int argc, char **argv)
{
    struct tw_spread_args a = {.ranks = TW_NOT_GIVEN};
    struct tw_operands rest;
    struct tw_spread_found f = {.args = &a};
    int rc = tw_options_parse(&tw_command_spread, argc, argv, &a, &rest);
    if (rc >= 0)
        return rc;
    rc = choose_sources(&a, rest.count, &f);
    tw_progress_setup(a.quiet);
    char **paths = rc < 0 ? tw_calloc(rest.count + 1, sizeof *paths) : NULL;
    for (size_t i = 0; rc < 0 && i < rest.count; i++)
        if (!paths || !(paths[i] = path_of(rest.items[i], a.home)))
            rc = TW_EXIT_TROUBLE;
    f.files = paths;
    f.file_count = rest.count;
    if (rc < 0)
        rc = tw_spread_measure(&f, &tw_terminal) == 0 ? print_answer(&f) : TW_EXIT_TROUBLE;
    tw_spread_free(&f);
    if (rc == TW_EXIT_TROUBLE && a.json && tw_said()[0])
        tw_json_print(json_pack("{s:s, s:s, s:o}", "schema", "twinrun.spread/1", "outcome", "error",
                                "message", tw_json_text(tw_said())));
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
    "One file: all of its numbers are added up to one sum, in random orders and in the orders that "
    "P workers use, and every result is held against the exact sum. Several files: each is one "
    "rank's gradient, and they are added element by element, as an all-reduce does.\n\n"
    "Files: .npy, .npz, .safetensors, PyTorch checkpoints (nothing in them is executed). A run "
    "stands for the one file of tensors that it wrote. A run itself keeps fingerprints, not "
    "values: to measure gradients, let the job save them.\n\n"
    "The last line is the point: two results of this sum that differ by less differ by the order "
    "of additions alone.",
    options,
    TW_OPERANDS_FILES,
    0,
    0,
    exits,
    examples,
    run,
};
