/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One entry of the log as the predicate of an in-toto statement, both ways:
 *
 *     {"number": 7, "previous": "SHA-256 of entry 6", "time": "2026-11-26T11:20:00Z",
 *      "kind": "move", "model": "resnet", "version": 3, "from": "canary", "to": "production",
 *      "displaced": 2, "why": "...", "details": {...}}
 *
 * The subject is the version, "resnet@3", by its artifact's digest; of the first entry the registry
 * itself, by its id. Reading is strict: a field that is missing, of another type, or that does not
 * belong to the kind, makes the entry one that cannot be read.
 */
#include "registry.h"

#include "base.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static const char *const stages[TW_STAGES] = {"candidate", "canary", "production", "retired"};
static const char *const kinds[TW_ENTRY_KINDS] = {"open", "add",     "attach",  "move",  "canary",
                                                  "hold", "release", "collect", "vouch", "policy"};

const char *tw_stage_name(enum tw_stage s)
{
    return stages[s];
}

bool tw_stage_parse(const char *name, enum tw_stage *out)
{
    for (int i = 0; i < TW_STAGES; i++)
        if (strcmp(name, stages[i]) == 0) {
            *out = (enum tw_stage)i;
            return true;
        }
    return false;
}

const char *tw_entry_kind_name(enum tw_entry_kind k)
{
    return kinds[k];
}

bool tw_model_name_ok(const char *name)
{
    const size_t n = strlen(name);
    if (n == 0 || n > TW_REGISTRY_NAME_BYTES)
        return false;
    for (size_t i = 0; i < n; i++) {
        const char c = name[i];
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                            (c >= '0' && c <= '9') || c == '_' || c == '-';
        const bool begins = i == 0 || name[i - 1] == '/';
        if (!letter && (begins || (c != '.' && c != '/')))
            return false;
    }
    return name[n - 1] != '/';
}

void tw_entry_free(struct tw_entry *e)
{
    tw_free(e->model);
    tw_free(e->why);
    tw_free(e->signers);
    json_decref(e->details);
    memset(e, 0, sizeof *e);
}

/* ---- writing */

/* Sets a field; a failure shows when the whole is used, since jansson keeps none of it. */
static int set(json_t *o, const char *key, json_t *value, struct twin_error *err)
{
    return json_object_set_new(o, key, value) == 0 ? 0 : tw_no_memory(err, "for an entry");
}

static json_t *predicate_of(const struct tw_entry *e, struct twin_error *err)
{
    char when[32];
    tw_utc_time(e->time_ns, false, when); /* what twin_trust_time reads */
    json_t *o = json_pack("{s:I, s:s, s:s, s:s}", "number", (json_int_t)e->number, "previous",
                          e->previous, "time", when, "kind", kinds[e->kind]);
    int rc = o ? 0 : tw_no_memory(err, "for an entry");
    if (rc == 0 && e->version) {
        rc = set(o, "model", json_string(e->model), err);
        rc = rc ? rc : set(o, "version", json_integer((json_int_t)e->version), err);
    }
    if (rc == 0 && e->kind == TW_ENTRY_MOVE) {
        rc = set(o, "from", json_string(stages[e->from]), err);
        rc = rc ? rc : set(o, "to", json_string(stages[e->to]), err);
        rc = rc ? rc : set(o, "displaced", json_integer((json_int_t)e->displaced), err);
    }
    if (rc == 0 && e->kind == TW_ENTRY_CANARY)
        rc = set(o, "passed", json_boolean(e->passed), err);
    if (rc == 0)
        rc = set(o, "why", json_string(e->why ? e->why : ""), err);
    if (rc == 0 && e->details)
        rc = set(o, "details", json_incref(e->details), err);
    if (rc == 0)
        return o;
    json_decref(o);
    return NULL;
}

