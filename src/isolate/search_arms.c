/* SPDX-License-Identifier: Apache-2.0 */
/*
 * isolate --a CMD --b CMD: the candidates are what differs between the two commands (arms.c). Each
 * difference becomes a factor of its own, whose "pin" is to have it as in A; a request of the
 * search becomes the command in between. The rest of this file looks at what the search itself does
 * not: whether A and B ran with the same libraries, whether B is a resumed job, and how the fix is
 * worded.
 *
 * All is kept in struct tw_isolate_arms, which the other files see through functions only.
 */
#include "search_runs.h"

#include "json_text.h"
#include "run_state.h"

#include "base.h"

#include "src/isolate/arms.h"
#include "src/trace/trace.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* The two commands of a search, and what its runs have shown of them. */
struct tw_isolate_arms {
    struct twin_arms *pair;
    struct twin_difference *difference; /* what differs; belongs to pair */
    size_t count;
    struct twin_factor *factor; /* one for each difference; its pin and fix are owned */
    struct twin_world held;     /* --pin: what every run holds still */
    /* whether `held` took effect, as the first run showed; NULL: no run yet */
    struct twin_world_effect *effect;
    char *command; /* the mixed command of the latest request; owned */
    /* a run of B did not end well */
    bool b_fails;
    char *fails; /* the first mixed command that did not end well; owned; NULL: none */
    /* sentences about libraries whose versions differ between A and B as they ran; owned */
    char **versions;
    size_t version_count;
    /* B was seen to begin where A does: a run may be ended when it has diverged */
    bool aligned;
    bool pins_resume; /* a run of B with the causes as in A is still a resumed one */
};

/* ---- the candidates */

/* A side of a difference for the person: printable, "nothing" where the command has none.
 * malloc'ed. */
static char *shown_side(const char *text)
{
    return text ? tw_printable(text, strlen(text)) : tw_strdup("nothing");
}

/* Makes the factor and the candidate of one difference. `fix` serves as its title as well. */
static int add_candidate(struct tw_isolate *c, size_t i)
{
    assert(i < c->arms->count);
    struct tw_isolate_arms *x = c->arms;
    const struct twin_difference *d = &x->difference[i];
    char *a = shown_side(d->a), *b = shown_side(d->b);
    char *pin = a ? tw_printf("%s, as in A", a) : NULL;
    char *fix = a && b ? tw_printf("A has %s, B has %s", a, b) : NULL;
    tw_free(a);
    tw_free(b);
    x->factor[i] = (struct twin_factor){.id = d->id,
                                        .layer = "environment",
                                        .title = fix,
                                        .how = "command",
                                        .pin = pin,
                                        .fix = fix};
    c->factor[i] = &x->factor[i];
    c->candidate[i] = (struct twin_candidate){
        .id = d->id, .layer = "environment", .can_pin = true, .settable = true};
    c->count = i + 1;
    return pin && fix ? 0 : TWIN_ENOMEM;
}

/* Commands that do not differ are refused: there is nothing to search among. What was made before
 * an error is freed by tw_isolate_arms_close. */
int tw_isolate_arms_open(struct tw_isolate *c, struct twin_error *err)
{
    struct tw_isolate_arms *x = c->arms = tw_calloc(1, sizeof *x);
    int rc = x ? twin_arms_compare(c->args.a, c->args.b, &x->pair, err)
               : tw_no_memory(err, "searching between two commands");
    if (rc == 0)
        rc = twin_factors_load(c->args.factor_file, &c->factors, err);
    if (rc == 0 && c->args.pin)
        rc = twin_world_parse(&c->factors, c->args.pin, &x->held, NULL, err);
    if (rc != 0)
        return rc;
    x->difference = twin_arms_differences(x->pair, &x->count);
    if (x->count == 0)
        return twin_error_set(err, TWIN_EINVAL,
                              "expected two commands, found the same one twice; write: twinrun "
                              "isolate -- sh -c '...'");
    x->factor = tw_calloc(x->count, sizeof *x->factor);
    c->factor = tw_calloc(x->count, sizeof *c->factor);
    c->candidate = tw_calloc(x->count, sizeof *c->candidate);
    c->effect = tw_calloc(x->count, sizeof *c->effect);
    rc = x->factor && c->factor && c->candidate && c->effect ? 0 : TWIN_ENOMEM;
    for (size_t i = 0; rc == 0 && i < x->count; i++)
        rc = add_candidate(c, i);
    return rc == 0 ? 0 : tw_no_memory(err, "searching between two commands");
}

