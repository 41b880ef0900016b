/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tolerance files. JSON:  {"tolerance": [{"pattern": "optimizer/weight/fc.*", "rel_l2": 1e-6, "abs": 0, "reason": "..."}]}
 * or the part of TOML that says the same: [[tolerance]] tables with string and number values, and comments.
 * A difference is inside when its relative L2 distance is at most rel_l2 or its L2 distance at most abs.
 */
#include "internal.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FILE_CAP ((size_t)1 << 20)
#define RULES_MAX 10000u
#define JUDGE_STEPS 65536u

void tw_tolerance_free(struct tw_tolerance *t)
{
    for (size_t i = 0; t && i < t->n; i++) {
        tw_free(t->rule[i].pattern);
        tw_free(t->rule[i].reason);
    }
    if (t)
        tw_free(t->rule);
    tw_free(t);
}

static struct tw_tolerance_rule *new_rule(struct tw_tolerance *t)
{
    if (t->n == t->room) {
        size_t room = t->room ? 2 * t->room : 16;
        struct tw_tolerance_rule *grown = t->n < RULES_MAX ? tw_reallocarray(t->rule, room, sizeof *grown) : NULL;
        if (!grown)
            return NULL;
        t->rule = grown;
        t->room = room;
    }
    t->rule[t->n] = (struct tw_tolerance_rule){.rel_l2 = 0, .abs = 0};
    return &t->rule[t->n++];
}

/* Sets one key of a rule, from either syntax. text is NULL for numbers. */
static int set_key(struct tw_tolerance_rule *r, const char *key, const char *text, double number, const char *path, struct twin_error *err)
{
    if ((strcmp(key, "pattern") == 0 || strcmp(key, "reason") == 0) && text) {
        char **field = key[0] == 'p' ? &r->pattern : &r->reason;
        tw_free(*field);
        *field = tw_strdup(text);
        return *field ? 0 : twin_error_set(err, TWIN_ENOMEM, "out of memory reading %s", path);
    }
    if ((strcmp(key, "rel_l2") == 0 || strcmp(key, "abs") == 0) && !text) {
        if (!(number >= 0) || !isfinite(number))
            return twin_error_set(err, TWIN_EFORMAT, "%s: %s = %g: expected a number that is not negative", path, key, number);
        *(key[0] == 'r' ? &r->rel_l2 : &r->abs) = number;
        return 0;
    }
    return twin_error_set(err, TWIN_EFORMAT, "%s: unknown key or wrong type: %s; expected pattern and reason (strings), rel_l2 and abs (numbers)", path, key);
}

static int read_json(const char *data, size_t bytes, const char *path, struct tw_tolerance *t, struct twin_error *err)
{
    json_error_t e;
    json_t *root = json_loadb(data, bytes, JSON_REJECT_DUPLICATES, &e);
    if (!root)
        return twin_error_set(err, TWIN_EFORMAT, "%s: line %d: %s", path, e.line, e.text);
    const json_t *list = json_is_array(root) ? root : json_object_get(root, "tolerance");
    int rc = json_is_array(list) ? 0 : twin_error_set(err, TWIN_EFORMAT, "%s: expected {\"tolerance\": [...]}", path);
    for (size_t i = 0; rc == 0 && i < json_array_size(list); i++) {
        json_t *item = json_array_get(list, i), *value;
        const char *key;
        struct tw_tolerance_rule *r = new_rule(t);
        if (!r)
            rc = twin_error_set(err, t->n >= RULES_MAX ? TWIN_ELIMIT : TWIN_ENOMEM, "%s: too many rules", path);
        else if (!json_is_object(item))
            rc = twin_error_set(err, TWIN_EFORMAT, "%s: rule %zu: expected an object", path, i + 1);
        json_object_foreach(item, key, value)
        {
            if (rc == 0 && !json_is_string(value) && !json_is_number(value))
                rc = twin_error_set(err, TWIN_EFORMAT, "%s: rule %zu: %s is neither a string nor a number", path, i + 1, key);
            else if (rc == 0)
                rc = set_key(r, key, json_string_value(value), json_number_value(value), path, err);
        }
    }
    json_decref(root);
    return rc;
}

