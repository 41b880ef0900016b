/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of verdicts made by hand. Text is compared as a whole; JSON is read back by jansson. */
#include "src/report/report.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>

#include "base.h"

static struct twin_run run_a = {
    .dir = (char *)"/h/runs/one", .id = (char *)"1f2e3d4c5b6a79880000000000000000", .wall_s = 12.4};
static struct twin_run run_b = {
    .dir = (char *)"/h/runs/two", .id = (char *)"9a8b7c6d5b6a79880000000000000000", .wall_s = 12.5};
static const struct twin_run *runs[2] = {&run_a, &run_b};

static struct twin_finding gradient(void)
{
    return (struct twin_finding){.type = TWIN_FINDING_VALUE,
                                 .role = TWIN_ORIGIN,
                                 .step_a = 17,
                                 .step_b = 17,
                                 .process = (char *)"main",
                                 .phase = TWIN_PHASE_BACKWARD,
                                 .kind = TWIN_KIND_GRADIENT,
                                 .layer = (char *)"backward",
                                 .name = (char *)"encoder.embed.weight",
                                 .scope = (char *)"Net",
                                 .op = (char *)"aten::embedding_dense_backward",
                                 .site = (char *)"model.py:88 in forward\ntrain.py:12 in main",
                                 .text = (char *)"",
                                 .rel_l2 = 3.1e-8,
                                 .rel_l2_exact = true,
                                 .max_ulp = 2,
                                 .changed = 312,
                                 .elements = 1048576,
                                 .changed_known = true};
}

static size_t reference_alone[1] = {0}, other_alone[1] = {1};
static struct twin_class two_classes[2] = {{1, reference_alone, -1}, {1, other_alone, 17}};

static struct twin_verdict differing(struct twin_finding *f)
{
    static struct twin_onset onsets[3];
    onsets[0] = (struct twin_onset){(char *)"weights", TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, 17};
    onsets[1] = (struct twin_onset){(char *)"loss", TWIN_PHASE_FORWARD, TWIN_KIND_LOSS, 19};
    onsets[2] = (struct twin_onset){(char *)"printed loss", TWIN_PHASE_OUTPUT, TWIN_KIND_LINE, 24};
    static struct twin_finding benign;
    benign = (struct twin_finding){
        .type = TWIN_FINDING_FILE,
        .phase = TWIN_PHASE_OUTPUT,
        .kind = TWIN_KIND_FILE,
        .process = (char *)"main",
        .layer = (char *)"artifact",
        .name = (char *)"checkpoint.pt",
        .scope = (char *)"",
        .op = (char *)"",
        .site = (char *)"",
        .text = (char *)"checkpoint.pt: file bytes differ, tensors and other values equal",
        .rel_l2 = NAN,
        .max_ulp = NAN};
    return (struct twin_verdict){
        .outcome = TWIN_DIFFER,
        .bitwise = TWIN_DIFFER,
        .runs = 2,
        .comparisons = 1,
        .differing = 1,
        .p_diverge_upper = 1,
        .confidence = .95,
        .rate = 1,
        .rate_low = .025,
        .rate_high = 1,
        .first = f,
        .origins = f,
        .origin_count = 1,
        .benign = &benign,
        .benign_count = 1,
        .onsets = onsets,
        .onset_count = 3,
        .equal_before = (char *)"batch, weights, activations and loss of step 17 (214 records)",
        .equal_before_records = 214,
        .steps_a = 300,
        .steps_compared = 300,
        .steps_differing = 283,
        .steps_differing_exact = true,
        .records_a = 41220,
        .drift_per_step = 1.9,
        .nonfinite = (char *)"",
        .overhead_ratio = .012,
        .classes = two_classes,
        .class_count = 2};
}

