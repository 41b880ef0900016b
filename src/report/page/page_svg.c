/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pictures that need no script: histograms and trees of runs, drawn as SVG into the page.
 *
 * A histogram may have several sets of values. They share their bins, so that bars below each other
 * stand for the same values; each set has a height of its own.
 */
#include "page_inside.h"

#include "html.h"
#include "phrase.h"

#include <math.h>
#include <string.h>

/* Bars of a histogram, width of one and height of the fullest, height of a row of a tree
 * (pixels). */
enum { BINS = 40, BAR_PX = 12, HIGH_PX = 64, ROW_PX = 28 };

/* ---- histograms */

/* The range that the bins of a histogram divide evenly. low, high: the values, or their log10 when
 * log. any: there is a value to draw; low and high mean nothing otherwise. */
struct bins {
    double low, high;
    bool log, any;
};

/* Has this value a place on the axis? One that is not finite has none; on a logarithmic axis 0 and
 * negative numbers have none either. */
static bool is_usable(const struct twin_page_histogram *h, double x)
{
    return isfinite(x) && (!h->log || x > 0);
}

/* Smallest to largest usable value of all sets. */
static struct bins range_of(const struct twin_page_histogram *h)
{
    struct bins b = {.low = INFINITY, .high = -INFINITY, .log = h->log};
    for (size_t s = 0; s < h->sets; s++)
        for (size_t i = 0; i < h->set[s].count; i++)
            if (is_usable(h, h->set[s].value[i])) {
                double x = h->log ? log10(h->set[s].value[i]) : h->set[s].value[i];
                b.low = fmin(b.low, x);
                b.high = fmax(b.high, x);
                b.any = true;
            }
    if (b.any && b.low == b.high) { /* one value: a bar in the middle; 1e-300: also for 0 */
        double around = h->log ? 1 : fmax(fabs(b.low) / 10, 1e-300);
        b.low -= around;
        b.high += around;
    }
    return b;
}

/* The value at a share of the range: 0 is its beginning, 1 its end. */
static double edge(const struct bins *b, double share)
{
    double x = b->low + (b->high - b->low) * share;
    return b->log ? pow(10, x) : x;
}

/* One row of a histogram: name and number of values, bars, largest count. A bar tells its range and
 * count when the mouse is on it. */
static void one_set(struct twin_page *p, const struct twin_page_histogram *h, const struct bins *b,
                    const struct twin_page_set *set)
{
    /* most begins with 1: a set without values is drawn empty, and nothing is divided by 0 */
    size_t count[BINS] = {0}, most = 1, out = 0;
    for (size_t i = 0; i < set->count; i++) {
        if (!is_usable(h, set->value[i])) {
            out++;
            continue;
        }
        double x = h->log ? log10(set->value[i]) : set->value[i];
        size_t at = (size_t)((x - b->low) / (b->high - b->low) * BINS);
        /* the largest value is the end of the last bin */
        at = at < BINS ? at : BINS - 1;
        most = ++count[at] > most ? count[at] : most;
    }
    tw_buf_puts(&p->body, "<div class=\"set\"><span>");
    tw_html_text(&p->body, set->name);
    tw_buf_printf(&p->body, "<br><small>%zu value%s", set->count - out,
                  tw_plural_s(set->count - out));
    if (out)
        tw_buf_printf(&p->body, ", %zu left out", out);
    tw_buf_printf(&p->body,
                  "</small></span><svg viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" "
                  "role=\"img\" aria-label=\"",
                  BINS * BAR_PX, HIGH_PX);
    tw_html_text(&p->body, set->name);
    tw_buf_printf(&p->body, ": fullest bin has %zu\">\n", most);
    for (int i = 0; i < BINS; i++) {
        double high = (double)count[i] / (double)most * HIGH_PX;
        if (count[i] == 0)
            continue;
        high = fmax(high, 1.5); /* pixels: one value among a million is still seen */
        tw_buf_printf(&p->body,
                      "<rect x=\"%d\" y=\"%.2f\" width=\"%d\" height=\"%.2f\"><title>%.3g to %.3g: "
                      "%zu</title></rect>\n",
                      i * BAR_PX, HIGH_PX - high, BAR_PX - 1, high, edge(b, (double)i / BINS),
                      edge(b, (i + 1.0) / BINS), count[i]);
    }
    tw_buf_printf(&p->body, "</svg><small>max %zu</small></div>\n", most);
}

