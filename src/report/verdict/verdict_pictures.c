/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pictures of a verdict: where runs differ and by how much (heatmap), how that grows (fan), how
 * large differences are (histogram), which runs agree until when (tree), what they recorded
 * (curves).
 *
 * The numbers come from src/compare (field.c, curves.c, tree); this file chooses what is drawn
 * together, names it and explains it. It judges nothing.
 */
#include "page_inside.h"
#include "verdict_page.h"
#include "verdict_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names of which curves are drawn, and of settings that are listed; most points of a curve: of a
 * longer one every n-th step is drawn. */
enum { CURVE_NAMES = 8, HELD_NAMES = 24, DRAWN_STEPS = 20000 };

/* A picture that cannot be made for lack of memory makes the page fail. */
static void no_memory(struct twin_page *p)
{
    p->body.failed = TWIN_ENOMEM;
}

/* ---- groups of rows: what of a step they are */

const char *tw_field_group(enum twin_phase phase, enum twin_kind kind)
{
    switch (kind) {
    case TWIN_KIND_BATCH: return "batches";
    case TWIN_KIND_INDICES: return "sample indices";
    case TWIN_KIND_STATE: return "generator states";
    case TWIN_KIND_WEIGHT: return phase == TWIN_PHASE_INIT ? "initial weights" : "weights";
    case TWIN_KIND_ACTIVATION: return "activations";
    case TWIN_KIND_LOSS: return "loss";
    case TWIN_KIND_GRADIENT_LOCAL: return "local gradients";
    case TWIN_KIND_GRADIENT: return "gradients";
    case TWIN_KIND_MOMENT: return "optimizer state";
    case TWIN_KIND_HYPER: return "hyperparameters";
    case TWIN_KIND_VALUE: return "recorded values";
    default: break;
    }
    if (phase == TWIN_PHASE_COLLECTIVE)
        return "collectives";
    return phase == TWIN_PHASE_KERNEL ? "operations" : "other";
}

/* Do the rows belong to more than one rank? Only then a rank is said. */
static bool many_ranks(const struct twin_field *f)
{
    for (size_t i = 0; i < f->rows; i++)
        if (f->row[i].rank != f->row[0].rank)
            return true;
    return false;
}

/* ---- the heatmap */

/* Does any tensor differ in any step? */
static bool field_differs(const struct twin_field *f)
{
    for (size_t i = 0; i < f->rows; i++)
        if (f->row[i].differs)
            return true;
    return false;
}

/* Index of a step's column or a finding's row; SIZE_MAX: it is not drawn. */
static size_t column_of(const struct twin_field *f, uint32_t step)
{
    for (size_t i = 0; i < f->steps; i++)
        if (f->step[i] == step)
            return i;
    return SIZE_MAX;
}

static size_t row_of(const struct twin_field *f, const struct twin_finding *x)
{
    for (size_t i = 0; i < f->rows; i++)
        if (f->row[i].rank == x->rank && f->row[i].phase == x->phase && f->row[i].kind == x->kind &&
            strcmp(f->row[i].name, x->name) == 0)
            return i;
    return SIZE_MAX;
}

/* What the heatmap shows and how to read it. again: another heatmap above was explained already.
 * What was left out is always said. */
static void caption_of(struct tw_buf *b, const struct twin_field *f, const char *runs, bool differs,
                       bool again)
{
    if (again) {
        tw_buf_printf(b, "%s, to be read as the picture above.", runs);
        return;
    }
    tw_buf_printf(b,
                  "%s. A row is a tensor, in the order in which a step flows from data to weights; "
                  "a column is a step. ",
                  runs);
    if (differs)
        tw_buf_puts(b,
                    "What diverges alone in the first coloured column is where it begins; weights "
                    "carry it into every later step.");
    else
        tw_buf_puts(b, "What is blank was compared and is equal, bit for bit.");
    if (f->estimated)
        tw_buf_puts(b, " Differences of whole tensors are estimated from sketches, to about 20%.");
    if (f->steps < f->steps_all)
        tw_buf_printf(b,
                      " %zu of %llu steps are shown: evenly chosen, and each one around the first "
                      "difference.",
                      f->steps, (unsigned long long)f->steps_all);
    if (f->rows < f->rows_all)
        tw_buf_printf(b, " %zu of %zu tensors are shown, those that differ first.", f->rows,
                      f->rows_all);
}

