/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words that several forms of a verdict share: places, sizes, classes, the headline. text.c,
 * json.c, ci.c, the pages and the incident document call these functions (wording.h explains each).
 *
 * Runs are numbered from 1 in words and from 0 in structs.
 */
#include "wording.h"

#include "phrase.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A middle dot in UTF-8, between the parts of a place. */
#define DOT " \xC2\xB7 "

bool tw_is_record(const struct twin_finding *f)
{
    return f->type == TWIN_FINDING_VALUE || f->type == TWIN_FINDING_LAYOUT ||
           f->type == TWIN_FINDING_ONLY_A || f->type == TWIN_FINDING_ONLY_B ||
           f->type == TWIN_FINDING_ORDER;
}

/* What kind of thing a finding's name belongs to. Words differ where the same kind means something
 * else in another phase: a gradient that is recorded in the optimizer phase was changed between
 * backward and optimizer. */
static const char *prefix_of(const struct twin_finding *f)
{
    switch (f->kind) {
    /* a gradient of the optimizer phase was changed after the backward */
    case TWIN_KIND_GRADIENT:
        return f->phase == TWIN_PHASE_OPTIMIZER ? "grad that was written to, of " : "grad of ";
    case TWIN_KIND_GRADIENT_LOCAL: return "local grad of ";
    case TWIN_KIND_WEIGHT:
        if (f->phase == TWIN_PHASE_INIT)
            return "initial value of ";
        return strcmp(f->op, "written") == 0 ? "weight that was written to, " : "weight ";
    case TWIN_KIND_ACTIVATION: return "output of ";
    case TWIN_KIND_STATE: return "state of ";
    case TWIN_KIND_MOMENT: return "optimizer state ";
    case TWIN_KIND_HYPER: return "hyperparameter ";
    case TWIN_KIND_FILE: return "tensors in ";
    case TWIN_KIND_ORDER: return "order of the ";
    case TWIN_KIND_VALUE: return "value ";
    case TWIN_KIND_IN:
        if (tw_starts(f->name, "MPI_"))
            return "input of ";
        return f->phase == TWIN_PHASE_DATA ? "" : "input ";
    case TWIN_KIND_OUT: return tw_starts(f->name, "MPI_") ? "output of " : "output ";
    default: return "";
    }
}

/* The kind, then the name (at most 120 bytes), then whose it is where names alone do not tell. */
void tw_say_what(struct tw_buf *b, const struct twin_finding *f)
{
    /* the output of a whole model has no name of its own: the model's is said */
    bool root = f->kind == TWIN_KIND_ACTIVATION && strcmp(f->name, "output") == 0 && f->scope[0];
    tw_buf_puts(b, prefix_of(f));
    tw_say_safe(b, root ? f->scope : f->name, 120);
    /* what the data phase was handed is told apart by whose it is */
    bool handed = f->kind == TWIN_KIND_IN && f->phase == TWIN_PHASE_DATA;
    if ((f->kind == TWIN_KIND_BATCH || f->kind == TWIN_KIND_INDICES || handed) && f->scope[0]) {
        tw_buf_puts(b, " of ");
        tw_say_safe(b, f->scope, 60);
    }
    /* counted from 0; of generators' states it is not said */
    if (f->occurrence > 0 && f->kind != TWIN_KIND_STATE)
        tw_buf_printf(b, " (number %u of the step)", f->occurrence + 1);
}

void tw_say_rank(struct tw_buf *b, const struct twin_finding *f)
{
    tw_buf_printf(b, "rank %d", f->rank);
    if (!f->seat)
        return;
    tw_buf_puts(b, " (");
    tw_say_safe(b, f->seat, 120);
    tw_buf_puts(b, ")");
}

/* From the large to the small: step, rank, process, phase, what. Parts that say nothing are left
 * out: rank 0 alone, the main process, the phase of a value. */
