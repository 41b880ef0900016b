/* SPDX-License-Identifier: Apache-2.0 */
/* What a search claims, with its evidence (docs/format/verdict.md, "Of a search"): written down
 * here, worked out anew by python/twinrun/_causes.py. */
#include "isolate_result.h"

#include "base.h"
#include "json_text.h"

#include "src/report/report.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The runs that claims name, numbered from 1 in the order in which they are first named. */
struct claims {
    struct tw_isolate *c;
    const struct twin_search_report *r;
    uint64_t *handle;
    size_t runs;
    json_t *pairs; /* claims that two runs agree, or differ */
    bool lost;     /* a run is gone, or there was no memory */
};

/* The number of a run. */
static json_int_t run_number(struct claims *k, uint64_t handle)
{
    for (size_t i = 0; i < k->runs; i++)
        if (k->handle[i] == handle)
            return (json_int_t)i + 1;
    uint64_t *grown = tw_reallocarray(k->handle, k->runs + 1, sizeof *grown);
    if (!grown || !tw_isolate_find(k->c, handle))
        k->lost = true;
    if (!grown)
        return 0;
    k->handle = grown;
    k->handle[k->runs] = handle;
    return (json_int_t)++k->runs;
}

/* Is there a claim on these two runs already? */
static bool has_pair(const struct claims *k, json_int_t a, json_int_t b)
{
    size_t i;
    const json_t *pair;
    json_array_foreach (k->pairs, i, pair) {
        const json_t *runs = json_object_get(pair, "runs");
        bool same = json_integer_value(json_array_get(runs, 0)) == a &&
                    json_integer_value(json_array_get(runs, 1)) == b;
        if (same)
            return true;
    }
    return false;
}

/* How two runs compare: a verdict of its own, with its own claims. */
static void add_pair(struct claims *k, uint64_t first, uint64_t second)
{
    json_int_t a = run_number(k, first), b = run_number(k, second);
    const struct twin_run *pair[2] = {tw_isolate_find(k->c, first), tw_isolate_find(k->c, second)};
    struct twin_verdict *v = NULL;
    char *text = NULL;
    if (!pair[0] || !pair[1] || has_pair(k, a, b))
        return;
    bool done = tw_isolate_compare_pair(k->c, pair[0], pair[1], &v, NULL) == 0;
    struct twin_report report = {.verdict = v, .runs = pair, .run_count = 2, .verb = "check"};
    json_t *verdict = done && twin_report_json(&report, &text, NULL) == 0
                          ? json_loads(text, 0, NULL)
                          : NULL;
    /* --text */
    bool diverged = done && tw_isolate_parted(k->c, v);
    bool words = diverged && v->outcome != TWIN_DIFFER;
    k->lost |= verdict == NULL;
    if (verdict)
        json_array_append_new(k->pairs, json_pack("{s:s, s:[I, I], s:b, s:b, s:o}", "claim", "pair",
                                                  "runs", a, b, "diverged", (int)diverged, "words",
                                                  (int)words, "verdict", verdict));
    tw_free(text);
    twin_verdict_free(v);
}

/* The names of the factors in a set. */
static json_t *factor_ids(const struct tw_isolate *c, const struct twin_search_set *set)
{
    json_t *list = json_array();
    for (size_t i = 0; i < c->count; i++)
        if (twin_search_has(set, i))
            json_array_append_new(list, tw_json_text(c->factor[i]->id));
    return list;
}

/* Of two arms, the differences that are as in A. */
static struct twin_search_set pins_of(const struct twin_search_evidence *e, uint32_t kind)
{
    assert(e->members <= TWIN_SEARCH_FACTORS && kind <= e->members);
    struct twin_search_set set = {{0}};
    for (uint32_t m = 1; m <= e->members; m++)
        if (m != kind)
            set.word[e->member[m] / 64] |= UINT64_C(1) << e->member[m] % 64;
    return set;
}

/* The place of a run in the confirmation; NULL: it has none. */
static const struct twin_search_trial *trial_of(const struct twin_search_evidence *e,
                                                uint32_t number)
{
    for (size_t i = 0; i < e->trial_count; i++)
        if (e->trial[i].number == number)
            return &e->trial[i];
    return NULL;
}