/* The heatmap of a field. The cell of the first difference is marked when it is among those
 * drawn. */
static void heatmap(struct twin_page *p, const char *question, const struct twin_finding *first,
                    const struct twin_field *f, const char *runs)
{
    const bool ranks = many_ranks(f), differs = field_differs(f);
    /* group[i] is a static name, or owned[i], when it has a rank in it */
    const char **name = tw_calloc(f->rows, sizeof *name);
    const char **group = tw_calloc(f->rows, sizeof *group);
    char **owned = tw_calloc(f->rows, sizeof *owned);
    struct tw_buf caption = {0};
    caption_of(&caption, f, runs, differs, question && !first);
    bool ok = name && group && owned && !caption.failed;
    for (size_t i = 0; ok && i < f->rows; i++) {
        name[i] = f->row[i].name;
        group[i] = tw_field_group(f->row[i].phase, f->row[i].kind);
        if (ranks) {
            group[i] = owned[i] = tw_printf("rank %d, %s", f->row[i].rank, group[i]);
            ok = owned[i] != NULL;
        }
    }
    /* the usual question depends on what is to be seen */
    if (!question)
        question = differs ? "Where do the runs differ, and by how much?"
                           : "Was every tensor of every step seen to be equal?";
    if (ok) {
        struct twin_page_heatmap map = {.question = question,
                                        .caption = caption.data,
                                        .value_name = "relative difference",
                                        .column_name = "step",
                                        .column = f->step,
                                        .columns = f->steps,
                                        .row = name,
                                        .group = group,
                                        .rows = f->rows,
                                        .cell = f->cell};
        /* a step or tensor that was left out cannot be marked */
        if (first && tw_is_record(first) && column_of(f, first->step_a) != SIZE_MAX &&
            row_of(f, first) != SIZE_MAX) {
            map.mark_column = column_of(f, first->step_a);
            map.mark_row = row_of(f, first);
            map.mark_name = "First difference";
        }
        twin_page_heatmap(p, &map);
    } else {
        no_memory(p);
    }
    for (size_t i = 0; owned && i < f->rows; i++)
        tw_free(owned[i]);
    tw_free(owned);
    tw_free(name);
    tw_free(group);
    tw_buf_free(&caption);
}

/* ---- the fan: of each group the median over its tensors, between the smallest and the largest */

/* Ascending, for qsort; no value is NaN. */
static int by_value(const void *x, const void *y)
{
    const double *a = x, *b = y;
    return *a < *b ? -1 : *a > *b;
}

/* Collects the names of the groups of which any tensor differs, in the order of the rows. */
static void name_groups(const struct twin_field *f, struct tw_fan *fan)
{
    for (size_t i = 0; i < f->rows; i++) {
        const char *g = tw_field_group(f->row[i].phase, f->row[i].kind);
        /* a row that never differs names no group */
        bool known = !f->row[i].differs;
        for (size_t k = 0; k < fan->count && !known; k++)
            known = strcmp(fan->name[k], g) == 0;
        if (!known && fan->count < TW_FAN_GROUPS)
            fan->name[fan->count++] = g;
    }
}

/* Computes one group's median and range in each step. member, room: have space for each row.
 * Whether the group has a size in any step is said. */
