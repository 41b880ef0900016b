/* SPDX-License-Identifier: Apache-2.0 */
/* What shrink says: as text for people, as one JSON object for programs. shrink makes a job smaller
 * (fewer steps, ranks, smaller numbers in its command) as long as the runs still diverge in the
 * same way; the report gives the smaller command, and how often it and the whole job diverge. */
#include "shrink_report.h"
#include "shrink_runs.h"

#include "base.h"
#include "json_text.h"
#include "phrase.h"
#include "put.h"

#include "src/stats/stats.h"
#include "src/trace/trace.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Of every bound and interval here. */
#define CONFIDENCE 0.95

/* Was the smallest setting seen to diverge on fresh runs? The runs that were used to find it prove
 * less, since it was chosen by them; they are used when the budget allowed no fresh ones. */
static bool confirmed(const struct tw_shrink *c)
{
    return c->confirmed.parted > 0;
}

/* ---- text */

/* How often comparisons diverged, with a lower bound for how often they do. */
static void print_rate(FILE *out, const char *label, const struct tw_shrink_evidence *e)
{
    char time[24];
    tw_put_to(
        out,
        "%s%llu of %llu comparisons diverged (at least %.0f%% do, 95%% confidence), %s a run\n",
        label, (unsigned long long)e->parted, (unsigned long long)e->trials,
        100 * twin_stats_rate_lower(e->parted, e->trials, CONFIDENCE),
        tw_human_seconds(e->seconds, time));
}

/* "steps 100 -> 17", or that the number stays, and why it is not smaller. why may be NULL. */
static void print_number(FILE *out, const char *name, uint64_t from, uint64_t to, const char *why)
{
    if (from == to)
        tw_put_to(out, "%-9s %llu stays", name, (unsigned long long)from);
    else
        tw_put_to(out, "%-9s %llu -> %llu", name, (unsigned long long)from, (unsigned long long)to);
    tw_put_to(out, "%s%s\n", why ? "; " : "", why ? why : "");
}

/* The number of steps, then each knob, before and after. */
static void print_settings(FILE *out, const struct tw_shrink *c)
{
    char *bound = c->steps_why
                      ? NULL
                      : tw_printf("no comparison diverged before step %u", c->earliest_step);
    print_number(out, "steps", c->baseline.steps, c->now.steps ? c->now.steps : c->baseline.steps,
                 c->steps_why ? c->steps_why : bound);
    tw_free(bound);
    for (size_t i = 0; i < c->knob_count; i++) {
        const struct tw_knob *k = &c->knob[i];
        print_number(out, k->kind == TW_KNOB_RANKS ? "ranks" : k->name, k->from, c->now.value[i],
                     k->why);
    }
}

/* Each way in which comparisons diverged, once, under the label. */
static void print_ways(FILE *out, const char *label, const struct tw_shrink_evidence *e)
{
    char *text[TW_WAYS_MAX] = {NULL};
    for (size_t i = 0; i < TW_WAYS_MAX && e->verdict[i]; i++) {
        bool seen = false;
        text[i] = tw_shrink_finding(e->verdict[i]->first, true);
        /* two verdicts may say the same */
        for (size_t k = 0; k < i; k++)
            seen |= text[i] && text[k] && strcmp(text[i], text[k]) == 0;
        if (text[i] && !seen)
            tw_put_to(out, "%-9s %s\n", i ? "" : label, text[i]);
    }
    for (size_t i = 0; i < TW_WAYS_MAX; i++)
        tw_free(text[i]);
}

/* Why a zoom named no operation. */
static void print_zoom_notes(FILE *out, const struct tw_shrink_evidence *e)
{
    const struct twin_verdict *v = e->verdict[0];
    for (size_t i = 0; v && i < v->note_count; i++)
        if (tw_starts(v->notes[i], "zoom: ") && !*v->first->op)
            tw_put_to(out, "note      %s\n", v->notes[i]);
}

/* The report of a job that diverged. */
static void print_parted(FILE *out, const struct tw_shrink *c, const char *command)
{
    print_settings(out, c);
    print_ways(out, "was", &c->baseline);
    if (confirmed(c))
        print_ways(out, "is", &c->confirmed);
    print_rate(out, "as it is  ", &c->baseline);
    if (confirmed(c))
        print_rate(out, "shrunk    ", &c->confirmed);
    else if (c->now.steps || memcmp(&c->now, &c->whole, sizeof c->now) != 0)
        tw_put_to(out, "note      not confirmed on fresh runs: the budget ended\n");
    /* a search that was cut short may have missed a smaller one */
    if (c->interrupted || c->out_of_budget)
        tw_put_to(out, "note      %s; there may be a smaller one\n",
                  c->interrupted ? "interrupted" : "the budget ended");
    if (c->given_back)
        tw_put_to(out, "note      %s\n", c->given_back);
    print_zoom_notes(out, confirmed(c) ? &c->confirmed : &c->baseline);
    tw_put_to(out, "command   %s\n", command ? command : "");
}

/* By enum tw_shrink_outcome. */
static const char *const words[] = {"shrunk", "not shrunk", "no divergence", "inconclusive"};