/* What the statement is about. */
static int subject_of(const struct tw_entry *e, struct twin_subjects *s, struct twin_error *err)
{
    if (!e->version)
        return twin_subjects_add(s, "registry", "sha256", e->artifact, err);
    char *name = tw_printf("%s@%llu", e->model, (unsigned long long)e->version);
    int rc = name ? twin_subjects_add(s, name, "sha256", e->artifact, err)
                  : tw_no_memory(err, "for an entry");
    tw_free(name);
    return rc;
}

int tw_entry_envelope(const struct tw_entry *e, struct twin_envelope *out, struct twin_error *err)
{
    struct twin_subjects s = {0};
    json_t *predicate = predicate_of(e, err);
    int rc = predicate ? subject_of(e, &s, err) : TWIN_ENOMEM;
    rc = rc ? rc : twin_statement_envelope(&s, TW_REGISTRY_ENTRY, predicate, out, err);
    json_decref(predicate);
    twin_subjects_free(&s);
    return rc;
}

/* ---- reading */

/* What the reader of one entry carries: the first thing that is wrong ends it. */
struct reading {
    const char *name;
    const json_t *predicate;
    size_t used; /* fields that were read: a field more is one that nobody looked at */
    struct twin_error *err;
};

static int wrong(const struct reading *r, const char *key, const char *expected)
{
    return twin_error_set(r->err, TWIN_EFORMAT, "%s: \"%s\": expected %s", r->name, key, expected);
}

static int read_number(struct reading *r, const char *key, uint64_t least, uint64_t *out)
{
    const json_t *v = json_object_get(r->predicate, key);
    const json_int_t n = json_is_integer(v) ? json_integer_value(v) : -1;
    if (n < 0 || (uint64_t)n < least || n > TW_REGISTRY_ENTRIES_MAX)
        return wrong(r, key, "a whole number in its range");
    r->used++;
    *out = (uint64_t)n;
    return 0;
}

static int read_text(struct reading *r, const char *key, const char **out)
{
    const json_t *v = json_object_get(r->predicate, key);
    if (!json_is_string(v))
        return wrong(r, key, "a text");
    r->used++;
    *out = json_string_value(v);
    return 0;
}

static int read_stage(struct reading *r, const char *key, enum tw_stage *out)
{
    const char *text = NULL;
    int rc = read_text(r, key, &text);
    if (rc != 0)
        return rc;
    return tw_stage_parse(text, out) ? 0 : wrong(r, key, "a stage");
}

/* A newer twinrun may know kinds that we do not: to go on without them would be to guess. */
static int read_kind(struct reading *r, enum tw_entry_kind *out)
{
    const char *text = NULL;
    int rc = read_text(r, "kind", &text);
    if (rc != 0)
        return rc;
    for (int i = 0; i < TW_ENTRY_KINDS; i++)
        if (strcmp(text, kinds[i]) == 0) {
            *out = (enum tw_entry_kind)i;
            return 0;
        }
    return twin_error_set(r->err, TWIN_EVERSION,
                          "%s: an entry of kind \"%.24s\": changed, or written by a newer twinrun",
                          r->name, text);
}

static int read_head(struct reading *r, struct tw_entry *e)
{
    const char *text = NULL;
    int rc = read_number(r, "number", 1, &e->number);
    rc = rc ? rc : read_text(r, "previous", &text);
    if (rc == 0 && !(e->number == 1 ? *text == '\0' : tw_is_hex(text, 64)))
        rc = wrong(r, "previous", "the SHA-256 of the entry before, of the first one nothing");
    if (rc == 0)
        snprintf(e->previous, sizeof e->previous, "%s", text);
    rc = rc ? rc : read_text(r, "time", &text);
    if (rc == 0 && twin_trust_time(text, &e->time_ns) != 0)
        rc = wrong(r, "time", "a time in UTC");
    return rc ? rc : read_kind(r, &e->kind);
}

/* Is this kind about a version of a model? */
static bool of_a_version(enum tw_entry_kind k)
{
    return k != TW_ENTRY_OPEN && k != TW_ENTRY_VOUCH && k != TW_ENTRY_COLLECT &&
           k != TW_ENTRY_POLICY;
}

