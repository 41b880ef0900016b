/* SPDX-License-Identifier: Apache-2.0 */
/* A precision policy: [[precision]] tables in a small part of TOML, each of them one rule.
 * docs/precision.md has the form. */
#include "precision_inside.h"

#include "base.h"

#include <stdlib.h>
#include <string.h>
#include <twin/fingerprint.h>

#define FILE_CAP ((size_t)1 << 20)
enum { RULES_MAX = 1000 };

/* Keys of a policy and the settings that agents tell (docs/format/run-folder.md). Both settings of
 * a key must be as the rule says. */
static const struct tw_precision_switch switches[] = {
    {"tf32", {"matmul.allow_tf32", "cudnn.allow_tf32"}, true},
    {"reduced_precision_reduction", {"matmul.reduced_fp16", "matmul.reduced_bf16"}, true},
    {"float32_matmul_precision", {"float32_matmul_precision"}, false},
    {"default_dtype", {"default_dtype"}, false},
};
/* All keys: the first two describe a rule, of the others it has one. */
static const char *const keys[] = {"pattern",
                                   "reason",
                                   "dtypes",
                                   "autocast",
                                   "grad_scaler",
                                   "tf32",
                                   "reduced_precision_reduction",
                                   "float32_matmul_precision",
                                   "default_dtype",
                                   NULL};

const struct tw_precision_switch *tw_precision_switch(const char *key)
{
    for (size_t i = 0; i < sizeof switches / sizeof switches[0]; i++)
        if (strcmp(switches[i].key, key) == 0)
            return &switches[i];
    return NULL;
}

bool tw_precision_allows(const struct tw_precision_rule *r, const char *word)
{
    for (size_t i = 0; i < r->allowed_count; i++)
        if (strcmp(r->allowed[i], word) == 0)
            return true;
    return false;
}

/* What the reader of the file knows between two lines. The rule that is being read is the last
 * one. */
struct reading {
    struct twin_precision_policy *p;
    const char *path;
};

static int begin_rule(void *user, size_t line, struct twin_error *err)
{
    struct reading *r = user;
    struct tw_precision_rule *grown =
        r->p->count < RULES_MAX ? tw_reallocarray(r->p->rule, r->p->count + 1, sizeof *grown)
                                : NULL;
    if (!grown)
        return r->p->count < RULES_MAX
                   ? tw_no_memory(err, "reading %s", r->path)
                   : twin_error_set(err, TWIN_ELIMIT, "%s: line %zu: more than %d rules", r->path,
                                    line, RULES_MAX);
    r->p->rule = grown;
    grown[r->p->count++] = (struct tw_precision_rule){.line = line};
    return 0;
}

/* ---- values */

/* Says with file and line what a key expects. TWIN_EFORMAT. */
static int wrong_key(const struct reading *r, size_t line, const char *key, const char *expected,
                     struct twin_error *err)
{
    return twin_error_set(err, TWIN_EFORMAT, "%s: line %zu: %s: expected %s", r->path, line, key,
                          expected);
}

/* The words that a rule allows. 0 or TWIN_ENOMEM; the rule owns what was copied. */
static int take_words(struct tw_precision_rule *rule, const struct tw_toml_value *v,
                      const char *path, struct twin_error *err)
{
    rule->allowed = tw_calloc(v->count + 1, sizeof *rule->allowed);
    for (size_t i = 0; rule->allowed && i < v->count; i++)
        if (!(rule->allowed[rule->allowed_count++] = tw_strdup(v->text[i])))
            return tw_no_memory(err, "reading %s", path);
    return rule->allowed ? 0 : tw_no_memory(err, "reading %s", path);
}

