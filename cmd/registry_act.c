/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs of twinrun registry that write: each makes sure of what it is about to say, and ends in
 * one entry. Contents are brought before the entry that names them, so that no entry names what is
 * not there.
 */
#include "registry.h"

#include "runs.h"
#include "say.h"

#include "base.h"
#include "phrase.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POLICY_BYTES = 1 << 20 };
static const int64_t DAY_NS = 86400 * INT64_C(1000000000);

/* ---- what all of them do */

static char *reason(const struct tw_registry_args *a)
{
    return (char *)(uintptr_t)(a->why ? a->why : "");
}

struct tw_entry tw_registry_entry_of(enum tw_entry_kind kind, const struct tw_registry_args *a,
                                     const struct tw_model *m, const struct tw_version *v)
{
    struct tw_entry e = {.kind = kind, .model = m->name, .version = v->number, .why = reason(a)};
    memcpy(e.artifact, v->artifact, sizeof e.artifact);
    return e;
}

int tw_registry_begin_writing(const char *verb, const struct tw_registry_args *a,
                              struct tw_registry_use *u)
{
    struct twin_error err = TWIN_ERROR_INIT;
    int rc = tw_registry_begin(verb, a, u);
    if (rc >= 0 ||
        (tw_registry_may_add(&u->r, strcmp(verb, "vouch") == 0 ? TW_ENTRY_VOUCH : TW_ENTRY_MOVE,
                             &err) == 0 &&
         tw_registry_unseal(&u->r, &a->identities, &err) == 0))
        return rc;
    tw_registry_end(u);
    return tw_trouble(&err, "registry %s", verb);
}

int tw_registry_add_entry(struct tw_registry_use *u, struct tw_entry *e)
{
    struct twin_error err = TWIN_ERROR_INIT;
    int rc = tw_registry_append(&u->r, e, u->a->keys.items, u->a->keys.count, &err);
    if (rc == TWIN_EBUSY)
        return tw_trouble(NULL,
                          "registry %s: nothing was written: somebody added entry %llu meanwhile; "
                          "look at the log, and try again",
                          u->verb, (unsigned long long)e->number);
    if (rc != 0 && strstr(err.message, TW_LOG_MAYBE))
        return tw_trouble(&err, "registry %s", u->verb);
    return rc ? tw_trouble(&err, "registry %s: nothing was written", u->verb) : -1;
}

/* The version that an operand names; a model alone: the version in `stage`, or the newest. -1, or
 * the exit code. */
static int find(struct tw_registry_use *u, const char *spec, const enum tw_stage *stage,
                const struct tw_model **m, const struct tw_version **v)
{
    struct twin_error err = TWIN_ERROR_INIT;
    if (tw_registry_find(&u->r, spec, m, v, &err) != 0)
        return tw_trouble(&err, "registry %s", u->verb);
    if (*v)
        return -1;
    if (!stage) {
        *v = &(*m)->version[(*m)->count - 1];
        return -1;
    }
    const uint64_t number = *stage == TW_STAGE_CANARY ? (*m)->canary : (*m)->production;
    if (!number)
        return tw_trouble(NULL, "registry %s: %s has no version in stage %s", u->verb, (*m)->name,
                          tw_stage_name(*stage));
    *v = &(*m)->version[number - 1];
    return -1;
}

/* Brings the evidence of the options into the store, and its names into the entry. */
static int bring_evidence(struct tw_registry_use *u, const struct tw_artifact *a,
                          struct tw_entry *e, struct twin_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < u->a->evidence.count && rc == 0; i++) {
        struct tw_evidence v;
        rc = tw_evidence_store(u->r.store, u->a->evidence.items[i], a, &v, err);
        rc = rc ? rc : tw_evidence_into(e, &v, err);
    }
    return rc ? rc : tw_sealed_into(&u->r, e, err);
}

/* ---- add, attach */

static int add_version(struct tw_registry_use *u, const char *name, const char *path)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_artifact artifact;
    const struct tw_model *m = tw_registry_model(&u->r, name);
    char said[256];
    struct tw_entry e = {.kind = TW_ENTRY_ADD,
                         .model = (char *)(uintptr_t)name,
                         .version = m ? m->count + 1 : 1,
                         .why = reason(u->a)};
    int rc = tw_artifact_take(path, &artifact, &err);
    if (rc != 0)
        return tw_trouble(&err, "registry add: nothing was added");
    memcpy(e.artifact, artifact.digest, sizeof e.artifact);
    rc = tw_store_hold(u->r.store, false, &err);
    rc = rc ? rc : tw_artifact_store(&artifact, path, u->r.store, &err);
    rc = rc ? rc : bring_evidence(u, &artifact, &e, &err);
    rc = rc ? tw_trouble(&err, "registry add: nothing was added") : tw_registry_add_entry(u, &e);
    tw_store_release(u->r.store);
    json_decref(e.details);
    snprintf(said, sizeof said, "%s@%llu is a candidate: %zu file%s, artifact %.12s", name,
             (unsigned long long)e.version, artifact.count, tw_plural_s(artifact.count),
             artifact.digest);
    tw_artifact_free(&artifact);
    return rc < 0 ? tw_registry_written(u, said) : rc;
}

