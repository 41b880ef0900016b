/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evidence: what speaks for a version. An envelope counts by whose keys signed it and by the files
 * that it is about: each file of the artifact must be among its subjects, by the digest of its
 * bytes or, for a file of tensors in a statement of runs, of its tensors.
 */
#include "registry_inside.h"

#include "base.h"
#include "json_load.h"
#include "sha256.h"

#include "src/compare/compare.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VERDICT_BYTES = 64 << 20, RUNS_MAX = 4096 };

/* A kind of envelope, by the predicate of its statement. */
static const struct {
    const char *predicate, *kind;
} kinds[] = {{TWIN_PREDICATE_REPRODUCED, "reproduced"},
             {TWIN_PREDICATE_SIGNED, "signature"},
             {TWIN_PREDICATE_SLSA, "provenance"}};

/* ---- what a statement is about */

/* Is the subject this file? */
static bool is_file(const struct twin_subject *s, const struct tw_artifact_file *f)
{
    for (size_t i = 0; i < s->digest_count; i++) {
        const struct twin_subject_digest *d = &s->digest[i];
        if (strcmp(d->algorithm, "sha256") == 0 && strcmp(d->value, f->sha256) == 0)
            return true;
        if (*f->content && strcmp(d->algorithm, "twinrunContent1") == 0 &&
            strcmp(d->value, f->content) == 0)
            return true;
    }
    return false;
}

bool tw_subjects_hold(const struct twin_subjects *s, const char *prefix, size_t prefix_bytes,
                      const struct tw_artifact *a)
{
    for (size_t i = 0; i < a->count; i++) {
        bool found = false;
        for (size_t j = 0; j < s->count && !found; j++)
            found = strncmp(s->item[j].name, prefix, prefix_bytes) == 0 &&
                    is_file(&s->item[j], &a->file[i]);
        if (!found)
            return false;
    }
    return a->count > 0;
}

/* ---- storing */

static int set_evidence(struct tw_evidence *e, const char *kind, const char *sha256)
{
    memset(e, 0, sizeof *e);
    snprintf(e->kind, sizeof e->kind, "%s", kind);
    memcpy(e->sha256, sha256, sizeof e->sha256);
    return 0;
}

/* Which kind of envelope is it, and is it about the artifact? */
static int kind_of_envelope(const char *text, size_t n, const char *path,
                            const struct tw_artifact *a, const char **kind, struct twin_error *err)
{
    struct twin_envelope env = {0};
    struct twin_statement st = {0};
    int rc = twin_envelope_parse(text, n, path, false, &env, err);
    rc = rc ? rc : twin_statement_parse(&env, path, &st, err);
    *kind = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && rc == 0; i++)
        if (strcmp(st.predicate_type, kinds[i].predicate) == 0)
            *kind = kinds[i].kind;
    if (rc == 0 && !*kind)
        rc = twin_error_set(err, TWIN_EINVAL,
                            "%s: expected a signature, the provenance of a run, or a statement "
                            "that runs agreed, found one of type %.80s",
                            path, st.predicate_type);
    if (rc == 0 && !tw_subjects_hold(&st.subjects, "", 0, a))
        rc = twin_error_set(err, TWIN_EINVAL, "%s is about other files than those of the artifact",
                            path);
    twin_statement_free(&st);
    twin_envelope_free(&env);
    return rc;
}

/* An envelope, or the JSON of a verdict: told by what stands in it. */
static int kind_of_file(const char *text, size_t n, const char *path, const struct tw_artifact *a,
                        const char **kind, struct twin_error *err)
{
    json_t *o = tw_json_load(text, n, JSON_REJECT_DUPLICATES, NULL);
    const bool envelope = json_object_get(o, "payload") != NULL;
    const char *outcome = json_string_value(json_object_get(o, "outcome"));
    const bool verdict = outcome && *outcome;
    json_decref(o);
    if (envelope)
        return kind_of_envelope(text, n, path, a, kind, err);
    if (!verdict)
        return twin_error_set(err, TWIN_EINVAL,
                              "%s: expected an envelope (twinrun sign), the JSON of a verdict "
                              "(check --json), or the folder of a package (twinrun pack)",
                              path);
    *kind = "verdict";
    return 0;
}

