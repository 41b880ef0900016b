/* SPDX-License-Identifier: Apache-2.0 */
/* What isolate says: as text for people, as one JSON object for programs. Both are made from the
 * same result (isolate_result.c) and the search's own report, so that they cannot say different
 * things. The text begins with the verdict and ends with the path of the page; what a person needs
 * first stands first. */
#include "isolate_result.h"

#include "base.h"
#include "json_text.h"
#include "paragraphs.h"
#include "put.h"
#include "wording.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- text */

/* The first divergence. */
static void print_first(FILE *out, const struct twin_isolation *x)
{
    const struct twin_finding *f = x->first;
    if (!f)
        return;
    char *name = tw_printable(f->name, strlen(f->name));
    char *site = tw_printable(f->site, strcspn(f->site, "\n"));
    struct tw_buf rank = {0};
    tw_say_rank(&rank, f);
    tw_put_to(out, "seen      step %u, %s, %s: %s%s%s%s%s\n", f->step_a,
              rank.data ? rank.data : "?", f->layer, name && *name ? name : f->text,
              f->op[0] ? "   op " : "", f->op, site && *site ? "   at " : "", site ? site : "");
    tw_buf_free(&rank);
    tw_free(name);
    tw_free(site);
}

/* Why nothing is said although nothing diverged: the sentence, and what was not seen. */
static void print_unseen(FILE *out, const struct twin_isolation *x)
{
    if (x->unseen_count)
        tw_put_to(out, "          %s\n", x->sentence);
    for (size_t i = 0; i < x->unseen_count; i++)
        tw_put_to(out, "%s%s\n", i ? "          " : "unseen    ", x->unseen[i]);
}

/* How natural runs fall into classes, and where they diverge. */
static void print_natural(FILE *out, const struct twin_isolation *x)
{
    char *classes = x->tree.count > 1 ? twin_isolation_classes(x) : NULL;
    if (classes)
        tw_put_to(out, "classes   %s\n", classes);
    tw_free(classes);
    const char *heading = x->arms ? "steps     runs of B first differ from A at step "
                                  : "steps     natural runs first differ from run 1 at step ";
    /* Steps that are listed; of more the number is told. */
    enum { SHOWN = 12 };
    size_t shown = 0, parted = 0;
    for (size_t i = 0; i < x->run_count; i++) {
        const struct twin_isolation_run *r = &x->run[i];
        if (!r->natural || !r->parted || r->step < 0)
            continue;
        if (parted++ < SHOWN) {
            tw_put_to(out, "%s%lld", shown ? ", " : heading, (long long)r->step);
            shown++;
        }
    }
    if (shown)
        tw_put_to(out, parted > shown ? " and %zu more\n" : "\n", parted - shown);
}

/* Runs of the search in which this factor alone was pinned, and how many of them diverged. */
static struct twin_search_arm tried_alone(const struct tw_isolate *c, size_t candidate)
{
    assert(candidate < c->count);
    struct twin_search_set alone = {{0}};
    struct twin_search_arm arm = {0, 0};
    alone.word[candidate / 64] |= UINT64_C(1) << candidate % 64;
    for (size_t i = 0; i < c->log.count; i++) {
        const struct twin_search_entry *e = &c->log.entry[i];
        const struct tw_isolate_made *m = tw_isolate_made(c, e->number);
        if (e->purpose != TWIN_FOR_CONFIRM || !m || memcmp(&m->pinned, &alone, sizeof alone) != 0)
            continue;
        arm.trials++;
        arm.parted += e->result.parted;
    }
    return arm;
}

