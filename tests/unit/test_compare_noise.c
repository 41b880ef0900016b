/* SPDX-License-Identifier: Apache-2.0 */
/* Printed lines: pairs that equal runs print, and pairs that only different runs print, from the
 * tools people use. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "internal.h"
#include "printed.h"
#include "ulp.h"

/* A run on 21 November 2025 that took two hours, had the processes 4711 and 31307 and made ids up
 * to 31400. */
static long ids[] = {98, 1234, 4711, 31307, 999999};
static char *fresh[] = {(char *)"version_1"}, *fresh_b[] = {(char *)"version_0"};
static const struct tw_facts when = {.span = {{1763600000, 1763600000}, {1766400000, 1766400000}},
                                     .start = 1763712000,
                                     .end = 1763719200,
                                     .elapsed = 7200,
                                     .id = ids,
                                     .id_count = 5,
                                     .id_low = 4711,
                                     .id_high = 31400,
                                     .dir = "/home/u/.twinrun/runs/x",
                                     .host = "vm",
                                     .fresh = fresh,
                                     .fresh_count = 1};

static char *mask_with(const char *line, const struct tw_facts *f)
{
    return tw_noise_mask(line, strlen(line), f, TW_MASK_NOISE);
}

static bool equal_masked(const char *a, const char *b)
{
    struct tw_facts other = when;
    other.fresh = fresh_b;
    char *x = mask_with(a, &when), *y = mask_with(b, &other);
    assert_non_null(x);
    assert_non_null(y);
    bool equal = strcmp(x, y) == 0;
    free(x);
    free(y);
    return equal;
}

/* The exit code that MPICH's launcher reports of a rank is a fact where the job failed with it, and
 * where the launcher killed that rank. */
static void code_of_a_rank(void **state)
{
    (void)state;
    static const struct {
        int exit_code;
        const char *line;
        bool masked;
    } row[] = {
        {11, "=   EXIT CODE: 11", true},
        {11, "=   EXIT CODE: 9", true},
        {9, "=   EXIT CODE: 9", true},
        {11, "=   EXIT CODE: 6", false},
        {0, "=   EXIT CODE: 9", false},
        {0, "=   EXIT CODE: 0", false},
        {11, "EXIT CODE: 11", false},
        {11, "x=   EXIT CODE: 11", false},
        {11, "=   EXIT CODE: 1111", false},
        {11, "=   EXIT CODE: 9.5", false},
        {11, "loss 11", false},
        {11, "=   EXIT CODE: 11 9", false},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct tw_facts f = when;
        f.exit_code = row[i].exit_code;
        char *masked = mask_with(row[i].line, &f);
        assert_non_null(masked);
        if ((strpbrk(masked, "0123456789") == NULL) != row[i].masked)
            fail_msg("%s, exit code %d: %s", row[i].line, row[i].exit_code, masked);
        free(masked);
    }
}

