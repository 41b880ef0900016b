/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads tolerance files, and judges single differences by their rules. compare.c loads the file;
 * judge.c, and baseline_judge.c for a baseline, hand over one difference after the other
 * (tw_tolerance_measure()) and ask at the end whether all are inside (tw_judged_inside()).
 *
 * The file is JSON, {"tolerance": [{"pattern": "optimizer/weight/fc.*", "rel_l2": 1e-6, "reason":
 * "..."}]}, or the part of TOML that says the same: [[tolerance]] tables with string and number
 * values, and comments. What a rule allows, and what of a tensor can be measured: docs/ci.md.
 */
#include "internal.h"
#include "tolerance.h"

#include "json_load.h"
#include "phrase.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

/* Bytes of a tolerance file, and rules in it. A larger file is an error. */
#define FILE_CAP ((size_t)1 << 20)
#define RULES_MAX 10000u

void tw_tolerance_free(struct tw_tolerance *t)
{
    for (size_t i = 0; t && i < t->n; i++) {
        tw_free(t->rule[i].pattern);
        tw_free(t->rule[i].reason);
        tw_free(t->rule[i].where);
    }
    if (t)
        tw_free(t->rule);
    tw_free(t);
}

/*
 * Appends an empty rule. NULL: RULES_MAX are reached, or no memory. The pointer is good until the
 * next call.
 */
static struct tw_tolerance_rule *new_rule(struct tw_tolerance *t)
{
    if (t->n == t->room) {
        size_t room = t->room ? 2 * t->room : 16;
        struct tw_tolerance_rule *grown = t->n < RULES_MAX
                                              ? tw_reallocarray(t->rule, room, sizeof *grown)
                                              : NULL;
        if (!grown)
            return NULL;
        t->rule = grown;
        t->room = room;
    }
    t->rule[t->n] = (struct tw_tolerance_rule){.worst = -1};
    return &t->rule[t->n++];
}

/*
 * Sets one key of a rule, from either syntax. text is NULL for numbers. Returns 0, TWIN_EFORMAT for
 * an unknown key, a wrong type or a negative number, or TWIN_ENOMEM.
 */
static int set_key(struct tw_tolerance_rule *r, const char *key, const char *text, double number,
                   const char *path, struct twin_error *err)
{
    if ((strcmp(key, "pattern") == 0 || strcmp(key, "reason") == 0) && text) {
        char **field = key[0] == 'p' ? &r->pattern : &r->reason;
        tw_free(*field);
        *field = tw_strdup(text);
        return *field ? 0 : tw_no_memory(err, "reading %s", path);
    }
    const struct {
        const char *key;
        double *field;
    } numbers[] = {
        {"rel_l2", &r->rel_l2}, {"abs", &r->abs}, {"rtol", &r->rtol},
        {"atol", &r->atol},     {"ulp", &r->ulp},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && !text; i++) {
        if (strcmp(key, numbers[i].key) != 0)
            continue;
        if (!(number >= 0) || !isfinite(number))
            return twin_error_set(err, TWIN_EFORMAT,
                                  "%s: %s = %g: expected a number that is not negative", path, key,
                                  number);
        *numbers[i].field = number;
        return 0;
    }
    return twin_error_set(err, TWIN_EFORMAT,
                          "%s: unknown key or wrong type: %s; expected pattern and reason "
                          "(strings), rel_l2, abs, rtol, atol and ulp (numbers)",
                          path, key);
}

/*
 * Fills t from JSON: {"tolerance": [...]} or the list alone. Keys that stand twice are an error,
 * since nobody could tell which counts.
 */