void tw_isolate_arms_close(struct tw_isolate *c)
{
    struct tw_isolate_arms *x = c->arms;
    if (!x)
        return;
    for (size_t i = 0; x->factor && i < c->count; i++) {
        tw_free((char *)x->factor[i].pin);
        tw_free((char *)x->factor[i].fix);
    }
    for (size_t i = 0; i < x->version_count; i++)
        tw_free(x->versions[i]);
    if (x->effect)
        twin_world_effects_free(x->effect, x->held.count);
    twin_world_free(&x->held);
    twin_arms_free(x->pair);
    tw_free(x->versions);
    tw_free(x->factor);
    tw_free(x->command);
    tw_free(x->fails);
    tw_free(x);
}

/* ---- a run */

/* The differences that a request has as in B. */
static struct twin_search_set as_in_b(const struct tw_isolate *c,
                                      const struct twin_search_request *q)
{
    struct twin_search_set set = {{0}};
    /* free in the natural world, which is B; or set to another value than A's */
    for (size_t i = 0; i < c->count; i++)
        if (q->setting[i].mode == TWIN_FREE || q->setting[i].value)
            set.word[i / 64] |= UINT64_C(1) << i % 64;
    return set;
}

/* How many of the differences are in the set. */
static size_t size(const struct tw_isolate *c, const struct twin_search_set *set)
{
    size_t n = 0;
    for (size_t i = 0; i < c->count; i++)
        n += twin_search_has(set, i);
    return n;
}

int tw_isolate_arms_command(struct tw_isolate *c, const struct twin_search_request *q,
                            char *argv[4], struct twin_error *err)
{
    struct twin_search_set set = as_in_b(c, q);
    tw_free(c->arms->command);
    c->arms->command = twin_arms_mix(c->arms->pair, &set);
    if (!c->arms->command)
        return tw_no_memory(err, "searching between two commands");
    tw_shell_argv(c->arms->command, argv);
    return 0;
}

void tw_isolate_arms_title(const struct tw_isolate *c, const struct twin_search_request *q,
                           char title[64])
{
    struct twin_search_set set = as_in_b(c, q);
    char what[32];
    size_t n = size(c, &set);
    if (n == 0 || n == c->count)
        snprintf(what, sizeof what, "%s", n ? "b" : "a");
    else
        snprintf(what, sizeof what, "a, %zu as in b", n);
    snprintf(title, 64, "run %-3u %-9s %-14s ", q->number,
             q->purpose == TWIN_FOR_CONFIRM ? "confirm" : twin_search_purpose_name(q->purpose),
             what);
}

bool tw_isolate_arms_unmixed(const struct tw_isolate *c, const struct twin_search_request *q)
{
    struct twin_search_set set = as_in_b(c, q);
    size_t n = size(c, &set);
    return n == 0 || n == c->count;
}

const struct twin_world *tw_isolate_arms_held(const struct tw_isolate *c)
{
    return &c->arms->held;
}

bool tw_isolate_arms_may_cut(const struct tw_isolate *c)
{
    return c->arms->aligned;
}

/* ---- the worlds in which A and B ran: what no difference of the commands sets */

/* The value of a note in the run's traces; malloc'ed, NULL: no trace has it. */
static char *noted(const struct twin_run *r, const char *wanted)
{
    char *found = NULL;
    for (size_t t = 0; t < r->trace_count && !found; t++) {
        struct twin_trace *trace = NULL;
        if (twin_trace_open(r->traces[t], &trace, NULL) != 0)
            continue;
        const char *value = twin_trace_note_of(trace, wanted);
        found = value ? tw_printable(value, strlen(value)) : NULL;
        twin_trace_close(trace);
    }
    return found;
}

