/* SPDX-License-Identifier: Apache-2.0 */
/* Texts for people: where lines are broken, which are kept whole, and what has a colour. */
#include "paragraphs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static const char *const whole[] = {"next", "page", NULL};
static const struct tw_painted words[] = {{"isolated (main cause)", TW_PAINT_BAD},
                                          {"SLOW", TW_PAINT_BAD},
                                          {"EVEN", TW_PAINT_GOOD},
                                          {NULL, TW_PAINT_OFF}};
static const struct tw_style of_search = {.label = 10, .whole = whole, .words = words};
static const struct tw_style of_report = {.words = words};

static void shows(const char *text, struct tw_look look, const struct tw_style *style,
                  const char *expected)
{
    char *made = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&made, &bytes);
    assert_non_null(f);
    tw_put_styled(f, text, &look, style);
    fclose(f);
    assert_string_equal(made, expected);
    free(made);
}

static void long_lines_hang_below_their_text(void **state)
{
    (void)state;
    shows("left      one two three four five six\n"
          "          seven eight nine ten eleven\n",
          (struct tw_look){.width = 26}, &of_search,
          "left      one two three\n"
          "          four five six\n"
          "          seven eight nine\n"
          "          ten eleven\n");
    /* a word that is too long stays whole, and so does what fits exactly; columns, not bytes */
    shows("seen      a/path/that/is/longer/than/the/line b\n"
          "note      1234567890123456\n"
          "cause     \xC2\xB7\xC2\xB7\xC2\xB7\xC2\xB7 \xC2\xB7\xC2\xB7\xC2\xB7\xC2\xB7\xC2\xB7 "
          "123456\n",
          (struct tw_look){.width = 26}, &of_search,
          "seen      a/path/that/is/longer/than/the/line\n"
          "          b\n"
          "note      1234567890123456\n"
          "cause     \xC2\xB7\xC2\xB7\xC2\xB7\xC2\xB7 \xC2\xB7\xC2\xB7\xC2\xB7\xC2\xB7\xC2\xB7\n"
          "          123456\n");
    /* no width, no breaks; nothing is lost without a line end */
    shows("left      one two three four five six", (struct tw_look){.width = 0}, &of_search,
          "left      one two three four five six\n");
    shows("", (struct tw_look){.width = 26}, &of_search, "");
}

/* The row of a list goes on below its own column, and keeps its colour; where too little room is
 * left, below its beginning. */
static void rows_hang_below_their_column(void **state)
{
    (void)state;
    shows("traces    1\n"
          "  0.17.twt  rank 0 of 1  pid 17  main\n"
          "  a.name.that.is.long  rank 0 of 1\n"
          "  plain words that go on\n",
          (struct tw_look){.width = 26}, &of_search,
          "traces    1\n"
          "  0.17.twt  rank 0 of 1\n"
          "            pid 17  main\n"
          "  a.name.that.is.long\n"
          "  rank 0 of 1\n"
          "  plain words that go on\n");
}

static void commands_stay_whole(void **state)
{
    (void)state;
    shows("next      twinrun run --pin hash-seed -- python train.py\n"
          "          twinrun check --pinned -- python train.py\n"
          "nextdoor  is another label than that\n"
          "page      /a/b c/report.html\n",
          (struct tw_look){.width = 26}, &of_search,
          "next      twinrun run --pin hash-seed -- python train.py\n"
          "          twinrun check --pinned -- python train.py\n"
          "nextdoor  is another label\n"
          "          than that\n"
          "page      /a/b c/report.html\n");
}

static void colours_take_no_columns(void **state)
{
    (void)state;
    shows("outcome   isolated (main cause), 9 runs\n", (struct tw_look){33, true}, &of_search,
          "\033[2moutcome\033[0m   \033[1;31misolated (main cause)\033[0m,\n"
          "          9 runs\n");
    /* an outcome that is broken itself, one that a longer word only begins with, and none at all */
    shows("outcome   isolated (main cause), 9 runs\n", (struct tw_look){26, true}, &of_search,
          "\033[2moutcome\033[0m   isolated (main\n"
          "          cause), 9 runs\n");
    shows("SLOWEST   EVENT is none\n", (struct tw_look){.colour = true}, &of_report,
          "SLOWEST   EVENT is none\n");
    shows("SLOW  by a half\n        12 ms EVEN\nrank 3  EVEN  as ever\nrank x  EVEN\n",
          (struct tw_look){.colour = true}, &of_report,
          "\033[1;31mSLOW\033[0m  by a half\n        12 ms EVEN\n"
          "\033[2mrank 3\033[0m  \033[1;32mEVEN\033[0m  as ever\nrank x  EVEN\n");
    shows("SLOW  by a half\n", (struct tw_look){.colour = false}, &of_report, "SLOW  by a half\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_lines_hang_below_their_text),
        cmocka_unit_test(rows_hang_below_their_column),
        cmocka_unit_test(commands_stay_whole),
        cmocka_unit_test(colours_take_no_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
