/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page of a verdict. Its first screen answers: are they the same; if not, where do they
 * diverge, and what next. Below come the pictures, benign differences, notes and the runs.
 *
 * twin_report_page() is called by verdict_gather.c, which brings the pictures. The facts are those
 * of the text (text.c), in the words of wording.c.
 */
#include "excerpt.h"
#include "page_inside.h"
#include "phrase.h"
#include "verdict_page.h"

#include "src/provenance/provenance.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Lines of a list in the frame of facts. */
enum { LISTED = 20 };

/* Adds a fact, and empties text for the next one. A text that failed makes the page fail; an empty
 * one is left out. */
static void fact_of(struct twin_page *p, const char *name, struct tw_buf *text)
{
    if (text->failed)
        p->body.failed = text->failed;
    else if (text->len)
        twin_page_fact(p, name, "%s", text->data);
    tw_buf_free(text);
}

/* The word of the verdict with its sentence, and the command in small print. */
static void page_head(struct twin_page *p, const struct twin_report *r)
{
    static const struct {
        enum twin_mood mood;
        const char *word;
    } shown[] = {
        [TWIN_SAME] = {TWIN_MOOD_CLEAN, "SAME"},
        [TWIN_WITHIN_TOLERANCE] = {TWIN_MOOD_CLEAN, "WITHIN TOLERANCE"},
        [TWIN_DIFFER] = {TWIN_MOOD_FOUND, "DIFFER"},
        [TWIN_INCONCLUSIVE] = {TWIN_MOOD_OPEN, "INCONCLUSIVE"},
        [TWIN_FAILED] = {TWIN_MOOD_TROUBLE, "ERROR"},
    };
    const struct twin_verdict *v = r->verdict;
    struct tw_buf sentence = {0}, about = {0};
    /* one run that is compared with nothing has no verdict */
    const bool alone = v->runs < 2 && !v->against && v->outcome == TWIN_INCONCLUSIVE;
    /* the other outcomes have headlines that are sentences by themselves */
    if (v->outcome == TWIN_SAME)
        tw_buf_puts(&sentence, "The runs are the same: ");
    else if (v->outcome == TWIN_DIFFER)
        tw_buf_puts(&sentence, "The runs differ ");
    if (alone)
        tw_buf_puts(&sentence,
                    "What the run recorded; whether it repeats itself, one run alone cannot say");
    else
        tw_say_headline(&sentence, v);
    /* the headline begins in lower case, since in the text it follows a word */
    if (sentence.len && sentence.data[0] >= 'a' && sentence.data[0] <= 'z')
        sentence.data[0] = (char)(sentence.data[0] - 'a' + 'A');
    tw_buf_printf(&about, "twinrun %s, %zu run%s", r->verb ? r->verb : "check", v->runs,
                  tw_plural_s(v->runs));
    if (r->command)
        tw_buf_printf(&about, ": %s", r->command);
    if (sentence.failed || about.failed)
        p->body.failed = TWIN_ENOMEM;
    else
        twin_page_verdict(p, shown[v->outcome].mood, alone ? "ONE RUN" : shown[v->outcome].word,
                          sentence.data, about.data);
    tw_buf_free(&sentence);
    tw_buf_free(&about);
}

/* The operation, its source line and who called that line: the first two lines of the finding's
 * site. */
static void page_source(struct twin_page *p, const struct twin_finding *f)
{
    size_t n = strcspn(f->site, "\n");
    twin_page_fact(p, "Operation", "%s", f->op);
    if (n)
        twin_page_fact(p, "Source line", "%.*s", (int)(n < 400 ? n : 400), f->site);
    if (f->site[n] == '\n' && f->site[n + 1])
        twin_page_fact(p, "Called from", "%.*s", (int)strcspn(f->site + n + 1, "\n"),
                       f->site + n + 1);
}