static int read_json(const char *data, size_t bytes, const char *path, struct tw_tolerance *t,
                     struct twin_error *err)
{
    json_error_t e;
    json_t *root = tw_json_load(data, bytes, JSON_REJECT_DUPLICATES, &e);
    if (!root)
        return twin_error_set(err, TWIN_EFORMAT, "%s: line %d: %s", path, e.line, e.text);
    const json_t *list = json_is_array(root) ? root : json_object_get(root, "tolerance");
    int rc = json_is_array(list)
                 ? 0
                 : twin_error_set(err, TWIN_EFORMAT, "%s: expected {\"tolerance\": [...]}", path);
    for (size_t i = 0; rc == 0 && i < json_array_size(list); i++) {
        json_t *item = json_array_get(list, i), *value;
        const char *key;
        struct tw_tolerance_rule *r = new_rule(t);
        if (!r)
            rc = twin_error_set(err, t->n >= RULES_MAX ? TWIN_ELIMIT : TWIN_ENOMEM,
                                "%s: too many rules", path);
        else if (!json_is_object(item))
            rc = twin_error_set(err, TWIN_EFORMAT, "%s: rule %zu: expected an object", path, i + 1);
        json_object_foreach (item, key, value) {
            if (rc == 0 && !json_is_string(value) && !json_is_number(value))
                rc = twin_error_set(err, TWIN_EFORMAT,
                                    "%s: rule %zu: %s is neither a string nor a number", path,
                                    i + 1, key);
            else if (rc == 0)
                rc = set_key(r, key, json_string_value(value), json_number_value(value), path, err);
        }
    }
    json_decref(root);
    return rc;
}

/* What the callbacks of tw_toml_read() need. */
struct toml_reading {
    struct tw_tolerance *t;
    const char *path;
};

/* A [[tolerance]] table begins: a new rule. */
static int toml_begin(void *user, size_t line, struct twin_error *err)
{
    struct toml_reading *r = user;
    if (new_rule(r->t))
        return 0;
    return twin_error_set(err, r->t->n >= RULES_MAX ? TWIN_ELIMIT : TWIN_ENOMEM,
                          "%s: line %zu: too many rules", r->path, line);
}

/*
 * A key of the last rule. The line is put before the message of set_key(), which does not know it.
 */
static int toml_key(void *user, const char *key, const struct tw_toml_value *v, size_t line,
                    struct twin_error *err)
{
    struct toml_reading *r = user;
    if (v->type != TW_TOML_STRING && v->type != TW_TOML_NUMBER)
        return twin_error_set(err, TWIN_EFORMAT,
                              "%s: line %zu: %s is neither a string nor a number", r->path, line,
                              key);
    struct twin_error why = TWIN_ERROR_INIT;
    int rc = set_key(&r->t->rule[r->t->n - 1], key, v->type == TW_TOML_STRING ? v->text[0] : NULL,
                     v->number, r->path, &why);
    return rc == 0 ? 0 : twin_error_set(err, rc, "line %zu of %s", line, why.message);
}

static int read_toml(char *data, const char *path, struct tw_tolerance *t, struct twin_error *err)
{
    struct toml_reading r = {t, path};
    return tw_toml_read(data, path,
                        &(struct tw_toml_handler){"tolerance", toml_begin, toml_key, &r}, err);
}

/*
 * Each rule must say what it is for, allow something, and give a reason: one without a reason is a
 * rule that nobody dares to remove.
 */
static int check_rule(const struct tw_tolerance_rule *r, size_t number, const char *path,
                      struct twin_error *err)
{
    if (!r->pattern)
        return twin_error_set(err, TWIN_EFORMAT,
                              "%s: rule %zu has no pattern, such as \"optimizer/weight/*\"", path,
                              number);
    if (!r->reason || strspn(r->reason, " \t") == strlen(r->reason))
        return twin_error_set(
            err, TWIN_EFORMAT,
            "%s: rule %zu (%s) gives no reason; say why this may differ: reason = \"...\"", path,
            number, r->pattern);
    if (r->rel_l2 + r->abs + r->rtol + r->atol + r->ulp == 0)
        return twin_error_set(
            err, TWIN_EFORMAT,
            "%s: rule %zu (%s) allows nothing; expected rel_l2, abs, rtol, atol or ulp above 0",
            path, number, r->pattern);
    return 0;
}

/*
 * *out is to be freed with tw_tolerance_free(); NULL on an error. Whether the file is JSON or TOML
 * is told by its first characters: "[[" begins a table of TOML, a single "[" a list of JSON.
 */
