/* SPDX-License-Identifier: Apache-2.0 */
/* What to try next, as commands. */
#include "internal.h"

#include <stdio.h>

/* A run as the commands accept it: the first 8 digits of its id. */
static const char *run_name(const struct twin_report *r, size_t index, char out[16])
{
    snprintf(out, 16, "%.8s", index < r->run_count && r->runs[index]->id ? r->runs[index]->id : "last");
    return out;
}

size_t twin_report_other(const struct twin_verdict *v)
{
    if (v->against)
        return 0;
    for (size_t r = 1; r < v->runs; r++) {
        bool with_reference = false;
        for (size_t i = 0; i < v->class_count; i++) {
            bool has_0 = false, has_r = false;
            for (size_t k = 0; k < v->classes[i].members; k++) {
                has_0 |= v->classes[i].runs[k] == 0;
                has_r |= v->classes[i].runs[k] == r;
            }
            with_reference |= has_0 && has_r;
        }
        if (!with_reference)
            return r;
    }
    return 1;
}

/* Begins a suggestion; the caller writes the command. */
static struct tw_buf *add(struct tw_next *n, size_t *count, const char *why)
{
    n[*count] = (struct tw_next){.why = why};
    return &n[(*count)++].command;
}

static size_t about_a_record(const struct twin_report *r, struct tw_next *n)
{
    const struct twin_verdict *v = r->verdict;
    size_t count = 0;
    char x[16], y[16];
    tw_buf_printf(add(n, &count, "every record of that step"), "twinrun show %s --step %u", run_name(r, twin_report_other(v), y), v->first->step_b);
    if (r->can_zoom && r->run_count > 1) {
        tw_buf_printf(add(n, &count, "name the operation"), "twinrun zoom %s %s", run_name(r, 0, x), run_name(r, twin_report_other(v), y));
    } else if (r->command && v->runs < 10 && !r->can_isolate && !v->against) {
        struct tw_buf *b = add(n, &count, "how often?");
        tw_buf_puts(b, "twinrun check --all --runs 10 -- ");
        tw_say_safe(b, r->command, 400);
    }
    return count;
}

size_t tw_report_next(const struct twin_report *r, struct tw_next *n)
{
    const struct twin_verdict *v = r->verdict;
    size_t count = 0;
    char y[16];
    if (v->outcome == TWIN_DIFFER && v->first && tw_is_record(v->first))
        count = about_a_record(r, n);
    else if (v->outcome == TWIN_DIFFER || v->outcome == TWIN_FAILED)
        tw_buf_printf(add(n, &count, "how it ended, what it printed, its processes"), "twinrun show %s",
                      run_name(r, v->outcome == TWIN_FAILED ? 0 : twin_report_other(v), y));
    else if (v->outcome == TWIN_INCONCLUSIVE && (v->runs > 1 || v->against))
        tw_buf_puts(add(n, &count, "what can be seen here, and why not more"), "twinrun doctor");
    if (v->outcome == TWIN_DIFFER && v->against && v->against->path && r->command && !r->can_isolate) {
        struct tw_buf *b = add(n, &count, "if the change is meant");
        tw_buf_puts(b, "twinrun check --save-baseline ");
        tw_say_safe(b, v->against->path, 200);
        tw_buf_puts(b, " -- ");
        tw_say_safe(b, r->command, 400);
    }
    if (v->outcome == TWIN_DIFFER && r->can_isolate && r->command) {
        struct tw_buf *b = add(n, &count, "why?");
        tw_buf_puts(b, "twinrun isolate -- ");
        tw_say_safe(b, r->command, 400);
    }
    return count;
}