static int add(const struct tw_registry_args *a, char *const *operands, size_t count)
{
    struct tw_registry_use u;
    (void)count;
    if (!tw_model_name_ok(operands[0]))
        return tw_bad_use("registry",
                          "add: expected a name of up to %d letters, digits and . _ - /, found "
                          "\"%s\"",
                          TW_REGISTRY_NAME_BYTES, operands[0]);
    int rc = tw_registry_begin_writing("add", a, &u);
    if (rc >= 0)
        return rc;
    rc = add_version(&u, operands[0], operands[1]);
    tw_registry_end(&u);
    return rc;
}

/* Evidence for a version that is there; of a canary, with what became of it. */
static int attach_to(struct tw_registry_use *u, struct tw_entry *e, const struct tw_version *v,
                     const char *said)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_artifact artifact;
    int rc = tw_artifact_read(u->r.store, v->artifact, &artifact, &err);
    if (rc != 0)
        return tw_trouble(&err, "registry %s: nothing was written", u->verb);
    rc = tw_store_hold(u->r.store, false, &err);
    rc = rc ? rc : bring_evidence(u, &artifact, e, &err);
    rc = rc ? tw_trouble(&err, "registry %s: nothing was written", u->verb)
            : tw_registry_add_entry(u, e);
    tw_store_release(u->r.store);
    json_decref(e->details);
    tw_artifact_free(&artifact);
    return rc < 0 ? tw_registry_written(u, said) : rc;
}

static int attach(const struct tw_registry_args *a, char *const *operands, size_t count)
{
    const struct tw_model *m;
    const struct tw_version *v;
    struct tw_registry_use u;
    char said[256];
    (void)count;
    if (!a->evidence.count)
        return tw_bad_use("registry", "attach: expected --evidence PATH");
    int rc = tw_registry_begin_writing("attach", a, &u);
    if (rc >= 0)
        return rc;
    rc = find(&u, operands[0], NULL, &m, &v);
    if (rc < 0) {
        struct tw_entry e = tw_registry_entry_of(TW_ENTRY_ATTACH, a, m, v);
        snprintf(said, sizeof said, "%s@%llu has %zu piece%s of evidence more", m->name,
                 (unsigned long long)v->number, a->evidence.count, tw_plural_s(a->evidence.count));
        rc = attach_to(&u, &e, v, said);
    }
    tw_registry_end(&u);
    return rc;
}

static int canary(const struct tw_registry_args *a, char *const *operands, size_t count)
{
    static const enum tw_stage stage = TW_STAGE_CANARY;
    const struct tw_model *m;
    const struct tw_version *v;
    struct tw_registry_use u;
    char said[256];
    const bool passed = strcmp(operands[1], "passed") == 0;
    (void)count;
    if (!passed && strcmp(operands[1], "failed") != 0)
        return tw_bad_use("registry", "canary: expected passed or failed, found \"%s\"",
                          operands[1]);
    int rc = tw_registry_begin_writing("canary", a, &u);
    if (rc >= 0)
        return rc;
    rc = find(&u, operands[0], &stage, &m, &v);
    if (rc < 0) {
        struct tw_entry e = tw_registry_entry_of(TW_ENTRY_CANARY, a, m, v);
        e.passed = passed;
        snprintf(said, sizeof said, "%s@%llu %s as a canary", m->name,
                 (unsigned long long)v->number, operands[1]);
        rc = attach_to(&u, &e, v, said);
    }
    tw_registry_end(&u);
    return rc;
}

/* ---- promote */

