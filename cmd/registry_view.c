/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs of twinrun registry that show: ls, show, log, get, verify. A registry that is at fault
 * is shown as far as it was read, with the faults beside it; get gives nothing out of one.
 */
#include "registry.h"

#include "say.h"

#include "base.h"
#include "phrase.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static json_t *faults_json(const struct tw_registry *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->faults && list; i++)
        json_array_append_new(list, json_pack("{s:I, s:o}", "entry", (json_int_t)r->fault[i].entry,
                                              "what", tw_json_text(r->fault[i].what)));
    return list;
}

static void put_faults(const struct tw_registry *r)
{
    for (size_t i = 0; i < r->faults; i++)
        tw_say("%s", r->fault[i].what);
}

/* What a registry at fault is worth: its exit code. Whoever was not asked to trust is not told that
 * it is right. */
static int worth(const struct tw_registry *r)
{
    if (r->faults)
        return TW_EXIT_DIFFER;
    return r->judged ? 0 : TW_EXIT_INCONCLUSIVE;
}

/* ---- ls */

static json_t *version_json(const struct tw_model *m, const struct tw_version *v)
{
    char when[32];
    tw_utc_stamp(v->moved_ns, when);
    json_t *evidence = json_array();
    for (size_t i = 0; i < v->evidence_count; i++)
        json_array_append_new(evidence, json_pack("{s:s, s:s, s:I}", "kind", v->evidence[i].kind,
                                                  "sha256", v->evidence[i].sha256, "entry",
                                                  (json_int_t)v->evidence[i].entry));
    return json_pack("{s:s, s:I, s:s, s:s, s:s, s:o, s:o, s:b}", "model", m->name, "version",
                     (json_int_t)v->number, "stage", tw_stage_name(v->stage), "artifact",
                     v->artifact, "since", when, "evidence", evidence, "hold",
                     v->hold ? tw_json_text(v->hold) : json_null(), "collected", v->collected != 0);
}

static void put_version(const struct tw_model *m, const struct tw_version *v)
{
    char when[32];
    tw_utc_stamp(v->moved_ns, when);
    tw_put("%-30s %6llu  %-10s  %.12s  %.10s  evidence: %zu%s%s\n", m->name,
           (unsigned long long)v->number, tw_stage_name(v->stage), v->artifact, when,
           v->evidence_count, v->hold ? ", held" : "", v->collected ? ", contents removed" : "");
}

static int ls(const struct tw_registry_args *a, char *const *operands, size_t count)
{
    struct tw_registry_use u;
    int rc = tw_registry_begin("ls", a, &u);
    if (rc >= 0)
        return rc;
    json_t *list = json_array();
    if (!a->json && u.r.models)
        tw_put("%-30s %6s  %-10s  %-12s  %-10s\n", "model", "version", "stage", "artifact",
               "since");
    for (size_t i = 0; i < u.r.models; i++) {
        const struct tw_model *m = &u.r.model[i];
        if (count && !tw_glob(operands[0], m->name))
            continue;
        for (size_t j = m->count; j-- > 0;) {
            if (a->json)
                json_array_append_new(list, version_json(m, &m->version[j]));
            else
                put_version(m, &m->version[j]);
        }
    }
    rc = u.r.faults ? TW_EXIT_DIFFER : 0;
    if (a->json) {
        int printed = tw_json_print(json_pack("{s:s, s:s, s:o, s:o}", "schema",
                                              "twinrun.registry/1", "verb", "ls", "versions", list,
                                              "faults", faults_json(&u.r)));
        rc = printed ? printed : rc;
    } else {
        json_decref(list);
        put_faults(&u.r);
    }
    tw_registry_end(&u);
    return rc;
}

/* ---- log, show */

static json_t *entry_json(const struct tw_entry *e)
{
    char when[32];
    tw_utc_stamp(e->time_ns, when);
    json_t *o = json_pack("{s:I, s:s, s:s, s:s, s:o, s:o, s:o}", "number", (json_int_t)e->number,
                          "digest", e->digest, "time", when, "kind", tw_entry_kind_name(e->kind),
                          "signers", tw_json_text(e->signers), "why", tw_json_text(e->why),
                          "details", e->details ? json_incref(e->details) : json_null());
    if (o && e->version) {
        json_object_set_new(o, "model", json_string(e->model));
        json_object_set_new(o, "version", json_integer((json_int_t)e->version));
    }
    if (o && e->kind == TW_ENTRY_MOVE) {
        json_object_set_new(o, "from", json_string(tw_stage_name(e->from)));
        json_object_set_new(o, "to", json_string(tw_stage_name(e->to)));
    }
    if (o && e->kind == TW_ENTRY_CANARY)
        json_object_set_new(o, "passed", json_boolean(e->passed));
    return o;
}

