/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun registry mirror: the stages of the signed log, and the aliases of an MLflow server. The
 * log decides. What is otherwise in MLflow is a finding; --push makes MLflow say what the log says,
 * and --pull takes MLflow's aliases as wishes: each becomes a promotion if the policy is met, in an
 * entry that somebody signs and that names its source, or it stays a finding.
 */
#include "registry.h"

#include "say.h"
#include "terminal.h"

#include "base.h"
#include "json_text.h"
#include "phrase.h"

#include "src/export/trackers.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* ---- what the log says, for MLflow */

/* The checks of the last promotion of this version: "production: contents pass, signed pass". */
static json_t *verdict_of(const struct tw_registry *r, const struct tw_model *m,
                          const struct tw_version *v)
{
    struct tw_buf b = {0};
    const json_t *checks = NULL;
    for (size_t i = r->count; i-- > 0 && !checks;) {
        const struct tw_entry *e = &r->entry[i];
        if (e->kind != TW_ENTRY_MOVE || e->version != v->number || strcmp(e->model, m->name) != 0)
            continue;
        if ((checks = json_object_get(e->details, "checks")))
            tw_buf_printf(&b, "%s:", tw_stage_name(e->to));
    }
    for (size_t i = 0; i < json_array_size(checks); i++) {
        const json_t *c = json_array_get(checks, i);
        const char *name = json_string_value(json_object_get(c, "check"));
        tw_buf_printf(&b, "%s %s %s", i ? "," : "", name ? name : "?",
                      json_is_true(json_object_get(c, "passed")) ? "pass" : "FAIL");
    }
    if (!checks)
        tw_buf_puts(&b, "never promoted");
    json_t *text = b.failed ? NULL : json_string(b.data);
    tw_buf_free(&b);
    return text;
}

/* "reproduced 2, package 1" */
static json_t *evidence_of(const struct tw_version *v)
{
    struct tw_buf b = {0};
    for (size_t i = 0; i < v->evidence_count; i++) {
        size_t same = 0;
        bool first = true;
        for (size_t j = 0; j < v->evidence_count; j++) {
            const bool alike = strcmp(v->evidence[j].kind, v->evidence[i].kind) == 0;
            same += alike;
            first &= !alike || j >= i;
        }
        if (first)
            tw_buf_printf(&b, "%s%s %zu", b.len ? ", " : "", v->evidence[i].kind, same);
    }
    if (!v->evidence_count)
        tw_buf_puts(&b, "none");
    json_t *text = b.failed ? NULL : json_string(b.data);
    tw_buf_free(&b);
    return text;
}

static json_t *version_of(const struct tw_registry *r, const struct tw_model *m,
                          const struct tw_version *v)
{
    const uint64_t entry = v->moved_by ? v->moved_by : v->added_by;
    char number[24];
    snprintf(number, sizeof number, "%" PRIu64, v->number);
    return json_pack("{s:I, s:s, s:{s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o}}", "version",
                     (json_int_t)v->number, "artifact", v->artifact, "tags", "twinrun.registry",
                     r->id, "twinrun.model", m->name, "twinrun.version", number, "twinrun.artifact",
                     v->artifact, "twinrun.stage", tw_stage_name(v->stage), "twinrun.entry",
                     entry && entry <= r->count ? r->entry[entry - 1].digest : "",
                     "twinrun.verdict", verdict_of(r, m, v), "twinrun.evidence", evidence_of(v));
}

static json_t *model_of(const struct tw_registry *r, const struct tw_model *m)
{
    json_t *versions = json_array();
    for (size_t i = 0; i < m->count; i++)
        if (json_array_append_new(versions, version_of(r, m, &m->version[i])) != 0) {
            json_decref(versions);
            return NULL;
        }
    return json_pack("{s:s, s:I, s:I, s:o}", "name", m->name, "canary", (json_int_t)m->canary,
                     "production", (json_int_t)m->production, "versions", versions);
}

