/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun simulate: results and time of an all-reduce over ranks that exist only here. No job is
 * run: src/study/simulate.c adds numbers up in the orders of collectives, as many times as there
 * are trials.
 */
#include "simulate_report.h"

#include "say.h"
#include "options.h"
#include "terminal.h"

#include "base.h"

#include <stdio.h>

#define FIELD(f) offsetof(struct tw_simulate_args, f)

static const struct tw_option options[] = {
    {"ranks", 'r', TW_OPT_COUNT, "P", "1024", "Collective", "ranks", FIELD(ranks), 1,
     TWIN_MAX_RANKS},
    {"algorithm", 'a', TW_OPT_LIST, "NAME", NULL, "Collective",
     "ring (unless given), tree, double-tree, recursive-doubling, arrival, rank-order, or all",
     FIELD(algorithm)},
    {"elements", 'n', TW_OPT_COUNT, "N", "100000", "Collective", "elements of the gradient",
     FIELD(elements), 1, (uint64_t)1 << 40},
    {"type", 0, TW_OPT_STRING, "TYPE", "f32", "Collective",
     "of the elements and of every addition: f64, f32, f16 or bf16", FIELD(type)},
    {"placement", 0, TW_OPT_STRING, "HOW", "random", "Collective",
     "random: in each trial the ranks stand in another order, as a scheduler places them; fixed",
     FIELD(placement)},
    {"data", 'd', TW_OPT_FILE, "FILE", NULL, "Numbers",
     "draw every contribution from the numbers of this file (.npy, .npz, .safetensors, PyTorch)",
     FIELD(data)},
    {"tensor", 't', TW_OPT_LIST, "NAME", NULL, "Numbers",
     "only tensors of the file whose name is or matches NAME", FIELD(tensor)},
    {"draw", 0, TW_OPT_STRING, "HOW", "normal", "Numbers",
     "without a file: normal (standard normal) or wide (the same times 2^-20 to 2^20)",
     FIELD(draw)},
    {"alpha", 0, TW_OPT_STRING, "TIME", NULL, "Network",
     "latency of a message, such as 5us; measured on this machine's loopback unless given",
     FIELD(alpha)},
    {"beta", 0, TW_OPT_STRING, "TIME", NULL, "Network",
     "time for each byte, such as 0.08ns (100 Gbit/s); measured unless given", FIELD(beta)},
    {"jitter", 'j', TW_OPT_STRING, "TIME", "1us", "Network",
     "mean of what a message is late by: TIME or exponential:TIME, uniform:TIME, 0", FIELD(jitter)},
    {"trials", 'k', TW_OPT_COUNT, "K", "20", "Trials",
     "how often everything is drawn anew but the numbers", FIELD(trials), 2, 100000},
    {"sample", 0, TW_OPT_COUNT, "S", NULL, "Trials",
     "look at S elements, drawn at random; unless given, as many as about 15 seconds of processor "
     "time allow",
     FIELD(sample), 1, 100000000},
    {"seed", 's', TW_OPT_COUNT, "N", "7", "Trials",
     "of all draws: the same seed gives the same results", FIELD(seed)},
    {"threads", 0, TW_OPT_COUNT, "T", NULL, "Trials",
     "threads; as many as processors unless given. They change no result", FIELD(threads), 1, 64},
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Output",
     "print one JSON object, schema twinrun.simulate/1", FIELD(json)},
    {"quiet", 'q', TW_OPT_FLAG, NULL, NULL, "Output", "no progress line", FIELD(quiet)},
    {NULL},
};

static const char *const synopsis[] = {"[options]", NULL};
static const struct tw_pair exits[] = {
    {"0", "simulated"},
    {"2", "trouble: bad use, a file that cannot be read, a loopback that cannot be measured"},
    {"130", "interrupted by Ctrl-C"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun simulate --ranks 65536 --algorithm ring --alpha 5us --beta 0.04ns",
     "65,536 ranks: how many different results, how far apart, how long?"},
    {"twinrun simulate --ranks 512 --algorithm all --data grads.pt --type bf16",
     "every algorithm on numbers from a real gradient, added in bf16"},
    {"twinrun simulate --ranks 64 --algorithm arrival --jitter 0",
     "without jitter messages arrive in rank order: one result for each placement"},
    {NULL, NULL},
};

/* -1, or the exit code after a complaint. */
static int understand_options(struct tw_simulation *s)
{
    struct twin_error err = TWIN_ERROR_INIT;
    int rc = tw_simulate_understand(s, &err);
    if (rc == TWIN_EINVAL)
        return tw_bad_use("simulate", "%s", err.message);
    return rc ? tw_trouble(&err, "simulate") : -1;
}

/* 0, or the exit code of an answer that could not be printed. */
static int print_answer(const struct tw_simulation *s)
{
    tw_progress_clear();
    if (s->args->json)
        return tw_json_print_exact(tw_simulate_json(s));
    tw_simulate_text(stdout, s);
    return 0;
}

static int run(int argc, char **argv)
{
    struct tw_simulate_args a = {.sample = TW_SIMULATE_FREE, .threads = TW_SIMULATE_FREE};
    struct tw_operands rest;
    struct tw_simulation s = {.args = &a};
    int rc = tw_options_parse(&tw_command_simulate, argc, argv, &a, &rest);
    if (rc >= 0)
        return rc;
    tw_progress_setup(a.quiet);
    rc = understand_options(&s);
    if (rc < 0)
        rc = tw_simulate(&s, &tw_terminal) == 0 ? print_answer(&s) : TW_EXIT_TROUBLE;
    /* With --json also trouble is an object. */
    if (rc == TW_EXIT_TROUBLE && a.json && tw_said()[0])
        tw_json_print(json_pack("{s:s, s:s, s:o}", "schema", "twinrun.simulate/1", "outcome",
                                "error", "message", tw_json_text(tw_said())));
    tw_simulate_free(&s);
    tw_free(a.algorithm.items);
    tw_free(a.tensor.items);
    return rc;
}

const struct tw_command tw_command_simulate = {
    "simulate",
    "simulate an all-reduce of up to 65,536 ranks: its results and its time",
    synopsis,
    "Adds the contributions of ranks that exist only here in the order of a collective's "
    "algorithm, trial after trial, and says how many different results there are and how far they "
    "lie from each other and from the exact sum. What changes from trial to trial is where the "
    "ranks stand and when messages arrive; the numbers stay.\n\n"
    "Time is that of an alpha-beta model: a message of b bytes takes alpha + b beta and is late by "
    "a jitter. Give --alpha and --beta of the network that you think of: measured are those of "
    "this machine's loopback. Adding costs nothing in it.\n\n"
    "Where all elements would take too long a random sample of them is looked at, and shares come "
    "with 95% intervals. The results depend on the options and the seed only, not on machine or "
    "threads; measured times do.",
    options,
    TW_OPERANDS_NONE,
    0,
    0,
    exits,
    examples,
    run,
};
