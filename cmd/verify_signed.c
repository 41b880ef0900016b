/* SPDX-License-Identifier: Apache-2.0 */
/* twinrun verify ENVELOPE: whose signatures are good, are they enough, and is what lies here what they are about? */
#include "verify.h"

#include "json.h"
#include "say.h"
#include "signed.h"

#include "base.h"
#include "json_load.h"

#include <stdio.h>
#include <string.h>
#include <twin/sign.h>

enum { SHOWN = 20 };

/* Where the members stand in the object is the writer's choice, and the payload may be long: what it is shows when all of it is read. */
static bool is_signed(const char *target, const char *head, size_t n)
{
    (void)target, (void)n;
    return head && head[strspn(head, " \t\r\n")] == '{';
}

int tw_signed_trust(const struct tw_verify_args *a, struct twin_trust **out, int64_t *at_ns, struct twin_error *err)
{
    if (!a->keys.count == !a->trust)
        return twin_error_set(err, TWIN_EINVAL, "expected whom to trust: --key PUB, or --trust FILE, found %s", a->trust ? "both" : "neither");
    *at_ns = tw_realtime_ns();
    if (a->at && twin_trust_time(a->at, at_ns) != 0)
        return twin_error_set(err, TWIN_EINVAL, "--at: expected a day or time in UTC (2026-11-21, 2026-11-21T08:00:00Z), found \"%s\"", a->at);
    return a->trust ? twin_trust_read(a->trust, out, err) : twin_trust_keys((char *const *)(uintptr_t)a->keys.items, a->keys.count, out, err);
}

/* ---- what was found, in a list that both forms of output are made from */

static json_t *digests_json(const struct twin_subject *s)
{
    json_t *o = s ? json_object() : json_null();
    for (size_t i = 0; s && i < s->digest_count; i++)
        json_object_set_new(o, s->digest[i].algorithm, tw_json_text(s->digest[i].value));
    return o;
}

void tw_signed_change(void *list, enum twin_subject_change c, const struct twin_subject *signed_one, const struct twin_subject *found)
{
    static const char *const words[] = {"changed", "missing", "added"};
    const char *name = signed_one ? signed_one->name : found ? found->name : "";
    json_array_append_new(list, json_pack("{s:s, s:o, s:o, s:o}", "change", words[c], "name", tw_json_text(name), "signed", digests_json(signed_one), "found", digests_json(found)));
}

static json_t *signatures_json(const struct twin_trust_verdict *v)
{
    json_t *list = json_array();
    for (size_t i = 0; i < v->judged_count; i++) {
        const struct twin_judged *j = &v->judged[i];
        json_array_append_new(list, json_pack("{s:s, s:o, s:o, s:o}", "state", twin_signature_state_name(j->state), "key", tw_json_text(j->name), "keyid", tw_json_text(j->keyid),
                                              "why", tw_json_text(j->why)));
    }
    return list;
}

static void print_digests(const char *label, const json_t *digests)
{
    const char *algorithm;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)digests, algorithm, value)
    {
        tw_put("             %s  ", label);
        tw_put("%s", algorithm);
        tw_put(":");
        tw_put("%s", json_string_value(value) ? json_string_value(value) : "?");
        tw_put("\n");
    }
}

static void print_changes(const json_t *changes)
{
    for (size_t i = 0; i < json_array_size(changes) && i < SHOWN; i++) {
        const json_t *c = json_array_get(changes, i);
        tw_put("  %-9s  ", json_string_value(json_object_get(c, "change")));
        tw_put("%s", json_string_value(json_object_get(c, "name")));
        tw_put("\n");
        print_digests("signed", json_object_get(c, "signed"));
        print_digests("found ", json_object_get(c, "found"));
    }
    if (json_array_size(changes) > SHOWN)
        tw_put("  and %zu more (--json lists all)\n", json_array_size(changes) - SHOWN);
}

static const char *outcome_word(int rc)
{
    return rc == TW_EXIT_SAME ? "verified" : rc == TW_EXIT_INCONCLUSIVE ? "inconclusive" : "failed";
}

