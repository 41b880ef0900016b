/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it takes to be promoted, from a policy in TOML, and whether a version has it:
 *
 *     [[promote]]
 *     to = "production"
 *     models = "vision/ *"           # without the blank; default: all
 *     reproduced = 2                 # different runs that made this very artifact and agree
 *     signed = 2                     # different trusted keys that signed the artifact
 *     package_signed = 2             # different trusted keys that signed one package itself
 *     evidence = ["provenance", "package"]
 *     canary_hours = 24              # it is the canary, has been for so long, and passed
 *     tolerance = "SHA-256"          # runs that agree within this tolerance count, too
 *
 * The first table that fits the model and the stage counts. Each key that it has is one check; a
 * key that nobody knows is an error, since what was meant by it would not be checked.
 */
#include "registry_inside.h"

#include "base.h"
#include "content.h"
#include "phrase.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { EVIDENCE_MAX = 8, COUNT_MAX = 1000, HOURS_MAX = 100000 };
static const int64_t HOUR_NS = 3600 * INT64_C(1000000000);
static const char *const evidence_kinds[] = {"provenance", "package", "verdict", NULL};

/* One table. -1: it does not say. */
struct rule {
    bool given, canary;
    enum tw_stage to;
    char models[TW_REGISTRY_NAME_BYTES + 1];
    double reproduced, signed_by, package_signed, canary_hours;
    char tolerance[65];
    const char *evidence[EVIDENCE_MAX]; /* of evidence_kinds */
    size_t evidence_count;
};

/* The table that is read, and the one that fits. */
struct reading {
    const char *path, *model;
    enum tw_stage to;
    struct rule now, found;
    bool any, to_given;
    size_t line;
};

static int wrong(const struct reading *r, size_t line, const char *key, const char *expected,
                 struct twin_error *err)
{
    return twin_error_set(err, TWIN_EFORMAT, "%s: line %zu: %s: expected %s", r->path, line, key,
                          expected);
}

/* The table that ends here: is it the first that fits? */
static int end_table(struct reading *r, struct twin_error *err)
{
    if (!r->now.given)
        return 0;
    if (!r->to_given)
        return wrong(r, r->line, "[[promote]]", "to = \"canary\" or \"production\" in the table",
                     err);
    if (!r->any && r->now.to == r->to && tw_glob(r->now.models, r->model)) {
        r->found = r->now;
        r->any = true;
    }
    return 0;
}

static int begin_table(void *user, size_t line, struct twin_error *err)
{
    struct reading *r = user;
    int rc = end_table(r, err);
    r->now = (struct rule){.given = true,
                           .models = "*",
                           .reproduced = -1,
                           .signed_by = -1,
                           .package_signed = -1,
                           .canary_hours = -1};
    r->to_given = false;
    r->line = line;
    return rc;
}

static int take_number(const struct reading *r, const char *key, const struct tw_toml_value *v,
                       size_t line, double most, bool whole, double *out, struct twin_error *err)
{
    if (v->type != TW_TOML_NUMBER || !(v->number >= 0) || v->number > most ||
        (whole && v->number != (double)(uint64_t)v->number))
        return wrong(r, line, key, whole ? "a whole number from 0 to 1000" : "a number from 0 on",
                     err);
    *out = v->number;
    return 0;
}

static int take_evidence(struct reading *r, const struct tw_toml_value *v, size_t line,
                         struct twin_error *err)
{
    if (v->type != TW_TOML_STRINGS || v->count > EVIDENCE_MAX)
        return wrong(r, line, "evidence", "a list of \"provenance\", \"package\", \"verdict\"",
                     err);
    for (size_t i = 0; i < v->count; i++) {
        const char *kind = NULL;
        for (size_t j = 0; evidence_kinds[j]; j++)
            if (strcmp(v->text[i], evidence_kinds[j]) == 0)
                kind = evidence_kinds[j];
        if (!kind)
            return wrong(r, line, "evidence", "\"provenance\", \"package\" or \"verdict\"", err);
        r->now.evidence[r->now.evidence_count++] = kind;
    }
    return 0;
}

static int take_text(struct reading *r, const char *key, const struct tw_toml_value *v, size_t line,
                     struct twin_error *err)
{
    const char *text = v->type == TW_TOML_STRING ? v->text[0] : "";
    if (strcmp(key, "to") == 0) {
        if (!tw_stage_parse(text, &r->now.to) ||
            (r->now.to != TW_STAGE_CANARY && r->now.to != TW_STAGE_PRODUCTION))
            return wrong(r, line, key, "\"canary\" or \"production\"", err);
        r->to_given = true;
        return 0;
    }
    if (strcmp(key, "models") == 0) {
        if (!*text || strlen(text) > TW_REGISTRY_NAME_BYTES)
            return wrong(r, line, key, "a name or a pattern (* ? [..])", err);
        snprintf(r->now.models, sizeof r->now.models, "%s", text);
        return 0;
    }
    if (!tw_is_hex(text, 64))
        return wrong(r, line, key, "the SHA-256 of a tolerance file, 64 small digits", err);
    snprintf(r->now.tolerance, sizeof r->now.tolerance, "%s", text);
    return 0;
}

