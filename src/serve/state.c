/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A snapshot of all that metrics and indicators are made of. Everything is copied out of the
 * history, which goes on changing: of a million runs a few kilobytes stay.
 */
#include "state.h"

#include "base.h"
#include "slo_words.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *serve_name(const char *name)
{
    const size_t n = strnlen(name, SERVE_NAME_BYTES + 1);
    char *safe = tw_printable(name, n);
    if (!safe || (n <= SERVE_NAME_BYTES && strlen(safe) <= (size_t)4 * SERVE_NAME_BYTES))
        return safe;
    const struct tw_hash128 h = tw_hash_bytes(name, strlen(name), 0);
    char *cut = tw_printable(name, SERVE_NAME_BYTES);
    char *whole = cut ? tw_printf("%s~%08llx", cut, (unsigned long long)(h.a >> 32)) : NULL;
    tw_free(safe);
    tw_free(cut);
    return whole;
}

void serve_state_free(struct serve_state *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->rows; i++) {
        tw_free(s->row[i].name);
        tw_free(s->row[i].subject);
        free(s->row[i].json); /* of jansson */
    }
    for (size_t i = 0; i < s->divergences; i++) {
        struct serve_divergence *d = &s->divergence[i];
        tw_free(d->run);
        tw_free(d->verb);
        tw_free(d->command);
        tw_free(d->first);
        tw_free(d->layer);
    }
    tw_free(s->row);
    tw_slo_counted_free(&s->counted);
    serve_incidents_free(&s->incidents);
    tw_free(s);
}

/* ---- counts */

static void add_counter(struct tw_slo_counter *to, const struct tw_slo_counter *from)
{
    to->n += from->n;
    if (from->run[0] && (!to->run[0] || from->time_ns > to->time_ns)) {
        memcpy(to->run, from->run, sizeof to->run);
        to->time_ns = from->time_ns;
        to->value = from->value;
    }
}

static void keep_high(struct tw_slo_counter *now, const struct tw_slo_counter *before)
{
    if (before->n > now->n)
        *now = *before;
}

static int by_name(const void *x, const void *y)
{
    return strcmp(((const struct tw_slo_project *)x)->name,
                  ((const struct tw_slo_project *)y)->name);
}

static int by_first(const void *x, const void *y)
{
    const struct tw_slo_project *a = x, *b = y;
    if (a->first_ns != b->first_ns)
        return (a->first_ns > b->first_ns) - (a->first_ns < b->first_ns);
    return strcmp(a->name, b->name);
}

/* A late fact can move a run to another project, and a late comparison change the order of others;
 * a number that fell would be taken for a restart, and all of it counted again. */
static void never_fall(struct tw_slo_counted *now, const struct tw_slo_counted *high)
{
    for (size_t i = 0; i < now->count; i++) {
        struct tw_slo_project *p = &now->project[i];
        const struct tw_slo_project *old =
            high->count ? bsearch(p, high->project, high->count, sizeof *p, by_name) : NULL;
        if (!old)
            continue;
        for (size_t k = 0; k < TW_COUNTS; k++)
            keep_high(&p->count[k], &old->count[k]);
        for (size_t k = 0; k <= TW_SLO_BUCKETS; k++)
            keep_high(&p->duration[k], &old->duration[k]);
        if (old->duration_sum > p->duration_sum)
            p->duration_sum = old->duration_sum;
    }
}

static int copy_counted(const struct tw_slo_counted *from, struct tw_slo_counted *to)
{
    struct tw_slo_counted copy = {.project = tw_calloc(from->count + 1, sizeof *copy.project)};
    if (!copy.project)
        return TWIN_ENOMEM;
    for (size_t i = 0; i < from->count; i++) {
        copy.project[i] = from->project[i];
        copy.project[i].name = tw_strdup(from->project[i].name);
        copy.count++;
        if (!copy.project[i].name) {
            tw_slo_counted_free(&copy);
            return TWIN_ENOMEM;
        }
    }
    tw_slo_counted_free(to);
    *to = copy;
    return 0;
}

static void add_project(struct tw_slo_project *to, const struct tw_slo_project *from)
{
    for (size_t k = 0; k < TW_COUNTS; k++)
        add_counter(&to->count[k], &from->count[k]);
    for (size_t k = 0; k <= TW_SLO_BUCKETS; k++)
        add_counter(&to->duration[k], &from->duration[k]);
    to->duration_sum += from->duration_sum;
}

/* Names as they are shown, each once; those of latecomers beyond the limit, and what belongs to no
 * project, get the names "other" and "unknown". */