/* Other origins in the same step, at most three of them. */
static void page_also(struct twin_page *p, const struct twin_verdict *v)
{
    struct tw_buf b = {0};
    for (size_t i = 1; i < v->origin_count && i < 4; i++) {
        tw_buf_puts(&b, i > 1 ? "; " : "");
        if (v->origins[i].rank != v->first->rank) {
            tw_say_rank(&b, &v->origins[i]);
            tw_buf_puts(&b, " ");
        }
        tw_say_what(&b, &v->origins[i]);
        if (v->origins[i].step_a != v->first->step_a)
            tw_buf_printf(&b, ", step %u", v->origins[i].step_a);
    }
    if (v->origin_count > 4)
        tw_buf_printf(&b, "; %zu more", v->origin_count - 4);
    fact_of(p, "Also there", &b);
}

/* The frame of facts about the first difference. */
static void page_first(struct twin_page *p, const struct twin_verdict *v)
{
    const struct twin_finding *f = v->first;
    struct tw_buf b = {0};
    twin_page_facts(p, "First divergence");
    tw_say_place(&b, f, true);
    fact_of(p, "Where", &b);
    /* of a finding that is no record the place says all that is known */
    if (tw_is_record(f)) {
        if (f->role == TWIN_ORIGIN)
            twin_page_fact(p, "Role", "origin: what went into it was equal, what came out was not");
        else if (f->role == TWIN_CARRIER)
            twin_page_fact(p, "Role", "carrier: what went into it differed already");
        tw_say_between(&b, f);
        fact_of(p, "Role", &b);
        page_source(p, f);
        tw_say_size(&b, f);
        fact_of(p, "Size", &b);
        twin_page_fact(p, "How", "%s", f->text);
        twin_page_fact(p, "Equal before", "%s", v->equal_before);
        page_also(p, v);
        tw_say_onsets(&b, v);
        fact_of(p, "Then", &b);
        if (isfinite(v->drift_per_step))
            twin_page_fact(p, "Drift", "x%.3g per step: the difference %s", v->drift_per_step,
                           v->drift_per_step > 1 ? "grows" : "does not grow");
    }
    twin_page_fact(p, "NaN", "%s", v->nonfinite);
    /* two runs give one comparison, and no rate */
    if (v->differing && v->runs > 2)
        twin_page_fact(p, "How often",
                       "%zu of %zu comparisons diverge: %.0f%% (95%% interval %.0f%% to %.0f%%)",
                       v->differing, v->comparisons, 100 * v->rate, 100 * v->rate_low,
                       100 * v->rate_high);
    twin_page_facts_end(p);
}

/* A few lines of the source around that of the first difference, as they were when run a was made;
 * or why they are not shown. */
static void page_excerpt(struct twin_page *p, const struct twin_report *r)
{
    const struct twin_finding *f = r->verdict->first;
    char who[32];
    if (!tw_is_record(f) || f->run_a >= r->run_count)
        return;
    snprintf(who, sizeof who, "run %zu", r->page_of ? r->page_of : f->run_a + 1);
    tw_page_excerpt(p, r->runs[f->run_a], f->site, who);
}

/* The frame of a verdict without a first difference: how far the comparison reaches, and how rare a
 * divergence could still be. */
static void page_reach(struct twin_page *p, const struct twin_verdict *v)
{
    struct tw_buf b = {0};
    twin_page_facts(p, "");
    tw_say_ranges(&b, v, LISTED);
    fact_of(p, "Compared", &b);
    if (v->comparisons && !v->against && v->outcome == TWIN_SAME)
        twin_page_fact(p, "How sure",
                       "%zu comparison%s cannot exclude a divergence in up to %.2g%% of runs "
                       "(%.0f%% confidence); more runs bring that bound down",
                       v->comparisons, tw_plural_s(v->comparisons), 100 * v->p_diverge_upper,
                       100 * v->confidence);
    twin_page_fact(p, "NaN", "%s", v->nonfinite);
    /* only the first line of the list is named */
    for (size_t i = 0; v->outcome == TWIN_INCONCLUSIVE && i < v->unseen_count && i < LISTED; i++)
        twin_page_fact(p, i ? "" : "Not seen", "%s", v->unseen[i]);
    twin_page_facts_end(p);
}

