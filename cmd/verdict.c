/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How check, diff and zoom hand their verdict out: as text, JSON, JUnit, annotations, page. Each
 * form is made by src/report as a whole and then printed or written, so that none is cut off half-
 * way by a failure. And who has stdout meanwhile: our answer, or the job.
 */
#include "verdict.h"

#include "say.h"
#include "screen.h"
#include "options.h"

#include "base.h"
#include "verdict_gather.h"

#include "src/report/report.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { WIDTH = 100, NARROWEST = 60, SKIP_COMMIT = 125 };

/* ---- stdout, which is the job's while its output is shown */

static int reserved = -1;

void tw_stdout_reserve(void)
{
    fflush(stdout);
    reserved = dup(STDOUT_FILENO);
    if (reserved >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
        close(reserved);
        reserved = -1;
    }
}

void tw_stdout_restore(void)
{
    if (reserved < 0)
        return;
    fflush(stdout);
    dup2(reserved, STDOUT_FILENO);
    close(reserved);
    reserved = -1;
}

/* ---- forms */

/* As wide as COLUMNS says, else as the terminal, within what can be read. */
static unsigned text_columns(void)
{
    struct winsize w = {.ws_col = 0};
    const char *given = getenv("COLUMNS");
    uint64_t columns = 0;
    if (!given || tw_parse_u64(given, UINT16_MAX, &columns) != 0 || columns == 0)
        columns = ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 ? w.ws_col : 0;
    if (columns == 0 || columns > WIDTH)
        return WIDTH;
    return columns < NARROWEST ? NARROWEST : (unsigned)columns;
}

struct tw_look tw_text_look(void)
{
    return (struct tw_look){.width = text_columns(), .colour = tw_screen_colours()};
}

struct tw_look tw_lines_look(void)
{
    struct tw_look look = tw_text_look();
    if (!isatty(STDOUT_FILENO) && !getenv("COLUMNS"))
        look.width = 0;
    return look;
}

/* A form of the verdict as text; malloc'ed. */
typedef int make_fn(const struct twin_report *r, char **out, struct twin_error *err);

static int print_form(make_fn *make, const struct twin_report *r)
{
    struct twin_error err = TWIN_ERROR_INIT;
    char *text = NULL;
    if (make(r, &text, &err) != 0)
        return tw_trouble(&err, "cannot write the verdict down");
    if (r->color)
        tw_put_coloured(stdout, text);
    else
        tw_put_lines(stdout, text);
    tw_free(text);
    return 0;
}

/* For a CI: written as a whole or not at all. */
static int write_junit(const char *path, const struct twin_report *r)
{
    struct twin_error err = TWIN_ERROR_INIT;
    char *text = NULL;
    int rc = twin_report_junit(r, &text, &err);
    if (rc == 0)
        rc = tw_write_file_atomic(path, text, strlen(text), &err);
    tw_free(text);
    return rc == 0 ? 0 : tw_trouble(&err, "cannot write the JUnit file %s", path);
}

/* The file that GitHub Actions shows on the page of the job; other steps write to it too. */
static int append_summary(const char *path, const struct twin_report *r)
{
    struct twin_error err = TWIN_ERROR_INIT;
    char *text = NULL;
    if (twin_report_summary(r, &text, &err) != 0)
        return tw_trouble(&err, "cannot write the job summary");
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    int rc = fd >= 0 ? tw_write_all(fd, text, strlen(text)) : -1;
    if (rc != 0)
        twin_error_system(&err, "%s", path);
    if (fd >= 0)
        close(fd);
    tw_free(text);
    return rc == 0 ? 0 : tw_trouble(&err, "cannot write the job summary (GITHUB_STEP_SUMMARY)");
}

/*
 * The verdict with its claims, beside the recordings that it rests on: python -m twinrun.recheck
 * reads it. A verdict that cannot be kept is still a verdict, so that failing is said and no more.
 */
static void keep_verdict(const struct twin_report *r)
{
    struct twin_error err = TWIN_ERROR_INIT;
    char *text = NULL, *path = tw_path_join(r->runs[r->run_count - 1]->dir, "verdict.json");
    int rc = path ? twin_report_json(r, &text, &err) : TWIN_ENOMEM;
    if (rc == 0)
        rc = tw_write_file_atomic(path, text, strlen(text), &err);
    if (rc != 0)
        tw_say("the verdict is not kept beside the last run: %s", err.message);
    tw_free(path);
    tw_free(text);
}

/* The verdict of check is kept beside its recordings first. What could not be written makes the
 * exit code trouble: a caller that asked for a file must not take a missing one for a good end. */
int tw_verdict_print(const struct twin_verdict *v, const struct twin_run *const *runs, size_t count,
                     const struct tw_verdict_output *o)
{
    const struct tw_look look = tw_text_look();
    struct twin_report r = {
        .verdict = v,
        .runs = runs,
        .run_count = count,
        .verb = o->verb,
        .command = o->command,
        .color = !o->plain && look.colour,
        .width = o->plain ? WIDTH : look.width,
        .can_zoom = o->can_zoom,
        .can_isolate = o->can_isolate,
        .shares_files = o->shares_files,
        .repeats = o->repeats,
        .hint = o->hint,
        .hint_count = o->hint_count,
        .again = o->again,
    };
    if (count > 0 && tw_starts(o->verb, "check"))
        keep_verdict(&r);
    int rc = print_form(o->json ? twin_report_json : twin_report_text, &r);
    /* With --json the object stands alone on stdout; the runner of GitHub Actions reads annotations
     * from stderr as well. */
    if (o->github && rc == 0) {
        fflush(stdout);
        if (o->json)
            tw_stdout_reserve();
        rc = print_form(twin_report_github, &r);
        tw_stdout_restore();
        const char *summary = getenv("GITHUB_STEP_SUMMARY");
        if (rc == 0 && summary && *summary)
            rc = append_summary(summary, &r);
    }
    int junit = o->junit ? write_junit(o->junit, &r) : 0;
    int html = o->html ? tw_verdict_page(&r, o->compare, o->html) : 0;
    return rc || junit || html ? TW_EXIT_TROUBLE : twin_report_exit_code(v->outcome);
}

int tw_verdict_page(const struct twin_report *report, const struct twin_compare_options *compare,
                    const char *path)
{
    struct twin_error err = TWIN_ERROR_INIT;
    if (tw_verdict_save_page(report, compare, path, &err) != 0)
        return tw_trouble(&err, "%s: the report is not written as a page",
                          report->verb ? report->verb : "check");
    return 0;
}

int tw_verdict_json_error(int code)
{
    json_t *j = json_pack("{s:s, s:s, s:o, s:i, s:i, s:n, s:[]}", "schema", "twinrun.check/1",
                          "outcome", "error", "message", tw_json_text(tw_said()), "runs", 0,
                          "differing", 0, "first", "runs_dir");
    return tw_json_print(j) != 0 ? TW_EXIT_TROUBLE : code;
}

/* git bisect takes 125 for "this commit cannot be judged". */
int tw_bisect_code(int code, bool bisect)
{
    return bisect && (code == TW_EXIT_TROUBLE || code == TW_EXIT_INCONCLUSIVE) ? SKIP_COMMIT : code;
}
