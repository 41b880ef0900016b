/* SPDX-License-Identifier: Apache-2.0 */
/* twinrun verify ENVELOPE: whom the options trust, and the verdict (src/sign/verified.h) in words
 * or JSON. */
#include "verify.h"

#include "json.h"
#include "say.h"
#include "signed.h"

#include "base.h"
#include "verified.h"

#include "src/sign/sign.h"

#include <stdio.h>
#include <string.h>

enum { SHOWN = 20 };

/* Where the members stand in the object is the writer's choice, and the payload may be long: what
 * it is shows when all of it is read. */
static bool is_signed(const char *target, const char *head, size_t n)
{
    (void)target, (void)n;
    return head && head[strspn(head, " \t\r\n")] == '{';
}

int tw_signed_trust(const struct tw_verify_args *a, struct twin_trust **out, int64_t *at_ns,
                    struct twin_error *err)
{
    if (!a->keys.count == !a->trust)
        return twin_error_set(err, TWIN_EINVAL,
                              "expected whom to trust: --key PUB, or --trust FILE, found %s",
                              a->trust ? "both" : "neither");
    *at_ns = tw_realtime_ns();
    if (a->at && twin_trust_time(a->at, at_ns) != 0)
        return twin_error_set(
            err, TWIN_EINVAL,
            "--at: expected a day or time in UTC (2026-11-21, 2026-11-21T08:00:00Z), found \"%s\"",
            a->at);
    return a->trust
               ? twin_trust_read(a->trust, out, err)
               : twin_trust_keys((char *const *)(uintptr_t)a->keys.items, a->keys.count, out, err);
}

/* ---- words */

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

static void print_digests(const char *label, const json_t *digests)
{
    const char *algorithm;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)digests, algorithm, value) {
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

static int print_json(const struct tw_verified *v, int64_t at_ns)
{
    static const char *const words[] = {[TW_VERIFIED_SAME] = "verified",
                                        [TW_VERIFIED_FAILED] = "failed",
                                        [TW_VERIFIED_OPEN] = "inconclusive"};
    char at[32];
    tw_utc_stamp(at_ns, at);
    return tw_json_print(json_pack(
        "{s:s, s:s, s:s, s:o, s:o, s:i, s:i, s:o, s:i, s:O, s:s}", "schema", "twinrun.verify/1",
        "kind", v->bundle ? "bundle" : "envelope", "outcome", words[v->outcome], "why",
        tw_json_text(v->why), "predicate_type", tw_json_text(v->statement.predicate_type), "needed",
        (int)v->trust.needed, "good", (int)v->trust.good, "signatures", signatures_json(&v->trust),
        "subjects", (int)v->subjects, "changes", v->changes, "validity_checked_at", at));
}

static void print_text(const struct tw_verified *v)
{
    static const char *const headings[] = {[TW_VERIFIED_SAME] = "VERIFIED    ",
                                           [TW_VERIFIED_FAILED] = "FAILED      ",
                                           [TW_VERIFIED_OPEN] = "INCONCLUSIVE"};
    tw_put("%s  ", headings[v->outcome]);
    tw_put("%s", v->why);
    tw_put("\n");
    for (size_t i = 0; i < v->trust.judged_count; i++) {
        const struct twin_judged *j = &v->trust.judged[i];
        tw_put("  %-13s  ", twin_signature_state_name(j->state));
        tw_put("%s", *j->name ? j->name : "(no name)");
        tw_put("  %.16s%s", j->keyid, strlen(j->keyid) > 16 ? "..." : "");
        tw_put("%s", *j->why ? "  " : "");
        tw_put("%s", j->why);
        tw_put("\n");
    }
    print_changes(v->changes);
}

static int verify(char *const *operands, size_t count, const struct tw_verify_args *a)
{
    static const int exits[] = {[TW_VERIFIED_SAME] = TW_EXIT_SAME,
                                [TW_VERIFIED_FAILED] = TW_EXIT_DIFFER,
                                [TW_VERIFIED_OPEN] = TW_EXIT_INCONCLUSIVE};
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_trust *trust = NULL;
    struct tw_verified v;
    struct tw_verified_question q = {.envelope = operands[0],
                                     .operands = operands + 1,
                                     .operand_count = count - 1,
                                     .home = a->home,
                                     .foreign = a->foreign};
    int rc = tw_signed_trust(a, &trust, &q.at_ns, &err);
    q.trust = trust;
    rc = rc ? rc : tw_verified_envelope(&q, &v, &err);
    if (rc != 0) {
        twin_trust_free(trust);
        return tw_trouble(&err, "nothing was verified");
    }
    if (a->json)
        rc = print_json(&v, q.at_ns);
    else
        print_text(&v);
    rc = rc ? rc : exits[v.outcome];
    tw_verified_free(&v);
    twin_trust_free(trust);
    return rc;
}

const struct tw_verify_kind tw_verify_signed = {"an envelope of signatures", is_signed, SIZE_MAX,
                                                verify};
