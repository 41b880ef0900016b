/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMPARE_TEST_H
#define COMPARE_TEST_H
/*
 * Shared by the tests of verdicts: a comparison of two synthetic runs, and what is expected of it.
 */
#include "src/compare/compare.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "synth.h"

static inline struct twin_verdict *compare(struct synth *a, struct synth *b,
                                           const struct twin_compare_options *o)
{
    const struct twin_run *runs[2] = {synth_done(a), synth_done(b)};
    struct twin_verdict *v = NULL;
    struct twin_error err = TWIN_ERROR_INIT;
    if (twin_compare(runs, 2, o, &v, &err) != 0)
        fail_msg("twin_compare: %s", err.message);
    return v;
}

static inline void explain(const struct twin_verdict *v)
{
    fprintf(stderr, "outcome %s\n", twin_verdict_name(v->outcome));
    if (v->first)
        fprintf(stderr,
                "first step %u phase %d kind %d name %s op %s text %s role %d layer %s equal %s\n",
                v->first->step_a, v->first->phase, v->first->kind, v->first->name, v->first->op,
                v->first->text, v->first->role, v->first->layer, v->equal_before);
    for (size_t i = 0; i < v->unseen_count; i++)
        fprintf(stderr, "unseen: %s\n", v->unseen[i]);
    for (size_t i = 0; i < v->note_count; i++)
        fprintf(stderr, "note: %s\n", v->notes[i]);
    for (size_t i = 0; i < v->benign_count; i++)
        fprintf(stderr, "benign: %s\n", v->benign[i].text);
}

static inline void expect_outcome(const struct twin_verdict *v, enum twin_verdict_outcome outcome)
{
    if (v->outcome != outcome)
        explain(v);
    assert_string_equal(twin_verdict_name(v->outcome), twin_verdict_name(outcome));
}

static inline void expect_place(const struct twin_verdict *v, uint32_t step, enum twin_phase phase,
                                enum twin_kind kind, const char *name)
{
    expect_outcome(v, TWIN_DIFFER);
    assert_non_null(v->first);
    if (v->first->step_a != step || v->first->phase != phase || v->first->kind != kind ||
        strcmp(v->first->name, name) != 0)
        explain(v);
    assert_int_equal(v->first->step_a, step);
    assert_int_equal(v->first->phase, phase);
    assert_int_equal(v->first->kind, kind);
    assert_string_equal(v->first->name, name);
    assert_true(v->origin_count >= 1);
    assert_string_equal(v->origins[0].name, name);
}

/* The same, of an origin. */
static inline void expect_first(const struct twin_verdict *v, uint32_t step, enum twin_phase phase,
                                enum twin_kind kind, const char *name)
{
    expect_place(v, step, phase, kind, name);
    assert_int_equal(v->first->role, TWIN_ORIGIN);
}

/* The same, of a place that is no origin: the difference was made behind `from`. */
static inline void expect_behind(const struct twin_verdict *v, uint32_t step, enum twin_phase phase,
                                 enum twin_kind kind, const char *name, const char *from)
{
    expect_place(v, step, phase, kind, name);
    assert_int_equal(v->first->role, TWIN_ROLE_UNKNOWN);
    assert_string_equal(v->first->between[0], from);
}

static inline bool has_note(const struct twin_verdict *v, const char *part)
{
    for (size_t i = 0; i < v->note_count; i++)
        if (strstr(v->notes[i], part))
            return true;
    return false;
}

static inline bool has_unseen(const struct twin_verdict *v, const char *part)
{
    for (size_t i = 0; i < v->unseen_count; i++)
        if (strstr(v->unseen[i], part))
            return true;
    return false;
}

/* Each expects one whole sentence, with its numbers and names. */
static inline void expect_note(const struct twin_verdict *v, const char *text)
{
    for (size_t i = 0; i < v->note_count; i++)
        if (strcmp(v->notes[i], text) == 0)
            return;
    explain(v);
    fail_msg("no note says: %s", text);
}

static inline void expect_reason(const struct twin_verdict *v, const char *text)
{
    for (size_t i = 0; i < v->unseen_count; i++)
        if (strcmp(v->unseen[i], text) == 0)
            return;
    explain(v);
    fail_msg("no reason says: %s", text);
}

static inline void expect_benign(const struct twin_verdict *v, const char *text)
{
    for (size_t i = 0; i < v->benign_count; i++)
        if (strcmp(v->benign[i].text, text) == 0)
            return;
    explain(v);
    fail_msg("nothing benign says: %s", text);
}

static inline uint32_t onset(const struct twin_verdict *v, const char *what)
{
    for (size_t i = 0; i < v->onset_count; i++)
        if (strcmp(v->onsets[i].what, what) == 0)
            return v->onsets[i].step;
    return UINT32_MAX;
}

/* Two runs of the model, the second one disturbed. */
static inline struct twin_verdict *disturbed(uint32_t steps, enum synth_place place, uint32_t step,
                                             int param, float by,
                                             void (*change)(struct synth_model *))
{
    struct synth_model x, y;
    synth_model_init(&x, steps);
    if (change)
        change(&x);
    y = x;
    y.disturb[0].place = place;
    y.disturb[0].step = step;
    y.disturb[0].param = param;
    y.disturb[0].by = by;
    y.disturbances = 1;
    struct synth *a = synth_train_run("a", &x), *b = synth_train_run("b", &y);
    struct twin_verdict *v = compare(a, b, NULL);
    synth_free(a);
    synth_free(b);
    return v;
}
#endif