static void noise(void **state)
{
    (void)state;
    static const char *const pair[][2] = {
        {"2025-11-21 08:30:12,123 INFO loss 0.5", "2025-11-22 09:31:13,999 INFO loss 0.5"},
        {"2025-11-21 08:30:12 [4711] step 3 loss 0.5",
         "2025-11-21 08:30:15 [31307] step 3 loss 0.5"},
        {"[2025-11-21T08:30:12Z] ok", "[2025-11-22T23:59:59Z] ok"},
        {"Sat Nov 22 08:20:05 2025", "Sun Nov 23 18:20:05 2025"},
        {"I1121 08:30:12.345678 main", "I1121 08:31:12.000001 main"},
        {"epoch 1 took 12.3 s", "epoch 1 took 9.87 s"},
        {"epoch 1 (12.3s, 45.6 it/s)", "epoch 1 (1.3s, 5.6 it/s)"},
        {"100/100 - 10s 104ms/step - loss: 0.5", "100/100 - 9s 98ms/step - loss: 0.5"}, /* Keras */
        /* tqdm */
        {"10%|# | 10/100 [00:01<00:09,  9.87it/s, loss=0.5]",
         "10%|# | 10/100 [00:02<00:19,  4.87it/s, loss=0.5]"},
        {"10%|# | 10/100 [00:01<00:09,  1.87s/it]", "10%|# | 10/100 [00:02<00:19,  2.01s/it]"},
        {"{'train_runtime': 12.3, 'train_samples_per_second': 8.1, 'train_loss': 0.5}",
         "{'train_runtime': 11.9, 'train_samples_per_second': 8.4, 'train_loss': 0.5}"}, /* Hugging
                                                                                            Face */
        /* Lightning */
        {"Epoch 0: 100%|#| 10/10 [00:00<00:00, 123.45it/s, v_num=1]",
         "Epoch 0: 100%|#| 10/10 [00:00<00:00, 99.45it/s, v_num=0]"},
        {"Seed set to 1, log in lightning_logs/version_1", "Seed set to 1, log in "
                                                           "lightning_logs/version_0"},
        /* Ray */
        {"\033[36m(TrainController pid=4711)\033[0m [2025-11-21 08:30:12,123 E 4711 8494] "
         "core_worker.cc:2465: Actor with class name: 'PreemptionWatcher' and ID: "
         "'6d844f9b0b21cce0de71775701000000' has constructor arguments",
         "\033[36m(TrainController pid=31307)\033[0m [2025-11-21 09:30:12,124 E 31307 500] "
         "core_worker.cc:2465: Actor with class name: 'PreemptionWatcher' and ID: "
         "'433081b6515e68a216dfee2701000000' has constructor arguments"},
        {"(TrainController pid=4711) - (ip=127.0.0.1, pid=4711) world_rank=0, local_rank=0",
         "(TrainController pid=98) - (ip=127.0.0.1, pid=98) world_rank=0, local_rank=0"},
        /* DeepSpeed */
        {"[2025-11-21 08:30:12,123] [INFO] [logging.py:107:log_dist] [Rank 0] step=4, skipped=0, "
         "lr=[0.01], mom=[(0.9, 0.999)]",
         "[2025-11-21 09:31:13,999] [INFO] [logging.py:107:log_dist] [Rank 0] step=4, skipped=0, "
         "lr=[0.01], mom=[(0.9, 0.999)]"},
        {"<object at 0x7f8a1c2d3e40>", "<object at 0x7f0011223344>"},
        {"table 0x7f8a1c2d3e40 made", "table 0x7f0011223344 made"},
        {"heap at 0x12a5f20", "heap at 0x1ff5f20"},
        {"buffer (ptr=0x12a5f20)", "buffer (ptr=0x1ff5f20)"},
        {"saved to /tmp/tmpab12cd/model.pt", "saved to /tmp/tmpzz98yx/model.pt"},
        {"run id 1b4e28ba-2fa1-11d2-883f-0016d3cca427",
         "run id 6fa459ea-ee8a-4ca4-894e-db77e160355e"},
        {"worker pid 1234 ready", "worker pid 98 ready"},
        {"pid=1234", "pid=999999"},
        {"elapsed: 1m23s", "elapsed: 2m03s"},
        {"wall time 0.123", "wall time 9.5"},
        {"peak memory: 1,234.5 MB", "peak memory: 987.5 MB"},
        {"throughput: 12345", "throughput: 999"},
        {"started at 1763712000.123", "started at 1763712111.9"},
        {"shard_1763712000123456789.bin", "shard_1763712111000000001.bin"},
        {"listening on 127.0.0.1:29500", "listening on 127.0.0.1:40123"},
        {"time: 1.5e-3", "time: 7.25e-4"},
        {"cpuTime=3", "cpuTime=4"},
        {"1234 samples/sec", "999 samples/sec"},
        {"step 5 loss 0.25 (3.2 ms)", "step 5 loss 0.25 (3.9 ms)"},
    };
    for (size_t i = 0; i < sizeof pair / sizeof pair[0]; i++)
        if (!equal_masked(pair[i][0], pair[i][1])) {
            char *x = mask_with(pair[i][0], &when);
            fail_msg("not taken for noise: %s -> %s", pair[i][0], x);
        }
}

