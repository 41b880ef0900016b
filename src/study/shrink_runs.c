/* SPDX-License-Identifier: Apache-2.0 */
/* Does the divergence stay in a setting (fewer steps, smaller batches)? Runs of it are made, each
 * compared with the first, until the rule gives an answer: so many of so many diverged as the whole
 * job did. A divergence of another kind does not count, or shrink would end with a small job that
 * shows another fault. */
#include "shrink_runs.h"

#include "run_state.h"
#include "trial.h"
#include "zoom_runs.h"

#include "base.h"

#include <stdio.h>
#include <string.h>

void tw_shrink_evidence_free(struct tw_shrink_evidence *e)
{
    for (size_t i = 0; i < TW_WAYS_MAX; i++)
        twin_verdict_free(e->verdict[i]);
    tw_free(e->other);
    tw_free(e->unseen);
    *e = (struct tw_shrink_evidence){0};
}

char *tw_shrink_finding(const struct twin_finding *f, bool with_step)
{
    char *name = tw_printable(f->name, strlen(f->name));
    char *text = tw_printable(f->text, strlen(f->text));
    char *op = tw_printable(f->op, strlen(f->op));
    char *out = NULL;
    if (name && text && op) {
        char step[32] = "";
        if (with_step && f->type <= TWIN_FINDING_ORDER)
            snprintf(step, sizeof step, "step %u, rank %d, ", f->step_a, f->rank);
        const char *kind = twin_kind_name(f->kind);
        if (*name)
            out = tw_printf("%s%s: %s of %s%s%s", step, f->layer, kind, name, *op ? ", op " : "",
                            op);
        else
            out = tw_printf("%s%s: %s", step, f->layer, *text ? text : kind);
    }
    tw_free(name);
    tw_free(text);
    tw_free(op);
    return out;
}

/* Are two first divergences the same one? Steps and values do not count. */
static bool same_divergence(const struct twin_finding *a, const struct twin_finding *b)
{
    if (strcmp(a->layer, b->layer) != 0)
        return false;
    if (*a->op && *b->op)
        return strcmp(a->op, b->op) == 0;
    return a->phase == b->phase && a->kind == b->kind;
}

bool tw_shrink_known(const struct tw_shrink *c, const struct twin_finding *f)
{
    bool known = false;
    for (size_t i = 0; i < TW_WAYS_MAX && c->baseline.verdict[i]; i++)
        known |= same_divergence(c->baseline.verdict[i]->first, f);
    return known;
}

/* ---- one run */

/* The options of every run of a setting. */
static struct twin_launch_options launch_options(const struct tw_shrink *c,
                                                 const struct tw_shrink_setting *s,
                                                 const struct tw_shrink_command *m,
                                                 const char *label)
{
    return (struct twin_launch_options){
        .argv = m->argv,
        .env = m->env,
        .home = c->home,
        .label = label,
        .level = c->args.level,
        .agents = true,
        .max_steps = (uint32_t)s->steps,
        .window_last = UINT32_MAX,
        .fresh_dir = c->args.fresh_dir,
        .stdin_spool = c->spool,
        .on = c->on,
    };
}

/* The earlier of two deadlines, of which 0 is none. */
static uint64_t sooner(uint64_t a, uint64_t b)
{
    if (!a)
        return b;
    return !b || a < b ? a : b;
}

/* So many comparisons at least are made before the rule can answer, whatever they show. */
static uint64_t sure_runs(const struct tw_shrink_rule *rule, const struct tw_shrink_evidence *e,
                          bool whole)
{
    const uint64_t left = rule->trials - e->trials, stay = rule->need - e->parted;
    const uint64_t gone = whole ? left : left - stay + 1;
    return stay < gone ? stay : gone;
}

/* sure: so many more runs like this one will be wanted, this one included; an engine makes them
 * side by side. NULL after an error. *stuck: it was ended because it stood still. */
static struct twin_run *launch_run(struct tw_shrink *c, const struct tw_shrink_setting *s,
                                   const struct tw_shrink_command *m,
                                   const struct twin_run *reference, uint64_t sure,
                                   struct tw_given *given, bool *stuck, struct twin_error *err)
{
    char title[32];
    uint64_t halt = c->natural_s > 0 ? tw_patience_ends_ns(&tw_patience_of_less_work, c->natural_s)
                                     : 0;
    snprintf(title, sizeof title, "run %llu", (unsigned long long)c->runs_used + 1);
    struct tw_trial t = {.front = c->front,
                         .title = title,
                         .reference = reference,
                         .deadline_ns = sooner(c->deadline_ns, halt)};
    t.how.ignore = c->args.ignore.items;
    t.how.ignore_count = c->args.ignore.count;
    if (reference)
        t.expected_s = reference->wall_s;
    struct twin_launch_options o = launch_options(c, s, m, "shrink");
    if (sure > c->args.max_runs - c->runs_used)
        sure = c->args.max_runs - c->runs_used;
    int rc = given->taken == given->count ? tw_given_add(given, &o, &t, (size_t)sure, err) : 0;
    if (rc == 0)
        rc = tw_given_make(given, &o, &t, err);
    c->interrupted |= rc == TWIN_EINTR || t.end == TW_TRIAL_INTERRUPTED;
    if (rc != 0)
        return NULL;
    c->runs_used++;
    *stuck = t.end == TW_TRIAL_OUT_OF_TIME;
    if (*stuck && c->deadline_ns && tw_monotonic_ns() >= c->deadline_ns)
        c->out_of_budget = true;
    return t.run;
}