/* Each cause with its fix, where it is asked for, its pin and what that costs. */
static void print_causes(FILE *out, const struct tw_isolate *c, const struct twin_isolation *x,
                         const struct twin_search_report *r)
{
    for (size_t i = 0; i < r->cause_count; i++) {
        const struct twin_factor *f = c->factor[r->cause[i].candidate];
        char *cost = twin_isolation_cost_text(&x->cause[i].cost);
        char *together = twin_search_together_text(r, c->candidate, i,
                                                   tried_alone(c, r->cause[i].candidate));
        tw_put_to(out, "fix       %s: %s%s\n", f->id, f->fix, together ? together : "");
        free(together);
        for (size_t k = 0; k < x->cause[i].consumer_count; k++) {
            char *where = tw_printable(x->cause[i].consumer[k], strlen(x->cause[i].consumer[k]));
            tw_put_to(out, "%s%s\n", k ? "          " : "where     ", where ? where : "");
            tw_free(where);
        }
        tw_put_to(out, "pin       %s   (%s)\n", f->pin, f->how);
        tw_put_to(out, "cost      of this pin: %s%s\n", cost ? cost : "",
                  isfinite(x->cause[i].cost.ratio) ? "" : "; twinrun run --cost measures it");
        tw_free(cost);
    }
}

/* ---- JSON */

static json_t *arm_json(const struct twin_search_arm *a)
{
    return json_pack("{s:I, s:I}", "trials", (json_int_t)a->trials, "diverged",
                     (json_int_t)a->parted);
}

/* The factors in a set, by name. */
static json_t *ids_json(const struct tw_isolate *c, const struct twin_search_set *set)
{
    json_t *list = json_array();
    for (size_t i = 0; i < c->count; i++)
        if (twin_search_has(set, i))
            json_array_append_new(list, tw_json_text(c->factor[i]->id));
    return list;
}

/* What a pin costs, with its interval. */
static json_t *cost_json(const struct twin_isolation_cost *cost)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:I, s:I}", "ratio", tw_json_number(cost->ratio), "low",
                     tw_json_number(cost->low), "high", tw_json_number(cost->high), "confidence",
                     tw_json_number(cost->confidence), "n", (json_int_t)cost->with, "n_without",
                     (json_int_t)cost->without);
}

/* Natural runs that agree, class by class, and where each class leaves another. */
static json_t *classes_json(const struct twin_isolation *x)
{
    json_t *list = json_array();
    for (size_t i = 0; i < x->tree.count; i++) {
        const struct twin_branch *b = &x->tree.branch[i];
        json_t *runs = json_array();
        json_t *step = b->step < 0 ? json_null() : json_integer(b->step);
        json_t *from = b->step < 0 ? json_null() : json_integer((json_int_t)b->parent);
        for (size_t k = 0; k < b->members; k++)
            json_array_append_new(runs, json_integer(x->natural[b->runs[k]]));
        json_array_append_new(list, json_pack("{s:o, s:o, s:o}", "runs", runs, "parts_at_step",
                                              step, "parts_from_class", from));
    }
    return list;
}

/* The natural runs, and where each diverged from the first. */
static json_t *natural_json(const struct twin_isolation *x)
{
    json_t *list = json_array();
    for (size_t i = 0; i < x->run_count; i++) {
        const struct twin_isolation_run *r = &x->run[i];
        if (r->natural)
            json_array_append_new(
                list,
                json_pack("{s:I, s:b, s:o, s:o}", "run", (json_int_t)r->number, "parted",
                          (int)r->parted, "step", r->step < 0 ? json_null() : json_integer(r->step),
                          "layer", *r->layer ? tw_json_text(r->layer) : json_null()));
    }
    return list;
}

/* What else is to be known, as the lines "note" have it. */
static json_t *notes_json(const struct twin_isolation *x)
{
    json_t *list = json_array();
    for (size_t i = 0; i < x->note_count; i++)
        json_array_append_new(list, tw_json_text(x->note[i]));
    return list;
}

/* What was not seen, where that is why nothing is said. */
static json_t *unseen_json(const struct twin_isolation *x)
{
    json_t *list = json_array();
    for (size_t i = 0; i < x->unseen_count; i++)
        json_array_append_new(list, tw_json_text(x->unseen[i]));
    return list;
}

