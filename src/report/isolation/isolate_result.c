/* SPDX-License-Identifier: Apache-2.0 */
/* What a search found, put into the words and numbers that text, JSON and page are made from. Every
 * text that is made here is kept in one list, goes through the redactor (a command may hold a
 * secret) and lives as long as the result. Where memory runs out, the result says that it failed,
 * and has "" in place of the text. */
#include "isolate_result.h"

#include "base.h"
#include "wording.h"

#include "src/launch/redact.h"
#include "src/stats/stats.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    COST_RUNS = 3,       /* of each sort: a ratio of fewer is the machine's mood */
    NATURAL_SORTED = 24, /* runs sorted into classes at most: pairs are compared */
};

/* Takes a text (NULL: no memory) and keeps it, redacted, for as long as the result lives. */
static const char *keep_text(struct tw_isolate_result *o, char *given)
{
    char *text = given && o->redactor ? twin_redact(o->redactor, given, NULL) : NULL;
    tw_free(given);
    char **grown = text ? tw_reallocarray(o->text, o->text_count + 1, sizeof *grown) : NULL;
    if (!grown) {
        tw_free(text);
        o->failed = true;
        return "";
    }
    o->text = grown;
    o->text[o->text_count++] = text;
    return text;
}

/* n zeroed items. NULL: no memory, and the result says so. */
static void *zeroed_list(struct tw_isolate_result *o, size_t n, size_t bytes)
{
    void *p = tw_calloc(n ? n : 1, bytes);
    o->failed |= !p;
    return p;
}

/* "hash-seed, threads"; none: what stands for the empty set. */
static const char *factor_names(struct tw_isolate_result *o, const struct tw_isolate *c,
                                const struct twin_search_set *set, const char *none)
{
    struct tw_buf b = {0};
    size_t n = 0;
    tw_buf_puts(&b, "");
    for (size_t i = 0; i < c->count; i++)
        if (twin_search_has(set, i))
            tw_buf_printf(&b, "%s%s", n++ ? ", " : "", c->factor[i]->id);
    if (n == 0)
        tw_buf_puts(&b, none);
    return keep_text(o, tw_buf_steal(&b));
}

/* Are the same factors in both? */
static bool equal_sets(const struct twin_search_set *a, const struct twin_search_set *b)
{
    return memcmp(a->word, b->word, sizeof a->word) == 0;
}

/* ---- cost */

/* Logarithms of the times of the runs with exactly these pins that went on to their own end. */
static size_t log_times(const struct tw_isolate *c, const struct twin_search_set *pinned,
                        double *log_s)
{
    size_t n = 0;
    for (size_t i = 0; i < c->log.count; i++) {
        const struct twin_search_entry *e = &c->log.entry[i];
        const struct tw_isolate_made *m = tw_isolate_made(c, e->number);
        if (m && m->whole && e->result.status == TWIN_ENDED_WELL && m->wall_s > 0 &&
            equal_sets(&m->pinned, pinned))
            log_s[n++] = log(m->wall_s);
    }
    return n;
}

/* The pin's, from runs that differ in this pin alone: Hodges and Lehmann's shift of the logarithms
 * is a ratio of times. */
static struct twin_isolation_cost cost_of(struct tw_isolate_result *o, const struct tw_isolate *c,
                                          const struct twin_search_report *r, size_t cause)
{
    assert(cause < r->cause_count);
    struct twin_isolation_cost cost = {NAN, NAN, NAN, NAN, 0, 0, c->args.jobs > 1};
    struct twin_search_set with = {{0}}, without;
    struct twin_estimate shift;
    for (size_t i = 0; i < r->cause_count; i++)
        with.word[r->cause[i].candidate / 64] |= UINT64_C(1) << r->cause[i].candidate % 64;
    without = with;
    without.word[r->cause[cause].candidate / 64] &= ~(UINT64_C(1)
                                                      << r->cause[cause].candidate % 64);
    double *x = zeroed_list(o, c->log.count, sizeof *x),
           *y = zeroed_list(o, c->log.count, sizeof *y);
    if (x && y && !cost.shared) {
        cost.with = log_times(c, &with, x);
        cost.without = log_times(c, &without, y);
    }
    if (cost.with >= COST_RUNS && cost.without >= COST_RUNS &&
        twin_stats_hodges_lehmann(x, cost.with, y, cost.without, .95, &shift) == 0) {
        cost.ratio = exp(shift.value);
        cost.low = exp(shift.interval.low);
        cost.high = exp(shift.interval.high);
        cost.confidence = shift.confidence;
    }
    tw_free(x);
    tw_free(y);
    return cost;
}