int tw_signed_print(const struct tw_signed *s, bool json)
{
    static const char *const headings[] = {"VERIFIED    ", "FAILED      ", "", "INCONCLUSIVE"};
    if (json) {
        char at[32];
        tw_utc_stamp(s->at_ns, at);
        int rc = tw_json_print(json_pack("{s:s, s:s, s:s, s:o, s:o, s:i, s:i, s:o, s:i, s:O, s:s}", "schema", "twinrun.verify/1", "kind", s->kind, "outcome", outcome_word(s->rc), "why",
                                         tw_json_text(s->why), "predicate_type", tw_json_text(s->predicate_type), "needed", (int)s->trust->needed, "good", (int)s->trust->good, "signatures",
                                         signatures_json(s->trust), "subjects", (int)s->subjects, "changes", s->changes, "validity_checked_at", at));
        return rc ? rc : s->rc;
    }
    tw_put("%s  ", headings[s->rc]);
    tw_put("%s", s->why);
    tw_put("\n");
    for (size_t i = 0; i < s->trust->judged_count; i++) {
        const struct twin_judged *j = &s->trust->judged[i];
        tw_put("  %-13s  ", twin_signature_state_name(j->state));
        tw_put("%s", *j->name ? j->name : "(no name)");
        tw_put("  %.16s%s", j->keyid, strlen(j->keyid) > 16 ? "..." : "");
        tw_put("%s", *j->why ? "  " : "");
        tw_put("%s", j->why);
        tw_put("\n");
    }
    print_changes(s->changes);
    return s->rc;
}

/* ---- an envelope */

static int verdict(struct tw_signed *s, int rc, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int verdict(struct tw_signed *s, int rc, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    vsnprintf(s->why, sizeof s->why, format, ap);
    va_end(ap);
    s->rc = rc;
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
        for (size_t i = 0; i < json_array_size(changes); i++)
            count += strcmp(json_string_value(json_object_get(json_array_get(changes, i), "change")), words[w]) == 0;
        if (count)
            n += (size_t)snprintf(out + n, 96 - n, "%s%zu %s", n ? ", " : "", count, words[w]);
    }
    return out;
}

/* ---- of runs */

struct of_runs { const struct twin_subjects *signed_ones, *found; json_t *changes; size_t counted, not_given; bool other_run; };

/* Is ID/run.json among them, of the ID that the name begins with? */
static bool has_run(const struct twin_subjects *s, const char *name)
{
    const size_t n = strcspn(name, "/");
    for (size_t i = 0; i < s->count; i++)
        if (strncmp(s->item[i].name, name, n) == 0 && strcmp(s->item[i].name + n, "/run.json") == 0)
            return true;
    return false;
}

/* What came into a run's folder after it was signed is no change; a run that was not given is not missing. */
static void change_of_runs(void *user, enum twin_subject_change c, const struct twin_subject *signed_one, const struct twin_subject *found)
{
    struct of_runs *o = user;
    if (c == TWIN_SUBJECT_ADDED && has_run(o->signed_ones, found->name))
        return;
    if (c == TWIN_SUBJECT_ADDED && has_run(o->found, found->name)) { /* its name alone says enough */
        o->other_run = true;
        o->counted++;
        if (tw_ends(found->name, "/run.json"))
            tw_signed_change(o->changes, c, signed_one, found);
        return;
    }
    if (c == TWIN_SUBJECT_MISSING && !has_run(o->found, signed_one->name)) {
        o->not_given++;
        return;
    }
    o->counted++;
    tw_signed_change(o->changes, c, signed_one, found);
}

static int compare_runs(struct tw_signed *s, const struct twin_statement *st, const struct twin_subjects *found, const char *first, size_t operands)
{
    struct of_runs o = {&st->subjects, found, s->changes, 0, 0, false};
    char text[96];
    bool runs = false;
    twin_subjects_match(&st->subjects, found, true, change_of_runs, &o);
    for (size_t i = 0; i < found->count; i++)
        runs = runs || has_run(found, found->item[i].name);
    char more[32] = "";
    if (operands > 1)
        snprintf(more, sizeof more, " and %zu more", operands - 1);
    if (o.other_run)
        return verdict(s, TW_EXIT_DIFFER, "%s%s: another run than was signed", first, more);
    if (o.counted)
        return verdict(s, TW_EXIT_DIFFER, runs ? "%s%s: not what was signed: %s" : "%s%s: not among what was signed", first, more, changes_text(s->changes, text));
    if (runs && o.not_given)
        return verdict(s, TW_EXIT_INCONCLUSIVE, "%s%s: as signed, but another run that was signed with it was not given", first, more);
    if (!runs)
        return verdict(s, TW_EXIT_SAME, "%s%s: among the %zu files of what was signed, as %s", first, more, st->subjects.count, found->item[0].name);
    if (strcmp(st->predicate_type, TWIN_PREDICATE_REPRODUCED) == 0)
        return verdict(s, TW_EXIT_SAME, "%s%s: what was signed (%zu files), runs that are stated to agree: %s", first, more, st->subjects.count,
                       json_string_value(json_object_get(st->predicate, "outcome")) ? json_string_value(json_object_get(st->predicate, "outcome")) : "it is not said how");
    return verdict(s, TW_EXIT_SAME, "%s%s is what was signed (%zu files)", first, more, st->subjects.count);
}

