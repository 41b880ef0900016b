/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun verify ENVELOPE: whom the options trust. The verdict is src/sign/verified.h's: are the
 * signatures good, are they enough, and is what lies here what was signed?
 */
#include "verify.h"

#include "runs.h"
#include "say.h"
#include "verify_words.h"

#include "base.h"
#include "verified.h"

#include "src/sign/sign.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the members stand in the object is the writer's choice, and the payload may be long: what
 * it is shows when all of it is read. */
static bool is_signed(const char *target, const char *head, size_t n)
{
    (void)target, (void)n;
    return head && head[strspn(head, " \t\r\n")] == '{';
}

/* A process of a job whose clock is pinned is shown another one: by that it is not judged. */
static void say_shown(int64_t now_ns)
{
    enum { ALIKE_S = 60 };
    const int64_t shown_ns = tw_realtime_ns();
    char shown[32], now[32];
    if (llabs(shown_ns - now_ns) <= ALIKE_S * INT64_C(1000000000))
        return;
    tw_utc_time(shown_ns, false, shown);
    tw_utc_time(now_ns, false, now);
    tw_say("keys are judged by this machine's clock, %s, and not by the one that this process is "
           "shown, %s",
           now, shown);
}

/* Without anybody to trust a good signature says nothing, so there is no default. */
int tw_signed_trust(const struct tw_verify_args *a, struct twin_trust **out, int64_t *at_ns,
                    struct twin_error *err)
{
    if (!a->keys.count == !a->trust)
        return twin_error_set(err, TWIN_EINVAL,
                              "expected whom to trust: --key PUB, or --trust FILE, found %s",
                              a->trust ? "both" : "neither");
    if (a->at && twin_trust_time(a->at, at_ns) != 0)
        return twin_error_set(
            err, TWIN_EINVAL,
            "--at: expected a day or time in UTC (2026-11-21, 2026-11-21T08:00:00Z), found \"%s\"",
            a->at);
    int rc = a->trust ? twin_trust_read(a->trust, out, err)
                      : twin_trust_keys((char *const *)(uintptr_t)a->keys.items, a->keys.count, out,
                                        err);
    if (rc != 0 || a->at)
        return rc;
    rc = twin_trust_now(*out, at_ns, err);
    if (rc != 0) {
        twin_trust_free(*out);
        *out = NULL;
    } else if (a->trust) {
        say_shown(*at_ns);
    }
    return rc;
}

/* The first operand is the envelope, the others what is held against it. The exit code. */
static int verify_envelope(char *const *operands, size_t count, const struct tw_verify_args *a)
{
    static const int exits[] = {[TW_VERIFIED_SAME] = TW_EXIT_SAME,
                                [TW_VERIFIED_FAILED] = TW_EXIT_DIFFER,
                                [TW_VERIFIED_OPEN] = TW_EXIT_INCONCLUSIVE};
    static const char *const words[] = {[TW_VERIFIED_SAME] = "verified",
                                        [TW_VERIFIED_FAILED] = "failed",
                                        [TW_VERIFIED_OPEN] = "open"};
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
        rc = tw_json_print(tw_signed_json(&v, q.at_ns));
    else
        tw_signed_text(stdout, &v);
    rc = rc ? rc : exits[v.outcome];
    tw_ledger_note_event(a->home, "artifact", words[v.outcome], operands[0]);
    tw_verified_free(&v);
    twin_trust_free(trust);
    return rc;
}

const struct tw_verify_kind tw_verify_signed = {"an envelope of signatures", is_signed, SIZE_MAX,
                                                verify_envelope};