static void meaning(void **state)
{
    (void)state;
    static const char *const pair[][2] = {
        {"loss 0.5", "loss 0.50001"},
        {"loss: 2.302585", "loss: 2.302586"},
        {"step 10 loss=1.5e-05", "step 10 loss=1.6e-05"},
        {"{'loss': 0.69, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 1.0}",
         "{'loss': 0.70, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 1.0}"},
        {"accuracy: 97.2%", "accuracy: 97.3%"},
        {"acc 0.9123", "acc 0.9124"},
        {"max 0.9 min 0.1", "max 0.8 min 0.1"},
        {"42 of 100 correct", "43 of 100 correct"},
        {"perplexity 12.5", "perplexity 12.75"},
        {"time 1.2 loss 0.5", "time 1.9 loss 0.6"},
        {"loss 0.5 time 1.2", "loss 0.6 time 1.2"},
        {"100/100 - 10s 104ms/step - loss: 0.5", "100/100 - 10s 104ms/step - loss: 0.6"},
        {"timestep 5 x -1.25", "timestep 5 x 1.25"},
        {"weights digest 9f86d081884c7d659a2feaa0c55ad015",
         "weights digest 1f86d081884c7d659a2feaa0c55ad015"},
        {"loss nan", "loss 0.5"},
        {"epoch 3", "epoch 4"},
        {"checksum 1563712000", "checksum 1463712111"}, /* of another year than the run */
        {"1491518971247133590", "1435930439176522455"},
        {"1763712000", "1491518971"},
        {"crc 0x1a2b3c4d", "crc 0x1a2b3c4e"},
        {"digest 0x1a2b3c4d5e6f7081", "digest 0x1a2b3c4d5e6f7082"},
        {"0x1a2b3c4d", "0x1a2b3c4e"},
        {"mean -0.25 std 1.5", "mean 0.25 std 1.5"},
        {"[0.1, 0.2, 0.3]", "[0.1, 0.25, 0.3]"},
        {"reward: 195", "reward: 200"},
        {"ID: '6d844f9b0b21cce0de71775701abcdef'", "ID: '433081b6515e68a216dfee2701abcdef'"},
        {"sum '6d844f9b0b21cce0de71775701000000'", "sum '433081b6515e68a216dfee2701000000'"},
        {"[samples 4711 8494]", "[samples 4711 8500]"},
        {"[at E 5 8494]", "[at E 5 8500]"},
        {"[at E 4711 8494 ]", "[at E 4711 8500 ]"},
        {"[Rank 0] step=4, skipped=0, lr=[0.01]", "[Rank 0] step=4, skipped=1, lr=[0.01]"},
        {"metrics={'epoch': 0, 'loss': 239.6397705078125}, validation=False) from rank 0",
         "metrics={'epoch': 0, 'loss': 239.6397705078126}, validation=False) from rank 0"},
        {"rain 3.2 mm/day", "rain 3.3 mm/day"},
        {"push ups: 3", "push ups: 4"},
        {"block 0x7f8a1c2d3e41", "block 0x7f8b1c2d3e45"},
        {"sum 139985000000001", "sum 139985000000033"},
        {"tensor(0.1234, grad_fn=<MeanBackward0>)", "tensor(0.1235, grad_fn=<MeanBackward0>)"},
    };
    for (size_t i = 0; i < sizeof pair / sizeof pair[0]; i++)
        if (equal_masked(pair[i][0], pair[i][1]))
            fail_msg("taken for noise: %s", pair[i][0]);
}

/* A time stamp is near the time that the run saw: this machine's, or the one that it was shown. */
static void spans(void **state)
{
    (void)state;
    static const struct {
        struct twin_run run;
        const char *in, *out;
    } row[] = {
        {{.start_realtime_ns = 1795337134000000000, .wall_s = 10}, "1795337140", "1700000000"},
        {{.start_realtime_ns = 1795337134000000000, .wall_s = 1e7}, "1805337000", "1795200000"},
        {{.start_realtime_ns = 1795337134000000000, .shown_clock_s = 1700000000},
         "1700000003",
         "1750000000"},
        /* when a file was changed */
        {{.start_realtime_ns = 1795337134000000000, .shown_clock_s = 1700000000},
         "1795337140",
         "1600000000"},
        {{.start_realtime_ns = 1795337134000000000, .shown_clock_s = -1},
         "1234567890",
         "2234567890"},
        {{.start_realtime_ns = 0, .wall_s = NAN}, "0000000001", "1795337140"},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct tw_facts f;
        assert_true(tw_facts_load(&row[i].run, &f));
        char *in = mask_with(row[i].in, &f), *out = mask_with(row[i].out, &f);
        assert_string_equal(in, "~");
        assert_string_equal(out, row[i].out);
        free(in);
        free(out);
        tw_facts_free(&f);
    }
}

static void skeletons(void **state)
{
    (void)state;
    static const struct {
        const char *line, *skeleton;
    } row[] = {
        {"step 5 loss 0.25", "step # loss #"},
        {"loss nan", "loss #"},
        {"loss -inf", "loss #"},
        {"x1 y2", "x1 y2"},
        {"", ""},
        {"info banana", "info banana"},
        {"-1e-3,+2", "#,#"},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        char *s = tw_noise_mask(row[i].line, strlen(row[i].line), &when, TW_MASK_NUMBERS);
        assert_string_equal(s, row[i].skeleton);
        free(s);
    }
    assert_int_equal(tw_noise_step("epoch 3 step 12 loss 0.5"), 12);
    assert_int_equal(tw_noise_step("Epoch: 7/10"), 7);
    assert_int_equal(tw_noise_step("{'loss': 0.6, 'step': 40}"), 40);
    assert_int_equal(tw_noise_step("loss 0.5"), -1);
    assert_int_equal(tw_noise_step("timestep 5"), -1);
}

