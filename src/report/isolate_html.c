/* SPDX-License-Identifier: Apache-2.0 */
/* The page of a search for a cause. Its first screen answers: what was found, what to change, how sure that is. */
#include "html.h"

#include <math.h>
#include <string.h>
#include <twin/isolation.h>

enum { ROW_PX = 28, RUNS_SHOWN = 200 };

/* ---- small pieces */

static void heading(struct tw_buf *b, const char *text)
{
    tw_html_element(b, "h2", NULL, text);
    tw_buf_puts(b, "\n");
}

static void row(struct tw_buf *b, const char *name, const char *value)
{
    if (!*value)
        return;
    tw_html_element(b, "dt", NULL, name);
    tw_html_element(b, "dd", NULL, value);
    tw_buf_puts(b, "\n");
}

/* Takes text's contents. */
static void row_of(struct tw_buf *b, const char *name, struct tw_buf *text)
{
    if (text->failed)
        b->failed = text->failed;
    else if (text->len > 0)
        row(b, name, text->data);
    tw_buf_free(text);
}

static void row_owned(struct tw_buf *b, const char *name, char *text)
{
    if (text)
        row(b, name, text);
    else
        b->failed = TWIN_ENOMEM;
    tw_free(text);
}

static void number_cell(struct tw_buf *b, int64_t n)
{
    if (n < 0)
        tw_buf_puts(b, "<td class=\"n\">-</td>");
    else
        tw_buf_printf(b, "<td class=\"n\">%lld</td>", (long long)n);
}

static void table_begin(struct tw_buf *b, const char *const *names, const char *numeric)
{
    tw_buf_puts(b, "<div class=\"wide\"><table>\n<tr>");
    for (size_t i = 0; names[i]; i++)
        tw_html_element(b, "th", numeric[i] == 'n' ? "n" : NULL, names[i]);
    tw_buf_puts(b, "</tr>\n");
}

static void table_end(struct tw_buf *b)
{
    tw_buf_puts(b, "</table></div>\n");
}

/* ---- the first screen */

static void head(struct tw_buf *b, const struct twin_isolation *x)
{
    static const char *const classes[] = {"word found", "word clean", "word open", "word trouble"};
    tw_html_element(b, "div", classes[x->mood], x->outcome);
    tw_buf_puts(b, "\n");
    tw_html_element(b, "h1", NULL, x->sentence);
    tw_buf_puts(b, "\n<p class=\"soft\">twinrun isolate, ");
    tw_buf_printf(b, "%u run%s, %.1f s: <code>", x->runs, x->runs == 1 ? "" : "s", x->seconds);
    tw_html_text(b, x->command);
    tw_buf_puts(b, "</code></p>\n");
    if (x->arms)
        tw_buf_puts(b, "<p class=\"soft\">Two commands: on this page the natural runs are those of B, beside A's first, with which all are compared; "
                       "\"pinned\" means as in A, \"free\" as in B.</p>\n");
}

static void where(struct tw_buf *b, const struct twin_isolation *x)
{
    struct tw_buf text = {0};
    const struct twin_finding *f = x->first;
    if (!f)
        return;
    tw_say_place(&text, f, f->rank != 0);
    row_of(b, "Parts first at", &text);
    row(b, "Operation", f->op);
    size_t n = strcspn(f->site, "\n");
    if (n > 0)
        row_owned(b, "Source line", tw_strndup(f->site, n));
    else
        row(b, "Source line", "not recorded; twinrun check names it when a zoom can");
}

static void cause(struct tw_buf *b, const struct twin_isolation *x, const struct twin_isolation_cause *c)
{
    struct tw_buf text = {0};
    tw_buf_puts(b, "<div class=\"card\">\n<h3>Cause: <code>");
    tw_html_text(b, c->factor);
    tw_buf_puts(b, "</code></h3>\n<dl>\n");
    row(b, "What varies", c->title);
    row(b, "Layer", c->layer);
    row(b, "Change", c->fix);
    for (size_t i = 0; i < c->consumer_count; i++)
        row(b, i ? "" : "Where", c->consumer[i]);
    where(b, x);
    tw_buf_printf(&text, "%s (%s)", c->pin, c->how);
    row_of(b, "Knob", &text);
    tw_buf_printf(&text, "left free, %llu of %llu %s part; pinned, %llu of %llu", (unsigned long long)c->free_parted,
                  (unsigned long long)c->free_trials, x->unit, (unsigned long long)c->pinned_parted, (unsigned long long)c->pinned_trials);
    row_of(b, "Evidence", &text);
    tw_buf_printf(&text, "p = %.2g; %.2g for all that was tested (criterion: %g)", c->p, c->p_adjusted, x->alpha);
    row_of(b, "Error", &text);
    row_owned(b, "Cost of the pin", twin_isolation_cost_text(&c->cost));
    row(b, "Did the same", c->alternatives);
    tw_buf_puts(b, "</dl>\n</div>\n");
}