/* A job that did not diverge has no smaller command: then it is said what that excludes. */
void tw_shrink_text(FILE *out, const struct tw_shrink *c, enum tw_shrink_outcome outcome,
                    const char *command)
{
    assert((unsigned)outcome <= TW_SHRINK_INCONCLUSIVE);
    char time[24];
    const struct tw_shrink_evidence *b = &c->baseline;
    tw_put_to(out, "outcome   %s, %llu run%s, %s\n", words[outcome],
              (unsigned long long)c->runs_used, tw_plural_s(c->runs_used),
              tw_human_seconds((double)(tw_monotonic_ns() - c->began_ns) / 1e9, time));
    char *where = tw_remote_text(c->on);
    if (where)
        tw_put_to(out, "engine    %s\n", where);
    tw_free(where);
    if (b->parted) {
        print_parted(out, c, command);
        return;
    }
    if (b->trials)
        tw_put_to(out,
                  "bound     %llu comparison%s without a difference; a divergence in up to %.1f%% "
                  "of runs cannot be excluded (95%%)\n",
                  (unsigned long long)b->trials, tw_plural_s(b->trials),
                  100 * twin_stats_zero_bound(b->trials, CONFIDENCE));
    if (b->unseen)
        tw_put_to(out,
                  "note      not everything was seen: %s; twinrun shrink --level ops sees every "
                  "operation of PyTorch\n",
                  b->unseen);
    if (c->interrupted || c->out_of_budget)
        tw_put_to(out, "note      %s\n",
                  c->interrupted ? "interrupted" : "the budget ended before the job had diverged");
}

/* ---- JSON */

/* How often comparisons of one setting diverged, with the two-sided interval. */
static json_t *evidence(const struct tw_shrink_evidence *e)
{
    struct twin_interval i = twin_stats_clopper_pearson(e->parted, e->trials, CONFIDENCE);
    return json_pack("{s:I, s:I, s:o, s:o, s:o}", "trials", (json_int_t)e->trials, "diverged",
                     (json_int_t)e->parted, "rate_low", tw_json_number(i.low), "rate_high",
                     tw_json_number(i.high), "run_seconds", tw_json_number(e->seconds));
}

/* Where they diverged first; null when that is not known. */
static json_t *first_json(const struct tw_shrink_evidence *e)
{
    const struct twin_finding *f = e->verdict[0] ? e->verdict[0]->first : NULL;
    return f ? json_pack("{s:I, s:i, s:s, s:s, s:o, s:o, s:o}", "step", (json_int_t)f->step_a,
                         "rank", (int)f->rank, "phase", twin_phase_name(f->phase), "kind",
                         twin_kind_name(f->kind), "layer", tw_json_text(f->layer), "name",
                         tw_json_text(f->name), "op", tw_json_text(f->op))
             : json_null();
}

/* The numbers of the command that could be made smaller, and why each is not smaller. */
static json_t *knobs(const struct tw_shrink *c)
{
    static const char *const kinds[] = {"ranks", "argument", "environment"};
    json_t *list = json_array();
    for (size_t i = 0; i < c->knob_count; i++)
        json_array_append_new(
            list,
            json_pack("{s:o, s:s, s:I, s:I, s:o}", "name", tw_json_text(c->knob[i].name), "kind",
                      kinds[c->knob[i].kind], "from", (json_int_t)c->knob[i].from, "value",
                      (json_int_t)c->now.value[i], "why", tw_json_text(c->knob[i].why)));
    return list;
}

/* bound: how often the job may diverge although no comparison did; 1 when that question does not
 * arise. */
json_t *tw_shrink_json(const struct tw_shrink *c, enum tw_shrink_outcome outcome,
                       const char *command)
{
    assert((unsigned)outcome <= TW_SHRINK_INCONCLUSIVE);
    static const char *const outcomes[] = {"shrunk", "not-shrunk", "no-divergence", "inconclusive"};
    const struct tw_shrink_evidence *b = &c->baseline;
    char *where = tw_remote_text(c->on);
    json_t *engine = where ? tw_json_text(where) : NULL;
    tw_free(where);
    return json_pack(
        "{s:s, s:s, s:o, s:{s:I, s:I, s:o}, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:b, s:o*}",
        "schema", "twinrun.shrink/1", "outcome", outcomes[outcome], "command",
        tw_json_text(command), "steps", "from", (json_int_t)b->steps, "value",
        (json_int_t)(c->now.steps ? c->now.steps : b->steps), "why", tw_json_text(c->steps_why),
        "knobs", knobs(c), "first_before", first_json(b), "first", first_json(&c->confirmed),
        "baseline", evidence(b), "confirmed", confirmed(c) ? evidence(&c->confirmed) : json_null(),
        "bound",
        tw_json_number(b->parted || !b->trials ? 1.0
                                               : twin_stats_zero_bound(b->trials, CONFIDENCE)),
        "given_back", tw_json_text(c->given_back), "runs_used", (json_int_t)c->runs_used,
        "budget_ended", c->out_of_budget, "engine", engine);
}