/* Notes each library whose version differs between a run of A and one of B: a difference that the
 * commands bring along and that cannot be set by itself. */
static void compare_versions(struct tw_isolate_arms *x, const struct twin_run *a,
                             const struct twin_run *b)
{
    static const char *const names[] = {"python", "numpy", "torch"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *key = tw_printf("%s.version", names[i]);
        char *of_a = key ? noted(a, key) : NULL;
        char *of_b = key ? noted(b, key) : NULL;
        bool differ = of_a && of_b && strcmp(of_a, of_b) != 0;
        char *text = differ ? tw_printf("%s %s in A, %s in B", names[i], of_a, of_b) : NULL;
        char **grown = text ? tw_reallocarray(x->versions, x->version_count + 1, sizeof *grown)
                            : NULL;
        if (grown) {
            x->versions = grown;
            x->versions[x->version_count++] = text;
        } else {
            tw_free(text);
        }
        tw_free(key);
        tw_free(of_a);
        tw_free(of_b);
    }
}

void tw_isolate_arms_learn(struct tw_isolate *c, const struct twin_search_request *q,
                           const struct twin_run *r, const struct twin_verdict *v)
{
    struct tw_isolate_arms *x = c->arms;
    if (!x->effect && x->held.count && twin_world_effects(&x->held, r, &x->effect, NULL) != 0)
        x->effect = NULL;
    /* Only a run of B itself tells whether B's steps are A's: then they are aligned without a
     * shift. */
    if (v) {
        struct twin_search_set set = as_in_b(c, q);
        x->aligned = size(c, &set) == c->count ? v->shift == 0 : x->aligned;
    }
}

/* Is B with the causes as in A still a resumed job? Looks at the first run of the log in which
 * exactly the causes were as in A. False when there is none. */
static bool still_resumes(struct tw_isolate *c, const struct twin_search_report *r,
                          const struct twin_run *of_a)
{
    bool resumes = false;
    for (size_t i = 0; i < c->log.count && r->cause_count && of_a; i++) {
        const struct twin_search_entry *e = &c->log.entry[i];
        const struct tw_isolate_made *m = tw_isolate_made(c, e->number);
        bool exact = m && e->purpose == TWIN_FOR_CONFIRM && e->result.status == TWIN_ENDED_WELL;
        for (size_t k = 0; exact && k < c->count; k++) {
            bool cause = false;
            for (size_t n = 0; n < r->cause_count; n++)
                cause |= r->cause[n].candidate == k;
            exact = twin_search_has(&m->pinned, k) == cause;
        }
        const struct twin_run *pair[2] = {of_a,
                                          exact ? tw_isolate_find(c, e->result.handle) : NULL};
        struct twin_compare_options how = tw_isolate_compare_options(c);
        struct twin_verdict *v = NULL;
        if (!pair[1])
            continue;
        if (twin_compare(pair, 2, &how, &v, NULL) == 0)
            resumes = v->shift != 0;
        twin_verdict_free(v);
        return resumes;
    }
    return resumes;
}

/* Everything is taken from the log, so that a resumed search says the same. */
void tw_isolate_arms_look_back(struct tw_isolate *c, const struct twin_search_report *r)
{
    struct tw_isolate_arms *x = c->arms;
    uint64_t a = 0, b = 0;
    for (size_t i = 0; i < c->log.count; i++) {
        const struct twin_search_entry *e = &c->log.entry[i];
        const struct tw_isolate_made *m = tw_isolate_made(c, e->number);
        struct twin_search_set as_b = {{0}};
        for (size_t k = 0; m && k < c->count; k++)
            as_b.word[k / 64] |= (uint64_t)!twin_search_has(&m->pinned, k) << k % 64;
        size_t n = size(c, &as_b);
        bool well = e->result.status == TWIN_ENDED_WELL;
        a = !a && e->purpose == TWIN_FOR_REFERENCE && well ? e->result.handle : a;
        b = !b && e->purpose == TWIN_FOR_BASELINE && well ? e->result.handle : b;
        x->b_fails |= e->purpose == TWIN_FOR_BASELINE && !well;
        if (n > 0 && n < c->count && !well && !x->fails)
            x->fails = twin_arms_mix(x->pair, &as_b);
    }
    const struct twin_run *of_a = a ? tw_isolate_find(c, a) : NULL;
    const struct twin_run *of_b = b ? tw_isolate_find(c, b) : NULL;
    if (of_a && of_b)
        compare_versions(x, of_a, of_b);
    x->pins_resume = still_resumes(c, r, of_a);
}