/* ---- the parts */

/* Each cause with its factor, its counts, its cost, and where the job asks for what varies. */
static void fill_causes(struct tw_isolate_result *o, const struct tw_isolate *c,
                        const struct twin_search_report *r)
{
    struct twin_isolation *x = &o->x;
    x->cause = zeroed_list(o, r->cause_count, sizeof *x->cause);
    for (size_t i = 0; x->cause && i < r->cause_count; i++) {
        const struct twin_search_cause *from = &r->cause[i];
        const struct twin_factor *f = c->factor[from->candidate];
        x->cause[x->cause_count++] = (struct twin_isolation_cause){
            .factor = f->id,
            .layer = f->layer,
            .title = f->title,
            .pin = f->pin,
            .how = f->how,
            .fix = f->fix,
            .alternatives = factor_names(o, c, &from->alternatives, ""),
            .free_trials = from->necessary.trials,
            .free_parted = from->necessary.parted,
            .pinned_trials = from->sufficient.trials,
            .pinned_parted = from->sufficient.parted,
            .p = from->p,
            .p_adjusted = from->p_adjusted,
            .cost = cost_of(o, c, r, i),
        };
        for (size_t k = 0; k < c->consumer_count; k++)
            if (c->consumer[k].factor == f) {
                x->cause[i].consumer = (const char *const *)c->consumer[k].text;
                x->cause[i].consumer_count = c->consumer[k].count;
            }
    }
}

/* The name of a layer; "" where none was seen. */
static const char *layer_of(int32_t layer)
{
    return layer >= 0 ? twin_search_layer_name(layer) : "";
}

/* Rows of what was freed in the pinned world, and what came of it. */
static void fill_contrasts(struct tw_isolate_result *o, const struct tw_isolate *c,
                           const struct twin_search_report *r)
{
    struct twin_isolation *x = &o->x;
    x->contrast = zeroed_list(o, r->test_count, sizeof *x->contrast);
    for (size_t i = 0; x->contrast && i < r->test_count; i++) {
        const struct twin_search_test *t = &r->test[i];
        x->contrast[x->contrast_count++] = (struct twin_isolation_contrast){
            factor_names(o, c, &t->freed, "nothing"), t->compared, t->parted, t->step,
            layer_of(t->layer)};
    }
}

/* Natural runs with the same pins on make one row. The first of them, a reference, was compared
 * with nothing. */
static void fill_pins(struct tw_isolate_result *o, const struct tw_isolate *c)
{
    struct twin_isolation *x = &o->x;
    x->pins = zeroed_list(o, c->log.count, sizeof *x->pins);
    for (size_t i = 0; x->pins && i < c->log.count; i++) {
        const struct twin_search_entry *e = &c->log.entry[i];
        const struct tw_isolate_made *m = tw_isolate_made(c, e->number);
        if (e->purpose != TWIN_FOR_CONFIRM || !m)
            continue;
        const char *pinned = factor_names(o, c, &m->pinned, "nothing");
        size_t at = 0;
        while (at < x->pins_count && strcmp(x->pins[at].factors, pinned) != 0)
            at++;
        struct twin_isolation_contrast *row = &x->pins[at];
        if (at == x->pins_count) {
            *row = (struct twin_isolation_contrast){.factors = pinned, .step = -1, .layer = ""};
            x->pins_count++;
        }
        row->compared++; /* a job need not have steps */
        if (e->result.parted && !row->parted && e->result.status == TWIN_ENDED_WELL) {
            row->step = e->result.step;
            row->layer = layer_of(e->result.layer);
        }
        row->parted |= e->result.parted;
    }
}

/* What was pinned in a run, in as few names as possible. */
static const char *pinned_names(struct tw_isolate_result *o, const struct tw_isolate *c,
                                uint32_t number)
{
    const struct tw_isolate_made *m = tw_isolate_made(c, number);
    struct twin_search_set rest = {{0}};
    size_t pinned = 0;
    for (size_t i = 0; m && i < c->count; i++) {
        pinned += twin_search_has(&m->pinned, i);
        if (!twin_search_has(&m->pinned, i))
            rest.word[i / 64] |= UINT64_C(1) << i % 64;
    }
    if (!m)
        return "not known";
    if (pinned == c->count)
        return "all";
    if (pinned * 2 <= c->count)
        return factor_names(o, c, &m->pinned, "none");
    return keep_text(o, tw_printf("all but %s", factor_names(o, c, &rest, "")));
}