/* Is it a natural run with exactly these pins? */
static bool of_this_world(const struct tw_isolate *c, const struct twin_search_entry *e,
                          const struct twin_search_set *pins)
{
    const struct tw_isolate_made *m = tw_isolate_made(c, e->number);
    bool natural_world = e->purpose == TWIN_FOR_BASELINE || e->purpose == TWIN_FOR_FREE ||
                         e->purpose == TWIN_FOR_CONFIRM;
    return m && natural_world && memcmp(&m->pinned, pins, sizeof *pins) == 0;
}

/* One run of a world: compared with the world's reference; `agrees`: the earlier run of this world
 * that it agrees with. */
static json_t *run_json(struct claims *k, const struct twin_search_entry *e, uint64_t reference)
{
    const struct twin_search_result *s = &e->result;
    const struct twin_search_trial *t = trial_of(&k->r->evidence, e->number);
    json_int_t number = run_number(k, s->handle);
    json_t *block = json_null(), *agrees = json_null();
    add_pair(k, reference, s->handle);
    if (s->parted && s->agrees && s->agrees != reference) {
        add_pair(k, s->agrees, s->handle);
        agrees = json_integer(run_number(k, s->agrees));
    }
    if (t)
        block = t->block == TWIN_TRIAL_AFTER ? json_string("after") : json_integer(t->block);
    return json_pack("{s:I, s:i, s:b, s:b, s:o, s:o}", "run", number, "number", (int)e->number,
                     "diverged", (int)s->parted, "ended_well", (int)(s->status == TWIN_ENDED_WELL),
                     "agrees", agrees, "block", block);
}

/* All runs of one world, in their order: those of the confirmation and those before it, which say
 * what runs of this world usually do. */
static json_t *world_json(struct claims *k, int kind, const struct twin_search_set *pins,
                          uint64_t reference)
{
    json_t *runs = json_array();
    bool begun = k->c->arms != NULL;
    for (size_t i = 0; i < k->c->log.count; i++) {
        const struct twin_search_entry *entry = &k->c->log.entry[i];
        bool is_reference = entry->result.handle == reference;
        if (!is_reference && begun && of_this_world(k->c, entry, pins))
            json_array_append_new(runs, run_json(k, entry, reference));
        begun |= is_reference;
    }
    return json_pack("{s:i, s:o, s:I, s:o}", "kind", kind, "pinned", factor_ids(k->c, pins),
                     "reference", run_number(k, reference), "runs", runs);
}

/* A world of the confirmation: 0 has the pins of all members, another number those of all but
 * that one. */
static json_t *world_of_kind(struct claims *k, uint32_t kind)
{
    const struct twin_search_evidence *e = &k->r->evidence;
    struct twin_search_set pins = pins_of(e, kind);
    return world_json(k, (int)kind, &pins, e->reference[kind]);
}

/* The world without any pin, where it is none of those of the confirmation. */
static json_t *natural_json(struct claims *k)
{
    const struct twin_search_set none = {{0}};
    uint64_t reference = k->c->arms ? k->r->evidence.reference[0] : 0;
    if (k->r->evidence.members == 1)
        return json_null();
    for (size_t i = 0; i < k->c->log.count && !reference; i++) {
        const struct twin_search_entry *e = &k->c->log.entry[i];
        if (e->purpose == TWIN_FOR_BASELINE && e->result.status == TWIN_ENDED_WELL)
            reference = e->result.handle;
    }
    return world_json(k, -1, &none, reference);
}

/* What was drawn beforehand, and the worlds that it was drawn for. */
static json_t *confirmation_json(struct claims *k)
{
    const struct twin_search_evidence *e = &k->r->evidence;
    json_t *members = json_array(), *worlds = json_array(), *blocks = json_array();
    for (uint32_t m = 1; m <= e->members; m++)
        json_array_append_new(members, tw_json_text(k->c->factor[e->member[m]]->id));
    for (uint32_t kind = 0; kind <= e->members; kind++)
        json_array_append_new(worlds, world_of_kind(k, kind));
    for (size_t i = 0; i < e->trial_count; i++) {
        const struct twin_search_trial *t = &e->trial[i];
        if (t->block == TWIN_TRIAL_AFTER)
            continue;
        while (json_array_size(blocks) <= t->block)
            json_array_append_new(blocks, json_array());
        json_array_append_new(json_array_get(blocks, t->block), json_integer(t->kind));
    }
    return json_pack("{s:s, s:i, s:o, s:f, s:f, s:b, s:b, s:o, s:o, s:o, s:o}", "claim",
                     "confirmation", "confirmation", (int)e->confirmation, "seed",
                     json_sprintf("%llu", (unsigned long long)k->r->seed), "alpha",
                     k->c->plan.alpha, "level", e->level, "arms", (int)(k->c->arms != NULL),
                     "through", (int)k->c->args.through, "members", members, "blocks", blocks,
                     "worlds", worlds, "natural", natural_json(k));
}