void tw_say_place(struct tw_buf *b, const struct twin_finding *f, bool ranks)
{
    if (!tw_is_record(f)) {
        /* for these the name tells whom the sentence is about */
        bool named = f->type == TWIN_FINDING_OUTCOME || f->type == TWIN_FINDING_RANKS;
        if (named && f->name[0]) {
            tw_say_safe(b, f->name, 60);
            tw_buf_puts(b, ": ");
        }
        tw_say_safe(b, f->text[0] ? f->text : f->name, 600);
        return;
    }
    tw_buf_printf(b, "step %u", f->step_a);
    /* the arms of a check may be shifted against each other */
    if (f->step_b != f->step_a)
        tw_buf_printf(b, " (%u in run 2)", f->step_b);
    if (ranks || f->rank != 0) {
        tw_buf_puts(b, DOT);
        tw_say_rank(b, f);
    }
    if (strcmp(f->process, "main") != 0 && f->process[0]) {
        tw_buf_puts(b, DOT);
        tw_say_safe(b, f->process, 40);
    }
    if (f->kind != TWIN_KIND_VALUE && f->phase != TWIN_PHASE_NONE)
        tw_buf_printf(b, DOT "%s", twin_phase_name(f->phase));
    tw_buf_puts(b, DOT);
    tw_say_what(b, f);
}

/* Separates parts of a list: nothing in front of the first one, which begins at start. */
static void comma(struct tw_buf *b, size_t start)
{
    if (b->len > start)
        tw_buf_puts(b, ", ");
}

/* Two digits, as "0.8" or "3.1e-8" (where printf would say 3.1e-08). */
static void scientific(struct tw_buf *b, double x)
{
    char text[32];
    if (x == 0 || (x >= 1e-3 && x < 1e4)) {
        tw_buf_printf(b, "%.2g", x);
        return;
    }
    /* printf writes at least two digits of an exponent */
    snprintf(text, sizeof text, "%.1e", x);
    char *e = strchr(text, 'e');
    if (e)
        tw_buf_printf(b, "%.*se%d", (int)(e - text), text, atoi(e + 1));
}

/* Both numbers, with 9 digits where these show that they differ, else with 17, which tell any two
 * doubles apart. */
static void two_values(struct tw_buf *b, double x, double y)
{
    char p[32], q[32];
    for (int digits = 9; digits <= 17; digits += 8) {
        snprintf(p, sizeof p, "%.*g", digits, x);
        snprintf(q, sizeof q, "%.*g", digits, y);
        if (strcmp(p, q) != 0)
            break;
    }
    tw_buf_printf(b, "%s -> %s", p, q);
}

/* A distance beyond is none of roundings, and its many digits say less than relative L2 does. */
#define ULP_SAID 1e6

/* How much is said depends on what was recorded: values of single numbers, counts of elements, NaN
 * or infinity on one side, distance in ulp, relative L2 distance. */
void tw_say_size(struct tw_buf *b, const struct twin_finding *f)
{
    char x[32], y[32];
    size_t start = b->len;
    if (f->type != TWIN_FINDING_VALUE || f->kind == TWIN_KIND_STATE)
        return;
    /* a single finite number is shown itself; its sum is the number */
    if (f->elements == 1 && f->stats_a.count == 1 && f->stats_b.count == 1 && !f->stats_a.nan &&
        !f->stats_b.nan)
        two_values(b, f->stats_a.sum, f->stats_b.sum);
    /* counted element by element, where the values were there */
    else if (f->changed_known && f->elements)
        tw_buf_printf(b, "%s of %s elements", tw_human_count(f->changed, x),
                      tw_human_count(f->elements, y));
    else if (f->elements)
        tw_buf_printf(b, "%s element%s", tw_human_count(f->elements, x), tw_plural_s(f->elements));
    if (f->kind == TWIN_KIND_HYPER && b->len > start)
        return; /* a setting was not computed: its distance in roundings says nothing */
    /* what a reader wants to know first: one run has NaN or infinity where the other has not */
    uint64_t bad_a = f->stats_a.nan + f->stats_a.pos_inf + f->stats_a.neg_inf;
    uint64_t bad_b = f->stats_b.nan + f->stats_b.pos_inf + f->stats_b.neg_inf;
    if (bad_a != bad_b) {
        comma(b, start);
        tw_buf_printf(b, "NaN or Inf: %s in run 1, %s in the other", tw_human_count(bad_a, x),
                      tw_human_count(bad_b, y));
    }
    /* an infinite distance in ulp stands for NaN on one side */
    if (isinf(f->max_ulp)) {
        comma(b, start);
        tw_buf_puts(b, "one is NaN");
    } else if (f->max_ulp <= ULP_SAID) {
        comma(b, start);
        tw_buf_printf(b, "%s%.0f ulp", f->elements == 1 ? "" : "at most ", f->max_ulp);
    }
    /* "about": estimated from sketches */
    if (isfinite(f->rel_l2)) {
        comma(b, start);
        tw_buf_puts(b, f->rel_l2_exact ? "relative L2 " : "relative L2 about ");
        scientific(b, f->rel_l2);
    }
    if (f->changed_known && f->elements > 1)
        tw_buf_puts(b, " (in the reruns of the zoom)");
}