static struct twin_verdict same(void)
{
    return (struct twin_verdict){.outcome = TWIN_SAME,
                                 .bitwise = TWIN_SAME,
                                 .runs = 3,
                                 .comparisons = 2,
                                 .p_diverge_upper = .7763932022500211,
                                 .confidence = .95,
                                 .equal_before = (char *)"",
                                 .nonfinite = (char *)"",
                                 .steps_a = 300,
                                 .steps_compared = 300,
                                 .records_a = 41220,
                                 .records_compared = 41220,
                                 .drift_per_step = NAN,
                                 .overhead_ratio = NAN};
}

static char *text(const struct twin_verdict *v, unsigned width, bool color)
{
    struct twin_report r = {.verdict = v,
                            .runs = runs,
                            .run_count = 2,
                            .command = "python train.py",
                            .width = width,
                            .color = color};
    char *out = NULL;
    assert_int_equal(twin_report_text(&r, &out, NULL), 0);
    return out;
}

static void check_text(const char *actual, const char *expected)
{
    if (strcmp(actual, expected) != 0)
        fprintf(stderr, "--- expected\n%s--- actual\n%s---\n", expected, actual);
    assert_string_equal(actual, expected);
}

static void differ_text(void **state)
{
    (void)state;
    struct twin_finding f = gradient();
    struct twin_verdict v = differing(&f);
    char *out = text(&v, 0, false);
    check_text(out,
               "DIFFER  from step 17 on (283 of 300 steps)\n"
               "\n"
               "first   step 17 \xC2\xB7 rank 0 \xC2\xB7 backward \xC2\xB7 grad of "
               "encoder.embed.weight        ORIGIN\n"
               "        op     aten::embedding_dense_backward   model.py:88 in forward\n"
               "        called train.py:12 in main\n"
               "        equal  batch, weights, activations and loss of step 17 (214 records)\n"
               "        size   312 of 1,048,576 elements, at most 2 ulp, relative L2 3.1e-8 (in\n"
               "               the reruns of the zoom)\n"
               "then    weights 17 -> loss 19 -> printed loss 24   drift x1.9 per step\n"
               "benign  checkpoint.pt: file bytes differ, tensors and other values equal\n"
               "next    twinrun show 9a8b7c6d --step 17   every record of that step\n"
               "        twinrun check --all --runs 10 -- python train.py   how often?\n");
    tw_free(out);
}

static void same_text(void **state)
{
    (void)state;
    struct twin_verdict v = same();
    char *out = text(&v, 0, false);
    check_text(out,
               "SAME    300 steps, 41,220 records, bit for bit, in 3 runs\n"
               "        2 comparisons cannot exclude a divergence in up to 78% of runs; --runs\n"
               "        30 brings that bound to 9.8%\n");
    tw_free(out);
}

static void first_line(const struct twin_verdict *v, const char *expected)
{
    char *out = text(v, 110, false);
    out[strcspn(out, "\n")] = '\0';
    check_text(out, expected);
    tw_free(out);
}

static void expect_line(const struct twin_verdict *v, const char *line)
{
    char *out = text(v, 300, false);
    if (!strstr(out, line))
        fprintf(stderr, "--- expected\n%s--- in\n%s---\n", line, out);
    assert_non_null(strstr(out, line));
    tw_free(out);
}

/* A rank whose place in the job's mesh is known is named by both, wherever it stands. */
static void role_text(void **state)
{
    (void)state;
    struct twin_finding f[2] = {gradient(), gradient()};
    f[0].rank = 2;
    f[0].seat = (char *)"pp 1, dp 0";
    f[1].rank = 3;
    f[1].seat = (char *)"pp 1, ep\0332";
    struct twin_verdict v = differing(&f[0]);
    v.origins = f;
    v.origin_count = 2;
    expect_line(&v, "rank 2 (pp 1, dp 0)");
    expect_line(&v, "also   rank 3 (pp 1, ep\\x1b2) grad of encoder.embed.weight\n");
    f[1].seat = NULL;
    expect_line(&v, "also   rank 3 grad of encoder.embed.weight\n");
}

