/* SPDX-License-Identifier: Apache-2.0 */
/* in-toto Statement v1: which things, by their digests, a predicate is about. Here it is made and
 * read; what a predicate means is the business of run.c, model.c and of cmd/sign.c. Limits hold for
 * what is read: a signed statement may still come from a stranger's key. */
#include "internal.h"
#include "jcs.h"

#include "base.h"

#include <assert.h>
#include <jansson.h>
#include <string.h>

#define STATEMENT "https://in-toto.io/Statement/v1"
enum { NAME_BYTES_MAX = 4096, DIGESTS_MAX = 16, VALUE_BYTES_MAX = 512 };

void twin_subjects_free(struct twin_subjects *s)
{
    for (size_t i = 0; i < s->count; i++) {
        for (size_t j = 0; j < s->item[i].digest_count; j++) {
            tw_free(s->item[i].digest[j].algorithm);
            tw_free(s->item[i].digest[j].value);
        }
        tw_free(s->item[i].digest);
        tw_free(s->item[i].name);
    }
    tw_free(s->item);
    memset(s, 0, sizeof *s);
}

/* The count grows before it is known whether both copies were made: twin_subjects_free frees what
 * there is. */
int twin_subjects_digest(struct twin_subjects *s, const char *algorithm, const char *value,
                         struct twin_error *err)
{
    assert(s->count > 0);
    struct twin_subject *x = &s->item[s->count - 1];
    struct twin_subject_digest *list = tw_reallocarray(x->digest, x->digest_count + 1,
                                                       sizeof *list);
    if (!list)
        return tw_no_memory(err, "for a statement");
    x->digest = list;
    list[x->digest_count] = (struct twin_subject_digest){tw_strdup(algorithm), tw_strdup(value)};
    x->digest_count++;
    return list[x->digest_count - 1].algorithm && list[x->digest_count - 1].value
               ? 0
               : tw_no_memory(err, "for a statement");
}

/* Appends a subject without a digest, which its caller adds: a subject without one states
 * nothing. */
static int add_empty(struct twin_subjects *s, const char *name, struct twin_error *err)
{
    if (s->count == s->room) {
        const size_t room = s->room ? s->room * 2 : 8;
        struct twin_subject *list = tw_reallocarray(s->item, room, sizeof *list);
        if (!list)
            return tw_no_memory(err, "for a statement");
        s->item = list;
        s->room = room;
    }
    char *copy = tw_strdup(name);
    if (!copy)
        return tw_no_memory(err, "for a statement");
    s->item[s->count++] = (struct twin_subject){.name = copy};
    return 0;
}

int twin_subjects_add(struct twin_subjects *s, const char *name, const char *algorithm,
                      const char *value, struct twin_error *err)
{
    int rc = add_empty(s, name, err);
    return rc ? rc : twin_subjects_digest(s, algorithm, value, err);
}