/* ---- the verdict */

static int compare_others(struct tw_signed *s, const struct twin_statement *st, const char *path, char *const *rest, size_t count, const struct twin_subjects *found, bool by_name,
                          struct twin_error *err)
{
    size_t changes = 0, things = st->subjects.count;
    char text[96];
    int rc = 0;
    if (strcmp(st->predicate_type, TWIN_PREDICATE_MODEL) == 0) {
        char *but = tw_signed_inside(rest[0], path);
        things = json_array_size(json_object_get(st->predicate, "resources"));
        rc = count > 1 ? twin_error_set(err, TWIN_EINVAL, "expected the folder of the model, found %zu things", count)
                       : twin_model_match(st, path, rest[0], but, tw_signed_change, s->changes, &changes, err);
        tw_free(but);
    } else
        changes = twin_subjects_match(&st->subjects, found, by_name, tw_signed_change, s->changes);
    if (rc == 0 && changes == 0)
        verdict(s, TW_EXIT_SAME, things == 1 ? "%s is what was signed" : "%s is what was signed (%zu files)", rest[0], things);
    else if (rc == 0)
        verdict(s, TW_EXIT_DIFFER, "%s is not what was signed: %s", rest[0], changes_text(s->changes, text));
    return rc;
}

/* Compares with the operands; the sentence of the verdict. */
static int compare(struct tw_signed *s, const struct twin_statement *st, const struct tw_verify_args *a, char *const *operands, size_t count, struct twin_error *err)
{
    const char *path = operands[0];
    char *const *rest = operands + 1;
    struct twin_subjects found = {0};
    bool by_name = true;
    int rc = 0;
    if (--count == 0)
        return verdict(s, TW_EXIT_INCONCLUSIVE, "the signature%s good, but nothing was given to compare with the %zu thing%s that %s signed", s->trust->good == 1 ? " is" : "s are",
                       st->subjects.count, st->subjects.count == 1 ? "" : "s", st->subjects.count == 1 ? "was" : "were");
    if (strcmp(st->predicate_type, TWIN_PREDICATE_MODEL) != 0)
        rc = tw_signed_found(st, a->home, path, rest, count, &found, &by_name, err);
    if (rc == 0 && tw_signed_is_run(st))
        rc = compare_runs(s, st, &found, rest[0], count);
    else if (rc == 0)
        rc = compare_others(s, st, path, rest, count, &found, by_name, err);
    twin_subjects_free(&found);
    return rc;
}

/* Which of the two forms it is. Errors are said by the reader of the form. */
static bool is_bundle(const char *text, size_t n)
{
    json_t *o = tw_json_load(text, n, JSON_REJECT_DUPLICATES, NULL);
    const bool bundle = o && (json_object_get(o, "mediaType") || json_object_get(o, "dsseEnvelope"));
    json_decref(o);
    return bundle;
}

static int verify(char *const *operands, size_t count, const struct tw_verify_args *a)
{
    const char *path = operands[0];
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_trust *trust = NULL;
    struct twin_trust_verdict judged = {0};
    struct twin_envelope e = {0};
    struct twin_statement st = {0};
    struct tw_signed s = {.trust = &judged, .changes = json_array()};
    char *text = NULL;
    size_t n;
    int rc = tw_signed_trust(a, &trust, &s.at_ns, &err);
    rc = rc ? rc : tw_read_file(path, TWIN_ENVELOPE_MAX, &text, &n, &err);
    const bool bundle = rc == 0 && is_bundle(text, n);
    s.kind = bundle ? "bundle" : "envelope";
    rc = rc ? rc : bundle ? twin_bundle_parse(text, n, path, &e, &err) : twin_envelope_parse(text, n, path, a->foreign, &e, &err);
    rc = rc ? rc : twin_trust_judge(trust, &e, s.at_ns, &judged, &err);
    if (rc == 0 && !judged.trusted)
        verdict(&s, TW_EXIT_DIFFER, "%s is not to be trusted: %s", path, judged.why);
    else if (rc == 0) {
        rc = twin_statement_parse(&e, path, &st, &err);
        s.predicate_type = st.predicate_type;
        s.subjects = st.subjects.count;
        rc = rc ? rc : compare(&s, &st, a, operands, count, &err);
    }
    rc = rc ? tw_trouble(&err, "nothing was verified") : tw_signed_print(&s, a->json);
    twin_statement_free(&st);
    twin_trust_verdict_free(&judged);
    twin_envelope_free(&e);
    twin_trust_free(trust);
    json_decref(s.changes);
    tw_free(text);
    return rc;
}

const struct tw_verify_kind tw_verify_signed = {"an envelope of signatures", is_signed, SIZE_MAX, verify};