/* Known cases that look alike. */
static json_t *hints_json(const struct twin_isolation *x)
{
    json_t *list = json_array();
    for (size_t i = 0; i < x->hint_count; i++) {
        const struct twin_hint *h = &x->hint[i];
        json_array_append_new(list, json_pack("{s:o, s:o, s:o, s:o, s:o, s:i, s:i}", "id",
                                              tw_json_text(h->id), "title", tw_json_text(h->title),
                                              "cause", tw_json_text(h->cause), "fix",
                                              tw_json_text(h->fix), "why", tw_json_text(h->why),
                                              "points", (int)h->points, "of", (int)h->of));
    }
    return list;
}

/* Runs in the pinned world, by what was freed in them. */
static json_t *contrasts_json(const struct tw_isolate *c, const struct twin_search_report *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->test_count; i++)
        json_array_append_new(
            list,
            json_pack("{s:o, s:I, s:b, s:o}", "freed", ids_json(c, &r->test[i].freed), "compared",
                      (json_int_t)r->test[i].compared, "parted", (int)r->test[i].parted, "step",
                      r->test[i].step < 0 ? json_null() : json_integer(r->test[i].step)));
    return list;
}

/* Where the job asks for what varies. */
static json_t *consumers_json(const struct twin_isolation_cause *x)
{
    json_t *list = json_array();
    for (size_t i = 0; i < x->consumer_count; i++)
        json_array_append_new(list, tw_json_text(x->consumer[i]));
    return list;
}

/* Each cause with its evidence. */
static json_t *causes_json(const struct tw_isolate *c, const struct twin_isolation *found,
                           const struct twin_search_report *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->cause_count; i++) {
        const struct twin_search_cause *x = &r->cause[i];
        const struct twin_factor *f = c->factor[x->candidate];
        json_array_append_new(
            list,
            json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "factor",
                      f->id, "layer", f->layer, "pin", f->pin, "fix", f->fix, "where",
                      consumers_json(&found->cause[i]), "necessary", arm_json(&x->necessary),
                      "failed", (json_int_t)x->failed, "sufficient", arm_json(&x->sufficient),
                      "p_value", tw_json_number(x->p), "p_adjusted", tw_json_number(x->p_adjusted),
                      "cost_ratio", tw_json_number(found->cause[i].cost.ratio), "cost",
                      cost_json(&found->cause[i].cost), "alternatives",
                      ids_json(c, &x->alternatives)));
    }
    return list;
}

/* The first divergence; null: none was seen. */
static json_t *first_json(const struct tw_isolate *c)
{
    const struct twin_finding *f = c->first ? c->first->first : NULL;
    return f ? json_pack("{s:I, s:i, s:o, s:o, s:o, s:o}", "step", (json_int_t)f->step_a, "rank",
                         (int)f->rank, "layer", tw_json_text(f->layer), "name",
                         tw_json_text(f->name), "op", tw_json_text(f->op), "source",
                         tw_json_text(f->site))
             : json_null();
}

/* The outcome in the words that docs/format promises. */
static const char *contract_word(enum twin_search_outcome o)
{
    if (o == TWIN_SEARCH_ISOLATED)
        return "isolated";
    if (o == TWIN_SEARCH_NO_DIVERGENCE)
        return "no-divergence";
    if (o == TWIN_SEARCH_UNSEEN)
        return "inconclusive";
    return o == TWIN_SEARCH_JOB_FAILS ? "error" : "not-isolated";
}

/* B with A's numbers of threads, and as it is; null: it was not tried. */
static json_t *threads_json(const struct tw_isolate *c)
{
    const struct tw_isolate_threads *x = &c->threads;
    static const char *const ends[] = {"through", "not-alone", "not-held",
                                       "alike",   "gone",      "failed"};
    _Static_assert(sizeof ends / sizeof ends[0] == TW_THREADS_FAILED + 1, "ends");
    if (!x->held.variable)
        return json_null();
    return json_pack("{s:s, s:o, s:o, s:s, s:{s:I, s:I}, s:{s:I, s:I}, s:f}", "end", ends[x->end],
                     "of_a", tw_json_text(x->held.of_a), "of_b", tw_json_text(x->held.of_b),
                     "arrangement", x->order, "held", "trials", (json_int_t)x->held_trials,
                     "diverged", (json_int_t)x->held_parted, "free", "trials",
                     (json_int_t)(x->trials - x->held_trials), "diverged",
                     (json_int_t)x->free_parted, "p", tw_isolate_threads_p(x));
}