static void hints(struct tw_buf *b, const struct twin_isolation *x)
{
    struct tw_buf text = {0};
    for (size_t i = 0; i < x->hint_count; i++) {
        const struct twin_hint *h = &x->hint[i];
        tw_buf_puts(b, "<div class=\"card\">\n<h3>Seen before: ");
        tw_html_text(b, h->title);
        tw_buf_puts(b, "</h3>\n<p class=\"soft\">A hint from the collection of known cases, no result of this search.</p>\n<dl>\n");
        row(b, "Case", h->id);
        row(b, "Cause there", h->cause);
        row(b, "Remedy there", h->fix);
        tw_buf_printf(&text, "%s (%u of %u points)", h->why, h->points, h->of);
        row_of(b, "Looks alike in", &text);
        tw_buf_puts(b, "</dl>\n</div>\n");
    }
}

static void first_screen(struct tw_buf *b, const struct twin_isolation *x)
{
    struct tw_buf text = {0};
    head(b, x);
    for (size_t i = 0; i < x->cause_count; i++)
        cause(b, x, &x->cause[i]);
    if (x->cause_count == 0) {
        tw_buf_puts(b, "<div class=\"card\">\n<dl>\n");
        where(b, x);
        if (x->baseline) {
            tw_buf_printf(&text, "%llu of %llu comparisons of natural runs part (95%% interval of the rate: %.3g to %.3g)", (unsigned long long)x->baseline_parted,
                          (unsigned long long)x->baseline, x->rate_low, x->rate_high);
            row_of(b, "Evidence", &text);
        }
        if (isfinite(x->bound)) {
            tw_buf_printf(&text, "a divergence in up to %.3g of comparisons cannot be excluded (95%%)", x->bound);
            row_of(b, "Bound", &text);
        }
        row(b, "Suspects", x->suspects);
        tw_buf_puts(b, "</dl>\n</div>\n");
    }
    if (*x->next) {
        heading(b, "Next");
        tw_html_element(b, "pre", NULL, x->next);
        tw_buf_puts(b, "\n");
    }
    hints(b, x);
}

/* ---- natural runs */

static double last_step(const struct twin_isolation *x)
{
    double last = 1;
    for (size_t i = 0; i < x->run_count; i++)
        if (x->run[i].natural)
            last = fmax(last, fmax((double)x->run[i].steps, (double)x->run[i].step + 1));
    return last;
}

/* Per class its runs, beside it a line that leaves its parent's at the step where they part. */
static void tree(struct tw_buf *b, const struct twin_isolation *x)
{
    const struct twin_class_tree *t = &x->tree;
    double last = last_step(x);
    if (t->count < 2)
        return;
    tw_buf_puts(b, "<div class=\"tree\" role=\"img\" aria-label=\"");
    char *words = twin_isolation_classes(x);
    if (words)
        tw_html_text(b, words);
    else
        b->failed = TWIN_ENOMEM;
    tw_free(words);
    tw_buf_puts(b, "\"><div style=\"height:auto\">\n");
    for (size_t i = 0; i < t->count; i++) {
        tw_buf_puts(b, t->branch[i].members == 1 ? "<div>run" : "<div>runs");
        for (size_t k = 0; k < t->branch[i].members; k++)
            tw_buf_printf(b, "%s%u", k ? ", " : " ", x->natural[t->branch[i].runs[k]]);
        tw_buf_puts(b, "</div>\n");
    }
    tw_buf_printf(b, "</div><svg height=\"%zu\">\n", t->count * ROW_PX);
    for (size_t i = 0; i < t->count; i++) {
        const struct twin_branch *branch = &t->branch[i];
        double left = branch->step < 0 ? 0 : 100 * (double)branch->step / last;
        size_t y = i * ROW_PX + ROW_PX / 2, from = branch->parent * ROW_PX + ROW_PX / 2;
        tw_buf_printf(b, "<line x1=\"%.2f%%\" x2=\"100%%\" y1=\"%zu\" y2=\"%zu\" stroke=\"var(--%s)\" stroke-width=\"3\"/>\n", left, y, y, i ? "found" : "trunk");
        if (i)
            tw_buf_printf(b, "<line x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"%zu\" y2=\"%zu\" stroke=\"var(--soft)\"/><circle cx=\"%.2f%%\" cy=\"%zu\" r=\"4\" fill=\"var(--found)\"/>\n",
                          left, left, from, y, left, from);
    }
    tw_buf_puts(b, "</svg></div>\n");
}

