/* SPDX-License-Identifier: Apache-2.0 */
/* What a step of the lab says and decides, until it is laid out, and what the steps come to
 * together. A step collects labelled lines for the page and one decision with its reason; no step
 * prints anything itself. The worst step makes the outcome of the lab: one that failed, then one
 * that is open. */
#include "lab.h"

#include "phrase.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

const char *tw_lab_result_name(enum tw_lab_result r)
{
    static const char *const names[] = {[TW_LAB_NOT_DONE] = "not-done",
                                        [TW_LAB_PASS] = "pass",
                                        [TW_LAB_QUIET] = "quiet",
                                        [TW_LAB_FAIL] = "fail",
                                        [TW_LAB_OPEN] = "inconclusive"};
    return names[r];
}

void tw_lab_line(struct tw_lab_step *s, const char *label, const char *format, ...)
{
    /* A line that cannot be stored is missing on the page; the decision does not rest on it. */
    struct tw_lab_said *grown = tw_reallocarray(s->said, s->said_count + 1, sizeof *grown);
    va_list ap;
    if (!grown)
        return;
    s->said = grown;
    struct tw_lab_said *last = &s->said[s->said_count];
    va_start(ap, format);
    *last = (struct tw_lab_said){tw_strdup(label), tw_vprintf(format, ap)};
    va_end(ap);
    if (last->label && last->text) {
        s->said_count++;
        return;
    }
    tw_free(last->label);
    tw_free(last->text);
}

void tw_lab_decide(struct tw_lab_step *s, enum tw_lab_result result, const char *format, ...)
{
    va_list ap;
    tw_free(s->why);
    va_start(ap, format);
    s->why = tw_vprintf(format, ap);
    va_end(ap);
    s->result = result;
}

char *tw_lab_estimate_text(const struct twin_estimate *e, size_t n, char out[120])
{
    if (e->value == 0)
        snprintf(out, 120, "0 in %zu pair%s", n, tw_plural_s(n));
    else if (isnan(e->interval.low))
        snprintf(out, 120, "%.2g, no interval from %zu pair%s", e->value, n, tw_plural_s(n));
    else
        snprintf(out, 120, "%.2g, 95%% interval %.2g to %.2g (%zu pairs)", e->value,
                 e->interval.low, e->interval.high, n);
    return out;
}

void tw_lab_step_free(struct tw_lab_step *s)
{
    for (size_t i = 0; i < s->said_count; i++) {
        tw_free(s->said[i].label);
        tw_free(s->said[i].text);
    }
    json_decref(s->json);
    tw_free(s->said);
    tw_free(s->why);
    tw_free(s->command);
}

enum tw_lab_outcome tw_lab_outcome(const struct tw_lab *lab)
{
    bool open = false, failed = false;
    if (lab->interrupted)
        return TW_LAB_INTERRUPTED;
    if (lab->failed)
        return TW_LAB_JOB_FAILED;
    for (size_t i = 0; i < TW_LAB_STEPS; i++) {
        open |= lab->step[i].wanted &&
                (lab->step[i].result == TW_LAB_OPEN || lab->step[i].result == TW_LAB_NOT_DONE);
        failed |= lab->step[i].result == TW_LAB_FAIL;
    }
    if (failed)
        return TW_LAB_FAILED;
    return open ? TW_LAB_UNSURE : TW_LAB_PASSED;
}
