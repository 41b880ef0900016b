/* SPDX-License-Identifier: Apache-2.0 */
/* Pages: what is foreign stays text, a page without drawn pictures has no script, data blocks are
 * laid out as the script reads them. What a browser makes of them: tests/agents/test_page.py. */
#include "src/report/page.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base.h"

static const char evil[] =
    "</style></script><script>alert(1)</script>\"'><img src=x onerror=alert(2)> \033[31m \xff\xc3(";

static void words(struct twin_page *p, const char *s)
{
    static const uint32_t paged[] = {1};
    twin_page_link_runs(p, paged, 1);
    const char *const columns[] = {s, "n", NULL}, *const items[] = {s, "b"};
    twin_page_verdict(p, TWIN_MOOD_OPEN, s, s, s);
    twin_page_facts(p, s);
    twin_page_fact(p, s, "%s", s);
    twin_page_fact(p, "left out", "%s", "");
    twin_page_facts_end(p);
    twin_page_heading(p, s);
    twin_page_text(p, "%s %d", s, 5);
    twin_page_small(p, "%s", s);
    twin_page_code(p, s);
    twin_page_command(p, s);
    twin_page_list(p, items, 2);
    twin_page_fold(p, s);
    twin_page_table(p, columns, "tn");
    twin_page_cell(p, "%s", s);
    twin_page_cell_mood(p, TWIN_MOOD_FOUND, s);
    twin_page_cell(p, "half a row");
    twin_page_table_end(p);
    twin_page_unfold(p);
}

static void still_pictures(struct twin_page *p, const char *s)
{
    static const double a[] = {1, 10, 100, 1000, NAN, INFINITY, 0}, one[] = {3, 3};
    const struct twin_page_set sets[] = {{s, a, 7}, {"b", one, 2}};
    size_t usual[] = {0, 2}, odd[] = {1};
    struct twin_branch branches[] = {{usual, 2, 0, -1}, {odd, 1, 0, 5}};
    const char *const labels[] = {s, "run 2", "run 3"};
    twin_page_histogram(
        p, &(struct twin_page_histogram){
               .question = s, .caption = s, .x_name = s, .log = true, .set = sets, .sets = 2});
    twin_page_histogram(p,
                        &(struct twin_page_histogram){
                            .question = s, .caption = "", .x_name = s, .set = &sets[1], .sets = 1});
    twin_page_tree(p, s, s, &(struct twin_class_tree){branches, 2}, labels, 10);
}

static void drawn_pictures(struct twin_page *p, const char *s)
{
    static const double x[] = {0, 1, 2};
    static const double y[] = {1, NAN, INFINITY};
    static const double low[] = {.5, NAN, 1};
    static const double high[] = {2, NAN, 3};
    static const uint32_t steps[] = {3, 7};
    static const uint16_t cells[] = {TWIN_CELL_EQUAL, TWIN_CELL_NONE,       40000,
                                     TWIN_CELL_GAP,   TWIN_CELL_NOT_FINITE, TWIN_CELL_DIFFERS};
    const struct twin_page_series series[] = {{s, y, low, high}, {"b", x, NULL, NULL}};
    const char *const rows[] = {s, "b", "c"}, *const groups[] = {s, s, "h"};
    twin_page_plot(p, &(struct twin_page_plot){.question = s,
                                               .caption = s,
                                               .x_name = s,
                                               .y_name = s,
                                               .log_y = true,
                                               .x = x,
                                               .count = 3,
                                               .series = series,
                                               .series_count = 2,
                                               .nan_name = s,
                                               .mark = 1,
                                               .mark_name = s});
    twin_page_heatmap(p, &(struct twin_page_heatmap){.question = s,
                                                     .caption = s,
                                                     .value_name = s,
                                                     .column_name = s,
                                                     .column = steps,
                                                     .columns = 2,
                                                     .row = rows,
                                                     .group = groups,
                                                     .rows = 3,
                                                     .cell = cells,
                                                     .mark_row = 1,
                                                     .mark_column = 1,
                                                     .mark_name = s});
}

static char *made(bool drawn, const char *s, int *rc)
{
    char *html = NULL;
    size_t bytes = 0;
    struct twin_page *p = twin_page_open(s);
    if (!p) {
        *rc = TWIN_ENOMEM;
        return NULL;
    }
    words(p, s);
    still_pictures(p, s);
    if (drawn)
        drawn_pictures(p, s);
    *rc = twin_page_finish(p, &html, &bytes, NULL);
    twin_page_close(p);
    if (*rc == 0)
        assert_int_equal(strlen(html), bytes);
    return html;
}

static size_t count_of(const char *s, const char *part)
{
    size_t n = 0;
    for (; (s = strstr(s, part)); s++)
        n++;
    return n;
}

static void foreign_text_stays_text(void **state)
{
    (void)state;
    int rc;
    char *html = made(true, evil, &rc);
    assert_int_equal(rc, 0);
    /* two blocks, the application, the script that unpacks; no more, and no element of evil's */
    assert_int_equal(count_of(html, "<script"), 4);
    assert_int_equal(count_of(html, "</script>"), 4);
    assert_int_equal(count_of(html, "<img"), 0);
    assert_int_equal(count_of(html, "</style>"), 1);
    assert_null(strchr(html, '\033'));
    assert_null(strchr(html, '\xff'));
    assert_non_null(strstr(html, "&lt;script&gt;alert(1)"));
    tw_free(html);
}