/* What of run 1 the word "same" is about: said where that is not all of it. */
static void range_text(void **state)
{
    (void)state;
    struct twin_range r[3] = {{.rank = 0,
                               .process = (char *)"main",
                               .number_a = 1,
                               .number_b = 1,
                               .first = 0,
                               .end = 300,
                               .of = 300,
                               .of_b = 300,
                               .whole = true}};
    struct twin_verdict v = same();
    v.ranges = r;
    v.range_count = 1;
    first_line(&v, "SAME    300 steps, 41,220 records, bit for bit, in 3 runs");
    r[0].first = 12;
    r[0].of_b = 288;
    v.records_compared = 39000;
    first_line(&v, "SAME    steps 12 to 299 of 300 compared, 39,000 of 41,220 records, bit for "
                   "bit, in 3 runs");
    r[0] = (struct twin_range){.process = (char *)"main",
                               .number_a = 1,
                               .number_b = 1,
                               .end = 300,
                               .of = 300,
                               .of_b = 400};
    v.records_compared = v.records_a; /* run 1 was cut by the user, the other went on */
    first_line(&v,
               "SAME    steps 0 to 299 of 400 compared, 41,220 records, bit for bit, in 3 runs");
    v.records_compared = 39000;
    r[0].of_b = 288;
    r[0].first = 12;
    r[0].end = 13;
    first_line(&v,
               "SAME    step 12 of 300 compared, 39,000 of 41,220 records, bit for bit, in 3 runs");
    r[0].first = 0;
    r[0].end = 300;
    r[0].weights_only = true;
    first_line(&v, "SAME    only weights, steps 0 to 299 of 300 compared, 39,000 of 41,220 "
                   "records, bit for bit, in 3 runs");

    r[0] = (struct twin_range){.process = (char *)"main",
                               .number_a = 1,
                               .number_b = 1,
                               .end = 100,
                               .of = 300,
                               .of_b = 100};
    r[1] = r[0];
    r[1].number_b = 2;
    r[1].first = 100;
    r[1].end = 300;
    r[1].first_b = 0;
    r[1].of_b = 200;
    v.records_compared = v.records_a;
    struct twin_range many[6] = {r[0], r[1], r[1], r[1], r[1], r[1]};
    v.ranges = many;
    v.range_count = 6;
    expect_line(&v,
                "; rank 0, process 2: steps 100 to 299 of 300 (its 0 to 199); 2 more processes\n");
    many[0].end = 0;
    v.range_count = 1;
    expect_line(&v, "SAME    none of 300 steps compared, 41,220 records, bit for bit");
    v.ranges = r;
    v.range_count = 2;
    char *out = text(&v, 100, false);
    if (!strstr(out, "SAME    300 steps, 41,220 records, bit for bit, in 3 runs\n") ||
        !strstr(out, "\nrange   rank 0: steps 0 to 99 of 300; rank 0, process 2: steps 100 to 299 "
                     "of 300 (its 0 to 199)\n"))
        fail_msg("%s", out);
    tw_free(out);
    r[1].first = 150; /* a hole is not the whole */
    out = text(&v, 100, false);
    assert_null(strstr(out, "SAME    300 steps"));
    tw_free(out);
}

static void inconclusive_and_error_text(void **state)
{
    (void)state;
    struct twin_verdict v = same();
    char *unseen[] = {(char *)"batches or inputs: at no step"};
    char *notes[] = {(char *)"run 1: exit code 1, 0 steps recorded"};
    v.outcome = v.bitwise = TWIN_INCONCLUSIVE;
    v.unseen = unseen;
    v.unseen_count = 1;
    run_a.torch = true;
    char *out = text(&v, 0, false);
    run_a.torch = false;
    check_text(out,
               "INCONCLUSIVE  no difference was found, but not enough was seen to say \"same\"\n"
               "unseen  batches or inputs: at no step\n"
               "next    twinrun doctor   what can be seen here, and why not more\n");
    tw_free(out);
    v.outcome = v.bitwise = TWIN_FAILED;
    v.notes = notes;
    v.note_count = 1;
    out = text(&v, 0, false);
    check_text(out,
               "ERROR   the job failed in every one of 3 runs\n"
               "note    run 1: exit code 1, 0 steps recorded\n"
               "next    twinrun show 1f2e3d4c   how it ended, what it printed, its processes\n");
    tw_free(out);
}