/*
 * What may differ in the lines that made it: readers take equal generators for a proof that nothing
 * does. "" where operations made it, which are recorded.
 */
static const char *say_lines(const struct twin_finding *f)
{
    if (f->phase == TWIN_PHASE_DATA && (f->kind == TWIN_KIND_BATCH || f->kind == TWIN_KIND_INDICES))
        return ". The code there is not recorded: its data, the order of a set or a generator of "
               "its own may differ";
    if (f->phase == TWIN_PHASE_INIT && f->kind == TWIN_KIND_WEIGHT)
        return ". The code there is not recorded: a file, a generator of its own or memory that "
               "it has not written to may differ";
    if (f->kind == TWIN_KIND_HYPER && !twin_finding_is_given_back(f))
        return ". The code there is not recorded: an option, a file or what a schedule goes by may "
               "differ";
    return f->kind == TWIN_KIND_VALUE ? ". The code there is not recorded" : "";
}

/* The two places were found by src/compare; a role that is known needs no words. */
void tw_say_between(struct tw_buf *b, const struct twin_finding *f)
{
    if (f->role != TWIN_ROLE_UNKNOWN || !f->between[0] || !f->between[1])
        return;
    tw_buf_puts(b, "unknown: it was made between ");
    tw_say_safe(b, f->between[0], 240);
    tw_buf_puts(b, " and ");
    tw_say_safe(b, f->between[1], 240);
    tw_buf_puts(b, say_lines(f));
}

/* "with hash-seed and threads pinned: " */
static void say_with_pins(struct tw_buf *b, const struct twin_pinned *p)
{
    const char *last = strrchr(p->factors, ',');
    tw_buf_puts(b, "with ");
    for (const char *at = p->factors; *at;) {
        const size_t n = strcspn(at, ",");
        if (at > p->factors)
            tw_buf_puts(b, at == last + 1 ? " and " : ", ");
        tw_buf_append(b, at, n);
        at += n + (at[n] == ',');
    }
    tw_buf_puts(b, p->held ? " pinned: " : " not surely pinned: ");
}

void tw_say_pinned(struct tw_buf *b, const struct twin_verdict *v)
{
    const struct twin_pinned *p = v->pinned;
    const bool several = strchr(p->factors, ',') != NULL;
    const char *it = several ? "they" : "it";
    tw_buf_printf(b, "as isolate named %s (", several ? "them" : "it");
    tw_say_safe(b, p->search, 0);
    if (p->held)
        tw_buf_printf(
            b,
            "); %s took effect in every run. The verdict is of the job with %s on, not of "
            "the job as it is",
            it, several ? "these pins" : "this pin");
    else
        tw_buf_printf(b,
                      "); that %s took effect in every run is not so, or not known. The verdict "
                      "proves no pin, and is not of the job as it is",
                      it);
}

/* The sentence behind the word of the verdict. For SAME it says how much was compared, for DIFFER
 * where the first difference is; a tolerance changes only how it begins. */
