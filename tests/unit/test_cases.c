/* SPDX-License-Identifier: Apache-2.0 */
/* Known cases: those that are shipped are sound and particular; files that are wrong are named and
 * left out; what is saved is found. */
#include "src/cases/cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base.h"

static char scratch[] = "/tmp/twinrun-cases-XXXXXX";

static void write_case(const char *name, const char *text)
{
    char *path = tw_path_join(scratch, name);
    assert_int_equal(tw_write_file_atomic(path, text, strlen(text), NULL), 0);
    tw_free(path);
}

static struct twin_cases load(const char *a, const char *b)
{
    const char *const folders[] = {a, b};
    struct twin_cases c;
    assert_int_equal(twin_cases_load(folders, 2, &c, NULL), 0);
    return c;
}

static struct twin_signature seen(const char *phase, const char *kind, const char *op,
                                  const char *arms)
{
    return (struct twin_signature){.layer = phase,
                                   .phase = phase,
                                   .kind = kind,
                                   .op = op,
                                   .name = "x",
                                   .site = "",
                                   .arms = arms};
}

static const char *best(const struct twin_cases *c, const struct twin_signature *s)
{
    struct twin_case_match m[3];
    return twin_cases_match(c, s, m, 3) ? m[0].one->id : "";
}

static void shipped(void **state)
{
    (void)state;
    struct twin_cases c = load(CASES, NULL);
    for (size_t i = 0; i < c.problem_count; i++)
        print_error("%s\n", c.problem[i]);
    assert_int_equal(c.problem_count, 0);
    assert_true(c.count >= 20);
    for (size_t i = 0; i < c.count; i++)
        assert_true(c.one[i].reference_count > 0);
    /* What ghosts of the suite show, as check or isolate sees it. */
    static const struct {
        const char *phase, *kind, *op, *arms, *factor, *id;
    } known[] = {
        {"data", "batch", "TensorDataset", "same", "hash-seed", "hash-order-ids"},
        {"init", "weight", "Gate", "same", "malloc-fill", "uninitialised-parameter"},
        {"backward", "gradient", "", "same", "torch-deterministic", "atomic-gradient"},
        {"backward", "gradient", "aten::index_put", "same", NULL, "index-gradient"},
        {"backward", "gradient", "FlashAttnFuncBackward", "same", NULL, "flash-attention-backward"},
        {"kernel", "out", "aten::_scaled_dot_product_flash_attention_for_cpu_backward", "same",
         NULL, "flash-attention-backward"},
        {"data", "batch", "Generator", "same", "seed.numpy", "other-generator"},
        {"rng", "state", "DataLoader.__iter__", "two", NULL, "evaluation-draws"},
        {"rng", "state", "", "resumed", NULL, "resume-generator"},
        {"optimizer", "hyper", "", "resumed", NULL, "resume-schedule"},
        {"optimizer", "moment", "SGD", "resumed", NULL, "resume-optimizer"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        struct twin_signature s = seen(known[i].phase, known[i].kind, known[i].op, known[i].arms);
        s.factors = &known[i].factor;
        s.factor_count = known[i].factor != NULL;
        assert_string_equal(best(&c, &s), known[i].id);
    }
    /* What looks like nothing known: no cause, the wrong cause, another operation, two causes at
     * once. */
    static const char *const two[] = {"hash-seed", "threads"};
    static const char *const odd[] = {"dir-order"};
    static const char *const wrong[] = {"malloc-fill"};
    static const struct {
        const char *phase, *kind, *op;
        const char *const *factors;
        size_t n;
    } unknown[] = {
        {"data", "batch", "TensorDataset", NULL, 0},
        {"init", "weight", "", NULL, 0},
        {"backward", "gradient", "aten::mm", NULL, 0},
        {"data", "batch", "", two, 2},
        {"data", "batch", "", odd, 1},
        {"data", "batch", "", wrong, 1},
        {"kernel", "out", "flash_attn::_flash_attn_forward", NULL, 0},
        {"kernel", "out", "aten::index_put_", NULL, 0},
        {"backward", "gradient", "aten::mm", wrong, 1},
        {"output", "line", "", NULL, 0},
        {"rng", "state", "", NULL, 0},
    };
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        struct twin_signature s = seen(unknown[i].phase, unknown[i].kind, unknown[i].op, "same");
        s.factors = unknown[i].factors;
        s.factor_count = unknown[i].n;
        assert_string_equal(best(&c, &s), "");
    }
    twin_cases_free(&c);
}