/* What to do next hangs on whether the pins proved something. */
static void what_is_next_under_pins(void **state)
{
    (void)state;
    struct twin_pinned pins = {(char *)"hash-seed", (char *)"/home/searches/one", true};
    struct twin_finding f = gradient();
    struct twin_verdict v = same();
    v.pinned = &pins;
    expect_line(
        &v, "twinrun run --pin hash-seed -- python train.py   to train like this from now on\n");
    /* where a line has no room for both, the command stays whole */
    char *narrow = text(&v, 70, false);
    assert_non_null(strstr(narrow, "next    twinrun run --pin hash-seed -- python train.py\n"
                                   "          to train like this from now on\n"));
    tw_free(narrow);
    v = differing(&f);
    v.pinned = &pins;
    expect_line(&v, "twinrun isolate --resume --thorough -- python train.py   is there another "
                    "cause?\n");
    pins.held = false;
    expect_line(&v, "twinrun isolate -- python train.py   which pin holds the job as it is now?\n");
}

/* Sentences that only some verdicts have, each with the numbers that it stands on. */
static void sentences_of_some_verdicts(void **state)
{
    (void)state;
    struct twin_finding f = gradient();
    struct twin_verdict v = differing(&f);
    v.overhead_ratio = .126;
    expect_line(&v, "\nwatcher +13% of the run's time: watching this closely can itself hide or "
                    "cause a divergence\n");
    f.elements = 1; /* its own distance, and no bound */
    f.changed_known = false;
    expect_line(&v, "        size   1 element, 2 ulp, relative L2 3.1e-8\n");
    f.elements = 1048576;
    f.max_ulp = 1e15; /* no distance of roundings */
    expect_line(&v, "        size   1,048,576 elements, relative L2 3.1e-8\n");
    f.rel_l2_exact = false;
    f.max_ulp = NAN;
    expect_line(&v, "        size   1,048,576 elements, relative L2 about 3.1e-8\n");
    f.role = TWIN_ROLE_UNKNOWN;
    f.between[0] = (char *)"aten::add of step 17";
    f.between[1] = (char *)"aten::mul of step 17";
    expect_line(&v, "        role   unknown: it was made between aten::add of step 17 and "
                    "aten::mul of step 17\n");
    f.phase = TWIN_PHASE_DATA;
    f.kind = TWIN_KIND_BATCH;
    expect_line(&v, "        role   unknown: it was made between aten::add of step 17 and "
                    "aten::mul of step 17. The code there is not recorded: its data, the order of "
                    "a set or a generator of its own may differ\n");
    f.phase = TWIN_PHASE_INIT;
    f.kind = TWIN_KIND_WEIGHT;
    expect_line(&v,
                "aten::mul of step 17. The code there is not recorded: a file, a generator of its "
                "own or memory that it has not written to may differ\n");
    f.kind = TWIN_KIND_HYPER;
    expect_line(&v,
                "aten::mul of step 17. The code there is not recorded: an option, a file or what "
                "a schedule goes by may differ\n");
    f.kind = TWIN_KIND_VALUE;
    expect_line(&v, "aten::mul of step 17. The code there is not recorded\n");
    f.type = TWIN_FINDING_FILE;
    f.text = (char *)"a.npy: contents differ (3 and 3 bytes)";
    expect_line(
        &v, "DIFFER  in a file the job wrote\n\nfirst   a.npy: contents differ (3 and 3 bytes)\n");
    f.type = TWIN_FINDING_OUTPUT;
    expect_line(&v, "DIFFER  in what the job printed\n");
    size_t three[3] = {0, 1, 3}, one[1] = {2};
    struct twin_class classes[2] = {{3, three, -1, true}, {1, one, 17, false}};
    v.classes = classes;
    v.runs = 4;
    v.comparisons = 3;
    expect_line(&v, "classes runs 1,2,4 agree as far as was seen; run 3 diverges at step 17\n");
    classes[0].unsure = false;
    expect_line(&v, "classes runs 1,2,4 agree; run 3 diverges at step 17\n");
}