static void strip(struct tw_buf *b, const struct twin_isolation *x)
{
    double last = last_step(x);
    tw_buf_puts(b, "<div class=\"strip\">\n");
    for (size_t i = 0, shown = 0; i < x->run_count && shown < RUNS_SHOWN; i++) {
        const struct twin_isolation_run *r = &x->run[i];
        if (!r->natural)
            continue;
        double at = r->parted && r->step >= 0 ? 100 * (double)r->step / last : 100;
        tw_buf_printf(b, "<span>run %u</span><svg height=\"24\" aria-hidden=\"true\"><line x1=\"0\" x2=\"100%%\" y1=\"12\" y2=\"12\" stroke=\"var(--line)\" "
                         "stroke-width=\"3\"/><line x1=\"0\" x2=\"%.2f%%\" y1=\"12\" y2=\"12\" stroke=\"var(--trunk)\" stroke-width=\"3\"/>",
                      r->number, at);
        if (r->parted)
            tw_buf_printf(b, "<circle cx=\"%.2f%%\" cy=\"12\" r=\"5\" fill=\"var(--found)\"/>", at);
        tw_buf_puts(b, "</svg><span>");
        if (shown++ == 0)
            tw_buf_puts(b, "reference");
        else if (r->parted && r->step >= 0)
            tw_buf_printf(b, "step %lld", (long long)r->step);
        else
            tw_buf_puts(b, r->parted ? "parted" : "equal");
        tw_buf_puts(b, "</span>\n");
    }
    tw_buf_puts(b, "</div>\n");
}

static void natural(struct tw_buf *b, const struct twin_isolation *x)
{
    heading(b, "Natural runs");
    tw_buf_printf(b, "<p>%llu of %llu comparisons left the usual class; 95%% interval of the rate: %.3g to %.3g.</p>\n",
                  (unsigned long long)x->baseline_parted, (unsigned long long)x->baseline, x->rate_low, x->rate_high);
    if (x->tree.count > 1) {
        tw_html_element(b, "h3", NULL, "Where they split, from the first step to the last");
        tree(b, x);
    }
    tw_html_element(b, "h3", NULL, "First step that differs from the reference");
    strip(b, x);
}

/* ---- tables */

static void hypotheses(struct tw_buf *b, const char *factors, const struct twin_isolation_contrast *list, size_t count)
{
    const char *const names[] = {factors, "Compared", "Answer", "Step", "Layer", NULL};
    if (count == 0)
        return;
    table_begin(b, names, " n n ");
    for (size_t i = 0; i < count; i++) {
        const struct twin_isolation_contrast *c = &list[i];
        tw_buf_puts(b, "<tr>");
        tw_html_element(b, "td", "what", c->factors);
        number_cell(b, (int64_t)c->compared);
        tw_html_element(b, "td", c->parted ? "found" : "clean", c->parted ? "parted" : c->compared ? "clean" : "not tried");
        number_cell(b, c->step);
        tw_html_element(b, "td", NULL, c->layer);
        tw_buf_puts(b, "</tr>\n");
    }
    table_end(b);
}

static void contrasts(struct tw_buf *b, const struct twin_isolation *x)
{
    if (x->contrast_count + x->pins_count == 0)
        return;
    heading(b, "Hypotheses");
    tw_buf_puts(b, "<p class=\"soft\">What was tried to choose the suspects. The choice does not testify: that is what the confirmation is for.</p>\n");
    hypotheses(b, "Natural runs with these pinned", x->pins, x->pins_count);
    hypotheses(b, "All pinned, with these free", x->contrast, x->contrast_count);
}

