/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict on an envelope of signatures (src/sign/verified.h), in words and as JSON: who signed
 * with which key, and which subjects are not as they were signed, with both digests. */
#include "verify_words.h"

#include "base.h"
#include "json_text.h"
#include "put.h"

#include <assert.h>
#include <string.h>

enum { SHOWN = 20 }; /* changes in the text */

/* Each signature with its state, its key, and why it does not count where it does not. */
static json_t *signatures_json(const struct twin_trust_verdict *v)
{
    json_t *list = json_array();
    for (size_t i = 0; i < v->judged_count; i++) {
        const struct twin_judged *j = &v->judged[i];
        json_array_append_new(list, json_pack("{s:s, s:o, s:o, s:o}", "state",
                                              twin_signature_state_name(j->state), "key",
                                              tw_json_text(j->name), "keyid",
                                              tw_json_text(j->keyid), "why", tw_json_text(j->why)));
    }
    return list;
}

/* One line for each digest. */
static void print_digests(FILE *out, const char *label, const json_t *digests)
{
    const char *algorithm;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)digests, algorithm, value) {
        tw_put_to(out, "             %s  ", label);
        tw_put_to(out, "%s", algorithm);
        tw_put_to(out, ":");
        tw_put_to(out, "%s", json_string_value(value) ? json_string_value(value) : "?");
        tw_put_to(out, "\n");
    }
}

/* The first subjects that are not as they were signed, with both digests. */
static void print_changes(FILE *out, const json_t *changes)
{
    for (size_t i = 0; i < json_array_size(changes) && i < SHOWN; i++) {
        const json_t *c = json_array_get(changes, i);
        tw_put_to(out, "  %-9s  ", json_string_value(json_object_get(c, "change")));
        tw_put_to(out, "%s", json_string_value(json_object_get(c, "name")));
        tw_put_to(out, "\n");
        print_digests(out, "signed", json_object_get(c, "signed"));
        print_digests(out, "found ", json_object_get(c, "found"));
    }
    if (json_array_size(changes) > SHOWN)
        tw_put_to(out, "  and %zu more (--json lists all)\n", json_array_size(changes) - SHOWN);
}

json_t *tw_signed_json(const struct tw_verified *v, int64_t at_ns)
{
    static const char *const words[] = {[TW_VERIFIED_SAME] = "verified",
                                        [TW_VERIFIED_FAILED] = "failed",
                                        [TW_VERIFIED_OPEN] = "inconclusive"};
    assert((size_t)v->outcome < sizeof words / sizeof *words);
    char at[32];
    tw_utc_stamp(at_ns, at);
    return json_pack(
        "{s:s, s:s, s:s, s:o, s:o, s:i, s:i, s:o, s:i, s:O, s:s}", "schema", "twinrun.verify/1",
        "kind", v->bundle ? "bundle" : "envelope", "outcome", words[v->outcome], "why",
        tw_json_text(v->why), "predicate_type", tw_json_text(v->statement.predicate_type), "needed",
        (int)v->trust.needed, "good", (int)v->trust.good, "signatures", signatures_json(&v->trust),
        "subjects", (int)v->subjects, "changes", v->changes, "validity_checked_at", at);
}

void tw_signed_text(FILE *out, const struct tw_verified *v)
{
    static const char *const headings[] = {[TW_VERIFIED_SAME] = "VERIFIED    ",
                                           [TW_VERIFIED_FAILED] = "FAILED      ",
                                           [TW_VERIFIED_OPEN] = "INCONCLUSIVE"};
    tw_put_to(out, "%s  ", headings[v->outcome]);
    tw_put_to(out, "%s", v->why);
    tw_put_to(out, "\n");
    for (size_t i = 0; i < v->trust.judged_count; i++) {
        const struct twin_judged *j = &v->trust.judged[i];
        tw_put_to(out, "  %-13s  ", twin_signature_state_name(j->state));
        tw_put_to(out, "%s", *j->name ? j->name : "(no name)");
        tw_put_to(out, "  %.16s%s", j->keyid, strlen(j->keyid) > 16 ? "..." : "");
        tw_put_to(out, "%s", *j->why ? "  " : "");
        tw_put_to(out, "%s", j->why);
        tw_put_to(out, "\n");
    }
    print_changes(out, v->changes);
}