/* The axis below has five numbers: 0, 1/4, 1/2, 3/4 and the whole of the range. */
void twin_page_histogram(struct twin_page *p, const struct twin_page_histogram *h)
{
    const struct bins b = range_of(h);
    tw_page_figure(p, h->question, h->caption, "hist");
    if (!b.any) {
        twin_page_small(p, "There is no value to draw.");
    } else {
        for (size_t i = 0; i < h->sets && !tw_page_failed(p); i++)
            one_set(p, h, &b, &h->set[i]);
        tw_buf_puts(&p->body, "<div class=\"set axis\"><span></span><div>");
        for (int i = 0; i <= 4; i++)
            tw_buf_printf(&p->body, "<span>%.2g</span>", edge(&b, i / 4.0));
        tw_buf_puts(&p->body, "</div><small></small></div>\n");
        tw_html_element(&p->body, "p", "soft axisname", h->x_name);
    }
    tw_page_figure_end(p);
}

/* ---- trees */

/* The tree in words, for readers who do not see the picture. */
static void say_tree(struct tw_buf *b, const struct twin_class_tree *t, const char *const *label)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct twin_branch *branch = &t->branch[i];
        tw_buf_puts(b, i ? "; " : "");
        for (size_t k = 0; k < branch->members; k++) {
            tw_buf_puts(b, k ? ", " : "");
            tw_html_text(b, label[branch->runs[k]]);
        }
        if (branch->step >= 0)
            tw_buf_printf(b, ": from step %lld on", (long long)branch->step);
        else
            tw_buf_puts(b, i == 0 ? ": the usual class" : "");
    }
}

/* A row for each class: at the left its runs, beside them a line. The line begins at the step where
 * these runs leave their parent class, and a vertical line leads up or down to the parent's row.
 * The first class is the usual one and has the whole width. Steps are places in per cent of
 * `steps`. */
void twin_page_tree(struct twin_page *p, const char *question, const char *caption,
                    const struct twin_class_tree *t, const char *const *label, uint64_t steps)
{
    struct tw_buf *b = &p->body;
    const double last = steps ? (double)steps : 1;
    tw_page_figure(p, question, caption, NULL);
    /* what is in an image is not heard, so a tree with links is none */
    tw_buf_printf(b, "<div class=\"tree\" role=\"%s\" aria-label=\"",
                  p->linked_count ? "group" : "img");
    say_tree(b, t, label);
    tw_buf_puts(b, "\"><div class=\"names\">\n");
    /* the names, in the order of the rows */
    for (size_t i = 0; i < t->count; i++) {
        tw_buf_puts(b, "<div>");
        for (size_t k = 0; k < t->branch[i].members; k++) {
            tw_buf_puts(b, k ? ", " : "");
            tw_page_words(p, label[t->branch[i].runs[k]]);
        }
        tw_buf_puts(b, "</div>\n");
    }
    /* the lines; y is the middle of a row */
    tw_buf_printf(b, "</div><svg height=\"%zu\">\n", t->count * ROW_PX);
    for (size_t i = 0; i < t->count; i++) {
        const struct twin_branch *branch = &t->branch[i];
        double left = branch->step < 0 ? 0 : fmin(100, 100 * (double)branch->step / last);
        size_t y = i * ROW_PX + ROW_PX / 2, from = branch->parent * ROW_PX + ROW_PX / 2;
        tw_buf_printf(b, "<line x1=\"%.2f%%\" x2=\"100%%\" y1=\"%zu\" y2=\"%zu\" class=\"%s\"/>\n",
                      left, y, y, i ? "branch" : "trunk");
        /* where this class leaves its parent: a vertical line, with a dot on the parent's */
        if (i)
            tw_buf_printf(b,
                          "<line x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"%zu\" y2=\"%zu\" "
                          "class=\"leave\"/><circle cx=\"%.2f%%\" cy=\"%zu\" r=\"4\"/>\n",
                          left, left, from, y, left, from);
    }
    tw_buf_printf(b,
                  "</svg><div></div><div class=\"ends\"><span>step 0</span><span>step "
                  "%llu</span></div></div>\n",
                  (unsigned long long)(steps ? steps - 1 : 0));
    tw_page_figure_end(p);
}