void tw_say_headline(struct tw_buf *b, const struct twin_verdict *v)
{
    char steps[32], records[32], all[32];
    if (v->pinned)
        say_with_pins(b, v->pinned);
    switch (v->outcome) {
    case TWIN_SAME:
        if (!tw_say_range(b, v)) {
            if (v->steps_compared)
                tw_buf_printf(b, "%s step%s, ", tw_human_count(v->steps_compared, steps),
                              tw_plural_s(v->steps_compared));
            tw_buf_printf(b, "%s records", tw_human_count(v->records_compared, records));
        }
        tw_buf_puts(b, ", bit for bit");
        if (v->against)
            tw_buf_puts(b, v->runs > 1 ? ", as in the baseline, in every run"
                                       : ", as in the baseline");
        else
            tw_buf_printf(b, ", in %zu runs", v->runs);
        return;
    case TWIN_WITHIN_TOLERANCE: tw_buf_puts(b, "bit for bit they differ "); break;
    case TWIN_INCONCLUSIVE:
        tw_buf_puts(b, v->runs < 2 && !v->against
                           ? "one run alone says nothing"
                           : "no difference was found, but not enough was seen to say \"same\"");
        return;
    case TWIN_FAILED:
        tw_buf_printf(b,
                      v->runs == 1 ? "the job failed" : "the job failed in every one of %zu runs",
                      v->runs);
        return;
    case TWIN_DIFFER: break;
    }
    /* DIFFER, and the difference that a tolerance allows */
    if (v->first && tw_is_record(v->first)) {
        /* a number that is not exact is a lower bound */
        if (v->steps_differing > 1 || !v->steps_differing_exact)
            tw_buf_printf(b, "from step %u on (%s%s of %s steps)", v->first->step_a,
                          v->steps_differing_exact ? "" : "at least ",
                          tw_human_count(v->steps_differing, steps),
                          tw_human_count(v->steps_compared, all));
        else
            tw_buf_printf(b, "in step %u", v->first->step_a);
    } else if (v->first && v->first->type == TWIN_FINDING_OUTCOME) {
        tw_buf_puts(b, v->against ? "in how the run ended" : "in how the runs ended");
    } else if (v->first && v->first->type == TWIN_FINDING_RANKS) {
        tw_buf_puts(b, "in which processes recorded");
    } else {
        tw_buf_puts(b, v->first && v->first->type == TWIN_FINDING_FILE ? "in a file the job wrote"
                                                                       : "in what the job printed");
    }
}

void tw_say_onsets(struct tw_buf *b, const struct twin_verdict *v)
{
    size_t said = 0;
    for (size_t i = 0; i < v->onset_count && said < 8; i++) {
        const struct twin_onset *o = &v->onsets[i];
        /* the first finding's own kind was said already */
        bool again = v->first && o->phase == v->first->phase && o->kind == v->first->kind &&
                     o->phase != TWIN_PHASE_OUTPUT;
        if (again)
            continue;
        tw_buf_puts(b, said++ ? " -> " : "");
        tw_say_safe(b, o->what, 60);
        tw_buf_printf(b, " %u", o->step);
    }
}

/* At most six classes with eight runs each. The usual class has no step. */
void tw_say_classes(struct tw_buf *b, const struct twin_verdict *v)
{
    for (size_t i = 0; i < v->class_count && i < 6; i++) {
        const struct twin_class *c = &v->classes[i];
        tw_buf_printf(b, "%s%s", i ? "; " : "", c->members == 1 ? "run" : "runs");
        for (size_t k = 0; k < c->members && k < 8; k++)
            tw_buf_printf(b, "%s%zu", k ? "," : " ", c->runs[k] + 1);
        tw_buf_puts(b, c->members > 8 ? ",..." : "");
        if (c->parts_at_step < 0 && c->members >= 2)
            tw_buf_puts(b, c->unsure ? " agree as far as was seen" : " agree");
        else if (c->parts_at_step >= 0)
            tw_buf_printf(b, " diverge%s at step %lld", c->members == 1 ? "s" : "",
                          (long long)c->parts_at_step);
    }
    if (v->class_count > 6)
        tw_buf_printf(b, "; %zu more classes", v->class_count - 6);
}

void tw_say_against(struct tw_buf *b, const struct twin_against *a)
{
    tw_say_safe(b, a->path ? a->path : "baseline", 200);
    tw_buf_puts(b, ", made ");
    tw_say_safe(b, a->made ? a->made : "?", 40);
    tw_buf_printf(b, " of %llu run%s", (unsigned long long)a->runs, tw_plural_s(a->runs));
    if (a->signer) {
        tw_buf_puts(b, ", signed by ");
        tw_say_safe(b, a->signer, 120);
    }
}

