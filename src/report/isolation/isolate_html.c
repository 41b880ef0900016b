/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page of a search for a cause (twinrun isolate --html). Its first screen answers: what was
 * found, what to change, how sure that is. Below follow the notes, what was tried, how the cause
 * was confirmed, pictures of the natural runs, all runs, and the plan.
 *
 * The command fills struct twin_isolation (src/report/isolation.h); nothing is computed here but
 * places in pictures. Hypotheses and confirmation are kept apart on the page, because only the
 * fresh runs of the confirmation prove anything.
 */
#include "excerpt.h"
#include "html.h"
#include "page_inside.h"
#include "phrase.h"
#include "verdict_page.h"

#include "src/report/isolation.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Most natural runs in the strip. */
enum { RUNS_SHOWN = 200 };

/* ---- small pieces */

/* Adds a fact, and empties text for the next one. A text that failed makes the page fail; an empty
 * one is left out. */
static void fact_of(struct twin_page *p, const char *name, struct tw_buf *text)
{
    if (text->failed)
        p->body.failed = text->failed;
    else if (text->len > 0)
        twin_page_fact(p, name, "%s", text->data);
    tw_buf_free(text);
}

/* Adds a fact whose text is malloc'ed, and frees it. NULL: there was no memory for it. */
static void fact_owned(struct twin_page *p, const char *name, char *text)
{
    if (text)
        twin_page_fact(p, name, "%s", text);
    else
        p->body.failed = TWIN_ENOMEM;
    tw_free(text);
}

/* A cell with a number; "-" for a negative one, which stands for not known or none. */
static void count_cell(struct twin_page *p, int64_t n)
{
    if (n < 0)
        twin_page_cell(p, "-");
    else
        twin_page_cell(p, "%lld", (long long)n);
}

/* ---- the first screen */

/* Outcome, sentence and command. Of a search between two commands it says what the words of the
 * page mean there. */
static void page_head(struct twin_page *p, const struct twin_isolation *x)
{
    struct tw_buf about = {0};
    tw_buf_printf(&about, "twinrun isolate, %u run%s, %.1f s: %s", x->runs, tw_plural_s(x->runs),
                  x->seconds, x->command);
    if (about.failed)
        p->body.failed = about.failed;
    else
        twin_page_verdict(p, x->mood, x->outcome, x->sentence, about.data);
    tw_buf_free(&about);
    if (x->linked)
        twin_page_link_runs(p, x->linked, x->linked_count);
    tw_page_run_links(p);
    if (x->arms)
        twin_page_small(
            p, "Two commands: on this page the natural runs are those of B, beside A's first, with "
               "which all are compared; \"pinned\" means as in A, \"free\" as in B.");
}

/* Where the natural runs diverge first, with operation and source line. */
static void where(struct twin_page *p, const struct twin_isolation *x)
{
    struct tw_buf text = {0};
    const struct twin_finding *f = x->first;
    if (!f)
        return;
    tw_say_place(&text, f, f->rank != 0);
    fact_of(p, "Diverges first at", &text);
    twin_page_fact(p, "Operation", "%s", f->op);
    size_t n = strcspn(f->site, "\n");
    if (n > 0)
        fact_owned(p, "Source line", tw_strndup(f->site, n));
    else
        twin_page_fact(p, "Source line", "not recorded; twinrun check names it when a zoom can");
}

/* The second claim of a search: how often do runs diverge that have all causes pinned? bound is an
 * upper limit at 95% confidence. */
static void remaining(struct twin_page *p, const struct twin_isolation *x)
{
    struct tw_buf text = {0};
    tw_buf_printf(
        &text,
        "with all causes pinned at most %.0f%% of comparisons diverge (95%%; %llu of %llu did)",
        100 * x->bound, (unsigned long long)x->left_parted, (unsigned long long)x->left);
    if (x->more)
        tw_buf_printf(&text,
                      "; %u more clean runs would show that this is all there is (--thorough)",
                      x->more);
    fact_of(p, "Remaining", &text);
}