/* The policy: of the option, or the registry's own. malloc'ed; its digest, and what to call it. */
static int policy_text(struct tw_registry_use *u, char **text, char sha256[65], const char **name,
                       struct twin_error *err)
{
    size_t n = 0;
    *name = u->a->policy ? u->a->policy : "the registry's policy";
    if (!u->a->policy) {
        if (!*u->r.policy)
            return twin_error_set(err, TWIN_EINVAL,
                                  "expected --policy FILE: this registry was made without one");
        memcpy(sha256, u->r.policy, sizeof u->r.policy);
        return tw_store_read_content(u->r.store, sha256, POLICY_BYTES, text, &n, err);
    }
    if (*u->r.policy && !u->a->dry_run)
        return twin_error_set(err, TWIN_EINVAL,
                              "--policy: this registry has a policy of its own, which registry "
                              "policy FILE changes; expected --dry-run beside it");
    if (u->a->dry_run) {
        *sha256 = '\0';
        return tw_read_file(u->a->policy, POLICY_BYTES, text, &n, err);
    }
    int rc = tw_policy_store(u->r.store, u->a->policy, sha256, err);
    return rc ? rc : tw_store_read_content(u->r.store, sha256, POLICY_BYTES, text, &n, err);
}

static void put_checks(const struct tw_promotion *p)
{
    for (size_t i = 0; i < p->count; i++) {
        const struct tw_promotion_check *c = &p->check[i];
        tw_put("  %s  %-10s  wanted %s; found %s\n", c->passed ? "pass" : "FAIL", c->name,
               c->wanted, c->found);
    }
}

/* Says what the policy found, where nothing is written. */
static int put_judgement(struct tw_registry_use *u, const struct tw_model *m,
                         const struct tw_version *v, const struct tw_promotion *p)
{
    const int rc = p->passed ? 0 : TW_EXIT_DIFFER;
    if (u->a->json) {
        int printed = tw_registry_put_json(
            u,
            json_pack("{s:s, s:s, s:s, s:I, s:s, s:b, s:o}", "schema", "twinrun.registry/1", "verb",
                      "promote", "model", m->name, "version", (json_int_t)v->number, "to",
                      tw_stage_name(p->to), "passed", p->passed, "checks", tw_promotion_json(p)));
        return printed ? printed : rc;
    }
    if (p->passed)
        tw_put("%s@%llu may be promoted to %s\n", m->name, (unsigned long long)v->number,
               tw_stage_name(p->to));
    else
        tw_put("%s@%llu stays in stage %s: the policy for %s is not met\n", m->name,
               (unsigned long long)v->number, tw_stage_name(v->stage), tw_stage_name(p->to));
    put_checks(p);
    return rc;
}

/* The policy is met: the entry names it, and each check. */
static int write_promotion(struct tw_registry_use *u, const struct tw_model *m,
                           const struct tw_version *v, const struct tw_promotion *p)
{
    struct tw_entry e = tw_registry_entry_of(TW_ENTRY_MOVE, u->a, m, v);
    char said[320], gone[64] = "";
    e.from = v->stage;
    e.to = p->to;
    e.displaced = p->displaced;
    e.details = json_pack("{s:s, s:o}", "policy", p->policy, "checks", tw_promotion_json(p));
    if (p->displaced)
        snprintf(gone, sizeof gone, "; version %llu is retired", (unsigned long long)p->displaced);
    snprintf(said, sizeof said, "%s@%llu is now in stage %s%s", m->name,
             (unsigned long long)v->number, tw_stage_name(p->to), gone);
    int rc = tw_registry_add_entry(u, &e);
    json_decref(e.details);
    if (rc < 0 && !u->a->json) {
        rc = tw_registry_written(u, said);
        put_checks(p);
        return rc;
    }
    return rc < 0 ? tw_registry_written(u, said) : rc;
}

int tw_registry_judge_and_promote(struct tw_registry_use *u, const struct tw_model *m,
                                  const struct tw_version *v)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_promotion p;
    enum tw_stage to = v->stage == TW_STAGE_CANDIDATE ? TW_STAGE_CANARY : TW_STAGE_PRODUCTION;
    char *text = NULL, digest[65] = "";
    const char *name = NULL;
    if (u->a->to && !tw_stage_parse(u->a->to, &to))
        return tw_bad_use("registry", "promote: --to: expected canary or production, found \"%s\"",
                          u->a->to);
    int64_t now_ns = 0;
    int rc = twin_trust_now(u->trust, &now_ns, &err);
    rc = rc ? rc : tw_store_hold(u->r.store, false, &err);
    rc = rc ? rc : policy_text(u, &text, digest, &name, &err);
    rc = rc ? rc : tw_promotion_judge(&u->r, m, v, to, text, name, u->trust, now_ns, &p, &err);
    tw_free(text);
    if (rc != 0)
        return tw_trouble(&err, "registry promote: nothing was promoted");
    memcpy(p.policy, digest, sizeof p.policy);
    return p.passed && !u->a->dry_run ? write_promotion(u, m, v, &p) : put_judgement(u, m, v, &p);
}

