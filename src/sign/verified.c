/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verification as a whole: the envelope is read, its signatures are judged, its statement is
 * held against what lies here.
 */
#include "verified.h"

#include "base.h"
#include "phrase.h"
#include "found.h"
#include "json_load.h"
#include "json_text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- what was found, in a list that both forms of output are made from */

/* The digests of one subject by algorithm; null for none. */
static json_t *digests_json(const struct twin_subject *s)
{
    json_t *o = s ? json_object() : json_null();
    for (size_t i = 0; s && i < s->digest_count; i++)
        json_object_set_new(o, s->digest[i].algorithm, tw_json_text(s->digest[i].value));
    return o;
}

/* A call of twin_subjects_match becomes an item of the list. The name is the signed one where there
 * is one. */
static void add_change(void *list, enum twin_subject_change c,
                       const struct twin_subject *signed_one, const struct twin_subject *found)
{
    assert((c == TWIN_SUBJECT_ADDED) == !signed_one && (c == TWIN_SUBJECT_MISSING) == !found);
    static const char *const words[] = {"changed", "missing", "added"};
    const char *name = "";
    if (signed_one)
        name = signed_one->name;
    else if (found)
        name = found->name;
    json_t *change = json_pack("{s:s, s:o, s:o, s:o}", "change", words[c], "name",
                               tw_json_text(name), "signed", digests_json(signed_one), "found",
                               digests_json(found));
    json_array_append_new(list, change);
}

/* ---- the verdict as a sentence */

/* Sets outcome and sentence. Returns 0, since a verdict is no error. */
__attribute__((format(printf, 3, 4))) static int
verdict(struct tw_verified *v, enum tw_verified_outcome outcome, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    vsnprintf(v->why, sizeof v->why, format, ap);
    va_end(ap);
    v->outcome = outcome;
    return 0;
}

/* "2 changed, 1 added" */
static const char *changes_text(const json_t *changes, char out[96])
{
    static const char *const words[] = {"changed", "missing", "added"};
    size_t n = 0;
    out[0] = '\0';
    for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
        size_t count = 0;
        for (size_t i = 0; i < json_array_size(changes); i++) {
            const json_t *word = json_object_get(json_array_get(changes, i), "change");
            count += strcmp(json_string_value(word), words[w]) == 0;
        }
        if (count)
            n += (size_t)snprintf(out + n, 96 - n, "%s%zu %s", n ? ", " : "", count, words[w]);
    }
    return out;
}

/* ---- of runs */

/* What is noted while the subjects of runs are compared. */
struct of_runs {
    const struct twin_subjects *signed_ones, *found;
    json_t *changes;
    size_t counted, not_given;
    bool other_run;
};

/* Is ID/run.json among them, of the ID that the name begins with? */
static bool has_run(const struct twin_subjects *s, const char *name)
{
    const size_t n = strcspn(name, "/");
    for (size_t i = 0; i < s->count; i++)
        if (strncmp(s->item[i].name, name, n) == 0 && strcmp(s->item[i].name + n, "/run.json") == 0)
            return true;
    return false;
}

/* Keeps what counts. What came into a run's folder after it was signed is no change; a run that was
 * not given is not missing; of another run its name alone is listed. */
static void change_of_runs(void *user, enum twin_subject_change c,
                           const struct twin_subject *signed_one, const struct twin_subject *found)
{
    struct of_runs *o = user;
    if (c == TWIN_SUBJECT_ADDED && has_run(o->signed_ones, found->name))
        return;
    if (c == TWIN_SUBJECT_ADDED && has_run(o->found, found->name)) {
        /* Another run: its name alone says enough. */
        o->other_run = true;
        o->counted++;
        if (tw_ends(found->name, "/run.json"))
            add_change(o->changes, c, signed_one, found);
        return;
    }
    if (c == TWIN_SUBJECT_MISSING && !has_run(o->found, signed_one->name)) {
        o->not_given++;
        return;
    }
    o->counted++;
    add_change(o->changes, c, signed_one, found);
}

/* The verdict about runs. The sentences are asked from the worst down: another run, changed files,
 * a file that is not among the signed, a run that was not given. What was given without a run's own
 * record (run.json) are single files, which stand for themselves only. */
static int compare_runs(struct tw_verified *v, const struct twin_subjects *found, const char *first,
                        size_t operands)
{
    const struct twin_statement *st = &v->statement;
    const size_t files = st->subjects.count;
    struct of_runs o = {&st->subjects, found, v->changes, 0, 0, false};
    char text[96], more[32] = "";
    bool runs = false;
    twin_subjects_match(&st->subjects, found, true, change_of_runs, &o);
    for (size_t i = 0; i < found->count; i++)
        runs = runs || has_run(found, found->item[i].name);
    if (operands > 1)
        snprintf(more, sizeof more, " and %zu more", operands - 1);
    if (o.other_run)
        return verdict(v, TW_VERIFIED_FAILED, "%s%s: another run than was signed", first, more);
    if (o.counted && runs)
        return verdict(v, TW_VERIFIED_FAILED, "%s%s: not what was signed: %s", first, more,
                       changes_text(v->changes, text));
    if (o.counted)
        return verdict(v, TW_VERIFIED_FAILED, "%s%s: not among what was signed", first, more);
    if (runs && o.not_given)
        return verdict(v, TW_VERIFIED_OPEN,
                       "%s%s: as signed, but another run that was signed with it was not given",
                       first, more);
    if (!runs)
        return verdict(v, TW_VERIFIED_SAME, "%s%s: among the %zu files of what was signed, as %s",
                       first, more, files, found->item[0].name);
    if (strcmp(st->predicate_type, TWIN_PREDICATE_REPRODUCED) == 0) {
        const char *outcome = json_string_value(json_object_get(st->predicate, "outcome"));
        return verdict(v, TW_VERIFIED_SAME,
                       "%s%s: what was signed (%zu files), runs that are stated to agree: %s",
                       first, more, files, outcome ? outcome : "it is not said how");
    }
    return verdict(v, TW_VERIFIED_SAME, "%s%s is what was signed (%zu files)", first, more, files);
}