struct toml_reading { struct tw_tolerance *t; const char *path; };

static int toml_begin(void *user, size_t line, struct twin_error *err)
{
    struct toml_reading *r = user;
    if (new_rule(r->t))
        return 0;
    return twin_error_set(err, r->t->n >= RULES_MAX ? TWIN_ELIMIT : TWIN_ENOMEM, "%s: line %zu: too many rules", r->path, line);
}

static int toml_key(void *user, const char *key, const struct tw_toml_value *v, size_t line, struct twin_error *err)
{
    struct toml_reading *r = user;
    if (v->type != TW_TOML_STRING && v->type != TW_TOML_NUMBER)
        return twin_error_set(err, TWIN_EFORMAT, "%s: line %zu: %s is neither a string nor a number", r->path, line, key);
    struct twin_error why = TWIN_ERROR_INIT;
    int rc = set_key(&r->t->rule[r->t->n - 1], key, v->type == TW_TOML_STRING ? v->text[0] : NULL, v->number, r->path, &why);
    return rc == 0 ? 0 : twin_error_set(err, rc, "line %zu of %s", line, why.message);
}

static int read_toml(char *data, const char *path, struct tw_tolerance *t, struct twin_error *err)
{
    struct toml_reading r = {t, path};
    return tw_toml_read(data, path, &(struct tw_toml_handler){"tolerance", toml_begin, toml_key, &r}, err);
}

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
        rc = twin_error_set(err, TWIN_ENOMEM, "out of memory reading %s", path);
    else if (memchr(data, '\0', bytes))
        rc = twin_error_set(err, TWIN_EFORMAT, "%s: not text: it holds a NUL byte", path);
    else if (data[start] == '{' || (data[start] == '[' && data[start + 1] != '['))
        rc = read_json(data, bytes, path, t, err);
    else
        rc = read_toml(data, path, t, err);
    for (size_t i = 0; rc == 0 && i < t->n; i++)
        if (!t->rule[i].pattern)
            rc = twin_error_set(err, TWIN_EFORMAT, "%s: rule %zu has no pattern, such as \"optimizer/weight/*\"", path, i + 1);
    if (rc == 0 && t->n == 0)
        rc = twin_error_set(err, TWIN_EFORMAT, "%s: no [[tolerance]] rule in it", path);
    tw_free(data);
    if (rc != 0)
        tw_tolerance_free(t);
    else
        *out = t;
    return rc;
}

const struct tw_tolerance_rule *tw_tolerance_for(const struct tw_tolerance *t, const char *phase, const char *kind, const char *name)
{
    char full[1024];
    snprintf(full, sizeof full, "%s/%s/%s", phase, kind, name);
    for (size_t i = 0; i < t->n; i++) /* the first that fits: special rules come before general ones */
        if (tw_glob(t->rule[i].pattern, full) || tw_glob(t->rule[i].pattern, name))
            return &t->rule[i];
    return NULL;
}

/* ---- judging a pair of processes */

struct judged { double worst; char *where; uint64_t measured, unmeasured; char *outside; };

static void set_once(struct tw_cmp *c, char **field, char *text)
{
    if (*field)
        tw_free(text);
    else
        tw_finding_set(c, field, text);
}

/* Statistics alone give a lower bound of the distance: the norms' difference. */
static bool surely_outside(const struct tw_tolerance_rule *rule, const struct tw_rec *a, const struct tw_rec *b)
{
    if (!(a->flags & b->flags & TWIN_REC_STATS))
        return false;
    if (a->stats.nan != b->stats.nan || a->stats.pos_inf != b->stats.pos_inf || a->stats.neg_inf != b->stats.neg_inf)
        return true;
    double x = sqrt(a->stats.sumsq), y = sqrt(b->stats.sumsq), distance = fabs(x - y);
    return distance > rule->abs * (1 + 1e-12) && distance > rule->rel_l2 * x * (1 + 1e-12);
}