/* The frame of one cause. p_adjusted accounts for all confirmations that a search may make. */
static void page_cause(struct twin_page *p, const struct twin_isolation *x,
                       const struct twin_isolation_cause *c)
{
    struct tw_buf text = {0};
    tw_buf_printf(&text, "Cause: %s", c->factor);
    if (text.failed)
        p->body.failed = text.failed;
    twin_page_facts(p, text.failed ? "" : text.data);
    tw_buf_free(&text);
    twin_page_fact(p, "What varies", "%s", c->title);
    twin_page_fact(p, "Layer", "%s", c->layer);
    twin_page_fact(p, "Change", "%s", c->fix);
    for (size_t i = 0; i < c->consumer_count; i++)
        twin_page_fact(p, i ? "" : "Where", "%s", c->consumer[i]);
    where(p, x);
    twin_page_fact(p, "Knob", "%s (%s)", c->pin, c->how);
    twin_page_fact(p, "Evidence", "left free, %llu of %llu %s diverge; pinned, %llu of %llu",
                   (unsigned long long)c->free_parted, (unsigned long long)c->free_trials, x->unit,
                   (unsigned long long)c->pinned_parted, (unsigned long long)c->pinned_trials);
    twin_page_fact(p, "The pin matters",
                   "p = %.2g; %.2g for all confirmations that a search may make (criterion: %g)",
                   c->p, c->p_adjusted, x->alpha);
    remaining(p, x);
    fact_owned(p, "Cost of the pin", twin_isolation_cost_text(&c->cost));
    twin_page_fact(p, "Did the same", "%s", c->alternatives);
    twin_page_facts_end(p);
}

/* The first line that a cause's texts name; others say what no line does ("torch was never
 * seeded"). Not the one that was shown last. */
static const char *line_of(struct twin_page *p, const struct twin_isolation *x,
                           const struct twin_isolation_cause *c, const char *shown, const char *who)
{
    for (size_t i = 0; i < c->consumer_count; i++)
        if ((shown && strcmp(shown, c->consumer[i]) == 0) ||
            tw_page_excerpt(p, x->source, c->consumer[i], who))
            return c->consumer[i];
    return shown;
}

/* The lines that the causes point to: who asks for what varies, or where runs diverge first. */
static void lines(struct twin_page *p, const struct twin_isolation *x)
{
    char who[32];
    const char *shown = NULL;
    if (!x->source)
        return;
    snprintf(who, sizeof who, "run %u", x->source_number);
    for (size_t i = 0; i < x->cause_count; i++)
        shown = line_of(p, x, &x->cause[i], shown, who);
    if (!shown && x->first)
        tw_page_excerpt(p, x->source, x->first->site, who);
}

static void page_hints(struct twin_page *p, const struct twin_isolation *x)
{
    for (size_t i = 0; i < x->hint_count; i++)
        tw_page_hint(p, &x->hint[i], "no result of this search");
}

/* With no cause: what is known instead, and what could not be excluded. */
static void first_screen(struct twin_page *p, const struct twin_isolation *x)
{
    page_head(p, x);
    for (size_t i = 0; i < x->cause_count; i++)
        page_cause(p, x, &x->cause[i]);
    if (x->cause_count == 0) {
        twin_page_facts(p, "");
        where(p, x);
        if (x->baseline)
            twin_page_fact(p, "Evidence",
                           "%llu of %llu comparisons of natural runs diverge (95%% interval of the "
                           "rate: %.3g to %.3g)",
                           (unsigned long long)x->baseline_parted, (unsigned long long)x->baseline,
                           x->rate_low, x->rate_high);
        if (isfinite(x->bound))
            twin_page_fact(p, "Bound",
                           "a divergence in up to %.3g of comparisons cannot be excluded (95%%)",
                           x->bound);
        twin_page_fact(p, "Suspects", "%s", x->suspects);
        for (size_t i = 0; i < x->unseen_count; i++)
            twin_page_fact(p, i ? "" : "Not seen", "%s", x->unseen[i]);
        twin_page_facts_end(p);
    }
    lines(p, x);
    if (*x->next) {
        twin_page_heading(p, "Next");
        twin_page_command(p, x->next);
        if (*x->then)
            twin_page_command(p, x->then);
    }
    page_hints(p, x);
}

/* ---- natural runs */

/* How many steps the pictures are wide: of the field, or the longest natural run. */
static double last_step(const struct twin_isolation *x)
{
    double last = x->field && x->field->steps ? x->field->step[x->field->steps - 1] + 1.0 : 1;
    for (size_t i = 0; i < x->run_count; i++)
        if (x->run[i].natural)
            last = fmax(last, fmax((double)x->run[i].steps, (double)x->run[i].step + 1));
    return last;
}

static void page_tree(struct twin_page *p, const struct twin_isolation *x, char *const *label)
{
    twin_page_tree(
        p, "Which runs are equal, and until when?",
        "A line that leaves another one: from that step on these runs compute something else.",
        &x->tree, (const char *const *)label, (uint64_t)last_step(x));
}

/* One line for each natural run: coloured up to the step where it diverges from the reference,
 * which is the first run. The words at its end say the same for readers who do not see it. */
