/* SPDX-License-Identifier: Apache-2.0 */
/* Two steps side by side: random insertions, deletions, changes and moves, of which the test keeps
 * the books itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "internal.h"
#include "match.h"
#include "synth.h"

#define MAX 120

struct item {
    int name;
    float value;
    bool only_a, only_b, changed, moved;
};

static uint64_t seed = 99;

static uint32_t draw(uint32_t below)
{
    seed = tw_mix64(seed + 0x9E3779B97F4A7C15u);
    return (uint32_t)(seed >> 20) % below;
}

static void write_items(struct twin_writer *w, const struct item *x, size_t n, bool unordered)
{
    for (size_t i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "r%d", x[i].name);
        synth_put(w,
                  (struct synth_record){.phase = TWIN_PHASE_FORWARD,
                                        .kind = TWIN_KIND_ACTIVATION,
                                        .name = name,
                                        .flags = unordered ? TWIN_REC_UNORDERED : 0},
                  (float[]){x[i].value, 1}, 2);
    }
    twin_writer_step_end(w);
}

/* Makes both views and their diff; the sides stay open for names. */
struct both {
    struct synth *s[2];
    struct tw_side side[2];
    struct tw_view view[2];
    struct tw_stepdiff d;
    struct tw_cmp c;
};

static void open_both(struct both *b, const struct item *x, size_t n, const struct item *y,
                      size_t m, bool unordered)
{
    static const struct twin_compare_options none;
    *b = (struct both){.c = {.o = &none}};
    for (size_t i = 0; i < 2; i++) {
        b->s[i] = synth_new("diff");
        write_items(synth_process(b->s[i], 0, 1, NULL), i ? y : x, i ? m : n, unordered);
        assert_int_equal(tw_side_open(&b->c, synth_done(b->s[i]), i, &b->side[i], NULL), 0);
        assert_int_equal(tw_view_load(&b->c, &b->side[i].proc[0], 0, 0, &b->view[i], NULL), 0);
    }
    assert_int_equal(tw_stepdiff_make(&b->c, &b->view[0], &b->view[1], &b->d), 0);
}

static void close_both(struct both *b)
{
    tw_stepdiff_free(&b->d);
    for (int i = 0; i < 2; i++) {
        tw_view_free(&b->view[i]);
        tw_side_close(&b->side[i]);
        synth_free(b->s[i]);
    }
}

static void count_types(const struct both *b, size_t count[9])
{
    memset(count, 0, 9 * sizeof *count);
    for (size_t i = 0; i < b->d.count; i++) {
        count[b->d.d[i].type]++;
        /* in execution order of the reference */
        assert_true(i == 0 || b->d.d[i - 1].at <= b->d.d[i].at);
    }
}

/* Names that occur once: every edit must come back as exactly what it was. */
static void every_edit_is_found(void **state)
{
    (void)state;
    for (int round = 0; round < 40; round++) {
        struct item a[MAX], b[2 * MAX];
        size_t n = 10 + draw(80), m = 0, want[9] = {0}, count[9];
        for (size_t i = 0; i < n; i++)
            a[i] = (struct item){.name = (int)i, .value = (float)draw(1000)};
        for (size_t i = 0; i < n; i++) {
            uint32_t dice = draw(20);
            if (dice == 0) {
                want[TWIN_FINDING_ONLY_A]++;
                continue;
            }
            b[m++] = a[i];
            if (dice == 1) {
                b[m - 1].value += 5000;
                want[TWIN_FINDING_VALUE]++;
            } else if (dice == 2) {
                b[m++] = (struct item){.name = 1000 + (int)i, .value = 1};
                want[TWIN_FINDING_ONLY_B]++;
            }
        }
        struct both two;
        open_both(&two, a, n, b, m, round % 2);
        count_types(&two, count);
        for (int t = 0; t < 9; t++)
            assert_int_equal(count[t], want[t]);
        assert_int_equal(two.d.equal, n - want[TWIN_FINDING_ONLY_A] - want[TWIN_FINDING_VALUE]);
        close_both(&two);
    }
}

/* How many records hold another value than the n-th of their name does in the other list. */
static size_t other_at_its_place(const struct item *a, const struct item *b, size_t n)
{
    size_t other = 0;
    for (size_t i = 0; i < n; i++) {
        size_t nth = 0, j = 0;
        for (size_t k = 0; k < i; k++)
            nth += a[k].name == a[i].name;
        for (; b[j].name != a[i].name || nth > 0; j++)
            nth -= b[j].name == a[i].name;
        other += a[i].value != b[j].value;
    }
    return other;
}

/* The same records in any order: where they were declared unordered that is no difference at all.
 * Else the n-th of a name is held against the n-th, and only what stands elsewhere among other
 * names has merely moved. */
