/* SPDX-License-Identifier: Apache-2.0 */
/* What the lab prints: a page of some lines for each step as soon as it is done, or one JSON object
 * at the end. */
#include "lab.h"

#include "json.h"
#include "progress.h"
#include "say.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 110, INDENT = 15 };

const char *tw_lab_result_name(enum tw_lab_result r)
{
    static const char *const names[] = {[TW_LAB_NOT_DONE] = "not-done",
                                        [TW_LAB_PASS] = "pass",
                                        [TW_LAB_QUIET] = "quiet",
                                        [TW_LAB_FAIL] = "fail",
                                        [TW_LAB_OPEN] = "inconclusive"};
    return names[r];
}

/* ---- a page's text */

/* Breaks text at spaces; lines after the first are indented. */
static void put_wrapped(struct tw_buf *b, const char *text)
{
    const size_t room = WIDTH - INDENT;
    for (bool first = true; *text || first; first = false) {
        size_t n = strlen(text);
        if (n > room) {
            for (n = room; n > 0 && text[n] != ' '; n--)
                ;
            n = n ? n : room;
        }
        tw_buf_printf(b, "%*s%.*s\n", first ? 0 : INDENT, "", (int)n, text);
        text += n;
        text += strspn(text, " ");
    }
}

void tw_lab_line(struct tw_lab_step *s, const char *label, const char *format, ...)
{
    struct tw_buf line = {0};
    va_list ap;
    va_start(ap, format);
    tw_buf_vprintf(&line, format, ap);
    va_end(ap);
    tw_buf_printf(&s->text, "   %-11s ", label);
    if (line.data)
        put_wrapped(&s->text, line.data);
    tw_buf_free(&line);
}

void tw_lab_decide(struct tw_lab_step *s, enum tw_lab_result result, const char *format, ...)
{
    struct tw_buf line = {0};
    va_list ap;
    va_start(ap, format);
    tw_buf_vprintf(&line, format, ap);
    va_end(ap);
    tw_free(s->why);
    s->why = tw_buf_steal(&line);
    s->result = result;
}

char *tw_lab_estimate_text(const struct twin_estimate *e, size_t n, char out[120])
{
    if (e->value == 0)
        snprintf(out, 120, "0 in %zu pair%s", n, n == 1 ? "" : "s");
    else if (isnan(e->interval.low))
        snprintf(out, 120, "%.2g, no interval from %zu pair%s", e->value, n, n == 1 ? "" : "s");
    else
        snprintf(out, 120, "%.2g, 95%% interval %.2g to %.2g (%zu pairs)", e->value,
                 e->interval.low, e->interval.high, n);
    return out;
}

/* ---- printing */

void tw_lab_print_head(const struct tw_lab *lab)
{
    struct tw_buf b = {0};
    if (lab->args.json)
        return;
    char *job = tw_shell_quote(lab->argv, 0);
    tw_put("LAB  on %s\n", lab->name);
    /* in one piece: it is there to be copied */
    tw_buf_printf(&b, "   %-11s %s\n", "command", job ? job : "?");
    if (lab->wanders) {
        tw_buf_printf(&b, "   %-11s ", "wanders");
        put_wrapped(&b, lab->wanders);
    }
    if (lab->args.pin)
        tw_buf_printf(&b, "   %-11s %s, in every run\n", "held still", lab->args.pin);
    tw_put_lines(stdout, b.data ? b.data : "");
    fflush(stdout);
    tw_buf_free(&b);
    tw_free(job);
}

static const char *verdict(enum tw_lab_result r)
{
    static const char *const words[] = {[TW_LAB_NOT_DONE] = "NOT DONE",
                                        [TW_LAB_PASS] = "PASS",
                                        [TW_LAB_QUIET] = "QUIET",
                                        [TW_LAB_FAIL] = "FAIL",
                                        [TW_LAB_OPEN] = "OPEN"};
    return words[r];
}

void tw_lab_print_step(const struct tw_lab *lab, const struct tw_lab_step *s)
{
    struct tw_buf b = {0};
    if (lab->args.json)
        return;
    tw_progress_clear();
    tw_buf_printf(&b, "\n%d  %s  %s\n%s", (int)(s - lab->step) + 1, s->title, s->question,
                  s->text.data ? s->text.data : "");
    tw_buf_printf(&b, "   %-11s ", verdict(s->result));
    put_wrapped(&b, s->why ? s->why : "");
    if (s->command)
        tw_buf_printf(&b, "   %-11s %s\n", "yourself", s->command);
    tw_put_lines(stdout, b.data ? b.data : "");
    fflush(stdout);
    tw_buf_free(&b);
}

/* ---- the end */