static void strip(struct twin_page *p, const struct twin_isolation *x)
{
    struct tw_buf *b = &p->body;
    double last = last_step(x);
    char name[24];
    tw_buf_puts(b, "<div class=\"strip\">\n");
    for (size_t i = 0, shown = 0; i < x->run_count && shown < RUNS_SHOWN; i++) {
        const struct twin_isolation_run *r = &x->run[i];
        if (!r->natural)
            continue;
        /* in per cent of the width */
        double at = r->parted && r->step >= 0 ? 100 * (double)r->step / last : 100;
        snprintf(name, sizeof name, "run %u", r->number);
        tw_buf_puts(b, "<span>");
        tw_page_words(p, name);
        tw_buf_printf(b,
                      "</span><svg height=\"24\" aria-hidden=\"true\"><line x1=\"0\" "
                      "x2=\"100%%\" y1=\"12\" y2=\"12\" class=\"rest\"/><line x1=\"0\" "
                      "x2=\"%.2f%%\" y1=\"12\" y2=\"12\" class=\"trunk\"/>",
                      at);
        if (r->parted)
            tw_buf_printf(b, "<circle cx=\"%.2f%%\" cy=\"12\" r=\"5\"/>", at);
        tw_buf_puts(b, "</svg><span>");
        if (shown++ == 0)
            tw_buf_puts(b, "reference");
        else if (r->parted && r->step >= 0)
            tw_buf_printf(b, "step %lld", (long long)r->step);
        else
            tw_buf_puts(b, r->parted ? "diverged" : "equal");
        tw_buf_puts(b, "</span>\n");
    }
    tw_buf_puts(b, "</div>\n");
}

/* Pictures of the natural runs: heatmap, tree, growth, curves; then the strip. */
static void natural(struct twin_page *p, const struct twin_isolation *x)
{
    /* labels are shared by tree and curves; without memory for them both are left out, and the page
     * fails */
    char names[48], **label = tw_calloc(x->natural_count + 1, sizeof *label);
    bool ok = label != NULL;
    for (size_t i = 0; ok && i < x->natural_count; i++)
        ok = (label[i] = tw_printf("run %u", x->natural[i])) != NULL;
    snprintf(names, sizeof names, "Natural run %u and run %u", x->field_runs[0], x->field_runs[1]);
    tw_field_where(p, NULL, x->first, x->field, names);
    if (ok && x->tree.count > 1)
        page_tree(p, x, label);
    tw_field_how_much(p, x->first, x->field);
    if (ok && x->curves)
        twin_report_curves(p, x->curves, (const char *const *)label, x->first);
    p->body.failed = ok ? p->body.failed : TWIN_ENOMEM;
    for (size_t i = 0; label && i < x->natural_count; i++)
        tw_free(label[i]);
    tw_free(label);
    twin_page_heading(p, "Natural runs: at which step does each differ from the reference?");
    twin_page_text(
        p,
        "%llu of %llu comparisons left the usual class; 95%% interval of the rate: %.3g to %.3g.",
        (unsigned long long)x->baseline_parted, (unsigned long long)x->baseline, x->rate_low,
        x->rate_high);
    strip(p, x);
}

/* ---- tables */

/* A hypothesis without a comparison has no answer. */
static const char *answer_word(const struct twin_isolation_contrast *c)
{
    if (c->parted)
        return "diverged";
    return c->compared ? "clean" : "not tried";
}

/* A table of hypotheses; factors heads the first column and says what the rows have in common. */
static void hypotheses(struct twin_page *p, const char *factors,
                       const struct twin_isolation_contrast *list, size_t count)
{
    const char *const names[] = {factors, "Compared", "Answer", "Step", "Layer", NULL};
    if (count == 0)
        return;
    twin_page_table(p, names, "tn n ");
    for (size_t i = 0; i < count; i++) {
        const struct twin_isolation_contrast *c = &list[i];
        twin_page_cell(p, "%s", c->factors);
        count_cell(p, (int64_t)c->compared);
        twin_page_cell_mood(p, c->parted ? TWIN_MOOD_FOUND : TWIN_MOOD_CLEAN, answer_word(c));
        count_cell(p, c->step);
        twin_page_cell(p, "%s", c->layer);
    }
    twin_page_table_end(p);
}

/* What was tried to find suspects: pins alone, and single factors left free. */
static void contrasts(struct twin_page *p, const struct twin_isolation *x)
{
    if (x->contrast_count + x->pins_count == 0)
        return;
    twin_page_heading(p, "Hypotheses: which factors make runs diverge?");
    twin_page_small(p, "What was tried to choose the suspects. The choice does not testify: that "
                       "is what the confirmation is for.");
    hypotheses(p, "Natural runs with these pinned", x->pins, x->pins_count);
    hypotheses(p, "All pinned, with these free", x->contrast, x->contrast_count);
}

/* The test of each cause. It is a permutation test: the order of pinned and free runs was drawn,
 * and p is computed over the orders that could have been drawn. */