/* ---- the report */

/* Which differences are as in B: in "applied" the causes and their alternatives, else all but the
 * causes. */
static struct twin_search_set causes(const struct tw_isolate *c, const struct twin_search_report *r,
                                     bool applied)
{
    assert(c->arms);
    struct twin_search_set set = {{0}};
    for (size_t i = 0; i < r->cause_count; i++)
        set.word[r->cause[i].candidate / 64] |= UINT64_C(1) << r->cause[i].candidate % 64;
    for (size_t i = 0; applied && i < r->cause_count; i++)
        for (size_t w = 0; w < TWIN_SEARCH_FACTORS / 64; w++)
            set.word[w] |= r->cause[i].alternatives.word[w];
    for (size_t i = 0; !applied && i < c->count; i++)
        set.word[i / 64] ^= UINT64_C(1) << i % 64;
    return set;
}

/* B with the causes as in A; or A with them, and what they need, as in B. malloc'ed. */
char *tw_isolate_arms_mixed(const struct tw_isolate *c, const struct twin_search_report *r,
                            bool applied)
{
    struct twin_search_set set = causes(c, r, applied);
    return twin_arms_mix(c->arms->pair, &set);
}

char *tw_isolate_arms_words(const char *first, const char *second)
{
    char *words[] = {(char *)first, (char *)second, NULL};
    char *a = tw_shell_quote(words, 1), *b = tw_shell_quote(words + 1, 1);
    char *text = a && b ? tw_printf("--a %s --b %s", a, b) : NULL;
    tw_free(a);
    tw_free(b);
    return text;
}

char *tw_isolate_arms_job(const struct tw_isolate *c)
{
    return tw_isolate_arms_words(c->args.a, c->args.b);
}

/* The notes in order: versions, then a failing B or mixed command, then pins without effect. */
char *tw_isolate_arms_note(const struct tw_isolate *c, size_t i)
{
    const struct tw_isolate_arms *x = c->arms;
    if (i < x->version_count)
        return tw_printf("%s; it comes with the commands and was not set by itself",
                         x->versions[i]);
    i -= x->version_count;
    if (i == 0 && x->b_fails)
        return tw_strdup("B fails; that is how it diverges from A");
    if (i == 0 && x->fails) {
        char *safe = tw_printable(x->fails, strlen(x->fails));
        char *text = safe ? tw_printf("a mixed command fails, which counts as diverging: %s", safe)
                          : NULL;
        tw_free(safe);
        return text;
    }
    for (size_t k = 0, n = 1; x->effect && k < x->held.count; k++)
        if (x->effect[k].effect == TWIN_EFFECT_FAILED && n++ == i)
            return tw_printf("the pin of %s did not take effect: %s", x->held.setting[k].factor->id,
                             x->effect[k].text ? x->effect[k].text : "");
    return NULL;
}

/* The part of a checkpoint that a difference belongs to, by the factor that restores it; NULL: it
 * follows from a state that was not recorded. */
static const char *restored_by(const struct twin_finding *f)
{
    if (twin_finding_is_given_back(f))
        return NULL;
    switch (f->kind) {
    case TWIN_KIND_STATE: return "restore.rng";
    case TWIN_KIND_BATCH:
    case TWIN_KIND_INDICES: return "restore.sampler";
    case TWIN_KIND_MOMENT: return "restore.optimizer";
    case TWIN_KIND_HYPER: return strstr(f->name, "scale") ? "restore.scaler" : "restore.scheduler";
    default: return NULL;
    }
}

