/* SPDX-License-Identifier: Apache-2.0 */
/* The page of a search made by hand: what a job put into names stays text, and what matters is
 * said. */
#include "src/report/isolation.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base.h"

static size_t usual[2] = {0, 2}, odd[1] = {1}, odder[1] = {3};
static struct twin_branch branches[3] = {{usual, 2, 0, -1}, {odd, 1, 0, 5}, {odder, 1, 1, 9}};
static uint32_t numbers[4] = {1, 2, 3, 4};

static struct twin_isolation_run runs[5] = {
    {1, "baseline", "none", "well", true, false, -1, "", 0, 1.5},
    {2, "baseline", "none", "well", true, true, 5, "data", 6, 1.5},
    {3, "baseline", "none", "well", true, false, -1, "", 20, 1.5},
    {4, "baseline", "none", "well", true, true, 5, "data", 6, 1.5},
    {5, "confirm", "hash-seed", "well", false, false, -1, "", 20, 1.6},
};

static struct twin_isolation found(struct twin_isolation_cause *cause,
                                   const struct twin_finding *first, const char *command)
{
    *cause = (struct twin_isolation_cause){.factor = "hash-seed",
                                           .layer = "data",
                                           .title = "salt",
                                           .pin = "PYTHONHASHSEED=0",
                                           .how = "environment",
                                           .fix = "sort",
                                           .alternatives = "",
                                           .free_trials = 4,
                                           .free_parted = 3,
                                           .pinned_trials = 7,
                                           .p = .004,
                                           .p_adjusted = .005,
                                           .cost = {1.04, .98, 1.1, .97, 7, 4}};
    return (struct twin_isolation){.mood = TWIN_MOOD_FOUND,
                                   .outcome = "isolated",
                                   .sentence = "The runs diverge because of hash-seed (salt)",
                                   .command = command,
                                   .folder = "/h/s",
                                   .next = "twinrun check --pinned -- x",
                                   .then = "twinrun run --pin hash-seed -- x",
                                   .first = first,
                                   .cause = cause,
                                   .cause_count = 1,
                                   .run = runs,
                                   .run_count = 5,
                                   .tree = {branches, 3},
                                   .natural = numbers,
                                   .natural_count = 4,
                                   .alpha = .05,
                                   .beta = .05,
                                   .plan = "plan  a\n      b c\nbudget  b\n",
                                   .unit = "comparisons",
                                   .unit_why = "why",
                                   .baseline = 3,
                                   .baseline_parted = 2,
                                   .rate_low = .1,
                                   .rate_high = .9,
                                   .bound = .348,
                                   .left = 7,
                                   .more = 7,
                                   .seed = 77,
                                   .arrangement = "FPPFPPFPPPF",
                                   .runs = 5,
                                   .seconds = 7.6,
                                   .dropped = "",
                                   .suspects = ""};
}

static struct twin_finding batch(char *name, char *site)
{
    return (struct twin_finding){.type = TWIN_FINDING_VALUE,
                                 .phase = TWIN_PHASE_DATA,
                                 .kind = TWIN_KIND_BATCH,
                                 .step_a = 5,
                                 .step_b = 5,
                                 .process = (char *)"main",
                                 .layer = (char *)"data",
                                 .name = name,
                                 .scope = (char *)"",
                                 .op = (char *)"",
                                 .site = site,
                                 .text = (char *)""};
}

static char *page(const struct twin_isolation *x)
{
    char *out = NULL;
    assert_int_equal(twin_isolation_html(x, &out, NULL), 0);
    return out;
}

static void words(void **state)
{
    (void)state;
    struct twin_isolation_cause cause;
    struct twin_isolation x = found(&cause, NULL, "x");
    char *text = twin_isolation_classes(&x);
    assert_string_equal(
        text, "runs 1,3 agree; run 2 diverges at step 5; run 4 diverges from run 2 at step 9");
    tw_free(text);
    x.natural_left_out = 7;
    text = twin_isolation_classes(&x);
    assert_string_equal(text,
                        "runs 1,3 agree; run 2 diverges at step 5; run 4 diverges from run 2 at "
                        "step 9; 7 more natural runs were not sorted");
    tw_free(text);
    text = twin_isolation_cost_text(&cause.cost);
    assert_string_equal(
        text, "1.04 times as long (97% interval 0.98 to 1.1; 7 runs with the pin, 4 without)");
    tw_free(text);
    text = twin_isolation_cost_text(&(struct twin_isolation_cost){1.04, NAN, NAN, NAN, 3, 3});
    assert_string_equal(
        text, "1.04 times as long (too few runs for an interval; 3 runs with the pin, 3 without)");
    tw_free(text);
    text = twin_isolation_cost_text(&(struct twin_isolation_cost){NAN, NAN, NAN, NAN, 1, 4});
    assert_string_equal(
        text,
        "not known from these runs (1 whole run with the pin, 4 without; 3 of each are needed)");
    tw_free(text);
}