static int store_file(struct tw_store *s, const char *path, const struct tw_artifact *a,
                      struct tw_evidence *out, struct twin_error *err)
{
    char *text = NULL, hex[65];
    const char *kind = NULL;
    size_t n = 0;
    int rc = tw_read_file(path, VERDICT_BYTES, &text, &n, err);
    rc = rc ? rc : kind_of_file(text, n, path, a, &kind, err);
    rc = rc ? rc : tw_store_put_read(s, path, text, n, hex, err);
    tw_free(text);
    return rc ? rc : set_evidence(out, kind, hex);
}

/* A package is an artifact of its own: its manifest names its files. One of a run that made other
 * files says nothing of this version, so it is refused; what of it was stored by then is nobody's,
 * and gc takes it. */
static int store_package(struct tw_store *s, const char *path, const struct tw_artifact *a,
                         struct tw_evidence *out, struct twin_error *err)
{
    struct tw_artifact package;
    struct stat st;
    char *bag = tw_path_join(path, "bagit.txt");
    const bool is_bag = bag && stat(bag, &st) == 0;
    tw_free(bag);
    if (!is_bag)
        return twin_error_set(err, TWIN_EINVAL,
                              "%s: expected the folder of a package (twinrun pack), found another",
                              path);
    int rc = tw_artifact_take(path, &package, err);
    if (rc != 0)
        return rc;
    rc = tw_artifact_store(&package, path, s, err);
    rc = rc ? rc : tw_package_check(s, path, &package, path, a, err);
    rc = rc ? rc : set_evidence(out, "package", package.digest);
    tw_artifact_free(&package);
    return rc;
}

int tw_evidence_store(struct tw_store *s, const char *path, const struct tw_artifact *a,
                      struct tw_evidence *out, struct twin_error *err)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return twin_error_system(err, "cannot look at %s", path);
    return S_ISDIR(st.st_mode) ? store_package(s, path, a, out, err)
                               : store_file(s, path, a, out, err);
}

int tw_evidence_into(struct tw_entry *e, const struct tw_evidence *v, struct twin_error *err)
{
    json_t *list = json_object_get(e->details, "evidence");
    if (!e->details)
        e->details = json_object();
    if (!list) {
        list = json_array();
        if (json_object_set_new(e->details, "evidence", list) != 0)
            return tw_no_memory(err, "for an entry");
    }
    return json_array_append_new(list,
                                 json_pack("{s:s, s:s}", "kind", v->kind, "sha256", v->sha256)) == 0
               ? 0
               : tw_no_memory(err, "for an entry");
}

/* ---- judging */

/* What is gathered over all evidence of a version. Names are counted once. */
struct gathering {
    struct tw_store *store;
    const struct tw_artifact *a;
    const struct twin_trust *trust;
    int64_t at_ns;
    const char *tolerance;
    json_t *runs, *within, *signers; /* objects whose keys are the names */
    struct tw_evidence_sum *sum;
};

/* The first thing that does not count is kept: it says why a number is smaller than expected. */
static void trouble(struct gathering *g, const struct tw_evidence *e, const char *why)
{
    if (!*g->sum->trouble)
        snprintf(g->sum->trouble, sizeof g->sum->trouble, "%s %.12s of entry %llu: %.180s", e->kind,
                 e->sha256, (unsigned long long)e->entry, why);
}

/* May these runs count as agreeing? *within: they do by a tolerance that is allowed. */
static bool outcome_counts(const struct gathering *g, const json_t *predicate, bool *within)
{
    const char *outcome = json_string_value(json_object_get(predicate, "outcome"));
    const json_t *t = json_object_get(json_object_get(predicate, "tolerance"), "digest");
    const char *digest = json_string_value(json_object_get(t, "sha256"));
    *within = outcome && strcmp(outcome, twin_verdict_name(TWIN_WITHIN_TOLERANCE)) == 0;
    if (*within)
        return *g->tolerance && digest && strcmp(digest, g->tolerance) == 0;
    return outcome && strcmp(outcome, twin_verdict_name(TWIN_SAME)) == 0;
}