static void fill_group(const struct twin_field *f, struct tw_fan *fan, size_t g, size_t *member,
                       double *room)
{
    size_t members = 0;
    for (size_t r = 0; r < f->rows; r++)
        if (strcmp(tw_field_group(f->row[r].phase, f->row[r].kind), fan->name[g]) == 0)
            member[members++] = r;
    for (size_t c = 0; c < f->steps; c++) {
        size_t n = 0;
        bool differs = false;
        for (size_t i = 0; i < members; i++) {
            const uint16_t cell = f->cell[member[i] * f->steps + c];
            differs |= cell >= TWIN_CELL_DIFFERS;
            if (cell >= TWIN_CELL_VALUES && cell < TWIN_CELL_NOT_FINITE)
                room[n++] = twin_cell_value(cell);
        }
        /* no size is known: the line goes on if something differs there, and is broken where
         * nothing does */
        fan->y[g][c] = fan->low[g][c] = fan->high[g][c] = differs ? NAN : INFINITY;
        if (n == 0)
            continue;
        qsort(room, n, sizeof *room, by_value);
        /* the mean of two middle values is the geometric one, since the axis is logarithmic */
        fan->y[g][c] = n % 2 ? room[n / 2] : sqrt(room[n / 2 - 1] * room[n / 2]);
        fan->low[g][c] = room[0];
        fan->high[g][c] = room[n - 1];
        fan->any[g] = true;
    }
}

bool tw_fan_make(const struct twin_field *f, struct tw_fan *fan)
{
    bool ok = true;
    double *room = tw_calloc(f->rows + 1, sizeof *room);
    size_t *member = tw_calloc(f->rows + 1, sizeof *member);
    *fan = (struct tw_fan){.count = 0};
    name_groups(f, fan);
    for (size_t g = 0; g < fan->count; g++) {
        fan->y[g] = tw_calloc(f->steps + 1, sizeof(double));
        fan->low[g] = tw_calloc(f->steps + 1, sizeof(double));
        fan->high[g] = tw_calloc(f->steps + 1, sizeof(double));
        /* after the first failure nothing is computed */
        ok = ok && room && member && fan->y[g] && fan->low[g] && fan->high[g];
        if (ok)
            fill_group(f, fan, g, member, room);
    }
    tw_free(room);
    tw_free(member);
    return ok;
}

void tw_fan_free(struct tw_fan *fan)
{
    for (size_t g = 0; g < fan->count; g++) {
        tw_free(fan->y[g]);
        tw_free(fan->low[g]);
        tw_free(fan->high[g]);
    }
    *fan = (struct tw_fan){.count = 0};
}

/* Puts the fan into the page; groups without a size are left out. */
static void draw_fan(struct twin_page *p, const struct twin_finding *first,
                     const struct twin_field *f, const struct tw_fan *fan)
{
    struct twin_page_series series[TW_FAN_GROUPS];
    double *x = tw_calloc(f->steps, sizeof *x);
    size_t drawn = 0;
    for (size_t i = 0; x && i < f->steps; i++)
        x[i] = f->step[i];
    for (size_t g = 0; g < fan->count; g++)
        if (fan->any[g])
            series[drawn++] = (struct twin_page_series){fan->name[g], fan->y[g], fan->low[g],
                                                        fan->high[g]};
    if (!x)
        no_memory(p);
    else if (drawn)
        twin_page_plot(
            p, &(struct twin_page_plot){
                   .question = "Does the difference grow?",
                   .caption = "Of each group the median tensor, and as an area the smallest to the "
                              "largest. A straight rise is exponential growth: training amplifies "
                              "what began as rounding. A level line is a difference that stays "
                              "what it was. Where there is no line, nothing differs.",
                   .x_name = "step",
                   .y_name = "relative difference",
                   .style = TWIN_PAGE_FAN,
                   .log_y = true,
                   .join = true,
                   .x = x,
                   .count = f->steps,
                   .series = series,
                   .series_count = drawn,
                   .mark = first ? first->step_a : 0,
                   .mark_name = first && tw_is_record(first) ? "first difference" : NULL});
    tw_free(x);
}

/* Computes the fan of all groups and draws it. */
static void fan_plot(struct twin_page *p, const struct twin_finding *first,
                     const struct twin_field *f)
{
    struct tw_fan fan;
    if (tw_fan_make(f, &fan))
        draw_fan(p, first, f, &fan);
    else
        no_memory(p);
    tw_fan_free(&fan);
}