static void page_against(struct twin_page *p, const struct twin_against *a)
{
    struct tw_buf b = {0};
    twin_page_facts(p, "Held against a baseline");
    tw_say_against(&b, a);
    fact_of(p, "Baseline", &b);
    tw_say_world(&b, a, LISTED);
    fact_of(p, "World", &b);
    twin_page_facts_end(p);
}

static void page_pinned(struct twin_page *p, const struct twin_verdict *v)
{
    struct tw_buf b = {0};
    twin_page_facts(p, "Under pins");
    tw_say_pinned(&b, v);
    fact_of(p, v->pinned->factors, &b);
    twin_page_facts_end(p);
}

/* The commands to try next, each under the reason for it. */
static void page_next(struct twin_page *p, const struct twin_report *r)
{
    struct tw_next n[TW_NEXT_MAX];
    size_t count = tw_report_next(r, n);
    if (count)
        twin_page_heading(p, "What next?");
    for (size_t i = 0; i < count; i++) {
        twin_page_small(p, "%s", n[i].why);
        if (n[i].command.failed)
            p->body.failed = n[i].command.failed;
        else
            twin_page_command(p, n[i].command.data);
        tw_buf_free(&n[i].command);
    }
}

/* A table of findings with a heading and a line of explanation; at most 10 * LISTED rows. */
static void page_findings(struct twin_page *p, const char *title, const char *small,
                          const struct twin_finding *f, size_t count)
{
    static const char *const columns[] = {"Where", "How", NULL};
    if (count == 0)
        return;
    twin_page_heading(p, title);
    twin_page_small(p, "%s", small);
    twin_page_table(p, columns, "tt");
    for (size_t i = 0; i < count && i < 10 * LISTED; i++) {
        struct tw_buf b = {0};
        tw_say_place(&b, &f[i], true);
        twin_page_cell(p, "%s", b.data && !b.failed ? b.data : "");
        twin_page_cell(p, "%s", tw_is_record(&f[i]) ? f[i].text : "");
        p->body.failed = p->body.failed ? p->body.failed : b.failed;
        tw_buf_free(&b);
    }
    twin_page_table_end(p);
}

/* Of transplanted runs: every origin with its rate. */
static void page_origins(struct twin_page *p, const struct twin_transplant *t)
{
    static const char *const columns[] = {"Origin", "Layer",        "Steps that diverge", "of",
                                          "Rate",   "95% interval", "First in step",      NULL};
    twin_page_heading(p, "Which operations diverge although their step began equal?");
    twin_page_small(
        p, "%zu transplanted run%s (%s): every step was made to start as in the recorded run.",
        t->runs, tw_plural_s(t->runs), twin_transplant_name(t->kind));
    twin_page_table(p, columns, "t nnnnn");
    for (size_t i = 0; i < t->origin_count; i++) {
        const struct twin_origin *o = &t->origin[i];
        struct tw_buf b = {0};
        tw_say_what(&b, o->finding);
        twin_page_cell(p, "%s", b.data && !b.failed ? b.data : "");
        twin_page_cell(p, "%s", o->finding->layer);
        twin_page_cell(p, "%llu", (unsigned long long)o->steps_differing);
        twin_page_cell(p, "%llu", (unsigned long long)o->steps);
        twin_page_cell(p, "%.3g%%", 100 * o->rate);
        twin_page_cell(p, "%.2g%% to %.2g%%", 100 * o->low, 100 * o->high);
        twin_page_cell(p, "%u", o->finding->step_a);
        p->body.failed = p->body.failed ? p->body.failed : b.failed;
        tw_buf_free(&b);
    }
    twin_page_table_end(p);
}