static int promote(const struct tw_registry_args *a, char *const *operands, size_t count)
{
    const struct tw_model *m;
    const struct tw_version *v;
    struct tw_registry_use u;
    (void)count;
    int rc = tw_registry_begin_writing("promote", a, &u);
    if (rc >= 0)
        return rc;
    rc = find(&u, operands[0], NULL, &m, &v);
    rc = rc < 0 ? tw_registry_judge_and_promote(&u, m, v) : rc;
    tw_registry_end(&u);
    return rc;
}

/* ---- retire, hold, release, vouch */

static int retire_version(struct tw_registry_use *u, const struct tw_model *m,
                          const struct tw_version *v)
{
    struct tw_entry e = tw_registry_entry_of(TW_ENTRY_MOVE, u->a, m, v);
    char said[256];
    e.from = v->stage;
    e.to = TW_STAGE_RETIRED;
    snprintf(said, sizeof said, "%s@%llu is retired", m->name, (unsigned long long)v->number);
    int rc = tw_registry_add_entry(u, &e);
    return rc < 0 ? tw_registry_written(u, said) : rc;
}

static int hold_version(struct tw_registry_use *u, const struct tw_model *m,
                        const struct tw_version *v)
{
    const bool hold = strcmp(u->verb, "hold") == 0;
    struct tw_entry e = tw_registry_entry_of(hold ? TW_ENTRY_HOLD : TW_ENTRY_RELEASE, u->a, m, v);
    char said[256];
    snprintf(said, sizeof said, "%s@%llu is %s", m->name, (unsigned long long)v->number,
             hold ? "held: gc leaves its contents" : "not held any more");
    int rc = tw_registry_add_entry(u, &e);
    return rc < 0 ? tw_registry_written(u, said) : rc;
}

static int on_version(const char *verb, const struct tw_registry_args *a, const char *spec,
                      int (*act)(struct tw_registry_use *, const struct tw_model *,
                                 const struct tw_version *))
{
    const struct tw_model *m;
    const struct tw_version *v;
    struct tw_registry_use u;
    if (!a->why)
        return tw_bad_use("registry", "%s: expected --why TEXT: the log keeps the reason", verb);
    if (!strchr(spec, '@'))
        return tw_bad_use("registry", "%s: expected one version, %s@N", verb, spec);
    int rc = tw_registry_begin_writing(verb, a, &u);
    if (rc >= 0)
        return rc;
    rc = find(&u, spec, NULL, &m, &v);
    rc = rc < 0 ? act(&u, m, v) : rc;
    tw_registry_end(&u);
    return rc;
}

static int retire(const struct tw_registry_args *a, char *const *operands, size_t count)
{
    (void)count;
    return on_version("retire", a, operands[0], retire_version);
}

static int hold(const struct tw_registry_args *a, char *const *operands, size_t count)
{
    (void)count;
    return on_version("hold", a, operands[0], hold_version);
}

static int release(const struct tw_registry_args *a, char *const *operands, size_t count)
{
    (void)count;
    return on_version("release", a, operands[0], hold_version);
}

static int vouch(const struct tw_registry_args *a, char *const *operands, size_t count)
{
    struct tw_registry_use u;
    char said[128];
    (void)operands;
    (void)count;
    if (!a->why)
        return tw_bad_use("registry", "vouch: expected --why TEXT: what was checked, and how");
    int rc = tw_registry_begin_writing("vouch", a, &u);
    if (rc >= 0)
        return rc;
    struct tw_entry e = {.kind = TW_ENTRY_VOUCH, .why = reason(a)};
    memcpy(e.artifact, u.r.id, sizeof e.artifact);
    snprintf(said, sizeof said, "entries 1 to %zu are vouched for", u.r.count);
    rc = tw_registry_add_entry(&u, &e);
    rc = rc < 0 ? tw_registry_written(&u, said) : rc;
    tw_registry_end(&u);
    return rc;
}

/* ---- policy */

static int policy(const struct tw_registry_args *a, char *const *operands, size_t count)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_registry_use u;
    char said[128], digest[65] = "";
    (void)count;
    if (!a->why)
        return tw_bad_use("registry", "policy: expected --why TEXT: the log keeps the reason");
    int rc = tw_registry_begin_writing("policy", a, &u);
    if (rc >= 0)
        return rc;
    struct tw_entry e = {.kind = TW_ENTRY_POLICY, .why = reason(a)};
    memcpy(e.artifact, u.r.id, sizeof e.artifact);
    rc = tw_store_hold(u.r.store, false, &err);
    rc = rc ? rc : tw_policy_store(u.r.store, operands[0], digest, &err);
    if (rc == 0 && !(e.details = json_pack("{s:s}", "policy", digest)))
        rc = tw_no_memory(&err, "for an entry");
    rc = rc ? tw_trouble(&err, "registry policy: nothing was written")
            : tw_registry_add_entry(&u, &e);
    json_decref(e.details);
    snprintf(said, sizeof said, "from here on promotions take the policy %.12s", digest);
    rc = rc < 0 ? tw_registry_written(&u, said) : rc;
    tw_registry_end(&u);
    return rc;
}