static void confirmation(struct tw_buf *b, const struct twin_isolation *x)
{
    static const char *const names[] = {"Factor", "Left free: parted", "of", "Pinned: parted", "of", "p", "adjusted", NULL};
    if (x->cause_count == 0)
        return;
    heading(b, "Confirmation: natural runs, with the suspects pinned or one of them free");
    table_begin(b, names, " nnnnnn");
    for (size_t i = 0; i < x->cause_count; i++) {
        const struct twin_isolation_cause *c = &x->cause[i];
        tw_buf_puts(b, "<tr>");
        tw_html_element(b, "td", "what", c->factor);
        number_cell(b, (int64_t)c->free_parted);
        number_cell(b, (int64_t)c->free_trials);
        number_cell(b, (int64_t)c->pinned_parted);
        number_cell(b, (int64_t)c->pinned_trials);
        tw_buf_printf(b, "<td class=\"n\">%.2g</td><td class=\"n\">%.2g</td></tr>\n", c->p, c->p_adjusted);
    }
    table_end(b);
    tw_buf_puts(b, "<p class=\"soft\">Free and parting: necessary. Pinned and clean: sufficient. The unit of trial is ");
    tw_html_text(b, x->unit);
    tw_buf_puts(b, ": ");
    tw_html_text(b, x->unit_why);
    tw_buf_puts(b, ".</p>\n");
}

static void all_runs(struct tw_buf *b, const struct twin_isolation *x)
{
    static const char *const names[] = {"Run", "For", "Pinned", "Ended", "Seconds", "Answer", "Step", "Layer", NULL};
    tw_buf_printf(b, "<details><summary>All %zu runs</summary>\n", x->run_count);
    table_begin(b, names, "n   n n ");
    for (size_t i = 0; i < x->run_count; i++) {
        const struct twin_isolation_run *r = &x->run[i];
        tw_buf_printf(b, "<tr><td class=\"n\">%u</td>", r->number);
        tw_html_element(b, "td", NULL, r->purpose);
        tw_html_element(b, "td", "what", r->pinned);
        tw_html_element(b, "td", NULL, r->ended);
        tw_buf_printf(b, "<td class=\"n\">%.2f</td>", r->seconds);
        tw_html_element(b, "td", r->parted ? "found" : "clean", r->parted ? "parted" : "equal");
        number_cell(b, r->parted ? r->step : -1);
        tw_html_element(b, "td", NULL, r->layer);
        tw_buf_puts(b, "</tr>\n");
    }
    table_end(b);
    tw_buf_puts(b, "</details>\n");
}

static void method(struct tw_buf *b, const struct twin_isolation *x)
{
    heading(b, "Plan, written before the first run");
    const char *line = x->plan;
    tw_buf_puts(b, "<pre>");
    while (*line) { /* escaped line by line, since a line's end is no harm here */
        size_t n = strcspn(line, "\n");
        char *copy = tw_strndup(line, n);
        if (copy)
            tw_html_text(b, copy);
        else
            b->failed = TWIN_ENOMEM;
        tw_free(copy);
        tw_buf_puts(b, line[n] ? "\n" : "");
        line += n + (line[n] == '\n');
    }
    tw_buf_printf(b, "</pre>\n<p class=\"soft\">alpha %g and beta %g are error rates of the whole procedure. The log, the plan and this page are in ", x->alpha,
                  x->beta);
    tw_html_element(b, "code", NULL, x->folder);
    tw_buf_puts(b, ".</p>\n");
}

static void notes(struct tw_buf *b, const struct twin_isolation *x)
{
    if (x->note_count == 0 && !*x->dropped)
        return;
    heading(b, "Notes");
    tw_buf_puts(b, "<ul>\n");
    if (*x->dropped) {
        tw_buf_puts(b, "<li>the job fails under these pins, which were left out: ");
        tw_html_text(b, x->dropped);
        tw_buf_puts(b, "</li>\n");
    }
    for (size_t i = 0; i < x->note_count; i++) {
        tw_html_element(b, "li", NULL, x->note[i]);
        tw_buf_puts(b, "\n");
    }
    tw_buf_puts(b, "</ul>\n");
}

int twin_isolation_html(const struct twin_isolation *x, char **out, struct twin_error *err)
{
    struct tw_buf b = {0};
    tw_html_begin(&b, x->sentence);
    first_screen(&b, x);
    notes(&b, x);
    if (x->baseline)
        natural(&b, x);
    contrasts(&b, x);
    confirmation(&b, x);
    if (x->run_count)
        all_runs(&b, x);
    method(&b, x);
    tw_html_end(&b);
    return tw_report_finish(&b, out, err);
}