static int take_key(void *user, const char *key, const struct tw_toml_value *v, size_t line,
                    struct twin_error *err)
{
    struct reading *r = user;
    if (strcmp(key, "to") == 0 || strcmp(key, "models") == 0 || strcmp(key, "tolerance") == 0)
        return take_text(r, key, v, line, err);
    if (strcmp(key, "reproduced") == 0)
        return take_number(r, key, v, line, COUNT_MAX, true, &r->now.reproduced, err);
    if (strcmp(key, "signed") == 0)
        return take_number(r, key, v, line, COUNT_MAX, true, &r->now.signed_by, err);
    if (strcmp(key, "package_signed") == 0)
        return take_number(r, key, v, line, COUNT_MAX, true, &r->now.package_signed, err);
    if (strcmp(key, "canary_hours") == 0)
        return take_number(r, key, v, line, HOURS_MAX, false, &r->now.canary_hours, err);
    if (strcmp(key, "evidence") == 0)
        return take_evidence(r, v, line, err);
    return wrong(
        r, line, key,
        "to, models, reproduced, signed, package_signed, evidence, canary_hours or tolerance", err);
}

static int read_policy(char *text, struct reading *r, struct twin_error *err)
{
    const struct tw_toml_handler h = {"promote", begin_table, take_key, r};
    int rc = tw_toml_read(text, r->path, &h, err);
    rc = rc ? rc : end_table(r, err);
    if (rc == 0 && !r->any)
        rc = twin_error_set(err, TWIN_EINVAL,
                            "%s: no table [[promote]] is about %s and to = \"%s\": it does not say "
                            "what that takes",
                            r->path, r->model, tw_stage_name(r->to));
    return rc;
}

/* ---- checks */

static struct tw_promotion_check *add_check(struct tw_promotion *p, const char *name, bool passed)
{
    struct tw_promotion_check *c = &p->check[p->count++];
    *c = (struct tw_promotion_check){.name = name, .passed = passed};
    p->passed &= passed;
    return c;
}

static void check_reproduced(struct tw_promotion *p, const struct rule *r,
                             const struct tw_evidence_sum *s)
{
    const size_t runs = *r->tolerance ? s->within : s->runs;
    struct tw_promotion_check *c = add_check(p, "reproduced", runs >= r->reproduced);
    snprintf(c->wanted, sizeof c->wanted, "%.0f run%s that made it and agree", r->reproduced,
             tw_plural_s((uint64_t)r->reproduced));
    snprintf(c->found, sizeof c->found, "%zu%s%s", runs, !c->passed && *s->trouble ? "; " : "",
             c->passed ? "" : s->trouble);
}

static void check_signed(struct tw_promotion *p, const struct rule *r,
                         const struct tw_evidence_sum *s)
{
    struct tw_promotion_check *c = add_check(p, "signed", s->signers >= r->signed_by);
    snprintf(c->wanted, sizeof c->wanted, "%.0f trusted key%s that signed it", r->signed_by,
             tw_plural_s((uint64_t)r->signed_by));
    snprintf(c->found, sizeof c->found, "%zu%s%s", s->signers,
             !c->passed && *s->trouble ? "; " : "", c->passed ? "" : s->trouble);
}

static void check_package_signed(struct tw_promotion *p, const struct rule *r,
                                 const struct tw_evidence_sum *s)
{
    struct tw_promotion_check *c = add_check(p, "package_signed",
                                             s->package_signers >= r->package_signed);
    const char *why = *s->unsigned_why ? s->unsigned_why : s->trouble;
    snprintf(c->wanted, sizeof c->wanted, "%.0f trusted key%s that signed one package",
             r->package_signed, tw_plural_s((uint64_t)r->package_signed));
    snprintf(c->found, sizeof c->found, "%zu%s%s", s->package_signers,
             !c->passed && *why ? "; " : "", c->passed ? "" : why);
}

static void check_evidence(struct tw_promotion *p, const char *kind,
                           const struct tw_evidence_sum *s)
{
    size_t n = s->verdicts;
    if (strcmp(kind, "provenance") == 0)
        n = s->provenances;
    else if (strcmp(kind, "package") == 0)
        n = s->packages;
    struct tw_promotion_check *c = add_check(p, "evidence", n > 0);
    snprintf(c->wanted, sizeof c->wanted, "%s", kind);
    snprintf(c->found, sizeof c->found, "%zu%s%s", n, n == 0 && *s->trouble ? "; " : "",
             n ? "" : s->trouble);
}

