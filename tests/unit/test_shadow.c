/* SPDX-License-Identifier: Apache-2.0 */
/* Which runs are drawn to be repeated, and in which order: from ledgers that are filled by hand. */
#include "src/shadow/shadow_inside.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static char home[64];

static int enter(void **state)
{
    (void)state;
    unsetenv("TWINRUN_LEDGER");
    snprintf(home, sizeof home, "/tmp/twin-shadow-XXXXXX");
    assert_non_null(mkdtemp(home));
    return 0;
}

static int leave(void **state)
{
    (void)state;
    tw_remove_tree(home, NULL, NULL);
    return 0;
}

static struct twin_ledger *open_ledger(void)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_ledger *l = NULL;
    if (twin_ledger_open(home, NULL, &l, &err) != 0)
        fail_msg("%s", err.message);
    return l;
}

/* Run number n: its id has that number in its first digits. */
static void id_of(unsigned n, char id[33])
{
    snprintf(id, 33, "%016x%016x", n, n);
}

static void put_run(struct twin_ledger *l, unsigned n, const char *command, const char *label,
                    const char *state)
{
    char id[33], name[16];
    id_of(n, id);
    snprintf(name, sizeof name, "r%u", n);
    const struct twin_ledger_run r = {.id = id,
                                      .name = name,
                                      .home = "",
                                      .label = label,
                                      .command = command,
                                      .argv = "[]",
                                      .host = "h",
                                      .state = state,
                                      .start_ns = n,
                                      .wall_s = 1};
    assert_int_equal(twin_ledger_put_run(l, &r, NULL, 0, NULL), 0);
    const struct twin_ledger_facts f = {.run_id = id, .project = n % 2 ? "odd" : "even"};
    assert_int_equal(twin_ledger_put_facts(l, &f, NULL), 0);
}

static void put_comparison(struct twin_ledger *l, unsigned number, const char *verb, unsigned a,
                           unsigned b)
{
    char id[33], first[33], second[33];
    snprintf(id, sizeof id, "%032x", 0x1000 + number);
    id_of(a, first);
    id_of(b, second);
    const char *const runs[] = {first, second};
    const enum twin_ledger_agreed agreed[] = {TWIN_AGREED_NOT_SAID, TWIN_AGREED};
    const struct twin_ledger_comparison c = {.id = id,
                                             .time_ns = 1,
                                             .verb = verb,
                                             .command = "c",
                                             .outcome = "same",
                                             .first_step = -1,
                                             .repeats = true,
                                             .checkpoints = {.compared = -1},
                                             .run_id = runs,
                                             .agreed = agreed,
                                             .run_count = 2};
    assert_int_equal(twin_ledger_put_comparison(l, &c, NULL), 0);
}

/* The numbers of the runs in the order in which they are chosen, "3 1 ". */
static void order_of(struct shadow_runs *all, const struct tw_shadow_asked *a, char out[256])
{
    struct shadow_run *r;
    out[0] = '\0';
    tw_shadow_draw(all, a);
    while ((r = tw_shadow_next(all, a))) {
        strcat(out, r->name + 1);
        strcat(out, " ");
        r->done = true;
        r->of->compared++;
    }
    for (size_t i = 0; i < all->count; i++)
        all->run[i].done = false;
}

static void fill(struct twin_ledger *l)
{
    put_run(l, 1, "a", "", "ok");
    put_run(l, 2, "a", "", "ok");
    put_run(l, 3, "b", "", "ok");
    put_run(l, 4, "b", "", "exit 1");  /* did not end well */
    put_run(l, 5, "b", "", "stopped"); /* cut */
    put_run(l, 6, "c", "lab", "ok");   /* of the lab */
    put_run(l, 7, "c", "", "ok");      /* of a check */
    put_run(l, 8, "d", "", "ok");      /* looked at by diff */
    put_run(l, 9, "e", "", "ok");      /* answered */
    put_run(l, 10, "e", "shadow-0000000000000009", "ok");
    put_run(l, 11, "b", "shadow-0000000000000003", "interrupted");
    put_run(l, 12, "a", "shadow-0000000000000001", "ok"); /* ended, not compared */
    put_comparison(l, 1, "check", 7, 6);
    put_comparison(l, 2, "diff", 3, 8);
    put_comparison(l, 3, "shadow", 9, 10);
}