static void judge_one(struct tw_cmp *c, const struct tw_diff *d, const struct tw_view *va, const struct tw_view *vb, struct judged *j)
{
    const struct tw_view *v;
    const struct tw_rec *r = tw_diff_rec(d, va, vb, &v);
    const char *phase = twin_phase_name(r->phase), *kind = twin_kind_name(r->kind), *name = tw_rec_name(v, r);
    const struct tw_tolerance_rule *rule = tw_tolerance_for(c->tolerance, phase, kind, name);
    if (!rule || d->type != TWIN_FINDING_VALUE) {
        set_once(c, &j->outside, tw_cmp_text(c, "%s/%s/%s at step %u: %s", phase, kind, name, r->step,
                                             rule ? "missing or of another shape in one run" : "no rule covers it"));
        return;
    }
    const struct tw_rec *a = &va->rec[d->a], *b = &vb->rec[d->b];
    double absolute, relative;
    bool exact;
    relative = tw_rec_distance(va, a, vb, b, &absolute, &exact);
    if (isnan(relative) && !surely_outside(rule, a, b)) {
        j->unmeasured++; /* no sketch at this step: judged where there is one */
        return;
    }
    double share = rule->rel_l2 > 0 ? relative / rule->rel_l2 : INFINITY;
    if (rule->abs > 0 && absolute / rule->abs < share)
        share = absolute / rule->abs;
    if (isnan(relative) || !(share <= 1)) {
        set_once(c, &j->outside, tw_cmp_text(c, "%s/%s/%s at step %u: relative L2 %.3g, allowed %.3g", phase, kind, name, r->step,
                                             relative, rule->rel_l2));
        return;
    }
    j->measured++;
    if (share > j->worst) {
        j->worst = share;
        tw_finding_set(c, &j->where, tw_cmp_text(c, "%s/%s/%s at step %u", phase, kind, name, r->step));
    }
}

int tw_tolerance_judge(struct tw_cmp *c, const struct tw_scan *s, bool *inside, struct twin_error *err)
{
    struct judged j = {.worst = -1};
    struct tw_steps ta = {0}, tb = {0};
    int rc = tw_steps_load(c, s->pair->a, &ta, err);
    if (rc == 0)
        rc = tw_steps_load(c, s->pair->b, &tb, err);
    uint64_t budget = JUDGE_STEPS;
    for (uint64_t step = s->step; rc == 0 && !j.outside; step++) {
        int64_t other = (int64_t)step + s->shift;
        bool finished = step < ta.n && other >= 0 && (uint64_t)other < tb.n;
        if ((!finished && step != s->step) || (c->o->steps_given && step >= c->o->steps) || budget-- == 0)
            break;
        if (finished && ta.step[step].known && tb.step[other].known && ta.step[step].hash == tb.step[other].hash)
            continue;
        struct tw_view va, vb;
        struct tw_stepdiff d;
        rc = tw_scan_step(c, s, (uint32_t)step, &va, &vb, &d, err);
        if (rc != 0)
            break;
        if (va.dropped + vb.dropped)
            set_once(c, &j.outside, tw_cmp_text(c, "step %llu has dropped records, which cannot be judged", (unsigned long long)step));
        for (size_t i = 0; i < d.count; i++)
            if (tw_diff_significant(&d.d[i]))
                judge_one(c, &d.d[i], &va, &vb, &j);
        tw_stepdiff_free(&d);
        tw_view_free(&va);
        tw_view_free(&vb);
    }
    *inside = rc == 0 && !j.outside && j.measured > 0;
    if (*inside)
        tw_cmp_note(c, "within tolerance: the largest uses %.2g of what is allowed (%s); %llu differences measured, %llu without a sketch",
                    j.worst, j.where ? j.where : "", (unsigned long long)j.measured, (unsigned long long)j.unmeasured);
    else if (rc == 0)
        tw_cmp_note(c, "outside the tolerance: %s", j.outside ? j.outside : "nothing could be measured: no sketch in the steps that differ");
    tw_free(j.where);
    tw_free(j.outside);
    tw_steps_free(&ta);
    tw_steps_free(&tb);
    return rc;
}