static void sentences_about_a_baseline_and_rules(void **state)
{
    (void)state;
    struct twin_against against = {
        .path = (char *)"base.json", .made = (char *)"2026-01-02 03:04:05", .runs = 2};
    struct twin_rule_use rules[4] = {
        {.pattern = (char *)"a/*", .reason = (char *)"r", .rel_l2 = 1e-3, .matched = 2},
        {.pattern = (char *)"b/*",
         .reason = (char *)"r",
         .rel_l2 = 1e-3,
         .matched = 2,
         .measured = 2,
         .worst = .25},
        {.pattern = (char *)"c/*",
         .reason = (char *)"r",
         .ulp = 4,
         .matched = 2,
         .measured = 1,
         .outside = 1,
         .worst = 3},
        {.pattern = (char *)"d/*", .reason = (char *)"r", .abs = 1},
    };
    struct twin_verdict v = same();
    v.against = &against;
    v.rules = rules;
    v.rule_count = 4;
    expect_line(
        &v, "SAME    300 steps, 41,220 records, bit for bit, as in the baseline, in every run\n");
    expect_line(&v, "against base.json, made 2026-01-02 03:04:05 of 2 runs\n");
    expect_line(
        &v,
        "allowed a/* (rel_l2 0.001): nothing measured; r\n        b/* (rel_l2 0.001): 25% used; r\n"
        "        c/* (ulp 4): exceeded; r\n");
    expect_line(&v, "unused  d/*: no difference that this rule of the tolerance file covers\n");
    rules[2].matched = 0;
    expect_line(&v,
                "unused  c/*, d/*: no difference that these rules of the tolerance file cover\n");
    expect_line(&v, "world   not known whether this is the world that the baseline was made in\n");
    v.lost_records = 1200;
    v.gap_count = 2;
    expect_line(&v,
                "gaps    the details of 1,200 records were lost in 2 stretches (rings were "
                "full); their values were still compared; --lossless keeps them, where ulimit -v "
                "and -d leave room\n");
    v.lost_records = 0;
    v.runs = 1;
    expect_line(&v, "bit for bit, as in the baseline\n");
}

static void sentences_about_transplants_and_cases(void **state)
{
    (void)state;
    struct twin_finding f = gradient();
    struct twin_origin origin = {.finding = &f,
                                 .steps_differing = 2,
                                 .steps = 7,
                                 .rate = 2 / 7.,
                                 .low = .0367,
                                 .high = .7096};
    struct twin_transplant t = {
        .kind = TWIN_TRANSPLANT_STEP, .runs = 1, .steps = 8, .origin = &origin, .origin_count = 1};
    struct twin_verdict v = differing(&f);
    v.transplant = &t;
    expect_line(
        &v, "origins 8 steps of 1 transplanted run (step); where they diverge that started equal:\n"
            "        2 of 7 steps, 28.6% (3.7% to 71%)   backward: grad of encoder.embed.weight, "
            "first in step 17\n");
    t.origin_count = 0;
    expect_line(&v,
                "origins 8 steps of 1 transplanted run (step); none diverges that started equal\n");
    const struct twin_hint hint = {.id = (char *)"TC-7",
                                   .title = (char *)"atomics",
                                   .cause = (char *)"Adds in any order.",
                                   .fix = (char *)"Sort them.",
                                   .why = (char *)"the operation"};
    char *said = twin_hint_text(&hint);
    assert_string_equal(
        said,
        "perhaps a known case: atomics (TC-7). There: Adds in any order. Remedy there: Sort them. "
        "It looks alike in the operation; whether that is what happens here was not tried.");
    tw_free(said);
}

static bool next_is(const char *report, const char *command)
{
    char wanted[200];
    snprintf(wanted, sizeof wanted, "next    %s", command ? command : "");
    return (strstr(report, wanted) != NULL) == (command != NULL);
}