static void test_order(void **state)
{
    (void)state;
    struct twin_ledger *l = open_ledger();
    struct shadow_runs all;
    struct twin_error err = TWIN_ERROR_INIT;
    char order[256];
    fill(l);
    assert_int_equal(tw_shadow_runs_load(l, "", &all, &err), 0);
    const struct tw_shadow_asked every = {.share = 1, .seed = ""};
    order_of(&all, &every, order);
    /* d was compared once; then b and a, neither compared, the newest first, a once more behind */
    assert_string_equal(order, "3 2 8 1 ");
    assert_int_equal(all.run[2].cut, 1);
    assert_int_equal(all.run[0].ended, 11);
    assert_int_equal(all.run[1].ended, SIZE_MAX);
    assert_true(all.run[8].answered);
    tw_shadow_runs_free(&all);

    assert_int_equal(tw_shadow_runs_load(l, "", &all, &err), 0);
    const char *patterns[] = {"d", "odd", NULL};
    struct tw_shadow_asked first = every;
    first.first = (struct tw_strings){patterns, 2};
    order_of(&all, &first, order);
    assert_string_equal(order, "8 3 1 2 ");
    first.share = 0;
    order_of(&all, &first, order);
    assert_string_equal(order, "");
    tw_shadow_runs_free(&all);
    twin_ledger_close(l);
}

/* Each allocation fails once: an error that says so, and nothing is lost of what there was. */
static void test_without_memory(void **state)
{
    (void)state;
    struct twin_ledger *l = open_ledger();
    fill(l);
    int rc = -1;
    for (uint64_t n = 1; rc != 0 && n < 10000; n++) {
        struct twin_error err = TWIN_ERROR_INIT;
        struct shadow_runs all;
        tw_alloc_fail_at(n, false);
        rc = tw_shadow_runs_load(l, "", &all, &err);
        tw_alloc_fail_at(0, false);
        if (rc != 0)
            assert_int_equal(rc, TWIN_ENOMEM);
        else
            assert_int_equal(all.count, 12);
        tw_shadow_runs_free(&all);
    }
    assert_int_equal(rc, 0);
    twin_ledger_close(l);
}

/* The draw is a share, the same every time, and a larger one holds a smaller one. */
static void test_draw(void **state)
{
    (void)state;
    enum { RUNS = 20000 };
    const double shares[] = {0, 0.01, 0.1, 0.5, 1};
    size_t drawn[5] = {0}, other = 0, both = 0;
    for (unsigned i = 0; i < RUNS; i++) {
        char id[33];
        bool before = false;
        const struct tw_hash128 h = tw_hash_bytes(&i, sizeof i, 5);
        tw_hex_128(h.a, h.b, id);
        for (size_t k = 0; k < 5; k++) {
            const bool now = tw_shadow_is_drawn("", id, shares[k]);
            assert_true(now || !before);
            assert_int_equal(now, tw_shadow_is_drawn("", id, shares[k]));
            drawn[k] += now;
            before = now;
        }
        other += tw_shadow_is_drawn("x", id, 0.5);
        both += tw_shadow_is_drawn("x", id, 0.5) && tw_shadow_is_drawn("", id, 0.5);
    }
    assert_int_equal(drawn[0], 0);
    assert_int_equal(drawn[4], RUNS);
    /* six standard deviations of a binomial */
    assert_in_range(drawn[1], 200 - 85, 200 + 85);
    assert_in_range(drawn[2], 2000 - 255, 2000 + 255);
    assert_in_range(drawn[3], 10000 - 425, 10000 + 425);
    /* another seed draws independently */
    assert_in_range(other, 10000 - 425, 10000 + 425);
    assert_in_range(both, 5000 - 368, 5000 + 368);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_order, enter, leave),
        cmocka_unit_test_setup_teardown(test_without_memory, enter, leave),
        cmocka_unit_test(test_draw),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