/* What the confirmation was, and what it says. */
static json_t *with_confirmation(json_t *j, const struct tw_isolate *c,
                                 const struct twin_search_report *r)
{
    const struct twin_search_correlation *k = &r->correlation;
    json_object_set_new(j, "sufficient", json_boolean(r->sufficient));
    json_object_set_new(j, "remaining",
                        json_pack("{s:I, s:I, s:i}", "trials", (json_int_t)r->left, "diverged",
                                  (json_int_t)r->left_parted, "more_runs", (int)r->more));
    json_object_set_new(j, "seed", json_sprintf("%llu", (unsigned long long)r->seed));
    json_object_set_new(j, "confirmations", json_integer(r->confirmations));
    json_object_set_new(j, "arrangement",
                        r->arrangement ? json_string(r->arrangement) : json_null());
    json_object_set_new(j, "last_diverged",
                        r->last_parted ? json_integer(r->last_parted) : json_null());
    json_t *clock = json_array();
    for (size_t i = 0; i < c->clock_count; i++)
        json_array_append_new(clock, tw_json_text(c->clock[i].text));
    json_object_set_new(j, "clock", clock);
    json_object_set_new(j, "through",
                        c->args.through ? json_pack("{s:{s:I, s:I}}", "a_again", "trials",
                                                    (json_int_t)c->a_again.trials, "diverged",
                                                    (json_int_t)c->a_again.parted)
                                        : json_null());
    json_object_set_new(j, "threads", threads_json(c));
    json_object_set_new(j, "correlation",
                        json_pack("{s:I, s:o, s:o, s:o}", "comparisons", (json_int_t)k->comparisons,
                                  "p", tw_json_number(k->p), "rho", tw_json_number(k->rho),
                                  "effective", tw_json_number(k->effective)));
    return j;
}

/* What reruns of the first operation on its recorded inputs say; null: they were not made. */
static json_t *vote_json(const struct twin_search_report *r)
{
    if (r->vote == TWIN_VOTE_UNKNOWN)
        return json_null();
    return json_string(r->vote == TWIN_VOTE_HARDWARE ? "hardware" : "operation");
}

json_t *tw_isolate_json(const struct tw_isolate *c, const struct twin_isolation *x,
                        const struct twin_search_report *r)
{
    return with_confirmation(
        json_pack(
            "{s:s, s:s, s:s, s:o, s:I, s:o, s:o, s:o, s:o, s:{s:I, s:I, s:o, s:o, s:o}, s:s, s:s, "
            "s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:o, s:o}",
            "schema", "twinrun.isolate/1", "outcome", contract_word(r->outcome), "reason",
            twin_search_outcome_name(r->outcome), "causes", causes_json(c, x, r), "runs_used",
            (json_int_t)r->runs, "alpha", tw_json_number(c->plan.alpha), "beta",
            tw_json_number(c->plan.beta), "first", first_json(c), "bound", tw_json_number(r->bound),
            "baseline", "comparisons", (json_int_t)r->baseline, "diverged", (json_int_t)r->parted,
            "rate", tw_json_number(r->rate), "low", tw_json_number(r->rate_low), "high",
            tw_json_number(r->rate_high), "unit", r->unit == TWIN_UNIT_EXPOSURE ? "steps" : "runs",
            "unit_why", r->unit_why ? r->unit_why : "", "tested", ids_json(c, &r->tested),
            "dropped", ids_json(c, &r->dropped), "left_out", ids_json(c, &r->left_out), "suspects",
            ids_json(c, &r->suspects), "need", (json_int_t)r->need, "folder",
            tw_json_text(c->journal.folder), "classes", classes_json(x), "natural", natural_json(x),
            "contrasts", contrasts_json(c, r), "seen_before", hints_json(x), "next",
            *x->next ? tw_json_text(x->next) : json_null(), "then",
            *x->then ? tw_json_text(x->then) : json_null(), "arms", tw_isolate_arms_json(c, r),
            "vote", vote_json(r), "jobs", (int)c->args.jobs, "notes", notes_json(x), "unseen",
            unseen_json(x)),
        c, r);
}