int tw_tolerance_load(const char *path, struct tw_tolerance **out, struct twin_error *err)
{
    char *data = NULL;
    size_t bytes = 0;
    *out = NULL;
    int rc = tw_read_file(path, FILE_CAP, &data, &bytes, err);
    if (rc != 0)
        return rc;
    struct tw_tolerance *t = tw_calloc(1, sizeof *t);
    size_t start = strspn(data, " \t\r\n");
    if (!t)
        rc = tw_no_memory(err, "reading %s", path);
    else if (memchr(data, '\0', bytes))
        rc = twin_error_set(err, TWIN_EFORMAT, "%s: not text: it holds a NUL byte", path);
    else if (data[start] == '{' || (data[start] == '[' && data[start + 1] != '['))
        rc = read_json(data, bytes, path, t, err);
    else
        rc = read_toml(data, path, t, err);
    for (size_t i = 0; rc == 0 && i < t->n; i++)
        rc = check_rule(&t->rule[i], i + 1, path, err);
    if (rc == 0 && t->n == 0)
        rc = twin_error_set(err, TWIN_EFORMAT, "%s: no [[tolerance]] rule in it", path);
    tw_free(data);
    if (rc != 0)
        tw_tolerance_free(t);
    else
        *out = t;
    return rc;
}

int twin_tolerance_check(const char *path, struct twin_error *err)
{
    struct tw_tolerance *t = NULL;
    int rc = tw_tolerance_load(path, &t, err);
    tw_tolerance_free(t);
    return rc;
}

struct tw_tolerance_rule *tw_tolerance_for(struct tw_tolerance *t, const char *phase,
                                           const char *kind, const char *name)
{
    /* the first that fits: special rules come before general ones */
    for (size_t i = 0; i < t->n; i++)
        if (tw_pattern_fits(t->rule[i].pattern, phase, kind, name))
            return &t->rule[i];
    return NULL;
}

/* ---- judging */

/* Keeps the first text of its sort; takes text. */
static void set_once(struct tw_cmp *c, char **field, char *text)
{
    if (*field)
        tw_free(text);
    else
        tw_finding_set(c, field, text);
}

void tw_judged_outside(struct tw_cmp *c, struct tw_judged *j, char *text)
{
    set_once(c, &j->outside, text);
}

void tw_judged_unknown(struct tw_cmp *c, struct tw_judged *j, char *text)
{
    j->unknown_steps++;
    set_once(c, &j->unknown, text);
}

void tw_judged_free(struct tw_judged *j)
{
    tw_free(j->where);
    tw_free(j->outside);
    tw_free(j->open);
    tw_free(j->unknown);
    tw_free(j->end_open);
    *j = (struct tw_judged){.worst = -1, .worst_of_step = -1};
}

/*
 * Is the difference outside whatever its exact distance is? Statistics alone give a lower bound of
 * it: the difference of the norms. 1e-12 allows for the rounding of the sums. Numbers of NaN or Inf
 * that differ are outside, too.
 */
static bool surely_outside(const struct tw_tolerance_rule *r, const struct tw_measure *m)
{
    if (!m->stats_a || !m->stats_b)
        return false;
    const struct twin_stats *a = m->stats_a, *b = m->stats_b;
    if (a->nan != b->nan || a->pos_inf != b->pos_inf || a->neg_inf != b->neg_inf)
        return true;
    double x = sqrt(a->sumsq), distance = fabs(x - sqrt(b->sumsq));
    double rms = r->atol * sqrt((double)m->elements) + r->rtol * x;
    return distance > r->abs * (1 + 1e-12) && distance > r->rel_l2 * x * (1 + 1e-12) &&
           distance > rms * (1 + 1e-12);
}

/*
 * The smaller of `share` and of what this criterion uses; a criterion of 0 was not given, and a
 * distance that is NaN changes nothing.
 */
static double smaller_share(double share, double distance, double allowed)
{
    return allowed > 0 && distance / allowed < share ? distance / allowed : share;
}

/*
 * How much of what the rule allows is used: inside up to 1; INFINITY when no criterion could be
 * measured. The criteria that a rule gives are alternatives, so the one that is used least counts.
 */