static void shuffled_records(void **state)
{
    (void)state;
    for (int round = 0; round < 30; round++) {
        struct item a[MAX], b[MAX];
        size_t n = 2 + draw(60), count[9];
        for (size_t i = 0; i < n; i++)
            /* names and values repeat */
            b[i] = a[i] = (struct item){.name = (int)draw(8), .value = (float)draw(4)};
        for (size_t i = n; i > 1; i--) {
            size_t j = draw((uint32_t)i);
            struct item keep = b[i - 1];
            b[i - 1] = b[j];
            b[j] = keep;
        }
        struct both two;
        open_both(&two, a, n, b, n, round % 2);
        count_types(&two, count);
        size_t other = round % 2 ? 0 : other_at_its_place(a, b, n);
        assert_int_equal(count[TWIN_FINDING_VALUE], other);
        assert_int_equal(two.d.count, other + count[TWIN_FINDING_ORDER]);
        assert_int_equal(two.d.equal, n - other);
        if (round % 2)
            assert_int_equal(two.d.count, 0);
        close_both(&two);
    }
}

/* An evaluation inserted in front of records of the same names does not shift those behind it. */
static void inserted_stretch(void **state)
{
    (void)state;
    struct item a[6], b[9];
    size_t count[9];
    for (int i = 0; i < 6; i++)
        a[i] = (struct item){.name = i % 3, .value = (float)i};
    for (int i = 0; i < 3; i++)
        b[i] = (struct item){.name = i, .value = 100 + (float)i};
    memcpy(b + 3, a, sizeof a);
    struct both two;
    open_both(&two, a, 6, b, 9, false);
    count_types(&two, count);
    assert_int_equal(two.d.count, 3);
    assert_int_equal(count[TWIN_FINDING_ONLY_B], 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(two.d.d[i].b, i);
    close_both(&two);
}

/* Behind the end of an unfinished trace nothing is known; before it everything is. */
static void partial_views(void **state)
{
    (void)state;
    struct item a[6], b[4];
    size_t count[9];
    for (int i = 0; i < 6; i++)
        a[i] = (struct item){.name = i, .value = 1};
    b[0] = a[0];
    b[1] = a[2]; /* a[1] is missing for certain: something after it was recorded */
    b[2] = a[3];
    struct both two;
    open_both(&two, a, 6, b, 3, false);
    tw_stepdiff_free(&two.d);
    two.view[1].partial = true;
    assert_int_equal(tw_stepdiff_make(&two.c, &two.view[0], &two.view[1], &two.d), 0);
    count_types(&two, count);
    assert_int_equal(two.d.count, 1);
    assert_int_equal(two.d.d[0].a, 1);
    tw_stepdiff_free(&two.d);
    two.view[1].dropped = 1; /* in a gap nothing that is missing is a finding */
    assert_int_equal(tw_stepdiff_make(&two.c, &two.view[0], &two.view[1], &two.d), 0);
    assert_int_equal(two.d.count, 0);
    close_both(&two);
}

/* ---- dropped records: what is left is held against its own number */

struct loss {
    bool a[MAX], b[MAX];
}; /* which records of a list are dropped */

static bool not_lost(const struct tw_view *v, const struct tw_rec *r, void *user)
{
    const bool *lost = user;
    (void)v;
    return !lost[r->seq - 1];
}

static void drop_some(struct both *two, struct loss *l)
{
    tw_stepdiff_free(&two->d);
    tw_view_filter(&two->view[0], not_lost, l->a);
    tw_view_filter(&two->view[1], not_lost, l->b);
    two->view[0].dropped = two->view[1].dropped = 1;
    assert_int_equal(tw_stepdiff_make(&two->c, &two->view[0], &two->view[1], &two->d), 0);
}

/* Any records dropped on either side: exactly those that differ and were kept on both sides are
 * found. */
static void dropped_anywhere(void **state)
{
    (void)state;
    for (int round = 0; round < 60; round++) {
        struct item a[MAX], b[MAX];
        struct loss l = {{0}, {0}};
        size_t n = 10 + draw(100), other = 0, kept = 0, count[9];
        for (size_t i = 0; i < n; i++) {
            b[i] = a[i] = (struct item){.name = (int)draw(5), .value = (float)draw(4)};
            if (draw(10) == 0)
                b[i].value += 100;
            l.a[i] = draw(3) == 0;
            l.b[i] = draw(3) == 0;
            kept += !l.a[i] && !l.b[i];
            other += !l.a[i] && !l.b[i] && a[i].value != b[i].value;
        }
        struct both two;
        open_both(&two, a, n, b, n, false);
        drop_some(&two, &l);
        count_types(&two, count);
        assert_int_equal(count[TWIN_FINDING_VALUE], other);
        assert_int_equal(two.d.count, other);
        assert_int_equal(two.d.equal, kept - other);
        close_both(&two);
    }
}

/* Another value of a name whose other records were dropped in the middle: it is that one, and not
 * its neighbour. */
static void dropped_in_the_middle(void **state)
{
    (void)state;
    struct item a[20], b[20];
    struct loss l = {{0}, {0}};
    for (int i = 0; i < 20; i++)
        b[i] = a[i] = (struct item){.name = i == 19, .value = (float)(i / 3)};
    b[19].value = 77;
    for (int i = 5; i < 12; i++)
        l.a[i] = true;
    for (int i = 8; i < 16; i++)
        l.b[i] = true;
    struct both two;
    open_both(&two, a, 20, b, 20, false);
    drop_some(&two, &l);
    assert_int_equal(two.d.count, 1);
    assert_string_equal(tw_rec_name(&two.view[0], &two.view[0].rec[two.d.d[0].a]), "r1");
    close_both(&two);
}

/* One arm did more of a name, and records were dropped: which is the n-th is not known, and nothing
 * is found. */
static void dropped_between_arms(void **state)
{
    (void)state;
    static const struct twin_compare_options arms = {.arms = true};
    struct item a[6], b[7];
    struct loss l = {{0}, {0}};
    for (int i = 0; i < 6; i++)
        b[i + 1] = a[i] = (struct item){.name = 0, .value = (float)i};
    b[0] = (struct item){.name = 0, .value = 50};
    l.b[0] = true;
    struct both two;
    open_both(&two, a, 6, b, 7, false);
    two.c.o = &arms;
    two.view[0].total = 6;
    two.view[1].total = 7;
    drop_some(&two, &l);
    assert_int_equal(two.d.count, 0);
    assert_int_equal(two.d.equal, 6);
    two.view[1].total = 6; /* equally many: the numbers count, and tell them apart */
    tw_stepdiff_free(&two.d);
    assert_int_equal(tw_stepdiff_make(&two.c, &two.view[0], &two.view[1], &two.d), 0);
    assert_int_equal(two.d.count, 5);
    close_both(&two);
}

/* The inverse of an odd number, by Newton's iteration: each round doubles the bits that are right.
 */
static uint64_t inverse(uint64_t x)
{
    uint64_t y = x;
    for (int i = 0; i < 6; i++)
        y *= 2 - x * y;
    return y;
}

/* The x that tw_mix64() makes y of. */
static uint64_t unmixed(uint64_t y)
{
    y ^= y >> 31 ^ y >> 62;
    y *= inverse(0x94D049BB133111EBu);
    y ^= y >> 27 ^ y >> 54;
    y *= inverse(0xBF58476D1CE4E5B9u);
    return y ^ y >> 30 ^ y >> 60;
}

/* Two names of which one side has more are aligned by a hash of name and contents. A file can be
 * made such that a record of one name has the hash of a record of the other: these are no pair. */
static void made_to_collide(void **state)
{
    (void)state;
    const struct item a[] = {{.name = 1, .value = 1}, {.name = 1, .value = 2}, {.name = 2}};
    const struct item b[] = {{.name = 2, .value = 3}, {.name = 2, .value = 4}, {.name = 1}};
    struct both two;
    struct tw_match m;
    open_both(&two, a, 3, b, 3, false);
    struct tw_rec *x = two.view[0].rec, *y = two.view[1].rec;
    assert_int_equal(tw_mix64(unmixed(99)), 99);
    y[0].content = unmixed(x[0].token ^ y[0].token ^ tw_mix64(x[0].content));
    assert_int_equal(tw_mix64(x[0].token ^ tw_mix64(x[0].content)),
                     tw_mix64(y[0].token ^ tw_mix64(y[0].content)));
    assert_int_equal(tw_match_init(&m, 3, 3), 0);
    assert_int_equal(tw_match_records(&two.c, &two.view[0], &two.view[1], &m), 0);
    for (size_t i = 0; i < 3; i++) {
        assert_true(m.to_b[i] == TW_NONE || x[i].token == y[m.to_b[i]].token);
        assert_true(m.to_b[i] == TW_NONE || m.to_a[m.to_b[i]] == i);
    }
    assert_int_not_equal(m.to_b[2], TW_NONE);
    tw_match_fini(&m);
    close_both(&two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_edit_is_found),  cmocka_unit_test(shuffled_records),
        cmocka_unit_test(inserted_stretch),     cmocka_unit_test(partial_views),
        cmocka_unit_test(dropped_anywhere),     cmocka_unit_test(dropped_in_the_middle),
        cmocka_unit_test(dropped_between_arms), cmocka_unit_test(made_to_collide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
