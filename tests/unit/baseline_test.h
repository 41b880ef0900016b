/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASELINE_TEST_H
#define BASELINE_TEST_H
/* Shared by the tests of baselines: one of two synthetic runs, read back from its file, and a run
 * held against it. */
#include "src/compare/baseline.h"

#include "base.h"
#include "compare_test.h"

static inline struct twin_baseline *make(struct synth *a, struct synth *b,
                                         const struct twin_compare_options *o)
{
    const struct twin_run *runs[2] = {synth_done(a), b ? synth_done(b) : NULL};
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_baseline *x = NULL;
    if (twin_baseline_make(runs, b ? 2 : 1, o, "1.2.3", &x, &err) != 0)
        fail_msg("twin_baseline_make: %s", err.message);
    return x;
}

__attribute__((noinline, unused)) static char *text_of(const struct twin_baseline *b)
{
    char *text = NULL;
    assert_int_equal(twin_baseline_write(b, &text, NULL), 0);
    return text;
}

/* Through the file: what is judged by was read. */
static inline struct twin_baseline *again(struct twin_baseline *b)
{
    struct twin_error err = TWIN_ERROR_INIT;
    char *text = text_of(b), *second;
    struct twin_baseline *x = NULL;
    if (twin_baseline_read(text, strlen(text), "base.json", &x, &err) != 0)
        fail_msg("twin_baseline_read: %s", err.message);
    second = text_of(x);
    assert_string_equal(text, second);
    tw_free(text);
    tw_free(second);
    twin_baseline_free(b);
    return x;
}

static inline struct twin_verdict *judge(const struct twin_baseline *b, struct synth *s,
                                         const struct twin_compare_options *o)
{
    struct twin_verdict *v = NULL;
    struct twin_error err = TWIN_ERROR_INIT;
    if (twin_baseline_judge(b, synth_done(s), o, &v, &err) != 0)
        fail_msg("twin_baseline_judge: %s", err.message);
    return v;
}

static inline struct synth *run_of(uint32_t steps, enum synth_place place, uint32_t step, float by)
{
    struct synth_model m;
    synth_model_init(&m, steps);
    m.disturb[0].place = place;
    m.disturb[0].step = step;
    m.disturb[0].by = by;
    m.disturbances = by != 0;
    return synth_train_run("run", &m);
}

static inline struct twin_baseline *baseline_of(uint32_t steps)
{
    struct synth *a = run_of(steps, AT_BATCH, 0, 0), *b = run_of(steps, AT_BATCH, 0, 0);
    struct twin_baseline *x = again(make(a, b, NULL));
    synth_free(a);
    synth_free(b);
    return x;
}
#endif
