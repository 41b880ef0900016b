/* SPDX-License-Identifier: Apache-2.0 */
/* What isolate says: as text for people, as one JSON object for programs. */
#include "isolate.h"

#include "json.h"
#include "say.h"

#include "base.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COST_RUNS = 3 }; /* of each sort: a ratio of fewer is the machine's mood */

/* Time of a run with exactly the causes pinned over that of a natural one, from the runs that were made; NaN: not known. */
static double cost_ratio(const struct tw_isolate *c)
{
    double natural = 0, pinned = 0;
    size_t naturals = 0, pins = 0;
    if (c->arms) /* another command may do other work */
        return NAN;
    for (size_t i = 0; i < c->log.count; i++) {
        const struct twin_search_result *x = &c->log.entry[i].result;
        if (x->status != TWIN_ENDED_WELL || x->parted) /* one that parted may have been cut short */
            continue;
        if (c->log.entry[i].purpose == TWIN_FOR_BASELINE) {
            natural += x->seconds;
            naturals++;
        } else if (c->log.entry[i].purpose == TWIN_FOR_CONFIRM) {
            pinned += x->seconds;
            pins++;
        }
    }
    return naturals >= COST_RUNS && pins >= COST_RUNS ? (pinned / (double)pins) / (natural / (double)naturals) : NAN;
}

/* ---- text */

static void print_first(const struct tw_isolate *c)
{
    const struct twin_finding *f = c->first ? c->first->first : NULL;
    if (!f)
        return;
    char *name = tw_printable(f->name, strlen(f->name)), *site = tw_printable(f->site, strcspn(f->site, "\n"));
    printf("seen      step %u, rank %d, %s: %s%s%s%s%s\n", f->step_a, f->rank, f->layer, name && *name ? name : f->text,
           f->op[0] ? "   op " : "", f->op, site && *site ? "   at " : "", site ? site : "");
    tw_free(name);
    tw_free(site);
}

static void print_causes(const struct tw_isolate *c, const struct twin_search_report *r)
{
    for (size_t i = 0; i < r->cause_count; i++) {
        const struct twin_factor *f = c->factor[r->cause[i].candidate];
        printf("fix       %s: %s\n", f->id, f->fix);
        printf("pin       %s   (%s)\n", f->pin, f->how);
    }
    double cost = cost_ratio(c);
    if (r->cause_count && isfinite(cost))
        printf("cost      a run under %s takes %.2f times as long\n", r->cause_count == 1 ? "this pin" : "these pins", cost);
    else if (r->cause_count)
        printf("cost      not known from these runs; twinrun run --cost measures it\n");
}

static void print_pins(const struct tw_isolate *c)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->effect[i].effect == TWIN_EFFECT_FAILED)
            printf("note      the pin of %s did not take effect: %s\n", c->factor[i]->id, c->effect[i].text ? c->effect[i].text : "");
    if (c->unseen)
        printf("note      not everything was seen: %s\n", c->unseen);
}

static void print_next(const struct tw_isolate *c, const struct twin_search_report *r)
{
    char *job = tw_shell_quote(c->argv, 0);
    if (r->outcome == TWIN_SEARCH_ISOLATED) {
        printf("next      twinrun run --pin ");
        for (size_t i = 0; i < r->cause_count; i++)
            printf("%s%s", i ? "," : "", c->factor[r->cause[i].candidate]->id);
        printf(" -- %s\n", job ? job : "COMMAND");
    } else if (r->outcome == TWIN_SEARCH_INTERRUPTED) {
        printf("next      twinrun isolate --resume -- %s\n", job ? job : "COMMAND");
    } else if (r->outcome == TWIN_SEARCH_NOT_ENOUGH && r->need) {
        printf("next      twinrun isolate --resume --max-runs %u -- %s\n", r->need, job ? job : "COMMAND");
    } else if (r->outcome != TWIN_SEARCH_NO_DIVERGENCE) {
        printf("next      twinrun check --all --runs 10 -- %s\n", job ? job : "COMMAND");
    }
    tw_free(job);
}

/* ---- JSON */

static json_t *arm(const struct twin_search_arm *a)
{
    return json_pack("{s:I, s:I}", "trials", (json_int_t)a->trials, "diverged", (json_int_t)a->parted);
}

static json_t *ids(const struct tw_isolate *c, const struct twin_search_set *set)
{
    json_t *list = json_array();
    for (size_t i = 0; i < c->count; i++)
        if (twin_search_has(set, i))
            json_array_append_new(list, tw_json_text(c->factor[i]->id));
    return list;
}