int tw_lab_exit(const struct tw_lab *lab)
{
    bool open = false, failed = false;
    if (lab->interrupted)
        return TW_EXIT_INTERRUPTED;
    if (lab->failed)
        return TW_EXIT_TROUBLE;
    for (size_t i = 0; i < TW_LAB_STEPS; i++) {
        open |= lab->step[i].wanted &&
                (lab->step[i].result == TW_LAB_OPEN || lab->step[i].result == TW_LAB_NOT_DONE);
        failed |= lab->step[i].result == TW_LAB_FAIL;
    }
    if (failed)
        return TW_EXIT_DIFFER;
    return open ? TW_EXIT_INCONCLUSIVE : TW_EXIT_SAME;
}

/* The outcome for programs: one word for each exit code. */
static const char *outcome_word(int code)
{
    switch (code) {
    case TW_EXIT_SAME: return "pass";
    case TW_EXIT_DIFFER: return "fail";
    case TW_EXIT_INCONCLUSIVE: return "inconclusive";
    case TW_EXIT_INTERRUPTED: return "interrupted";
    default: return "error";
    }
}

static json_t *result_json(const struct tw_lab *lab, int code)
{
    json_t *steps = json_array();
    json_t *command = tw_json_texts(lab->argv, lab->argc);
    const char *outcome = outcome_word(code);
    for (size_t i = 0; i < TW_LAB_STEPS; i++) {
        const struct tw_lab_step *s = &lab->step[i];
        if (!s->wanted)
            continue;
        json_array_append_new(steps, json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:O*}", "step",
                                               s->id, "title", s->title, "question", s->question,
                                               "result", tw_lab_result_name(s->result), "why",
                                               tw_json_text(s->why ? s->why : ""), "yourself",
                                               tw_json_text(s->command ? s->command : ""),
                                               "measured", s->json));
    }
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:I, s:{s:f, s:f, s:f, s:f}, s:o}",
                     "schema", "twinrun.lab/1", "outcome", outcome, "workload", lab->name,
                     "command", command, "held_still",
                     lab->args.pin ? tw_json_text(lab->args.pin) : json_null(), "configuration",
                     lab->configuration ? tw_json_text(lab->configuration) : json_null(), "folder",
                     tw_json_text(lab->folder), "runs_made", (json_int_t)lab->made, "bars", "noise",
                     TW_LAB_NOISE, "same_loss", TW_LAB_SAME_LOSS, "same_l2", TW_LAB_SAME_L2,
                     "confidence", TW_LAB_CONFIDENCE, "steps", steps);
}

/* The word that the closing line begins with. */
static const char *end_word(int code)
{
    switch (code) {
    case TW_EXIT_SAME: return "DONE";
    case TW_EXIT_INTERRUPTED: return "INTERRUPTED";
    case TW_EXIT_INCONCLUSIVE: return "OPEN";
    default: return "FAIL";
    }
}

static void print_end(const struct tw_lab *lab, int code)
{
    size_t count[5] = {0}, wanted = 0;
    char runs[32];
    for (size_t i = 0; i < TW_LAB_STEPS; i++) {
        count[lab->step[i].result] += lab->step[i].wanted;
        wanted += lab->step[i].wanted;
    }
    if (lab->configuration)
        tw_put("\nmeasured: %s", lab->configuration);
    tw_put("\n%s  %zu of %zu step%s pass", end_word(code), count[TW_LAB_PASS], wanted,
           wanted == 1 ? "" : "s");
    if (count[TW_LAB_QUIET])
        tw_put(", %zu quiet", count[TW_LAB_QUIET]);
    tw_put("; %s run%s, kept (twinrun ls); numbers in %s/lab.json\n",
           tw_human_count(lab->made, runs), lab->made == 1 ? "" : "s", lab->folder);
}

int tw_lab_report(const struct tw_lab *lab)
{
    struct twin_error err = TWIN_ERROR_INIT;
    const int code = tw_lab_exit(lab);
    json_t *j = result_json(lab, code);
    char *text = j ? json_dumps(j, JSON_INDENT(1) | JSON_REAL_PRECISION(17)) : NULL;
    char *path = tw_printf("%s/lab.json", lab->folder);
    int rc = 0;
    if (!text || !path)
        rc = tw_trouble(NULL, "lab: no memory for the results");
    else if (tw_write_file_atomic(path, text, strlen(text), &err) != 0)
        rc = tw_trouble(&err, "lab: the results were not kept");
    free(text);
    tw_free(path);
    if (lab->args.json)
        rc = tw_json_print_exact(j) != 0 ? TW_EXIT_TROUBLE : rc;
    else
        json_decref(j);
    if (!lab->args.json)
        print_end(lab, code);
    return rc ? rc : code;
}