static void put_entry(const struct tw_entry *e)
{
    char when[32], what[300];
    const char *canary = "";
    tw_utc_stamp(e->time_ns, when);
    if (e->kind == TW_ENTRY_CANARY)
        canary = e->passed ? " passed" : " failed";
    if (!e->version)
        snprintf(what, sizeof what, "%s", tw_entry_kind_name(e->kind));
    else if (e->kind == TW_ENTRY_MOVE)
        snprintf(what, sizeof what, "%s %s@%llu from %s to %s",
                 json_object_get(e->details, "rollback") ? "rollback" : "move", e->model,
                 (unsigned long long)e->version, tw_stage_name(e->from), tw_stage_name(e->to));
    else
        snprintf(what, sizeof what, "%s %s@%llu%s", tw_entry_kind_name(e->kind), e->model,
                 (unsigned long long)e->version, canary);
    tw_put("%6llu  %s  %.12s  %s%s%s%s%s\n", (unsigned long long)e->number, when, e->digest, what,
           *e->signers ? "  by " : "", e->signers, *e->why ? "  " : "", e->why);
}

/* Entries of the registry, or of one version. The exit code. */
static int put_entries(struct tw_registry_use *u, const struct tw_model *m,
                       const struct tw_version *v)
{
    json_t *list = json_array();
    for (size_t i = 0; i < u->r.count; i++) {
        const struct tw_entry *e = &u->r.entry[i];
        if (v && (e->version != v->number || strcmp(e->model, m->name) != 0))
            continue;
        if (u->a->json)
            json_array_append_new(list, entry_json(e));
        else
            put_entry(e);
    }
    int rc = u->r.faults ? TW_EXIT_DIFFER : 0;
    if (!u->a->json) {
        json_decref(list);
        put_faults(&u->r);
        return rc;
    }
    int printed = tw_json_print(json_pack(
        "{s:s, s:s, s:o, s:o, s:o}", "schema", "twinrun.registry/1", "verb", u->verb, "version",
        v ? version_json(m, v) : json_null(), "entries", list, "faults", faults_json(&u->r)));
    return printed ? printed : rc;
}

static int show_log(const struct tw_registry_args *a, char *const *operands, size_t count)
{
    struct tw_registry_use u;
    (void)operands;
    (void)count;
    int rc = tw_registry_begin("log", a, &u);
    if (rc >= 0)
        return rc;
    rc = put_entries(&u, NULL, NULL);
    tw_registry_end(&u);
    return rc;
}

static int show(const struct tw_registry_args *a, char *const *operands, size_t count)
{
    struct twin_error err = TWIN_ERROR_INIT;
    const struct tw_model *m;
    const struct tw_version *v;
    struct tw_registry_use u;
    (void)count;
    int rc = tw_registry_begin("show", a, &u);
    if (rc >= 0)
        return rc;
    if (tw_registry_find(&u.r, operands[0], &m, &v, &err) != 0) {
        rc = tw_trouble(&err, "registry show");
    } else {
        v = v ? v : &m->version[m->count - 1];
        if (!a->json)
            put_version(m, v);
        for (size_t i = 0; i < v->evidence_count && !a->json; i++)
            tw_put("  %-12s %.12s  entry %llu\n", v->evidence[i].kind, v->evidence[i].sha256,
                   (unsigned long long)v->evidence[i].entry);
        rc = put_entries(&u, m, v);
    }
    tw_registry_end(&u);
    return rc;
}

/* ---- get */

