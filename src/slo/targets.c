/* SPDX-License-Identifier: Apache-2.0 */
/* Targets: those of the design, or [[slo]] tables of a file, one target each. docs/slo.md has the
 * form. */
#include "slo.h"

#include "base.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define FILE_CAP ((size_t)1 << 20)
enum { TARGETS_MAX = 1000, WINDOW_DAYS = 30, WINDOW_DAYS_MAX = 3660 };
static const double DAY_S = 86400;

/* The targets of the design. NaN: the indicator has none unless a file gives one. */
static const double usual[] = {
    [TW_SLO_RUNS] = .95,     [TW_SLO_CHECKPOINTS] = .9, [TW_SLO_VARIANCE] = 1,
    [TW_SLO_FLAKES] = .02,   [TW_SLO_DATA] = 1,         [TW_SLO_OPERATORS] = 0,
    [TW_SLO_RUN_TIME] = .05, [TW_SLO_ROLLBACKS] = 1,    [TW_SLO_ARTIFACTS] = 1,
    [TW_SLO_BURN] = .25,     [TW_SLO_REPRODUCE] = NAN,  [TW_SLO_PROVENANCE] = NAN,
    [TW_SLO_RANKING] = NAN,
};
_Static_assert(sizeof usual / sizeof usual[0] == TW_SLO_IDS, "one for each");

static struct tw_slo_target usual_target(enum tw_slo_id id)
{
    return (struct tw_slo_target){
        .id = id, .target = usual[id], .limit = NAN, .window_s = WINDOW_DAYS * DAY_S};
}

int tw_slo_targets_default(struct tw_slo_targets *out, struct twin_error *err)
{
    *out = (struct tw_slo_targets){.item = tw_calloc(TW_SLO_IDS, sizeof *out->item)};
    if (!out->item)
        return tw_no_memory(err, "for the targets");
    for (size_t i = 0; i < TW_SLO_IDS; i++)
        if (!isnan(usual[i]))
            out->item[out->count++] = usual_target((enum tw_slo_id)i);
    return 0;
}

void tw_slo_targets_free(struct tw_slo_targets *t)
{
    for (size_t i = 0; i < t->count; i++) {
        tw_free(t->item[i].project);
        tw_free(t->item[i].family);
    }
    tw_free(t->item);
    *t = (struct tw_slo_targets){.count = 0};
}

int64_t tw_slo_since(const struct tw_slo_targets *t, int64_t until_ns)
{
    double longest = WINDOW_DAYS * DAY_S;
    for (size_t i = 0; i < t->count; i++)
        if (t->item[i].window_s > longest)
            longest = t->item[i].window_s;
    return until_ns - (int64_t)(longest * 1e9);
}

/* ---- the file */

/* The target that is being read is the last one. named: it has said which indicator it is of. */
struct reading {
    struct tw_slo_targets *t;
    const char *path;
    size_t line; /* where its table begins */
    bool named, given;
};

static int wrong_key(const struct reading *r, size_t line, const char *key, const char *expected,
                     struct twin_error *err)
{
    return twin_error_set(err, TWIN_EFORMAT, "%s: line %zu: %s: expected %s", r->path, line, key,
                          expected);
}

/* Is the table complete that ends here? */
static int finish_table(const struct reading *r, struct twin_error *err)
{
    if (!r->t->count)
        return 0;
    const struct tw_slo_target *t = &r->t->item[r->t->count - 1];
    if (!r->named)
        return wrong_key(r, r->line, "[[slo]]", "indicator = \"M1\", ... in the table", err);
    if (isnan(t->target))
        return wrong_key(r, r->line, "[[slo]]", "target = NUMBER: this indicator has no usual one",
                         err);
    return 0;
}

static int begin_table(void *user, size_t line, struct twin_error *err)
{
    struct reading *r = user;
    int rc = finish_table(r, err);
    if (rc != 0)
        return rc;
    if (r->t->count >= TARGETS_MAX)
        return twin_error_set(err, TWIN_ELIMIT, "%s: line %zu: more than %d targets", r->path, line,
                              TARGETS_MAX);
    struct tw_slo_target *grown = tw_reallocarray(r->t->item, r->t->count + 1, sizeof *r->t->item);
    if (!grown)
        return tw_no_memory(err, "reading %s", r->path);
    r->t->item = grown;
    grown[r->t->count++] = (struct tw_slo_target){
        .target = NAN, .limit = NAN, .window_s = WINDOW_DAYS * DAY_S};
    r->line = line;
    r->named = r->given = false;
    return 0;
}