/* The rows of a table of what differs in code, libraries, variables and machine. Names and places,
 * which change no number, are counted. */
static void world_rows(struct twin_page *p, const struct twin_world_differences *d,
                       const char *other)
{
    const char *const columns[] = {"What", "Run 1", other, "May change bits", NULL};
    enum { ROWS = 10 * LISTED };
    size_t real = 0, names = 0;
    for (size_t i = 0; i < d->count; i++)
        *(d->item[i].power == TWIN_POWER_NOISE ? &names : &real) += 1;
    if (real)
        twin_page_table(p, columns, "t   ");
    for (size_t i = 0, row = 0; i < d->count && row < ROWS; i++) {
        const struct twin_world_difference *x = &d->item[i];
        static const char *const may[] = {"yes: it decides about numbers", "perhaps", "seldom"};
        if (x->power == TWIN_POWER_NOISE)
            continue;
        twin_page_cell(p, "%s: %s", x->group, x->what);
        twin_page_cell(p, "%s", x->a ? x->a : "(not there)");
        twin_page_cell(p, "%s", x->b ? x->b : "(not there)");
        twin_page_cell(p, "%s", may[x->power]);
        row++;
    }
    if (real)
        twin_page_table_end(p);
    if (real > ROWS)
        twin_page_small(p, "%zu more are listed by twinrun diff --env.", real - ROWS);
    if (real)
        twin_page_small(p, "That something differs here does not say that it is the cause: twinrun "
                           "isolate finds that out.");
    else
        twin_page_small(p, "Nothing that was recorded of their worlds differs.");
    if (names)
        twin_page_small(p, "Names and places, which change no number, are left out: %zu differ.",
                        names);
}

/* Of recorded runs: where they were made in different worlds, a reader looks there first. Of
 * several runs those two of which the verdict speaks. */
static void page_worlds(struct twin_page *p, const struct twin_report *r)
{
    struct twin_world_differences d = {0};
    json_t *a = NULL, *b = NULL;
    const size_t other = twin_report_other(r->verdict);
    char name[32];
    if (!r->verb || (strcmp(r->verb, "diff") != 0 && strcmp(r->verb, "report") != 0) ||
        other == 0 || other >= r->run_count)
        return;
    snprintf(name, sizeof name, "Run %zu", other + 1);
    twin_page_heading(p, "Were they made in the same world?");
    if (twin_provenance_load(r->runs[0]->dir, &a, NULL) != 0 ||
        twin_provenance_load(r->runs[other]->dir, &b, NULL) != 0)
        twin_page_small(p, "Not known: of run %zu there is no record of its world.",
                        a ? other + 1 : 1);
    else if (twin_provenance_diff(a, b, &d, NULL) != 0)
        p->body.failed = TWIN_ENOMEM;
    else
        world_rows(p, &d, name);
    twin_world_differences_free(&d);
    json_decref(a);
    json_decref(b);
}

/* A run that a search made is looked at for what the search found. */
static void page_searches(struct twin_page *p, const json_t *searches)
{
    static const char *const columns[] = {"When", "Outcome", "Cause", "Runs diverge first at",
                                          NULL};
    const size_t count = json_array_size(searches);
    if (count == 0)
        return;
    twin_page_heading(p, "What did the search find that this run belongs to?");
    twin_page_table(p, columns, "  tt");
    for (size_t i = 0; i < count && i < LISTED; i++) {
        const json_t *c = json_array_get(searches, i);
        char when[32];
        tw_utc_stamp(json_integer_value(json_object_get(c, "time_ns")), when);
        twin_page_cell(p, "%s", when);
        twin_page_cell(p, "%s", json_string_value(json_object_get(c, "outcome")));
        twin_page_cell(p, "%s", json_string_value(json_object_get(c, "cause")));
        twin_page_cell(p, "%s", json_string_value(json_object_get(c, "first")));
    }
    twin_page_table_end(p);
    twin_page_small(p, "By twinrun isolate; its page is report.html in the search's folder "
                       "(searches/ in the home).");
}