static void assert_next(const struct twin_verdict *v, const char *command)
{
    char *report = text(v, 100, false);
    bool right = next_is(report, command);
    if (!right)
        fprintf(stderr, "--- expected next: %s\n%s---\n", command ? command : "none", report);
    tw_free(report);
    assert_true(right);
}

/* doctor tells of PyTorch; other jobs can show more by themselves. Neither helps where records were
 * lost. */
static void what_a_job_can_show(void **state)
{
    (void)state;
    struct twin_run_process one = {.armed = true};
    struct twin_verdict v = same();
    char *unseen[] = {(char *)"what the job computes: no process of the job left a record"};
    v.outcome = v.bitwise = TWIN_INCONCLUSIVE;
    v.unseen = unseen;
    v.unseen_count = 1;
    run_a.processes = &one;
    run_a.process_count = 1;
    one.argv = (char *)"/usr/bin/python3.11 kmeans.py";
    assert_next(&v, "import twinrun; twinrun.record(");
    one.argv = (char *)"./montecarlo 1000";
    assert_next(&v, "twin_record(...)");
    one.argv = (char *)"seq 1 100";
    assert_next(&v, "twinrun.record (Python) or twin_record");
    one.argv = (char *)"/bin/sh -c ./all.sh";
    assert_next(&v, "twinrun.record (Python) or twin_record");
    one.argv = NULL;
    assert_next(&v, "twinrun.record (Python) or twin_record");
    run_a.torch = true;
    assert_next(&v, "twinrun doctor");
    unseen[0] = (char *)"rank 0 captured a CUDA graph at graphs.py:12 in <module>: what its 5 "
                        "replays computed was not seen step by step";
    assert_next(&v, "check the job without its CUDA graph   what a replay computes is not seen");
    run_a.torch = false;
    unseen[0] = (char *)"run 3 was interrupted after 20 steps";
    assert_next(&v, NULL);
    run_a.processes = NULL;
    run_a.process_count = 0;
}

/* Suggestions stand whole, with what makes the situation again. */
static void suggestions_can_be_pasted(void **state)
{
    (void)state;
    struct twin_finding f = gradient();
    struct twin_verdict v = differing(&f);
    char job[600];
    snprintf(job, sizeof job, "-- python %0500d < 'a b'", 7);
    struct twin_report r = {.verdict = &v,
                            .runs = runs,
                            .run_count = 2,
                            .command = "python",
                            .can_isolate = true,
                            .can_zoom = true,
                            .again = {.env = "OMP_NUM_THREADS=1 ",
                                      .home = "TWINRUN_HOME=r ",
                                      .job = job,
                                      .check = " --steps 5 --level steps",
                                      .isolate = " --steps 5",
                                      .zoom = " --fresh-dir",
                                      .show = " --home h",
                                      .scratch = true}};
    char *out = NULL;
    assert_int_equal(twin_report_text(&r, &out, NULL), 0);
    assert_non_null(strstr(out, "next    TWINRUN_HOME=r twinrun show 9a8b7c6d --home h --step 17"));
    assert_non_null(strstr(
        out, "        OMP_NUM_THREADS=1 twinrun zoom --window 16:17 --fresh-dir -- python 000"));
    assert_non_null(
        strstr(out, "        OMP_NUM_THREADS=1 twinrun isolate --steps 5 -- python 000"));
    assert_non_null(strstr(out, "0007 < 'a b'\n"));
    tw_free(out);
    r.can_isolate = r.can_zoom = false;
    assert_int_equal(twin_report_text(&r, &out, NULL), 0);
    assert_non_null(
        strstr(out, "twinrun check --all --runs 10 --steps 5 --level steps -- python 000"));
    tw_free(out);
    r.repeats = true; /* nobody asks how often */
    assert_int_equal(twin_report_text(&r, &out, NULL), 0);
    assert_null(strstr(out, "--all"));
    tw_free(out);
}

/* Whatever a job names its tensors, and at whatever width: no control byte gets out, no line of
 * words is too long. */