/* The request; only: one model, or NULL. */
static json_t *request_of(const struct tw_registry_use *u, const struct tw_model *only)
{
    json_t *models = json_array();
    for (size_t i = 0; i < u->r.models; i++)
        if ((!only || only == &u->r.model[i]) &&
            json_array_append_new(models, model_of(&u->r, &u->r.model[i])) != 0) {
            json_decref(models);
            return NULL;
        }
    return json_pack("{s:o, s:b, s:s, s:o}", "mirror", tw_json_text(u->a->mlflow), "push",
                     u->a->push, "registry", u->r.id, "models", models);
}

/* ---- --pull */

/* Why MLflow's wish cannot be a promotion; NULL: it may be one. */
static const char *no_promotion(const struct tw_version *v, enum tw_stage to)
{
    if (v->stage == TW_STAGE_RETIRED)
        return "it is retired: twinrun registry rollback brings a version back";
    if (v->stage == TW_STAGE_PRODUCTION && to == TW_STAGE_CANARY)
        return "it is in production: twinrun registry rollback brings another one there";
    return NULL;
}

/* One finding as a wish. 0: it came true; 1: it stays a finding; else the exit code. */
static int pull_one(struct tw_registry_use *u, const json_t *finding)
{
    const struct tw_registry_args *given = u->a;
    const char *name = json_string_value(json_object_get(finding, "model"));
    const char *alias = json_string_value(json_object_get(finding, "alias"));
    const json_int_t number = json_integer_value(json_object_get(finding, "version"));
    const struct tw_model *m = name ? tw_registry_model(&u->r, name) : NULL;
    enum tw_stage to = TW_STAGE_CANARY;
    if (!m || !alias || !tw_stage_parse(alias, &to) || number < 1 || (uint64_t)number > m->count)
        return TW_EXIT_DIFFER;
    const struct tw_version *v = &m->version[number - 1];
    const char *no = no_promotion(v, to);
    if (no) {
        tw_say("%s@%llu is not promoted: %s", name, (unsigned long long)number, no);
        return TW_EXIT_DIFFER;
    }
    char *why = tw_printf("MLflow at %s has it as %s%s%s", given->mlflow, alias,
                          given->why ? ": " : "", given->why ? given->why : "");
    if (!why)
        return tw_trouble(NULL, "registry mirror: no memory");
    struct tw_registry_args asked = *given;
    asked.to = alias;
    asked.why = why;
    u->a = &asked;
    int rc = tw_registry_judge_and_promote(u, m, v);
    tw_store_release(u->r.store);
    u->a = given;
    tw_free(why);
    return rc;
}

/* What --pull did. */
struct pulling {
    size_t count;               /* promotions that were written */
    json_t *promoted, *refused; /* with --json: each as promote says it */
};

/* All of them. 0, or the exit code of a trouble. */
static int pull_all(struct tw_registry_use *u, const json_t *findings, struct pulling *p)
{
    int rc = 0;
    for (size_t i = 0; i < json_array_size(findings) && rc == 0; i++) {
        u->told = u->a->json ? p->promoted : NULL;
        const size_t had = json_array_size(p->promoted);
        const int pulled = pull_one(u, json_array_get(findings, i));
        u->told = NULL;
        p->count += pulled == 0;
        if (pulled == TW_EXIT_DIFFER && json_array_size(p->promoted) > had) {
            json_array_append(p->refused, json_array_get(p->promoted, had));
            json_array_remove(p->promoted, had);
        }
        if (pulled != 0 && pulled != TW_EXIT_DIFFER)
            rc = pulled;
    }
    return rc;
}

/* ---- the verb */

