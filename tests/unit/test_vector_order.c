/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The causal order of events against what it is defined by: one event comes before another when a
 * path leads there, over the events of one process in their order and from who gives to who takes.
 * Here that path is looked for step by step, over all pairs.
 */
#include "vector_order.h"

#include "base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { EVENTS_MOST = 160, PROCESSES_MOST = 7, MATCHES_MOST = 60, CASES = 4000 };

static uint64_t state = 1;

static uint32_t draw(uint32_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 33) % below;
}

struct world {
    struct tw_event event[EVENTS_MOST];
    size_t start[PROCESSES_MOST + 1];
    struct tw_events e;
    bool reach[EVENTS_MOST][EVENTS_MOST];
};

/* The events of a run that was made: process by process, what takes only takes what was given. */
static void make_possible(struct world *w)
{
    struct {
        uint32_t process, time;
        struct tw_event event;
    } all[EVENTS_MOST];
    uint32_t given[MATCHES_MOST] = {0};
    const uint32_t processes = 1 + draw(PROCESSES_MOST), events = draw(EVENTS_MOST);
    for (uint32_t i = 0; i < events; i++) {
        const uint32_t match = draw(MATCHES_MOST);
        all[i].process = draw(processes);
        all[i].event = (struct tw_event){.match = match, .act = (uint8_t)draw(3)};
        /* who gives behind a take would make the take wait: all gives come first */
        if (all[i].event.act == TW_ACT_GIVE && given[match] == 2)
            all[i].event.act = TW_ACT_NONE;
        if (all[i].event.act == TW_ACT_TAKE)
            given[match] = 2;
    }
    memset(w, 0, sizeof *w);
    size_t n = 0;
    for (uint32_t p = 0; p < processes; p++) {
        w->start[p] = n;
        for (uint32_t i = 0; i < events; i++)
            if (all[i].process == p)
                w->event[n++] = all[i].event;
    }
    w->start[processes] = n;
    w->e = (struct tw_events){w->event, w->start, processes, MATCHES_MOST};
}

/* Any events at all: many of these no run can have made. */
static void make_any(struct world *w)
{
    const uint32_t processes = 1 + draw(PROCESSES_MOST), events = draw(EVENTS_MOST / 4);
    memset(w, 0, sizeof *w);
    for (uint32_t i = 0; i < events; i++)
        w->event[i] = (struct tw_event){.match = draw(12), .act = (uint8_t)draw(3)};
    for (uint32_t p = 1; p < processes; p++)
        w->start[p] = draw(events + 1);
    for (uint32_t p = 1; p < processes; p++)
        for (uint32_t q = p; q > 1 && w->start[q] < w->start[q - 1]; q--) {
            const size_t x = w->start[q];
            w->start[q] = w->start[q - 1];
            w->start[q - 1] = x;
        }
    w->start[processes] = events;
    w->e = (struct tw_events){w->event, w->start, processes, 12};
}

/* Warshall's closure over the edges as they are defined. Returns whether there is a circle. */
static bool find_paths(struct world *w)
{
    const size_t n = w->start[w->e.processes];
    bool circle = false;
    for (size_t p = 0; p < w->e.processes; p++)
        for (size_t i = w->start[p]; i + 1 < w->start[p + 1]; i++)
            w->reach[i][i + 1] = true;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            w->reach[i][j] |= w->event[i].act == TW_ACT_GIVE && w->event[j].act == TW_ACT_TAKE &&
                              w->event[i].match == w->event[j].match;
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; w->reach[i][k] && j < n; j++)
                w->reach[i][j] |= w->reach[k][j];
    for (size_t i = 0; i < n; i++)
        circle |= w->reach[i][i];
    return circle;
}

/* Asks for every event, or for some of them, some twice. Returns whether it was a circle. */
static bool agrees_with_paths(struct world *w)
{
    struct tw_causal o;
    size_t point[EVENTS_MOST] = {0}, points = 0;
    const size_t n = w->start[w->e.processes];
    const bool circle = find_paths(w), every = draw(2);
    for (size_t i = 0; i < n && points < EVENTS_MOST; i++)
        if (every || draw(4) == 0)
            point[points++] = i;
    if (points && points < EVENTS_MOST && !every) {
        point[points] = point[draw((uint32_t)points)];
        points++;
    }
    assert_int_equal(tw_causal_make(&w->e, point, points, &o, NULL), 0);
    assert_int_equal(o.circular, circle);
    for (size_t i = 0; i < points; i++)
        for (size_t j = 0; j < points; j++)
            assert_int_equal(tw_causal_before(&o, i, j), !circle && w->reach[point[i]][point[j]]);
    tw_causal_free(&o);
    return circle;
}

static void as_paths_say(void **unused)
{
    static struct world w;
    size_t circles = 0;
    (void)unused;
    for (int i = 0; i < CASES; i++) {
        make_possible(&w);
        assert_false(agrees_with_paths(&w));
        make_any(&w);
        circles += agrees_with_paths(&w);
    }
    /* both sorts were among them */
    assert_true(circles > CASES / 20 && circles < CASES - CASES / 20);
}

static void limits_are_errors(void **unused)
{
    static struct world w;
    struct tw_causal o;
    struct twin_error err = TWIN_ERROR_INIT;
    const size_t point[2] = {0, 1};
    const size_t bytes = tw_causal_bytes, work = tw_causal_work;
    (void)unused;
    w = (struct world){.event = {{0, TW_ACT_GIVE}, {0, TW_ACT_TAKE}}, .start = {0, 1, 2}};
    w.e = (struct tw_events){w.event, w.start, 2, 1};
    tw_causal_bytes = 20; /* two clocks of two components take 16, a third one for the match 8 */
    assert_int_equal(tw_causal_make(&w.e, point, 2, &o, &err), TWIN_ELIMIT);
    assert_string_equal(err.message, "more events of ranks than are put in order");
    assert_null(o.before);
    tw_causal_bytes = bytes;
    tw_causal_work = 3;
    assert_int_equal(tw_causal_make(&w.e, point, 2, &o, NULL), TWIN_ELIMIT);
    tw_causal_work = work;
    assert_int_equal(tw_causal_make(&w.e, point, 2, &o, NULL), 0);
    assert_true(tw_causal_before(&o, 0, 1));
    assert_false(tw_causal_before(&o, 1, 0));
    tw_causal_free(&o);
}

static void without_memory(void **unused)
{
    static struct world w;
    struct tw_causal o;
    const size_t point[2] = {0, 1};
    int rc = TWIN_ENOMEM;
    (void)unused;
    w = (struct world){.event = {{0, TW_ACT_GIVE}, {0, TW_ACT_TAKE}}, .start = {0, 1, 2}};
    w.e = (struct tw_events){w.event, w.start, 2, 1};
    for (uint64_t n = 1; rc != 0; n++) {
        tw_alloc_fail_at(n, false);
        rc = tw_causal_make(&w.e, point, 2, &o, NULL);
        tw_alloc_fail_at(0, false);
        assert_true(n < 20 && (rc == 0 || rc == TWIN_ENOMEM));
    }
    tw_causal_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_paths_say),
        cmocka_unit_test(limits_are_errors),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