static void hostile_names(void **state)
{
    (void)state;
    struct twin_finding f = gradient();
    struct twin_verdict v = differing(&f);
    char *notes[] = {(char *)"\033]0;owned\007 \xff\xfe <b>&amp; ]]> %0A::error::x"};
    f.name = (char *)"\033[31mw\r\n\001\xc3\x28";
    f.site = (char *)"a,b:c%.py:7 in f";
    v.notes = notes;
    v.note_count = 1;
    for (unsigned width = 40; width < 120; width += 7) {
        char *out = text(&v, width, false);
        for (const char *p = out; *p; p++)
            assert_true((unsigned char)*p >= 0x20 || *p == '\n');
        tw_free(out);
    }
    struct twin_report r = {
        .verdict = &v, .runs = runs, .run_count = 2, .command = "python \"<x>\" & y"};
    char *out;
    assert_int_equal(twin_report_junit(&r, &out, NULL), 0);
    assert_null(strchr(out, '\033'));
    assert_non_null(strstr(out, "python &quot;&lt;x&gt;&quot; &amp; y"));
    assert_null(strstr(out, "<b>"));
    assert_non_null(strstr(out, "failures=\"1\" errors=\"0\" skipped=\"0\""));
    tw_free(out);
    assert_int_equal(twin_report_github(&r, &out, NULL), 0);
    assert_true(tw_starts(
        out, "::error file=a%2Cb%3Ac%25.py,line=7,title=twinrun%3A differ::from step 17 on"));
    assert_ptr_equal(strchr(out, '\n'), out + strlen(out) - 1);
    tw_free(out);
}

static void color_only_when_asked(void **state)
{
    (void)state;
    struct twin_finding f = gradient();
    struct twin_verdict v = differing(&f);
    char *plain = text(&v, 0, false), *colored = text(&v, 0, true), *w = colored;
    assert_null(strchr(plain, '\033'));
    assert_non_null(strchr(colored, '\033'));
    for (const char *p = colored; *p;) { /* without its escapes it is the plain one */
        if (*p == '\033')
            p += strcspn(p, "m") + 1;
        else
            *w++ = *p++;
    }
    *w = '\0';
    assert_string_equal(colored, plain);
    tw_free(plain);
    tw_free(colored);
}

static void json_contract(void **state)
{
    (void)state;
    struct twin_finding f = gradient();
    struct twin_verdict v = differing(&f);
    struct twin_report r = {.verdict = &v, .runs = runs, .run_count = 2};
    char *out;
    json_error_t e;
    assert_int_equal(twin_report_json(&r, &out, NULL), 0);
    json_t *j = json_loads(out, JSON_REJECT_DUPLICATES, &e);
    json_t *first = json_object_get(j, "first");
    json_t *detail = json_object_get(first, "detail");
    assert_non_null(j);
    assert_string_equal(json_string_value(json_object_get(j, "schema")), "twinrun.check/1");
    assert_string_equal(json_string_value(json_object_get(j, "outcome")), "differ");
    assert_int_equal(json_integer_value(json_object_get(j, "runs")), 2);
    assert_int_equal(json_integer_value(json_object_get(j, "differing")), 1);
    assert_true(json_real_value(json_object_get(json_object_get(j, "bound"), "p_diverge_upper")) ==
                1);
    assert_true(json_real_value(json_object_get(json_object_get(j, "bound"), "confidence")) == .95);
    assert_int_equal(json_integer_value(json_object_get(first, "step")), 17);
    assert_int_equal(json_integer_value(json_object_get(first, "rank")), 0);
    assert_string_equal(json_string_value(json_object_get(first, "phase")), "backward");
    assert_string_equal(json_string_value(json_object_get(first, "kind")),
                        twin_kind_name(TWIN_KIND_GRADIENT));
    assert_string_equal(json_string_value(json_object_get(first, "name")), "encoder.embed.weight");
    assert_string_equal(json_string_value(json_object_get(first, "layer")), "backward");
    assert_string_equal(json_string_value(json_object_get(first, "role")), "origin");
    assert_string_equal(json_string_value(json_object_get(first, "op")),
                        "aten::embedding_dense_backward");
    assert_int_equal(json_array_size(json_object_get(first, "source")), 2);
    assert_string_equal(json_string_value(json_array_get(json_object_get(first, "source"), 1)),
                        "train.py:12 in main");
    assert_int_equal(json_integer_value(json_object_get(detail, "changed")), 312);
    assert_true(json_real_value(json_object_get(detail, "rel_l2")) == 3.1e-8);
    assert_int_equal(json_array_size(json_object_get(j, "origins")), 1);
    assert_int_equal(json_array_size(json_object_get(j, "benign")), 1);
    json_t *observer = json_object_get(j, "observer");
    assert_true(json_is_array(json_object_get(observer, "armed")) &&
                json_is_array(json_object_get(observer, "unarmed")));
    assert_true(json_is_integer(json_object_get(observer, "lost_records")) &&
                json_is_real(json_object_get(observer, "overhead_ratio")));
    assert_string_equal(json_string_value(json_array_get(json_object_get(j, "runs_dir"), 1)),
                        "/h/runs/two");
    assert_ptr_equal(strchr(out, '\n'), out + strlen(out) - 1);
    json_decref(j);
    tw_free(out);
    v = same(); /* what is not known is null */
    assert_int_equal(twin_report_json(&r, &out, NULL), 0);
    j = json_loads(out, 0, &e);
    assert_true(json_is_null(json_object_get(j, "first")));
    assert_true(json_is_null(json_object_get(json_object_get(j, "observer"), "overhead_ratio")));
    json_decref(j);
    tw_free(out);
}