static double share_of(const struct tw_tolerance_rule *r, const struct tw_measure *m)
{
    /*
     * The norm of the reference, for rtol: from the two distances where both are known, else from
     * the statistics.
     */
    double norm = 0;
    if (m->relative > 0)
        norm = m->absolute / m->relative;
    else if (m->stats_a)
        norm = sqrt(m->stats_a->sumsq);
    double share = INFINITY;
    share = smaller_share(share, m->relative, r->rel_l2);
    share = smaller_share(share, m->absolute, r->abs);
    share = smaller_share(share, m->absolute, r->atol * sqrt((double)m->elements) + r->rtol * norm);
    return isnan(m->ulp) ? share : smaller_share(share, m->ulp, r->ulp);
}

/* Appends "rel_l2 1e-06, rtol 0.001": the criteria that the rule gives. */
static void say_allowed(struct tw_buf *b, const struct tw_tolerance_rule *r)
{
    const struct {
        const char *name;
        double value;
    } all[] = {{"rel_l2", r->rel_l2},
               {"abs", r->abs},
               {"rtol", r->rtol},
               {"atol", r->atol},
               {"ulp", r->ulp}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i].value > 0)
            tw_buf_printf(b, "%s%s %.3g", b->len ? ", " : "", all[i].name, all[i].value);
}

/*
 * Notes that a difference of this step was judged. Several processes come one after the other, each
 * from its first step on, so a step may extend any of the spans. Steps that need a new span when
 * all are used are counted only.
 */
static void judged_at(struct tw_judged *j, uint32_t step)
{
    for (size_t i = 0; i < j->spans; i++) {
        struct tw_judged_span *s = &j->span[i];
        if (step >= s->first && step <= s->last)
            return;
        if (step != s->last + 1)
            continue;
        s->last = step;
        return;
    }
    if (j->spans == TW_JUDGED_SPANS)
        j->more++;
    else
        j->span[j->spans++] = (struct tw_judged_span){step, step};
}

/* Names the steps that were judged: "steps 3, 7 to 9". NULL: no memory. */
static char *say_steps(struct tw_cmp *c, const struct tw_judged *j)
{
    struct tw_buf text = {0};
    bool one = j->spans == 1 && j->span[0].first == j->span[0].last && j->more == 0;
    tw_buf_puts(&text, one ? "step " : "steps ");
    for (size_t i = 0; i < j->spans; i++) {
        tw_buf_printf(&text, "%s%u", i ? ", " : "", j->span[i].first);
        if (j->span[i].last > j->span[i].first)
            tw_buf_printf(&text, " to %u", j->span[i].last);
    }
    if (j->more)
        tw_buf_printf(&text, " and %zu more", j->more);
    c->oom |= text.failed;
    return tw_buf_steal(&text);
}

/*
 * The outcomes in their order: outside because no rule covers it or it is missing; not measured;
 * outside by number; inside. The use of the rule is counted with each.
 */
void tw_tolerance_measure(struct tw_cmp *c, const char *phase, const char *kind, const char *name,
                          uint32_t step, const struct tw_measure *m, struct tw_judged *j)
{
    struct tw_tolerance_rule *rule = tw_tolerance_for(c->tolerance, phase, kind, name);
    if (!rule || m->missing) {
        if (rule)
            rule->matched++;
        j->outside_rows++;
        set_once(
            c, &j->outside,
            tw_cmp_text(c, "%s/%s/%s at step %u: %s", phase, kind, name, step,
                        rule ? "missing or of another shape in one run" : "no rule covers it"));
        return;
    }
    rule->matched++;
    if (isnan(m->relative) && !surely_outside(rule, m)) {
        set_once(c, &j->open,
                 tw_cmp_text(c, "%s/%s/%s at step %u has no sketch, or holds NaN or Inf", phase,
                             kind, name, step));
        j->unmeasured++;
        rule->unmeasured++;
        j->open_weights += strcmp(kind, twin_kind_name(TWIN_KIND_WEIGHT)) == 0;
        return;
    }
    double share = isnan(m->relative) ? INFINITY : share_of(rule, m);
    if (!(share <= 1)) {
        struct tw_buf allowed = {0};
        say_allowed(&allowed, rule);
        bool only_ulp = !isnan(m->relative) && isnan(m->ulp) && rule->ulp > 0 &&
                        rule->rel_l2 + rule->abs + rule->rtol + rule->atol == 0;
        set_once(c, &j->outside,
                 tw_cmp_text(c, "%s/%s/%s at step %u: relative L2 %.3g, allowed %s%s", phase, kind,
                             name, step, m->relative, allowed.data ? allowed.data : "",
                             only_ulp ? " (ulp is for single numbers: give a tensor rel_l2 or rtol)"
                                      : ""));
        rule->outside++;
        j->outside_rows++;
        tw_buf_free(&allowed);
        return;
    }
    j->measured++;
    j->worst_of_step = share > j->worst_of_step ? share : j->worst_of_step;
    judged_at(j, step);
    rule->measured++;
    if (share > rule->worst) {
        rule->worst = share;
        tw_finding_set(c, &rule->where,
                       tw_cmp_text(c, "%s/%s/%s at step %u", phase, kind, name, step));
    }
    if (share > j->worst) {
        j->worst = share;
        tw_finding_set(c, &j->where,
                       tw_cmp_text(c, "%s/%s/%s at step %u", phase, kind, name, step));
    }
}

