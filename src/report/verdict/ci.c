/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forms that continuous integration reads: JUnit XML for test runners, GitHub's workflow commands
 * and its job summary. Each is one string that cmd/verdict.c writes to where it is wanted.
 *
 * Each form has a syntax of its own that names and printed lines of a job must not break: XML is
 * escaped by tw_say_markup, workflow commands are percent-encoded, Markdown has foreign text in
 * code only.
 */
#include "wording.h"

#include <string.h>

/* ---- JUnit */

/* The verdict with its first difference in one line, or with the first thing that was not seen. */
static void one_line(struct tw_buf *b, const struct twin_verdict *v)
{
    tw_say_headline(b, v);
    if (v->first) {
        tw_buf_puts(b, ": ");
        tw_say_place(b, v->first, true);
        if (v->first->op[0]) {
            tw_buf_puts(b, ", ");
            tw_say_safe(b, v->first->op, 100);
        }
    } else if (v->outcome == TWIN_INCONCLUSIVE && v->unseen_count) {
        tw_buf_puts(b, "; unseen: ");
        tw_say_safe(b, v->unseen[0], 300);
    }
}

/* Wall time of all runs together. */
static double seconds_of_runs(const struct twin_report *r)
{
    double s = 0;
    for (size_t i = 0; i < r->run_count; i++)
        s += r->runs[i]->wall_s;
    return s;
}

/* The element of JUnit that says what became of the case; NULL for a case that passed. */
static const char *junit_tag(enum twin_verdict_outcome outcome)
{
    switch (outcome) {
    case TWIN_DIFFER: return "failure";
    case TWIN_FAILED: return "error";
    case TWIN_INCONCLUSIVE: return "skipped";
    case TWIN_SAME:
    case TWIN_WITHIN_TOLERANCE: break;
    }
    return NULL;
}

/* One suite with one case. Its output is the whole text of the verdict; a case that failed has the
 * one line as message. */
int twin_report_junit(const struct twin_report *r, char **out, struct twin_error *err)
{
    const struct twin_verdict *v = r->verdict;
    /* no colours in a file */
    struct twin_report plain = *r;
    struct tw_buf b = {0}, line = {0}, name = {0};
    char *body = NULL;
    plain.color = false;
    *out = NULL;
    int rc = twin_report_text(&plain, &body, err);
    if (rc != 0)
        return rc;
    const char *verb = r->verb ? r->verb : "check";
    const char *tag = junit_tag(v->outcome);
    one_line(&line, v);
    tw_buf_printf(&name, "twinrun %s", verb);
    if (r->command) {
        tw_buf_puts(&name, " -- ");
        tw_say_safe(&name, r->command, 1000);
    }
    if (line.failed || name.failed) {
        b.failed = TWIN_ENOMEM;
    } else {
        tw_buf_printf(&b,
                      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite "
                      "name=\"twinrun\" tests=\"1\" failures=\"%d\" errors=\"%d\" skipped=\"%d\" "
                      "time=\"%.3f\">\n    <testcase classname=\"twinrun.%s\" name=\"",
                      v->outcome == TWIN_DIFFER, v->outcome == TWIN_FAILED,
                      v->outcome == TWIN_INCONCLUSIVE, seconds_of_runs(r), verb);
        tw_say_markup(&b, name.data);
        tw_buf_printf(&b, "\" time=\"%.3f\">\n", seconds_of_runs(r));
        /* a skipped case has a message and no type */
        if (tag) {
            tw_buf_printf(&b, "      <%s message=\"", tag);
            tw_say_markup(&b, line.data);
            if (v->outcome != TWIN_INCONCLUSIVE)
                tw_buf_printf(&b, "\" type=\"%s", twin_verdict_name(v->outcome));
            tw_buf_puts(&b, "\"/>\n");
        }
        tw_buf_puts(&b, "      <system-out>");
        tw_say_markup(&b, body);
        tw_buf_puts(&b, "</system-out>\n    </testcase>\n  </testsuite>\n</testsuites>\n");
    }
    tw_free(body);
    tw_buf_free(&line);
    tw_buf_free(&name);
    return tw_report_finish(&b, out, err);
}

/* ---- GitHub: percent-encoding of what would end the command or a property */

/* Percent-encodes what would end the command, and in a property also what would end the
 * property. */
static void escaped(struct tw_buf *b, const char *s, bool property)
{
    for (; *s; s++) {
        if (*s == '%' || *s == '\r' || *s == '\n' || (property && (*s == ':' || *s == ',')))
            tw_buf_printf(b, "%%%02X", (unsigned char)*s);
        else
            tw_buf_append(b, s, 1);
    }
}

/* How the verdict is shown by GitHub: as an error, a warning or a notice. */
static const char *github_level(enum twin_verdict_outcome outcome)
{
    if (outcome == TWIN_DIFFER || outcome == TWIN_FAILED)
        return "error";
    return outcome == TWIN_INCONCLUSIVE ? "warning" : "notice";
}