static int take_indicator(struct reading *r, const struct tw_toml_value *v, size_t line,
                          struct twin_error *err)
{
    struct tw_slo_target *t = &r->t->item[r->t->count - 1];
    if (v->type != TW_TOML_STRING || tw_slo_parse(v->text[0], &t->id) != 0)
        return wrong_key(r, line, "indicator",
                         "one of \"M1\" to \"M10\", \"reproduce\", \"provenance\", \"ranking\"",
                         err);
    r->named = true;
    if (!r->given)
        t->target = usual[t->id];
    return 0;
}

static int take_pattern(const struct reading *r, const char *key, const struct tw_toml_value *v,
                        size_t line, char **out, struct twin_error *err)
{
    if (v->type != TW_TOML_STRING || !*v->text[0])
        return wrong_key(r, line, key, "a name or a pattern (* ? [..])", err);
    *out = tw_strdup(v->text[0]);
    return *out ? 0 : tw_no_memory(err, "reading %s", r->path);
}

/* A number in low to high, both included. */
static int take_number(const struct reading *r, const char *key, const struct tw_toml_value *v,
                       size_t line, double low, double high, double *out, struct twin_error *err)
{
    char expected[80];
    if (v->type == TW_TOML_NUMBER && v->number >= low && v->number <= high) {
        *out = v->number;
        return 0;
    }
    snprintf(expected, sizeof expected, "a number from %g to %g", low, high);
    return wrong_key(r, line, key, expected, err);
}

static int take_key(void *user, const char *key, const struct tw_toml_value *v, size_t line,
                    struct twin_error *err)
{
    struct reading *r = user;
    struct tw_slo_target *t = &r->t->item[r->t->count - 1];
    double n = 0;
    int rc;
    if (strcmp(key, "indicator") == 0)
        return take_indicator(r, v, line, err);
    if (strcmp(key, "project") == 0)
        return take_pattern(r, key, v, line, &t->project, err);
    if (strcmp(key, "family") == 0)
        return take_pattern(r, key, v, line, &t->family, err);
    if (strcmp(key, "target") == 0) {
        r->given = true;
        return take_number(r, key, v, line, -1, 1e9, &t->target, err);
    }
    if (strcmp(key, "limit") == 0)
        return take_number(r, key, v, line, 1e-300, 1e300, &t->limit, err);
    if (strcmp(key, "window_days") == 0) {
        rc = take_number(r, key, v, line, 0.01, WINDOW_DAYS_MAX, &n, err);
        t->window_s = rc == 0 ? n * DAY_S : t->window_s;
        return rc;
    }
    if (strcmp(key, "least") == 0) {
        rc = take_number(r, key, v, line, 1, 1e9, &n, err);
        t->least = rc == 0 ? (uint64_t)n : 0;
        return rc;
    }
    return wrong_key(r, line, key,
                     "one of the keys indicator, project, family, target, limit, window_days, "
                     "least",
                     err);
}

/* A share outside of 0 to 1 was meant as percent: said, not guessed. */
static int check_shares(const struct tw_slo_targets *t, const char *path, struct twin_error *err)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct tw_slo_target *x = &t->item[i];
        const bool share = x->id == TW_SLO_RUNS || x->id == TW_SLO_CHECKPOINTS ||
                           x->id == TW_SLO_FLAKES || x->id == TW_SLO_DATA ||
                           x->id == TW_SLO_ROLLBACKS || x->id == TW_SLO_ARTIFACTS ||
                           x->id == TW_SLO_BURN || x->id == TW_SLO_PROVENANCE;
        if (share && !(x->target >= 0 && x->target <= 1))
            return twin_error_set(err, TWIN_EFORMAT,
                                  "%s: target of %s: expected a share from 0 to 1 (95%% is 0.95), "
                                  "found %g",
                                  path, tw_slo_name(x->id), x->target);
    }
    return 0;
}

int tw_slo_targets_read(const char *path, struct tw_slo_targets *out, struct twin_error *err)
{
    struct reading r = {.t = out, .path = path};
    const struct tw_toml_handler h = {"slo", begin_table, take_key, &r};
    char *data = NULL;
    size_t n = 0;
    *out = (struct tw_slo_targets){.count = 0};
    int rc = tw_read_file(path, FILE_CAP, &data, &n, err);
    if (rc == 0 && strlen(data) != n)
        rc = twin_error_set(err, TWIN_EFORMAT, "%s: expected text, found a zero byte", path);
    rc = rc ? rc : tw_toml_read(data, path, &h, err);
    rc = rc ? rc : finish_table(&r, err);
    if (rc == 0 && !out->count)
        rc = twin_error_set(err, TWIN_EFORMAT,
                            "%s: expected at least one [[slo]] table, found none", path);
    rc = rc ? rc : check_shares(out, path, err);
    tw_free(data);
    return rc;
}