/* The words as bits, so that a record is judged by one look. */
static int take_dtypes(const struct reading *r, struct tw_precision_rule *rule, size_t line,
                       struct twin_error *err)
{
    for (size_t i = 0; i < rule->allowed_count; i++) {
        int found = -1;
        _Static_assert(TWIN_DTYPE_COUNT <= 32, "a bit for each type");
        for (int d = 0; d < TWIN_DTYPE_COUNT && found < 0; d++)
            found = strcmp(rule->allowed[i], twin_dtype_name((enum twin_dtype)d)) == 0 ? d : -1;
        if (found < 0) {
            char *safe = tw_printable(rule->allowed[i], strlen(rule->allowed[i]));
            int rc = twin_error_set(err, TWIN_EFORMAT,
                                    "%s: line %zu: dtypes: expected names as f64, f32, f16, bf16, "
                                    "f8_e4m3fn, c64, found \"%.40s\"",
                                    r->path, line, safe ? safe : "");
            tw_free(safe);
            return rc;
        }
        rule->dtypes |= 1u << found;
    }
    return 0;
}

/* Does the rule use words that its key knows? Keys that are not in the table take any. */
static int check_words(const struct reading *r, struct tw_precision_rule *rule, size_t line,
                       struct twin_error *err)
{
    static const struct {
        const char *key, *expected, *word[5];
    } known[] = {
        {"grad_scaler", "\"required\" or \"off\"", {"required", "off"}},
        {"tf32", "\"on\" or \"off\"", {"on", "off"}},
        {"reduced_precision_reduction", "\"on\" or \"off\"", {"on", "off"}},
        {"float32_matmul_precision",
         "\"highest\", \"high\", \"medium\", or a list of them",
         {"highest", "high", "medium"}},
        {"autocast",
         "\"off\", \"float16\", \"bfloat16\", \"float32\", or a list of them",
         {"off", "float16", "bfloat16", "float32"}},
    };
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++)
        for (size_t i = 0; strcmp(known[k].key, rule->key) == 0 && i < rule->allowed_count; i++) {
            bool ok = false;
            for (size_t w = 0; known[k].word[w]; w++)
                ok |= strcmp(known[k].word[w], rule->allowed[i]) == 0;
            if (!ok)
                return wrong_key(r, line, rule->key, known[k].expected, err);
        }
    return 0;
}

static enum tw_precision_about about_of(const char *key)
{
    if (strcmp(key, "dtypes") == 0)
        return TW_ABOUT_DTYPES;
    if (strcmp(key, "autocast") == 0)
        return TW_ABOUT_AUTOCAST;
    return strcmp(key, "grad_scaler") == 0 ? TW_ABOUT_SCALER : TW_ABOUT_SETTING;
}

/* The one key by which a rule speaks of something. Switches that have two settings, and the scaler,
 * take a single word: "on or off" would allow everything. */
static int take_subject(const struct reading *r, struct tw_precision_rule *rule, const char *key,
                        const struct tw_toml_value *v, size_t line, struct twin_error *err)
{
    const bool list = v->type == TW_TOML_STRINGS;
    const bool single = strcmp(key, "grad_scaler") == 0 ||
                        (tw_precision_switch(key) && tw_precision_switch(key)->setting[1]);
    if (rule->key)
        return twin_error_set(err, TWIN_EFORMAT,
                              "%s: line %zu: a rule speaks of one thing, and this one of %s and "
                              "%s; begin another [[precision]]",
                              r->path, line, rule->key, key);
    if (!(v->type == TW_TOML_STRING || list) || v->count == 0 || (single && list))
        return wrong_key(r, line, key,
                         single ? "a string in quotes"
                                : "a string in quotes, or a list of them on one line",
                         err);
    rule->about = about_of(key);
    rule->key = tw_strdup(key);
    int rc = rule->key ? take_words(rule, v, r->path, err)
                       : tw_no_memory(err, "reading %s", r->path);
    rc = rc ? rc : check_words(r, rule, line, err);
    if (rc == 0 && rule->about == TW_ABOUT_DTYPES)
        rc = take_dtypes(r, rule, line, err);
    rule->required = rc == 0 && rule->about == TW_ABOUT_SCALER &&
                     tw_precision_allows(rule, "required");
    return rc;
}