/* Of two arms A's first run, with which B's are compared, is shown among them. */
static bool is_natural(const struct tw_isolate *c, const struct twin_search_entry *e)
{
    bool free = e->purpose == TWIN_FOR_BASELINE || e->purpose == TWIN_FOR_FREE;
    return free ||
           (c->arms && e->purpose == TWIN_FOR_REFERENCE && e->result.status == TWIN_ENDED_WELL);
}

/* One row for each run of the search. */
static void fill_runs(struct tw_isolate_result *o, const struct tw_isolate *c)
{
    static const char *const ended[] = {"well", "badly", "stood still", "not"};
    struct twin_isolation *x = &o->x;
    x->run = zeroed_list(o, c->log.count, sizeof *x->run);
    for (size_t i = 0; x->run && i < c->log.count; i++) {
        const struct twin_search_entry *e = &c->log.entry[i];
        const struct twin_search_result *s = &e->result;
        bool known = s->parted && s->status == TWIN_ENDED_WELL;
        x->run[x->run_count++] = (struct twin_isolation_run){
            .number = e->number,
            .purpose = twin_search_purpose_name(e->purpose),
            .pinned = pinned_names(o, c, e->number),
            .ended = ended[s->status],
            .natural = is_natural(c, e),
            .parted = s->parted,
            .step = known ? (int64_t)s->step : -1,
            .layer = s->parted ? layer_of(s->layer) : "",
            .steps = s->steps,
            .seconds = s->seconds};
    }
}

/* How far the first natural run and the first that parted from it are apart. Without it the page
 * has two pictures less. */
static void draw_field(struct tw_isolate_result *o, const struct tw_isolate *c,
                       const struct twin_run *a, const struct twin_run *b,
                       const struct twin_compare_options *how, uint32_t number)
{
    const struct twin_finding *f = c->first ? c->first->first : NULL;
    struct twin_compare_options plain = *how;
    plain.find_shift = false;
    if (twin_compare_field(a, b, &plain,
                           f && f->type <= TWIN_FINDING_ORDER ? f->step_a : UINT32_MAX, 0,
                           &o->field, NULL) == 0 &&
        o->field.rows) {
        o->x.field = &o->field;
        o->x.field_runs[0] = o->x.natural[0];
        o->x.field_runs[1] = number;
    }
}

/* Sorts the natural runs whose folders are still there, and finds the first pair that parted, if
 * this process has not seen it. */
static void natural_runs(struct tw_isolate_result *o, struct tw_isolate *c)
{
    struct twin_isolation *x = &o->x;
    struct twin_compare_options how = tw_isolate_compare_options(c);
    const struct twin_run **run = zeroed_list(o, c->log.count, sizeof *run);
    x->natural = zeroed_list(o, c->log.count, sizeof *x->natural);
    for (size_t i = 0; run && x->natural && i < c->log.count; i++) {
        const struct twin_search_entry *e = &c->log.entry[i];
        if (!is_natural(c, e))
            continue;
        const struct twin_run *found = x->natural_count < NATURAL_SORTED
                                           ? tw_isolate_find(c, e->result.handle)
                                           : NULL;
        if (!found) {
            x->natural_left_out++;
            continue;
        }
        if (!c->first && e->result.parted && x->natural_count) {
            const struct twin_run *pair[2] = {run[0], found};
            twin_compare(pair, 2, &how, &c->first, NULL);
        }
        if (!x->field && e->result.parted && x->natural_count)
            draw_field(o, c, run[0], found, &how, e->number);
        run[x->natural_count] = found;
        x->natural[x->natural_count++] = e->number;
    }
    if (run && x->natural_count > 1)
        /* without it the page has no tree, and is still true */
        twin_compare_tree(run, x->natural_count, &how, &x->tree, NULL);
    if (run && twin_compare_curves(run, x->natural_count, &o->curves, NULL) == 0)
        x->curves = &o->curves;
    x->first = c->first ? c->first->first : NULL;
    if (run && x->natural_count) {
        x->source = run[0];
        x->source_number = x->natural[0];
    }
    tw_free(run);
}