static int say_result(const struct tw_registry_use *u, const json_t *result,
                      const struct pulling *p)
{
    const json_t *findings = json_object_get(result, "findings");
    const json_t *wrote = json_object_get(result, "wrote");
    const size_t count = json_array_size(findings);
    const int rc = count ? TW_EXIT_DIFFER : 0;
    if (u->a->json) {
        json_t *copy = json_deep_copy(result);
        if (!copy || json_object_set_new(copy, "schema", json_string("twinrun.registry/1")) != 0 ||
            json_object_set_new(copy, "verb", json_string("mirror")) != 0 ||
            json_object_set(copy, "pulled", p->promoted) != 0 ||
            json_object_set(copy, "refused", p->refused) != 0) {
            json_decref(copy);
            copy = NULL;
        }
        const int printed = tw_json_print(copy);
        return printed ? printed : rc;
    }
    for (size_t i = 0; i < json_array_size(wrote); i++)
        tw_put("  wrote    %s\n", json_string_value(json_array_get(wrote, i)));
    for (size_t i = 0; i < count; i++)
        tw_put("  finding  %s\n",
               json_string_value(json_object_get(json_array_get(findings, i), "what")));
    if (count && p->count)
        tw_put("%zu promotion%s written, and MLflow is not told of %s: %zu finding%s are left; "
               "--push makes MLflow say what the signed log says\n",
               p->count, p->count == 1 ? " was" : "s were", p->count == 1 ? "it" : "them", count,
               tw_plural_s(count));
    else if (count)
        tw_put("%zu finding%s: MLflow does not say what the signed log says%s\n", count,
               tw_plural_s(count),
               u->a->push ? "" : "; --push makes it, --pull takes its aliases as wishes");
    else
        tw_put("MLflow says what the signed log says\n");
    return rc;
}

/* Asks MLflow. 0 with *result (json_decref), or the exit code. */
static int ask_mlflow(struct tw_registry_use *u, const struct tw_model *only, json_t **result)
{
    struct twin_error err = TWIN_ERROR_INIT;
    json_t *request = request_of(u, only);
    int rc = request ? 0 : tw_no_memory(&err, "for MLflow");
    *result = NULL;
    tw_interrupt_hold();
    rc = rc ? rc : tw_mirror_models(request, u->a->python, &tw_terminal, result, &err);
    json_decref(request);
    if (rc == TWIN_EINTR) {
        tw_say("registry mirror: interrupted; the same again does what is missing");
        return TW_EXIT_INTERRUPTED;
    }
    if (rc != 0)
        return err.code ? tw_trouble(&err, "registry mirror") : TW_EXIT_TROUBLE;
    return 0;
}

/* Once more behind a promotion: what is printed is how they stand then. */
static int mirror_models(struct tw_registry_use *u, const struct tw_model *only)
{
    struct pulling p = {0, json_array(), json_array()};
    json_t *result = NULL;
    int rc = p.promoted && p.refused ? ask_mlflow(u, only, &result)
                                     : tw_trouble(NULL, "registry mirror: no memory");
    int pulled = 0;
    if (rc == 0 && u->a->pull)
        pulled = pull_all(u, json_object_get(result, "findings"), &p);
    if (rc == 0 && p.count > 0 && pulled == 0) {
        json_decref(result);
        result = NULL;
        rc = ask_mlflow(u, only, &result);
    }
    if (p.count > 0 && (rc != 0 || pulled != 0))
        tw_say("registry mirror: some were written: %zu promotion%s in the log and stay%s there; "
               "the same again does what is missing",
               p.count, p.count == 1 ? " is" : "s are", p.count == 1 ? "s" : "");
    /* behind a trouble as it was found: what was written is in it */
    if (rc == 0 && (pulled == 0 || u->a->json))
        rc = say_result(u, result, &p);
    json_decref(result);
    json_decref(p.promoted);
    json_decref(p.refused);
    return pulled ? pulled : rc;
}

int tw_registry_mirror(const struct tw_registry_args *a, char *const *operands, size_t count)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_registry_use u;
    const struct tw_model *m = NULL;
    const struct tw_version *v = NULL;
    if (!a->mlflow)
        return tw_bad_use("registry", "mirror: expected --mlflow URL");
    if (a->push && a->pull)
        return tw_bad_use("registry", "mirror: --push and --pull: expected one of them");
    if (a->pull && !a->keys.count)
        return tw_bad_use("registry",
                          "mirror --pull writes entries: expected --key KEY that signs them");
    int rc = tw_registry_begin_writing("mirror", a, &u);
    if (rc >= 0)
        return rc;
    if (count && tw_registry_find(&u.r, operands[0], &m, &v, &err) != 0)
        rc = tw_trouble(&err, "registry mirror");
    else if (v)
        rc = tw_bad_use("registry", "mirror: expected a model, found one version of it");
    else
        rc = mirror_models(&u, m);
    tw_registry_end(&u);
    return rc;
}
