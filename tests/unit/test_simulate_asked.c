/* SPDX-License-Identifier: Apache-2.0 */
/* What a simulation was asked, from the words of the options (src/study/simulate.h). */
#include "simulate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base.h"

/* A network that is given, so that nothing is measured. */
static struct tw_simulate_args usual(void)
{
    return (struct tw_simulate_args){.alpha = "5us",
                                     .beta = "0.08ns",
                                     .jitter = "1us",
                                     .draw = "normal",
                                     .type = "f32",
                                     .placement = "random"};
}

static struct tw_simulation understood(const struct tw_simulate_args *a)
{
    struct tw_simulation s = {.args = a};
    struct twin_error err = TWIN_ERROR_INIT;
    if (tw_simulate_understand(&s, &err) != 0)
        fail_msg("%s", err.message);
    return s;
}

static void refused(const struct tw_simulate_args *a, const char *why)
{
    struct tw_simulation s = {.args = a};
    struct twin_error err = TWIN_ERROR_INIT;
    assert_int_equal(tw_simulate_understand(&s, &err), TWIN_EINVAL);
    if (!strstr(err.message, why))
        fail_msg("expected \"%s\", found \"%s\"", why, err.message);
}

static void jitter_is(const char *text, enum twin_jitter kind, double seconds)
{
    struct tw_simulate_args a = usual();
    a.jitter = text;
    const struct tw_simulation s = understood(&a);
    assert_int_equal(s.net.jitter, kind);
    assert_true(fabs(s.net.jitter_s - seconds) <= 1e-12 * seconds);
}

static void test_networks(void **state)
{
    (void)state;
    struct tw_simulate_args a = usual();
    struct tw_simulation s = understood(&a);
    assert_true(fabs(s.net.alpha_s - 5e-6) < 1e-18);
    assert_true(fabs(s.net.beta_s - 8e-11) < 1e-22);
    assert_false(s.measured_alpha || s.measured_beta);
    jitter_is("1us", TWIN_JITTER_EXPONENTIAL, 1e-6);
    jitter_is("1.5 ms", TWIN_JITTER_EXPONENTIAL, 1.5e-3);
    jitter_is("exponential:2us", TWIN_JITTER_EXPONENTIAL, 2e-6);
    jitter_is("uniform:2s", TWIN_JITTER_UNIFORM, 2);
    jitter_is("0", TWIN_JITTER_NONE, 0);
    jitter_is("uniform:0", TWIN_JITTER_NONE, 0);
    static const char *const wrong[] = {"", "1", "1 us s", "-1us", "normal:1us", "nan s", "1h"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        a = usual();
        a.jitter = wrong[i];
        refused(&a, "--jitter: expected a time");
    }
    a = usual();
    a.alpha = "5";
    refused(&a, "--alpha: expected a time such as 5us, found \"5\"");
    a = usual();
    a.beta = "fast";
    refused(&a, "--beta: expected a time for each byte");
}

static void test_algorithms(void **state)
{
    (void)state;
    static const char *named[3] = {"tree", "ring", "tree"};
    struct tw_simulate_args a = usual();
    struct tw_simulation s = understood(&a);
    assert_int_equal(s.count, 1);
    assert_int_equal(s.of[0].algorithm, TWIN_RING);
    a.algorithm = (struct tw_strings){named, 3};
    s = understood(&a);
    assert_int_equal(s.count, 2); /* each once, in their own order */
    assert_int_equal(s.of[0].algorithm, TWIN_RING);
    assert_int_equal(s.of[1].algorithm, TWIN_TREE);
    named[1] = "all";
    assert_int_equal(understood(&a).count, TWIN_ALGORITHMS);
    named[2] = "star";
    refused(&a, "arrival, rank-order or all, found \"star\"");
}

static void test_numbers(void **state)
{
    (void)state;
    static const char *tensors[1] = {"w"};
    struct tw_simulate_args a = usual();
    a.placement = "fixed";
    a.draw = "wide";
    assert_false(understood(&a).random_placement);
    assert_true(understood(&a).wide);
    a.tensor = (struct tw_strings){tensors, 1};
    refused(&a, "--tensor belongs to --data FILE");
    a = usual();
    a.draw = "cauchy";
    refused(&a, "--draw: expected normal or wide");
    a = usual();
    a.placement = "packed";
    refused(&a, "--placement: expected random or fixed");
    a = usual();
    a.type = "i8";
    refused(&a, "--type: expected f64, f32, f16 or bf16, found \"i8\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_networks),
        cmocka_unit_test(test_algorithms),
        cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