static void what_matters_is_said(void **state)
{
    (void)state;
    static const char *const said[] = {
        "isolated",
        "The runs diverge because of hash-seed (salt)",
        "PYTHONHASHSEED=0 (environment)",
        "train.py:12 in load",
        "left free, 3 of 4 comparisons diverge; pinned, 0 of 7",
        "p = 0.004; 0.005 for all confirmations that a search may make",
        "with all causes pinned at most 35% of comparisons diverge (95%; 0 of 7 did); 7 more clean "
        "runs would show",
        "(seed 77: FPPFPPFPPPF; P pinned)",
        "1.04 times as long",
        "twinrun run <span class=\"whole\">--pin</span> <span class=\"whole\">hash-seed</span> "
        "<span "
        "class=\"whole\">--</span> x",
        "Which runs are equal, and until when?",
        "Natural runs: at which step",
        "<dt>plan</dt><dd>a b c</dd>\n<dt>budget</dt><dd>b</dd>",
        "All 5 runs"};
    struct twin_isolation_cause cause;
    struct twin_finding f = batch((char *)"batch[0]",
                                  (char *)"train.py:12 in load\ntrain.py:40 in main");
    struct twin_isolation x = found(&cause, &f, "x");
    char *out = page(&x);
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++)
        if (!strstr(out, said[i]))
            fail_msg("missing: %s", said[i]);
    assert_null(strstr(out, "http://"));
    assert_null(strstr(out, "https://"));
    assert_null(strstr(out, "<script"));
    assert_null(strstr(out, "nan"));
    tw_free(out);
}

/* Tags opened and closed alike, whatever strings say: counts each '<' and checks that each belongs
 * to a tag of ours. */
static void only_our_tags(const char *out)
{
    static const char *const ours[] = {
        "!DOCTYPE", "html", "head", "meta",   "title",   "style",   "body",       "div",   "h1",
        "h2",       "h3",   "p",    "code",   "pre",     "dl",      "dt",         "dd",    "table",
        "tr",       "th",   "td",   "ul",     "li",      "details", "summary",    "svg",   "line",
        "circle",   "span", "main", "header", "section", "figure",  "figcaption", "thead", "tbody"};
    for (const char *p = out; (p = strchr(p, '<')); p++) {
        const char *name = p + 1 + (p[1] == '/');
        size_t n = strcspn(name, " >/"), i = 0;
        while (i < sizeof ours / sizeof ours[0] &&
               (strlen(ours[i]) != n || strncmp(ours[i], name, n) != 0))
            i++;
        if (i == sizeof ours / sizeof ours[0])
            fail_msg("a foreign tag: %.40s", p);
    }
}

static void hostile_text_stays_text(void **state)
{
    (void)state;
    char evil[] = "</style></pre><script>alert(1)</script>\"' onload='x' &lt; \033[31m \xff\xc3(";
    struct twin_isolation_cause cause;
    struct twin_finding f = batch(evil, evil);
    struct twin_isolation x = found(&cause, &f, evil);
    struct twin_hint hint = {evil, evil, evil, evil, evil, 6, 7};
    struct twin_isolation_contrast contrast = {evil, 1, true, 3, evil};
    const char *note = evil;
    f.op = f.text = evil;
    x.sentence = x.outcome = x.folder = x.next = x.then = x.plan = x.unit = x.unit_why = x.dropped =
        evil;
    cause.factor = cause.layer = cause.title = cause.pin = cause.how = cause.fix =
        cause.alternatives = evil;
    x.hint = &hint;
    x.hint_count = 1;
    x.contrast = &contrast;
    x.contrast_count = 1;
    x.note = &note;
    x.note_count = 1;
    char *out = page(&x);
    only_our_tags(out);
    assert_null(strstr(out, "<script"));
    assert_null(strchr(out, '\033'));
    assert_null(strchr(out, '\xff'));
    assert_non_null(strstr(
        out, "&lt;script&gt;alert(1)&lt;/script&gt;&quot;&apos; onload=&apos;x&apos; &amp;lt;"));
    tw_free(out);
}

static size_t times(const char *text, const char *what)
{
    size_t n = 0;
    for (; (text = strstr(text, what)); text++)
        n++;
    return n;
}

/* Where the first text says what no line does, the line is that of the next one, and shown once. */
static void the_line_behind_a_sentence(void **state)
{
    (void)state;
    static const char *const where[] = {"torch was never seeded: nothing calls it before",
                                        "gone.py:4, 3 calls: x = rand()", "other.py:5, 1 call: y"};
    static const char said[] = "The lines of gone.py are not shown";
    struct twin_isolation_cause cause[2];
    struct twin_isolation x = found(&cause[1], NULL, "x");
    x = found(&cause[0], NULL, "x");
    struct twin_run source = {.dir = (char *)"/nowhere/r", .cwd = (char *)"/nowhere"};
    x.cause_count = 2;
    for (int i = 0; i < 2; i++) {
        cause[i].consumer = where;
        cause[i].consumer_count = 3;
    }
    x.source = &source;
    char *html = page(&x);
    assert_int_equal(times(html, said), 1);
    assert_null(strstr(html, "other.py are not shown"));
    tw_free(html);
}

static void every_allocation_failure(void **state)
{
    (void)state;
    struct twin_isolation_cause cause;
    struct twin_finding f = batch((char *)"b", (char *)"a.py:1 in f");
    struct twin_isolation x = found(&cause, &f, "x");
    char *whole = page(&x);
    for (uint64_t n = 1;; n++) {
        char *out = NULL;
        tw_alloc_fail_at(n, false);
        int rc = twin_isolation_html(&x, &out, NULL);
        tw_alloc_fail_at(0, false);
        if (rc == 0 && out && strcmp(out, whole) == 0) {
            tw_free(out);
            break;
        }
        assert_true(rc == TWIN_ENOMEM && !out);
    }
    tw_free(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words),
        cmocka_unit_test(what_matters_is_said),
        cmocka_unit_test(hostile_text_stays_text),
        cmocka_unit_test(the_line_behind_a_sentence),
        cmocka_unit_test(every_allocation_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
