/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The overview page: is the fleet fine, and if not, which run? Plain HTML without any script, from
 * the snapshot. The live page (live.c) says more, and needs a script.
 */
#include "answer.h"

#include "base.h"
#include "html.h"

#include <math.h>
#include <stdio.h>

static void put_row(struct tw_buf *b, const struct serve_row *r)
{
    static const char *const class[] = {[TW_SLO_KEPT] = "clean",
                                        [TW_SLO_BROKEN] = "found",
                                        [TW_SLO_NOT_KNOWN] = "open",
                                        [TW_SLO_SHOWN] = "soft"};
    static const char *const word[] = {[TW_SLO_KEPT] = "kept",
                                       [TW_SLO_BROKEN] = "BROKEN",
                                       [TW_SLO_NOT_KNOWN] = "not known",
                                       [TW_SLO_SHOWN] = "no target"};
    const struct tw_slo_row *row = &r->row;
    char value[40], target[40], counts[80];
    snprintf(counts, sizeof counts, "%llu good, %llu bad, %llu not known",
             (unsigned long long)row->good, (unsigned long long)row->bad,
             (unsigned long long)row->unknown);
    tw_buf_puts(b, "<tr>");
    tw_html_element(b, "td", NULL, tw_slo_name(row->id));
    tw_buf_puts(b, "<td>");
    tw_html_text(b, tw_slo_words(row->id));
    if (row->id == TW_SLO_BURN) {
        tw_buf_puts(b, ": ");
        tw_html_text(b, row->subject);
    }
    tw_buf_puts(b, "</td>");
    tw_html_element(b, "td", NULL, row->scope == TW_SLO_ALL ? "all runs" : r->name);
    tw_html_element(b, "td", class[row->state], word[row->state]);
    tw_html_element(b, "td", "n", tw_slo_figure(row->unit, row->value, value));
    tw_buf_puts(b, "<td class=\"n\">");
    if (!isnan(row->target))
        tw_buf_printf(b, "%s %s", row->at_least ? "&ge;" : "&le;",
                      tw_slo_figure(row->unit, row->target, target));
    tw_buf_puts(b, "</td>");
    tw_html_element(b, "td", NULL, counts);
    tw_html_element(b, "td", NULL, row->why);
    tw_buf_puts(b, "</tr>\n");
}

static bool is_shown(const struct tw_slo_row *r)
{
    if (r->scope == TW_SLO_ALL)
        return true;
    return r->scope == TW_SLO_PROJECT && r->state == TW_SLO_BROKEN;
}

static void put_indicators(struct tw_buf *b, const struct serve_state *s)
{
    enum { ROWS = 200 };
    size_t shown = 0, hidden = 0;
    tw_buf_puts(b, "<h2>Indicators</h2>\n<div class=\"wide\"><table>\n<tr><th>indicator</th>"
                   "<th>what</th><th>of</th><th>target</th><th class=\"n\">value</th>"
                   "<th class=\"n\">wanted</th><th>events</th><th>missing</th></tr>\n");
    for (size_t i = 0; i < s->rows; i++) {
        if (!is_shown(&s->row[i].row))
            continue;
        if (shown < ROWS)
            put_row(b, &s->row[i]);
        hidden += shown++ >= ROWS;
    }
    tw_buf_puts(b, "</table></div>\n<p class=\"soft\">All runs, and the projects of which a target "
                   "is broken");
    if (hidden)
        tw_buf_printf(b, " (%zu more of those)", hidden);
    tw_buf_puts(b, "; every row: <a href=\"/api/v1/indicators\">/api/v1/indicators</a></p>\n");
}

static void put_divergences(struct tw_buf *b, const struct serve_state *s)
{
    tw_buf_puts(b, "<h2>Latest divergences</h2>\n");
    if (!s->divergences) {
        tw_buf_puts(b, "<p>None is in the ledger.</p>\n");
        return;
    }
    tw_buf_puts(b, "<div class=\"wide\"><table>\n<tr><th>when (UTC)</th><th>by</th><th>run</th>"
                   "<th>command</th><th>first divergence</th><th>cause or layer</th></tr>\n");
    for (size_t i = 0; i < s->divergences; i++) {
        const struct serve_divergence *d = &s->divergence[i];
        char when[32];
        tw_utc_stamp(d->time_ns, when);
        tw_buf_puts(b, "<tr>");
        tw_html_element(b, "td", NULL, when);
        tw_html_element(b, "td", NULL, d->verb);
        tw_buf_puts(b, "<td>");
        if (tw_is_hex(d->run, 32))
            tw_buf_printf(b, "<a href=\"/api/v1/runs/%s\">%.8s</a>", d->run, d->run);
        tw_buf_puts(b, "</td>");
        tw_html_element(b, "td", NULL, d->command);
        tw_html_element(b, "td", NULL, d->first);
        tw_html_element(b, "td", NULL, d->layer);
        tw_buf_puts(b, "</tr>\n");
    }
    tw_buf_puts(b, "</table></div>\n");
}

static void put_answer(struct tw_buf *b, const struct serve_state *s)
{
    static const struct {
        const char *class, *words;
    } answer[] = {
        [TW_SLO_KEPT] = {"clean", "Every target is shown to be kept."},
        [TW_SLO_BROKEN] = {"found", "At least one target is broken."},
        [TW_SLO_NOT_KNOWN] = {"open", "No target is broken, but not all are shown to be kept."},
        [TW_SLO_SHOWN] = {"open", "No target is set."},
    };
    char when[32];
    tw_utc_stamp(s->made_ns, when);
    tw_buf_puts(b, "<p>");
    tw_html_element(b, "span", answer[s->verdict].class, answer[s->verdict].words);
    tw_buf_printf(b, " <span class=\"soft\">until %s</span></p>\n", when);
}

void serve_page(const struct serve_state *s, bool up, double age_s, struct tw_buf *b)
{
    tw_html_begin(b, "how reproducible the runs are", false);
    tw_buf_puts(b, "<h1>How reproducible the runs are</h1>\n");
    if (!up)
        tw_buf_printf(b,
                      "<p class=\"trouble\">The ledger cannot be read: what is shown is %.0f s "
                      "old.</p>\n",
                      s ? age_s : 0);
    if (s) {
        put_answer(b, s);
        put_indicators(b, s);
        put_divergences(b, s);
    } else {
        tw_buf_puts(b, "<p>The ledger is being read.</p>\n");
    }
    tw_buf_puts(b, "<p class=\"soft\"><a href=\"/api/v1/verdicts\">verdicts</a> &middot; <a "
                   "href=\"/api/v1/runs\">runs</a> &middot; <a href=\"/metrics\">metrics</a> "
                   "&middot; <a href=\"/api/v1/schemas\">schemas</a></p>\n</main>\n");
    tw_html_end(b, false);
}