/* Models have rules of their own for what counts (model.c). The signature may lie in the folder. */
static int compare_model(struct tw_verified *v, const struct tw_verified_question *q,
                         size_t *changes, struct twin_error *err)
{
    const char *folder = q->operands[0];
    if (q->operand_count > 1)
        return twin_error_set(err, TWIN_EINVAL,
                              "expected the folder of the model, found %zu things",
                              q->operand_count);
    char *but = tw_signed_inside(folder, q->envelope);
    int rc = twin_model_match(&v->statement, q->envelope, folder, but, add_change, v->changes,
                              changes, err);
    tw_free(but);
    return rc;
}

/* The verdict about a file, a folder or a model. things: how many files the sentence counts. */
static int compare_others(struct tw_verified *v, const struct tw_verified_question *q,
                          const struct twin_subjects *found, bool by_name, struct twin_error *err)
{
    const struct twin_statement *st = &v->statement;
    const char *first = q->operands[0];
    size_t changes = 0, things = st->subjects.count;
    char text[96];
    int rc = 0;
    if (strcmp(st->predicate_type, TWIN_PREDICATE_MODEL) == 0) {
        things = json_array_size(json_object_get(st->predicate, "resources"));
        rc = compare_model(v, q, &changes, err);
    } else {
        changes = twin_subjects_match(&st->subjects, found, by_name, add_change, v->changes);
    }
    if (rc != 0)
        return rc;
    if (changes)
        return verdict(v, TW_VERIFIED_FAILED, "%s is not what was signed: %s", first,
                       changes_text(v->changes, text));
    if (things == 1)
        return verdict(v, TW_VERIFIED_SAME, "%s is what was signed", first);
    return verdict(v, TW_VERIFIED_SAME, "%s is what was signed (%zu files)", first, things);
}

/* Good signatures with nothing to compare are no success: nobody said what lies here. */
static int nothing_given(struct tw_verified *v)
{
    const size_t good = v->trust.good, things = v->subjects;
    return verdict(v, TW_VERIFIED_OPEN,
                   "the signature%s good, but nothing was given to compare with the %zu thing%s "
                   "that %s signed",
                   good == 1 ? " is" : "s are", things, tw_plural_s(things),
                   things == 1 ? "was" : "were");
}

/* Holds the statement against the operands. A model is compared by its own rules, so what lies
 * there is collected only for the others. */
static int compare_operands(struct tw_verified *v, const struct tw_verified_question *q,
                            struct twin_error *err)
{
    const struct twin_statement *st = &v->statement;
    struct twin_subjects found = {0};
    bool by_name = true;
    int rc = 0;
    if (q->operand_count == 0)
        return nothing_given(v);
    if (strcmp(st->predicate_type, TWIN_PREDICATE_MODEL) != 0)
        rc = tw_signed_found(st, q->home, q->envelope, q->operands, q->operand_count, &found,
                             &by_name, err);
    if (rc == 0 && tw_signed_is_run(st))
        rc = compare_runs(v, &found, q->operands[0], q->operand_count);
    else if (rc == 0)
        rc = compare_others(v, q, &found, by_name, err);
    twin_subjects_free(&found);
    return rc;
}

/* Which of the two forms it is. Errors are said by the reader of the form. */
static bool is_bundle(const char *text, size_t n)
{
    json_t *o = tw_json_load(text, n, JSON_REJECT_DUPLICATES, NULL);
    const bool bundle = o &&
                        (json_object_get(o, "mediaType") || json_object_get(o, "dsseEnvelope"));
    json_decref(o);
    return bundle;
}

/* Reads the envelope, or the bundle around one. */
static int parse_envelope(const struct tw_verified_question *q, bool *bundle,
                          struct twin_envelope *out, struct twin_error *err)
{
    char *text;
    size_t n;
    int rc = tw_read_file(q->envelope, TWIN_ENVELOPE_MAX, &text, &n, err);
    if (rc != 0)
        return rc;
    *bundle = is_bundle(text, n);
    if (*bundle)
        rc = twin_bundle_parse(text, n, q->envelope, out, err);
    else
        rc = twin_envelope_parse(text, n, q->envelope, q->foreign, out, err);
    tw_free(text);
    return rc;
}

/* The statement is read only after its signatures were enough. */
int tw_verified_envelope(const struct tw_verified_question *q, struct tw_verified *out,
                         struct twin_error *err)
{
    struct twin_envelope *e = &out->envelope;
    *out = (struct tw_verified){.changes = json_array()};
    int rc = parse_envelope(q, &out->bundle, e, err);
    rc = rc ? rc : twin_trust_judge(q->trust, e, q->at_ns, &out->trust, err);
    if (rc == 0 && !out->trust.trusted) {
        verdict(out, TW_VERIFIED_FAILED, "%s is not to be trusted: %s", q->envelope,
                out->trust.why);
    } else if (rc == 0) {
        rc = twin_statement_parse(e, q->envelope, &out->statement, err);
        out->subjects = out->statement.subjects.count;
        rc = rc ? rc : compare_operands(out, q, err);
    }
    if (rc != 0)
        tw_verified_free(out);
    return rc;
}

void tw_verified_free(struct tw_verified *v)
{
    twin_statement_free(&v->statement);
    twin_trust_verdict_free(&v->trust);
    twin_envelope_free(&v->envelope);
    json_decref(v->changes);
    *v = (struct tw_verified){0};
}