/* Counts one run. */
static int count_run(struct gathering *g, const char *id, bool within, struct twin_error *err)
{
    if ((!within && json_object_set_new(g->runs, id, json_true()) != 0) ||
        json_object_set_new(g->within, id, json_true()) != 0)
        return tw_no_memory(err, "judging evidence");
    return 0;
}

/*
 * The runs of the statement that made this artifact: by all of its files. Runs that agree within a
 * tolerance made other bytes, as a rule. Each was compared with the first one: so where that made
 * the artifact all of them count, and where another one did, that and the first.
 */
static int count_runs(struct gathering *g, const struct twin_statement *st,
                      const struct tw_evidence *e, struct twin_error *err)
{
    const json_t *ids = json_object_get(st->predicate, "runs");
    bool within, first_made = false;
    if (!outcome_counts(g, st->predicate, &within)) {
        trouble(g, e, "its runs agree within a tolerance only, and the policy has no such one");
        return 0;
    }
    size_t made = 0;
    int rc = 0;
    for (size_t i = 0; i < json_array_size(ids) && i < RUNS_MAX && rc == 0; i++) {
        const char *id = json_string_value(json_array_get(ids, i));
        if (!tw_is_hex(id, 32))
            continue;
        const bool made_it = tw_subjects_hold(&st->subjects, id, 32, g->a);
        first_made |= made_it && i == 0;
        made += made_it;
        if (made_it || (within && first_made))
            rc = count_run(g, id, within, err);
    }
    const char *first = json_string_value(json_array_get(ids, 0));
    if (rc == 0 && within && made > 0 && tw_is_hex(first, 32))
        rc = count_run(g, first, within, err);
    if (made == 0)
        trouble(g, e, "none of its runs made all files of the artifact");
    return rc;
}

static int count_signers(struct gathering *g, const struct twin_trust_verdict *v,
                         struct twin_error *err)
{
    for (size_t i = 0; i < v->judged_count; i++)
        if (v->judged[i].state == TWIN_SIGNATURE_GOOD &&
            json_object_set_new(g->signers, v->judged[i].keyid, json_true()) != 0)
            return tw_no_memory(err, "judging evidence");
    return 0;
}

/* Any trusted signature makes a statement count; whether those who signed the artifact are enough
 * is the policy's question. */
static bool any_good(const struct twin_trust_verdict *v)
{
    bool good = false;
    for (size_t i = 0; i < v->judged_count; i++) {
        if (v->judged[i].state == TWIN_SIGNATURE_WRONG)
            return false;
        good |= v->judged[i].state == TWIN_SIGNATURE_GOOD;
    }
    return good;
}

static int judge_envelope(struct gathering *g, const struct tw_evidence *e, const char *text,
                          size_t n, struct twin_error *err)
{
    struct twin_envelope env = {0};
    struct twin_statement st = {0};
    struct twin_trust_verdict v = {0};
    struct twin_error why = TWIN_ERROR_INIT;
    int rc = twin_envelope_parse(text, n, "the envelope", false, &env, &why);
    rc = rc ? rc : twin_trust_judge(g->trust, &env, g->at_ns, &v, &why);
    const bool good = rc == 0 && any_good(&v);
    if (rc == 0 && good)
        rc = twin_statement_parse(&env, "the envelope", &st, &why);
    if (rc == TWIN_ENOMEM) {
        twin_error_set(err, rc, "%s", why.message);
    } else if (rc != 0 || !good) {
        trouble(g, e, rc ? why.message : v.why);
        rc = 0;
    } else if (!tw_subjects_hold(&st.subjects, "", 0, g->a)) {
        trouble(g, e, "it is about other files");
    } else if (strcmp(st.predicate_type, TWIN_PREDICATE_REPRODUCED) == 0) {
        rc = count_runs(g, &st, e, err);
    } else if (strcmp(st.predicate_type, TWIN_PREDICATE_SIGNED) == 0) {
        rc = count_signers(g, &v, err);
    } else if (strcmp(st.predicate_type, TWIN_PREDICATE_SLSA) == 0) {
        g->sum->provenances++;
    }
    twin_statement_free(&st);
    twin_trust_verdict_free(&v);
    twin_envelope_free(&env);
    return rc;
}