static int read_kind_fields(struct reading *r, struct tw_entry *e)
{
    const char *text = NULL;
    int rc = 0;
    if (of_a_version(e->kind)) {
        rc = read_text(r, "model", &text);
        if (rc == 0 && !tw_model_name_ok(text))
            rc = wrong(r, "model", "a name of letters, digits and . _ - /");
        if (rc == 0 && !(e->model = tw_strdup(text)))
            rc = tw_no_memory(r->err, "reading %s", r->name);
        rc = rc ? rc : read_number(r, "version", 1, &e->version);
    }
    if (rc == 0 && e->kind == TW_ENTRY_MOVE) {
        rc = read_stage(r, "from", &e->from);
        rc = rc ? rc : read_stage(r, "to", &e->to);
        rc = rc ? rc : read_number(r, "displaced", 0, &e->displaced);
    }
    if (rc == 0 && e->kind == TW_ENTRY_CANARY) {
        const json_t *v = json_object_get(r->predicate, "passed");
        if (!json_is_boolean(v))
            return wrong(r, "passed", "true or false");
        e->passed = json_is_true(v);
        r->used++;
    }
    return rc;
}

static int read_rest(struct reading *r, struct tw_entry *e)
{
    const char *text = NULL;
    int rc = read_text(r, "why", &text);
    if (rc == 0 && !(e->why = tw_strdup(text)))
        rc = tw_no_memory(r->err, "reading %s", r->name);
    json_t *details = json_object_get(r->predicate, "details");
    if (rc == 0 && details) {
        if (!json_is_object(details))
            return wrong(r, "details", "an object");
        e->details = json_incref(details);
        r->used++;
    }
    if (rc == 0 && json_object_size(r->predicate) != r->used)
        rc = twin_error_set(r->err, TWIN_EFORMAT,
                            "%s: expected the %zu fields of an entry \"%s\", found %zu", r->name,
                            r->used, kinds[e->kind], json_object_size(r->predicate));
    return rc;
}

/* The one subject, which says the same as the fields do. */
static int read_subject(struct reading *r, const struct twin_statement *st, struct tw_entry *e)
{
    const struct twin_subject *s = st->subjects.item;
    if (st->subjects.count != 1 || s->digest_count != 1 ||
        strcmp(s->digest[0].algorithm, "sha256") != 0 || !tw_is_hex(s->digest[0].value, 64))
        return wrong(r, "subject", "one, with its SHA-256");
    char *name = e->version ? tw_printf("%s@%llu", e->model, (unsigned long long)e->version)
                            : tw_strdup("registry");
    if (!name)
        return tw_no_memory(r->err, "reading %s", r->name);
    int rc = strcmp(name, s->name) == 0 ? 0 : wrong(r, "subject", "the version of the fields");
    tw_free(name);
    memcpy(e->artifact, s->digest[0].value, sizeof e->artifact);
    return rc;
}

int tw_entry_parse(const struct twin_envelope *env, const char *name, struct tw_entry *out,
                   struct twin_error *err)
{
    struct twin_statement st = {0};
    memset(out, 0, sizeof *out);
    int rc = twin_statement_parse(env, name, &st, err);
    if (rc == 0 && strcmp(st.predicate_type, TW_REGISTRY_ENTRY) != 0)
        rc = twin_error_set(err, TWIN_EFORMAT,
                            "%s: expected an entry of a registry, found a statement of type %.80s",
                            name, st.predicate_type);
    struct reading r = {.name = name, .predicate = st.predicate, .err = err};
    rc = rc ? rc : read_head(&r, out);
    rc = rc ? rc : read_kind_fields(&r, out);
    rc = rc ? rc : read_rest(&r, out);
    rc = rc ? rc : read_subject(&r, &st, out);
    twin_statement_free(&st);
    if (rc != 0)
        tw_entry_free(out);
    return rc;
}