/* What to try where too little was seen: as check says it of these two runs. */
static const char *what_shows_more(struct tw_isolate_result *o, const struct twin_run *const *pair)
{
    struct tw_next next[TW_NEXT_MAX];
    const struct twin_report report = {.verdict = o->open, .runs = pair, .run_count = 2};
    size_t count = tw_report_next(&report, next);
    const char *command = "";
    for (size_t i = 0; i < count; i++) {
        if (i == 0)
            command = keep_text(o, tw_strdup(next[i].command.data));
        tw_buf_free(&next[i].command);
    }
    return command;
}

/* Nothing diverged, and one comparison at least does not say "same": its verdict says what was not
 * seen. Where its folders are gone, the log has the first reason. */
static void fill_unseen(struct tw_isolate_result *o, struct tw_isolate *c,
                        const struct twin_search_report *r)
{
    struct twin_isolation *x = &o->x;
    const struct twin_run *pair[2] = {NULL, NULL};
    for (size_t i = 0; i < c->log.count && r->outcome == TWIN_SEARCH_UNSEEN && !o->open; i++) {
        const struct twin_search_entry *e = &c->log.entry[i];
        pair[1] = is_natural(c, e) ? tw_isolate_find(c, e->result.handle) : NULL;
        if (!pair[0] || !pair[1]) {
            pair[0] = pair[0] ? pair[0] : pair[1];
            continue;
        }
        if (tw_isolate_compare_pair(c, pair[0], pair[1], &o->open, NULL) != 0)
            o->open = NULL;
        if (o->open && o->open->outcome != TWIN_INCONCLUSIVE) {
            twin_verdict_free(o->open);
            o->open = NULL;
        }
    }
    if (r->outcome != TWIN_SEARCH_UNSEEN || (!o->open && !c->unseen))
        return;
    const size_t count = o->open ? o->open->unseen_count : 1;
    const char **list = zeroed_list(o, count, sizeof *list);
    for (size_t i = 0; list && i < count; i++)
        list[x->unseen_count++] = keep_text(o, tw_strdup(o->open ? o->open->unseen[i] : c->unseen));
    x->unseen = list;
    if (!*x->next && o->open)
        x->next = what_shows_more(o, pair);
}

/* What else is to be known of the search, and the two lists of names beside it. */
static void fill_notes(struct tw_isolate_result *o, const struct tw_isolate *c,
                       const struct twin_search_report *r)
{
    struct twin_isolation *x = &o->x;
    const struct tw_isolate_consumers *unpinned = NULL;
    for (size_t i = 0; i < c->consumer_count; i++)
        unpinned = c->consumer[i].factor ? unpinned : &c->consumer[i];
    const char **note = zeroed_list(o,
                                    c->count + 6 + TW_ISOLATE_CLOCKS + TW_ISOLATE_ARMS_NOTES +
                                        (unpinned ? unpinned->count : 0),
                                    sizeof *note);
    for (size_t i = 0; note && unpinned && i < unpinned->count; i++)
        note[x->note_count++] = keep_text(o, tw_printf("no pin reaches %s", unpinned->text[i]));
    for (size_t i = 0; note && i < c->count; i++)
        if (c->effect[i].effect == TWIN_EFFECT_FAILED)
            note[x->note_count++] = keep_text(
                o, tw_printf("the pin of %s did not take effect: %s", c->factor[i]->id,
                             c->effect[i].text ? c->effect[i].text : ""));
    if (note && c->nodes.text)
        note[x->note_count++] = keep_text(o, tw_strdup(c->nodes.text));
    char *made = note ? tw_remote_text(c->on) : NULL;
    if (made)
        note[x->note_count++] = keep_text(o, made);
    if (note && c->nodes.used && c->nodes.odd_count)
        note[x->note_count++] = keep_text(
            o,
            tw_strdup("where the node was free, half of the runs behind the baseline were put on "
                      "nodes whose runs had diverged: their rate is no natural one"));
    if (note && c->nodes.why)
        note[x->note_count++] = keep_text(o,
                                          tw_printf("the node was no candidate: %s", c->nodes.why));
    if (note && c->unseen && r->outcome != TWIN_SEARCH_UNSEEN) /* there it is the answer */
        note[x->note_count++] = keep_text(o, tw_printf("not everything was seen: %s", c->unseen));
    for (size_t i = 0; note && i < c->clock_count; i++)
        note[x->note_count++] = keep_text(o, tw_printf("clock experiment: %s", c->clock[i].text));
    if (note && c->args.jobs > 1)
        note[x->note_count++] = keep_text(
            o, tw_printf("up to %u runs at a time shared this machine: a cause that hangs on "
                         "timing may show more often or less than in a run by itself",
                         (unsigned)c->args.jobs));
    for (size_t i = 0; note && c->arms && i < TW_ISOLATE_ARMS_NOTES; i++) {
        char *text = tw_isolate_arms_note(c, i);
        if (text)
            note[x->note_count++] = keep_text(o, text);
    }
    x->dropped = factor_names(o, c, &r->dropped, "");
    x->suspects = r->outcome == TWIN_SEARCH_ISOLATED ? "" : factor_names(o, c, &r->suspects, "");
    x->note = note;
}