static void exit_codes(void **state)
{
    (void)state;
    assert_int_equal(twin_report_exit_code(TWIN_SAME), 0);
    assert_int_equal(twin_report_exit_code(TWIN_WITHIN_TOLERANCE), 0);
    assert_int_equal(twin_report_exit_code(TWIN_DIFFER), 1);
    assert_int_equal(twin_report_exit_code(TWIN_FAILED), 2);
    assert_int_equal(twin_report_exit_code(TWIN_INCONCLUSIVE), 3);
}

static void every_allocation_failure(void **state)
{
    (void)state;
    struct twin_finding f = gradient();
    struct twin_verdict v = differing(&f);
    struct twin_report r = {.verdict = &v, .runs = runs, .run_count = 2, .command = "x"};
    int (*const form[4])(const struct twin_report *, char **, struct twin_error *) = {
        twin_report_text, twin_report_json, twin_report_junit, twin_report_github};
    for (int i = 0; i < 4; i++) {
        char *whole = NULL;
        assert_int_equal(form[i](&r, &whole, NULL), 0);
        for (uint64_t n = 1;; n++) {
            char *out = NULL;
            tw_alloc_fail_at(n, false);
            int rc = form[i](&r, &out, NULL);
            tw_alloc_fail_at(0, false);
            assert_true(rc == 0 || (rc == TWIN_ENOMEM && !out));
            if (rc == 0) {
                assert_string_equal(out, whole);
                tw_free(out);
                break;
            }
        }
        tw_free(whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(differ_text),
        cmocka_unit_test(role_text),
        cmocka_unit_test(same_text),
        cmocka_unit_test(range_text),
        cmocka_unit_test(inconclusive_and_error_text),
        cmocka_unit_test(what_is_next_under_pins),
        cmocka_unit_test(sentences_of_some_verdicts),
        cmocka_unit_test(sentences_about_a_baseline_and_rules),
        cmocka_unit_test(sentences_about_transplants_and_cases),
        cmocka_unit_test(what_a_job_can_show),
        cmocka_unit_test(suggestions_can_be_pasted),
        cmocka_unit_test(hostile_names),
        cmocka_unit_test(color_only_when_asked),
        cmocka_unit_test(json_contract),
        cmocka_unit_test(exit_codes),
        cmocka_unit_test(every_allocation_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