/* Who signed the package itself; of several the one with the most keys counts. */
static int judge_package_signers(struct gathering *g, const struct tw_evidence *e,
                                 const struct tw_artifact *package, struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    size_t keys = 0;
    int rc = tw_package_signers(g->store, package, g->trust, g->at_ns, &keys, &why);
    if (rc == TWIN_ENOMEM)
        return twin_error_set(err, rc, "%s", why.message);
    if (rc != 0 && !*g->sum->unsigned_why)
        snprintf(g->sum->unsigned_why, sizeof g->sum->unsigned_why,
                 "package %.12s of entry %llu: %.180s", e->sha256, (unsigned long long)e->entry,
                 why.message);
    if (keys > g->sum->package_signers)
        g->sum->package_signers = keys;
    return 0;
}

/* Its files are there, and its run made the artifact. Whether it verifies, and whether the same
 * comes out again, are questions for replay. */
static int judge_package(struct gathering *g, const struct tw_evidence *e, struct twin_error *err)
{
    struct tw_artifact package;
    struct twin_error why = TWIN_ERROR_INIT;
    int rc = tw_artifact_read(g->store, e->sha256, &package, &why);
    if (rc == 0) {
        uint64_t bytes = 0;
        for (size_t i = 0; i < package.count && rc == 0; i++) {
            rc = tw_store_content_bytes(g->store, package.file[i].sha256, &bytes, &why);
            if (rc == 0 && bytes != package.file[i].bytes)
                rc = twin_error_set(&why, TWIN_EFORMAT, "its %.80s has another length",
                                    package.file[i].path);
        }
        rc = rc ? rc : tw_package_check(g->store, NULL, &package, "the package", g->a, &why);
        if (rc == 0)
            rc = judge_package_signers(g, e, &package, &why);
        tw_artifact_free(&package);
    }
    if (rc == TWIN_ENOMEM)
        return twin_error_set(err, rc, "%s", why.message);
    if (rc == 0)
        g->sum->packages++;
    else
        trouble(g, e, why.message);
    return 0;
}

static int judge_one(struct gathering *g, const struct tw_evidence *e, struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    char *text = NULL;
    size_t n = 0;
    if (strcmp(e->kind, "package") == 0)
        return judge_package(g, e, err);
    int rc = tw_store_read_content(g->store, e->sha256, VERDICT_BYTES, &text, &n, &why);
    if (rc == TWIN_ENOMEM)
        return twin_error_set(err, rc, "%s", why.message);
    if (rc != 0) {
        trouble(g, e, why.message);
        return 0;
    }
    if (strcmp(e->kind, "verdict") == 0)
        g->sum->verdicts++;
    else
        rc = judge_envelope(g, e, text, n, err);
    tw_free(text);
    return rc;
}

int tw_evidence_judge(struct tw_store *s, const struct tw_version *v, const struct tw_artifact *a,
                      const struct twin_trust *trust, int64_t at_ns, const char *tolerance,
                      struct tw_evidence_sum *out, struct twin_error *err)
{
    memset(out, 0, sizeof *out);
    struct gathering g = {.store = s,
                          .a = a,
                          .trust = trust,
                          .at_ns = at_ns,
                          .tolerance = tolerance,
                          .runs = json_object(),
                          .within = json_object(),
                          .signers = json_object(),
                          .sum = out};
    int rc = g.runs && g.within && g.signers ? 0 : tw_no_memory(err, "judging evidence");
    for (size_t i = 0; i < v->evidence_count && rc == 0; i++)
        rc = judge_one(&g, &v->evidence[i], err);
    out->runs = json_object_size(g.runs);
    out->within = json_object_size(g.within);
    out->signers = json_object_size(g.signers);
    json_decref(g.runs);
    json_decref(g.within);
    json_decref(g.signers);
    return rc;
}