/* ---- gc */

static json_t *collection_json(const struct tw_collection *c)
{
    json_t *list = json_array();
    for (size_t i = 0; i < c->versions && list; i++)
        if (json_array_append_new(list, json_pack("{s:s, s:I}", "model", c->version[i].model,
                                                  "version", (json_int_t)c->version[i].version)) !=
            0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static int put_collection(const struct tw_registry_use *u, const struct tw_collection *c, bool gone)
{
    char size[16];
    if (u->a->json)
        return tw_json_print(json_pack("{s:s, s:s, s:b, s:o, s:I, s:I}", "schema",
                                       "twinrun.registry/1", "verb", "gc", "removed", gone,
                                       "versions", collection_json(c), "contents",
                                       (json_int_t)c->contents, "bytes", (json_int_t)c->bytes));
    for (size_t i = 0; i < c->versions; i++)
        tw_put("  %s@%llu\n", c->version[i].model, (unsigned long long)c->version[i].version);
    tw_put("%zu version%s, %zu content%s, %s %s\n", c->versions, tw_plural_s(c->versions),
           c->contents, tw_plural_s(c->contents), tw_human_bytes(c->bytes, size),
           gone ? "removed" : "would be removed");
    return 0;
}

/* The entry first: a gc that is killed leaves contents that nobody names, and the next one takes
 * them. Also where only strays go: an entry that was decided, and is not in the log yet, may name
 * them, and whoever writes the next entry is told of it. */
static int collect(struct tw_registry_use *u, const struct tw_collection *c, int64_t strays_ns)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_entry e = {.kind = TW_ENTRY_COLLECT, .why = reason(u->a)};
    int rc = -1;
    if (c->versions > 0 || c->contents > 0) {
        memcpy(e.artifact, u->r.id, sizeof e.artifact);
        e.details = json_pack("{s:o}", "versions", collection_json(c));
        rc = tw_registry_add_entry(u, &e);
        json_decref(e.details);
    }
    if (rc >= 0)
        return rc;
    for (size_t i = 0; i < c->contents; i++)
        if (tw_store_remove_content(u->r.store, c->content[i], &err) != 0)
            return tw_trouble(&err, "registry gc: not all of it is gone");
    uint64_t swept = 0;
    if (tw_store_sweep(u->r.store, strays_ns, &swept, &err) != 0)
        return tw_trouble(&err, "registry gc: not all of it is gone");
    return put_collection(u, c, true);
}

static int gc(const struct tw_registry_args *a, char *const *operands, size_t count)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_registry_use u;
    struct tw_collection c;
    const int64_t now = tw_realtime_ns(), strays = now - (int64_t)(a->strays * (double)DAY_NS);
    (void)operands;
    (void)count;
    int rc = tw_registry_begin_writing("gc", a, &u);
    if (rc >= 0)
        return rc;
    /* Held first, then looked whether the log is still what was read: a content that an entry
     * brought meanwhile would seem to be nobody's. */
    if (tw_store_hold(u.r.store, !a->dry_run, &err) != 0 || tw_registry_current(&u.r, &err) != 0 ||
        tw_collection_plan(&u.r, now - (int64_t)(a->older * (double)DAY_NS), a->keep, strays, &c,
                           &err) != 0) {
        rc = tw_trouble(&err, "registry gc: nothing was removed");
    } else {
        rc = a->dry_run ? put_collection(&u, &c, false) : collect(&u, &c, strays);
        tw_collection_free(&c);
    }
    tw_registry_end(&u);
    return rc;
}

const struct tw_registry_verb tw_registry_acts[] = {
    {"add", 2, 2, true, add},         {"attach", 1, 1, true, attach},
    {"promote", 1, 1, true, promote}, {"canary", 2, 2, true, canary},
    {"retire", 1, 1, true, retire},   {"rollback", 1, 1, true, tw_registry_rollback},
    {"hold", 1, 1, true, hold},       {"release", 1, 1, true, release},
    {"vouch", 0, 0, true, vouch},     {"policy", 1, 1, true, policy},
    {"gc", 0, 0, true, gc},           {"mirror", 0, 1, false, tw_registry_mirror},
    {NULL, 0, 0, false, NULL},
};