/* ---- known cases */

/* The signature of what was found; its factors are a list of the result's. */
static struct twin_signature signature_of(const struct twin_isolation *x, const char *arms,
                                          const char **factors)
{
    struct twin_signature s = tw_known_signature(x->first, arms);
    for (size_t i = 0; i < x->cause_count; i++)
        factors[i] = x->cause[i].factor;
    s.factors = factors;
    s.factor_count = x->cause_count;
    return s;
}

/* The first natural run whose folder is still there: what it has set decides which advice the job
 * follows already. */
static const struct twin_run *natural_run(struct tw_isolate *c)
{
    const struct twin_run *found = NULL;
    for (size_t i = 0; i < c->log.count && !found; i++)
        if (is_natural(c, &c->log.entry[i]))
            found = tw_isolate_find(c, c->log.entry[i].result.handle);
    return found;
}

void tw_isolate_look_up(struct tw_isolate *c, struct tw_isolate_result *o)
{
    struct twin_isolation *x = &o->x;
    const char **factors = x->first ? zeroed_list(o, x->cause_count, sizeof *factors) : NULL;
    if (!factors)
        return;
    /* A resumed arm: what the seam lost is what check says of it, too. */
    bool resumed = c->arms && c->first && c->first->shift != 0;
    const char *arms = c->arms ? "two" : "same";
    struct twin_signature s = signature_of(x, resumed ? "resumed" : arms, factors);
    const struct twin_run *first = natural_run(c);
    char **settings = NULL;
    s.setting_count = first ? tw_known_settings(first, &settings) : 0;
    s.settings = settings;
    tw_known_look_up(c->home, &s, &o->known, c->front);
    tw_known_settings_free(settings, s.setting_count);
    x->hint = o->known.hint;
    x->hint_count = o->known.count;
    tw_free(factors);
}

int tw_isolate_save_case(const struct tw_isolate *c, const struct tw_isolate_result *found,
                         const char *id, struct twin_error *err)
{
    const struct twin_isolation *x = &found->x;
    if (x->cause_count == 0 || !x->first) {
        tw_front_say(c->front,
                     "isolate: --save-case: no case was written, since no cause was isolated");
        return 0;
    }
    const char **factors = tw_calloc(x->cause_count, sizeof *factors);
    if (!factors)
        return tw_no_memory(err, "writing a case");
    struct twin_signature s = signature_of(x, c->arms ? "two" : "same", factors);
    int rc = tw_known_save(c->home, id, &s, x->sentence, x->cause[0].title, x->cause[0].fix,
                           c->front, err);
    tw_free(factors);
    return rc;
}

/* ---- sentences */

/* What the page begins with. malloc'ed; NULL: no memory. */
static char *first_sentence(const struct tw_isolate *c, const struct twin_search_report *r)
{
    struct tw_buf b = {0};
    if (r->outcome != TWIN_SEARCH_ISOLATED) {
        char *text = twin_search_end_text(r), *copy = text ? tw_strdup(text) : NULL;
        free(text);
        return copy;
    }
    if (c->args.through && c->a_again.trials && !c->a_again.parted)
        tw_buf_puts(&b, "What differs between A and B acts through ");
    else if (c->args.through)
        tw_buf_puts(&b, c->a_again.parted
                            ? "B agrees with A, which does not repeat itself, under the pin of "
                            : "B agrees with A under the pin of ");
    else
        tw_buf_printf(&b, "The runs%s diverge%s because of ", c->arms ? " of B and A" : "",
                      r->sufficient ? "" : " mainly");
    for (size_t i = 0; i < r->cause_count; i++) {
        const struct twin_factor *f = c->factor[r->cause[i].candidate];
        tw_buf_printf(&b, "%s%s (%s)", i ? " and " : "", f->id, f->title);
    }
    return tw_buf_steal(&b);
}