/* ---- one comparison */

/* The first divergence that is none of the whole job's. */
static void note_other(struct tw_shrink_evidence *e, const struct twin_finding *f)
{
    char *what = e->other ? NULL : tw_shrink_finding(f, false);
    if (what)
        e->other = tw_printf("diverges elsewhere: %s", what);
    tw_free(what);
}

/* Runs that agree. The largest class is the usual one: when the first run is the odd one out,
 * everything parts from it. */
struct class
{
    struct twin_run *first;
    uint64_t members;
};
/* The classes of a setting's runs. */
struct classes {
    struct class at[TW_RUNS_MAX];
    size_t count;
};

/* Keeps the verdict when it is among the first. */
static void count_parted(struct tw_shrink *c, struct tw_shrink_evidence *e,
                         const struct twin_run *reference, struct twin_verdict **v)
{
    const char *why;
    uint32_t step = (*v)->first->step_a;
    size_t i = 0;
    while (i < TW_WAYS_MAX && e->verdict[i])
        i++;
    e->first_step = i && e->first_step < step ? e->first_step : step;
    e->last_step = i && e->last_step > step ? e->last_step : step;
    c->earliest_step = (e == &c->baseline && !i) || e->first_step < c->earliest_step
                           ? e->first_step
                           : c->earliest_step;
    if (!i)
        e->can_zoom = tw_zoom_is_useful(*v, reference, &why);
    if (i < TW_WAYS_MAX) {
        e->verdict[i] = *v;
        *v = NULL;
    }
}

/* Of two runs: they agree; they diverge as the whole job does, or in another way. */
enum pair { AGREE, PARTED, ELSEWHERE };

/* Compares a run with the first of a class. *pair: what is to be counted. */
static int compare_run(struct tw_shrink *c, const struct tw_shrink_setting *s,
                       const struct twin_run *a, const struct twin_run *b,
                       struct tw_shrink_evidence *e, enum pair *pair, struct twin_error *err)
{
    const struct twin_run *two[2] = {a, b};
    struct twin_compare_options o = {
        .steps_given = s->steps > 0,
        .steps = (uint32_t)s->steps,
        .ignore = c->args.ignore.items,
        .ignore_count = c->args.ignore.count,
    };
    struct twin_verdict *v = NULL;
    int rc = twin_compare(two, 2, &o, &v, err);
    if (rc != 0)
        return rc;
    const struct twin_finding *f = v->outcome == TWIN_DIFFER ? v->first : NULL;
    if (!f)
        *pair = AGREE;
    else
        *pair = e == &c->baseline || tw_shrink_known(c, f) ? PARTED : ELSEWHERE;
    if (v->outcome == TWIN_INCONCLUSIVE && v->unseen_count && !e->unseen)
        e->unseen = tw_strdup(v->unseen[0]);
    if (*pair == ELSEWHERE)
        note_other(e, f);
    else if (*pair == PARTED)
        count_parted(c, e, a, &v);
    twin_verdict_free(v);
    return 0;
}

/* Puts a run into the class of the first run that it agrees with. Takes r. */
static int sort_in(struct tw_shrink *c, const struct tw_shrink_setting *s, struct classes *k,
                   struct twin_run *r, struct tw_shrink_evidence *e, struct twin_error *err)
{
    enum pair pair = PARTED;
    uint64_t all = 0, largest = 0;
    size_t i = 0;
    int rc = 0;
    for (; rc == 0 && i < k->count; i++) {
        rc = compare_run(c, s, k->at[i].first, r, e, &pair, err);
        if (rc != 0 || pair != PARTED)
            break;
    }
    if (rc == 0 && pair == AGREE)
        k->at[i].members++;
    if (rc == 0 && pair == PARTED && k->count < TW_RUNS_MAX)
        k->at[k->count++] = (struct class){r, 1};
    else
        twin_run_free(r);
    for (i = 0; i < k->count; i++) {
        all += k->at[i].members;
        largest = k->at[i].members > largest ? k->at[i].members : largest;
    }
    e->trials++;
    e->parted = all - largest;
    return rc;
}

