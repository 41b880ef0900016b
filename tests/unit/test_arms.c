/* SPDX-License-Identifier: Apache-2.0 */
/* Two commands taken apart: what differs, and the commands in between. */
#include "base.h"

#include "src/isolate/arms.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* "id: a -> b; id: a -> b", "-" for what is not there. */
static char *in_words(const struct twin_arms *arms)
{
    struct tw_buf b = {0};
    size_t n;
    const struct twin_difference *d = twin_arms_differences(arms, &n);
    for (size_t i = 0; i < n; i++)
        tw_buf_printf(&b, "%s%s: %s -> %s", i ? "; " : "", d[i].id, d[i].a ? d[i].a : "-",
                      d[i].b ? d[i].b : "-");
    tw_buf_puts(&b, "");
    return tw_buf_steal(&b);
}

static struct twin_arms *arms_of(const char *a, const char *b)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_arms *arms;
    if (twin_arms_compare(a, b, &arms, &err) != 0)
        fail_msg("%s | %s: %s", a, b, err.message);
    return arms;
}

static void differences(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b, *expected;
    } cases[] = {
        {"python t.py", "python t.py", ""},
        {"python  't.py' \"x y\"", "python t.py 'x y'", ""},
        {"OMP_NUM_THREADS=1 python t.py", "OMP_NUM_THREADS=4 FOO=1 python t.py --workers 2",
         "env:OMP_NUM_THREADS: OMP_NUM_THREADS=1 -> OMP_NUM_THREADS=4; env:FOO: - -> FOO=1; "
         "arg:--workers: - -> --workers 2"},
        {"A=1 B=2 python t.py", "B=2 A=1 python t.py", ""},
        {"python t.py", "env A=1 python t.py", "env:A: - -> A=1"},
        {"env -i A=1 python t.py", "env -i A=2 python t.py", "arg:-i: A=1 -> A=2"},
        {"export A=1 && python t.py", "export A=2 && python t.py", "env:A: A=1 -> A=2"},
        {"python t.py --lr .1 --seed 3", "python t.py --lr .2 --seed 4",
         "arg:--lr: --lr .1 -> --lr .2; arg:--seed: --seed 3 -> --seed 4"},
        {"p --a=1 --b", "p --a=2", "arg:--a: --a=1 -> --a=2; arg:--b: --b -> -"},
        {"p --betas .9 .99", "p --betas .8 .999",
         "arg:--betas: .9 -> .8; arg:--betas#2: .99 -> .999"},
        {"p in.txt 3 out", "p in.txt -3 out", "arg:2: 3 -> -3"},
        {"p --adam --lr 1", "p --sgd --momentum .9 --lr 1",
         "arg:--adam: --adam -> --sgd; arg:--momentum: - -> --momentum .9"},
        {"p --a 1", "p --b 2", "arg:--a: --a 1 -> -; arg:--b: - -> --b 2"},
        {"p --a 1 --b 2", "p --b 3 --a 4", "arg:--a: --a 1 -> --a 4; arg:--b: --b 2 -> --b 3"},
        {"python3.11 t.py", "python3.12 t.py", "program: python3.11 -> python3.12"},
        {"python t.py > a.log 2>&1", "python t.py > b.log 2>&1", "arg:>: > a.log -> > b.log"},
        {"cd a && p x | tee l", "cd b && p y | tee l", "arg:1: a -> b; arg:1#2: x -> y"},
        {"p $(date +%s) \"a $(echo ')' \"b\")\"", "p $(date +%s) \"a $(echo ')' \"c\")\"",
         "arg:2: \"a $(echo ')' \"b\")\" -> \"a $(echo ')' \"c\")\""},
        {"p '*'", "p *", "arg:1: '*' -> *"},
        {"p -- -x", "p -- -y", "arg:2: -x -> -y"},
        {"p a # b", "p a;\n", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct twin_arms *arms = arms_of(cases[i].a, cases[i].b);
        char *found = in_words(arms);
        assert_string_equal(found, cases[i].expected);
        tw_free(found);
        twin_arms_free(arms);
    }
}

static void mixes(void **state)
{
    (void)state;
    const char *a = "T=1 python  t.py --adam --n 2 | tee 'l 1'";
    const char *b = "T=4 U=1 python t.py --sgd --n 3 --w 2 | tee 'l 1'";
    static const char *const expected[] = {
        "T=1 python  t.py --adam --n 2 | tee 'l 1'",
        "T=4 python t.py --adam --n 2 | tee 'l 1'",
        "T=1 U=1 python t.py --adam --n 2 | tee 'l 1'",
        "T=4 U=1 python t.py --adam --n 2 | tee 'l 1'",
        "T=1 python t.py --sgd --n 2 | tee 'l 1'",
    };
    struct twin_arms *arms = arms_of(a, b);
    for (uint64_t set = 0; set < sizeof expected / sizeof *expected; set++) {
        char *mix = twin_arms_mix(arms, &(struct twin_search_set){{set}});
        assert_string_equal(mix, expected[set]);
        tw_free(mix);
    }
    char *mix = twin_arms_mix(arms, &(struct twin_search_set){{0x1f}});
    assert_string_equal(mix, b);
    tw_free(mix);
    twin_arms_free(arms);
}

static uint64_t number;

static unsigned draw(unsigned below)
{
    number = tw_mix64(number + 1);
    return (unsigned)(number % below);
}