/* Folded away at the end: how each run ended, and the verdict as the terminal shows it, 100 columns
 * wide. */
static void runs(struct twin_page *p, const struct twin_report *r)
{
    static const char *const columns[] = {"Run", "Id", "Seconds", "Ended", NULL};
    twin_page_fold(p, "The runs, and the verdict as text");
    twin_page_table(p, columns, "n n ");
    for (size_t i = 0; i < r->run_count; i++) {
        const struct twin_run *x = r->runs[i];
        twin_page_cell_run(p, r->page_of ? r->page_of : i + 1);
        twin_page_cell(p, "%s", x->id ? x->id : "");
        twin_page_cell(p, "%.2f", x->wall_s);
        /* a run that twinrun ended: its signal or exit code is not the job's own */
        if (x->outcome == TWIN_RUN_STOPPED)
            twin_page_cell(p, "ended by twinrun");
        else if (x->signal)
            twin_page_cell(p, "signal %d", x->signal);
        else
            twin_page_cell(p, "exit code %d", x->exit_code);
    }
    twin_page_table_end(p);
    struct twin_report plain = *r;
    char *text = NULL;
    plain.color = false;
    plain.width = 100;
    if (twin_report_text(&plain, &text, NULL) == 0)
        twin_page_code(p, text);
    else
        p->body.failed = TWIN_ENOMEM;
    tw_free(text);
    twin_page_unfold(p);
}

/* From a comparison to the page of each run, and back. */
static void page_links(struct twin_page *p, const struct twin_report *r)
{
    const struct twin_page_link back = {TW_RUNS_PAGE, r->verb && strcmp(r->verb, "isolate") == 0
                                                          ? "the search"
                                                          : "all runs compared"};
    uint32_t *number = r->has_run_pages ? tw_calloc(r->run_count + 1, sizeof *number) : NULL;
    if (r->page_of)
        twin_page_links(p, "Back to", &back, 1);
    for (size_t i = 0; number && i < r->run_count; i++)
        number[i] = (uint32_t)(i + 1);
    if (number) {
        twin_page_link_runs(p, number, r->run_count);
        tw_page_run_links(p);
    } else if (r->has_run_pages) {
        p->body.failed = TWIN_ENOMEM;
    }
    tw_free(number);
}

/* The order of the sections is that of a reader's questions. Failures are found by
 * twin_page_finish. */
struct twin_page *twin_report_page(const struct twin_report *r,
                                   const struct twin_report_pictures *pictures)
{
    const struct twin_verdict *v = r->verdict;
    struct twin_page *p = twin_page_open(twin_verdict_name(v->outcome));
    if (!p)
        return NULL;
    page_head(p, r);
    page_links(p, r);
    if (v->first) {
        page_first(p, v);
        page_excerpt(p, r);
    } else {
        page_reach(p, v);
    }
    page_searches(p, r->searches);
    if (v->against)
        page_against(p, v->against);
    if (v->pinned)
        page_pinned(p, v);
    page_next(p, r);
    for (size_t i = 0; i < r->hint_count; i++)
        tw_page_hint(p, &r->hint[i], "no result of this comparison");
    if (v->transplant)
        page_origins(p, v->transplant);
    twin_report_draw(p, r, pictures);
    page_worlds(p, r);
    page_findings(p, "What differs and does not matter",
                  "Time stamps, file bytes around equal tensors and the like.", v->benign,
                  v->benign_count);
    if (v->note_count) {
        twin_page_heading(p, "Notes");
        twin_page_list(p, (const char *const *)v->notes, v->note_count);
    }
    runs(p, r);
    return p;
}