static json_t *causes(const struct tw_isolate *c, const struct twin_search_report *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->cause_count; i++) {
        const struct twin_search_cause *x = &r->cause[i];
        const struct twin_factor *f = c->factor[x->candidate];
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "factor", f->id, "layer", f->layer, "pin", f->pin,
                                              "fix", f->fix, "necessary", arm(&x->necessary), "sufficient", arm(&x->sufficient), "p_value",
                                              tw_json_number(x->p), "p_adjusted", tw_json_number(x->p_adjusted), "cost_ratio",
                                              tw_json_number(cost_ratio(c)), "alternatives", ids(c, &x->alternatives)));
    }
    return list;
}

static json_t *first_json(const struct tw_isolate *c)
{
    const struct twin_finding *f = c->first ? c->first->first : NULL;
    return f ? json_pack("{s:I, s:i, s:o, s:o, s:o, s:o}", "step", (json_int_t)f->step_a, "rank", (int)f->rank, "layer", tw_json_text(f->layer),
                         "name", tw_json_text(f->name), "op", tw_json_text(f->op), "source", tw_json_text(f->site))
             : json_null();
}

static const char *contract_word(enum twin_search_outcome o)
{
    return o == TWIN_SEARCH_ISOLATED ? "isolated" : o == TWIN_SEARCH_NO_DIVERGENCE ? "no-divergence" : o == TWIN_SEARCH_JOB_FAILS ? "error" : "not-isolated";
}

static int print_json(const struct tw_isolate *c, const struct twin_search_report *r)
{
    return tw_json_print(json_pack(
        "{s:s, s:s, s:s, s:o, s:I, s:o, s:o, s:o, s:o, s:{s:I, s:I, s:o, s:o, s:o}, s:s, s:s, s:o, s:o, s:o, s:o, s:I, s:o, s:o}", "schema",
        "twinrun.isolate/1", "outcome", contract_word(r->outcome), "reason", twin_search_outcome_name(r->outcome), "causes", causes(c, r), "runs_used",
        (json_int_t)r->runs, "alpha", tw_json_number(c->plan.alpha), "beta", tw_json_number(c->plan.beta), "first", first_json(c), "bound",
        tw_json_number(r->bound), "baseline", "comparisons", (json_int_t)r->baseline, "diverged", (json_int_t)r->parted, "rate", tw_json_number(r->rate),
        "low", tw_json_number(r->rate_low), "high", tw_json_number(r->rate_high), "unit", r->unit == TWIN_UNIT_EXPOSURE ? "steps" : "runs", "unit_why",
        r->unit_why ? r->unit_why : "", "tested", ids(c, &r->tested), "dropped", ids(c, &r->dropped), "left_out", ids(c, &r->left_out), "suspects",
        ids(c, &r->suspects), "need", (json_int_t)r->need, "folder", tw_json_text(c->folder), "arms",
        tw_isolate_arms_json(c, r)));
}

int tw_isolate_json_error(int code)
{
    json_t *j = json_pack("{s:s, s:s, s:o, s:[], s:i}", "schema", "twinrun.isolate/1", "outcome", "error", "message", tw_json_text(tw_said()),
                          "causes", "runs_used", 0);
    return tw_json_print(j) != 0 ? TW_EXIT_TROUBLE : code;
}

int tw_isolate_report(struct tw_isolate *c, const struct twin_search_report *r)
{
    static const int code[] = {
        [TWIN_SEARCH_ISOLATED] = TW_EXIT_DIFFER,       [TWIN_SEARCH_NO_DIVERGENCE] = TW_EXIT_SAME,
        [TWIN_SEARCH_OUTSIDE] = TW_EXIT_INCONCLUSIVE,  [TWIN_SEARCH_HARDWARE] = TW_EXIT_INCONCLUSIVE,
        [TWIN_SEARCH_NOT_ENOUGH] = TW_EXIT_INCONCLUSIVE, [TWIN_SEARCH_UNEXPLAINED] = TW_EXIT_INCONCLUSIVE,
        [TWIN_SEARCH_INTERRUPTED] = TW_EXIT_INTERRUPTED, [TWIN_SEARCH_JOB_FAILS] = TW_EXIT_TROUBLE,
        [TWIN_SEARCH_UNSTEADY] = TW_EXIT_INCONCLUSIVE,
    };
    c->reported = true;
    if (c->args.json)
        return print_json(c, r) == 0 ? code[r->outcome] : TW_EXIT_TROUBLE;
    char *text = twin_search_report_text(r, c->candidate);
    fputs(text ? text : "", stdout);
    free(text);
    print_first(c);
    if (c->arms) {
        tw_isolate_arms_print(c, r);
        return code[r->outcome];
    }
    print_causes(c, r);
    print_pins(c);
    print_next(c, r);
    return code[r->outcome];
}