/* Not known, as then, or a list of changes. */
void tw_say_world(struct tw_buf *b, const struct twin_against *a, size_t most)
{
    if (!a->world_known) {
        tw_buf_puts(b, "not known whether this is the world that the baseline was made in");
        return;
    }
    if (a->world_count == 0)
        tw_buf_puts(b, "as when the baseline was made");
    for (size_t i = 0; i < a->world_count && i < most; i++) {
        tw_buf_puts(b, i ? "; " : "another than then: ");
        tw_say_safe(b, a->world[i].name, 60);
        tw_buf_puts(b, " ");
        tw_say_safe(b, a->world[i].then[0] ? a->world[i].then : "(none)", 60);
        tw_buf_puts(b, " -> ");
        tw_say_safe(b, a->world[i].now[0] ? a->world[i].now : "(none)", 60);
    }
    if (a->world_count > most)
        tw_buf_printf(b, "; %zu more", a->world_count - most);
}

/* Only the criteria that the rule has are said; a criterion of 0 is not given. */
void tw_say_rule(struct tw_buf *b, const struct twin_rule_use *r)
{
    const struct {
        const char *name;
        double value;
    } all[] = {{"rel_l2", r->rel_l2},
               {"abs", r->abs},
               {"rtol", r->rtol},
               {"atol", r->atol},
               {"ulp", r->ulp}};
    size_t said = 0;
    tw_say_safe(b, r->pattern, 80);
    tw_buf_puts(b, " (");
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i].value > 0)
            tw_buf_printf(b, "%s%s %.3g", said++ ? ", " : "", all[i].name, all[i].value);
    tw_buf_puts(b, "): ");
    if (r->matched == 0)
        tw_buf_puts(b, "not used");
    else if (r->outside)
        tw_buf_puts(b, "exceeded");
    else if (r->measured)
        tw_buf_printf(b, "%.0f%% used", 100 * r->worst);
    else
        tw_buf_puts(b, "nothing measured");
    tw_buf_puts(b, "; ");
    tw_say_safe(b, r->reason, 200);
}

/* The line number is the first ":digits" that a blank or the end of the line follows; a colon
 * inside of a path is passed over. */
bool tw_source_line(const char *site, struct tw_buf *file, unsigned long *line)
{
    size_t end = strcspn(site, "\n");
    for (size_t i = 0; i + 1 < end; i++) {
        size_t digits = strspn(site + i + 1, "0123456789");
        if (site[i] != ':' || digits == 0 ||
            (i + 1 + digits < end && !strchr(" ,", site[i + 1 + digits])))
            continue;
        tw_buf_append(file, site, i);
        *line = strtoul(site + i + 1, NULL, 10);
        return i > 0;
    }
    return false;
}

/* "perhaps", "There", "was not tried": the words must not sound like a result. */
char *twin_hint_text(const struct twin_hint *h)
{
    struct tw_buf b = {0};
    tw_buf_puts(&b, "perhaps a known case: ");
    tw_say_safe(&b, h->title, 120);
    tw_buf_puts(&b, " (");
    tw_say_safe(&b, h->id, 64);
    tw_buf_puts(&b, "). There: ");
    tw_say_safe(&b, h->cause, 400);
    tw_buf_puts(&b, " Remedy there: ");
    tw_say_safe(&b, h->fix, 400);
    tw_buf_puts(&b, " It looks alike in ");
    tw_say_safe(&b, h->why, 128);
    tw_buf_puts(&b, "; whether that is what happens here was not tried.");
    return tw_buf_steal(&b);
}

int tw_report_finish(struct tw_buf *b, char **out, struct twin_error *err)
{
    *out = tw_buf_steal(b);
    return *out ? 0 : tw_no_memory(err, "writing the report");
}

/* TWIN_FAILED and anything unknown: 2. */
int twin_report_exit_code(enum twin_verdict_outcome o)
{
    switch (o) {
    case TWIN_SAME:
    case TWIN_WITHIN_TOLERANCE: return 0;
    case TWIN_DIFFER: return 1;
    case TWIN_INCONCLUSIVE: return 3;
    default: return 2;
    }
}