/* The list as JSON; NULL: no memory, or a text is no UTF-8. A new reference. */
static json_t *subjects_json(const struct twin_subjects *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->count && list; i++) {
        json_t *digests = json_object();
        for (size_t j = 0; j < s->item[i].digest_count; j++)
            if (json_object_set_new(digests, s->item[i].digest[j].algorithm,
                                    json_string(s->item[i].digest[j].value)) != 0) {
                json_decref(digests);
                digests = NULL;
                break;
            }
        if (json_array_append_new(
                list, json_pack("{s:s, s:o}", "name", s->item[i].name, "digest", digests)) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

/* jansson takes NULL for a failed part and makes the whole NULL, so one look at the end
 * suffices. */
int twin_statement_text(const struct twin_subjects *s, const char *predicate_type,
                        const json_t *predicate, char **text, size_t *bytes, struct twin_error *err)
{
    struct tw_buf b = {.cap = TWIN_ENVELOPE_MAX};
    json_t *o = json_pack("{s:s, s:o, s:s, s:O}", "_type", STATEMENT, "subject", subjects_json(s),
                          "predicateType", predicate_type, "predicate",
                          (json_t *)(uintptr_t)predicate);
    int rc = o ? tw_jcs_write(o, &b, err)
               : twin_error_set(err, TWIN_EFORMAT,
                                "a name among the subjects is no UTF-8, which JSON needs; or there "
                                "is no memory for them");
    json_decref(o);
    *bytes = b.len;
    if (rc == 0 && !(*text = tw_buf_steal(&b)))
        rc = tw_no_memory(err, "for a statement");
    tw_buf_free(&b);
    return rc;
}

int twin_statement_envelope(const struct twin_subjects *s, const char *predicate_type,
                            const json_t *predicate, struct twin_envelope *out,
                            struct twin_error *err)
{
    char *text;
    size_t n;
    int rc = twin_statement_text(s, predicate_type, predicate, &text, &n, err);
    if (rc != 0)
        return rc;
    rc = twin_envelope_make(TWIN_PAYLOAD_INTOTO, text, n, out, err);
    tw_free(text);
    return rc;
}

/* ---- reading */

void twin_statement_free(struct twin_statement *s)
{
    twin_subjects_free(&s->subjects);
    tw_free(s->predicate_type);
    json_decref(s->predicate);
    memset(s, 0, sizeof *s);
}

/* Says which part of the statement is not as in-toto wants it. Returns TWIN_EFORMAT. */
static int refuse_statement(struct twin_error *err, const char *name, const char *expected)
{
    return twin_error_set(err, TWIN_EFORMAT, "%s: statement: expected %s, found something else",
                          name, expected);
}

/* Adds one subject with its digests. in-toto allows a subject without a name: it is "" then, and
 * can be compared only where names do not count. */
static int read_subject(json_t *one, const char *name, struct twin_subjects *out,
                        struct twin_error *err)
{
    const char *called = json_string_value(json_object_get(one, "name")), *algorithm;
    json_t *digests = json_object_get(one, "digest"), *value;
    if (!json_is_object(one) || (json_object_get(one, "name") && !called) ||
        (called && strlen(called) > NAME_BYTES_MAX))
        return refuse_statement(err, name, "subjects with a name of at most 4096 bytes");
    if (!json_is_object(digests) || json_object_size(digests) == 0 ||
        json_object_size(digests) > DIGESTS_MAX)
        return refuse_statement(err, name, "1 to 16 digests for each subject");
    int rc = add_empty(out, called ? called : "", err);
    json_object_foreach (digests, algorithm, value) {
        const char *text = json_string_value(value);
        if (!text || !*text || strlen(text) > VALUE_BYTES_MAX)
            return refuse_statement(err, name, "digests of 1 to 512 characters");
        rc = rc ? rc : twin_subjects_digest(out, algorithm, text, err);
    }
    return rc;
}

/* The payload is what was verified, byte by byte: no other text of the envelope is looked at. The
 * predicate is kept as it is, null or missing included. */
int twin_statement_parse(const struct twin_envelope *e, const char *name,
                         struct twin_statement *out, struct twin_error *err)
{
    struct twin_error own = TWIN_ERROR_INIT;
    err = err ? err : &own;
    memset(out, 0, sizeof *out);
    if (strcmp(e->type, TWIN_PAYLOAD_INTOTO) != 0) {
        char *safe = tw_printable(e->type, strlen(e->type));
        int rc = twin_error_set(err, TWIN_EFORMAT, "%s: payloadType: expected %s, found \"%s\"",
                                name, TWIN_PAYLOAD_INTOTO, safe ? safe : "");
        tw_free(safe);
        return rc;
    }
    json_t *o = tw_sign_json(e->payload, e->payload_bytes, name, err);
    if (!o)
        return err->code;
    const char *type = json_string_value(json_object_get(o, "_type"));
    const char *predicate_type = json_string_value(json_object_get(o, "predicateType"));
    json_t *list = json_object_get(o, "subject");
    int rc = 0;
    if (!type || strcmp(type, STATEMENT) != 0)
        rc = refuse_statement(err, name, "\"_type\": \"" STATEMENT "\"");
    else if (!predicate_type || !*predicate_type)
        rc = refuse_statement(err, name, "a predicateType");
    else if (!json_is_array(list) || json_array_size(list) == 0)
        rc = refuse_statement(err, name, "at least one subject");
    else if (!(out->predicate_type = tw_strdup(predicate_type)))
        rc = tw_no_memory(err, "for a statement");
    for (size_t i = 0; rc == 0 && i < json_array_size(list); i++)
        rc = read_subject(json_array_get(list, i), name, &out->subjects, err);
    out->predicate = json_incref(json_object_get(o, "predicate"));
    json_decref(o);
    if (rc != 0)
        twin_statement_free(out);
    return rc;
}