/* Any bytes: no crash, no hang, and what has no digit at all and no path stays as it is. */
static bool is_noise(const char *a, const char *b, const struct tw_facts *f)
{
    bool open = false;
    return tw_noise_equal(a, strlen(a), f, b, strlen(b), f, &open);
}

/* A time is noise when the run of two hours, on all its threads, can have had it, or its clock
 * shown it. */
static void durations(void **state)
{
    (void)state;
    struct tw_facts known = when;
    known.clock = 1e6;
    assert_true(is_noise("took 377 s", "took 412 s", &when));
    assert_false(is_noise("took 130 h", "took 2 h", &when));
    assert_false(is_noise("took 900000 s", "took 912345 s", &when));
    assert_false(is_noise("took 1000100.5 s", "took 1006000.25 s", &when));
    assert_true(is_noise("took 1000100.5 s", "took 1006000.25 s", &known));
    /* after the run's end */
    assert_false(is_noise("took 1000100.5 s", "took 1008000.25 s", &known));
    assert_false(is_noise("took 1000100.5 s", "took 999000.25 s", &known)); /* before its start */
}

static void any_bytes(void **state)
{
    (void)state;
    static const char alphabet[] = "0123456789.:-/ eE+xT~%#[]'\"=_,abnsf\t\xC2\xB5\xff";
    uint64_t seed = 7;
    for (int round = 0; round < 20000; round++) {
        char line[64];
        size_t n = 0;
        for (; n < 63; n++) {
            seed = tw_mix64(seed + 1);
            line[n] = alphabet[seed % (sizeof alphabet - 1)];
        }
        line[n] = '\0';
        char *mask = mask_with(line, &when);
        char *again = tw_noise_mask(mask, strlen(mask), &when, TW_MASK_NUMBERS);
        bool open;
        assert_non_null(mask);
        assert_non_null(again);
        assert_true(strlen(mask) <= n && strlen(again) <= n);
        tw_noise_step(line);
        tw_noise_equal(line, n, &when, mask, strlen(mask), &when, &open);
        tw_noise_alike(line, n, mask, strlen(mask));
        free(mask);
        free(again);
    }
}

static void ulp(void **state)
{
    (void)state;
    struct tw_exact e;
    float x[4] = {1, 0.0f, -1, 5}, y[4] = {nextafterf(nextafterf(1, 2), 2), -0.0f, -1, 5};
    assert_true(tw_exact_compare(x, y, 4, TWIN_F32, &e));
    assert_int_equal(e.changed, 2);
    assert_true(e.max_ulp == 2); /* +0 and -0 differ in bits, not in value */
    assert_true(e.rel_l2 > 0 && e.rel_l2 < 1e-6);
    double p[1] = {1}, q[1] = {nextafter(1, 0)};
    assert_true(tw_exact_compare(p, q, 1, TWIN_F64, &e) && e.max_ulp == 1);
    /* half: 1 and its neighbour, the two smallest subnormals */
    uint16_t h[2] = {0x3C00, 0x0001}, g[2] = {0x3C01, 0x8001};
    assert_true(tw_exact_compare(h, g, 2, TWIN_F16, &e) && e.max_ulp == 2 && e.changed == 2);
    assert_true(tw_exact_compare(h, g, 2, TWIN_BF16, &e) && e.changed == 2);
    float nan_a[1] = {NAN}, one[1] = {1};
    assert_true(tw_exact_compare(nan_a, one, 1, TWIN_F32, &e) && isinf(e.max_ulp));
    int64_t i[2] = {3, -4}, j[2] = {3, -5};
    assert_false(tw_exact_compare(i, j, 2, TWIN_I64, &e));
    assert_int_equal(e.changed, 1);
    assert_true(isnan(e.max_ulp) && fabs(e.rel_l2 - .2) < 1e-15);
    float complex_a[4] = {1, 2, 3, 4}, complex_b[4] = {1, 2, 3, nextafterf(4, 5)};
    assert_true(tw_exact_compare(complex_a, complex_b, 2, TWIN_C64, &e) && e.changed == 1 &&
                e.elements == 2 && e.max_ulp == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise),     cmocka_unit_test(meaning),        cmocka_unit_test(spans),
        cmocka_unit_test(skeletons), cmocka_unit_test(durations),      cmocka_unit_test(any_bytes),
        cmocka_unit_test(ulp),       cmocka_unit_test(code_of_a_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