#define CASE(id, keys) "[[case]]\nid = \"" id "\"\ntitle = \"t\"\ncause = \"c\"\nfix = \"f\"\n" keys
static void wrong_files_are_named_and_left_out(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text, *said;
    } wrong[] = {
        {"a-key.toml", CASE("a", "factor = [\"x\"]\n"), "did you mean factors?"},
        {"b-broad.toml", CASE("b", "kind = \"batch\"\nphase = \"data\"\n"),
         "matches nothing in particular"},
        {"c-half.toml", "[[case]]\nid = \"c\"\n", "has no title"},
        {"d-syntax.toml", "[[case]]\nid = c\n", "line 2"},
        {"e-id.toml", CASE("../e", "op = \"x\"\nkind = \"y\"\nphase=\"z\"\n"), "an id has letters"},
        {"f-type.toml", CASE("f", "op = 3\n"), "a text or a list of texts"},
        {"g-second.toml",
         CASE("g", "op = \"x\"\nkind = \"y\"\nphase=\"z\"\n") "[[case]]\nid = \"h\"\n",
         "has no title"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        write_case(wrong[i].name, wrong[i].text);
    write_case("z-good.toml",
               CASE("good", "op = [\"my::*\"]\nkind = \"out\"\nphase = \"kernel\"\n"));
    struct twin_cases c = load(scratch, "/no/such/folder");
    assert_int_equal(c.count, 1);
    assert_string_equal(c.one[0].id, "good");
    assert_int_equal(c.problem_count, sizeof wrong / sizeof wrong[0]);
    for (size_t i = 0; i < c.problem_count; i++)
        if (!strstr(c.problem[i], wrong[i].said) || !strstr(c.problem[i], wrong[i].name))
            fail_msg("%s: %s", wrong[i].name, c.problem[i]);
    struct twin_signature s = seen("kernel", "out", "my::op", "same");
    assert_string_equal(best(&c, &s), "good");
    twin_cases_free(&c);
}

/*
 * What the job does already is no advice: the remedy was in force from the first record to the end.
 */
static void advice_that_is_followed_is_none(void **state)
{
    (void)state;
    struct twin_cases c = load(CASES, NULL);
    struct twin_signature s = seen("backward", "gradient", "aten::index_put", "same");
    char *on[] = {(char *)"threads=4", (char *)"deterministic_algorithms=True"};
    char *off[] = {(char *)"deterministic_algorithms=False"};
    assert_string_equal(best(&c, &s), "index-gradient");
    s.settings = off;
    s.setting_count = 1;
    assert_string_equal(best(&c, &s), "index-gradient");
    s.settings = on;
    s.setting_count = 2;
    assert_string_equal(best(&c, &s), "");
    s.op = "_flash_attention_backward";
    assert_string_equal(best(&c, &s), "");
    twin_cases_free(&c);
}

static void the_best_come_first(void **state)
{
    (void)state;
    write_case(
        "1.toml",
        CASE("six", "op = \"my::*\"\nkind = \"out\"\nphase = \"kernel\"\n")
            CASE("seven", "op = \"my::*\"\nkind = \"out\"\nphase = \"kernel\"\nname = \"x\"\n")
                CASE("nine",
                     "op = \"my::*\"\nstack = \"a.py:*\"\nkind = \"out\"\nphase = \"kernel\"\n"));
    struct twin_cases c = load(scratch, NULL);
    struct twin_signature s = seen("kernel", "out", "my::op", "same");
    struct twin_case_match m[4];
    s.site = "lib/b.py:3 in g\nsrc/a.py:12 in load";
    assert_int_equal(twin_cases_match(&c, &s, m, 4), 4); /* and "good" of the test before */
    assert_string_equal(m[0].one->id, "nine");
    assert_string_equal(m[1].one->id, "seven");
    assert_string_equal(m[0].why, "op my::op, stack, kind out, phase kernel");
    assert_true(m[0].points == 9 && m[0].of == 9 && m[1].points == 7);
    assert_int_equal(twin_cases_match(&c, &s, m, 1), 1);
    assert_string_equal(m[0].one->id, "nine");
    s.site = "lib/b.py:3 in g"; /* contradicts */
    assert_int_equal(twin_cases_match(&c, &s, m, 4), 3);
    assert_string_equal(m[0].one->id, "seven");
    twin_cases_free(&c);
}

/* A saved case is found again by what it was made from, with other line numbers and layer numbers
 * too; and by nothing else. */
static void saved_cases_come_back(void **state)
{
    (void)state;
    static const char *const factor[] = {"user:a\"b"};
    struct twin_signature s = {"data",
                               "data",
                               "batch",
                               "Set[*]\"\\\n\033",
                               "batch[12].x",
                               "/home/u/a b.py:12 in f\nm.py:3 in main",
                               "same",
                               factor,
                               1};
    char *text = NULL;
    assert_int_equal(twin_case_text(&s, "mine", "a \"title\"", "a\\b\nc", "fix", &text, NULL), 0);
    write_case("mine.toml", text);
    tw_free(text);
    struct twin_cases c = load(scratch, NULL);
    s.site = "/elsewhere/a b.py:99 in f\nm.py:7 in other";
    s.name = "batch[7].x";
    assert_string_equal(best(&c, &s), "mine");
    s.name = "label[7].x";
    assert_string_equal(best(&c, &s), "");
    twin_cases_free(&c);
    s.factor_count = 0;
    s.op = s.site = "";
    assert_int_equal(twin_case_text(&s, "mine", "t", "c", "f", &text, NULL), TWIN_EINVAL);
    assert_int_equal(twin_case_text(&s, "../mine", "t", "c", "f", &text, NULL), TWIN_EINVAL);
}

static void every_allocation_failure(void **state)
{
    (void)state;
    const char *const folders[] = {CASES, NULL};
    /* early ones all, later ones some: they repeat */
    for (uint64_t n = 1, step = 1;; n += step, step = n / 20 + 1) {
        struct twin_cases c;
        tw_alloc_fail_at(n, false);
        int rc = twin_cases_load(folders, 2, &c, NULL);
        tw_alloc_fail_at(0, false);
        assert_true(rc == 0 || rc == TWIN_ENOMEM);
        if (rc == 0 && c.count >= 20 && c.problem_count == 0) {
            twin_cases_free(&c);
            break;
        }
        twin_cases_free(&c);
    }
}

static int make_scratch(void **state)
{
    (void)state;
    return mkdtemp(scratch) ? 0 : -1;
}

static int remove_scratch(void **state)
{
    (void)state;
    return tw_remove_tree(scratch, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shipped),
        cmocka_unit_test(wrong_files_are_named_and_left_out),
        cmocka_unit_test(advice_that_is_followed_is_none),
        cmocka_unit_test(the_best_come_first),
        cmocka_unit_test(saved_cases_come_back),
        cmocka_unit_test(every_allocation_failure),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