/* With two commands under the same pins: does A repeat itself? */
static void print_through(FILE *out, const struct tw_isolate *c, const struct twin_search_report *r)
{
    char *text = c->args.through && r->outcome == TWIN_SEARCH_ISOLATED ? tw_isolate_a_again_text(c)
                                                                       : NULL;
    if (text)
        tw_put_to(out, "through   %s\n", text);
    tw_free(text);
}

/* Of two commands with other numbers of threads: does what was found act through that? */
static void print_threads(FILE *out, const struct tw_isolate *c)
{
    char *text = tw_isolate_threads_text(c);
    if (text)
        tw_put_to(out, "threads   %s\n", text);
    tw_free(text);
}

/* Of two commands: which of their differences matter. */
static void print_arms(FILE *out, const struct tw_isolate *c, const struct twin_search_report *r)
{
    char *text = tw_isolate_arms_text(c, r);
    tw_put_lines(out, text ? text : "");
    tw_free(text);
}

/* The colours of outcomes, as those of a verdict. */
static enum tw_paint paint_of(enum twin_mood m)
{
    if (m == TWIN_MOOD_CLEAN)
        return TW_PAINT_GOOD;
    return m == TWIN_MOOD_OPEN ? TW_PAINT_OPEN : TW_PAINT_BAD;
}

static void print_all(FILE *out, const struct tw_isolate *c, const struct twin_isolation *x,
                      const struct twin_search_report *r, bool all)
{
    char *verdict = twin_search_verdict_text(r, c->candidate);
    char *evidence = twin_search_evidence_text(r, c->candidate, all);
    tw_put_lines(out, verdict ? verdict : "");
    print_unseen(out, x);
    print_first(out, x);
    if (c->arms)
        print_arms(out, c, r);
    else
        print_causes(out, c, x, r);
    print_through(out, c, r);
    print_threads(out, c);
    for (size_t i = 0; i < x->hint_count && i < 1; i++) {
        char *hint = twin_hint_text(&x->hint[i]);
        tw_put_to(out, "hint      %s\n", hint ? hint : "");
        tw_free(hint);
    }
    tw_put_lines(out, evidence ? evidence : "");
    if (all)
        print_natural(out, x);
    for (size_t i = 0; i < x->note_count; i++)
        tw_put_to(out, "note      %s\n", x->note[i]);
    if (*x->next)
        tw_put_to(out, "next      %s\n", x->next);
    if (*x->then)
        tw_put_to(out, "          %s\n", x->then);
    free(verdict);
    free(evidence);
    tw_put_to(out, "page      %s/report.html\n", c->journal.folder);
}

/* Commands and the path of the page are to be copied, so their lines stay whole. */
void tw_isolate_text(FILE *out, const struct tw_look *look, const struct tw_isolate *c,
                     const struct twin_isolation *x, const struct twin_search_report *r, bool all)
{
    /* between two commands the fix is a command */
    const char *const whole[] = {"next", "page", c->arms ? "fix" : NULL, NULL};
    const struct tw_painted words[] = {{x->outcome, paint_of(x->mood)}, {NULL, TW_PAINT_OFF}};
    const struct tw_style style = {.label = 10, .whole = whole, .words = words};
    struct tw_kept_text k;
    if (tw_keep_text(&k, NULL) == 0)
        print_all(k.file, c, x, r, all);
    tw_put_kept(out, &k, look, &style);
}