static int key(void *user, const char *name, const struct tw_toml_value *v, size_t line,
               struct twin_error *err)
{
    const struct reading *r = user;
    struct tw_precision_rule *rule = &r->p->rule[r->p->count - 1];
    size_t i = 0;
    while (keys[i] && strcmp(keys[i], name) != 0)
        i++;
    if (!keys[i]) {
        const char *near = tw_nearest(name, keys);
        const char *hint = near ? "; did you mean " : "";
        return twin_error_set(
            err, TWIN_EFORMAT,
            "%s: line %zu: unknown key %s%s%s; a rule has pattern, reason, and one of dtypes, "
            "autocast, grad_scaler, tf32, reduced_precision_reduction, float32_matmul_precision, "
            "default_dtype",
            r->path, line, name, hint, near ? near : "");
    }
    if (i >= 2)
        return take_subject(r, rule, name, v, line, err);
    if (v->type != TW_TOML_STRING)
        return wrong_key(r, line, name, "a string in quotes", err);
    char **field = i == 0 ? &rule->pattern : &rule->reason;
    *field = tw_strdup(v->text[0]);
    return *field ? 0 : tw_no_memory(err, "reading %s", r->path);
}

/* ---- the file */

/* What only the whole file can show: rules that say nothing, or have a pattern where there are no
 * tensors. */
static int complete(const struct twin_precision_policy *p, const char *path, struct twin_error *err)
{
    if (p->count == 0)
        return twin_error_set(err, TWIN_EFORMAT,
                              "%s: expected at least one [[precision]] rule, found none", path);
    for (size_t i = 0; i < p->count; i++) {
        if (p->rule[i].about == TW_ABOUT_NOTHING)
            return twin_error_set(err, TWIN_EFORMAT,
                                  "%s: line %zu: the rule says nothing: expected dtypes, autocast, "
                                  "grad_scaler, tf32, ...",
                                  path, p->rule[i].line);
        if (p->rule[i].pattern && p->rule[i].about != TW_ABOUT_DTYPES)
            return twin_error_set(
                err, TWIN_EFORMAT,
                "%s: line %zu: pattern chooses tensors: it goes with dtypes, not with %s", path,
                p->rule[i].line, p->rule[i].key);
    }
    return 0;
}

void twin_precision_free(struct twin_precision_policy *p)
{
    for (size_t i = 0; p && i < p->count; i++) {
        struct tw_precision_rule *r = &p->rule[i];
        for (size_t k = 0; k < r->allowed_count; k++)
            tw_free(r->allowed[k]);
        tw_free(r->allowed);
        tw_free(r->key);
        tw_free(r->pattern);
        tw_free(r->reason);
    }
    if (p)
        tw_free(p->rule);
    tw_free(p);
}

int tw_precision_parse(char *data, size_t n, const char *path, struct twin_precision_policy **out,
                       struct twin_error *err)
{
    struct reading r = {tw_calloc(1, sizeof *r.p), path};
    const struct tw_toml_handler h = {"precision", begin_rule, key, &r};
    int rc = r.p ? 0 : tw_no_memory(err, "reading %s", path);
    *out = NULL;
    if (rc == 0 && strlen(data) != n)
        rc = twin_error_set(err, TWIN_EFORMAT, "%s: expected text, found a NUL byte", path);
    rc = rc ? rc : tw_toml_read(data, path, &h, err);
    rc = rc ? rc : complete(r.p, path, err);
    if (rc != 0)
        twin_precision_free(r.p);
    else
        *out = r.p;
    return rc;
}

int twin_precision_read(const char *path, struct twin_precision_policy **out,
                        struct twin_error *err)
{
    char *data = NULL;
    size_t n;
    *out = NULL;
    int rc = tw_read_file(path, FILE_CAP, &data, &n, err);
    rc = rc ? rc : tw_precision_parse(data, n, path, out, err);
    tw_free(data);
    return rc;
}