static void check_canary(struct tw_promotion *p, const struct rule *r, const struct tw_version *v,
                         int64_t now_ns)
{
    const double hours = (double)(now_ns - v->moved_ns) / (double)HOUR_NS;
    const bool is_canary = v->stage == TW_STAGE_CANARY;
    const char *said = "nobody said whether it passed";
    if (v->canary)
        said = v->canary > 0 ? "passed" : "failed";
    struct tw_promotion_check *c = add_check(
        p, "canary", is_canary && v->canary == 1 && hours >= r->canary_hours);
    snprintf(c->wanted, sizeof c->wanted, "canary for %g hours, and passed", r->canary_hours);
    if (!is_canary)
        snprintf(c->found, sizeof c->found, "it is no canary");
    else
        snprintf(c->found, sizeof c->found, "canary for %.1f hours, %s", hours, said);
}

/* One file: its bytes have its digest, and its tensors theirs. Runs are held against a version by
 * its tensors, so those are what the manifest says only if they are what lies there. */
static int check_file(struct tw_store *s, const struct tw_artifact_file *f, struct twin_error *err)
{
    char path[32];
    struct twin_content c;
    /* read through and kept nowhere: what is sealed is to lie on no disk in plain */
    if (!*f->content)
        return tw_store_get_content(s, f->sha256, -1, err);
    int fd, rc = tw_store_open_content(s, f->sha256, &fd, err);
    if (rc != 0)
        return rc;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if ((rc = twin_content_read_tensors(path, &c, err)) == 0) {
        if (strcmp(c.content, f->content) != 0)
            rc = twin_error_set(err, TWIN_EFORMAT, "%.80s holds other tensors than were said",
                                f->path);
        twin_content_free(&c);
    }
    close(fd);
    return rc;
}

/* The contents themselves: a version is promoted that can be had. */
static int check_contents(struct tw_promotion *p, struct tw_registry *reg,
                          const struct tw_artifact *a, struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    size_t right = 0;
    for (size_t i = 0; i < a->count; i++) {
        int rc = check_file(reg->store, &a->file[i], &why);
        if (rc == TWIN_ENOMEM)
            return twin_error_set(err, rc, "%s", why.message);
        right += rc == 0;
    }
    struct tw_promotion_check *c = add_check(p, "contents", right == a->count);
    snprintf(c->wanted, sizeof c->wanted, "%zu file%s in the store, as brought", a->count,
             tw_plural_s(a->count));
    snprintf(c->found, sizeof c->found, "%zu%s%.200s", right, right < a->count ? "; " : "",
             right < a->count ? why.message : "");
    return 0;
}

int tw_promotion_judge(struct tw_registry *reg, const struct tw_model *m,
                       const struct tw_version *v, enum tw_stage to, char *policy,
                       const char *policy_name, const struct twin_trust *trust, int64_t now_ns,
                       struct tw_promotion *out, struct twin_error *err)
{
    struct reading r = {.path = policy_name, .model = m->name, .to = to};
    struct tw_evidence_sum sum;
    struct tw_artifact a;
    memset(out, 0, sizeof *out);
    out->to = to;
    out->passed = true;
    out->displaced = to == TW_STAGE_PRODUCTION ? m->production : m->canary;
    if (v->stage == to || v->stage == TW_STAGE_RETIRED || v->stage > to)
        return twin_error_set(
            err, TWIN_EINVAL, "%s@%llu is in stage %s and cannot be promoted to %s%s", m->name,
            (unsigned long long)v->number, tw_stage_name(v->stage), tw_stage_name(to),
            v->stage == TW_STAGE_RETIRED ? "; rollback brings a version back" : "");
    int rc = read_policy(policy, &r, err);
    rc = rc ? rc : tw_artifact_read(reg->store, v->artifact, &a, err);
    if (rc != 0)
        return rc;
    rc = tw_evidence_judge(reg->store, v, &a, trust, now_ns, r.found.tolerance, &sum, err);
    rc = rc ? rc : check_contents(out, reg, &a, err);
    if (rc == 0) {
        if (r.found.reproduced >= 0)
            check_reproduced(out, &r.found, &sum);
        if (r.found.signed_by >= 0)
            check_signed(out, &r.found, &sum);
        if (r.found.package_signed >= 0)
            check_package_signed(out, &r.found, &sum);
        for (size_t i = 0; i < r.found.evidence_count && i + 5 < TW_PROMOTION_CHECKS_MAX; i++)
            check_evidence(out, r.found.evidence[i], &sum);
        if (r.found.canary_hours >= 0)
            check_canary(out, &r.found, v, now_ns);
    }
    tw_artifact_free(&a);
    return rc;
}

json_t *tw_promotion_json(const struct tw_promotion *p)
{
    json_t *list = json_array();
    for (size_t i = 0; i < p->count && list; i++) {
        const struct tw_promotion_check *c = &p->check[i];
        if (json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:b}", "check", c->name,
                                                  "wanted", c->wanted, "found", c->found, "passed",
                                                  c->passed)) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}