/* A claim for each cause, with its counts. */
static void add_causes(json_t *list, const struct claims *k)
{
    const struct twin_search_evidence *e = &k->r->evidence;
    for (size_t i = 0; i < k->r->cause_count; i++) {
        const struct twin_search_cause *x = &k->r->cause[i];
        uint32_t kind = 0;
        for (uint32_t m = 1; m <= e->members; m++)
            if (e->member[m] == x->candidate)
                kind = m;
        json_array_append_new(list, json_pack("{s:s, s:o, s:i, s:f}", "claim", "cause", "factor",
                                              tw_json_text(k->c->factor[x->candidate]->id), "kind",
                                              (int)kind, "p", x->p));
    }
}

/* The counts and the two numbers of a cause's headline: p, and what remains. */
static void add_rates(json_t *list, const struct claims *k)
{
    for (size_t i = 0; i < k->r->cause_count; i++) {
        const struct twin_search_cause *x = &k->r->cause[i];
        json_array_append_new(
            list,
            json_pack("{s:s, s:o, s:s, s:f, s:f, s:[I, I], s:[I, I], s:o}", "claim", "rate",
                      "factor", tw_json_text(k->c->factor[x->candidate]->id), "unit",
                      k->r->unit == TWIN_UNIT_RUN ? "comparisons" : "steps", "p", x->p, "p_all",
                      x->p_adjusted, "free", (json_int_t)x->necessary.parted,
                      (json_int_t)x->necessary.trials, "pinned", (json_int_t)x->sufficient.parted,
                      (json_int_t)x->sufficient.trials, "bound", tw_json_number(k->r->bound)));
    }
}

/* The natural run that came last. */
static json_t *last_json(struct claims *k)
{
    for (size_t i = 0; i < k->c->log.count; i++) {
        const struct twin_search_entry *e = &k->c->log.entry[i];
        if (e->number == k->r->last_parted)
            return json_pack("{s:s, s:I, s:i}", "claim", "last", "run",
                             run_number(k, e->result.handle), "number", (int)e->number);
    }
    return NULL;
}

/* Where each run that is named lies, in the order of their numbers. */
static json_t *folders_json(const struct claims *k)
{
    json_t *list = json_array();
    for (size_t i = 0; i < k->runs; i++) {
        const struct twin_run *run = tw_isolate_find(k->c, k->handle[i]);
        json_array_append_new(list, tw_json_text(run ? run->dir : ""));
    }
    return list;
}

/* --through: natural runs of A against its first one. */
static void add_repeats(json_t *list, struct claims *k)
{
    const struct tw_isolate_again *x = &k->c->a_again;
    json_t *runs = json_array();
    uint64_t reference = x->trials ? tw_isolate_handle(x->reference) : 0;
    for (size_t i = 0; i < x->trials; i++) {
        uint64_t run = tw_isolate_handle(x->run[i]);
        add_pair(k, reference, run);
        json_array_append_new(runs, json_integer(run_number(k, run)));
    }
    if (x->trials)
        json_array_append_new(list, json_pack("{s:s, s:I, s:O, s:b}", "claim", "repeats",
                                              "reference", run_number(k, reference), "runs", runs,
                                              "diverged", (int)x->parted));
    json_decref(runs);
}