/* The histogram of all differences, a row for each group. Cells without a size and cells with NaN
 * or infinity are not in it. */
static void sizes(struct twin_page *p, const struct twin_field *f)
{
    struct tw_fan groups = {.count = 0};
    struct twin_page_set set[TW_FAN_GROUPS];
    double *values[TW_FAN_GROUPS] = {NULL};
    size_t sets = 0;
    name_groups(f, &groups);
    for (size_t g = 0; g < groups.count; g++) {
        size_t n = 0, room = 0;
        /* at most one value for each row and step */
        for (size_t i = 0; i < f->rows; i++)
            room += strcmp(tw_field_group(f->row[i].phase, f->row[i].kind), groups.name[g]) == 0
                        ? f->steps
                        : 0;
        values[g] = tw_calloc(room + 1, sizeof(double));
        if (!values[g])
            no_memory(p);
        /* codes between these two are sizes; the others are states */
        for (size_t i = 0; values[g] && i < f->rows * f->steps; i++)
            if (f->cell[i] >= TWIN_CELL_VALUES && f->cell[i] < TWIN_CELL_NOT_FINITE &&
                strcmp(tw_field_group(f->row[i / f->steps].phase, f->row[i / f->steps].kind),
                       groups.name[g]) == 0)
                values[g][n++] = twin_cell_value(f->cell[i]);
        if (n)
            set[sets++] = (struct twin_page_set){groups.name[g], values[g], n};
    }
    if (sets)
        twin_page_histogram(
            p,
            &(struct twin_page_histogram){
                .question = "Rounding, or something else?",
                .caption =
                    "How large the differences are, over all cells that differ. One addition of "
                    "32-bit floats in another order moves a result by about 1e-7; what lies near 1 "
                    "is another batch, another generator state or another weight, not rounding.",
                .x_name = "relative difference",
                .log = true,
                .set = set,
                .sets = sets});
    for (size_t g = 0; g < groups.count; g++)
        tw_free(values[g]);
}

void tw_field_where(struct twin_page *p, const char *question, const struct twin_finding *first,
                    const struct twin_field *f, const char *runs)
{
    if (f && f->rows && f->steps)
        heatmap(p, question, first, f, runs);
}

void tw_field_how_much(struct twin_page *p, const struct twin_finding *first,
                       const struct twin_field *f)
{
    if (!f || !f->steps || !field_differs(f))
        return;
    fan_plot(p, first, f);
    sizes(p, f);
}

/* ---- curves */

/* The heading of a curve. parted: there is a difference that the curves may show. room: holds the
 * text when it is not a static one. */
static const char *question_of(const struct twin_curve *c, bool parted, char *room, size_t bytes)
{
    switch (c->kind) {
    case TWIN_CURVE_LOSS: return parted ? "Does the loss show it?" : "Is the loss the same?";
    case TWIN_CURVE_GRADIENT: return "Are the gradients of one size?";
    case TWIN_CURVE_WEIGHT: return "Do the weights go the same way?";
    default: snprintf(room, bytes, "Is %.100s the same?", c->name); return room;
    }
}

/* What a jump or a distance in this kind of curve means. */
static const char *caption_of_curve(const struct twin_curve *c, bool parted)
{
    switch (c->kind) {
    case TWIN_CURVE_LOSS:
        return !parted
                   ? "Lines that lie on each other look like one."
                   : "Lines that lie on each other look like one. Where they diverge visibly, the "
                     "divergence has reached what training is judged by.";
    case TWIN_CURVE_GRADIENT:
        return "A jump in one run alone points to another batch, or to a number that overflowed.";
    case TWIN_CURVE_WEIGHT: return "Runs that diverge here end in different models.";
    case TWIN_CURVE_HYPER:
        return "A setting that steers the optimizer: where it differs, the runs were not asked to "
               "do the same.";
    default: return "Recorded by the job itself.";
    }
}