/* ---- the trial */

/* Is there time, and a run left? Sets why not. */
static bool may_go_on(struct tw_shrink *c)
{
    c->interrupted |= tw_front_stops(c->front);
    c->out_of_budget |= c->runs_used >= c->args.max_runs ||
                        (c->deadline_ns && tw_monotonic_ns() >= c->deadline_ns);
    return !c->interrupted && !c->out_of_budget;
}

bool tw_shrink_decided(const struct tw_shrink_rule *rule, const struct tw_shrink_evidence *e,
                       bool whole)
{
    uint64_t left = rule->trials - e->trials;
    return e->parted >= rule->need || (whole ? left == 0 : e->parted + left < rule->need);
}

/* The first run of a setting: does the job work there at all? */
static bool job_works(struct tw_shrink_evidence *e, const struct twin_run *r, bool stuck)
{
    char text[32];
    struct tw_run_totals t;
    if (!stuck && !tw_run_failed(r)) {
        tw_run_totals(r, &t);
        e->steps = t.steps;
        e->seconds = r->wall_s;
        return true;
    }
    e->other = stuck ? tw_strdup("the job stands still")
                     : tw_printf("the job fails (%s)", tw_run_state(r, text));
    return false;
}

int tw_shrink_trial(struct tw_shrink *c, const struct tw_shrink_setting *s,
                    struct tw_shrink_rule rule, struct tw_shrink_evidence *e,
                    enum tw_shrink_answer *answer)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_shrink_command m;
    struct classes *k = tw_calloc(1, sizeof *k);
    struct tw_given given = {.run = NULL};
    bool broken = false, whole = e == &c->baseline;
    int rc = k ? tw_shrink_command(c, s, &m) : TWIN_ENOMEM;
    if (rc != 0) {
        tw_free(k);
        return tw_front_trouble(c->front, &(struct twin_error){.code = rc}, "shrink");
    }
    *e = (struct tw_shrink_evidence){0};
    /* The runs: the first shows whether the job works, each later one is put into a class. */
    while (rc == 0 && !broken && (!k->count || !tw_shrink_decided(&rule, e, whole)) &&
           may_go_on(c)) {
        bool stuck;
        struct twin_run *r = launch_run(c, s, &m, k->count ? k->at[0].first : NULL,
                                        k->count ? sure_runs(&rule, e, whole) : 1, &given, &stuck,
                                        &err);
        if (!r) {
            rc = err.code == TWIN_EINTR ? 0 : err.code; /* may_go_on ends it */
        } else if (c->interrupted || c->out_of_budget) {
            twin_run_free(r);
        } else if (k->count) {
            rc = sort_in(c, s, k, r, e, &err);
        } else {
            k->at[k->count++] = (struct class){r, 1};
            broken = !job_works(e, r, stuck);
            if (whole)
                c->natural_s = r->wall_s;
            if (broken && whole)
                tw_front_say(c->front, "shrink: the job does not work as it is: %s%s%s",
                             e->other ? e->other : "", *r->message ? ": " : "", r->message);
        }
    }
    tw_given_end(&given);
    /* The answer. */
    if (broken)
        *answer = TW_SHRINK_FAILS;
    else if (e->parted >= rule.need)
        *answer = TW_SHRINK_STAYS;
    else if (k->count && tw_shrink_decided(&rule, e, whole))
        *answer = TW_SHRINK_GONE;
    else
        *answer = TW_SHRINK_UNKNOWN;
    for (size_t i = 0; i < k->count; i++)
        twin_run_free(k->at[i].first);
    tw_free(k);
    tw_shrink_command_free(&m);
    return rc == 0 ? 0 : tw_front_trouble(c->front, &err, "shrink: cannot run the job");
}

/* ---- which operation */

void tw_shrink_name_operation(struct tw_shrink *c, const struct tw_shrink_setting *s,
                              struct tw_shrink_evidence *e)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_shrink_command m;
    if (c->args.no_zoom || !e->can_zoom || *e->verdict[0]->first->op || !may_go_on(c) ||
        tw_shrink_command(c, s, &m) != 0)
        return;
    struct twin_launch_options o = launch_options(c, s, &m, "zoom");
    struct tw_zoom z = {.front = c->front,
                        .base_a = &o,
                        .base_b = &o,
                        .deadline_ns = c->deadline_ns,
                        .quiet = true};
    if (tw_zoom_run(e->verdict[0], &z, &err) != 0)
        tw_front_trouble(c->front, &err, "shrink: the operation cannot be named");
    c->runs_used += z.dir_count;
    c->interrupted |= z.interrupted;
    tw_zoom_free(&z);
    tw_shrink_command_free(&m);
}