static char *random_arguments(void)
{
    static const char *const words[] = {"--a",   "--b",   "--c=1",   "--c=2",  "-x",  "-y",
                                        "1",     "2",     "f",       "g",      "> o", "> p",
                                        "--a 1", "--a 2", "--b 1 2", "--b 1 3"};
    struct tw_buf b = {0};
    tw_buf_puts(&b, "p");
    for (unsigned n = draw(9); n > 0; n--)
        tw_buf_printf(&b, " %s", words[draw(sizeof words / sizeof *words)]);
    return tw_buf_steal(&b);
}

/* A difference in front keeps the mixes from being A or B themselves: all that stands behind it
 * must be as in A, or as in B. */
static void both_ends(void **state)
{
    (void)state;
    unsigned several = 0;
    for (number = 7; several < 3000;) {
        char *p = random_arguments();
        char *q = random_arguments();
        char *a = tw_printf("X=1 %s", p);
        char *b = tw_printf("X=2 %s", q);
        size_t n;
        struct twin_arms *arms = arms_of(a, b);
        const struct twin_difference *d = twin_arms_differences(arms, &n);
        assert_string_equal(d[0].id, "env:X");
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < i; j++)
                assert_string_not_equal(d[i].id, d[j].id);
        if (n > 1) {
            char *first = twin_arms_mix(arms, &(struct twin_search_set){{1}});
            char *rest = twin_arms_mix(arms, &(struct twin_search_set){{(UINT64_C(1) << n) - 2}});
            assert_string_equal(first + 4, p);
            assert_string_equal(rest + 4, q);
            assert_true(tw_starts(first, "X=2 ") && tw_starts(rest, "X=1 "));
            tw_free(first);
            tw_free(rest);
            several++;
        } else {
            assert_string_equal(p, q);
        }
        twin_arms_free(arms);
        tw_free(a);
        tw_free(b);
        tw_free(p);
        tw_free(q);
    }
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        int code;
        const char *says;
    } cases[] = {
        {"p 'x", "p x", TWIN_EINVAL, "quote"},
        {"p $(x", "p x", TWIN_EINVAL, "quote"},
        {"p x", "cd y && p x", TWIN_EINVAL, "of B &&"},
        {"p << E\nx\nE", "p", TWIN_EUNSUPPORTED, "here-document"},
        {"p | q", "p; q", TWIN_EINVAL, "one shape"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct twin_error err = TWIN_ERROR_INIT;
        struct twin_arms *arms;
        assert_int_equal(twin_arms_compare(cases[i].a, cases[i].b, &arms, &err), cases[i].code);
        assert_null(arms);
        if (!strstr(err.message, cases[i].says))
            fail_msg("%s", err.message);
    }
    struct tw_buf many = {0};
    for (int i = 0; i < 300; i++)
        tw_buf_printf(&many, "V%d=1 ", i);
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_arms *arms;
    assert_int_equal(twin_arms_compare("p", many.data, &arms, &err), TWIN_ELIMIT);
    tw_buf_free(&many);
    struct tw_buf deep = {0};
    for (int i = 0; i < 100000; i++)
        tw_buf_puts(&deep, "$(");
    assert_int_equal(twin_arms_compare("p", deep.data, &arms, NULL), TWIN_EINVAL);
    tw_buf_free(&deep);
}

/* One more in front and one less behind: all words have another place. Beyond what the table takes
 * they are paired in order. */
static void long_commands(void **state)
{
    (void)state;
    static const struct {
        int words, code;
        const char *expected;
    } cases[] = {{1000, 0, "arg:1: - -> x; arg:1001: y -> -"}, {5000, TWIN_ELIMIT, NULL}};
    for (size_t k = 0; k < 2; k++) {
        struct tw_buf a = {0}, b = {0};
        tw_buf_puts(&a, "p");
        tw_buf_puts(&b, "p x");
        for (int i = 0; i < cases[k].words; i++) {
            tw_buf_printf(&a, " f%d", i);
            tw_buf_printf(&b, " f%d", i);
        }
        tw_buf_puts(&a, " y");
        struct twin_arms *arms;
        assert_int_equal(twin_arms_compare(a.data, b.data, &arms, NULL), cases[k].code);
        char *found = arms ? in_words(arms) : NULL;
        if (arms)
            assert_string_equal(found, cases[k].expected);
        tw_free(found);
        twin_arms_free(arms);
        tw_buf_free(&a);
        tw_buf_free(&b);
    }
}

static void without_memory(void **state)
{
    (void)state;
    const char *a = "T=1 env q --adam --n 2 1 > x | tee 'l 1'";
    const char *b = "T=4 U=1 p --sgd --n 3 --w 2 > y | tee 'l 1'";
    for (uint64_t n = 1;; n++) {
        struct twin_error err = TWIN_ERROR_INIT;
        struct twin_arms *arms;
        tw_alloc_fail_at(n, false);
        int rc = twin_arms_compare(a, b, &arms, &err);
        char *mix = rc == 0 ? twin_arms_mix(arms, &(struct twin_search_set){{2}}) : NULL;
        tw_alloc_fail_at(0, false);
        bool done = rc == 0 && mix;
        assert_true(rc == 0 || rc == TWIN_ENOMEM);
        twin_arms_free(arms);
        tw_free(mix);
        if (done)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(differences),   cmocka_unit_test(mixes),
        cmocka_unit_test(both_ends),     cmocka_unit_test(refused),
        cmocka_unit_test(long_commands), cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