/* What the y axis is, for norms with the norm; else the recorded name. */
static const char *axis_of(const struct twin_curve *c)
{
    if (c->kind == TWIN_CURVE_GRADIENT)
        return "L2 norm of all gradients";
    return c->kind == TWIN_CURVE_WEIGHT ? "L2 norm of all weights" : c->name;
}

/* Draws the curves of one name together, a series for each run and rank. c: count curves that
 * stand next to each other. A long one is thinned out to DRAWN_STEPS points by drawing every
 * n-th step. */
static void one_name(struct twin_page *p, const struct twin_finding *first,
                     const char *const *label, const struct twin_curve *c, size_t count)
{
    struct twin_page_series *series = tw_calloc(count, sizeof *series);
    char **name = tw_calloc(count, sizeof *name), room[128];
    /* the longest curve decides the width; ranks are named only when there are several */
    size_t steps = 1, ranks = 0, open = 0;
    uint64_t bad = 0;
    for (size_t i = 0; i < count; i++) {
        steps = c[i].steps > steps ? c[i].steps : steps;
        ranks += c[i].rank != c[0].rank;
        bad += c[i].not_finite;
    }
    /* every n-th step, so that at most DRAWN_STEPS points remain */
    const size_t every = (steps + DRAWN_STEPS - 1) / DRAWN_STEPS, n = (steps + every - 1) / every;
    double *x = tw_calloc(n, sizeof *x), *y = tw_calloc(n * count, sizeof *y);
    bool ok = series && name && x && y;
    for (size_t i = 0; ok && i < n; i++)
        x[i] = (double)(i * every);
    for (size_t i = 0; ok && i < count; i++) {
        /* a run that ended earlier has no value there */
        for (size_t k = 0; k < n; k++) {
            y[i * n + k] = k * every < c[i].steps ? c[i].y[k * every] : NAN;
            open += k * every < c[i].steps && isnan(y[i * n + k]);
        }
        char run[32];
        snprintf(run, sizeof run, "run %zu", c[i].run + 1);
        const char *who = label ? label[c[i].run] : run;
        name[i] = ranks ? tw_printf("%s, rank %d", who, c[i].rank) : tw_strdup(who);
        series[i] = (struct twin_page_series){.name = name[i], .y = &y[i * n]};
        ok = name[i] != NULL;
    }
    if (ok)
        twin_page_plot(p,
                       &(struct twin_page_plot){
                           .question = question_of(c, first != NULL, room, sizeof room),
                           .caption = caption_of_curve(c, first != NULL),
                           .x_name = "step",
                           .y_name = axis_of(c),
                           .style = TWIN_PAGE_LINES,
                           .x = x,
                           .count = n,
                           .series = series,
                           .series_count = count,
                           /* a step without a value is no end, unless the value was NaN */
                           .join = bad == 0,
                           .mark = first ? first->step_a : 0,
                           .mark_name = first && tw_is_record(first) ? "first difference" : NULL});
    else
        no_memory(p);
    if (open && !bad)
        twin_page_small(p, "A dot is a step in which it was measured; between them nothing is "
                           "known, and the line only joins them.");
    if (bad)
        twin_page_small(p, "%llu value%s NaN or infinite; the lines are open there.",
                        (unsigned long long)bad, bad == 1 ? " is" : "s are");
    if (every > 1)
        twin_page_small(p, "Every %zuth step is drawn.", every);
    for (size_t i = 0; name && i < count; i++)
        tw_free(name[i]);
    tw_free(name);
    tw_free(series);
    tw_free(x);
    tw_free(y);
}

/* Has a setting one value, in all steps of all these curves in which it is known? count > 0. */
static bool is_held(const struct twin_curve *c, size_t count, double *value)
{
    *value = NAN;
    for (size_t i = 0; i < count; i++) {
        if (c[i].kind != TWIN_CURVE_HYPER || c[i].not_finite)
            return false;
        for (size_t k = 0; k < c[i].steps; k++) {
            const double y = c[i].y[k];
            if (isnan(*value))
                *value = y;
            else if (!isnan(y) && y != *value)
                return false;
        }
    }
    return !isnan(*value);
}

