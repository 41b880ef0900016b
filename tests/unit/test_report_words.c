/* SPDX-License-Identifier: Apache-2.0 */
/* What the report prints goes to the file that it is given, harmless for a terminal; a study needs
 * no command for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base.h"
#include "page_file.h"
#include "put.h"
#include "scale_report.h"
#include "verdict_page.h"

#include <math.h>

/* A file whose text can be looked at. */
struct paper {
    FILE *out;
    char *text;
    size_t bytes;
};

static void open_paper(struct paper *p)
{
    p->out = open_memstream(&p->text, &p->bytes);
    assert_non_null(p->out);
}

/* The text is whole, and ours to free, when the stream is closed. */
static void close_paper(struct paper *p)
{
    assert_int_equal(fclose(p->out), 0);
}

static void test_arguments_are_escaped(void **state)
{
    struct paper p;
    (void)state;
    open_paper(&p);
    tw_put_to(p.out, "a %s\nb %d\n", "x\033[31m\ny", 7);
    close_paper(&p);
    assert_null(strchr(p.text, '\033'));
    assert_non_null(strstr(p.text, "x\\x1b[31m"));
    assert_non_null(strstr(p.text, "\nb 7\n"));
    assert_int_equal(p.text[p.bytes - 1], '\n');
    free(p.text);
}

static void test_lines_and_colours(void **state)
{
    struct paper p;
    (void)state;
    open_paper(&p);
    tw_put_lines(p.out, "one\n\033[1mtwo\033[0m\n");
    tw_put_coloured(p.out, "\033[1mthree\033[0m\n");
    close_paper(&p);
    assert_non_null(strstr(p.text, "one\n\\x1b[1mtwo"));
    assert_non_null(strstr(p.text, "\033[1mthree\033[0m\n"));
    free(p.text);
}

static void test_no_memory_is_said(void **state)
{
    struct paper p;
    (void)state;
    open_paper(&p);
    tw_alloc_fail_at(1, true);
    tw_put_to(p.out, "%s", "lost");
    tw_put_lines(p.out, "lost");
    tw_alloc_fail_at(0, false);
    close_paper(&p);
    assert_string_equal(p.text, "out of memory\nout of memory\n");
    free(p.text);
}

static void test_study_from_a_file(void **state)
{
    struct tw_scale s = {0};
    struct twin_error err = TWIN_ERROR_INIT;
    struct paper p;
    (void)state;
    assert_int_equal(tw_scale_load(&s, GOLDEN "/scale/v1-study.json", &err), 0);
    assert_int_equal(tw_scale_compute(&s, &err), 0);
    open_paper(&p);
    tw_scale_text(p.out, &s);
    close_paper(&p);
    assert_true(strncmp(p.text, "SCALING     4 workers do ", 25) == 0);
    assert_non_null(strstr(p.text, "\nresults     apart from speed"));
    assert_non_null(strstr(p.text, "\nmeasured    "));
    free(p.text);
    tw_scale_free(&s);
}

static void test_no_study(void **state)
{
    struct twin_error err = TWIN_ERROR_INIT;
    (void)state;
    assert_int_equal(tw_scale_is_study(GOLDEN "/scale/none.json", &err), TWIN_ENOENT);
    assert_non_null(strstr(err.message, "none.json"));
    err = (struct twin_error)TWIN_ERROR_INIT;
    assert_true(tw_scale_is_study(GOLDEN "/baseline/v1-job.json", &err) < 0);
    assert_true(err.message[0] != '\0');
}

static void test_page_file(void **state)
{
    struct twin_error err = TWIN_ERROR_INIT;
    (void)state;
    assert_int_equal(tw_page_may_save(NULL, &err), 0);
    assert_int_equal(tw_page_may_save("page.html", &err), 0);
    assert_true(tw_page_may_save("no/such/folder/page.html", &err) < 0);
    assert_non_null(strstr(err.message, "cannot write into no/such/folder"));
    err = (struct twin_error)TWIN_ERROR_INIT;
    assert_int_equal(tw_page_may_save("/proc/self", &err), TWIN_EINVAL);
    assert_string_equal(err.message, "expected a file, found the folder /proc/self");
    err = (struct twin_error)TWIN_ERROR_INIT;
    assert_int_equal(tw_pages_may_save(NULL, &err), 0);
    assert_int_equal(tw_pages_may_save(".", &err), 0);
    assert_true(tw_pages_may_save("no/such/folder/page.html", &err) < 0);
    err = (struct twin_error)TWIN_ERROR_INIT;
    assert_int_equal(tw_page_save(NULL, "page.html", &err), TWIN_ENOMEM);
}

/* A page of these curves of one setting. malloc'ed. */
static char *page_of_curves(struct twin_curve *curve, size_t count)
{
    char *html = NULL;
    size_t bytes = 0;
    struct twin_page *p = twin_page_open("x");
    const struct twin_curves all = {.curve = curve, .count = count};
    twin_report_curves(p, &all, NULL, NULL);
    assert_int_equal(twin_page_finish(p, &html, &bytes, NULL), 0);
    twin_page_close(p);
    return html;
}

/* A picture where there is something to see, a sentence where a setting never changes. What is not
 * known in a step is no other value; NaN, infinity and a loss are drawn. */
static void test_settings_that_never_change_are_said(void **state)
{
    (void)state;
    static const char said[] = "recorded them: lr[0] 0.05.</p>";
    double same[] = {.05, NAN, .05}, other[] = {.05, .05, .04};
    struct twin_curve c[] = {
        {.kind = TWIN_CURVE_HYPER, .name = (char *)"lr[0]", .y = same, .steps = 3},
        {.kind = TWIN_CURVE_HYPER, .name = (char *)"lr[0]", .run = 1, .y = other, .steps = 2}};
    char *html = page_of_curves(c, 2);
    assert_non_null(strstr(html, said));
    assert_null(strstr(html, "Is lr[0] the same?"));
    tw_free(html);
    for (int i = 0; i < 3; i++) {
        c[1].steps = i == 0 ? 3 : 2;
        c[1].not_finite = i == 1;
        c[0].kind = c[1].kind = i == 2 ? TWIN_CURVE_VALUE : TWIN_CURVE_HYPER;
        html = page_of_curves(c, 2);
        assert_null(strstr(html, said));
        assert_non_null(strstr(html, "Is lr[0] the same?"));
        tw_free(html);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settings_that_never_change_are_said),
        cmocka_unit_test(test_arguments_are_escaped),
        cmocka_unit_test(test_lines_and_colours),
        cmocka_unit_test(test_no_memory_is_said),
        cmocka_unit_test(test_study_from_a_file),
        cmocka_unit_test(test_no_study),
        cmocka_unit_test(test_page_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