static void no_picture_no_script(void **state)
{
    (void)state;
    int rc;
    char *html = made(false, evil, &rc);
    assert_int_equal(rc, 0);
    assert_null(strstr(html, "<script"));
    assert_null(strstr(html, "script-src"));
    assert_non_null(strstr(html, "default-src 'none'; style-src 'sha256-"));
    assert_null(strstr(html, "left out</dt>"));
    assert_non_null(strstr(html, "4 values, 3 left out"));
    tw_free(html);
}

static void cells_keep_their_value(void **state)
{
    (void)state;
    for (double x = 1e-39; x < 1e39; x *= 1.7) {
        double back = twin_cell_value(twin_cell_of(x));
        assert_true(fabs(back / x - 1) < .0015);
    }
    assert_int_equal(twin_cell_of(0), TWIN_CELL_DIFFERS);
    assert_int_equal(twin_cell_of(NAN), TWIN_CELL_DIFFERS);
    assert_int_equal(twin_cell_of(1e-300), TWIN_CELL_VALUES);
    assert_int_equal(twin_cell_of(1e300), TWIN_CELL_NOT_FINITE - 1);
    assert_true(isnan(twin_cell_value(TWIN_CELL_EQUAL)) &&
                isnan(twin_cell_value(TWIN_CELL_NOT_FINITE)));
    assert_true(twin_cell_of(1e-7) < twin_cell_of(1.1e-7));
}

/* Words, lists, facts, captions, trees and legends lead to the runs that have a page, and nothing
 * that only looks like the name of a run does. */
static void runs_with_a_page_are_links(void **state)
{
    (void)state;
    static const uint32_t paged[] = {1, 12};
    size_t in_first[] = {0, 1};
    struct twin_branch branch = {.step = -1, .runs = in_first, .members = 2};
    const struct twin_class_tree tree = {&branch, 1};
    const char *const label[] = {"run 1", "run 2"}, *const item[] = {"as run 12"};
    char *html = NULL;
    size_t bytes;
    struct twin_page *p = twin_page_open("x");
    twin_page_text(p, "before run 1");
    twin_page_link_runs(p, paged, 2);
    twin_page_text(p, "<Run 1> and run 12; run 2, run 11, rerun 1, run 1.5, run 1x, run 12.");
    twin_page_list(p, item, 1);
    twin_page_heading(p, "of run 1");
    twin_page_tree(p, "q", "as in run 1", &tree, label, 2);
    assert_int_equal(twin_page_finish(p, &html, &bytes, NULL), 0);
    static const char *const said[] = {
        "<p>before run 1</p>",
        "<p>&lt;<a href=\"run-1.html\">Run 1</a>&gt; and <a href=\"run-12.html\">run 12</a>; run "
        "2, "
        "run 11, rerun 1, run 1.5, run 1x, <a href=\"run-12.html\">run 12</a>.</p>",
        "<li>as <a href=\"run-12.html\">run 12</a></li>",
        "<h2>of run 1</h2>",
        "<p class=\"soft\">as in <a href=\"run-1.html\">run 1</a></p>",
        "<div><a href=\"run-1.html\">run 1</a>, run 2</div>",
        "role=\"group\" aria-label=\"run 1, run 2",
    };
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        if (!strstr(html, said[i]))
            fail_msg("missing: %s", said[i]);
    twin_page_close(p);
    tw_free(html);
}

/* What has a hyphen goes to the next line as a whole; blanks stay where they are. */
static void a_command_keeps_its_words(void **state)
{
    (void)state;
    char *html = NULL;
    size_t bytes;
    struct twin_page *p = twin_page_open("x");
    twin_page_command(p, "twinrun run  --seed 1 --\nx <b-c>");
    assert_int_equal(twin_page_finish(p, &html, &bytes, NULL), 0);
    assert_non_null(strstr(html, "<pre>twinrun run  <span class=\"whole\">--seed</span> 1 <span "
                                 "class=\"whole\">--</span>\nx <span "
                                 "class=\"whole\">&lt;b-c&gt;</span></pre>"));
    twin_page_close(p);
    tw_free(html);
}

static void every_allocation_failure(void **state)
{
    (void)state;
    int rc;
    char *whole = made(true, evil, &rc);
    for (uint64_t n = 1;; n++) {
        tw_alloc_fail_at(n, false);
        char *html = made(true, evil, &rc);
        tw_alloc_fail_at(0, false);
        if (rc == 0) {
            assert_string_equal(html, whole);
            tw_free(html);
            break;
        }
        assert_true(rc == TWIN_ENOMEM && !html);
    }
    tw_free(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(foreign_text_stays_text),    cmocka_unit_test(no_picture_no_script),
        cmocka_unit_test(cells_keep_their_value),     cmocka_unit_test(a_command_keeps_its_words),
        cmocka_unit_test(runs_with_a_page_are_links), cmocka_unit_test(every_allocation_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