/* Settings that never change are said: a level line, many times over, shows less than a sentence.
 * held: their names and values. */
static void page_held(struct twin_page *p, const struct tw_buf *held, size_t count)
{
    if (held->failed)
        p->body.failed = held->failed;
    if (!count || held->failed)
        return;
    twin_page_heading(p, "Are the settings of the optimizer the same?");
    twin_page_text(p, "Of one value in every step of every run that recorded them: %s%s.",
                   held->data, count > HELD_NAMES ? " and more" : "");
}

/* The curves are sorted by kind and name, so those of one name are neighbours. */
void twin_report_curves(struct twin_page *p, const struct twin_curves *c, const char *const *label,
                        const struct twin_finding *first)
{
    struct tw_buf held = {0};
    size_t shown = 0, holds = 0;
    double value;
    for (size_t i = 0, n; i < c->count; i += n) {
        /* n curves have the same kind and name */
        for (n = 1; i + n < c->count && c->curve[i + n].kind == c->curve[i].kind &&
                    strcmp(c->curve[i + n].name, c->curve[i].name) == 0;)
            n++;
        if (is_held(&c->curve[i], n, &value)) {
            if (holds++ < HELD_NAMES)
                tw_buf_printf(&held, "%s%.100s %.6g", holds > 1 ? ", " : "", c->curve[i].name,
                              value);
        } else if (shown++ < CURVE_NAMES) {
            one_name(p, first, label, &c->curve[i], n);
        }
    }
    page_held(p, &held, holds);
    tw_buf_free(&held);
    if (shown > CURVE_NAMES)
        twin_page_small(p, "%zu more recorded numbers are not drawn.", shown - CURVE_NAMES);
    if (c->left_out)
        twin_page_small(
            p, "%llu recorded numbers are left out: 512 names and 1,048,576 steps are drawn.",
            (unsigned long long)c->left_out);
    if (c->unread)
        twin_page_small(p, "%zu trace%s too large, or damaged, to read these numbers from.",
                        c->unread, c->unread == 1 ? " is" : "s are");
}

/* The tree of classes, with runs named "run 1" and so on. */
static void page_tree(struct twin_page *p, const struct twin_report *r,
                      const struct twin_class_tree *t)
{
    char **label = tw_calloc(r->run_count + 1, sizeof *label);
    bool ok = label != NULL;
    for (size_t i = 0; ok && i < r->run_count; i++)
        ok = (label[i] = tw_printf("run %zu", i + 1)) != NULL;
    if (ok)
        twin_page_tree(
            p, "Which runs are equal, and until when?",
            "A line that leaves another one: from that step on these runs compute something else.",
            t, (const char *const *)label, r->verdict->steps_a);
    else
        no_memory(p);
    for (size_t i = 0; label && i < r->run_count; i++)
        tw_free(label[i]);
    tw_free(label);
}

/* The order: where, which runs, how much, what they recorded, how fast. Only the first pair has the
 * first difference marked, since the verdict speaks of that pair. */
void twin_report_draw(struct twin_page *p, const struct twin_report *r,
                      const struct twin_report_pictures *x)
{
    const struct twin_verdict *v = r->verdict;
    char runs[64], question[96];
    if (x->grid)
        tw_grid_picture(p, v, x->grid, x->pair[0].other);
    for (size_t i = 0; i < x->pairs; i++) {
        snprintf(runs, sizeof runs, "Run 1 and run %zu", x->pair[i].other + 1);
        snprintf(question, sizeof question, "Where do run 1 and run %zu differ, and by how much?",
                 x->pair[i].other + 1);
        tw_field_where(p, x->pairs > 1 ? question : NULL, i ? NULL : v->first, x->pair[i].field,
                       runs);
    }
    if (x->tree && x->tree->count > 1)
        page_tree(p, r, x->tree);
    if (x->pairs)
        tw_field_how_much(p, v->first, x->pair[0].field);
    if (x->curves)
        twin_report_curves(p, x->curves, x->label, v->first);
    if (x->times)
        twin_page_plot(p, x->times);
}
