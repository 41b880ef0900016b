/* SPDX-License-Identifier: Apache-2.0 */
/* The lab in words: a head, a page of some lines for each step, an end; and the whole as one JSON
 * object. Each step is printed as soon as it is done, since a lab takes many minutes. */
#include "lab_report.h"

#include "json_text.h"
#include "paragraphs.h"
#include "phrase.h"
#include "put.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Most columns of a line and fewest, and those of the labels before it. */
enum { WIDTH = 110, NARROW = 40, INDENT = 15 };

/* ---- a page's text */

/* Text that begins in column indent, broken where a terminal of this width ends (0: not known). */
static void put_wrapped(struct tw_buf *b, unsigned width, size_t indent, const char *text)
{
    struct tw_paragraphs p = {.look = {.width = width == 0 || width > WIDTH ? WIDTH : width}};
    p.look.width = p.look.width < NARROW ? NARROW : p.look.width;
    tw_paragraphs_wrap(&p, text, indent);
    if (p.out.failed)
        b->failed = p.out.failed;
    else if (p.out.len)
        tw_buf_append(b, p.out.data, p.out.len);
    tw_buf_free(&p.out);
}

/* A label and what stands behind it. */
static void put_line(struct tw_buf *b, unsigned width, const char *label, const char *text)
{
    tw_buf_printf(b, "   %-11s ", label);
    put_wrapped(b, width, INDENT, text);
}

/* The lines that a step said. */
static void put_said(struct tw_buf *b, unsigned width, const struct tw_lab_step *s)
{
    for (size_t i = 0; i < s->said_count; i++)
        put_line(b, width, s->said[i].label, s->said[i].text);
}

/* ---- printing */

void tw_lab_head_text(FILE *out, unsigned width, const struct tw_lab *lab)
{
    struct tw_buf b = {0};
    char *job = tw_shell_quote(lab->argv, 0);
    tw_put_to(out, "LAB  on %s\n", lab->name);
    /* in one piece: it is there to be copied */
    tw_buf_printf(&b, "   %-11s %s\n", "command", job ? job : "?");
    if (lab->wanders)
        put_line(&b, width, "wanders", lab->wanders);
    if (lab->args.pin)
        tw_buf_printf(&b, "   %-11s %s, in every run\n", "held still", lab->args.pin);
    tw_put_lines(out, b.data ? b.data : "");
    fflush(out);
    tw_buf_free(&b);
    tw_free(job);
}

/* The word that a step's verdict begins with. */
static const char *verdict_word(enum tw_lab_result r)
{
    assert((unsigned)r <= TW_LAB_OPEN);
    static const char *const words[] = {[TW_LAB_NOT_DONE] = "NOT DONE",
                                        [TW_LAB_PASS] = "PASS",
                                        [TW_LAB_QUIET] = "QUIET",
                                        [TW_LAB_FAIL] = "FAIL",
                                        [TW_LAB_OPEN] = "OPEN"};
    return words[r];
}

void tw_lab_step_text(FILE *out, unsigned width, const struct tw_lab *lab,
                      const struct tw_lab_step *s)
{
    struct tw_buf b = {0}, head = {0};
    tw_buf_printf(&b, "\n%d  ", (int)(s - lab->step) + 1);
    tw_buf_printf(&head, "%s  %s", s->title, s->question);
    put_wrapped(&b, width, 3, head.data ? head.data : "");
    tw_buf_free(&head);
    put_said(&b, width, s);
    put_line(&b, width, verdict_word(s->result), s->why ? s->why : "");
    if (s->command)
        tw_buf_printf(&b, "   %-11s %s\n", "yourself", s->command);
    tw_put_lines(out, b.data ? b.data : "");
    fflush(out);
    tw_buf_free(&b);
}

/* ---- the end */

/* The outcome for programs: one word for each outcome. */
static const char *outcome_word(enum tw_lab_outcome outcome)
{
    switch (outcome) {
    case TW_LAB_PASSED: return "pass";
    case TW_LAB_FAILED: return "fail";
    case TW_LAB_UNSURE: return "inconclusive";
    case TW_LAB_INTERRUPTED: return "interrupted";
    case TW_LAB_JOB_FAILED: break;
    }
    return "error";
}

json_t *tw_lab_json(const struct tw_lab *lab)
{
    json_t *steps = json_array();
    json_t *command = tw_json_texts(lab->argv, lab->argc);
    const char *outcome = outcome_word(tw_lab_outcome(lab));
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
    char *where = tw_remote_text(lab->on);
    json_t *engine = where ? tw_json_text(where) : NULL;
    tw_free(where);
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:I, s:{s:f, s:f, s:f, s:f}, s:o, s:o*}",
                     "schema", "twinrun.lab/1", "outcome", outcome, "workload", lab->name,
                     "command", command, "held_still",
                     lab->args.pin ? tw_json_text(lab->args.pin) : json_null(), "configuration",
                     lab->configuration ? tw_json_text(lab->configuration) : json_null(), "folder",
                     tw_json_text(lab->folder), "runs_made", (json_int_t)lab->made, "bars", "noise",
                     TW_LAB_NOISE, "same_loss", TW_LAB_SAME_LOSS, "same_l2", TW_LAB_SAME_L2,
                     "confidence", TW_LAB_CONFIDENCE, "steps", steps, "engine", engine);
}

/* The word that the closing line begins with. */
static const char *end_word(enum tw_lab_outcome outcome)
{
    switch (outcome) {
    case TW_LAB_PASSED: return "DONE";
    case TW_LAB_INTERRUPTED: return "INTERRUPTED";
    case TW_LAB_UNSURE: return "OPEN";
    case TW_LAB_FAILED:
    case TW_LAB_JOB_FAILED: break;
    }
    return "FAIL";
}

void tw_lab_end_text(FILE *out, unsigned width, const struct tw_lab *lab)
{
    size_t count[5] = {0}, wanted = 0;
    char runs[32];
    struct tw_buf end = {0}, lines = {0};
    for (size_t i = 0; i < TW_LAB_STEPS; i++) {
        count[lab->step[i].result] += lab->step[i].wanted;
        wanted += lab->step[i].wanted;
    }
    char *where = tw_remote_text(lab->on);
    if (lab->configuration)
        tw_put_to(out, "\nmeasured: %s", lab->configuration);
    if (where)
        tw_put_to(out, "\nengine: %s", where);
    tw_free(where);
    tw_buf_printf(&end, "%s  %zu of %zu step%s pass", end_word(tw_lab_outcome(lab)),
                  count[TW_LAB_PASS], wanted, tw_plural_s(wanted));
    if (count[TW_LAB_QUIET])
        tw_buf_printf(&end, ", %zu quiet", count[TW_LAB_QUIET]);
    tw_buf_printf(&end, "; %s run%s, kept (twinrun ls); numbers in %s/lab.json",
                  tw_human_count(lab->made, runs), tw_plural_s(lab->made), lab->folder);
    tw_buf_puts(&lines, "\n");
    if (width)
        put_wrapped(&lines, width, 0, end.data ? end.data : "");
    else /* one line, where programs look for one */
        tw_buf_printf(&lines, "%s\n", end.data ? end.data : "");
    tw_put_lines(out, lines.data ? lines.data : "");
    tw_buf_free(&lines);
    tw_buf_free(&end);
}
