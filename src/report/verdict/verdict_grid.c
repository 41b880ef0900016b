/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grid of ranks and steps on a verdict's page: which rank differs when, outlined where nothing
 * brought it, with arrows for the messages and calls that brought it to the others. The numbers
 * come from src/compare (grid.c, frontier.c); this file names and explains them.
 */
#include "page_inside.h"
#include "phrase.h"
#include "verdict_page.h"
#include "verdict_parts.h"

#include <stdio.h>
#include <string.h>

/* Index of a rank's row, of a step's column; SIZE_MAX: it is not drawn. */
static size_t row_of(const struct twin_grid *g, int32_t rank)
{
    for (size_t i = 0; i < g->ranks; i++)
        if (g->rank[i] == rank)
            return i;
    return SIZE_MAX;
}

static size_t column_of(const struct twin_grid *g, uint32_t step)
{
    for (size_t i = 0; i < g->steps; i++)
        if (g->step[i] == step)
            return i;
    return SIZE_MAX;
}

/* Keeps a text; "" where there is no memory for it, and the picture fails. */
static const char *keep_text(struct tw_grid_marks *d, char *owned)
{
    if (!owned) {
        d->failed = true;
        return "";
    }
    d->text[d->texts++] = owned;
    return owned;
}

/* An arrow for who took it, an outline for who is known to have taken it from nobody. The named
 * rank has one in any case: that is what the verdict says first. */
static void add_rank(struct tw_grid_marks *d, const struct twin_grid *g,
                     const struct twin_ranked *r)
{
    const size_t row = row_of(g, r->rank), column = column_of(g, r->step_a);
    if (row == SIZE_MAX || column == SIZE_MAX)
        return;
    if (r->place == TWIN_RANK_CARRIED) {
        const size_t from = row_of(g, r->from), at = column_of(g, r->from_step);
        if (from == SIZE_MAX || at == SIZE_MAX || d->arrows == TW_GRID_ARROWS) {
            d->left++;
            return;
        }
        char *text =
            r->message
                ? tw_printf("taken from rank %d by message %u, %s", r->from, r->number_a, r->by)
                : tw_printf("taken from rank %d by call %u of %s", r->from, r->number_a, r->by);
        d->arrow[d->arrows++] = (struct twin_page_arrow){from, at, row, column, keep_text(d, text)};
    } else if (d->outlines < TW_GRID_OUTLINES && r->place != TWIN_RANK_UNKNOWN) {
        const bool first = r->place == TWIN_RANK_FIRST;
        d->outline[d->outlines++] = (struct twin_page_outline){
            row, column,
            first ? "the first difference" : "no message or collective brought it here"};
    }
}

struct tw_grid_marks *tw_grid_marks_make(const struct twin_verdict *v, const struct twin_grid *g)
{
    const struct twin_rank_order *o = v->order;
    struct tw_grid_marks *d = tw_calloc(1, sizeof *d);
    for (size_t i = 0; d && o && i < o->count; i++)
        add_rank(d, g, &o->item[i]);
    if (d && o && o->count) {
        const size_t row = row_of(g, o->item[0].rank), column = column_of(g, o->item[0].step_a);
        d->named = row != SIZE_MAX && column != SIZE_MAX;
        d->row = d->named ? row : 0;
        d->column = d->named ? column : 0;
    }
    if (d && d->failed) {
        tw_grid_marks_free(d);
        return NULL;
    }
    return d;
}

void tw_grid_marks_free(struct tw_grid_marks *d)
{
    for (size_t i = 0; d && i < d->texts; i++)
        tw_free(d->text[i]);
    tw_free(d);
}

static void caption_of(struct tw_buf *b, const struct twin_verdict *v, const struct twin_grid *g,
                       const struct tw_grid_marks *d, size_t other)
{
    const struct twin_rank_order *o = v->order;
    tw_buf_printf(b, "Run 1 and run %zu. A row is a rank, a column is a step as that rank counts. ",
                  other + 1);
    if (!o)
        tw_buf_puts(b, "What is blank was compared and is equal, bit for bit.");
    else if (d->arrows)
        tw_buf_printf(b,
                      "An arrow is a message, or a call of a collective, that brought what differs "
                      "from one rank to another; outlined is %s.",
                      o->known ? "what nothing brought" : "what is named first");
    else
        tw_buf_puts(b, "Outlined is the first difference.");
    if (o)
        tw_buf_puts(b, " Behind a rank's first difference the digest of each step decides.");
    if (o && !o->known && o->count > 1 && o->exchanges)
        tw_buf_printf(b, " Which rank diverged first, messages and collectives do not tell: %s.",
                      o->why);
    if (d->left)
        tw_buf_printf(b, " %zu more ranks took it, too.", d->left);
    if (g->ranks < g->ranks_all)
        tw_buf_printf(b, " %zu of %zu ranks are shown, those that took it first among them.",
                      g->ranks, g->ranks_all);
    if (g->steps < g->steps_all)
        tw_buf_printf(b, " %zu of %llu steps are shown: evenly chosen, and those around it.",
                      g->steps, (unsigned long long)g->steps_all);
}

void tw_grid_picture(struct twin_page *p, const struct twin_verdict *v, const struct twin_grid *g,
                     size_t other)
{
    const struct twin_rank_order *o = v->order;
    struct tw_grid_marks *d = tw_grid_marks_make(v, g);
    char **name = tw_calloc(g->ranks + 1, sizeof *name);
    struct tw_buf caption = {0};
    bool ok = d && name;
    for (size_t i = 0; ok && i < g->ranks; i++)
        ok = (name[i] = tw_printf("rank %d", g->rank[i])) != NULL;
    if (ok)
        caption_of(&caption, v, g, d, other);
    if (ok && !caption.failed) {
        struct twin_page_heatmap map = {
            .question = o && o->count ? "Which rank diverged first, and who took it from whom?"
                                      : "Was every step of every rank seen to be equal?",
            .caption = caption.data,
            .value_name = "",
            .column_name = "step",
            .column = g->step,
            .columns = g->steps,
            .row = (const char *const *)name,
            .rows = g->ranks,
            .cell = g->cell,
            .differs_name = "differs",
            .outline = d->outline,
            .outlines = d->outlines,
            .outline_name = o && o->known ? "taken from no other rank" : "named first",
            .arrow = d->arrow,
            .arrows = d->arrows};
        if (d->named) {
            map.mark_row = d->row;
            map.mark_column = d->column;
            map.mark_name = "First difference";
        }
        twin_page_heatmap(p, &map);
    } else {
        p->body.failed = TWIN_ENOMEM;
    }
    for (size_t i = 0; name && i < g->ranks; i++)
        tw_free(name[i]);
    tw_free(name);
    tw_grid_marks_free(d);
    tw_buf_free(&caption);
}
