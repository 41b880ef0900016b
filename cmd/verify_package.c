/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun verify PACKAGE: every file against its manifest, nothing more, nothing less, and the
 * signature. replay and audit open packages by the same function, so that what they use was
 * verified.
 */
#include "verify.h"

#include "say.h"
#include "terminal.h"
#include "verify_words.h"

#include "base.h"

#include <stdio.h>

static bool is_package(const char *target, const char *head, size_t n)
{
    (void)n;
    return !head && twin_package_is(target);
}

/* Ten times a second is as often as one can read it. */
static void show_progress(void *user, uint64_t bytes, uint64_t all)
{
    static uint64_t next_ns;
    char line[120], a[16], b[16];
    (void)user;
    uint64_t now = tw_monotonic_ns();
    if (!tw_progress_on() || now < next_ns)
        return;
    next_ns = now + 100000000;
    snprintf(line, sizeof line, "verifying: %s of %s", tw_human_bytes(bytes, a),
             tw_human_bytes(all, b));
    tw_progress_line(line);
}

/* copy: where the files go as they are verified; NULL: nowhere. What was verified cannot change
 * between the look and the use of it. */
int tw_package_open(const char *dir, struct twin_trust *trust, int64_t at_ns, const char *copy,
                    struct twin_bag_verdict *out)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_bag_options o = {
        .trust = trust, .at_ns = at_ns, .progress = show_progress, .copy = copy};
    int rc = twin_package_verify(dir, &o, out, &err);
    tw_progress_clear();
    return rc ? tw_trouble(&err, "nothing was verified") : -1;
}

/* Findings are the answer 1; errors are trouble. */
static int verify_bag(char *const *operands, size_t count, const struct tw_verify_args *a)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_trust *trust = NULL;
    struct twin_bag_verdict v;
    int64_t at_ns = tw_realtime_ns();
    (void)count;
    if ((a->keys.count || a->trust) && tw_signed_trust(a, &trust, &at_ns, &err) != 0)
        return tw_trouble(&err, "nothing was verified");
    int rc = tw_package_open(operands[0], trust, at_ns, NULL, &v);
    twin_trust_free(trust);
    if (rc >= 0)
        return rc;
    rc = v.findings ? TW_EXIT_DIFFER : TW_EXIT_SAME;
    if (a->json) {
        int bad = tw_json_print(tw_package_json(operands[0], &v));
        rc = bad ? bad : rc;
    } else {
        tw_package_text(stdout, operands[0], &v);
    }
    twin_bag_verdict_free(&v);
    return rc;
}

const struct tw_verify_kind tw_verify_package = {"a package", is_package, 1, verify_bag};