/* B with A's numbers of threads, against B as it is, up to the run that decided. */
static void add_threads(json_t *list, struct claims *k)
{
    const struct tw_isolate_threads *x = &k->c->threads;
    if (!x->trials || (x->end != TW_THREADS_THROUGH && x->end != TW_THREADS_NOT_ALONE))
        return; /* nothing is said of the difference */
    json_t *runs = json_array();
    const uint64_t reference = tw_isolate_handle(x->reference);
    for (size_t i = 0; i < x->trials; i++) {
        const uint64_t run = tw_isolate_handle(x->run[i]);
        add_pair(k, reference, run);
        json_array_append_new(runs, json_integer(run_number(k, run)));
    }
    json_array_append_new(
        list, json_pack("{s:s, s:I, s:o, s:s, s:b, s:f}", "claim", "threads", "reference",
                        run_number(k, reference), "runs", runs, "arrangement", x->order, "through",
                        (int)(x->end == TW_THREADS_THROUGH), "p", tw_isolate_threads_p(x)));
}

/* The whole file. Takes the list of claims. */
static json_t *verdict_json(const struct claims *k, const char *outcome, json_t *list)
{
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o}", "schema", "twinrun.isolate/1", "outcome",
                     outcome, "reason", twin_search_outcome_name(k->r->outcome), "seed",
                     json_sprintf("%llu", (unsigned long long)k->r->seed), "runs_dir",
                     folders_json(k), "claims", list);
}

/* The claims behind an isolated cause. */
static json_t *claims_json(struct claims *k)
{
    const struct twin_search_report *r = k->r;
    json_t *list = json_array(), *last;
    json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:i}", "claim", "search", "outcome",
                                          "isolated", "sufficient", (int)r->sufficient, "causes",
                                          (int)r->cause_count));
    json_array_append_new(list, confirmation_json(k));
    add_causes(list, k);
    add_rates(list, k);
    json_array_append_new(
        list,
        json_pack("{s:s, s:i, s:I, s:I, s:o, s:o, s:b}", "claim", "remaining", "kind",
                  (int)r->evidence.shown, "trials", (json_int_t)r->left, "diverged",
                  (json_int_t)r->left_parted, "bound", tw_json_number(r->bound), "weight",
                  tw_json_number(r->correlation.effective), "sufficient", (int)r->sufficient));
    add_repeats(list, k);
    add_threads(list, k);
    last = last_json(k);
    if (last)
        json_array_append_new(list, last);
    json_array_extend(list, k->pairs);
    return verdict_json(k, "isolated", list);
}

/* No divergence: each run agrees with the first, which of two arms is A's. */
static json_t *agreement_json(struct claims *k)
{
    uint64_t first = 0;
    json_t *list = json_array();
    for (size_t i = 0; i < k->c->log.count; i++) {
        const struct twin_search_entry *e = &k->c->log.entry[i];
        bool well = e->result.status == TWIN_ENDED_WELL;
        if (well && first && e->purpose == TWIN_FOR_BASELINE)
            add_pair(k, first, e->result.handle);
        first = well && !first ? e->result.handle : first;
    }
    json_array_append_new(
        list, json_pack("{s:s, s:s, s:I, s:o, s:b}", "claim", "search", "outcome", "no-divergence",
                        "comparisons", (json_int_t)k->r->baseline, "bound",
                        tw_json_number(k->r->bound), "arms", (int)(k->c->arms != NULL)));
    json_array_extend(list, k->pairs);
    return verdict_json(k, "no-divergence", list);
}

void tw_isolate_keep_claims(struct tw_isolate *c, const struct twin_search_report *r)
{
    struct claims k = {.c = c, .r = r, .pairs = json_array()};
    struct twin_error err = TWIN_ERROR_INIT;
    bool isolated = r->outcome == TWIN_SEARCH_ISOLATED && r->evidence.trial_count;
    if (isolated || (r->outcome == TWIN_SEARCH_NO_DIVERGENCE && !c->args.through)) {
        json_t *verdict = isolated ? claims_json(&k) : agreement_json(&k);
        char *text = verdict ? json_dumps(verdict, JSON_INDENT(1) | JSON_SORT_KEYS) : NULL;
        char *path = tw_path_join(c->journal.folder, "verdict.json");
        int rc = text && path && !k.lost
                     ? 0
                     : twin_error_set(&err, TWIN_ENOENT, "a run that it names is gone");
        if (rc == 0)
            rc = tw_write_file_atomic(path, text, strlen(text), &err);
        if (rc != 0)
            tw_front_say(c->front, "isolate: the claims are not kept beside the search: %s",
                         err.message);
        free(text);
        tw_free(path);
        json_decref(verdict);
    }
    json_decref(k.pairs);
    tw_free(k.handle);
}