/* An annotation at a source line when the finding names one, without a place otherwise. */
int twin_report_github(const struct twin_report *r, char **out, struct twin_error *err)
{
    const struct twin_verdict *v = r->verdict;
    struct tw_buf b = {0}, line = {0}, file = {0}, safe = {0};
    unsigned long number = 0;
    const char *level = github_level(v->outcome);
    *out = NULL;
    one_line(&line, v);
    tw_buf_printf(&b, "::%s ", level);
    if (v->first && tw_source_line(v->first->site, &file, &number) && file.data) {
        tw_say_safe(&safe, file.data, 0);
        tw_buf_puts(&b, "file=");
        escaped(&b, safe.data ? safe.data : "", true);
        tw_buf_printf(&b, ",line=%lu,", number);
    }
    tw_buf_printf(&b, "title=twinrun%%3A %s::", twin_verdict_name(v->outcome));
    escaped(&b, line.data ? line.data : "", false);
    tw_buf_puts(&b, "\n");
    if (line.failed || file.failed || safe.failed)
        b.failed = TWIN_ENOMEM;
    tw_buf_free(&line);
    tw_buf_free(&file);
    tw_buf_free(&safe);
    return tw_report_finish(&b, out, err);
}

/* ---- GitHub's job summary: Markdown. What a job made goes into code spans and blocks only, where
 * it cannot be markup. */

/* Appends backticks: one more than the longest run of backticks inside s, and at least `least`, so
 * that nothing in s can end the code. */
static void fence(struct tw_buf *b, const char *s, size_t least)
{
    size_t longest = 0, run = 0;
    for (; *s; s++) {
        run = *s == '`' ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    for (size_t i = 0; i < (longest + 1 > least ? longest + 1 : least); i++)
        tw_buf_puts(b, "`");
}

/* A row of a table with the value as code. Takes text's contents; an empty one makes no row. */
static void code_row(struct tw_buf *b, const char *name, struct tw_buf *value)
{
    if (value->failed)
        b->failed = value->failed;
    if (value->len) {
        tw_buf_printf(b, "| %s | ", name);
        fence(b, value->data, 1);
        tw_buf_puts(b, " ");
        for (const char *s = value->data; *s; s++) /* a bar ends a cell, inside of code as well */
            tw_buf_append(b, *s == '|' ? "\xC2\xA6" : s, *s == '|' ? 2 : 1);
        tw_buf_puts(b, " ");
        fence(b, value->data, 1);
        tw_buf_puts(b, " |\n");
    }
    tw_buf_free(value);
}

/* A table with the verdict and what it rests on, and the whole text folded away, 100 columns
 * wide. */
int twin_report_summary(const struct twin_report *r, char **out, struct twin_error *err)
{
    static const char *const mark[] = {[TWIN_SAME] = "\xE2\x9C\x85",
                                       [TWIN_WITHIN_TOLERANCE] = "\xE2\x9C\x85",
                                       [TWIN_DIFFER] = "\xE2\x9D\x8C",
                                       [TWIN_INCONCLUSIVE] = "\xE2\x9A\xA0\xEF\xB8\x8F",
                                       [TWIN_FAILED] = "\xE2\x9D\x8C"};
    const struct twin_verdict *v = r->verdict;
    struct twin_report plain = *r;
    struct tw_buf b = {0}, cell = {0};
    char *body = NULL;
    plain.color = false;
    plain.width = 100;
    *out = NULL;
    int rc = twin_report_text(&plain, &body, err);
    if (rc != 0)
        return rc;
    tw_buf_printf(&b, "### %s twinrun %s: %s\n\n| | |\n|---|---|\n", mark[v->outcome],
                  r->verb ? r->verb : "check", twin_verdict_name(v->outcome));
    tw_say_headline(&cell, v);
    code_row(&b, "verdict", &cell);
    if (v->first)
        tw_say_place(&cell, v->first, true);
    code_row(&b, "first", &cell);
    if (v->against)
        tw_say_against(&cell, v->against);
    code_row(&b, "against", &cell);
    if (v->against)
        tw_say_world(&cell, v->against, 6);
    code_row(&b, "world", &cell);
    if (v->pinned)
        tw_say_pinned(&cell, v);
    code_row(&b, "pinned", &cell);
    for (size_t i = 0; i < v->rule_count; i++) {
        tw_say_rule(&cell, &v->rules[i]);
        code_row(&b, "tolerance", &cell);
    }
    tw_buf_puts(&b, "\n<details><summary>the whole verdict</summary>\n\n");
    fence(&b, body, 3);
    tw_buf_puts(&b, "text\n");
    tw_buf_puts(&b, body);
    fence(&b, body, 3);
    tw_buf_puts(&b, "\n\n</details>\n\n");
    tw_free(body);
    return tw_report_finish(&b, out, err);
}