static void confirmation(struct twin_page *p, const struct twin_isolation *x)
{
    static const char *const names[] = {
        "Factor", "Left free: diverged", "of", "Pinned: diverged", "of", "p", "adjusted", NULL};
    if (x->cause_count == 0)
        return;
    twin_page_heading(p,
                      "Confirmation: natural runs, with the suspects pinned or one of them free");
    twin_page_table(p, names, "tnnnnnn");
    for (size_t i = 0; i < x->cause_count; i++) {
        const struct twin_isolation_cause *c = &x->cause[i];
        twin_page_cell(p, "%s", c->factor);
        count_cell(p, (int64_t)c->free_parted);
        count_cell(p, (int64_t)c->free_trials);
        count_cell(p, (int64_t)c->pinned_parted);
        count_cell(p, (int64_t)c->pinned_trials);
        twin_page_cell(p, "%.2g", c->p);
        twin_page_cell(p, "%.2g", c->p_adjusted);
    }
    twin_page_table_end(p);
    twin_page_small(p,
                    "p is the share of arrangements of these runs that look at least as convincing "
                    "as the one that was drawn (seed %llu: %s; P pinned). Counted are %s: %s.",
                    (unsigned long long)x->seed, x->arrangement, x->unit, x->unit_why);
}

/* Every run of the search, folded away. */
static void all_runs(struct twin_page *p, const struct twin_isolation *x)
{
    static const char *const names[] = {"Run",    "For",  "Pinned", "Ended", "Seconds",
                                        "Answer", "Step", "Layer",  NULL};
    char summary[40];
    snprintf(summary, sizeof summary, "All %zu runs", x->run_count);
    twin_page_fold(p, summary);
    twin_page_table(p, names, "n t n n ");
    for (size_t i = 0; i < x->run_count; i++) {
        const struct twin_isolation_run *r = &x->run[i];
        twin_page_cell_run(p, r->number);
        twin_page_cell(p, "%s", r->purpose);
        twin_page_cell(p, "%s", r->pinned);
        twin_page_cell(p, "%s", r->ended);
        twin_page_cell(p, "%.2f", r->seconds);
        twin_page_cell_mood(p, r->parted ? TWIN_MOOD_FOUND : TWIN_MOOD_CLEAN,
                            r->parted ? "diverged" : "equal");
        count_cell(p, r->parted ? r->step : -1);
        twin_page_cell(p, "%s", r->layer);
    }
    twin_page_table_end(p);
    twin_page_unfold(p);
}

/* A line of the plan begins with a name; those that begin with blanks go on with it. As facts they
 * have a hanging indent in a window of any width. */
static void plan(struct twin_page *p, const char *text)
{
    twin_page_facts(p, "");
    while (*text && !p->body.failed) {
        const size_t name = strcspn(text, " \n");
        struct tw_buf value = {0};
        char *label = tw_strndup(text, name);
        if (!label)
            p->body.failed = TWIN_ENOMEM;
        text += name;
        do {
            text += strspn(text, " ");
            const size_t n = strcspn(text, "\n");
            tw_buf_printf(&value, "%s%.*s", value.len ? " " : "", (int)n, text);
            text += n + (text[n] == '\n');
        } while (*text == ' ');
        if (label)
            fact_of(p, label, &value);
        tw_buf_free(&value);
        tw_free(label);
    }
    twin_page_facts_end(p);
}

/* The plan as it was fixed before the first run, with the error rates that it was made for. */
static void method(struct twin_page *p, const struct twin_isolation *x)
{
    twin_page_heading(p, "Plan, written before the first run");
    plan(p, x->plan);
    twin_page_small(p,
                    "alpha %g and beta %g are error rates of the whole procedure. The log, the "
                    "plan and this page are in %s.",
                    x->alpha, x->beta, x->folder);
}

/* Notes, and the pins under which the job fails. */
static void notes(struct twin_page *p, const struct twin_isolation *x)
{
    if (x->note_count == 0 && !*x->dropped)
        return;
    twin_page_heading(p, "Notes");
    if (*x->dropped)
        twin_page_text(
            p, "The job fails under these pins, or they do not hold, and they were left out: %s",
            x->dropped);
    twin_page_list(p, x->note, x->note_count);
}

/* Failures inside of sections stay in the page and are reported by twin_page_finish. */
int twin_isolation_html(const struct twin_isolation *x, char **out, struct twin_error *err)
{
    size_t bytes;
    struct twin_page *p = twin_page_open(x->sentence);
    *out = NULL;
    if (!p)
        return tw_no_memory(err, "making a page");
    first_screen(p, x);
    notes(p, x);
    contrasts(p, x);
    confirmation(p, x);
    if (x->baseline)
        natural(p, x);
    if (x->run_count)
        all_runs(p, x);
    method(p, x);
    int rc = twin_page_finish(p, out, &bytes, err);
    twin_page_close(p);
    return rc;
}