static int name_projects(struct tw_slo_counted *c)
{
    if (c->count)
        qsort(c->project, c->count, sizeof *c->project, by_first);
    for (size_t i = 0; i < c->count; i++) {
        const char *given = c->project[i].name;
        char *shown = NULL;
        if (i >= SERVE_NAMES)
            shown = tw_strdup("other");
        else
            shown = *given ? serve_name(given) : tw_strdup("unknown");
        if (!shown)
            return TWIN_ENOMEM;
        tw_free(c->project[i].name);
        c->project[i].name = shown;
    }
    if (c->count)
        qsort(c->project, c->count, sizeof *c->project, by_name);
    size_t kept = 0;
    for (size_t i = 0; i < c->count; i++) {
        if (kept && strcmp(c->project[kept - 1].name, c->project[i].name) == 0) {
            add_project(&c->project[kept - 1], &c->project[i]);
            tw_free(c->project[i].name);
        } else {
            c->project[kept++] = c->project[i];
        }
    }
    c->count = kept;
    return 0;
}

/* ---- rows */

static int add_row(struct serve_state *s, const struct tw_slo_row *r)
{
    json_t *j = tw_slo_row_json(r);
    struct serve_row row = {.row = *r,
                            .name = serve_name(r->name),
                            .subject = serve_name(r->subject),
                            .json = j ? json_dumps(j, JSON_COMPACT) : NULL};
    json_decref(j);
    row.row.name = row.name;
    row.row.subject = row.subject;
    row.row.burned_count = 0;
    s->row[s->rows++] = row;
    return row.name && row.subject && row.json ? 0 : TWIN_ENOMEM;
}

/* Rows come sorted by indicator, scope and name, so names beyond the limit are counted for each
 * indicator and scope by themselves. */
static int add_rows(struct serve_state *s, const struct tw_slo_rows *rows)
{
    size_t names = 0;
    s->verdict = tw_slo_verdict(rows);
    s->row = tw_calloc(rows->count + 1, sizeof *s->row);
    int rc = s->row ? 0 : TWIN_ENOMEM;
    for (size_t i = 0; rc == 0 && i < rows->count; i++) {
        const struct tw_slo_row *r = &rows->row[i], *before = i ? r - 1 : NULL;
        const bool same = before && before->id == r->id && before->scope == r->scope;
        names = same ? names + (strcmp(before->name, r->name) != 0) : 0;
        if (names < SERVE_NAMES)
            rc = add_row(s, r);
        else if (r->id == TW_SLO_RUNS || r->scope == TW_SLO_CONTRIBUTOR)
            s->names_left_out++;
    }
    return rc;
}

/* ---- divergences */

static int add_divergence(void *user, const struct twin_ledger_comparison *c)
{
    struct serve_state *s = user;
    if (s->divergences == SERVE_DIVERGENCES)
        return 0;
    struct serve_divergence *d = &s->divergence[s->divergences++];
    *d = (struct serve_divergence){
        .run = tw_strdup(c->run_count ? c->run_id[c->run_count - 1] : ""),
        .verb = tw_strndup(c->verb, 32),
        .command = tw_strndup(c->command, 200),
        .first = tw_strndup(c->first, 200),
        .layer = tw_strndup(*c->cause ? c->cause : c->layer, 64),
        .time_ns = c->time_ns,
    };
    return d->run && d->verb && d->command && d->first && d->layer ? 0 : TWIN_ENOMEM;
}

/* ---- the whole */

/* Rows are those of `twinrun slo`, which looks at the windows of the targets alone. */
static int fill_rows(struct serve_state *s, const struct tw_slo_history *whole,
                     const struct tw_slo_targets *t, struct twin_error *err)
{
    struct tw_slo_history *h = tw_slo_history_newer(whole, tw_slo_since(t, s->made_ns));
    struct tw_slo_rows rows = {.count = 0};
    int rc = h ? tw_slo_compute(h, t, s->made_ns, &rows, err) : TWIN_ENOMEM;
    rc = rc ? rc : add_rows(s, &rows);
    tw_slo_rows_free(&rows);
    tw_slo_history_newer_free(h);
    return rc;
}

static int fill(struct serve_state *s, const struct serve_making *m, struct twin_error *err)
{
    const struct twin_ledger_page page = {.outcome = "differ", .limit = SERVE_DIVERGENCES};
    struct twin_ledger_place next;
    int rc = tw_slo_count(m->h, &s->counted, err);
    rc = rc ? rc : fill_rows(s, m->h, m->targets, err);
    if (rc == 0)
        never_fall(&s->counted, m->high);
    rc = rc ? rc : copy_counted(&s->counted, m->high);
    rc = rc ? rc : name_projects(&s->counted);
    if (rc == 0 && m->rules)
        rc = serve_incidents_find(m->h, m->rules, m->now_ns, &s->incidents);
    return rc ? rc : twin_ledger_page_of_comparisons(m->l, &page, add_divergence, s, &next, err);
}

int serve_state_make(const struct serve_making *m, struct serve_state **out, struct twin_error *err)
{
    struct serve_state *s = tw_calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return tw_no_memory(err, "reading the ledger");
    s->made_ns = m->now_ns;
    int rc = fill(s, m, err);
    if (rc == 0)
        *out = s;
    else
        serve_state_free(s);
    return rc == TWIN_ENOMEM ? tw_no_memory(err, "reading the ledger") : rc;
}