/* The fix for a resumed B. "Do not resume" would be no fix; what the job did not get back is. */
static void put_lost(struct tw_buf *b, const struct tw_isolate *c, const struct twin_finding *f)
{
    const char *id = f ? restored_by(f) : NULL;
    const struct twin_factor *part = id ? twin_factor_find(&c->factors, id) : NULL;
    char *name = f ? tw_printable(f->name, strlen(f->name)) : NULL;
    bool named = name && *name;
    if (part)
        tw_buf_print_safe(b, "lost      %s, first %s: %s\n", part->title, named ? name : "unnamed",
                          part->fix);
    else if (f)
        tw_buf_print_safe(b,
                          "lost      the resumed run differs first in %s%s%s: save and restore "
                          "what that is made from\n",
                          f->layer, named ? ": " : "", named ? name : "");
    tw_free(name);
}

/* Lines: what each cause is in A and in B, then the fix, or what a resumed B has lost. */
char *tw_isolate_arms_text(const struct tw_isolate *c, const struct twin_search_report *r)
{
    struct tw_buf b = {0};
    struct twin_search_set named = causes(c, r, true);
    tw_buf_puts(&b, "");
    for (size_t i = 0; i < c->count; i++)
        if (twin_search_has(&named, i))
            tw_buf_print_safe(&b, "differs   %s: %s\n", c->factor[i]->id, c->factor[i]->fix);
    char *agrees = r->outcome == TWIN_SEARCH_ISOLATED ? tw_isolate_arms_mixed(c, r, false) : NULL;
    char *text = agrees ? tw_printable(agrees, strlen(agrees)) : NULL;
    /* B is a resumed job, and with the causes as in A it is none. */
    bool resumed = c->first && c->first->shift != 0 && !c->arms->pins_resume;
    if (text && resumed)
        put_lost(&b, c, c->first->first);
    else if (text)
        tw_buf_print_safe(&b, "fix       B with this as in A: %s\n", text);
    if (text && !resumed)
        tw_buf_print_safe(&b, "through   you have set that; what it acts through is found by: "
                              "twinrun isolate --through with the same --a and --b\n");
    tw_free(text);
    tw_free(agrees);
    return tw_buf_steal(&b);
}

/* The names of the fields are those of the report's JSON, some with the older word "parts". */
json_t *tw_isolate_arms_json(const struct tw_isolate *c, const struct twin_search_report *r)
{
    const struct tw_isolate_arms *x = c->arms;
    if (!x)
        return json_null();
    bool isolated = r->outcome == TWIN_SEARCH_ISOLATED;
    char *agrees = isolated ? tw_isolate_arms_mixed(c, r, false) : NULL;
    char *parts = isolated ? tw_isolate_arms_mixed(c, r, true) : NULL;
    json_t *differences = json_array();
    for (size_t i = 0; i < x->count; i++)
        json_array_append_new(differences, json_pack("{s:o, s:o, s:o}", "factor",
                                                     tw_json_text(x->difference[i].id), "a",
                                                     tw_json_text(x->difference[i].a), "b",
                                                     tw_json_text(x->difference[i].b)));
    json_t *j = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:{s:I, s:I}, s:{s:I, s:I}, s:o, s:o, s:o}", "a",
        tw_json_text(c->args.a), "b", tw_json_text(c->args.b), "differences", differences, "agrees",
        tw_json_text(agrees), "parts", tw_json_text(parts), "applied", "trials",
        (json_int_t)r->applied.trials, "diverged", (json_int_t)r->applied.parted, "a_again",
        "trials", (json_int_t)(isolated ? r->repeats : r->pinned), "diverged",
        (json_int_t)(isolated ? 0 : r->pinned_parted), "p_applied", tw_json_number(r->p_applied),
        "worlds", tw_json_texts(x->versions, x->version_count), "fails", tw_json_text(x->fails));
    tw_free(agrees);
    tw_free(parts);
    return j;
}