/* Says in which steps numbers were judged: a baseline keeps numbers of few steps. */
static void say_where(struct tw_cmp *c, const struct tw_judged *j)
{
    char *steps = say_steps(c, j);
    tw_cmp_note(c,
                "within tolerance where the baseline keeps numbers (%s): the largest uses %.2g of "
                "what is allowed (%s); %llu difference%s measured, %llu not judged",
                steps ? steps : "", j->worst, j->where ? j->where : "",
                (unsigned long long)j->measured, tw_plural_s(j->measured),
                (unsigned long long)j->unmeasured);
    tw_free(steps);
}

/*
 * True when nothing is outside and enough was measured; says in a note what was found. A distance
 * that is not known is not a small one: with a run as the reference every difference must have been
 * measured, with a baseline those of its kept steps, the end among them.
 */
bool tw_judged_inside(struct tw_cmp *c, const struct tw_judged *j)
{
    bool enough = (j->unmeasured == 0 || (j->few_kept && !j->end_open)) && !j->unknown;
    bool inside = !j->outside && j->measured > 0 && enough;
    if (j->outside)
        tw_cmp_note(c, "outside the tolerance: %s", j->outside);
    else if (inside && j->unmeasured == 0)
        tw_cmp_note(c,
                    "within tolerance: the largest uses %.2g of what is allowed (%s); %llu "
                    "difference%s measured",
                    j->worst, j->where ? j->where : "", (unsigned long long)j->measured,
                    tw_plural_s(j->measured));
    else if (inside)
        say_where(c, j);
    else if (j->end_open)
        tw_cmp_note(c,
                    "not judged by the tolerance: %s, the last step that differs; the baseline "
                    "keeps no numbers of its weights",
                    j->end_open);
    else if (j->unmeasured)
        tw_cmp_note(c,
                    "not judged by the tolerance: %s (%llu of %llu differences); check "
                    "--tolerance, or --sketch-every 1, records what it takes",
                    j->open ? j->open : "", (unsigned long long)j->unmeasured,
                    (unsigned long long)(j->measured + j->unmeasured));
    else if (j->unknown)
        tw_cmp_note(c, "not judged by the tolerance: %s", j->unknown);
    else
        tw_cmp_note(c, "not judged by the tolerance: no difference that it could be held against");
    return inside;
}

/* Hands the rules, as they were used, to the verdict, which owns their texts from then on. */
void tw_tolerance_report(struct tw_cmp *c)
{
    struct tw_tolerance *t = c->tolerance;
    c->v->rules = tw_calloc(t->n, sizeof *c->v->rules);
    c->oom |= !c->v->rules;
    for (size_t i = 0; c->v->rules && i < t->n; i++) {
        struct tw_tolerance_rule *r = &t->rule[i];
        c->v->rules[c->v->rule_count++] = (struct twin_rule_use){
            .pattern = r->pattern,
            .reason = r->reason,
            .rel_l2 = r->rel_l2,
            .abs = r->abs,
            .rtol = r->rtol,
            .atol = r->atol,
            .ulp = r->ulp,
            .matched = r->matched,
            .measured = r->measured,
            .unmeasured = r->unmeasured,
            .outside = r->outside,
            .worst = r->worst,
            .where = r->where,
        };
        r->pattern = r->reason = r->where = NULL;
    }
}