/* The colour of the page. */
static enum twin_mood mood_of(enum twin_search_outcome o)
{
    if (o == TWIN_SEARCH_ISOLATED)
        return TWIN_MOOD_FOUND;
    if (o == TWIN_SEARCH_NO_DIVERGENCE)
        return TWIN_MOOD_CLEAN;
    const bool trouble = o == TWIN_SEARCH_JOB_FAILS || o == TWIN_SEARCH_HARDWARE;
    return trouble ? TWIN_MOOD_TROUBLE : TWIN_MOOD_OPEN;
}

/* The plan as it was printed; malloc'ed by the search, with free. */
static char *plan_text(const struct tw_isolate *c)
{
    char *text = twin_search_plan_text(&c->plan), *copy = text ? tw_strdup(text) : NULL;
    free(text);
    return copy;
}

/* The outcome, as a person reads it. */
static const char *outcome_words(const struct twin_search_report *r)
{
    if (r->outcome == TWIN_SEARCH_ISOLATED && !r->sufficient)
        return "isolated (main cause)";
    return twin_search_outcome_name(r->outcome);
}

void tw_isolate_result(struct tw_isolate *c, const struct twin_search_report *r, char *next,
                       char *then, struct tw_isolate_result *o)
{
    *o = (struct tw_isolate_result){{0}};
    /* no memory: nothing can be told, keep_text() says so */
    twin_redactor_open(c->home, &o->redactor, NULL);
    const char *job = keep_text(o, c->args.a ? tw_isolate_arms_job(c) : tw_shell_quote(c->argv, 0));
    o->x = (struct twin_isolation){
        .mood = mood_of(r->outcome),
        .outcome = outcome_words(r),
        .seed = r->seed,
        .arrangement = r->arrangement ? r->arrangement : "",
        .left = r->left,
        .left_parted = r->left_parted,
        .more = r->more,
        .sufficient = r->sufficient,
        .sentence = keep_text(o, first_sentence(c, r)),
        .command = job,
        .folder = c->journal.folder,
        .next = keep_text(o, next),
        .then = keep_text(o, then),
        .alpha = c->plan.alpha,
        .beta = c->plan.beta,
        .plan = keep_text(o, plan_text(c)),
        .unit = r->unit == TWIN_UNIT_EXPOSURE ? "steps" : "comparisons",
        .unit_why = r->unit_why ? r->unit_why : "",
        .baseline = r->baseline,
        .baseline_parted = r->parted,
        .rate_low = r->rate_low,
        .rate_high = r->rate_high,
        .bound = r->bound,
        .runs = r->runs,
        .seconds = r->seconds,
        .arms = r->arms,
    };
    if (c->arms)
        tw_isolate_arms_look_back(c, r);
    fill_causes(o, c, r);
    fill_contrasts(o, c, r);
    fill_pins(o, c);
    fill_runs(o, c);
    natural_runs(o, c);
    fill_unseen(o, c, r);
    fill_notes(o, c, r);
}

void tw_isolate_result_free(struct tw_isolate_result *o)
{
    struct twin_isolation *x = &o->x;
    twin_redactor_close(o->redactor);
    for (size_t i = 0; i < o->text_count; i++)
        tw_free(o->text[i]);
    tw_free(o->text);
    tw_free(x->cause);
    tw_free(x->contrast);
    tw_free(x->pins);
    tw_free(x->run);
    tw_free(x->natural);
    tw_free((void *)(uintptr_t)x->note);
    tw_free((void *)(uintptr_t)x->unseen);
    twin_verdict_free(o->open);
    tw_known_free(&o->known);
    twin_class_tree_free(&x->tree);
    twin_field_free(&o->field);
    twin_curves_free(&o->curves);
    *o = (struct tw_isolate_result){{0}};
}