static int get_version(struct tw_registry_use *u, const char *spec)
{
    struct twin_error err = TWIN_ERROR_INIT;
    const struct tw_model *m;
    const struct tw_version *v;
    struct tw_artifact artifact;
    if (!u->trust)
        return tw_bad_use("registry", "get: expected --trust FILE or --pub PUB");
    if (u->r.faults)
        return tw_trouble(NULL,
                          "registry get: nothing is given out, since %s (twinrun registry "
                          "verify says all)",
                          u->r.fault[0].what);
    int rc = tw_registry_find(&u->r, spec, &m, &v, &err);
    if (rc == 0 && !v)
        rc = twin_error_set(&err, TWIN_EINVAL, "which version? %s@N or %s@production", spec, spec);
    rc = rc ? rc : tw_registry_unseal(&u->r, &u->a->identities, &err);
    rc = rc ? rc : tw_artifact_read(u->r.store, v->artifact, &artifact, &err);
    if (rc != 0)
        return tw_trouble(&err, "registry get");
    char tag[24];
    snprintf(tag, sizeof tag, "%llu", (unsigned long long)v->number);
    rc = u->a->oci ? tw_artifact_oci(&artifact, u->r.store, m->name, tag, u->a->into, &err)
                   : tw_artifact_restore(&artifact, u->r.store, u->a->into, &err);
    tw_artifact_free(&artifact);
    if (rc != 0)
        return tw_trouble(&err, "registry get");
    if (u->a->json)
        return tw_json_print(json_pack("{s:s, s:s, s:o, s:o}", "schema", "twinrun.registry/1",
                                       "verb", "get", "version", version_json(m, v), "into",
                                       tw_json_text(u->a->into)));
    tw_put("%s@%llu (%s), artifact %.12s, is in %s%s%s\n", m->name, (unsigned long long)v->number,
           tw_stage_name(v->stage), v->artifact, u->a->into, u->a->oci ? ", tag " : "",
           u->a->oci ? tag : "");
    return 0;
}

static int get(const struct tw_registry_args *a, char *const *operands, size_t count)
{
    struct tw_registry_use u;
    (void)count;
    if (!a->into)
        return tw_bad_use("registry", "get: expected --into PATH, where the artifact goes");
    int rc = tw_registry_begin("get", a, &u);
    if (rc >= 0)
        return rc;
    rc = get_version(&u, operands[0]);
    tw_registry_end(&u);
    return rc;
}

/* ---- verify */

static int put_verified(struct tw_registry_use *u, const struct tw_contents_read *read)
{
    char size[16];
    const int rc = worth(&u->r);
    if (u->a->json) {
        int printed = tw_json_print(
            json_pack("{s:s, s:s, s:I, s:s, s:b, s:I, s:{s:I, s:I}, s:o}", "schema",
                      "twinrun.registry/1", "verb", "verify", "entries", (json_int_t)u->r.count,
                      "head", tw_registry_head(&u->r), "judged", u->r.judged, "bytes",
                      (json_int_t)read->bytes, "sealed", "contents", (json_int_t)read->sealed,
                      "unopened", (json_int_t)read->unopened, "faults", faults_json(&u->r)));
        return printed ? printed : rc;
    }
    tw_put("entries   %zu, each naming the one before it\nhead      %.12s\n", u->r.count,
           tw_registry_head(&u->r));
    const char *trusted = u->r.faults ? "by those who are trusted, but for what is said below"
                                      : "by those who are trusted";
    tw_put("signed    %s\n", u->r.judged ? trusted : "not judged: --trust FILE or --pub PUB");
    if (u->a->contents)
        tw_put("contents  %s read\n", tw_human_bytes(read->bytes, size));
    if (read->unopened)
        tw_put("sealed    %zu file%s: the encrypted bytes are those of the log; not checked, for "
               "want of --identity: whether they open, and hold what was added\n",
               read->unopened, tw_plural_s(read->unopened));
    else if (read->sealed)
        tw_put("sealed    %zu file%s, each opened\n", read->sealed, tw_plural_s(read->sealed));
    if (u->r.faults)
        tw_put("FAILED    %zu thing%s:\n", u->r.faults, tw_plural_s(u->r.faults));
    for (size_t i = 0; i < u->r.faults; i++)
        tw_put("  %s\n", u->r.fault[i].what);
    if (rc == 0)
        tw_put("nothing is wrong\n");
    return rc;
}

static int verify(const struct tw_registry_args *a, char *const *operands, size_t count)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_registry_use u;
    struct tw_contents_read read = {0};
    (void)operands;
    (void)count;
    int rc = tw_registry_begin("verify", a, &u);
    if (rc >= 0)
        return rc;
    rc = tw_registry_unseal(&u.r, &a->identities, &err);
    if (rc == 0 && a->contents)
        rc = tw_registry_check_contents(&u.r, &read, &err);
    rc = rc ? tw_trouble(&err, "registry verify") : put_verified(&u, &read);
    tw_registry_end(&u);
    return rc;
}

const struct tw_registry_verb tw_registry_views[] = {
    {"ls", 0, 1, false, ls},   {"show", 1, 1, false, show},     {"log", 0, 0, false, show_log},
    {"get", 1, 1, false, get}, {"verify", 0, 0, false, verify}, {NULL, 0, 0, false, NULL},
};
